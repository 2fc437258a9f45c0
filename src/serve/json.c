/* JSON in and out: parsing with limits, members with type and range, numbers written short. */
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../text/utf8.h"
#include "serve.h"

#define MAX_DEPTH 128

/* Depth of brackets outside strings; jansson's own limit is 2048. */
static bool too_deep(const char *s, size_t n) {
    size_t depth = 0;
    bool in = false;
    for (size_t i = 0; i < n; i++) {
        char c = s[i];
        if (in) {
            if (c == '\\') i++;
            else if (c == '"') in = false;
        } else if (c == '"') {
            in = true;
        } else if (c == '[' || c == '{') {
            if (++depth > MAX_DEPTH) return true;
        } else if ((c == ']' || c == '}') && depth) {
            depth--;
        }
    }
    return false;
}

/* The text again with ".0" behind integers beyond 64 bits, so that they are read as numbers, and refused by the name of their member where
 * it counts; jansson calls the whole text invalid. s is NUL-terminated. NULL: no memory, or invalid in another way. */
static json_t *load_large(const char *s, size_t n, size_t flags, json_error_t *e) {
    ie_buf b = {0};
    bool in = false, ok = true;
    size_t from = 0;
    for (size_t i = 0, len; i < n && ok; i += len) {
        len = in ? 0 : strspn(s + i, "+-.0123456789eE");
        if (!len) { /* no number begins here */
            len = in && s[i] == '\\' && i + 1 < n ? 2 : 1;
            in ^= s[i] == '"';
            continue;
        }
        errno = 0;
        strtoll(s + i, NULL, 10);
        if (errno != ERANGE || memchr(s + i, '.', len) || memchr(s + i, 'e', len) || memchr(s + i, 'E', len)) continue;
        ok = ie_buf_add(&b, s + from, i + len - from, NULL) && ie_buf_add(&b, ".0", 2, NULL);
        from = i + len;
    }
    ok = ok && ie_buf_add(&b, s + from, n - from, NULL);
    json_t *j = ok ? json_loadb(b.data, b.len, flags, e) : NULL;
    ie_buf_free(&b);
    return j;
}

json_t *serve_json_parse(const char *s, size_t n, ie_error *err) {
    if (too_deep(s, n)) {
        ie_fail(err, IE_E_ARG, "the JSON is nested more than %d deep", MAX_DEPTH);
        return NULL;
    }
    json_error_t e;
    const size_t flags = JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL;
    json_t *j = json_loadb(s, n, flags, &e);
    if (!j && json_error_code(&e) == json_error_numeric_overflow) j = load_large(s, n, flags, &e);
    if (!j) ie_fail(err, IE_E_ARG, "the body is not valid JSON: line %d, column %d: %s", e.line, e.column, e.text);
    else if (!json_is_object(j)) {
        ie_fail(err, IE_E_ARG, "the body is JSON, but no object");
        json_decref(j);
        j = NULL;
    }
    return j;
}

/* ---- members ------------------------------------------------------------------------------------------------------- */

static const json_t *member(const json_t *o, const char *key) {
    const json_t *v = json_object_get(o, key);
    return v && !json_is_null(v) ? v : NULL;
}

#define SHOWN 40 /* bytes of a text in a message */

/* How a message shows a value: numbers and short texts as they are. */
static void show(const json_t *v, char *out, size_t size) {
    ie_buf b = {0};
    size_t n = json_string_length(v), len = 0;
    if (json_is_array(v) || json_is_object(v)) {
        snprintf(out, size, json_is_array(v) ? "an array" : "an object");
        return;
    }
    while (n > SHOWN && len < n && len + ie_utf8_len((const unsigned char *)json_string_value(v) + len, n - len) <= SHOWN)
        len += ie_utf8_len((const unsigned char *)json_string_value(v) + len, n - len);
    json_t *cut = n > SHOWN ? json_stringn(json_string_value(v), len) : NULL;
    bool ok = serve_json_dump(cut ? cut : v, &b, NULL);
    snprintf(out, size, "%s%s", ok ? b.data : "what was sent", cut ? "..." : "");
    json_decref(cut);
    ie_buf_free(&b);
}

ie_status serve_wrong(const char *key, const json_t *v, ie_error *err, const char *fmt, ...) {
    char allowed[200], value[6 * SHOWN + 8]; /* a byte may need six: \u001f */
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(allowed, sizeof allowed, fmt, ap);
    va_end(ap);
    show(v, value, sizeof value);
    return ie_fail(err, IE_E_ARG, "'%.60s' must be %s, not %s", key, allowed, value);
}

ie_status serve_get_bool(const json_t *o, const char *key, bool *out, ie_error *err) {
    const json_t *v = member(o, key);
    if (!v) return IE_OK;
    if (!json_is_boolean(v)) return serve_wrong(key, v, err, "true or false");
    *out = json_is_true(v);
    return IE_OK;
}

ie_status serve_get_int(const json_t *o, const char *key, int64_t min, int64_t max, int64_t *out, ie_error *err) {
    const json_t *v = member(o, key);
    if (!v) return IE_OK;
    double d = json_is_real(v) ? json_real_value(v) : 0; /* 5.0 counts as 5 */
    bool whole = json_is_integer(v) || (json_is_real(v) && d == floor(d) && fabs(d) < 9e15);
    int64_t i = json_is_integer(v) ? (int64_t)json_integer_value(v) : whole ? (int64_t)d : 0;
    if (!whole || i < min || i > max) return serve_wrong(key, v, err, "a whole number from %lld to %lld", (long long)min, (long long)max);
    *out = i;
    return IE_OK;
}

