/* Matrix times 5 to 16 rows at one reading of the weights, by the matrix instruction: the bits of ie_gemv_FORMAT.
 *
 *   ie_gemv_FORMAT_t8, _t16   y[t][r] = row r . x[t] (+ bias[r]) (+ res[t][r]) of up to 8, 16 tokens; x is Q8 in groups of 16
 *
 * Why equal bits: a block's sum of products is an exact integer, whoever adds it up; each row and token then takes its blocks by the same
 * fma in the same order (add_block in gemv.c, add_tokens here).
 *
 * Why from 5 tokens on: for a block of 32 rows the vector unit needs 8 dot4 a token, the matrix unit 4 instructions of 8 cycles for 8 tokens;
 * what both have to do is unpack (4 to 30) and scale (3 to 8 a token, here for all 8). With 4 tokens both need about 32 cycles.
 *
 * Operands, launch and LDS: as gemv.c, whose formats, loads and maps these are. A wave's tokens are read as fragments (32 bytes a token and
 * block, out of caches) some blocks ahead; loads return in order, so that is also how many blocks of weights are under way at least
 * (RING; 512 bytes or more each). Scales of tokens come through scalar registers. NVIDIA: 8 KB more LDS, for turning weights to fragments. */
#include "gpu.h"

#define RING(NT) ((NT) == 8u ? 4u : 2u) /* blocks of fragments: a register's worth of each for each */

/* A block of 32 rows times 8 tokens; at: the first token's Q8 block. */
IE_INLINE void add_tokens(kind k, int32_t bias, bool is_signed, const block *o, const ie_mma_w *w, const ie_mma_x *x,
                          IE_SCALAR const uint32_t *at, float acc[IE_MMA_TOKENS]) {
    const uint32_t each = IE_MMA_TOKENS / IE_MMA_ROWS;
    bool two = k == K_DOT2 || k == K_DOT2_MIN;
    ie_i8 lo = {0}, hi = {0};
    float d[IE_MMA_ROWS], m[IE_MMA_ROWS], s0[IE_MMA_ROWS], s1[IE_MMA_ROWS], m0[IE_MMA_ROWS], m1[IE_MMA_ROWS];
    if (two) lo = ie_mma_half(w, x, 0u, is_signed, lo), hi = ie_mma_half(w, x, 1u, is_signed, hi);
    else lo = ie_mma_block(w, x, is_signed, lo);
    ie_mma_spread(o->d, d);
    if (k == K_DOT_MIN || k == K_DOT2_MIN) ie_mma_spread(o->m, m);
    if (two) ie_mma_spread((float)o->s0, s0), ie_mma_spread((float)o->s1, s1);
    if (k == K_DOT2_MIN) ie_mma_spread((float)o->m0, m0), ie_mma_spread((float)o->m1, m1);
#pragma unroll
    for (uint32_t i = 0; i < IE_MMA_TOKENS; i++) {
        IE_SCALAR const uint32_t *q = at + ie_mma_token(i) * IE_Q8_WORDS;
        ie_u4 v = *(IE_SCALAR const ie_u4 *)(q + IE_Q8_D);
        float da = ie_f32_of(v.x), dot;
        uint32_t j = i / each;
        if (two) {
            /* scales times sums are integers of at most 2^23: exact as floats, and so is their sum */
            int32_t nlo = (int32_t)v.w, nhi = (int32_t)q[IE_Q8_NHI];
            dot = ie_fma(s1[j], (float)(hi[i] + bias * nhi), s0[j] * (float)(lo[i] + bias * nlo));
            acc[i] = ie_fma(d[j] * da, dot, acc[i]);
            if (k == K_DOT2_MIN) acc[i] = ie_fma(m[j] * da, -ie_fma(m1[j], (float)nhi, m0[j] * (float)nlo), acc[i]);
        } else {
            acc[i] = ie_fma(d[j] * da, (float)(lo[i] + bias * (int32_t)v.z), acc[i]);
            if (k == K_DOT_MIN) acc[i] = ie_fma(m[j], ie_f32_of(v.y), acc[i]);
        }
    }
}

