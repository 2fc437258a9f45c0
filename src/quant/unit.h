/* Access to one row of a unit, for the format files: fields by the word-major map of core/ie_core.h. */
#ifndef IE_UNIT_H
#define IE_UNIT_H

#include "ie_math.h"
#include "quant.h"

static inline void unit_put(uint32_t *unit, uint32_t base, uint32_t w, uint32_t r, uint32_t v) {
    unit[ie_field_wm(base, w, r)] = v;
}
static inline uint32_t unit_get(const uint32_t *unit, uint32_t base, uint32_t w, uint32_t r) {
    return unit[ie_field_wm(base, w, r)];
}
/* n words of row r. */
static inline void unit_get_n(const uint32_t *unit, uint32_t base, uint32_t r, uint32_t *out, uint32_t n) {
    for (uint32_t w = 0; w < n; w++) out[w] = unit_get(unit, base, w, r);
}
/* n words of row r from 4 n little-endian bytes. */
static inline void unit_put_n(uint32_t *unit, uint32_t base, uint32_t r, const uint8_t *src, uint32_t n) {
    for (uint32_t w = 0; w < n; w++) unit_put(unit, base, w, r, ie_load32(src + 4u * w));
}
/* Half-word e of row r. Two rows share a word: rows of one unit are written by one thread. */
static inline void unit_put_half(uint32_t *unit, uint32_t base, uint32_t e, uint32_t r, uint32_t half) {
    uint32_t h = ie_field_half(base, e, r);
    unit[h / 2u] = ie_half_put(unit[h / 2u], h % 2u, half);
}
static inline uint32_t unit_get_half(const uint32_t *unit, uint32_t base, uint32_t e, uint32_t r) {
    uint32_t h = ie_field_half(base, e, r);
    return ie_half_of(unit[h / 2u], h % 2u);
}

/* Each format's functions (quant.h: ie_format), in its own file. */
#define UNIT_FORMAT(x)                                                                                                 \
    void ie_##x##_repack(const uint8_t *src, uint32_t n, uint32_t *unit, uint32_t r);                                  \
    void ie_##x##_dequant(const uint32_t *unit, uint32_t r, float *out)
UNIT_FORMAT(f32);
UNIT_FORMAT(f16);
UNIT_FORMAT(bf16);
UNIT_FORMAT(q4_0);
UNIT_FORMAT(q4_1);
UNIT_FORMAT(q5_0);
UNIT_FORMAT(q5_1);
UNIT_FORMAT(q8_0);
UNIT_FORMAT(q2_k);
UNIT_FORMAT(q3_k);
UNIT_FORMAT(q4_k);
UNIT_FORMAT(q5_k);
UNIT_FORMAT(q6_k);
UNIT_FORMAT(iq4_nl);
UNIT_FORMAT(iq4_xs);
#undef UNIT_FORMAT

#endif
