/* libFuzzer target of JSON Schemas: the input is one, and its bytes choose the tokens. A completed text has to be JSON. Seeds:
 * tests/fuzz/corpus/schema. */
#include <jansson.h>

#include "grammar_run.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    ie_error err = {0};
    ie_grammar *g = gr_compile(IE_GRAMMAR_JSON_SCHEMA, size ? (const char *)data : "", size, run_vocab(), &err);
    CHECK(g || (err.code != IE_OK && err.msg[0]));
    if (!g) return 0;
    ie_buf text = {0};
    bool done;
    run_grammar(g, data, size, &text, &done);
    if (done) {
        json_error_t je;
        json_t *v = json_loadb(text.data ? text.data : "", text.len, JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, &je);
        CHECK(v || strstr(je.text, "too big") || strstr(je.text, "overflow"));
        json_decref(v);
    }
    ie_buf_free(&text);
    ie_grammar_free(g);
    return 0;
}
