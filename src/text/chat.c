/* Chat: messages through the model's template to tokens. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../model/model.h"
#include "template.h"

const char *ie_chat_template(const ie_model *m, size_t *len) {
    ie_str text;
    ie_error none;
    if (ie_gguf_str(m->gguf, "tokenizer.chat_template", "", &text, &none) || text.len == 0) return NULL;
    *len = text.len;
    return text.s;
}

int ie_has_chat_template(const ie_model *m) { return ie_gguf_find(m->gguf, "tokenizer.chat_template") != NULL; }

static const char *token_text(const ie_model *m, int32_t id) {
    return m->tok && id >= 0 ? ie_tokenizer_raw(m->tok, id).s : "";
}

static ie_status find_template(const ie_model *m, const char *tmpl, size_t len, ie_str *out, ie_error *err) {
    *out = (ie_str){tmpl, len};
    if (tmpl) return IE_OK;
    ie_status st = ie_gguf_str(m->gguf, "tokenizer.chat_template", "", out, err);
    if (!st && out->len == 0)
        st = ie_fail(err, IE_E_UNSUPPORTED,
                     "the model file has no chat template (key 'tokenizer.chat_template'); give one by file, or use no "
                     "template");
    return st;
}

static ie_status tokens_of(const ie_model *m, const ie_rendered *r, int32_t **ids, size_t *n, ie_error *err) {
    if (!m->tok) return ie_fail(err, IE_E_UNSUPPORTED, "the model file has no vocabulary");
    /* Templates write BOS themselves; it is added only where the text does not start with it. */
    ie_ids v = {0};
    int32_t bos = ie_tokenizer_bos(m->tok);
    ie_str raw = bos >= 0 ? ie_tokenizer_raw(m->tok, bos) : (ie_str){"", 0};
    bool has_bos = raw.len && r->text.len >= raw.len && memcmp(r->text.data, raw.s, raw.len) == 0;
    ie_status st = ie_tokenizer_encode(m->tok, r->runs, r->n_runs, has_bos ? 0 : IE_TOK_ADD_SPECIAL, &v, err);
    if (st) {
        ie_ids_free(&v);
        return st;
    }
    *ids = v.ids;
    *n = v.n;
    return IE_OK;
}

ie_status ie_chat_render(const ie_model *m, const char *tmpl, size_t tmpl_len, const char *vars, size_t vars_len,
                         int add_generation_prompt, char **text, size_t *text_len, int32_t **ids, size_t *n,
                         ie_error *err) {
    ie_str source;
    ie_status st = find_template(m, tmpl, tmpl_len, &source, err);
    if (st) return st;
    json_error_t jerr;
    json_t *json = json_loadb(vars, vars_len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &jerr);
    if (!json) return ie_fail(err, IE_E_FORMAT, "chat variables, line %d: %s", jerr.line, jerr.text);
    if (!json_is_object(json)) st = ie_fail(err, IE_E_FORMAT, "chat variables: a JSON object is expected");
    ie_template *t = st ? NULL : ie_template_new(source.s, source.len, err);
    if (!st && !t) st = err->code;
    ie_rendered r = {0};
    ie_template_env env = {.bos_token = token_text(m, m->tok ? ie_tokenizer_bos(m->tok) : -1),
                           .eos_token = token_text(m, m->tok ? ie_tokenizer_eos(m->tok) : -1),
                           .add_generation_prompt = add_generation_prompt != 0,
                           .now = time(NULL)};
    if (!st) st = ie_template_render(t, json, &env, &r, err);
    if (!st && ids) st = tokens_of(m, &r, ids, n, err);
    if (!st && text) {
        *text = r.text.data ? r.text.data : calloc(1, 1);
        if (text_len) *text_len = r.text.len;
        if (!*text) st = ie_fail(err, IE_E_NOMEM, "chat: no memory for the text");
        r.text = (ie_buf){0};
    }
    ie_rendered_free(&r);
    ie_template_free(t);
    json_decref(json);
    return st;
}
