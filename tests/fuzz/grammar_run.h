/* What both grammar targets do with a grammar: follow it by tokens that its masks allow, chosen by the input's bytes, with a budget, and
 * check what has to hold. The vocabulary has all bytes, some longer tokens and an end token. */
#ifndef IE_GRAMMAR_RUN_H
#define IE_GRAMMAR_RUN_H

#include <stdlib.h>
#include <string.h>

#include "gen/grammar.h"

#define CHECK(x)                                                                                                       \
    do {                                                                                                               \
        if (!(x)) __builtin_trap();                                                                                    \
    } while (0)

enum { RUN_LONGER = 16, RUN_END = 256 + RUN_LONGER, RUN_TOKENS = 80 };

static inline const gr_vocab *run_vocab(void) {
    static const char *const longer[RUN_LONGER] = {"true", "null", "\": \"", "\", \"", "{\"", "\"}", "[[", "ab", "aaaa", "12", "00", "\xc3\xa9", "\xa9x", "  ", ", ", "e+"};
    static gr_vocab *v;
    static ie_str text[RUN_END + 1];
    static char bytes[256];
    if (v) return v;
    for (int i = 0; i < 256; i++) bytes[i] = (char)i, text[i] = (ie_str){bytes + i, 1};
    for (int i = 0; i < RUN_LONGER; i++) text[256 + i] = (ie_str){longer[i], strlen(longer[i])};
    int32_t end = RUN_END;
    v = gr_vocab_new(text, RUN_END + 1, RUN_END + 1, &end, 1, false, NULL, NULL);
    CHECK(v);
    return v;
}

/* Follows g; false where the grammar was given up for its ambiguity. Afterwards *done says whether the text was completed, which it
 * has to be when the budget sufficed at the beginning; out receives the text. */
static inline bool run_grammar(ie_grammar *g, const uint8_t *choice, size_t n, ie_buf *out, bool *done) {
    const gr_vocab *v = run_vocab();
    ie_error err = {0};
    ie_matcher *x = ie_matcher_new(g, &err);
    CHECK(x);
    int32_t shortest = 0;
    ie_status st = ie_matcher_shortest(x, &shortest, &err);
    int32_t left = RUN_TOKENS;
    bool can = st == IE_OK && shortest <= left;
    for (size_t k = 0; can && left > 0; k++, left--) {
        const uint64_t *mask;
        st = ie_matcher_mask(x, left, &mask, &err);
        CHECK(st == IE_OK || st == IE_E_UNSUPPORTED);
        if (st) break;
        int32_t start = (int32_t)((n ? choice[k % n] : 0) * 7u + k) % (RUN_END + 1), id = -1;
        for (int32_t i = 0; i <= RUN_END && id < 0; i++) {
            int32_t t = (start + i) % (RUN_END + 1);
            if (mask[t / 64] >> t % 64 & 1) id = t;
        }
        CHECK(id >= 0);
        st = ie_matcher_accept(x, id, &err);
        CHECK(st == IE_OK || st == IE_E_UNSUPPORTED);
        if (st || id == RUN_END) break;
        CHECK(ie_buf_add(out, v->text[id].s, (size_t)v->text[id].len, NULL));
        if (k % 5 == 4) { /* back and forth again */
            CHECK(ie_matcher_back(x, 1, &err) == IE_OK);
            st = ie_matcher_accept(x, id, &err);
            CHECK(st == IE_OK || st == IE_E_UNSUPPORTED);
            if (st) break;
        }
        if (ie_matcher_done(x)) break;
    }
    *done = can && !st;
    if (*done) CHECK(ie_matcher_complete(x));
    ie_matcher_free(x);
    return st == IE_OK;
}

#endif
