/* The CPU backend's ops, run through the backend: equal bits for every SIMD level, thread count and batch size; equal to the
 * documented order (ops_ref.h) and near the result in double; refused arguments; non-finite values. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "backend.h"
#include "cpu/level.h"
#include "ops_ref.h"

#define EPS 1e-5f
#define ULP 0x1p-24 /* half a unit in the last place, relative */

static uint32_t seed = 1;
static uint32_t rnd(void) {
    seed ^= seed << 13;
    seed ^= seed >> 17;
    seed ^= seed << 5;
    return seed;
}
static float rndf(void) { return (float)((int32_t)rnd() >> 8) * 0x1p-23f; } /* [-1, 1) */

static const uint32_t thread_counts[] = {1, 2, 7};

/* ---- a backend with weights, an arena and pages --------------------------------------------------------------------- */

typedef struct {
    ie_backend *be;
    ie_state *st;
    ie_mat mat[4];
    ie_vec vec[4];
    ie_weights w;
    ie_oplist l;
    uint64_t arena; /* bytes handed out */
} rig;

static const ie_op none = {.layer = 3, .src = IE_NO_OFF, .dst = IE_NO_OFF, .q8 = IE_NO_OFF, .res = IE_NO_OFF, .mat = IE_NO_W,
                           .vec = IE_NO_W, .vec2 = IE_NO_W, .scale = 1, .eps = EPS, .kv_layer = 0};

static bool skip_level(ie_level level) {
    if (ie_level_runs(level)) return false;
    printf("skip: this processor cannot run %s\n", ie_level_name(level));
    return true;
}

static void rig_open(rig *r, ie_level level, uint32_t threads) {
    ie_error err = {0};
    *r = (rig){0};
    r->w.mat = r->mat;
    r->w.vec = r->vec;
    r->l.name = "test";
    setenv("IE_SIMD", ie_level_name(level), 1);
    r->be = ie_backend_open("cpu", &(ie_backend_params){.threads = (int)threads}, &err);
    unsetenv("IE_SIMD");
    if (!r->be) fail_msg("%s", err.msg);
}

static void rig_close(rig *r) {
    if (r->st) r->be->api->state_free(r->be, r->st);
    ie_oplist_free(&r->l);
    r->be->api->destroy(r->be);
}

static int32_t add_vec(rig *r, uint32_t n) {
    r->vec[r->w.n_vec] = (ie_vec){.n = n, .name = "v"};
    return (int32_t)r->w.n_vec++;
}

static int32_t add_mat(rig *r, ie_format_id f, uint32_t rows, uint32_t cols) {
    r->mat[r->w.n_mat] = (ie_mat){.fmt = &ie_formats[f], .rows = rows, .cols = cols, .name = "m"};
    return (int32_t)r->w.n_mat++;
}

static ie_off add_f32(rig *r, uint64_t floats) {
    ie_off off = (ie_off)(r->arena / 256u);
    r->arena += ((floats + 32u) * 4u + 255u) / 256u * 256u;
    return off;
}

static ie_off add_q8(rig *r, uint32_t t, uint32_t k) { return add_f32(r, (uint64_t)ie_q8_blocks(t, ie_nblk(k)) * IE_Q8_WORDS); }

static void add_op(rig *r, ie_op op) { assert_int_equal(ie_oplist_add(&r->l, &op, NULL), IE_OK); }

static void rig_weights(rig *r) {
    ie_error err = {0};
    assert_int_equal(r->be->api->weights_alloc(r->be, &r->w, &err), IE_OK);
}

/* Fills a vector with 1 + noise, or a matrix with noise; returns host floats (owned by the caller). */
static float *fill_vec(rig *r, int32_t v) {
    uint32_t n = r->vec[v].n;
    float *copy = malloc(n * 4u);
    for (uint32_t i = 0; i < n; i++) copy[i] = 1.0f + 0.25f * rndf();
    assert_int_equal(r->be->api->weights_vec(r->be, &r->vec[v], copy, NULL), IE_OK);
    return copy;
}

typedef struct {
    const ie_mat *m;
    const uint16_t *h;
} f16_source;

