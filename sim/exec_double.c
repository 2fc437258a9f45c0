/* f64 operations. Rounding and denormals follow the f16 / f64 half of MODE, which may differ from that of f32. */
#include "lane.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define ENTER if (w->csr64 != w->csr32) _mm_setcsr(w->csr64)
#define LEAVE if (w->csr64 != w->csr32) _mm_setcsr(w->csr32)
#else
#define ENTER (void)0
#define LEAVE (void)0
#endif

static u64 dout(const uop *u, double x) {
    if (u->omod) x = omod_of(u, x);
    if (u->clamp) x = clamp_of(x);
    return as_q(x);
}
#define D(name, expr) \
    OP(name) { \
        SOURCES; \
        u32 *d = sp(w, u->d); \
        ENTER; \
        FOR_LANES(l, exec_of(w)) { \
            double a = lgetd(u, s0, 0, l), b = lgetd(u, s1, 1, l), c = lgetd(u, s2, 2, l); \
            (void)a; (void)b; (void)c; \
            lput64(d, l, dout(u, (expr))); \
        } \
        LEAVE; \
        return u + 1; \
    }
/* Operations with one or two sources must not read a second or third pair. */
#define D1(name, expr) \
    OP(name) { \
        SOURCES; \
        u32 *d = sp(w, u->d); \
        ENTER; \
        FOR_LANES(l, exec_of(w)) { double a = lgetd(u, s0, 0, l); lput64(d, l, dout(u, (expr))); } \
        LEAVE; \
        return u + 1; \
    }
static double quiet_d(double x) { return as_d(as_q(x) | 0x8000000000000ull); }
static double min_d(double a, double b) {
    if (isnan(a)) return isnan(b) ? quiet_d(a) : b;
    if (isnan(b)) return a;
    return a < b || (a == b && signbit(a)) ? a : b;
}
static double max_d(double a, double b) {
    if (isnan(a)) return isnan(b) ? quiet_d(a) : b;
    if (isnan(b)) return a;
    return a > b || (a == b && !signbit(a)) ? a : b;
}
static double minimum_d(double a, double b) { return isnan(a) ? quiet_d(a) : isnan(b) ? quiet_d(b) : min_d(a, b); }
static double maximum_d(double a, double b) { return isnan(a) ? quiet_d(a) : isnan(b) ? quiet_d(b) : max_d(a, b); }
D(add_d, a + b)
D(mul_d, a *b)
D(fma_d, fma(a, b, c))
D(min_num_d, min_d(a, b))
D(max_num_d, max_d(a, b))
D(minimum_d2, minimum_d(a, b))
D(maximum_d2, maximum_d(a, b))
D1(floor_d, floor(a))
D1(ceil_d, ceil(a))
D1(trunc_d, trunc(a))
D1(rndne_d2, rndne_d(a))
D1(fract_d, isfinite(a) ? fmin(a - floor(a), 0x1.fffffffffffffp-1) : (double)NAN)
static double frexp_m(double a) {
    int e;
    return !isfinite(a) || a == 0 ? a : frexp(a, &e);
}
D1(frexp_mant_d, frexp_m(a))
OP(frexp_exp_d) {
    SOURCES;
    u32 *d = sp(w, u->d);
    FOR_LANES(l, exec_of(w)) {
        double a = lgetd(u, s0, 0, l);
        int e = 0;
        if (isfinite(a) && a != 0) frexp(a, &e);
        d[l] = (u32)e;
    }
    return u + 1;
}
OP(ldexp_d) {
    SOURCES;
    u32 *d = sp(w, u->d);
    ENTER;
    FOR_LANES(l, exec_of(w)) {
        i32 n = (i32)lget(s1, l);
        lput64(d, l, dout(u, ldexp(lgetd(u, s0, 0, l), n > 5000 ? 5000 : n < -5000 ? -5000 : n)));
    }
    LEAVE;
    return u + 1;
}
#define DCMP(name, expr) \
    OP(name) { \
        SOURCES; \
        u32 m = 0; \
        FOR_LANES(l, exec_of(w)) { \
            double a = lgetd(u, s0, 0, l), b = lgetd(u, s1, 1, l); \
            m |= (u32)(expr) << l; \
        } \
        *sp(w, u->d) = m; \
        return u + 1; \
    }
