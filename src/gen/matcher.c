/* Matchers: the public side of grammars. A mask is one walk over the vocabulary's tree, along the automaton's states; it is
 * kept with the state. Near the end of the token budget the walk also asks how far each token's state is from the end. */
#include <stdlib.h>
#include <string.h>

#include "grammar.h"

#define SOFT_LIMIT ((size_t)32 << 20)       /* bytes of states: above it only those in use are kept */
#define MASK_BYTES ((size_t)16 << 20)       /* of cached masks */
#define N_BACK 64u

struct ie_matcher {
    ie_grammar *g;
    ie_matcher *next, *prev; /* the grammar's list */
    uint32_t ring[N_BACK + 1], at, n_back; /* states: the present one at ring[at], n_back earlier ones before it */
    uint64_t *bits;          /* the mask handed out */
    int32_t *plan;           /* tokens of a shortest completion; the next one is plan[step] */
    size_t n_plan, cap_plan, step;
};

static uint32_t *current(ie_matcher *x) { return &x->ring[x->at]; }

/* ---- life --------------------------------------------------------------------------------------------------------------- */

static ie_matcher *make(ie_grammar *g, ie_error *err) {
    ie_matcher *x = ie_calloc(1, sizeof *x, "matcher", err);
    if (x && !(x->bits = ie_calloc(g->vocab->words + 1, sizeof *x->bits, "matcher", err))) {
        free(x);
        return NULL;
    }
    if (x) x->g = g;
    return x;
}

/* With the lock held. */
static void enlist(ie_matcher *x) {
    x->prev = NULL;
    x->next = x->g->matchers;
    if (x->next) x->next->prev = x;
    x->g->matchers = x;
    x->g->refs++;
}

ie_matcher *ie_matcher_new(ie_grammar *g, ie_error *err) {
    ie_matcher *x = make(g, err);
    if (!x) return NULL;
    pthread_mutex_lock(&g->lock);
    *current(x) = g->first;
    enlist(x);
    pthread_mutex_unlock(&g->lock);
    return x;
}

ie_matcher *ie_matcher_clone(const ie_matcher *src, ie_error *err) {
    ie_matcher *x = make(src->g, err);
    if (x && src->n_plan && !ie_grow(&x->plan, &x->cap_plan, src->n_plan, sizeof *x->plan, "matcher", err)) {
        free(x->bits);
        free(x);
        return NULL;
    }
    if (!x) return NULL;
    pthread_mutex_lock(&x->g->lock);
    memcpy(x->ring, src->ring, sizeof x->ring);
    x->at = src->at, x->n_back = src->n_back, x->n_plan = src->n_plan, x->step = src->step;
    if (x->n_plan) memcpy(x->plan, src->plan, x->n_plan * sizeof *x->plan);
    enlist(x);
    pthread_mutex_unlock(&x->g->lock);
    return x;
}

static void release(ie_grammar *g) {
    bool last = --g->refs == 0;
    pthread_mutex_unlock(&g->lock);
    if (last) gr_delete(g);
}

void ie_matcher_free(ie_matcher *x) {
    if (!x) return;
    ie_grammar *g = x->g;
    pthread_mutex_lock(&g->lock);
    if (x->next) x->next->prev = x->prev;
    if (x->prev) x->prev->next = x->next;
    else g->matchers = x->next;
    release(g);
    free(x->bits);
    free(x->plan);
    free(x);
}

void ie_grammar_free(ie_grammar *g) {
    if (!g) return;
    pthread_mutex_lock(&g->lock);
    release(g);
}

ie_grammar *ie_grammar_share(ie_grammar *g) {
    pthread_mutex_lock(&g->lock);
    g->refs++;
    pthread_mutex_unlock(&g->lock);
    return g;
}

