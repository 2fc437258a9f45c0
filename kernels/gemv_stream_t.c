/* Matrix times 2 to 16 rows at one reading of the weights, streamed, by matrix instructions: the bits of ie_gemv_FORMAT.
 *
 *   ie_gemv_FORMAT_s8, _s16   y[t][r] = row r . x[t] (+ bias[r]) (+ res[t][r]) of up to 8, 16 tokens; x is Q8 in groups of 16
 *
 * A workgroup has the tiles wg, wg + step, ... (`step` is the grid). `work` of its waves multiply. Each has a ring of `ahead` units in LDS that are on their way
 * or there, over the ends of segments and tiles. Two ways of sharing the tiles out:
 *   whole  Each wave has tiles for itself: the workgroup's w-th, (w + work)-th, ... It adds its segments up in registers and stores results; no wave waits for another
 *          one. For matrices of about as many tiles as there are waves on the card, or more.
 *   else   Waves take segments in turn (work is odd, so that none always has the longest) and leave a segment's sums in a slot in LDS. Two more waves take the slots
 *          in turn, half of each, add up from left to right and store the results. They meet by records in LDS.
 * Tiles that are left over are shared by all workgroups, segment by segment, whose sums go to memory; a wave that does not multiply tells the others, and who comes
 * last adds a tile up, while the other waves go on. With whole tiles shared segments come in the middle of a wave's last tile, else first.
 *
 * Tokens come to LDS by copies that each lane asks for, as the instruction wants them, a record for each unit: by waves that do not multiply (whole), or by all. A wave
 * begins with a unit when that unit's tokens are there. Most of the rings is asked for behind the tokens, which would come last otherwise.
 *
 * The instruction wants words w and w + 4 of rows g, g + 8, g + 16, g + 24 in lane 4 g + w. That is how the bytes lie in LDS, so each lane takes just
 * those words there and unpacks them; nothing turns. An offset of all weights costs nothing: bytes are moved to the top and their sign bit is turned, so
 * that they are signed and 128 / offset times too large. A dot becomes a float without a conversion: the sum begins at MAGIC, so that its bits are those
 * of 1.5 * 2^23 + dot.
 *
 * Launch: 32 `waves` lanes, at most 512 (8 tokens) or 384 (16: by their registers); whole: `work` waves and others that bring tokens, of which the first joins shared
 * tiles; else `work` and three. LDS beyond the static: tokens (ie_stream_group), a slot a wave (128 bytes a token; not whole), the rings, 8 bytes a unit of a row.
 * Bytes moved: each weight once, x once a workgroup, 2 KB a token of a shared tile. */
#include "gpu.h"

#if IE_COPIES
#define MAGIC 12582912.0f /* 1.5 * 2^23: exact with any integer of at most 2^22 added */
#define PLACES 40u    /* units in the rings of all waves, at most */
#define MULTIPLY 13u  /* waves that do, at most */
#define SHARED_AT 8u  /* with whole tiles: segments of a wave's last tile before the shared ones; then all tokens are there, and there is time to join */
#define EARLY 2u      /* units of a ring that are asked for before the tokens */
#define ADD 2u        /* slots that are read together; fewer than there are */

/* The wave's number, read from one lane: by that the compiler sees that all lanes of a wave go the same way. */
IE_INLINE uint32_t stream_wave(void) { return ie_readlane(ie_wave(), 0u); }

/* ---- records in LDS ------------------------------------------------------------------------------------------------------------------ */

typedef struct {
    uint64_t full[PLACES];                      /* a place's unit is there */
    uint64_t summed[MULTIPLY], added[MULTIPLY]; /* a wave's slot holds a segment's sums; they are added */
    uint64_t shared[IE_SHARED_TILES];           /* the sums of the workgroup's part of a shared tile are in memory */
    uint32_t label[PLACES];                     /* what a place holds */
} records;
#define LABEL_NONE ~0u     /* no more */
#define LABEL_UNIT 511u    /* which unit of its tile */
#define LABEL_LAST 512u    /* the segment's last */
#define LABEL_SHARED 1024u /* of a shared tile, */
#define LABEL_WHICH 2048u  /* times which one of those of the workgroup */

/* A place of a ring, and which of its uses: 0, 1, 0, ... */
typedef struct {
    uint32_t at, use;
} ring_at;

/* ---- a workgroup's work ---------------------------------------------------------------------------------------------------------------- */

/* Tiles that are not shared: the first ones. From one of a workgroup's (`whole`: of a wave's) to the next. */
IE_INLINE uint32_t own_tiles(const ie_abi_stream *a) { return ie_ntiles(a->g.rows) - a->rest; }
IE_INLINE uint32_t own_first(const ie_abi_stream *a, uint32_t wave) { return ie_wg_x() + (a->whole ? wave * a->g.step : 0u); }
IE_INLINE uint32_t own_step(const ie_abi_stream *a) { return a->whole ? a->work * a->g.step : a->g.step; }
/* The workgroup's segments of shared tiles, by their number in all of them: the first, the last + 1. */
IE_INLINE uint32_t shared_first(const ie_abi_stream *a) { return ie_shared_first(ie_wg_x(), a->each, a->more); }
IE_INLINE uint32_t shared_end(const ie_abi_stream *a) { return ie_shared_first(ie_wg_x() + 1u, a->each, a->more); }
/* Those of shared tile i end there, `end` the workgroup's. */
IE_INLINE uint32_t shared_upto(uint32_t i, uint32_t end) {
    uint32_t to = (i + 1u) * IE_MAX_SEGS;
    return to < end ? to : end;
}

