/* llama-server's endpoints: health, metrics, properties, slots, tokens, templates, completion. */
#include <stdlib.h>
#include <string.h>

#include "serve.h"

#define MAX_SLOTS 64
#define MAX_BEST 20     /* log-probabilities of so many best tokens */

static void health(serve_call *c) {
    ie_error err;
    if (c->s->phase == SERVE_READY) {
        serve_reply_json(c, 200, json_pack("{s:s}", "status", "ok"));
        return;
    }
    ie_fail(&err, IE_E_FULL, c->s->phase == SERVE_LOADING ? "the model is loading" : "the server is shutting down");
    serve_reply_error(c, 503, &err);
}

/* The settings that a request without any gets. */
static json_t *default_params(serve *s) {
    serve_params p = {0};
    ie_error none;
    json_t *empty = json_object();
    ie_status st = serve_read_params(s, empty, &p, &none);
    json_decref(empty);
    if (st) return json_null();
    const ie_sampling *a = &p.job.sampling;
    json_t *o = json_pack("{s:i, s:i, s:f, s:i, s:f, s:f, s:f, s:f, s:f, s:i, s:b, s:b, s:[], s:i}", "seed", -1, "n_predict", p.job.max_tokens,
                          "temperature", (double)a->temp, "top_k", a->top_k, "top_p", (double)a->top_p, "min_p", (double)a->min_p, "repeat_penalty",
                          (double)a->repeat_penalty, "presence_penalty", (double)a->presence_penalty, "frequency_penalty",
                          (double)a->frequency_penalty, "repeat_last_n", a->repeat_last, "ignore_eos", p.job.ignore_end, "cache_prompt",
                          !p.job.no_cache, "stop", "n_probs", 0);
    serve_params_free(&p);
    return o;
}

static json_t *token_member(serve *s, int32_t id) { return id < 0 ? json_string("") : serve_token_text(s, id); }

static void props(serve_call *c) {
    serve *s = c->s;
    size_t n = s->template_len;
    const char *text = s->template_text ? s->template_text : ie_chat_template(s->model, &n);
    json_t *settings = json_pack("{s:i, s:b, s:o}", "n_ctx", s->n_ctx, "speculative", 0, "params", default_params(s));
    json_t *o = json_pack("{s:o, s:i, s:o, s:s, s:o, s:b, s:{s:b, s:b}, s:o, s:o, s:s, s:s}", "default_generation_settings", settings, "total_slots",
                          s->opts.parallel, "model_path", serve_json_text(s->opts.model, strlen(s->opts.model)), "model_alias", s->model_id, "chat_template",
                          text ? serve_json_text(text, n) : json_string(""), "has_chat_template", text != NULL, "modalities", "vision", 0, "audio", 0,
                          "bos_token", token_member(s, s->info.bos), "eos_token", token_member(s, s->info.eos), "build_info", "ie-serve " IE_VERSION,
                          "backend", s->info.backend);
    serve_reply_json(c, 200, o);
}

static void slots(serve_call *c) {
    serve_slot list[MAX_SLOTS];
    int n = serve_get_slots(c->s, list, MAX_SLOTS);
    json_t *a = json_array();
    for (int i = 0; i < n; i++) {
        const serve_slot *t = &list[i];
        int32_t left = t->busy && t->max_tokens >= 0 ? t->max_tokens - t->n_predicted : -1;
        json_t *next = json_pack("[{s:b, s:i, s:i}]", "has_next_token", t->busy, "n_remain", left, "n_decoded", t->n_predicted);
        json_array_append_new(a, json_pack("{s:i, s:b, s:I, s:i, s:b, s:i, s:i, s:o}", "id", t->id, "is_processing", t->busy, "id_task",
                                           t->busy ? (json_int_t)t->job : (json_int_t)-1, "n_ctx", c->s->n_ctx, "speculative", 0, "n_prompt_tokens",
                                           t->n_prompt, "n_prompt_tokens_cache", t->n_cached, "next_token", next));
    }
    serve_reply_json(c, 200, a);
}

/* ---- tokens and templates ------------------------------------------------------------------------------------------------------ */

