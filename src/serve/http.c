/* The HTTP layer on evhttp (http.h). evhttp is only touched by the event thread; other threads post operations to it.
 *
 * What evhttp does not do by itself, and is done here:
 *   absolute deadlines   its timeouts start anew with each byte; every connection is looked at each quarter of a second
 *   vanished clients     it stops reading while a request is being answered; the socket is watched for its far end's closing
 *   back pressure        writers wait while too much is unsent
 *   refusals             its own error pages are replaced (http_refuse.h) */
#include "http.h"

#include "http_chunk.h"
#include "http_refuse.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/http_struct.h>
#include <event2/keyvalq_struct.h>
#include <event2/thread.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define SCAN_MS 250
#define UNSENT_MAX (256u * 1024u)
#define STACK_BYTES (2u << 20) /* of a connection thread: templates and JSON recurse */
#define LINGER_S 2.0           /* a refused client's further bytes are read and dropped so long: a reset could take the answer from it */
#define BYTES_PER_S 65536.0    /* a request gets a second more for so many bytes */

typedef enum { CONN_IDLE, CONN_READING, CONN_BUSY } conn_state;

/* A connection as long as evhttp has it, and a little longer: we hold a reference to its bufferevent, so that the pointer stays valid. The
 * bufferevent closes the socket when it goes: were it closed before, its number could come back while events still wait for it. */
typedef struct conn {
    struct conn *next;
    struct bufferevent *bev;
    struct evbuffer_cb_entry *cb, *out_cb;
    conn_state state;
    struct request *r; /* while it is at work */
    bool close;  /* as soon as possible */
    int refused; /* status of an error that evhttp itself has answered with, 0 */
    bool replacing, lingers;
    double since;
    uint64_t bytes; /* of the request that is being read */
    http_chunk chunk;
    http_server *s;
} conn;

typedef struct {
    char *name, *value;
} header;

typedef enum { OP_SEND, OP_BEGIN, OP_WRITE, OP_END, OP_RELEASE } op_kind;

typedef struct op {
    struct op *next;
    op_kind kind;
    struct request *r;
    int status;
    header *headers;
    size_t n_headers;
    struct evbuffer *data;
} op;

typedef struct request {
    http_req pub; /* first: callers hold a pointer to it */
    struct request *next;
    http_server *s;
    struct evhttp_request *ev; /* event thread only; NULL once evhttp is done with it */
    struct evhttp_connection *evcon;
    conn *c;
    struct event *watch;
    bool released; /* the handler has returned */
    header *in;
    size_t n_in;
    char *uri, *body, *peer;
    /* owner thread only */
    header *out;
    size_t n_out;
    bool begun, ended;
    /* shared, under lock */
    pthread_mutex_t lock;
    pthread_cond_t drained;
    bool gone;
    uint64_t posted, given, flushed; /* bytes: handed over by the owner, to evhttp, gone from its buffer */
    void (*on_gone)(void *user);
    void *on_gone_user;
} request;

struct http_server {
    http_config c;
    struct event_base *base;
    struct evhttp *http;
    struct evhttp_bound_socket *bound;
    struct event *wake, *scan;
    int port, wake_fd;
    pthread_t thread;
    bool started;
    conn *conns; /* event thread only */
    int n_conns;
    uint64_t numbers;
    _Atomic bool closing, last; /* listen no more; end the event thread */
    /* under lock */
    pthread_mutex_t lock;
    pthread_cond_t work;
    request *first, *tail; /* waiting for a connection thread */
    int n_waiting, n_threads, n_idle, busy;
    op *ops, *ops_tail;
    bool stop;
    pthread_t *threads;
};

static request *of(const http_req *r) { return (request *)(uintptr_t)r; }

/* ---- headers ------------------------------------------------------------------------------------------------------- */

static void free_headers(header *h, size_t n) {
    for (size_t i = 0; i < n; i++) {
        free(h[i].name);
        free(h[i].value);
    }
    free(h);
}

