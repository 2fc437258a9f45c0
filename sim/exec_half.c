/* 16-bit values: f16 and bf16 arithmetic, 16-bit integers, packed pairs, mixed precision, the small formats' conversions.
 * f16 results are computed exactly (or rounded to odd) in double and rounded once, in the wave's mode. */
#include "lane.h"

static u32 hround(const wave *w, const uop *u, double x) {
    if (u->omod) x = omod_of(u, x);
    if (u->clamp) x = clamp_of(x);
    return sim_d2h(x, ROUND16, FLUSH16);
}

#define H(name, expr) \
    OP(name) { \
        SOURCES; \
        u32 *d = sp(w, u->d); \
        FOR_LANES(l, exec_of(w)) { \
            float a = lgeth(u, s0, 0, l), b = lgeth(u, s1, 1, l), c = lgeth(u, s2, 2, l); \
            (void)a; (void)b; (void)c; \
            lput16(u, d, l, hround(w, u, (double)(expr))); \
        } \
        return u + 1; \
    }
static double dd(float x) { return (double)x; }
/* An exact sum of zero is -0 when rounding down, unless both parts are +0. */
static double zero_sum(double s, bool neg, u32 mode) { return s == 0 && mode == 2 && neg ? -0.0 : s; }
static double hadd(float a, float b, u32 mode) { return zero_sum(dd(a) + dd(b), signbit(a) || signbit(b), mode); }
static double hfma(float a, float b, float c, u32 mode) {
    return zero_sum(sim_fma_odd(dd(a), dd(b), dd(c)), signbit(a) != signbit(b) || signbit(c), mode);
}
H(add_h, hadd(a, b, ROUND16))
H(sub_h, hadd(a, -b, ROUND16))
H(subrev_h, hadd(b, -a, ROUND16))
H(mul_h, dd(a) * dd(b))
H(fma_h, hfma(a, b, c, ROUND16))
OP(fmac_h) {
    SOURCES;
    u32 *d = sp(w, u->d);
    FOR_LANES(l, exec_of(w)) {
        u32 old = d[l] >> (u->hi & 8 ? 16 : 0) & 0xFFFF;
        double r = hfma(lgeth(u, s0, 0, l), lgeth(u, s1, 1, l), hin(w, old), ROUND16);
        lput16(u, d, l, hround(w, u, r));
    }
    return u + 1;
}
H(min_h, min_num(a, b))
H(max_h, max_num(a, b))
H(minimum_h, minimum(a, b))
H(maximum_h, maximum(a, b))
H(min3_h, min_num(min_num(a, b), c))
H(max3_h, max_num(max_num(a, b), c))
H(minimum3_h, minimum(minimum(a, b), c))
H(maximum3_h, maximum(maximum(a, b), c))
H(minmax_h, max_num(min_num(a, b), c))
H(maxmin_h, min_num(max_num(a, b), c))
H(minimummaximum_h, maximum(minimum(a, b), c))
H(maximumminimum_h, minimum(maximum(a, b), c))
static float med3(float a, float b, float c) {
    if (isnan(a) || isnan(b) || isnan(c)) return min_num(min_num(a, b), c);
    float m = max_num(max_num(a, b), c);
    return m == a ? max_num(b, c) : m == b ? max_num(a, c) : max_num(a, b);
}
H(med3_h, med3(a, b, c))
H(floor_h, floorf(a))
H(ceil_h, ceilf(a))
H(trunc_h, truncf(a))
H(rndne_h, rndne_f(a))
H(fract_h, isfinite(a) ? fminf(a - floorf(a), 0x1.ffcp-1f) : NAN)
static float frexp_m(float a) {
    int e;
    return !isfinite(a) || a == 0 ? a : frexpf(a, &e);
}
static u32 frexp_e(float a) {
    int e = 0;
    if (isfinite(a) && a != 0) frexpf(a, &e);
    return (u32)e & 0xFFFF;
}
H(frexp_mant_h, frexp_m(a))
#define HI16(name, expr) \
    OP(name) { \
        SOURCES; \
        u32 *d = sp(w, u->d); \
        FOR_LANES(l, exec_of(w)) { \
            float a = lgeth(u, s0, 0, l); \
            lput16(u, d, l, (u32)(expr)); \
        } \
        return u + 1; \
    }
