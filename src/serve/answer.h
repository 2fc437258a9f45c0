/* What a model's text consists of, as it streams: thinking, text, calls.
 *
 *     answer *a = answer_new(&form, &sink, err);   each piece of text: answer_add(a, s, n);   at the end: answer_end(a);   answer_free(a)
 *
 * The parts depend on the text alone, not on how it is cut. */
#ifndef IE_SERVE_ANSWER_H
#define IE_SERVE_ANSWER_H

#include "tools.h"

typedef enum { PART_THINKING, PART_TEXT, PART_CALL } part_kind;

typedef struct {
    part_kind kind;
    char id[64];   /* of a call */
    ie_buf name;   /* of a call */
    ie_buf text;   /* so far; of a call: its arguments, as JSON */
} answer_part;

typedef enum {
    THINK_NEVER,  /* all is text */
    THINK_MAYBE,  /* it may begin with <think> */
    THINK_OPEN,   /* the prompt has opened <think> already */
} think_state;

typedef struct {
    think_state think;
    const tool_style *style; /* NULL: calls are not looked for */
    const json_t *tools;     /* may be NULL */
    const char *call_id;     /* what the ids of calls begin with; NULL: "call_" */
    bool sure;               /* calls are well-formed (a grammar sees to it): arguments are given as they come. Otherwise a call is given when it
                                is complete, and one that is broken stays text */
} answer_form;

typedef struct {
    /* More of part `index`; first: its first piece (of a call: n may be 0). */
    void (*more)(void *user, const answer_part *p, uint32_t index, bool first, const char *s, size_t n);
    void (*done)(void *user, const answer_part *p, uint32_t index); /* NULL is allowed */
    void *user;
} answer_sink;

typedef struct answer answer;
answer *answer_new(const answer_form *form, const answer_sink *sink, ie_error *err); /* form and sink are copied; tools stay the caller's */
void answer_free(answer *a);
void answer_add(answer *a, const char *s, size_t n); /* whole characters */
void answer_end(answer *a);
/* The parts so far; n of them. */
const answer_part *answer_parts(const answer *a, uint32_t *n);
bool answer_thinks(const answer *a); /* the text is inside the thinking */
bool answer_has_calls(const answer *a);
bool answer_failed(const answer *a); /* no memory: parts are missing */

#endif
