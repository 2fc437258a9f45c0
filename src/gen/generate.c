/* The generation loop: prompt, then one token a step until something ends it. */
#include <stdlib.h>
#include <string.h>

#include "../context.h"

/* Bytes of tokens waiting for the rest of their last character. */
typedef struct {
    const ie_tokenizer *tok;
    ie_buf buf;
    size_t sent;
    bool first;
} stream;

static ie_status stream_add(stream *s, int32_t token, ie_error *err) {
    if (!s->tok) return IE_OK;
    ie_status st = ie_tokenizer_decode(s->tok, token, s->first, 0, &s->buf, err);
    s->first = false;
    return st;
}

/* Hands out what is ready; at the end also an incomplete tail. True when the caller wants to stop. */
static bool stream_send(stream *s, const ie_gen_params *p, int32_t token) {
    size_t ready = s->buf.len - s->sent;
    const char *at = s->buf.data ? s->buf.data + s->sent : "";
    if (token >= 0) ready = ie_utf8_complete(at, ready);
    bool stop = p->on_token && p->on_token(p->user, token, at, ready);
    s->sent += ready;
    if (s->sent == s->buf.len) s->buf.len = s->sent = 0;
    return stop;
}

typedef struct {
    int32_t *token; /* prompt and output: the sequence as it grows */
    size_t n, cap;
} tokens;

static bool push(tokens *t, int32_t id, ie_error *err) {
    if (!ie_grow(&t->token, &t->cap, t->n + 1, sizeof *t->token, "tokens", err)) return false;
    t->token[t->n++] = id;
    return true;
}

static ie_status step(ie_ctx *c, int32_t seq, int32_t token, int32_t pos, ie_error *err) {
    uint8_t want = 1;
    ie_batch b = {.phase = IE_DECODE, .n = 1, .token = &token, .seq = &seq, .pos = &pos, .want_logits = &want};
    return ie_eval(c, &b, err);
}

/* One token: masked by the grammar, if there is one, so that the text can be completed within `left` tokens. */
static ie_status choose(ie_ctx *c, ie_matcher *x, int32_t left, const tokens *t, int32_t n_prompt, const ie_gen_params *p, int32_t *id,
                        ie_error *err) {
    ie_sampling s = p->sampling;
    ie_status st = x ? ie_matcher_mask(x, left, &s.mask, err) : IE_OK;
    if (!st) st = ie_ctx_sample(c, -1, &s, t->token, (int32_t)t->n, (uint64_t)(t->n - (size_t)n_prompt), id, err);
    if (!st && x) st = ie_matcher_accept(x, *id, err);
    return st;
}

static ie_status loop(ie_ctx *c, int32_t seq, int32_t n_vocab, tokens *t, int32_t n_prompt, const ie_model *m, stream *s, ie_matcher *x,
                      const ie_gen_params *p, ie_gen_result *res, ie_error *err) {
    for (res->stop = IE_STOP_LENGTH; p->max_tokens < 0 || res->n_predicted < p->max_tokens;) {
        int32_t pos = (int32_t)t->n - 1, id, left = ie_ctx_size(c) - pos;
        if (p->max_tokens >= 0 && left > p->max_tokens - res->n_predicted) left = p->max_tokens - res->n_predicted;
        const float *logits = NULL;
        ie_status st = p->on_logits ? ie_ctx_logits(c, -1, &logits, err) : IE_OK;
        if (!st) st = choose(c, x, left, t, n_prompt, p, &id, err);
        if (st) return st;
        if (p->on_logits) p->on_logits(p->user, pos, t->token[pos], logits, n_vocab);
        if (!push(t, id, err)) return err->code;
        res->n_predicted++;
        bool end = (p->stop_at_end || x) && ie_token_is_end(m, id);
        if (!end && (st = stream_add(s, id, err))) return st;
        bool stop = stream_send(s, p, id);
        end = end || (x && ie_matcher_done(x));
        if (end || stop) {
            res->stop = end ? IE_STOP_END : IE_STOP_CALLER;
            return IE_OK;
        }
        if (p->max_tokens >= 0 && res->n_predicted == p->max_tokens) return IE_OK;
        if (pos + 1 >= ie_ctx_size(c)) {
            res->stop = IE_STOP_FULL;
            return IE_OK;
        }
        if ((st = step(c, seq, id, pos + 1, err))) return st;
    }
    return IE_OK;
}

/* Says before the prompt is evaluated where the budget is too small for any text of the grammar. */
static ie_status suffices(ie_matcher *x, ie_ctx *c, int32_t n_prompt, const ie_gen_params *p, ie_error *err) {
    const uint64_t *mask;
    int32_t left = ie_ctx_size(c) - n_prompt + 1;
    if (p->max_tokens >= 0 && left > p->max_tokens) left = p->max_tokens;
    return left > 0 ? ie_matcher_mask(x, left, &mask, err) : IE_OK;
}

ie_status ie_generate(ie_ctx *c, int32_t seq, const int32_t *prompt, int32_t n, const ie_gen_params *p, ie_gen_result *res,
                      int32_t **out, ie_error *err) {
    ie_error local;
    if (!err) err = &local;
    *res = (ie_gen_result){.n_prompt = n};
    if (n < 1) return ie_fail(err, IE_E_ARG, "the prompt is empty: at least one token is needed");
    if (p->max_tokens < -1) return ie_fail(err, IE_E_ARG, "max_tokens is %d, allowed are -1 (no limit) and above", p->max_tokens);
    const ie_model *m = ie_ctx_model(c);
    tokens t = {0};
    stream s = {.tok = m->tok, .first = true};
    double start = ie_now();
    ie_status st = IE_OK;
    for (int32_t i = 0; i < n && !st; i++)
        if (!push(&t, prompt[i], err)) st = err->code;
    ie_matcher *x = p->grammar && !st ? ie_matcher_new(p->grammar, err) : NULL;
    if (p->grammar && !x && !st) st = err->code;
    if (!st && x) st = suffices(x, c, n, p, err);
    if (!st) st = ie_seq_sync(c, seq, prompt, n, &res->n_cached, err);
    if (!st) st = ie_prompt(c, seq, prompt, n, p->progress, p->user, err);
    res->prompt_s = ie_now() - start;
    start = ie_now();
    if (!st) st = loop(c, seq, (int32_t)m->hp.n_vocab, &t, n, m, &s, x, p, res, err);
    res->predicted_s = ie_now() - start;
    if (!st) stream_send(&s, p, -1);
    ie_matcher_free(x);
    ie_buf_free(&s.buf);
    if (!st && out) {
        memmove(t.token, t.token + n, (t.n - (size_t)n) * sizeof *t.token);
        *out = t.token;
    } else {
        free(t.token);
    }
    return st;
}
