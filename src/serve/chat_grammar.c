/* The grammar of a chat's answer: thinking, then text, calls, or what the request's own grammar says.
 *
 *     calls are free        text and calls in turn; the grammar completes a call that was begun
 *     calls are forced      calls alone
 *     calls are forbidden   text that does not hold a call's opening tag
 *     response_format       in place of the text: what it says */
#include <stdlib.h>
#include <string.h>

#include "serve.h"

/* ---- composing -------------------------------------------------------------------------------------------------------------- */

/* Rule "calls": one or several, one after the other. */
static void put_calls(tool_grammar *g, const tool_style *style, bool several) {
    tool_put(g, "calls ::= one%s\none ::= ", several ? " (\"\\n\" one)*" : "");
    tool_put_literal(g, style->open, strlen(style->open));
    tool_put(g, " call\n");
}

/* Rule "body": all behind the thinking. */
static void put_body(tool_grammar *g, const serve_params *p, const tool_style *style, tool_choice choice, bool several) {
    bool forced = choice == TOOL_CHOICE_REQUIRED || choice == TOOL_CHOICE_ONE;
    if (forced) tool_put(g, "body ::= calls\n");
    else if (p->constrained) tool_put(g, "body ::= answer%s\n", choice == TOOL_CHOICE_AUTO ? " | calls" : "");
    else if (choice == TOOL_CHOICE_AUTO) tool_put_until(g, "body", style->open, several ? "call body" : "call", true);
    else tool_put_until(g, "body", style->open, NULL, true);
    if (forced || (p->constrained && choice == TOOL_CHOICE_AUTO)) put_calls(g, style, several);
    if (p->constrained && !forced) tool_put_part(g, "answer", p->constraint_kind, p->constraint.data, p->constraint.len, NULL);
}

static void compose(tool_grammar *g, const serve_params *p, const tool_style *style, tool_choice choice, const json_t *callable, bool several) {
    static const char *const roots[] = {
        [THINK_NEVER] = "root ::= body\n", [THINK_MAYBE] = "root ::= \"<think>\" think | body\n", [THINK_OPEN] = "root ::= think\n"};
    bool forced = choice == TOOL_CHOICE_REQUIRED || choice == TOOL_CHOICE_ONE;
    tool_put(g, "%s", roots[p->form.think]);
    if (p->form.think != THINK_NEVER) tool_put_until(g, "think", "</think>", "\"\\n\"{0,2} body", !forced && !p->constrained);
    put_body(g, p, style, choice, several);
    if (choice != TOOL_CHOICE_NONE) style->grammar(g, style, callable);
}

/* ---- the last few -------------------------------------------------------------------------------------------------------------- */

static bool key_of(const tool_grammar *g, ie_buf *key, ie_error *err) {
    bool ok = ie_buf_add(key, g->gbnf.data, g->gbnf.len, err);
    for (size_t i = 0; i < g->n_part && ok; i++) {
        const ie_grammar_part *p = &g->part[i];
        ok = ie_buf_printf(key, err, "\n%s %d %zu %s ", p->rule, (int)p->kind, p->len, p->otherwise ? p->otherwise : "") && ie_buf_add(key, p->text, p->len, err);
    }
    return ok;
}

/* A new share of the kept grammar; NULL where it is not there. */
static ie_grammar *find(serve_grammars *k, const ie_buf *key) {
    ie_grammar *g = NULL;
    pthread_mutex_lock(&k->lock);
    for (size_t i = 0; i < SERVE_GRAMMARS && !g; i++) {
        if (!k->row[i].g || k->row[i].key.len != key->len || memcmp(k->row[i].key.data, key->data, key->len)) continue;
        k->row[i].used = ++k->clock;
        g = ie_grammar_share(k->row[i].g);
    }
    pthread_mutex_unlock(&k->lock);
    return g;
}

/* Keeps a share in place of the one not used for longest. Takes the key. */
static void keep(serve_grammars *k, ie_buf *key, ie_grammar *g) {
    pthread_mutex_lock(&k->lock);
    size_t old = 0;
    for (size_t i = 1; i < SERVE_GRAMMARS; i++)
        if (k->row[i].used < k->row[old].used) old = i;
    ie_grammar *gone = k->row[old].g;
    ie_buf_free(&k->row[old].key);
    k->row[old].key = *key;
    k->row[old].g = ie_grammar_share(g);
    k->row[old].used = ++k->clock;
    pthread_mutex_unlock(&k->lock);
    ie_grammar_free(gone);
}

void serve_grammars_free(serve *s) {
    for (size_t i = 0; i < SERVE_GRAMMARS; i++) {
        ie_grammar_free(s->grammars.row[i].g);
        ie_buf_free(&s->grammars.row[i].key);
    }
}

ie_status serve_chat_grammar(serve *s, serve_params *p, const tool_style *style, tool_choice choice, const json_t *callable, bool several, ie_error *err) {
    if (!p->tools && !p->constrained) return IE_OK;
    tool_grammar g = {.err = err};
    ie_buf key = {0};
    compose(&g, p, style, choice, callable, several && choice != TOOL_CHOICE_ONE);
    bool ok = !g.failed && key_of(&g, &key, err);
    if (ok && !(p->job.grammar = find(&s->grammars, &key))) {
        p->job.grammar = ie_grammar_compose(s->model, g.gbnf.data, g.gbnf.len, g.part, g.n_part, err);
        ok = p->job.grammar != NULL;
        if (ok) keep(&s->grammars, &key, p->job.grammar), key = (ie_buf){0};
        else if (err->code == IE_E_UNSUPPORTED) err->code = IE_E_ARG; /* the client's to change */
    }
    tool_grammar_free(&g);
    ie_buf_free(&key);
    p->form.sure = ok && choice != TOOL_CHOICE_NONE;
    return ok ? IE_OK : err->code;
}
