/* ie-run: a GGUF model from the shell. */
#include <signal.h>
#include <stdio.h>

#include "../env.h"
#include "app.h"

static ie_status run(const ie_run_opts *o, ie_error *err) {
    app_bar bar;
    app_bar_init(&bar, o);
    bool vocab_only = o->tokenize || o->detokenize || o->render;
    ie_model_params p = {.backend = o->backend, .threads = o->threads, .vocab_only = vocab_only, .progress = app_bar_step,
                         .progress_user = &bar};
    ie_model *m = ie_model_open(o->model, &p, err);
    app_bar_clear(&bar);
    if (!m) return err->code;
    ie_status st = o->info         ? app_info(m, o, err)
                   : o->tokenize   ? app_tokenize(m, o, err)
                   : o->detokenize ? app_detokenize(m, o, err)
                   : o->render     ? app_render(m, o, err)
                   : o->ppl        ? app_ppl(m, o, &bar, err)
                   : o->chat       ? app_chat(m, o, &bar, err)
                                   : app_generate(m, o, &bar, err);
    app_bar_clear(&bar);
    if (!st) st = app_profile(m, err);
    ie_model_close(m);
    return st;
}

int main(int argc, char **argv) {
    ie_error err = {0};
    ie_run_opts o;
    signal(SIGPIPE, SIG_IGN); /* a closed pipe is an error of the next write, not a death */
    ie_status st = ie_opts_parse(argc, argv, &o, &err);
    if (!st) {
        if (o.help) ie_opts_help(stdout);
        else if (o.help_env) st = app_help_env(&err);
        else if (o.version) puts("ie-run " IE_VERSION);
        else st = run(&o, &err);
    }
    if (!st) st = app_flush(&err);
    if (st) fprintf(stderr, "ie-run: %s\n", err.msg);
    return st ? 1 : 0;
}
