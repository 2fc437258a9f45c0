/* Grammars of models. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "../model/model.h"
#include "grammar.h"

/* The model's vocabulary as a tree, made by whoever needs it first; two at once make two, and one is dropped. */
static const gr_vocab *vocab_of(const ie_model *m, ie_error *err) {
    struct gr_vocab *_Atomic *at = &((ie_model *)(uintptr_t)m)->constrain;
    gr_vocab *have = atomic_load(at);
    if (have) return have;
    gr_vocab *v = gr_vocab_of(m->tok, m->be ? (int32_t)m->hp.n_vocab : 0, err);
    if (!v || atomic_compare_exchange_strong(at, &have, v)) return v;
    gr_vocab_free(v);
    return have;
}

static const gr_vocab *vocab_or_fail(const ie_model *m, ie_error *err) {
    if (m->tok) return vocab_of(m, err);
    ie_fail(err, IE_E_UNSUPPORTED, "the model file has no vocabulary, which constrained output needs");
    return NULL;
}

ie_grammar *ie_grammar_new(const ie_model *m, ie_grammar_kind kind, const char *text, size_t len, ie_error *err) {
    ie_error local;
    if (!err) err = &local;
    const gr_vocab *v = vocab_or_fail(m, err);
    return v ? gr_compile(kind, text, len, v, err) : NULL;
}

ie_grammar *ie_grammar_compose(const ie_model *m, const char *gbnf, size_t len, const ie_grammar_part *part, size_t n, ie_error *err) {
    ie_error local;
    if (!err) err = &local;
    const gr_vocab *v = vocab_or_fail(m, err);
    return v ? gr_compose(gbnf, len, part, n, v, err) : NULL;
}
