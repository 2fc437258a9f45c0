/* Generation from a prompt: text or token ids. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "../context.h"
#include "app.h"

#define DUMP_ROWS 64 /* prompt rows evaluated at once for --dump-logits */

typedef struct {
    const ie_run_opts *o;
    app_bar *bar;
    FILE *dump;
    ie_buf text;
    bool print_text; /* as it comes */
    ie_error err;
} sink;

static int on_token(void *user, int32_t token, const char *bytes, size_t n) {
    sink *s = user;
    (void)token;
    if (s->print_text) {
        fwrite(bytes, 1, n, stdout);
        return fflush(stdout) != 0 || app_interrupted();
    }
    return !ie_buf_add(&s->text, bytes, n, &s->err) || app_interrupted();
}

static int on_progress(void *user, const char *what, double fraction) {
    app_bar_step(((sink *)user)->bar, what, fraction);
    return app_interrupted();
}

static void dump_row(FILE *f, int32_t pos, int32_t token, const float *x, int32_t n) {
    fprintf(f, "%d %d", pos, token);
    for (int32_t i = 0; i < n; i++) fprintf(f, " %.9g", (double)x[i]);
    fputc('\n', f);
}

static void on_logits(void *user, int32_t pos, int32_t token, const float *logits, int32_t n_vocab) {
    dump_row(((sink *)user)->dump, pos, token, logits, n_vocab);
}

ie_sampling app_sampling(const ie_run_opts *o) {
    ie_sampling s;
    ie_sampling_default(&s);
    s.temp = (float)o->temp;
    s.top_k = o->top_k;
    s.top_p = (float)o->top_p;
    s.min_p = (float)o->min_p;
    s.repeat_penalty = (float)o->repeat_penalty;
    s.repeat_last = o->repeat_last;
    s.seed = o->seed;
    return s;
}

ie_ctx *app_context(ie_model *m, const ie_run_opts *o, ie_error *err) {
    ie_ctx *c = ie_ctx_new(m, &(ie_ctx_params){.n_ctx = o->ctx, .n_seq = 1, .chunk = o->chunk}, err);
    ie_model_info info;
    ie_model_get_info(m, &info);
    if (c && !o->quiet && o->ctx > info.n_ctx_train)
        fprintf(stderr, "context: %d positions; the model was trained for %d\n", o->ctx, info.n_ctx_train);
    if (c && !o->quiet && !o->ctx)
        fprintf(stderr, "context: %d positions%s\n", ie_ctx_size(c),
                ie_ctx_size(c) < info.n_ctx_train ? " (what memory allows; --ctx sets it)" : " (the model's length; --ctx sets it)");
    return c;
}

static void print_ids(const int32_t *a, size_t n, const char *first) {
    for (size_t i = 0; i < n; i++) printf("%s%d", i ? "," : first, a[i]);
}

static const char *reason(ie_stop_reason r) {
    static const char *const names[] = {"length", "stop", "context_full", "cancelled"};
    return names[r];
}

static json_t *id_array(const int32_t *ids, size_t n) {
    json_t *a = json_array();
    for (size_t i = 0; i < n; i++) json_array_append_new(a, json_integer(ids[i]));
    return a;
}

/* Token ids went in: all ids come out, then the text of all of them. */
static ie_status print_ids_and_text(const ie_model *m, const int32_t *ids, size_t n, const int32_t *out, size_t n_out, ie_error *err) {
    print_ids(ids, n, "");
    print_ids(out, n_out, ",");
    putchar('\n');
    int32_t *all = ie_calloc(n + n_out, sizeof *all, "tokens", err);
    if (!all) return err->code;
    memcpy(all, ids, n * sizeof *all);
    memcpy(all + n, out, n_out * sizeof *all);
    char *text;
    size_t len;
    ie_error none;
    if (ie_detokenize(m, all, n + n_out, IE_DETOK_SPECIAL, &text, &len, &none) == IE_OK) {
        fwrite(text, 1, len, stdout);
        putchar('\n');
        ie_free(text);
    }
    free(all);
    return app_flush(err);
}

/* The prompt's own lines of --dump-logits: every position but the last, whose row generation writes. */
static ie_status dump_prompt(ie_ctx *c, sink *s, const ie_model *m, const int32_t *ids, int32_t n, ie_error *err) {
    ie_model_info info;
    ie_model_get_info(m, &info);
    int32_t have;
    ie_status st = ie_seq_sync(c, 0, ids, n, &have, err);
    for (int32_t p = have, t; p < n - 1 && !st; p += t) {
        int32_t seq[DUMP_ROWS], pos[DUMP_ROWS];
        uint8_t want[DUMP_ROWS];
        int32_t limit = s->o->chunk && s->o->chunk < DUMP_ROWS ? s->o->chunk : DUMP_ROWS;
        t = n - 1 - p < limit ? n - 1 - p : limit;
        for (int32_t i = 0; i < t; i++) seq[i] = 0, pos[i] = p + i, want[i] = 1;
        ie_batch b = {.phase = IE_PREFILL, .n = t, .token = ids + p, .seq = seq, .pos = pos, .want_logits = want};
        st = ie_eval(c, &b, err);
        const float *logits = NULL;
        for (int32_t i = 0; i < t && !st; i++)
            if (!(st = ie_ctx_logits(c, i, &logits, err))) dump_row(s->dump, p + i, ids[p + i], logits, info.n_vocab);
    }
    return st;
}

