/* Values of the chat-template engine: truth, equality, order, hashes, dictionaries and sequences, as in Python. */
#include <math.h>
#include <stdlib.h>

#include "jinja.h"

/* ---- undefined ----------------------------------------------------------------------------------------------------
 */

jv jv_undef(jx *x, const char *hint) {
    jundef *u = J_NEW(x, jundef);
    u->hint = hint;
    return (jv){.type = J_UNDEF, .u = u};
}

jv jv_undef_attr(jx *x, jv of, const jstr *name) {
    jundef *u = J_NEW(x, jundef);
    u->of = of.type == J_MISSING ? NULL : j_type_name(of);
    u->name = name;
    return (jv){.type = J_UNDEF, .u = u};
}

void j_undefined_error(jx *x, jv v) {
    const jundef *u = v.u;
    if (u->hint || !u->name) j_error(x, "%s", u->hint ? u->hint : "value is undefined");
    int n = u->name->len < 100 ? (int)u->name->len : 100;
    if (!u->of) j_error(x, "'%.*s' is undefined", n, u->name->s);
    j_error(x, "'%s object' has no attribute '%.*s'", u->of, n, u->name->s);
}

/* ---- kinds --------------------------------------------------------------------------------------------------------
 */

const char *j_type_name(jv v) {
    static const char *const seq[] = {"list",      "tuple",       "generator",  "range",
                                      "dict_keys", "dict_values", "dict_items", "tuple"};
    switch ((jtype)v.type) {
    case J_UNDEF: return "Undefined";
    case J_NONE: return "NoneType";
    case J_BOOL: return "bool";
    case J_INT: return "int";
    case J_FLOAT: return "float";
    case J_STR: return v.markup ? "Markup" : "str";
    case J_SEQ: return seq[v.q->kind];
    case J_DICT: return "dict";
    case J_NS: return "Namespace";
    case J_FUNC: return "function";
    case J_METHOD: return "builtin_function_or_method";
    case J_MACRO: return "Macro";
    case J_LOOP: return "LoopContext";
    case J_CYCLER: return "Cycler";
    case J_JOINER: return "Joiner";
    case J_MISSING: break;
    }
    return "missing";
}

bool j_truth(jx *x, jv v) {
    int64_t n;
    switch ((jtype)v.type) {
    case J_UNDEF:
    case J_NONE: return false;
    case J_BOOL: return v.b;
    case J_INT: return v.i != 0;
    case J_FLOAT: return v.f != 0;
    case J_STR: return v.s->len > 0;
    case J_SEQ: return v.q->kind == J_GENERATOR || v.q->n > 0;
    case J_DICT: return v.d->n > 0;
    case J_LOOP: return !j_length(x, v, &n) || n > 0;
    default: return true;
    }
}

bool j_is_number(jv v) { return v.type == J_BOOL || v.type == J_INT || v.type == J_FLOAT; }
double j_to_double(jv v) { return v.type == J_FLOAT ? v.f : v.type == J_INT ? (double)v.i : (double)v.b; }

/* ---- equality and order -------------------------------------------------------------------------------------------
 */

static void too_deep(jx *x) {
    j_fail(x, IE_E_FULL, "chat template, line %d: values nested deeper than %d", x->line, J_MAX_NEST);
}

/* -1, 0, 1; 2 if one is NaN. Exact also where an integer does not fit a double. */
static int cmp_numbers(jv a, jv b) {
    if (a.type != J_FLOAT && b.type != J_FLOAT) {
        int64_t p = a.type == J_INT ? a.i : a.b, q = b.type == J_INT ? b.i : b.b;
        return p < q ? -1 : p > q;
    }
    if (a.type == J_FLOAT && b.type != J_FLOAT) {
        int c = cmp_numbers(b, a);
        return c == 2 ? 2 : -c;
    }
    if (isnan(b.f)) return 2;
    if (a.type == J_FLOAT) return isnan(a.f) ? 2 : a.f < b.f ? -1 : a.f > b.f;
    int64_t p = a.type == J_INT ? a.i : a.b;
    if (b.f >= 9223372036854775808.0) return -1;
    if (b.f < -9223372036854775808.0) return 1;
    int64_t q = (int64_t)b.f; /* towards zero */
    if (p != q) return p < q ? -1 : 1;
    double rest = b.f - (double)q;
    return rest > 0 ? -1 : rest < 0;
}

