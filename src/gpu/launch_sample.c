/* Launches that choose among logits (kernels/sample.c). Work memory: counters of rows, then keys or shares' results. */
#include "gpu.h"

#define LANES 256u
#define MAX_ROWS 16u /* IE_HEAD_ROWS: a head's rows */
#define COUNT_BYTES 256u

_Static_assert(sizeof(ie_abi_best) <= IE_TOPK_MAX * 8u, "a row's work memory serves both");

uint64_t gpu_sample_bytes(uint32_t rows) { return COUNT_BYTES + (uint64_t)rows * IE_TOPK_PARTS * IE_TOPK_MAX * 8u; }

bool gpu_topk_fits(uint32_t n, uint32_t k) { return k >= 1 && k <= IE_TOPK_MAX && n >= 1 && n <= IE_TOPK_PARTS * IE_TOPK_KEYS; }

/* Logits of a share: a function of the row's length alone, since the probability's sum is added up by shares. */
static uint32_t each_of(uint32_t n) {
    uint32_t each = (n + IE_TOPK_PARTS - 1u) / IE_TOPK_PARTS;
    return each < 1024u ? 1024u : each;
}
static uint32_t shares_of(uint32_t n) { return (n + each_of(n) - 1u) / each_of(n); }

static ie_status rows_check(uint32_t rows, ie_error *err) {
    return rows <= MAX_ROWS ? IE_OK : ie_fail(err, IE_E_ARG, "sampling: %u rows at a time, allowed are 1 to %u", rows, MAX_ROWS);
}

ie_status gpu_launch_topk(gpu_ptr logits, uint32_t n, uint32_t ld, uint32_t rows, uint32_t k, gpu_ptr work, gpu_ptr out,
                          gpu_launches *l, ie_error *err) {
    if (!gpu_topk_fits(n, k))
        return ie_fail(err, IE_E_ARG, "sampling: %u of %u logits, allowed are 1 to %u of up to %u", k, n, IE_TOPK_MAX, IE_TOPK_PARTS * IE_TOPK_KEYS);
    ie_abi_topk a = {.x = logits, .keys = work + COUNT_BYTES, .out = out, .n = n, .x_ld = ld, .k = k, .shares = shares_of(n), .each = each_of(n)};
    ie_status st = rows_check(rows, err);
    if (!st) st = gpu_add(l, "ie_topk_part", a.shares, rows, LANES, &a, sizeof a, err);
    return st ? st : gpu_add(l, "ie_topk_merge", 1, rows, LANES, &a, sizeof a, err);
}

ie_status gpu_launch_argmax(gpu_ptr logits, uint32_t n, uint32_t ld, uint32_t rows, gpu_ptr work, gpu_ptr out, gpu_launches *l,
                            ie_error *err) {
    if (!gpu_topk_fits(n, 1)) return ie_fail(err, IE_E_ARG, "sampling: the best of %u logits, allowed are up to %u", n, IE_TOPK_PARTS * IE_TOPK_KEYS);
    ie_abi_argmax a = {.x = logits, .part = work + COUNT_BYTES, .count = work, .out = out, .n = n, .x_ld = ld, .shares = shares_of(n), .each = each_of(n)};
    ie_status st = rows_check(rows, err);
    return st ? st : gpu_add(l, "ie_argmax", a.shares, rows, LANES, &a, sizeof a, err);
}
