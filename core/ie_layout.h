/* Layouts of weights: the CPU's units, GGUF's super-blocks in a file, and the GPU's units in device memory. Functions and contracts are in the style of ie_core.h; laws/ states what they promise. */
#ifndef IE_LAYOUT_H
#define IE_LAYOUT_H

#include "ie_core.h"

/* ---- unit layouts ----------------------------------------------------------------------------------------------- */

/* First word of each field inside a unit (src/quant/quant.h), for ie_field_wm / ie_field_lm / ie_field_half, and the
 * words of a unit. K formats: block b's fields start at IE_X_B + b * IE_X_B_WORDS. */
#define IE_F32_WORDS 1024u
#define IE_F16_WORDS 512u /* BF16 too */
#define IE_Q4_0_D 0u
#define IE_Q4_0_Q 16u
#define IE_Q4_0_WORDS 144u /* IQ4_NL too */
#define IE_Q4_1_DM 0u
#define IE_Q4_1_Q 32u
#define IE_Q4_1_WORDS 160u
#define IE_Q5_0_D 0u
#define IE_Q5_0_QH 16u
#define IE_Q5_0_Q 48u
#define IE_Q5_0_WORDS 176u
#define IE_Q5_1_DM 0u
#define IE_Q5_1_QH 32u
#define IE_Q5_1_Q 64u
#define IE_Q5_1_WORDS 192u
#define IE_Q8_0_D 0u
#define IE_Q8_0_Q 16u
#define IE_Q8_0_WORDS 272u
#define IE_Q2_K_DM 0u
#define IE_Q2_K_SC 32u
#define IE_Q2_K_B 160u
#define IE_Q2_K_B_WORDS 64u
#define IE_Q2_K_WORDS 672u
#define IE_Q3_K_D 0u
#define IE_Q3_K_SC 16u
#define IE_Q3_K_B 112u /* qh, then q2 32 words on */
#define IE_Q3_K_B_WORDS 96u
#define IE_Q3_K_WORDS 880u
#define IE_Q4_K_DM 0u
#define IE_Q4_K_SC 32u
#define IE_Q4_K_B 128u
#define IE_Q4_K_B_WORDS 128u
#define IE_Q4_K_WORDS 1152u
#define IE_Q5_K_DM 0u
#define IE_Q5_K_SC 32u
#define IE_Q5_K_B 128u /* qh, then q 32 words on */
#define IE_Q5_K_B_WORDS 160u
#define IE_Q5_K_WORDS 1408u
#define IE_Q6_K_D 0u
#define IE_Q6_K_SC 16u
#define IE_Q6_K_B 144u /* q, then q2 128 words on */
#define IE_Q6_K_B_WORDS 192u
#define IE_Q6_K_WORDS 1680u
#define IE_IQ4_XS_DH 0u
#define IE_IQ4_XS_SL 32u
#define IE_IQ4_XS_B 64u
#define IE_IQ4_XS_B_WORDS 128u
#define IE_IQ4_XS_WORDS 1088u

/* ---- GGUF ------------------------------------------------------------------------------------------------------- */

/* First byte of each array of a super-block (what they hold: src/quant/). */
#define IE_G_Q4_0_D 0u /* IQ4_NL too */
#define IE_G_Q4_0_Q 2u
#define IE_G_Q4_1_DM 0u
#define IE_G_Q4_1_Q 4u
#define IE_G_Q5_0_D 0u
#define IE_G_Q5_0_QH 2u
#define IE_G_Q5_0_Q 6u
#define IE_G_Q5_1_DM 0u
#define IE_G_Q5_1_QH 4u
#define IE_G_Q5_1_Q 8u
#define IE_G_Q8_0_D 0u
#define IE_G_Q8_0_Q 2u
#define IE_G_Q2_K_SC 0u
#define IE_G_Q2_K_Q2 16u
#define IE_G_Q2_K_DM 80u
#define IE_G_Q3_K_QH 0u
#define IE_G_Q3_K_Q2 32u
#define IE_G_Q3_K_SC 96u
#define IE_G_Q3_K_D 108u
#define IE_G_Q4_K_DM 0u
#define IE_G_Q4_K_SC 4u
#define IE_G_Q4_K_Q 16u
#define IE_G_Q5_K_DM 0u
#define IE_G_Q5_K_SC 4u
#define IE_G_Q5_K_QH 16u
#define IE_G_Q5_K_Q 48u
#define IE_G_Q6_K_Q 0u
#define IE_G_Q6_K_Q2 128u
#define IE_G_Q6_K_SC 192u
#define IE_G_Q6_K_D 208u
#define IE_G_IQ4_XS_DH 0u
#define IE_G_IQ4_XS_SL 4u
#define IE_G_IQ4_XS_Q 8u

