/* States of a grammar's automaton, found as they are needed. */
#include <stdlib.h>
#include <string.h>

#include "grammar.h"

#define HARD_LIMIT ((size_t)256 << 20) /* bytes of states and frames; a text that needs more is given up */

size_t gr_bytes(const ie_grammar *g) {
    return g->n_frame * sizeof *g->frame + g->n_pair * sizeof *g->pair + g->n_state * sizeof *g->state +
           g->n_item * sizeof *g->item + g->n_row * sizeof *g->row + (g->frame_slots + g->state_slots) * sizeof(uint32_t);
}

static bool spend(ie_grammar *g, uint64_t n) {
    if (g->work_left >= n) {
        g->work_left -= n;
        return true;
    }
    g->work_left = 0;
    ie_fail(&g->err, IE_E_UNSUPPORTED, "grammar: too ambiguous here; the next step has too many ways to go on");
    return false;
}

/* ---- interning ---------------------------------------------------------------------------------------------------------- */

static uint64_t hash_items(const gr_item *p, size_t n, uint64_t seed) {
    uint64_t h = seed ^ (n * 0x9E3779B97F4A7C15u);
    for (size_t i = 0; i < n; i++) {
        h = (h ^ ((uint64_t)p[i].node << 32 | p[i].frame)) * 0xD6E8FEB86659FD93u;
        h ^= h >> 32;
    }
    return h;
}

static uint64_t frame_key(const ie_grammar *g, const gr_frame *f) { return hash_items(g->pair + f->first, f->n, 1); }
static uint64_t state_key(const ie_grammar *g, const gr_state *s) {
    return hash_items(g->item + s->first, s->n, (uint64_t)s->accept << 1 | s->start);
}

/* A table twice as large, filled again. of_state: which of the two. */
static bool rehash(ie_grammar *g, bool of_state) {
    size_t old = of_state ? g->state_slots : g->frame_slots, slots = old ? old * 2 : 1024;
    uint32_t *t = ie_calloc(slots, sizeof *t, "grammar states", &g->err);
    if (!t) return false;
    size_t n = of_state ? g->n_state : g->n_frame;
    for (size_t i = of_state ? GR_FIRST : 0; i < n; i++) {
        size_t at = (of_state ? state_key(g, &g->state[i]) : frame_key(g, &g->frame[i])) & (slots - 1);
        while (t[at]) at = (at + 1) & (slots - 1);
        t[at] = (uint32_t)i + 1;
    }
    free(of_state ? g->state_hash : g->frame_hash);
    if (of_state) g->state_hash = t, g->state_slots = slots;
    else g->frame_hash = t, g->frame_slots = slots;
    return true;
}

static bool grow(ie_grammar *g, void *array, size_t *cap, size_t need, size_t size) {
    if (need > *cap && gr_bytes(g) > HARD_LIMIT) {
        ie_fail(&g->err, IE_E_UNSUPPORTED, "grammar: too ambiguous here; its states need more than %zu MB", HARD_LIMIT >> 20);
        return false;
    }
    if (need >= GR_NONE) return ie_fail(&g->err, IE_E_NOMEM, "grammar states: too many"), false;
    return ie_grow(array, cap, need, size, "grammar states", &g->err);
}

static uint64_t far_sum(uint64_t a, uint64_t b) { return a + b < GR_FAR ? a + b : GR_FAR; }

/* The frame with these pairs (sorted, distinct); GR_NONE on failure. */
static uint32_t intern_frame(ie_grammar *g, const gr_item *p, size_t n) {
    if (g->n_frame * 2 >= g->frame_slots && !rehash(g, false)) return GR_NONE;
    size_t at = hash_items(p, n, 1) & (g->frame_slots - 1);
    for (; g->frame_hash[at]; at = (at + 1) & (g->frame_slots - 1)) {
        const gr_frame *f = &g->frame[g->frame_hash[at] - 1];
        if (f->n == n && (n == 0 || !memcmp(g->pair + f->first, p, n * sizeof *p))) return g->frame_hash[at] - 1;
    }
    if (!grow(g, &g->frame, &g->cap_frame, g->n_frame + 1, sizeof *g->frame)) return GR_NONE;
    if (!grow(g, &g->pair, &g->cap_pair, g->n_pair + n, sizeof *g->pair)) return GR_NONE;
    gr_frame f = {(uint32_t)g->n_pair, (uint32_t)n, n ? GR_FAR : 0, 0};
    for (size_t i = 0; i < n; i++) {
        uint64_t d = far_sum(g->net.dist[p[i].node], g->frame[p[i].frame].dist);
        if (d < f.dist) f.dist = d, f.best = (uint32_t)i;
        g->pair[g->n_pair++] = p[i];
    }
    g->frame[g->n_frame] = f;
    g->frame_hash[at] = (uint32_t)g->n_frame + 1;
    return (uint32_t)g->n_frame++;
}

