/* From a request's members to a job: sampling, limits, stop strings, biases, grammars, prompts. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "serve.h"

#define TOP_P_LEAST 1e-9f /* what 0 means: the likeliest token */
#define LOG_LEAST -1e9f /* stands for minus infinity */
#define NEVER -1e30f      /* bias of a banned token: finite, so that a grammar that leaves nothing else still has its text completed */

/* Numbers of the sampling, by the names of OpenAI and llama-server. */
static const struct {
    const char *name;
    size_t at;
    double min, max;
} floats[] = {
    {"temperature", offsetof(ie_sampling, temp), 0, 1e6},
    {"top_p", offsetof(ie_sampling, top_p), 0, 1},
    {"min_p", offsetof(ie_sampling, min_p), 0, 1},
    {"repeat_penalty", offsetof(ie_sampling, repeat_penalty), 1e-3, 1e3},
    {"repetition_penalty", offsetof(ie_sampling, repeat_penalty), 1e-3, 1e3},
    {"presence_penalty", offsetof(ie_sampling, presence_penalty), -2, 2},
    {"frequency_penalty", offsetof(ie_sampling, frequency_penalty), -2, 2},
};

static ie_status read_sampling(const json_t *o, ie_sampling *s, ie_error *err) {
    ie_status st = IE_OK;
    for (size_t i = 0; i < sizeof floats / sizeof *floats && !st; i++) {
        float *f = (float *)(void *)((char *)s + floats[i].at);
        double d = (double)*f;
        st = serve_get_num(o, floats[i].name, floats[i].min, floats[i].max, &d, err);
        *f = (float)d;
    }
    if (s->top_p < TOP_P_LEAST) s->top_p = TOP_P_LEAST;
    int64_t top_k = s->top_k, last = s->repeat_last, seed = -1;
    if (!st) st = serve_get_int(o, "top_k", -1, INT32_MAX, &top_k, err);
    if (!st) st = serve_get_int(o, "repeat_last_n", -1, INT32_MAX, &last, err);
    if (!st) st = serve_get_int(o, "seed", INT64_MIN, INT64_MAX, &seed, err);
    s->top_k = top_k < 0 ? 0 : (int32_t)top_k;
    s->repeat_last = last < 0 ? INT32_MAX : (int32_t)last;
    s->seed = (uint64_t)seed;
    if (seed == -1) { /* none given, or llama-server's word for that: another text each time */
        static _Atomic uint64_t count;
        s->seed = ((uint64_t)(ie_now() * 1e9) + ++count) * 0x9E3779B97F4A7C15u;
    }
    return st;
}

static ie_status read_stop(const json_t *o, serve_params *p, ie_error *err) {
    const json_t *v = json_object_get(o, "stop");
    if (!v || json_is_null(v)) return IE_OK;
    size_t n = json_is_string(v) ? 1 : json_array_size(v);
    if ((!json_is_string(v) && !json_is_array(v)) || n > IE_STOP_MAX)
        return ie_fail(err, IE_E_ARG, "'stop' must be a string or at most %u strings", IE_STOP_MAX);
    for (size_t i = 0; i < n; i++) {
        const json_t *t = json_is_string(v) ? v : json_array_get(v, i);
        if (!json_is_string(t)) return ie_fail(err, IE_E_ARG, "'stop' must be a string or at most %u strings", IE_STOP_MAX);
        if (json_string_length(t) == 0) continue;
        p->stop[p->job.n_stop++] = (ie_stop_text){json_string_value(t), json_string_length(t)};
    }
    p->job.stop = p->stop;
    return IE_OK;
}

