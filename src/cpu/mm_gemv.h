/* One to eight tokens: the weights are streamed once, straight from the units through registers. */
#ifndef IE_MM_GEMV_H
#define IE_MM_GEMV_H

#define IE_GEMV_T 8u /* tokens at most */
#define IE_GEMV_AHEAD 4u /* units: with more tokens the arithmetic of a unit is too long for the processor to look past it */
#define IE_GEMV_V (IE_TILE_ROWS / IE_VW) /* vectors of rows at a time at most: a tile, so that its lines are read one after the other */
#define IE_GEMV_HALF (IE_MM_ROWS / IE_VW) /* vectors of half a tile */
/* Up to so many tokens the order in which a block's lines are read is given: hardware prefetchers follow addresses that go up line by
 * line, and with two passes over a block, or loads in the order in which sums want them, up to half of the bandwidth is lost. With two
 * vectors in 32 registers all words are loaded first (ie_u_words); four vectors in 16 registers only touch the lines. */
#define IE_GEMV_TURN 4u

/* Sums of nt tokens (of which a->t exist) of rows row .. row + nv * IE_VW. */
static __attribute__((noinline, unused)) void ie_gemv_put(const ie_mm_args *a, uint32_t row, uint32_t nv, const float *sum) {
    for (uint32_t t = 0; t < a->t; t++)
        for (uint32_t v = 0; v < nv; v++) ie_mm_put(a, t, row + v * IE_VW, vf_load(sum + (t * nv + v) * IE_VW));
}

/* Rows row .. row + nv * IE_VW, inside one tile, for nt tokens (of which a->t exist: the group's others are computed and
 * dropped). */
IE_VEC void ie_gemv_rows(ie_format_id f, uint32_t nv, uint32_t nt, const ie_mm_args *a, uint32_t row) {
    const uint32_t nblk = ie_nblk(a->mat->cols), step = ie_u_blocks(f), nseg = ie_nseg(nblk), r = row % IE_TILE_ROWS;
    const uint32_t *unit = a->w + (size_t)ie_unit(row / IE_TILE_ROWS, 0, nblk / step) * ie_u_unit_words(f);
    const uint32_t *x = a->x, x_step = (nt > 1 ? IE_DECODE_T : 1u) * IE_Q8_WORDS;
    const bool turn = nt <= IE_GEMV_TURN && IE_VW == 16u, touch = nv == IE_GEMV_V && IE_VW < 16u && ie_u_block_n(f) > 4u;
    vf tot[IE_GEMV_V][IE_GEMV_T], acc[IE_GEMV_V][IE_GEMV_T];
IE_UNROLL
    for (uint32_t v = 0; v < nv; v++)
IE_UNROLL
        for (uint32_t t = 0; t < nt; t++) tot[v][t] = vf_zero();
    for (uint32_t s = 0, b = 0; s < nseg; s++) {
        const uint32_t end = ie_seg_begin(s + 1, nblk);
IE_UNROLL
        for (uint32_t v = 0; v < nv; v++)
IE_UNROLL
            for (uint32_t t = 0; t < nt; t++) acc[v][t] = vf_zero();
        for (; b < end; b += step, unit += ie_u_unit_words(f)) {
            ie_uhead head[IE_GEMV_V];
            ie_uptr at[IE_GEMV_V];
            if (nt > 4)
IE_UNROLL
                for (uint32_t i = 0; i < ie_u_unit_words(f); i += 16u) __builtin_prefetch(unit + IE_GEMV_AHEAD * ie_u_unit_words(f) + i);
IE_UNROLL
            for (uint32_t v = 0; v < nv; v++) {
                at[v] = ie_u_at(unit, r + v * IE_VW);
                if (!turn) ie_u_head(f, &head[v], at[v]);
            }
            vi q[IE_GEMV_V][8];
            if (turn) {
                ie_u_words(q, at, nv, ie_u_head_at(f), ie_u_head_n(f));
IE_UNROLL
                for (uint32_t v = 0; v < nv; v++) ie_u_head_of(f, &head[v], at[v], q[v]);
            }
IE_UNROLL
            for (uint32_t i = 0; i < step; i++, x += x_step) {
                if (step > 1) IE_NO_HOIST();
                if (turn) ie_u_words(q, at, nv, ie_u_block_at(f, i), ie_u_block_n(f));
                if (touch)
IE_UNROLL
                    for (uint32_t w = 0; w < ie_u_block_words(f); w += 16u) __builtin_prefetch(unit + ie_u_block_at(f, i) + w);
IE_UNROLL
                for (uint32_t v = 0; v < nv; v++) {
                    ie_ublk u;
                    if (nt > 4 || nv > 2) IE_NO_HOIST(); /* sums take the registers: activations are read again for each vector */
                    if (turn) ie_u_block_of(f, &u, &head[v], q[v], i);
                    else ie_u_block(f, &u, &head[v], at[v], i);
IE_UNROLL
                    for (uint32_t t = 0; t < nt; t++)
                        acc[v][t] = ie_block_acc(ie_u_kind(f), ie_u_bias(f), ie_u_max(f), nt > 4 ? 1u : IE_CHAINS, &u,
                                                 x + t * IE_Q8_WORDS, acc[v][t]);
                }
            }
        }
IE_UNROLL
        for (uint32_t v = 0; v < nv; v++)
IE_UNROLL
            for (uint32_t t = 0; t < nt; t++) tot[v][t] = s ? vf_add(tot[v][t], acc[v][t]) : acc[v][t];
    }
    if (nt > 4) { /* by a call: less code */
        _Alignas(64) float sum[IE_GEMV_T * IE_GEMV_V * IE_VW];
IE_UNROLL
        for (uint32_t t = 0; t < nt; t++)
IE_UNROLL
            for (uint32_t v = 0; v < nv; v++) vf_store(sum + (t * nv + v) * IE_VW, tot[v][t]);
        ie_gemv_put(a, row, nv, sum);
        return;
    }
IE_UNROLL
    for (uint32_t t = 0; t < nt; t++)
IE_UNROLL
        for (uint32_t v = 0; v < nv; v++)
            if (t < a->t) ie_mm_put(a, t, row + v * IE_VW, tot[v][t]);
}

