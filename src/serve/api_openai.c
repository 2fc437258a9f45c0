/* OpenAI's chat completions. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "serve.h"

#define MAX_CHOICES 16

typedef struct chat chat;

/* One of the n answers. */
typedef struct {
    chat *k;
    uint32_t index, n_calls;
    answer *answer;
    json_t *probs; /* entries not given out yet; NULL without log-probabilities */
    serve_result result;
} choice;

struct chat {
    serve_call *c;
    bool stream, usage, probs;
    bool gone; /* the client has left */
    uint32_t n;
    char id[64];
    int64_t created;
    choice choice[MAX_CHOICES];
};

/* ---- log-probabilities --------------------------------------------------------------------------------------------------------- */

static void add_prob(choice *x, const serve_event *ev) {
    if (x->probs) json_array_append_new(x->probs, serve_token_prob(x->k->c->s, ev));
}

/* The "logprobs" member of the entries so far, which are used up. */
static json_t *take_probs(choice *x) {
    if (!x->probs || !json_array_size(x->probs)) return json_null();
    json_t *member = json_pack("{s:o}", "content", x->probs);
    x->probs = json_array();
    return member;
}

/* ---- streams --------------------------------------------------------------------------------------------------------------- */

static json_t *envelope(const chat *k, json_t *choices, const char *object) {
    return json_pack("{s:s, s:s, s:I, s:s, s:s, s:o}", "id", k->id, "object", object, "created", (json_int_t)k->created, "model", k->c->s->model_id,
                     "system_fingerprint", "ie-" IE_VERSION, "choices", choices);
}

/* Takes delta. */
static void send_chunk(choice *x, json_t *delta, const char *finish) {
    chat *k = x->k;
    json_t *one = json_pack("{s:i, s:o, s:o, s:s?}", "index", (int)x->index, "delta", delta, "logprobs", take_probs(x), "finish_reason", finish);
    json_t *obj = envelope(k, json_pack("[o]", one), "chat.completion.chunk");
    if (k->usage) json_object_set_new(obj, "usage", json_null());
    if (!serve_sse(k->c, NULL, obj)) k->gone = true;
}

/* answer_sink: a piece of a part as a delta. */
static void send_part(void *user, const answer_part *p, uint32_t index, bool first, const char *s, size_t n) {
    static const char *const names[] = {[PART_THINKING] = "reasoning_content", [PART_TEXT] = "content"};
    choice *x = user;
    (void)index;
    x->n_calls += first && p->kind == PART_CALL;
    if (!x->k->stream) return;
    json_t *piece = serve_json_text(s, n);
    if (p->kind != PART_CALL) {
        send_chunk(x, json_pack("{s:o}", names[p->kind], piece), NULL);
        return;
    }
    json_t *function = json_pack("{s:o}", "arguments", piece), *call = json_pack("{s:i, s:o}", "index", (int)x->n_calls - 1, "function", function);
    if (first) {
        json_object_set_new(function, "name", serve_json_text(p->name.data, p->name.len));
        json_object_set_new(call, "id", json_string(p->id));
        json_object_set_new(call, "type", json_string("function"));
    }
    send_chunk(x, json_pack("{s:[o]}", "tool_calls", call), NULL);
}

static void send_progress(chat *k, const serve_event *ev) {
    json_t *obj = envelope(k, json_pack("[{s:i, s:{}, s:n}]", "index", (int)ev->index, "delta", "finish_reason"), "chat.completion.chunk");
    json_object_set_new(obj, "prompt_progress", serve_progress(ev));
    if (!serve_sse(k->c, NULL, obj)) k->gone = true;
}

static const char *finish(const choice *x) {
    const char *why = serve_finish(&x->result);
    return answer_has_calls(x->answer) && !strcmp(why, "stop") ? "tool_calls" : why;
}

static json_t *total_usage(const chat *k) {
    serve_result r = k->choice[0].result;
    for (uint32_t i = 1; i < k->n; i++) r.n_predicted += k->choice[i].result.n_predicted;
    return serve_usage(&r);
}

