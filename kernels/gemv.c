/* Matrix times rows, and rows of the embedding: all formats, in the order of docs/NUMERICS.md (lane = row of a 32-row tile).
 *
 *   ie_gemv_FORMAT, _t4   y[t][r] = row r . x[t] (+ bias[r]) (+ res[t][r]) of 1, 4 tokens at a time (more: gemv_mma.c); x is Q8, or f32 for
 *                         float matrices
 *   ie_embed_FORMAT       y[t] = row token[t] * scale
 *
 * Operands: weights in the layout of ie_layout.h. Launch: gemv 32 lanes a wave, up to 256; `waves` (1 to 8) waves share out the segments of a tile, a workgroup
 * has one tile or, of up to 4 waves, two; x = workgroups, y = groups of tokens; embed 32 lanes, x = unit, y = token. Bytes moved: each weight once a group of tokens.
 * A wave has most of a unit
 * (8 blocks, 2 to 9 KB) under way while it works on the one before. LDS: the segments' sums,
 * 4 KB a token of a group; NVIDIA: 4 KB of activations. Registers: budgets.txt. */
#include "ie_launch.h"
#include "ie_layout.h"
#include "norm.h"

typedef enum { K_DOT, K_DOT_MIN, K_DOT2, K_DOT2_MIN } kind;

/* A block of one row: eight words of unsigned weight bytes, `bias` above their values, and its scales (quant.h: ie_dot_kind). */
typedef struct {
    uint32_t w[8];
    float d, m;
    int32_t s0, s1, m0, m1;
} block;

/* A unit of one row as it lies in memory: header fields (at h0 and h1), bulk, the half-word apart. */
typedef struct {
    uint32_t h0[8], h1[16], d;
} heads;
typedef struct {
    heads h;
    uint32_t q[64];
} unit;

typedef IE_GLOBAL const uint32_t *words;

/* ---- blocks: one function a format; b is a constant ------------------------------------------------------------------------ */

#define BLOCK(F) IE_INLINE void block_##F(const unit *u, uint32_t b, block *o)
#define WORDS8 _Pragma("unroll") for (uint32_t e = 0; e < 8; e++)
#define HALF_D o->d = b % 2u ? ie_f16_hi(u->h.h0[b / 2u]) : ie_f16_lo(u->h.h0[b / 2u])
#define DM(x) o->d = ie_f16_lo(x), o->m = ie_f16_hi(x)

IE_INLINE void iq4_words(const uint32_t q[4], uint32_t w[8]) {
#pragma unroll
    for (uint32_t e = 0; e < 4u; e++) ie_iq4_words(q[e], &w[e], &w[e + 4u]);
}

