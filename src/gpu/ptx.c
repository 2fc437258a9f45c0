/* PTX as clang writes it: a head with the version, the target and what kernels share; then kernel after kernel, each from its ".visible .entry" to
 * the next one's. tests/e2e/test_kernels.py looks for anything else between kernels. */
#include "ptx.h"

#include <stdio.h>
#include <string.h>

#define ENTRY ".visible .entry "

bool gpu_ptx_is(const char *image) { return strncmp(image, "//", 2) == 0 || strncmp(image, ".version", 8) == 0; }

void gpu_ptx_version(const char *ptx, char *out, size_t n) {
    const char *at = strstr(ptx, ".version ");
    snprintf(out, n, "%.*s", at ? (int)strspn(at + 9, "0123456789.") : 1, at ? at + 9 : "?");
}

static bool wanted(const char *entry, uint32_t part) {
    const char *name = entry + sizeof ENTRY - 1u;
    return part == GPU_PART_ALL || gpu_kernel_part(name, strcspn(name, "(")) == part;
}

/* `to` in the place of what is behind the first `mark`, as far as the text goes. */
static void put_behind(char *text, const char *mark, const char *to) {
    char *at = strstr(text, mark);
    if (at)
        for (at += strlen(mark); *at && *to; at++, to++) *at = *to;
}

/* The text is for sm_80; what only newer cards know stands in it behind a mark that makes it a comment (kernels/gpu.h: IE_SM90). For such a card: for
 * sm_90, as PTX 8.0 (CUDA 12.0), without the marks. */
static void make_newer(char *text) {
    static const char mark[] = "//sm_90 ";
    put_behind(text, ".version ", "8.0");
    put_behind(text, ".target sm_", "90");
    for (char *at = text; (at = strstr(at, mark));) memset(at, ' ', sizeof mark - 1u);
}

char *gpu_ptx_text(const char *ptx, uint32_t part, bool newer, ie_error *err) {
    size_t n = strlen(ptx), len = 0;
    char *copy = ie_calloc(n + 1u, 1, "the kernels' text", err);
    if (!copy) return NULL;
    for (const char *at = ptx, *next; *at; at = next) {
        bool kernel = strncmp(at, ENTRY, sizeof ENTRY - 1u) == 0;
        next = strstr(at + 1, ENTRY);
        if (!next) next = ptx + n;
        if (kernel && !wanted(at, part)) continue;
        memcpy(copy + len, at, (size_t)(next - at));
        len += (size_t)(next - at);
    }
    if (newer) make_newer(copy);
    return copy;
}
