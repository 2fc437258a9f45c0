/* Gated DeltaNet layers through the backend: CONV and GDN against the documented orders bit by bit and against the recurrence
 * in double, at every SIMD level, for 1, 2 and 7 threads and any cut of a prompt; states that are rolled back, saved and
 * loaded; sequences that do not touch each other; refusals. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "backend.h"
#include "cpu/level.h"
#include "gdn_ref.h"

enum { NK = 2, NV = 6, LAYERS = 2, MAX = 200 };
#define EPS 1e-6f

static uint32_t seed = 1;
static float rndf(void) {
    seed ^= seed << 13, seed ^= seed >> 17, seed ^= seed << 5;
    return (float)((int32_t)seed >> 8) * 0x1p-23f;
}

/* ---- a backend with one list: CONV and GDN of each layer, all reading rows that the test fills in ------------------- */

typedef struct {
    ie_backend *be;
    ie_state *st;
    ie_vec vec[3];
    ie_weights w;
    ie_oplist l;
    uint32_t hd, ch, ld;
    ie_off row[LAYERS], out[LAYERS], q8;
    float *taps, *gate, *norm; /* host copies */
} rig;

static float *new_vec(rig *r, uint32_t i, uint32_t n, float centre, float width) {
    r->vec[i] = (ie_vec){.n = n, .name = "v"};
    r->w.n_vec++;
    float *p = malloc(n * sizeof *p);
    for (uint32_t k = 0; k < n; k++) p[k] = centre + width * rndf();
    return p;
}

static ie_off place(uint64_t *arena, uint64_t floats) {
    ie_off off = (ie_off)(*arena / 256u);
    *arena += (floats * 4u + 255u) / 256u * 256u;
    return off;
}

static void rig_open(rig *r, ie_level level, uint32_t threads, uint32_t hd, const char *chunk) {
    ie_error err = {0};
    *r = (rig){.hd = hd, .ch = (2 * NK + NV) * hd};
    r->ld = r->ch + NV * hd + 2 * NV;
    setenv("IE_SIMD", ie_level_name(level), 1);
    setenv("IE_GDN_CHUNK", chunk, 1);
    r->be = ie_backend_open("cpu", &(ie_backend_params){.threads = (int)threads}, &err);
    if (!r->be) fail_msg("%s", err.msg);
    r->w.vec = r->vec;
    seed = 77;
    r->taps = new_vec(r, 0, r->ch * 4, 0, 0.7f);
    r->gate = new_vec(r, 1, 2 * NV, -0.6f, 0.5f); /* ssm_a must be negative; dt bias may be anything */
    r->norm = new_vec(r, 2, hd, 1, 0.3f);
    assert_int_equal(r->be->api->weights_alloc(r->be, &r->w, &err), IE_OK);
    const float *host[] = {r->taps, r->gate, r->norm};
    for (uint32_t i = 0; i < 3; i++) assert_int_equal(r->be->api->weights_vec(r->be, &r->vec[i], host[i], &err), IE_OK);
    uint64_t arena = 0;
    for (uint32_t i = 0; i < LAYERS; i++) r->row[i] = place(&arena, MAX * r->ld), r->out[i] = place(&arena, MAX * NV * hd);
    r->q8 = place(&arena, (uint64_t)ie_q8_blocks(MAX, ie_nblk(NV * hd)) * IE_Q8_WORDS);
    for (uint32_t i = 0; i < LAYERS; i++) {
        ie_op op = {.kind = OP_CONV, .layer = (int32_t)i, .kv_layer = (int32_t)i, .src = r->row[i], .dst = IE_NO_OFF, .q8 = IE_NO_OFF,
                    .res = IE_NO_OFF, .mat = IE_NO_W, .vec = 0, .vec2 = 1, .eps = EPS, .scale = (float)(1 / sqrt(hd)), .src_ld = r->ld,
                    .n_head = NV, .n_kv = NK, .hd = hd};
        assert_int_equal(ie_oplist_add(&r->l, &op, &err), IE_OK);
        op.kind = OP_GDN, op.dst = r->out[i], op.dst_ld = NV * hd, op.vec = 2, op.vec2 = IE_NO_W;
        op.q8 = i ? IE_NO_OFF : r->q8;
        assert_int_equal(ie_oplist_add(&r->l, &op, &err), IE_OK);
    }
    ie_state_desc d = {.arena_bytes = arena, .gdn = {LAYERS, NK, NV, hd}, .n_seq = 3, .max_t = MAX, .pages_per_seq = 16, .n_pages = 48};
    if (r->be->api->state_new(r->be, &d, &r->st, &err)) fail_msg("%s", err.msg);
    unsetenv("IE_SIMD");
    unsetenv("IE_GDN_CHUNK");
}

