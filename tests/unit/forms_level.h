/* One level's table of forms.h: included by forms_LEVEL.c after the level's vector vocabulary, with FORMS naming the table. */
#include <string.h>

#include "forms.h"

#pragma GCC diagnostic ignored "-Wunused-function" /* the kernels' callers */
#include "cpu/mm.h"

#include "cpu/simd_block.h"
#include "cpu/simd_math.h"
#include "cpu/simd_ops.h"

#include "cpu/mm_acc.h"

#include "cpu/mm_gemm.h"
#include "cpu/simd_q8.h"

#define EACH_VECTOR for (uint32_t l = 0; l < FORM_LANES; l += IE_VW)
#define V(x) vi_load((x) + l)

/* ---- words ---------------------------------------------------------------------------------------------------------------- */

#define WORD_FORM(name, expr) \
    static void form_##name(const uint32_t *a, const uint32_t *b, const uint32_t *c, uint32_t *out) { \
        (void)b, (void)c; \
        EACH_VECTOR vi_store(out + l, (expr)); \
    }
WORD_FORM(add, vi_add(V(a), V(b)))
WORD_FORM(sub, vi_sub(V(a), V(b)))
WORD_FORM(mul, vi_mul(V(a), V(b)))
WORD_FORM(and, vi_and(V(a), V(b)))
WORD_FORM(or, vi_or(V(a), V(b)))
WORD_FORM(xor, vi_xor(V(a), V(b)))
WORD_FORM(maxu, vi_maxu(V(a), V(b)))
WORD_FORM(max, vi_max(V(a), V(b)))
WORD_FORM(min, vi_min(V(a), V(b)))
WORD_FORM(add8, vi_add8(V(a), V(b)))
WORD_FORM(select_eq, vi_select(vi_eq(V(a), V(b)), V(c), V(a)))
WORD_FORM(select_gt, vi_select(vi_gt(V(a), V(b)), V(c), V(b)))
WORD_FORM(dot_us, vi_dot_us(V(c), V(a), V(b)))
WORD_FORM(dot_ss, vi_dot_ss(V(c), V(a), V(b)))
WORD_FORM(lut16, vi_lut16(ie_iq4_table, V(a)))
WORD_FORM(f16_lo, vf_as_vi(vf_f16_lo(V(a))))
WORD_FORM(from_int, vf_as_vi(vf_from_vi(V(a))))
WORD_FORM(to_int, vi_from_vf_rne(vi_as_vf(V(a))))

/* Loads and stores of halves and bytes; the array's words hold one each. */
static void form_load_u16(const uint32_t *a, const uint32_t *b, const uint32_t *c, uint32_t *out) {
    uint16_t h[FORM_LANES];
    (void)b, (void)c;
    for (uint32_t l = 0; l < FORM_LANES; l++) h[l] = (uint16_t)a[l];
    EACH_VECTOR vi_store(out + l, vi_load_u16(h + l));
}
static void form_load_f16(const uint32_t *a, const uint32_t *b, const uint32_t *c, uint32_t *out) {
    uint16_t h[FORM_LANES];
    (void)b, (void)c;
    for (uint32_t l = 0; l < FORM_LANES; l++) h[l] = (uint16_t)a[l];
    EACH_VECTOR vi_store(out + l, vf_as_vi(vf_load_f16(h + l)));
}
static void form_store_f16(const uint32_t *a, const uint32_t *b, const uint32_t *c, uint32_t *out) {
    uint16_t h[FORM_LANES];
    (void)b, (void)c;
    EACH_VECTOR vf_store_f16(h + l, vi_as_vf(V(a)));
    for (uint32_t l = 0; l < FORM_LANES; l++) out[l] = h[l];
}
static void form_store_i8(const uint32_t *a, const uint32_t *b, const uint32_t *c, uint32_t *out) {
    int8_t q[FORM_LANES];
    (void)b, (void)c;
    EACH_VECTOR vi_store_i8(q + l, V(a));
    for (uint32_t l = 0; l < FORM_LANES; l++) out[l] = (uint8_t)q[l];
}