static bool add_header(header **list, size_t *n, const char *name, const char *value) {
    header *h = realloc(*list, (*n + 1) * sizeof *h);
    if (!h) return false;
    *list = h;
    h[*n] = (header){strdup(name), strdup(value)};
    if (!h[*n].name || !h[*n].value) {
        free(h[*n].name);
        free(h[*n].value);
        return false;
    }
    ++*n;
    return true;
}

const char *http_header(const http_req *r, const char *name) {
    const request *q = of(r);
    for (size_t i = 0; i < q->n_in; i++)
        if (!strcasecmp(q->in[i].name, name)) return q->in[i].value;
    return NULL;
}

void http_set_header(http_req *r, const char *name, const char *value) {
    request *q = of(r);
    if (!strpbrk(value, "\r\n")) add_header(&q->out, &q->n_out, name, value);
}

/* ---- operations posted to the event thread --------------------------------------------------------------------------- */

static void free_op(op *o) {
    free_headers(o->headers, o->n_headers);
    if (o->data) evbuffer_free(o->data);
    free(o);
}

static void wake(http_server *s) {
    uint64_t one = 1;
    ssize_t n = write(s->wake_fd, &one, sizeof one);
    (void)n; /* a full counter wakes as well */
}

/* Without memory for the answer the connection is given up: evhttp closes it when the request is released unanswered. */
static void post(request *r, op_kind kind, int status, const char *type, const void *data, size_t n) {
    op *o = calloc(1, sizeof *o);
    if (!o) return;
    *o = (op){.kind = kind, .r = r, .status = status};
    if (type) add_header(&r->out, &r->n_out, "Content-Type", type);
    if (kind == OP_SEND || kind == OP_BEGIN) {
        o->headers = r->out, o->n_headers = r->n_out;
        r->out = NULL, r->n_out = 0;
    }
    if (data && (o->data = evbuffer_new())) evbuffer_add(o->data, data, n);
    http_server *s = r->s;
    pthread_mutex_lock(&s->lock);
    if (s->ops) s->ops_tail->next = o;
    else s->ops = o;
    s->ops_tail = o;
    pthread_mutex_unlock(&s->lock);
    wake(s);
}

void http_send(http_req *p, int status, const char *type, const void *data, size_t n) {
    request *r = of(p);
    if (r->begun) return;
    r->begun = r->ended = true;
    p->status = status;
    p->sent = n;
    post(r, OP_SEND, status, type, data ? data : "", n);
}

void http_begin(http_req *p, int status, const char *type) {
    request *r = of(p);
    if (r->begun) return;
    r->begun = true;
    p->status = status;
    post(r, OP_BEGIN, status, type, NULL, 0);
}

bool http_write(http_req *p, const void *data, size_t n) {
    request *r = of(p);
    if (!r->begun || r->ended) return false;
    if (n == 0) return !http_gone(p);
    pthread_mutex_lock(&r->lock);
    while (!r->gone && r->posted - r->flushed > UNSENT_MAX) pthread_cond_wait(&r->drained, &r->lock);
    bool gone = r->gone;
    if (!gone) r->posted += n;
    pthread_mutex_unlock(&r->lock);
    if (gone) return false;
    p->sent += n;
    post(r, OP_WRITE, 0, NULL, data, n);
    return true;
}

void http_end(http_req *p) {
    request *r = of(p);
    if (!r->begun || r->ended) return;
    r->ended = true;
    post(r, OP_END, 0, NULL, NULL, 0);
}

bool http_gone(const http_req *p) {
    request *r = of(p);
    pthread_mutex_lock(&r->lock);
    bool gone = r->gone;
    pthread_mutex_unlock(&r->lock);
    return gone;
}

void http_on_gone(http_req *p, void (*fn)(void *user), void *user) {
    request *r = of(p);
    pthread_mutex_lock(&r->lock);
    r->on_gone = fn;
    r->on_gone_user = user;
    if (fn && r->gone) {
        r->on_gone = NULL;
        fn(user);
    }
    pthread_mutex_unlock(&r->lock);
}

