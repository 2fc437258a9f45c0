/* Lexer of chat templates: text, and the tokens inside {{ }} and {% %}. White-space control as jinja2 does it with
 * trim_blocks and lstrip_blocks. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "jinja.h"

typedef struct {
    jx *x;
    jnames *names;
    const char *s, *end, *at; /* newlines are already \n */
    const char *src;
    int line;
    jtok *tok;
    size_t n, cap;
    char closers[J_MAX_NEST]; /* open brackets of the current tag */
    int n_closers;
} lexer;

static const struct {
    char text[3];
    jtok_type type;
} operators[] = {
    {"//", T_FLOORDIV}, {"**", T_POW},      {"==", T_EQ},    {"!=", T_NE},    {"<=", T_LE},    {">=", T_GE},
    {"+", T_ADD},       {"-", T_SUB},       {"/", T_DIV},    {"*", T_MUL},    {"%", T_MOD},    {"~", T_TILDE},
    {"[", T_LBRACKET},  {"]", T_RBRACKET},  {"(", T_LPAREN}, {")", T_RPAREN}, {"{", T_LBRACE}, {"}", T_RBRACE},
    {">", T_GT},        {"<", T_LT},        {"=", T_ASSIGN}, {".", T_DOT},    {":", T_COLON},  {"|", T_PIPE},
    {",", T_COMMA},     {";", T_SEMICOLON},
};

const char *j_tok_text(const jtok *t, char out[64]) {
    static const char *const fixed[] = {[T_EOF] = "end of template", [T_DATA] = "text",      [T_VAR_BEGIN] = "{{",
                                        [T_VAR_END] = "}}",          [T_BLOCK_BEGIN] = "{%", [T_BLOCK_END] = "%}"};
    if (t->type <= T_BLOCK_END) return fixed[t->type];
    if (t->type == T_INT)
        snprintf(out, 64, "%lld", (long long)t->i);
    else if (t->type == T_FLOAT)
        snprintf(out, 64, "%g", t->f);
    else if (t->type == T_NAME || t->type == T_STR)
        snprintf(out, 64, t->type == T_NAME ? "%.*s" : "'%.*s'", t->s->len < 60 ? (int)t->s->len : 60, t->s->s);
    else
        for (size_t i = 0; i < sizeof operators / sizeof operators[0]; i++)
            if (operators[i].type == (jtok_type)t->type) return operators[i].text;
    return out;
}

_Noreturn static void lex_fail(lexer *l, const char *what) {
    j_fail(l->x, IE_E_FORMAT, "chat template, line %d: %s", l->line, what);
}

static jtok *push(lexer *l, jtok_type type) {
    if (l->n == l->cap) {
        size_t cap = l->cap ? l->cap * 2 : 256;
        jtok *t = J_ARRAY(l->x, jtok, cap);
        if (l->n) memcpy(t, l->tok, l->n * sizeof *t);
        l->tok = t;
        l->cap = cap;
    }
    jtok *t = &l->tok[l->n++];
    t->type = (uint8_t)type;
    t->line = l->line;
    return t;
}

/* Moves to p, counting lines. */
static void advance(lexer *l, const char *p) {
    for (; l->at < p; l->at++) l->line += *l->at == '\n';
}

static size_t space_len(const lexer *l, const char *p) { /* bytes of one white-space character at p, 0 if it is none */
    size_t len;
    return p < l->end && j_is_space(j_decode(p, l->end, &len)) ? len : 0;
}

static const char *skip_space(const lexer *l, const char *p) {
    for (size_t n; (n = space_len(l, p)) > 0;) p += n;
    return p;
}

static bool starts(const lexer *l, const char *p, const char *lit) {
    size_t n = strlen(lit);
    return (size_t)(l->end - p) >= n && memcmp(p, lit, n) == 0;
}

/* End of the tag ending at p for `close` ("%}", "}}" or "#}"), NULL if there is none. -close strips what follows; a
 * plain close drops one newline after blocks and comments; +close (not for variables) keeps it. */
static const char *tag_end(const lexer *l, const char *p, const char *close) {
    bool var = close[0] == '}';
    if (*p == '-' && starts(l, p + 1, close)) return skip_space(l, p + 3);
    if (*p == '+' && !var && starts(l, p + 1, close)) return p + 3;
    if (!starts(l, p, close)) return NULL;
    return p + 2 + (!var && p + 2 < l->end && p[2] == '\n');
}

