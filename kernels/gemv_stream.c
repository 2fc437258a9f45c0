/* Matrix times one row, for cards that copy memory to LDS by themselves (IE_COPIES): the bits of ie_gemv_FORMAT.
 *
 *   ie_gemv_FORMAT_s         y[r] = row r . x (+ bias[r]) (+ res[r]); x is Q8, or the launch makes it: RMSNorm of a row
 *   ie_gemv_FORMAT_s_shared  the same, where some tiles are shared by workgroups
 *   ie_gemv_FORMAT_s_OTHER   the same, and y2[r] = row r of another matrix . x (+ bias2[r])
 *
 * A workgroup takes tile after tile, `step` (the grid) apart; its 8 or 16 waves share out each tile's segments, the same ones in each tile. A wave has
 * a ring of `ahead` units in LDS: while it works on one, the others are on their way, over the ends of tiles, too, and before the launches
 * before this one are through. So loads need no registers and never stand still.
 *
 * RMSNorm: each workgroup makes all of x for itself, which takes less time than a launch does to end; one of them leaves it in memory for later launches.
 * Shared tiles: those that are left when there is none for each workgroup are shared by 2^parts_log each; a part is some of the segments, and what a workgroup does first.
 * Two matrices: the first workgroups, one.g.step of them, share out the tiles of one, those after them the tiles of the other.
 *
 * Operands: as gemv.c. Launch: 256 or 512 lanes, x = any number of workgroups up to the tiles; LDS beyond the static: the Q8 blocks of x (64 bytes each), then
 * the waves' rings. Bytes moved: each weight once, x (as floats where it is made) once a workgroup. */
#include "norm.h"

#if IE_COPIES
#define RING_MAX 8u /* units */

/* What a workgroup declares. sums: of two tiles in turn, so that one wave adds up a tile's while the others go on. */
typedef struct {
    float sums[2u * IE_MAX_SEGS * 32u];
    uint64_t arrived[IE_STREAM_WAVES * RING_MAX], x_arrived; /* of each place of the waves' rings; of x */
} stream_lds;

typedef struct {
    uint32_t seg, i0, i1;        /* of each of the workgroup's own tiles: the wave's first segment, its units */
    uint32_t rest_seg, r0, r1;   /* of the tile that it shares; r0 == r1: none */
    uint32_t tile, i, end, next; /* the next unit to ask for, the end of the wave's in this tile, the tile after it */
    uint32_t to;                 /* the unit's place in the ring */
    IE_LDS uint32_t *ring;
    IE_LDS uint64_t *arrived; /* of each place */
} stream;

/* Tiles that are shared (none without SHARED); those before them workgroups have for themselves. */
IE_INLINE uint32_t shared_tiles(const ie_abi_stream_one *a, const bool SHARED) { return SHARED ? a->rest : 0u; }
IE_INLINE uint32_t unshared_tiles(const ie_abi_stream_one *a, const bool SHARED) { return ie_ntiles(a->g.rows) - shared_tiles(a, SHARED); }
/* To the next of the workgroup's own tiles, if there is one, and the wave has a segment of it. */
IE_INLINE void stream_turn(const ie_abi_stream_one *a, const bool SHARED, stream *s) {
    s->tile = s->i0 != s->i1 && s->next < unshared_tiles(a, SHARED) ? s->next : ie_ntiles(a->g.rows);
    s->i = s->i0, s->end = s->i1, s->next = ie_stream_next(s->next, a->g.step);
}
/* Asks for the next unit, if there is one. */
IE_INLINE void stream_ask(ie_gpu_format f, const ie_abi_stream_one *o, const bool SHARED, stream *s) {
    const ie_abi_gemv *a = &o->g;
    if (s->tile >= ie_ntiles(a->rows)) return;
    if (ie_lane() == 0u) {
        words tile = a->w + (uint64_t)s->tile * ie_gpu_tile_words(f, a->nblk);
        uint32_t bytes = 4u * ie_gpu_part_words(f, ie_gpu_unit_blocks(s->i, a->nblk));
        IE_LDS uint32_t *to = s->ring + s->to * ie_gpu_place_words(f);
        IE_LDS uint64_t *arrived = s->arrived + s->to;
        ie_arrive_expect(arrived, bytes + (f.apart ? 2u * IE_TILE_ROWS : 0u));
        ie_copy(to, tile + ie_tile_words(s->i, ie_gpu_unit_words(f)), bytes, arrived);
        if (f.apart)
            ie_copy(to + ie_gpu_unit_words(f), (IE_GLOBAL const uint16_t *)(tile + ie_gpu_units_words(f, a->nblk)) + ie_gpu_apart(s->i, 0u), 2u * IE_TILE_ROWS, arrived);
    }
    s->to = ie_ring_next(s->to, a->ahead);
    if (++s->i == s->end) stream_turn(o, SHARED, s);
}

