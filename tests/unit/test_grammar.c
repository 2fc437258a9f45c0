/* Constrained output: masks, end tokens, budgets, the way back, named tokens, what is refused. (Which texts grammars and schemas accept is
 * compared with independent implementations in tests/e2e/test_grammar.py.) */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gen/grammar.h"

/* 256 bytes, some longer tokens, a control token (no text), two end tokens; ids past the vocabulary's texts pad the mask. */
static const char *const longer[] = {"true", "false", "\": ", "\", \"", "{\"", "\"}", "ab", "abc", " a", "  ", "\xc3\xa9", "\xa9!", "x\xe2\x82", "\xac", "12"};
enum { N_LONGER = sizeof longer / sizeof *longer, CONTROL = 256 + N_LONGER, END1, END2, N_TOKENS, N_MASK = N_TOKENS + 70 };

static gr_vocab *vocab_with(bool drop_space) {
    static ie_str text[N_TOKENS];
    static char bytes[256];
    for (int i = 0; i < 256; i++) bytes[i] = (char)i, text[i] = (ie_str){bytes + i, 1};
    for (int i = 0; i < N_LONGER; i++) text[256 + i] = (ie_str){longer[i], strlen(longer[i])};
    int32_t end[2] = {END1, END2};
    ie_error err;
    gr_vocab *v = gr_vocab_new(text, N_TOKENS, N_MASK, end, 2, drop_space, NULL, &err);
    assert_non_null(v);
    return v;
}

static gr_vocab *vocab;
static int set_up(void **state) {
    (void)state;
    vocab = vocab_with(false);
    return 0;
}
static int tear_down(void **state) {
    (void)state;
    gr_vocab_free(vocab);
    return 0;
}

static ie_grammar *grammar(ie_grammar_kind kind, const char *text) {
    ie_error err = {0};
    ie_grammar *g = gr_compile(kind, text, strlen(text), vocab, &err);
    if (!g) fail_msg("%s", err.msg);
    return g;
}

static ie_matcher *matcher(ie_grammar *g) {
    ie_error err;
    ie_matcher *x = ie_matcher_new(g, &err);
    assert_non_null(x);
    return x;
}

static bool bit(const uint64_t *mask, int32_t id) { return mask[id / 64] >> id % 64 & 1; }

static const uint64_t *mask_of(ie_matcher *x, int32_t left) {
    ie_error err = {0};
    const uint64_t *mask;
    if (ie_matcher_mask(x, left, &mask, &err)) fail_msg("%s", err.msg);
    return mask;
}

static int count(const uint64_t *mask) {
    int n = 0;
    for (int32_t i = 0; i < N_MASK; i++) n += bit(mask, i);
    return n;
}

static int32_t token(const char *text) {
    if (strlen(text) == 1) return (uint8_t)text[0];
    for (int i = 0; i < N_LONGER; i++)
        if (!strcmp(longer[i], text)) return 256 + i;
    fail_msg("no token '%s'", text);
    return -1;
}

static void feed(ie_matcher *x, const char *text) {
    ie_error err = {0};
    for (; *text; text++)
        if (ie_matcher_accept(x, (uint8_t)*text, &err)) fail_msg("%s", err.msg);
}

/* ---- masks ------------------------------------------------------------------------------------------------------------------ */

static void masks(void **state) {
    (void)state;
    ie_grammar *g = grammar(IE_GRAMMAR_GBNF, "root ::= \"ab\" [x-z]?");
    ie_matcher *x = matcher(g);
    const uint64_t *m = mask_of(x, -1);
    assert_true(bit(m, 'a') && bit(m, token("ab")) && !bit(m, token("abc")));
    assert_int_equal(count(m), 2); /* neither end tokens nor control tokens nor padding */
    assert_false(ie_matcher_complete(x));
    ie_error err;
    assert_int_equal(ie_matcher_accept(x, token("abc"), &err), IE_E_ARG);
    assert_int_equal(ie_matcher_accept(x, CONTROL, &err), IE_E_ARG);
    assert_int_equal(ie_matcher_accept(x, END1, &err), IE_E_ARG);
    assert_int_equal(ie_matcher_accept(x, -1, &err), IE_E_ARG);
    assert_int_equal(ie_matcher_accept(x, N_MASK, &err), IE_E_ARG);
    assert_int_equal(ie_matcher_accept(x, N_MASK - 1, &err), IE_E_ARG);
    assert_int_equal(ie_matcher_accept(x, token("ab"), &err), IE_OK);
    m = mask_of(x, -1);
    assert_true(bit(m, END1) && bit(m, END2) && bit(m, 'x') && bit(m, 'z') && count(m) == 5);
    assert_true(ie_matcher_complete(x) && !ie_matcher_done(x));
    feed(x, "y");
    m = mask_of(x, -1);
    assert_true(bit(m, END1) && count(m) == 2 && ie_matcher_done(x));
    assert_int_equal(ie_matcher_accept(x, END2, &err), IE_OK);
    assert_true(ie_matcher_done(x) && count(mask_of(x, -1)) == 0);
    assert_int_equal(ie_matcher_accept(x, 'a', &err), IE_E_ARG);
    ie_matcher_free(x);
    ie_grammar_free(g);
}

