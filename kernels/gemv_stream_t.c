/* Matrix times 2 to 16 rows at one reading of the weights, streamed as in gemv_stream.c, by matrix instructions: the bits of ie_gemv_FORMAT.
 *
 *   ie_gemv_FORMAT_s8, _s16   y[t][r] = row r . x[t] (+ bias[r]) (+ res[t][r]) of up to 8, 16 tokens; x is Q8 in groups of 16
 *
 * The instruction wants words w and w + 4 of rows g, g + 8, g + 16, g + 24 in lane 4 g + w. That is how the bytes lie in LDS, so each lane takes just
 * those words there and unpacks them; nothing turns. Scales of rows are made lane = row and come to their four lanes by shuffles. A dot becomes a
 * float without a conversion: the sum begins at MAGIC (and the format's offset times the token's sum), so that its bits are those of 1.5 * 2^23 + dot.
 *
 * A workgroup takes tile after tile, `step` (the grid) apart; its waves share out each tile's segments, another share in each tile, so that none always
 * has the longest, and each has a ring of units in LDS. Where there are two buffers of segments' sums (`bufs`), waves may be a tile apart: a tile's sums
 * are added up after the wave's next tile. The last tiles, when there is none for each workgroup, are shared by 2^parts_log workgroups each, which take them
 * first: a part is some of the segments, whose sums go to memory; whose are the last to come there adds them up. Nobody waits.
 *
 * Tokens in LDS, NT / 8 groups a block, IE_STREAM_X words each: 64 words of values, [token][w](words w, w + 4), then 8 words each of d and of one or two
 * more (planes). Launch: 256 or 512 lanes, x = workgroups; LDS beyond the static: the tokens, 2 KB a token and buffer of sums, the rings. Bytes moved:
 * each weight once, x once a workgroup, 2 KB a token of a shared tile. */
#include "gpu.h"

#if IE_COPIES
#define BUFS_MAX 2u
#define MAGIC 0x4B400000u /* 1.5 * 2^23: exact with any integer of at most 2^22 added */

/* The wave's number, read from one lane: by that the compiler sees that all lanes of a wave go the same way. */
IE_INLINE uint32_t stream_wave(void) { return ie_readlane(ie_wave(), 0u); }

/* What a wave has to do in a tile: segments seg .. seg1 - 1, units i .. i1 - 1. */
typedef struct {
    uint32_t tile, seg, seg1, i, i1;
} run;

typedef struct {
    uint32_t k;      /* the next run: 0 that of a shared tile, 1 .. the workgroup's own tiles */
    run r;           /* what is left to ask for of the one before it */
    uint32_t to;     /* the next unit's place in the ring */
    IE_LDS uint32_t *ring;
    IE_LDS uint64_t *arrived; /* of each place */
} runs;

IE_INLINE run run_of(const ie_abi_stream *a, uint32_t tile, uint32_t first, uint32_t n, uint32_t share) {
    uint32_t nblk = a->g.nblk;
    run r = {.tile = tile};
    r.seg = first + ie_stream_seg(n, share, a->g.waves), r.seg1 = first + ie_stream_seg(n, share + 1u, a->g.waves);
    r.i = ie_seg_unit(r.seg, nblk), r.i1 = ie_seg_unit(r.seg1, nblk);
    return r;
}
/* Run k of this wave; a tile of `tiles` when there are no more. */
IE_INLINE run run_at(const ie_abi_stream *a, uint32_t k) {
    uint32_t nseg = ie_nseg(a->g.nblk), tiles = ie_ntiles(a->g.rows), own = tiles - a->rest, x = ie_wg_x();
    if (k == 0u) {
        uint32_t lg = a->parts_log, part = ie_rest_part(x, lg), rest = ie_rest_tile(x, lg);
        run none = {.tile = 0u};
        if (rest >= a->rest) return none;
        uint32_t first = ie_rest_seg(nseg, part, lg), end = ie_rest_seg(nseg, part + 1u, lg);
        return run_of(a, own + rest, first, end - first, stream_wave());
    }
    uint32_t tile = x + (k - 1u) * a->g.step;
    run end = {.tile = tiles};
    return tile < own ? run_of(a, tile, 0u, nseg, ie_wave_turn(stream_wave() + k, a->g.waves)) : end;
}

