/* The integer core: index maps, (un)packing, integer dots, reduction orders and the plan check.
 *
 * Pure functions over 32-bit integers, valid as C11, as C++ and for GPU compilers: no I/O, no floats, no structs behind
 * pointers. Preconditions are written as ie_*_ok functions; laws/ states what the functions promise. All other code goes
 * through these maps; only vector forms (src/cpu/simd_*.h, kernels/gpu.h) mirror them and are tested against them.
 *
 * Words used here: a *block* is 32 consecutive weights of a row (the activation's Q8 block). A *super-block* is a format's
 * smallest unit: 1 block, or 8 for the K formats. A *tile* is 32 rows; lane = row. A *unit* is one super-block of one
 * tile; units of a matrix lie tile by tile, super-blocks ascending inside a tile. */
#ifndef IE_CORE_H
#define IE_CORE_H

#include <stdint.h>

#define IE_TILE_ROWS 32u
#define IE_BLOCK 32u            /* weights in a block */
#define IE_MAX_K 65536u         /* row length */
#define IE_MAX_ROWS (1u << 21)  /* rows of a matrix, joined ones included */
#define IE_MAX_T 512u           /* tokens of a batch */
#define IE_DECODE_T 16u         /* tokens of a decode batch; also the token group of the Q8 layout */
#define IE_PAGE 32u             /* positions of a KV page = one attention segment */
#define IE_FOLD_PAGES 8u        /* pages folded into one attention partial */
#define IE_MAX_SEGS 16u         /* segments of a row's sum */

/* ---- tiles -------------------------------------------------------------------------------------------------------- */

static inline uint32_t ie_dims_ok(uint32_t rows, uint32_t k) {
    return rows >= 1u && rows <= IE_MAX_ROWS && k >= 1u && k <= IE_MAX_K;
}
/* Blocks of a row of k weights; a last partial block (float formats only) is padded with zeros. */
static inline uint32_t ie_nblk(uint32_t k) { return (k + (IE_BLOCK - 1u)) / IE_BLOCK; }
/* Tiles of a matrix; the last one is padded with zero rows. */
static inline uint32_t ie_ntiles(uint32_t rows) { return (rows + (IE_TILE_ROWS - 1u)) / IE_TILE_ROWS; }
/* Index of the unit (tile, super-block) in a matrix of nsb super-blocks a row: < 2^31 under ie_dims_ok. */
static inline uint32_t ie_unit(uint32_t tile, uint32_t sb, uint32_t nsb) { return tile * nsb + sb; }

/* Inside a unit a *field* of n words a row starts at word `base` and takes n * 32 words. Where word w of row r lies: */
/* word-major (CPU): a vector load takes word w of 16 or 8 consecutive rows. */
static inline uint32_t ie_field_wm(uint32_t base, uint32_t w, uint32_t r) { return base + w * IE_TILE_ROWS + r; }
/* lane-major (GPU): a lane loads up to 4 words (16 bytes) of its row at once. */
static inline uint32_t ie_field_lm(uint32_t base, uint32_t n, uint32_t w, uint32_t r) {
    uint32_t g = w / 4u, left = n - g * 4u, width = left < 4u ? left : 4u;
    return base + g * 4u * IE_TILE_ROWS + r * width + w % 4u;
}
/* A field of half-words (one f16 a row, 16 words in all; or element e of a row of f16 / bf16): half-word index. */
static inline uint32_t ie_field_half(uint32_t base, uint32_t e, uint32_t r) {
    return base * 2u + e * IE_TILE_ROWS + r;
}

/* ---- segments of a row's sum -------------------------------------------------------------------------------------- */

/* A row's blocks are summed in sequence inside each of S contiguous segments; the S sums are added left to right.
 * S depends on the row length alone, so that waves per tile, cards, threads and T never change a bit.
 * Boundaries are multiples of 8 blocks (256 weights). */
static inline uint32_t ie_nseg(uint32_t nblk) {
    uint32_t u = (nblk + 7u) / 8u;
    return u < IE_MAX_SEGS ? u : IE_MAX_SEGS;
}
/* First block of segment s (s <= S; s = S gives nblk). */
static inline uint32_t ie_seg_begin(uint32_t s, uint32_t nblk) {
    uint32_t u = (nblk + 7u) / 8u, n = ie_nseg(nblk), b = s * u / n * 8u;
    return b < nblk ? b : nblk;
}