/* What comes next for a wave: segment seg of its own `tile`, or segment g of the shared ones. */
typedef struct {
    uint32_t tile, seg, g;
} turn;
IE_INLINE turn turn_first(const ie_abi_stream *a, uint32_t wave) {
    const uint32_t end = shared_end(a);
    turn t = {.tile = own_first(a, wave), .g = wave < a->lone ? end : shared_first(a) + (wave - a->lone)};
    if (!a->whole)
        for (t.seg = t.g; t.seg < end;) t.seg += a->work;
    if (!a->whole) t.seg -= end;
    return t;
}
/* Shared ones come first; with whole tiles in the middle of the wave's last one, when tokens are there and time is left to join them. */
IE_INLINE bool turn_shared(const ie_abi_stream *a, const turn *t) {
    if (t->g >= shared_end(a)) return false;
    return !a->whole || t->tile >= own_tiles(a) || (ie_stream_next(t->tile, own_step(a)) >= own_tiles(a) && t->seg >= SHARED_AT);
}

/* ---- what a wave asks for -------------------------------------------------------------------------------------------------------------- */

typedef struct {
    turn next;
    uint32_t i, left, to; /* the next unit, and how many follow it in memory before `next` is due; the place that is next */
    uint32_t label;       /* of all of them */
    uint64_t last;        /* bit i: the i-th of them is its segment's last */
    words from, apart;    /* that unit; its half-words apart */
} asks;
/* Goes on with what is due next, if there is anything: a segment; with whole tiles all of a tile up to its end, or to where shared segments come. */
IE_INLINE void asks_next(ie_gpu_format f, const ie_abi_stream *a, asks *s) {
    const uint32_t nblk = a->g.nblk, nseg = ie_nseg(nblk);
    turn *t = &s->next;
    uint32_t tile, seg, n = 1u;
    s->label = 0u, s->last = 0u;
    if (turn_shared(a, t)) {
        uint32_t i = ie_shared_tile(t->g);
        tile = own_tiles(a) + i, seg = ie_shared_seg(t->g);
        s->label = LABEL_SHARED + LABEL_WHICH * (i - ie_shared_tile(shared_first(a)));
        t->g += a->work - a->lone;
    } else {
        for (; t->seg >= nseg; t->seg -= nseg) t->tile = ie_stream_next(t->tile, own_step(a));
        tile = t->tile, seg = t->seg;
        if (tile >= own_tiles(a)) return;
        if (a->whole) n = seg < SHARED_AT ? SHARED_AT - seg : nseg - seg;
        t->seg += a->whole ? n : a->work;
    }
    words at = a->g.w + (uint64_t)tile * ie_gpu_tile_words(f, nblk);
    s->i = ie_seg_unit(seg, nblk), s->left = ie_seg_unit(seg + n, nblk) - s->i;
    for (uint32_t k = 1u; k <= n; k++) s->last |= 1ull << (ie_seg_unit(seg + k, nblk) - s->i - 1u);
    s->from = at + ie_tile_words(s->i, ie_gpu_unit_words(f));
    if (f.apart) s->apart = at + ie_gpu_units_words(f, nblk) + ie_gpu_apart(s->i, 0u) / 2u;
}
/* Asks for the next unit, if there is one; whole: all have 8 blocks. By one lane. */
IE_INLINE void asks_unit(ie_gpu_format f, bool whole, const ie_abi_stream *a, asks *s, uint32_t ahead, IE_LDS uint32_t *ring, IE_LDS uint64_t *full, IE_LDS uint32_t *label) {
    const uint32_t at = s->to;
    s->to = ie_ring_next(at, ahead);
    if (s->left == 0u) asks_next(f, a, s);
    if (s->left == 0u) {
        label[at] = LABEL_NONE;
        return;
    }
    const uint32_t bytes = 4u * ie_gpu_part_words(f, whole ? IE_GPU_UNIT : ie_gpu_unit_blocks(s->i, a->g.nblk)), apart = f.apart ? 2u * IE_TILE_ROWS : 0u;
    IE_LDS uint32_t *to = ring + at * ie_gpu_place_words(f);
    ie_arrive_expect(full + at, bytes + apart);
    ie_copy(to, s->from, bytes, full + at);
    if (f.apart) ie_copy(to + ie_gpu_unit_words(f), s->apart, apart, full + at);
    label[at] = s->label + s->i + (s->last & 1u ? LABEL_LAST : 0u);
    s->i++, s->left--, s->last >>= 1, s->from += ie_gpu_unit_words(f);
    if (f.apart) s->apart += ie_gpu_apart(1u, 0u) / 2u;
}

