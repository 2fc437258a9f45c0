/* libie: the public C API of amd-infer.
 *
 * A *model* (weights, vocabulary, op lists) is read-only after it is opened and may be shared by threads. A *context*
 * (sequences and their state) is mutable and belongs to one thread at a time. The library never exits, aborts or prints:
 * every failure comes back as a status code, with one line of text in the ie_error that the caller owns.
 *
 * Tokens are int32_t ids in [0, vocabulary). Text is UTF-8 with explicit lengths; it may hold NUL bytes. Pointers must not be
 * NULL unless a comment says so; every ie_error pointer may be.
 */
#ifndef IE_H
#define IE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define IE_VERSION "0.1.0"

/* ---- errors ------------------------------------------------------------------------------------------------------- */

typedef enum {
    IE_OK = 0,
    IE_E_ARG,         /* an argument of the caller is out of range */
    IE_E_IO,          /* a file could not be opened, read or written */
    IE_E_FORMAT,      /* a file or text is malformed */
    IE_E_UNSUPPORTED, /* well-formed, but of a kind this engine does not run */
    IE_E_NOMEM,       /* memory (host or device) does not suffice */
    IE_E_FULL,        /* a context or page pool has no room left */
    IE_E_NUMERIC,     /* a non-finite activation was seen */
    IE_E_CANCELLED,   /* a progress callback asked to stop */
    IE_E_DEVICE,      /* the backend's device or driver failed */
} ie_status;

/* One line that names the thing, its value and what is allowed. Owned by the caller; always NUL-terminated. */
typedef struct {
    ie_status code;
    char msg[500];
} ie_error;

/* ---- model -------------------------------------------------------------------------------------------------------- */

typedef struct ie_model ie_model;
typedef struct ie_ctx ie_ctx;

/* Called from time to time during long work with a fraction in [0, 1]; a non-zero result cancels (IE_E_CANCELLED). */
typedef int (*ie_progress_fn)(void *user, const char *what, double fraction);

typedef struct {
    const char *backend; /* "auto" (NULL: a GPU that works, else the CPU), "cpu", "gpu", "hip", "cuda" */
    int threads;         /* worker threads, 0 = one per core available to the process */
    int device;          /* 1 + the GPU's number, 0 = the first that can be used */
    int gpu_layers;      /* the first so many layers on the GPU, the rest on the CPU; 0 = all */
    const char *hsaco;   /* file of GPU code instead of the built-in, or NULL */
    int mtp;             /* also load the layer that predicts further tokens (MTP), where the file has one */
    int vocab_only;      /* read metadata and vocabulary, no weights */
    ie_progress_fn progress;
    void *progress_user;
} ie_model_params;

typedef enum {
    IE_POOL_MEAN, /* the mean of all tokens' hidden states */
    IE_POOL_LAST, /* the last token's */
} ie_pooling;

/* What a model is, for people and for callers that size buffers. Strings live as long as the model. */
typedef struct {
    const char *arch, *name, *backend;
    const char *note; /* why "auto" took the CPU, or NULL */
    int32_t n_vocab, n_ctx_train, n_layer, n_embd, n_head, n_head_kv, head_dim;
    uint64_t n_params;
    uint64_t file_bytes;    /* tensor data in the file(s) */
    uint64_t weight_bytes;  /* weights as kept by the backend */
    uint64_t token_bytes;   /* weight bytes read to decode one token */
    uint64_t state_bytes;   /* recurrent state of a sequence; 0 without recurrent layers */
    int32_t n_recurrent;    /* recurrent layers, of n_layer */
    int32_t n_mtp;          /* layers that predict further tokens in the file, besides n_layer */
    uint64_t mtp_bytes;     /* their tensor data */
    uint64_t kv_bytes_page; /* bytes of one KV page (32 positions, all layers) */
    int32_t bos, eos, eot;  /* -1 where the vocabulary has none */
    int32_t fim_pre, fim_suf, fim_mid; /* tokens before the prefix, the suffix, the middle of a text to fill in; -1 */
    ie_pooling pooling;       /* of embeddings, as the file says; IE_POOL_MEAN where it does not */
    int32_t fim_rep, fim_sep; /* before a repository's name, before a file's name; -1 */
} ie_model_info;

