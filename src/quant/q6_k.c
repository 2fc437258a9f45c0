/* Q6_K: w = d * scale * (n - 32), scale int8 for each 16 weights; n = low nibble + 2 high bits * 16.
 * GGUF: 128 bytes of nibbles, 64 bytes of 2-bit planes, 16 scales, d f16. Unit: d h | sc 4 | 8 x (q 4 | q2 2). */
#include "unit.h"

void ie_q6_k_repack(const uint8_t *src, uint32_t n, uint32_t *unit, uint32_t r) {
    (void)n;
    unit_put_half(unit, IE_Q6_K_D, 0, r, ie_load16(src + IE_G_Q6_K_D));
    unit_put_n(unit, IE_Q6_K_SC, r, src + IE_G_Q6_K_SC, 4);
    for (uint32_t b = 0; b < 8; b++) {
        uint32_t base = IE_Q6_K_B + b * IE_Q6_K_B_WORDS;
        for (uint32_t w = 0; w < 4; w++) unit_put(unit, base, w, r, ie_take_q6k(src + IE_G_Q6_K_Q, b, w));
        for (uint32_t w = 0; w < 2; w++) unit_put(unit, base + 128u, w, r, ie_take_q2k(src + IE_G_Q6_K_Q2, b, w));
    }
}

void ie_q6_k_dequant(const uint32_t *unit, uint32_t r, float *out) {
    uint32_t sc[4], q[4], q2[2];
    float d = ie_f16_to_f32(unit_get_half(unit, IE_Q6_K_D, 0, r));
    unit_get_n(unit, IE_Q6_K_SC, r, sc, 4);
    for (uint32_t b = 0; b < 8; b++) {
        uint32_t base = IE_Q6_K_B + b * IE_Q6_K_B_WORDS;
        unit_get_n(unit, base, r, q, 4);
        unit_get_n(unit, base + 128u, r, q2, 2);
        for (uint32_t i = 0; i < 32; i++) {
            float ds = d * (float)ie_q6k_scale(sc, 2u * b + i / 16u);
            out[32u * b + i] = ds * (float)((int32_t)ie_byte_u(ie_q6_bytes(q, q2, i / 4u), i % 4u) - 32);
        }
    }
}
