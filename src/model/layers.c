#include "layers.h"

#include <stdio.h>

/* ---- loading ------------------------------------------------------------------------------------------------------- */

ie_status ie_hp_u32(const ie_gguf *g, const char *prefix, const char *key, uint32_t max, uint32_t *out, ie_error *err) {
    char name[128];
    snprintf(name, sizeof name, "%s.%s", prefix, key);
    return ie_gguf_u32_req(g, name, 1, max, out, err);
}

ie_status ie_hp_opt_u32(const ie_gguf *g, const char *prefix, const char *key, uint32_t min, uint32_t max, uint32_t dflt,
                        uint32_t *out, ie_error *err) {
    char name[128];
    snprintf(name, sizeof name, "%s.%s", prefix, key);
    return ie_gguf_u32(g, name, min, max, dflt, out, err);
}

const char *ie_layer_name(char buf[IE_NAME_MAX], uint32_t i, const char *tail) {
    snprintf(buf, IE_NAME_MAX, "blk.%u.%s", i, tail);
    return buf;
}

ie_status ie_load_group(ie_loader *l, const ie_part *w, const ie_part *bias, uint32_t n, int32_t *out, int32_t *out_bias,
                        ie_error *err) {
    ie_status st = IE_OK;
    for (uint32_t i = 0; i < n; i++) {
        out[i] = IE_NO_W;
        if (bias) out_bias[i] = IE_NO_W;
    }
    for (uint32_t i = 0, run; i < n && !st; i += run) {
        for (run = 1; i + run < n && ie_load_same_type(l, w + i, run + 1);) run++;
        st = ie_load_mat(l, w + i, run, &out[i], err);
        if (!st && bias) st = ie_load_vec(l, bias + i, run, true, &out_bias[i], err);
    }
    return st;
}

ie_status ie_load_vocab_size(ie_model *m, ie_error *err) {
    const ie_gguf_tensor *t = ie_gguf_find_tensor(m->gguf, "token_embd.weight");
    if (!t) return ie_fail(err, IE_E_FORMAT, "tensor 'token_embd.weight' is missing from the file");
    if (t->ne[1] > (1u << 20))
        return ie_fail(err, IE_E_UNSUPPORTED, "tensor 'token_embd.weight' has %llu rows; vocabularies up to %u are supported",
                       (unsigned long long)t->ne[1], 1u << 20);
    m->hp.n_vocab = (uint32_t)t->ne[1];
    if (m->tok && ie_tokenizer_n_vocab(m->tok) > (int32_t)m->hp.n_vocab)
        return ie_fail(err, IE_E_FORMAT, "tensor 'token_embd.weight' has %u rows, the vocabulary %d tokens", m->hp.n_vocab,
                       ie_tokenizer_n_vocab(m->tok));
    if (m->hp.n_layer > ie_gguf_n_tensors(m->gguf))
        return ie_fail(err, IE_E_FORMAT, "key '%s.block_count' is %u, the file has %llu tensors in all", m->arch->name, m->hp.n_layer,
                       (unsigned long long)ie_gguf_n_tensors(m->gguf));
    return IE_OK;
}

/* ---- op lists ------------------------------------------------------------------------------------------------------ */

const ie_op ie_op_none = {.layer = -1, .src = IE_NO_OFF, .dst = IE_NO_OFF, .q8 = IE_NO_OFF, .res = IE_NO_OFF,
                          .mat = IE_NO_W, .vec = IE_NO_W, .vec2 = IE_NO_W, .scale = 1, .kv_layer = -1};

static bool wants_q8(const ie_lay *c, int32_t mat) { return c->m->w.mat[mat].fmt->dot != IE_FLOAT && !c->m->act_f32; }

