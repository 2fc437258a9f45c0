#include "pages.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    uint32_t refs;       /* sequences that use it, plus 1 while it is kept */
    uint32_t parent, next, n_children; /* next: in its hash bucket */
    bool kept;
    uint64_t stamp;
    uint8_t *state;
    uint64_t state_bytes;
    int32_t token[IE_PAGE];
} page_node;

struct ie_pages {
    page_node *node;
    uint32_t *free_list, *bucket; /* stack; heads of chains */
    uint32_t n, n_free, n_buckets, n_kept, n_idle, n_states; /* n_idle: kept and used by no sequence */
    uint64_t clock, budget, state_bytes;
};

ie_pages *ie_pages_new(uint32_t n, uint64_t state_budget, ie_error *err) {
    ie_pages *p = ie_calloc(1, sizeof *p, "pages", err);
    if (!p) return NULL;
    p->n = n;
    p->budget = state_budget;
    for (p->n_buckets = 16; p->n_buckets < n && p->n_buckets < 1u << 30;) p->n_buckets *= 2;
    p->node = ie_calloc(n, sizeof *p->node, "pages", err);
    p->free_list = ie_calloc(n, sizeof *p->free_list, "pages", err);
    p->bucket = ie_calloc(p->n_buckets, sizeof *p->bucket, "pages", err);
    if (!p->node || !p->free_list || !p->bucket) {
        ie_pages_free(p);
        return NULL;
    }
    for (uint32_t i = 0; i < n; i++) p->free_list[i] = n - 1 - i; /* page 0 is taken first */
    p->n_free = n;
    memset(p->bucket, 0xFF, p->n_buckets * sizeof *p->bucket);
    return p;
}

void ie_pages_free(ie_pages *p) {
    if (!p) return;
    for (uint32_t i = 0; p->node && i < p->n; i++) free(p->node[i].state);
    free(p->node);
    free(p->free_list);
    free(p->bucket);
    free(p);
}

uint32_t ie_pages_total(const ie_pages *p) { return p->n; }
uint32_t ie_pages_free_count(const ie_pages *p) { return p->n_free; }
uint32_t ie_pages_kept(const ie_pages *p) { return p->n_kept; }
uint32_t ie_pages_available(const ie_pages *p) { return p->n_free + p->n_idle; }
bool ie_pages_shared(const ie_pages *p, uint32_t page) { return p->node[page].refs > 1; }

/* ---- the tree -------------------------------------------------------------------------------------------------------- */

static uint32_t *chain(const ie_pages *p, uint32_t parent, const int32_t *tokens) {
    uint64_t h = parent * 0x9E3779B97F4A7C15u;
    for (uint32_t i = 0; i < IE_PAGE; i++) h = (h ^ (uint32_t)tokens[i]) * 0xD6E8FEB86659FD93u, h ^= h >> 32;
    return &p->bucket[h & (p->n_buckets - 1)];
}

uint32_t ie_pages_find(const ie_pages *p, uint32_t parent, const int32_t *tokens) {
    for (uint32_t i = *chain(p, parent, tokens); i != IE_NO_PAGE; i = p->node[i].next)
        if (p->node[i].parent == parent && !memcmp(p->node[i].token, tokens, sizeof p->node[i].token)) return i;
    return IE_NO_PAGE;
}

void ie_pages_keep(ie_pages *p, uint32_t page, uint32_t parent, const int32_t *tokens) {
    page_node *k = &p->node[page];
    uint32_t *head = chain(p, parent, tokens);
    memcpy(k->token, tokens, sizeof k->token);
    k->parent = parent;
    k->next = *head;
    k->n_children = 0;
    k->kept = true;
    k->refs++;
    k->stamp = p->clock;
    *head = page;
    p->n_kept++;
    if (parent != IE_NO_PAGE) p->node[parent].n_children++;
}

static void forget(ie_pages *p, uint32_t page) {
    page_node *k = &p->node[page];
    uint32_t *at = chain(p, k->parent, k->token);
    while (*at != page) at = &p->node[*at].next;
    *at = k->next;
    ie_pages_state_drop(p, page);
    if (k->parent != IE_NO_PAGE) p->node[k->parent].n_children--;
    k->kept = false;
    p->n_kept--;
    if (k->refs == 1) p->n_idle--;
    if (--k->refs == 0) p->free_list[p->n_free++] = page;
}

