/* How many cores' worth of work THREADS threads get at once. Two virtual processors of a rented machine may be two threads of one
 * core for seconds and on two cores afterwards: what two threads compute or read then differs by a factor of two, and no figure
 * means anything before one knows which it was.
 *
 *     build/bench/cores_bench [-t THREADS] [-w SECONDS]   prints "1.98 of 2 cores"; -w: keeps all threads at work, which makes the
 *                                                         host part them, until they get 0.9 of THREADS, SECONDS at most
 *     build/bench/cores_bench -k 1 [-t THREADS]           keeps the processors awake, by threads of the lowest priority, until it is
 *                                                         killed or its standard input ends: hosts move processors that wake up
 *
 * In turns of 10 ms the first thread multiplies alone while the others pause, then all do. Multiplications of integers, enough of them at once
 * that one thread fills the core's multiplier.
 */
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TURN 0.01    /* seconds */
#define GOOD 0.9     /* share of THREADS from which on they count as apart */
#define IN_A_ROW 10u /* turns */

typedef struct {
    pthread_barrier_t bar;
    unsigned threads;
    double wait; /* seconds */
    bool end;
} shared;

typedef struct {
    shared *all;
    unsigned number;
    double rate; /* of the turn in which all multiply */
} worker;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void rest(void) {
#if defined __x86_64__
    __builtin_ia32_pause();
#endif
}

/* Multiplications a second of this thread during a turn. */
static double multiply(void) {
    uint64_t x[6] = {1, 3, 5, 7, 9, 11};
    const double begin = now();
    double t = begin;
    long n = 0;
    for (; t - begin < TURN; t = now(), n += 6000)
        for (int i = 0; i < 1000; i++)
            for (int k = 0; k < 6; k++) {
                x[k] *= 0x9E3779B97F4A7C15u;
                __asm__ volatile("" : "+r"(x[k]));
            }
    return (double)n / (t - begin);
}

static void pause_turn(void) {
    for (const double begin = now(); now() - begin < TURN;)
        for (int i = 0; i < 100; i++) rest();
}

/* Two turns; the first thread gets its own rate alone, the others 0. */
static double turn(worker *w) {
    double alone = 0.0;
    pthread_barrier_wait(&w->all->bar);
    if (w->number) pause_turn();
    else alone = multiply();
    pthread_barrier_wait(&w->all->bar);
    w->rate = multiply();
    pthread_barrier_wait(&w->all->bar);
    return alone;
}

static void *other(void *p) {
    worker *w = p;
    for (;;) {
        turn(w);
        pthread_barrier_wait(&w->all->bar);
        if (w->all->end) return NULL;
    }
}

/* Prints the mean of the last turns that were alike, good or not. What one thread gets is the best of its turns so far. */
static void lead(worker *w) {
    const double begin = now();
    double mean = 0.0, alone = 0.0;
    for (unsigned good = 0, turns = 0; !w->all->end;) {
        double one = turn(w), sum = 0.0;
        alone = one > alone ? one : alone;
        for (unsigned i = 0; i < w->all->threads; i++) sum += w[i].rate;
        double cores = sum / alone;
        bool is = cores >= GOOD * w->all->threads;
        if (is != (good != 0)) turns = 0, mean = 0.0;
        good = is ? good + 1u : 0u;
        mean = (mean * turns + cores) / (turns + 1u), turns++;
        w->all->end = good >= IN_A_ROW || (turns >= IN_A_ROW && now() - begin >= w->all->wait);
        pthread_barrier_wait(&w->all->bar);
    }
    printf("%.2f of %u cores\n", mean, w->all->threads);
}

static void *awake(void *p) {
    for (;;) rest();
    return p;
}

/* One thread a processor, which runs when nothing else does. */
static int keep_awake(unsigned threads) {
    const struct sched_param none = {0};
    if (sched_setscheduler(0, SCHED_IDLE, &none)) {
        fprintf(stderr, "cores_bench: no idle priority here\n");
        return 1;
    }
    for (unsigned i = 0; i < threads; i++) {
        pthread_t t;
        cpu_set_t cpu;
        CPU_ZERO(&cpu);
        CPU_SET(i, &cpu);
        if (pthread_create(&t, NULL, awake, NULL) || pthread_setaffinity_np(t, sizeof cpu, &cpu)) {
            fprintf(stderr, "cores_bench: could not start thread %u of %u on its processor\n", i + 1u, threads);
            return 1;
        }
    }
    char byte;
    while (read(STDIN_FILENO, &byte, 1) > 0) {}
    return 0;
}

static int measure(shared *all) {
    worker *w = calloc(all->threads, sizeof *w);
    pthread_t *t = calloc(all->threads, sizeof *t);
    if (!w || !t || pthread_barrier_init(&all->bar, NULL, all->threads)) {
        fprintf(stderr, "cores_bench: no memory for %u threads\n", all->threads);
        free(w), free(t);
        return 1;
    }
    for (unsigned i = 0; i < all->threads; i++) {
        w[i] = (worker){all, i, 0.0};
        if (i && pthread_create(&t[i], NULL, other, &w[i])) {
            fprintf(stderr, "cores_bench: could not start thread %u of %u\n", i + 1u, all->threads);
            return 1;
        }
    }
    lead(&w[0]);
    for (unsigned i = 1; i < all->threads; i++) pthread_join(t[i], NULL);
    pthread_barrier_destroy(&all->bar);
    free(w), free(t);
    return 0;
}

int main(int argc, char **argv) {
    shared all = {.threads = 2};
    long keep = 0;
    for (int i = 1; i < argc; i += 2) {
        char *end = NULL;
        long v = i + 1 < argc ? strtol(argv[i + 1], &end, 10) : -1;
        if (!end || *end || end == argv[i + 1] || v < 0 || v > 3600) v = -1;
        if (!strcmp(argv[i], "-t") && v > 0 && v <= 256) all.threads = (unsigned)v;
        else if (!strcmp(argv[i], "-w") && v >= 0) all.wait = (double)v;
        else if (!strcmp(argv[i], "-k") && (v == 0 || v == 1)) keep = v;
        else {
            fprintf(stderr, "cores_bench: -t 1..256, -w 0..3600, -k 0..1\n");
            return 1;
        }
    }
    return keep ? keep_awake(all.threads) : measure(&all);
}
