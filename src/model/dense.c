#include "dense.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layers.h"

typedef struct {
    ie_attn_weights attn;
    ie_ffn_weights ffn;
} dense_layer;

typedef struct {
    int32_t embed, out_norm, out;
    dense_layer layer[];
} dense;

/* ---- metadata ------------------------------------------------------------------------------------------------------ */

/* Metadata that change the arithmetic and that this engine does not know: refused, never ignored. */
static ie_status refuse_unknown(const ie_gguf *g, const char *prefix, ie_error *err) {
    static const struct {
        const char *name;
        float neutral; /* the value besides 0 that changes nothing */
    } keys[] = {{"expert_count", 0}, {"expert_used_count", 0}, {"attention.scale", 0}, {"attention.output_scale", 1},
                {"attn_logit_softcapping", 0}, {"attention.logit_softcapping", 0}, {"final_logit_softcapping", 0}, {"logit_scale", 1},
                {"embedding_scale", 1}, {"residual_scale", 1}, {"attention.clamp_kqv", 0}, {"attention.max_alibi_bias", 0},
                {"attention.temperature_scale", 0}, {"attention.sliding_window_pattern", 0}, {"swiglu_clamp_exp", 0},
                {"rope.freq_base_swa", 0}, {"rope.dimension_count_swa", 0}, {"rope.scaling.alpha", 0},
                {"rope.scaling.yarn_attn_factor", 1}, {"rope.scaling.yarn_log_multiplier", 0}};
    char name[128];
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        snprintf(name, sizeof name, "%s.%s", prefix, keys[i].name);
        const ie_gguf_value *v = ie_gguf_find(g, name);
        if (!v) continue;
        uint32_t u = 0;
        float f = 0;
        bool set = v->type == GGUF_F32 ? ie_gguf_f32(g, name, 0, &f, err) || (f != 0 && f != keys[i].neutral)
                                       : ie_gguf_u32(g, name, 0, UINT32_MAX, 0, &u, err) || u != 0;
        if (set) return ie_fail(err, IE_E_UNSUPPORTED, "key '%s' is set; architecture '%s' is supported without it", name, prefix);
    }
    bool causal;
    snprintf(name, sizeof name, "%s.attention.causal", prefix);
    ie_status st = ie_gguf_bool(g, name, true, &causal, err);
    if (!st && !causal) st = ie_fail(err, IE_E_UNSUPPORTED, "key '%s' is false; only causal attention is supported", name);
    return st;
}

static ie_status check_heads(const char *prefix, const ie_hparams *hp, uint32_t v_len, ie_error *err) {
    if (hp->n_head % hp->n_kv)
        return ie_fail(err, IE_E_FORMAT, "key '%s.attention.head_count' is %u, not a multiple of head_count_kv %u", prefix,
                       hp->n_head, hp->n_kv);
    if (v_len != hp->hd)
        return ie_fail(err, IE_E_UNSUPPORTED, "key '%s.attention.value_length' is %u; it must equal the key length %u", prefix,
                       v_len, hp->hd);
    if (hp->rope.dim % 2 || hp->rope.dim > hp->hd)
        return ie_fail(err, IE_E_FORMAT, "key '%s.rope.dimension_count' is %u; it must be even and at most the head size %u",
                       prefix, hp->rope.dim, hp->hd);
    if (!ie_mul_ok(hp->n_head, hp->hd, IE_MAX_K))
        return ie_fail(err, IE_E_UNSUPPORTED, "%u heads of %u are beyond this engine's row limit %u", hp->n_head, hp->hd, IE_MAX_K);
    return IE_OK;
}

