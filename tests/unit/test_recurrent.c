/* Contexts of a model with recurrent layers through the public API: truncation, prefixes, snapshots, several sequences. The
 * model is that of tiny_recurrent.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <unistd.h>

#include "ie.h"
#include "tiny_recurrent.h"

#define ROW (TINY_VOCAB * sizeof(float))

static char path[64];
static ie_model *model;

static int open_model(void **state) {
    (void)state;
    model = tiny_open(tiny_recurrent_write, path);
    return model ? 0 : -1;
}

static int close_model(void **state) {
    (void)state;
    ie_model_close(model);
    return unlink(path);
}

/* ---- helpers ---------------------------------------------------------------------------------------------------------- */

static ie_ctx *context(int32_t n_seq) {
    ie_error err;
    ie_ctx *c = ie_ctx_new(model, &(ie_ctx_params){.n_ctx = 256, .n_seq = n_seq}, &err);
    if (!c) fail_msg("%s", err.msg);
    return c;
}

/* Texts of sequence s. */
static int32_t text(int32_t s, int32_t i) { return (int32_t)(((uint32_t)s * 29u + (uint32_t)i * 19u + (uint32_t)(i * i) % 11u) % TINY_BAD); }

static void must(ie_status st, const ie_error *err) {
    if (st) fail_msg("status %d: %s", (int)st, err->msg);
}

/* Positions [from, to) of text s as sequence seq; logits of all into out[pos] when it is given. */
static void eval(ie_ctx *c, ie_phase phase, int32_t seq, int32_t s, int32_t from, int32_t to, float *out) {
    int32_t token[256], seqs[256], pos[256], n = to - from;
    uint8_t want[256];
    ie_error err;
    for (int32_t i = 0; i < n; i++) token[i] = text(s, from + i), seqs[i] = seq, pos[i] = from + i, want[i] = out != NULL;
    must(ie_eval(c, &(ie_batch){phase, n, token, seqs, pos, want}, &err), &err);
    for (int32_t i = 0; i < n && out; i++) memcpy(out + (size_t)(from + i) * TINY_VOCAB, ie_logits(c, i), ROW);
}

static void same(const float *a, const float *b, int32_t from, int32_t to) {
    for (int32_t i = from; i < to; i++)
        if (memcmp(a + (size_t)i * TINY_VOCAB, b + (size_t)i * TINY_VOCAB, ROW)) fail_msg("logits differ at position %d", i);
}

/* Logits of text s: a prompt of n positions, then decode up to end, alone in a context. */
static float *alone(int32_t s, int32_t n, int32_t end) {
    ie_ctx *c = context(1);
    float *out = calloc((size_t)end, ROW);
    eval(c, IE_PREFILL, 0, s, 0, n, out);
    for (int32_t i = n; i < end; i++) eval(c, IE_DECODE, 0, s, i, i + 1, out);
    ie_ctx_free(c);
    return out;
}

/* ---- tests -------------------------------------------------------------------------------------------------------------- */

static void batches_are_cut_behind_each_token(void **state) {
    (void)state;
    float *want = alone(1, 40, 80), *got = calloc(80, ROW);
    for (int32_t kept = 1; kept <= 16; kept++) {
        ie_ctx *c = context(1);
        ie_error err;
        eval(c, IE_PREFILL, 0, 1, 0, 40, got);
        eval(c, IE_DECODE, 0, 1, 40, 56, got);
        must(ie_seq_truncate(c, 0, 40 + kept, &err), &err);
        assert_int_equal(ie_seq_truncate(c, 0, 40, &err), IE_E_UNSUPPORTED);
        assert_int_equal(ie_seq_len(c, 0), 40 + kept);
        if (kept < 16) eval(c, IE_DECODE, 0, 1, 40 + kept, 56, got);
        for (int32_t i = 56; i < 80; i++) eval(c, IE_DECODE, 0, 1, i, i + 1, got);
        same(got, want, 0, 80);
        ie_ctx_free(c);
    }
    free(want);
    free(got);
}

static void prompts_share_prefixes_as_far_as_the_state_reaches(void **state) {
    (void)state;
    ie_ctx *c = context(1);
    ie_error err;
    int32_t ids[100], have;
    for (int32_t i = 0; i < 100; i++) ids[i] = text(2, i);
    must(ie_prompt(c, 0, ids, 64, NULL, NULL, &err), &err);
    float first[TINY_VOCAB];
    memcpy(first, ie_logits(c, 63), ROW);
    must(ie_seq_sync(c, 0, ids, 64, &have, &err), &err); /* the same prompt again */
    assert_int_equal(have, 63);
    must(ie_prompt(c, 0, ids, 64, NULL, NULL, &err), &err);
    assert_memory_equal(ie_logits(c, 0), first, ROW);
    must(ie_seq_sync(c, 0, ids, 100, &have, &err), &err); /* it goes on */
    assert_int_equal(have, 64);
    must(ie_prompt(c, 0, ids, 100, NULL, NULL, &err), &err);
    ids[50] = (ids[50] + 1) % TINY_BAD; /* it was another one before the last segment */
    must(ie_seq_sync(c, 0, ids, 100, &have, &err), &err);
    assert_int_equal(have, 0);
    assert_int_equal(ie_seq_len(c, 0), 0);
    must(ie_prompt(c, 0, ids, 64, NULL, NULL, &err), &err);
    ie_ctx_free(c);
}

