/* The float functions against long double, their special values, and their bits.
 *
 * Samples every 4099th float, all floats near the places where something changes, and with IE_TEST_SLOW=1 all 2^32. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "ie_math.h"

static long double ref_exp(long double x) { return expl(x); }
static long double ref_log(long double x) { return logl(x); }
static long double ref_sigmoid(long double x) { return x < 0 ? expl(x) / (1 + expl(x)) : 1 / (1 + expl(-x)); }
static long double ref_softplus(long double x) { return (x > 0 ? x : 0) + log1pl(expl(-fabsl(x))); }
static long double ref_silu(long double x) {
    if (x < -2000) return -0.0L; /* the limit; -infinity * 0 otherwise */
    return x < 0 ? x * expl(x) / (1 + expl(x)) : x / (1 + expl(-x));
}

typedef struct {
    const char *name;
    float (*f)(float);
    long double (*ref)(long double);
    double limit;  /* units of the last place, as ie_math.h states */
    uint64_t hash; /* of all sampled results: the same on every compiler and at every optimisation level */
} fn;

static const fn fns[] = {
    {"exp", ie_exp, ref_exp, 0.78, 0x0b8857ce375a0f4cu},
    {"log", ie_log, ref_log, 0.90, 0x12ff8aaef6f550f0u},
    {"sigmoid", ie_sigmoid, ref_sigmoid, 1.55, 0x84b69b3ea46f4b6fu},
    {"softplus", ie_softplus, ref_softplus, 1.58, 0x7d3edce61ff098f7u},
    {"silu", ie_silu, ref_silu, 1.55, 0xf9c3fa79f593b29eu},
};
enum { N_FNS = sizeof fns / sizeof *fns };

/* |y - r| in units of the last place of a float near r. Infinity counts as 2^128, so overflow at the right place is 0.
 */
static double ulps(float y, long double r) {
    int e;
    if (isnan(r) || isnan(y)) return isnan(r) && isnan(y) ? 0 : 1e30;
    if (isinf(r)) return isinf(y) && (y > 0) == (r > 0) ? 0 : 1e30;
    (void)frexpl(r, &e);
    if (e < -125) e = -125; /* subnormal results: one unit is 2^-149 */
    if (e > 128) return isinf(y) && (y > 0) == (r > 0) ? 0 : 1e30;
    long double got = isinf(y) ? copysignl(0x1p128L, y) : (long double)y;
    return (double)(fabsl(got - r) / ldexpl(1, e - 24));
}

typedef struct {
    double worst;
    float at;
    uint64_t hash;
} tally;

static void visit(const fn *f, uint32_t bits, tally *t) {
    float x = ie_f32_of(bits), y = f->f(x);
    double u = ulps(y, f->ref((long double)x));
    if (u > t->worst) t->worst = u, t->at = x;
    uint32_t b = isnan(y) ? 0x7FC00000u : ie_bits_of(y);
    t->hash = (t->hash ^ b) * 0x9E3779B97F4A7C15u;
    t->hash ^= t->hash >> 29;
}

static void sample(const fn *f, tally *t) {
    static const float edges[] = {0.0f,       0x1p-126f,  0x1p-24f, 0.25f,  0.5f,       0.34657359f, 0.69314718f,
                                  0.75f,      1.0f,       1.5f,     17.0f,  87.336544f, 88.722839f,  89.0f,
                                  103.27893f, 103.97208f, 108.6f,   110.0f, 0x1p96f};
    const char *slow = getenv("IE_TEST_SLOW");
    for (uint64_t u = 0; u < 1ull << 32; u += 4099) visit(f, (uint32_t)u, t);
    for (size_t i = 0; i < sizeof edges / sizeof *edges; i++)
        for (uint32_t s = 0; s < 2; s++)
            for (int32_t d = -1000; d <= 1000; d++) visit(f, (ie_bits_of(edges[i]) + (uint32_t)d) ^ s << 31, t);
    uint64_t hash = t->hash;
    if (slow && *slow == '1')
        for (uint64_t u = 0; u < 1ull << 32; u++) visit(f, (uint32_t)u, t);
    t->hash = hash;
}

static void errors_and_bits(void **state) {
    (void)state;
    int bad = 0;
    for (int i = 0; i < N_FNS; i++) {
        tally t = {0, 0, 0};
        sample(&fns[i], &t);
        printf("%-9s largest error %.4f units of the last place at %a; hash 0x%016llx\n", fns[i].name, t.worst,
               (double)t.at, (unsigned long long)t.hash);
        bad += t.worst > fns[i].limit;
        bad += t.hash != fns[i].hash;
    }
    assert_int_equal(bad, 0);
}

