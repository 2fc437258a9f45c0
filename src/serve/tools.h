/* Tool calls in a model's text: how they are written, found and enforced.
 *
 * Each way of writing calls (a *style*) is a row of the table in tools.c and a file of its own (tools_hermes.c, tools_xml.c). A model's
 * chat template shows which one it was trained on. */
#ifndef IE_SERVE_TOOLS_H
#define IE_SERVE_TOOLS_H

#include <jansson.h>

#include "../base.h"

#define TOOL_NAME_MAX 128
#define TOOLS_MAX 512

typedef enum { CALL_MORE, CALL_DONE, CALL_BROKEN } call_state;

/* A call while it is read. Zeroed at its beginning. */
typedef struct {
    const json_t *tools;  /* the request's, for the types of parameters; may be NULL */
    ie_buf name, args;    /* args: the arguments' JSON as far as it is known */
    bool named;           /* name is complete */
    size_t used;          /* CALL_DONE: bytes of the text that belong to the call */
    /* the style's own */
    size_t at, from, mark; /* text is read up to at */
    int phase, depth, member;
    bool in_string, escaped, raw;
    const json_t *schema; /* of the parameter at work */
} tool_call;
void tool_call_free(tool_call *c);

/* A grammar under construction: GBNF with parts that are schemas. */
typedef struct {
    ie_buf gbnf;
    ie_grammar_part *part; /* their texts and rule names are owned */
    size_t n_part, cap_part;
    ie_error *err;
    bool failed;
} tool_grammar;
void tool_grammar_free(tool_grammar *g);
void tool_put(tool_grammar *g, const char *fmt, ...) IE_PRINTF(2, 3);
void tool_fail(tool_grammar *g, const char *fmt, ...) IE_PRINTF(2, 3); /* what the client asks for cannot be guaranteed */
void tool_put_literal(tool_grammar *g, const char *s, size_t n); /* "..." with escapes */
/* Rule `rule` is what kind and text (len bytes, copied) say; otherwise (a literal or NULL): see ie_grammar_part. */
void tool_put_part(tool_grammar *g, const char *rule, ie_grammar_kind kind, const char *text, size_t len, const char *otherwise);
void tool_put_schema(tool_grammar *g, const char *rule, const json_t *schema, const char *otherwise);
/* Rule `rule`: any text up to the first `mark` (printable ASCII and line feeds), and behind it what the elements `then` say. then NULL: the
 * text does not hold the mark. may_end: it can also end without it. */
void tool_put_until(tool_grammar *g, const char *rule, const char *mark, const char *then, bool may_end);

typedef struct tool_style {
    const char *name;
    const char *shown;  /* what a chat template of this style holds */
    const char *open, *close;
    bool objects;       /* the template wants the arguments of earlier calls as objects, not as text */
    /* Reads on: s[0 .. n) is the text behind `open` so far, of which the first c->at bytes were read before. end: no more will
     * come. CALL_DONE when `close` was read, or is all that is missing at the end. */
    call_state (*scan)(tool_call *c, const struct tool_style *style, const char *s, size_t n, bool end);
    /* Writes the rule "call": what may stand behind `open`, `close` included. */
    void (*grammar)(tool_grammar *g, const struct tool_style *style, const json_t *tools);
} tool_style;

extern const tool_style tool_style_hermes, tool_style_xml;

/* The style that a template shows; Hermes' where it shows none. */
const tool_style *tool_style_of(const char *tmpl, size_t len);

/* ---- the tools of a request ----------------------------------------------------------------------------------------------- */

/* Checks "tools" in OpenAI's form. A new reference to them (their list, with "parameters" that always are a schema of an object) in
 * *out, NULL where there are none. */
ie_status tools_read(const json_t *tools, json_t **out, ie_error *err);
const json_t *tool_named(const json_t *tools, const char *name, size_t len); /* its "function" member, NULL */
bool tool_is_strict(const json_t *function);

/* How calls are chosen: forbidden, free, at least one, exactly one. */
typedef enum { TOOL_CHOICE_NONE, TOOL_CHOICE_AUTO, TOOL_CHOICE_REQUIRED, TOOL_CHOICE_ONE } tool_choice;
/* "none", "auto", "required", {"type": "function", "function": {"name": ...}} or OpenAI's allowed_tools; auto where it is absent. *callable: the
 * tools that may be called (new reference). */
ie_status tool_choice_read(const json_t *choice, json_t *tools, tool_choice *out, json_t **callable, ie_error *err);

/* For templates that know no tools: a list of messages that says the same in words (new reference): the tools in the system message,
 * calls and results as text. */
json_t *tools_as_text(const json_t *messages, const json_t *tools, const tool_style *style, ie_error *err);

/* Where s[at ..] stands to `word`: 1 it is there, 0 the text ends inside it, -1 it is not. */
int tool_word(const char *s, size_t n, size_t at, const char *word);
/* Length of the longest end of s that is a beginning of word, shorter than word. */
size_t tool_tail(const char *s, size_t n, const char *word);
size_t tool_blank(const char *s, size_t n, size_t at); /* the first byte from at on that is no white space */
/* What style->scan does at the end of a call: reads `close` behind c->at and white space, sets c->used. */
call_state tool_closed(tool_call *c, const tool_style *style, const char *s, size_t n, bool end);

#endif
