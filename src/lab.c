#include "lab.h"

#include <stdlib.h>
#include <string.h>

ie_status ie_lab_open(ie_lab *l, ie_model *m, uint32_t n_seq, uint32_t n_ctx, ie_error *err) {
    *l = (ie_lab){.m = m, .n_seq = n_seq, .n_ctx = n_ctx, .pages = ie_page_of(n_ctx + IE_PAGE - 1u)};
    uint32_t n = n_seq * l->pages, rows = l->pages * IE_PAGE;
    ie_status st = ie_model_plan(m, IE_DECODE_T, &l->plan, err);
    if (st) return st;
    l->table = ie_calloc(n, sizeof *l->table, "page table", err);
    l->rope = ie_calloc((size_t)rows * m->hp.rope.dim, sizeof *l->rope, "rope table", err);
    if (!l->table || !l->rope) return IE_E_NOMEM;
    for (uint32_t i = 0; i < n; i++) l->table[i] = i;
    ie_rope_fill(&m->hp.rope, 0, rows, l->rope);
    ie_state_desc d = {.arena_bytes = l->plan.arena_bytes, .kv = m->kv, .gdn = m->gdn, .n_pages = n, .n_seq = n_seq, .max_t = IE_DECODE_T,
                       .pages_per_seq = l->pages, .rope_half = m->hp.rope.dim / 2, .rope = l->rope, .rope_rows = rows};
    return m->be->api->state_new(m->be, &d, &l->st, err);
}

void ie_lab_close(ie_lab *l) {
    if (l->st) l->m->be->api->state_free(l->m->be, l->st);
    ie_exec_plan_free(&l->plan);
    free(l->table);
    free(l->rope);
    *l = (ie_lab){0};
}

void ie_lab_batch_make(const ie_lab *l, ie_lab_batch *b, const int32_t *token, uint32_t n_seq, uint32_t n, uint32_t pos) {
    for (uint32_t i = 0; i < n_seq * n; i++) {
        b->token[i] = token[i];
        b->seq[i] = (int32_t)(i / n);
        b->pos[i] = (int32_t)(pos + i % n);
        b->out[i] = i;
    }
    b->step = (ie_step){.phase = IE_DECODE, .n = n_seq * n, .n_out = n_seq * n, .token = b->token, .seq = b->seq, .pos = b->pos, .out = b->out,
                        .page_table = l->table, .rope_n = l->pages * IE_PAGE};
}

ie_status ie_lab_run(ie_lab *l, const ie_lab_batch *b, uint32_t first, uint32_t last, ie_error *err) {
    return l->m->be->api->run(l->m->be, l->st, &l->m->w, &l->plan.list, first, last, &b->step, err);
}

ie_status ie_lab_read(ie_lab *l, const ie_operand *o, uint8_t *out, ie_error *err) {
    ie_status st = IE_OK;
    for (uint32_t r = 0; r < o->rows && !st; r++) st = l->m->be->api->read(l->m->be, l->st, o->begin + r * o->ld, out + r * o->n, o->n, err);
    return st;
}