static uint32_t intern_state(ie_grammar *g, const gr_item *p, size_t n, bool accept, bool start) {
    if (n == 0 && !accept) return GR_DEAD;
    if (g->n_state * 2 >= g->state_slots && !rehash(g, true)) return GR_NONE;
    size_t at = hash_items(p, n, (uint64_t)accept << 1 | start) & (g->state_slots - 1);
    for (; g->state_hash[at]; at = (at + 1) & (g->state_slots - 1)) {
        const gr_state *s = &g->state[g->state_hash[at] - 1];
        if (s->n == n && s->accept == accept && s->start == start && (n == 0 || !memcmp(g->item + s->first, p, n * sizeof *p)))
            return g->state_hash[at] - 1;
    }
    if (!grow(g, &g->state, &g->cap_state, g->n_state + 1, sizeof *g->state)) return GR_NONE;
    if (!grow(g, &g->item, &g->cap_item, g->n_item + n, sizeof *g->item)) return GR_NONE;
    gr_state s = {.first = (uint32_t)g->n_item, .n = (uint32_t)n, .row = GR_NONE, .mask = -1, .tokens = GR_NONE, .accept = accept,
                  .start = start, .dist = accept ? 0 : GR_FAR};
    for (size_t i = 0; i < n; i++) {
        uint64_t d = far_sum(g->net.dist[p[i].node], g->frame[p[i].frame].dist);
        if (d < s.dist) s.dist = d;
        g->item[g->n_item++] = p[i];
    }
    g->state[g->n_state] = s;
    g->state_hash[at] = (uint32_t)g->n_state + 1;
    return (uint32_t)g->n_state++;
}

/* ---- one step -------------------------------------------------------------------------------------------------------------- */

static void begin(gr_work *w) {
    if (++w->gen == 0 && w->seen) memset(w->seen_gen, 0, ((size_t)w->seen_mask + 1) * sizeof *w->seen_gen);
    if (w->gen == 0) w->gen = 1;
    w->n_seen = 0;
    w->n_todo = w->n_out = w->n_heap = 0;
    w->accept = false;
}

static bool seen_room(ie_grammar *g) {
    gr_work *w = &g->work;
    size_t slots = w->seen ? ((size_t)w->seen_mask + 1) * 2 : 1024;
    uint64_t *seen = ie_calloc(slots, sizeof *seen, "grammar", &g->err);
    uint32_t *gen = ie_calloc(slots, sizeof *gen, "grammar", &g->err);
    if (!seen || !gen) {
        free(seen);
        free(gen);
        return false;
    }
    for (size_t i = 0; w->seen && i <= w->seen_mask; i++) {
        if (w->seen_gen[i] != w->gen) continue;
        size_t at = w->seen[i] * 0x9E3779B97F4A7C15u >> 32 & (slots - 1);
        while (gen[at] == w->gen) at = (at + 1) & (slots - 1);
        seen[at] = w->seen[i], gen[at] = w->gen;
    }
    free(w->seen);
    free(w->seen_gen);
    w->seen = seen, w->seen_gen = gen, w->seen_mask = (uint32_t)slots - 1;
    return true;
}

/* Adds a place to go on from, once. Places that no text leads out of are left out. */
static bool add(ie_grammar *g, uint32_t node, uint32_t frame) {
    gr_work *w = &g->work;
    if (g->net.dist[node] >= GR_FAR) return true;
    if ((!w->seen || w->n_seen * 2 >= w->seen_mask) && !seen_room(g)) return false;
    uint64_t key = (uint64_t)node << 32 | frame;
    size_t at = key * 0x9E3779B97F4A7C15u >> 32 & w->seen_mask;
    for (; w->seen_gen[at] == w->gen; at = (at + 1) & w->seen_mask)
        if (w->seen[at] == key) return true;
    w->seen[at] = key, w->seen_gen[at] = w->gen, w->n_seen++;
    if (!ie_grow(&w->todo, &w->cap_todo, w->n_todo + 1, sizeof *w->todo, "grammar", &g->err)) return false;
    w->todo[w->n_todo++] = (gr_item){node, frame};
    return spend(g, 1);
}

