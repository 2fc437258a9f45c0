/* --stop-after OP: the prompt in steps of up to 16 tokens in the decode order; the last step stops after one op, whose results are
 * printed: f32 rows as numbers, Q8 blocks as their factor and 32 integers. For finding the op that goes wrong. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../lab.h"
#include "app.h"

static void print_floats(const uint8_t *row, uint64_t n) {
    for (uint64_t i = 0; i < n / 4u; i++) {
        float x;
        memcpy(&x, row + i * 4u, 4);
        printf(" %.9g", (double)x);
    }
    putchar('\n');
}

static void print_q8(const uint8_t *buf, uint64_t bytes, uint32_t rows) {
    uint32_t group = ie_q8_group(rows), nblk = (uint32_t)(bytes / (4u * IE_Q8_WORDS) / ((rows + group - 1u) / group * group));
    for (uint32_t t = 0; t < rows; t++) {
        printf("q8 %u:", t);
        for (uint32_t b = 0; b < nblk; b++) {
            const uint8_t *at = buf + (uint64_t)ie_q8_at(t, b, nblk, group) * IE_Q8_WORDS * 4u;
            float d;
            memcpy(&d, at + IE_Q8_D * 4u, 4);
            printf(" %.9g *", (double)d);
            for (uint32_t i = 0; i < IE_BLOCK; i++) printf(" %d", (int8_t)at[i]);
        }
        putchar('\n');
    }
}

static ie_status print_results(ie_lab *l, const ie_lab_batch *b, uint32_t i, ie_error *err) {
    const ie_op *op = &l->plan.list.ops[i];
    uint32_t rows = op->of_rows ? b->step.n_out : b->step.n;
    ie_operand o[IE_OPERANDS];
    uint32_t n = ie_op_operands(op, &l->m->w, b->step.n, rows, o);
    printf("op %u of %u: %s, layer %d, %u rows\n", i, l->plan.list.n, ie_op_table[op->kind].name, op->layer, rows);
    for (uint32_t k = 0; k < n; k++) {
        if (!o[k].write || !o[k].rows) continue;
        uint8_t *buf = ie_calloc(o[k].rows, (size_t)o[k].n, "operand", err);
        ie_status st = buf ? ie_lab_read(l, &o[k], buf, err) : IE_E_NOMEM;
        bool q8 = op->q8 != IE_NO_OFF && k + 1u == n;
        if (!st && q8) print_q8(buf, o[k].n, rows);
        for (uint32_t r = 0; r < o[k].rows && !st && !q8; r++) {
            printf("f32 %u:", r);
            print_floats(buf + r * o[k].n, o[k].n);
        }
        free(buf);
        if (st) return st;
    }
    return IE_OK;
}

static ie_status walk(ie_lab *l, const int32_t *ids, uint32_t n, uint32_t stop, ie_error *err) {
    if (stop >= l->plan.list.n)
        return ie_fail(err, IE_E_ARG, "option --stop-after is %u, the model's list has ops 0 to %u", stop, l->plan.list.n - 1u);
    ie_status st = IE_OK;
    for (uint32_t pos = 0, t; pos < n && !st; pos += t) {
        ie_lab_batch b;
        t = n - pos < IE_DECODE_T ? n - pos : IE_DECODE_T;
        bool last = pos + t == n;
        ie_lab_batch_make(l, &b, ids + pos, 1, t, pos);
        st = ie_lab_run(l, &b, 0, last ? stop + 1u : l->plan.head_at, err);
        if (!st && last) st = print_results(l, &b, stop, err);
    }
    return st;
}

ie_status app_stop_after(ie_model *m, const ie_run_opts *o, ie_error *err) {
    int32_t *ids = NULL;
    size_t n = 0;
    ie_lab l = {0};
    ie_status st = app_prompt_ids(m, o, true, &ids, &n, err);
    if (!st && (n < 1 || n > m->hp.n_ctx_train)) st = ie_fail(err, IE_E_ARG, "a prompt of %zu tokens, allowed are 1 to %u", n, m->hp.n_ctx_train);
    for (size_t i = 0; i < n && !st; i++)
        if ((uint32_t)ids[i] >= m->hp.n_vocab) st = ie_fail(err, IE_E_ARG, "token %d is not in the vocabulary of %u", ids[i], m->hp.n_vocab);
    if (!st) st = ie_lab_open(&l, m, 1, (uint32_t)n, err);
    if (!st) st = walk(&l, ids, (uint32_t)n, (uint32_t)o->stop_after, err);
    if (l.m) ie_lab_close(&l);
    free(ids);
    return st;
}
