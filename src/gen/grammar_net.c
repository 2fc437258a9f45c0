/* From rules to the byte automaton of each rule, and what is known about it beforehand: which rules may match nothing, the shortest
 * way to the end from everywhere, the order of calls. Nothing here recurses: inputs may nest as deep as they are long. */
#include <stdlib.h>
#include <string.h>

#include "grammar.h"

void gr_net_free(gr_net *net) {
    free(net->node);
    free(net->edge);
    free(net->start);
    free(net->start_at);
    free(net->dist);
    free(net->rule_dist);
    free(net->best);
    free(net->rule_best);
    free(net->rank);
    *net = (gr_net){0};
}

/* ---- nodes ------------------------------------------------------------------------------------------------------------ */

typedef struct {
    gr_net *net;
    const gr_build *b;
    uint32_t *class_rule; /* rule that a class of several bytes became, GR_NONE */
    ie_error *err;
    bool failed;
} maker;

static bool more(maker *k, void *array, size_t *cap, uint32_t have, size_t size) {
    if (!k->failed && have >= 4 * GR_MAX_PARTS) {
        ie_fail(k->err, IE_E_ARG, "grammar: too large; its automaton has more than %u parts", 4 * GR_MAX_PARTS);
        k->failed = true;
    }
    if (!k->failed && !ie_grow(array, cap, have + 1, size, "grammar", k->err)) k->failed = true;
    return !k->failed;
}

static uint32_t add_node(maker *k, gr_node n) {
    gr_net *net = k->net;
    if (!more(k, &net->node, &net->cap_node, net->n_node, sizeof n)) return GR_END;
    net->node[net->n_node] = n;
    return net->n_node++;
}

static void add_edge(maker *k, uint8_t lo, uint8_t hi, uint32_t to) {
    gr_net *net = k->net;
    if (!more(k, &net->edge, &net->cap_edge, net->n_edge, sizeof *net->edge)) return;
    net->edge[net->n_edge++] = (gr_edge){lo, hi, to};
}

static uint32_t bytes_node(maker *k, uint8_t lo, uint8_t hi, uint32_t to) {
    uint32_t at = k->net->n_edge;
    add_edge(k, lo, hi, to);
    return add_node(k, (gr_node){GR_N_BYTES, false, at, 1});
}

/* Splits [lo, hi] where its members' UTF-8 forms stop being one range a byte (R. Cox, "Regular expression matching in the wild",
 * 2010). list has room for 32; returns how many there are. */
static int split(uint32_t lo, uint32_t hi, gr_range *list) {
    static const uint32_t last[] = {0x7F, 0x7FF, 0xFFFF};
    gr_range todo[32] = {{lo, hi}};
    int n_todo = 1, n = 0;
    while (n_todo) {
        gr_range r = todo[--n_todo];
        uint32_t cut = GR_NONE; /* the last member of the first part */
        for (int i = 0; i < 3 && cut == GR_NONE; i++)
            if (r.lo <= last[i] && r.hi > last[i]) cut = last[i];
        for (int i = 1; i <= 3 && cut == GR_NONE && r.hi > 0x7F; i++) {
            uint32_t m = (1u << 6 * i) - 1;
            if ((r.lo & ~m) == (r.hi & ~m)) continue;
            if (r.lo & m) cut = r.lo | m;
            else if ((r.hi & m) != m) cut = (r.hi & ~m) - 1;
        }
        if (cut == GR_NONE) {
            list[n++] = r;
            continue;
        }
        todo[n_todo++] = (gr_range){cut + 1, r.hi};
        todo[n_todo++] = (gr_range){r.lo, cut};
    }
    return n;
}

static size_t utf8(uint32_t cp, uint8_t out[4]) {
    if (cp < 0x80) return out[0] = (uint8_t)cp, 1;
    size_t n = cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--, cp >>= 6) out[i] = (uint8_t)(0x80 | (cp & 0x3F));
    out[0] = (uint8_t)(cp | (n == 2 ? 0xC0 : n == 3 ? 0xE0 : 0xF0));
    return n;
}

/* Nodes of a class's later bytes: the same range to the same node is shared. */
typedef struct {
    struct {
        uint8_t lo, hi;
        uint32_t to, node;
    } v[64];
    uint32_t n;
} tails;

