/* What the layers of architectures have in common: groups of matrices that are joined where their types agree, activations
 * as f32 or Q8 as their readers want them, and the ops built from them. */
#ifndef IE_LAYERS_H
#define IE_LAYERS_H

#include "model.h"

/* ---- loading ------------------------------------------------------------------------------------------------------- */

#define IE_NAME_MAX 64

/* "blk.<i>.<tail>" in buf. */
const char *ie_layer_name(char buf[IE_NAME_MAX], uint32_t i, const char *tail);

/* n parts, neighbours of one type joined: out[i] is the matrix that begins with part i, IE_NO_W for a part inside one. The
 * optional biases likewise (bias NULL: there are none). */
ie_status ie_load_group(ie_loader *l, const ie_part *w, const ie_part *bias, uint32_t n, int32_t *out, int32_t *out_bias,
                        ie_error *err);

/* Sets m->hp.n_vocab from the embedding's row count; the tokenizer may know fewer ids, not more. Also refuses a block_count
 * beyond the file's number of tensors, so that it cannot size allocations. */
ie_status ie_load_vocab_size(ie_model *m, ie_error *err);

/* An integer of metadata, "<prefix>.<key>" in [1, max], that must exist; one that need not. */
ie_status ie_hp_u32(const ie_gguf *g, const char *prefix, const char *key, uint32_t max, uint32_t *out, ie_error *err);
ie_status ie_hp_opt_u32(const ie_gguf *g, const char *prefix, const char *key, uint32_t min, uint32_t max, uint32_t dflt,
                        uint32_t *out, ie_error *err);

/* ---- op lists ------------------------------------------------------------------------------------------------------ */

extern const ie_op ie_op_none;

/* Where ops are being added: the layer they belong to and the residual stream h, [T][n_embd] f32. */
typedef struct {
    const ie_model *m;
    ie_builder *b;
    ie_off h;
    int32_t layer;
} ie_lay;

/* An activation of k values, needed as Q8, as f32, or as both. */
typedef struct {
    ie_off f32, q8;
    uint32_t k;
} ie_act;

/* The input of n matrices (IE_NO_W skipped). */
ie_act ie_lay_act(ie_lay *c, uint32_t k, const int32_t *mats, uint32_t n, bool of_rows);
/* a = RMSNorm(src) * vec */
ie_status ie_lay_norm(ie_lay *c, ie_off src, int32_t vec, ie_act a, bool of_rows, ie_error *err);
/* dst[.. at ..] = mat . a (+ bias) (+ res) */
ie_status ie_lay_matmul(ie_lay *c, ie_act a, int32_t mat, int32_t bias, ie_off dst, uint32_t ld, uint32_t at, ie_off res,
                        bool of_rows, ie_error *err);
/* The group's matrices (joined or not) write side by side into rows of ld floats, from `at` on. bias may be NULL. */
ie_status ie_lay_group(ie_lay *c, ie_act a, const int32_t *mats, const int32_t *bias, uint32_t n, ie_off dst, uint32_t ld,
                       uint32_t at, ie_error *err);
/* Ops that write `a` themselves where they can: op's dst and q8 are set; *quant tells that ie_lay_quant has to follow. */
void ie_lay_output(ie_lay *c, ie_op *op, ie_act *a, bool fused);
ie_status ie_lay_quant(ie_lay *c, const ie_op *op, ie_act a, ie_error *err);

/* Attention over KV pages. q and k may carry head norms; gated: attn_q interleaves query and gate of each head. */
typedef struct {
    int32_t norm, q_norm, k_norm; /* input; heads (IE_NO_W: none) */
    int32_t qkv[3], qkv_bias[3];  /* as ie_load_group leaves them */
    int32_t o, o_bias, kv_layer;
    bool gated;
} ie_attn_weights;
ie_status ie_lay_attention(ie_lay *c, const ie_attn_weights *d, ie_error *err);

/* The gated feed-forward part: h += down(silu(gate x) * up x), x = RMSNorm(h). */
typedef struct {
    int32_t norm, gate_up[2], gate_up_bias[2], down, down_bias;
} ie_ffn_weights;
ie_status ie_lay_ffn(ie_lay *c, const ie_ffn_weights *d, ie_error *err);

/* The head: gathers the rows asked for from c->h, norm, logits. */
ie_status ie_lay_head(ie_lay *c, int32_t norm, int32_t out, ie_error *err);
/* The first op: c->h = rows of the embedding. */
ie_status ie_lay_embed(ie_lay *c, int32_t mat, ie_error *err);

#endif
