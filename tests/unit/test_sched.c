/* The server's scheduler without HTTP: batches, cancelling, full queues, failing requests, order of prompts, kept prefixes. On a dense
 * and on a recurrent model, both small and random. Linked with src/serve/sched*.c and replies.c alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <malloc.h>
#include <unistd.h>

#include "context.h"
#include "serve/serve.h"
#include "tiny_recurrent.h"
#include "tok_vocab.h"

#define MANY 68

/* What the rest of the server gives the scheduler. */
static char logged[512];
void serve_log(serve *s, const char *level, const char *fmt, ...) {
    va_list a;
    (void)s, (void)level;
    va_start(a, fmt);
    vsnprintf(logged, sizeof logged, fmt, a);
    va_end(a);
}
/* Called by the engine thread when a request gets its slot, and with its first token: the slices of prompts between the two. */
static _Atomic uint64_t slices_at, slices_most;
void serve_hist_add(serve_hist hist[SERVE_H_COUNT], serve_hist_kind kind, double value) {
    (void)value;
    const serve_stats *t = (const serve_stats *)((uintptr_t)hist - offsetof(serve_stats, hist));
    if (kind == SERVE_H_QUEUE) slices_at = t->slices;
    if (kind == SERVE_H_FIRST && t->slices - slices_at > slices_most) slices_most = t->slices - slices_at;
}

/* ---- fixture ------------------------------------------------------------------------------------------------------------- */

typedef struct {
    char path[64];
    ie_model *m;
    bool recurrent;
} fixture;

static int set_up(void **state, bool recurrent) {
    fixture *f = calloc(1, sizeof *f);
    ie_error err;
    f->recurrent = recurrent;
    if (recurrent ? tiny_recurrent_write(f->path) : tiny_model_write(f->path)) return -1;
    f->m = ie_model_open(f->path, &(ie_model_params){.backend = "cpu", .threads = 1}, &err);
    tv v = {0};
    tv_kv_str(&v, "tokenizer.ggml.model", "llama");
    for (uint32_t i = 0; i < TINY_VOCAB; i++) {
        char text[8];
        snprintf(text, sizeof text, "[%u]", i);
        tv_token(&v, text, IE_TT_NORMAL, 0);
    }
    v.drop = 4;
    if (f->m) f->m->tok = tv_build(&v, &err); /* freed with the model */
    if (!f->m || !f->m->tok) fprintf(stderr, "%s\n", err.msg);
    *state = f;
    return f->m && f->m->tok ? 0 : -1;
}
static int set_up_dense(void **state) { return set_up(state, false); }
static int set_up_recurrent(void **state) { return set_up(state, true); }
static int tear_down(void **state) {
    fixture *f = *state;
    ie_model_close(f->m);
    unlink(f->path);
    free(f);
    return 0;
}

/* s must stay where it is from now on. */
static void begin(serve *s, const fixture *f, int slots, int32_t n_ctx) {
    ie_error err;
    *s = (serve){.opts = {.parallel = slots, .queue = 64, .slice_ms = 20, .chunk = 32}, .n_ctx = n_ctx, .model = f->m};
    ie_ctx *c = ie_ctx_new(f->m, &(ie_ctx_params){.n_ctx = n_ctx, .n_seq = slots, .chunk = 32, .cache_bytes = 64 << 20}, &err);
    if (!c) fail_msg("%s", err.msg);
    s->sched = serve_sched_new(s, c, &err);
    if (!s->sched) fail_msg("%s", err.msg);
}

static const ie_bias never = {TINY_BAD, -1e6f}; /* its embedding is infinite */

/* n tokens of text s; max_tokens of greedy output. */
static serve_job job(int32_t s, int32_t n, int32_t max_tokens) {
    serve_job j = {.prompt = malloc((size_t)n * sizeof(int32_t)), .n_prompt = n, .max_tokens = max_tokens, .n_probs = -1, .ignore_end = true, .no_cache = true};
    ie_sampling_default(&j.sampling);
    j.sampling.bias = &never;
    j.sampling.n_bias = 1;
    for (int32_t i = 0; i < n; i++) j.prompt[i] = (s * 31 + i * 7 + i * i % 13) % TINY_BAD;
    return j;
}

static serve_stream *submit(serve *s, serve_job *j, uint32_t n) {
    ie_error err;
    serve_excess excess;
    serve_stream *st = serve_submit(s, j, n, &excess, &err);
    if (!st) fail_msg("%s", err.msg);
    return st;
}