static void begin_stream(chat *k) {
    serve_sse_begin(k->c);
    for (uint32_t i = 0; i < k->n; i++) send_chunk(&k->choice[i], json_pack("{s:s, s:s}", "role", "assistant", "content", ""), NULL);
}

static void end_stream(chat *k, const ie_error *err) {
    if (err->code) {
        serve_sse(k->c, NULL, serve_call_error(k->c, 0, err));
    } else if (k->usage) {
        json_t *obj = envelope(k, json_array(), "chat.completion.chunk");
        json_object_set_new(obj, "usage", total_usage(k));
        json_object_set_new(obj, "timings", serve_timings(&k->choice[0].result));
        serve_sse(k->c, NULL, obj);
    }
    serve_sse_raw(k->c, "[DONE]");
    http_end(k->c->http);
}

/* ---- whole answers ---------------------------------------------------------------------------------------------------------- */

json_t *serve_chat_message(const answer *a) {
    ie_buf text = {0}, thought = {0};
    uint32_t n;
    const answer_part *p = answer_parts(a, &n);
    json_t *calls = json_array(), *m = json_pack("{s:s}", "role", "assistant");
    for (uint32_t i = 0; i < n; i++) {
        if (p[i].kind == PART_CALL)
            json_array_append_new(calls, json_pack("{s:s, s:s, s:{s:o, s:o}}", "id", p[i].id, "type", "function", "function", "name",
                                                   serve_json_text(p[i].name.data, p[i].name.len), "arguments",
                                                   serve_json_text(p[i].text.data ? p[i].text.data : "", p[i].text.len)));
        else if (p[i].text.len) ie_buf_add(p[i].kind == PART_TEXT ? &text : &thought, p[i].text.data, p[i].text.len, NULL);
    }
    bool none = text.len == 0 && json_array_size(calls);
    json_object_set_new(m, "content", none ? json_null() : serve_json_text(text.data ? text.data : "", text.len));
    if (thought.len) json_object_set_new(m, "reasoning_content", serve_json_text(thought.data, thought.len));
    if (json_array_size(calls)) json_object_set(m, "tool_calls", calls);
    json_decref(calls);
    ie_buf_free(&text);
    ie_buf_free(&thought);
    return m;
}

static void reply(chat *k) {
    json_t *choices = json_array();
    for (uint32_t i = 0; i < k->n; i++) {
        choice *x = &k->choice[i];
        json_array_append_new(choices, json_pack("{s:i, s:o, s:o, s:s}", "index", (int)i, "message", serve_chat_message(x->answer), "logprobs",
                                                 take_probs(x), "finish_reason", finish(x)));
    }
    json_t *obj = envelope(k, choices, "chat.completion");
    json_object_set_new(obj, "usage", total_usage(k));
    json_object_set_new(obj, "timings", serve_timings(&k->choice[0].result));
    serve_reply_json(k->c, 200, obj);
}

/* ---- requests ----------------------------------------------------------------------------------------------------------------- */

static void take_event(chat *k, const serve_event *ev) {
    choice *x = &k->choice[ev->index];
    if (ev->kind == SERVE_EV_PROGRESS && k->stream) send_progress(k, ev);
    if (ev->kind == SERVE_EV_TOKEN) add_prob(x, ev);
    if (ev->kind != SERVE_EV_TOKEN && ev->kind != SERVE_EV_DONE) return;
    if (ev->n_text) answer_add(x->answer, ev->text, ev->n_text);
    if (ev->kind != SERVE_EV_DONE) return;
    answer_end(x->answer);
    x->result = ev->result;
    if (k->stream) send_chunk(x, json_object(), finish(x));
}

static void run(chat *k, serve_stream *st) {
    serve_event ev;
    ie_error err = {0};
    bool begun = false;
    while (!err.code && !k->gone && serve_next(st, &ev)) {
        if (ev.kind == SERVE_EV_ERROR) err = ev.err;
        else if (k->stream && !begun) begin_stream(k), begun = true;
        if (!err.code) take_event(k, &ev);
        serve_event_free(&ev);
    }
    for (uint32_t i = 0; i < k->n; i++)
        if (answer_failed(k->choice[i].answer) && !err.code) ie_fail(&err, IE_E_NOMEM, "no memory for the answer");
    if (begun) end_stream(k, &err);
    else if (err.code) serve_reply_error(k->c, 0, &err);
    else reply(k);
}

