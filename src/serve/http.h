/* The HTTP layer of ie-serve, on libevent's evhttp.
 *
 * One *event thread* reads requests, writes answers, keeps deadlines and notices clients that leave. A complete request is
 * handed to a *connection thread*, which owns it until its handler returns; while it works, the connection thread may wait,
 * tokenize, render templates. Requests that the `quick` function answers never leave the event thread (health, metrics). */
#ifndef IE_SERVE_HTTP_H
#define IE_SERVE_HTTP_H

#include "../base.h"

typedef struct http_server http_server;

/* A request. Strings are NUL-terminated and live as long as the handler runs; the body may hold NUL bytes. */
typedef struct http_req {
    const char *method; /* "GET", "POST", ... */
    const char *path;   /* without the query, as sent (not decoded) */
    const char *query;  /* behind '?', "" without one */
    const char *body;   /* never NULL, NUL-terminated */
    size_t body_len;
    const char *peer;   /* address of the client */
    double began;       /* ie_now() when it was complete */
    uint64_t number;    /* counts requests, for the log */
    int status;         /* of the answer, once it has been given; 0 before */
    uint64_t sent;      /* bytes of the answer's body so far */
} http_req;

typedef struct {
    const char *host; /* address or name to listen on */
    int port;         /* 0: one that is free; http_port tells */
    size_t max_header, max_body; /* bytes; more is answered with 4xx by the layer itself */
    int threads;      /* connection threads at most; further requests wait for one */
    int waiting;      /* requests waiting for a connection thread at most; beyond: 503 */
    int connections;  /* open connections at most; the longest idle one makes room */
    double read_s;    /* seconds a request may take to arrive, plus one for each 64 KB of it */
    double idle_s;    /* seconds a connection may stay open between requests */
    double write_s;   /* seconds that an answer may make no progress */
    bool (*quick)(void *user, http_req *r);  /* event thread; true: answered. Must not block */
    void (*handle)(void *user, http_req *r); /* connection thread; must answer */
    void *user;
} http_config;

/* Listens and starts the event thread; requests come in from now on. NULL on failure. */
http_server *http_start_server(const http_config *c, ie_error *err);
int http_port(const http_server *s);
/* Listens no more; connections that wait for a request are closed, those with an answer under way finish it. */
void http_stop_listening(http_server *s);
/* Requests that are being handled or wait for a thread. */
int http_busy(http_server *s);
/* Ends the event thread and all connections; handlers must have returned (http_busy is 0) or their jobs be cancelled. */
void http_free_server(http_server *s);

/* Value of a request header, NULL when it is absent. */
const char *http_header(const http_req *r, const char *name);

/* ---- answering: called by the thread that owns the request ---- */

/* A header of the answer; before http_send or http_begin. Values with line breaks are refused silently. */
void http_set_header(http_req *r, const char *name, const char *value);
/* The whole answer. */
void http_send(http_req *r, int status, const char *type, const void *data, size_t n);
/* An answer in pieces (chunked): begin, any number of writes, end. http_write waits while more than 256 KB are unsent; false:
 * the client has left, further writes do nothing. */
void http_begin(http_req *r, int status, const char *type);
bool http_write(http_req *r, const void *data, size_t n);
void http_end(http_req *r);

bool http_gone(const http_req *r); /* the client has left */
/* fn(user) is called once, from the event thread, when the client leaves before the answer is complete; at once when it has left
 * already. fn = NULL takes it back: after the call it is not running and will not run. */
void http_on_gone(http_req *r, void (*fn)(void *user), void *user);

#endif
