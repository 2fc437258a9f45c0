/* str() and repr() of the values of a chat template, as Python writes them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "jinja.h"

/* Shortest decimal text that reads back as f, laid out as Python's repr: exponent if it is < -4 or >= 16. */
void j_float_repr(double f, char out[40]) {
    if (isnan(f) || isinf(f)) {
        strcpy(out, isnan(f) ? "nan" : f < 0 ? "-inf" : "inf");
        return;
    }
    char tmp[40];
    int digits = 1;
    do snprintf(tmp, sizeof tmp, "%.*e", digits - 1, f);
    while (digits++ < 17 && strtod(tmp, NULL) != f);
    char *p = out, dig[24] = {0};
    const char *q = tmp;
    if (*q == '-') *p++ = *q++;
    int n = 0;
    for (; *q && *q != 'e'; q++)
        if (*q >= '0' && *q <= '9') dig[n++] = *q;
    int exp = atoi(q + 1);
    while (n > 1 && dig[n - 1] == '0') n--;
    if (exp < -4 || exp >= 16) {
        *p++ = dig[0];
        if (n > 1) *p++ = '.';
        for (int i = 1; i < n; i++) *p++ = dig[i];
        snprintf(p, 16, "e%c%02d", exp < 0 ? '-' : '+', abs(exp));
        return;
    }
    if (exp < 0) {
        *p++ = '0';
        *p++ = '.';
        for (int i = -1; i > exp; i--) *p++ = '0';
    }
    for (int i = 0; i < n || i <= exp; i++) {
        if (exp >= 0 && i == exp + 1) *p++ = '.';
        *p++ = i < n ? dig[i] : '0';
    }
    if (exp >= n - 1) {
        *p++ = '.';
        *p++ = '0';
    }
    *p = 0;
}

static void repr_str(jx *x, jbuf *b, jv v) {
    const jstr *s = v.s;
    bool single = memchr(s->s, '\'', s->len) != NULL, dbl = memchr(s->s, '"', s->len) != NULL;
    char quote = single && !dbl ? '"' : '\'', esc[16];
    if (v.markup) j_buf_lit(x, b, "Markup(");
    j_buf_add(x, b, &quote, NULL, 1, false);
    bool ascii = true;
    for (size_t i = 0; i < s->len; i++) ascii &= (uint8_t)s->s[i] < 0x80;
    size_t bad = ascii ? s->len : j_next_unprintable(x, s, 0), start = 0, len;
    for (size_t i = 0; i < s->len; i += len) {
        uint32_t c = j_decode(s->s + i, s->s + s->len, &len);
        esc[0] = 0;
        if (c == (uint32_t)quote || c == '\\')
            snprintf(esc, sizeof esc, "\\%c", (char)c);
        else if (c == '\n' || c == '\r' || c == '\t')
            snprintf(esc, sizeof esc, "\\%c", c == '\n' ? 'n' : c == '\r' ? 'r' : 't');
        else if (c < 0x20 || c == 0x7F)
            snprintf(esc, sizeof esc, "\\x%02x", c);
        else if (i == bad && c >= 0x80)
            snprintf(esc, sizeof esc, c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
        if (!ascii && i >= bad) bad = j_next_unprintable(x, s, i + len);
        if (!esc[0]) continue;
        j_buf_add(x, b, s->s + start, s->mark ? s->mark + start : NULL, i - start, s->trust);
        j_buf_lit(x, b, esc);
        start = i + len;
    }
    j_buf_add(x, b, s->s + start, s->mark ? s->mark + start : NULL, s->len - start, s->trust);
    j_buf_add(x, b, &quote, NULL, 1, false);
    if (v.markup) j_buf_lit(x, b, ")");
}

static void repr_dict(jx *x, jbuf *b, const jdict *d, int depth) {
    j_buf_lit(x, b, "{");
    for (size_t i = 0; i < d->n; i++) {
        if (i) j_buf_lit(x, b, ", ");
        j_write_repr(x, b, d->e[i].key, depth + 1);
        j_buf_lit(x, b, ": ");
        j_write_repr(x, b, d->e[i].val, depth + 1);
    }
    j_buf_lit(x, b, "}");
}

static void repr_seq(jx *x, jbuf *b, const jseq *q, int depth) {
    static const char *const open[] = {"[", "(", "", "", "dict_keys([", "dict_values([", "dict_items([", "("};
    static const char *const close[] = {"]", ")", "", "", "])", "])", "])", ")"};
    if (q->kind == J_GENERATOR) { /* jinja2 prints an address */
        j_buf_lit(x, b, "<generator object>");
        return;
    }
    if (q->kind == J_RANGE) {
        j_buf_printf(x, b, q->step == 1 ? "range(%lld, %lld)" : "range(%lld, %lld, %lld)", (long long)q->start,
                     (long long)q->stop, (long long)q->step);
        return;
    }
    j_buf_lit(x, b, open[q->kind]);
    for (size_t i = 0; i < q->n; i++) {
        if (i) j_buf_lit(x, b, ", ");
        j_write_repr(x, b, q->v[i], depth + 1);
    }
    if (q->n == 1 && (q->kind == J_TUPLE || q->kind == J_GROUP)) j_buf_lit(x, b, ",");
    j_buf_lit(x, b, close[q->kind]);
}

static void write_scalar(jx *x, jbuf *b, jv v) {
    char tmp[40];
    switch ((jtype)v.type) {
    case J_NONE: j_buf_lit(x, b, "None"); break;
    case J_BOOL: j_buf_lit(x, b, v.b ? "True" : "False"); break;
    case J_INT: j_buf_printf(x, b, "%lld", (long long)v.i); break;
    case J_FLOAT:
        j_float_repr(v.f, tmp);
        j_buf_lit(x, b, tmp);
        break;
    case J_MACRO:
        j_buf_lit(x, b, "<Macro '");
        j_buf_add(x, b, v.ma->name->s, NULL, v.ma->name->len, false);
        j_buf_lit(x, b, "'>");
        break;
    case J_FUNC:
    case J_METHOD: j_buf_printf(x, b, "<%s %s>", j_type_name(v), v.type == J_FUNC ? v.fn->name : v.me->fn->name); break;
    default: j_buf_printf(x, b, "<%s>", j_type_name(v));
    }
}

void j_write_repr(jx *x, jbuf *b, jv v, int depth) {
    j_charge(x, 1);
    if (depth > J_MAX_NEST)
        j_fail(x, IE_E_FULL, "chat template, line %d: values nested deeper than %d", x->line, J_MAX_NEST);
    switch ((jtype)v.type) {
    case J_UNDEF: j_buf_lit(x, b, "Undefined"); break;
    case J_STR: repr_str(x, b, v); break;
    case J_SEQ: repr_seq(x, b, v.q, depth); break;
    case J_DICT: repr_dict(x, b, v.d, depth); break;
    case J_NS:
        j_buf_lit(x, b, "<Namespace ");
        repr_dict(x, b, v.d, depth);
        j_buf_lit(x, b, ">");
        break;
    default: write_scalar(x, b, v);
    }
}

void j_write_str(jx *x, jbuf *b, jv v) {
    if (v.type == J_STR)
        j_buf_str(x, b, v.s);
    else if (v.type != J_UNDEF)
        j_write_repr(x, b, v, 0);
}

jstr *j_to_str(jx *x, jv v) {
    if (v.type == J_STR) return v.s;
    if (v.type == J_UNDEF) return j_lit(x, "");
    jbuf *b = j_buf(x);
    j_write_repr(x, b, v, 0);
    return j_buf_done(x, b);
}
