/* Tokenizers on small vocabularies built here: merges, pre-tokenizers, special tokens and trust, byte fall-back,
 * decoding, refusals. tests/e2e/test_tokenizer.py holds real vocabularies against references. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "text/pretok.h"
#include "tok_vocab.h"

static ie_tokenizer *bpe(const char *pre, int missing) {
    ie_error err;
    tv v = {.drop = 2};
    tv_bpe(&v, pre, missing);
    ie_tokenizer *t = tv_build(&v, &err);
    if (!t) fail_msg("%s", err.msg);
    return t;
}
static ie_tokenizer *spm(const char *flag) {
    ie_error err;
    tv v = {.drop = 4};
    tv_spm(&v);
    if (flag) tv_kv_bool(&v, flag, strstr(flag, "add_space_prefix") == NULL);
    ie_tokenizer *t = tv_build(&v, &err);
    if (!t) fail_msg("%s", err.msg);
    return t;
}

/* The tokens' texts, separated by '|'; special ones in full. */
static const char *show(const ie_tokenizer *t, const ie_text_run *runs, size_t n, unsigned flags) {
    static ie_buf out;
    ie_ids ids = {0};
    ie_error err;
    if (ie_tokenizer_encode(t, runs, n, flags, &ids, &err) != IE_OK) fail_msg("%s", err.msg);
    out.len = 0;
    ie_buf_add(&out, "", 0, NULL);
    for (size_t i = 0; i < ids.n; i++) {
        if (i) ie_buf_add(&out, "|", 1, NULL);
        assert_int_equal(ie_tokenizer_decode(t, ids.ids[i], false, IE_DETOK_SPECIAL, &out, &err), IE_OK);
    }
    ie_ids_free(&ids);
    return out.data;
}
static const char *plain(const ie_tokenizer *t, const char *s) {
    return show(t, &(ie_text_run){s, strlen(s), false}, 1, 0);
}
static const char *trusted(const ie_tokenizer *t, const char *s) {
    return show(t, &(ie_text_run){s, strlen(s), true}, 1, 0);
}

static void test_merges(void **state) {
    (void)state;
    ie_tokenizer *t = bpe("gpt-2", -1);
    assert_string_equal(plain(t, ""), "");
    assert_string_equal(plain(t, "hello world"), "hello| world");
    assert_string_equal(plain(t, "hell hel"), "hell| |he|l");
    assert_string_equal(plain(t, "aaaaaaa"), "aaaa|aa|a");
    assert_string_equal(plain(t, "wor"), "w|o|r"); /* merged, but no token: written in bytes */
    assert_string_equal(plain(t, "a\xFF\xC3"), "a|\xFF|\xC3");
    ie_tokenizer_free(t);
}

/* A word above the length where the queue takes over must merge as a shorter one does. */
static void test_long_words_merge_alike(void **state) {
    (void)state;
    ie_tokenizer *t = bpe("gpt-2", -1);
    char text[256], want[512];
    for (size_t n = 1; n < 200; n++) {
        size_t w = 0;
        memset(text, 'a', n);
        text[n] = 0;
        for (size_t left = n; left;) {
            size_t take = left >= 4 ? 4 : left >= 2 ? 2 : 1;
            if (w) want[w++] = '|';
            memset(want + w, 'a', take);
            w += take;
            left -= take;
        }
        want[w] = 0;
        assert_string_equal(plain(t, text), want);
    }
    for (size_t n = 1; n <= 40; n++) {
        text[0] = want[0] = 0;
        for (size_t i = 0; i < n; i++) {
            strcat(text, "hello");
            strcat(want, i ? "|hello" : "hello");
        }
        assert_string_equal(plain(t, text), want);
    }
    ie_tokenizer_free(t);
}

static const char *split(ie_pre_kind kind, const ie_cctab *tab, const char *s) {
    static char out[512];
    size_t n = 0, start = 0, last = 0;
    ie_pre_walk w = {.kind = kind, .tab = tab, .s = (const unsigned char *)s, .end = strlen(s)};
    while (ie_pre_next(&w, &start)) {
        assert_int_equal(start, last);
        assert_true(w.pos > start && w.pos <= w.end);
        if (start) out[n++] = '|';
        memcpy(out + n, s + start, w.pos - start);
        n += w.pos - start;
        last = w.pos;
    }
    assert_int_equal(last, w.end);
    out[n] = 0;
    return out;
}

