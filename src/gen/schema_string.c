/* Strings: characters with their escapes, lengths, formats, keys. */
#include <stdlib.h>
#include <string.h>

#include "../text/utf8.h"
#include "schema.h"

/* ---- characters ----------------------------------------------------------------------------------------------------------------- */

static void make_chars(sc *s) {
    gr_build *b = s->b;
    gr_range hex[] = {{'0', '9'}, {'a', 'f'}, {'A', 'F'}}, d[] = {{'d', 'd'}, {'D', 'D'}}, low[] = {{'0', '7'}}, ab[] = {{'8', '9'}, {'a', 'b'}, {'A', 'B'}};
    gr_range cf[] = {{'c', 'f'}, {'C', 'F'}}, not_d[] = {{'0', '9'}, {'a', 'c'}, {'e', 'f'}, {'A', 'C'}, {'E', 'F'}}, out[] = {{0, 0x1F}, {'"', '"'}, {'\\', '\\'}};
    gr_range simple[] = {{'"', '"'}, {'\\', '\\'}, {'/', '/'}, {'b', 'b'}, {'f', 'f'}, {'n', 'n'}, {'r', 'r'}, {'t', 't'}};
    gr_elem h = gr_class_of(b, hex, 3, false), slash = sc_text(s, "\\"), u = sc_text(s, "\\u"), D = gr_class_of(b, d, 2, false);
    gr_elem short_esc[2] = {slash, gr_class_of(b, simple, 8, false)};
    gr_elem plain_hex[5] = {u, gr_class_of(b, not_d, 5, false), h, h, h};
    gr_elem low_hex[5] = {u, D, gr_class_of(b, low, 1, false), h, h};
    gr_elem pair[10] = {u, D, gr_class_of(b, ab, 3, false), h, h, u, D, gr_class_of(b, cf, 2, false), h, h};
    gr_elem all[5] = {gr_class_of(b, out, 3, true), gr_seq(b, short_esc, 2), gr_seq(b, plain_hex, 5), gr_seq(b, low_hex, 5), gr_seq(b, pair, 10)};
    s->plain = all[0];
    s->chars = gr_any_of(b, all, 5);
    gr_elem quoted[3] = {sc_text(s, "\""), gr_repeat(b, s->chars, 0, GR_FOREVER), sc_text(s, "\"")};
    s->str = gr_seq(b, quoted, 3);
    s->has_chars = true;
}

gr_elem sc_chars(sc *s) {
    if (!s->has_chars) make_chars(s);
    return s->chars;
}

gr_elem sc_any_string(sc *s) {
    if (!s->has_chars) make_chars(s);
    return s->str;
}

/* ---- strings ----------------------------------------------------------------------------------------------------------------------- */

/* Formats as regular expressions; each gives a part of what the format allows that has no exceptions. Dates are valid days. */
#define YEAR "[1-9][0-9]{3}"
#define LEAP "(?:[1-9][0-9](?:0[48]|[2468][048]|[13579][26])|(?:[2468][048]|[13579][26])00)"
#define DATE "(?:" YEAR "-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))|" LEAP "-02-29)"
#define TIME "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,6})?(?:Z|[+-](?:0[0-9]|1[0-4]):[0-5][0-9])"
#define LABEL "[a-z0-9A-Z](?:[a-z0-9A-Z-]{0,30}[a-z0-9A-Z])?"
#define HOST LABEL "(?:\\." LABEL "){0,6}"
#define OCTET "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
#define HEX "[0-9a-fA-F]"
static const struct {
    const char *name, *re; /* NULL: says nothing about a string */
} formats[] = {
    {"date", "^" DATE "$"},
    {"time", "^" TIME "$"},
    {"date-time", "^" DATE "T" TIME "$"},
    {"duration", "^P(?:[0-9]{1,4}W|[0-9]{1,4}D(?:T[0-9]{1,4}[HMS])?|[0-9]{1,4}Y(?:[0-9]{1,4}M(?:[0-9]{1,4}D)?)?|[0-9]{1,4}M(?:[0-9]{1,4}D)?|"
                 "T(?:[0-9]{1,4}H(?:[0-9]{1,4}M(?:[0-9]{1,4}S)?)?|[0-9]{1,4}M(?:[0-9]{1,4}S)?|[0-9]{1,4}S))$"},
    {"uuid", "^" HEX "{8}-" HEX "{4}-" HEX "{4}-" HEX "{4}-" HEX "{12}$"},
    {"email", "^[a-zA-Z0-9_+-]{1,32}(?:\\.[a-zA-Z0-9_+-]{1,16}){0,2}@" HOST "\\.[a-zA-Z]{2,12}$"},
    {"hostname", "^" HOST "$"},
    {"ipv4", "^" OCTET "(?:\\." OCTET "){3}$"},
    {"ipv6", "^(?:" HEX "{1,4}:){7}" HEX "{1,4}$"},
    {"uri", "^(?:https?|ftp)://" HOST "(?::[1-9][0-9]{0,3})?(?:/[a-zA-Z0-9._~-]{0,64}){0,8}(?:\\?[a-zA-Z0-9._~&=-]{1,64})?(?:#[a-zA-Z0-9._~-]{1,64})?$"},
    {"uri-reference", "^(?:/[a-zA-Z0-9._~-]{1,64}){1,8}$"},
    {"json-pointer", "^(?:/[a-zA-Z0-9._ -]{0,64}){0,16}$"},
    {"byte", "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"},
    {"password", NULL},
    {"binary", NULL},
    {"regex", NULL},
};