/* Asks for the next unit, if there is one. */
IE_INLINE void runs_ask(ie_gpu_format f, const ie_abi_stream *a, runs *s) {
    const uint32_t tiles = ie_ntiles(a->g.rows), nblk = a->g.nblk;
    while (s->r.i == s->r.i1) {
        if (s->r.tile == tiles) return;
        s->r = run_at(a, s->k++);
    }
    if (ie_lane() == 0u) {
        words tile = a->g.w + (uint64_t)s->r.tile * ie_gpu_tile_words(f, nblk);
        uint32_t bytes = 4u * ie_gpu_part_words(f, ie_gpu_unit_blocks(s->r.i, nblk));
        IE_LDS uint32_t *to = s->ring + s->to * ie_gpu_place_words(f);
        IE_LDS uint64_t *arrived = s->arrived + s->to;
        ie_arrive_expect(arrived, bytes + (f.apart ? 2u * IE_TILE_ROWS : 0u));
        ie_copy(to, tile + ie_tile_words(s->r.i, ie_gpu_unit_words(f)), bytes, arrived);
        if (f.apart)
            ie_copy(to + ie_gpu_unit_words(f), (IE_GLOBAL const uint16_t *)(tile + ie_gpu_units_words(f, nblk)) + ie_gpu_apart(s->r.i, 0u), 2u * IE_TILE_ROWS,
                    arrived);
    }
    s->to = ie_ring_next(s->to, a->g.ahead);
    s->r.i++;
}

/* Records in LDS: of each place of the rings; of each buffer, that all waves have written a tile's sums, and that they have been added up. */
typedef struct {
    uint64_t arrived[IE_STREAM_WAVES * RING_MAX], full[BUFS_MAX], empty[BUFS_MAX];
} runs_marks;

/* adders: waves that add up a tile's sums. */
IE_INLINE runs runs_new(ie_gpu_format f, const ie_abi_stream *a, IE_LDS uint32_t *rings, IE_LDS runs_marks *m, uint32_t adders) {
    runs s = {.k = 1u, .r = run_at(a, 0u)};
    s.ring = rings + stream_wave() * a->g.ahead * ie_gpu_place_words(f), s.arrived = m->arrived + stream_wave() * RING_MAX;
    if (ie_lane() < a->g.ahead) ie_arrive_new(s.arrived + ie_lane(), 1u);
    if (ie_tid() < BUFS_MAX) ie_arrive_new(m->full + ie_tid(), a->g.waves), ie_arrive_new(m->empty + ie_tid(), adders);
    ie_arrive_ready();
    ie_wave_sync();
    for (uint32_t k = 0u; k < a->g.ahead; k++) runs_ask(f, a, &s);
    return s;
}

/* The wave has left its segments' sums of shared tile r->tile in memory, of NT tokens; if these were the last, it adds up all of the tile's. */
IE_INLINE void rest_join(const ie_abi_stream *a, const run *r, const uint32_t NT) {
    const uint32_t nseg = ie_nseg(a->g.nblk), i = r->tile - (ie_ntiles(a->g.rows) - a->rest), lane = ie_lane();
    IE_GLOBAL uint32_t *count = a->count + i;
    uint32_t done = 0u;
    ie_release();
    ie_wave_sync();
    if (lane == 0u) done = ie_atomic_add(count, r->seg1 - r->seg) + (r->seg1 - r->seg);
    if (ie_readlane(done, 0u) != nseg) return;
    ie_acquire();
    if (lane == 0u) *count = 0u;
    IE_GLOBAL const float *sums = a->sums + (uint64_t)i * IE_MAX_SEGS * NT * 32u + lane;
    for (uint32_t t = 0u; t < NT && t < a->g.n; t++) {
        float v[IE_MAX_SEGS], sum;
        ends e = ends_of(&a->g, r->tile * IE_TILE_ROWS + lane, t);
#pragma unroll
        for (uint32_t k = 0; k < IE_MAX_SEGS; k++) v[k] = k < nseg ? sums[(k * NT + t) * 32u] : 0.0f;
        sum = v[0];
#pragma unroll
        for (uint32_t k = 1; k < IE_MAX_SEGS; k++) sum = k < nseg ? sum + v[k] : sum;
        put(&a->g, r->tile * IE_TILE_ROWS + lane, t, sum, e);
    }
}

