/* The matrix kernels against a scalar reference written from quant/quant.h (integers by block, fmaf in order), bit for bit:
 * every format, shapes with tails, T from 1 to 512, any split of the rows, each SIMD level that runs here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/mm.h"

#define BASE_T 33u /* different tokens; larger batches repeat them */

static const ie_format fmts[] = {
    {.id = IE_F_F32, .name = "F32", .dot = IE_FLOAT, .blocks = 1, .unit_words = 1024},
    {.id = IE_F_F16, .name = "F16", .dot = IE_FLOAT, .blocks = 1, .unit_words = 512},
    {.id = IE_F_BF16, .name = "BF16", .dot = IE_FLOAT, .blocks = 1, .unit_words = 512},
    {.id = IE_F_Q4_0, .name = "Q4_0", .dot = IE_DOT, .blocks = 1, .unit_words = 16 + 4 * 32},
    {.id = IE_F_Q4_1, .name = "Q4_1", .dot = IE_DOT_MIN, .blocks = 1, .unit_words = 5 * 32},
    {.id = IE_F_Q5_0, .name = "Q5_0", .dot = IE_DOT, .blocks = 1, .unit_words = 16 + 5 * 32},
    {.id = IE_F_Q5_1, .name = "Q5_1", .dot = IE_DOT_MIN, .blocks = 1, .unit_words = 6 * 32},
    {.id = IE_F_Q8_0, .name = "Q8_0", .dot = IE_DOT, .blocks = 1, .unit_words = 16 + 8 * 32},
    {.id = IE_F_Q2_K, .name = "Q2_K", .dot = IE_DOT2_MIN, .blocks = 8, .unit_words = 5 * 32 + 16 * 32},
    {.id = IE_F_Q3_K, .name = "Q3_K", .dot = IE_DOT2, .blocks = 8, .unit_words = 16 + 3 * 32 + 24 * 32},
    {.id = IE_F_Q4_K, .name = "Q4_K", .dot = IE_DOT_MIN, .blocks = 8, .unit_words = 4 * 32 + 32 * 32},
    {.id = IE_F_Q5_K, .name = "Q5_K", .dot = IE_DOT_MIN, .blocks = 8, .unit_words = 4 * 32 + 40 * 32},
    {.id = IE_F_Q6_K, .name = "Q6_K", .dot = IE_DOT2, .blocks = 8, .unit_words = 16 + 4 * 32 + 48 * 32},
    {.id = IE_F_IQ4_NL, .name = "IQ4_NL", .dot = IE_DOT, .blocks = 1, .unit_words = 16 + 4 * 32},
    {.id = IE_F_IQ4_XS, .name = "IQ4_XS", .dot = IE_DOT, .blocks = 8, .unit_words = 2 * 32 + 32 * 32},
};
#define N_FMTS (sizeof fmts / sizeof fmts[0])

static uint64_t rng = 88172645463325252ull;
static uint32_t rnd(void) {
    rng ^= rng << 13;
    rng ^= rng >> 7;
    rng ^= rng << 17;
    return (uint32_t)(rng >> 24);
}
static float rnd_float(void) { return ((float)(rnd() & 0xFFFFFFu) - 8388608.0f) / 4194304.0f; }

static float bits_float(uint32_t u) {
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}
static uint32_t float_bits(float f) {
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}
static float half_float(uint32_t h) {
    const uint32_t e = h >> 10 & 31u, m = h & 1023u;
    const float v = e ? ldexpf((float)(1024u + m), (int)e - 25) : ldexpf((float)m, -24);
    return h & 0x8000u ? -v : v;
}
static uint32_t rnd_half(void) { return rnd() % 0x7C00u | (rnd() & 1u) << 15; } /* any finite one */
static uint32_t small_half(void) { return 0x1800u + rnd() % 0x1400u + ((rnd() & 1u) << 15); }

static void *alloc(size_t bytes) {
    void *p = aligned_alloc(64, (bytes + 63u) / 64u * 64u);
    assert_non_null(p);
    return p;
}

/* ---- one block of one row, decoded by the layouts of quant.h ------------------------------------------------------- */

typedef struct {
    int32_t w[32], s0, s1, m0, m1;
    float d, m;
} block;

