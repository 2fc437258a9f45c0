/* Each vector form of the integer core (src/cpu/simd_*.h: every unpacking, dot, conversion and reduction of every SIMD level) against
 * the core's scalar function: on all inputs where these are few, else on 10^6 random ones with edges among them. IE_LAW_RUNS sets another
 * number. Levels that this processor cannot run are named as skipped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "form_inputs.h"
#include "forms.h"

static uint32_t runs;
static const form_table *levels[IE_LEVEL_COUNT];
static uint32_t n_levels;
#define EACH_LEVEL(f) for (const form_table **f##_ = levels, *f; f##_ < levels + n_levels && (f = *f##_); f##_++)

/* ---- words: one function a form -------------------------------------------------------------------------------------------- */

typedef uint32_t ref_word(uint32_t a, uint32_t b, uint32_t c);
#define REF(name, expr) \
    static uint32_t ref_##name(uint32_t a, uint32_t b, uint32_t c) { \
        (void)a, (void)b, (void)c; \
        return (uint32_t)(expr); \
    }
REF(add, a + b)
REF(sub, a - b)
REF(mul, a * b)
REF(and, a & b)
REF(or, a | b)
REF(xor, a ^ b)
REF(maxu, a > b ? a : b)
REF(max, (int32_t)a > (int32_t)b ? a : b)
REF(min, (int32_t)a < (int32_t)b ? a : b)
REF(select_eq, a == b ? c : a)
REF(select_gt, (int32_t)a > (int32_t)b ? c : b)
REF(dot_us, c + (uint32_t)ie_dot4_us(a, b))
REF(dot_ss, c + (uint32_t)ie_dot4_ss(a, b))
REF(f16_lo, ie_f16_f32_bits(ie_half_of(a, 0)))
REF(load_u16, ie_half_of(a, 0))
REF(load_f16, ie_f16_f32_bits(ie_half_of(a, 0)))
REF(store_f16, ie_f32_f16_bits(a))
REF(store_i8, ie_byte_u(a, 0))
REF(from_int, ie_bits_of((float)(int32_t)a))
REF(to_int, (int32_t)rintf(ie_f32_of(a)))
static uint32_t ref_add8(uint32_t a, uint32_t b, uint32_t c) {
    (void)c;
    uint32_t r = 0;
    for (uint32_t k = 0; k < 4; k++) r |= ((ie_byte_u(a, k) + ie_byte_u(b, k)) & 255u) << (8u * k);
    return r;
}
static uint32_t ref_lut16(uint32_t a, uint32_t b, uint32_t c) { /* of the level that biases its bytes; see lut_bias */
    (void)b, (void)c;
    return ie_iq4_bytes_u(a);
}
static ref_word *const refs[FORM_WORD_COUNT] = {
#define ROW(f) [FORM_##f] = ref_##f,
    FORM_WORDS(ROW)
#undef ROW
};
static const char *const word_names[FORM_WORD_COUNT] = {
#define ROW(f) #f,
    FORM_WORDS(ROW)
#undef ROW
};

/* The codebook's bytes are signed where the level's dot takes signed ones. */
static uint32_t lut_bias(const form_table *l, uint32_t w) { return l->bias(IE_F_IQ4_NL) ? w : w ^ 0x80808080u; }

static uint32_t small_float(void) {
    float x = number();
    return ie_bits_of(fabsf(x) < 0x1p31f ? x : 0.5f);
}
/* An input of form f: activations are in range, bytes fit. */
static void word_input(uint32_t f, uint32_t *a, uint32_t *b, uint32_t *c) {
    *a = any(), *b = any(), *c = any();
    switch (f) {
    case FORM_dot_us: case FORM_dot_ss:
        *b = act(), *c = (uint32_t)((int32_t)*c / 4);
        break;
    case FORM_lut16: *a &= 0x0F0F0F0Fu; break;
    case FORM_store_i8: *a = (uint32_t)((int32_t)(*a % 256u) - 128); break;
    case FORM_to_int: *a = rnd() % 4u ? small_float() : ie_bits_of((float)(int32_t)(rnd() % 4001u) * 0.5f - 1000.0f); break; /* ties */
    case FORM_select_eq: case FORM_select_gt:
        if (rnd() % 4u == 0) *b = *a + rnd() % 3u - 1u;
        break;
    default: break;
    }
}
static void word_check(const form_table *l, uint32_t f, const uint32_t *a, const uint32_t *b, const uint32_t *c) {
    uint32_t out[FORM_LANES];
    l->word[f](a, b, c, out);
    for (uint32_t i = 0; i < FORM_LANES; i++) {
        uint32_t want = refs[f](a[i], b[i], c[i]);
        if (f == FORM_lut16) want = lut_bias(l, want);
        if (!same(out[i], want))
            fail_msg("%s, %s: lane %u of 0x%x, 0x%x, 0x%x is 0x%x, not 0x%x", ie_level_name(l->level), word_names[f], i, a[i], b[i], c[i], out[i], want);
    }
}
static void words(void **state) {
    (void)state;
    uint32_t a[FORM_LANES], b[FORM_LANES], c[FORM_LANES];
    for (uint32_t f = 0; f < FORM_WORD_COUNT; f++)
        for (uint32_t i = 0; i < runs; i += FORM_LANES) {
            for (uint32_t l = 0; l < FORM_LANES; l++) word_input(f, a + l, b + l, c + l);
            EACH_LEVEL(t) word_check(t, f, a, b, c);
        }
}

