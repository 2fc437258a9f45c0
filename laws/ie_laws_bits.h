/* Laws of bits: words and halves, conversions, weights of a block, repacking, scales, dots (core/ie_core.h). How a law is written:
 * ie_laws.h. Meanings come from the formats' definitions, and from 64-bit arithmetic where sums matter. */
#ifndef IE_LAWS_BITS_H
#define IE_LAWS_BITS_H

#include "ie_laws.h"

/* Byte k of an array of words, as a GGUF byte string; and its sign-extended value. */
static inline uint32_t law_byte(const uint32_t *w, uint32_t k) { return w[k / 4u] / (1u << (8u * (k % 4u))) % 256u; }
static inline int64_t law_sbyte(const uint32_t *w, uint32_t k) {
    int64_t b = (int64_t)law_byte(w, k);
    return b < 128 ? b : b - 256;
}
static inline void law_bytes(const uint32_t *w, uint8_t *out, uint32_t n) {
    for (uint32_t k = 0u; k < n; k++) out[k] = (uint8_t)law_byte(w, k);
}
/* Bit field of `width` bits from bit `at` of a byte or word. */
static inline uint32_t law_field(uint32_t w, uint32_t at, uint32_t width) { return (w >> at) % (1u << width); }

/* ---- words and halves ------------------------------------------------------------------------------------------- */

static inline int law_load(const uint32_t *w, uint32_t k) {
    if (k >= 4u) return LAW_OUT;
    uint8_t p[4];
    law_bytes(w, p, 4u);
    return ie_load32(p) == w[0] && ie_load16(p) == w[0] % 65536u && ie_byte_u(w[0], k) == p[k];
}
static inline int law_byte_sign(uint32_t w, uint32_t k) {
    if (k >= 4u) return LAW_OUT;
    return ie_byte_s(w, k) == law_sbyte(&w, k);
}
static inline int law_half(uint32_t w, uint32_t k, uint32_t h) {
    if (k >= 2u || h >= 65536u) return LAW_OUT;
    uint32_t v = ie_half_put(w, k, h);
    return ie_half_of(v, k) == h && ie_half_of(v, 1u - k) == ie_half_of(w, 1u - k) &&
           w == ie_half_of(w, 0u) + 65536u * ie_half_of(w, 1u);
}
/* The value of a finite f16 in units of 2^-24, and of a finite f32 that is one; NaN stays NaN, infinity infinity. */
static inline int law_f16_exact(uint32_t h) {
    if (h >= 65536u) return LAW_OUT;
    uint32_t e = law_field(h, 10u, 5u), m = h % 1024u, u = ie_f16_f32_bits(h), ue = law_field(u, 23u, 8u);
    uint32_t um = u % (1u << 23);
    if (u >> 31 != h >> 15) return LAW_BROKEN;
    if (e == 31u) return ue == 255u && um == (m == 0u ? 0u : (m | 512u) << 13);
    if (e == 0u && m == 0u) return ue == 0u && um == 0u;
    uint64_t units = e == 0u ? m : (uint64_t)(1024u + m) << (e - 1u);
    /* f32: (2^23 + um) * 2^(ue - 150) = units * 2^-24, so (2^23 + um) << (ue - 103) = units << 23 */
    return ue >= 103u && (uint64_t)((1u << 23) + um) << (ue - 103u) == units << 23;
}
static inline int law_f16_roundtrip(uint32_t h) {
    if (h >= 65536u) return LAW_OUT;
    uint32_t nan = law_field(h, 10u, 5u) == 31u && h % 1024u != 0u;
    return ie_f32_f16_bits(ie_f16_f32_bits(h)) == (nan ? h | 0x200u : h);
}
/* Where f16 h and h + 1 meet, as f32 bits: patterns between two neighbours are evenly spaced, but for 0 and 2^-24. */
static inline uint32_t law_f16_mid(uint32_t h) {
    uint32_t up = h == 0x7BFFu ? 0x47800000u : ie_f16_f32_bits(h + 1u);
    return h == 0u ? 0x33000000u : ie_f16_f32_bits(h) + (up - ie_f16_f32_bits(h)) / 2u;
}
static inline int law_f16_nearest(uint32_t u) {
    uint32_t a = u % 0x80000000u, h = ie_f32_f16_bits(u) % 0x8000u;
    if (ie_f32_f16_bits(u) >> 15 != u >> 31) return LAW_BROKEN;
    if (a > 0x7F800000u) return h > 0x7C00u;
    if (h > 0x7C00u) return LAW_BROKEN;
    if (h < 0x7C00u && (a > law_f16_mid(h) || (a == law_f16_mid(h) && h % 2u != 0u))) return LAW_BROKEN;
    return h == 0u || a > law_f16_mid(h - 1u) || (a == law_f16_mid(h - 1u) && h % 2u == 0u);
}
static inline int law_bf16(uint32_t h) {
    if (h >= 65536u) return LAW_OUT;
    return ie_bf16_f32_bits(h) == h * 65536u;
}

