/* Blocks of weights on lanes: all of a matrix product that is integers. From a unit's words to what the dots need: block b of
 * IE_VW rows (the vector's rows start at row r of the tile) as eight words of weight bytes and its scale vectors, by one pair of
 * functions a format: what is common to a super-block, and a block; the words are loaded apart, so that a kernel can say in which order. Then the dots with a Q8 block. Layouts: quant/quant.h. The format is
 * always a compile-time constant here, so each caller keeps one case. Included after one of the SIMD vocabularies; compared with
 * the core's functions by tests/unit/test_vector_forms.c. */
#ifndef IE_SIMD_BLOCK_H
#define IE_SIMD_BLOCK_H

/* d, m: d_w and m_w of quant.h. n0, n1: minus m0 and m1 (the Q8 block holds minus its sums). Which of them a format uses is
 * ie_dot_kind's matter. */
typedef struct {
    vi w[8];
    vf d, m;
    vi s0, s1, n0, n1;
} ie_ublk;

typedef struct {
    vf d, m;
    vi x[4];
} ie_uhead;

#define IE_B4(x) vi_set1((int32_t)((x) * 0x01010101u))

/* Weight bytes are stored with 1 << bias added (0: none), so that they are unsigned; umax is the largest then, 0 where they
 * are signed (levels without an unsigned dot of 8 bits: IE_S8_BIAS 0). */
IE_VEC uint32_t ie_u_bias(ie_format_id f) {
    switch (f) {
    case IE_F_Q4_0: return 3;
    case IE_F_Q5_0: return 4;
    case IE_F_Q3_K: return 2;
    case IE_F_Q6_K: return 5;
    case IE_F_Q8_0: case IE_F_IQ4_NL: case IE_F_IQ4_XS: return IE_S8_BIAS;
    default: return 0;
    }
}
IE_VEC uint32_t ie_u_max(ie_format_id f) {
    switch (f) {
    case IE_F_Q2_K: return 3;
    case IE_F_Q3_K: return 7;
    case IE_F_Q4_0: case IE_F_Q4_1: case IE_F_Q4_K: return 15;
    case IE_F_Q5_0: case IE_F_Q5_1: case IE_F_Q5_K: return 31;
    case IE_F_Q6_K: return 63;
    default: return IE_S8_BIAS ? 255 : 0;
    }
}
IE_VEC ie_dot_kind ie_u_kind(ie_format_id f) {
    switch (f) {
    case IE_F_Q4_1: case IE_F_Q5_1: case IE_F_Q4_K: case IE_F_Q5_K: return IE_DOT_MIN;
    case IE_F_Q3_K: case IE_F_Q6_K: return IE_DOT2;
    case IE_F_Q2_K: return IE_DOT2_MIN;
    default: return IE_DOT;
    }
}
IE_VEC uint32_t ie_u_blocks(ie_format_id f) {
    switch (f) {
    case IE_F_Q2_K: case IE_F_Q3_K: case IE_F_Q4_K: case IE_F_Q5_K: case IE_F_Q6_K: case IE_F_IQ4_XS: return 8;
    default: return 1;
    }
}
/* Words of a unit's head (before the blocks) and of each block. */
IE_VEC uint32_t ie_u_head_words(ie_format_id f) {
    switch (f) {
    case IE_F_Q4_1: case IE_F_Q5_1: return 32;
    case IE_F_Q2_K: return 5 * 32;
    case IE_F_Q3_K: return 16 + 3 * 32;
    case IE_F_Q4_K: case IE_F_Q5_K: return 4 * 32;
    case IE_F_Q6_K: return 16 + 4 * 32;
    case IE_F_IQ4_XS: return 2 * 32;
    default: return 16;
    }
}
IE_VEC uint32_t ie_u_block_words(ie_format_id f) {
    switch (f) {
    case IE_F_Q2_K: return 2 * 32;
    case IE_F_Q3_K: return 3 * 32;
    case IE_F_Q5_0: case IE_F_Q5_1: case IE_F_Q5_K: return 5 * 32;
    case IE_F_Q6_K: return 6 * 32;
    case IE_F_Q8_0: return 8 * 32;
    default: return 4 * 32;
    }
}
IE_VEC uint32_t ie_u_unit_words(ie_format_id f) {
    return ie_u_head_words(f) + ie_u_blocks(f) * ie_u_block_words(f);
}

