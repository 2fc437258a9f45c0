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
#define PAUSES 2048 /* before the first look at the clock and the first yield, some tens of microseconds: even a program of the lowest priority takes a
                       processor that is yielded, and keeps it until the next tick */

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
    gate job;  /* counts jobs */
    gate end;  /* counts jobs that all threads have left */
    gate meet; /* counts completed meetings */
    _Alignas(64) _Atomic uint32_t arrived; /* threads at the job's end */
    _Alignas(64) _Atomic uint64_t done;    /* chunks of the job, as threads report them when they meet */
    uint32_t met;                          /* meetings before this job */
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

static inline bool gate_open(gate *g, uint32_t want, memory_order order) {
    return (int32_t)(atomic_load_explicit(&g->value, order) - want) >= 0;
}

/* Waits until g's value has come to `want`: first spins, then also yields (the thread that is waited for may be queued on
 * this very core when other programs run), then sleeps. */
static void gate_wait(gate *g, uint32_t want, double spin) {
    if (spin > 0.0) {
        for (uint32_t i = 0; i < PAUSES; i++) {
            if (gate_open(g, want, memory_order_acquire)) return;
            pause_cpu();
        }
        for (double end = ie_now() + spin; ie_now() < end; sched_yield())
            for (uint32_t i = 0; i < 4; i++) {
                if (gate_open(g, want, memory_order_acquire)) return;
                pause_cpu();
            }
    }
    atomic_fetch_add(&g->sleepers, 1);
    for (uint32_t seen; (int32_t)((seen = atomic_load(&g->value)) - want) < 0;)
        syscall(SYS_futex, (uint32_t *)&g->value, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
    atomic_fetch_sub(&g->sleepers, 1);
}

/* The sequentially consistent store and load, against the sleeper's add and load, make sure that either the sleeper sees
 * the new value or it is seen here. */
static void gate_advance(gate *g, uint32_t value) {
    atomic_store(&g->value, value);
    if (atomic_load(&g->sleepers)) syscall(SYS_futex, (uint32_t *)&g->value, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* The end of a job: every thread has left its function. */
static void end_job(ie_pool *p) {
    if (p->n == 1) return;
    uint32_t want = atomic_load_explicit(&p->end.value, memory_order_relaxed) + 1; /* fixed until this thread arrives */
    if (atomic_fetch_add_explicit(&p->arrived, 1, memory_order_acq_rel) + 1 == p->n) {
        atomic_store_explicit(&p->arrived, 0, memory_order_relaxed);
        gate_advance(&p->end, want);
    } else {
        gate_wait(&p->end, want, p->spin);
    }
}

void ie_pool_phase(ie_pool_way *w, uint32_t n, uint32_t grain) {
    w->phase++;
    w->n = n;
    w->grain = grain;
    w->chunks = (uint32_t)(((uint64_t)n + grain - 1) / grain);
    w->all += w->chunks;
}

/* Whoever reports the last chunk opens the gate: `all` is the same for all threads at a meeting, and nobody begins a chunk behind it before. */
void ie_pool_meet(ie_pool *p, ie_pool_way *w) {
    if (p->n == 1 || w->all == w->met) return;
    uint32_t want = p->met + ++w->meetings;
    w->met = w->all;
    if (w->mine && atomic_fetch_add_explicit(&p->done, w->mine, memory_order_acq_rel) + w->mine == w->all) gate_advance(&p->meet, want);
    else gate_wait(&p->meet, want, p->spin);
    w->mine = 0;
}

bool ie_pool_take(ie_pool *p, ie_pool_way *w, uint32_t *i0, uint32_t *i1) {
    uint64_t chunks = w->chunks;
    for (uint32_t k = 0; k < p->n; k++) { /* own range first, then the neighbours' in turn */
        uint32_t v = w->thread + k < p->n ? w->thread + k : w->thread + k - p->n;
        uint32_t begin = (uint32_t)(chunks * v / p->n), end = (uint32_t)(chunks * (v + 1) / p->n);
        if (begin == end) continue;
        _Atomic uint64_t *next_of = &p->ranges[v].next;
        uint64_t seen = atomic_load_explicit(next_of, memory_order_relaxed);
        for (;;) {
            uint32_t at = (uint32_t)(seen >> 32);
            if (at > w->phase) break; /* others are further on: this range was used up */
            uint32_t next = at == w->phase ? (uint32_t)seen : begin;
            if (next >= end) break;
            if (atomic_compare_exchange_weak_explicit(next_of, &seen, (uint64_t)w->phase << 32 | (next + 1), memory_order_acq_rel,
                                                      memory_order_relaxed)) {
                *i0 = next * w->grain;
                *i1 = w->n - *i0 < w->grain ? w->n : *i0 + w->grain;
                w->mine++;
                return true;
            }
        }
    }
    return false;
}

static void *work(void *arg) {
    worker *w = arg;
    ie_pool *p = w->pool;
    for (uint32_t job = 1;; job++) {
        gate_wait(&p->job, job, p->spin);
        if (p->stop) return NULL;
        p->fn(p->ctx, w->index);
        end_job(p);
    }
}

void ie_pool_run(ie_pool *p, void (*fn)(void *ctx, uint32_t thread), void *ctx) {
    pthread_mutex_lock(&p->turn);
    for (uint32_t i = 0; i < p->n; i++) atomic_store_explicit(&p->ranges[i].next, 0, memory_order_relaxed);
    atomic_store_explicit(&p->done, 0, memory_order_relaxed);
    p->met = atomic_load_explicit(&p->meet.value, memory_order_relaxed);
    p->fn = fn;
    p->ctx = ctx;
    if (p->n > 1) gate_advance(&p->job, atomic_load_explicit(&p->job.value, memory_order_relaxed) + 1);
    fn(ctx, 0);
    end_job(p);
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
    ie_pool_way w = {.thread = thread};
    ie_pool_phase(&w, j->n, 1);
    for (uint32_t i, end; ie_pool_take(j->pool, &w, &i, &end);) j->fn(j->ctx, i);
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
