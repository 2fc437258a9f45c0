/* A grammar from its sources. */
#include "grammar.h"

#include <string.h>

/* The root of one source's rules; b->failed where it is refused. */
static uint32_t source(gr_build *b, ie_grammar_kind kind, const char *text, size_t len, const gr_vocab *v) {
    if (kind == IE_GRAMMAR_JSON_OBJECT) return gr_schema(b, NULL, 0);
    if (!text) gr_fail(b, IE_E_ARG, "grammar: no text given");
    else if (kind == IE_GRAMMAR_GBNF) return gr_gbnf(b, text, len, v);
    else if (kind == IE_GRAMMAR_JSON_SCHEMA) return gr_schema(b, text, len);
    else gr_fail(b, IE_E_ARG, "grammar: kind %d is unknown", (int)kind);
    return 0;
}

/* The rule of that name among the first n; GR_NONE where there is none, or it has been defined. */
static uint32_t missing(const gr_build *b, uint32_t n, const char *name) {
    size_t len = strlen(name);
    for (uint32_t i = 0; i < n; i++) {
        const gr_rule *r = &b->rule[i];
        if (r->name != GR_NONE && r->name_len == len && !memcmp(b->bytes + r->name, name, len)) return r->defined ? GR_NONE : i;
    }
    return GR_NONE;
}

/* Whether a part compiles by itself, tried on the side: a failed build cannot be gone on with. */
static bool refused(const ie_grammar_part *p, const gr_vocab *v) {
    ie_error none;
    gr_build b = {.err = &none};
    source(&b, p->kind, p->text, p->len, v);
    bool failed = b.failed;
    gr_build_free(&b);
    return failed;
}

ie_grammar *gr_compose(const char *gbnf, size_t len, const ie_grammar_part *part, size_t n, const gr_vocab *v, ie_error *err) {
    gr_build b = {.err = err};
    uint32_t root = source(&b, IE_GRAMMAR_GBNF, gbnf, len, v), n_main = (uint32_t)b.n_rule;
    for (size_t i = 0; i < n && !b.failed; i++) {
        const ie_grammar_part *p = &part[i];
        uint32_t rule = missing(&b, n_main, p->rule);
        if (rule == GR_NONE) gr_fail(&b, IE_E_ARG, "grammar: no rule '%.100s' is missing", p->rule);
        bool other = p->otherwise && refused(p, v);
        uint32_t inner = other ? source(&b, IE_GRAMMAR_JSON_SCHEMA, p->otherwise, strlen(p->otherwise), v) : source(&b, p->kind, p->text, p->len, v);
        gr_elem call = gr_call(inner);
        gr_alt_add(&b, rule, &call, 1);
    }
    ie_grammar *g = b.failed ? NULL : gr_new(&b, root, v, err);
    gr_build_free(&b);
    return g;
}

ie_grammar *gr_compile(ie_grammar_kind kind, const char *text, size_t len, const gr_vocab *v, ie_error *err) {
    gr_build b = {.err = err};
    uint32_t root = source(&b, kind, text, len, v);
    ie_grammar *g = b.failed ? NULL : gr_new(&b, root, v, err);
    gr_build_free(&b);
    return g;
}
