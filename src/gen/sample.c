/* Sampling: penalties and biases, the mask, then top-k, top-p, min-p, temperature, in that order (docs/NUMERICS.md).
 *
 * Candidates are ordered by value descending, ties by lower id; that order decides what top-k keeps, how probabilities are
 * accumulated and which token a random number falls on. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../base.h"
#include "rng.h"
#include "sample.h"

#define TOP_P_LIMIT 1000 /* candidates when top-p is asked for without top-k */

typedef ie_cand cand;

void ie_sampling_default(ie_sampling *s) {
    *s = (ie_sampling){.temp = 0, .top_k = 0, .top_p = 1, .min_p = 0, .repeat_penalty = 1, .repeat_last = 64, .seed = 0};
}

static ie_status check(const ie_sampling *s, int32_t n_vocab, ie_error *err) {
    if (n_vocab < 1) return ie_fail(err, IE_E_ARG, "sampling: a vocabulary of %d tokens", n_vocab);
    if (!(s->temp >= 0 && s->temp < INFINITY)) return ie_fail(err, IE_E_ARG, "temp is %g, allowed are 0 and above", (double)s->temp);
    if (s->top_k < 0) return ie_fail(err, IE_E_ARG, "top-k is %d, allowed are 0 (no limit) and above", s->top_k);
    if (!(s->top_p > 0 && s->top_p <= 1)) return ie_fail(err, IE_E_ARG, "top-p is %g, allowed are 0 < p <= 1", (double)s->top_p);
    if (!(s->min_p >= 0 && s->min_p <= 1)) return ie_fail(err, IE_E_ARG, "min-p is %g, allowed are 0 to 1", (double)s->min_p);
    if (!(s->repeat_penalty > 0 && s->repeat_penalty < INFINITY))
        return ie_fail(err, IE_E_ARG, "repeat-penalty is %g, allowed are values above 0", (double)s->repeat_penalty);
    if (!isfinite(s->presence_penalty) || !isfinite(s->frequency_penalty))
        return ie_fail(err, IE_E_ARG, "presence and frequency penalty are %g and %g, allowed are finite numbers", (double)s->presence_penalty,
                       (double)s->frequency_penalty);
    return IE_OK;
}

static bool before(cand a, cand b) { return a.v > b.v || (a.v == b.v && a.id < b.id); }

static int compare(const void *pa, const void *pb) {
    const cand *a = pa, *b = pb;
    return before(*a, *b) ? -1 : before(*b, *a);
}

/* Largest value, lowest id; -1 when nothing is finite (NaN never wins a comparison). */
#define LANES 16
#define PART 1024
static int32_t argmax(const float *x, int32_t n) {
    float v = -INFINITY, m[LANES];
    int32_t at = -1, i = 0;
    for (; i + PART <= n; i += PART) { /* the first part with the largest value; lanes, so that the compiler takes several at a time */
        for (int32_t k = 0; k < LANES; k++) m[k] = -INFINITY;
        for (int32_t j = i; j < i + PART; j += LANES)
            for (int32_t k = 0; k < LANES; k++) m[k] = x[j + k] > m[k] ? x[j + k] : m[k];
        for (int32_t k = 0; k < LANES; k++)
            if (m[k] > v) v = m[k], at = i;
    }
    for (; i < n; i++)
        if (x[i] > v) v = x[i], at = i;
    while (at >= 0 && x[at] != v) at++;
    return at >= 0 && v < INFINITY ? at : -1;
}

/* Moves the root of a heap (worst candidate first) down to its place. */
static void sift(cand *h, int32_t n, int32_t i) {
    for (;;) {
        int32_t l = 2 * i + 1, worst = i;
        if (l < n && before(h[worst], h[l])) worst = l;
        if (l + 1 < n && before(h[worst], h[l + 1])) worst = l + 1;
        if (worst == i) return;
        cand t = h[i];
        h[i] = h[worst];
        h[worst] = t;
        i = worst;
    }
}

/* The best k finite candidates in order; returns how many there are. O(n) plus O(log k) for each that enters the heap. */
static int32_t top(const float *x, int32_t n, int32_t k, cand *out) {
    int32_t have = 0;
    for (int32_t i = 0; i < n; i++) {
        cand c = {x[i], i};
        if (!(c.v >= -FLT_MAX && c.v <= FLT_MAX)) continue;
        if (have < k) {
            out[have++] = c;
            if (have == k)
                for (int32_t j = k / 2; j >= 0; j--) sift(out, k, j);
        } else if (before(c, out[0])) {
            out[0] = c;
            sift(out, k, 0);
        }
    }
    qsort(out, (size_t)have, sizeof *out, compare);
    return have;
}