/* {"15043": -100, ...}, or llama-server's [[15043, -100], ...] with false for never. */
static ie_status read_bias(serve *s, const json_t *o, serve_params *p, ie_error *err) {
    static const char allowed[] = "'logit_bias' must map token ids to numbers from -100 to 100";
    json_t *v = json_object_get(o, "logit_bias");
    if (!v || json_is_null(v)) return IE_OK;
    bool object = json_is_object(v);
    size_t n = object ? json_object_size(v) : json_array_size(v), i = 0;
    if (!object && !json_is_array(v)) return ie_fail(err, IE_E_ARG, "%s", allowed);
    if (!n) return IE_OK;
    if (!(p->bias = ie_calloc(n, sizeof *p->bias, "logit_bias", err))) return IE_E_NOMEM;
    void *it = object ? json_object_iter(v) : NULL;
    for (i = 0; i < n; i++) {
        const json_t *pair = object ? NULL : json_array_get(v, i), *val = object ? json_object_iter_value(it) : json_array_get(pair, 1);
        char *end = NULL;
        long id = object ? strtol(json_object_iter_key(it), &end, 10)
                         : json_is_integer(json_array_get(pair, 0)) ? (long)json_integer_value(json_array_get(pair, 0)) : -1;
        bool never = json_is_false(val);
        double d = json_number_value(val);
        if ((end && (*end || end == json_object_iter_key(it))) || id < 0 || id >= s->info.n_vocab || (!never && !json_is_number(val)) || !(fabs(d) <= 100))
            return ie_fail(err, IE_E_ARG, "%s below %d", allowed, s->info.n_vocab);
        p->bias[i] = (ie_bias){(int32_t)id, never || d == -100 ? NEVER : (float)d};
        if (object) it = json_object_iter_next(v, it);
    }
    p->job.sampling.bias = p->bias;
    p->job.sampling.n_bias = (int32_t)n;
    return IE_OK;
}

static ie_status set_constraint(serve_params *p, ie_grammar_kind kind, const char *text, size_t n, ie_error *err) {
    p->constrained = true;
    p->constraint_kind = kind;
    return ie_buf_add(&p->constraint, text, n, err) ? IE_OK : IE_E_NOMEM;
}

static ie_status set_schema(serve_params *p, const char *name, const json_t *schema, ie_error *err) {
    if (!json_is_object(schema) && !json_is_boolean(schema)) return serve_wrong(name, schema, err, "a JSON Schema: an object, true or false");
    p->constrained = true;
    p->constraint_kind = IE_GRAMMAR_JSON_SCHEMA;
    return serve_json_dump(schema, &p->constraint, err) ? IE_OK : IE_E_NOMEM;
}

/* response_format (OpenAI), grammar and json_schema (llama-server): at most one. */
static ie_status read_constraint(const json_t *o, serve_params *p, ie_error *err) {
    json_t *format = NULL, *inner = NULL;
    const char *gbnf = NULL, *type = "text", *name = p->format_name ? p->format_name : "response_format";
    char at[96];
    size_t n = 0;
    ie_status st = serve_get_obj(o, "response_format", &format, err);
    if (!st) st = serve_get_str(o, "grammar", &gbnf, &n, err);
    if (st) return st;
    json_t *schema = json_object_get(o, "json_schema");
    if (schema && json_is_null(schema)) schema = NULL;
    if (format) st = serve_get_str(format, "type", &type, NULL, err);
    if (!st && json_object_size(format) && !json_is_string(json_object_get(format, "type"))) st = ie_fail(err, IE_E_ARG, "'%s.type' is missing", name);
    if (st) return st;
    if ((gbnf && n) + (schema != NULL) + (strcmp(type, "text") != 0) > 1)
        return ie_fail(err, IE_E_ARG, "only one of '%s', 'grammar' and 'json_schema' can be given", name);
    if (gbnf && n) return set_constraint(p, IE_GRAMMAR_GBNF, gbnf, n, err);
    if (schema) return set_schema(p, "json_schema", schema, err);
    if (!strcmp(type, "text")) return IE_OK;
    if (!strcmp(type, "json_object") && !json_object_get(format, "schema")) return set_constraint(p, IE_GRAMMAR_JSON_OBJECT, "", 0, err);
    if (strcmp(type, "json_object") && strcmp(type, "json_schema")) return ie_fail(err, IE_E_ARG, "'%s.type' must be text, json_object or json_schema", name);
    if (!strcmp(type, "json_schema")) st = serve_get_obj(format, "json_schema", &inner, err);
    if (st) return st;
    schema = json_object_get(inner ? inner : format, "schema");
    /* The other families' formats hold the schema themselves. */
    bool deep = inner || (!p->format_name && !schema && !strcmp(type, "json_schema"));
    snprintf(at, sizeof at, "%s%s.schema", name, deep ? ".json_schema" : "");
    if (!schema) return ie_fail(err, IE_E_ARG, "'%s' is missing", at);
    return set_schema(p, at, schema, err);
}