/* Tokens may begin and end inside a character, wherever a whole one fits. */
static void parts_of_characters(void **state) {
    (void)state;
    ie_grammar *g = grammar(IE_GRAMMAR_GBNF, "root ::= [é€]+ \"!\"");
    ie_matcher *x = matcher(g);
    const uint64_t *m = mask_of(x, -1);
    assert_true(bit(m, 0xC3) && bit(m, 0xE2) && bit(m, token("\xc3\xa9")) && count(m) == 3);
    feed(x, "\xc3");
    m = mask_of(x, -1);
    assert_true(bit(m, 0xA9) && bit(m, token("\xa9!")) && count(m) == 2);
    feed(x, "\xa9\xe2\x82");
    m = mask_of(x, -1);
    assert_true(bit(m, 0xAC) && bit(m, token("\xac")) && count(m) == 2);
    ie_matcher_free(x);
    ie_grammar_free(g);
    g = grammar(IE_GRAMMAR_GBNF, "root ::= [^a]");
    x = matcher(g);
    m = mask_of(x, -1);
    assert_true(!bit(m, 0x80) && !bit(m, 0xC0) && !bit(m, 0xC1) && !bit(m, 0xF5) && bit(m, 0xF4) && bit(m, 0xED)); /* UTF-8 only */
    feed(x, "\xed");
    m = mask_of(x, -1);
    assert_true(bit(m, 0x9F) && !bit(m, 0xA0)); /* no surrogates */
    ie_matcher_free(x);
    ie_grammar_free(g);
}

static void named_tokens(void **state) {
    (void)state;
    char text[80];
    snprintf(text, sizeof text, "root ::= <[%d]> \"a\" <[%d]>? \"b\"", CONTROL, token("ab"));
    ie_grammar *g = grammar(IE_GRAMMAR_GBNF, text);
    ie_matcher *x = matcher(g);
    ie_error err;
    const uint64_t *m = mask_of(x, -1);
    assert_true(bit(m, CONTROL) && count(m) == 1);
    assert_int_equal(ie_matcher_accept(x, CONTROL, &err), IE_OK);
    int32_t n;
    assert_int_equal(ie_matcher_shortest(x, &n, &err), IE_OK);
    assert_int_equal(n, 1);
    m = mask_of(x, 2);
    assert_true(bit(m, 'a') && bit(m, token("ab")) && count(m) == 2);
    feed(x, "a");
    m = mask_of(x, -1);
    assert_true(bit(m, 'b') && bit(m, token("ab")) && count(m) == 2);
    ie_matcher_free(x);
    ie_grammar_free(g);
}

/* A vocabulary whose first token loses a leading space. */
static void dropped_space(void **state) {
    (void)state;
    gr_vocab *v = vocab_with(true);
    ie_error err;
    static const char text[] = "root ::= \"a\" \" a\"?";
    ie_grammar *g = gr_compile(IE_GRAMMAR_GBNF, text, sizeof text - 1, v, &err);
    assert_non_null(g);
    ie_matcher *x = matcher(g);
    const uint64_t *m = mask_of(x, -1);
    assert_true(bit(m, 'a') && bit(m, token(" a")) && bit(m, ' ') && !bit(m, token("  ")));
    assert_int_equal(ie_matcher_accept(x, token(" a"), &err), IE_OK);
    assert_true(ie_matcher_complete(x) && !ie_matcher_done(x));
    assert_int_equal(ie_matcher_accept(x, token(" a"), &err), IE_OK);
    assert_true(ie_matcher_done(x));
    ie_matcher_free(x);
    ie_grammar_free(g);
    gr_vocab_free(v);
}

