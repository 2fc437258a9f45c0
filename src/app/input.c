#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app.h"

#define MAX_INPUT (1u << 30)

ie_status app_read_file(const char *path, ie_buf *out, ie_error *err) {
    bool std = strcmp(path, "-") == 0;
    FILE *f = std ? stdin : fopen(path, "rb");
    if (!f) return ie_fail(err, IE_E_IO, "file '%s': %s", path, strerror(errno));
    char chunk[65536];
    ie_status st = ie_buf_add(out, "", 0, err) ? IE_OK : err->code;
    for (size_t n; !st && (n = fread(chunk, 1, sizeof chunk, f)) > 0;) {
        if (out->len + n > MAX_INPUT) st = ie_fail(err, IE_E_ARG, "file '%s' has more than %u bytes", path, MAX_INPUT);
        else if (!ie_buf_add(out, chunk, n, err)) st = err->code;
    }
    if (!st && ferror(f)) st = ie_fail(err, IE_E_IO, "file '%s': %s", path, strerror(errno));
    if (!std) fclose(f);
    return st;
}

static bool is_sep(char c) { return c == ',' || c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v'; }

ie_status app_parse_ids(const char *text, size_t len, const char *what, int32_t **ids, size_t *n, ie_error *err) {
    size_t cap = 0;
    *ids = NULL;
    *n = 0;
    for (size_t i = 0; i < len;) {
        if (is_sep(text[i])) {
            i++;
            continue;
        }
        size_t start = i;
        int64_t v = 0;
        for (; i < len && text[i] >= '0' && text[i] <= '9' && v <= INT32_MAX; i++) v = v * 10 + (text[i] - '0');
        if (i == start || v > INT32_MAX || (i < len && !is_sep(text[i]))) {
            while (i < len && !is_sep(text[i])) i++;
            char shown[41] = {0};
            for (size_t k = 0; k < sizeof shown - 1 && k < i - start; k++) shown[k] = text[start + k] ? text[start + k] : '?';
            return ie_fail(err, IE_E_ARG, "%s: '%s' is not a token id; ids are whole numbers from 0, separated by commas or spaces", what, shown);
        }
        if (!ie_grow(ids, &cap, *n + 1, sizeof **ids, what, err)) return err->code;
        (*ids)[(*n)++] = (int32_t)v;
    }
    return *n ? IE_OK : ie_fail(err, IE_E_ARG, "%s: no token ids given", what);
}

bool app_from_text(const ie_run_opts *o) { return o->prompt || o->prompt_file; }

ie_status app_prompt_text(const ie_run_opts *o, ie_buf *out, ie_error *err) {
    if (o->prompt_file) return app_read_file(o->prompt_file, out, err);
    return ie_buf_add(out, o->prompt, strlen(o->prompt), err) ? IE_OK : err->code;
}

ie_status app_template(const ie_run_opts *o, ie_buf *out, ie_error *err) {
    return o->template_file ? app_read_file(o->template_file, out, err) : IE_OK;
}

/* Message bytes as a JSON string; text that is not UTF-8 cannot go through a template. */
static json_t *message(const char *role, const char *text, size_t len, ie_error *err) {
    json_t *content = json_stringn(text, len);
    if (!content) {
        ie_fail(err, IE_E_FORMAT, "the %s text is not valid UTF-8", role);
        return NULL;
    }
    return json_pack("{s:s, s:o}", "role", role, "content", content);
}

static ie_status through_template(const ie_model *m, const ie_run_opts *o, const ie_buf *text, int32_t **ids, size_t *n,
                                  ie_error *err) {
    json_t *list = json_array(), *vars = json_pack("{s:o}", "messages", list);
    json_t *msg = o->system ? message("system", o->system, strlen(o->system), err) : NULL;
    ie_status st = o->system && !msg ? err->code : IE_OK;
    if (msg) json_array_append_new(list, msg);
    msg = st ? NULL : message("user", text->data, text->len, err);
    if (!st && !msg) st = err->code;
    if (msg) json_array_append_new(list, msg);
    char *json = st ? NULL : json_dumps(vars, JSON_COMPACT);
    ie_buf tmpl = {0};
    if (!st && !json) st = ie_fail(err, IE_E_NOMEM, "chat: no memory for the messages");
    if (!st) st = app_template(o, &tmpl, err);
    if (!st && json) st = ie_chat_render(m, tmpl.data, tmpl.len, json, strlen(json), 1, NULL, NULL, ids, n, err);
    ie_buf_free(&tmpl);
    free(json);
    json_decref(vars);
    return st;
}

ie_status app_plain_ids(const ie_model *m, const ie_run_opts *o, const ie_buf *text, int32_t **ids, size_t *n, ie_error *err) {
    unsigned flags = (o->no_bos ? 0u : IE_TOK_ADD_SPECIAL) | (o->special ? IE_TOK_PARSE_SPECIAL : 0u);
    return ie_tokenize(m, text->data, text->len, flags, ids, n, err);
}

ie_status app_prompt_ids(const ie_model *m, const ie_run_opts *o, bool use_template, int32_t **ids, size_t *n, ie_error *err) {
    ie_buf text = {0};
    ie_status st;
    if (o->tokens) return app_parse_ids(o->tokens, strlen(o->tokens), "option --tokens", ids, n, err);
    st = o->tokens_file ? app_read_file(o->tokens_file, &text, err) : app_prompt_text(o, &text, err);
    if (!st && o->tokens_file) st = app_parse_ids(text.data, text.len, o->tokens_file, ids, n, err);
    else if (!st && use_template && !o->no_template && (o->template_file || ie_has_chat_template(m)))
        st = through_template(m, o, &text, ids, n, err);
    else if (!st) st = app_plain_ids(m, o, &text, ids, n, err);
    ie_buf_free(&text);
    if (!st && *n > INT32_MAX) st = ie_fail(err, IE_E_ARG, "the prompt has %zu tokens, too many", *n);
    return st;
}

ie_status app_grammar(const ie_model *m, const ie_run_opts *o, ie_grammar **out, ie_error *err) {
    const char *src = o->grammar ? o->grammar : o->json_schema;
    bool text = src && strstr(src, o->grammar ? "::=" : "{"); /* what every grammar, every schema has in it; else it is a file's name */
    ie_buf file = {0};
    *out = NULL;
    if (!src && !o->json_object) return IE_OK;
    ie_status st = src && !text ? app_read_file(src, &file, err) : IE_OK;
    if (!st) {
        ie_grammar_kind kind = o->grammar ? IE_GRAMMAR_GBNF : src ? IE_GRAMMAR_JSON_SCHEMA : IE_GRAMMAR_JSON_OBJECT;
        *out = ie_grammar_new(m, kind, text ? src : file.data, text ? strlen(src) : file.len, err);
        if (!*out) st = err->code;
    }
    ie_buf_free(&file);
    return st;
}
