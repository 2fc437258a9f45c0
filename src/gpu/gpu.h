/* The GPU backend's own records. One code for both vendors: ops become launches here (launch_*.c), a driver (driver.h) runs
 * them. Device memory is addressed by gpu_ptr; nothing of it is touched by the host but through the driver. */
#ifndef IE_GPU_H
#define IE_GPU_H

#include "../gdn_log.h"
#include "abi.h"

typedef uint64_t gpu_ptr; /* device address; 0 = none */

/* What launch shapes follow from; read from the driver. The order of sums never depends on it. */
typedef struct {
    char name[64];
    char arch[32];              /* "gfx1201", "sm_90" */
    uint32_t units;             /* compute units (AMD: CUs; NVIDIA: SMs) */
    uint32_t waves_per_unit;    /* resident waves of 32 lanes a unit can hold */
    uint32_t lds_per_unit;      /* bytes */
    uint32_t l2_bytes;
    uint32_t clock_khz, mem_clock_khz, bus_bits;
    uint64_t memory_bytes;
    uint32_t lds_per_group;     /* bytes that a workgroup can have, what its kernel declares included */
    bool copies;                /* memory is copied to LDS by the card itself (kernels/gemv_stream.c) */
    bool overlap;               /* a launch can begin while the one before it runs (driver.h: GPU_OVERLAP) */
    bool last_group;            /* matrix kernels can go on with the row that they have made (kernels/gpu.h: IE_LAST_GROUP), and take several matrices */
    uint32_t norm_chunks;       /* chunks of 256 values of a row that a workgroup of RMSNorm takes */
    uint32_t mma_min;           /* tokens from which on matrix instructions multiply */
    uint32_t ahead;             /* units of a matrix that a wave asks the L2 cache for, beyond the one under way */
} gpu_card;

/* One kernel launch: a 1- to 3-dimensional grid of workgroups of `block` lanes (a multiple of 32). */
#define GPU_ARGS_MAX 256u
typedef struct {
    const char *kernel; /* symbol in the code object */
    uint32_t grid[3], block;
    uint32_t lds;       /* bytes beyond what the kernel declares */
    uint32_t op;        /* index in the op list: profiles, --stop-after */
    uint32_t args_bytes;
    _Alignas(8) uint8_t args[GPU_ARGS_MAX];
} gpu_launch;

typedef struct {
    gpu_launch *v;
    size_t n, cap;
} gpu_launches;

/* Appends a launch whose argument struct is args (size bytes, at most GPU_ARGS_MAX). */
ie_status gpu_add(gpu_launches *l, const char *kernel, uint32_t gx, uint32_t gy, uint32_t block, const void *args,
                  size_t size, ie_error *err);

/* Attention has kernels for heads of up to 64, 128 and IE_ATTN_SPLIT_HD values; which a head takes. */
#define GPU_ATTN_SIZES 3u
static inline uint32_t gpu_attn_size(uint32_t hd) { return hd <= 64u ? 0u : hd <= 128u ? 1u : 2u; }

/* Which attention kernels run; all give the same bits. */
typedef enum { GPU_ATTN_AUTO, GPU_ATTN_SPLIT, GPU_ATTN_OLD, GPU_ATTN_CHECK } gpu_attn_mode;
typedef struct {
    gpu_attn_mode mode;
    uint32_t kv_min; /* ie_attn_kv from more than so many positions on, in steps of 256 */
    uint32_t spw;    /* its partials a workgroup; 0: about 128 workgroups */
    bool one_splits; /* a single token never takes it: heads that share keys are few enough for the caches (docs/PERFORMANCE.md) */
} gpu_attn_choice;
void gpu_attn_choice_read(gpu_attn_choice *c); /* IE_ATTN, IE_ATTN_KV_MIN, IE_ATTN_SPW */

/* Which matrix kernels run; all give the same bits. */
typedef struct {
    uint32_t mma_min; /* tokens from which on matrix instructions do it; 0: the card's */
    bool nobatch;     /* a launch for each token */
    bool norm_fuse;   /* a single token's row is normalised by the launch that makes it, where the card's kernels can */
    bool many;        /* a single token's matrices of one input are one launch, where the card's kernels can */
} gpu_mat_choice;
void gpu_mat_choice_read(gpu_mat_choice *c); /* IE_TR_MIN, IE_GEMV_NOBATCH, IE_NORM_FUSE, IE_GEMV_MANY */
bool gpu_mat_streams(const gpu_card *card, const ie_mat *m); /* whether a matrix, whose bytes are known, is for the kernels that stream */
bool gpu_mat_dot4(const gpu_card *card, const gpu_mat_choice *c); /* whether some numbers of tokens are for the dot4 kernels */