/* Opens a GGUF file (the first of a split set works for the set). NULL on failure, with *err filled.
 * params may be NULL for the defaults. The model must outlive its contexts; close with ie_model_close. */
ie_model *ie_model_open(const char *path, const ie_model_params *params, ie_error *err);
void ie_model_close(ie_model *m); /* NULL is allowed */
void ie_model_get_info(const ie_model *m, ie_model_info *out);

/* ---- text --------------------------------------------------------------------------------------------------------- */

enum {
    IE_TOK_ADD_SPECIAL = 1,   /* add BOS / EOS where the vocabulary's add_bos / add_eos flags say so */
    IE_TOK_PARSE_SPECIAL = 2, /* trusted text: special tokens written out in it become control tokens */
};

/* Tokenizes len bytes. On success *out is an array of *n ids owned by the caller (free with ie_free). */
ie_status ie_tokenize(const ie_model *m, const char *text, size_t len, unsigned flags, int32_t **out, size_t *n,
                      ie_error *err);

enum { IE_DETOK_SPECIAL = 1 }; /* render control tokens as their text instead of leaving them out */

/* Bytes of n tokens as one buffer (*out, *len; NUL-terminated for convenience, free with ie_free). */
ie_status ie_detokenize(const ie_model *m, const int32_t *ids, size_t n, unsigned flags, char **out, size_t *len,
                        ie_error *err);

/* True for tokens that end a text or a turn. */
int ie_token_is_end(const ie_model *m, int32_t id);

/* Renders the chat template with vars, a JSON object whose members become variables ("messages", "tools", "enable_thinking",
 * ...). tmpl (tmpl_len bytes) replaces the model's own template when it is not NULL. *text (NUL-terminated, *text_len bytes)
 * and *ids (*n tokens) are both optional (NULL); what is given is owned by the caller (ie_free). Text that comes from vars
 * never forms control tokens. */
ie_status ie_chat_render(const ie_model *m, const char *tmpl, size_t tmpl_len, const char *vars, size_t vars_len,
                         int add_generation_prompt, char **text, size_t *text_len, int32_t **ids, size_t *n, ie_error *err);
int ie_has_chat_template(const ie_model *m);
/* The model's own template (*len bytes, lives as long as the model), NULL where it has none. */
const char *ie_chat_template(const ie_model *m, size_t *len);

void ie_free(void *p); /* frees what the functions of this header hand out */

/* ---- context ------------------------------------------------------------------------------------------------------ */

typedef struct {
    int32_t n_ctx;  /* positions per sequence; 0 = the model's length or what memory allows */
    int32_t n_seq;  /* sequences, 1 .. 64 (0 = 1) */
    int32_t chunk;  /* prompt tokens per prefill step, 1 .. 512 (0 = 512 on the CPU) */
    uint64_t cache_bytes; /* recurrent states that kept prefixes may hold (ie_prefix_keep), in host memory */
} ie_ctx_params;

ie_ctx *ie_ctx_new(ie_model *m, const ie_ctx_params *params, ie_error *err);
void ie_ctx_free(ie_ctx *c);
int32_t ie_ctx_size(const ie_ctx *c); /* positions per sequence */

typedef enum { IE_DECODE, IE_PREFILL } ie_phase;

/* T tokens, each with its sequence and position. A sequence's tokens are contiguous in the arrays and ascending; its
 * first position equals the sequence's length. Decode: T <= 16. Prefill: T <= chunk. */
typedef struct {
    ie_phase phase;
    int32_t n;
    const int32_t *token, *seq, *pos; /* each n long */
    const uint8_t *want_logits;       /* n long, or NULL: the last token of each sequence only */
} ie_batch;

/* Runs one batch. After success, ie_logits gives the rows asked for. On failure no sequence has changed length; with recurrent
 * layers, after IE_E_NUMERIC the batch's sequences have to begin anew (ie_seq_truncate to 0). */
ie_status ie_eval(ie_ctx *c, const ie_batch *b, ie_error *err);

/* Logits (n_vocab floats) of batch element i of the last ie_eval, -1 for its last element (also after ie_prompt); NULL if they
 * were not asked for.
 * Valid until the next call that takes this context. */
const float *ie_logits(ie_ctx *c, int32_t i);

/* ie_eval for embeddings: the rows that want_logits asks for are final hidden states (behind the last norm, n_embd floats), and
 * the output matrix is not read. ie_hidden gives them as ie_logits gives logits; a step has the one or the other. */
