/* The integer core: index maps, (un)packing, integer dots, reduction orders and the plan check.
 *
 * Pure functions over 32-bit integers, valid as C11, as C++ and for GPU compilers: no I/O, no floats, no structs behind
 * pointers. Preconditions are written as ie_*_ok functions; laws/ states what the functions promise. All other code
 * goes through these maps; only vector forms (src/cpu/simd_*.h, kernels/gpu.h) mirror them and are tested against them.
 *
 * Comments that begin with @ are contracts in ACSL, proved by `make proofs` (docs/VERIFICATION.md). Numbers in them are
 * mathematical integers: a result that equals its formula has not overflowed.
 *
 * Words used here: a *block* is 32 consecutive weights of a row (the activation's Q8 block). A *super-block* is a
 * format's smallest unit: 1 block, or 8 for the K formats. A *tile* is 32 rows; lane = row. A *unit* is one super-block
 * of one tile; units of a matrix lie tile by tile, super-blocks ascending inside a tile. */
#ifndef IE_CORE_H
#define IE_CORE_H

#include <stdint.h>

#define IE_TILE_ROWS 32u
#define IE_BLOCK 32u           /* weights in a block */
#define IE_MAX_K 65536u        /* row length */
#define IE_MAX_ROWS (1u << 21) /* rows of a matrix, joined ones included */
#define IE_MAX_T 512u          /* tokens of a batch */
#define IE_DECODE_T 16u        /* tokens of a decode batch; also the token group of the Q8 layout */
#define IE_PAGE 32u            /* positions of a KV page = one attention segment */
#define IE_FOLD_PAGES 8u       /* pages folded into one attention partial */
#define IE_MAX_SEGS 16u        /* segments of a row's sum */

/* ---- tiles ------------------------------------------------------------------------------------------------------ */

/*@ assigns \nothing;
    ensures \result != 0 <==> 1 <= rows <= IE_MAX_ROWS && 1 <= k <= IE_MAX_K; */
static inline uint32_t ie_dims_ok(uint32_t rows, uint32_t k) {
    return rows >= 1u && rows <= IE_MAX_ROWS && k >= 1u && k <= IE_MAX_K;
}
/* Blocks of a row of k weights; a last partial block (float formats only) is padded with zeros. */
/*@ requires k <= IE_MAX_K;
    assigns \nothing;
    ensures \result == (k + 31) / 32; */
static inline uint32_t ie_nblk(uint32_t k) { return (k + (IE_BLOCK - 1u)) / IE_BLOCK; }
/* Tiles of a matrix; the last one is padded with zero rows. */
/*@ requires rows <= IE_MAX_ROWS;
    assigns \nothing;
    ensures \result == (rows + 31) / 32; */
static inline uint32_t ie_ntiles(uint32_t rows) { return (rows + (IE_TILE_ROWS - 1u)) / IE_TILE_ROWS; }
/* Index of the unit (tile, super-block) in a matrix of nsb super-blocks a row: < 2^31 under ie_dims_ok. */
/*@ requires tile <= IE_MAX_ROWS / 32 && sb < nsb <= IE_MAX_K / 32;
    assigns \nothing;
    ensures \result == tile * nsb + sb; */
static inline uint32_t ie_unit(uint32_t tile, uint32_t sb, uint32_t nsb) { return tile * nsb + sb; }

/* Inside a unit a *field* of n words a row starts at word `base` and takes n * 32 words. Where word w of row r lies: */
/* word-major (CPU): a vector load takes word w of 16 or 8 consecutive rows. */
/*@ requires base < 2048 && w < 32 && r < 32;
    assigns \nothing;
    ensures \result == base + w * 32 + r; */
static inline uint32_t ie_field_wm(uint32_t base, uint32_t w, uint32_t r) { return base + w * IE_TILE_ROWS + r; }
/* lane-major (GPU): a lane loads up to 4 words (16 bytes) of its row at once. */
/*@ requires base < 2048 && w < n <= 256 && r < 32;
    assigns \nothing;
    ensures \result == base + w / 4 * 128 + r * \min(4, n - w / 4 * 4) + w % 4; */
static inline uint32_t ie_field_lm(uint32_t base, uint32_t n, uint32_t w, uint32_t r) {
    uint32_t g = w / 4u, left = n - g * 4u, width = left < 4u ? left : 4u;
    return base + g * 4u * IE_TILE_ROWS + r * width + w % 4u;
}
/* A field of half-words (one f16 a row, 16 words in all; or element e of a row of f16 / bf16): half-word index. */
/*@ requires base < 2048 && e < 32 && r < 32;
    assigns \nothing;
    ensures \result == base * 2 + e * 32 + r; */
static inline uint32_t ie_field_half(uint32_t base, uint32_t e, uint32_t r) { return base * 2u + e * IE_TILE_ROWS + r; }

/* ---- words, bytes, halves --------------------------------------------------------------------------------------- */

/* Little-endian words of a byte string: GGUF's order. Compilers make one load of it. */
//@ requires \valid_read(p + (0 .. 1)); assigns \nothing;
static inline uint32_t ie_load16(const uint8_t *p) { return (uint32_t)p[0] | (uint32_t)p[1] << 8; }
//@ requires \valid_read(p + (0 .. 3)); assigns \nothing;
static inline uint32_t ie_load32(const uint8_t *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}
/* Byte k (0..3) of a word, unsigned and as a two's complement number; half-word k (0..1). */
//@ requires k < 4; assigns \nothing; ensures \result <= 255;
static inline uint32_t ie_byte_u(uint32_t w, uint32_t k) { return (w >> (8u * k)) & 0xFFu; }
//@ requires k < 4; assigns \nothing;
static inline int32_t ie_byte_s(uint32_t w, uint32_t k) { return (int32_t)(ie_byte_u(w, k) ^ 0x80u) - 128; }
//@ requires k < 2; assigns \nothing;
static inline uint32_t ie_half_of(uint32_t w, uint32_t k) { return (w >> (16u * k)) & 0xFFFFu; }
/* The word with half-word k replaced. */
//@ requires k < 2; assigns \nothing;
static inline uint32_t ie_half_put(uint32_t w, uint32_t k, uint32_t half) {
    return (w & ~(0xFFFFu << (16u * k))) | (half & 0xFFFFu) << (16u * k);
}

