/* qwen35 (Qwen3.5, Qwen3.8): most layers are Gated DeltaNet (Yang et al. 2024, arXiv:2412.06464), every fourth is gated full
 * attention.
 *
 *   recurrent: RMSNorm -> Q8 | q|k|v, z, beta, alpha | CONV | GDN -> Q8 | output + residual
 *   full:      RMSNorm -> Q8 | (query|gate)..., k, v | ROPE_KV | ATTN * sigmoid(gate) -> Q8 | output + residual
 *
 * each followed by the feed-forward part. Conventions of the files: norm weights hold 1 + w already; ssm_a is -exp(A_log);
 * value head j belongs to key head j mod n_k; block_count counts the MTP layers at the end. */
#include "layers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    bool recurrent;
    ie_attn_weights attn; /* full attention */
    /* Gated DeltaNet */
    int32_t norm, in[4]; /* q|k|v, z, beta, alpha, as ie_load_group leaves them */
    int32_t conv, gate, out_norm, out; /* taps; ssm_a | dt bias; RMSNorm of a head; output matrix */
    int32_t gdn_layer;
    ie_ffn_weights ffn;
} layer;

/* Multi-token prediction: from the embedding of a token and the hidden state before it through one full-attention layer. */
typedef struct {
    int32_t embed, enorm, hnorm, eh_proj, head_norm, head;
    ie_attn_weights attn;
    ie_ffn_weights ffn;
} mtp_layer;

typedef struct {
    int32_t embed, out_norm, out;
    mtp_layer mtp;
    layer layer[];
} qwen35;

/* ---- metadata ------------------------------------------------------------------------------------------------------ */

static ie_status contradiction(ie_error *err, const char *key, uint32_t value, const char *want, uint32_t wanted) {
    return ie_fail(err, IE_E_FORMAT, "key 'qwen35.%s' is %u, %s %u", key, value, want, wanted);
}

static ie_status read_gdn(const ie_gguf *g, ie_gdn_shape *s, ie_error *err) {
    uint32_t taps = 0, inner = 0;
    ie_status st = ie_hp_u32(g, "qwen35", "ssm.conv_kernel", 64, &taps, err);
    if (!st) st = ie_hp_u32(g, "qwen35", "ssm.state_size", 4096, &s->hd, err);
    if (!st) st = ie_hp_u32(g, "qwen35", "ssm.group_count", 1024, &s->n_k, err);
    if (!st) st = ie_hp_u32(g, "qwen35", "ssm.time_step_rank", 1024, &s->n_v, err);
    if (!st) st = ie_hp_u32(g, "qwen35", "ssm.inner_size", IE_MAX_K, &inner, err);
    if (st) return st;
    if (taps != IE_GDN_TAPS)
        return ie_fail(err, IE_E_UNSUPPORTED, "key 'qwen35.ssm.conv_kernel' is %u; supported: %u", taps, IE_GDN_TAPS);
    if (s->hd % 32 || s->hd > IE_GDN_MAX_HD)
        return ie_fail(err, IE_E_UNSUPPORTED, "key 'qwen35.ssm.state_size' is %u; supported: multiples of 32 up to %u", s->hd, IE_GDN_MAX_HD);
    if (s->n_v % s->n_k) return contradiction(err, "ssm.time_step_rank", s->n_v, "not a multiple of ssm.group_count", s->n_k);
    if (inner != s->n_v * s->hd) return contradiction(err, "ssm.inner_size", inner, "time_step_rank times state_size is", s->n_v * s->hd);
    if (ie_gdn_channels(s) > IE_MAX_K)
        return ie_fail(err, IE_E_UNSUPPORTED, "%llu channels of the convolution are beyond this engine's row limit %u",
                       (unsigned long long)ie_gdn_channels(s), IE_MAX_K);
    return IE_OK;
}

