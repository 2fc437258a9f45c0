/* One token: the weights are streamed once, straight from the units through registers. */
#ifndef IE_MM_GEMV_H
#define IE_MM_GEMV_H

#define IE_GEMV_V 2u /* vectors of rows at a time: independent sums that hide each other's latency */

/* Rows row .. row + nv * IE_VW, inside one tile. */
IE_VEC void ie_gemv_rows(ie_format_id f, uint32_t nv, const ie_mm_args *a, uint32_t row) {
    const uint32_t nblk = ie_nblk(a->mat->cols), step = ie_u_blocks(f), nseg = ie_nseg(nblk), r = row % IE_TILE_ROWS;
    const uint32_t *unit = a->w + (size_t)ie_unit(row / IE_TILE_ROWS, 0, nblk / step) * ie_u_unit_words(f);
    const uint32_t *x = a->x;
    vf tot[IE_GEMV_V] = {vf_zero(), vf_zero()}, acc[IE_GEMV_V];
    for (uint32_t s = 0, b = 0; s < nseg; s++) {
        const uint32_t end = ie_seg_begin(s + 1, nblk);
IE_UNROLL
        for (uint32_t v = 0; v < nv; v++) acc[v] = vf_zero();
        for (; b < end; b += step, unit += ie_u_unit_words(f)) {
            ie_uhead head[IE_GEMV_V];
            ie_uptr at[IE_GEMV_V];
IE_UNROLL
            for (uint32_t v = 0; v < nv; v++) {
                at[v] = ie_u_at(unit, r + v * IE_VW);
                ie_u_head(f, &head[v], at[v]);
            }
IE_UNROLL
            for (uint32_t i = 0; i < step; i++, x += IE_Q8_WORDS) {
                if (step > 1) IE_NO_HOIST();
IE_UNROLL
                for (uint32_t v = 0; v < nv; v++) {
                    ie_ublk u;
                    ie_u_block(f, &u, &head[v], at[v], i);
                    acc[v] = ie_block_acc(ie_u_kind(f), ie_u_bias(f), ie_u_max(f), IE_CHAINS, &u, x, acc[v]);
                }
            }
        }
IE_UNROLL
        for (uint32_t v = 0; v < nv; v++) tot[v] = s ? vf_add(tot[v], acc[v]) : acc[v];
    }
IE_UNROLL
    for (uint32_t v = 0; v < nv; v++) ie_mm_put(a, 0, row + v * IE_VW, tot[v]);
}

IE_VEC void ie_gemv(ie_format_id f, const ie_mm_args *a, uint32_t row0, uint32_t row1) {
    uint32_t row = row0;
#if IE_VW == 16u
    if (row % IE_TILE_ROWS && row < row1) {
        ie_gemv_rows(f, 1, a, row);
        row += IE_VW;
    }
    for (; row + IE_VW < row1; row += 2 * IE_VW) ie_gemv_rows(f, 2, a, row);
    if (row < row1) ie_gemv_rows(f, 1, a, row);
#else
    for (; row < row1; row += 2 * IE_VW) ie_gemv_rows(f, 2, a, row);
#endif
}

#define IE_GEMV(F) static __attribute__((noinline)) void gemv_##F(const ie_mm_args *a, uint32_t row0, uint32_t row1) { \
    ie_gemv(IE_F_##F, a, row0, row1); }
IE_GEMV(Q4_0)
IE_GEMV(Q4_1)
IE_GEMV(Q5_0)
IE_GEMV(Q5_1)
IE_GEMV(Q8_0)
IE_GEMV(Q2_K)
IE_GEMV(Q3_K)
IE_GEMV(Q4_K)
IE_GEMV(Q5_K)
IE_GEMV(Q6_K)
IE_GEMV(IQ4_NL)
IE_GEMV(IQ4_XS)
#undef IE_GEMV

#endif
