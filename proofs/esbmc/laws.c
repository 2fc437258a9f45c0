/* What ESBMC proves: function prove_LAW leaves every input of law_LAW (laws/) free and asserts that the law is
 * not broken. Inputs outside a law's precondition are LAW_OUT, so that nothing is assumed here.
 *
 * With VACUITY defined the same functions assert that the law never holds (or, at the end of a lemma, false): a proof is
 * worth something only if that fails. proofs/esbmc/prove runs both.
 *
 * A sum of 32 products in 64 bits is beyond the solvers as one formula. Block dots are proved in steps, all on the core's
 * own functions: `dot4` has the exact four products; a block's dot is the sum of its words' dot4 of exactly the bytes that quant.h
 * names; and `dot_room`: in the ranges so proved no sum leaves 32 bits. docs/VERIFICATION.md names what is left to a
 * reader. */
#include "ie_laws_bits.h"
#include "ie_laws_layout.h"

uint32_t nondet_uint32(void);
int32_t nondet_int32(void);
#define ANY nondet_uint32()
#ifdef VACUITY
#define LAW(r) __ESBMC_assert((r) != LAW_HOLDS, "vacuity")
#define LEMMA(c) (void)(c)
#define DONE() __ESBMC_assert(0, "vacuity")
#else
#define LAW(r) __ESBMC_assert((r) != LAW_BROKEN, "law")
#define LEMMA(c) __ESBMC_assert(c, #c)
#define DONE() (void)0
#endif

/* Scalars only; n free words w and then what the law takes; a law for each concrete value of one small input. */
#define P(name, ...) void prove_##name(void) { LAW(law_##name(__VA_ARGS__)); }
#define FREE(w, n) uint32_t w[n]; for (uint32_t i_ = 0u; i_ < (n); i_++) w[i_] = ANY
#define PW(name, n, ...) void prove_##name(void) { FREE(w, n); LAW(law_##name(__VA_ARGS__)); }
#define PEACH(name, n, count, ...) \
    void prove_##name(void) { FREE(w, n); for (uint32_t c = 0u; c < (count); c++) LAW(law_##name(__VA_ARGS__)); }