/* ---- the event thread: one request ---------------------------------------------------------------------------------- */

static void free_request(request *r) {
    http_server *s = r->s;
    pthread_mutex_lock(&s->lock);
    s->busy--;
    pthread_mutex_unlock(&s->lock);
    if (r->watch) event_free(r->watch);
    free_headers(r->in, r->n_in);
    free_headers(r->out, r->n_out);
    free(r->uri);
    free(r->body);
    free(r->peer);
    pthread_mutex_destroy(&r->lock);
    pthread_cond_destroy(&r->drained);
    free(r);
}

/* evhttp no longer has the request: its answer is out, or the connection is lost. */
static void detach(request *r, bool lost) {
    if (!r->ev) return;
    r->ev = NULL;
    if (r->watch) event_free(r->watch);
    r->watch = NULL;
    pthread_mutex_lock(&r->lock);
    r->gone = r->gone || lost;
    r->flushed = r->posted;
    if (lost && r->on_gone) r->on_gone(r->on_gone_user);
    if (lost) r->on_gone = NULL;
    pthread_cond_broadcast(&r->drained);
    pthread_mutex_unlock(&r->lock);
    if (r->c) {
        r->c->state = CONN_IDLE;
        r->c->since = ie_now();
        r->c->bytes = 0;
        r->c->r = NULL;
        r->c = NULL;
    }
    if (r->released) free_request(r);
}

static void on_close(struct evhttp_connection *evcon, void *arg) {
    (void)evcon;
    request *r = arg;
    if (!r || !r->ev) return;
    /* evhttp frees the request with the connection, unless it has taken it off the connection before: then it is ours. */
    if (!evhttp_request_get_connection(r->ev)) evhttp_request_free(r->ev);
    detach(r, true);
}

static void on_complete(struct evhttp_request *ev, void *arg) {
    request *r = arg;
    struct evhttp_connection *evcon = evhttp_request_get_connection(ev);
    if (evcon) evhttp_connection_set_closecb(evcon, NULL, NULL);
    if (r->c && evhttp_request_get_command(ev) == EVHTTP_REQ_CONNECT) r->c->close = true; /* evhttp keeps it, whatever the header says */
    detach(r, false);
}

/* While evhttp does not read, this does: a far end's closing shows as EV_CLOSED, a reset only as readable. Bytes of the next request that are
 * there already stay there; then only closing is watched (and resets, by scan). */
static void on_far_end(evutil_socket_t fd, short what, void *arg) {
    request *r = arg;
    char one;
    if (!r->ev) return;
    ssize_t n = what & EV_CLOSED ? 0 : recv(fd, &one, 1, MSG_PEEK | MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
        evhttp_connection_free(r->evcon); /* calls on_close */
        return;
    }
    if (n > 0) event_assign(r->watch, r->s->base, fd, EV_CLOSED, on_far_end, r);
    event_add(r->watch, NULL);
}

static void on_drained(struct evhttp_connection *evcon, void *arg) {
    (void)evcon;
    request *r = arg;
    pthread_mutex_lock(&r->lock);
    r->flushed = r->given;
    pthread_cond_broadcast(&r->drained);
    pthread_mutex_unlock(&r->lock);
}

static void put_headers(request *r, const op *o, bool closing) {
    struct evkeyvalq *h = evhttp_request_get_output_headers(r->ev);
    for (size_t i = 0; i < o->n_headers; i++) evhttp_add_header(h, o->headers[i].name, o->headers[i].value);
    if (closing) evhttp_add_header(h, "Connection", "close");
}

/* evhttp would send the body. */
static void head_only(request *r, op *o) {
    char n[24];
    snprintf(n, sizeof n, "%zu", o->data ? evbuffer_get_length(o->data) : 0);
    evhttp_add_header(evhttp_request_get_output_headers(r->ev), "Content-Length", n);
    if (o->data) evbuffer_free(o->data);
    o->data = NULL;
}

