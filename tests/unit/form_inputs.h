/* Inputs for the tests that compare vector forms with the core, and the core's Q8 block. */
#ifndef FORM_INPUTS_H
#define FORM_INPUTS_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "ie_core.h"
#include "ie_math.h"

/* Inputs of each form: 10^6, or IE_LAW_RUNS. */
static inline uint32_t form_runs(void) {
    const char *env = getenv("IE_LAW_RUNS");
    return env ? (uint32_t)strtoul(env, NULL, 10) : 1000000u;
}

static uint64_t form_seed = 0x9E3779B97F4A7C15u;
static inline uint32_t rnd(void) {
    form_seed ^= form_seed << 13, form_seed ^= form_seed >> 7, form_seed ^= form_seed << 17;
    return (uint32_t)(form_seed >> 32);
}
/* Words: any, or bytes and bits at their extremes. */
static inline uint32_t any(void) {
    static const uint32_t ends[8] = {0, 0xFFFFFFFFu, 0x80808080u, 0x7F7F7F7Fu, 0x80000000u, 0x7FFFFFFFu, 0x0F0F0F0Fu, 0xF0F0F0F0u};
    uint32_t r = rnd();
    return r % 16u ? rnd() : ends[r / 16u % 8u];
}
/* Four activations: bytes in [-127, 127]. */
static inline uint32_t act(void) {
    static const uint32_t ends[4] = {0x7F7F7F7Fu, 0x81818181u, 0x817F817Fu, 0};
    uint32_t r = rnd(), w = r % 16u ? rnd() : ends[r / 16u % 4u];
    for (uint32_t k = 0; k < 4; k++)
        if (ie_byte_u(w, k) == 0x80u) w ^= 1u << (8u * k);
    return w;
}
static inline float number(void) { return ((float)(rnd() >> 8) * 0x1p-23f - 1.0f) * ie_f32_of((100u + rnd() % 50u) << 23); }

static inline bool same(uint32_t a, uint32_t b) { return a == b || (ie_f32_of(a) != ie_f32_of(a) && ie_f32_of(b) != ie_f32_of(b)); }
static inline bool same_float(float a, float b) { return same(ie_bits_of(a), ie_bits_of(b)); }

/* The block that the scalar functions make of 32 floats. */
static inline bool q8_core(const float *x, uint32_t *o) {
    float amax = 0, id;
    uint32_t top = 0;
    memset(o, 0, IE_Q8_WORDS * sizeof *o);
    for (uint32_t i = 0; i < 32; i++) {
        uint32_t u = ie_bits_of(x[i]) & 0x7FFFFFFFu;
        top = u > top ? u : top;
    }
    if (top >= 0x7F800000u) return false;
    amax = ie_f32_of(top);
    const float d = ie_q8_scale(amax, &id);
    for (uint32_t i = 0; i < 32; i++) o[i / 4u] |= ((uint32_t)ie_q8_value(x[i], id) & 255u) << (8u * (i % 4u));
    const int32_t nsum = ie_q8_nsum(o, 8);
    o[IE_Q8_D] = ie_bits_of(d), o[IE_Q8_SA] = ie_bits_of(d * (float)-nsum);
    o[IE_Q8_NSUM] = (uint32_t)nsum, o[IE_Q8_NLO] = (uint32_t)ie_q8_nsum(o, 4), o[IE_Q8_NHI] = (uint32_t)ie_q8_nsum(o + 4, 4);
    return true;
}

#endif