static void rig_close(rig *r) {
    r->be->api->state_free(r->be, r->st);
    ie_oplist_free(&r->l);
    r->be->api->destroy(r->be);
    free(r->taps), free(r->gate), free(r->norm);
}

/* Input rows of a text of n tokens for one layer. */
static float *text(const rig *r, uint32_t which, uint32_t n) {
    float *x = malloc((size_t)n * r->ld * sizeof *x);
    seed = 1000 + which;
    for (uint32_t i = 0; i < n * r->ld; i++) x[i] = 2.0f * rndf();
    return x;
}

static uint32_t pages[3 * 16];

/* Tokens [from, to) of a text as sequence seq; their results go to out[layer][pos][NV hd] (texts: one a layer). */
static ie_status run(rig *r, ie_phase phase, uint32_t seq, float *const x[LAYERS], uint32_t from, uint32_t to, float *out, ie_error *err) {
    int32_t s[MAX], p[MAX];
    uint32_t n = to - from, w = NV * r->hd;
    for (uint32_t i = 0; i < n; i++) s[i] = (int32_t)seq, p[i] = (int32_t)(from + i);
    for (uint32_t i = 0; i < 48; i++) pages[i] = i;
    ie_step step = {.phase = phase, .n = n, .seq = s, .pos = p, .page_table = pages};
    for (uint32_t l = 0; l < LAYERS; l++)
        assert_int_equal(r->be->api->write(r->be, r->st, r->row[l] * 256ull, x[l] + (size_t)from * r->ld, (size_t)n * r->ld * 4, err), IE_OK);
    ie_status st = r->be->api->run(r->be, r->st, &r->w, &r->l, 0, r->l.n, &step, err);
    for (uint32_t l = 0; l < LAYERS && !st && out; l++)
        st = r->be->api->read(r->be, r->st, r->out[l] * 256ull, out + ((size_t)l * MAX + from) * w, (size_t)n * w * 4, err);
    return st;
}

static void run_ok(rig *r, ie_phase phase, uint32_t seq, float *const x[LAYERS], uint32_t from, uint32_t to, float *out) {
    ie_error err = {0};
    if (run(r, phase, seq, x, from, to, out, &err)) fail_msg("%s", err.msg);
}

static float *results(const rig *r) { return calloc((size_t)LAYERS * MAX * NV * r->hd, sizeof(float)); }

static void same(const rig *r, const float *a, const float *b, uint32_t from, uint32_t to, const char *what) {
    uint32_t w = NV * r->hd;
    for (uint32_t l = 0; l < LAYERS; l++)
        for (uint32_t t = from; t < to; t++)
            for (uint32_t i = 0; i < w; i++) {
                size_t at = ((size_t)l * MAX + t) * w + i;
                if (memcmp(a + at, b + at, 4)) fail_msg("%s: layer %u, token %u, value %u: %a, expected %a", what, l, t, i, (double)a[at], (double)b[at]);
            }
}

/* ---- against the references ----------------------------------------------------------------------------------------- */

/* What CONV makes of token t for value head h: q, k, v, beta, log decay. */
static void ref_inputs(const rig *r, const float *x, uint32_t t, uint32_t h, float *q, float *k, float *v, float *beta, float *a) {
    uint32_t hd = r->hd, kh = h % NK;
    for (uint32_t i = 0; i < hd; i++) {
        q[i] = ref_conv(x, r->ld, r->taps, kh * hd + i, t);
        k[i] = ref_conv(x, r->ld, r->taps, (NK + kh) * hd + i, t);
        v[i] = ref_conv(x, r->ld, r->taps, (2 * NK + h) * hd + i, t);
    }
    ref_l2(q, hd, EPS, (float)(1 / sqrt(hd)));
    ref_l2(k, hd, EPS, 1);
    const float *g = x + (size_t)t * r->ld + r->ch + NV * hd;
    *beta = ie_sigmoid(g[h]);
    *a = r->gate[h] * ie_softplus(g[NV + h] + r->gate[NV + h]);
}