/* A handler that has not answered: no memory for it. */
static void give_up(request *r) {
    if (r->c) r->c->state = CONN_READING; /* what evhttp sends now is not ours, and is replaced */
    evhttp_send_error(r->ev, 500, NULL);
}

static void run_op(http_server *s, op *o) {
    request *r = o->r;
    bool known = r->ev != NULL;
    switch (o->kind) {
    case OP_SEND:
        if (!known) break;
        put_headers(r, o, s->closing);
        if (evhttp_request_get_command(r->ev) == EVHTTP_REQ_HEAD) head_only(r, o);
        evhttp_send_reply(r->ev, o->status, http_reason(o->status), o->data);
        break;
    case OP_BEGIN:
        if (!known) break;
        put_headers(r, o, s->closing);
        evhttp_send_reply_start(r->ev, o->status, http_reason(o->status));
        break;
    case OP_WRITE:
        if (!known || !o->data) break;
        pthread_mutex_lock(&r->lock);
        r->given += evbuffer_get_length(o->data);
        pthread_mutex_unlock(&r->lock);
        evhttp_send_reply_chunk_with_cb(r->ev, o->data, on_drained, r);
        break;
    case OP_END:
        if (known) evhttp_send_reply_end(r->ev);
        break;
    case OP_RELEASE:
        if (known && !r->begun) give_up(r);
        else if (known && !r->ended) evhttp_connection_free(r->evcon); /* cut off: the client sees an incomplete answer */
        r->released = true; /* evhttp may still be sending */
        if (!r->ev) free_request(r);
        break;
    }
}

static void take_ops(evutil_socket_t fd, short what, void *arg) {
    (void)what;
    http_server *s = arg;
    uint64_t n;
    ssize_t got = read(fd, &n, sizeof n);
    (void)got;
    pthread_mutex_lock(&s->lock);
    op *o = s->ops;
    s->ops = NULL;
    pthread_mutex_unlock(&s->lock);
    for (op *next; o; o = next) {
        next = o->next;
        run_op(s, o);
        free_op(o);
    }
    if (s->last) event_base_loopbreak(s->base);
}

/* ---- the event thread: requests that come in ------------------------------------------------------------------------- */

/* *bad: why the headers are refused. */
static bool copy_in(request *r, struct evhttp_request *ev, const char **bad) {
    const struct evhttp_uri *uri = evhttp_request_get_evhttp_uri(ev);
    const char *path = uri ? evhttp_uri_get_path(uri) : NULL, *query = uri ? evhttp_uri_get_query(uri) : NULL;
    if (!path || !*path) path = "/";
    struct evbuffer *in = evhttp_request_get_input_buffer(ev);
    size_t n = evbuffer_get_length(in), np = strlen(path);
    char *peer = NULL;
    ev_uint16_t port;
    evhttp_connection_get_peer(r->evcon, &peer, &port);
    r->uri = malloc(np + 1 + (query ? strlen(query) : 0) + 1);
    r->body = malloc(n + 1);
    r->peer = strdup(peer ? peer : "");
    if (!r->uri || !r->body || !r->peer) return false;
    memcpy(r->uri, path, np + 1);
    strcpy(r->uri + np + 1, query ? query : "");
    if (n && evbuffer_remove(in, r->body, n) != (int)n) return false;
    r->body[n] = 0;
    struct evkeyvalq *h = evhttp_request_get_input_headers(ev);
    bool length_seen = false;
    for (struct evkeyval *kv = h->tqh_first; kv; kv = kv->next.tqe_next) {
        if (!*bad) *bad = http_bad_header(kv->key, kv->value, &length_seen);
        if (!add_header(&r->in, &r->n_in, kv->key, kv->value)) return false;
    }
    r->pub.path = r->uri;
    r->pub.query = r->uri + np + 1;
    r->pub.body = r->body;
    r->pub.body_len = n;
    r->pub.peer = r->peer;
    return true;
}

