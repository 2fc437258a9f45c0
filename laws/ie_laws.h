/* The laws of core/ie_core.h, ie_launch.h and ie_layout.h: what their functions promise, each once, as a function of its inputs. Here: maps,
 * shares, sizes and the plan; ie_laws_bits.h: words, unpacking, dots; ie_laws_layout.h: units and super-blocks.
 *
 * A law returns LAW_HOLDS, LAW_BROKEN, or LAW_OUT when the inputs are outside its precondition. laws/README.md says in
 * a sentence what each states and what rests on it; tests/unit/test_laws.c runs each on 10^6 inputs inside its
 * precondition. Meanings are written here a second time, from the formats' definitions and in 64-bit arithmetic where
 * sums matter, not with the functions under test. Inputs are words and arrays of words (w), so that provers can leave
 * them free. */
#ifndef IE_LAWS_H
#define IE_LAWS_H

#include "ie_launch.h"
#include "ie_layout.h"

#define LAW_BROKEN 0
#define LAW_HOLDS 1
#define LAW_OUT 2

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
/* A launch has a workgroup for each group of work, is never of 253 .. 256 workgroups nor of 2017 .. 2048 waves, and has not one more
 * than that takes. */
static inline uint32_t law_grid_slow(uint32_t groups, uint32_t waves) {
    return (groups >= 253u && groups <= 256u) || (groups * waves > 2016u && groups * waves <= 2048u);
}
static inline int law_grid_pad(uint32_t groups, uint32_t waves) {
    if (groups > 0x1000000u || waves == 0u || waves > IE_WG_WAVES) return LAW_OUT;
    uint32_t n = ie_grid_pad(groups, waves);
    if (!law_grid_slow(groups, waves)) return n == groups;
    return n > groups && !law_grid_slow(n, waves) && law_grid_slow(n - 1u, waves);
}
/* Numbers that results, files and kernels rest on: frozen. */
#define LAW_CONSTANTS 18u
static inline int law_constants(uint32_t i) {
    static const uint32_t is[LAW_CONSTANTS][2] = {
        {IE_TILE_ROWS, 32u}, {IE_BLOCK, 32u},    {IE_MAX_K, 65536u},  {IE_MAX_ROWS, 2097152u}, {IE_MAX_T, 512u},
        {IE_DECODE_T, 16u},  {IE_PAGE, 32u},     {IE_FOLD_PAGES, 8u}, {IE_MAX_SEGS, 16u},      {IE_Q8_NHI, 12u},
        {IE_LOG_SLOTS, 32u}, {IE_PLAN_UNIT, 256u}, {IE_PLAN_MAX_BUFS, 65536u},
        {IE_LOG_TAPS, 4u},   {IE_WG_WAVES, 8u},  {IE_GPU_UNIT, 8u},
        {IE_STREAM_WAVES, 16u}};
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
    if (nseg > IE_MAX_SEGS || waves == 0u || waves > IE_WG_WAVES || s >= nseg) return LAW_OUT;
    if (waves != 4u && waves != 8u && waves != nseg && waves + 1u != nseg) return LAW_OUT;
    uint32_t count = 0u;
    for (uint32_t v = 0u; v < IE_WG_WAVES; v++)
        if (v < waves && ie_wave_seg(nseg, v, waves) <= s && s < ie_wave_seg(nseg, v + 1u, waves)) count++;
    return count == 1u && ie_wave_seg(nseg, 0u, waves) == 0u && ie_wave_seg(nseg, waves, waves) == nseg;
}
/* With ie_tile_waves' waves each part of a row has at least half of the blocks that any other has; these are waves that ie_wave_seg takes; and no more could be: they are
 * `most`, or as many as segments, or the last segment has less than half of a unit. */
static inline int law_wave_even(uint32_t nblk, uint32_t four, uint32_t part, uint32_t other) {
    if (nblk == 0u || nblk > IE_MAX_K / IE_BLOCK || four > 1u) return LAW_OUT;
    uint32_t waves = ie_tile_waves(nblk, four ? 4u : 8u), nseg = ie_nseg(nblk);
    if (waves == 0u || waves > (four ? 4u : 8u)) return LAW_BROKEN;
    if (waves < (four ? 4u : 8u) && waves != nseg && (waves + 1u != nseg || nblk - ie_seg_begin(waves, nblk) >= 4u)) return LAW_BROKEN;
    if (part >= waves || other >= waves) return LAW_OUT;
    if (waves != 4u && waves != 8u && waves != nseg && waves + 1u != nseg) return LAW_BROKEN;
    uint32_t b = ie_seg_begin(ie_wave_seg(nseg, part, waves), nblk), e = ie_seg_begin(ie_wave_seg(nseg, part + 1u, waves), nblk);
    uint32_t b2 = ie_seg_begin(ie_wave_seg(nseg, other, waves), nblk), e2 = ie_seg_begin(ie_wave_seg(nseg, other + 1u, waves), nblk);
    return b < e && 2u * (e - b) >= e2 - b2;
}
/* Every (tile, part) belongs to exactly one wave of one workgroup of the launch, padding included; without padding no workgroup
 * is without a tile. */