/* f16 to f32, as bit patterns: exact; NaNs become quiet and keep their payload (as x86 and GPU conversions do). */
static inline uint32_t ie_f16_f32_bits(uint32_t h) {
    uint32_t sign = (h & 0x8000u) << 16, em = h & 0x7FFFu, e = 113u;
    if (em > 0x7C00u) return sign | 0x7FC00000u | (em & 0x3FFu) << 13;
    if (em == 0x7C00u) return sign | 0x7F800000u;
    if (em >= 0x400u) return sign | ((em << 13) + (112u << 23));
    if (em == 0u) return sign;
    for (; em < 0x400u; e--) em <<= 1; /* subnormal: at most 10 steps */
    return sign | e << 23 | (em & 0x3FFu) << 13;
}
/* f32 to f16, as bit patterns: round to nearest, ties to even; overflow gives infinity, NaNs become quiet. */
static inline uint32_t ie_f32_f16_bits(uint32_t u) {
    uint32_t sign = (u >> 16) & 0x8000u, a = u & 0x7FFFFFFFu;
    if (a > 0x7F800000u) return sign | 0x7E00u | ((a >> 13) & 0x3FFu);
    if (a >= 0x477FF000u) return sign | 0x7C00u; /* from 65520 up */
    if (a >= 0x38800000u) {                      /* normal in f16: from 2^-14 up */
        uint32_t m = a - (112u << 23);
        return sign | ((m + 0xFFFu + ((m >> 13) & 1u)) >> 13);
    }
    if (a < 0x33000000u) return sign;                               /* below 2^-25 */
    uint32_t m = (a & 0x7FFFFFu) | 0x800000u, s = 126u - (a >> 23); /* value = m / 2^s units of 2^-24; 14 <= s <= 24 */
    uint32_t q = m >> s, rest = m & ((1u << s) - 1u), tie = 1u << (s - 1u);
    if (rest > tie || (rest == tie && (q & 1u) != 0u)) q++;
    return sign | q;
}
static inline uint32_t ie_bf16_f32_bits(uint32_t h) { return (h & 0xFFFFu) << 16; }

/* ---- weights of a block: from words to one byte a weight -------------------------------------------------------- */

/* Word e (0..7) of a block holds weights 4e .. 4e+3, one in each byte, lowest byte first, like the words of a Q8 block.
 * ie_*_bytes: the arguments are one row's words of the block (src/quant/quant.h: q 4, q2 2, qh 1). ie_*_of: the words that
 * word e comes from: word e % 4 of q, e % 2 of q2. */
//@ requires e < 8; assigns \nothing;
static inline uint32_t ie_q4_of(uint32_t q, uint32_t e) { return (q >> (4u * (e / 4u))) & 0x0F0F0F0Fu; }
//@ requires e < 8; assigns \nothing;
static inline uint32_t ie_q2_of(uint32_t q2, uint32_t e) { return (q2 >> (2u * (e / 2u))) & 0x03030303u; }
/* Bits 4e .. 4e+3 of qh, each as the lowest bit of a byte. */
//@ requires e < 8; assigns \nothing;
static inline uint32_t ie_bit_bytes(uint32_t qh, uint32_t e) {
    uint32_t b = (qh >> (4u * e)) & 0xFu;
    return (b | b << 7 | b << 14 | b << 21) & 0x01010101u;
}
//@ requires e < 8; assigns \nothing;
static inline uint32_t ie_q5_of(uint32_t q, uint32_t qh, uint32_t e) { return ie_q4_of(q, e) | ie_bit_bytes(qh, e) << 4; }
//@ requires e < 8; assigns \nothing;
static inline uint32_t ie_q3_of(uint32_t q2, uint32_t qh, uint32_t e) { return ie_q2_of(q2, e) | ie_bit_bytes(qh, e) << 2; }
//@ requires e < 8; assigns \nothing;
static inline uint32_t ie_q6_of(uint32_t q, uint32_t q2, uint32_t e) { return ie_q4_of(q, e) | ie_q2_of(q2, e) << 4; }
//@ requires \valid_read(q + (0 .. 3)) && e < 8; assigns \nothing;
static inline uint32_t ie_q4_bytes(const uint32_t *q, uint32_t e) { return ie_q4_of(q[e % 4u], e); }
//@ requires \valid_read(q2 + (0 .. 1)) && e < 8; assigns \nothing;
static inline uint32_t ie_q2_bytes(const uint32_t *q2, uint32_t e) { return ie_q2_of(q2[e % 2u], e); }
//@ requires \valid_read(q + (0 .. 3)) && e < 8; assigns \nothing;
static inline uint32_t ie_q5_bytes(const uint32_t *q, uint32_t qh, uint32_t e) { return ie_q5_of(q[e % 4u], qh, e); }
//@ requires \valid_read(q2 + (0 .. 1)) && e < 8; assigns \nothing;
static inline uint32_t ie_q3_bytes(const uint32_t *q2, uint32_t qh, uint32_t e) { return ie_q3_of(q2[e % 2u], qh, e); }
//@ requires \valid_read(q + (0 .. 3)) && \valid_read(q2 + (0 .. 1)) && e < 8; assigns \nothing;
static inline uint32_t ie_q6_bytes(const uint32_t *q, const uint32_t *q2, uint32_t e) {
    return ie_q6_of(q[e % 4u], q2[e % 2u], e);
}
/* IQ4's codebook: nibble n means IE_IQ4[n] - 128; the bytes are the values plus 128, packed lowest first. The values:
 * -127 -104 -83 -65 -49 -35 -22 -10 1 13 25 38 53 69 89 113 (GGUF's IQ4_NL and IQ4_XS). */
#define IE_IQ4_W0 0x3F2D1801u
#define IE_IQ4_W1 0x766A5D4Fu
#define IE_IQ4_W2 0xA6998D81u
#define IE_IQ4_W3 0xF1D9C5B5u
//@ assigns \nothing;
static inline uint32_t ie_iq4_u(uint32_t n) { /* value + 128, in 1 .. 241 */
    uint32_t w = n < 8u ? (n < 4u ? IE_IQ4_W0 : IE_IQ4_W1) : (n < 12u ? IE_IQ4_W2 : IE_IQ4_W3);
    return (w >> (8u * (n % 4u))) & 0xFFu;
}
static inline int32_t ie_iq4_s(uint32_t n) { return (int32_t)ie_iq4_u(n) - 128; }
/* Four nibbles (one in each byte) to four codebook values + 128. */
//@ assigns \nothing;
static inline uint32_t ie_iq4_bytes_u(uint32_t w) {
    return ie_iq4_u(w & 15u) | ie_iq4_u((w >> 8) & 15u) << 8 | ie_iq4_u((w >> 16) & 15u) << 16 |
           ie_iq4_u((w >> 24) & 15u) << 24;
}

