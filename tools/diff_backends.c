/* diff_backends MODEL A B [-n TOKENS] [-s SEQUENCES] [-t TOKENS_A_BATCH] [-l GPU_LAYERS] [-a]: runs a model on two backends side by
 * side, op by op, in the decode order, and names the first op and element whose bits differ. -a goes on to the end of the batch and
 * lists all ops that differ. Tokens are pseudo-random, the same for both. -l: of backend B (--gpu-layers).
 *
 * Exit status: 0 equal, 1 different, 2 failed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lab.h"

#define SIDES 2

typedef struct {
    const char *name[SIDES];
    ie_model *m[SIDES];
    ie_lab lab[SIDES];
    uint8_t *buf[SIDES];
    size_t cap[SIDES];
    uint32_t n, seqs, t, layers;
    bool all;
    uint64_t compared; /* ops */
    uint32_t different;
} job;

static void name_element(const job *j, uint32_t i, const ie_operand *o, uint64_t at, uint32_t pos) {
    const ie_op *op = &j->lab[0].plan.list.ops[i];
    uint64_t row = at / o->n, col = at % o->n / 4u;
    uint32_t a, b;
    float x, y;
    memcpy(&a, j->buf[0] + at / 4u * 4u, 4);
    memcpy(&b, j->buf[1] + at / 4u * 4u, 4);
    memcpy(&x, &a, 4);
    memcpy(&y, &b, 4);
    printf("op %u (%s, layer %d), batch from position %u, row %llu, word %llu of %llu: %s %08x (%.9g), %s %08x (%.9g)\n", i, ie_op_table[op->kind].name,
           op->layer, pos, (unsigned long long)row, (unsigned long long)col, (unsigned long long)o->n / 4u, j->name[0], a, (double)x, j->name[1], b,
           (double)y);
}

/* A Q8 operand is whole groups of 16 tokens: what lies in the places of tokens that the batch has not is of no meaning. */
static void blank(uint8_t *buf, uint64_t bytes, uint32_t rows) {
    uint32_t group = ie_q8_group(rows), nblk = (uint32_t)(bytes / (4u * IE_Q8_WORDS) / ((rows + group - 1u) / group * group));
    for (uint32_t t = rows; t % group; t++)
        for (uint32_t b = 0; b < nblk; b++) memset(buf + (uint64_t)ie_q8_at(t, b, nblk, group) * IE_Q8_WORDS * 4u, 0, IE_Q8_WORDS * 4u);
}

static ie_status compare(job *j, uint32_t i, const ie_lab_batch *b, ie_error *err) {
    const ie_op *op = &j->lab[0].plan.list.ops[i];
    ie_operand o[IE_OPERANDS];
    uint32_t n = ie_op_operands(op, &j->m[0]->w, b->step.n, op->of_rows ? b->step.n_out : b->step.n, o);
    for (uint32_t k = 0; k < n; k++) {
        if (!o[k].write || (op->kind == OP_GDN && k == 0)) continue; /* the recurrence may leave anything in v's place */
        uint64_t bytes = o[k].rows * o[k].n;
        for (int s = 0; s < SIDES; s++) {
            if (!ie_grow(&j->buf[s], &j->cap[s], (size_t)bytes, 1, "operand", err)) return IE_E_NOMEM;
            ie_status st = ie_lab_read(&j->lab[s], &o[k], j->buf[s], err);
            if (st) return st;
            if (op->q8 != IE_NO_OFF && k + 1u == n) blank(j->buf[s], bytes, op->of_rows ? b->step.n_out : b->step.n);
        }
        if (memcmp(j->buf[0], j->buf[1], (size_t)bytes) == 0) continue;
        uint64_t at = 0;
        while (j->buf[0][at] == j->buf[1][at]) at++;
        name_element(j, i, &o[k], at, (uint32_t)b->pos[0]);
        j->different++;
        return IE_OK;
    }
    return IE_OK;
}

static ie_status run_batch(job *j, const ie_lab_batch *b, ie_error *err) {
    ie_status st = IE_OK;
    for (uint32_t i = 0; i < j->lab[0].plan.list.n && !st && (j->all || !j->different); i++) {
        for (int s = 0; s < SIDES && !st; s++) st = ie_lab_run(&j->lab[s], b, i, i + 1, err);
        if (!st) st = compare(j, i, b, err);
        j->compared++;
    }
    return st;
}

static ie_status run_all(job *j, ie_error *err) {
    ie_status st = IE_OK;
    for (int s = 0; s < SIDES && !st; s++) st = ie_lab_open(&j->lab[s], j->m[s], j->seqs, j->n, err);
    uint32_t rng = 7, vocab = st ? 1u : j->m[0]->hp.n_vocab;
    for (uint32_t pos = 0, n; pos < j->n && !st && !j->different; pos += n) {
        int32_t token[IE_DECODE_T];
        ie_lab_batch b;
        n = j->n - pos < j->t ? j->n - pos : j->t;
        for (uint32_t i = 0; i < n * j->seqs; i++) rng = rng * 1664525u + 1013904223u, token[i] = (int32_t)((rng >> 8) % vocab);
        ie_lab_batch_make(&j->lab[0], &b, token, j->seqs, n, pos);
        st = run_batch(j, &b, err);
    }
    return st;
}

static uint32_t number(const char *s, uint32_t lo, uint32_t hi) {
    char *end;
    unsigned long v = strtoul(s, &end, 10);
    return *end || v < lo || v > hi ? 0 : (uint32_t)v;
}

int main(int argc, char **argv) {
    job j = {.n = 40, .seqs = 1, .t = 1};
    bool ok = true;
    for (int c; (c = getopt(argc, argv, "n:s:t:l:a")) != -1;) {
        if (c == 'n') ok = ok && (j.n = number(optarg, 1, 100000));
        else if (c == 's') ok = ok && (j.seqs = number(optarg, 1, IE_DECODE_T));
        else if (c == 't') ok = ok && (j.t = number(optarg, 1, IE_DECODE_T));
        else if (c == 'l') ok = ok && (j.layers = number(optarg, 1, 1024));
        else if (c == 'a') j.all = true;
        else ok = false;
    }
    if (!ok || argc - optind != 3 || j.seqs * j.t > IE_DECODE_T) {
        fprintf(stderr, "usage: diff_backends [-n TOKENS] [-s SEQUENCES] [-t TOKENS_A_BATCH] [-l GPU_LAYERS] [-a] MODEL A B   (at most %u tokens a step)\n",
                IE_DECODE_T);
        return 2;
    }
    setenv("IE_PREFILL", "decode", 1);
    ie_error err = {0};
    for (int s = 0; s < SIDES; s++) {
        j.name[s] = argv[optind + 1 + s];
        ie_model_params p = {.backend = j.name[s], .gpu_layers = s ? (int)j.layers : 0};
        j.m[s] = s && !j.m[0] ? NULL : ie_model_open(argv[optind], &p, &err);
    }
    ie_status st = j.m[1] ? run_all(&j, &err) : err.code;
    if (st) fprintf(stderr, "diff_backends: %s\n", err.msg);
    else if (!j.different) printf("equal: %llu ops, %u tokens of %u sequences\n", (unsigned long long)j.compared, j.n, j.seqs);
    for (int s = 0; s < SIDES; s++) {
        if (j.lab[s].m) ie_lab_close(&j.lab[s]);
        ie_model_close(j.m[s]);
        free(j.buf[s]);
    }
    return st ? 2 : j.different != 0;
}
