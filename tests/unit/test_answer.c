/* An answer's parts: thinking, text and tool calls, for every way of cutting the text into pieces. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gen/grammar.h"
#include "serve/answer.h"

#define CALL(name, args) "<tool_call>\n{\"name\": \"" name "\", \"arguments\": " args "}\n</tool_call>"
#define XML(name, params) "<tool_call>\n<function=" name ">\n" params "</function>\n</tool_call>"
#define PARAM(key, value) "<parameter=" key ">\n" value "\n</parameter>\n"

/* want: the parts, "T:" thinking, "C:" text, "F:" call with its name and arguments, each closed by '|'. */
typedef struct {
    const tool_style *style;
    think_state think;
    const char *text, *want;
} answer_case;

static const char tools_text[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": {\"type\": \"object\", \"properties\": {\"s\": {\"type\": \"string\"}, "
    "\"n\": {\"type\": \"integer\"}, \"b\": {\"type\": \"boolean\"}, \"l\": {\"type\": \"array\"}, \"m\": {\"type\": [\"string\", \"null\"]}, "
    "\"e\": {\"enum\": [\"1\", \"2\"]}, \"any\": {}}}}}]";

#define H &tool_style_hermes
#define X &tool_style_xml

static const answer_case cases[] = {
    /* thinking */
    {NULL, THINK_NEVER, "plain <think>text</think> ", "C:plain <think>text</think> |"},
    {NULL, THINK_MAYBE, "plain text\n", "C:plain text\n|"},
    {NULL, THINK_MAYBE, "  \n", "C:  \n|"},
    {NULL, THINK_MAYBE, "<think>\nwhy\n\nso\n</think>\n\nanswer\n", "T:why\n\nso|C:answer\n|"},
    {NULL, THINK_MAYBE, "\n<think></think>answer", "C:answer|"},
    {NULL, THINK_MAYBE, "<thin", "C:<thin|"},
    {NULL, THINK_MAYBE, "a <think>no</think>", "C:a <think>no</think>|"},
    {NULL, THINK_OPEN, "why </thin </think> a", "T:why </thin|C:a|"},
    {NULL, THINK_OPEN, "never ends\n", "T:never ends|"},
    {NULL, THINK_OPEN, "almost </think", "T:almost </think|"},
    {NULL, THINK_OPEN, "why</think>\n\n", "T:why|"},
    {NULL, THINK_OPEN, "\xC3\xBC\xF0\x9F\x98\x80</think>\xF0\x9F\x98\x80", "T:\xC3\xBC\xF0\x9F\x98\x80|C:\xF0\x9F\x98\x80|"},
    {NULL, THINK_NEVER, CALL("f", "{}"), "C:" CALL("f", "{}") "|"}, /* no tools: it is text */
    /* Hermes */
    {H, THINK_NEVER, CALL("f", "{\"s\": \"x\"}"), "F:f {\"s\": \"x\"}|"},
    {H, THINK_NEVER, "before\n" CALL("f", "{}") "\n" CALL("g.h", "{\"a\": [1, {\"b\": \"}]\"}]}") "\nafter\n", "C:before|F:f {}|F:g.h {\"a\": [1, {\"b\": \"}]\"}]}|C:\n\n\nafter\n|"},
    {H, THINK_NEVER, "\n" CALL("f", "{}") "\n\nafter", "F:f {}|C:after|"},
    {H, THINK_OPEN, "I should call</think>\n\n" CALL("f", "{\"q\": \"\\\"\\\\\"}"), "T:I should call|F:f {\"q\": \"\\\"\\\\\"}|"},
    {H, THINK_NEVER, "<tool_call>{\"arguments\":{\"a\":1},\"name\":\"f\"}</tool_call>", "F:f {\"a\":1}|"},
    {H, THINK_NEVER, "<tool_call>{\"id\": {\"name\": \"x\"}, \"name\": \"f\", \"arguments\": {\"name\": \"y\"}}</tool_call>", "F:f {\"name\": \"y\"}|"},
    {H, THINK_NEVER, "<tool_call>{\"name\": \"f\"}</tool_call>", "F:f {}|"},
    {H, THINK_NEVER, "<tool_call>{\"name\": \"f\", \"arguments\": \"{\\\"a\\\": 1}\"}</tool_call>", "F:f {\"a\": 1}|"},
    {H, THINK_NEVER, "<tool_call>{\"name\": \"f\", \"arguments\": null}</tool_call>", "F:f {}|"},
    {H, THINK_NEVER, "<tool_call>{\"name\": \"f\", \"arguments\": {}}", "F:f {}|"},       /* the closing tag is missing */
    {H, THINK_NEVER, "<tool_call>{\"name\": \"f\", \"arguments\": {}}\n</tool_", "F:f {}|"},
    {H, THINK_NEVER, CALL("f", "{\"s\": \"</tool_call>\"}"), "F:f {\"s\": \"</tool_call>\"}|"},
    /* broken ones stay text */
    {H, THINK_NEVER, "<tool_call>hello</tool_call>", "C:<tool_call>hello</tool_call>|"},
    {H, THINK_NEVER, "a " CALL("f", "{\"s\": }") " b", "C:a " CALL("f", "{\"s\": }") " b|"},
    {H, THINK_NEVER, "<tool_call>{\"name\": \"f\", \"name\": \"g\"}</tool_call>", "C:<tool_call>{\"name\": \"f\", \"name\": \"g\"}</tool_call>|"},
    {H, THINK_NEVER, CALL("f", "[1]"), "C:" CALL("f", "[1]") "|"},
    {H, THINK_NEVER, CALL("f", "5"), "C:" CALL("f", "5") "|"},
    {H, THINK_NEVER, CALL("f", "{}}"), "C:" CALL("f", "{}}") "|"},
    {H, THINK_NEVER, CALL("", "{}"), "C:" CALL("", "{}") "|"},
    {H, THINK_NEVER, "<tool_call>{\"arguments\": {}}</tool_call>", "C:<tool_call>{\"arguments\": {}}</tool_call>|"},
    {H, THINK_NEVER, "<tool_call>{\"name\": \"f\", \"argu", "C:<tool_call>{\"name\": \"f\", \"argu|"},
    {H, THINK_NEVER, "<tool_call>", "C:<tool_call>|"},
    {H, THINK_NEVER, "x <tool_cal", "C:x <tool_cal|"},
    {H, THINK_NEVER, "<tool_call> oh " CALL("f", "{}") "!", "C:<tool_call> oh|F:f {}|C: !|"},
    {H, THINK_NEVER, "<tool_call>{ " CALL("f", "{}"), "C:<tool_call>{|F:f {}|"},
    /* XML */
    {X, THINK_NEVER, XML("f", ""), "F:f {}|"},
    {X, THINK_NEVER, XML("f", PARAM("s", "a \"b\"\nc")), "F:f {\"s\": \"a \\\"b\\\"\\nc\"}|"},
    {X, THINK_NEVER, XML("f", PARAM("s", "12") PARAM("n", "12") PARAM("b", "true") PARAM("l", "[1, {\"x\": null}]")),
     "F:f {\"s\": \"12\", \"n\": 12, \"b\": true, \"l\": [1, {\"x\": null}]}|"},
    {X, THINK_NEVER, XML("f", PARAM("m", "null") PARAM("e", "2") PARAM("any", "3") PARAM("other", "word")),
     "F:f {\"m\": null, \"e\": \"2\", \"any\": 3, \"other\": \"word\"}|"},
    {X, THINK_NEVER, XML("f", PARAM("n", "twelve") PARAM("m", "nul\nl")), "F:f {\"n\": \"twelve\", \"m\": \"nul\\nl\"}|"},
    {X, THINK_NEVER, XML("f", PARAM("s", "\n x \n")), "F:f {\"s\": \"\\n x \\n\"}|"},
    {X, THINK_NEVER, XML("f", "<parameter=s></parameter>\n<parameter=m>\n</parameter>"), "F:f {\"s\": \"\", \"m\": \"\"}|"},
    {X, THINK_NEVER, XML("f", PARAM("s", "</param <parameter=n>\n</para")), "F:f {\"s\": \"</param <parameter=n>\\n</para\"}|"},
    {X, THINK_NEVER, "one\n\n" XML("f", PARAM("s", "\xC3\xBC\xF0\x9F\x98\x80")) "\n" XML("g", PARAM("k", "{\"a\": 1}")),
     "C:one|F:f {\"s\": \"\xC3\xBC\xF0\x9F\x98\x80\"}|F:g {\"k\": {\"a\": 1}}|"},
    {X, THINK_OPEN, "hm\n</think>\n\n" XML("f", ""), "T:hm|F:f {}|"},
    {X, THINK_NEVER, "<tool_call>\n<function=f>\n</function>\n", "F:f {}|"},
    {X, THINK_NEVER, "<tool_call>\n<function=f>\n" PARAM("s", "cut"), "C:<tool_call>\n<function=f>\n" PARAM("s", "cut") "|"},
    {X, THINK_NEVER, "<tool_call>\n<function=f>\n<parameter=s>\ncut", "C:<tool_call>\n<function=f>\n<parameter=s>\ncut|"},
    {X, THINK_NEVER, XML("", ""), "C:" XML("", "") "|"},
    {X, THINK_NEVER, XML("f", "words"), "C:" XML("f", "words") "|"},
    {X, THINK_NEVER, XML("f", PARAM("s", "1") PARAM("s", "2")), "F:f {\"s\": \"1\", \"s\": \"2\"}|"},
    {X, THINK_NEVER, CALL("f", "{}"), "C:" CALL("f", "{}") "|"},
};

typedef struct {
    ie_buf given[64]; /* pieces of each part */
    uint32_t n_first, n_done;
} record;

static void more(void *user, const answer_part *p, uint32_t index, bool first, const char *s, size_t n) {
    record *r = user;
    assert_true(index < 64 && (p->kind == PART_CALL || n > 0));
    assert_int_equal(first, r->n_first == index);
    if (first) assert_int_equal(r->n_done, index); /* the parts before it are done */
    r->n_first += first;
    assert_true(ie_buf_add(&r->given[index], s, n, NULL));
    assert_true(n == 0 || ((unsigned char)s[0] & 0xC0) != 0x80); /* whole characters */
}

static void done(void *user, const answer_part *p, uint32_t index) {
    record *r = user;
    (void)p;
    assert_int_equal(r->n_done, index);
    r->n_done++;
}

static void describe(const answer *a, const record *r, ie_buf *out) {
    uint32_t n;
    const answer_part *p = answer_parts(a, &n);
    assert_int_equal(r->n_first, n);
    assert_int_equal(r->n_done, n);
    assert_true(ie_buf_add(out, "", 0, NULL));
    for (uint32_t i = 0; i < n; i++) {
        static const char *const heads[] = {"T:", "C:", "F:"};
        const ie_buf *given = &r->given[i];
        assert_true(p[i].text.len == given->len && (!given->len || !memcmp(p[i].text.data, given->data, given->len))); /* stream = whole */
        assert_true(ie_buf_printf(out, NULL, "%s", heads[p[i].kind]));
        if (p[i].kind == PART_CALL) assert_true(strlen(p[i].id) > 5 && ie_buf_printf(out, NULL, "%.*s ", (int)p[i].name.len, p[i].name.data));
        assert_true(given->len == 0 || ie_buf_add(out, given->data, given->len, NULL));
        assert_true(ie_buf_add(out, "|", 1, NULL));
    }
}

/* cut(user, i): a piece ends behind byte i. */
static void run_case(const answer_case *k, const json_t *tools, bool sure, bool (*cut)(size_t i, size_t at), size_t at, ie_buf *out) {
    answer_form form = {.think = k->think, .style = k->style, .tools = tools, .sure = sure};
    record r = {0};
    answer *a = answer_new(&form, &(answer_sink){.more = more, .done = done, .user = &r}, NULL);
    assert_non_null(a);
    size_t total = strlen(k->text), from = 0;
    for (size_t i = 0; i < total; i++) {
        bool middle = i + 1 < total && ((unsigned char)k->text[i + 1] & 0xC0) == 0x80; /* pieces are whole characters */
        if (i + 1 < total && (middle || !cut(i, at))) continue;
        answer_add(a, k->text + from, i + 1 - from);
        from = i + 1;
    }
    answer_end(a);
    assert_false(answer_failed(a));
    out->len = 0;
    describe(a, &r, out);
    answer_free(a);
    for (int i = 0; i < 64; i++) ie_buf_free(&r.given[i]);
}

static bool once(size_t i, size_t at) { return i == at; }
static bool always(size_t i, size_t at) { return i + at < SIZE_MAX; }
static bool some(size_t i, size_t at) { return ((i + 1) * 2654435761u * (at + 1) >> 7 & 3) == 0; }

static json_t *make_tools(void) {
    json_t *raw = json_loads(tools_text, 0, NULL), *tools = NULL;
    ie_error err = {0};
    if (tools_read(raw, &tools, &err)) fail_msg("%s", err.msg);
    json_decref(raw);
    return tools;
}

static void every_cut(void **state) {
    (void)state;
    json_t *tools = make_tools();
    ie_buf out = {0};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const answer_case *k = &cases[c];
        size_t n = strlen(k->text);
        for (size_t at = 0; at < n; at++) {
            run_case(k, tools, false, once, at, &out);
            assert_string_equal(out.data, k->want);
            run_case(k, tools, false, some, at, &out);
            assert_string_equal(out.data, k->want);
        }
        run_case(k, tools, false, always, 0, &out);
        assert_string_equal(out.data, k->want);
    }
    ie_buf_free(&out);
    json_decref(tools);
}