/* One head over n tokens: token by token from `steps_from` on, before it by segments. */
static void ref_head(const rig *r, const float *x, uint32_t h, uint32_t n, uint32_t steps_from, float *out, double *worst) {
    uint32_t hd = r->hd;
    float *q = malloc(n * hd * 4), *k = malloc(n * hd * 4), *v = malloc(n * hd * 4), *o = malloc(n * hd * 4), *s = calloc(hd * hd, 4);
    float *beta = malloc(n * 4), *a = malloc(n * 4);
    double *sd = calloc(hd * hd, 8), od[REF_HD];
    for (uint32_t t = 0; t < n; t++) ref_inputs(r, x, t, h, q + t * hd, k + t * hd, v + t * hd, beta + t, a + t);
    for (uint32_t t = 0; t < steps_from; t += 32) {
        uint32_t m = steps_from - t < 32 ? steps_from - t : 32;
        float *keep = malloc(hd * hd * 4);
        memcpy(keep, s, hd * hd * 4);
        ref_segment(s, hd, m, q + t * hd, k + t * hd, v + t * hd, beta + t, a + t, o + t * hd, 1);
        if (t + 32 >= steps_from && steps_from < n) { /* decode replays the last segment token by token */
            float drop[REF_HD];
            memcpy(s, keep, hd * hd * 4);
            for (uint32_t u = t; u < t + m; u++) ref_step(s, hd, q + u * hd, k + u * hd, v + u * hd, beta[u], a[u], drop);
        }
        free(keep);
    }
    for (uint32_t t = steps_from; t < n; t++) ref_step(s, hd, q + t * hd, k + t * hd, v + t * hd, beta[t], a[t], o + t * hd);
    for (uint32_t t = 0; t < n; t++) {
        ref_step_double(sd, hd, q + t * hd, k + t * hd, v + t * hd, (double)beta[t], (double)a[t], od);
        for (uint32_t i = 0; i < hd; i++) *worst = fmax(*worst, fabs(od[i] - (double)o[t * hd + i]));
        ref_gated_norm(o + t * hd, r->norm, x + (size_t)t * r->ld + r->ch + h * hd, hd, EPS, out + (size_t)t * NV * hd + h * hd);
    }
    free(q), free(k), free(v), free(o), free(s), free(beta), free(a), free(sd);
}

static void orders(uint32_t hd, uint32_t n, uint32_t prompt) {
    for (ie_level level = 0; level < IE_LEVEL_COUNT; level++) {
        if (!ie_level_runs(level)) {
            printf("skip: this processor cannot run %s\n", ie_level_name(level));
            continue;
        }
        rig r;
        rig_open(&r, level, 2, hd, "1");
        float *x[LAYERS] = {text(&r, 0, n), text(&r, 1, n)}, *got = results(&r), *want = results(&r);
        if (prompt) run_ok(&r, IE_PREFILL, 0, x, 0, prompt, got);
        for (uint32_t t = prompt; t < n; t++) run_ok(&r, IE_DECODE, 0, x, t, t + 1, got);
        double worst = 0;
        for (uint32_t l = 0; l < LAYERS; l++)
            for (uint32_t h = 0; h < NV; h++) ref_head(&r, x[l], h, n, prompt, want + (size_t)l * MAX * NV * hd, &worst);
        same(&r, got, want, 0, n, ie_level_name(level));
        assert_true(worst < 2e-6);
        free(x[0]), free(x[1]), free(got), free(want);
        rig_close(&r);
    }
}

static void decode_has_the_documented_order(void **state) {
    (void)state;
    orders(128, 10, 0);
    orders(32, 40, 0);
}

static void prompts_have_the_documented_order(void **state) {
    (void)state;
    orders(128, 100, 100);
    orders(64, 64, 64);
    orders(96, 33, 33);
}

static void decode_after_a_prompt_replays_its_last_segment(void **state) {
    (void)state;
    orders(64, 60, 45);
    orders(32, 70, 64);
}

/* ---- cuts, threads, levels ------------------------------------------------------------------------------------------ */

