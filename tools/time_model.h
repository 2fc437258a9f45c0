/* How long launches take on an R9700 (gfx1201), from what they ask for. Few constants; docs/PERFORMANCE.md shows how far they reach.
 *
 *     launch = START + max(stream, alone, issue, LDS)        step = sum of launches + GAP for each
 *     stream = LATENCY + bytes / min(READ, bytes in flight / LATENCY)
 *
 * alone: the slowest wave if its loads took their latency and nothing else; issue: vector and matrix instructions over all SIMDs; LDS: cycles of
 * its banks. All of them, and the bytes, are figures of the simulator (sim/stats.c). Not in it: caches' own bandwidth, instruction fetch, power. */
#ifndef IE_TIME_MODEL_H
#define IE_TIME_MODEL_H

#include <stdbool.h>

#define TM_READ 632.2    /* GB/s: fit of three published matrix rates (below: fit); a plain read was measured at 636, the bus has 640 */
#define TM_LATENCY 0.226 /* us to memory: a figure of RDNA2 that others plan RDNA4 kernels with */
#define TM_START 1.75    /* us from a launch's begin to its first load, and from its last result to its end: the same fit */
#define TM_GAP 1.56      /* us between launches: published, 46.01 ms of the 27B Q8_0 step less the 45.18 of its kernels, over 532 launches */

/* A launch, as the simulator counts it. */
typedef struct {
    double bytes;  /* from and to memory: lines that no earlier launch has touched, and lines written */
    double flight; /* bytes under way before the first wait, of all waves that the card holds at a time; 0: not known */
    double issue_us, lds_us, alone_us;
} tm_counts;

typedef enum { TM_MEMORY, TM_FLIGHT, TM_ALONE, TM_ISSUE, TM_LDS } tm_bound;
static const char *const tm_bound_names[] = {"memory", "in flight", "latency", "issue", "LDS"};

/* Microseconds of a launch, without the gap to the next. */
static inline double tm_launch_us(const tm_counts *c, tm_bound *bound) {
    double rate = TM_READ * 1e3, full = c->flight / TM_LATENCY; /* bytes a microsecond */
    tm_bound b = TM_MEMORY;
    if (c->flight > 0 && full < rate) rate = full, b = TM_FLIGHT;
    double us[] = {0, TM_LATENCY + c->bytes / rate, c->alone_us, c->issue_us, c->lds_us}, most = us[1];
    for (int i = TM_ALONE; i <= TM_LDS; i++)
        if (us[i] > most) most = us[i], b = (tm_bound)i;
    if (bound) *bound = b;
    return TM_START + most;
}

/* ---- the reference system's published figures ---------------------------------------------------------------------------- */

/* A matrix by its kernel's duration: from the card's trace, or of launches one after the other (gap). */
typedef struct {
    const char *what;
    double mb, gbs; /* published rate */
    bool fit, gap;
} tm_ref_matrix;
static const tm_ref_matrix tm_ref_matrices[] = {
    {"17920 x 1536 Q4_0", 15.483, 585, true, false},
    {"1536 x 8960 Q4_0", 7.741, 540, true, false},
    {"151936 x 1536 Q8_0", 247.960, 629, true, false},
    {"5120 x 6144 Q8_0", 33.423, 568, false, false},
    {"34816 x 5120 Q4_K (\"about 600\")", 100.270, 600, false, false},
    {"2048 x 1536 Q4_0, 257 workgroups: 6.5 us", 1.769, 272.2, false, true},
    {"all 257 of the 27B Q8_0: 43.7 ms", 27200.0 / 257, 622.4, false, false},
};

/* A step by launches. other_us: kernels that are no matrices. Of these RMSNorm (5.5) and Gated DeltaNet (9.8; 0.8B: 6.9) of the qwen35 models are
 * published; for the rest stands what our kernels of the same shapes take by this model, since theirs are not at hand. */
typedef struct {
    const char *what;
    double gb;
    unsigned launches, matrices;
    double other_us, ms; /* published */
} tm_ref_step;
static const tm_ref_step tm_ref_steps[] = {
    {"Qwen2.5-0.5B Q4_0", 0.3459, 220, 97, 2.4 + 49 * 3.2 + 24 * (3.1 + 6.1 + 2.4) + 30.3, 1.485},
    {"Qwen2.5-1.5B Q4_0", 0.985, 256, 113, 2.4 + 57 * 2.9 + 28 * (3.6 + 6.5 + 2.4) + 30.3, 2.612},
    {"Qwen2.5-3B Q4_0", 1.891, 328, 145, 2.4 + 73 * 3.0 + 36 * (3.6 + 6.5 + 2.4) + 30.3, 4.357},
    {"Qwen3.5-0.8B Q8_0", 0.799, 202, 97, 3.3 + 49 * 3.2 + 18 * 6.9 + 6 * (6.1 + 7.4) + 24 * 2.3 + 32.6, 2.176},
    {"Qwen3.8-27B Q4_K_M", 16.5, 677, 385, 2.4 + 129 * 5.5 + 48 * 9.8 + 16 * (6.1 + 9.7) + 64 * 2.4 + 32.6, 30.45},
    {"Coder390-27B Q6_K", 21.4, 581, 305, 2.4 + 129 * 5.5 + 48 * 9.8 + 16 * (6.1 + 9.7) + 64 * 2.4 + 32.6, 37.80},
};

static inline double tm_ref_matrix_gbs(const tm_ref_matrix *r) {
    tm_counts c = {.bytes = r->mb * 1e6};
    return r->mb * 1e3 / (tm_launch_us(&c, 0) + (r->gap ? TM_GAP : 0));
}
static inline double tm_ref_step_ms(const tm_ref_step *r) {
    tm_counts c = {.bytes = r->gb * 1e9 / r->matrices};
    return (r->matrices * tm_launch_us(&c, 0) + r->other_us + r->launches * TM_GAP) * 1e-3;
}

#endif
