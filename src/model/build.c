/* From an architecture's description to an op list with arena offsets: buffers are numbered while ops are added, their live
 * ranges follow from the ops that name them, and the planner places them. */
#include <stdlib.h>
#include <string.h>

#include "model.h"

typedef struct {
    uint64_t bytes;
    uint32_t first, last; /* ops that use it */
    bool used;
} buffer;

struct ie_builder {
    uint32_t max_t;
    buffer *buf;
    uint32_t n_buf;
    size_t cap_buf;
    ie_oplist list;
    ie_off hidden_in, hidden_out;
    bool states; /* the list ends with the head's normed rows (f32) instead of logits */
    ie_error err; /* a failed allocation of a buffer, reported by the next op */
};

static ie_off add_buffer(ie_builder *b, uint64_t bytes) {
    if (!ie_grow(&b->buf, &b->cap_buf, b->n_buf + 1, sizeof *b->buf, "op list", &b->err)) return IE_NO_OFF;
    b->buf[b->n_buf] = (buffer){.bytes = bytes};
    return b->n_buf++;
}

static uint32_t rows_of(const ie_builder *b, bool of_rows) { return of_rows ? IE_HEAD_ROWS : b->max_t; }

ie_off ie_build_f32(ie_builder *b, uint32_t floats, bool of_rows) {
    /* 32 floats more than asked: float matrices read a row's padding up to a whole block (masked, never used). */
    return add_buffer(b, ((uint64_t)rows_of(b, of_rows) * floats + IE_BLOCK) * sizeof(float));
}

ie_off ie_build_q8(ie_builder *b, uint32_t k, bool of_rows) {
    uint32_t one = ie_q8_blocks(1, ie_nblk(k)), all = ie_q8_blocks(rows_of(b, of_rows), ie_nblk(k));
    return add_buffer(b, (uint64_t)(one > all ? one : all) * IE_Q8_WORDS * 4);
}

static void touch(ie_builder *b, ie_off i) {
    if (i == IE_NO_OFF) return;
    buffer *f = &b->buf[i];
    if (!f->used) f->first = b->list.n;
    f->used = true;
    f->last = b->list.n;
}

void ie_build_keep(ie_builder *b, ie_off i) { touch(b, i); }

ie_status ie_build_op(ie_builder *b, const ie_op *op, ie_error *err) {
    if (b->err.code) {
        *err = b->err;
        return err->code;
    }
    touch(b, op->src);
    touch(b, op->dst);
    touch(b, op->q8);
    touch(b, op->res);
    return ie_oplist_add(&b->list, op, err);
}

void ie_build_hidden(ie_builder *b, ie_off in, ie_off out) {
    b->hidden_in = in;
    b->hidden_out = out;
}

bool ie_build_states(const ie_builder *b) { return b->states; }

static void place(ie_off *operand, const ie_plan_buf *plan) {
    if (*operand != IE_NO_OFF) *operand = plan[*operand].off;
}

static ie_status place_all(ie_builder *b, ie_exec_plan *out, ie_error *err) {
    ie_plan_buf *plan = ie_calloc(b->n_buf, sizeof *plan, "plan", err);
    if (!plan) return err->code;
    uint32_t last = b->list.n - 1, head = 0;
    while (head < last && b->list.ops[head].kind != OP_ROWS) head++;
    /* The head may run several times after one body: what it reads from the body lives to the end. */
    ie_off hidden = b->list.ops[head].src;
    for (uint32_t i = 0; i < b->n_buf; i++)
        plan[i] = (ie_plan_buf){.bytes = b->buf[i].bytes, .first = i == b->hidden_in ? 0 : b->buf[i].first,
                                .last = i == hidden || i == b->hidden_out ? last : b->buf[i].last};
    ie_status st = ie_plan(plan, b->n_buf, &out->arena_bytes, err);
    for (uint32_t i = 0; i < b->list.n && !st; i++) {
        ie_op *op = &b->list.ops[i];
        place(&op->src, plan);
        place(&op->dst, plan);
        place(&op->q8, plan);
        place(&op->res, plan);
    }
    out->hidden_in = b->hidden_in;
    out->hidden_out = b->hidden_out;
    place(&out->hidden_in, plan);
    place(&out->hidden_out, plan);
    free(plan);
    out->head_at = head;
    out->logits = b->list.ops[last].dst;
    return st;
}

static ie_status plan_list(const ie_model *m, ie_status (*build)(const ie_model *, ie_builder *, ie_error *), const char *name,
                           uint32_t max_t, bool states, ie_exec_plan *out, ie_error *err) {
    ie_builder b = {.max_t = max_t, .list.name = name, .states = states, .hidden_in = IE_NO_OFF, .hidden_out = IE_NO_OFF};
    *out = (ie_exec_plan){0};
    ie_status st = build(m, &b, err);
    if (!st) st = place_all(&b, out, err);
    free(b.buf);
    if (st) ie_oplist_free(&b.list);
    else out->list = b.list;
    return st;
}

ie_status ie_model_plan(const ie_model *m, uint32_t max_t, ie_exec_plan *out, ie_error *err) {
    return plan_list(m, m->arch->build, "main", max_t, false, out, err);
}

ie_status ie_model_plan_states(const ie_model *m, uint32_t max_t, ie_exec_plan *out, ie_error *err) {
    return plan_list(m, m->arch->build, "states", max_t, true, out, err);
}

ie_status ie_model_plan_mtp(const ie_model *m, uint32_t max_t, ie_exec_plan *out, ie_error *err) {
    *out = (ie_exec_plan){0};
    if (!m->mtp) return ie_fail(err, IE_E_ARG, "the model was opened without its MTP layer");
    return plan_list(m, m->arch->build_mtp, "mtp", max_t, false, out, err);
}

void ie_exec_plan_free(ie_exec_plan *p) {
    ie_oplist_free(&p->list);
    *p = (ie_exec_plan){0};
}