static void cuts_threads_and_levels_give_the_same_bits(void **state) {
    (void)state;
    static const uint32_t cuts[] = {1, 3, 7, 16, 31, 32, 33, 64, 100, 130}, threads[] = {1, 2, 7};
    enum { N = 130, MORE = 140 };
    float *want = NULL;
    for (ie_level level = 0; level < IE_LEVEL_COUNT; level++) {
        if (!ie_level_runs(level)) continue;
        for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
            rig r;
            rig_open(&r, level, threads[i % 3], 32, "1");
            float *x[LAYERS] = {text(&r, 0, MORE), text(&r, 1, MORE)}, *got = results(&r);
            for (uint32_t t = 0; t < N; t += cuts[i]) run_ok(&r, IE_PREFILL, 0, x, t, t + cuts[i] < N ? t + cuts[i] : N, got);
            for (uint32_t t = N; t < MORE; t++) run_ok(&r, IE_DECODE, 0, x, t, t + 1, got);
            char what[64];
            snprintf(what, sizeof what, "%s, chunks of %u, %u threads", ie_level_name(level), cuts[i], threads[i % 3]);
            if (want) same(&r, got, want, 0, MORE, what);
            else want = got, got = NULL;
            free(got), free(x[0]), free(x[1]);
            rig_close(&r);
        }
    }
    free(want);
}

/* IE_GDN_CHUNK=0: a prompt in decode's order. */
static void prompts_token_by_token_equal_decode(void **state) {
    (void)state;
    rig r;
    rig_open(&r, IE_LEVEL_PORTABLE, 2, 64, "0");
    float *x[LAYERS] = {text(&r, 0, 90), text(&r, 1, 90)}, *a = results(&r), *b = results(&r);
    run_ok(&r, IE_PREFILL, 0, x, 0, 50, a);
    run_ok(&r, IE_PREFILL, 0, x, 50, 51, a);
    run_ok(&r, IE_PREFILL, 0, x, 51, 90, a);
    for (uint32_t t = 0; t < 90; t++) run_ok(&r, IE_DECODE, 1, x, t, t + 1, b);
    same(&r, a, b, 0, 90, "token by token");
    free(x[0]), free(x[1]), free(a), free(b);
    rig_close(&r);
}

/* ---- rolling back ----------------------------------------------------------------------------------------------------- */

/* Batches of 16 of which some tokens are dropped, at every possible place; what follows equals never having tried. */
static void decode_batches_roll_back_to_each_token(void **state) {
    (void)state;
    enum { PROMPT = 21, N = PROMPT + 40 };
    for (uint32_t kept = 1; kept <= 16; kept++) {
        rig r;
        rig_open(&r, IE_LEVEL_PORTABLE, 2, 32, "1");
        float *x[LAYERS] = {text(&r, 0, N), text(&r, 1, N)}, *wrong[LAYERS] = {text(&r, 8, N), text(&r, 9, N)};
        float *a = results(&r), *b = results(&r);
        run_ok(&r, IE_PREFILL, 0, x, 0, PROMPT, a);
        run_ok(&r, IE_PREFILL, 1, x, 0, PROMPT, b);
        for (uint32_t t = PROMPT; t < N; t++) run_ok(&r, IE_DECODE, 1, x, t, t + 1, b);
        for (uint32_t t = PROMPT; t + 16 <= N;) { /* `kept` right tokens, then others */
            for (uint32_t l = 0; l < LAYERS; l++)
                memcpy(wrong[l] + (size_t)t * r.ld, x[l] + (size_t)t * r.ld, (size_t)kept * r.ld * 4);
            run_ok(&r, IE_DECODE, 0, wrong, t, t + 16, a);
            assert_int_equal(r.be->api->seq_rewind(r.be, r.st, 0, t + kept, NULL), IE_OK);
            same(&r, a, b, t, t + kept, "kept tokens");
            t += kept;
            if (t + 3 > N) break;
            run_ok(&r, IE_DECODE, 0, x, t, t + 3, a); /* a smaller batch, all kept */
            same(&r, a, b, t, t + 3, "after going back");
            t += 3;
        }
        free(x[0]), free(x[1]), free(wrong[0]), free(wrong[1]), free(a), free(b);
        rig_close(&r);
    }
}

