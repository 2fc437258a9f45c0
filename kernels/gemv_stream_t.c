/* Matrix times 2 to 16 rows at one reading of the weights, streamed, by matrix instructions: the bits of ie_gemv_FORMAT.
 *
 *   ie_gemv_FORMAT_s8, _s16   y[t][r] = row r . x[t] (+ bias[r]) (+ res[t][r]) of up to 8, 16 tokens; x is Q8 in groups of 16
 *
 * A workgroup takes tile after tile, `step` (the grid) apart, and first its part of a tile that several share. All its waves but two, `work` of them,
 * take segments: wave w those with number w, w + work, w + 2 work ... in the order of tiles and segments (work is odd, so that none always has the
 * longest). Each has a ring of `ahead` units in LDS that are on their way or there, over the ends of segments and tiles, and a slot for a segment's
 * sums. The next wave takes the slots in turn, adds the segments up from left to right and stores the tile's results; the last one does so with the
 * shared tile. They meet by records in LDS; nobody waits for a whole tile.
 *
 * The instruction wants words w and w + 4 of rows g, g + 8, g + 16, g + 24 in lane 4 g + w. That is how the bytes lie in LDS, so each lane takes just
 * those words there and unpacks them; nothing turns. An offset of all weights costs nothing: bytes are moved to the top and their sign bit is turned, so
 * that they are signed and 128 / offset times too large. A dot becomes a float without a conversion: the sum begins at MAGIC, so that its bits are those
 * of 1.5 * 2^23 + dot.
 *
 * Shared tiles: those that are left when there is none for each workgroup are shared by 2^parts_log each; a part is some of the segments, whose sums go to
 * memory; who comes last adds them up, while the workgroup's other waves go on.
 *
 * Launch: 32 `waves` lanes, at most 480, x = workgroups; LDS beyond the static: tokens (ie_stream_group), a slot a wave (128
 * bytes a token), the rings. Bytes
 * moved: each weight once, x once a workgroup, 2 KB a token of a shared tile. */
#include "gpu.h"

#if IE_COPIES
#define MAGIC 12582912.0f /* 1.5 * 2^23: exact with any integer of at most 2^22 added */
#define PLACES 64u /* units in the rings of all waves, at most */
#define ADD 2u     /* slots that are read together; fewer than there are */

/* The wave's number, read from one lane: by that the compiler sees that all lanes of a wave go the same way. */
IE_INLINE uint32_t stream_wave(void) { return ie_readlane(ie_wave(), 0u); }

/* ---- a workgroup's work, in the order in which all its waves see it ---------------------------------------------------------------- */

/* Segments seg .. seg + n - 1 of a tile; tile = the launch's tiles: there is no more. */
typedef struct {
    uint32_t tile, seg, n;
    bool shared;
} part;
IE_INLINE part part_own(const ie_abi_stream *a, uint32_t tile) {
    uint32_t tiles = ie_ntiles(a->g.rows);
    return (part){tile < tiles - a->rest ? tile : tiles, 0u, ie_nseg(a->g.nblk), false};
}
IE_INLINE part part_first(const ie_abi_stream *a) {
    uint32_t lg = a->parts_log, wg = ie_wg_x(), rest = ie_rest_tile(wg, lg), k = ie_rest_part(wg, lg), nseg = ie_nseg(a->g.nblk);
    if (rest >= a->rest) return part_own(a, wg);
    uint32_t seg = ie_rest_seg(nseg, k, lg);
    return (part){ie_ntiles(a->g.rows) - a->rest + rest, seg, ie_rest_seg(nseg, k + 1u, lg) - seg, true};
}
IE_INLINE part part_next(const ie_abi_stream *a, const part *p) { return part_own(a, p->shared ? ie_wg_x() : ie_stream_next(p->tile, a->g.step)); }

/* ---- records in LDS ------------------------------------------------------------------------------------------------------------------ */

