/* Messages to prompts: checks, then the chat template. */
#include <stdlib.h>
#include <string.h>

#include "../model/model.h"
#include "serve.h"

/* Members of the request that templates know. */
static const char *const passed[] = {"documents", "tool_choice", "reasoning_effort"};

/* What a template tells of itself. */
typedef struct {
    ie_str text;
    bool knows_tools, knows_developer, thinks;
    bool takes_text; /* the arguments of earlier calls may be text */
    const tool_style *style;
} chat_template;

static bool holds(ie_str s, const char *word) { return memmem(s.s, s.len, word, strlen(word)) != NULL; }

static chat_template template_of(const serve *s) {
    chat_template t = {.text = {s->template_text, s->template_len}};
    ie_error none;
    if (!t.text.s && ie_gguf_str(s->model->gguf, "tokenizer.chat_template", "", &t.text, &none)) t.text = (ie_str){"", 0};
    t.style = tool_style_of(t.text.s, t.text.len);
    t.knows_tools = holds(t.text, "tools");
    t.knows_developer = holds(t.text, "developer");
    t.thinks = holds(t.text, "</think>") || holds(t.text, "<think>");
    t.takes_text = !t.style->objects && holds(t.text, "arguments is string");
    return t;
}

/* The arguments of an earlier call as an object, where they are one as text. */
static void parse_arguments(json_t *copy) {
    json_t *calls = json_deep_copy(json_object_get(copy, "tool_calls")), *call;
    size_t i;
    json_array_foreach(calls, i, call) {
        json_t *f = json_object_get(call, "function");
        const json_t *text = json_object_get(f, "arguments");
        json_t *args = json_is_string(text) ? json_loadb(json_string_value(text), json_string_length(text), JSON_ALLOW_NUL, NULL) : NULL;
        if (json_is_object(args)) json_object_set(f, "arguments", args);
        json_decref(args);
    }
    json_object_set_new(copy, "tool_calls", calls);
}

static ie_status check_calls(const json_t *m, ie_error *err) {
    const json_t *calls = json_object_get(m, "tool_calls"), *old = json_object_get(m, "function_call"), *call;
    size_t i;
    if (old && !json_is_null(old)) return ie_fail(err, IE_E_ARG, "a message's 'function_call' is not supported: use 'tool_calls'");
    if (!calls || json_is_null(calls)) return IE_OK;
    if (!json_is_array(calls)) return ie_fail(err, IE_E_ARG, "a message's 'tool_calls' must be a list");
    json_array_foreach(calls, i, call) {
        const json_t *f = json_object_get(call, "function"), *args = json_object_get(f, "arguments");
        if (!json_is_string(json_object_get(f, "name")) || (args && !json_is_string(args) && !json_is_object(args)))
            return ie_fail(err, IE_E_ARG, "each of a message's 'tool_calls' must have a function with a name and arguments");
    }
    return IE_OK;
}

static ie_status copy_message(const chat_template *t, const json_t *m, json_t *list, ie_error *err) {
    const json_t *content = json_object_get(m, "content");
    const char *role = json_string_value(json_object_get(m, "role"));
    if (!role) return ie_fail(err, IE_E_ARG, "each of 'messages' must be an object with a role and a content");
    if (content && !json_is_string(content) && !json_is_array(content) && !json_is_null(content))
        return ie_fail(err, IE_E_ARG, "a message's content must be a string or a list of parts");
    ie_status st = check_calls(m, err);
    if (st) return st;
    json_t *copy = json_copy((json_t *)(uintptr_t)m), *text = NULL;
    static const char *const types[] = {"text", "input_text", "output_text", "", NULL};
    st = json_is_array(content) ? serve_parts_text(content, "a message's content", types, &text, err) : IE_OK;
    if (!st && (!content || json_is_null(content))) text = json_string("");
    if (!st && text) json_object_set_new(copy, "content", text);
    if (!json_array_size(json_object_get(copy, "tool_calls"))) json_object_del(copy, "tool_calls");
    else if (!t->takes_text) parse_arguments(copy);
    if (!strcmp(role, "developer") && !t->knows_developer) json_object_set_new(copy, "role", json_string("system"));
    if (st) json_decref(copy);
    else json_array_append_new(list, copy);
    return st;
}