static void prompts_roll_back_inside_their_last_segment(void **state) {
    (void)state;
    rig r;
    ie_error err = {0};
    rig_open(&r, IE_LEVEL_PORTABLE, 1, 32, "1");
    float *x[LAYERS] = {text(&r, 0, 90), text(&r, 1, 90)}, *wrong[LAYERS] = {text(&r, 8, 90), text(&r, 9, 90)};
    float *a = results(&r), *b = results(&r);
    run_ok(&r, IE_PREFILL, 1, x, 0, 90, b);
    for (uint32_t back = 32; back < 64; back++) {
        run_ok(&r, IE_PREFILL, 0, x, 0, back, a);
        run_ok(&r, IE_PREFILL, 0, wrong, back, 64, a);
        assert_int_equal(r.be->api->seq_rewind(r.be, r.st, 0, 31, &err), IE_E_UNSUPPORTED);
        assert_int_equal(r.be->api->seq_rewind(r.be, r.st, 0, back, &err), IE_OK);
        run_ok(&r, IE_PREFILL, 0, x, back, 90, a);
        same(&r, a, b, back, 90, "prompt after going back");
        assert_int_equal(r.be->api->seq_rewind(r.be, r.st, 0, 0, &err), IE_OK);
    }
    free(x[0]), free(x[1]), free(wrong[0]), free(wrong[1]), free(a), free(b);
    rig_close(&r);
}

/* ---- sequences, snapshots, refusals ------------------------------------------------------------------------------------ */

/* Three sequences in one batch, each as if alone; a fresh one begins in the remains of another. */
static void sequences_do_not_touch_each_other(void **state) {
    (void)state;
    enum { N = 40 };
    rig r;
    rig_open(&r, IE_LEVEL_PORTABLE, 2, 32, "1");
    uint32_t w = NV * r.hd;
    float *alone[3], *x[3][LAYERS];
    for (uint32_t s = 0; s < 3; s++) {
        alone[s] = results(&r);
        for (uint32_t l = 0; l < LAYERS; l++) x[s][l] = text(&r, 10 * s + l, N);
        run_ok(&r, IE_PREFILL, 0, x[s], 0, 20, alone[s]); /* always in slot 0, on top of the one before */
        for (uint32_t t = 20; t < N; t++) run_ok(&r, IE_DECODE, 0, x[s], t, t + 1, alone[s]);
    }
    float *got = results(&r);
    for (uint32_t s = 0; s < 3; s++) run_ok(&r, IE_PREFILL, s, x[s], 0, 20, got);
    for (uint32_t t = 20; t + 2 <= N; t += 2) {
        int32_t seq[] = {2, 2, 0, 0, 1, 1}, pos[6];
        ie_step step = {.phase = IE_DECODE, .n = 6, .seq = seq, .pos = pos, .page_table = pages};
        ie_error err = {0};
        for (uint32_t i = 0; i < 6; i++) {
            pos[i] = (int32_t)(t + i % 2);
            for (uint32_t l = 0; l < LAYERS; l++)
                r.be->api->write(r.be, r.st, r.row[l] * 256ull + i * r.ld * 4ull, x[seq[i]][l] + (t + i % 2) * r.ld, r.ld * 4ull, &err);
        }
        if (r.be->api->run(r.be, r.st, &r.w, &r.l, 0, r.l.n, &step, &err)) fail_msg("%s", err.msg);
        for (uint32_t l = 0; l < LAYERS; l++)
            for (uint32_t i = 0; i < 6; i++) {
                const float *have = (const float *)r.be->api->host_ptr(r.be, r.st, r.out[l] * 256ull) + i * w;
                assert_memory_equal(have, alone[seq[i]] + ((size_t)l * MAX + t + i % 2) * w, w * 4);
            }
    }
    for (uint32_t s = 0; s < 3; s++) free(alone[s]), free(x[s][0]), free(x[s][1]);
    free(got);
    rig_close(&r);
}