static uint32_t byte_of(const uint32_t *unit, uint32_t base, uint32_t i, uint32_t r) {
    return unit[ie_field_wm(base, i / 4u, r)] >> i % 4u * 8u & 255u;
}
static uint32_t half_of(const uint32_t *unit, uint32_t r) { return unit[r / 2u] >> r % 2u * 16u & 0xFFFFu; }
static uint32_t nibble(const uint32_t *unit, uint32_t base, uint32_t i, uint32_t r) {
    return byte_of(unit, base, i % 16u, r) >> i / 16u * 4u & 15u;
}
static uint32_t pair(const uint32_t *unit, uint32_t base, uint32_t i, uint32_t r) {
    return byte_of(unit, base, i % 8u, r) >> i / 8u * 2u & 3u;
}
static uint32_t bit(const uint32_t *unit, uint32_t base, uint32_t i, uint32_t r) {
    return unit[ie_field_wm(base, 0, r)] >> i & 1u;
}
static const int8_t iq4[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

/* Scale and minimum j of the 12 packed bytes of Q4_K and Q5_K. */
static void scale_min(const uint32_t *unit, uint32_t j, uint32_t r, uint32_t *sc, uint32_t *mn) {
#define S(i) byte_of(unit, 32, (i), r)
    if (j < 4) {
        *sc = S(j) & 63u;
        *mn = S(j + 4) & 63u;
    } else {
        *sc = (S(j + 4) & 15u) | (S(j - 4) >> 6) << 4;
        *mn = S(j + 4) >> 4 | (S(j) >> 6) << 4;
    }
}
static int32_t scale_q3(const uint32_t *unit, uint32_t j, uint32_t r) {
    const uint32_t lo = byte_of(unit, 16, j % 8u, r) >> j / 8u * 4u & 15u;
    const uint32_t hi = byte_of(unit, 16, 8u + j % 4u, r) >> j / 4u * 2u & 3u;
    return (int32_t)(lo | hi << 4) - 32;
}

static void decode(const ie_format *f, const uint32_t *unit, uint32_t b, uint32_t r, block *o) {
    const uint32_t dm = unit[r];
    uint32_t sc, mn;
    memset(o, 0, sizeof *o);
    o->d = half_float(half_of(unit, r));
    for (uint32_t i = 0; i < 32; i++) {
        switch (f->id) {
        case IE_F_Q4_0: o->w[i] = (int32_t)nibble(unit, 16, i, r) - 8; break;
        case IE_F_Q4_1: o->w[i] = (int32_t)nibble(unit, 32, i, r); break;
        case IE_F_Q5_0: o->w[i] = (int32_t)(nibble(unit, 48, i, r) | bit(unit, 16, i, r) << 4) - 16; break;
        case IE_F_Q5_1: o->w[i] = (int32_t)(nibble(unit, 64, i, r) | bit(unit, 32, i, r) << 4); break;
        case IE_F_Q8_0: o->w[i] = (int8_t)byte_of(unit, 16, i, r); break;
        case IE_F_IQ4_NL: o->w[i] = iq4[nibble(unit, 16, i, r)]; break;
        case IE_F_Q2_K: o->w[i] = (int32_t)pair(unit, 160 + b * 64, i, r); break;
        case IE_F_Q3_K: o->w[i] = (int32_t)(pair(unit, 112 + b * 96 + 32, i, r) | bit(unit, 112 + b * 96, i, r) << 2) - 4; break;
        case IE_F_Q4_K: o->w[i] = (int32_t)nibble(unit, 128 + b * 128, i, r); break;
        case IE_F_Q5_K: o->w[i] = (int32_t)(nibble(unit, 128 + b * 160 + 32, i, r) | bit(unit, 128 + b * 160, i, r) << 4); break;
        case IE_F_Q6_K:
            o->w[i] = (int32_t)(nibble(unit, 144 + b * 192, i, r) | pair(unit, 144 + b * 192 + 128, i, r) << 4) - 32;
            break;
        case IE_F_IQ4_XS: o->w[i] = iq4[nibble(unit, 64 + b * 128, i, r)]; break;
        default: fail();
        }
    }
    switch (f->id) {
    case IE_F_Q4_1: case IE_F_Q5_1:
        o->d = half_float(dm & 0xFFFFu);
        o->m = half_float(dm >> 16);
        break;
    case IE_F_Q2_K:
        o->d = half_float(dm & 0xFFFFu);
        o->m = -half_float(dm >> 16);
        o->s0 = (int32_t)(byte_of(unit, 32, 2 * b, r) & 15u);
        o->s1 = (int32_t)(byte_of(unit, 32, 2 * b + 1, r) & 15u);
        o->m0 = (int32_t)(byte_of(unit, 32, 2 * b, r) >> 4);
        o->m1 = (int32_t)(byte_of(unit, 32, 2 * b + 1, r) >> 4);
        break;
    case IE_F_Q3_K:
        o->s0 = scale_q3(unit, 2 * b, r);
        o->s1 = scale_q3(unit, 2 * b + 1, r);
        break;
    case IE_F_Q4_K: case IE_F_Q5_K:
        scale_min(unit, b, r, &sc, &mn);
        o->d = half_float(dm & 0xFFFFu) * (float)sc;
        o->m = -(half_float(dm >> 16) * (float)mn);
        break;
    case IE_F_Q6_K:
        o->s0 = (int8_t)byte_of(unit, 16, 2 * b, r);
        o->s1 = (int8_t)byte_of(unit, 16, 2 * b + 1, r);
        break;
    case IE_F_IQ4_XS: {
        const uint32_t lo = unit[ie_field_wm(32, 0, r)] >> 4 * b & 15u, hi = dm >> (16 + 2 * b) & 3u;
        o->d = half_float(dm & 0xFFFFu) * (float)((int32_t)(lo | hi << 4) - 32);
        break;
    }
    default: break;
    }
}

/* ---- the reference -------------------------------------------------------------------------------------------------- */

static float add_block(const ie_format *f, const block *w, const uint32_t *x, float acc) {
    const int8_t *q = (const int8_t *)x;
    const float da = bits_float(x[IE_Q8_D]), sa = bits_float(x[IE_Q8_SA]);
    int32_t lo = 0, hi = 0, sum_lo = 0, sum_hi = 0;
    for (uint32_t i = 0; i < 16; i++) {
        lo += w->w[i] * q[i];
        hi += w->w[i + 16] * q[i + 16];
        sum_lo += q[i];
        sum_hi += q[i + 16];
    }
    const bool two = f->dot == IE_DOT2 || f->dot == IE_DOT2_MIN;
    const int32_t dot = two ? w->s0 * lo + w->s1 * hi : lo + hi;
    const float dd = w->d * da, md = w->m * da;
    acc = fmaf(dd, (float)dot, acc);
    if (f->dot == IE_DOT_MIN) acc = fmaf(w->m, sa, acc);
    if (f->dot == IE_DOT2_MIN) acc = fmaf(md, (float)(w->m0 * sum_lo + w->m1 * sum_hi), acc);
    return acc;
}

static float weight_float(const ie_format *f, const uint32_t *unit, uint32_t k, uint32_t r) {
    if (f->id == IE_F_F32) return bits_float(unit[ie_field_wm(0, k, r)]);
    const uint32_t i = ie_field_half(0, k, r), h = unit[i / 2u] >> i % 2u * 16u & 0xFFFFu;
    return f->id == IE_F_F16 ? half_float(h) : bits_float(h << 16);
}

typedef struct {
    const ie_format *fmt;
    uint32_t rows, k, nblk;
    uint32_t *w;
    uint32_t *q8; /* BASE_T tokens, each alone (group 1) */
    float *x;     /* BASE_T rows of k floats */
    float *bias, *res;
    float *sum; /* [BASE_T][rows]: the reference's sums */
} problem;

static void reference(problem *p) {
    const ie_format *f = p->fmt;
    const uint32_t nseg = ie_nseg(p->nblk), nsb = p->nblk / f->blocks;
    float *acc = alloc(BASE_T * sizeof *acc), *tot = alloc(BASE_T * sizeof *tot);
    for (uint32_t row = 0; row < p->rows; row++) {
        const uint32_t r = row % 32u;
        for (uint32_t s = 0; s < nseg; s++) {
            for (uint32_t t = 0; t < BASE_T; t++) acc[t] = 0.0f;
            for (uint32_t b = ie_seg_begin(s, p->nblk); b < ie_seg_begin(s + 1, p->nblk); b++) {
                const uint32_t *unit = p->w + (size_t)ie_unit(row / 32u, b / f->blocks, nsb) * f->unit_words;
                block wb = {0};
                if (f->dot != IE_FLOAT) decode(f, unit, b % f->blocks, r, &wb);
                for (uint32_t t = 0; t < BASE_T; t++) {
                    if (f->dot != IE_FLOAT) {
                        acc[t] = add_block(f, &wb, p->q8 + ((size_t)t * p->nblk + b) * 16u, acc[t]);
                        continue;
                    }
                    for (uint32_t i = 0; i < 32 && b * 32u + i < p->k; i++)
                        acc[t] = fmaf(weight_float(f, unit, i, r), p->x[(size_t)t * p->k + b * 32u + i], acc[t]);
                }
            }
            for (uint32_t t = 0; t < BASE_T; t++) tot[t] = s ? tot[t] + acc[t] : acc[t];
        }
        for (uint32_t t = 0; t < BASE_T; t++) p->sum[(size_t)t * p->rows + row] = tot[t];
    }
    free(acc);
    free(tot);
}

/* Random words everywhere, then scales that keep sums finite and of like size (mild) or any finite f16 (wild). */
static void fill_units(problem *p, bool wild) {
    const ie_format *f = p->fmt;
    const size_t units = (size_t)ie_ntiles(p->rows) * (p->nblk / f->blocks);
    for (size_t u = 0; u < units; u++) {
        uint32_t *unit = p->w + u * f->unit_words;
        for (uint32_t i = 0; i < f->unit_words; i++) unit[i] = rnd();
        for (uint32_t r = 0; r < 32; r++) {
            const uint32_t d = wild ? rnd_half() : small_half(), m = wild ? rnd_half() : small_half();
            if (f->id == IE_F_Q4_1 || f->id == IE_F_Q5_1 || f->id == IE_F_Q2_K || f->id == IE_F_Q4_K || f->id == IE_F_Q5_K)
                unit[r] = d | m << 16;
            else if (f->id == IE_F_IQ4_XS)
                unit[r] = d | (rnd() & 0xFFFFu) << 16;
            else if (f->dot != IE_FLOAT)
                unit[r / 2u] = r % 2u ? (unit[r / 2u] & 0xFFFFu) | d << 16 : d;
        }
        if (f->id == IE_F_F32)
            for (uint32_t i = 0; i < 1024; i++) unit[i] = float_bits(rnd_float());
        if (f->id == IE_F_F16)
            for (uint32_t i = 0; i < 512; i++) unit[i] = small_half() | small_half() << 16;
        if (f->id == IE_F_BF16)
            for (uint32_t i = 0; i < 512; i++) unit[i] = (float_bits(rnd_float()) & 0xFFFF0000u) | float_bits(rnd_float()) >> 16;
    }
}

static void fill_q8(problem *p) {
    for (size_t b = 0; b < (size_t)BASE_T * p->nblk; b++) {
        uint32_t *x = p->q8 + b * 16u;
        int8_t *q = (int8_t *)x;
        const uint32_t mode = rnd() % 8u; /* now and then all bytes at one end */
        int32_t lo = 0, hi = 0;
        memset(x, 0, 64);
        for (uint32_t i = 0; i < 32; i++) {
            q[i] = (int8_t)(mode == 0 ? 127 : mode == 1 ? -127 : (int32_t)(rnd() % 255u) - 127);
            *(i < 16 ? &lo : &hi) += q[i];
        }
        const float d = mode == 2 ? 0.0f : (rnd_float() + 2.5f) / 127.0f;
        x[IE_Q8_D] = float_bits(d);
        x[IE_Q8_SA] = float_bits(d * (float)(lo + hi));
        x[IE_Q8_NSUM] = (uint32_t)-(lo + hi);
        x[IE_Q8_NLO] = (uint32_t)-lo;
        x[IE_Q8_NHI] = (uint32_t)-hi;
    }
}

static void problem_make(problem *p, const ie_format *f, uint32_t rows, uint32_t k, bool wild) {
    *p = (problem){.fmt = f, .rows = rows, .k = k, .nblk = ie_nblk(k)};
    p->w = alloc((size_t)ie_ntiles(rows) * (p->nblk / f->blocks) * f->unit_words * 4u);
    p->q8 = alloc((size_t)BASE_T * p->nblk * 64u);
    p->x = alloc((size_t)BASE_T * k * 4u);
    p->bias = alloc(rows * 4u);
    p->res = alloc((size_t)BASE_T * rows * 4u);
    p->sum = alloc((size_t)BASE_T * rows * 4u);
    fill_units(p, wild);
    fill_q8(p);
    for (size_t i = 0; i < (size_t)BASE_T * k; i++) p->x[i] = rnd_float();
    for (size_t i = 0; i < rows; i++) p->bias[i] = rnd_float();
    for (size_t i = 0; i < (size_t)BASE_T * rows; i++) p->res[i] = rnd_float();
    reference(p);
}
static void problem_free(problem *p) {
    free(p->w);
    free(p->q8);
    free(p->x);
    free(p->bias);
    free(p->res);
    free(p->sum);
}

/* ---- a run of the kernels ------------------------------------------------------------------------------------------- */

enum { WITH_BIAS = 1, WITH_RES = 2, IN_PLACE = 4 };
#define GUARD 0x7FC0BEEFu /* a NaN that nothing computes */

static void check(const problem *p, const ie_mm_table *mm, uint32_t t_total, uint32_t how, uint32_t split) {
    const uint32_t y_ld = p->rows + 3u, x_ld = (p->k + 31u) / 32u * 32u, g = ie_q8_group(t_total);
    const ie_mat mat = {.fmt = p->fmt, .rows = p->rows, .cols = p->k, .name = "m"};
    const bool is_float = p->fmt->dot == IE_FLOAT;
    uint32_t *y = alloc((size_t)t_total * y_ld * 4u), *x;
    float *res = alloc((size_t)t_total * p->rows * 4u);
    if (is_float) {
        x = alloc((size_t)t_total * x_ld * 4u);
        for (size_t i = 0; i < (size_t)t_total * x_ld; i++) x[i] = GUARD;
        for (uint32_t t = 0; t < t_total; t++) memcpy(x + (size_t)t * x_ld, p->x + (size_t)(t % BASE_T) * p->k, p->k * 4u);
    } else {
        const size_t words = (size_t)ie_q8_blocks(t_total, p->nblk) * 16u;
        x = alloc(words * 4u);
        for (size_t i = 0; i < words; i++) x[i] = rnd();
        for (uint32_t t = 0; t < t_total; t++)
            for (uint32_t b = 0; b < p->nblk; b++)
                memcpy(x + (size_t)ie_q8_at(t, b, p->nblk, g) * 16u, p->q8 + ((size_t)(t % BASE_T) * p->nblk + b) * 16u, 64);
    }
    for (size_t i = 0; i < (size_t)t_total * y_ld; i++) y[i] = GUARD;
    for (uint32_t t = 0; t < t_total; t++) {
        memcpy(res + (size_t)t * p->rows, p->res + (size_t)(t % BASE_T) * p->rows, p->rows * 4u);
        if (how & IN_PLACE) memcpy(y + (size_t)t * y_ld, p->res + (size_t)(t % BASE_T) * p->rows, p->rows * 4u);
    }
    ie_mm_args a = {.mat = &mat, .w = p->w, .x = x, .x_ld = x_ld, .t = t_total, .y = (float *)(void *)y, .y_ld = y_ld};
    if (how & WITH_BIAS) a.bias = p->bias;
    if (how & WITH_RES) {
        a.res = how & IN_PLACE ? a.y : res;
        a.res_ld = how & IN_PLACE ? y_ld : p->rows;
    }
    if (split == 0 || split >= p->rows) {
        mm->mm(&a, 0, p->rows);
    } else { /* pieces of `split` rows, the last first */
        uint32_t row = (p->rows - 1u) / split * split, end = p->rows;
        for (;; end = row, row -= split) {
            mm->mm(&a, row, end);
            if (row == 0) break;
        }
    }
    for (uint32_t t = 0; t < t_total; t++) {
        const size_t at = (size_t)(t % BASE_T) * p->rows;
        for (uint32_t r = 0; r < y_ld; r++) {
            const uint32_t got = y[(size_t)t * y_ld + r];
            uint32_t want = GUARD;
            if (r < p->rows) {
                float v = p->sum[at + r];
                if (how & WITH_BIAS) v = v + p->bias[r];
                if (how & WITH_RES) v = p->res[at + r] + v;
                want = float_bits(v);
            }
            if (got != want)
                fail_msg("%s %s %u x %u, T %u, how %u, split %u: token %u row %u is %08x (%g), not %08x (%g)", p->fmt->name,
                         ie_level_name(mm->level), p->rows, p->k, t_total, how, split, t, r, got, (double)bits_float(got), want,
                         (double)bits_float(want));
        }
    }
    free(x);
    free(y);
    free(res);
}

static void check_levels(const problem *p, uint32_t t_total, uint32_t how, uint32_t split) {
    for (int l = 0; l < IE_LEVEL_COUNT; l++)
        if (ie_level_runs((ie_level)l)) check(p, ie_mm_of((ie_level)l), t_total, how, split);
}

/* ---- tests ---------------------------------------------------------------------------------------------------------- */

static void test_shapes(void **state) {
    (void)state;
    static const struct { uint32_t rows, k, k_float; } shapes[] = {
        {1, 32, 1}, {31, 64, 70}, {33, 576, 576}, {576, 256, 100}, {48, 4864, 1000}, {17, 4352, 2500}};
    static const uint32_t ts[] = {1, 2, 3, 5, 8, 15, 16, 17, 33};
    for (size_t f = 0; f < N_FMTS; f++) {
        const uint32_t unit = fmts[f].blocks * 32u;
        for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
            problem p;
            const uint32_t k = fmts[f].dot == IE_FLOAT ? shapes[s].k_float : (shapes[s].k + unit - 1u) / unit * unit;
            problem_make(&p, &fmts[f], shapes[s].rows, k, false);
            for (size_t i = 0; i < sizeof ts / sizeof ts[0]; i++)
                check_levels(&p, ts[i], (uint32_t)(i + s) % 8u, i % 3u == 0 ? 0 : i % 3u == 1 ? 16 : 48);
            problem_free(&p);
        }
    }
}

