/* IQ4_NL: w = d * codebook[n]. GGUF: d f16, 16 bytes of nibbles. Unit: d h | q 4, as Q4_0. */
#include "unit.h"

void ie_iq4_nl_repack(const uint8_t *src, uint32_t n, uint32_t *unit, uint32_t r) {
    (void)n;
    unit_put_half(unit, IE_Q4_0_D, 0, r, ie_load16(src + IE_G_Q4_0_D));
    unit_put_n(unit, IE_Q4_0_Q, r, src + IE_G_Q4_0_Q, 4);
}

void ie_iq4_nl_dequant(const uint32_t *unit, uint32_t r, float *out) {
    uint32_t q[4];
    float d = ie_f16_to_f32(unit_get_half(unit, IE_Q4_0_D, 0, r));
    unit_get_n(unit, IE_Q4_0_Q, r, q, 4);
    for (uint32_t i = 0; i < 32; i++) out[i] = d * (float)ie_iq4_s(ie_byte_u(ie_q4_bytes(q, i / 4u), i % 4u));
}
