/* libFuzzer target of the tokenizers. The first byte says what the rest is.
 *
 * 255: a file (seeds: small vocabularies); what is accepted encodes and decodes a fixed text.
 * Others: a text for a built-in vocabulary that has all bytes. Decoding must give the text back, text that is not
 * trusted must form no control token, and cutting the text into runs of the same trust must not change its ids. */
#include "../unit/tok_vocab.h"

#define CHECK(x)                                                                                                       \
    do {                                                                                                               \
        if (!(x)) __builtin_trap();                                                                                    \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { N_KINDS = 8 };

static ie_tokenizer *built_in(unsigned kind) {
    static const char *const PRE[N_KINDS - 1] = {"gpt-2",  "smollm", "llama-bpe",       "qwen2",
                                                 "qwen35", NULL,     "deepseek-r1-qwen"};
    tv v = {0};
    if (kind == N_KINDS - 1) {
        v.drop = 4;
        tv_spm(&v);
    } else {
        v.drop = 2;
        tv_bpe(&v, PRE[kind], -1);
    }
    return tv_build(&v, NULL);
}

static void decode(const ie_tokenizer *t, const ie_ids *ids, ie_buf *out) {
    out->len = 0;
    for (size_t i = 0; i < ids->n; i++) {
        CHECK(ids->ids[i] >= 0 && ids->ids[i] < ie_tokenizer_n_vocab(t));
        CHECK(ie_tokenizer_decode(t, ids->ids[i], i == 0, IE_DETOK_SPECIAL, out, NULL) == IE_OK);
    }
}

static void check_text(const ie_tokenizer *t, bool spm, const char *s, size_t n, bool trusted) {
    ie_ids whole = {0}, parts = {0};
    ie_buf out = {0};
    const ie_text_run one = {s, n, trusted};
    const ie_text_run cut[] = {{s, n / 3, trusted}, {s, 0, !trusted}, {s + n / 3, n - n / 3, trusted}};
    CHECK(ie_tokenizer_encode(t, &one, 1, 0, &whole, NULL) == IE_OK);
    CHECK(ie_tokenizer_encode(t, cut, 3, 0, &parts, NULL) == IE_OK);
    CHECK(whole.n == parts.n && (whole.n == 0 || memcmp(whole.ids, parts.ids, whole.n * sizeof *whole.ids) == 0));
    for (size_t i = 0; i < whole.n && !trusted; i++)
        CHECK(ie_tokenizer_type(t, whole.ids[i]) != IE_TT_CONTROL &&
              ie_tokenizer_type(t, whole.ids[i]) != IE_TT_UNKNOWN);
    decode(t, &whole, &out);
    /* SentencePiece cannot tell U+2581 from a space, and adds a space after special tokens. */
    if (!spm)
        CHECK(out.len == n && (n == 0 || memcmp(out.data, s, n) == 0));
    else if (!trusted && !memmem(s, n, "\xE2\x96\x81", 3))
        CHECK(out.len == n && (n == 0 || memcmp(out.data, s, n) == 0));
    CHECK(ie_utf8_complete(s, n) <= n && n - ie_utf8_complete(s, n) < 4);
    ie_ids_free(&whole);
    ie_ids_free(&parts);
    ie_buf_free(&out);
}

static void check_file(const uint8_t *data, size_t size) {
    static const char text[] =
        "<s>I'll  say\thello world 12345 \xE4\xB8\xAD\xE6\x96\x87 <|im_end|>\xFF<think>\n\naaaaaaaa"
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa ";
    ie_error err;
    ie_tokenizer *t = tv_open(data, size, &err);
    if (!t) {
        CHECK(err.msg[0] && err.code != IE_OK);
        return;
    }
    for (int trusted = 0; trusted < 2; trusted++) {
        ie_ids ids = {0};
        ie_buf out = {0};
        const ie_text_run run = {text, sizeof text - 1, trusted};
        ie_status st = ie_tokenizer_encode(t, &run, 1, IE_TOK_ADD_SPECIAL, &ids, &err);
        CHECK(st == IE_OK || (st == IE_E_FORMAT && ids.n == 0));
        decode(t, &ids, &out);
        ie_ids_free(&ids);
        ie_buf_free(&out);
    }
    for (int32_t i = 0; i < ie_tokenizer_n_vocab(t); i++) {
        ie_str s = ie_tokenizer_raw(t, i);
        if (s.len) CHECK(ie_tokenizer_find(t, s.s, (size_t)s.len) >= 0);
        (void)ie_tokenizer_is_end(t, i);
    }
    ie_tokenizer_free(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static ie_tokenizer *t[N_KINDS]; /* kept for the process's life */
    if (size == 0) return 0;
    if (data[0] == 255) {
        check_file(data + 1, size - 1);
        return 0;
    }
    unsigned kind = data[0] % N_KINDS;
    if (!t[kind]) t[kind] = built_in(kind);
    CHECK(t[kind]);
    check_text(t[kind], kind == N_KINDS - 1, (const char *)data + 1, size - 1, data[0] & 0x80);
    return 0;
}