/* With a grammar arguments are given as they come: the parts are the same for all cuts, and for whole calls the same as without. */
static void sure_calls(void **state) {
    (void)state;
    json_t *tools = make_tools();
    ie_buf out = {0}, first = {0};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const answer_case *k = &cases[c];
        size_t n = strlen(k->text);
        run_case(k, tools, true, once, n, &first);
        if (strstr(k->want, "F:") && !strstr(k->want, "C:<tool_call>")) assert_string_equal(first.data, k->want);
        for (size_t at = 0; at < n; at++) {
            run_case(k, tools, true, once, at, &out);
            assert_string_equal(out.data, first.data);
        }
        run_case(k, tools, true, always, 0, &out);
        assert_string_equal(out.data, first.data);
    }
    ie_buf_free(&out);
    ie_buf_free(&first);
    json_decref(tools);
}

/* Arguments come in many pieces, not at the end. */
static uint32_t pieces;
static void count(void *user, const answer_part *p, uint32_t index, bool first, const char *s, size_t n) {
    (void)user, (void)index, (void)first, (void)s;
    pieces += p->kind == PART_CALL && n > 0;
}
static void arguments_stream(void **state) {
    (void)state;
    static const struct {
        const tool_style *style;
        const char *text;
    } texts[] = {{H, CALL("f", "{\"s\": \"0123456789\"}")}, {X, XML("f", PARAM("s", "0123456789"))}};
    json_t *tools = make_tools();
    for (size_t i = 0; i < 2; i++) {
        answer_form form = {.style = texts[i].style, .tools = tools, .sure = true};
        answer *a = answer_new(&form, &(answer_sink){.more = count}, NULL);
        pieces = 0;
        for (const char *p = texts[i].text; *p; p++) answer_add(a, p, 1);
        assert_true(pieces > 10);
        answer_end(a);
        answer_free(a);
    }
    json_decref(tools);
}

