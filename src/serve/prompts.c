/* Prompts as texts and token ids: lists of them, and texts to be filled in. */
#include <stdlib.h>
#include <string.h>

#include "serve.h"

ie_status serve_token_ids(serve *s, const json_t *v, const char *name, serve_prompt *out, ie_error *err) {
    size_t n = json_array_size(v);
    bool ok = json_is_array(v) && n <= INT32_MAX;
    if (!(out->id = ie_calloc(n ? n : 1, sizeof *out->id, name, err))) return IE_E_NOMEM;
    for (size_t i = 0; i < n && ok; i++) {
        json_int_t id = json_integer_value(json_array_get(v, i));
        ok = json_is_integer(json_array_get(v, i)) && id >= 0 && id < s->info.n_vocab;
        out->id[i] = (int32_t)id;
    }
    out->n = (int32_t)n;
    return ok ? IE_OK : ie_fail(err, IE_E_ARG, "'%s' must be a list of token ids from 0 to %d", name, s->info.n_vocab - 1);
}

static ie_status wrong(const serve *s, const char *name, size_t max, ie_error *err) {
    return ie_fail(err, IE_E_ARG, "'%s' must be a text, a list of token ids from 0 to %d, or a list of at most %zu of these", name,
                   s->info.n_vocab - 1, max);
}

static ie_status from_value(serve *s, const json_t *v, const char *name, size_t max, serve_prompt *out, ie_error *err) {
    size_t n = 0;
    if (json_is_array(v) && (!json_array_size(v) || json_is_integer(json_array_get(v, 0)))) return serve_token_ids(s, v, name, out, err);
    if (!json_is_string(v)) return wrong(s, name, max, err);
    ie_status st = ie_tokenize(s->model, json_string_value(v), json_string_length(v), IE_TOK_ADD_SPECIAL, &out->id, &n, err);
    out->n = (int32_t)n;
    return st;
}

ie_status serve_prompts(serve *s, const json_t *v, const char *name, size_t max, serve_prompt **out, uint32_t *n, ie_error *err) {
    bool one = !json_is_array(v) || json_is_integer(json_array_get(v, 0));
    size_t count = one ? 1 : json_array_size(v);
    if (count < 1 || count > max) return wrong(s, name, max, err);
    if (!(*out = ie_calloc(count, sizeof **out, "prompts", err))) return IE_E_NOMEM;
    *n = (uint32_t)count;
    ie_status st = IE_OK;
    for (size_t i = 0; i < count && !st; i++) st = from_value(s, one ? v : json_array_get(v, i), name, max, &(*out)[i], err);
    for (size_t i = 0; i < count && !st; i++)
        if ((*out)[i].n < 1) st = ie_fail(err, IE_E_ARG, "'%s' holds an empty text", name);
    if (!st) return IE_OK;
    serve_prompts_free(*out, *n);
    *out = NULL;
    return st;
}

void serve_prompts_free(serve_prompt *list, uint32_t n) {
    for (uint32_t i = 0; list && i < n; i++) free(list[i].id);
    free(list);
}

/* ---- filling in --------------------------------------------------------------------------------------------------------------- */

typedef struct {
    serve *s;
    int32_t *id;
    size_t n, cap;
    ie_error *err;
} id_list;

static ie_status add_ids(id_list *l, const int32_t *ids, size_t n) {
    if (!ie_grow(&l->id, &l->cap, l->n + n, sizeof *l->id, "prompt", l->err)) return IE_E_NOMEM;
    if (n) memcpy(l->id + l->n, ids, n * sizeof *ids);
    l->n += n;
    return IE_OK;
}

static ie_status add_text(id_list *l, const char *text, size_t len) {
    int32_t *ids;
    size_t n;
    ie_status st = ie_tokenize(l->s->model, text, len, 0, &ids, &n, l->err);
    if (st) return st;
    st = add_ids(l, ids, n);
    ie_free(ids);
    return st;
}

/* A member that may be absent: nothing then. */
static ie_status add_member(id_list *l, const json_t *v, const char *name) {
    if (!v || json_is_null(v)) return IE_OK;
    if (!json_is_string(v)) return ie_fail(l->err, IE_E_ARG, "'%s' must be a string", name);
    return add_text(l, json_string_value(v), json_string_length(v));
}

/* Files that come before, each behind the token for a file's name; without one, behind a line of text. */
static ie_status add_extra(id_list *l, const json_t *extra) {
    static const char between[] = "\n\n--- snippet ---\n\n";
    const ie_model_info *info = &l->s->info;
    if (!extra || json_is_null(extra)) return IE_OK;
    if (!json_is_array(extra)) return ie_fail(l->err, IE_E_ARG, "'input_extra' must be a list of objects with filename and text");
    ie_status st = IE_OK;
    if (json_array_size(extra) && info->fim_rep >= 0) {
        st = add_ids(l, &info->fim_rep, 1);
        if (!st) st = add_text(l, "myproject\n", 10);
    }
    for (size_t i = 0; i < json_array_size(extra) && !st; i++) {
        const json_t *file = json_array_get(extra, i), *text = json_object_get(file, "text"), *name = json_object_get(file, "filename");
        if (!json_is_string(text) || (name && !json_is_string(name)))
            return ie_fail(l->err, IE_E_ARG, "'input_extra' must be a list of objects with filename and text");
        if (info->fim_sep < 0) {
            st = add_text(l, between, sizeof between - 1);
        } else {
            st = add_ids(l, &info->fim_sep, 1);
            if (!st) st = name ? add_text(l, json_string_value(name), json_string_length(name)) : add_text(l, "tmp", 3);
            if (!st) st = add_text(l, "\n", 1);
        }
        if (!st) st = add_text(l, json_string_value(text), json_string_length(text));
    }
    if (!st && json_array_size(extra) && info->fim_sep >= 0) {
        st = add_ids(l, &info->fim_sep, 1);
        if (!st) st = add_text(l, "filename\n", 9);
    }
    return st;
}

/* The token that texts of this model begin with, where there is one. */
static ie_status add_bos(id_list *l) {
    int32_t *ids;
    size_t n;
    ie_status st = ie_tokenize(l->s->model, "", 0, IE_TOK_ADD_SPECIAL, &ids, &n, l->err);
    if (st) return st;
    if (n && ids[0] == l->s->info.bos) st = add_ids(l, ids, 1);
    ie_free(ids);
    return st;
}

ie_status serve_fim_prompt(serve *s, const json_t *prefix, const json_t *suffix, const json_t *extra, const json_t *begin, serve_prompt *out,
                           ie_error *err) {
    const ie_model_info *info = &s->info;
    if (info->fim_pre < 0 || info->fim_suf < 0 || info->fim_mid < 0)
        return ie_fail(err, IE_E_ARG, "the model cannot fill in: its vocabulary has no tokens for prefix, suffix and middle");
    id_list l = {.s = s, .err = err};
    ie_status st = add_bos(&l);
    if (!st) st = add_extra(&l, extra);
    if (!st) st = add_ids(&l, &info->fim_pre, 1);
    if (!st) st = add_member(&l, prefix, "input_prefix");
    if (!st) st = add_ids(&l, &info->fim_suf, 1);
    if (!st) st = add_member(&l, suffix, "input_suffix");
    if (!st) st = add_ids(&l, &info->fim_mid, 1);
    if (!st) st = add_member(&l, begin, "prompt");
    if (st) free(l.id);
    else *out = (serve_prompt){l.id, (int32_t)l.n};
    return st;
}