/* All inputs: every pair of a weight byte and an activation in each byte of a word; every half; every four nibbles; every tie of f32 to f16 and
 * its neighbours. */
static void all_words(void **state) {
    (void)state;
    uint32_t a[FORM_LANES], b[FORM_LANES], c[FORM_LANES] = {0};
    for (uint32_t i = 0; i < 4u * 65536u; i += FORM_LANES) {
        for (uint32_t l = 0; l < FORM_LANES; l++) {
            uint32_t at = 8u * ((i + l) / 65536u), s = (i + l) / 256u % 256u;
            a[l] = ((i + l) % 256u) << at, b[l] = (s == 128u ? 0u : s) << at;
        }
        EACH_LEVEL(t) word_check(t, FORM_dot_us, a, b, c), word_check(t, FORM_dot_ss, a, b, c);
    }
    for (uint32_t i = 0; i < 65536u; i += FORM_LANES) {
        for (uint32_t l = 0; l < FORM_LANES; l++) a[l] = (i + l) | rnd() << 16;
        EACH_LEVEL(t) word_check(t, FORM_f16_lo, a, b, c), word_check(t, FORM_load_f16, a, b, c), word_check(t, FORM_load_u16, a, b, c);
        for (uint32_t l = 0; l < FORM_LANES; l++) a[l] = ((i + l) & 15u) | ((i + l) & 0xF0u) << 4 | ((i + l) & 0xF00u) << 8 | ((i + l) & 0xF000u) << 12;
        EACH_LEVEL(t) word_check(t, FORM_lut16, a, b, c);
        for (uint32_t d = 0; d < 3; d++) { /* half-way to the next f16, one above, one below: their f32 differ by 2^13 */
            for (uint32_t l = 0; l < FORM_LANES; l++) a[l] = ie_f16_f32_bits(i + l) + 0x1000u + d - 1u;
            EACH_LEVEL(t) word_check(t, FORM_store_f16, a, b, c);
        }
    }
}

static void shifts(void **state) {
    (void)state;
    static const char *const names[4] = {"left", "right", "right, arithmetic", "left, of one word"};
    uint32_t a[FORM_LANES], out[FORM_LANES];
    for (uint32_t i = 0; i < runs / (FORM_LANES * 32u) + 1u; i++)
        for (uint32_t k = 0; k < 128u; k++) {
            uint32_t kind = k / 32u, n = k % 32u;
            for (uint32_t l = 0; l < FORM_LANES; l++) a[l] = any();
            EACH_LEVEL(t) {
                t->shift(kind, n, a, out);
                for (uint32_t l = 0; l < FORM_LANES; l++) {
                    uint32_t x = kind == 3 ? a[0] : a[l], sign = x >> 31 ? ~(0xFFFFFFFFu >> n) : 0u;
                    uint32_t want = kind == 1 ? x >> n : kind == 2 ? x >> n | sign : x << n;
                    if (out[l] != want) fail_msg("%s, shift %s by %u: 0x%x gives 0x%x", ie_level_name(t->level), names[kind], n, x, out[l]);
                }
            }
        }
}

/* High bits of Q5 and Q3 joined to low ones: all values of the four bits, the others random. */
static void high_bits(void **state) {
    (void)state;
    uint32_t w[FORM_LANES], bits[FORM_LANES], out[FORM_LANES];
    for (uint32_t i = 0; i < runs; i += 8u * FORM_LANES)
        for (uint32_t k = 0; k < 16u; k++) {
            uint32_t j = k % 8u, high = k / 8u;
            for (uint32_t l = 0; l < FORM_LANES; l++) {
                w[l] = rnd() & (high ? 0x0F0F0F0Fu : 0x03030303u);
                bits[l] = (any() & ~(15u << (4u * j))) | l << (4u * j);
            }
            EACH_LEVEL(t) {
                t->or_bits(w, bits, j, high, out);
                for (uint32_t l = 0; l < FORM_LANES; l++)
                    if (out[l] != (w[l] | ie_bit_bytes(bits[l], j) << (high ? 4 : 2)))
                        fail_msg("%s: bits %u of 0x%x to 0x%x give 0x%x", ie_level_name(t->level), j, bits[l], w[l], out[l]);
            }
        }
}