typedef struct {
    uint64_t full[PLACES];                                      /* a place's unit is there */
    uint64_t summed[IE_STREAM_WAVES], added[IE_STREAM_WAVES];   /* a wave's slot holds a segment's sums; they are added */
    uint64_t shared;                                            /* the sums of the part of a shared tile are in memory */
    uint32_t label[PLACES];                                     /* what a place holds */
} records;
#define LABEL_NONE ~0u  /* no more */
#define LABEL_LAST 512u /* the segment's last unit */
#define LABEL_SHARED 1024u /* it is of the shared tile */
#define LABEL_UNIT 511u /* which one of its tile */

/* A place of a ring, and which of its uses: 0, 1, 0, ... */
typedef struct {
    uint32_t at, use;
} ring_at;

/* After all lanes of the wave. */
IE_INLINE void arrive_one(IE_LDS uint64_t *record) {
    ie_wave_sync();
    if (ie_lane() == 0u) ie_arrive(record);
}

/* ---- what a wave asks for -------------------------------------------------------------------------------------------------------------- */

typedef struct {
    part p;
    uint32_t first, k;  /* numbers of p's first segment and of the one that is being asked for */
    uint32_t i, i1, to; /* its next unit, its end; the place that is next */
    words from, apart;  /* that unit; its half-words apart */
} asks;
/* Begins with segment k, if there is one. */
IE_INLINE void asks_segment(ie_gpu_format f, const ie_abi_stream *a, asks *s, uint32_t k) {
    const uint32_t nblk = a->g.nblk, tiles = ie_ntiles(a->g.rows);
    s->k = k, s->i = s->i1 = 0u;
    for (; s->p.tile != tiles && k - s->first >= s->p.n; s->p = part_next(a, &s->p)) s->first += s->p.n;
    if (s->p.tile == tiles) return;
    uint32_t seg = s->p.seg + (k - s->first);
    words tile = a->g.w + (uint64_t)s->p.tile * ie_gpu_tile_words(f, nblk);
    s->i = ie_seg_unit(seg, nblk), s->i1 = ie_seg_unit(seg + 1u, nblk);
    s->from = tile + ie_tile_words(s->i, ie_gpu_unit_words(f));
    if (f.apart) s->apart = tile + ie_gpu_units_words(f, nblk) + ie_gpu_apart(s->i, 0u) / 2u;
}
/* Asks for the next unit, if there is one; whole: all have 8 blocks. By one lane. */
IE_INLINE void asks_unit(ie_gpu_format f, bool whole, const ie_abi_stream *a, asks *s, IE_LDS uint32_t *ring, IE_LDS uint64_t *full, IE_LDS uint32_t *label) {
    const uint32_t at = s->to;
    s->to = ie_ring_next(at, a->g.ahead);
    if (s->i == s->i1) asks_segment(f, a, s, s->k + a->g.waves - 2u);
    if (s->i == s->i1) {
        label[at] = LABEL_NONE;
        return;
    }
    const uint32_t bytes = 4u * ie_gpu_part_words(f, whole ? IE_GPU_UNIT : ie_gpu_unit_blocks(s->i, a->g.nblk)), apart = f.apart ? 2u * IE_TILE_ROWS : 0u;
    IE_LDS uint32_t *to = ring + at * ie_gpu_place_words(f);
    ie_arrive_expect(full + at, bytes + apart);
    ie_copy(to, s->from, bytes, full + at);
    if (f.apart) ie_copy(to + ie_gpu_unit_words(f), s->apart, apart, full + at);
    label[at] = s->i | (s->i + 1u == s->i1 ? LABEL_LAST : 0u) | (s->p.shared ? LABEL_SHARED : 0u);
    s->i++, s->from += ie_gpu_unit_words(f);
    if (f.apart) s->apart += ie_gpu_apart(1u, 0u) / 2u;
}

/* ---- tokens ------------------------------------------------------------------------------------------------------------------------------ */

#define AT_ONCE 20u
#define PLANES(KIND) ((KIND) == K_DOT || (KIND) == K_DOT2 ? 1u : (KIND) == K_DOT_MIN ? 2u : 3u)
/* The workgroup's tokens from memory to LDS; those that are not there are zeros. Planes: d; and sa; or both halves' sums. A wave takes a block of 8 tokens at
 * a time, 16 bytes a lane, and has AT_ONCE of them under way. */