ie_status ie_eval_hidden(ie_ctx *c, const ie_batch *b, ie_error *err);
const float *ie_hidden(ie_ctx *c, int32_t i);

/* The embedding of n tokens: their final hidden states pooled, then scaled to length 1 (zeros stay zeros). out has room for n_embd
 * floats. The same for any chunk size. Sequence seq is emptied before and afterwards. */
ie_status ie_embed(ie_ctx *c, int32_t seq, const int32_t *tokens, int32_t n, ie_pooling pooling, float *out, ie_error *err);

/* Makes sequence seq hold exactly a prefix of tokens[0 .. n): what it already shares with the list is kept, the rest is
 * dropped. *have is the number of tokens kept (at most n - 1, so that there is always one to evaluate, unless n = 0). */
ie_status ie_seq_sync(ie_ctx *c, int32_t seq, const int32_t *tokens, int32_t n, int32_t *have, ie_error *err);

/* ie_seq_sync, then evaluates the tokens of the full list that the sequence does not hold yet, by prefill chunks. Afterwards
 * ie_logits(c, -1) gives the logits of the last one. progress may be NULL. */
ie_status ie_prompt(ie_ctx *c, int32_t seq, const int32_t *tokens, int32_t n, ie_progress_fn progress, void *user,
                    ie_error *err);

/* Drops the positions from len on. A model with recurrent layers can go back to 0 and to any position that its log reaches:
 * inside the last decode batch after its first token; inside the last segment of 32 positions of a prompt. Otherwise it
 * refuses (IE_E_UNSUPPORTED) and nothing changes. */
ie_status ie_seq_truncate(ie_ctx *c, int32_t seq, int32_t len, ie_error *err);
int32_t ie_seq_len(const ie_ctx *c, int32_t seq);

/* A copy of a sequence: its tokens, key / value pages and recurrent state. Owned by the caller, independent of the context.
 * NULL on failure. */
typedef struct ie_snapshot ie_snapshot;
ie_snapshot *ie_seq_save(ie_ctx *c, int32_t seq, ie_error *err);
/* Makes sequence seq what the snapshot holds; going on gives the bits that the saved sequence would have given. The context
 * may be another one of the same model. On failure seq is empty. */
ie_status ie_seq_restore(ie_ctx *c, int32_t seq, const ie_snapshot *s, ie_error *err);
uint64_t ie_snapshot_bytes(const ie_snapshot *s);
int32_t ie_snapshot_len(const ie_snapshot *s); /* tokens */
void ie_snapshot_free(ie_snapshot *s);         /* NULL is allowed */

/* Prefixes. Whole pages (32 positions) can outlive their sequence: a later one whose tokens begin alike shares them without copying.
 * Models with recurrent layers go on from positions whose state was kept. What was used least recently makes room as pages are
 * needed.
 *
 * attach: empties sequence seq and gives it the longest kept prefix of tokens[0 .. n), at most n - 1 tokens. *have: its length;
 * *matched: positions whose pages are kept (more than *have where recurrent states are missing). */
ie_status ie_prefix_attach(ie_ctx *c, int32_t seq, const int32_t *tokens, int32_t n, int32_t *have, int32_t *matched, ie_error *err);
/* Keeps the whole pages of sequence seq; with `state` also its recurrent state, where its length is a multiple of 32. */
ie_status ie_prefix_keep(ie_ctx *c, int32_t seq, int state, ie_error *err);
/* What is kept, to a file and back. save: what was used last comes first, max_bytes at most; the file takes the place of an older one
 * only when it is complete. load: IE_E_IO (no file), IE_E_UNSUPPORTED (of another model, backend or version) or IE_E_FORMAT
 * (damaged): nothing is kept of it then. What finds no room in the context is left out. *n: pages written or kept. */
ie_status ie_prefix_save(ie_ctx *c, const char *path, uint64_t max_bytes, int32_t *n, ie_error *err);
ie_status ie_prefix_load(ie_ctx *c, const char *path, int32_t *n, ie_error *err);

typedef struct {
    int32_t n_pages, n_free, n_kept, n_available; /* available: free, or kept without a sequence that uses them */
    int32_t n_states;                             /* recurrent states kept */
    uint64_t state_bytes;
} ie_prefix_info;
void ie_prefix_get_info(const ie_ctx *c, ie_prefix_info *out);

