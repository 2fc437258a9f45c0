/* --ppl: perplexity of a text, whole or in windows (exp of the mean negative log likelihood, in nats). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "../context.h"
#include "app.h"

#define ROW_BYTES (64u << 20) /* logits kept at once */

typedef struct {
    double nll;
    int64_t scored;
} score;

/* -log softmax(x)[target], in double. */
static double nll_of(const float *x, int32_t n, int32_t target) {
    double max = -INFINITY, sum = 0;
    for (int32_t i = 0; i < n; i++) max = (double)x[i] > max ? (double)x[i] : max;
    for (int32_t i = 0; i < n; i++) sum += exp((double)x[i] - max);
    // cppcheck-suppress invalidFunctionArg ; n >= 1, and the largest value adds 1
    return log(sum) + max - (double)x[target];
}

typedef struct {
    ie_ctx *c;
    int32_t n_vocab, rows; /* rows of logits at once */
    int32_t first;
    int32_t *seq, *pos;
    uint8_t *want;
} runner;

/* Scores the predictions of tokens first + 1 .. n - 1 of one window. */
static ie_status window(runner *r, const int32_t *ids, int32_t n, score *s, ie_error *err) {
    int32_t have;
    ie_status st = ie_seq_truncate(r->c, 0, 0, err);
    if (!st) st = ie_seq_sync(r->c, 0, ids, n, &have, err);
    for (int32_t p = 0, t; p < n - 1 && !st; p += t) {
        t = n - 1 - p < r->rows ? n - 1 - p : r->rows;
        // NOLINTNEXTLINE(clang-analyzer-core.NullDereference): app_ppl comes here with all three
        for (int32_t i = 0; i < t; i++) r->seq[i] = 0, r->pos[i] = p + i, r->want[i] = p + i >= r->first;
        ie_batch b = {.phase = IE_PREFILL, .n = t, .token = ids + p, .seq = r->seq, .pos = r->pos, .want_logits = r->want};
        st = ie_eval(r->c, &b, err);
        for (int32_t i = 0; i < t && !st; i++) {
            if (!r->want[i]) continue;
            if (ids[p + i + 1] >= r->n_vocab) return ie_fail(err, IE_E_ARG, "token %d is not in the vocabulary of %d", ids[p + i + 1], r->n_vocab);
            const float *logits = NULL;
            if ((st = ie_ctx_logits(r->c, i, &logits, err))) break;
            s->nll += nll_of(logits, r->n_vocab, ids[p + i + 1]);
            s->scored++;
        }
    }
    return st;
}

static ie_status all_windows(runner *r, const ie_run_opts *o, app_bar *bar, const int32_t *ids, size_t n, score *s, ie_error *err) {
    size_t step = o->ppl_window ? (size_t)o->ppl_window : n;
    ie_status st = IE_OK;
    for (size_t at = 0; at + step <= n && !st; at += step) {
        st = window(r, ids + at, (int32_t)step, s, err);
        app_bar_step(bar, "perplexity", (double)(at + step) / (double)n);
    }
    return st;
}

ie_status app_ppl(ie_model *m, const ie_run_opts *o, app_bar *bar, ie_error *err) {
    int32_t *ids = NULL;
    size_t n = 0;
    ie_model_info info;
    ie_model_get_info(m, &info);
    double start = ie_now();
    ie_status st = app_prompt_ids(m, o, false, &ids, &n, err);
    size_t need = o->ppl_window ? (size_t)o->ppl_window : (size_t)o->ppl_first + 2;
    if (!st && n < need) st = ie_fail(err, IE_E_ARG, "the text has %zu tokens; %zu are needed for a score", n, need);
    int32_t chunk = o->chunk ? o->chunk : 512, fit = (int32_t)(ROW_BYTES / 4 / (uint32_t)info.n_vocab);
    runner r = {.n_vocab = info.n_vocab, .first = o->ppl_first, .rows = fit < 16 ? 16 : fit};
    if (r.rows > chunk) r.rows = chunk;
    r.c = st ? NULL : app_context(m, o, err);
    if (!st && !r.c) st = err->code;
    r.seq = st ? NULL : ie_calloc((size_t)r.rows, sizeof *r.seq, "batch", err);
    r.pos = st ? NULL : ie_calloc((size_t)r.rows, sizeof *r.pos, "batch", err);
    r.want = st ? NULL : ie_calloc((size_t)r.rows, 1, "batch", err);
    if (!st && (!r.seq || !r.pos || !r.want)) st = err->code;
    score s = {0};
    if (!st) st = all_windows(&r, o, bar, ids, n, &s, err);
    app_bar_clear(bar);
    if (!st && !isfinite(s.nll)) st = ie_fail(err, IE_E_NUMERIC, "perplexity: the log likelihood is not finite");
    double ppl = s.scored ? exp(s.nll / (double)s.scored) : 0;
    if (!st && o->json) {
        st = app_print_json(json_pack("{s:f, s:f, s:I, s:f}", "ppl", ppl, "nll", s.nll, "scored", (json_int_t)s.scored, "seconds",
                                      ie_now() - start), err);
    } else if (!st) {
        printf("perplexity %.6f over %lld tokens (negative log likelihood %.6f)\n", ppl, (long long)s.scored, s.nll);
        st = app_flush(err);
    }
    free(r.seq);
    free(r.pos);
    free(r.want);
    free(ids);
    ie_ctx_free(r.c);
    return st;
}