/* Words for each row, and where the first of them is: of the head (behind the halves, if there are), of block b. */
IE_VEC uint32_t ie_u_head_n(ie_format_id f) { return ie_u_head_words(f) / 32u; }
IE_VEC uint32_t ie_u_head_at(ie_format_id f) { return ie_u_head_words(f) % 32u; }
IE_VEC uint32_t ie_u_block_n(ie_format_id f) { return ie_u_block_words(f) / 32u; }
IE_VEC uint32_t ie_u_block_at(ie_format_id f, uint32_t b) { return ie_u_head_words(f) + b * ie_u_block_words(f); }

/* A unit seen from row r: w for fields of words, h for one f16 a row. */
typedef struct {
    const uint32_t *w;
    const uint16_t *h;
} ie_uptr;

/* The pointers are hidden from the optimiser, which else keeps each word's offset in a register of its own. */
IE_VEC ie_uptr ie_u_at(const uint32_t *unit, uint32_t r) {
    ie_uptr p = {unit + ie_field_wm(0, 0, r), (const uint16_t *)(const void *)unit + ie_field_half(0, 0, r)};
    __asm__("" : "+r"(p.w), "+r"(p.h));
    return p;
}
/* Word w of the field at `base`, for IE_VW rows. */
IE_VEC vi ie_u_word(ie_uptr p, uint32_t base, uint32_t w) { return vi_load(p.w + ie_field_wm(base, w, 0)); }
IE_VEC vi ie_u_byte(vi w, uint32_t i) {
    return i == 3 ? vi_shr(w, 24) : vi_and(i ? vi_shr(w, 8 * i) : w, vi_set1(255));
}

/* d (low half) and m (high half) of a word. */
IE_VEC void ie_u_dm(ie_uhead *h, vi dm, bool neg) {
    h->d = vf_f16_lo(dm);
    h->m = vf_f16_lo(vi_shr(dm, 16));
    if (neg) h->m = vf_neg(h->m);
}

/* From a head's words q (ie_u_head_n of them; halves are read from p). */
IE_VEC void ie_u_head_of(ie_format_id f, ie_uhead *h, ie_uptr p, const vi *q) {
    const vi m6 = IE_B4(0x3Fu), m4 = IE_B4(0x0Fu), m2 = IE_B4(0x30u);
    switch (f) {
    case IE_F_Q4_0: case IE_F_Q5_0: case IE_F_Q8_0: case IE_F_IQ4_NL:
        h->d = vf_load_f16(p.h);
        break;
    case IE_F_Q4_1: case IE_F_Q5_1:
        ie_u_dm(h, q[0], false);
        break;
    case IE_F_Q2_K:
        ie_u_dm(h, q[0], true);
        for (uint32_t i = 0; i < 4; i++) h->x[i] = q[1 + i];
        break;
    case IE_F_Q3_K: { /* sixteen 6-bit scales: low nibbles in words 0 and 1, 2 high bits in word 2 */
        vi a = q[0], b = q[1], c = q[2];
        h->d = vf_load_f16(p.h);
        h->x[0] = vi_or(vi_and(a, m4), vi_and(vi_shl(c, 4), m2));
        h->x[1] = vi_or(vi_and(b, m4), vi_and(vi_shl(c, 2), m2));
        h->x[2] = vi_or(vi_and(vi_shr(a, 4), m4), vi_and(c, m2));
        h->x[3] = vi_or(vi_and(vi_shr(b, 4), m4), vi_and(vi_shr(c, 2), m2));
        break;
    }
    case IE_F_Q4_K: case IE_F_Q5_K: { /* eight 6-bit scales (x[0], x[1]) and eight 6-bit minimums (x[2], x[3]) */
        vi a = q[1], b = q[2], c = q[3];
        ie_u_dm(h, q[0], true);
        h->x[0] = vi_and(a, m6);
        h->x[1] = vi_or(vi_and(c, m4), vi_and(vi_shr(a, 2), m2));
        h->x[2] = vi_and(b, m6);
        h->x[3] = vi_or(vi_and(vi_shr(c, 4), m4), vi_and(vi_shr(b, 2), m2));
        break;
    }
    case IE_F_Q6_K:
        h->d = vf_load_f16(p.h);
        for (uint32_t i = 0; i < 4; i++) h->x[i] = q[i];
        break;
    case IE_F_IQ4_XS: /* x[0]: d low, 2 high bits of the scales in the high half; x[1]: low nibbles of the scales */
        h->x[0] = q[0];
        h->x[1] = q[1];
        h->d = vf_f16_lo(h->x[0]);
        break;
    default: break;
    }
}