/* Fragments of block b of this workgroup's tokens. */
#define FRAGMENTS(NT, TO, B) \
    _Pragma("unroll") for (uint32_t g = 0; g < (NT) / IE_MMA_TOKENS; g++) \
        (TO)[g] = ie_mma_load(&from, x + ((B) * IE_DECODE_T + g * IE_MMA_TOKENS) * IE_Q8_WORDS);
/* Block b of the unit in u; X: its fragments. */
#define USE_MMA(F, NT, KIND, BIAS, SIGNED, X) \
    block o; \
    block_##F(&u, b, &o); \
    if (SIGNED) WORDS8 o.w[e] ^= 0x80808080u; \
    ie_mma_w w = ie_mma_weights(o.w, turn); \
    _Pragma("unroll") for (uint32_t g = 0; g < (NT) / IE_MMA_TOKENS; g++) \
        add_tokens(KIND, (SIGNED) ? 0 : (BIAS), SIGNED, &o, &w, &(X)[g], (IE_SCALAR const uint32_t *)x + (b * IE_DECODE_T + g * IE_MMA_TOKENS) * IE_Q8_WORDS, \
                   acc + g * IE_MMA_TOKENS);
/* A segment ends with unit i: its sums to LDS. */
#define SEGMENT_END_MMA(NT) \
    if (i + 1u == end) { \
        _Pragma("unroll") for (uint32_t t = 0; t < (NT); t++) { \
            uint32_t to = t / IE_MMA_TOKENS * IE_MMA_TOKENS + ie_mma_token(t % IE_MMA_TOKENS); \
            sums[((p.slot * SLOT_SEGS(NT) + seg) * (NT) + to) * 32u + ie_mma_row(t % IE_MMA_TOKENS)] = acc[t], acc[t] = 0.0f; \
        } \
        seg++, end = ie_gpu_units(ie_seg_begin(seg + 1u, nblk)); \
    }

/* As GEMV_T of gemv.c: whole units, each block's registers refilled with the same block of the next unit as soon as it is used; the last
 * whole unit; one that is not whole. SIGNED: the format's bytes less 128 are its values (BIAS is 128). */
