/* OpenAI's responses. A request is translated to a chat, the answer's parts are output items. Nothing is stored between requests. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "serve.h"

/* ---- from the request to a chat -------------------------------------------------------------------------------------------------- */

static const char *text_of(const json_t *o, const char *key) {
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

/* An assistant's turn is gathered from several items: reasoning, a message, calls. */
typedef struct {
    json_t *list; /* messages */
    json_t *open; /* the assistant's message that items still add to; in the list already */
} history;

static json_t *assistant(history *h) {
    if (!h->open) {
        h->open = json_pack("{s:s, s:s}", "role", "assistant", "content", "");
        json_array_append_new(h->list, h->open);
    }
    return h->open;
}

static ie_status message_item(history *h, const json_t *item, ie_error *err) {
    const char *role = text_of(item, "role");
    json_t *content = json_object_get(item, "content");
    if (!*role || !content) return ie_fail(err, IE_E_ARG, "an item of 'input' of type 'message' must have a role and a content");
    bool own = !strcmp(role, "assistant");
    if (own && h->open && !json_string_length(json_object_get(h->open, "content")) && !json_object_get(h->open, "tool_calls")) {
        json_object_set(h->open, "content", content); /* behind its reasoning */
        return IE_OK;
    }
    json_t *m = json_pack("{s:s, s:O}", "role", role, "content", content);
    json_array_append_new(h->list, m);
    h->open = own ? m : NULL;
    return IE_OK;
}

static ie_status call_item(history *h, const json_t *item, ie_error *err) {
    const char *id = text_of(item, "call_id"), *name = text_of(item, "name");
    const json_t *args = json_object_get(item, "arguments");
    if (!*id || !*name || !json_is_string(args)) return ie_fail(err, IE_E_ARG, "an item of type 'function_call' must have a call_id, a name and arguments");
    json_t *m = assistant(h), *calls = json_object_get(m, "tool_calls");
    if (!calls) json_object_set_new(m, "tool_calls", calls = json_array());
    json_array_append_new(calls, json_pack("{s:s, s:s, s:{s:s, s:O}}", "id", id, "type", "function", "function", "name", name, "arguments", args));
    return IE_OK;
}

static ie_status output_item(history *h, const json_t *item, ie_error *err) {
    json_t *output = json_object_get(item, "output");
    if (!*text_of(item, "call_id") || (!json_is_string(output) && !json_is_array(output)))
        return ie_fail(err, IE_E_ARG, "an item of type 'function_call_output' must have a call_id and an output");
    json_array_append_new(h->list, json_pack("{s:s, s:s, s:O}", "role", "tool", "tool_call_id", text_of(item, "call_id"), "content", output));
    h->open = NULL;
    return IE_OK;
}

/* What was thought: "content" where it is given, else the summary. */
static ie_status reasoning_item(history *h, const json_t *item, ie_error *err) {
    const json_t *content = json_object_get(item, "content"), *list = json_array_size(content) ? content : json_object_get(item, "summary"), *part;
    ie_buf b = {0};
    size_t i;
    bool ok = true;
    json_array_foreach(list, i, part) {
        const json_t *text = json_object_get(part, "text");
        if (json_is_string(text)) ok = ok && ie_buf_add(&b, json_string_value(text), json_string_length(text), err);
    }
    if (b.len) json_object_set_new(assistant(h), "reasoning_content", serve_json_text(b.data, b.len));
    ie_buf_free(&b);
    return ok ? IE_OK : IE_E_NOMEM;
}

static const struct {
    const char *type;
    ie_status (*take)(history *h, const json_t *item, ie_error *err);
} items[] = {{"message", message_item}, {"", message_item}, {"function_call", call_item}, {"function_call_output", output_item}, {"reasoning", reasoning_item}};

static ie_status take_item(history *h, const json_t *item, ie_error *err) {
    const char *type = "";
    if (!json_is_object(item)) return serve_wrong("input", item, err, "a string or a list of objects");
    ie_status st = serve_get_str(item, "type", &type, NULL, err);
    if (st) return st;
    for (size_t i = 0; i < sizeof items / sizeof *items; i++)
        if (!strcmp(items[i].type, type)) return items[i].take(h, item, err);
    return ie_fail(err, IE_E_ARG, "'input' holds an item of type '%.40s'; supported are message, function_call, function_call_output and reasoning", type);
}

static ie_status take_input(const json_t *body, json_t *chat, ie_error *err) {
    history h = {.list = json_array()};
    const json_t *input = json_object_get(body, "input"), *instructions = json_object_get(body, "instructions"), *item;
    size_t i;
    json_object_set_new(chat, "messages", h.list);
    if (json_is_string(instructions)) json_array_append_new(h.list, json_pack("{s:s, s:O}", "role", "system", "content", instructions));
    if (json_is_string(input)) {
        json_array_append_new(h.list, json_pack("{s:s, s:O}", "role", "user", "content", input));
        return IE_OK;
    }
    if (!json_array_size(input)) return ie_fail(err, IE_E_ARG, "'input' must be a string or a list of at least one item");
    ie_status st = IE_OK;
    json_array_foreach(input, i, item) {
        if (!st) st = take_item(&h, item, err);
    }
    if (!st && !json_array_size(h.list)) st = ie_fail(err, IE_E_ARG, "'input' holds no message and no result of a call");
    return st;
}

/* Tools are flat here: their members stand beside the type. */
static ie_status take_tools(const json_t *body, json_t *chat, ie_error *err) {
    static const char *const same[] = {"name", "description", "parameters", "strict"};
    json_t *tools = NULL, *list = json_array(), *t;
    size_t i;
    ie_status st = serve_get_arr(body, "tools", &tools, err);
    json_array_foreach(tools, i, t) {
        json_t *f = json_object();
        if (!st && !json_is_object(t)) st = ie_fail(err, IE_E_ARG, "each of 'tools' must be an object");
        serve_copy_members(t, f, same, sizeof same / sizeof *same);
        json_array_append_new(list, json_pack("{s:s, s:o}", "type", text_of(t, "type"), "function", f));
    }
    if (json_array_size(list)) json_object_set(chat, "tools", list);
    json_decref(list);
    return st;
}

static ie_status refuse_stored(const json_t *body, json_t *chat, ie_error *err) {
    (void)chat;
    static const char *const stored[] = {"previous_response_id", "conversation", "prompt"};
    bool background = false;
    for (size_t i = 0; i < sizeof stored / sizeof *stored; i++) {
        const json_t *v = json_object_get(body, stored[i]);
        if (v && !json_is_null(v)) return ie_fail(err, IE_E_ARG, "'%s' is not supported: this server stores nothing; send the whole conversation as 'input'", stored[i]);
    }
    ie_status st = serve_get_bool(body, "background", &background, err);
    if (!st && background) st = ie_fail(err, IE_E_ARG, "'background' is not supported: this server stores nothing");
    return st;
}

/* Beside those that all of OpenAI's endpoints share. "auto" is no promise to shorten: a conversation that exceeds the context is refused. */
static ie_status check_members(const json_t *body, json_t *chat, ie_error *err) {
    static const serve_member noted[] = {
        {"instructions", SERVE_STRING, NULL},
        {"truncation", SERVE_WORD, "auto, disabled"},
        {"include", SERVE_STRINGS, NULL},
        {"max_tool_calls", SERVE_COUNT, NULL},
        {"reasoning.effort", SERVE_WORD, SERVE_EFFORTS},
        {"reasoning.summary", SERVE_WORD, "auto, concise, detailed"},
        {"reasoning.generate_summary", SERVE_WORD, "auto, concise, detailed"},
        {"text.verbosity", SERVE_WORD, "low, medium, high"},
        {"text.format.type", SERVE_WORD, "text, json_object, json_schema"},
        {NULL, SERVE_WORD, NULL},
    };
    (void)chat;
    ie_status st = serve_check_openai(body, err);
    return st ? st : serve_check_members(body, noted, err);
}

static ie_status take_options(const json_t *body, json_t *chat, ie_error *err) {
    static const char *const same[] = {"temperature", "top_p", "top_k", "min_p", "seed", "cache_prompt", "chat_template_kwargs", "tool_choice",
                                       "parallel_tool_calls", "presence_penalty", "frequency_penalty", "repeat_penalty", "logit_bias", "stop"};
    json_t *text = NULL, *format = NULL, *reasoning = NULL;
    int64_t max = -1, top = 0; /* items of the answer have no log-probabilities */
    serve_copy_members(body, chat, same, sizeof same / sizeof *same);
    ie_status st = serve_get_obj(body, "text", &text, err);
    if (!st && text) st = serve_get_obj(text, "format", &format, err);
    if (!st) st = serve_get_obj(body, "reasoning", &reasoning, err);
    if (!st) st = serve_get_int(body, "top_logprobs", 0, 20, &top, err);
    if (!st) st = serve_get_int(body, "max_output_tokens", 1, INT32_MAX, &max, err);
    if (format) json_object_set(chat, "response_format", format);
    if (max > 0) json_object_set_new(chat, "max_tokens", json_integer(max));
    if (json_is_string(json_object_get(reasoning, "effort"))) json_object_set(chat, "reasoning_effort", json_object_get(reasoning, "effort"));
    return st;
}

static json_t *chat_of(const json_t *body, ie_error *err) {
    static const serve_step steps[] = {check_members, refuse_stored, take_input, take_tools, take_options};
    return serve_translate(body, steps, sizeof steps / sizeof *steps, err);
}

/* ---- answers -------------------------------------------------------------------------------------------------------------------------- */

typedef struct {
    serve_call *c;
    bool stream, gone;
    char id[64];
    int64_t created, sequence;
} response;

/* An item's id: the kind, the response's own letters, its place. */
static json_t *item_id(const response *r, const answer_part *p, uint32_t index) {
    static const char *const kinds[] = {[PART_THINKING] = "rs", [PART_TEXT] = "msg", [PART_CALL] = "fc"};
    return json_sprintf("%s_%s_%u", kinds[p->kind], r->id + strlen("resp_"), index);
}

/* The content part of a message or of reasoning. */
static json_t *content_part(const answer_part *p, const char *s, size_t n) {
    if (p->kind == PART_THINKING) return json_pack("{s:s, s:o}", "type", "reasoning_text", "text", serve_json_text(s, n));
    return json_pack("{s:s, s:o, s:[], s:[]}", "type", "output_text", "text", serve_json_text(s, n), "annotations", "logprobs");
}

/* The item of a part: empty while it begins, whole when it is done. */
static json_t *item(const response *r, const answer_part *p, uint32_t index, const char *status) {
    bool begins = !strcmp(status, "in_progress");
    const char *s = p->text.data && !begins ? p->text.data : "";
    size_t n = begins ? 0 : p->text.len;
    json_t *id = item_id(r, p, index);
    if (p->kind == PART_CALL)
        return json_pack("{s:s, s:o, s:s, s:o, s:o, s:s}", "type", "function_call", "id", id, "call_id", p->id, "name",
                         serve_json_text(p->name.data, p->name.len), "arguments", serve_json_text(s, n), "status", status);
    json_t *content = begins ? json_array() : json_pack("[o]", content_part(p, s, n));
    if (p->kind == PART_THINKING) return json_pack("{s:s, s:o, s:[], s:o, s:s}", "type", "reasoning", "id", id, "summary", "content", content, "status", status);
    return json_pack("{s:s, s:o, s:s, s:o, s:s}", "type", "message", "id", id, "role", "assistant", "content", content, "status", status);
}

static json_t *or_default(const json_t *body, const char *key, json_t *none) {
    json_t *v = json_object_get(body, key);
    if (!v || json_is_null(v)) return none;
    json_decref(none);
    return json_incref(v);
}

static json_t *usage(const serve_run *run) {
    const serve_result *r = &run->result;
    return json_pack("{s:i, s:{s:i}, s:i, s:{s:i}, s:i}", "input_tokens", r->n_prompt, "input_tokens_details", "cached_tokens", r->n_cached, "output_tokens",
                     r->n_predicted, "output_tokens_details", "reasoning_tokens", run->n_thought, "total_tokens", r->n_prompt + r->n_predicted);
}

/* The response object; run NULL: nothing has come yet. */
static json_t *envelope(const response *r, const serve_run *run, const ie_error *err) {
    const json_t *b = r->c->body;
    bool failed = err && err->code, cut = run && !failed && !strcmp(serve_finish(&run->result), "length");
    const char *status = failed ? "failed" : !run ? "in_progress" : cut ? "incomplete" : "completed";
    json_t *output = json_array(), *o = json_pack("{s:s, s:s, s:I, s:s, s:s}", "id", r->id, "object", "response", "created_at", (json_int_t)r->created, "status", status,
                                                  "model", r->c->s->model_id);
    uint32_t n = 0;
    const answer_part *p = run ? answer_parts(run->answer, &n) : NULL;
    for (uint32_t i = 0; i < n; i++) json_array_append_new(output, item(r, &p[i], i, cut && i + 1 == n ? "incomplete" : "completed"));
    json_object_set_new(o, "output", output);
    json_object_set_new(o, "error", failed ? json_pack("{s:s, s:s}", "code", "server_error", "message", err->msg) : json_null());
    json_object_set_new(o, "incomplete_details", cut ? json_pack("{s:s}", "reason", "max_output_tokens") : json_null());
    json_object_set_new(o, "usage", run && !failed ? usage(run) : json_null());
    json_object_set_new(o, "instructions", or_default(b, "instructions", json_null()));
    json_object_set_new(o, "max_output_tokens", or_default(b, "max_output_tokens", json_null()));
    json_object_set_new(o, "metadata", or_default(b, "metadata", json_object()));
    json_object_set_new(o, "parallel_tool_calls", or_default(b, "parallel_tool_calls", json_true()));
    json_object_set_new(o, "previous_response_id", json_null());
    json_object_set_new(o, "reasoning", or_default(b, "reasoning", json_pack("{s:n, s:n}", "effort", "summary")));
    json_object_set_new(o, "store", json_false());
    json_object_set_new(o, "temperature", or_default(b, "temperature", json_real(1)));
    json_object_set_new(o, "text", or_default(b, "text", json_pack("{s:{s:s}}", "format", "type", "text")));
    json_object_set_new(o, "tool_choice", or_default(b, "tool_choice", json_string("auto")));
    json_object_set_new(o, "tools", or_default(b, "tools", json_array()));
    json_object_set_new(o, "top_p", or_default(b, "top_p", json_real(1)));
    json_object_set_new(o, "truncation", json_string("disabled"));
    json_object_set_new(o, "user", or_default(b, "user", json_null()));
    return o;
}

/* ---- streams ------------------------------------------------------------------------------------------------------------------------- */

/* Takes event. */
static void send(response *r, const char *name, json_t *event) {
    json_object_set_new(event, "type", json_string(name));
    json_object_set_new(event, "sequence_number", json_integer(r->sequence++));
    if (!serve_sse(r->c, name, event)) r->gone = true;
}

static void begin(void *user) {
    response *r = user;
    if (!r->stream) return;
    serve_sse_begin(r->c);
    send(r, "response.created", json_pack("{s:o}", "response", envelope(r, NULL, NULL)));
    send(r, "response.in_progress", json_pack("{s:o}", "response", envelope(r, NULL, NULL)));
}

/* What is sent while a part grows and when it is done. */
static const struct {
    const char *delta, *done, *whole; /* whole: the member of `done` that holds all of it */
    bool content;                     /* the item has content parts */
} events[] = {
    [PART_THINKING] = {"response.reasoning_text.delta", "response.reasoning_text.done", "text", true},
    [PART_TEXT] = {"response.output_text.delta", "response.output_text.done", "text", true},
    [PART_CALL] = {"response.function_call_arguments.delta", "response.function_call_arguments.done", "arguments", false},
};

/* An event about part `index`, with the members that say which. */
static json_t *about(const response *r, const answer_part *p, uint32_t index) {
    json_t *e = json_pack("{s:o, s:i}", "item_id", item_id(r, p, index), "output_index", (int)index);
    if (events[p->kind].content) json_object_set_new(e, "content_index", json_integer(0));
    return e;
}

static void more(void *user, const answer_part *p, uint32_t index, bool first, const char *s, size_t n) {
    response *r = user;
    if (!r->stream) return;
    if (first) send(r, "response.output_item.added", json_pack("{s:i, s:o}", "output_index", (int)index, "item", item(r, p, index, "in_progress")));
    if (first && events[p->kind].content) {
        json_t *e = about(r, p, index);
        json_object_set_new(e, "part", content_part(p, "", 0));
        send(r, "response.content_part.added", e);
    }
    if (!n) return;
    json_t *e = about(r, p, index);
    json_object_set_new(e, "delta", serve_json_text(s, n));
    if (p->kind == PART_TEXT) json_object_set_new(e, "logprobs", json_array());
    send(r, events[p->kind].delta, e);
}

static void done(void *user, const answer_part *p, uint32_t index) {
    response *r = user;
    const char *s = p->text.data ? p->text.data : "";
    if (!r->stream) return;
    json_t *e = about(r, p, index);
    json_object_set_new(e, events[p->kind].whole, serve_json_text(s, p->text.len));
    if (p->kind == PART_TEXT) json_object_set_new(e, "logprobs", json_array());
    if (p->kind == PART_CALL) json_object_set_new(e, "name", serve_json_text(p->name.data, p->name.len));
    send(r, events[p->kind].done, e);
    if (events[p->kind].content) {
        e = about(r, p, index);
        json_object_set_new(e, "part", content_part(p, s, p->text.len));
        send(r, "response.content_part.done", e);
    }
    send(r, "response.output_item.done", json_pack("{s:i, s:o}", "output_index", (int)index, "item", item(r, p, index, "completed")));
}

static void end(response *r, const serve_run *run, const ie_error *err) {
    json_t *obj = envelope(r, run, err);
    if (!r->stream) {
        serve_reply_json(r->c, 200, obj);
        return;
    }
    char name[64];
    snprintf(name, sizeof name, "response.%s", json_string_value(json_object_get(obj, "status")));
    send(r, name, json_pack("{s:o}", "response", obj));
    http_end(r->c->http);
}

static void responses(serve_call *c) {
    ie_error err = {0};
    serve_params p = {.format_name = "text.format"};
    serve_run run = {0};
    response r = {.c = c, .created = (int64_t)time(NULL)};
    serve_new_id("resp_", r.id);
    json_t *chat = chat_of(c->body, &err);
    ie_status st = chat ? serve_get_bool(c->body, "stream", &r.stream, &err) : err.code;
    if (!st) st = serve_chat_job(c->s, chat, &p, &err);
    answer_sink sink = {more, done, &r};
    if (!st) st = serve_chat_run(c, &p, &sink, begin, &r.gone, &run, &err);
    if (st && !(run.begun && r.stream)) serve_reply_error(c, 0, &err);
    else end(&r, &run, &err);
    if (!st && run.result.n_predicted) serve_chat_learn(c->s, chat, &p, run.answer);
    serve_run_free(&run);
    serve_params_free(&p);
    json_decref(chat);
}

const serve_route serve_routes_responses[] = {
    {"POST", "/v1/responses", responses, ROUTE_MODEL | ROUTE_BODY, "OpenAI's responses"},
    {"POST", "/responses", responses, ROUTE_MODEL | ROUTE_BODY, "the same"},
    {NULL, NULL, NULL, 0, NULL},
};
