/* What a backend must do. The CPU backend is src/cpu/backend.c; GPU backends implement the same table.
 *
 * A backend holds one model's weight memory and any number of *states* (one per context): an arena for the activations of
 * a step, a pool of KV pages, and recurrent state. It knows ops, not models. */
#ifndef IE_BACKEND_H
#define IE_BACKEND_H

#include "model/weights.h"

typedef struct ie_backend ie_backend;
typedef struct ie_state ie_state;

#define IE_MAX_HD 1024u /* largest head */

/* The KV geometry of a model: all layers alike. A page holds, for each KV layer and each KV head, K [hdp/8][32][8] then
 * V [32][hdp] in f16, hdp = ie_head_pad(hd):
 *   byte of (page, layer, head) = ((page * n_layer + layer) * n_kv + head) * hdp * 32 * 2 elements * 2 bytes. */
typedef struct {
    uint32_t n_layer, n_kv, hd;
    uint8_t f32; /* elements are f32 (IE_ACT=f32) */
} ie_kv_shape;

static inline uint64_t ie_kv_head_elems(const ie_kv_shape *s) { return (uint64_t)ie_head_pad(s->hd) * IE_PAGE * 2u; }
static inline uint64_t ie_kv_page_bytes(const ie_kv_shape *s) {
    return (uint64_t)s->n_layer * s->n_kv * ie_kv_head_elems(s) * (s->f32 ? 4u : 2u);
}

/* The recurrent layers of a model (Gated DeltaNet), all alike; n_layer 0: none. For each sequence and layer a backend keeps
 *   the state S of each value head at a position `base`, f32 [hd / 32][hd][32]: element (key i, value j) at
 *     (j / 32 * hd + i) * 32 + j % 32;
 *   the 3 inputs of the convolution before base; and
 *   a log of the inputs (q | k | v before the convolution, then beta and log decay) of positions base .. base + 31.
 * A step replays what the log holds from base up to its first position, so a sequence can go on from any position that the
 * log reaches. A state at base 0 is zero and never read. */
typedef struct {
    uint32_t n_layer, n_k, n_v, hd; /* key heads, value heads (a multiple), size of both: a multiple of 32, at most 256 */
} ie_gdn_shape;

#define IE_GDN_TAPS IE_LOG_TAPS
#define IE_GDN_MAX_HD 256u

static inline uint64_t ie_gdn_channels(const ie_gdn_shape *s) { return (2u * (uint64_t)s->n_k + s->n_v) * s->hd; }
static inline uint64_t ie_gdn_log_row(const ie_gdn_shape *s) { return ie_gdn_channels(s) + 2u * (uint64_t)s->n_v; }
/* Bytes of one sequence. */
static inline uint64_t ie_gdn_seq_bytes(const ie_gdn_shape *s) {
    return 4u * s->n_layer * ((uint64_t)s->n_v * s->hd * s->hd + (IE_LOG_SLOTS + IE_GDN_TAPS) * ie_gdn_log_row(s));
}

typedef struct {
    uint64_t arena_bytes;
    ie_kv_shape kv;
    ie_gdn_shape gdn;
    uint32_t n_pages;
    uint32_t n_seq;
    uint32_t max_t;         /* tokens of the largest batch */
    uint32_t pages_per_seq; /* length of a page table */
    /* RoPE: rows of rope_half (cos, sin) pairs, made by the host in double: pair i of a position is at
     * rope[(pos * rope_half + i) * 2]. Owned by the caller, outlives the state; ie_step.rope_n says how many rows are
     * filled so far (they never change afterwards). */
    uint32_t rope_half;
    const float *rope;
    uint32_t rope_rows; /* positions that the table has room for */
} ie_state_desc;

/* One step, as the context hands it over. Arrays are n long; out has n_out entries (indices of batch rows). */
typedef struct {
    ie_phase phase;
    uint32_t n, n_out;
    const int32_t *token, *seq, *pos;
    const uint32_t *out;
    const uint32_t *page_table; /* [n_seq][pages_per_seq] page numbers */
    uint32_t rope_n;            /* positions whose RoPE rows are filled */
} ie_step;

/* A token and its logit. */
typedef struct {
    float v;
    int32_t id;
} ie_cand;

/* Rows [row0, row0 + n) of a matrix as word-major units (quant.h) to `units`: whole tiles, zeroed, that begin at row0, a
 * multiple of 32; n is one too but at the matrix's end. May be called by several threads at a time. */
typedef ie_status (*ie_rows_fn)(void *ctx, uint32_t row0, uint32_t n, uint32_t *units, ie_error *err);