/* Runs of dots: for each largest byte that a format has, half blocks and blocks; among them all bytes largest and all activations at an end. */
static void dot_words(void **state) {
    (void)state;
    static const uint32_t most[8] = {0, 3, 7, 15, 31, 63, 127, 255};
    for (uint32_t i = 0; i < runs; i++)
        for (uint32_t k = 0; k < 2; k++) {
            uint32_t umax = most[i % 8u], n = k ? 8u : 4u, w[8], x[8], ends = rnd() % 8u, one = act();
            for (uint32_t e = 0; e < n; e++) {
                w[e] = any() & umax * 0x01010101u;
                if (!umax) w[e] = any();
                x[e] = act();
                if (ends == 0) w[e] = umax ? umax * 0x01010101u : 0x80808080u, x[e] = i & 1u ? 0x7F7F7F7Fu : 0x81818181u;
                if (ends == 1) x[e] = one;
            }
            int32_t start = (int32_t)any() / 4, dot = umax ? ie_dot_us(w, x, n) : ie_dot_ss(w, x, n);
            EACH_LEVEL(t) {
                uint32_t v[8];
                if (umax > t->max_byte) continue;
                memcpy(v, w, sizeof w);
                /* a level that takes signed bytes with a bias gives it back by the sum of the activations */
                bool biased = !umax && t->bias(IE_F_Q8_0);
                for (uint32_t e = 0; e < n && biased; e++) v[e] ^= 0x80808080u;
                int32_t got = t->dot_words(v, x, n, biased ? 255u : umax, start), want = start + dot;
                if (biased) want -= 128 * ie_q8_nsum(x, n);
                if (got != want) fail_msg("%s: a dot of %u words up to %u is %d, not %d", ie_level_name(t->level), n, umax, got, want);
            }
        }
}

/* ---- lanes ---------------------------------------------------------------------------------------------------------------- */

/* The halving tree of n floats. */
static float float_tree(const float *a, uint32_t n) {
    float v[FORM_LANES];
    memcpy(v, a, n * sizeof *a);
    for (uint32_t s = n / 2u; s > 0; s /= 2u)
        for (uint32_t l = 0; l < s; l++) v[l] = v[l] + v[l + s];
    return v[0];
}

static void reductions(void **state) {
    (void)state;
    for (uint32_t i = 0; i < runs / FORM_LANES + 1u; i++) {
        uint32_t w[FORM_LANES], whole[FORM_LANES];
        float f[8u * FORM_LANES], ints[FORM_LANES];
        for (uint32_t l = 0; l < FORM_LANES; l++) w[l] = any(), whole[l] = rnd() % 1000000u, ints[l] = (float)whole[l];
        for (uint32_t l = 0; l < 8u * FORM_LANES; l++) f[l] = number();
        EACH_LEVEL(t) {
            const char *name = ie_level_name(t->level);
            const uint32_t n = t->lanes;
            uint32_t v[FORM_LANES], top = 0;
            float best = f[0], out[FORM_LANES];
            for (uint32_t l = 0; l < n; l++) top = w[l] > top ? w[l] : top, best = f[l] > best ? f[l] : best;
            memcpy(v, w, sizeof v);
            ie_tree(v, n);
            if ((uint32_t)t->hadd(w) != v[0]) fail_msg("%s: the sum of lanes is 0x%x, not 0x%x", name, (uint32_t)t->hadd(w), v[0]);
            if (t->hmaxu(w) != top) fail_msg("%s: the largest lane is 0x%x, not 0x%x", name, t->hmaxu(w), top);
            memcpy(v, whole, sizeof v);
            ie_tree(v, n); /* exact in f32, too */
            if (t->tree(ints) != (float)v[0]) fail_msg("%s: the tree of whole numbers is %a, not %u", name, (double)t->tree(ints), v[0]);
            if (!same_float(t->tree(f), float_tree(f, n))) fail_msg("%s: the tree of floats is %a, not %a", name, (double)t->tree(f), (double)float_tree(f, n));
            if (!same_float(t->hmax(f), best)) fail_msg("%s: the largest float is %a, not %a", name, (double)t->hmax(f), (double)best);
            t->tree8(f, out); /* lane p: the p-th 8 of the sequence that interleaves the vectors' eights */
            for (uint32_t p = 0; p < n; p++)
                if (!same_float(out[p], float_tree(f + 8u * p, 8))) fail_msg("%s: tree %u of eights is %a", name, p, (double)out[p]);
        }
    }
}

