/* Kept prefixes: attached, saved to a file, restored; files that do not fit or are damaged. Both kinds of models. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sys/stat.h>

#include "prefix_file.h"
#include "tiny_recurrent.h"

#define LEN 160
#define ROW (TINY_VOCAB * sizeof(float))

typedef struct {
    char model[64], file[80];
    ie_model *m;
    bool recurrent;
} fixture;

static void must(ie_status st, const ie_error *err) {
    if (st) fail_msg("status %d: %s", (int)st, err->msg);
}

static int set_up(void **state, bool recurrent) {
    fixture *f = calloc(1, sizeof *f);
    ie_error err;
    f->recurrent = recurrent;
    if (recurrent ? tiny_recurrent_write(f->model) : tiny_model_write(f->model)) return -1;
    snprintf(f->file, sizeof f->file, "%s.prefixes", f->model);
    f->m = ie_model_open(f->model, &(ie_model_params){.backend = "cpu", .threads = 1}, &err);
    if (!f->m) fprintf(stderr, "%s\n", err.msg);
    *state = f;
    return f->m ? 0 : -1;
}
static int set_up_dense(void **state) { return set_up(state, false); }
static int set_up_recurrent(void **state) { return set_up(state, true); }
static int tear_down(void **state) {
    fixture *f = *state;
    ie_model_close(f->m);
    unlink(f->model);
    unlink(f->file);
    free(f);
    return 0;
}

static ie_ctx *context(const fixture *f, int32_t n_ctx) {
    ie_error err;
    ie_ctx *c = ie_ctx_new(f->m, &(ie_ctx_params){.n_ctx = n_ctx, .n_seq = 2, .cache_bytes = 1 << 20}, &err);
    if (!c) fail_msg("%s", err.msg);
    return c;
}

static void text(int32_t *t, int32_t s) {
    for (int32_t i = 0; i < LEN; i++) t[i] = i < 64 ? (i * 7 + 3) % TINY_BAD : (i * 5 + s * 11) % TINY_BAD; /* equal beginnings */
}

/* Evaluates text s from position have on as sequence 0, in steps of 32, keeping each; the last logits to out. */
static void run(ie_ctx *c, int32_t s, int32_t have, float *out) {
    int32_t t[LEN], seq[IE_PAGE] = {0}, pos[IE_PAGE];
    ie_error err;
    text(t, s);
    for (int32_t at = have; at < LEN; at += (int32_t)IE_PAGE) {
        for (int32_t i = 0; i < (int32_t)IE_PAGE; i++) pos[i] = at + i;
        must(ie_eval(c, &(ie_batch){IE_PREFILL, (int32_t)IE_PAGE, t + at, seq, pos, NULL}, &err), &err);
        must(ie_prefix_keep(c, 0, 1, &err), &err);
    }
    memcpy(out, ie_logits(c, -1), ROW);
}

static int32_t attach(ie_ctx *c, int32_t s) {
    int32_t t[LEN], have, matched;
    ie_error err;
    text(t, s);
    must(ie_prefix_attach(c, 0, t, LEN, &have, &matched, &err), &err);
    return have;
}

/* A context that keeps the texts 0 and 1, and text 0's last logits. */
static ie_ctx *filled(const fixture *f, float *logits) {
    float other[TINY_VOCAB];
    ie_ctx *c = context(f, 256);
    run(c, 0, attach(c, 0), logits);
    assert_int_equal(attach(c, 1), 64);
    run(c, 1, 64, other);
    ie_seq_truncate(c, 0, 0, NULL);
    return c;
}

static void restored_prefixes_are_the_saved_ones(void **state) {
    fixture *f = *state;
    float want[TINY_VOCAB], got[TINY_VOCAB];
    ie_error err;
    int32_t n, again;
    ie_ctx *c = filled(f, want);
    must(ie_prefix_save(c, f->file, UINT64_MAX, &n, &err), &err);
    assert_int_equal(n, 2 + 3 + 3);
    ie_ctx *d = context(f, 256);
    must(ie_prefix_load(d, f->file, &n, &err), &err);
    assert_int_equal(n, 8);
    ie_prefix_info a, b;
    ie_prefix_get_info(c, &a);
    ie_prefix_get_info(d, &b);
    assert_int_equal(a.n_kept, b.n_kept);
    assert_int_equal(a.n_free, b.n_free);
    assert_int_equal(a.n_states, b.n_states);
    assert_true(a.state_bytes == b.state_bytes);
    assert_int_equal(attach(d, 0), LEN - (int32_t)IE_PAGE);
    run(d, 0, LEN - (int32_t)IE_PAGE, got);
    assert_memory_equal(got, want, ROW);
    ie_seq_truncate(d, 0, 0, NULL);
    must(ie_prefix_load(d, f->file, &again, &err), &err); /* all there already */
    assert_int_equal(again, 0);
    ie_prefix_get_info(d, &b);
    assert_int_equal(b.n_kept, 8);
    ie_ctx_free(c);
    ie_ctx_free(d);
}

