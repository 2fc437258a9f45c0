#include "requant.h"

#include <math.h>

#include "ie_core.h"
#include "ie_math.h"

void ie_q8_0_quantize(const float *x, uint8_t *out) {
    float amax = 0;
    for (uint32_t i = 0; i < IE_BLOCK; i++) amax = fmaxf(amax, fabsf(x[i]));
    float d = amax / 127.0f, inv = d != 0 ? 1.0f / d : 0.0f;
    uint16_t h = ie_f32_to_f16(d);
    for (uint32_t k = 0; k < 2; k++) out[k] = (uint8_t)ie_byte_u(h, k);
    for (uint32_t i = 0; i < IE_BLOCK; i++) out[2 + i] = (uint8_t)(int8_t)roundf(x[i] * inv);
}
