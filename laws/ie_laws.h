/* The laws of core/ie_core.h and core/ie_layout.h: what its functions promise, each once, as a function of its inputs.
 *
 * A law returns LAW_HOLDS, LAW_BROKEN, or LAW_OUT when the inputs are outside its precondition. laws/README.md says in
 * a sentence what each states and what rests on it; tests/unit/test_laws.c runs each on 10^6 inputs inside its
 * precondition. Meanings are written here a second time, from the formats' definitions and in 64-bit arithmetic where
 * sums matter, not with the functions under test. Inputs are words and arrays of words (w), so that provers can leave
 * them free. */
#ifndef IE_LAWS_H
#define IE_LAWS_H

#include "ie_layout.h"

#define LAW_BROKEN 0
#define LAW_HOLDS 1
#define LAW_OUT 2

/* Byte k of an array of words, as a GGUF byte string; and its sign-extended value. */
static inline uint32_t law_byte(const uint32_t *w, uint32_t k) { return w[k / 4u] / (1u << (8u * (k % 4u))) % 256u; }
static inline int64_t law_sbyte(const uint32_t *w, uint32_t k) {
    int64_t b = (int64_t)law_byte(w, k);
    return b < 128 ? b : b - 256;
}
static inline void law_bytes(const uint32_t *w, uint8_t *out, uint32_t n) {
    for (uint32_t k = 0u; k < n; k++) out[k] = (uint8_t)law_byte(w, k);
}
/* Bit field of `width` bits from bit `at` of a byte or word. */
static inline uint32_t law_field(uint32_t w, uint32_t at, uint32_t width) { return (w >> at) % (1u << width); }

/* A step that provers do not find by themselves. */
/*@ ghost
    /@ requires a <= b;
       assigns \nothing;
       ensures a * c <= b * c; @/
    static void law_mono(uint64_t a, uint64_t b, uint64_t c) {} */

/* ---- tiles ------------------------------------------------------------------------------------------------------ */

/*@ assigns \nothing; ensures \result != LAW_BROKEN; */
static inline int law_dims_ok(uint32_t rows, uint32_t k) {
    return (ie_dims_ok(rows, k) != 0u) == (rows - 1u < 2097152u && k - 1u < 65536u);
}
/*@ assigns \nothing; ensures \result != LAW_BROKEN; */
static inline int law_tile_cover(uint32_t rows, uint32_t row) {
    if (!ie_dims_ok(rows, 1u) || row >= rows) return LAW_OUT;
    uint32_t tile = row / IE_TILE_ROWS, lane = row % IE_TILE_ROWS, n = ie_ntiles(rows);
    return tile < n && tile * IE_TILE_ROWS + lane == row && (n - 1u) * IE_TILE_ROWS < rows;
}
/*@ assigns \nothing; ensures \result != LAW_BROKEN; */
static inline int law_block_cover(uint32_t k, uint32_t i) {
    if (!ie_dims_ok(1u, k) || i >= k) return LAW_OUT;
    return i / IE_BLOCK < ie_nblk(k) && (ie_nblk(k) - 1u) * IE_BLOCK < k;
}
/*@ assigns \nothing; ensures \result != LAW_BROKEN; */
static inline int law_unit_bounds(uint32_t rows, uint32_t k, uint32_t tile, uint32_t sb) {
    if (!ie_dims_ok(rows, k) || tile >= ie_ntiles(rows) || sb >= ie_nblk(k)) return LAW_OUT;
    uint64_t n = (uint64_t)ie_ntiles(rows) * ie_nblk(k), u = (uint64_t)tile * ie_nblk(k) + sb;
    return ie_unit(tile, sb, ie_nblk(k)) == u && u < n && n < (1ull << 31);
}
/*@ assigns \nothing; ensures \result != LAW_BROKEN; */
static inline int law_unit_injective(uint32_t nsb, uint32_t t1, uint32_t s1, uint32_t t2, uint32_t s2) {
    if (nsb > IE_MAX_K / IE_BLOCK || s1 >= nsb || s2 >= nsb || t1 >= IE_MAX_ROWS / 32u || t2 >= IE_MAX_ROWS / 32u)
        return LAW_OUT;
    return (ie_unit(t1, s1, nsb) == ie_unit(t2, s2, nsb)) == (t1 == t2 && s1 == s2);
}
/*@ assigns \nothing; ensures \result != LAW_BROKEN; */
static inline int law_unit_order(uint32_t nsb, uint32_t t, uint32_t s) {
    if (nsb > IE_MAX_K / IE_BLOCK || s >= nsb || t >= IE_MAX_ROWS / 32u) return LAW_OUT;
    uint32_t next = s + 1u < nsb ? ie_unit(t, s + 1u, nsb) : ie_unit(t + 1u, 0u, nsb);
    return next == ie_unit(t, s, nsb) + 1u;
}

/* Fields have 1 .. 32 words a row (F32: 32), lane-major ones of a GPU unit up to 256, and start below 2048. */
/*@ assigns \nothing; ensures \result != LAW_BROKEN; */
static inline int law_field_wm(uint32_t base, uint32_t n, uint32_t w1, uint32_t r1, uint32_t w2, uint32_t r2) {
    if (base >= 2048u || n > 32u || w1 >= n || w2 >= n || r1 >= 32u || r2 >= 32u) return LAW_OUT;
    uint32_t a = ie_field_wm(base, w1, r1), b = ie_field_wm(base, w2, r2);
    return a >= base && a < base + n * 32u && (a == b) == (w1 == w2 && r1 == r2);
}
/*@ assigns \nothing; ensures \result != LAW_BROKEN; */
static inline int law_field_lm(uint32_t base, uint32_t n, uint32_t w1, uint32_t r1, uint32_t w2, uint32_t r2) {
    if (base >= 2048u || n > 256u || w1 >= n || w2 >= n || r1 >= 32u || r2 >= 32u) return LAW_OUT;
    uint32_t a = ie_field_lm(base, n, w1, r1), b = ie_field_lm(base, n, w2, r2);
    //@ assert n - w1 / 4 * 4 == 1 || n - w1 / 4 * 4 == 2 || n - w1 / 4 * 4 == 3 || n - w1 / 4 * 4 >= 4;
    //@ assert n - w2 / 4 * 4 == 1 || n - w2 / 4 * 4 == 2 || n - w2 / 4 * 4 == 3 || n - w2 / 4 * 4 >= 4;
    //@ assert (a - base) / 128 == w1 / 4 && (b - base) / 128 == w2 / 4;
    //@ assert a < base + n * 32;
    //@ assert w1 / 4 == w2 / 4 && r1 < r2 ==> a < b;
    //@ assert w1 / 4 == w2 / 4 && r1 > r2 ==> a > b;
    return a >= base && a < base + n * 32u && (a == b) == (w1 == w2 && r1 == r2);
}
/* Lane-major: up to 4 words of a row are neighbours, and 4 of them are 16-byte aligned where the field is. */
/*@ assigns \nothing; ensures \result != LAW_BROKEN; */
static inline int law_field_lm_wide(uint32_t base, uint32_t n, uint32_t w, uint32_t r) {
    if (base >= 2048u || base % 4u != 0u || n > 256u || w >= n || r >= 32u) return LAW_OUT;
    uint32_t g = w / 4u * 4u, first = ie_field_lm(base, n, g, r);
    //@ assert g / 4 == w / 4 && g % 4 == 0;
    //@ assert n - g >= 4 ==> first == base + w / 4 * 128 + r * 4;
    return ie_field_lm(base, n, w, r) == first + w % 4u && (g + 4u > n || first % 4u == 0u);
}
/*@ assigns \nothing; ensures \result != LAW_BROKEN; */
static inline int law_field_half(uint32_t base, uint32_t n, uint32_t e1, uint32_t r1, uint32_t e2, uint32_t r2) {
    if (base >= 2048u || n > 32u || e1 >= n || e2 >= n || r1 >= 32u || r2 >= 32u) return LAW_OUT;
    uint32_t a = ie_field_half(base, e1, r1), b = ie_field_half(base, e2, r2);
    return a / 2u >= base && a / 2u < base + n * 16u && (a == b) == (e1 == e2 && r1 == r2);
}

/* ---- unit layouts ----------------------------------------------------------------------------------------------- */

/* A format's fields: {first word, words} of up to 3 before the blocks, then nb blocks of bw words from word b on, each
 * with up to 2 fields {first word inside the block, words}. In the order of ie_format_id. */
