/* Which texts a grammar accepts, for comparison with other implementations: grammar_check gbnf|schema|object FILE < LINES
 *
 * Each line is a text in hexadecimal. Each answer is one line: "yes" (a complete text), "part" (could go on to one) or "no". The
 * vocabulary has a token for each byte and some longer ones; each text is fed byte by byte, and again in random tokens, which has to
 * give the same. A grammar that is refused gives one line that begins with "error: ". */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gen/grammar.h"

static const char *const longer[] = {"true", "false", "null", "\": \"", "\", \"", "{\"", "\"}", "[[", "]]", "ab", "abc", "aa", "aaaa", "12", "00", "\xc3\xa9",
                                     "\xa9x", "\x9f\x98", "  ", "\n  ", ", ", "-1", "0.", "e+"};
enum { N_LONGER = sizeof longer / sizeof *longer, END = 256 + N_LONGER };
static ie_str text[END + 1];
static char bytes[256];

static int hex_digit(int c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; }

static uint32_t seed = 1;
static uint32_t rnd(void) { return seed = seed * 1664525u + 1013904223u, seed >> 8; }

static void die(const ie_error *err) {
    printf("error: %s\n", err->msg);
    exit(0);
}

/* 0: no, 1: part, 2: yes */
static int feed(ie_grammar *g, const char *s, size_t n, bool single) {
    ie_error err;
    ie_matcher *x = ie_matcher_new(g, &err);
    if (!x) die(&err);
    int result = 1;
    for (size_t i = 0; i < n && result;) {
        int32_t id = (uint8_t)s[i];
        for (int k = 0; k < N_LONGER && !single; k++)
            if (text[256 + k].len <= n - i && !memcmp(s + i, text[256 + k].s, (size_t)text[256 + k].len) && rnd() % 2) id = 256 + k;
        const uint64_t *mask;
        ie_status st = ie_matcher_mask(x, -1, &mask, &err);
        if (st) die(&err);
        bool allowed = mask[id / 64] >> id % 64 & 1;
        st = ie_matcher_accept(x, id, &err);
        if (st && st != IE_E_ARG) die(&err);
        if (allowed != (st == IE_OK)) printf("mask and accept disagree on token %d\n", id), exit(1);
        if (st) result = 0;
        i += (size_t)text[id].len;
    }
    if (result && ie_matcher_complete(x)) result = 2;
    ie_matcher_free(x);
    return result;
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    ie_grammar_kind kind = !strcmp(argv[1], "gbnf") ? IE_GRAMMAR_GBNF : !strcmp(argv[1], "schema") ? IE_GRAMMAR_JSON_SCHEMA : IE_GRAMMAR_JSON_OBJECT;
    FILE *f = fopen(argv[2], "rb");
    if (!f) return 2;
    ie_buf src = {0}, line = {0};
    ie_error err = {0};
    char chunk[4096];
    for (size_t n; (n = fread(chunk, 1, sizeof chunk, f)) > 0;) ie_buf_add(&src, chunk, n, &err);
    fclose(f);
    for (int i = 0; i < 256; i++) bytes[i] = (char)i, text[i] = (ie_str){bytes + i, 1};
    for (int i = 0; i < N_LONGER; i++) text[256 + i] = (ie_str){longer[i], strlen(longer[i])};
    int32_t end = END;
    gr_vocab *v = gr_vocab_new(text, END + 1, END + 1, &end, 1, false, NULL, &err);
    ie_grammar *g = gr_compile(kind, src.data ? src.data : "", src.len, v, &err);
    if (!g) die(&err);
    for (int c; (c = getchar()) != EOF;) {
        if (c != '\n') {
            char nibbles[2] = {(char)c, (char)getchar()};
            char byte = (char)(hex_digit(nibbles[0]) << 4 | hex_digit(nibbles[1]));
            ie_buf_add(&line, &byte, 1, &err);
            continue;
        }
        int a = feed(g, line.data ? line.data : "", line.len, true), b = feed(g, line.data ? line.data : "", line.len, false);
        if (a != b) printf("single bytes and longer tokens disagree\n"), exit(1);
        puts(a == 2 ? "yes" : a ? "part" : "no");
        line.len = 0;
    }
    ie_grammar_free(g);
    gr_vocab_free(v);
    ie_buf_free(&src);
    ie_buf_free(&line);
    return 0;
}