static ie_status close_dump(sink *s, ie_error *err) {
    if (!s->dump) return IE_OK;
    bool bad = ferror(s->dump) != 0;
    if (fclose(s->dump) == 0 && !bad) return IE_OK;
    return ie_fail(err, IE_E_IO, "file '%s': %s", s->o->dump_logits, strerror(errno));
}

/* A slip must not cost the model's file. */
static ie_status open_dump(sink *s, const ie_run_opts *o, ie_error *err) {
    struct stat dump, model;
    if (!stat(o->dump_logits, &dump) && !stat(o->model, &model) && dump.st_dev == model.st_dev && dump.st_ino == model.st_ino)
        return ie_fail(err, IE_E_ARG, "option --dump-logits is '%s', the model's own file", o->dump_logits);
    s->dump = fopen(o->dump_logits, "w");
    return s->dump ? IE_OK : ie_fail(err, IE_E_IO, "file '%s': %s", o->dump_logits, strerror(errno));
}

static ie_status report(const ie_model *m, const ie_run_opts *o, sink *s, const int32_t *ids, size_t n, const int32_t *out,
                        const ie_gen_result *r, ie_error *err) {
    size_t n_out = (size_t)r->n_predicted;
    if (o->json) {
        json_t *obj = json_pack("{s:o, s:o, s:o, s:s, s:o}", "text", app_json_text(s->text.data ? s->text.data : "", s->text.len),
                                "prompt_tokens", id_array(ids, n), "tokens", id_array(out, n_out), "stop", reason(r->stop), "timings",
                                app_timings(m, r));
        return app_print_json(obj, err);
    }
    ie_status st = IE_OK;
    if (!app_from_text(o)) st = print_ids_and_text(m, ids, n, out, n_out, err);
    else putchar('\n');
    if (!st) st = app_flush(err);
    if (!st && r->stop == IE_STOP_FULL)
        fprintf(stderr, "the context of %d positions is full; the text ends here (--ctx sets its length)\n", r->n_prompt + r->n_predicted - 1);
    if (!st && !o->quiet) app_print_figures(m, r);
    return st;
}

ie_status app_generate(ie_model *m, const ie_run_opts *o, app_bar *bar, ie_error *err) {
    int32_t *ids = NULL, *out = NULL;
    size_t n = 0;
    sink s = {.o = o, .bar = bar, .print_text = app_from_text(o) && !o->json};
    ie_status st = app_prompt_ids(m, o, true, &ids, &n, err);
    ie_ctx *c = st ? NULL : app_context(m, o, err);
    if (!st && !c) st = err->code;
    app_interrupts(true);
    double dump_start = ie_now();
    if (!st && o->dump_logits) {
        st = open_dump(&s, o, err);
        if (!st) st = dump_prompt(c, &s, m, ids, (int32_t)n, err);
    }
    ie_grammar *grammar = NULL;
    if (!st) st = app_grammar(m, o, &grammar, err);
    ie_gen_params p = {.sampling = app_sampling(o), .grammar = grammar, .max_tokens = o->n_given ? o->n : app_from_text(o) ? -1 : 32,
                       .stop_at_end = o->stop || app_from_text(o), .on_token = on_token, .on_logits = s.dump ? on_logits : NULL,
                       .progress = on_progress, .user = &s};
    ie_gen_result r;
    double dump_s = ie_now() - dump_start;
    if (!st) st = ie_generate(c, 0, ids, (int32_t)n, &p, &r, &out, err);
    if (!st && s.dump) { /* the prompt was evaluated for its logits: not cached work */
        r.n_cached = 0;
        r.prompt_s += dump_s;
    }
    ie_status closed = close_dump(&s, st ? NULL : err);
    if (!st) st = closed;
    app_bar_clear(bar);
    if (!st) st = report(m, o, &s, ids, n, out, &r, err);
    ie_grammar_free(grammar);
    ie_buf_free(&s.text);
    ie_free(out);
    free(ids);
    ie_ctx_free(c);
    if (app_interrupted()) { /* end as the signal would have ended us, with what there was printed */
        app_interrupts(false);
        raise(SIGINT);
    }
    return st;
}
