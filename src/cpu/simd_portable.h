/* Vector vocabulary in plain C: 8 lanes, for any processor; also the definition of what the names mean. */
#ifndef IE_SIMD_H
#define IE_SIMD_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "simd_build.h"

#define IE_VW 8u /* lanes of a vector */
#define IE_LEVEL_ID IE_LEVEL_PORTABLE
#ifdef IE_CHECKED_BUILD
#define IE_VEC static inline __attribute__((unused))
#else
#define IE_VEC static inline __attribute__((always_inline, unused))
#endif
/* log2 of what is added to signed weight bytes so that vi_dot_words can take them; 0: nothing, they stay signed. */
#define IE_S8_BIAS 0

#define IE_VECTORS 0 /* 1: lanes are a vector register, loops over words and tokens are unrolled */
#define IE_U8_RUNS 0 /* 1: byte products are added in 16 bits, in runs that the largest weight byte allows */
#undef IE_UNROLL
#define IE_UNROLL

typedef struct { float v[8]; } vf;
typedef struct { int32_t v[8]; } vi;
typedef struct { bool v[8]; } vm; /* a mask: one truth value a lane */

#define IE_EACH for (uint32_t l = 0; l < 8u; l++)
#define IE_VF(expr) vf r; IE_EACH r.v[l] = (expr); return r
#define IE_VI(expr) vi r; IE_EACH r.v[l] = (int32_t)(expr); return r
#define IE_VM(expr) vm r; IE_EACH r.v[l] = (expr); return r
#define IE_U(a) ((uint32_t)(a).v[l])

/* f16 to f32 (exact) and back (round to nearest even; NaNs stay NaNs). */
IE_VEC float ie_f16_get(uint16_t h) {
    uint32_t s = (uint32_t)(h & 0x8000u) << 16, e = (h >> 10) & 31u, m = h & 0x3FFu, u;
    float f;
    if (e == 0) { /* zero, subnormal: m * 2^-24 */
        f = (float)m * 0x1p-24f;
        memcpy(&u, &f, 4);
        u |= s;
    } else {
        u = e == 31u ? (s | 0x7F800000u | m << 13 | (m ? 0x400000u : 0u)) : (s | (e + 112u) << 23 | m << 13);
    }
    memcpy(&f, &u, 4);
    return f;
}
IE_VEC uint16_t ie_f16_put(float f) {
    uint32_t u, s, a;
    memcpy(&u, &f, 4);
    s = u >> 16 & 0x8000u;
    a = u & 0x7FFFFFFFu;
    if (a > 0x7F800000u) return (uint16_t)(s | 0x7E00u | (a >> 13 & 0x1FFu));
    if (a >= 0x477FF000u) return (uint16_t)(s | 0x7C00u);
    if (a < 0x38800000u) { /* subnormal: the addition rounds at 2^-24 */
        float g;
        memcpy(&g, &a, 4);
        g += 0.5f;
        memcpy(&u, &g, 4);
        return (uint16_t)(s | (u - 0x3F000000u));
    }
    a += 0xFFFu + (a >> 13 & 1u);
    return (uint16_t)(s | ((a - 0x38000000u) >> 13));
}

