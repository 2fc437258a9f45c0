/* Stop strings: what is handed out, for every way of cutting a text into tokens. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gen/stop.h"

#define MAX_STOPS 3

typedef struct {
    const char *text, *stops[MAX_STOPS], *want;
    int hit;
} stop_case;

static const stop_case cases[] = {
    {"plain text", {0}, "plain text", -1},
    {"one two three", {"two"}, "one ", 0},
    {"near miss: STO, STOp, ST", {"STOP"}, "near miss: STO, STOp, ST", -1},
    {"aaaab", {"aaab"}, "a", 0},
    {"abababac!", {"ababac"}, "ab", 0},
    {"x\n\nUser: y", {"\n\n", "\n\nUser:"}, "x", 0},
    {"xbc", {"c", "bc"}, "x", 1}, /* both end at the same byte: the longer */
    {"gr\xC3\xBC\xC3\x9F \xF0\x9F\x98\x80 dich", {"\xF0\x9F\x98\x80"}, "gr\xC3\xBC\xC3\x9F ", 0},
    {"smile \xF0\x9F\x98\x80", {"\xF0\x9F\x98\x81"}, "smile \xF0\x9F\x98\x80", -1},
    {"cut \xF0\x9F\x98", {"zz"}, "cut ", -1}, /* an unfinished character at the end */
    {"STO", {"STOP", "OPQ"}, "STO", -1},
    {"STOP", {"STOP"}, "", 0},
    {"", {"STOP"}, "", -1},
};

static void append(char *out, size_t *n, const char *s, size_t len) {
    memcpy(out + *n, s, len);
    *n += len;
    assert_true(len == 0 || ((unsigned char)s[0] & 0xC0) != 0x80); /* pieces begin at a character */
}

/* cuts: bit i set = a token ends behind byte i. */
static void run_case(const stop_case *k, uint32_t cuts) {
    ie_stop s;
    ie_stop_text stops[MAX_STOPS];
    size_t n = 0, got = 0, len, total = strlen(k->text);
    char out[256];
    const char *text;
    for (; n < MAX_STOPS && k->stops[n]; n++) stops[n] = (ie_stop_text){k->stops[n], strlen(k->stops[n])};
    assert_int_equal(ie_stop_init(&s, stops, n, NULL), IE_OK);
    for (size_t i = 0, from = 0; i < total; i++) {
        if (i + 1 < total && !(cuts >> (i % 32) & 1)) continue;
        assert_int_equal(ie_stop_add(&s, k->text + from, i + 1 - from, &text, &len, NULL), IE_OK);
        append(out, &got, text, len);
        from = i + 1;
    }
    ie_stop_flush(&s, &text, &len);
    append(out, &got, text, len);
    assert_int_equal(s.hit, k->hit);
    assert_int_equal(got, strlen(k->want));
    assert_memory_equal(out, k->want, got);
    ie_stop_free(&s);
}

static void every_cut(void **state) {
    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        size_t n = strlen(cases[c].text);
        uint32_t all = n < 12 ? 1u << n : 4096u;
        for (uint32_t i = 0; i < all; i++) run_case(&cases[c], n < 12 ? i : i * 2654435761u);
        run_case(&cases[c], UINT32_MAX);
    }
}

/* Against a search in the whole text: random texts and strings over two letters, cut at random. */
static void random_texts(void **state) {
    (void)state;
    uint32_t x = 12345;
    for (int round = 0; round < 20000; round++) {
        char text[33], stop[2][8], out[64];
        const char *piece;
        ie_stop_text t[2];
        ie_stop s;
        for (int i = 0; i < 32; i++) text[i] = (char)('a' + (((x = x * 1664525u + 1013904223u) >> 24) & 1));
        text[32] = 0;
        for (int k = 0; k < 2; k++) {
            size_t len = 1 + (x = x * 1664525u + 1013904223u, x >> 24) % 7;
            for (size_t i = 0; i < len; i++) stop[k][i] = (char)('a' + (((x = x * 1664525u + 1013904223u) >> 24) & 1));
            stop[k][len] = 0;
            t[k] = (ie_stop_text){stop[k], len};
        }
        size_t end = 33, want = 32, got = 0, len;
        for (size_t e = 1; e <= 32 && end == 33; e++) /* the first end of a match; of two, the longer */
            for (int k = 0; k < 2; k++)
                if (e >= t[k].len && !memcmp(text + e - t[k].len, t[k].s, t[k].len) && (end == 33 || e - t[k].len < want))
                    end = e, want = e - t[k].len;
        assert_int_equal(ie_stop_init(&s, t, 2, NULL), IE_OK);
        for (size_t i = 0, n; i < 32; i += n) {
            n = 1 + (x = x * 1664525u + 1013904223u, x >> 24) % 5;
            if (n > 32 - i) n = 32 - i;
            assert_int_equal(ie_stop_add(&s, text + i, n, &piece, &len, NULL), IE_OK);
            append(out, &got, piece, len);
        }
        ie_stop_flush(&s, &piece, &len);
        append(out, &got, piece, len);
        assert_int_equal(got, want);
        assert_memory_equal(out, text, want);
        ie_stop_free(&s);
    }
}

static void refused(void **state) {
    (void)state;
    ie_stop s;
    ie_error err;
    assert_int_equal(ie_stop_init(&s, &(ie_stop_text){"", 0}, 1, &err), IE_E_ARG);
    assert_string_equal(err.msg, "a stop string has 0 bytes, allowed are 1 to 4096");
    ie_stop_text many[IE_STOP_MAX + 1];
    for (size_t i = 0; i <= IE_STOP_MAX; i++) many[i] = (ie_stop_text){"x", 1};
    assert_int_equal(ie_stop_init(&s, many, IE_STOP_MAX + 1, &err), IE_E_ARG);
    ie_stop_free(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_cut), cmocka_unit_test(random_texts), cmocka_unit_test(refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