/* ---- budgets ------------------------------------------------------------------------------------------------------------------ */

static uint32_t seed = 1;
static uint32_t rnd(uint32_t n) { return (seed = seed * 1664525u + 1013904223u, seed >> 8) % n; }

static int32_t draw(const uint64_t *mask) {
    int32_t from = (int32_t)rnd(N_MASK);
    for (int32_t i = 0; i < N_MASK; i++)
        if (bit(mask, (from + i) % N_MASK)) return (from + i) % N_MASK;
    fail_msg("nothing is allowed");
    return -1;
}

static void closes_within_the_budget(void **state) {
    (void)state;
    static const char *const schemas[] = {
        "{\"type\":\"object\",\"properties\":{\"abc\":{\"type\":\"string\"},\"n\":{\"type\":\"array\",\"items\":{\"type\":\"integer\"}}},\"required\":[\"abc\",\"n\"]}",
        "{\"type\":\"string\",\"minLength\":5,\"maxLength\":300}",
        "{}",
        "{\"type\":\"array\",\"items\":{\"$ref\":\"#\"},\"minItems\":0}",
        "{\"enum\":[\"abcabcabc\",\"abcabcabd\",true]}",
    };
    for (size_t s = 0; s < sizeof schemas / sizeof *schemas; s++) {
        ie_grammar *g = grammar(IE_GRAMMAR_JSON_SCHEMA, schemas[s]);
        for (int round = 0; round < 60; round++) {
            ie_matcher *x = matcher(g);
            ie_error err = {0};
            int32_t n;
            assert_int_equal(ie_matcher_shortest(x, &n, &err), IE_OK);
            const uint64_t *m;
            if (n > 1) {
                assert_int_equal(ie_matcher_mask(x, n - 1, &m, &err), IE_E_FULL);
                assert_non_null(strstr(err.msg, "more tokens are needed"));
            }
            int32_t left = n + round % 30;
            for (; left > 0 && !ie_matcher_done(x); left--) {
                int32_t id = draw(mask_of(x, left)), need;
                if (ie_matcher_accept(x, id, &err)) fail_msg("%s", err.msg);
                if (round % 3 == 0) { /* a draft that is taken back */
                    assert_int_equal(ie_matcher_back(x, 1, &err), IE_OK);
                    if (ie_matcher_accept(x, id, &err)) fail_msg("%s", err.msg);
                }
                assert_int_equal(ie_matcher_shortest(x, &need, &err), IE_OK);
                assert_true(need <= left - 1);
            }
            assert_true(ie_matcher_complete(x));
            ie_matcher_free(x);
        }
        ie_grammar_free(g);
    }
}

static void bad_budgets(void **state) {
    (void)state;
    ie_grammar *g = grammar(IE_GRAMMAR_JSON_SCHEMA, "{\"type\":\"string\",\"minLength\":1000000000}");
    ie_matcher *x = matcher(g);
    ie_error err;
    const uint64_t *m;
    int32_t n;
    assert_int_equal(ie_matcher_shortest(x, &n, &err), IE_OK);
    assert_int_equal(n, INT32_MAX);
    assert_int_equal(ie_matcher_mask(x, 1000, &m, &err), IE_E_FULL);
    assert_int_equal(ie_matcher_mask(x, 0, &m, &err), IE_E_ARG);
    assert_int_equal(ie_matcher_mask(x, -2, &m, &err), IE_E_ARG);
    assert_int_equal(ie_matcher_mask(x, -1, &m, &err), IE_OK);
    ie_matcher_free(x);
    ie_grammar_free(g);
}

/* ---- the way back ------------------------------------------------------------------------------------------------------------- */