static void styles(void **state) {
    (void)state;
    static const char hermes[] = "{{- '<tool_call>\\n{\"name\": ' }}", xml[] = "<tool_call>\\n<function=example>", none[] = "{{ messages }}";
    assert_ptr_equal(tool_style_of(hermes, sizeof hermes - 1), H);
    assert_ptr_equal(tool_style_of(xml, sizeof xml - 1), X);
    assert_ptr_equal(tool_style_of(none, sizeof none - 1), H);
}

static void refused(void **state) {
    (void)state;
    static const char *const bad[] = {"{}", "[1]", "[{\"type\": \"web_search\"}]", "[{\"type\": \"function\"}]", "[{\"function\": {\"name\": \"\"}}]",
                                      "[{\"function\": {\"name\": \"a b\"}}]", "[{\"function\": {\"name\": \"a\\u0000\"}}]", "[{\"function\": {\"name\": 1}}]",
                                      "[{\"function\": {\"name\": \"a\", \"parameters\": []}}]",
                                      "[{\"function\": {\"name\": \"a\"}}, {\"function\": {\"name\": \"a\"}}]"};
    ie_error err;
    json_t *tools, *callable;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        json_t *j = json_loads(bad[i], JSON_ALLOW_NUL, NULL);
        assert_non_null(j);
        assert_int_equal(tools_read(j, &tools, &err), IE_E_ARG);
        json_decref(j);
    }
    static const struct {
        const char *text;
        ie_status st;
        tool_choice choice;
        size_t n;
    } choices[] = {
        {"null", IE_OK, TOOL_CHOICE_AUTO, 1}, {"\"auto\"", IE_OK, TOOL_CHOICE_AUTO, 1}, {"\"none\"", IE_OK, TOOL_CHOICE_NONE, 1},
        {"\"required\"", IE_OK, TOOL_CHOICE_REQUIRED, 1}, {"{\"type\": \"function\", \"function\": {\"name\": \"f\"}}", IE_OK, TOOL_CHOICE_ONE, 1},
        {"{\"type\": \"function\", \"name\": \"f\"}", IE_OK, TOOL_CHOICE_ONE, 1},
        {"{\"type\": \"allowed_tools\", \"mode\": \"auto\", \"tools\": [{\"type\": \"function\", \"name\": \"f\"}]}", IE_OK, TOOL_CHOICE_AUTO, 1},
        {"{\"type\": \"function\", \"function\": {\"name\": \"g\"}}", IE_E_ARG, 0, 0}, {"\"maybe\"", IE_E_ARG, 0, 0}, {"5", IE_E_ARG, 0, 0},
        {"{}", IE_E_ARG, 0, 0}, {"{\"type\": \"allowed_tools\", \"mode\": \"auto\", \"tools\": []}", IE_E_ARG, 0, 0},
    };
    tools = make_tools();
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
        tool_choice got;
        json_t *j = json_loads(choices[i].text, JSON_DECODE_ANY, NULL);
        assert_int_equal(tool_choice_read(j, tools, &got, &callable, &err), choices[i].st);
        if (!choices[i].st) {
            assert_int_equal(got, choices[i].choice);
            assert_int_equal(json_array_size(callable), choices[i].n);
        }
        json_decref(callable);
        json_decref(j);
    }
    tool_choice got;
    json_t *j = json_string("required");
    assert_int_equal(tool_choice_read(j, NULL, &got, &callable, &err), IE_E_ARG);
    json_decref(j);
    json_decref(tools);
}

