#include "dense.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_MAX_ 64

typedef struct {
    int32_t attn_norm, q_norm, k_norm, ffn_norm;
    int32_t qkv[3], qkv_bias[3]; /* joined: qkv[0] alone, the others IE_NO_W */
    int32_t o, o_bias, gate_up[2], gate_up_bias[2], down, down_bias;
} dense_layer;

typedef struct {
    int32_t embed, out_norm, out;
    dense_layer layer[];
} dense;

/* ---- metadata ------------------------------------------------------------------------------------------------------ */

static ie_status get_u32(const ie_gguf *g, const char *prefix, const char *key, uint32_t max, uint32_t *out, ie_error *err) {
    char name[128];
    snprintf(name, sizeof name, "%s.%s", prefix, key);
    return ie_gguf_u32_req(g, name, 1, max, out, err);
}

static ie_status opt_u32(const ie_gguf *g, const char *prefix, const char *key, uint32_t min, uint32_t max, uint32_t dflt,
                         uint32_t *out, ie_error *err) {
    char name[128];
    snprintf(name, sizeof name, "%s.%s", prefix, key);
    return ie_gguf_u32(g, name, min, max, dflt, out, err);
}

/* Metadata that change the arithmetic and that this engine does not know: refused, never ignored. */
static ie_status refuse_unknown(const ie_gguf *g, const char *prefix, ie_error *err) {
    static const char *const keys[] = {"expert_count", "expert_used_count", "attention.scale", "attention.logit_softcapping",
                                       "final_logit_softcapping", "logit_scale", "embedding_scale", "residual_scale",
                                       "attention.clamp_kqv", "attention.max_alibi_bias"};
    char name[128];
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        snprintf(name, sizeof name, "%s.%s", prefix, keys[i]);
        const ie_gguf_value *v = ie_gguf_find(g, name);
        if (!v) continue;
        uint32_t u = 1;
        float f = 1;
        if (v->type == GGUF_F32 ? ie_gguf_f32(g, name, 0, &f, err) || f != 0 : ie_gguf_u32(g, name, 0, UINT32_MAX, 0, &u, err) || u)
            return ie_fail(err, IE_E_UNSUPPORTED, "key '%s' is set; architecture '%s' is supported without it", name, prefix);
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
    if ((uint64_t)hp->n_head * hp->hd > IE_MAX_K)
        return ie_fail(err, IE_E_UNSUPPORTED, "%u heads of %u are beyond this engine's row limit %u", hp->n_head, hp->hd, IE_MAX_K);
    return IE_OK;
}