/* What a wave waits for before it writes its sums of the workgroup's tile number n of its own; what it does afterwards. */
IE_INLINE void runs_may_write(const ie_abi_stream *a, IE_LDS runs_marks *m, uint32_t n) {
    if (n >= a->bufs) ie_arrive_wait(m->empty + (n & (a->bufs - 1u)), ((n >> a->bufs_log) + 1u) & 1u);
}
IE_INLINE void runs_written(const ie_abi_stream *a, IE_LDS runs_marks *m, uint32_t n) {
    ie_wave_sync();
    if (ie_lane() == 0u) ie_arrive(m->full + (n & (a->bufs - 1u)));
}
/* The workgroup's tokens from memory to LDS; those that are not there are zeros. */
IE_INLINE void tokens_put(const ie_abi_gemv *a, kind k, int32_t bias, IE_LDS uint32_t *x, const uint32_t NT) {
    for (uint32_t i = ie_tid(); i < a->nblk * NT; i += 32u * a->waves) {
        uint32_t b = i / NT, t = i % NT, at = ie_stream_token(t);
        IE_LDS uint32_t *to = x + ie_stream_group(b, t, NT);
        ie_u4 v[4] = {{0u, 0u, 0u, 0u}, {0u, 0u, 0u, 0u}, {0u, 0u, 0u, 0u}, {0u, 0u, 0u, 0u}};
        IE_GLOBAL const uint32_t *from = a->x + (uint64_t)ie_q8_at(t, b, a->nblk, IE_DECODE_T) * IE_Q8_WORDS;
        if (t < a->n) v[0] = ie_load16(from), v[1] = ie_load16(from + 4), v[2] = ie_load16(from + 8), v[3] = ie_load16(from + 12);
        ie_lds_put16(to + 8u * at, ((ie_u4){v[0].x, v[1].x, v[0].y, v[1].y}));
        ie_lds_put16(to + 8u * at + 4u, ((ie_u4){v[0].z, v[1].z, v[0].w, v[1].w}));
        uint32_t nsum = v[2].z, nlo = v[2].w, nhi = v[3].x;
        to[64u + at] = v[2].x;
        if (k == K_DOT) to[72u + at] = MAGIC + (uint32_t)bias * nsum;
        if (k == K_DOT_MIN) to[72u + at] = v[2].y;
        if (k == K_DOT2) to[72u + at] = MAGIC + (uint32_t)bias * nlo, to[80u + at] = MAGIC + (uint32_t)bias * nhi;
        if (k == K_DOT2_MIN) to[72u + at] = ie_bits_of((float)(int32_t)nlo), to[80u + at] = ie_bits_of((float)(int32_t)nhi);
    }
}

/* Weights of a block for the instruction: k of rows g, g + 8: words w, then words w + 4; then rows g + 16, g + 24. row_words(q, b, row, w, lo, hi): a format's
 * words w and w + 4 of a row, as block_FORMAT of gemv.c has them. */
