/* evhttp takes a chunk's size with a blank behind it, but not with an extension (";name=value", RFC 9112, 7.1.1), which it would have to ignore.
 * This follows the bytes of a connection and turns the ';' into a blank before evhttp reads the line. What is no size (evhttp skips empty lines and
 * takes "+5" and "0x5"), a chunk longer than its size says, and a size's line of over 4,096 bytes are made lines that evhttp refuses. */
#ifndef IE_SERVE_HTTP_CHUNK_H
#define IE_SERVE_HTTP_CHUNK_H

#include <event2/buffer.h>

#include "../base.h"

typedef enum { CHUNK_HEAD, CHUNK_BODY, CHUNK_SIZE, CHUNK_DATA, CHUNK_END, CHUNK_TRAILER, CHUNK_LOST } http_chunk_state;

/* Where a connection is; zeros at its beginning. CHUNK_LOST: nothing is changed any more (a length that makes no sense). */
typedef struct {
    http_chunk_state state;
    bool chunked, begun; /* of the request: its transfer encoding; it has had a line */
    bool extension;      /* of the size's line: what comes is that */
    bool malformed;      /* a line of its chunks was made one that evhttp refuses */
    uint64_t left;       /* bytes of the body, or of the chunk, that are still to come */
    char line[64];       /* of headers and sizes, the beginning of the current one */
    size_t n_line, size_bytes; /* of `line`; of a line about a chunk (its size, its end), all that has come */
} http_chunk;

/* The connection's next n bytes, which b ends with: blanks for semicolons, in place. */
void http_chunk_pass(http_chunk *c, struct evbuffer *b, size_t n);

#endif