/* ---- tokens ------------------------------------------------------------------------------------------------------------------------------ */

#define PLANES(KIND) ((KIND) == K_DOT || (KIND) == K_DOT2 ? 1u : (KIND) == K_DOT_MIN ? 2u : 3u)
/* The workgroup's tokens from memory to LDS by `n` waves, of which this is number w: it asks for units w, w + n, ..., as they are to lie in LDS, word by word.
 * Planes: d; and sa; or both halves' sums. Where there is no such block or token another one's words take its place, of which nothing is used. */
IE_INLINE void tokens_ask(const ie_abi_gemv *a, kind k, IE_LDS uint32_t *x, IE_LDS uint64_t *there, uint32_t w, uint32_t n, const uint32_t NT) {
    const uint32_t nblk = a->nblk, groups = NT / 8u, units = ie_gpu_units(nblk), lane = ie_lane(), plane = lane / 16u;
    const uint32_t tq = lane / 4u, tp = ie_stream_token(lane % 16u), bp = ie_stream_block(lane % 16u), block = IE_DECODE_T * IE_Q8_WORDS;
    const uint32_t word = plane == 0u ? IE_Q8_D : k == K_DOT_MIN ? IE_Q8_SA : IE_Q8_NLO;
    for (uint32_t u = w; u < units; u += n) {
        for (uint32_t b = u * IE_GPU_UNIT; b < nblk && b < (u + 1u) * IE_GPU_UNIT; b += 2u)
#pragma unroll
            for (uint32_t g = 0; g < groups; g++) {
                const uint32_t odd = b + 1u < nblk ? 1u : 0u, t = g * 8u;
                IE_LDS uint32_t *to = x + ie_stream_group(b, t, NT, PLANES(k));
                IE_GLOBAL const uint32_t *at = a->x + (uint64_t)ie_q8_at(t + tq < a->n ? t + tq : 0u, b, nblk, IE_DECODE_T) * IE_Q8_WORDS + lane % 4u, *at2 = at + odd * block;
                IE_GLOBAL const uint32_t *ps = a->x + (uint64_t)ie_q8_at(t + tp < a->n ? t + tp : 0u, b, nblk, IE_DECODE_T) * IE_Q8_WORDS + bp * odd * block;
                ie_copy4(to + 4u * lane, at), ie_copy4(to + 4u * lane + 1u, at + 4);
                ie_copy4(to + 4u * lane + 2u, at2), ie_copy4(to + 4u * lane + 3u, at2 + 4);
                if (plane < PLANES(k)) ie_copy4(to + 128u + lane, ps + word);
                if (PLANES(k) > 2u && !plane) ie_copy4(to + 160u + lane, ps + IE_Q8_NHI);
            }
        ie_copies_arrive(there + u);
    }
}

/* What a lane needs of two blocks of 8 tokens: for tokens 2 w, 2 w + 1 of the first block, then of the second. */
typedef struct {
    ie_u4 q, d, p, p2;
} pair_x;
IE_INLINE pair_x pair_of(kind k, const IE_LDS uint32_t *x) {
    pair_x v;
    x += 4u * ie_lane();
    const IE_LDS uint32_t *plane = x - 4u * ie_lane() + 128u + ie_lane() % 4u * 4u;
    v.q = ie_lds16(x), v.d = ie_lds16(plane), v.p = v.p2 = v.d;
    if (PLANES(k) > 1u) v.p = ie_lds16(plane + 16);
    if (PLANES(k) > 2u) v.p2 = ie_lds16(plane + 32);
    return v;
}

/* ---- weights ------------------------------------------------------------------------------------------------------------------------------ */

/* Words w and w + 4 of a row's block for the instruction: bytes as block_FORMAT of gemv.c has them where the kind has a minimum; else signed, 128 / bias
 * times the values. An offset costs next to nothing so: fields are cut out at the top of their bytes, and in the same operation their highest bit is
 * turned. */
