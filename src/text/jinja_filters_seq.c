/* Filters of chat templates that work on sequences and mappings. Those that are generators in jinja2 give one here as
 * well: it has no length and no index, and is consumed by the first that iterates it. */
#include "jinja.h"

#define FILTER(name) static jv name(jx *x, jv self, const jv *a, const jargs *raw)
#define UNUSED (void)x, (void)a, (void)raw

static bool bool_arg(jx *x, jv a, bool fallback) { return jv_given(a) ? j_truth(x, a) : fallback; }

static jv generator(jseq *q) {
    q->kind = J_GENERATOR;
    return jv_seq(q);
}

/* item, or its attribute if one is given; in lower case if it is a string and case does not count. */
static jv key_of(jx *x, jv item, jv attribute, bool case_sensitive) {
    if (jv_given(attribute) && attribute.type != J_NONE) item = j_attr_path(x, item, attribute);
    return item.type == J_STR && !case_sensitive ? jv_str(j_recase(x, item.s, J_LOWER)) : item;
}

/* A list that may be written to, with the items of v. */
static jseq *fresh_list(jx *x, jv v) {
    jseq *from = j_iter(x, v), *q = j_seq(x, J_LIST, from->n);
    if (from->n) memcpy(q->v, from->v, from->n * sizeof *q->v);
    j_charge(x, from->n >> 2);
    return q;
}

FILTER(f_length) {
    UNUSED;
    int64_t n;
    if (!j_length(x, self, &n)) j_error(x, "object of type '%s' has no len()", j_type_name(self));
    return jv_int(n);
}

FILTER(f_list) { return UNUSED, jv_seq(fresh_list(x, self)); }

FILTER(f_items) {
    UNUSED;
    if (self.type == J_UNDEF) return generator(j_seq(x, J_LIST, 0));
    if (self.type != J_DICT) j_error(x, "items: a mapping is required, not %s", j_type_name(self));
    return generator(j_dict_seq(x, self.d, J_ITEMS));
}

FILTER(f_first) {
    UNUSED;
    if (self.type == J_SEQ && self.q->kind == J_GENERATOR && self.q->pos < self.q->n) return self.q->v[self.q->pos++];
    if (self.type == J_STR && self.s->len) return j_getitem(x, self, jv_int(0));
    jseq *q = j_iter(x, self);
    return q->n ? q->v[0] : jv_undef(x, "no first item, the sequence was empty");
}

FILTER(f_last) {
    UNUSED;
    if (self.type == J_STR && self.s->len) return j_getitem(x, self, jv_int(-1));
    if (self.type == J_SEQ && self.q->kind == J_GENERATOR) j_error(x, "'generator' object is not reversible");
    jseq *q = j_iter(x, self);
    return q->n ? q->v[q->n - 1] : jv_undef(x, "no last item, the sequence was empty");
}

FILTER(f_join) {
    (void)raw;
    jstr *sep = jv_given(a[0]) ? j_to_str(x, a[0]) : NULL;
    jseq *q = j_iter(x, self);
    jbuf *b = j_buf(x);
    for (size_t i = 0; i < q->n; i++) {
        if (i && sep) j_buf_str(x, b, sep);
        j_write_str(x, b, jv_given(a[1]) ? key_of(x, q->v[i], a[1], true) : q->v[i]);
        j_charge(x, 1);
    }
    return jv_str(j_buf_done(x, b));
}

FILTER(f_reverse) {
    UNUSED;
    if (self.type == J_STR) {
        jv step = jv_int(-1);
        return j_slice(x, self, NULL, NULL, &step);
    }
    if (!j_is_iterable(self)) j_error(x, "reverse: argument must be iterable, not %s", j_type_name(self));
    jseq *q = fresh_list(x, self);
    for (size_t i = 0; i < q->n / 2; i++) {
        jv t = q->v[i];
        q->v[i] = q->v[q->n - 1 - i];
        q->v[q->n - 1 - i] = t;
    }
    return generator(q);
}

