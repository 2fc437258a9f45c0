/* Requests to the scheduler and what comes back: submissions, checked and queued, and their events. */
#include <stdlib.h>
#include <string.h>

#include "sched.h"

/* ---- streams ----------------------------------------------------------------------------------------------------------- */

void serve_event_free(serve_event *ev) {
    free(ev->text);
    free(ev->top);
    free(ev->vector);
    *ev = (serve_event){0};
}

void sched_deliver(job *j, serve_event *ev) {
    serve_stream *st = j->st;
    unread *u = calloc(1, sizeof *u);
    ev->index = j->index;
    bool last = ev->kind == SERVE_EV_DONE || ev->kind == SERVE_EV_ERROR;
    pthread_mutex_lock(&st->lock);
    if (u) {
        u->ev = *ev;
        if (st->first) st->last->next = u;
        else st->first = u;
        st->last = u;
        st->n_unread++;
    }
    if (last) st->n_ended++;
    pthread_cond_signal(&st->more);
    pthread_mutex_unlock(&st->lock); /* after the last event the stream is no longer touched */
    if (!u) serve_event_free(ev);
}

bool serve_next(serve_stream *st, serve_event *ev) {
    pthread_mutex_lock(&st->lock);
    while (!st->first && st->n_ended < st->n_jobs) pthread_cond_wait(&st->more, &st->lock);
    unread *u = st->first;
    if (u) {
        st->first = u->next;
        st->n_unread--;
        *ev = u->ev;
    }
    pthread_mutex_unlock(&st->lock);
    free(u);
    return u != NULL;
}

void sched_wake(serve_sched *d) {
    pthread_mutex_lock(&d->lock);
    pthread_cond_signal(&d->work);
    pthread_mutex_unlock(&d->lock);
}

void serve_cancel(void *arg) {
    serve_stream *st = arg;
    st->cancel = true;
    sched_wake(st->d);
}

void serve_stream_free(serve_stream *st) {
    if (!st) return;
    serve_event ev;
    pthread_mutex_lock(&st->lock);
    bool runs = st->n_ended < st->n_jobs;
    pthread_mutex_unlock(&st->lock);
    if (runs) serve_cancel(st);
    while (serve_next(st, &ev)) serve_event_free(&ev);
    pthread_mutex_destroy(&st->lock);
    pthread_cond_destroy(&st->more);
    free(st);
}

/* ---- jobs -------------------------------------------------------------------------------------------------------------- */

void sched_job_free(job *j) {
    if (!j) return;
    ie_stop_free(&j->stop);
    ie_matcher_free(j->x);
    ie_buf_free(&j->bytes);
    free((void *)(uintptr_t)j->p.sampling.bias);
    free(j->token);
    free(j->sum);
    free(j->vector);
    free(j);
}

/* Positions that a job needs at least: of what comes next the first token is asked for, unless nothing is to come. */
static int32_t needs(const serve_job *p) { return p->n_prompt + (p->purpose == SERVE_TEXT && p->max_tokens != 0); }