static void snapshots_go_on_as_the_sequence_did(void **state) {
    (void)state;
    float *want = alone(3, 45, 90), *got = calloc(90, ROW);
    ie_error err;
    ie_ctx *a = context(2), *b = context(3);
    eval(a, IE_PREFILL, 1, 3, 0, 45, got);
    for (int32_t i = 45; i < 60; i++) eval(a, IE_DECODE, 1, 3, i, i + 1, got);
    ie_snapshot *s = ie_seq_save(a, 1, &err);
    assert_non_null(s);
    assert_int_equal(ie_snapshot_len(s), 60);
    assert_true(ie_snapshot_bytes(s) > 60 * 4);
    eval(a, IE_DECODE, 1, 3, 60, 70, NULL);
    eval(b, IE_PREFILL, 2, 7, 0, 120, NULL); /* another text is there, in another context */
    for (int32_t turn = 0; turn < 2; turn++) {
        must(ie_seq_restore(b, 2, s, &err), &err);
        assert_int_equal(ie_seq_len(b, 2), 60);
        for (int32_t i = 60; i < 90; i++) eval(b, IE_DECODE, 2, 3, i, i + 1, got);
        same(got, want, 0, 90);
    }
    must(ie_seq_restore(a, 1, s, &err), &err); /* and back where it came from */
    for (int32_t i = 60; i < 90; i++) eval(a, IE_DECODE, 1, 3, i, i + 1, got);
    same(got, want, 0, 90);
    ie_ctx *small_ = ie_ctx_new(model, &(ie_ctx_params){.n_ctx = 32}, &err);
    assert_int_equal(ie_seq_restore(small_, 0, s, &err), IE_E_FULL);
    assert_int_equal(ie_seq_restore(small_, 1, s, &err), IE_E_ARG);
    ie_snapshot_free(s);
    s = ie_seq_save(small_, 0, &err); /* an empty one */
    assert_int_equal(ie_snapshot_len(s), 0);
    must(ie_seq_restore(a, 1, s, &err), &err);
    assert_int_equal(ie_seq_len(a, 1), 0);
    assert_null(ie_seq_save(small_, 1, &err));
    ie_snapshot_free(s);
    ie_snapshot_free(NULL);
    ie_ctx_free(small_);
    ie_ctx_free(a);
    ie_ctx_free(b);
    free(want);
    free(got);
}

static void sequences_in_one_batch_equal_each_alone(void **state) {
    (void)state;
    enum { SEQS = 4, N = 50, END = 70 };
    ie_ctx *c = context(SEQS);
    float *want[SEQS], *got[SEQS];
    for (int32_t s = 0; s < SEQS; s++) {
        want[s] = alone(s, N, END);
        got[s] = calloc(END, ROW);
        eval(c, IE_PREFILL, s, 9, 0, 33, NULL); /* remains of another text */
        ie_error err;
        must(ie_seq_truncate(c, s, 0, &err), &err);
    }
    for (int32_t s = 0; s < SEQS; s++) eval(c, IE_PREFILL, s, s, 0, N, got[s]);
    for (int32_t i = N; i + 4 <= END; i += 4) {
        int32_t token[16], seq[16], pos[16];
        uint8_t logits[16];
        ie_error err;
        for (int32_t k = 0; k < 16; k++) seq[k] = 3 - k / 4, pos[k] = i + k % 4, token[k] = text(seq[k], pos[k]), logits[k] = 1;
        must(ie_eval(c, &(ie_batch){IE_DECODE, 16, token, seq, pos, logits}, &err), &err);
        for (int32_t k = 0; k < 16; k++) memcpy(got[seq[k]] + (size_t)pos[k] * TINY_VOCAB, ie_logits(c, k), ROW);
    }
    for (int32_t s = 0; s < SEQS; s++) {
        same(got[s], want[s], 0, END);
        free(want[s]);
        free(got[s]);
    }
    ie_ctx_free(c);
}

static void describes_its_state(void **state) {
    (void)state;
    ie_model_info i;
    ie_model_get_info(model, &i);
    assert_int_equal(i.n_layer, 4);
    assert_int_equal(i.n_recurrent, 2);
    assert_int_equal(i.n_mtp, 0);
    assert_int_equal(i.state_bytes, 2 * 4 * (4 * 32 * 32 + 36 * (256 + 8)));
    assert_int_equal(i.kv_bytes_page, 2 * 32 * 32 * 2 * 2);
    ie_error err;
    assert_null(ie_model_open(path, &(ie_model_params){.mtp = 1, .threads = 1}, &err));
    assert_string_equal(err.msg, "the model file has no MTP layer");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_are_cut_behind_each_token),
        cmocka_unit_test(prompts_share_prefixes_as_far_as_the_state_reaches),
        cmocka_unit_test(snapshots_go_on_as_the_sequence_did),
        cmocka_unit_test(sequences_in_one_batch_equal_each_alone),
        cmocka_unit_test(describes_its_state),
    };
    return cmocka_run_group_tests(tests, open_model, close_model);
}