/* What came before tools, and what a model of text cannot give: no client shall wait for it in vain. */
static ie_status refuse_unsupported(const json_t *body, ie_error *err) {
    static const char *const rows[][2] = {
        {"functions", "use 'tools'"}, {"function_call", "use 'tool_choice'"}, {"audio", "answers are text"}, {"web_search_options", "give a tool of your own"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const json_t *v = json_object_get(body, rows[i][0]);
        if (v && !json_is_null(v)) return ie_fail(err, IE_E_ARG, "'%s' is not supported: %s", rows[i][0], rows[i][1]);
    }
    return IE_OK;
}

/* Messages as the template wants them; a new reference. */
static json_t *messages_for(serve *s, const json_t *body, const chat_template *t, const json_t *tools, ie_error *err) {
    json_t *messages = NULL, *list = json_array();
    static const serve_member noted[] = {
        {"reasoning_effort", SERVE_WORD, SERVE_EFFORTS}, {"documents", SERVE_LIST, NULL}, {NULL, SERVE_WORD, NULL}};
    ie_status st = refuse_unsupported(body, err);
    if (!st) st = serve_check_members(body, noted, err);
    if (!st) st = serve_get_arr(body, "messages", &messages, err);
    if (!st && json_array_size(messages) == 0) st = ie_fail(err, IE_E_ARG, "'messages' must be a list of at least one message");
    const char *role = json_string_value(json_object_get(json_array_get(messages, 0), "role"));
    if (!st && s->opts.system && (!role || (strcmp(role, "system") && strcmp(role, "developer"))))
        json_array_append_new(list, json_pack("{s:s, s:s}", "role", "system", "content", s->opts.system));
    for (size_t i = 0; i < json_array_size(messages) && !st; i++) st = copy_message(t, json_array_get(messages, i), list, err);
    json_t *out = st ? NULL : t->knows_tools ? json_incref(list) : tools_as_text(list, tools, t->style, err);
    json_decref(list);
    return out;
}

/* The template's variables as JSON. */
static ie_status variables(serve *s, const json_t *body, const chat_template *t, const json_t *tools, ie_buf *out, ie_error *err) {
    json_t *extra = NULL, *vars = json_object(), *v, *list = messages_for(s, body, t, tools, err);
    const char *key, *effort = json_string_value(json_object_get(body, "reasoning_effort"));
    ie_status st = list ? serve_get_obj(body, "chat_template_kwargs", &extra, err) : err->code;
    if (list) json_object_set_new(vars, "messages", list);
    if (tools && t->knows_tools) json_object_set(vars, "tools", (json_t *)(uintptr_t)tools);
    for (size_t i = 0; i < sizeof passed / sizeof *passed && !st; i++)
        if ((v = json_object_get(body, passed[i])) && !json_is_null(v)) json_object_set(vars, passed[i], v);
    if (effort && !strcmp(effort, "none")) json_object_set_new(vars, "enable_thinking", json_false());
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
    json_t *tools, *callable = NULL;
    tool_choice choice;
    chat_template t = template_of(s);
    ie_status st = tools_read(json_object_get(body, "tools"), &tools, err);
    if (!st) st = tool_choice_read(json_object_get(body, "tool_choice"), tools, &choice, &callable, err);
    if (!st) st = variables(s, body, &t, tools, &vars, err);
    if (!st) st = client_error(ie_chat_render(s->model, s->template_text, s->template_len, vars.data, vars.len, 1, text, n, NULL, NULL, err), err);
    ie_buf_free(&vars);
    json_decref(tools);
    json_decref(callable);
    return st;
}

/* How an answer to this prompt begins: the prompt may end inside or behind the thinking. */
static think_state thinking(const chat_template *t, const char *text, size_t n) {
    static const char open[] = "<think>", closed[] = "</think>";
    while (n && (text[n - 1] == '\n' || text[n - 1] == ' ')) n--;
    if (!t->thinks) return THINK_MAYBE; /* a model may do what its template does not show */
    if (n >= sizeof open - 1 && !memcmp(text + n - (sizeof open - 1), open, sizeof open - 1)) return THINK_OPEN;
    return n >= sizeof closed - 1 && !memcmp(text + n - (sizeof closed - 1), closed, sizeof closed - 1) ? THINK_NEVER : THINK_MAYBE;
}

/* Tokens that the next prompt of this conversation will begin with, too: those before the generation prompt. */
static int32_t stable(const serve *s, const ie_buf *vars, const int32_t *prompt, size_t n) {
    int32_t *before = NULL;
    size_t n_before = 0, same = 0;
    ie_error none;
    if (ie_chat_render(s->model, s->template_text, s->template_len, vars->data, vars->len, 0, NULL, NULL, &before, &n_before, &none)) n_before = 0;
    while (same < n && same < n_before && before[same] == prompt[same]) same++;
    ie_free(before);
    return (int32_t)same;
}

static ie_status chat_prompt(serve *s, const json_t *body, const chat_template *t, serve_params *p, ie_error *err) {
    ie_buf vars = {0};
    char *text = NULL;
    size_t n = 0, n_text = 0;
    ie_status st = variables(s, body, t, p->tools, &vars, err);
    if (!st)
        st = client_error(ie_chat_render(s->model, s->template_text, s->template_len, vars.data, vars.len, 1, &text, &n_text, &p->job.prompt, &n, err), err);
    p->job.n_prompt = (int32_t)n;
    if (!st) p->form.think = thinking(t, text, n_text);
    if (!st && s->info.n_recurrent) p->job.n_stable = stable(s, &vars, p->job.prompt, n);
    ie_free(text);
    ie_buf_free(&vars);
    return st;
}

ie_status serve_chat_job(serve *s, const json_t *body, serve_params *p, ie_error *err) {
    chat_template t = template_of(s);
    tool_choice choice = TOOL_CHOICE_NONE;
    json_t *callable = NULL;
    bool parallel = true;
    ie_status st = serve_read_sampling(s, body, p, err);
    if (st) return st;
    st = tools_read(json_object_get(body, "tools"), &p->tools, err);
    if (!st) st = tool_choice_read(json_object_get(body, "tool_choice"), p->tools, &choice, &callable, err);
    if (!st) st = serve_get_bool(body, "parallel_tool_calls", &parallel, err);
    if (!st) st = chat_prompt(s, body, &t, p, err);
    p->form.style = p->tools && choice != TOOL_CHOICE_NONE ? t.style : NULL;
    p->form.tools = p->tools;
    bool bound = p->constrained || choice == TOOL_CHOICE_REQUIRED || choice == TOOL_CHOICE_ONE;
    if (bound && !t.thinks) p->form.think = THINK_NEVER;
    if (!st) st = serve_chat_grammar(s, p, t.style, choice, callable, parallel, err);
    json_decref(callable);
    if (st) serve_params_free(p);
    return st;
}

/* ---- after the answer -------------------------------------------------------------------------------------------------------- */

/* Tokens of the conversation with the answer and a further message, whose text alone differs between two calls. */
static size_t next_prompt(serve *s, const json_t *body, const serve_params *p, json_t *message, const char *text, int32_t **out) {
    static const char role[2][8] = {"user", "tool"};
    chat_template t = template_of(s);
    ie_buf vars = {0};
    ie_error err;
    size_t n = 0;
    json_t *b = json_copy((json_t *)(uintptr_t)body), *list = json_copy(json_object_get(body, "messages"));
    json_array_append(list, message);
    json_array_append_new(list, json_pack("{s:s, s:s}", "role", role[json_object_get(message, "tool_calls") != NULL], "content", text));
    json_object_set_new(b, "messages", list);
    *out = NULL;
    if (variables(s, b, &t, p->tools, &vars, &err) ||
        ie_chat_render(s->model, s->template_text, s->template_len, vars.data, vars.len, 0, NULL, NULL, out, &n, &err))
        n = 0; /* the template does not take such a conversation: there is nothing to foresee */
    ie_buf_free(&vars);
    json_decref(b);
    return n;
}

void serve_chat_learn(serve *s, const json_t *body, const serve_params *p, const answer *a) {
    if (p->job.no_cache || answer_failed(a)) return;
    int32_t *one = NULL, *two = NULL;
    json_t *message = serve_chat_message(a);
    json_object_del(message, "reasoning_content"); /* most clients do not send it back */
    size_t n = next_prompt(s, body, p, message, "a", &one), m = n ? next_prompt(s, body, p, message, "b", &two) : 0, same = 0;
    while (same < n && same < m && one[same] == two[same]) same++;
    if (same) serve_learn(s, one, (int32_t)same);
    ie_free(one);
    ie_free(two);
    json_decref(message);
}