/* ---- packing: from one byte a weight to words, and from GGUF's bytes to words ----------------------------------- */

/* The inverses: word k of q 4 from byte words k and k + 4; word k of q2 2 from byte words k, k + 2, k + 4, k + 6; four
 * bits of qh from one byte word. Values must fit their bits. */
//@ assigns \nothing;
static inline uint32_t ie_q4_pack(uint32_t lo, uint32_t hi) { return lo | hi << 4; }
//@ assigns \nothing;
static inline uint32_t ie_q2_pack(uint32_t b0, uint32_t b2, uint32_t b4, uint32_t b6) {
    return b0 | b2 << 2 | b4 << 4 | b6 << 6;
}
//@ assigns \nothing;
static inline uint32_t ie_bit_pack(uint32_t b) { return (b | b >> 7 | b >> 14 | b >> 21) & 0xFu; }

/* Word w (0..3) of block b (0..7) out of the nibbles of Q4_K and Q5_K: 4 groups of 64 weights, 32 bytes each, low
 * nibbles first. src: 128 bytes. *_at: the first byte read; bytes at .. at + 3 and, for the other half of the block, +
 * 16 .. + 19. */
/*@ requires b < 8 && w < 4;
    assigns \nothing;
    ensures \result == b / 2 * 32 + 4 * w; */
static inline uint32_t ie_q4k_at(uint32_t b, uint32_t w) { return b / 2u * 32u + 4u * w; }
/*@ assigns \nothing;
    ensures \result == 4 * (b % 2); */
static inline uint32_t ie_q4k_shift(uint32_t b) { return 4u * (b % 2u); }
//@ requires \valid_read(src + (0 .. 127)) && b < 8 && w < 4; assigns \nothing;
static inline uint32_t ie_take_q4k(const uint8_t *src, uint32_t b, uint32_t w) {
    uint32_t at = ie_q4k_at(b, w), s = ie_q4k_shift(b);
    return ie_q4_pack((ie_load32(src + at) >> s) & 0x0F0F0F0Fu, (ie_load32(src + at + 16u) >> s) & 0x0F0F0F0Fu);
}
/* The same for Q6_K: 2 halves of 128 weights, 64 bytes each, low nibbles hold the first 64 weights. src: 128 bytes. */
/*@ requires b < 8 && w < 4;
    assigns \nothing;
    ensures \result == b / 4 * 64 + b % 2 * 32 + 4 * w; */
static inline uint32_t ie_q6k_at(uint32_t b, uint32_t w) { return b / 4u * 64u + b % 2u * 32u + 4u * w; }
/*@ assigns \nothing;
    ensures \result == 4 * (b / 2 % 2); */
static inline uint32_t ie_q6k_shift(uint32_t b) { return 4u * (b / 2u % 2u); }
//@ requires \valid_read(src + (0 .. 127)) && b < 8 && w < 4; assigns \nothing;
static inline uint32_t ie_take_q6k(const uint8_t *src, uint32_t b, uint32_t w) {
    uint32_t at = ie_q6k_at(b, w), s = ie_q6k_shift(b);
    return ie_q4_pack((ie_load32(src + at) >> s) & 0x0F0F0F0Fu, (ie_load32(src + at + 16u) >> s) & 0x0F0F0F0Fu);
}
/* Word w (0..1) of block b out of the 2-bit planes of Q2_K, Q3_K (qs) and Q6_K (qh): 2 halves of 128 weights, 32 bytes
 * each; byte i holds weights i, i + 32, i + 64, i + 96 of its half. src: 64 bytes, of which at .. at + 27 are read. */
/*@ requires b < 8 && w < 2;
    assigns \nothing;
    ensures \result == b / 4 * 32 + 4 * w; */
static inline uint32_t ie_q2k_at(uint32_t b, uint32_t w) { return b / 4u * 32u + 4u * w; }
/*@ assigns \nothing;
    ensures \result == 2 * (b % 4); */
static inline uint32_t ie_q2k_shift(uint32_t b) { return 2u * (b % 4u); }
//@ requires \valid_read(src + (0 .. 63)) && b < 8 && w < 2; assigns \nothing;
static inline uint32_t ie_take_q2k(const uint8_t *src, uint32_t b, uint32_t w) {
    uint32_t at = ie_q2k_at(b, w), s = ie_q2k_shift(b);
    return ie_q2_pack((ie_load32(src + at) >> s) & 0x03030303u, (ie_load32(src + at + 8u) >> s) & 0x03030303u,
                      (ie_load32(src + at + 16u) >> s) & 0x03030303u, (ie_load32(src + at + 24u) >> s) & 0x03030303u);
}
/* The qh word of block b out of the bit planes of Q3_K (hmask) and Q5_K (qh): bit b of byte i belongs to weight i of
 * the block. src: 32 bytes. */
//@ requires \valid_read(src + (0 .. 31)) && b < 8; assigns \nothing;
static inline uint32_t ie_take_bits(const uint8_t *src, uint32_t b) {
    uint32_t r = 0u;
    //@ loop invariant e <= 8; loop assigns e, r; loop variant 8 - e;
    for (uint32_t e = 0u; e < 8u; e++) r |= ie_bit_pack((ie_load32(src + 4u * e) >> b) & 0x01010101u) << (4u * e);
    return r;
}

/* ---- scales of the K formats ------------------------------------------------------------------------------------ */