BLOCK(q4_0) {
    HALF_D;
    WORDS8 o->w[e] = ie_q4_bytes(u->q + 4u * b, e);
}
BLOCK(q4_1) {
    DM(u->h.h0[b]);
    WORDS8 o->w[e] = ie_q4_bytes(u->q + 4u * b, e);
}
BLOCK(q5_0) {
    HALF_D;
    WORDS8 o->w[e] = ie_q5_bytes(u->q + 4u * b, u->h.h1[b], e);
}
BLOCK(q5_1) {
    DM(u->h.h0[b]);
    WORDS8 o->w[e] = ie_q5_bytes(u->q + 4u * b, u->h.h1[b], e);
}
BLOCK(q8_0) {
    HALF_D;
    WORDS8 o->w[e] = u->q[8u * b + e] ^ 0x80808080u;
}
BLOCK(iq4_nl) {
    HALF_D;
    iq4_words(u->q + 4u * b, o->w);
}
BLOCK(q2_k) {
    o->d = ie_f16_lo(u->h.h1[0]), o->m = -ie_f16_hi(u->h.h1[0]);
    o->s0 = (int32_t)ie_q2k_scale(u->h.h0, 2u * b), o->s1 = (int32_t)ie_q2k_scale(u->h.h0, 2u * b + 1u);
    o->m0 = (int32_t)ie_q2k_min(u->h.h0, 2u * b), o->m1 = (int32_t)ie_q2k_min(u->h.h0, 2u * b + 1u);
    WORDS8 o->w[e] = ie_q2_bytes(u->q + 2u * b, e);
}
BLOCK(q3_k) {
    o->d = ie_f16_lo(u->h.d);
    o->s0 = ie_q3k_scale(u->h.h0, 2u * b), o->s1 = ie_q3k_scale(u->h.h0, 2u * b + 1u);
    WORDS8 o->w[e] = ie_q3_bytes(u->q + 2u * b, u->h.h1[b], e);
}
BLOCK(q4_k) {
    o->d = ie_f16_lo(u->h.h0[0]) * (float)ie_k4_scale(u->h.h0 + 1, b), o->m = -ie_f16_hi(u->h.h0[0]) * (float)ie_k4_min(u->h.h0 + 1, b);
    WORDS8 o->w[e] = ie_q4_bytes(u->q + 4u * b, e);
}
BLOCK(q5_k) {
    o->d = ie_f16_lo(u->h.h0[0]) * (float)ie_k4_scale(u->h.h0 + 1, b), o->m = -ie_f16_hi(u->h.h0[0]) * (float)ie_k4_min(u->h.h0 + 1, b);
    WORDS8 o->w[e] = ie_q5_bytes(u->q + 4u * b, u->h.h1[b], e);
}
BLOCK(q6_k) {
    o->d = ie_f16_lo(u->h.d);
    o->s0 = ie_q6k_scale(u->h.h0, 2u * b), o->s1 = ie_q6k_scale(u->h.h0, 2u * b + 1u);
    WORDS8 o->w[e] = ie_q6_bytes(u->q + 4u * b, u->h.h1 + 2u * b, e);
}
BLOCK(iq4_xs) {
    o->d = ie_f16_lo(u->h.h0[0]) * (float)ie_iq4xs_scale(ie_half_of(u->h.h0[0], 1), u->h.h0[1], b);
    iq4_words(u->q + 4u * b, o->w);
}

/* ---- loads: a tile's units ---------------------------------------------------------------------------------------------------- */

/* n words of row r of a lane-major field of at least n; both constants. */
IE_INLINE void field(words at, uint32_t n, uint32_t r, uint32_t *out) {
#pragma unroll
    for (uint32_t w = 0; w + 4u <= n; w += 4u) {
        ie_u4 v = ie_weights16(at + ie_field_lm(0, w + 4u, w, r));
        out[w] = v.x, out[w + 1u] = v.y, out[w + 2u] = v.z, out[w + 3u] = v.w;
    }
    uint32_t w = n / 4u * 4u;
    if (w < n) ie_weights_few(at + ie_field_lm(0, n, w, r), n - w, out + w);
}

/* The headers of unit i of a tile whose rows have nblk blocks. */
IE_INLINE void fetch_head(ie_gpu_format f, words tile, uint32_t i, uint32_t nblk, uint32_t r, heads *h) {
    words at = tile + ie_tile_words(i, ie_gpu_unit_words(f));
    field(at, f.n0, r, h->h0);
    field(at + ie_gpu_base(f, IE_GPU_HEAD1), f.n1, r, h->h1);
    if (f.apart) h->d = ((IE_GLOBAL const uint16_t *)(tile + ie_gpu_units_words(f, nblk)))[ie_gpu_apart(i, r)];
}
/* What block b of a whole unit at `at` is the last to need of the bulk: its words, or 16 bytes of two blocks; b is a constant. */
IE_INLINE void fetch_block(ie_gpu_format f, words at, uint32_t b, uint32_t r, unit *u) {
    if (f.per >= 4u) field(at + ie_gpu_block_at(f, b), f.per, r, u->q + f.per * b);
    else if (b % 2u) field(at + ie_gpu_block_at(f, b), 2u * f.per, r, u->q + f.per * (b - 1u));
}
/* A unit that may have fewer than 8 blocks. The words of those that it has not are not defined. */
IE_INLINE void fetch(ie_gpu_format f, words tile, uint32_t i, uint32_t nblk, uint32_t r, unit *u) {
    words at = tile + ie_tile_words(i, ie_gpu_unit_words(f));
    uint32_t nb = ie_gpu_unit_blocks(i, nblk);
    fetch_head(f, tile, i, nblk, r, &u->h);
#pragma unroll
    for (uint32_t b = 0; b < IE_GPU_UNIT; b++)
        if (b < nb) fetch_block(f, at, b, r, u);
}

