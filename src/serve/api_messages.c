/* Anthropic's endpoints: messages, counting their tokens. A request is translated to a chat in OpenAI's form, the answer's parts are content
 * blocks. */
#include <stdlib.h>
#include <string.h>

#include "serve.h"

/* ---- from Anthropic's request to a chat ----------------------------------------------------------------------------------------- */

static const char *type_of(const json_t *block) {
    const char *type = json_string_value(json_object_get(block, "type"));
    return type ? type : "";
}

/* The text of a string or of blocks of type text; a new string. */
static ie_status plain_text(const json_t *content, const char *what, json_t **out, ie_error *err) {
    static const char *const types[] = {"text", NULL};
    if (json_is_string(content)) return *out = json_copy((json_t *)(uintptr_t)content), IE_OK;
    *out = NULL;
    if (content && !json_is_array(content) && !json_is_null(content)) return ie_fail(err, IE_E_ARG, "%s must be a string or a list of blocks", what);
    return serve_parts_text(content, what, types, out, err);
}

/* A message under construction. */
typedef struct {
    json_t *list;        /* of the chat */
    const char *role;
    ie_buf text, thought;
    json_t *calls;
} turn;

/* Puts what was gathered into the list. */
static void end_turn(turn *t) {
    bool calls = json_array_size(t->calls) > 0;
    if (t->text.len || t->thought.len || calls) {
        json_t *m = json_pack("{s:s, s:o}", "role", t->role, "content", serve_json_text(t->text.data ? t->text.data : "", t->text.len));
        if (t->thought.len) json_object_set_new(m, "reasoning_content", serve_json_text(t->thought.data, t->thought.len));
        if (calls) json_object_set(m, "tool_calls", t->calls);
        json_array_append_new(t->list, m);
    }
    json_decref(t->calls);
    t->calls = NULL;
    ie_buf_free(&t->text);
    ie_buf_free(&t->thought);
}

static ie_status put(ie_buf *b, const json_t *text, const char *what, ie_error *err) {
    if (!json_is_string(text)) return ie_fail(err, IE_E_ARG, "a block of type '%s' must have the member '%s'", what, what);
    return ie_buf_add(b, json_string_value(text), json_string_length(text), err) ? IE_OK : IE_E_NOMEM;
}

static ie_status text_block(turn *t, const json_t *b, ie_error *err) { return put(&t->text, json_object_get(b, "text"), "text", err); }
static ie_status thinking_block(turn *t, const json_t *b, ie_error *err) { return put(&t->thought, json_object_get(b, "thinking"), "thinking", err); }
static ie_status hidden_block(turn *t, const json_t *b, ie_error *err) { return (void)t, (void)b, (void)err, IE_OK; } /* nobody else can read it */

static ie_status call_block(turn *t, const json_t *b, ie_error *err) {
    const json_t *input = json_object_get(b, "input");
    const char *id = json_string_value(json_object_get(b, "id")), *name = json_string_value(json_object_get(b, "name"));
    ie_buf args = {0};
    if (!id || !name || !json_is_object(input)) return ie_fail(err, IE_E_ARG, "a block of type 'tool_use' must have an id, a name and an input");
    if (!t->calls) t->calls = json_array();
    ie_status st = serve_json_dump(input, &args, err) ? IE_OK : IE_E_NOMEM;
    if (!st) json_array_append_new(t->calls, json_pack("{s:s, s:s, s:{s:s, s:s}}", "id", id, "type", "function", "function", "name", name, "arguments", args.data));
    ie_buf_free(&args);
    return st;
}

static ie_status result_block(turn *t, const json_t *b, ie_error *err) {
    const char *id = json_string_value(json_object_get(b, "tool_use_id"));
    json_t *text;
    if (!id) return ie_fail(err, IE_E_ARG, "a block of type 'tool_result' must have a tool_use_id");
    ie_status st = plain_text(json_object_get(b, "content"), "a tool_result", &text, err);
    if (st) return st;
    end_turn(t);
    json_array_append_new(t->list, json_pack("{s:s, s:s, s:o}", "role", "tool", "tool_call_id", id, "content", text));
    return IE_OK;
}

