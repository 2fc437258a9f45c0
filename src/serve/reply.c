/* Answers: JSON, errors in OpenAI's form, server-sent events. */
#include <stdio.h>
#include <string.h>

#include "serve.h"

static const struct {
    ie_status code;
    int status;
} statuses[] = {{IE_E_ARG, 400}, {IE_E_FORMAT, 400}, {IE_E_UNSUPPORTED, 501}, {IE_E_FULL, 503}, {IE_E_NOMEM, 503},
                {IE_E_CANCELLED, 499}, {IE_E_NUMERIC, 500}, {IE_E_DEVICE, 500}, {IE_E_IO, 500}};

int serve_status_of(const ie_error *err) {
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++)
        if (statuses[i].code == err->code) return statuses[i].status;
    return 500;
}

static const char *type_of(int status) {
    static const struct {
        int status;
        const char *type;
    } types[] = {{400, "invalid_request_error"}, {401, "authentication_error"}, {403, "permission_error"}, {404, "not_found_error"},
                 {405, "invalid_request_error"}, {413, "invalid_request_error"}, {415, "invalid_request_error"}, {501, "not_supported_error"}, {503, "unavailable_error"}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].status == status) return types[i].type;
    return "server_error";
}

/* OpenAI's form, with llama-server's type and members where a prompt was too long. */
static json_t *openai_error(int status, const ie_error *err, const serve_excess *x) {
    const char *type = x->n_prompt ? "exceed_context_size_error" : type_of(status);
    json_t *e = json_pack("{s:i, s:s, s:s, s:n}", "code", status, "message", err->msg, "type", type, "param");
    if (x->n_prompt) json_object_update_new(e, json_pack("{s:i, s:i}", "n_prompt_tokens", x->n_prompt, "n_ctx", x->n_ctx));
    return json_pack("{s:o}", "error", e);
}

/* {"type": "error", "error": {"type": ..., "message": ...}}, as Anthropic words it. */
static json_t *anthropic_error(int status, const ie_error *err) {
    static const struct {
        int status;
        const char *type;
    } types[] = {{400, "invalid_request_error"}, {401, "authentication_error"}, {403, "permission_error"}, {404, "not_found_error"},
                 {405, "invalid_request_error"}, {413, "request_too_large"}, {415, "invalid_request_error"}, {429, "rate_limit_error"}, {501, "invalid_request_error"}, {503, "overloaded_error"}};
    const char *type = "api_error";
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].status == status) type = types[i].type;
    return json_pack("{s:s, s:{s:s, s:s}}", "type", "error", "error", "type", type, "message", err->msg);
}

json_t *serve_call_error(const serve_call *c, int status, const ie_error *err) {
    if (!status) status = serve_status_of(err);
    return c->flags & ROUTE_ANTHROPIC ? anthropic_error(status, err) : openai_error(status, err, &c->excess);
}

static void send_json(serve_call *c, int status, const json_t *obj) {
    ie_buf b = {0};
    if (obj && serve_json_dump(obj, &b, NULL)) http_send(c->http, status, "application/json", b.data, b.len);
    else http_send(c->http, 503, "text/plain", "no memory\n", 10);
    ie_buf_free(&b);
}

void serve_reply_json(serve_call *c, int status, json_t *obj) {
    send_json(c, status, obj);
    json_decref(obj);
}

void serve_reply_text(serve_call *c, int status, const char *type, const char *text) { http_send(c->http, status, type, text, strlen(text)); }

void serve_reply_error(serve_call *c, int status, const ie_error *err) {
    if (!status) status = serve_status_of(err);
    if (status == 503) http_set_header(c->http, "Retry-After", "1");
    serve_reply_json(c, status, serve_call_error(c, status, err));
}

/* ---- server-sent events ------------------------------------------------------------------------------------------------ */

void serve_sse_begin(serve_call *c) {
    http_set_header(c->http, "Cache-Control", "no-cache");
    http_set_header(c->http, "X-Accel-Buffering", "no"); /* reverse proxies must pass events on at once */
    http_begin(c->http, 200, "text/event-stream; charset=utf-8");
}

bool serve_sse(serve_call *c, const char *name, json_t *obj) {
    ie_buf b = {0};
    bool ok = obj && (!name || ie_buf_printf(&b, NULL, "event: %s\n", name)) && ie_buf_add(&b, "data: ", 6, NULL) &&
              serve_json_dump(obj, &b, NULL) && ie_buf_add(&b, "\n\n", 2, NULL) && http_write(c->http, b.data, b.len);
    ie_buf_free(&b);
    json_decref(obj);
    return ok;
}

bool serve_sse_raw(serve_call *c, const char *data) {
    ie_buf b = {0};
    bool ok = ie_buf_printf(&b, NULL, "data: %s\n\n", data) && http_write(c->http, b.data, b.len);
    ie_buf_free(&b);
    return ok;
}
