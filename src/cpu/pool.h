/* The thread pool of the CPU backend.
 *
 * A *job* is a function that every thread runs, the caller as thread 0. Inside a job, threads share out pieces of work by
 * *phases*: in a phase each thread owns a contiguous range of the pieces (kind to caches and to DRAM prefetchers) and, when that
 * is used up, takes pieces from the ranges of others. No thread dispatches to another. Where a phase needs what earlier ones
 * made, threads *meet*: they wait for the pieces, not for each other. A thread that the system has put aside for a while holds
 * up at most the piece that it has; when it comes back it finds the phases taken that the others have done meanwhile.
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

/* A thread's way through a job: {.thread = its number} at the beginning. */
typedef struct {
    uint32_t thread, phase;
    uint32_t n, grain, chunks; /* of the phase: pieces, how many are taken at a time, and so the takes */
    uint32_t mine, meetings;   /* takes since the last meeting; meetings so far */
    uint64_t all, met;         /* takes of all phases so far; up to the last meeting */
} ie_pool_way;

/* Inside a job, the next phase: n pieces (at most 2^32 - 1), taken grain at a time. All threads go through the same phases with
 * the same n and grain; without a meeting between, several phases may be under way at a time. */
void ie_pool_phase(ie_pool_way *w, uint32_t n, uint32_t grain);
/* The next pieces [*i0, *i1) of the phase for this thread, at most `grain` of them, beginning at a multiple of grain; false when all
 * have been taken. */
bool ie_pool_take(ie_pool *p, ie_pool_way *w, uint32_t *i0, uint32_t *i1);
/* Returns when all pieces of the phases so far are done; what they wrote is seen. To be called by every thread, with all that it
 * has taken done. */
void ie_pool_meet(ie_pool *p, ie_pool_way *w);

/* fn(ctx, i) for every i in [0, n), in any order on any thread. */
void ie_pool_for(ie_pool *p, uint32_t n, void (*fn)(void *ctx, uint32_t i), void *ctx);

/* Cores that the process may use: processors of its affinity mask (one a core where cores have several), at most the
 * CPU quota of its control groups, at least 1. */
uint32_t ie_cores_available(void);
/* Bytes that the process may still allocate by the kernel's estimate and the limits of its control groups; 0 = unknown. */
uint64_t ie_memory_available(void);

#endif