static job *new_job(const serve_sched *d, const serve_job *p, serve_excess *excess, ie_error *err) {
    int32_t n_ctx = ie_ctx_size(d->c);
    if (p->n_prompt < 1) {
        ie_fail(err, IE_E_ARG, "the prompt is empty");
        return NULL;
    }
    if (needs(p) > n_ctx) {
        *excess = (serve_excess){p->n_prompt, n_ctx};
        ie_fail(err, IE_E_ARG, "the request exceeds the context: n_prompt_tokens is %d, n_ctx is %d", p->n_prompt, n_ctx);
        return NULL;
    }
    job *j = ie_calloc(1, sizeof *j, "request", err);
    if (!j) return NULL;
    *j = (job){.p = *p, .first = true, .n = p->n_prompt, .to = p->n_prompt, .submitted = ie_now(), .stop.hit = -1};
    j->p.no_cache = p->no_cache || p->prompt_probs || p->purpose != SERVE_TEXT; /* every position has to be evaluated */
    j->p.sampling.bias = NULL;
    size_t n_bias = (size_t)(p->sampling.n_bias > 0 ? p->sampling.n_bias : 0);
    ie_bias *bias = n_bias ? ie_calloc(n_bias, sizeof *bias, "logit_bias", err) : NULL;
    bool ok = (!n_bias || bias) && ie_grow(&j->token, &j->cap, (size_t)p->n_prompt + 1, sizeof *j->token, "request", err);
    if (bias) memcpy(bias, p->sampling.bias, n_bias * sizeof *bias);
    j->p.sampling.bias = bias;
    if (ok) memcpy(j->token, p->prompt, (size_t)p->n_prompt * sizeof *j->token);
    ok = ok && ie_stop_init(&j->stop, p->stop, p->n_stop, err) == IE_OK;
    if (ok && p->purpose != SERVE_TEXT) {
        size_t n_embd = d->m->hp.n_embd;
        ok = (j->sum = ie_calloc(n_embd, sizeof *j->sum, "embedding", err)) && (j->vector = ie_calloc(n_embd, sizeof *j->vector, "embedding", err));
    }
    if (ok && p->grammar) ok = (j->x = ie_matcher_new(p->grammar, err)) != NULL;
    int32_t left = n_ctx - p->n_prompt + 1;
    const uint64_t *mask;
    if (p->max_tokens >= 0 && left > p->max_tokens) left = p->max_tokens;
    if (ok && j->x && left > 0 && ie_matcher_mask(j->x, left, &mask, err)) {
        if (err->code == IE_E_FULL) err->code = IE_E_ARG; /* the budget is too small for any text of the grammar */
        ok = false;
    }
    if (ok) return j;
    sched_job_free(j);
    return NULL;
}

serve_stream *serve_submit(serve *s, serve_job *jobs, uint32_t n, serve_excess *excess, ie_error *err) {
    serve_sched *d = s->sched;
    job *first = NULL, **at = &first;
    serve_stream *st = ie_calloc(1, sizeof *st, "request", err);
    bool ok = st != NULL;
    for (uint32_t i = 0; i < n && ok; i++) {
        ok = (*at = new_job(d, &jobs[i], excess, err)) != NULL;
        if (ok) (*at)->index = i, (*at)->st = st, at = &(*at)->next;
    }
    for (uint32_t i = 0; i < n; i++) {
        bool again = i + 1 < n && jobs[i].prompt == jobs[i + 1].prompt, same = i + 1 < n && jobs[i].grammar == jobs[i + 1].grammar;
        if (!again) free(jobs[i].prompt);
        if (!same) ie_grammar_free(jobs[i].grammar);
        jobs[i].prompt = NULL;
        jobs[i].grammar = NULL;
    }
    if (ok && (int64_t)n > s->opts.queue)
        ok = ie_fail(err, IE_E_ARG, "the request stands for %u completions, at most %d are allowed", n, s->opts.queue) == IE_OK;
    if (ok) {
        st->d = d;
        st->n_jobs = n;
        pthread_mutex_init(&st->lock, NULL);
        pthread_cond_init(&st->more, NULL);
        pthread_mutex_lock(&d->lock);
        if (d->drain) ok = ie_fail(err, IE_E_FULL, SHUTTING_DOWN) == IE_OK;
        else if (d->stats.n_waiting + (int)n > s->opts.queue)
            ok = ie_fail(err, IE_E_FULL, "the queue is full: %d requests wait", d->stats.n_waiting) == IE_OK;
        d->stats.rejected += !ok;
        if (ok) {
            job **end = &d->queue;
            while (*end) end = &(*end)->next;
            *end = first;
            for (job *j = first; j; j = j->next) j->id = ++d->ids;
            d->stats.n_waiting += (int)n;
            d->stats.requests += n;
            pthread_cond_signal(&d->work);
        }
        pthread_mutex_unlock(&d->lock);
    }
    if (ok) return st;
    for (job *next; first; first = next) {
        next = first->next;
        sched_job_free(first);
    }
    free(st);
    return NULL;
}
