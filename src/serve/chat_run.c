/* One chat request of one answer, from its translated body to the parts: for the families that know no choices. */
#include <stdlib.h>
#include <string.h>

#include "serve.h"

void serve_run_free(serve_run *r) {
    answer_free(r->answer);
    r->answer = NULL;
}

ie_status serve_chat_run(serve_call *c, serve_params *p, const answer_sink *sink, void (*begin)(void *user), const bool *gone, serve_run *r, ie_error *err) {
    serve_event ev;
    *r = (serve_run){.answer = answer_new(&p->form, sink, err)};
    if (!r->answer) return err->code;
    serve_stream *st = serve_submit(c->s, &p->job, 1, &c->excess, err);
    if (!st) return err->code;
    ie_status code = IE_OK;
    http_on_gone(c->http, serve_cancel, st);
    while (!code && !*gone && serve_next(st, &ev)) {
        if (ev.kind == SERVE_EV_ERROR) code = ie_fail(err, ev.err.code, "%s", ev.err.msg);
        else if (!r->begun) begin(sink->user), r->begun = true;
        if (ev.n_text) answer_add(r->answer, ev.text, ev.n_text);
        if (ev.kind == SERVE_EV_TOKEN) r->n_thought += answer_thinks(r->answer);
        if (ev.kind == SERVE_EV_DONE) {
            answer_end(r->answer);
            r->result = ev.result;
        }
        serve_event_free(&ev);
    }
    http_on_gone(c->http, NULL, NULL);
    serve_stream_free(st);
    if (!code && answer_failed(r->answer)) code = ie_fail(err, IE_E_NOMEM, "no memory for the answer");
    return code;
}

/* ---- translating bodies --------------------------------------------------------------------------------------------------------- */

json_t *serve_translate(const json_t *body, const serve_step *steps, size_t n, ie_error *err) {
    json_t *chat = json_object();
    ie_status st = chat ? IE_OK : ie_fail(err, IE_E_NOMEM, "no memory for the request");
    for (size_t i = 0; i < n && !st; i++) st = steps[i](body, chat, err);
    if (!st) return chat;
    json_decref(chat);
    return NULL;
}

ie_status serve_parts_text(const json_t *parts, const char *what, const char *const *types, json_t **out, ie_error *err) {
    ie_buf b = {0};
    ie_status st = IE_OK;
    *out = NULL;
    for (size_t i = 0; i < json_array_size(parts) && !st; i++) {
        const json_t *part = json_array_get(parts, i), *text = json_object_get(part, "text"), *t = json_object_get(part, "type");
        const char *type = json_is_string(t) ? json_string_value(t) : "";
        size_t k = 0;
        while (types[k] && strcmp(types[k], type)) k++;
        if (!types[k]) st = ie_fail(err, IE_E_ARG, "%s holds a part of type '%.40s', which is not supported: this model takes text only", what, type);
        else if (!json_is_string(text) || (t && !json_is_null(t) && !json_is_string(t))) st = ie_fail(err, IE_E_ARG, "each part of %s must have a type and a text", what);
        else if (!ie_buf_add(&b, json_string_value(text), json_string_length(text), err)) st = IE_E_NOMEM;
    }
    if (!st && !(*out = serve_json_text(b.data ? b.data : "", b.len))) st = ie_fail(err, IE_E_NOMEM, "no memory for the messages");
    ie_buf_free(&b);
    return st;
}

void serve_copy_members(const json_t *from, json_t *to, const char *const *names, size_t n) {
    for (size_t i = 0; i < n; i++) {
        json_t *v = json_object_get(from, names[i]);
        if (v && !json_is_null(v)) json_object_set(to, names[i], v);
    }
}

void serve_set_kwarg(json_t *body, const char *name, json_t *value) {
    json_t *have = json_object_get(body, "chat_template_kwargs"), *all = json_is_object(have) ? json_copy(have) : json_object();
    if (all && !json_object_get(all, name)) json_object_set_new(all, name, value);
    else json_decref(value);
    json_object_set_new(body, "chat_template_kwargs", all);
}
