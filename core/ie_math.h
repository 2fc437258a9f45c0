/* Float functions with the same bits on every compiler and device.
 *
 * Each is a fixed sequence of IEEE single operations (add, multiply, fma, divide, compare-and-select) and integer
 * operations on bit patterns: no table, no branch, no libm. */
#ifndef IE_MATH_H
#define IE_MATH_H

#include "ie_core.h"

/* ---- bit patterns and half precision ---------------------------------------------------------------------------- */

static inline float ie_f32_of(uint32_t bits) {
    float f;
    __builtin_memcpy(&f, &bits, sizeof f);
    return f;
}
static inline uint32_t ie_bits_of(float f) {
    uint32_t bits;
    __builtin_memcpy(&bits, &f, sizeof bits);
    return bits;
}
static inline float ie_f16_to_f32(uint32_t h) { return ie_f32_of(ie_f16_f32_bits(h)); }
static inline uint16_t ie_f32_to_f16(float f) { /* nearest, ties to even */
    return (uint16_t)ie_f32_f16_bits(ie_bits_of(f));
}
static inline float ie_bf16_to_f32(uint32_t h) { return ie_f32_of(ie_bf16_f32_bits(h)); }

#endif
