/* What each op kind does: which pieces of work it falls into, and a piece. Row kernels come from the level's tables. */
#include <string.h>

#include "cpu.h"

#define CHUNK 256u /* floats that are computed and quantised at a time: 8 blocks */
#define TAKES 32u /* about so many times a thread comes for work in a matrix: enough to even out threads of unequal speed */

void cpu_bad(cpu_run *r, const ie_op *op) {
    uint32_t mine = (uint32_t)(op - r->list->ops) + 1, seen = atomic_load_explicit(&r->bad, memory_order_relaxed);
    while ((seen == 0 || mine < seen) &&
           !atomic_compare_exchange_weak_explicit(&r->bad, &seen, mine, memory_order_relaxed, memory_order_relaxed)) {}
}

/* Where block b of token t of a Q8 operand with rows of n values begins; *stride: blocks between a token's blocks. */
static uint32_t *q8_at(const cpu_run *r, const ie_op *op, uint32_t t, uint32_t b, uint32_t *stride) {
    *stride = ie_q8_group(cpu_rows(r, op));
    return cpu_q8(r, op->q8) + (uint64_t)ie_q8_at(t, b, ie_nblk(op->n), *stride) * IE_Q8_WORDS;
}

static const float *src_row(const cpu_run *r, const ie_op *op, uint32_t t) {
    return cpu_f32(r, op->src) + (uint64_t)t * op->src_ld + op->src_at;
}
static float *dst_row(const cpu_run *r, const ie_op *op, uint32_t t) {
    return cpu_f32(r, op->dst) + (uint64_t)t * op->dst_ld + op->dst_at;
}

/* Writes n floats at element `at` of row t to the op's outputs (y may be the place itself). */
static void put(cpu_run *r, const ie_op *op, uint32_t t, uint32_t at, const float *y, uint32_t n) {
    if (op->dst != IE_NO_OFF && dst_row(r, op, t) + at != y) memcpy(dst_row(r, op, t) + at, y, n * sizeof *y);
    if (op->q8 == IE_NO_OFF) return;
    uint32_t stride, *q = q8_at(r, op, t, at / IE_BLOCK, &stride);
    if (!r->cpu->mm->q8(y, n, q, stride)) cpu_bad(r, op);
}

static void embed(cpu_run *r, const ie_op *op, uint32_t t) {
    const ie_mat *m = &r->w->mat[op->mat];
    float *y = dst_row(r, op, t);
    ie_dequant_row(m->fmt, m->cols, (const uint32_t *)(const void *)(r->cpu->weights + m->off), (uint32_t)r->step->token[t], y);
    if (op->scale != 1.0f)
        for (uint32_t i = 0; i < op->n; i++) y[i] *= op->scale;
}

static void rmsnorm(cpu_run *r, const ie_op *op, uint32_t t) {
    const float *x = src_row(r, op, t), *w = cpu_vec(r, op->vec);
    float buf[CHUNK], inv = r->cpu->ops->rms(x, op->n, op->eps);
    for (uint32_t i = 0; i < op->n; i += CHUNK) {
        uint32_t n = op->n - i < CHUNK ? op->n - i : CHUNK;
        float *y = op->dst != IE_NO_OFF ? dst_row(r, op, t) + i : buf;
        r->cpu->ops->norm(x + i, w + i, inv, n, y);
        put(r, op, t, i, y, n);
    }
}

/* Ops whose pieces are chunks of rows. */
static uint32_t chunks(const ie_op *op) { return (op->n + CHUNK - 1u) / CHUNK; }

static void quant(cpu_run *r, const ie_op *op, uint32_t t, uint32_t at, uint32_t n) {
    uint32_t stride, *q = q8_at(r, op, t, at / IE_BLOCK, &stride);
    if (!r->cpu->mm->q8(src_row(r, op, t) + at, n, q, stride)) cpu_bad(r, op);
}

static void swiglu(cpu_run *r, const ie_op *op, uint32_t t, uint32_t at, uint32_t n) {
    const float *x = src_row(r, op, t);
    float buf[CHUNK], *y = op->dst != IE_NO_OFF ? dst_row(r, op, t) + at : buf;
    r->cpu->ops->swiglu(x + at, x + op->n + at, n, y);
    put(r, op, t, at, y, n);
}

