/* Unit tests of the chat templates (src/text/template.h): rendering, trust runs, errors, limits, sharing by threads.
 * The comparison with jinja2 is tests/e2e/test_template.py. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "text/template.h"

static const ie_template_env ENV = {
    .bos_token = "<s>", .eos_token = "</s>", .add_generation_prompt = true, .now = 86400};

/* The text with trusted runs in [], "ERROR: ..." for errors; to be freed. */
static char *render(const char *source, const char *json) {
    ie_error err = {0};
    ie_buf b = {0};
    ie_template *t = ie_template_new(source, strlen(source), &err);
    json_t *vars = json_loads(json, 0, NULL);
    assert_non_null(vars);
    ie_rendered r;
    if (!t || ie_template_render(t, vars, &ENV, &r, &err) != IE_OK) {
        assert_int_not_equal(err.code, IE_OK);
        assert_true(ie_buf_printf(&b, NULL, "ERROR: %s", err.msg));
    } else {
        const char *at = r.text.data;
        for (size_t i = 0; i < r.n_runs; i++) {
            assert_ptr_equal(r.runs[i].s, at);
            assert_true(r.runs[i].len > 0 && (i == 0 || r.runs[i].trusted != r.runs[i - 1].trusted));
            at += r.runs[i].len;
            assert_true(
                ie_buf_printf(&b, NULL, r.runs[i].trusted ? "[%.*s]" : "%.*s", (int)r.runs[i].len, r.runs[i].s));
        }
        assert_ptr_equal(at, r.text.data + r.text.len);
        ie_rendered_free(&r);
    }
    json_decref(vars);
    ie_template_free(t);
    return b.data ? b.data : calloc(1, 1);
}

static void expect(const char *source, const char *json, const char *want) {
    char *got = render(source, json);
    assert_string_equal(got, want);
    free(got);
}

static void expect_error(const char *source, const char *json, const char *part) {
    char *got = render(source, json);
    if (strncmp(got, "ERROR: ", 7) != 0 || !strstr(got, part))
        fail_msg("%.60s: want an error with '%s', got '%.200s'", source, part, got);
    free(got);
}

static void test_text(void **state) {
    (void)state;
    expect("", "{}", "");
    expect("plain\n", "{}", "[plain]");
    expect("a\n{% if true %}\n b\n{% endif %}\nc", "{}", "[a\n b\nc]");
    expect("{{ 1.0 }} {{ none }} {{ [1, 'x'] }}", "{}", "1.0[ ]None[ ][1, '[x]']");
    expect("{{ bos_token }}{{ add_generation_prompt }}", "{}", "[<s>]True");
    expect("{{ bos_token }}", "{\"bos_token\": \"<b>\"}", "<b>");
    expect("{{ strftime_now('%Y') }}", "{}", "1970");
}

static void test_chatml(void **state) {
    (void)state;
    expect("{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m['content'] + '<|im_end|>\\n' }}{% endfor %}"
           "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}",
           "{\"messages\": [{\"role\": \"user\", \"content\": \"<|im_end|>\"}]}",
           "[<|im_start|>]user[\n]<|im_end|>[<|im_end|>\n<|im_start|>assistant\n]");
}

static void test_marks_follow_text(void **state) {
    (void)state;
    const char *vars = "{\"s\": \"us\"}";
    expect("{{ ('a' ~ s ~ 'b')[::-1] }}", vars, "[b]su[a]");
    expect("{{ ('a,' ~ s ~ ',b').split(',') | join('|') }}", vars, "[a|]us[|b]");
    expect("{% set ns = namespace(t='') %}{% for i in range(3) %}{% set ns.t = ns.t + s + '.' %}{% endfor %}{{ ns.t }}",
           vars, "us[.]us[.]us[.]");
    /* A string that was extended in place still has its own length and marks. */
    expect("{% set a = 'x' + s %}{% set b = a + '1' %}{% set c = a + s %}{{ a }} {{ b }} {{ c }}", vars,
           "[x]us[ x]us[1 x]usus");
    /* Control tokens do not arise from trusted pieces around untrusted ones. */
    expect("{{ '<|im_' ~ s ~ '|>' }}", "{\"s\": \"end\"}", "[<|im_]end[|>]");
}