gr_elem sc_string(sc *s, const json_t *flat) {
    uint64_t min, max;
    const json_t *pattern = json_object_get(flat, "pattern");
    const char *format = json_string_value(json_object_get(flat, "format"));
    if (!sc_integer(s, flat, "minLength", 0, &min) || !sc_integer(s, flat, "maxLength", GR_FOREVER, &max)) return (gr_elem){0};
    if (format && pattern) return sc_fail(s, IE_E_UNSUPPORTED, "keyword 'format' together with 'pattern' is not supported"), (gr_elem){0};
    if (pattern) return sc_regex(s, json_string_value(pattern), json_string_length(pattern), min, max);
    if (format) {
        size_t i = 0, n = sizeof formats / sizeof *formats;
        while (i < n && strcmp(formats[i].name, format) != 0) i++;
        if (i == n || !strcmp(format, "regex")) {
            sc_fail(s, IE_E_UNSUPPORTED, "keyword 'format' is '%.40s'; supported are date, time, date-time, duration, uuid, email, hostname, ipv4, ipv6, uri, uri-reference, json-pointer, byte", format);
            return (gr_elem){0};
        }
        if (formats[i].re) return sc_regex(s, formats[i].re, strlen(formats[i].re), min, max);
    }
    if (max < min) return gr_any_of(s->b, NULL, 0);
    if (min == 0 && max == GR_FOREVER) return sc_any_string(s);
    gr_elem e[3] = {sc_text(s, "\""), gr_repeat(s->b, sc_chars(s), min, max), sc_text(s, "\"")};
    return gr_seq(s->b, e, 3);
}

/* ---- keys -------------------------------------------------------------------------------------------------------------------------- */

static int by_bytes(const void *pa, const void *pb) {
    const char *const *a = pa, *const *b = pb;
    return strcmp(*a, *b);
}

typedef struct {
    size_t from, to, depth; /* names that begin alike, and how many bytes of them */
    uint32_t rule;          /* what may follow these bytes */
} prefix;

/* The rule behind a common beginning: any character that no name goes on with, then anything; or one that some do. */
static bool branch(sc *s, const char **name, prefix p, prefix **todo, size_t *n, size_t *cap) {
    gr_elem anything = gr_repeat(s->b, s->plain, 0, GR_FOREVER), quote = sc_text(s, "\"");
    gr_range *taken = ie_calloc(p.to - p.from + 3, sizeof *taken, "schema", s->b->err);
    if (!taken) return s->b->failed = true, false;
    size_t n_taken = 0, i = p.from;
    bool ends = i < p.to && name[i][p.depth] == 0;
    if (!ends) gr_alt_add(s->b, p.rule, &quote, 1);
    for (i += ends; i < p.to && !s->b->failed;) {
        const unsigned char *at = (const unsigned char *)name[i] + p.depth;
        size_t len = ie_utf8_len(at, strlen((const char *)at)), end = i;
        while (end < p.to && !strncmp(name[end] + p.depth, (const char *)at, len)) end++;
        taken[n_taken].lo = taken[n_taken].hi = ie_utf8_cp(at, len);
        n_taken++;
        uint32_t rule = gr_rule_new(s->b, NULL, 0);
        gr_elem e[2] = {gr_lit(s->b, (const char *)at, len), gr_call(rule)};
        gr_alt_add(s->b, p.rule, e, 2);
        if (!ie_grow(todo, cap, *n + 1, sizeof **todo, "schema", s->b->err)) s->b->failed = true;
        else (*todo)[(*n)++] = (prefix){i, end, p.depth + len, rule};
        i = end;
    }
    taken[n_taken++] = (gr_range){0, 0x1F}, taken[n_taken++] = (gr_range){'"', '"'}, taken[n_taken++] = (gr_range){'\\', '\\'};
    gr_elem e[3] = {gr_class_of(s->b, taken, n_taken, true), anything, quote};
    if (!s->b->failed) gr_alt_add(s->b, p.rule, e, 3);
    free(taken);
    return !s->b->failed;
}

/* Written without escapes, so that a name cannot come in disguise; names that need some cannot come at all. */
gr_elem sc_other_key(sc *s, json_t *declared) {
    sc_chars(s);
    size_t n = 0, room = json_object_size(declared), n_todo = 0, cap = 0;
    const char **name = ie_calloc(room + 1, sizeof *name, "schema", s->b->err), *key;
    prefix *todo = NULL;
    json_t *v;
    if (!name) s->b->failed = true;
    if (s->b->failed) return free(name), (gr_elem){0};
    json_object_foreach(declared, key, v) {
        (void)v;
        bool plain = true;
        for (const char *c = key; *c; c++) plain = plain && (unsigned char)*c >= 0x20 && *c != '"' && *c != '\\';
        if (plain) name[n++] = key;
    }
    qsort(name, n, sizeof *name, by_bytes);
    uint32_t rule = gr_rule_new(s->b, NULL, 0);
    if (ie_grow(&todo, &cap, 1, sizeof *todo, "schema", s->b->err)) todo[n_todo++] = (prefix){0, n, 0, rule};
    else s->b->failed = true;
    while (n_todo && !s->b->failed) {
        prefix p = todo[--n_todo];
        branch(s, name, p, &todo, &n_todo, &cap);
    }
    free(name);
    free(todo);
    gr_elem e[2] = {sc_text(s, "\""), gr_call(rule)};
    return gr_seq(s->b, e, 2);
}