static void test_pre_tokenizers(void **state) {
    (void)state;
    static const struct {
        ie_pre_kind kind;
        const char *text, *want;
    } CASES[] = {
        {IE_PRE_GPT2, "I'll DON'T x1234  y\n\nz ", "I|'ll| DON|'|T| x|1234| | y|\n|\n|z| "},
        {IE_PRE_GPT2, "a   b!!\t c", "a|  | b|!!|\t| c"},
        {IE_PRE_GPT2, "'s's 's", "'s|'s| '|s"},
        {IE_PRE_GPT2, "e\xCC\x81 x", "e|\xCC\x81| x"},
        {IE_PRE_DIGITS, "a 123 b  4", "a| |1|2|3| b|  |4"},
        {IE_PRE_DIGITS, "\xC2\xBD\xD9\xA3x", "\xC2\xBD|\xD9\xA3|x"},
        {IE_PRE_LLAMA3, "I'LL x12345  \n \n  y!\r\n", "I|'LL| x|123|45|  \n \n| | y|!\r\n"},
        {IE_PRE_LLAMA3, "(abc) \tdef", "(abc|)| |\tdef"},
        {IE_PRE_LLAMA3, "it'\xC5\xBF", "it|'\xC5\xBF"},
        {IE_PRE_LLAMA3, " 12 ++\n\nx", " |12| ++\n\n|x"},
        {IE_PRE_LLAMA3, "e\xCC\x81 x", "e|\xCC\x81| x"},
        {IE_PRE_QWEN2, "a123", "a|1|2|3"},
        {IE_PRE_QWEN35, "e\xCC\x81 \xCC\x81\xCC\x81x \xCC\x81", "e\xCC\x81| \xCC\x81\xCC\x81x| \xCC\x81"},
        {IE_PRE_QWEN35, "\xCC\x81", "\xCC\x81"},
        {IE_PRE_DEFAULT, "a 12345! x", "a| |123|45|!| x"},
        {IE_PRE_DEFAULT,
         "1\xD9\xA3"
         "456x'll+=",
         "1\xD9\xA3|456|x|'|ll|+="},
        {IE_PRE_DEFAULT, "12 `x`", "12| `|x|`"},
        {IE_PRE_GPT2, "a\xFF b\xE2\x82", "a|\xFF| b|\xE2\x82"},
        {IE_PRE_LLAMA3, "\xE3\x80\x80\xE3\x80\x80x", "\xE3\x80\x80|\xE3\x80\x80x"},
    };
    ie_cctab tab;
    assert_true(ie_cctab_init(&tab, NULL));
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
        assert_string_equal(split(CASES[i].kind, &tab, CASES[i].text), CASES[i].want);
    assert_int_equal(ie_cctab_get(&tab, 0x85), IE_CC_SPACE);
    assert_int_equal(ie_cctab_get(&tab, 0x180E), IE_CC_OTHER);
    assert_int_equal(ie_cctab_get(&tab, 0x1C), IE_CC_OTHER);
    assert_int_equal(ie_cctab_get(&tab, 0x20000), IE_CC_LETTER);
    assert_int_equal(ie_cctab_get(&tab, 0x10FFFF), IE_CC_OTHER);
    assert_int_equal(ie_cctab_get(&tab, 0xD800), IE_CC_OTHER);
    ie_cctab_free(&tab);
}

