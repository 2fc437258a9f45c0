/* Python's two ways to format: `"%s" % value` and `"{}".format(value)`; and HTML escapes. */
#include <math.h>
#include <stdio.h>

#include "jinja.h"

typedef struct { /* of one field */
    char fill[4];
    size_t fill_len;
    char align; /* '<', '>', '^', '=' or 0 */
    char sign;  /* '+', ' ' or 0 */
    bool alt, zero;
    char group;    /* ',' or '_' between thousands, or 0 */
    int64_t width; /* 0 = none */
    int prec;      /* -1 = none */
    char type;     /* 0 = none */
} spec;

enum { MAX_PREC = 300, MAX_WIDTH = J_MAX_OUTPUT };

jstr *j_escape(jx *x, const jstr *s) {
    static const char special[] = "&<>'\"";
    static const char *const to[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
    jbuf *b = j_buf(x);
    size_t start = 0;
    for (size_t i = 0; i < s->len; i++) {
        const char *p = s->s[i] ? strchr(special, s->s[i]) : NULL;
        if (!p) continue;
        j_buf_add(x, b, s->s + start, s->mark ? s->mark + start : NULL, i - start, s->trust);
        j_buf_lit(x, b, to[p - special]);
        start = i + 1;
    }
    j_buf_add(x, b, s->s + start, s->mark ? s->mark + start : NULL, s->len - start, s->trust);
    return j_buf_done(x, b);
}

/* ---- numbers ------------------------------------------------------------------------------------------------------
 */

static void pad(jx *x, jbuf *b, const spec *f, int64_t n) {
    if (n <= 0) return;
    jstr *fill = j_str(x, f->fill_len ? f->fill : " ", f->fill_len ? f->fill_len : 1, false);
    j_buf_fill(x, b, fill, n);
}

/* Text with n code points between its padding; align is used if the field names none. */
static void padded(jx *x, jbuf *b, const spec *f, jstr *s, char align) {
    int64_t room = f->width - (int64_t)j_ncp(x, s);
    if (f->align) align = f->align;
    int64_t left = room <= 0 ? 0 : align == '<' ? 0 : align == '^' ? room / 2 : room;
    pad(x, b, f, left);
    j_buf_str(x, b, s);
    pad(x, b, f, room - left);
}

/* sign + prefix + digits (with group separators up to the first character that is no digit), padded. */
static void number(jx *x, jbuf *b, const spec *f, bool neg, const char *prefix, const char *digits) {
    char sign[2] = {neg ? '-' : f->sign == '+' || f->sign == ' ' ? f->sign : 0, 0};
    bool inner = f->align == '=' || (f->zero && !f->align);
    jbuf *t = j_buf(x);
    j_buf_lit(x, t, sign);
    j_buf_lit(x, t, prefix);
    int64_t whole = (int64_t)strspn(digits, f->type == 'x' || f->type == 'X' ? "0123456789abcdefABCDEF" : "0123456789");
    int64_t every = f->type == 'x' || f->type == 'X' || f->type == 'b' || f->type == 'o' ? 4 : 3;
    int64_t seps = f->group && whole > 0 ? (whole - 1) / every : 0;
    int64_t len = (int64_t)strlen(digits) + seps + (int64_t)t->used;
    if (inner && f->width > len) {
        int64_t zeros = f->width - len;
        if (f->fill_len) {
            pad(x, t, f, zeros);
        } else { /* separators in the zeros as well are not worth their code: Python's corner case */
            j_buf_fill(x, t, j_lit(x, "0"), zeros);
        }
    }
    for (int64_t i = 0; digits[i]; i++) {
        if (seps && i && i < whole && (whole - i) % every == 0) j_buf_add(x, t, &f->group, NULL, 1, false);
        j_buf_add(x, t, digits + i, NULL, 1, false);
    }
    padded(x, b, f, j_buf_done(x, t), '>');
}

static void format_int(jx *x, jbuf *b, const spec *f, int64_t v) {
    char tmp[80], *p = tmp + sizeof tmp;
    uint64_t u = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
    unsigned base = f->type == 'x' || f->type == 'X' ? 16 : f->type == 'o' ? 8 : f->type == 'b' ? 2 : 10;
    const char *set = f->type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef";
    *--p = 0;
    do *--p = set[u % base];
    while (u /= base);
    for (char *end = tmp + sizeof tmp - 1; base == 10 && end - p < f->prec && end - p < 60;) *--p = '0';
    const char *prefix = !f->alt      ? ""
                         : base == 16 ? (f->type == 'X' ? "0X" : "0x")
                         : base == 8  ? "0o"
                         : base == 2  ? "0b"
                                      : "";
    number(x, b, f, v < 0, prefix, p);
}

static void format_float(jx *x, jbuf *b, const spec *f, double v) {
    char tmp[800], fmt[] = "%.*f";
    bool percent = f->type == '%', neg = signbit(v) && !isnan(v);
    if (percent) v *= 100;
    double a = fabs(v);
    if (isnan(v) || isinf(v)) {
        strcpy(tmp, isnan(v) ? "nan" : "inf");
    } else if (!f->type && f->prec < 0) {
        j_float_repr(a, tmp);
    } else {
        char type = percent ? 'f' : f->type ? f->type : 'g';
        fmt[3] = type;
        int prec = f->prec < 0 ? 6 : f->prec;
        snprintf(tmp, sizeof tmp, fmt, prec, a);
        if (!f->type && !strpbrk(tmp, ".en")) strcat(tmp, ".0");
    }
    if (percent) strcat(tmp, "%");
    number(x, b, f, neg, "", tmp);
}

/* ---- "%..." % value -------------------------------------------------------------------------------------------------
 */

typedef struct {
    jv arg;    /* what stands right of % */
    size_t at; /* next item of a tuple */
    const jstr *f;
    size_t i;
    bool escape; /* the format is Markup: texts are escaped */
} percent;

static jv next_arg(jx *x, percent *p) {
    bool tuple = p->arg.type == J_SEQ && p->arg.q->kind == J_TUPLE;
    size_t n = tuple ? p->arg.q->n : 1;
    if (p->at >= n) j_error(x, "not enough arguments for format string");
    p->at++;
    return tuple ? p->arg.q->v[p->at - 1] : p->arg;
}

static int64_t percent_number(jx *x, percent *p) {
    if (p->i < p->f->len && p->f->s[p->i] == '*') {
        p->i++;
        return j_need_int(x, next_arg(x, p), "* in a format");
    }
    int64_t n = 0;
    for (; p->i < p->f->len && p->f->s[p->i] >= '0' && p->f->s[p->i] <= '9'; p->i++)
        if (n < MAX_WIDTH) n = n * 10 + (p->f->s[p->i] - '0');
    return n;
}

static void percent_value(jx *x, jbuf *b, spec *f, jv v, bool escape) {
    char type = f->type;
    if (type == 's' || type == 'r' || type == 'a') {
        jbuf *t = j_buf(x);
        if (type == 's')
            j_write_str(x, t, v);
        else
            j_write_repr(x, t, v, 0);
        jstr *s = j_buf_done(x, t);
        if (escape && !(type == 's' && v.type == J_STR && v.markup)) s = j_escape(x, s);
        if (f->prec >= 0 && (size_t)f->prec < j_ncp(x, s)) s = j_sub(x, s, 0, j_cp_offset(x, s, (size_t)f->prec));
        padded(x, b, f, s, '>');
        return;
    }
    if (type == 'c') {
        char *utf8 = j_bytes(x, 4);
        bool is_char = v.type == J_STR && j_ncp(x, v.s) == 1;
        if (!is_char && (v.type != J_INT || v.i < 0 || v.i > 0x10FFFF || (v.i >= 0xD800 && v.i < 0xE000)))
            j_error(x, "%%c requires a character");
        padded(x, b, f, is_char ? v.s : j_str(x, utf8, j_encode((uint32_t)v.i, utf8), false), '>');
        return;
    }
    if (v.type == J_UNDEF) j_undefined_error(x, v);
    if (!j_is_number(v)) j_error(x, "%%%c format: a number is required, not %s", type, j_type_name(v));
    if (strchr("diuxXo", type)) {
        if (v.type == J_FLOAT && (strchr("xXo", type) || !(fabs(v.f) < 9e18)))
            j_error(x, "%%%c format: an integer is required", type);
        format_int(x, b, f, v.type == J_FLOAT ? (int64_t)v.f : v.type == J_INT ? v.i : v.b);
    } else if (strchr("eEfFgG", type)) {
        format_float(x, b, f, j_to_double(v));
    } else {
        j_error(x, "unsupported format character '%c'", type);
    }
}

static void percent_field(jx *x, jbuf *b, percent *p) {
    const jstr *s = p->f;
    spec f = {.prec = -1};
    jv v = {.type = J_MISSING};
    if (p->i < s->len && s->s[p->i] == '(') {
        const char *close = memchr(s->s + p->i, ')', s->len - p->i);
        if (!close) j_error(x, "incomplete format key");
        size_t at = p->i + 1, end = (size_t)(close - s->s);
        if (p->arg.type != J_DICT) j_error(x, "format requires a mapping");
        jv *item = j_dict_find(x, p->arg.d, j_sub(x, s, at, end - at));
        if (!item) j_error(x, "format key is missing in the mapping");
        v = *item;
        p->i = end + 1;
    }
    for (; p->i < s->len && s->s[p->i] && strchr("-+ #0", s->s[p->i]); p->i++) {
        char c = s->s[p->i];
        if (c == '-') f.align = '<';
        if (c == '+' || (c == ' ' && !f.sign)) f.sign = c;
        f.alt |= c == '#';
        f.zero |= c == '0';
    }
    f.width = percent_number(x, p);
    if (f.width < 0) {
        f.align = '<';
        f.width = -f.width;
    }
    if (p->i < s->len && s->s[p->i] == '.') {
        p->i++;
        int64_t prec = percent_number(x, p);
        f.prec = prec < 0 ? 0 : prec > MAX_PREC ? MAX_PREC : (int)prec;
    }
    while (p->i < s->len && s->s[p->i] && strchr("hlL", s->s[p->i])) p->i++;
    if (p->i >= s->len) j_error(x, "incomplete format");
    f.type = s->s[p->i++];
    if (f.type == '%') {
        j_buf_lit(x, b, "%");
        return;
    }
    if (v.type == J_MISSING) v = next_arg(x, p);
    percent_value(x, b, &f, v, p->escape);
}

jv j_percent(jx *x, jv fmt, jv arg) {
    percent p = {.arg = arg, .f = fmt.s, .escape = fmt.markup};
    jbuf *b = j_buf(x);
    while (p.i < p.f->len) {
        const char *q = memchr(p.f->s + p.i, '%', p.f->len - p.i);
        size_t n = q ? (size_t)(q - p.f->s) - p.i : p.f->len - p.i;
        j_buf_add(x, b, p.f->s + p.i, p.f->mark ? p.f->mark + p.i : NULL, n, p.f->trust);
        p.i += n + (q != NULL);
        if (q) percent_field(x, b, &p);
        j_charge(x, 1);
    }
    bool tuple = arg.type == J_SEQ && arg.q->kind == J_TUPLE;
    bool mapping =
        arg.type == J_DICT || arg.type == J_UNDEF ||
        (arg.type == J_SEQ && (arg.q->kind == J_LIST || arg.q->kind == J_RANGE)); /* may stay unused in Python */
    if (tuple ? p.at < arg.q->n : p.at == 0 && !mapping)
        j_error(x, "not all arguments converted during string formatting");
    jv r = jv_str(j_buf_done(x, b));
    r.markup = fmt.markup;
    return r;
}

/* ---- "{}".format ----------------------------------------------------------------------------------------------------
 */

typedef struct {
    const jargs *args;
    int64_t next; /* automatic number; -1 once explicit numbers are used */
    int depth;
} fmt;

static void parse_spec(jx *x, jstr *s, spec *f) {
    const char *p = s->s, *end = p + s->len;
    size_t len = 0;
    if (p < end) j_decode(p, end, &len);
    if (p < end && p + len < end && strchr("<>=^", p[len])) {
        memcpy(f->fill, p, f->fill_len = len);
        f->align = p[len];
        p += len + 1;
    } else if (p < end && *p && strchr("<>=^", *p)) {
        f->align = *p++;
    }
    if (p < end && *p && strchr("+- ", *p)) f->sign = *p++;
    if (p < end && *p == '#') f->alt = true, p++;
    if (p < end && *p == '0') f->zero = true, p++;
    for (; p < end && *p >= '0' && *p <= '9'; p++)
        if (f->width < MAX_WIDTH) f->width = f->width * 10 + (*p - '0');
    if (p < end && (*p == ',' || *p == '_')) f->group = *p++;
    if (p < end && *p == '.') {
        f->prec = 0;
        for (p++; p < end && *p >= '0' && *p <= '9'; p++)
            if (f->prec < MAX_PREC) f->prec = f->prec * 10 + (*p - '0');
        if (f->prec > MAX_PREC) f->prec = MAX_PREC;
    }
    if (p < end) f->type = *p++;
    if (p != end) j_error(x, "invalid format specifier");
}

static void format_value(jx *x, jbuf *b, jv v, jstr *text) {
    spec f = {.prec = -1};
    if (text->len == 0) {
        j_write_str(x, b, v);
        return;
    }
    parse_spec(x, text, &f);
    if (v.type == J_STR) {
        if (f.type && f.type != 's') j_error(x, "unknown format code '%c' for object of type 'str'", f.type);
        jstr *s = v.s;
        if (f.align == '=') j_error(x, "'=' alignment not allowed in string format specifier");
        if (f.zero && !f.fill_len) f.fill[0] = '0', f.fill_len = 1;
        if (f.prec >= 0 && (size_t)f.prec < j_ncp(x, s)) s = j_sub(x, s, 0, j_cp_offset(x, s, (size_t)f.prec));
        padded(x, b, &f, s, '<');
    } else if ((v.type == J_INT || (v.type == J_BOOL && f.type)) && (!f.type || strchr("bdoxXn", f.type))) {
        if (f.prec >= 0) j_error(x, "precision not allowed in integer format specifier");
        format_int(x, b, &f, v.type == J_INT ? v.i : v.b);
    } else if (j_is_number(v) && (v.type == J_FLOAT || f.type) && (!f.type || strchr("eEfFgG%", f.type))) {
        format_float(x, b, &f, j_to_double(v));
    } else if (v.type == J_BOOL && !f.type) {
        format_int(x, b, &f, v.b);
    } else {
        j_error(x, "unsupported format specifier for '%s'", j_type_name(v));
    }
}

static jv argument(jx *x, fmt *s, const jstr *name) {
    size_t digits = strspn(name->len ? name->s : "", "0123456789");
    if (name->len == 0 || digits >= name->len) {
        int64_t i = 0;
        if (name->len == 0 ? s->next < 0 : s->next > 0)
            j_error(x, "cannot mix automatic and manual field numbers in a format");
        if (name->len == 0)
            i = s->next++;
        else
            for (size_t k = 0; k < name->len && i < 1000000; k++) i = i * 10 + (name->s[k] - '0');
        if (name->len) s->next = -1;
        if ((size_t)i >= s->args->npos) j_error(x, "format field %lld has no argument", (long long)i);
        return s->args->pos[i];
    }
    for (size_t k = 0; k < s->args->nkw; k++)
        if (j_str_eq(s->args->kwname[k], name)) return s->args->kw[k];
    j_error(x, "format field '%.*s' has no argument", J_CLIP(name));
}

/* name ("." attribute | "[" index "]")* */
static jv field_value(jx *x, fmt *s, jstr *name) {
    size_t n = 0;
    while (n < name->len && name->s[n] != '.' && name->s[n] != '[') n++;
    /* strspn above needs the digits to end within the string: copy the name */
    char *copy = j_alloc(x, n + 1);
    memcpy(copy, name->s, n);
    jv v = argument(x, s, j_str(x, copy, n, false));
    while (n < name->len) {
        char c = name->s[n++];
        size_t start = n;
        if (c == '.') {
            while (n < name->len && name->s[n] != '.' && name->s[n] != '[') n++;
            v = j_getattr(x, v, j_sub(x, name, start, n - start));
            continue;
        }
        const char *close = memchr(name->s + n, ']', name->len - n);
        if (c != '[' || !close) j_error(x, "malformed field in a format");
        n = (size_t)(close - name->s);
        v = j_attr_path(x, v, jv_str(j_sub(x, name, start, n - start)));
        n++;
    }
    if (v.type == J_UNDEF && v.u->of) j_undefined_error(x, v);
    return v;
}

static jstr *format_string(jx *x, fmt *s, jstr *f);

static void format_field(jx *x, jbuf *b, fmt *s, jstr *field) {
    size_t n = 0, bracket = 0;
    while (n < field->len && (bracket || (field->s[n] != '!' && field->s[n] != ':'))) {
        if (field->s[n] == '[') bracket = 1;
        if (field->s[n] == ']') bracket = 0;
        n++;
    }
    jv v = field_value(x, s, j_sub(x, field, 0, n));
    if (n < field->len && field->s[n] == '!') {
        char c = n + 1 < field->len ? field->s[n + 1] : 0;
        if (c != 'r' && c != 's' && c != 'a') j_error(x, "unknown conversion in a format, allowed: !r, !s, !a");
        jbuf *t = j_buf(x);
        if (c == 's')
            j_write_str(x, t, v);
        else
            j_write_repr(x, t, v, 0);
        v = jv_str(j_buf_done(x, t));
        n += 2;
        if (n < field->len && field->s[n] != ':') j_error(x, "expected ':' after a conversion in a format");
    }
    jstr *sp = n < field->len ? j_sub(x, field, n + 1, field->len - n - 1) : j_lit(x, "");
    if (memchr(sp->s, '{', sp->len)) sp = format_string(x, s, sp);
    format_value(x, b, v, sp);
}

static jstr *format_string(jx *x, fmt *s, jstr *f) {
    if (++s->depth > 2) j_error(x, "format specifiers nested too deeply");
    jbuf *b = j_buf(x);
    for (size_t i = 0; i < f->len;) {
        size_t n = i;
        while (n < f->len && f->s[n] != '{' && f->s[n] != '}') n++;
        j_buf_add(x, b, f->s + i, f->mark ? f->mark + i : NULL, n - i, f->trust);
        j_charge(x, 1);
        if (n == f->len) break;
        char c = f->s[n];
        if (n + 1 < f->len && f->s[n + 1] == c) { /* {{ or }} */
            j_buf_add(x, b, f->s + n, f->mark ? f->mark + n : NULL, 1, f->trust);
            i = n + 2;
            continue;
        }
        if (c == '}') j_error(x, "single '}' in a format");
        size_t end = n + 1;
        for (int depth = 1; end < f->len; end++) {
            if (f->s[end] == '{') depth++;
            if (f->s[end] == '}' && --depth == 0) break;
        }
        if (end >= f->len) j_error(x, "expected '}' before end of a format");
        format_field(x, b, s, j_sub(x, f, n + 1, end - n - 1));
        i = end + 1;
    }
    s->depth--;
    return j_buf_done(x, b);
}

jv j_str_format(jx *x, jv self, const jv *a, const jargs *raw) {
    (void)a;
    fmt s = {.args = raw};
    if (self.markup) j_error(x, "format of escaped text is not supported");
    return jv_str(format_string(x, &s, self.s));
}
