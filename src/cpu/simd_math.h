/* Vector forms of core/ie_math.h: the same roundings in the same order on lanes, so the same bits (scalings that round nothing are
 * joined). Included after one of the SIMD vocabularies. */
#ifndef IE_SIMD_MATH_H
#define IE_SIMD_MATH_H

#include "ie_math.h"

/* ie_exp_parts without the powers of two: h, w, and t, whose bits are those of IE_MAGIC plus n. */
IE_VEC vf vf_exp_sum(vf x, vf *w, vf *t) {
    const vf magic = vf_set1(IE_MAGIC);
    *t = vf_fma(x, vf_set1(0x1.715476p+0f), magic);
    vf nf = vf_sub(*t, magic);
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
    return h;
}
/* 2^n * z from such a t: the magic number's low 9 bits are zero. z: a power of two; the product must be normal. */
IE_VEC vf vf_exp_scale(vf t, vf z) { return vi_as_vf(vi_add(vi_shl(vf_as_vi(t), 23), vf_as_vi(z))); }
_Static_assert(IE_MAGIC_BITS % 512u == 0, "vf_exp_scale");

IE_VEC vf vf_clamp(vf x, float lo, float hi) { return vf_min(vf_set1(hi), vf_max(vf_set1(lo), x)); }

IE_VEC vf vf_exp(vf x) {
    vf w, t, h = vf_exp_sum(vf_clamp(x, -110.0f, 89.0f), &w, &t);
    vi n = vi_sub(vf_as_vi(t), vi_set1((int32_t)IE_MAGIC_BITS)), n1 = vi_shr(vi_add(n, vi_set1(1024)), 1);
    vf s1 = vi_as_vf(vi_shl(vi_sub(n1, vi_set1(385)), 23)), s2 = vi_as_vf(vi_shl(vi_add(vi_sub(n, n1), vi_set1(639)), 23));
    return vf_mul(vf_mul(vf_add(h, w), s1), s2);
}

/* x in [-110, 86] or NaN: from 86 up e^-x adds nothing to 1, as little as e^-86 does. In this range z 2^n is a normal number and h
 * and w times it are what they are times ie_exp_parts' two factors: at most the last product is rounded, in both. */
IE_VEC vf vf_over_1pexp(vf num, vf x) {
    vf w, t, h = vf_exp_sum(vf_neg(x), &w, &t);
    vf z = vf_select(vf_lt(x, vf_zero()), vf_set1(0x1p-32f), vf_set1(1.0f)), s = vf_exp_scale(t, z);
    h = vf_mul(h, s);
    w = vf_mul(w, s);
    vf a = vf_max(h, z), b = vf_min(z, h);
    vf d = vf_add(a, b);
    d = vf_add(d, vf_add(vf_sub(b, vf_sub(d, a)), w));
    return vf_mul(vf_div(num, d), z);
}

IE_VEC vf vf_sigmoid(vf x) { return vf_over_1pexp(vf_set1(1.0f), vf_clamp(x, -110.0f, 86.0f)); }
IE_VEC vf vf_silu(vf x) {
    vf c = vf_max(vf_set1(-110.0f), x);
    return vf_over_1pexp(c, vf_min(vf_set1(86.0f), c));
}

#endif