/* Which layers are recurrent: stated one by one, or all but every interval-th. */
static ie_status read_kinds(const ie_gguf *g, const ie_hparams *hp, qwen35 *q, ie_error *err) {
    const ie_gguf_value *list = NULL;
    uint32_t interval = 0;
    ie_status st = ie_gguf_array(g, "qwen35.attention.recurrent_layers", GGUF_BOOL, &list, err);
    if (!st && list && list->n < hp->n_layer)
        st = ie_fail(err, IE_E_FORMAT, "key 'qwen35.attention.recurrent_layers' has %llu elements, there are %u layers",
                     (unsigned long long)list->n, hp->n_layer);
    if (!st) st = ie_hp_opt_u32(g, "qwen35", "full_attention_interval", 1, IE_MAX_LAYERS, 4, &interval, err);
    for (uint32_t i = 0; i < hp->n_layer && !st; i++)
        q->layer[i].recurrent = list ? ((const uint8_t *)list->data)[i] != 0 : (i + 1) % interval != 0;
    return st;
}

/* mrope sections: for text all sections turn by the same position; they must cover the rotated dimensions. */
static ie_status check_sections(const ie_gguf *g, const ie_hparams *hp, ie_error *err) {
    const ie_gguf_value *s = NULL;
    ie_status st = ie_gguf_array(g, "qwen35.rope.dimension_sections", GGUF_I32, &s, err);
    if (st || !s) return st;
    int64_t sum = 0;
    for (uint64_t i = 0; i < s->n; i++) sum += ((const int32_t *)s->data)[i];
    if (sum == hp->rope.dim / 2) return IE_OK;
    return ie_fail(err, IE_E_FORMAT, "key 'qwen35.rope.dimension_sections' adds up to %lld, half of rope.dimension_count is %u",
                   (long long)sum, hp->rope.dim / 2);
}

/* ---- weights ------------------------------------------------------------------------------------------------------- */

#define PART(slot, tail, r, c) {ie_layer_name(n[slot], i, tail), (r), (c)}

static ie_status load_recurrent(ie_model *m, ie_loader *l, uint32_t i, layer *d, ie_error *err) {
    const ie_gdn_shape *s = &m->gdn;
    uint32_t e = m->hp.n_embd, ch = (uint32_t)ie_gdn_channels(s), inner = s->n_v * s->hd;
    char n[10][IE_NAME_MAX];
    ie_part in[] = {PART(0, "attn_qkv.weight", ch, e), PART(1, "attn_gate.weight", inner, e), PART(2, "ssm_beta.weight", s->n_v, e),
                    PART(3, "ssm_alpha.weight", s->n_v, e)};
    ie_part gate[] = {PART(4, "ssm_a", s->n_v, 0), PART(5, "ssm_dt.bias", s->n_v, 0)};
    ie_part norm = PART(6, "attn_norm.weight", e, 0), conv = PART(7, "ssm_conv1d.weight", ch, IE_GDN_TAPS);
    ie_part out_norm = PART(8, "ssm_norm.weight", s->hd, 0), out = PART(9, "ssm_out.weight", e, inner);
    ie_status st = ie_load_vec(l, &norm, 1, false, &d->norm, err);
    if (!st) st = ie_load_group(l, in, NULL, 4, d->in, NULL, err);
    if (!st) st = ie_load_vec(l, &conv, 1, false, &d->conv, err);
    if (!st) st = ie_load_vec(l, gate, 2, false, &d->gate, err);
    if (!st) st = ie_load_vec(l, &out_norm, 1, false, &d->out_norm, err);
    return st ? st : ie_load_mat(l, &out, 1, &d->out, err);
}

