/* A small random llama model as a GGUF file, for tests of the engine: 2 layers of Q8_0 matrices, 64 wide, 4 heads of 16 over 2
 * KV heads, 97 tokens, 256 positions, no vocabulary. The embedding (F32) of token TINY_BAD is infinite. */
#ifndef IE_TINY_MODEL_H
#define IE_TINY_MODEL_H

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ie.h"
#include "ie_core.h"

#define TINY_VOCAB 97u
#define TINY_BAD 96
#define TINY_CTX 256u

typedef struct {
    FILE *f;
    uint64_t rng, data; /* offset of the next tensor */
    int directory;      /* writing the tensors' directory, not their data */
    uint64_t n;         /* tensors so far */
} tiny_writer;

static inline float tiny_random(tiny_writer *w) { /* xorshift64*, uniform in [-1, 1) */
    w->rng ^= w->rng >> 12, w->rng ^= w->rng << 25, w->rng ^= w->rng >> 27;
    return (float)((double)(w->rng * 0x2545F4914F6CDD1Dull >> 11) * 0x1p-52 - 1.0);
}

static inline void tiny_u32(tiny_writer *w, uint32_t v) { fwrite(&v, 4, 1, w->f); }
static inline void tiny_u64(tiny_writer *w, uint64_t v) { fwrite(&v, 8, 1, w->f); }
static inline void tiny_str(tiny_writer *w, const char *s) {
    tiny_u64(w, strlen(s));
    fwrite(s, 1, strlen(s), w->f);
}
static inline void tiny_key_u32(tiny_writer *w, const char *key, uint32_t v) {
    tiny_str(w, key);
    tiny_u32(w, 4);
    tiny_u32(w, v);
}

static inline void tiny_write_data(tiny_writer *w, uint32_t rows, uint32_t cols, int q8, float centre) {
    float scale = sqrtf(3.0f / (float)cols); /* uniform weights of variance 1 / cols */
    for (uint32_t i = 0; i < rows * cols; i++) {
        if (q8 && i % 32 == 0) {
            float d = scale / 127.0f;
            uint32_t bits;
            memcpy(&bits, &d, 4);
            uint16_t h = (uint16_t)ie_f32_f16_bits(bits);
            fwrite(&h, 2, 1, w->f);
        }
        if (q8) {
            int8_t q = (int8_t)lrintf(tiny_random(w) * 127.0f);
            fwrite(&q, 1, 1, w->f);
        } else {
            float x = rows == 1 ? centre + 0.2f * tiny_random(w) : i / cols == (uint32_t)TINY_BAD ? INFINITY : tiny_random(w);
            fwrite(&x, 4, 1, w->f);
        }
    }
}

/* One tensor: its directory entry or its data. Vectors have rows = 1; all sizes are multiples of 32 bytes. */
static inline void tiny_tensor(tiny_writer *w, const char *name, uint32_t rows, uint32_t cols, int q8) {
    uint64_t bytes = q8 ? (uint64_t)rows * cols / 32 * 34 : (uint64_t)rows * cols * 4, padded = (bytes + 31) / 32 * 32;
    if (w->directory) {
        tiny_str(w, name);
        tiny_u32(w, rows == 1 ? 1 : 2);
        tiny_u64(w, cols);
        if (rows > 1) tiny_u64(w, rows);
        tiny_u32(w, q8 ? 8 : 0);
        tiny_u64(w, w->data);
        w->data += padded;
        w->n++;
        return;
    }
    tiny_write_data(w, rows, cols, q8, 1.0f);
    for (uint64_t i = bytes; i < padded; i++) fputc(0, w->f);
}

static inline void tiny_tensors(tiny_writer *w) {
    static const struct {
        const char *name;
        uint32_t rows, cols;
        int q8;
    } layer[] = {{"attn_norm", 1, 64, 0}, {"attn_q", 64, 64, 1}, {"attn_k", 32, 64, 1}, {"attn_v", 32, 64, 1}, {"attn_output", 64, 64, 1},
                 {"ffn_norm", 1, 64, 0}, {"ffn_gate", 96, 64, 1}, {"ffn_up", 96, 64, 1}, {"ffn_down", 64, 96, 1}};
    tiny_tensor(w, "token_embd.weight", TINY_VOCAB, 64, 0);
    for (uint32_t l = 0; l < 2; l++) {
        for (size_t i = 0; i < sizeof layer / sizeof *layer; i++) {
            char name[64];
            snprintf(name, sizeof name, "blk.%u.%s.weight", l, layer[i].name);
            tiny_tensor(w, name, layer[i].rows, layer[i].cols, layer[i].q8);
        }
    }
    tiny_tensor(w, "output_norm.weight", 1, 64, 0);
    tiny_tensor(w, "output.weight", TINY_VOCAB, 64, 1);
}

/* Writes the model to a new file; path (at least 64 bytes) receives its name. 0 on success. */
static inline int tiny_model_write(char *path) {
    strcpy(path, "/tmp/ie_tiny_XXXXXX");
    int fd = mkstemp(path);
    tiny_writer w = {.f = fd < 0 ? NULL : fdopen(fd, "wb"), .rng = 7, .directory = 1};
    if (!w.f) return -1;
    fwrite("GGUF", 1, 4, w.f);
    tiny_u32(&w, 3);
    tiny_u64(&w, 3 + 2 * 9);
    tiny_u64(&w, 9);
    tiny_str(&w, "general.architecture");
    tiny_u32(&w, 8);
    tiny_str(&w, "llama");
    tiny_key_u32(&w, "llama.block_count", 2);
    tiny_key_u32(&w, "llama.context_length", TINY_CTX);
    tiny_key_u32(&w, "llama.embedding_length", 64);
    tiny_key_u32(&w, "llama.feed_forward_length", 96);
    tiny_key_u32(&w, "llama.attention.head_count", 4);
    tiny_key_u32(&w, "llama.attention.head_count_kv", 2);
    tiny_str(&w, "llama.attention.layer_norm_rms_epsilon");
    tiny_u32(&w, 6);
    float eps = 1e-5f;
    fwrite(&eps, 4, 1, w.f);
    tiny_key_u32(&w, "llama.rope.dimension_count", 16);
    tiny_tensors(&w);
    while (ftell(w.f) % 32) fputc(0, w.f);
    w.directory = 0;
    tiny_tensors(&w);
    return fclose(w.f);
}

/* Writes a model (tiny_model_write, tiny_recurrent_write) and opens it with two threads; NULL on failure, which is told. */
static inline ie_model *tiny_open(int (*write)(char *path), char *path) {
    ie_error err;
    if (write(path)) return NULL;
    ie_model *m = ie_model_open(path, &(ie_model_params){.threads = 2}, &err);
    if (!m) fprintf(stderr, "%s\n", err.msg);
    return m;
}

#endif
