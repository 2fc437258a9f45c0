/* The vector kernels of the CPU backend's ops (all but the matrices, mm.h): plain functions over rows, one table a SIMD
 * level, all with the same bits. Float orders: docs/NUMERICS.md. */
#ifndef IE_OPS_H
#define IE_OPS_H

#include "../base.h"
#include "ie_core.h"
#include "level.h"


/* Rows of queries and outputs in attention's scratch: padded to whole vectors of 16. */
static inline uint32_t ie_attn_ld(uint32_t hd) { return (hd + 15u) / 16u * 16u; }
/* Floats of one partial of nq queries: nq rows of outputs, then a maximum and a sum for each query. */
static inline uint64_t ie_attn_part_floats(uint32_t nq, uint32_t hd) {
    return (uint64_t)nq * ie_attn_ld(hd) + 2u * ((nq + 15u) / 16u * 16u);
}
/* Floats of scratch for nq queries: the queries, scores of a page, two numbers a query, and a page's K and V. */
static inline uint64_t ie_attn_scratch_floats(uint32_t nq, uint32_t hd) {
    uint64_t nqp = (nq + 15u) / 16u * 16u;
    return nqp * (ie_attn_ld(hd) + IE_PAGE + 2u) + 2u * IE_PAGE * ie_attn_ld(hd);
}

/* Queries of one sequence that share a KV head: neighbouring tokens' heads, token by token. */
typedef struct {
    const uint16_t *kv;    /* the KV head's part of page 0 of the layer: K [hdp / 8][32][8], then V [32][hdp], f16 */
    uint64_t page_stride;  /* halves from page to page */
    const uint32_t *pages; /* the sequence's page table */
    uint32_t hd, nq;
    const uint32_t *lo, *hi; /* [nq]: positions [lo, hi) that a query sees; lo < hi, both never decrease */
    float scale;
    float *scratch; /* ie_attn_scratch_floats, 64-byte aligned; begins with the queries, [nq][ie_attn_ld] padded with zeros */
    float *part;    /* partials part0, part0 + 1, ... of ie_attn_part_floats each, 64-byte aligned */
    uint32_t part0, part1; /* those to compute: partial k holds pages [8 k, 8 k + 8) */
    const uint16_t *after; /* K of the page that the thread reads next, behind this block's; NULL: not known. Only fetched ahead */
} ie_attn_block;

/* Tokens of one value head of a Gated DeltaNet layer, n rows ld floats apart. */
typedef struct {
    const float *q, *k;             /* of its key head, hd each: normalised, q scaled */
    float *v;                       /* hd; replaced by S^T q */
    const float *beta, *log_decay;  /* one each */
    uint64_t ld;
    uint32_t n;
} ie_gdn_rows;

/* A segment of up to 32 tokens of one value head, packed. */
typedef struct {
    float *s;                      /* the state at its beginning, [hd / 32][hd][32]; with `zero` taken as zeros and not read */
    const float *q, *k, *v;        /* [n][hd] */
    const float *beta, *log_decay; /* [n] */
    float *out;                    /* [n][hd]: results of tokens [first, n) */
    float *scratch;                /* ie_gdn_scratch_floats, 64-byte aligned */
    uint32_t hd, n, first;
    bool zero, update;             /* update: s becomes the state after the n tokens */
} ie_gdn_segment;

static inline uint64_t ie_gdn_scratch_floats(uint32_t hd) { return 64u * (uint64_t)hd + 2048u; }

typedef struct {
    ie_level level;
    /* 1 / sqrt(mean(x^2) + eps) */
    float (*rms)(const float *x, uint32_t n, float eps);
    /* y = (x * r) * w; y may be x */
    void (*norm)(const float *x, const float *w, float r, uint32_t n, float *y);
    /* the RMSNorm of one head, in place */
    void (*head_norm)(float *x, const float *w, uint32_t hd, float eps);
    /* Rotates half pairs of x by cs = half times (cos, sin); pairs (2 i, 2 i + 1) or, neox, (i, i + half). */
    void (*rope)(float *x, const float *cs, uint32_t half, bool neox);
    /* n floats to f16, nearest even */
    void (*to_f16)(const float *x, uint32_t n, uint16_t *y);
    /* y = silu(gate) * up */
    void (*swiglu)(const float *gate, const float *up, uint32_t n, float *y);
    /* y = x * sigmoid(gate); y may be x */
    void (*gate)(const float *x, const float *gate, uint32_t n, float *y);
    /* Gated DeltaNet; n and hd are multiples of 32 (docs/NUMERICS.md). Taps [n][4] to [4][n]; then y = silu(convolution) of
     * the tokens x[0 .. 3], oldest first (y may be one of them); x = x / sqrt(|x|^2 + eps) * scale. */
    void (*conv_taps)(const float *taps, uint32_t n, float *out);
    void (*conv)(const float *const x[4], const float *taps, uint32_t n, float *y);
    void (*l2_norm)(float *x, uint32_t n, float eps, float scale);
    /* y = RMSNorm(x) * w * silu(z) */
    void (*gated_norm)(const float *x, const float *w, const float *z, uint32_t n, float eps, float *y);
    /* The recurrence, token by token, over the whole state; and a segment in closed form. */
    void (*gdn_steps)(float *s, uint32_t hd, const ie_gdn_rows *r);
    void (*gdn_segment)(const ie_gdn_segment *g);
    /* Partials [part0, part1) of a block: a->part then holds each query's unnormalised output, maximum and sum. */
    void (*attn)(const ie_attn_block *a);
    /* Joins a query's partials [p0, p1) in ascending order: part is partial p0 of a block of nq queries. Overwrites the
     * partials' maxima of this query. */
    void (*attn_join)(float *part, uint32_t n_part, uint32_t query, uint32_t nq, uint32_t hd, float *out);
} ie_ops_table;

extern const ie_ops_table ie_ops_avx512, ie_ops_avx2, ie_ops_portable;
const ie_ops_table *ie_ops_of(ie_level level);

#endif
