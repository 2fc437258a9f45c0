/* Vector operations that are rare enough to go lane by lane: integer oddities, 64-bit integers, conversions, division helpers. */
#include "lane.h"

static u32 brev(u32 x) {
    x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
    x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
    x = (x >> 4 & 0x0F0F0F0Fu) | (x & 0x0F0F0F0Fu) << 4;
    return __builtin_bswap32(x);
}
static u32 cls(u32 a) {
    u32 x = a ^ (u32)((i32)a >> 31);
    return x ? (u32)__builtin_clz(x) : ~0u;
}
L32(bfrev, brev(a))
L32(clz, a ? (u32)__builtin_clz(a) : ~0u)
L32(ctz, a ? (u32)__builtin_ctz(a) : ~0u)
L32(cls_i32, cls(a))
L32(bcnt, (u32)__builtin_popcount(a) + b)
L32(mbcnt_lo, (u32)__builtin_popcount(a & ((1u << l) - 1)) + b)
L32(mbcnt_hi, b)
L32(mul_hi_u, (u64)a * b >> 32)
L32(mul_hi_i, (u64)((i64)(i32)a * (i32)b) >> 32)
static i64 s24(u32 a) { return (i32)(a << 8) >> 8; }
L32(mul_hi_u24, ((u64)(a & 0xFFFFFF) * (b & 0xFFFFFF)) >> 32)
L32(mul_hi_i24, (u64)(s24(a) * s24(b)) >> 32)
static u32 ad(u32 x, u32 y) { return x > y ? x - y : y - x; }
static u32 sad8(u32 a, u32 b, bool masked) {
    u32 r = 0;
    for (u32 k = 0; k < 32; k += 8)
        if (!masked || (b >> k & 255)) r += ad(a >> k & 255, b >> k & 255);
    return r;
}
L32(sad_u8, sad8(a, b, false) + c)
L32(sad_hi_u8, (sad8(a, b, false) << 16) + c)
L32(msad_u8, sad8(a, b, true) + c)
L32(sad_u16, ad(a & 0xFFFF, b & 0xFFFF) + ad(a >> 16, b >> 16) + c)
L32(sad_u32, ad(a, b) + c)
static u32 lerp8(u32 a, u32 b, u32 c) {
    u32 r = 0;
    for (u32 k = 0; k < 32; k += 8) r |= (((a >> k & 255) + (b >> k & 255) + (c >> k & 1)) >> 1) << k;
    return r;
}
L32(lerp, lerp8(a, b, c))
L32(cvt_i32_i16, (i32)(int16_t)(a >> (u->hi & 1 ? 16 : 0)))
L32(cvt_u32_u16, a >> (u->hi & 1 ? 16 : 0) & 0xFFFF)
static u32 sat16(i64 x, i64 lo, i64 hi) { return (u32)(x < lo ? lo : x > hi ? hi : x) & 0xFFFF; }
L32(cvt_pk_i16_i32, sat16((i32)a, -32768, 32767) | sat16((i32)b, -32768, 32767) << 16)
L32(cvt_pk_u16_u32, sat16(a, 0, 65535) | sat16(b, 0, 65535) << 16)
static u32 sat8(u32 h) {
    i32 v = (int16_t)h;
    return v < 0 ? 0 : v > 255 ? 255 : (u32)v;
}
OP(sat_pk_u8_i16) {
    SOURCES;
    u32 *d = sp(w, u->d);
    FOR_LANES(l, exec_of(w)) {
        u32 a = lget(s0, l);
        lput16(u, d, l, sat8(a & 0xFFFF) | sat8(a >> 16) << 8);
    }
    return u + 1;
}
L32(mad_i32_i16, (i32)(int16_t)(a >> (u->hi & 1 ? 16 : 0)) * (i32)(int16_t)(b >> (u->hi & 2 ? 16 : 0)) + (i64)(i32)c)
L32(mad_u32_u16, (a >> (u->hi & 1 ? 16 : 0) & 0xFFFF) * (b >> (u->hi & 2 ? 16 : 0) & 0xFFFF) + c)

