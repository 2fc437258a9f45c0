/* Evaluates the expressions of a chat template. */
#include "jinja.h"

void j_enter(jx *x) {
    if (++x->eval_depth > J_MAX_EVAL)
        j_fail(x, IE_E_FULL, "chat template, line %d: evaluation nested deeper than %d", x->line, J_MAX_EVAL);
}

/* ---- names --------------------------------------------------------------------------------------------------------
 */

jv j_lookup(jx *x, const jstr *name) {
    uint64_t seen = 0;
    for (const jscope *s = x->scope; s; s = s->up) {
        for (size_t i = s->n; i-- > 0;)
            if (s->var[i].name == name) return s->var[i].val;
        seen += s->n + 1;
    }
    j_charge(x, seen >> 4);
    const jv *v = j_dict_find(x, x->vars, name);
    if (v) return *v;
    const jbuiltin *f = j_find_global(name->s, name->len);
    if (f) return (jv){.type = J_FUNC, .fn = f};
    return jv_undef_attr(x, (jv){.type = J_MISSING}, name);
}

void j_define(jx *x, const jstr *name, jv val) {
    jscope *s = x->scope;
    for (size_t i = 0; i < s->n; i++)
        if (s->var[i].name == name) {
            s->var[i].val = val;
            return;
        }
    if (s->n == s->cap) {
        size_t cap = s->cap ? s->cap * 2 : 4;
        jvar *v = J_ARRAY(x, jvar, cap);
        if (s->n) memcpy(v, s->var, s->n * sizeof *v);
        s->var = v;
        s->cap = cap;
    }
    s->var[s->n++] = (jvar){name, val};
    j_charge(x, s->n >> 4);
}

/* ---- calls --------------------------------------------------------------------------------------------------------
 */

static size_t word(const char **p) { /* length of the next of the space-separated names, 0 at the end */
    while (**p == ' ') ++*p;
    return strcspn(*p, " ");
}

jv j_call_builtin(jx *x, const jbuiltin *f, jv self, const jargs *a) {
    jv bound[J_MAX_PARAMS];
    if (!f->params) return f->fn(x, self, NULL, a);
    size_t n = 0, used = 0;
    const char *p = f->params;
    for (size_t len; (len = word(&p)) > 0; p += len, n++) {
        bound[n] = n < a->npos ? a->pos[n] : (jv){.type = J_MISSING};
        for (size_t k = 0; k < a->nkw; k++) {
            if (a->kwname[k]->len != len || memcmp(a->kwname[k]->s, p, len) != 0) continue;
            if (n < a->npos) j_error(x, "%s: argument '%.*s' given twice", f->name, (int)len, p);
            bound[n] = a->kw[k];
            used++;
        }
        if (n < f->need && bound[n].type == J_MISSING)
            j_error(x, "%s: argument '%.*s' is missing", f->name, (int)len - (*p == '/'), p + (*p == '/'));
    }
    if (a->npos > n) j_error(x, "%s takes at most %zu arguments, got %zu", f->name, n, a->npos);
    if (used < a->nkw) j_error(x, "%s: unexpected keyword argument, allowed: %s", f->name, n ? f->params : "none");
    return f->fn(x, self, bound, a);
}