/* Begins a call: states that no matcher is at are dropped when they have become too many. */
static ie_status enter(ie_grammar *g, ie_error *err) {
    pthread_mutex_lock(&g->lock);
    g->work_left = GR_WORK;
    g->clock++;
    if (gr_bytes(g) < SOFT_LIMIT) return IE_OK;
    uint32_t **roots = NULL;
    size_t n = 0, cap = 0;
    bool ok = true;
    for (ie_matcher *x = g->matchers; x && ok; x = x->next) {
        ok = ie_grow(&roots, &cap, n + N_BACK + 1, sizeof *roots, "grammar states", err);
        for (uint32_t i = 0; ok && i <= x->n_back; i++) roots[n++] = &x->ring[(x->at + N_BACK + 1 - i) % (N_BACK + 1)];
    }
    ok = ok && gr_keep(g, roots, n, err);
    free(roots);
    if (!ok) pthread_mutex_unlock(&g->lock);
    return ok ? IE_OK : IE_E_NOMEM;
}

/* Ends a call that failed inside the automaton. */
static ie_status leave(ie_grammar *g, bool failed, ie_error *err) {
    ie_status st = IE_OK;
    if (failed) st = ie_fail(err, g->err.code, "%s", g->err.msg);
    pthread_mutex_unlock(&g->lock);
    return st;
}

/* ---- masks -------------------------------------------------------------------------------------------------------------- */

/* Whether the text can end within left more tokens (GR_NONE: any number). Each byte can be a token of its own (a distance of
 * GR_NO_SINGLE says where not), and no token has more than `longest` bytes; between these bounds the tokens are counted. */
static bool within(ie_grammar *g, uint32_t state, uint32_t left) {
    uint64_t d = g->state[state].dist;
    if (left == GR_NONE) return true;
    if (d < GR_NO_SINGLE && d <= left) return true;
    if (d < GR_NO_SINGLE && d > (uint64_t)left * g->vocab->longest) return false;
    return gr_tokens(g, state) <= left;
}

/* Allows the tokens behind which the text can still end within left more tokens (GR_NONE: any number). *far: the largest
 * distance among them. False: g->err. */
static bool walk(ie_grammar *g, uint32_t state, uint32_t left, uint64_t *bits, uint64_t *far) {
    const gr_vocab *v = g->vocab;
    uint32_t at[GR_MAX_TOKEN + 1] = {state};
    *far = 0;
    for (uint32_t i = 0; i < v->n_node;) {
        gr_vnode n = v->node[i];
        uint32_t from = at[n.depth - 1], row = g->state[from].row;
        uint32_t to = row == GR_NONE ? GR_NONE : g->row[row + g->byte_class[n.byte]];
        if (to == GR_NONE && (to = gr_step(g, from, n.byte)) == GR_NONE) return false;
        if (to == GR_DEAD) {
            i = n.skip;
            continue;
        }
        at[n.depth] = to;
        uint32_t end = v->node[i + 1].tok;
        if (n.tok < end && within(g, to, left)) {
            if (g->state[to].dist > *far) *far = g->state[to].dist;
            for (uint32_t k = n.tok; k < end; k++) bits[v->ids[k] / 64] |= UINT64_C(1) << v->ids[k] % 64;
        }
        i++;
    }
    gr_state s = g->state[state];
    for (uint32_t i = 0; i < s.n; i++) { /* tokens that the grammar names */
        gr_node d = g->net.node[g->item[s.first + i].node];
        if (d.kind != GR_N_TOKEN || d.a >= (uint32_t)v->n) continue;
        uint32_t to = gr_step_token(g, state, (int32_t)d.a);
        if (to == GR_NONE) return false;
        if (!within(g, to, left)) continue;
        if (g->state[to].dist > *far) *far = g->state[to].dist;
        bits[d.a / 64] |= UINT64_C(1) << d.a % 64;
    }
    for (int32_t i = 0; s.accept && i < v->n_end; i++) bits[v->end[i] / 64] |= UINT64_C(1) << v->end[i] % 64;
    return true;
}