/* How a matrix is shared out: half tiles of rows times blocks of tokens, `grain` half tiles at a time. With enough tokens
 * each thread has a block of them, the same in every op (the other ops share out tokens too), so that activations stay in
 * the caches of the core that wrote them; with few tokens all threads work on all of them. */
typedef struct {
    uint32_t groups, blocks; /* token groups of IE_DECODE_T, and the blocks that they form */
    uint32_t halves, grain;  /* half tiles, rounded up to whole takes */
} share;

_Static_assert(IE_POOL_MAX <= 65536u, "ie_block_tok");
static share matmul_share(const cpu_run *r, const ie_op *op) {
    const bool ffn = cpu_op_how(r, op)->swiglu; /* gate's rows; up's are done with them */
    uint32_t threads = ie_pool_threads(r->cpu->pool), rows = r->w->mat[op->mat].rows / (ffn ? 2u : 1u);
    uint32_t halves = (rows + IE_MM_ROWS - 1u) / IE_MM_ROWS;
    share s = {.groups = ie_tok_groups(cpu_op_span(r, op).n, IE_DECODE_T)};
    /* At least two groups a block: a block of one token would be taken for the layout of a single token. */
    s.blocks = s.groups >= 2 * threads ? threads : 1;
    uint32_t each = halves * s.blocks / (threads * TAKES);
    s.grain = each < 2 ? (halves * s.blocks >= 4 * threads || ffn ? 2 : 1) : each / 2 * 2;
    s.halves = (halves + s.grain - 1u) / s.grain * s.grain;
    return s;
}

/* Rows [row0, row1) of gate and of up, a few at a time into the thread's own memory, which its caches hold; from there to SWIGLU's
 * output. The rows in memory would be far apart, and wait for one another on their way out. */
static void matmul_swiglu(cpu_run *r, const ie_op *op, uint32_t thread, const ie_mm_args *all, uint32_t t0, uint32_t row0, uint32_t row1) {
    enum { STEP = CPU_FFN_FLOATS / 2u, TOKENS = IE_DECODE_T };
    const ie_op *out = op + 1;
    const ie_mat *m = all->mat;
    float *gate = (float *)r->st->ffn.p + (uint64_t)thread * r->step->n * CPU_FFN_FLOATS, buf[TOKENS * STEP];
    for (uint32_t row = row0; row < row1; row += STEP) {
        ie_mat part = *m;
        part.rows = row1 - row < STEP ? row1 - row : STEP;
        ie_mm_args a = *all;
        a.mat = &part, a.y_ld = CPU_FFN_FLOATS;
        for (uint32_t k = 0; k < 2u; k++) {
            uint32_t at = row + k * out->n; /* a multiple of 32, as SWIGLU's n is */
            a.w = all->w + ie_mat_bytes(m->fmt, at, m->cols) / sizeof *a.w;
            a.bias = all->bias ? all->bias + at : NULL;
            a.y = gate + k * STEP;
            a.next = all->w + ie_mat_bytes(m->fmt, k ? row + STEP : row + out->n, m->cols) / sizeof *a.w;
            r->cpu->mm->mm(&a, 0, part.rows);
        }
        for (uint32_t t = 0; t < a.t; t++) { /* some tokens' products, then their blocks: each waits for nothing but its own */
            const float *x = gate + (uint64_t)t * CPU_FFN_FLOATS;
            const uint32_t i = t % TOKENS;
            r->cpu->ops->swiglu(x, x + STEP, part.rows, out->dst != IE_NO_OFF ? dst_row(r, out, t0 + t) + row : buf + i * STEP);
            for (uint32_t j = t - i; j <= t && (i + 1u == TOKENS || t + 1u == a.t); j++)
                put(r, out, t0 + j, row, out->dst != IE_NO_OFF ? dst_row(r, out, t0 + j) + row : buf + j % TOKENS * STEP, part.rows);
        }
    }
}

