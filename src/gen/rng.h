/* The random numbers of sampling: Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3,
 * SC 2011), a counter-based generator. The number for output token `index` is a function of seed and index alone, so slots,
 * batches and drafts cannot change it. */
#ifndef IE_RNG_H
#define IE_RNG_H

#include <stdint.h>

static inline void ie_philox4x32(const uint32_t key_in[2], const uint32_t ctr_in[4], uint32_t out[4]) {
    uint32_t k0 = key_in[0], k1 = key_in[1], c0 = ctr_in[0], c1 = ctr_in[1], c2 = ctr_in[2], c3 = ctr_in[3];
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xD2511F53u * c0, b = (uint64_t)0xCD9E8D57u * c2;
        uint32_t n0 = (uint32_t)(b >> 32) ^ c1 ^ k0, n2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)b;
        c3 = (uint32_t)a;
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

/* Uniform in [0, 1) with 53 bits: words 0 and 1 of the block with key = seed, counter = (index, 0). */
static inline double ie_uniform(uint64_t seed, uint64_t index) {
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)}, ctr[4] = {(uint32_t)index, (uint32_t)(index >> 32), 0, 0}, r[4];
    ie_philox4x32(key, ctr, r);
    return (double)((((uint64_t)r[1] << 32) | r[0]) >> 11) * 0x1p-53;
}

#endif
