/* Answers to what is no request, or too large a one: evhttp gives them by itself, as HTML, and closes. */
#ifndef IE_SERVE_HTTP_REFUSE_H
#define IE_SERVE_HTTP_REFUSE_H

#include <event2/buffer.h>

#include "http.h"

/* The status of an answer that begins in b, 0 where there is none. */
int http_status_in(struct evbuffer *b);
/* Puts the whole answer, a JSON error, in place of what b holds. */
void http_put_refusal(struct evbuffer *b, int status, size_t max_header, size_t max_body);
/* Words for a status line. */
const char *http_reason(int status);

/* Why a request's headers are refused (two lengths, a name that is no token, ...), NULL: they are not. Servers and proxies
 * that read such requests differently can be played off against each other. */
const char *http_bad_header(const char *name, const char *value, bool *length_seen);

#endif
