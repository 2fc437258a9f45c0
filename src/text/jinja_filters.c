/* Filters of chat templates that work on one text or number. Those on sequences are in jinja_filters_seq.c. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "jinja.h"

#define FILTER(name) static jv name(jx *x, jv self, const jv *a, const jargs *raw)
#define UNUSED (void)x, (void)a, (void)raw

static jv keep_markup(jv from, jstr *s) {
    jv r = jv_str(s);
    r.markup = from.type == J_STR && from.markup;
    return r;
}

static int64_t int_arg(jx *x, jv a, int64_t fallback, const char *what) {
    return jv_given(a) ? j_need_int(x, a, what) : fallback;
}

static bool bool_arg(jx *x, jv a, bool fallback) { return jv_given(a) ? j_truth(x, a) : fallback; }

const jbuiltin *j_in_table(const jbuiltin *t, size_t n, const char *name, size_t len) {
    for (size_t i = 0; i < n; i++)
        if (strlen(t[i].name) == len && memcmp(t[i].name, name, len) == 0) return &t[i];
    return NULL;
}

/* ---- text ---------------------------------------------------------------------------------------------------------
 */

FILTER(f_string) { return UNUSED, self.type == J_STR ? self : jv_str(j_to_str(x, self)); }
FILTER(f_upper) { return UNUSED, keep_markup(self, j_recase(x, j_to_str(x, self), J_UPPER)); }
FILTER(f_lower) { return UNUSED, keep_markup(self, j_recase(x, j_to_str(x, self), J_LOWER)); }
FILTER(f_capitalize) { return UNUSED, keep_markup(self, j_capitalize(x, j_to_str(x, self))); }

FILTER(f_title) { /* words begin after white space and - ( { [ < */
    (void)raw, (void)a;
    jstr *s = j_to_str(x, self), *r = j_lit(x, "");
    size_t start = 0, len;
    for (size_t i = 0; i <= s->len; i += len) {
        len = 1;
        uint32_t c = i < s->len ? j_decode(s->s + i, s->s + s->len, &len) : ' ';
        if (i < s->len && !j_is_space(c) && !(c < 0x80 && strchr("-({[<", (int)c) && c)) continue;
        if (i > start) {
            jstr *w = j_sub(x, s, start, i - start);
            size_t first;
            j_decode(w->s, w->s + w->len, &first);
            r = j_concat(x, r, j_recase(x, j_sub(x, w, 0, first), J_UPPER));
            r = j_concat(x, r, j_recase(x, j_sub(x, w, first, w->len - first), J_LOWER));
        }
        if (i < s->len) r = j_concat(x, r, j_sub(x, s, i, len));
        start = i + len;
        j_charge(x, 1);
    }
    return jv_str(r);
}

FILTER(f_trim) {
    (void)raw;
    const jstr *chars = NULL;
    if (jv_given(a[0]) && a[0].type != J_NONE) {
        if (a[0].type != J_STR) j_error(x, "trim: characters must be a string, not %s", j_type_name(a[0]));
        chars = a[0].s;
    }
    return keep_markup(self, j_strip(x, j_to_str(x, self), chars, 3));
}

FILTER(f_replace) {
    (void)raw;
    jstr *s = j_to_str(x, self);
    jargs args = {.pos = (jv[]){jv_str(j_to_str(x, a[0])), jv_str(j_to_str(x, a[1])), jv_int(-1)}, .npos = 3};
    if (jv_given(a[2]) && a[2].type != J_NONE) args.pos[2] = a[2];
    return j_call_builtin(x, j_find_str_method("replace", 7), jv_str(s), &args);
}

FILTER(f_indent) {
    (void)raw;
    jstr *s = j_to_str(x, self), *pad;
    bool first = bool_arg(x, a[1], false), blank = bool_arg(x, a[2], false);
    if (self.type != J_STR) j_error(x, "indent: a string is required, not %s", j_type_name(self));
    if (jv_given(a[0]) && a[0].type == J_STR) {
        pad = a[0].s;
    } else {
        jbuf *spaces = j_buf(x);
        j_buf_fill(x, spaces, j_lit(x, " "), int_arg(x, a[0], 4, "indent: width"));
        pad = j_buf_done(x, spaces);
    }
    jbuf *b = j_buf(x);
    jseq *lines = j_splitlines(x, j_concat(x, s, j_lit(x, "\n")), false);
    if (first) j_buf_str(x, b, pad);
    for (size_t i = 0; i < lines->n; i++) {
        if (i) j_buf_lit(x, b, "\n");
        if (i && (blank || lines->v[i].s->len)) j_buf_str(x, b, pad);
        j_buf_str(x, b, lines->v[i].s);
    }
    return keep_markup(self, j_buf_done(x, b));
}

