/* What the host and the kernels share: argument structs and records in device memory, each declared here once.
 *
 * Compiled by the host's compiler (addresses are uint64_t) and for the device (pointers to global memory). A kernel takes its
 * argument struct by value. One section a kernel family, in the order of the files. */
#ifndef IE_ABI_H
#define IE_ABI_H

#include <stdint.h>

#ifdef IE_DEVICE
#define IE_GLOBAL __attribute__((address_space(1)))
#define IE_PTR(type) IE_GLOBAL type *
#else
#define IE_PTR(type) uint64_t
#endif

#define IE_ABI_T 16u /* tokens of a step (IE_DECODE_T) */

/* A step's batch in device memory, written before the step runs, so that recorded launches stay valid from step to step.
 * Entries from n (n_out) on are zero. */
typedef struct {
    uint32_t n, n_out;
    uint32_t n_pages_max; /* pages of the longest sequence in the batch, this step's tokens included */
    uint32_t reserved;
    int32_t token[IE_ABI_T];
    uint32_t seq[IE_ABI_T], pos[IE_ABI_T];
    uint32_t out[IE_ABI_T]; /* batch rows whose logits are wanted */
    uint32_t bad;           /* set by the device: largest IE_ABI_BAD(op) of an op that quantised a non-finite value */
    uint32_t reserved2[3];
} ie_abi_batch;
_Static_assert(sizeof(ie_abi_batch) == 16 + 5 * 64 - 64 + 16, "the layout that kernels read");

/* So that atomic max keeps the first op of the list (op < 2^31). */
#define IE_ABI_BAD(op) (0xFFFFFFFFu - (uint32_t)(op))

/* ---- outputs that several families share ---------------------------------------------------------------------------- */

/* The f32 and Q8 outputs of an op (either may be absent: 0). */
typedef struct {
    IE_PTR(float) y;      /* row 0; y_ld floats between rows */
    IE_PTR(uint32_t) q8;  /* blocks by ie_q8_at(row, block, nblk, group) */
    IE_PTR(ie_abi_batch) batch;
    uint32_t y_ld, nblk, group;
    uint32_t bad;         /* IE_ABI_BAD(op) */
} ie_abi_out;

/* ---- gemv.c ---------------------------------------------------------------------------------------------------------- */

/* RMSNorm of the row that a matrix kernel has made, by its workgroup that ends last (IE_NORM_FUSE). */
typedef struct {
    IE_PTR(const float) w;   /* 0: none */
    IE_PTR(uint32_t) count;  /* workgroups that have ended; zero between launches */
    ie_abi_out out;
    uint32_t groups;         /* workgroups of the launch */
    float eps;
} ie_abi_norm;

typedef struct {
    IE_PTR(const uint32_t) x; /* Q8 blocks, or f32 rows x_ld floats apart */
    IE_PTR(const uint32_t) w;
    IE_PTR(float) y;
    IE_PTR(const float) bias; /* 0: none */
    IE_PTR(const float) res;  /* y_ld floats apart; 0: none; may be y */
    uint32_t rows, cols, nblk, x_ld, y_ld;
    uint32_t t0, n; /* tokens that are wanted: t0 .. n - 1 */
    uint32_t waves; /* that share out a tile's segments: 1 to 8 */
    uint32_t ahead; /* units that a wave asks the L2 cache for beyond the one under way; gemv_stream.c: units of its ring */
    uint32_t step;  /* gemv_stream.c: tiles from one of a workgroup's own to the next */
    ie_abi_norm norm; /* of one token's row: the one that is made (AMD), or the one that is taken (ie_abi_stream_one) */
} ie_abi_gemv;

/* gemv_stream.c: one token. */
typedef struct {
    ie_abi_gemv g;           /* norm.w, .out, .eps: x is the RMSNorm of `row`, which the launch makes, and leaves in norm.out for others */
    IE_PTR(const float) row; /* 0: x is there */
    IE_PTR(uint64_t) sums;   /* of shared tiles: [tile][segment][row], a float and above it a mark; zero between launches */
    uint32_t rest;           /* the last tiles of the matrix, which are shared */
    uint32_t parts_log;      /* 2^parts_log workgroups share one, rest times that is at most the grid */
} ie_abi_stream_one;

/* gemv_stream.c: two matrices of one x, which the first one's launch would take or make. Pairs: formats that published mixtures put side by side. */
#define IE_STREAM_PAIRS(P) P(q4_k, Q4_K, q6_k, Q6_K) P(q5_k, Q5_K, q6_k, Q6_K) P(q4_k, Q4_K, q5_k, Q5_K)
typedef struct {
    ie_abi_stream_one one;    /* its g.step: workgroups of the first matrix */
    IE_PTR(const uint32_t) w; /* the other matrix, as in ie_abi_gemv */
    IE_PTR(float) y;
    IE_PTR(const float) bias;
    uint32_t rows, ahead, step;
} ie_abi_stream_two;

