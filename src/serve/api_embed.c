/* OpenAI's /v1/embeddings: texts as vectors of length 1. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "serve.h"

#define MAX_INPUTS 2048
#define AT_ONCE 8 /* inputs that are submitted together */

typedef struct {
    serve_call *c;
    bool base64;
    int32_t dims; /* of the answer's vectors */
    serve_purpose purpose;
    serve_prompt *input;
    uint32_t n;
    json_t *data;
    int64_t tokens;
} embeddings;

/* ---- vectors ------------------------------------------------------------------------------------------------------------------- */

/* The first dims numbers, of length 1 again. */
static void shorten(float *v, int32_t dims) {
    double square = 0;
    for (int32_t i = 0; i < dims; i++) square = fma((double)v[i], (double)v[i], square);
    double scale = square > 0 ? 1 / sqrt(square) : 0;
    for (int32_t i = 0; i < dims; i++) v[i] = (float)((double)v[i] * scale);
}

/* f32, least significant byte first, as base64. */
static json_t *base64_of(const float *v, int32_t dims) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t bytes = (size_t)dims * 4, n = 0;
    char *text = malloc((bytes + 2) / 3 * 4);
    if (!text) return NULL;
    for (size_t i = 0; i < bytes; i += 3) {
        uint32_t group = 0;
        for (size_t b = 0; b < 3; b++) {
            uint32_t word = 0;
            if (i + b < bytes) memcpy(&word, &v[(i + b) / 4], 4);
            group = group << 8 | (word >> (i + b) % 4 * 8 & 0xFF);
        }
        for (size_t d = 0; d < 4; d++) text[n++] = i + d > bytes ? '=' : digits[group >> (18 - 6 * d) & 63];
    }
    json_t *j = json_stringn(text, n);
    free(text);
    return j;
}

static json_t *vector_json(const embeddings *k, float *v) {
    if (k->dims < k->c->s->info.n_embd) shorten(v, k->dims);
    if (k->base64) return base64_of(v, k->dims);
    json_t *list = json_array();
    for (int32_t i = 0; i < k->dims; i++) json_array_append_new(list, json_real((double)v[i]));
    return list;
}

/* ---- requests ------------------------------------------------------------------------------------------------------------------- */

static ie_status read_request(embeddings *k, ie_error *err) {
    serve *s = k->c->s;
    const json_t *o = k->c->body;
    const char *format = "float", *pooling = s->info.pooling == IE_POOL_LAST ? "last" : "mean";
    int64_t dims = s->info.n_embd;
    if (s->opts.pooling) pooling = s->opts.pooling;
    ie_status st = serve_check_openai(o, err);
    if (!st) st = serve_get_str(o, "encoding_format", &format, NULL, err);
    if (!st) st = serve_get_str(o, "pooling", &pooling, NULL, err);
    if (!st) st = serve_get_int(o, "dimensions", 1, s->info.n_embd, &dims, err);
    if (st) return st;
    k->base64 = !strcmp(format, "base64");
    k->dims = (int32_t)dims;
    k->purpose = !strcmp(pooling, "last") ? SERVE_EMBED_LAST : SERVE_EMBED_MEAN;
    if (!k->base64 && strcmp(format, "float")) return ie_fail(err, IE_E_ARG, "'encoding_format' is '%.40s', allowed are float and base64", format);
    if (k->purpose == SERVE_EMBED_MEAN && strcmp(pooling, "mean")) return ie_fail(err, IE_E_ARG, "'pooling' is '%.40s', allowed are mean and last", pooling);
    return serve_prompts(s, json_object_get(o, "input"), "input", MAX_INPUTS, &k->input, &k->n, err);
}

/* Inputs [from, from + n) to vectors. */
static ie_status embed(embeddings *k, uint32_t from, uint32_t n, ie_error *err) {
    serve_job jobs[AT_ONCE];
    json_t *vector[AT_ONCE] = {0};
    serve_event ev;
    for (uint32_t i = 0; i < n; i++) {
        serve_prompt *p = &k->input[from + i];
        jobs[i] = (serve_job){.prompt = p->id, .n_prompt = p->n, .n_stable = p->n, .n_probs = -1, .no_cache = true, .purpose = k->purpose};
        ie_sampling_default(&jobs[i].sampling);
        p->id = NULL;
    }
    serve_stream *st = serve_submit(k->c->s, jobs, n, &k->c->excess, err);
    if (!st) return err->code;
    err->code = IE_OK;
    http_on_gone(k->c->http, serve_cancel, st);
    while (serve_next(st, &ev)) {
        if (ev.kind == SERVE_EV_ERROR && !err->code) *err = ev.err;
        if (ev.kind == SERVE_EV_DONE && ev.vector) vector[ev.index] = vector_json(k, ev.vector), k->tokens += ev.result.n_prompt;
        serve_event_free(&ev);
    }
    http_on_gone(k->c->http, NULL, NULL);
    serve_stream_free(st);
    for (uint32_t i = 0; i < n; i++) {
        if (!vector[i] && !err->code) ie_fail(err, IE_E_NOMEM, "no memory for the embedding");
        if (vector[i])
            json_array_append_new(k->data, json_pack("{s:s, s:i, s:o}", "object", "embedding", "index", (int)(from + i), "embedding", vector[i]));
    }
    return err->code;
}

static void embeddings_of(serve_call *c) {
    embeddings k = {.c = c, .data = json_array()};
    ie_error err;
    ie_status st = read_request(&k, &err);
    uint32_t most = c->s->opts.queue < AT_ONCE ? (uint32_t)c->s->opts.queue : AT_ONCE;
    for (uint32_t i = 0; i < k.n && !st; i += most) st = embed(&k, i, k.n - i < most ? k.n - i : most, &err);
    if (st) serve_reply_error(c, 0, &err);
    else
        serve_reply_json(c, 200, json_pack("{s:s, s:O, s:s, s:{s:I, s:I}}", "object", "list", "data", k.data, "model", c->s->model_id, "usage",
                                           "prompt_tokens", (json_int_t)k.tokens, "total_tokens", (json_int_t)k.tokens));
    json_decref(k.data);
    serve_prompts_free(k.input, k.n);
}

const serve_route serve_routes_embed[] = {
    {"POST", "/v1/embeddings", embeddings_of, ROUTE_MODEL | ROUTE_BODY, "texts as vectors"},
    {"POST", "/embeddings", embeddings_of, ROUTE_MODEL | ROUTE_BODY, "the same"},
    {NULL, NULL, NULL, 0, NULL},
};
