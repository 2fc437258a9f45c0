/* Regular expressions of "pattern" (ECMA-262's language as JSON Schema recommends it), to rules over the characters of a JSON string.
 *
 *   alternation | · * + ? {n} {n,} {n,m} (lazy too) · groups ( (?: (?<name> · classes · . · \d \w \s and their complements ·
 *   ^ and $ at the two ends of the whole or of an alternative of it
 *
 * Look-around, back-references, \b and flags are refused. Where engines differ on what \d, \w, \s, . or their complements mean
 * beyond ASCII, only what all of them allow is taken.
 *
 * The expression becomes a nondeterministic automaton (Thompson 1968) over characters, then a rule for each of its states; with a
 * bound on the length, a rule for each state and count. */
#include <stdlib.h>
#include <string.h>

#include "../text/utf8.h"
#include "schema.h"

#define MAX_STATES 20000u
#define MAX_NEST 200

enum { R_EMPTY, R_CHAR, R_SPLIT, R_MATCH };

typedef struct {
    uint8_t kind;
    gr_elem e;      /* R_CHAR: what it reads */
    uint32_t a, b;  /* next states; R_SPLIT has two */
} state;

/* A piece of the automaton: states [from, to), entered at `in`, left by the empty state `out`, whose `a` is open. */
typedef struct {
    uint32_t from, in, out;
} piece;

typedef struct {
    piece seq, alt;   /* the sequence so far; the alternatives before it */
    bool has_seq, has_alt;
    piece last;       /* the last item, which a repetition takes */
    bool has_last, start, end; /* ^ was met; $ was met, nothing may follow */
} level;

typedef struct {
    sc *s;
    const char *re, *p, *end;
    state *st;
    size_t n, cap;
    level open[MAX_NEST + 1];
    int depth;
    gr_elem any; /* any character, for what is not anchored */
    gr_range *r;
    size_t n_r, cap_r;
} parser;

static void refuse(parser *g, const char *what) {
    sc_fail(g->s, IE_E_UNSUPPORTED, "keyword 'pattern' is '%.60s': %s", g->re, what);
}

static bool ok(const parser *g) { return !g->s->b->failed; }

static uint32_t add(parser *g, state s) {
    if (ok(g) && g->n >= MAX_STATES) refuse(g, "it is too large");
    if (!ok(g)) return 0;
    if (!ie_grow(&g->st, &g->cap, g->n + 1, sizeof s, "pattern", g->s->b->err)) return g->s->b->failed = true, 0;
    g->st[g->n] = s;
    return (uint32_t)g->n++;
}

static piece empty(parser *g) {
    uint32_t i = add(g, (state){.kind = R_EMPTY});
    return (piece){i, i, i};
}

static void link_to(parser *g, uint32_t out, uint32_t to) {
    if (ok(g)) g->st[out].a = to;
}

static piece join(parser *g, piece x, piece y) {
    link_to(g, x.out, y.in);
    return (piece){x.from, x.in, y.out};
}

static piece either(parser *g, piece x, piece y) {
    uint32_t in = add(g, (state){.kind = R_SPLIT, .a = x.in, .b = y.in}), out = add(g, (state){.kind = R_EMPTY});
    link_to(g, x.out, out);
    link_to(g, y.out, out);
    return (piece){x.from, in, out};
}

static piece single(parser *g, gr_elem e) {
    uint32_t out, in = add(g, (state){.kind = R_CHAR, .e = e});
    out = add(g, (state){.kind = R_EMPTY});
    link_to(g, in, out);
    return (piece){in, in, out};
}

/* The piece once more: states [from, to) are all its own. */
static piece copy(parser *g, piece x, uint32_t to) {
    uint32_t at = (uint32_t)g->n;
    for (uint32_t i = x.from; i < to && ok(g); i++) {
        state s = g->st[i];
        s.a += at - x.from, s.b += at - x.from;
        add(g, s);
    }
    return (piece){at, x.in + at - x.from, x.out + at - x.from};
}

