#include "http_chunk.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PARTS 8       /* of a buffer that are looked at in one go */
#define SIZE_LINE 4096 /* bytes of a chunk's size and extension, at most */

/* The value behind a header's name and colon, NULL where the line is of another. */
static const char *value_of(const char *line, const char *name) {
    size_t n = strlen(name);
    if (strncasecmp(line, name, n) || line[n] != ':') return NULL;
    return line + n + 1 + strspn(line + n + 1, " \t");
}

/* False: no number, or too large a one. */
static bool number(const char *s, int base, uint64_t *out) {
    char *end;
    errno = 0;
    long long v = strtoll(s, &end, base);
    *out = (uint64_t)v;
    return end != s && !errno && v >= 0;
}

static void end_head(http_chunk *c) {
    if (!c->begun) return; /* empty lines before a request */
    c->state = c->chunked ? CHUNK_SIZE : c->left ? CHUNK_BODY : CHUNK_HEAD;
    c->chunked = c->begun = false;
}

static void head_line(http_chunk *c) {
    const char *coding = value_of(c->line, "Transfer-Encoding"), *length = value_of(c->line, "Content-Length");
    if (!*c->line) {
        end_head(c);
        return;
    }
    c->begun = true;
    if (coding && !strncasecmp(coding, "chunked", 7)) c->chunked = true;
    if (length && !number(length, 10, &c->left)) c->state = CHUNK_LOST;
}

static void size_line(http_chunk *c) {
    if (!*c->line) return; /* the end of the chunk before */
    if (!number(c->line, 16, &c->left)) c->state = CHUNK_LOST;
    else c->state = c->left ? CHUNK_DATA : CHUNK_TRAILER;
}

static void end_line(http_chunk *c) {
    while (c->n_line && strchr("\r \t", c->line[c->n_line - 1])) c->n_line--;
    c->line[c->n_line] = 0;
    if (c->state == CHUNK_HEAD) head_line(c);
    else if (c->state == CHUNK_SIZE) size_line(c);
    else if (!*c->line) c->state = CHUNK_HEAD, c->left = 0; /* behind the trailer */
    c->n_line = c->size_bytes = 0;
}

/* True: byte *at makes a size's line too long. */
static bool pass(http_chunk *c, unsigned char *data, size_t n, size_t *at) {
    for (size_t i = 0; i < n && c->state != CHUNK_LOST; i++) {
        if (c->state == CHUNK_BODY || c->state == CHUNK_DATA) {
            size_t take = c->left < n - i ? (size_t)c->left : n - i;
            c->left -= take;
            if (!c->left) c->state = c->state == CHUNK_BODY ? CHUNK_HEAD : CHUNK_SIZE;
            i += take - 1;
            continue;
        }
        if (data[i] == '\n') {
            end_line(c);
            continue;
        }
        if (c->state == CHUNK_SIZE && ++c->size_bytes > SIZE_LINE) {
            c->state = CHUNK_LOST, *at = i;
            return true;
        }
        if (c->state == CHUNK_SIZE && data[i] == ';') {
            if (!c->n_line || !isxdigit((unsigned char)c->line[0])) c->state = CHUNK_LOST; /* no size: evhttp shall see it */
            else data[i] = ' ';
        }
        if (c->n_line < sizeof c->line - 1) c->line[c->n_line++] = (char)data[i];
    }
    return false;
}

/* evhttp looks for a line's end from its beginning again whenever bytes come: a line that is too long ends here, as one that is no size, which
 * evhttp refuses. Its last byte is `behind` bytes before the end of b. */
static void cut_line(const http_chunk *c, struct evbuffer *b, unsigned char *last, size_t behind) {
    struct evbuffer_ptr at;
    struct evbuffer_iovec first;
    size_t back = behind + c->size_bytes;
    *last = '\n';
    if (evbuffer_get_length(b) < back || evbuffer_ptr_set(b, &at, evbuffer_get_length(b) - back, EVBUFFER_PTR_SET)) return;
    if (evbuffer_peek(b, 1, &at, &first, 1) >= 1 && first.iov_len) *(unsigned char *)first.iov_base = '!';
}

void http_chunk_pass(http_chunk *c, struct evbuffer *b, size_t n) {
    struct evbuffer_ptr at;
    struct evbuffer_iovec part[PARTS];
    while (n) {
        if (evbuffer_ptr_set(b, &at, evbuffer_get_length(b) - n, EVBUFFER_PTR_SET)) return; /* it is shorter */
        int k = evbuffer_peek(b, (ev_ssize_t)n, &at, part, PARTS);
        if (k < 1) return;
        for (int i = 0; i < k && i < PARTS; i++) {
            size_t len = part[i].iov_len < n ? part[i].iov_len : n, cut;
            if (pass(c, part[i].iov_base, len, &cut)) cut_line(c, b, (unsigned char *)part[i].iov_base + cut, n - cut - 1);
            n -= len;
        }
    }
}
