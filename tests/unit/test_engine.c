/* Models and contexts through the public API: batches of several sequences, prefixes, truncation, refusals, generation. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <unistd.h>

#include "ie.h"
#include "tiny_model.h"

#define ROW (TINY_VOCAB * sizeof(float))

static char path[64];
static ie_model *model;

static int open_model(void **state) {
    (void)state;
    model = tiny_open(tiny_model_write, path);
    return model ? 0 : -1;
}

static int close_model(void **state) {
    (void)state;
    ie_model_close(model);
    return unlink(path);
}

static ie_ctx *context(int32_t n_ctx, int32_t n_seq, int32_t chunk) {
    ie_error err;
    ie_ctx *c = ie_ctx_new(model, &(ie_ctx_params){.n_ctx = n_ctx, .n_seq = n_seq, .chunk = chunk}, &err);
    if (!c) fail_msg("%s", err.msg);
    return c;
}

/* The text of sequence s: ids below TINY_BAD. */
static int32_t text(int32_t s, int32_t i) { return (int32_t)(((uint32_t)s * 31u + (uint32_t)i * 17u + (uint32_t)(i * i) % 13u) % TINY_BAD); }

typedef struct {
    int32_t n, token[512], seq[512], pos[512];
    uint8_t want[512];
} batch;

static void add(batch *b, int32_t seq, int32_t pos, int32_t token, int want) {
    b->token[b->n] = token, b->seq[b->n] = seq, b->pos[b->n] = pos, b->want[b->n] = (uint8_t)want;
    b->n++;
}

static ie_status eval(ie_ctx *c, ie_phase phase, const batch *b, ie_error *err) {
    return ie_eval(c, &(ie_batch){phase, b->n, b->token, b->seq, b->pos, b->want}, err);
}

static void must(ie_status st, const ie_error *err) {
    if (st) fail_msg("status %d: %s", (int)st, err->msg);
}

/* Logits of the n positions of text s, each evaluated alone: [n][TINY_VOCAB], to be freed. */
static float *alone(int32_t s, int32_t n) {
    ie_ctx *c = context(256, 1, 0);
    float *out = malloc((size_t)n * ROW);
    ie_error err;
    for (int32_t i = 0; i < n; i++) {
        batch b = {0};
        add(&b, 0, i, text(s, i), 1);
        must(eval(c, IE_DECODE, &b, &err), &err);
        memcpy(out + (size_t)i * TINY_VOCAB, ie_logits(c, 0), ROW);
    }
    ie_ctx_free(c);
    return out;
}

/* ---- batches --------------------------------------------------------------------------------------------------------- */

/* Sequences grow in turns by changing amounts, so that their pages interleave; every row equals the sequence alone. */
static void sequences_together_equal_each_alone(void **state) {
    (void)state;
    enum { SEQS = 5, LEN = 90 };
    float *want[SEQS];
    int32_t len[SEQS] = {0};
    for (int32_t s = 0; s < SEQS; s++) want[s] = alone(s, LEN);
    ie_ctx *c = context(96, SEQS, 64);
    ie_error err;
    for (int32_t round = 0, left = SEQS; left > 0; round++) {
        batch b = {0};
        ie_phase phase = round % 3 == 1 ? IE_PREFILL : IE_DECODE;
        int32_t max = phase == IE_DECODE ? 16 : 64;
        for (int32_t k = 0; k < SEQS; k++) {
            int32_t s = (k + round) % SEQS, n = (s * 7 + round * 5) % (phase == IE_DECODE ? 6 : 23);
            for (int32_t i = 0; i < n && b.n < max && len[s] + i < LEN; i++) add(&b, s, len[s] + i, text(s, len[s] + i), (i + s) % 4 != 3);
        }
        if (b.n == 0) continue;
        must(eval(c, phase, &b, &err), &err);
        for (int32_t i = 0; i < b.n; i++) {
            const float *row = ie_logits(c, i);
            if (!b.want[i]) assert_null(row);
            else assert_memory_equal(row, want[b.seq[i]] + (size_t)b.pos[i] * TINY_VOCAB, ROW);
            len[b.seq[i]]++;
        }
        for (int32_t s = left = 0; s < SEQS; s++) {
            assert_int_equal(ie_seq_len(c, s), len[s]);
            left += len[s] < LEN;
        }
    }
    for (int32_t s = 0; s < SEQS; s++) free(want[s]);
    ie_ctx_free(c);
}