/* Super-blocks of a row of k weights, `blocks` (1 or 8) of 32 weights in each. */
/*@ requires 1 <= k <= IE_MAX_K && (blocks == 1 || blocks == 8);
    assigns \nothing;
    ensures blocks == 1 ==> \result == (k + 31) / 32;
    ensures blocks == 8 ==> \result == (k + 255) / 256; */
static inline uint32_t ie_nsb_of(uint32_t k, uint32_t blocks) {
    return blocks == 1u ? ie_nblk(k) : (k + 8u * IE_BLOCK - 1u) / (8u * IE_BLOCK);
}
/* Bytes of a row of k weights, `bytes` for a whole super-block: only float formats (one block, 64 or 128 bytes) have rows
 * whose last block is not whole. */
/*@ requires 1 <= k <= IE_MAX_K && (blocks == 1 || blocks == 8) && 1 <= bytes <= 256;
    assigns \nothing;
    ensures blocks == 1 ==> \result == (k - 1) / 32 * bytes + ((k - 1) % 32 + 1) * bytes / 32;
    ensures blocks == 8 ==> \result == (k - 1) / 256 * bytes + ((k - 1) % 256 + 1) * bytes / 256; */
static inline uint32_t ie_gguf_row_bytes(uint32_t k, uint32_t blocks, uint32_t bytes) {
    if (blocks == 1u) return (k - 1u) / IE_BLOCK * bytes + ((k - 1u) % IE_BLOCK + 1u) * bytes / IE_BLOCK;
    return (k - 1u) / (8u * IE_BLOCK) * bytes + ((k - 1u) % (8u * IE_BLOCK) + 1u) * bytes / (8u * IE_BLOCK);
}

/* ---- the GPU's units -------------------------------------------------------------------------------------------- */

/* A matrix is a sequence of tiles of 32 rows, lane = row. A tile is a sequence of units of 8 blocks (256 weights of each
 * row); the last unit of a row may hold fewer. A unit is one or two header fields (whole in every unit: scales, minimums,
 * high bits), then the bulk field, as long as its blocks need. All fields are lane-major (ie_field_lm): a lane loads 16
 * bytes, a wave 512 that follow each other. Formats with one f16 a super-block ("apart") keep these as half-words behind
 * the tile's last unit, 64 bytes a unit.
 *
 * Words of a row: n0, n1 of the header fields, `per` bulk words a block. What they hold, word by word:
 *   Q4_0 IQ4_NL  d of 8 blocks as halves | | q 4        Q4_1  dm of 8 blocks | | q 4
 *   Q5_0  d as halves | qh of 8 blocks | q 4            Q5_1  dm | qh | q 4            Q8_0  d as halves | | q 8
 *   Q2_K  sc 4 | dm | q2 2         Q3_K  sc 3 | qh 8 | q2 2, d apart      Q4_K  dm, sc 3 | | q 4
 *   Q5_K  dm, sc 3 | qh 8 | q 4    Q6_K  sc 4 | q2 16 | q 4, d apart      IQ4_XS  dh, sl | | q 4
 *   F32   | | 32                   F16, BF16  | | 16 */
#define IE_GPU_UNIT 8u /* blocks */

/* name of kernels, of the format; n0, n1, per, apart */
#define IE_GPU_FORMATS(X) \
    X(q4_0, Q4_0, 4u, 0u, 4u, 0u) \
    X(q4_1, Q4_1, 8u, 0u, 4u, 0u) \
    X(q5_0, Q5_0, 4u, 8u, 4u, 0u) \
    X(q5_1, Q5_1, 8u, 8u, 4u, 0u) \
    X(q8_0, Q8_0, 4u, 0u, 8u, 0u) \
    X(q2_k, Q2_K, 4u, 1u, 2u, 0u) \
    X(q3_k, Q3_K, 3u, 8u, 2u, 1u) \
    X(q4_k, Q4_K, 4u, 0u, 4u, 0u) \
    X(q5_k, Q5_K, 4u, 8u, 4u, 0u) \
    X(q6_k, Q6_K, 4u, 16u, 4u, 1u) \
    X(iq4_nl, IQ4_NL, 4u, 0u, 4u, 0u) \
    X(iq4_xs, IQ4_XS, 2u, 0u, 4u, 0u) \
    X(f32, F32, 0u, 0u, 32u, 0u) \
    X(f16, F16, 0u, 0u, 16u, 0u) \
    X(bf16, BF16, 0u, 0u, 16u, 0u)

