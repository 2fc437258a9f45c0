/* Q8_0: w = d * q. GGUF: d f16, 32 int8. Unit: d h | q 8. */
#include "unit.h"

void ie_q8_0_repack(const uint8_t *src, uint32_t n, uint32_t *unit, uint32_t r) {
    (void)n;
    unit_put_half(unit, IE_Q8_0_D, 0, r, ie_load16(src + IE_G_Q8_0_D));
    unit_put_n(unit, IE_Q8_0_Q, r, src + IE_G_Q8_0_Q, 8);
}

void ie_q8_0_dequant(const uint32_t *unit, uint32_t r, float *out) {
    uint32_t q[8];
    float d = ie_f16_to_f32(unit_get_half(unit, IE_Q8_0_D, 0, r));
    unit_get_n(unit, IE_Q8_0_Q, r, q, 8);
    for (uint32_t i = 0; i < 32; i++) out[i] = d * (float)ie_byte_s(q[i / 4u], i % 4u);
}
