/* From ops to launches: the families' functions, gathered. */
#include <stdlib.h>
#include <string.h>

#include "gpu.h"

const gpu_launch_fn gpu_launch_table[OP_KINDS] = {
    [OP_EMBED] = gpu_launch_embed,     [OP_RMSNORM] = gpu_launch_rmsnorm, [OP_QUANT] = gpu_launch_quant,
    [OP_MATMUL] = gpu_launch_matmul,   [OP_ROPE_KV] = gpu_launch_rope_kv, [OP_ATTN] = gpu_launch_attn,
    [OP_SWIGLU] = gpu_launch_swiglu,   [OP_CONV] = gpu_launch_conv,       [OP_GDN] = gpu_launch_gdn,
    [OP_ROWS] = gpu_launch_rows,
};

bool gpu_writes_over(const gpu_run *r, const ie_op *later, const ie_op *earlier) {
    ie_operand x[IE_OPERANDS], y[IE_OPERANDS];
    uint32_t n = ie_op_operands(later, r->w, r->step->n, gpu_rows(r, later), x), m = ie_op_operands(earlier, r->w, r->step->n, gpu_rows(r, earlier), y);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < m; k++)
            if (x[i].write && (later != earlier || !y[k].write) && ie_operands_meet(&x[i], &y[k])) return true;
    return false;
}

uint32_t gpu_launch_ops(gpu_run *r, const ie_oplist *l, uint32_t i, uint32_t last) {
    r->lead = i + 1u < last && (gpu_lead_fits(r, &l->ops[i], &l->ops[i + 1u]) || gpu_rope_fits(r, &l->ops[i], &l->ops[i + 1u]));
    const ie_op *op = &l->ops[i + r->lead];
    r->norm = i + r->lead + 1u < last && gpu_norm_fits(r, op, op + 1) ? op + 1 : NULL;
    r->many = r->norm ? 1u : gpu_many_fit(r, op, last - i - r->lead);
    return r->lead + (r->norm ? 2u : r->many);
}

ie_status gpu_launch_list(gpu_run *r, const ie_oplist *l, uint32_t first, uint32_t last, gpu_launches *out, ie_error *err) {
    ie_status st = IE_OK;
    for (uint32_t i = first, n; i < last && !st; i += n) {
        size_t from = out->n;
        n = 1;
        if (!gpu_rows(r, &l->ops[i])) continue;
        n = gpu_launch_ops(r, l, i, last);
        r->op = i + r->lead;
        st = gpu_launch_table[l->ops[r->op].kind](r, &l->ops[r->op], out, err);
        for (size_t k = from; k < out->n; k++) out->v[k].op = r->op;
    }
    return st;
}

ie_status gpu_add(gpu_launches *l, const char *kernel, uint32_t gx, uint32_t gy, uint32_t block, const void *args, size_t size, ie_error *err) {
    if (size > GPU_ARGS_MAX) return ie_fail(err, IE_E_ARG, "kernel %s: %zu bytes of arguments, at most %u", kernel, size, GPU_ARGS_MAX);
    if (!ie_grow(&l->v, &l->cap, l->n + 1u, sizeof *l->v, "launches", err)) return IE_E_NOMEM;
    gpu_launch *v = &l->v[l->n++];
    *v = (gpu_launch){.kernel = kernel, .grid = {gx, gy, 1}, .block = block, .args_bytes = (uint32_t)size};
    memcpy(v->args, args, size);
    return IE_OK;
}