#define WORDS(F) IE_INLINE void words_##F(const IE_LDS uint32_t *at, uint32_t b, uint32_t row, uint32_t w, uint32_t *lo, uint32_t *hi)
#define BULK4(F) at[ie_gpu_block_at(row_##F, b) + ie_field_lm(0, 4, w, row)]
#define BULK2(F) at[ie_gpu_block_at(row_##F, b) + ie_field_lm(0, 4, b % 2u * 2u + w % 2u, row)]
#define HEAD1(F, N, W) at[IE_TILE_ROWS * row_##F.n0 + ie_field_lm(0, N, W, row)]
#define TOP 0x80808080u
#define NIBBLES(F) uint32_t q = BULK4(F); *lo = ie_q4_of(q, w), *hi = ie_q4_of(q, w + 4u)
#define FIFTHS(F) uint32_t q = BULK4(F), qh = HEAD1(F, 8, b); *lo = ie_q5_of(q, qh, w), *hi = ie_q5_of(q, qh, w + 4u)
WORDS(q4_0) {
    uint32_t q = BULK4(q4_0);
    *lo = ie_and_xor(q << 4, 0xF0F0F0F0u, TOP), *hi = ie_and_xor(q, 0xF0F0F0F0u, TOP);
}
WORDS(q4_1) { NIBBLES(q4_1); }
WORDS(q4_k) { NIBBLES(q4_k); }
WORDS(q5_0) {
    FIFTHS(q5_0);
    *lo = *lo << 3 ^ TOP, *hi = *hi << 3 ^ TOP;
}
WORDS(q5_1) { FIFTHS(q5_1); }
WORDS(q5_k) { FIFTHS(q5_k); }
WORDS(q8_0) {
    const IE_LDS uint32_t *q = at + ie_gpu_block_at(row_q8_0, b);
    *lo = q[ie_field_lm(0, 8, w, row)], *hi = q[ie_field_lm(0, 8, w + 4u, row)];
}
WORDS(q6_k) {
    uint32_t q = BULK4(q6_k), h = HEAD1(q6_k, 16, 2u * b + w % 2u), up = 2u - w / 2u * 2u;
    *lo = ie_and_xor(q << 2, 0x3C3C3C3Cu, TOP) ^ (h << 4 << up & 0xC0C0C0C0u), *hi = ie_and_xor(q >> 2, 0x3C3C3C3Cu, TOP) ^ (h << up & 0xC0C0C0C0u);
}
WORDS(q2_k) {
    uint32_t q = BULK2(q2_k);
    *lo = ie_q2_of(q, w), *hi = ie_q2_of(q, w + 4u);
}
WORDS(q3_k) {
    uint32_t q = BULK2(q3_k), qh = HEAD1(q3_k, 8, b);
    *lo = ie_q3_of(q, qh, w) << 5 ^ TOP, *hi = ie_q3_of(q, qh, w + 4u) << 5 ^ TOP;
}
WORDS(iq4_nl) {
    ie_iq4_words(BULK4(iq4_nl), lo, hi);
    *lo ^= TOP, *hi ^= TOP;
}
WORDS(iq4_xs) {
    ie_iq4_words(BULK4(iq4_xs), lo, hi);
    *lo ^= TOP, *hi ^= TOP;
}

/* The headers of a unit: of the lane's own row, or, where they are just d of eight blocks (HALVES), of the four rows that the instruction wants. */
#define HALVES(KIND, ROW) ((KIND) == K_DOT && (ROW).n0 == 4u)
typedef struct {
    unit u;
    ie_u4 d[4];
} unit_head;
IE_INLINE void unit_head_of(kind k, ie_gpu_format f, const IE_LDS uint32_t *at, unit_head *h) {
    if (!HALVES(k, f)) head_lds(f, at, ie_lane(), &h->u.h);
    else
#pragma unroll
        for (uint32_t j = 0; j < 4u; j++) h->d[j] = ie_lds16(at + ie_field_lm(0, 4, 0, ie_lane() / 4u + 8u * j));
}
/* What a sum of the instruction has to be multiplied with to be the dot. */
#define DOT_SCALE(BIAS) ((BIAS) ? (float)(BIAS) / 128.0f : 1.0f)
/* A block's scales of the lane's four rows; s0: times DOT_SCALE. */
typedef struct {
    float d[4], m[4], s0[4], s1[4], m0[4], m1[4];
} scales;
IE_INLINE scales spread(kind k, uint32_t bias, const block *o) {
    bool two = k == K_DOT2 || k == K_DOT2_MIN;
    scales s = {0};
    ie_mma_spread(o->d, s.d);
    if (k == K_DOT_MIN || k == K_DOT2_MIN) ie_mma_spread(o->m, s.m);
    if (two) ie_mma_spread((float)o->s0 * DOT_SCALE(bias), s.s0), ie_mma_spread((float)o->s1, s.s1);
    if (k == K_DOT2_MIN) ie_mma_spread((float)o->m0, s.m0), ie_mma_spread((float)o->m1, s.m1);
    return s;
}
IE_INLINE scales halves(const unit_head *h, uint32_t b) {
    scales s = {0};
#pragma unroll
    for (uint32_t j = 0; j < 4u; j++) s.d[j] = b % 2u ? ie_f16_hi(h->d[j][b / 2u]) : ie_f16_lo(h->d[j][b / 2u]);
    return s;
}

/* ---- a block --------------------------------------------------------------------------------------------------------------------------------- */

