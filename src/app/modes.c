/* ie-run's modes that do not generate: --info, --tokenize, --detokenize, --render. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../model/model.h"
#include "app.h"

typedef struct {
    uint32_t type;
    uint64_t tensors, bytes;
} by_type;

static uint32_t count_types(const ie_gguf *g, by_type *t, uint32_t cap) {
    uint32_t n = 0;
    for (uint64_t i = 0; i < ie_gguf_n_tensors(g); i++) {
        const ie_gguf_tensor *x = ie_gguf_tensor_at(g, i);
        uint32_t k = 0;
        while (k < n && t[k].type != x->type) k++;
        if (k == n) {
            if (n == cap) continue;
            t[n++] = (by_type){.type = x->type};
        }
        t[k].tensors++;
        t[k].bytes += x->bytes;
    }
    return n;
}

static double mb(uint64_t bytes) { return (double)bytes / 1e6; }

/* Memory for contexts: the backend's, less the weights. */
static uint64_t free_bytes(const ie_model *m) {
    const ie_state_desc none = {.n_seq = 1};
    uint64_t need = 0, have = 0;
    m->be->api->state_room(m->be, &none, &need, &have);
    return have;
}

static void print_info(const ie_model *m, const ie_model_info *i, const by_type *t, uint32_t n) {
    const ie_hparams *hp = &m->hp;
    printf("name          %s\narchitecture  %s\nparameters    %.2f M\n", i->name, i->arch, (double)i->n_params / 1e6);
    printf("layers        %d\nembedding     %d\nfeed-forward  %u\n", i->n_layer, i->n_embd, hp->n_ff);
    printf("attention     %d heads, %d key/value heads of %d\n", i->n_head, i->n_head_kv, i->head_dim);
    if (i->n_recurrent)
        printf("recurrent     %d layers, %u key and %u value heads of %u; state %.2f MB for each sequence\n", i->n_recurrent, m->gdn.n_k,
               m->gdn.n_v, m->gdn.hd, mb(i->state_bytes));
    if (i->n_mtp) printf("prediction    %d MTP layer%s, %.2f MB, loaded on demand\n", i->n_mtp, i->n_mtp > 1 ? "s" : "", mb(i->mtp_bytes));
    printf("rotary        first %u dimensions, base %g\n", hp->rope.dim, hp->rope.base);
    if (hp->window) printf("window        %u positions\n", hp->window);
    printf("vocabulary    %d\ncontext       %d positions\n", i->n_vocab, i->n_ctx_train);
    for (uint32_t k = 0; k < n; k++) {
        const char *name = ie_ggml_type_name(t[k].type);
        printf("tensors       %-8s %5llu  %10.2f MB\n", name ? name : "unknown", (unsigned long long)t[k].tensors, mb(t[k].bytes));
    }
    uint64_t kv = (uint64_t)((i->n_ctx_train + (int32_t)IE_PAGE - 1) / (int32_t)IE_PAGE) * i->kv_bytes_page;
    printf("memory        weights %.2f MB, key/value cache %.3f MB for each %u positions (%.2f MB for the whole context)\n",
           mb(i->weight_bytes), mb(i->kv_bytes_page), IE_PAGE, mb(kv));
    printf("read          %.2f MB of weights for each token\nbackend       %s; %.2f GB are free beside the weights\n", mb(i->token_bytes), i->backend,
           (double)free_bytes(m) / 1e9);
}

ie_status app_info(const ie_model *m, const ie_run_opts *o, ie_error *err) {
    by_type t[64];
    uint32_t n = count_types(m->gguf, t, 64);
    ie_model_info i;
    ie_model_get_info(m, &i);
    if (!o->json) {
        print_info(m, &i, t, n);
        return app_flush(err);
    }
    json_t *types = json_object();
    for (uint32_t k = 0; k < n; k++) {
        const char *name = ie_ggml_type_name(t[k].type);
        json_object_set_new(types, name ? name : "unknown",
                            json_pack("{s:I, s:I}", "tensors", (json_int_t)t[k].tensors, "bytes", (json_int_t)t[k].bytes));
    }
    json_t *obj = json_pack("{s:o, s:s, s:I, s:i, s:i, s:I, s:i, s:I, s:i, s:i, s:i, s:i, s:i, s:i, s:I, s:I, s:I, s:o, s:s, s:I}", "name",
                            app_json_text(i.name, strlen(i.name)), "architecture", i.arch, "parameters", (json_int_t)i.n_params, "layers",
                            i.n_layer, "recurrent_layers", i.n_recurrent, "state_bytes", (json_int_t)i.state_bytes, "mtp_layers", i.n_mtp,
                            "mtp_bytes", (json_int_t)i.mtp_bytes, "embedding", i.n_embd, "heads", i.n_head, "kv_heads", i.n_head_kv, "head_dim", i.head_dim,
                            "vocabulary", i.n_vocab, "context", i.n_ctx_train, "weight_bytes", (json_int_t)i.weight_bytes, "token_bytes",
                            (json_int_t)i.token_bytes, "kv_bytes_per_32_positions", (json_int_t)i.kv_bytes_page, "tensor_types", types,
                            "backend", i.backend, "free_bytes", (json_int_t)free_bytes(m));
    return app_print_json(obj, err);
}