/* sort(attribute="a,b"): the key is the list of the attributes. */
static jv sort_key(jx *x, jv item, jv attribute, bool case_sensitive) {
    if (attribute.type != J_STR || !memchr(attribute.s->s, ',', attribute.s->len))
        return key_of(x, item, attribute, case_sensitive);
    size_t cap = 4, start = 0;
    jseq *keys = j_list_new(x, cap);
    const jstr *s = attribute.s;
    for (size_t i = 0; i <= s->len; i++)
        if (i == s->len || s->s[i] == ',') {
            j_push(x, keys, &cap, key_of(x, item, jv_str(j_sub(x, s, start, i - start)), case_sensitive));
            start = i + 1;
        }
    return jv_seq(keys);
}

FILTER(f_sort) { /* reverse, case_sensitive, attribute */
    (void)raw;
    jseq *q = fresh_list(x, self), *keys = j_seq(x, J_LIST, q->n);
    for (size_t i = 0; i < q->n; i++) keys->v[i] = sort_key(x, q->v[i], a[2], bool_arg(x, a[1], false));
    j_sort(x, keys->v, q->v, q->n, bool_arg(x, a[0], false));
    return jv_seq(q);
}

FILTER(f_dictsort) { /* case_sensitive, by, reverse */
    (void)raw;
    if (self.type == J_UNDEF) j_undefined_error(x, self);
    if (self.type != J_DICT) j_error(x, "dictsort: a mapping is required, not %s", j_type_name(self));
    jstr *by = jv_given(a[1]) ? j_to_str(x, a[1]) : j_lit(x, "key");
    bool by_value = j_str_is(by, "value");
    if (!by_value && !j_str_is(by, "key")) j_error(x, "dictsort: by '%.*s' is neither key nor value", J_CLIP(by));
    jseq *q = j_dict_seq(x, self.d, J_ITEMS), *keys = j_seq(x, J_LIST, q->n);
    q->kind = J_LIST;
    for (size_t i = 0; i < q->n; i++)
        keys->v[i] = key_of(x, q->v[i].q->v[by_value], (jv){.type = J_MISSING}, bool_arg(x, a[0], false));
    j_sort(x, keys->v, q->v, q->n, bool_arg(x, a[2], false));
    return jv_seq(q);
}

FILTER(f_unique) { /* case_sensitive, attribute */
    (void)raw;
    jseq *from = j_iter(x, self);
    size_t cap = 8;
    jseq *q = j_list_new(x, cap);
    jdict *seen = j_dict(x);
    for (size_t i = 0; i < from->n; i++) {
        jv key = key_of(x, from->v[i], a[1], bool_arg(x, a[0], false));
        if (j_dict_get(x, seen, key)) continue;
        j_dict_set(x, seen, key, jv_none());
        j_push(x, q, &cap, from->v[i]);
    }
    return generator(q);
}

static jv extreme(jx *x, jv self, const jv *a, bool max) { /* case_sensitive, attribute */
    jseq *q = j_iter(x, self);
    if (!q->n) return jv_undef(x, "no aggregated item, the sequence was empty");
    bool cs = bool_arg(x, a[0], false);
    jv best = q->v[0], key = key_of(x, best, a[1], cs);
    for (size_t i = 1; i < q->n; i++) {
        jv k = key_of(x, q->v[i], a[1], cs);
        if (!j_compare(x, max ? T_GT : T_LT, k, key)) continue;
        best = q->v[i];
        key = k;
    }
    return best;
}

FILTER(f_min) { return (void)raw, extreme(x, self, a, false); }
FILTER(f_max) { return (void)raw, extreme(x, self, a, true); }

FILTER(f_sum) { /* attribute, start */
    (void)raw;
    jseq *q = j_iter(x, self);
    jv sum = jv_given(a[1]) ? a[1] : jv_int(0);
    if (sum.type == J_STR) j_error(x, "sum: strings cannot be summed, use join");
    for (size_t i = 0; i < q->n; i++) sum = j_math(x, T_ADD, sum, key_of(x, q->v[i], a[0], true));
    return sum;
}

