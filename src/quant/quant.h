/* Weight formats: one file and one row of ie_formats (quant.c) each.
 *
 * A format says how a super-block of one row is taken from GGUF's bytes into a unit (core/ie_core.h: 32 rows, lane = row,
 * word-major on the CPU), how one row is read back as floats (embeddings), and which shape its arithmetic has. Bytes per
 * row equal GGUF's: nothing is widened.
 *
 * Word layout of a unit, in words of 32 rows each ("h" = 16 words: one f16 a row), in this order:
 *   F32     e[32] (element k of 32 rows = 32 words)                        F16, BF16  e[32] as half-words (16 words each)
 *   Q4_0    d h | q 4            Q4_1  dm 1 | q 4        (dm: d in the low half, m in the high half)
 *   Q5_0    d h | qh 1 | q 4     Q5_1  dm 1 | qh 1 | q 4
 *   Q8_0    d h | q 8            IQ4_NL d h | q 4
 *   Q2_K    dm 1 | sc 4 | 8 x (q2 2)                     (dm: d low, dmin high)
 *   Q3_K    d h | sc 3 | 8 x (qh 1 | q2 2)
 *   Q4_K    dm 1 | sc 3 | 8 x (q 4)
 *   Q5_K    dm 1 | sc 3 | 8 x (qh 1 | q 4)
 *   Q6_K    d h | sc 4 | 8 x (q 4 | q2 2)
 *   IQ4_XS  dh 1 | sl 1 | 8 x (q 4)                      (dh: d low, scales_h high; sl: scales_l)
 * q 4:  byte i (of 16) holds weight i in its low nibble and weight i + 16 in its high nibble (GGUF's Q4_0 order).
 * q2 2: byte i (of 8) holds the 2 bits of weights i, i + 8, i + 16, i + 24 from bit 0 up.
 * qh 1: bit i is the high bit of weight i of the block.
 * q 8:  byte i is weight i. sc: the bytes of GGUF's scales array in their order (Q6_K: int8; Q3_K, Q4_K, Q5_K: packed). */
#ifndef IE_QUANT_H
#define IE_QUANT_H

#include "../base.h"
#include "ie_layout.h"

/* What a block adds to a row's accumulator; all integers exact, one f32 rounding per operation (docs/NUMERICS.md).
 * With a = Q8 block (d_a, q_a), dot = sum of w_i q_a,i:
 *   IE_DOT      acc = fma(d_w * d_a, (float)dot, acc)
 *   IE_DOT_MIN  acc = fma(d_w * d_a, (float)dot, acc); acc = fma(m_w, s_a, acc)      s_a = d_a * (float)sum(q_a)
 *   IE_DOT2     dot = s0 * dot(first 16) + s1 * dot(last 16); then as IE_DOT          (|dot| < 2^24)
 *   IE_DOT2_MIN as IE_DOT2, then acc = fma(m_w * d_a, (float)(m0 * sum_lo + m1 * sum_hi), acc)
 *   IE_FLOAT    for k ascending: acc = fma(w_k, x_k, acc), x in f32
 * d_w (and m_w): f32 products of the f16 and the small integer scale, exact. */
typedef enum { IE_DOT, IE_DOT_MIN, IE_DOT2, IE_DOT2_MIN, IE_FLOAT } ie_dot_kind;

typedef enum {
    IE_F_F32, IE_F_F16, IE_F_BF16, IE_F_Q4_0, IE_F_Q4_1, IE_F_Q5_0, IE_F_Q5_1, IE_F_Q8_0, IE_F_Q2_K, IE_F_Q3_K,
    IE_F_Q4_K, IE_F_Q5_K, IE_F_Q6_K, IE_F_IQ4_NL, IE_F_IQ4_XS, IE_F_COUNT
} ie_format_id;

typedef struct {
    ie_format_id id;
    uint32_t ggml_type;
    const char *name;
    ie_dot_kind dot;
    uint32_t blocks;     /* blocks of 32 in a super-block: 1 or 8 */
    uint32_t gguf_bytes; /* of a super-block of one row */
    uint32_t unit_words; /* of a unit: 32 rows; a multiple of 16 words (64 bytes) */
    /* Takes one row's super-block from GGUF (src: gguf_bytes) into row r of a unit (word-major map). The unit was zeroed
     * by the caller once. Float formats get n < 32 weights at the end of a row that is no multiple of 32 (n * size bytes);
     * all others n = 32 * blocks. */
    void (*repack)(const uint8_t *src, uint32_t n, uint32_t *unit, uint32_t r);
    /* Row r of a unit as 32 * blocks floats, by GGUF's meaning of the format (f32 operations in the order of docs/NUMERICS.md). */
    void (*dequant)(const uint32_t *unit, uint32_t r, float *out);
} ie_format;

extern const ie_format ie_formats[IE_F_COUNT]; /* indexed by ie_format_id */
const ie_format *ie_format_of_ggml(uint32_t ggml_type); /* NULL if not supported */
const char *ie_format_list(void);                       /* "F32, F16, ..." for messages */

/* Units and bytes of a matrix. */
static inline uint32_t ie_nsb(const ie_format *f, uint32_t k) { return ie_nsb_of(k, f->blocks); }
static inline uint64_t ie_mat_bytes(const ie_format *f, uint32_t rows, uint32_t k) {
    return (uint64_t)ie_ntiles(rows) * ie_nsb(f, k) * f->unit_words * 4u;
}

/* Repacks n_rows GGUF rows (row_bytes each, k weights) into rows row0 .. of the matrix at dst (zeroed by the caller). */
void ie_repack_rows(const ie_format *f, uint32_t k, const uint8_t *src, uint32_t n_rows, uint32_t row0, uint32_t *dst);
/* One row of a repacked matrix as k floats. */
void ie_dequant_row(const ie_format *f, uint32_t k, const uint32_t *mat, uint32_t row, float *out);

#endif
