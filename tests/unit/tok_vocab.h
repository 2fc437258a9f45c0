/* Small vocabularies for tests of the tokenizers: GGUF files built in memory and opened through a memory file. */
#ifndef IE_TOK_VOCAB_H
#define IE_TOK_VOCAB_H

#include "text/tokenizer.h"
#include "text/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static inline void tv_put(ie_buf *b, const void *p, size_t n) {
    if (!ie_buf_add(b, p, n, NULL)) abort();
}
static inline void tv_u32(ie_buf *b, uint32_t v) {
    tv_put(b, &v, 4);
}
static inline void tv_u64(ie_buf *b, uint64_t v) {
    tv_put(b, &v, 8);
}
static inline void tv_str(ie_buf *b, const char *s, size_t n) {
    tv_u64(b, n);
    tv_put(b, s, n);
}
static inline void tv_key(ie_buf *b, const char *key, ie_gguf_type type) {
    tv_str(b, key, strlen(key));
    tv_u32(b, (uint32_t)type);
}

/* A vocabulary being written. Texts may hold any bytes but NUL. */
typedef struct {
    ie_buf kv, tokens, types, scores, merges;
    uint32_t n_kv, n_tokens, n_merges;
    int drop; /* bits: 1 no token types, 2 no scores, 4 no merges, 8 no tokens */
} tv;

static inline void tv_token(tv *v, const char *s, ie_token_type type, float score) {
    tv_str(&v->tokens, s, strlen(s));
    tv_u32(&v->types, (uint32_t)type);
    tv_put(&v->scores, &score, 4);
    v->n_tokens++;
}
static inline void tv_merge(tv *v, const char *s) {
    tv_str(&v->merges, s, strlen(s));
    v->n_merges++;
}
static inline void tv_kv_str(tv *v, const char *key, const char *s) {
    tv_key(&v->kv, key, GGUF_STRING);
    tv_str(&v->kv, s, strlen(s));
    v->n_kv++;
}
static inline void tv_kv_u32(tv *v, const char *key, uint32_t x) {
    tv_key(&v->kv, key, GGUF_U32);
    tv_u32(&v->kv, x);
    v->n_kv++;
}
static inline void tv_kv_bool(tv *v, const char *key, bool x) {
    tv_key(&v->kv, key, GGUF_BOOL);
    tv_put(&v->kv, &(unsigned char){x}, 1);
    v->n_kv++;
}
static inline void tv_array(ie_buf *b, const char *key, ie_gguf_type elem, uint32_t n, ie_buf *data) {
    tv_key(b, key, GGUF_ARRAY);
    tv_u32(b, (uint32_t)elem);
    tv_u64(b, n);
    tv_put(b, data->data ? data->data : "", data->len);
    ie_buf_free(data);
}

/* The file's bytes; releases what v holds. */
static inline ie_buf tv_file(tv *v) {
    ie_buf b = {0};
    tv_put(&b, "GGUF", 4);
    tv_u32(&b, 3);
    tv_u64(&b, 0);
    uint32_t arrays = 0;
    for (int bit = 1; bit <= 8; bit *= 2) arrays += !(v->drop & bit);
    tv_u64(&b, v->n_kv + arrays);
    tv_put(&b, v->kv.data ? v->kv.data : "", v->kv.len);
    if (!(v->drop & 8)) tv_array(&b, "tokenizer.ggml.tokens", GGUF_STRING, v->n_tokens, &v->tokens);
    if (!(v->drop & 1)) tv_array(&b, "tokenizer.ggml.token_type", GGUF_I32, v->n_tokens, &v->types);
    if (!(v->drop & 2)) tv_array(&b, "tokenizer.ggml.scores", GGUF_F32, v->n_tokens, &v->scores);
    if (!(v->drop & 4)) tv_array(&b, "tokenizer.ggml.merges", GGUF_STRING, v->n_merges, &v->merges);
    ie_buf *rest[] = {&v->kv, &v->tokens, &v->types, &v->scores, &v->merges};
    for (size_t i = 0; i < 5; i++) ie_buf_free(rest[i]);
    return b;
}