static void back_and_clone(void **state) {
    (void)state;
    ie_grammar *g = grammar(IE_GRAMMAR_GBNF, "root ::= [ab]{3} \"c\" | [ab]{80} \"d\"");
    ie_matcher *x = matcher(g), *y;
    ie_error err;
    uint64_t before[(N_MASK + 63) / 64];
    feed(x, "ab");
    memcpy(before, mask_of(x, -1), sizeof before);
    y = ie_matcher_clone(x, &err);
    assert_non_null(y);
    feed(x, "ac");
    assert_true(ie_matcher_done(x));
    assert_int_equal(ie_matcher_accept(x, END1, &err), IE_OK);
    assert_memory_equal(mask_of(y, -1), before, sizeof before);
    assert_int_equal(ie_matcher_back(x, 6, &err), IE_E_ARG);
    assert_true(ie_matcher_done(x));
    assert_int_equal(ie_matcher_back(x, 3, &err), IE_OK);
    assert_memory_equal(mask_of(x, -1), before, sizeof before);
    assert_int_equal(ie_matcher_back(y, 2, &err), IE_OK); /* the copy has its own way back */
    ie_grammar_free(g);                                    /* matchers keep it */
    for (int i = 0; i < 80; i++) feed(y, "b");
    assert_int_equal(ie_matcher_back(y, 65, &err), IE_E_ARG);
    assert_int_equal(ie_matcher_back(y, 64, &err), IE_OK);
    for (int i = 0; i < 64; i++) feed(y, "a");
    feed(y, "d");
    assert_true(ie_matcher_done(y));
    ie_matcher_free(x);
    ie_matcher_free(y);
}

/* Far more states than are kept: those that matchers are at, or can go back to, survive. */
static void many_states(void **state) {
    (void)state;
    ie_grammar *g = grammar(IE_GRAMMAR_GBNF, "root ::= [ab]* \"a\" [ab]{30} \"c\"");
    ie_matcher *x = matcher(g), *early = matcher(g);
    ie_error err;
    feed(early, "abab");
    uint64_t before[(N_MASK + 63) / 64];
    memcpy(before, mask_of(early, -1), sizeof before);
    size_t peak = 0, states = 0;
    bool dropped = false;
    for (int i = 0; i < 320000; i++) {
        if (ie_matcher_accept(x, rnd(1 << 15) >> 14 ? 'a' : 'b', &err)) fail_msg("%s", err.msg);
        if (gr_bytes(g) > peak) peak = gr_bytes(g);
        dropped = dropped || g->n_state < states;
        states = g->n_state;
    }
    assert_true(dropped && peak < (48u << 20));
    assert_memory_equal(mask_of(early, -1), before, sizeof before);
    assert_int_equal(ie_matcher_back(x, 50, &err), IE_OK);
    feed(x, "abbbbbbbbbbbbbbbbbbbbbbbbbbbbbbc");
    assert_true(ie_matcher_done(x));
    ie_matcher_free(x);
    ie_matcher_free(early);
    ie_grammar_free(g);
}

static void *walks(void *arg) {
    ie_grammar *g = arg;
    ie_error err = {0};
    for (int round = 0; round < 30; round++) {
        ie_matcher *x = ie_matcher_new(g, &err);
        const uint64_t *m;
        for (int i = 0; x && i < 30; i++) {
            if (ie_matcher_mask(x, 60 - i, &m, &err)) return "mask";
            int32_t id = -1;
            for (int32_t k = 0; k < N_MASK && id < 0; k++)
                if (bit(m, (k * 31 + i * 7 + round) % N_MASK)) id = (k * 31 + i * 7 + round) % N_MASK;
            if (id < 0 || ie_matcher_accept(x, id, &err)) return "accept";
            if (ie_matcher_done(x)) break;
        }
        ie_matcher_free(x);
    }
    return NULL;
}

static void threads_share_a_grammar(void **state) {
    (void)state;
    ie_grammar *g = grammar(IE_GRAMMAR_JSON_OBJECT, "");
    pthread_t t[3];
    for (int i = 0; i < 3; i++) assert_int_equal(pthread_create(&t[i], NULL, walks, g), 0);
    for (int i = 0; i < 3; i++) {
        void *bad;
        pthread_join(t[i], &bad);
        assert_null(bad);
    }
    ie_grammar_free(g);
}

/* ---- what is refused ------------------------------------------------------------------------------------------------------------ */

