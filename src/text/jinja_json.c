/* JSON in and out: the caller's variables become values, and `tojson` writes as Python's json.dumps does. */
#include <math.h>
#include <stdio.h>

#include "jinja.h"

jv j_from_json(jx *x, const json_t *j, int depth) {
    j_charge(x, 1);
    if (depth > J_MAX_NEST) j_fail(x, IE_E_ARG, "chat template: variables nested deeper than %d", J_MAX_NEST);
    switch (json_typeof(j)) {
    case JSON_NULL: return jv_none();
    case JSON_TRUE: return jv_bool(true);
    case JSON_FALSE: return jv_bool(false);
    case JSON_INTEGER: return jv_int(json_integer_value(j));
    case JSON_REAL: return jv_float(json_real_value(j));
    case JSON_STRING: return jv_str(j_str(x, json_string_value(j), json_string_length(j), false));
    case JSON_ARRAY: {
        jseq *q = j_seq(x, J_LIST, json_array_size(j));
        for (size_t i = 0; i < q->n; i++) q->v[i] = j_from_json(x, json_array_get(j, i), depth + 1);
        return jv_seq(q);
    }
    default: break;
    }
    jdict *d = j_dict(x);
    json_t *obj = (json_t *)(uintptr_t)j; /* jansson's iterators take no const; nothing is changed */
    for (void *it = json_object_iter(obj); it; it = json_object_iter_next(obj, it)) {
        jv key = jv_str(j_str(x, json_object_iter_key(it), json_object_iter_key_len(it), false));
        j_dict_set(x, d, key, j_from_json(x, json_object_iter_value(it), depth + 1));
    }
    return jv_dict(d);
}

/* ---- tojson -------------------------------------------------------------------------------------------------------
 */

typedef struct {
    jx *x;
    jbuf *b;
    bool ascii, sort;
    const jstr *indent; /* NULL: on one line */
    const jstr *item_sep, *key_sep;
} writer;

static void quote(writer *w, const jstr *s) {
    jx *x = w->x;
    size_t start = 0, len;
    j_buf_lit(x, w->b, "\"");
    for (size_t i = 0; i < s->len; i += len) {
        uint8_t c = (uint8_t)s->s[i];
        char esc[16] = "";
        len = 1;
        if (c == '"' || c == '\\') {
            snprintf(esc, sizeof esc, "\\%c", c);
        } else if (c < 0x20) {
            static const char from[] = "\n\r\t\f\b", to[] = "nrtfb";
            const char *p = c ? strchr(from, c) : NULL;
            if (p)
                snprintf(esc, sizeof esc, "\\%c", to[p - from]);
            else
                snprintf(esc, sizeof esc, "\\u%04x", c);
        } else if (c >= 0x7F && w->ascii) {
            uint32_t cp = j_decode(s->s + i, s->s + s->len, &len);
            if (cp < 0x10000)
                snprintf(esc, sizeof esc, "\\u%04x", cp);
            else
                snprintf(esc, sizeof esc, "\\u%04x\\u%04x", 0xD800 + ((cp - 0x10000) >> 10),
                         0xDC00 + ((cp - 0x10000) & 0x3FF));
        }
        if (!esc[0]) continue;
        j_buf_add(x, w->b, s->s + start, s->mark ? s->mark + start : NULL, i - start, s->trust);
        j_buf_lit(x, w->b, esc);
        start = i + len;
    }
    j_buf_add(x, w->b, s->s + start, s->mark ? s->mark + start : NULL, s->len - start, s->trust);
    j_buf_lit(x, w->b, "\"");
}

static void newline(writer *w, int depth) {
    if (!w->indent) return;
    j_buf_lit(w->x, w->b, "\n");
    j_buf_fill(w->x, w->b, w->indent, depth);
}