/* A slot for a mask: a free one, or the one not used for longest. NULL: no memory. */
static gr_mask *free_slot(ie_grammar *g) {
    size_t bytes = g->vocab->words * sizeof(uint64_t);
    if (!g->mask) {
        size_t n = bytes ? MASK_BYTES / bytes : 16;
        n = n < 16 ? 16 : n > 4096 ? 4096 : n;
        g->mask = ie_calloc(n, sizeof *g->mask, "masks", &g->err);
        if (!g->mask) return NULL;
        g->n_mask = (uint32_t)n;
        for (size_t i = 0; i < n; i++) g->mask[i].state = GR_NONE;
    }
    gr_mask *best = &g->mask[0];
    for (uint32_t i = 0; i < g->n_mask && best->state != GR_NONE; i++)
        if (g->mask[i].state == GR_NONE || g->mask[i].used < best->used) best = &g->mask[i];
    if (!best->bits && !(best->bits = ie_calloc(g->vocab->words + 1, sizeof *best->bits, "masks", &g->err))) return NULL;
    if (best->state != GR_NONE) g->state[best->state].mask = -1;
    memset(best->bits, 0, bytes);
    best->state = GR_NONE; /* until it is filled */
    return best;
}

static gr_mask *mask_of(ie_grammar *g, uint32_t state) {
    int32_t have = g->state[state].mask;
    gr_mask *m = have >= 0 ? &g->mask[have] : free_slot(g);
    if (!m) return NULL;
    m->used = g->clock;
    if (have >= 0) return m;
    if (!walk(g, state, GR_NONE, m->bits, &m->far)) return NULL;
    m->state = state;
    g->state[state].mask = (int32_t)(m - g->mask);
    return m;
}

/* Tokens of the shortest completion from here: of the one under way as long as it is followed, else of a new one. */
static uint32_t plan(ie_matcher *x, bool *ok) {
    ie_grammar *g = x->g;
    uint32_t state = *current(x);
    *ok = true;
    if (state < GR_FIRST || g->state[state].accept) return 0;
    if (x->step < x->n_plan) return (uint32_t)(x->n_plan - x->step);
    uint32_t n = gr_plan(g, state);
    x->n_plan = x->step = 0;
    if (n == INT32_MAX) return n;
    *ok = ie_grow(&x->plan, &x->cap_plan, n, sizeof *x->plan, "matcher", &g->err);
    for (size_t i = 0; *ok && i < g->n_path; i += g->piece[i].len) x->plan[x->n_plan++] = (int32_t)g->piece[i].token;
    return n;
}

/* The mask when the budget may end before the text does: every token that leaves enough of it, and in any case the next one of the
 * shortest completion. */
static ie_status closing(ie_matcher *x, uint32_t left, ie_error *err) {
    ie_grammar *g = x->g;
    bool ok;
    uint64_t far;
    uint32_t state = *current(x), need = plan(x, &ok);
    if (!ok) return leave(g, true, err);
    if (need > left) {
        leave(g, false, err);
        if (need == INT32_MAX)
            return ie_fail(err, IE_E_FULL, "grammar: the shortest text that completes it is out of reach; %u tokens are left", left);
        return ie_fail(err, IE_E_FULL, "grammar: at least %u more tokens are needed to complete the text; %u are left", need, left);
    }
    memset(x->bits, 0, g->vocab->words * sizeof *x->bits);
    if (!walk(g, state, left - 1, x->bits, &far)) return leave(g, true, err);
    if (need) x->bits[x->plan[x->step] / 64] |= UINT64_C(1) << x->plan[x->step] % 64;
    return leave(g, false, err);
}

static bool any(const uint64_t *bits, size_t words) {
    for (size_t i = 0; i < words; i++)
        if (bits[i]) return true;
    return false;
}

