/* Lists op by op, for tools: a model on its backend with sequences that grow batch by batch in the decode order. */
#ifndef IE_LAB_H
#define IE_LAB_H

#include "model/model.h"

typedef struct {
    ie_model *m; /* the caller's */
    ie_state *st;
    ie_exec_plan plan;
    uint32_t n_seq, n_ctx, pages;
    uint32_t *table; /* sequence s has pages s * pages .. */
    float *rope;
} ie_lab;

/* n_seq sequences of up to n_ctx positions, batches of up to IE_DECODE_T tokens. Close also after a failure. */
ie_status ie_lab_open(ie_lab *l, ie_model *m, uint32_t n_seq, uint32_t n_ctx, ie_error *err);
void ie_lab_close(ie_lab *l);

/* A batch of n tokens of each of the first n_seq sequences from position pos on: token[s * n + i]. All rows are outputs. */
typedef struct {
    int32_t token[IE_DECODE_T], seq[IE_DECODE_T], pos[IE_DECODE_T];
    uint32_t out[IE_DECODE_T];
    ie_step step;
} ie_lab_batch;
void ie_lab_batch_make(const ie_lab *l, ie_lab_batch *b, const int32_t *token, uint32_t n_seq, uint32_t n, uint32_t pos);

ie_status ie_lab_run(ie_lab *l, const ie_lab_batch *b, uint32_t first, uint32_t last, ie_error *err);
/* An operand's rows, one after the other, o->n bytes each, to out (rows * n bytes). */
ie_status ie_lab_read(ie_lab *l, const ie_operand *o, uint8_t *out, ie_error *err);

#endif