static const char *method_name(enum evhttp_cmd_type c) {
    static const struct {
        enum evhttp_cmd_type c;
        const char *name;
    } names[] = {{EVHTTP_REQ_GET, "GET"}, {EVHTTP_REQ_POST, "POST"}, {EVHTTP_REQ_HEAD, "HEAD"}, {EVHTTP_REQ_PUT, "PUT"},
                 {EVHTTP_REQ_DELETE, "DELETE"}, {EVHTTP_REQ_OPTIONS, "OPTIONS"}, {EVHTTP_REQ_PATCH, "PATCH"}, {EVHTTP_REQ_TRACE, "TRACE"},
                 {EVHTTP_REQ_CONNECT, "CONNECT"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].c == c) return names[i].name;
    return "OTHER";
}

static void *connection_thread(void *arg);

/* Gives the request to a connection thread: a waiting one, a new one, or the next that becomes free. False: too many wait. */
static bool hand_over(http_server *s, request *r) {
    pthread_mutex_lock(&s->lock);
    bool ok = !s->stop && (s->n_waiting < s->c.waiting || s->n_idle > s->n_waiting);
    if (ok) {
        if (s->first) s->tail->next = r;
        else s->first = r;
        s->tail = r;
        s->n_waiting++;
        if (s->n_waiting > s->n_idle && s->n_threads < s->c.threads) {
            pthread_attr_t a;
            pthread_attr_init(&a);
            pthread_attr_setstacksize(&a, STACK_BYTES);
            if (!pthread_create(&s->threads[s->n_threads], &a, connection_thread, s)) s->n_threads++;
            pthread_attr_destroy(&a);
        }
        pthread_cond_signal(&s->work);
    }
    pthread_mutex_unlock(&s->lock);
    return ok;
}

/* An error that the HTTP layer itself finds. */
static void answer_now(request *r, int status, const char *type, const char *why) {
    char text[256];
    int n = snprintf(text, sizeof text, "{\"error\":{\"code\":%d,\"message\":\"%s\",\"type\":\"%s\",\"param\":null}}", status, why, type);
    http_send(&r->pub, status, "application/json", text, (size_t)n);
    post(r, OP_RELEASE, 0, NULL, NULL, 0);
}

static void on_request(struct evhttp_request *ev, void *arg) {
    http_server *s = arg;
    request *r = calloc(1, sizeof *r);
    struct evhttp_connection *evcon = evhttp_request_get_connection(ev);
    if (!r || !evcon) {
        free(r);
        evhttp_send_error(ev, 503, NULL);
        return;
    }
    r->s = s;
    r->ev = ev;
    r->evcon = evcon;
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->drained, NULL);
    pthread_mutex_lock(&s->lock);
    s->busy++;
    pthread_mutex_unlock(&s->lock);
    struct bufferevent *bev = evhttp_connection_get_bufferevent(evcon);
    for (conn *c = s->conns; c && !r->c; c = c->next)
        if (c->bev == bev) r->c = c;
    if (r->c) r->c->state = CONN_BUSY, r->c->r = r;
    r->pub.method = method_name(evhttp_request_get_command(ev));
    r->pub.began = ie_now();
    r->pub.number = ++s->numbers;
    evhttp_request_set_on_complete_cb(ev, on_complete, r);
    evhttp_connection_set_closecb(evcon, on_close, r);
    r->watch = event_new(s->base, bufferevent_getfd(bev), EV_READ | EV_CLOSED, on_far_end, r);
    if (r->watch) event_add(r->watch, NULL);
    const char *bad = NULL;
    if (evhttp_request_get_command(ev) == EVHTTP_REQ_CONNECT) http_set_header(&r->pub, "Connection", "close"); /* evhttp states no length there */
    if (!copy_in(r, ev, &bad)) {
        answer_now(r, 503, "unavailable_error", "no memory");
    } else if (bad) {
        http_set_header(&r->pub, "Connection", "close");
        answer_now(r, 400, "invalid_request_error", bad);
    } else if (s->c.quick(s->c.user, &r->pub)) {
        post(r, OP_RELEASE, 0, NULL, NULL, 0);
    } else if (!hand_over(s, r)) {
        http_set_header(&r->pub, "Retry-After", "1");
        answer_now(r, 503, "unavailable_error", "too many requests are waiting; try again later");
    }
}