static void last_rows_are_the_default(void **state) {
    (void)state;
    float *a = alone(0, 3), *b1 = alone(1, 2);
    ie_ctx *c = context(64, 2, 0);
    ie_error err;
    batch b = {0};
    for (int32_t i = 0; i < 3; i++) add(&b, 0, i, text(0, i), 0);
    for (int32_t i = 0; i < 2; i++) add(&b, 1, i, text(1, i), 0);
    must(ie_eval(c, &(ie_batch){IE_DECODE, b.n, b.token, b.seq, b.pos, NULL}, &err), &err);
    for (int32_t i = -1; i < 7; i++) assert_true((ie_logits(c, i) != NULL) == (i == 2 || i == 4 || i == -1));
    assert_ptr_equal(ie_logits(c, -1), ie_logits(c, 4));
    assert_null(ie_logits(c, -2));
    assert_memory_equal(ie_logits(c, 2), a + 2 * TINY_VOCAB, ROW);
    assert_memory_equal(ie_logits(c, 4), b1 + TINY_VOCAB, ROW);
    free(a);
    free(b1);
    ie_ctx_free(c);
}

/* A prompt's last ops work on the rows near the wanted ones only: the same logits wherever these lie, and pages that the next
 * tokens can build on. */
static void few_rows_of_a_prompt(void **state) {
    (void)state;
    enum { LEN = 100 };
    static const struct {
        int32_t n, want[3]; /* of each sequence: tokens, positions whose logits are wanted */
    } cases[] = {{17, {16, 16, 16}}, {31, {0, 0, 0}}, {33, {32, 32, 32}}, {48, {15, 16, 16}}, {49, {48, 47, 48}}, {97, {3, 50, 96}}, {97, {96, 96, 96}}};
    float *want[2] = {alone(2, LEN), alone(3, LEN)};
    ie_error err;
    for (uint32_t k = 0; k < 2u * (sizeof cases / sizeof *cases); k++) {
        int32_t n = cases[k / 2].n, seqs = (int32_t)(k % 2u) + 1;
        ie_ctx *c = context(128, 2, 512);
        batch b = {0}, next = {0};
        for (int32_t s = 0; s < seqs; s++)
            for (int32_t i = 0; i < n; i++) {
                const int32_t *w = cases[k / 2].want;
                add(&b, s, i, text(2 + s, i), i == w[0] || i == w[1] || i == w[2]);
            }
        must(eval(c, IE_PREFILL, &b, &err), &err);
        for (int32_t i = 0; i < b.n; i++)
            if (b.want[i]) assert_memory_equal(ie_logits(c, i), want[b.seq[i]] + (size_t)b.pos[i] * TINY_VOCAB, ROW);
        for (int32_t s = 0; s < seqs; s++) add(&next, s, n, text(2 + s, n), 1);
        must(eval(c, IE_DECODE, &next, &err), &err);
        for (int32_t s = 0; s < seqs; s++) assert_memory_equal(ie_logits(c, s), want[s] + (size_t)n * TINY_VOCAB, ROW);
        ie_ctx_free(c);
    }
    free(want[0]);
    free(want[1]);
}

/* More rows than the head takes at once, at every position of a long prompt. */
static void all_rows_of_a_prompt(void **state) {
    (void)state;
    float *want = alone(2, 200);
    ie_ctx *c = context(256, 1, 512);
    ie_error err;
    batch b = {0};
    for (int32_t i = 0; i < 200; i++) add(&b, 0, i, text(2, i), 1);
    must(eval(c, IE_PREFILL, &b, &err), &err);
    for (int32_t i = 0; i < 200; i++) assert_memory_equal(ie_logits(c, i), want + (size_t)i * TINY_VOCAB, ROW);
    free(want);
    ie_ctx_free(c);
}

typedef struct {
    int32_t s;
    int ok;
} job;

static void *run_job(void *arg) {
    job *j = arg;
    ie_ctx *c = ie_ctx_new(model, &(ie_ctx_params){.n_ctx = 64}, NULL);
    float *out = malloc(40 * ROW);
    j->ok = c && out;
    for (int32_t i = 0; i < 40 && j->ok; i++) {
        batch b = {0};
        add(&b, 0, i, text(j->s, i), 1);
        j->ok = eval(c, IE_DECODE, &b, NULL) == IE_OK;
        if (j->ok) memcpy(out + (size_t)i * TINY_VOCAB, ie_logits(c, 0), ROW);
    }
    ie_ctx_free(c);
    if (!j->ok) {
        free(out);
        return NULL;
    }
    return out;
}

