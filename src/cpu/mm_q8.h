/* Activations to Q8 blocks (core/ie_core.h: IE_Q8_*). */
#ifndef IE_MM_Q8_H
#define IE_MM_Q8_H

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

static bool q8_quantize(const float *x, uint32_t n, uint32_t *dst, uint32_t stride) {
    bool ok = true;
    vf v[IE_Q8_V];
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
