/* The CPU backend's own records: backend, state, and a step while it runs. */
#ifndef IE_CPU_H
#define IE_CPU_H

#include <stdatomic.h>

#include "../step.h"
#include "mm.h"
#include "ops.h"
#include "pool.h"

typedef struct cpu_gdn cpu_gdn;         /* gdn_run.c */

/* Memory from the system: zeroed, pages taken when first touched. */
typedef struct {
    void *p;
    uint64_t bytes;
    void *map; /* what was mapped, p aligned inside it */
    uint64_t map_bytes;
} cpu_memory;

/* IE_GDN_CHECK: largest differences of segments from token by token, and the largest values, as bits of floats >= 0. */
typedef struct {
    bool on;
    _Atomic uint32_t result, result_max, state, state_max;
} cpu_gdn_check;

typedef struct {
    ie_backend be; /* first: the public handle */
    ie_pool *pool;
    const ie_mm_table *mm;
    const ie_ops_table *ops;
    cpu_memory weight_memory;
    uint8_t *weights; /* its bytes */
    uint64_t weight_bytes;
    cpu_gdn_check gdn_check;
    ie_profile *profile; /* NULL unless IE_PROFILE=1 */
    char about[64];
} cpu_backend;

/* Neighbouring tokens of one sequence, taken together by attention. */
typedef struct {
    uint32_t t0, n;
} cpu_block;

/* How attention is shared out in a step: items are (block, KV head, split), the splits of a block's partials last. */
typedef struct {
    cpu_block block[IE_MAX_T];
    uint32_t n_block, tokens; /* blocks, tokens of the largest */
    uint32_t n_split;         /* shares of a block's partials; the last to finish joins them */
    uint32_t n_part;          /* partials of the block that has most */
    uint32_t max_nq;          /* queries of the largest block and op */
    uint64_t thread_floats;   /* scratch of one thread */
} cpu_attn_plan;

/* How an op of the list is run in a step. */
typedef struct {
    bool no_barrier; /* the next op may start before all have finished this one */
    bool swiglu;     /* MATMUL: does the SWIGLU behind it too, which then has nothing to do */
    bool done;       /* such a SWIGLU */
} cpu_how;

struct ie_state {
    ie_state_desc d;
    cpu_memory arena, kv;
    cpu_memory floats;  /* IE_ACT=f32: a tile of weights for each thread */
    uint32_t float_cols;
    cpu_memory scratch; /* attention: counters, a part for each thread, the partials of split blocks */
    cpu_attn_plan attn;
    cpu_gdn *gdn; /* recurrent state; NULL without recurrent layers */
    cpu_memory ffn; /* gate and up of a few rows, a part for each thread */
    cpu_how *how;   /* for each op of the list */
    size_t how_cap;
};

/* One step. Read-only while ops run, but for `bad`. */
typedef struct {
    cpu_backend *cpu;
    ie_state *st;
    const ie_weights *w;
    const ie_oplist *list;
    uint32_t first, last;
    const ie_step *step;
    uint32_t tail, tail_end; /* ops [tail, tail_end) work on tokens [t0, t1) only: nothing else of their results is used */
    uint32_t t0, t1;         /* t0 a multiple of IE_DECODE_T, t1 one too or step->n; at least two tokens */
    _Atomic uint32_t bad; /* 1 + index of the first op that quantised a non-finite value; 0 = none */
    double began;            /* IE_PROFILE: when the run began, and nanoseconds from there to the end of each op's last piece */
    _Atomic uint64_t *ended; /* [last - first]; NULL without */
} cpu_run;

/* ---- ops_run.c: what each op kind does --------------------------------------------------------------------------- */

/* Rows of an op's operands. */
static inline uint32_t cpu_rows(const cpu_run *r, const ie_op *op) { return op->of_rows ? r->step->n_out : r->step->n; }
/* Those that it works on. */
typedef struct {
    uint32_t t0, n;
} cpu_span;
static inline cpu_span cpu_op_span(const cpu_run *r, const ie_op *op) {
    uint32_t i = (uint32_t)(op - r->list->ops);
    return i >= r->tail && i < r->tail_end ? (cpu_span){r->t0, r->t1 - r->t0} : (cpu_span){0, cpu_rows(r, op)};
}
static inline const cpu_how *cpu_op_how(const cpu_run *r, const ie_op *op) { return &r->st->how[op - r->list->ops]; }