DCMP(lt_d, a < b)
DCMP(eq_d, a == b)
DCMP(le_d, a <= b)
DCMP(gt_d, a > b)
DCMP(lg_d, a < b || a > b)
DCMP(ge_d, a >= b)
DCMP(o_d, !isnan(a) && !isnan(b))
DCMP(u_d, isnan(a) || isnan(b))
DCMP(nge_d, !(a >= b))
DCMP(nlg_d, !(a < b || a > b))
DCMP(ngt_d, !(a > b))
DCMP(nle_d, !(a <= b))
DCMP(neq_d, !(a == b))
DCMP(nlt_d, !(a < b))
OP(class_d) {
    SOURCES;
    u32 m = 0;
    FOR_LANES(l, exec_of(w)) {
        u64 x = as_q(lgetd(u, s0, 0, l)), f = x & 0xFFFFFFFFFFFFFull;
        u32 e = (u32)(x >> 52) & 2047;
        u32 k = class_of(e == 2047 && f, e == 2047 && f && !(f >> 51), e == 2047 && !f, !e && !f, !e && f, x >> 63);
        m |= (u32)((lget(s1, l) & k) != 0) << l;
    }
    *sp(w, u->d) = m;
    return u + 1;
}
/* Conversions */
#define FROM32(name, expr) \
    OP(name) { \
        SOURCES; \
        u32 *d = sp(w, u->d); \
        FOR_LANES(l, exec_of(w)) { \
            u32 a = lget(s0, l); \
            (void)a; \
            lput64(d, l, dout(u, (expr))); \
        } \
        return u + 1; \
    }
FROM32(cvt_f64_i32, (double)(i32)a)
FROM32(cvt_f64_u32, (double)a)
FROM32(cvt_f64_f32, (double)lgetf(u, s0, 0, l))
OP(cvt_f32_f64) {
    SOURCES;
    u32 *d = sp(w, u->d);
    FOR_LANES(l, exec_of(w)) d[l] = as_u(fout(u, (float)lgetd(u, s0, 0, l)));
    return u + 1;
}
OP(cvt_i32_f64) {
    SOURCES;
    u32 *d = sp(w, u->d);
    FOR_LANES(l, exec_of(w)) d[l] = (u32)to_int(lgetd(u, s0, 0, l), -0x1p31, 0x1p31 - 1);
    return u + 1;
}
OP(cvt_u32_f64) {
    SOURCES;
    u32 *d = sp(w, u->d);
    FOR_LANES(l, exec_of(w)) d[l] = (u32)to_int(lgetd(u, s0, 0, l), 0, 0x1p32 - 1);
    return u + 1;
}

/* Division helpers, as for f32 but with 2^128. */
static i32 ex64(double x) { return (i32)(as_q(x) >> 52 & 2047); }
static bool denorm64(double q) { return q != 0 && fabs(q) < 0x1p-1022; }
OP(div_scale_d) {
    SOURCES;
    u32 *d = sp(w, u->d), m = 0;
    FOR_LANES(l, exec_of(w)) {
        double a = lgetd(u, s0, 0, l), den = lgetd(u, s1, 1, l), num = lgetd(u, s2, 2, l), r = a;
        u64 raw = lget64(s0, l), rden = lget64(s1, l), rnum = lget64(s2, l);
        bool flag = false, is_den = raw == rden, is_num = raw == rnum, inv = denorm64(1.0 / den), quo = denorm64(num / den);
        if (num == 0 || den == 0) {
            r = (double)NAN;
        } else if (ex64(num) - ex64(den) >= 768) {
            flag = true;
            if (is_den) r = ldexp(a, 128);
        } else if (ex64(den) == 0) {
            r = ldexp(a, 128);
        } else if (inv && quo) {
            /* AMD's text scales up here, which would overflow; down is what the later steps undo. */
            flag = true;
            if (is_den) r = ldexp(a, -128);
        } else if (inv) {
            r = ldexp(a, -128);
        } else if (quo) {
            flag = true;
            if (is_num) r = ldexp(a, 128);
        } else if (ex64(num) <= 53) {
            r = ldexp(a, 128);
        }
        m |= (u32)flag << l;
        lput64(d, l, as_q(r));
    }
    *sp(w, u->d1) = m;
    return u + 1;
}
OP(div_fmas_d) {
    SOURCES;
    u32 *d = sp(w, u->d), vcc = w->s[SLOT_VCC];
    ENTER;
    FOR_LANES(l, exec_of(w)) {
        double a = lgetd(u, s0, 0, l), b = lgetd(u, s1, 1, l), c = lgetd(u, s2, 2, l), r = fma(a, b, c);
        if (vcc >> l & 1) r = ldexp(r, ex64(c) > 1023 ? 128 : -128);
        lput64(d, l, dout(u, r));
    }
    LEAVE;
    return u + 1;
}
static double fixup_d(double q, double den, double num) {
    double sgn = signbit(den) != signbit(num) ? -1. : 1.;
    if (isnan(num)) return quiet_d(num);
    if (isnan(den)) return quiet_d(den);
    if ((den == 0 && num == 0) || (isinf(den) && isinf(num))) return as_d(0xFFF8000000000000ull);
    if (den == 0 || isinf(num)) return sgn * (double)INFINITY;
    if (isinf(den) || num == 0) return sgn * 0.;
    if (ex64(num) - ex64(den) < -1075) return sgn * 0.; /* far below the least denormal */
    if (isnan(q)) return sgn * (double)INFINITY; /* the steps before overflowed */
    return sgn < 0 ? -fabs(q) : fabs(q);
}
D(div_fixup_d, fixup_d(a, b, c))

