/* OpenAI's older /v1/completions: texts that go on, several prompts with several choices each. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "serve.h"

#define MAX_PROMPTS 64
#define MAX_CHOICES 64   /* prompts times n */
#define MAX_BEST 20      /* log-probabilities of so many best tokens */
#define DEFAULT_TOKENS 16 /* the limit that OpenAI documents where a request names none */

/* One text of the answer. */
typedef struct {
    ie_buf text;       /* whole answers: all of it; streams: what has not been sent yet */
    json_t *probs;     /* likewise: four lists side by side; NULL where none are wanted */
    json_int_t chars;  /* whole characters of the tokens so far */
    serve_result result;
} choice;

typedef struct {
    serve_call *c;
    bool stream, usage, echo;
    int32_t n_probs;           /* -1: none */
    uint32_t n, n_prompts;     /* choices of each prompt */
    serve_prompt *prompt;      /* n_prompts; handed over to the scheduler's jobs */
    choice *choice;            /* n_prompts * n, all of the first prompt first */
    char id[64];
    int64_t created;
} completions;

static uint32_t n_choices(const completions *k) { return k->n_prompts * k->n; }

/* ---- log-probabilities ------------------------------------------------------------------------------------------------------ */

static json_t *new_probs(void) { return json_pack("{s:[], s:[], s:[], s:[]}", "tokens", "token_logprobs", "top_logprobs", "text_offset"); }

static json_t *number(float logprob) { return json_real((double)(logprob > -1e9f ? logprob : -1e9f)); }

/* The best tokens and the chosen one by their text; of tokens with the same text the likeliest stays. */
static json_t *top_of(serve *s, const serve_event *ev) {
    json_t *top = json_object();
    for (uint32_t i = 0; i <= ev->n_top; i++) {
        json_t *text = serve_token_text(s, i < ev->n_top ? ev->top[i].token : ev->token);
        const char *key = json_string_value(text);
        size_t len = json_string_length(text);
        if (!json_object_getn(top, key, len)) json_object_setn_new(top, key, len, number(i < ev->n_top ? ev->top[i].logprob : ev->logprob));
        json_decref(text);
    }
    return top;
}

/* Adds the event's token. Its offset is the number of whole characters before its first byte; a token may begin inside one. */
static void add_probs(completions *k, choice *h, const serve_event *ev) {
    json_t *bytes = serve_token_bytes(k->c->s, ev->token);
    bool none = isnan(ev->logprob);
    json_int_t at = h->chars;
    for (size_t i = 0; i < json_array_size(bytes); i++) {
        bool inside = (json_integer_value(json_array_get(bytes, i)) & 0xC0) == 0x80;
        if (i == 0 && inside && at > 0) at--;
        h->chars += !inside;
    }
    json_decref(bytes);
    json_array_append_new(json_object_get(h->probs, "tokens"), serve_token_text(k->c->s, ev->token));
    json_array_append_new(json_object_get(h->probs, "token_logprobs"), none ? json_null() : number(ev->logprob));
    json_array_append_new(json_object_get(h->probs, "top_logprobs"), none || k->n_probs == 0 ? json_null() : top_of(k->c->s, ev));
    json_array_append_new(json_object_get(h->probs, "text_offset"), json_integer(at));
}

/* ---- answers ------------------------------------------------------------------------------------------------------------------ */

static json_t *envelope(const completions *k, json_t *list) {
    return json_pack("{s:s, s:s, s:I, s:s, s:s, s:o}", "id", k->id, "object", "text_completion", "created", (json_int_t)k->created, "model",
                     k->c->s->model_id, "system_fingerprint", "ie-" IE_VERSION, "choices", list);
}

/* Takes what the choice has gathered. */
static json_t *choice_json(choice *h, uint32_t index, const char *finish) {
    json_t *probs = h->probs ? h->probs : json_null();
    json_t *obj = json_pack("{s:i, s:o, s:o, s:s?}", "index", (int)index, "text", serve_json_text(h->text.data ? h->text.data : "", h->text.len),
                            "logprobs", probs, "finish_reason", finish);
    if (h->probs) h->probs = new_probs();
    h->text.len = 0;
    return obj;
}

static json_t *usage_json(const completions *k) {
    serve_result r = {0};
    for (uint32_t i = 0; i < n_choices(k); i++) {
        r.n_predicted += k->choice[i].result.n_predicted;
        if (i % k->n) continue;
        r.n_prompt += k->choice[i].result.n_prompt;
        r.n_cached += k->choice[i].result.n_cached;
    }
    return serve_usage(&r);
}