/* The dot from the instruction's sum. */
IE_INLINE float dot_of(int32_t v, uint32_t bias) { return ie_fma(ie_f32_of((uint32_t)v), DOT_SCALE(bias), -MAGIC * DOT_SCALE(bias)); }
/* s0 times the first dot plus s1 times the second, exact: each product is below 2^23. s0 comes times DOT_SCALE. */
IE_INLINE float dots_of(int32_t lo, int32_t hi, float s0, float s1, uint32_t bias) {
    return ie_fma(s1, dot_of(hi, bias), ie_fma(s0, ie_f32_of((uint32_t)lo), s0 * -MAGIC));
}
/* Block h of a pair, 32 rows times 8 tokens. */
IE_INLINE void stream_tokens(kind k, uint32_t bias, const scales *s, const ie_mma_w *w, const pair_x *x, uint32_t h, float acc[IE_MMA_TOKENS]) {
    const ie_mma_x t = {{x->q[2u * h], x->q[2u * h + 1u]}};
    const bool two = k == K_DOT2 || k == K_DOT2_MIN, is_signed = bias != 0u;
    const int32_t c = (int32_t)ie_bits_of(MAGIC);
    const ie_i8 from = {c, c, c, c, c, c, c, c};
    ie_i8 lo, hi = from;
    if (two) lo = ie_mma_half(w, &t, 0u, is_signed, from), hi = ie_mma_half(w, &t, 1u, is_signed, from);
    else lo = ie_mma_block(w, &t, is_signed, from);
#pragma unroll
    for (uint32_t i = 0; i < IE_MMA_TOKENS; i++) {
        uint32_t j = i / 2u, e = 2u * h + i % 2u;
        float da = ie_f32_of(x->d[e]), dot = two ? dots_of(lo[i], hi[i], s->s0[j], s->s1[j], bias) : dot_of(lo[i], bias);
        acc[i] = ie_fma(s->d[j] * da, dot, acc[i]);
        if (k == K_DOT_MIN) acc[i] = ie_fma(s->m[j], ie_f32_of(x->p[e]), acc[i]);
        if (k == K_DOT2_MIN) acc[i] = ie_fma(s->m[j] * da, -ie_fma(s->m1[j], (float)(int32_t)x->p2[e], s->m0[j] * (float)(int32_t)x->p[e]), acc[i]);
    }
}
/* Blocks 2 B and 2 B + 1 of the unit at `at`, of whose blocks there are NB. */
#define STREAM_PAIR(F, NT, KIND, BIAS, ROW, B, NB) \
    pair_x px[(NT) / 8u]; \
    _Pragma("unroll") for (uint32_t g = 0; g < (NT) / 8u; g++) \
        px[g] = pair_of(KIND, x + ie_stream_group(i * IE_GPU_UNIT + 2u * (B), 8u * g, NT, PLANES(KIND))); \
    _Pragma("unroll") for (uint32_t h = 0; h < 2u; h++) { \
        const uint32_t b = 2u * (B) + h; \
        block o; \
        ie_mma_w w; \
        scales sc; \
        if (b >= (NB)) break; \
        if (!HALVES(KIND, ROW)) block_##F(&head.u, b, &o), sc = spread(KIND, BIAS, &o); \
        else sc = halves(&head, b); \
        _Pragma("unroll") for (uint32_t j = 0; j < 4u; j++) { \
            uint32_t *to = w.k + j / 2u * 4u + j % 2u; \
            words_##F(at, b, r / 4u + 8u * j, r % 4u, to, to + 2); \
        } \
        _Pragma("unroll") for (uint32_t g = 0; g < (NT) / 8u; g++) stream_tokens(KIND, BIAS, &sc, &w, &px[g], h, acc + 8u * g); \
    }

/* ---- the wave that adds segments up ------------------------------------------------------------------------------------------------------------ */

/* Sums lie as the instruction leaves them: number i of a lane is that of token i / 8 * 8 + ie_mma_token(i % 8) and row ie_mma_row(i % 8), four
 * numbers together. */
#define SUMS_WORDS(NT) (32u * (NT))
#define SUMS_AT(I) ((I) / 4u * 128u + 4u * ie_lane())
#define SUMS4(V) ((ie_u4){ie_bits_of((V)[0]), ie_bits_of((V)[1]), ie_bits_of((V)[2]), ie_bits_of((V)[3])})
#define HALF_AT(H, NT) ((H) * (NT) / 8u * 128u) /* the second half's are behind the first's: rows 16 on of 8 tokens, tokens 8 on of 16 */

/* n segments of shared tile i are in memory, for all to see; if these were the last, all of the tile's are added up: true. */
IE_INLINE bool rest_join(const ie_abi_stream *a, uint32_t i, uint32_t n, float sum[], const uint32_t NT) {
    IE_GLOBAL uint32_t *count = a->count + i;
    IE_GLOBAL const uint32_t *from = a->sums + (uint64_t)i * IE_MAX_SEGS * SUMS_WORDS(NT);
    uint32_t done = 0u;
    if (ie_lane() == 0u) done = ie_atomic_add(count, n) + n;
    if (ie_readlane(done, 0u) != IE_MAX_SEGS) return false;
    ie_acquire();
    if (ie_lane() == 0u) *count = 0u;
#pragma unroll
    for (uint32_t t = 0; t < NT; t++) sum[t] = -0.0f;
    for (uint32_t k = 0u; k < IE_MAX_SEGS; k += 4u) { /* four segments' loads are under way at once */
        ie_u4 v[4][4]; /* of 16 tokens at most */
#pragma unroll
        for (uint32_t j = 0; j < 4u; j++)
#pragma unroll
            for (uint32_t t = 0; t < NT; t += 4u) v[j][t / 4u] = ie_load16(from + (k + j) * SUMS_WORDS(NT) + SUMS_AT(t));
#pragma unroll
        for (uint32_t j = 0; j < 4u; j++)
#pragma unroll
            for (uint32_t t = 0; t < NT; t++) sum[t] = sum[t] + ie_f32_of(v[j][t / 4u][t % 4u]);
    }
    return true;
}