static void test_every_t(void **state) {
    (void)state;
    for (size_t f = 0; f < N_FMTS; f++) {
        problem p;
        problem_make(&p, &fmts[f], 40, 512, false);
        for (uint32_t t = 1; t <= 34; t++) check_levels(&p, t, WITH_BIAS | WITH_RES, t % 2u ? 0 : 16);
        problem_free(&p);
    }
}

/* Any scales at all: sums overflow to infinities and cancel to NaNs in the same places. NaN bits differ between processors,
 * so only rows without NaN are compared: d is kept finite, and f16 times activations cannot reach f32's infinity. */
static void test_wild_scales(void **state) {
    (void)state;
    for (size_t f = 0; f < N_FMTS; f++) {
        if (fmts[f].dot == IE_FLOAT) continue;
        problem p;
        problem_make(&p, &fmts[f], 64, 1024, true);
        check_levels(&p, 1, 0, 0);
        check_levels(&p, 7, WITH_RES, 32);
        check_levels(&p, 33, 0, 0);
        problem_free(&p);
    }
}

static void test_long_segments(void **state) {
    (void)state;
    for (size_t f = 0; f < N_FMTS; f++) {
        problem p;
        problem_make(&p, &fmts[f], 20, 16384 + 256, false); /* segments of 32 and of 40 blocks */
        check_levels(&p, 1, 0, 0);
        check_levels(&p, 4, 0, 0);
        check_levels(&p, 20, WITH_RES | IN_PLACE, 16);
        problem_free(&p);
    }
    problem p;
    problem_make(&p, &fmts[3], 2, IE_MAX_K, false);
    check_levels(&p, 1, 0, 0);
    check_levels(&p, 18, 0, 0);
    problem_free(&p);
}