static bool earlier(const struct gr_called *a, const struct gr_called *b) {
    if (a->rank != b->rank) return a->rank < b->rank;
    return a->node != b->node ? a->node < b->node : a->frame < b->frame;
}

static bool push_call(ie_grammar *g, uint32_t rule, uint32_t node, uint32_t frame) {
    gr_work *w = &g->work;
    if (!ie_grow(&w->heap, &w->cap_heap, w->n_heap + 1, sizeof *w->heap, "grammar", &g->err)) return false;
    struct gr_called c = {g->net.rank[rule], rule, node, frame};
    size_t i = w->n_heap++;
    for (; i && earlier(&c, &w->heap[(i - 1) / 2]); i = (i - 1) / 2) w->heap[i] = w->heap[(i - 1) / 2];
    w->heap[i] = c;
    return spend(g, 1);
}

static struct gr_called pop_call(gr_work *w) {
    struct gr_called out = w->heap[0], last = w->heap[--w->n_heap];
    size_t i = 0;
    for (size_t c; (c = 2 * i + 1) < w->n_heap; i = c) {
        if (c + 1 < w->n_heap && earlier(&w->heap[c + 1], &w->heap[c])) c++;
        if (!earlier(&w->heap[c], &last)) break;
        w->heap[i] = w->heap[c];
    }
    w->heap[i] = last;
    return out;
}

/* A call with nothing behind it in its rule goes on where its rule's callers do, so that loops do not pile up frames. */
static bool call(ie_grammar *g, const gr_node *d, uint32_t frame) {
    if (g->net.rule_dist[d->a] >= GR_FAR) return true;
    if (d->b != GR_END || frame == 0) return push_call(g, d->a, d->b, frame);
    gr_frame f = g->frame[frame];
    for (uint32_t i = 0; i < f.n; i++)
        if (!push_call(g, d->a, g->pair[f.first + i].node, g->pair[f.first + i].frame)) return false;
    return true;
}

/* Follows the places added so far. returns: also out of rules that have come to their end. (A rule called at this very place
 * cannot end here: where it may match nothing, its caller has gone on by itself.) */
static bool follow(ie_grammar *g, bool returns) {
    gr_work *w = &g->work;
    while (w->n_todo) {
        gr_item it = w->todo[--w->n_todo];
        const gr_node *d = &g->net.node[it.node];
        if (d->kind == GR_N_END) {
            if (!returns) continue;
            if (it.frame == 0) w->accept = true;
            gr_frame f = g->frame[it.frame];
            for (uint32_t i = 0; i < f.n; i++)
                if (!add(g, g->pair[f.first + i].node, g->pair[f.first + i].frame)) return false;
        } else if (d->kind == GR_N_CALL) {
            if (!call(g, d, it.frame)) return false;
            if (g->net.rule_dist[d->a] == 0 && !d->again && !add(g, d->b, it.frame)) return false;
        } else {
            if (!ie_grow(&w->out, &w->cap_out, w->n_out + 1, sizeof *w->out, "grammar", &g->err)) return false;
            w->out[w->n_out++] = it;
        }
    }
    return true;
}

static int by_place(const void *pa, const void *pb) {
    const gr_item *a = pa, *b = pb;
    if (a->node != b->node) return a->node < b->node ? -1 : 1;
    return a->frame < b->frame ? -1 : a->frame > b->frame;
}

/* The state of the places added since begin(). Calls are entered rule by rule, callers before what they call, so that each
 * rule's callers are all known when its frame is made. */
static uint32_t finish(ie_grammar *g, bool start) {
    gr_work *w = &g->work;
    if (!follow(g, true)) return GR_NONE;
    gr_item *callers = NULL;
    size_t cap = 0;
    bool ok = true;
    while (ok && w->n_heap) {
        uint32_t rule = w->heap[0].rule;
        size_t n = 0;
        while (ok && w->n_heap && w->heap[0].rule == rule) {
            struct gr_called c = pop_call(w);
            if (n && callers[n - 1].node == c.node && callers[n - 1].frame == c.frame) continue;
            ok = ie_grow(&callers, &cap, n + 1, sizeof *callers, "grammar", &g->err);
            if (ok) callers[n++] = (gr_item){c.node, c.frame};
        }
        uint32_t frame = ok ? intern_frame(g, callers, n) : GR_NONE;
        ok = frame != GR_NONE;
        for (uint32_t s = g->net.start_at[rule]; ok && s < g->net.start_at[rule + 1]; s++) ok = add(g, g->net.start[s], frame);
        ok = ok && follow(g, false);
    }
    free(callers);
    if (!ok) return GR_NONE;
    if (w->n_out > 1) qsort(w->out, w->n_out, sizeof *w->out, by_place);
    return intern_state(g, w->out, w->n_out, w->accept, start);
}

