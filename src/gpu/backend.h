/* The GPU backend's records: the backend with its weights, a state, and the launches of a step. */
#ifndef IE_GPU_BACKEND_H
#define IE_GPU_BACKEND_H

#include <assert.h>
#include <pthread.h>

#include "../cpu/pool.h"
#include "../step.h"
#include "modules.h"
#include "range.h"

#define GPU_KERNELS 512u /* functions looked up */
#define GPU_PLANS 24u    /* launch lists that a state keeps */
#define GPU_SLABS 2u     /* staging buffers: one is filled while the other is uploaded */

/* Staging of weights: pinned memory, kept while a model is loaded. */
typedef struct {
    uint8_t *p[GPU_SLABS];
    gpu_event sent[GPU_SLABS]; /* the upload out of p[i] is through */
    bool used[GPU_SLABS];
    uint64_t bytes; /* of each */
    uint32_t next;
} gpu_staging;

typedef struct {
    const char *name;
    gpu_function f;
} gpu_kernel;

/* IE_GRAPH_BENCH: seconds of so many runs of one step. */
typedef struct {
    uint32_t runs;
    double launches_s, graph_s;
} gpu_graph_times;

/* Device memory of the states that there are, and what the driver says of the card then: IE_PROFILE shows the most that there was. */
typedef struct {
    uint64_t fixed, pages, pages_room, scratch; /* pages: what has memory of pages_room */
    uint64_t card, card_room;
} gpu_held;

/* Environment switches, read when the backend is opened. */
typedef struct {
    bool graph, host_topk, stream;
    uint32_t graph_bench; /* 0: off, or done */
} gpu_switches;

typedef struct {
    ie_backend be; /* first: the public handle */
    gpu_driver *drv;
    ie_pool *pool; /* repacks weights */
    gpu_stream stream;
    gpu_modules modules;
    gpu_kernel kernel[GPU_KERNELS];
    uint32_t n_kernel;
    gpu_ptr weights;
    uint64_t weight_bytes;
    gpu_staging staging;
    gpu_switches sw;
    gpu_graph_times times;
    gpu_held held, most; /* most: as a state ended */
    gpu_attn_choice attn;
    gpu_mat_choice mat;
    float attn_worst; /* IE_ATTN=check: largest relative difference of the states that have ended */
    pthread_mutex_t lock; /* contexts of several threads take turns */
    ie_profile *profile;  /* NULL unless IE_PROFILE asks for it */
    struct gpu_trace *trace;
    gpu_event *event;     /* profile: one before each op, one at the end */
    uint32_t n_event;
    char about[160];
} gpu_backend;

/* Host memory that the device copies from and to, pinned. */
typedef struct {
    ie_abi_batch batch;
    ie_abi_gdn gdn;
    uint32_t bad;
    ie_abi_cand top[IE_TOPK_MAX];
    ie_abi_best best;
} gpu_pinned;

/* What the launches of a run depend on (launch_*.c): equal keys, equal launches. */
typedef struct {
    const ie_op *ops;
    const ie_weights *w;
    uint32_t n_ops, first, last, n, n_out;
    uint32_t parts;  /* 8-page parts of the longest sequence */
    uint32_t starts; /* bit t: token t begins another sequence than t - 1's */
    uint32_t zero;   /* keys are compared as bytes, so without padding */
} gpu_key;
static_assert(sizeof(gpu_key) == 2 * sizeof(void *) + 8 * sizeof(uint32_t), "padding in gpu_key");

typedef struct {
    gpu_key key;
    gpu_launches l;
    gpu_function *f; /* of each launch */
    gpu_graph graph; /* NULL: not recorded */
    uint32_t uses;
    uint64_t stamp;  /* of the last use */
} gpu_plan;

/* A choice among n logits at byte off of the arena. Who asked once asks again after the next step: that runs it along (one wait for the
 * device instead of two), until a step's answer goes unused. */
typedef struct {
    uint64_t off;
    uint32_t n, k;
    bool asked, ready; /* ready: the answer for the arena's present contents is in gpu_pinned */
} gpu_request;

