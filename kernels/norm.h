/* RMSNorm of a row by a workgroup of 256 lanes: rows.c, and the end of a matrix kernel (gemv.c). */
#ifndef IE_KERNEL_NORM_H
#define IE_KERNEL_NORM_H

#include "q8.h"

/* A wave's part of a row's sum of squares, to sums[wave]; wave is one of the first eight. LOADS are in flight, at most 32. */
IE_INLINE void row_squares(IE_GLOBAL const float *x, uint32_t n, uint32_t wave, const uint32_t LOADS, IE_LDS float *sums) {
    float p = 0.0f;
#pragma unroll 1
    for (uint32_t i = wave * 32u + ie_lane(); i < n; i += LOADS * 256u) {
        float v[32]; /* the zeros beyond the row change nothing */
#pragma unroll
        for (uint32_t k = 0; k < LOADS; k++) v[k] = i + 256u * k < n ? x[i + 256u * k] : 0.0f;
#pragma unroll
        for (uint32_t k = 0; k < LOADS; k++) p = ie_fma(v[k], v[k], p);
    }
    p = ie_wave_tree(p);
    if (ie_lane() == 0u) sums[wave] = p;
}

/* After a barrier: what the row's elements are multiplied by before the weights. */
IE_INLINE float squares_factor(const IE_LDS float *sums, uint32_t n, float eps) {
    float mean = IE_TREE8(sums) / (float)n;
    return ie_div(1.0f, ie_sqrt(mean + eps));
}
/* Both, by a workgroup of eight waves; sums: 8 floats. */
IE_INLINE float norm_factor(IE_GLOBAL const float *x, uint32_t n, float eps, uint32_t wave, IE_LDS float *sums) {
    row_squares(x, n, wave, 16u, sums);
    ie_barrier();
    return squares_factor(sums, n, eps);
}

/* Workgroups of a launch have each written a part of row x; who ends last normalises it. By all lanes of all workgroups, 256 each;
 * sums: 16 floats, which nobody reads any more after a barrier. The arguments are read here, not kept from the kernel's begin on.
 * wave: as a scalar, so that no register keeps the lane's number in the workgroup. */
IE_INLINE void norm_last(IE_SCALAR const ie_abi_norm *a, IE_GLOBAL const float *x, uint32_t n, uint32_t wave, IE_LDS float *sums) {
    IE_LDS uint32_t *last = (IE_LDS uint32_t *)(sums + 8);
    const uint32_t tid = wave * 32u + ie_lane();
    ie_barrier();
    if (tid == 0u) {
        ie_release();
        *last = ie_atomic_add(a->count, 1u) + 1u == a->groups;
    }
    ie_barrier();
    if (!*last) return;
    ie_acquire();
    if (tid == 0u) *a->count = 0u;
    const ie_abi_out out = a->out;
    IE_GLOBAL const float *w = a->w;
    float r = norm_factor(x, n, a->eps, wave, sums);
    for (uint32_t b0 = wave, nblk = ie_nblk(n); b0 < nblk; b0 += 32u) {
        float y[4]; /* loads of four blocks at once */
#pragma unroll
        for (uint32_t k = 0; k < 4u; k++) {
            uint32_t i = (b0 + 8u * k) * IE_BLOCK + ie_lane();
            y[k] = i < n ? x[i] * r * w[i] : 0.0f;
        }
#pragma unroll
        for (uint32_t k = 0; k < 4u; k++)
            if (b0 + 8u * k < nblk) ie_out_put(&out, 0u, (b0 + 8u * k) * IE_BLOCK + ie_lane(), n, y[k]);
    }
}

#endif