/* A model may be shared by threads, each with a context of its own. */
static void contexts_in_threads(void **state) {
    (void)state;
    pthread_t t[3];
    job j[3];
    for (int32_t s = 0; s < 3; s++) {
        j[s] = (job){s, 0};
        assert_int_equal(pthread_create(&t[s], NULL, run_job, &j[s]), 0);
    }
    for (int32_t s = 0; s < 3; s++) {
        void *got = NULL;
        float *want = alone(s, 40);
        pthread_join(t[s], &got);
        assert_non_null(got);
        assert_memory_equal(got, want, 40 * ROW);
        free(got);
        free(want);
    }
}

/* ---- sequences ------------------------------------------------------------------------------------------------------- */

static void truncated_and_evaluated_again(void **state) {
    (void)state;
    float *want = alone(3, 80), *other = alone(4, 80);
    ie_ctx *c = context(80, 2, 0);
    ie_error err;
    int32_t ids[80];
    for (int32_t i = 0; i < 80; i++) ids[i] = text(3, i);
    static const int32_t cuts[] = {79, 64, 63, 33, 32, 31, 1, 0};
    for (size_t k = 0; k < sizeof cuts / sizeof *cuts; k++) {
        must(ie_prompt(c, 0, ids, 80, NULL, NULL, &err), &err);
        assert_int_equal(ie_seq_len(c, 0), 80);
        assert_memory_equal(ie_logits(c, 79 - (k ? cuts[k - 1] : 0)), want + 79 * TINY_VOCAB, ROW);
        must(ie_seq_truncate(c, 0, cuts[k], &err), &err);
        assert_int_equal(ie_seq_len(c, 0), cuts[k]);
        if (k == 4) { /* the pages that became free go to another sequence */
            int32_t two[80];
            for (int32_t i = 0; i < 80; i++) two[i] = text(4, i);
            must(ie_prompt(c, 1, two, 80, NULL, NULL, &err), &err);
            assert_memory_equal(ie_logits(c, 79), other + 79 * TINY_VOCAB, ROW);
        }
    }
    assert_int_equal(ie_seq_truncate(c, 0, 1, &err), IE_E_ARG);
    assert_int_equal(ie_seq_truncate(c, 0, -1, &err), IE_E_ARG);
    assert_int_equal(ie_seq_truncate(c, 2, 0, &err), IE_E_ARG);
    assert_int_equal(ie_seq_len(c, 2), 0);
    free(want);
    free(other);
    ie_ctx_free(c);
}

static void sync_keeps_the_common_prefix(void **state) {
    (void)state;
    ie_ctx *c = context(64, 1, 0);
    ie_error err;
    int32_t a[50], have = -1;
    for (int32_t i = 0; i < 50; i++) a[i] = text(5, i);
    must(ie_prompt(c, 0, a, 40, NULL, NULL, &err), &err);
    must(ie_seq_sync(c, 0, a, 50, &have, &err), &err);
    assert_int_equal(have, 40);
    must(ie_seq_sync(c, 0, a, 40, &have, &err), &err);
    assert_int_equal(have, 39); /* one is left to evaluate */
    assert_int_equal(ie_seq_len(c, 0), 39);
    a[20] ^= 1;
    must(ie_seq_sync(c, 0, a, 50, &have, &err), &err);
    assert_int_equal(have, 20);
    must(ie_prompt(c, 0, a, 50, NULL, NULL, &err), &err);
    float got[TINY_VOCAB];
    memcpy(got, ie_logits(c, 29), ROW);
    must(ie_seq_truncate(c, 0, 0, &err), &err);
    must(ie_prompt(c, 0, a, 50, NULL, NULL, &err), &err);
    assert_memory_equal(ie_logits(c, 49), got, ROW);
    must(ie_seq_sync(c, 0, a, 0, &have, &err), &err);
    assert_int_equal(have, 0);
    assert_int_equal(ie_seq_len(c, 0), 0);
    int32_t many[65] = {0};
    assert_int_equal(ie_seq_sync(c, 0, many, 65, &have, &err), IE_E_FULL);
    assert_non_null(strstr(err.msg, "65"));
    assert_non_null(strstr(err.msg, "64"));
    ie_ctx_free(c);
}

