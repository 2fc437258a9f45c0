/* The decoder on arbitrary words: whatever is accepted must fit in the words given, print in full whatever the buffer's size, and
 * decode to the same fields from its own words alone. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../../sim/isa.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t n = size / 4 < 8 ? size / 4 : 8;
    uint32_t *w = malloc(n ? n * sizeof *w : 1);
    char text[512], cut[17];
    sim_inst in, again;
    if (!w) {
        return 0;
    }
    memcpy(w, data, n * sizeof *w);
    int used = sim_decode(w, n, &in);
    if (used < 0 || (size_t)used > n || used > 4) {
        abort();
    }
    if (used > 0) {
        int len = sim_disasm(&in, 0, text, sizeof text);
        if (len <= 0 || (size_t)len >= sizeof text || strlen(text) != (size_t)len) {
            abort();
        }
        if (sim_disasm(&in, 0, cut, sizeof cut) != len || strncmp(cut, text, sizeof cut - 1) != 0) {
            abort();
        }
        if (sim_decode(in.words, in.ndw, &again) != used || memcmp(&in, &again, sizeof in) != 0) {
            abort();
        }
        if (in.op == SIM_OP_NONE || in.op >= SIM_OP_COUNT || sim_decode(w, (size_t)used - 1, &again) != 0) {
            abort();
        }
    }
    free(w);
    return 0;
}