/* ---- constrained output ------------------------------------------------------------------------------------------- */

/* A *grammar* says which texts may be generated. It is bound to a model's vocabulary, may be shared by threads and by any number
 * of matchers, and caches the masks of the states that were seen (bounded). A *matcher* follows one text, token by token.
 *
 *     x = ie_matcher_new(g, &err)
 *     each token:  ie_matcher_mask(x, left, &mask, &err);  sampling.mask = mask;  ie_sample(...);  ie_matcher_accept(x, id, &err)
 *     until        ie_matcher_done(x), an end token, or no token is left
 *
 * Control tokens are never allowed (unless a GBNF grammar names one), end tokens exactly where the text may end. */
typedef struct ie_grammar ie_grammar;
typedef struct ie_matcher ie_matcher;

typedef enum {
    IE_GRAMMAR_GBNF,        /* llama.cpp's grammar language; the text begins with rule "root" */
    IE_GRAMMAR_JSON_SCHEMA, /* a JSON Schema: what cannot be guaranteed is refused by name */
    IE_GRAMMAR_JSON_OBJECT, /* any JSON object; text is ignored (may be NULL) */
} ie_grammar_kind;

/* Compiles len bytes of text. NULL on failure: IE_E_FORMAT (malformed), IE_E_UNSUPPORTED (a schema keyword that cannot be
 * guaranteed), IE_E_ARG (too large). The model must outlive the grammar. Owned by the caller; matchers keep what they need of it,
 * so it may be freed before them. */
ie_grammar *ie_grammar_new(const ie_model *m, ie_grammar_kind kind, const char *text, size_t len, ie_error *err);
void ie_grammar_free(ie_grammar *g); /* NULL is allowed */
ie_grammar *ie_grammar_share(ie_grammar *g); /* one more owner of the same grammar, who frees it, too */

/* A rule that a GBNF grammar calls but does not define. */
typedef struct {
    const char *rule; /* its name */
    ie_grammar_kind kind;
    const char *text; /* len bytes, as for ie_grammar_new */
    size_t len;
    const char *otherwise; /* a JSON Schema that stands for the text where that is refused; NULL: it is an error */
} ie_grammar_part;

/* A grammar in GBNF with n rules that stand in parts: schemas inside a grammar. Ownership and errors as of ie_grammar_new. */
ie_grammar *ie_grammar_compose(const ie_model *m, const char *gbnf, size_t len, const ie_grammar_part *part, size_t n, ie_error *err);

/* A matcher at the beginning of a text. It belongs to one thread at a time. NULL on failure. */
ie_matcher *ie_matcher_new(ie_grammar *g, ie_error *err);
ie_matcher *ie_matcher_clone(const ie_matcher *x, ie_error *err); /* an independent copy, its way back included */
void ie_matcher_free(ie_matcher *x);                              /* NULL is allowed */

/* *mask: one bit for each of the model's n_vocab tokens (bit id % 64 of word id / 64), set where the token may come next. Valid
 * until the next call with this matcher. left: tokens that may still come, this one included; only tokens are allowed after which
 * the text can be completed within them. -1 = no limit. The promise holds from any state whose ie_matcher_shortest is at most
 * left; where it is more, IE_E_FULL says how many tokens are needed. Nothing is allowed once an end token was accepted.
 * IE_E_UNSUPPORTED: no token of the vocabulary can continue the text, or the grammar is too ambiguous. */
ie_status ie_matcher_mask(ie_matcher *x, int32_t left, const uint64_t **mask, ie_error *err);
/* Goes on by a token. IE_E_ARG, and nothing changes, if the grammar does not allow it here. */
ie_status ie_matcher_accept(ie_matcher *x, int32_t token, ie_error *err);
/* Takes the last n tokens back. IE_E_ARG, and nothing changes, if that is more than were accepted or more than 64. */
ie_status ie_matcher_back(ie_matcher *x, int32_t n, ie_error *err);
/* The text so far is complete: an end token is allowed, or was accepted. */
int ie_matcher_complete(const ie_matcher *x);
/* The text is complete and nothing but an end token can follow, or one was accepted. */
int ie_matcher_done(const ie_matcher *x);
/* *n: tokens that complete the text (without an end token): those of the shortest completion in bytes, cut into as few tokens as
 * the vocabulary allows. INT32_MAX where that is beyond any budget. */