HI16(frexp_exp_h, frexp_e(a))
HI16(cvt_i16_f16, to_int(dd(a), -32768, 32767))
HI16(cvt_u16_f16, to_int(dd(a), 0, 65535))
static i64 snorm(float a) { return to_int(rndne_d(dd(a > 1 ? 1 : a < -1 ? -1 : a) * 32767), -32767, 32767); }
static i64 unorm(float a) { return to_int(rndne_d(dd(a > 1 ? 1 : a < 0 ? 0 : a) * 65535), 0, 65535); }
HI16(norm_i16, isnan(a) ? 0 : snorm(a))
HI16(norm_u16, isnan(a) ? 0 : unorm(a))
OP(pk_norm_i16_f16) {
    SOURCES;
    u32 *d = sp(w, u->d);
    FOR_LANES(l, exec_of(w)) d[l] = ((u32)snorm(lgeth(u, s0, 0, l)) & 0xFFFF) | (u32)snorm(lgeth(u, s1, 1, l)) << 16;
    return u + 1;
}
OP(pk_norm_u16_f16) {
    SOURCES;
    u32 *d = sp(w, u->d);
    FOR_LANES(l, exec_of(w)) d[l] = ((u32)unorm(lgeth(u, s0, 0, l)) & 0xFFFF) | (u32)unorm(lgeth(u, s1, 1, l)) << 16;
    return u + 1;
}
OP(ldexp_h) {
    SOURCES;
    u32 *d = sp(w, u->d);
    FOR_LANES(l, exec_of(w)) {
        i32 n = (int16_t)lget16(u, s1, 1, l);
        lput16(u, d, l, hround(w, u, ldexp(dd(lgeth(u, s0, 0, l)), n > 200 ? 200 : n < -200 ? -200 : n)));
    }
    return u + 1;
}
#define HCMP(name, expr) \
    OP(name) { \
        SOURCES; \
        u32 m = 0; \
        FOR_LANES(l, exec_of(w)) { \
            float a = lgeth(u, s0, 0, l), b = lgeth(u, s1, 1, l); \
            m |= (u32)(expr) << l; \
        } \
        *sp(w, u->d) = m; \
        return u + 1; \
    }
HCMP(lt_h, a < b)
HCMP(eq_h, a == b)
HCMP(le_h, a <= b)
HCMP(gt_h, a > b)
HCMP(lg_h, a < b || a > b)
HCMP(ge_h, a >= b)
HCMP(o_h, !isnan(a) && !isnan(b))
HCMP(u_h, isnan(a) || isnan(b))
HCMP(nge_h, !(a >= b))
HCMP(nlg_h, !(a < b || a > b))
HCMP(ngt_h, !(a > b))
HCMP(nle_h, !(a <= b))
HCMP(neq_h, !(a == b))
HCMP(nlt_h, !(a < b))
OP(class_h) {
    SOURCES;
    u32 m = 0;
    FOR_LANES(l, exec_of(w)) {
        u32 x = hmod_in(u, 0, lget16(u, s0, 0, l)), e = x >> 10 & 31, f = x & 0x3FF;
        u32 k = class_of(e == 31 && f, e == 31 && f && !(f >> 9), e == 31 && !f, !e && !f, !e && f, x >> 15);
        m |= (u32)((lget16(u, s1, 1, l) & k) != 0) << l;
    }
    *sp(w, u->d) = m;
    return u + 1;
}

static float fixup_h(float q, float den, float num) {
    float sgn = signbit(den) != signbit(num) ? -1.f : 1.f;
    if (isnan(num)) return quiet(num);
    if (isnan(den)) return quiet(den);
    if ((den == 0 && num == 0) || (isinf(den) && isinf(num))) return as_f(0xFFC00000u);
    if (den == 0 || isinf(num)) return sgn * INFINITY;
    if (isinf(den) || num == 0) return sgn * 0.f;
    return sgn < 0 ? -fabsf(q) : fabsf(q);
}
H(div_fixup_h, fixup_h(a, b, c))

