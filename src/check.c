/* Checks the arguments of a step, so that ops need no checks of their own. Op lists are the engine's own work; batches and
 * page tables come from callers. */
#include "step.h"

static ie_status op_fail(const ie_run *r, uint32_t i, ie_error *err, const char *what) {
    return ie_fail(err, IE_E_ARG, "op %u (%s, layer %d) of list '%s': %s", i, ie_op_table[r->list->ops[i].kind].name,
                   r->list->ops[i].layer, r->list->name ? r->list->name : "", what);
}

/* ---- the batch ----------------------------------------------------------------------------------------------------- */

/* All pages that a token at pos of sequence seq may read. window: the widest of the list's ops, 0 = none. */
static ie_status check_pages(const ie_run *r, uint32_t seq, uint32_t pos, uint32_t window, ie_error *err) {
    const uint32_t *table = r->step->page_table + ie_table_at(seq, 0, r->d->pages_per_seq);
    for (uint32_t p = ie_page_of(ie_att_first(pos, window)); p <= ie_page_of(pos); p++)
        if (table[p] >= r->d->n_pages)
            return ie_fail(err, IE_E_ARG, "sequence %u: page %u is number %u, the pool has %u", seq, p, table[p], r->d->n_pages);
    return IE_OK;
}

/* Positions that a page table has room for; they are numbers of 31 bits. */
static uint32_t room_of(const ie_state_desc *d) {
    return ie_mul_ok(d->pages_per_seq, IE_PAGE, INT32_MAX) ? d->pages_per_seq * IE_PAGE : (uint32_t)INT32_MAX + 1u;
}

/* Why ie_batch_ok refuses a batch. */
static ie_status bad_batch(const ie_step *s, uint32_t n_seq, uint32_t room, ie_error *err) {
    for (uint32_t t = 0; t < s->n; t++) {
        if (s->seq[t] < 0 || (uint32_t)s->seq[t] >= n_seq)
            return ie_fail(err, IE_E_ARG, "batch token %u: sequence %d, must be 0..%u", t, s->seq[t], n_seq - 1u);
        if (s->pos[t] < 0 || (uint32_t)s->pos[t] >= room)
            return ie_fail(err, IE_E_ARG, "batch token %u: position %d, must be 0..%u", t, s->pos[t], room - 1u);
        bool more = t > 0 && s->seq[t] == s->seq[t - 1];
        if (more && s->pos[t] != s->pos[t - 1] + 1)
            return ie_fail(err, IE_E_ARG, "batch token %u: position %d after %d of the same sequence", t, s->pos[t], s->pos[t - 1]);
        for (uint32_t i = 0; i < t && !more; i++)
            if (s->seq[i] == s->seq[t])
                return ie_fail(err, IE_E_ARG, "batch token %u: sequence %d again, whose tokens must be next to each other", t, s->seq[t]);
    }
    return ie_fail(err, IE_E_ARG, "batch: %u tokens, must be 1..%u", s->n, IE_MAX_T);
}

static ie_status check_positions(const ie_run *r, bool rope, uint32_t window, ie_error *err) {
    const ie_step *s = r->step;
    const ie_state_desc *d = r->d;
    uint32_t room = room_of(d);
    /* numbers below zero are beyond every limit as unsigned ones */
    if (!ie_batch_ok((const uint32_t *)s->seq, (const uint32_t *)s->pos, s->n, d->n_seq, room)) return bad_batch(s, d->n_seq, room, err);
    for (uint32_t t = 0; t < s->n; t++) {
        if (rope && (uint32_t)s->pos[t] >= s->rope_n)
            return ie_fail(err, IE_E_ARG, "batch token %u: position %d, RoPE rows reach %u", t, s->pos[t], s->rope_n);
        bool more = t + 1 < s->n && s->seq[t + 1] == s->seq[t];
        ie_status st = more ? IE_OK : check_pages(r, (uint32_t)s->seq[t], (uint32_t)s->pos[t], window, err);
        if (st) return st;
    }
    return IE_OK;
}

/* With a window the first token of a sequence in the batch reaches furthest back. */
static ie_status check_first_pages(const ie_run *r, uint32_t window, ie_error *err) {
    const ie_step *s = r->step;
    ie_status st = IE_OK;
    for (uint32_t t = 0; window && t < s->n && !st; t++)
        if (t == 0 || s->seq[t] != s->seq[t - 1]) st = check_pages(r, (uint32_t)s->seq[t], (uint32_t)s->pos[t], window, err);
    return st;
}

static ie_status check_batch(const ie_run *r, ie_error *err) {
    const ie_step *s = r->step;
    if (s->n < 1 || s->n > r->d->max_t) return ie_fail(err, IE_E_ARG, "batch: %u tokens, must be 1..%u", s->n, r->d->max_t);
    bool rope = false, attn = false, kv = false;
    uint32_t window = 0;
    for (uint32_t i = r->first; i < r->last; i++) {
        const ie_op *op = &r->list->ops[i];
        kv |= op->kind == OP_ROPE_KV || op->kind == OP_ATTN || op->kind == OP_CONV || op->kind == OP_GDN;
        rope |= op->kind == OP_ROPE_KV && op->rope_dim;
        if (op->kind == OP_ATTN) {
            window = attn && (!window || !op->window) ? 0 : op->window > window ? op->window : window;
            attn = true;
        }
        if (op->kind == OP_EMBED)
            for (uint32_t t = 0; t < s->n; t++)
                if (s->token[t] < 0 || (uint32_t)s->token[t] >= r->w->mat[op->mat].rows)
                    return ie_fail(err, IE_E_ARG, "batch token %u: id %d, must be 0..%u", t, s->token[t], r->w->mat[op->mat].rows - 1u);
    }
    for (uint32_t j = 0; j < s->n_out; j++)
        if (s->out[j] >= s->n) return ie_fail(err, IE_E_ARG, "output %u: batch token %u, must be 0..%u", j, s->out[j], s->n - 1u);
    ie_status st = kv ? check_positions(r, rope, window, err) : IE_OK;
    return st || !kv ? st : check_first_pages(r, window, err);
}