#define NUMBERS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15) X(16) X(17) X(18) X(19) X(20) X(21) X(22) X(23) X(24) \
    X(25) X(26) X(27) X(28) X(29) X(30) X(31)
#define SHIFTED(N) \
    case N: \
        EACH_VECTOR vi_store(out + l, kind == 0 ? vi_shl(V(a), N) : kind == 1 ? vi_shr(V(a), N) : kind == 2 ? vi_sar(V(a), N) : vi_bcast_shl(a, N)); \
        break;
static void form_shift(uint32_t kind, uint32_t n, const uint32_t *a, uint32_t *out) {
    switch (n) { NUMBERS(SHIFTED) default: break; }
}
#define BITS(J) \
    case J: EACH_VECTOR vi_store(out + l, high ? vi_or_bits(V(w), V(bits), J, 0x10101010) : vi_or_bits(V(w), V(bits), J, 0x04040404)); break;
static void form_or_bits(const uint32_t *w, const uint32_t *bits, uint32_t j, bool high, uint32_t *out) {
    switch (j) { BITS(0) BITS(1) BITS(2) BITS(3) BITS(4) BITS(5) BITS(6) BITS(7) default: break; }
}

#define WORDS_CASE(N, UMAX) \
    if (n == (N) && umax == (UMAX)) return vi_dot_words(vi_set1(start), v, x, N, UMAX);
IE_VEC vi dot_words_vector(const vi *v, const uint32_t *x, uint32_t n, uint32_t umax, int32_t start) {
    WORDS_CASE(4, 0) WORDS_CASE(4, 3) WORDS_CASE(4, 7) WORDS_CASE(4, 15) WORDS_CASE(4, 31) WORDS_CASE(4, 63) WORDS_CASE(4, 127) WORDS_CASE(4, 255)
    WORDS_CASE(8, 0) WORDS_CASE(8, 3) WORDS_CASE(8, 7) WORDS_CASE(8, 15) WORDS_CASE(8, 31) WORDS_CASE(8, 63) WORDS_CASE(8, 127) WORDS_CASE(8, 255)
    return vi_zero();
}
static int32_t form_dot_words(const uint32_t *w, const uint32_t *x, uint32_t n, uint32_t umax, int32_t start) {
    vi v[8];
    int32_t out[IE_VW];
    for (uint32_t e = 0; e < n; e++) v[e] = vi_set1((int32_t)w[e]);
    vi_store(out, dot_words_vector(v, x, n, umax, start));
    return out[0];
}

/* ---- lanes ---------------------------------------------------------------------------------------------------------------- */

static int32_t form_hadd(const uint32_t *a) { return vi_hadd(vi_load(a)); }
static uint32_t form_hmaxu(const uint32_t *a) { return vi_hmaxu(vi_load(a)); }
static float form_tree(const float *a) { return vf_tree(vf_load(a)); }
static float form_hmax(const float *a) { return vf_hmax(vf_load(a)); }
static void form_tree8(const float *a, float *out) {
    vf v[8];
    for (uint32_t i = 0; i < 8; i++) v[i] = vf_load(a + i * IE_VW);
    vf_store(out, vf_tree8(v));
}
static void form_rep8(const float *a, float *out) { vf_store(out, vf_rep8(a)); }
static void form_first(const float *a, uint32_t n, float *out) { vf_store_n(out, vf_load_n(a, n), n); }

#define MOVE(name, expr) \
    static void form_##name(const float *a, const float *b, float *out) { \
        (void)b; \
        EACH_VECTOR vf_store(out + l, (expr)); \
    }
MOVE(dup_even, vf_dup_even(vf_load(a + l)))
MOVE(dup_odd, vf_dup_odd(vf_load(a + l)))
MOVE(swap_pairs, vf_swap_pairs(vf_load(a + l)))
static void form_unzip_even(const float *a, const float *b, float *out) {
    vf e, o;
    EACH_VECTOR vf_unzip(vf_load(a + l), vf_load(b + l), &e, &o), vf_store(out + l, e);
}
static void form_unzip_odd(const float *a, const float *b, float *out) {
    vf e, o;
    EACH_VECTOR vf_unzip(vf_load(a + l), vf_load(b + l), &e, &o), vf_store(out + l, o);
}
#define FLOAT_FORM(name) \
    static void form_##name(const float *a, float *out) { EACH_VECTOR vf_store(out + l, vf_##name(vf_load(a + l))); }