/* 64-bit integers. Reads come before writes lane by lane, so that overlapping registers are right. */
#define Q2(name, expr) \
    OP(name) { \
        SOURCES; \
        u32 *d = sp(w, u->d); \
        FOR_LANES(l, exec_of(w)) { \
            u32 a = lget(s0, l); \
            u64 b = lget64(s1, l); \
            lput64(d, l, (u64)(expr)); \
        } \
        return u + 1; \
    }
Q2(lshlrev64, b << (a & 63))
Q2(lshrrev64, b >> (a & 63))
Q2(ashrrev64, (i64)b >> (a & 63))
OP(mad_u64) {
    SOURCES;
    u32 *d = sp(w, u->d), m = 0;
    FOR_LANES(l, exec_of(w)) {
        u64 p = (u64)lget(s0, l) * lget(s1, l), c = lget64(s2, l), r = p + c;
        bool over = r < p;
        m |= (u32)over << l;
        lput64(d, l, u->clamp && over ? ~0ull : r);
    }
    *sp(w, u->d1) = m;
    return u + 1;
}
OP(mad_i64) {
    SOURCES;
    u32 *d = sp(w, u->d), m = 0;
    FOR_LANES(l, exec_of(w)) {
        i64 p = (i64)(i32)lget(s0, l) * (i32)lget(s1, l), c = (i64)lget64(s2, l), r;
        bool over = __builtin_add_overflow(p, c, &r);
        m |= (u32)(over != (r < 0)) << l; /* bit 64 of the exact sum: its sign */
        if (u->clamp && over) r = c < 0 ? INT64_MIN : INT64_MAX;
        lput64(d, l, (u64)r);
    }
    *sp(w, u->d1) = m;
    return u + 1;
}
#define QCMP(name, type, expr) \
    OP(name) { \
        SOURCES; \
        u32 m = 0; \
        FOR_LANES(l, exec_of(w)) { \
            type a = (type)lget64(s0, l), b = (type)lget64(s1, l); \
            m |= (u32)(expr) << l; \
        } \
        *sp(w, u->d) = m; \
        return u + 1; \
    }
QCMP(lt_u64, u64, a < b)
QCMP(eq_u64, u64, a == b)
QCMP(le_u64, u64, a <= b)
QCMP(gt_u64, u64, a > b)
QCMP(ne_u64, u64, a != b)
QCMP(ge_u64, u64, a >= b)
QCMP(lt_i64, i64, a < b)
QCMP(le_i64, i64, a <= b)
QCMP(gt_i64, i64, a > b)
QCMP(ge_i64, i64, a >= b)

/* f32 helpers */
static float ldexp_f(float a, i32 n) { return ldexpf(a, n > 1000 ? 1000 : n < -1000 ? -1000 : n); }
OP(ldexp_f32) {
    SOURCES;
    u32 *d = sp(w, u->d);
    FOR_LANES(l, exec_of(w)) d[l] = as_u(fout(u, ldexp_f(lgetf(u, s0, 0, l), (i32)lget(s1, l))));
    return u + 1;
}
static u32 frexp_exp(float a) {
    if (!isfinite(a) || a == 0) return 0;
    int e;
    frexpf(a, &e);
    return (u32)e;
}
static float frexp_mant(float a) {
    int e;
    return !isfinite(a) || a == 0 ? a : frexpf(a, &e);
}
LFI(frexp_exp_f32, frexp_exp(a))
LF(frexp_mant_f32, frexp_mant(a))
LF(fma_dx9, a == 0 || b == 0 ? c : fmaf(a, b, c))
LF(mullit, b == -0x1.fffffep127f || b == -INFINITY || isnan(b) || c <= 0 || isnan(c) ? -0x1.fffffep127f : a *b)
OP(class_f32) {
    SOURCES;
    u32 m = 0;
    FOR_LANES(l, exec_of(w)) {
        u32 x = as_u(lgetf(u, s0, 0, l)), e = x >> 23 & 255, f = x & 0x7FFFFF;
        u32 k = class_of(e == 255 && f, e == 255 && f && !(f >> 22), e == 255 && !f, !e && !f, !e && f, x >> 31);
        m |= (u32)((lget(s1, l) & k) != 0) << l;
    }
    *sp(w, u->d) = m;
    return u + 1;
}
LFI(cvt_pk_i16_f32, sat16(to_int((double)a, -32768, 32767), -32768, 32767) | sat16(to_int((double)b, -32768, 32767), -32768, 32767) << 16)
LFI(cvt_pk_u16_f32, sat16(to_int((double)a, 0, 65535), 0, 65535) | sat16(to_int((double)b, 0, 65535), 0, 65535) << 16)
static u32 snorm(float a) { return (u32)(i32)to_int(rndne_d((double)(a > 1 ? 1 : a < -1 ? -1 : a) * 32767), -32767, 32767) & 0xFFFF; }
static u32 unorm(float a) { return (u32)to_int(rndne_d((double)(a > 1 ? 1 : a < 0 ? 0 : a) * 65535), 0, 65535) & 0xFFFF; }
LFI(pk_norm_i16, snorm(a) | snorm(b) << 16)
LFI(pk_norm_u16, unorm(a) | unorm(b) << 16)
OP(cvt_pk_u8_f32) {
    SOURCES;
    u32 *d = sp(w, u->d);
    FOR_LANES(l, exec_of(w)) {
        u32 v = (u32)to_int((double)lgetf(u, s0, 0, l), 0, 255), sh = 8 * (lget(s1, l) & 3);
        d[l] = (lget(s2, l) & ~(255u << sh)) | v << sh;
    }
    return u + 1;
}
L32(cvt_off, as_u((float)((i32)(a << 28) >> 28) * 0.0625f))