typedef struct {
    const char *name;
    void (*destroy)(ie_backend *be);

    /* Weight memory. alloc, once: gives every matrix and vector of w its place (off, bytes) in the backend's own layout, sets
     * w->bytes and allocates; IE_E_NOMEM says what is needed and what is free, before anything is filled. fill: all of a
     * matrix, by calls of rows from the backend's threads. vec: v->n floats. */
    ie_status (*weights_alloc)(ie_backend *be, ie_weights *w, ie_error *err);
    ie_status (*weights_fill)(ie_backend *be, const ie_mat *m, ie_rows_fn rows, void *ctx, ie_error *err);
    ie_status (*weights_vec)(ie_backend *be, const ie_vec *v, const float *data, ie_error *err);

    /* Bytes that a state of this description would take, and those that are free; *have 0: not known. */
    void (*state_room)(ie_backend *be, const ie_state_desc *d, uint64_t *need, uint64_t *have);
    ie_status (*state_new)(ie_backend *be, const ie_state_desc *d, ie_state **out, ie_error *err);
    void (*state_free)(ie_backend *be, ie_state *st);

    /* Runs ops [first, last) of a list. IE_E_NUMERIC when a non-finite activation was quantised. */
    ie_status (*run)(ie_backend *be, ie_state *st, const ie_weights *w, const ie_oplist *l, uint32_t first, uint32_t last,
                     const ie_step *step, ie_error *err);
    /* Arena bytes to and from host memory. */
    ie_status (*read)(ie_backend *be, ie_state *st, uint64_t off, void *dst, uint64_t bytes, ie_error *err);
    ie_status (*write)(ie_backend *be, ie_state *st, uint64_t off, const void *src, uint64_t bytes, ie_error *err);
    /* Address of arena bytes that the host may read after run, or NULL where they are not in host memory. */
    const void *(*host_ptr)(ie_backend *be, ie_state *st, uint64_t off);
    /* The k best of the n floats at an arena offset, NaNs and infinities left out: value descending, ties by lower id. *have of
     * them. IE_E_UNSUPPORTED where the device cannot: then the host has to read the row. NULL: the host is as good. */
    ie_status (*top)(ie_backend *be, ie_state *st, uint64_t off, uint32_t n, uint32_t k, ie_cand *out, uint32_t *have, ie_error *err);
    /* One KV page onto another (a partial page that two sequences share a prefix of). */
    ie_status (*page_copy)(ie_backend *be, ie_state *st, uint32_t dst, uint32_t src, ie_error *err);
    /* Recurrent state (ie_gdn_shape). rewind: makes sequence seq go on from position pos, at most where it is; 0 always
     * works, otherwise IE_E_UNSUPPORTED where the log does not reach back to pos. Models without recurrent layers: nothing
     * to do. */
    ie_status (*seq_rewind)(ie_backend *be, ie_state *st, uint32_t seq, uint32_t pos, ie_error *err);
    /* The recurrent state of a sequence and one KV page as bytes: seq_bytes and ie_kv_page_bytes of them. */
    uint64_t (*seq_bytes)(ie_backend *be, ie_state *st);
    ie_status (*seq_save)(ie_backend *be, ie_state *st, uint32_t seq, void *dst, ie_error *err);
    ie_status (*seq_load)(ie_backend *be, ie_state *st, uint32_t seq, const void *src, ie_error *err);
    ie_status (*page_save)(ie_backend *be, ie_state *st, uint32_t page, void *dst, ie_error *err);
    ie_status (*page_load)(ie_backend *be, ie_state *st, uint32_t page, const void *src, ie_error *err);
    /* Prints the profile collected so far (IE_PROFILE) into out; nothing when profiling is off. */
    ie_status (*profile)(ie_backend *be, ie_buf *out, ie_error *err);
    const char *(*describe)(ie_backend *be); /* e.g. "cpu, avx512, 2 threads" */
} ie_backend_api;

struct ie_backend {
    const ie_backend_api *api;
    uint32_t max_t; /* tokens of the largest step */
};

/* Gives every matrix and vector its offset (multiples of 256) and every matrix its bytes; w->bytes: their sum. */
void ie_weights_place(ie_weights *w, uint64_t (*mat_bytes)(const ie_format *f, uint32_t rows, uint32_t cols));

typedef struct {
    int threads;       /* 0 = cores available to the process */
    int device;        /* 1 + its number, 0 = the first that can be used */
    int gpu_layers;    /* layers on the GPU, the rest on the CPU; 0 = all */
    const char *hsaco; /* file of GPU code instead of the built-in, or NULL */
    ie_error *note;    /* NULL, or where to say why "auto" took the CPU; code IE_OK otherwise */
} ie_backend_params;

/* A backend by name: "cpu", "hip", "cuda", "gpu" (whichever of the two is there), "auto" or NULL (a GPU, else the CPU). */
ie_backend *ie_backend_open(const char *name, const ie_backend_params *p, ie_error *err);
ie_backend *ie_cpu_open(const ie_backend_params *p, ie_error *err);
ie_backend *ie_hip_open(const ie_backend_params *p, ie_error *err);
ie_backend *ie_cuda_open(const ie_backend_params *p, ie_error *err);
/* The first n layers by gpu, which it owns from now on, all else by a CPU backend. */
ie_backend *ie_split_open(ie_backend *gpu, const ie_backend_params *p, ie_error *err);
/* One line for each GPU, or the reason why there is none. */
ie_status ie_backend_devices(ie_buf *out, ie_error *err);

#endif
