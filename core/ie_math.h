/* Float functions with the same bits on every compiler and device.
 *
 * Each is a fixed sequence of IEEE single operations (add, multiply, fma, divide, compare-and-select) and of integer
 * operations on bit patterns: no table, no branch, no libm. A vector form is the same sequence on lanes; a select is
 * written `c ? a : b` with both sides computed. Needed of the compiler: no contraction, no fast-math, denormals kept.
 * NaNs come out as NaNs, their payload is not specified. Largest errors over all 2^32 floats, in units of the result's
 * last place: exp 0.78, log 0.90, sigmoid 1.55, softplus 1.58, silu 1.55 (tests/unit/test_math.c holds them to it).
 * RoPE's sines and cosines are tables made on the host from double precision; there are none here. */
#ifndef IE_MATH_H
#define IE_MATH_H

#include "ie_core.h"

/* ---- bit patterns and half precision ---------------------------------------------------------------------------- */

static inline float ie_f32_of(uint32_t bits) {
    float f;
    __builtin_memcpy(&f, &bits, sizeof f);
    return f;
}
static inline uint32_t ie_bits_of(float f) {
    uint32_t bits;
    __builtin_memcpy(&bits, &f, sizeof bits);
    return bits;
}
static inline float ie_f16_to_f32(uint32_t h) { return ie_f32_of(ie_f16_f32_bits(h)); }
static inline uint16_t ie_f32_to_f16(float f) { /* nearest, ties to even */
    return (uint16_t)ie_f32_f16_bits(ie_bits_of(f));
}
static inline float ie_bf16_to_f32(uint32_t h) { return ie_f32_of(ie_bf16_f32_bits(h)); }

static inline float ie_fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
static inline float ie_abs(float x) { return ie_f32_of(ie_bits_of(x) & 0x7FFFFFFFu); }

/* Adding 1.5 * 2^23 leaves the nearest integer (ties to even) in the low bits, for |x| <= 2^22. */
#define IE_MAGIC 12582912.0f
#define IE_MAGIC_BITS 0x4B400000u
static inline int32_t ie_rint(float x) { return (int32_t)(ie_bits_of(x + IE_MAGIC) - IE_MAGIC_BITS); }

/* ---- exp -------------------------------------------------------------------------------------------------------- */

/* exp(x) = (h + w) * s1 * s2: h + w in [0.7, 1.42] with |w| < 0.08, s1 and s2 powers of two, so that each caller
 * decides where it rounds. For x in [-110, 110] or NaN (then h is NaN and the others are any floats). n = rint(x / ln
 * 2)          fma(x, 1/ln 2, magic): the integer is in its low bits r + c = x - n ln 2          ln 2 = HI + LO, n * HI
 * exact; c is what rounding r lost h + l = 1 + r               exactly (|r| < 0.3468) w = l + (r^2 q(r) + c)      q of
 * degree 4, |error of h + w| < 2^-27 s1 = 2^(n >> 1), s2 = 2^(n - (n >> 1)): both normal, -159 <= n <= 159; 1024 is
 * added so that the shift is unsigned */
static inline float ie_exp_parts(float x, float *w, float *s1, float *s2) {
    float t = ie_fma(x, 0x1.715476p+0f, IE_MAGIC);
    float nf = t - IE_MAGIC;
    uint32_t n = ie_bits_of(t) - IE_MAGIC_BITS;
    float r0 = ie_fma(nf, -0x1.62e4p-1f, x);
    float r = ie_fma(nf, -0x1.7f7d1cp-20f, r0);
    float c = ie_fma(nf, -0x1.7f7d1cp-20f, r0 - r);
    float q = 0x1.6ac10ep-10f;
    q = ie_fma(q, r, 0x1.123da4p-7f);
    q = ie_fma(q, r, 0x1.555858p-5f);
    q = ie_fma(q, r, 0x1.55548cp-3f);
    q = ie_fma(q, r, 0x1.fffffcp-2f);
    float h = 1.0f + r;
    float l = r - (h - 1.0f);
    *w = l + ie_fma(q, r * r, c);
    uint32_t n1 = (n + 1024u) >> 1;         /* n >> 1, plus 512 */
    *s1 = ie_f32_of((n1 - 385u) << 23);     /* exponent field (n >> 1) + 127 */
    *s2 = ie_f32_of((n - n1 + 639u) << 23); /* n - (n >> 1) + 127 */
    return h;
}

/* x held in [lo, hi]; NaN stays NaN. */
static inline float ie_clamp(float x, float lo, float hi) {
    x = x < lo ? lo : x;
    return x > hi ? hi : x;
}

