/* Runs the statements of a chat template: output, loops, scopes, macros. */
#include "jinja.h"

typedef enum { NORMAL, BREAK, CONTINUE } jflow;

/* A running for loop. With a condition the items are filtered as they are asked for, one ahead at most, as jinja2 does:
 * the condition may depend on what the body has set. */
struct jloop {
    const jnode *node;
    jseq *src;
    size_t at;                          /* next item of src */
    bool filtered;                      /* node->c still has to be asked */
    jscope *outer;                      /* scope of the statement */
    jv before, current, after, changed; /* J_MISSING: none */
    int64_t index0, depth0;
    int64_t length; /* -1: not known yet */
};

static jflow exec_body(jx *x, const jnode *n);

static jscope *push_scope(jx *x, jscope *up) {
    jscope *s = J_NEW(x, jscope);
    s->up = up;
    return s;
}

/* A scope for the next iteration: the last one's, unless a macro made meanwhile (closures counts them) may refer to it.
 */
static jscope *next_scope(jx *x, jscope *last, jscope *up, uint64_t closures) {
    if (!last || closures != x->closures) return push_scope(x, up);
    last->n = 0;
    return last;
}

/* ---- assignment ---------------------------------------------------------------------------------------------------
 */

static void assign(jx *x, const jnode *t, jv v) {
    x->line = t->line;
    if (t->kind == N_NAME) {
        j_define(x, t->name, v);
    } else if (t->kind == N_NSREF) {
        jv ns = j_lookup(x, t->name);
        if (ns.type != J_NS) j_error(x, "cannot assign attribute on non-namespace object");
        j_dict_set(x, ns.d, t->val, v);
    } else {
        size_t n = 0;
        for (const jnode *i = t->list; i; i = i->next) n++;
        if (!j_is_iterable(v)) j_error(x, "cannot unpack non-iterable %s object", j_type_name(v));
        jseq *q = j_iter(x, v);
        if (q->n != n) j_error(x, "cannot unpack %zu values into %zu names", q->n, n);
        n = 0;
        for (const jnode *i = t->list; i; i = i->next) assign(x, i, q->v[n++]);
    }
}

/* ---- loops --------------------------------------------------------------------------------------------------------
 */

/* The next item that the condition lets pass. */
static bool source_next(jx *x, jloop *l, jv *out) {
    jscope *scope = NULL;
    while (l->at < l->src->n) {
        *out = l->src->v[l->at++];
        j_charge(x, 1);
        if (!l->filtered) return true;
        jscope *saved = x->scope;
        x->scope = scope = next_scope(x, scope, l->outer, x->closures);
        assign(x, l->node->a, *out);
        bool pass = j_truth(x, j_eval(x, l->node->c));
        x->scope = saved;
        if (pass) return true;
    }
    return false;
}

static bool peek(jx *x, jloop *l) {
    if (l->after.type != J_MISSING) return true;
    jv v;
    if (!source_next(x, l, &v)) return false;
    l->after = v;
    return true;
}

bool j_loop_next(jx *x, jloop *l, jv *out) {
    if (!peek(x, l)) return false;
    l->index0++;
    l->before = l->current;
    l->current = *out = l->after;
    l->after.type = J_MISSING;
    return true;
}

static int64_t loop_length(jx *x, jloop *l) {
    if (l->length >= 0) return l->length;
    size_t cap = 8;
    jseq *rest = j_list_new(x, cap);
    for (jv v; source_next(x, l, &v);) j_push(x, rest, &cap, v);
    l->src = rest;
    l->at = 0;
    l->filtered = false;
    return l->length = (int64_t)rest->n + l->index0 + 1 + (l->after.type != J_MISSING);
}

static jv loop_cycle(jx *x, jv self, const jv *a, const jargs *raw) {
    (void)a;
    if (raw->npos == 0) j_error(x, "loop.cycle: no items for cycling given");
    return raw->pos[(size_t)self.lo->index0 % raw->npos];
}