/* Evaluates N_ARG nodes. extra_caller, if not NULL, is added as keyword argument "caller". */
void j_eval_args(jx *x, const jnode *list, jargs *out, const jv *extra_caller) {
    *out = (jargs){0};
    size_t n = extra_caller != NULL;
    bool spread = false;
    for (const jnode *i = list; i; i = i->next) {
        n++;
        spread |= i->op >= J_ARG_STAR;
    }
    if (!n) return;
    size_t pcap = n;
    jseq *pos = j_list_new(x, n);
    jdict *kw = NULL;
    jv *kwv = J_ARRAY(x, jv, n);
    const jstr **kwn = J_ARRAY(x, const jstr *, n);
    size_t nkw = 0;
    for (const jnode *i = list; i; i = i->next) {
        jv v = j_eval(x, i->a);
        if (i->op == J_ARG_POS) {
            j_push(x, pos, &pcap, v);
        } else if (i->op == J_ARG_KW) {
            kwn[nkw] = i->name;
            kwv[nkw++] = v;
        } else if (i->op == J_ARG_STAR) {
            jseq *q = j_iter(x, v);
            for (size_t k = 0; k < q->n; k++) j_push(x, pos, &pcap, q->v[k]);
        } else {
            if (v.type != J_DICT) j_error(x, "argument after ** must be a mapping, not %s", j_type_name(v));
            kw = v.d;
        }
    }
    if (extra_caller) {
        kwn[nkw] = x->names.caller;
        kwv[nkw++] = *extra_caller;
    }
    if (spread && kw) {
        jv *v2 = J_ARRAY(x, jv, nkw + kw->n);
        const jstr **n2 = J_ARRAY(x, const jstr *, nkw + kw->n);
        if (nkw) memcpy(v2, kwv, nkw * sizeof *v2);
        if (nkw) memcpy(n2, kwn, nkw * sizeof *n2);
        for (size_t k = 0; k < kw->n; k++) {
            if (kw->e[k].key.type != J_STR) j_error(x, "keywords must be strings");
            n2[nkw] = kw->e[k].key.s;
            v2[nkw++] = kw->e[k].val;
        }
        kwv = v2;
        kwn = n2;
    }
    *out = (jargs){pos->v, pos->n, kwn, kwv, nkw};
}

jv j_apply_filter(jx *x, const jnode *n, jv value) {
    jargs args;
    if (!n->fn) {
        x->line = n->line;
        j_error(x, "no filter named '%.*s' is supported", J_CLIP(n->name));
    }
    j_eval_args(x, n->list, &args, NULL);
    x->line = n->line;
    return j_call_builtin(x, n->fn, value, &args);
}

jv j_call(jx *x, jv f, const jargs *a) {
    switch ((jtype)f.type) {
    case J_FUNC: return j_call_builtin(x, f.fn, jv_none(), a);
    case J_METHOD: return j_call_builtin(x, f.me->fn, f.me->self, a);
    case J_MACRO: return j_call_macro(x, f.ma, a);
    case J_LOOP: return j_loop_call(x, f.lo, a);
    case J_JOINER: /* the separator, except the first time; q->v[0] is the separator */
        return f.q->pos++ ? f.q->v[0] : jv_str(j_lit(x, ""));
    case J_UNDEF: j_undefined_error(x, f);
    default: j_error(x, "'%s' object is not callable", j_type_name(f));
    }
}

/* ---- nodes --------------------------------------------------------------------------------------------------------
 */

static jv eval_seq(jx *x, const jnode *n) {
    size_t count = 0, i = 0;
    for (const jnode *k = n->list; k; k = k->next) count++;
    jseq *q = j_seq(x, n->kind == N_LIST ? J_LIST : J_TUPLE, count);
    for (const jnode *k = n->list; k; k = k->next) q->v[i++] = j_eval(x, k);
    return jv_seq(q);
}

static jv eval_dict(jx *x, const jnode *n) {
    jdict *d = j_dict(x);
    for (const jnode *k = n->list; k; k = k->next->next) {
        jv key = j_eval(x, k);
        j_dict_set(x, d, key, j_eval(x, k->next));
    }
    return jv_dict(d);
}

static jv eval_item(jx *x, const jnode *n) {
    jv of = j_eval(x, n->a);
    if (n->b->kind != N_SLICE) {
        jv key = j_eval(x, n->b);
        x->line = n->line;
        return j_getitem(x, of, key);
    }
    const jnode *s = n->b;
    jv part[3];
    if (s->a) part[0] = j_eval(x, s->a);
    if (s->b) part[1] = j_eval(x, s->b);
    if (s->c) part[2] = j_eval(x, s->c);
    x->line = n->line;
    return j_slice(x, of, s->a ? &part[0] : NULL, s->b ? &part[1] : NULL, s->c ? &part[2] : NULL);
}

static jv eval_call(jx *x, const jnode *n) {
    jv f = j_eval(x, n->a);
    jargs args;
    j_eval_args(x, n->list, &args, NULL);
    x->line = n->line;
    return j_call(x, f, &args);
}