/*@ assigns \nothing; ensures \result != LAW_BROKEN; */
static inline int law_wave_tile(uint32_t tiles, uint32_t waves, uint32_t tile, uint32_t part, uint32_t wg, uint32_t wave) {
    if (tiles > IE_MAX_ROWS / 32u || waves == 0u || waves > 8u || tile >= tiles || part >= waves) return LAW_OUT;
    uint32_t need = ie_wg_count(tiles, waves), all = ie_wg_waves(waves), grid = ie_grid_pad(need, all);
    if (wg >= grid || wave >= all) return LAW_OUT;
    uint32_t per = ie_wg_tiles(waves), slot = ie_wave_slot(wave, waves), mine = ie_wave_part(wave, waves);
    uint32_t owner = tile / per, as = tile % per * waves + part; /* the one wave */
    int is = wg * per + slot == tile && mine == part;
    if (need == 0u || (need - 1u) * per >= tiles || all != per * waves || all > IE_WG_WAVES) return LAW_BROKEN;
    return slot < per && mine < waves && owner < grid && as < all && is == (wg == owner && wave == as);
}
/* Streaming launches: a workgroup begins at the tile that is its number, tile wg + k * step is its k-th, and no other's. */
/*@ assigns \nothing; ensures \result != LAW_BROKEN; */
static inline int law_stream_tiles(uint32_t step, uint32_t tile) {
    if (tile >= IE_MAX_ROWS / 32u || step == 0u || step > IE_MAX_ROWS / 32u) return LAW_OUT;
    uint32_t wg = tile % step, k = tile / step, next = ie_stream_next(tile, step);
    //@ assert tile == k * step + wg;
    //@ assert next == (k + 1) * step + wg;
    return next % step == wg && next / step == k + 1u && (k != 0u || tile == wg);
}
/* Waves that take turns: each has one of as many turns as there are waves. */
/*@ assigns \nothing; ensures \result != LAW_BROKEN; */
static inline int law_wave_turn(uint32_t waves, uint32_t i, uint32_t d) {
    if ((waves != 8u && waves != 16u) || i >= 0x80000000u || d >= waves) return LAW_OUT;
    uint32_t a = ie_wave_turn(i, waves), b = ie_wave_turn(i + d, waves);
    return a < waves && b < waves && (a == b) == (d == 0u);
}
/* Shared tiles: every segment s of tile `tile` of `rest` is in exactly one part, that of one of the tile's 2^lg workgroups; no other
 * workgroup has the tile; no part is empty, none has two segments more than another. */
static inline int law_rest_cover(uint32_t rest, uint32_t lg, uint32_t n, uint32_t wg, uint32_t s) {
    if (rest > 65536u || lg > 4u || n > IE_MAX_SEGS || n < 1u << lg || wg >= rest << lg || s >= n) return LAW_OUT;
    uint32_t tile = ie_rest_tile(wg, lg), part = ie_rest_part(wg, lg), parts = 1u << lg, count = 0u;
    if (tile >= rest || part >= parts || tile * parts + part != wg) return LAW_BROKEN;
    if (ie_rest_seg(n, 0u, lg) != 0u || ie_rest_seg(n, parts, lg) != n) return LAW_BROKEN;
    for (uint32_t k = 0u; k < 16u; k++) {
        if (k >= parts) break;
        uint32_t b = ie_rest_seg(n, k, lg), e = ie_rest_seg(n, k + 1u, lg);
        if (e - b != n / parts && e - b != n / parts + 1u) return LAW_BROKEN;
        count += s >= b && s < e;
    }
    return count == 1u;
}
/* Shared tiles of several tokens: the workgroups' segments follow each other from the first to the last, none has two more than another, and they are of no more tiles than a workgroup
 * has records for; every segment is one tile's. */
