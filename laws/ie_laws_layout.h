/* Laws of layouts: the CPU's units, GGUF's super-blocks, the GPU's units (core/ie_layout.h). How a law is written: ie_laws.h. */
#ifndef IE_LAWS_LAYOUT_H
#define IE_LAWS_LAYOUT_H

#include "ie_laws.h"

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

/* Words inside a tile are counted in 32 bits: at most 2^21, for every format. */
/*@ assigns \nothing; ensures \result != LAW_BROKEN; */
static inline int law_tile_words(uint32_t fmt, uint32_t k, uint32_t sb) {
    if (fmt >= LAW_FORMATS || !ie_dims_ok(1u, k)) return LAW_OUT;
    uint32_t blocks = law_layouts[fmt][10] != 0u ? 8u : 1u, nsb = (ie_nblk(k) + blocks - 1u) / blocks;
    if (sb >= nsb) return LAW_OUT;
    uint32_t words = law_layouts[fmt][0], all = ie_tile_words(nsb, words);
    return all == (uint64_t)nsb * words && all <= (1u << 21) && (uint64_t)sb * words + words <= all;
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
/* Super-blocks of `blocks` blocks cover a row of any length, and none is empty. */
/*@ assigns \nothing; ensures \result != LAW_BROKEN; */
static inline int law_sb_cover(uint32_t k, uint32_t blocks) {
    if (!ie_dims_ok(1u, k) || (blocks != 1u && blocks != 8u)) return LAW_OUT;
    uint32_t n = ie_nsb_of(k, blocks), weights = blocks == 1u ? 32u : 256u;
    return n >= 1u && (n - 1u) * weights < k && k <= n * weights;
}
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
/* Streaming: every unit of a row belongs to exactly one of the waves that share out its segments, with all of its blocks and no
 * other segment's; nothing is asked for behind the row. No wave has two segments more than another. */
static inline int law_stream_units(uint32_t nblk, uint32_t waves, uint32_t b) {
    if (nblk > IE_MAX_K / IE_BLOCK || (waves != 8u && waves != 16u) || b >= nblk) return LAW_OUT;
    uint32_t n = ie_nseg(nblk), u = b / 8u, count = 0u;
    for (uint32_t v = 0u; v < 16u; v++) {
        if (v >= waves) break;
        uint32_t s = ie_stream_seg(n, v, waves), e = ie_stream_seg(n, v + 1u, waves);
        if (s > e || e - s < n / waves || e - s > n / waves + 1u) return LAW_BROKEN;
        uint32_t takes = ie_seg_unit(s, nblk) <= u && u < ie_seg_unit(e, nblk);
        if (takes != (ie_seg_begin(s, nblk) <= b && b < ie_seg_begin(e, nblk))) return LAW_BROKEN;
        count += takes;
    }
    return count == 1u && ie_stream_seg(n, waves, waves) == n && ie_seg_unit(n, nblk) == ie_gpu_units(nblk);
}
/* Units follow each other without a gap, the half-words apart come behind the last, nothing reaches beyond the tile, and the
 * tile ends with the 128 bytes that the last of them needs. */
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
    if (ie_gpu_part_words(f, nb) != size || ie_gpu_place_words(f) != unit + 16u * apart || size > unit) return LAW_BROKEN;
    if (u < last ? size != unit : at + size != units) return LAW_BROKEN;
    if (apart == 0u) return units == tile;
    uint32_t room = tile - units, halves = 32u * (last + 1u);
    //@ assert room == (last + 2) / 2 * 32;
    if (units >= tile || room % 32u != 0u || 2u * room < halves || 2u * room >= halves + 64u) return LAW_BROKEN;
    return half < 2u * room && half / 32u == u && half % 32u == r;
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
/* Half-words of a field of a format's whole unit: half h of word w counts as 2 w + h; apart: one of a super-block. */
static inline uint32_t law_place_halves(uint32_t fmt, uint32_t to) {
    return to == IE_GPU_APART ? law_gpu[fmt].apart : 2u * ie_gpu_words(law_gpu[fmt], (ie_gpu_place)to, 8u);
}
/* Half-word h of field `to` of a format's whole unit comes from exactly one half-word of one move, and no move goes beyond the
 * field. Instances follow each other: word i of instance j is word j * words + i from the move's first. */
static inline int law_gpu_moves(uint32_t fmt, uint32_t to, uint32_t h) {
    if (fmt >= LAW_GPU_COUNT || to > IE_GPU_APART || h >= law_place_halves(fmt, to)) return LAW_OUT;
    uint32_t halves = law_place_halves(fmt, to), count = 0u;
    for (uint32_t m = 0u; m < LAW_MOVES; m++) {
        if (law_moves[m].fmt != fmt || law_moves[m].to != to) continue;
        uint32_t words = law_moves[m].words, at = law_moves[m].at;
        for (uint32_t j = 0u; j < law_move_count(&law_moves[m]); j++) {
            if (words == 0u) {
                uint32_t e = ie_gpu_move_half(at, j);
                if (e != at + j || e >= halves) return LAW_BROKEN;
                count += e == h;
            }
            for (uint32_t i = 0u; i < words; i++) {
                uint32_t w = ie_gpu_move_word(at, words, j, i);
                if (w != at + j * words + i || w >= halves / 2u) return LAW_BROKEN;
                count += w == h / 2u;
            }
        }
    }
    return count == 1u;
}
/* Half-words of 32 rows (16 words) s of a word-major unit are moved exactly once, and no move takes what lies behind the unit: the
 * fields that the moves name are those of the layout. */
static inline int law_gpu_sources(uint32_t fmt, uint32_t s) {
    static const uint8_t id[LAW_GPU_COUNT] = {3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 0, 1, 2}; /* in law_layouts */
    if (fmt >= LAW_GPU_COUNT || s >= law_layouts[id[fmt]][0] / 16u) return LAW_OUT;
    uint32_t all = law_layouts[id[fmt]][0] / 16u, count = 0u;
    for (uint32_t i = 0u; i < LAW_MOVES; i++) {
        const law_move *m = &law_moves[i];
        if (m->fmt != fmt) continue;
        for (uint32_t j = 0u; j < (m->stride != 0u ? 8u : 1u); j++) {
            uint32_t at = m->from + j * m->stride, b = at / 16u, n = m->words == 0u ? 1u : 2u * m->words;
            if (at % 16u != 0u || b + n > all) return LAW_BROKEN;
            count += s >= b && s < b + n;
        }
    }
    return count == 1u && sizeof law_moves / sizeof *law_moves == LAW_MOVES;
}

#endif
