/* Weights in device memory, for the host that lays them out (src/gpu/layout.c) and the kernels that read them (gemv.c).
 *
 * A matrix is a sequence of tiles of 32 rows, lane = row. A tile is a sequence of units of 8 blocks (256 weights of each row); the last
 * unit of a row may hold fewer. A unit is one or two header fields (whole in every unit: scales, minimums, high bits), then the bulk
 * field, as long as its blocks need. All fields are lane-major (core: ie_field_lm): a lane loads 16 bytes, a wave 512 that follow each other. Formats
 * with one f16 a super-block ("apart") keep these as half-words behind the tile's last unit, 64 bytes a unit.
 *
 * Words of a row: N0, N1 header fields, PER bulk words a block. What they hold, word by word:
 *   Q4_0 IQ4_NL  d of 8 blocks as halves | | q 4        Q4_1  dm of 8 blocks | | q 4
 *   Q5_0  d as halves | qh of 8 blocks | q 4            Q5_1  dm | qh | q 4            Q8_0  d as halves | | q 8
 *   Q2_K  sc 4 | dm | q2 2         Q3_K  sc 3 | qh 8 | q2 2, d apart      Q4_K  dm, sc 3 | | q 4
 *   Q5_K  dm, sc 3 | qh 8 | q 4    Q6_K  sc 4 | q2 16 | q 4, d apart      IQ4_XS  dh, sl | | q 4
 *   F32   | | 32                   F16, BF16  | | 16 */
#ifndef IE_LAYOUT_H
#define IE_LAYOUT_H

#include "ie_core.h"

#define IE_GPU_UNIT 8u /* blocks */

/* name of kernels, of the format; N0, N1, PER, apart */
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

typedef struct {
    uint32_t n0, n1, per, apart;
} ie_gpu_format;

/* Units of a row, blocks of unit u, first word of unit u in its tile, first half-word of the part "apart" (row r of unit u: + 32 u + r),
 * words of a tile. */
static inline uint32_t ie_gpu_units(uint32_t nblk) { return (nblk + IE_GPU_UNIT - 1u) / IE_GPU_UNIT; }
static inline uint32_t ie_gpu_unit_blocks(uint32_t u, uint32_t nblk) {
    return nblk - u * IE_GPU_UNIT < IE_GPU_UNIT ? nblk - u * IE_GPU_UNIT : IE_GPU_UNIT;
}
static inline uint32_t ie_gpu_unit_words(ie_gpu_format f) { return IE_TILE_ROWS * (f.n0 + f.n1 + IE_GPU_UNIT * f.per); }
static inline uint32_t ie_gpu_units_words(ie_gpu_format f, uint32_t nblk) {
    return ie_tile_words(ie_gpu_units(nblk), IE_TILE_ROWS * (f.n0 + f.n1)) + ie_tile_words(nblk, IE_TILE_ROWS * f.per);
}
static inline uint32_t ie_gpu_tile_words(ie_gpu_format f, uint32_t nblk) {
    return ie_gpu_units_words(f, nblk) + (f.apart ? (ie_gpu_units(nblk) + 1u) / 2u * IE_TILE_ROWS : 0u);
}

#endif
