/* Inside of the execution engine: threaded code (uop), the state of a wave, a workgroup and a launch.
 *
 * A kernel's module is decoded once into an array of uops, each with the function that carries it out and its operands as byte
 * offsets from the wave, so that a constant, an SGPR and a VGPR are read the same way: constants live in a pool behind the
 * VGPRs of every wave. A handler returns the next uop, or NULL when the wave stops (end, barrier, yield, fault); then
 * wave.next says where it goes on. */
#ifndef SIM_EXEC_H
#define SIM_EXEC_H

#include <string.h>

#include "isa.h"
#include "sim.h"

typedef struct uop uop;
typedef struct wave wave;
typedef struct group group;
typedef struct launch launch;
typedef struct program program;
typedef const uop *(*uop_fn)(wave *, const uop *);

typedef struct dpp_table {
    u8 from[32];
    u32 inside, on;
    bool zero_invalid;
} dpp_table;

struct uop {
    uop_fn fn;
    u32 s[3];       /* sources: byte offsets from the wave */
    u32 d, d1;      /* destinations */
    u8 bcast;       /* bit i: source i is one dword (or pair) for all lanes */
    u8 mods;        /* neg | abs, for one quick test */
    u8 neg, abs;    /* bits by source; VOP3P: neg of the low half */
    u8 hi;          /* op_sel: bit i source i, bit 3 the destination */
    u8 neg_hi, hi_hi; /* VOP3P */
    u8 clamp, omod;
    u8 cls;         /* enum sim_class */
    u8 bytes;       /* memory: bytes a lane */
    u8 flags;       /* UOP_* */
    i32 imm;        /* SOPP / SOPK immediate; memory: offset */
    u32 pc;         /* byte offset in the module's text */
    const uop *target; /* branches */
    const sim_inst *in;
    const struct dpp_table *dpp;
};

enum {
    UOP_SUB = 1,     /* second or third part of an instruction (halves of VOPD, the operation under DPP) */
    UOP_SADDR = 2,   /* memory: scalar base */
    UOP_VADDR = 4,   /* memory: vector address or offset */
    UOP_RETURN = 8,  /* atomics: the old value is written */
    UOP_LOADS = 16,  /* writes a register when its counter says so, not at once */
};

/* Classes of instructions, for figures. */
enum sim_class {
    CLS_SALU, CLS_SMEM, CLS_BRANCH, CLS_VALU, CLS_TRANS, CLS_DOT, CLS_WMMA, CLS_LDS, CLS_VMEM_LOAD, CLS_VMEM_STORE, CLS_ATOMIC,
    CLS_SCRATCH, CLS_BARRIER, CLS_WAIT, CLS_OTHER, CLS_COUNT
};

/* Slots of wave.s beyond the 128 scalar operand codes. */
enum { SLOT_VCC = 106, SLOT_TTMP = 108, SLOT_NULL = 124, SLOT_M0 = 125, SLOT_EXEC = 126, SLOT_SCC = 128, SLOT_SINK = 132, SLOTS = 160 };

enum wave_state { W_READY, W_BARRIER, W_DONE, W_FAULT };

/* Counters that a wave waits on. */
enum { CNT_LOAD, CNT_STORE, CNT_DS, CNT_KM, CNT_COUNT };

struct wave {
    u32 s[SLOTS];          /* SGPRs and named scalars; SCC is 0 or 1 */
    launch *l;
    group *g;
    const uop *next;
    enum wave_state state;
    u32 index;             /* in its workgroup */
    u32 mode;              /* MODE: rounding (4 bits), denormals (4 bits) */
    u32 csr32, csr64;      /* host's MXCSR for f32, and for f16 / f64 operations */
    u32 nonstd;            /* mode is not round-to-even with denormals */
    u32 lanes;             /* lanes that exist (the last wave of a group may be short) */
    bool bar_signalled, bar_complete, first_signal;
    bool slow;             /* memory goes through the checking path */
    u8 *lds;
    u32 lds_size;
    u8 *scratch;           /* 32 lanes, scratch_size bytes each */
    u32 scratch_size;
    const sim_alloc *near; /* allocation of the last access */
    u64 ran;               /* uops executed in all */
    struct wave_check *chk; /* strict, race, weak, figures: check.c; NULL in fast mode */
    u64 addr[SIM_LANES] __attribute__((aligned(64)));
    u32 v[] __attribute__((aligned(64))); /* VGPRs, then two rows of scratch space, then the constant pool */
};