static void moves(void **state) {
    (void)state;
    float a[FORM_LANES], b[FORM_LANES], out[FORM_LANES];
    for (uint32_t l = 0; l < FORM_LANES; l++) a[l] = (float)l, b[l] = (float)(100u + l); /* positions: a move is the same for all values */
    EACH_LEVEL(t) {
        const uint32_t n = t->lanes;
        for (uint32_t m = 0; m < FORM_MOVE_COUNT; m++) {
            t->move[m](a, b, out);
            for (uint32_t l = 0; l < FORM_LANES; l++) {
                uint32_t in = l % n, at = l - in, from = 2u * in + (m == FORM_M_unzip_odd);
                const float pair = from < n ? a[at + from % n] : b[at + from % n];
                float want = m == FORM_M_dup_even ? a[l & ~1u] : m == FORM_M_dup_odd ? a[l | 1u] : m == FORM_M_swap_pairs ? a[l ^ 1u] : pair;
                if (out[l] != want) fail_msg("%s: move %u: lane %u holds %g, not %g", ie_level_name(t->level), m, l, (double)out[l], (double)want);
            }
        }
        t->rep8(a, out);
        for (uint32_t l = 0; l < n; l++) assert_true(out[l] == a[l % 8u]);
        for (uint32_t k = 0; k < n; k++) {
            for (uint32_t l = 0; l < FORM_LANES; l++) out[l] = -1.0f;
            t->first(a, k, out);
            for (uint32_t l = 0; l < FORM_LANES; l++) assert_true(out[l] == (l < k ? a[l] : -1.0f));
        }
    }
}

static void floats(void **state) {
    (void)state;
    static float (*const of[FORM_FLOAT_COUNT])(float) = {
#define ROW(f) [FORM_F_##f] = ie_##f,
        FORM_FLOATS(ROW)
#undef ROW
    };
    float a[FORM_LANES], out[FORM_LANES];
    for (uint32_t i = 0; i < runs; i += FORM_LANES) {
        for (uint32_t l = 0; l < FORM_LANES; l++) a[l] = rnd() % 4u ? number() : ie_f32_of(rnd());
        EACH_LEVEL(t)
        for (uint32_t f = 0; f < FORM_FLOAT_COUNT; f++) {
            t->floats[f](a, out);
            for (uint32_t l = 0; l < FORM_LANES; l++)
                if (!same_float(out[l], of[f](a[l])))
                    fail_msg("%s: float function %u of %a is %a, not %a", ie_level_name(t->level), f, (double)a[l], (double)out[l], (double)of[f](a[l]));
        }
    }
}

/* ---- blocks --------------------------------------------------------------------------------------------------------------- */

/* What the core says of a block of one row: bytes `offset` above the weights' values, scales, and the format's dot. */
typedef struct {
    uint32_t w[8];
    float d, m;
    int32_t s0, s1, m0, m1;
} core_block;

static uint32_t word_at(const uint32_t *unit, uint32_t base, uint32_t w, uint32_t r) { return unit[ie_field_wm(base, w, r)]; }
static float half_at(const uint32_t *unit, uint32_t base, uint32_t r) {
    uint32_t h = ie_field_half(base, 0, r);
    return ie_f32_of(ie_f16_f32_bits(ie_half_of(unit[h / 2u], h % 2u)));
}
static float half(uint32_t w, uint32_t k) { return ie_f32_of(ie_f16_f32_bits(ie_half_of(w, k))); }