/* Half of the slots of N waves, one after the other: read together, added in their order. */
IE_INLINE void slots_take(const IE_LDS uint32_t *slots, IE_LDS records *m, ring_at *w, uint32_t from, uint32_t work, const uint32_t N, const uint32_t NT, float sum[]) {
    ie_u4 v[ADD][IE_DECODE_T / 8u];
    ring_at each[ADD];
#pragma unroll
    for (uint32_t j = 0; j < N; j++) {
        each[j] = *w, w->at = ie_ring_next(w->at, work), w->use ^= w->at == from;
        ie_arrive_wait(m->summed + each[j].at, each[j].use);
    }
#pragma unroll
    for (uint32_t j = 0; j < N; j++)
#pragma unroll
        for (uint32_t i = 0; i < NT / 2u; i += 4u) v[j][i / 4u] = ie_lds16(slots + each[j].at * SUMS_WORDS(NT) + SUMS_AT(i));
#pragma unroll
    for (uint32_t j = 0; j < N; j++)
#pragma unroll
        for (uint32_t i = 0; i < NT / 2u; i++) sum[i] = sum[i] + ie_f32_of(v[j][i / 4u][i % 4u]);
#pragma unroll
    for (uint32_t j = 0; j < N; j++) ie_arrive(m->added + each[j].at);
}

/* Half h of a tile's sums end with bias and residual, and go to y. */
IE_INLINE void tile_end(const ie_abi_gemv *a, uint32_t tile, uint32_t h, const uint32_t NT, float sum[]) {
    const uint32_t row = tile * IE_TILE_ROWS + ie_mma_row(0u) + (NT == 8u ? 16u * h : 0u), left = row < a->rows ? a->rows - row : 0u;
    const uint32_t first = ie_mma_token(0u) + (NT == 16u ? 8u * h : 0u), n = first < a->n ? a->n - first : 0u;
    const uint64_t at = (uint64_t)first * a->y_ld + row;
    IE_GLOBAL float *y = a->y + at;
    if (a->bias)
#pragma unroll
        for (uint32_t j = 0; j < NT / 2u; j += 2u) {
            float bias = 4u * j < left ? a->bias[row + 4u * j] : 0.0f;
            sum[j] = sum[j] + bias, sum[j + 1u] = sum[j + 1u] + bias;
        }
    if (a->res) {
        IE_GLOBAL const float *res = a->res + at;
        float v[IE_DECODE_T / 2u];
#pragma unroll
        for (uint32_t i = 0; i < NT / 2u; i++) v[i] = i / 2u * 8u < left && i % 2u < n ? res[(uint64_t)(i % 2u) * a->y_ld + i / 2u * 8u] : 0.0f;
#pragma unroll
        for (uint32_t i = 0; i < NT / 2u; i++) sum[i] = v[i] + sum[i];
    }
#pragma unroll
    for (uint32_t i = 0; i < NT / 2u; i++)
        if (i / 2u * 8u < left && i % 2u < n) y[(uint64_t)(i % 2u) * a->y_ld + i / 2u * 8u] = sum[i];
}

/* Half h of the workgroup's own tiles. */
IE_INLINE void own_add(const ie_abi_stream *a, const IE_LDS uint32_t *slots, IE_LDS records *m, uint32_t h, const uint32_t NT) {
    const uint32_t nseg = ie_nseg(a->g.nblk);
    ring_at w = {0u, 0u}; /* whose slot is next */
    for (w.at = shared_end(a) - shared_first(a); w.at >= a->work;) w.at -= a->work; /* shared segments' slots have not been used */
    const uint32_t from = w.at;
    for (uint32_t tile = own_first(a, 0u); tile < own_tiles(a); tile = ie_stream_next(tile, own_step(a))) {
        uint32_t s = 0u;
        float sum[IE_DECODE_T / 2u];
#pragma unroll
        for (uint32_t i = 0; i < NT / 2u; i++) sum[i] = -0.0f; /* -0 plus a number is that number */
        for (; s + ADD <= nseg; s += ADD) slots_take(slots + HALF_AT(h, NT), m, &w, from, a->work, ADD, NT, sum);
        for (; s < nseg; s++) slots_take(slots + HALF_AT(h, NT), m, &w, from, a->work, 1u, NT, sum);
        tile_end(&a->g, tile, h, NT, sum);
    }
}
/* Its parts of shared tiles, each with a record; one wave tells the other workgroups of all of them at once and adds up what has become whole, since it takes
 * long until others can see what is in memory. */