/* 16-bit integers */
#define W16(name, expr) \
    OP(name) { \
        SOURCES; \
        u32 *d = sp(w, u->d); \
        FOR_LANES(l, exec_of(w)) { \
            u32 a = lget16(u, s0, 0, l), b = lget16(u, s1, 1, l), c = lget16(u, s2, 2, l); \
            i32 x = (int16_t)a, y = (int16_t)b, z = (int16_t)c; \
            (void)b; (void)c; (void)x; (void)y; (void)z; \
            lput16(u, d, l, (u32)(expr)); \
        } \
        return u + 1; \
    }
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
static u32 satu(const uop *u, i64 r) { return (u32)(u->clamp ? (r < 0 ? 0 : r > 65535 ? 65535 : r) : r); }
static u32 sati(const uop *u, i64 r) { return (u32)(u->clamp ? (r < -32768 ? -32768 : r > 32767 ? 32767 : r) : r); }
W16(add_u16, satu(u, (i64)a + b))
W16(sub_u16, satu(u, (i64)a - b))
W16(add_i16, sati(u, (i64)x + y))
W16(sub_i16, sati(u, (i64)x - y))
W16(mul_lo_u16, a *b)
W16(mad_u16, satu(u, (i64)a * b + c))
W16(mad_i16, sati(u, (i64)x * y + z))
W16(lshl16, b << (a & 15))
W16(lshr16, b >> (a & 15))
W16(ashr16, y >> (a & 15))
W16(min_u16, MIN(a, b))
W16(max_u16, MAX(a, b))
W16(min_i16, MIN(x, y))
W16(max_i16, MAX(x, y))
W16(min3_u16, MIN(MIN(a, b), c))
W16(max3_u16, MAX(MAX(a, b), c))
W16(min3_i16, MIN(MIN(x, y), z))
W16(max3_i16, MAX(MAX(x, y), z))
W16(med3_u16, MAX(MIN(a, b), MIN(MAX(a, b), c)))
W16(med3_i16, MAX(MIN(x, y), MIN(MAX(x, y), z)))
W16(and16, a &b)
W16(or16, a | b)
W16(xor16, a ^ b)
W16(not16, ~a)
OP(cndmask16) {
    SOURCES;
    u32 *d = sp(w, u->d), m = lget(s2, 0);
    FOR_LANES(l, exec_of(w))
        lput16(u, d, l, m >> l & 1 ? hmod_in(u, 1, lget16(u, s1, 1, l)) : hmod_in(u, 0, lget16(u, s0, 0, l)));
    return u + 1;
}
#define WCMP(name, expr) \
    OP(name) { \
        SOURCES; \
        u32 m = 0; \
        FOR_LANES(l, exec_of(w)) { \
            u32 a = lget16(u, s0, 0, l), b = lget16(u, s1, 1, l); \
            i32 x = (int16_t)a, y = (int16_t)b; \
            (void)x; (void)y; \
            m |= (u32)(expr) << l; \
        } \
        *sp(w, u->d) = m; \
        return u + 1; \
    }
WCMP(lt_u16, a < b)
WCMP(eq_u16, a == b)
WCMP(le_u16, a <= b)
WCMP(gt_u16, a > b)
WCMP(ne_u16, a != b)
WCMP(ge_u16, a >= b)
WCMP(lt_i16, x < y)
WCMP(le_i16, x <= y)
WCMP(gt_i16, x > y)
WCMP(ge_i16, x >= y)

/* Conversions */
OP(cvt_f16_f32) {
    SOURCES;
    u32 *d = sp(w, u->d);
    FOR_LANES(l, exec_of(w)) lput16(u, d, l, hround(w, u, dd(lgetf(u, s0, 0, l))));
    return u + 1;
}
OP(cvt_f32_f16) {
    SOURCES;
    u32 *d = sp(w, u->d);
    FOR_LANES(l, exec_of(w)) {
        float a = lgeth(u, s0, 0, l);
        d[l] = as_u(fout(u, isnan(a) ? quiet(a) : a));
    }
    return u + 1;
}
#define FROM16(name, expr) \
    OP(name) { \
        SOURCES; \
        u32 *d = sp(w, u->d); \
        FOR_LANES(l, exec_of(w)) { \
            u32 a = lget16(u, s0, 0, l); \
            lput16(u, d, l, hround(w, u, (expr))); \
        } \
        return u + 1; \
    }
