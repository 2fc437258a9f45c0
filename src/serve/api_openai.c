/* OpenAI's endpoints: models, completions, chat completions. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "serve.h"

#define MAX_CHOICES 16

/* What /v1/completions and /v1/chat/completions share; they differ in names and in where the text stands. */
typedef struct {
    serve_call *c;
    bool chat, stream, usage, echo;
    uint32_t n;
    char id[64];
    int64_t created;
    json_t *prompt_text; /* echo */
    ie_buf text[MAX_CHOICES];
    json_t *probs[MAX_CHOICES]; /* arrays, NULL without log-probabilities */
    serve_result result[MAX_CHOICES];
} completion;

static json_t *prob_entry(serve *s, int32_t token, float logprob) {
    return json_pack("{s:o, s:f, s:o}", "token", serve_token_text(s, token), "logprob", (double)(logprob > -1e9f ? logprob : -1e9f), "bytes",
                     serve_token_bytes(s, token));
}

static json_t *chat_prob(serve *s, const serve_event *ev) {
    json_t *e = prob_entry(s, ev->token, ev->logprob), *top = json_array();
    for (uint32_t i = 0; i < ev->n_top; i++) json_array_append_new(top, prob_entry(s, ev->top[i].token, ev->top[i].logprob));
    json_object_set_new(e, "top_logprobs", top);
    return e;
}

/* The older form of /v1/completions, from entries of the newer: lists side by side. */
static json_t *text_probs(const json_t *entries) {
    json_t *tokens = json_array(), *values = json_array(), *tops = json_array(), *offsets = json_array(), *e, *t;
    size_t i, k;
    json_int_t at = 0;
    json_array_foreach(entries, i, e) {
        json_t *top = json_object();
        json_array_append(tokens, json_object_get(e, "token"));
        json_array_append(values, json_object_get(e, "logprob"));
        json_array_foreach(json_object_get(e, "top_logprobs"), k, t) {
            json_object_set(top, json_string_value(json_object_get(t, "token")), json_object_get(t, "logprob"));
        }
        json_array_append_new(tops, top);
        json_array_append_new(offsets, json_integer(at));
        at += (json_int_t)json_array_size(json_object_get(e, "bytes"));
    }
    return json_pack("{s:o, s:o, s:o, s:o}", "tokens", tokens, "token_logprobs", values, "top_logprobs", tops, "text_offset", offsets);
}

/* The "logprobs" member from entries (borrowed), null without. */
static json_t *probs_member(const completion *k, json_t *entries) {
    if (!entries) return json_null();
    return k->chat ? json_pack("{s:O}", "content", entries) : text_probs(entries);
}

static json_t *envelope(const completion *k, json_t *choices, bool chunk) {
    const char *object = !k->chat ? "text_completion" : chunk ? "chat.completion.chunk" : "chat.completion";
    return json_pack("{s:s, s:s, s:I, s:s, s:s, s:o}", "id", k->id, "object", object, "created", (json_int_t)k->created, "model", k->c->s->model_id,
                     "system_fingerprint", "ie-" IE_VERSION, "choices", choices);
}

/* ---- streams --------------------------------------------------------------------------------------------------------------- */

/* One choice of a chunk: delta taken over (chat), or text. */
static bool send_chunk(completion *k, uint32_t index, json_t *delta, json_t *text, json_t *probs, const char *finish) {
    json_t *choice = json_pack("{s:i, s:o, s:s?}", "index", (int)index, "logprobs", probs, "finish_reason", finish);
    json_object_set_new(choice, k->chat ? "delta" : "text", k->chat ? delta : text);
    json_t *obj = envelope(k, json_pack("[o]", choice), true);
    if (k->usage) json_object_set_new(obj, "usage", json_null());
    return serve_sse(k->c, NULL, obj);
}

static bool send_piece(completion *k, const serve_event *ev, const char *finish) {
    json_t *entries = k->probs[ev->index] && ev->kind == SERVE_EV_TOKEN ? json_pack("[o]", chat_prob(k->c->s, ev)) : NULL;
    if (!ev->n_text && !entries && !finish) return true;
    json_t *text = serve_json_text(ev->text ? ev->text : "", ev->n_text), *delta = json_object();
    if (k->chat && ev->n_text) json_object_set(delta, "content", text);
    json_t *probs = probs_member(k, entries);
    json_decref(entries);
    if (k->chat) json_decref(text);
    else json_decref(delta);
    return send_chunk(k, ev->index, delta, text, probs, finish);
}

