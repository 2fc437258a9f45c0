#include "op.h"

#include <stdlib.h>

#include "model/weights.h"

ie_status ie_oplist_add(ie_oplist *l, const ie_op *op, ie_error *err) {
    size_t cap = l->cap;
    if (l->n == UINT32_MAX || !ie_grow(&l->ops, &cap, (size_t)l->n + 1, sizeof *l->ops, "op list", err))
        return IE_E_NOMEM;
    l->cap = (uint32_t)cap;
    l->ops[l->n++] = *op;
    return IE_OK;
}

void ie_oplist_free(ie_oplist *l) {
    free(l->ops);
    *l = (ie_oplist){0};
}

/* ---- operands ------------------------------------------------------------------------------------------------------ */

static ie_operand floats(ie_off off, uint64_t ld, uint64_t at, uint64_t n, uint32_t rows, bool write) {
    return (ie_operand){(uint64_t)off * 256u + at * 4u, ld * 4u, n * 4u, rows, write};
}

/* Q8 blocks of k values a row; the last group of 16 tokens counts as whole. */
static ie_operand q8(ie_off off, uint64_t k, uint32_t rows, bool write) {
    uint64_t n = (uint64_t)ie_q8_blocks(rows, ie_nblk((uint32_t)k)) * IE_Q8_WORDS * 4u;
    return (ie_operand){(uint64_t)off * 256u, n, n, 1, write};
}

/* The f32 and Q8 outputs of an op with rows of n values. */
static uint32_t outputs(const ie_op *op, uint64_t n, uint32_t rows, ie_operand *out) {
    uint32_t k = 0;
    if (op->dst != IE_NO_OFF) out[k++] = floats(op->dst, op->dst_ld, op->dst_at, n, rows, true);
    if (op->q8 != IE_NO_OFF) out[k++] = q8(op->q8, n, rows, true);
    return k;
}

uint32_t ie_op_operands(const ie_op *op, const ie_weights *w, uint32_t t, uint32_t rows, ie_operand out[IE_OPERANDS]) {
    uint64_t q = (uint64_t)op->n_head * op->hd, kv = (uint64_t)op->n_kv * op->hd;
    switch (op->kind) {
    case OP_EMBED: return outputs(op, op->n, rows, out);
    case OP_RMSNORM:
    case OP_QUANT: out[0] = floats(op->src, op->src_ld, op->src_at, op->n, rows, false); break;
    case OP_SWIGLU: out[0] = floats(op->src, op->src_ld, op->src_at, 2u * (uint64_t)op->n, rows, false); break;
    case OP_ROWS: out[0] = floats(op->src, op->src_ld, op->src_at, op->n, t, false); break;
    case OP_ROPE_KV: out[0] = floats(op->src, op->src_ld, op->src_at, ie_op_q_floats(op) + 2u * kv, rows, true); return 1;
    case OP_ATTN:
        out[0] = floats(op->src, op->src_ld, op->src_at, ie_op_q_floats(op), rows, false);
        return 1 + outputs(op, q, rows, out + 1);
    case OP_CONV:
    case OP_GDN: /* the recurrence leaves its unnormalised result in v's place */
        out[0] = floats(op->src, op->src_ld, op->src_at, ie_op_gdn_floats(op), rows, true);
        return op->kind == OP_CONV ? 1 : 1 + outputs(op, q, rows, out + 1);
    case OP_MATMUL: {
        const ie_mat *m = &w->mat[op->mat];
        uint32_t k = 1;
        out[0] = op->src_q8 ? q8(op->src, m->cols, rows, false)
                            : floats(op->src, op->src_ld, op->src_at, m->cols, rows, false);
        if (op->res != IE_NO_OFF) out[k++] = floats(op->res, op->dst_ld, op->dst_at, m->rows, rows, false);
        out[k++] = floats(op->dst, op->dst_ld, op->dst_at, m->rows, rows, true);
        return k;
    }
    case OP_KINDS: return 0;
    }
    return 1 + outputs(op, op->n, rows, out + 1);
}

bool ie_operands_meet(const ie_operand *a, const ie_operand *b) {
    if (!a->rows || !b->rows) return false;
    uint64_t a_end = a->begin + (a->rows - 1u) * a->ld + a->n, b_end = b->begin + (b->rows - 1u) * b->ld + b->n;
    if (a_end <= b->begin || b_end <= a->begin) return false;
    if (a->ld != b->ld || a->n > a->ld || b->n > b->ld) return true;
    /* rows of equal pitch: they meet when their column ranges do, modulo the pitch */
    uint64_t ab = (b->begin - a->begin) % a->ld;
    if (b->begin < a->begin) ab = (a->ld - (a->begin - b->begin) % a->ld) % a->ld;
    return ab < a->n || ab + b->n > a->ld;
}

/* ---- costs --------------------------------------------------------------------------------------------------------- */

/* Bytes of the arena that an op reads and writes. */
static uint64_t act_bytes(const ie_op *op, const ie_weights *w, uint32_t rows) {
    ie_operand o[IE_OPERANDS];
    uint64_t sum = 0;
    for (uint32_t n = ie_op_operands(op, w, rows, rows, o), i = 0; i < n; i++) sum += (uint64_t)o[i].rows * o[i].n;
    return sum;
}

