/* Ops over rows: RMSNorm, Q8, SwiGLU, and the gather of rows whose logits are wanted.
 *
 *   ie_rmsnorm  y = (x * (1 / sqrt(ss / n + eps))) * w, ss in the order sum256: lane j of 256 adds the squares of elements
 *               j, j + 256, ...; a halving tree in each of the 8 waves, then one over their sums
 *   ie_quant    Q8 of rows
 *   ie_swiglu   y = silu(x[i]) * x[n + i]
 *   ie_gather   rows batch.out[j] (OP_ROWS)
 *
 * Operands: f32 rows; outputs f32 and / or Q8, a wave a block of 32 values (q8.h).
 * Launch: 256 lanes; x = shares of a row, y = row. Each share of a norm adds up the whole row (it comes from L2; a launch of one
 *   workgroup would wait three times as long for its part of the stores) and writes its own blocks.
 * Bytes moved: 4 n read for each share (norm: once more from L0), n to 4 n written. Launches of this family are bound by latency.
 * LDS: norm 32 bytes; others none. Registers: budgets.txt. */
#include "norm.h"

IE_KERNEL(256) ie_rmsnorm(ie_abi_rows a) {
    static IE_LDS_VAR float sums[8];
    uint32_t t = ie_wg_y(), nblk = ie_nblk(a.n);
    IE_GLOBAL const float *x = a.x + (uint64_t)t * a.x_ld;
    uint32_t b = ie_wg_x() * 8u + ie_wave(), i = b * IE_BLOCK + ie_lane();
    ie_dep_go();
    float w = i < a.n ? a.w[i] : 0.0f;
    ie_dep_wait();
    float v = i < a.n ? x[i] : 0.0f;
    float r = norm_factor(x, a.n, a.eps, ie_wave(), sums);
    while (b < nblk) {
        ie_out_put(&a.out, t, i, a.n, v * r * w);
        b += a.shares * 8u, i = b * IE_BLOCK + ie_lane();
        if (i < a.n) v = x[i], w = a.w[i];
    }
}

IE_KERNEL(256) ie_quant(ie_abi_rows a) {
    ie_dep();
    uint32_t t = ie_wg_y(), nblk = ie_nblk(a.n);
    IE_GLOBAL const float *x = a.x + (uint64_t)t * a.x_ld;
    for (uint32_t b = ie_wg_x() * 8u + ie_wave(); b < nblk; b += a.shares * 8u) {
        uint32_t i = b * IE_BLOCK + ie_lane();
        ie_out_put(&a.out, t, i, a.n, i < a.n ? x[i] : 0.0f);
    }
}

IE_KERNEL(256) ie_swiglu(ie_abi_rows a) {
    ie_dep();
    uint32_t t = ie_wg_y(), nblk = ie_nblk(a.n);
    IE_GLOBAL const float *x = a.x + (uint64_t)t * a.x_ld;
    for (uint32_t b = ie_wg_x() * 8u + ie_wave(); b < nblk; b += a.shares * 8u) {
        uint32_t i = b * IE_BLOCK + ie_lane();
        float y = i < a.n ? ie_silu(x[i]) * x[a.n + i] : 0.0f;
        ie_out_put(&a.out, t, i, a.n, y);
    }
}

IE_KERNEL(256) ie_gather(ie_abi_gather a) {
    ie_dep();
    uint32_t j = ie_wg_y(), i = ie_wg_x() * 256u + ie_tid();
    if (i < a.n) a.y[(uint64_t)j * a.y_ld + i] = a.x[(uint64_t)a.batch->out[j] * a.x_ld + i];
}
