/* A grammar from its source. */
#include "grammar.h"

ie_grammar *gr_compile(ie_grammar_kind kind, const char *text, size_t len, const gr_vocab *v, ie_error *err) {
    gr_build b = {.err = err};
    uint32_t root = 0;
    if (!text && kind != IE_GRAMMAR_JSON_OBJECT) gr_fail(&b, IE_E_ARG, "grammar: no text given");
    else if (kind == IE_GRAMMAR_GBNF) root = gr_gbnf(&b, text, len, v);
    else if (kind == IE_GRAMMAR_JSON_SCHEMA) root = gr_schema(&b, text, len);
    else if (kind == IE_GRAMMAR_JSON_OBJECT) root = gr_schema(&b, NULL, 0);
    else gr_fail(&b, IE_E_ARG, "grammar: kind %d is unknown", (int)kind);
    ie_grammar *g = b.failed ? NULL : gr_new(&b, root, v, err);
    gr_build_free(&b);
    return g;
}