static int stop_after(void *user, const char *what, double fraction) {
    int *left = user;
    assert_string_equal(what, "prompt");
    assert_true(fraction > 0 && fraction <= 1);
    return (*left)-- <= 0;
}

static void a_cancelled_prompt_can_go_on(void **state) {
    (void)state;
    float *want = alone(6, 60);
    ie_ctx *c = context(64, 1, 10);
    ie_error err;
    int32_t a[60], left = 2;
    for (int32_t i = 0; i < 60; i++) a[i] = text(6, i);
    assert_int_equal(ie_prompt(c, 0, a, 60, stop_after, &left, &err), IE_E_CANCELLED);
    assert_int_equal(ie_seq_len(c, 0), 30);
    must(ie_prompt(c, 0, a, 60, NULL, NULL, &err), &err);
    assert_memory_equal(ie_logits(c, 9), want + 59 * TINY_VOCAB, ROW);
    free(want);
    ie_ctx_free(c);
}

/* ---- refusals -------------------------------------------------------------------------------------------------------- */

static void refused(ie_ctx *c, ie_phase phase, const batch *b, ie_status code, const char *word) {
    ie_error err = {0};
    int32_t len[2] = {ie_seq_len(c, 0), ie_seq_len(c, 1)};
    assert_int_equal(eval(c, phase, b, &err), code);
    if (!strstr(err.msg, word)) fail_msg("'%s' does not say '%s'", err.msg, word);
    assert_null(strchr(err.msg, '\n'));
    assert_int_equal(ie_seq_len(c, 0), len[0]);
    assert_int_equal(ie_seq_len(c, 1), len[1]);
    assert_null(ie_logits(c, 0));
    assert_int_equal(eval(c, phase, b, NULL), code); /* nobody has to ask for the reason */
}

static void bad_batches(void **state) {
    (void)state;
    ie_ctx *c = context(32, 2, 20);
    ie_error err;
    batch b = {0}, none = {0};
    for (int32_t i = 0; i < 5; i++) add(&b, 0, i, 1, 1);
    must(eval(c, IE_DECODE, &b, &err), &err);
    refused(c, IE_DECODE, &none, IE_E_ARG, "0 tokens");
    batch x = {0};
    for (int32_t i = 0; i < 17; i++) add(&x, 1, i, 1, 1);
    refused(c, IE_DECODE, &x, IE_E_ARG, "1 to 16");
    for (int32_t i = 17; i < 21; i++) add(&x, 1, i, 1, 1);
    refused(c, IE_PREFILL, &x, IE_E_ARG, "1 to 20");
    static const struct {
        int32_t seq, pos, token;
        const char *word;
    } one[] = {{2, 0, 1, "sequence 2"}, {-1, 0, 1, "sequence -1"}, {0, 4, 1, "expected 5"}, {0, 6, 1, "expected 5"},
               {1, 1, 1, "expected 0"}, {0, -1, 1, "position -1"}, {0, 5, 97, "token 97"}, {0, 5, -1, "token -1"},
               {0, 5, INT32_MAX, "vocabulary of 97"}};
    for (size_t i = 0; i < sizeof one / sizeof *one; i++) {
        batch y = {0};
        add(&y, one[i].seq, one[i].pos, one[i].token, 1);
        refused(c, IE_DECODE, &y, IE_E_ARG, one[i].word);
    }
    batch z = {0};
    add(&z, 0, 5, 1, 1);
    add(&z, 1, 0, 1, 1);
    add(&z, 0, 6, 1, 1);
    refused(c, IE_DECODE, &z, IE_E_ARG, "not contiguous");
    batch gap = {0};
    add(&gap, 0, 5, 1, 1);
    add(&gap, 0, 7, 1, 1);
    refused(c, IE_DECODE, &gap, IE_E_ARG, "expected 6");
    batch full = {0};
    for (int32_t i = 5; i < 21; i++) add(&full, 0, i, 1, 1);
    must(eval(c, IE_DECODE, &full, &err), &err);
    batch more = {0};
    for (int32_t i = 21; i < 33; i++) add(&more, 0, i, 1, 1);
    refused(c, IE_DECODE, &more, IE_E_FULL, "32 positions");
    ie_ctx_free(c);
}

