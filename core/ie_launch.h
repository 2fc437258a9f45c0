/* How launches of a GPU's matrix kernels share out tiles, segments and units, and where streaming kernels keep tokens. Functions and contracts as in ie_core.h, of
 * whose words they make use; their laws stand with that one's. */
#ifndef IE_LAUNCH_H
#define IE_LAUNCH_H

#include "ie_core.h"

/* ---- a tile to the waves of a workgroup ------------------------------------------------------------------------- */

/* Launches of a GPU's matrix kernels: `waves` waves (1 to 8) share the segments of a tile; a workgroup has one tile, or two of up to four waves each, and
 * so at most IE_WG_WAVES waves.
 * The waves that a tile should have, at most `most` (4 or 8): one for each segment, or one fewer where the row's last segment is less than half of the
 * others, so that no wave has less than half of what another one has. */
#define IE_WG_WAVES 8u
/*@ requires 1 <= nblk <= IE_MAX_K / 32 && (most == 4 || most == 8);
    assigns \nothing;
    ensures \result == \max(1, \min(most, (nblk + 4) / 8)); */
static inline uint32_t ie_tile_waves(uint32_t nblk, uint32_t most) {
    uint32_t n = (nblk + 4u) / 8u;
    return n < 1u ? 1u : n < most ? n : most;
}
/* A workgroup's tiles, and its waves; the place of a wave's tile among them; the wave's part of its tile. */
/*@ requires 1 <= waves <= 8;
    assigns \nothing;
    ensures \result == (waves <= 4 ? 2 : 1); */
static inline uint32_t ie_wg_tiles(uint32_t waves) { return waves <= 4u ? 2u : 1u; }
/*@ requires 1 <= waves <= 8;
    assigns \nothing;
    ensures \result == (waves <= 4 ? 2 * waves : waves); */
static inline uint32_t ie_wg_waves(uint32_t waves) { return waves <= 4u ? 2u * waves : waves; }
/*@ requires 1 <= waves <= 8 && wave < (waves <= 4 ? 2 * waves : waves);
    assigns \nothing;
    ensures \result == (wave < waves ? 0 : 1); */
static inline uint32_t ie_wave_slot(uint32_t wave, uint32_t waves) { return wave < waves ? 0u : 1u; }
/*@ requires 1 <= waves <= 8 && wave < (waves <= 4 ? 2 * waves : waves);
    assigns \nothing;
    ensures \result == (wave < waves ? wave : wave - waves); */
static inline uint32_t ie_wave_part(uint32_t wave, uint32_t waves) { return wave < waves ? wave : wave - waves; }
/* First segment of a part, of nseg; part = waves gives nseg. Shares of 4 and 8 waves; any other number has a segment for each (the last one two, if there
 * is one more), as ie_tile_waves has it. */
/*@ requires nseg <= IE_MAX_SEGS && 1 <= waves <= 8 && part <= waves;
    requires waves == 4 || waves == 8 || waves == nseg || waves + 1 == nseg;
    assigns \nothing;
    ensures \result <= nseg && (part == 0 ==> \result == 0) && (part == waves ==> \result == nseg);
    ensures waves == 4 ==> \result == nseg * (2 * part) / 8;
    ensures waves == 8 ==> \result == nseg * part / 8;
    ensures waves != 4 && waves != 8 && part < waves ==> \result == part; */
static inline uint32_t ie_wave_seg(uint32_t nseg, uint32_t part, uint32_t waves) {
    uint32_t share = ie_share(nseg, waves == 4u ? 2u * part : part, IE_WG_WAVES), each = part < waves ? part : nseg;
    return waves == 4u || waves == IE_WG_WAVES ? share : each;
}
/* Workgroups that have tiles. */
/*@ requires tiles <= IE_MAX_ROWS / 32 && 1 <= waves <= 8;
    assigns \nothing;
    ensures \result == (waves <= 4 ? (tiles + 1) / 2 : tiles); */
static inline uint32_t ie_wg_count(uint32_t tiles, uint32_t waves) { return waves <= 4u ? (tiles + 1u) / 2u : tiles; }
/* Workgroups of `waves` waves launched for `groups` of work; those from `groups` on have none. Passed over are 253 .. 256 workgroups and 2017 .. 2048
 * waves: at 253 to 256 workgroups of 8 waves gfx1201 was measured to be slow, and nobody knows which of the two numbers does it. */
/*@ requires groups <= 0x1000000 && 1 <= waves <= 8;
    assigns \nothing;
    ensures groups <= \result <= groups + 33 && !(253 <= \result <= 256);
    ensures !(2016 < \result * waves <= 2048); */
static inline uint32_t ie_grid_pad(uint32_t groups, uint32_t waves) {
    uint32_t n = groups >= 253u && groups <= 256u ? 257u : groups;
    return n * waves > 2016u && n * waves <= 2048u ? 2048u / waves + 1u : n;
}

/* ---- streaming kernels ------------------------------------------------------------------------------------------ */

/* Streaming launches (kernels/gemv_stream.c): workgroup wg of `step`, 8 or 16 waves, takes the tiles wg, wg + step, ... The tile
 * after one of its own. */
#define IE_STREAM_WAVES 16u /* at most */
/*@ requires tile < IE_MAX_ROWS / 32 && step <= IE_MAX_ROWS / 32;
    assigns \nothing;
    ensures \result == tile + step; */