IE_INLINE void tokens_put(const ie_abi_gemv *a, kind k, IE_LDS uint32_t *x, const uint32_t NT) {
    const uint32_t groups = NT / 8u, all = a->nblk * groups, quad = ie_lane() % 4u;
    for (uint32_t first = stream_wave(); first < all; first += AT_ONCE * a->waves) {
        ie_u4 v[AT_ONCE];
#pragma unroll
        for (uint32_t j = 0; j < AT_ONCE; j++) {
            uint32_t n = first + j * a->waves, t = n % groups * 8u + ie_lane() / 4u;
            v[j] = (ie_u4){0u, 0u, 0u, 0u};
            if (n < all && t < a->n) v[j] = ie_load16(a->x + (uint64_t)ie_q8_at(t, n / groups, a->nblk, IE_DECODE_T) * IE_Q8_WORDS + 4u * quad);
        }
#pragma unroll
        for (uint32_t j = 0; j < AT_ONCE; j++) {
            uint32_t n = first + j * a->waves, b = n / groups, t = n % groups * 8u + ie_lane() / 4u;
            IE_LDS uint32_t *to = x + ie_stream_group(b, t, NT, PLANES(k));
            if (n >= all) break;
            if (quad < 2u)
#pragma unroll
                for (uint32_t e = 0; e < 4u; e++) to[ie_stream_value(b, t, e) + quad] = v[j][e]; /* word e + 4 is behind word e */
            else if (quad == 2u) {
                to[ie_stream_plane(b, t, 0u)] = v[j].x;
                if (k == K_DOT_MIN) to[ie_stream_plane(b, t, 1u)] = v[j].y;
                if (k == K_DOT2_MIN) to[ie_stream_plane(b, t, 1u)] = ie_bits_of((float)(int32_t)v[j].w);
            } else if (k == K_DOT2_MIN) to[ie_stream_plane(b, t, 2u)] = ie_bits_of((float)(int32_t)v[j].x);
        }
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
    uint32_t q = BULK4(q6_k), h = (HEAD1(q6_k, 16, 2u * b + w % 2u) ^ 0xAAAAAAAAu) >> (2u * (w / 2u));
    *lo = (q << 2 & 0x3C3C3C3Cu) | (h << 6 & 0xC0C0C0C0u), *hi = (q >> 2 & 0x3C3C3C3Cu) | (h << 2 & 0xC0C0C0C0u);
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
/* A block's scales of the lane's four rows. */
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
IE_INLINE scales halves(const unit_head *h, uint32_t b) {
    scales s = {0};
#pragma unroll
    for (uint32_t j = 0; j < 4u; j++) s.d[j] = b % 2u ? ie_f16_hi(h->d[j][b / 2u]) : ie_f16_lo(h->d[j][b / 2u]);
    return s;
}

/* ---- a block --------------------------------------------------------------------------------------------------------------------------------- */

/* The dot from the instruction's sum. */
IE_INLINE float dot_of(int32_t v, uint32_t bias) {
    float scale = bias ? (float)bias / 128.0f : 1.0f;
    return ie_fma(ie_f32_of((uint32_t)v), scale, -MAGIC * scale);
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
        float da = ie_f32_of(x->d[e]), dot = dot_of(lo[i], bias);
        if (two) dot = ie_fma(s->s1[j], dot_of(hi[i], bias), s->s0[j] * dot);
        acc[i] = ie_fma(s->d[j] * da, dot, acc[i]);
        if (k == K_DOT_MIN) acc[i] = ie_fma(s->m[j], ie_f32_of(x->p[e]), acc[i]);
        if (k == K_DOT2_MIN) acc[i] = ie_fma(s->m[j] * da, -ie_fma(s->m1[j], ie_f32_of(x->p2[e]), s->m0[j] * ie_f32_of(x->p[e])), acc[i]);
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
        if (!HALVES(KIND, ROW)) block_##F(&head.u, b, &o), sc = spread(KIND, &o); \
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

/* Where the sums of the workgroup's part of a shared tile go, if it has one. */
IE_INLINE IE_GLOBAL uint32_t *rest_sums(const ie_abi_stream *a, const uint32_t NT) {
    part p = part_first(a);
    return a->sums + (p.shared ? ((uint64_t)(p.tile - (ie_ntiles(a->g.rows) - a->rest)) * IE_MAX_SEGS + p.seg) * SUMS_WORDS(NT) : 0u);
}
/* The sums of a part of a shared tile are in memory; if these were the last, all of the tile's are added up: true. */
IE_INLINE bool rest_join(const ie_abi_stream *a, const part *p, float sum[], const uint32_t NT) {
    const uint32_t nseg = ie_nseg(a->g.nblk), i = p->tile - (ie_ntiles(a->g.rows) - a->rest);
    IE_GLOBAL uint32_t *count = a->count + i;
    IE_GLOBAL const uint32_t *from = a->sums + (uint64_t)i * IE_MAX_SEGS * SUMS_WORDS(NT);
    uint32_t done = 0u;
    ie_release();
    ie_wave_sync();
    if (ie_lane() == 0u) done = ie_atomic_add(count, p->n) + p->n;
    if (ie_readlane(done, 0u) != nseg) return false;
    ie_acquire();
    if (ie_lane() == 0u) *count = 0u;
#pragma unroll
    for (uint32_t t = 0; t < NT; t++) sum[t] = -0.0f;
    for (uint32_t k = 0u; k < nseg; k += 4u) { /* four segments' loads are under way at once */
        ie_u4 v[4][4]; /* of 16 tokens at most */
#pragma unroll
        for (uint32_t j = 0; j < 4u; j++)
#pragma unroll
            for (uint32_t t = 0; t < NT; t += 4u) v[j][t / 4u] = ie_load16(from + (k + j < nseg ? k + j : k) * SUMS_WORDS(NT) + SUMS_AT(t));
#pragma unroll
        for (uint32_t j = 0; j < 4u; j++)
#pragma unroll
            for (uint32_t t = 0; t < NT; t++) {
                float one = ie_f32_of(v[j][t / 4u][t % 4u]);
                sum[t] = k + j < nseg ? sum[t] + one : sum[t];
            }
    }
    return true;
}

/* The slots of N waves, one after the other: read together, added in their order. */
IE_INLINE void slots_take(const IE_LDS uint32_t *slots, IE_LDS records *m, ring_at *w, uint32_t from, uint32_t work, const uint32_t N, const uint32_t NT, float sum[]) {
    ie_u4 v[ADD][IE_DECODE_T / 4u];
    ring_at each[ADD];
#pragma unroll
    for (uint32_t j = 0; j < N; j++) {
        each[j] = *w, w->at = ie_ring_next(w->at, work), w->use ^= w->at == from;
        ie_arrive_wait(m->summed + each[j].at, each[j].use);
    }
#pragma unroll
    for (uint32_t j = 0; j < N; j++)
#pragma unroll
        for (uint32_t i = 0; i < NT; i += 4u) v[j][i / 4u] = ie_lds16(slots + each[j].at * SUMS_WORDS(NT) + SUMS_AT(i));
#pragma unroll
    for (uint32_t j = 0; j < N; j++)
#pragma unroll
        for (uint32_t i = 0; i < NT; i++) sum[i] = sum[i] + ie_f32_of(v[j][i / 4u][i % 4u]);
    ie_wave_sync();
    if (ie_lane() < N) ie_arrive(m->added + (ie_lane() ? each[N - 1u].at : each[0].at));
}

/* A tile's sums end with bias and residual, and go to y. */
IE_INLINE void tile_end(const ie_abi_gemv *a, uint32_t tile, const uint32_t NT, float sum[]) {
    const uint32_t row = tile * IE_TILE_ROWS + ie_mma_row(0u), left = row < a->rows ? a->rows - row : 0u;
    const uint64_t at = (uint64_t)ie_mma_token(0u) * a->y_ld + row;
    IE_GLOBAL float *y = a->y + at;
    if (a->bias)
#pragma unroll
        for (uint32_t j = 0; j < 4u; j++) {
            float bias = ie_mma_row(2u * j) - ie_mma_row(0u) < left ? a->bias[row + 8u * j] : 0.0f;
#pragma unroll
            for (uint32_t i = 0; i < NT; i++)
                if (i % 8u / 2u == j) sum[i] = sum[i] + bias;
        }
    if (a->res) {
        IE_GLOBAL const float *res = a->res + at;
        float v[IE_DECODE_T];
#pragma unroll
        for (uint32_t i = 0; i < NT; i++) {
            uint32_t t = i / 8u * 8u + i % 2u, r = 8u * (i % 8u / 2u); /* from the lane's first */
            v[i] = r < left && t + ie_mma_token(0u) < a->n ? res[(uint64_t)t * a->y_ld + r] : 0.0f;
        }
#pragma unroll
        for (uint32_t i = 0; i < NT; i++) sum[i] = v[i] + sum[i];
    }
#pragma unroll
    for (uint32_t i = 0; i < NT; i++) {
        uint32_t t = i / 8u * 8u + i % 2u, r = 8u * (i % 8u / 2u);
        if (r < left && t + ie_mma_token(0u) < a->n) y[(uint64_t)t * a->y_ld + r] = sum[i];
    }
}

/* The workgroup's own tiles. */
IE_INLINE void own_add(const ie_abi_stream *a, const IE_LDS uint32_t *slots, IE_LDS records *m, const uint32_t NT) {
    const uint32_t tiles = ie_ntiles(a->g.rows), work = a->g.waves - 2u;
    part p = part_first(a);
    ring_at w = {0u, 0u}; /* whose slot is next */
    if (p.shared) {
        for (w.at = p.n; w.at >= work;) w.at -= work; /* their slots have not been used */
        p = part_next(a, &p);
    }
    const uint32_t from = w.at;
    for (; p.tile != tiles; p = part_next(a, &p)) {
        uint32_t s = 0u;
        float sum[IE_DECODE_T];
#pragma unroll
        for (uint32_t i = 0; i < NT; i++) sum[i] = -0.0f; /* -0 plus a number is that number */
        for (; s + ADD <= p.n; s += ADD) slots_take(slots, m, &w, from, work, ADD, NT, sum);
        for (; s < p.n; s++) slots_take(slots, m, &w, from, work, 1u, NT, sum);
        tile_end(&a->g, p.tile, NT, sum);
    }
}
/* Its part of a shared tile: by another wave, since it takes long until other workgroups can see what is in memory. */
IE_INLINE void shared_add(const ie_abi_stream *a, IE_LDS records *m, const uint32_t NT) {
    float sum[IE_DECODE_T];
    part p = part_first(a);
    if (!p.shared) return;
    ie_arrive_wait(&m->shared, 0u);
    if (rest_join(a, &p, sum, NT)) tile_end(&a->g, p.tile, NT, sum);
}

/* ---- the kernels ------------------------------------------------------------------------------------------------------------------------------- */

/* WHOLE: rows have no unit of fewer than 8 blocks. */
#define GEMV_STREAM_TOKENS(F, NT, KIND, BIAS, WHOLE, ROW) \
    IE_INLINE void segments_##F##_##NT(const ie_abi_stream *a, asks *s, const IE_LDS uint32_t *x, IE_LDS uint32_t *slot, IE_LDS uint32_t *ring, IE_LDS records *m) { \
        const uint32_t nblk = a->g.nblk, r = ie_lane(), wave = stream_wave(), mine = wave * a->g.ahead; \
        uint32_t place = 0u, use = 0u, n = 0u; /* own segments that have ended */ \
        IE_GLOBAL uint32_t *rest = rest_sums(a, NT) + wave * SUMS_WORDS(NT); \
        float acc[NT] = {0}; \
        for (;;) { \
            const IE_LDS uint32_t *at = ring + place * ie_gpu_place_words(ROW); \
            const uint32_t label = m->label[mine + place], i = label & LABEL_UNIT, nb = (WHOLE) ? IE_GPU_UNIT : ie_gpu_unit_blocks(i, nblk); \
            unit_head head; \
            if (label == LABEL_NONE) return; \
            ie_arrive_wait(m->full + mine + place, use); \
            unit_head_of(KIND, ROW, at, &head); \
            if (nb == IE_GPU_UNIT) { /* no branch between blocks: their work overlaps */ \
                _Pragma("unroll") for (uint32_t b2 = 0; b2 < IE_GPU_UNIT / 2u; b2++) { STREAM_PAIR(F, NT, KIND, BIAS, ROW, b2, IE_GPU_UNIT) } \
            } else { \
                _Pragma("unroll") for (uint32_t b2 = 0; b2 < IE_GPU_UNIT / 2u; b2++) { STREAM_PAIR(F, NT, KIND, BIAS, ROW, b2, nb) } \
            } \
            ie_wave_sync(); /* all lanes have read the place and its label */ \
            if (r == 0u) asks_unit(ROW, WHOLE, a, s, ring, m->full + mine, m->label + mine); \
            if (label & LABEL_LAST) { \
                if (label & LABEL_SHARED) { \
                    _Pragma("unroll") for (uint32_t t = 0; t < (NT); t += 4u) ie_store16(rest + SUMS_AT(t), SUMS4(acc + t)); \
                    arrive_one(&m->shared); \
                    rest += (a->g.waves - 2u) * SUMS_WORDS(NT); \
                } else { \
                    ie_arrive_wait(m->added + wave, n++ % 2u ^ 1u); \
                    _Pragma("unroll") for (uint32_t t = 0; t < (NT); t += 4u) ie_lds_put16(slot + SUMS_AT(t), SUMS4(acc + t)); \
                    arrive_one(m->summed + wave); \
                } \
                _Pragma("unroll") for (uint32_t t = 0; t < (NT); t++) acc[t] = 0.0f; \
            } \
            ie_wave_sync(); /* the new label is there */ \
            place = ie_ring_next(place, a->g.ahead), use ^= place == 0u; \
        } \
    } \
    IE_KERNEL(480) ie_gemv_##F##_s##NT(ie_abi_stream a) { \
        static IE_LDS_VAR records m; \
        const uint32_t wave = stream_wave(), work = a.g.waves - 2u, mine = wave * a.g.ahead; \
        IE_LDS uint32_t *x = ie_lds_more, *slots = x + ie_stream_group(a.g.nblk + 1u, 0u, NT, PLANES(KIND)); \
        IE_LDS uint32_t *ring = slots + work * SUMS_WORDS(NT) + mine * ie_gpu_place_words(ROW); \
        asks s = {.p = part_first(&a)}; \
        ie_dep_go(); \
        if (wave < work) { \
            if (ie_lane() < a.g.ahead) ie_arrive_new(m.full + mine + ie_lane(), 1u); \
            if (ie_lane() == 0u) ie_arrive_new(m.summed + wave, 1u), ie_arrive_new(m.added + wave, 1u); \
            ie_arrive_ready(); \
            ie_wave_sync(); \
            asks_segment(ROW, &a, &s, wave); \
            if (ie_lane() == 0u) \
                for (uint32_t i = 0u; i < a.g.ahead; i++) asks_unit(ROW, WHOLE, &a, &s, ring, m.full + mine, m.label + mine); \
        } \
        if (wave > work && ie_lane() == 0u) ie_arrive_new(&m.shared, part_first(&a).n); \
        ie_dep_wait(); \
        tokens_put(&a.g, KIND, x, NT); \
        ie_barrier(); \
        if (wave < work) segments_##F##_##NT(&a, &s, x, slots + wave * SUMS_WORDS(NT), ring, &m); \
        else if (wave == work) own_add(&a, slots, &m, NT); \
        else shared_add(&a, &m, NT); \
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