ie_status ie_hparams_read(const ie_gguf *g, const char *prefix, ie_hparams *hp, ie_error *err) {
    uint32_t v_len = 0;
    char name[128];
    ie_status st = ie_hp_u32(g, prefix, "block_count", IE_MAX_LAYERS, &hp->n_layer, err);
    if (!st) st = ie_hp_u32(g, prefix, "embedding_length", IE_MAX_K, &hp->n_embd, err);
    if (!st) st = ie_hp_u32(g, prefix, "feed_forward_length", IE_MAX_K, &hp->n_ff, err);
    if (!st) st = ie_hp_u32(g, prefix, "attention.head_count", 1024, &hp->n_head, err);
    if (!st) st = ie_hp_opt_u32(g, prefix, "attention.head_count_kv", 1, 1024, hp->n_head, &hp->n_kv, err);
    if (!st && hp->n_embd % hp->n_head && !ie_gguf_find(g, (snprintf(name, sizeof name, "%s.attention.key_length", prefix), name)))
        st = ie_fail(err, IE_E_FORMAT, "key '%s.embedding_length' is %u, not a multiple of head_count %u", prefix, hp->n_embd,
                     hp->n_head);
    if (!st) st = ie_hp_opt_u32(g, prefix, "attention.key_length", 1, 8192, hp->n_embd / hp->n_head, &hp->hd, err);
    if (!st && hp->hd == 0) st = ie_fail(err, IE_E_FORMAT, "key '%s.embedding_length' is below head_count", prefix);
    if (!st) st = ie_hp_opt_u32(g, prefix, "attention.value_length", 1, 8192, hp->hd, &v_len, err);
    if (!st) st = ie_hp_opt_u32(g, prefix, "rope.dimension_count", 2, 8192, hp->hd, &hp->rope.dim, err);
    if (!st) st = ie_hp_opt_u32(g, prefix, "context_length", 1, UINT32_MAX, 2048, &hp->n_ctx_train, err);
    if (!st) st = ie_hp_opt_u32(g, prefix, "attention.sliding_window", 0, UINT32_MAX, 0, &hp->window, err);
    snprintf(name, sizeof name, "%s.attention.layer_norm_rms_epsilon", prefix);
    if (!st) st = ie_gguf_f32_req(g, name, &hp->eps, err);
    if (!st && !(hp->eps > 0 && hp->eps < 1))
        st = ie_fail(err, IE_E_FORMAT, "key '%s' is %g, allowed are 0 < eps < 1", name, (double)hp->eps);
    if (!st) st = check_heads(prefix, hp, v_len, err);
    if (!st) st = ie_rope_read(g, prefix, &hp->rope, err);
    if (!st) st = refuse_unknown(g, prefix, err);
    if (hp->n_ctx_train > IE_MAX_CTX) hp->n_ctx_train = IE_MAX_CTX;
    hp->attn_scale = (float)(1.0 / sqrt((double)hp->hd));
    return st;
}

/* ---- weights ------------------------------------------------------------------------------------------------------- */

static ie_status load_layer(ie_model *m, ie_loader *l, uint32_t i, const ie_dense_opts *o, dense_layer *d, ie_error *err) {
    const ie_hparams *hp = &m->hp;
    ie_attn_weights *a = &d->attn;
    ie_ffn_weights *f = &d->ffn;
    a->gated = false;
    a->kv_layer = (int32_t)i;
    uint32_t q = hp->n_head * hp->hd, kv = hp->n_kv * hp->hd;
    char n[16][IE_NAME_MAX];
#define PART(slot, tail, r, c) {ie_layer_name(n[slot], i, tail), (r), (c)}
    ie_part qkv[] = {PART(0, "attn_q.weight", q, hp->n_embd), PART(1, "attn_k.weight", kv, hp->n_embd),
                     PART(2, "attn_v.weight", kv, hp->n_embd)};
    ie_part qkv_bias[] = {PART(3, "attn_q.bias", q, 0), PART(4, "attn_k.bias", kv, 0), PART(5, "attn_v.bias", kv, 0)};
    ie_part gu[] = {PART(6, "ffn_gate.weight", hp->n_ff, hp->n_embd), PART(7, "ffn_up.weight", hp->n_ff, hp->n_embd)};
    ie_part gu_bias[] = {PART(8, "ffn_gate.bias", hp->n_ff, 0), PART(9, "ffn_up.bias", hp->n_ff, 0)};
    ie_part out = PART(10, "attn_output.weight", hp->n_embd, q), out_bias = PART(11, "attn_output.bias", hp->n_embd, 0);
    ie_part down = PART(12, "ffn_down.weight", hp->n_embd, hp->n_ff), down_bias = PART(13, "ffn_down.bias", hp->n_embd, 0);
    ie_part norm = PART(14, "attn_norm.weight", hp->n_embd, 0), ffn_norm = PART(15, "ffn_norm.weight", hp->n_embd, 0);
    ie_status st = ie_load_vec(l, &norm, 1, false, &a->norm, err);
    if (!st) st = ie_load_group(l, qkv, qkv_bias, 3, a->qkv, a->qkv_bias, err);
    if (!st) st = ie_load_mat(l, &out, 1, &a->o, err);
    if (!st) st = ie_load_vec(l, &out_bias, 1, true, &a->o_bias, err);
    if (!st) st = ie_load_vec(l, &ffn_norm, 1, false, &f->norm, err);
    if (!st) st = ie_load_group(l, gu, gu_bias, 2, f->gate_up, f->gate_up_bias, err);
    if (!st) st = ie_load_mat(l, &down, 1, &f->down, err);
    if (!st) st = ie_load_vec(l, &down_bias, 1, true, &f->down_bias, err);
    a->q_norm = a->k_norm = IE_NO_W;
    if (!st && o->head_norm) {
        ie_part qn = PART(0, "attn_q_norm.weight", hp->hd, 0), kn = PART(1, "attn_k_norm.weight", hp->hd, 0);
        st = ie_load_vec(l, &qn, 1, false, &a->q_norm, err);
        if (!st) st = ie_load_vec(l, &kn, 1, false, &a->k_norm, err);
    }
#undef PART
    return st;
}

