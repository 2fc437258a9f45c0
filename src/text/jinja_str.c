/* Strings of the chat-template engine: shared substrings, concatenation in place, code points, case, classes. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "jinja.h"

jstr *j_str(jx *x, const char *s, size_t len, bool trust) {
    jstr *r = J_NEW(x, jstr);
    r->s = s;
    r->len = len;
    r->ncp = SIZE_MAX;
    r->trust = trust;
    return r;
}

jstr *j_lit(jx *x, const char *s) { return j_str(x, s, strlen(s), false); }

jstr *j_sub(jx *x, const jstr *s, size_t off, size_t len) {
    jstr *r = j_str(x, s->s + off, len, s->trust);
    if (s->mark) r->mark = s->mark + off;
    if (s->ncp == s->len) r->ncp = len; /* ASCII stays ASCII */
    r->buf = s->buf;
    return r;
}

jstr *j_concat(jx *x, const jstr *a, const jstr *b) {
    if (b->len == 0) return j_sub(x, a, 0, a->len);
    if (a->len == 0) return j_sub(x, b, 0, b->len);
    jbuf *buf = a->buf;
    size_t off = 0;
    if (buf && a->s + a->len == buf->data + buf->used) {
        off = (size_t)(a->s - buf->data);
    } else {
        buf = j_buf(x);
        j_buf_str(x, buf, a);
        buf->private_ = false;
    }
    j_buf_str(x, buf, b);
    jstr *r = j_str(x, buf->data + off, a->len + b->len, buf->trust);
    if (buf->mark) r->mark = buf->mark + off;
    r->buf = buf;
    return r;
}

size_t j_ncp(jx *x, jstr *s) {
    if (s->ncp != SIZE_MAX) return s->ncp;
    j_charge(x, s->len >> 8);
    size_t n = 0;
    for (size_t i = 0; i < s->len; i++) n += (s->s[i] & 0xC0) != 0x80;
    return s->ncp = n;
}

size_t j_cp_offset(jx *x, jstr *s, size_t i) {
    if (j_ncp(x, s) == s->len) return i;
    if (i == s->ncp) return s->len;
    j_charge(x, i >> 8);
    size_t at = 0;
    while (i > 0) {
        at++;
        while (at < s->len && (s->s[at] & 0xC0) == 0x80) at++;
        i--;
    }
    return at;
}

uint32_t j_str_hash(const jstr *s) {
    if (s->hashed) return s->hash;
    uint32_t h = 2166136261u; /* FNV-1a */
    for (size_t i = 0; i < s->len; i++) h = (h ^ (uint8_t)s->s[i]) * 16777619u;
    h ^= h >> 15;
    jstr *cache = (jstr *)(uintptr_t)s;
    cache->hash = h;
    cache->hashed = true;
    return h;
}

bool j_str_eq(const jstr *a, const jstr *b) { return a == b || (a->len == b->len && memcmp(a->s, b->s, a->len) == 0); }

bool j_str_is(const jstr *a, const char *lit) { return a->len == strlen(lit) && memcmp(a->s, lit, a->len) == 0; }

int j_str_cmp(const jstr *a, const jstr *b) {
    size_t n = a->len < b->len ? a->len : b->len;
    int c = memcmp(a->s, b->s, n);
    if (c) return c < 0 ? -1 : 1; /* 2 has a meaning of its own in j_order */
    return a->len < b->len ? -1 : a->len > b->len;
}

size_t j_find(jx *x, const jstr *s, size_t from, const jstr *what) {
    if (from > s->len || what->len > s->len - from) return SIZE_MAX;
    if (what->len == 0) return from;
    const char *p = memmem(s->s + from, s->len - from, what->s, what->len);
    size_t at = p ? (size_t)(p - s->s) : SIZE_MAX;
    j_charge(x, ((p ? at : s->len) - from) >> 8);
    return at;
}

size_t j_rfind(jx *x, const jstr *s, size_t end, const jstr *what) {
    if (what->len > end) return SIZE_MAX;
    if (what->len == 0) return end;
    size_t at = end - what->len + 1;
    while (at-- > 0)
        if (s->s[at] == what->s[0] && memcmp(s->s + at, what->s, what->len) == 0) {
            j_charge(x, (end - at) >> 6);
            return at;
        }
    j_charge(x, end >> 6);
    return SIZE_MAX;
}

