/* Numbers: decimal digits between two bounds.
 *
 * A bound is kept as decimal digits. A number is written digit by digit, most significant first; all that matters of the digits so
 * far is whether they equal the lower bound's, the upper bound's, both or neither. Numbers with bounds are written without exponent and
 * with at most 15 digits in all where they have a fraction, so that reading them as doubles cannot carry them over a bound. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schema.h"

#define MAX_DIGITS 60 /* of a bound, on each side of the point */
#define INT_DIGITS 18 /* of an integer without bound */
#define EXACT_DIGITS 15

/* A magnitude: digits before and behind the point, without superfluous zeros ("0" has none before it). */
typedef struct {
    bool set, negative, open; /* open: the bound itself is excluded */
    char digit[2 * MAX_DIGITS + 1];
    int n_int, n_frac;
} bound;

static int at(const bound *b, int i) { return i < b->n_int + b->n_frac ? b->digit[i] - '0' : 0; }
static bool is_zero(const bound *b) { return b->n_int == 0 && b->n_frac == 0; }

/* Digits of a JSON number. False where it has too many. */
static bool digits_of(const json_t *v, bound *out) {
    char text[80];
    if (json_is_integer(v)) {
        snprintf(text, sizeof text, "%lld", (long long)json_integer_value(v));
    } else {
        for (int p = 15; p <= 17; p++) {
            snprintf(text, sizeof text, "%.*e", p - 1, json_real_value(v));
            if (strtod(text, NULL) == json_real_value(v)) break;
        }
    }
    const char *p = text, *e = strchr(text, 'e');
    long exp = e ? strtol(e + 1, NULL, 10) : 0;
    char d[48] = "";
    int n = 0, point = -1;
    out->negative = *p == '-';
    for (; *p && *p != 'e'; p++) {
        if (*p == '.') point = n;
        else if (*p >= '0' && *p <= '9') d[n++] = *p;
    }
    long whole = (point < 0 ? n : point) + exp; /* digits before the point */
    int zeros = 0;
    while (zeros < n && d[zeros] == '0') zeros++;
    while (n > zeros && d[n - 1] == '0') n--;
    if (n == zeros) return out->n_int = out->n_frac = 0, out->negative = false, true;
    whole -= zeros;
    if (whole > MAX_DIGITS || whole < -30) return false;
    int k = 0;
    out->n_int = whole > 0 ? (int)whole : 0;
    for (int i = 0; i < out->n_int; i++) out->digit[k++] = zeros + i < n ? d[zeros + i] : '0';
    for (long i = whole; i < 0; i++) out->digit[k++] = '0';
    for (int i = zeros + out->n_int; i < n; i++) out->digit[k++] = d[i];
    out->n_frac = k - out->n_int;
    return true;
}

static int compare(const bound *a, const bound *b) { /* magnitudes */
    if (a->n_int != b->n_int) return a->n_int < b->n_int ? -1 : 1;
    for (int i = 0; i < a->n_int + a->n_frac || i < b->n_int + b->n_frac; i++)
        if (at(a, i) != at(b, i)) return at(a, i) < at(b, i) ? -1 : 1;
    return 0;
}

/* ---- a range of magnitudes ------------------------------------------------------------------------------------------------------ */

typedef struct {
    sc *s;
    const bound *lo, *hi; /* hi->set false: none */
    int n_int, n_frac;    /* digits of the numbers made now: before the point, at most behind it */
    gr_elem digit;
} maker;

static bool rest_is_zero(const bound *b, int from) {
    for (int i = from; i < b->n_int + b->n_frac; i++)
        if (b->digit[i] != '0') return false;
    return true;
}

/* Whether a number may end when its first i digits equal lo's (tl), hi's (th). */
static bool may_end(const maker *m, int i, bool tl, bool th) {
    if (tl && !(rest_is_zero(m->lo, i) && !m->lo->open)) return false;
    return !th || !rest_is_zero(m->hi, i) || !m->hi->open;
}

static gr_elem digit_range(maker *m, int lo, int hi) {
    gr_range r = {(uint32_t)('0' + lo), (uint32_t)('0' + hi)};
    return gr_class_of(m->s->b, &r, 1, false);
}