/* sc: the row's words of the scales field (GGUF's bytes in their order). */
/* Q4_K, Q5_K: the 6-bit scales and minimums of blocks 4h .. 4h+3, one a byte. */
//@ requires \valid_read(sc + (0 .. 2)) && h < 2; assigns \nothing;
static inline uint32_t ie_k4_scales(const uint32_t *sc, uint32_t h) {
    if (h == 0u) return sc[0] & 0x3F3F3F3Fu;
    return (sc[2] & 0x0F0F0F0Fu) | ((sc[0] >> 2) & 0x30303030u);
}
//@ requires \valid_read(sc + (0 .. 2)) && h < 2; assigns \nothing;
static inline uint32_t ie_k4_mins(const uint32_t *sc, uint32_t h) {
    if (h == 0u) return sc[1] & 0x3F3F3F3Fu;
    return ((sc[2] >> 4) & 0x0F0F0F0Fu) | ((sc[1] >> 2) & 0x30303030u);
}
/* Of block j (0..7). */
//@ requires \valid_read(sc + (0 .. 2)) && j < 8; assigns \nothing;
static inline uint32_t ie_k4_scale(const uint32_t *sc, uint32_t j) {
    return ie_byte_u(ie_k4_scales(sc, j / 4u), j % 4u);
}
//@ requires \valid_read(sc + (0 .. 2)) && j < 8; assigns \nothing;
static inline uint32_t ie_k4_min(const uint32_t *sc, uint32_t j) { return ie_byte_u(ie_k4_mins(sc, j / 4u), j % 4u); }
/* Q3_K: 16 6-bit scales, one for 16 weights; those of 4h .. 4h+3 as bytes, still plus 32. */
//@ requires \valid_read(sc + (0 .. 2)) && h < 4; assigns \nothing;
static inline uint32_t ie_q3k_scales_u(const uint32_t *sc, uint32_t h) {
    return ((sc[h % 2u] >> (4u * (h / 2u))) & 0x0F0F0F0Fu) | ((sc[2] >> (2u * h)) & 0x03030303u) << 4;
}
//@ requires \valid_read(sc + (0 .. 2)) && j < 16; assigns \nothing;
static inline int32_t ie_q3k_scale(const uint32_t *sc, uint32_t j) { /* -32 .. 31 */
    return (int32_t)ie_byte_u(ie_q3k_scales_u(sc, j / 4u), j % 4u) - 32;
}
/* Q2_K: scale and minimum of sub-block j (0..15, 16 weights each). Q6_K: its int8 scale. */
//@ requires \valid_read(sc + (0 .. 3)) && j < 16; assigns \nothing;
static inline uint32_t ie_q2k_scale(const uint32_t *sc, uint32_t j) { return ie_byte_u(sc[j / 4u], j % 4u) & 15u; }
//@ requires \valid_read(sc + (0 .. 3)) && j < 16; assigns \nothing;
static inline uint32_t ie_q2k_min(const uint32_t *sc, uint32_t j) { return ie_byte_u(sc[j / 4u], j % 4u) >> 4; }
//@ requires \valid_read(sc + (0 .. 3)) && j < 16; assigns \nothing;
static inline int32_t ie_q6k_scale(const uint32_t *sc, uint32_t j) { return ie_byte_s(sc[j / 4u], j % 4u); }
/* IQ4_XS: scale of block j (0..7) from scales_h (16 bits) and scales_l. */
static inline int32_t ie_iq4xs_scale(uint32_t sh, uint32_t sl, uint32_t j) { /* -32 .. 31 */
    return (int32_t)(((sl >> (4u * j)) & 15u) | ((sh >> (2u * j)) & 3u) << 4) - 32;
}

/* ---- block dots ------------------------------------------------------------------------------------------------- */

/* Exact integers: with activations in [-127, 127] (any int8 in fact) nothing here can leave 32 bits, and the two-scale
 * forms stay within 2^24, so that their conversion to f32 is exact too. a: the 8 activation words of a Q8 block; nsum,
 * nlo, nhi: its negated sums (IE_Q8_NSUM, _NLO, _NHI), which turn a format's offset into one multiplication. */

static inline int32_t ie_dot4_us(uint32_t u, uint32_t s) { /* four unsigned by four signed bytes */
    return (int32_t)ie_byte_u(u, 0u) * ie_byte_s(s, 0u) + (int32_t)ie_byte_u(u, 1u) * ie_byte_s(s, 1u) +
           (int32_t)ie_byte_u(u, 2u) * ie_byte_s(s, 2u) + (int32_t)ie_byte_u(u, 3u) * ie_byte_s(s, 3u);
}
static inline int32_t ie_dot4_ss(uint32_t x, uint32_t s) { /* four signed by four signed bytes */
    return ie_byte_s(x, 0u) * ie_byte_s(s, 0u) + ie_byte_s(x, 1u) * ie_byte_s(s, 1u) +
           ie_byte_s(x, 2u) * ie_byte_s(s, 2u) + ie_byte_s(x, 3u) * ie_byte_s(s, 3u);
}
/* Weights unpacked before: n words of unsigned or signed bytes (n = 8: a block, 4: half a block). */
static inline int32_t ie_dot_us(const uint32_t *u, const uint32_t *a, uint32_t n) {
    int32_t r = 0;
    for (uint32_t e = 0u; e < n; e++) r += ie_dot4_us(u[e], a[e]);
    return r;
}
static inline int32_t ie_dot_ss(const uint32_t *x, const uint32_t *a, uint32_t n) {
    int32_t r = 0;
    for (uint32_t e = 0u; e < n; e++) r += ie_dot4_ss(x[e], a[e]);
    return r;
}
/* The negated sum of n words of signed bytes: IE_Q8_NLO and _NHI of words 0..3 and 4..7, IE_Q8_NSUM of all 8. */
static inline int32_t ie_q8_nsum(const uint32_t *a, uint32_t n) {
    int32_t r = 0;
    for (uint32_t e = 0u; e < n; e++)
        r -= ie_byte_s(a[e], 0u) + ie_byte_s(a[e], 1u) + ie_byte_s(a[e], 2u) + ie_byte_s(a[e], 3u);
    return r;
}
/* Q4_1, Q4_K: sum of n a. Q4_0: of (n - 8) a. */
static inline int32_t ie_q4_dot(const uint32_t *q, const uint32_t *a) {
    int32_t r = 0;
    for (uint32_t e = 0u; e < 8u; e++) r += ie_dot4_us(ie_q4_bytes(q, e), a[e]);
    return r;
}
static inline int32_t ie_q4_0_dot(const uint32_t *q, const uint32_t *a, int32_t nsum) {
    return ie_q4_dot(q, a) + 8 * nsum;
}
/* Q5_1, Q5_K: sum of n a. Q5_0: of (n - 16) a. */
static inline int32_t ie_q5_dot(const uint32_t *q, uint32_t qh, const uint32_t *a) {
    int32_t r = 0;
    for (uint32_t e = 0u; e < 8u; e++) r += ie_dot4_us(ie_q5_bytes(q, qh, e), a[e]);
    return r;
}
static inline int32_t ie_q5_0_dot(const uint32_t *q, uint32_t qh, const uint32_t *a, int32_t nsum) {
    return ie_q5_dot(q, qh, a) + 16 * nsum;
}
/* Q8_0, with a signed-by-signed unit, and with an unsigned-by-signed one: q + 128 is q with its top bit flipped. */
static inline int32_t ie_q8_dot(const uint32_t *q, const uint32_t *a) { return ie_dot_ss(q, a, 8u); }
static inline int32_t ie_q8_dot_u(const uint32_t *q, const uint32_t *a, int32_t nsum) {
    int32_t r = 128 * nsum;
    for (uint32_t e = 0u; e < 8u; e++) r += ie_dot4_us(q[e] ^ 0x80808080u, a[e]);
    return r;
}
/* IQ4_NL, IQ4_XS: sum of codebook[n] a; the codebook plus 128 is unsigned. */
static inline int32_t ie_iq4_dot(const uint32_t *q, const uint32_t *a, int32_t nsum) {
    int32_t r = 128 * nsum;
    for (uint32_t e = 0u; e < 8u; e++) r += ie_dot4_us(ie_iq4_bytes_u(ie_q4_bytes(q, e)), a[e]);
    return r;
}
/* Q6_K: s0 * sum of the first 16 (n - 32) a + s1 * sum of the last 16; s0, s1 int8: |result| <= 2^24. */
static inline int32_t ie_q6_dot(const uint32_t *q, const uint32_t *q2, const uint32_t *a, int32_t nlo, int32_t nhi,
                                int32_t s0, int32_t s1) {
    int32_t lo = 32 * nlo, hi = 32 * nhi;
    for (uint32_t e = 0u; e < 4u; e++) {
        lo += ie_dot4_us(ie_q6_bytes(q, q2, e), a[e]);
        hi += ie_dot4_us(ie_q6_bytes(q, q2, e + 4u), a[e + 4u]);
    }
    return s0 * lo + s1 * hi;
}
/* Q3_K: the same of (n - 4) a; s0, s1 in [-32, 31]. */
static inline int32_t ie_q3_dot(const uint32_t *q2, uint32_t qh, const uint32_t *a, int32_t nlo, int32_t nhi,
                                int32_t s0, int32_t s1) {
    int32_t lo = 4 * nlo, hi = 4 * nhi;
    for (uint32_t e = 0u; e < 4u; e++) {
        lo += ie_dot4_us(ie_q3_bytes(q2, qh, e), a[e]);
        hi += ie_dot4_us(ie_q3_bytes(q2, qh, e + 4u), a[e + 4u]);
    }
    return s0 * lo + s1 * hi;
}
/* Q2_K: the same of n a; s0, s1 in [0, 15]. And its minimums: m0 * sum of the first 16 a + m1 * sum of the last 16. */
static inline int32_t ie_q2_dot(const uint32_t *q2, const uint32_t *a, int32_t s0, int32_t s1) {
    int32_t lo = 0, hi = 0;
    for (uint32_t e = 0u; e < 4u; e++) {
        lo += ie_dot4_us(ie_q2_bytes(q2, e), a[e]);
        hi += ie_dot4_us(ie_q2_bytes(q2, e + 4u), a[e + 4u]);
    }
    return s0 * lo + s1 * hi;
}
static inline int32_t ie_q2_mins(int32_t nlo, int32_t nhi, int32_t m0, int32_t m1) { return -(m0 * nlo + m1 * nhi); }

