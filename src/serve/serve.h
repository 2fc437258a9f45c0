/* ie-serve's inside: what the HTTP layer (http.h), the API families (api_*.c) and the scheduler (sched.c) share.
 *
 *   event thread         reads requests; answers /health and /metrics itself
 *   connection threads   one for each request at work: JSON, template, tokens → serve_submit → events → JSON or SSE
 *   engine thread        owns the context: steps of decode batches and slices of prompts, sampling, text assembly
 *
 * A route table has one row for each endpoint; each API family is a file with its table. */
#ifndef IE_SERVE_H
#define IE_SERVE_H

#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>

#include "../base.h"
#include "../gen/stop.h"
#include "answer.h"
#include "http.h"

typedef struct serve serve;
typedef struct serve_sched serve_sched;

/* ---- options (main.c) ------------------------------------------------------------------------------------------ */

typedef struct {
    const char *model, *alias;
    const char *host;
    int32_t port;
    const char *api_key, *api_key_file, *cors_origins;
    const char *backend;
    int32_t threads, parallel, ctx, chunk;
    int32_t queue;            /* requests waiting for a slot at most */
    double slice_ms;          /* what a prompt slice may take */
    int32_t cache_mb;         /* recurrent states kept for prefixes */
    const char *cache_dir;    /* prefixes are saved there at the end and restored at the start */
    int32_t cache_file_mb;    /* of that file, at most */
    const char *template_file, *system;
    const char *pooling;      /* "mean", "last"; NULL: as the model's file says */
    int32_t max_body_mb, drain_s;
    double read_s;            /* for a request to arrive */
    int32_t max_tokens;       /* a request's default limit, -1: the context */
    const char *log_format;   /* "text", "json" */
    bool no_cache, quiet, help, version;
} serve_opts;

/* ---- a request to the scheduler -------------------------------------------------------------------------------------- */

typedef enum { SERVE_TEXT, SERVE_EMBED_MEAN, SERVE_EMBED_LAST } serve_purpose;

/* What is to be done with one prompt. Copied by serve_submit but for `prompt` and `grammar`, which it takes over. */
typedef struct {
    int32_t *prompt;       /* n_prompt ids, malloc'ed; the scheduler frees them */
    int32_t n_prompt;
    int32_t n_stable;      /* the first n_stable tokens will begin the conversation's next prompt too (before the generation prompt) */
    ie_sampling sampling;  /* bias list included; its arrays are copied */
    int32_t max_tokens;    /* -1: until the context is full */
    const ie_stop_text *stop; /* n_stop strings */
    size_t n_stop;
    int32_t n_probs;       /* -1: no log-probabilities; else of the chosen token and this many best ones (0 .. 20) */
    ie_grammar *grammar;   /* NULL: free text; the scheduler frees it */
    bool ignore_end;       /* go on behind end tokens */
    bool no_cache;         /* neither use nor fill the prefix cache */
    bool progress;         /* SERVE_EV_PROGRESS events while the prompt is evaluated */
    bool prompt_probs;     /* SERVE_EV_PROMPT events; needs no_cache and n_probs >= 0 */
    serve_purpose purpose; /* embeddings: the last event holds the vector; all but prompt and n_prompt is left out */
} serve_job;


typedef enum { SERVE_STOP_END, SERVE_STOP_STRING, SERVE_STOP_LENGTH, SERVE_STOP_CTX } serve_reason;

typedef struct {
    serve_reason reason;
    int stop;                /* index of the stop string that was met, -1 */
    int32_t end_token;       /* the end token that was met, -1 */
    int32_t n_prompt, n_cached, n_predicted;
    double queue_s, prompt_s, predicted_s;
} serve_result;

typedef enum {
    SERVE_EV_PROGRESS,  /* token: prompt tokens that are done, cached ones included; result: n_prompt, n_cached, prompt_s */
    SERVE_EV_PROMPT,    /* one token of the prompt, in order, with its log-probabilities (logprob NAN: the first, which has none) */
    SERVE_EV_TOKEN,     /* one generated token; text: what has become ready (may be empty) */
    SERVE_EV_DONE,      /* text: the rest; result. The job's last event */
    SERVE_EV_ERROR,     /* err. The job's last event */
} serve_ev_kind;

typedef struct {
    serve_ev_kind kind;
    uint32_t index;      /* of the job within its submission */
    int32_t token;
    char *text;          /* whole UTF-8 characters, malloc'ed, NULL when n_text is 0 */
    size_t n_text;
    float logprob;
    ie_token_prob *top;     /* n_top, best first, malloc'ed */
    uint32_t n_top;
    float *vector;       /* SERVE_EV_DONE of embeddings: n_embd floats, malloc'ed */
    serve_result result;
    ie_error err;
} serve_event;