FORM_FLOATS(FLOAT_FORM)

/* ---- blocks --------------------------------------------------------------------------------------------------------------- */

static void block_put(form_block *o, uint32_t r, const ie_ublk *u) {
    for (uint32_t e = 0; e < 8; e++) vi_store(&o->w[e][r], u->w[e]);
    vf_store(&o->d[r], u->d);
    vf_store(&o->m[r], u->m);
    vi_store(&o->s0[r], u->s0);
    vi_store(&o->s1[r], u->s1);
    vi_store(&o->n0[r], u->n0);
    vi_store(&o->n1[r], u->n1);
}
IE_VEC void block_form(ie_format_id f, const uint32_t *unit, uint32_t b, const uint32_t *x, form_block *o) {
    for (uint32_t r = 0; r < IE_TILE_ROWS; r += IE_VW) {
        ie_uhead h;
        ie_ublk u;
        memset(&u, 0, sizeof u); /* what a format does not use */
        ie_uptr at = ie_u_at(unit, r);
        ie_u_head(f, &h, at);
        ie_u_block(f, &u, &h, at, b);
        block_put(o, r, &u);
        vi_store(&o->dot[0][r], ie_block_dot(ie_u_kind(f), ie_u_bias(f), ie_u_max(f), 1, &u, x));
        vi_store(&o->dot[1][r], ie_block_dot(ie_u_kind(f), ie_u_bias(f), ie_u_max(f), 2, &u, x));
        vi_store(&o->mins[r], ie_block_mins(&u, x));
    }
}
/* b a constant, as in the kernels, where these want it. */
#if IE_VECTORS && defined(IE_CONST_SHIFTS)
#define BLOCK_CASE(F, B) case B: block_form(IE_F_##F, unit, B, x, o); break;
#define BLOCK_SWITCH(F) \
    switch (b) { \
        BLOCK_CASE(F, 0) BLOCK_CASE(F, 1) BLOCK_CASE(F, 2) BLOCK_CASE(F, 3) BLOCK_CASE(F, 4) BLOCK_CASE(F, 5) BLOCK_CASE(F, 6) BLOCK_CASE(F, 7) \
    default: break; \
    }
#else
#define BLOCK_SWITCH(F) block_form(IE_F_##F, unit, b, x, o);
#endif
#define BLOCK_FORM(F) \
    static __attribute__((noinline)) void block_##F(const uint32_t *unit, uint32_t b, const uint32_t *x, form_block *o) { BLOCK_SWITCH(F) }
#define BLOCK_FORM1(F) \
    static __attribute__((noinline)) void block_##F(const uint32_t *unit, uint32_t b, const uint32_t *x, form_block *o) { \
        (void)b; \
        block_form(IE_F_##F, unit, 0, x, o); \
    }
BLOCK_FORM1(Q4_0)
BLOCK_FORM1(Q4_1)
BLOCK_FORM1(Q5_0)
BLOCK_FORM1(Q5_1)
BLOCK_FORM1(Q8_0)
BLOCK_FORM1(IQ4_NL)
BLOCK_FORM(Q2_K)
BLOCK_FORM(Q3_K)
BLOCK_FORM(Q4_K)
BLOCK_FORM(Q5_K)
BLOCK_FORM(Q6_K)
BLOCK_FORM(IQ4_XS)

typedef void block_fn(const uint32_t *unit, uint32_t b, const uint32_t *x, form_block *o);
static const struct {
    block_fn *block;
    ie_unpack_fn *unpack;
} by_format[IE_F_COUNT] = {
#define ROW(F) [IE_F_##F] = {block_##F, unpack_##F}
    ROW(Q4_0), ROW(Q4_1), ROW(Q5_0), ROW(Q5_1), ROW(Q8_0), ROW(Q2_K), ROW(Q3_K), ROW(Q4_K), ROW(Q5_K), ROW(Q6_K), ROW(IQ4_NL), ROW(IQ4_XS),
#undef ROW
};
static void form_block_any(ie_format_id f, const uint32_t *unit, uint32_t b, const uint32_t *x, form_block *o) {
    by_format[f].block(unit, b, x, o);
}