ie_status ie_matcher_shortest(ie_matcher *x, int32_t *n, ie_error *err);

/* ---- sampling ----------------------------------------------------------------------------------------------------- */

/* Added to a token's logit; -INFINITY forbids the token. */
typedef struct {
    int32_t token;
    float bias;
} ie_bias;

typedef struct {
    float temp;           /* 0 = greedy */
    int32_t top_k;        /* 0 = no limit */
    float top_p, min_p;   /* 1 and 0 = no limit */
    float repeat_penalty; /* 1 = none; on the last repeat_last tokens */
    int32_t repeat_last;
    uint64_t seed;
    /* On tokens that the output so far holds: presence once, frequency for each time. 0 = none. */
    float presence_penalty, frequency_penalty;
    const ie_bias *bias;  /* n_bias of them, or NULL; owned by the caller */
    int32_t n_bias;
    const uint64_t *mask; /* one bit for each token, set where it is allowed (ie_matcher_mask); NULL = all */
} ie_sampling;

void ie_sampling_default(ie_sampling *s);

/* Chooses a token from one row of logits. index is the number of the output token: one random number is drawn for each,
 * from the seed and the index alone (docs/NUMERICS.md). history (n_history ids, newest last) serves the penalties; its last
 * `index` ids are the output so far. IE_E_NUMERIC if no logit is finite. */
ie_status ie_sample(const ie_sampling *s, const float *logits, int32_t n_vocab, const int32_t *history,
                    int32_t n_history, uint64_t index, int32_t *out, ie_error *err);

typedef struct {
    int32_t token;
    float logprob; /* natural logarithm of its probability at temperature 1, all tokens allowed */
} ie_token_prob;

/* Log-probability of one token (-INFINITY where its logit is not finite), and the k likeliest tokens of the row, best first, ties
 * by lower id: top has room for k, *n_top is their number (fewer than k where fewer logits are finite). k may be 0. */
ie_status ie_logprobs(const float *logits, int32_t n_vocab, int32_t token, int32_t k, float *logprob, ie_token_prob *top,
                      int32_t *n_top, ie_error *err);

/* ---- generation --------------------------------------------------------------------------------------------------- */

/* Called for each token with the bytes of whole UTF-8 characters that have become ready (n may be 0; the last call of a
 * generation has token = -1 and the rest of the bytes). A non-zero result ends the generation (IE_STOP_CALLER). */
typedef int (*ie_token_fn)(void *user, int32_t token, const char *bytes, size_t n);

typedef struct {
    ie_sampling sampling;
    /* The output follows this grammar and is complete even where max_tokens or the context ends it (IE_E_FULL before the first
     * token where they cannot suffice). It ends at end tokens and where nothing else can follow. NULL = free. */
    ie_grammar *grammar;
    int32_t max_tokens;   /* -1 = until the context is full */
    int stop_at_end;      /* end at end-of-text and end-of-turn tokens (which are not handed out as text) */
    ie_token_fn on_token; /* may be NULL */
    /* Called for each step with a position, the token at it and the logits that follow it; may be NULL. */
    void (*on_logits)(void *user, int32_t pos, int32_t token, const float *logits, int32_t n_vocab);
    ie_progress_fn progress; /* for the prompt */
    void *user;
} ie_gen_params;

typedef enum { IE_STOP_LENGTH, IE_STOP_END, IE_STOP_FULL, IE_STOP_CALLER } ie_stop_reason;

typedef struct {
    int32_t n_prompt, n_cached; /* prompt tokens; those of them that were already evaluated */
    int32_t n_predicted;
    double prompt_s, predicted_s;
    ie_stop_reason stop;
} ie_gen_result;

/* Brings sequence seq to hold the n prompt tokens, then generates. *out (optional) receives the new tokens (*n_out, owned
 * by the caller: ie_free), including an end token that stopped it. The sequence keeps prompt and output. */
ie_status ie_generate(ie_ctx *c, int32_t seq, const int32_t *prompt, int32_t n, const ie_gen_params *p, ie_gen_result *res,
                      int32_t **out, ie_error *err);

#ifdef __cplusplus
}
#endif
#endif
