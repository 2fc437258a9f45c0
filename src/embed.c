/* Embeddings: the hidden states of a text's tokens pooled to one vector. */
#include "embed.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "context.h"

void ie_pool_add(ie_pooling pooling, const float *row, int32_t n, double *sum) {
    for (int32_t i = 0; i < n; i++) sum[i] = pooling == IE_POOL_MEAN ? sum[i] + (double)row[i] : (double)row[i];
}

ie_status ie_pool_end(const double *sum, int32_t n, float *out, ie_error *err) {
    double square = 0;
    for (int32_t i = 0; i < n; i++) square = fma(sum[i], sum[i], square);
    if (!isfinite(square)) return ie_fail(err, IE_E_NUMERIC, "the embedding is not finite");
    double scale = square > 0 ? 1 / sqrt(square) : 0;
    for (int32_t i = 0; i < n; i++) out[i] = (float)(sum[i] * scale);
    return IE_OK;
}

/* Evaluates tokens [from, from + t) and pools their states. at has room for sequence and position of t tokens. */
static ie_status chunk(ie_ctx *c, int32_t seq, const int32_t *tokens, int32_t from, int32_t t, ie_pooling pooling, int32_t *at,
                       const uint8_t *want, double *sum, ie_error *err) {
    for (int32_t i = 0; i < t; i++) at[i] = seq, at[t + i] = from + i;
    ie_batch b = {.phase = IE_PREFILL, .n = t, .token = tokens + from, .seq = at, .pos = at + t,
                  .want_logits = pooling == IE_POOL_MEAN ? want : NULL};
    ie_status st = ie_eval_hidden(c, &b, err);
    int32_t n = (int32_t)ie_ctx_model(c)->hp.n_embd;
    for (int32_t i = pooling == IE_POOL_MEAN ? 0 : t - 1; i < t && !st; i++) {
        const float *row = ie_hidden(c, i);
        if (!row) return ie_fail(err, IE_E_DEVICE, "the hidden states could not be read");
        ie_pool_add(pooling, row, n, sum);
    }
    return st;
}

ie_status ie_embed(ie_ctx *c, int32_t seq, const int32_t *tokens, int32_t n, ie_pooling pooling, float *out, ie_error *err) {
    ie_error local;
    if (!err) err = &local;
    if (pooling != IE_POOL_MEAN && pooling != IE_POOL_LAST)
        return ie_fail(err, IE_E_ARG, "pooling is %d, allowed are IE_POOL_MEAN and IE_POOL_LAST", (int)pooling);
    if (n < 1 || n > ie_ctx_size(c)) return ie_fail(err, IE_E_ARG, "a text of %d tokens, allowed are 1 to %d", n, ie_ctx_size(c));
    ie_status st = ie_seq_truncate(c, seq, 0, err);
    if (st) return st;
    int32_t most = ie_ctx_chunk(c), n_embd = (int32_t)ie_ctx_model(c)->hp.n_embd;
    double *sum = ie_calloc((size_t)n_embd, sizeof *sum, "embedding", err);
    int32_t *at = ie_calloc((size_t)most * 2, sizeof *at, "embedding", err);
    uint8_t *want = ie_calloc((size_t)most, 1, "embedding", err);
    if (!sum || !at || !want) st = IE_E_NOMEM;
    else memset(want, 1, (size_t)most);
    for (int32_t from = 0, t; from < n && !st; from += t) {
        t = n - from < most ? n - from : most;
        st = chunk(c, seq, tokens, from, t, pooling, at, want, sum, err);
    }
    if (!st) st = ie_pool_end(sum, n_embd, out, err);
    ie_seq_truncate(c, seq, 0, NULL);
    free(sum);
    free(at);
    free(want);
    return st;
}
