/* libFuzzer target of the server's requests, from the body to the scheduler and from its events to the answer. The input's first byte chooses the
 * endpoint; then comes the body, and behind the bytes FF FF the text that the "model" answers with (so the parsers of tool calls and
 * thinking are met too). The HTTP layer and the scheduler are stand-ins; the model is a tiny one, request.gguf beside the program.
 * Every request must be answered once, with a status, and with valid JSON where it says so. Seeds: tests/fuzz/corpus/request. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "serve/serve.h"

#define CHECK(x)                                                                                                       \
    do {                                                                                                               \
        if (!(x)) __builtin_trap();                                                                                    \
    } while (0)
#define PIECE 3

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const paths[] = {"/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages", "/v1/embeddings", "/completion", "/infill",
                                    "/tokenize", "/detokenize", "/apply-template", "/v1/messages/count_tokens"};
#define N_PATHS (sizeof paths / sizeof *paths)

/* ---- the HTTP layer's stand-in --------------------------------------------------------------------------------------- */

static int begun, ended;

const char *http_header(const http_req *r, const char *name) {
    (void)r, (void)name;
    return NULL;
}
void http_set_header(http_req *r, const char *name, const char *value) { (void)r, (void)name, (void)value; }
void http_send(http_req *r, int status, const char *type, const void *data, size_t n) {
    CHECK(!begun && status >= 200 && status < 600 && status != 500);
    begun = ended = 1;
    r->status = status;
    if (strcmp(type, "application/json")) return;
    json_t *j = json_loadb(data, n, JSON_ALLOW_NUL | JSON_DECODE_ANY, NULL);
    CHECK(j);
    json_decref(j);
}
void http_begin(http_req *r, int status, const char *type) {
    (void)type;
    CHECK(!begun);
    begun = 1;
    r->status = status;
}
bool http_write(http_req *r, const void *data, size_t n) {
    (void)r;
    CHECK(begun && !ended);
    return n == 0 || ((const char *)data)[n - 1] != '\1'; /* every byte is there */
}
void http_end(http_req *r) {
    (void)r;
    CHECK(begun && !ended);
    ended = 1;
}
bool http_gone(const http_req *r) {
    (void)r;
    return false;
}
void http_on_gone(http_req *r, void (*fn)(void *user), void *user) { (void)r, (void)fn, (void)user; }

/* ---- the scheduler's stand-in: each job gets the input's text, in pieces --------------------------------------------------- */

struct serve_stream {
    uint32_t n, at;
    size_t given;
    int32_t n_prompt[64], n_probs[64];
    bool vector[64];
};

static const char *output;
static size_t n_output;
static int32_t n_embd;

serve_stream *serve_submit(serve *s, serve_job *jobs, uint32_t n, serve_excess *excess, ie_error *err) {
    (void)s, (void)excess;
    serve_stream *st = n <= 64 ? calloc(1, sizeof *st) : NULL;
    if (st) st->n = n;
    for (uint32_t i = 0; i < n; i++) {
        if (st) {
            st->n_prompt[i] = jobs[i].n_prompt, st->n_probs[i] = jobs[i].n_probs;
            st->vector[i] = jobs[i].purpose != SERVE_TEXT;
        }
        for (size_t k = 0; k < jobs[i].n_stop; k++) CHECK(jobs[i].stop[k].len > 0);
        bool again = i + 1 < n && jobs[i].prompt == jobs[i + 1].prompt, same = i + 1 < n && jobs[i].grammar == jobs[i + 1].grammar;
        if (!again) free(jobs[i].prompt); /* as the scheduler does: neighbours may share them */
        if (!same) ie_grammar_free(jobs[i].grammar);
        jobs[i].prompt = NULL;
        jobs[i].grammar = NULL;
    }
    if (!st) ie_fail(err, IE_E_FULL, "the queue is full: %u requests", n);
    return st;
}

bool serve_next(serve_stream *st, serve_event *ev) {
    if (st->at == st->n) return false;
    uint32_t i = st->at;
    size_t left = st->vector[i] ? 0 : n_output - st->given, n = left < PIECE ? left : PIECE;
    *ev = (serve_event){.kind = n ? SERVE_EV_TOKEN : SERVE_EV_DONE, .index = i, .token = 5, .logprob = -1};
    ev->result = (serve_result){.reason = SERVE_STOP_END, .stop = -1, .end_token = -1, .n_prompt = st->n_prompt[i], .n_predicted = (int32_t)(n_output / PIECE + 1)};
    if (n) {
        CHECK(ev->text = malloc(n));
        memcpy(ev->text, output + st->given, n);
        ev->n_text = n;
        st->given += n;
        if (st->n_probs[i] > 0) {
            CHECK(ev->top = calloc(1, sizeof *ev->top));
            ev->top[0] = (ie_token_prob){5, -1};
            ev->n_top = 1;
        }
        return true;
    }
    if (st->vector[i]) CHECK(ev->vector = calloc((size_t)n_embd, sizeof *ev->vector));
    st->at++;
    st->given = 0;
    return true;
}

void serve_event_free(serve_event *ev) {
    free(ev->text);
    free(ev->top);
    free(ev->vector);
    *ev = (serve_event){0};
}
void serve_cancel(void *st) { (void)st; }
void serve_stream_free(serve_stream *st) { free(st); }
void serve_get_stats(serve *s, serve_stats *out) { (void)s, *out = (serve_stats){0}; }
int serve_get_slots(serve *s, serve_slot *out, int cap) {
    (void)s, (void)out, (void)cap;
    return 0;
}
void serve_learn(serve *s, const int32_t *token, int32_t n) { (void)s, (void)token, (void)n; }

/* ---- one input ----------------------------------------------------------------------------------------------------------- */

static serve server;

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc;
    ie_error err = {0};
    static char path[4096];
    const char *slash = strrchr((*argv)[0], '/');
    snprintf(path, sizeof path, "%.*srequest.gguf", slash ? (int)(slash + 1 - (*argv)[0]) : 0, (*argv)[0]);
    server.model = ie_model_open(path, &(ie_model_params){.backend = "cpu", .threads = 1}, &err);
    if (!server.model) {
        fprintf(stderr, "fuzz_request: %s\n", err.msg);
        exit(1);
    }
    ie_model_get_info(server.model, &server.info);
    n_embd = server.info.n_embd;
    server.opts = (serve_opts){.model = path, .host = "", .parallel = 4, .queue = 64, .max_tokens = -1, .log_format = "text", .quiet = true, .backend = "cpu"};
    server.n_ctx = 256;
    server.model_id = "tiny";
    server.phase = SERVE_READY;
    pthread_mutex_init(&server.key_lock, NULL);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1) return 0;
    static const char mark[] = "\xFF\xFF";
    const char *body = (const char *)data + 1, *cut = memmem(body, size - 1, mark, 2);
    size_t n = cut ? (size_t)(cut - body) : size - 1;
    char *copy = malloc(n + 1), *text;
    CHECK(copy);
    memcpy(copy, body, n);
    copy[n] = 0;
    n_output = cut ? size - 1 - n - 2 : 0;
    CHECK(text = malloc(n_output + 1));
    for (size_t i = 0; i < n_output; i++) text[i] = (char)(cut[2 + i] & 0x7F); /* events hold whole characters */
    output = text;
    http_req r = {.method = "POST", .path = paths[data[0] % N_PATHS], .query = "", .body = copy, .body_len = n, .peer = ""};
    begun = ended = 0;
    if (!serve_quick(&server, &r)) serve_handle(&server, &r);
    CHECK(begun && ended);
    free(copy);
    free(text);
    return 0;
}
