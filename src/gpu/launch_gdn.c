/* Launches of recurrent layers (kernels/gdn.c). */
#include "gpu.h"

/* Workgroups for blocks of tokens: there are at most as many as tokens and as sequences; those without a block leave at once. */
static uint32_t blocks(const gpu_run *r) { return r->step->n < r->d->n_seq ? r->step->n : r->d->n_seq; }

static ie_abi_delta args(const gpu_run *r, const ie_op *op) {
    gpu_gdn_parts p = gpu_gdn_parts_of(r->d);
    uint64_t state = ie_gdn_state_floats(&r->d->gdn), log = ie_gdn_log_floats(&r->d->gdn);
    return (ie_abi_delta){
        .x = gpu_at(r, op->src, op->src_at),
        .state = r->gdn + p.states + 4u * state * (uint32_t)op->kv_layer,
        .log = r->gdn + p.logs + 4u * log * (uint32_t)op->kv_layer,
        .pending = r->gdn + p.pending,
        .step = r->gdn,
        .w = r->weights + r->w->vec[op->vec].off,
        .out = gpu_out(r, op, op->n_head * op->hd),
        .state_seq = r->d->gdn.n_layer * state,
        .log_seq = r->d->gdn.n_layer * log,
        .n_k_inv = ie_inv(op->n_kv),
        .x_ld = op->src_ld, .n_k = op->n_kv, .n_v = op->n_head, .hd = op->hd,
        .eps = op->eps, .scale = op->scale,
    };
}

ie_status gpu_launch_conv(const gpu_run *r, const ie_op *op, gpu_launches *out, ie_error *err) {
    ie_abi_delta a = args(r, op);
    a.gate = r->weights + r->w->vec[op->vec2].off;
    return gpu_add(out, "ie_conv", 2u * op->n_kv + op->n_head, blocks(r), 32, &a, sizeof a, err);
}

ie_status gpu_launch_gdn(const gpu_run *r, const ie_op *op, gpu_launches *out, ie_error *err) {
    ie_abi_delta a = args(r, op);
    if (op->hd == IE_GDN1_HD) return gpu_add(out, "ie_gdn1", op->n_head, blocks(r), IE_GDN1_HD, &a, sizeof a, err);
    ie_status st = gpu_add(out, "ie_gdn", op->n_head, blocks(r), 32, &a, sizeof a, err);
    if (!st) out->v[out->n - 1u].grid[2] = op->hd / 32u;
    return st ? st : gpu_add(out, "ie_gnorm", op->n_head, r->step->n, 32, &a, sizeof a, err);
}