static const struct {
    const char *role, *type;
    ie_status (*take)(turn *t, const json_t *block, ie_error *err);
} blocks[] = {
    {"user", "text", text_block},           {"user", "tool_result", result_block},
    {"assistant", "text", text_block},      {"assistant", "tool_use", call_block},
    {"assistant", "thinking", thinking_block}, {"assistant", "redacted_thinking", hidden_block},
    {"system", "text", text_block},
};

static ie_status take_block(turn *t, const json_t *b, ie_error *err) {
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        if (!strcmp(blocks[i].role, t->role) && !strcmp(blocks[i].type, type_of(b))) return blocks[i].take(t, b, err);
    return ie_fail(err, IE_E_ARG, "a message's content (role '%s') holds a block of type '%.40s', which is not supported", t->role, type_of(b));
}

/* An answer to go on with, the last message, may be empty; all others hold something. */
static ie_status take_message(const json_t *m, bool last, json_t *list, ie_error *err) {
    static const char *const roles[] = {"user", "assistant", "system"};
    const json_t *content = json_object_get(m, "content"), *block;
    const char *role = json_string_value(json_object_get(m, "role"));
    turn t = {.list = list};
    for (size_t i = 0; role && i < sizeof roles / sizeof *roles; i++)
        if (!strcmp(roles[i], role)) t.role = roles[i];
    if (!json_is_object(m)) return ie_fail(err, IE_E_ARG, "each of 'messages' must be an object with a role and a content");
    if (!t.role) return ie_fail(err, IE_E_ARG, "a message's role must be user or assistant");
    if (!json_is_array(content) && !json_is_string(content)) return ie_fail(err, IE_E_ARG, "a message's content must be a string or a list of blocks");
    if (!json_array_size(content) && !json_string_length(content) && !(last && !strcmp(role, "assistant")))
        return ie_fail(err, IE_E_ARG, "a message's content must not be empty (role '%s')", role);
    if (json_is_string(content)) {
        json_array_append_new(list, json_pack("{s:s, s:O}", "role", role, "content", content));
        return IE_OK;
    }
    ie_status st = IE_OK;
    size_t i;
    json_array_foreach(content, i, block) {
        if (!st) st = take_block(&t, block, err);
    }
    end_turn(&t);
    return st;
}

static ie_status take_messages(const json_t *body, json_t *chat, ie_error *err) {
    json_t *list = json_array(), *messages = NULL, *text = NULL;
    json_object_set_new(chat, "messages", list);
    ie_status st = plain_text(json_object_get(body, "system"), "'system'", &text, err);
    if (!st && json_string_length(text)) json_array_append_new(list, json_pack("{s:s, s:O}", "role", "system", "content", text));
    json_decref(text);
    if (!st) st = serve_get_arr(body, "messages", &messages, err);
    if (!st && !json_array_size(messages)) st = ie_fail(err, IE_E_ARG, "'messages' must be a list of at least one message");
    for (size_t i = 0, n = json_array_size(messages); i < n && !st; i++) st = take_message(json_array_get(messages, i), i + 1 == n, list, err);
    return st;
}

static ie_status take_tools(const json_t *body, json_t *chat, ie_error *err) {
    json_t *tools = NULL, *list = json_array(), *t;
    size_t i;
    ie_status st = serve_get_arr(body, "tools", &tools, err);
    json_array_foreach(tools, i, t) {
        static const char *const same[] = {"name", "description", "strict"};
        json_t *f = json_object(), *schema = json_object_get(t, "input_schema");
        const char *type = NULL;
        if (!st && !json_is_object(t)) st = ie_fail(err, IE_E_ARG, "each of 'tools' must be an object");
        if (!st) st = serve_get_str(t, "type", &type, NULL, err);
        if (!st && *type_of(t) && strcmp(type_of(t), "custom")) st = ie_fail(err, IE_E_ARG, "a tool's type is '%.40s'; only tools of your own are supported", type_of(t));
        if (!st && !json_is_object(schema)) st = ie_fail(err, IE_E_ARG, "each of 'tools' must have an input_schema");
        serve_copy_members(t, f, same, sizeof same / sizeof *same);
        if (schema) json_object_set(f, "parameters", schema);
        json_array_append_new(list, json_pack("{s:s, s:o}", "type", "function", "function", f));
    }
    if (!st && json_array_size(list)) json_object_set(chat, "tools", list);
    json_decref(list);
    return st;
}