static uint32_t tail(maker *k, tails *t, uint8_t lo, uint8_t hi, uint32_t to) {
    for (uint32_t i = 0; i < t->n && i < 64; i++)
        if (t->v[i].lo == lo && t->v[i].hi == hi && t->v[i].to == to) return t->v[i].node;
    uint32_t node = bytes_node(k, lo, hi, to), at = t->n++ & 63;
    t->v[at].lo = lo, t->v[at].hi = hi, t->v[at].to = to, t->v[at].node = node;
    return node;
}

/* The node of a class: an edge for each range of first bytes, the later bytes as nodes of their own. */
static uint32_t class_node(maker *k, gr_class c, uint32_t to) {
    tails t = {.n = 0};
    gr_edge *first = NULL;
    size_t n = 0, cap = 0;
    for (uint32_t i = 0; i < c.n && !k->failed; i++) {
        gr_range part[32], r = k->b->range[c.first + i];
        int parts = split(r.lo, r.hi, part);
        for (int j = 0; j < parts && !k->failed; j++) {
            uint8_t lo[4] = {0}, hi[4] = {0};
            size_t len = utf8(part[j].lo, lo);
            utf8(part[j].hi, hi);
            uint32_t next = to;
            for (size_t at = len - 1; at > 0; at--) next = tail(k, &t, lo[at], hi[at], next);
            if (!ie_grow(&first, &cap, n + 1, sizeof *first, "grammar", k->err)) k->failed = true;
            else first[n++] = (gr_edge){lo[0], hi[0], next};
        }
    }
    uint32_t at = k->net->n_edge;
    for (size_t i = 0; i < n; i++) add_edge(k, first[i].lo, first[i].hi, first[i].to);
    free(first);
    return add_node(k, (gr_node){GR_N_BYTES, false, at, (uint32_t)n});
}

static bool is_ascii(const gr_build *b, gr_class c) { return c.n == 0 || b->range[c.first + c.n - 1].hi < 0x80; }

static uint32_t elem_node(maker *k, gr_elem e, uint32_t to) {
    const gr_build *b = k->b;
    switch ((gr_kind)e.kind) {
    case GR_LIT:
        for (uint32_t i = e.b; i > 0 && !k->failed; i--) {
            uint8_t byte = (uint8_t)b->bytes[e.a + i - 1];
            to = bytes_node(k, byte, byte, to);
        }
        return to;
    case GR_CLASS:
        if (is_ascii(b, b->cls[e.a])) return class_node(k, b->cls[e.a], to);
        return add_node(k, (gr_node){GR_N_CALL, false, k->class_rule[e.a], to});
    case GR_CALL: return add_node(k, (gr_node){GR_N_CALL, e.again, e.a, to});
    case GR_TOKEN: break;
    }
    return add_node(k, (gr_node){GR_N_TOKEN, false, e.a, to});
}

static uint32_t alt_node(maker *k, const gr_alt *a) {
    uint32_t to = GR_END;
    for (uint32_t i = a->n; i > 0 && !k->failed; i--) to = elem_node(k, k->b->elem[a->elem + i - 1], to);
    return to;
}

/* Rules, then one more for each class that needs several bytes. */
static ie_status make_nodes(maker *k) {
    const gr_build *b = k->b;
    gr_net *net = k->net;
    uint32_t n_rule = (uint32_t)b->n_rule;
    k->class_rule = ie_calloc(b->n_cls + 1, sizeof *k->class_rule, "grammar", k->err);
    if (!k->class_rule) return IE_E_NOMEM;
    for (size_t i = 0; i < b->n_cls; i++) k->class_rule[i] = is_ascii(b, b->cls[i]) ? GR_NONE : n_rule++;
    net->n_rule = n_rule;
    net->start_at = ie_calloc((size_t)n_rule + 1, sizeof *net->start_at, "grammar", k->err);
    net->start = ie_calloc(b->n_alt + b->n_cls + 1, sizeof *net->start, "grammar", k->err);
    if (!net->start_at || !net->start) return IE_E_NOMEM;
    add_node(k, (gr_node){GR_N_END, false, 0, 0});
    if (!ie_grow(&net->edge, &net->cap_edge, 1, sizeof *net->edge, "grammar", k->err)) return IE_E_NOMEM;
    uint32_t n = 0;
    for (uint32_t r = 0; r < b->n_rule; r++) {
        net->start_at[r] = n;
        for (uint32_t a = b->rule[r].first; a != GR_NONE && !k->failed; a = b->alt[a].next) net->start[n++] = alt_node(k, &b->alt[a]);
    }
    for (size_t i = 0; i < b->n_cls; i++) {
        if (k->class_rule[i] == GR_NONE) continue;
        net->start_at[k->class_rule[i]] = n;
        net->start[n++] = class_node(k, b->cls[i], GR_END);
    }
    net->start_at[n_rule] = n;
    return k->failed ? k->err->code : IE_OK;
}

