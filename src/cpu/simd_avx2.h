/* Vector vocabulary, AVX2 with FMA and F16C: 8 lanes. See simd_portable.h for what each function means; the three headers
 * define the same names. Nothing here contracts or approximates: equal inputs give the portable level's bits. */
#ifndef IE_SIMD_H
#define IE_SIMD_H

#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>

#include "simd_build.h"

#define IE_VW 8u
#define IE_LEVEL_ID IE_LEVEL_AVX2
#define IE_VEC static inline __attribute__((always_inline, unused))
#define IE_S8_BIAS 0

#define IE_VECTORS 1 /* 1: lanes are a vector register, loops over words and tokens are unrolled */
#define IE_U8_RUNS 1 /* 1: byte products are added in 16 bits, in runs that the largest weight byte allows */

typedef __m256 vf;
typedef __m256i vi;
typedef __m256i vm; /* all ones or all zeros in each lane */

/* ---- floats */
IE_VEC vf vf_load(const float *p) { return _mm256_loadu_ps(p); }
IE_VEC void vf_store(float *p, vf a) { _mm256_storeu_ps(p, a); }
IE_VEC vm vm_first(uint32_t n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int32_t)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
IE_VEC vf vf_bcast(const void *p) { return _mm256_broadcast_ss(p); }
IE_VEC vf vf_load_n(const float *p, uint32_t n) { return _mm256_maskload_ps(p, vm_first(n)); }
IE_VEC void vf_store_n(float *p, vf a, uint32_t n) { _mm256_maskstore_ps(p, vm_first(n), a); }
IE_VEC vf vf_set1(float a) { return _mm256_set1_ps(a); }
IE_VEC vf vf_zero(void) { return _mm256_setzero_ps(); }
IE_VEC vf vf_add(vf a, vf b) { return _mm256_add_ps(a, b); }
IE_VEC vf vf_sub(vf a, vf b) { return _mm256_sub_ps(a, b); }
IE_VEC vf vf_mul(vf a, vf b) { return _mm256_mul_ps(a, b); }
IE_VEC vf vf_div(vf a, vf b) { return _mm256_div_ps(a, b); }
IE_VEC vf vf_max(vf a, vf b) { return _mm256_max_ps(a, b); }
IE_VEC vf vf_min(vf a, vf b) { return _mm256_min_ps(a, b); }
IE_VEC vf vf_sqrt(vf a) { return _mm256_sqrt_ps(a); }
IE_VEC vf vf_fma(vf a, vf b, vf c) { return _mm256_fmadd_ps(a, b, c); }
IE_VEC vf vf_fma_bcast(vf a, vf b, const float *p) { return vf_fma(vf_set1(*p), b, a); }
IE_VEC vf vf_neg(vf a) { return _mm256_xor_ps(a, _mm256_set1_ps(-0.0f)); }
IE_VEC vf vf_load_f16(const uint16_t *p) { return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p)); }
IE_VEC void vf_store_f16(uint16_t *p, vf a) {
    _mm_storeu_si128((__m128i *)(void *)p, _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

/* ---- integers */
IE_VEC vi vi_load(const void *p) { return _mm256_loadu_si256((const __m256i *)p); }
IE_VEC void vi_store(void *p, vi a) { _mm256_storeu_si256((__m256i *)p, a); }
IE_VEC vi vi_load_u16(const uint16_t *p) {
    return _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
}
IE_VEC void vi_store_i8(int8_t *p, vi a) {
    __m128i h = _mm_packs_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
    _mm_storel_epi64((__m128i *)(void *)p, _mm_packs_epi16(h, h));
}
IE_VEC vi vi_set1(int32_t a) { return _mm256_set1_epi32(a); }
IE_VEC vi vi_zero(void) { return _mm256_setzero_si256(); }
IE_VEC vi vi_add(vi a, vi b) { return _mm256_add_epi32(a, b); }
IE_VEC vi vi_sub(vi a, vi b) { return _mm256_sub_epi32(a, b); }
IE_VEC vi vi_mul(vi a, vi b) { return _mm256_mullo_epi32(a, b); }
IE_VEC vi vi_and(vi a, vi b) { return _mm256_and_si256(a, b); }
IE_VEC vi vi_or(vi a, vi b) { return _mm256_or_si256(a, b); }
IE_VEC vi vi_xor(vi a, vi b) { return _mm256_xor_si256(a, b); }
#ifdef IE_CONST_SHIFTS
#define vi_shl(a, n) _mm256_slli_epi32((a), (int)(n))
#define vi_shr(a, n) _mm256_srli_epi32((a), (int)(n))
#define vi_sar(a, n) _mm256_srai_epi32((a), (int)(n))
#else
IE_VEC vi vi_shl(vi a, uint32_t n) { return _mm256_sll_epi32(a, _mm_cvtsi32_si128((int32_t)n)); }
IE_VEC vi vi_shr(vi a, uint32_t n) { return _mm256_srl_epi32(a, _mm_cvtsi32_si128((int32_t)n)); }
IE_VEC vi vi_sar(vi a, uint32_t n) { return _mm256_sra_epi32(a, _mm_cvtsi32_si128((int32_t)n)); }
#endif
#define vi_bcast_shl(p, n) vi_shl(vi_set1((int32_t)*(p)), (n))
IE_VEC vi vi_maxu(vi a, vi b) { return _mm256_max_epu32(a, b); }
IE_VEC vi vi_max(vi a, vi b) { return _mm256_max_epi32(a, b); }
IE_VEC vi vi_min(vi a, vi b) { return _mm256_min_epi32(a, b); }
IE_VEC vi vi_add8(vi a, vi b) { return _mm256_add_epi8(a, b); }
IE_VEC uint32_t vi_hmaxu(vi a) {
    __m128i m = _mm_max_epu32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
    m = _mm_max_epu32(m, _mm_shuffle_epi32(m, 0x4E));
    m = _mm_max_epu32(m, _mm_shuffle_epi32(m, 0xB1));
    return (uint32_t)_mm_cvtsi128_si32(m);
}
IE_VEC int32_t vi_hadd(vi a) {
    __m128i m = _mm_add_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
    m = _mm_add_epi32(m, _mm_shuffle_epi32(m, 0x4E));
    m = _mm_add_epi32(m, _mm_shuffle_epi32(m, 0xB1));
    return _mm_cvtsi128_si32(m);
}

/* ---- between the two */
IE_VEC vf vf_from_vi(vi a) { return _mm256_cvtepi32_ps(a); }
IE_VEC vi vi_from_vf_rne(vf a) { return _mm256_cvtps_epi32(a); }
IE_VEC vi vf_as_vi(vf a) { return _mm256_castps_si256(a); }
IE_VEC vf vi_as_vf(vi a) { return _mm256_castsi256_ps(a); }
IE_VEC vf vf_f16_lo(vi a) {
    vi h = _mm256_and_si256(a, _mm256_set1_epi32(0xFFFF));
    h = _mm256_permute4x64_epi64(_mm256_packus_epi32(h, h), 0xD8);
    return _mm256_cvtph_ps(_mm256_castsi256_si128(h));
}

/* ---- masks */
IE_VEC vm vf_lt(vf a, vf b) { return _mm256_castps_si256(_mm256_cmp_ps(a, b, _CMP_LT_OQ)); }
IE_VEC vm vf_le(vf a, vf b) { return _mm256_castps_si256(_mm256_cmp_ps(a, b, _CMP_LE_OQ)); }
IE_VEC vm vf_eq(vf a, vf b) { return _mm256_castps_si256(_mm256_cmp_ps(a, b, _CMP_EQ_OQ)); }
IE_VEC vm vi_eq(vi a, vi b) { return _mm256_cmpeq_epi32(a, b); }
IE_VEC vm vi_gt(vi a, vi b) { return _mm256_cmpgt_epi32(a, b); }
IE_VEC vf vf_select(vm m, vf a, vf b) { return _mm256_blendv_ps(b, a, _mm256_castsi256_ps(m)); }
IE_VEC vi vi_select(vm m, vi a, vi b) { return _mm256_blendv_epi8(b, a, m); }

/* ---- bytes of weights
 * vpmaddubsw adds two u8 x s8 products in 16 bits with saturation: exact while 2 * 127 * umax <= 32767, so u8 above 127 go
 * in two parts, and signed weights go as |w| (at most 128) times the activation with w's sign. */
IE_VEC vi vi_pairs(vi h) { return _mm256_madd_epi16(h, _mm256_set1_epi16(1)); }
IE_VEC vi vi_dot_us(vi acc, vi u, vi s) {
    vi half = _mm256_and_si256(_mm256_srli_epi16(u, 1), _mm256_set1_epi8(127));
    vi rest = _mm256_sub_epi8(u, half); /* <= 128 */
    acc = vi_add(acc, vi_pairs(_mm256_maddubs_epi16(half, s)));
    return vi_add(acc, vi_pairs(_mm256_maddubs_epi16(rest, s)));
}
IE_VEC vi vi_dot_ss(vi acc, vi w, vi s) {
    return vi_add(acc, vi_pairs(_mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(s, w))));
}
IE_VEC vi vi_lut16(const int8_t *table, vi idx) {
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)table)), idx);
}
IE_VEC vi vi_or_bits(vi w, vi bits, uint32_t j, int32_t val) {
    const int32_t at = (int32_t)(j / 2u * 0x01010101u);
    vi idx = _mm256_broadcastsi128_si256(_mm_add_epi8(_mm_setr_epi32(0, 0x04040404, 0x08080808, 0x0C0C0C0C), _mm_set1_epi32(at)));
    vi sel = vi_set1(j % 2u ? (int32_t)0x80402010u : 0x08040201);
    vi set = _mm256_cmpeq_epi8(_mm256_and_si256(_mm256_shuffle_epi8(bits, idx), sel), sel);
    return _mm256_or_si256(w, _mm256_and_si256(set, vi_set1(val)));
}
/* Bytes up to umax allow `run` vpmaddubsw results to be added in 16 bits: run * 2 * 127 * umax <= 32767. */
IE_VEC vi vi_dot_words(vi start, const vi *w, const uint32_t *x, uint32_t n, uint32_t umax) {
    const uint32_t most = umax == 0 ? 1u : umax <= 15u ? 8u : umax <= 31u ? 4u : umax <= 63u ? 2u : 1u;
    const uint32_t run = most < n ? most : n;
IE_UNROLL
    for (uint32_t j = 0; j < n; j += run) {
        vi h = _mm256_setzero_si256();
IE_UNROLL
        for (uint32_t i = 0; i < run; i++) {
            vi s = vi_set1((int32_t)x[j + i]), u = w[j + i];
            vi p = umax == 0 ? _mm256_maddubs_epi16(_mm256_abs_epi8(u), _mm256_sign_epi8(s, u)) : _mm256_maddubs_epi16(u, s);
            h = i == 0 ? p : _mm256_add_epi16(h, p);
        }
        start = vi_add(start, vi_pairs(h));
    }
    return start;
}

#endif
