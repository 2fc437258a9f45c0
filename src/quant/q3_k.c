/* Q3_K: w = d * scale * (n - 4), scale 6 bits - 32 for each 16 weights; n = 2 low bits + high bit * 4.
 * GGUF: 32 bytes of high bits, 64 bytes of 2-bit planes, 12 bytes of scales, d f16. Unit: d h | sc 3 | 8 x (qh 1 | q2
 * 2). */
#include "unit.h"

void ie_q3_k_repack(const uint8_t *src, uint32_t n, uint32_t *unit, uint32_t r) {
    (void)n;
    unit_put_half(unit, IE_Q3_K_D, 0, r, ie_load16(src + IE_G_Q3_K_D));
    unit_put_n(unit, IE_Q3_K_SC, r, src + IE_G_Q3_K_SC, 3);
    for (uint32_t b = 0; b < 8; b++) {
        uint32_t base = IE_Q3_K_B + b * IE_Q3_K_B_WORDS;
        unit_put(unit, base, 0, r, ie_take_bits(src + IE_G_Q3_K_QH, b));
        for (uint32_t w = 0; w < 2; w++) unit_put(unit, base + 32u, w, r, ie_take_q2k(src + IE_G_Q3_K_Q2, b, w));
    }
}

void ie_q3_k_dequant(const uint32_t *unit, uint32_t r, float *out) {
    uint32_t sc[3], q2[2];
    float d = ie_f16_to_f32(unit_get_half(unit, IE_Q3_K_D, 0, r));
    unit_get_n(unit, IE_Q3_K_SC, r, sc, 3);
    for (uint32_t b = 0; b < 8; b++) {
        uint32_t base = IE_Q3_K_B + b * IE_Q3_K_B_WORDS, qh = unit_get(unit, base, 0, r);
        unit_get_n(unit, base + 32u, r, q2, 2);
        for (uint32_t i = 0; i < 32; i++) {
            float ds = d * (float)ie_q3k_scale(sc, 2u * b + i / 16u);
            out[32u * b + i] = ds * (float)((int32_t)ie_byte_u(ie_q3_bytes(q2, qh, i / 4u), i % 4u) - 4);
        }
    }
}