ie_status app_tokenize(const ie_model *m, const ie_run_opts *o, ie_error *err) {
    ie_buf text = {0};
    int32_t *ids = NULL;
    size_t n = 0;
    ie_status st = app_prompt_text(o, &text, err);
    if (!st) st = app_plain_ids(m, o, &text, &ids, &n, err);
    if (!st && o->json) {
        json_t *a = json_array();
        for (size_t i = 0; i < n; i++) json_array_append_new(a, json_integer(ids[i]));
        st = app_print_json(json_pack("{s:o}", "tokens", a), err);
    } else if (!st) {
        for (size_t i = 0; i < n; i++) printf("%s%d", i ? "," : "", ids[i]);
        putchar('\n');
        st = app_flush(err);
    }
    ie_buf_free(&text);
    ie_free(ids);
    return st;
}

ie_status app_detokenize(const ie_model *m, const ie_run_opts *o, ie_error *err) {
    ie_buf raw = {0};
    int32_t *ids = NULL;
    size_t n = 0, len = 0;
    char *text = NULL;
    const char *file = o->tokens_file ? o->tokens_file : o->prompt_file;
    ie_status st = IE_OK;
    if (file) st = app_read_file(file, &raw, err);
    const char *list = file ? raw.data : o->tokens ? o->tokens : o->prompt;
    if (!st) st = app_parse_ids(list, file ? raw.len : strlen(list), file ? file : "--detokenize", &ids, &n, err);
    if (!st) st = ie_detokenize(m, ids, n, IE_DETOK_SPECIAL, &text, &len, err);
    if (!st && o->json) {
        st = app_print_json(json_pack("{s:o}", "text", app_json_text(text, len)), err);
    } else if (!st) {
        fwrite(text, 1, len, stdout);
        st = app_flush(err);
    }
    ie_buf_free(&raw);
    ie_free(text);
    free(ids);
    return st;
}

/* The file is a list of messages, or an object of template variables ("add_generation_prompt" included, default true). */
ie_status app_render(const ie_model *m, const ie_run_opts *o, ie_error *err) {
    ie_buf file = {0}, tmpl = {0};
    json_error_t jerr;
    ie_status st = app_read_file(o->render, &file, err);
    json_t *json = st ? NULL : json_loadb(file.data, file.len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &jerr);
    if (!st && !json) st = ie_fail(err, IE_E_FORMAT, "file '%s', line %d: %s", o->render, jerr.line, jerr.text);
    if (json_is_array(json)) json = json_pack("{s:o}", "messages", json);
    if (!st && !json_is_object(json)) st = ie_fail(err, IE_E_FORMAT, "file '%s': a list of messages or an object is expected", o->render);
    json_t *add = json_object_get(json, "add_generation_prompt");
    int gen = add ? json_is_true(add) : 1;
    char *vars = st ? NULL : json_dumps(json, JSON_COMPACT), *text = NULL;
    size_t len = 0, n = 0;
    int32_t *ids = NULL;
    if (!st && !vars) st = ie_fail(err, IE_E_NOMEM, "chat: no memory for the messages");
    if (!st) st = app_template(o, &tmpl, err);
    if (!st && vars) st = ie_chat_render(m, tmpl.data, tmpl.len, vars, strlen(vars), gen, &text, &len, o->json ? &ids : NULL, &n, err);
    if (!st && o->json) {
        json_t *a = json_array();
        for (size_t i = 0; i < n; i++) json_array_append_new(a, json_integer(ids[i]));
        st = app_print_json(json_pack("{s:o, s:o}", "text", app_json_text(text, len), "tokens", a), err);
    } else if (!st) {
        fwrite(text, 1, len, stdout);
        st = app_flush(err);
    }
    ie_free(text);
    ie_free(ids);
    free(vars);
    json_decref(json);
    ie_buf_free(&file);
    ie_buf_free(&tmpl);
    return st;
}