static void a_saved_state_goes_on_as_the_sequence_did(void **state) {
    (void)state;
    enum { N = 80 };
    rig r;
    rig_open(&r, IE_LEVEL_PORTABLE, 2, 32, "1");
    float *x[LAYERS] = {text(&r, 0, N), text(&r, 1, N)}, *y[LAYERS] = {text(&r, 5, N), text(&r, 6, N)};
    float *a = results(&r), *b = results(&r);
    void *copy = malloc(r.be->api->seq_bytes(r.be, r.st));
    run_ok(&r, IE_PREFILL, 0, x, 0, 37, a);
    run_ok(&r, IE_DECODE, 0, x, 37, 45, a);
    assert_int_equal(r.be->api->seq_save(r.be, r.st, 0, copy, NULL), IE_OK);
    run_ok(&r, IE_DECODE, 0, x, 45, 50, a);
    run_ok(&r, IE_PREFILL, 0, x, 50, N, a);
    run_ok(&r, IE_PREFILL, 2, y, 0, 60, b);
    assert_int_equal(r.be->api->seq_load(r.be, r.st, 2, copy, NULL), IE_OK);
    run_ok(&r, IE_DECODE, 2, x, 45, 50, b);
    run_ok(&r, IE_PREFILL, 2, x, 50, N, b);
    same(&r, b, a, 45, N, "restored");
    free(copy), free(x[0]), free(x[1]), free(y[0]), free(y[1]), free(a), free(b);
    rig_close(&r);
}

static void steps_that_do_not_fit_are_refused(void **state) {
    (void)state;
    rig r;
    ie_error err = {0};
    rig_open(&r, IE_LEVEL_PORTABLE, 1, 32, "1");
    float *x[LAYERS] = {text(&r, 0, 60), text(&r, 1, 60)};
    assert_int_equal(run(&r, IE_DECODE, 0, x, 1, 2, NULL, &err), IE_E_ARG);
    assert_string_equal(err.msg, "sequence 0: position 1; its recurrent state can go on from 0 to 0");
    run_ok(&r, IE_DECODE, 0, x, 0, 4, NULL);
    assert_int_equal(run(&r, IE_DECODE, 0, x, 5, 6, NULL, &err), IE_E_ARG);
    run_ok(&r, IE_DECODE, 0, x, 2, 6, NULL);
    assert_int_equal(run(&r, IE_DECODE, 0, x, 2, 3, NULL, &err), IE_E_ARG);
    assert_int_equal(r.be->api->seq_rewind(r.be, r.st, 0, 2, &err), IE_E_UNSUPPORTED);
    assert_string_equal(err.msg, "sequence 0 cannot go back to position 2; its recurrent state reaches 3 to 6");
    assert_int_equal(r.be->api->seq_rewind(r.be, r.st, 3, 0, &err), IE_E_ARG);
    run_ok(&r, IE_DECODE, 0, x, 6, 7, NULL);
    /* not finite: the step fails, and the sequence begins anew */
    x[0][7 * r.ld] = INFINITY;
    assert_int_equal(run(&r, IE_DECODE, 0, x, 7, 8, NULL, &err), IE_E_NUMERIC);
    assert_int_equal(run(&r, IE_DECODE, 0, x, 8, 9, NULL, &err), IE_E_ARG);
    run_ok(&r, IE_DECODE, 0, x, 0, 7, NULL);
    free(x[0]), free(x[1]);
    rig_close(&r);
    ie_state *st = NULL;
    rig_open(&r, IE_LEVEL_PORTABLE, 1, 32, "1");
    static const ie_gdn_shape bad[] = {{1, 2, 6, 48}, {1, 4, 6, 32}, {1, 0, 6, 32}, {1, 2, 0, 32}, {1, 1, 1, 288}, {1, 300, 300, 128}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ie_state_desc d = {.arena_bytes = 256, .gdn = bad[i], .n_seq = 1, .max_t = 16};
        assert_int_equal(r.be->api->state_new(r.be, &d, &st, &err), IE_E_UNSUPPORTED);
    }
    rig_close(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decode_has_the_documented_order),
        cmocka_unit_test(prompts_have_the_documented_order),
        cmocka_unit_test(decode_after_a_prompt_replays_its_last_segment),
        cmocka_unit_test(cuts_threads_and_levels_give_the_same_bits),
        cmocka_unit_test(prompts_token_by_token_equal_decode),
        cmocka_unit_test(decode_batches_roll_back_to_each_token),
        cmocka_unit_test(prompts_roll_back_inside_their_last_segment),
        cmocka_unit_test(sequences_do_not_touch_each_other),
        cmocka_unit_test(a_saved_state_goes_on_as_the_sequence_did),
        cmocka_unit_test(steps_that_do_not_fit_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