static piece loop(parser *g, piece x) {
    uint32_t out = add(g, (state){.kind = R_EMPTY}), in = add(g, (state){.kind = R_SPLIT, .a = x.in, .b = out});
    link_to(g, x.out, in);
    return (piece){x.from, in, out};
}

static piece repeat(parser *g, piece x, uint64_t min, uint64_t max) {
    uint32_t to = (uint32_t)g->n;
    if (min == 0 && max == GR_FOREVER) return loop(g, x);
    if (max == 0) return empty(g);
    piece all = min ? x : (piece){0, 0, 0};
    bool have = min > 0;
    uint64_t last = max == GR_FOREVER ? min + 1 : max;
    if (last > MAX_STATES) refuse(g, "it is too large");
    for (uint64_t i = min ? 1 : 0; i < last && ok(g); i++) {
        piece y = copy(g, x, to);
        if (i >= min) y = max == GR_FOREVER ? loop(g, y) : either(g, y, empty(g));
        all = have ? join(g, all, y) : y;
        have = true;
    }
    all.from = x.from;
    return all;
}

/* ---- characters -------------------------------------------------------------------------------------------------------------- */

static void range(parser *g, uint32_t lo, uint32_t hi) {
    if (!ok(g)) return;
    if (!ie_grow(&g->r, &g->cap_r, g->n_r + 1, sizeof *g->r, "pattern", g->s->b->err)) g->s->b->failed = true;
    else g->r[g->n_r++] = (gr_range){lo, hi};
}

/* \d \D \w \W \s \S */
static bool shorthand(parser *g, char c) {
    static const struct {
        char c;
        uint8_t n;
        gr_range r[12];
    } sets[] = {
        {'d', 1, {{'0', '9'}}},
        {'D', 3, {{0, '0' - 1}, {'9' + 1, 0x7F}, {0xA1, 0x24F}}},
        {'w', 4, {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}},
        {'W', 5, {{0, '0' - 1}, {'9' + 1, 'A' - 1}, {'Z' + 1, '_' - 1}, {'`', '`'}, {'z' + 1, 0x7F}}},
        {'s', 2, {{'\t', '\r'}, {' ', ' '}}},
        {'S', 8, {{0x21, 0x7E}, {0xA1, 0x167F}, {0x1681, 0x1FFF}, {0x200B, 0x2027}, {0x2030, 0x205E}, {0x2060, 0x2FFF}, {0x3001, 0xFEFE}, {0xFF00, 0x10FFFF}}},
    };
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        if (sets[i].c != c) continue;
        for (int k = 0; k < sets[i].n; k++) range(g, sets[i].r[k].lo, sets[i].r[k].hi);
        return true;
    }
    return false;
}

static uint32_t hex(parser *g, int digits) {
    uint32_t v = 0;
    for (int i = 0; i < digits; i++, g->p++) {
        char c = g->p < g->end ? *g->p : 0;
        int d = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
        if (d < 0) return refuse(g, "an escape lacks hexadecimal digits"), 0;
        v = v << 4 | (uint32_t)d;
    }
    return v;
}

/* One character or escape of a class or outside; *set: it was a shorthand, whose ranges were added. */
static uint32_t character(parser *g, bool *set) {
    *set = false;
    if (*g->p != '\\') {
        size_t n = ie_utf8_len((const unsigned char *)g->p, (size_t)(g->end - g->p));
        if (n == 0) return refuse(g, "it is not UTF-8"), 0;
        g->p += n;
        return ie_utf8_cp((const unsigned char *)g->p - n, n);
    }
    if (++g->p == g->end) return refuse(g, "it ends with \\"), 0;
    char c = *g->p++;
    if (shorthand(g, c)) return *set = true, 0;
    static const char from[] = "nrtfv", to[] = "\n\r\t\f\v";
    const char *k = strchr(from, c);
    if (c && k) return (uint32_t)(uint8_t)to[k - from];
    if (c == 'x') return hex(g, 2);
    if (c == 'u') return hex(g, 4);
    if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (unsigned char)c >= 0x80 || !c)
        return refuse(g, "an escape in it is not supported"), 0;
    return (uint32_t)(uint8_t)c;
}