static bool list_like(jv v, bool tuple) {
    return v.type == J_SEQ && (tuple ? v.q->kind == J_TUPLE || v.q->kind == J_GROUP : v.q->kind == J_LIST);
}

static bool equal(jx *x, jv a, jv b, int depth) {
    j_charge(x, 1);
    if (depth > J_MAX_NEST) too_deep(x);
    if (j_is_number(a) && j_is_number(b)) return cmp_numbers(a, b) == 0;
    if (a.type != b.type) return false;
    switch ((jtype)a.type) {
    case J_UNDEF:
    case J_NONE: return true;
    case J_STR: return j_charge(x, a.s->len == b.s->len ? a.s->len >> 8 : 0), j_str_eq(a.s, b.s);
    case J_SEQ:
        if (a.q == b.q) return true;
        if (a.q->kind == J_RANGE && b.q->kind == J_RANGE)
            ; /* ranges are equal if their items are */
        else if (a.q->kind == J_KEYS && b.q->kind == J_KEYS)
            ; /* sets in Python; the order is compared here as well */
        else if (!(list_like(a, false) && list_like(b, false)) && !(list_like(a, true) && list_like(b, true)))
            return false;
        if (a.q->n != b.q->n) return false;
        for (size_t i = 0; i < a.q->n; i++)
            if (!equal(x, a.q->v[i], b.q->v[i], depth + 1)) return false;
        return true;
    case J_DICT:
        if (a.d == b.d) return true;
        if (a.d->n != b.d->n) return false;
        for (size_t i = 0; i < a.d->n; i++) {
            const jv *other = j_dict_get(x, b.d, a.d->e[i].key);
            if (!other || !equal(x, a.d->e[i].val, *other, depth + 1)) return false;
        }
        return true;
    case J_FUNC: return a.fn == b.fn;
    case J_METHOD: return a.me->fn == b.me->fn && equal(x, a.me->self, b.me->self, depth + 1);
    default: return a.d == b.d; /* identity: all are pointers */
    }
}

bool j_equal(jx *x, jv a, jv b) { return equal(x, a, b, 0); }

static int order(jx *x, jv a, jv b, const char *op, int depth) {
    j_charge(x, 1);
    if (depth > J_MAX_NEST) too_deep(x);
    if (j_is_number(a) && j_is_number(b)) return cmp_numbers(a, b);
    if (a.type == J_UNDEF) j_undefined_error(x, a);
    if (b.type == J_UNDEF) j_undefined_error(x, b);
    if (a.type == J_STR && b.type == J_STR) {
        j_charge(x, (a.s->len < b.s->len ? a.s->len : b.s->len) >> 8);
        return j_str_cmp(a.s, b.s);
    }
    if ((list_like(a, false) && list_like(b, false)) || (list_like(a, true) && list_like(b, true))) {
        size_t n = a.q->n < b.q->n ? a.q->n : b.q->n;
        for (size_t i = 0; i < n; i++)
            if (!equal(x, a.q->v[i], b.q->v[i], depth + 1)) return order(x, a.q->v[i], b.q->v[i], op, depth + 1);
        return a.q->n < b.q->n ? -1 : a.q->n > b.q->n;
    }
    j_error(x, "'%s' not supported between '%s' and '%s'", op, j_type_name(a), j_type_name(b));
}

int j_order(jx *x, jv a, jv b, const char *op) { return order(x, a, b, op, 0); }

static uint32_t mix(uint64_t v) {
    v ^= v >> 33;
    v *= 0xff51afd7ed558ccdULL;
    return (uint32_t)(v ^ v >> 32);
}