/* Asks the L2 cache for whole units i .. i + n - 1 as far as there are. */
IE_INLINE void l2_ahead(ie_gpu_format f, words tile, uint32_t i, uint32_t n, uint32_t whole) {
    uint32_t unit = ie_gpu_unit_words(f), to = i + n < whole ? i + n : whole;
    if (i < to && ie_lane() == 0u) ie_ahead(tile + ie_tile_words(i, unit), (to - i) * unit * 4u);
}

/* ---- sums ---------------------------------------------------------------------------------------------------------------- */

/* Adds a block to a row's sum; x: the Q8 block of the activations. */
IE_INLINE float add_block(kind k, int32_t bias, const block *o, const uint32_t *x, float acc) {
    float da = ie_f32_of(x[IE_Q8_D]);
    int32_t dot;
    if (k == K_DOT || k == K_DOT_MIN) {
        dot = bias * (int32_t)x[IE_Q8_NSUM];
        WORDS8 dot = ie_dot4(o->w[e], x[e], dot);
    } else {
        int32_t lo = bias * (int32_t)x[IE_Q8_NLO], hi = bias * (int32_t)x[IE_Q8_NHI];
#pragma unroll
        for (uint32_t e = 0; e < 4; e++) lo = ie_dot4(o->w[e], x[e], lo), hi = ie_dot4(o->w[e + 4], x[e + 4], hi);
        dot = ie_mul24(o->s0, lo) + ie_mul24(o->s1, hi);
    }
    acc = ie_fma(o->d * da, (float)dot, acc);
    if (k == K_DOT_MIN) acc = ie_fma(o->m, ie_f32_of(x[IE_Q8_SA]), acc);
    if (k == K_DOT2_MIN) acc = ie_fma(o->m * da, (float)-(ie_mul24(o->m0, (int32_t)x[IE_Q8_NLO]) + ie_mul24(o->m1, (int32_t)x[IE_Q8_NHI])), acc);
    return acc;
}

/* What a row's sum ends with. */
typedef struct {
    float bias, res;
} ends;
IE_INLINE ends ends_of(const ie_abi_gemv *a, uint32_t row, uint32_t t) {
    ends e = {0.0f, 0.0f};
    if (row >= a->rows) return e;
    if (a->bias) e.bias = a->bias[row];
    if (a->res) e.res = a->res[(uint64_t)t * a->y_ld + row];
    return e;
}
IE_INLINE void put(const ie_abi_gemv *a, uint32_t row, uint32_t t, float sum, ends e) {
    if (row >= a->rows) return;
    if (a->bias) sum = sum + e.bias;
    if (a->res) sum = e.res + sum;
    a->y[(uint64_t)t * a->y_ld + row] = sum;
}

/* A workgroup has one tile or two (ie_wg_tiles): segments of a tile, and floats of all, for which LDS has room. With 16 tokens two tiles have eight segments each at
 * most, and one takes the place of both (src/gpu/launch_gemv.c). */
#define SLOT_SEGS(NT) ((NT) == 16u ? 8u : IE_MAX_SEGS)
#define SUMS(NT) (2u * SLOT_SEGS(NT) * (NT) * IE_TILE_ROWS)