static void a_value_that_is_not_finite(void **state) {
    (void)state;
    float *want = alone(7, 9);
    ie_ctx *c = context(64, 2, 0);
    ie_error err;
    batch b = {0}, bad = {0}, good = {0};
    for (int32_t i = 0; i < 8; i++) add(&b, 0, i, text(7, i), 1);
    must(eval(c, IE_DECODE, &b, &err), &err);
    add(&bad, 0, 8, 3, 1);
    add(&bad, 1, 0, TINY_BAD, 1);
    refused(c, IE_DECODE, &bad, IE_E_NUMERIC, "not finite");
    add(&good, 0, 8, text(7, 8), 1);
    must(eval(c, IE_DECODE, &good, &err), &err);
    assert_memory_equal(ie_logits(c, 0), want + 8 * TINY_VOCAB, ROW);
    free(want);
    ie_ctx_free(c);
}

static void bad_contexts(void **state) {
    (void)state;
    static const struct {
        ie_ctx_params p;
        const char *word;
    } bad[] = {{{.n_ctx = -1}, "ctx is -1"}, {{.n_ctx = (1 << 20) + 1}, "ctx is 1048577"}, {{.n_ctx = 32, .n_seq = -1}, "sequences are -1"},
               {{.n_ctx = 32, .n_seq = 65}, "1 to 64"}, {{.n_ctx = 32, .chunk = 513}, "chunk is 513"}, {{.n_ctx = 32, .chunk = -1}, "chunk is -1"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ie_error err = {0};
        assert_null(ie_ctx_new(model, &bad[i].p, &err));
        assert_int_equal(err.code, IE_E_ARG);
        if (!strstr(err.msg, bad[i].word)) fail_msg("'%s' does not say '%s'", err.msg, bad[i].word);
        assert_null(ie_ctx_new(model, &bad[i].p, NULL));
    }
    ie_ctx *c = ie_ctx_new(model, NULL, NULL);
    assert_non_null(c);
    assert_int_equal(ie_ctx_size(c), TINY_CTX); /* the model's length */
    ie_ctx_free(c);
    ie_ctx_free(NULL);
    ie_free(NULL);
}

static void bad_models(void **state) {
    (void)state;
    ie_error err = {0};
    ie_model_close(NULL);
    assert_null(ie_model_open(NULL, NULL, &err));
    assert_int_equal(err.code, IE_E_ARG);
    assert_null(ie_model_open("", NULL, NULL));
    assert_null(ie_model_open("/nonexistent/model.gguf", NULL, &err));
    assert_int_equal(err.code, IE_E_IO);
    assert_non_null(strstr(err.msg, "/nonexistent/model.gguf"));
    assert_null(ie_model_open(path, &(ie_model_params){.backend = "abacus"}, &err));
    assert_non_null(strstr(err.msg, "abacus"));
    assert_null(ie_model_open(path, &(ie_model_params){.vocab_only = 1}, &err));
    assert_non_null(strstr(err.msg, "no vocabulary"));
    int32_t *ids = NULL;
    size_t n = 0;
    assert_int_equal(ie_tokenize(model, "a", 1, 0, &ids, &n, &err), IE_E_UNSUPPORTED);
    char *s = NULL;
    assert_int_equal(ie_detokenize(model, &(int32_t){1}, 1, 0, &s, &n, &err), IE_E_UNSUPPORTED);
    assert_int_equal(ie_chat_render(model, NULL, 0, "{}", 2, 1, &s, &n, NULL, NULL, &err) != IE_OK, 1);
    assert_false(ie_has_chat_template(model));
    assert_false(ie_token_is_end(model, 1));
    assert_null(s);
}

static void info(void **state) {
    (void)state;
    ie_model_info i;
    ie_model_get_info(model, &i);
    assert_string_equal(i.arch, "llama");
    assert_int_equal(i.n_vocab, TINY_VOCAB);
    assert_int_equal(i.n_layer, 2);
    assert_int_equal(i.n_embd, 64);
    assert_int_equal(i.n_head, 4);
    assert_int_equal(i.n_head_kv, 2);
    assert_int_equal(i.head_dim, 16);
    assert_int_equal(i.n_ctx_train, TINY_CTX);
    assert_int_equal(i.bos, -1);
    uint64_t params = 2 * TINY_VOCAB * 64 + 64 + 2 * (2 * 64 + 128 * 64 + 64 * 64 + 192 * 64 + 64 * 96);
    assert_int_equal(i.n_params, params);
    assert_int_equal(i.kv_bytes_page, 2 * 2 * 16 * 32 * 2 * 2);
    assert_true(i.weight_bytes > i.token_bytes && i.token_bytes > 0);
}

/* ---- generation ------------------------------------------------------------------------------------------------------ */

typedef struct {
    int32_t tokens, ends, rows, stop_at;
    float last[TINY_VOCAB];
} watcher;

static int on_token(void *user, int32_t token, const char *bytes, size_t n) {
    watcher *w = user;
    assert_non_null(bytes);
    assert_int_equal(n, 0); /* no vocabulary, no text */
    *(token < 0 ? &w->ends : &w->tokens) += 1;
    return token >= 0 && w->tokens == w->stop_at;
}

static void on_logits(void *user, int32_t pos, int32_t token, const float *logits, int32_t n_vocab) {
    watcher *w = user;
    assert_int_equal(n_vocab, TINY_VOCAB);
    assert_true(pos >= 0 && token >= 0);
    memcpy(w->last, logits, ROW);
    w->rows++;
}

static void generation(void **state) {
    (void)state;
    ie_ctx *c = context(40, 2, 0);
    ie_error err;
    watcher w = {0};
    ie_gen_params p = {.max_tokens = 10, .on_token = on_token, .on_logits = on_logits, .user = &w};
    ie_sampling_default(&p.sampling);
    ie_gen_result r;
    int32_t prompt[20], *out = NULL, first[10];
    for (int32_t i = 0; i < 20; i++) prompt[i] = text(8, i);
    must(ie_generate(c, 1, prompt, 20, &p, &r, &out, &err), &err);
    assert_int_equal(r.n_prompt, 20);
    assert_int_equal(r.n_cached, 0);
    assert_int_equal(r.n_predicted, 10);
    assert_int_equal(r.stop, IE_STOP_LENGTH);
    assert_int_equal(w.tokens, 10);
    assert_int_equal(w.ends, 1);
    assert_int_equal(w.rows, 10);
    assert_int_equal(ie_seq_len(c, 1), 29); /* the last token was not evaluated */
    memcpy(first, out, sizeof first);
    int32_t best = 0;
    for (int32_t i = 1; i < (int32_t)TINY_VOCAB; i++) best = w.last[i] > w.last[best] ? i : best;
    assert_int_equal(best, first[9]); /* greedy */
    ie_free(out);

    must(ie_generate(c, 1, prompt, 20, &p, &r, &out, &err), &err);
    assert_int_equal(r.n_cached, 19); /* the same prompt again: one token evaluated */
    assert_memory_equal(out, first, sizeof first);
    ie_free(out);

    w = (watcher){.stop_at = 3};
    must(ie_generate(c, 1, prompt, 20, &p, &r, NULL, &err), &err);
    assert_int_equal(r.stop, IE_STOP_CALLER);
    assert_int_equal(r.n_predicted, 3);

    w = (watcher){0};
    p.max_tokens = -1;
    must(ie_generate(c, 0, prompt, 20, &p, &r, &out, &err), &err);
    assert_int_equal(r.stop, IE_STOP_FULL);
    assert_int_equal(r.n_predicted, 21); /* positions 20 .. 39, and one more that has no position */
    assert_int_equal(ie_seq_len(c, 0), 40);
    assert_memory_equal(out, first, sizeof first);
    ie_free(out);

    p.max_tokens = 0;
    out = NULL;
    must(ie_generate(c, 0, prompt, 20, &p, &r, &out, &err), &err);
    assert_int_equal(r.n_predicted, 0);
    assert_int_equal(r.stop, IE_STOP_LENGTH);
    ie_free(out);
    assert_int_equal(ie_generate(c, 0, prompt, 0, &p, &r, NULL, &err), IE_E_ARG);
    assert_int_equal(ie_generate(c, 5, prompt, 20, &p, &r, NULL, &err), IE_E_ARG);
    prompt[3] = TINY_BAD;
    assert_int_equal(ie_generate(c, 0, prompt, 20, &p, &r, NULL, &err), IE_E_NUMERIC);
    prompt[3] = 4711;
    assert_int_equal(ie_generate(c, 0, prompt, 20, &p, &r, NULL, NULL), IE_E_ARG);
    ie_ctx_free(c);
}

/* Embeddings: hidden states of any batch are those of any other, pooled and of length 1. */
static void embeddings(void **state) {
    (void)state;
    enum { N = 70, E = 64 };
    ie_ctx *c = context(128, 2, 64), *small = context(128, 1, 7);
    ie_error err;
    int32_t ids[N];
    float mean[E], last[E], other[E];
    double sum[E] = {0}, square = 0, length = 0;
    batch b = {0};
    for (int32_t i = 0; i < N; i++) ids[i] = text(1, i);
    must(ie_embed(c, 0, ids, N, IE_POOL_MEAN, mean, &err), &err);
    must(ie_embed(small, 0, ids, N, IE_POOL_MEAN, other, &err), &err);
    assert_memory_equal(mean, other, sizeof mean);
    must(ie_embed(c, 1, ids, N, IE_POOL_LAST, last, &err), &err);
    must(ie_embed(small, 0, ids, N, IE_POOL_LAST, other, &err), &err);
    assert_memory_equal(last, other, sizeof last);
    assert_int_equal(ie_seq_len(c, 0), 0);

    for (int32_t i = 0; i < 64; i++) add(&b, 0, i, ids[i], i % 3 == 0);
    must(ie_eval_hidden(c, &(ie_batch){IE_PREFILL, b.n, b.token, b.seq, b.pos, b.want}, &err), &err);
    assert_null(ie_logits(c, 0));
    assert_non_null(ie_hidden(c, 63));
    assert_null(ie_hidden(c, 62)); /* not asked for */
    must(ie_prompt(c, 0, ids, 64, NULL, NULL, &err), &err);
    assert_null(ie_hidden(c, -1));
    must(ie_seq_truncate(c, 0, 0, &err), &err);
    for (int32_t i = 0; i < N; i++) { /* token by token, in the decode phase */
        int32_t seq = 0;
        must(ie_eval_hidden(c, &(ie_batch){IE_DECODE, 1, &ids[i], &seq, &i, NULL}, &err), &err);
        const float *row = ie_hidden(c, -1);
        assert_non_null(row);
        for (int k = 0; k < E; k++) sum[k] += (double)row[k];
        if (i + 1 < N) continue;
        for (int k = 0; k < E; k++) square += (double)row[k] * (double)row[k];
        for (int k = 0; k < E; k++) assert_float_equal(last[k], (float)((double)row[k] / sqrt(square)), 1e-6f);
    }
    for (int k = 0; k < E; k++) length += sum[k] * sum[k];
    for (int k = 0; k < E; k++) assert_float_equal(mean[k], (float)(sum[k] / sqrt(length)), 1e-6f);

    assert_int_equal(ie_embed(c, 0, ids, 0, IE_POOL_MEAN, mean, &err), IE_E_ARG);
    assert_int_equal(ie_embed(c, 0, ids, 129, IE_POOL_MEAN, mean, &err), IE_E_ARG);
    assert_int_equal(ie_embed(c, 2, ids, N, IE_POOL_MEAN, mean, &err), IE_E_ARG);
    assert_int_equal(ie_embed(c, 0, ids, N, (ie_pooling)7, mean, &err), IE_E_ARG);
    ids[3] = TINY_BAD;
    assert_int_equal(ie_embed(c, 0, ids, N, IE_POOL_MEAN, mean, &err), IE_E_NUMERIC);
    assert_int_equal(ie_seq_len(c, 0), 0);
    ie_ctx_free(c);
    ie_ctx_free(small);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(info),
        cmocka_unit_test(sequences_together_equal_each_alone),
        cmocka_unit_test(last_rows_are_the_default),
        cmocka_unit_test(few_rows_of_a_prompt), cmocka_unit_test(all_rows_of_a_prompt),
        cmocka_unit_test(contexts_in_threads),
        cmocka_unit_test(truncated_and_evaluated_again),
        cmocka_unit_test(sync_keeps_the_common_prefix),
        cmocka_unit_test(a_cancelled_prompt_can_go_on),
        cmocka_unit_test(bad_batches),
        cmocka_unit_test(a_value_that_is_not_finite),
        cmocka_unit_test(bad_contexts),
        cmocka_unit_test(bad_models),
        cmocka_unit_test(embeddings),
        cmocka_unit_test(generation),
    };
    return cmocka_run_group_tests_name("engine", tests, open_model, close_model);
}