/* Low nibbles to words 0..3, high nibbles to words 4..7. */
IE_VEC void ie_u_nibbles(ie_ublk *o, const vi *q) {
IE_UNROLL
    for (uint32_t i = 0; i < 4; i++) {
        o->w[i] = vi_and(q[i], IE_B4(15u));
        o->w[i + 4] = vi_and(vi_shr(q[i], 4), IE_B4(15u));
    }
}
/* Weights 4j .. 4j+3 of a q2 field, moved to bit `at` (0 or 4) of their bytes. */
IE_VEC vi ie_u_pair(const vi c[2], uint32_t j, uint32_t at) {
    uint32_t from = j / 2u * 2u;
    vi q = c[j & 1u];
    q = at < from ? vi_shr(q, from > at ? from - at : 0u) : vi_shl(q, at > from ? at - from : 0u);
    return vi_and(q, IE_B4(3u << at));
}

/* IQ4's 16 values, with 128 added where the level's bytes are unsigned. */
#if IE_S8_BIAS
#define IE_IQ4(v) (int8_t)((v) + 128 - ((v) + 128 > 127 ? 256 : 0))
#else
#define IE_IQ4(v) (v)
#endif
static const int8_t ie_iq4_table[16] = {IE_IQ4(-127), IE_IQ4(-104), IE_IQ4(-83), IE_IQ4(-65), IE_IQ4(-49), IE_IQ4(-35),
                                        IE_IQ4(-22), IE_IQ4(-10), IE_IQ4(1), IE_IQ4(13), IE_IQ4(25), IE_IQ4(38),
                                        IE_IQ4(53), IE_IQ4(69), IE_IQ4(89), IE_IQ4(113)};

IE_VEC void ie_u_scales(ie_format_id f, ie_ublk *o, const ie_uhead *h, uint32_t b) {
    const uint32_t i = 2u * b % 4u;
    switch (f) {
    case IE_F_Q2_K: {
        vi s0 = ie_u_byte(h->x[b / 2], i), s1 = ie_u_byte(h->x[b / 2], i + 1);
        o->d = h->d;
        o->m = h->m;
        o->s0 = vi_and(s0, vi_set1(15));
        o->s1 = vi_and(s1, vi_set1(15));
        o->n0 = vi_sub(vi_zero(), vi_shr(s0, 4));
        o->n1 = vi_sub(vi_zero(), vi_shr(s1, 4));
        break;
    }
    case IE_F_Q3_K:
        o->d = h->d;
        o->s0 = vi_sub(ie_u_byte(h->x[b / 2], i), vi_set1(32));
        o->s1 = vi_sub(ie_u_byte(h->x[b / 2], i + 1), vi_set1(32));
        break;
    case IE_F_Q4_K: case IE_F_Q5_K:
        o->d = vf_mul(h->d, vf_from_vi(ie_u_byte(h->x[b / 4], b % 4)));
        o->m = vf_mul(h->m, vf_from_vi(ie_u_byte(h->x[2 + b / 4], b % 4)));
        break;
    case IE_F_Q6_K:
        o->d = h->d;
        o->s0 = vi_sar(vi_shl(h->x[b / 2], 24 - 8 * i), 24);
        o->s1 = vi_sar(vi_shl(h->x[b / 2], 16 - 8 * i), 24);
        break;
    case IE_F_IQ4_XS: {
        vi lo = vi_and(vi_shr(h->x[1], 4 * b), vi_set1(15));
        vi hi = vi_and(vi_shr(h->x[0], 12 + 2 * b), vi_set1(0x30));
        o->d = vf_mul(h->d, vf_from_vi(vi_sub(vi_or(lo, hi), vi_set1(32))));
        break;
    }
    case IE_F_Q4_1: case IE_F_Q5_1:
        o->d = h->d;
        o->m = h->m;
        break;
    default:
        o->d = h->d;
        break;
    }
}

