/* GBNF, llama.cpp's grammar language, to rules.
 *
 *   grammar := rule*                        rule := name "::=" alternatives, to the end of the line
 *   alternatives := sequence ("|" sequence)*   (a new line may follow "::=" and "|", and stand anywhere inside parentheses)
 *   sequence := (item repetition?)*         item := "text" | [class] | [^class] | . | name | (alternatives) | <token> | <[id]>
 *   repetition := * | + | ? | {n} | {n,} | {n,m}
 *
 * Escapes in texts and classes: \n \r \t \\ \" \[ \] \- \^ \xHH \uHHHH \UHHHHHHHH. A comment goes from # to the end of the line. */
#include <stdlib.h>
#include <string.h>

#include "../text/utf8.h"
#include "grammar.h"

#define MAX_NEST 1000 /* parentheses */
#define MAX_COUNT UINT64_C(1000000000) /* of a repetition */

/* An open group, or the rule itself at the bottom. */
typedef struct {
    uint32_t rule;  /* made when its first alternative ends; GR_NONE before */
    size_t first;   /* element where its present sequence begins */
} group;

typedef struct {
    gr_build *b;
    const gr_vocab *v;
    const char *s, *p, *end;
    gr_elem *seq; /* elements of all open sequences */
    size_t n_seq, cap_seq;
    group open[MAX_NEST + 1];
    int depth;
    uint32_t *slot; /* names: rule + 1, open addressing */
    size_t slots, n_names;
    gr_range *range;
    size_t cap_range;
} parser;

static void fail(parser *g, const char *what) {
    size_t line = 1;
    for (const char *c = g->s; c < g->p; c++) line += *c == '\n';
    size_t shown = 0;
    while (g->p + shown < g->end && shown < 24 && g->p[shown] != '\n') shown++;
    if (g->p >= g->end) gr_fail(g->b, IE_E_FORMAT, "grammar, line %zu: %s, at the end of the text", line, what);
    else gr_fail(g->b, IE_E_FORMAT, "grammar, line %zu: %s, at '%.*s'", line, what, (int)shown, g->p);
}

static bool is_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

static bool at(const parser *g, char c) { return g->p < g->end && *g->p == c; }

/* Blanks and comments; line ends too where they mean nothing. */
static void blanks(parser *g, bool lines) {
    for (; g->p < g->end; g->p++) {
        if (*g->p == '#')
            while (g->p + 1 < g->end && g->p[1] != '\n' && g->p[1] != '\r') g->p++;
        else if (*g->p != ' ' && *g->p != '\t' && !(lines && (*g->p == '\n' || *g->p == '\r'))) return;
    }
}

/* ---- names ------------------------------------------------------------------------------------------------------------ */

static size_t hash_name(const char *s, size_t n) {
    uint64_t h = 14695981039346656037u;
    for (size_t i = 0; i < n; i++) h = (h ^ (uint8_t)s[i]) * 1099511628211u;
    return (size_t)(h ^ h >> 29);
}

static bool more_names(parser *g) {
    size_t slots = g->slots ? g->slots * 2 : 64;
    uint32_t *t = ie_calloc(slots, sizeof *t, "grammar", g->b->err);
    if (!t) return g->b->failed = true, false;
    for (size_t i = 0; i < g->slots; i++) {
        if (!g->slot[i]) continue;
        const gr_rule *r = &g->b->rule[g->slot[i] - 1];
        size_t k = hash_name(g->b->bytes + r->name, r->name_len) & (slots - 1);
        while (t[k]) k = (k + 1) & (slots - 1);
        t[k] = g->slot[i];
    }
    free(g->slot);
    g->slot = t, g->slots = slots;
    return true;
}

/* The rule of a name, made where the name is new. */
static uint32_t rule_named(parser *g, const char *s, size_t n) {
    if (g->n_names * 2 >= g->slots && !more_names(g)) return 0;
    size_t k = hash_name(s, n) & (g->slots - 1);
    for (; g->slot[k]; k = (k + 1) & (g->slots - 1)) {
        const gr_rule *r = &g->b->rule[g->slot[k] - 1];
        if (r->name_len == n && !memcmp(g->b->bytes + r->name, s, n)) return g->slot[k] - 1;
    }
    uint32_t rule = gr_rule_new(g->b, s, n);
    if (g->b->failed) return 0;
    g->slot[k] = rule + 1;
    g->n_names++;
    return rule;
}

static size_t name_at(parser *g) {
    size_t n = 0;
    while (g->p + n < g->end && is_name(g->p[n])) n++;
    return n;
}

/* ---- items ---------------------------------------------------------------------------------------------------------------- */

static void push(parser *g, gr_elem e) {
    if (g->b->failed) return;
    if (!ie_grow(&g->seq, &g->cap_seq, g->n_seq + 1, sizeof e, "grammar", g->b->err)) g->b->failed = true;
    else g->seq[g->n_seq++] = e;
}