IE_VEC void ie_gemv(ie_format_id f, uint32_t nt, const ie_mm_args *a, uint32_t row0, uint32_t row1) {
    for (uint32_t row = row0, n; row < row1; row += n) { /* half a tile at either end; each form stands once, they are long */
        n = row % IE_TILE_ROWS || row + IE_MM_ROWS >= row1 ? IE_MM_ROWS : IE_TILE_ROWS;
        if (n == IE_TILE_ROWS) ie_gemv_rows(f, IE_GEMV_V, nt, a, row);
        else ie_gemv_rows(f, IE_GEMV_HALF, nt, a, row);
    }
}

#define IE_GEMV(F) \
    static __attribute__((noinline)) void gemv_##F##_1(const ie_mm_args *a, uint32_t row0, uint32_t row1) { \
        ie_gemv(IE_F_##F, 1, a, row0, row1); \
    } \
    static __attribute__((noinline)) void gemv_##F##_2(const ie_mm_args *a, uint32_t row0, uint32_t row1) { \
        ie_gemv(IE_F_##F, 2, a, row0, row1); \
    } \
    static __attribute__((noinline, unused)) void gemv_##F##_4(const ie_mm_args *a, uint32_t row0, uint32_t row1) { \
        ie_gemv(IE_F_##F, 4, a, row0, row1); \
    }
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

/* More than four tokens, where a unit is one block: super-blocks would take too much code, and gain less from it. */
#define IE_GEMV8(F) \
    static __attribute__((noinline, unused)) void gemv_##F##_8(const ie_mm_args *a, uint32_t row0, uint32_t row1) { \
        ie_gemv(IE_F_##F, 8, a, row0, row1); \
    }
IE_GEMV8(Q4_0)
IE_GEMV8(Q4_1)
IE_GEMV8(Q5_0)
IE_GEMV8(Q5_1)
IE_GEMV8(Q8_0)
IE_GEMV8(IQ4_NL)
#undef IE_GEMV8

#endif