ie_status ie_hparams_read(const ie_gguf *g, const char *prefix, ie_hparams *hp, ie_error *err) {
    uint32_t v_len = 0;
    char name[128];
    ie_status st = get_u32(g, prefix, "block_count", IE_MAX_LAYERS, &hp->n_layer, err);
    if (!st) st = get_u32(g, prefix, "embedding_length", IE_MAX_K, &hp->n_embd, err);
    if (!st) st = get_u32(g, prefix, "feed_forward_length", IE_MAX_K, &hp->n_ff, err);
    if (!st) st = get_u32(g, prefix, "attention.head_count", 1024, &hp->n_head, err);
    if (!st) st = opt_u32(g, prefix, "attention.head_count_kv", 1, 1024, hp->n_head, &hp->n_kv, err);
    if (!st && hp->n_embd % hp->n_head && !ie_gguf_find(g, (snprintf(name, sizeof name, "%s.attention.key_length", prefix), name)))
        st = ie_fail(err, IE_E_FORMAT, "key '%s.embedding_length' is %u, not a multiple of head_count %u", prefix, hp->n_embd,
                     hp->n_head);
    if (!st) st = opt_u32(g, prefix, "attention.key_length", 1, 8192, hp->n_embd / hp->n_head, &hp->hd, err);
    if (!st && hp->hd == 0) st = ie_fail(err, IE_E_FORMAT, "key '%s.embedding_length' is below head_count", prefix);
    if (!st) st = opt_u32(g, prefix, "attention.value_length", 1, 8192, hp->hd, &v_len, err);
    if (!st) st = opt_u32(g, prefix, "rope.dimension_count", 2, 8192, hp->hd, &hp->rope.dim, err);
    if (!st) st = opt_u32(g, prefix, "context_length", 1, UINT32_MAX, 2048, &hp->n_ctx_train, err);
    if (!st) st = opt_u32(g, prefix, "attention.sliding_window", 0, UINT32_MAX, 0, &hp->window, err);
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

/* n parts as one joined matrix out[0], or as n matrices where their types differ; biases likewise. */
static ie_status load_group(ie_loader *l, const ie_part *w, const ie_part *bias, uint32_t n, int32_t *out, int32_t *out_bias,
                            ie_error *err) {
    bool join = ie_load_same_type(l, w, n);
    ie_status st = IE_OK;
    for (uint32_t i = 0; i < n && !st; i++) {
        out[i] = out_bias[i] = IE_NO_W;
        if (join && i > 0) continue;
        st = ie_load_mat(l, w + i, join ? n : 1, &out[i], err);
        if (!st) st = ie_load_vec(l, bias + i, join ? n : 1, true, &out_bias[i], err);
    }
    return st;
}

static const char *layer_name(char buf[NAME_MAX_], uint32_t i, const char *tail) {
    snprintf(buf, NAME_MAX_, "blk.%u.%s", i, tail);
    return buf;
}

static ie_status load_layer(ie_model *m, ie_loader *l, uint32_t i, const ie_dense_opts *o, dense_layer *d, ie_error *err) {
    const ie_hparams *hp = &m->hp;
    uint32_t q = hp->n_head * hp->hd, kv = hp->n_kv * hp->hd;
    char n[16][NAME_MAX_];
#define PART(slot, tail, r, c) {layer_name(n[slot], i, tail), (r), (c)}
    ie_part qkv[] = {PART(0, "attn_q.weight", q, hp->n_embd), PART(1, "attn_k.weight", kv, hp->n_embd),
                     PART(2, "attn_v.weight", kv, hp->n_embd)};
    ie_part qkv_bias[] = {PART(3, "attn_q.bias", q, 0), PART(4, "attn_k.bias", kv, 0), PART(5, "attn_v.bias", kv, 0)};
    ie_part gu[] = {PART(6, "ffn_gate.weight", hp->n_ff, hp->n_embd), PART(7, "ffn_up.weight", hp->n_ff, hp->n_embd)};
    ie_part gu_bias[] = {PART(8, "ffn_gate.bias", hp->n_ff, 0), PART(9, "ffn_up.bias", hp->n_ff, 0)};
    ie_part out = PART(10, "attn_output.weight", hp->n_embd, q), out_bias = PART(11, "attn_output.bias", hp->n_embd, 0);
    ie_part down = PART(12, "ffn_down.weight", hp->n_embd, hp->n_ff), down_bias = PART(13, "ffn_down.bias", hp->n_embd, 0);
    ie_part norm = PART(14, "attn_norm.weight", hp->n_embd, 0), ffn_norm = PART(15, "ffn_norm.weight", hp->n_embd, 0);
    ie_status st = ie_load_vec(l, &norm, 1, false, &d->attn_norm, err);
    if (!st) st = load_group(l, qkv, qkv_bias, 3, d->qkv, d->qkv_bias, err);
    if (!st) st = ie_load_mat(l, &out, 1, &d->o, err);
    if (!st) st = ie_load_vec(l, &out_bias, 1, true, &d->o_bias, err);
    if (!st) st = ie_load_vec(l, &ffn_norm, 1, false, &d->ffn_norm, err);
    if (!st) st = load_group(l, gu, gu_bias, 2, d->gate_up, d->gate_up_bias, err);
    if (!st) st = ie_load_mat(l, &down, 1, &d->down, err);
    if (!st) st = ie_load_vec(l, &down_bias, 1, true, &d->down_bias, err);
    d->q_norm = d->k_norm = IE_NO_W;
    if (!st && o->head_norm) {
        ie_part qn = PART(0, "attn_q_norm.weight", hp->hd, 0), kn = PART(1, "attn_k_norm.weight", hp->hd, 0);
        st = ie_load_vec(l, &qn, 1, false, &d->q_norm, err);
        if (!st) st = ie_load_vec(l, &kn, 1, false, &d->k_norm, err);
    }
#undef PART
    return st;
}

/* The vocabulary's size is the embedding's row count; the tokenizer may know fewer ids, not more. */
static ie_status vocab_size(ie_model *m, ie_error *err) {
    const ie_gguf_tensor *t = ie_gguf_find_tensor(m->gguf, "token_embd.weight");
    if (!t) return ie_fail(err, IE_E_FORMAT, "tensor 'token_embd.weight' is missing from the file");
    if (t->ne[1] > (1u << 20))
        return ie_fail(err, IE_E_UNSUPPORTED, "tensor 'token_embd.weight' has %llu rows; vocabularies up to %u are supported",
                       (unsigned long long)t->ne[1], 1u << 20);
    m->hp.n_vocab = (uint32_t)t->ne[1];
    if (m->tok && ie_tokenizer_n_vocab(m->tok) > (int32_t)m->hp.n_vocab)
        return ie_fail(err, IE_E_FORMAT, "tensor 'token_embd.weight' has %u rows, the vocabulary %d tokens", m->hp.n_vocab,
                       ie_tokenizer_n_vocab(m->tok));
    return IE_OK;
}

ie_status ie_dense_load(ie_model *m, ie_loader *l, const ie_dense_opts *o, ie_error *err) {
    ie_hparams *hp = &m->hp;
    ie_status st = ie_hparams_read(m->gguf, m->arch->name, hp, err);
    if (!st) st = vocab_size(m, err);
    if (st) return st;
    hp->rope.neox = o->neox;
    m->kv = (ie_kv_shape){hp->n_layer, hp->n_kv, hp->hd};
    /* Every layer has tensors, so a file whose directory is shorter than block_count cannot make this allocation large. */
    if (hp->n_layer > ie_gguf_n_tensors(m->gguf))
        return ie_fail(err, IE_E_FORMAT, "key '%s.block_count' is %u, the file has %llu tensors in all", m->arch->name, hp->n_layer,
                       (unsigned long long)ie_gguf_n_tensors(m->gguf));
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

static const ie_op op_none = {.layer = -1, .src = IE_NO_OFF, .dst = IE_NO_OFF, .q8 = IE_NO_OFF, .res = IE_NO_OFF,
                              .mat = IE_NO_W, .vec = IE_NO_W, .vec2 = IE_NO_W, .scale = 1, .kv_layer = -1};

/* What one layer's ops share: buffers for activations, each f32 or Q8 as the matrices that read it want. */
typedef struct {
    const ie_model *m;
    ie_builder *b;
    ie_off h;   /* [T][n_embd] f32, the residual stream */
    ie_off logits_in;
    int32_t layer;
} ctx;

static bool wants_q8(const ctx *c, int32_t mat) { return c->m->w.mat[mat].fmt->dot != IE_FLOAT; }

/* An input of matrices `mats` (n of them, IE_NO_W skipped) may be needed as Q8, as f32, or as both. */
typedef struct {
    ie_off f32, q8;
    uint32_t k;
} act;

static act new_act(ctx *c, uint32_t k, const int32_t *mats, uint32_t n, bool of_rows) {
    bool f = false, q = false;
    for (uint32_t i = 0; i < n; i++)
        if (mats[i] != IE_NO_W) *(wants_q8(c, mats[i]) ? &q : &f) = true;
    return (act){f ? ie_build_f32(c->b, k, of_rows) : IE_NO_OFF, q ? ie_build_q8(c->b, k, of_rows) : IE_NO_OFF, k};
}

static ie_status norm(ctx *c, ie_off src, int32_t vec, act a, bool of_rows, ie_error *err) {
    ie_op op = op_none;
    op.kind = OP_RMSNORM, op.layer = c->layer, op.of_rows = of_rows;
    op.src = src, op.src_ld = a.k, op.dst = a.f32, op.dst_ld = a.k, op.q8 = a.q8;
    op.vec = vec, op.n = a.k, op.eps = c->m->hp.eps;
    return ie_build_op(c->b, &op, err);
}

/* dst[.. at ..] = mat . a (+ bias) (+ res) */
static ie_status matmul(ctx *c, act a, int32_t mat, int32_t bias, ie_off dst, uint32_t ld, uint32_t at, ie_off res, bool of_rows,
                        ie_error *err) {
    ie_op op = op_none;
    op.kind = OP_MATMUL, op.layer = c->layer, op.of_rows = of_rows;
    op.src_q8 = wants_q8(c, mat);
    op.src = op.src_q8 ? a.q8 : a.f32, op.src_ld = a.k;
    op.mat = mat, op.vec = bias, op.dst = dst, op.dst_ld = ld, op.dst_at = at, op.res = res;
    return ie_build_op(c->b, &op, err);
}

/* The group's matrices (joined or not) write side by side into rows of ld floats. */
static ie_status matmul_group(ctx *c, act a, const int32_t *mats, const int32_t *bias, uint32_t n, ie_off dst, uint32_t ld,
                              ie_error *err) {
    uint32_t at = 0;
    ie_status st = IE_OK;
    for (uint32_t i = 0; i < n && !st; i++) {
        if (mats[i] == IE_NO_W) continue;
        st = matmul(c, a, mats[i], bias[i], dst, ld, at, IE_NO_OFF, false, err);
        at += c->m->w.mat[mats[i]].rows;
    }
    return st;
}

static ie_status attention(ctx *c, const dense_layer *d, ie_error *err) {
    const ie_hparams *hp = &c->m->hp;
    uint32_t q = hp->n_head * hp->hd, ld = q + 2 * hp->n_kv * hp->hd;
    act in = new_act(c, hp->n_embd, d->qkv, 3, false);
    ie_status st = norm(c, c->h, d->attn_norm, in, false, err);
    ie_off qkv = ie_build_f32(c->b, ld, false);
    if (!st) st = matmul_group(c, in, d->qkv, d->qkv_bias, 3, qkv, ld, err);
    ie_op op = op_none;
    op.kind = OP_ROPE_KV, op.layer = c->layer, op.kv_layer = c->layer;
    op.src = qkv, op.src_ld = ld, op.dst = qkv, op.dst_ld = ld, op.vec = d->q_norm, op.vec2 = d->k_norm, op.eps = hp->eps;
    op.n_head = hp->n_head, op.n_kv = hp->n_kv, op.hd = hp->hd, op.rope_dim = hp->rope.dim, op.rope_neox = hp->rope.neox;
    if (!st) st = ie_build_op(c->b, &op, err);
    act out = new_act(c, q, &d->o, 1, false);
    bool fused = out.q8 != IE_NO_OFF && hp->hd % IE_BLOCK == 0 && hp->hd <= 256;
    ie_off plain = out.f32 != IE_NO_OFF || !fused ? ie_build_f32(c->b, q, false) : IE_NO_OFF;
    op.kind = OP_ATTN, op.dst = plain, op.dst_ld = q, op.q8 = fused ? out.q8 : IE_NO_OFF, op.vec = op.vec2 = IE_NO_W;
    op.scale = hp->attn_scale, op.window = hp->window;
    if (!st) st = ie_build_op(c->b, &op, err);
    if (!st && out.q8 != IE_NO_OFF && !fused) {
        ie_op quant = op_none;
        quant.kind = OP_QUANT, quant.layer = c->layer, quant.src = plain, quant.src_ld = q, quant.q8 = out.q8, quant.n = q;
        st = ie_build_op(c->b, &quant, err);
    }
    out.f32 = plain;
    return st ? st : matmul(c, out, d->o, d->o_bias, c->h, hp->n_embd, 0, c->h, false, err);
}

static ie_status feed_forward(ctx *c, const dense_layer *d, ie_error *err) {
    const ie_hparams *hp = &c->m->hp;
    act in = new_act(c, hp->n_embd, d->gate_up, 2, false);
    ie_status st = norm(c, c->h, d->ffn_norm, in, false, err);
    ie_off gu = ie_build_f32(c->b, 2 * hp->n_ff, false);
    if (!st) st = matmul_group(c, in, d->gate_up, d->gate_up_bias, 2, gu, 2 * hp->n_ff, err);
    act mid = new_act(c, hp->n_ff, &d->down, 1, false);
    ie_op op = op_none;
    op.kind = OP_SWIGLU, op.layer = c->layer, op.src = gu, op.src_ld = 2 * hp->n_ff;
    op.dst = mid.f32, op.dst_ld = hp->n_ff, op.q8 = mid.q8, op.n = hp->n_ff;
    if (!st) st = ie_build_op(c->b, &op, err);
    return st ? st : matmul(c, mid, d->down, d->down_bias, c->h, hp->n_embd, 0, c->h, false, err);
}

static ie_status head(ctx *c, const dense *d, ie_error *err) {
    const ie_hparams *hp = &c->m->hp;
    ie_off rows = ie_build_f32(c->b, hp->n_embd, true);
    ie_op op = op_none;
    op.kind = OP_ROWS, op.of_rows = 1, op.src = c->h, op.src_ld = hp->n_embd, op.dst = rows, op.dst_ld = hp->n_embd;
    op.n = hp->n_embd;
    ie_status st = ie_build_op(c->b, &op, err);
    act in = new_act(c, hp->n_embd, &d->out, 1, true);
    if (!st) st = norm(c, rows, d->out_norm, in, true, err);
    ie_off logits = ie_build_f32(c->b, hp->n_vocab, true);
    return st ? st : matmul(c, in, d->out, IE_NO_W, logits, hp->n_vocab, 0, IE_NO_OFF, true, err);
}

ie_status ie_dense_build(const ie_model *m, ie_builder *b, ie_error *err) {
    const dense *d = m->layers;
    ctx c = {.m = m, .b = b, .layer = -1};
    c.h = ie_build_f32(b, m->hp.n_embd, false);
    ie_op op = op_none;
    op.kind = OP_EMBED, op.mat = d->embed, op.dst = c.h, op.dst_ld = m->hp.n_embd, op.n = m->hp.n_embd;
    ie_status st = ie_build_op(b, &op, err);
    for (uint32_t i = 0; i < m->hp.n_layer && !st; i++) {
        c.layer = (int32_t)i;
        st = attention(&c, &d->layer[i], err);
        if (!st) st = feed_forward(&c, &d->layer[i], err);
    }
    c.layer = -1;
    return st ? st : head(&c, d, err);
}