/* ---- shortest ways ------------------------------------------------------------------------------------------------------ */

/* Knuth's generalisation of Dijkstra's algorithm to grammars (1977): places become final in order of distance; a call is as far
 * as the rule called plus what follows it. */
typedef struct {
    gr_net *net;
    uint64_t *key; /* heap of (distance, node) */
    uint32_t *val;
    size_t n, cap_key, cap_val;
    uint32_t *by_next, *next_list; /* nodes by the node that they lead to: head, then chain of references */
    uint32_t *by_rule, *rule_list; /* CALL nodes by rule */
    uint32_t *ref_node, *ref_edge; /* a reference's source and its edge */
    uint32_t *of_start, *start_list; /* starting places by node */
    bool *final;
    ie_error *err;
} ways;

static bool heap_put(ways *w, uint64_t d, uint32_t node) {
    if (!ie_grow(&w->key, &w->cap_key, w->n + 1, sizeof *w->key, "grammar", w->err)) return false;
    if (!ie_grow(&w->val, &w->cap_val, w->n + 1, sizeof *w->val, "grammar", w->err)) return false;
    size_t i = w->n++;
    for (; i && w->key[(i - 1) / 2] > d; i = (i - 1) / 2) w->key[i] = w->key[(i - 1) / 2], w->val[i] = w->val[(i - 1) / 2];
    w->key[i] = d, w->val[i] = node;
    return true;
}

static uint32_t heap_take(ways *w, uint64_t *d) {
    uint32_t out = w->val[0];
    *d = w->key[0];
    uint64_t key = w->key[--w->n];
    uint32_t val = w->val[w->n];
    size_t i = 0;
    for (size_t c; (c = 2 * i + 1) < w->n; i = c) {
        if (c + 1 < w->n && w->key[c + 1] < w->key[c]) c++;
        if (w->key[c] >= key) break;
        w->key[i] = w->key[c], w->val[i] = w->val[c];
    }
    w->key[i] = key, w->val[i] = val;
    return out;
}

static bool relax(ways *w, uint32_t node, uint64_t d, uint32_t edge) {
    if (d > GR_FAR) d = GR_FAR;
    if (w->final[node] || d >= w->net->dist[node]) return true;
    w->net->dist[node] = d;
    w->net->best[node] = edge;
    return heap_put(w, d, node);
}

static uint64_t edge_cost(const gr_vocab *v, const gr_edge *e) {
    for (unsigned c = e->lo; c <= e->hi; c++)
        if (v->single[c]) return 1;
    return 1 + GR_NO_SINGLE;
}

