/* Quantising at load time, for the switches that keep a matrix in another format than the file's. */
#ifndef IE_REQUANT_H
#define IE_REQUANT_H

#include <stdint.h>

/* One block of 32 floats as GGUF Q8_0 (34 bytes: f16 d, 32 int8), by ggml's rule: d = amax / 127, q = round(x / d). */
void ie_q8_0_quantize(const float *x, uint8_t *out);

#endif