FROM16(cvt_f16_u16, (double)a)
FROM16(cvt_f16_i16, (double)(int16_t)a)
OP(cvt_pk_rtz) {
    SOURCES;
    u32 *d = sp(w, u->d);
    FOR_LANES(l, exec_of(w)) d[l] = sim_f2h(lgetf(u, s0, 0, l), 3, false) | sim_f2h(lgetf(u, s1, 1, l), 3, false) << 16;
    return u + 1;
}
OP(pack) {
    SOURCES;
    u32 *d = sp(w, u->d);
    FOR_LANES(l, exec_of(w)) d[l] = hmod_in(u, 0, lget16(u, s0, 0, l)) | hmod_in(u, 1, lget16(u, s1, 1, l)) << 16;
    return u + 1;
}
/* One byte of the source. */
OP(cvt_f32_fp8) {
    SOURCES;
    u32 *d = sp(w, u->d), sh = 8u * u->in->byte_sel;
    FOR_LANES(l, exec_of(w)) d[l] = as_u(sim_fp8_to_f(lget(s0, l) >> sh & 255));
    return u + 1;
}
OP(cvt_f32_bf8) {
    SOURCES;
    u32 *d = sp(w, u->d), sh = 8u * u->in->byte_sel;
    FOR_LANES(l, exec_of(w)) d[l] = as_u(sim_bf8_to_f(lget(s0, l) >> sh & 255));
    return u + 1;
}
OP(cvt_pk_f32_fp8) {
    SOURCES;
    u32 *d = sp(w, u->d);
    FOR_LANES(l, exec_of(w)) {
        u32 a = lget16(u, s0, 0, l);
        d[l] = as_u(sim_fp8_to_f(a & 255));
        d[32 + l] = as_u(sim_fp8_to_f(a >> 8));
    }
    return u + 1;
}
OP(cvt_pk_f32_bf8) {
    SOURCES;
    u32 *d = sp(w, u->d);
    FOR_LANES(l, exec_of(w)) {
        u32 a = lget16(u, s0, 0, l);
        d[l] = as_u(sim_bf8_to_f(a & 255));
        d[32 + l] = as_u(sim_bf8_to_f(a >> 8));
    }
    return u + 1;
}
/* Values beyond the format's range become its NaN or infinity, since MODE's FP16_OVFL is off. */
OP(cvt_pk_fp8_f32) {
    SOURCES;
    u32 *d = sp(w, u->d);
    FOR_LANES(l, exec_of(w))
        lput16(u, d, l, sim_f_to_fp8(lgetf(u, s0, 0, l), false) | sim_f_to_fp8(lgetf(u, s1, 1, l), false) << 8);
    return u + 1;
}
OP(cvt_pk_bf8_f32) {
    SOURCES;
    u32 *d = sp(w, u->d);
    FOR_LANES(l, exec_of(w))
        lput16(u, d, l, sim_f_to_bf8(lgetf(u, s0, 0, l), false) | sim_f_to_bf8(lgetf(u, s1, 1, l), false) << 8);
    return u + 1;
}