/* 53 bits of 2 / pi for the reduction of large angles, from the first after the point. The hardware has 1201 of them; zeros follow. */
enum { PI_BITS = 1201 };
static const u32 TWO_OVER_PI[] = {
    0xA2F9836Eu, 0x4E441529u, 0xFC2757D1u, 0xF534DDC0u, 0xDB629599u, 0x3C439041u, 0xFE5163ABu, 0xDEBBC561u, 0xB7246E3Au, 0x424DD2E0u,
    0x06492EEAu, 0x09D1921Cu, 0xFE1DEB1Cu, 0xB129A73Eu, 0xE88235F5u, 0x2EBB4484u, 0xE99C7026u, 0xB45F7E41u, 0x3991D639u, 0x835339F4u,
    0x9C845F8Bu, 0xBDF9283Bu, 0x1FF897FFu, 0xDE05980Fu, 0xEF2F118Bu, 0x5A0A6D1Fu, 0x6D367ECFu, 0x27CB09B7u, 0x4F463F66u, 0x9E5FEA2Du,
    0x7527BAC7u, 0xEBE5F17Bu, 0x3D0739F7u, 0x8A5292EAu, 0x6BFB5FB1u, 0x1F8D5D08u, 0x56033046u, 0xFC7B6BABu, 0xF0CFBC20u, 0x9AF4361Du,
};
static double trig_preop(double a, u32 n) {
    i32 shift = (i32)(n & 31) * 53, e = ex64(a);
    if (e > 1077) shift += e - 1077;
    u64 bits = 0;
    for (i32 i = 0; i < 53; i++) {
        u32 at = (u32)(shift + i);
        u32 bit = at < PI_BITS ? TWO_OVER_PI[at / 32] >> (31 - at % 32) & 1 : 0;
        bits = bits << 1 | bit;
    }
    i32 scale = -53 - shift;
    if (e >= 1968) scale += 128;
    return ldexp((double)bits, scale);
}
OP(trig_preop_d) {
    SOURCES;
    u32 *d = sp(w, u->d);
    FOR_LANES(l, exec_of(w)) lput64(d, l, dout(u, trig_preop(lgetd(u, s0, 0, l), lget(s1, l))));
    return u + 1;
}

#define R(op, fn) {SIM_OP_V_##op, CLS_VALU, OPF_FLOAT, fn}
static const op_row ROWS[] = {
    R(ADD_F64, add_d), R(MUL_F64, mul_d), R(FMA_F64, fma_d), R(MIN_NUM_F64, min_num_d), R(MAX_NUM_F64, max_num_d),
    R(MINIMUM_F64, minimum_d2), R(MAXIMUM_F64, maximum_d2), R(FLOOR_F64, floor_d), R(CEIL_F64, ceil_d), R(TRUNC_F64, trunc_d),
    R(RNDNE_F64, rndne_d2), R(FRACT_F64, fract_d), R(FREXP_MANT_F64, frexp_mant_d), R(FREXP_EXP_I32_F64, frexp_exp_d),
    R(LDEXP_F64, ldexp_d), R(CVT_F64_I32, cvt_f64_i32), R(CVT_F64_U32, cvt_f64_u32), R(CVT_F64_F32, cvt_f64_f32),
    R(CVT_F32_F64, cvt_f32_f64), R(CVT_I32_F64, cvt_i32_f64), R(CVT_U32_F64, cvt_u32_f64), R(DIV_SCALE_F64, div_scale_d),
    R(DIV_FMAS_F64, div_fmas_d), R(DIV_FIXUP_F64, div_fixup_d), R(TRIG_PREOP_F64, trig_preop_d),
#define CROW(op, fn) R(CMP_##op, fn), R(CMPX_##op, fn)
    CROW(LT_F64, lt_d), CROW(EQ_F64, eq_d), CROW(LE_F64, le_d), CROW(GT_F64, gt_d), CROW(LG_F64, lg_d), CROW(GE_F64, ge_d),
    CROW(O_F64, o_d), CROW(U_F64, u_d), CROW(NGE_F64, nge_d), CROW(NLG_F64, nlg_d), CROW(NGT_F64, ngt_d),
    CROW(NLE_F64, nle_d), CROW(NEQ_F64, neq_d), CROW(NLT_F64, nlt_d), CROW(CLASS_F64, class_d),
};
const op_table sim_ops_double = {ROWS, sizeof ROWS / sizeof *ROWS};
