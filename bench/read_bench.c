/* The memory's read bandwidth: threads that only add up a large array, best of several passes. Prints "GB/s threads MB".
 *
 *     build/bench/read_bench [-t THREADS] [-m MEGABYTES] [-r PASSES]
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

typedef struct {
    const uint64_t *from;
    size_t n;
    uint64_t sum;
    pthread_barrier_t *bar;
    int passes;
} work;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void *reader(void *p) {
    work *w = p;
    for (int pass = 0; pass < w->passes; pass++) {
        pthread_barrier_wait(w->bar);
        uint64_t s[32] = {0};
        for (size_t i = 0; i + 32 <= w->n; i += 32)
            for (int k = 0; k < 32; k++) s[k] += w->from[i + (size_t)k];
        for (int k = 0; k < 32; k++) w->sum += s[k];
        pthread_barrier_wait(w->bar);
    }
    return NULL;
}

int main(int argc, char **argv) {
    long threads = 2, mb = 512, passes = 8;
    for (int i = 1; i + 1 < argc; i += 2) {
        long v = strtol(argv[i + 1], NULL, 10);
        if (!strcmp(argv[i], "-t")) threads = v;
        else if (!strcmp(argv[i], "-m")) mb = v;
        else if (!strcmp(argv[i], "-r")) passes = v;
    }
    if (threads < 1 || threads > 256 || mb < 1 || mb > 65536 || passes < 1) {
        fprintf(stderr, "read_bench: -t 1..256, -m 1..65536, -r 1 or more\n");
        return 1;
    }
    size_t bytes = (size_t)mb << 20;
    uint64_t *a = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (a == MAP_FAILED) {
        fprintf(stderr, "read_bench: no memory for %ld MB\n", mb);
        return 1;
    }
    madvise(a, bytes, MADV_HUGEPAGE);
    memset(a, 1, bytes);
    pthread_barrier_t bar;
    pthread_barrier_init(&bar, NULL, (unsigned)threads + 1);
    work *w = calloc((size_t)threads, sizeof *w);
    pthread_t *t = calloc((size_t)threads, sizeof *t);
    size_t share = bytes / 8 / (size_t)threads;
    for (long i = 0; i < threads; i++) {
        w[i] = (work){a + (size_t)i * share, share, 0, &bar, (int)passes};
        pthread_create(&t[i], NULL, reader, &w[i]);
    }
    double best = 1e9;
    for (long p = 0; p < passes; p++) {
        pthread_barrier_wait(&bar);
        double start = now();
        pthread_barrier_wait(&bar);
        double s = now() - start;
        if (s < best) best = s;
    }
    uint64_t sum = 0;
    for (long i = 0; i < threads; i++) pthread_join(t[i], NULL), sum += w[i].sum;
    printf("%.1f GB/s, %ld threads, %ld MB (sum %llu)\n", (double)bytes / best / 1e9, threads, mb, (unsigned long long)sum);
    return 0;
}
