/* Writing an op's outputs: f32 and Q8 (core/ie_core.h: IE_Q8_*), by waves. */
#ifndef IE_KERNEL_Q8_H
#define IE_KERNEL_Q8_H

#include "gpu.h"

/* One Q8 block from the 32 values of a wave's lanes: 64 bytes by one store. True: not all finite (the block is zeros). */
IE_INLINE bool ie_q8_put(IE_GLOBAL uint32_t *to, float x) {
    uint32_t l = ie_lane();
    uint32_t top = ie_wave_maxu(ie_bits_of(x) & 0x7FFFFFFFu);
    bool bad = top >= 0x7F800000u;
    float id, d = ie_q8_scale(bad ? 0.0f : ie_f32_of(top), &id);
    int32_t q = ie_q8_value(bad ? 0.0f : x, id);
    /* sums of the lower and the upper 16 */
    uint32_t s = (uint32_t)q;
    s += ie_xor(s, 1);
    s += ie_xor(s, 2);
    s += ie_xor(s, 4);
    s += ie_xor(s, 8);
    uint32_t t = ie_xor(s, 16), lo = l < 16u ? s : t, hi = l < 16u ? t : s;
    int32_t sum = (int32_t)(s + t);
    uint32_t w = ie_bytes4((uint32_t)q), e = l / 4u, more = 0u; /* lanes 4e write word e, lanes 4e + 1 word 8 + e */
    more = e == 0u ? ie_bits_of(d) : more;
    more = e == 1u ? ie_bits_of(d * (float)sum) : more;
    more = e == 2u ? (uint32_t)-sum : more;
    more = e == 3u ? 0u - lo : more;
    more = e == 4u ? 0u - hi : more;
    if (l % 4u < 2u) to[l % 4u == 0u ? e : 8u + e] = l % 4u == 0u ? w : more;
    return bad;
}

/* Where block b of row t of an op's Q8 output lies. */
IE_INLINE IE_GLOBAL uint32_t *ie_out_block(const ie_abi_out *o, uint32_t t, uint32_t b) {
    uint32_t at = ie_q8_at(t, b, o->nblk, o->group);
    return o->q8 + (uint64_t)ie_uniform(at) * IE_Q8_WORDS;
}

/* Value i of row t, lane = i mod 32, all lanes of the wave together; values from n on count as zeros. */
IE_INLINE void ie_out_put(const ie_abi_out *o, uint32_t t, uint32_t i, uint32_t n, float v) {
    if (o->y && i < n) o->y[(uint64_t)t * o->y_ld + i] = v;
    if (!o->q8) return;
    bool bad = ie_q8_put(ie_out_block(o, t, i / IE_BLOCK), i < n ? v : 0.0f);
    if (bad && ie_lane() == 0u) ie_atomic_max(&o->batch->bad, o->bad);
}

#endif