/* ---- packed ---- */
typedef struct {
    u32 lo[3], hi[3];
} halves;
/* The three sources' values for the low and the high result, with op_sel and (floats) the signs changed. */
static halves pk_get(const wave *w, const uop *u, const lane_src s[3], u32 l, bool flt) {
    halves r;
    for (int i = 0; i < 3; i++) {
        u32 x = lget(s[i], l);
        r.lo[i] = x >> (u->hi >> i & 1 ? 16 : 0) & 0xFFFF;
        r.hi[i] = x >> (u->hi_hi >> i & 1 ? 16 : 0) & 0xFFFF;
        if (flt) {
            r.lo[i] ^= (u32)(u->neg >> i & 1) << 15;
            r.hi[i] ^= (u32)(u->neg_hi >> i & 1) << 15;
            if (!(w->mode & 0x40)) { /* denormal sources count as zero */
                if (!(r.lo[i] & 0x7C00)) r.lo[i] &= 0x8000;
                if (!(r.hi[i] & 0x7C00)) r.hi[i] &= 0x8000;
            }
        }
    }
    return r;
}
#define PKH(name, expr) \
    static double name##_1(const u32 *v, u32 mode) { \
        float a = sim_h2f(v[0]), b = sim_h2f(v[1]), c = sim_h2f(v[2]); \
        (void)c; \
        (void)mode; \
        return (double)(expr); \
    } \
    OP(name) { \
        lane_src s[3] = {lsrc(w, u, 0), lsrc(w, u, 1), lsrc(w, u, 2)}; \
        u32 *d = sp(w, u->d); \
        FOR_LANES(l, exec_of(w)) { \
            halves v = pk_get(w, u, s, l, true); \
            d[l] = hround(w, u, name##_1(v.lo, ROUND16)) | hround(w, u, name##_1(v.hi, ROUND16)) << 16; \
        } \
        return u + 1; \
    }
PKH(pk_add_h, hadd(a, b, mode))
PKH(pk_mul_h, dd(a) * dd(b))
PKH(pk_fma_h, hfma(a, b, c, mode))
PKH(pk_min_h, min_num(a, b))
PKH(pk_max_h, max_num(a, b))
PKH(pk_minimum_h, minimum(a, b))
PKH(pk_maximum_h, maximum(a, b))
OP(pk_fmac_h) {
    SOURCES;
    u32 *d = sp(w, u->d);
    FOR_LANES(l, exec_of(w)) {
        u32 a = lget(s0, l), b = lget(s1, l), c = d[l], r = 0;
        for (u32 k = 0; k < 32; k += 16) {
            double x = hfma(hin(w, a >> k & 0xFFFF), hin(w, b >> k & 0xFFFF), hin(w, c >> k & 0xFFFF), ROUND16);
            r |= hround(w, u, x) << k;
        }
        d[l] = r;
    }
    return u + 1;
}
#define PKI(name, expr) \
    static u32 name##_1(const uop *u, const u32 *v) { \
        u32 a = v[0], b = v[1], c = v[2]; \
        i32 x = (int16_t)a, y = (int16_t)b, z = (int16_t)c; \
        (void)u; (void)b; (void)c; (void)x; (void)y; (void)z; \
        return (u32)(expr) & 0xFFFF; \
    } \
    OP(name) { \
        lane_src s[3] = {lsrc(w, u, 0), lsrc(w, u, 1), lsrc(w, u, 2)}; \
        u32 *d = sp(w, u->d); \
        FOR_LANES(l, exec_of(w)) { \
            halves v = pk_get(w, u, s, l, false); \
            d[l] = name##_1(u, v.lo) | name##_1(u, v.hi) << 16; \
        } \
        return u + 1; \
    }
PKI(pk_add_u16, satu(u, (i64)a + b))
PKI(pk_sub_u16, satu(u, (i64)a - b))
PKI(pk_add_i16, sati(u, (i64)x + y))
PKI(pk_sub_i16, sati(u, (i64)x - y))
PKI(pk_mul_lo, a *b)
PKI(pk_mad_u16, satu(u, (i64)a * b + c))
PKI(pk_mad_i16, sati(u, (i64)x * y + z))
PKI(pk_lshl, b << (a & 15))
PKI(pk_lshr, b >> (a & 15))
PKI(pk_ashr, y >> (a & 15))
PKI(pk_min_u16, MIN(a, b))
PKI(pk_max_u16, MAX(a, b))
PKI(pk_min_i16, MIN(x, y))
PKI(pk_max_i16, MAX(x, y))