static inline uint32_t ie_stream_next(uint32_t tile, uint32_t step) { return tile + step; }
/* First of wave i's of n segments; i = waves gives n. */
/*@ requires n <= IE_MAX_SEGS && (waves == 8 || waves == 16) && i <= waves;
    assigns \nothing;
    ensures \result == n * i / waves; */
static inline uint32_t ie_stream_seg(uint32_t n, uint32_t i, uint32_t waves) {
    return waves == IE_STREAM_WAVES ? ie_share(n, i, IE_STREAM_WAVES) : ie_share(n, i, IE_WG_WAVES);
}
/* Waves take turns: whose turn the i-th is. */
/*@ requires waves == 8 || waves == 16;
    assigns \nothing;
    ensures \result == i % waves; */
static inline uint32_t ie_wave_turn(uint32_t i, uint32_t waves) { return waves == IE_STREAM_WAVES ? i % IE_STREAM_WAVES : i % IE_WG_WAVES; }
/* The last tiles of a launch of one token, each shared by 2^lg workgroups (kernels/gemv_stream.c): which of these tiles is
 * workgroup wg's; which part of it; the part's first of n segments, part = 2^lg gives n. */
//@ requires lg <= 4; assigns \nothing;
static inline uint32_t ie_rest_tile(uint32_t wg, uint32_t lg) { return wg >> lg; }
//@ requires lg <= 4; assigns \nothing;
static inline uint32_t ie_rest_part(uint32_t wg, uint32_t lg) { return wg & ((1u << lg) - 1u); }
//@ requires lg <= 4 && n <= IE_MAX_SEGS && part <= 16; assigns \nothing;
static inline uint32_t ie_rest_seg(uint32_t n, uint32_t part, uint32_t lg) { return (n * part) >> lg; }
/* The last tiles of a launch of several tokens, shared by all its workgroups (kernels/gemv_stream_t.c): their segments, IE_MAX_SEGS each, are numbered. First
 * of workgroup wg's: `each` for every one, one more for the first `more`. */
#define IE_SHARED_TILES 10u /* of which a workgroup has segments, at most: each + 1 <= 128 */
/*@ requires wg <= 65536 && each <= 128 && more <= 65536;
    assigns \nothing;
    ensures \result == wg * each + \min(wg, more); */
static inline uint32_t ie_shared_first(uint32_t wg, uint32_t each, uint32_t more) { return wg * each + (wg < more ? wg : more); }
/* Which of the shared tiles segment g belongs to; which of the tile's it is; the first of tile i's. */
/*@ assigns \nothing;
    ensures \result == g / 16; */
static inline uint32_t ie_shared_tile(uint32_t g) { return g / IE_MAX_SEGS; }
/*@ assigns \nothing;
    ensures \result == g % 16; */
static inline uint32_t ie_shared_seg(uint32_t g) { return g % IE_MAX_SEGS; }
/* The place after `at` in a ring of n. */
/*@ requires at < n;
    assigns \nothing;
    ensures \result == (at + 1 == n ? 0 : at + 1); */
static inline uint32_t ie_ring_next(uint32_t at, uint32_t n) { return at + 1u == n ? 0u : at + 1u; }

/* Blocks of nt (8 or 16) tokens in LDS (kernels/gemv_stream_t.c): of two blocks 2 k, 2 k + 1 and 8 tokens first the values, then `planes`
 * planes of a word each. The first word of that of block b and token t; in it: word e of the values; the word of plane p. */
/*@ requires planes <= 3;
    assigns \nothing;
    ensures \result == 128 + 16 * planes; */
static inline uint32_t ie_stream_words(uint32_t planes) { return 128u + 16u * planes; }
/*@ requires b <= IE_MAX_K / 32 + 1 && t < 16 && (nt == 8 || nt == 16) && planes <= 3;
    assigns \nothing;
    ensures \result == (b / 2 * (nt / 8) + t / 8) * (128 + 16 * planes); */
static inline uint32_t ie_stream_group(uint32_t b, uint32_t t, uint32_t nt, uint32_t planes) {
    return (b / 2u * (nt / 8u) + t / 8u) * ie_stream_words(planes);
}
/*@ requires e < 8;
    assigns \nothing;
    ensures \result == t % 8 * 16 + e % 4 * 4 + b % 2 * 2 + e / 4; */
static inline uint32_t ie_stream_value(uint32_t b, uint32_t t, uint32_t e) { return t % 8u * 16u + e % 4u * 4u + b % 2u * 2u + e / 4u; }
/*@ requires p < 3;
    assigns \nothing;
    ensures \result == 128 + p * 16 + t % 8 / 2 * 4 + b % 2 * 2 + t % 2; */
static inline uint32_t ie_stream_plane(uint32_t b, uint32_t t, uint32_t p) { return 128u + p * 16u + t % 8u / 2u * 4u + b % 2u * 2u + t % 2u; }
/* Word j of a plane belongs to that token of the 8, and to that one of the two blocks. */
/*@ requires j < 16;
    assigns \nothing;
    ensures \result == j / 4 * 2 + j % 2; */
static inline uint32_t ie_stream_token(uint32_t j) { return j / 4u * 2u + j % 2u; }
/*@ requires j < 16;
    assigns \nothing;
    ensures \result == j / 2 % 2; */
static inline uint32_t ie_stream_block(uint32_t j) { return j / 2u % 2u; }

#endif