ie_status ie_dense_load(ie_model *m, ie_loader *l, const ie_dense_opts *o, ie_error *err) {
    ie_hparams *hp = &m->hp;
    ie_status st = ie_hparams_read(m->gguf, m->arch->name, hp, err);
    char sections[64];
    snprintf(sections, sizeof sections, "%s.rope.dimension_sections", m->arch->name);
    if (!st && ie_gguf_find(m->gguf, sections))
        st = ie_fail(err, IE_E_UNSUPPORTED, "key '%s' is set; architecture '%s' is supported without it", sections, m->arch->name);
    if (!st) st = ie_load_vocab_size(m, err);
    if (st) return st;
    hp->rope.neox = o->neox;
    m->kv = (ie_kv_shape){.n_layer = hp->n_layer, .n_kv = hp->n_kv, .hd = hp->hd};
    dense *d = ie_calloc(1, sizeof *d + hp->n_layer * sizeof d->layer[0], "layers", err);
    if (!d) return err->code;
    m->layers = d;
    ie_part embed = {"token_embd.weight", hp->n_vocab, hp->n_embd}, out = {"output.weight", hp->n_vocab, hp->n_embd};
    ie_part norm = {"output_norm.weight", hp->n_embd, 0}, freqs = {"rope_freqs.weight", hp->rope.dim / 2, 0};
    st = ie_load_mat(l, &embed, 1, &d->embed, err);
    for (uint32_t i = 0; i < hp->n_layer && !st; i++) st = load_layer(m, l, i, o, &d->layer[i], err);
    if (!st) st = ie_load_vec(l, &norm, 1, false, &d->out_norm, err);
    d->out = d->embed;
    if (!st && ie_load_has(l, "output.weight")) st = ie_load_mat(l, &out, 1, &d->out, err);
    if (!st && ie_load_has(l, "rope_freqs.weight")) st = ie_load_host_vec(l, &freqs, &hp->rope.freq_factors, err);
    for (uint32_t i = 0; !st && hp->rope.freq_factors && i < hp->rope.dim / 2; i++)
        if (!(hp->rope.freq_factors[i] > 0 && hp->rope.freq_factors[i] < INFINITY))
            st = ie_fail(err, IE_E_FORMAT, "tensor 'rope_freqs.weight' holds %g; divisors must be positive",
                         (double)hp->rope.freq_factors[i]);
    return st;
}

/* ---- op list ------------------------------------------------------------------------------------------------------- */

ie_status ie_dense_build(const ie_model *m, ie_builder *b, ie_error *err) {
    const dense *d = m->layers;
    ie_lay c = {.m = m, .b = b, .layer = -1};
    ie_status st = ie_lay_embed(&c, d->embed, err);
    for (uint32_t i = 0; i < m->hp.n_layer && !st; i++) {
        c.layer = (int32_t)i;
        st = ie_lay_attention(&c, &d->layer[i].attn, err);
        if (!st) st = ie_lay_ffn(&c, &d->layer[i].ffn, err);
    }
    c.layer = -1;
    return st ? st : ie_lay_head(&c, d->out_norm, d->out, err);
}
