/* libFuzzer target of GBNF grammars: the input is one, and its bytes choose the tokens. Seeds: tests/fuzz/corpus/grammar. */
#include "grammar_run.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    ie_error err = {0};
    ie_grammar *g = gr_compile(IE_GRAMMAR_GBNF, size ? (const char *)data : "", size, run_vocab(), &err);
    CHECK(g || (err.code != IE_OK && err.msg[0]));
    if (!g) return 0;
    ie_buf text = {0};
    bool done;
    run_grammar(g, data, size, &text, &done);
    ie_buf_free(&text);
    ie_grammar_free(g);
    return 0;
}
