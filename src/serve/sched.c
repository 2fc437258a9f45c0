/* The scheduler: one thread owns the context and takes steps for all requests.
 *
 * A step is a decode batch for every running request (16 at a time), then one slice of prompts, bounded in time, so that a long
 * prompt stops neither the others' streams nor a short prompt. Prompts with few tokens left go first; waiting makes a
 * prompt count as shorter, so that none waits for ever. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../embed.h"
#include "../text/tokenizer.h"
#include "sched.h"

#define BATCH 16            /* decode tokens of a step */
#define UNREAD_MAX 256      /* events of a submission; beyond, its jobs pause */
#define AGEING 0.5          /* a waiting prompt counts as shorter by so much of what could have been evaluated meanwhile */
#define PROBS_ROWS 32       /* prompt tokens of a slice whose logits are all wanted */
#define LONG_PROMPT 512      /* tokens left: beyond, its slices are short while others come and go */
#define COMPANY_S 1.0        /* others: requests that got a slot since the prompt did, not longer ago than this */
#define STATE_EVERY 1024    /* positions: recurrent states that are kept within prompts */
#define SAVE_S 3.0           /* at the end, for replies that have not been evaluated again yet */
#define PAUSE_NS 5000000    /* while all running requests wait for their readers */

/* ---- the end of a job --------------------------------------------------------------------------------------------------- */

/* Frees the slot, then tells the reader. A failure when err is given. */
static void end_job(serve_sched *d, int slot, serve_reason reason, int32_t end_token, const ie_error *err) {
    job *j = d->slot[slot];
    double now = ie_now();
    ie_error none;
    if (!err && !j->p.no_cache) {
        if (!d->m->gdn.n_layer) ie_prefix_keep(d->c, slot, 0, &none);
        else if (j->n_predicted && !j->p.n_stable) serve_replies_add(d->replies, j->token, j->n); /* chats: serve_chat_learn */
    }
    ie_seq_truncate(d->c, slot, 0, &none);
    pthread_mutex_lock(&d->lock);
    d->slot[slot] = NULL;
    d->stats.n_busy--;
    // NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): an error that is given has a code
    d->stats.cancelled += err && err->code == IE_E_CANCELLED;
    d->stats.errors += err && err->code != IE_E_CANCELLED;
    d->stats.predicted_tokens += (uint64_t)j->n_predicted;
    if (j->answered > 0) d->stats.predicted_s += now - j->answered;
    if (!err) serve_hist_add(d->stats.hist, SERVE_H_REQUEST, now - j->submitted);
    ie_prefix_get_info(d->c, &d->stats.prefix);
    pthread_mutex_unlock(&d->lock);
    serve_event ev = {.kind = err ? SERVE_EV_ERROR : SERVE_EV_DONE, .token = end_token};
    if (err) ev.err = *err;
    else ev.vector = j->vector, j->vector = NULL;
    const char *text = "";
    size_t n = 0;
    if (!err && j->stop.hit < 0) ie_stop_flush(&j->stop, &text, &n);
    if (n && (ev.text = malloc(n))) memcpy(ev.text, text, n), ev.n_text = n;
    double answered = j->answered > 0 ? j->answered : now;
    ev.result = (serve_result){.reason = reason, .stop = j->stop.hit, .end_token = end_token, .n_prompt = j->p.n_prompt,
                               .n_cached = j->n_cached, .n_predicted = j->n_predicted, .queue_s = j->began - j->submitted,
                               .prompt_s = answered - j->began, .predicted_s = now - answered};
    sched_deliver(j, &ev);
    sched_job_free(j);
}

/* ---- tokens -------------------------------------------------------------------------------------------------------------- */

/* Log-probabilities at batch element `row` of the last step: of id, and of the best. */
static ie_status log_probs(serve_sched *d, const job *j, int32_t row, int32_t id, serve_event *ev, ie_error *err) {
    if (j->p.n_probs < 0) return IE_OK;
    const float *logits;
    ie_status st = ie_ctx_logits(d->c, row, &logits, err);
    if (st) return st;
    int32_t n = 0, k = j->p.n_probs;
    if (k && !(ev->top = ie_calloc((size_t)k, sizeof *ev->top, "log-probabilities", err))) return IE_E_NOMEM;
    st = ie_logprobs(logits, (int32_t)d->m->hp.n_vocab, id, k, &ev->logprob, ev->top, &n, err);
    ev->n_top = (uint32_t)n;
    return st;
}

