/* Float matrices (F32, F16, BF16) times f32 rows: lane = row, k ascending, one fma each, for any number of tokens. */
#ifndef IE_MM_FLOAT_H
#define IE_MM_FLOAT_H

#if IE_VW == 16u
#define IE_FLOAT_NT 8u /* tokens whose sums stay in registers, times two vectors of rows */
#else
#define IE_FLOAT_NT 4u
#endif

IE_VEC uint32_t ie_float_unit_words(ie_format_id f) { return f == IE_F_F32 ? 32u * 32u : 32u * 16u; }

/* Rows row .. row + nv * IE_VW (inside one tile), tokens t0 .. t0 + nt. */
IE_VEC void ie_float_rows(ie_format_id f, uint32_t nv, uint32_t nt, const ie_mm_args *a, uint32_t t0, uint32_t row) {
    const uint32_t cols = a->mat->cols, nblk = ie_nblk(cols), nseg = ie_nseg(nblk), r = row % IE_TILE_ROWS;
    const uint32_t *units = a->w + (size_t)ie_unit(row / IE_TILE_ROWS, 0, nblk) * ie_float_unit_words(f);
    const float *x = (const float *)a->x + (size_t)t0 * a->x_ld;
    _Alignas(64) float tot[2][IE_FLOAT_NT][IE_VW] = {0};
    for (uint32_t s = 0; s < nseg; s++) {
        vf acc[2][IE_FLOAT_NT];
IE_UNROLL
        for (uint32_t t = 0; t < nt; t++) acc[0][t] = acc[1][t] = vf_zero();
        for (uint32_t b = ie_seg_begin(s, nblk); b < ie_seg_begin(s + 1, nblk); b++) {
            const uint32_t *unit = units + (size_t)b * ie_float_unit_words(f);
            const uint32_t n = cols - b * IE_BLOCK < IE_BLOCK ? cols - b * IE_BLOCK : IE_BLOCK;
            const float *xb = x + b * IE_BLOCK;
            for (uint32_t k = 0; k < n; k++) {
                vf w0 = ie_float_at(f, unit, k, r), w1 = nv > 1 ? ie_float_at(f, unit, k, r + IE_VW) : w0;
IE_UNROLL
                for (uint32_t t = 0; t < nt; t++) {
                    vf xt = vf_set1(xb[(size_t)t * a->x_ld + k]);
                    acc[0][t] = vf_fma(w0, xt, acc[0][t]);
                    if (nv > 1) acc[1][t] = vf_fma(w1, xt, acc[1][t]);
                }
            }
        }
IE_UNROLL
        for (uint32_t t = 0; t < nt; t++)
IE_UNROLL
            for (uint32_t v = 0; v < nv; v++)
                vf_store(tot[v][t], s ? vf_add(vf_load(tot[v][t]), acc[v][t]) : acc[v][t]);
    }
    for (uint32_t t = 0; t < nt; t++)
        for (uint32_t v = 0; v < nv; v++) ie_mm_put(a, t0 + t, row + v * IE_VW, vf_load(tot[v][t]));
}

IE_VEC void ie_float_nv(ie_format_id f, uint32_t nv, const ie_mm_args *a, uint32_t row) {
    uint32_t t = 0;
    for (; t + IE_FLOAT_NT <= a->t; t += IE_FLOAT_NT) ie_float_rows(f, nv, IE_FLOAT_NT, a, t, row);
    for (; t + 2 <= a->t; t += 2) ie_float_rows(f, nv, 2, a, t, row);
    if (t < a->t) ie_float_rows(f, nv, 1, a, t, row);
}

/* IE_MM_ROWS and IE_TILE_ROWS are one and two vectors at 16 lanes; at 8 lanes two vectors are IE_MM_ROWS. */
IE_VEC void ie_float_mm(ie_format_id f, const ie_mm_args *a, uint32_t row0, uint32_t row1) {
    for (uint32_t row = row0; row < row1;) {
        if (IE_VW == 16u && (row % IE_TILE_ROWS || row + IE_VW >= row1)) {
            ie_float_nv(f, 1, a, row);
            row += IE_VW;
        } else {
            ie_float_nv(f, 2, a, row);
            row += 2 * IE_VW;
        }
    }
}

#define IE_FLOAT_FN(F) static __attribute__((noinline)) void float_##F(const ie_mm_args *a, uint32_t row0, uint32_t row1) { \
    ie_float_mm(IE_F_##F, a, row0, row1); }
IE_FLOAT_FN(F32)
IE_FLOAT_FN(F16)
IE_FLOAT_FN(BF16)
#undef IE_FLOAT_FN

#endif