/* gemv_stream_t.c */
typedef struct {
    ie_abi_gemv g; /* waves: all of a workgroup's; ahead: units of a wave's ring */
    IE_PTR(uint32_t) sums;  /* of shared tiles: [tile][segment][tokens / 4][lane][4] */
    IE_PTR(uint32_t) count; /* their segments that are there; zero between launches */
    uint32_t rest;          /* the last tiles of the matrix, which are shared */
    uint32_t each, more;    /* segments of them that a workgroup has (ie_shared_first) */
    uint32_t work;          /* waves that multiply */
    uint32_t whole;         /* 1: each of them has tiles for itself; 0: a tile's segments go round */
    uint32_t lone;          /* the first of them that takes shared segments */
} ie_abi_stream;

typedef struct {
    IE_PTR(const uint32_t) w;
    IE_PTR(float) y;
    IE_PTR(const ie_abi_batch) batch;
    uint32_t n, y_ld;
    float scale;
} ie_abi_embed;

/* ---- gemv_many.c ----------------------------------------------------------------------------------------------------- */

#define IE_MANY 4u /* matrices of a launch */

/* Formats by their kernels' names. */
enum {
    IE_MANY_q4_0, IE_MANY_q4_1, IE_MANY_q5_0, IE_MANY_q5_1, IE_MANY_q8_0, IE_MANY_q2_k, IE_MANY_q3_k, IE_MANY_q4_k, IE_MANY_q5_k, IE_MANY_q6_k,
    IE_MANY_iq4_nl, IE_MANY_iq4_xs, IE_MANY_f32, IE_MANY_f16, IE_MANY_bf16
};

typedef struct {
    IE_PTR(const uint32_t) x;
    IE_PTR(const uint32_t) w;
    IE_PTR(float) y;
    IE_PTR(const float) bias; /* 0: none */
    uint32_t rows, format, waves;
    uint32_t end; /* workgroups of the launch up to this matrix's last; those of parts that there are not: as the last one's */
} ie_abi_many_part;
typedef struct {
    ie_abi_many_part part[IE_MANY];
    uint32_t cols, nblk;
} ie_abi_many;

/* ---- read.c ---------------------------------------------------------------------------------------------------------- */

typedef struct {
    IE_PTR(const uint32_t) p;
    IE_PTR(uint32_t) out;
    uint32_t n;      /* times 16 bytes; below 2^31 */
    uint32_t groups; /* workgroups */
    uint32_t never;  /* no lane's data give it */
} ie_abi_read;

/* ---- rows.c ---------------------------------------------------------------------------------------------------------- */

/* rmsnorm, quant, swiglu: rows of n values (swiglu: n gates, then n factors), x_ld floats apart. */
typedef struct {
    IE_PTR(const float) x;
    IE_PTR(const float) w; /* rmsnorm */
    ie_abi_out out;
    uint32_t n, x_ld;
    uint32_t shares;       /* workgroups that a row is shared out to */
    float eps;
} ie_abi_rows;

/* rows: y[j] = x[batch.out[j]]. */
typedef struct {
    IE_PTR(const float) x;
    IE_PTR(float) y;
    IE_PTR(const ie_abi_batch) batch;
    uint32_t n, x_ld, y_ld;
} ie_abi_gather;

/* ---- attn.c, attn_split.c ------------------------------------------------------------------------------------------------ */

/* Where the keys and values of a layer lie. */
typedef struct {
    IE_PTR(uint16_t) kv;   /* f16: the layer's first KV head in page 0; K [hdp / 8][32][8], then V [32][hdp]; then the next head */
    IE_PTR(const uint32_t) table;
    uint64_t page_stride;  /* halves from page to page */
    uint32_t per_seq;      /* pages in a sequence's table */
} ie_abi_pages;

typedef struct {
    IE_PTR(float) x;       /* rows: n_head queries, n_kv keys, n_kv values of hd floats (q_stride for queries) */
    IE_PTR(const float) q_norm; /* 0: none */
    IE_PTR(const float) k_norm;
    IE_PTR(const float) rope; /* [position][half](cos, sin) */
    IE_PTR(const ie_abi_batch) batch;
    ie_abi_pages pages;
    uint32_t x_ld, n_head, n_kv, hd, q_stride, half, neox;
    float eps;
} ie_abi_rope;

#define IE_ATTN_PAIRS 8u  /* (query head, token) pairs of a workgroup of ie_attn_kv */
#define IE_ATTN_SPLIT_HD 256u /* largest head of the kernels that split */