static ie_status f16_rows(void *ctx, uint32_t row0, uint32_t n, uint32_t *units, ie_error *err) {
    (void)err;
    const f16_source *s = ctx;
    ie_repack_rows(s->m->fmt, s->m->cols, (const uint8_t *)(s->h + (size_t)row0 * s->m->cols), n, 0, units);
    return IE_OK;
}

static void set_mat(rig *r, int32_t m, const uint16_t *h) {
    f16_source s = {&r->mat[m], h};
    assert_int_equal(r->be->api->weights_fill(r->be, s.m, f16_rows, &s, NULL), IE_OK);
}

/* F16 matrix. */
static float *fill_mat(rig *r, int32_t m) {
    const ie_mat *a = &r->mat[m];
    uint16_t *h = malloc((size_t)a->rows * a->cols * 2u);
    float *copy = malloc((size_t)a->rows * a->cols * 4u);
    for (uint64_t i = 0; i < (uint64_t)a->rows * a->cols; i++) {
        h[i] = ie_f32_to_f16(rndf());
        copy[i] = ie_f16_to_f32(h[i]);
    }
    set_mat(r, m, h);
    free(h);
    return copy;
}

static void rig_state(rig *r, ie_state_desc d) {
    ie_error err = {0};
    d.arena_bytes = r->arena;
    if (!d.max_t) d.max_t = 512;
    if (!d.n_seq) d.n_seq = 1;
    if (r->be->api->state_new(r->be, &d, &r->st, &err)) fail_msg("%s", err.msg);
}

static void put(rig *r, ie_off off, const void *p, uint64_t bytes) {
    assert_int_equal(r->be->api->write(r->be, r->st, (uint64_t)off * 256u, p, bytes, NULL), IE_OK);
}
static const void *at(const rig *r, ie_off off) { return r->be->api->host_ptr(r->be, r->st, (uint64_t)off * 256u); }

static ie_status run(rig *r, const ie_step *s, ie_error *err) {
    return r->be->api->run(r->be, r->st, &r->w, &r->l, 0, r->l.n, s, err);
}
static void run_ok(rig *r, const ie_step *s) {
    ie_error err = {0};
    if (run(r, s, &err)) fail_msg("%s", err.msg);
}

/* ---- ops over rows --------------------------------------------------------------------------------------------------- */

enum { VOCAB = 50, MAX_T = 100 };

typedef struct {
    rig r;
    uint32_t n;
    ie_off embed, wide, norm, norm_q, act, act_q, plain_q, rows, rows_norm, rows_q;
    float *w, *table, *x; /* x: [MAX_T][2 n] */
    int32_t token[MAX_T];
} rows_rig;

static void rows_open(rows_rig *a, ie_level level, uint32_t threads, uint32_t n) {
    rig *r = &a->r;
    rig_open(r, level, threads);
    seed = 77 + n;
    a->n = n;
    int32_t vec = add_vec(r, n), mat = add_mat(r, IE_F_F16, VOCAB, n);
    rig_weights(r);
    a->w = fill_vec(r, vec);
    a->table = fill_mat(r, mat);
    a->embed = add_f32(r, MAX_T * n);
    a->wide = add_f32(r, MAX_T * 2u * n);
    a->norm = add_f32(r, MAX_T * n);
    a->norm_q = add_q8(r, MAX_T, n);
    a->act = add_f32(r, MAX_T * n);
    a->act_q = add_q8(r, MAX_T, n);
    a->plain_q = add_q8(r, MAX_T, n);
    a->rows = add_f32(r, 16 * n);
    a->rows_norm = add_f32(r, 16 * n);
    a->rows_q = add_q8(r, 16, n);
    ie_op op = none;
    op.n = n;
    op.kind = OP_EMBED, op.mat = mat, op.dst = a->embed, op.dst_ld = n, op.scale = 3.3f;
    add_op(r, op);
    op.kind = OP_RMSNORM, op.mat = IE_NO_W, op.vec = vec, op.src = a->embed, op.src_ld = n, op.dst = a->norm, op.q8 = a->norm_q;
    add_op(r, op);
    op.kind = OP_SWIGLU, op.vec = IE_NO_W, op.src = a->wide, op.src_ld = 2 * n, op.dst = a->act, op.q8 = a->act_q;
    add_op(r, op);
    op.kind = OP_QUANT, op.dst = IE_NO_OFF, op.q8 = a->plain_q, op.src_at = n / 2;
    add_op(r, op);
    op.kind = OP_ROWS, op.of_rows = 1, op.src = a->embed, op.src_ld = n, op.src_at = 0, op.dst = a->rows, op.q8 = IE_NO_OFF;
    add_op(r, op);
    op.kind = OP_RMSNORM, op.vec = vec, op.src = a->rows, op.dst = a->rows_norm, op.q8 = a->rows_q;
    add_op(r, op);
    rig_state(r, (ie_state_desc){.max_t = MAX_T});
    a->x = malloc(MAX_T * 2u * n * 4u);
    for (uint32_t i = 0; i < MAX_T * 2 * n; i++) a->x[i] = rndf() * (i % 97 == 0 ? 40.0f : i % 5 ? 1.0f : 0x1p-20f);
    for (uint32_t t = 0; t < MAX_T; t++) a->token[t] = (int32_t)(rnd() % VOCAB);
}