/* Block b of a unit from the block's words q (ie_u_block_n of them). */
IE_VEC void ie_u_block_of(ie_format_id f, ie_ublk *o, const ie_uhead *h, const vi *q, uint32_t b) {
    ie_u_scales(f, o, h, b);
    switch (f) {
    case IE_F_Q4_0: case IE_F_Q4_1: case IE_F_Q4_K:
        ie_u_nibbles(o, q);
        break;
    case IE_F_Q5_0: case IE_F_Q5_1: case IE_F_Q5_K:
        ie_u_nibbles(o, q + 1);
IE_UNROLL
        for (uint32_t j = 0; j < 8; j++) o->w[j] = vi_or_bits(o->w[j], q[0], j, 0x10101010);
        break;
    case IE_F_Q8_0:
IE_UNROLL
        for (uint32_t j = 0; j < 8; j++) o->w[j] = IE_S8_BIAS ? vi_xor(q[j], IE_B4(0x80u)) : q[j];
        break;
    case IE_F_IQ4_NL: case IE_F_IQ4_XS:
        ie_u_nibbles(o, q);
IE_UNROLL
        for (uint32_t j = 0; j < 8; j++) o->w[j] = vi_lut16(ie_iq4_table, o->w[j]);
        break;
    case IE_F_Q2_K:
IE_UNROLL
        for (uint32_t j = 0; j < 8; j++) o->w[j] = ie_u_pair(q, j, 0);
        break;
    case IE_F_Q3_K:
IE_UNROLL
        for (uint32_t j = 0; j < 8; j++) o->w[j] = vi_or_bits(ie_u_pair(q + 1, j, 0), q[0], j, 0x04040404);
        break;
    case IE_F_Q6_K:
        ie_u_nibbles(o, q);
IE_UNROLL
        for (uint32_t j = 0; j < 8; j++) o->w[j] = vi_or(o->w[j], ie_u_pair(q + 4, j, 4));
        break;
    default: break;
    }
}

/* The same from memory, in an order of the compiler's. */
IE_VEC void ie_u_head(ie_format_id f, ie_uhead *h, ie_uptr p) {
    vi q[5];
IE_UNROLL
    for (uint32_t i = 0; i < ie_u_head_n(f); i++) q[i] = ie_u_word(p, ie_u_head_at(f), i);
    ie_u_head_of(f, h, p, q);
}
IE_VEC void ie_u_block(ie_format_id f, ie_ublk *o, const ie_uhead *h, ie_uptr p, uint32_t b) {
    vi q[8];
IE_UNROLL
    for (uint32_t i = 0; i < ie_u_block_n(f); i++) q[i] = ie_u_word(p, ie_u_block_at(f, b), i);
    ie_u_block_of(f, o, h, q, b);
}

#if IE_VECTORS
/* n words of the field at `base` for nv vectors of rows, in the order in which they lie. Hardware prefetchers follow addresses that go up
 * line by line; left to the compiler, loads come in the order in which sums want them, which costs a third of the bandwidth where a
 * unit is long (Q8_0). */
IE_VEC void ie_u_words(vi (*q)[8], const ie_uptr *p, uint32_t nv, uint32_t base, uint32_t n) {
IE_UNROLL
    for (uint32_t i = 0; i < n; i++)
IE_UNROLL
        for (uint32_t v = 0; v < nv; v++) {
            q[v][i] = ie_u_word(p[v], base, i);
            __asm__ volatile("" : "+v"(q[v][i]));
        }
}
#endif

/* ---- dots with a Q8 block ------------------------------------------------------------------------------------------------- */

