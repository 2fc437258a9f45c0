/* decode_bench MODEL [BACKEND [N [CONTEXTS [PROMPT [THREADS]]]]]: speed of one sequence, decoded token by token after contexts of given
 * lengths, and of a prompt, which is taken twice, the first time to warm up; one line of JSON. Defaults: auto 128 0,8192 512, all cores.
 *
 * Tokens are arbitrary (their values do not matter for the speed); each decode step is what generation runs: evaluate one token,
 * choose the next from its logits (greedy). The first steps of each measurement are not timed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "context.h"

#define WARM 8
#define BATCH 512

static uint32_t rng = 1;
static int32_t token(int32_t n_vocab) {
    rng = rng * 1664525u + 1013904223u;
    return (int32_t)(rng >> 8) % (n_vocab < 30000 ? n_vocab : 30000);
}

/* Brings sequence 0 to n positions. */
static ie_status fill(ie_ctx *c, int32_t n_vocab, int32_t n, ie_error *err) {
    static int32_t ids[BATCH], seq[BATCH], pos[BATCH];
    static uint8_t want[BATCH];
    ie_status st = IE_OK;
    for (int32_t at = ie_seq_len(c, 0), t; at < n && !st; at += t) {
        t = n - at < BATCH ? n - at : BATCH;
        for (int32_t i = 0; i < t; i++) ids[i] = token(n_vocab), pos[i] = at + i, want[i] = i + 1 == t;
        st = ie_eval(c, &(ie_batch){IE_PREFILL, t, ids, seq, pos, want}, err);
    }
    return st;
}

static ie_status decode(ie_ctx *c, int32_t n_vocab, int32_t n, double *seconds, ie_error *err) {
    ie_sampling greedy;
    ie_sampling_default(&greedy);
    int32_t id = token(n_vocab), seq = 0;
    uint8_t want = 1;
    double start = 0;
    ie_status st = IE_OK;
    for (int32_t i = -WARM; i < n && !st; i++) {
        if (i == 0) start = ie_now();
        int32_t pos = ie_seq_len(c, 0);
        st = ie_eval(c, &(ie_batch){IE_DECODE, 1, &id, &seq, &pos, &want}, err);
        if (!st) st = ie_ctx_sample(c, -1, &greedy, NULL, 0, 0, &id, err);
    }
    *seconds = ie_now() - start;
    return st;
}

static ie_status measure(ie_model *m, int32_t n, const char *contexts, int32_t prompt, ie_error *err) {
    ie_model_info info;
    ie_model_get_info(m, &info);
    int32_t longest = prompt;
    for (const char *p = contexts; *p; p += strcspn(p, ","), p += *p == ',')
        if (atoi(p) + n + WARM > longest) longest = atoi(p) + n + WARM;
    ie_ctx *c = ie_ctx_new(m, &(ie_ctx_params){.n_ctx = longest}, err);
    if (!c) return err->code;
    double s;
    ie_status st = fill(c, info.n_vocab, prompt, err);
    if (!st) st = ie_seq_truncate(c, 0, 0, err);
    double start = ie_now();
    if (!st) st = fill(c, info.n_vocab, prompt, err);
    if (!st)
        printf("{\"backend\": \"%s\", \"weight_bytes\": %llu, \"token_bytes\": %llu, \"prompt\": {\"tokens\": %d, \"per_second\": %.2f}, \"decode\": [",
               info.backend, (unsigned long long)info.weight_bytes, (unsigned long long)info.token_bytes, prompt, prompt / (ie_now() - start));
    bool first = true;
    for (const char *p = contexts; *p && !st; p += strcspn(p, ","), p += *p == ',') {
        st = ie_seq_truncate(c, 0, 0, err);
        if (!st) st = fill(c, info.n_vocab, atoi(p), err);
        if (!st) st = decode(c, info.n_vocab, n, &s, err);
        if (!st)
            printf("%s{\"context\": %d, \"tokens\": %d, \"ms\": %.4f, \"per_second\": %.2f, \"weight_gb_per_second\": %.1f}", first ? "" : ", ",
                   atoi(p), n, s * 1e3 / n, n / s, (double)info.token_bytes * n / s / 1e9);
        first = false;
    }
    if (!st) puts("]}");
    ie_ctx_free(c);
    return st;
}

int main(int argc, char **argv) {
    int32_t n = argc > 3 ? atoi(argv[3]) : 128, prompt = argc > 5 ? atoi(argv[5]) : 512, threads = argc > 6 ? atoi(argv[6]) : 0;
    if (argc < 2 || argc > 7 || n < 1 || prompt < 1 || threads < 0) {
        fputs("usage: decode_bench MODEL [BACKEND [N [CONTEXTS [PROMPT [THREADS]]]]]   (auto 128 0,8192 512, all cores)\n", stderr);
        return 2;
    }
    ie_error err = {0};
    double start = ie_now();
    ie_model *m = ie_model_open(argv[1], &(ie_model_params){.backend = argc > 2 ? argv[2] : "auto", .threads = threads}, &err);
    if (m) fprintf(stderr, "decode_bench: loaded in %.2f s\n", ie_now() - start);
    ie_status st = m ? measure(m, n, argc > 4 ? argv[4] : "0,8192", prompt, &err) : err.code;
    if (st) fprintf(stderr, "decode_bench: %s\n", err.msg);
    ie_model_close(m);
    return st != IE_OK;
}