static uint32_t step(ie_grammar *g, uint32_t state, uint8_t byte) {
    gr_state s = g->state[state];
    begin(&g->work);
    if (s.start && byte == ' ') { /* dropped: the text begins behind it */
        gr_item *copy = ie_calloc((size_t)s.n + 1, sizeof *copy, "grammar", &g->err);
        if (!copy) return GR_NONE;
        if (s.n) memcpy(copy, g->item + s.first, s.n * sizeof *copy);
        uint32_t out = intern_state(g, copy, s.n, s.accept, false);
        free(copy);
        return out;
    }
    for (uint32_t i = 0; i < s.n; i++) {
        gr_item it = g->item[s.first + i];
        const gr_node *d = &g->net.node[it.node];
        if (d->kind != GR_N_BYTES) continue;
        if (!spend(g, 1 + d->b / 8)) return GR_NONE;
        const gr_edge *e = g->net.edge + d->a;
        for (uint32_t k = 0; k < d->b; k++)
            if (byte >= e[k].lo && byte <= e[k].hi && !add(g, e[k].to, it.frame)) return GR_NONE;
    }
    return g->work.n_todo ? finish(g, false) : GR_DEAD;
}

uint32_t gr_step(ie_grammar *g, uint32_t state, uint8_t byte) {
    if (state < GR_FIRST) return GR_DEAD;
    uint32_t row = g->state[state].row, c = g->byte_class[byte];
    if (row == GR_NONE) {
        if (!grow(g, &g->row, &g->cap_row, g->n_row + g->n_class, sizeof *g->row)) return GR_NONE;
        g->state[state].row = row = (uint32_t)g->n_row;
        memset(g->row + row, 0xFF, g->n_class * sizeof *g->row);
        g->n_row += g->n_class;
    }
    if (g->row[row + c] == GR_NONE) {
        uint32_t to = step(g, state, byte);
        if (to == GR_NONE) return to;
        g->row[row + c] = to;
    }
    return g->row[row + c];
}

uint32_t gr_step_token(ie_grammar *g, uint32_t state, int32_t token) {
    if (state < GR_FIRST) return GR_DEAD;
    gr_state s = g->state[state];
    begin(&g->work);
    for (uint32_t i = 0; i < s.n; i++) {
        gr_item it = g->item[s.first + i];
        const gr_node *d = &g->net.node[it.node];
        if (d->kind == GR_N_TOKEN && d->a == (uint32_t)token && !add(g, d->b, it.frame)) return GR_NONE;
    }
    return g->work.n_todo ? finish(g, false) : GR_DEAD;
}

/* ---- emptying the cache -------------------------------------------------------------------------------------------------------- */

/* Moves the n items at *first of a list down to its first free place, *used, with the frames' new numbers. */
static void move_items(gr_item *list, size_t *used, uint32_t *first, uint32_t n, const uint32_t *frame_to) {
    for (uint32_t i = 0; i < n; i++) {
        gr_item p = list[*first + i];
        list[*used + i] = (gr_item){p.node, frame_to[p.frame]};
    }
    *first = (uint32_t)*used;
    *used += n;
}

