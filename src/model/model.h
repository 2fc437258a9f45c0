/* An open model, as the engine's own files see it: sizes, weights, op list. Read-only after ie_model_open. */
#ifndef IE_MODEL_H
#define IE_MODEL_H

#include "../backend.h"
#include "../gguf.h"
#include "../plan.h"
#include "../text/tokenizer.h"

#define IE_MAX_LAYERS 1024u
#define IE_MAX_CTX (1u << 20)
#define IE_HEAD_ROWS IE_DECODE_T /* rows that the head list takes at once */

typedef enum { ROPE_NONE, ROPE_LINEAR, ROPE_YARN } ie_rope_scaling;

/* How rotary angles are made (rope.c). */
typedef struct {
    uint32_t dim;   /* dimensions rotated, even, <= head size */
    bool neox;
    double base;
    ie_rope_scaling scaling;
    double factor;         /* > 0: context extension; 1 = none */
    double attn_factor;    /* YaRN: multiplies cos and sin on top of its own magnitude */
    double ext_factor, beta_fast, beta_slow;
    uint32_t orig_ctx;     /* YaRN: the context that the model was trained with before extension */
    float *freq_factors;   /* dim / 2 divisors (Llama 3's rope_freqs), or NULL; owned by the model */
} ie_rope;

typedef struct {
    uint32_t n_layer, n_embd, n_ff, n_head, n_kv, hd, n_vocab, n_ctx_train;
    uint32_t window; /* sliding window of all layers, 0 = none */
    float eps;
    float attn_scale;
    ie_rope rope;
} ie_hparams;

typedef struct ie_arch ie_arch;

struct ie_model {
    const ie_arch *arch;
    ie_hparams hp;
    ie_gguf *gguf; /* metadata stays for callers (templates, --info) */
    ie_tokenizer *tok; /* NULL when the file has no vocabulary */
    ie_backend *be;    /* NULL with vocab_only */
    ie_weights w;
    ie_kv_shape kv;
    ie_gdn_shape gdn; /* recurrent layers; n_layer 0: none */
    bool mtp;         /* the MTP layer is wanted (before loading), is loaded (after) */
    uint32_t n_mtp;   /* MTP layers of the file, and the bytes of their tensors */
    uint64_t mtp_bytes;
    bool act_f32;     /* IE_ACT=f32: float activations for all matrices */
    void *layers;     /* the architecture's own record of weight indices (free() releases it) */
    uint64_t n_params, token_bytes;
    char *name;       /* general.name, or the file's name */
    ie_error note;    /* why "auto" took the CPU; code IE_OK otherwise */
    struct gr_vocab *_Atomic constrain; /* the vocabulary as grammars walk it, made when one first asks for it (src/gen/constrain.c) */
};

/* ---- loading (load.c) --------------------------------------------------------------------------------------------- */

/* Collects the tensors of a model, then streams them into the backend's weight memory. */
typedef struct ie_loader ie_loader;

/* Reads sizes and registers tensors through m->arch->load, checks that every tensor of the file has been claimed, then
 * allocates weight memory and fills it. */
ie_status ie_model_load(ie_model *m, const ie_model_params *p, ie_error *err);

/* One part of a matrix or vector: a tensor by name. rows x cols is the shape the architecture expects (ne = [cols, rows]). */
typedef struct {
    const char *name;
    uint32_t rows, cols;
} ie_part;

/* Registers a matrix made of n parts with the same cols, rows one after the other. The tensors must exist, have the
 * expected shapes and equal types. The index of the matrix goes to *out. */
ie_status ie_load_mat(ie_loader *l, const ie_part *parts, uint32_t n, int32_t *out, ie_error *err);
/* True when all n tensors exist and have one type, so that they may be joined (and IE_JOIN is not 0). */
bool ie_load_same_type(const ie_loader *l, const ie_part *parts, uint32_t n);
bool ie_load_has(const ie_loader *l, const char *name);
/* Registers a vector of n parts (rows elements each, cols = 0; or a small matrix of floats, rows after rows; up to 2^24 elements); a missing part counts as zeros when optional, and a vector
 * all of whose parts are missing gives IE_NO_W. */
