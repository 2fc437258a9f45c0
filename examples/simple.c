/* The smallest useful program on libie: a model file and a prompt in, the continuation out.
 *
 *     cc simple.c $(pkg-config --cflags --libs libie) -o simple
 *     ./simple model.gguf "The capital of France is"
 *
 * (Where libie was installed outside the loader's path: LD_LIBRARY_PATH=PREFIX/lib, or link with libie.a.)
 */
#include <ie.h>
#include <stdio.h>
#include <string.h>

static int print(void *user, int32_t token, const char *bytes, size_t n) {
    (void)user;
    (void)token;
    fwrite(bytes, 1, n, stdout);
    return fflush(stdout); /* stop when nobody reads */
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: simple MODEL.gguf PROMPT\n");
        return 1;
    }
    ie_error err = {0};
    ie_gen_params params = {.max_tokens = 64, .stop_at_end = 1, .on_token = print};
    ie_gen_result result;
    int32_t *ids = NULL;
    size_t n = 0;
    ie_ctx *ctx = NULL;
    ie_model *model = ie_model_open(argv[1], NULL, &err);
    ie_status st = model ? ie_tokenize(model, argv[2], strlen(argv[2]), IE_TOK_ADD_SPECIAL, &ids, &n, &err) : err.code;
    if (!st && !(ctx = ie_ctx_new(model, NULL, &err))) st = err.code;
    ie_sampling_default(&params.sampling);
    if (!st) st = ie_generate(ctx, 0, ids, (int32_t)n, &params, &result, NULL, &err);
    if (st) fprintf(stderr, "simple: %s\n", err.msg);
    else putchar('\n');
    ie_free(ids);
    ie_ctx_free(ctx);
    ie_model_close(model);
    return st != IE_OK;
}