static void test_trust(void **state) {
    (void)state;
    ie_tokenizer *t = bpe("qwen2", -1);
    assert_string_equal(trusted(t, "a<|im_end|>\n<s>"), "a|<|im_end|>|\n|<s>");
    assert_string_equal(plain(t, "<|im_end|>"), "<|||i|m|_|e|n|d|||>");
    assert_string_equal(plain(t, "x<think>y"), "x|<think>|y");
    assert_string_equal(trusted(t, "<<s><s"), "<|<s>|<|s");

    /* A control token must not begin, end or lie in text that is not trusted. */
    const ie_text_run mixed[] = {{"<s>", 3, true},  {"<s>", 3, false}, {"<|im_", 5, true}, {"end|>", 5, false},
                                 {"<thi", 4, true}, {"nk>", 3, false}, {"<", 1, true},     {"s>", 2, true}};
    assert_string_equal(show(t, mixed, 8, 0), "<s>|<|s|>|<|||i|m|_|e|n|d|||>|<think>|<s>");
    /* Runs are parts of one text. */
    const ie_text_run word[] = {{"he", 2, true}, {"", 0, false}, {"llo wo", 6, false}, {"rld", 3, true}};
    assert_string_equal(show(t, word, 4, IE_TOK_ADD_SPECIAL), "hello| world");
    ie_tokenizer_free(t);
}

static void test_leftmost_longest(void **state) {
    (void)state;
    ie_error err;
    tv v = {.drop = 2};
    tv_bpe(&v, "gpt-2", -1);
    static const char *const USER[] = {"ab", "abcd", "bcde", "b", "  ", "    "};
    for (size_t i = 0; i < 6; i++) tv_token(&v, USER[i], IE_TT_USER_DEFINED, 0);
    ie_tokenizer *t = tv_build(&v, &err);
    assert_non_null(t);
    assert_string_equal(plain(t, "abcde"), "abcd|e");
    assert_string_equal(plain(t, "abcx"), "ab|c|x");
    assert_string_equal(plain(t, "xbcdeb"), "x|bcde|b");
    assert_string_equal(plain(t, "x       y"), "x|    |  | |y");
    ie_tokenizer_free(t);
}

/* Texts that keep almost matching a long special token: time must stay linear (the bound is far from tight). */
static void test_long_special_tokens(void **state) {
    (void)state;
    enum { LONG = 1 << 16 };
    ie_error err;
    char *name = calloc(LONG + 2, 1), *text = malloc(2 * LONG);
    assert_true(name && text);
    memset(name, 'a', LONG);
    name[0] = name[LONG] = 'b';
    memset(text, 'a', 2 * LONG);
    tv v = {.drop = 2};
    tv_bpe(&v, "gpt-2", -1);
    tv_token(&v, name, IE_TT_USER_DEFINED, 0);
    name[LONG] = 0;
    tv_token(&v, name + 1, IE_TT_CONTROL, 0);
    ie_tokenizer *t = tv_build(&v, &err);
    assert_non_null(t);
    for (int trust = 0; trust < 2; trust++) {
        ie_ids ids = {0};
        const ie_text_run run = {text, 2 * LONG, trust};
        double start = ie_now();
        assert_int_equal(ie_tokenizer_encode(t, &run, 1, 0, &ids, &err), IE_OK);
        assert_true(ie_now() - start < 5);
        assert_int_equal(ids.n, trust ? 2 + 1 : 2 * LONG / 4); /* LONG - 1 twice, and "aa" */
        ie_ids_free(&ids);
    }
    ie_tokenizer_free(t);
    free(name);
    free(text);
}

static void test_flags_and_ends(void **state) {
    (void)state;
    ie_error err;
    ie_tokenizer *t = bpe("llama-bpe", -1);
    assert_true(ie_tokenizer_add_bos(t)); /* the default of this pre-tokenizer */
    assert_string_equal(show(t, NULL, 0, IE_TOK_ADD_SPECIAL), "<s>");
    assert_string_equal(show(t, &(ie_text_run){"hello", 5, false}, 1, IE_TOK_ADD_SPECIAL), "<s>|hello");
    assert_int_equal(ie_tokenizer_bos(t), BOS);
    assert_int_equal(ie_tokenizer_eos(t), -1);
    assert_int_equal(ie_tokenizer_eot(t), IM_END);
    assert_true(ie_tokenizer_is_end(t, IM_END));
    assert_false(ie_tokenizer_is_end(t, BOS));
    assert_false(ie_tokenizer_is_end(t, -1));
    assert_false(ie_tokenizer_is_end(t, ie_tokenizer_n_vocab(t)));
    assert_int_equal(ie_tokenizer_type(t, THINK), IE_TT_USER_DEFINED);
    assert_int_equal(ie_tokenizer_find(t, "<think>", 7), THINK);
    assert_int_equal(ie_tokenizer_find(t, "wor", 3), -1); /* a symbol of the merges, not a token */
    assert_int_equal(ie_tokenizer_raw(t, THINK).len, 7);
    assert_int_equal(ie_tokenizer_raw(t, -1).len, 0);
    ie_tokenizer_free(t);

    tv v = {.drop = 2};
    tv_bpe(&v, "qwen2", -1);
    tv_kv_u32(&v, "tokenizer.ggml.eos_token_id", 'x');
    tv_kv_bool(&v, "tokenizer.ggml.add_eos_token", true);
    tv_kv_u32(&v, "tokenizer.ggml.eom_token_id", UINT32_MAX);
    t = tv_build(&v, &err);
    assert_non_null(t);
    assert_string_equal(show(t, &(ie_text_run){"hello", 5, false}, 1, IE_TOK_ADD_SPECIAL), "hello|x");
    assert_true(ie_tokenizer_is_end(t, 'x'));
    ie_tokenizer_free(t);
}