/* Everything that turning ops into launches needs to know of a run. Addresses are device memory. */
typedef struct {
    const gpu_card *card;
    const ie_weights *w;
    const ie_state_desc *d;
    const ie_step *step;   /* the host's view of the batch: at most IE_DECODE_T tokens */
    gpu_ptr weights;       /* ie_mat.off, ie_vec.off are relative to it */
    gpu_ptr arena;         /* plus 256 * ie_off */
    gpu_ptr kv;            /* pages: backend.h, ie_kv_shape */
    gpu_ptr gdn;           /* recurrent state: gpu_gdn_parts */
    gpu_ptr batch;         /* ie_abi_batch */
    gpu_ptr page_table;    /* uint32_t [n_seq][pages_per_seq] */
    gpu_ptr rope;          /* float pairs: ie_state_desc.rope */
    gpu_ptr scratch;       /* gpu_scratch_bytes() bytes; counters in it are zero between launches */
    const gpu_attn_choice *attn; /* NULL: the defaults */
    const gpu_mat_choice *mat;   /* NULL: the defaults */
    uint32_t op;           /* index of the op that is being turned into launches */
    uint32_t lead;         /* ops before it that its launch does, too: a RMSNORM whose result a MATMUL takes, a ROPE_KV before its ATTN; or none */
    const ie_op *norm;     /* NULL, or the RMSNORM behind it, which its launch does, too */
    uint32_t many;         /* MATMULs from it on that its launch does: 1 or more */
} gpu_run;

static inline gpu_ptr gpu_at(const gpu_run *r, ie_off off, uint64_t at_floats) { return r->arena + 256u * (uint64_t)off + 4u * at_floats; }
static inline uint32_t gpu_rows(const gpu_run *r, const ie_op *op) { return op->of_rows ? r->step->n_out : r->step->n; }

/* Launches of one op: one row for each kind (launch.c gathers the families' functions). */
typedef ie_status (*gpu_launch_fn)(const gpu_run *r, const ie_op *op, gpu_launches *out, ie_error *err);
extern const gpu_launch_fn gpu_launch_table[OP_KINDS];
/* Ops from op i on that are done together, at most up to last: by launches of their own, or by one for all of them. Sets r->lead and the fields behind it. */
uint32_t gpu_launch_ops(gpu_run *r, const ie_oplist *l, uint32_t i, uint32_t last);
/* Appends the launches of ops [first, last) of the list; each names its op, the first one where it does several. */
ie_status gpu_launch_list(gpu_run *r, const ie_oplist *l, uint32_t first, uint32_t last, gpu_launches *out, ie_error *err);

ie_status gpu_launch_matmul(const gpu_run *r, const ie_op *op, gpu_launches *out, ie_error *err);  /* launch_gemv.c */
ie_status gpu_launch_embed(const gpu_run *r, const ie_op *op, gpu_launches *out, ie_error *err);   /* launch_gemv.c */
ie_status gpu_launch_rmsnorm(const gpu_run *r, const ie_op *op, gpu_launches *out, ie_error *err); /* launch_rows.c */
/* Whether a launch of matrix op mm can also do the RMSNORM behind it. */
bool gpu_norm_fits(const gpu_run *r, const ie_op *mm, const ie_op *norm); /* launch_gemv.c */
/* Whether a launch of attention can also do the ROPE_KV before it. */
bool gpu_rope_fits(const gpu_run *r, const ie_op *rope, const ie_op *attn); /* launch_attn.c */
/* Two ops in one launch: workgroups of it read while others write already, so nothing of the earlier one's may be where the later one writes; of one op:
 * nothing that it reads. */
bool gpu_writes_over(const gpu_run *r, const ie_op *later, const ie_op *earlier);
/* Whether a launch of matrix op mm can also do the RMSNORM before it. */
bool gpu_lead_fits(const gpu_run *r, const ie_op *norm, const ie_op *mm); /* launch_gemv.c */
/* MATMULs from op on, at most `most`, that one launch can do: 1 to IE_MANY. */
uint32_t gpu_many_fit(const gpu_run *r, const ie_op *op, uint32_t most); /* launch_gemv.c */
/* An op's outputs: rows of n values, f32 and / or Q8 as the op has them. */
ie_abi_out gpu_out(const gpu_run *r, const ie_op *op, uint32_t n);
ie_status gpu_launch_quant(const gpu_run *r, const ie_op *op, gpu_launches *out, ie_error *err);
ie_status gpu_launch_swiglu(const gpu_run *r, const ie_op *op, gpu_launches *out, ie_error *err);
ie_status gpu_launch_rows(const gpu_run *r, const ie_op *op, gpu_launches *out, ie_error *err);
ie_status gpu_launch_rope_kv(const gpu_run *r, const ie_op *op, gpu_launches *out, ie_error *err); /* launch_attn.c */
ie_status gpu_launch_attn(const gpu_run *r, const ie_op *op, gpu_launches *out, ie_error *err);
ie_status gpu_launch_conv(const gpu_run *r, const ie_op *op, gpu_launches *out, ie_error *err);    /* launch_gdn.c */
ie_status gpu_launch_gdn(const gpu_run *r, const ie_op *op, gpu_launches *out, ie_error *err);

