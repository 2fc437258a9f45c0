/* The work queue of both merge algorithms: a binary heap, smallest key first. */
#ifndef IE_HEAP_H
#define IE_HEAP_H

#include "../base.h"

typedef struct {
    uint64_t key;  /* priority in the upper half (smaller is sooner), position of the left symbol in the lower */
    uint32_t a, b; /* what the caller needs to see that an entry is out of date */
} ie_heap_item;

typedef struct {
    ie_heap_item *v;
    size_t n, cap;
} ie_heap;

static inline bool ie_heap_push(ie_heap *h, ie_heap_item x, ie_error *err) {
    if (h->n == h->cap && !ie_grow(&h->v, &h->cap, h->n + 1, sizeof *h->v, "merge queue", err)) return false;
    size_t i = h->n++;
    for (; i && h->v[(i - 1) / 2].key > x.key; i = (i - 1) / 2) h->v[i] = h->v[(i - 1) / 2];
    h->v[i] = x;
    return true;
}

/* The heap must not be empty. */
static inline ie_heap_item ie_heap_pop(ie_heap *h) {
    ie_heap_item top = h->v[0], x = h->v[--h->n];
    size_t i = 0;
    for (size_t c = 1; c < h->n; c = 2 * i + 1) {
        if (c + 1 < h->n && h->v[c + 1].key < h->v[c].key) c++;
        if (h->v[c].key >= x.key) break;
        h->v[i] = h->v[c];
        i = c;
    }
    if (h->n) h->v[i] = x;
    return top;
}

#endif