static ie_status take_choice(const json_t *body, json_t *chat, ie_error *err) {
    static const char *const words[][2] = {{"auto", "auto"}, {"any", "required"}, {"none", "none"}};
    json_t *choice = NULL;
    bool one = false;
    ie_status st = serve_get_obj(body, "tool_choice", &choice, err);
    if (st || !choice) return st;
    st = serve_get_bool(choice, "disable_parallel_tool_use", &one, err);
    if (one) json_object_set_new(chat, "parallel_tool_calls", json_false());
    if (st) return st;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcmp(words[i][0], type_of(choice))) return json_object_set_new(chat, "tool_choice", json_string(words[i][1])), IE_OK;
    const char *name = json_string_value(json_object_get(choice, "name"));
    if (strcmp(type_of(choice), "tool") || !name) return ie_fail(err, IE_E_ARG, "'tool_choice' must be of type auto, any, none, or tool with a name");
    json_object_set_new(chat, "tool_choice", json_pack("{s:s, s:{s:s}}", "type", "function", "function", "name", name));
    return IE_OK;
}

static ie_status check_members(const json_t *body, json_t *chat, ie_error *err) {
    static const serve_member noted[] = {
        {"model", SERVE_STRING, NULL},
        {"metadata", SERVE_OBJECT, NULL},
        {"metadata.user_id", SERVE_STRING, NULL},
        {"service_tier", SERVE_WORD, "auto, standard_only"},
        {"stream", SERVE_BOOL, NULL},
        {"container", SERVE_STRING, NULL},
        {"context_management", SERVE_OBJECT, NULL},
        {"mcp_servers", SERVE_LIST, NULL},
        {"thinking.type", SERVE_WORD, "enabled, disabled, adaptive"},
        {"thinking.budget_tokens", SERVE_COUNT, NULL},
        {"stop_sequences", SERVE_STRINGS, NULL},
        {"output_config.effort", SERVE_WORD, SERVE_EFFORTS},
        {"output_config.format.type", SERVE_WORD, "text, json_object, json_schema"},
        {"output_format.type", SERVE_WORD, "text, json_object, json_schema"},
        {NULL, SERVE_WORD, NULL},
    };
    (void)chat;
    ie_status st = serve_check_members(body, noted, err);
    if (!st && json_array_size(json_object_get(body, "mcp_servers"))) st = ie_fail(err, IE_E_ARG, "'mcp_servers' is not supported: give tools of your own");
    return st;
}

/* Which of the two names the client uses: the one that take_options takes. */
static const char *format_name(const json_t *body) {
    return json_is_object(json_object_get(json_object_get(body, "output_config"), "format")) ? "output_config.format" : "output_format";
}

/* thinking is off unless it is asked for; output_config.format is a schema. */
static ie_status take_options(const json_t *body, json_t *chat, ie_error *err) {
    static const char *const same[] = {"max_tokens", "temperature", "top_p", "top_k", "min_p", "seed", "cache_prompt", "chat_template_kwargs",
                                       "repeat_penalty", "presence_penalty", "frequency_penalty"};
    json_t *thinking = NULL, *config = NULL, *format = NULL, *stops = NULL;
    serve_copy_members(body, chat, same, sizeof same / sizeof *same);
    ie_status st = serve_get_obj(body, "thinking", &thinking, err);
    const char *type = thinking ? type_of(thinking) : "disabled";
    if (!st && strcmp(type, "enabled") && strcmp(type, "disabled") && strcmp(type, "adaptive"))
        st = ie_fail(err, IE_E_ARG, "'thinking.type' must be enabled, disabled or adaptive");
    if (!st) st = serve_get_arr(body, "stop_sequences", &stops, err);
    if (!st) st = serve_get_obj(body, "output_config", &config, err);
    if (!st && config) st = serve_get_obj(config, "format", &format, err);
    if (!st && !format) st = serve_get_obj(body, "output_format", &format, err);
    if (!st && json_array_size(stops) > IE_STOP_MAX) st = ie_fail(err, IE_E_ARG, "'stop_sequences' are %zu, allowed are at most %u", json_array_size(stops), IE_STOP_MAX);
    if (stops) json_object_set(chat, "stop", stops);
    if (!st && format && !*type_of(format)) st = ie_fail(err, IE_E_ARG, "'%s' has no type", format_name(body));
    if (format) json_object_set(chat, "response_format", format);
    if (!st) serve_set_kwarg(chat, "enable_thinking", json_boolean(strcmp(type, "disabled")));
    return st;
}