/* ---- orders of sums and shares of work -------------------------------------------------------------------------- */

/* The halving tree: v[l] += v[l + n / 2], then n / 4, ... 1; the sum ends in v[0]. n is a power of two. Float sums over
 * lanes (norms, attention) use the same order; here on integers mod 2^32, where any order gives the same. */
//@ requires \valid(v + (0 .. n - 1)); assigns v[0 .. n - 1];
static inline void ie_tree(uint32_t *v, uint32_t n) {
    //@ loop invariant 2 * s <= n; loop assigns s, v[0 .. n - 1]; loop variant s;
    for (uint32_t s = n / 2u; s > 0u; s /= 2u)
        //@ loop invariant l <= s; loop assigns l, v[0 .. n - 1]; loop variant s - l;
        for (uint32_t l = 0u; l < s; l++) v[l] += v[l + s];
}

/* The butterfly over the 32 lanes of a wave: v[l] += v[l ^ m] for m = 16, 8, 4, 2, 1, all lanes at once (kernels/gpu.h does
 * it by DPP exchanges or shuffles); every lane ends with the sum. */
static inline void ie_butterfly(uint32_t *v) {
    uint32_t from[32];
    for (uint32_t m = 16u; m > 0u; m /= 2u) {
        for (uint32_t l = 0u; l < 32u; l++) from[l] = v[l ^ m];
        for (uint32_t l = 0u; l < 32u; l++) v[l] += from[l];
    }
}
/* Share i of parts of n items is [ie_share(n, i, parts), ie_share(n, i + 1, parts)): contiguous, in order, sizes differ
 * by at most 1. Used for segments over the waves of a tile, rows over threads, attention partials over workgroups. */
/*@ assigns \nothing;
    ensures \result != 0 <==> parts >= 1 && n * parts <= 0xFFFFFFFF; */
static inline int ie_share_ok(uint32_t n, uint32_t parts) { return parts >= 1u && n <= 0xFFFFFFFFu / parts; }
/*@ requires parts >= 1 && n * parts <= 0xFFFFFFFF && i <= parts;
    assigns \nothing;
    ensures \result == n * i / parts; */
static inline uint32_t ie_share(uint32_t n, uint32_t i, uint32_t parts) { return n * i / parts; }

/* A batch of T tokens in groups of n: token t is t % n of group t / n. */
/*@ requires t_total <= IE_MAX_T && 1 <= n <= IE_MAX_T;
    assigns \nothing;
    ensures \result == (t_total + n - 1) / n; */
static inline uint32_t ie_tok_groups(uint32_t t_total, uint32_t n) { return (t_total + n - 1u) / n; }
/* A matrix times a batch on the CPU: the token groups of 16 form blocks, the rows pieces; work item i is piece i % pieces
 * of block i / pieces. First token of a block; block = blocks gives the end of the last group. */
/*@ requires pieces >= 1;
    assigns \nothing;
    ensures \result == i / pieces; */
static inline uint32_t ie_item_block(uint32_t i, uint32_t pieces) { return i / pieces; }
/*@ requires pieces >= 1;
    assigns \nothing;
    ensures \result == i % pieces; */
static inline uint32_t ie_item_piece(uint32_t i, uint32_t pieces) { return i % pieces; }
/*@ requires groups <= IE_MAX_T / 16 && 1 <= blocks <= 65536 && block <= blocks;
    assigns \nothing;
    ensures \result == groups * block / blocks * 16; */
static inline uint32_t ie_block_tok(uint32_t groups, uint32_t block, uint32_t blocks) {
    //@ assert groups * blocks <= 32 * blocks && groups * block <= groups * blocks;
    //@ assert groups * block / blocks <= groups;
    return ie_share(groups, block, blocks) * IE_DECODE_T;
}