/* ---- mixed precision: each source f32, or a half of an f16 pair where HI_HI is set; NEG_HI means the absolute value ---- */
static float mix_get(const uop *u, lane_src s, int i, u32 l) {
    u32 x = lget(s, l);
    float f = u->hi_hi >> i & 1 ? sim_h2f(x >> (u->hi >> i & 1 ? 16 : 0) & 0xFFFF) : as_f(x);
    if ((u->neg_hi | u->abs) >> i & 1) f = fabsf(f);
    return u->neg >> i & 1 ? -f : f;
}
OP(fma_mix) {
    SOURCES;
    u32 *d = sp(w, u->d);
    FOR_LANES(l, exec_of(w)) d[l] = as_u(fout(u, fmaf(mix_get(u, s0, 0, l), mix_get(u, s1, 1, l), mix_get(u, s2, 2, l))));
    return u + 1;
}
static u32 mix_h(const wave *w, const uop *u, float r) {
    double x = dd(r);
    return sim_d2h(u->clamp ? clamp_of(x) : x, ROUND16, FLUSH16);
}
OP(fma_mixlo) {
    SOURCES;
    u32 *d = sp(w, u->d);
    FOR_LANES(l, exec_of(w)) {
        float r = fmaf(mix_get(u, s0, 0, l), mix_get(u, s1, 1, l), mix_get(u, s2, 2, l));
        d[l] = (d[l] & 0xFFFF0000u) | mix_h(w, u, r);
    }
    return u + 1;
}
OP(fma_mixhi) {
    SOURCES;
    u32 *d = sp(w, u->d);
    FOR_LANES(l, exec_of(w)) {
        float r = fmaf(mix_get(u, s0, 0, l), mix_get(u, s1, 1, l), mix_get(u, s2, 2, l));
        d[l] = (d[l] & 0xFFFF) | mix_h(w, u, r) << 16;
    }
    return u + 1;
}

/* ---- dots of two halves or four small floats: products added to the sum one after the other, each addition rounded ---- */
static float neg_if(const uop *u, int i, bool high, float x) { return (high ? u->neg_hi : u->neg) >> i & 1 ? -x : x; }
#define DOT2(name, get, accum) \
    OP(name) { \
        SOURCES; \
        u32 *d = sp(w, u->d); \
        FOR_LANES(l, exec_of(w)) { \
            u32 a = lget(s0, l), b = lget(s1, l); \
            float c = accum; \
            for (int k = 0; k < 2; k++) { \
                bool ha = (k ? u->hi_hi : u->hi) & 1, hb = (k ? u->hi_hi : u->hi) >> 1 & 1; \
                float x = neg_if(u, 0, k, get(a >> (ha ? 16 : 0) & 0xFFFF)), y = neg_if(u, 1, k, get(b >> (hb ? 16 : 0) & 0xFFFF)); \
                c = fmaf(x, y, c); \
            } \
            d[l] = as_u(u->clamp ? (float)clamp_of(dd(c)) : c); \
        } \
        return u + 1; \
    }
#define ACC2 (u->neg >> 2 & 1 ? -as_f(lget(s2, l)) : as_f(lget(s2, l)))
DOT2(dot2_f32_f16, sim_h2f, ACC2)
DOT2(dot2_f32_bf16, sim_bf2f, ACC2)
#define DOT2ACC(name, get) \
    OP(name) { \
        SOURCES; \
        u32 *d = sp(w, u->d); \
        FOR_LANES(l, exec_of(w)) { \
            u32 a = lget(s0, l), b = lget(s1, l); \
            float c = as_f(d[l]); \
            c = fmaf(get(a & 0xFFFF), get(b & 0xFFFF), c); \
            d[l] = as_u(fmaf(get(a >> 16), get(b >> 16), c)); \
        } \
        return u + 1; \
    }
DOT2ACC(dot2acc_f16, sim_h2f)
DOT2ACC(dot2acc_bf16, sim_bf2f)
OP(dot2_f16_f16) {
    SOURCES;
    u32 *d = sp(w, u->d);
    FOR_LANES(l, exec_of(w)) {
        u32 a = lget(s0, l), b = lget(s1, l), c = lget16(u, s2, 2, l);
        for (u32 k = 0; k < 32; k += 16)
            c = sim_d2h(sim_fma_odd(dd(hin(w, a >> k & 0xFFFF)), dd(hin(w, b >> k & 0xFFFF)), dd(hin(w, c))), ROUND16, FLUSH16);
        lput16(u, d, l, c);
    }
    return u + 1;
}
OP(dot2_bf16_bf16) {
    SOURCES;
    u32 *d = sp(w, u->d);
    FOR_LANES(l, exec_of(w)) {
        u32 a = lget(s0, l), b = lget(s1, l), c = lget16(u, s2, 2, l);
        for (u32 k = 0; k < 32; k += 16)
            c = sim_f2bf(fmaf(sim_bf2f(a >> k & 0xFFFF), sim_bf2f(b >> k & 0xFFFF), sim_bf2f(c)), 0);
        lput16(u, d, l, c);
    }
    return u + 1;
}
#define DOT4F(name, ga, gb) \
    OP(name) { \
        SOURCES; \
        u32 *d = sp(w, u->d); \
        FOR_LANES(l, exec_of(w)) { \
            u32 a = lget(s0, l), b = lget(s1, l); \
            float c = as_f(lget(s2, l)); \
            if (u->neg >> 2 & 1) c = -c; \
            for (u32 k = 0; k < 32; k += 8) c = fmaf(ga(a >> k & 255), gb(b >> k & 255), c); \
            d[l] = as_u(c); \
        } \
        return u + 1; \
    }
