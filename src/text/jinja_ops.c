/* Operators, subscripts and attributes of chat templates, with Python's rules. */
#include <math.h>

#include "jinja.h"

/* ---- arithmetic ---------------------------------------------------------------------------------------------------
 */

_Noreturn static void bad_operands(jx *x, const char *op, jv a, jv b) {
    if (a.type == J_UNDEF) j_undefined_error(x, a);
    if (b.type == J_UNDEF) j_undefined_error(x, b);
    j_error(x, "unsupported operand types for %s: '%s' and '%s'", op, j_type_name(a), j_type_name(b));
}

_Noreturn static void overflow(jx *x) { j_error(x, "integer result does not fit 64 bits"); }
_Noreturn static void by_zero(jx *x) { j_error(x, "division by zero"); }

static int64_t int_pow(jx *x, int64_t base, int64_t e) {
    int64_t r = 1;
    for (;;) {
        if ((e & 1) && __builtin_mul_overflow(r, base, &r)) overflow(x);
        e >>= 1;
        if (!e) return r;
        if (__builtin_mul_overflow(base, base, &base)) {
            if (r == 0) return 0;
            overflow(x);
        }
    }
}

static jv int_math(jx *x, int op, int64_t a, int64_t b) {
    int64_t r = 0;
    switch (op) {
    case T_ADD:
        if (__builtin_add_overflow(a, b, &r)) overflow(x);
        return jv_int(r);
    case T_SUB:
        if (__builtin_sub_overflow(a, b, &r)) overflow(x);
        return jv_int(r);
    case T_MUL:
        if (__builtin_mul_overflow(a, b, &r)) overflow(x);
        return jv_int(r);
    case T_DIV:
        if (b == 0) by_zero(x);
        return jv_float((double)a / (double)b);
    case T_POW:
        if (b >= 0) return jv_int(int_pow(x, a, b));
        if (a == 0) by_zero(x);
        return jv_float(pow((double)a, (double)b));
    default: /* T_FLOORDIV, T_MOD: rounding towards minus infinity */
        if (b == 0) by_zero(x);
        if (b == -1) return op == T_MOD ? jv_int(0) : int_math(x, T_SUB, 0, a);
        r = a % b;
        if (r != 0 && (r < 0) != (b < 0)) r += b;
        return jv_int(op == T_MOD ? r : (a - r) / b);
    }
}

static jv float_math(jx *x, int op, double a, double b) {
    switch (op) {
    case T_ADD: return jv_float(a + b);
    case T_SUB: return jv_float(a - b);
    case T_MUL: return jv_float(a * b);
    case T_DIV:
        if (b == 0) by_zero(x);
        return jv_float(a / b);
    case T_POW:
        if (a == 0 && b < 0) by_zero(x);
        if (a < 0 && b != floor(b)) j_error(x, "a negative number to a fractional power is not supported");
        double p = pow(a, b);
        if (isinf(p) && isfinite(a) && isfinite(b)) j_error(x, "result of ** is too large");
        return jv_float(p);
    default: {
        if (b == 0) by_zero(x);
        double m = fmod(a, b);
        if (m != 0 && (m < 0) != (b < 0)) m += b;
        if (m == 0) m = copysign(0.0, b);
        if (op == T_MOD) return jv_float(m);
        double q = (a - m) / b, f = floor(q);
        if (q != 0 && q - f > 0.5) f += 1;
        return jv_float(q != 0 ? f : copysign(0.0, a / b));
    }
    }
}

static bool same_list_kind(jv a, jv b) {
    return a.type == J_SEQ && b.type == J_SEQ && a.q->kind == b.q->kind &&
           (a.q->kind == J_LIST || a.q->kind == J_TUPLE);
}

static jv add_lists(jx *x, const jseq *a, const jseq *b) {
    jseq *q = j_seq(x, (jseq_kind)a->kind, a->n + b->n);
    if (a->n) memcpy(q->v, a->v, a->n * sizeof *q->v);
    if (b->n) memcpy(q->v + a->n, b->v, b->n * sizeof *q->v);
    return jv_seq(q);
}

static jv add_strings(jx *x, jv a, jv b) {
    bool markup = a.markup || b.markup;
    jv r =
        jv_str(j_concat(x, markup && !a.markup ? j_escape(x, a.s) : a.s, markup && !b.markup ? j_escape(x, b.s) : b.s));
    r.markup = markup;
    return r;
}

static jv repeat(jx *x, jv v, int64_t times) {
    if (v.type == J_STR) {
        jbuf *b = j_buf(x);
        j_buf_fill(x, b, v.s, times);
        jv r = jv_str(j_buf_done(x, b));
        r.markup = v.markup;
        return r;
    }
    if (times < 0) times = 0;
    uint64_t n;
    if (!ie_mul_u64(v.q->n, (uint64_t)times, &n) || n > (1u << 24)) j_error(x, "list repeated too often");
    j_charge(x, n >> 4);
    jseq *q = j_seq(x, (jseq_kind)v.q->kind, (size_t)n);
    for (size_t i = 0; i < q->n; i++) q->v[i] = v.q->v[i % v.q->n];
    return jv_seq(q);
}