typedef struct {
    int32_t token[512];
    int32_t n, progress;
    bool ended;
    ie_status failed;
    serve_result result;
} outcome;

/* One event into the answers of a submission's jobs (kind and index are left in *ev); false at the end. */
static bool next(serve_stream *st, outcome *a, serve_event *ev) {
    if (!serve_next(st, ev)) return false;
    outcome *k = &a[ev->index];
    if (ev->kind == SERVE_EV_TOKEN) k->token[k->n++] = ev->token;
    if (ev->kind == SERVE_EV_PROGRESS) k->progress++;
    if (ev->kind == SERVE_EV_DONE) k->ended = true, k->result = ev->result;
    if (ev->kind == SERVE_EV_ERROR) k->ended = true, k->failed = ev->err.code;
    serve_event got = *ev;
    serve_event_free(ev);
    *ev = (serve_event){.kind = got.kind, .index = got.index};
    return true;
}

static void finish(serve_stream *st, outcome *a) {
    for (serve_event ev; next(st, a, &ev);) {}
    serve_stream_free(st);
}

static outcome *answers(uint32_t n) { return calloc(n, sizeof(outcome)); }

static void run(serve *s, serve_job *j, uint32_t n, outcome *a) { finish(submit(s, j, n), a); }

static void same(const outcome *a, const outcome *b, uint32_t i) {
    if (a->failed || b->failed || a->n != b->n) fail_msg("request %u: status %d, %d, %d tokens against %d", i, (int)a->failed, (int)b->failed, a->n, b->n);
    for (int32_t k = 0; k < a->n; k++)
        if (a->token[k] != b->token[k]) fail_msg("request %u: token %d is %d, alone %d", i, k, a->token[k], b->token[k]);
}

static uint64_t steps(serve *s, serve_stats *t) {
    serve_get_stats(s, t);
    return t->decode_steps + t->slices;
}

/* All pages are free or kept, no slot is taken. */
static void clean(serve *s) {
    serve_stats t;
    serve_get_stats(s, &t);
    assert_int_equal(t.n_busy, 0);
    assert_int_equal(t.n_waiting, 0);
    assert_int_equal(t.prefix.n_free + t.prefix.n_kept, t.prefix.n_pages);
    assert_int_equal(t.prefix.n_available, t.prefix.n_pages);
}

static void end(serve *s) {
    serve_sched_stop(s->sched);
    clean(s);
    serve_sched_free(s->sched);
}

/* ---- tests ---------------------------------------------------------------------------------------------------------------- */

static serve_job mixed(int32_t i) { return job(i, 3 + i * 17 % 90, 5 + i * 3 % 20); }

static void sixteen_at_once_equal_each_alone(void **state) {
    serve s;
    begin(&s, *state, 16, 256);
    outcome *alone = answers(16), *together = answers(16);
    serve_job j[16];
    for (int32_t i = 0; i < 16; i++) {
        serve_job one = mixed(i);
        run(&s, &one, 1, &alone[i]);
        assert_int_equal(alone[i].n, 5 + i * 3 % 20);
        j[i] = mixed(i);
    }
    run(&s, j, 16, together);
    for (uint32_t i = 0; i < 16; i++) same(&together[i], &alone[i], i);
    end(&s);
    free(alone);
    free(together);
}

static void requests_are_cancelled_in_each_phase(void **state) {
    serve s;
    begin(&s, *state, 1, 2048);
    serve_stats t;
    outcome a[1] = {0}, b[1] = {0};
    serve_event ev;
    serve_job j = job(1, 40, 1900);
    serve_stream *first = submit(&s, &j, 1);
    while (a->n < 3) next(first, a, &ev);
    j = job(2, 40, 100); /* waits: its end needs no slot */
    serve_stream *second = submit(&s, &j, 1);
    serve_cancel(second);
    finish(second, b);
    assert_int_equal(b->failed, IE_E_CANCELLED);
    assert_int_equal(b->n, 0);
    while (a->n < 6) next(first, a, &ev);
    serve_cancel(first); /* decode */
    finish(first, a);
    assert_int_equal(a->failed, IE_E_CANCELLED);
    memset(a, 0, sizeof a);
    j = job(3, 2000, 10); /* prefill: 63 slices */
    j.progress = true;
    first = submit(&s, &j, 1);
    while (a->progress < 2) next(first, a, &ev);
    serve_cancel(first);
    finish(first, a);
    assert_int_equal(a->failed, IE_E_CANCELLED);
    assert_int_equal(a->n, 0);
    serve_get_stats(&s, &t);
    assert_int_equal(t.cancelled, 3);
    end(&s);
}