static void matmul(cpu_run *r, const ie_op *op, uint32_t thread, uint32_t i0, uint32_t i1) {
    const ie_mat *m = &r->w->mat[op->mat];
    share s = matmul_share(r, op);
    cpu_span span = cpu_op_span(r, op);
    bool ffn = cpu_op_how(r, op)->swiglu;
    uint32_t block = ie_item_block(i0, s.halves), row0 = ie_item_piece(i0, s.halves) * IE_MM_ROWS, row1 = row0 + (i1 - i0) * IE_MM_ROWS;
    uint32_t rows = ffn ? m->rows / 2u : m->rows;
    if (row0 >= rows) return;
    uint32_t t0 = ie_block_tok(s.groups, block, s.blocks), t1 = ie_block_tok(s.groups, block + 1u, s.blocks);
    if (t1 > span.n) t1 = span.n;
    t0 += span.t0, t1 += span.t0;
    const uint32_t *q8 = op->src_q8 ? cpu_q8(r, op->src) : NULL;
    ie_mm_args a = {
        .mat = m,
        .w = (const uint32_t *)(const void *)(r->cpu->weights + m->off),
        .x = q8 ? (const void *)(q8 + (uint64_t)ie_q8_at(t0, 0, ie_nblk(m->cols), ie_q8_group(cpu_rows(r, op))) * IE_Q8_WORDS)
                : (const void *)src_row(r, op, t0),
        .x_ld = op->src_ld,
        .t = t1 - t0,
        .bias = op->vec == IE_NO_W ? NULL : cpu_vec(r, op->vec),
        .res = op->res == IE_NO_OFF ? NULL : cpu_f32(r, op->res) + (uint64_t)t0 * op->dst_ld + op->dst_at,
        .res_ld = op->dst_ld,
        .y = dst_row(r, op, t0),
        .y_ld = op->dst_ld,
    };
    row1 = row1 < rows ? row1 : rows;
    if (ffn) matmul_swiglu(r, op, thread, &a, t0, row0, row1);
    else if (!cpu_float_matmul(r, op, thread, &a, row0, row1)) r->cpu->mm->mm(&a, row0, row1);
}

uint32_t cpu_op_pieces(const cpu_run *r, const ie_op *op, uint32_t *grain) {
    uint32_t rows = cpu_op_span(r, op).n;
    *grain = 1;
    if (cpu_op_how(r, op)->done) return 0;
    switch (op->kind) {
    case OP_EMBED:
    case OP_RMSNORM:
    case OP_ROWS: return rows;
    case OP_QUANT:
    case OP_SWIGLU: {
        uint32_t n = rows * chunks(op);
        *grain = rows > 1 ? chunks(op) : 2;
        return n;
    }
    case OP_MATMUL: {
        share s = matmul_share(r, op);
        *grain = s.grain;
        return rows ? s.halves * s.blocks : 0;
    }
    case OP_ROPE_KV: *grain = rows > 1 ? op->n_head + op->n_kv : 8; return rows * (op->n_head + op->n_kv);
    case OP_ATTN: return cpu_attn_pieces(r, op);
    case OP_CONV: return cpu_conv_pieces(r, op);
    case OP_GDN: return cpu_gdn_pieces(r, op);
    case OP_KINDS: break;
    }
    return 0;
}

void cpu_op_work(cpu_run *r, const ie_op *op, uint32_t thread, uint32_t i0, uint32_t i1) {
    const uint32_t first = cpu_op_span(r, op).t0;
    switch (op->kind) {
    case OP_EMBED:
        for (uint32_t t = i0; t < i1; t++) embed(r, op, t);
        break;
    case OP_RMSNORM:
        for (uint32_t t = i0; t < i1; t++) rmsnorm(r, op, first + t);
        break;
    case OP_ROWS:
        for (uint32_t t = i0; t < i1; t++) memcpy(dst_row(r, op, t), src_row(r, op, r->step->out[t]), op->n * sizeof(float));
        break;
    case OP_QUANT:
    case OP_SWIGLU:
        for (uint32_t i = i0; i < i1; i++) {
            uint32_t t = first + i / chunks(op), at = i % chunks(op) * CHUNK, n = op->n - at < CHUNK ? op->n - at : CHUNK;
            if (op->kind == OP_QUANT) quant(r, op, t, at, n);
            else swiglu(r, op, t, at, n);
        }
        break;
    case OP_MATMUL: matmul(r, op, thread, i0, i1); break;
    case OP_ROPE_KV: cpu_rope_work(r, op, i0, i1); break;
    case OP_ATTN: cpu_attn_work(r, op, thread, i0, i1); break;
    case OP_CONV: cpu_conv_work(r, op, i0, i1); break;
    case OP_GDN: cpu_gdn_work(r, op, thread, i0, i1); break;
    case OP_KINDS: break;
    }
}
