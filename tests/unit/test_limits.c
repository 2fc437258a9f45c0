/* Limits that the core's maps rest on (docs/VERIFICATION.md), where sizes enter: matrices and vectors at load, page tables and KV
 * pages when a state is made. Batches: test_ops.c, test_engine.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "model/model.h"
#include "tiny_model.h"

/* The metadata of one wide head in each of `heads`, then F16 tensors named a, b ... of ne[0] = 1; their bytes are a hole. */
static ie_gguf *file_of(uint32_t heads, const uint64_t *rows, uint32_t n) {
    char path[] = "/tmp/ie-limits-XXXXXX";
    int fd = mkstemp(path);
    tiny_writer w = {.f = fd < 0 ? NULL : fdopen(fd, "wb")};
    assert_non_null(w.f);
    fwrite("GGUF", 1, 4, w.f);
    tiny_u32(&w, 3);
    tiny_u64(&w, n);
    tiny_u64(&w, 8);
    tiny_key_u32(&w, "llama.block_count", 1);
    tiny_key_u32(&w, "llama.embedding_length", 64);
    tiny_key_u32(&w, "llama.feed_forward_length", 64);
    tiny_key_u32(&w, "llama.attention.head_count", heads);
    tiny_key_u32(&w, "llama.attention.key_length", 8192);
    tiny_key_u32(&w, "llama.attention.value_length", 8192);
    tiny_str(&w, "llama.attention.layer_norm_rms_epsilon");
    tiny_u32(&w, 6);
    fwrite(&(float){1e-5f}, 4, 1, w.f);
    tiny_key_u32(&w, "llama.rope.dimension_count", 128);
    uint64_t at = 0;
    for (uint32_t i = 0; i < n; i++) {
        tiny_str(&w, (char[]){(char)('a' + (int)i), 0});
        tiny_u32(&w, 2);
        tiny_u64(&w, 1);
        tiny_u64(&w, rows[i]);
        tiny_u32(&w, 1);
        tiny_u64(&w, at);
        at += (rows[i] * 2u + 31u) / 32u * 32u;
    }
    long end = (ftell(w.f) + 31) / 32 * 32;
    assert_int_equal(fflush(w.f), 0);
    assert_int_equal(ftruncate(fd, end + (long)at), 0);
    fclose(w.f);
    ie_error err;
    ie_gguf *g = ie_gguf_open(path, &err);
    if (!g) fail_msg("%s", err.msg);
    unlink(path);
    return g;
}

/* What an architecture asks for. */
static ie_part parts[3];
static uint32_t n_parts;
static bool as_vec;

static ie_status load(ie_model *m, ie_loader *l, ie_error *err) {
    int32_t out;
    (void)m;
    ie_status st = as_vec ? ie_load_vec(l, parts, n_parts, false, &out, err) : ie_load_mat(l, parts, n_parts, &out, err);
    return st ? st : ie_fail(err, IE_E_CANCELLED, "taken");
}

static void load_says(const uint64_t *rows, uint32_t n, const char *text) {
    static const ie_arch arch = {.name = "limits", .load = load};
    ie_error err = {0};
    ie_model m = {.arch = &arch, .gguf = file_of(8, rows, n)};
    for (n_parts = 0; n_parts < n; n_parts++) {
        static const char *const names[] = {"a", "b", "c"};
        parts[n_parts] = (ie_part){names[n_parts], (uint32_t)rows[n_parts], 1u};
    }
    assert_int_not_equal(ie_model_load(&m, &(ie_model_params){0}, &err), IE_OK);
    if (!strstr(err.msg, text)) fail_msg("'%s' does not mention '%s'", err.msg, text);
    free(m.w.mat);
    free(m.w.vec);
    ie_gguf_close(m.gguf);
}

static void matrices(void **state) {
    (void)state;
    as_vec = false;
    load_says((uint64_t[]){IE_MAX_ROWS}, 1, "taken");
    load_says((uint64_t[]){IE_MAX_ROWS + 1u}, 1, "matrix 'a' has 2097153 rows of 1 weights, allowed are 1 to 2097152 rows of 1 to 65536 weights");
    load_says((uint64_t[]){IE_MAX_ROWS, 1}, 2, "matrix 'a' has 2097153 rows"); /* joined ones */
    load_says((uint64_t[]){1, IE_MAX_ROWS - 1u}, 2, "taken");
}

static void vectors(void **state) {
    (void)state;
    as_vec = true;
    load_says((uint64_t[]){1u << 24}, 1, "taken");
    load_says((uint64_t[]){(1u << 24) + 1u}, 1, "vector 'a' has 16777217 rows of 1 elements, allowed are 16777216 in all");
    load_says((uint64_t[]){1u << 23, (1u << 23) + 1u}, 2, "vector 'b' has 8388609 rows");
}

static void heads(void **state) {
    (void)state;
    for (uint32_t n = 8; n <= 9; n++) {
        ie_error err = {0};
        ie_hparams hp = {0};
        ie_gguf *g = file_of(n, NULL, 0);
        ie_status st = ie_hparams_read(g, "llama", &hp, &err);
        if (n == 8) assert_int_equal(st, IE_OK);
        else if (!strstr(err.msg, "9 heads of 8192 are beyond this engine's row limit 65536")) fail_msg("'%s'", err.msg);
        ie_gguf_close(g);
    }
}

/* ---- states ------------------------------------------------------------------------------------------------------------------ */

static void state_says(ie_state_desc d, ie_status code, const char *text) {
    ie_error err = {0};
    ie_state *st = NULL;
    ie_backend *be = ie_cpu_open(&(ie_backend_params){.threads = 1}, &err);
    assert_non_null(be);
    assert_int_equal(be->api->state_new(be, &d, &st, &err), code);
    if (!strstr(err.msg, text)) fail_msg("'%s' does not mention '%s'", err.msg, text);
    be->api->destroy(be);
}

static void states(void **state) {
    (void)state;
    ie_state_desc d = {.arena_bytes = 256, .kv = {1, 1, 8, 0}, .n_pages = 1, .n_seq = 1, .max_t = 1, .pages_per_seq = 1};
    ie_state_desc tables = d, wide = d, layers = d, batch = d;
    tables.n_seq = 65536, tables.pages_per_seq = 65536;
    state_says(tables, IE_E_ARG, "page tables: 65536 sequences of 65536 pages are too many");
    wide.kv.n_layer = 1u << 16, wide.kv.n_kv = 1u << 16; /* parts of a page: 2^32 */
    state_says(wide, IE_E_NOMEM, "KV pages: 1 of");
    layers.n_pages = 1u << 31, layers.kv.n_kv = 2; /* parts of all pages: 2^32 */
    state_says(layers, IE_E_NOMEM, "KV pages: 2147483648 of");
    batch.max_t = IE_MAX_T + 1u;
    state_says(batch, IE_E_ARG, "batch size 513: must be 1..512");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(matrices), cmocka_unit_test(vectors), cmocka_unit_test(heads), cmocka_unit_test(states)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