/* Digit i and all behind it; next[tl][th]: what follows the digit. lead: a first digit, which is zero only alone. */
static gr_elem digit_rule(maker *m, int i, bool tl, bool th, bool lead, gr_elem next[2][2]) {
    gr_build *b = m->s->b;
    int x = tl ? at(m->lo, i) : 0, y = th ? at(m->hi, i) : 9;
    if (lead && x < 1) x = 1, tl = false;
    uint32_t rule = gr_rule_new(b, NULL, 0);
    if (b->failed) return (gr_elem){0};
    b->rule[rule].defined = true;
    for (int d = x; d <= y;) { /* stretches of digits that go on alike */
        bool l = tl && d == x, h = th && d == y;
        int to = l || h ? d : th ? y - 1 : y;
        gr_elem e[2] = {digit_range(m, d, to), next[l][h]};
        gr_alt_add(b, rule, e, 2);
        d = to + 1;
    }
    return gr_call(rule);
}

/* Numbers of n_int digits before the point; tl: lo has as many, th: hi has as many. */
static gr_elem of_length(maker *m, bool tl, bool th) {
    sc *s = m->s;
    gr_elem next[2][2], now[2][2], none = sc_text(s, ""), never = gr_any_of(s->b, NULL, 0);
    int first = m->n_int, last = m->n_int + m->n_frac;
    for (int i = last; i >= first; i--) { /* behind the point, from the last digit */
        for (int k = 0; k < 4; k++) {
            bool a = k >> 1, h = k & 1;
            gr_elem part[3];
            size_t n = 0;
            if (may_end(m, i, a, h) && i > first) part[n++] = none;
            if (i < last) part[n++] = !a && !h ? gr_repeat(s->b, m->digit, 1, (uint64_t)(last - i)) : digit_rule(m, i, a, h, false, next);
            now[a][h] = n ? gr_any_of(s->b, part, n) : never;
        }
        memcpy(next, now, sizeof next);
    }
    for (int k = 0; k < 4; k++) { /* the point */
        gr_elem dot[2] = {sc_text(s, "."), next[k >> 1][k & 1]}, part[2];
        size_t n = 0;
        if (may_end(m, first, k >> 1, k & 1)) part[n++] = none;
        if (m->n_frac) part[n++] = gr_seq(s->b, dot, 2);
        now[k >> 1][k & 1] = n ? gr_any_of(s->b, part, n) : never;
    }
    memcpy(next, now, sizeof next);
    if (first == 0) { /* 0, or 0.something */
        gr_elem zero[2] = {sc_text(s, "0"), next[tl][th]};
        return gr_seq(s->b, zero, 2);
    }
    for (int i = first - 1; i >= 0; i--) {
        for (int k = 0; k < 4; k++) now[k >> 1][k & 1] = digit_rule(m, i, k >> 1, k & 1, i == 0, next);
        memcpy(next, now, sizeof next);
    }
    return next[tl][th];
}

/* Magnitudes from lo to hi; adds an alternative for each length. */
static void magnitudes(sc *s, const bound *lo, const bound *hi, bool integer, const char *sign, uint32_t rule) {
    gr_range r = {'0', '9'};
    maker m = {.s = s, .lo = lo, .hi = hi, .digit = gr_class_of(s->b, &r, 1, false)};
    int usual = integer ? INT_DIGITS : EXACT_DIGITS, top = hi->set ? hi->n_int : lo->n_int + 1 > usual ? lo->n_int + 1 : usual;
    for (int n = lo->n_int; n <= top && !s->b->failed; n++) {
        m.n_int = n;
        m.n_frac = integer || n > EXACT_DIGITS ? 0 : EXACT_DIGITS - n;
        gr_elem e[2] = {sc_text(s, sign), of_length(&m, n == lo->n_int, hi->set && n == hi->n_int)};
        gr_alt_add(s->b, rule, e, 2);
    }
}

/* ---- keywords ---------------------------------------------------------------------------------------------------------------------- */