static uint32_t hash(jx *x, jv v, int depth) {
    j_charge(x, 1);
    if (depth > J_MAX_NEST) too_deep(x);
    uint64_t bits;
    switch ((jtype)v.type) {
    case J_NONE: return 1;
    case J_UNDEF: return 2;
    case J_BOOL: return mix((uint64_t)v.b);
    case J_INT: return mix((uint64_t)v.i);
    case J_FLOAT: /* equal numbers hash alike */
        if (v.f >= -9223372036854775808.0 && v.f < 9223372036854775808.0 && v.f == (double)(int64_t)v.f)
            return mix((uint64_t)(int64_t)v.f);
        memcpy(&bits, &v.f, sizeof bits);
        return mix(bits);
    case J_STR: return j_str_hash(v.s);
    case J_SEQ:
        if (v.q->kind == J_TUPLE || v.q->kind == J_GROUP) {
            uint64_t h = 7;
            for (size_t i = 0; i < v.q->n; i++) h = h * 31 + hash(x, v.q->v[i], depth + 1);
            return mix(h);
        }
        if (v.q->kind == J_LIST) break;
        return mix((uintptr_t)v.q);
    case J_DICT: break;
    default: return mix((uintptr_t)v.d);
    }
    j_error(x, "unhashable type: '%s'", j_type_name(v));
}

uint32_t j_hash(jx *x, jv v) { return hash(x, v, 0); }

/* ---- dictionaries -------------------------------------------------------------------------------------------------
 */

jdict *j_dict(jx *x) { return J_NEW(x, jdict); }

static void index_put(jdict *d, size_t entry) {
    size_t i = d->e[entry].hash & (d->icap - 1);
    while (d->index[i]) i = (i + 1) & (d->icap - 1);
    d->index[i] = (uint32_t)entry + 1;
}

static bool same_key(jx *x, const jent *e, jv key, uint32_t h) {
    if (e->hash != h) return false;
    if (e->key.type == J_STR && key.type == J_STR) return j_str_eq(e->key.s, key.s);
    return j_equal(x, e->key, key);
}

static jent *find_entry(jx *x, const jdict *d, jv key, uint32_t h) {
    if (!d->index) {
        for (size_t i = 0; i < d->n; i++)
            if (same_key(x, &d->e[i], key, h)) return &d->e[i];
        return NULL;
    }
    uint64_t probes = 0;
    for (size_t i = h & (d->icap - 1); d->index[i]; i = (i + 1) & (d->icap - 1)) {
        jent *e = &d->e[d->index[i] - 1];
        if (same_key(x, e, key, h)) return e;
        if (++probes > 8) j_charge(x, 1); /* many equal hashes cost steps, not unbounded time */
    }
    return NULL;
}

void j_dict_set(jx *x, jdict *d, jv key, jv val) {
    uint32_t h = j_hash(x, key);
    jent *found = find_entry(x, d, key, h);
    if (found) {
        found->val = val;
        return;
    }
    if (d->n == d->cap) {
        size_t cap = d->cap ? d->cap * 2 : 8;
        jent *e = J_ARRAY(x, jent, cap);
        if (d->n) memcpy(e, d->e, d->n * sizeof *e);
        d->e = e;
        d->cap = cap;
        if (cap > 8) {
            d->icap = cap * 2;
            d->index = J_ARRAY(x, uint32_t, d->icap);
            for (size_t i = 0; i < d->n; i++) index_put(d, i);
        }
        j_charge(x, cap >> 4);
    }
    d->e[d->n++] = (jent){key, val, h};
    if (d->index) index_put(d, d->n - 1);
}

jv *j_dict_get(jx *x, const jdict *d, jv key) {
    uint32_t h = j_hash(x, key);
    jent *e = find_entry(x, d, key, h);
    return e ? &e->val : NULL;
}

jv *j_dict_find(jx *x, const jdict *d, const jstr *key) { return j_dict_get(x, d, jv_str((jstr *)(uintptr_t)key)); }

jseq *j_dict_seq(jx *x, const jdict *d, jseq_kind kind) {
    jseq *q = j_seq(x, kind, d->n);
    for (size_t i = 0; i < d->n; i++) {
        if (kind == J_ITEMS) {
            jseq *pair = j_seq(x, J_TUPLE, 2);
            pair->v[0] = d->e[i].key;
            pair->v[1] = d->e[i].val;
            q->v[i] = jv_seq(pair);
        } else {
            q->v[i] = kind == J_KEYS ? d->e[i].key : d->e[i].val;
        }
    }
    return q;
}

/* ---- sequences ----------------------------------------------------------------------------------------------------
 */