/* The collected ranges as a character of a JSON string: as it is, or by the escape that JSON demands. */
static gr_elem json_class(parser *g, bool negated) {
    gr_build *b = g->s->b;
    static const gr_range must[] = {{0, 0x1F}, {'"', '"'}, {'\\', '\\'}};
    bool in[0x80] = {0};
    for (unsigned c = 0; c < 0x80; c++) {
        for (size_t i = 0; i < g->n_r; i++) in[c] = in[c] || (c >= g->r[i].lo && c <= g->r[i].hi);
        in[c] ^= negated;
    }
    gr_elem all[36];
    size_t n = 1;
    for (unsigned c = 0; c < 0x80; c++) {
        static const char from[] = "\b\f\n\r\t\"\\", to[] = "bfnrt\"\\";
        bool needs = c <= 0x1F || c == '"' || c == '\\';
        if (!needs || !in[c]) continue;
        const char *k = c ? strchr(from, (int)c) : NULL;
        char text[8] = {'\\', k ? to[k - from] : 'u', '0', '0', (char)('0' + (c >> 4)), "0123456789abcdef"[c & 15]};
        all[n++] = gr_lit(b, text, k ? 2 : 6);
    }
    if (negated) {
        for (int i = 0; i < 3; i++) range(g, must[i].lo, must[i].hi);
    } else { /* cut out what must be escaped */
        size_t have = g->n_r;
        for (size_t i = 0; i < have; i++) {
            gr_range r = g->r[i];
            g->r[i] = (gr_range){1, 1}; /* replaced by its parts */
            uint32_t cuts[][2] = {{0x20, 0x21}, {0x23, 0x5B}, {0x5D, 0x10FFFF}};
            for (int k = 0; k < 3; k++) {
                uint32_t lo = r.lo > cuts[k][0] ? r.lo : cuts[k][0], hi = r.hi < cuts[k][1] ? r.hi : cuts[k][1];
                if (lo <= hi) range(g, lo, hi);
            }
        }
        size_t kept = 0;
        for (size_t i = have; i < g->n_r; i++) g->r[kept++] = g->r[i];
        g->n_r = kept;
    }
    all[0] = gr_class_of(b, g->r, g->n_r, negated);
    g->n_r = 0;
    return n == 1 ? all[0] : gr_any_of(b, all, n);
}

static gr_elem class(parser *g) {
    bool negated = ++g->p < g->end && *g->p == '^', sets = false, set;
    g->n_r = 0;
    for (g->p += negated; ok(g) && (g->p >= g->end || *g->p != ']');) {
        if (g->p >= g->end) return refuse(g, "a class is not closed"), (gr_elem){0};
        uint32_t lo = character(g, &set), hi = lo;
        sets = sets || set;
        if (set) continue;
        if (g->p + 1 < g->end && *g->p == '-' && g->p[1] != ']') {
            g->p++;
            hi = character(g, &set);
            if (set || hi < lo) refuse(g, "a range of characters is reversed or has no end");
        }
        range(g, lo, hi);
    }
    g->p++;
    if (negated && sets) range(g, 0x7F, 0x10FFFF), range(g, 0, 0x1F); /* what lies there differs between engines */
    return ok(g) ? json_class(g, negated) : (gr_elem){0};
}

/* ---- structure ---------------------------------------------------------------------------------------------------------------- */

static void append(parser *g, piece x) {
    level *l = &g->open[g->depth];
    if (l->end) return refuse(g, "something follows a $");
    if (l->has_last) l->seq = l->has_seq ? join(g, l->seq, l->last) : l->last;
    l->has_seq = l->has_seq || l->has_last;
    l->last = x;
    l->has_last = true;
}

static void end_sequence(parser *g) {
    level *l = &g->open[g->depth];
    piece x = l->has_last ? l->last : empty(g);
    if (l->has_seq) x = join(g, l->seq, x);
    if (g->depth == 0) { /* a match may begin and end anywhere */
        if (!l->start) x = join(g, loop(g, single(g, g->any)), x);
        if (!l->end) x = join(g, x, loop(g, single(g, g->any)));
    }
    l->alt = l->has_alt ? either(g, l->alt, x) : x;
    l->has_alt = true;
    l->has_seq = l->has_last = l->start = l->end = false;
}