static void refusals(void **state) {
    (void)state;
    static const struct {
        ie_grammar_kind kind;
        ie_status code;
        const char *text, *says;
    } t[] = {
        {IE_GRAMMAR_GBNF, IE_E_FORMAT, "", "no rule 'root'"},
        {IE_GRAMMAR_GBNF, IE_E_FORMAT, "a ::= \"x\"", "no rule 'root'"},
        {IE_GRAMMAR_GBNF, IE_E_FORMAT, "root ::= nowhere", "'nowhere' is used and not defined"},
        {IE_GRAMMAR_GBNF, IE_E_FORMAT, "root ::= root \"a\" | \"b\"", "'root' is left-recursive"},
        {IE_GRAMMAR_GBNF, IE_E_FORMAT, "root ::= x*\nx ::= \"b\"? root", "left-recursive"},
        {IE_GRAMMAR_GBNF, IE_E_FORMAT, "root ::= \"a\" root", "no text fits"},
        {IE_GRAMMAR_GBNF, IE_E_FORMAT, "root ::= \"a\nb\"", "line 1: a text is not closed"},
        {IE_GRAMMAR_GBNF, IE_E_FORMAT, "root ::= \"a\"\nroot ::= \"b\"", "line 2: this rule is defined twice"},
        {IE_GRAMMAR_GBNF, IE_E_FORMAT, "root ::= [z-a]", "ends below its beginning"},
        {IE_GRAMMAR_GBNF, IE_E_FORMAT, "root ::= (\"a\"", "not closed by )"},
        {IE_GRAMMAR_GBNF, IE_E_FORMAT, "root ::= \"a\")", "closes nothing"},
        {IE_GRAMMAR_GBNF, IE_E_FORMAT, "root ::= *", "follows nothing"},
        {IE_GRAMMAR_GBNF, IE_E_FORMAT, "root ::= \"a\"{3,2}", "below its minimum"},
        {IE_GRAMMAR_GBNF, IE_E_FORMAT, "root ::= \"a\"{0,10000000000}", "above 1000000000"},
        {IE_GRAMMAR_GBNF, IE_E_FORMAT, "root ::= \"\\q\"", "unknown escape"},
        {IE_GRAMMAR_GBNF, IE_E_FORMAT, "root ::= \"\\ud800\"", "no Unicode character"},
        {IE_GRAMMAR_GBNF, IE_E_FORMAT, "root ::= \"\xff\"", "invalid UTF-8"},
        {IE_GRAMMAR_GBNF, IE_E_FORMAT, "root ::= <[99999]>", "no such token"},
        {IE_GRAMMAR_GBNF, IE_E_FORMAT, "root := \"a\"", "name ::= alternatives"},
        {IE_GRAMMAR_JSON_SCHEMA, IE_E_FORMAT, "{", "no JSON"},
        {IE_GRAMMAR_JSON_SCHEMA, IE_E_FORMAT, "{\"type\":1,\"type\":2}", "no JSON"},
        {IE_GRAMMAR_JSON_SCHEMA, IE_E_FORMAT, "[]", "JSON object"},
        {IE_GRAMMAR_JSON_SCHEMA, IE_E_FORMAT, "{\"type\":\"strin\"}", "'type'"},
        {IE_GRAMMAR_JSON_SCHEMA, IE_E_FORMAT, "false", "no text fits"},
        {IE_GRAMMAR_JSON_SCHEMA, IE_E_UNSUPPORTED, "{\"not\":{}}", "'not'"},
        {IE_GRAMMAR_JSON_SCHEMA, IE_E_UNSUPPORTED, "{\"properties\":{\"a\":{\"if\":{}}}}", "#/properties/a: keyword 'if'"},
        {IE_GRAMMAR_JSON_SCHEMA, IE_E_UNSUPPORTED, "{\"type\":\"array\",\"uniqueItems\":true}", "'uniqueItems'"},
        {IE_GRAMMAR_JSON_SCHEMA, IE_E_UNSUPPORTED, "{\"type\":\"array\",\"contains\":{}}", "'contains'"},
        {IE_GRAMMAR_JSON_SCHEMA, IE_E_UNSUPPORTED, "{\"oneOf\":[{\"type\":\"integer\"},{\"type\":\"number\"}]}", "branches 0 and 1"},
        {IE_GRAMMAR_JSON_SCHEMA, IE_E_UNSUPPORTED, "{\"type\":\"string\",\"pattern\":\"(?=a)\"}", "'pattern'"},
        {IE_GRAMMAR_JSON_SCHEMA, IE_E_UNSUPPORTED, "{\"type\":\"string\",\"format\":\"iri\"}", "'format'"},
        {IE_GRAMMAR_JSON_SCHEMA, IE_E_UNSUPPORTED, "{\"type\":\"number\",\"multipleOf\":0.1}", "'multipleOf'"},
        {IE_GRAMMAR_JSON_SCHEMA, IE_E_UNSUPPORTED, "{\"$ref\":\"http://x/y\"}", "'$ref'"},
        {IE_GRAMMAR_JSON_SCHEMA, IE_E_FORMAT, "{\"$ref\":\"#/nothing\"}", "no such schema"},
        {IE_GRAMMAR_JSON_SCHEMA, IE_E_FORMAT, "{\"type\":\"integer\",\"minimum\":3,\"maximum\":2}", "no text fits"},
        {IE_GRAMMAR_JSON_SCHEMA, IE_E_FORMAT, "{\"type\":\"string\",\"minLength\":-1}", "'minLength'"},
        {IE_GRAMMAR_JSON_SCHEMA, IE_E_FORMAT, "{\"type\":\"object\",\"required\":[1]}", "'required'"},
    };
    for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
        ie_error err = {0};
        ie_grammar *g = gr_compile(t[i].kind, t[i].text, strlen(t[i].text), vocab, &err);
        if (g) fail_msg("accepted: %s", t[i].text);
        if (err.code != t[i].code || !strstr(err.msg, t[i].says)) fail_msg("%s: %d %s", t[i].text, (int)err.code, err.msg);
    }
}

