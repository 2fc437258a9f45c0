/* Q4_K: w = d * scale * n - dmin * min, scale and min 6 bits for each block.
 * GGUF: d f16, dmin f16, 12 bytes of scales and mins, 128 bytes of nibbles. Unit: dm 1 | sc 3 | 8 x (q 4). */
#include "unit.h"

void ie_q4_k_repack(const uint8_t *src, uint32_t n, uint32_t *unit, uint32_t r) {
    (void)n;
    unit_put_n(unit, IE_Q4_K_DM, r, src + IE_G_Q4_K_DM, 1);
    unit_put_n(unit, IE_Q4_K_SC, r, src + IE_G_Q4_K_SC, 3);
    for (uint32_t b = 0; b < 8; b++)
        for (uint32_t w = 0; w < 4; w++)
            unit_put(unit, IE_Q4_K_B + b * IE_Q4_K_B_WORDS, w, r, ie_take_q4k(src + IE_G_Q4_K_Q, b, w));
}

void ie_q4_k_dequant(const uint32_t *unit, uint32_t r, float *out) {
    uint32_t sc[3], q[4], dm = unit_get(unit, IE_Q4_K_DM, 0, r);
    float d = ie_f16_to_f32(ie_half_of(dm, 0)), dmin = ie_f16_to_f32(ie_half_of(dm, 1));
    unit_get_n(unit, IE_Q4_K_SC, r, sc, 3);
    for (uint32_t b = 0; b < 8; b++) {
        float ds = d * (float)ie_k4_scale(sc, b), m = dmin * (float)ie_k4_min(sc, b);
        unit_get_n(unit, IE_Q4_K_B + b * IE_Q4_K_B_WORDS, r, q, 4);
        for (uint32_t i = 0; i < 32; i++) out[32u * b + i] = ds * (float)ie_byte_u(ie_q4_bytes(q, i / 4u), i % 4u) - m;
    }
}