static ie_status sample(serve_sched *d, job *j, int32_t row, int32_t *id, ie_error *err) {
    ie_sampling s = j->p.sampling;
    int32_t left = ie_ctx_size(d->c) - j->n + 1;
    if (j->p.max_tokens >= 0 && left > j->p.max_tokens - j->n_predicted) left = j->p.max_tokens - j->n_predicted;
    ie_status st = j->x ? ie_matcher_mask(j->x, left, &s.mask, err) : IE_OK;
    if (!st) st = ie_ctx_sample(d->c, row, &s, j->token, j->n, (uint64_t)j->n_predicted, id, err);
    if (!st && j->x) st = ie_matcher_accept(j->x, *id, err);
    return st;
}

/* Counts the token that has just been chosen. Under the lock: /slots reads n_predicted. */
static void note_token(serve_sched *d, job *j) {
    double now = ie_now();
    pthread_mutex_lock(&d->lock);
    bool first = j->n_predicted++ == 0;
    serve_hist_add(d->stats.hist, first ? SERVE_H_FIRST : SERVE_H_GAP, now - (first ? j->submitted : j->last));
    pthread_mutex_unlock(&d->lock);
    if (first) j->answered = now;
    j->last = now;
}

/* Chooses the next token of a slot from row `row` of the last step, hands it on, and ends the job where it ends. */
static void next_token(serve_sched *d, int slot, int32_t row) {
    job *j = d->slot[slot];
    ie_error err = {0};
    serve_event ev = {.kind = SERVE_EV_TOKEN};
    const char *text = "";
    size_t n = 0;
    int32_t id = -1;
    ie_status st = sample(d, j, row, &id, &err);
    if (!st && !ie_grow(&j->token, &j->cap, (size_t)j->n + 1, sizeof *j->token, "tokens", &err)) st = err.code;
    if (!st) st = log_probs(d, j, row, id, &ev, &err);
    if (st) {
        serve_event_free(&ev);
        end_job(d, slot, SERVE_STOP_END, -1, &err);
        return;
    }
    note_token(d, j);
    j->token[j->n++] = id;
    bool end = (!j->p.ignore_end || j->x) && ie_token_is_end(d->m, id);
    if (end) {
        serve_event_free(&ev);
        end_job(d, slot, SERVE_STOP_END, id, NULL);
        return;
    }
    j->bytes.len = 0;
    st = ie_tokenizer_decode(d->m->tok, id, j->first, 0, &j->bytes, &err);
    j->first = false;
    if (!st) st = ie_stop_add(&j->stop, j->bytes.data ? j->bytes.data : "", j->bytes.len, &text, &n, &err);
    if (n && (ev.text = malloc(n))) memcpy(ev.text, text, n), ev.n_text = n;
    ev.token = id;
    sched_deliver(j, &ev);
    bool full = j->n >= ie_ctx_size(d->c), out = j->p.max_tokens >= 0 && j->n_predicted >= j->p.max_tokens;
    if (st) end_job(d, slot, SERVE_STOP_END, -1, &err);
    else if (j->stop.hit >= 0) end_job(d, slot, SERVE_STOP_STRING, -1, NULL);
    else if (j->x && ie_matcher_done(j->x)) end_job(d, slot, SERVE_STOP_END, -1, NULL);
    else if (out || full) end_job(d, slot, out ? SERVE_STOP_LENGTH : SERVE_STOP_CTX, -1, NULL);
}

/* ---- steps --------------------------------------------------------------------------------------------------------------- */

static bool decoding(const job *j) { return j && j->n_predicted > 0 && j->done >= j->to; }

static bool unread_full(job *j) {
    pthread_mutex_lock(&j->st->lock);
    bool full = j->st->n_unread >= UNREAD_MAX;
    pthread_mutex_unlock(&j->st->lock);
    return full;
}

