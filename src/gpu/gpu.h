/* The GPU backend's own records. One code for both vendors: ops become launches here (launch_*.c), a driver (driver.h) runs
 * them. Device memory is addressed by gpu_ptr; nothing of it is touched by the host but through the driver. */
#ifndef IE_GPU_H
#define IE_GPU_H

#include "../backend.h"
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
} gpu_card;

/* One kernel launch: a 1- to 3-dimensional grid of workgroups of `block` lanes (a multiple of 32). */
#define GPU_ARGS_MAX 256u
typedef struct {
    const char *kernel; /* symbol in the code object */
    uint32_t grid[3], block;
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

/* Everything that turning ops into launches needs to know of a run. Addresses are device memory. */
typedef struct {
    const gpu_card *card;
    const ie_weights *w;
    const ie_state_desc *d;
    const ie_step *step;   /* the host's view of the batch: at most IE_DECODE_T tokens */
    gpu_ptr weights;       /* ie_mat.off, ie_vec.off are relative to it */
    gpu_ptr arena;         /* plus 256 * ie_off */
    gpu_ptr kv;            /* pages: backend.h, ie_kv_shape */
    gpu_ptr gdn;           /* recurrent state: launch_gdn.c */
    gpu_ptr batch;         /* ie_abi_batch */
    gpu_ptr page_table;    /* uint32_t [n_seq][pages_per_seq] */
    gpu_ptr rope;          /* float pairs: ie_state_desc.rope */
    gpu_ptr scratch;       /* gpu_scratch_bytes() bytes; counters in it are zero between launches */
    uint32_t op;           /* index of the op that is being turned into launches */
} gpu_run;

static inline gpu_ptr gpu_at(const gpu_run *r, ie_off off, uint64_t at_floats) { return r->arena + 256u * (uint64_t)off + 4u * at_floats; }
static inline uint32_t gpu_rows(const gpu_run *r, const ie_op *op) { return op->of_rows ? r->step->n_out : r->step->n; }

/* Launches of one op: one row for each kind (launch.c gathers the families' functions). */
typedef ie_status (*gpu_launch_fn)(const gpu_run *r, const ie_op *op, gpu_launches *out, ie_error *err);
extern const gpu_launch_fn gpu_launch_table[OP_KINDS];

ie_status gpu_launch_matmul(const gpu_run *r, const ie_op *op, gpu_launches *out, ie_error *err);  /* launch_gemv.c */
ie_status gpu_launch_embed(const gpu_run *r, const ie_op *op, gpu_launches *out, ie_error *err);   /* launch_gemv.c */
ie_status gpu_launch_rmsnorm(const gpu_run *r, const ie_op *op, gpu_launches *out, ie_error *err); /* launch_rows.c */
ie_status gpu_launch_quant(const gpu_run *r, const ie_op *op, gpu_launches *out, ie_error *err);
ie_status gpu_launch_swiglu(const gpu_run *r, const ie_op *op, gpu_launches *out, ie_error *err);
ie_status gpu_launch_rows(const gpu_run *r, const ie_op *op, gpu_launches *out, ie_error *err);
ie_status gpu_launch_rope_kv(const gpu_run *r, const ie_op *op, gpu_launches *out, ie_error *err); /* launch_attn.c */
ie_status gpu_launch_attn(const gpu_run *r, const ie_op *op, gpu_launches *out, ie_error *err);
ie_status gpu_launch_conv(const gpu_run *r, const ie_op *op, gpu_launches *out, ie_error *err);    /* launch_gdn.c */
ie_status gpu_launch_gdn(const gpu_run *r, const ie_op *op, gpu_launches *out, ie_error *err);

/* Bytes of scratch that the launches of a state may use. */
uint64_t gpu_scratch_bytes(const ie_state_desc *d, const ie_oplist *l);

/* ---- weights in device memory (layout.c) --------------------------------------------------------------------------- */

/* Bytes of a matrix in the GPU layout: a multiple of 256. */
uint64_t gpu_mat_bytes(const ie_format *f, uint32_t rows, uint32_t cols);
/* One tile of 32 rows from the word-major layout (quant.h; ie_nsb units) to the GPU's (lane-major units of 8 blocks). Both
 * in host memory; gpu_mat_bytes(f, 32, cols) bytes at out. */
void gpu_repack_tile(const ie_format *f, uint32_t cols, const uint32_t *word_major, uint32_t *out);

#endif
