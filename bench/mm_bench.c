/* Speed of the matrix kernels, one thread: GB/s of weights for T = 1 (matrix in L2, and rotating through memory), time of
 * small batches relative to it, GMAC/s for prefill, and the processor's peak of 8-bit dots for comparison.
 *
 *   mm_bench [FORMAT ...]          all quantised formats by default; IE_SIMD chooses the level
 *
 * Each figure is the best of several short runs, since other programs may share the machine. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "cpu/mm.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

typedef struct {
    ie_mat mat;
    ie_mm_args a;
    uint32_t copies; /* of the matrix, used in turn */
    uint32_t *w;
} bench;

static void *alloc(size_t bytes) {
    void *p = aligned_alloc(1u << 21, (bytes + (1u << 21) - 1u) >> 21 << 21);
    if (!p) {
        fprintf(stderr, "mm_bench: no memory for %zu bytes\n", bytes);
        exit(1);
    }
#ifdef MADV_HUGEPAGE
    madvise(p, bytes, MADV_HUGEPAGE); /* as the engine does with its weights */
#endif
    return p;
}

/* A matrix of rows x k, repeated so that the copies take at least `bytes`, and t tokens. Contents do not change the speed,
 * but scales are kept normal: random words with every f16 exponent at a middle value. */
static void bench_make(bench *b, const ie_format *f, uint32_t rows, uint32_t k, uint32_t t, size_t bytes) {
    memset(b, 0, sizeof *b);
    b->mat = (ie_mat){.fmt = f, .rows = rows, .cols = k, .bytes = ie_mat_bytes(f, rows, k), .name = "bench"};
    b->copies = (uint32_t)(bytes / b->mat.bytes) + 1u;
    const size_t words = (size_t)b->mat.bytes / 4u * b->copies;
    uint32_t r = 1;
    b->w = alloc(words * 4u);
    for (size_t i = 0; i < words; i++) b->w[i] = (r = r * 1664525u + 1013904223u, (r & 0x8FFF8FFFu) | 0x20002000u);
    const uint32_t nblk = ie_nblk(k);
    uint32_t *x = alloc((size_t)(f->dot == IE_FLOAT ? t * k : ie_q8_blocks(t, nblk) * 16u) * 4u);
    if (f->dot == IE_FLOAT) {
        for (size_t i = 0; i < (size_t)t * k; i++) ((float *)(void *)x)[i] = (float)(i % 17u) - 8.0f;
    } else {
        float *row = alloc(k * 4u);
        for (uint32_t i = 0; i < ie_q8_blocks(t, nblk) / nblk; i++) {
            for (uint32_t j = 0; j < k; j++) row[j] = (float)((i * 31u + j * 7u) % 97u) - 48.0f;
            const uint32_t g = ie_q8_group(t);
            ie_mm_portable.q8(row, k, x + (size_t)ie_q8_at(i, 0, nblk, g) * 16u, g);
        }
        free(row);
    }
    b->a = (ie_mm_args){.mat = &b->mat, .x = x, .x_ld = k, .t = t, .y = alloc((size_t)t * rows * 4u), .y_ld = rows};
}
static void bench_free(bench *b) {
    free((void *)(uintptr_t)b->a.x);
    free(b->a.y);
    free(b->w);
}

/* Seconds for one product: the best of `tries`, each long enough for the clock. */
static double bench_run(bench *b, const ie_mm_table *mm, int tries) {
    double best = 1e9;
    uint32_t reps = 1, at = 0;
    for (int i = 0; i < tries;) {
        const double start = ie_now();
        for (uint32_t r = 0; r < reps; r++) {
            b->a.w = b->w + (size_t)at * (b->mat.bytes / 4u);
            at = at + 1u < b->copies ? at + 1u : 0;
            mm->mm(&b->a, 0, b->mat.rows);
        }
        const double s = ie_now() - start;
        if (s < 1e-3) {
            reps *= 2;
            continue;
        }
        if (s / reps < best) best = s / reps;
        i++;
    }
    return best;
}

/* 8-bit multiply-adds a second of one core from registers, and its clock: what no kernel can exceed. */
#if defined(__x86_64__)
__attribute__((target("avx512f,avx512vnni"))) static double peak_dots(uint64_t n) {
    __m512i a[8], u = _mm512_set1_epi32(0x01020304), s = _mm512_set1_epi32(0x05060708);
    for (int i = 0; i < 8; i++) a[i] = _mm512_setzero_si512();
    const double start = ie_now();
    for (uint64_t j = 0; j < n; j++) {
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++) a[i] = _mm512_dpbusd_epi32(a[i], u, s);
        __asm__ volatile("" : "+v"(u));
    }
    const double t = ie_now() - start;
    for (int i = 1; i < 8; i++) a[0] = _mm512_xor_si512(a[0], a[i]);
    volatile int sink = _mm512_reduce_add_epi32(a[0]);
    (void)sink;
    return (double)n * 8.0 * 64.0 / t;
}
static double clock_hz(uint64_t n) {
    uint64_t i = n;
    const double start = ie_now();
    __asm__ volatile("1: dec %0\n\tjnz 1b" : "+r"(i));
    return (double)n / (ie_now() - start);
}
static double print_peak(void) {
    double dots = 0, hz = 0;
    for (int i = 0; i < 20; i++) {
        double v = ie_level_runs(IE_LEVEL_AVX512) ? peak_dots(200000) : 0, h = clock_hz(2000000);
        if (v > dots) dots = v;
        if (h > hz) hz = h;
    }
    printf("clock %.2f GHz; 8-bit dots from registers %.0f GMAC/s\n", hz / 1e9, dots / 1e9);
    return dots;
}
#else
static double print_peak(void) { return 0; }
#endif