static void special_values(void **state) {
    (void)state;
    const float inf = (float)INFINITY, nan = (float)NAN;
    assert_true(ie_exp(0.0f) == 1.0f && ie_exp(-0.0f) == 1.0f && ie_exp(inf) == inf && ie_exp(89.0f) == inf);
    assert_int_equal(ie_bits_of(ie_exp(-inf)), 0);
    assert_int_equal(ie_bits_of(ie_exp(-104.0f)), 0);
    assert_int_equal(ie_bits_of(ie_exp(-103.9f)), 1);
    assert_true(ie_log(1.0f) == 0.0f && ie_log(inf) == inf && ie_log(0.0f) == -inf && ie_log(-0.0f) == -inf);
    assert_true(isnan(ie_log(-1.0f)) && isnan(ie_log(-inf)) && isnan(ie_log(-0x1p-149f)));
    assert_true(ie_sigmoid(0.0f) == 0.5f && ie_sigmoid(inf) == 1.0f && ie_sigmoid(-inf) == 0.0f);
    assert_true(ie_softplus(inf) == inf && ie_softplus(-inf) == 0.0f && ie_softplus(1000.0f) == 1000.0f);
    assert_true(ie_silu(inf) == inf && ie_silu(-inf) == 0.0f && signbit(ie_silu(-inf)) && ie_silu(0.0f) == 0.0f);
    assert_true(signbit(ie_silu(-0.0f)));
    for (int i = 0; i < N_FNS; i++) assert_true(isnan(fns[i].f(nan)) && isnan(fns[i].f(-nan)));
}

/* All f16 values; every float next to a boundary between two f16 values, and the boundary itself (a tie). */
static void half_precision(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 0x10000u; h++) {
        uint32_t e = (h >> 10) & 31u, m = h & 1023u;
        float f = ie_f16_to_f32(h), want = ldexpf((float)(e ? m + 1024u : m), (int)(e ? e : 1u) - 25);
        if (e == 31u) want = m ? (float)NAN : (float)INFINITY;
        if (h & 0x8000u) want = -want;
        assert_true(isnan(want) ? isnan(f) : ie_bits_of(f) == ie_bits_of(want));
        assert_int_equal(ie_f32_to_f16(f), e == 31u && m ? h | 0x200u : h);
    }
    for (uint32_t h = 0; h < 0x7C00u; h++) {
        float lo = ie_f16_to_f32(h), hi = h == 0x7BFFu ? 65536.0f : ie_f16_to_f32(h + 1u);
        float mid = 0.5f * (lo + hi);
        assert_int_equal(ie_f32_to_f16(mid), h + (h & 1u));
        assert_int_equal(ie_f32_to_f16(ie_f32_of(ie_bits_of(mid) - 1u)), h);
        assert_int_equal(ie_f32_to_f16(-ie_f32_of(ie_bits_of(mid) + 1u)), (h + 1u) | 0x8000u);
    }
    assert_int_equal(ie_f32_to_f16(0x1p-149f), 0);
    assert_int_equal(ie_f32_to_f16(-3e38f), 0xFC00);
    assert_true(ie_bf16_to_f32(0x3F80u) == 1.0f && ie_bf16_to_f32(0xC000u) == -2.0f);
}

static void rounding(void **state) {
    (void)state;
    for (int32_t i = -20000; i <= 20000; i++) {
        float x = (float)i * 0.25f;
        assert_int_equal(ie_rint(x), (int32_t)rintf(x));
    }
    assert_int_equal(ie_rint(4194304.0f), 4194304);
    assert_int_equal(ie_rint(-4194304.0f), -4194304);
}

/* For every amax: |x| <= amax gives |q| <= 127, and amax itself gives 127; zero or subnormal scales give all zeros. */
static void q8_range(void **state) {
    (void)state;
    for (uint64_t u = 0; u < 0x7F800000u; u += 257) {
        float amax = ie_f32_of((uint32_t)u), id, d = ie_q8_scale(amax, &id);
        int32_t q = ie_q8_value(amax, id);
        assert_true(d == 0.0f ? q == 0 && amax < 0x1p-119f : q == 127 && isfinite(id) && d >= 0x1p-126f);
        assert_int_equal(ie_q8_value(-amax, id), -q);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(special_values), cmocka_unit_test(half_precision),
                                       cmocka_unit_test(rounding), cmocka_unit_test(q8_range),
                                       cmocka_unit_test(errors_and_bits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