/* The tighter of two bounds of one side; side 1: lower. */
static bool read_bound(sc *s, const json_t *flat, int side, bound *out) {
    static const char *const keys[2][2] = {{"maximum", "exclusiveMaximum"}, {"minimum", "exclusiveMinimum"}};
    *out = (bound){0};
    for (int k = 0; k < 2; k++) {
        const json_t *v = json_object_get(flat, keys[side][k]);
        if (!v) continue;
        bound b = {.set = true, .open = k == 1};
        if (!digits_of(v, &b)) {
            sc_fail(s, IE_E_UNSUPPORTED, "keyword '%s' has more than %d digits, which is not supported", keys[side][k], MAX_DIGITS);
            return false;
        }
        int c = !out->set ? 0 : b.negative != out->negative ? (b.negative ? -1 : 1) : b.negative ? compare(out, &b) : compare(&b, out);
        bool tighter = !out->set || (side ? c > 0 : c < 0) || (c == 0 && b.open);
        if (tighter) *out = b;
    }
    return true;
}

static gr_elem between(sc *s, const bound *lo, const bound *hi, bool integer) {
    uint32_t rule = gr_rule_new(s->b, NULL, 0);
    if (s->b->failed) return (gr_elem){0};
    s->b->rule[rule].defined = true;
    bound zero = {.set = true}, above = {.set = true, .open = true}, none = {0};
    if (!hi->set || !hi->negative) { /* 0 and above */
        const bound *from = lo->set && !lo->negative ? lo : &zero;
        if (!hi->set || compare(from, hi) <= 0) magnitudes(s, from, hi->set ? hi : &none, integer, "", rule);
    }
    if (!lo->set || lo->negative) { /* below 0 */
        const bound *from = hi->set && hi->negative ? hi : &above;
        if (!lo->set || compare(from, lo) <= 0) magnitudes(s, from, lo->set ? lo : &none, integer, "-", rule);
    }
    return gr_call(rule);
}

/* Integers divisible by m without bounds: a rule for each remainder of the digits so far. */
static gr_elem multiples(sc *s, uint32_t m, bool negative) {
    gr_build *b = s->b;
    uint32_t first = 0;
    for (uint32_t r = 0; r < m; r++) {
        uint32_t rule = gr_rule_new(b, NULL, 0);
        if (r == 0) first = rule;
    }
    for (uint32_t r = 0; r < m && !b->failed; r++) {
        gr_elem none = sc_text(s, "");
        b->rule[first + r].defined = true;
        if (r == 0) gr_alt_add(b, first, &none, 1);
        for (uint32_t d = 0; d < 10; d++) {
            char text[2] = {(char)('0' + d), 0};
            gr_elem e[2] = {sc_text(s, text), gr_call(first + (r * 10 + d) % m)};
            gr_alt_add(b, first + r, e, 2);
        }
    }
    gr_elem zero = sc_text(s, "0"), some[10], all[3];
    for (uint32_t d = 1; d < 10; d++) {
        char text[2] = {(char)('0' + d), 0};
        gr_elem e[2] = {sc_text(s, text), gr_call(first + d % m)}; // NOLINT(clang-analyzer-core.DivideZero): m > 0
        some[d - 1] = gr_seq(b, e, 2);
    }
    all[0] = zero;
    all[1] = gr_any_of(b, some, 9);
    gr_elem minus[2] = {sc_text(s, "-"), all[1]};
    if (negative) all[2] = gr_seq(b, minus, 2);
    return gr_any_of(b, all, negative ? 3 : 2);
}

static double value_of(const bound *b) {
    double v = 0;
    for (int i = 0; i < b->n_int; i++) v = v * 10 + at(b, i);
    for (int i = b->n_int + b->n_frac - 1; i >= b->n_int; i--) v += at(b, i) * pow(10, b->n_int - 1 - i);
    return b->negative ? -v : v;
}