IE_INLINE stream stream_new(ie_gpu_format f, const ie_abi_stream_one *o, const bool SHARED, uint32_t wg, IE_LDS uint32_t *rings, IE_LDS uint64_t *arrived) {
    const ie_abi_gemv *a = &o->g;
    uint32_t nseg = ie_nseg(a->nblk), wave = ie_wave(), seg1 = ie_stream_seg(nseg, wave + 1u, a->waves), rest = ie_rest_tile(wg, o->parts_log);
    stream s = {.seg = ie_stream_seg(nseg, wave, a->waves), .next = wg};
    s.i0 = ie_seg_unit(s.seg, a->nblk), s.i1 = ie_seg_unit(seg1, a->nblk);
    s.ring = rings + wave * a->ahead * ie_gpu_place_words(f), s.arrived = arrived + wave * RING_MAX;
    if (rest < shared_tiles(o, SHARED)) {
        uint32_t part = ie_rest_part(wg, o->parts_log), from = ie_rest_seg(nseg, part, o->parts_log), n = ie_rest_seg(nseg, part + 1u, o->parts_log) - from;
        s.rest_seg = from + ie_stream_seg(n, wave, a->waves);
        s.r0 = ie_seg_unit(s.rest_seg, a->nblk), s.r1 = ie_seg_unit(from + ie_stream_seg(n, wave + 1u, a->waves), a->nblk);
    }
    if (s.r0 != s.r1) s.tile = unshared_tiles(o, SHARED) + rest, s.i = s.r0, s.end = s.r1;
    else stream_turn(o, SHARED, &s);
    if (ie_lane() < a->ahead) ie_arrive_new(s.arrived + ie_lane(), 1u);
    ie_arrive_ready();
    ie_wave_sync();
    return s;
}
/* What is asked for before a row to be normed: less than the ring holds, since loads of the row wait behind what the card has to bring for all units. */
IE_INLINE uint32_t stream_early(uint32_t ahead) { return (ahead + 1u) / 2u; }
/* The next n units. */
IE_INLINE void stream_fill(ie_gpu_format f, const ie_abi_stream_one *a, const bool SHARED, uint32_t n, stream *s) {
    for (uint32_t k = 0; k < n; k++) stream_ask(f, a, SHARED, s);
}

/* x as it is, to LDS, by a copy that *arrived counts. */
IE_INLINE void row_take(const ie_abi_gemv *a, IE_LDS uint32_t *x, IE_LDS uint64_t *arrived) {
    const uint32_t bytes = a->nblk * IE_Q8_WORDS * 4u;
    if (ie_tid() == 0u) {
        ie_arrive_expect(arrived, bytes);
        ie_copy(x, a->x, bytes, arrived);
    }
    ie_arrive_wait(arrived, 0u);
}

/* ---- RMSNorm of the row that is taken ------------------------------------------------------------------------------------------ */

