/* llama-server's /infill: code between a prefix and a suffix. */
#include "serve.h"

static void infill(serve_call *c) {
    ie_error err;
    serve_params p = {0};
    serve_prompt prompt = {0};
    const json_t *o = c->body, *prefix = json_object_get(o, "input_prefix"), *suffix = json_object_get(o, "input_suffix");
    ie_status st = serve_read_params(c->s, o, &p, &err);
    if (!st && !prefix && !suffix) st = ie_fail(&err, IE_E_ARG, "'input_prefix' or 'input_suffix' is missing");
    if (!st) st = serve_fim_prompt(c->s, prefix, suffix, json_object_get(o, "input_extra"), json_object_get(o, "prompt"), &prompt, &err);
    if (st) {
        serve_reply_error(c, 0, &err);
    } else {
        p.job.prompt = prompt.id;
        p.job.n_prompt = p.job.n_stable = prompt.n;
        serve_llama_completion(c, &p);
    }
    serve_params_free(&p);
}

const serve_route serve_routes_infill[] = {
    {"POST", "/infill", infill, ROUTE_MODEL | ROUTE_BODY, "code between a prefix and a suffix"},
    {NULL, NULL, NULL, 0, NULL},
};