FILTER(f_batch) { /* linecount, fill_with */
    (void)raw;
    jseq *from = j_iter(x, self);
    int64_t n = j_need_int(x, a[0], "batch: linecount");
    if (n < 1 || n > (1 << 20)) j_error(x, "batch: linecount %lld is out of range", (long long)n);
    size_t per = (size_t)n, cap = 8;
    jseq *rows = j_list_new(x, cap);
    bool fill = jv_given(a[1]) && a[1].type != J_NONE;
    for (size_t i = 0; i < from->n; i += per) {
        size_t have = from->n - i < per ? from->n - i : per;
        jseq *row = j_seq(x, J_LIST, fill ? per : have);
        for (size_t k = 0; k < row->n; k++) row->v[k] = k < have ? from->v[i + k] : a[1];
        j_push(x, rows, &cap, jv_seq(row));
    }
    return generator(rows);
}

FILTER(f_slice) { /* slices, fill_with */
    (void)raw;
    jseq *from = j_iter(x, self);
    int64_t n = j_need_int(x, a[0], "slice: slices");
    if (n < 1 || n > (1 << 20)) j_error(x, "slice: slices %lld is out of range", (long long)n);
    size_t slices = (size_t)n, per = from->n / slices, extra = from->n % slices, at = 0;
    jseq *rows = j_seq(x, J_LIST, slices);
    bool fill = jv_given(a[1]) && a[1].type != J_NONE;
    for (size_t i = 0; i < slices; i++) {
        size_t have = per + (i < extra);
        bool add = fill && i >= extra;
        jseq *row = j_seq(x, J_LIST, have + add);
        for (size_t k = 0; k < have; k++) row->v[k] = from->v[at++];
        if (add) row->v[have] = a[1];
        rows->v[i] = jv_seq(row);
    }
    return generator(rows);
}

FILTER(f_groupby) { /* attribute, default, case_sensitive */
    (void)raw;
    bool cs = bool_arg(x, a[2], false);
    jseq *q = fresh_list(x, self), *keys = j_seq(x, J_LIST, q->n);
    for (size_t i = 0; i < q->n; i++) {
        jv k = j_attr_path(x, q->v[i], a[0]);
        if (k.type == J_UNDEF && jv_given(a[1]) && a[1].type != J_NONE) k = a[1];
        keys->v[i] = key_of(x, k, (jv){.type = J_MISSING}, cs);
    }
    j_sort(x, keys->v, q->v, q->n, false);
    size_t cap = 8;
    jseq *groups = j_list_new(x, cap);
    for (size_t i = 0, end; i < q->n; i = end) {
        for (end = i + 1; end < q->n && j_equal(x, keys->v[i], keys->v[end]);) end++;
        jseq *g = j_seq(x, J_GROUP, 2), *members = j_seq(x, J_LIST, end - i);
        memcpy(members->v, q->v + i, (end - i) * sizeof *members->v);
        g->v[0] = j_attr_path(x, q->v[i], a[0]);
        if (g->v[0].type == J_UNDEF && jv_given(a[1])) g->v[0] = a[1];
        g->v[1] = jv_seq(members);
        j_push(x, groups, &cap, jv_seq(g));
    }
    return jv_seq(groups);
}

/* ---- map, select, reject ------------------------------------------------------------------------------------------
 */

static jv map_attribute(jx *x, jseq *from, const jargs *raw) {
    jv attribute = {.type = J_MISSING}, fallback = {.type = J_MISSING};
    for (size_t i = 0; i < raw->nkw; i++) {
        if (j_str_is(raw->kwname[i], "attribute"))
            attribute = raw->kw[i];
        else if (j_str_is(raw->kwname[i], "default"))
            fallback = raw->kw[i];
        else
            j_error(x, "map: unexpected keyword argument, allowed: attribute default");
    }
    if (!jv_given(attribute)) j_error(x, "map: a filter or attribute= is required");
    jseq *q = j_seq(x, J_LIST, from->n);
    for (size_t i = 0; i < from->n; i++) {
        q->v[i] = key_of(x, from->v[i], attribute, true);
        if (q->v[i].type == J_UNDEF && jv_given(fallback) && fallback.type != J_NONE) q->v[i] = fallback;
    }
    return generator(q);
}