uint32_t j_decode(const char *s, const char *end, size_t *len) {
    const uint8_t *p = (const uint8_t *)s;
    size_t n = p[0] < 0x80 ? 1 : p[0] < 0xE0 ? 2 : p[0] < 0xF0 ? 3 : 4;
    if (n > (size_t)(end - s)) n = 1; /* cannot happen: strings are well-formed */
    *len = n;
    if (n == 1) return p[0];
    if (n == 2) return (uint32_t)(p[0] & 0x1F) << 6 | (p[1] & 0x3F);
    if (n == 3) return (uint32_t)(p[0] & 0x0F) << 12 | (uint32_t)(p[1] & 0x3F) << 6 | (p[2] & 0x3F);
    return (uint32_t)(p[0] & 0x07) << 18 | (uint32_t)(p[1] & 0x3F) << 12 | (uint32_t)(p[2] & 0x3F) << 6 | (p[3] & 0x3F);
}

size_t j_encode(uint32_t cp, char out[4]) {
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    size_t n = cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (cp & 0x3F));
        cp >>= 6;
    }
    static const uint8_t lead[5] = {0, 0, 0xC0, 0xE0, 0xF0};
    out[0] = (char)(lead[n] | cp);
    return n;
}

/* Python's str.isspace. */
bool j_is_space(uint32_t c) {
    if (c < 0x80) return (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x20);
    return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
           c == 0x202F || c == 0x205F || c == 0x3000;
}

/* ---- case ---------------------------------------------------------------------------------------------------------
 */

static void buf_cased(jx *x, jbuf *b, const jstr *s, size_t at, uint32_t cp, jcase how) { /* cp stands at s->s + at */
    uint32_t to[3];
    char utf8[4];
    unsigned n = j_case(how, cp, to);
    bool trust = s->mark ? s->mark[at] : s->trust;
    for (unsigned i = 0; i < n; i++) j_buf_add(x, b, utf8, NULL, j_encode(to[i], utf8), trust);
}

/* Greek sigma at the end of a word is written differently: after a cased letter, and not before one (Unicode 3.13;
 * case- ignorable characters between are approximated by "neither cased nor white space, and not a letter"). */
static bool final_sigma(const jstr *s, size_t at) {
    size_t len;
    bool before = false;
    for (size_t i = at; i > 0;) {
        i--;
        while (i > 0 && (s->s[i] & 0xC0) == 0x80) i--;
        uint32_t c = j_decode(s->s + i, s->s + s->len, &len);
        before = j_is_cased(c, J_UPPER) || j_is_cased(c, J_LOWER) || j_is_cased(c, J_TITLE);
        if (before || (c != '\'' && c != 0x2019 && c != '.' && c != ':' && c != 0xB7)) break;
    }
    if (!before) return false;
    for (size_t i = at + 2; i < s->len; i += len) {
        uint32_t c = j_decode(s->s + i, s->s + s->len, &len);
        if (j_is_cased(c, J_UPPER) || j_is_cased(c, J_LOWER) || j_is_cased(c, J_TITLE)) return false;
        if (c != '\'' && c != 0x2019 && c != '.' && c != ':' && c != 0xB7) break;
    }
    return true;
}

static void recase_from(jx *x, jbuf *b, jstr *s, size_t at, jcase how) {
    const char *end = s->s + s->len;
    while (at < s->len) {
        size_t run = at;
        while (run < s->len && (uint8_t)s->s[run] < 0x80) run++;
        if (run > at) { /* ASCII in one piece */
            j_buf_add(x, b, s->s + at, s->mark ? s->mark + at : NULL, run - at, s->trust);
            char *p = b->data + b->used - (run - at);
            for (size_t i = 0; i < run - at; i++)
                if (how == J_UPPER ? p[i] >= 'a' && p[i] <= 'z' : p[i] >= 'A' && p[i] <= 'Z') p[i] ^= 0x20;
            at = run;
            continue;
        }
        size_t len;
        uint32_t cp = j_decode(s->s + at, end, &len);
        if (cp == 0x3A3 && how == J_LOWER && final_sigma(s, at))
            j_buf_add(x, b, "\xCF\x82", NULL, 2, s->mark ? s->mark[at] : s->trust);
        else
            buf_cased(x, b, s, at, cp, how);
        at += len;
        j_charge(x, 1);
    }
}

jstr *j_recase(jx *x, jstr *s, jcase how) {
    jbuf *b = j_buf(x);
    recase_from(x, b, s, 0, how);
    return j_buf_done(x, b);
}

jstr *j_capitalize(jx *x, jstr *s) {
    if (s->len == 0) return s;
    size_t len;
    uint32_t cp = j_decode(s->s, s->s + s->len, &len);
    jbuf *b = j_buf(x);
    buf_cased(x, b, s, 0, cp, J_TITLE);
    recase_from(x, b, s, len, J_LOWER);
    return j_buf_done(x, b);
}

