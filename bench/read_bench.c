/* The memory's read bandwidth: threads that only add up a large array, several times. Prints the mean over all passes, and the best.
 *
 *     build/bench/read_bench [-t THREADS] [-m MEGABYTES] [-r PASSES]
 *
 * A pass lasts from the first thread's beginning to the last one's end, by the threads' own clocks: a further thread that waits for
 * them and looks at the clock gets a core only some milliseconds after they have begun, and would find too much.
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
    long passes;
    double *begin, *end; /* of each pass */
} work;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void *reader(void *p) {
    work *w = p;
    for (long pass = 0; pass < w->passes; pass++) {
        pthread_barrier_wait(w->bar);
        w->begin[pass] = now();
        uint64_t s[32] = {0};
        for (size_t i = 0; i + 32 <= w->n; i += 32)
            for (int k = 0; k < 32; k++) s[k] += w->from[i + (size_t)k];
        for (int k = 0; k < 32; k++) w->sum += s[k];
        w->end[pass] = now();
    }
    return NULL;
}

int main(int argc, char **argv) {
    long threads = 2, mb = 512, passes = 16;
    for (int i = 1; i < argc; i += 2) {
        char *end = NULL;
        long v = i + 1 < argc ? strtol(argv[i + 1], &end, 10) : 0;
        if (!end || *end || end == argv[i + 1]) v = 0;
        if (!strcmp(argv[i], "-t")) threads = v;
        else if (!strcmp(argv[i], "-m")) mb = v;
        else if (!strcmp(argv[i], "-r")) passes = v;
        else passes = 0;
    }
    if (threads < 1 || threads > 256 || mb < 1 || mb > 65536 || passes < 1 || passes > 1000000) {
        fprintf(stderr, "read_bench: -t 1..256, -m 1..65536, -r 1..1000000\n");
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
    pthread_barrier_init(&bar, NULL, (unsigned)threads);
    work *w = calloc((size_t)threads, sizeof *w);
    pthread_t *t = calloc((size_t)threads, sizeof *t);
    double *clock = calloc((size_t)(threads * passes) * 2u, sizeof *clock);
    if (!w || !t || !clock) {
        fprintf(stderr, "read_bench: no memory for %ld threads and %ld passes\n", threads, passes);
        free(w), free(t), free(clock);
        return 1;
    }
    size_t share = bytes / 8 / (size_t)threads;
    for (long i = 0; i < threads; i++) {
        w[i] = (work){a + (size_t)i * share, share, 0, &bar, passes, clock + 2 * i * passes, clock + (2 * i + 1) * passes};
        if (i && pthread_create(&t[i], NULL, reader, &w[i])) {
            fprintf(stderr, "read_bench: could not start thread %ld of %ld\n", i + 1, threads);
            return 1;
        }
    }
    reader(&w[0]);
    uint64_t sum = w[0].sum;
    for (long i = 1; i < threads; i++) pthread_join(t[i], NULL), sum += w[i].sum;
    double best = 1e9, all = 0;
    for (long p = 0; p < passes; p++) {
        double begin = w[0].begin[p], end = w[0].end[p];
        for (long i = 1; i < threads; i++) {
            begin = w[i].begin[p] < begin ? w[i].begin[p] : begin;
            end = w[i].end[p] > end ? w[i].end[p] : end;
        }
        all += end - begin;
        best = end - begin < best ? end - begin : best;
    }
    const double gb = (double)(share * 8u * (size_t)threads) / 1e9;
    printf("%.1f GB/s, best %.1f, %ld threads, %ld MB, %ld passes (sum %llu)\n", gb * (double)passes / all, gb / best, threads, mb, passes,
           (unsigned long long)sum);
    return 0;
}
