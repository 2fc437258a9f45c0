#include "strmap.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

void ie_random_key(uint64_t key[2]) {
    if (getrandom(key, 16, GRND_NONBLOCK) == 16) return;
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    key[0] = (uint64_t)t.tv_nsec * 0x9E3779B97F4A7C15u ^ (uint64_t)(uintptr_t)key;
    key[1] = (uint64_t)t.tv_sec * 0xC2B2AE3D27D4EB4Fu + (uint64_t)clock();
}

static inline uint64_t rotl(uint64_t x, int n) { return x << n | x >> (64 - n); }

static inline void sip_round(uint64_t v[4]) {
    v[0] += v[1], v[1] = rotl(v[1], 13) ^ v[0], v[0] = rotl(v[0], 32);
    v[2] += v[3], v[3] = rotl(v[3], 16) ^ v[2];
    v[0] += v[3], v[3] = rotl(v[3], 21) ^ v[0];
    v[2] += v[1], v[1] = rotl(v[1], 17) ^ v[2], v[2] = rotl(v[2], 32);
}

/* SipHash-1-3 (Aumasson, Bernstein 2012). */
static uint64_t sip13(const uint64_t key[2], const char *s, size_t len) {
    uint64_t v[4] = {key[0] ^ 0x736f6d6570736575u, key[1] ^ 0x646f72616e646f6du, key[0] ^ 0x6c7967656e657261u,
                     key[1] ^ 0x7465646279746573u};
    uint64_t m;
    size_t i = 0;
    for (; i + 8 <= len; i += 8) {
        memcpy(&m, s + i, 8);
        v[3] ^= m;
        sip_round(v);
        v[0] ^= m;
    }
    m = (uint64_t)len << 56;
    for (size_t j = 0; i + j < len; j++) m |= (uint64_t)(unsigned char)s[i + j] << (8 * j);
    v[3] ^= m;
    sip_round(v);
    v[0] ^= m;
    v[2] ^= 0xFF;
    for (int r = 0; r < 3; r++) sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

bool ie_strmap_init(ie_strmap *m, size_t n, ie_error *err) {
    size_t slots = 16;
    while (slots < 2 * n) slots *= 2;
    ie_random_key(m->key);
    m->mask = slots - 1;
    m->slot = ie_calloc(slots, sizeof *m->slot, "vocabulary index", err);
    m->hash = m->slot ? ie_calloc(slots, sizeof *m->hash, "vocabulary index", err) : NULL;
    return m->hash != NULL;
}

void ie_strmap_free(ie_strmap *m) {
    free(m->slot);
    free(m->hash);
    *m = (ie_strmap){0};
}

/* The slot that holds the string, or the free one where it belongs. */
static size_t probe(const ie_strmap *m, const ie_str *all, const char *s, size_t len, uint32_t *high) {
    uint64_t h = sip13(m->key, s, len);
    *high = (uint32_t)(h >> 32);
    size_t i = (size_t)h & m->mask;
    for (; m->slot[i]; i = (i + 1) & m->mask) {
        if (m->hash[i] != *high) continue;
        const ie_str *k = &all[m->slot[i] - 1];
        if (k->len == len && memcmp(k->s, s, len) == 0) break;
    }
    return i;
}

int32_t ie_strmap_get(const ie_strmap *m, const ie_str *all, const char *s, size_t len) {
    uint32_t high;
    return (int32_t)m->slot[probe(m, all, s, len, &high)] - 1;
}

void ie_strmap_put(ie_strmap *m, const ie_str *all, uint32_t index) {
    uint32_t high;
    size_t i = probe(m, all, all[index].s, (size_t)all[index].len, &high);
    m->slot[i] = index + 1;
    m->hash[i] = high;
}