/* After a cancel no more than the step under way is taken: the reader's last token is within one of the engine's count. */
static void a_cancelled_request_gets_no_further_step(void **state) {
    serve s;
    begin(&s, *state, 2, 2048);
    for (int k = 0; k < 20; k++) {
        serve_stats t;
        outcome a[1] = {0};
        serve_event ev;
        serve_job j = job(k, 20, 1900);
        serve_stream *st = submit(&s, &j, 1);
        while (a->n < 1 + k % 3) next(st, a, &ev);
        serve_cancel(st);
        uint64_t at = steps(&s, &t); /* read after the flag was set: one step may be under way, no other begins */
        finish(st, a);
        assert_in_range(steps(&s, &t) - at, 0, 1);
    }
    end(&s);
}

static void half_of(serve *s, bool kill_some) {
    serve_stream *st[MANY];
    outcome *a = answers(MANY);
    for (int32_t i = 0; i < MANY; i++) {
        serve_job j = job(i, 10 + i % 50, 12);
        st[i] = submit(s, &j, 1);
    }
    for (int32_t i = 0; i < MANY && kill_some; i += 2) serve_cancel(st[i]);
    for (int32_t i = 0; i < MANY; i++) {
        finish(st[i], &a[i]);
        bool killed = kill_some && i % 2 == 0;
        if (!killed && (a[i].failed || a[i].n != 12)) fail_msg("request %d: status %d, %d tokens", i, (int)a[i].failed, a[i].n);
        if (killed && a[i].failed != IE_E_CANCELLED && a[i].n != 12) fail_msg("killed request %d: status %d", i, (int)a[i].failed);
    }
    clean(s);
    free(a);
}

static void half_of_the_queue_killed_leaks_nothing(void **state) {
    serve s;
    begin(&s, *state, 4, 128);
    s.opts.queue = MANY;
    serve_stats before, after;
    half_of(&s, false); /* buffers that grow to their size once */
    half_of(&s, true);
    serve_get_stats(&s, &before);
    size_t used = mallinfo2().uordblks;
    for (int i = 0; i < 10; i++) half_of(&s, true);
    size_t now = mallinfo2().uordblks;
    serve_get_stats(&s, &after);
    assert_int_equal(after.prefix.n_free, before.prefix.n_free);
    assert_int_equal(after.prefix.n_free, after.prefix.n_pages);
    assert_in_range(now, 0, used + 65536); /* what the allocator keeps for threads; a lost request in each round would be more */
    end(&s);
}

static void a_full_queue_refuses(void **state) {
    serve s;
    begin(&s, *state, 1, 512);
    s.opts.queue = 3;
    serve_stream *st[4];
    outcome a[4] = {0};
    serve_event ev;
    ie_error err;
    serve_excess excess = {0};
    serve_job j = job(0, 5, 400);
    st[0] = submit(&s, &j, 1);
    next(st[0], a, &ev); /* it has its slot */
    for (int32_t i = 1; i < 4; i++) {
        j = job(i, 5, 2);
        st[i] = submit(&s, &j, 1);
    }
    j = job(9, 5, 2);
    assert_null(serve_submit(&s, &j, 1, &excess, &err));
    assert_int_equal(err.code, IE_E_FULL);
    assert_int_equal(excess.n_prompt, 0);
    j = job(9, 512, 2);
    assert_null(serve_submit(&s, &j, 1, &excess, &err));
    assert_int_equal(err.code, IE_E_ARG);
    assert_non_null(strstr(err.msg, "n_prompt_tokens is 512, n_ctx is 512"));
    assert_int_equal(excess.n_prompt, 512);
    assert_int_equal(excess.n_ctx, 512);
    serve_cancel(st[0]);
    for (int i = 0; i < 4; i++) finish(st[i], &a[i]);
    assert_int_equal(a[0].failed, IE_E_CANCELLED);
    for (int i = 1; i < 4; i++) assert_int_equal(a[i].n, 2);
    serve_sched_drain(s.sched);
    j = job(9, 5, 2);
    assert_null(serve_submit(&s, &j, 1, &excess, &err));
    assert_int_equal(err.code, IE_E_FULL);
    end(&s);
}