FILTER(f_center) {
    (void)raw;
    jargs args = {.pos = (jv[]){jv_int(int_arg(x, a[0], 80, "center: width"))}, .npos = 1};
    return j_call_builtin(x, j_find_str_method("center", 6), jv_str(j_to_str(x, self)), &args);
}

FILTER(f_truncate) {
    (void)raw;
    int64_t n;
    if (!j_length(x, self, &n)) j_error(x, "truncate: a string is required, not %s", j_type_name(self));
    jstr *s = j_to_str(x, self), *end = jv_given(a[2]) ? j_to_str(x, a[2]) : j_lit(x, "...");
    int64_t length = int_arg(x, a[0], 255, "truncate: length"), ends = (int64_t)j_ncp(x, end);
    int64_t leeway = jv_given(a[3]) && a[3].type != J_NONE ? j_need_int(x, a[3], "truncate: leeway") : 5;
    if (length < ends || leeway < 0) j_error(x, "truncate: length %lld is too small", (long long)length);
    if (n <= length || n - length <= leeway) return self;
    if (self.type != J_STR) j_error(x, "truncate: a string is required, not %s", j_type_name(self));
    jstr *cut = j_sub(x, s, 0, j_cp_offset(x, s, (size_t)(length - ends)));
    size_t space = bool_arg(x, a[1], false) ? SIZE_MAX : j_rfind(x, cut, cut->len, j_lit(x, " "));
    if (space != SIZE_MAX) cut = j_sub(x, cut, 0, space);
    return jv_str(j_concat(x, cut, end));
}

FILTER(f_wordcount) { /* runs of letters, digits, _ */
    (void)raw, (void)a;
    jstr *s = j_to_str(x, self);
    int64_t n = 0;
    size_t len;
    bool in_word = false;
    for (size_t i = 0; i < s->len; i += len) {
        uint32_t c = j_decode(s->s + i, s->s + s->len, &len);
        bool w = c < 0x80 ? isalnum((int)c) || c == '_' : j_all_match(x, j_sub(x, s, i, len), J_RE_ALNUM);
        n += w && !in_word;
        in_word = w;
    }
    j_charge(x, s->len >> 4);
    return jv_int(n);
}

FILTER(f_escape) {
    UNUSED;
    jv r = self.type == J_STR && self.markup ? self : jv_str(j_escape(x, j_to_str(x, self)));
    r.markup = true;
    return r;
}

FILTER(f_forceescape) {
    UNUSED;
    jv r = jv_str(j_escape(x, j_to_str(x, self)));
    r.markup = true;
    return r;
}

FILTER(f_safe) {
    UNUSED;
    jv r = jv_str(j_to_str(x, self));
    r.markup = true;
    return r;
}

static void url_quote(jx *x, jbuf *b, const jstr *s, bool query) { /* query: as form data */
    for (size_t i = 0; i < s->len; i++) {
        uint8_t c = (uint8_t)s->s[i];
        if ((c < 0x80 && isalnum(c)) || (c && strchr("_.-~", c)) || (c == '/' && !query))
            j_buf_add(x, b, s->s + i, s->mark ? s->mark + i : NULL, 1, s->trust);
        else if (c == ' ' && query)
            j_buf_lit(x, b, "+");
        else
            j_buf_printf(x, b, "%%%02X", c);
    }
    j_charge(x, s->len >> 6);
}

FILTER(f_urlencode) {
    UNUSED;
    jbuf *b = j_buf(x);
    if (self.type == J_STR || !j_is_iterable(self)) {
        url_quote(x, b, j_to_str(x, self), false);
        return jv_str(j_buf_done(x, b));
    }
    jseq *q = self.type == J_DICT ? j_dict_seq(x, self.d, J_ITEMS) : j_iter(x, self);
    for (size_t i = 0; i < q->n; i++) {
        jseq *pair = j_is_iterable(q->v[i]) ? j_iter(x, q->v[i]) : NULL;
        if (!pair || pair->n != 2) j_error(x, "urlencode: pairs of key and value are required");
        if (i) j_buf_lit(x, b, "&");
        url_quote(x, b, j_to_str(x, pair->v[0]), true);
        j_buf_lit(x, b, "=");
        url_quote(x, b, j_to_str(x, pair->v[1]), true);
    }
    return jv_str(j_buf_done(x, b));
}

FILTER(f_format) { /* value % arguments */
    (void)a;
    if (raw->npos && raw->nkw) j_error(x, "format: positional and keyword arguments cannot be mixed");
    jv args = jv_seq(j_seq(x, J_TUPLE, raw->npos));
    if (raw->npos) memcpy(args.q->v, raw->pos, raw->npos * sizeof *raw->pos);
    if (raw->nkw) args = jv_dict(j_dict(x));
    for (size_t i = 0; i < raw->nkw; i++) j_dict_set(x, args.d, jv_str((jstr *)(uintptr_t)raw->kwname[i]), raw->kw[i]);
    return j_percent(x, jv_str(j_to_str(x, self)), args);
}

