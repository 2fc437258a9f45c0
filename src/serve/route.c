/* Which handler a request goes to, and what is checked before it: key, origin, readiness, body. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "serve.h"

static const serve_route *const tables[] = {
    serve_routes_openai,
    serve_routes_completions,
    serve_routes_embed,
    serve_routes_infill,
    serve_routes_llama,
    serve_routes_messages,
    serve_routes_metrics,
    serve_routes_models,
    serve_routes_page,
    serve_routes_responses,
};

/* *other: a method that the path has, NULL for unknown paths. */
static const serve_route *find(const http_req *r, const char **other) {
    const char *method = !strcmp(r->method, "HEAD") ? "GET" : r->method;
    *other = NULL;
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (const serve_route *row = tables[t]; row->path; row++) {
            if (row->flags & ROUTE_BELOW ? strncmp(row->path, r->path, strlen(row->path)) != 0 : strcmp(row->path, r->path) != 0) continue;
            *other = row->method;
            if (!strcmp(row->method, method)) return row;
        }
    return NULL;
}

/* ---- keys --------------------------------------------------------------------------------------------------------------- */

#define BLANK " \t\r\n"

/* The time depends on the lengths alone. */
static bool same_key(const char *a, size_t na, const char *b, size_t nb) {
    unsigned char diff = na != nb;
    for (size_t i = 0; i < na; i++) diff |= (unsigned char)(a[i] ^ b[nb ? i % nb : 0]);
    return diff == 0 && na > 0;
}

/* keys: one a line, blanks around them do not count. Every line is compared. */
static bool key_in(const char *keys, const char *key) {
    bool found = false;
    for (const char *p = keys + strspn(keys, BLANK); *p;) {
        size_t line = strcspn(p, "\r\n"), n = line;
        while (n && strchr(" \t", p[n - 1])) n--;
        found |= n > 0 && same_key(key, strlen(key), p, n);
        p += line + strspn(p + line, BLANK);
    }
    return found;
}

static bool allowed(serve *s, const http_req *r) {
    const char *auth = http_header(r, "Authorization"), *key = http_header(r, "x-api-key");
    pthread_mutex_lock(&s->key_lock);
    bool open = !s->keys;
    if (auth && !strncasecmp(auth, "Bearer ", 7)) key = auth + 7;
    bool ok = open || (key && key_in(s->keys, key));
    pthread_mutex_unlock(&s->key_lock);
    return ok;
}

/* ---- origins -------------------------------------------------------------------------------------------------------------- */

/* Blanks around the commas do not count. */
static bool in_list(const char *list, const char *word) {
    size_t len = strlen(word);
    for (const char *p = list + strspn(list, ", "); *p; p += strspn(p, ", ")) {
        size_t n = strcspn(p, ", ");
        if ((n == 1 && *p == '*') || (n == len && !memcmp(p, word, n))) return true;
        p += n;
    }
    return false;
}

static void cors(serve *s, http_req *r) {
    const char *origin = http_header(r, "Origin"), *asked = http_header(r, "Access-Control-Request-Headers");
    if (!origin || !s->opts.cors_origins || !in_list(s->opts.cors_origins, origin)) return;
    http_set_header(r, "Access-Control-Allow-Origin", origin);
    http_set_header(r, "Vary", "Origin");
    if (strcmp(r->method, "OPTIONS")) return;
    http_set_header(r, "Access-Control-Allow-Methods", "GET, POST, OPTIONS");
    http_set_header(r, "Access-Control-Allow-Headers", asked ? asked : "Authorization, Content-Type");
    http_set_header(r, "Access-Control-Max-Age", "86400");
}

/* A web page of another site that the browser has let send a request, though not read the answer: it shall not make the server work
 * either. Browsers say so themselves; other clients do not send the header. */
static bool foreign(const serve *s, const http_req *r) {
    const char *origin = http_header(r, "Origin"), *site = http_header(r, "Sec-Fetch-Site");
    if (!site || strcmp(r->method, "POST") || (strcmp(site, "cross-site") && strcmp(site, "same-site"))) return false;
    return !origin || !s->opts.cors_origins || !in_list(s->opts.cors_origins, origin);
}

/* ---- one request ------------------------------------------------------------------------------------------------------------ */

static void refuse(serve_call *c, int status, const char *why) {
    ie_error err;
    ie_fail(&err, status == 503 ? IE_E_FULL : IE_E_ARG, "%s", why);
    serve_reply_error(c, status, &err);
}

