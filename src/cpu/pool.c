#include "pool.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SPIN_SECONDS 100e-6
#define PAUSES 256 /* before the first look at the clock: some 5 to 10 microseconds */

/* A counter that threads wait on; `sleepers` spares the system call when nobody sleeps. */
typedef struct {
    _Alignas(64) _Atomic uint32_t value;
    _Atomic uint32_t sleepers;
} gate;

/* Where a thread's range of the current phase stands: phase in the high half, next chunk in the low half. */
typedef struct {
    _Alignas(128) _Atomic uint64_t next;
} range;

typedef struct {
    ie_pool *pool;
    uint32_t index;
    pthread_t thread;
} worker;

struct ie_pool {
    gate job;     /* counts jobs */
    gate barrier; /* counts completed barriers */
    _Alignas(64) _Atomic uint32_t arrived;
    _Alignas(64) void (*fn)(void *ctx, uint32_t thread);
    void *ctx;
    bool stop;
    double spin;  /* seconds to spin before sleeping */
    uint32_t n, started;
    pthread_mutex_t turn; /* held by the caller whose job runs */
    worker *workers;
    range *ranges;
};

static inline void pause_cpu(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Waits until g's value differs from old: first spins, then also yields (the thread that is waited for may be queued on
 * this very core when other programs run), then sleeps. */
static void gate_wait(gate *g, uint32_t old, double spin) {
    if (spin > 0.0) {
        for (uint32_t i = 0; i < PAUSES; i++) {
            if (atomic_load_explicit(&g->value, memory_order_acquire) != old) return;
            pause_cpu();
        }
        for (double end = ie_now() + spin; ie_now() < end; sched_yield())
            for (uint32_t i = 0; i < 4; i++) {
                if (atomic_load_explicit(&g->value, memory_order_acquire) != old) return;
                pause_cpu();
            }
    }
    atomic_fetch_add(&g->sleepers, 1);
    while (atomic_load(&g->value) == old)
        syscall(SYS_futex, (uint32_t *)&g->value, FUTEX_WAIT_PRIVATE, old, NULL, NULL, 0);
    atomic_fetch_sub(&g->sleepers, 1);
}

/* The sequentially consistent store and load, against the sleeper's add and load, make sure that either the sleeper sees
 * the new value or it is seen here. */
