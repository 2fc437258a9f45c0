/* Writes a GGUF file with the shape of a published model and random, well-scaled weights, so that speed can be measured
 * without downloading anything:
 *
 *     build/tools/make_synth_gguf SHAPE MIX OUT.gguf [--seed N] [--layers N] [--empty 1]
 *
 * --empty 1: all weights are zeros that take no room on the disk (a file with a hole), for tools that read the directory alone.
 *
 * SHAPE: see the table. MIX is a format for every matrix (Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K .. Q6_K, IQ4_NL, IQ4_XS, F16, BF16) or Q4_K_M, the usual
 * mixture (Q4_K; Q6_K for the output and for v and down of half the layers), or Q4_K_M8, a heavier one with more formats, as published files of qwen35
 * have them (Q5_K for a recurrent layer's q|k|v, Q8_0 for its output, F32 for alpha and beta). A K format whose rows are no multiple of 256
 * falls back as llama.cpp's quantiser does (Q4_K to Q5_0, Q5_K to Q5_1, Q6_K to Q8_0 ...). The vocabulary is made up. */
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ie_math.h"

typedef struct {
    const char *name, *arch;
    uint32_t layers, embd, ff, heads, kv, hd, vocab, ctx;
    float rope_base, eps;
    bool tied, bias, head_norm;
    uint32_t n_k, n_v, interval, rope_dim; /* qwen35: key and value heads of 128 (GDN), every interval-th layer is full attention */
} shape;

enum { STATE = 128, TAPS = 4 };

static const shape shapes[] = {
    {"smollm2-135m", "llama", 30, 576, 1536, 9, 3, 64, 49152, 8192, 100000, 1e-5f, true, false, false, 0, 0, 0, 0},
    {"qwen2.5-0.5b", "qwen2", 24, 896, 4864, 14, 2, 64, 151936, 32768, 1e6f, 1e-6f, true, true, false, 0, 0, 0, 0},
    {"qwen2.5-1.5b", "qwen2", 28, 1536, 8960, 12, 2, 128, 151936, 32768, 1e6f, 1e-6f, true, true, false, 0, 0, 0, 0},
    {"qwen2.5-7b", "qwen2", 28, 3584, 18944, 28, 4, 128, 152064, 32768, 1e6f, 1e-6f, false, true, false, 0, 0, 0, 0},
    {"qwen3-0.6b", "qwen3", 28, 1024, 3072, 16, 8, 128, 151936, 40960, 1e6f, 1e-6f, true, false, true, 0, 0, 0, 0},
    {"llama-3-8b", "llama", 32, 4096, 14336, 32, 8, 128, 128256, 8192, 500000, 1e-5f, false, false, false, 0, 0, 0, 0},
    {"qwen3.5-0.8b", "qwen35", 24, 1024, 3584, 8, 2, 256, 248320, 262144, 1e7f, 1e-6f, true, false, true, 16, 16, 4, 64},
    {"qwen3.8-27b", "qwen35", 64, 5120, 17408, 24, 4, 256, 248320, 262144, 1e7f, 1e-6f, false, false, true, 16, 48, 4, 64},
};
#define N_SHAPES (sizeof shapes / sizeof *shapes)

typedef struct {
    const char *name;
    uint32_t type, len, bytes;
    const char *fallback; /* for rows that are no multiple of len */
} format;

static const format formats[] = {
    {"F32", 0, 1, 4, 0},        {"F16", 1, 1, 2, 0},          {"Q4_0", 2, 32, 18, "F16"},    {"Q4_1", 3, 32, 20, "F16"},
    {"Q5_0", 6, 32, 22, "F16"}, {"Q5_1", 7, 32, 24, "F16"},   {"Q8_0", 8, 32, 34, "F16"},    {"Q2_K", 10, 256, 84, "Q4_0"},
    {"Q3_K", 11, 256, 110, "Q4_0"}, {"Q4_K", 12, 256, 144, "Q5_0"}, {"Q5_K", 13, 256, 176, "Q5_1"}, {"Q6_K", 14, 256, 210, "Q8_0"},
    {"IQ4_NL", 20, 32, 18, "F16"}, {"IQ4_XS", 23, 256, 136, "IQ4_NL"}, {"BF16", 30, 1, 2, 0},
};