static bool send_choice(completions *k, uint32_t index, const char *finish) {
    choice *h = &k->choice[index];
    if (!finish && h->text.len == 0 && json_array_size(json_object_get(h->probs, "tokens")) == 0) return true;
    json_t *obj = envelope(k, json_pack("[o]", choice_json(h, index, finish)));
    if (k->usage) json_object_set_new(obj, "usage", json_null());
    return serve_sse(k->c, NULL, obj);
}

static bool send_progress(completions *k, const serve_event *ev) {
    json_t *obj = envelope(k, json_array());
    json_object_set_new(obj, "prompt_progress", serve_progress(ev));
    return serve_sse(k->c, NULL, obj);
}

static void end_stream(completions *k, const ie_error *err) {
    if (err->code) {
        serve_sse(k->c, NULL, serve_call_error(k->c, 0, err));
    } else if (k->usage) {
        json_t *obj = envelope(k, json_array());
        json_object_set_new(obj, "usage", usage_json(k));
        json_object_set_new(obj, "timings", serve_timings(&k->choice[0].result));
        serve_sse(k->c, NULL, obj);
    }
    serve_sse_raw(k->c, "[DONE]");
    http_end(k->c->http);
}

static void reply(completions *k) {
    json_t *list = json_array();
    for (uint32_t i = 0; i < n_choices(k); i++) json_array_append_new(list, choice_json(&k->choice[i], i, serve_finish(&k->choice[i].result)));
    json_t *obj = envelope(k, list);
    json_object_set_new(obj, "usage", usage_json(k));
    json_object_set_new(obj, "timings", serve_timings(&k->choice[0].result));
    serve_reply_json(k->c, 200, obj);
}

/* Events to choices; streams send what has come. */
static void follow(completions *k, serve_stream *st) {
    serve_event ev;
    ie_error err = {0};
    bool begun = false, ok = true;
    while (ok && serve_next(st, &ev)) {
        choice *h = &k->choice[ev.index];
        if (ev.kind == SERVE_EV_ERROR && !err.code) err = ev.err;
        if (ev.n_text && !ie_buf_add(&h->text, ev.text, ev.n_text, &err)) ok = false;
        if (h->probs && (ev.kind == SERVE_EV_PROMPT || ev.kind == SERVE_EV_TOKEN)) add_probs(k, h, &ev);
        if (ev.kind == SERVE_EV_DONE) h->result = ev.result;
        if (err.code) ok = false; /* the other choices are cancelled with the stream */
        if (k->stream && ok && ev.kind != SERVE_EV_PROMPT) {
            if (!begun) serve_sse_begin(k->c);
            begun = true;
            ok = ev.kind == SERVE_EV_PROGRESS ? send_progress(k, &ev) : send_choice(k, ev.index, ev.kind == SERVE_EV_DONE ? serve_finish(&ev.result) : NULL);
        }
        serve_event_free(&ev);
    }
    if (begun) end_stream(k, &err);
    else if (err.code) serve_reply_error(k->c, 0, &err);
    else reply(k);
}

/* ---- requests ------------------------------------------------------------------------------------------------------------------- */

static bool given(const json_t *o, const char *key) {
    const json_t *v = json_object_get(o, key);
    return v && !json_is_null(v);
}

static ie_status read_prompts(completions *k, ie_error *err) {
    const json_t *o = k->c->body, *suffix = json_object_get(o, "suffix"), *prompt = json_object_get(o, "prompt");
    bool fill = json_is_string(suffix) && json_string_length(suffix) > 0;
    if (given(o, "suffix") && !json_is_string(suffix)) return ie_fail(err, IE_E_ARG, "'suffix' must be a string");
    if (!fill) return serve_prompts(k->c->s, prompt, "prompt", MAX_PROMPTS, &k->prompt, &k->n_prompts, err);
    if (k->echo) return ie_fail(err, IE_E_ARG, "'suffix' and 'echo' cannot be used together");
    if (!json_is_string(prompt)) return ie_fail(err, IE_E_ARG, "'prompt' must be one text where 'suffix' is given");
    if (!(k->prompt = ie_calloc(1, sizeof *k->prompt, "prompt", err))) return IE_E_NOMEM;
    k->n_prompts = 1;
    return serve_fim_prompt(k->c->s, prompt, suffix, NULL, NULL, k->prompt, err);
}