static bool count(parser *g, uint64_t *v) {
    const char *from = g->p;
    for (*v = 0; g->p < g->end && *g->p >= '0' && *g->p <= '9' && *v < 1000000; g->p++) *v = *v * 10 + (uint64_t)(*g->p - '0');
    return g->p > from;
}

static void repetition(parser *g) {
    level *l = &g->open[g->depth];
    uint64_t min = *g->p == '+', max = *g->p == '?' ? 1 : GR_FOREVER;
    if (!l->has_last) return refuse(g, "a repetition follows nothing");
    if (*g->p++ == '{') {
        if (!count(g, &min)) return refuse(g, "a { is no repetition");
        max = min;
        if (g->p < g->end && *g->p == ',') {
            g->p++;
            if (!count(g, &max)) max = GR_FOREVER;
        }
        if (g->p >= g->end || *g->p != '}' || max < min) return refuse(g, "a { is no repetition");
        g->p++;
    }
    if (g->p < g->end && *g->p == '?') g->p++;
    if (g->p < g->end && (*g->p == '+' || *g->p == '*' || *g->p == '{')) return refuse(g, "a repetition follows a repetition");
    /* The piece's states have to be the last ones, to be copied. */
    l->last = repeat(g, l->last, min, max);
}

static void open_group(parser *g) {
    g->p++;
    if (g->end - g->p >= 2 && g->p[0] == '?') {
        if (g->p[1] == ':') {
            g->p += 2;
        } else {
            const char *name = g->p[1] == 'P' ? g->p + 2 : g->p + 1;
            if (name + 1 >= g->end || *name != '<' || name[1] == '=' || name[1] == '!') return refuse(g, "look-around and flags are not supported");
            while (g->p < g->end && *g->p != '>') g->p++;
            if (g->p < g->end) g->p++;
        }
    }
    if (g->depth == MAX_NEST) return refuse(g, "its groups are nested too deep");
    g->open[++g->depth] = (level){.has_seq = false};
}

static void anchor(parser *g) {
    level *l = &g->open[g->depth];
    if (g->depth) return refuse(g, "^ and $ are supported at the ends of the whole pattern or of its alternatives only");
    if (*g->p++ == '$') l->end = true;
    else if (l->has_last || l->has_seq) refuse(g, "a ^ follows something");
    else l->start = true;
}

static void item(parser *g) {
    bool set;
    switch (*g->p) {
    case '(': open_group(g); break;
    case ')': {
        if (g->depth == 0) {
            refuse(g, "a ) closes nothing");
            break;
        }
        g->p++;
        end_sequence(g);
        piece x = g->open[g->depth--].alt;
        append(g, x);
        break;
    }
    case '|':
        g->p++;
        end_sequence(g);
        break;
    case '*':
    case '+':
    case '?':
    case '{': repetition(g); break;
    case '^':
    case '$': anchor(g); break;
    case '[': append(g, single(g, class(g))); break;
    case '.':
        g->p++;
        g->n_r = 0;
        range(g, '\n', '\n'), range(g, '\r', '\r'), range(g, 0x2028, 0x2029);
        if (ok(g)) append(g, single(g, json_class(g, true)));
        break;
    default: {
        g->n_r = 0;
        uint32_t c = character(g, &set);
        if (!set) range(g, c, c);
        if (ok(g)) append(g, single(g, json_class(g, false)));
    }
    }
}

/* ---- rules ------------------------------------------------------------------------------------------------------------------------ */

/* The characters that may be read in a state: closure over empty moves. */
typedef struct {
    uint32_t *todo, *seen; /* seen[i] == mark: visited */
    uint32_t mark;
} walker;

/* Rule of state i after c characters: rules[i * width + c], made when first asked for and then queued. */
typedef struct {
    uint32_t *rule, *queue;
    size_t n_queue, cap_queue, width;
    uint64_t min;
    bool counts;
} table;