#define GEMV_MMA(F, T, NT, KIND, BIAS, SIGNED, ROW) \
    IE_KERNEL_UP_TO(256) ie_gemv_##F##T(ie_abi_gemv a) { \
        static IE_LDS_VAR float sums[SUMS(NT)]; \
        IE_MMA_LDS(turn, IE_WG_WAVES); \
        const place p = where(&a, ie_wg_x(), ie_wave()); \
        const ie_mma_from from = ie_mma_where(); \
        ie_dep(); \
        uint32_t r = ie_lane(), nblk = a.nblk, seg = p.seg; \
        if (p.tile < ie_ntiles(a.rows) && seg < p.seg1) { \
            words tile = a.w + (uint64_t)p.tile * ie_gpu_tile_words(ROW, nblk); \
            uint32_t i = ie_seg_begin(seg, nblk) / IE_GPU_UNIT, i1 = ie_gpu_units(ie_seg_begin(p.seg1, nblk)), end = ie_gpu_units(ie_seg_begin(seg + 1u, nblk)); \
            uint32_t whole = i1 < nblk / IE_GPU_UNIT ? i1 : nblk / IE_GPU_UNIT; \
            IE_GLOBAL const uint32_t *x = a.x + (uint64_t)ie_q8_at(ie_wg_y() * (NT), i * IE_GPU_UNIT, nblk, IE_DECODE_T) * IE_Q8_WORDS; \
            float acc[NT] = {0}; \
            unit u; \
            ie_mma_x ahead[RING(NT)][(NT) / IE_MMA_TOKENS]; \
            if (i < whole) { \
                fetch_head(ROW, tile, i, nblk, r, &u.h); \
                _Pragma("unroll") for (uint32_t b = 0; b < IE_GPU_UNIT; b++) { \
                    fetch_block(ROW, tile + ie_tile_words(i, ie_gpu_unit_words(ROW)), b, r, &u); \
                    if (b < RING(NT)) FRAGMENTS(NT, ahead[b], b) \
                } \
                for (; i + 1u < whole; i++) { \
                    words at = tile + ie_tile_words(i + 1u, ie_gpu_unit_words(ROW)); \
                    heads next; \
                    fetch_head(ROW, tile, i + 1u, nblk, r, &next); \
                    ie_keep_order(); \
                    _Pragma("unroll") for (uint32_t b = 0; b < IE_GPU_UNIT; b++) { \
                        USE_MMA(F, NT, KIND, BIAS, SIGNED, ahead[b % RING(NT)]) \
                        FRAGMENTS(NT, ahead[b % RING(NT)], b + RING(NT)) \
                        fetch_block(ROW, at, b, r, &u); \
                        ie_keep_order(); \
                    } \
                    SEGMENT_END_MMA(NT) \
                    u.h = next, x += IE_GPU_UNIT * IE_DECODE_T * IE_Q8_WORDS; \
                } \
                _Pragma("unroll") for (uint32_t b = 0; b < IE_GPU_UNIT; b++) { \
                    USE_MMA(F, NT, KIND, BIAS, SIGNED, ahead[b % RING(NT)]) \
                    if (b + RING(NT) < IE_GPU_UNIT) FRAGMENTS(NT, ahead[b % RING(NT)], b + RING(NT)) \
                    ie_keep_order(); \
                } \
                SEGMENT_END_MMA(NT) \
                i++, x += IE_GPU_UNIT * IE_DECODE_T * IE_Q8_WORDS; \
            } \
            if (i < i1) { \
                uint32_t nb = ie_gpu_unit_blocks(i, nblk); \
                fetch(ROW, tile, i, nblk, r, &u); \
                _Pragma("unroll") for (uint32_t b = 0; b < IE_GPU_UNIT; b++) { \
                    if (b >= nb) break; \
                    FRAGMENTS(NT, ahead[0], b) \
                    USE_MMA(F, NT, KIND, BIAS, SIGNED, ahead[0]) \
                } \
                SEGMENT_END_MMA(NT) \
            } \
        } \
        const place last = where(&a, ie_wg_x(), ie_anew(p.wave)); /* not kept in registers */ \
        tile_put(&a, sums, NT, &last, (ends){0.0f, 0.0f}); \
    }

#define GEMV_TOKENS(F, KIND, BIAS, SIGNED) \
    GEMV_MMA(F, _t8, 8u, KIND, BIAS, SIGNED, row_##F) \
    GEMV_MMA(F, _t16, 16u, KIND, BIAS, SIGNED, row_##F)
GEMV_TOKENS(q4_0, K_DOT, 8, false)
GEMV_TOKENS(q4_1, K_DOT_MIN, 0, false)
GEMV_TOKENS(q5_0, K_DOT, 16, false)
GEMV_TOKENS(q5_1, K_DOT_MIN, 0, false)
GEMV_TOKENS(q8_0, K_DOT, 128, true)
GEMV_TOKENS(q2_k, K_DOT2_MIN, 0, false)
GEMV_TOKENS(q3_k, K_DOT2, 4, false)
GEMV_TOKENS(q4_k, K_DOT_MIN, 0, false)
GEMV_TOKENS(q5_k, K_DOT_MIN, 0, false)
GEMV_TOKENS(q6_k, K_DOT2, 32, false)
GEMV_TOKENS(iq4_nl, K_DOT, 128, false)
GEMV_TOKENS(iq4_xs, K_DOT, 128, false)