static bool send_progress(completion *k, const serve_event *ev) {
    json_t *obj = envelope(k, k->chat ? json_pack("[{s:i, s:{}, s:n}]", "index", (int)ev->index, "delta", "finish_reason") : json_array(), true);
    json_object_set_new(obj, "prompt_progress", serve_progress(ev));
    return serve_sse(k->c, NULL, obj);
}

static void send_start(completion *k) {
    serve_sse_begin(k->c);
    for (uint32_t i = 0; i < k->n; i++) {
        if (k->chat) send_chunk(k, i, json_pack("{s:s, s:s}", "role", "assistant", "content", ""), NULL, json_null(), NULL);
        else if (k->echo) send_chunk(k, i, NULL, json_incref(k->prompt_text), json_null(), NULL);
    }
}

static json_t *total_usage(const completion *k) {
    serve_result r = k->result[0];
    for (uint32_t i = 1; i < k->n; i++) r.n_predicted += k->result[i].n_predicted;
    return serve_usage(&r);
}

/* False: an error event has ended the stream. */
static bool stream_events(completion *k, serve_stream *st) {
    serve_event ev;
    bool begun = false, ok = true;
    while (ok && serve_next(st, &ev)) {
        if (ev.kind == SERVE_EV_ERROR && !begun) {
            serve_reply_error(k->c, 0, &ev.err);
            ok = false;
        } else {
            if (!begun) send_start(k);
            begun = true;
            if (ev.kind == SERVE_EV_ERROR) serve_sse(k->c, NULL, serve_error_json(0, &ev.err));
            if (ev.kind == SERVE_EV_ERROR) ok = false;
            if (ev.kind == SERVE_EV_DONE) k->result[ev.index] = ev.result;
            if (ev.kind == SERVE_EV_PROGRESS) ok = send_progress(k, &ev);
            if (ev.kind == SERVE_EV_TOKEN) ok = send_piece(k, &ev, NULL);
            if (ev.kind == SERVE_EV_DONE) {
                if (ev.n_text) ok = send_piece(k, &ev, NULL);
                serve_event last = {.kind = SERVE_EV_DONE, .index = ev.index};
                ok = ok && send_piece(k, &last, serve_finish(&ev.result));
            }
        }
        serve_event_free(&ev);
    }
    if (!begun) return false;
    if (ok && k->usage) {
        json_t *obj = envelope(k, json_array(), true);
        json_object_set_new(obj, "usage", total_usage(k));
        json_object_set_new(obj, "timings", serve_timings(&k->result[0]));
        serve_sse(k->c, NULL, obj);
    }
    serve_sse_raw(k->c, "[DONE]");
    http_end(k->c->http);
    return ok;
}

/* ---- whole answers ---------------------------------------------------------------------------------------------------------- */

static void answer(completion *k) {
    json_t *choices = json_array();
    for (uint32_t i = 0; i < k->n; i++) {
        json_t *choice = json_pack("{s:i, s:o, s:s}", "index", (int)i, "logprobs", probs_member(k, k->probs[i]), "finish_reason",
                                   serve_finish(&k->result[i]));
        json_t *text = serve_json_text(k->text[i].data ? k->text[i].data : "", k->text[i].len);
        if (k->chat) json_object_set_new(choice, "message", json_pack("{s:s, s:o}", "role", "assistant", "content", text));
        else json_object_set_new(choice, "text", text);
        json_array_append_new(choices, choice);
    }
    json_t *obj = envelope(k, choices, false);
    json_object_set_new(obj, "usage", total_usage(k));
    json_object_set_new(obj, "timings", serve_timings(&k->result[0]));
    serve_reply_json(k->c, 200, obj);
}

static void collect(completion *k, serve_stream *st) {
    serve_event ev;
    ie_error err = {0};
    for (uint32_t i = 0; k->echo && i < k->n; i++) ie_buf_add(&k->text[i], json_string_value(k->prompt_text), json_string_length(k->prompt_text), &err);
    while (serve_next(st, &ev)) {
        if (ev.n_text) ie_buf_add(&k->text[ev.index], ev.text, ev.n_text, &err);
        if (ev.kind == SERVE_EV_TOKEN && k->probs[ev.index]) json_array_append_new(k->probs[ev.index], chat_prob(k->c->s, &ev));
        if (ev.kind == SERVE_EV_DONE) k->result[ev.index] = ev.result;
        if (ev.kind == SERVE_EV_ERROR && !err.code) err = ev.err;
        serve_event_free(&ev);
    }
    if (err.code) serve_reply_error(k->c, 0, &err);
    else answer(k);
}

/* ---- requests ----------------------------------------------------------------------------------------------------------------- */