static void scalar(writer *w, jv v) {
    char tmp[40];
    switch ((jtype)v.type) {
    case J_NONE: j_buf_lit(w->x, w->b, "null"); return;
    case J_BOOL: j_buf_lit(w->x, w->b, v.b ? "true" : "false"); return;
    case J_INT: j_buf_printf(w->x, w->b, "%lld", (long long)v.i); return;
    case J_FLOAT:
        j_float_repr(v.f, tmp);
        j_buf_lit(w->x, w->b, isnan(v.f) ? "NaN" : isinf(v.f) ? (v.f < 0 ? "-Infinity" : "Infinity") : tmp);
        return;
    case J_STR: quote(w, v.s); return;
    default: j_error(w->x, "tojson: object of type %s is not JSON serializable", j_type_name(v));
    }
}

static void write(writer *w, jv v, int depth);

static void write_dict(writer *w, const jdict *d, int depth) {
    jx *x = w->x;
    jv *keys = J_ARRAY(x, jv, d->n), *vals = J_ARRAY(x, jv, d->n);
    for (size_t i = 0; i < d->n; i++) {
        keys[i] = d->e[i].key;
        vals[i] = d->e[i].val;
    }
    if (w->sort) j_sort(x, keys, vals, d->n, false);
    j_buf_lit(x, w->b, "{");
    for (size_t i = 0; i < d->n; i++) {
        if (i) j_buf_str(x, w->b, w->item_sep);
        newline(w, depth + 1);
        if (keys[i].type == J_STR) {
            quote(w, keys[i].s);
        } else {
            if (keys[i].type == J_SEQ) j_error(x, "tojson: keys must be str, int, float, bool or None, not tuple");
            j_buf_lit(x, w->b, "\"");
            scalar(w, keys[i]);
            j_buf_lit(x, w->b, "\"");
        }
        j_buf_str(x, w->b, w->key_sep);
        write(w, vals[i], depth + 1);
    }
    if (d->n) newline(w, depth);
    j_buf_lit(x, w->b, "}");
}

static void write(writer *w, jv v, int depth) {
    jx *x = w->x;
    j_charge(x, 1);
    if (depth > J_MAX_NEST)
        j_fail(x, IE_E_FULL, "chat template, line %d: values nested deeper than %d", x->line, J_MAX_NEST);
    if (v.type == J_DICT) {
        write_dict(w, v.d, depth);
    } else if (v.type == J_SEQ && (v.q->kind == J_LIST || v.q->kind == J_TUPLE || v.q->kind == J_GROUP)) {
        j_buf_lit(x, w->b, "[");
        for (size_t i = 0; i < v.q->n; i++) {
            if (i) j_buf_str(x, w->b, w->item_sep);
            newline(w, depth + 1);
            write(w, v.q->v[i], depth + 1);
        }
        if (v.q->n) newline(w, depth);
        j_buf_lit(x, w->b, "]");
    } else {
        scalar(w, v);
    }
}

/* a: ensure_ascii, indent, separators, sort_keys, as the tojson that transformers defines. */
jv j_tojson(jx *x, jv self, const jv *a, const jargs *raw) {
    (void)raw;
    writer w = {.x = x, .b = j_buf(x)};
    w.ascii = jv_given(a[0]) && j_truth(x, a[0]);
    w.sort = jv_given(a[3]) && j_truth(x, a[3]);
    if (jv_given(a[1]) && a[1].type == J_STR) {
        w.indent = a[1].s;
    } else if (jv_given(a[1]) && a[1].type != J_NONE) {
        int64_t n = j_need_int(x, a[1], "tojson: indent");
        jbuf *spaces = j_buf(x);
        j_buf_fill(x, spaces, j_lit(x, " "), n);
        w.indent = j_buf_done(x, spaces);
    }
    w.item_sep = j_lit(x, w.indent ? "," : ", ");
    w.key_sep = j_lit(x, ": ");
    if (jv_given(a[2]) && a[2].type != J_NONE) {
        jseq *q = a[2].type == J_SEQ ? j_iter(x, a[2]) : NULL;
        if (!q || q->n != 2 || q->v[0].type != J_STR || q->v[1].type != J_STR)
            j_error(x, "tojson: separators must be two strings");
        w.item_sep = q->v[0].s;
        w.key_sep = q->v[1].s;
    }
    write(&w, self, 0);
    return jv_str(j_buf_done(x, w.b));
}