/* ---- grammars ------------------------------------------------------------------------------------------------------------------- */

/* A vocabulary of single bytes. */
static gr_vocab *bytes_vocab(void) {
    static char bytes[256];
    static ie_str text[257];
    const int32_t end = 256;
    for (int i = 0; i < 256; i++) bytes[i] = (char)i, text[i] = (ie_str){bytes + i, 1};
    gr_vocab *v = gr_vocab_new(text, 257, 257, &end, 1, false, NULL, NULL);
    assert_non_null(v);
    return v;
}

static ie_grammar *compose(tool_grammar *g, const gr_vocab *v) {
    ie_error err = {0};
    if (g->failed) fail_msg("%s", g->err->msg);
    ie_grammar *x = gr_compose(g->gbnf.data, g->gbnf.len, g->part, g->n_part, v, &err);
    if (!x) fail_msg("%s in %s", err.msg, g->gbnf.data);
    return x;
}

static bool accepts(ie_grammar *g, const char *s, size_t n) {
    ie_error err;
    ie_matcher *x = ie_matcher_new(g, &err);
    bool ok = true;
    for (size_t i = 0; i < n && ok; i++) ok = ie_matcher_accept(x, (unsigned char)s[i], &err) == IE_OK;
    ok = ok && ie_matcher_complete(x);
    ie_matcher_free(x);
    return ok;
}