/*@ assigns \nothing; ensures \result != LAW_BROKEN; */
static inline int law_shared_cover(uint32_t units, uint32_t each, uint32_t more, uint32_t wg, uint32_t g) {
    if (units == 0u || units > 65536u || each > 127u || more >= units || wg >= units) return LAW_OUT;
    uint32_t b = ie_shared_first(wg, each, more), e = ie_shared_first(wg + 1u, each, more);
    if (ie_shared_first(0u, each, more) != 0u || ie_shared_first(units, each, more) != units * each + more) return LAW_BROKEN;
    if (ie_shared_seg(g) >= IE_MAX_SEGS || ie_shared_tile(g) * IE_MAX_SEGS + ie_shared_seg(g) != g) return LAW_BROKEN;
    if (e > b && ie_shared_tile(e - 1u) - ie_shared_tile(b) >= IE_SHARED_TILES) return LAW_BROKEN;
    return e - b == each || e - b == each + 1u;
}
/* A plane's words: word j is that of its block and token; and a lane of the instruction has words e and e + 4 of both blocks of a token together. */
/*@ assigns \nothing; ensures \result != LAW_BROKEN; */
static inline int law_stream_lane(uint32_t j, uint32_t p, uint32_t lane) {
    if (j >= 16u || p >= 3u || lane >= 32u) return LAW_OUT;
    uint32_t t = lane / 4u, e = lane % 4u;
    if (ie_stream_value(0u, t, e) != 4u * lane || ie_stream_value(0u, t, e + 4u) != 4u * lane + 1u) return LAW_BROKEN;
    if (ie_stream_value(1u, t, e) != 4u * lane + 2u || ie_stream_value(1u, t, e + 4u) != 4u * lane + 3u) return LAW_BROKEN;
    return ie_stream_plane(ie_stream_block(j), ie_stream_token(j), p) == 128u + 16u * p + j;
}
/* Tokens in LDS: word e of the values (e < 8) or of plane e - 8 of a block and a token is no other's; all lie inside. te: token and e * 16. */
/*@ assigns \nothing; ensures \result != LAW_BROKEN; */
static inline int law_stream_x(uint32_t nblk, uint32_t nt, uint32_t planes, uint32_t b, uint32_t te, uint32_t b2, uint32_t te2) {
    uint32_t t = te % 16u, e = te / 16u, t2 = te2 % 16u, e2 = te2 / 16u;
    if (nblk > IE_MAX_K / IE_BLOCK || (nt != 8u && nt != 16u) || planes < 1u || planes > 3u || b >= nblk || b2 >= nblk) return LAW_OUT;
    if (t >= nt || t2 >= nt || e >= 8u + planes || e2 >= 8u + planes) return LAW_OUT;
    uint32_t w = e < 8u ? ie_stream_value(b, t, e) : ie_stream_plane(b, t, e - 8u), w2 = e2 < 8u ? ie_stream_value(b2, t2, e2) : ie_stream_plane(b2, t2, e2 - 8u);
    uint32_t g = ie_stream_group(b, t, nt, planes), g2 = ie_stream_group(b2, t2, nt, planes), all = ie_stream_group(nblk + 1u, 0u, nt, planes);
    uint32_t words = ie_stream_words(planes), same = b == b2 && te == te2;
    if (w >= words || w2 >= words || g % words != 0u || g + words > all) return LAW_BROKEN;
    return (g + w == g2 + w2) == (same != 0u);
}
/* A ring of n places, gone round: after `at` comes the next number mod n. */
/*@ assigns \nothing; ensures \result != LAW_BROKEN; */
static inline int law_ring_next(uint32_t at, uint32_t n) {
    if (at >= n) return LAW_OUT;
    return ie_ring_next(at, n) < n && ie_ring_next(at, n) == ((uint64_t)at + 1u) % n;
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
/* The ring of the convolution: positions that are needed together have rows of their own, behind the slots and inside the log. */
/*@ assigns \nothing; ensures \result != LAW_BROKEN; */
static inline int law_log_taps(uint32_t pos, uint32_t i, uint32_t j) {
    if (pos >= LAW_MAX_POS || i >= IE_LOG_TAPS || j >= IE_LOG_TAPS) return LAW_OUT;
    uint32_t a = ie_log_tap(pos + i), b = ie_log_tap(pos + j);
    return a >= IE_LOG_SLOTS && a < IE_LOG_SLOTS + IE_LOG_TAPS && (a == b) == (i == j);
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