static void rows_close(rows_rig *a) {
    rig_close(&a->r);
    free(a->w);
    free(a->table);
    free(a->x);
}

/* Runs tokens [t0, t0 + n) as one batch; rows are asked for in reverse order (at most 16). */
static void rows_run(rows_rig *a, uint32_t t0, uint32_t n) {
    uint32_t out[16], n_out = n < 16 ? n : 16;
    for (uint32_t j = 0; j < n_out; j++) out[j] = n - 1 - j;
    put(&a->r, a->wide, a->x + (size_t)t0 * 2 * a->n, (uint64_t)n * 2 * a->n * 4);
    run_ok(&a->r, &(ie_step){.n = n, .n_out = n_out, .token = a->token + t0, .out = out});
}

static const uint32_t *q8_block(const rig *r, ie_off off, uint32_t t, uint32_t b, uint32_t k, uint32_t batch) {
    return (const uint32_t *)at(r, off) + (size_t)ie_q8_at(t, b, ie_nblk(k), ie_q8_group(batch)) * IE_Q8_WORDS;
}

static void same_q8(const rig *r, ie_off off, uint32_t t, uint32_t k, uint32_t batch, const float *y) {
    for (uint32_t b = 0; b < ie_nblk(k); b++) {
        uint32_t want[IE_Q8_WORDS];
        ref_q8(y + 32 * b, k - 32 * b < 32 ? k - 32 * b : 32, want);
        assert_memory_equal(q8_block(r, off, t, b, k, batch), want, sizeof want);
    }
}

/* Token t of a batch against the references. */
static void rows_check(rows_rig *a, uint32_t t0, uint32_t t, uint32_t batch) {
    uint32_t n = a->n;
    float *y = malloc(n * 4u), *e = malloc(n * 4u);
    double *d = malloc(n * sizeof *d);
    for (uint32_t i = 0; i < n; i++) e[i] = a->table[(size_t)a->token[t0 + t] * n + i] * 3.3f;
    assert_memory_equal((const float *)at(&a->r, a->embed) + (size_t)t * n, e, n * 4u);
    ref_norm(e, a->w, n, EPS, 256, y);
    assert_memory_equal((const float *)at(&a->r, a->norm) + (size_t)t * n, y, n * 4u);
    same_q8(&a->r, a->norm_q, t, n, batch, y);
    /* the sum of n squares: n / 256 + 9 roundings, halved by the root; four more for mean, sum, root, inverse; two products */
    ref_norm_double(e, a->w, n, EPS, d);
    for (uint32_t i = 0; i < n; i++) assert_true(fabs(y[i] - d[i]) <= fabs(d[i]) * (n / 512.0 + 12.0) * ULP);
    const float *x = a->x + (size_t)(t0 + t) * 2 * n;
    for (uint32_t i = 0; i < n; i++) {
        float s = ie_silu(x[i]);
        y[i] = s * x[n + i];
        double want = x[i] / (1.0 + exp(-(double)x[i])) * x[n + i];
        assert_true(fabs(y[i] - want) <= fabs(want) * 6.0 * ULP + 0x1p-148); /* silu 2 ulp, one product */
    }
    assert_memory_equal((const float *)at(&a->r, a->act) + (size_t)t * n, y, n * 4u);
    same_q8(&a->r, a->act_q, t, n, batch, y);
    same_q8(&a->r, a->plain_q, t, n, batch, x + n / 2);
    if (batch - 1 - t < 16) {
        uint32_t j = batch - 1 - t, n_out = batch < 16 ? batch : 16;
        assert_memory_equal((const float *)at(&a->r, a->rows) + (size_t)j * n, e, n * 4u);
        ref_norm(e, a->w, n, EPS, 256, y);
        assert_memory_equal((const float *)at(&a->r, a->rows_norm) + (size_t)j * n, y, n * 4u);
        same_q8(&a->r, a->rows_q, j, n, n_out, y);
    }
    free(y);
    free(e);
    free(d);
}

