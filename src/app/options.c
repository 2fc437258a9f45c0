#include "options.h"

#include <stddef.h>
#include <string.h>

#include "opt.h"

#define AT(field) offsetof(ie_run_opts, field)
#define BIG 1e9

static const option table[] = {
    {O_GROUP, "Input", 0, 0, 0, 0, 0, 0},
    {O_STR, "--prompt", "-p", "TEXT", AT(prompt), 0, 0, "a prompt; goes through the model's chat template when it has one"},
    {O_STR, "--file", "-f", "FILE", AT(prompt_file), 0, 0, "read the prompt from a file (- is standard input)"},
    {O_STR, "--tokens", 0, "IDS", AT(tokens), 0, 0, "a prompt as token ids, separated by commas or spaces"},
    {O_STR, "--tokens-file", 0, "FILE", AT(tokens_file), 0, 0, "read token ids from a file"},
    {O_STR, "--system", 0, "TEXT", AT(system), 0, 0, "system message for -p, -f and --chat"},
    {O_FLAG, "--no-template", 0, 0, AT(no_template), 0, 0, "take the prompt as plain text, without the chat template"},
    {O_STR, "--chat-template-file", 0, "FILE", AT(template_file), 0, 0, "use this chat template instead of the model's"},
    {O_FLAG, "--special", 0, 0, AT(special), 0, 0, "special tokens written out in plain text become control tokens (default: they stay text)"},
    {O_FLAG, "--no-bos", 0, 0, AT(no_bos), 0, 0, "plain text gets no begin-of-text or end-of-text token, whatever the vocabulary asks for"},
    {O_GROUP, "What to do (default: generate)", 0, 0, 0, 0, 0, 0},
    {O_FLAG, "--chat", 0, 0, AT(chat), 0, 0, "talk with the model; Ctrl-C stops an answer, Ctrl-D ends"},
    {O_FLAG, "--info", 0, 0, AT(info), 0, 0, "print what the model is and the memory it needs"},
    {O_FLAG, "--ppl", 0, 0, AT(ppl), 0, 0, "perplexity of the prompt instead of generating"},
    {O_INT, "--ppl-first", 0, "N", AT(ppl_first), 0, BIG, "score the predictions made from position N on (default 0)"},
    {O_INT, "--ppl-window", 0, "N", AT(ppl_window), 2, BIG, "cut the text into windows of N tokens, each evaluated alone"},
    {O_FLAG, "--tokenize", 0, 0, AT(tokenize), 0, 0, "print the token ids of -p or -f (a vocabulary-only file suffices)"},
    {O_FLAG, "--detokenize", 0, 0, AT(detokenize), 0, 0, "print the text of the ids in -p, -f, --tokens or --tokens-file"},
    {O_STR, "--render", 0, "FILE", AT(render), 0, 0, "render a JSON file (messages, tools, ...) through the chat template"},
    {O_GROUP, "Generation", 0, 0, 0, 0, 0, 0},
    {O_INT, "--n", "-n", "N", AT(n), -1, BIG, "tokens to generate; -1: until the text ends (default: 32 for ids, -1 for text)"},
    {O_FLAG, "--stop", 0, 0, AT(stop), 0, 0, "with token ids: stop at end-of-text and end-of-turn tokens (text always does)"},
    {O_FLOAT, "--temp", 0, "T", AT(temp), 0, 1e6, "temperature (default 0: always the likeliest token)"},
    {O_INT, "--top-k", 0, "K", AT(top_k), 0, BIG, "sample from the K likeliest tokens (default 0: no limit)"},
    {O_FLOAT, "--top-p", 0, "P", AT(top_p), 1e-9, 1, "sample from the likeliest tokens that reach probability P (default 1)"},
    {O_FLOAT, "--min-p", 0, "P", AT(min_p), 0, 1, "drop tokens below P times the best one's probability (default 0)"},
    {O_FLOAT, "--repeat-penalty", 0, "X", AT(repeat_penalty), 1e-3, 1e3, "penalty on tokens seen lately (default 1: none)"},
    {O_INT, "--repeat-last", 0, "N", AT(repeat_last), 0, BIG, "how many tokens the penalty looks back (default 64)"},
    {O_U64, "--seed", 0, "S", AT(seed), 0, 0, "seed of the random numbers (default 0)"},
    {O_STR, "--json-schema", 0, "SCHEMA", AT(json_schema), 0, 0, "the output is JSON that fits this schema: the schema itself or a file"},
    {O_FLAG, "--json-object", 0, 0, AT(json_object), 0, 0, "the output is a JSON object"},
    {O_STR, "--grammar", 0, "GBNF", AT(grammar), 0, 0, "the output follows a grammar in GBNF: the grammar itself or a file"},
    {O_GROUP, "Engine", 0, 0, 0, 0, 0, 0},
    {O_STR, "--backend", 0, "NAME", AT(backend), 0, 0, "auto, cpu, gpu, hip or cuda (default auto: a GPU that works, else the CPU)"},
    {O_INT, "--device", 0, "N", AT(device), 0, 255, "number of the GPU (default: the first that can be used)"},
    {O_INT, "--gpu-layers", 0, "N", AT(gpu_layers), 1, 1024, "the first N layers on the GPU, the rest on the CPU (default: all on the GPU)"},
    {O_STR, "--hsaco", 0, "FILE", AT(hsaco), 0, 0, "GPU code to use instead of the built-in (a code object, or PTX)"},
    {O_FLAG, "--list-devices", 0, 0, AT(list_devices), 0, 0, "list the GPUs and say which can be used"},
    {O_INT, "--threads", "-t", "N", AT(threads), 1, 1024, "threads (default: the cores that the process may use)"},
    {O_INT, "--ctx", "-c", "N", AT(ctx), 1, 1048576, "context length (default: the model's, or what memory allows)"},
    {O_INT, "--chunk", 0, "N", AT(chunk), 1, 512, "prompt tokens per step (default 512)"},
    {O_INT, "--stop-after", 0, "OP", AT(stop_after), 0, 1e6, "evaluate the prompt, stop its last step after op OP and print what the op wrote"},
    {O_GROUP, "Output", 0, 0, 0, 0, 0, 0},
    {O_FLAG, "--json", 0, 0, AT(json), 0, 0, "print one JSON object instead of text"},
    {O_STR, "--dump-logits", 0, "FILE", AT(dump_logits), 0, 0, "write each position's logits: position token logit0 logit1 ..."},
    {O_FLAG, "--quiet", "-q", 0, AT(quiet), 0, 0, "nothing but the result (no progress, no figures)"},
    {O_FLAG, "--version", 0, 0, AT(version), 0, 0, "print the version"},
    {O_FLAG, "--help-env", 0, 0, AT(help_env), 0, 0, "list the environment switches"},
    {O_FLAG, "--help", "-h", 0, AT(help), 0, 0, "this text"},
};
static const opt_table options = {"ie-run", table, sizeof table / sizeof *table, AT(model)};