/* First words of a block's fields, and whether all of it is one super-block. */
typedef struct {
    uint32_t q, q2, qh, sc, offset;
} core_fields;
static const core_fields fields[IE_F_COUNT] = {
    [IE_F_Q4_0] = {.q = IE_Q4_0_Q, .offset = 8},
    [IE_F_Q4_1] = {.q = IE_Q4_1_Q},
    [IE_F_Q5_0] = {.q = IE_Q5_0_Q, .qh = IE_Q5_0_QH, .offset = 16},
    [IE_F_Q5_1] = {.q = IE_Q5_1_Q, .qh = IE_Q5_1_QH},
    [IE_F_Q8_0] = {.q = IE_Q8_0_Q, .offset = 128},
    [IE_F_Q2_K] = {.q2 = IE_Q2_K_B, .sc = IE_Q2_K_SC},
    [IE_F_Q3_K] = {.q2 = IE_Q3_K_B + 32u, .qh = IE_Q3_K_B, .sc = IE_Q3_K_SC, .offset = 4},
    [IE_F_Q4_K] = {.q = IE_Q4_K_B, .sc = IE_Q4_K_SC},
    [IE_F_Q5_K] = {.q = IE_Q5_K_B + 32u, .qh = IE_Q5_K_B, .sc = IE_Q5_K_SC},
    [IE_F_Q6_K] = {.q = IE_Q6_K_B, .q2 = IE_Q6_K_B + 128u, .sc = IE_Q6_K_SC, .offset = 32},
    [IE_F_IQ4_NL] = {.q = IE_Q4_0_Q, .offset = 128},
    [IE_F_IQ4_XS] = {.q = IE_IQ4_XS_B, .sc = IE_IQ4_XS_SL, .offset = 128},
};
static uint32_t block_words(ie_format_id f) {
    static const uint32_t n[IE_F_COUNT] = {[IE_F_Q2_K] = IE_Q2_K_B_WORDS, [IE_F_Q3_K] = IE_Q3_K_B_WORDS, [IE_F_Q4_K] = IE_Q4_K_B_WORDS,
                                           [IE_F_Q5_K] = IE_Q5_K_B_WORDS, [IE_F_Q6_K] = IE_Q6_K_B_WORDS, [IE_F_IQ4_XS] = IE_IQ4_XS_B_WORDS};
    return n[f];
}

/* The row's words of block b. */
typedef struct {
    uint32_t q[8], q2[2], qh, sc[4];
} core_words;
static core_words words_of(ie_format_id f, const uint32_t *unit, uint32_t b, uint32_t r) {
    const core_fields *c = &fields[f];
    const uint32_t on = b * block_words(f);
    core_words o;
    for (uint32_t k = 0; k < 8; k++) o.q[k] = c->q && (k < 4 || f == IE_F_Q8_0) ? word_at(unit, c->q + on, k, r) : 0;
    for (uint32_t k = 0; k < 2; k++) o.q2[k] = c->q2 ? word_at(unit, c->q2 + on, k, r) : 0;
    for (uint32_t k = 0; k < 4; k++) o.sc[k] = c->sc ? word_at(unit, c->sc, k, r) : 0; /* the fourth may be the next field's */
    o.qh = c->qh ? word_at(unit, c->qh + on, 0, r) : 0;
    return o;
}

static void core_scales(ie_format_id f, const uint32_t *unit, const core_words *c, uint32_t b, uint32_t r, core_block *o) {
    const uint32_t dm = word_at(unit, 0, 0, r);
    switch (f) {
    case IE_F_Q4_1: case IE_F_Q5_1:
        o->d = half(dm, 0), o->m = half(dm, 1);
        break;
    case IE_F_Q2_K:
        o->d = half(dm, 0), o->m = -half(dm, 1);
        o->s0 = (int32_t)ie_q2k_scale(c->sc, 2u * b), o->s1 = (int32_t)ie_q2k_scale(c->sc, 2u * b + 1u);
        o->m0 = (int32_t)ie_q2k_min(c->sc, 2u * b), o->m1 = (int32_t)ie_q2k_min(c->sc, 2u * b + 1u);
        break;
    case IE_F_Q3_K:
        o->d = half_at(unit, 0, r);
        o->s0 = ie_q3k_scale(c->sc, 2u * b), o->s1 = ie_q3k_scale(c->sc, 2u * b + 1u);
        break;
    case IE_F_Q4_K: case IE_F_Q5_K:
        o->d = half(dm, 0) * (float)ie_k4_scale(c->sc, b), o->m = -half(dm, 1) * (float)ie_k4_min(c->sc, b);
        break;
    case IE_F_Q6_K:
        o->d = half_at(unit, 0, r);
        o->s0 = ie_q6k_scale(c->sc, 2u * b), o->s1 = ie_q6k_scale(c->sc, 2u * b + 1u);
        break;
    case IE_F_IQ4_XS: o->d = half(dm, 0) * (float)ie_iq4xs_scale(ie_half_of(dm, 1), c->sc[0], b); break;
    default: o->d = half_at(unit, 0, r); break;
    }
}
static uint32_t core_bytes(ie_format_id f, const core_words *c, uint32_t e) {
    switch (f) {
    case IE_F_Q4_0: case IE_F_Q4_1: case IE_F_Q4_K: return ie_q4_bytes(c->q, e);
    case IE_F_Q5_0: case IE_F_Q5_1: case IE_F_Q5_K: return ie_q5_bytes(c->q, c->qh, e);
    case IE_F_Q8_0: return c->q[e] ^ 0x80808080u;
    case IE_F_IQ4_NL: case IE_F_IQ4_XS: return ie_iq4_bytes_u(ie_q4_bytes(c->q, e));
    case IE_F_Q2_K: return ie_q2_bytes(c->q2, e);
    case IE_F_Q3_K: return ie_q3_bytes(c->q2, c->qh, e);
    default: return ie_q6_bytes(c->q, c->q2, e);
    }
}
static int32_t core_dot(ie_format_id f, const core_words *c, const core_block *k, const uint32_t *x) {
    const int32_t nsum = (int32_t)x[IE_Q8_NSUM], nlo = (int32_t)x[IE_Q8_NLO], nhi = (int32_t)x[IE_Q8_NHI];
    switch (f) {
    case IE_F_Q4_0: return ie_q4_0_dot(c->q, x, nsum);
    case IE_F_Q4_1: case IE_F_Q4_K: return ie_q4_dot(c->q, x);
    case IE_F_Q5_0: return ie_q5_0_dot(c->q, c->qh, x, nsum);
    case IE_F_Q5_1: case IE_F_Q5_K: return ie_q5_dot(c->q, c->qh, x);
    case IE_F_Q8_0: return ie_q8_dot(c->q, x);
    case IE_F_IQ4_NL: case IE_F_IQ4_XS: return ie_iq4_dot(c->q, x, nsum);
    case IE_F_Q2_K: return ie_q2_dot(c->q2, x, k->s0, k->s1);
    case IE_F_Q3_K: return ie_q3_dot(c->q2, c->qh, x, nlo, nhi, k->s0, k->s1);
    default: return ie_q6_dot(c->q, c->q2, x, nlo, nhi, k->s0, k->s1);
    }
}
static core_block core_of(ie_format_id f, const uint32_t *unit, uint32_t b, uint32_t r, core_words *c) {
    core_block o = {.d = 0};
    *c = words_of(f, unit, b, r);
    for (uint32_t e = 0; e < 8; e++) o.w[e] = core_bytes(f, c, e);
    core_scales(f, unit, c, b, r, &o);
    return o;
}

