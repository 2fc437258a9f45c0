/* Replies of models with recurrent layers, evaluated again as prompts while the server has nothing else to do.
 *
 * States that decode leaves are not kept (prefill's differ from them in the last bits, and an answer must not depend on what the cache
 * happens to hold). So that a conversation's next turn need not evaluate the reply first, the conversation so far goes through prefill
 * once more when all slots are free; its pages and the state at its last multiple of 32 are then kept like a prompt's. */
#include <stdlib.h>
#include <string.h>

#include "ie_core.h"
#include "serve.h"

#define KEPT 16 /* replies that wait; beyond, the oldest is dropped */

typedef struct {
    int32_t *token;
    int32_t n;
} reply;

struct serve_replies {
    ie_ctx *c;
    reply wait[KEPT]; /* newest last: its user is the likeliest to write next */
    int n_wait;
    int32_t done;     /* of the newest: tokens that sequence 0 holds; -1: not begun */
};

serve_replies *serve_replies_new(ie_ctx *c, ie_error *err) {
    serve_replies *r = ie_calloc(1, sizeof *r, "replies", err);
    if (r) *r = (serve_replies){.c = c, .done = -1};
    return r;
}

static void forget(serve_replies *r, int i) {
    free(r->wait[i].token);
    memmove(&r->wait[i], &r->wait[i + 1], (size_t)(r->n_wait - i - 1) * sizeof *r->wait);
    r->n_wait--;
}

void serve_replies_free(serve_replies *r) {
    if (!r) return;
    while (r->n_wait) forget(r, r->n_wait - 1);
    free(r);
}

void serve_replies_add(serve_replies *r, const int32_t *token, int32_t n) {
    n = n / (int32_t)IE_PAGE * (int32_t)IE_PAGE;
    int32_t *copy = n ? malloc((size_t)n * sizeof *copy) : NULL;
    if (!copy) return; /* nothing to keep; or no memory: the next turn takes a little longer */
    memcpy(copy, token, (size_t)n * sizeof *copy);
    if (r->n_wait == KEPT) forget(r, 0);
    r->wait[r->n_wait++] = (reply){copy, n};
}

void serve_replies_pause(serve_replies *r) {
    if (r->done >= 0) ie_seq_truncate(r->c, 0, 0, NULL);
    r->done = -1;
}

/* Up to room tokens of the newest reply; whether it is through. */
static bool evaluate(serve_replies *r, const reply *p, int32_t room, ie_error *err) {
    int32_t seq[IE_MAX_T], pos[IE_MAX_T], n = p->n - r->done < room ? p->n - r->done : room;
    uint8_t want[IE_MAX_T] = {0};
    for (int32_t i = 0; i < n; i++) seq[i] = 0, pos[i] = r->done + i;
    ie_batch b = {.phase = IE_PREFILL, .n = n, .token = p->token + r->done, .seq = seq, .pos = pos, .want_logits = want};
    if (ie_eval(r->c, &b, err)) return true; /* the request itself would have failed */
    r->done += n;
    if (r->done == p->n) ie_prefix_keep(r->c, 0, 1, err);
    return r->done == p->n;
}

bool serve_replies_step(serve_replies *r, int32_t room) {
    ie_error err;
    if (!r->n_wait) return false;
    const reply *p = &r->wait[r->n_wait - 1];
    int32_t have = 0, matched = 0;
    bool through = false;
    if (r->done < 0) {
        through = ie_prefix_attach(r->c, 0, p->token, p->n, &have, &matched, &err) != IE_OK;
        r->done = have;
    }
    if (room > (int32_t)IE_MAX_T) room = (int32_t)IE_MAX_T;
    if (!through) through = evaluate(r, p, room, &err);
    if (through) {
        serve_replies_pause(r);
        forget(r, r->n_wait - 1);
    }
    return true;
}
