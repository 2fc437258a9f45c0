/* Grammars for answers that hold calls: GBNF text with schemas as parts. */
#include <stdlib.h>
#include <string.h>

#include "serve.h"
#include "tools.h"

void tool_grammar_free(tool_grammar *g) {
    for (size_t i = 0; i < g->n_part; i++) {
        free((char *)(uintptr_t)g->part[i].rule);
        free((char *)(uintptr_t)g->part[i].text);
    }
    free(g->part);
    ie_buf_free(&g->gbnf);
    *g = (tool_grammar){0};
}

void tool_put(tool_grammar *g, const char *fmt, ...) {
    char text[200];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (!g->failed && !ie_buf_add(&g->gbnf, text, strlen(text), g->err)) g->failed = true;
}

void tool_fail(tool_grammar *g, const char *fmt, ...) {
    char text[300];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (!g->failed) ie_fail(g->err, IE_E_ARG, "%s", text);
    g->failed = true;
}

void tool_put_literal(tool_grammar *g, const char *s, size_t n) {
    tool_put(g, "\"");
    for (size_t i = 0; i < n && !g->failed; i++) {
        unsigned char c = (unsigned char)s[i];
        if (c < 0x20 || c == '"' || c == '\\') tool_put(g, "\\x%02X", c);
        else if (!ie_buf_add(&g->gbnf, s + i, 1, g->err)) g->failed = true;
    }
    tool_put(g, "\"");
}

void tool_put_part(tool_grammar *g, const char *rule, ie_grammar_kind kind, const char *text, size_t len, const char *otherwise) {
    if (g->failed || !ie_grow(&g->part, &g->cap_part, g->n_part + 1, sizeof *g->part, "grammar", g->err)) {
        g->failed = true;
        return;
    }
    char *name = strdup(rule), *copy = malloc(len + 1);
    g->part[g->n_part++] = (ie_grammar_part){.rule = name, .kind = kind, .text = copy, .len = len, .otherwise = otherwise};
    if (!name || !copy) {
        ie_fail(g->err, IE_E_NOMEM, "grammar: no memory");
        g->failed = true;
        return;
    }
    if (len) memcpy(copy, text, len);
    copy[len] = 0;
}

void tool_put_schema(tool_grammar *g, const char *rule, const json_t *schema, const char *otherwise) {
    ie_buf b = {0};
    if (!g->failed && !serve_json_dump(schema, &b, g->err)) g->failed = true;
    if (!g->failed) tool_put_part(g, rule, IE_GRAMMAR_JSON_SCHEMA, b.data, b.len, otherwise);
    ie_buf_free(&b);
}

/* Bytes of `mark` that are matched after its first `have` and then c: the longest of its beginnings that ends there. */
static size_t matched(const char *mark, size_t have, char c) {
    for (size_t k = have + 1; k > 0; k--)
        if (mark[k - 1] == c && !memcmp(mark, mark + have - (k - 1), k - 1)) return k;
    return 0;
}

/* A rule for each number of the mark's bytes that the text ends with: Knuth, Morris and Pratt's automaton. */
void tool_put_until(tool_grammar *g, const char *rule, const char *mark, const char *then, bool may_end) {
    size_t n = strlen(mark);
    tool_put(g, "%s ::= %s-0\n", rule, rule);
    for (size_t i = 0; i < n; i++) {
        tool_put(g, "%s-%zu ::= %s", rule, i, may_end ? "\"\" | " : "");
        for (size_t k = 0; k < n; k++) { /* each different byte of the mark */
            if (memchr(mark, mark[k], k)) continue;
            size_t to = matched(mark, i, mark[k]);
            if (!to || (to == n && !then)) continue;
            tool_put(g, "[\\x%02X] ", (unsigned char)mark[k]);
            if (to == n) tool_put(g, "%s | ", then);
            else tool_put(g, "%s-%zu | ", rule, to);
        }
        tool_put(g, "[^"); /* all else begins anew; the byte that would complete a forbidden mark is none of it */
        for (size_t k = 0; k < n; k++)
            if (!memchr(mark, mark[k], k) && matched(mark, i, mark[k])) tool_put(g, "\\x%02X", (unsigned char)mark[k]);
        tool_put(g, "] %s-0\n", rule);
    }
}
