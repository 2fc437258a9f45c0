/* The simulator's own interface: a device, its memory, code objects, kernels and launches. hip_api.c puts HIP's C API on
 * top of it, simrun.c a shell command. Nothing here prints or ends the process: errors are text in a sim_error. */
#ifndef SIM_H
#define SIM_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int32_t i32;
typedef int64_t i64;

#define SIM_LANES 32u
#define SIM_WGPS 32u             /* work-group processors of an R9700 (64 compute units) */
#define SIM_LDS_PER_WGP 131072u  /* bytes; a workgroup may have 64 KiB of them */
#define SIM_LDS_MAX 65536u
#define SIM_VGPRS_PER_SIMD 1536u /* of 32 lanes, handed out in steps of 24 */
#define SIM_WAVES_PER_SIMD 16u
#define SIM_VRAM (32ull << 30)

/* One line, or for faults a few lines, of text. */
typedef struct {
    char text[2048];
} sim_error;

/* Fills *err (NULL allowed) unless it already holds a text, and returns false. */
bool sim_fail(sim_error *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Run-time choices, read once from the environment by sim_options_from_env. */
typedef struct {
    bool strict;     /* IE_SIM_STRICT, default 0: every check of memory, registers, waits and lanes */
    bool race;       /* IE_SIM_RACE: unordered conflicting accesses of two waves */
    bool weak;       /* IE_SIM_WEAK: stores and stale lines delayed by a seeded adversary */
    bool trace;      /* each instruction with the registers that it changed, to stderr */
    u64 weak_seed;   /* IE_SIM_WEAK's value when above 1 */
    u64 ulp_seed;    /* IE_SIM_ULP: 0 = off */
    const char *stats; /* IE_SIM_STATS: NULL, "1" (text to stderr), a file ending in .csv or .json, "" (kept, not written) */
    u32 sample;      /* IE_SIM_SAMPLE: with figures, workgroups of a launch that run, spread evenly; 0 = all. Results are then incomplete */
    u32 threads;     /* IE_SIM_THREADS: host threads, 0 = all cores */
    u64 limit;       /* IE_SIM_LIMIT: wave instructions a launch may run, 0 = no limit */
    u32 level;       /* IE_SIM_VECTOR: 0 portable, 1 AVX2, 2 AVX-512; default the best of this machine */
} sim_options;

void sim_options_from_env(sim_options *o);

/* ---- memory ---- */

typedef struct sim_memory sim_memory;

/* One allocation; never moved while it is alive. */
typedef struct {
    u64 base, size;    /* device address = host address; size in bytes as asked for */
    u64 span;          /* bytes up to the next allocation, a multiple of the granule */
    bool live;         /* false: freed, kept so that late accesses are named */
    bool host;         /* pinned host memory */
    bool range;        /* of sim_reserve */
    const char *what;  /* "device buffer", "code object", ... (static text) */
    u64 serial;        /* counts allocations from 1, for reports */
} sim_alloc;

sim_memory *sim_memory_new(bool shadow, sim_error *err);
void sim_memory_free(sim_memory *m);

/* size bytes (0 is taken as 1), zeroed, aligned to 256; 0 with *err when the device's memory is used up. Thread-safe. */
u64 sim_malloc(sim_memory *m, u64 size, const char *what, sim_error *err);
/* False when p is not the start of a live allocation. */
bool sim_mfree(sim_memory *m, u64 p);
/* Lets the device use n bytes of host memory outside the range at their own addresses, and takes that back. At most 256. */
bool sim_register_host(sim_memory *m, u64 p, u64 n);
bool sim_unregister_host(sim_memory *m, u64 p);
/* Another size for a live allocation, at most what its granules hold; false when it does not fit. */
bool sim_resize(sim_memory *m, u64 p, u64 size);
/* Addresses for n bytes (a multiple of 4096), none of them with memory: an allocation of size 0 that sim_map makes longer and sim_unmap shorter, at
 * its end only. 0 when addresses are used up. Freed by sim_mfree. */
u64 sim_reserve(sim_memory *m, u64 n);
bool sim_map(sim_memory *m, u64 p, u64 n);
bool sim_unmap(sim_memory *m, u64 p, u64 n);
/* n bytes of the device's memory for sim_map; false when there are not so many. sim_give takes them back. */
bool sim_take(sim_memory *m, u64 n);
void sim_give(sim_memory *m, u64 n);
/* The live allocation that holds [p, p + n), or NULL. */
const sim_alloc *sim_find(const sim_memory *m, u64 p, u64 n);
/* The allocation, live or freed, that holds p or is nearest to it; NULL when there is none. */
const sim_alloc *sim_nearest(const sim_memory *m, u64 p);
u64 sim_bytes_used(const sim_memory *m);
/* True when p lies in the reserved range at all (host memory otherwise). */
bool sim_in_range(const sim_memory *m, u64 p);
/* Marks bytes as written (no effect without shadow). */
void sim_mark_written(sim_memory *m, u64 p, u64 n);
/* First byte of [p, p + n) that was never written, or p + n. */
u64 sim_first_unwritten(const sim_memory *m, u64 p, u64 n);
/* A description such as "16 bytes past the end of device buffer #3 (0x... + 4096)". */
void sim_describe_address(const sim_memory *m, u64 p, char *out, size_t n);

/* ---- code objects ---- */

enum sim_arg_kind {
    SIM_ARG_VALUE, SIM_ARG_BUFFER, SIM_ARG_DYN_LDS,
    SIM_ARG_BLOCK_COUNT_X, SIM_ARG_BLOCK_COUNT_Y, SIM_ARG_BLOCK_COUNT_Z,
    SIM_ARG_GROUP_SIZE_X, SIM_ARG_GROUP_SIZE_Y, SIM_ARG_GROUP_SIZE_Z,
    SIM_ARG_REMAINDER_X, SIM_ARG_REMAINDER_Y, SIM_ARG_REMAINDER_Z,
    SIM_ARG_OFFSET_X, SIM_ARG_OFFSET_Y, SIM_ARG_OFFSET_Z, SIM_ARG_GRID_DIMS,
    SIM_ARG_PRIVATE_BASE, SIM_ARG_SHARED_BASE, SIM_ARG_DYN_LDS_SIZE,
    SIM_ARG_ZERO, /* printf and hostcall buffers, queue, heap and such: a null pointer */
};

typedef struct {
    enum sim_arg_kind kind;
    u32 offset, size;
} sim_arg;

/* A kernel, from its descriptor (64 bytes) and its metadata. */
typedef struct {
    char *name;
    u64 entry;          /* device address of the first instruction */
    u32 lds, scratch;   /* static bytes a workgroup / a lane */
    u32 kernarg_size, kernarg_align;
    u32 vgprs, sgprs;   /* as compiled: next free register */
    u32 rsrc1, rsrc2, rsrc3, props;
    u32 max_threads;
    bool dynamic_stack;
    sim_arg *args;
    u32 n_args, n_explicit;
    void *code;         /* threaded code of the kernel's module, made at first launch (exec) */
} sim_kernel;

typedef struct {
    char *name;
    u64 addr, size;
    bool func;
} sim_symbol;

typedef struct sim_module {
    sim_memory *mem;
    u64 base, size;             /* image in device memory */
    u64 text_lo, text_hi;       /* executable part */
    u64 link_base;              /* image address = link address + (base - link_base) */
    sim_kernel *kernels;
    u32 n_kernels;
    sim_symbol *syms;
    u32 n_syms;
    u32 abi;
    struct sim_lines *lines;    /* address to source line, or NULL */
    void *code;                 /* threaded code (exec) */
} sim_module;

/* Loads an ELF code object (or a clang offload bundle with one for gfx1201). The image is copied. NULL with *err. */
sim_module *sim_module_load(sim_memory *mem, const void *image, u64 size, sim_error *err);
void sim_module_free(sim_module *m);
sim_kernel *sim_module_kernel(const sim_module *m, const char *name);
const sim_symbol *sim_module_symbol(const sim_module *m, const char *name);
/* The symbol (function) that holds device address pc, or NULL. */
const sim_symbol *sim_symbol_at(const sim_module *m, u64 pc);

/* Source line of a device address from .debug_line; false when there is none. */
bool sim_line_at(const struct sim_lines *l, u64 link_addr, const char **file, u32 *line);
struct sim_lines *sim_lines_read(const u8 *sec, u64 size, const u8 *str, u64 str_size, const u8 *line_str, u64 line_str_size);
void sim_lines_free(struct sim_lines *l);

/* ---- launches ---- */

typedef struct {
    u32 grid[3], block[3]; /* workgroups; work-items a workgroup */
    u32 dyn_lds;           /* bytes */
    bool cooperative;
} sim_launch;

enum sim_result { SIM_OK, SIM_BAD_CONFIG, SIM_TOO_LARGE, SIM_FAULT };

/* Workgroups of this shape that a WGP holds at once. */
u32 sim_occupancy(const sim_kernel *k, u32 block_threads, u32 dyn_lds);
u32 sim_waves_per_simd(const sim_kernel *k);

typedef struct sim_device {
    sim_memory *mem;
    sim_options opt;
    u64 serial;            /* launches so far */
    void *exec;            /* state of the execution engine */
    struct sim_figures *figures; /* of all launches so far, by kernel; written by sim_device_close */
} sim_device;

/* Runs a kernel to its end. kernarg: explicit arguments laid out by the kernel's metadata (n bytes). *err on anything but SIM_OK. */
enum sim_result sim_run(sim_device *d, sim_module *m, sim_kernel *k, const sim_launch *l, const void *kernarg, size_t n,
                        sim_error *err);

/* Launches that figures were made of; of one of the last 16 (0: the last), its kernel (NULL: there is none) and a figure by its name in
 * IE_SIM_STATS (-1: there is none). */
u64 sim_figures_n(const sim_device *d);
const char *sim_figures_kernel(const sim_device *d, u32 back);
double sim_figure(const sim_device *d, const char *name, u32 back);

/* Frees a module's threaded code; sim_module_free does. */
void sim_code_free(sim_module *m);
/* Frees the engine's shared state (host threads, figures). */
void sim_device_close(sim_device *d);

#endif