static ie_status load_full(ie_model *m, ie_loader *l, uint32_t i, ie_attn_weights *a, ie_error *err) {
    const ie_hparams *hp = &m->hp;
    uint32_t q = hp->n_head * hp->hd, kv = hp->n_kv * hp->hd;
    char n[7][IE_NAME_MAX];
    ie_part qkv[] = {PART(0, "attn_q.weight", 2 * q, hp->n_embd), PART(1, "attn_k.weight", kv, hp->n_embd),
                     PART(2, "attn_v.weight", kv, hp->n_embd)};
    ie_part norm = PART(3, "attn_norm.weight", hp->n_embd, 0), out = PART(4, "attn_output.weight", hp->n_embd, q);
    ie_part qn = PART(5, "attn_q_norm.weight", hp->hd, 0), kn = PART(6, "attn_k_norm.weight", hp->hd, 0);
    a->gated = true;
    a->o_bias = IE_NO_W;
    for (uint32_t k = 0; k < 3; k++) a->qkv_bias[k] = IE_NO_W;
    ie_status st = ie_load_vec(l, &norm, 1, false, &a->norm, err);
    if (!st) st = ie_load_group(l, qkv, NULL, 3, a->qkv, NULL, err);
    if (!st) st = ie_load_vec(l, &qn, 1, false, &a->q_norm, err);
    if (!st) st = ie_load_vec(l, &kn, 1, false, &a->k_norm, err);
    return st ? st : ie_load_mat(l, &out, 1, &a->o, err);
}

static ie_status load_ffn(ie_model *m, ie_loader *l, uint32_t i, ie_ffn_weights *f, ie_error *err) {
    uint32_t e = m->hp.n_embd, ff = m->hp.n_ff;
    char n[4][IE_NAME_MAX];
    ie_part norm = PART(0, "post_attention_norm.weight", e, 0), down = PART(1, "ffn_down.weight", e, ff);
    ie_part gu[] = {PART(2, "ffn_gate.weight", ff, e), PART(3, "ffn_up.weight", ff, e)};
    f->gate_up_bias[0] = f->gate_up_bias[1] = f->down_bias = IE_NO_W;
    ie_status st = ie_load_vec(l, &norm, 1, false, &f->norm, err);
    if (!st) st = ie_load_group(l, gu, NULL, 2, f->gate_up, NULL, err);
    return st ? st : ie_load_mat(l, &down, 1, &f->down, err);
}

static ie_status load_layers(ie_model *m, ie_loader *l, qwen35 *q, ie_error *err) {
    m->kv = (ie_kv_shape){.n_kv = m->hp.n_kv, .hd = m->hp.hd};
    m->gdn.n_layer = 0;
    ie_status st = IE_OK;
    for (uint32_t i = 0; i < m->hp.n_layer && !st; i++) {
        layer *d = &q->layer[i];
        if (d->recurrent) {
            d->gdn_layer = (int32_t)m->gdn.n_layer++;
            st = load_recurrent(m, l, i, d, err);
        } else {
            d->attn.kv_layer = (int32_t)m->kv.n_layer++;
            st = load_full(m, l, i, &d->attn, err);
        }
        if (!st) st = load_ffn(m, l, i, &d->ffn, err);
    }
    return st;
}

/* The MTP layers at the end are known, and not needed to evaluate text. */
static void ignore_mtp(ie_model *m, ie_loader *l) {
    for (uint32_t i = m->hp.n_layer; i < m->hp.n_layer + m->n_mtp; i++) {
        char prefix[IE_NAME_MAX];
        size_t len = strlen(ie_layer_name(prefix, i, ""));
        for (uint64_t t = 0; t < ie_gguf_n_tensors(m->gguf); t++) {
            const ie_gguf_tensor *x = ie_gguf_tensor_at(m->gguf, t);
            if (strncmp(x->name.s, prefix, len) != 0) continue;
            m->mtp_bytes += x->bytes;
            if (!m->mtp) ie_load_ignore(l, x->name.s);
        }
    }
}

