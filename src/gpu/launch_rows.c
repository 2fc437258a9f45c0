/* Launches of the ops over rows (kernels/rows.c). */
#include "gpu.h"

#define LANES 256u
/* Some counts of workgroups are slow on gfx1201 (2016 to 2048 waves and, for this family, more): 1920 waves at most, each taking
 * several blocks. */
#define MOST_GROUPS 240u

ie_abi_out gpu_out(const gpu_run *r, const ie_op *op, uint32_t n) {
    return (ie_abi_out){
        .y = op->dst == IE_NO_OFF ? 0 : gpu_at(r, op->dst, op->dst_at),
        .q8 = op->q8 == IE_NO_OFF ? 0 : gpu_at(r, op->q8, 0),
        .batch = r->batch,
        .y_ld = op->dst_ld,
        .nblk = ie_nblk(n),
        .group = ie_q8_group(gpu_rows(r, op)),
        .bad = IE_ABI_BAD(r->op),
    };
}

/* Blocks of 32 values that a workgroup takes at a time: one a wave. */
static uint32_t chunks(uint32_t n) { return (ie_nblk(n) + LANES / 32u - 1u) / (LANES / 32u); }

static ie_status rows(const gpu_run *r, const ie_op *op, const char *kernel, uint32_t shares, gpu_ptr w, gpu_launches *out, ie_error *err) {
    uint32_t n = gpu_rows(r, op);
    ie_abi_rows a = {.x = gpu_at(r, op->src, op->src_at), .w = w, .out = gpu_out(r, op, op->n), .n = op->n, .x_ld = op->src_ld,
                     .shares = shares, .eps = op->eps};
    return n ? gpu_add(out, kernel, shares, n, LANES, &a, sizeof a, err) : IE_OK;
}

/* Shares of a row of so many chunks when there are n rows. */
static uint32_t shares_of(uint32_t all, uint32_t n) {
    uint32_t most = n < MOST_GROUPS ? MOST_GROUPS / (n ? n : 1u) : 1u;
    return all < most ? all : most;
}

ie_status gpu_launch_rmsnorm(const gpu_run *r, const ie_op *op, gpu_launches *out, ie_error *err) {
    uint32_t each = r->card->norm_chunks; /* of a share, which adds up the whole row: few shares where that costs more than waiting */
    uint32_t shares = shares_of((chunks(op->n) + each - 1u) / each, gpu_rows(r, op));
    if (op->dst == op->src) shares = 1; /* in place: nobody may still be reading */
    return rows(r, op, "ie_rmsnorm", shares, r->weights + r->w->vec[op->vec].off, out, err);
}

ie_status gpu_launch_quant(const gpu_run *r, const ie_op *op, gpu_launches *out, ie_error *err) {
    return rows(r, op, "ie_quant", shares_of(chunks(op->n), gpu_rows(r, op)), 0, out, err);
}

ie_status gpu_launch_swiglu(const gpu_run *r, const ie_op *op, gpu_launches *out, ie_error *err) {
    return rows(r, op, "ie_swiglu", shares_of(chunks(op->n), gpu_rows(r, op)), 0, out, err);
}

ie_status gpu_launch_rows(const gpu_run *r, const ie_op *op, gpu_launches *out, ie_error *err) {
    uint32_t n = gpu_rows(r, op);
    ie_abi_gather a = {.x = gpu_at(r, op->src, op->src_at), .y = gpu_at(r, op->dst, op->dst_at), .batch = r->batch, .n = op->n,
                       .x_ld = op->src_ld, .y_ld = op->dst_ld};
    return n ? gpu_add(out, "ie_gather", (op->n + LANES - 1u) / LANES, n, LANES, &a, sizeof a, err) : IE_OK;
}