static json_t *chat_of(const json_t *body, ie_error *err) {
    static const serve_step steps[] = {check_members, take_messages, take_tools, take_choice, take_options};
    return serve_translate(body, steps, sizeof steps / sizeof *steps, err);
}

/* ---- answers -------------------------------------------------------------------------------------------------------------------------- */

typedef struct {
    serve_call *c;
    const serve_params *p;
    bool stream, gone;
    char id[64];
} message;

static json_t *usage(int32_t prompt, int32_t cached, int32_t output) {
    return json_pack("{s:i, s:i, s:i, s:i}", "input_tokens", prompt - cached, "cache_creation_input_tokens", 0, "cache_read_input_tokens", cached,
                     "output_tokens", output);
}

static void send(message *m, const char *name, json_t *event) {
    json_object_set_new(event, "type", json_string(name));
    if (!serve_sse(m->c, name, event)) m->gone = true;
}

static json_t *envelope(const message *m, json_t *content, json_t *use) {
    return json_pack("{s:s, s:s, s:s, s:s, s:o, s:n, s:n, s:o}", "id", m->id, "type", "message", "role", "assistant", "model", m->c->s->model_id, "content",
                     content, "stop_reason", "stop_sequence", "usage", use);
}

static void begin(void *user) {
    message *m = user;
    if (!m->stream) return;
    serve_sse_begin(m->c);
    send(m, "message_start", json_pack("{s:o}", "message", envelope(m, json_array(), usage(m->p->job.n_prompt, 0, 0))));
}

/* The block of a part with text s. A call's input is an object: empty at the beginning of a stream. */
static json_t *block(const answer_part *p, const char *s, size_t n) {
    if (p->kind == PART_TEXT) return json_pack("{s:s, s:o}", "type", "text", "text", serve_json_text(s, n));
    if (p->kind == PART_THINKING) return json_pack("{s:s, s:o, s:s}", "type", "thinking", "thinking", serve_json_text(s, n), "signature", "");
    json_t *input = n ? json_loadb(s, n, JSON_ALLOW_NUL, NULL) : NULL;
    return json_pack("{s:s, s:s, s:o, s:o}", "type", "tool_use", "id", p->id, "name", serve_json_text(p->name.data, p->name.len), "input",
                     input ? input : json_object());
}

static void more(void *user, const answer_part *p, uint32_t index, bool first, const char *s, size_t n) {
    static const char *const deltas[][2] = {
        [PART_THINKING] = {"thinking_delta", "thinking"}, [PART_TEXT] = {"text_delta", "text"}, [PART_CALL] = {"input_json_delta", "partial_json"}};
    message *m = user;
    if (!m->stream) return;
    if (first) send(m, "content_block_start", json_pack("{s:i, s:o}", "index", (int)index, "content_block", block(p, "", 0)));
    if (!n) return;
    json_t *delta = json_pack("{s:s, s:o}", "type", deltas[p->kind][0], deltas[p->kind][1], serve_json_text(s, n));
    send(m, "content_block_delta", json_pack("{s:i, s:o}", "index", (int)index, "delta", delta));
}

static void done(void *user, const answer_part *p, uint32_t index) {
    message *m = user;
    if (!m->stream) return;
    if (p->kind == PART_THINKING)
        send(m, "content_block_delta", json_pack("{s:i, s:{s:s, s:s}}", "index", (int)index, "delta", "type", "signature_delta", "signature", ""));
    send(m, "content_block_stop", json_pack("{s:i}", "index", (int)index));
}

