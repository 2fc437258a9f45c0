/* Matrix times rows, and rows of the embedding: all formats, in the order of docs/NUMERICS.md (lane = row of a 32-row tile).
 *
 *   ie_gemv_FORMAT    y[t][r] = row r . x[t] (+ bias[r]) (+ res[t][r]); x is Q8, or f32 for float matrices
 *   ie_embed_FORMAT   y[t] = row token[t] * scale
 *
 * Operands: units in the word-major layout of quant.h, as the CPU has them. Launch: gemv 256 lanes, a wave a tile, x = eight
 * tiles, y = token; embed 32 lanes, x = super-block, y = token. Bytes moved: each weight once a token. No LDS. */
#include "gpu.h"

typedef enum { K_DOT, K_DOT_MIN, K_DOT2, K_DOT2_MIN } kind;

/* A block of one row: eight words of unsigned weight bytes, `bias` above their values, and its scales (quant.h: ie_dot_kind). */
typedef struct {
    uint32_t w[8];
    float d, m;
    int32_t s0, s1, m0, m1;
} block;

typedef IE_GLOBAL const uint32_t *words;

IE_INLINE float half(words unit, uint32_t base, uint32_t r) { return ie_f16_of(((IE_GLOBAL const uint16_t *)unit)[ie_field_half(base, 0, r)]); }
IE_INLINE uint32_t word(words unit, uint32_t base, uint32_t w, uint32_t r) { return unit[ie_field_wm(base, w, r)]; }
IE_INLINE void get(words unit, uint32_t base, uint32_t r, uint32_t *out, uint32_t n) {
#pragma unroll
    for (uint32_t i = 0; i < n; i++) out[i] = word(unit, base, i, r);
}

/* ---- blocks: one function a format ------------------------------------------------------------------------------------- */

#define BLOCK(F) IE_INLINE void block_##F(words u, uint32_t r, uint32_t b, block *o)
#define WORDS8 _Pragma("unroll") for (uint32_t e = 0; e < 8; e++)