static jv loop_changed(jx *x, jv self, const jv *a, const jargs *raw) {
    (void)a;
    jseq *now = j_seq(x, J_TUPLE, raw->npos);
    for (size_t i = 0; i < raw->npos; i++) now->v[i] = raw->pos[i];
    jloop *l = self.lo;
    if (l->changed.type != J_MISSING && j_equal(x, l->changed, jv_seq(now))) return jv_bool(false);
    l->changed = jv_seq(now);
    return jv_bool(true);
}

jv j_loop_attr(jx *x, jloop *l, const jstr *name, bool *found) {
    static const jbuiltin methods[] = {{"cycle", loop_cycle, NULL, 0}, {"changed", loop_changed, NULL, 0}};
    *found = true;
    if (j_str_is(name, "index")) return jv_int(l->index0 + 1);
    if (j_str_is(name, "index0")) return jv_int(l->index0);
    if (j_str_is(name, "first")) return jv_bool(l->index0 == 0);
    if (j_str_is(name, "last")) return jv_bool(!peek(x, l));
    if (j_str_is(name, "length")) return jv_int(loop_length(x, l));
    if (j_str_is(name, "revindex")) return jv_int(loop_length(x, l) - l->index0);
    if (j_str_is(name, "revindex0")) return jv_int(loop_length(x, l) - l->index0 - 1);
    if (j_str_is(name, "depth")) return jv_int(l->depth0 + 1);
    if (j_str_is(name, "depth0")) return jv_int(l->depth0);
    if (j_str_is(name, "previtem")) return l->index0 == 0 ? jv_undef(x, "there is no previous item") : l->before;
    if (j_str_is(name, "nextitem")) return peek(x, l) ? l->after : jv_undef(x, "there is no next item");
    const jbuiltin *m = J_IN_TABLE(methods, name->s, name->len);
    if (m) {
        jmethod *me = J_NEW(x, jmethod);
        me->self = (jv){.type = J_LOOP, .lo = l};
        me->fn = m;
        return (jv){.type = J_METHOD, .me = me};
    }
    *found = false;
    return jv_none();
}

/* Runs the loop over items; x->scope is the scope of the statement. */
static jflow run_loop(jx *x, const jnode *n, jv items, int64_t depth0) {
    jloop *l = J_NEW(x, jloop);
    jscope *outer = x->scope, *scope = NULL;
    jflow flow = NORMAL;
    uint64_t closures = x->closures;
    *l = (jloop){.node = n, .filtered = n->c != NULL, .outer = outer, .index0 = -1, .depth0 = depth0};
    l->before.type = l->current.type = l->after.type = l->changed.type = J_MISSING;
    l->src = j_iter(x, items);
    l->length = l->filtered ? -1 : (int64_t)l->src->n;
    bool any = false;
    for (jv item; flow != BREAK && j_loop_next(x, l, &item);) {
        any = true;
        x->scope = scope = next_scope(x, scope, outer, closures);
        closures = x->closures;
        j_define(x, x->names.loop, (jv){.type = J_LOOP, .lo = l});
        assign(x, n->a, item);
        flow = exec_body(x, n->list);
        x->scope = outer;
    }
    if (any || !n->list2) return NORMAL;
    x->scope = push_scope(x, outer);
    flow = exec_body(x, n->list2);
    x->scope = outer;
    return flow;
}

jv j_loop_call(jx *x, jloop *l, const jargs *a) {
    if (!l->node->op) j_error(x, "the loop must have the 'recursive' marker to be called recursively");
    if (a->npos != 1 || a->nkw) j_error(x, "loop() takes one argument");
    if (++x->macro_depth > J_MAX_NEST)
        j_fail(x, IE_E_FULL, "chat template, line %d: calls nested deeper than %d", x->line, J_MAX_NEST);
    j_enter(x);
    jscope *scope = x->scope;
    jbuf *out = x->out;
    x->out = j_buf(x);
    x->scope = l->outer;
    run_loop(x, l->node, a->pos[0], l->depth0 + 1);
    jstr *s = j_buf_done(x, x->out);
    x->out = out;
    x->scope = scope;
    x->eval_depth--;
    x->macro_depth--;
    return jv_str(s);
}