ie_act ie_lay_act(ie_lay *c, uint32_t k, const int32_t *mats, uint32_t n, bool of_rows) {
    bool f = false, q = false;
    for (uint32_t i = 0; i < n; i++)
        if (mats[i] != IE_NO_W) *(wants_q8(c, mats[i]) ? &q : &f) = true;
    return (ie_act){f ? ie_build_f32(c->b, k, of_rows) : IE_NO_OFF, q ? ie_build_q8(c->b, k, of_rows) : IE_NO_OFF, k};
}

ie_status ie_lay_norm(ie_lay *c, ie_off src, int32_t vec, ie_act a, bool of_rows, ie_error *err) {
    ie_op op = ie_op_none;
    op.kind = OP_RMSNORM, op.layer = c->layer, op.of_rows = of_rows;
    op.src = src, op.src_ld = a.k, op.dst = a.f32, op.dst_ld = a.k, op.q8 = a.q8;
    op.vec = vec, op.n = a.k, op.eps = c->m->hp.eps;
    return ie_build_op(c->b, &op, err);
}

ie_status ie_lay_matmul(ie_lay *c, ie_act a, int32_t mat, int32_t bias, ie_off dst, uint32_t ld, uint32_t at, ie_off res,
                        bool of_rows, ie_error *err) {
    ie_op op = ie_op_none;
    op.kind = OP_MATMUL, op.layer = c->layer, op.of_rows = of_rows;
    op.src_q8 = wants_q8(c, mat);
    op.src = op.src_q8 ? a.q8 : a.f32, op.src_ld = a.k;
    op.mat = mat, op.vec = bias, op.dst = dst, op.dst_ld = ld, op.dst_at = at, op.res = res;
    return ie_build_op(c->b, &op, err);
}

ie_status ie_lay_group(ie_lay *c, ie_act a, const int32_t *mats, const int32_t *bias, uint32_t n, ie_off dst, uint32_t ld,
                       uint32_t at, ie_error *err) {
    ie_status st = IE_OK;
    for (uint32_t i = 0; i < n && !st; i++) {
        if (mats[i] == IE_NO_W) continue;
        st = ie_lay_matmul(c, a, mats[i], bias ? bias[i] : IE_NO_W, dst, ld, at, IE_NO_OFF, false, err);
        at += c->m->w.mat[mats[i]].rows;
    }
    return st;
}

void ie_lay_output(ie_lay *c, ie_op *op, ie_act *a, bool fused) {
    bool quant = a->q8 != IE_NO_OFF;
    if (a->f32 == IE_NO_OFF && quant && !fused) a->f32 = ie_build_f32(c->b, a->k, false);
    op->dst = a->f32, op->dst_ld = a->k, op->dst_at = 0, op->q8 = fused ? a->q8 : IE_NO_OFF;
}

ie_status ie_lay_quant(ie_lay *c, const ie_op *op, ie_act a, ie_error *err) {
    if (a.q8 == IE_NO_OFF || op->q8 == a.q8) return IE_OK;
    ie_op quant = ie_op_none;
    quant.kind = OP_QUANT, quant.layer = c->layer, quant.src = a.f32, quant.src_ld = a.k, quant.q8 = a.q8, quant.n = a.k;
    return ie_build_op(c->b, &quant, err);
}