#define SHARED_EACH(A, I, N, RECORD) \
    for (uint32_t g_ = shared_first(A), end_ = shared_end(A), to_, RECORD = 0u, I = 0u, N = 0u; \
         g_ < end_ && (I = ie_shared_tile(g_), to_ = shared_upto(I, end_), N = to_ - g_, true); g_ = to_, RECORD++)
IE_INLINE void shared_new(const ie_abi_stream *a, IE_LDS records *m) {
    SHARED_EACH(a, i, n, k) ie_arrive_new(m->shared + k, 32u * n);
}
IE_INLINE void shared_add(const ie_abi_stream *a, IE_LDS records *m, const uint32_t NT) {
    float sum[IE_DECODE_T];
    if (shared_first(a) == shared_end(a)) return;
    SHARED_EACH(a, i, n, k) ie_arrive_wait(m->shared + k, 0u);
    ie_release();
    ie_wave_sync();
    SHARED_EACH(a, i, n, k) {
        if (!rest_join(a, i, n, sum, NT)) continue;
        tile_end(&a->g, own_tiles(a) + i, 0u, NT, sum);
        tile_end(&a->g, own_tiles(a) + i, 1u, NT, sum + NT / 2u);
    }
}

/* ---- the kernels ------------------------------------------------------------------------------------------------------------------------------- */