static bool way_lists(ways *w) {
    gr_net *net = w->net;
    size_t refs = (size_t)net->n_edge + net->n_node + 1, starts = net->start_at[net->n_rule] + 1u;
    w->by_next = ie_calloc(net->n_node, sizeof(uint32_t), "grammar", w->err);
    w->next_list = ie_calloc(refs, sizeof(uint32_t), "grammar", w->err);
    w->ref_node = ie_calloc(refs, sizeof(uint32_t), "grammar", w->err);
    w->ref_edge = ie_calloc(refs, sizeof(uint32_t), "grammar", w->err);
    w->by_rule = ie_calloc((size_t)net->n_rule + 1, sizeof(uint32_t), "grammar", w->err);
    w->rule_list = ie_calloc(net->n_node, sizeof(uint32_t), "grammar", w->err);
    w->of_start = ie_calloc(net->n_node, sizeof(uint32_t), "grammar", w->err);
    w->start_list = ie_calloc(starts, sizeof(uint32_t), "grammar", w->err);
    w->final = ie_calloc(net->n_node, sizeof(bool), "grammar", w->err);
    if (!w->by_next || !w->next_list || !w->ref_node || !w->ref_edge || !w->by_rule || !w->rule_list || !w->of_start ||
        !w->start_list || !w->final)
        return false;
    uint32_t n = 0; /* list links are index + 1 */
    for (uint32_t i = 0; i < net->n_node; i++) {
        const gr_node *d = &net->node[i];
        uint32_t first = d->kind == GR_N_BYTES ? d->a : 0, count = d->kind == GR_N_BYTES ? d->b : d->kind != GR_N_END;
        for (uint32_t k = 0; k < count; k++, n++) {
            uint32_t to = d->kind == GR_N_BYTES ? net->edge[first + k].to : d->b;
            w->ref_node[n] = i, w->ref_edge[n] = first + k;
            w->next_list[n] = w->by_next[to], w->by_next[to] = n + 1;
        }
        if (d->kind == GR_N_CALL) w->rule_list[i] = w->by_rule[d->a], w->by_rule[d->a] = i + 1;
    }
    for (uint32_t s = 0; s < net->start_at[net->n_rule]; s++)
        w->start_list[s] = w->of_start[net->start[s]], w->of_start[net->start[s]] = s + 1;
    return true;
}

static uint32_t rule_of_start(const gr_net *net, uint32_t s) {
    uint32_t lo = 0, hi = net->n_rule;
    while (hi - lo > 1) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (net->start_at[mid] <= s) lo = mid;
        else hi = mid;
    }
    return lo;
}

/* Node v is final: what leads to it, and the rules that begin with it. */
static bool settle(ways *w, const gr_vocab *v, uint32_t node) {
    gr_net *net = w->net;
    uint64_t d = net->dist[node];
    for (uint32_t l = w->by_next[node]; l; l = w->next_list[l - 1]) {
        uint32_t from = w->ref_node[l - 1];
        const gr_node *f = &net->node[from];
        uint64_t cost = f->kind == GR_N_BYTES ? edge_cost(v, &net->edge[w->ref_edge[l - 1]]) : f->kind == GR_N_CALL ? net->rule_dist[f->a] : 1;
        if (cost < GR_FAR && !relax(w, from, d + cost, w->ref_edge[l - 1])) return false;
    }
    for (uint32_t l = w->of_start[node]; l; l = w->start_list[l - 1]) {
        uint32_t r = rule_of_start(net, l - 1);
        if (net->rule_dist[r] < GR_FAR) continue;
        net->rule_dist[r] = d;
        net->rule_best[r] = node;
        for (uint32_t c = w->by_rule[r]; c; c = w->rule_list[c - 1])
            if (w->final[net->node[c - 1].b] && !relax(w, c - 1, d + net->dist[net->node[c - 1].b], 0)) return false;
    }
    return true;
}

static ie_status find_ways(gr_net *net, const gr_vocab *v, ie_error *err) {
    ways w = {.net = net, .err = err};
    net->dist = ie_calloc(net->n_node, sizeof *net->dist, "grammar", err);
    net->best = ie_calloc(net->n_node, sizeof *net->best, "grammar", err);
    net->rule_dist = ie_calloc((size_t)net->n_rule + 1, sizeof *net->rule_dist, "grammar", err);
    net->rule_best = ie_calloc((size_t)net->n_rule + 1, sizeof *net->rule_best, "grammar", err);
    bool ok = net->dist && net->best && net->rule_dist && net->rule_best && way_lists(&w);
    for (uint32_t i = 0; ok && i < net->n_node; i++) net->dist[i] = GR_FAR;
    for (uint32_t i = 0; ok && i <= net->n_rule; i++) net->rule_dist[i] = GR_FAR;
    ok = ok && relax(&w, GR_END, 0, 0);
    while (ok && w.n) {
        uint64_t d;
        uint32_t node = heap_take(&w, &d);
        if (w.final[node]) continue;
        w.final[node] = true;
        ok = settle(&w, v, node);
    }
    void *all[] = {w.key, w.val, w.by_next, w.next_list, w.by_rule, w.rule_list, w.ref_node, w.ref_edge, w.of_start, w.start_list, w.final};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
    return ok ? IE_OK : IE_E_NOMEM;
}

