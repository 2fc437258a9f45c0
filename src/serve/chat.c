/* Messages to prompts: checks, then the chat template. */
#include <stdlib.h>
#include <string.h>

#include "serve.h"

/* Members of the request that templates know. */
static const char *const passed[] = {"tools", "documents", "tool_choice"};

/* A message's content as text: a string, or parts of type "text". */
static ie_status content_text(const json_t *content, json_t **out, ie_error *err) {
    ie_buf b = {0};
    ie_status st = IE_OK;
    for (size_t i = 0; i < json_array_size(content) && !st; i++) {
        const json_t *part = json_array_get(content, i), *text = json_object_get(part, "text");
        const char *type = json_string_value(json_object_get(part, "type"));
        if (type && strcmp(type, "text") && strcmp(type, "input_text") && strcmp(type, "output_text"))
            st = ie_fail(err, IE_E_ARG, "content of type '%.40s' is not supported: this model takes text only", type);
        else if (!json_is_string(text)) st = ie_fail(err, IE_E_ARG, "a part of a message's content must have a type and a text");
        else if (!ie_buf_add(&b, json_string_value(text), json_string_length(text), err)) st = IE_E_NOMEM;
    }
    if (!st) *out = serve_json_text(b.data ? b.data : "", b.len);
    ie_buf_free(&b);
    return st;
}

static ie_status copy_message(const json_t *m, json_t *list, ie_error *err) {
    const json_t *content = json_object_get(m, "content");
    if (!json_is_string(json_object_get(m, "role"))) return ie_fail(err, IE_E_ARG, "each of 'messages' must be an object with a role and a content");
    if (content && !json_is_string(content) && !json_is_array(content) && !json_is_null(content))
        return ie_fail(err, IE_E_ARG, "a message's content must be a string or a list of parts");
    json_t *copy = json_copy((json_t *)(uintptr_t)m), *text = NULL;
    ie_status st = json_is_array(content) ? content_text(content, &text, err) : IE_OK;
    if (!st && (!content || json_is_null(content))) text = json_string("");
    if (!st && text) json_object_set_new(copy, "content", text);
    if (st) json_decref(copy);
    else json_array_append_new(list, copy);
    return st;
}

static ie_status variables(serve *s, const json_t *body, ie_buf *out, ie_error *err) {
    json_t *messages = NULL, *extra = NULL, *vars = json_object(), *list = json_array(), *v;
    const char *key;
    json_object_set_new(vars, "messages", list);
    ie_status st = serve_get_arr(body, "messages", &messages, err);
    if (!st && json_array_size(messages) == 0) st = ie_fail(err, IE_E_ARG, "'messages' must be a list of at least one message");
    if (!st) st = serve_get_obj(body, "chat_template_kwargs", &extra, err);
    const char *role = json_string_value(json_object_get(json_array_get(messages, 0), "role"));
    if (!st && s->opts.system && (!role || (strcmp(role, "system") && strcmp(role, "developer"))))
        json_array_append_new(list, json_pack("{s:s, s:s}", "role", "system", "content", s->opts.system));
    for (size_t i = 0; i < json_array_size(messages) && !st; i++) st = copy_message(json_array_get(messages, i), list, err);
    for (size_t i = 0; i < sizeof passed / sizeof *passed && !st; i++)
        if ((v = json_object_get(body, passed[i])) && !json_is_null(v)) json_object_set(vars, passed[i], v);
    if (!st && extra) {
        json_object_foreach(extra, key, v) json_object_set(vars, key, v);
    }
    if (!st && !serve_json_dump(vars, out, err)) st = IE_E_NOMEM;
    json_decref(vars);
    return st;
}

/* A template's own refusal is the client's to change. */
static ie_status client_error(ie_status st, ie_error *err) {
    if (st == IE_E_FORMAT || st == IE_E_UNSUPPORTED) err->code = IE_E_ARG;
    return st ? err->code : IE_OK;
}

ie_status serve_chat_text(serve *s, const json_t *body, char **text, size_t *n, ie_error *err) {
    ie_buf vars = {0};
    ie_status st = variables(s, body, &vars, err);
    if (!st) st = client_error(ie_chat_render(s->model, s->template_text, s->template_len, vars.data, vars.len, 1, text, n, NULL, NULL, err), err);
    ie_buf_free(&vars);
    return st;
}

ie_status serve_chat_prompt(serve *s, const json_t *body, serve_params *p, ie_error *err) {
    ie_buf vars = {0};
    size_t n = 0, n_before = 0;
    int32_t *before = NULL;
    ie_status st = variables(s, body, &vars, err);
    if (!st) st = client_error(ie_chat_render(s->model, s->template_text, s->template_len, vars.data, vars.len, 1, NULL, NULL, &p->job.prompt, &n, err), err);
    p->job.n_prompt = (int32_t)n;
    if (!st && s->info.n_recurrent) { /* where the generation prompt begins */
        ie_error none;
        if (ie_chat_render(s->model, s->template_text, s->template_len, vars.data, vars.len, 0, NULL, NULL, &before, &n_before, &none)) n_before = 0;
        size_t same = 0;
        while (same < n && same < n_before && before[same] == p->job.prompt[same]) same++;
        p->job.n_stable = (int32_t)same;
        ie_free(before);
    }
    ie_buf_free(&vars);
    return st;
}