typedef struct {
    char name[64];
    uint32_t rows, cols; /* cols of a vector, rows = 1 */
    const format *f;
} tensor;

static tensor *tensors;
static uint32_t n_tensors;
static uint64_t rng = 1;

#define MAX_LAYERS 1024u

static void die(const char *fmt, const char *a) {
    fprintf(stderr, "make_synth_gguf: ");
    fprintf(stderr, fmt, a);
    fputc('\n', stderr);
    exit(1);
}

static uint64_t next(void) { /* xorshift64* (Vigna 2014) */
    rng ^= rng >> 12;
    rng ^= rng << 25;
    rng ^= rng >> 27;
    return rng * 0x2545F4914F6CDD1Dull;
}

static const format *find(const char *name) {
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (strcmp(formats[i].name, name) == 0) return &formats[i];
    return NULL;
}

static void add(const char *name, uint32_t rows, uint32_t cols, const char *fmt) {
    tensor *t = realloc(tensors, (n_tensors + 1) * sizeof *t);
    if (!t) die("%s", "no memory");
    tensors = t;
    t = &tensors[n_tensors++];
    snprintf(t->name, sizeof t->name, "%s", name);
    t->rows = rows, t->cols = cols, t->f = find(fmt);
    while (cols % t->f->len) t->f = find(t->f->fallback);
}

/* llama.cpp's Q4_K_M gives these layers the better format. */
static bool more_bits(uint32_t i, uint32_t n) { return i < n / 8 || i >= 7 * n / 8 || (i - n / 8) % 3 == 2; }

static void list_attention(const shape *s, uint32_t i, const char *base, const char *v) {
    char n[64];
#define L(tail) (snprintf(n, sizeof n, "blk.%u." tail, i), n)
    add(L("attn_q.weight"), s->heads * s->hd * (s->interval ? 2 : 1), s->embd, base); /* qwen35: queries and gates */
    add(L("attn_k.weight"), s->kv * s->hd, s->embd, base);
    add(L("attn_v.weight"), s->kv * s->hd, s->embd, v);
    if (s->bias) {
        add(L("attn_q.bias"), 1, s->heads * s->hd, "F32");
        add(L("attn_k.bias"), 1, s->kv * s->hd, "F32");
        add(L("attn_v.bias"), 1, s->kv * s->hd, "F32");
    }
    if (s->head_norm) {
        add(L("attn_q_norm.weight"), 1, s->hd, "F32");
        add(L("attn_k_norm.weight"), 1, s->hd, "F32");
    }
    add(L("attn_output.weight"), s->embd, s->heads * s->hd, base);
}

/* Formats of a recurrent layer's matrices: q|k|v, z, beta and alpha, output. */
typedef struct {
    const char *qkv, *z, *gates, *out;
} delta_mix;

static void list_delta_net(const shape *s, uint32_t i, const delta_mix *m) {
    char n[64];
    add(L("attn_qkv.weight"), (2 * s->n_k + s->n_v) * STATE, s->embd, m->qkv);
    add(L("attn_gate.weight"), s->n_v * STATE, s->embd, m->z);
    add(L("ssm_beta.weight"), s->n_v, s->embd, m->gates);
    add(L("ssm_alpha.weight"), s->n_v, s->embd, m->gates);
    add(L("ssm_conv1d.weight"), (2 * s->n_k + s->n_v) * STATE, TAPS, "F32");
    add(L("ssm_a"), 1, s->n_v, "F32");
    add(L("ssm_dt.bias"), 1, s->n_v, "F32");
    add(L("ssm_norm.weight"), 1, STATE, "F32");
    add(L("ssm_out.weight"), s->embd, s->n_v * STATE, m->out);
}