FILTER(f_pprint) { /* one line, which is Python's result where that has less than 80 characters */
    UNUSED;
    jbuf *b = j_buf(x);
    j_write_repr(x, b, self, 0);
    jstr *s = j_buf_done(x, b);
    if (j_ncp(x, s) >= 80 && self.type != J_INT && self.type != J_FLOAT)
        j_error(x, "pprint: values of 80 characters and more are not supported");
    return jv_str(s);
}

FILTER(f_default) {
    (void)raw;
    bool use = self.type == J_UNDEF || (bool_arg(x, a[1], false) && !j_truth(x, self));
    return !use ? self : jv_given(a[0]) ? a[0] : jv_str(j_lit(x, ""));
}

FILTER(f_attr) {
    (void)raw;
    jv r = j_getattr(x, self, j_to_str(x, a[0]));
    return self.type == J_DICT && r.type != J_METHOD ? jv_undef_attr(x, self, j_to_str(x, a[0])) : r; /* no items */
}

/* ---- numbers ------------------------------------------------------------------------------------------------------
 */

/* Python's int(text, base): white space around, sign, prefix, single underscores. False if it is no integer. */
static bool parse_int(jx *x, jstr *text, int64_t base, int64_t *out) {
    jstr *s = j_strip(x, text, NULL, 3);
    size_t i = 0;
    bool neg = false, any = false, ok = true;
    if (base != 0 && (base < 2 || base > 36)) return false;
    if (i < s->len && (s->s[i] == '-' || s->s[i] == '+')) neg = s->s[i++] == '-';
    if (i + 1 < s->len && s->s[i] == '0') {
        char c = (char)tolower((uint8_t)s->s[i + 1]);
        int64_t b = c == 'x' ? 16 : c == 'o' ? 8 : c == 'b' ? 2 : 0;
        if (b && (base == 0 || base == b)) {
            base = b;
            i += 2;
            if (i < s->len && s->s[i] == '_') i++;
        }
    }
    if (base == 0) base = 10;
    *out = 0;
    for (; i < s->len; i++) {
        char c = s->s[i];
        if (c == '_' && any && i + 1 < s->len && s->s[i - 1] != '_') continue;
        int d = c >= '0' && c <= '9' ? c - '0' : isalpha((uint8_t)c) && (uint8_t)c < 0x80 ? tolower(c) - 'a' + 10 : 99;
        if (d >= base) return false;
        any = true;
        ok = ok && !__builtin_mul_overflow(*out, base, out) && !__builtin_add_overflow(*out, neg ? -d : d, out);
    }
    if (any && !ok) j_error(x, "int: the number does not fit 64 bits");
    return any;
}

/* Python's float(text). */
static bool parse_float(jx *x, jstr *text, double *out) {
    jstr *s = j_strip(x, text, NULL, 3);
    if (s->len == 0 || s->len > 400) return false;
    char tmp[402], *end;
    size_t n = 0;
    for (size_t i = 0; i < s->len; i++) {
        char c = s->s[i];
        bool between = i && i + 1 < s->len && isdigit((uint8_t)s->s[i - 1]) && isdigit((uint8_t)s->s[i + 1]);
        if (c == '_' && between) continue;
        if (!c || !strchr("0123456789+-.eEinfatyINFATY", c)) return false; /* no hexadecimal, no nan(...) */
        tmp[n++] = c;
    }
    tmp[n] = 0;
    *out = strtod(tmp, &end);
    return *end == 0;
}

static bool float_to_int(jx *x, double f, int64_t *out) {
    if (isnan(f) || isinf(f)) return false;
    if (!(fabs(f) < 9.2e18)) j_error(x, "int: the number does not fit 64 bits");
    *out = (int64_t)f;
    return true;
}

FILTER(f_int) {
    (void)raw;
    int64_t i, base = int_arg(x, a[1], 10, "int: base");
    double f;
    jv fallback = jv_given(a[0]) ? a[0] : jv_int(0);
    if (self.type == J_UNDEF) j_undefined_error(x, self);
    if (self.type == J_INT) return self;
    if (self.type == J_BOOL) return jv_int(self.b);
    if (self.type == J_FLOAT) {
        if (isinf(self.f)) j_error(x, "int: cannot convert infinity to an integer");
        return float_to_int(x, self.f, &i) ? jv_int(i) : fallback;
    }
    if (self.type != J_STR) return fallback;
    if (parse_int(x, self.s, base, &i)) return jv_int(i);
    return parse_float(x, self.s, &f) && float_to_int(x, f, &i) ? jv_int(i) : fallback;
}

