/* Memory and name index of the GGUF reader. */
#include "gguf_int.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

/* ---- arena ------------------------------------------------------------------------------------------------------- */

struct ie_gguf_chunk {
    ie_gguf_chunk *next;
    _Alignas(16) unsigned char data[];
};

void *ie_gguf_alloc(ie_gguf_arena *a, uint64_t n, uint64_t size, size_t align, ie_status *why) {
    uint64_t bytes;
    *why = IE_E_FORMAT;
    if (!ie_mul_u64(n, size, &bytes) || bytes > IE_GGUF_META_MAX || a->total + bytes > IE_GGUF_META_MAX) return NULL;
    size_t at = (a->used + align - 1) & ~(align - 1);
    if (!a->chunks || at > a->cap || bytes > a->cap - at) {
        /* Small chunks first: most files of a split set hold three keys. Never smaller than what is asked for. */
        size_t cap = a->total < 1 << 20 ? 1 << 14 : 1 << 20;
        if (cap < bytes) cap = (size_t)bytes;
        ie_gguf_chunk *c = malloc(sizeof *c + cap);
        if (!c) {
            *why = IE_E_NOMEM;
            return NULL;
        }
        c->next = a->chunks;
        a->chunks = c;
        a->cap = cap;
        at = 0;
    }
    a->used = at + (size_t)bytes;
    a->total += bytes;
    return a->chunks->data + at;
}

void ie_gguf_arena_free(ie_gguf_arena *a) {
    for (ie_gguf_chunk *c = a->chunks; c;) {
        ie_gguf_chunk *next = c->next;
        free(c);
        c = next;
    }
    *a = (ie_gguf_arena){0};
}

/* ---- index ------------------------------------------------------------------------------------------------------- */

static uint64_t rotl(uint64_t x, int n) {
    return x << n | x >> (64 - n);
}

static void sip_round(uint64_t v[4]) {
    v[0] += v[1], v[2] += v[3];
    v[1] = rotl(v[1], 13) ^ v[0], v[3] = rotl(v[3], 16) ^ v[2];
    v[0] = rotl(v[0], 32);
    v[2] += v[1], v[0] += v[3];
    v[1] = rotl(v[1], 17) ^ v[2], v[3] = rotl(v[3], 21) ^ v[0];
    v[2] = rotl(v[2], 32);
}

/* SipHash-1-3 (Aumasson and Bernstein, 2012, with one and three rounds). */
static uint64_t hash(const uint64_t seed[2], const char *s, size_t len) {
    uint64_t v[4] = {seed[0] ^ 0x736f6d6570736575, seed[1] ^ 0x646f72616e646f6d, seed[0] ^ 0x6c7967656e657261,
                     seed[1] ^ 0x7465646279746573};
    for (size_t i = 0;; i += 8) {
        bool last = len - i < 8;
        uint64_t w = last ? (uint64_t)len << 56 : 0;
        for (size_t j = 0; j < 8 && i + j < len; j++) w |= (uint64_t)(unsigned char)s[i + j] << 8 * j;
        v[3] ^= w;
        sip_round(v);
        v[0] ^= w;
        if (last) break;
    }
    v[2] ^= 0xff;
    for (int i = 0; i < 3; i++) sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

static const ie_str *record(const ie_gguf_index *x, uint64_t i) {
    return (const ie_str *)(const void *)((const char *)x->base + i * x->stride);
}

/* The slot that holds the name, or the free one where it belongs. At most half of the slots are taken. */
static uint64_t find_slot(const ie_gguf_index *x, const char *name, size_t len) {
    uint64_t h = hash(x->seed, name, len) & x->mask;
    for (; x->slot[h]; h = (h + 1) & x->mask) {
        const ie_str *s = record(x, x->slot[h] - 1);
        if (s->len == len && memcmp(s->s, name, len) == 0) break;
    }
    return h;
}

ie_status ie_gguf_index_build(ie_gguf_index *x, const void *base, size_t stride, uint64_t n, uint64_t dup[2],
                              ie_error *err) {
    uint64_t slots = 8;
    while (slots < 2 * n) slots *= 2;
    x->base = base;
    x->stride = stride;
    x->mask = slots - 1;
    x->slot = ie_calloc((size_t)slots, sizeof *x->slot, "GGUF name index", err);
    if (!x->slot) return IE_E_NOMEM;
    if (getrandom(x->seed, sizeof x->seed, GRND_NONBLOCK) != (ssize_t)sizeof x->seed) {
        /* No entropy yet (early boot, an odd sandbox): less hard to guess, still not a constant. */
        struct timespec t = {0};
        clock_gettime(CLOCK_MONOTONIC, &t);
        x->seed[0] = (uint64_t)t.tv_nsec * 0x9e3779b97f4a7c15;
        x->seed[1] = (uint64_t)(uintptr_t)x->slot ^ (uint64_t)t.tv_sec << 40;
    }
    for (uint64_t i = 0; i < n; i++) {
        const ie_str *s = record(x, i);
        uint64_t h = find_slot(x, s->s, (size_t)s->len);
        if (x->slot[h]) {
            dup[0] = x->slot[h] - 1;
            dup[1] = i;
            return IE_E_FORMAT;
        }
        x->slot[h] = (uint32_t)(i + 1);
    }
    return IE_OK;
}

const void *ie_gguf_index_find(const ie_gguf_index *x, const char *name, size_t len) {
    if (!x->slot) return NULL;
    uint32_t i = x->slot[find_slot(x, name, len)];
    return i ? record(x, i - 1) : NULL;
}

void ie_gguf_index_free(ie_gguf_index *x) {
    free(x->slot);
    *x = (ie_gguf_index){0};
}