#define WORDS(F) IE_INLINE void words_##F(const IE_LDS uint32_t *at, uint32_t b, uint32_t row, uint32_t w, uint32_t *lo, uint32_t *hi)
#define BULK4(F) at[ie_gpu_block_at(row_##F, b) + ie_field_lm(0, 4, w, row)]
#define BULK2(F) at[ie_gpu_block_at(row_##F, b) + ie_field_lm(0, 4, b % 2u * 2u + w % 2u, row)]
#define HEAD1(F, N, W) at[IE_TILE_ROWS * row_##F.n0 + ie_field_lm(0, N, W, row)]
#define NIBBLES(F) uint32_t q = BULK4(F); *lo = ie_q4_of(q, w), *hi = ie_q4_of(q, w + 4u)
#define FIFTHS(F) uint32_t q = BULK4(F), qh = HEAD1(F, 8, b); *lo = ie_q5_of(q, qh, w), *hi = ie_q5_of(q, qh, w + 4u)
WORDS(q4_0) { NIBBLES(q4_0); }
WORDS(q4_1) { NIBBLES(q4_1); }
WORDS(q4_k) { NIBBLES(q4_k); }
WORDS(q5_0) { FIFTHS(q5_0); }
WORDS(q5_1) { FIFTHS(q5_1); }
WORDS(q5_k) { FIFTHS(q5_k); }
WORDS(q8_0) {
    const IE_LDS uint32_t *q = at + ie_gpu_block_at(row_q8_0, b);
    *lo = q[ie_field_lm(0, 8, w, row)], *hi = q[ie_field_lm(0, 8, w + 4u, row)];
}
WORDS(q6_k) {
    uint32_t q = BULK4(q6_k), h = HEAD1(q6_k, 16, 2u * b + w % 2u);
    *lo = ie_q6_of(q, h, w), *hi = ie_q6_of(q, h, w + 4u);
}
WORDS(q2_k) {
    uint32_t q = BULK2(q2_k);
    *lo = ie_q2_of(q, w), *hi = ie_q2_of(q, w + 4u);
}
WORDS(q3_k) {
    uint32_t q = BULK2(q3_k), qh = HEAD1(q3_k, 8, b);
    *lo = ie_q3_of(q, qh, w), *hi = ie_q3_of(q, qh, w + 4u);
}
WORDS(iq4_nl) { ie_iq4_words(BULK4(iq4_nl), lo, hi); }
WORDS(iq4_xs) { ie_iq4_words(BULK4(iq4_xs), lo, hi); }

/* A row's scales of a block, for the lane's four rows. */
typedef struct {
    float d[4], m[4], s0[4], s1[4], m0[4], m1[4];
} scales;
IE_INLINE scales spread(kind k, const block *o) {
    bool two = k == K_DOT2 || k == K_DOT2_MIN;
    scales s = {0};
    ie_mma_spread(o->d, s.d);
    if (k == K_DOT_MIN || k == K_DOT2_MIN) ie_mma_spread(o->m, s.m);
    if (two) ie_mma_spread((float)o->s0, s.s0), ie_mma_spread((float)o->s1, s.s1);
    if (k == K_DOT2_MIN) ie_mma_spread((float)o->m0, s.m0), ie_mma_spread((float)o->m1, s.m1);
    return s;
}

IE_INLINE float unmagic(int32_t v) { return ie_f32_of((uint32_t)v) - ie_f32_of(MAGIC); }

/* A block of 32 rows times 8 tokens, at x in LDS. */
IE_INLINE void stream_tokens(kind k, bool is_signed, const scales *s, const ie_mma_w *w, const IE_LDS uint32_t *x, float acc[IE_MMA_TOKENS]) {
    const IE_LDS float *plane = (const IE_LDS float *)(x + 64u + 2u * (ie_lane() % 4u));
    ie_f2 q = ie_lds8(x + 2u * ie_lane()), d = ie_lds8(plane), p = ie_lds8(plane + 8), p2 = {0.0f, 0.0f};
    ie_mma_x t = {{ie_bits_of(q.x), ie_bits_of(q.y)}};
    bool two = k == K_DOT2 || k == K_DOT2_MIN, own = k == K_DOT || k == K_DOT2;
    if (two) p2 = ie_lds8(plane + 16);
    int32_t c0 = (int32_t)(own ? ie_bits_of(p.x) : MAGIC), c1 = (int32_t)(own ? ie_bits_of(p.y) : MAGIC);
    int32_t h0 = (int32_t)(own ? ie_bits_of(p2.x) : MAGIC), h1 = (int32_t)(own ? ie_bits_of(p2.y) : MAGIC);
    ie_i8 from = {c0, c1, c0, c1, c0, c1, c0, c1}, hi_from = {h0, h1, h0, h1, h0, h1, h0, h1}, lo, hi = from;
    if (two) lo = ie_mma_half(w, &t, 0u, is_signed, from), hi = ie_mma_half(w, &t, 1u, is_signed, hi_from);
    else lo = ie_mma_block(w, &t, is_signed, from);
#pragma unroll
    for (uint32_t i = 0; i < IE_MMA_TOKENS; i++) {
        uint32_t j = i / 2u;
        float da = i % 2u ? d.y : d.x, dot = unmagic(lo[i]);
        if (two) dot = ie_fma(s->s1[j], unmagic(hi[i]), s->s0[j] * dot);
        acc[i] = ie_fma(s->d[j] * da, dot, acc[i]);
        if (k == K_DOT_MIN) acc[i] = ie_fma(s->m[j], i % 2u ? p.y : p.x, acc[i]);
        if (k == K_DOT2_MIN) {
            float nlo = i % 2u ? p.y : p.x, nhi = i % 2u ? p2.y : p2.x;
            acc[i] = ie_fma(s->m[j] * da, -ie_fma(s->m1[j], nhi, s->m0[j] * nlo), acc[i]);
        }
    }
}

