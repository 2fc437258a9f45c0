/* Vector vocabulary for the ops: lane exchanges and sums in the documented trees. Included after one of simd_avx512.h,
 * simd_avx2.h, simd_portable.h by a file that defines IE_X86_VECTORS for the first two. The portable forms define what the
 * names mean. */
#ifndef IE_SIMD_OPS_H
#define IE_SIMD_OPS_H

#define IE_VPOS (IE_VW / 8u) /* positions of K in a vector: 8 partial sums each */

#if !defined(IE_X86_VECTORS)

#define IE_LANES(expr) vf r; for (uint32_t l = 0; l < 8u; l++) r.v[l] = (expr); return r

/* 8 floats, repeated to fill the vector */
IE_VEC vf vf_rep8(const float *p) { return vf_load(p); }
/* x0 x0 x2 x2 ...; x1 x1 x3 x3 ...; x1 x0 x3 x2 ... */
IE_VEC vf vf_dup_even(vf a) { IE_LANES(a.v[l & ~1u]); }
IE_VEC vf vf_dup_odd(vf a) { IE_LANES(a.v[l | 1u]); }
IE_VEC vf vf_swap_pairs(vf a) { IE_LANES(a.v[l ^ 1u]); }
/* even and odd elements of the 2 * IE_VW floats a, b */
IE_VEC void vf_unzip(vf a, vf b, vf *even, vf *odd) {
    vf e, o;
    for (uint32_t l = 0; l < 4; l++) {
        e.v[l] = a.v[2 * l], o.v[l] = a.v[2 * l + 1];
        e.v[4 + l] = b.v[2 * l], o.v[4 + l] = b.v[2 * l + 1];
    }
    *even = e;
    *odd = o;
}
/* the halving tree over the lanes: v[l] += v[l + h] for h = IE_VW / 2, ..., 1 */
IE_VEC float vf_tree(vf a) {
    return ((a.v[0] + a.v[4]) + (a.v[2] + a.v[6])) + ((a.v[1] + a.v[5]) + (a.v[3] + a.v[7]));
}
IE_VEC float vf_hmax(vf a) {
    float m = a.v[0];
    for (uint32_t l = 1; l < 8; l++) m = a.v[l] > m ? a.v[l] : m;
    return m;
}
/* a[i] holds IE_VPOS times 8 partial sums; lane p of the result is the halving tree 4, 2, 1 of the p-th 8 */
IE_VEC vf vf_tree8(const vf a[8]) { IE_LANES(vf_tree(a[l])); }
#undef IE_LANES

#else

/* halving tree 2, 1 within each four lanes of the four inputs: lane 4 i + j of the result is the tree of lanes 4 i .. of
 * the j-th input */
#define IE_TREE4(P, T, a, b, c, d)                                                                                              \
    const T u = P##_add_ps(IE_LO(P, a, b), IE_HI(P, a, b)), v = P##_add_ps(IE_LO(P, c, d), IE_HI(P, c, d));                     \
    const T r = P##_add_ps(P##_shuffle_ps(u, v, 0x88), P##_shuffle_ps(u, v, 0xDD))
#define IE_LO(P, a, b) P##_castpd_ps(P##_unpacklo_pd(P##_castps_pd(a), P##_castps_pd(b)))
#define IE_HI(P, a, b) P##_castpd_ps(P##_unpackhi_pd(P##_castps_pd(a), P##_castps_pd(b)))

IE_VEC float ie_tree4(__m128 a) {
    a = _mm_add_ps(a, _mm_movehl_ps(a, a));
    return _mm_cvtss_f32(_mm_add_ss(a, _mm_movehdup_ps(a)));
}
IE_VEC float ie_max4(__m128 a) {
    a = _mm_max_ps(a, _mm_movehl_ps(a, a));
    return _mm_cvtss_f32(_mm_max_ss(a, _mm_movehdup_ps(a)));
}
IE_VEC __m128 ie_half_add(__m256 a) { return _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1)); }
IE_VEC __m128 ie_half_max(__m256 a) { return _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1)); }

#if IE_VW == 16u
IE_VEC vf vf_rep8(const float *p) { return _mm512_broadcast_f32x8(_mm256_loadu_ps(p)); }
IE_VEC vf vf_dup_even(vf a) { return _mm512_moveldup_ps(a); }
IE_VEC vf vf_dup_odd(vf a) { return _mm512_movehdup_ps(a); }
IE_VEC vf vf_swap_pairs(vf a) { return _mm512_permute_ps(a, 0xB1); }
IE_VEC void vf_unzip(vf a, vf b, vf *even, vf *odd) {
    const vi e = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    *even = _mm512_permutex2var_ps(a, e, b);
    *odd = _mm512_permutex2var_ps(a, vi_add(e, vi_set1(1)), b);
}
IE_VEC float vf_tree(vf a) {
    return ie_tree4(ie_half_add(_mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1))));
}
IE_VEC float vf_hmax(vf a) {
    return ie_max4(ie_half_max(_mm256_max_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1))));
}
/* halves of two vectors: four positions' lanes l + (l + 4) */
IE_VEC vf ie_tree8_first(vf a, vf b) { return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xDD)); }
IE_VEC vf vf_tree8(const vf a[8]) {
    vf s = ie_tree8_first(a[0], a[1]), t = ie_tree8_first(a[2], a[3]);
    vf x = ie_tree8_first(a[4], a[5]), y = ie_tree8_first(a[6], a[7]);
    IE_TREE4(_mm512, vf, s, t, x, y);
    /* lane 4 i + j holds position 4 j + i */
    return _mm512_permutexvar_ps(_mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), r);
}
#else
IE_VEC vf vf_rep8(const float *p) { return vf_load(p); }
IE_VEC vf vf_dup_even(vf a) { return _mm256_moveldup_ps(a); }
IE_VEC vf vf_dup_odd(vf a) { return _mm256_movehdup_ps(a); }
IE_VEC vf vf_swap_pairs(vf a) { return _mm256_permute_ps(a, 0xB1); }
IE_VEC void vf_unzip(vf a, vf b, vf *even, vf *odd) {
    vf e = _mm256_shuffle_ps(a, b, 0x88), o = _mm256_shuffle_ps(a, b, 0xDD); /* a0 a2 b0 b2 | a4 a6 b4 b6 */
    *even = _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(e), 0xD8));
    *odd = _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(o), 0xD8));
}
IE_VEC float vf_tree(vf a) { return ie_tree4(ie_half_add(a)); }
IE_VEC float vf_hmax(vf a) { return ie_max4(ie_half_max(a)); }
IE_VEC vf ie_tree8_first(vf a, vf b) {
    return _mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
}
IE_VEC vf vf_tree8(const vf a[8]) {
    vf s = ie_tree8_first(a[0], a[4]), t = ie_tree8_first(a[1], a[5]);
    vf x = ie_tree8_first(a[2], a[6]), y = ie_tree8_first(a[3], a[7]);
    IE_TREE4(_mm256, vf, s, t, x, y);
    return r;
}
#endif
#undef IE_TREE4
#undef IE_LO
#undef IE_HI
#endif

#endif