/* A lane has eight values of a block that it shares with its three neighbours (lane % 4 in the order of the values), so a wave makes eight blocks at once. */
typedef struct {
    float x[8], w[8];
} eight;
IE_INLINE void eight_load(IE_GLOBAL const float *from, uint32_t b, uint32_t nblk, float *out) {
    uint32_t at = (b < nblk ? b : 0u) * IE_BLOCK + ie_lane() % 4u * 8u;
#pragma unroll
    for (uint32_t i = 0; i < 8u; i += 4u) {
        ie_u4 v = ie_load16(from + at + i);
        out[i] = ie_f32_of(v.x), out[i + 1u] = ie_f32_of(v.y), out[i + 2u] = ie_f32_of(v.z), out[i + 3u] = ie_f32_of(v.w);
    }
}
/* The lane's two words of values and two of the others (core: IE_Q8_*). True: not all finite (the block is zeros). */
IE_INLINE bool eight_q8(const float y[8], uint32_t q[2], uint32_t more[2]) {
    uint32_t part = ie_lane() % 4u, top = 0u, b[8];
    int32_t s = 0;
#pragma unroll
    for (uint32_t i = 0; i < 8u; i++) top = ie_larger_(top, ie_bits_of(y[i]) & 0x7FFFFFFFu);
    top = ie_larger_(top, ie_xor(top, 1));
    top = ie_larger_(top, ie_xor(top, 2));
    bool bad = top >= 0x7F800000u;
    float id, d = ie_q8_scale(bad ? 0.0f : ie_f32_of(top), &id);
#pragma unroll
    for (uint32_t i = 0; i < 8u; i++) {
        int32_t v = ie_q8_value(bad ? 0.0f : y[i], id);
        s += v, b[i] = (uint32_t)v & 0xFFu;
    }
    q[0] = b[0] | b[1] << 8 | b[2] << 16 | b[3] << 24, q[1] = b[4] | b[5] << 8 | b[6] << 16 | b[7] << 24;
    uint32_t half = (uint32_t)s + ie_xor((uint32_t)s, 1), other = ie_xor(half, 2), lo = part < 2u ? half : other, hi = part < 2u ? other : half;
    int32_t sum = (int32_t)(lo + hi);
    more[0] = part == 0u ? ie_bits_of(d) : part == 1u ? (uint32_t)-sum : part == 2u ? 0u - hi : 0u;
    more[1] = part == 0u ? ie_bits_of(d * (float)sum) : part == 1u ? 0u - lo : 0u;
    return bad;
}
/* Block b of x, to LDS, and from one workgroup to the norm's outputs; all lanes of the wave together. */
IE_INLINE void eight_put(const ie_abi_stream_one *o, const eight *e, float r, uint32_t b, bool tell, IE_LDS uint32_t *x) {
    const ie_abi_out *out = &o->g.norm.out;
    uint32_t part = ie_lane() % 4u, q[2], more[2];
    float y[8];
#pragma unroll
    for (uint32_t i = 0; i < 8u; i++) y[i] = e->x[i] * r * e->w[i];
    bool bad = eight_q8(y, q, more);
    if (b >= o->g.nblk) return;
#pragma unroll
    for (uint32_t i = 0; i < 2u; i++) {
        uint32_t at = b * IE_Q8_WORDS + 2u * part + i;
        x[at] = q[i], x[at + 8u] = more[i];
        if (tell && out->q8) out->q8[at] = q[i], out->q8[at + 8u] = more[i];
    }
#pragma unroll
    for (uint32_t i = 0; i < 8u; i++)
        if (tell && out->y) out->y[b * IE_BLOCK + part * 8u + i] = y[i];
    if (tell && bad) ie_atomic_max(&out->batch->bad, out->bad);
}
/* A wave's k-th eight blocks: the lane's. */
#define EIGHTS 3u /* of them are in registers at once */
IE_INLINE uint32_t eight_block(const ie_abi_gemv *a, uint32_t k) { return (k * a->waves + ie_wave()) * 8u + ie_lane() / 4u; }
/* The norm's weights of the first ones; before anything else is asked for, since they come from memory. */
IE_INLINE void eight_weights(const ie_abi_gemv *a, eight e[EIGHTS]) {
#pragma unroll
    for (uint32_t k = 0; k < EIGHTS; k++) eight_load(a->norm.w, eight_block(a, k), a->nblk, e[k].w);
}
/* The row's values of the first ones, and its sum of squares. Ends with a barrier. */
IE_INLINE void row_squares_all(const ie_abi_stream_one *o, eight e[EIGHTS], IE_LDS float *sums) {
#pragma unroll
    for (uint32_t k = 0; k < EIGHTS; k++) eight_load(o->row, eight_block(&o->g, k), o->g.nblk, e[k].x);
    if (ie_wave() < 8u) row_squares(o->row, o->g.nblk * IE_BLOCK, ie_wave(), 20u, sums);
    ie_barrier();
}
/* x := Q8 of the row's norm; e: the first ones' values and weights. Ends with a barrier. */
IE_INLINE void row_norm(const ie_abi_stream_one *o, uint32_t wg, eight e[EIGHTS], IE_LDS uint32_t *x, IE_LDS float *sums) {
    const uint32_t nblk = o->g.nblk, n = nblk * IE_BLOCK, each = 8u * o->g.waves, tell = wg + 1u == o->g.step;
    float r = squares_factor(sums, n, o->g.norm.eps);
#pragma unroll
    for (uint32_t k = 0; k < EIGHTS; k++)
        if (k * each < nblk) eight_put(o, &e[k], r, eight_block(&o->g, k), tell, x);
#pragma unroll 1
    for (uint32_t k = EIGHTS; k * each < nblk; k++) {
        eight_load(o->row, eight_block(&o->g, k), nblk, e[0].x);
        eight_load(o->g.norm.w, eight_block(&o->g, k), nblk, e[0].w);
        eight_put(o, &e[0], r, eight_block(&o->g, k), tell, x);
    }
    ie_barrier();
}