/* After a failed batch nothing is left of a recurrent state: what the slot had evaluated goes through prefill again, output included. */
static void restart(serve_sched *d, int slot, const ie_error *why) {
    job *j = d->slot[slot];
    ie_error err = {0};
    int32_t have = 0, matched;
    if (j->done && (j->p.prompt_probs || j->p.purpose != SERVE_TEXT)) { /* parts of the answer are out */
        end_job(d, slot, SERVE_STOP_END, -1, why);
        return;
    }
    j->to = j->n_predicted ? j->n - 1 : j->p.n_prompt;
    ie_status st = ie_seq_truncate(d->c, slot, 0, &err);
    if (!st && !j->p.no_cache) st = ie_prefix_attach(d->c, slot, j->token, j->to, &have, &matched, &err);
    j->done = have;
    if (st) end_job(d, slot, SERVE_STOP_END, -1, &err);
}

/* A batch of several slots failed: each goes on alone, so that one request's bad numbers are its own. */
static void take_apart(serve_sched *d, const int *list, int n, const ie_error *why) {
    for (int i = 0; i < n; i++) {
        d->slot[list[i]]->alone = true;
        if (d->m->gdn.n_layer) restart(d, list[i], why);
    }
}

/* The next token of each slot in list. */
static void decode(serve_sched *d, const int *list, int n) {
    int32_t token[BATCH], seq[BATCH], pos[BATCH];
    ie_error err = {0};
    for (int i = 0; i < n; i++) {
        const job *j = d->slot[list[i]];
        seq[i] = list[i], token[i] = j->token[j->n - 1], pos[i] = j->n - 1;
    }
    ie_batch b = {.phase = IE_DECODE, .n = n, .token = token, .seq = seq, .pos = pos};
    ie_status st = ie_eval(d->c, &b, &err);
    if (st && n > 1) take_apart(d, list, n, &err);
    else if (st) end_job(d, list[0], SERVE_STOP_END, -1, &err);
    if (st) return;
    for (int i = 0; i < n; i++) {
        d->slot[list[i]]->alone = false;
        next_token(d, list[i], i);
    }
    pthread_mutex_lock(&d->lock);
    d->stats.decode_steps++;
    d->stats.decode_tokens += (uint64_t)n;
    serve_hist_add(d->stats.hist, SERVE_H_BATCH, n);
    pthread_mutex_unlock(&d->lock);
}

static bool decode_all(serve_sched *d) {
    int list[BATCH], n = 0;
    bool any = false;
    for (int i = 0; i < d->n_slots; i++) {
        if (!decoding(d->slot[i]) || unread_full(d->slot[i])) continue;
        any = true;
        if (d->slot[i]->alone) {
            decode(d, &i, 1);
            continue;
        }
        list[n++] = i;
        if (n == BATCH) decode(d, list, n), n = 0;
    }
    if (n) decode(d, list, n);
    return any;
}

static double score(const serve_sched *d, const job *j, double now) {
    return (double)(j->to - j->done) - AGEING * d->rate * (now - j->submitted);
}

/* The last multiple of 32 that the conversation's next prompt will share. */
static int32_t stable_end(const job *j) {
    return (j->p.n_stable ? j->p.n_stable : j->p.n_prompt - 1) / (int32_t)IE_PAGE * (int32_t)IE_PAGE;
}

/* Tokens of a slot for this slice, at most room: a part of a prompt ends at a multiple of 32 (of 16, and takes a quarter of the time, for a
 * long prompt while others come and go: a short request waits for the part under way before it has its own slice), and where recurrent layers want a
 * state to be kept: before the generation prompt, and where kept pages end without one. */
static int32_t share(const serve_sched *d, const job *j, int32_t room) {
    int32_t to = j->to, page = (int32_t)IE_PAGE, end = page;
    bool company = d->admitted > j->began && ie_now() - d->admitted < COMPANY_S;
    if (company && to - j->done > LONG_PROMPT) end = (int32_t)IE_DECODE_T, room = room / 4 < end ? end : room / 4;
    if (j->p.prompt_probs && room > PROBS_ROWS) room = PROBS_ROWS; /* logits of every token */
    if (to - j->done > room) to = (j->done + room) / end * end;
    if (d->m->gdn.n_layer && !j->p.no_cache) {
        int32_t cut[2] = {stable_end(j), j->matched};
        for (int i = 0; i < 2; i++)
            if (cut[i] > j->done && cut[i] < to) to = cut[i];
    }
    return to > j->done ? to - j->done : 0;
}

