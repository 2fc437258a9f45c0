/* Runs many texts through a tokenizer in one process, for tests/e2e/test_tokenizer.py.
 *
 *     tok_check MODEL.gguf             records on stdin, answers on stdout, integers little endian
 *     tok_check MODEL.gguf --info      prints: n_vocab bos eos eot add_bos, then the ids of end tokens
 *     tok_check MODEL.gguf --time N    encodes each record N times: prints bytes, ids, processor seconds of the best
 *
 * Record: u32 flags (1 add special, 2 trusted), u32 length, the text. Answer: i32 number of ids, the ids, u32 length of
 * the decoded text, that text (special tokens rendered). A failure ends the run: one line on stderr, exit code 1. */
#include "../../src/text/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Processor time of this process in seconds: what else runs on the machine must not fail a test. */
static double cpu_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int fail(const ie_error *err) {
    fprintf(stderr, "%s\n", err->msg);
    return 1;
}

static int info(const ie_tokenizer *t) {
    printf("%d %d %d %d %d\n", ie_tokenizer_n_vocab(t), ie_tokenizer_bos(t), ie_tokenizer_eos(t), ie_tokenizer_eot(t),
           ie_tokenizer_add_bos(t));
    for (int32_t i = 0; i < ie_tokenizer_n_vocab(t); i++)
        if (ie_tokenizer_is_end(t, i)) printf("%d ", i);
    printf("\n");
    return 0;
}

/* Seconds of the best of `times` runs; out holds the ids of the last. Negative on failure. */
static double encode(const ie_tokenizer *t, const ie_text_run *run, unsigned flags, int times, ie_ids *out,
                     ie_error *err) {
    double best = 1e30;
    for (int i = 0; i < times; i++) {
        out->n = 0;
        double start = cpu_seconds();
        if (ie_tokenizer_encode(t, run, 1, flags, out, err) != IE_OK) return -1;
        double took = cpu_seconds() - start;
        if (took < best) best = took;
    }
    return best;
}

static int records(const ie_tokenizer *t, int times) {
    ie_error err;
    ie_ids out = {0};
    ie_buf text = {0};
    char *in = NULL;
    size_t cap = 0;
    uint32_t head[2];
    while (fread(head, sizeof head, 1, stdin) == 1) {
        if (!ie_grow(&in, &cap, (size_t)head[1] + 1, 1, "record", &err)) return fail(&err);
        if (fread(in, 1, head[1], stdin) != head[1]) return fprintf(stderr, "record cut off\n"), 1;
        out.n = text.len = 0;
        const ie_text_run run = {in, head[1], (head[0] & 2) != 0};
        double took = encode(t, &run, head[0] & 1 ? IE_TOK_ADD_SPECIAL : 0, times ? times : 1, &out, &err);
        if (took < 0) return fail(&err);
        if (times) {
            printf("%u %zu %.6f\n", head[1], out.n, took);
            continue;
        }
        for (size_t i = 0; i < out.n; i++)
            if (ie_tokenizer_decode(t, out.ids[i], i == 0, IE_DETOK_SPECIAL, &text, &err) != IE_OK) return fail(&err);
        int32_t n = (int32_t)out.n;
        uint32_t len = (uint32_t)text.len;
        fwrite(&n, sizeof n, 1, stdout);
        if (n) fwrite(out.ids, sizeof *out.ids, out.n, stdout);
        fwrite(&len, sizeof len, 1, stdout);
        if (len) fwrite(text.data, 1, len, stdout);
    }
    ie_ids_free(&out);
    ie_buf_free(&text);
    free(in);
    return 0;
}

int main(int argc, char **argv) {
    ie_error err;
    if (argc < 2) return fprintf(stderr, "usage: tok_check MODEL.gguf [--info | --time N]\n"), 2;
    ie_gguf *g = ie_gguf_open(argv[1], &err);
    if (!g) return fail(&err);
    double start = cpu_seconds();
    ie_tokenizer *t = ie_tokenizer_new(g, &err);
    double took = cpu_seconds() - start;
    ie_gguf_close(g);
    if (!t) return fail(&err);
    int rc;
    if (argc > 2 && strcmp(argv[2], "--info") == 0)
        rc = info(t);
    else if (argc > 3 && strcmp(argv[2], "--time") == 0) {
        fprintf(stderr, "built in %.3f s\n", took);
        rc = records(t, atoi(argv[3]));
    } else
        rc = records(t, 0);
    ie_tokenizer_free(t);
    return rc;
}