/* ---- the event thread: connections and their deadlines ------------------------------------------------------------------ */

static void on_input(struct evbuffer *b, const struct evbuffer_cb_info *info, void *arg) {
    conn *c = arg;
    http_chunk_pass(&c->chunk, b, info->n_added);
    if (info->n_added && c->refused) evbuffer_drain(b, evbuffer_get_length(b));
    if (!info->n_added || c->state == CONN_BUSY || c->refused) return;
    if (c->state == CONN_IDLE) {
        c->state = CONN_READING;
        c->since = ie_now();
        c->bytes = 0;
    }
    c->bytes += info->n_added;
}

/* evhttp adds to a connection's output without a request of ours: an error page of its own, in pieces, or 100 Continue. */
static void on_output(struct evbuffer *b, const struct evbuffer_cb_info *info, void *arg) {
    conn *c = arg;
    http_server *s = c->s;
    if (!info->n_added || c->state == CONN_BUSY || c->replacing) return;
    if (!c->refused) {
        int status = http_status_in(b);
        if (status < 400) return;
        c->refused = c->chunk.malformed ? 400 : status == 400 && c->bytes >= s->c.max_header ? 431 : status;
        c->since = ie_now();
    }
    c->replacing = true;
    http_put_refusal(b, c->refused, s->c.max_header, s->c.max_body);
    c->replacing = false;
}

/* evhttp takes its callbacks off when it frees a connection. */
static bool alive(const conn *c) {
    bufferevent_event_cb fn = NULL;
    bufferevent_getcb(c->bev, NULL, NULL, &fn, NULL);
    return fn != NULL;
}

static void free_conn(conn *c) {
    evbuffer_remove_cb_entry(bufferevent_get_input(c->bev), c->cb);
    evbuffer_remove_cb_entry(bufferevent_get_output(c->bev), c->out_cb);
    bufferevent_decref(c->bev);
    free(c);
}

static bool expired(const conn *c, double now, bool closing) {
    const http_config *k = &c->s->c;
    if (c->close || (c->refused && !evbuffer_get_length(bufferevent_get_output(c->bev)))) return true;
    if (c->state == CONN_BUSY) return false;
    double limit = c->state == CONN_READING ? k->read_s + (double)c->bytes / BYTES_PER_S : closing ? 0 : k->idle_s;
    return now - c->since > limit;
}

/* evhttp is done with a connection that it has refused: its far end has the answer, and may still be sending. */
static bool linger(conn *c, double now) {
    if (!c->refused || c->s->closing || now - c->since > LINGER_S) return false;
    if (!c->lingers) {
        c->lingers = true;
        evbuffer_drain(bufferevent_get_input(c->bev), evbuffer_get_length(bufferevent_get_input(c->bev)));
        return bufferevent_enable(c->bev, EV_READ) == 0;
    }
    return (bufferevent_get_enabled(c->bev) & EV_READ) != 0; /* taken off at the far end's end */
}

static bool was_reset(const conn *c) {
    int e = 0;
    socklen_t n = sizeof e;
    return !getsockopt(bufferevent_getfd(c->bev), SOL_SOCKET, SO_ERROR, &e, &n) && e;
}

static void scan(evutil_socket_t fd, short what, void *arg) {
    (void)fd, (void)what;
    http_server *s = arg;
    double now = ie_now();
    bool closing = s->closing;
    if (closing && s->bound) {
        evhttp_del_accept_socket(s->http, s->bound);
        s->bound = NULL;
    }
    for (conn **at = &s->conns; *at;) {
        conn *c = *at;
        if (!alive(c)) {
            if (linger(c, now)) {
                at = &c->next;
                continue;
            }
            *at = c->next;
            s->n_conns--;
            free_conn(c);
            continue;
        }
        if (c->r && c->r->ev && was_reset(c)) evhttp_connection_free(c->r->evcon);
        else if (expired(c, now, closing)) shutdown(bufferevent_getfd(c->bev), SHUT_RDWR); /* evhttp sees its end and frees it */
        at = &c->next;
    }
}