/* Emits the text from l->at to tag as data. sign: the character after the tag's opening; strip_left: lstrip_blocks. */
static void data(lexer *l, const char *tag, char sign, bool strip_left) {
    const char *start = l->at, *stop = tag;
    if (sign == '-') {
        while (stop > start) {
            const char *c = stop - 1;
            while (c > start && (*c & 0xC0) == 0x80) c--;
            if (!space_len(l, c)) break;
            stop = c;
        }
    } else if (sign != '+' && strip_left) {
        const char *nl = memrchr(start, '\n', (size_t)(tag - start));
        const char *line = nl ? nl + 1 : start;
        bool line_start = nl || start == l->src || start[-1] == '\n';
        if (line_start && line < tag && skip_space(l, line) >= tag) stop = line;
    }
    if (stop > start) push(l, T_DATA)->s = j_str(l->x, start, (size_t)(stop - start), true);
    advance(l, tag);
}

const jstr *j_intern(jx *x, jnames *t, const char *s, size_t len) {
    if (t->n * 2 >= t->cap) {
        size_t cap = t->cap ? t->cap * 2 : 128;
        const jstr **slot = J_ARRAY(x, const jstr *, cap);
        for (size_t i = 0; i < t->cap; i++) {
            if (!t->slot[i]) continue;
            size_t k = t->slot[i]->hash & (cap - 1);
            while (slot[k]) k = (k + 1) & (cap - 1);
            slot[k] = t->slot[i];
        }
        t->slot = slot;
        t->cap = cap;
    }
    jstr *name = j_str(x, s, len, true);
    size_t k = j_str_hash(name) & (t->cap - 1);
    for (; t->slot[k]; k = (k + 1) & (t->cap - 1))
        if (j_str_eq(t->slot[k], name)) return t->slot[k];
    j_ncp(x, name);
    t->slot[k] = name;
    t->n++;
    return name;
}

/* ---- literals -----------------------------------------------------------------------------------------------------
 */

static int digit_of(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : 99;
}

/* Code point of the escape's n digits in base at *p; advances. */
static uint32_t escape_digits(lexer *l, const char **p, const char *end, int n, int base) {
    uint32_t cp = 0;
    int got = 0;
    while (got < n && *p < end && digit_of(**p) < base) {
        cp = cp * (uint32_t)base + (uint32_t)digit_of(*(*p)++);
        got++;
    }
    if (base == 16 && got < n) lex_fail(l, "truncated \\x, \\u or \\U escape in a string");
    if (cp > 0x10FFFF || (cp >= 0xD800 && cp < 0xE000))
        lex_fail(l, "escape in a string is no character (surrogates are not supported)");
    return cp;
}

static const jstr *unescape(lexer *l, const char *p, const char *end) {
    if (!memchr(p, '\\', (size_t)(end - p))) return j_str(l->x, p, (size_t)(end - p), true);
    jbuf *b = j_buf(l->x);
    char utf8[4];
    while (p < end) {
        const char *q = memchr(p, '\\', (size_t)(end - p));
        if (!q) q = end;
        j_buf_add(l->x, b, p, NULL, (size_t)(q - p), true);
        if (q == end) break;
        char c = q[1];
        p = q + 2;
        static const char from[] = "abfnrtv\\'\"", to[] = "\a\b\f\n\r\t\v\\'\"";
        const char *simple = c ? strchr(from, c) : NULL;
        if (c == '\n') continue;
        if (simple)
            j_buf_add(l->x, b, &to[simple - from], NULL, 1, true);
        else if (c >= '0' && c <= '7')
            j_buf_add(l->x, b, utf8, NULL, j_encode((p--, escape_digits(l, &p, end, 3, 8)), utf8), true);
        else if (c == 'x' || c == 'u' || c == 'U')
            j_buf_add(l->x, b, utf8, NULL,
                      j_encode(escape_digits(l, &p, end,
                                             c == 'x'   ? 2
                                             : c == 'u' ? 4
                                                        : 8,
                                             16),
                               utf8),
                      true);
        else if (c == 'N')
            lex_fail(l, "\\N{...} in a string is not supported");
        else
            j_buf_add(l->x, b, q, NULL, 2, true), p = q + 2; /* an unknown escape stays as it is */
    }
    return j_buf_done(l->x, b);
}