/* A prompt of 250 slices, and short requests beside it, one after the other: each has its first token in its first slice. (Before
 * that the slice may have to end that was under way when it came.) */
static void a_long_prompt_holds_up_no_short_one(void **state) {
    serve s;
    begin(&s, *state, 2, 8192);
    outcome *a = answers(1);
    serve_event ev;
    serve_job j = job(0, 8000, 2);
    j.progress = true;
    serve_stream *st = submit(&s, &j, 1);
    while (a->progress < 2) next(st, a, &ev);
    slices_most = 0; /* its own first token is still far */
    serve_stats t;
    int beside = 0;
    for (int32_t i = 1; i < 20; i++) {
        outcome *b = answers(1);
        j = job(i, 20, 2);
        run(&s, &j, 1, b);
        assert_int_equal(b->n, 2);
        free(b);
        uint64_t most = slices_most;
        serve_get_stats(&s, &t);
        if (t.slices >= 250) break; /* the long one may have its first token */
        assert_int_equal(most, 1);
        beside++;
    }
    assert_true(beside > 0);
    while (next(st, a, &ev)) {}
    serve_stream_free(st);
    assert_int_equal(a->n, 2);
    assert_in_range(a->progress, 251, 501); /* its slices have 32 tokens, and 16 in company */
    free(a);
    end(&s);
}

/* Four requests in one slice, one of them with a token whose embedding is infinite; then one that chooses that token while all decode. */
static void bad_numbers_end_their_own_request_only(void **state) {
    serve s;
    begin(&s, *state, 4, 256);
    outcome alone[4] = {0}, a[4] = {0}, b[4] = {0};
    serve_job j[4];
    for (int32_t i = 0; i < 4; i++) {
        serve_job one = job(i, 6, 30);
        run(&s, &one, 1, &alone[i]);
        j[i] = job(i, 6, 30);
    }
    j[2].prompt[5] = TINY_BAD;
    run(&s, j, 4, a);
    for (uint32_t i = 0; i < 4; i++)
        if (i != 2) same(&a[i], &alone[i], i);
    assert_int_equal(a[2].failed, IE_E_NUMERIC);
    ie_bias bias = {TINY_BAD, 1e6f};
    for (int32_t i = 0; i < 4; i++) j[i] = job(i, 6, 30);
    j[1].sampling.bias = &bias;
    run(&s, j, 4, b);
    for (uint32_t i = 0; i < 4; i++)
        if (i != 1) same(&b[i], &alone[i], i);
    assert_int_equal(b[1].failed, IE_E_NUMERIC);
    assert_int_equal(b[1].n, 1);
    serve_stats t;
    serve_get_stats(&s, &t);
    assert_int_equal(t.errors, 2);
    end(&s);
}

/* ---- prefixes ---------------------------------------------------------------------------------------------------------------- */

/* The conversation: 200 tokens, its answer of 70, then 10 more; as a chat or as a bare text. */
static serve_job turn(const outcome *first, int32_t n_more, bool chat) {
    serve_job j = job(7, 200, first ? 4 : 70);
    j.no_cache = false;
    j.n_stable = chat ? 197 : 0;
    if (!first) return j;
    j.prompt = realloc(j.prompt, (size_t)(270 + n_more) * sizeof *j.prompt);
    memcpy(j.prompt + 200, first->token, 70 * sizeof *j.prompt);
    for (int32_t i = 0; i < n_more; i++) j.prompt[270 + i] = i % TINY_BAD;
    j.n_prompt = 270 + n_more;
    j.n_stable = chat ? j.n_prompt - 3 : 0;
    return j;
}

/* Until the pages of n positions are kept; a recurrent model's reply is evaluated again when nothing else is to do. */
static void wait_kept(serve *s, int32_t n) {
    serve_stats t;
    for (int i = 0; i < 2000; i++) {
        serve_get_stats(s, &t);
        if (t.prefix.n_kept >= n / (int32_t)IE_PAGE) return;
        usleep(5000);
    }
    fail_msg("%d pages are kept, %d expected", t.prefix.n_kept, n / (int32_t)IE_PAGE);
}