/* ---- shared tiles ---------------------------------------------------------------------------------------------------------------- */

/* The sums of their segments go to memory, each with a mark in one word of 64 bits, so that who reads one has the other, too, and nothing has to be ordered by a fence, which
 * takes microseconds while copies are under way. The workgroup with a tile's last part waits for all of them, adds them up and takes the marks off. It waits for workgroups
 * of lower numbers only, which have begun before it, and for what they do first. */
IE_INLINE IE_GLOBAL uint64_t *shared_sum(const ie_abi_stream_one *a, uint32_t rest, uint32_t seg) { return a->sums + (rest * IE_MAX_SEGS + seg) * IE_TILE_ROWS + ie_lane(); }
IE_INLINE void shared_join(const ie_abi_stream_one *a, uint32_t rest, ends e) {
    const uint32_t nseg = ie_nseg(a->g.nblk);
    IE_GLOBAL uint64_t *p = shared_sum(a, rest, 0u);
    float v[IE_MAX_SEGS], sum;
    bool all;
    do {
        all = true;
#pragma unroll
        for (uint32_t k = 0; k < IE_MAX_SEGS; k++) {
            ie_two x = k < nseg ? ie_two_get(p + k * IE_TILE_ROWS) : (ie_two){0u, 1u};
            v[k] = ie_f32_of(x.lo), all = all && x.hi;
        }
    } while (!all);
    sum = v[0];
#pragma unroll
    for (uint32_t k = 1; k < IE_MAX_SEGS; k++) sum = k < nseg ? sum + v[k] : sum;
    for (uint32_t k = 0; k < nseg; k++) ie_two_put(p + k * IE_TILE_ROWS, 0u, 0u);
    put(&a->g, (unshared_tiles(a, true) + rest) * IE_TILE_ROWS + ie_lane(), 0u, sum, e);
}