#define STREAM_TOKENS_BLOCK(F, NT, KIND, SIGNED) \
    block o; \
    ie_mma_w w; \
    block_##F(&u, b, &o); /* its scales */ \
    _Pragma("unroll") for (uint32_t h = 0; h < 4u; h++) \
        words_##F(at, b, r / 4u + 8u * h, r % 4u, &w.k[h / 2u * 4u + h % 2u], &w.k[h / 2u * 4u + h % 2u + 2u]); \
    const scales sc = spread(KIND, &o); \
    _Pragma("unroll") for (uint32_t g = 0; g < (NT) / 8u; g++) \
        stream_tokens(KIND, SIGNED, &sc, &w, x + ie_stream_group(i * IE_GPU_UNIT + b, 8u * g, NT), acc + 8u * g);

/* The tile's sums, a token each in turn. */
IE_INLINE void tokens_add(const ie_abi_stream *a, const IE_LDS float *sums, IE_LDS runs_marks *m, uint32_t n, const uint32_t NT) {
    uint32_t buf = n & (a->bufs - 1u), row = (ie_wg_x() + n * a->g.step) * IE_TILE_ROWS + ie_lane();
    if (stream_wave() >= NT) return;
    ie_arrive_wait(m->full + buf, n >> a->bufs_log & 1u);
    for (uint32_t t = stream_wave(); t < NT && t < a->g.n; t += a->g.waves) {
        ends e = ends_of(&a->g, row, t);
        put(&a->g, row, t, seg_sum(sums + (buf * IE_MAX_SEGS * NT + t) * 32u + ie_lane(), NT * 32u, ie_nseg(a->g.nblk)), e);
    }
    ie_wave_sync();
    if (ie_lane() == 0u) ie_arrive(m->empty + buf);
}

