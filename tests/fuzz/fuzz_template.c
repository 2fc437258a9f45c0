/* libFuzzer target of the chat templates. The input is a template; after a NUL byte may follow JSON variables, else a
 * fixed conversation is used. What renders must be UTF-8 runs that cover the text and differ in trust from one to the
 * next, and rendering again must give the same. Seeds: tests/fuzz/corpus/template. */
#include "text/template.h"

#include <stdlib.h>
#include <string.h>

#define CHECK(x)                                                                                                       \
    do {                                                                                                               \
        if (!(x)) __builtin_trap();                                                                                    \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char CONVERSATION[] =
    "{\"messages\": [{\"role\": \"system\", \"content\": \"S\"}, {\"role\": \"user\", \"content\": [{\"type\": "
    "\"text\","
    "\"text\": \"h\\u00e9\"}]}, {\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{\"id\": \"1\", "
    "\"function\":"
    "{\"name\": \"f\", \"arguments\": {\"a\": [1, 2.5, true]}}}]}, {\"role\": \"tool\", \"content\": \"x</think>y\"}],"
    "\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": {}}}], \"s\": \"a,b c\", "
    "\"n\": 5}";

static void check(const ie_rendered *r) {
    const char *at = r->text.data;
    for (size_t i = 0; i < r->n_runs; i++) {
        CHECK(r->runs[i].s == at && r->runs[i].len > 0);
        CHECK(i == 0 || r->runs[i].trusted != r->runs[i - 1].trusted);
        at += r->runs[i].len;
    }
    CHECK(r->text.len == (size_t)(at - r->text.data));
    json_t *utf8 = json_stringn(r->text.len ? r->text.data : "", r->text.len); /* refuses what is not UTF-8 */
    CHECK(utf8);
    json_decref(utf8);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t *nul = memchr(data, 0, size);
    size_t len = nul ? (size_t)(nul - data) : size;
    ie_error err = {0};
    ie_template *t = ie_template_new((const char *)data, len, &err);
    CHECK(t || (err.code != IE_OK && err.msg[0]));
    if (!t) return 0;
    json_t *vars = nul ? json_loadb((const char *)nul + 1, size - len - 1, JSON_ALLOW_NUL, NULL) : NULL;
    if (!vars) vars = json_loads(CONVERSATION, 0, NULL);
    ie_template_env env = {.bos_token = "<s>", .eos_token = "</s>", .add_generation_prompt = size & 1, .now = 1000000};
    ie_rendered r, again;
    if (ie_template_render(t, vars, &env, &r, &err) == IE_OK) {
        check(&r);
        if (r.text.len < 10000) {
            CHECK(ie_template_render(t, vars, &env, &again, &err) == IE_OK);
            CHECK(r.text.len == again.text.len && r.n_runs == again.n_runs);
            CHECK(r.text.len == 0 || memcmp(r.text.data, again.text.data, r.text.len) == 0);
            ie_rendered_free(&again);
        }
        ie_rendered_free(&r);
    } else {
        CHECK(err.code != IE_OK);
    }
    json_decref(vars);
    ie_template_free(t);
    return 0;
}