FILTER(f_map) {
    (void)a;
    if (!j_truth(x, self)) return generator(j_seq(x, J_LIST, 0));
    jseq *from = j_iter(x, self);
    if (raw->npos == 0) return map_attribute(x, from, raw);
    jstr *name = j_to_str(x, raw->pos[0]);
    const jbuiltin *f = j_find_filter(name->s, name->len);
    if (!f) j_error(x, "no filter named '%.*s' is supported", J_CLIP(name));
    jargs rest = {raw->pos + 1, raw->npos - 1, raw->kwname, raw->kw, raw->nkw};
    jseq *q = j_seq(x, J_LIST, from->n);
    for (size_t i = 0; i < from->n; i++) {
        j_charge(x, 1);
        j_enter(x);
        q->v[i] = j_call_builtin(x, f, from->v[i], &rest);
        x->eval_depth--;
    }
    return generator(q);
}

static jv choose(jx *x, jv self, const jargs *raw, bool by_attr, bool keep) {
    if (!j_truth(x, self)) return generator(j_seq(x, J_LIST, 0));
    jseq *from = j_iter(x, self);
    size_t off = by_attr, cap = 8;
    const jbuiltin *test = NULL;
    if (raw->npos < off) j_error(x, "the name of an attribute is missing");
    if (raw->npos > off) {
        jstr *name = j_to_str(x, raw->pos[off]);
        test = j_find_test(name->s, name->len);
        if (!test) j_error(x, "no test named '%.*s' is supported", J_CLIP(name));
        off++;
    }
    jargs rest = {raw->npos > off ? raw->pos + off : NULL, raw->npos - off, raw->kwname, raw->kw, raw->nkw};
    jseq *q = j_list_new(x, cap);
    for (size_t i = 0; i < from->n; i++) {
        j_charge(x, 1);
        jv v = by_attr ? j_attr_path(x, from->v[i], raw->pos[0]) : from->v[i];
        if (test) v = j_call_builtin(x, test, v, &rest);
        if (j_truth(x, v) == keep) j_push(x, q, &cap, from->v[i]);
    }
    return generator(q);
}

FILTER(f_select) { return (void)a, choose(x, self, raw, false, true); }
FILTER(f_reject) { return (void)a, choose(x, self, raw, false, false); }
FILTER(f_selectattr) { return (void)a, choose(x, self, raw, true, true); }
FILTER(f_rejectattr) { return (void)a, choose(x, self, raw, true, false); }

const jbuiltin *j_find_filter_seq(const char *name, size_t len) {
    static const jbuiltin table[] = {
        {"length", f_length, "", 0},
        {"count", f_length, "", 0},
        {"list", f_list, "", 0},
        {"items", f_items, "", 0},
        {"first", f_first, "", 0},
        {"last", f_last, "", 0},
        {"join", f_join, "d attribute", 0},
        {"reverse", f_reverse, "", 0},
        {"sort", f_sort, "reverse case_sensitive attribute", 0},
        {"dictsort", f_dictsort, "case_sensitive by reverse", 0},
        {"unique", f_unique, "case_sensitive attribute", 0},
        {"min", f_min, "case_sensitive attribute", 0},
        {"max", f_max, "case_sensitive attribute", 0},
        {"sum", f_sum, "attribute start", 0},
        {"batch", f_batch, "linecount fill_with", 1},
        {"slice", f_slice, "slices fill_with", 1},
        {"groupby", f_groupby, "attribute default case_sensitive", 1},
        {"map", f_map, NULL, 0},
        {"select", f_select, NULL, 0},
        {"reject", f_reject, NULL, 0},
        {"selectattr", f_selectattr, NULL, 0},
        {"rejectattr", f_rejectattr, NULL, 0},
    };
    return J_IN_TABLE(table, name, len);
}
