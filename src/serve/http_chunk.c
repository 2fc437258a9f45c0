#include "http_chunk.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PARTS 8       /* of a buffer that are looked at in one go */
#define SIZE_DIGITS 32 /* of a chunk's size: more are no size */
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

/* Digits, then nothing but blanks; extensions are not in the line. */
static void size_line(http_chunk *c) {
    size_t digits = strspn(c->line, "0123456789abcdefABCDEF");
    c->malformed = !digits || digits > SIZE_DIGITS || digits + strspn(c->line + digits, " ") != c->n_line;
    if (c->malformed || !number(c->line, 16, &c->left)) c->state = CHUNK_LOST;
    else c->state = c->left ? CHUNK_DATA : CHUNK_TRAILER;
}

static void end_line(http_chunk *c) {
    const char *blank = c->state == CHUNK_SIZE ? "\r" : "\r \t";
    while (c->n_line && c->line[c->n_line - 1] && strchr(blank, c->line[c->n_line - 1])) c->n_line--;
    c->line[c->n_line] = 0;
    if (c->state == CHUNK_HEAD) head_line(c);
    else if (c->state == CHUNK_SIZE) size_line(c);
    else if (c->state == CHUNK_END) c->state = CHUNK_SIZE;
    else if (!*c->line) c->state = CHUNK_HEAD, c->left = 0; /* behind the trailer */
    c->n_line = 0;
    c->extension = false;
    if (!c->malformed) c->size_bytes = 0;
}

/* A size begins with a digit; behind a chunk there is a line's end and nothing else. */
static bool misplaced(const http_chunk *c, unsigned char b) {
    if (c->state == CHUNK_SIZE) return !c->size_bytes && !isxdigit(b);
    return c->state == CHUNK_END && b != '\n' && (b != '\r' || c->size_bytes);
}

static void keep(http_chunk *c, char b) {
    bool again = b == ' ' && c->n_line && c->line[c->n_line - 1] == ' '; /* a run of blanks is kept as one */
    if (c->n_line < sizeof c->line - 1 && !c->extension && !again) c->line[c->n_line++] = b;
}

/* True: byte *at ends a line that is to be refused, or makes one too long; before it there are size_bytes of that line. */
static bool pass(http_chunk *c, unsigned char *data, size_t n, size_t *at) {
    for (size_t i = 0; i < n && c->state != CHUNK_LOST; i++) {
        if (c->state == CHUNK_BODY || c->state == CHUNK_DATA) {
            size_t take = c->left < n - i ? (size_t)c->left : n - i;
            c->left -= take;
            if (!c->left) c->state = c->state == CHUNK_BODY ? CHUNK_HEAD : CHUNK_END;
            i += take - 1;
            continue;
        }
        bool about = c->state == CHUNK_SIZE || c->state == CHUNK_END, end = data[i] == '\n';
        if (misplaced(c, data[i])) c->malformed = true, c->state = CHUNK_LOST;
        else if (end) end_line(c);
        else if (about && c->size_bytes == SIZE_LINE) c->state = CHUNK_LOST;
        if (about && c->state == CHUNK_LOST && (c->malformed || !end)) {
            *at = i;
            return true;
        }
        if (end) continue;
        c->size_bytes += about;
        if (c->state == CHUNK_SIZE && data[i] == ';') data[i] = ' ', c->extension = true;
        keep(c, (char)data[i]);
    }
    return false;
}

/* Makes the line that ends with *last, `behind` bytes before the end of b, one that evhttp refuses. evhttp looks for a line's end from its beginning
 * again whenever bytes come, so a line that is too long ends here. A line without any byte takes the next one's. */
static void spoil(const http_chunk *c, struct evbuffer *b, unsigned char *last, size_t behind) {
    struct evbuffer_ptr at;
    struct evbuffer_iovec first;
    size_t back = behind + 1 + c->size_bytes;
    *last = '\n';
    if (evbuffer_get_length(b) < back || evbuffer_ptr_set(b, &at, evbuffer_get_length(b) - back, EVBUFFER_PTR_SET)) return;
    if (evbuffer_peek(b, 1, &at, &first, 1) >= 1 && first.iov_len) *(unsigned char *)first.iov_base = '!';
    if (!c->size_bytes) evbuffer_add(b, "\n", 1);
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
            if (pass(c, part[i].iov_base, len, &cut)) spoil(c, b, (unsigned char *)part[i].iov_base + cut, n - cut - 1);
            n -= len;
        }
    }
}