static uint32_t child_of(const ie_pages *p, uint32_t page) {
    for (uint32_t i = 0; i < p->n && p->node[page].n_children; i++)
        if (p->node[i].kept && p->node[i].parent == page) return i;
    return IE_NO_PAGE;
}

/* Without its parent a page could not be found: what hangs below goes first. */
void ie_pages_drop(ie_pages *p, uint32_t page) {
    while (p->node[page].n_children) {
        uint32_t leaf = page;
        for (uint32_t c; (c = child_of(p, leaf)) != IE_NO_PAGE;) leaf = c;
        forget(p, leaf);
    }
    forget(p, page);
}

static bool older(const page_node *a, const page_node *b) {
    return a->stamp != b->stamp ? a->stamp < b->stamp : a->n_children == 0 && b->n_children > 0;
}

static bool evict(ie_pages *p) {
    uint32_t best = IE_NO_PAGE;
    for (uint32_t i = 0; i < p->n; i++)
        if (p->node[i].kept && p->node[i].refs == 1 && (best == IE_NO_PAGE || older(&p->node[i], &p->node[best]))) best = i;
    if (best == IE_NO_PAGE) return false;
    ie_pages_drop(p, best);
    return true;
}

/* ---- users ----------------------------------------------------------------------------------------------------------- */

uint32_t ie_pages_take(ie_pages *p) {
    if (p->n_free == 0 && !evict(p)) return IE_NO_PAGE;
    uint32_t page = p->free_list[--p->n_free];
    p->node[page].refs = 1;
    return page;
}

void ie_pages_ref(ie_pages *p, uint32_t page) {
    page_node *k = &p->node[page];
    if (k->kept && k->refs == 1) p->n_idle--;
    k->refs++;
}

void ie_pages_unref(ie_pages *p, uint32_t page) {
    page_node *k = &p->node[page];
    if (--k->refs == 0) p->free_list[p->n_free++] = page;
    else if (k->kept && k->refs == 1) p->n_idle++;
}

uint64_t ie_pages_stamp(ie_pages *p) { return ++p->clock; }
void ie_pages_touch(ie_pages *p, uint32_t page, uint64_t stamp) { p->node[page].stamp = stamp; }

bool ie_pages_get(const ie_pages *p, uint32_t page, uint32_t *parent, const int32_t **tokens, uint64_t *stamp) {
    const page_node *k = &p->node[page];
    *parent = k->parent;
    *tokens = k->token;
    *stamp = k->stamp;
    return k->kept;
}

/* ---- recurrent states -------------------------------------------------------------------------------------------------- */

const void *ie_pages_state(const ie_pages *p, uint32_t page) { return p->node[page].state; }

void ie_pages_state_drop(ie_pages *p, uint32_t page) {
    page_node *k = &p->node[page];
    if (!k->state) return;
    free(k->state);
    p->state_bytes -= k->state_bytes;
    p->n_states--;
    k->state = NULL;
    k->state_bytes = 0;
}

void *ie_pages_state_new(ie_pages *p, uint32_t page, uint64_t n) {
    if (n > p->budget) return NULL;
    while (p->state_bytes + n > p->budget) {
        uint32_t best = IE_NO_PAGE;
        for (uint32_t i = 0; i < p->n; i++)
            if (p->node[i].state && (best == IE_NO_PAGE || p->node[i].stamp < p->node[best].stamp)) best = i;
        ie_pages_state_drop(p, best);
    }
    uint8_t *s = malloc(n ? n : 1);
    if (!s) return NULL;
    p->node[page].state = s;
    p->node[page].state_bytes = n;
    p->state_bytes += n;
    p->n_states++;
    return s;
}

uint32_t ie_pages_states(const ie_pages *p, uint64_t *bytes) {
    *bytes = p->state_bytes;
    return p->n_states;
}

uint64_t ie_pages_state_budget(const ie_pages *p) { return p->budget; }
