/* The matrix kernels of the CPU backend: y[t][r] = row r . x[t] (+ bias[r]) (+ res[t][r]), for every weight format.
 *
 * One family for all T: T = 1 (decode), 2..16 (several sequences, drafts) and up to IE_MAX_T (prefill) give each
 * token the same bits, at every SIMD level, for any split of the rows among threads. The order of a row's sum is
 * docs/NUMERICS.md's: blocks in sequence inside a segment, segments left to right (core/ie_core.h, quant/quant.h). */
#ifndef IE_MM_H
#define IE_MM_H

#include "../op.h"
#include "level.h"

#define IE_MM_ROWS 16u /* rows are shared out among threads in multiples of this (half a tile) */

typedef struct {
    const ie_mat *mat;
    const uint32_t *w; /* the matrix's units (word-major), 64-byte aligned */
    const void *x;     /* Q8 blocks in the layout of ie_q8_at with group ie_q8_group(t), 64-byte aligned; or for IE_FLOAT
                          formats f32 rows, of which exactly mat->cols floats a token are read */
    uint32_t x_ld;     /* IE_FLOAT: floats between tokens */
    uint32_t t;        /* tokens, 1 .. IE_MAX_T. Q8 blocks of the tokens up to the next multiple of 16 are read too (t > 1) but
                          their values do not matter */
    const float *bias; /* mat->rows floats, or NULL */
    const float *res;  /* t rows of mat->rows floats, or NULL */
    uint32_t res_ld;   /* floats between tokens */
    const uint32_t *next; /* units that the thread reads after these rows': asked for ahead (NULL: those behind them) */
    float *y;          /* t rows of mat->rows floats; may be res, or overlap nothing */
    uint32_t y_ld;
} ie_mm_args;

/* Kernels of one SIMD level. */
typedef struct {
    ie_level level;
    /* Rows [row0, row1) for all tokens; row0 is a multiple of IE_MM_ROWS, row1 one too or mat->rows. Rows of a whole tile
     * (32) in one call are faster than its halves apart. Uses up to 160 KB of stack, allocates nothing. */
    void (*mm)(const ie_mm_args *a, uint32_t row0, uint32_t row1);
    /* One token's Q8 blocks: n floats (n >= 1; a last partial block is padded with zeros) to ie_nblk(n) blocks of 16 words,
     * `stride` blocks apart: dst = base + ie_q8_at(t, 0, nblk, g) * IE_Q8_WORDS, stride = g. x is read only up to x[n).
     * False when an x is not finite; that block is then written as zeros. */
    bool (*q8)(const float *x, uint32_t n, uint32_t *dst, uint32_t stride);
} ie_mm_table;

extern const ie_mm_table ie_mm_avx512, ie_mm_avx2, ie_mm_portable;

const ie_mm_table *ie_mm_of(ie_level level);

#endif