/* The Q8 block of token t0 and block b; those of the tokens after t0 in its group of 16 follow, then those of block b + 1. A single token's
 * blocks follow each other. */
IE_INLINE IE_SCALAR const uint32_t *q8_block(const ie_abi_gemv *a, uint32_t nt, uint32_t t0, uint32_t b) {
    return (IE_SCALAR const uint32_t *)a->x + (uint64_t)ie_q8_at(t0, b, a->nblk, ie_q8_group(nt)) * IE_Q8_WORDS;
}

/* The Q8 blocks of a unit: in memory, or (one token, IE_UNIFORM_LDS) in the wave's part of LDS, the next unit's on their way there in
 * registers, 16 bytes a lane. */
#define UNIT_X (IE_GPU_UNIT * IE_Q8_WORDS)
#define IN_LDS(NT) (IE_UNIFORM_LDS && (NT) == 1u)
typedef struct {
    IE_SCALAR const uint32_t *at;
    IE_LDS uint32_t *lds;
    ie_u4 next;
} unit_x;

/* Unit i will be next. */
IE_INLINE void x_fetch(const ie_abi_gemv *a, unit_x *x, uint32_t nt, uint32_t i, uint32_t nblk) {
    if (IN_LDS(nt) && ie_lane() / 4u < ie_gpu_unit_blocks(i, nblk))
        x->next = ie_load16(a->x + (uint64_t)ie_q8_at(ie_wg_y(), i * IE_GPU_UNIT + ie_lane() / 4u, nblk, 1u) * IE_Q8_WORDS + ie_lane() % 4u * 4u);
}
/* Unit i, which was fetched, is the present one. */
IE_INLINE void x_take(const ie_abi_gemv *a, unit_x *x, uint32_t nt, uint32_t i) {
    if (!IN_LDS(nt)) {
        x->at = q8_block(a, nt, ie_wg_y() * nt, i * IE_GPU_UNIT);
        return;
    }
    ie_wave_sync(); /* the unit before has been used */
    ie_lds_put16(x->lds + 4u * ie_lane(), x->next);
    ie_wave_sync();
}
/* Words of the present unit from `from` on, a block's. */
IE_INLINE void x_block(const unit_x *x, uint32_t nt, uint32_t from, uint32_t *out) {
#if !IE_UNIFORM_LDS
    if (nt == 1u) {
        ie_uniform16(x->at + from, out);
        return;
    }
#endif
#pragma unroll
    for (uint32_t e = 0; e < 13u; e += 4u) {
        ie_u4 v = IN_LDS(nt) ? ie_lds16(x->lds + from + e) : *(IE_SCALAR const ie_u4 *)(x->at + from + e);
        out[e] = v.x, out[e + 1u] = v.y, out[e + 2u] = v.z, out[e + 3u] = v.w;
    }
}

/* Where a wave of workgroup wg of a matrix stands: its number and tile, that tile's place in the workgroup, its part of the tile's waves, its segments. */
typedef struct {
    uint32_t wave, tile, slot, part, nseg, seg, seg1;
} place;
IE_INLINE place where(const ie_abi_gemv *a, uint32_t wg, uint32_t wave) {
    place p = {.wave = wave, .slot = ie_wave_slot(wave, a->waves), .part = ie_wave_part(wave, a->waves), .nseg = ie_nseg(a->nblk)};
    ie_args_early(a->w);
    p.tile = wg * ie_wg_tiles(a->waves) + p.slot;
    p.seg = ie_wave_seg(p.nseg, p.part, a->waves), p.seg1 = ie_wave_seg(p.nseg, p.part + 1u, a->waves);
    return p;
}