ie_status ie_matcher_mask(ie_matcher *x, int32_t left, const uint64_t **mask, ie_error *err) {
    ie_grammar *g = x->g;
    size_t words = g->vocab->words;
    *mask = x->bits;
    if (left < -1 || left == 0) return ie_fail(err, IE_E_ARG, "grammar: %d tokens left, allowed are -1 (no limit) and 1 and above", left);
    ie_status st = enter(g, err);
    if (st) return st;
    uint32_t state = *current(x);
    if (state == GR_DONE) {
        memset(x->bits, 0, words * sizeof *x->bits);
        return leave(g, false, err);
    }
    gr_mask *m = mask_of(g, state);
    if (!m) return leave(g, true, err);
    if (left > 0 && (uint64_t)left - 1 < m->far) return closing(x, (uint32_t)left, err);
    memcpy(x->bits, m->bits, words * sizeof *x->bits);
    bool whole = g->state[state].accept;
    leave(g, false, err);
    if (whole || any(x->bits, words)) return IE_OK;
    return ie_fail(err, IE_E_UNSUPPORTED, "grammar: no token of the vocabulary continues the text as the grammar wants it");
}

/* ---- following the text ---------------------------------------------------------------------------------------------------- */

/* The state behind a token; GR_DEAD where it is not allowed, GR_NONE on failure. */
static uint32_t after(ie_grammar *g, uint32_t state, int32_t token) {
    const gr_vocab *v = g->vocab;
    if (state < GR_FIRST || token < 0 || token >= v->n) return GR_DEAD;
    for (int32_t i = 0; i < v->n_end; i++)
        if (v->end[i] == token) return g->state[state].accept ? GR_DONE : GR_DEAD;
    uint32_t named = gr_step_token(g, state, token);
    if (named != GR_DEAD) return named;
    uint32_t at = state;
    ie_str s = v->text[token];
    if (s.len == 0) return GR_DEAD;
    for (size_t i = 0; i < s.len && at >= GR_FIRST && at != GR_NONE; i++) at = gr_step(g, at, (uint8_t)s.s[i]);
    return at;
}

ie_status ie_matcher_accept(ie_matcher *x, int32_t token, ie_error *err) {
    ie_grammar *g = x->g;
    ie_status st = enter(g, err);
    if (st) return st;
    uint32_t to = after(g, *current(x), token);
    if (to == GR_NONE) return leave(g, true, err);
    if (to == GR_DEAD) {
        leave(g, false, err);
        return ie_fail(err, IE_E_ARG, "grammar: token %d is not allowed here", token);
    }
    x->at = (x->at + 1) % (N_BACK + 1);
    x->ring[x->at] = to;
    if (x->n_back < N_BACK) x->n_back++;
    if (x->step < x->n_plan && x->plan[x->step] == token) x->step++;
    else x->n_plan = x->step = 0;
    return leave(g, false, err);
}

ie_status ie_matcher_back(ie_matcher *x, int32_t n, ie_error *err) {
    if (n < 0 || (uint32_t)n > x->n_back)
        return ie_fail(err, IE_E_ARG, "grammar: %d tokens cannot be taken back, allowed are 0 to %u", n, x->n_back);
    pthread_mutex_lock(&x->g->lock);
    x->at = (x->at + N_BACK + 1 - (uint32_t)n) % (N_BACK + 1);
    x->n_back -= (uint32_t)n;
    pthread_mutex_unlock(&x->g->lock);
    if (x->step >= (size_t)n) x->step -= (size_t)n;
    else x->n_plan = x->step = 0;
    return IE_OK;
}

int ie_matcher_complete(const ie_matcher *x) {
    pthread_mutex_lock(&x->g->lock);
    int yes = x->g->state[x->ring[x->at]].accept;
    pthread_mutex_unlock(&x->g->lock);
    return yes;
}

int ie_matcher_done(const ie_matcher *x) {
    pthread_mutex_lock(&x->g->lock);
    const gr_state *s = &x->g->state[x->ring[x->at]];
    int yes = s->accept && s->n == 0;
    pthread_mutex_unlock(&x->g->lock);
    return yes;
}

ie_status ie_matcher_shortest(ie_matcher *x, int32_t *n, ie_error *err) {
    ie_status st = enter(x->g, err);
    if (st) return st;
    bool ok;
    *n = (int32_t)plan(x, &ok);
    return leave(x->g, !ok, err);
}
