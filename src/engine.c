/* Opening a model, and the parts of the public API that need no context. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "env.h"
#include "gen/grammar.h"
#include "model/model.h"

static char *copy_str(ie_str s) {
    char *p = malloc(s.len + 1);
    if (!p) return NULL;
    memcpy(p, s.s, s.len);
    p[s.len] = 0;
    return p;
}

static ie_status read_names(ie_model *m, const char *path, ie_error *err) {
    const char *slash = strrchr(path, '/');
    const char *file = slash ? slash + 1 : path;
    ie_str name, arch;
    ie_status st = ie_gguf_str(m->gguf, "general.name", "", &name, err);
    if (!st) st = ie_gguf_str_req(m->gguf, "general.architecture", &arch, err);
    if (st) return st;
    m->name = copy_str(name.len ? name : (ie_str){file, strlen(file)});
    if (!m->name) return ie_fail(err, IE_E_NOMEM, "model: no memory for its name");
    m->arch = ie_arch_find(arch);
    return IE_OK;
}

/* Weight bytes that one decoded token reads: everything but the embedding's other rows. */
static uint64_t token_bytes(const ie_model *m, const ie_exec_plan *p) {
    uint64_t n = 0;
    for (uint32_t i = 0; i < p->list.n; i++) {
        const ie_op *op = &p->list.ops[i];
        if (op->kind == OP_MATMUL) n += m->w.mat[op->mat].bytes;
        if (op->vec != IE_NO_W) n += (uint64_t)m->w.vec[op->vec].n * 4;
    }
    return n;
}

static ie_status load_on(ie_model *m, const ie_model_params *p, const char *backend, const ie_backend_params *bp, ie_error *err) {
    m->be = ie_backend_open(backend, bp, err);
    if (!m->be) return err->code;
    m->mtp = p->mtp;
    return ie_model_load(m, p, err);
}

static ie_status open_weights(ie_model *m, const ie_model_params *p, ie_error *err) {
    if (!m->arch) {
        ie_str arch;
        ie_status st = ie_gguf_str_req(m->gguf, "general.architecture", &arch, err);
        return st ? st : ie_fail(err, IE_E_UNSUPPORTED, "architecture '%.60s' is not supported; supported: %s", arch.s, ie_arch_list());
    }
    const char *act = ie_env_text(IE_ENV_ACT);
    m->act_f32 = act && strcmp(act, "f32") == 0;
    ie_backend_params bp = {.threads = p->threads, .device = p->device, .gpu_layers = p->gpu_layers, .hsaco = p->hsaco, .note = &m->note};
    ie_status st = load_on(m, p, p->backend, &bp, err);
    bool any = !p->backend || strcmp(p->backend, "auto") == 0;
    if (any && m->be && strcmp(m->be->api->name, "cpu") != 0 && (st == IE_E_NOMEM || st == IE_E_DEVICE)) {
        ie_error why = *err;
        m->be->api->destroy(m->be);
        m->be = NULL;
        free(m->layers);
        m->layers = NULL;
        m->w.n_mat = m->w.n_vec = 0;
        m->n_params = 0;
        st = load_on(m, p, "cpu", &bp, err);
        m->note = why;
    }
    if (st) return st;
    m->kv.f32 = m->act_f32;
    if (p->mtp && !m->mtp) return ie_fail(err, IE_E_UNSUPPORTED, "the model file has no MTP layer");
    ie_exec_plan plan;
    st = ie_model_plan(m, 1, &plan, err);
    if (st) return st;
    m->token_bytes = token_bytes(m, &plan);
    ie_exec_plan_free(&plan);
    return IE_OK;
}

ie_model *ie_model_open(const char *path, const ie_model_params *params, ie_error *err) {
    ie_error local;
    if (!err) err = &local;
    *err = (ie_error){0};
    ie_model_params p = params ? *params : (ie_model_params){0};
    if (!path || !*path) {
        ie_fail(err, IE_E_ARG, "model: no file name given");
        return NULL;
    }
    if (ie_env_check(err)) return NULL;
    ie_model *m = ie_calloc(1, sizeof *m, "model", err);
    if (!m) return NULL;
    m->gguf = ie_gguf_open(path, err);
    ie_status st = m->gguf ? read_names(m, path, err) : err->code;
    /* A file without a vocabulary still runs on token ids. */
    if (!st && ie_gguf_find(m->gguf, "tokenizer.ggml.model")) {
        m->tok = ie_tokenizer_new(m->gguf, err);
        if (!m->tok) st = err->code;
    }
    if (!st && p.vocab_only && !m->tok) st = ie_fail(err, IE_E_FORMAT, "key 'tokenizer.ggml.model' is missing: the file has no vocabulary");
    if (!st && !p.vocab_only) st = open_weights(m, &p, err);
    if (!st) return m;
    ie_model_close(m);
    return NULL;
}