/* Too many connections: the one that has been without a request longest gives way; the new one where all are at work. */
static void make_room(http_server *s, conn *newest) {
    conn *oldest = NULL;
    for (conn *c = s->conns; c; c = c->next)
        if (c != newest && c->state != CONN_BUSY && !c->close && (!oldest || c->since < oldest->since)) oldest = c;
    if (oldest && alive(oldest)) {
        oldest->close = true;
        shutdown(bufferevent_getfd(oldest->bev), SHUT_RDWR);
    } else if (!oldest) {
        newest->close = true;
    }
}

static struct bufferevent *new_connection(struct event_base *base, void *arg) {
    http_server *s = arg;
    struct bufferevent *bev = bufferevent_socket_new(base, -1, BEV_OPT_CLOSE_ON_FREE);
    conn *c = bev ? calloc(1, sizeof *c) : NULL;
    if (!c) return bev;
    bufferevent_incref(bev);
    *c = (conn){.next = s->conns, .bev = bev, .since = ie_now(), .s = s};
    c->cb = evbuffer_add_cb(bufferevent_get_input(bev), on_input, c);
    c->out_cb = evbuffer_add_cb(bufferevent_get_output(bev), on_output, c);
    s->conns = c;
    if (++s->n_conns > s->c.connections) make_room(s, c);
    return bev;
}

static void *event_thread(void *arg) {
    http_server *s = arg;
    event_base_dispatch(s->base);
    return NULL;
}

/* ---- connection threads ------------------------------------------------------------------------------------------------ */

static void *connection_thread(void *arg) {
    http_server *s = arg;
    pthread_mutex_lock(&s->lock);
    while (!s->stop) {
        request *r = s->first;
        if (!r) {
            s->n_idle++;
            pthread_cond_wait(&s->work, &s->lock);
            s->n_idle--;
            continue;
        }
        s->first = r->next;
        s->n_waiting--;
        pthread_mutex_unlock(&s->lock);
        s->c.handle(s->c.user, &r->pub);
        http_on_gone(&r->pub, NULL, NULL);
        post(r, OP_RELEASE, 0, NULL, NULL, 0);
        pthread_mutex_lock(&s->lock);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* ---- start and end ------------------------------------------------------------------------------------------------------- */

static ie_status new_base(http_server *s, ie_error *err) {
    struct event_config *k = event_config_new();
    if (!k) return ie_fail(err, IE_E_NOMEM, "http: no memory");
    event_config_require_features(k, EV_FEATURE_EARLY_CLOSE);
    s->base = event_base_new_with_config(k);
    event_config_free(k);
    return s->base ? IE_OK : ie_fail(err, IE_E_UNSUPPORTED, "http: no event mechanism that notices closed connections (epoll)");
}

static ie_status listen_on(http_server *s, ie_error *err) {
    s->http = evhttp_new(s->base);
    if (!s->http) return ie_fail(err, IE_E_NOMEM, "http: no memory");
    evhttp_set_max_headers_size(s->http, (ev_ssize_t)s->c.max_header);
    evhttp_set_max_body_size(s->http, (ev_ssize_t)s->c.max_body);
    evhttp_set_timeout(s->http, (int)s->c.write_s);
    evhttp_set_default_content_type(s->http, NULL);
    evhttp_set_allowed_methods(s->http, EVHTTP_REQ_GET | EVHTTP_REQ_POST | EVHTTP_REQ_HEAD | EVHTTP_REQ_OPTIONS | EVHTTP_REQ_PUT |
                                            EVHTTP_REQ_DELETE | EVHTTP_REQ_PATCH | EVHTTP_REQ_TRACE | EVHTTP_REQ_CONNECT); /* most only to be refused by us */
    evhttp_set_gencb(s->http, on_request, s);
    evhttp_set_bevcb(s->http, new_connection, s);
    s->bound = evhttp_bind_socket_with_handle(s->http, s->c.host, (ev_uint16_t)s->c.port);
    if (!s->bound) return ie_fail(err, IE_E_IO, "cannot listen on %s port %d: %s", s->c.host, s->c.port, strerror(errno));
    struct sockaddr_storage a;
    socklen_t len = sizeof a;
    if (getsockname(evhttp_bound_socket_get_fd(s->bound), (struct sockaddr *)&a, &len))
        return ie_fail(err, IE_E_IO, "the port of %s cannot be asked for: %s", s->c.host, strerror(errno));
    // NOLINTNEXTLINE(clang-analyzer-core.*): filled by getsockname
    s->port = ntohs(a.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)(void *)&a)->sin6_port : ((struct sockaddr_in *)(void *)&a)->sin_port);
    return IE_OK;
}