DOT4F(dot4_ff, sim_fp8_to_f, sim_fp8_to_f)
DOT4F(dot4_fb, sim_fp8_to_f, sim_bf8_to_f)
DOT4F(dot4_bf, sim_bf8_to_f, sim_fp8_to_f)
DOT4F(dot4_bb, sim_bf8_to_f, sim_bf8_to_f)

#define R(op, fn) {SIM_OP_V_##op, CLS_VALU, OPF_MODS, fn}
#define RD(op, fn) {SIM_OP_V_##op, CLS_DOT, OPF_MODS, fn}
static const op_row ROWS[] = {
    R(ADD_F16, add_h), R(SUB_F16, sub_h), R(SUBREV_F16, subrev_h), R(MUL_F16, mul_h), R(FMA_F16, fma_h), R(FMAAK_F16, fma_h),
    R(FMAMK_F16, fma_h), R(FMAC_F16, fmac_h), R(MIN_NUM_F16, min_h), R(MAX_NUM_F16, max_h), R(MINIMUM_F16, minimum_h),
    R(MAXIMUM_F16, maximum_h), R(MIN3_NUM_F16, min3_h), R(MAX3_NUM_F16, max3_h), R(MINIMUM3_F16, minimum3_h),
    R(MAXIMUM3_F16, maximum3_h), R(MINMAX_NUM_F16, minmax_h), R(MAXMIN_NUM_F16, maxmin_h),
    R(MINIMUMMAXIMUM_F16, minimummaximum_h), R(MAXIMUMMINIMUM_F16, maximumminimum_h), R(MED3_NUM_F16, med3_h),
    R(FLOOR_F16, floor_h), R(CEIL_F16, ceil_h), R(TRUNC_F16, trunc_h), R(RNDNE_F16, rndne_h), R(FRACT_F16, fract_h),
    R(FREXP_MANT_F16, frexp_mant_h), R(FREXP_EXP_I16_F16, frexp_exp_h), R(CVT_I16_F16, cvt_i16_f16),
    R(CVT_U16_F16, cvt_u16_f16), R(CVT_NORM_I16_F16, norm_i16), R(CVT_NORM_U16_F16, norm_u16),
    R(CVT_PK_NORM_I16_F16, pk_norm_i16_f16), R(CVT_PK_NORM_U16_F16, pk_norm_u16_f16), R(LDEXP_F16, ldexp_h),
    R(DIV_FIXUP_F16, div_fixup_h),
#define CROW(op, fn) R(CMP_##op, fn), R(CMPX_##op, fn)
    CROW(LT_F16, lt_h), CROW(EQ_F16, eq_h), CROW(LE_F16, le_h), CROW(GT_F16, gt_h), CROW(LG_F16, lg_h), CROW(GE_F16, ge_h),
    CROW(O_F16, o_h), CROW(U_F16, u_h), CROW(NGE_F16, nge_h), CROW(NLG_F16, nlg_h), CROW(NGT_F16, ngt_h),
    CROW(NLE_F16, nle_h), CROW(NEQ_F16, neq_h), CROW(NLT_F16, nlt_h), CROW(CLASS_F16, class_h), CROW(LT_U16, lt_u16),
    CROW(EQ_U16, eq_u16), CROW(LE_U16, le_u16), CROW(GT_U16, gt_u16), CROW(NE_U16, ne_u16), CROW(GE_U16, ge_u16),
    CROW(LT_I16, lt_i16), CROW(EQ_I16, eq_u16), CROW(LE_I16, le_i16), CROW(GT_I16, gt_i16), CROW(NE_I16, ne_u16),
    CROW(GE_I16, ge_i16), R(ADD_NC_U16, add_u16), R(SUB_NC_U16, sub_u16), R(ADD_NC_I16, add_i16), R(SUB_NC_I16, sub_i16),
    R(MUL_LO_U16, mul_lo_u16), R(MAD_U16, mad_u16), R(MAD_I16, mad_i16), R(LSHLREV_B16, lshl16), R(LSHRREV_B16, lshr16),
    R(ASHRREV_I16, ashr16), R(MIN_U16, min_u16), R(MAX_U16, max_u16), R(MIN_I16, min_i16), R(MAX_I16, max_i16),
    R(MIN3_U16, min3_u16), R(MAX3_U16, max3_u16), R(MIN3_I16, min3_i16), R(MAX3_I16, max3_i16), R(MED3_U16, med3_u16),
    R(MED3_I16, med3_i16), R(AND_B16, and16), R(OR_B16, or16), R(XOR_B16, xor16), R(NOT_B16, not16),
    R(CNDMASK_B16, cndmask16), R(CVT_F16_F32, cvt_f16_f32), R(CVT_F32_F16, cvt_f32_f16), R(CVT_F16_U16, cvt_f16_u16),
    R(CVT_F16_I16, cvt_f16_i16), R(CVT_PK_RTZ_F16_F32, cvt_pk_rtz), R(PACK_B32_F16, pack), R(CVT_F32_FP8, cvt_f32_fp8),
    R(CVT_F32_BF8, cvt_f32_bf8), R(CVT_PK_F32_FP8, cvt_pk_f32_fp8), R(CVT_PK_F32_BF8, cvt_pk_f32_bf8),
    R(CVT_PK_FP8_F32, cvt_pk_fp8_f32), R(CVT_PK_BF8_F32, cvt_pk_bf8_f32), R(PK_ADD_F16, pk_add_h), R(PK_MUL_F16, pk_mul_h),
    R(PK_FMA_F16, pk_fma_h), R(PK_MIN_NUM_F16, pk_min_h), R(PK_MAX_NUM_F16, pk_max_h), R(PK_MINIMUM_F16, pk_minimum_h),
    R(PK_MAXIMUM_F16, pk_maximum_h), R(PK_FMAC_F16, pk_fmac_h), R(PK_ADD_U16, pk_add_u16), R(PK_SUB_U16, pk_sub_u16),
    R(PK_ADD_I16, pk_add_i16), R(PK_SUB_I16, pk_sub_i16), R(PK_MUL_LO_U16, pk_mul_lo), R(PK_MAD_U16, pk_mad_u16),
    R(PK_MAD_I16, pk_mad_i16), R(PK_LSHLREV_B16, pk_lshl), R(PK_LSHRREV_B16, pk_lshr), R(PK_ASHRREV_I16, pk_ashr),
    R(PK_MIN_U16, pk_min_u16), R(PK_MAX_U16, pk_max_u16), R(PK_MIN_I16, pk_min_i16), R(PK_MAX_I16, pk_max_i16),
    R(FMA_MIX_F32, fma_mix), R(FMA_MIXLO_F16, fma_mixlo), R(FMA_MIXHI_F16, fma_mixhi), RD(DOT2_F32_F16, dot2_f32_f16),
    RD(DOT2_F32_BF16, dot2_f32_bf16), RD(DOT2ACC_F32_F16, dot2acc_f16), RD(DOT2ACC_F32_BF16, dot2acc_bf16),
    RD(DOT2_F16_F16, dot2_f16_f16), RD(DOT2_BF16_BF16, dot2_bf16_bf16), RD(DOT4_F32_FP8_FP8, dot4_ff),
    RD(DOT4_F32_FP8_BF8, dot4_fb), RD(DOT4_F32_BF8_FP8, dot4_bf), RD(DOT4_F32_BF8_BF8, dot4_bb),
};
const op_table sim_ops_half = {ROWS, sizeof ROWS / sizeof *ROWS};