static jv eval_test(jx *x, const jnode *n) {
    jv v = j_eval(x, n->a);
    jargs args;
    x->line = n->line;
    if (!n->fn) j_error(x, "no test named '%.*s' is supported", J_CLIP(n->name));
    j_eval_args(x, n->list, &args, NULL);
    return j_call_builtin(x, n->fn, v, &args);
}

static jv eval_logical(jx *x, const jnode *n) {
    jv v = jv_none();
    for (const jnode *k = n->list; k; k = k->next) {
        v = j_eval(x, k);
        if (j_truth(x, v) == (n->kind == N_OR)) break;
    }
    return v;
}

static jv eval_math(jx *x, const jnode *n) {
    jv v = j_eval(x, n->a);
    for (const jnode *k = n->list; k; k = k->next) {
        jv w = j_eval(x, k->a);
        x->line = k->line;
        v = j_math(x, k->op, v, w);
    }
    return v;
}

static jv eval_concat(jx *x, const jnode *n) {
    jstr *s = j_to_str(x, j_eval(x, n->a));
    for (const jnode *k = n->list; k; k = k->next) s = j_concat(x, s, j_to_str(x, j_eval(x, k->a)));
    return jv_str(s);
}

static jv eval_compare(jx *x, const jnode *n) {
    jv left = j_eval(x, n->a);
    for (const jnode *k = n->list; k; k = k->next) {
        jv right = j_eval(x, k->a);
        x->line = k->line;
        if (!j_compare(x, k->op, left, right)) return jv_bool(false);
        left = right;
    }
    return jv_bool(true);
}

static jv eval_sign(jx *x, const jnode *n) {
    jv v = j_eval(x, n->a);
    x->line = n->line;
    if (v.type == J_UNDEF) j_undefined_error(x, v);
    if (!j_is_number(v))
        j_error(x, "bad operand type for unary %c: '%s'", n->kind == N_NEG ? '-' : '+', j_type_name(v));
    if (v.type == J_FLOAT) return jv_float(n->kind == N_NEG ? -v.f : v.f);
    int64_t i = v.type == J_INT ? v.i : v.b;
    return n->kind == N_NEG ? j_math(x, T_SUB, jv_int(0), jv_int(i)) : jv_int(i);
}

static jv eval_cond(jx *x, const jnode *n) {
    if (j_truth(x, j_eval(x, n->b))) return j_eval(x, n->a);
    if (n->c) return j_eval(x, n->c);
    return jv_undef(x, "the inline if-expression evaluated to false and no else section was defined");
}

static jv eval_attr(jx *x, const jnode *n) {
    jv of = j_eval(x, n->a);
    x->line = n->line;
    return j_getattr(x, of, n->name);
}

static jv eval_any(jx *x, const jnode *n) {
    switch ((jkind)n->kind) {
    case N_CONST: return n->val;
    case N_NAME: return j_lookup(x, n->name);
    case N_LIST:
    case N_TUPLE: return eval_seq(x, n);
    case N_DICT: return eval_dict(x, n);
    case N_ATTR: return eval_attr(x, n);
    case N_ITEM: return eval_item(x, n);
    case N_CALL: return eval_call(x, n);
    case N_FILTER: return j_apply_filter(x, n, j_eval(x, n->a));
    case N_TEST: return eval_test(x, n);
    case N_NOT: return jv_bool(!j_truth(x, j_eval(x, n->a)));
    case N_NEG:
    case N_POS: return eval_sign(x, n);
    case N_AND:
    case N_OR: return eval_logical(x, n);
    case N_MATH: return eval_math(x, n);
    case N_CONCAT: return eval_concat(x, n);
    case N_COMPARE: return eval_compare(x, n);
    case N_COND: return eval_cond(x, n);
    default: j_error(x, "a slice is allowed only as the whole subscript");
    }
}

jv j_eval(jx *x, const jnode *n) {
    j_charge(x, 1);
    j_enter(x);
    x->line = n->line;
    jv v = eval_any(x, n);
    x->eval_depth--;
    return v;
}