/* ---- floats (all operations correctly rounded, none contracted) */
IE_VEC vf vf_load(const float *p) { IE_VF(p[l]); }
IE_VEC void vf_store(float *p, vf a) { IE_EACH p[l] = a.v[l]; }
IE_VEC vm vm_first(uint32_t n) { IE_VM(l < n); } /* the first n lanes, n < IE_VW */
IE_VEC vf vf_set1(float a) { IE_VF(a); }
IE_VEC vf vf_bcast(const void *p) { /* the float at p in all lanes */
    float f;
    memcpy(&f, p, sizeof f);
    return vf_set1(f);
}
IE_VEC vf vf_load_n(const float *p, uint32_t n) { IE_VF(l < n ? p[l] : 0.0f); } /* n < IE_VW lanes, zeros above */
IE_VEC void vf_store_n(float *p, vf a, uint32_t n) { for (uint32_t l = 0; l < n; l++) p[l] = a.v[l]; }
IE_VEC vf vf_zero(void) { IE_VF(0.0f); }
IE_VEC vf vf_add(vf a, vf b) { IE_VF(a.v[l] + b.v[l]); }
IE_VEC vf vf_sub(vf a, vf b) { IE_VF(a.v[l] - b.v[l]); }
IE_VEC vf vf_mul(vf a, vf b) { IE_VF(a.v[l] * b.v[l]); }
IE_VEC vf vf_div(vf a, vf b) { IE_VF(a.v[l] / b.v[l]); }
IE_VEC vf vf_max(vf a, vf b) { IE_VF(a.v[l] > b.v[l] ? a.v[l] : b.v[l]); } /* b when unordered or equal, as x86 has it */
IE_VEC vf vf_min(vf a, vf b) { IE_VF(a.v[l] < b.v[l] ? a.v[l] : b.v[l]); }
IE_VEC vf vf_sqrt(vf a) { IE_VF(sqrtf(a.v[l])); }
IE_VEC vf vf_fma(vf a, vf b, vf c) { IE_VF(fmaf(a.v[l], b.v[l], c.v[l])); } /* a * b + c, rounded once */
IE_VEC vf vf_fma_bcast(vf a, vf b, const float *p) { return vf_fma(vf_set1(*p), b, a); }
IE_VEC vf vf_neg(vf a) { IE_VF(-a.v[l]); }
IE_VEC vf vf_load_f16(const uint16_t *p) { IE_VF(ie_f16_get(p[l])); } /* IE_VW halves */
IE_VEC void vf_store_f16(uint16_t *p, vf a) { IE_EACH p[l] = ie_f16_put(a.v[l]); }

/* ---- integers (wrapping) */
IE_VEC vi vi_load(const void *p) { vi r; memcpy(&r, p, sizeof r); return r; }
IE_VEC void vi_store(void *p, vi a) { memcpy(p, &a, sizeof a); }
IE_VEC vi vi_load_u16(const uint16_t *p) { IE_VI(p[l]); } /* zero-extended */
IE_VEC void vi_store_i8(int8_t *p, vi a) { IE_EACH p[l] = (int8_t)a.v[l]; } /* values in [-128, 127] */
IE_VEC vi vi_set1(int32_t a) { IE_VI(a); }
IE_VEC vi vi_zero(void) { IE_VI(0); }
IE_VEC vi vi_add(vi a, vi b) { IE_VI(IE_U(a) + IE_U(b)); }
IE_VEC vi vi_sub(vi a, vi b) { IE_VI(IE_U(a) - IE_U(b)); }
IE_VEC vi vi_mul(vi a, vi b) { IE_VI(IE_U(a) * IE_U(b)); }
IE_VEC vi vi_and(vi a, vi b) { IE_VI(a.v[l] & b.v[l]); }
IE_VEC vi vi_or(vi a, vi b) { IE_VI(a.v[l] | b.v[l]); }
IE_VEC vi vi_xor(vi a, vi b) { IE_VI(a.v[l] ^ b.v[l]); }
IE_VEC vi vi_shl(vi a, uint32_t n) { IE_VI(IE_U(a) << n); } /* shifts: n a constant below 32 */
IE_VEC vi vi_shr(vi a, uint32_t n) { IE_VI(IE_U(a) >> n); }
IE_VEC vi vi_sar(vi a, uint32_t n) { IE_VI(a.v[l] >> n); }
IE_VEC vi vi_bcast_shl(const uint32_t *p, uint32_t n) { IE_VI(*p << n); } /* the word at p in all lanes, shifted */
IE_VEC vi vi_maxu(vi a, vi b) { IE_VI(IE_U(a) > IE_U(b) ? IE_U(a) : IE_U(b)); }
IE_VEC vi vi_max(vi a, vi b) { IE_VI(a.v[l] > b.v[l] ? a.v[l] : b.v[l]); }
IE_VEC vi vi_min(vi a, vi b) { IE_VI(a.v[l] < b.v[l] ? a.v[l] : b.v[l]); }
IE_VEC vi vi_add8(vi a, vi b) { /* four bytes a lane, each wrapping */
    IE_VI(((IE_U(a) & 0x7F7F7F7Fu) + (IE_U(b) & 0x7F7F7F7Fu)) ^ ((IE_U(a) ^ IE_U(b)) & 0x80808080u));
}
IE_VEC uint32_t vi_hmaxu(vi a) { /* largest lane, unsigned */
    uint32_t m = 0;
    IE_EACH m = IE_U(a) > m ? IE_U(a) : m;
    return m;
}
IE_VEC int32_t vi_hadd(vi a) { /* sum of the lanes */
    uint32_t s = 0;
    IE_EACH s += IE_U(a);
    return (int32_t)s;
}