/* Pieces of work of an op; *grain: pieces to take at a time. */
uint32_t cpu_op_pieces(const cpu_run *r, const ie_op *op, uint32_t *grain);
/* Pieces [i0, i1). */
void cpu_op_work(cpu_run *r, const ie_op *op, uint32_t thread, uint32_t i0, uint32_t i1);

static inline float *cpu_f32(const cpu_run *r, ie_off off) { return (float *)(void *)((uint8_t *)r->st->arena.p + (uint64_t)off * 256u); }
static inline uint32_t *cpu_q8(const cpu_run *r, ie_off off) { return (uint32_t *)cpu_f32(r, off); }
static inline const float *cpu_vec(const cpu_run *r, int32_t vec) {
    return (const float *)(const void *)(r->cpu->weights + r->w->vec[vec].off);
}
/* Notes that op quantised a value that is not finite. */
void cpu_bad(cpu_run *r, const ie_op *op);

/* ---- attn_run.c: attention and KV pages ---------------------------------------------------------------------------- */

/* Shares out the step's attention and makes room for its scratch. */
ie_status cpu_attn_prepare(cpu_run *r, ie_error *err);
uint32_t cpu_attn_pieces(const cpu_run *r, const ie_op *op);
void cpu_attn_work(cpu_run *r, const ie_op *op, uint32_t thread, uint32_t i0, uint32_t i1);
void cpu_rope_work(cpu_run *r, const ie_op *op, uint32_t i0, uint32_t i1);

/* ---- gdn_run.c: recurrent layers ----------------------------------------------------------------------------------- */

ie_status cpu_gdn_new(const cpu_backend *cpu, ie_state *st, ie_error *err); /* as st->d.gdn says; freed also when it fails */
void cpu_gdn_free(ie_state *st);
/* Before and after the ops of a step: where its sequences stand, and where they then do. */
ie_status cpu_gdn_prepare(cpu_run *r, ie_error *err);
void cpu_gdn_commit(cpu_run *r, bool ok);
uint32_t cpu_conv_pieces(const cpu_run *r, const ie_op *op);
void cpu_conv_work(const cpu_run *r, const ie_op *op, uint32_t i0, uint32_t i1);
uint32_t cpu_gdn_pieces(const cpu_run *r, const ie_op *op);
void cpu_gdn_work(cpu_run *r, const ie_op *op, uint32_t thread, uint32_t i0, uint32_t i1);
bool cpu_gdn_check_print(cpu_gdn_check *c, ie_buf *out, ie_error *err);
ie_status cpu_gdn_rewind(ie_state *st, uint32_t seq, uint32_t pos, ie_error *err);
uint64_t cpu_gdn_bytes(const ie_state *st);
ie_status cpu_gdn_copy(ie_state *st, uint32_t seq, uint8_t *buf, bool save, ie_error *err);

/* ---- float_run.c: IE_ACT=f32 --------------------------------------------------------------------------------------- */

ie_status cpu_float_prepare(cpu_run *r, ie_error *err); /* room for matrices as floats */
/* False: not a quantised matrix with float activations, nothing done. */
bool cpu_float_matmul(const cpu_run *r, const ie_op *op, uint32_t thread, const ie_mm_args *a, uint32_t row0, uint32_t row1);
void cpu_float_store(const cpu_run *r, const ie_op *op, uint32_t t, uint32_t head, const float *k, const float *v);
void cpu_float_attend(const cpu_run *r, const ie_op *op, uint32_t t, uint32_t head, const float *q, float *out);

/* ---- plan.c ----------------------------------------------------------------------------------------------------------- */

#define CPU_FFN_FLOATS 128u /* floats a token that a thread keeps of gate and up */

/* How the step's ops are run: st->how, and the tail. */
ie_status cpu_plan(cpu_run *r, ie_error *err);

/* ---- memory.c ------------------------------------------------------------------------------------------------------- */

ie_status cpu_memory_get(cpu_memory *m, uint64_t bytes, const char *what, ie_error *err);
/* Bytes of a pool (KV pages, states of sequences) that a context has at once, so that a first prompt does not wait for the system;
 * more come as they are used. */
#define CPU_TOUCH (16u << 20)
void cpu_memory_touch(const cpu_memory *m, uint64_t bytes); /* makes the system provide the first `bytes` now, not inside the first step */
void cpu_memory_put(cpu_memory *m);

#endif