static bool is_int(jv v) { return v.type == J_INT || v.type == J_BOOL; }
static int64_t int_of(jv v) { return v.type == J_INT ? v.i : v.b; }
static bool repeatable(jv v) { return v.type == J_STR || same_list_kind(v, v); }

jv j_math(jx *x, int op, jv a, jv b) {
    static const char *const name[] = {"+", "-", "*", "/", "//", "%", "**"};
    if (is_int(a) && is_int(b)) return int_math(x, op, int_of(a), int_of(b));
    if (j_is_number(a) && j_is_number(b)) return float_math(x, op, j_to_double(a), j_to_double(b));
    if (op == T_ADD && a.type == J_STR && b.type == J_STR) return add_strings(x, a, b);
    if (op == T_ADD && same_list_kind(a, b)) return add_lists(x, a.q, b.q);
    if (op == T_MUL && repeatable(a) && is_int(b)) return repeat(x, a, int_of(b));
    if (op == T_MUL && is_int(a) && repeatable(b)) return repeat(x, b, int_of(a));
    if (op == T_MOD && a.type == J_STR) return j_percent(x, a, b);
    bad_operands(x, name[op - T_ADD], a, b);
}

/* ---- comparison ---------------------------------------------------------------------------------------------------
 */

bool j_contains(jx *x, jv item, jv in) {
    switch ((jtype)in.type) {
    case J_STR:
        if (item.type == J_UNDEF) j_undefined_error(x, item);
        if (item.type != J_STR) j_error(x, "'in <string>' requires string as left operand, not %s", j_type_name(item));
        return j_find(x, in.s, 0, item.s) != SIZE_MAX;
    case J_DICT: return j_dict_get(x, in.d, item) != NULL;
    case J_SEQ:
    case J_UNDEF:
    case J_LOOP: {
        jseq *q = j_iter(x, in);
        for (size_t i = 0; i < q->n; i++)
            if (j_equal(x, q->v[i], item)) return true;
        return false;
    }
    default: j_error(x, "argument of type '%s' is not iterable", j_type_name(in));
    }
}

bool j_compare(jx *x, int op, jv a, jv b) {
    int c;
    switch (op) {
    case T_EQ: return j_equal(x, a, b);
    case T_NE: return !j_equal(x, a, b);
    case T_IN: return j_contains(x, a, b);
    case T_NOTIN: return !j_contains(x, a, b);
    case T_LT: return j_order(x, a, b, "<") < 0;
    case T_LE: return j_order(x, a, b, "<=") <= 0;
    case T_GT: return c = j_order(x, a, b, ">"), c > 0 && c != 2;
    default: return c = j_order(x, a, b, ">="), c >= 0 && c != 2;
    }
}

/* ---- subscripts ---------------------------------------------------------------------------------------------------
 */

int64_t j_need_int(jx *x, jv v, const char *what) {
    if (v.type == J_UNDEF) j_undefined_error(x, v);
    if (!is_int(v)) j_error(x, "%s must be an integer, not %s", what, j_type_name(v));
    return int_of(v);
}

static bool indexable(jv v) {
    return v.type == J_STR || (v.type == J_SEQ && (v.q->kind == J_LIST || v.q->kind == J_TUPLE ||
                                                   v.q->kind == J_RANGE || v.q->kind == J_GROUP));
}

static jv char_at(jx *x, jstr *s, size_t i) {
    size_t at = j_cp_offset(x, s, i), len;
    j_decode(s->s + at, s->s + s->len, &len);
    return jv_str(j_sub(x, s, at, len));
}

jv j_getitem(jx *x, jv v, jv key) {
    if (v.type == J_UNDEF) j_undefined_error(x, v);
    if (v.type == J_DICT && !(key.type == J_SEQ && key.q->kind == J_LIST) && key.type != J_DICT) {
        jv *found = j_dict_get(x, v.d, key);
        if (found) return *found;
    } else if (indexable(v) && is_int(key)) {
        int64_t n, i = int_of(key);
        j_length(x, v, &n);
        if (i < 0) i += n;
        if (i >= 0 && i < n) return v.type == J_STR ? char_at(x, v.s, (size_t)i) : v.q->v[i];
    }
    if (key.type == J_STR && v.type != J_DICT) return j_getattr(x, v, key.s);
    if (key.type == J_STR) {
        bool forbidden = false;
        const jbuiltin *m = j_find_method(v, key.s, &forbidden);
        if (m) return j_getattr(x, v, key.s);
    }
    return jv_undef_attr(x, v, key.type == J_STR ? key.s : j_to_str(x, key.type == J_INT ? key : jv_none()));
}

/* Bounds as Python's slice.indices: start and stop clipped to the length n. */
static void slice_bounds(jx *x, const jv *a, const jv *b, int64_t step, int64_t n, int64_t *start, int64_t *stop) {
    int64_t lo = step < 0 ? -1 : 0, hi = step < 0 ? n - 1 : n;
    *start = step < 0 ? hi : lo;
    *stop = step < 0 ? lo : hi;
    for (int i = 0; i < 2; i++) {
        const jv *v = i ? b : a;
        if (!v || v->type == J_NONE) continue;
        int64_t k = j_need_int(x, *v, "slice index");
        if (k < 0) k = k + n < lo ? lo : k + n;
        *(i ? stop : start) = k > hi ? hi : k;
    }
}