static bool string(lexer *l) {
    char quote = *l->at;
    if (quote != '\'' && quote != '"') return false;
    for (const char *p = l->at + 1; p < l->end; p++) {
        if (*p == '\\') {
            p++;
            continue;
        }
        if (*p != quote) continue;
        const jstr *s = unescape(l, l->at + 1, p);
        push(l, T_STR)->s = s;
        advance(l, p + 1);
        return true;
    }
    return false;
}

static const char *digits(const lexer *l, const char *p) { /* digits with single _ between; p if there are none */
    const char *q = p;
    while (q < l->end && ((*q >= '0' && *q <= '9') ||
                          (*q == '_' && q > p && q[-1] != '_' && q + 1 < l->end && q[1] >= '0' && q[1] <= '9')))
        q++;
    return q;
}

static const char *float_end(const lexer *l, const char *p) { /* NULL: not a float */
    const char *q = digits(l, p), *r;
    bool is_float = false;
    if (q == p || (p > l->s && p[-1] == '.')) return NULL;
    if (q < l->end && *q == '.' && (r = digits(l, q + 1)) > q + 1) {
        is_float = true;
        q = r;
    }
    if (q < l->end && (*q == 'e' || *q == 'E')) {
        const char *e = q + 1;
        if (e < l->end && (*e == '+' || *e == '-')) e++;
        if ((r = digits(l, e)) > e) {
            is_float = true;
            q = r;
        }
    }
    return is_float ? q : NULL;
}

static void float_token(lexer *l, const char *end) {
    size_t n = 0;
    char *tmp = j_bytes(l->x, (size_t)(end - l->at) + 1);
    for (const char *q = l->at; q < end; q++)
        if (*q != '_') tmp[n++] = *q;
    tmp[n] = 0;
    push(l, T_FLOAT)->f = strtod(tmp, NULL);
    advance(l, end);
}

static void int_token(lexer *l) {
    const char *p = l->at;
    int base = 10;
    if (*p == '0' && p + 1 < l->end) {
        char c = (char)(p[1] | 0x20);
        base = c == 'x' ? 16 : c == 'o' ? 8 : c == 'b' ? 2 : 10;
        const char *d = p + 2 + (base != 10 && p + 2 < l->end && p[2] == '_');
        if (base != 10 && d < l->end && digit_of(*d) < base)
            p = d;
        else
            base = 10;
    }
    bool zero = base == 10 && *p == '0'; /* a leading zero: only zeros follow */
    int64_t v = 0;
    const char *start = p;
    for (; p < l->end; p++) {
        if (*p == '_' && p > start && p + 1 < l->end && digit_of(p[1]) < base) continue;
        int d = digit_of(*p);
        if (d >= base || (zero && d)) break;
        if (__builtin_mul_overflow(v, base, &v) || __builtin_add_overflow(v, d, &v))
            lex_fail(l, "integer does not fit 64 bits");
    }
    push(l, T_INT)->i = v;
    advance(l, p);
}

static bool name_char(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || (uint8_t)c >= 0x80;
}

static void operator_token(lexer *l) {
    for (size_t i = 0; i < sizeof operators / sizeof operators[0]; i++) {
        if (!starts(l, l->at, operators[i].text)) continue;
        char c = *l->at;
        if (c == '(' || c == '[' || c == '{') {
            if (l->n_closers == J_MAX_NEST) lex_fail(l, "brackets nested deeper than 200");
            l->closers[l->n_closers++] = c == '(' ? ')' : c == '[' ? ']' : '}';
        } else if (c == ')' || c == ']' || c == '}') {
            if (l->n_closers == 0 || l->closers[--l->n_closers] != c) {
                char msg[] = "unexpected ' '";
                msg[12] = c;
                lex_fail(l, msg);
            }
        }
        push(l, operators[i].type);
        advance(l, l->at + strlen(operators[i].text));
        return;
    }
    char msg[40] = "unexpected character 0x";
    snprintf(msg + strlen(msg), 8, "%02x", (uint8_t)*l->at);
    lex_fail(l, msg);
}

/* ---- tags ---------------------------------------------------------------------------------------------------------
 */