/* ---- calls at the very start of rules -------------------------------------------------------------------------------------- */

typedef struct {
    uint32_t rule, start, node; /* next starting place, and where its walk is; GR_NONE: at none */
} visit;

static ie_status left_recursion(const gr_build *b, const visit *stack, size_t n, uint32_t rule, ie_error *err) {
    size_t from = n;
    while (from > 0 && stack[from - 1].rule != rule) from--;
    for (size_t i = from ? from - 1 : 0; i < n; i++) {
        if (stack[i].rule >= b->n_rule || b->rule[stack[i].rule].name == GR_NONE) continue;
        const gr_rule *r = &b->rule[stack[i].rule];
        return ie_fail(err, IE_E_FORMAT, "grammar: rule '%.*s' is left-recursive (it can begin with itself); write it with a repetition instead",
                       r->name_len > 60 ? 60 : (int)r->name_len, b->bytes + r->name);
    }
    return ie_fail(err, IE_E_FORMAT, "grammar: a group is left-recursive (it can begin with itself)");
}

/* The rule called next at the start of v's rule, GR_NONE when all were given. Walks on behind rules that may match nothing. */
static uint32_t next_call(const gr_net *net, visit *v) {
    for (;;) {
        if (v->node == GR_NONE) {
            if (v->start == net->start_at[v->rule + 1]) return GR_NONE;
            v->node = net->start[v->start++];
        }
        const gr_node *d = &net->node[v->node];
        if (d->kind != GR_N_CALL) {
            v->node = GR_NONE;
            continue;
        }
        v->node = net->rule_dist[d->a] == 0 && !d->again ? d->b : GR_NONE;
        return d->a;
    }
}

/* Depth first; ranks are given in reverse order of completion. */
static ie_status order_calls(const gr_build *b, gr_net *net, ie_error *err) {
    enum { NEW, OPEN, CLOSED };
    net->rank = ie_calloc((size_t)net->n_rule + 1, sizeof *net->rank, "grammar", err);
    uint8_t *mark = ie_calloc((size_t)net->n_rule + 1, 1, "grammar", err);
    visit *stack = NULL;
    size_t n = 0, cap = 0;
    uint32_t left = net->n_rule;
    ie_status st = net->rank && mark ? IE_OK : IE_E_NOMEM;
    for (uint32_t r = 0; r < net->n_rule && !st; r++) {
        for (uint32_t next = r; !st;) {
            if (next != GR_NONE && mark[next] == OPEN) st = left_recursion(b, stack, n, next, err);
            else if (next != GR_NONE && mark[next] == NEW) {
                if (!ie_grow(&stack, &cap, n + 1, sizeof *stack, "grammar", err)) st = IE_E_NOMEM;
                else stack[n++] = (visit){next, net->start_at[next], GR_NONE}, mark[next] = OPEN;
            }
            if (st || n == 0) break;
            next = next_call(net, &stack[n - 1]);
            if (next != GR_NONE) continue;
            mark[stack[n - 1].rule] = CLOSED;
            net->rank[stack[--n].rule] = --left;
        }
    }
    free(mark);
    free(stack);
    return st;
}

ie_status gr_net_make(const gr_build *b, uint32_t root, const gr_vocab *v, gr_net *net, ie_error *err) {
    *net = (gr_net){.root = root};
    maker k = {.net = net, .b = b, .err = err};
    ie_status st = IE_OK;
    for (uint32_t r = 0; r < b->n_rule && !st; r++)
        if (!b->rule[r].defined)
            st = ie_fail(err, IE_E_FORMAT, "grammar: rule '%.*s' is used and not defined", b->rule[r].name_len > 60 ? 60 : (int)b->rule[r].name_len,
                         b->rule[r].name == GR_NONE ? "" : b->bytes + b->rule[r].name);
    if (!st) st = make_nodes(&k);
    free(k.class_rule);
    if (!st) st = find_ways(net, v, err);
    if (!st) st = order_calls(b, net, err);
    if (!st && net->rule_dist[root] >= GR_FAR) st = ie_fail(err, IE_E_FORMAT, "grammar: no text fits it (its root can never come to an end)");
    if (st) gr_net_free(net);
    return st;
}