/* Smallest prefix whose probability (softmax over the n candidates) reaches p. */
static int32_t cut_top_p(const cand *c, int32_t n, float p) {
    double total = 0, sum = 0;
    for (int32_t i = 0; i < n; i++) total += exp((double)c[i].v - (double)c[0].v);
    for (int32_t i = 0; i < n; i++) {
        sum += exp((double)c[i].v - (double)c[0].v);
        if (sum >= (double)p * total) return i + 1;
    }
    return n;
}

static int32_t cut_min_p(const cand *c, int32_t n, float p) {
    int32_t keep = 1;
    while (keep < n && exp((double)c[keep].v - (double)c[0].v) >= (double)p) keep++;
    return keep;
}

static int32_t draw(const cand *c, int32_t n, float temp, double u) {
    double total = 0, sum = 0;
    for (int32_t i = 0; i < n; i++) total += exp(((double)c[i].v - (double)c[0].v) / (double)temp);
    for (int32_t i = 0; i < n; i++) {
        sum += exp(((double)c[i].v - (double)c[0].v) / (double)temp);
        if (sum > u * total) return c[i].id;
    }
    return c[n - 1].id;
}

/* The repeat penalty divides positive and multiplies negative logits of the last tokens (Keskar et al. 2019,
 * arXiv:1909.05858), once each. Presence and frequency penalties are taken off the logits of the output's tokens, then
 * biases are added. count: n_vocab zeros, scratch. */
static void penalise(float *x, int32_t n_vocab, const ie_sampling *s, const int32_t *history, int32_t n, uint64_t index, int32_t *count) {
    int32_t from = n > s->repeat_last ? n - s->repeat_last : 0;
    for (int32_t i = from; i < n && s->repeat_penalty != 1; i++) {
        int32_t id = history[i];
        if (id < 0 || id >= n_vocab || count[id]++) continue;
        x[id] = x[id] > 0 ? x[id] / s->repeat_penalty : x[id] * s->repeat_penalty;
    }
    memset(count, 0, (size_t)n_vocab * sizeof *count);
    int32_t out = index < (uint64_t)n ? n - (int32_t)index : 0;
    bool counts = s->presence_penalty != 0 || s->frequency_penalty != 0;
    for (int32_t i = out; i < n && counts; i++)
        if (history[i] >= 0 && history[i] < n_vocab) count[history[i]]++;
    for (int32_t i = out; i < n && counts; i++) {
        int32_t id = history[i];
        if (id < 0 || id >= n_vocab || !count[id]) continue;
        x[id] = x[id] - (s->presence_penalty + s->frequency_penalty * (float)count[id]);
        count[id] = 0;
    }
    for (int32_t i = 0; i < s->n_bias; i++)
        if (s->bias[i].token >= 0 && s->bias[i].token < n_vocab) x[s->bias[i].token] += s->bias[i].bias;
}

static void forbid(float *x, int32_t n_vocab, const uint64_t *mask) {
    for (int32_t i = 0; i < n_vocab; i += 64) {
        uint64_t word = mask[i / 64];
        if (word == UINT64_MAX) continue;
        int32_t end = n_vocab - i < 64 ? n_vocab - i : 64;
        for (int32_t k = 0; k < end; k++)
            if (!(word >> k & 1)) x[i + k] = -INFINITY;
    }
}

/* Temperature alone, over the whole vocabulary: the same token as draw() on all candidates in order, but only as many are
 * ordered as the random number needs. */
static ie_status draw_all(const float *x, int32_t n_vocab, float temp, double u, int32_t *out, ie_error *err) {
    int32_t best = argmax(x, n_vocab), n = 0;
    if (best < 0) return ie_fail(err, IE_E_NUMERIC, "sampling: no finite logit");
    double max = (double)x[best], total = 0;
    for (int32_t i = 0; i < n_vocab; i++)
        if (x[i] >= -FLT_MAX) total += exp(((double)x[i] - max) / (double)temp);
    for (int32_t k = 256;; k *= 8) {
        if (k > n_vocab) k = n_vocab;
        cand *c = ie_calloc((size_t)k, sizeof *c, "sampling", err);
        if (!c) return err->code;
        n = top(x, n_vocab, k, c);
        double sum = 0;
        int32_t i = 0;
        while (i < n && (sum += exp(((double)c[i].v - max) / (double)temp)) <= u * total) i++;
        bool found = i < n || k == n_vocab;
        if (found) *out = c[i < n ? i : n - 1].id;
        free(c);
        if (found) return IE_OK;
    }
}