/* ---- scheduler (sched.c) --------------------------------------------------------------------------------------------- */

/* The events of one submission (one or several jobs) on their way from the engine thread to a connection thread: a bounded
 * queue. A job whose reader does not keep up pauses; nothing is lost. */
typedef struct serve_stream serve_stream;

/* Of a prompt that cannot fit: its tokens, and the positions that there are. Zeros: no such thing has happened. */
typedef struct {
    int32_t n_prompt, n_ctx;
} serve_excess;

/* Hands n jobs over as one submission; neighbours may share their prompt and their grammar. NULL: *err says why (IE_E_FULL: the queue is full, answer 503; IE_E_ARG: a prompt that
 * cannot fit, which *excess describes then, or a bad parameter: answer 400); the prompts and grammars are freed in that case too. */
serve_stream *serve_submit(serve *s, serve_job *jobs, uint32_t n, serve_excess *excess, ie_error *err);
/* Waits for the next event; false when every job has had its last one. The event's memory is the caller's: serve_event_free. */
bool serve_next(serve_stream *st, serve_event *ev);
void serve_event_free(serve_event *ev);
/* Any thread: all jobs of the submission end within a step (with SERVE_EV_ERROR, IE_E_CANCELLED). The argument is a serve_stream:
 * fits http_on_gone. */
void serve_cancel(void *st);
/* Cancels what still runs, waits until the scheduler has let go of it, frees. */
void serve_stream_free(serve_stream *st);

serve_sched *serve_sched_new(serve *s, ie_ctx *ctx, ie_error *err); /* owns ctx from now on, in case of failure too */
/* Takes no more submissions (503); what runs goes on. */
void serve_sched_drain(serve_sched *d);
void serve_sched_stop(serve_sched *d); /* ends the engine thread: what waits or runs is cancelled, further submissions get 503 */
/* ie_prefix_save of its context, after serve_sched_stop. */
ie_status serve_sched_save(serve_sched *d, const char *path, uint64_t max_bytes, int32_t *n, ie_error *err);
void serve_sched_free(serve_sched *d); /* streams must have been freed before */

/* Distributions that /metrics shows as histograms (metrics.c has their names and bounds). Times are in seconds. */
typedef enum { SERVE_H_QUEUE, SERVE_H_FIRST, SERVE_H_GAP, SERVE_H_REQUEST, SERVE_H_BATCH, SERVE_H_COUNT } serve_hist_kind;
#define SERVE_BUCKETS 18
typedef struct {
    uint64_t count[SERVE_BUCKETS + 1]; /* not cumulative; the last one: above all bounds */
    double sum;
} serve_hist;
void serve_hist_add(serve_hist hist[SERVE_H_COUNT], serve_hist_kind kind, double value);

/* Any thread: tokens that a conversation's next prompt will begin with, to be evaluated when nothing else is to do. Copied. */
void serve_learn(serve *s, const int32_t *token, int32_t n);

/* ---- conversations that wait for an idle moment (replies.c) ------------------------------------------------------------- */

typedef struct serve_replies serve_replies;
serve_replies *serve_replies_new(ie_ctx *c, ie_error *err);
void serve_replies_free(serve_replies *r); /* NULL is allowed */
/* Any thread. */
void serve_replies_add(serve_replies *r, const int32_t *token, int32_t n);
bool serve_replies_any(serve_replies *r);
/* Engine thread, with all sequences free: at most room tokens (a multiple of 32). False when there is nothing to do. */
bool serve_replies_step(serve_replies *r, int32_t room);
/* Engine thread: conversations that are through so far. */
uint64_t serve_replies_through(const serve_replies *r);
/* Engine thread: others want the sequences; what was under way begins anew (from what is kept) at the next step. */
void serve_replies_pause(serve_replies *r);

/* What /slots and /metrics show. */
typedef struct {
    int id;
    bool busy;
    int32_t n_prompt, n_cached, n_predicted, max_tokens;
    uint64_t job;
} serve_slot;

typedef struct {
    int n_waiting, n_slots, n_busy;
    uint64_t lookups, hits; /* of the prefix cache: requests that asked it, and that found anything */
    uint64_t requests, rejected, cancelled, errors, prompt_tokens, cached_tokens, predicted_tokens, decode_steps, decode_tokens, slices;
    double prompt_s, predicted_s;
    serve_hist hist[SERVE_H_COUNT];
    ie_prefix_info prefix;
    uint64_t learned; /* conversations evaluated for their next turn */
} serve_stats;
void serve_get_stats(serve *s, serve_stats *out);
/* At most cap slots into out; returns their number. */
int serve_get_slots(serve *s, serve_slot *out, int cap);