/* What becomes of a word-major unit's fields: format; first word there; words a row and instance (0: one half-word);
 * words from instance to instance (0: one in the super-block); the place; its first word (half-word) there. Instance j
 * belongs to block j of 8: of a K format's unit, or of the j-th of eight one-block units. Of F16 and BF16 word w of a
 * block's row becomes its elements 2 w and 2 w + 1, which lie 16 words apart in a word-major unit. */
#define IE_GPU_MOVES(X) \
    X(Q4_0, IE_Q4_0_D, 0u, 0u, IE_GPU_HEAD0, 0u) \
    X(Q4_0, IE_Q4_0_Q, 4u, 0u, IE_GPU_BULK, 0u) \
    X(Q4_1, IE_Q4_1_DM, 1u, 0u, IE_GPU_HEAD0, 0u) \
    X(Q4_1, IE_Q4_1_Q, 4u, 0u, IE_GPU_BULK, 0u) \
    X(Q5_0, IE_Q5_0_D, 0u, 0u, IE_GPU_HEAD0, 0u) \
    X(Q5_0, IE_Q5_0_QH, 1u, 0u, IE_GPU_HEAD1, 0u) \
    X(Q5_0, IE_Q5_0_Q, 4u, 0u, IE_GPU_BULK, 0u) \
    X(Q5_1, IE_Q5_1_DM, 1u, 0u, IE_GPU_HEAD0, 0u) \
    X(Q5_1, IE_Q5_1_QH, 1u, 0u, IE_GPU_HEAD1, 0u) \
    X(Q5_1, IE_Q5_1_Q, 4u, 0u, IE_GPU_BULK, 0u) \
    X(Q8_0, IE_Q8_0_D, 0u, 0u, IE_GPU_HEAD0, 0u) \
    X(Q8_0, IE_Q8_0_Q, 8u, 0u, IE_GPU_BULK, 0u) \
    X(Q2_K, IE_Q2_K_SC, 4u, 0u, IE_GPU_HEAD0, 0u) \
    X(Q2_K, IE_Q2_K_DM, 1u, 0u, IE_GPU_HEAD1, 0u) \
    X(Q2_K, IE_Q2_K_B, 2u, IE_Q2_K_B_WORDS, IE_GPU_BULK, 0u) \
    X(Q3_K, IE_Q3_K_SC, 3u, 0u, IE_GPU_HEAD0, 0u) \
    X(Q3_K, IE_Q3_K_B, 1u, IE_Q3_K_B_WORDS, IE_GPU_HEAD1, 0u) \
    X(Q3_K, IE_Q3_K_B + 32u, 2u, IE_Q3_K_B_WORDS, IE_GPU_BULK, 0u) \
    X(Q3_K, IE_Q3_K_D, 0u, 0u, IE_GPU_APART, 0u) \
    X(Q4_K, IE_Q4_K_DM, 1u, 0u, IE_GPU_HEAD0, 0u) \
    X(Q4_K, IE_Q4_K_SC, 3u, 0u, IE_GPU_HEAD0, 1u) \
    X(Q4_K, IE_Q4_K_B, 4u, IE_Q4_K_B_WORDS, IE_GPU_BULK, 0u) \
    X(Q5_K, IE_Q5_K_DM, 1u, 0u, IE_GPU_HEAD0, 0u) \
    X(Q5_K, IE_Q5_K_SC, 3u, 0u, IE_GPU_HEAD0, 1u) \
    X(Q5_K, IE_Q5_K_B, 1u, IE_Q5_K_B_WORDS, IE_GPU_HEAD1, 0u) \
    X(Q5_K, IE_Q5_K_B + 32u, 4u, IE_Q5_K_B_WORDS, IE_GPU_BULK, 0u) \
    X(Q6_K, IE_Q6_K_SC, 4u, 0u, IE_GPU_HEAD0, 0u) \
    X(Q6_K, IE_Q6_K_B + 128u, 2u, IE_Q6_K_B_WORDS, IE_GPU_HEAD1, 0u) \
    X(Q6_K, IE_Q6_K_B, 4u, IE_Q6_K_B_WORDS, IE_GPU_BULK, 0u) \
    X(Q6_K, IE_Q6_K_D, 0u, 0u, IE_GPU_APART, 0u) \
    X(IQ4_NL, IE_Q4_0_D, 0u, 0u, IE_GPU_HEAD0, 0u) \
    X(IQ4_NL, IE_Q4_0_Q, 4u, 0u, IE_GPU_BULK, 0u) \
    X(IQ4_XS, IE_IQ4_XS_DH, 1u, 0u, IE_GPU_HEAD0, 0u) \
    X(IQ4_XS, IE_IQ4_XS_SL, 1u, 0u, IE_GPU_HEAD0, 1u) \
    X(IQ4_XS, IE_IQ4_XS_B, 4u, IE_IQ4_XS_B_WORDS, IE_GPU_BULK, 0u) \
    X(F32, 0u, 32u, 0u, IE_GPU_BULK, 0u) \
    X(F16, 0u, 16u, 0u, IE_GPU_BULK, 0u) \
    X(BF16, 0u, 16u, 0u, IE_GPU_BULK, 0u)