/* n words of row r of a field in LDS; as `field` of gemv.c. */
IE_INLINE void field_lds(const IE_LDS uint32_t *at, uint32_t n, uint32_t r, uint32_t *out) {
#pragma unroll
    for (uint32_t w = 0; w + 4u <= n; w += 4u) {
        ie_u4 v = ie_lds16(at + ie_field_lm(0, w + 4u, w, r));
        out[w] = v.x, out[w + 1u] = v.y, out[w + 2u] = v.z, out[w + 3u] = v.w;
    }
#pragma unroll
    for (uint32_t w = n / 4u * 4u; w < n; w++) out[w] = at[ie_field_lm(0, n, w, r)];
}
IE_INLINE void head_lds(ie_gpu_format f, const IE_LDS uint32_t *at, uint32_t r, heads *h) {
    field_lds(at, f.n0, r, h->h0);
    field_lds(at + IE_TILE_ROWS * f.n0, f.n1, r, h->h1);
    if (f.apart) h->d = ((const IE_LDS uint16_t *)(at + ie_gpu_unit_words(f)))[r];
}
IE_INLINE void block_lds(ie_gpu_format f, const IE_LDS uint32_t *at, uint32_t b, uint32_t r, unit *u) {
    const IE_LDS uint32_t *q = at + IE_TILE_ROWS * (f.n0 + f.n1);
    if (f.per >= 4u) field_lds(q + IE_TILE_ROWS * f.per * b, f.per, r, u->q + f.per * b);
    else field_lds(q + IE_TILE_ROWS * 2u * (b / 2u * 2u), 4u, r, u->q + 4u * (b / 2u));
}
IE_INLINE void x_lds(const IE_LDS uint32_t *at, uint32_t *out) {
#pragma unroll
    for (uint32_t e = 0; e < 13u; e += 4u) {
        ie_u4 v = ie_lds16(at + e);
        out[e] = v.x, out[e + 1u] = v.y, out[e + 2u] = v.z, out[e + 3u] = v.w;
    }
}

#define STREAM_BLOCK(F, KIND, BIAS, ROW) \
    block o; \
    uint32_t q[IE_Q8_WORDS]; \
    block_lds(ROW, at, b, r, &u); \
    block_##F(&u, b, &o); \
    x_lds(x + (i * IE_GPU_UNIT + b) * IE_Q8_WORDS, q); \
    acc = add_block(KIND, BIAS, &o, q, acc);

/* By workgroup wg of those that the matrix has. */
#define GEMV_STREAM(F, KIND, BIAS, ROW) \
    IE_INLINE void stream_##F(const ie_abi_stream_one *a, const bool SHARED, uint32_t wg, IE_LDS stream_lds *m) { \
        IE_LDS uint32_t *x = ie_lds_more; \
        const uint32_t nblk = a->g.nblk, nseg = ie_nseg(nblk), r = ie_lane(), own = unshared_tiles(a, SHARED); \
        ie_dep_go(); \
        eight e8[EIGHTS]; \
        if (a->row) eight_weights(&a->g, e8); \
        if (ie_tid() == 0u) ie_arrive_new(&m->x_arrived, 1u); \
        stream s = stream_new(ROW, a, SHARED, wg, x + nblk * IE_Q8_WORDS, m->arrived); \
        const uint32_t early = a->row ? stream_early(a->g.ahead) : a->g.ahead, rest = ie_rest_tile(wg, a->parts_log); \
        /* its last wave adds up the tile of which the workgroup has the last part */ \
        const bool joins = rest < shared_tiles(a, SHARED) && !ie_rest_part(wg + 1u, a->parts_log) && ie_wave() + 1u == a->g.waves; \
        ends last = {0.0f, 0.0f}; \
        stream_fill(ROW, a, SHARED, early, &s); \
        ie_barrier(); \
        ie_dep_wait(); \
        if (a->row) row_squares_all(a, e8, m->sums); \
        else row_take(&a->g, x, &m->x_arrived); \
        stream_fill(ROW, a, SHARED, a->g.ahead - early, &s); \
        if (a->row) row_norm(a, wg, e8, x, m->sums); \
        if (joins) last = ends_of(&a->g, (own + rest) * IE_TILE_ROWS + r, 0u); \
        uint32_t place = 0u, phase = 0u, tile = wg; \
        bool shared = SHARED && s.r0 != s.r1; /* the wave's part of a shared tile comes first */ \
        for (uint32_t k = 0u; shared || tile < own;) { \
            IE_LDS float *to = m->sums + k % 2u * IE_MAX_SEGS * 32u + r; \
            const uint32_t row = tile * IE_TILE_ROWS + r, i0 = shared ? s.r0 : s.i0, i1 = shared ? s.r1 : s.i1; \
            const bool mine = !shared && ie_wave_turn(k, a->g.waves) == ie_wave(); \
            uint32_t seg = shared ? s.rest_seg : s.seg, end = ie_seg_unit(seg + 1u, nblk); \
            float acc = 0.0f; \
            ends e = {0.0f, 0.0f}; \
            if (mine) e = ends_of(&a->g, row, 0u); \
            for (uint32_t i = i0; i < i1; i++) { \
                const IE_LDS uint32_t *at = s.ring + place * ie_gpu_place_words(ROW); \
                uint32_t nb = ie_gpu_unit_blocks(i, nblk); \
                unit u; \
                ie_arrive_wait(s.arrived + place, phase); \
                head_lds(ROW, at, r, &u.h); \
                if (nb == IE_GPU_UNIT) { \
                    _Pragma("unroll") for (uint32_t b = 0; b < IE_GPU_UNIT; b++) { STREAM_BLOCK(F, KIND, BIAS, ROW) } \
                } else { \
                    _Pragma("unroll") for (uint32_t b = 0; b < IE_GPU_UNIT; b++) \
                        if (b < nb) { STREAM_BLOCK(F, KIND, BIAS, ROW) } \
                } \
                if (i + 1u == end) { \
                    if (shared) ie_two_put(shared_sum(a, rest, seg), ie_bits_of(acc), 1u); \
                    else to[seg * 32u] = acc; \
                    acc = 0.0f, seg++, end = ie_seg_unit(seg + 1u, nblk); \
                } \
                ie_wave_sync(); /* all lanes have read it */ \
                stream_ask(ROW, a, SHARED, &s); \
                place = ie_ring_next(place, a->g.ahead), phase ^= place == 0u; \
            } \
            if (shared) { \
                shared = false; \
                continue; \
            } \
            ie_barrier(); \
            if (mine) put(&a->g, row, 0u, seg_sum(to, 32u, nseg), e); \
            tile = ie_stream_next(tile, a->g.step), k++; \
        } \
        if (joins) shared_join(a, rest, last); \
    } \
    IE_KERNEL(512) ie_gemv_##F##_s(ie_abi_stream_one a) { \
        static IE_LDS_VAR stream_lds m; \
        stream_##F(&a, false, ie_wg_x(), &m); \
    } \
    IE_KERNEL(512) ie_gemv_##F##_s_shared(ie_abi_stream_one a) { \
        static IE_LDS_VAR stream_lds m; \
        stream_##F(&a, true, ie_wg_x(), &m); \
    }