IE_VEC vi ie_q8_i(const uint32_t *x, uint32_t i) { return vi_set1((int32_t)x[i]); }
/* bias * minus a sum of activations: takes the bias of the weight bytes out of the dot. */
IE_VEC vi ie_unbias(const uint32_t *x, uint32_t i, uint32_t bias) {
    return bias ? vi_bcast_shl(x + i, bias) : vi_zero();
}
/* What a biased byte has too much; 0 where there is no bias. */
IE_VEC uint32_t ie_bias_byte(uint32_t bias) { return bias ? 1u << bias : 0u; }

/* The exact dot of the block u (weight bytes with `bias`, at most `umax`) with the Q8 block x; with two scales a block, its
 * halves' dots times these. `chains` > 1: the two halves are independent chains of instructions. */
IE_VEC vi ie_block_dot(ie_dot_kind kind, uint32_t bias, uint32_t umax, uint32_t chains, const ie_ublk *u, const uint32_t *x) {
    if (kind == IE_DOT || kind == IE_DOT_MIN) {
        vi dot = ie_unbias(x, IE_Q8_NSUM, bias);
        if (chains > 1) return vi_add(vi_dot_words(dot, u->w, x, 4, umax), vi_dot_words(vi_zero(), u->w + 4, x + 4, 4, umax));
        return vi_dot_words(dot, u->w, x, 8, umax);
    }
    vi lo = vi_dot_words(ie_unbias(x, IE_Q8_NLO, bias), u->w, x, 4, umax);
    vi hi = vi_dot_words(ie_unbias(x, IE_Q8_NHI, bias), u->w + 4, x + 4, 4, umax);
    return vi_add(vi_mul(u->s0, lo), vi_mul(u->s1, hi));
}
#if IE_S8_BIAS
/* The same with the Q8 blocks of `n` neighbouring tokens, at most 4: word by word in turn, so that independent instructions follow
 * each other and the multipliers never wait for one. */
IE_VEC void ie_block_dots(ie_dot_kind kind, uint32_t bias, uint32_t n, const ie_ublk *u, const uint32_t *x, vi *dot) {
    const bool two = kind == IE_DOT2 || kind == IE_DOT2_MIN;
    vi hi[4];
IE_UNROLL
    for (uint32_t t = 0; t < n; t++) {
        dot[t] = ie_unbias(x + t * IE_Q8_WORDS, two ? IE_Q8_NLO : IE_Q8_NSUM, bias);
        if (two) hi[t] = ie_unbias(x + t * IE_Q8_WORDS, IE_Q8_NHI, bias);
    }
    const uint32_t words = two ? 4u : 8u;
IE_UNROLL
    for (uint32_t j = 0; j < words; j++)
IE_UNROLL
        for (uint32_t t = 0; t < n; t++) {
            dot[t] = vi_dot_bcast(dot[t], u->w[j], x + t * IE_Q8_WORDS + j);
            if (two) hi[t] = vi_dot_bcast(hi[t], u->w[j + 4u], x + t * IE_Q8_WORDS + j + 4u);
        }
IE_UNROLL
    for (uint32_t t = 0; t < n; t++)
        if (two) dot[t] = vi_add(vi_mul(u->s0, dot[t]), vi_mul(u->s1, hi[t]));
}
#endif
/* The minimums of a block with two of them: m0 * sum of the first 16 activations + m1 * sum of the last. */
IE_VEC vi ie_block_mins(const ie_ublk *u, const uint32_t *x) {
    return vi_add(vi_mul(u->n0, ie_q8_i(x, IE_Q8_NLO)), vi_mul(u->n1, ie_q8_i(x, IE_Q8_NHI)));
}

/* ---- float matrices --------------------------------------------------------------------------------------------------------- */

/* Element k of a block's rows r .. r + IE_VW. */
IE_VEC vf ie_float_at(ie_format_id f, const uint32_t *unit, uint32_t k, uint32_t r) {
    const uint16_t *h = (const uint16_t *)(const void *)unit + ie_field_half(0, k, r);
    if (f == IE_F_F16) return vf_load_f16(h);
    if (f == IE_F_BF16) return vi_as_vf(vi_shl(vi_load_u16(h), 16));
    return vi_as_vf(vi_load(unit + ie_field_wm(0, k, r)));
}

#endif
