/* ie-run: a GGUF model from the shell. */
#include <locale.h>
#include <stdio.h>
#include <string.h>

#include "../env.h"
#include "../cpu/pool.h"
#include "app.h"
#include "start.h"

static ie_status run(const ie_run_opts *o, ie_error *err) {
    app_bar bar;
    app_bar_init(&bar, o);
    bool vocab_only = o->tokenize || o->detokenize || o->render;
    ie_model_params p = {.backend = o->backend, .threads = o->threads, .device = o->device + 1, .gpu_layers = o->gpu_layers,
                         .hsaco = o->hsaco, .vocab_only = vocab_only, .progress = app_bar_step,
                         .progress_user = &bar};
    uint32_t cores = ie_cores_available();
    if (!o->quiet && o->threads > 0 && (uint32_t)o->threads > cores)
        fprintf(stderr, "threads: %d on %u cores; more threads than cores are slower than as many\n", o->threads, cores);
    ie_status st = o->chat ? app_term_open(err) : IE_OK;
    ie_model *m = st ? NULL : ie_model_open(o->model, &p, err);
    app_bar_clear(&bar);
    if (!m) {
        app_term_close();
        return err->code;
    }
    st = o->info         ? app_info(m, o, err)
         : o->tokenize   ? app_tokenize(m, o, err)
         : o->detokenize ? app_detokenize(m, o, err)
         : o->render     ? app_render(m, o, err)
         : o->ppl        ? app_ppl(m, o, &bar, err)
         : o->chat       ? app_chat(m, o, &bar, err)
         : o->stop_after >= 0 ? app_stop_after(m, o, err)
                         : app_generate(m, o, &bar, err);
    app_term_close(); /* chat has closed it, unless it could not begin */
    app_bar_clear(&bar);
    if (!st) st = app_profile(m, err);
    ie_model_close(m);
    return st;
}

/* Line editing wants to know how characters are encoded: the user's locale, or plain UTF-8. Numbers stay as in C. */
static void set_encoding(void) {
    const char *name = setlocale(LC_CTYPE, "");
    if (!name || !strcmp(name, "C") || !strcmp(name, "POSIX")) setlocale(LC_CTYPE, "C.UTF-8");
}

int main(int argc, char **argv) {
    app_start();
    set_encoding();
    ie_error err = {0};
    ie_run_opts o;
    ie_status st = ie_opts_parse(argc, argv, &o, &err);
    if (!st) {
        if (o.help) ie_opts_help(stdout);
        else if (o.help_env) st = app_help_env(&err);
        else if (o.list_devices) st = app_list_devices(&err);
        else if (o.version) puts("ie-run " IE_VERSION);
        else st = run(&o, &err);
    }
    if (!st) st = app_flush(&err);
    if (st) fprintf(stderr, "ie-run: %s\n", err.msg);
    return st ? 1 : 0;
}