static double gbs(const ie_format *f, const ie_mm_table *mm, uint32_t rows, uint32_t k, uint32_t t, size_t bytes, int tries) {
    bench b;
    bench_make(&b, f, rows, k, t, bytes);
    const double s = bench_run(&b, mm, tries), bytes_s = (double)b.mat.bytes / s;
    bench_free(&b);
    return bytes_s / 1e9;
}
static double gmacs(const ie_format *f, const ie_mm_table *mm, uint32_t rows, uint32_t k, uint32_t t, int tries) {
    bench b;
    bench_make(&b, f, rows, k, t, 0);
    const double s = bench_run(&b, mm, tries);
    bench_free(&b);
    return (double)rows * k * t / s / 1e9;
}

/* GB/s of a loop that only adds up `bytes` of memory: what "memory" is to be compared with. */
static double read_gbs(size_t bytes, int tries) {
    const size_t n = bytes / 8u / 32u * 32u;
    uint64_t *p = alloc(n * 8u), sum[32] = {0};
    memset(p, 1, n * 8u);
    double best = 0;
    for (int i = 0; i < tries; i++) {
        const double start = ie_now();
        for (size_t j = 0; j < n; j += 32)
            for (size_t k = 0; k < 32; k++) sum[k] += p[j + k];
        const double v = (double)n * 8.0 / (ie_now() - start) / 1e9;
        if (v > best) best = v;
    }
    for (int k = 1; k < 32; k++) sum[0] += sum[k];
    volatile uint64_t sink = sum[0];
    (void)sink;
    free(p);
    return best;
}

int main(int argc, char **argv) {
    ie_error err;
    ie_level level;
    if (ie_level_choose(&level, &err) != IE_OK) {
        fprintf(stderr, "mm_bench: %s\n", err.msg);
        return 1;
    }
    for (int j = 1; j < argc; j++) {
        int known = 0;
        for (int i = 0; i < IE_F_COUNT; i++) known |= !strcmp(argv[j], ie_formats[i].name);
        if (!known) return fprintf(stderr, "mm_bench: '%s' is no format\n", argv[j]), 1;
    }
    const ie_mm_table *mm = ie_mm_of(level);
    printf("level %s, one thread\n", ie_level_name(level));
    const double peak = print_peak();
    printf("%-7s | T = 1, GB/s: %6s %6s %6s (read loop) | GB/s in memory at T = %4d %4d %4d %4d | GMAC/s, T = 512, K = 576 1536 4864  (%% of peak)\n",
           "", "L2", "K=4096", "memory", 2, 4, 8, 16);
    for (int i = 0; i < IE_F_COUNT; i++) {
        const ie_format *f = &ie_formats[i];
        bool want = argc == 1 && f->dot != IE_FLOAT;
        for (int j = 1; j < argc; j++) want |= strcmp(argv[j], f->name) == 0;
        if (!want) continue;
        const uint32_t k1 = f->blocks == 8 ? 768 : 576;
        const uint32_t l2_rows = (uint32_t)(400000 * 32ull / (f->unit_words * 4ull) * f->blocks / (k1 / 32) / 32 * 32);
        printf("%-7s | %10s %8.1f %6.1f %6.1f %11.1f |", f->name, "", gbs(f, mm, l2_rows, k1, 1, 0, 15),
               gbs(f, mm, 256, 4096, 1, 0, 15), gbs(f, mm, 1536, 4096, 1, 128u << 20, 15), read_gbs(128u << 20, 15));
        printf(" %22s", "");
        for (uint32_t t = 2; t <= 16; t *= 2) printf(" %4.1f", gbs(f, mm, 1536, 4096, t, 128u << 20, 8));
        const uint32_t ks[] = {k1, 1536, 4864};
        printf(" | ");
        for (int j = 0; j < 3; j++) {
            const double v = gmacs(f, mm, 256, ks[j], 512, 7);
            printf(" %5.0f", v / 1.0);
            if (peak > 0) printf(" (%2.0f)", v * 1e9 / peak * 100);
        }
        printf("\n");
        fflush(stdout);
    }
    return 0;
}