struct group {
    u32 id[3];
    u32 index;             /* of all workgroups */
    u32 n_waves, n_done, n_signalled;
    wave **waves;
    u8 *lds;
    struct group_check *chk;
    bool resident, done;
};

struct launch {
    sim_device *dev;
    sim_module *mod;
    sim_kernel *k;
    const program *prog;
    const sim_launch *cfg;
    u64 kernarg, packet;   /* device addresses */
    u32 n_groups, waves_per_group, block_threads;
    u32 n_run;             /* workgroups that run: all, or some of them (sim_options.sample) */
    u32 lds_size;
    sim_error *err;
    u32 failed;            /* a fault was written to err (atomic) */
    u64 budget;            /* wave instructions left, when limited */
    bool time_sliced;
    struct launch_check *chk;
};

struct program {
    sim_module *mod;
    uop *uops;
    sim_inst *insts;
    u32 n_uops, n_insts;
    u32 *at;               /* by dword of text: uop index + 1 */
    u32 text_dwords;
    u32 nv;                /* VGPRs that every wave has room for */
    u32 tmp_off;           /* byte offset of the two scratch rows */
    u32 pool_off;
    u32 *pool;
    u32 n_pool, cap_pool;
    dpp_table *dpps;       /* one for each DPP instruction, in order */
    u32 n_dpps, cap_dpps;
    u32 wave_bytes;
    bool ordered;          /* workgroups must run in order for equal results: returning or float atomics, scoped accesses */
};

/* ---- translate.c ---- */
program *sim_translate(sim_module *m, u32 level, sim_error *err);
void sim_program_free(program *p);
/* The uop at a device address, or NULL when no instruction starts there. */
const uop *sim_uop_at(const program *p, u64 pc);

/* One row of a table of operations. */
typedef struct {
    u16 op;
    u8 cls;
    u8 flags; /* OPF_* */
    uop_fn fn;
} op_row;
enum {
    OPF_CLAMP_INT = 1, /* clamp saturates an integer result, and the handler does it */
    OPF_FLOAT = 2,     /* neg, abs, omod, clamp of floats are handled */
    OPF_HALF = 4,      /* op_sel is handled */
    OPF_MODS = 8,      /* neg and the like have a meaning of their own */
};
typedef struct {
    const op_row *rows;
    size_t n;
} op_table;

extern const op_table sim_ops_salu, sim_ops_sopp, sim_ops_mem, sim_ops_atomic, sim_ops_lds, sim_ops_lane, sim_ops_half,
    sim_ops_double, sim_ops_trans, sim_ops_cross, sim_ops_wmma;
extern const op_table sim_ops_vec_base, sim_ops_vec_avx2, sim_ops_vec_avx512;

/* Handlers that translate.c puts in itself. */
const uop *sim_do_illegal(wave *w, const uop *u);
const uop *sim_do_vopd(wave *w, const uop *u);
const uop *sim_do_vopd_swap(wave *w, const uop *u);
const uop *sim_do_dpp(wave *w, const uop *u);
bool sim_dpp_table(const sim_inst *in, dpp_table *t);

/* ---- check.c: strict mode, races, weak memory, figures, trace ---- */
bool sim_check_launch(launch *l);            /* sets up l->chk when a checking mode is on; false: out of memory, *l->err set */
bool sim_check_group(group *g);              /* a new workgroup; waves are set up */
void sim_check_group_end(group *g);
void sim_check_launch_end(launch *l);
void sim_figures_close(sim_device *d);       /* writes the figures where IE_SIM_STATS says, and frees them */
void sim_run_checked(wave *w, u64 quantum);  /* as the fast loop, with every check */