/* Where the recurrent state's parts begin, in bytes from gpu_run.gdn: ie_abi_gdn at 0, written before each step; states and
 * logs as in gdn_log.h; rows to be replayed, [block][IE_LOG_SLOTS][log row], for as many blocks as a step can have. */
typedef struct {
    uint64_t states, logs, pending, bytes;
} gpu_gdn_parts;

static inline gpu_gdn_parts gpu_gdn_parts_of(const ie_state_desc *d) {
    gpu_gdn_parts p = {0};
    if (!d->gdn.n_layer) return p;
    uint64_t n = (uint64_t)d->n_seq * d->gdn.n_layer, blocks = d->n_seq < IE_ABI_T ? d->n_seq : IE_ABI_T;
    p.states = (sizeof(ie_abi_gdn) + 255u) / 256u * 256u;
    p.logs = p.states + 4u * n * ie_gdn_state_floats(&d->gdn);
    p.pending = p.logs + 4u * n * ie_gdn_log_floats(&d->gdn);
    p.bytes = p.pending + 4u * blocks * IE_LOG_SLOTS * ie_gdn_log_row(&d->gdn);
    return p;
}

/* Bytes of scratch that the launches of a state may use (launch_attn.c); zeroed once, when it is allocated. The first word is
 * IE_ATTN=check's largest relative difference so far, a float; the word at GPU_ENDED counts workgroups of a matrix that is normalised. */
#define GPU_ENDED 4u
#define GPU_REST_COUNT 256u                          /* counters of shared tiles (kernels/gemv_stream_t.c), and their sums */
#define GPU_REST_TILES 1024u
#define GPU_REST_SUMS (GPU_REST_COUNT + 4u * GPU_REST_TILES)
#define GPU_REST_BYTES (13u << 20)
#define GPU_ONE_TILES 128u                           /* shared tiles of one token (kernels/gemv_stream.c): their sums, zero between launches */
#define GPU_ONE_SUMS (GPU_REST_SUMS + GPU_REST_BYTES)
#define GPU_SCRATCH_MATS (GPU_ONE_SUMS + GPU_ONE_TILES * IE_MAX_SEGS * 256u) /* what matrices use of the scratch, from its begin on */
uint64_t gpu_scratch_bytes(const ie_state_desc *d, const ie_oplist *l, const gpu_attn_choice *c);
/* Partials of 8 pages of the step's longest sequence. Launches of attention depend on it, on the batch's size and on where its
 * sequences begin, and on nothing else of the step. */
uint32_t gpu_attn_parts(const ie_step *s);

/* ---- choosing among logits (launch_sample.c) ----------------------------------------------------------------------------- */

/* Work memory for `rows` rows, zeroed once when it is allocated. */
uint64_t gpu_sample_bytes(uint32_t rows);
/* Whether the device can choose k of n logits; otherwise the host has to. */
bool gpu_topk_fits(uint32_t n, uint32_t k);
/* The k best of each row of n logits, ld floats apart, best first, to out: ie_abi_cand [rows][k]. */
ie_status gpu_launch_topk(gpu_ptr logits, uint32_t n, uint32_t ld, uint32_t rows, uint32_t k, gpu_ptr work, gpu_ptr out,
                          gpu_launches *l, ie_error *err);
/* The best of each row and its probability to out: ie_abi_best [rows]. */
ie_status gpu_launch_argmax(gpu_ptr logits, uint32_t n, uint32_t ld, uint32_t rows, gpu_ptr work, gpu_ptr out, gpu_launches *l,
                            ie_error *err);

/* ---- weights in device memory (layout.c) --------------------------------------------------------------------------- */

/* A format's fields in the GPU layout. */
ie_gpu_format gpu_format_of(const ie_format *f);
/* Bytes of a matrix in the GPU layout: a multiple of 256. */
uint64_t gpu_mat_bytes(const ie_format *f, uint32_t rows, uint32_t cols);
uint64_t gpu_tile_bytes(const ie_format *f, uint32_t cols); /* of a tile in it: 32 rows; tiles follow each other */
/* One tile from the word-major layout (quant.h; ie_nsb units) to the GPU's, both in host memory. */
void gpu_repack_tile(const ie_format *f, uint32_t cols, const uint32_t *word_major, uint32_t *out);

#endif
