/* The vector forms of one SIMD level as functions over arrays, so that one test compares all levels with core/ie_core.h.
 * forms_LEVEL.c, compiled with the level's instruction set, holds the table of each (forms_level.h). */
#ifndef FORMS_H
#define FORMS_H

#include "cpu/level.h"
#include "quant/quant.h"

#define FORM_LANES 16u /* of an array; a level of 8 lanes takes two vectors for it */

/* Forms of one word a lane: out = f(a, b, c), lane by lane. */
#define FORM_WORDS(X) X(add) X(sub) X(mul) X(and) X(or) X(xor) X(maxu) X(max) X(min) X(add8) X(select_eq) X(select_gt) X(dot_us) X(dot_ss) X(lut16) X(f16_lo) X(load_u16) \
    X(load_f16) X(store_f16) X(store_i8) X(from_int) X(to_int)
enum {
#define ID(f) FORM_##f,
    FORM_WORDS(ID) FORM_WORD_COUNT
#undef ID
};
typedef void form_word(const uint32_t *a, const uint32_t *b, const uint32_t *c, uint32_t *out);

/* Float functions, lane by lane. */
#define FORM_FLOATS(X) X(exp) X(sigmoid) X(silu)
enum {
#define ID(f) FORM_F_##f,
    FORM_FLOATS(ID) FORM_FLOAT_COUNT
#undef ID
};

/* Exchanges of lanes by 16 floats a and 16 b; out: 16 floats. `unzip`: lanes even, then odd, of a vector pair (a level of 8 lanes: of the
 * first 16 floats, one call). */
#define FORM_MOVES(X) X(dup_even) X(dup_odd) X(swap_pairs) X(unzip_even) X(unzip_odd)
enum {
#define ID(f) FORM_M_##f,
    FORM_MOVES(ID) FORM_MOVE_COUNT
#undef ID
};

/* A block of the unit's 32 rows, unpacked, and its dots with a Q8 block. */
typedef struct {
    uint32_t w[8][32];
    float d[32], m[32];
    int32_t s0[32], s1[32], n0[32], n1[32];
    int32_t dot[2][32], mins[32]; /* the dot in one chain, and in two */
} form_block;

#define FORM_T 16u

typedef struct {
    ie_level level;
    uint32_t lanes, max_byte; /* max_byte: the largest unsigned weight byte that dot_words takes */
    form_word *word[FORM_WORD_COUNT];
    void (*floats[FORM_FLOAT_COUNT])(const float *a, float *out);
    void (*move[FORM_MOVE_COUNT])(const float *a, const float *b, float *out);
    /* Shifts by each constant n < 32: left, right, arithmetic right, left of the word at a in all lanes. */
    void (*shift)(uint32_t kind, uint32_t n, const uint32_t *a, uint32_t *out);
    void (*or_bits)(const uint32_t *w, const uint32_t *bits, uint32_t j, bool high, uint32_t *out); /* high: to bit 4 of the bytes, else 2 */
    int32_t (*dot_words)(const uint32_t *w, const uint32_t *x, uint32_t n, uint32_t umax, int32_t start); /* of lane 0; n: 4 or 8 */
    /* Reductions over the level's lanes. */
    int32_t (*hadd)(const uint32_t *a);
    uint32_t (*hmaxu)(const uint32_t *a);
    float (*tree)(const float *a), (*hmax)(const float *a);
    void (*tree8)(const float *a, float *out); /* 8 vectors to one */
    void (*rep8)(const float *a, float *out);
    void (*first)(const float *a, uint32_t n, float *out); /* load and store of the first n lanes */

    uint32_t (*bias)(ie_format_id f), (*strip_bias)(ie_format_id f), (*unit_words)(ie_format_id f);
    /* Block b of a unit, from its words; x: a Q8 block. */
    void (*block)(ie_format_id f, const uint32_t *unit, uint32_t b, const uint32_t *x, form_block *o);
    /* A strip's blocks of a unit by the GEMM's kernels, with scales of 1: sums[block][token][row], exact integers as floats. x: Q8 blocks [block][16
     * tokens]. which: the kernel (it does *nt tokens). False: there is none. */
    bool (*strip)(ie_format_id f, const uint32_t *unit, const uint32_t *x, uint32_t which, uint32_t *nt, float (*sums)[FORM_T][32],
                  float (*mins)[FORM_T][32]);
    void (*strip_words)(ie_format_id f, const uint32_t *unit, uint32_t b, uint32_t (*w)[32]);
    /* Element k of the 32 rows of a unit of a float format. */
    void (*element)(ie_format_id f, const uint32_t *unit, uint32_t k, float *out);
    bool (*q8)(const float *x, uint32_t n, uint32_t *dst, uint32_t stride);
} form_table;

extern const form_table forms_portable, forms_avx2, forms_avx512;

#endif