static void gate_advance(gate *g, uint32_t value) {
    atomic_store(&g->value, value);
    if (atomic_load(&g->sleepers)) syscall(SYS_futex, (uint32_t *)&g->value, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

void ie_pool_barrier(ie_pool *p) {
    if (p->n == 1) return;
    uint32_t old = atomic_load_explicit(&p->barrier.value, memory_order_relaxed); /* fixed until this thread arrives */
    if (atomic_fetch_add_explicit(&p->arrived, 1, memory_order_acq_rel) + 1 == p->n) {
        atomic_store_explicit(&p->arrived, 0, memory_order_relaxed);
        gate_advance(&p->barrier, old + 1);
    } else {
        gate_wait(&p->barrier, old, p->spin);
    }
}

bool ie_pool_take(ie_pool *p, uint32_t thread, uint32_t phase, uint32_t n, uint32_t grain, uint32_t *i0, uint32_t *i1) {
    uint64_t chunks = ((uint64_t)n + grain - 1) / grain;
    for (uint32_t k = 0; k < p->n; k++) { /* own range first, then the neighbours' in turn */
        uint32_t v = thread + k < p->n ? thread + k : thread + k - p->n;
        uint32_t begin = (uint32_t)(chunks * v / p->n), end = (uint32_t)(chunks * (v + 1) / p->n);
        if (begin == end) continue;
        _Atomic uint64_t *w = &p->ranges[v].next;
        uint64_t seen = atomic_load_explicit(w, memory_order_relaxed);
        for (;;) {
            uint32_t at = (uint32_t)(seen >> 32);
            if (at > phase) break; /* others are further on: this range was used up */
            uint32_t next = at == phase ? (uint32_t)seen : begin;
            if (next >= end) break;
            if (atomic_compare_exchange_weak_explicit(w, &seen, (uint64_t)phase << 32 | (next + 1), memory_order_acq_rel,
                                                      memory_order_relaxed)) {
                *i0 = next * grain;
                *i1 = n - *i0 < grain ? n : *i0 + grain;
                return true;
            }
        }
    }
    return false;
}

static void *work(void *arg) {
    worker *w = arg;
    ie_pool *p = w->pool;
    for (uint32_t seen = 0;; seen++) {
        gate_wait(&p->job, seen, p->spin);
        if (p->stop) return NULL;
        p->fn(p->ctx, w->index);
        ie_pool_barrier(p);
    }
}

void ie_pool_run(ie_pool *p, void (*fn)(void *ctx, uint32_t thread), void *ctx) {
    pthread_mutex_lock(&p->turn);
    for (uint32_t i = 0; i < p->n; i++) atomic_store_explicit(&p->ranges[i].next, 0, memory_order_relaxed);
    p->fn = fn;
    p->ctx = ctx;
    if (p->n > 1) gate_advance(&p->job, atomic_load_explicit(&p->job.value, memory_order_relaxed) + 1);
    fn(ctx, 0);
    ie_pool_barrier(p);
    pthread_mutex_unlock(&p->turn);
}

typedef struct {
    ie_pool *pool;
    uint32_t n;
    void (*fn)(void *ctx, uint32_t i);
    void *ctx;
} for_job;

static void for_work(void *arg, uint32_t thread) {
    for_job *j = arg;
    for (uint32_t i, end; ie_pool_take(j->pool, thread, 1, j->n, 1, &i, &end);) j->fn(j->ctx, i);
}

void ie_pool_for(ie_pool *p, uint32_t n, void (*fn)(void *ctx, uint32_t i), void *ctx) {
    if (p->n == 1 || n == 1) {
        for (uint32_t i = 0; i < n; i++) fn(ctx, i);
    } else if (n) {
        for_job j = {p, n, fn, ctx};
        ie_pool_run(p, for_work, &j);
    }
}

uint32_t ie_pool_threads(const ie_pool *p) { return p->n; }

ie_pool *ie_pool_new(uint32_t threads, ie_error *err) {
    if (threads < 1 || threads > IE_POOL_MAX) {
        ie_fail(err, IE_E_ARG, "threads: %u, must be 1..%u", threads, IE_POOL_MAX);
        return NULL;
    }
    void *mem = NULL, *ranges = NULL;
    if (posix_memalign(&mem, 128, sizeof(ie_pool)) || posix_memalign(&ranges, 128, threads * sizeof(range))) {
        free(mem);
        ie_fail(err, IE_E_NOMEM, "threads: no memory for a pool of %u", threads);
        return NULL;
    }
    ie_pool *p = mem;
    *p = (ie_pool){.n = threads, .ranges = ranges, .spin = threads <= ie_cores_available() ? SPIN_SECONDS : 0.0};
    for (uint32_t i = 0; i < threads; i++) atomic_init(&p->ranges[i].next, 0);
    pthread_mutex_init(&p->turn, NULL);
    p->workers = ie_calloc(threads, sizeof *p->workers, "threads", err);
    /* signals stay with the program's own threads */
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int rc = 0;
    for (p->started = 1; p->workers && p->started < threads; p->started++) {
        worker *w = &p->workers[p->started];
        *w = (worker){.pool = p, .index = p->started};
        if ((rc = pthread_create(&w->thread, NULL, work, w)) != 0) break;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (p->workers && !rc) return p;
    if (rc) ie_fail(err, IE_E_NOMEM, "threads: could not start thread %u of %u", p->started + 1, threads);
    ie_pool_free(p);
    return NULL;
}

void ie_pool_free(ie_pool *p) {
    if (!p) return;
    p->stop = true;
    gate_advance(&p->job, atomic_load_explicit(&p->job.value, memory_order_relaxed) + 1);
    for (uint32_t i = 1; p->workers && i < p->started; i++) pthread_join(p->workers[i].thread, NULL);
    pthread_mutex_destroy(&p->turn);
    free(p->workers);
    free(p->ranges);
    free(p);
}
