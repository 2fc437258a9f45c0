/* Random rows of any weight format, as a GGUF file holds them. Numbers in f16 are finite, some of them subnormal: random bits there could be
 * NaNs, whose payload is nobody's promise. */
#ifndef IE_RAND_MAT_H
#define IE_RAND_MAT_H

#include "ie_math.h"
#include "quant/quant.h"

static inline uint32_t rand_next(uint32_t *seed) {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 17;
    *seed ^= *seed << 5;
    return *seed;
}
static inline float rand_float(uint32_t *seed) { return (float)((int32_t)rand_next(seed) >> 8) * 0x1p-23f; } /* [-1, 1) */

static inline void rand_put_half(uint8_t *p, float v) {
    uint16_t h = (uint16_t)ie_f32_f16_bits(ie_bits_of(v));
    p[0] = (uint8_t)h, p[1] = (uint8_t)(h >> 8);
}
/* One weight of a float format. */
static inline void rand_put_float(const ie_format *f, uint8_t *p, float v) {
    uint32_t u = ie_bits_of(v);
    if (f->id == IE_F_F16) rand_put_half(p, v);
    else if (f->id == IE_F_BF16) p[0] = (uint8_t)(u >> 16), p[1] = (uint8_t)(u >> 24);
    else for (int i = 0; i < 4; i++) p[i] = (uint8_t)(u >> (8 * i));
}

/* Bytes of a row; cols: a multiple of a super-block but for floats. */
static inline uint64_t rand_row_bytes(const ie_format *f, uint32_t cols) {
    uint32_t len = f->blocks * IE_BLOCK;
    return f->dot == IE_FLOAT ? (uint64_t)cols * (f->gguf_bytes / len) : (uint64_t)cols / len * f->gguf_bytes;
}

/* So many rows of cols weights to out: rows * rand_row_bytes() bytes. */
static inline void rand_rows(const ie_format *f, uint32_t rows, uint32_t cols, uint32_t *seed, uint8_t *out) {
    /* bytes of a super-block where its f16 numbers lie */
    static const uint8_t halves[IE_F_COUNT][2] = {
        [IE_F_Q4_0] = {0, 0},     [IE_F_Q4_1] = {0, 2}, [IE_F_Q5_0] = {0, 0}, [IE_F_Q5_1] = {0, 2},     [IE_F_Q8_0] = {0, 0},   [IE_F_Q2_K] = {80, 82},
        [IE_F_Q3_K] = {108, 108}, [IE_F_Q4_K] = {0, 2}, [IE_F_Q5_K] = {0, 2}, [IE_F_Q6_K] = {208, 208}, [IE_F_IQ4_NL] = {0, 0}, [IE_F_IQ4_XS] = {0, 0},
    };
    uint64_t bytes = rows * rand_row_bytes(f, cols);
    if (f->dot == IE_FLOAT) {
        uint32_t each = f->gguf_bytes / IE_BLOCK;
        for (uint64_t i = 0; i < (uint64_t)rows * cols; i++) rand_put_float(f, out + i * each, rand_float(seed) * (i % 53 == 0 ? 0x1p-20f : 1.0f));
        return;
    }
    for (uint64_t i = 0; i < bytes; i++) out[i] = (uint8_t)(rand_next(seed) >> 13);
    for (uint64_t b = 0; b < bytes / f->gguf_bytes; b++) {
        rand_put_half(out + b * f->gguf_bytes + halves[f->id][1], rand_float(seed));
        rand_put_half(out + b * f->gguf_bytes + halves[f->id][0], b % 31 ? rand_float(seed) : 0x1p-22f);
    }
}

#endif