/* A row's sum from its segments', `step` floats apart. */
IE_INLINE float seg_sum(const IE_LDS float *s, uint32_t step, uint32_t nseg) {
    float v[IE_MAX_SEGS], sum;
#pragma unroll
    for (uint32_t k = 0; k < IE_MAX_SEGS; k++) v[k] = k < nseg ? s[k * step] : 0.0f;
    sum = v[0];
#pragma unroll
    for (uint32_t k = 1; k < IE_MAX_SEGS; k++) sum = k < nseg ? sum + v[k] : sum;
    return sum;
}

/* The segments' sums of a workgroup's tiles, NT tokens: [tile][segment][token][row]. Each wave has left its own; the tile's waves add
 * them up, a token each in turn. first: what a single token's sum ends with, if IN_LDS. */
IE_INLINE void tile_put(const ie_abi_gemv *a, const IE_LDS float *sums, uint32_t nt, const place *p, ends first) {
    ie_barrier();
    uint32_t r = ie_lane();
    if (p->tile < ie_ntiles(a->rows))
        for (uint32_t i = p->part; i < nt; i += a->waves) {
            uint32_t t = ie_wg_y() * nt + i;
            if (t >= a->n) break;
            if (t < a->t0) continue;
            float sum = seg_sum(sums + (p->slot * SLOT_SEGS(nt) * nt + i) * 32u + r, nt * 32u, p->nseg);
            uint32_t row = p->tile * IE_TILE_ROWS + r;
            put(a, row, t, sum, IN_LDS(nt) ? first : ends_of(a, row, t));
        }
}

/* After tile_put of a single token: the norm of its row, if there is one. sums: the kernel's. */
#if IE_LAST_GROUP
IE_INLINE void row_end(const place *p, IE_LDS float *sums) {
    IE_SCALAR const ie_abi_gemv *again = (IE_SCALAR const ie_abi_gemv *)ie_kernarg_();
    if (again->norm.w) norm_last(&again->norm, again->y, again->rows, p->wave, sums);
}
#else
#define row_end(p, sums) ((void)(p), (void)(sums))
#endif

/* A segment ends with unit i: its sums to LDS. */
#define SEGMENT_END(NT) \
    if (i + 1u == end) { \
        _Pragma("unroll") for (uint32_t t = 0; t < (NT); t++) sums[((p.slot * SLOT_SEGS(NT) + seg) * (NT) + t) * 32u + r] = acc[t], acc[t] = 0.0f; \
        seg++, end = ie_gpu_units(ie_seg_begin(seg + 1u, nblk)); \
    }
/* Block b of a unit held in u; x: the unit's Q8 blocks. */
#define USE(F, NT, KIND, BIAS) \
    block o; \
    block_##F(&u, b, &o); \
    _Pragma("unroll") for (uint32_t t = 0; t < (NT); t++) { \
        uint32_t q[IE_Q8_WORDS]; \
        x_block(&x, NT, (b * ie_q8_group(NT) + t) * IE_Q8_WORDS, q); \
        acc[t] = add_block(KIND, BIAS, &o, q, acc[t]); \
    }

/* ROW: the format's row of ie_layout.h. The first unit is asked for before the launches before this one are through. Whole units: when a block
 * has been used, its registers take the same block of the next unit, so that most of a unit is under way at any time, and no load waits for a
 * later one: no guard may stand there; the L2 cache is asked for a.ahead units more. Then the last whole unit, and one that is not. */
