/* Rules under construction: the common form that both languages are translated to. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "grammar.h"

void gr_build_free(gr_build *b) {
    free(b->rule);
    free(b->alt);
    free(b->elem);
    free(b->cls);
    free(b->range);
    free(b->bytes);
    *b = (gr_build){0};
}

void gr_fail(gr_build *b, ie_status code, const char *fmt, ...) {
    if (b->failed) return;
    char text[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    b->failed = true;
    ie_fail(b->err, code, "%s", text);
}

/* Room for n more of an array, within the limit on the grammar's size. */
static bool room(gr_build *b, void *array, size_t *cap, size_t have, size_t n, size_t size) {
    if (b->failed) return false;
    if (n > GR_MAX_PARTS || have + n > GR_MAX_PARTS) {
        gr_fail(b, IE_E_ARG, "grammar: too large; at most %u rules, elements and bytes of literals are allowed", GR_MAX_PARTS);
        return false;
    }
    if (!ie_grow(array, cap, have + n, size, "grammar", b->err)) b->failed = true;
    return !b->failed;
}

static uint32_t put_bytes(gr_build *b, const char *s, size_t n) {
    if (!room(b, &b->bytes, &b->cap_bytes, b->n_bytes, n, 1)) return 0;
    if (n) memcpy(b->bytes + b->n_bytes, s, n);
    b->n_bytes += n;
    return (uint32_t)(b->n_bytes - n);
}

uint32_t gr_rule_new(gr_build *b, const char *name, size_t len) {
    if (!room(b, &b->rule, &b->cap_rule, b->n_rule, 1, sizeof *b->rule)) return 0;
    uint32_t at = name ? put_bytes(b, name, len) : GR_NONE;
    if (b->failed) return 0;
    b->rule[b->n_rule] = (gr_rule){.name = at, .name_len = (uint32_t)len, .first = GR_NONE, .last = GR_NONE};
    return (uint32_t)b->n_rule++;
}

void gr_alt_add(gr_build *b, uint32_t rule, const gr_elem *e, size_t n) {
    if (!room(b, &b->alt, &b->cap_alt, b->n_alt, 1, sizeof *b->alt)) return;
    if (!room(b, &b->elem, &b->cap_elem, b->n_elem, n, sizeof *b->elem)) return;
    if (n) memcpy(b->elem + b->n_elem, e, n * sizeof *e);
    uint32_t at = (uint32_t)b->n_alt++;
    b->alt[at] = (gr_alt){(uint32_t)b->n_elem, (uint32_t)n, GR_NONE};
    b->n_elem += n;
    gr_rule *r = &b->rule[rule];
    if (r->first != GR_NONE) b->alt[r->last].next = at;
    else r->first = at;
    r->last = at;
    r->defined = true;
}

gr_elem gr_lit(gr_build *b, const char *s, size_t n) { return (gr_elem){GR_LIT, false, put_bytes(b, s, n), (uint32_t)n}; }
gr_elem gr_call(uint32_t rule) { return (gr_elem){GR_CALL, false, rule, 0}; }
gr_elem gr_token(int32_t id) { return (gr_elem){GR_TOKEN, false, (uint32_t)id, 0}; }

static int by_lo(const void *pa, const void *pb) {
    const gr_range *a = pa, *b = pb;
    return a->lo < b->lo ? -1 : a->lo > b->lo;
}

static void put_range(gr_build *b, uint32_t lo, uint32_t hi) {
    if (lo > hi || !room(b, &b->range, &b->cap_range, b->n_range, 1, sizeof *b->range)) return;
    b->range[b->n_range++] = (gr_range){lo, hi};
}

/* A range without the surrogates, which UTF-8 does not have. */
static void put_scalar(gr_build *b, uint32_t lo, uint32_t hi) {
    if (lo > hi) return;
    if (hi < 0xD800 || lo > 0xDFFF) {
        put_range(b, lo, hi);
        return;
    }
    if (lo < 0xD800) put_range(b, lo, 0xD7FF);
    if (hi > 0xDFFF) put_range(b, 0xE000, hi);
}

/* The same class again, among the first ones, which is where a grammar's common classes are. */
static uint32_t find_class(const gr_build *b, gr_class c) {
    for (uint32_t i = 0; i < b->n_cls && i < 256; i++)
        if (b->cls[i].n == c.n && c.n && !memcmp(b->range + b->cls[i].first, b->range + c.first, c.n * sizeof *b->range)) return i;
    return GR_NONE;
}

