/* Q4_1: w = d * n + m. GGUF: d f16, m f16, 16 bytes of nibbles. Unit: dm 1 | q 4. */
#include "unit.h"

void ie_q4_1_repack(const uint8_t *src, uint32_t n, uint32_t *unit, uint32_t r) {
    (void)n;
    unit_put_n(unit, IE_Q4_1_DM, r, src + IE_G_Q4_1_DM, 1);
    unit_put_n(unit, IE_Q4_1_Q, r, src + IE_G_Q4_1_Q, 4);
}

void ie_q4_1_dequant(const uint32_t *unit, uint32_t r, float *out) {
    uint32_t q[4], dm = unit_get(unit, IE_Q4_1_DM, 0, r);
    float d = ie_f16_to_f32(ie_half_of(dm, 0)), m = ie_f16_to_f32(ie_half_of(dm, 1));
    unit_get_n(unit, IE_Q4_1_Q, r, q, 4);
    for (uint32_t i = 0; i < 32; i++) out[i] = d * (float)ie_byte_u(ie_q4_bytes(q, i / 4u), i % 4u) + m;
}