/* The last few grammars of chats: the same tools come with every turn of a conversation. */
#define SERVE_GRAMMARS 4u
typedef struct {
    pthread_mutex_t lock;
    struct {
        ie_buf key;
        ie_grammar *g;
        uint64_t used;
    } row[SERVE_GRAMMARS];
    uint64_t clock;
} serve_grammars;

/* ---- the server ------------------------------------------------------------------------------------------------------ */

struct serve {
    serve_opts opts;
    ie_model *model;           /* NULL while loading */
    ie_model_info info;
    int32_t n_ctx;             /* positions a request may use */
    serve_sched *sched;
    http_server *http;
    char *template_text;       /* --chat-template-file, or NULL */
    size_t template_len;
    json_t *name;              /* the model's, as text in UTF-8 */
    const char *model_id;      /* the same, as /v1/models names it */
    int64_t started;           /* unix time */
    _Atomic int phase;         /* serve_phase */
    serve_grammars grammars;
    pthread_mutex_t key_lock;
    char *keys;                /* one a line, NULL: no key is needed; under key_lock */
};

typedef enum { SERVE_LOADING, SERVE_READY, SERVE_DRAINING } serve_phase;

/* ---- routes (route.c) ------------------------------------------------------------------------------------------------- */

/* One request on its way through a handler. */
typedef struct {
    serve *s;
    http_req *http;
    unsigned flags; /* of the route */
    json_t *body; /* the parsed body (an object) for routes that want one; freed by the router */
    serve_excess excess; /* of serve_submit; error answers give its numbers */
} serve_call;

enum {
    ROUTE_OPEN = 1,   /* needs no API key */
    ROUTE_MODEL = 2,  /* 503 while the model is loading */
    ROUTE_BODY = 4,   /* a JSON object as body is required: 400 before the handler where it is not one */
    ROUTE_QUICK = 8,  /* answered in the event thread: must not block */
    ROUTE_BELOW = 16, /* the path ends with '/' and stands for all paths below it */
    ROUTE_ANTHROPIC = 32, /* errors in Anthropic's form */
};

typedef struct {
    const char *method, *path;
    void (*handle)(serve_call *c);
    unsigned flags;
    const char *help; /* one line */
} serve_route;

/* Each family's table, ended by a row without a path. route.c lists the tables. */
extern const serve_route serve_routes_openai[];
extern const serve_route serve_routes_completions[];
extern const serve_route serve_routes_embed[];
extern const serve_route serve_routes_infill[];
extern const serve_route serve_routes_llama[];
extern const serve_route serve_routes_messages[];
extern const serve_route serve_routes_metrics[];
extern const serve_route serve_routes_models[];
extern const serve_route serve_routes_page[];
extern const serve_route serve_routes_responses[];

bool serve_quick(void *user, http_req *r);
void serve_handle(void *user, http_req *r);

/* ---- answers (reply.c) ------------------------------------------------------------------------------------------------ */

/* Takes the reference to obj. Numbers are written with as few digits as give the same value. */
void serve_reply_json(serve_call *c, int status, json_t *obj);
void serve_reply_text(serve_call *c, int status, const char *type, const char *text);
/* {"error": {"code": status, "message": ..., "type": ..., "param": null}} as OpenAI words it. status 0: chosen by err->code. */
void serve_reply_error(serve_call *c, int status, const ie_error *err);
/* The same object, for streams; in the form of the call's family. */
json_t *serve_call_error(const serve_call *c, int status, const ie_error *err);
int serve_status_of(const ie_error *err);

/* Server-sent events: begin, then "data: {json}\n\n" for each (event: NAME before it when name is not NULL). */
void serve_sse_begin(serve_call *c);
bool serve_sse(serve_call *c, const char *name, json_t *obj); /* takes the reference; false: the client has left */
bool serve_sse_raw(serve_call *c, const char *data);          /* e.g. "[DONE]" */

/* ---- JSON (json.c) ---------------------------------------------------------------------------------------------------- */

/* Parses a request body: UTF-8, no duplicate keys, depth at most 128, NUL allowed in strings; integers beyond 64 bits become reals.
 * s[n] must be NUL. */
