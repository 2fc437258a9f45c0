/* IE_TRACE=FILE: every launch, in order, one line each. No events: times do not change. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../env.h"
#include "backend.h"

struct gpu_trace {
    FILE *f;
    uint64_t runs;
};

gpu_trace *gpu_trace_new(const char *path, ie_error *err) {
    gpu_trace *t = ie_calloc(1, sizeof *t, "trace", err);
    if (!t) return NULL;
    t->f = fopen(path, "we");
    if (!t->f) {
        ie_fail(err, IE_E_ARG, "IE_TRACE=%.300s: %s", path, strerror(errno));
        free(t);
        return NULL;
    }
    fputs("run,list,phase,tokens,position,op,kind,layer,kernel,workgroups,lanes,weight_bytes\n", t->f);
    return t;
}

ie_status gpu_trace_check(gpu_trace *t, ie_error *err) {
    if (!t || (!fflush(t->f) && !ferror(t->f))) return IE_OK;
    return ie_fail(err, IE_E_IO, "IE_TRACE=%.300s: the file could not be written whole", ie_env_text(IE_ENV_TRACE));
}

void gpu_trace_free(gpu_trace *t) {
    if (!t) return;
    fclose(t->f);
    free(t);
}

void gpu_trace_sample(gpu_trace *t, const gpu_launches *l) {
    for (size_t i = 0; i < l->n; i++) {
        const gpu_launch *k = &l->v[i];
        fprintf(t->f, "%llu,sample,sample,1,-1,-1,sample,-1,%s,%llu,%u,0\n", (unsigned long long)t->runs, k->kernel,
                (unsigned long long)k->grid[0] * k->grid[1] * k->grid[2], k->block);
    }
}

static uint64_t weight_bytes(const ie_run *r, const ie_op *op) {
    uint32_t rows = ie_run_rows(r, op);
    return rows ? ie_op_table[op->kind].cost(op, r->w, rows, 0).weight_bytes : 0;
}

void gpu_trace_run(gpu_trace *t, const ie_run *r, const gpu_launches *l) {
    t->runs++;
    for (size_t i = 0; i < l->n; i++) {
        const gpu_launch *k = &l->v[i];
        const ie_op *op = &r->list->ops[k->op];
        /* An op's weights count for its first launch, which may do ops behind it, too. */
        uint32_t from = i == 0 || l->v[i - 1].op != k->op ? k->op : r->last, to = from;
        while (to < r->last && (i + 1u == l->n || to < l->v[i + 1u].op || to == from)) to++;
        uint64_t bytes = 0;
        for (uint32_t o = from; o < to; o++) bytes += weight_bytes(r, &r->list->ops[o]);
        fprintf(t->f, "%llu,%s,%s,%u,%d,%u,%s,%d,%s,%llu,%u,%llu\n", (unsigned long long)t->runs, r->list->name ? r->list->name : "",
                r->step->phase == IE_PREFILL ? "prefill" : "decode", r->step->n, r->step->pos ? r->step->pos[0] : 0, k->op,
                ie_op_table[op->kind].name, op->layer, k->kernel, (unsigned long long)k->grid[0] * k->grid[1] * k->grid[2], k->block,
                (unsigned long long)bytes);
    }
}