ie_status ie_lay_attention(ie_lay *c, const ie_attn_weights *d, ie_error *err) {
    const ie_hparams *hp = &c->m->hp;
    uint32_t q = hp->n_head * hp->hd, ld = (d->gated ? 2 * q : q) + 2 * hp->n_kv * hp->hd;
    ie_act in = ie_lay_act(c, hp->n_embd, d->qkv, 3, false);
    ie_status st = ie_lay_norm(c, c->h, d->norm, in, false, err);
    ie_off qkv = ie_build_f32(c->b, ld, false);
    if (!st) st = ie_lay_group(c, in, d->qkv, d->qkv_bias, 3, qkv, ld, 0, err);
    ie_op op = ie_op_none;
    op.kind = OP_ROPE_KV, op.layer = c->layer, op.kv_layer = d->kv_layer, op.gated = d->gated;
    op.src = qkv, op.src_ld = ld, op.dst = qkv, op.dst_ld = ld, op.vec = d->q_norm, op.vec2 = d->k_norm, op.eps = hp->eps;
    op.n_head = hp->n_head, op.n_kv = hp->n_kv, op.hd = hp->hd, op.rope_dim = hp->rope.dim, op.rope_neox = hp->rope.neox;
    if (!st) st = ie_build_op(c->b, &op, err);
    ie_act out = ie_lay_act(c, q, &d->o, 1, false);
    op.kind = OP_ATTN, op.vec = op.vec2 = IE_NO_W, op.scale = hp->attn_scale, op.window = hp->window;
    ie_lay_output(c, &op, &out, hp->hd % IE_BLOCK == 0 && hp->hd <= 256);
    if (!st) st = ie_build_op(c->b, &op, err);
    if (!st) st = ie_lay_quant(c, &op, out, err);
    return st ? st : ie_lay_matmul(c, out, d->o, d->o_bias, c->h, hp->n_embd, 0, c->h, false, err);
}

ie_status ie_lay_ffn(ie_lay *c, const ie_ffn_weights *d, ie_error *err) {
    const ie_hparams *hp = &c->m->hp;
    ie_act in = ie_lay_act(c, hp->n_embd, d->gate_up, 2, false);
    ie_status st = ie_lay_norm(c, c->h, d->norm, in, false, err);
    ie_off gu = ie_build_f32(c->b, 2 * hp->n_ff, false);
    if (!st) st = ie_lay_group(c, in, d->gate_up, d->gate_up_bias, 2, gu, 2 * hp->n_ff, 0, err);
    ie_act mid = ie_lay_act(c, hp->n_ff, &d->down, 1, false);
    ie_op op = ie_op_none;
    op.kind = OP_SWIGLU, op.layer = c->layer, op.src = gu, op.src_ld = 2 * hp->n_ff;
    op.dst = mid.f32, op.dst_ld = hp->n_ff, op.q8 = mid.q8, op.n = hp->n_ff;
    ie_build_keep(c->b, in.q8);
    if (!st) st = ie_build_op(c->b, &op, err);
    return st ? st : ie_lay_matmul(c, mid, d->down, d->down_bias, c->h, hp->n_embd, 0, c->h, false, err);
}

ie_status ie_lay_head(ie_lay *c, int32_t norm, int32_t out, ie_error *err) {
    const ie_hparams *hp = &c->m->hp;
    ie_off rows = ie_build_f32(c->b, hp->n_embd, true);
    ie_op op = ie_op_none;
    op.kind = OP_ROWS, op.of_rows = 1, op.src = c->h, op.src_ld = hp->n_embd, op.dst = rows, op.dst_ld = hp->n_embd;
    op.n = hp->n_embd;
    ie_status st = ie_build_op(c->b, &op, err);
    if (ie_build_states(c->b)) {
        ie_act state = {ie_build_f32(c->b, hp->n_embd, true), IE_NO_OFF, hp->n_embd};
        return st ? st : ie_lay_norm(c, rows, norm, state, true, err);
    }
    ie_act in = ie_lay_act(c, hp->n_embd, &out, 1, true);
    if (!st) st = ie_lay_norm(c, rows, norm, in, true, err);
    ie_off logits = ie_build_f32(c->b, hp->n_vocab, true);
    return st ? st : ie_lay_matmul(c, in, out, IE_NO_W, logits, hp->n_vocab, 0, IE_NO_OFF, true, err);
}

ie_status ie_lay_embed(ie_lay *c, int32_t mat, ie_error *err) {
    c->h = ie_build_f32(c->b, c->m->hp.n_embd, false);
    ie_op op = ie_op_none;
    op.kind = OP_EMBED, op.mat = mat, op.dst = c->h, op.dst_ld = c->m->hp.n_embd, op.n = c->m->hp.n_embd;
    return ie_build_op(c->b, &op, err);
}