gr_elem gr_class_of(gr_build *b, gr_range *r, size_t n, bool negated) {
    gr_class c = {(uint32_t)b->n_range, 0};
    if (n) qsort(r, n, sizeof *r, by_lo);
    uint32_t from = 0; /* the first code point that is not covered yet */
    for (size_t i = 0; i < n;) {
        uint32_t lo = r[i].lo, hi = r[i].hi;
        for (i++; i < n && r[i].lo <= hi + 1; i++)
            if (r[i].hi > hi) hi = r[i].hi;
        if (!negated) put_scalar(b, lo, hi);
        else if (lo > from) put_scalar(b, from, lo - 1);
        from = hi + 1;
    }
    if (negated) put_scalar(b, from, 0x10FFFF);
    if (b->failed) return (gr_elem){0};
    c.n = (uint32_t)(b->n_range - c.first);
    uint32_t same = find_class(b, c);
    if (same != GR_NONE) {
        b->n_range = c.first;
        return (gr_elem){GR_CLASS, false, same, 0};
    }
    if (!room(b, &b->cls, &b->cap_cls, b->n_cls, 1, sizeof *b->cls)) return (gr_elem){0};
    b->cls[b->n_cls] = c;
    return (gr_elem){GR_CLASS, false, (uint32_t)b->n_cls++, 0};
}

gr_elem gr_any_of(gr_build *b, const gr_elem *e, size_t n) {
    uint32_t rule = gr_rule_new(b, NULL, 0);
    for (size_t i = 0; i < n; i++) gr_alt_add(b, rule, &e[i], 1);
    if (n == 0 && !b->failed) b->rule[rule].defined = true; /* matches nothing at all */
    return gr_call(rule);
}

gr_elem gr_seq(gr_build *b, const gr_elem *e, size_t n) {
    uint32_t rule = gr_rule_new(b, NULL, 0);
    gr_alt_add(b, rule, e, n);
    return gr_call(rule);
}

/* exactly[i] = e repeated 2^i times, made as far as needed. */
typedef struct {
    gr_elem exactly[64];
    int n;
} powers;

static gr_elem power(gr_build *b, powers *p, int i) {
    for (; p->n <= i; p->n++) {
        gr_elem half[2] = {p->exactly[p->n - 1], p->exactly[p->n - 1]};
        p->exactly[p->n] = gr_seq(b, half, 2);
    }
    return p->exactly[i];
}

/* e{0,n}: with h the largest power of two in n, either h of them and up to n - h more, or up to h - 1. No count is made in two
 * ways, and the places that a text can be at are O(log n). */
static gr_elem up_to(gr_build *b, powers *p, uint64_t n) {
    gr_elem below[64] = {gr_lit(b, "", 0)}; /* below[i]: e{0, 2^i - 1} */
    int top = 0;
    while (top < 63 && n >> (top + 1)) top++;
    for (int i = 1; i <= top; i++) {
        gr_elem two[2] = {power(b, p, i - 1), below[i - 1]};
        uint32_t rule = gr_rule_new(b, NULL, 0);
        gr_alt_add(b, rule, two, 2);
        gr_alt_add(b, rule, &below[i - 1], 1);
        below[i] = gr_call(rule);
    }
    gr_elem out = below[0]; /* e{0, the bits of n seen so far} */
    for (int i = 0; i <= top; i++) {
        if (!(n >> i & 1)) continue;
        gr_elem two[2] = {power(b, p, i), out};
        uint32_t rule = gr_rule_new(b, NULL, 0);
        gr_alt_add(b, rule, two, 2);
        gr_alt_add(b, rule, &below[i], 1);
        out = gr_call(rule);
    }
    return out;
}

gr_elem gr_repeat(gr_build *b, gr_elem e, uint64_t min, uint64_t max) {
    powers p = {{e}, 1};
    gr_elem part[66];
    size_t n = 0;
    if (min == 1 && max == 1) return e;
    for (int i = 0; i < 64 && min >> i; i++)
        if (min >> i & 1) part[n++] = power(b, &p, i);
    if (max == GR_FOREVER) {
        uint32_t loop = gr_rule_new(b, NULL, 0);
        if (e.kind != GR_CALL) e = gr_seq(b, &e, 1);
        e.again = true;
        gr_elem two[2] = {e, gr_call(loop)};
        gr_alt_add(b, loop, two, 2);
        gr_alt_add(b, loop, NULL, 0);
        part[n++] = gr_call(loop);
    } else if (max > min) {
        part[n++] = up_to(b, &p, max - min);
    }
    return n == 1 ? part[0] : gr_seq(b, part, n);
}