/* Whether the recurrent state behind what is done is worth its memory: at the ends above, and now and then within long prompts, for
 * others that begin like them. */
static bool keeps_state(const job *j) {
    return j->done == stable_end(j) || j->done == j->matched || j->done % STATE_EVERY == 0;
}

typedef struct {
    int slot;
    int32_t n;
} part;

/* A prompt may join a slice whose first one is `first`: steps for embeddings are apart from those for text. */
static bool fits_slice(job *j, const job *first) {
    if (!j || decoding(j) || (j->p.prompt_probs && unread_full(j))) return false;
    if (first && (first->alone || j->alone)) return false;
    return !first || (first->p.purpose == SERVE_TEXT) == (j->p.purpose == SERVE_TEXT);
}

/* Prompt tokens that a slice may take: the multiple of 32 that is nearest to its time. */
static int32_t slice_room(const serve_sched *d) {
    int32_t chunk = d->s->opts.chunk ? d->s->opts.chunk : 512, page = (int32_t)IE_PAGE;
    int32_t room = (int32_t)(d->rate * d->s->opts.slice_ms / 1000 + page * 0.5) / page * page;
    if (room < page) room = page;
    return room > chunk ? chunk : room;
}

/* The prompts of the next slice: those that end in it, as many as fit; or else a part of one. So a short prompt does not wait for a
 * long one's tokens in the same slice. */
static int plan_slice(serve_sched *d, part *parts) {
    double now = ie_now();
    int n = 0;
    int32_t room = slice_room(d);
    bool *taken = calloc((size_t)d->n_slots, sizeof *taken);
    while (taken && room > 0 && n < BATCH) {
        int best = -1;
        for (int i = 0; i < d->n_slots; i++)
            if (!taken[i] && fits_slice(d->slot[i], n ? d->slot[parts[0].slot] : NULL) &&
                (best < 0 || score(d, d->slot[i], now) < score(d, d->slot[best], now)))
                best = i;
        if (best < 0) break;
        taken[best] = true;
        int32_t t = share(d, d->slot[best], room);
        bool ends = d->slot[best]->done + t == d->slot[best]->to;
        if (n && !ends) break;
        if (t) parts[n++] = (part){best, t};
        if (!ends) break;
        room -= t;
    }
    free(taken);
    return n;
}

/* The log-probabilities of the prompt's tokens that n positions from element `at` of the last step on predict; before all, the
 * first token's, which nothing predicts. */
static ie_status prompt_probs(serve_sched *d, job *j, int32_t at, int32_t n, ie_error *err) {
    if (j->done == 0) sched_deliver(j, &(serve_event){.kind = SERVE_EV_PROMPT, .token = j->token[0], .logprob = NAN});
    for (int32_t i = 0; i < n && j->done + i + 1 < j->p.n_prompt; i++) {
        serve_event ev = {.kind = SERVE_EV_PROMPT, .token = j->token[j->done + i + 1]};
        ie_status st = log_probs(d, j, at + i, ev.token, &ev, err);
        if (st) {
            serve_event_free(&ev);
            return st;
        }
        sched_deliver(j, &ev);
    }
    return IE_OK;
}

static ie_status pool(serve_sched *d, job *j, int32_t at, int32_t n, ie_error *err) {
    ie_pooling how = j->p.purpose == SERVE_EMBED_MEAN ? IE_POOL_MEAN : IE_POOL_LAST;
    bool end = j->done + n == j->p.n_prompt;
    int32_t n_embd = (int32_t)d->m->hp.n_embd;
    for (int32_t i = how == IE_POOL_MEAN ? 0 : end ? n - 1 : n; i < n; i++) {
        const float *row = ie_hidden(d->c, at + i);
        if (!row) return ie_fail(err, IE_E_DEVICE, "the hidden states could not be read");
        ie_pool_add(how, row, n_embd, j->sum);
    }
    return end ? ie_pool_end(j->sum, n_embd, j->vector, err) : IE_OK;
}