/* Division: numbers whose exponents would lose bits are scaled by 2^64 before, and the quotient after. */
static i32 ex32(float x) { return (i32)(as_u(x) >> 23 & 255); }
static bool denorm32(double q) { return q != 0 && fabs(q) < 0x1p-126; }
OP(div_scale_f32) {
    SOURCES;
    u32 *d = sp(w, u->d), m = 0;
    FOR_LANES(l, exec_of(w)) {
        float a = lgetf(u, s0, 0, l), den = lgetf(u, s1, 1, l), num = lgetf(u, s2, 2, l), r = a;
        u32 raw = lget(s0, l), rden = lget(s1, l), rnum = lget(s2, l);
        bool flag = false, is_den = raw == rden, is_num = raw == rnum, inv = denorm32(1.0 / (double)den);
        bool quo = denorm32((double)num / (double)den);
        if (num == 0 || den == 0) {
            r = NAN;
        } else if (ex32(num) - ex32(den) >= 96) {
            flag = true;
            if (is_den) r = ldexpf(a, 64);
        } else if (ex32(den) == 0) {
            r = ldexpf(a, 64);
        } else if (inv && quo) {
            /* AMD's text scales up here, which would overflow; down is what the later steps undo. */
            flag = true;
            if (is_den) r = ldexpf(a, -64);
        } else if (inv) {
            r = ldexpf(a, -64);
        } else if (quo) {
            flag = true;
            if (is_num) r = ldexpf(a, 64);
        } else if (ex32(num) <= 23) {
            r = ldexpf(a, 64);
        }
        m |= (u32)flag << l;
        d[l] = as_u(r);
    }
    *sp(w, u->d1) = m;
    return u + 1;
}
OP(div_fmas_f32) {
    SOURCES;
    u32 *d = sp(w, u->d), vcc = w->s[SLOT_VCC];
    FOR_LANES(l, exec_of(w)) {
        float a = lgetf(u, s0, 0, l), b = lgetf(u, s1, 1, l), c = lgetf(u, s2, 2, l), r;
        if (vcc >> l & 1) {
            /* One rounding: the fma is exact enough in double to be rounded to odd, then scaled and rounded. */
            double x = sim_fma_odd((double)a, (double)b, (double)c);
            r = (float)ldexp(x, ex32(c) > 127 ? 64 : -64);
        } else {
            r = fmaf(a, b, c);
        }
        d[l] = as_u(fout(u, r));
    }
    return u + 1;
}
static float div_fixup(float q, float den, float num) {
    float sgn = signbit(den) != signbit(num) ? -1.f : 1.f;
    if (isnan(num)) return quiet(num);
    if (isnan(den)) return quiet(den);
    if ((den == 0 && num == 0) || (isinf(den) && isinf(num))) return as_f(0xFFC00000u);
    if (den == 0 || isinf(num)) return sgn * INFINITY;
    if (isinf(den) || num == 0) return sgn * 0.f;
    if (ex32(num) - ex32(den) < -150) return sgn * 0.f; /* far below the least denormal */
    if (isnan(q)) return sgn * INFINITY; /* the steps before overflowed */
    return sgn < 0 ? -fabsf(q) : fabsf(q);
}
LF(div_fixup_f32, div_fixup(a, b, c))