static int hex_digit(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static uint32_t hex(parser *g, int digits) {
    uint32_t v = 0;
    for (int i = 0; i < digits; i++, g->p++) {
        int d = g->p < g->end ? hex_digit(*g->p) : -1;
        if (d < 0) {
            fail(g, digits == 2 ? "\\x needs two hexadecimal digits" : digits == 4 ? "\\u needs four hexadecimal digits" : "\\U needs eight hexadecimal digits");
            return 0;
        }
        v = v << 4 | (uint32_t)d;
    }
    if (v > 0x10FFFF || (v >= 0xD800 && v <= 0xDFFF)) fail(g, "the escape before this is no Unicode character");
    return v;
}

/* One character of a text or class, escapes resolved. */
static uint32_t character(parser *g) {
    if (*g->p != '\\') {
        size_t n = ie_utf8_len((const unsigned char *)g->p, (size_t)(g->end - g->p));
        if (n == 0) return fail(g, "invalid UTF-8"), 0;
        g->p += n;
        return ie_utf8_cp((const unsigned char *)g->p - n, n);
    }
    static const char from[] = "nrt\\\"[]-^", to[] = "\n\r\t\\\"[]-^";
    char c = g->p + 1 < g->end ? g->p[1] : 0;
    const char *k = c ? strchr(from, c) : NULL;
    if (!k && c != 'x' && c != 'u' && c != 'U') return fail(g, "unknown escape; allowed are \\n \\r \\t \\\\ \\\" \\[ \\] \\- \\^ \\x \\u \\U"), 0;
    g->p += 2;
    return k ? (uint32_t)(uint8_t)to[k - from] : hex(g, c == 'x' ? 2 : c == 'u' ? 4 : 8);
}

static void text(parser *g) {
    ie_buf out = {0};
    for (g->p++; !g->b->failed && !at(g, '"');) {
        if (g->p >= g->end || *g->p == '\n') {
            fail(g, "a text is not closed by \"");
            break;
        }
        unsigned char enc[4];
        uint32_t cp = character(g);
        if (!ie_buf_add(&out, enc, ie_utf8_put(cp, enc), g->b->err)) g->b->failed = true;
    }
    g->p++;
    push(g, gr_lit(g->b, out.data ? out.data : "", out.len));
    ie_buf_free(&out);
}

static void class(parser *g) {
    g->p++;
    bool negated = at(g, '^');
    size_t n = 0;
    for (g->p += negated; !g->b->failed && !at(g, ']'); n++) {
        if (g->p >= g->end || *g->p == '\n') {
            fail(g, "a class is not closed by ]");
            return;
        }
        uint32_t lo = character(g), hi = lo;
        if (g->p + 1 < g->end && *g->p == '-' && g->p[1] != ']') {
            g->p++;
            hi = character(g);
            if (hi < lo) fail(g, "the range before this ends below its beginning");
        }
        if (g->b->failed || !ie_grow(&g->range, &g->cap_range, n + 1, sizeof *g->range, "grammar", g->b->err)) {
            g->b->failed = true;
            return;
        }
        g->range[n] = (gr_range){lo, hi};
    }
    g->p++;
    push(g, gr_class_of(g->b, g->range, n, negated));
}

/* <name> or <[id]>: the token of that text (brackets included), or of that number. */
static void token(parser *g) {
    const char *from = g->p;
    while (g->p < g->end && *g->p != '>' && *g->p != '\n') g->p++;
    size_t n = (size_t)(g->p - from) + 1;
    if (!at(g, '>')) {
        fail(g, "a token is not closed by >");
        return;
    }
    int32_t id = -1;
    if (n >= 5 && from[1] == '[' && from[n - 2] == ']') {
        int64_t v = 0;
        bool ok = true;
        for (size_t i = 2; i < n - 2 && v <= INT32_MAX; i++) ok &= from[i] >= '0' && from[i] <= '9', v = v * 10 + (from[i] - '0');
        id = ok && v < g->v->n ? (int32_t)v : -1;
    } else if (g->v->tok) {
        id = ie_tokenizer_find(g->v->tok, from, n);
    }
    if (id < 0) {
        g->p = from;
        fail(g, "the vocabulary has no such token");
        return;
    }
    g->p++;
    push(g, gr_token(id));
}

static bool number(parser *g, uint64_t *v) {
    const char *from = g->p;
    for (*v = 0; g->p < g->end && *g->p >= '0' && *g->p <= '9'; g->p++) {
        *v = *v * 10 + (uint64_t)(*g->p - '0');
        if (*v > MAX_COUNT) return fail(g, "a repetition count is above 1000000000"), false;
    }
    if (g->p == from) return fail(g, "a number was expected"), false;
    return true;
}

/* * + ? {..} behind the last element. */
static void repetition(parser *g) {
    const group *top = &g->open[g->depth];
    uint64_t min = *g->p == '+', max = *g->p == '?' ? 1 : GR_FOREVER;
    if (g->n_seq == top->first) {
        fail(g, "a repetition follows nothing");
        return;
    }
    if (*g->p++ == '{') {
        blanks(g, true);
        if (!number(g, &min)) return;
        max = min;
        blanks(g, true);
        if (at(g, ',')) {
            g->p++;
            blanks(g, true);
            max = GR_FOREVER;
            if (!at(g, '}') && !number(g, &max)) return;
            blanks(g, true);
        }
        if (!at(g, '}')) {
            fail(g, "a repetition is not closed by }");
            return;
        }
        if (max < min) {
            fail(g, "a repetition has its maximum below its minimum");
            return;
        }
        g->p++;
    }
    g->seq[g->n_seq - 1] = gr_repeat(g->b, g->seq[g->n_seq - 1], min, max);
}

/* ---- rules ------------------------------------------------------------------------------------------------------------------ */

static void end_sequence(parser *g) {
    group *top = &g->open[g->depth];
    if (top->rule == GR_NONE) top->rule = gr_rule_new(g->b, NULL, 0);
    gr_alt_add(g->b, top->rule, g->seq ? g->seq + top->first : NULL, g->n_seq - top->first);
    g->n_seq = top->first;
}

static void close_group(parser *g) {
    if (g->depth == 0) {
        fail(g, "a ) closes nothing");
        return;
    }
    g->p++;
    group top = g->open[g->depth];
    if (top.rule != GR_NONE || g->n_seq != top.first + 1) end_sequence(g);
    top = g->open[g->depth--];
    if (top.rule != GR_NONE) push(g, gr_call(top.rule)); /* else the group was one element, which stands for itself */
}

/* One item, operator or bracket; false at the end of the rule. */
static bool item(parser *g) {
    blanks(g, g->depth > 0);
    if (g->p >= g->end || *g->p == '\n' || *g->p == '\r') {
        if (g->depth) fail(g, "a group is not closed by )");
        return false;
    }
    switch (*g->p) {
    case '"': text(g); break;
    case '[': class(g); break;
    case '<': token(g); break;
    case ')': close_group(g); break;
    case '*':
    case '+':
    case '?':
    case '{': repetition(g); break;
    case '.':
        g->p++;
        push(g, gr_class_of(g->b, NULL, 0, true));
        break;
    case '|':
        end_sequence(g);
        g->p++;
        blanks(g, true);
        break;
    case '(':
        if (g->depth == MAX_NEST) {
            fail(g, "groups are nested deeper than 1000");
            break;
        }
        g->p++;
        g->open[++g->depth] = (group){GR_NONE, g->n_seq};
        break;
    case '!': fail(g, "\"any token but one\" (!) is not supported"); break;
    default: {
        size_t n = name_at(g);
        if (n == 0) {
            fail(g, "unexpected character");
            break;
        }
        uint32_t rule = rule_named(g, g->p, n);
        g->p += n;
        push(g, gr_call(rule));
    }
    }
    return !g->b->failed;
}

static void rule(parser *g) {
    size_t n = name_at(g);
    if (n == 0) {
        fail(g, "a rule's name was expected");
        return;
    }
    const char *from = g->p;
    uint32_t r = rule_named(g, g->p, n);
    if (g->b->failed) return;
    if (g->b->rule[r].defined) {
        fail(g, "this rule is defined twice");
        return;
    }
    g->p += n;
    blanks(g, false);
    if (g->end - g->p < 3 || memcmp(g->p, "::=", 3) != 0) {
        g->p = from;
        fail(g, "a rule is written name ::= alternatives");
        return;
    }
    g->p += 3;
    blanks(g, true);
    g->depth = 0, g->n_seq = 0;
    g->open[0] = (group){r, 0};
    while (item(g)) {}
    if (!g->b->failed) end_sequence(g);
}

uint32_t gr_gbnf(gr_build *b, const char *s, size_t len, const gr_vocab *v) {
    if (len > GR_MAX_TEXT) {
        gr_fail(b, IE_E_ARG, "grammar: %zu bytes, at most %u are allowed", len, GR_MAX_TEXT);
        return 0;
    }
    parser *g = ie_calloc(1, sizeof *g, "grammar", b->err);
    if (!g) return b->failed = true, 0;
    g->b = b, g->v = v, g->s = g->p = s, g->end = s + len;
    uint32_t root = rule_named(g, "root", 4);
    for (blanks(g, true); !b->failed && g->p < g->end; blanks(g, true)) rule(g);
    if (!b->failed && !b->rule[root].defined) gr_fail(b, IE_E_FORMAT, "grammar: it has no rule 'root', where texts begin");
    free(g->seq);
    free(g->slot);
    free(g->range);
    free(g);
    return root;
}