/* What n prompt tokens of a slot, from element `at` of the last step on, bring: embeddings, log-probabilities, the first token. */
static void take_part(serve_sched *d, int slot, int32_t at, int32_t n) {
    job *j = d->slot[slot];
    ie_error err, none;
    ie_status st = IE_OK;
    if (j->p.purpose != SERVE_TEXT) st = pool(d, j, at, n, &err);
    else if (j->p.prompt_probs) st = prompt_probs(d, j, at, n, &err);
    if (st) {
        end_job(d, slot, SERVE_STOP_END, -1, &err);
        return;
    }
    j->done += n;
    if (!j->p.no_cache) ie_prefix_keep(d->c, slot, keeps_state(j), &none);
    if (j->p.progress && !j->n_predicted)
        sched_deliver(j, &(serve_event){.kind = SERVE_EV_PROGRESS, .token = j->done,
                                  .result = {.n_prompt = j->p.n_prompt, .n_cached = j->n_cached, .prompt_s = ie_now() - j->began}});
    if (j->done < j->to || j->n_predicted) return;
    if (j->p.max_tokens == 0 || j->p.purpose != SERVE_TEXT) end_job(d, slot, SERVE_STOP_LENGTH, -1, NULL);
    else next_token(d, slot, at + n - 1);
}

static bool prefill(serve_sched *d) {
    static const int32_t max = 512;
    int32_t token[512], seq[512], pos[512], n = 0, from[BATCH];
    uint8_t want[512] = {0};
    part parts[BATCH];
    int n_parts = plan_slice(d, parts);
    if (!n_parts) return false;
    for (int k = 0; k < n_parts; k++) {
        const job *j = d->slot[parts[k].slot];
        bool all = j->p.prompt_probs || j->p.purpose == SERVE_EMBED_MEAN;
        from[k] = n;
        for (int32_t i = 0; i < parts[k].n && n < max; i++, n++)
            seq[n] = parts[k].slot, pos[n] = j->done + i, token[n] = j->token[j->done + i], want[n] = all;
        want[n - 1] = all || j->done + parts[k].n == j->to;
    }
    bool embed = d->slot[parts[0].slot]->p.purpose != SERVE_TEXT;
    ie_error err = {0};
    double start = ie_now();
    ie_batch b = {.phase = IE_PREFILL, .n = n, .token = token, .seq = seq, .pos = pos, .want_logits = want};
    ie_status st = embed ? ie_eval_hidden(d->c, &b, &err) : ie_eval(d->c, &b, &err);
    double took = ie_now() - start;
    if (!st && took > 0 && n >= (int32_t)IE_PAGE) d->rate += 0.2 * ((double)n / took - d->rate); /* smaller ones say little */
    pthread_mutex_lock(&d->lock);
    d->stats.slices++;
    d->stats.prompt_tokens += (uint64_t)(st ? 0 : n);
    d->stats.prompt_s += took;
    pthread_mutex_unlock(&d->lock);
    int list[BATCH];
    for (int k = 0; k < n_parts; k++) list[k] = parts[k].slot;
    if (st && n_parts > 1) take_apart(d, list, n_parts, &err);
    else if (st) end_job(d, list[0], SERVE_STOP_END, -1, &err);
    for (int k = 0; k < n_parts && !st; k++) take_part(d, list[k], from[k], parts[k].n);
    return true;
}

/* ---- the loop ------------------------------------------------------------------------------------------------------------- */

static void end_waiting(job *j, ie_status code, const char *why) {
    serve_event ev = {.kind = SERVE_EV_ERROR};
    ie_fail(&ev.err, code, "%s", why);
    sched_deliver(j, &ev);
    sched_job_free(j);
}