#define R(op, flags, fn) {SIM_OP_V_##op, CLS_VALU, flags, fn}
#define RI(op, fn) R(op, 0, fn)
#define RF(op, fn) R(op, OPF_FLOAT, fn)
static const op_row ROWS[] = {
    RI(BFREV_B32, bfrev), RI(CLZ_I32_U32, clz), RI(CTZ_I32_B32, ctz), RI(CLS_I32, cls_i32), RI(BCNT_U32_B32, bcnt),
    RI(MBCNT_LO_U32_B32, mbcnt_lo), RI(MBCNT_HI_U32_B32, mbcnt_hi), RI(MUL_HI_U32, mul_hi_u), RI(MUL_HI_I32, mul_hi_i),
    RI(MUL_HI_U32_U24, mul_hi_u24), RI(MUL_HI_I32_I24, mul_hi_i24), RI(SAD_U8, sad_u8), RI(SAD_HI_U8, sad_hi_u8),
    RI(MSAD_U8, msad_u8), RI(SAD_U16, sad_u16), RI(SAD_U32, sad_u32), RI(LERP_U8, lerp),
    R(CVT_I32_I16, OPF_HALF, cvt_i32_i16), R(CVT_U32_U16, OPF_HALF, cvt_u32_u16), RI(CVT_PK_I16_I32, cvt_pk_i16_i32),
    RI(CVT_PK_U16_U32, cvt_pk_u16_u32), R(SAT_PK_U8_I16, OPF_HALF, sat_pk_u8_i16), R(MAD_I32_I16, OPF_HALF, mad_i32_i16),
    R(MAD_U32_U16, OPF_HALF, mad_u32_u16), RI(LSHLREV_B64, lshlrev64), RI(LSHRREV_B64, lshrrev64), RI(ASHRREV_I64, ashrrev64),
    R(MAD_CO_U64_U32, OPF_CLAMP_INT, mad_u64), R(MAD_CO_I64_I32, OPF_CLAMP_INT, mad_i64),
#define CROW(op, fn) RI(CMP_##op, fn), RI(CMPX_##op, fn)
    CROW(LT_U64, lt_u64), CROW(EQ_U64, eq_u64), CROW(LE_U64, le_u64), CROW(GT_U64, gt_u64), CROW(NE_U64, ne_u64),
    CROW(GE_U64, ge_u64), CROW(LT_I64, lt_i64), CROW(EQ_I64, eq_u64), CROW(LE_I64, le_i64), CROW(GT_I64, gt_i64),
    CROW(NE_I64, ne_u64), CROW(GE_I64, ge_i64), RF(LDEXP_F32, ldexp_f32), RF(FREXP_EXP_I32_F32, frexp_exp_f32),
    RF(FREXP_MANT_F32, frexp_mant_f32), RF(FMA_DX9_ZERO_F32, fma_dx9), RF(MULLIT_F32, mullit), RF(CMP_CLASS_F32, class_f32),
    RF(CMPX_CLASS_F32, class_f32), RF(CVT_PK_I16_F32, cvt_pk_i16_f32), RF(CVT_PK_U16_F32, cvt_pk_u16_f32),
    RF(CVT_PK_NORM_I16_F32, pk_norm_i16), RF(CVT_PK_NORM_U16_F32, pk_norm_u16), RF(CVT_PK_U8_F32, cvt_pk_u8_f32),
    RI(CVT_OFF_F32_I4, cvt_off), RF(DIV_SCALE_F32, div_scale_f32), RF(DIV_FMAS_F32, div_fmas_f32),
    RF(DIV_FIXUP_F32, div_fixup_f32),
};
const op_table sim_ops_lane = {ROWS, sizeof ROWS / sizeof *ROWS};
