/* Renders a chat template for a list of cases: tmpl_check TEMPLATE CASES.json
 *
 * CASES.json is an array of objects: "vars" (object), "bos", "eos" (strings), "gen" (add_generation_prompt), "now"
 * (seconds since 1970, for strftime_now). Writes a JSON array to stdout with one object for each case: {"text", "runs":
 * [[length in bytes, trusted], ...]} or {"error", "code"}; if the template does not parse, all have that error and
 * "parse": true. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/template.h"

static char *read_file(const char *path, size_t *len) {
    FILE *f = fopen(path, "rb");
    if (!f) {
        fprintf(stderr, "tmpl_check: %s cannot be opened\n", path);
        exit(1);
    }
    char *s = NULL;
    size_t cap = 0;
    *len = 0;
    for (size_t n = 1; n; *len += n) {
        if (*len == cap) {
            cap = cap ? cap * 2 : 1 << 16;
            s = realloc(s, cap);
            if (!s) exit(1);
        }
        n = fread(s + *len, 1, cap - *len, f);
    }
    fclose(f);
    return s;
}

static const char *text_or(const json_t *o, const char *key) {
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

static json_t *render(const ie_template *t, const json_t *c) {
    ie_error err = {0};
    ie_rendered r;
    ie_template_env env = {.bos_token = text_or(c, "bos"),
                           .eos_token = text_or(c, "eos"),
                           .add_generation_prompt = json_is_true(json_object_get(c, "gen")),
                           .now = (time_t)json_integer_value(json_object_get(c, "now"))};
    if (ie_template_render(t, json_object_get(c, "vars"), &env, &r, &err) != IE_OK)
        return json_pack("{s:s, s:i}", "error", err.msg, "code", (int)err.code);
    json_t *runs = json_array();
    size_t at = 0;
    for (size_t i = 0; i < r.n_runs; i++) {
        if (r.runs[i].s != r.text.data + at) abort(); /* runs must cover the text */
        at += r.runs[i].len;
        json_array_append_new(runs, json_pack("[I, b]", (json_int_t)r.runs[i].len, (int)r.runs[i].trusted));
    }
    if (at != r.text.len) abort();
    json_t *o = json_object();
    json_object_set_new(o, "text", json_stringn_nocheck(r.text.data, r.text.len));
    json_object_set_new(o, "runs", runs);
    ie_rendered_free(&r);
    return o;
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: tmpl_check TEMPLATE CASES.json\n");
        return 2;
    }
    size_t len, n;
    char *src = read_file(argv[1], &len), *text = read_file(argv[2], &n);
    json_error_t je;
    json_t *cases = json_loadb(text, n, JSON_ALLOW_NUL, &je), *out = json_array();
    if (!json_is_array(cases)) {
        fprintf(stderr, "tmpl_check: %s: %s\n", argv[2], je.text);
        return 1;
    }
    ie_error err = {0};
    ie_template *t = ie_template_new(src, len, &err);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        json_t *r = t ? render(t, json_array_get(cases, i))
                      : json_pack("{s:s, s:i, s:b}", "error", err.msg, "code", (int)err.code, "parse", 1);
        json_array_append_new(out, r);
    }
    json_dumpf(out, stdout, JSON_COMPACT);
    ie_template_free(t);
    json_decref(out);
    json_decref(cases);
    free(src);
    free(text);
    return 0;
}