/* chat: "logprobs": true and "top_logprobs": n; completions: "logprobs": n. */
static ie_status read_probs(const completion *k, const json_t *o, serve_params *p, ie_error *err) {
    bool want = false;
    int64_t n = 0;
    const json_t *v = json_object_get(o, "logprobs");
    if (!k->chat) {
        ie_status st = serve_get_int(o, "logprobs", 0, 20, &n, err);
        if (!st && v && !json_is_null(v)) p->job.n_probs = (int32_t)n;
        return st;
    }
    ie_status st = serve_get_bool(o, "logprobs", &want, err);
    if (!st) st = serve_get_int(o, "top_logprobs", 0, 20, &n, err);
    if (!st && want) p->job.n_probs = (int32_t)n;
    return st;
}

static ie_status read_request(completion *k, serve_params *p, ie_error *err) {
    json_t *o = k->c->body, *options = NULL;
    int64_t n = 1;
    ie_status st = serve_read_params(k->c->s, o, p, err);
    if (st) return st;
    st = read_probs(k, o, p, err);
    if (!st) st = serve_get_bool(o, "stream", &k->stream, err);
    if (!st) st = serve_get_obj(o, "stream_options", &options, err);
    if (!st && options) st = serve_get_bool(options, "include_usage", &k->usage, err);
    if (!st) st = serve_get_int(o, "n", 1, MAX_CHOICES, &n, err);
    if (!st && !k->chat) st = serve_get_bool(o, "echo", &k->echo, err);
    k->n = (uint32_t)n;
    const json_t *prompt = json_object_get(o, "prompt");
    if (json_array_size(prompt) == 1 && !json_is_integer(json_array_get(prompt, 0))) prompt = json_array_get(prompt, 0); /* a list of one prompt */
    if (!st) st = k->chat ? serve_chat_prompt(k->c->s, o, p, err) : serve_text_prompt(k->c->s, prompt, p, err);
    if (!st && k->echo) {
        char *text;
        size_t len;
        st = ie_detokenize(k->c->s->model, p->job.prompt, (size_t)p->job.n_prompt, 0, &text, &len, err);
        if (!st) k->prompt_text = serve_json_text(text, len);
        if (!st) ie_free(text);
    }
    if (st) serve_params_free(p);
    return st;
}

/* n jobs of one prompt; each further one has the next seed. */
static serve_stream *submit(completion *k, serve_params *p, ie_error *err) {
    serve_job jobs[MAX_CHOICES];
    size_t bytes = (size_t)p->job.n_prompt * sizeof *p->job.prompt;
    for (uint32_t i = 0; i < k->n; i++) {
        jobs[i] = p->job;
        jobs[i].sampling.seed += i;
        if (i == 0) continue;
        jobs[i].prompt = malloc(bytes);
        jobs[i].grammar = NULL;
        if (jobs[i].prompt) memcpy(jobs[i].prompt, p->job.prompt, bytes);
        else jobs[i].n_prompt = 0;
        serve_params again;
        if (p->job.grammar && !serve_read_params(k->c->s, k->c->body, &again, err)) {
            jobs[i].grammar = again.job.grammar;
            again.job.grammar = NULL;
            serve_params_free(&again);
        }
    }
    p->job.prompt = NULL;
    p->job.grammar = NULL;
    serve_stream *st = serve_submit(k->c->s, jobs, k->n, err);
    serve_params_free(p);
    return st;
}

static void complete(serve_call *c, bool chat) {
    completion k = {.c = c, .chat = chat, .created = (int64_t)time(NULL)};
    ie_error err = {0};
    serve_params p;
    serve_new_id(chat ? "chatcmpl-" : "cmpl-", k.id);
    ie_status st = read_request(&k, &p, &err);
    for (uint32_t i = 0; !st && p.job.n_probs >= 0 && i < k.n; i++) k.probs[i] = json_array();
    serve_stream *stream = st ? NULL : submit(&k, &p, &err);
    if (!stream) {
        serve_reply_error(c, 0, &err);
    } else {
        http_on_gone(c->http, serve_cancel, stream);
        if (k.stream) stream_events(&k, stream);
        else collect(&k, stream);
        http_on_gone(c->http, NULL, NULL);
        serve_stream_free(stream);
    }
    for (uint32_t i = 0; i < MAX_CHOICES; i++) {
        ie_buf_free(&k.text[i]);
        json_decref(k.probs[i]);
    }
    json_decref(k.prompt_text);
}

static void chat_completions(serve_call *c) { complete(c, true); }

const serve_route serve_routes_openai[] = {
    {"POST", "/v1/chat/completions", chat_completions, ROUTE_MODEL | ROUTE_BODY, "chat"},
    {"POST", "/chat/completions", chat_completions, ROUTE_MODEL | ROUTE_BODY, "the same"},
    {NULL, NULL, NULL, 0, NULL},
};
