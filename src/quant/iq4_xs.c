/* IQ4_XS: w = d * scale * codebook[n], scale 6 bits - 32 for each block.
 * GGUF: d f16, 2 bytes scales_h, 4 bytes scales_l, 128 bytes of nibbles. Unit: dh 1 | sl 1 | 8 x (q 4). */
#include "unit.h"

void ie_iq4_xs_repack(const uint8_t *src, uint32_t n, uint32_t *unit, uint32_t r) {
    (void)n;
    unit_put_n(unit, IE_IQ4_XS_DH, r, src + IE_G_IQ4_XS_DH, 1);
    unit_put_n(unit, IE_IQ4_XS_SL, r, src + IE_G_IQ4_XS_SL, 1);
    for (uint32_t b = 0; b < 8; b++) unit_put_n(unit, IE_IQ4_XS_B + b * IE_IQ4_XS_B_WORDS, r, src + IE_G_IQ4_XS_Q + 16u * b, 4);
}

void ie_iq4_xs_dequant(const uint32_t *unit, uint32_t r, float *out) {
    uint32_t q[4], dh = unit_get(unit, IE_IQ4_XS_DH, 0, r), sl = unit_get(unit, IE_IQ4_XS_SL, 0, r);
    float d = ie_f16_to_f32(ie_half_of(dh, 0));
    for (uint32_t b = 0; b < 8; b++) {
        float ds = d * (float)ie_iq4xs_scale(ie_half_of(dh, 1), sl, b);
        unit_get_n(unit, IE_IQ4_XS_B + b * IE_IQ4_XS_B_WORDS, r, q, 4);
        for (uint32_t i = 0; i < 32; i++)
            out[32u * b + i] = ds * (float)ie_iq4_s(ie_byte_u(ie_q4_bytes(q, i / 4u), i % 4u));
    }
}