typedef enum { IE_GPU_HEAD0, IE_GPU_HEAD1, IE_GPU_BULK, IE_GPU_APART } ie_gpu_place;

typedef struct {
    uint32_t n0, n1, per, apart;
} ie_gpu_format;
/*@ predicate ie_gpu_format_in(ie_gpu_format f) = f.n0 <= 8 && f.n1 <= 16 && 2 <= f.per <= 32; */

/* Units of a row. */
/*@ requires nblk <= IE_MAX_K / 32;
    assigns \nothing;
    ensures \result == (nblk + 7) / 8; */
static inline uint32_t ie_gpu_units(uint32_t nblk) { return (nblk + IE_GPU_UNIT - 1u) / IE_GPU_UNIT; }
/* First unit of segment s of a row's sum; s = segments gives the units. */
/*@ requires 1 <= nblk <= IE_MAX_K / 32 && s <= IE_MAX_SEGS + 1;
    assigns \nothing;
    ensures \result == (\min(nblk, s * ((nblk + 7) / 8) / \min((nblk + 7) / 8, 16) * 8) + 7) / 8; */
static inline uint32_t ie_seg_unit(uint32_t s, uint32_t nblk) { return ie_gpu_units(ie_seg_begin(s, nblk)); }
/* Blocks of unit u. */
/*@ requires u * 8 < nblk <= IE_MAX_K / 32;
    assigns \nothing;
    ensures \result == \min(8, nblk - u * 8); */
static inline uint32_t ie_gpu_unit_blocks(uint32_t u, uint32_t nblk) {
    return nblk - u * IE_GPU_UNIT < IE_GPU_UNIT ? nblk - u * IE_GPU_UNIT : IE_GPU_UNIT;
}
/* Words of a whole unit: from unit to unit. */
/*@ requires ie_gpu_format_in(f);
    assigns \nothing;
    ensures \result == 32 * (f.n0 + f.n1 + 8 * f.per); */
static inline uint32_t ie_gpu_unit_words(ie_gpu_format f) { return IE_TILE_ROWS * (f.n0 + f.n1 + IE_GPU_UNIT * f.per); }
/* Words of a unit of nb blocks; of a place for a whole unit with its half-words apart behind it (kernels/gemv_stream.c). */
/*@ requires ie_gpu_format_in(f) && nb <= 8;
    assigns \nothing;
    ensures \result == 32 * (f.n0 + f.n1 + nb * f.per); */
static inline uint32_t ie_gpu_part_words(ie_gpu_format f, uint32_t nb) {
    //@ assert nb * f.per <= 8 * f.per;
    return IE_TILE_ROWS * (f.n0 + f.n1 + nb * f.per);
}
/*@ requires ie_gpu_format_in(f);
    assigns \nothing;
    ensures \result == 32 * (f.n0 + f.n1 + 8 * f.per) + (f.apart != 0 ? 16 : 0); */
static inline uint32_t ie_gpu_place_words(ie_gpu_format f) { return ie_gpu_unit_words(f) + (f.apart != 0u ? IE_TILE_ROWS / 2u : 0u); }
/* Words of all units of a tile: behind them are the half-words apart. Words of a tile. */
/*@ requires ie_gpu_format_in(f) && nblk <= IE_MAX_K / 32;
    assigns \nothing;
    ensures \result == (nblk + 7) / 8 * (32 * (f.n0 + f.n1)) + nblk * (32 * f.per);
    ensures \result <= 2048 * 1024 + 256 * 768; */
