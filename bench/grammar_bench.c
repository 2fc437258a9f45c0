/* What constrained output costs a token: a mask for a state seen for the first time, for one seen before, near the end of the
 * budget, and the step over a token.
 *
 *   grammar_bench [MODEL.gguf]     the model's vocabulary, or a made one of 250000 tokens
 *
 * Texts are random walks: each token is drawn evenly from its mask. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gen/grammar.h"

#define MADE 250000

static uint64_t seed = 88172645463325252u;
static uint32_t rnd(uint32_t n) {
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    return (uint32_t)(seed >> 33) % n;
}

/* All bytes, then words with and without a leading space, capitals, digits, punctuation, and characters of two and three bytes. */
static gr_vocab *made(ie_error *err) {
    ie_str *text = ie_calloc(MADE, sizeof *text, "vocabulary", err);
    char *pool = ie_calloc(MADE, 32, "vocabulary", err);
    if (!text || !pool) return NULL;
    for (int32_t i = 0; i < MADE; i++) {
        char *p = pool + (size_t)i * 32, *q = p;
        if (i < 256) *q++ = (char)i;
        else {
            uint32_t kind = rnd(20), n = 2 + rnd(9);
            if (rnd(2)) *q++ = ' ';
            for (uint32_t k = 0; k < n; k++) {
                if (kind < 14) *q++ = "etaoinshrdlucmfwypvbgkjqxz"[rnd(26) * rnd(26) / 26];
                else if (kind < 15) *q++ = (char)('0' + rnd(10));
                else if (kind < 16) *q++ = "\"{}[],:.;()<>=+-*/\\_\n\t "[rnd(24)];
                else if (kind < 18) *q++ = (char)(0xC3 + rnd(3)), *q++ = (char)(0x80 + rnd(64));
                else *q++ = (char)(0xE4 + rnd(5)), *q++ = (char)(0x80 + rnd(64)), *q++ = (char)(0x80 + rnd(64)), k++;
            }
        }
        text[i] = (ie_str){p, (uint64_t)(q - p)};
    }
    int32_t end = 0;
    text[0].len = 0;
    gr_vocab *v = gr_vocab_new(text, MADE, MADE, &end, 1, false, NULL, err);
    free(text);
    free(pool);
    return v;
}

static int32_t draw(const gr_vocab *v, const uint64_t *mask) {
    int32_t from = (int32_t)rnd((uint32_t)v->n);
    for (int32_t i = 0; i < v->n; i++) {
        int32_t id = (from + i) % v->n;
        if (mask[id / 64] >> id % 64 & 1) return id;
    }
    return -1;
}

typedef struct {
    double sum, max;
    int n;
} times;

static void note(times *t, double s) {
    t->sum += s, t->n++;
    if (s > t->max) t->max = s;
}

static void print(const char *what, const times *t) {
    if (t->n) printf("  %-34s %9.1f us on average, %9.1f at most (%d)\n", what, t->sum / t->n * 1e6, t->max * 1e6, t->n);
}

static int run(const char *name, ie_grammar_kind kind, const char *src, const gr_vocab *v, ie_error *err) {
    double begin = ie_now();
    ie_grammar *g = gr_compile(kind, src, strlen(src), v, err);
    if (!g) return fprintf(stderr, "%s\n", err->msg), 1;
    printf("%s: compiled in %.1f ms\n", name, (ie_now() - begin) * 1e3);
    times fresh = {0}, cached = {0}, closing = {0}, step = {0};
    for (int round = 0; round < 20; round++) {
        ie_matcher *x = ie_matcher_new(g, err);
        for (int32_t left = 60; x && left > 0; left--) {
            const uint64_t *mask;
            double t = ie_now();
            ie_status st = ie_matcher_mask(x, -1, &mask, err);
            double first = ie_now() - t;
            t = ie_now();
            if (!st) st = ie_matcher_mask(x, -1, &mask, err);
            note(&cached, ie_now() - t);
            if (first > 4 * (ie_now() - t)) note(&fresh, first); /* the state's first mask */
            t = ie_now();
            if (!st) st = ie_matcher_mask(x, left, &mask, err);
            double budget = ie_now() - t;
            if (budget > 10 * cached.sum / cached.n) note(&closing, budget);
            int32_t id = st ? -1 : draw(v, mask);
            if (id < 0) return fprintf(stderr, "%s\n", err->msg), 1;
            t = ie_now();
            st = ie_matcher_accept(x, id, err);
            note(&step, ie_now() - t);
            if (st || ie_matcher_done(x)) break;
        }
        ie_matcher_free(x);
    }
    print("mask of a new state", &fresh);
    print("mask of a known state", &cached);
    print("mask near the end of the budget", &closing);
    print("step over a token", &step);
    printf("  %zu states, %zu frames, %.1f MB\n", g->n_state, g->n_frame, (double)gr_bytes(g) / 1e6);
    ie_grammar_free(g);
    return 0;
}

int main(int argc, char **argv) {
    static const char object[] = "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"},\"age\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":150},"
                                 "\"email\":{\"type\":\"string\",\"format\":\"email\"},\"tags\":{\"type\":\"array\",\"items\":{\"enum\":[\"red\",\"green\",\"blue\"]},"
                                 "\"maxItems\":5}},\"required\":[\"name\",\"age\",\"tags\"]}";
    static const char bounded[] = "{\"type\":\"string\",\"minLength\":100,\"maxLength\":1000}";
    ie_error err = {0};
    ie_gguf *f = argc > 1 ? ie_gguf_open(argv[1], &err) : NULL;
    ie_tokenizer *tok = f ? ie_tokenizer_new(f, &err) : NULL;
    double begin = ie_now();
    gr_vocab *v = argc > 1 ? tok ? gr_vocab_of(tok, 0, &err) : NULL : made(&err);
    if (!v) return fprintf(stderr, "%s\n", err.msg), 1;
    printf("vocabulary: %d tokens, %u nodes, made in %.1f ms\n", v->n, v->n_node, (ie_now() - begin) * 1e3);
    int bad = run("object", IE_GRAMMAR_JSON_SCHEMA, object, v, &err) || run("any JSON", IE_GRAMMAR_JSON_OBJECT, "", v, &err) ||
              run("string of 100 to 1000", IE_GRAMMAR_JSON_SCHEMA, bounded, v, &err) ||
              run("GBNF list", IE_GRAMMAR_GBNF, "root ::= (\"- \" [^\\n]+ \"\\n\")+", v, &err);
    gr_vocab_free(v);
    ie_tokenizer_free(tok);
    ie_gguf_close(f);
    return bad;
}