static void the_order_of_use_is_kept(void **state) {
    fixture *f = *state;
    float logits[TINY_VOCAB];
    ie_error err;
    int32_t n;
    ie_ctx *c = filled(f, logits);
    attach(c, 0); /* text 0 was used last */
    ie_seq_truncate(c, 0, 0, NULL);
    must(ie_prefix_save(c, f->file, UINT64_MAX, &n, &err), &err);
    ie_ctx *d = context(f, 96); /* 2 x 3 pages: room for text 0's five, and one of the other's */
    must(ie_prefix_load(d, f->file, &n, &err), &err);
    assert_int_equal(n, 6);
    ie_ctx_free(d);
    struct stat st;
    stat(f->file, &st);
    must(ie_prefix_save(c, f->file, (uint64_t)st.st_size * 5 / 8 + 1000, &n, &err), &err);
    assert_in_range(n, 4, 6);
    d = context(f, 256);
    must(ie_prefix_load(d, f->file, &n, &err), &err);
    assert_int_equal(attach(d, 0), LEN - (int32_t)IE_PAGE);
    assert_in_range(attach(d, 1), 64, 96);
    ie_ctx_free(d);
    must(ie_prefix_save(c, f->file, 10, &n, &err), &err); /* nothing fits: a file of none */
    assert_int_equal(n, 0);
    ie_ctx_free(c);
}

static void store(const char *path, const uint8_t *data, size_t n) {
    FILE *f = fopen(path, "wb");
    assert_int_equal(fwrite(data, 1, n, f), n);
    fclose(f);
}

static void refused(const fixture *f, ie_ctx *c, const uint8_t *data, size_t n, const char *what, size_t at) {
    ie_error err;
    ie_prefix_info info;
    int32_t pages = -1;
    store(f->file, data, n);
    ie_status st = ie_prefix_load(c, f->file, &pages, &err);
    ie_prefix_get_info(c, &info);
    if ((st != IE_E_FORMAT && st != IE_E_UNSUPPORTED) || !err.msg[0]) fail_msg("%s at byte %zu: status %d", what, at, (int)st);
    if (pages || info.n_kept || info.n_free != info.n_pages || info.n_states) fail_msg("%s at byte %zu: something was kept", what, at);
}

static void damaged_and_foreign_files_are_refused(void **state) {
    fixture *f = *state;
    float logits[TINY_VOCAB];
    ie_error err;
    ie_ctx *c = filled(f, logits), *d = context(f, 256);
    must(ie_prefix_save(c, f->file, UINT64_MAX, NULL, &err), &err);
    ie_ctx_free(c);
    struct stat st;
    stat(f->file, &st);
    size_t n = (size_t)st.st_size;
    uint8_t *data = malloc(n);
    FILE *file = fopen(f->file, "rb");
    assert_int_equal(fread(data, 1, n, file), n);
    fclose(file);
    for (size_t at = 0; at < n; at += at < 400 ? 1 : 9973) {
        data[at] ^= 0x10;
        refused(f, d, data, n, "a changed bit", at);
        data[at] ^= 0x10;
    }
    for (size_t len = 0; len < n; len += len < 400 ? 7 : 19997) refused(f, d, data, len, "the end", len);
    prefix_header h;
    memcpy(&h, data, sizeof h);
    h.model ^= 1; /* another model, with a right checksum */
    h.check = prefix_hash(PREFIX_SEED, &h, offsetof(prefix_header, check));
    memcpy(data, &h, sizeof h);
    refused(f, d, data, n, "another model", 0);
    assert_int_equal(ie_prefix_load(d, "/nonexistent/file", NULL, &err), IE_E_IO);
    assert_int_equal(ie_prefix_save(d, "/nonexistent/file", UINT64_MAX, NULL, &err), IE_E_IO);
    free(data);
    ie_ctx_free(d);
}

/* An entry with a right checksum whose recurrent state stands nowhere: the request that would use it fails, nothing else. */
static void impossible_states_are_refused_when_used(void **state) {
    fixture *f = *state;
    float logits[TINY_VOCAB];
    ie_error err;
    int32_t t[LEN], have, matched;
    ie_ctx *c = filled(f, logits);
    uint32_t parent = IE_NO_PAGE;
    text(t, 0);
    for (uint32_t i = 0; i < 4; i++) parent = ie_pages_find(ie_ctx_pages(c), parent, t + i * IE_PAGE);
    uint32_t *place = (uint32_t *)(uintptr_t)ie_pages_state(ie_ctx_pages(c), parent);
    place[0] = 5, place[1] = 4000000000u;
    assert_int_equal(ie_prefix_attach(c, 0, t, LEN, &have, &matched, &err), IE_E_FORMAT);
    assert_int_equal(ie_seq_len(c, 0), 0);
    ie_ctx_free(c);
}

static void the_fingerprint_tells_models_apart(void **state) {
    fixture *f = *state;
    ie_error err;
    uint64_t a, b;
    char other[64];
    must(ie_prefix_model(f->m, &a, &err), &err);
    must(ie_prefix_model(f->m, &b, &err), &err);
    assert_true(a == b);
    assert_int_equal(f->recurrent ? tiny_recurrent_write(other) : tiny_model_write(other), 0);
    FILE *file = fopen(other, "r+b"); /* within the last sample of the last tensor (28 bytes of padding at most follow it) */
    fseek(file, -60, SEEK_END);
    int byte = fgetc(file);
    fseek(file, -60, SEEK_END);
    fputc(byte ^ 1, file);
    fclose(file);
    ie_model *m = ie_model_open(other, &(ie_model_params){.backend = "cpu", .threads = 1}, &err);
    unlink(other);
    if (!m) fail_msg("%s", err.msg);
    must(ie_prefix_model(m, &b, &err), &err);
    assert_true(a != b);
    ie_model_close(m);
}

#define BOTH(test) cmocka_unit_test_setup_teardown(test, set_up_dense, tear_down), cmocka_unit_test_setup_teardown(test, set_up_recurrent, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        BOTH(restored_prefixes_are_the_saved_ones),
        BOTH(the_order_of_use_is_kept),
        BOTH(damaged_and_foreign_files_are_refused),
        BOTH(the_fingerprint_tells_models_apart),
        cmocka_unit_test_setup_teardown(impossible_states_are_refused_when_used, set_up_recurrent, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