static void test_missing_bytes(void **state) {
    (void)state;
    ie_tokenizer *t = bpe("gpt-2", 0x1F);
    assert_string_equal(plain(t, "a\x01"
                                 "b"),
                        "a|\xEF|\xBF|\xBD|b");
    ie_tokenizer_free(t);
    t = bpe("gpt-2", 0xF0); /* not even U+FFFD can be written */
    ie_ids ids = {0};
    ie_error err;
    const ie_text_run run = {"\xF1\xF2z", 3, false};
    assert_int_equal(ie_tokenizer_encode(t, &run, 1, 0, &ids, &err), IE_E_FORMAT);
    assert_string_equal(err.msg, "text: the vocabulary has no token for the byte 0x7A, and none for U+FFFD");
    assert_int_equal(ids.n, 0);
    ie_ids_free(&ids);
    ie_tokenizer_free(t);
}

static void test_sentencepiece(void **state) {
    (void)state;
    ie_tokenizer *t = spm(NULL);
    assert_string_equal(plain(t, ""), "");
    assert_string_equal(plain(t, "hello"), " hello");
    assert_string_equal(plain(t, "hello  hello"), " hello| | hello");
    assert_string_equal(plain(t, "hell"), " |hell"); /* ll, he, then both */
    assert_string_equal(plain(t, "aaaaa"), " |aaa|aa");
    assert_string_equal(plain(t, "\xE4\xB8\xAD\xE6\x96"), " |\xE4\xB8\xAD|\xE6|\x96");
    assert_string_equal(plain(t, "<0x41></s>"), " |<|0|x|4|1|>|<|/|s|>");
    assert_string_equal(trusted(t, "</s>a"), "</s>| |a");
    assert_string_equal(show(t, &(ie_text_run){"a", 1, false}, 1, IE_TOK_ADD_SPECIAL), "<s>| |a");
    assert_int_equal(ie_tokenizer_eos(t), 2);
    assert_true(ie_tokenizer_is_end(t, 2));

    ie_buf out = {0};
    ie_error err;
    int32_t id = ie_tokenizer_find(t, "\xE2\x96\x81hello", 8);
    assert_int_equal(ie_tokenizer_decode(t, id, true, 0, &out, &err), IE_OK);
    assert_int_equal(ie_tokenizer_decode(t, id, false, 0, &out, &err), IE_OK);
    assert_int_equal(ie_tokenizer_decode(t, 1, false, 0, &out, &err), IE_OK);
    assert_int_equal(ie_tokenizer_decode(t, 3 + 'A', false, 0, &out, &err), IE_OK);
    assert_string_equal(out.data, "hello helloA");
    assert_int_equal(ie_tokenizer_decode(t, -1, false, 0, &out, &err), IE_E_ARG);
    assert_int_equal(ie_tokenizer_decode(t, ie_tokenizer_n_vocab(t), false, 0, &out, NULL), IE_E_ARG);
    ie_buf_free(&out);
    ie_tokenizer_free(t);

    t = spm("tokenizer.ggml.add_space_prefix");
    assert_string_equal(plain(t, "hello"), "hello");
    ie_tokenizer_free(t);
    t = spm("tokenizer.ggml.remove_extra_whitespaces");
    assert_string_equal(plain(t, "  hello   hello  "), " hello| hello");
    assert_string_equal(plain(t, "   "), "");
    ie_tokenizer_free(t);
}