/* Files may bring an embedding and a head for the MTP layer; usually it shares the model's. */
static ie_status load_mtp(ie_model *m, ie_loader *l, qwen35 *q, ie_error *err) {
    mtp_layer *d = &q->mtp;
    uint32_t e = m->hp.n_embd, i = m->hp.n_layer;
    if (m->n_mtp > 1) return ie_fail(err, IE_E_UNSUPPORTED, "key 'qwen35.nextn_predict_layers' is %u; supported: 1", m->n_mtp);
    char n[6][IE_NAME_MAX];
    ie_part enorm = PART(0, "nextn.enorm.weight", e, 0), hnorm = PART(1, "nextn.hnorm.weight", e, 0);
    ie_part head_norm = PART(2, "nextn.shared_head_norm.weight", e, 0), proj = PART(3, "nextn.eh_proj.weight", e, 2 * e);
    ie_part embed = PART(4, "nextn.embed_tokens.weight", m->hp.n_vocab, e), head = PART(5, "nextn.shared_head_head.weight", m->hp.n_vocab, e);
    d->embed = q->embed;
    d->head = q->out;
    d->attn.kv_layer = (int32_t)m->kv.n_layer++;
    ie_status st = ie_load_vec(l, &enorm, 1, false, &d->enorm, err);
    if (!st) st = ie_load_vec(l, &hnorm, 1, false, &d->hnorm, err);
    if (!st) st = ie_load_vec(l, &head_norm, 1, false, &d->head_norm, err);
    if (!st) st = ie_load_mat(l, &proj, 1, &d->eh_proj, err);
    if (!st) st = load_full(m, l, i, &d->attn, err);
    if (!st) st = load_ffn(m, l, i, &d->ffn, err);
    if (!st && ie_load_has(l, embed.name)) st = ie_load_mat(l, &embed, 1, &d->embed, err);
    if (!st && ie_load_has(l, head.name)) st = ie_load_mat(l, &head, 1, &d->head, err);
    return st;
}

static ie_status load(ie_model *m, ie_loader *l, ie_error *err) {
    ie_hparams *hp = &m->hp;
    uint32_t mtp = 0;
    ie_status st = ie_hparams_read(m->gguf, "qwen35", hp, err);
    if (!st) st = ie_load_vocab_size(m, err);
    if (!st) st = ie_hp_opt_u32(m->gguf, "qwen35", "nextn_predict_layers", 0, IE_MAX_LAYERS, 0, &mtp, err);
    if (!st && mtp >= hp->n_layer) st = contradiction(err, "nextn_predict_layers", mtp, "block_count is", hp->n_layer);
    if (!st) st = check_sections(m->gguf, hp, err);
    if (!st) st = read_gdn(m->gguf, &m->gdn, err);
    if (st) return st;
    hp->n_layer -= mtp;
    m->n_mtp = mtp;
    m->mtp = m->mtp && mtp;
    hp->rope.neox = true;
    qwen35 *q = ie_calloc(1, sizeof *q + hp->n_layer * sizeof q->layer[0], "layers", err);
    if (!q) return err->code;
    m->layers = q;
    ie_part embed = {"token_embd.weight", hp->n_vocab, hp->n_embd}, out = {"output.weight", hp->n_vocab, hp->n_embd};
    ie_part norm = {"output_norm.weight", hp->n_embd, 0};
    st = read_kinds(m->gguf, hp, q, err);
    if (!st) st = ie_load_mat(l, &embed, 1, &q->embed, err);
    if (!st) st = load_layers(m, l, q, err);
    if (!st) st = ie_load_vec(l, &norm, 1, false, &q->out_norm, err);
    q->out = q->embed;
    if (!st && ie_load_has(l, "output.weight")) st = ie_load_mat(l, &out, 1, &q->out, err);
    if (!st && m->mtp) st = load_mtp(m, l, q, err);
    if (!st) ignore_mtp(m, l);
    return st;
}

/* ---- op list ------------------------------------------------------------------------------------------------------- */

