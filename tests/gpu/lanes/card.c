/* A stand-in for libcuda.so.1 that runs the kernels: those of lanes.h, compiled for this machine, are in the same library. Memory is the
 * host's; a launch runs when it is submitted, workgroup after workgroup, its lanes in turn (each has a stack of its own and goes on until
 * it waits). Lanes that all wait for each other end the program with a line that names the kernel. */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define API __attribute__((visibility("default")))
#define FN(name, ...) API int name(__VA_ARGS__); int name(__VA_ARGS__)
enum { OK = 0, INVALID = 1, NO_MEMORY = 2, NOT_FOUND = 500, NOT_SUPPORTED = 801 };

/* ---- lanes ---- */

#define LANES 1024u
#define STACK (192u << 10)
#define LDS_BYTES 232448u
typedef struct {
    uint32_t tid, wg[3];
} lanes_self;
extern lanes_self lanes_me; /* as lanes.h declares them */
extern uint32_t ie_lds_more[];
void *lanes_wave_memory(void);
void lanes_progress(void), lanes_yield(void), lanes_barrier(void), lanes_wave(void);
lanes_self lanes_me;
uint32_t ie_lds_more[LDS_BYTES / 4u] __attribute__((aligned(128)));

/* Goes on with the stack at `to` after leaving what a call preserves on the own one, whose end goes to *from (x86-64). */
void lanes_switch(void **from, void *to);
__asm__(".text\n.globl lanes_switch\n.hidden lanes_switch\n.type lanes_switch, @function\nlanes_switch:\n"
        "push %rbx\npush %rbp\npush %r12\npush %r13\npush %r14\npush %r15\n"
        "mov %rsp, (%rdi)\nmov %rsi, %rsp\n"
        "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbp\npop %rbx\nret\n");

typedef struct {
    char b[256];
} arguments;
static struct {
    void *main, *at[LANES], *gone;
    bool ended[LANES];
    char *stacks;
    uint32_t n, live, waits;         /* waits: turns since anything happened */
    uint32_t wg_count, wg_gen, wave_count[LANES / 32], wave_gen[LANES / 32], wave_live[LANES / 32];
    char wave_memory[LANES / 32][16384] __attribute__((aligned(16)));
    void (*f)(arguments);
    arguments args;
    const char *name;
} v;

void *lanes_wave_memory(void) { return v.wave_memory[lanes_me.tid / 32u]; }
void lanes_progress(void) { v.waits = 0; }
void lanes_yield(void) {
    uint32_t me = lanes_me.tid, to = me;
    if (++v.waits > 64u * v.n) {
        fprintf(stderr, "card: all lanes of kernel %s wait, workgroup %u %u %u\n", v.name, lanes_me.wg[0], lanes_me.wg[1], lanes_me.wg[2]);
        abort();
    }
    do to = (to + 1u) % v.n;
    while (v.ended[to] && to != me);
    if (to == me) return;
    lanes_me.tid = to;
    lanes_switch(&v.at[me], v.at[to]);
    lanes_me.tid = me;
}
static void meet(uint32_t *count, uint32_t *gen, uint32_t n) {
    uint32_t g = *gen;
    if (++*count == n) {
        *count = 0, ++*gen;
        lanes_progress();
        return;
    }
    while (*(volatile uint32_t *)gen == g) lanes_yield();
}
void lanes_barrier(void) { meet(&v.wg_count, &v.wg_gen, v.live); }
void lanes_wave(void) {
    uint32_t w = lanes_me.tid / 32u;
    meet(&v.wave_count[w], &v.wave_gen[w], 32u);
}
static void lane(void) {
    v.f(v.args);
    uint32_t me = lanes_me.tid, to = me;
    v.ended[me] = true;
    lanes_progress();
    if (--v.live == 0u) lanes_switch(&v.gone, v.main);
    do to = (to + 1u) % v.n;
    while (v.ended[to]);
    lanes_me.tid = to;
    lanes_switch(&v.gone, v.at[to]);
}
static void workgroup(uint32_t x, uint32_t y, uint32_t z, uint32_t lanes) {
    v.n = v.live = lanes, v.waits = v.wg_count = 0;
    memset(v.wave_count, 0, sizeof v.wave_count);
    memset(ie_lds_more, 0xA5, sizeof ie_lds_more);
    for (uint32_t i = 0; i < lanes; i++) {
        v.ended[i] = false;
        uint64_t *top = (uint64_t *)(void *)(v.stacks + (size_t)(i + 1u) * STACK) - 8; /* six registers, lane(), and as after a call */
        memset(top, 0, 64);
        top[6] = (uint64_t)(uintptr_t)lane;
        v.at[i] = top;
    }
    lanes_me = (lanes_self){0, {x, y, z}};
    lanes_switch(&v.main, v.at[0]);
}

/* ---- the driver's interface ---- */

typedef struct {
    void *f;
    const char *name;
} function;
typedef struct {
    int kind; /* 0 copy, 1 fill, 2 launch */
    void *dst;
    const void *src;
    size_t n;
    function f;
    unsigned grid[3], block;
    arguments args;
} item;
typedef struct {
    bool capturing;
    item *v;
    size_t n, cap;
} list;