#define GEMV_STREAM_TOKENS(F, NT, KIND, BIAS, SIGNED, ROW) \
    IE_KERNEL(512) ie_gemv_##F##_s##NT(ie_abi_stream a) { \
        static IE_LDS_VAR runs_marks marks; \
        IE_LDS uint32_t *x = ie_lds_more; \
        const uint32_t nblk = a.g.nblk, r = ie_lane(), tiles = ie_ntiles(a.g.rows), own = tiles - a.rest; \
        IE_LDS float *sums = (IE_LDS float *)(x + ie_stream_group(nblk, 0u, NT)); \
        ie_dep_go(); \
        runs s = runs_new(ROW, &a, (IE_LDS uint32_t *)sums + a.bufs * IE_MAX_SEGS * (NT) * 32u, &marks, a.g.waves < (NT) ? a.g.waves : (NT)); \
        ie_dep_wait(); \
        tokens_put(&a.g, KIND, (SIGNED) ? 0 : (BIAS), x, NT); \
        ie_barrier(); \
        uint32_t place = 0u, phase = 0u, k = ie_rest_tile(ie_wg_x(), a.parts_log) < a.rest ? 0u : 1u; \
        const bool late = a.bufs > 1u; /* a tile's sums are added up after the next tile */ \
        for (;; k++) { \
            run j = run_at(&a, k); \
            const uint32_t n = k - 1u; \
            uint32_t seg = j.seg, end = ie_seg_unit(seg + 1u, nblk); \
            if (j.tile == tiles) break; \
            IE_LDS float *to = sums + (n & (a.bufs - 1u)) * IE_MAX_SEGS * (NT) * 32u; \
            IE_GLOBAL float *rest = a.sums + (uint64_t)(k ? 0u : j.tile - own) * IE_MAX_SEGS * (NT) * 32u; \
            if (k) runs_may_write(&a, &marks, n); \
            float acc[NT] = {0}; \
            for (uint32_t i = j.i; i < j.i1; i++) { \
                const IE_LDS uint32_t *at = s.ring + place * ie_gpu_place_words(ROW); \
                uint32_t nb = ie_gpu_unit_blocks(i, nblk); \
                unit u; \
                ie_arrive_wait(s.arrived + place, phase); \
                head_lds(ROW, at, r, &u.h); \
                if (nb == IE_GPU_UNIT) { /* no branch between blocks: their work overlaps */ \
                    _Pragma("unroll") for (uint32_t b = 0; b < IE_GPU_UNIT; b++) { STREAM_TOKENS_BLOCK(F, NT, KIND, SIGNED) } \
                } else { \
                    _Pragma("unroll") for (uint32_t b = 0; b < IE_GPU_UNIT; b++) { \
                        if (b >= nb) break; \
                        STREAM_TOKENS_BLOCK(F, NT, KIND, SIGNED) \
                    } \
                } \
                if (i + 1u == end) { \
                    _Pragma("unroll") for (uint32_t t = 0; t < (NT); t++) { \
                        uint32_t in = (seg * (NT) + t / 8u * 8u + ie_mma_token(t % 8u)) * 32u + ie_mma_row(t % 8u); \
                        if (k) to[in] = acc[t]; \
                        else rest[in] = acc[t]; \
                        acc[t] = 0.0f; \
                    } \
                    seg++, end = ie_seg_unit(seg + 1u, nblk); \
                } \
                ie_wave_sync(); /* all lanes have read it */ \
                runs_ask(ROW, &a, &s); \
                place = ie_ring_next(place, a.g.ahead), phase ^= place == 0u; \
            } \
            if (k) runs_written(&a, &marks, n); \
            else if (j.seg < j.seg1) rest_join(&a, &j, NT); \
            if (k && (!late || n)) tokens_add(&a, sums, &marks, late ? n - 1u : n, NT); \
        } \
        if (late && k > 1u) tokens_add(&a, sums, &marks, k - 2u, NT); \
    }

#define STREAM_TOKENS(F, KIND, BIAS, SIGNED) \
    GEMV_STREAM_TOKENS(F, 8, KIND, BIAS, SIGNED, row_##F) \
    GEMV_STREAM_TOKENS(F, 16, KIND, BIAS, SIGNED, row_##F)
STREAM_TOKENS(q4_0, K_DOT, 8, false)
STREAM_TOKENS(q4_1, K_DOT_MIN, 0, false)
STREAM_TOKENS(q5_0, K_DOT, 16, false)
STREAM_TOKENS(q5_1, K_DOT_MIN, 0, false)
STREAM_TOKENS(q8_0, K_DOT, 128, true)
STREAM_TOKENS(q2_k, K_DOT2_MIN, 0, false)
STREAM_TOKENS(q3_k, K_DOT2, 4, false)
STREAM_TOKENS(q4_k, K_DOT_MIN, 0, false)
STREAM_TOKENS(q5_k, K_DOT_MIN, 0, false)
STREAM_TOKENS(q6_k, K_DOT2, 32, false)
STREAM_TOKENS(iq4_nl, K_DOT, 128, false)
STREAM_TOKENS(iq4_xs, K_DOT, 128, false)
#endif
