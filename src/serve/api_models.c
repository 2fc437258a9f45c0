/* OpenAI's /v1/models: the one model that is served. */
#include <string.h>

#include "serve.h"

#define ONE "/v1/models/"

static json_t *model_json(const serve *s) {
    json_t *meta = json_pack("{s:I, s:i, s:i, s:i, s:I}", "n_params", (json_int_t)s->info.n_params, "n_ctx_train", s->info.n_ctx_train, "n_vocab",
                             s->info.n_vocab, "n_embd", s->info.n_embd, "size", (json_int_t)s->info.file_bytes);
    return json_pack("{s:s, s:s, s:I, s:s, s:i, s:i, s:o}", "id", s->model_id, "object", "model", "created", (json_int_t)s->started, "owned_by",
                     "ie-serve", "context_length", s->n_ctx, "max_model_len", s->n_ctx, "meta", meta);
}

static void models(serve_call *c) { serve_reply_json(c, 200, json_pack("{s:s, s:[o]}", "object", "list", "data", model_json(c->s))); }

static int hex(char c) { return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1; }

/* True when the rest of a path (percent-encoded) is this name. */
static bool is_name(const char *path, const char *name) {
    for (; *path && *name; name++) {
        bool code = *path == '%' && hex(path[1]) >= 0 && hex(path[2]) >= 0;
        if ((code ? (char)(hex(path[1]) << 4 | hex(path[2])) : *path) != *name) return false;
        path += code ? 3 : 1;
    }
    return !*path && !*name;
}

static void model(serve_call *c) {
    ie_error err;
    if (is_name(c->http->path + sizeof ONE - 1, c->s->model_id)) {
        serve_reply_json(c, 200, model_json(c->s));
        return;
    }
    ie_fail(&err, IE_E_ARG, "the model '%.200s' does not exist; '%.200s' is served", c->http->path + sizeof ONE - 1, c->s->model_id);
    serve_reply_error(c, 404, &err);
}

const serve_route serve_routes_models[] = {
    {"GET", "/v1/models", models, ROUTE_MODEL, "the model, its context length"},
    {"GET", "/models", models, ROUTE_MODEL, "the same"},
    {"GET", ONE, model, ROUTE_MODEL | ROUTE_BELOW, "the model of that name"},
    {NULL, NULL, NULL, 0, NULL},
};