/* False: refused, answered. */
static bool admit(serve_call *c, const serve_route *row, const char *other) {
    char why[300];
    c->flags = row ? row->flags : 0;
    if (!row) {
        if (other) http_set_header(c->http, "Allow", strcmp(other, "GET") ? "POST, OPTIONS" : "GET, HEAD, OPTIONS");
        snprintf(why, sizeof why, other ? "%s is not allowed for %.200s" : "there is no endpoint %s %.200s", c->http->method, c->http->path);
        refuse(c, other ? 405 : 404, why);
        return false;
    }
    if (foreign(c->s, c->http)) {
        refuse(c, 403, "web pages of this origin may not use the server: --cors-origins names those that may");
        return false;
    }
    if (!(row->flags & ROUTE_OPEN) && !allowed(c->s, c->http)) {
        refuse(c, 401, "this server needs an API key: Authorization: Bearer KEY");
        return false;
    }
    if ((row->flags & ROUTE_MODEL) && c->s->phase != SERVE_READY) {
        refuse(c, 503, c->s->phase == SERVE_LOADING ? "the model is loading" : "the server is shutting down");
        return false;
    }
    const char *coding = http_header(c->http, "Content-Encoding");
    if ((row->flags & ROUTE_BODY) && coding && strcasecmp(coding, "identity")) {
        snprintf(why, sizeof why, "the body's Content-Encoding is '%.80s'; bodies are taken as they are (identity)", coding);
        http_set_header(c->http, "Accept-Encoding", "identity");
        refuse(c, 415, why);
        return false;
    }
    ie_error err;
    if ((row->flags & ROUTE_BODY) && !(c->body = serve_json_parse(c->http->body, c->http->body_len, &err))) {
        serve_reply_error(c, 400, &err);
        return false;
    }
    return true;
}

static void log_request(serve *s, const http_req *r) {
    if (s->opts.quiet) return;
    double ms = (ie_now() - r->began) * 1e3;
    json_t *fields = json_pack("{s:o, s:o, s:o, s:i, s:I, s:f}", "peer", serve_json_text(r->peer, strlen(r->peer)), "method",
                               serve_json_text(r->method, strlen(r->method)), "path", serve_json_text(r->path, strlen(r->path)), "status", r->status,
                               "bytes", (json_int_t)r->sent, "ms", ms);
    serve_log_fields(s, "info", fields, "%s %s %s %d, %llu bytes, %.1f ms", r->peer, r->method, r->path, r->status, (unsigned long long)r->sent, ms);
}

bool serve_quick(void *user, http_req *r) {
    serve_call c = {.s = user, .http = r};
    const char *other;
    if (!strcmp(r->method, "OPTIONS")) {
        cors(c.s, r);
        http_send(r, 204, "text/plain", NULL, 0);
        return true;
    }
    const serve_route *row = find(r, &other);
    if (row && !(row->flags & ROUTE_QUICK)) return false;
    cors(c.s, r);
    if (admit(&c, row, other)) row->handle(&c); // NOLINT(clang-analyzer-core.NullDereference): admitted, so not NULL
    return true;
}

void serve_handle(void *user, http_req *r) {
    serve_call c = {.s = user, .http = r};
    const char *other;
    const serve_route *row = find(r, &other);
    cors(c.s, r);
    if (admit(&c, row, other)) row->handle(&c);
    json_decref(c.body);
    log_request(c.s, r);
}

/* ---- log ----------------------------------------------------------------------------------------------------------------------- */

/* One line, written by one call so that lines of threads do not mix. fields (may be NULL) are members of a JSON line only. */
static void write_line(serve *s, const char *level, json_t *fields, const char *fmt, va_list ap) {
    char text[700], when[32];
    vsnprintf(text, sizeof text, fmt, ap);
    for (char *p = text; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7F) *p = '?';
    time_t now = time(NULL);
    struct tm tm;
    strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &tm));
    if (strcmp(s->opts.log_format, "json")) {
        fprintf(stderr, "%s %s %s\n", when, level, text);
        return;
    }
    json_t *line = json_pack("{s:s, s:s, s:o}", "time", when, "level", level, "message", serve_json_text(text, strlen(text)));
    ie_buf b = {0};
    if (line && fields) json_object_update(line, fields);
    if (line && serve_json_dump(line, &b, NULL)) fprintf(stderr, "%s\n", b.data);
    ie_buf_free(&b);
    json_decref(line);
}

void serve_log(serve *s, const char *level, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    write_line(s, level, NULL, fmt, ap);
    va_end(ap);
}

void serve_log_fields(serve *s, const char *level, json_t *fields, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    write_line(s, level, fields, fmt, ap);
    va_end(ap);
    json_decref(fields);
}
