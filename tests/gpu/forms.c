/* Test kernels: what kernels/gpu.h and q8.h put in place of the core's functions, and the core's functions as the GPU's compiler
 * translates them, over arrays of inputs. tests/unit/test_gpu_forms.c compares with the host's core. */
#include "q8.h"

#include "forms_abi.h"

IE_INLINE IE_GLOBAL const uint32_t *in_of(const form_args *a, uint32_t words) {
    return a->in + (uint64_t)(ie_wg_x() * 32u + ie_lane()) * words;
}
IE_INLINE IE_GLOBAL uint32_t *out_of(const form_args *a, uint32_t words) {
    return a->out + (uint64_t)(ie_wg_x() * 32u + ie_lane()) * words;
}

/* In: two words and an accumulator. Out: exchanges, reductions over the wave, halves, the dot. */
IE_KERNEL(32) form_lanes(form_args a) {
    IE_GLOBAL const uint32_t *in = in_of(&a, FORM_LANE_IN);
    uint32_t x = in[0], y = in[1], from = ie_wg_x() % 32u, sum = x, lo, hi;
    ie_iq4_words(x, &lo, &hi);
    sum += ie_xor(sum, 16);
    sum += ie_xor(sum, 8);
    sum += ie_xor(sum, 4);
    sum += ie_xor(sum, 2);
    sum += ie_xor(sum, 1);
    uint32_t r[FORM_LANE_OUT] = {
        ie_xor(x, 1),
        ie_xor(x, 2),
        ie_xor(x, 4),
        ie_xor(x, 8),
        ie_xor(x, 16),
        ie_readlane(x, from),
        ie_uniform(ie_readlane(x, from)),
        sum,
        ie_wave_maxu(x),
        ie_bits_of(ie_wave_tree(ie_f32_of(x))),
        ie_bits_of(ie_wave_tree((float)(x >> 16))),
        ie_bits_of(ie_wave_max((float)(int32_t)x)),
        ie_bits_of(ie_f16_lo(x)),
        ie_bits_of(ie_f16_hi(x)),
        ie_f16_put2(ie_f32_of(x), ie_f32_of(y)),
        (uint32_t)ie_dot4(x, y, (int32_t)in[2]),
        ie_bits_of(ie_xorf(ie_readlanef(ie_f32_of(x), from), 1)),
        lo,
        hi,
        (uint32_t)ie_mul24((int32_t)x >> 8, (int32_t)y >> 8),
        (uint32_t)ie_mul24((int32_t)(x << 18) >> 18, (int32_t)(y << 24) >> 24),
        ie_bytes4(x),
    };
    IE_GLOBAL uint32_t *out = out_of(&a, FORM_LANE_OUT);
#pragma unroll
    for (uint32_t i = 0; i < FORM_LANE_OUT; i++) out[i] = r[i];
}

/* In: q 4, q2 2, qh, sc 4, two more. Out, in this order: 8 byte words each of Q4, Q5, Q2, Q3, Q6, IQ4; scales and minimums of Q4_K (8 + 8), Q3_K
 * (16), Q2_K (16 + 16), Q6_K (16), IQ4_XS (8); then the dots and conversions. */