static jv slice_string(jx *x, jv v, int64_t start, int64_t step, int64_t count) {
    jv r;
    if (count <= 0) {
        r = jv_str(j_lit(x, ""));
    } else if (step == 1) {
        size_t a = j_cp_offset(x, v.s, (size_t)start), b = j_cp_offset(x, v.s, (size_t)(start + count));
        r = jv_str(j_sub(x, v.s, a, b - a));
    } else {
        jseq *chars = j_iter(x, v);
        jbuf *b = j_buf(x);
        for (int64_t i = 0; i < count; i++) j_buf_str(x, b, chars->v[start + i * step].s);
        r = jv_str(j_buf_done(x, b));
    }
    r.markup = v.markup;
    return r;
}

jv j_slice(jx *x, jv v, const jv *a, const jv *b, const jv *c) {
    if (v.type == J_UNDEF) j_undefined_error(x, v);
    if (!indexable(v)) j_error(x, "'%s' object cannot be sliced", j_type_name(v));
    int64_t n, start, stop, step = c && c->type != J_NONE ? j_need_int(x, *c, "slice step") : 1, count = 0;
    if (step == 0) j_error(x, "slice step cannot be zero");
    j_length(x, v, &n);
    if (step < -n - 1) step = -n - 1; /* keeps the sums below far from overflow */
    if (step > n + 1) step = n + 1;
    slice_bounds(x, a, b, step, n, &start, &stop);
    if (step > 0 && start < stop) count = (stop - start - 1) / step + 1;
    if (step < 0 && stop < start) count = (start - stop - 1) / -step + 1;
    if (v.type == J_STR) return slice_string(x, v, start, step, count);
    jseq *q;
    if (step == 1) { /* shares the items */
        q = J_NEW(x, jseq);
        q->kind = v.q->kind;
        q->v = v.q->v + start;
        q->n = (size_t)count;
    } else {
        q = j_seq(x, (jseq_kind)v.q->kind, (size_t)count);
        for (int64_t i = 0; i < count; i++) q->v[i] = v.q->v[start + i * step];
    }
    if (q->kind == J_GROUP) q->kind = J_TUPLE;
    if (q->kind == J_RANGE) {
        q->step = v.q->step * step;
        q->start = v.q->start + start * v.q->step;
        q->stop = v.q->start + stop * v.q->step;
    }
    return jv_seq(q);
}

/* ---- attributes ---------------------------------------------------------------------------------------------------
 */

jv j_getattr(jx *x, jv v, const jstr *name) {
    bool forbidden = false, found = false;
    if (v.type == J_UNDEF) j_undefined_error(x, v);
    if (name->len > 3 && memcmp(name->s, "__", 2) == 0 && memcmp(name->s + name->len - 2, "__", 2) == 0)
        return jv_undef(x, "access to an attribute with __ is unsafe");
    if (v.type == J_LOOP) {
        jv r = j_loop_attr(x, v.lo, name, &found);
        return found ? r : jv_undef_attr(x, v, name);
    }
    const jbuiltin *m = j_find_method(v, name, &forbidden);
    if (forbidden) return jv_undef(x, "access to a method that changes its object is unsafe");
    if (m) {
        jmethod *me = J_NEW(x, jmethod);
        me->self = v;
        me->fn = m;
        return (jv){.type = J_METHOD, .me = me};
    }
    if (v.type == J_DICT || v.type == J_NS) {
        const jv *item = j_dict_find(x, v.d, name);
        if (item) return *item;
    }
    if (v.type == J_SEQ && v.q->kind == J_GROUP) {
        if (j_str_is(name, "grouper")) return v.q->v[0];
        if (j_str_is(name, "list")) return v.q->v[1];
    }
    if (v.type == J_CYCLER && j_str_is(name, "current")) return v.q->v[v.q->pos];
    if (v.type == J_MACRO && j_str_is(name, "name")) return jv_str((jstr *)(uintptr_t)v.ma->name);
    return jv_undef_attr(x, v, name);
}

/* The parts between dots, each an attribute or an index; a number is one index. */
jv j_attr_path(jx *x, jv v, jv path) {
    if (path.type != J_STR) return j_getitem(x, v, path);
    size_t at = 0;
    const jstr *p = path.s;
    for (;;) {
        const char *dot = memchr(p->s + at, '.', p->len - at);
        size_t len = dot ? (size_t)(dot - p->s) - at : p->len - at, digits = 0;
        while (digits < len && digits < 18 && p->s[at + digits] >= '0' && p->s[at + digits] <= '9') digits++;
        jv key = jv_str(j_sub(x, p, at, len));
        if (len && digits == len) {
            key = jv_int(0);
            for (size_t i = 0; i < len; i++) key.i = key.i * 10 + (p->s[at + i] - '0');
        }
        v = j_getitem(x, v, key);
        if (!dot) return v;
        at += len + 1;
    }
}
