/* Vector forms of core/ie_math.h: the same operations in the same order on lanes, so the same bits. Included after one of
 * the SIMD vocabularies. */
#ifndef IE_SIMD_MATH_H
#define IE_SIMD_MATH_H

#include "ie_math.h"

IE_VEC vf vf_exp_parts(vf x, vf *w, vf *s1, vf *s2) {
    const vf magic = vf_set1(IE_MAGIC);
    vf t = vf_fma(x, vf_set1(0x1.715476p+0f), magic);
    vf nf = vf_sub(t, magic);
    vi n = vi_sub(vf_as_vi(t), vi_set1((int32_t)IE_MAGIC_BITS));
    vf r0 = vf_fma(nf, vf_set1(-0x1.62e4p-1f), x);
    vf r = vf_fma(nf, vf_set1(-0x1.7f7d1cp-20f), r0);
    vf c = vf_fma(nf, vf_set1(-0x1.7f7d1cp-20f), vf_sub(r0, r));
    vf q = vf_set1(0x1.6ac10ep-10f);
    q = vf_fma(q, r, vf_set1(0x1.123da4p-7f));
    q = vf_fma(q, r, vf_set1(0x1.555858p-5f));
    q = vf_fma(q, r, vf_set1(0x1.55548cp-3f));
    q = vf_fma(q, r, vf_set1(0x1.fffffcp-2f));
    vf one = vf_set1(1.0f), h = vf_add(one, r);
    vf l = vf_sub(r, vf_sub(h, one));
    *w = vf_add(l, vf_fma(q, vf_mul(r, r), c));
    vi n1 = vi_shr(vi_add(n, vi_set1(1024)), 1);
    *s1 = vi_as_vf(vi_shl(vi_sub(n1, vi_set1(385)), 23));
    *s2 = vi_as_vf(vi_shl(vi_add(vi_sub(n, n1), vi_set1(639)), 23));
    return h;
}

IE_VEC vf vf_clamp(vf x, float lo, float hi) { return vf_min(vf_set1(hi), vf_max(vf_set1(lo), x)); }

IE_VEC vf vf_exp(vf x) {
    vf w, s1, s2, h = vf_exp_parts(vf_clamp(x, -110.0f, 89.0f), &w, &s1, &s2);
    return vf_mul(vf_mul(vf_add(h, w), s1), s2);
}

IE_VEC vf vf_over_1pexp(vf num, vf x) {
    vf w, s1, s2, h = vf_exp_parts(vf_neg(x), &w, &s1, &s2);
    vf z = vf_select(vf_lt(x, vf_zero()), vf_set1(0x1p-32f), vf_set1(1.0f));
    s2 = vf_mul(s2, z);
    h = vf_mul(vf_mul(h, s1), s2);
    w = vf_mul(vf_mul(w, s1), s2);
    vf a = vf_max(h, z), b = vf_min(z, h);
    vf d = vf_add(a, b);
    d = vf_add(d, vf_add(vf_sub(b, vf_sub(d, a)), w));
    return vf_mul(vf_div(num, d), z);
}

IE_VEC vf vf_sigmoid(vf x) { return vf_over_1pexp(vf_set1(1.0f), vf_clamp(x, -110.0f, 110.0f)); }
IE_VEC vf vf_silu(vf x) {
    vf c = vf_max(vf_set1(-110.0f), x);
    return vf_over_1pexp(c, vf_min(vf_set1(110.0f), c));
}

#endif