static void test_utf8_complete(void **state) {
    (void)state;
    static const struct {
        const char *s;
        size_t want;
    } CASES[] = {{"", 0},
                 {"a", 1},
                 {"a\xC3", 1},
                 {"\xC3\xA9", 2},
                 {"\xE2\x82", 0},
                 {"\xE2\x82\xAC", 3},
                 {"x\xF0\x9F\x91", 1},
                 {"\xF0\x9F\x91\x8D", 4},
                 {"\xF0\x80", 2},
                 {"\x80\x80", 2},
                 {"\xFF", 1},
                 {"\xC0", 1},
                 {"\xED\xA0", 2},
                 {"\xED\x9F", 0},
                 {"\xF4\x90", 2},
                 {"\xF4\x8F", 0},
                 {"\xE0\x9F", 2},
                 {"\xE0", 0},
                 {"\xE2\x28", 2},
                 {"\xF0\x9F\x28", 3}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
        assert_int_equal(ie_utf8_complete(CASES[i].s, strlen(CASES[i].s)), CASES[i].want);
}

/* Builds a vocabulary with one thing wrong, by a number; the message must hold the given words. */
static void refused(int what, const char *words) {
    ie_error err;
    tv v = {.drop = 2};
    tv_bpe(&v, what == 0 ? "klingon" : "gpt-2", -1);
    if (what == 1) v.drop |= 4;
    if (what == 2) v.drop |= 8;
    if (what == 3) tv_merge(&v, "nospace");
    if (what == 4) tv_merge(&v, "x ");
    if (what == 5) tv_kv_u32(&v, "tokenizer.ggml.eos_token_id", 999);
    if (what == 6) tv_token(&v, "odd", (ie_token_type)77, 0);
    if (what == 7) tv_kv_bool(&v, "tokenizer.ggml.add_eos_token", true);
    if (what == 8) tv_kv_str(&v, "tokenizer.ggml.eos_token_id", "two");
    if (what == 9) tv_kv_str(&v, "tokenizer.ggml.add_bos_token", "yes");
    assert_null(tv_build(&v, &err));
    if (!strstr(err.msg, words)) fail_msg("%s", err.msg);
}

static void test_refusals(void **state) {
    (void)state;
    static const char *const WORDS[] = {
        "tokenizer.ggml.pre is \"klingon\": supported are gpt-2, llama-bpe",
        "tokenizer.ggml.merges is missing",
        "tokenizer.ggml.tokens has 0 elements",
        "tokenizer.ggml.merges[16] is \"nospace\"",
        "tokenizer.ggml.merges[16] is \"x \"",
        "tokenizer.ggml.eos_token_id is 999: the vocabulary has 274 tokens",
        "tokenizer.ggml.token_type[274] is 77",
        "tokenizer.ggml.eos_token_id is missing",
        "tokenizer.ggml.eos_token_id",
        "tokenizer.ggml.add_bos_token",
    };
    for (int i = 0; i < 10; i++) refused(i, WORDS[i]);

    ie_error err;
    tv v = {.drop = 2 | 4};
    tv_spm(&v);
    assert_null(tv_build(&v, &err));
    assert_non_null(strstr(err.msg, "tokenizer.ggml.scores is missing"));
    v = (tv){0};
    tv_kv_str(&v, "tokenizer.ggml.model", "bert");
    assert_null(tv_build(&v, &err));
    assert_string_equal(err.msg, "tokenizer.ggml.model is \"bert\": supported are gpt2, llama");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_merges),           cmocka_unit_test(test_long_words_merge_alike),
        cmocka_unit_test(test_pre_tokenizers),   cmocka_unit_test(test_trust),
        cmocka_unit_test(test_leftmost_longest), cmocka_unit_test(test_flags_and_ends),
        cmocka_unit_test(test_missing_bytes),    cmocka_unit_test(test_long_special_tokens),
        cmocka_unit_test(test_sentencepiece),    cmocka_unit_test(test_utf8_complete),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