static void q8_random(uint32_t *x) {
    uint32_t same_word = rnd() % 8u == 0, w = act();
    for (uint32_t e = 0; e < 8; e++) x[e] = same_word ? w : act();
    x[IE_Q8_D] = ie_bits_of(1.0f), x[IE_Q8_SA] = 0;
    x[IE_Q8_NSUM] = (uint32_t)ie_q8_nsum(x, 8), x[IE_Q8_NLO] = (uint32_t)ie_q8_nsum(x, 4), x[IE_Q8_NHI] = (uint32_t)ie_q8_nsum(x + 4, 4);
    x[13] = x[14] = x[15] = 0;
}
/* A unit of which a part of the words is at an end; with `one`, all are the same word. */
static void unit_random(uint32_t *unit, uint32_t n) {
    uint32_t r = rnd(), one = any();
    for (uint32_t i = 0; i < n; i++) unit[i] = r % 16u == 0 ? one : any();
}
/* The byte word that a level stores for the core's: `bias` above the values instead of `offset`. */
static uint32_t stored(uint32_t w, uint32_t bias, uint32_t offset) {
    uint32_t more = ((bias ? 1u << bias : 0u) - offset) & 255u;
    return more ? ref_add8(w, more * 0x01010101u, 0) : w;
}

static void block_check(const form_table *t, const ie_format *f, const form_block *o, uint32_t r, const core_block *c, int32_t dot, int32_t mins) {
    const char *name = ie_level_name(t->level);
    for (uint32_t e = 0; e < 8; e++)
        if (o->w[e][r] != stored(c->w[e], t->bias(f->id), fields[f->id].offset))
            fail_msg("%s, %s: word %u of row %u is 0x%x; the core's is 0x%x", name, f->name, e, r, o->w[e][r], c->w[e]);
    if (!same_float(o->d[r], c->d) || !same_float(o->m[r], c->m))
        fail_msg("%s, %s: scales of row %u are %a, %a, not %a, %a", name, f->name, r, (double)o->d[r], (double)o->m[r], (double)c->d, (double)c->m);
    if (o->s0[r] != c->s0 || o->s1[r] != c->s1 || o->n0[r] != -c->m0 || o->n1[r] != -c->m1)
        fail_msg("%s, %s: whole scales of row %u are %d, %d, minimums %d, %d; not %d, %d, %d, %d", name, f->name, r, o->s0[r], o->s1[r], -o->n0[r], -o->n1[r],
                 c->s0, c->s1, c->m0, c->m1);
    if (o->dot[0][r] != dot || o->dot[1][r] != dot)
        fail_msg("%s, %s: the dot of row %u is %d, in two chains %d, not %d", name, f->name, r, o->dot[0][r], o->dot[1][r], dot);
    if (f->dot == IE_DOT2_MIN && o->mins[r] != mins) fail_msg("%s, %s: the minimums of row %u give %d, not %d", name, f->name, r, o->mins[r], mins);
}