#define STREAM(F, KIND, BIAS) GEMV_STREAM(F, KIND, BIAS, row_##F)
STREAM(q4_0, K_DOT, 8)
STREAM(q4_1, K_DOT_MIN, 0)
STREAM(q5_0, K_DOT, 16)
STREAM(q5_1, K_DOT_MIN, 0)
STREAM(q8_0, K_DOT, 128)
STREAM(q2_k, K_DOT2_MIN, 0)
STREAM(q3_k, K_DOT2, 4)
STREAM(q4_k, K_DOT_MIN, 0)
STREAM(q5_k, K_DOT_MIN, 0)
STREAM(q6_k, K_DOT2, 32)
STREAM(iq4_nl, K_DOT, 128)
STREAM(iq4_xs, K_DOT, 128)

/* The second matrix of two, which has no residual; the first one's workgroups leave the norm in memory. */
IE_INLINE ie_abi_stream_one stream_other(const ie_abi_stream_two *a) {
    ie_abi_stream_one o = a->one;
    o.g.w = a->w, o.g.y = a->y, o.g.bias = a->bias, o.g.res = 0, o.g.rows = a->rows, o.g.ahead = a->ahead, o.g.step = a->step;
    o.g.norm.out.y = 0, o.g.norm.out.q8 = 0;
    return o;
}
#define STREAM_TWO(F, FORMAT_F, G, FORMAT_G) \
    IE_KERNEL(512) ie_gemv_##F##_s_##G(ie_abi_stream_two a) { \
        static IE_LDS_VAR stream_lds m; \
        if (ie_wg_x() < a.one.g.step) stream_##F(&a.one, false, ie_wg_x(), &m); \
        else { \
            const ie_abi_stream_one other = stream_other(&a); \
            stream_##G(&other, false, ie_wg_x() - a.one.g.step, &m); \
        } \
    }
IE_STREAM_PAIRS(STREAM_TWO)
#endif
