/* F32: unit = e[32], element k of 32 rows = 32 words. */
#include "unit.h"

void ie_f32_repack(const uint8_t *src, uint32_t n, uint32_t *unit, uint32_t r) {
    for (uint32_t k = 0; k < n; k++) unit_put(unit, 0, k, r, ie_load32(src + 4u * k));
}

void ie_f32_dequant(const uint32_t *unit, uint32_t r, float *out) {
    for (uint32_t k = 0; k < 32; k++) out[k] = ie_f32_of(unit_get(unit, 0, k, r));
}