static void list_tensors(const shape *s, const char *mix) {
    bool heavy = strcmp(mix, "Q4_K_M8") == 0, km = heavy || strcmp(mix, "Q4_K_M") == 0;
    const char *base = km ? "Q4_K" : mix, *better = km ? "Q6_K" : mix;
    char n[64];
    add("token_embd.weight", s->vocab, s->embd, s->tied ? better : base);
    add("output_norm.weight", 1, s->embd, "F32");
    if (!s->tied) add("output.weight", s->vocab, s->embd, better);
    for (uint32_t i = 0; i < s->layers; i++) {
        const char *v = more_bits(i, s->layers) ? better : base;
        bool linear = s->interval && (i + 1) % s->interval;
        add(L("attn_norm.weight"), 1, s->embd, "F32");
        const delta_mix usual = {v, base, base, base}, more = {"Q5_K", base, "F32", "Q8_0"};
        if (linear) list_delta_net(s, i, heavy ? &more : &usual);
        else list_attention(s, i, base, v);
        add(s->interval ? L("post_attention_norm.weight") : L("ffn_norm.weight"), 1, s->embd, "F32");
        add(L("ffn_gate.weight"), s->ff, s->embd, base);
        add(L("ffn_up.weight"), s->ff, s->embd, base);
        add(L("ffn_down.weight"), s->embd, s->ff, v);
    }
#undef L
}

/* ---- writing ------------------------------------------------------------------------------------------------------- */

static FILE *out;
static uint64_t n_kv;

static void put(const void *p, size_t n) {
    if (fwrite(p, 1, n, out) != n) die("%s", "write failed (disk full?)");
}
static void put32(uint32_t v) { put(&v, 4); }
static void put64(uint64_t v) { put(&v, 8); }
static void put_str(const char *s) { put64(strlen(s)), put(s, strlen(s)); }
static void kv_u32(const char *k, uint32_t v) { put_str(k), put32(4), put32(v), n_kv++; }
static void kv_f32(const char *k, float v) { put_str(k), put32(6), put(&v, 4), n_kv++; }
static void kv_str(const char *k, const char *v) { put_str(k), put32(8), put_str(v), n_kv++; }
static void kv_bool(const char *k, uint8_t v) { put_str(k), put32(7), put(&v, 1), n_kv++; }

/* GPT-2's printable stand-in for byte b, as UTF-8. */
static void byte_char(uint32_t b, char out_[4]) {
    static uint32_t map[256];
    if (!map[33])
        for (uint32_t i = 0, extra = 256; i < 256; i++)
            map[i] = (i >= 33 && i <= 126) || (i >= 161 && i <= 172) || i >= 174 ? i : extra++;
    uint32_t c = map[b];
    if (c < 128) out_[0] = (char)c, out_[1] = 0;
    else out_[0] = (char)(0xC0 | c >> 6), out_[1] = (char)(0x80 | (c & 63)), out_[2] = 0;
}

static void put_vocab(const shape *s) {
    kv_str("tokenizer.ggml.model", "gpt2");
    kv_str("tokenizer.ggml.pre", s->interval ? "qwen35" : "qwen2");
    put_str("tokenizer.ggml.tokens"), put32(9), put32(8), put64(s->vocab), n_kv++;
    for (uint32_t i = 0; i < s->vocab; i++) {
        char t[32];
        if (i < 256) byte_char(i, t);
        else snprintf(t, sizeof t, i == s->vocab - 1 ? "<|endoftext|>" : "\xC4\xA0w%u", i);
        put_str(t);
    }
    put_str("tokenizer.ggml.token_type"), put32(9), put32(5), put64(s->vocab), n_kv++;
    for (uint32_t i = 0; i < s->vocab; i++) put32(i == s->vocab - 1 ? 3 : 1);
    put_str("tokenizer.ggml.merges"), put32(9), put32(8), put64(1), n_kv++;
    put_str("\xC4\xA0 w");
    kv_u32("tokenizer.ggml.eos_token_id", s->vocab - 1);
    kv_bool("tokenizer.ggml.add_bos_token", 0);
}

/* In the file, padding included. */
static uint64_t tensor_bytes(const tensor *t) { return ((uint64_t)t->rows * t->cols / t->f->len * t->f->bytes + 31) / 32 * 32; }
static uint64_t all_bytes(void) {
    uint64_t n = 0;
    for (uint32_t i = 0; i < n_tensors; i++) n += tensor_bytes(&tensors[i]);
    return n;
}