json_t *serve_json_parse(const char *s, size_t n, ie_error *err);
bool serve_json_dump(const json_t *j, ie_buf *out, ie_error *err);
bool serve_json_escape(const char *s, size_t n, ie_buf *out, ie_error *err); /* what stands between a string's quotes */
/* Members of an object with their type and range; absent or null leaves *out as it is. IE_E_ARG names the member. */
ie_status serve_get_bool(const json_t *o, const char *key, bool *out, ie_error *err);
ie_status serve_get_int(const json_t *o, const char *key, int64_t min, int64_t max, int64_t *out, ie_error *err);
ie_status serve_get_num(const json_t *o, const char *key, double min, double max, double *out, ie_error *err);
/* NUL-terminated; points into the object. len may be NULL: then a NUL byte inside is refused. */
ie_status serve_get_str(const json_t *o, const char *key, const char **out, size_t *len, ie_error *err);
ie_status serve_get_obj(const json_t *o, const char *key, json_t **out, ie_error *err);
ie_status serve_get_arr(const json_t *o, const char *key, json_t **out, ie_error *err);
/* IE_E_ARG: "'key' must be", the format's text, and the value as it was sent (its beginning, or what kind it is). */
ie_status serve_wrong(const char *key, const json_t *v, ie_error *err, const char *fmt, ...) IE_PRINTF(4, 5);
/* A JSON string of bytes; what is not UTF-8 becomes U+FFFD. */
json_t *serve_json_text(const char *s, size_t n);

/* ---- members without effect (members.c) -------------------------------------------------------------------------------- */

typedef enum { SERVE_STRING, SERVE_BOOL, SERVE_COUNT, SERVE_OBJECT, SERVE_LIST, SERVE_STRINGS, SERVE_WORD } serve_kind;
typedef struct {
    const char *name;  /* with dots for members of objects: "reasoning.effort" */
    serve_kind kind;
    const char *words; /* of SERVE_WORD: the allowed ones, separated by ", " */
} serve_member;
/* Rows up to one without a name; absent and null fit each of them. */
ie_status serve_check_members(const json_t *o, const serve_member *rows, ie_error *err);
/* Those that OpenAI's endpoints share. */
ie_status serve_check_openai(const json_t *o, ie_error *err);
#define SERVE_EFFORTS "none, minimal, low, medium, high, xhigh, max"

/* ---- from requests to jobs (params.c, chat.c) ------------------------------------------------------------------------- */

/* A job with the lists that it points to. */
typedef struct {
    serve_job job;
    ie_stop_text stop[IE_STOP_MAX];
    ie_bias *bias;
    const char *format_name; /* set before reading: what the client calls response_format; NULL: that */
    bool constrained; /* response_format, grammar or json_schema: what and its text */
    ie_grammar_kind constraint_kind;
    ie_buf constraint;
    json_t *tools;     /* chat: the request's tools, NULL */
    answer_form form;  /* chat: what its text will consist of; points to tools */
} serve_params;

/* Sampling, limits, stop strings, penalties, logit_bias, seed and cache_prompt: the members that all families share (OpenAI's
 * and llama-server's names). The request's text must outlive the parameters. Of *p only format_name is read. */
ie_status serve_read_params(serve *s, const json_t *body, serve_params *p, ie_error *err);
/* The same without the grammar, whose text stays in p->constraint. */
ie_status serve_read_sampling(serve *s, const json_t *body, serve_params *p, ie_error *err);
void serve_params_free(serve_params *p); /* what has not been handed over */

/* A chat request in OpenAI's form, to which the other families translate theirs: parameters, the messages (with tools, chat_template_kwargs)
 * through the chat template into p->job.prompt, n_prompt and n_stable, the grammar of calls and answers, p->form. On failure nothing is
 * kept. */
ie_status serve_chat_job(serve *s, const json_t *body, serve_params *p, ie_error *err);
/* Lets the scheduler evaluate the conversation with this answer as its next turn will hold it (serve_learn). body and p: the request. */
void serve_chat_learn(serve *s, const json_t *body, const serve_params *p, const answer *a);
/* An answer as a message in OpenAI's form. */
json_t *serve_chat_message(const answer *a);
/* The rendered text (apply-template); *text is malloc'ed. */
ie_status serve_chat_text(serve *s, const json_t *body, char **text, size_t *n, ie_error *err);
/* A text or an array of ids (or a mixture in llama-server's manner) as prompt. */
ie_status serve_text_prompt(serve *s, const json_t *prompt, serve_params *p, ie_error *err);