/* Under the lock: those whose client has left, or all of them at the end. */
static void drop_cancelled(serve_sched *d) {
    for (job **at = &d->queue; *at;) {
        job *j = *at;
        if (!d->stop && !j->st->cancel) {
            at = &j->next;
            continue;
        }
        *at = j->next;
        d->stats.n_waiting--;
        d->stats.cancelled++;
        if (d->stop) end_waiting(j, IE_E_FULL, SHUTTING_DOWN);
        else end_waiting(j, IE_E_CANCELLED, "the request was cancelled");
    }
}

/* How much of a prompt was reused, and why not more. */
static void log_reuse(const serve_sched *d, const job *j) {
    char why[128] = "all that can be";
    if (j->p.no_cache) snprintf(why, sizeof why, "the request asks for no reuse");
    else if (j->matched > j->n_cached) snprintf(why, sizeof why, "pages match up to %d, but no recurrent state was kept there", j->matched);
    else if (j->n_cached < (j->p.n_prompt - 1) / (int32_t)IE_PAGE * (int32_t)IE_PAGE)
        snprintf(why, sizeof why, "nothing that is kept goes on like tokens %d to %d", j->n_cached, j->n_cached + (int32_t)IE_PAGE - 1);
    serve_log(d->s, "info", "request %llu: %d of %d prompt tokens reused: %s", (unsigned long long)j->id, j->n_cached, j->p.n_prompt, why);
}

/* Under the lock: gives free slots to waiting jobs. */
static void admit(serve_sched *d) {
    double now = ie_now();
    if (d->queue) serve_replies_pause(d->replies);
    for (int i = 0; i < d->n_slots && d->queue; i++) {
        if (d->slot[i]) continue;
        job **best = &d->queue;
        for (job **at = &d->queue; *at; at = &(*at)->next)
            if (score(d, *at, now) < score(d, *best, now)) best = at;
        job *j = *best;
        *best = j->next;
        j->next = NULL;
        j->began = d->admitted = now;
        d->slot[i] = j;
        d->stats.n_waiting--;
        d->stats.n_busy++;
        serve_hist_add(d->stats.hist, SERVE_H_QUEUE, now - j->submitted);
        ie_error err;
        if (!j->p.no_cache && !ie_prefix_attach(d->c, i, j->token, j->p.n_prompt, &j->n_cached, &j->matched, &err)) j->done = j->n_cached;
        d->stats.cached_tokens += (uint64_t)j->n_cached;
        d->stats.lookups += !j->p.no_cache;
        d->stats.hits += j->n_cached > 0;
        if (!d->s->opts.quiet) log_reuse(d, j);
    }
}

static void drop_running(serve_sched *d) {
    ie_error err;
    if (d->stop) ie_fail(&err, IE_E_FULL, SHUTTING_DOWN);
    else ie_fail(&err, IE_E_CANCELLED, "the request was cancelled");
    for (int i = 0; i < d->n_slots; i++)
        if (d->slot[i] && (d->stop || d->slot[i]->st->cancel)) end_job(d, i, SERVE_STOP_END, -1, &err);
}

/* Nothing waits or runs: a slice of a conversation that is over, or sleep until something comes. Entered with the lock, left without. */
static void wait_idle(serve_sched *d) {
    if (!serve_replies_any(d->replies)) {
        pthread_cond_wait(&d->work, &d->lock);
        pthread_mutex_unlock(&d->lock);
        return;
    }
    pthread_mutex_unlock(&d->lock);
    serve_replies_step(d->replies, slice_room(d));
    pthread_mutex_lock(&d->lock);
    d->stats.learned = serve_replies_through(d->replies);
    ie_prefix_get_info(d->c, &d->stats.prefix);
    pthread_mutex_unlock(&d->lock);
}

void serve_learn(serve *s, const int32_t *token, int32_t n) {
    serve_replies_add(s->sched->replies, token, n);
    sched_wake(s->sched);
}

