/* Greedy lowest-offset arena planner. */
#include "plan.h"

#include <stdlib.h>

#include "ie_core.h"

/* The work lists of one plan: n entries each. The four arrays are indexed like the caller's buffers. */
typedef struct {
    uint32_t *off, *size, *first, *last;
    uint32_t *order;  /* buffers in the order of placing */
    uint32_t *placed; /* those placed so far, by ascending offset */
    uint32_t n_placed;
} plan_work;

typedef struct {
    uint64_t units;
    uint32_t first, index;
} plan_key;

/* Larger first, then earlier first, then the caller's order: a total order, so the plan does not depend on qsort. */
static int key_cmp(const void *pa, const void *pb) {
    const plan_key *a = pa, *b = pb;
    if (a->units != b->units) return a->units > b->units ? -1 : 1;
    if (a->first != b->first) return a->first < b->first ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

/* Checks the input and fills sizes, ranges and the order. */
static ie_status take_input(const ie_plan_buf *b, uint32_t n, plan_work *w, ie_error *err) {
    plan_key *keys = ie_calloc(n, sizeof *keys, "memory plan", err);
    if (!keys) return IE_E_NOMEM;
    ie_status st = IE_OK;
    for (uint32_t i = 0; i < n && st == IE_OK; i++) {
        uint64_t units = b[i].bytes / IE_PLAN_UNIT + (b[i].bytes % IE_PLAN_UNIT != 0u);
        if (b[i].first > b[i].last)
            st = ie_fail(err, IE_E_ARG, "memory plan: buffer %u lives from op %u to op %u; the first must not be later",
                         i, b[i].first, b[i].last);
        else if (units > UINT32_MAX)
            st = ie_fail(err, IE_E_NOMEM, "memory plan: buffer %u of %llu bytes exceeds the arena's limit of 1 TiB", i,
                         (unsigned long long)b[i].bytes);
        else {
            keys[i] = (plan_key){.units = units, .first = b[i].first, .index = i};
            w->size[i] = (uint32_t)units;
            w->first[i] = b[i].first;
            w->last[i] = b[i].last;
        }
    }
    if (st == IE_OK) {
        qsort(keys, n, sizeof *keys, key_cmp);
        for (uint32_t i = 0; i < n; i++) w->order[i] = keys[i].index;
    }
    free(keys);
    return st;
}

/* Lowest offset for buffer i among the placed ones that live at the same time; the walk is by ascending offset, `end`
 * is the highest end seen, so a gap before the next buffer is free of all of them. 64 bits: the sum may pass 2^32. */
static uint64_t lowest_offset(const plan_work *w, uint32_t i) {
    uint64_t end = 0;
    for (uint32_t k = 0; k < w->n_placed; k++) {
        uint32_t p = w->placed[k];
        if (!ie_plan_alive(w->first[i], w->last[i], w->first[p], w->last[p])) continue;
        if (w->off[p] >= end && w->off[p] - end >= w->size[i]) break;
        uint64_t p_end = (uint64_t)w->off[p] + w->size[p];
        if (p_end > end) end = p_end;
    }
    return end;
}

static void insert_placed(plan_work *w, uint32_t i) {
    uint32_t k = w->n_placed++;
    for (; k > 0 && w->off[w->placed[k - 1u]] > w->off[i]; k--) w->placed[k] = w->placed[k - 1u];
    w->placed[k] = i;
}

static ie_status place_all(ie_plan_buf *b, uint32_t n, plan_work *w, uint64_t *arena_units, ie_error *err) {
    uint64_t top = 0;
    for (uint32_t k = 0; k < n; k++) {
        uint32_t i = w->order[k];
        uint64_t off = w->size[i] ? lowest_offset(w, i) : 0u, end = off + w->size[i];
        if (end > UINT32_MAX)
            return ie_fail(err, IE_E_NOMEM, "memory plan: an arena of %llu bytes exceeds the limit of 1 TiB",
                           (unsigned long long)(end * IE_PLAN_UNIT));
        w->off[i] = b[i].off = (uint32_t)off;
        if (w->size[i]) insert_placed(w, i);
        if (end > top) top = end;
    }
    *arena_units = top;
    return IE_OK;
}

ie_status ie_plan(ie_plan_buf *b, uint32_t n, uint64_t *arena_bytes, ie_error *err) {
    *arena_bytes = 0;
    if (n == 0) return IE_OK;
    if (n > IE_PLAN_MAX_BUFS)
        return ie_fail(err, IE_E_ARG, "memory plan: %u buffers; at most %u are allowed", n, IE_PLAN_MAX_BUFS);
    uint32_t *mem = ie_calloc((size_t)n * 6u, sizeof *mem, "memory plan", err);
    if (!mem) return IE_E_NOMEM;
    plan_work w = {.off = mem,
                   .size = mem + n,
                   .first = mem + 2u * (size_t)n,
                   .last = mem + 3u * (size_t)n,
                   .order = mem + 4u * (size_t)n,
                   .placed = mem + 5u * (size_t)n,
                   .n_placed = 0};
    uint64_t units = 0;
    ie_status st = take_input(b, n, &w, err);
    if (st == IE_OK) st = place_all(b, n, &w, &units, err);
    if (st == IE_OK && !ie_plan_check(w.off, w.size, w.first, w.last, n, (uint32_t)units))
        st = ie_fail(err, IE_E_ARG, "memory plan: the plan of %u buffers was refused by its check", n);
    if (st == IE_OK) *arena_bytes = units * IE_PLAN_UNIT;
    free(mem);
    return st;
}