P(layout_disjoint, ANY, ANY, ANY)
P(layout_full, ANY)
PW(load, 1, w, ANY)
P(byte_sign, ANY, ANY)
P(half, ANY, ANY, ANY)
P(f16_exact, ANY)
P(f16_roundtrip, ANY)
P(f16_nearest, ANY)
P(bf16, ANY)
PW(q4_unpack, 4, w, ANY)
PW(q4_pack, 4, w, ANY)
PW(q2_unpack, 2, w, ANY)
PW(q2_pack, 2, w, ANY)
P(bit_unpack, ANY, ANY)
P(bit_pack, ANY, ANY)
PW(q5_unpack, 4, w, ANY, ANY)
PW(q3_unpack, 2, w, ANY, ANY)
PW(q6_unpack, 6, w, ANY)
P(iq4_codebook, ANY)
P(iq4_bytes, ANY, ANY)
PW(take_q4k, 32, w, ANY, ANY)
PW(take_q6k, 32, w, ANY, ANY)
PW(take_q2k, 16, w, ANY, ANY)
PW(take_bits, 8, w, ANY, ANY)
PW(k4_scales, 3, w, ANY)
PW(q3k_scales, 3, w, ANY)
PW(byte_scales, 4, w, ANY)
P(iq4xs_scales, ANY, ANY, ANY)
PEACH(tree, 32, 6u, w, c)
void prove_butterfly(void) { /* law_butterfly's text, for all lanes of one run */
    FREE(w, 32);
    uint32_t sum = 0u;
    for (uint32_t i = 0u; i < 32u; i++) sum += w[i];
    ie_butterfly(w);
    for (uint32_t lane = 0u; lane < 32u; lane++) LEMMA(w[lane] == sum);
    DONE();
}
P(grid_pad, ANY, ANY)
P(constants, ANY)
void prove_wave_sums(void) {
    FREE(w, 256);
    LAW(law_wave_sums(w));
}
P(source_arrays, ANY, ANY)
PEACH(source_row, 1, LAW_SOURCES + 2u, c, w[0], ANY)
P(gpu_bytes, ANY)
PEACH(gpu_at, 1, (uint32_t)LAW_GPU_COUNT, c, w[0], ANY, ANY, ANY, ANY, ANY, ANY)
PEACH(gpu_load, 1, (uint32_t)LAW_GPU_COUNT, c, w[0], ANY, ANY, ANY)
P(gpu_load_head, ANY, ANY, ANY)
PEACH(gpu_moves, 1, (uint32_t)LAW_GPU_COUNT, c, w[0], ANY)
PEACH(gpu_sources, 1, (uint32_t)LAW_GPU_COUNT, c, w[0])
P(block_tok, ANY, ANY, ANY)
/* One of the 32 places of base in the ring, PLACE: all in one proof take more memory than there is. */
#ifndef PLACE
#define PLACE 0u
#endif
PEACH(log_replay, 1, 1u, w[0] << 5 | (PLACE + c), ANY, ANY, ANY, ANY, ANY)
P(seg_exact, ANY, ANY)
P(seg_cover, ANY, ANY)
P(wave_cover, ANY, ANY, ANY)
P(wave_even, ANY, ANY, ANY, ANY)
P(stream_units, ANY, ANY, ANY)
P(rest_cover, ANY, ANY, ANY, ANY, ANY)
P(stream_lane, ANY, ANY, ANY)
P(stream_x, ANY, ANY, ANY, ANY, ANY, ANY, ANY)
PW(batch, 10, w, ANY, ANY, ANY)
/* Pairs; WP proves the contract of ie_plan_check for any number. */
void prove_plan_check(void) {
    FREE(w, 16);
    uint32_t arena = ANY;
    for (uint32_t n = 0u; n <= 2u; n++) LAW(law_plan_check(w, n, arena));
}

/* ---- dots ------------------------------------------------------------------------------------------------------- */

/* Each byte is the exact one and in its range, so a product is within 255 * 128; the dot is the sum of the four products,
 * so within 130560. */
void prove_dot4(void) {
    uint32_t x = ANY, s = ANY;
    int32_t us = 0, ss = 0;
    for (uint32_t k = 0u; k < 4u; k++) {
        int32_t u = (int32_t)ie_byte_u(x, k) * ie_byte_s(s, k), v = ie_byte_s(x, k) * ie_byte_s(s, k);
        LEMMA((int64_t)ie_byte_u(x, k) == (int64_t)law_byte(&x, k) && ie_byte_s(x, k) == law_sbyte(&x, k));
        LEMMA(ie_byte_u(x, k) <= 255u && ie_byte_s(x, k) >= -128 && ie_byte_s(x, k) <= 127);
        us = k == 0u ? u : us + u;
        ss = k == 0u ? v : ss + v;
    }
    LEMMA(ie_dot4_us(x, s) == us);
    LEMMA(ie_dot4_ss(x, s) == ss);
    DONE();
}
/* byte_u(x ^ 80..) = byte_s(x) + 128 in each lane: dot4_flip is this times byte_s(s), summed over four lanes. */
void prove_dot4_flip(void) {
    uint32_t x = ANY, s = ANY;
    for (uint32_t k = 0u; k < 4u; k++) LEMMA((int32_t)ie_byte_u(x ^ 0x80808080u, k) == ie_byte_s(x, k) + 128);
    LEMMA(ie_q8_nsum(&s, 1u) == -(ie_byte_s(s, 0u) + ie_byte_s(s, 1u) + ie_byte_s(s, 2u) + ie_byte_s(s, 3u)));
    DONE();
}
/* Negated sums: free within the range that q8_sums gives 32 or 16 activations. */
static int32_t nsum(int32_t n) {
    int32_t s = nondet_int32();
    __ESBMC_assume(s >= -127 * n && s <= 128 * n);
    return s;
}
/* Room: with each dot4 within 130560 and each negated sum in its range no partial sum of any block dot leaves 32 bits,
 * and neither do the two-scale forms, whose halves are within 65536 (16 weights of at most 32 times 128). */