/* ---- composed grammars -------------------------------------------------------------------------------------------------------- */

static bool whole(ie_grammar *g, const char *text) {
    ie_matcher *x = matcher(g);
    ie_error err;
    bool ok = true;
    for (; *text && ok; text++) ok = ie_matcher_accept(x, (uint8_t)*text, &err) == IE_OK;
    ok = ok && ie_matcher_complete(x);
    ie_matcher_free(x);
    return ok;
}

static ie_grammar *composed(const char *gbnf, const ie_grammar_part *part, size_t n, ie_error *err) {
    return gr_compose(gbnf, strlen(gbnf), part, n, vocab, err);
}

static void composition(void **state) {
    (void)state;
    static const char schema[] = "{\"type\": \"integer\", \"maximum\": 5, \"minimum\": 0}", odd[] = "{\"not\": {}}", inner[] = "root ::= \"r\" x\nx ::= [0-9]";
    ie_error err = {0};
    const ie_grammar_part parts[] = {
        {.rule = "number", .kind = IE_GRAMMAR_JSON_SCHEMA, .text = schema, .len = sizeof schema - 1},
        {.rule = "any", .kind = IE_GRAMMAR_JSON_OBJECT},
        {.rule = "other", .kind = IE_GRAMMAR_GBNF, .text = inner, .len = sizeof inner - 1},
        {.rule = "loose", .kind = IE_GRAMMAR_JSON_SCHEMA, .text = odd, .len = sizeof odd - 1, .otherwise = "{\"type\": \"boolean\"}"},
    };
    ie_grammar *g = composed("root ::= \"<\" x \">\"\nx ::= number | any | other | loose", parts, 4, &err);
    if (!g) fail_msg("%s", err.msg);
    assert_true(whole(g, "<4>") && whole(g, "<{\"a\": [1]}>") && whole(g, "<r7>") && whole(g, "<true>"));
    assert_false(whole(g, "<6>") || whole(g, "<[1]>") || whole(g, "<r>") || whole(g, "<null>") || whole(g, "4"));
    ie_grammar *again = ie_grammar_share(g);
    ie_grammar_free(g);
    assert_true(whole(again, "<4>"));
    ie_grammar_free(again);
    assert_null(composed("root ::= number any", parts, 1, &err)); /* one is missing */
    assert_int_equal(err.code, IE_E_FORMAT);
    assert_null(composed("root ::= \"a\"", parts, 1, &err)); /* nobody calls it */
    assert_int_equal(err.code, IE_E_ARG);
    assert_null(composed("root ::= number\nnumber ::= \"1\"", parts, 1, &err)); /* it is there already */
    assert_int_equal(err.code, IE_E_ARG);
    ie_grammar_part bad = parts[3];
    bad.otherwise = NULL;
    assert_null(composed("root ::= loose", &bad, 1, &err));
    assert_int_equal(err.code, IE_E_UNSUPPORTED);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(masks),
        cmocka_unit_test(parts_of_characters),
        cmocka_unit_test(named_tokens),
        cmocka_unit_test(dropped_space),
        cmocka_unit_test(closes_within_the_budget),
        cmocka_unit_test(bad_budgets),
        cmocka_unit_test(back_and_clone),
        cmocka_unit_test(many_states),
        cmocka_unit_test(threads_share_a_grammar),
        cmocka_unit_test(refusals),
        cmocka_unit_test(composition),
    };
    return cmocka_run_group_tests_name("grammar", tests, set_up, tear_down);
}