jseq *j_seq(jx *x, jseq_kind kind, size_t n) {
    j_charge(x, n >> 4);
    jseq *q = J_NEW(x, jseq);
    q->kind = (uint8_t)kind;
    q->v = J_ARRAY(x, jv, n);
    q->n = n;
    return q;
}

jseq *j_list_new(jx *x, size_t cap) {
    jseq *q = j_seq(x, J_LIST, cap);
    q->n = 0;
    return q;
}

void j_push(jx *x, jseq *q, size_t *cap, jv v) {
    if (q->n == *cap) {
        size_t c = *cap < 4 ? 8 : *cap * 2;
        jv *p = J_ARRAY(x, jv, c);
        if (q->n) memcpy(p, q->v, q->n * sizeof *p);
        q->v = p;
        *cap = c;
        j_charge(x, c >> 4);
    }
    q->v[q->n++] = v;
}

static jseq *characters(jx *x, jstr *s) {
    size_t n = j_ncp(x, s), at = 0, len;
    j_charge(x, n);
    jseq *q = j_seq(x, J_LIST, n);
    for (size_t i = 0; i < n; i++) {
        j_decode(s->s + at, s->s + s->len, &len);
        q->v[i] = jv_str(j_sub(x, s, at, len));
        q->v[i].s->ncp = 1;
        at += len;
    }
    return q;
}

bool j_is_iterable(jv v) {
    return v.type == J_STR || v.type == J_SEQ || v.type == J_DICT || v.type == J_UNDEF || v.type == J_LOOP;
}

jseq *j_iter(jx *x, jv v) {
    switch ((jtype)v.type) {
    case J_UNDEF: return j_seq(x, J_LIST, 0);
    case J_STR: return characters(x, v.s);
    case J_DICT: return j_dict_seq(x, v.d, J_KEYS);
    case J_SEQ:
        if (v.q->kind == J_GENERATOR) {
            jseq *rest = J_NEW(x, jseq);
            rest->v = v.q->v + v.q->pos;
            rest->n = v.q->n - v.q->pos;
            v.q->pos = v.q->n;
            return rest;
        }
        return v.q;
    case J_LOOP: {
        size_t cap = 8;
        jseq *q = j_list_new(x, cap);
        for (jv item; j_loop_next(x, v.lo, &item);) {
            jseq *pair = j_seq(x, J_TUPLE, 2);
            pair->v[0] = item;
            pair->v[1] = v;
            j_push(x, q, &cap, jv_seq(pair));
        }
        return q;
    }
    default: j_error(x, "'%s' object is not iterable", j_type_name(v));
    }
}

bool j_length(jx *x, jv v, int64_t *out) {
    bool found;
    switch ((jtype)v.type) {
    case J_UNDEF: *out = 0; return true;
    case J_STR: *out = (int64_t)j_ncp(x, v.s); return true;
    case J_DICT: *out = (int64_t)v.d->n; return true;
    case J_SEQ: *out = (int64_t)v.q->n; return v.q->kind != J_GENERATOR;
    case J_LOOP: *out = j_loop_attr(x, v.lo, j_lit(x, "length"), &found).i; return true;
    default: return false;
    }
}

/* Merge sort: stable, and the comparison may jump out with an error. */
void j_sort(jx *x, jv *keys, jv *vals, size_t n, bool reverse) {
    jv *k2 = J_ARRAY(x, jv, n), *v2 = J_ARRAY(x, jv, n), *k = keys, *v = vals;
    for (size_t w = 1; w < n; w *= 2) {
        for (size_t lo = 0; lo < n; lo += 2 * w) {
            size_t mid = lo + w < n ? lo + w : n, hi = mid + w < n ? mid + w : n, i = lo, j = mid;
            for (size_t o = lo; o < hi; o++) {
                bool right = i >= mid;
                if (!right && j < hi) {
                    int c = j_order(x, k[j], k[i], "<");
                    right = reverse ? c == 1 || (c > 0 && c != 2) : c < 0;
                }
                size_t from = right ? j++ : i++;
                k2[o] = k[from];
                v2[o] = v[from];
            }
        }
        jv *t = k;
        k = k2;
        k2 = t;
        t = v;
        v = v2;
        v2 = t;
    }
    if (k != keys) {
        memcpy(keys, k, n * sizeof *k);
        memcpy(vals, v, n * sizeof *v);
    }
}
