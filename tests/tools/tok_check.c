/* Runs many texts through a tokenizer in one process, for tests/e2e/test_tokenizer.py.
 *
 *     tok_check MODEL.gguf             records on stdin, answers on stdout, integers little endian
 *     tok_check MODEL.gguf --info      prints: n_vocab bos eos eot add_bos, then the ids of end tokens
 *     tok_check MODEL.gguf --time N    encodes stdin as one text N times: prints bytes, ids, seconds of the best
 *
 * Record: u32 flags (1 add special, 2 trusted), u32 length, the text. Answer: i32 number of ids, the ids, u32 length of
 * the decoded text, that text (special tokens rendered). A failure ends the run: one line on stderr, exit code 1. */
#include "../../src/text/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static int time_it(const ie_tokenizer *t, int times) {
    ie_error err;
    ie_buf text = {0};
    static char block[1 << 16];
    for (size_t n; (n = fread(block, 1, sizeof block, stdin)) > 0;)
        if (!ie_buf_add(&text, block, n, &err)) return fail(&err);
    double best = 1e30;
    size_t ids = 0;
    for (int i = 0; i < times; i++) {
        ie_ids out = {0};
        const ie_text_run run = {text.data ? text.data : "", text.len, false};
        double start = ie_now();
        if (ie_tokenizer_encode(t, &run, 1, 0, &out, &err) != IE_OK) return fail(&err);
        double took = ie_now() - start;
        if (took < best) best = took;
        ids = out.n;
        ie_ids_free(&out);
    }
    printf("%zu %zu %.6f\n", text.len, ids, best);
    ie_buf_free(&text);
    return 0;
}

static int records(const ie_tokenizer *t) {
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
        if (ie_tokenizer_encode(t, &run, 1, head[0] & 1 ? IE_TOK_ADD_SPECIAL : 0, &out, &err) != IE_OK)
            return fail(&err);
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
    double start = ie_now();
    ie_tokenizer *t = ie_tokenizer_new(g, &err);
    double took = ie_now() - start;
    ie_gguf_close(g);
    if (!t) return fail(&err);
    int rc;
    if (argc > 2 && strcmp(argv[2], "--info") == 0) rc = info(t);
    else if (argc > 3 && strcmp(argv[2], "--time") == 0) {
        fprintf(stderr, "built in %.3f s\n", took);
        rc = time_it(t, atoi(argv[3]));
    } else rc = records(t);
    ie_tokenizer_free(t);
    return rc;
}