void prove_dot_room(void) {
    int32_t n = nsum(32), r = 128 * n, lo = nondet_int32(), hi = nondet_int32();
    for (uint32_t e = 0u; e < 8u; e++) {
        int32_t t = nondet_int32();
        __ESBMC_assume(t >= -130560 && t <= 130560);
        r += t;
        LEMMA(r >= -2000000 && r <= 2000000);
    }
    __ESBMC_assume(lo >= -65536 && lo <= 65536 && hi >= -65536 && hi <= 65536);
    int32_t s0 = ie_byte_s(ANY, 0u), s1 = ie_byte_s(ANY, 0u), both = s0 * lo + s1 * hi;
    LEMMA(both >= -LAW_F32_EXACT && both <= LAW_F32_EXACT);
    DONE();
}
/* A word of four values that the formats' definitions give, lowest first. */
#define WORD(f, e) ((uint32_t)f(4u * (e)) | (uint32_t)f(4u * (e) + 1u) << 8 | (uint32_t)f(4u * (e) + 2u) << 16 | \
                    (uint32_t)f(4u * (e) + 3u) << 24)
#define SUM(f, a) ({ int32_t r_ = 0; for (uint32_t e = 0u; e < 8u; e++) \
                                       r_ += ie_dot4_us(WORD(f, e), (a)[e]); r_; })

