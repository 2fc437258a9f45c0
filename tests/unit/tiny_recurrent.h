/* A small random model with recurrent layers as a GGUF file: 4 layers, every second one Gated DeltaNet (2 key, 4 value heads of 32), 64
 * wide, all F32 but Q8_0 matrices; tokens, positions and TINY_BAD as in tiny_model.h. */
#ifndef IE_TINY_RECURRENT_H
#define IE_TINY_RECURRENT_H

#include <unistd.h>

#include "tiny_model.h"

/* One tensor: its directory entry, or its data: uniform in centre +- width. */
static inline void tiny_floats(tiny_writer *w, const char *name, uint32_t rows, uint32_t cols, float centre, float width) {
    if (w->directory) {
        tiny_str(w, name);
        tiny_u32(w, rows == 1 ? 1 : 2);
        tiny_u64(w, cols);
        if (rows > 1) tiny_u64(w, rows);
        tiny_u32(w, 0);
        tiny_u64(w, w->data);
        w->data += ((uint64_t)rows * cols * 4 + 31) / 32 * 32;
        w->n++;
        return;
    }
    for (uint32_t i = 0; i < (rows * cols + 7) / 8 * 8; i++) {
        float x = i < rows * cols ? centre + width * tiny_random(w) : 0;
        fwrite(&x, 4, 1, w->f);
    }
}

static inline void tiny_recurrent_layer(tiny_writer *w, uint32_t i) {
    char n[16][64];
    uint32_t k = 0;
#define N(tail) (snprintf(n[k], sizeof *n, "blk.%u." tail, i), n[k++])
    tiny_floats(w, N("attn_norm.weight"), 1, 64, 1, 0.2f);
    tiny_floats(w, N("post_attention_norm.weight"), 1, 64, 1, 0.2f);
    tiny_tensor(w, N("ffn_gate.weight"), 96, 64, 1);
    tiny_tensor(w, N("ffn_up.weight"), 96, 64, 1);
    tiny_tensor(w, N("ffn_down.weight"), 64, 96, 1);
    if (i % 2) {
        tiny_tensor(w, N("attn_q.weight"), 128, 64, 1);
        tiny_tensor(w, N("attn_k.weight"), 32, 64, 1);
        tiny_tensor(w, N("attn_v.weight"), 32, 64, 1);
        tiny_tensor(w, N("attn_output.weight"), 64, 64, 1);
        tiny_floats(w, N("attn_q_norm.weight"), 1, 32, 1, 0.2f);
        tiny_floats(w, N("attn_k_norm.weight"), 1, 32, 1, 0.2f);
        return;
    }
    tiny_tensor(w, N("attn_qkv.weight"), 256, 64, 1);
    tiny_tensor(w, N("attn_gate.weight"), 128, 64, 1);
    tiny_tensor(w, N("ssm_beta.weight"), 4, 64, 1);
    tiny_tensor(w, N("ssm_alpha.weight"), 4, 64, 1);
    tiny_tensor(w, N("ssm_out.weight"), 64, 128, 1);
    tiny_floats(w, N("ssm_conv1d.weight"), 256, 4, 0, 0.8f);
    tiny_floats(w, N("ssm_a"), 1, 4, -0.3f, 0.25f);
    tiny_floats(w, N("ssm_dt.bias"), 1, 4, 0, 1);
    tiny_floats(w, N("ssm_norm.weight"), 1, 32, 1, 0.2f);
#undef N
}

static inline void tiny_recurrent_tensors(tiny_writer *w) {
    tiny_tensor(w, "token_embd.weight", TINY_VOCAB, 64, 0);
    for (uint32_t i = 0; i < 4; i++) tiny_recurrent_layer(w, i);
    tiny_floats(w, "output_norm.weight", 1, 64, 1, 0.2f);
    tiny_tensor(w, "output.weight", TINY_VOCAB, 64, 1);
}

/* Writes the model to a new file; path (at least 64 bytes) receives its name. 0 on success. */
static inline int tiny_recurrent_write(char *path) {
    static const struct {
        const char *key;
        uint32_t v;
    } keys[] = {{"qwen35.block_count", 4}, {"qwen35.context_length", TINY_CTX}, {"qwen35.embedding_length", 64},
                {"qwen35.feed_forward_length", 96}, {"qwen35.attention.head_count", 2}, {"qwen35.attention.head_count_kv", 1},
                {"qwen35.attention.key_length", 32}, {"qwen35.attention.value_length", 32}, {"qwen35.rope.dimension_count", 16},
                {"qwen35.ssm.conv_kernel", 4}, {"qwen35.ssm.state_size", 32}, {"qwen35.ssm.group_count", 2},
                {"qwen35.ssm.time_step_rank", 4}, {"qwen35.ssm.inner_size", 128}, {"qwen35.full_attention_interval", 2}};
    enum { KEYS = sizeof keys / sizeof *keys, TENSORS = 3 + 2 * 14 + 2 * 11 };
    strcpy(path, "/tmp/ie_recurrent_XXXXXX");
    int fd = mkstemp(path);
    tiny_writer w = {.f = fd < 0 ? NULL : fdopen(fd, "wb"), .rng = 11, .directory = 1};
    if (!w.f) return -1;
    fwrite("GGUF", 1, 4, w.f);
    tiny_u32(&w, 3);
    tiny_u64(&w, TENSORS);
    tiny_u64(&w, KEYS + 2);
    tiny_str(&w, "general.architecture");
    tiny_u32(&w, 8);
    tiny_str(&w, "qwen35");
    for (size_t i = 0; i < KEYS; i++) tiny_key_u32(&w, keys[i].key, keys[i].v);
    tiny_str(&w, "qwen35.attention.layer_norm_rms_epsilon");
    tiny_u32(&w, 6);
    float eps = 1e-6f;
    fwrite(&eps, 4, 1, w.f);
    tiny_recurrent_tensors(&w);
    if (w.n != TENSORS) fprintf(stderr, "%d tensors\n", (int)w.n);
    while (ftell(w.f) % 32) fputc(0, w.f);
    w.directory = 0;
    tiny_recurrent_tensors(&w);
    return fclose(w.f);
}

#endif
