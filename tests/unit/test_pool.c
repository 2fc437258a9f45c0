/* The thread pool: every piece of work once, phases without barriers, barriers that order memory, jobs from several threads,
 * more threads than cores, and limits. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cpu/pool.h"

static const uint32_t sizes[] = {1, 2, 3, 7};

typedef struct {
    ie_pool *pool;
    uint32_t n, grain, phases;
    _Atomic uint32_t *hits; /* [phases][n] */
    _Atomic uint32_t bad;
    uint32_t *plain; /* written without atomics: barriers must order it */
} share;

static void take_all(void *ctx, uint32_t thread) {
    share *s = ctx;
    ie_pool_way w = {.thread = thread};
    for (uint32_t p = 1; p <= s->phases; p++) {
        ie_pool_phase(&w, s->n, s->grain);
        for (uint32_t i0, i1; ie_pool_take(s->pool, &w, &i0, &i1);) {
            if (i0 % s->grain || i1 > s->n || i1 <= i0 || i1 - i0 > s->grain) atomic_fetch_add(&s->bad, 1);
            for (uint32_t i = i0; i < i1 && i < s->n; i++) atomic_fetch_add(&s->hits[(p - 1) * s->n + i], 1);
        }
    }
}

static void test_take(void **state) {
    (void)state;
    static const uint32_t n[] = {0, 1, 2, 5, 64, 1000}, grain[] = {1, 2, 7, 100, 5000};
    for (size_t t = 0; t < 4; t++) {
        ie_pool *p = ie_pool_new(sizes[t], NULL);
        assert_non_null(p);
        assert_int_equal(ie_pool_threads(p), sizes[t]);
        for (size_t a = 0; a < 6; a++)
            for (size_t g = 0; g < 5; g++) {
                share s = {.pool = p, .n = n[a], .grain = grain[g], .phases = 20};
                s.hits = calloc(20u * n[a] + 1, sizeof *s.hits);
                for (int job = 1; job <= 3; job++) {
                    ie_pool_run(p, take_all, &s);
                    for (uint32_t i = 0; i < 20 * n[a]; i++) assert_int_equal(s.hits[i], job);
                }
                assert_int_equal(s.bad, 0);
                free(s.hits);
            }
        ie_pool_free(p);
    }
}

/* Each round writes what the next reads, by another thread's share; only the meeting stands between. */
static void relay(void *ctx, uint32_t thread) {
    share *s = ctx;
    ie_pool_way w = {.thread = thread};
    for (uint32_t p = 1; p <= s->phases; p++) {
        if (p % 7 == 0) { /* a phase without pieces, and its meeting */
            ie_pool_phase(&w, 0, 1);
            ie_pool_meet(s->pool, &w);
        }
        ie_pool_phase(&w, s->n, s->grain);
        for (uint32_t i0, i1; ie_pool_take(s->pool, &w, &i0, &i1);)
            for (uint32_t i = i0; i < i1; i++)
                s->plain[p * s->n + i] = s->plain[(p - 1) * s->n + (i + 1) % s->n] + s->plain[(p - 1) * s->n + (i + s->n / 2) % s->n];
        ie_pool_meet(s->pool, &w);
    }
}

static void test_barrier(void **state) {
    (void)state;
    enum { N = 37, ROUNDS = 300 };
    uint32_t *want = calloc((ROUNDS + 1) * N, sizeof *want);
    for (size_t t = 0; t < 4; t++) {
        ie_pool *p = ie_pool_new(sizes[t], NULL);
        share s = {.pool = p, .n = N, .grain = 3, .phases = ROUNDS, .plain = calloc((ROUNDS + 1) * N, sizeof(uint32_t))};
        for (uint32_t i = 0; i < N; i++) s.plain[i] = i * i + 1;
        ie_pool_run(p, relay, &s);
        if (t == 0) memcpy(want, s.plain, (ROUNDS + 1) * N * sizeof *want);
        assert_memory_equal(want, s.plain, (ROUNDS + 1) * N * sizeof *want);
        free(s.plain);
        ie_pool_free(p);
    }
    free(want);
}