/* Division without a divider, for x * d below 2^32: the host computes ie_inv(d), a kernel multiplies. (The compilers' own
 * division by a number that is not constant starts from the hardware's approximate reciprocal, whose bits are not
 * documented, and takes 20 instructions.) */
/*@ requires d >= 1;
    assigns \nothing;
    ensures 4294967296 <= \result * d < 4294967296 + d;
    ensures 1 <= \result <= 4294967296; */
static inline uint64_t ie_inv(uint32_t d) { return ((1ull << 32) + d - 1u) / d; }
/*@ requires inv <= 4294967296;
    assigns \nothing;
    ensures \result == x * inv / 4294967296; */
static inline uint32_t ie_div_inv(uint32_t x, uint64_t inv) {
    //@ assert x * inv <= 4294967295 * inv;
    return (uint32_t)(x * inv / (1ull << 32));
}

/* ---- segments of a row's sum ------------------------------------------------------------------------------------ */

/* A row's blocks are summed in sequence inside each of S contiguous segments; the S sums are added left to right.
 * S depends on the row length alone, so that waves per tile, cards, threads and T never change a bit.
 * Boundaries are multiples of 8 blocks (256 weights). */
/*@ requires nblk <= IE_MAX_K / 32;
    assigns \nothing;
    ensures \result == \min((nblk + 7) / 8, 16); */
static inline uint32_t ie_nseg(uint32_t nblk) {
    uint32_t u = (nblk + 7u) / 8u;
    return u < IE_MAX_SEGS ? u : IE_MAX_SEGS;
}
/* First block of segment s: share s of the groups of 8 blocks; nblk from s = S on. Divides by a constant only, since a
 * GPU divides by others through an approximate reciprocal. */
/*@ requires 1 <= nblk <= IE_MAX_K / 32 && s <= IE_MAX_SEGS + 1;
    assigns \nothing;
    ensures \result == \min(nblk, s * ((nblk + 7) / 8) / \min((nblk + 7) / 8, 16) * 8); */
static inline uint32_t ie_seg_begin(uint32_t s, uint32_t nblk) {
    uint32_t u = (nblk + 7u) / 8u, b = (u < IE_MAX_SEGS ? s : s * u / IE_MAX_SEGS) * 8u;
    return b < nblk ? b : nblk;
}

/* ---- Q8 activations --------------------------------------------------------------------------------------------- */

/* One block is 16 words (64 bytes): 8 words of 32 int8, then */
#define IE_Q8_WORDS 16u
#define IE_Q8_D 8u     /* f32 d: value = d * q */
#define IE_Q8_SA 9u    /* f32 d * (float)(sum of q) */
#define IE_Q8_NSUM 10u /* int32 -(sum of the 32 q) */
#define IE_Q8_NLO 11u  /* int32 -(sum of q[0..16)) */
#define IE_Q8_NHI 12u  /* int32 -(sum of q[16..32)); words 13..15 are zero */

/* Tokens interleaved in a Q8 buffer of T tokens: one token alone is contiguous, more lie in groups of 16. */
/*@ assigns \nothing;
    ensures \result == (t_total == 1 ? 1 : 16); */
static inline uint32_t ie_q8_group(uint32_t t_total) { return t_total == 1u ? 1u : IE_DECODE_T; }
/* Index (in blocks of 16 words) of block b of token t, nblk blocks a token, group g = ie_q8_group(T). */
/*@ requires t < IE_MAX_T && b < nblk <= IE_MAX_K / 32 && (g == 1 || g == 16);
    assigns \nothing;
    ensures \result == (t / g * nblk + b) * g + t % g; */
static inline uint32_t ie_q8_at(uint32_t t, uint32_t b, uint32_t nblk, uint32_t g) {
    if (g == 1u) return t * nblk + b; /* so that no division is by a number that is not constant */
    return (t / IE_DECODE_T * nblk + b) * IE_DECODE_T + t % IE_DECODE_T;
}
/* Blocks that a buffer of T tokens takes. */
/*@ requires 1 <= t_total <= IE_MAX_T && nblk <= IE_MAX_K / 32;
    assigns \nothing;
    ensures \result == (t_total == 1 ? nblk : (t_total + 15) / 16 * 16 * nblk); */
static inline uint32_t ie_q8_blocks(uint32_t t_total, uint32_t nblk) {
    uint32_t g = ie_q8_group(t_total);
    return (t_total + g - 1u) / g * g * nblk;
}

/* ---- KV pages --------------------------------------------------------------------------------------------------- */

/* Head dimension as stored: padded to a multiple of 8 with zeros. */
/*@ requires hd <= 65536;
    assigns \nothing;
    ensures \result == (hd + 7) / 8 * 8; */
static inline uint32_t ie_head_pad(uint32_t hd) { return (hd + 7u) / 8u * 8u; }
/* Element index in one KV head's K part of a page: [hd / 8][32][8]. */
/*@ requires slot < 32 && d < 65536;
    assigns \nothing;
    ensures \result == (d / 8 * 32 + slot) * 8 + d % 8; */
static inline uint32_t ie_k_elem(uint32_t slot, uint32_t d) { return (d / 8u * IE_PAGE + slot) * 8u + d % 8u; }
/* Element index in its V part: [32][hd padded]. */
/*@ requires slot < 32 && d < hdp <= 65536;
    assigns \nothing;
    ensures \result == slot * hdp + d; */
static inline uint32_t ie_v_elem(uint32_t slot, uint32_t d, uint32_t hdp) { return slot * hdp + d; }
/*@ assigns \nothing;
    ensures \result == pos / 32; */
static inline uint32_t ie_page_of(uint32_t pos) { return pos / IE_PAGE; }
/*@ assigns \nothing;
    ensures \result == pos % 32; */
static inline uint32_t ie_slot_of(uint32_t pos) { return pos % IE_PAGE; }

/* Entry of a page table of n_seq * per_seq pages: page `page` of sequence seq. */
/*@ requires page < per_seq && seq * per_seq + per_seq <= 0xFFFFFFFF;
    assigns \nothing;
    ensures \result == seq * per_seq + page; */
static inline uint32_t ie_table_at(uint32_t seq, uint32_t page, uint32_t per_seq) { return seq * per_seq + page; }
/* Index of a KV head's part among all (page, layer, head): times 2 * 32 * ie_head_pad(hd) elements, in 64 bits. */
/*@ assigns \nothing;
    ensures \result != 0 <==> n_layer >= 1 && n_kv >= 1 && n_layer * n_kv <= 0xFFFFFFFF &&
        n_pages * (n_layer * n_kv) <= 0xFFFFFFFF; */
