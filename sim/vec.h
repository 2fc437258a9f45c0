/* 32 lanes as two vectors of 16 dwords, for one level of host instructions: included by the exec_vec_*.c files, each compiled for
 * its level. Everything that GCC's vector arithmetic cannot say well is here: masked stores, compare to mask, fma, rounding. */
#ifndef SIM_VEC_H
#define SIM_VEC_H

#include <math.h>

#include "exec.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

typedef u32 vu __attribute__((vector_size(64), may_alias));
typedef i32 vi __attribute__((vector_size(64), may_alias));
typedef float vf __attribute__((vector_size(64), may_alias));

#define HALVES for (u32 h = 0; h < 2; h++)

static inline vu splat(u32 x) { return (vu){x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x}; }
static inline vf splatf(float x) { return (vf){x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x}; }

static inline vu src(const wave *w, const uop *u, int i, u32 h) {
    const char *p = (const char *)w + u->s[i];
    return (u->bcast >> i & 1) ? splat(*(const u32 *)p) : ((const vu *)p)[h];
}
static inline vf srcf(const wave *w, const uop *u, int i, u32 h) {
    vu x = src(w, u, i, h);
    if (u->mods) {
        if (u->abs >> i & 1) x &= splat(0x7FFFFFFFu);
        if (u->neg >> i & 1) x ^= splat(0x80000000u);
    }
    return (vf)x;
}

/* Lanes of a 16-bit mask as all-ones dwords. */
static inline vu lanes_of(u32 m) {
#if defined(__AVX512F__) && defined(__AVX512DQ__)
    return (vu)_mm512_movm_epi32((__mmask16)m);
#else
    const vu bit = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768};
    return (vu)((splat(m) & bit) != 0);
#endif
}

/* The sign bits of 16 dwords. */
static inline u32 mask_of(vi c) {
#if defined(__AVX512F__) && defined(__AVX512DQ__)
    return (u32)_mm512_movepi32_mask((__m512i)c);
#elif defined(__AVX2__)
    __m256 v[2];
    memcpy(v, &c, 64);
    return (u32)_mm256_movemask_ps(v[0]) | (u32)_mm256_movemask_ps(v[1]) << 8;
#elif defined(__SSE2__)
    __m128 v[4];
    memcpy(v, &c, 64);
    return (u32)_mm_movemask_ps(v[0]) | (u32)_mm_movemask_ps(v[1]) << 4 | (u32)_mm_movemask_ps(v[2]) << 8 |
           (u32)_mm_movemask_ps(v[3]) << 12;
#else
    u32 m = 0;
    for (int i = 0; i < 16; i++) m |= (u32)(c[i] < 0) << i;
    return m;
#endif
}

static inline void put_at(wave *w, u32 off, u32 h, vu x) {
    vu *d = (vu *)((char *)w + off) + h;
    u32 ex = exec_of(w) >> 16 * h & 0xFFFF;
#if defined(__AVX512F__)
    _mm512_mask_store_epi32(d, (__mmask16)ex, (__m512i)x);
#else
    if (ex == 0xFFFF) {
        *d = x;
    } else {
        vu m = lanes_of(ex);
        *d = (x & m) | (*d & ~m);
    }
#endif
}
static inline void put(wave *w, const uop *u, u32 h, vu x) { put_at(w, u->d, h, x); }

static inline vu pick(vu m, vu a, vu b) { return (a & m) | (b & ~m); }

/* omod and clamp of a float result. A NaN clamps to zero. */
static vf out_mods(const uop *u, vf x) {
    if (u->omod == 1) x = x * splatf(2);
    if (u->omod == 2) x = x * splatf(4);
    if (u->omod == 3) x = x * splatf(0.5f);
    if (u->clamp) {
        vu pos = (vu)(x > splatf(0));
        x = (vf)((vu)x & pos);
        vu big = (vu)(x > splatf(1));
        x = (vf)pick(big, (vu)splatf(1), (vu)x);
    }
    return x;
}
static inline void putf(wave *w, const uop *u, u32 h, vf x) {
    if (u->omod | u->clamp) x = out_mods(u, x);
    put(w, u, h, (vu)x);
}