IE_KERNEL(32) form_core(form_args a) {
    IE_GLOBAL const uint32_t *in = in_of(&a, FORM_CORE_IN);
    IE_GLOBAL uint32_t *out = out_of(&a, FORM_CORE_OUT);
    uint32_t v[FORM_CORE_IN];
#pragma unroll
    for (uint32_t i = 0; i < FORM_CORE_IN; i++) v[i] = in[i];
    const uint32_t *q = v, *q2 = v + 4, qh = v[6], *sc = v + 7;
#pragma unroll
    for (uint32_t e = 0; e < 8u; e++) {
        out[e] = ie_q4_bytes(q, e);
        out[8u + e] = ie_q5_bytes(q, qh, e);
        out[16u + e] = ie_q2_bytes(q2, e);
        out[24u + e] = ie_q3_bytes(q2, qh, e);
        out[32u + e] = ie_q6_bytes(q, q2, e);
        out[40u + e] = ie_iq4_bytes_u(ie_q4_bytes(q, e));
        out[48u + e] = ie_k4_scale(sc, e);
        out[56u + e] = ie_k4_min(sc, e);
        out[64u + e] = (uint32_t)ie_iq4xs_scale(ie_half_of(qh, 0), sc[0], e);
    }
#pragma unroll
    for (uint32_t j = 0; j < 16u; j++) {
        out[72u + j] = (uint32_t)ie_q3k_scale(sc, j);
        out[88u + j] = ie_q2k_scale(sc, j);
        out[104u + j] = ie_q2k_min(sc, j);
        out[120u + j] = (uint32_t)ie_q6k_scale(sc, j);
    }
    out[136] = (uint32_t)ie_dot4_us(v[11], v[12]);
    out[137] = (uint32_t)ie_dot4_ss(v[11], v[12]);
    out[138] = ie_f16_f32_bits(ie_half_of(v[11], 1));
    out[139] = ie_f32_f16_bits(v[11]);
    out[140] = ie_byte_u(v[11], v[12] % 4u);
    out[141] = (uint32_t)ie_byte_s(v[11], v[12] % 4u);
    out[142] = ie_field_lm(v[11] % 2048u, 1u + v[12] % 32u, v[11] / 2048u % (1u + v[12] % 32u), v[12] / 32u % 32u);
    out[143] = ie_seg_begin(v[11] % 17u % (ie_nseg(1u + v[12] % 2048u) + 1u), 1u + v[12] % 2048u);
    out[144] = ie_q8_at(v[11] % 512u, v[12] % 2048u, 2048u, v[11] & 512u ? 1u : 16u);
    out[145] = ie_k_elem(v[11] % 32u, v[12] % 65536u);
    out[146] = ie_slot_lo(v[11] % 0x4000000u, v[12]);
    out[147] = ie_slot_hi(v[11] % 0x4000000u, v[12]);
}

/* In: a float a lane. Out, a wave: the Q8 block, whether it was bad. */
IE_KERNEL(32) form_q8(form_args a) {
    IE_GLOBAL uint32_t *out = a.out + (uint64_t)ie_wg_x() * (IE_Q8_WORDS * 2u);
    out[IE_Q8_WORDS + ie_lane() % 16u] = ie_q8_put(out, ie_f32_of(*in_of(&a, 1u)));
}

/* In, a wave: 8 words of weights of each of the 32 rows; then 8 Q8 blocks. Out: sums[signed][half 0, half 1, both][token][row], then what
 * ie_mma_spread brings: [token][row]. */
IE_KERNEL(32) form_mma(form_args a) {
    IE_MMA_LDS(turn, 1u);
    IE_GLOBAL const uint32_t *in = a.in + (uint64_t)ie_wg_x() * FORM_MMA_IN, *x = in + 256u;
    IE_GLOBAL uint32_t *out = a.out + (uint64_t)ie_wg_x() * FORM_MMA_OUT;
    const ie_mma_from from = ie_mma_where();
    const ie_mma_x f = ie_mma_load(&from, x);
    uint32_t w[8];
    float own[IE_MMA_ROWS];
#pragma unroll
    for (uint32_t e = 0; e < 8u; e++) w[e] = in[ie_lane() * 8u + e];
    const ie_mma_w m = ie_mma_weights(w, turn);
#pragma unroll
    for (uint32_t s = 0; s < 2u; s++) {
        const ie_i8 none = {0}, start = {1, 2, 3, 4, 5, 6, 7, 8};
        const ie_i8 sums[3] = {ie_mma_half(&m, &f, 0u, s, none), ie_mma_half(&m, &f, 1u, s, none), ie_mma_block(&m, &f, s, start)};
#pragma unroll
        for (uint32_t k = 0; k < 3u; k++)
#pragma unroll
            for (uint32_t i = 0; i < IE_MMA_TOKENS; i++)
                out[((s * 3u + k) * IE_MMA_TOKENS + ie_mma_token(i)) * 32u + ie_mma_row(i)] = (uint32_t)(sums[k][i] - (k == 2u ? start[i] : 0));
    }
    ie_mma_spread((float)(w[0] >> 16), own);
#pragma unroll
    for (uint32_t i = 0; i < IE_MMA_TOKENS; i++)
        out[(6u * IE_MMA_TOKENS + ie_mma_token(i)) * 32u + ie_mma_row(i)] = ie_bits_of(own[i / (IE_MMA_TOKENS / IE_MMA_ROWS)]);
}