/* ---- weights of a block ----------------------------------------------------------------------------------------- */

/* What quant.h says weight i of a block is, from the row's words. */
static inline uint32_t law_nibble(const uint32_t *q, uint32_t i) {
    return law_field(law_byte(q, i % 16u), i / 16u * 4u, 4u);
}
static inline uint32_t law_two(const uint32_t *q2, uint32_t i) {
    return law_field(law_byte(q2, i % 8u), i / 8u * 2u, 2u);
}
static inline uint32_t law_bit(uint32_t qh, uint32_t i) { return (qh >> i) % 2u; }
static inline int64_t law_codebook(uint32_t n) {
    static const int8_t v[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
    return v[n % 16u];
}

static inline int law_q4_unpack(const uint32_t *q, uint32_t i) {
    if (i >= 32u) return LAW_OUT;
    return ie_byte_u(ie_q4_bytes(q, i / 4u), i % 4u) == law_nibble(q, i);
}
static inline int law_q4_pack(const uint32_t *q, uint32_t k) {
    if (k >= 4u) return LAW_OUT;
    return ie_q4_pack(ie_q4_bytes(q, k), ie_q4_bytes(q, k + 4u)) == q[k];
}
static inline int law_q2_unpack(const uint32_t *q2, uint32_t i) {
    if (i >= 32u) return LAW_OUT;
    return ie_byte_u(ie_q2_bytes(q2, i / 4u), i % 4u) == law_two(q2, i);
}
static inline int law_q2_pack(const uint32_t *q2, uint32_t k) {
    if (k >= 2u) return LAW_OUT;
    return ie_q2_pack(ie_q2_bytes(q2, k), ie_q2_bytes(q2, k + 2u), ie_q2_bytes(q2, k + 4u), ie_q2_bytes(q2, k + 6u)) ==
           q2[k];
}
static inline int law_bit_unpack(uint32_t qh, uint32_t i) {
    if (i >= 32u) return LAW_OUT;
    return ie_byte_u(ie_bit_bytes(qh, i / 4u), i % 4u) == law_bit(qh, i);
}
static inline int law_bit_pack(uint32_t qh, uint32_t e) {
    if (e >= 8u) return LAW_OUT;
    return ie_bit_pack(ie_bit_bytes(qh, e)) == law_field(qh, 4u * e, 4u);
}
static inline int law_q5_unpack(const uint32_t *q, uint32_t qh, uint32_t i) {
    if (i >= 32u) return LAW_OUT;
    return ie_byte_u(ie_q5_bytes(q, qh, i / 4u), i % 4u) == law_nibble(q, i) + 16u * law_bit(qh, i);
}
static inline int law_q3_unpack(const uint32_t *q2, uint32_t qh, uint32_t i) {
    if (i >= 32u) return LAW_OUT;
    return ie_byte_u(ie_q3_bytes(q2, qh, i / 4u), i % 4u) == law_two(q2, i) + 4u * law_bit(qh, i);
}
static inline int law_q6_unpack(const uint32_t *w, uint32_t i) { /* w: q 4, q2 2 */
    if (i >= 32u) return LAW_OUT;
    return ie_byte_u(ie_q6_bytes(w, w + 4, i / 4u), i % 4u) == law_nibble(w, i) + 16u * law_two(w + 4, i);
}
static inline int law_iq4_codebook(uint32_t n) {
    if (n >= 16u) return LAW_OUT;
    return ie_iq4_s(n) == law_codebook(n) && ie_iq4_u(n) == (uint32_t)(law_codebook(n) + 128);
}
static inline int law_iq4_bytes(uint32_t w, uint32_t k) {
    if (k >= 4u) return LAW_OUT;
    uint32_t n = law_byte(&w, k) % 16u;
    return ie_byte_u(ie_iq4_bytes_u(w & 0x0F0F0F0Fu), k) == (uint32_t)(law_codebook(n) + 128);
}

/* ---- repacking: unit words mean what GGUF's bytes mean ---------------------------------------------------------- */

/* src: the 128, 64 or 32 bytes of GGUF's array as words; b: block, i: weight of the block. */
static inline int law_take_q4k(const uint32_t *src, uint32_t b, uint32_t i) {
    if (b >= 8u || i >= 32u) return LAW_OUT;
    uint8_t p[128];
    uint32_t q[4];
    law_bytes(src, p, 128u);
    for (uint32_t k = 0u; k < 4u; k++) q[k] = ie_take_q4k(p, b, k);
    return law_nibble(q, i) == law_field(p[b / 2u * 32u + i], b % 2u * 4u, 4u);
}
static inline int law_take_q6k(const uint32_t *src, uint32_t b, uint32_t i) {
    if (b >= 8u || i >= 32u) return LAW_OUT;
    uint8_t p[128];
    uint32_t q[4], j = b % 4u * 32u + i; /* weight j of 128: bytes of 64, low nibbles first */
    law_bytes(src, p, 128u);
    for (uint32_t k = 0u; k < 4u; k++) q[k] = ie_take_q6k(p, b, k);
    return law_nibble(q, i) == law_field(p[b / 4u * 64u + j % 64u], j / 64u * 4u, 4u);
}
static inline int law_take_q2k(const uint32_t *src, uint32_t b, uint32_t i) {
    if (b >= 8u || i >= 32u) return LAW_OUT;
    uint8_t p[64];
    uint32_t q2[2];
    law_bytes(src, p, 64u);
    for (uint32_t k = 0u; k < 2u; k++) q2[k] = ie_take_q2k(p, b, k);
    return law_two(q2, i) == law_field(p[b / 4u * 32u + i], b % 4u * 2u, 2u);
}
static inline int law_take_bits(const uint32_t *src, uint32_t b, uint32_t i) {
    if (b >= 8u || i >= 32u) return LAW_OUT;
    uint8_t p[32];
    law_bytes(src, p, 32u);
    return law_bit(ie_take_bits(p, b), i) == law_field(p[i], b, 1u);
}
/* GGUF's arrays are read inside their bounds. */
/*@ assigns \nothing; ensures \result != LAW_BROKEN; */
static inline int law_take_bounds(uint32_t b, uint32_t w) {
    if (b >= 8u || w >= 4u) return LAW_OUT;
    if (ie_q4k_at(b, w) + 20u > 128u || ie_q6k_at(b, w) + 20u > 128u) return LAW_BROKEN;
    if (ie_q4k_shift(b) > 4u || ie_q6k_shift(b) > 4u || ie_q2k_shift(b) > 6u) return LAW_BROKEN;
    return w >= 2u || ie_q2k_at(b, w) + 28u <= 64u;
}
/* Two different words of a matrix's repacked super-block come from different bits of the source. */
/*@ assigns \nothing; ensures \result != LAW_BROKEN; */
static inline int law_take_once(uint32_t b1, uint32_t w1, uint32_t b2, uint32_t w2) {
    if (b1 >= 8u || b2 >= 8u || w1 >= 4u || w2 >= 4u || (b1 == b2 && w1 == w2)) return LAW_OUT;
    if (ie_q4k_shift(b1) == ie_q4k_shift(b2) && ie_q4k_at(b1, w1) == ie_q4k_at(b2, w2)) return LAW_BROKEN;
    if (ie_q6k_shift(b1) == ie_q6k_shift(b2) && ie_q6k_at(b1, w1) == ie_q6k_at(b2, w2)) return LAW_BROKEN;
    return w1 >= 2u || w2 >= 2u || ie_q2k_shift(b1) != ie_q2k_shift(b2) || ie_q2k_at(b1, w1) != ie_q2k_at(b2, w2);
}

/* ---- scales ----------------------------------------------------------------------------------------------------- */

static inline int law_k4_scales(const uint32_t *sc, uint32_t j) { /* 12 bytes: GGUF's Q4_K and Q5_K */
    if (j >= 8u) return LAW_OUT;
    uint32_t s, m;
    if (j < 4u) {
        s = law_byte(sc, j) % 64u;
        m = law_byte(sc, j + 4u) % 64u;
    } else {
        s = law_byte(sc, j + 4u) % 16u + law_byte(sc, j - 4u) / 64u * 16u;
        m = law_byte(sc, j + 4u) / 16u + law_byte(sc, j) / 64u * 16u;
    }
    return ie_k4_scale(sc, j) == s && ie_k4_min(sc, j) == m;
}
static inline int law_q3k_scales(const uint32_t *sc, uint32_t j) { /* 12 bytes: low nibbles in 8, high pairs in 4 */
    if (j >= 16u) return LAW_OUT;
    uint32_t lo = law_field(law_byte(sc, j % 8u), j / 8u * 4u, 4u);
    uint32_t hi = law_field(law_byte(sc, 8u + j % 4u), j / 4u * 2u, 2u);
    return ie_q3k_scale(sc, j) == (int32_t)(lo + 16u * hi) - 32;
}
static inline int law_byte_scales(const uint32_t *sc, uint32_t j) { /* 16 bytes: Q2_K, Q6_K */
    if (j >= 16u) return LAW_OUT;
    return ie_q2k_scale(sc, j) == law_byte(sc, j) % 16u && ie_q2k_min(sc, j) == law_byte(sc, j) / 16u &&
           ie_q6k_scale(sc, j) == law_sbyte(sc, j);
}
static inline int law_iq4xs_scales(uint32_t sh, uint32_t sl, uint32_t j) {
    if (j >= 8u || sh >= 65536u) return LAW_OUT;
    uint32_t lo = law_field(law_byte(&sl, j / 2u), j % 2u * 4u, 4u);
    return ie_iq4xs_scale(sh, sl, j) == (int32_t)(lo + 16u * law_field(sh, 2u * j, 2u)) - 32;
}

/* ---- dots: equal to the exact sum in 64 bits, which fits 32 ----------------------------------------------------- */

static inline int64_t law_sum(const uint32_t *a, uint32_t i0, uint32_t i1) {
    int64_t r = 0;
    for (uint32_t i = i0; i < i1; i++) r += law_sbyte(a, i);
    return r;
}
static inline int law_is(int32_t got, int64_t want) { return (int64_t)got == want; }

static inline int law_dot4(uint32_t x, uint32_t s) {
    int64_t us = 0, ss = 0;
    for (uint32_t k = 0u; k < 4u; k++) {
        us += (int64_t)law_byte(&x, k) * law_sbyte(&s, k);
        ss += law_sbyte(&x, k) * law_sbyte(&s, k);
    }
    return law_is(ie_dot4_us(x, s), us) && law_is(ie_dot4_ss(x, s), ss);
}
/* Signed by signed through an unsigned unit. */
static inline int law_dot4_flip(uint32_t x, uint32_t s) {
    return ie_dot4_ss(x, s) == ie_dot4_us(x ^ 0x80808080u, s) + 128 * ie_q8_nsum(&s, 1u);
}
static inline int law_dot_block(const uint32_t *w, uint32_t n) { /* w: 8 weight words, 8 activation words */
    if (n > 8u) return LAW_OUT;
    int64_t us = 0, ss = 0;
    for (uint32_t i = 0u; i < 4u * n; i++) {
        us += (int64_t)law_byte(w, i) * law_sbyte(w + 8, i);
        ss += law_sbyte(w, i) * law_sbyte(w + 8, i);
    }
    return law_is(ie_dot_us(w, w + 8, n), us) && law_is(ie_dot_ss(w, w + 8, n), ss);
}
static inline int law_q8_sums(const uint32_t *a) {
    int32_t lo = ie_q8_nsum(a, 4u), hi = ie_q8_nsum(a + 4, 4u);
    return law_is(lo, -law_sum(a, 0u, 16u)) && law_is(hi, -law_sum(a, 16u, 32u)) && ie_q8_nsum(a, 8u) == lo + hi &&
           lo >= -2032 && lo <= 2048 && lo + hi >= -4064 && lo + hi <= 4096;
}
static inline int law_q4_dot(const uint32_t *w) { /* q 4, a 8 */
    int64_t n = 0, n8 = 0;
    for (uint32_t i = 0u; i < 32u; i++) {
        n += (int64_t)law_nibble(w, i) * law_sbyte(w + 4, i);
        n8 += ((int64_t)law_nibble(w, i) - 8) * law_sbyte(w + 4, i);
    }
    return law_is(ie_q4_dot(w, w + 4), n) && law_is(ie_q4_0_dot(w, w + 4, ie_q8_nsum(w + 4, 8u)), n8);
}
static inline int law_q5_dot(const uint32_t *w) { /* q 4, qh 1, a 8 */
    int64_t n = 0, n16 = 0;
    for (uint32_t i = 0u; i < 32u; i++) {
        int64_t v = (int64_t)law_nibble(w, i) + 16 * (int64_t)law_bit(w[4], i);
        n += v * law_sbyte(w + 5, i);
        n16 += (v - 16) * law_sbyte(w + 5, i);
    }
    return law_is(ie_q5_dot(w, w[4], w + 5), n) && law_is(ie_q5_0_dot(w, w[4], w + 5, ie_q8_nsum(w + 5, 8u)), n16);
}
static inline int law_q8_dot(const uint32_t *w) { /* q 8, a 8 */
    int64_t r = 0;
    for (uint32_t i = 0u; i < 32u; i++) r += law_sbyte(w, i) * law_sbyte(w + 8, i);
    return law_is(ie_q8_dot(w, w + 8), r) && law_is(ie_q8_dot_u(w, w + 8, ie_q8_nsum(w + 8, 8u)), r);
}
static inline int law_iq4_dot(const uint32_t *w) { /* q 4, a 8 */
    int64_t r = 0;
    for (uint32_t i = 0u; i < 32u; i++) r += law_codebook(law_nibble(w, i)) * law_sbyte(w + 4, i);
    return law_is(ie_iq4_dot(w, w + 4, ie_q8_nsum(w + 4, 8u)), r);
}
#define LAW_F32_EXACT 16777216                                /* integers up to 2^24 convert to f32 exactly */
static inline int law_q6_dot(const uint32_t *w, uint32_t s) { /* q 4, q2 2, a 8; s: two int8 scales */
    int64_t lo = 0, hi = 0, s0 = law_sbyte(&s, 0u), s1 = law_sbyte(&s, 1u);
    for (uint32_t i = 0u; i < 32u; i++) {
        int64_t v = ((int64_t)law_nibble(w, i) + 16 * (int64_t)law_two(w + 4, i) - 32) * law_sbyte(w + 6, i);
        if (i < 16u)
            lo += v;
        else
            hi += v;
    }
    int32_t r = ie_q6_dot(w, w + 4, w + 6, ie_q8_nsum(w + 6, 4u), ie_q8_nsum(w + 10, 4u), (int32_t)s0, (int32_t)s1);
    return law_is(r, s0 * lo + s1 * hi) && r >= -LAW_F32_EXACT && r <= LAW_F32_EXACT;
}
static inline int law_q3_dot(const uint32_t *w, uint32_t s0, uint32_t s1) { /* q2 2, qh 1, a 8; scales plus 32 */
    if (s0 >= 64u || s1 >= 64u) return LAW_OUT;
    int64_t lo = 0, hi = 0, t0 = (int64_t)s0 - 32, t1 = (int64_t)s1 - 32;
    for (uint32_t i = 0u; i < 32u; i++) {
        int64_t v = ((int64_t)law_two(w, i) + 4 * (int64_t)law_bit(w[2], i) - 4) * law_sbyte(w + 3, i);
        if (i < 16u)
            lo += v;
        else
            hi += v;
    }
    int32_t r = ie_q3_dot(w, w[2], w + 3, ie_q8_nsum(w + 3, 4u), ie_q8_nsum(w + 7, 4u), (int32_t)t0, (int32_t)t1);
    return law_is(r, t0 * lo + t1 * hi) && r >= -LAW_F32_EXACT && r <= LAW_F32_EXACT;
}
static inline int law_q2_dot(const uint32_t *w, uint32_t s0, uint32_t s1, uint32_t m0, uint32_t m1) { /* q2 2, a 8 */
    if (s0 >= 16u || s1 >= 16u || m0 >= 16u || m1 >= 16u) return LAW_OUT;
    int64_t lo = 0, hi = 0;
    for (uint32_t i = 0u; i < 16u; i++) {
        lo += (int64_t)law_two(w, i) * law_sbyte(w + 2, i);
        hi += (int64_t)law_two(w, i + 16u) * law_sbyte(w + 2, i + 16u);
    }
    int32_t m = ie_q2_mins(ie_q8_nsum(w + 2, 4u), ie_q8_nsum(w + 6, 4u), (int32_t)m0, (int32_t)m1);
    return law_is(ie_q2_dot(w, w + 2, (int32_t)s0, (int32_t)s1), (int64_t)s0 * lo + (int64_t)s1 * hi) &&
           law_is(m, (int64_t)m0 * law_sum(w + 2, 0u, 16u) + (int64_t)m1 * law_sum(w + 2, 16u, 32u)) &&
           m >= -LAW_F32_EXACT && m <= LAW_F32_EXACT;
}

#endif