void prove_dot_block(void) {
    FREE(w, 16);
    for (uint32_t n = 0u; n <= 8u; n++) {
        int32_t us = 0, ss = 0;
        for (uint32_t e = 0u; e < n; e++) {
            us += ie_dot4_us(w[e], w[8u + e]);
            ss += ie_dot4_ss(w[e], w[8u + e]);
        }
        LEMMA(ie_dot_us(w, w + 8, n) == us);
        LEMMA(ie_dot_ss(w, w + 8, n) == ss);
    }
    DONE();
}
void prove_q8_sums(void) {
    FREE(a, 8);
    int32_t sum = 0;
    for (uint32_t e = 0u; e < 8u; e++) {
        sum -= ie_byte_s(a[e], 0u) + ie_byte_s(a[e], 1u) + ie_byte_s(a[e], 2u) + ie_byte_s(a[e], 3u);
        LEMMA(ie_q8_nsum(a, e + 1u) == sum);
    }
    for (uint32_t e = 0u; e < 4u; e++) LEMMA(ie_byte_s(a[0], e) == law_sbyte(a, e));
    LEMMA(ie_q8_nsum(a, 4u) >= -2032 && ie_q8_nsum(a, 4u) <= 2048);
    DONE();
}
#define Q4(i) law_nibble(w, i)
void prove_q4_dot(void) {
    FREE(w, 12);
    int32_t r = SUM(Q4, w + 4);
    LEMMA(ie_q4_dot(w, w + 4) == r);
    DONE();
}
void prove_q4_0_dot(void) {
    FREE(w, 12);
    int32_t n = nsum(32);
    LEMMA(ie_q4_0_dot(w, w + 4, n) == ie_q4_dot(w, w + 4) + 8 * n);
    DONE();
}
#define Q5(i) (law_nibble(w, i) | law_bit(w[4], i) << 4)
void prove_q5_dot(void) {
    FREE(w, 13);
    int32_t r = 0;
    for (uint32_t e = 0u; e < 8u; e++) {
        LEMMA(ie_q5_bytes(w, w[4], e) == WORD(Q5, e));
        r += ie_dot4_us(ie_q5_bytes(w, w[4], e), w[5u + e]);
    }
    LEMMA(ie_q5_dot(w, w[4], w + 5) == r);
    DONE();
}
void prove_q5_0_dot(void) {
    FREE(w, 13);
    int32_t n = nsum(32);
    LEMMA(ie_q5_0_dot(w, w[4], w + 5, n) == ie_q5_dot(w, w[4], w + 5) + 16 * n);
    DONE();
}
/* Through an unsigned unit: top bits flipped, which dot4_flip is about. */
void prove_q8_dot(void) {
    FREE(w, 16);
    int32_t n = nsum(32), ss = 0, us = 128 * n;
    for (uint32_t e = 0u; e < 8u; e++) {
        ss += ie_dot4_ss(w[e], w[8u + e]);
        us += ie_dot4_us(w[e] ^ 0x80808080u, w[8u + e]);
    }
    LEMMA(ie_q8_dot(w, w + 8) == ss);
    LEMMA(ie_q8_dot_u(w, w + 8, n) == us);
    DONE();
}
#define IQ4(i) ie_iq4_u(law_nibble(w, i))
void prove_iq4_dot(void) {
    FREE(w, 12);
    int32_t n = nsum(32), us = 128 * n;
    for (uint32_t e = 0u; e < 8u; e++) us += ie_dot4_us(WORD(IQ4, e), w[4u + e]);
    LEMMA(ie_iq4_dot(w, w + 4, n) == us);
    DONE();
}
#define Q6(i) (law_nibble(w, i) | law_two(w + 4, i) << 4)
void prove_q6_dot(void) {
    FREE(w, 14);
    int32_t nlo = nsum(16), nhi = nsum(16), s0 = ie_byte_s(ANY, 0u), s1 = ie_byte_s(ANY, 0u);
    int32_t lo = 32 * nlo, hi = 32 * nhi;
    for (uint32_t e = 0u; e < 4u; e++) {
        lo += ie_dot4_us(WORD(Q6, e), w[6u + e]);
        hi += ie_dot4_us(WORD(Q6, e + 4u), w[10u + e]);
    }
    LEMMA(ie_q6_dot(w, w + 4, w + 6, nlo, nhi, s0, s1) == s0 * lo + s1 * hi);
    DONE();
}
#define Q3(i) (law_two(w, i) | law_bit(w[2], i) << 2)
void prove_q3_dot(void) {
    FREE(w, 11);
    int32_t nlo = nsum(16), nhi = nsum(16), s0 = (int32_t)(ANY % 64u) - 32, s1 = (int32_t)(ANY % 64u) - 32;
    int32_t lo = 4 * nlo, hi = 4 * nhi;
    for (uint32_t e = 0u; e < 4u; e++) {
        lo += ie_dot4_us(WORD(Q3, e), w[3u + e]);
        hi += ie_dot4_us(WORD(Q3, e + 4u), w[7u + e]);
    }
    LEMMA(ie_q3_dot(w, w[2], w + 3, nlo, nhi, s0, s1) == s0 * lo + s1 * hi);
    DONE();
}
#define Q2(i) law_two(w, i)
void prove_q2_dot(void) {
    FREE(w, 10);
    int32_t s0 = (int32_t)(ANY % 16u), s1 = (int32_t)(ANY % 16u), lo = 0, hi = 0, nlo = nsum(16), nhi = nsum(16);
    for (uint32_t e = 0u; e < 4u; e++) {
        lo += ie_dot4_us(WORD(Q2, e), w[2u + e]);
        hi += ie_dot4_us(WORD(Q2, e + 4u), w[6u + e]);
    }
    LEMMA(ie_q2_dot(w, w + 2, s0, s1) == s0 * lo + s1 * hi);
    LEMMA(ie_q2_mins(nlo, nhi, s0, s1) == -(s0 * nlo + s1 * nhi));
    LEMMA(-(s0 * nlo + s1 * nhi) <= LAW_F32_EXACT && -(s0 * nlo + s1 * nhi) >= -LAW_F32_EXACT);
    DONE();
}
