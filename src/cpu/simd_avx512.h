/* Vector vocabulary, AVX-512 (F, BW, VL, DQ, VNNI): 16 lanes. See simd_portable.h for what each function means; the three
 * headers define the same names. Nothing here contracts or approximates: equal inputs give the portable level's bits. */
#ifndef IE_SIMD_H
#define IE_SIMD_H

#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>

#include "simd_build.h"

#define IE_VW 16u
#define IE_LEVEL_ID IE_LEVEL_AVX512
#define IE_VEC static inline __attribute__((always_inline, unused))
/* Signed weight bytes are stored with 128 added, since the dot instruction takes unsigned ones; see vi_dot_words. */
#define IE_S8_BIAS 7

#define IE_VECTORS 1 /* 1: lanes are a vector register, loops over words and tokens are unrolled */
#define IE_U8_RUNS 0 /* 1: byte products are added in 16 bits, in runs that the largest weight byte allows */

typedef __m512 vf;
typedef __m512i vi;
typedef __mmask16 vm;

/* ---- floats */
IE_VEC vf vf_load(const float *p) { return _mm512_loadu_ps(p); }
IE_VEC void vf_store(float *p, vf a) { _mm512_storeu_ps(p, a); }
IE_VEC vm vm_first(uint32_t n) { return (vm)((1u << n) - 1u); }
IE_VEC vf vf_bcast(const void *p) {
    float f;
    __builtin_memcpy(&f, p, sizeof f);
    return _mm512_set1_ps(f);
}
IE_VEC vf vf_load_n(const float *p, uint32_t n) { return _mm512_maskz_loadu_ps(vm_first(n), p); }
IE_VEC void vf_store_n(float *p, vf a, uint32_t n) { _mm512_mask_storeu_ps(p, vm_first(n), a); }
IE_VEC vf vf_set1(float a) { return _mm512_set1_ps(a); }
IE_VEC vf vf_zero(void) { return _mm512_setzero_ps(); }
IE_VEC vf vf_add(vf a, vf b) { return _mm512_add_ps(a, b); }
IE_VEC vf vf_sub(vf a, vf b) { return _mm512_sub_ps(a, b); }
IE_VEC vf vf_mul(vf a, vf b) { return _mm512_mul_ps(a, b); }
IE_VEC vf vf_div(vf a, vf b) { return _mm512_div_ps(a, b); }
IE_VEC vf vf_max(vf a, vf b) { return _mm512_max_ps(a, b); }
IE_VEC vf vf_min(vf a, vf b) { return _mm512_min_ps(a, b); }
IE_VEC vf vf_sqrt(vf a) { return _mm512_sqrt_ps(a); }
IE_VEC vf vf_fma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }
/* a + b * *p, in one instruction: gcc 12 folds the wrong operand, or none. */
IE_VEC vf vf_fma_bcast(vf a, vf b, const float *p) {
    __asm__("vfmadd231ps %2%{1to16%}, %1, %0" : "+v"(a) : "v"(b), "m"(*p));
    return a;
}
IE_VEC vf vf_neg(vf a) { return _mm512_xor_ps(a, _mm512_set1_ps(-0.0f)); }
IE_VEC vf vf_load_f16(const uint16_t *p) { return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p)); }
IE_VEC void vf_store_f16(uint16_t *p, vf a) {
    _mm256_storeu_si256((__m256i *)(void *)p, _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

/* ---- integers */
IE_VEC vi vi_load(const void *p) { return _mm512_loadu_si512(p); }
IE_VEC void vi_store(void *p, vi a) { _mm512_storeu_si512(p, a); }
IE_VEC vi vi_load_u16(const uint16_t *p) {
    return _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)p));
}
IE_VEC void vi_store_i8(int8_t *p, vi a) { _mm_storeu_si128((__m128i *)(void *)p, _mm512_cvtepi32_epi8(a)); }
IE_VEC vi vi_set1(int32_t a) { return _mm512_set1_epi32(a); }
IE_VEC vi vi_zero(void) { return _mm512_setzero_si512(); }
IE_VEC vi vi_add(vi a, vi b) { return _mm512_add_epi32(a, b); }
IE_VEC vi vi_sub(vi a, vi b) { return _mm512_sub_epi32(a, b); }
IE_VEC vi vi_mul(vi a, vi b) { return _mm512_mullo_epi32(a, b); }
IE_VEC vi vi_and(vi a, vi b) { return _mm512_and_si512(a, b); }
IE_VEC vi vi_or(vi a, vi b) { return _mm512_or_si512(a, b); }
IE_VEC vi vi_xor(vi a, vi b) { return _mm512_xor_si512(a, b); }
#ifdef IE_CONST_SHIFTS
#define vi_shl(a, n) _mm512_slli_epi32((a), (unsigned)(n))
#define vi_shr(a, n) _mm512_srli_epi32((a), (unsigned)(n))
#define vi_sar(a, n) _mm512_srai_epi32((a), (unsigned)(n))
#else
IE_VEC vi vi_shl(vi a, uint32_t n) { return _mm512_sll_epi32(a, _mm_cvtsi32_si128((int32_t)n)); }
IE_VEC vi vi_shr(vi a, uint32_t n) { return _mm512_srl_epi32(a, _mm_cvtsi32_si128((int32_t)n)); }
IE_VEC vi vi_sar(vi a, uint32_t n) { return _mm512_sra_epi32(a, _mm_cvtsi32_si128((int32_t)n)); }
#endif
#ifdef IE_CONST_SHIFTS
#define vi_bcast_shl(p, n) vi_bcast_shl_((p), (n))
IE_VEC vi vi_bcast_shl_(const uint32_t *p, uint32_t n) {
    vi r;
    __asm__("vpslld %2, %1%{1to16%}, %0" : "=v"(r) : "m"(*p), "i"(n));
    return r;
}
#else
IE_VEC vi vi_bcast_shl(const uint32_t *p, uint32_t n) { return vi_shl(vi_set1((int32_t)*p), n); }
#endif
IE_VEC vi vi_maxu(vi a, vi b) { return _mm512_max_epu32(a, b); }
IE_VEC vi vi_max(vi a, vi b) { return _mm512_max_epi32(a, b); }
IE_VEC vi vi_min(vi a, vi b) { return _mm512_min_epi32(a, b); }
IE_VEC vi vi_add8(vi a, vi b) { return _mm512_add_epi8(a, b); }
IE_VEC uint32_t vi_hmaxu(vi a) { return _mm512_reduce_max_epu32(a); }
IE_VEC int32_t vi_hadd(vi a) { return _mm512_reduce_add_epi32(a); }