FILTER(f_float) {
    (void)raw;
    double f;
    if (self.type == J_UNDEF) j_undefined_error(x, self);
    if (j_is_number(self)) return jv_float(j_to_double(self));
    if (self.type == J_STR && parse_float(x, self.s, &f)) return jv_float(f);
    return jv_given(a[0]) ? a[0] : jv_float(0);
}

FILTER(f_abs) {
    UNUSED;
    if (self.type == J_UNDEF) j_undefined_error(x, self);
    if (!j_is_number(self)) j_error(x, "abs: a number is required, not %s", j_type_name(self));
    if (self.type == J_FLOAT) return jv_float(fabs(self.f));
    int64_t i = self.type == J_INT ? self.i : self.b;
    return i < 0 ? j_math(x, T_SUB, jv_int(0), jv_int(i)) : jv_int(i);
}

/* Rounding to a power of ten: halves to even, on the exact decimal value, as Python's round. */
static double round_float(double f, int64_t precision) {
    char tmp[800];
    if (!isfinite(f) || precision > 300) return f;
    if (precision < -308) return f * 0;
    if (precision >= 0) {
        snprintf(tmp, sizeof tmp, "%.*f", (int)precision, f);
        return strtod(tmp, NULL);
    }
    double p = pow(10, (double)-precision);
    return nearbyint(f / p) * p;
}

FILTER(f_round) {
    (void)raw;
    if (self.type == J_UNDEF) j_undefined_error(x, self);
    if (!j_is_number(self)) j_error(x, "round: a number is required, not %s", j_type_name(self));
    int64_t precision = int_arg(x, a[0], 0, "round: precision");
    jstr *how = jv_given(a[1]) ? j_to_str(x, a[1]) : j_lit(x, "common");
    bool up = j_str_is(how, "ceil");
    if (!up && !j_str_is(how, "floor") && !j_str_is(how, "common"))
        j_error(x, "round: method '%.*s' is none of common, ceil, floor", J_CLIP(how));
    if (!up && !j_str_is(how, "floor")) {
        if (self.type == J_FLOAT) return jv_float(round_float(self.f, precision));
        int64_t i = self.type == J_INT ? self.i : self.b;
        return precision >= 0 ? jv_int(i) : jv_int((int64_t)round_float((double)i, precision));
    }
    if (precision > 300 || precision < -300) j_error(x, "round: precision %lld is out of range", (long long)precision);
    double p = pow(10, (double)precision), v = j_to_double(self) * p;
    return jv_float((up ? ceil(v) : floor(v)) / p);
}

FILTER(f_filesizeformat) {
    (void)raw;
    static const char *const dec[] = {"kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"};
    static const char *const bin[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"};
    bool binary = bool_arg(x, a[0], false);
    double v = f_float(x, self, (jv[]){{.type = J_MISSING}}, NULL).f, base = binary ? 1024 : 1000, unit = base;
    jbuf *b = j_buf(x);
    if (v == 1)
        j_buf_lit(x, b, "1 Byte");
    else if (v < base)
        j_buf_printf(x, b, "%lld Bytes", (long long)v);
    for (int i = 0; v >= base && i < 8; i++) {
        unit *= base;
        if (v >= unit && i < 7) continue;
        j_buf_printf(x, b, "%.1f %s", base * v / unit, binary ? bin[i] : dec[i]);
        break;
    }
    return jv_str(j_buf_done(x, b));
}

const jbuiltin *j_find_filter(const char *name, size_t len) {
    static const jbuiltin table[] = {
        {"string", f_string, "", 0},
        {"upper", f_upper, "", 0},
        {"lower", f_lower, "", 0},
        {"capitalize", f_capitalize, "", 0},
        {"title", f_title, "", 0},
        {"trim", f_trim, "chars", 0},
        {"replace", f_replace, "old new count", 2},
        {"indent", f_indent, "width first blank", 0},
        {"center", f_center, "width", 0},
        {"truncate", f_truncate, "length killwords end leeway", 0},
        {"wordcount", f_wordcount, "", 0},
        {"escape", f_escape, "", 0},
        {"e", f_escape, "", 0},
        {"forceescape", f_forceescape, "", 0},
        {"safe", f_safe, "", 0},
        {"urlencode", f_urlencode, "", 0},
        {"format", f_format, NULL, 0},
        {"pprint", f_pprint, "", 0},
        {"default", f_default, "default_value boolean", 0},
        {"d", f_default, "default_value boolean", 0},
        {"attr", f_attr, "name", 1},
        {"int", f_int, "default base", 0},
        {"float", f_float, "default", 0},
        {"abs", f_abs, "", 0},
        {"round", f_round, "precision method", 0},
        {"filesizeformat", f_filesizeformat, "binary", 0},
        {"tojson", j_tojson, "ensure_ascii indent separators sort_keys", 0},
    };
    const jbuiltin *f = J_IN_TABLE(table, name, len);
    return f ? f : j_find_filter_seq(name, len);
}