/* Beside those that all of OpenAI's endpoints share. */
static const serve_member noted[] = {
    {"verbosity", SERVE_WORD, "low, medium, high"}, {"modalities", SERVE_STRINGS, NULL}, {"prediction", SERVE_OBJECT, NULL}, {NULL, SERVE_WORD, NULL},
};

static ie_status read_request(chat *k, serve_params *p, ie_error *err) {
    json_t *o = k->c->body, *options = NULL;
    int64_t n = 1, top = 0;
    ie_status st = serve_check_openai(o, err);
    if (!st) st = serve_check_members(o, noted, err);
    if (!st) st = serve_chat_job(k->c->s, o, p, err);
    if (st) return st;
    st = serve_get_bool(o, "logprobs", &k->probs, err);
    if (!st) st = serve_get_int(o, "top_logprobs", 0, 20, &top, err);
    if (!st && k->probs) p->job.n_probs = (int32_t)top;
    if (!st) st = serve_get_bool(o, "stream", &k->stream, err);
    if (!st) st = serve_get_obj(o, "stream_options", &options, err);
    if (!st && options) st = serve_get_bool(options, "include_usage", &k->usage, err);
    if (!st) st = serve_get_int(o, "n", 1, MAX_CHOICES, &n, err);
    k->n = (uint32_t)n;
    for (uint32_t i = 0; i < k->n && !st; i++) {
        choice *x = &k->choice[i];
        *x = (choice){.k = k, .index = i, .probs = k->probs ? json_array() : NULL};
        x->answer = answer_new(&p->form, &(answer_sink){.more = send_part, .user = x}, err);
        if (!x->answer) st = err->code;
    }
    return st;
}

/* n jobs of one prompt, which they share; each further one has the next seed. */
static serve_stream *submit(chat *k, serve_params *p, ie_error *err) {
    serve_job jobs[MAX_CHOICES];
    for (uint32_t i = 0; i < k->n; i++) {
        jobs[i] = p->job;
        jobs[i].sampling.seed += i;
    }
    p->job.prompt = NULL;
    p->job.grammar = NULL;
    return serve_submit(k->c->s, jobs, k->n, &k->c->excess, err);
}

static void chat_completions(serve_call *c) {
    chat *k = calloc(1, sizeof *k);
    ie_error err = {0};
    serve_params p = {0};
    serve_stream *stream = NULL;
    ie_status st = k ? IE_OK : ie_fail(&err, IE_E_NOMEM, "no memory for the request");
    if (!st) {
        *k = (chat){.c = c, .created = (int64_t)time(NULL)};
        serve_new_id("chatcmpl-", k->id);
        st = read_request(k, &p, &err);
    }
    if (!st) stream = submit(k, &p, &err);
    if (!stream) {
        serve_reply_error(c, 0, &err);
    } else {
        http_on_gone(c->http, serve_cancel, stream);
        run(k, stream);
        http_on_gone(c->http, NULL, NULL);
        serve_stream_free(stream);
        if (k->n == 1 && k->choice[0].result.n_predicted) serve_chat_learn(c->s, c->body, &p, k->choice[0].answer);
    }
    for (uint32_t i = 0; k && i < MAX_CHOICES; i++) {
        answer_free(k->choice[i].answer);
        json_decref(k->choice[i].probs);
    }
    serve_params_free(&p);
    free(k);
}

const serve_route serve_routes_openai[] = {
    {"POST", "/v1/chat/completions", chat_completions, ROUTE_MODEL | ROUTE_BODY, "chat"},
    {"POST", "/chat/completions", chat_completions, ROUTE_MODEL | ROUTE_BODY, "the same"},
    {NULL, NULL, NULL, 0, NULL},
};