/* ---- stripping and lines ------------------------------------------------------------------------------------------
 */

static bool strips(uint32_t cp, const jstr *chars) {
    if (!chars) return j_is_space(cp);
    size_t len;
    for (size_t i = 0; i < chars->len; i += len)
        if (j_decode(chars->s + i, chars->s + chars->len, &len) == cp) return true;
    return false;
}

jstr *j_strip(jx *x, jstr *s, const jstr *chars, int side) {
    size_t a = 0, b = s->len, len;
    uint64_t each = chars ? 16 + chars->len : 16, work = 0; /* charged in steps of 64 bytes looked at */
    if (side & 1)
        while (a < b && strips(j_decode(s->s + a, s->s + b, &len), chars)) {
            a += len;
            work += each;
            j_charge(x, work >> 6);
            work &= 63;
        }
    if (side & 2)
        while (b > a) {
            size_t c = b - 1;
            while (c > a && (s->s[c] & 0xC0) == 0x80) c--;
            if (!strips(j_decode(s->s + c, s->s + b, &len), chars)) break;
            b = c;
            work += each;
            j_charge(x, work >> 6);
            work &= 63;
        }
    return j_sub(x, s, a, b - a);
}

/* Length of the line break at s (Python's str.splitlines), 0 if there is none. */
static size_t line_break(const char *s, const char *end) {
    uint8_t c = (uint8_t)s[0];
    if (c == '\r') return s + 1 < end && s[1] == '\n' ? 2 : 1;
    if ((c >= 10 && c <= 12) || (c >= 0x1C && c <= 0x1E)) return 1;
    if (c == 0xC2 && (uint8_t)s[1] == 0x85) return 2;
    if (c == 0xE2 && (uint8_t)s[1] == 0x80 && ((uint8_t)s[2] == 0xA8 || (uint8_t)s[2] == 0xA9)) return 3;
    return 0;
}

jseq *j_splitlines(jx *x, const jstr *s, bool keep) {
    size_t cap = 8, start = 0;
    jseq *q = j_list_new(x, cap);
    for (size_t i = 0; i < s->len;) {
        size_t n = line_break(s->s + i, s->s + s->len);
        if (!n) {
            i++;
            continue;
        }
        j_push(x, q, &cap, jv_str(j_sub(x, s, start, i - start + (keep ? n : 0))));
        j_charge(x, 1);
        i += n;
        start = i;
    }
    if (start < s->len) j_push(x, q, &cap, jv_str(j_sub(x, s, start, s->len - start)));
    return q;
}

/* ---- classes ------------------------------------------------------------------------------------------------------
 */

static pcre2_code *regex(jx *x, int which) {
    static const char *const pattern[] = {"^\\p{L}+\\z", "^\\p{Nd}+\\z", "^[\\p{L}\\p{N}]+\\z", "[\\p{C}\\p{Z}]"};
    if (!x->regex[which]) {
        int code;
        PCRE2_SIZE at;
        x->regex[which] = pcre2_compile((PCRE2_SPTR)pattern[which], PCRE2_ZERO_TERMINATED,
                                        PCRE2_UTF | PCRE2_UCP | PCRE2_NO_UTF_CHECK, &code, &at, NULL);
        if (!x->regex[which]) j_fail(x, IE_E_NOMEM, "chat template: no memory for a character class");
    }
    return x->regex[which];
}

/* Byte offset of the first match at or after from; SIZE_MAX if there is none. */
static size_t match(jx *x, const jstr *s, int which, size_t from) {
    pcre2_code *re = regex(x, which);
    pcre2_match_data *md = pcre2_match_data_create(1, NULL);
    if (!md) j_fail(x, IE_E_NOMEM, "chat template: no memory for a character class");
    int rc = pcre2_match(re, (PCRE2_SPTR)s->s, s->len, from, PCRE2_NO_UTF_CHECK, md, NULL);
    size_t at = rc >= 0 ? pcre2_get_ovector_pointer(md)[0] : SIZE_MAX;
    pcre2_match_data_free(md);
    j_charge(x, ((at == SIZE_MAX ? s->len : at) - from) >> 6);
    return at;
}

bool j_all_match(jx *x, const jstr *s, int which) { return s->len > 0 && match(x, s, which, 0) == 0; }

size_t j_next_unprintable(jx *x, const jstr *s, size_t from) {
    size_t at = from >= s->len ? SIZE_MAX : match(x, s, J_RE_UNPRINTABLE, from);
    return at == SIZE_MAX ? s->len : at;
}
