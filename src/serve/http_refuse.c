#include "http_refuse.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the answer ---------------------------------------------------------------------------------------------------- */

static const struct {
    int status;
    const char *reason, *type, *why; /* why: of answers that the HTTP layer gives by itself */
} words[] = {
    {200, "OK", NULL, NULL},
    {204, "No Content", NULL, NULL},
    {400, "Bad Request", "invalid_request_error", "this is not a valid HTTP request, or its chunks are malformed"},
    {401, "Unauthorized", NULL, NULL},
    {403, "Forbidden", NULL, NULL},
    {404, "Not Found", NULL, NULL},
    {405, "Method Not Allowed", NULL, NULL},
    {413, "Content Too Large", "invalid_request_error", "the request's body is larger than %zu bytes"},
    {415, "Unsupported Media Type", NULL, NULL},
    {417, "Expectation Failed", "invalid_request_error", "of expectations only 100-continue is known"},
    {429, "Too Many Requests", NULL, NULL},
    {431, "Request Header Fields Too Large", "invalid_request_error", "the request's headers are larger than %zu bytes"},
    {499, "Client Closed Request", NULL, NULL},
    {500, "Internal Server Error", "server_error", "the request could not be answered"},
    {501, "Not Implemented", "not_supported_error", "this HTTP method is not supported"},
    {503, "Service Unavailable", "unavailable_error", "the server has no memory for the request"},
};
#define N_WORDS (sizeof words / sizeof *words)

const char *http_reason(int status) {
    for (size_t i = 0; i < N_WORDS; i++)
        if (words[i].status == status) return words[i].reason;
    return "Answer";
}

int http_status_in(struct evbuffer *b) {
    char line[13] = {0};
    if (evbuffer_copyout(b, line, sizeof line - 1) != (ssize_t)sizeof line - 1 || memcmp(line, "HTTP/", 5)) return 0;
    const char *at = strchr(line, ' ');
    return at ? atoi(at + 1) : 0;
}

void http_put_refusal(struct evbuffer *b, int status, size_t max_header, size_t max_body) {
    size_t i = 0, other = 0;
    for (; i < N_WORDS && (words[i].status != status || !words[i].why); i++)
        if (words[i].status == 500) other = i;
    if (i == N_WORDS) i = other;
    char why[160], body[320];
    snprintf(why, sizeof why, words[i].why, status == 413 ? max_body : max_header);
    int n = snprintf(body, sizeof body, "{\"error\":{\"code\":%d,\"message\":\"%s\",\"type\":\"%s\",\"param\":null}}", status, why, words[i].type);
    evbuffer_drain(b, evbuffer_get_length(b));
    evbuffer_add_printf(b, "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", status,
                        words[i].reason, n, body);
}

/* ---- headers --------------------------------------------------------------------------------------------------------- */

static bool token(const char *s) {
    if (!*s) return false;
    for (; *s; s++)
        if (!isalnum((unsigned char)*s) && !strchr("!#$%&'*+-.^_`|~", *s)) return false;
    return true;
}

const char *http_bad_header(const char *name, const char *value, bool *length_seen) {
    if (!token(name)) return "the name of a header holds characters that it must not";
    for (const char *p = value; *p; p++)
        if ((unsigned char)*p < 0x20 && *p != '\t') return "a header holds control characters";
    if (!strcasecmp(name, "Content-Length")) {
        if (*length_seen) return "the request has two lengths";
        *length_seen = true;
    }
    if (!strcasecmp(name, "Transfer-Encoding") && strcasecmp(value, "chunked")) return "of transfer encodings only chunked is known";
    return NULL;
}
