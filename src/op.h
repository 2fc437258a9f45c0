/* Ops: the steps of a forward pass as plain data, shared by all backends.
 *
 * A model file builds lists of ops; a backend runs them. Operands are places in one arena (the planner's offsets), a
 * weight's index, and sizes. Every op works on a batch of T tokens (batch.h); after OP_ROWS on the rows gathered by it.
 *
 * Activations are f32 rows of `ld` floats a token, or Q8 (core/ie_core.h: IE_Q8_*, groups by ie_q8_group(T)). */
#ifndef IE_OP_H
#define IE_OP_H

#include "base.h"
#include "quant/quant.h"

/* A matrix in the backend's weight memory. Joined matrices (q|k|v, gate|up) are one. */
typedef struct {
    const ie_format *fmt;
    uint32_t rows, cols;
    uint64_t off, bytes; /* in weight memory; off is a multiple of 256 */
    const char *name;    /* the (first) tensor's name, for messages and profiles */
} ie_mat;

/* A vector of floats (norm weights, biases, rope frequencies): kept in f32 in weight memory. */
typedef struct {
    uint32_t n;
    uint64_t off; /* multiple of 256 */
    const char *name;
} ie_vec;

typedef uint32_t ie_off; /* arena offset in units of 256 bytes */
#define IE_NO_OFF 0xFFFFFFFFu
#define IE_NO_W (-1)

typedef enum {
    OP_EMBED,   /* dst[t][0..n) = row token[t] of mat, times scale */
    OP_RMSNORM, /* y = x * (1 / sqrt(mean(x^2) + eps)) * vec; to dst (f32) and / or q8 */
    OP_QUANT,   /* q8 = Q8 of src rows (where a producer could not write Q8 itself) */
    OP_MATMUL,  /* dst[t][r] = row r of mat . src[t] (+ vec[r]) (+ res[t][r]) */
    OP_ROPE_KV, /* per-head RMSNorm (vec: q, vec2: k; optional), RoPE of q (in place) and k, k and v to the KV pages */
    OP_ATTN,    /* attention of q over the sequence's pages; to dst (f32) and / or q8 */
    OP_SWIGLU,  /* dst / q8 [t][i] = silu(src[t][i]) * src[t][n + i] */
    OP_CONV,    /* Gated DeltaNet, first half, in place: causal convolution over 4 tokens and SiLU of q | k | v, L2 norm of q
                   and k heads, beta and log decay of each value head (vec: [channels][4] taps; vec2: ssm_a | dt bias) */
    OP_GDN,     /* second half: the gated delta rule over the sequence's state, RMSNorm * vec * silu(z); to dst and / or q8 */
    OP_ROWS,    /* gather the rows whose logits are asked for: dst[j] = src[batch.out[j]] */
    OP_KINDS
} ie_op_kind;

typedef struct {
    ie_op_kind kind;
    int32_t layer;        /* -1 outside layers */
    ie_off src, dst, q8;  /* input; f32 output; Q8 output. IE_NO_OFF where there is none */
    ie_off res;           /* MATMUL: added to the result; may equal dst */
    uint32_t src_ld, dst_ld; /* floats between tokens (f32 operands) */
    uint32_t src_at, dst_at; /* first float of the operand inside a token's row */
    uint8_t src_q8;       /* src is Q8, not f32 */
    uint8_t of_rows;      /* works on the n_out gathered rows, not on the T tokens */
    int32_t mat, vec, vec2; /* indices into ie_weights; IE_NO_W where there is none */
    uint32_t n;           /* row length (EMBED, RMSNORM, QUANT, SWIGLU, ROWS) */
    float eps, scale;     /* norm; EMBED: factor; ATTN: factor on q . k */
    /* attention */
    uint32_t n_head, n_kv, hd;
    uint32_t rope_dim;    /* dimensions rotated */
    uint8_t rope_neox;    /* pairs (i, i + rope_dim / 2) instead of (2i, 2i + 1) */
    int32_t kv_layer;     /* index among the layers that have KV pages (CONV, GDN: among the recurrent ones) */
    uint32_t window;      /* sliding window in positions, 0 = none */
    uint8_t gated;        /* ROPE_KV, ATTN: a gate of hd floats follows each query; ATTN: output times sigmoid(gate) */
    /* CONV, GDN: n_kv key heads and n_head value heads of hd. A row holds q | k | v | z | beta | alpha; CONV leaves the log
     * decay in alpha's place. */
} ie_op;

typedef struct {
    const char *name; /* "decode", "head", ... for profiles */
    ie_op *ops;
    uint32_t n, cap;
} ie_oplist;

/* Floats of the queries in a row of ROPE_KV and ATTN (gates included). */
static inline uint64_t ie_op_q_floats(const ie_op *op) { return (uint64_t)op->n_head * op->hd * (op->gated ? 2u : 1u); }
/* CONV, GDN: channels of q | k | v, and floats of a whole row. */
static inline uint64_t ie_op_channels(const ie_op *op) { return (2u * (uint64_t)op->n_kv + op->n_head) * op->hd; }
static inline uint64_t ie_op_gdn_floats(const ie_op *op) {
    return ie_op_channels(op) + (uint64_t)op->n_head * op->hd + 2u * (uint64_t)op->n_head;
}

/* Appends a copy of *op. */
ie_status ie_oplist_add(ie_oplist *l, const ie_op *op, ie_error *err);
void ie_oplist_free(ie_oplist *l);

/* What runs with an op, for the table's cost functions. */
typedef struct {
    uint64_t weight_bytes, act_bytes, kv_bytes, flops;
} ie_cost;

typedef struct ie_weights ie_weights; /* model/weights.h */

/* One row per kind. */
typedef struct {
    const char *name;
    const char *operands; /* "src dst|q8 vec" */
    const char *formula;  /* one line, for --help and docs */
    /* bytes and operations for `rows` rows whose sequences hold `ctx` positions on average */
    ie_cost (*cost)(const ie_op *op, const ie_weights *w, uint32_t rows, uint32_t ctx);
} ie_op_info;

extern const ie_op_info ie_op_table[OP_KINDS];

/* A part of the arena that an op touches: `rows` rows of n bytes, ld bytes apart, from byte `begin` on. */
typedef struct {
    uint64_t begin, ld, n;
    uint32_t rows;
    bool write;
} ie_operand;

#define IE_OPERANDS 4u /* at most so many an op */

/* The operands of an op that works on `rows` rows of a batch of t tokens; returns their number. */
uint32_t ie_op_operands(const ie_op *op, const ie_weights *w, uint32_t t, uint32_t rows, ie_operand out[IE_OPERANDS]);
/* True when the two may touch the same byte (exact for rows of one buffer, by extent otherwise). */
bool ie_operands_meet(const ie_operand *a, const ie_operand *b);

#endif