static gr_elem divisible(sc *s, const json_t *flat, const bound *lo, const bound *hi) {
    double m = json_number_value(json_object_get(flat, "multipleOf"));
    if (!(m >= 1 && m <= 1e9 && m == floor(m))) {
        sc_fail(s, IE_E_UNSUPPORTED, "keyword 'multipleOf' other than whole numbers from 1 to 1000000000 is not supported");
        return (gr_elem){0};
    }
    bool from_zero = lo->set && is_zero(lo);
    if (!hi->set && (!lo->set || (from_zero && !lo->open))) {
        uint32_t k = m <= 1000 ? (uint32_t)m : 0;
        if (k > 0) return multiples(s, k, !lo->set);
    } else if (lo->set && hi->set && fabs(value_of(lo)) < 1e15 && fabs(value_of(hi)) < 1e15) {
        double first = ceil(value_of(lo) / m), last = floor(value_of(hi) / m);
        if (lo->open && first * m <= value_of(lo)) first += 1;
        if (hi->open && last * m >= value_of(hi)) last -= 1;
        if (last - first < 5000) {
            uint32_t rule = gr_rule_new(s->b, NULL, 0);
            if (!s->b->failed) s->b->rule[rule].defined = true;
            for (double k = first; k <= last && !s->b->failed; k += 1) {
                char text[40];
                snprintf(text, sizeof text, "%.0f", k * m + 0.0);
                gr_elem e = sc_text(s, text);
                gr_alt_add(s->b, rule, &e, 1);
            }
            return gr_call(rule);
        }
    }
    sc_fail(s, IE_E_UNSUPPORTED, "keyword 'multipleOf' is supported up to 1000 without bounds or from 0, and between bounds that leave 5000 values");
    return (gr_elem){0};
}

/* JSON's integers and numbers, of a length that cannot run on. */
static void make_numbers(sc *s) {
    gr_build *b = s->b;
    gr_range d19 = {'1', '9'}, d09 = {'0', '9'}, e[] = {{'e', 'e'}, {'E', 'E'}}, sign[] = {{'+', '+'}, {'-', '-'}};
    gr_elem digit = gr_class_of(b, &d09, 1, false), minus = gr_repeat(b, sc_text(s, "-"), 0, 1);
    gr_elem large[2] = {gr_class_of(b, &d19, 1, false), gr_repeat(b, digit, 0, INT_DIGITS - 1)}, some = gr_seq(b, large, 2);
    gr_elem whole[2] = {sc_text(s, "0"), some}, negative[2] = {sc_text(s, "-"), some}, integer[2] = {gr_any_of(b, whole, 2), gr_seq(b, negative, 2)};
    gr_elem frac[2] = {sc_text(s, "."), gr_repeat(b, digit, 1, 17)};
    gr_elem exp[3] = {gr_class_of(b, e, 2, false), gr_repeat(b, gr_class_of(b, sign, 2, false), 0, 1), gr_repeat(b, digit, 1, 2)};
    gr_elem all[4] = {minus, integer[0], gr_repeat(b, gr_seq(b, frac, 2), 0, 1), gr_repeat(b, gr_seq(b, exp, 3), 0, 1)};
    s->integer = gr_any_of(b, integer, 2);
    s->number = gr_seq(b, all, 4);
    s->has_numbers = true;
}

gr_elem sc_number(sc *s, const json_t *flat, bool integer) {
    bound lo, hi;
    const char *format = json_string_value(json_object_get(flat, "format"));
    if (!read_bound(s, flat, 1, &lo) || !read_bound(s, flat, 0, &hi)) return (gr_elem){0};
    if (json_object_get(flat, "multipleOf") && json_number_value(json_object_get(flat, "multipleOf")) != 1) return divisible(s, flat, &lo, &hi);
    integer = integer || json_object_get(flat, "multipleOf");
    bool i32 = format && !strcmp(format, "int32"), i64 = format && !strcmp(format, "int64");
    if (format && !i32 && !i64 && strcmp(format, "float") != 0 && strcmp(format, "double") != 0) {
        sc_fail(s, IE_E_UNSUPPORTED, "keyword 'format' is '%.40s'; supported for numbers are int32, int64, float, double", format);
        return (gr_elem){0};
    }
    if (i32 && lo.set + hi.set < 2) { /* the bounds that the format has, where the schema has none */
        json_t *v = json_integer(INT32_MIN), *w = json_integer(INT32_MAX);
        if (!lo.set) digits_of(v, &lo), lo.set = true;
        if (!hi.set) digits_of(w, &hi), hi.set = true;
        json_decref(v);
        json_decref(w);
    }
    if (!lo.set && !hi.set) {
        if (!s->has_numbers) make_numbers(s);
        return integer ? s->integer : s->number;
    }
    return between(s, &lo, &hi, integer);
}