/* Sets stop_reason and stop_sequence. */
static void set_reason(const message *m, const serve_run *r, json_t *obj) {
    static const char *const reasons[] = {
        [SERVE_STOP_END] = "end_turn", [SERVE_STOP_STRING] = "stop_sequence", [SERVE_STOP_LENGTH] = "max_tokens", [SERVE_STOP_CTX] = "max_tokens"};
    bool string = r->result.reason == SERVE_STOP_STRING;
    bool calls = r->result.reason == SERVE_STOP_END && answer_has_calls(r->answer);
    json_object_set_new(obj, "stop_reason", json_string(calls ? "tool_use" : reasons[r->result.reason]));
    const ie_stop_text *stop = string ? &m->p->stop[r->result.stop] : NULL;
    json_object_set_new(obj, "stop_sequence", stop ? serve_json_text(stop->s, stop->len) : json_null());
}

static void end(message *m, const serve_run *r, const ie_error *err) {
    json_t *use = usage(r->result.n_prompt, r->result.n_cached, r->result.n_predicted);
    if (!m->stream) {
        uint32_t n;
        const answer_part *p = answer_parts(r->answer, &n);
        json_t *content = json_array();
        for (uint32_t i = 0; i < n; i++) json_array_append_new(content, block(&p[i], p[i].text.data ? p[i].text.data : "", p[i].text.len));
        json_t *obj = envelope(m, content, use);
        set_reason(m, r, obj);
        serve_reply_json(m->c, 200, obj);
        return;
    }
    if (err->code) {
        serve_sse(m->c, "error", serve_call_error(m->c, 0, err));
        json_decref(use);
    } else {
        json_t *delta = json_object();
        set_reason(m, r, delta);
        send(m, "message_delta", json_pack("{s:o, s:o}", "delta", delta, "usage", use));
        send(m, "message_stop", json_object());
    }
    http_end(m->c->http);
}

static void messages(serve_call *c) {
    ie_error err = {0};
    serve_params p = {.format_name = format_name(c->body)};
    serve_run r = {0};
    int64_t max = -1;
    message m = {.c = c, .p = &p};
    serve_new_id("msg_", m.id);
    json_t *chat = chat_of(c->body, &err);
    ie_status st = chat ? serve_get_int(c->body, "max_tokens", 1, INT32_MAX, &max, &err) : err.code;
    if (!st && max < 0) st = ie_fail(&err, IE_E_ARG, "'max_tokens' is missing");
    if (!st) st = serve_get_bool(c->body, "stream", &m.stream, &err);
    if (!st) st = serve_chat_job(c->s, chat, &p, &err);
    p.form.call_id = "toolu_";
    answer_sink sink = {more, done, &m};
    if (!st) st = serve_chat_run(c, &p, &sink, begin, &m.gone, &r, &err);
    if (st && !(r.begun && m.stream)) serve_reply_error(c, 0, &err);
    else end(&m, &r, &err);
    if (!st && r.result.n_predicted) serve_chat_learn(c->s, chat, &p, r.answer);
    serve_run_free(&r);
    serve_params_free(&p);
    json_decref(chat);
}

static void count_tokens(serve_call *c) {
    ie_error err = {0};
    serve_params p = {.format_name = format_name(c->body)};
    json_t *chat = chat_of(c->body, &err);
    ie_status st = chat ? serve_chat_job(c->s, chat, &p, &err) : err.code;
    if (st) serve_reply_error(c, 0, &err);
    else serve_reply_json(c, 200, json_pack("{s:i}", "input_tokens", p.job.n_prompt));
    serve_params_free(&p);
    json_decref(chat);
}

const serve_route serve_routes_messages[] = {
    {"POST", "/v1/messages", messages, ROUTE_MODEL | ROUTE_BODY | ROUTE_ANTHROPIC, "Anthropic's messages"},
    {"POST", "/v1/messages/count_tokens", count_tokens, ROUTE_MODEL | ROUTE_BODY | ROUTE_ANTHROPIC, "tokens of such a request"},
    {NULL, NULL, NULL, 0, NULL},
};