static uint32_t next_random(uint64_t *x) {
    *x = *x * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*x >> 33);
}

/* Random texts of the mark's own bytes and another one, against a search. */
static void until(void **state) {
    (void)state;
    static const char *const marks[] = {"</think>", "\n</parameter>", "abab", "aab", "aaa", "x"};
    gr_vocab *v = bytes_vocab();
    uint64_t seed = 1;
    for (size_t m = 0; m < sizeof marks / sizeof *marks; m++) {
        const char *mark = marks[m];
        size_t len = strlen(mark);
        ie_error err = {0};
        tool_grammar once_only = {.err = &err}, never = {.err = &err};
        tool_put(&once_only, "root ::= t\n");
        tool_put_until(&once_only, "t", mark, "\"!\"", false);
        tool_put(&never, "root ::= t\n");
        tool_put_until(&never, "t", mark, NULL, true);
        ie_grammar *a = compose(&once_only, v), *b = compose(&never, v);
        int n_met = 0;
        for (int run = 0; run < 3000; run++) {
            char text[64];
            size_t n = 0;
            while (n < 40) { /* whole beginnings of the mark, so that it is met often */
                size_t k = next_random(&seed) % (len + 1);
                memcpy(text + n, mark, k);
                n += k;
                if (next_random(&seed) % 3 == 0) text[n++] = 'z';
                if (next_random(&seed) % 8 == 0) break;
            }
            if (next_random(&seed) % 2) text[n++] = '!';
            const char *at = memmem(text, n, mark, len);
            bool ends = at && (size_t)(at - text) + len + 1 == n && text[n - 1] == '!';
            n_met += ends;
            assert_int_equal(accepts(a, text, n), ends);
            assert_int_equal(accepts(b, text, n), !at);
        }
        assert_true(n_met > 50);
        ie_grammar_free(a);
        ie_grammar_free(b);
        tool_grammar_free(&once_only);
        tool_grammar_free(&never);
    }
    gr_vocab_free(v);
}