/* ---- macros and captured text -------------------------------------------------------------------------------------
 */

/* Runs body in a new scope above `up` and returns its text. */
static jstr *capture(jx *x, const jnode *body, jscope *scope, jflow *flow) {
    jscope *saved = x->scope;
    jbuf *out = x->out;
    x->out = j_buf(x);
    x->scope = scope;
    *flow = exec_body(x, body);
    jstr *s = j_buf_done(x, x->out);
    x->out = out;
    x->scope = saved;
    return s;
}

static jv *take_keyword(jargs *a, bool *used, const jstr *name) {
    for (size_t i = 0; i < a->nkw; i++)
        if (!used[i] && j_str_eq(a->kwname[i], name)) {
            used[i] = true;
            return &a->kw[i];
        }
    return NULL;
}

/* Binds the arguments of a macro in x->scope. */
static void bind_params(jx *x, const jmacro *m, jargs *a) {
    const jnode *n = m->node;
    bool *used = J_ARRAY(x, bool, a->nkw);
    size_t i = 0;
    for (const jnode *p = n->list2; p; p = p->next, i++) {
        const jv *kw = i < a->npos ? NULL : take_keyword(a, used, p->name);
        if (i < a->npos)
            j_define(x, p->name, a->pos[i]);
        else if (kw)
            j_define(x, p->name, *kw);
        else if (p->a)
            j_define(x, p->name, j_eval(x, p->a));
        else
            j_define(x, p->name, jv_undef_attr(x, (jv){.type = J_MISSING}, p->name));
    }
    if (n->flags & J_USES_CALLER) {
        const jv *kw = take_keyword(a, used, x->names.caller);
        j_define(x, x->names.caller, kw ? *kw : jv_undef(x, "no caller defined"));
    }
    if (n->flags & J_USES_KWARGS) {
        jdict *d = j_dict(x);
        for (size_t k = 0; k < a->nkw; k++)
            // NOLINTNEXTLINE(clang-analyzer-core.NullDereference): nkw > 0 only with kw
            if (!used[k]) j_dict_set(x, d, jv_str((jstr *)(uintptr_t)a->kwname[k]), a->kw[k]);
        j_define(x, x->names.kwargs, jv_dict(d));
    } else {
        for (size_t k = 0; k < a->nkw; k++)
            if (!used[k])
                j_error(x, "macro '%.*s' takes no keyword argument '%.*s'", J_CLIP(m->name), J_CLIP(a->kwname[k]));
    }
    if (n->flags & J_USES_VARARGS) {
        jseq *q = j_seq(x, J_TUPLE, a->npos > i ? a->npos - i : 0);
        for (size_t k = 0; k < q->n; k++) q->v[k] = a->pos[i + k];
        j_define(x, x->names.varargs, jv_seq(q));
    } else if (a->npos > i) {
        j_error(x, "macro '%.*s' takes not more than %zu argument(s)", J_CLIP(m->name), i);
    }
}

jv j_call_macro(jx *x, const jmacro *m, const jargs *args) {
    if (++x->macro_depth > J_MAX_NEST)
        j_fail(x, IE_E_FULL, "chat template, line %d: calls nested deeper than %d", x->line, J_MAX_NEST);
    j_enter(x);
    jscope *saved = x->scope;
    jargs a = *args;
    x->scope = push_scope(x, m->scope);
    bind_params(x, m, &a);
    jflow flow;
    jstr *s = capture(x, m->node->list, x->scope, &flow);
    x->scope = saved;
    x->eval_depth--;
    x->macro_depth--;
    return jv_str(s);
}