/* ---- faults and modes (wave.c) ---- */

/* Ends the launch with a report of this instruction; lane < 0: the whole wave. Returns NULL for handlers to return. */
const uop *sim_fault(wave *w, const uop *u, int lane, const char *fmt, ...) __attribute__((format(printf, 4, 5)));
const uop *sim_fault_addr(wave *w, const uop *u, int lane, u64 addr, const char *fmt, ...) __attribute__((format(printf, 5, 6)));
void sim_set_mode(wave *w, u32 mode);
void sim_barrier_check(group *g);
/* True when strict mode should report a read of this lane: it exists, but EXEC leaves it out. */
bool sim_inactive_read(const wave *w, int lane);
/* Strict mode: whether this lane of source 0's register was ever written. */
bool sim_lane_written(const wave *w, const uop *u, int lane);

/* ---- small helpers ---- */

static inline u32 *sp(const wave *w, u32 off) { return (u32 *)((uintptr_t)w + off); }
static inline u32 s32(const wave *w, u32 off) { return *sp(w, off); }
static inline u64 s64(const wave *w, u32 off) {
    u64 v;
    memcpy(&v, (const void *)((uintptr_t)w + off), 8);
    return v;
}
static inline void sput64(const wave *w, u32 off, u64 v) { memcpy((void *)((uintptr_t)w + off), &v, 8); }
static inline u32 exec_of(const wave *w) { return w->s[SLOT_EXEC]; }
static inline float as_f(u32 x) {
    float f;
    memcpy(&f, &x, 4);
    return f;
}
static inline u32 as_u(float f) {
    u32 x;
    memcpy(&x, &f, 4);
    return x;
}
static inline double as_d(u64 x) {
    double f;
    memcpy(&f, &x, 8);
    return f;
}
static inline u64 as_q(double f) {
    u64 x;
    memcpy(&x, &f, 8);
    return x;
}

/* Lanes of a 32-bit source: address of lane 0 and step in dwords (0 for one value). */
typedef struct {
    const u32 *p;
    u32 st;
} lane_src;
static inline lane_src lsrc(const wave *w, const uop *u, int i) {
    lane_src r = {sp(w, u->s[i]), (u->bcast >> i & 1) ? 0u : 1u};
    return r;
}
static inline u32 lget(lane_src s, u32 l) { return s.p[s.st * l]; }
/* 64-bit: the high dword is the next scalar, or the next VGPR (32 dwords on). */
static inline u64 lget64(lane_src s, u32 l) { return s.p[s.st * l] | (u64)s.p[s.st * (l + 31) + 1] << 32; }

#define FOR_LANES(l, ex) for (u32 l##_m = (ex), l; l##_m && (l = (u32)__builtin_ctz(l##_m), 1); l##_m &= l##_m - 1)

#define SIM_SHARED_HI 0x00010000u  /* bits 63:32 of LDS addresses in the flat space */
#define SIM_PRIVATE_HI 0x00020000u /* of scratch addresses */

/* Floating-point formats (fp.c). mode: 0 to nearest even, 1 up, 2 down, 3 towards zero. */
float sim_h2f(u32 h);
u32 sim_d2h(double x, u32 mode, bool flush);
u32 sim_f2h(float x, u32 mode, bool flush);
u32 sim_f2bf(float x, u32 mode);
float sim_bf2f(u32 b);
float sim_fp8_to_f(u32 b);  /* E4M3, one NaN a sign, no infinities */
float sim_bf8_to_f(u32 b);  /* E5M2 */
u32 sim_f_to_fp8(float x, bool saturate);
u32 sim_f_to_bf8(float x, bool saturate);
double sim_fma_odd(double a, double b, double c); /* a * b + c rounded to odd, so that a second rounding is right */

/* An f16 operand as the operation reads it: MODE may flush denormal sources of f16 and f64. */
static inline float hin(const wave *w, u32 h) { return sim_h2f(!(w->mode & 0x40) && !(h & 0x7C00) ? h & 0x8000 : h); }

#endif