ie_status ie_load_vec(ie_loader *l, const ie_part *parts, uint32_t n, bool optional, int32_t *out, ie_error *err);
/* Reads a small float tensor to host memory (rows elements; owned by the caller). */
ie_status ie_load_host_vec(ie_loader *l, const ie_part *part, float **out, ie_error *err);
/* Marks a tensor as known though it is not used (e.g. an MTP layer that is loaded on demand). */
void ie_load_ignore(ie_loader *l, const char *name);

/* ---- building op lists (build.c) ----------------------------------------------------------------------------------- */

typedef struct ie_builder ie_builder;

/* A buffer of the arena: floats or Q8 blocks per token; of_rows buffers hold IE_HEAD_ROWS rows. Operand fields of ops hold
 * buffer numbers until ie_model_plan turns them into offsets. */
ie_off ie_build_f32(ie_builder *b, uint32_t floats, bool of_rows);
ie_off ie_build_q8(ie_builder *b, uint32_t k, bool of_rows);
ie_status ie_build_op(ie_builder *b, const ie_op *op, ie_error *err);
/* Keeps a buffer alive through the next op: a backend may do that op together with the one before it, which reads the buffer. */
void ie_build_keep(ie_builder *b, ie_off i);
/* Hidden states that pass between lists, [T][n_embd] f32: what this list takes (written before it runs), and what it leaves
 * (read after it has run). */
void ie_build_hidden(ie_builder *b, ie_off in, ie_off out);
/* The list is for final hidden states: its head ends with the normed rows in f32 (ie_lay_head). */
bool ie_build_states(const ie_builder *b);

/* ---- architectures ------------------------------------------------------------------------------------------------- */

struct ie_arch {
    const char *name; /* general.architecture */
    /* Fills m->hp and registers the tensors. */
    ie_status (*load)(ie_model *m, ie_loader *l, ie_error *err);
    /* Builds the op list: the body, then the head (it starts with OP_ROWS; its last op writes the logits). */
    ie_status (*build)(const ie_model *m, ie_builder *b, ie_error *err);
    /* The MTP layer's list (m->mtp), NULL for architectures without one. For a token at position p it takes the hidden state
     * that the main list left at p - 1 (zeros at 0), or the one that this list left, when drafting on; its logits predict
     * the token at p + 1 (the one after the main model's next). */
    ie_status (*build_mtp)(const ie_model *m, ie_builder *b, ie_error *err);
};

extern const ie_arch ie_arch_llama, ie_arch_qwen2, ie_arch_qwen3, ie_arch_qwen35;
const ie_arch *ie_arch_find(ie_str name);
const char *ie_arch_list(void);

/* The common metadata of dense transformers; prefix is the architecture's name. */
ie_status ie_hparams_read(const ie_gguf *g, const char *prefix, ie_hparams *hp, ie_error *err);

/* ---- RoPE (rope.c) -------------------------------------------------------------------------------------------------- */

ie_status ie_rope_read(const ie_gguf *g, const char *prefix, ie_rope *r, ie_error *err);
/* Fills rows [from, to) of the table: dim / 2 pairs (cos, sin) a position, computed in double. */
void ie_rope_fill(const ie_rope *r, uint32_t from, uint32_t to, float *table);

/* ---- planning (build.c) --------------------------------------------------------------------------------------------- */

/* The model's op list with arena offsets for batches of up to max_t tokens. The head starts at op head_at and may be run
 * again for other rows of the same step, IE_HEAD_ROWS at a time; logits are [IE_HEAD_ROWS][n_vocab] f32. */
typedef struct {
    ie_oplist list;
    uint32_t head_at;
    ie_off logits;
    ie_off hidden_in, hidden_out; /* ie_build_hidden; IE_NO_OFF where there is none */
    uint64_t arena_bytes;
} ie_exec_plan;

ie_status ie_model_plan(const ie_model *m, uint32_t max_t, ie_exec_plan *out, ie_error *err);
/* The same without the output matrix: `logits` are the rows behind the last norm, [IE_HEAD_ROWS][n_embd] f32. */
ie_status ie_model_plan_states(const ie_model *m, uint32_t max_t, ie_exec_plan *out, ie_error *err);
/* The same for the MTP layer's list. */
ie_status ie_model_plan_mtp(const ie_model *m, uint32_t max_t, ie_exec_plan *out, ie_error *err);
void ie_exec_plan_free(ie_exec_plan *p);

#endif