static void test_rows(void **state) {
    (void)state;
    static const uint32_t lengths[] = {1, 31, 64, 100, 576, 1000, 2056}, batches[] = {1, 2, 16, 17, 100};
    for (int level = 0; level < IE_LEVEL_COUNT; level++) {
        if (skip_level((ie_level)level)) continue;
        for (size_t th = 0; th < 3; th++)
            for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
                rows_rig a;
                rows_open(&a, (ie_level)level, thread_counts[th], lengths[k]);
                for (size_t b = 0; b < 5; b++) {
                    rows_run(&a, 100 - batches[b], batches[b]);
                    for (uint32_t t = 0; t < batches[b]; t += 1 + batches[b] / 11) rows_check(&a, 100 - batches[b], t, batches[b]);
                }
                rows_close(&a);
            }
    }
}

/* Values whose Q8 is special: zeros, subnormal scales, the largest floats. */
static void test_q8_edges(void **state) {
    (void)state;
    for (int level = 0; level < IE_LEVEL_COUNT; level++) {
        if (skip_level((ie_level)level)) continue;
        rows_rig a;
        rows_open(&a, (ie_level)level, 1, 64);
        static const float big[] = {0.0f, 1e-44f, 1e-38f, 0x1p-120f, 1e-10f, 1.0f, 3e38f};
        for (size_t k = 0; k < 7; k++)
            for (uint32_t i = 0; i < 128; i++) a.x[k * 128 + i] = big[k] * rndf();
        for (uint32_t i = 0; i < 128; i++) a.x[7 * 128 + i] = i % 2 ? -0.5f : 127.0f; /* ties */
        put(&a.r, a.wide, a.x, 8 * 128 * 4);
        ie_error err = {0};
        ie_step s = {.n = 8, .token = a.token};
        assert_int_equal(a.r.be->api->run(a.r.be, a.r.st, &a.r.w, &a.r.l, 3, 4, &s, &err), IE_OK);
        for (uint32_t t = 0; t < 8; t++) same_q8(&a.r, a.plain_q, t, 64, 8, a.x + t * 128 + 32);
        rows_close(&a);
    }
}

static void test_not_finite(void **state) {
    (void)state;
    static const float bad[] = {INFINITY, -INFINITY, NAN};
    for (int level = 0; level < IE_LEVEL_COUNT; level++) {
        if (skip_level((ie_level)level)) continue;
        rows_rig a;
        rows_open(&a, (ie_level)level, 2, 576);
        for (int k = 0; k < 3; k++) {
            ie_error err = {0};
            float keep = a.x[5 * 1152 + 700];
            a.x[5 * 1152 + 700] = bad[k]; /* token 5: seen by SWIGLU first */
            put(&a.r, a.wide, a.x, 16 * 1152 * 4);
            uint32_t out[16];
            for (uint32_t j = 0; j < 16; j++) out[j] = 15 - j;
            assert_int_equal(run(&a.r, &(ie_step){.n = 16, .n_out = 16, .token = a.token, .out = out}, &err), IE_E_NUMERIC);
            assert_int_equal(err.code, IE_E_NUMERIC);
            assert_non_null(strstr(err.msg, "swiglu in layer 3"));
            a.x[5 * 1152 + 700] = keep;
            rows_check(&a, 0, 4, 16); /* the other tokens are as ever */
            rows_check(&a, 0, 6, 16);
            rows_run(&a, 0, 16); /* and the next step is clean */
            rows_check(&a, 0, 5, 16);
        }
        rows_close(&a);
    }
}