/* ---- Q8 activations ------------------------------------------------------------------------------------------------ */

/* One block is 16 words (64 bytes): 8 words of 32 int8, then */
#define IE_Q8_WORDS 16u
#define IE_Q8_D 8u    /* f32 d: value = d * q */
#define IE_Q8_SA 9u   /* f32 d * (float)(sum of q) */
#define IE_Q8_NSUM 10u /* int32 -(sum of the 32 q) */
#define IE_Q8_NLO 11u  /* int32 -(sum of q[0..16)) */
#define IE_Q8_NHI 12u  /* int32 -(sum of q[16..32)); words 13..15 are zero */

/* Tokens interleaved in a Q8 buffer of T tokens: one token alone is contiguous, more lie in groups of 16. */
static inline uint32_t ie_q8_group(uint32_t t_total) { return t_total == 1u ? 1u : IE_DECODE_T; }
/* Index (in blocks of 16 words) of block b of token t, nblk blocks a token, group g = ie_q8_group(T). */
static inline uint32_t ie_q8_at(uint32_t t, uint32_t b, uint32_t nblk, uint32_t g) {
    return (t / g * nblk + b) * g + t % g;
}
/* Blocks that a buffer of T tokens takes. */
static inline uint32_t ie_q8_blocks(uint32_t t_total, uint32_t nblk) {
    uint32_t g = ie_q8_group(t_total);
    return (t_total + g - 1u) / g * g * nblk;
}

/* ---- KV pages ------------------------------------------------------------------------------------------------------ */

/* Head dimension as stored: padded to a multiple of 8 with zeros. */
static inline uint32_t ie_head_pad(uint32_t hd) { return (hd + 7u) / 8u * 8u; }
/* Element index in one KV head's K part of a page: [hd / 8][32][8]. */
static inline uint32_t ie_k_elem(uint32_t slot, uint32_t d) { return (d / 8u * IE_PAGE + slot) * 8u + d % 8u; }
/* Element index in its V part: [32][hd padded]. */
static inline uint32_t ie_v_elem(uint32_t slot, uint32_t d, uint32_t hdp) { return slot * hdp + d; }
static inline uint32_t ie_page_of(uint32_t pos) { return pos / IE_PAGE; }
static inline uint32_t ie_slot_of(uint32_t pos) { return pos % IE_PAGE; }

/* ---- memory plan ------------------------------------------------------------------------------------------------------ */

#define IE_PLAN_UNIT 256u     /* bytes; offsets and sizes of a plan are counted in it */
#define IE_PLAN_MAX_BUFS 65536u

/* Both buffers hold data at some op. */
static inline int ie_plan_alive(uint32_t first_a, uint32_t last_a, uint32_t first_b, uint32_t last_b) {
    return first_a <= last_b && first_b <= last_a;
}
/* [off_a, off_a + size_a) and [off_b, off_b + size_b) share no unit; written without sums, so nothing can wrap. */
static inline int ie_plan_disjoint(uint32_t off_a, uint32_t size_a, uint32_t off_b, uint32_t size_b) {
    if (size_a == 0u || size_b == 0u) return 1;
    if (off_a <= off_b) return size_a <= off_b - off_a;
    return size_b <= off_a - off_b;
}
/* One buffer by itself: a live range that is not reversed, and all of it inside the arena. */
static inline int ie_plan_buf_ok(uint32_t off, uint32_t size, uint32_t first, uint32_t last, uint32_t arena) {
    return first <= last && size <= arena && off <= arena - size;
}
/* 1 if and only if every buffer is ok by itself and no two that are alive together overlap. Arrays of n entries. */
static inline int ie_plan_check(const uint32_t *off, const uint32_t *size, const uint32_t *first, const uint32_t *last,
                                uint32_t n, uint32_t arena) {
    for (uint32_t i = 0u; i < n; i++) {
        if (!ie_plan_buf_ok(off[i], size[i], first[i], last[i], arena)) return 0;
        for (uint32_t j = 0u; j < i; j++) {
            if (ie_plan_alive(first[i], last[i], first[j], last[j]) &&
                !ie_plan_disjoint(off[i], size[i], off[j], size[j]))
                return 0;
        }
    }
    return 1;
}

#endif