/* A token with its text, as bytes where these are no whole characters. */
static json_t *piece(serve *s, int32_t id) {
    char *text = NULL;
    size_t n = 0;
    ie_error none;
    json_t *o = NULL;
    if (!ie_detokenize(s->model, &id, 1, IE_DETOK_SPECIAL, &text, &n, &none)) {
        json_t *whole = json_stringn(text, n);
        o = json_pack("{s:i, s:o}", "id", id, "piece", whole ? whole : serve_token_bytes(s, id));
    }
    ie_free(text);
    return o;
}

static void tokenize(serve_call *c) {
    ie_error err;
    const char *text = NULL;
    size_t len = 0, n = 0;
    bool special = false, parse = true, pieces = false;
    int32_t *ids = NULL;
    ie_status st = serve_get_str(c->body, "content", &text, &len, &err);
    if (!st) st = serve_get_bool(c->body, "add_special", &special, &err);
    if (!st) st = serve_get_bool(c->body, "parse_special", &parse, &err);
    if (!st) st = serve_get_bool(c->body, "with_pieces", &pieces, &err);
    if (!st && !text) st = ie_fail(&err, IE_E_ARG, "'content' is missing");
    unsigned flags = (special ? IE_TOK_ADD_SPECIAL : 0u) | (parse ? IE_TOK_PARSE_SPECIAL : 0u);
    if (!st) st = ie_tokenize(c->s->model, text, len, flags, &ids, &n, &err);
    if (st) {
        serve_reply_error(c, 0, &err);
        return;
    }
    json_t *a = json_array();
    for (size_t i = 0; i < n; i++) json_array_append_new(a, pieces ? piece(c->s, ids[i]) : json_integer(ids[i]));
    ie_free(ids);
    serve_reply_json(c, 200, json_pack("{s:o}", "tokens", a));
}

static void detokenize(serve_call *c) {
    ie_error err;
    serve_prompt ids = {0};
    char *text = NULL;
    size_t n = 0;
    ie_status st = serve_token_ids(c->s, json_object_get(c->body, "tokens"), "tokens", &ids, &err);
    if (!st) st = ie_detokenize(c->s->model, ids.id, (size_t)ids.n, IE_DETOK_SPECIAL, &text, &n, &err);
    free(ids.id);
    if (st) {
        serve_reply_error(c, 0, &err);
        return;
    }
    serve_reply_json(c, 200, json_pack("{s:o}", "content", serve_json_text(text, n)));
    ie_free(text);
}

static void apply_template(serve_call *c) {
    ie_error err;
    char *text = NULL;
    size_t n = 0;
    if (serve_chat_text(c->s, c->body, &text, &n, &err)) {
        serve_reply_error(c, 0, &err);
        return;
    }
    serve_reply_json(c, 200, json_pack("{s:o}", "prompt", serve_json_text(text, n)));
    ie_free(text);
}

/* ---- completion ------------------------------------------------------------------------------------------------------------------ */

static json_t *final_members(serve_call *c, const serve_event *ev, const serve_params *p, json_t *content) {
    static const char *const types[] = {"eos", "word", "limit", "limit"};
    const serve_result *r = &ev->result;
    json_t *word = r->stop >= 0 ? serve_json_text(p->stop[r->stop].s, p->stop[r->stop].len) : json_string("");
    return json_pack("{s:o, s:b, s:s, s:s, s:o, s:i, s:i, s:i, s:b, s:o}", "content", content, "stop", 1, "model", c->s->model_id, "stop_type",
                     types[r->reason], "stopping_word", word, "tokens_predicted", r->n_predicted, "tokens_evaluated", r->n_prompt,
                     "tokens_cached", r->n_cached, "truncated", r->reason == SERVE_STOP_CTX, "timings", serve_timings(r));
}

static json_t *token_chunk(serve *s, const serve_event *ev, bool probs) {
    json_t *o = json_pack("{s:o, s:[i], s:b}", "content", serve_json_text(ev->text ? ev->text : "", ev->n_text), "tokens", ev->token, "stop", 0);
    if (probs) json_object_set_new(o, "completion_probabilities", json_pack("[o]", serve_token_prob(s, ev)));
    return o;
}