#define GEMV_T(F, T, NT, KIND, BIAS, ROW) \
    IE_INLINE place gemv_##F##T(const ie_abi_gemv *a, uint32_t wg, IE_LDS float *sums, IE_LDS uint32_t *xs) { \
        const place p = where(a, wg, ie_wave()); \
        uint32_t r = ie_lane(), nblk = a->nblk, seg = p.seg; \
        ends first = {0.0f, 0.0f}; \
        ie_dep_go(); \
        if (p.tile < ie_ntiles(a->rows) && seg < p.seg1) { \
            words tile = a->w + (uint64_t)p.tile * ie_gpu_tile_words(ROW, nblk); \
            uint32_t i = ie_seg_begin(seg, nblk) / IE_GPU_UNIT, i1 = ie_gpu_units(ie_seg_begin(p.seg1, nblk)), end = ie_gpu_units(ie_seg_begin(seg + 1u, nblk)); \
            uint32_t whole = i1 < nblk / IE_GPU_UNIT ? i1 : nblk / IE_GPU_UNIT; \
            float acc[NT] = {0}; \
            unit u; \
            unit_x x = {.lds = xs + (IN_LDS(NT) ? ie_wave() * UNIT_X : 0u)}; \
            if (i < whole) { \
                fetch_head(ROW, tile, i, nblk, r, &u.h); \
                _Pragma("unroll") for (uint32_t b = 0; b < IE_GPU_UNIT; b++) \
                    fetch_block(ROW, tile + ie_tile_words(i, ie_gpu_unit_words(ROW)), b, r, &u); \
                l2_ahead(ROW, tile, i + 1u, a->ahead, whole); \
            } \
            ie_dep_wait(); \
            x_fetch(a, &x, NT, i, nblk); \
            if (IN_LDS(NT) && p.part == 0u) first = ends_of(a, p.tile * IE_TILE_ROWS + r, ie_wg_y()); \
            if (i < whole) { \
                for (; i + 1u < whole; i++) { \
                    words at = tile + ie_tile_words(i + 1u, ie_gpu_unit_words(ROW)); \
                    heads next; \
                    x_take(a, &x, NT, i); \
                    fetch_head(ROW, tile, i + 1u, nblk, r, &next); \
                    x_fetch(a, &x, NT, i + 1u, nblk); \
                    l2_ahead(ROW, tile, i + 1u + a->ahead, a->ahead != 0u, whole); \
                    ie_keep_order(); \
                    _Pragma("unroll") for (uint32_t b = 0; b < IE_GPU_UNIT; b++) { \
                        USE(F, NT, KIND, BIAS) \
                        fetch_block(ROW, at, b, r, &u); \
                        ie_keep_order(); \
                    } \
                    SEGMENT_END(NT) \
                    u.h = next; \
                } \
                x_take(a, &x, NT, i); \
                if (i + 1u < i1) x_fetch(a, &x, NT, i + 1u, nblk); \
                _Pragma("unroll") for (uint32_t b = 0; b < IE_GPU_UNIT; b++) { \
                    USE(F, NT, KIND, BIAS) \
                    ie_keep_order(); \
                } \
                SEGMENT_END(NT) \
                i++; \
            } \
            if (i < i1) { \
                uint32_t nb = ie_gpu_unit_blocks(i, nblk); \
                fetch(ROW, tile, i, nblk, r, &u); \
                x_take(a, &x, NT, i); \
                _Pragma("unroll") for (uint32_t b = 0; b < IE_GPU_UNIT; b++) { \
                    if (b >= nb) break; \
                    USE(F, NT, KIND, BIAS) \
                } \
                SEGMENT_END(NT) \
            } \
        } else { /* fewer segments than waves */ \
            ie_dep_wait(); \
            if (IN_LDS(NT) && p.part == 0u) first = ends_of(a, p.tile * IE_TILE_ROWS + r, ie_wg_y()); \
        } \
        tile_put(a, sums, NT, &p, first); \
        return p; \
    } \
    IE_KERNEL_UP_TO(256) ie_gemv_##F##T(ie_abi_gemv a) { \
        static IE_LDS_VAR float sums[SUMS(NT)]; \
        static IE_LDS_VAR uint32_t xs[IN_LDS(NT) ? IE_WG_WAVES * UNIT_X : 1u]; \
        const place p = gemv_##F##T(&a, ie_wg_x(), sums, xs); \
        if ((NT) == 1u) row_end(&p, sums); \
    }

