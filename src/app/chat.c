/* --chat: a conversation on the terminal, with line editing and history. Each turn renders the whole conversation; what the
 * context already holds of it is not evaluated again. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app.h"

typedef struct {
    app_bar *bar;
    ie_buf text;
    ie_error err;
} turn;

static int on_token(void *user, int32_t token, const char *bytes, size_t n) {
    turn *t = user;
    (void)token;
    app_bar_clear(t->bar);
    fwrite(bytes, 1, n, stdout);
    return fflush(stdout) != 0 || !ie_buf_add(&t->text, bytes, n, &t->err) || app_interrupted();
}

static int on_progress(void *user, const char *what, double fraction) {
    app_bar_step(((turn *)user)->bar, what, fraction);
    return app_interrupted();
}

static ie_status add_message(json_t *list, const char *role, const char *text, size_t len, ie_error *err) {
    json_t *content = app_json_text(text, len);
    json_t *msg = content ? json_pack("{s:s, s:o}", "role", role, "content", content) : NULL;
    if (!msg || json_array_append_new(list, msg)) return ie_fail(err, IE_E_NOMEM, "chat: no memory for a message");
    return IE_OK;
}

/* Evaluates the conversation and appends the answer to it. */
static ie_status answer(ie_model *m, ie_ctx *c, const ie_run_opts *o, const ie_buf *tmpl, ie_grammar *grammar, json_t *list, app_bar *bar,
                        ie_error *err) {
    json_t *vars = json_pack("{s:O}", "messages", list);
    char *json = json_dumps(vars, JSON_COMPACT);
    json_decref(vars);
    if (!json) return ie_fail(err, IE_E_NOMEM, "chat: no memory for the messages");
    int32_t *ids = NULL;
    size_t n = 0;
    ie_status st = ie_chat_render(m, tmpl->data, tmpl->len, json, strlen(json), 1, NULL, NULL, &ids, &n, err);
    free(json);
    turn t = {.bar = bar};
    ie_gen_params p = {.sampling = app_sampling(o), .grammar = grammar, .max_tokens = o->n, .stop_at_end = 1, .on_token = on_token,
                       .progress = on_progress, .user = &t};
    ie_gen_result r;
    if (!st) st = ie_generate(c, 0, ids, (int32_t)n, &p, &r, NULL, err);
    app_bar_clear(bar);
    bool cancelled = st == IE_E_CANCELLED;
    if (!st || cancelled) {
        putchar('\n');
        if (!st && r.stop == IE_STOP_FULL) fprintf(stderr, "the context of %d positions is full; /new starts over\n", ie_ctx_size(c));
        if (!st && !o->quiet) app_print_figures(m, &r);
        st = cancelled ? IE_OK : add_message(list, "assistant", t.text.data ? t.text.data : "", t.text.len, err);
    }
    ie_buf_free(&t.text);
    ie_free(ids);
    return st;
}

static ie_status start_over(const ie_run_opts *o, json_t *list, ie_error *err) {
    json_array_clear(list);
    return o->system ? add_message(list, "system", o->system, strlen(o->system), err) : IE_OK;
}

/* One line: from the editor on a terminal, plainly otherwise. NULL at the end of input and on Ctrl-C; free() releases. */
static char *read_line(ie_error *err) {
    if (app_term_is_open()) return app_term_line(err);
    char *line = NULL;
    size_t cap = 0;
    ssize_t n = getline(&line, &cap, stdin);
    if (n < 0) {
        free(line);
        return NULL;
    }
    if (n > 0 && line[n - 1] == '\n') line[n - 1] = 0;
    return line;
}

static ie_status converse(ie_model *m, ie_ctx *c, const ie_run_opts *o, const ie_buf *tmpl, ie_grammar *grammar, app_bar *bar, ie_error *err) {
    json_t *list = json_array();
    ie_status st = start_over(o, list, err);
    if (app_term_is_open() && !o->quiet) fputs("Type a message. /new starts over, /quit (or Ctrl-D) ends, Ctrl-C stops an answer.\n", stderr);
    for (char *line; !st; free(line)) {
        app_interrupts_clear(); /* nowhere else: a Ctrl-C between the end of a line and its answer is meant for the answer */
        *err = (ie_error){0};
        line = read_line(err);
        if (!line && err->code) {
            st = err->code;
            break;
        }
        if (!line && app_interrupted()) { /* Ctrl-C at the prompt: the line is dropped */
            fputc('\n', stderr);
            clearerr(stdin);
            continue;
        }
        if (!line) break;
        if (!strcmp(line, "/quit")) {
            free(line);
            break;
        }
        if (!strcmp(line, "/new")) {
            st = start_over(o, list, err);
        } else if (*line) {
            size_t before = json_array_size(list);
            st = add_message(list, "user", line, strlen(line), err);
            if (!st) st = answer(m, c, o, tmpl, grammar, list, bar, err);
            if (st == IE_E_FULL) { /* the conversation goes on without this message */
                fprintf(stderr, "%s (/new starts over)\n", err->msg);
                while (json_array_size(list) > before) json_array_remove(list, json_array_size(list) - 1);
                st = IE_OK;
            }
        }
    }
    json_decref(list);
    return st;
}

ie_status app_chat(ie_model *m, const ie_run_opts *o, app_bar *bar, ie_error *err) {
    if (!o->template_file && !ie_has_chat_template(m))
        return ie_fail(err, IE_E_UNSUPPORTED, "the model has no chat template; give one with --chat-template-file");
    ie_buf tmpl = {0};
    ie_status st = app_template(o, &tmpl, err);
    ie_ctx *c = st ? NULL : app_context(m, o, err);
    if (!st && !c) st = err->code;
    app_interrupts(true);
    ie_grammar *grammar = NULL;
    if (!st) st = app_grammar(m, o, &grammar, err);
    if (!st) st = converse(m, c, o, &tmpl, grammar, bar, err);
    app_term_close();
    app_interrupts(false);
    ie_grammar_free(grammar);
    ie_buf_free(&tmpl);
    ie_ctx_free(c);
    return st;
}
