/* Q2_K: w = d * scale * n - dmin * min, scale and min 4 bits for each 16 weights.
 * GGUF: 16 bytes scale | min << 4, 64 bytes of 2-bit planes, d f16, dmin f16. Unit: dm 1 | sc 4 | 8 x (q2 2). */
#include "unit.h"

void ie_q2_k_repack(const uint8_t *src, uint32_t n, uint32_t *unit, uint32_t r) {
    (void)n;
    unit_put_n(unit, IE_Q2_K_DM, r, src + IE_G_Q2_K_DM, 1);
    unit_put_n(unit, IE_Q2_K_SC, r, src + IE_G_Q2_K_SC, 4);
    for (uint32_t b = 0; b < 8; b++)
        for (uint32_t w = 0; w < 2; w++)
            unit_put(unit, IE_Q2_K_B + b * IE_Q2_K_B_WORDS, w, r, ie_take_q2k(src + IE_G_Q2_K_Q2, b, w));
}

void ie_q2_k_dequant(const uint32_t *unit, uint32_t r, float *out) {
    uint32_t sc[4], q2[2], dm = unit_get(unit, IE_Q2_K_DM, 0, r);
    float d = ie_f16_to_f32(ie_half_of(dm, 0)), dmin = ie_f16_to_f32(ie_half_of(dm, 1));
    unit_get_n(unit, IE_Q2_K_SC, r, sc, 4);
    for (uint32_t b = 0; b < 8; b++) {
        unit_get_n(unit, IE_Q2_K_B + b * IE_Q2_K_B_WORDS, r, q2, 2);
        for (uint32_t i = 0; i < 32; i++) {
            uint32_t j = 2u * b + i / 16u;
            float ds = d * (float)ie_q2k_scale(sc, j), m = dmin * (float)ie_q2k_min(sc, j);
            out[32u * b + i] = ds * (float)ie_byte_u(ie_q2_bytes(q2, i / 4u), i % 4u) - m;
        }
    }
}