BLOCK(q4_0) {
    uint32_t q[4];
    (void)b, o->d = half(u, IE_Q4_0_D, r);
    get(u, IE_Q4_0_Q, r, q, 4);
    WORDS8 o->w[e] = ie_q4_bytes(q, e);
}
BLOCK(q4_1) {
    uint32_t q[4], dm = word(u, IE_Q4_1_DM, 0, r);
    (void)b, o->d = ie_f16_lo(dm), o->m = ie_f16_hi(dm);
    get(u, IE_Q4_1_Q, r, q, 4);
    WORDS8 o->w[e] = ie_q4_bytes(q, e);
}
BLOCK(q5_0) {
    uint32_t q[4], qh = word(u, IE_Q5_0_QH, 0, r);
    (void)b, o->d = half(u, IE_Q5_0_D, r);
    get(u, IE_Q5_0_Q, r, q, 4);
    WORDS8 o->w[e] = ie_q5_bytes(q, qh, e);
}
BLOCK(q5_1) {
    uint32_t q[4], qh = word(u, IE_Q5_1_QH, 0, r), dm = word(u, IE_Q5_1_DM, 0, r);
    (void)b, o->d = ie_f16_lo(dm), o->m = ie_f16_hi(dm);
    get(u, IE_Q5_1_Q, r, q, 4);
    WORDS8 o->w[e] = ie_q5_bytes(q, qh, e);
}
BLOCK(q8_0) {
    (void)b, o->d = half(u, IE_Q8_0_D, r);
    WORDS8 o->w[e] = word(u, IE_Q8_0_Q, e, r) ^ 0x80808080u;
}
BLOCK(iq4_nl) {
    uint32_t q[4];
    (void)b, o->d = half(u, IE_Q4_0_D, r);
    get(u, IE_Q4_0_Q, r, q, 4);
    WORDS8 o->w[e] = ie_iq4_bytes_u(ie_q4_bytes(q, e));
}
BLOCK(q2_k) {
    uint32_t q[2], dm = word(u, IE_Q2_K_DM, 0, r), sc = ie_half_of(word(u, IE_Q2_K_SC, b / 2u, r), b % 2u);
    o->d = ie_f16_lo(dm), o->m = -ie_f16_hi(dm);
    o->s0 = (int32_t)ie_q2k_scale(&sc, 0u), o->m0 = (int32_t)ie_q2k_min(&sc, 0u);
    o->s1 = (int32_t)ie_q2k_scale(&sc, 1u), o->m1 = (int32_t)ie_q2k_min(&sc, 1u);
    get(u, IE_Q2_K_B + b * IE_Q2_K_B_WORDS, r, q, 2);
    WORDS8 o->w[e] = ie_q2_bytes(q, e);
}
BLOCK(q3_k) {
    uint32_t sc[3], q[2], base = IE_Q3_K_B + b * IE_Q3_K_B_WORDS, qh = word(u, base, 0, r);
    o->d = half(u, IE_Q3_K_D, r);
    get(u, IE_Q3_K_SC, r, sc, 3);
    o->s0 = ie_q3k_scale(sc, 2u * b), o->s1 = ie_q3k_scale(sc, 2u * b + 1u);
    get(u, base + 32u, r, q, 2);
    WORDS8 o->w[e] = ie_q3_bytes(q, qh, e);
}
BLOCK(q4_k) {
    uint32_t sc[3], q[4], dm = word(u, IE_Q4_K_DM, 0, r);
    get(u, IE_Q4_K_SC, r, sc, 3);
    o->d = ie_f16_lo(dm) * (float)ie_k4_scale(sc, b), o->m = -ie_f16_hi(dm) * (float)ie_k4_min(sc, b);
    get(u, IE_Q4_K_B + b * IE_Q4_K_B_WORDS, r, q, 4);
    WORDS8 o->w[e] = ie_q4_bytes(q, e);
}
BLOCK(q5_k) {
    uint32_t sc[3], q[4], dm = word(u, IE_Q5_K_DM, 0, r), base = IE_Q5_K_B + b * IE_Q5_K_B_WORDS, qh = word(u, base, 0, r);
    get(u, IE_Q5_K_SC, r, sc, 3);
    o->d = ie_f16_lo(dm) * (float)ie_k4_scale(sc, b), o->m = -ie_f16_hi(dm) * (float)ie_k4_min(sc, b);
    get(u, base + 32u, r, q, 4);
    WORDS8 o->w[e] = ie_q5_bytes(q, qh, e);
}
BLOCK(q6_k) {
    uint32_t q[4], q2[2], base = IE_Q6_K_B + b * IE_Q6_K_B_WORDS, sc = ie_half_of(word(u, IE_Q6_K_SC, b / 2u, r), b % 2u);
    o->d = half(u, IE_Q6_K_D, r);
    o->s0 = ie_byte_s(sc, 0), o->s1 = ie_byte_s(sc, 1);
    get(u, base, r, q, 4);
    get(u, base + 128u, r, q2, 2);
    WORDS8 o->w[e] = ie_q6_bytes(q, q2, e);
}
BLOCK(iq4_xs) {
    uint32_t q[4], dh = word(u, IE_IQ4_XS_DH, 0, r), sl = word(u, IE_IQ4_XS_SL, 0, r);
    o->d = ie_f16_lo(dh) * (float)ie_iq4xs_scale(ie_half_of(dh, 1u), sl, b);
    get(u, IE_IQ4_XS_B + b * IE_IQ4_XS_B_WORDS, r, q, 4);
    WORDS8 o->w[e] = ie_iq4_bytes_u(ie_q4_bytes(q, e));
}

/* ie_seg_begin without a division by a number that is not constant: there are IE_MAX_SEGS segments, or one for each 8 blocks. */
IE_INLINE uint32_t seg_begin(uint32_t s, uint32_t nblk) {
    uint32_t u = (nblk + 7u) / 8u, b = (u < IE_MAX_SEGS ? s : s * u / IE_MAX_SEGS) * 8u;
    return b < nblk ? b : nblk;
}

/* ---- sums ---------------------------------------------------------------------------------------------------------------- */

