/* libFuzzer target of the reader of saved prefixes: any bytes are a file. Its checksums are made right first (but for inputs that begin
 * with an odd byte), so that what they guard is reached. What was kept must be whole paths; after a refusal nothing may be left. */
#include <stdlib.h>
#include <string.h>

#include "prefix_file.h"

#define PAGES 8u
#define PAGE_BYTES 16u
#define STATE_BYTES 8u
#define CHECK(x)                     \
    do {                             \
        if (!(x)) __builtin_trap();  \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static ie_status load(void *user, uint32_t page, const uint8_t *data, ie_error *err) {
    CHECK(page < PAGES);
    memcpy((uint8_t *)user + page * PAGE_BYTES, data, PAGE_BYTES);
    return data[0] == 0xEE ? ie_fail(err, IE_E_DEVICE, "made to fail") : IE_OK;
}

/* Rights the header and every entry that lies inside. */
static void seal(uint8_t *d, size_t n) {
    prefix_header h;
    if (n < sizeof h) return;
    memcpy(&h, d, sizeof h);
    h = (prefix_header){.magic = PREFIX_MAGIC, .version = PREFIX_VERSION, .n_entries = h.n_entries, .model = 1, .page_bytes = PAGE_BYTES, .state_bytes = STATE_BYTES};
    h.check = prefix_hash(PREFIX_SEED, &h, offsetof(prefix_header, check));
    memcpy(d, &h, sizeof h);
    for (size_t at = sizeof h; at + sizeof(prefix_entry) <= n;) {
        prefix_entry e;
        memcpy(&e, d + at, sizeof e);
        size_t bytes = PAGE_BYTES + (e.has_state ? STATE_BYTES : 0);
        if (n - at - sizeof e < bytes) return;
        e.check = prefix_check(&e, d + at + sizeof e, bytes);
        memcpy(d + at, &e, sizeof e);
        at += sizeof e + bytes;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2) return 0;
    bool recurrent = data[0] & 2;
    uint8_t store[PAGES * PAGE_BYTES], *copy = malloc(size - 1);
    if (!copy) return 0;
    memcpy(copy, data + 1, size - 1);
    if (!(data[0] & 1)) seal(copy, size - 1);
    FILE *f = fmemopen(copy, size - 1, "rb");
    ie_error err = {0};
    ie_pages *p = ie_pages_new(PAGES, 3 * STATE_BYTES, &err);
    int32_t n = -1;
    prefix_shape s = {.model = 1, .page_bytes = PAGE_BYTES, .state_bytes = STATE_BYTES, .n_vocab = 1000, .recurrent = recurrent};
    if (f && p) {
        ie_status st = prefix_read(&s, p, f, load, store, &n, &err);
        CHECK(st == IE_OK ? (uint32_t)n == ie_pages_kept(p) : err.msg[0] && ie_pages_kept(p) == 0);
        CHECK(ie_pages_available(p) == PAGES && ie_pages_free_count(p) == PAGES - ie_pages_kept(p));
        for (uint32_t i = 0; i < PAGES; i++) {
            uint32_t parent, at = i;
            const int32_t *tokens;
            uint64_t stamp;
            if (ie_pages_get(p, i, &parent, &tokens, &stamp))
                for (; at != IE_NO_PAGE; at = parent) CHECK(ie_pages_get(p, at, &parent, &tokens, &stamp) && ie_pages_find(p, parent, tokens) == at);
        }
    }
    if (f) fclose(f);
    ie_pages_free(p);
    free(copy);
    return 0;
}