static int run(const item *i) {
    if (i->kind == 0) memmove(i->dst, i->src, i->n);
    if (i->kind == 1) memset(i->dst, (int)(intptr_t)i->src, i->n);
    if (i->kind != 2) return OK;
    if (!v.stacks) v.stacks = aligned_alloc(64, (size_t)LANES * STACK);
    v.f = (void (*)(arguments))i->f.f, v.args = i->args, v.name = i->f.name;
    for (unsigned z = 0; z < i->grid[2]; z++)
        for (unsigned y = 0; y < i->grid[1]; y++)
            for (unsigned x = 0; x < i->grid[0]; x++) workgroup(x, y, z, i->block);
    return OK;
}
static int submit(list *s, item i) {
    if (!s->capturing) return run(&i);
    if (s->n == s->cap) s->v = realloc(s->v, (s->cap = 2 * s->cap + 64) * sizeof *s->v);
    s->v[s->n++] = i;
    return OK;
}
#define AT(p) ((void *)(uintptr_t)(p))

FN(cuInit, unsigned f) { return (void)f, OK; }
FN(cuDriverGetVersion, int *p) { return *p = 12080, OK; }
FN(cuDeviceGetCount, int *n) { return *n = 1, OK; }
FN(cuGetErrorName, int c, const char **s) { return (void)c, *s = "CARD_ERROR", OK; }
FN(cuGetErrorString, int c, const char **s) { return (void)c, *s = "the stand-in refused", OK; }
FN(cuDeviceGet, int *d, int n) { return *d = n, OK; }
FN(cuDeviceGetName, char *s, int n, int d) { return (void)d, snprintf(s, (size_t)n, "lanes on this CPU"), OK; }
FN(cuDeviceTotalMem_v2, size_t *n, int d) { return (void)d, *n = 8ull << 30, OK; }
FN(cuDeviceGetAttribute, int *p, int a, int d) {
    const char *units = getenv("IE_LANES_UNITS");
    (void)d;
    *p = a == 75 ? 9 : a == 76 ? 0 : a == 16 ? (units ? atoi(units) : 5) : a == 39 ? 2048 : a == 38 ? 50 << 20 : a == 97 ? (int)LDS_BYTES : 1000;
    return OK;
}
FN(cuDevicePrimaryCtxRetain, void **c, int d) { return (void)d, *c = &v, OK; }
FN(cuDevicePrimaryCtxRelease_v2, int d) { return (void)d, OK; }
FN(cuCtxSetCurrent, void *c) { return (void)c, OK; }
FN(cuCtxSetLimit, int which, size_t n) { return (void)which, (void)n, OK; }
FN(cuMemGetInfo_v2, size_t *f, size_t *t) { return *f = *t = 8ull << 30, OK; }
FN(cuMemAlloc_v2, uint64_t *p, size_t n) {
    void *m = aligned_alloc(256, (n + 511) / 256 * 256);
    return m ? (memset(m, 0xA5, n), *p = (uint64_t)(uintptr_t)m, OK) : NO_MEMORY;
}
FN(cuMemFree_v2, uint64_t p) { return free(AT(p)), OK; }
FN(cuMemGetAllocationGranularity, size_t *n, const void *p, int which) { return (void)n, (void)p, (void)which, NOT_SUPPORTED; }
FN(cuMemAddressReserve, uint64_t *p, size_t n, size_t a, uint64_t at, unsigned long long f) { return (void)p, (void)n, (void)a, (void)at, (void)f, NOT_SUPPORTED; }
FN(cuMemAddressFree, uint64_t p, size_t n) { return (void)p, (void)n, NOT_SUPPORTED; }
FN(cuMemCreate, void **m, size_t n, const void *p, unsigned long long f) { return (void)m, (void)n, (void)p, (void)f, NOT_SUPPORTED; }
FN(cuMemRelease, void *m) { return (void)m, NOT_SUPPORTED; }
FN(cuMemMap, uint64_t p, size_t n, size_t o, void *m, unsigned long long f) { return (void)p, (void)n, (void)o, (void)m, (void)f, NOT_SUPPORTED; }
FN(cuMemUnmap, uint64_t p, size_t n) { return (void)p, (void)n, NOT_SUPPORTED; }
FN(cuMemSetAccess, uint64_t p, size_t n, const void *a, size_t c) { return (void)p, (void)n, (void)a, (void)c, NOT_SUPPORTED; }
FN(cuMemHostAlloc, void **p, size_t n, unsigned f) { return (void)f, *p = calloc(1, n ? n : 1), *p ? OK : NO_MEMORY; }
FN(cuMemFreeHost, void *p) { return free(p), OK; }
FN(cuStreamCreate, void **s, unsigned f) { return (void)f, *s = calloc(1, sizeof(list)), OK; }
FN(cuStreamDestroy_v2, void *s) { return free(((list *)s)->v), free(s), OK; }
FN(cuStreamSynchronize, void *s) { return (void)s, OK; }
FN(cuStreamWaitEvent, void *s, void *e, unsigned f) { return (void)s, (void)e, (void)f, OK; }
FN(cuMemcpyHtoDAsync_v2, uint64_t d, const void *p, size_t n, void *s) { return submit(s, (item){.dst = AT(d), .src = p, .n = n}); }
FN(cuMemcpyDtoHAsync_v2, void *p, uint64_t d, size_t n, void *s) { return submit(s, (item){.dst = p, .src = AT(d), .n = n}); }
FN(cuMemcpyDtoDAsync_v2, uint64_t d, uint64_t a, size_t n, void *s) { return submit(s, (item){.dst = AT(d), .src = AT(a), .n = n}); }
FN(cuMemsetD8Async, uint64_t d, unsigned char c, size_t n, void *s) { return submit(s, (item){.kind = 1, .dst = AT(d), .src = AT(c), .n = n}); }
FN(cuEventCreate, void **e, unsigned f) { return (void)f, *e = calloc(1, 1), OK; }
FN(cuEventDestroy_v2, void *e) { return free(e), OK; }
FN(cuEventRecord, void *e, void *s) { return (void)e, (void)s, OK; }
FN(cuEventSynchronize, void *e) { return (void)e, OK; }
FN(cuEventElapsedTime, float *ms, void *a, void *b) { return (void)a, (void)b, *ms = 1.0f, OK; }
FN(cuStreamBeginCapture_v2, void *s, int mode) { return (void)mode, ((list *)s)->capturing = true, OK; }
FN(cuStreamEndCapture, void *s, void **out) {
    list *to = calloc(1, sizeof *to), *from = s;
    *to = (list){.v = from->v, .n = from->n};
    *from = (list){0};
    return *out = to, OK;
}
FN(cuGraphInstantiateWithFlags, void **out, void *graph, unsigned long long f) {
    list *to = calloc(1, sizeof *to), *from = graph;
    (void)f;
    *to = (list){.v = malloc((from->n + 1) * sizeof *to->v), .n = from->n};
    memcpy(to->v, from->v, from->n * sizeof *to->v);
    return *out = to, OK;
}
FN(cuGraphDestroy, void *g) { return free(((list *)g)->v), free(g), OK; }
FN(cuGraphExecDestroy, void *g) { return cuGraphDestroy(g); }
FN(cuGraphLaunch, void *g, void *s) {
    (void)s;
    for (size_t i = 0; i < ((list *)g)->n; i++) run(&((list *)g)->v[i]);
    return OK;
}
/* A module is a copy of its text. IE_LANES_FIRST=1: none may come after the first launch. */
FN(cuModuleLoadDataEx, void **m, const void *image, unsigned n, int *o, void **val) {
    const char *first = getenv("IE_LANES_FIRST");
    (void)n, (void)o, (void)val;
    return first && *first == '1' && v.name ? NOT_SUPPORTED : (*m = strdup(image), OK);
}
FN(cuModuleUnload, void *m) { return free(m), OK; }
FN(cuModuleGetFunction, void **f, void *m, const char *name) {
    static function all[512];
    static size_t n;
    char entry[128];
    snprintf(entry, sizeof entry, ".visible .entry %s(", name);
    if (!strstr(m, entry)) return NOT_FOUND;
    for (size_t i = 0; i < n; i++)
        if (!strcmp(all[i].name, name)) return *f = &all[i], OK;
    Dl_info me;
    void *lib = dladdr((void *)cuInit, &me) ? dlopen(me.dli_fname, RTLD_NOW | RTLD_NOLOAD) : NULL, *at = lib ? dlsym(lib, name) : NULL;
    if (!at || n == 512) return NOT_FOUND;
    all[n] = (function){at, strdup(name)};
    return *f = &all[n++], OK;
}
FN(cuLaunchKernel, void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned lds, void *s, void **args, void **extra) {
    if (!gx || !gy || !gz || !bx || bx > LANES || bx % 32u || by != 1 || bz != 1 || lds > LDS_BYTES || extra) return INVALID;
    item i = {.kind = 2, .f = *(function *)f, .grid = {gx, gy, gz}, .block = bx};
    memcpy(&i.args, args[0], sizeof i.args);
    return submit(s, i);
}
FN(cuLaunchCooperativeKernel, void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned lds, void *s, void **args) {
    return cuLaunchKernel(f, gx, gy, gz, bx, by, bz, lds, s, args, NULL);
}
FN(cuFuncGetAttribute, int *p, int a, void *f) { return (void)a, (void)f, *p = 1200, OK; }
FN(cuFuncSetAttribute, void *f, int a, int n) { return (void)f, (void)a, (void)n, OK; }
FN(cuLaunchKernelEx, const void *config, void *f, void **args, void **extra) {
    const struct {
        unsigned g[3], b[3], lds;
        void *stream, *a;
        unsigned n;
    } *c = config;
    return cuLaunchKernel(f, c->g[0], c->g[1], c->g[2], c->b[0], c->b[1], c->b[2], c->lds, c->stream, args, extra);
}