/* ---- ops ----------------------------------------------------------------------------------------------------------- */

static bool vec_ok(const ie_run *r, int32_t vec, uint32_t n, bool optional) {
    if (vec == IE_NO_W) return optional;
    return vec >= 0 && (uint32_t)vec < r->w->n_vec && r->w->vec[vec].n >= n &&
           r->w->vec[vec].off + (uint64_t)n * 4u <= r->w->bytes;
}

static bool mat_ok(const ie_run *r, int32_t mat) {
    return mat >= 0 && (uint32_t)mat < r->w->n_mat &&
           r->w->mat[mat].off + r->w->mat[mat].bytes <= r->w->bytes;
}

/* What is wrong with an op, or NULL. */
static const char *op_wrong(const ie_run *r, const ie_op *op) {
    const ie_state_desc *d = r->d;
    bool src = op->src != IE_NO_OFF, out = op->dst != IE_NO_OFF || op->q8 != IE_NO_OFF;
    switch (op->kind) {
    case OP_EMBED: return !mat_ok(r, op->mat) || r->w->mat[op->mat].cols != op->n || op->dst == IE_NO_OFF ? "bad matrix or output" : NULL;
    case OP_RMSNORM: return !vec_ok(r, op->vec, op->n, false) || !src || !out || op->src_q8 ? "bad vector, input or output" : NULL;
    case OP_QUANT: return !src || op->src_q8 || op->q8 == IE_NO_OFF || op->dst != IE_NO_OFF ? "bad input or output" : NULL;
    case OP_SWIGLU: return !src || !out || op->src_q8 ? "bad input or output" : NULL;
    case OP_ROWS: return !src || op->src_q8 || op->dst == IE_NO_OFF || op->q8 != IE_NO_OFF ? "bad input or output" : NULL;
    case OP_MATMUL:
        if (!mat_ok(r, op->mat) || !src || op->dst == IE_NO_OFF) return "bad matrix, input or output";
        if (!vec_ok(r, op->vec, r->w->mat[op->mat].rows, true)) return "bad bias";
        return op->src_q8 && r->w->mat[op->mat].fmt->dot == IE_FLOAT ? "input does not suit the matrix's format" : NULL;
    case OP_ROPE_KV:
    case OP_ATTN:
        if (!src || op->src_q8 || !op->n_kv || !op->n_head || op->n_head % op->n_kv) return "bad input or heads";
        if (op->n_kv != d->kv.n_kv || op->hd != d->kv.hd) return "heads differ from those of the KV pages";
        if (op->kv_layer < 0 || (uint32_t)op->kv_layer >= d->kv.n_layer) return "no such KV layer";
        if (op->kind == OP_ATTN)
            return !out || (op->q8 != IE_NO_OFF && (op->hd % IE_BLOCK || op->hd > 256u)) ? "bad output" : NULL;
        if (op->rope_dim % 2u || op->rope_dim > op->hd || (op->rope_dim && (op->rope_dim / 2u != d->rope_half || !d->rope)))
            return "bad RoPE dimension";
        return vec_ok(r, op->vec, op->hd, true) && vec_ok(r, op->vec2, op->hd, true) ? NULL : "bad norm vector";
    case OP_CONV:
    case OP_GDN:
        if (!src || op->src_q8 || op->n_head != d->gdn.n_v || op->n_kv != d->gdn.n_k || op->hd != d->gdn.hd) return "bad input or heads";
        if (op->kv_layer < 0 || (uint32_t)op->kv_layer >= d->gdn.n_layer) return "no such recurrent layer";
        if (op->kind == OP_GDN) return !out || !vec_ok(r, op->vec, op->hd, false) ? "bad output or norm vector" : NULL;
        return vec_ok(r, op->vec, (uint32_t)ie_op_channels(op) * IE_GDN_TAPS, false) && vec_ok(r, op->vec2, 2u * op->n_head, false)
                   ? NULL : "bad taps or gates";
    case OP_KINDS: break;
    }
    return "no such kind";
}

ie_status ie_run_check(const ie_run *r, ie_error *err) {
    if (r->first > r->last || r->last > r->list->n)
        return ie_fail(err, IE_E_ARG, "ops %u..%u of a list of %u", r->first, r->last, r->list->n);
    for (uint32_t i = r->first; i < r->last; i++) {
        const ie_op *op = &r->list->ops[i];
        if (op->kind < 0 || op->kind >= OP_KINDS) return ie_fail(err, IE_E_ARG, "op %u: no such kind", i);
        const char *wrong = op_wrong(r, op);
        if (wrong) return op_fail(r, i, err, wrong);
        ie_operand o[IE_OPERANDS];
        uint32_t n = ie_op_operands(op, r->w, r->step->n, ie_run_rows(r, op), o);
        for (uint32_t k = 0; k < n; k++)
            if (o[k].rows && o[k].begin + (o[k].rows - 1u) * o[k].ld + o[k].n > r->d->arena_bytes)
                return op_fail(r, i, err, "an operand lies outside the arena");
    }
    return check_batch(r, err);
}