ie_status serve_read_sampling(serve *s, const json_t *o, serve_params *p, ie_error *err) {
    static const char *const limits[] = {"n_predict", "max_tokens", "max_completion_tokens"};
    *p = (serve_params){.job = {.n_probs = -1, .no_cache = s->opts.no_cache}, .format_name = p->format_name};
    ie_sampling_default(&p->job.sampling);
    p->job.sampling.temp = 1;
    int64_t max = s->opts.max_tokens;
    bool cache = !s->opts.no_cache, ignore = false, progress = false;
    ie_status st = read_sampling(o, &p->job.sampling, err);
    for (int i = 0; i < 3 && !st; i++) st = serve_get_int(o, limits[i], -1, INT32_MAX, &max, err);
    p->job.max_tokens = (int32_t)max;
    if (!st) st = serve_get_bool(o, "cache_prompt", &cache, err);
    if (!st) st = serve_get_bool(o, "ignore_eos", &ignore, err);
    if (!st) st = serve_get_bool(o, "return_progress", &progress, err);
    p->job.no_cache = s->opts.no_cache || !cache;
    p->job.ignore_end = ignore;
    p->job.progress = progress;
    if (!st) st = read_stop(o, p, err);
    if (!st) st = read_bias(s, o, p, err);
    if (!st) st = read_constraint(o, p, err);
    if (st) serve_params_free(p);
    return st;
}

ie_status serve_read_params(serve *s, const json_t *o, serve_params *p, ie_error *err) {
    ie_status st = serve_read_sampling(s, o, p, err);
    if (st || !p->constrained) return st;
    p->job.grammar = ie_grammar_new(s->model, p->constraint_kind, p->constraint.data, p->constraint.len, err);
    if (p->job.grammar) return IE_OK;
    if (err->code == IE_E_UNSUPPORTED) err->code = IE_E_ARG; /* the client's to change */
    serve_params_free(p);
    return err->code;
}

void serve_params_free(serve_params *p) {
    free(p->job.prompt);
    free(p->bias);
    ie_grammar_free(p->job.grammar);
    ie_buf_free(&p->constraint);
    json_decref(p->tools);
    p->tools = NULL;
    p->job.prompt = NULL;
    p->job.grammar = NULL;
    p->bias = NULL;
}

/* ---- prompts ------------------------------------------------------------------------------------------------------------ */

ie_status serve_text_prompt(serve *s, const json_t *prompt, serve_params *p, ie_error *err) {
    size_t n = 0;
    if (json_is_string(prompt)) {
        ie_status st = ie_tokenize(s->model, json_string_value(prompt), json_string_length(prompt), IE_TOK_ADD_SPECIAL, &p->job.prompt, &n, err);
        p->job.n_prompt = p->job.n_stable = (int32_t)n;
        return st;
    }
    n = json_array_size(prompt);
    if (!n) return ie_fail(err, IE_E_ARG, "'prompt' must be a text or a list of token ids");
    if (!(p->job.prompt = ie_calloc(n, sizeof *p->job.prompt, "prompt", err))) return IE_E_NOMEM;
    for (size_t i = 0; i < n; i++) {
        const json_t *v = json_array_get(prompt, i);
        json_int_t id = json_integer_value(v);
        if (!json_is_integer(v) || id < 0 || id >= s->info.n_vocab)
            return ie_fail(err, IE_E_ARG, "'prompt' must be a text or a list of token ids from 0 to %d", s->info.n_vocab - 1);
        p->job.prompt[i] = (int32_t)id;
    }
    p->job.n_prompt = p->job.n_stable = (int32_t)n;
    return IE_OK;
}

