/* F16: unit = e[32] half-words, element k of 32 rows = 16 words. */
#include "unit.h"

void ie_f16_repack(const uint8_t *src, uint32_t n, uint32_t *unit, uint32_t r) {
    for (uint32_t k = 0; k < n; k++) unit_put_half(unit, 0, k, r, ie_load16(src + 2u * k));
}

void ie_f16_dequant(const uint32_t *unit, uint32_t r, float *out) {
    for (uint32_t k = 0; k < 32; k++) out[k] = ie_f16_to_f32(unit_get_half(unit, 0, k, r));
}