/* The last thread does nothing before the others are through all phases: they wait for pieces, not for threads. */
typedef struct {
    share s;
    uint32_t last;
    _Atomic uint32_t through;
    _Atomic bool late;
} tardy;

static void relay_late(void *ctx, uint32_t thread) {
    tardy *t = ctx;
    double end = ie_now() + 20;
    while (thread == t->last && atomic_load(&t->through) < t->last)
        if (ie_now() > end) {
            atomic_store(&t->late, true);
            break;
        }
    relay(&t->s, thread);
    atomic_fetch_add(&t->through, 1);
}

static void test_late_thread(void **state) {
    (void)state;
    enum { N = 37, ROUNDS = 50 };
    uint32_t *want = calloc((ROUNDS + 1) * N, sizeof *want);
    for (size_t t = 0; t < 4; t++) {
        ie_pool *p = ie_pool_new(sizes[t], NULL);
        tardy x = {.s = {.pool = p, .n = N, .grain = 3, .phases = ROUNDS, .plain = calloc((ROUNDS + 1) * N, sizeof(uint32_t))}, .last = sizes[t] - 1};
        for (int job = 0; job < 3; job++) {
            for (uint32_t i = 0; i < N; i++) x.s.plain[i] = i * i + 1;
            x.through = 0;
            ie_pool_run(p, relay_late, &x);
            assert_false(x.late);
            if (t == 0) memcpy(want, x.s.plain, (ROUNDS + 1) * N * sizeof *want);
            assert_memory_equal(want, x.s.plain, (ROUNDS + 1) * N * sizeof *want);
        }
        free(x.s.plain);
        ie_pool_free(p);
    }
    free(want);
}

static void count(void *ctx, uint32_t i) { atomic_fetch_add((_Atomic uint32_t *)ctx + i, 1); }

typedef struct {
    ie_pool *pool;
    _Atomic uint32_t hits[50];
} caller;

static void *call(void *arg) {
    caller *c = arg;
    for (int k = 0; k < 100; k++) ie_pool_for(c->pool, 50, count, c->hits);
    return NULL;
}

static void test_callers(void **state) {
    (void)state;
    ie_pool *p = ie_pool_new(2, NULL);
    caller c[3];
    pthread_t th[3];
    for (int i = 0; i < 3; i++) {
        memset(&c[i], 0, sizeof c[i]);
        c[i].pool = p;
        assert_int_equal(pthread_create(&th[i], NULL, call, &c[i]), 0);
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(th[i], NULL);
        for (int k = 0; k < 50; k++) assert_int_equal(c[i].hits[k], 100);
    }
    ie_pool_for(p, 0, count, NULL);
    ie_pool_free(p);
}

/* A thousand meetings of many threads on few cores must not each cost a time slice. */
static void meetings(void *ctx, uint32_t thread) {
    ie_pool_way w = {.thread = thread};
    for (int i = 0; i < 1000; i++) {
        ie_pool_phase(&w, ie_pool_threads(ctx), 1);
        for (uint32_t i0, i1; ie_pool_take(ctx, &w, &i0, &i1);) {}
        ie_pool_meet(ctx, &w);
    }
}

static void test_many_threads(void **state) {
    (void)state;
    ie_pool *p = ie_pool_new(ie_cores_available() * 3 + 1, NULL);
    assert_non_null(p);
    double t = ie_now();
    ie_pool_run(p, meetings, p);
    assert_true(ie_now() - t < 2.0);
    ie_pool_free(p);
}

static void test_limits(void **state) {
    (void)state;
    ie_error err;
    assert_null(ie_pool_new(0, &err));
    assert_int_equal(err.code, IE_E_ARG);
    assert_null(ie_pool_new(IE_POOL_MAX + 1, &err));
    assert_int_equal(err.code, IE_E_ARG);
    ie_pool_free(NULL);
    assert_in_range(ie_cores_available(), 1, IE_POOL_MAX);
    assert_true(ie_memory_available() == 0 || ie_memory_available() > 1u << 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_take),    cmocka_unit_test(test_barrier),      cmocka_unit_test(test_callers),
        cmocka_unit_test(test_late_thread), cmocka_unit_test(test_limits),  cmocka_unit_test(test_many_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