static void put_header(const shape *s, const char *mix) {
    char k[96], name[96];
    snprintf(name, sizeof name, "%s shape, %s, random weights", s->name, mix);
    put("GGUF", 4), put32(3), put64(n_tensors), put64(0); /* the key count is written at the end */
    kv_str("general.architecture", s->arch);
    kv_str("general.name", name);
#define K(tail) (snprintf(k, sizeof k, "%s." tail, s->arch), k)
    kv_u32(K("block_count"), s->layers), kv_u32(K("embedding_length"), s->embd), kv_u32(K("feed_forward_length"), s->ff);
    kv_u32(K("attention.head_count"), s->heads), kv_u32(K("attention.head_count_kv"), s->kv);
    kv_u32(K("attention.key_length"), s->hd), kv_u32(K("attention.value_length"), s->hd);
    kv_u32(K("rope.dimension_count"), s->interval ? s->rope_dim : s->hd), kv_u32(K("context_length"), s->ctx), kv_u32(K("vocab_size"), s->vocab);
    kv_f32(K("rope.freq_base"), s->rope_base), kv_f32(K("attention.layer_norm_rms_epsilon"), s->eps);
    if (s->interval) {
        uint32_t third = s->rope_dim / 6, sections[4] = {s->rope_dim / 2 - 2 * third, third, third, 0};
        kv_u32(K("ssm.conv_kernel"), TAPS), kv_u32(K("ssm.state_size"), STATE), kv_u32(K("ssm.group_count"), s->n_k);
        kv_u32(K("ssm.time_step_rank"), s->n_v), kv_u32(K("ssm.inner_size"), s->n_v * STATE);
        kv_u32(K("full_attention_interval"), s->interval);
        put_str(K("rope.dimension_sections")), put32(9), put32(5), put64(4), put(sections, sizeof sections), n_kv++;
    }
#undef K
    put_vocab(s);
    uint64_t at = 0;
    for (uint32_t i = 0; i < n_tensors; i++) {
        const tensor *t = &tensors[i];
        put_str(t->name), put32(t->rows == 1 ? 1 : 2), put64(t->cols);
        if (t->rows > 1) put64(t->rows);
        put32(t->f->type), put64(at);
        at += tensor_bytes(t);
    }
    while (ftell(out) % 32) fputc(0, out);
}

/* One block whose weights have a standard deviation of about sd: random quants, scale fields set to fit. */
static void random_block(const format *f, float sd, uint8_t *b) {
    for (uint32_t i = 0; i < f->bytes; i += 8) {
        uint64_t r = next();
        memcpy(b + i, &r, f->bytes - i < 8 ? f->bytes - i : 8);
    }
    struct { uint32_t at; float scale; } d[2] = {{0, 0}, {UINT32_MAX, 0}};
    switch (f->type) {
    case 2: d[0].scale = 1 / 4.6f; break;
    case 3: d[0].scale = 1 / 4.6f, d[1].at = 2, d[1].scale = -7.5f / 4.6f; break;
    case 6: d[0].scale = 1 / 9.2f; break;
    case 7: d[0].scale = 1 / 9.2f, d[1].at = 2, d[1].scale = -15.5f / 9.2f; break;
    case 8: d[0].scale = 1 / 74.0f; break;
    case 10: d[0].at = 80, d[0].scale = 1 / 10.0f, d[1].at = 82, d[1].scale = 1.5f / 10.0f; break;
    case 11: d[0].at = 108, d[0].scale = 1 / 42.0f; break;
    case 12: d[0].scale = 1 / 168.0f, d[1].at = 2, d[1].scale = 7.5f / 168.0f; break;
    case 13: d[0].scale = 1 / 340.0f, d[1].at = 2, d[1].scale = 15.5f / 340.0f; break;
    case 14: d[0].at = 208, d[0].scale = 1 / 1365.0f; break;
    case 20: d[0].scale = 1 / 66.0f; break;
    case 23: d[0].scale = 1 / 1220.0f; break;
    default: break;
    }
    for (int i = 0; i < 2; i++) {
        if (d[i].at == UINT32_MAX) continue;
        uint16_t h = ie_f32_to_f16(sd * d[i].scale);
        memcpy(b + d[i].at, &h, 2);
    }
}

static float gauss(void) { /* sum of four uniforms: enough for weights */
    uint64_t r = next();
    float s = 0;
    for (int i = 0; i < 4; i++, r >>= 16) s += (float)(r & 0xFFFF) / 65536.0f - 0.5f;
    return s * 1.732f;
}