static inline int ie_kv_ok(uint32_t n_pages, uint32_t n_layer, uint32_t n_kv) {
    return n_layer >= 1u && n_kv >= 1u && n_kv <= 0xFFFFFFFFu / n_layer && n_pages <= 0xFFFFFFFFu / (n_layer * n_kv);
}
/*@ requires layer < n_layer && head < n_kv && (page + 1) * (n_layer * n_kv) <= 0xFFFFFFFF;
    assigns \nothing;
    ensures \result == (page * n_layer + layer) * n_kv + head;
    ensures \result < (page + 1) * (n_layer * n_kv); */
static inline uint32_t ie_kv_part(uint32_t page, uint32_t layer, uint32_t head, uint32_t n_layer, uint32_t n_kv) {
    //@ assert page * n_layer + layer + 1 <= (page + 1) * n_layer;
    //@ assert (page * n_layer + layer + 1) * n_kv <= (page + 1) * n_layer * n_kv;
    return (page * n_layer + layer) * n_kv + head;
}

/* ---- attention -------------------------------------------------------------------------------------------------- */

/* Positions are below 2^31. First position that a token at pos sees: a window of w positions ends at pos; w = 0: none.
 * It sees [first, pos]. */
/*@ requires pos < 0x80000000;
    assigns \nothing;
    ensures \result == (window == 0 ? 0 : \max(0, pos + 1 - window)); */
static inline uint32_t ie_att_first(uint32_t pos, uint32_t window) {
    if (window == 0u || pos < window) return 0u;
    return pos + 1u - window;
}
/* Partial k holds the pages [8 k, 8 k + 8), by absolute page number: so its bits do not depend on who asks. */
/*@ assigns \nothing;
    ensures \result == pos / 256; */
static inline uint32_t ie_part_of(uint32_t pos) { return pos / (IE_PAGE * IE_FOLD_PAGES); }
/*@ requires part <= 0xFFFFFFFF / 8;
    assigns \nothing;
    ensures \result == part * 8; */
static inline uint32_t ie_part_page(uint32_t part) { return part * IE_FOLD_PAGES; }
/* Most partials of a token at a position up to `top`, and of up to 16 tokens of a sequence that follow each other: what
 * launches and memory have room for. Partials are counted from a token's (the first token's) first. */
/*@ requires top < 0x80000000;
    assigns \nothing;
    ensures \result == (window == 0 ? top / 256 + 1 : \min(top / 256 + 1, window / 256 + 2)); */
static inline uint32_t ie_att_parts(uint32_t top, uint32_t window) {
    uint32_t all = ie_part_of(top) + 1u, most = window / (IE_PAGE * IE_FOLD_PAGES) + 2u;
    return window == 0u || all < most ? all : most;
}
/*@ requires top < 0x80000000;
    assigns \nothing;
    ensures \result == (window == 0 ? top / 256 + 1 : \min(top / 256 + 1, window / 256 + 2) + 1); */
static inline uint32_t ie_att_run_parts(uint32_t top, uint32_t window) {
    return ie_att_parts(top, window) + (window == 0u ? 0u : 1u);
}
/* Shares of `each` partials, at least one: share s takes [s * each, s * each + each). */
/*@ requires each >= 1 && parts <= 0x1000000 && each <= 0x1000000;
    assigns \nothing;
    ensures \result == (parts + each - 1) / each; */
static inline uint32_t ie_att_shares(uint32_t parts, uint32_t each) { return (parts + each - 1u) / each; }
/* Slots [lo, hi) of a page that a token seeing [first, pos] attends to; lo >= hi when there are none. */
/*@ requires page <= 0xFFFFFFFF / 32;
    assigns \nothing;
    ensures \result == \max(0, first - page * 32); */
static inline uint32_t ie_slot_lo(uint32_t page, uint32_t first) {
    return first > page * IE_PAGE ? first - page * IE_PAGE : 0u;
}
/*@ requires page <= 0xFFFFFFFF / 32;
    assigns \nothing;
    ensures \result == \max(0, \min(32, pos - page * 32 + 1)); */
static inline uint32_t ie_slot_hi(uint32_t page, uint32_t pos) {
    if (pos < page * IE_PAGE) return 0u;
    return pos - page * IE_PAGE < IE_PAGE ? pos - page * IE_PAGE + 1u : IE_PAGE;
}

/* ---- batches ---------------------------------------------------------------------------------------------------- */

/* A batch: n tokens, 1 .. 512, those of a sequence next to each other at positions that go up by one. */
/*@ predicate ie_batch_in(uint32_t *seq, uint32_t *pos, integer n, integer n_seq, integer n_pos) =
      \forall integer i; 0 <= i < n ==> seq[i] < n_seq && pos[i] < n_pos;
    predicate ie_batch_together(uint32_t *seq, uint32_t *pos, integer n) =
      \forall integer i, j, k; 0 <= j <= k <= i < n && seq[j] == seq[i] ==>
        seq[k] == seq[i] && pos[k] == pos[j] + (k - j); */
/*@ requires n <= IE_MAX_T ==> \valid_read(seq + (0 .. n - 1)) && \valid_read(pos + (0 .. n - 1));
    assigns \nothing;
    ensures \result == 0 || \result == 1;
    ensures \result != 0 ==> 1 <= n <= IE_MAX_T;
    ensures \result != 0 ==> ie_batch_in(seq, pos, n, n_seq, n_pos);
    ensures \result != 0 ==> ie_batch_together(seq, pos, n);
    ensures 1 <= n <= IE_MAX_T && ie_batch_in(seq, pos, n, n_seq, n_pos) && ie_batch_together(seq, pos, n) ==>
        \result != 0; */
static inline int ie_batch_ok(const uint32_t *seq, const uint32_t *pos, uint32_t n, uint32_t n_seq, uint32_t n_pos) {
    if (n == 0u || n > IE_MAX_T) return 0;
    /*@ loop invariant i <= n && ie_batch_in(seq, pos, i, n_seq, n_pos) && ie_batch_together(seq, pos, i);
        loop assigns i;
        loop variant n - i; */
    for (uint32_t i = 0u; i < n; i++) {
        if (seq[i] >= n_seq || pos[i] >= n_pos) return 0;
        if (i > 0u && seq[i] == seq[i - 1u]) {
            if (pos[i] != pos[i - 1u] + 1u) return 0;
        } else {
            /*@ loop invariant j <= i && (\forall integer k; 0 <= k < j ==> seq[k] != seq[i]);
                loop assigns j;
                loop variant i - j; */
            for (uint32_t j = 0u; j < i; j++)
                if (seq[j] == seq[i]) return 0;
        }
    }
    return 1;
}