/* ---- matrices through the backend: shares, joined rows, residuals ------------------------------------------------------ */

static void test_matmul(void **state) {
    (void)state;
    enum { K = 96, R0 = 40, R1 = 17, T = 17, ALL = 2 * R0 + R1 };
    for (int level = 0; level < IE_LEVEL_COUNT; level++) {
        if (skip_level((ie_level)level)) continue;
        for (size_t th = 0; th < 3; th++) {
            rig r;
            rig_open(&r, (ie_level)level, thread_counts[th]);
            seed = 5;
            int32_t joined = add_mat(&r, IE_F_F16, ALL, K), parts[3], bias = add_vec(&r, ALL);
            for (int i = 0; i < 3; i++) parts[i] = add_mat(&r, IE_F_F16, i ? R0 : R1, K);
            rig_weights(&r);
            float *w = fill_mat(&r, joined), *b = fill_vec(&r, bias);
            for (uint32_t i = 0, row = 0; i < 3; i++) { /* the same rows in three matrices */
                const ie_mat *m = &r.mat[parts[i]];
                uint16_t h[R0 * K];
                for (uint32_t k = 0; k < m->rows * K; k++) h[k] = ie_f32_to_f16(w[row * K + k]);
                set_mat(&r, parts[i], h);
                row += m->rows;
            }
            ie_off x = add_f32(&r, T * K), y = add_f32(&r, T * ALL), z = add_f32(&r, T * ALL), res = add_f32(&r, T * ALL);
            ie_op op = none;
            op.kind = OP_MATMUL, op.src = x, op.src_ld = K, op.dst_ld = ALL;
            for (uint32_t i = 0, row = 0; i < 3; i++, row += r.mat[parts[i - 1]].rows) {
                op.mat = parts[i], op.dst = z, op.dst_at = row;
                add_op(&r, op);
            }
            op.mat = joined, op.dst = y, op.dst_at = 0;
            add_op(&r, op);
            op.vec = bias, op.res = res, op.dst = res; /* in place on the residual */
            add_op(&r, op);
            rig_state(&r, (ie_state_desc){.max_t = T});
            float xs[T * K], rs[T * ALL];
            for (int i = 0; i < T * K; i++) xs[i] = rndf();
            for (int i = 0; i < T * ALL; i++) rs[i] = rndf();
            put(&r, x, xs, sizeof xs);
            put(&r, res, rs, sizeof rs);
            run_ok(&r, &(ie_step){.n = T});
            const float *ys = at(&r, y), *zs = at(&r, z), *out = at(&r, res);
            for (uint32_t t = 0; t < T; t++)
                for (uint32_t i = 0; i < ALL; i++) {
                    float acc = 0;
                    for (uint32_t k = 0; k < K; k++) acc = fmaf(w[i * K + k], xs[t * K + k], acc);
                    assert_memory_equal(&ys[t * ALL + i], &acc, 4);
                    float with_bias = acc + b[i], sum = rs[t * ALL + i] + with_bias;
                    assert_memory_equal(&out[t * ALL + i], &sum, 4);
                }
            assert_memory_equal(ys, zs, sizeof rs);
            free(w);
            free(b);
            rig_close(&r);
        }
    }
}

#include "ops_attn.h"

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),        cmocka_unit_test(test_q8_edges),  cmocka_unit_test(test_not_finite),
        cmocka_unit_test(test_matmul),      cmocka_unit_test(test_attention), cmocka_unit_test(test_attention_batches),
        cmocka_unit_test(test_page_copy),   cmocka_unit_test(test_refused),   cmocka_unit_test(test_refused_ops),
        cmocka_unit_test(test_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