IE_INLINE int32_t dot4(uint32_t u, uint32_t s, int32_t acc) {
#if defined(__AMDGCN__)
    return __builtin_amdgcn_sudot4(false, (int)u, true, (int)s, acc, false);
#else
    int32_t r;
    __asm__("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(r) : "r"(u), "r"(s), "r"(acc));
    return r;
#endif
}

IE_INLINE float add_block(kind k, int32_t bias, const block *o, IE_SCALAR const uint32_t *x, float acc) {
    float da = ie_f32_of(x[IE_Q8_D]);
    int32_t dot;
    if (k == K_DOT || k == K_DOT_MIN) {
        dot = bias * (int32_t)x[IE_Q8_NSUM];
        WORDS8 dot = dot4(o->w[e], x[e], dot);
    } else {
        int32_t lo = bias * (int32_t)x[IE_Q8_NLO], hi = bias * (int32_t)x[IE_Q8_NHI];
#pragma unroll
        for (uint32_t e = 0; e < 4; e++) lo = dot4(o->w[e], x[e], lo), hi = dot4(o->w[e + 4], x[e + 4], hi);
        dot = o->s0 * lo + o->s1 * hi;
    }
    acc = ie_fma(o->d * da, (float)dot, acc);
    if (k == K_DOT_MIN) acc = ie_fma(o->m, ie_f32_of(x[IE_Q8_SA]), acc);
    if (k == K_DOT2_MIN) acc = ie_fma(o->m * da, (float)-(o->m0 * (int32_t)x[IE_Q8_NLO] + o->m1 * (int32_t)x[IE_Q8_NHI]), acc);
    return acc;
}

IE_INLINE void put(const ie_abi_gemv *a, uint32_t row, uint32_t t, float sum) {
    if (row >= a->rows) return;
    if (a->bias) sum = sum + a->bias[row];
    if (a->res) sum = a->res[(uint64_t)t * a->y_ld + row] + sum;
    a->y[(uint64_t)t * a->y_ld + row] = sum;
}

#define GEMV(F, KIND, BIAS, BLOCKS, WORDS) \
    IE_KERNEL(256) ie_gemv_##F(ie_abi_gemv a) { \
        uint32_t tile = ie_wg_x() * 8u + ie_wave(), t = ie_wg_y(), r = ie_lane(), nblk = a.nblk, nseg = ie_nseg(nblk); \
        if (tile >= ie_ntiles(a.rows)) return; \
        words u = a.w + (uint64_t)tile * (nblk / BLOCKS) * WORDS; \
        IE_SCALAR const uint32_t *x = (IE_SCALAR const uint32_t *)a.x; \
        float total = 0.0f; \
        for (uint32_t s = 0, b = 0; s < nseg; s++) { \
            float acc = 0.0f; \
            for (uint32_t end = seg_begin(s + 1u, nblk); b < end; b++) { \
                block o; \
                block_##F(u + (uint64_t)(b / BLOCKS) * WORDS, r, b % BLOCKS, &o); \
                acc = add_block(KIND, BIAS, &o, x + (uint64_t)ie_q8_at(t, b, nblk, a.group) * IE_Q8_WORDS, acc); \
            } \
            total = s ? total + acc : acc; \
        } \
        put(&a, tile * IE_TILE_ROWS + r, t, total); \
    } \
    IE_KERNEL(32) ie_embed_##F(ie_abi_embed a) { \
        uint32_t t = ie_wg_y(), i = ie_lane(), sb = ie_wg_x(), row = (uint32_t)a.batch->token[t], nsb = (ie_nblk(a.n) + BLOCKS - 1u) / BLOCKS; \
        words u = a.w + (uint64_t)ie_unit(row / IE_TILE_ROWS, sb, nsb) * WORDS; \
        for (uint32_t b = 0; b < BLOCKS; b++) { \
            block o; \
            block_##F(u, row % IE_TILE_ROWS, b, &o); \
            uint32_t at = (sb * BLOCKS + b) * IE_BLOCK + i, w = 0; \
            WORDS8 w = e == i / 4u ? o.w[e] : w; \
            float v = (float)((int32_t)ie_byte_u(w, i % 4u) - (BIAS)), y; \
            if (KIND == K_DOT) y = o.d * v; \
            else if (KIND == K_DOT_MIN) y = o.d * v + o.m; \
            else y = o.d * (float)(i < 16u ? o.s0 : o.s1) * v; \
            if (KIND == K_DOT2_MIN) y = y + o.m * (float)(i < 16u ? o.m0 : o.m1); \
            if (at < a.n) a.y[(uint64_t)t * a.y_ld + at] = a.scale != 1.0f ? y * a.scale : y; \
        } \
    }