static void put_tensor(const tensor *t) {
    const format *f = t->f;
    uint64_t blocks = (uint64_t)t->rows * t->cols / f->len, bytes = blocks * f->bytes;
    bool norm = strstr(t->name, "norm") != NULL, bias = strstr(t->name, "bias") != NULL;
    bool decay = strstr(t->name, "ssm_a") != NULL && t->rows == 1;
    float sd = 1 / sqrtf((float)t->cols);
    uint8_t b[256];
    for (uint64_t i = 0; i < blocks; i++) {
        if (f->len == 1) {
            float x = norm ? 1 + 0.1f * gauss() : decay ? -expf(gauss()) : bias ? 0.1f * gauss() : sd * gauss();
            uint32_t u;
            memcpy(&u, &x, 4);
            uint16_t h = f->type == 1 ? ie_f32_to_f16(x) : (uint16_t)(u >> 16);
            memcpy(b, f->type == 0 ? (void *)&u : (void *)&h, f->bytes);
        } else {
            random_block(f, sd, b);
        }
        put(b, f->bytes);
    }
    for (; bytes % 32; bytes++) fputc(0, out);
}

/* text NULL: the option is the last word. */
static uint64_t number(const char *name, const char *text, uint64_t least, uint64_t most) {
    char *end = NULL;
    errno = 0;
    uint64_t v = text && *text >= '0' && *text <= '9' ? strtoull(text, &end, 10) : 0;
    if (!end || *end || errno || v < least || v > most)
        fprintf(stderr, "make_synth_gguf: option %s is '%s', allowed are whole numbers from %llu to %llu\n", name, text ? text : "",
                (unsigned long long)least, (unsigned long long)most), exit(1);
    return v;
}

int main(int argc, char **argv) {
    const shape *s = NULL;
    if (argc < 4) {
        fprintf(stderr, "usage: make_synth_gguf SHAPE MIX OUT.gguf [--seed N] [--layers N] [--empty 1]\nshapes:");
        for (size_t i = 0; i < N_SHAPES; i++) fprintf(stderr, " %s", shapes[i].name);
        fprintf(stderr, "\nmixes: Q4_K_M Q4_K_M8");
        for (size_t i = 1; i < sizeof formats / sizeof *formats; i++) fprintf(stderr, " %s", formats[i].name);
        fputc('\n', stderr);
        return 1;
    }
    for (size_t i = 0; i < N_SHAPES; i++)
        if (strcmp(shapes[i].name, argv[1]) == 0) s = &shapes[i];
    if (!s) die("unknown shape '%s'", argv[1]);
    if (strcmp(argv[2], "Q4_K_M") != 0 && strcmp(argv[2], "Q4_K_M8") != 0 && !find(argv[2])) die("unknown mix '%s'", argv[2]);
    shape mine = *s;
    bool empty = false;
    for (int i = 4; i < argc; i += 2) {
        if (strcmp(argv[i], "--seed") == 0) rng = number(argv[i], argv[i + 1], 0, UINT64_MAX / 2) * 2 + 1;
        else if (strcmp(argv[i], "--layers") == 0) mine.layers = (uint32_t)number(argv[i], argv[i + 1], 1, MAX_LAYERS);
        else if (strcmp(argv[i], "--empty") == 0) empty = number(argv[i], argv[i + 1], 0, 1) != 0;
        else die("unknown option '%s'", argv[i]);
    }
    list_tensors(&mine, argv[2]);
    out = fopen(argv[3], "wb");
    if (!out) die("cannot write '%s'", argv[3]);
    setvbuf(out, NULL, _IOFBF, 1 << 20);
    put_header(&mine, argv[2]);
    for (uint32_t i = 0; i < n_tensors && !empty; i++) put_tensor(&tensors[i]);
    if (empty && (fflush(out) || ftruncate(fileno(out), (off_t)((uint64_t)ftell(out) + all_bytes())))) die("cannot write '%s'", argv[3]);
    fseek(out, 16, SEEK_SET);
    put64(n_kv);
    if (fclose(out)) die("cannot write '%s'", argv[3]);
    free(tensors);
    return 0;
}