/* A text that the grammar allows, chosen at random byte by byte; it is complete within the budget. */
static void random_text(ie_grammar *g, int32_t budget, uint64_t *seed, ie_buf *out) {
    ie_error err;
    ie_matcher *x = ie_matcher_new(g, &err);
    const uint64_t *mask;
    out->len = 0;
    for (int32_t left = budget; left > 0 && !ie_matcher_done(x); left--) {
        if (ie_matcher_mask(x, left, &mask, &err)) fail_msg("%s after %.*s", err.msg, (int)out->len, out->data);
        int32_t allowed[257], n = 0, printable = 0;
        for (int32_t i = 0; i < 257; i++)
            if (mask[i / 64] >> i % 64 & 1) allowed[n++] = i;
        for (int32_t i = 0; i < n; i++) printable += allowed[i] >= ' ' && allowed[i] < 127;
        int32_t pick = allowed[next_random(seed) % (uint32_t)n];
        while (printable && (pick < ' ' || pick > 126) && next_random(seed) % 16) pick = allowed[next_random(seed) % (uint32_t)n]; /* mostly ASCII */
        if (pick == 256) break;
        char c = (char)pick;
        assert_true(ie_matcher_accept(x, pick, &err) == IE_OK && ie_buf_add(out, &c, 1, NULL));
    }
    assert_true(ie_matcher_complete(x));
    ie_matcher_free(x);
}

static void nothing(void *user, const answer_part *p, uint32_t index, bool first, const char *s, size_t n) { (void)user, (void)p, (void)index, (void)first, (void)s, (void)n; }