static inline vf vfma(vf a, vf b, vf c) {
#if defined(__AVX512F__)
    return (vf)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__FMA__)
    __m256 x[2], y[2], z[2];
    memcpy(x, &a, 64);
    memcpy(y, &b, 64);
    memcpy(z, &c, 64);
    x[0] = _mm256_fmadd_ps(x[0], y[0], z[0]);
    x[1] = _mm256_fmadd_ps(x[1], y[1], z[1]);
    memcpy(&a, x, 64);
    return a;
#else
    for (int i = 0; i < 16; i++) a[i] = fmaf(a[i], b[i], c[i]);
    return a;
#endif
}

/* Rounding to an integral value: 0 nearest even, 1 down, 2 up, 3 towards zero. */
#if defined(__AVX512F__)
#define VROUND(name, imm) static inline vf name(vf a) { return (vf)_mm512_roundscale_ps((__m512)a, (imm) | 8); }
#elif defined(__AVX2__)
#define VROUND(name, imm) \
    static inline vf name(vf a) { \
        __m256 x[2]; \
        memcpy(x, &a, 64); \
        x[0] = _mm256_round_ps(x[0], (imm) | 8); \
        x[1] = _mm256_round_ps(x[1], (imm) | 8); \
        memcpy(&a, x, 64); \
        return a; \
    }
#else
static inline float round_even1(float a) {
    if (!(fabsf(a) < 0x1p23f)) return a;
    float t = truncf(a), d = fabsf(a - t);
    if (d > 0.5f || (d == 0.5f && fmodf(t, 2) != 0)) t += copysignf(1, a);
    return copysignf(t, a);
}
#define VROUND(name, imm) \
    static inline vf name(vf a) { \
        for (int i = 0; i < 16; i++) \
            a[i] = (imm) == 0 ? round_even1(a[i]) : (imm) == 1 ? floorf(a[i]) : (imm) == 2 ? ceilf(a[i]) : truncf(a[i]); \
        return a; \
    }
#endif
VROUND(v_rndne, 0)
VROUND(v_floor, 1)
VROUND(v_ceil, 2)
VROUND(v_trunc, 3)

/* Sum of four products of bytes, each side signed or not: 16-bit halves of even and odd bytes, then pairwise multiply-add. */
static inline vi dot4(vu a, vu b, bool sa, bool sb) {
#if defined(__AVX512BW__)
    __m512i x = (__m512i)a, y = (__m512i)b, x0 = _mm512_slli_epi16(x, 8), y0 = _mm512_slli_epi16(y, 8);
    x0 = sa ? _mm512_srai_epi16(x0, 8) : _mm512_srli_epi16(x0, 8);
    y0 = sb ? _mm512_srai_epi16(y0, 8) : _mm512_srli_epi16(y0, 8);
    x = sa ? _mm512_srai_epi16(x, 8) : _mm512_srli_epi16(x, 8);
    y = sb ? _mm512_srai_epi16(y, 8) : _mm512_srli_epi16(y, 8);
    return (vi)_mm512_add_epi32(_mm512_madd_epi16(x0, y0), _mm512_madd_epi16(x, y));
#elif defined(__AVX2__)
    __m256i p[2], q[2];
    memcpy(p, &a, 64);
    memcpy(q, &b, 64);
    for (int i = 0; i < 2; i++) {
        __m256i x = p[i], y = q[i], x0 = _mm256_slli_epi16(x, 8), y0 = _mm256_slli_epi16(y, 8);
        x0 = sa ? _mm256_srai_epi16(x0, 8) : _mm256_srli_epi16(x0, 8);
        y0 = sb ? _mm256_srai_epi16(y0, 8) : _mm256_srli_epi16(y0, 8);
        x = sa ? _mm256_srai_epi16(x, 8) : _mm256_srli_epi16(x, 8);
        y = sb ? _mm256_srai_epi16(y, 8) : _mm256_srli_epi16(y, 8);
        p[i] = _mm256_add_epi32(_mm256_madd_epi16(x0, y0), _mm256_madd_epi16(x, y));
    }
    memcpy(&a, p, 64);
    return (vi)a;
#else
    vi r = {0};
    for (int k = 0; k < 32; k += 8) {
        vi x = sa ? (vi)(a << (24 - k)) >> 24 : (vi)(a >> k & 255u);
        vi y = sb ? (vi)(b << (24 - k)) >> 24 : (vi)(b >> k & 255u);
        r += x * y;
    }
    return r;
#endif
}

#endif