/* ---- strips --------------------------------------------------------------------------------------------------------------- */

static ie_sblk strip[2][IE_STRIP];

static void form_strip_words(ie_format_id f, const uint32_t *unit, uint32_t b, uint32_t (*w)[32]) {
    by_format[f].unpack(strip, unit, 0, 2, 0, ie_u_blocks(f));
    for (uint32_t e = 0; e < 8; e++)
        for (uint32_t r = 0; r < 32; r++) w[e][r] = strip[r / IE_MM_ROWS][b].w[e][r % IE_MM_ROWS];
}
static bool form_strip(ie_format_id f, const uint32_t *unit, const uint32_t *x, uint32_t which, uint32_t *nt, float (*sums)[FORM_T][32],
                       float (*mins)[FORM_T][32]) {
    static ie_sums acc[FORM_T], tot[FORM_T];
    uint32_t n, nb = ie_u_blocks(f);
    const ie_strip_row *rows = ie_strip_rows(f, &n);
    if (which >= n) return false;
    *nt = rows[which].nt;
    by_format[f].unpack(strip, unit, 0, 2, 0, nb);
    for (uint32_t m = 0; m < 2; m++) /* the dots, then the minimums */
        for (uint32_t h = 0; h < 2; h++)
            for (uint32_t b = 0; b < nb; b++) {
                ie_sblk *s = &strip[h][b];
                for (uint32_t r = 0; r < IE_MM_ROWS; r++) s->d[r] = m ? 0.0f : 1.0f, s->m[r] = m ? 1.0f : 0.0f;
                ie_strip p = {.blk = s, .nb = 1, .open = true, .close = true, .first = true, .x = x + b * FORM_T * IE_Q8_WORDS, .acc = acc, .tot = tot};
                rows[which].fn(&p);
                for (uint32_t t = 0; t < *nt; t++) memcpy((m ? mins : sums)[b][t] + h * IE_MM_ROWS, tot[t], sizeof tot[t]);
            }
    return true;
}

static void form_element(ie_format_id f, const uint32_t *unit, uint32_t k, float *out) {
    for (uint32_t r = 0; r < IE_TILE_ROWS; r += IE_VW)
        vf_store(out + r, f == IE_F_F32 ? ie_float_at(IE_F_F32, unit, k, r) : f == IE_F_F16 ? ie_float_at(IE_F_F16, unit, k, r) : ie_float_at(IE_F_BF16, unit, k, r));
}
static uint32_t form_bias(ie_format_id f) { return ie_u_bias(f); }
static uint32_t form_strip_bias(ie_format_id f) { return ie_strip_bias(f); }
static uint32_t form_unit_words(ie_format_id f) { return ie_u_unit_words(f); }

const form_table FORMS = {
    .level = IE_LEVEL_ID,
    .lanes = IE_VW,
    .max_byte = IE_U8_RUNS ? 127u : 255u,
#define ROW(f) [FORM_##f] = form_##f,
    .word = {FORM_WORDS(ROW)},
#undef ROW
#define ROW(f) [FORM_F_##f] = form_##f,
    .floats = {FORM_FLOATS(ROW)},
#undef ROW
#define ROW(f) [FORM_M_##f] = form_##f,
    .move = {FORM_MOVES(ROW)},
#undef ROW
    .shift = form_shift,
    .or_bits = form_or_bits,
    .dot_words = form_dot_words,
    .hadd = form_hadd,
    .hmaxu = form_hmaxu,
    .tree = form_tree,
    .hmax = form_hmax,
    .tree8 = form_tree8,
    .rep8 = form_rep8,
    .first = form_first,
    .bias = form_bias,
    .strip_bias = form_strip_bias,
    .unit_words = form_unit_words,
    .block = form_block_any,
    .strip = form_strip,
    .strip_words = form_strip_words,
    .element = form_element,
    .q8 = q8_quantize,
};
