/* The table of weight formats, and whole rows. */
#include <string.h>

#include "unit.h"

/* id, ggml type, name, arithmetic, blocks, GGUF bytes, unit words, functions (in the format's file). */
const ie_format ie_formats[IE_F_COUNT] = {
    [IE_F_F32] = {IE_F_F32, 0, "F32", IE_FLOAT, 1, 128, IE_F32_WORDS, ie_f32_repack, ie_f32_dequant},
    [IE_F_F16] = {IE_F_F16, 1, "F16", IE_FLOAT, 1, 64, IE_F16_WORDS, ie_f16_repack, ie_f16_dequant},
    [IE_F_BF16] = {IE_F_BF16, 30, "BF16", IE_FLOAT, 1, 64, IE_F16_WORDS, ie_bf16_repack, ie_bf16_dequant},
    [IE_F_Q4_0] = {IE_F_Q4_0, 2, "Q4_0", IE_DOT, 1, 18, IE_Q4_0_WORDS, ie_q4_0_repack, ie_q4_0_dequant},
    [IE_F_Q4_1] = {IE_F_Q4_1, 3, "Q4_1", IE_DOT_MIN, 1, 20, IE_Q4_1_WORDS, ie_q4_1_repack, ie_q4_1_dequant},
    [IE_F_Q5_0] = {IE_F_Q5_0, 6, "Q5_0", IE_DOT, 1, 22, IE_Q5_0_WORDS, ie_q5_0_repack, ie_q5_0_dequant},
    [IE_F_Q5_1] = {IE_F_Q5_1, 7, "Q5_1", IE_DOT_MIN, 1, 24, IE_Q5_1_WORDS, ie_q5_1_repack, ie_q5_1_dequant},
    [IE_F_Q8_0] = {IE_F_Q8_0, 8, "Q8_0", IE_DOT, 1, 34, IE_Q8_0_WORDS, ie_q8_0_repack, ie_q8_0_dequant},
    [IE_F_Q2_K] = {IE_F_Q2_K, 10, "Q2_K", IE_DOT2_MIN, 8, 84, IE_Q2_K_WORDS, ie_q2_k_repack, ie_q2_k_dequant},
    [IE_F_Q3_K] = {IE_F_Q3_K, 11, "Q3_K", IE_DOT2, 8, 110, IE_Q3_K_WORDS, ie_q3_k_repack, ie_q3_k_dequant},
    [IE_F_Q4_K] = {IE_F_Q4_K, 12, "Q4_K", IE_DOT_MIN, 8, 144, IE_Q4_K_WORDS, ie_q4_k_repack, ie_q4_k_dequant},
    [IE_F_Q5_K] = {IE_F_Q5_K, 13, "Q5_K", IE_DOT_MIN, 8, 176, IE_Q5_K_WORDS, ie_q5_k_repack, ie_q5_k_dequant},
    [IE_F_Q6_K] = {IE_F_Q6_K, 14, "Q6_K", IE_DOT2, 8, 210, IE_Q6_K_WORDS, ie_q6_k_repack, ie_q6_k_dequant},
    [IE_F_IQ4_NL] = {IE_F_IQ4_NL, 20, "IQ4_NL", IE_DOT, 1, 18, IE_Q4_0_WORDS, ie_iq4_nl_repack, ie_iq4_nl_dequant},
    [IE_F_IQ4_XS] = {IE_F_IQ4_XS, 23, "IQ4_XS", IE_DOT, 8, 136, IE_IQ4_XS_WORDS, ie_iq4_xs_repack, ie_iq4_xs_dequant},
};

const ie_format *ie_format_of_ggml(uint32_t ggml_type) {
    for (uint32_t i = 0; i < IE_F_COUNT; i++)
        if (ie_formats[i].ggml_type == ggml_type) return &ie_formats[i];
    return NULL;
}

const char *ie_format_list(void) {
    return "F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL, IQ4_XS";
}

void ie_repack_rows(const ie_format *f, uint32_t k, const uint8_t *src, uint32_t n_rows, uint32_t row0, uint32_t *dst) {
    uint32_t nsb = ie_nsb(f, k), len = f->blocks * IE_BLOCK, tail = k - (nsb - 1u) * len;
    size_t row_bytes = ie_gguf_row_bytes(k, f->blocks, f->gguf_bytes);
    for (uint32_t i = 0; i < n_rows;) {
        uint32_t r0 = (row0 + i) % IE_TILE_ROWS, n = IE_TILE_ROWS - r0;
        if (n > n_rows - i) n = n_rows - i;
        const uint8_t *rows = src + (size_t)i * row_bytes;
        for (uint32_t sb = 0; sb < nsb; sb++) {
            uint32_t *unit = dst + (size_t)ie_unit((row0 + i) / IE_TILE_ROWS, sb, nsb) * f->unit_words;
            for (uint32_t r = 0; r < n; r++)
                f->repack(rows + (size_t)r * row_bytes + (size_t)sb * f->gguf_bytes, sb + 1u < nsb ? len : tail, unit,
                          r0 + r);
        }
        i += n;
    }
}

void ie_dequant_row(const ie_format *f, uint32_t k, const uint32_t *mat, uint32_t row, float *out) {
    float buf[8u * IE_BLOCK];
    uint32_t nsb = ie_nsb(f, k), len = f->blocks * IE_BLOCK;
    for (uint32_t sb = 0; sb < nsb; sb++) {
        uint32_t n = k - sb * len < len ? k - sb * len : len;
        f->dequant(mat + (size_t)ie_unit(row / IE_TILE_ROWS, sb, nsb) * f->unit_words, row % IE_TILE_ROWS, buf);
        memcpy(out + (size_t)sb * len, buf, n * sizeof *buf);
    }
}
