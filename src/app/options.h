/* ie-run's options: one table gives parsing, ranges and --help. */
#ifndef IE_OPTIONS_H
#define IE_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "ie.h"

typedef struct {
    const char *model;
    /* input */
    const char *prompt, *prompt_file, *tokens, *tokens_file, *system, *template_file;
    /* modes */
    bool info, ppl, chat, tokenize, detokenize, help, help_env, version, list_devices;
    const char *render;
    /* generation */
    int32_t n;
    bool n_given;
    bool stop, no_template, special, no_bos;
    double temp, top_p, min_p, repeat_penalty;
    const char *grammar, *json_schema;
    bool json_object;
    int32_t top_k, repeat_last;
    uint64_t seed;
    /* engine */
    const char *backend, *hsaco;
    int32_t threads, ctx, chunk, device, gpu_layers, stop_after;
    /* output */
    const char *dump_logits;
    int32_t ppl_first, ppl_window;
    bool json, quiet;
} ie_run_opts;

/* Fills *o from the command line; on failure *err has one line that names the option, its value and what is allowed. */
ie_status ie_opts_parse(int argc, char **argv, ie_run_opts *o, ie_error *err);
void ie_opts_help(FILE *out);

#endif