typedef struct {
    IE_PTR(const float) q;  /* queries, q_stride floats apart; with gates: hd of query, then hd of gate */
    IE_PTR(float) part;     /* partials: [token - t0][head][parts] of ie_attn_part_size(hd) floats */
    IE_PTR(uint32_t) count; /* [IE_ABI_T][n_head], zero between launches */
    ie_abi_out out;
    ie_abi_pages pages;
    uint64_t group_inv, shares_inv;
    uint32_t q_ld, n_head, n_kv, hd, q_stride, gated, window;
    uint32_t t0, nt;        /* tokens of this launch */
    uint32_t parts;         /* partials that there is room for, of a query */
    uint32_t spw;           /* ie_attn_kv: partials of a workgroup */
    uint32_t hpw, shares;   /* ie_attn_split: query heads of a workgroup, workgroups of a KV head */
    uint32_t group;         /* query heads of a KV head */
    float scale;
    IE_PTR(const float) fresh; /* 0: queries are turned, and the step's keys and values in their pages. Else the keys, then the values, of the step's only
                                  token: ie_attn_stream does what ie_rope_kv does, with what stands below (as in ie_abi_rope) */
    IE_PTR(const float) q_norm;
    IE_PTR(const float) k_norm;
    IE_PTR(const float) rope;
    uint32_t half, neox;
    float eps;
} ie_abi_attn;

/* Places in LDS of ie_attn_stream for heads of up to hd: a page's keys or values each, of the 16 of a partial. Two workgroups a unit, for 256 one. */
#define IE_ATTN_PLACES(hd) ((hd) <= 64u ? 16u : 13u)

/* Floats of one partial: hd padded to 8 of output, then its maximum and its sum. */
static inline uint32_t ie_attn_part_size(uint32_t hd) { return (hd + 7u) / 8u * 8u + 8u; }

/* IE_ATTN=check: *worst = max(*worst, largest |a - b| / largest |b|) of a head, as bits of a float >= 0. */
typedef struct {
    IE_PTR(const float) a;
    IE_PTR(const float) b;
    IE_PTR(uint32_t) worst;
    uint32_t a_ld, b_ld, hd;
} ie_abi_diff;

/* ---- gdn.c ----------------------------------------------------------------------------------------------------------- */

/* The step's tokens of one sequence: rows t0 .. t0 + n of the batch at positions pos .. (src/gdn_log.h). */
typedef struct {
    uint32_t seq, t0, n, pos, base, next;
    uint32_t reserved[2];
} ie_abi_gdn_block;

/* Written before a step, at the beginning of the recurrent state's memory. */
typedef struct {
    uint32_t n;
    uint32_t reserved[7];
    ie_abi_gdn_block block[IE_ABI_T];
} ie_abi_gdn;

#define IE_GDN_HD_MAX 256u /* largest head */
#define IE_GDN1_HD 128u    /* the head size of ie_gdn1 */

typedef struct {
    IE_PTR(float) x;       /* rows q | k | v | z | beta | alpha, x_ld floats apart */
    IE_PTR(float) state;   /* of sequence 0: [n_v][hd / 32][hd][32] */
    IE_PTR(float) log;     /* of sequence 0: [IE_LOG_SLOTS + 4][log row] */
    IE_PTR(float) pending; /* [block][IE_LOG_SLOTS][log row] */
    IE_PTR(const ie_abi_gdn) step;
    IE_PTR(const float) w;    /* conv: taps [channel][4]; gdn: norm [hd] */
    IE_PTR(const float) gate; /* conv: ssm_a [n_v], then dt bias [n_v] */
    ie_abi_out out;
    uint64_t state_seq, log_seq; /* floats from sequence to sequence */
    uint64_t n_k_inv;
    uint32_t x_ld, n_k, n_v, hd;
    float eps, scale;
} ie_abi_delta;

/* ---- sample.c -------------------------------------------------------------------------------------------------------- */

#define IE_TOPK_MAX 64u    /* candidates asked for */
#define IE_TOPK_PARTS 64u  /* most shares of a row: workgroups */
#define IE_TOPK_KEYS 4096u /* keys that a workgroup can take */

typedef struct {
    float v;
    int32_t id; /* -1: fewer finite logits than asked for */
} ie_abi_cand;

typedef struct {
    IE_PTR(const float) x;     /* logits, x_ld floats apart */
    IE_PTR(uint64_t) keys;     /* [row][share][k] */
    IE_PTR(ie_abi_cand) out;   /* [row][k] */
    uint32_t n, x_ld, k, shares;
    uint32_t each;             /* logits of a share; the last may have fewer */
} ie_abi_topk;

typedef struct {
    float v, p; /* the largest logit, its softmax probability */
    int32_t id; /* -1: no finite logit, or a largest one of +infinity */
    uint32_t reserved;
} ie_abi_best;

typedef struct {
    IE_PTR(const float) x;
    IE_PTR(ie_abi_best) part;  /* [row][share]; p is the sum of exp(x - v) there */
    IE_PTR(uint32_t) count;    /* [row], zero between launches */
    IE_PTR(ie_abi_best) out;   /* [row] */
    uint32_t n, x_ld, shares, each;
} ie_abi_argmax;

#endif
