/* The scheduler's inside: what sched.c (the engine thread's steps) and sched_job.c (jobs and their events, for all threads) share. */
#ifndef IE_SERVE_SCHED_H
#define IE_SERVE_SCHED_H

#include "../context.h"
#include "serve.h"

#define SHUTTING_DOWN "the server is shutting down"

typedef struct job {
    struct job *next;
    serve_job p;
    serve_stream *st;
    uint32_t index;
    uint64_t id;
    int32_t *token; /* prompt, then output */
    size_t cap;
    int32_t n, done, to, n_cached, matched, n_predicted; /* done: positions evaluated of the first `to`, which prefill takes */
    bool alone; /* a batch failed that it was part of: it takes its steps alone until one has succeeded */
    ie_stop stop;
    ie_matcher *x;
    ie_buf bytes;
    double *sum;   /* embeddings: n_embd, pooled so far */
    float *vector; /* the embedding */
    bool first;
    double submitted, began, answered, last; /* in the queue since, in a slot since, first token at, newest token at */
} job;

typedef struct unread {
    struct unread *next;
    serve_event ev;
} unread;

struct serve_stream {
    serve_sched *d;
    pthread_mutex_t lock;
    pthread_cond_t more;
    unread *first, *last;
    uint32_t n_unread, n_jobs, n_ended;
    _Atomic bool cancel;
};

struct serve_sched {
    serve *s;
    ie_ctx *c;
    const ie_model *m;
    pthread_t thread;
    bool started;
    job **slot; /* [n_slots]: slot i uses sequence i. Engine thread; read by others under the lock */
    int n_slots;
    double rate; /* prompt tokens a second */
    double admitted; /* when a request got a slot last */
    serve_replies *replies;
    /* under lock */
    pthread_mutex_t lock;
    pthread_cond_t work;
    job *queue; /* oldest first */
    bool stop, drain;
    uint64_t ids;
    serve_stats stats;
};

/* Puts an event into its submission's queue and takes over what it points to. Without memory the event is lost, but the reader learns of
 * the job's end. After a job's last event its stream may be gone. */
void sched_deliver(job *j, serve_event *ev);
void sched_job_free(job *j); /* NULL is allowed */
/* Any thread: the engine thread has a look at what there is to do. */
void sched_wake(serve_sched *d);

#endif