/* e^x; 0 below -103.98, infinity above 88.72. */
static inline float ie_exp(float x) {
    float w, s1, s2, h = ie_exp_parts(ie_clamp(x, -110.0f, 89.0f), &w, &s1, &s2);
    return (h + w) * s1 * s2;
}

/* ---- log -------------------------------------------------------------------------------------------------------- */

/* k ln 2 + log(1 + f) for f in [-0.25, 0.5] and an integer k.
 *   q of degree 8: log(1 + f) = f + f^2 q(f), |relative error| < 2^-27 */
static inline float ie_log_poly(float f, float k) {
    float q = -0x1.7965cp-5f;
    q = ie_fma(q, f, 0x1.b1fca2p-4f);
    q = ie_fma(q, f, -0x1.0e9042p-3f);
    q = ie_fma(q, f, 0x1.28761ep-3f);
    q = ie_fma(q, f, -0x1.54d6cep-3f);
    q = ie_fma(q, f, 0x1.99672p-3f);
    q = ie_fma(q, f, -0x1.000082p-2f);
    q = ie_fma(q, f, 0x1.5555acp-2f);
    q = ie_fma(q, f, -0.5f);
    float t = ie_fma(f * f, q, k * 0x1.7f7d1cp-20f);
    return ie_fma(k, 0x1.62e4p-1f, f + t);
}

/* Natural logarithm; log(0) = -infinity, log(x < 0) = NaN.
 *   x = m 2^k with m in [0.75, 1.5); subnormal x are scaled by 2^23 first; m - 1 is exact */
static inline float ie_log(float x) {
    uint32_t tiny = ie_bits_of(x) < 0x00800000u;
    float xs = tiny ? x * 8388608.0f : x;
    uint32_t ix = ie_bits_of(xs) + 0x00400000u;
    float k = (float)((int32_t)(ix >> 23) - (tiny ? 150 : 127));
    float y = ie_log_poly(ie_f32_of((ix & 0x007FFFFFu) + 0x3F400000u) - 1.0f, k);
    y = x < ie_f32_of(0x7F800000u) ? y : x; /* +infinity and NaN */
    y = x < 0.0f ? ie_f32_of(0x7FC00000u) : y;
    return x == 0.0f ? ie_f32_of(0xFF800000u) : y;
}

/* ---- functions of e^-|x| ---------------------------------------------------------------------------------------- */

/* num / (1 + e^-x) for x in [-110, 110] or NaN, with two roundings: of the denominator and of the quotient. The
 * denominator is d = z (1 + e^-x), z = 2^-32 for x < 0, so that it stays finite where the result is still above 0; z
 * comes back last. a + b = z + h e: the larger first, so that a + (b + rest) loses nothing but the last rounding. */
static inline float ie_over_1pexp(float num, float x) {
    float w, s1, s2, h = ie_exp_parts(-x, &w, &s1, &s2);
    float z = x < 0.0f ? 0x1p-32f : 1.0f;
    s2 = s2 * z;
    h = h * s1 * s2;
    w = w * s1 * s2;
    float a = h > z ? h : z;
    float b = h > z ? z : h;
    float d = a + b;
    d = d + ((b - (d - a)) + w);
    return num / d * z;
}
static inline float ie_sigmoid(float x) { return ie_over_1pexp(1.0f, ie_clamp(x, -110.0f, 110.0f)); }
/* x * sigmoid(x); -0 below -108.7. */
static inline float ie_silu(float x) {
    float c = x < -110.0f ? -110.0f : x;
    return ie_over_1pexp(c, c > 110.0f ? 110.0f : c);
}

/* log(1 + e^x) = max(x, 0) + log(1 + e), e = e^-|x|. From e = 0.5 up, 1 + e = 2 (1 + f) with f = (e - 1) / 2 exact. */
static inline float ie_softplus(float x) {
    float e = ie_exp(-ie_abs(x));
    uint32_t big = e > 0.5f;
    float f = big ? ie_fma(0.5f, e, -0.5f) : e;
    return (x > 0.0f ? x : 0.0f) + ie_log_poly(f, big ? 1.0f : 0.0f);
}

/* ---- Q8 activations --------------------------------------------------------------------------------------------- */

/* Scale of a block whose largest |x| is amax (finite): d = amax / 127; zero and subnormal d count as 0. *id = 1 / d, or
 * 0. */
static inline float ie_q8_scale(float amax, float *id) {
    float d = amax / 127.0f;
    uint32_t normal = d >= 0x1p-126f;
    *id = normal ? 1.0f / d : 0.0f;
    return normal ? d : 0.0f;
}
/* q of x: the integer nearest to x * (1 / d), ties to even. |x| <= amax gives |q| <= 127 (tests/unit/test_math.c). */
static inline int32_t ie_q8_value(float x, float id) { return ie_rint(x * id); }

#endif
