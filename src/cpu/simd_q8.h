/* Activations to Q8 blocks (core/ie_core.h: IE_Q8_*). */
#ifndef IE_SIMD_Q8_H
#define IE_SIMD_Q8_H

#define IE_Q8_V (IE_BLOCK / IE_VW)

IE_VEC uint32_t ie_f32_bits(float f) {
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

/* One block from 32 floats: d = amax / 127 (0 where that is zero or subnormal), q = rint(x * (1 / d)). */
IE_VEC bool ie_q8_block(const vf *x, uint32_t *o) {
    vi amax = vi_zero(); /* the bits of |x| order as integers, infinities and NaNs last */
    for (uint32_t v = 0; v < IE_Q8_V; v++) amax = vi_maxu(amax, vi_and(vf_as_vi(x[v]), vi_set1(0x7FFFFFFF)));
    const uint32_t top = vi_hmaxu(amax);
    float max, d;
    memcpy(&max, &top, sizeof max);
    d = max / 127.0f;
    memset(o, 0, IE_Q8_WORDS * sizeof *o);
    if (top >= 0x7F800000u) return false;
    if (d < 0x1p-126f) return true;
    const vf id = vf_set1(1.0f / d);
    vi part[IE_Q8_V];
    for (uint32_t v = 0; v < IE_Q8_V; v++) {
        vi q = vi_from_vf_rne(vf_mul(x[v], id));
        q = vi_max(vi_min(q, vi_set1(127)), vi_set1(-127));
        vi_store_i8((int8_t *)o + v * IE_VW, q);
        part[v] = q;
    }
#if IE_VW == 16u
    const int32_t lo = vi_hadd(part[0]), hi = vi_hadd(part[1]);
#else
    const int32_t lo = vi_hadd(vi_add(part[0], part[1])), hi = vi_hadd(vi_add(part[2], part[3]));
#endif
    o[IE_Q8_D] = ie_f32_bits(d);
    o[IE_Q8_SA] = ie_f32_bits(d * (float)(lo + hi));
    o[IE_Q8_NSUM] = (uint32_t)-(lo + hi);
    o[IE_Q8_NLO] = (uint32_t)-lo;
    o[IE_Q8_NHI] = (uint32_t)-hi;
    return true;
}

#if IE_VW == 16u
/* Two neighbouring blocks at once, 64 floats; false, and nothing written, where one of them needs ie_q8_block's care. No q is
 * beyond 127: |x| (1 / d) exceeds it by a few roundings at most. Reductions leave their result in all lanes of a half (or
 * quarter) vector, so nothing passes through scalar registers. */
IE_VEC bool ie_q8_pair(const float *x, uint32_t *o, uint32_t step) {
    const __m512 a0 = vf_load(x), a1 = vf_load(x + 16), b0 = vf_load(x + 32), b1 = vf_load(x + 48);
    const vi abs = vi_set1(0x7FFFFFFF);
    const vi ma = vi_maxu(vi_and(vf_as_vi(a0), abs), vi_and(vf_as_vi(a1), abs));
    const vi mb = vi_maxu(vi_and(vf_as_vi(b0), abs), vi_and(vf_as_vi(b1), abs));
    vi m = vi_maxu(_mm512_shuffle_i64x2(ma, mb, 0x44), _mm512_shuffle_i64x2(ma, mb, 0xEE)); /* halves: of a, of b */
    m = vi_maxu(m, _mm512_shuffle_i64x2(m, m, 0xB1));
    m = vi_maxu(m, _mm512_shuffle_epi32(m, 0x4E));
    m = vi_maxu(m, _mm512_shuffle_epi32(m, 0xB1));
    /* lanes 0 and 2: the two largest */
    const __m128i top = _mm_unpacklo_epi64(_mm512_castsi512_si128(m), _mm512_extracti32x4_epi32(m, 2));
    const __m128 d = _mm_div_ps(_mm_castsi128_ps(top), _mm_set1_ps(127.0f));
    const __m128 good = _mm_and_ps(_mm_cmp_ps(d, _mm_set1_ps(0x1p-126f), _CMP_GE_OQ), _mm_cmp_ps(d, _mm_set1_ps(0x1p127f), _CMP_LT_OQ));
    if (_mm_movemask_ps(good) != 15) return false;
    const __m128 id = _mm_div_ps(_mm_set1_ps(1.0f), d);
    const vf ia = _mm512_broadcastss_ps(id), ib = _mm512_broadcastss_ps(_mm_movehl_ps(id, id));
    const vi wa = _mm512_packs_epi32(vi_from_vf_rne(vf_mul(a0, ia)), vi_from_vf_rne(vf_mul(a1, ia)));
    const vi wb = _mm512_packs_epi32(vi_from_vf_rne(vf_mul(b0, ib)), vi_from_vf_rne(vf_mul(b1, ib)));
    /* quarter i: words i of a's and b's halves; put in order: q of a, q of b */
    const vi q = _mm512_permutexvar_epi32(_mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), _mm512_packs_epi16(wa, wb));
    vi sum = _mm512_dpbusd_epi32(vi_zero(), vi_set1(0x01010101), q); /* quarters: first and last 16 q of a, of b */
    sum = vi_add(sum, _mm512_shuffle_epi32(sum, 0x4E));
    sum = vi_add(sum, _mm512_shuffle_epi32(sum, 0xB1));
    const vi both = vi_add(sum, _mm512_shuffle_i64x2(sum, sum, 0xB1));
    const vf dd = _mm512_insertf32x8(_mm512_broadcastss_ps(d), _mm256_broadcastss_ps(_mm_movehl_ps(d, d)), 1);
    const vi neg = vi_sub(vi_zero(), sum), neg_both = vi_sub(vi_zero(), both);
    /* words 8 .. 15 of both blocks: lane 8 i + j is word IE_Q8_D + j of block i */
    vi t = _mm512_maskz_mov_epi32(0x1818, neg); /* IE_Q8_NLO, _NHI */
    t = _mm512_mask_mov_epi32(t, 0x0404, neg_both);
    t = _mm512_mask_mov_epi32(t, 0x0202, vf_as_vi(vf_mul(dd, vf_from_vi(both))));
    t = _mm512_mask_mov_epi32(t, 0x0101, vf_as_vi(dd));
    vi_store(o, _mm512_shuffle_i64x2(q, t, 0x44));
    vi_store(o + step, _mm512_shuffle_i64x2(q, t, 0xEE));
    return true;
}
_Static_assert(IE_Q8_D == 8 && IE_Q8_SA == 9 && IE_Q8_NSUM == 10 && IE_Q8_NLO == 11 && IE_Q8_NHI == 12, "ie_q8_pair");
#endif