static void blocks_of(const ie_format *f) {
    static uint32_t unit[2048];
    static form_block o[IE_LEVEL_COUNT];
    assert_true(f->unit_words <= 2048u);
    EACH_LEVEL(t) assert_int_equal(t->unit_words(f->id), f->unit_words);
    for (uint32_t done = 0; done < runs;) {
        unit_random(unit, f->unit_words);
        for (uint32_t b = 0; b < f->blocks; b++, done += IE_TILE_ROWS) {
            uint32_t x[IE_Q8_WORDS];
            q8_random(x);
            for (uint32_t l = 0; l < n_levels; l++) levels[l]->block(f->id, unit, b, x, &o[l]);
            for (uint32_t r = 0; r < IE_TILE_ROWS; r++) {
                core_words c;
                core_block k = core_of(f->id, unit, b, r, &c);
                int32_t dot = core_dot(f->id, &c, &k, x), mins = ie_q2_mins((int32_t)x[IE_Q8_NLO], (int32_t)x[IE_Q8_NHI], k.m0, k.m1);
                for (uint32_t l = 0; l < n_levels; l++) block_check(levels[l], f, &o[l], r, &k, dot, mins);
            }
        }
    }
}
static void blocks(void **state) {
    (void)state;
    for (uint32_t i = 0; i < IE_F_COUNT; i++)
        if (ie_formats[i].dot != IE_FLOAT) blocks_of(&ie_formats[i]);
}

/* ---- strips: the same through the kernels of many tokens ------------------------------------------------------------------------ */

static void strip_check(const form_table *t, const ie_format *f, const uint32_t *unit, const uint32_t *x, uint32_t which) {
    static float sums[8][FORM_T][32], mins[8][FORM_T][32];
    uint32_t nt, w[8][32];
    assert_true(t->strip(f->id, unit, x, which, &nt, sums, mins));
    for (uint32_t b = 0; b < f->blocks; b++) {
        t->strip_words(f->id, unit, b, w);
        for (uint32_t r = 0; r < IE_TILE_ROWS; r++) {
            core_words c;
            core_block k = core_of(f->id, unit, b, r, &c);
            for (uint32_t e = 0; e < 8; e++)
                if (w[e][r] != stored(k.w[e], t->strip_bias(f->id), fields[f->id].offset))
                    fail_msg("%s, %s, strip: word %u of row %u is 0x%x; the core's is 0x%x", ie_level_name(t->level), f->name, e, r, w[e][r], k.w[e]);
            for (uint32_t i = 0; i < nt; i++) {
                const uint32_t *xi = x + (b * FORM_T + i) * IE_Q8_WORDS;
                int32_t dot = core_dot(f->id, &c, &k, xi), m = ie_q2_mins((int32_t)xi[IE_Q8_NLO], (int32_t)xi[IE_Q8_NHI], k.m0, k.m1);
                if (sums[b][i][r] != (float)dot || (f->dot == IE_DOT2_MIN && mins[b][i][r] != (float)m))
                    fail_msg("%s, %s, kernel of %u tokens: token %u, row %u: dot %g, minimums %g, not %d, %d", ie_level_name(t->level), f->name, nt, i, r,
                             (double)sums[b][i][r], (double)mins[b][i][r], dot, m);
            }
        }
    }
}
static void strips_of(const form_table *t, const ie_format *f) {
    static uint32_t unit[2048], x[8u * FORM_T * IE_Q8_WORDS];
    static float none[8][FORM_T][32];
    uint32_t kernels = 0, nt = 0, tokens = 0;
    while (t->strip(f->id, unit, x, kernels, &nt, none, none)) kernels++, tokens += nt;
    assert_true(kernels > 0);
    for (uint32_t done = 0; done < runs; done += tokens * IE_TILE_ROWS * f->blocks) {
        unit_random(unit, f->unit_words);
        for (uint32_t i = 0; i < 8u * FORM_T; i++) q8_random(x + i * IE_Q8_WORDS);
        for (uint32_t k = 0; k < kernels; k++) strip_check(t, f, unit, x, k);
    }
}
static void strips(void **state) {
    (void)state;
    for (uint32_t i = 0; i < IE_F_COUNT; i++)
        if (ie_formats[i].dot != IE_FLOAT) EACH_LEVEL(t) strips_of(t, &ie_formats[i]);
}