bool gr_keep(ie_grammar *g, uint32_t **roots, size_t n, ie_error *err) {
    uint32_t *state_to = ie_calloc(g->n_state, sizeof *state_to, "grammar states", err);
    uint32_t *frame_to = ie_calloc(g->n_frame, sizeof *frame_to, "grammar states", err);
    if (!state_to || !frame_to) {
        free(state_to);
        free(frame_to);
        return false;
    }
    for (size_t i = 0; i < n; i++) state_to[*roots[i]] = 1;
    state_to[GR_DEAD] = state_to[GR_DONE] = state_to[g->first] = frame_to[0] = 1;
    for (size_t s = GR_FIRST; s < g->n_state; s++)
        for (uint32_t i = 0; state_to[s] && i < g->state[s].n; i++) frame_to[g->item[g->state[s].first + i].frame] = 1;
    for (size_t f = g->n_frame; f-- > 0;) /* a frame's pairs name older frames only */
        for (uint32_t i = 0; frame_to[f] && i < g->frame[f].n; i++) frame_to[g->pair[g->frame[f].first + i].frame] = 1;
    size_t frames = 0, pairs = 0, states = 0, items = 0;
    for (size_t f = 0; f < g->n_frame; f++) {
        if (!frame_to[f]) continue;
        gr_frame k = g->frame[f];
        frame_to[f] = (uint32_t)frames;
        move_items(g->pair, &pairs, &k.first, k.n, frame_to);
        g->frame[frames++] = k;
    }
    for (size_t s = 0; s < g->n_state; s++) {
        if (!state_to[s]) continue;
        gr_state k = g->state[s];
        state_to[s] = (uint32_t)states;
        move_items(g->item, &items, &k.first, k.n, frame_to);
        k.row = GR_NONE;
        k.mask = -1;
        g->state[states++] = k;
    }
    g->n_frame = frames, g->n_pair = pairs, g->n_state = states, g->n_item = items, g->n_row = 0;
    for (size_t i = 0; i < n; i++) *roots[i] = state_to[*roots[i]];
    g->first = state_to[g->first];
    for (uint32_t i = 0; i < g->n_mask; i++) g->mask[i].state = GR_NONE;
    memset(g->frame_hash, 0, g->frame_slots * sizeof *g->frame_hash);
    memset(g->state_hash, 0, g->state_slots * sizeof *g->state_hash);
    for (size_t f = 0; f < frames; f++) {
        size_t at = frame_key(g, &g->frame[f]) & (g->frame_slots - 1);
        while (g->frame_hash[at]) at = (at + 1) & (g->frame_slots - 1);
        g->frame_hash[at] = (uint32_t)f + 1;
    }
    for (size_t s = GR_FIRST; s < states; s++) {
        size_t at = state_key(g, &g->state[s]) & (g->state_slots - 1);
        while (g->state_hash[at]) at = (at + 1) & (g->state_slots - 1);
        g->state_hash[at] = (uint32_t)s + 1;
    }
    free(state_to);
    free(frame_to);
    return true;
}

/* ---- a grammar ------------------------------------------------------------------------------------------------------------------ */

/* Bytes that no edge tells apart share a column of the transition rows. */
static void classify(ie_grammar *g) {
    bool cut[257] = {0};
    for (uint32_t i = 0; i < g->net.n_edge; i++) cut[g->net.edge[i].lo] = cut[g->net.edge[i].hi + 1] = true;
    cut[' '] = cut[' ' + 1] = true;
    uint32_t c = 0;
    for (unsigned b = 0; b < 256; b++) {
        if (b && cut[b]) c++;
        g->byte_class[b] = (uint8_t)c;
    }
    g->n_class = c + 1;
}

ie_grammar *gr_new(gr_build *b, uint32_t root, const gr_vocab *v, ie_error *err) {
    ie_grammar *g = ie_calloc(1, sizeof *g, "grammar", err);
    if (!g) return NULL;
    pthread_mutex_init(&g->lock, NULL);
    g->refs = 1;
    g->vocab = v;
    g->work_left = GR_WORK;
    ie_status st = gr_net_make(b, root, v, &g->net, err);
    if (!st) {
        classify(g);
        bool ok = grow(g, &g->state, &g->cap_state, GR_FIRST, sizeof *g->state) && grow(g, &g->pair, &g->cap_pair, 1, sizeof *g->pair) &&
                  grow(g, &g->item, &g->cap_item, 1, sizeof *g->item) && intern_frame(g, NULL, 0) == 0;
        if (ok) {
            memset(g->state, 0, GR_FIRST * sizeof *g->state);
            g->state[GR_DONE].accept = true;
            g->n_state = GR_FIRST;
            begin(&g->work);
            ok = push_call(g, root, GR_END, 0);
            g->work.accept = g->net.rule_dist[root] == 0;
            g->first = ok ? finish(g, v->drop_space) : GR_NONE;
            ok = ok && g->first != GR_NONE;
        }
        if (!ok) *err = g->err, st = g->err.code;
    }
    if (!st) return g;
    gr_delete(g);
    return NULL;
}

void gr_delete(ie_grammar *g) {
    if (!g) return;
    gr_net_free(&g->net);
    for (uint32_t i = 0; i < g->n_mask; i++) free(g->mask[i].bits);
    void *all[] = {g->frame, g->pair, g->state, g->item, g->row, g->frame_hash, g->state_hash, g->mask, g->path, g->piece,
                   g->work.seen, g->work.seen_gen, g->work.todo, g->work.out, g->work.heap};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
    pthread_mutex_destroy(&g->lock);
    free(g);
}