/* ---- between the two */
IE_VEC vf vf_from_vi(vi a) { IE_VF((float)a.v[l]); } /* round to nearest even */
IE_VEC vi vi_from_vf_rne(vf a) { IE_VI(rintf(a.v[l])); } /* |a| < 2^31 */
IE_VEC vi vf_as_vi(vf a) { vi r; memcpy(&r, &a, sizeof r); return r; }
IE_VEC vf vi_as_vf(vi a) { vf r; memcpy(&r, &a, sizeof r); return r; }
IE_VEC vf vf_f16_lo(vi a) { IE_VF(ie_f16_get((uint16_t)IE_U(a))); } /* the f16 in the low half of each lane */

/* ---- masks: comparisons are false for NaNs; select: a where true, else b */
IE_VEC vm vf_lt(vf a, vf b) { IE_VM(a.v[l] < b.v[l]); }
IE_VEC vm vf_le(vf a, vf b) { IE_VM(a.v[l] <= b.v[l]); }
IE_VEC vm vf_eq(vf a, vf b) { IE_VM(a.v[l] == b.v[l]); }
IE_VEC vm vi_eq(vi a, vi b) { IE_VM(a.v[l] == b.v[l]); }
IE_VEC vm vi_gt(vi a, vi b) { IE_VM(a.v[l] > b.v[l]); }
IE_VEC vf vf_select(vm m, vf a, vf b) { IE_VF(m.v[l] ? a.v[l] : b.v[l]); }
IE_VEC vi vi_select(vm m, vi a, vi b) { IE_VI(m.v[l] ? a.v[l] : b.v[l]); }

/* ---- bytes of weights: a lane is four bytes of its row */
/* acc + sum of u8 x s8 products; activations s in [-127, 127]; exact for every u8. */
IE_VEC vi vi_dot_us(vi acc, vi u, vi s) {
    vi r;
    IE_EACH {
        int32_t t = acc.v[l];
        for (uint32_t i = 0; i < 32u; i += 8u) t += (int32_t)(IE_U(u) >> i & 255u) * (int8_t)(IE_U(s) >> i);
        r.v[l] = t;
    }
    return r;
}
/* The same with s8 weights of any value. */
IE_VEC vi vi_dot_ss(vi acc, vi w, vi s) {
    vi r;
    IE_EACH {
        int32_t t = acc.v[l];
        for (uint32_t i = 0; i < 32u; i += 8u) t += (int8_t)(IE_U(w) >> i) * (int8_t)(IE_U(s) >> i);
        r.v[l] = t;
    }
    return r;
}
/* Each byte of idx (0 .. 15) replaced by table[it]. */
IE_VEC vi vi_lut16(const int8_t *table, vi idx) {
    vi r;
    IE_EACH {
        uint32_t t = 0;
        for (uint32_t i = 0; i < 32u; i += 8u) t |= (uint32_t)(uint8_t)table[IE_U(idx) >> i & 15u] << i;
        r.v[l] = (int32_t)t;
    }
    return r;
}
/* Byte i of w gets byte i of val (bits it does not have yet) where bit 4 j + i of `bits` is set. j: constant, below 8. */
IE_VEC vi vi_or_bits(vi w, vi bits, uint32_t j, int32_t val) {
    IE_VI(IE_U(w) | ((((IE_U(bits) >> 4u * j & 15u) * 0x00204081u) & 0x01010101u) * 255u & (uint32_t)val));
}
/* start + dot of the weight words w[0..n) with the activation words x[0..n), the same for all lanes. umax: the largest
 * weight byte, at most 127 where IE_U8_RUNS; 0 for signed ones (to which 1 << IE_S8_BIAS was added if that is not 0). */
IE_VEC vi vi_dot_words(vi start, const vi *w, const uint32_t *x, uint32_t n, uint32_t umax) {
    for (uint32_t j = 0; j < n; j++)
        start = umax ? vi_dot_us(start, w[j], vi_set1((int32_t)x[j])) : vi_dot_ss(start, w[j], vi_set1((int32_t)x[j]));
    return start;
}

#undef IE_VF
#undef IE_VI
#undef IE_VM
#undef IE_U
#undef IE_EACH

#endif
