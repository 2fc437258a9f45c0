#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../env.h"
#include "../model/model.h"
#include "../text/utf8.h"
#include "app.h"

#define BAR 30

void app_bar_init(app_bar *b, const ie_run_opts *o) { *b = (app_bar){.on = !o->quiet && isatty(STDERR_FILENO)}; }

int app_bar_step(void *user, const char *what, double fraction) {
    app_bar *b = user;
    double now = ie_now();
    if (!b->on || (now - b->last < 0.05 && fraction < 1)) return 0;
    b->last = now;
    int full = (int)(fraction * BAR + 0.5);
    char bar[BAR + 1];
    for (int i = 0; i < BAR; i++) bar[i] = i < full ? '#' : '.';
    bar[BAR] = 0;
    b->shown = fprintf(stderr, "\r%s [%s] %3.0f %%", what, bar, fraction * 100);
    fflush(stderr);
    if (fraction >= 1) app_bar_clear(b);
    return 0;
}

void app_bar_clear(app_bar *b) {
    if (b->shown > 0) fprintf(stderr, "\r%*s\r", b->shown, "");
    b->shown = 0;
}

static double rate(int32_t n, double s) { return s > 0 ? n / s : 0; }
/* The first output token comes out of the prompt's last step; the other n - 1 are decode steps. */
static int32_t steps(const ie_gen_result *r) { return r->n_predicted > 1 ? r->n_predicted - 1 : 0; }

void app_print_figures(const ie_model *m, const ie_gen_result *r) {
    ie_model_info info;
    ie_model_get_info(m, &info);
    int32_t evaluated = r->n_prompt - r->n_cached;
    fprintf(stderr, "prompt: %d token%s, %.1f tokens/s", evaluated, evaluated == 1 ? "" : "s", rate(evaluated, r->prompt_s));
    if (r->n_predicted == 1) fputs("; generated: 1 token", stderr);
    if (steps(r) > 0)
        fprintf(stderr, "; generated: %d tokens, %.2f ms/token, %.1f tokens/s, %.1f GB/s of weights", r->n_predicted,
                r->predicted_s * 1e3 / steps(r), rate(steps(r), r->predicted_s),
                (double)info.token_bytes * rate(steps(r), r->predicted_s) / 1e9);
    if (info.note) fprintf(stderr, "; on the CPU: %s", info.note);
    fputc('\n', stderr);
}

json_t *app_timings(const ie_model *m, const ie_gen_result *r) {
    ie_model_info info;
    ie_model_get_info(m, &info);
    int32_t evaluated = r->n_prompt - r->n_cached;
    double per_s = rate(steps(r), r->predicted_s);
    return json_pack("{s:i, s:i, s:f, s:f, s:f, s:i, s:f, s:f, s:f, s:f}", "cache_n", r->n_cached, "prompt_n", evaluated, "prompt_ms",
                     r->prompt_s * 1e3, "prompt_per_token_ms", evaluated ? r->prompt_s * 1e3 / evaluated : 0.0, "prompt_per_second",
                     rate(evaluated, r->prompt_s), "predicted_n", r->n_predicted, "predicted_ms", r->predicted_s * 1e3,
                     "predicted_per_token_ms", steps(r) ? r->predicted_s * 1e3 / steps(r) : 0.0, "predicted_per_second", per_s,
                     "weights_gb_per_second", (double)info.token_bytes * per_s / 1e9);
}

json_t *app_json_text(const char *s, size_t len) {
    json_t *direct = json_stringn(s, len);
    if (direct) return direct;
    ie_buf clean = {0};
    ie_error err;
    for (size_t i = 0; i < len;) {
        size_t n = ie_utf8_len((const unsigned char *)s + i, len - i);
        if (!(n ? ie_buf_add(&clean, s + i, n, &err) : ie_buf_add(&clean, "\xEF\xBF\xBD", 3, &err))) break;
        i += n ? n : 1;
    }
    json_t *out = json_stringn(clean.data ? clean.data : "", clean.len);
    ie_buf_free(&clean);
    return out;
}

ie_status app_print_json(json_t *obj, ie_error *err) {
    char *text = obj ? json_dumps(obj, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
    json_decref(obj);
    if (!text) return ie_fail(err, IE_E_NOMEM, "JSON output: no memory");
    puts(text);
    free(text);
    return app_flush(err);
}

ie_status app_profile(const ie_model *m, ie_error *err) {
    ie_buf text = {0};
    ie_status st = m->be ? m->be->api->profile(m->be, &text, err) : IE_OK;
    if (text.len) fwrite(text.data, 1, text.len, stderr); /* also where a file of figures could not be written */
    ie_buf_free(&text);
    return st;
}

ie_status app_help_env(ie_error *err) {
    ie_buf text = {0};
    ie_status st = ie_env_help(&text, err);
    if (!st) fwrite(text.data, 1, text.len, stdout);
    ie_buf_free(&text);
    return st;
}

ie_status app_list_devices(ie_error *err) {
    ie_buf text = {0};
    ie_status st = ie_backend_devices(&text, err);
    if (!st && text.len) fwrite(text.data, 1, text.len, stdout);
    ie_buf_free(&text);
    return st;
}