static void run_completion(serve_call *c, serve_stream *st, const serve_params *p, bool stream) {
    serve_event ev;
    ie_buf text = {0};
    ie_error err = {0};
    json_t *done = NULL, *ids = json_array(), *probs = json_array();
    bool begun = false, wanted = p->job.n_probs >= 0;
    while (serve_next(st, &ev)) {
        if (ev.kind == SERVE_EV_ERROR) err = ev.err;
        if (stream && !begun && ev.kind != SERVE_EV_ERROR) serve_sse_begin(c), begun = true;
        if (stream && ev.kind == SERVE_EV_TOKEN) serve_sse(c, NULL, token_chunk(c->s, &ev, wanted));
        if (!stream && ev.kind == SERVE_EV_TOKEN) json_array_append_new(ids, json_integer(ev.token));
        if (!stream && ev.kind == SERVE_EV_TOKEN && wanted) json_array_append_new(probs, serve_token_prob(c->s, &ev));
        if (!stream && ev.n_text) ie_buf_add(&text, ev.text, ev.n_text, &err);
        if (ev.kind == SERVE_EV_DONE) {
            json_t *content = stream ? serve_json_text(ev.text ? ev.text : "", ev.n_text) : serve_json_text(text.data ? text.data : "", text.len);
            done = final_members(c, &ev, p, content);
            if (!stream) json_object_set(done, "tokens", ids);
            if (!stream && wanted) json_object_set(done, "completion_probabilities", probs);
        }
        serve_event_free(&ev);
    }
    if (!begun && err.code) serve_reply_error(c, 0, &err);
    else if (!begun) serve_reply_json(c, 200, json_incref(done));
    else {
        serve_sse(c, NULL, err.code ? serve_call_error(c, 0, &err) : json_incref(done));
        http_end(c->http);
    }
    json_decref(done);
    json_decref(ids);
    json_decref(probs);
    ie_buf_free(&text);
}

void serve_llama_completion(serve_call *c, serve_params *p) {
    ie_error err;
    bool stream = false, sampled = false;
    int64_t probs = 0;
    ie_status st = serve_get_bool(c->body, "stream", &stream, &err);
    if (!st) st = serve_get_int(c->body, "n_probs", 0, MAX_BEST, &probs, &err);
    if (!st) st = serve_get_bool(c->body, "post_sampling_probs", &sampled, &err);
    if (!st && sampled) st = ie_fail(&err, IE_E_ARG, "'post_sampling_probs' is not supported: probabilities are those before sampling");
    if (probs > 0) p->job.n_probs = (int32_t)probs;
    serve_stream *run = st ? NULL : serve_submit(c->s, &p->job, 1, &c->excess, &err);
    if (!run) {
        serve_reply_error(c, 0, &err);
        return;
    }
    http_on_gone(c->http, serve_cancel, run);
    run_completion(c, run, p, stream);
    http_on_gone(c->http, NULL, NULL);
    serve_stream_free(run);
}

static void completion(serve_call *c) {
    ie_error err;
    serve_params p = {0};
    ie_status st = serve_read_params(c->s, c->body, &p, &err);
    if (!st) st = serve_text_prompt(c->s, json_object_get(c->body, "prompt"), &p, &err);
    if (st) serve_reply_error(c, 0, &err);
    else serve_llama_completion(c, &p);
    serve_params_free(&p);
}

const serve_route serve_routes_llama[] = {
    {"GET", "/health", health, ROUTE_OPEN | ROUTE_QUICK, "503 while the model is loading"},
    {"GET", "/v1/health", health, ROUTE_OPEN | ROUTE_QUICK, "the same"},
    {"GET", "/props", props, ROUTE_MODEL, "the model's properties"},
    {"GET", "/slots", slots, ROUTE_MODEL, "what each slot is doing"},
    {"POST", "/tokenize", tokenize, ROUTE_MODEL | ROUTE_BODY, "text to token ids"},
    {"POST", "/detokenize", detokenize, ROUTE_MODEL | ROUTE_BODY, "token ids to text"},
    {"POST", "/apply-template", apply_template, ROUTE_MODEL | ROUTE_BODY, "messages through the chat template"},
    {"POST", "/completion", completion, ROUTE_MODEL | ROUTE_BODY, "llama-server's completion"},
    {NULL, NULL, NULL, 0, NULL},
};