GEMV(q4_0, K_DOT, 8, 1u, IE_Q4_0_WORDS)
GEMV(q4_1, K_DOT_MIN, 0, 1u, IE_Q4_1_WORDS)
GEMV(q5_0, K_DOT, 16, 1u, IE_Q5_0_WORDS)
GEMV(q5_1, K_DOT_MIN, 0, 1u, IE_Q5_1_WORDS)
GEMV(q8_0, K_DOT, 128, 1u, IE_Q8_0_WORDS)
GEMV(q2_k, K_DOT2_MIN, 0, 8u, IE_Q2_K_WORDS)
GEMV(q3_k, K_DOT2, 4, 8u, IE_Q3_K_WORDS)
GEMV(q4_k, K_DOT_MIN, 0, 8u, IE_Q4_K_WORDS)
GEMV(q5_k, K_DOT_MIN, 0, 8u, IE_Q5_K_WORDS)
GEMV(q6_k, K_DOT2, 32, 8u, IE_Q6_K_WORDS)
GEMV(iq4_nl, K_DOT, 128, 1u, IE_Q4_0_WORDS)
GEMV(iq4_xs, K_DOT, 128, 8u, IE_IQ4_XS_WORDS)

/* ---- float matrices -------------------------------------------------------------------------------------------------------- */

IE_INLINE float at_f32(words u, uint32_t k, uint32_t r) { return ie_f32_of(u[ie_field_wm(0, k, r)]); }
IE_INLINE float at_f16(words u, uint32_t k, uint32_t r) { return ie_f16_of(((IE_GLOBAL const uint16_t *)u)[ie_field_half(0, k, r)]); }
IE_INLINE float at_bf16(words u, uint32_t k, uint32_t r) { return ie_f32_of((uint32_t)((IE_GLOBAL const uint16_t *)u)[ie_field_half(0, k, r)] << 16); }

#define FLOAT(F, WORDS) \
    IE_KERNEL(256) ie_gemv_##F(ie_abi_gemv a) { \
        uint32_t tile = ie_wg_x() * 8u + ie_wave(), t = ie_wg_y(), r = ie_lane(), nblk = a.nblk, nseg = ie_nseg(nblk); \
        if (tile >= ie_ntiles(a.rows)) return; \
        words u = a.w + (uint64_t)tile * nblk * WORDS; \
        IE_SCALAR const float *x = (IE_SCALAR const float *)a.x + (uint64_t)t * a.x_ld; \
        float total = 0.0f; \
        for (uint32_t s = 0; s < nseg; s++) { \
            float acc = 0.0f; \
            uint32_t k1 = seg_begin(s + 1u, nblk) * IE_BLOCK; \
            if (k1 > a.cols) k1 = a.cols; \
            for (uint32_t k = seg_begin(s, nblk) * IE_BLOCK; k < k1; k++) \
                acc = ie_fma(at_##F(u + (uint64_t)(k / IE_BLOCK) * WORDS, k % IE_BLOCK, r), x[k], acc); \
            total = s ? total + acc : acc; \
        } \
        put(&a, tile * IE_TILE_ROWS + r, t, total); \
    } \
    IE_KERNEL(32) ie_embed_##F(ie_abi_embed a) { \
        uint32_t t = ie_wg_y(), at = ie_wg_x() * IE_BLOCK + ie_lane(), row = (uint32_t)a.batch->token[t]; \
        words u = a.w + (uint64_t)ie_unit(row / IE_TILE_ROWS, ie_wg_x(), ie_nblk(a.n)) * WORDS; \
        float y = at_##F(u, ie_lane(), row % IE_TILE_ROWS); \
        if (at < a.n) a.y[(uint64_t)t * a.y_ld + at] = a.scale != 1.0f ? y * a.scale : y; \
    }
FLOAT(f32, IE_F32_WORDS)
FLOAT(f16, IE_F16_WORDS)
FLOAT(bf16, IE_F16_WORDS)