#define EMBED(F, KIND, BIAS, ROW) \
    IE_KERNEL(32) ie_embed_##F(ie_abi_embed a) { \
        ie_dep(); \
        uint32_t t = ie_wg_y(), i = ie_lane(), row = (uint32_t)a.batch->token[t], nblk = ie_nblk(a.n), nb = ie_gpu_unit_blocks(ie_wg_x(), nblk); \
        words at = a.w + (uint64_t)(row / IE_TILE_ROWS) * ie_gpu_tile_words(ROW, nblk); \
        unit u; \
        fetch(ROW, at, ie_wg_x(), nblk, row % IE_TILE_ROWS, &u); \
        _Pragma("unroll") for (uint32_t b = 0; b < IE_GPU_UNIT; b++) { \
            if (b >= nb) break; \
            block o; \
            block_##F(&u, b, &o); \
            uint32_t to = (ie_wg_x() * IE_GPU_UNIT + b) * IE_BLOCK + i, w = 0; \
            WORDS8 w = e == i / 4u ? o.w[e] : w; \
            float v = (float)((int32_t)ie_byte_u(w, i % 4u) - (BIAS)), y; \
            if (KIND == K_DOT) y = o.d * v; \
            else if (KIND == K_DOT_MIN) y = o.d * v + o.m; \
            else y = o.d * (float)(i < 16u ? o.s0 : o.s1) * v; \
            if (KIND == K_DOT2_MIN) y = y + o.m * (float)(i < 16u ? o.m0 : o.m1); \
            if (to < a.n) a.y[(uint64_t)t * a.y_ld + to] = a.scale != 1.0f ? y * a.scale : y; \
        } \
    }

#define ROW_OF(NAME, FORMAT, N0, N1, PER, APART) static const ie_gpu_format row_##NAME = {N0, N1, PER, APART};
IE_GPU_FORMATS(ROW_OF)