/* ---- common members of answers --------------------------------------------------------------------------------------------- */

const char *serve_finish(const serve_result *r) { return r->reason == SERVE_STOP_LENGTH || r->reason == SERVE_STOP_CTX ? "length" : "stop"; }

json_t *serve_usage(const serve_result *r) {
    return json_pack("{s:i, s:i, s:i, s:{s:i}}", "prompt_tokens", r->n_prompt, "completion_tokens", r->n_predicted, "total_tokens",
                     r->n_prompt + r->n_predicted, "prompt_tokens_details", "cached_tokens", r->n_cached);
}

static double per_s(int32_t n, double s) { return s > 0 ? n / s : 0; }

json_t *serve_timings(const serve_result *r) {
    int32_t n = r->n_prompt - r->n_cached;
    return json_pack("{s:i, s:i, s:f, s:f, s:i, s:f, s:f, s:f}", "prompt_n", n, "cache_n", r->n_cached, "prompt_ms", r->prompt_s * 1e3,
                     "prompt_per_second", per_s(n, r->prompt_s), "predicted_n", r->n_predicted, "predicted_ms", r->predicted_s * 1e3,
                     "predicted_per_second", per_s(r->n_predicted - 1, r->predicted_s), "queue_ms", r->queue_s * 1e3);
}

json_t *serve_progress(const serve_event *ev) {
    return json_pack("{s:i, s:i, s:i, s:f}", "total", ev->result.n_prompt, "cache", ev->result.n_cached, "processed", ev->token, "time_ms",
                     ev->result.prompt_s * 1e3);
}

static bool token_bytes(serve *s, int32_t token, char **text, size_t *n) {
    ie_error none;
    return ie_detokenize(s->model, &token, 1, IE_DETOK_SPECIAL, text, n, &none) == IE_OK;
}

json_t *serve_token_text(serve *s, int32_t token) {
    char *text;
    size_t n;
    if (!token_bytes(s, token, &text, &n)) return json_string("");
    json_t *j = serve_json_text(text, n);
    ie_free(text);
    return j;
}

json_t *serve_token_bytes(serve *s, int32_t token) {
    char *text;
    size_t n;
    json_t *a = json_array();
    if (!token_bytes(s, token, &text, &n)) return a;
    for (size_t i = 0; i < n; i++) json_array_append_new(a, json_integer((unsigned char)text[i]));
    ie_free(text);
    return a;
}

static json_t *prob_entry(serve *s, int32_t token, float logprob) {
    return json_pack("{s:i, s:o, s:f, s:o}", "id", token, "token", serve_token_text(s, token), "logprob", (double)(logprob > LOG_LEAST ? logprob : LOG_LEAST),
                     "bytes", serve_token_bytes(s, token));
}

json_t *serve_token_prob(serve *s, const serve_event *ev) {
    json_t *e = prob_entry(s, ev->token, ev->logprob), *top = json_array();
    for (uint32_t i = 0; i < ev->n_top; i++) json_array_append_new(top, prob_entry(s, ev->top[i].token, ev->top[i].logprob));
    json_object_set_new(e, "top_logprobs", top);
    return e;
}

void serve_new_id(const char *prefix, char out[64]) {
    static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    static _Atomic uint64_t count;
    uint64_t x = ((uint64_t)(ie_now() * 1e9) ^ (++count * 0x9E3779B97F4A7C15u)) | 1;
    size_t n = strlen(prefix) < 30 ? strlen(prefix) : 30;
    memcpy(out, prefix, n);
    for (size_t i = 0; i < 24; i++) {
        x ^= x >> 12, x ^= x << 25, x ^= x >> 27;
        out[n++] = digits[(x * 0x2545F4914F6CDD1Du >> 33) % 62];
    }
    out[n] = 0;
}