static ie_status read_request(completions *k, serve_params *p, ie_error *err) {
    const json_t *o = k->c->body;
    json_t *options = NULL;
    int64_t n = 1, best = 1, probs = -1;
    ie_status st = serve_check_openai(o, err);
    if (!st) st = serve_read_params(k->c->s, o, p, err);
    if (!st) st = serve_get_int(o, "n", 1, MAX_CHOICES, &n, err);
    best = n;
    if (!st) st = serve_get_int(o, "best_of", 1, MAX_CHOICES, &best, err);
    if (!st && best != n) st = ie_fail(err, IE_E_ARG, "'best_of' is %d: only the value of 'n' (%d) is supported", (int)best, (int)n);
    if (!st) st = serve_get_int(o, "logprobs", 0, MAX_BEST, &probs, err);
    if (!st) st = serve_get_bool(o, "stream", &k->stream, err);
    if (!st) st = serve_get_obj(o, "stream_options", &options, err);
    if (!st && options) st = serve_get_bool(options, "include_usage", &k->usage, err);
    if (!st) st = serve_get_bool(o, "echo", &k->echo, err);
    if (st) return st;
    if (p->job.max_tokens < 0 && !p->job.grammar && !given(o, "max_tokens") && !given(o, "max_completion_tokens") && !given(o, "n_predict"))
        p->job.max_tokens = DEFAULT_TOKENS;
    k->n = (uint32_t)n;
    k->n_probs = p->job.n_probs = (int32_t)probs;
    p->job.prompt_probs = k->echo && probs >= 0;
    st = read_prompts(k, err);
    if (!st && n_choices(k) > MAX_CHOICES)
        st = ie_fail(err, IE_E_ARG, "%u prompts with 'n' %u are %u completions, at most %d are allowed", k->n_prompts, k->n, n_choices(k), MAX_CHOICES);
    return st;
}

static ie_status make_choices(completions *k, ie_error *err) {
    if (!(k->choice = ie_calloc(n_choices(k), sizeof *k->choice, "choices", err))) return IE_E_NOMEM;
    for (uint32_t i = 0; i < n_choices(k); i++) {
        choice *h = &k->choice[i];
        const serve_prompt *p = &k->prompt[i / k->n];
        char *text;
        size_t len;
        if (k->n_probs >= 0) h->probs = new_probs();
        if (!k->echo) continue;
        ie_status st = ie_detokenize(k->c->s->model, p->id, (size_t)p->n, 0, &text, &len, err);
        if (st) return st;
        bool ok = ie_buf_add(&h->text, text, len, err);
        for (size_t b = 0; b < len && k->n_probs < 0; b++) h->chars += (text[b] & 0xC0) != 0x80;
        ie_free(text);
        if (!ok) return IE_E_NOMEM;
    }
    return IE_OK;
}

/* One job for each choice, each with its own seed. */
static serve_stream *submit(completions *k, serve_params *p, ie_error *err) {
    serve_job *jobs = ie_calloc(n_choices(k), sizeof *jobs, "request", err);
    if (!jobs) return NULL;
    for (uint32_t i = 0; i < n_choices(k); i++) {
        const serve_prompt *text = &k->prompt[i / k->n];
        jobs[i] = p->job;
        jobs[i].prompt = text->id;
        jobs[i].n_prompt = jobs[i].n_stable = text->n;
        jobs[i].sampling.seed += i;
    }
    for (uint32_t i = 0; i < k->n_prompts; i++) k->prompt[i].id = NULL;
    p->job.grammar = NULL;
    serve_stream *st = serve_submit(k->c->s, jobs, n_choices(k), &k->c->excess, err);
    free(jobs);
    return st;
}

static void complete(serve_call *c) {
    completions k = {.c = c, .created = (int64_t)time(NULL)};
    ie_error err = {0};
    serve_params p = {0};
    serve_new_id("cmpl-", k.id);
    ie_status st = read_request(&k, &p, &err);
    if (!st) st = make_choices(&k, &err);
    serve_stream *stream = st ? NULL : submit(&k, &p, &err);
    if (!stream) {
        serve_reply_error(c, 0, &err);
    } else {
        http_on_gone(c->http, serve_cancel, stream);
        follow(&k, stream);
        http_on_gone(c->http, NULL, NULL);
        serve_stream_free(stream);
    }
    for (uint32_t i = 0; k.choice && i < n_choices(&k); i++) {
        ie_buf_free(&k.choice[i].text);
        json_decref(k.choice[i].probs);
    }
    free(k.choice);
    serve_prompts_free(k.prompt, k.n_prompts);
    serve_params_free(&p);
}

const serve_route serve_routes_completions[] = {
    {"POST", "/v1/completions", complete, ROUTE_MODEL | ROUTE_BODY, "texts that go on"},
    {"POST", "/completions", complete, ROUTE_MODEL | ROUTE_BODY, "the same"},
    {NULL, NULL, NULL, 0, NULL},
};