static ie_status start(http_server *s, ie_error *err) {
    ie_status st = new_base(s, err);
    if (!st) st = listen_on(s, err);
    if (st) return st;
    s->threads = ie_calloc((size_t)s->c.threads, sizeof *s->threads, "connection threads", err);
    s->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (!s->threads) return IE_E_NOMEM;
    if (s->wake_fd < 0) return ie_fail(err, IE_E_IO, "http: eventfd: %s", strerror(errno));
    s->wake = event_new(s->base, s->wake_fd, EV_READ | EV_PERSIST, take_ops, s);
    s->scan = event_new(s->base, -1, EV_PERSIST, scan, s);
    struct timeval each = {.tv_usec = SCAN_MS * 1000};
    if (!s->wake || !s->scan || event_add(s->wake, NULL) || event_add(s->scan, &each)) return ie_fail(err, IE_E_NOMEM, "http: no memory");
    /* signals stay with the main thread */
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    s->started = !pthread_create(&s->thread, NULL, event_thread, s);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return s->started ? IE_OK : ie_fail(err, IE_E_NOMEM, "http: the event thread could not be started");
}

http_server *http_start_server(const http_config *c, ie_error *err) {
    http_server *s = ie_calloc(1, sizeof *s, "http", err);
    if (!s) return NULL;
    s->c = *c;
    s->wake_fd = -1;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->work, NULL);
    if (evthread_use_pthreads()) ie_fail(err, IE_E_NOMEM, "http: threads are not available");
    else if (!start(s, err)) return s;
    http_free_server(s);
    return NULL;
}

int http_port(const http_server *s) { return s->port; }

void http_stop_listening(http_server *s) { s->closing = true; }

int http_busy(http_server *s) {
    pthread_mutex_lock(&s->lock);
    int n = s->busy;
    pthread_mutex_unlock(&s->lock);
    return n;
}

void http_free_server(http_server *s) {
    if (!s) return;
    pthread_mutex_lock(&s->lock);
    s->stop = true;
    pthread_cond_broadcast(&s->work);
    pthread_mutex_unlock(&s->lock);
    for (int i = 0; i < s->n_threads; i++) pthread_join(s->threads[i], NULL);
    if (s->started) {
        s->last = true;
        wake(s);
        pthread_join(s->thread, NULL);
    }
    if (s->base && s->wake_fd >= 0) take_ops(s->wake_fd, 0, s);
    if (s->http) evhttp_free(s->http);
    for (request *r = s->first, *next; r; r = next) { /* no thread has taken them */
        next = r->next;
        free_request(r);
    }
    for (conn *c = s->conns, *next; c; c = next) {
        next = c->next;
        free_conn(c);
    }
    if (s->wake) event_free(s->wake);
    if (s->scan) event_free(s->scan);
    if (s->base) event_base_free(s->base);
    if (s->wake_fd >= 0) close(s->wake_fd);
    free(s->threads);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->work);
    free(s);
}