/* WHOLE: rows have no unit of fewer than 8 blocks. */
#define GEMV_STREAM_TOKENS(F, NT, KIND, BIAS, WHOLE, ROW) \
    IE_INLINE void segments_##F##_##NT(const ie_abi_stream *a, asks *s, const IE_LDS uint32_t *x, IE_LDS uint32_t *slot, IE_LDS uint32_t *ring, IE_LDS records *m, IE_LDS uint64_t *there) { \
        const uint32_t nblk = a->g.nblk, r = ie_lane(), wave = stream_wave(), ahead = ie_kept(a->g.ahead), mine = wave * ahead, end = ie_gpu_units(nblk) - 1u; \
        const bool spans = ie_kept(a->whole); \
        uint32_t place = 0u, use = 0u, n = 0u, tile = own_first(a, wave), known = 0u; /* n: own segments that have ended; known: all tokens are there */ \
        uint32_t label = m->label[mine]; \
        bool full = false; /* it is known that the place's unit is there */ \
        IE_GLOBAL uint32_t *rest = a->sums + (uint64_t)(shared_first(a) + (wave - a->lone)) * SUMS_WORDS(NT); \
        float acc[NT] = {0}, sum[NT]; \
        _Pragma("unroll") for (uint32_t t = 0; t < (NT); t++) sum[t] = -0.0f; /* -0 plus a number is that number */ \
        for (uint32_t left = ahead > EARLY ? ahead - EARLY : 0u;;) { /* of the ring: asked for behind the tokens */ \
            const IE_LDS uint32_t *at = ring + place * ie_gpu_place_words(ROW); \
            const uint32_t i = label & LABEL_UNIT, nb = (WHOLE) ? IE_GPU_UNIT : ie_gpu_unit_blocks(i, nblk), next = ie_ring_next(place, ahead); \
            const bool go = left == 0u; \
            uint32_t after = 0u; \
            bool more = false; \
            if (go) { \
                unit_head head; \
                if (label == LABEL_NONE) return; \
                if (!full) ie_arrive_wait(m->full + mine + place, use); \
                if (!known) ie_arrive_wait(there + i, 0u); \
                after = m->label[mine + next]; \
                more = ahead > 1u && ie_arrive_test(m->full + mine + next, use ^ (next == 0u)); \
                unit_head_of(KIND, ROW, at, &head); \
                if (nb == IE_GPU_UNIT) { /* no branch between blocks: their work overlaps */ \
                    _Pragma("unroll") for (uint32_t b2 = 0; b2 < IE_GPU_UNIT / 2u; b2++) { STREAM_PAIR(F, NT, KIND, BIAS, ROW, b2, IE_GPU_UNIT) } \
                } else { \
                    _Pragma("unroll") for (uint32_t b2 = 0; b2 < IE_GPU_UNIT / 2u; b2++) { STREAM_PAIR(F, NT, KIND, BIAS, ROW, b2, nb) } \
                } \
            } \
            ie_wave_sync(); /* all lanes have read the place and its label */ \
            if (r == 0u) asks_unit(ROW, WHOLE, a, s, ahead, ring, m->full + mine, m->label + mine); \
            if (!go) { /* the ring is not full yet */ \
                left--; \
                ie_wave_sync(); \
                continue; \
            } \
            if (label & LABEL_LAST) { \
                if (label & LABEL_SHARED) { \
                    _Pragma("unroll") for (uint32_t t = 0; t < (NT); t += 4u) ie_store16(rest + SUMS_AT(t), SUMS4(acc + t)); \
                    ie_arrive(m->shared + label / LABEL_WHICH); \
                    rest += (a->work - a->lone) * SUMS_WORDS(NT); \
                } else if (spans) { \
                    _Pragma("unroll") for (uint32_t t = 0; t < (NT); t++) sum[t] = sum[t] + acc[t]; \
                    if (i == end) { \
                        tile_end(&a->g, tile, 0u, NT, sum); \
                        tile_end(&a->g, tile, 1u, NT, sum + (NT) / 2u); \
                        tile = ie_stream_next(tile, own_step(a)), known = 1u; \
                        _Pragma("unroll") for (uint32_t t = 0; t < (NT); t++) sum[t] = -0.0f; \
                    } \
                } else { \
                    ie_arrive_wait(m->added + wave, n++ % 2u ^ 1u); \
                    _Pragma("unroll") for (uint32_t t = 0; t < (NT); t += 4u) ie_lds_put16(slot + SUMS_AT(t), SUMS4(acc + t)); \
                    ie_arrive(m->summed + wave); \
                } \
                _Pragma("unroll") for (uint32_t t = 0; t < (NT); t++) acc[t] = 0.0f; \
            } \
            ie_wave_sync(); /* the new label is there */ \
            if (ahead == 1u) after = m->label[mine]; \
            label = after, place = next, use ^= next == 0u, full = more; \
        } \
    } \
    IE_KERNEL(384) ie_gemv_##F##_s##NT(ie_abi_stream a) { \
        static IE_LDS_VAR records m; \
        const uint32_t wave = stream_wave(), mine = wave * a.g.ahead, units = ie_gpu_units(a.g.nblk); \
        const uint32_t helps = a.whole ? a.g.waves - a.work : a.g.waves; /* waves that bring tokens */ \
        IE_LDS uint32_t *x = ie_lds_more, *slots = x + ie_stream_group(a.g.nblk + 1u, 0u, NT, PLANES(KIND)); \
        IE_LDS uint32_t *rings = slots + (a.whole ? 0u : a.work * SUMS_WORDS(NT)), *ring = rings + mine * ie_gpu_place_words(ROW); \
        IE_LDS uint64_t *there = (IE_LDS uint64_t *)(rings + a.work * a.g.ahead * ie_gpu_place_words(ROW)); \
        asks s = {.next = turn_first(&a, wave)}; \
        ie_dep_go(); \
        if (wave < a.work) { \
            if (ie_lane() < a.g.ahead) ie_arrive_new(m.full + mine + ie_lane(), 1u); \
            if (ie_lane() == 0u) ie_arrive_new(m.summed + wave, 32u), ie_arrive_new(m.added + wave, 64u); \
            ie_arrive_ready(); \
            ie_wave_sync(); \
            if (ie_lane() == 0u) \
                for (uint32_t i = 0u; i < a.g.ahead && i < EARLY; i++) asks_unit(ROW, WHOLE, &a, &s, a.g.ahead, ring, m.full + mine, m.label + mine); \
        } else if (wave == a.work) { \
            if (ie_lane() == 0u) shared_new(&a, &m); \
            for (uint32_t i = ie_lane(); i < units; i += 32u) ie_arrive_new(there + i, 32u); \
        } \
        ie_barrier(); \
        ie_dep_wait(); \
        if (!a.whole || wave >= a.work) tokens_ask(&a.g, KIND, x, there, wave - (a.whole ? a.work : 0u), helps, NT); \
        if (wave < a.work) segments_##F##_##NT(&a, &s, x, slots + wave * SUMS_WORDS(NT), ring, &m, there); \
        else if (wave == a.work) shared_add(&a, &m, NT); \
        else if (!a.whole) own_add(&a, slots, &m, wave - a.work - 1u, NT); \
    }

#define STREAM_TOKENS(F, KIND, BIAS, WHOLE) \
    GEMV_STREAM_TOKENS(F, 8, KIND, BIAS, WHOLE, row_##F) \
    GEMV_STREAM_TOKENS(F, 16, KIND, BIAS, WHOLE, row_##F)
STREAM_TOKENS(q4_0, K_DOT, 8u, false)
STREAM_TOKENS(q4_1, K_DOT_MIN, 0u, false)
STREAM_TOKENS(q5_0, K_DOT, 16u, false)
STREAM_TOKENS(q5_1, K_DOT_MIN, 0u, false)
STREAM_TOKENS(q8_0, K_DOT, 128u, false)
STREAM_TOKENS(q2_k, K_DOT2_MIN, 0u, true)
STREAM_TOKENS(q3_k, K_DOT2, 4u, true)
STREAM_TOKENS(q4_k, K_DOT_MIN, 0u, true)
STREAM_TOKENS(q5_k, K_DOT_MIN, 0u, true)
STREAM_TOKENS(q6_k, K_DOT2, 32u, true)
STREAM_TOKENS(iq4_nl, K_DOT, 128u, false)
STREAM_TOKENS(iq4_xs, K_DOT, 128u, true)
#endif