static jv make_macro(jx *x, const jnode *n) {
    jmacro *m = J_NEW(x, jmacro);
    *m = (jmacro){n, x->scope, n->name};
    x->closures++;
    return (jv){.type = J_MACRO, .ma = m};
}

/* ---- statements ---------------------------------------------------------------------------------------------------
 */

static jv filter_chain(jx *x, const jnode *f, jv v) { /* a chain of N_FILTER whose innermost has no operand */
    if (!f) return v;
    j_enter(x);
    v = j_apply_filter(x, f, filter_chain(x, f->a, v));
    x->eval_depth--;
    return v;
}

static void call_block(jx *x, const jnode *n) {
    jv caller = make_macro(x, n), f = j_eval(x, n->a->a);
    jargs args;
    j_eval_args(x, n->a->list, &args, &caller);
    x->line = n->line;
    j_write_str(x, x->out, j_call(x, f, &args));
}

static void with_block_vars(jx *x, const jnode *n, jscope *scope) {
    jscope *outer = x->scope; /* values are evaluated outside */
    for (const jnode *p = n->list2; p; p = p->next) {
        jv v = j_eval(x, p->b);
        x->scope = scope;
        assign(x, p->a, v);
        x->scope = outer;
    }
}

static jflow exec_if(jx *x, const jnode *n) {
    for (const jnode *b = n->list; b; b = b->next)
        if (!b->a || j_truth(x, j_eval(x, b->a))) return exec_body(x, b->list);
    return NORMAL;
}

static jflow exec_for(jx *x, const jnode *n) {
    jv items = j_eval(x, n->b);
    x->line = n->line;
    return run_loop(x, n, items, 0);
}

static jflow exec_captured(jx *x, const jnode *n) {
    jflow flow;
    jstr *s = capture(x, n->list, push_scope(x, x->scope), &flow);
    if (flow != NORMAL && n->kind == N_SETBLOCK) return flow;
    jv v = filter_chain(x, n->b, jv_str(s));
    if (n->kind == N_SETBLOCK)
        assign(x, n->a, n->b ? v : jv_str(s));
    else
        j_write_str(x, x->out, v);
    return flow;
}

static jflow exec_scoped(jx *x, const jnode *n) {
    jscope *saved = x->scope, *scope = push_scope(x, saved);
    if (n->kind == N_SCOPE && !n->op)
        while (scope->up && scope->up->up) scope->up = scope->up->up;
    if (n->kind == N_WITH) with_block_vars(x, n, scope);
    x->scope = scope;
    jflow flow = exec_body(x, n->list);
    x->scope = saved;
    return flow;
}

static jflow exec_one(jx *x, const jnode *n) {
    switch ((jkind)n->kind) {
    case N_DATA: j_buf_str(x, x->out, n->val.s); return NORMAL;
    case N_OUT: j_write_str(x, x->out, j_eval(x, n->a)); return NORMAL;
    case N_IF: return exec_if(x, n);
    case N_FOR: return exec_for(x, n);
    case N_SET: assign(x, n->a, j_eval(x, n->b)); return NORMAL;
    case N_MACRO: j_define(x, n->name, make_macro(x, n)); return NORMAL;
    case N_CALLBLOCK: call_block(x, n); return NORMAL;
    case N_SETBLOCK:
    case N_FILTERBLOCK: return exec_captured(x, n);
    case N_WITH:
    case N_SCOPE:
    case N_GENERATION: return exec_scoped(x, n);
    case N_BREAK: return BREAK;
    case N_CONTINUE: return CONTINUE;
    default: j_error(x, "expression where a statement is expected");
    }
}

static jflow exec_body(jx *x, const jnode *n) {
    j_enter(x);
    jflow flow = NORMAL;
    for (; n && flow == NORMAL; n = n->next) {
        j_charge(x, 1);
        x->line = n->line;
        flow = exec_one(x, n);
    }
    x->eval_depth--;
    return flow;
}

void j_exec(jx *x, const jnode *body) {
    x->scope = push_scope(x, NULL);
    exec_body(x, body);
}
