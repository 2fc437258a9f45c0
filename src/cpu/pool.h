/* The thread pool of the CPU backend.
 *
 * A *job* is a function that every thread runs, the caller as thread 0. Inside a job, threads meet at barriers and share
 * out pieces of work by *phases*: in a phase each thread owns a contiguous range of the pieces (kind to caches and to
 * DRAM prefetchers) and, when that is used up, takes pieces from the ranges of others. No thread dispatches to another.
 *
 * Waiting threads spin for about 100 microseconds and then sleep; with more threads than cores they sleep at once. */
#ifndef IE_POOL_H
#define IE_POOL_H

#include "../base.h"

#define IE_POOL_MAX 1024u /* threads */

typedef struct ie_pool ie_pool;

/* `threads` threads in all (1 .. IE_POOL_MAX), the caller of ie_pool_run included. NULL with *err on failure. */
ie_pool *ie_pool_new(uint32_t threads, ie_error *err);
void ie_pool_free(ie_pool *p); /* NULL is allowed; no job may be running */
uint32_t ie_pool_threads(const ie_pool *p);

/* Runs fn(ctx, thread) on every thread and returns when all are done. Calls from several threads take turns; a job must
 * not start another. */
void ie_pool_run(ie_pool *p, void (*fn)(void *ctx, uint32_t thread), void *ctx);

/* Inside a job: returns when every thread of the pool has called it. What was written before is seen after. */
void ie_pool_barrier(ie_pool *p);

/* Inside a job: the next pieces [*i0, *i1) for this thread out of n, at most `grain` of them, beginning at a multiple of
 * grain; false when all have been taken. phase counts up from 1 in each job, in the same order on all threads, with the
 * same n and grain; threads may be in different phases at a time (no barrier is needed between independent phases).
 * At most 2^32 - 1 pieces. */
bool ie_pool_take(ie_pool *p, uint32_t thread, uint32_t phase, uint32_t n, uint32_t grain, uint32_t *i0, uint32_t *i1);

/* fn(ctx, i) for every i in [0, n), in any order on any thread. */
void ie_pool_for(ie_pool *p, uint32_t n, void (*fn)(void *ctx, uint32_t i), void *ctx);

/* Cores that the process may use: processors of its affinity mask (one a core where cores have several), at most the
 * CPU quota of its control groups, at least 1. */
uint32_t ie_cores_available(void);
/* Bytes that the process may still allocate by the kernel's estimate and the limits of its control groups; 0 = unknown. */
uint64_t ie_memory_available(void);

#endif