#define GEMV(F, KIND, BIAS) \
    GEMV_T(F, , 1u, KIND, BIAS, row_##F) \
    GEMV_T(F, _t4, 4u, KIND, BIAS, row_##F) \
    EMBED(F, KIND, BIAS, row_##F)
GEMV(q4_0, K_DOT, 8)
GEMV(q4_1, K_DOT_MIN, 0)
GEMV(q5_0, K_DOT, 16)
GEMV(q5_1, K_DOT_MIN, 0)
GEMV(q8_0, K_DOT, 128)
GEMV(q2_k, K_DOT2_MIN, 0)
GEMV(q3_k, K_DOT2, 4)
GEMV(q4_k, K_DOT_MIN, 0)
GEMV(q5_k, K_DOT_MIN, 0)
GEMV(q6_k, K_DOT2, 32)
GEMV(iq4_nl, K_DOT, 128)
GEMV(iq4_xs, K_DOT, 128)

/* ---- float matrices -------------------------------------------------------------------------------------------------------- */

/* Element k of a row's bulk words of a block. */
IE_INLINE float el_f32(const uint32_t *q, uint32_t k) { return ie_f32_of(q[k]); }
IE_INLINE float el_f16(const uint32_t *q, uint32_t k) { return k % 2u ? ie_f16_hi(q[k / 2u]) : ie_f16_lo(q[k / 2u]); }
IE_INLINE float el_bf16(const uint32_t *q, uint32_t k) { return ie_f32_of(ie_bf16_f32_bits(ie_half_of(q[k / 2u], k % 2u))); }

/* Block by block, the next one's 64 or 128 bytes a lane under way. A row's last block may be shorter than 32. */
#define FLOAT(F) \
    IE_INLINE place gemv_##F(const ie_abi_gemv *a, uint32_t wg, IE_LDS float *sums) { \
        const place p = where(a, wg, ie_wave()); \
        uint32_t r = ie_lane(), nblk = a->nblk, seg = p.seg; \
        const uint32_t per = row_##F.per; \
        ie_dep(); \
        ends first = {0.0f, 0.0f}; \
        if (IN_LDS(1u) && p.part == 0u) first = ends_of(a, p.tile * IE_TILE_ROWS + r, ie_wg_y()); \
        if (p.tile < ie_ntiles(a->rows)) { \
            words at = a->w + (uint64_t)p.tile * ie_gpu_tile_words(row_##F, nblk); \
            IE_SCALAR const float *x = (IE_SCALAR const float *)a->x + (uint64_t)ie_wg_y() * a->x_ld; \
            for (; seg < p.seg1; seg++) { \
                float acc = 0.0f; \
                uint32_t b = ie_seg_begin(seg, nblk), b1 = ie_seg_begin(seg + 1u, nblk), whole = a->cols / IE_BLOCK, q[32]; \
                if (b1 < whole) whole = b1; \
                field(at + ie_tile_words(b, IE_TILE_ROWS * per), per, r, q); \
                for (; b + 1u < whole; b++) { \
                    words next = at + ie_tile_words(b + 1u, IE_TILE_ROWS * per); \
                    _Pragma("unroll") for (uint32_t w = 0; w < per; w += 4u) { \
                        _Pragma("unroll") for (uint32_t k = 0; k < 4u * IE_BLOCK / per; k++) \
                            acc = ie_fma(el_##F(q, w * IE_BLOCK / per + k), x[b * IE_BLOCK + w * IE_BLOCK / per + k], acc); \
                        field(next + IE_TILE_ROWS * w, 4u, r, q + w); \
                        ie_keep_order(); \
                    } \
                } \
                if (b < whole) { \
                    _Pragma("unroll") for (uint32_t k = 0; k < IE_BLOCK; k++) acc = ie_fma(el_##F(q, k), x[b * IE_BLOCK + k], acc); \
                    if (++b < b1) field(at + ie_tile_words(b, IE_TILE_ROWS * per), per, r, q); \
                } \
                if (b < b1) { \
                    _Pragma("unroll") for (uint32_t k = 0; k < IE_BLOCK; k++) \
                        if (b * IE_BLOCK + k < a->cols) acc = ie_fma(el_##F(q, k), x[b * IE_BLOCK + k], acc); \
                } \
                sums[(p.slot * SLOT_SEGS(1u) + seg) * 32u + r] = acc; \
            } \
        } \
        tile_put(a, sums, 1u, &p, first); \
        return p; \
    } \
    IE_KERNEL_UP_TO(256) ie_gemv_##F(ie_abi_gemv a) { \
        static IE_LDS_VAR float sums[SUMS(1u)]; \
        const place p = gemv_##F(&a, ie_wg_x(), sums); \
        row_end(&p, sums); \
    } \
    IE_KERNEL(32) ie_embed_##F(ie_abi_embed a) { \
        ie_dep(); \
        uint32_t t = ie_wg_y(), row = (uint32_t)a.batch->token[t], nblk = ie_nblk(a.n), nb = ie_gpu_unit_blocks(ie_wg_x(), nblk); \
        words at = a.w + (uint64_t)(row / IE_TILE_ROWS) * ie_gpu_tile_words(row_##F, nblk) + ie_tile_words(ie_wg_x(), ie_gpu_unit_words(row_##F)); \
        for (uint32_t b = 0; b < nb; b++) { \
            uint32_t k = ie_lane(), per = row_##F.per, to = (ie_wg_x() * IE_GPU_UNIT + b) * IE_BLOCK + k, q[32]; \
            q[0] = at[ie_field_lm(0, per * nb, b * per + k * per / IE_BLOCK, row % IE_TILE_ROWS)]; \
            float y = per == IE_BLOCK ? ie_f32_of(q[0]) : k % 2u ? el_##F(q, 1) : el_##F(q, 0); \
            if (to < a.n) a.y[(uint64_t)t * a.y_ld + to] = a.scale != 1.0f ? y * a.scale : y; \
        } \
    }
FLOAT(f32)
FLOAT(f16)
FLOAT(bf16)