#define LAW_FORMATS 15u
static const uint16_t law_layouts[LAW_FORMATS][15] = {
    /* words, GGUF bytes, 3 x {base, n}, b, bw, nb, 2 x {base, n} */
    {IE_F32_WORDS, 128, 0, 1024, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
    {IE_F16_WORDS, 64, 0, 512, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
    {IE_F16_WORDS, 64, 0, 512, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
    {IE_Q4_0_WORDS, 18, IE_Q4_0_D, 16, IE_Q4_0_Q, 128, 0, 0, 0, 0, 0, 0, 0, 0, 0},
    {IE_Q4_1_WORDS, 20, IE_Q4_1_DM, 32, IE_Q4_1_Q, 128, 0, 0, 0, 0, 0, 0, 0, 0, 0},
    {IE_Q5_0_WORDS, 22, IE_Q5_0_D, 16, IE_Q5_0_QH, 32, IE_Q5_0_Q, 128, 0, 0, 0, 0, 0, 0, 0},
    {IE_Q5_1_WORDS, 24, IE_Q5_1_DM, 32, IE_Q5_1_QH, 32, IE_Q5_1_Q, 128, 0, 0, 0, 0, 0, 0, 0},
    {IE_Q8_0_WORDS, 34, IE_Q8_0_D, 16, IE_Q8_0_Q, 256, 0, 0, 0, 0, 0, 0, 0, 0, 0},
    {IE_Q2_K_WORDS, 84, IE_Q2_K_DM, 32, IE_Q2_K_SC, 128, 0, 0, IE_Q2_K_B, IE_Q2_K_B_WORDS, 8, 0, 64, 0, 0},
    {IE_Q3_K_WORDS, 110, IE_Q3_K_D, 16, IE_Q3_K_SC, 96, 0, 0, IE_Q3_K_B, IE_Q3_K_B_WORDS, 8, 0, 32, 32, 64},
    {IE_Q4_K_WORDS, 144, IE_Q4_K_DM, 32, IE_Q4_K_SC, 96, 0, 0, IE_Q4_K_B, IE_Q4_K_B_WORDS, 8, 0, 128, 0, 0},
    {IE_Q5_K_WORDS, 176, IE_Q5_K_DM, 32, IE_Q5_K_SC, 96, 0, 0, IE_Q5_K_B, IE_Q5_K_B_WORDS, 8, 0, 32, 32, 128},
    {IE_Q6_K_WORDS, 210, IE_Q6_K_D, 16, IE_Q6_K_SC, 128, 0, 0, IE_Q6_K_B, IE_Q6_K_B_WORDS, 8, 0, 128, 128, 64},
    {IE_Q4_0_WORDS, 18, IE_Q4_0_D, 16, IE_Q4_0_Q, 128, 0, 0, 0, 0, 0, 0, 0, 0, 0},
    {IE_IQ4_XS_WORDS, 136, IE_IQ4_XS_DH, 32, IE_IQ4_XS_SL, 32, 0, 0, IE_IQ4_XS_B, IE_IQ4_XS_B_WORDS, 8, 0, 128, 0, 0},
};
#define LAW_FIELDS 19u /* 3 + 8 * 2 */
static inline uint32_t law_layout_base(uint32_t fmt, uint32_t f) {
    const uint16_t *t = law_layouts[fmt];
    if (f < 3u) return t[2u + 2u * f];
    return t[8] + (f - 3u) / 2u * t[9] + (uint32_t)t[11u + (f - 3u) % 2u * 2u];
}
static inline uint32_t law_layout_size(uint32_t fmt, uint32_t f) {
    const uint16_t *t = law_layouts[fmt];
    if (f < 3u) return t[3u + 2u * f];
    if ((f - 3u) / 2u >= t[10]) return 0u;
    return t[12u + (f - 3u) % 2u * 2u];
}
static inline int law_layout_disjoint(uint32_t fmt, uint32_t f1, uint32_t f2) {
    if (fmt >= LAW_FORMATS || f1 >= LAW_FIELDS || f2 >= LAW_FIELDS || f1 == f2) return LAW_OUT;
    uint32_t b1 = law_layout_base(fmt, f1), n1 = law_layout_size(fmt, f1);
    uint32_t b2 = law_layout_base(fmt, f2), n2 = law_layout_size(fmt, f2);
    if (n1 == 0u || n2 == 0u) return LAW_OUT;
    return b1 + n1 <= law_layouts[fmt][0] && (b1 + n1 <= b2 || b2 + n2 <= b1);
}
static inline int law_layout_full(uint32_t fmt) {
    if (fmt >= LAW_FORMATS) return LAW_OUT;
    uint32_t sum = 0u;
    for (uint32_t f = 0u; f < LAW_FIELDS; f++) sum += law_layout_size(fmt, f);
    return sum == law_layouts[fmt][0] && sum * 4u == law_layouts[fmt][1] * 32u && sum % 16u == 0u;
}

/* ---- GGUF's super-blocks ---------------------------------------------------------------------------------------- */

/* {bytes, blocks} of a super-block, then {first byte, bytes} of its arrays, in the order of ie_format_id from Q4_0 on
 * (float formats are one array). */
#define LAW_SOURCES 12u
static const uint8_t law_sources[LAW_SOURCES][10] = {
    {18, 1, IE_G_Q4_0_D, 2, IE_G_Q4_0_Q, 16, 0, 0, 0, 0},
    {20, 1, IE_G_Q4_1_DM, 4, IE_G_Q4_1_Q, 16, 0, 0, 0, 0},
    {22, 1, IE_G_Q5_0_D, 2, IE_G_Q5_0_QH, 4, IE_G_Q5_0_Q, 16, 0, 0},
    {24, 1, IE_G_Q5_1_DM, 4, IE_G_Q5_1_QH, 4, IE_G_Q5_1_Q, 16, 0, 0},
    {34, 1, IE_G_Q8_0_D, 2, IE_G_Q8_0_Q, 32, 0, 0, 0, 0},
    {84, 8, IE_G_Q2_K_SC, 16, IE_G_Q2_K_Q2, 64, IE_G_Q2_K_DM, 4, 0, 0},
    {110, 8, IE_G_Q3_K_QH, 32, IE_G_Q3_K_Q2, 64, IE_G_Q3_K_SC, 12, IE_G_Q3_K_D, 2},
    {144, 8, IE_G_Q4_K_DM, 4, IE_G_Q4_K_SC, 12, IE_G_Q4_K_Q, 128, 0, 0},
    {176, 8, IE_G_Q5_K_DM, 4, IE_G_Q5_K_SC, 12, IE_G_Q5_K_QH, 32, IE_G_Q5_K_Q, 128},
    {210, 8, IE_G_Q6_K_Q, 128, IE_G_Q6_K_Q2, 64, IE_G_Q6_K_SC, 16, IE_G_Q6_K_D, 2},
    {18, 1, IE_G_Q4_0_D, 2, IE_G_Q4_0_Q, 16, 0, 0, 0, 0},
    {136, 8, IE_G_IQ4_XS_DH, 4, IE_G_IQ4_XS_SL, 4, IE_G_IQ4_XS_Q, 128, 0, 0},
};
/* Byte `at` of a super-block belongs to exactly one array, which lies inside. */
static inline int law_source_arrays(uint32_t fmt, uint32_t at) {
    if (fmt >= LAW_SOURCES || at >= law_sources[fmt][0]) return LAW_OUT;
    uint32_t count = 0u;
    for (uint32_t f = 0u; f < 4u; f++) {
        uint32_t b = law_sources[fmt][2u + 2u * f], n = law_sources[fmt][3u + 2u * f];
        if (b + n > law_sources[fmt][0]) return LAW_BROKEN;
        if (b <= at && at < b + n) count++;
    }
    return count == 1u;
}
/* Super-block sb of a row of k weights lies inside the row's bytes; super-blocks follow each other, the last one ends with
 * the row. A float row's last block may be shorter. fmt: of law_sources, then F32, F16. */
static inline int law_source_row(uint32_t fmt, uint32_t k, uint32_t sb) {
    if (fmt >= LAW_SOURCES + 2u || k == 0u || k > IE_MAX_K) return LAW_OUT;
    uint32_t weight = fmt == LAW_SOURCES ? 4u : 2u; /* bytes of a float */
    uint32_t blocks = fmt < LAW_SOURCES ? law_sources[fmt][1] : 1u, bytes = fmt < LAW_SOURCES ? law_sources[fmt][0] : 32u * weight;
    if (fmt < LAW_SOURCES && (blocks == 8u ? k % 256u : k % 32u) != 0u) return LAW_OUT;
    uint32_t nsb = ie_nsb_of(k, blocks), row = ie_gguf_row_bytes(k, blocks, bytes);
    if (sb >= nsb) return LAW_OUT;
    if (fmt >= LAW_SOURCES) return row == k * weight && (sb + 1u < nsb ? (sb + 1u) * bytes <= row : row - sb * bytes <= bytes);
    return row == nsb * bytes && (sb + 1u) * bytes <= row && (blocks == 8u ? k == nsb * 256u : k == nsb * 32u);
}

/* ---- the GPU's units --------------------------------------------------------------------------------------------- */

#define LAW_GPU_ID(name, FORMAT, n0, n1, per, apart) LAW_GPU_##FORMAT,
enum { IE_GPU_FORMATS(LAW_GPU_ID) LAW_GPU_COUNT };
#define LAW_GPU_ROW(name, FORMAT, n0, n1, per, apart) {n0, n1, per, apart},
static const ie_gpu_format law_gpu[LAW_GPU_COUNT] = {IE_GPU_FORMATS(LAW_GPU_ROW)};
/* GGUF's bytes of 256 weights of a row, in the same order. */
static const uint16_t law_gguf_bytes[LAW_GPU_COUNT] = {144, 160, 176, 192, 272, 84, 110, 144, 176, 210, 144, 136, 1024, 512, 512};

/* Every block lies in exactly one unit, and no unit is empty. */
/*@ assigns \nothing; ensures \result != LAW_BROKEN; */
static inline int law_gpu_units(uint32_t nblk, uint32_t b, uint32_t u) {
    if (nblk > IE_MAX_K / IE_BLOCK || b >= nblk || u >= ie_gpu_units(nblk)) return LAW_OUT;
    uint32_t n = ie_gpu_unit_blocks(u, nblk), inside = b >= u * IE_GPU_UNIT && b < u * IE_GPU_UNIT + n;
    return n >= 1u && n <= IE_GPU_UNIT && b / IE_GPU_UNIT < ie_gpu_units(nblk) && inside == (b / IE_GPU_UNIT == u);
}
/* Units follow each other without a gap, the half-words apart come behind the last, and nothing reaches beyond the tile. */
/*@ assigns \nothing; ensures \result != LAW_BROKEN; */
static inline int law_gpu_tile(uint32_t n0, uint32_t n1, uint32_t per, uint32_t apart, uint32_t nblk, uint32_t u, uint32_t r) {
    if (n0 > 8u || n1 > 16u || per < 2u || per > 32u || apart > 1u || r >= 32u) return LAW_OUT;
    if (nblk == 0u || nblk > IE_MAX_K / IE_BLOCK || u >= ie_gpu_units(nblk)) return LAW_OUT;
    ie_gpu_format f = {n0, n1, per, apart};
    uint32_t last = ie_gpu_units(nblk) - 1u, units = ie_gpu_units_words(f, nblk), tile = ie_gpu_tile_words(f, nblk);
    uint32_t unit = ie_gpu_unit_words(f), nb = ie_gpu_unit_blocks(u, nblk), half = ie_gpu_apart(u, r);
    //@ assert nb * per <= 8 * per && u * unit <= 255 * unit;
    uint32_t size = 32u * (n0 + n1 + nb * per), at = ie_tile_words(u, unit);
    //@ assert u < last ==> nb == 8 && size == unit;
    //@ assert u * unit == u * (32 * (n0 + n1)) + u * 8 * (32 * per);
    //@ assert size == 32 * (n0 + n1) + nb * (32 * per);
    //@ assert u == last ==> nblk == u * 8 + nb;
    //@ assert u == last ==> nblk * (32 * per) == u * 8 * (32 * per) + nb * (32 * per);
    //@ assert u == last ==> (nblk + 7) / 8 == u + 1;
    //@ assert u == last ==> (nblk + 7) / 8 * (32 * (n0 + n1)) == u * (32 * (n0 + n1)) + 32 * (n0 + n1);
    if (u < last ? size != unit : at + size != units) return LAW_BROKEN;
    if (apart == 0u) return units == tile;
    return units < tile && half < 2u * (tile - units) && half / 32u == u && half % 32u == r;
}
/* A whole unit, half-words apart included, has the bytes of GGUF's 32 rows. */
static inline int law_gpu_bytes(uint32_t fmt) {
    if (fmt >= LAW_GPU_COUNT) return LAW_OUT;
    ie_gpu_format f = law_gpu[fmt];
    return f.n0 <= 8u && f.n1 <= 16u && f.per >= 2u && f.per <= 32u && f.apart <= 1u &&
           ie_gpu_unit_words(f) * 4u + f.apart * 64u == 32u * law_gguf_bytes[fmt];
}
/* Every (field, word, row) of a unit has its own place inside the unit. */
static inline int law_gpu_at(uint32_t fmt, uint32_t nb, uint32_t to1, uint32_t w1, uint32_t r1, uint32_t to2, uint32_t w2,
                             uint32_t r2) {
    if (fmt >= LAW_GPU_COUNT || nb == 0u || nb > 8u || to1 > 2u || to2 > 2u || r1 >= 32u || r2 >= 32u) return LAW_OUT;
    ie_gpu_format f = law_gpu[fmt];
    ie_gpu_place p1 = (ie_gpu_place)to1, p2 = (ie_gpu_place)to2;
    if (w1 >= ie_gpu_words(f, p1, nb) || w2 >= ie_gpu_words(f, p2, nb)) return LAW_OUT;
    uint32_t a = ie_gpu_at(f, p1, nb, w1, r1), b = ie_gpu_at(f, p2, nb, w2, r2);
    return a < 32u * (f.n0 + f.n1 + nb * f.per) && (a == b) == (to1 == to2 && w1 == w2 && r1 == r2);
}
/* The kernels' loads of block b's bulk words, by groups of four words from ie_gpu_block_at on, read the words that the host
 * put there; those of the headers, group by group, too. w: word of the block's; of the header. */
static inline int law_gpu_load(uint32_t fmt, uint32_t nb, uint32_t b, uint32_t w, uint32_t r) {
    if (fmt >= LAW_GPU_COUNT || nb == 0u || nb > 8u || b >= nb || r >= 32u) return LAW_OUT;
    ie_gpu_format f = law_gpu[fmt];
    if (w >= f.per || (f.per < 4u && nb < 8u)) return LAW_OUT;
    uint32_t v = f.per < 4u ? b % 2u * f.per + w : w; /* counted from the load's first word */
    uint32_t at = ie_gpu_block_at(f, b) + ie_field_lm(0u, v / 4u * 4u + 4u, v, r);
    return at == ie_gpu_at(f, IE_GPU_BULK, nb, f.per * b + w, r) && (ie_gpu_block_at(f, b) + r * 4u) % 4u == 0u;
}
static inline int law_gpu_load_head(uint32_t n, uint32_t w, uint32_t r) { /* a field of n words: whole groups, then the rest */
    if (n > 16u || w >= n || r >= 32u) return LAW_OUT;
    uint32_t m = w / 4u * 4u + 4u <= n ? w / 4u * 4u + 4u : n;
    return ie_field_lm(0u, m, w, r) == ie_field_lm(0u, n, w, r);
}

/* One row of IE_GPU_MOVES. */
typedef struct {
    uint32_t fmt, from, words, stride, to, at;
} law_move;
#define LAW_MOVE(FORMAT, FROM, WORDS, STRIDE, TO, AT) {LAW_GPU_##FORMAT, FROM, WORDS, STRIDE, TO, AT},
static const law_move law_moves[] = {IE_GPU_MOVES(LAW_MOVE)};
#define LAW_MOVES 38u
static inline uint32_t law_move_count(const law_move *m) { /* instances in 8 blocks */
    static const uint8_t k[LAW_GPU_COUNT] = {0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 0, 1, 0, 0, 0}; /* super-blocks of 8 */
    return k[m->fmt] != 0u && m->stride == 0u ? 1u : 8u;
}
/* Word v of field `to` of a format's whole unit comes from exactly one word of one move; half-words: from two of one. */
static inline int law_gpu_moves(uint32_t fmt, uint32_t to, uint32_t v) {
    if (fmt >= LAW_GPU_COUNT || to > 2u || v >= ie_gpu_words(law_gpu[fmt], (ie_gpu_place)to, 8u)) return LAW_OUT;
    uint32_t count = 0u;
    for (uint32_t i = 0u; i < LAW_MOVES; i++) {
        const law_move *m = &law_moves[i];
        if (m->fmt != fmt || m->to != to) continue;
        if (m->words == 0u) count += v < 4u; /* eight halves in four words */
        for (uint32_t j = 0u; j < law_move_count(m); j++)
            if (m->words != 0u && v >= ie_gpu_move_word(m->at, m->words, j, 0u) &&
                v <= ie_gpu_move_word(m->at, m->words, j, m->words - 1u))
                count++;
    }
    return count == 1u;
}
/* Word or half-word s of a word-major unit (16 words: one half-word a row) is moved exactly once: the fields that the moves
 * name are those of the layout. s counts sixteenths of 32 rows' words. */
static inline int law_gpu_sources(uint32_t fmt, uint32_t s) {
    static const uint8_t id[LAW_GPU_COUNT] = {3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 0, 1, 2}; /* in law_layouts */
    if (fmt >= LAW_GPU_COUNT || s >= law_layouts[id[fmt]][0] / 16u) return LAW_OUT;
    uint32_t count = 0u;
    for (uint32_t i = 0u; i < LAW_MOVES; i++) {
        const law_move *m = &law_moves[i];
        if (m->fmt != fmt) continue;
        for (uint32_t j = 0u; j < (m->stride != 0u ? 8u : 1u); j++) {
            uint32_t at = m->from + j * m->stride, b = at / 16u, n = m->words == 0u ? 1u : 2u * m->words;
            if (at % 16u != 0u) return LAW_BROKEN;
            if (fmt == LAW_GPU_F16 || fmt == LAW_GPU_BF16) n = 2u * m->words; /* 32 half-words */
            if (s >= b && s < b + n) count++;
        }
    }
    return count == 1u && sizeof law_moves / sizeof *law_moves == LAW_MOVES;
}

/* ---- words and halves ------------------------------------------------------------------------------------------- */

static inline int law_load(const uint32_t *w, uint32_t k) {
    if (k >= 4u) return LAW_OUT;
    uint8_t p[4];
    law_bytes(w, p, 4u);
    return ie_load32(p) == w[0] && ie_load16(p) == w[0] % 65536u && ie_byte_u(w[0], k) == p[k];
}
static inline int law_byte_sign(uint32_t w, uint32_t k) {
    if (k >= 4u) return LAW_OUT;
    return ie_byte_s(w, k) == law_sbyte(&w, k);
}
static inline int law_half(uint32_t w, uint32_t k, uint32_t h) {
    if (k >= 2u || h >= 65536u) return LAW_OUT;
    uint32_t v = ie_half_put(w, k, h);
    return ie_half_of(v, k) == h && ie_half_of(v, 1u - k) == ie_half_of(w, 1u - k) &&
           w == ie_half_of(w, 0u) + 65536u * ie_half_of(w, 1u);
}
/* The value of a finite f16 in units of 2^-24, and of a finite f32 that is one; NaN stays NaN, infinity infinity. */
static inline int law_f16_exact(uint32_t h) {
    if (h >= 65536u) return LAW_OUT;
    uint32_t e = law_field(h, 10u, 5u), m = h % 1024u, u = ie_f16_f32_bits(h), ue = law_field(u, 23u, 8u);
    uint32_t um = u % (1u << 23);
    if (u >> 31 != h >> 15) return LAW_BROKEN;
    if (e == 31u) return ue == 255u && um == (m == 0u ? 0u : (m | 512u) << 13);
    if (e == 0u && m == 0u) return ue == 0u && um == 0u;
    uint64_t units = e == 0u ? m : (uint64_t)(1024u + m) << (e - 1u);
    /* f32: (2^23 + um) * 2^(ue - 150) = units * 2^-24, so (2^23 + um) << (ue - 103) = units << 23 */
    return ue >= 103u && (uint64_t)((1u << 23) + um) << (ue - 103u) == units << 23;
}
static inline int law_f16_roundtrip(uint32_t h) {
    if (h >= 65536u) return LAW_OUT;
    uint32_t nan = law_field(h, 10u, 5u) == 31u && h % 1024u != 0u;
    return ie_f32_f16_bits(ie_f16_f32_bits(h)) == (nan ? h | 0x200u : h);
}
/* Where f16 h and h + 1 meet, as f32 bits: patterns between two neighbours are evenly spaced, but for 0 and 2^-24. */
static inline uint32_t law_f16_mid(uint32_t h) {
    uint32_t up = h == 0x7BFFu ? 0x47800000u : ie_f16_f32_bits(h + 1u);
    return h == 0u ? 0x33000000u : ie_f16_f32_bits(h) + (up - ie_f16_f32_bits(h)) / 2u;
}
static inline int law_f16_nearest(uint32_t u) {
    uint32_t a = u % 0x80000000u, h = ie_f32_f16_bits(u) % 0x8000u;
    if (ie_f32_f16_bits(u) >> 15 != u >> 31) return LAW_BROKEN;
    if (a > 0x7F800000u) return h > 0x7C00u;
    if (h > 0x7C00u) return LAW_BROKEN;
    if (h < 0x7C00u && (a > law_f16_mid(h) || (a == law_f16_mid(h) && h % 2u != 0u))) return LAW_BROKEN;
    return h == 0u || a > law_f16_mid(h - 1u) || (a == law_f16_mid(h - 1u) && h % 2u == 0u);
}
static inline int law_bf16(uint32_t h) {
    if (h >= 65536u) return LAW_OUT;
    return ie_bf16_f32_bits(h) == h * 65536u;
}

/* ---- weights of a block ----------------------------------------------------------------------------------------- */

/* What quant.h says weight i of a block is, from the row's words. */
static inline uint32_t law_nibble(const uint32_t *q, uint32_t i) {
    return law_field(law_byte(q, i % 16u), i / 16u * 4u, 4u);
}
static inline uint32_t law_two(const uint32_t *q2, uint32_t i) {
    return law_field(law_byte(q2, i % 8u), i / 8u * 2u, 2u);
}
static inline uint32_t law_bit(uint32_t qh, uint32_t i) { return (qh >> i) % 2u; }
static inline int64_t law_codebook(uint32_t n) {
    static const int8_t v[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
    return v[n % 16u];
}

static inline int law_q4_unpack(const uint32_t *q, uint32_t i) {
    if (i >= 32u) return LAW_OUT;
    return ie_byte_u(ie_q4_bytes(q, i / 4u), i % 4u) == law_nibble(q, i);
}
static inline int law_q4_pack(const uint32_t *q, uint32_t k) {
    if (k >= 4u) return LAW_OUT;
    return ie_q4_pack(ie_q4_bytes(q, k), ie_q4_bytes(q, k + 4u)) == q[k];
}
static inline int law_q2_unpack(const uint32_t *q2, uint32_t i) {
    if (i >= 32u) return LAW_OUT;
    return ie_byte_u(ie_q2_bytes(q2, i / 4u), i % 4u) == law_two(q2, i);
}
static inline int law_q2_pack(const uint32_t *q2, uint32_t k) {
    if (k >= 2u) return LAW_OUT;
    return ie_q2_pack(ie_q2_bytes(q2, k), ie_q2_bytes(q2, k + 2u), ie_q2_bytes(q2, k + 4u), ie_q2_bytes(q2, k + 6u)) ==
           q2[k];
}
static inline int law_bit_unpack(uint32_t qh, uint32_t i) {
    if (i >= 32u) return LAW_OUT;
    return ie_byte_u(ie_bit_bytes(qh, i / 4u), i % 4u) == law_bit(qh, i);
}
static inline int law_bit_pack(uint32_t qh, uint32_t e) {
    if (e >= 8u) return LAW_OUT;
    return ie_bit_pack(ie_bit_bytes(qh, e)) == law_field(qh, 4u * e, 4u);
}
static inline int law_q5_unpack(const uint32_t *q, uint32_t qh, uint32_t i) {
    if (i >= 32u) return LAW_OUT;
    return ie_byte_u(ie_q5_bytes(q, qh, i / 4u), i % 4u) == law_nibble(q, i) + 16u * law_bit(qh, i);
}
static inline int law_q3_unpack(const uint32_t *q2, uint32_t qh, uint32_t i) {
    if (i >= 32u) return LAW_OUT;
    return ie_byte_u(ie_q3_bytes(q2, qh, i / 4u), i % 4u) == law_two(q2, i) + 4u * law_bit(qh, i);
}
static inline int law_q6_unpack(const uint32_t *w, uint32_t i) { /* w: q 4, q2 2 */
    if (i >= 32u) return LAW_OUT;
    return ie_byte_u(ie_q6_bytes(w, w + 4, i / 4u), i % 4u) == law_nibble(w, i) + 16u * law_two(w + 4, i);
}
static inline int law_iq4_codebook(uint32_t n) {
    if (n >= 16u) return LAW_OUT;
    return ie_iq4_s(n) == law_codebook(n) && ie_iq4_u(n) == (uint32_t)(law_codebook(n) + 128);
}
static inline int law_iq4_bytes(uint32_t w, uint32_t k) {
    if (k >= 4u) return LAW_OUT;
    uint32_t n = law_byte(&w, k) % 16u;
    return ie_byte_u(ie_iq4_bytes_u(w & 0x0F0F0F0Fu), k) == (uint32_t)(law_codebook(n) + 128);
}

/* ---- repacking: unit words mean what GGUF's bytes mean ---------------------------------------------------------- */

/* src: the 128, 64 or 32 bytes of GGUF's array as words; b: block, i: weight of the block. */
static inline int law_take_q4k(const uint32_t *src, uint32_t b, uint32_t i) {
    if (b >= 8u || i >= 32u) return LAW_OUT;
    uint8_t p[128];
    uint32_t q[4];
    law_bytes(src, p, 128u);
    for (uint32_t k = 0u; k < 4u; k++) q[k] = ie_take_q4k(p, b, k);
    return law_nibble(q, i) == law_field(p[b / 2u * 32u + i], b % 2u * 4u, 4u);
}
static inline int law_take_q6k(const uint32_t *src, uint32_t b, uint32_t i) {
    if (b >= 8u || i >= 32u) return LAW_OUT;
    uint8_t p[128];
    uint32_t q[4], j = b % 4u * 32u + i; /* weight j of 128: bytes of 64, low nibbles first */
    law_bytes(src, p, 128u);
    for (uint32_t k = 0u; k < 4u; k++) q[k] = ie_take_q6k(p, b, k);
    return law_nibble(q, i) == law_field(p[b / 4u * 64u + j % 64u], j / 64u * 4u, 4u);
}
static inline int law_take_q2k(const uint32_t *src, uint32_t b, uint32_t i) {
    if (b >= 8u || i >= 32u) return LAW_OUT;
    uint8_t p[64];
    uint32_t q2[2];
    law_bytes(src, p, 64u);
    for (uint32_t k = 0u; k < 2u; k++) q2[k] = ie_take_q2k(p, b, k);
    return law_two(q2, i) == law_field(p[b / 4u * 32u + i], b % 4u * 2u, 2u);
}
static inline int law_take_bits(const uint32_t *src, uint32_t b, uint32_t i) {
    if (b >= 8u || i >= 32u) return LAW_OUT;
    uint8_t p[32];
    law_bytes(src, p, 32u);
    return law_bit(ie_take_bits(p, b), i) == law_field(p[i], b, 1u);
}
/* GGUF's arrays are read inside their bounds. */
/*@ assigns \nothing; ensures \result != LAW_BROKEN; */
static inline int law_take_bounds(uint32_t b, uint32_t w) {
    if (b >= 8u || w >= 4u) return LAW_OUT;
    if (ie_q4k_at(b, w) + 20u > 128u || ie_q6k_at(b, w) + 20u > 128u) return LAW_BROKEN;
    if (ie_q4k_shift(b) > 4u || ie_q6k_shift(b) > 4u || ie_q2k_shift(b) > 6u) return LAW_BROKEN;
    return w >= 2u || ie_q2k_at(b, w) + 28u <= 64u;
}
/* Two different words of a matrix's repacked super-block come from different bits of the source. */
/*@ assigns \nothing; ensures \result != LAW_BROKEN; */
static inline int law_take_once(uint32_t b1, uint32_t w1, uint32_t b2, uint32_t w2) {
    if (b1 >= 8u || b2 >= 8u || w1 >= 4u || w2 >= 4u || (b1 == b2 && w1 == w2)) return LAW_OUT;
    if (ie_q4k_shift(b1) == ie_q4k_shift(b2) && ie_q4k_at(b1, w1) == ie_q4k_at(b2, w2)) return LAW_BROKEN;
    if (ie_q6k_shift(b1) == ie_q6k_shift(b2) && ie_q6k_at(b1, w1) == ie_q6k_at(b2, w2)) return LAW_BROKEN;
    return w1 >= 2u || w2 >= 2u || ie_q2k_shift(b1) != ie_q2k_shift(b2) || ie_q2k_at(b1, w1) != ie_q2k_at(b2, w2);
}

/* ---- scales ----------------------------------------------------------------------------------------------------- */

static inline int law_k4_scales(const uint32_t *sc, uint32_t j) { /* 12 bytes: GGUF's Q4_K and Q5_K */
    if (j >= 8u) return LAW_OUT;
    uint32_t s, m;
    if (j < 4u) {
        s = law_byte(sc, j) % 64u;
        m = law_byte(sc, j + 4u) % 64u;
    } else {
        s = law_byte(sc, j + 4u) % 16u + law_byte(sc, j - 4u) / 64u * 16u;
        m = law_byte(sc, j + 4u) / 16u + law_byte(sc, j) / 64u * 16u;
    }
    return ie_k4_scale(sc, j) == s && ie_k4_min(sc, j) == m;
}
static inline int law_q3k_scales(const uint32_t *sc, uint32_t j) { /* 12 bytes: low nibbles in 8, high pairs in 4 */
    if (j >= 16u) return LAW_OUT;
    uint32_t lo = law_field(law_byte(sc, j % 8u), j / 8u * 4u, 4u);
    uint32_t hi = law_field(law_byte(sc, 8u + j % 4u), j / 4u * 2u, 2u);
    return ie_q3k_scale(sc, j) == (int32_t)(lo + 16u * hi) - 32;
}
static inline int law_byte_scales(const uint32_t *sc, uint32_t j) { /* 16 bytes: Q2_K, Q6_K */
    if (j >= 16u) return LAW_OUT;
    return ie_q2k_scale(sc, j) == law_byte(sc, j) % 16u && ie_q2k_min(sc, j) == law_byte(sc, j) / 16u &&
           ie_q6k_scale(sc, j) == law_sbyte(sc, j);
}
static inline int law_iq4xs_scales(uint32_t sh, uint32_t sl, uint32_t j) {
    if (j >= 8u || sh >= 65536u) return LAW_OUT;
    uint32_t lo = law_field(law_byte(&sl, j / 2u), j % 2u * 4u, 4u);
    return ie_iq4xs_scale(sh, sl, j) == (int32_t)(lo + 16u * law_field(sh, 2u * j, 2u)) - 32;
}

/* ---- dots: equal to the exact sum in 64 bits, which fits 32 ----------------------------------------------------- */

static inline int64_t law_sum(const uint32_t *a, uint32_t i0, uint32_t i1) {
    int64_t r = 0;
    for (uint32_t i = i0; i < i1; i++) r += law_sbyte(a, i);
    return r;
}
static inline int law_is(int32_t got, int64_t want) { return (int64_t)got == want; }

static inline int law_dot4(uint32_t x, uint32_t s) {
    int64_t us = 0, ss = 0;
    for (uint32_t k = 0u; k < 4u; k++) {
        us += (int64_t)law_byte(&x, k) * law_sbyte(&s, k);
        ss += law_sbyte(&x, k) * law_sbyte(&s, k);
    }
    return law_is(ie_dot4_us(x, s), us) && law_is(ie_dot4_ss(x, s), ss);
}
/* Signed by signed through an unsigned unit. */
static inline int law_dot4_flip(uint32_t x, uint32_t s) {
    return ie_dot4_ss(x, s) == ie_dot4_us(x ^ 0x80808080u, s) + 128 * ie_q8_nsum(&s, 1u);
}
static inline int law_dot_block(const uint32_t *w, uint32_t n) { /* w: 8 weight words, 8 activation words */
    if (n > 8u) return LAW_OUT;
    int64_t us = 0, ss = 0;
    for (uint32_t i = 0u; i < 4u * n; i++) {
        us += (int64_t)law_byte(w, i) * law_sbyte(w + 8, i);
        ss += law_sbyte(w, i) * law_sbyte(w + 8, i);
    }
    return law_is(ie_dot_us(w, w + 8, n), us) && law_is(ie_dot_ss(w, w + 8, n), ss);
}
static inline int law_q8_sums(const uint32_t *a) {
    int32_t lo = ie_q8_nsum(a, 4u), hi = ie_q8_nsum(a + 4, 4u);
    return law_is(lo, -law_sum(a, 0u, 16u)) && law_is(hi, -law_sum(a, 16u, 32u)) && ie_q8_nsum(a, 8u) == lo + hi &&
           lo >= -2032 && lo <= 2048 && lo + hi >= -4064 && lo + hi <= 4096;
}
static inline int law_q4_dot(const uint32_t *w) { /* q 4, a 8 */
    int64_t n = 0, n8 = 0;
    for (uint32_t i = 0u; i < 32u; i++) {
        n += (int64_t)law_nibble(w, i) * law_sbyte(w + 4, i);
        n8 += ((int64_t)law_nibble(w, i) - 8) * law_sbyte(w + 4, i);
    }
    return law_is(ie_q4_dot(w, w + 4), n) && law_is(ie_q4_0_dot(w, w + 4, ie_q8_nsum(w + 4, 8u)), n8);
}
static inline int law_q5_dot(const uint32_t *w) { /* q 4, qh 1, a 8 */
    int64_t n = 0, n16 = 0;
    for (uint32_t i = 0u; i < 32u; i++) {
        int64_t v = (int64_t)law_nibble(w, i) + 16 * (int64_t)law_bit(w[4], i);
        n += v * law_sbyte(w + 5, i);
        n16 += (v - 16) * law_sbyte(w + 5, i);
    }
    return law_is(ie_q5_dot(w, w[4], w + 5), n) && law_is(ie_q5_0_dot(w, w[4], w + 5, ie_q8_nsum(w + 5, 8u)), n16);
}
static inline int law_q8_dot(const uint32_t *w) { /* q 8, a 8 */
    int64_t r = 0;
    for (uint32_t i = 0u; i < 32u; i++) r += law_sbyte(w, i) * law_sbyte(w + 8, i);
    return law_is(ie_q8_dot(w, w + 8), r) && law_is(ie_q8_dot_u(w, w + 8, ie_q8_nsum(w + 8, 8u)), r);
}
static inline int law_iq4_dot(const uint32_t *w) { /* q 4, a 8 */
    int64_t r = 0;
    for (uint32_t i = 0u; i < 32u; i++) r += law_codebook(law_nibble(w, i)) * law_sbyte(w + 4, i);
    return law_is(ie_iq4_dot(w, w + 4, ie_q8_nsum(w + 4, 8u)), r);
}
#define LAW_F32_EXACT 16777216                                /* integers up to 2^24 convert to f32 exactly */
static inline int law_q6_dot(const uint32_t *w, uint32_t s) { /* q 4, q2 2, a 8; s: two int8 scales */
    int64_t lo = 0, hi = 0, s0 = law_sbyte(&s, 0u), s1 = law_sbyte(&s, 1u);
    for (uint32_t i = 0u; i < 32u; i++) {
        int64_t v = ((int64_t)law_nibble(w, i) + 16 * (int64_t)law_two(w + 4, i) - 32) * law_sbyte(w + 6, i);
        if (i < 16u)
            lo += v;
        else
            hi += v;
    }
    int32_t r = ie_q6_dot(w, w + 4, w + 6, ie_q8_nsum(w + 6, 4u), ie_q8_nsum(w + 10, 4u), (int32_t)s0, (int32_t)s1);
    return law_is(r, s0 * lo + s1 * hi) && r >= -LAW_F32_EXACT && r <= LAW_F32_EXACT;
}
static inline int law_q3_dot(const uint32_t *w, uint32_t s0, uint32_t s1) { /* q2 2, qh 1, a 8; scales plus 32 */
    if (s0 >= 64u || s1 >= 64u) return LAW_OUT;
    int64_t lo = 0, hi = 0, t0 = (int64_t)s0 - 32, t1 = (int64_t)s1 - 32;
    for (uint32_t i = 0u; i < 32u; i++) {
        int64_t v = ((int64_t)law_two(w, i) + 4 * (int64_t)law_bit(w[2], i) - 4) * law_sbyte(w + 3, i);
        if (i < 16u)
            lo += v;
        else
            hi += v;
    }
    int32_t r = ie_q3_dot(w, w[2], w + 3, ie_q8_nsum(w + 3, 4u), ie_q8_nsum(w + 7, 4u), (int32_t)t0, (int32_t)t1);
    return law_is(r, t0 * lo + t1 * hi) && r >= -LAW_F32_EXACT && r <= LAW_F32_EXACT;
}
static inline int law_q2_dot(const uint32_t *w, uint32_t s0, uint32_t s1, uint32_t m0, uint32_t m1) { /* q2 2, a 8 */
    if (s0 >= 16u || s1 >= 16u || m0 >= 16u || m1 >= 16u) return LAW_OUT;
    int64_t lo = 0, hi = 0;
    for (uint32_t i = 0u; i < 16u; i++) {
        lo += (int64_t)law_two(w, i) * law_sbyte(w + 2, i);
        hi += (int64_t)law_two(w, i + 16u) * law_sbyte(w + 2, i + 16u);
    }
    int32_t m = ie_q2_mins(ie_q8_nsum(w + 2, 4u), ie_q8_nsum(w + 6, 4u), (int32_t)m0, (int32_t)m1);
    return law_is(ie_q2_dot(w, w + 2, (int32_t)s0, (int32_t)s1), (int64_t)s0 * lo + (int64_t)s1 * hi) &&
           law_is(m, (int64_t)m0 * law_sum(w + 2, 0u, 16u) + (int64_t)m1 * law_sum(w + 2, 16u, 32u)) &&
           m >= -LAW_F32_EXACT && m <= LAW_F32_EXACT;
}

/* ---- sums, segments, shares ------------------------------------------------------------------------------------- */

static inline int law_tree(const uint32_t *w, uint32_t log2n) { /* w: up to 32 words */
    if (log2n > 5u) return LAW_OUT;
    uint32_t v[32], n = 1u << log2n, sum = 0u;
    for (uint32_t i = 0u; i < n; i++) {
        v[i] = w[i];
        sum += w[i];
    }
    ie_tree(v, n);
    return v[0] == sum;
}
static inline int law_butterfly(const uint32_t *w, uint32_t lane) { /* w: 32 words */
    if (lane >= 32u) return LAW_OUT;
    uint32_t v[32], sum = 0u;
    for (uint32_t i = 0u; i < 32u; i++) {
        v[i] = w[i];
        sum += w[i];
    }
    ie_butterfly(v);
    return v[lane] == sum;
}
/* Across the waves of a workgroup: a butterfly in each of 8 waves, then a tree over the waves' sums. */
static inline int law_wave_sums(const uint32_t *w) { /* w: 256 words */
    uint32_t v[256], top[8], sum = 0u;
    for (uint32_t i = 0u; i < 256u; i++) {
        v[i] = w[i];
        sum += w[i];
    }
    for (uint32_t i = 0u; i < 8u; i++) {
        ie_butterfly(v + 32u * i);
        top[i] = v[32u * i];
    }
    ie_tree(top, 8u);
    return top[0] == sum;
}
/* A launch has a workgroup for each group of work, is never of 253 .. 256, and otherwise not padded. */
static inline int law_grid_pad(uint32_t groups) {
    uint32_t n = ie_grid_pad(groups);
    return n >= groups && (n < 253u || n > 256u) && (n == groups || (n == 257u && n - groups <= 4u));
}
/* Numbers that results, files and kernels rest on: frozen. */
#define LAW_CONSTANTS 16u
static inline int law_constants(uint32_t i) {
    static const uint32_t is[LAW_CONSTANTS][2] = {
        {IE_TILE_ROWS, 32u}, {IE_BLOCK, 32u},    {IE_MAX_K, 65536u},  {IE_MAX_ROWS, 2097152u}, {IE_MAX_T, 512u},
        {IE_DECODE_T, 16u},  {IE_PAGE, 32u},     {IE_FOLD_PAGES, 8u}, {IE_MAX_SEGS, 16u},      {IE_Q8_NHI, 12u},
        {IE_LOG_SLOTS, 32u}, {IE_PLAN_UNIT, 256u}, {IE_PLAN_MAX_BUFS, 65536u},
        {IE_LOG_TAPS, 4u},   {IE_WG_WAVES, 8u},  {IE_GPU_UNIT, 8u}};
    if (i >= LAW_CONSTANTS) return LAW_OUT;
    return is[i][0] == is[i][1];
}
/* Segment boundaries are frozen too: share s of the groups of 8 blocks, in S parts. */
static inline int law_seg_exact(uint32_t nblk, uint32_t s) {
    uint32_t u = (nblk + 7u) / 8u, n = u < 16u ? u : 16u;
    if (nblk == 0u || nblk > IE_MAX_K / IE_BLOCK || s > IE_MAX_SEGS + 1u) return LAW_OUT;
    uint32_t b = s * u / n * 8u;
    return ie_nseg(nblk) == n && ie_seg_begin(s, nblk) == (b < nblk ? b : nblk);
}
/* Segments are 1 .. 16, non-empty, in order, whole groups of 8 blocks, from 0 to nblk. */
/*@ assigns \nothing; ensures \result != LAW_BROKEN; */
static inline int law_seg_order(uint32_t nblk, uint32_t s) {
    if (nblk == 0u || nblk > IE_MAX_K / IE_BLOCK || s >= ie_nseg(nblk)) return LAW_OUT;
    uint32_t n = ie_nseg(nblk), b = ie_seg_begin(s, nblk), e = ie_seg_begin(s + 1u, nblk);
    //@ assert 1 <= n <= (nblk + 7) / 8 && n * ((nblk + 7) / 8) / n == (nblk + 7) / 8;
    //@ assert (s + 1) * ((nblk + 7) / 8) == s * ((nblk + 7) / 8) + (nblk + 7) / 8;
    //@ assert s * ((nblk + 7) / 8) / n + 1 <= (s + 1) * ((nblk + 7) / 8) / n;
    //@ assert (s + 1) * ((nblk + 7) / 8) <= n * ((nblk + 7) / 8);
    //@ assert (s + 1) * ((nblk + 7) / 8) / n <= (nblk + 7) / 8;
    //@ assert b == s * ((nblk + 7) / 8) / n * 8;
    return n >= 1u && n <= IE_MAX_SEGS && b < e && e <= nblk && b % 8u == 0u && (e % 8u == 0u || e == nblk) &&
           ie_seg_begin(0u, nblk) == 0u && ie_seg_begin(n, nblk) == nblk;
}
static inline int law_seg_cover(uint32_t nblk, uint32_t b) {
    if (nblk > IE_MAX_K / IE_BLOCK || b >= nblk) return LAW_OUT;
    uint32_t count = 0u;
    for (uint32_t s = 0u; s < IE_MAX_SEGS; s++)
        if (s < ie_nseg(nblk) && ie_seg_begin(s, nblk) <= b && b < ie_seg_begin(s + 1u, nblk)) count++;
    return count == 1u;
}
/* Segment s of a row goes to exactly one of the waves that share a tile, and a wave's segments follow each other. */
static inline int law_wave_cover(uint32_t nseg, uint32_t waves, uint32_t s) {
    if (nseg > IE_MAX_SEGS || (waves != 4u && waves != 8u) || s >= nseg) return LAW_OUT;
    uint32_t count = 0u;
    for (uint32_t v = 0u; v < IE_WG_WAVES; v++)
        if (v < waves && ie_wave_seg(nseg, v, waves) <= s && s < ie_wave_seg(nseg, v + 1u, waves)) count++;
    return count == 1u && ie_wave_seg(nseg, 0u, waves) == 0u && ie_wave_seg(nseg, waves, waves) == nseg;
}
/* Every (tile, part) belongs to exactly one wave of one workgroup of the launch, padding included. */
/*@ assigns \nothing; ensures \result != LAW_BROKEN; */
static inline int law_wave_tile(uint32_t tiles, uint32_t waves, uint32_t tile, uint32_t part, uint32_t wg, uint32_t wave) {
    if (tiles > IE_MAX_ROWS / 32u || (waves != 4u && waves != 8u) || tile >= tiles || part >= waves) return LAW_OUT;
    uint32_t grid = ie_grid_pad(ie_wg_count(tiles, waves));
    if (wg >= grid || wave >= IE_WG_WAVES) return LAW_OUT;
    uint32_t per = ie_wg_tiles(waves), slot = ie_wave_slot(wave, waves), mine = ie_wave_part(wave, waves);
    uint32_t owner = tile / per, as = tile % per * waves + part; /* the one wave */
    int is = wg * per + slot == tile && mine == part;
    return slot < per && mine < waves && owner < grid && as < IE_WG_WAVES && is == (wg == owner && wave == as);
}
/*@ assigns \nothing; ensures \result != LAW_BROKEN; */
static inline int law_share_ok(uint32_t n, uint32_t parts) {
    return (ie_share_ok(n, parts) != 0) == (parts != 0u && (uint64_t)n * parts < (1ull << 32));
}
/*@ assigns \nothing; ensures \result != LAW_BROKEN; */
static inline int law_share(uint32_t n, uint32_t parts, uint32_t i) {
    if (parts == 0u || !ie_share_ok(n, parts) || i >= parts) return LAW_OUT;
    uint32_t b = ie_share(n, i, parts), e = ie_share(n, i + 1u, parts), size = n / parts;
    return b == (uint64_t)n * i / parts && ie_share(n, 0u, parts) == 0u && ie_share(n, parts, parts) == n && b <= e &&
           e <= n && (e - b == size || (e - b == size + 1u && n % parts != 0u));
}
/* Every token belongs to exactly one group, and no group is empty. */
/*@ assigns \nothing; ensures \result != LAW_BROKEN; */
static inline int law_tok_groups(uint32_t t, uint32_t n, uint32_t tok) {
    if (t == 0u || t > IE_MAX_T || n == 0u || n > IE_MAX_T || tok >= t) return LAW_OUT;
    uint32_t groups = ie_tok_groups(t, n);
    //@ assert t + n - 1 < (groups + 1) * n && groups * n <= t + n - 1;
    //@ assert tok / n * n <= tok < (tok / n + 1) * n;
    //@ assert tok / n + 1 <= groups || (tok / n) * n >= groups * n;
    return tok / n < groups && (groups - 1u) * n < t;
}
/* Every (piece of rows, block of tokens) is exactly one work item. */
/*@ assigns \nothing; ensures \result != LAW_BROKEN; */
static inline int law_items(uint32_t pieces, uint32_t blocks, uint32_t piece, uint32_t block) {
    if (pieces == 0u || pieces > IE_MAX_ROWS || blocks > 512u || piece >= pieces || block >= blocks) return LAW_OUT;
    uint32_t i = block * pieces + piece;
    //@ assert (block + 1) * pieces <= blocks * pieces;
    //@ assert i == pieces * block + piece;
    //@ assert i / pieces == block && i % pieces == piece;
    return i < blocks * pieces && ie_item_block(i, pieces) == block && ie_item_piece(i, pieces) == piece;
}
/* Every token of a batch lies in exactly one block; with two groups or more for each block none but the only block holds a
 * single token, whose Q8 layout is another. */
static inline int law_block_tok(uint32_t t, uint32_t blocks, uint32_t tok) {
    uint32_t groups = ie_tok_groups(t, IE_DECODE_T), count = 0u;
    if (t == 0u || t > IE_MAX_T || blocks == 0u || blocks > 16u || (blocks > 1u && groups < 2u * blocks) || tok >= t) return LAW_OUT;
    for (uint32_t k = 0u; k < 16u; k++) {
        if (k >= blocks) break;
        uint32_t b = ie_block_tok(groups, k, blocks), e = ie_block_tok(groups, k + 1u, blocks);
        e = e < t ? e : t;
        if (e <= b || (blocks > 1u && e - b < 2u)) return LAW_BROKEN;
        if (b <= tok && tok < e) count++;
    }
    return count == 1u;
}
/* Division by multiplication with the host's reciprocal is exact. */
/*@ assigns \nothing; ensures \result != LAW_BROKEN; */
static inline int law_div_inv(uint32_t x, uint32_t d) {
    if (d == 0u || (uint64_t)x * d >= (1ull << 32)) return LAW_OUT;
    uint64_t inv = ie_inv(d);
    //@ ghost uint32_t q = x / d;
    //@ assert q * d <= x < (q + 1) * d;
    //@ assert x * (inv * d - 4294967296) <= x * (d - 1) < 4294967296;
    //@ assert (x * inv) * d == x * (inv * d);
    //@ assert (x * inv) * d >= x * 4294967296 >= q * d * 4294967296;
    //@ assert (x * inv) * d < (x + 1) * 4294967296 <= (q + 1) * d * 4294967296;
    //@ assert x * inv >= q * 4294967296;
    //@ assert x * inv < (q + 1) * 4294967296;
    return ie_div_inv(x, inv) == x / d && inv * d >= (1ull << 32) && inv * d - (1ull << 32) < d;
}

/* ---- Q8 buffers ------------------------------------------------------------------------------------------------- */

/* The fields after the 8 words of q are different words of the block. */
/*@ assigns \nothing; ensures \result != LAW_BROKEN; */
static inline int law_q8_words(uint32_t i, uint32_t j) {
    static const uint32_t at[5] = {IE_Q8_D, IE_Q8_SA, IE_Q8_NSUM, IE_Q8_NLO, IE_Q8_NHI};
    if (i >= 5u || j >= 5u || i == j) return LAW_OUT;
    return at[i] != at[j] && at[i] >= IE_BLOCK / 4u && at[i] < IE_Q8_WORDS && IE_Q8_WORDS == 16u;
}
/*@ assigns \nothing; ensures \result != LAW_BROKEN; */
static inline int law_q8_at(uint32_t t, uint32_t nblk, uint32_t t1, uint32_t b1, uint32_t t2, uint32_t b2) {
    if (t == 0u || t > IE_MAX_T || nblk > IE_MAX_K / IE_BLOCK || t1 >= t || t2 >= t || b1 >= nblk || b2 >= nblk)
        return LAW_OUT;
    uint32_t g = ie_q8_group(t), x = ie_q8_at(t1, b1, nblk, g), y = ie_q8_at(t2, b2, nblk, g);
    if (t == 1u) return ie_q8_blocks(t, nblk) == nblk && x == b1 && y == b2;
    //@ assert x / 16 == t1 / 16 * nblk + b1 && x % 16 == t1 % 16;
    //@ assert y / 16 == t2 / 16 * nblk + b2 && y % 16 == t2 % 16;
    //@ ghost if (t1 / 16 < t2 / 16) law_mono((uint64_t)t1 / 16 + 1, t2 / 16, nblk);
    //@ ghost if (t1 / 16 > t2 / 16) law_mono((uint64_t)t2 / 16 + 1, t1 / 16, nblk);
    //@ ghost law_mono((uint64_t)t1 / 16 + 1, ((uint64_t)t + 15) / 16, nblk);
    uint32_t groups = (t + 15u) / 16u;
    return ie_q8_blocks(t, nblk) == groups * nblk * 16u && x < groups * nblk * 16u &&
           (x == y) == (t1 == t2 && b1 == b2) && (uint64_t)groups * nblk * 16u * IE_Q8_WORDS < (1ull << 32);
}
/* A token's blocks are g apart: a kernel steps through a row with one stride. */
/*@ assigns \nothing; ensures \result != LAW_BROKEN; */
static inline int law_q8_stride(uint32_t t, uint32_t nblk, uint32_t t1, uint32_t b) {
    if (t == 0u || t > IE_MAX_T || nblk > IE_MAX_K / IE_BLOCK || t1 >= t || b >= nblk) return LAW_OUT;
    uint32_t g = ie_q8_group(t);
    return ie_q8_at(t1, b, nblk, g) == ie_q8_at(t1, 0u, nblk, g) + b * g;
}

/* ---- KV pages --------------------------------------------------------------------------------------------------- */

/*@ assigns \nothing; ensures \result != LAW_BROKEN; */
static inline int law_k_elem(uint32_t hd, uint32_t s1, uint32_t d1, uint32_t s2, uint32_t d2) {
    if (hd == 0u || hd > 1024u || s1 >= 32u || s2 >= 32u) return LAW_OUT;
    uint32_t hdp = ie_head_pad(hd);
    if (d1 >= hdp || d2 >= hdp) return LAW_OUT;
    uint32_t a = ie_k_elem(s1, d1), b = ie_k_elem(s2, d2);
    return a < hdp * IE_PAGE && (a == b) == (s1 == s2 && d1 == d2) && a == ie_k_elem(s1, d1 / 8u * 8u) + d1 % 8u;
}
/*@ assigns \nothing; ensures \result != LAW_BROKEN; */
static inline int law_v_elem(uint32_t hd, uint32_t s1, uint32_t d1, uint32_t s2, uint32_t d2) {
    if (hd == 0u || hd > 1024u || s1 >= 32u || s2 >= 32u) return LAW_OUT;
    uint32_t hdp = ie_head_pad(hd);
    if (d1 >= hdp || d2 >= hdp) return LAW_OUT;
    uint32_t a = ie_v_elem(s1, d1, hdp), b = ie_v_elem(s2, d2, hdp);
    //@ ghost if (s1 < s2) law_mono((uint64_t)s1 + 1, s2, hdp);
    //@ ghost if (s1 > s2) law_mono((uint64_t)s2 + 1, s1, hdp);
    //@ assert (s1 + 1) * hdp <= 32 * hdp;
    return a < hdp * IE_PAGE && (a == b) == (s1 == s2 && d1 == d2);
}
/*@ assigns \nothing; ensures \result != LAW_BROKEN; */
static inline int law_head_pad(uint32_t hd) {
    if (hd == 0u || hd > 65536u) return LAW_OUT;
    return ie_head_pad(hd) % 8u == 0u && ie_head_pad(hd) >= hd && ie_head_pad(hd) < hd + 8u;
}
/*@ assigns \nothing; ensures \result != LAW_BROKEN; */
static inline int law_page_slot(uint32_t p1, uint32_t p2) {
    uint32_t same = ie_page_of(p1) == ie_page_of(p2) && ie_slot_of(p1) == ie_slot_of(p2);
    return ie_page_of(p1) * IE_PAGE + ie_slot_of(p1) == p1 && ie_slot_of(p1) < IE_PAGE && (p1 == p2) == same;
}
/*@ assigns \nothing; ensures \result != LAW_BROKEN; */
static inline int law_page_table(uint32_t n_seq, uint32_t per, uint32_t q1, uint32_t p1, uint32_t q2, uint32_t p2) {
    if (!ie_mul_ok(n_seq, per, 0xFFFFFFFFu) || q1 >= n_seq || q2 >= n_seq || p1 >= per || p2 >= per) return LAW_OUT;
    //@ ghost law_mono((uint64_t)q1 + 1, n_seq, per);
    //@ ghost law_mono((uint64_t)q2 + 1, n_seq, per);
    //@ ghost if (q1 < q2) law_mono((uint64_t)q1 + 1, q2, per);
    //@ ghost if (q1 > q2) law_mono((uint64_t)q2 + 1, q1, per);
    uint32_t a = ie_table_at(q1, p1, per), b = ie_table_at(q2, p2, per);
    return a < n_seq * per && (a == b) == (q1 == q2 && p1 == p2);
}
/*@ assigns \nothing; ensures \result != LAW_BROKEN; */
static inline int law_kv_ok(uint32_t n_pages, uint32_t n_layer, uint32_t n_kv) {
    uint64_t heads = (uint64_t)n_layer * n_kv; /* of a page; below 2^32 where n_pages * heads is formed */
    int want = heads != 0u && heads < (1ull << 32) && n_pages * heads < (1ull << 32);
    return (ie_kv_ok(n_pages, n_layer, n_kv) != 0) == want;
}
/*@ assigns \nothing; ensures \result != LAW_BROKEN; */
static inline int law_kv_part(uint32_t n_layer, uint32_t n_kv, uint32_t p1, uint32_t p2, uint32_t l1h1, uint32_t l2h2) {
    uint32_t l1 = l1h1 / 65536u, h1 = l1h1 % 65536u, l2 = l2h2 / 65536u, h2 = l2h2 % 65536u;
    if (p1 == 0xFFFFFFFFu || p2 == 0xFFFFFFFFu) return LAW_OUT;
    uint32_t n = p1 > p2 ? p1 + 1u : p2 + 1u; /* pages of the pool */
    if (!ie_kv_ok(n, n_layer, n_kv) || l1 >= n_layer || l2 >= n_layer || h1 >= n_kv || h2 >= n_kv) return LAW_OUT;
    //@ ghost law_mono((uint64_t)p1 + 1, n, (uint64_t)n_layer * n_kv);
    //@ ghost law_mono((uint64_t)p2 + 1, n, (uint64_t)n_layer * n_kv);
    uint32_t a = ie_kv_part(p1, l1, h1, n_layer, n_kv), b = ie_kv_part(p2, l2, h2, n_layer, n_kv);
    //@ ghost uint64_t u1 = (uint64_t)p1 * n_layer + l1, u2 = (uint64_t)p2 * n_layer + l2;
    //@ assert u1 == p1 * n_layer + l1 && u2 == p2 * n_layer + l2;
    //@ ghost if (p1 < p2) law_mono((uint64_t)p1 + 1, p2, n_layer);
    //@ ghost if (p1 > p2) law_mono((uint64_t)p2 + 1, p1, n_layer);
    //@ assert u1 == u2 <==> p1 == p2 && l1 == l2;
    //@ ghost if (u1 < u2) law_mono(u1 + 1, u2, n_kv);
    //@ ghost if (u1 > u2) law_mono(u2 + 1, u1, n_kv);
    //@ assert a == u1 * n_kv + h1 && b == u2 * n_kv + h2;
    //@ assert a == b <==> u1 == u2 && h1 == h2;
    //@ assert a < n * (n_layer * n_kv) <= 0xFFFFFFFF;
    return a == ((uint64_t)p1 * n_layer + l1) * n_kv + h1 && a < (uint64_t)n * n_layer * n_kv &&
           (a == b) == (p1 == p2 && l1 == l2 && h1 == h2);
}

/* ---- attention -------------------------------------------------------------------------------------------------- */

#define LAW_MAX_POS (1u << 31)
/*@ assigns \nothing; ensures \result != LAW_BROKEN; */
static inline int law_att_window(uint32_t pos, uint32_t window, uint32_t x) {
    if (pos >= LAW_MAX_POS || x >= LAW_MAX_POS) return LAW_OUT;
    int sees = x <= pos && (window == 0u || pos - x < window);
    return (x >= ie_att_first(pos, window) && x <= pos) == sees;
}
/* Slots of all pages cover exactly the positions [first, pos]. */
/*@ assigns \nothing; ensures \result != LAW_BROKEN; */
static inline int law_att_slots(uint32_t first, uint32_t pos, uint32_t x) {
    if (pos >= LAW_MAX_POS || first > pos || x >= LAW_MAX_POS) return LAW_OUT;
    uint32_t page = ie_page_of(x), slot = ie_slot_of(x), lo = ie_slot_lo(page, first), hi = ie_slot_hi(page, pos);
    return (lo <= slot && slot < hi) == (first <= x && x <= pos) && hi <= IE_PAGE;
}
/* Each page lies in exactly one partial; a token's partials are those from its first to its last position. */
/*@ assigns \nothing; ensures \result != LAW_BROKEN; */
static inline int law_att_parts(uint32_t pos, uint32_t k) {
    if (pos >= LAW_MAX_POS || k >= LAW_MAX_POS / 256u) return LAW_OUT;
    uint32_t page = ie_page_of(pos);
    return (ie_part_page(k) <= page && page < ie_part_page(k + 1u)) == (ie_part_of(pos) == k);
}

/* A launch of splits: (partial, page of it, slot) is taken exactly if it is a position that the token sees; so each is taken
 * once. */
/*@ assigns \nothing; ensures \result != LAW_BROKEN; */
static inline int law_att_once(uint32_t pos, uint32_t window, uint32_t k, uint32_t p, uint32_t slot) {
    if (pos >= LAW_MAX_POS || k >= LAW_MAX_POS / 256u || p >= IE_FOLD_PAGES || slot >= IE_PAGE) return LAW_OUT;
    uint32_t first = ie_att_first(pos, window), page = ie_part_page(k) + p, x = k * 256u + p * 32u + slot;
    int split = k >= ie_part_of(first) && k < ie_part_of(pos) + 1u;
    int taken = split && slot >= ie_slot_lo(page, first) && slot < ie_slot_hi(page, pos);
    return ie_page_of(x) == page && ie_slot_of(x) == slot && ie_part_of(x) == k && taken == (x >= first && x <= pos);
}
/* A token's partials, counted from its first, are fewer than the launch and the memory have room for; those of tokens up to
 * 15 positions later too. */
/*@ assigns \nothing; ensures \result != LAW_BROKEN; */
static inline int law_att_room(uint32_t pos, uint32_t later, uint32_t top, uint32_t window) {
    if (top >= LAW_MAX_POS || pos > top || later >= IE_DECODE_T || later > top - pos) return LAW_OUT;
    uint32_t k0 = ie_part_of(ie_att_first(pos, window)), most = top / 256u + 1u;
    if (window != 0u && window / 256u + 2u < most) most = window / 256u + 2u;
    return ie_part_of(pos) + 1u - k0 <= ie_att_parts(top, window) &&
           ie_part_of(pos + later) + 1u - k0 <= ie_att_run_parts(top, window) && ie_att_parts(top, window) == most &&
           ie_att_run_parts(top, window) == (window == 0u ? most : most + 1u);
}
/* Each of n <= parts partials lies in exactly one share. */
/*@ assigns \nothing; ensures \result != LAW_BROKEN; */
static inline int law_att_shares(uint32_t parts, uint32_t each, uint32_t k) {
    if (parts > LAW_MAX_POS / 256u || each == 0u || each > LAW_MAX_POS / 256u || k >= parts) return LAW_OUT;
    uint32_t n = ie_att_shares(parts, each), s = k / each;
    //@ assert s * each <= k < s * each + each;
    //@ assert n * each <= parts + each - 1 < n * each + each;
    //@ assert s < n || s * each >= n * each;
    return s < n && (uint64_t)(n - 1u) * each < parts && (uint64_t)s * each <= k && k < (uint64_t)s * each + each;
}

/* ---- batches ---------------------------------------------------------------------------------------------------- */

#define LAW_BATCH 5u
static inline int law_batch(const uint32_t *w, uint32_t n, uint32_t n_seq, uint32_t n_pos) { /* w: 5 seq, 5 pos */
    if (n > LAW_BATCH) return LAW_OUT;
    const uint32_t *seq = w, *pos = w + LAW_BATCH;
    int want = n >= 1u;
    for (uint32_t i = 0u; i < n; i++) {
        if (seq[i] >= n_seq || pos[i] >= n_pos) want = 0;
        for (uint32_t j = 0u; j < i; j++) /* equal sequences: everything between is theirs, positions in step */
            for (uint32_t k = j; k <= i; k++)
                if (seq[i] == seq[j] && (seq[k] != seq[i] || (uint64_t)pos[k] != (uint64_t)pos[j] + (k - j))) want = 0;
    }
    return (ie_batch_ok(seq, pos, n, n_seq, n_pos) != 0) == want;
}
/* A token that is still to be replayed (i of the `kept` accepted ones from pos on) keeps its slot while up to 16 new
 * ones (j-th after them) are logged; new ones have slots of their own. */
/*@ assigns \nothing; ensures \result != LAW_BROKEN; */
static inline int law_log_ring(uint32_t pos, uint32_t kept, uint32_t i, uint32_t j, uint32_t j2) {
    if (pos >= LAW_MAX_POS || kept > IE_DECODE_T || i >= kept || j >= IE_DECODE_T || j2 >= IE_DECODE_T) return LAW_OUT;
    uint32_t a = ie_log_slot(pos + i), b = ie_log_slot(pos + kept + j), c = ie_log_slot(pos + kept + j2);
    return a < IE_LOG_SLOTS && a != b && (b == c) == (j == j2);
}

/* Where a step leaves the state: not behind where it was, nor beyond the step's end; what the log has to hold then fits. */
/*@ assigns \nothing; ensures \result != LAW_BROKEN; */
static inline int law_log_next(uint32_t base, uint32_t pos, uint32_t n, uint32_t decode) {
    if (pos >= LAW_MAX_POS || n == 0u || n > IE_MAX_T || base > pos || n > LAW_MAX_POS - pos) return LAW_OUT;
    if (decode > 1u || (decode == 1u && n > IE_DECODE_T)) return LAW_OUT;
    uint32_t next = ie_log_next(base, pos, n, decode);
    return base <= next && next <= pos + n && pos + n - next <= IE_LOG_SLOTS && (decode == 0u || next == pos + 1u) &&
           (decode == 1u || next == base || next % IE_LOG_SLOTS == 0u);
}
/* A step over the log, seen from one of its rows (any). The state stands at base, the log holds [base, base + kept) and the
 * 3 positions before base; the step begins `back` positions before the log's end. Every token that is replayed finds its own
 * inputs, and afterwards the log holds what the next step may ask for. `held` says whose inputs the row holds: 4 plus a
 * position counted from base (0: nobody's). */
static inline int law_log_replay(uint32_t base, uint32_t kept, uint32_t back, uint32_t n, uint32_t decode, uint32_t row) {
    if (kept > IE_LOG_SLOTS || back > kept || base >= LAW_MAX_POS - 1024u || decode > 1u) return LAW_OUT;
    if (n == 0u || n > (decode == 1u ? IE_DECODE_T : IE_MAX_T) || row >= IE_LOG_SLOTS + IE_LOG_TAPS) return LAW_OUT;
    uint32_t held = 0u, pos = kept - back, end = pos + n, next = ie_log_next(base, base + pos, n, decode) - base, i;
    if (next > end || end - next > IE_LOG_SLOTS) return LAW_BROKEN;
    for (i = 0u; i < IE_LOG_SLOTS; i++)
        if (i < kept && ie_log_slot(base + i) == row) held = 4u + i;
    for (i = 1u; i < IE_LOG_TAPS; i++)
        if (base >= i && ie_log_tap(base - i) == row) held = 4u - i;
    /* the convolution reads the 3 before base; then the replayed ones are read, and kept in the ring if next comes soon */
    for (i = 1u; i < IE_LOG_TAPS; i++)
        if (base >= i && ie_log_tap(base - i) == row && held != 4u - i) return LAW_BROKEN;
    for (i = 0u; i < IE_LOG_SLOTS; i++) {
        if (i < pos && ie_log_slot(base + i) == row && held != 4u + i) return LAW_BROKEN;
        if (i < pos && i < next && i + 3u >= next && ie_log_tap(base + i) == row) held = 4u + i;
    }
    /* the new ones: before next to the ring, from it on to their slots */
    uint32_t from = next < 3u || next - 3u < pos ? pos : next - 3u;
    for (i = 0u; i < IE_LOG_SLOTS + 3u; i++)
        if (from + i < end && (from + i < next ? ie_log_tap(base + from + i) : ie_log_slot(base + from + i)) == row)
            held = 4u + from + i;
    if (end - from > IE_LOG_SLOTS + 3u) return LAW_BROKEN;
    for (i = 0u; i < IE_LOG_SLOTS; i++)
        if (next + i < end && ie_log_slot(base + next + i) == row && held != 4u + next + i) return LAW_BROKEN;
    for (i = 1u; i < IE_LOG_TAPS; i++)
        if (base + next >= i && ie_log_tap(base + next - i) == row && held != 4u + next - i) return LAW_BROKEN;
    return LAW_HOLDS;
}

/* ---- sizes and the plan ----------------------------------------------------------------------------------------- */

/*@ assigns \nothing; ensures \result != LAW_BROKEN; */
static inline int law_mul_ok(uint32_t a, uint32_t b, uint32_t limit) {
    return (ie_mul_ok(a, b, limit) != 0) == ((uint64_t)a * b <= limit);
}
/* Words inside a tile are counted in 32 bits: at most 2^21, for every format. */
/*@ assigns \nothing; ensures \result != LAW_BROKEN; */
static inline int law_tile_words(uint32_t fmt, uint32_t k, uint32_t sb) {
    if (fmt >= LAW_FORMATS || !ie_dims_ok(1u, k)) return LAW_OUT;
    uint32_t blocks = law_layouts[fmt][10] != 0u ? 8u : 1u, nsb = (ie_nblk(k) + blocks - 1u) / blocks;
    if (sb >= nsb) return LAW_OUT;
    uint32_t words = law_layouts[fmt][0], all = ie_tile_words(nsb, words);
    return all == (uint64_t)nsb * words && all <= (1u << 21) && (uint64_t)sb * words + words <= all;
}
/*@ assigns \nothing; ensures \result != LAW_BROKEN; */
static inline int law_plan_pair(uint32_t o1, uint32_t s1, uint32_t o2, uint32_t s2) {
    uint64_t e1 = (uint64_t)o1 + s1, e2 = (uint64_t)o2 + s2;
    uint64_t b = o1 > o2 ? o1 : o2, e = e1 < e2 ? e1 : e2; /* the intersection is [b, e) */
    return (ie_plan_disjoint(o1, s1, o2, s2) != 0) == (b >= e) &&
           ie_plan_disjoint(o1, s1, o2, s2) == ie_plan_disjoint(o2, s2, o1, s1);
}
/*@ assigns \nothing; ensures \result != LAW_BROKEN; */
static inline int law_plan_alive(uint32_t f1, uint32_t l1, uint32_t f2, uint32_t l2) {
    if (f1 > l1 || f2 > l2) return LAW_OUT;
    uint32_t f = f1 > f2 ? f1 : f2, l = l1 < l2 ? l1 : l2; /* the ops at which both live are [f, l] */
    return (ie_plan_alive(f1, l1, f2, l2) != 0) == (f <= l);
}
/* Accepted: all inside, none overlapping while alive. Refused: a real violation. */
#define LAW_PLAN 4u
static inline int law_plan_check(const uint32_t *w, uint32_t n,
                                 uint32_t arena) { /* w: 4 off, 4 size, 4 first, 4 last */
    if (n > LAW_PLAN) return LAW_OUT;
    const uint32_t *off = w, *size = w + 4, *first = w + 8, *last = w + 12;
    int want = 1;
    for (uint32_t i = 0u; i < n; i++) {
        if ((uint64_t)off[i] + size[i] > arena || first[i] > last[i]) want = 0;
        for (uint32_t j = 0u; j < n; j++) {
            uint64_t b = off[i] > off[j] ? off[i] : off[j], ei = (uint64_t)off[i] + size[i],
                     ej = (uint64_t)off[j] + size[j];
            int apart = b >= (ei < ej ? ei : ej), alive = first[i] <= last[j] && first[j] <= last[i];
            if (i != j && alive && !apart) want = 0;
        }
    }
    return (ie_plan_check(off, size, first, last, n, arena) != 0) == want;
}

#endif