/* ---- between the two */
IE_VEC vf vf_from_vi(vi a) { return _mm512_cvtepi32_ps(a); }
IE_VEC vi vi_from_vf_rne(vf a) { return _mm512_cvtps_epi32(a); }
IE_VEC vi vf_as_vi(vf a) { return _mm512_castps_si512(a); }
IE_VEC vf vi_as_vf(vi a) { return _mm512_castsi512_ps(a); }
IE_VEC vf vf_f16_lo(vi a) { return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(a)); }

/* ---- masks */
IE_VEC vm vf_lt(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
IE_VEC vm vf_le(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_LE_OQ); }
IE_VEC vm vf_eq(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
IE_VEC vm vi_eq(vi a, vi b) { return _mm512_cmpeq_epi32_mask(a, b); }
IE_VEC vm vi_gt(vi a, vi b) { return _mm512_cmpgt_epi32_mask(a, b); }
IE_VEC vf vf_select(vm m, vf a, vf b) { return _mm512_mask_blend_ps(m, b, a); }
IE_VEC vi vi_select(vm m, vi a, vi b) { return _mm512_mask_blend_epi32(m, b, a); }

/* ---- bytes of weights */
IE_VEC vi vi_dot_us(vi acc, vi u, vi s) { return _mm512_dpbusd_epi32(acc, u, s); }
IE_VEC vi vi_dot_ss(vi acc, vi w, vi s) {
    vi neg = _mm512_dpbusd_epi32(vi_zero(), vi_set1((int32_t)0x80808080u), s);
    return vi_sub(_mm512_dpbusd_epi32(acc, vi_xor(w, vi_set1((int32_t)0x80808080u)), s), neg);
}
IE_VEC vi vi_lut16(const int8_t *table, vi idx) {
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(const void *)table)), idx);
}
IE_VEC vi vi_or_bits(vi w, vi bits, uint32_t j, int32_t val) {
    const int32_t at = (int32_t)(j / 2u * 0x01010101u);
    vi idx = _mm512_broadcast_i32x4(_mm_add_epi8(_mm_setr_epi32(0, 0x04040404, 0x08080808, 0x0C0C0C0C), _mm_set1_epi32(at)));
    vi sel = vi_set1(j % 2u ? (int32_t)0x80402010u : 0x08040201);
    __mmask64 m = _mm512_test_epi8_mask(_mm512_shuffle_epi8(bits, idx), sel);
    return _mm512_mask_add_epi8(w, m, w, vi_set1(val));
}
/* Written as assembly because gcc 12 does not fold a broadcast load into vpdpbusd: half the instructions of the hot loops
 * would be loads of their own. */
IE_VEC vi vi_dot_bcast(vi acc, vi w, const uint32_t *x) {
    __asm__("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(acc) : "v"(w), "m"(*x));
    return acc;
}
IE_VEC vi vi_dot_words(vi start, const vi *w, const uint32_t *x, uint32_t n, uint32_t umax) {
    (void)umax;
IE_UNROLL
    for (uint32_t j = 0; j < n; j++) start = vi_dot_bcast(start, w[j], x + j);
    return start;
}

#endif