static void test_prefill(void **state) {
    (void)state;
    for (size_t f = 0; f < N_FMTS; f++) {
        problem p;
        problem_make(&p, &fmts[f], 33, 768, false);
        check_levels(&p, IE_MAX_T, WITH_BIAS, 0);
        check_levels(&p, 300, WITH_RES, 16);
        problem_free(&p);
    }
}

/* ---- Q8 --------------------------------------------------------------------------------------------------------------- */

static bool q8_reference(const float *x, uint32_t n, uint32_t *o) {
    float amax = 0, v[32] = {0};
    int32_t lo = 0, hi = 0;
    memset(o, 0, 64);
    memcpy(v, x, n * 4u);
    for (uint32_t i = 0; i < n; i++) {
        if (!isfinite(v[i])) return false;
        if (fabsf(v[i]) > amax) amax = fabsf(v[i]);
    }
    const float d = amax / 127.0f;
    if (d < 0x1p-126f) return true;
    const float id = 1.0f / d;
    for (uint32_t i = 0; i < 32; i++) {
        float q = rintf(v[i] * id);
        q = q > 127.0f ? 127.0f : q < -127.0f ? -127.0f : q;
        ((int8_t *)o)[i] = (int8_t)q;
        *(i < 16 ? &lo : &hi) += (int32_t)q;
    }
    o[IE_Q8_D] = float_bits(d);
    o[IE_Q8_SA] = float_bits(d * (float)(lo + hi));
    o[IE_Q8_NSUM] = (uint32_t)-(lo + hi);
    o[IE_Q8_NLO] = (uint32_t)-lo;
    o[IE_Q8_NHI] = (uint32_t)-hi;
    return true;
}