/* Roll-back log of a recurrent layer whose state stands at position `base`: the inputs of base .. base + 31 lie in the
 * slots pos mod 32, those of the 3 positions before base, which the convolution over 4 tokens needs, in a ring of 4 behind
 * the slots. A step at pos replays [base, pos), takes n new tokens, and leaves the state at `next`: after the first new
 * token in decode (any of the others may be dropped again), at the beginning of the last 32 positions in prefill. */
#define IE_LOG_SLOTS (2u * IE_DECODE_T)
#define IE_LOG_TAPS 4u
/*@ assigns \nothing;
    ensures \result == pos % 32; */
static inline uint32_t ie_log_slot(uint32_t pos) { return pos % IE_LOG_SLOTS; }
/*@ assigns \nothing;
    ensures \result == 32 + pos % 4; */
static inline uint32_t ie_log_tap(uint32_t pos) { return IE_LOG_SLOTS + pos % IE_LOG_TAPS; }
/*@ requires base <= pos && 1 <= n && pos + n <= 0x80000000;
    assigns \nothing;
    ensures \result == (decode != 0 ? pos + 1 : \max(base, (pos + n - 1) / 32 * 32)); */
static inline uint32_t ie_log_next(uint32_t base, uint32_t pos, uint32_t n, uint32_t decode) {
    uint32_t segment = (pos + n - 1u) / IE_LOG_SLOTS * IE_LOG_SLOTS;
    if (decode != 0u) return pos + 1u;
    return segment > base ? segment : base;
}

/* ---- sizes ------------------------------------------------------------------------------------------------------ */

/* a * b <= limit, without computing a product that could wrap. */
/*@ assigns \nothing;
    ensures \result != 0 <==> a * b <= limit; */
static inline int ie_mul_ok(uint32_t a, uint32_t b, uint32_t limit) { return a == 0u || b <= limit / a; }
/* Words of a tile of nsb super-blocks, at most 2^21 under ie_dims_ok; a tile's first word is tile * this, in 64 bits.
 */
/*@ requires nsb * unit_words <= 0xFFFFFFFF;
    assigns \nothing;
    ensures \result == nsb * unit_words; */
static inline uint32_t ie_tile_words(uint32_t nsb, uint32_t unit_words) { return nsb * unit_words; }

/* ---- memory plan ------------------------------------------------------------------------------------------------ */

#define IE_PLAN_UNIT 256u /* bytes; offsets and sizes of a plan are counted in it */
#define IE_PLAN_MAX_BUFS 65536u

/* Both buffers hold data at some op. */
/*@ assigns \nothing;
    ensures \result != 0 <==> first_a <= last_b && first_b <= last_a; */
static inline int ie_plan_alive(uint32_t first_a, uint32_t last_a, uint32_t first_b, uint32_t last_b) {
    return first_a <= last_b && first_b <= last_a;
}
/* [off_a, off_a + size_a) and [off_b, off_b + size_b) share no unit; written without sums, so nothing can wrap. */
/*@ assigns \nothing;
    ensures \result == 0 || \result == 1;
    ensures \result != 0 <==> size_a == 0 || size_b == 0 || off_a + size_a <= off_b || off_b + size_b <= off_a; */
static inline int ie_plan_disjoint(uint32_t off_a, uint32_t size_a, uint32_t off_b, uint32_t size_b) {
    if (size_a == 0u || size_b == 0u) return 1;
    if (off_a <= off_b) return size_a <= off_b - off_a;
    return size_b <= off_a - off_b;
}
/* One buffer by itself: a live range that is not reversed, and all of it inside the arena. */
/*@ assigns \nothing;
    ensures \result != 0 <==> first <= last && off + size <= arena; */
static inline int ie_plan_buf_ok(uint32_t off, uint32_t size, uint32_t first, uint32_t last, uint32_t arena) {
    return first <= last && size <= arena && off <= arena - size;
}
/* 1 if and only if every buffer is ok by itself and no two that are alive together overlap. Arrays of n entries. */
/*@ predicate ie_plan_inside(uint32_t *off, uint32_t *size, uint32_t *first, uint32_t *last, integer i,
                             integer arena) = first[i] <= last[i] && off[i] + size[i] <= arena;
    predicate ie_plan_apart(uint32_t *off, uint32_t *size, uint32_t *first, uint32_t *last, integer i, integer j) =
      first[i] <= last[j] && first[j] <= last[i] ==> size[i] == 0 || size[j] == 0 || off[i] + size[i] <= off[j] ||
        off[j] + size[j] <= off[i];
    predicate ie_plan_fits(uint32_t *off, uint32_t *size, uint32_t *first, uint32_t *last, integer n, integer arena) =
      (\forall integer i; 0 <= i < n ==> ie_plan_inside(off, size, first, last, i, arena)) &&
      (\forall integer i, j; 0 <= j < i < n ==> ie_plan_apart(off, size, first, last, i, j)); */
/*@ requires \valid_read(off + (0 .. n - 1)) && \valid_read(size + (0 .. n - 1));
    requires \valid_read(first + (0 .. n - 1)) && \valid_read(last + (0 .. n - 1));
    assigns \nothing;
    ensures \result == 0 || \result == 1;
    ensures \result != 0 ==> ie_plan_fits(off, size, first, last, n, arena);
    ensures ie_plan_fits(off, size, first, last, n, arena) ==> \result != 0; */
static inline int ie_plan_check(const uint32_t *off, const uint32_t *size, const uint32_t *first, const uint32_t *last,
                                uint32_t n, uint32_t arena) {
    /*@ loop invariant i <= n && ie_plan_fits(off, size, first, last, i, arena);
        loop assigns i;
        loop variant n - i; */
    for (uint32_t i = 0u; i < n; i++) {
        if (!ie_plan_buf_ok(off[i], size[i], first[i], last[i], arena)) return 0;
        /*@ loop invariant j <= i;
            loop invariant \forall integer k; 0 <= k < j ==> ie_plan_apart(off, size, first, last, i, k);
            loop assigns j;
            loop variant i - j; */
        for (uint32_t j = 0u; j < i; j++) {
            if (ie_plan_alive(first[i], last[i], first[j], last[j]) &&
                !ie_plan_disjoint(off[i], size[i], off[j], size[j]))
                return 0;
        }
    }
    return 1;
}

#endif
