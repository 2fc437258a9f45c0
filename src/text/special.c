#include "special.h"

#include "strmap.h"

#include <stdlib.h>

bool ie_special_init(ie_special *a, size_t total_bytes, ie_error *err) {
    *a = (ie_special){0};
    if (total_bytes >= UINT32_MAX / 4) {
        ie_fail(err, IE_E_FORMAT, "special tokens: %zu bytes of text, at most 2^30 are allowed", total_bytes);
        return false;
    }
    size_t slots = 16;
    while (slots < 2 * total_bytes) slots *= 2;
    ie_random_key(a->key);
    a->mask = slots - 1;
    a->slot = ie_calloc(slots, sizeof *a->slot, "special tokens", err);
    if (!a->slot || !ie_grow(&a->node, &a->cap, 1, sizeof *a->node, "special tokens", err)) return false;
    a->node[0] = (ie_sp_node){.best = {-1, -1}};
    a->n = 1;
    return true;
}

void ie_special_free(ie_special *a) {
    free(a->node);
    free(a->slot);
    *a = (ie_special){0};
}

/* The slot of a node's child, or the free one where it belongs. */
static size_t probe(const ie_special *a, uint32_t parent, uint8_t byte) {
    uint64_t h = ((uint64_t)parent << 8 | byte) + a->key[0];
    h *= a->key[1] | 1;
    size_t i = (size_t)(h >> 32 ^ h >> 15) & a->mask;
    for (; a->slot[i]; i = (i + 1) & a->mask) {
        const ie_sp_node *c = &a->node[a->slot[i]];
        if (c->parent == parent && c->byte == byte) break;
    }
    return i;
}

static inline uint32_t child(const ie_special *a, uint32_t node, uint8_t byte) {
    return node ? a->slot[probe(a, node, byte)] : a->root[byte];
}

bool ie_special_add(ie_special *a, ie_str text, int32_t id, bool user, ie_error *err) {
    uint32_t at = 0;
    for (uint64_t i = text.len; i-- > 0;) {
        uint8_t byte = (uint8_t)text.s[i];
        uint32_t next = child(a, at, byte);
        if (!next) {
            if (!ie_grow(&a->node, &a->cap, a->n + 1, sizeof *a->node, "special tokens", err)) return false;
            next = (uint32_t)a->n++;
            a->node[next] = (ie_sp_node){.parent = at, .best = {-1, -1}, .depth = a->node[at].depth + 1, .byte = byte};
            if (at)
                a->slot[probe(a, at, byte)] = next;
            else
                a->root[byte] = next;
        }
        at = next;
    }
    if (at) {
        a->node[at].best[0] = id;
        a->node[at].best[1] = user ? id : -1;
        a->has_user |= user;
    }
    return true;
}

/* State after one more byte. */
static inline uint32_t step(const ie_special *a, uint32_t at, uint8_t byte) {
    for (;;) {
        uint32_t next = child(a, at, byte);
        if (next || at == 0) return next;
        at = a->node[at].fail;
    }
}

bool ie_special_build(ie_special *a, ie_error *err) {
    /* Nodes by depth, since a failure link points to a smaller depth: a counting sort. */
    uint32_t max = 0;
    for (size_t i = 0; i < a->n; i++)
        if (a->node[i].depth > max) max = a->node[i].depth;
    uint32_t *start = ie_calloc((size_t)max + 2, sizeof *start, "special tokens", err);
    uint32_t *order = start ? ie_calloc(a->n, sizeof *order, "special tokens", err) : NULL;
    if (order) {
        for (size_t i = 0; i < a->n; i++) start[a->node[i].depth + 1]++;
        for (uint32_t d = 0; d <= max; d++) start[d + 1] += start[d];
        for (size_t i = 0; i < a->n; i++) order[start[a->node[i].depth]++] = (uint32_t)i;
        for (size_t i = 1; i < a->n; i++) {
            ie_sp_node *x = &a->node[order[i]];
            if (x->parent) x->fail = step(a, a->node[x->parent].fail, x->byte);
            for (int k = 0; k < 2; k++)
                if (x->best[k] < 0) x->best[k] = a->node[x->fail].best[k];
        }
    }
    bool ok = order != NULL;
    free(start);
    free(order);
    return ok;
}

bool ie_special_scan(const ie_special *a, const ie_str *texts, const char *s, size_t begin, size_t end, bool user_only,
                     ie_sp_list *out, ie_error *err) {
    uint32_t at = 0;
    for (size_t i = end; i-- > begin;) {
        uint8_t byte = (uint8_t)s[i];
        at = at ? step(a, at, byte) : a->root[byte];
        if (!at) continue;
        int32_t id = a->node[at].best[user_only];
        if (id < 0) continue;
        if (!ie_grow(&out->v, &out->cap, out->n + 1, sizeof *out->v, "special tokens", err)) return false;
        out->v[out->n++] = (ie_sp_match){i, (uint32_t)texts[id].len, id};
    }
    return true;
}
