/* batch_bench MODEL [BACKEND [STEPS [CONTEXT [BATCHES [THREADS]]]]]: what a decode step of several sequences costs, one token of each, behind
 * contexts of the given length; one line of JSON. Defaults: auto 64 128 1,2,4,8,16 0. IE_PROFILE=1 adds where the time goes.
 *
 * Each step evaluates the batch and chooses every sequence's next token (greedy), as the server does. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "context.h"

#define WARM 8
#define MAX_BATCH 16

static ie_status fill(ie_ctx *c, int32_t seq, int32_t n, int32_t n_vocab, ie_error *err) {
    int32_t *ids = ie_calloc((size_t)n + 1, sizeof *ids, "prompt", err);
    if (!ids) return IE_E_NOMEM;
    for (int32_t i = 0; i < n; i++) ids[i] = (seq * 7919 + i * 104729 + 11) % (n_vocab < 30000 ? n_vocab : 30000);
    ie_status st = n ? ie_prompt(c, seq, ids, n, NULL, NULL, err) : IE_OK;
    free(ids);
    return st;
}

static ie_status decode(ie_ctx *c, int32_t n_seq, int32_t steps, double *seconds, ie_error *err) {
    ie_sampling greedy;
    ie_sampling_default(&greedy);
    int32_t id[MAX_BATCH], seq[MAX_BATCH], pos[MAX_BATCH];
    double start = 0;
    ie_status st = IE_OK;
    for (int32_t i = 0; i < n_seq; i++) id[i] = 100 + i, seq[i] = i;
    for (int32_t k = -WARM; k < steps && !st; k++) {
        if (k == 0) start = ie_now();
        for (int32_t i = 0; i < n_seq; i++) pos[i] = ie_seq_len(c, i);
        st = ie_eval(c, &(ie_batch){IE_DECODE, n_seq, id, seq, pos, NULL}, err);
        for (int32_t i = 0; i < n_seq && !st; i++) st = ie_ctx_sample(c, i, &greedy, NULL, 0, 0, &id[i], err);
    }
    *seconds = ie_now() - start;
    return st;
}

static ie_status measure(ie_model *m, int32_t steps, int32_t context, const char *batches, ie_error *err) {
    ie_model_info info;
    ie_model_get_info(m, &info);
    ie_ctx *c = ie_ctx_new(m, &(ie_ctx_params){.n_ctx = context + steps + WARM + 1, .n_seq = MAX_BATCH}, err);
    ie_status st = c ? IE_OK : err->code;
    if (!st) printf("{\"backend\": \"%s\", \"context\": %d, \"steps\": [", info.backend, context);
    for (const char *p = batches; *p && !st; p += strcspn(p, ","), p += *p == ',') {
        int32_t n = atoi(p);
        double s = 0;
        if (n < 1 || n > MAX_BATCH) st = ie_fail(err, IE_E_ARG, "batch is %d, allowed are 1 to %d", n, MAX_BATCH);
        for (int32_t i = 0; i < MAX_BATCH && !st; i++) {
            st = ie_seq_truncate(c, i, 0, err);
            if (!st && i < n) st = fill(c, i, context, info.n_vocab, err);
        }
        if (!st) st = decode(c, n, steps, &s, err);
        if (!st)
            printf("%s{\"batch\": %d, \"ms\": %.4f, \"per_second\": %.1f}", p == batches ? "" : ", ", n, s * 1e3 / steps, (double)n * steps / s);
    }
    if (!st) puts("]}");
    ie_ctx_free(c);
    return st;
}

int main(int argc, char **argv) {
    int32_t steps = argc > 3 ? atoi(argv[3]) : 64, context = argc > 4 ? atoi(argv[4]) : 128;
    if (argc < 2 || argc > 7 || steps < 1 || context < 0) {
        fputs("usage: batch_bench MODEL [BACKEND [STEPS [CONTEXT [BATCHES [THREADS]]]]]   (auto 64 128 1,2,4,8,16 0)\n", stderr);
        return 2;
    }
    ie_error err = {0};
    ie_buf profile = {0};
    ie_model *m = ie_model_open(argv[1], &(ie_model_params){.backend = argc > 2 ? argv[2] : "auto", .threads = argc > 6 ? atoi(argv[6]) : 0}, &err);
    ie_status st = m ? measure(m, steps, context, argc > 5 ? argv[5] : "1,2,4,8,16", &err) : err.code;
    if (m && !st) st = m->be->api->profile(m->be, &profile, &err);
    if (!st && profile.len) fputs(profile.data, stderr);
    if (st) fprintf(stderr, "batch_bench: %s\n", err.msg);
    ie_buf_free(&profile);
    ie_model_close(m);
    return st != IE_OK;
}
