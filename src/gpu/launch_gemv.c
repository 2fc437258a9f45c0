/* Launches of matrices and of the embedding (kernels/gemv.c), and the layout of weights. */
#include <string.h>

#include "gpu.h"

#define TILES 8u /* of a workgroup: one a wave */

static const struct {
    const char *gemv, *embed;
} names[IE_F_COUNT] = {
    [IE_F_F32] = {"ie_gemv_f32", "ie_embed_f32"},       [IE_F_F16] = {"ie_gemv_f16", "ie_embed_f16"},
    [IE_F_BF16] = {"ie_gemv_bf16", "ie_embed_bf16"},    [IE_F_Q4_0] = {"ie_gemv_q4_0", "ie_embed_q4_0"},
    [IE_F_Q4_1] = {"ie_gemv_q4_1", "ie_embed_q4_1"},    [IE_F_Q5_0] = {"ie_gemv_q5_0", "ie_embed_q5_0"},
    [IE_F_Q5_1] = {"ie_gemv_q5_1", "ie_embed_q5_1"},    [IE_F_Q8_0] = {"ie_gemv_q8_0", "ie_embed_q8_0"},
    [IE_F_Q2_K] = {"ie_gemv_q2_k", "ie_embed_q2_k"},    [IE_F_Q3_K] = {"ie_gemv_q3_k", "ie_embed_q3_k"},
    [IE_F_Q4_K] = {"ie_gemv_q4_k", "ie_embed_q4_k"},    [IE_F_Q5_K] = {"ie_gemv_q5_k", "ie_embed_q5_k"},
    [IE_F_Q6_K] = {"ie_gemv_q6_k", "ie_embed_q6_k"},    [IE_F_IQ4_NL] = {"ie_gemv_iq4_nl", "ie_embed_iq4_nl"},
    [IE_F_IQ4_XS] = {"ie_gemv_iq4_xs", "ie_embed_iq4_xs"},
};

ie_status gpu_launch_matmul(const gpu_run *r, const ie_op *op, gpu_launches *out, ie_error *err) {
    const ie_mat *m = &r->w->mat[op->mat];
    uint32_t n = gpu_rows(r, op);
    if (!op->src_q8 && m->fmt->dot != IE_FLOAT)
        return ie_fail(err, IE_E_UNSUPPORTED, "matrix '%s' of %s with float activations needs the CPU backend", m->name, m->fmt->name);
    ie_abi_gemv a = {.x = gpu_at(r, op->src, op->src_q8 ? 0 : op->src_at), .w = r->weights + m->off,
                     .y = gpu_at(r, op->dst, op->dst_at), .bias = op->vec == IE_NO_W ? 0 : r->weights + r->w->vec[op->vec].off,
                     .res = op->res == IE_NO_OFF ? 0 : gpu_at(r, op->res, op->dst_at), .rows = m->rows, .cols = m->cols,
                     .nblk = ie_nblk(m->cols), .group = ie_q8_group(n), .x_ld = op->src_ld, .y_ld = op->dst_ld};
    return n ? gpu_add(out, names[m->fmt->id].gemv, (ie_ntiles(m->rows) + TILES - 1u) / TILES, n, 32u * TILES, &a, sizeof a, err) : IE_OK;
}

ie_status gpu_launch_embed(const gpu_run *r, const ie_op *op, gpu_launches *out, ie_error *err) {
    const ie_mat *m = &r->w->mat[op->mat];
    ie_abi_embed a = {.w = r->weights + m->off, .y = gpu_at(r, op->dst, op->dst_at), .batch = r->batch, .n = op->n, .y_ld = op->dst_ld,
                      .scale = op->scale};
    return gpu_add(out, names[m->fmt->id].embed, ie_nsb(m->fmt, m->cols), r->step->n, 32, &a, sizeof a, err);
}

uint64_t gpu_tile_bytes(const ie_format *f, uint32_t cols) { return ie_mat_bytes(f, IE_TILE_ROWS, cols); }

uint64_t gpu_mat_bytes(const ie_format *f, uint32_t rows, uint32_t cols) {
    return (ie_ntiles(rows) * gpu_tile_bytes(f, cols) + 255u) / 256u * 256u;
}

void gpu_repack_tile(const ie_format *f, uint32_t cols, const uint32_t *word_major, uint32_t *out) {
    memcpy(out, word_major, (size_t)gpu_tile_bytes(f, cols));
}