static uint32_t rule_of(parser *g, table *t, uint32_t i, size_t c) {
    uint32_t *r = &t->rule[i * t->width + c];
    if (*r != GR_NONE || !ok(g)) return *r;
    if (!ie_grow(&t->queue, &t->cap_queue, t->n_queue + 1, sizeof *t->queue, "pattern", g->s->b->err)) return g->s->b->failed = true, 0;
    t->queue[t->n_queue++] = (uint32_t)(i * t->width + c);
    return *r = gr_rule_new(g->s->b, NULL, 0);
}

static void fill_rule(parser *g, table *t, walker *w, uint32_t at, uint64_t max) {
    uint32_t i = (uint32_t)(at / t->width), rule = t->rule[at];
    size_t c = at % t->width, n = 0;
    size_t up = t->counts && c + 1 < t->width ? c + 1 : c;
    if (!ok(g)) return;
    g->s->b->rule[rule].defined = true;
    w->mark++;
    for (w->todo[n++] = i, w->seen[i] = w->mark; n && ok(g);) {
        const state *s = &g->st[w->todo[--n]];
        if (s->kind == R_CHAR && (!t->counts || c < max)) {
            gr_elem e[2] = {s->e, gr_call(rule_of(g, t, s->a, up))};
            if (ok(g)) gr_alt_add(g->s->b, rule, e, 2);
        } else if (s->kind == R_MATCH && (!t->counts || c >= t->min)) {
            gr_elem quote = sc_text(g->s, "\"");
            gr_alt_add(g->s->b, rule, &quote, 1);
        }
        uint32_t next[2] = {s->a, s->b};
        for (int k = 0; k < (s->kind == R_EMPTY ? 1 : s->kind == R_SPLIT ? 2 : 0); k++) {
            if (w->seen[next[k]] == w->mark) continue;
            w->seen[next[k]] = w->mark;
            w->todo[n++] = next[k];
        }
    }
}

static uint32_t make_rules(parser *g, uint32_t in, uint64_t min, uint64_t max) {
    table t = {.counts = min > 0 || max != GR_FOREVER, .min = min};
    uint64_t top = max != GR_FOREVER ? max : min;
    t.width = t.counts ? (size_t)top + 1 : 1;
    if (top > 100000 || g->n * t.width > (1u << 22)) return refuse(g, "with its minLength or maxLength it is too large"), 0;
    walker w = {ie_calloc(g->n + 1, sizeof(uint32_t), "pattern", g->s->b->err), ie_calloc(g->n + 1, sizeof(uint32_t), "pattern", g->s->b->err), 0};
    t.rule = ie_calloc(g->n * t.width, sizeof *t.rule, "pattern", g->s->b->err);
    uint32_t first = 0;
    if (w.todo && w.seen && t.rule) {
        memset(t.rule, 0xFF, g->n * t.width * sizeof *t.rule);
        first = rule_of(g, &t, in, 0);
        for (size_t q = 0; q < t.n_queue && ok(g); q++) fill_rule(g, &t, &w, t.queue[q], max);
    } else {
        g->s->b->failed = true;
    }
    free(w.todo);
    free(w.seen);
    free(t.rule);
    free(t.queue);
    return first;
}

gr_elem sc_regex(sc *s, const char *re, size_t len, uint64_t min, uint64_t max) {
    parser *g = ie_calloc(1, sizeof *g, "pattern", s->b->err);
    if (!g) return s->b->failed = true, (gr_elem){0};
    g->s = s, g->re = g->p = re, g->end = re + len;
    g->any = sc_chars(s);
    while (ok(g) && g->p < g->end) item(g);
    if (ok(g) && g->depth) refuse(g, "a group is not closed");
    if (ok(g)) end_sequence(g);
    gr_elem out = {0};
    if (ok(g)) {
        piece all = g->open[0].alt;
        uint32_t match = add(g, (state){.kind = R_MATCH});
        link_to(g, all.out, match);
        gr_elem e[2] = {sc_text(s, "\""), {0}};
        e[1] = gr_call(ok(g) ? make_rules(g, all.in, min, max) : 0);
        out = gr_seq(s->b, e, 2);
    }
    free(g->st);
    free(g->r);
    free(g);
    return out;
}
