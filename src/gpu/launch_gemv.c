/* Launches of matrices and of the embedding (kernels/gemv.c). */
#include "gpu.h"
#include "layout.h"

#define WAVES 8u /* of a workgroup */

/* Kernels by tokens of a group. */
#define GROUPS 4u
static const uint32_t group_tokens[GROUPS] = {1, 4, 8, 16};
static const struct {
    const char *gemv[GROUPS], *embed;
} names[IE_F_COUNT] = {
#define ROW(NAME, FORMAT, N0, N1, PER, APART) \
    [IE_F_##FORMAT] = {{"ie_gemv_" #NAME, "ie_gemv_" #NAME "_t4", "ie_gemv_" #NAME "_t8", "ie_gemv_" #NAME "_t16"}, "ie_embed_" #NAME},
    IE_GPU_FORMATS(ROW)
#undef ROW
};

ie_status gpu_launch_matmul(const gpu_run *r, const ie_op *op, gpu_launches *out, ie_error *err) {
    const ie_mat *m = &r->w->mat[op->mat];
    uint32_t n = gpu_rows(r, op), tiles = ie_ntiles(m->rows), g = 0;
    bool floats = m->fmt->dot == IE_FLOAT;
    if (!op->src_q8 && !floats)
        return ie_fail(err, IE_E_UNSUPPORTED, "matrix '%s' of %s with float activations needs the CPU backend", m->name, m->fmt->name);
    if (!n) return IE_OK;
    /* all of a card's waves busy with half as many: then four a tile, which read more in a row */
    uint32_t waves = tiles * 4u >= r->card->units * 16u ? 4u : WAVES;
    ie_abi_gemv a = {.x = gpu_at(r, op->src, op->src_q8 ? 0 : op->src_at), .w = r->weights + m->off,
                     .y = gpu_at(r, op->dst, op->dst_at), .bias = op->vec == IE_NO_W ? 0 : r->weights + r->w->vec[op->vec].off,
                     .res = op->res == IE_NO_OFF ? 0 : gpu_at(r, op->res, op->dst_at), .rows = m->rows, .cols = m->cols,
                     .nblk = ie_nblk(m->cols), .group = ie_q8_group(n), .x_ld = op->src_ld, .y_ld = op->dst_ld, .n = n, .waves = waves};
    while (!floats && g + 1u < GROUPS && group_tokens[g] < n) g++; /* float matrices: a token at a time */
    if (group_tokens[g] == 16u) a.waves = waves = WAVES; /* LDS for one tile's sums */
    uint32_t each = WAVES / waves, t = group_tokens[g];
    return gpu_add(out, names[m->fmt->id].gemv[g], ie_grid_pad((tiles + each - 1u) / each), (n + t - 1u) / t, 32u * WAVES, &a, sizeof a, err);
}

ie_status gpu_launch_embed(const gpu_run *r, const ie_op *op, gpu_launches *out, ie_error *err) {
    const ie_mat *m = &r->w->mat[op->mat];
    ie_abi_embed a = {.w = r->weights + m->off, .y = gpu_at(r, op->dst, op->dst_at), .batch = r->batch, .n = op->n, .y_ld = op->dst_ld,
                      .scale = op->scale};
    return gpu_add(out, names[m->fmt->id].embed, (ie_nblk(m->cols) + 7u) / 8u, r->step->n, 32, &a, sizeof a, err);
}