void ie_model_close(ie_model *m) {
    if (!m) return;
    if (m->be) m->be->api->destroy(m->be);
    gr_vocab_free(m->constrain);
    ie_tokenizer_free(m->tok);
    ie_gguf_close(m->gguf);
    free(m->hp.rope.freq_factors);
    free(m->layers);
    free(m->w.mat);
    free(m->w.vec);
    free(m->name);
    free(m);
}

#define GGUF_POOLING_LAST 3u /* 1: mean; the others (first token, rank) are no pooling of a causal model */

void ie_model_get_info(const ie_model *m, ie_model_info *out) {
    const ie_hparams *hp = &m->hp;
    *out = (ie_model_info){
        .arch = m->arch ? m->arch->name : "unknown", .name = m->name,
        .backend = m->be ? m->be->api->describe(m->be) : "none", .note = m->note.code ? m->note.msg : NULL,
        .n_vocab = m->be ? (int32_t)hp->n_vocab : m->tok ? ie_tokenizer_n_vocab(m->tok) : 0,
        .n_ctx_train = (int32_t)hp->n_ctx_train, .n_layer = (int32_t)hp->n_layer, .n_embd = (int32_t)hp->n_embd,
        .n_head = (int32_t)hp->n_head, .n_head_kv = (int32_t)hp->n_kv, .head_dim = (int32_t)hp->hd,
        .n_params = m->n_params, .file_bytes = ie_gguf_file_bytes(m->gguf), .weight_bytes = m->w.bytes,
        .token_bytes = m->token_bytes, .state_bytes = ie_gdn_seq_bytes(&m->gdn), .n_recurrent = (int32_t)m->gdn.n_layer,
        .n_mtp = (int32_t)m->n_mtp, .mtp_bytes = m->mtp_bytes, .kv_bytes_page = ie_kv_page_bytes(&m->kv),
        .bos = m->tok ? ie_tokenizer_bos(m->tok) : -1, .eos = m->tok ? ie_tokenizer_eos(m->tok) : -1,
        .eot = m->tok ? ie_tokenizer_eot(m->tok) : -1};
    char key[80];
    uint32_t pooling = 0;
    snprintf(key, sizeof key, "%.60s.pooling_type", out->arch);
    bool last = !ie_gguf_u32(m->gguf, key, 0, UINT32_MAX, 0, &pooling, NULL) && pooling == GGUF_POOLING_LAST;
    out->pooling = last ? IE_POOL_LAST : IE_POOL_MEAN;
    int32_t *fim[IE_FIM_COUNT] = {&out->fim_pre, &out->fim_suf, &out->fim_mid, &out->fim_rep, &out->fim_sep};
    for (int i = 0; i < IE_FIM_COUNT; i++) *fim[i] = m->tok ? ie_tokenizer_fim(m->tok, (ie_fim)i) : -1;
}

/* ---- text ---------------------------------------------------------------------------------------------------------- */

static ie_status no_vocab(ie_error *err) {
    return ie_fail(err, IE_E_UNSUPPORTED, "the model file has no vocabulary; give token ids instead of text");
}

ie_status ie_tokenize(const ie_model *m, const char *text, size_t len, unsigned flags, int32_t **out, size_t *n, ie_error *err) {
    if (!m->tok) return no_vocab(err);
    if (!text && len) return ie_fail(err, IE_E_ARG, "tokenize: no text given for %zu bytes", len);
    if (flags & ~(unsigned)(IE_TOK_ADD_SPECIAL | IE_TOK_PARSE_SPECIAL))
        return ie_fail(err, IE_E_ARG, "tokenize: flags are %#x, allowed are IE_TOK_ADD_SPECIAL and IE_TOK_PARSE_SPECIAL", flags);
    ie_ids ids = {0};
    ie_text_run run = {text, len, (flags & IE_TOK_PARSE_SPECIAL) != 0};
    ie_status st = ie_tokenizer_encode(m->tok, &run, 1, flags & IE_TOK_ADD_SPECIAL, &ids, err);
    if (st) {
        ie_ids_free(&ids);
        return st;
    }
    *out = ids.ids;
    *n = ids.n;
    return IE_OK;
}

ie_status ie_detokenize(const ie_model *m, const int32_t *ids, size_t n, unsigned flags, char **out, size_t *len, ie_error *err) {
    if (!m->tok) return no_vocab(err);
    ie_buf buf = {0};
    ie_status st = ie_buf_add(&buf, "", 0, err) ? IE_OK : err->code;
    for (size_t i = 0; i < n && !st; i++) st = ie_tokenizer_decode(m->tok, ids[i], i == 0, flags, &buf, err);
    if (st) {
        ie_buf_free(&buf);
        return st;
    }
    *out = buf.data;
    *len = buf.len;
    return IE_OK;
}

int ie_token_is_end(const ie_model *m, int32_t id) { return m->tok && ie_tokenizer_is_end(m->tok, id); }

void ie_free(void *p) { free(p); }