static const char many_tools[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"strict\": true, \"parameters\": {\"type\": \"object\", \"properties\": {\"s\": {\"type\": \"string\"}, "
    "\"short\": {\"type\": \"string\", \"minLength\": 1, \"maxLength\": 3}, \"n\": {\"type\": \"integer\", \"minimum\": 3, \"maximum\": 12}, \"e\": {\"enum\": [\"a b\", \"<\"]}, "
    "\"l\": {\"type\": \"array\", \"items\": {\"$ref\": \"#/$defs/pair\"}, \"maxItems\": 2}}, \"required\": [\"s\", \"n\"], \"additionalProperties\": false, "
    "\"$defs\": {\"pair\": {\"type\": \"object\", \"properties\": {\"k\": {\"type\": \"boolean\"}}, \"required\": [\"k\"], \"additionalProperties\": false}}}}}, "
    "{\"type\": \"function\", \"function\": {\"name\": \"ns.g-1\"}}, {\"type\": \"function\", \"function\": {\"name\": \"free\", \"parameters\": {}}}]";

static void check_f(const json_t *args) {
    const json_t *n = json_object_get(args, "n"), *e = json_object_get(args, "e"), *small = json_object_get(args, "short"), *l = json_object_get(args, "l"), *pair;
    size_t i;
    assert_true(json_is_string(json_object_get(args, "s")) && json_is_integer(n) && json_integer_value(n) >= 3 && json_integer_value(n) <= 12);
    assert_true(!e || (json_is_string(e) && (!strcmp(json_string_value(e), "a b") || !strcmp(json_string_value(e), "<"))));
    assert_true(!small || (json_is_string(small) && json_string_length(small) >= 1 && json_string_length(small) <= 12));
    assert_true(!l || (json_is_array(l) && json_array_size(l) <= 2));
    json_array_foreach(l, i, pair) assert_true(json_is_boolean(json_object_get(pair, "k")));
}

/* What the grammar of calls allows is read as calls, with arguments that fit their schema. */
static void grammar_and_reader(void **state) {
    (void)state;
    static const tool_style *const all[] = {H, X};
    gr_vocab *v = bytes_vocab();
    json_t *raw = json_loads(many_tools, 0, NULL), *tools = NULL;
    ie_error err = {0};
    ie_buf text = {0};
    uint64_t seed = 7;
    assert_int_equal(tools_read(raw, &tools, &err), IE_OK);
    for (size_t k = 0; k < 2; k++) {
        tool_grammar g = {.err = &err};
        tool_put(&g, "root ::= ");
        tool_put_literal(&g, all[k]->open, strlen(all[k]->open));
        tool_put(&g, " call\n");
        all[k]->grammar(&g, all[k], tools);
        ie_grammar *x = compose(&g, v);
        int n_f = 0;
        for (int run = 0; run < 150; run++) {
            answer_form form = {.style = all[k], .tools = tools, .sure = true};
            answer *a = answer_new(&form, &(answer_sink){.more = nothing}, NULL);
            uint32_t n;
            random_text(x, 250 + run, &seed, &text);
            answer_add(a, text.data, text.len);
            answer_end(a);
            const answer_part *p = answer_parts(a, &n);
            if (n != 1 || p->kind != PART_CALL) fail_msg("no call: %.*s", (int)text.len, text.data);
            json_t *args = json_loadb(p->text.data, p->text.len, JSON_ALLOW_NUL, NULL);
            assert_true(json_is_object(args));
            assert_non_null(tool_named(tools, p->name.data, p->name.len));
            if (p->name.len == 1) check_f(args), n_f++;
            json_decref(args);
            answer_free(a);
        }
        assert_true(n_f > 10);
        ie_grammar_free(x);
        tool_grammar_free(&g);
    }
    ie_buf_free(&text);
    json_decref(raw);
    json_decref(tools);
    gr_vocab_free(v);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_cut), cmocka_unit_test(sure_calls), cmocka_unit_test(arguments_stream),
                                       cmocka_unit_test(styles), cmocka_unit_test(refused), cmocka_unit_test(until),
                                       cmocka_unit_test(grammar_and_reader)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