/* Several prompts: a text, a list of texts, a list of token ids, or a list of such lists, at most max of them; name is the member's,
 * for messages. *out (n of them) is freed with serve_prompts_free. */
typedef struct {
    int32_t *id; /* n, malloc'ed; NULL once it was handed over */
    int32_t n;
} serve_prompt;
ie_status serve_prompts(serve *s, const json_t *v, const char *name, size_t max, serve_prompt **out, uint32_t *n, ie_error *err);
void serve_prompts_free(serve_prompt *list, uint32_t n);
/* A list of token ids, which may be empty; out->id is the caller's, also after a failure. */
ie_status serve_token_ids(serve *s, const json_t *v, const char *name, serve_prompt *out, ie_error *err);

/* A text to fill in between a prefix and a suffix, files before it (llama-server's input_extra, may be NULL), and the beginning of
 * what is to be filled in. IE_E_ARG where the model has no tokens for it. */
ie_status serve_fim_prompt(serve *s, const json_t *prefix, const json_t *suffix, const json_t *extra, const json_t *begin, serve_prompt *out,
                           ie_error *err);

/* llama-server's answer to a completion (/completion, /infill); the parameters' prompt goes to the scheduler. */
void serve_llama_completion(serve_call *c, serve_params *p);

/* "stop", "length" as OpenAI's finish_reason. */
const char *serve_finish(const serve_result *r);
json_t *serve_usage(const serve_result *r);   /* prompt_tokens, completion_tokens, total_tokens, details */
json_t *serve_timings(const serve_result *r); /* llama-server's names */
json_t *serve_progress(const serve_event *ev); /* of SERVE_EV_PROGRESS, llama-server's prompt_progress */
/* Bytes of one token as text (invalid UTF-8 replaced) and as an array of numbers. */
json_t *serve_token_text(serve *s, int32_t token);
json_t *serve_token_bytes(serve *s, int32_t token);
/* A token event's log-probability and the best ones: id, token, logprob, bytes, top_logprobs. */
json_t *serve_token_prob(serve *s, const serve_event *ev);
/* "chatcmpl-" and 24 random letters and digits. */
void serve_new_id(const char *prefix, char out[64]);

/* ---- one answer (chat_run.c) --------------------------------------------------------------------------------------------- */

typedef struct {
    answer *answer;
    serve_result result;
    int32_t n_thought; /* tokens of the thinking */
    bool begun;
} serve_run;

/* Submits p's job and feeds its text to a new answer with that sink. begin is called before the first part can come, and not where the request
 * fails before. *gone: set by the caller's callbacks when the client has left. r is to be freed in any case. */
ie_status serve_chat_run(serve_call *c, serve_params *p, const answer_sink *sink, void (*begin)(void *user), const bool *gone, serve_run *r, ie_error *err);
void serve_run_free(serve_run *r);
/* A request of another family as a chat in OpenAI's form: each step puts a part of it into `chat`. A new reference, NULL on failure. */
typedef ie_status (*serve_step)(const json_t *body, json_t *chat, ie_error *err);
json_t *serve_translate(const json_t *body, const serve_step *steps, size_t n, ie_error *err);
/* The texts of a list of parts ({"type": ..., "text": ...}) in one string, a new reference. types: the allowed ones, ended by NULL; "" is none.
 * what: the list, for messages. */
ie_status serve_parts_text(const json_t *parts, const char *what, const char *const *types, json_t **out, ie_error *err);
/* For translations of a request's body: members that have the same name and meaning; a variable of the template, unless the client set it. */
void serve_copy_members(const json_t *from, json_t *to, const char *const *names, size_t n);
void serve_set_kwarg(json_t *body, const char *name, json_t *value); /* takes value */

/* ---- grammars of chats (chat_grammar.c) ------------------------------------------------------------------------------------ */

/* Into p->job.grammar: the grammar for p->form and p->constraint, with calls of the callable tools (may be NULL) as they are chosen; NULL where
 * the text is free. several: more than one call is allowed. */
ie_status serve_chat_grammar(serve *s, serve_params *p, const tool_style *style, tool_choice choice, const json_t *callable, bool several, ie_error *err);
void serve_grammars_free(serve *s);

/* ---- log ------------------------------------------------------------------------------- */

/* One line on standard error, in the form that --log-format asks for; level: "info", "warn", "error". */
void serve_log(serve *s, const char *level, const char *fmt, ...) IE_PRINTF(3, 4);
/* With members that --log-format json adds to its line; takes the reference. */
void serve_log_fields(serve *s, const char *level, json_t *fields, const char *fmt, ...) IE_PRINTF(4, 5);

#endif