typedef struct {
    ie_state_desc d;
    gpu_ptr mem; /* everything of a fixed size in one piece */
    uint64_t bytes;
    bool made;            /* counted in gpu_backend.held */
    gpu_range pages;
    uint64_t pages_clean; /* bytes of the pages that have memory, zeroed when it came */
    gpu_ptr arena, kv, gdn, batch, table, rope;
    gpu_ptr scratch, sample; /* sample: candidates, then the work memory of choosing them; 0 before first use */
    uint64_t scratch_bytes;
    gpu_pinned *pin;
    uint32_t *table_seen; /* pinned: page tables as uploaded */
    uint32_t rope_n;      /* rows uploaded */
    gpu_request top;
    gpu_plan plan[GPU_PLANS];
    uint64_t stamp;
    ie_gdn_log log;       /* where the sequences' recurrent states stand; unused without recurrent layers */
} gpu_state;

static inline gpu_backend *gpu_of(ie_backend *be) { return (gpu_backend *)(void *)be; }
static inline gpu_state *gpu_state_of(ie_state *st) { return (gpu_state *)(void *)st; }

/* Locks the backend and binds its device to the thread; gpu_leave unlocks and passes the status on. */
ie_status gpu_enter(gpu_backend *g, ie_error *err);
ie_status gpu_leave(gpu_backend *g, ie_status st);

/* ---- weights.c ---- */
ie_status gpu_weights_alloc(ie_backend *be, ie_weights *w, ie_error *err);
ie_status gpu_weights_fill(ie_backend *be, const ie_mat *m, ie_rows_fn rows, void *ctx, ie_error *err);
ie_status gpu_weights_vec(ie_backend *be, const ie_vec *v, const float *data, ie_error *err);
ie_status gpu_staging_end(gpu_backend *g, ie_error *err); /* waits for uploads, frees the staging memory */

/* ---- state.c ---- */
void gpu_state_room(ie_backend *be, const ie_state_desc *d, uint64_t *need, uint64_t *have);
ie_status gpu_state_new(ie_backend *be, const ie_state_desc *d, ie_state **out, ie_error *err);
void gpu_state_free(ie_backend *be, ie_state *st);
/* The pages up to `page` have memory. */
ie_status gpu_pages_room(gpu_backend *g, gpu_state *s, uint32_t page, ie_error *err);
void gpu_plans_drop(gpu_backend *g, gpu_state *s);
void gpu_memory_note(gpu_backend *g); /* gpu_backend.most */
void gpu_attn_note(gpu_backend *g, gpu_state *s);
ie_status gpu_arena_read(ie_backend *be, ie_state *st, uint64_t off, void *dst, uint64_t bytes, ie_error *err);
ie_status gpu_arena_write(ie_backend *be, ie_state *st, uint64_t off, const void *src, uint64_t bytes, ie_error *err);
ie_status gpu_page_copy(ie_backend *be, ie_state *st, uint32_t dst, uint32_t src, ie_error *err);
ie_status gpu_page_save(ie_backend *be, ie_state *st, uint32_t page, void *dst, ie_error *err);
ie_status gpu_page_load(ie_backend *be, ie_state *st, uint32_t page, const void *src, ie_error *err);
ie_status gpu_seq_rewind(ie_backend *be, ie_state *st, uint32_t seq, uint32_t pos, ie_error *err);
uint64_t gpu_seq_bytes(ie_backend *be, ie_state *st);
ie_status gpu_seq_save(ie_backend *be, ie_state *st, uint32_t seq, void *dst, ie_error *err);
ie_status gpu_seq_load(ie_backend *be, ie_state *st, uint32_t seq, const void *src, ie_error *err);

/* ---- top.c ---- */
ie_status gpu_top(ie_backend *be, ie_state *st, uint64_t off, uint32_t n, uint32_t k, ie_cand *out, uint32_t *have, ie_error *err);

ie_status gpu_top_begin(gpu_backend *g, gpu_state *s, ie_error *err); /* s->top's launches and the download; does not wait */

/* ---- run.c ---- */
ie_status gpu_run_list(ie_backend *be, ie_state *st, const ie_weights *w, const ie_oplist *l, uint32_t first, uint32_t last,
                       const ie_step *step, ie_error *err);
ie_status gpu_kernel_find(gpu_backend *g, const char *name, gpu_function *out, ie_error *err);

/* ---- trace.c: IE_TRACE ---- */
typedef struct gpu_trace gpu_trace;
gpu_trace *gpu_trace_new(const char *path, ie_error *err);
void gpu_trace_free(gpu_trace *t);
ie_status gpu_trace_check(gpu_trace *t, ie_error *err); /* IE_E_IO where not all could be written; NULL is allowed */
void gpu_trace_run(gpu_trace *t, const ie_run *r, const gpu_launches *l);
void gpu_trace_sample(gpu_trace *t, const gpu_launches *l); /* choosing among the last run's logits */

#endif