static ie_status choose(const ie_sampling *s, const float *x, int32_t n_vocab, uint64_t index, int32_t *out, ie_error *err) {
    if (s->temp == 0) {
        *out = argmax(x, n_vocab);
        return *out >= 0 ? IE_OK : ie_fail(err, IE_E_NUMERIC, "sampling: no finite logit");
    }
    double u = ie_uniform(s->seed, index);
    if (s->top_k == 0 && s->top_p == 1 && s->min_p == 0) return draw_all(x, n_vocab, s->temp, u, out, err);
    int32_t k = s->top_k ? s->top_k : s->top_p < 1 ? TOP_P_LIMIT : n_vocab;
    if (k > n_vocab) k = n_vocab;
    cand *c = ie_calloc((size_t)k, sizeof *c, "sampling", err);
    if (!c) return err->code;
    ie_status st = ie_sample_from(s, c, top(x, n_vocab, k, c), index, out, err);
    free(c);
    return st;
}

ie_status ie_sample_from(const ie_sampling *s, const ie_cand *c, int32_t n, uint64_t index, int32_t *out, ie_error *err) {
    if (n < 1) return ie_fail(err, IE_E_NUMERIC, "sampling: no finite logit");
    if (s->temp == 0) {
        *out = c[0].id;
        return IE_OK;
    }
    if (s->top_p < 1) n = cut_top_p(c, n, s->top_p);
    if (s->min_p > 0) n = cut_min_p(c, n, s->min_p);
    *out = draw(c, n, s->temp, ie_uniform(s->seed, index));
    return IE_OK;
}

/* Penalties, biases and masks that change logits. */
static bool changes(const ie_sampling *s, int32_t n_history, uint64_t index) {
    bool repeat = s->repeat_penalty != 1 && s->repeat_last > 0 && n_history > 0;
    bool counts = (s->presence_penalty != 0 || s->frequency_penalty != 0) && n_history > 0 && index > 0;
    return repeat || counts || s->n_bias > 0 || s->mask;
}

int32_t ie_sample_needs(const ie_sampling *s, int32_t n_history, uint64_t index) {
    return changes(s, n_history, index) ? 0 : s->temp == 0 ? 1 : s->top_k;
}

ie_status ie_sample(const ie_sampling *s, const float *logits, int32_t n_vocab, const int32_t *history, int32_t n_history,
                    uint64_t index, int32_t *out, ie_error *err) {
    ie_error local;
    if (!err) err = &local;
    ie_status st = check(s, n_vocab, err);
    if (st) return st;
    if (!changes(s, n_history, index)) return choose(s, logits, n_vocab, index, out, err);
    float *x = ie_calloc((size_t)n_vocab, sizeof *x, "sampling", err);
    int32_t *count = x ? ie_calloc((size_t)n_vocab, sizeof *count, "sampling", err) : NULL;
    if (count) {
        memcpy(x, logits, (size_t)n_vocab * sizeof *x);
        penalise(x, n_vocab, s, history, n_history, index, count);
        if (s->mask) forbid(x, n_vocab, s->mask);
        st = choose(s, x, n_vocab, index, out, err);
    } else {
        st = IE_E_NOMEM;
    }
    free(count);
    free(x);
    return st;
}

ie_status ie_logprobs(const float *logits, int32_t n_vocab, int32_t token, int32_t k, float *logprob, ie_token_prob *list,
                      int32_t *n_top, ie_error *err) {
    if (n_vocab < 1 || token < 0 || token >= n_vocab) return ie_fail(err, IE_E_ARG, "token %d is not in the vocabulary of %d", token, n_vocab);
    if (k < 0) return ie_fail(err, IE_E_ARG, "%d log-probabilities, allowed are 0 and above", k);
    if (k > n_vocab) k = n_vocab;
    int32_t best = argmax(logits, n_vocab);
    if (best < 0) return ie_fail(err, IE_E_NUMERIC, "log-probabilities: no finite logit");
    double max = (double)logits[best], total = 0;
    for (int32_t i = 0; i < n_vocab; i++)
        if (logits[i] >= -FLT_MAX) total += exp((double)logits[i] - max);
    // cppcheck-suppress invalidFunctionArg ; the best logit adds 1
    double log_total = log(total);
    *logprob = logits[token] >= -FLT_MAX ? (float)((double)logits[token] - max - log_total) : -INFINITY;
    *n_top = 0;
    if (k == 0) return IE_OK;
    cand *c = ie_calloc((size_t)k, sizeof *c, "log-probabilities", err);
    if (!c) return IE_E_NOMEM;
    *n_top = top(logits, n_vocab, k, c);
    for (int32_t i = 0; i < *n_top; i++) list[i] = (ie_token_prob){c[i].id, (float)((double)c[i].v - max - log_total)};
    free(c);
    return IE_OK;
}