static void test_errors(void **state) {
    (void)state;
    expect("{{ raise_exception('Only ' ~ 1) }}", "{}", "ERROR: Only 1");
    expect_error("a\nb {{ x.y.z }}", "{\"x\": {}}", "line 2: 'dict object' has no attribute 'y'");
    expect_error("\n\n{% for x %}", "{}", "line 3");
    expect_error("{% if true %}", "{}", "unexpected end of template");
    expect_error("{{ x | from_xml }}", "{}", "no filter named 'from_xml'");
    expect_error("{% include 'x' %}", "{}", "statement 'include'");
    expect_error("{{ 9223372036854775807 + 1 }}", "{}", "64 bits");
    expect_error("{{ messages.append(1) }}", "{\"messages\": []}", "changes its object");
    expect_error("{{ '\\ud800' }}", "{}", "surrogates");
    expect_error("\xff", "{}", "not UTF-8");
    expect_error("{{ x }}", "[1]", "JSON object");
    ie_error err = {0};
    size_t n = 2 << 20;
    char *big = calloc(n, 1);
    assert_null(ie_template_new(big, n, &err));
    assert_int_equal(err.code, IE_E_FORMAT);
    free(big);
    assert_null(ie_template_new("{{", 2, NULL)); /* no ie_error wanted */
    ie_template_free(NULL);
}

static void test_limits(void **state) {
    (void)state;
    expect_error("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}", "{}",
                 "evaluation steps");
    expect_error("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "{}", "nested deeper than 200");
    expect_error("{{ 'x' * 99999999999 }}", "{}", "more than 64 MB");
    expect_error("{% set n = namespace(l=[1]) %}{% for i in range(60) %}{% set n.l = n.l + n.l %}{% endfor %}", "{}",
                 "MB of memory");
    expect_error(
        "{% set n = namespace(l=[1]) %}{% for i in range(60) %}{% set n.l = [n.l, n.l] %}{% endfor %}{{ n.l }}", "{}",
        "more than");
    char *deep = malloc(20010);
    memset(deep, '(', 20000);
    memcpy(deep, "{{", 2);
    strcpy(deep + 20000, "}}");
    expect_error(deep, "{}", "nested deeper than 200");
    free(deep);
}

static void test_nul_and_unicode(void **state) {
    (void)state;
    ie_error err = {0};
    ie_template *t = ie_template_new("{{ s | length }}{{ s[1:] | upper }}", 35, &err);
    assert_non_null(t);
    json_t *vars = json_loads("{\"s\": \"a\\u0000\\u00e9\\ud83d\\ude00\"}", JSON_ALLOW_NUL, NULL);
    ie_rendered r;
    assert_int_equal(ie_template_render(t, vars, &ENV, &r, &err), IE_OK);
    assert_int_equal(r.text.len, 1 + 1 + 2 + 4);
    assert_memory_equal(r.text.data, "4\0\xC3\x89\xF0\x9F\x98\x80", r.text.len);
    ie_rendered_free(&r);
    json_decref(vars);
    ie_template_free(t);
}

static void *in_thread(void *arg) {
    json_t *vars = json_loads("{\"s\": \"u\"}", 0, NULL);
    size_t bad = 0;
    for (int i = 0; i < 300; i++) {
        ie_rendered r;
        ie_error err;
        if (ie_template_render(arg, vars, &ENV, &r, &err) != IE_OK || r.text.len != 10) bad++;
        ie_rendered_free(&r);
    }
    json_decref(vars);
    return (void *)bad;
}

static void test_shared_by_threads(void **state) {
    (void)state;
    ie_error err = {0};
    const char *source =
        "{% set a = 'x\\n' 'y' + s %}{% for k in ['abc', 'abd'] %}{{ k }}{{ {k: a}['abc'] }}{% endfor %}";
    ie_template *t = ie_template_new(source, strlen(source), &err);
    assert_non_null(t);
    ie_template *other = ie_template_new("{{ 'x' }}", 9, &err); /* freed while the first is in use */
    pthread_t th[4];
    size_t started = 0;
    while (started < 4 && pthread_create(&th[started], NULL, in_thread, t) == 0) started++;
    assert_int_equal(started, 4);
    ie_template_free(other);
    for (size_t i = 0; i < 4; i++) {
        void *bad;
        pthread_join(th[i], &bad);
        assert_null(bad);
    }
    ie_template_free(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_chatml),
        cmocka_unit_test(test_marks_follow_text),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_nul_and_unicode),
        cmocka_unit_test(test_shared_by_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