static inline uint32_t ie_gpu_units_words(ie_gpu_format f, uint32_t nblk) {
    //@ assert (nblk + 7) / 8 * (32 * (f.n0 + f.n1)) <= 256 * (32 * (f.n0 + f.n1));
    //@ assert nblk * (32 * f.per) <= 2048 * (32 * f.per);
    return ie_tile_words(ie_gpu_units(nblk), IE_TILE_ROWS * (f.n0 + f.n1)) + ie_tile_words(nblk, IE_TILE_ROWS * f.per);
}
/*@ requires ie_gpu_format_in(f) && nblk <= IE_MAX_K / 32;
    assigns \nothing;
    ensures \result == (nblk + 7) / 8 * (32 * (f.n0 + f.n1)) + nblk * (32 * f.per) +
        (f.apart != 0 ? ((nblk + 7) / 8 + 1) / 2 * 32 : 0); */
static inline uint32_t ie_gpu_tile_words(ie_gpu_format f, uint32_t nblk) {
    return ie_gpu_units_words(f, nblk) + (f.apart != 0u ? (ie_gpu_units(nblk) + 1u) / 2u * IE_TILE_ROWS : 0u);
}
/* Row r of unit u among the half-words apart. */
/*@ requires u <= IE_MAX_K / 256 && r < 32;
    assigns \nothing;
    ensures \result == u * 32 + r; */
static inline uint32_t ie_gpu_apart(uint32_t u, uint32_t r) { return u * IE_TILE_ROWS + r; }

/* A field's first word in its unit, and its words a row in a unit of nb blocks. */
/*@ requires ie_gpu_format_in(f) && to != IE_GPU_APART;
    assigns \nothing;
    ensures \result == (to == IE_GPU_HEAD0 ? 0 : to == IE_GPU_HEAD1 ? 32 * f.n0 : 32 * (f.n0 + f.n1)); */
static inline uint32_t ie_gpu_base(ie_gpu_format f, ie_gpu_place to) {
    return to == IE_GPU_HEAD0 ? 0u : to == IE_GPU_HEAD1 ? IE_TILE_ROWS * f.n0 : IE_TILE_ROWS * (f.n0 + f.n1);
}
/*@ requires ie_gpu_format_in(f) && to != IE_GPU_APART && nb <= 8;
    assigns \nothing;
    ensures \result == (to == IE_GPU_HEAD0 ? f.n0 : to == IE_GPU_HEAD1 ? f.n1 : f.per * nb);
    ensures \result <= 256; */
static inline uint32_t ie_gpu_words(ie_gpu_format f, ie_gpu_place to, uint32_t nb) {
    //@ assert f.per * nb <= 32 * nb;
    return to == IE_GPU_HEAD0 ? f.n0 : to == IE_GPU_HEAD1 ? f.n1 : f.per * nb;
}
/* Where word w of row r of a field lies in its unit. */
/*@ requires ie_gpu_format_in(f) && to != IE_GPU_APART && nb <= 8 && r < 32;
    requires w < (to == IE_GPU_HEAD0 ? f.n0 : to == IE_GPU_HEAD1 ? f.n1 : f.per * nb);
    assigns \nothing; */
static inline uint32_t ie_gpu_at(ie_gpu_format f, ie_gpu_place to, uint32_t nb, uint32_t w, uint32_t r) {
    return ie_field_lm(ie_gpu_base(f, to), ie_gpu_words(f, to, nb), w, r);
}
/* The word of its field that word i of instance j of a move becomes. */
/*@ requires at <= 1 && words <= 32 && j < 8 && i < words;
    assigns \nothing;
    ensures \result == at + j * words + i; */
static inline uint32_t ie_gpu_move_word(uint32_t at, uint32_t words, uint32_t j, uint32_t i) {
    //@ assert j * words <= 7 * words;
    return at + j * words + i;
}
/* Instance j of a move of half-words: the half-word of its field. */
/*@ requires at <= 1 && j < 8;
    assigns \nothing;
    ensures \result == at + j; */
static inline uint32_t ie_gpu_move_half(uint32_t at, uint32_t j) { return at + j; }
/* Where the loads of block b's bulk words begin in the unit: of its own words, or, where a block has fewer than four, of
 * those of blocks b and b ^ 1 (a row then has whole units only). Word w from there on lies at ie_field_lm(0, n, w, r) for
 * the n of whole groups of four words that reach it. */
/*@ requires ie_gpu_format_in(f) && b < 8;
    assigns \nothing;
    ensures \result == 32 * (f.n0 + f.n1) + 32 * (f.per * (f.per >= 4 ? b : b / 2 * 2)); */
static inline uint32_t ie_gpu_block_at(ie_gpu_format f, uint32_t b) {
    //@ assert f.per * b <= f.per * 8 && f.per * (b / 2 * 2) <= f.per * 8;
    return ie_gpu_base(f, IE_GPU_BULK) + IE_TILE_ROWS * (f.per * (f.per >= 4u ? b : b / 2u * 2u));
}

#endif