static bool q8_quantize(const float *x, uint32_t n, uint32_t *dst, uint32_t stride) {
    bool ok = true;
    vf v[IE_Q8_V];
#if IE_VW == 16u
    const uint32_t step = stride * IE_Q8_WORDS;
    for (; n >= 2 * IE_BLOCK; n -= 2 * IE_BLOCK, x += 2 * IE_BLOCK, dst += 2 * step) {
        if (ie_q8_pair(x, dst, step)) continue;
        for (uint32_t b = 0; b < 2; b++) {
            for (uint32_t i = 0; i < IE_Q8_V; i++) v[i] = vf_load(x + b * IE_BLOCK + i * IE_VW);
            ok &= ie_q8_block(v, dst + b * step);
        }
    }
#endif
    for (; n >= IE_BLOCK; n -= IE_BLOCK, x += IE_BLOCK, dst += stride * IE_Q8_WORDS) {
        for (uint32_t i = 0; i < IE_Q8_V; i++) v[i] = vf_load(x + i * IE_VW);
        ok &= ie_q8_block(v, dst);
    }
    if (n) {
        float last[IE_BLOCK] = {0};
        memcpy(last, x, n * sizeof *x);
        for (uint32_t i = 0; i < IE_Q8_V; i++) v[i] = vf_load(last + i * IE_VW);
        ok &= ie_q8_block(v, dst);
    }
    return ok;
}

#endif