/* Kinds of rows: ordinary, ties of rounding, tiny (subnormal d), huge, zeros, one bad value. */
static float q8_value(uint32_t kind, uint32_t i) {
    switch (kind) {
    case 0: return rnd_float();
    case 1: return i % 32u == 5u ? 127.0f : (float)((int32_t)(rnd() % 253u) - 126) + 0.5f;
    case 2: return rnd_float() * 0x1p-120f;
    case 3: return bits_float(0x7F7FFFFFu ^ (rnd() & 0x807FFFFFu));
    case 4: return rnd() & 1u ? 0.0f : -0.0f;
    case 5: return bits_float(rnd() & 0x80FFFFFFu);
    default: return i == kind ? (kind % 3u ? bits_float(0x7F800001u + (rnd() & 0x803FFFFFu)) : -INFINITY) : rnd_float();
    }
}

static void test_q8(void **state) {
    (void)state;
    static const uint32_t ns[] = {1, 31, 32, 33, 64, 576, 1000};
    for (uint32_t rep = 0; rep < 200; rep++) {
        for (size_t j = 0; j < sizeof ns / sizeof ns[0]; j++) {
            const uint32_t n = ns[j], nblk = ie_nblk(n), kind = rep % 40u, stride = rep % 2u ? 16 : 1;
            float *x = malloc(n * sizeof *x); /* exactly n: a read past it is seen by the sanitizer */
            uint32_t *want = alloc(nblk * 64u), *got = alloc((size_t)nblk * stride * 64u);
            bool ok = true;
            assert_non_null(x);
            for (uint32_t i = 0; i < n; i++) x[i] = q8_value(kind, i);
            for (uint32_t b = 0; b < nblk; b++) ok &= q8_reference(x + b * 32u, n - b * 32u < 32u ? n - b * 32u : 32u, want + b * 16u);
            for (int l = 0; l < IE_LEVEL_COUNT; l++) {
                if (!ie_level_runs((ie_level)l)) continue;
                for (size_t i = 0; i < (size_t)nblk * stride * 16u; i++) got[i] = GUARD;
                assert_int_equal(ie_mm_of((ie_level)l)->q8(x, n, got, stride), ok);
                for (uint32_t b = 0; b < nblk; b++) {
                    assert_memory_equal(got + (size_t)b * stride * 16u, want + b * 16u, 64);
                    for (uint32_t i = 16; i < stride * 16u; i++) assert_int_equal(got[(size_t)b * stride * 16u + i], GUARD);
                }
            }
            free(x);
            free(want);
            free(got);
        }
    }
}

