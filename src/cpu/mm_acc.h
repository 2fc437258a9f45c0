/* What a block adds to a row's accumulator, and what happens to a row's sum at its end: the one place where the order of
 * floating-point operations of a matrix product is written down for the CPU. Included once a level. */
#ifndef IE_MM_ACC_H
#define IE_MM_ACC_H

/* Independent halves of a dot where few tokens are in flight; 16-bit sums gain more from one long run. */
#define IE_CHAINS (IE_U8_RUNS ? 1u : 2u)

/* Keeps the compiler from loading the words of all blocks of a super-block at once, which costs more spills than it hides. */
#define IE_NO_HOIST() __asm__ volatile("" ::: "memory")

IE_VEC vf ie_q8_f(const uint32_t *x, uint32_t i) { return vf_bcast(x + i); }

/* acc after a block whose exact dot with the Q8 block x is `dot`. Formulas: ie_dot_kind. */
IE_VEC vf ie_dot_acc(ie_dot_kind kind, const ie_ublk *u, const uint32_t *x, vi dot, vf acc) {
    const vf da = ie_q8_f(x, IE_Q8_D);
    acc = vf_fma(vf_mul(u->d, da), vf_from_vi(dot), acc);
    if (kind == IE_DOT_MIN) acc = vf_fma(u->m, ie_q8_f(x, IE_Q8_SA), acc);
    if (kind == IE_DOT2_MIN) acc = vf_fma(vf_mul(u->m, da), vf_from_vi(ie_block_mins(u, x)), acc);
    return acc;
}

/* acc after the block u (weight bytes with `bias`, at most `umax`: simd_block.h) and the Q8 block x. `chains` > 1 where few
 * sums are in flight: the two halves of the dot are independent. */
IE_VEC vf ie_block_acc(ie_dot_kind kind, uint32_t bias, uint32_t umax, uint32_t chains, const ie_ublk *u, const uint32_t *x,
                       vf acc) {
    return ie_dot_acc(kind, u, x, ie_block_dot(kind, bias, umax, chains, u, x), acc);
}

#if IE_S8_BIAS
/* The same for `n` neighbouring tokens, at most 4. */
IE_VEC void ie_block_accs(ie_dot_kind kind, uint32_t bias, uint32_t n, const ie_ublk *u, const uint32_t *x, vf *acc) {
    vi dot[4];
    ie_block_dots(kind, bias, n, u, x, dot);
IE_UNROLL
    for (uint32_t t = 0; t < n; t++) acc[t] = ie_dot_acc(kind, u, x + t * IE_Q8_WORDS, dot[t], acc[t]);
}
#endif

/* The sum of rows row .. row + IE_VW of token t: bias and residual, then to y. */
IE_VEC void ie_mm_put(const ie_mm_args *a, uint32_t t, uint32_t row, vf sum) {
    const uint32_t rows = a->mat->rows;
    if (row >= rows) return;
    const uint32_t n = rows - row;
    float *y = a->y + (size_t)t * a->y_ld + row;
    const float *res = a->res ? a->res + (size_t)t * a->res_ld + row : NULL;
    if (n >= IE_VW) {
        if (a->bias) sum = vf_add(sum, vf_load(a->bias + row));
        if (res) sum = vf_add(vf_load(res), sum);
        vf_store(y, sum);
    } else {
        if (a->bias) sum = vf_add(sum, vf_load_n(a->bias + row, n));
        if (res) sum = vf_add(vf_load_n(res, n), sum);
        vf_store_n(y, sum, n);
    }
}

#endif
