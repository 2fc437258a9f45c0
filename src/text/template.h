/* Chat templates: the subset of Jinja2 that published templates use, with the settings that transformers applies
 * (trim_blocks, lstrip_blocks, loop controls, tojson without HTML escapes, raise_exception, strftime_now, {% generation %}).
 *
 * Every byte of a string value carries a mark: whether it came from the template's own text. Filters, slices and methods
 * keep it. The result is a list of runs, so that only the template's text can become control tokens. */
#ifndef IE_TEMPLATE_H
#define IE_TEMPLATE_H

#include <jansson.h>
#include <time.h>

#include "tokenizer.h"

typedef struct ie_template ie_template;

/* Parses source (len bytes, copied). NULL on failure: the error names line and construct. */
ie_template *ie_template_new(const char *source, size_t len, ie_error *err);
void ie_template_free(ie_template *t);

/* The rendered text with its marks. */
typedef struct {
    ie_buf text;
    ie_text_run *runs; /* pointers into text; adjacent runs differ in trust */
    size_t n_runs;
} ie_rendered;
void ie_rendered_free(ie_rendered *r);

typedef struct {
    const char *bos_token, *eos_token; /* text of these tokens, "" where there is none; trusted */
    bool add_generation_prompt;
    time_t now; /* for strftime_now */
} ie_template_env;

/* Renders with vars, a JSON object whose members become variables of the template ("messages", "tools", "documents",
 * chat_template_kwargs such as enable_thinking ...). Every string from vars is untrusted. Work is bounded: at most
 * 10^7 evaluation steps, 64 MB of output, depth 200; beyond, an error. raise_exception's text becomes the error. */
ie_status ie_template_render(const ie_template *t, const json_t *vars, const ie_template_env *env, ie_rendered *out,
                             ie_error *err);

#endif
