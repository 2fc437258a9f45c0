/* Conversations that are evaluated while the server has nothing else to do, so that their next turn need not evaluate the reply first.
 *
 * The next prompt holds the reply as the template writes it, which is often not what was generated (thinking is left out, words fall
 * into other tokens); and states that decode leaves are not kept, since prefill's differ from them in the last bits and an answer must
 * not depend on what the cache happens to hold. So the conversation goes through prefill once more when all slots are free; its pages
 * and the state at its last multiple of 32 are then kept like a prompt's. What is kept already costs nothing. */
#include <stdlib.h>
#include <string.h>

#include "ie_core.h"
#include "serve.h"

#define KEPT 16 /* conversations that wait; beyond, the oldest is dropped */

typedef struct {
    int32_t *token; /* n, a multiple of 32, and one more */
    int32_t n;
} reply;

struct serve_replies {
    ie_ctx *c;
    pthread_mutex_t lock;
    reply wait[KEPT]; /* under lock; newest last: its user is the likeliest to write next */
    int n_wait;
    reply now;        /* engine thread: the one at work */
    int32_t done;     /* tokens of it that sequence 0 holds; -1: not begun */
    uint64_t through; /* conversations that were evaluated, or were kept already */
};

serve_replies *serve_replies_new(ie_ctx *c, ie_error *err) {
    serve_replies *r = ie_calloc(1, sizeof *r, "replies", err);
    if (!r) return NULL;
    *r = (serve_replies){.c = c, .done = -1};
    pthread_mutex_init(&r->lock, NULL);
    return r;
}

void serve_replies_free(serve_replies *r) {
    if (!r) return;
    while (r->n_wait) free(r->wait[--r->n_wait].token);
    free(r->now.token);
    pthread_mutex_destroy(&r->lock);
    free(r);
}

void serve_replies_add(serve_replies *r, const int32_t *token, int32_t n) {
    if (n > ie_ctx_size(r->c)) n = ie_ctx_size(r->c);
    n = n / (int32_t)IE_PAGE * (int32_t)IE_PAGE;
    int32_t *copy = n > 0 ? calloc((size_t)n + 1, sizeof *copy) : NULL, *oldest = NULL;
    if (!copy) return; /* nothing to keep; or no memory: the next turn takes a little longer */
    memcpy(copy, token, (size_t)n * sizeof *copy);
    pthread_mutex_lock(&r->lock);
    if (r->n_wait == KEPT) {
        oldest = r->wait[0].token;
        memmove(&r->wait[0], &r->wait[1], (KEPT - 1) * sizeof *r->wait);
        r->n_wait--;
    }
    r->wait[r->n_wait++] = (reply){copy, n};
    pthread_mutex_unlock(&r->lock);
    free(oldest);
}

static bool take_newest(serve_replies *r) {
    pthread_mutex_lock(&r->lock);
    if (!r->now.token && r->n_wait) r->now = r->wait[--r->n_wait];
    pthread_mutex_unlock(&r->lock);
    return r->now.token != NULL;
}

bool serve_replies_any(serve_replies *r) {
    pthread_mutex_lock(&r->lock);
    bool any = r->now.token || r->n_wait;
    pthread_mutex_unlock(&r->lock);
    return any;
}

uint64_t serve_replies_through(const serve_replies *r) { return r->through; }

void serve_replies_pause(serve_replies *r) {
    if (r->done >= 0) ie_seq_truncate(r->c, 0, 0, NULL);
    r->done = -1;
}

/* Up to room tokens; whether all are through. */
static bool evaluate(serve_replies *r, int32_t room, ie_error *err) {
    int32_t seq[IE_MAX_T] = {0}, pos[IE_MAX_T], n = r->now.n - r->done < room ? r->now.n - r->done : room;
    uint8_t want[IE_MAX_T] = {0};
    for (int32_t i = 0; i < n; i++) pos[i] = r->done + i;
    ie_batch b = {.phase = IE_PREFILL, .n = n, .token = r->now.token + r->done, .seq = seq, .pos = pos, .want_logits = want};
    if (n && ie_eval(r->c, &b, err)) return true; /* a request would fail there, too */
    r->done += n;
    if (n && r->done == r->now.n) ie_prefix_keep(r->c, 0, 1, err);
    return r->done == r->now.n;
}

bool serve_replies_step(serve_replies *r, int32_t room) {
    ie_error err;
    int32_t have = 0, matched = 0;
    bool through = false;
    if (!take_newest(r)) return false;
    if (r->done < 0) { /* with one token more, so that all of it may be found */
        int32_t n = r->now.n < ie_ctx_size(r->c) ? r->now.n + 1 : r->now.n;
        through = ie_prefix_attach(r->c, 0, r->now.token, n, &have, &matched, &err) != IE_OK;
        r->done = have;
    }
    if (!through) through = evaluate(r, room < (int32_t)IE_MAX_T ? room : (int32_t)IE_MAX_T, &err);
    if (through) {
        serve_replies_pause(r);
        free(r->now.token);
        r->now = (reply){0};
        r->through++;
    }
    return true;
}
