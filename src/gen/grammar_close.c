/* The shortest completion of a text, in as few tokens as the vocabulary has for its bytes. */
#include <stdlib.h>
#include <string.h>

#include "grammar.h"

#define MAX_PATH 65536u /* bytes; what is further away than that counts as out of reach */

static bool put(ie_grammar *g, uint32_t symbol) {
    if (g->n_path >= MAX_PATH) return false;
    if (!ie_grow(&g->path, &g->cap_path, g->n_path + 1, sizeof *g->path, "grammar", &g->err)) return false;
    g->path[g->n_path++] = symbol;
    return true;
}

/* A byte of the range, a printable one with a token of its own if there is one. */
static uint32_t choose_byte(const gr_vocab *v, const gr_edge *e) {
    for (unsigned c = e->lo > 0x20 ? e->lo : 0x20; c <= e->hi; c++)
        if (v->single[c]) return c;
    for (unsigned c = e->lo; c <= e->hi; c++)
        if (v->single[c]) return c;
    return e->lo;
}

/* Walks the shortest way from a state to the end of the text into g->path: inside a rule by the nodes' best edges, with the
 * places to return to on a stack; out of it by the frames' best pairs. */
static bool walk(ie_grammar *g, uint32_t state) {
    const gr_net *net = &g->net;
    gr_state s = g->state[state];
    g->n_path = 0;
    if (s.accept) return true;
    uint32_t node = GR_NONE, frame = 0;
    for (uint32_t i = 0; i < s.n && node == GR_NONE; i++) {
        gr_item it = g->item[s.first + i];
        uint64_t d = net->dist[it.node] + g->frame[it.frame].dist;
        if (d == s.dist) node = it.node, frame = it.frame;
    }
    uint32_t *back = NULL;
    size_t n = 0, cap = 0;
    bool ok = node != GR_NONE && s.dist < GR_FAR;
    while (ok) {
        const gr_node *d = &net->node[node];
        if (d->kind == GR_N_BYTES) {
            const gr_edge *e = &net->edge[net->best[node]];
            ok = put(g, choose_byte(g->vocab, e));
            node = e->to;
        } else if (d->kind == GR_N_TOKEN) {
            ok = put(g, 256 + d->a);
            node = d->b;
        } else if (d->kind == GR_N_CALL && net->rule_dist[d->a] == 0) {
            node = d->b;
        } else if (d->kind == GR_N_CALL) {
            ok = n <= MAX_PATH && ie_grow(&back, &cap, n + 1, sizeof *back, "grammar", &g->err);
            if (ok) back[n++] = d->b;
            node = net->rule_best[d->a];
        } else if (n) {
            node = back[--n];
        } else if (frame == 0) {
            break;
        } else {
            gr_frame f = g->frame[frame];
            node = g->pair[f.first + f.best].node;
            frame = g->pair[f.first + f.best].frame;
        }
    }
    free(back);
    return ok;
}

/* Fills piece[i] from those behind it. */
static void cover_from(ie_grammar *g, size_t i) {
    const gr_vocab *v = g->vocab;
    gr_piece *p = g->piece;
    p[i].cost = GR_NONE;
    if (g->path[i] >= 256) {
        if (p[i + 1].cost != GR_NONE) p[i] = (gr_piece){p[i + 1].cost + 1, g->path[i] - 256, 1};
        return;
    }
    uint32_t at = v->root[g->path[i]];
    for (size_t k = i + 1; at != GR_NONE; k++) { /* at: the node of path[i .. k) */
        if (v->node[at].tok < v->node[at + 1].tok && p[k].cost != GR_NONE && p[k].cost + 1 < p[i].cost)
            p[i] = (gr_piece){p[k].cost + 1, (uint32_t)v->ids[v->node[at].tok], (uint32_t)(k - i)};
        if (k == g->n_path || g->path[k] >= 256) break;
        uint32_t end = v->node[at].skip, child = at + 1;
        while (child < end && v->node[child].byte < g->path[k]) child = v->node[child].skip;
        at = child < end && v->node[child].byte == g->path[k] ? child : GR_NONE;
    }
}

uint32_t gr_plan(ie_grammar *g, uint32_t state) {
    if (!walk(g, state)) return INT32_MAX;
    if (!ie_grow(&g->piece, &g->cap_piece, g->n_path + 1, sizeof *g->piece, "grammar", &g->err)) return INT32_MAX;
    g->piece[g->n_path].cost = 0;
    for (size_t i = g->n_path; i-- > 0;) cover_from(g, i);
    return g->piece[0].cost < INT32_MAX ? g->piece[0].cost : INT32_MAX;
}

uint32_t gr_tokens(ie_grammar *g, uint32_t state) {
    if (state < GR_FIRST) return 0;
    if (g->state[state].tokens == GR_NONE) g->state[state].tokens = gr_plan(g, state);
    return g->state[state].tokens;
}