static ie_cost cost_embed(const ie_op *op, const ie_weights *w, uint32_t rows, uint32_t ctx) {
    (void)ctx;
    const ie_mat *m = &w->mat[op->mat];
    return (ie_cost){.weight_bytes = m->bytes / m->rows * rows, .act_bytes = act_bytes(op, w, rows),
                     .flops = (uint64_t)rows * op->n};
}

static ie_cost cost_norm(const ie_op *op, const ie_weights *w, uint32_t rows, uint32_t ctx) {
    (void)ctx;
    return (ie_cost){.weight_bytes = 4u * (uint64_t)op->n, .act_bytes = act_bytes(op, w, rows),
                     .flops = 4u * (uint64_t)rows * op->n};
}

static ie_cost cost_rows(const ie_op *op, const ie_weights *w, uint32_t rows, uint32_t ctx) {
    (void)ctx;
    return (ie_cost){.act_bytes = act_bytes(op, w, rows)};
}

static ie_cost cost_quant(const ie_op *op, const ie_weights *w, uint32_t rows, uint32_t ctx) {
    (void)ctx;
    return (ie_cost){.act_bytes = act_bytes(op, w, rows), .flops = 3u * (uint64_t)rows * op->n};
}

static ie_cost cost_matmul(const ie_op *op, const ie_weights *w, uint32_t rows, uint32_t ctx) {
    (void)ctx;
    const ie_mat *m = &w->mat[op->mat];
    uint64_t bias = op->vec == IE_NO_W ? 0 : 4u * (uint64_t)m->rows;
    return (ie_cost){.weight_bytes = m->bytes + bias, .act_bytes = act_bytes(op, w, rows),
                     .flops = 2u * (uint64_t)rows * m->rows * m->cols};
}

static ie_cost cost_rope(const ie_op *op, const ie_weights *w, uint32_t rows, uint32_t ctx) {
    (void)ctx;
    uint64_t kv = 4u * (uint64_t)rows * op->n_kv * ie_head_pad(op->hd); /* k and v, 2 bytes each */
    return (ie_cost){.act_bytes = act_bytes(op, w, rows), .kv_bytes = kv,
                     .flops = 3u * (uint64_t)rows * (op->n_head + op->n_kv) * op->rope_dim};
}

/* Counted as if every token read its sequence's pages by itself: exact for one token of a sequence. */
static ie_cost cost_attn(const ie_op *op, const ie_weights *w, uint32_t rows, uint32_t ctx) {
    uint64_t seen = op->window && op->window < ctx ? op->window : ctx;
    return (ie_cost){.act_bytes = act_bytes(op, w, rows),
                     .kv_bytes = 4u * seen * rows * op->n_kv * ie_head_pad(op->hd),
                     .flops = 4u * seen * rows * op->n_head * op->hd};
}

static ie_cost cost_swiglu(const ie_op *op, const ie_weights *w, uint32_t rows, uint32_t ctx) {
    (void)ctx;
    return (ie_cost){.act_bytes = act_bytes(op, w, rows), .flops = 20u * (uint64_t)rows * op->n};
}

static ie_cost cost_conv(const ie_op *op, const ie_weights *w, uint32_t rows, uint32_t ctx) {
    (void)ctx;
    return (ie_cost){.weight_bytes = 16u * ie_op_channels(op), .act_bytes = act_bytes(op, w, rows),
                     .flops = 30u * (uint64_t)rows * ie_op_channels(op)};
}

/* The state is read and written once for each sequence: counted for one. */
static ie_cost cost_gdn(const ie_op *op, const ie_weights *w, uint32_t rows, uint32_t ctx) {
    (void)ctx;
    uint64_t state = (uint64_t)op->n_head * op->hd * op->hd;
    return (ie_cost){.act_bytes = act_bytes(op, w, rows), .kv_bytes = 8u * state, .flops = 7u * rows * state};
}

const ie_op_info ie_op_table[OP_KINDS] = {
    [OP_EMBED] = {"embed", "mat -> dst", "dst[t] = mat[token[t]] * scale", cost_embed},
    [OP_RMSNORM] = {"rmsnorm", "src vec -> dst q8", "y = x * (1 / sqrt(mean(x^2) + eps)) * vec", cost_norm},
    [OP_QUANT] = {"quant", "src -> q8", "q8 = Q8(src)", cost_quant},
    [OP_MATMUL] = {"matmul", "src mat (vec) (res) -> dst", "dst[t][r] = mat[r] . src[t] (+ vec[r]) (+ res[t][r])", cost_matmul},
    [OP_ROPE_KV] = {"rope_kv", "src (vec) (vec2) -> src, pages", "rotate q and k; k, v to the sequence's pages", cost_rope},
    [OP_ATTN] = {"attn", "src, pages -> dst q8", "out = softmax(scale * q . K) . V per head", cost_attn},
    [OP_SWIGLU] = {"swiglu", "src -> dst q8", "y[i] = silu(src[i]) * src[n + i]", cost_swiglu},
    [OP_CONV] = {"conv", "src vec vec2 -> src, log", "q, k, v = silu(conv4(src)); q, k /= |.|; beta = sigmoid, alpha = log decay", cost_conv},
    [OP_GDN] = {"gdn", "src, state vec -> dst q8", "S = e^alpha S + k d^T, d = beta (v - e^alpha S^T k); y = rmsnorm(S^T q) * vec * silu(z)", cost_gdn},
    [OP_ROWS] = {"rows", "src -> dst", "dst[j] = src[out[j]]", cost_rows},
};
