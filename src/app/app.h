/* Shared by ie-run's modes. */
#ifndef IE_APP_H
#define IE_APP_H

#include <jansson.h>

#include "../base.h"
#include "options.h"
#include "start.h"

/* ---- input.c ---- */
ie_status app_read_file(const char *path, ie_buf *out, ie_error *err); /* "-" is standard input; at most 1 GB */
/* Ids separated by commas or white space, each in [0, 2^31). *ids owned by the caller (free). */
ie_status app_parse_ids(const char *text, size_t len, const char *what, int32_t **ids, size_t *n, ie_error *err);
/* The text of -p or -f into *out. */
ie_status app_prompt_text(const ie_run_opts *o, ie_buf *out, ie_error *err);
/* Tokens of text as it is, by --no-bos and --special. */
ie_status app_plain_ids(const ie_model *m, const ie_run_opts *o, const ie_buf *text, int32_t **ids, size_t *n, ie_error *err);
/* Tokens of whatever input was given; text goes through the chat template when use_template and the model has one. */
ie_status app_prompt_ids(const ie_model *m, const ie_run_opts *o, bool use_template, int32_t **ids, size_t *n, ie_error *err);
/* Template text of --chat-template-file, or NULL data when the model's own is used. */
ie_status app_template(const ie_run_opts *o, ie_buf *out, ie_error *err);
bool app_from_text(const ie_run_opts *o);

/* ---- report.c ---- */
/* A progress bar on standard error when it is a terminal; give &bar as the progress user. */
typedef struct {
    bool on;
    int shown; /* columns on screen */
    double last;
} app_bar;
void app_bar_init(app_bar *b, const ie_run_opts *o);
int app_bar_step(void *user, const char *what, double fraction);
void app_bar_clear(app_bar *b);
/* The closing line: prompt tokens/s, ms/token, tokens/s, GB/s of weights. */
void app_print_figures(const ie_model *m, const ie_gen_result *r);
json_t *app_timings(const ie_model *m, const ie_gen_result *r); /* llama-server's field names */
/* A JSON string from bytes: invalid UTF-8 becomes U+FFFD. */
json_t *app_json_text(const char *s, size_t len);
ie_status app_print_json(json_t *obj, ie_error *err); /* takes the reference; one line on standard output */

/* Prints the backend's profile to standard error (nothing unless IE_PROFILE asks for it). */
ie_status app_profile(const ie_model *m, ie_error *err);

ie_status app_help_env(ie_error *err);
ie_status app_list_devices(ie_error *err);

/* ---- interrupt.c ---- */
/* From now on Ctrl-C only sets a flag (ours), or kills again. Clears the flag. */
void app_interrupts(bool ours);
bool app_interrupted(void);
void app_interrupts_clear(void);

/* ---- terminal.c ---- */
/* Takes the terminal for --chat, before the model is loaded: what is typed from here on waits for the next line. Does nothing,
 * and succeeds, where standard input is no terminal. */
ie_status app_term_open(ie_error *err);
bool app_term_is_open(void);
void app_term_close(void); /* gives it back as it was; harmless when not open */
/* The next line; free() releases. NULL at the end of input, on Ctrl-C (app_interrupted), and with err set for want of memory. */
char *app_term_line(ie_error *err);
/* Makes app_term_line look at its flags; to be called by a signal handler after it has set one. */
void app_term_wake(void);

/* ---- modes ---- */
ie_status app_generate(ie_model *m, const ie_run_opts *o, app_bar *bar, ie_error *err);
ie_status app_chat(ie_model *m, const ie_run_opts *o, app_bar *bar, ie_error *err);
ie_status app_ppl(ie_model *m, const ie_run_opts *o, app_bar *bar, ie_error *err);
ie_status app_info(const ie_model *m, const ie_run_opts *o, ie_error *err);
ie_status app_tokenize(const ie_model *m, const ie_run_opts *o, ie_error *err);
ie_status app_detokenize(const ie_model *m, const ie_run_opts *o, ie_error *err);
ie_status app_stop_after(ie_model *m, const ie_run_opts *o, ie_error *err);
ie_status app_render(const ie_model *m, const ie_run_opts *o, ie_error *err);

ie_ctx *app_context(ie_model *m, const ie_run_opts *o, ie_error *err); /* says the length chosen in a line, unless quiet */
ie_sampling app_sampling(const ie_run_opts *o);
/* The grammar that was asked for; NULL without one. ie_grammar_free releases. */
ie_status app_grammar(const ie_model *m, const ie_run_opts *o, ie_grammar **out, ie_error *err);

#endif