void ie_opts_help(FILE *out) {
    fputs("usage: ie-run MODEL.gguf [options]\n\n"
          "  ie-run model.gguf -p \"Why is the sky blue?\"\n"
          "  ie-run model.gguf --chat\n"
          "  ie-run model.gguf --tokens 1,2,3 --n 64\n",
          out);
    opt_help(&options, out);
    fputs("\nText goes to standard output, everything else to standard error.\n", out);
}

static ie_status check(const ie_run_opts *o, ie_error *err) {
    if (o->help || o->help_env || o->version || o->list_devices) return IE_OK;
    if (!o->model) return ie_fail(err, IE_E_ARG, "no model file given; usage: ie-run MODEL.gguf [options], ie-run --help for more");
    int modes = o->info + o->ppl + o->chat + o->tokenize + o->detokenize + (o->render != NULL);
    if (modes > 1) return ie_fail(err, IE_E_ARG, "only one of --chat, --info, --ppl, --tokenize, --detokenize, --render can be given");
    int inputs = (o->prompt != NULL) + (o->prompt_file != NULL) + (o->tokens != NULL) + (o->tokens_file != NULL);
    if (inputs > 1) return ie_fail(err, IE_E_ARG, "only one of --prompt, --file, --tokens, --tokens-file can be given");
    bool needs = !o->info && !o->chat && !o->render;
    if ((o->tokenize || o->detokenize) && !inputs)
        return ie_fail(err, IE_E_ARG, "%s: give %s", o->tokenize ? "--tokenize" : "--detokenize", o->tokenize ? "-p TEXT or -f FILE" : "ids by -p, -f, --tokens or --tokens-file");
    if (needs && !inputs) return ie_fail(err, IE_E_ARG, "nothing to do: give -p TEXT, -f FILE, --tokens IDS, --chat or --info");
    if (!needs && inputs) return ie_fail(err, IE_E_ARG, "a prompt makes no sense with --chat, --info or --render");
    if (o->tokenize && (o->tokens || o->tokens_file)) return ie_fail(err, IE_E_ARG, "--tokenize wants text: give -p or -f");
    bool generates = !(o->info || o->ppl || o->chat || o->tokenize || o->detokenize || o->render || o->stop_after >= 0);
    if (o->stop_after >= 0 && (o->info || o->ppl || o->chat || o->tokenize || o->detokenize || o->render || o->dump_logits))
        return ie_fail(err, IE_E_ARG, "--stop-after goes with a prompt alone");
    if (o->dump_logits && !generates) return ie_fail(err, IE_E_ARG, "--dump-logits goes with generation only");
    if (o->no_template && !(generates && (o->prompt || o->prompt_file)))
        return ie_fail(err, IE_E_ARG, "--no-template goes with generation from -p or -f");
    if (o->system && !o->chat && !(generates && (o->prompt || o->prompt_file)))
        return ie_fail(err, IE_E_ARG, "--system goes with --chat and with generation from -p or -f");
    if ((o->special || o->no_bos) && (!(o->prompt || o->prompt_file) || !(o->no_template || o->tokenize || o->ppl)))
        return ie_fail(err, IE_E_ARG, "--special and --no-bos go with plain text: -p or -f with --no-template, --tokenize or --ppl");
    if (o->system && o->no_template) return ie_fail(err, IE_E_ARG, "--system needs the chat template: it cannot go with --no-template");
    int limits = (o->grammar != NULL) + (o->json_schema != NULL) + o->json_object;
    if (limits > 1) return ie_fail(err, IE_E_ARG, "only one of --grammar, --json-schema, --json-object can be given");
    if (limits && !generates && !o->chat)
        return ie_fail(err, IE_E_ARG, "--grammar, --json-schema and --json-object go with generation and --chat only");
    if ((o->device >= 0 || o->gpu_layers || o->hsaco) && !strcmp(o->backend, "cpu"))
        return ie_fail(err, IE_E_ARG, "--device, --gpu-layers and --hsaco go with a GPU, not with --backend cpu");
    if (o->chat && o->json) return ie_fail(err, IE_E_ARG, "--chat has no JSON form");
    if (o->ppl_window && o->ppl_first >= o->ppl_window - 1)
        return ie_fail(err, IE_E_ARG, "option --ppl-first is %d, allowed are values below --ppl-window - 1 (%d)", o->ppl_first, o->ppl_window - 1);
    return IE_OK;
}

ie_status ie_opts_parse(int argc, char **argv, ie_run_opts *o, ie_error *err) {
    ie_sampling s;
    ie_sampling_default(&s);
    *o = (ie_run_opts){.n = INT32_MIN, .top_p = 1, .repeat_penalty = 1, .repeat_last = s.repeat_last, .backend = "auto", .device = -1, .stop_after = -1};
    ie_status st = opt_parse(&options, argc, argv, o, err);
    if (st) return st;
    o->n_given = o->n != INT32_MIN;
    if (!o->n_given) o->n = -1;
    return check(o, err);
}