static void the_next_turn_evaluates_new_tokens_only(void **state) {
    fixture *f = *state;
    serve s;
    begin(&s, f, 2, 512);
    outcome a[1] = {0}, b[1] = {0}, fresh[1] = {0};
    serve_job j = turn(NULL, 0, true);
    run(&s, &j, 1, a);
    assert_int_equal(a->n, 70);
    j = turn(a, 0, true); /* what the template would make of it */
    serve_learn(&s, j.prompt, j.n_prompt);
    free(j.prompt);
    wait_kept(&s, 269);
    j = turn(a, 10, true);
    run(&s, &j, 1, b);
    assert_int_equal(b->result.n_prompt, 280);
    assert_int_equal(b->result.n_cached, 256); /* the last multiple of 32 of 269 */
    j = turn(a, 10, true);
    j.no_cache = true;
    run(&s, &j, 1, fresh);
    assert_int_equal(fresh->result.n_cached, 0);
    assert_non_null(strstr(logged, "asks for no reuse"));
    same(b, fresh, 0);
    j = turn(NULL, 0, true); /* the same again */
    j.prompt[100] = (j.prompt[100] + 1) % TINY_BAD;
    run(&s, &j, 1, b);
    if (f->recurrent) assert_non_null(strstr(logged, "no recurrent state was kept there"));
    else assert_non_null(strstr(logged, "nothing that is kept goes on like tokens 96 to 127"));
    assert_int_equal(b->result.n_cached, f->recurrent ? 0 : 96);
    serve_stats t;
    serve_get_stats(&s, &t);
    uint64_t before = t.slices;
    int32_t kept = t.prefix.n_kept;
    j = turn(a, 10, true); /* what is kept already is not evaluated again; new text is, but no slot waits for it */
    serve_learn(&s, j.prompt, 256);
    for (int32_t i = 0; i < 280; i++) j.prompt[i] = (i * 3 + 1) % TINY_BAD;
    for (int i = 0; i < 40; i++) serve_learn(&s, j.prompt, 224); /* more than wait at a time: the oldest are dropped */
    free(j.prompt);
    wait_kept(&s, (kept + 7) * (int32_t)IE_PAGE);
    usleep(20000);
    serve_get_stats(&s, &t);
    assert_in_range(t.learned, 3, 42);
    assert_int_equal(t.slices, before);
    assert_int_equal(t.prefix.n_kept, kept + 7);
    end(&s);
}

static void prefixes_outlive_the_server(void **state) {
    fixture *f = *state;
    serve s;
    ie_error err;
    int32_t n, more;
    char file[80];
    snprintf(file, sizeof file, "%s.prefixes", f->path);
    begin(&s, f, 2, 512);
    outcome a[1] = {0}, b[1] = {0}, c[1] = {0};
    serve_job j = turn(NULL, 0, false);
    run(&s, &j, 1, a);
    serve_sched_stop(s.sched);
    if (serve_sched_save(s.sched, file, UINT64_MAX, &n, &err)) fail_msg("%s", err.msg); /* the reply, too */
    serve_sched_free(s.sched);
    s = (serve){.opts = {.parallel = 2, .queue = 64, .slice_ms = 20, .chunk = 32}, .n_ctx = 512, .model = f->m};
    ie_ctx *ctx = ie_ctx_new(f->m, &(ie_ctx_params){.n_ctx = 512, .n_seq = 2, .chunk = 32, .cache_bytes = 64 << 20}, &err);
    if (ie_prefix_load(ctx, file, &more, &err)) fail_msg("%s", err.msg);
    unlink(file);
    assert_int_equal(n, 8);
    assert_int_equal(more, n);
    s.sched = serve_sched_new(&s, ctx, &err);
    j = turn(a, 10, false);
    run(&s, &j, 1, b);
    assert_int_equal(b->result.n_cached, 256);
    j = turn(a, 10, false);
    j.no_cache = true;
    run(&s, &j, 1, c);
    same(b, c, 0);
    end(&s);
}

#define BOTH(test) cmocka_unit_test_setup_teardown(test, set_up_dense, tear_down), cmocka_unit_test_setup_teardown(test, set_up_recurrent, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        BOTH(sixteen_at_once_equal_each_alone),
        BOTH(requests_are_cancelled_in_each_phase),
        BOTH(a_cancelled_request_gets_no_further_step),
        BOTH(half_of_the_queue_killed_leaks_nothing),
        BOTH(a_full_queue_refuses),
        BOTH(a_long_prompt_holds_up_no_short_one),
        BOTH(bad_numbers_end_their_own_request_only),
        BOTH(the_next_turn_evaluates_new_tokens_only),
        BOTH(prefixes_outlive_the_server),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