static void test_levels(void **state) {
    (void)state;
    ie_error err;
    ie_level level;
    assert_true(ie_level_runs(IE_LEVEL_PORTABLE));
    for (int l = 0; l < IE_LEVEL_COUNT; l++) {
        assert_int_equal(ie_mm_of((ie_level)l)->level, l);
        setenv("IE_SIMD", ie_level_name((ie_level)l), 1);
        if (ie_level_runs((ie_level)l)) {
            assert_int_equal(ie_level_choose(&level, &err), IE_OK);
            assert_int_equal(level, l);
        } else {
            assert_int_equal(ie_level_choose(&level, &err), IE_E_ARG);
            assert_non_null(strstr(err.msg, ie_level_name((ie_level)l)));
            printf("skip: %s does not run on this processor\n", ie_level_name((ie_level)l));
        }
    }
    setenv("IE_SIMD", "sse9", 1);
    assert_int_equal(ie_level_choose(&level, &err), IE_E_ARG);
    assert_non_null(strstr(err.msg, "sse9"));
    unsetenv("IE_SIMD");
    assert_int_equal(ie_level_choose(&level, &err), IE_OK);
    for (int l = (int)level + 1; l < IE_LEVEL_COUNT; l++) assert_false(ie_level_runs((ie_level)l));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_levels), cmocka_unit_test(test_q8),
                                       cmocka_unit_test(test_shapes), cmocka_unit_test(test_every_t),
                                       cmocka_unit_test(test_wild_scales), cmocka_unit_test(test_long_segments),
                                       cmocka_unit_test(test_prefill)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