ie_status serve_get_num(const json_t *o, const char *key, double min, double max, double *out, ie_error *err) {
    const json_t *v = member(o, key);
    if (!v) return IE_OK;
    double d = json_is_number(v) ? json_number_value(v) : NAN;
    if (!(d >= min && d <= max)) return serve_wrong(key, v, err, "a number from %g to %g", min, max);
    *out = d;
    return IE_OK;
}

ie_status serve_get_str(const json_t *o, const char *key, const char **out, size_t *len, ie_error *err) {
    const json_t *v = member(o, key);
    if (!v) return IE_OK;
    if (!json_is_string(v)) return serve_wrong(key, v, err, "a string");
    if (!len && strlen(json_string_value(v)) != json_string_length(v)) return serve_wrong(key, v, err, "a string without NUL characters");
    *out = json_string_value(v);
    if (len) *len = json_string_length(v);
    return IE_OK;
}

ie_status serve_get_obj(const json_t *o, const char *key, json_t **out, ie_error *err) {
    json_t *v = json_object_get(o, key);
    if (!v || json_is_null(v)) return IE_OK;
    if (!json_is_object(v)) return serve_wrong(key, v, err, "an object");
    *out = v;
    return IE_OK;
}

ie_status serve_get_arr(const json_t *o, const char *key, json_t **out, ie_error *err) {
    json_t *v = json_object_get(o, key);
    if (!v || json_is_null(v)) return IE_OK;
    if (!json_is_array(v)) return serve_wrong(key, v, err, "an array");
    *out = v;
    return IE_OK;
}

/* ---- out ------------------------------------------------------------------------------------------------------------ */

json_t *serve_json_text(const char *s, size_t n) {
    json_t *j = json_stringn(s, n);
    if (j) return j;
    ie_buf b = {0};
    bool ok = ie_buf_add(&b, "", 0, NULL);
    for (size_t i = 0, len; i < n && ok; i += len) {
        len = ie_utf8_len((const unsigned char *)s + i, n - i);
        ok = len ? ie_buf_add(&b, s + i, len, NULL) : ie_buf_add(&b, "\xEF\xBF\xBD", 3, NULL);
        if (!len) len = 1;
    }
    j = ok ? json_stringn(b.data, b.len) : NULL;
    ie_buf_free(&b);
    return j;
}

bool serve_json_escape(const char *s, size_t n, ie_buf *out, ie_error *err) {
    static const char hex[] = "0123456789abcdef", named[] = "\"\\\b\f\n\r\t", letter[] = "\"\\bfnrt";
    bool ok = true;
    size_t from = 0;
    for (size_t i = 0; i < n && ok; i++) {
        unsigned char c = (unsigned char)s[i];
        if (c >= 0x20 && c != '"' && c != '\\' && c != 0x7F) continue;
        ok = i == from || ie_buf_add(out, s + from, i - from, err);
        from = i + 1;
        const char *at = c ? strchr(named, c) : NULL;
        char esc[6] = {'\\', at ? letter[at - named] : 'u', '0', '0', hex[c >> 4], hex[c & 15]};
        ok = ok && ie_buf_add(out, esc, at ? 2 : 6, err);
    }
    return ok && (from >= n || ie_buf_add(out, s + from, n - from, err));
}

static bool put_string(const char *s, size_t n, ie_buf *out, ie_error *err) {
    return ie_buf_add(out, "\"", 1, err) && serve_json_escape(s, n, out, err) && ie_buf_add(out, "\"", 1, err);
}

/* The fewest digits that give the same number: the same float where it is one, else the same double. What JSON cannot write
 * becomes null. */
static bool put_real(double d, ie_buf *out, ie_error *err) {
    char text[40];
    if (!isfinite(d)) return ie_buf_add(out, "null", 4, err);
    bool is_float = (double)(float)d == d;
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, d);
        if (is_float ? strtof(text, NULL) == (float)d : strtod(text, NULL) == d) break;
    }
    if (!strpbrk(text, ".eE")) strcat(text, ".0");
    return ie_buf_add(out, text, strlen(text), err);
}

bool serve_json_dump(const json_t *j, ie_buf *out, ie_error *err) {
    const char *key;
    json_t *v;
    size_t i;
    bool ok = true;
    switch (json_typeof(j)) {
    case JSON_NULL: return ie_buf_add(out, "null", 4, err);
    case JSON_TRUE: return ie_buf_add(out, "true", 4, err);
    case JSON_FALSE: return ie_buf_add(out, "false", 5, err);
    case JSON_INTEGER: return ie_buf_printf(out, err, "%lld", (long long)json_integer_value(j));
    case JSON_REAL: return put_real(json_real_value(j), out, err);
    case JSON_STRING: return put_string(json_string_value(j), json_string_length(j), out, err);
    case JSON_ARRAY:
        ok = ie_buf_add(out, "[", 1, err);
        json_array_foreach(j, i, v) ok = ok && (i == 0 || ie_buf_add(out, ",", 1, err)) && serve_json_dump(v, out, err);
        return ok && ie_buf_add(out, "]", 1, err);
    case JSON_OBJECT:
        ok = ie_buf_add(out, "{", 1, err);
        i = 0;
        json_object_foreach((json_t *)(uintptr_t)j, key, v) {
            ok = ok && (i++ == 0 || ie_buf_add(out, ",", 1, err)) && put_string(key, strlen(key), out, err) &&
                 ie_buf_add(out, ":", 1, err) && serve_json_dump(v, out, err);
        }
        return ok && ie_buf_add(out, "}", 1, err);
    }
    return false;
}