static void tag_tokens(lexer *l, const char *close, jtok_type end_type) {
    l->n_closers = 0;
    while (l->at < l->end) {
        const char *e = l->n_closers ? NULL : tag_end(l, l->at, close);
        if (e) {
            push(l, end_type);
            advance(l, e);
            return;
        }
        const char *p = skip_space(l, l->at);
        if (p > l->at) {
            advance(l, p);
        } else if ((e = float_end(l, l->at))) {
            float_token(l, e);
        } else if (*l->at >= '0' && *l->at <= '9') {
            int_token(l);
        } else if (name_char(*l->at)) {
            while (p < l->end && name_char(*p) && !space_len(l, p)) p++;
            const jstr *name = j_intern(l->x, l->names, l->at, (size_t)(p - l->at));
            push(l, T_NAME)->s = name;
            advance(l, p);
        } else if (!string(l)) {
            operator_token(l);
        }
    }
}

static void comment(lexer *l) {
    for (const char *p = l->at; p < l->end; p++) {
        const char *e = tag_end(l, p, "#}");
        if (!e) continue;
        advance(l, e);
        return;
    }
    if (l->at < l->end) lex_fail(l, "missing end of comment tag"); /* jinja2 lets a bare opening at the end pass */
}

/* End of the raw tag that begins at p ("{%" ...), NULL if it is another tag. */
static const char *raw_begin(const lexer *l, const char *p) {
    p += 2;
    if (p < l->end && (*p == '-' || *p == '+')) p++;
    p = skip_space(l, p);
    if (!starts(l, p, "raw")) return NULL;
    p = skip_space(l, p + 3);
    if (starts(l, p, "-%}")) return skip_space(l, p + 3);
    return starts(l, p, "%}") ? p + 2 : NULL;
}

static void raw(lexer *l) {
    for (const char *p = l->at; (p = memmem(p, (size_t)(l->end - p), "{%", 2)); p += 2) {
        const char *q = p + 2, *e;
        char sign = q < l->end && (*q == '-' || *q == '+') ? *q++ : 0;
        q = skip_space(l, q);
        if (!starts(l, q, "endraw")) continue;
        q = skip_space(l, q + 6);
        if (q >= l->end || !(e = tag_end(l, q, "%}"))) continue;
        data(l, p, sign, true);
        advance(l, e);
        return;
    }
    if (l->at < l->end) lex_fail(l, "missing end of raw directive");
}

/* The next "{{", "{%" or "{#" at or after p; l->end if there is none. */
static const char *next_tag(const lexer *l, const char *p) {
    while ((p = memchr(p, '{', (size_t)(l->end - p)))) {
        if (p + 1 < l->end && (p[1] == '{' || p[1] == '%' || p[1] == '#')) return p;
        p++;
    }
    return l->end;
}

static void root(lexer *l) {
    while (l->at < l->end) {
        const char *tag = next_tag(l, l->at), *e;
        if (tag == l->end) {
            data(l, tag, '+', false);
            return;
        }
        char kind = tag[1], sign = tag + 2 < l->end ? tag[2] : 0;
        bool signed_ = sign == '-' || sign == '+';
        data(l, tag, signed_ ? sign : 0, kind != '{');
        if (kind == '%' && (e = raw_begin(l, tag))) {
            advance(l, e);
            raw(l);
            continue;
        }
        if (kind != '#') push(l, kind == '{' ? T_VAR_BEGIN : T_BLOCK_BEGIN);
        advance(l, tag + 2 + signed_);
        if (kind == '#')
            comment(l);
        else if (kind == '{')
            tag_tokens(l, "}}", T_VAR_END);
        else
            tag_tokens(l, "%}", T_BLOCK_END);
    }
}

static const char *normalize_newlines(jx *x, const char *src, size_t *len) {
    char *s = j_bytes(x, *len + 1);
    size_t n = 0;
    for (size_t i = 0; i < *len; i++) {
        if (src[i] == '\r') {
            s[n++] = '\n';
            if (i + 1 < *len && src[i + 1] == '\n') i++;
        } else {
            s[n++] = src[i];
        }
    }
    if (n && s[n - 1] == '\n') n--; /* one newline at the end is not part of the template */
    s[n] = 0;
    *len = n;
    return s;
}

jtok *j_lex(jx *x, jnames *names, const char *src, size_t len) {
    lexer *l = J_NEW(x, lexer);
    l->x = x;
    l->names = names;
    l->line = 1;
    l->s = l->at = l->src = normalize_newlines(x, src, &len);
    l->end = l->s + len;
    root(l);
    push(l, T_EOF);
    return l->tok;
}