static void *engine_thread(void *arg) {
    serve_sched *d = arg;
    for (;;) {
        drop_running(d);
        pthread_mutex_lock(&d->lock);
        drop_cancelled(d);
        if (!d->stop && !d->queue && d->stats.n_busy == 0) {
            wait_idle(d);
            continue;
        }
        bool stop = d->stop && d->stats.n_busy == 0;
        if (!d->stop) admit(d);
        pthread_mutex_unlock(&d->lock);
        if (stop) {
            serve_replies_pause(d->replies);
            pthread_mutex_lock(&d->lock);
            ie_prefix_get_info(d->c, &d->stats.prefix);
            pthread_mutex_unlock(&d->lock);
            return NULL;
        }
        bool did = decode_all(d);
        did = prefill(d) || did;
        if (did) continue;
        struct timespec t;
        clock_gettime(CLOCK_REALTIME, &t);
        t.tv_nsec += PAUSE_NS;
        if (t.tv_nsec >= 1000000000) t.tv_nsec -= 1000000000, t.tv_sec++;
        pthread_mutex_lock(&d->lock);
        pthread_cond_timedwait(&d->work, &d->lock, &t);
        pthread_mutex_unlock(&d->lock);
    }
}

/* ---- start and end --------------------------------------------------------------------------------------------------------- */

serve_sched *serve_sched_new(serve *s, ie_ctx *ctx, ie_error *err) {
    serve_sched *d = ie_calloc(1, sizeof *d, "scheduler", err);
    if (!d) {
        ie_ctx_free(ctx);
        return NULL;
    }
    *d = (serve_sched){.s = s, .c = ctx, .m = ie_ctx_model(ctx), .n_slots = s->opts.parallel, .rate = 1000};
    d->stats.n_slots = d->n_slots;
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->work, NULL);
    ie_prefix_get_info(ctx, &d->stats.prefix);
    d->slot = ie_calloc((size_t)d->n_slots, sizeof(job *), "slots", err);
    d->replies = d->slot ? serve_replies_new(ctx, err) : NULL;
    if (d->replies) d->started = !pthread_create(&d->thread, NULL, engine_thread, d);
    if (d->started) return d;
    if (d->replies) ie_fail(err, IE_E_NOMEM, "the engine thread could not be started");
    serve_sched_free(d);
    return NULL;
}

void serve_sched_drain(serve_sched *d) {
    pthread_mutex_lock(&d->lock);
    d->drain = true;
    pthread_mutex_unlock(&d->lock);
}

void serve_sched_stop(serve_sched *d) {
    if (!d || !d->started) return;
    pthread_mutex_lock(&d->lock);
    d->stop = d->drain = true;
    pthread_cond_signal(&d->work);
    pthread_mutex_unlock(&d->lock);
    pthread_join(d->thread, NULL);
    d->started = false;
}

ie_status serve_sched_save(serve_sched *d, const char *path, uint64_t max_bytes, int32_t *n, ie_error *err) {
    double end = ie_now() + SAVE_S;
    while (ie_now() < end && serve_replies_step(d->replies, slice_room(d))) {}
    return ie_prefix_save(d->c, path, max_bytes, n, err);
}

void serve_sched_free(serve_sched *d) {
    if (!d) return;
    serve_sched_stop(d);
    serve_replies_free(d->replies);
    ie_ctx_free(d->c);
    free(d->slot);
    pthread_mutex_destroy(&d->lock);
    pthread_cond_destroy(&d->work);
    free(d);
}

void serve_get_stats(serve *s, serve_stats *out) {
    serve_sched *d = s->sched;
    pthread_mutex_lock(&d->lock);
    *out = d->stats;
    pthread_mutex_unlock(&d->lock);
}

int serve_get_slots(serve *s, serve_slot *out, int cap) {
    serve_sched *d = s->sched;
    pthread_mutex_lock(&d->lock);
    int n = d->n_slots < cap ? d->n_slots : cap;
    for (int i = 0; i < n; i++) {
        const job *j = d->slot[i]; /* freed only after it left the slot, under this lock */
        out[i] = (serve_slot){.id = i, .busy = j != NULL};
        if (!j) continue;
        out[i].job = j->id;
        out[i].n_prompt = j->p.n_prompt;
        out[i].n_cached = j->n_cached;
        out[i].n_predicted = j->n_predicted;
        out[i].max_tokens = j->p.max_tokens;
    }
    pthread_mutex_unlock(&d->lock);
    return n;
}