static ie_status recurrent(ie_lay *c, const layer *d, ie_error *err) {
    const ie_gdn_shape *s = &c->m->gdn;
    ie_op op = ie_op_none;
    op.layer = c->layer, op.kv_layer = d->gdn_layer, op.n_head = s->n_v, op.n_kv = s->n_k, op.hd = s->hd, op.eps = c->m->hp.eps;
    uint32_t ld = (uint32_t)ie_op_gdn_floats(&op);
    ie_act in = ie_lay_act(c, c->m->hp.n_embd, d->in, 4, false);
    ie_status st = ie_lay_norm(c, c->h, d->norm, in, false, err);
    ie_off row = ie_build_f32(c->b, ld, false);
    if (!st) st = ie_lay_group(c, in, d->in, NULL, 4, row, ld, 0, err);
    op.kind = OP_CONV, op.src = row, op.src_ld = ld, op.vec = d->conv, op.vec2 = d->gate, op.scale = (float)(1.0 / sqrt((double)s->hd));
    if (!st) st = ie_build_op(c->b, &op, err);
    ie_act out = ie_lay_act(c, s->n_v * s->hd, &d->out, 1, false);
    op.kind = OP_GDN, op.vec = d->out_norm, op.vec2 = IE_NO_W;
    ie_lay_output(c, &op, &out, true);
    if (!st) st = ie_build_op(c->b, &op, err);
    return st ? st : ie_lay_matmul(c, out, d->out, IE_NO_W, c->h, c->m->hp.n_embd, 0, c->h, false, err);
}

/* Leaves the normed residual stream of all tokens for the MTP layer. */
static ie_status hidden(ie_lay *c, int32_t norm, ie_off in, ie_error *err) {
    ie_act out = {ie_build_f32(c->b, c->m->hp.n_embd, false), IE_NO_OFF, c->m->hp.n_embd};
    ie_build_hidden(c->b, in, out.f32);
    return ie_lay_norm(c, c->h, norm, out, false, err);
}

static ie_status build(const ie_model *m, ie_builder *b, ie_error *err) {
    const qwen35 *q = m->layers;
    ie_lay c = {.m = m, .b = b, .layer = -1};
    ie_status st = ie_lay_embed(&c, q->embed, err);
    for (uint32_t i = 0; i < m->hp.n_layer && !st; i++) {
        c.layer = (int32_t)i;
        st = q->layer[i].recurrent ? recurrent(&c, &q->layer[i], err) : ie_lay_attention(&c, &q->layer[i].attn, err);
        if (!st) st = ie_lay_ffn(&c, &q->layer[i].ffn, err);
    }
    c.layer = -1;
    if (!st && m->mtp) st = hidden(&c, q->out_norm, IE_NO_OFF, err);
    return st ? st : ie_lay_head(&c, q->out_norm, q->out, err);
}

/* [enorm(embedding) | hnorm(hidden)] -> eh_proj -> full attention, feed-forward -> head */
static ie_status build_mtp(const ie_model *m, ie_builder *b, ie_error *err) {
    const mtp_layer *d = &((const qwen35 *)m->layers)->mtp;
    ie_lay c = {.m = m, .b = b, .layer = (int32_t)m->hp.n_layer};
    uint32_t e = m->hp.n_embd;
    ie_status st = ie_lay_embed(&c, d->embed, err);
    ie_off in = ie_build_f32(b, e, false);
    ie_act pair = {ie_build_f32(b, 2 * e, false), IE_NO_OFF, 2 * e};
    ie_op op = ie_op_none;
    op.kind = OP_RMSNORM, op.layer = c.layer, op.n = e, op.eps = m->hp.eps;
    op.src = c.h, op.src_ld = e, op.dst = pair.f32, op.dst_ld = 2 * e, op.vec = d->enorm;
    if (!st) st = ie_build_op(b, &op, err);
    op.src = in, op.dst_at = e, op.vec = d->hnorm;
    if (!st) st = ie_build_op(b, &op, err);
    pair.q8 = ie_lay_act(&c, 2 * e, &d->eh_proj, 1, false).q8;
    if (!st) st = ie_lay_quant(&c, &ie_op_none, pair, err);
    c.h = ie_build_f32(b, e, false);
    if (!st) st = ie_lay_matmul(&c, pair, d->eh_proj, IE_NO_W, c.h, e, 0, IE_NO_OFF, false, err);
    if (!st) st = ie_lay_attention(&c, &d->attn, err);
    if (!st) st = ie_lay_ffn(&c, &d->ffn, err);
    if (!st) st = hidden(&c, d->head_norm, in, err);
    return st ? st : ie_lay_head(&c, d->head_norm, d->head, err);
}

const ie_arch ie_arch_qwen35 = {"qwen35", load, build, build_mtp};