static void elements(void **state) {
    (void)state;
    static uint32_t unit[1024];
    for (uint32_t done = 0; done < runs; done += 1024u)
        for (uint32_t f = IE_F_F32; f <= IE_F_BF16; f++) {
            unit_random(unit, ie_formats[f].unit_words);
            EACH_LEVEL(t)
            for (uint32_t k = 0; k < 32; k++) {
                float out[32];
                t->element((ie_format_id)f, unit, k, out);
                for (uint32_t r = 0; r < 32; r++) {
                    uint32_t h = ie_field_half(0, k, r), half_word = ie_half_of(unit[h / 2u % 512u], h % 2u);
                    uint32_t want = f == IE_F_F32 ? word_at(unit, 0, k, r) : f == IE_F_F16 ? ie_f16_f32_bits(half_word) : ie_bf16_f32_bits(half_word);
                    if (!same(ie_bits_of(out[r]), want)) fail_msg("%s, %s: element %u of row %u is %a", ie_level_name(t->level), ie_formats[f].name, k, r, (double)out[r]);
                }
            }
        }
}

/* ---- Q8 activations --------------------------------------------------------------------------------------------------------- */

/* Of one block: 32 numbers, those from n on zero. */
static void q8_input(float *x, uint32_t n) {
    const uint32_t kind = rnd() % 16u, e = rnd() % 32u;
    const float unit = number();
    for (uint32_t i = 0; i < 32; i++) {
        x[i] = kind == 0 ? ie_f32_of(rnd()) : kind == 1 ? ie_f32_of(rnd() & 0x81FFFFFFu) : kind == 2 ? unit * (float)(rnd() % 3u) : number();
        if (kind == 3) x[i] = (float)((int32_t)(rnd() % 255u) - 127) * 0.5f; /* ties */
        if (i >= n) x[i] = 0;
    }
    if (kind == 4) x[e % n] = ie_f32_of(0x7F800000u | (rnd() & 0x80000001u)); /* infinities and a NaN */
}

/* One to five blocks, of which two are made at once where the level can, the last one perhaps shorter. */
#define Q8_BLOCKS 5u
static void q8(void **state) {
    (void)state;
    for (uint32_t done = 0; done < runs;) {
        float x[Q8_BLOCKS * 32u];
        uint32_t want[Q8_BLOCKS][IE_Q8_WORDS], blocks = 1u + rnd() % Q8_BLOCKS, last = rnd() % 8u ? 32u : 1u + rnd() % 32u, stride = 1u + rnd() % 3u;
        bool fine = true;
        for (uint32_t b = 0; b < blocks; b++) {
            q8_input(x + 32u * b, b + 1u < blocks ? 32u : last);
            fine &= q8_core(x + 32u * b, want[b]);
        }
        EACH_LEVEL(t) {
            uint32_t got[3u * Q8_BLOCKS * IE_Q8_WORDS];
            bool ok = t->q8(x, 32u * (blocks - 1u) + last, got, stride);
            if (ok != fine) fail_msg("%s: %u blocks from %a on: %d", ie_level_name(t->level), blocks, (double)x[0], ok);
            for (uint32_t b = 0; b < blocks; b++)
                for (uint32_t i = 0; i < IE_Q8_WORDS; i++)
                    if (got[b * stride * IE_Q8_WORDS + i] != want[b][i])
                        fail_msg("%s: word %u of Q8 block %u of %u is 0x%x, not 0x%x", ie_level_name(t->level), i, b, blocks, got[b * stride * IE_Q8_WORDS + i], want[b][i]);
        }
        done += 32u * blocks;
    }
}

int main(int argc, char **argv) {
    static const form_table *const all[IE_LEVEL_COUNT] = {&forms_portable, &forms_avx2, &forms_avx512};
    runs = form_runs();
    for (uint32_t i = 0; i < IE_LEVEL_COUNT; i++) {
        if (ie_level_runs(all[i]->level)) levels[n_levels++] = all[i];
        else printf("skip: this processor does not run %s\n", ie_level_name(all[i]->level));
    }
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words),  cmocka_unit_test(all_words), cmocka_unit_test(shifts), cmocka_unit_test(high_bits), cmocka_unit_test(dot_words),
        cmocka_unit_test(reductions), cmocka_unit_test(moves), cmocka_unit_test(floats), cmocka_unit_test(blocks), cmocka_unit_test(strips),
        cmocka_unit_test(elements), cmocka_unit_test(q8),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
