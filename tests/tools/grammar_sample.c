/* Constrained generation for many grammars with one model: grammar_sample MODEL.gguf TEMPERATURE < LINES
 *
 * A line is a JSON object: "schema" (a JSON Schema) or "gbnf" (a text), "seed", and "extra": how many tokens more than the shortest
 * text takes may be generated. The answer is a line {"text", "tokens", "shortest", "stop"} or {"error"}. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base.h"

static ie_buf text;

static int on_token(void *user, int32_t token, const char *bytes, size_t n) {
    (void)user, (void)token;
    return !ie_buf_add(&text, bytes, n, NULL);
}

static json_t *answer(ie_ctx *c, ie_model *m, double temp, const json_t *line, const int32_t *ids, size_t n, ie_error *err) {
    const json_t *gbnf = json_object_get(line, "gbnf");
    char *schema = gbnf ? NULL : json_dumps(json_object_get(line, "schema"), JSON_ENCODE_ANY);
    const char *src = gbnf ? json_string_value(gbnf) : schema;
    ie_grammar *g = ie_grammar_new(m, gbnf ? IE_GRAMMAR_GBNF : IE_GRAMMAR_JSON_SCHEMA, src, strlen(src), err);
    ie_matcher *x = g ? ie_matcher_new(g, err) : NULL;
    int32_t shortest = 0;
    json_t *out = NULL;
    free(schema);
    if (x && ie_matcher_shortest(x, &shortest, err) == IE_OK) {
        ie_gen_params p = {.grammar = g, .on_token = on_token};
        ie_sampling_default(&p.sampling);
        p.sampling.temp = (float)temp;
        p.sampling.seed = (uint64_t)json_integer_value(json_object_get(line, "seed"));
        p.max_tokens = (int32_t)json_integer_value(json_object_get(line, "extra")) + (shortest < 100000 ? shortest : 0);
        ie_gen_result r;
        text.len = 0;
        if (ie_generate(c, 0, ids, (int32_t)n, &p, &r, NULL, err) == IE_OK)
            out = json_pack("{s:o, s:i, s:i, s:s}", "text", json_stringn(text.data ? text.data : "", text.len), "tokens", r.n_predicted, "shortest", shortest,
                            "stop", r.stop == IE_STOP_END ? "end" : "length");
        if (out == NULL && err->code == IE_OK) ie_fail(err, IE_E_FORMAT, "the text is not UTF-8");
    }
    ie_matcher_free(x);
    ie_grammar_free(g);
    return out ? out : json_pack("{s:s}", "error", err->msg);
}

int main(int argc, char **argv) {
    ie_error err = {0};
    if (argc != 3) return 2;
    ie_model *m = ie_model_open(argv[1], NULL, &err);
    ie_ctx *c = m ? ie_ctx_new(m, &(ie_ctx_params){.n_ctx = 0}, &err) : NULL;
    int32_t *ids = NULL;
    size_t n = 0, cap = 0;
    const char *prompt = "Here is some JSON:\n";
    if (!c || ie_tokenize(m, prompt, strlen(prompt), IE_TOK_ADD_SPECIAL, &ids, &n, &err)) {
        fprintf(stderr, "%s\n", err.msg);
        return 1;
    }
    char *line = NULL;
    for (ssize_t len; (len = getline(&line, &cap, stdin)) > 0;) {
        json_t *in = json_loadb(line, (size_t)len, JSON_DECODE_ANY, NULL), *out;
        err = (ie_error){0};
        out = in ? answer(c, m, atof(argv[2]), in, ids, n, &err) : json_pack("{s:s}", "error", "no JSON");
        json_dumpf(out, stdout, JSON_COMPACT);
        putchar('\n');
        json_decref(out);
        json_decref(in);
    }
    free(line);
    ie_free(ids);
    ie_buf_free(&text);
    ie_ctx_free(c);
    ie_model_close(m);
    return 0;
}