/* Opens bytes as a file and builds the tokenizer; NULL with *err filled. */
static inline ie_tokenizer *tv_open(const void *data, size_t len, ie_error *err) {
    char path[64];
    int fd = memfd_create("vocabulary", MFD_CLOEXEC);
    if (fd < 0 || (len && write(fd, data, len) != (ssize_t)len)) abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    ie_gguf *g = ie_gguf_open(path, err);
    ie_tokenizer *t = g ? ie_tokenizer_new(g, err) : NULL;
    ie_gguf_close(g);
    close(fd);
    return t;
}
static inline ie_tokenizer *tv_build(tv *v, ie_error *err) {
    ie_buf b = tv_file(v);
    ie_tokenizer *t = tv_open(b.data, b.len, err);
    ie_buf_free(&b);
    return t;
}

enum { BOS = 256, IM_END, THINK, FIRST_MERGED }; /* ids of tv_bpe */

/* All bytes but those up to and including `missing` (-1: none is missing); then <s>, <|im_end|> (control), <think>
 * (user-defined); merges whose results are tokens, but for "wor", which is none. */
static inline void tv_bpe(tv *v, const char *pre, int missing) {
    static const char *const MERGES[] = {"h e",
                                         "l l",
                                         "he ll",
                                         "hell o",
                                         "\xC4\xA0 w",
                                         "o r",
                                         "\xC4\xA0w or",
                                         "w or",
                                         "\xC4\xA0wor l",
                                         "\xC4\xA0worl d",
                                         "\xC4\x8A \xC4\x8A",
                                         "a a",
                                         "aa aa",
                                         "\xC4\xA0 \xC4\xA0",
                                         "\xC4\xA0\xC4\xA0 \xC4\xA0\xC4\xA0",
                                         "1 2"};
    tv_kv_str(v, "tokenizer.ggml.model", "gpt2");
    if (pre) tv_kv_str(v, "tokenizer.ggml.pre", pre);
    tv_kv_u32(v, "tokenizer.ggml.bos_token_id", BOS);
    for (int b = 0, next = 0x100; b < 256; b++) {
        bool own = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
        unsigned char s[5] = {0};
        s[ie_utf8_put((uint32_t)(own ? b : next++), s)] = 0;
        char name[16];
        snprintf(name, sizeof name, "[none %u]", (unsigned)b & 0xFF);
        tv_token(v, b > missing ? (char *)s : name, b > missing ? IE_TT_NORMAL : IE_TT_UNUSED, 0);
    }
    tv_token(v, "<s>", IE_TT_CONTROL, 0);
    tv_token(v, "<|im_end|>", IE_TT_CONTROL, 0);
    tv_token(v, "<think>", IE_TT_USER_DEFINED, 0);
    for (size_t i = 0; i < sizeof MERGES / sizeof *MERGES; i++) {
        char joined[32];
        size_t cut = strcspn(MERGES[i], " ");
        memcpy(joined, MERGES[i], cut);
        strcpy(joined + cut, MERGES[i] + cut + 1);
        tv_merge(v, MERGES[i]);
        if (strcmp(joined, "wor") != 0) tv_token(v, joined, IE_TT_NORMAL, 0);
    }
}

/* <unk> <s> </s>, the bytes as ids 3 to 258, then pieces; the space is one. */
static inline void tv_spm(tv *v) {
    static const struct {
        const char *s;
        float score;
    } PIECES[] = {{"\xE2\x96\x81", -50},
                  {"h", -51},
                  {"e", -52},
                  {"l", -53},
                  {"o", -54},
                  {"a", -55},
                  {"he", -3},
                  {"ll", -1},
                  {"llo", -2},
                  {"hello", -4},
                  {"hell", -9},
                  {"\xE2\x96\x81hello", -5},
                  {"\xE2\x96\x81\xE2\x96\x81", -6},
                  {"aa", -7},
                  {"aaa", -7},
                  {"\xE4\xB8\xAD", -20}};
    tv_kv_str(v, "tokenizer.ggml.model", "llama");
    tv_token(v, "<unk>", IE_TT_UNKNOWN, 0);
    tv_token(v, "<s>", IE_TT_CONTROL, 0);
    tv_token(v, "</s>", IE_TT_CONTROL, 0);
    for (int b = 0; b < 256; b++) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", (unsigned)b & 0xFF);
        tv_token(v, name, IE_TT_BYTE, 0);
    }
    for (size_t i = 0; i < sizeof PIECES / sizeof *PIECES; i++) tv_token(v, PIECES[i].s, IE_TT_NORMAL, PIECES[i].score);
}

#endif
