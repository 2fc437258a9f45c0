/* A stand-in for libcuda.so.1 in host memory, for tests of src/gpu/driver_cuda.c: it checks the order and arguments of calls and
 * "runs" two kernels, mock_add (p[i] += v for n words) and mock_fail. mock_set changes what it pretends to be. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define API __attribute__((visibility("default")))

enum { OK = 0, INVALID = 1, NO_MEMORY = 2, NOT_READY = 3, NO_DEVICE = 100, NO_CONTEXT = 201, NOT_SUPPORTED = 801, INVALID_PTX = 218, OLD_PTX = 222, NOT_FOUND = 500, ILLEGAL = 700 };

static struct {
    int started, count, major, minor, version, init, ptx, newer, lost, flat;
    int contexts, blocks; /* held */
    uint64_t memory, used;
} g = {.count = 1, .major = 9, .minor = 0, .version = 12040, .memory = 1 << 30};

static __thread void *current;
static int the_context;

/* "reset" restores the defaults; otherwise one field. */
API void mock_set(const char *what, int v);
API int mock_held(void); /* contexts and blocks of memory, streams and the like that were not given back */

void mock_set(const char *what, int v) {
    if (!strcmp(what, "count")) g.count = v;
    else if (!strcmp(what, "major")) g.major = v;
    else if (!strcmp(what, "version")) g.version = v;
    else if (!strcmp(what, "init")) g.init = v;
    else if (!strcmp(what, "ptx")) g.ptx = v;
    else if (!strcmp(what, "newer")) g.newer = v; /* only takes PTX for sm_90 */
    else if (!strcmp(what, "lost")) g.lost = v;
    else if (!strcmp(what, "flat")) g.flat = v; /* no ranges of addresses without memory */
    else if (!strcmp(what, "memory")) g.memory = (uint64_t)v;
    else abort();
}
int mock_held(void) { return g.contexts + g.blocks; }

static int ready(void) { return !g.started ? NOT_READY : !current ? NO_CONTEXT : g.lost ? g.lost : OK; }
static void *hold(size_t n) {
    void *p = aligned_alloc(256, (n + 255) / 256 * 256);
    if (!p) abort();
    g.blocks++;
    return memset(p, 0, n);
}
static int drop(void *p) {
    if (!p) return INVALID;
    g.blocks--;
    free(p);
    return OK;
}

#define FN(name, ...) API int name(__VA_ARGS__); int name(__VA_ARGS__)

FN(cuInit, unsigned flags) {
    if (flags) return INVALID;
    if (g.init) return g.init;
    g.started = 1;
    return g.count ? OK : NO_DEVICE;
}
FN(cuDriverGetVersion, int *v) { return *v = g.version, OK; }
FN(cuDeviceGetCount, int *n) { return *n = g.count, OK; }
FN(cuGetErrorName, int code, const char **s) {
    return *s = code == ILLEGAL ? "CUDA_ERROR_ILLEGAL_ADDRESS" : code == NO_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR", OK;
}
FN(cuGetErrorString, int code, const char **s) { return *s = code == ILLEGAL ? "an illegal memory access was encountered" : "mock", OK; }
FN(cuDeviceGet, int *d, int n) { return n < 0 || n >= g.count ? INVALID : (*d = n, OK); }
FN(cuDeviceGetName, char *s, int n, int d) { return d >= g.count ? INVALID : (snprintf(s, (size_t)n, "Mock GPU %d", d), OK); }
FN(cuDeviceTotalMem_v2, size_t *n, int d) { return (void)d, *n = g.memory, OK; }
FN(cuDeviceGetAttribute, int *v, int a, int d) {
    (void)d;
    *v = a == 75 ? g.major : a == 76 ? g.minor : a == 16 ? 132 : a == 39 ? 2048 : a == 38 ? 50 << 20 : a == 97 ? 232448 : 1000;
    return OK;
}
FN(cuDevicePrimaryCtxRetain, void **c, int d) { return (void)d, g.memory ? (g.contexts++, *c = &the_context, OK) : NO_MEMORY; }
FN(cuDevicePrimaryCtxRelease_v2, int d) { return (void)d, g.contexts--, OK; }
FN(cuCtxSetCurrent, void *c) { return current = c, OK; }
FN(cuMemGetInfo_v2, size_t *f, size_t *t) { return *f = g.memory - g.used, *t = g.memory, ready(); }
FN(cuMemAlloc_v2, uint64_t *p, size_t n) {
    if (ready()) return ready();
    if (!n) return INVALID;
    if (n > g.memory - g.used) return NO_MEMORY;
    uint64_t *b = hold(n + 256);
    *b = n;
    g.used += n;
    return *p = (uint64_t)(uintptr_t)b + 256, OK;
}
FN(cuMemFree_v2, uint64_t p) {
    if (ready()) return ready();
    uint64_t *b = (uint64_t *)(uintptr_t)(p - 256);
    g.used -= *b;
    return drop(b);
}
/* Ranges of addresses: host memory that counts as used once it is mapped, from the front; pieces are their sizes. */
#define GRAIN (2u << 20)
typedef struct {
    int type, handles, where, device;
    void *more;
    unsigned char flags[8];
} prop;
static struct {
    uint64_t base, bytes, mapped, open;
} range; /* one at a time; open: bytes that may be used */
static int prop_ok(const prop *p) { return p && p->type == 1 && !p->handles && p->where == 1 && p->device >= 0 && p->device < g.count && !p->more; }
FN(cuCtxSetLimit, int which, size_t v) { return which == 0 && v <= 1024 ? ready() : INVALID; }
FN(cuMemGetAllocationGranularity, size_t *n, const void *p, int which) {
    return which || !prop_ok(p) ? INVALID : g.flat ? NOT_SUPPORTED : (*n = GRAIN, ready());
}
FN(cuMemAddressReserve, uint64_t *p, size_t n, size_t align, uint64_t at, unsigned long long flags) {
    if (ready()) return ready();
    if (!n || n % GRAIN || align || at || flags || range.base) return INVALID;
    void *b = aligned_alloc(256, n); /* no page of the host's until it is used */
    if (!b) return NO_MEMORY;
    g.blocks++;
    range.base = (uint64_t)(uintptr_t)b, range.bytes = n;
    return *p = range.base, OK;
}
FN(cuMemAddressFree, uint64_t p, size_t n) {
    if (p != range.base || n != range.bytes || range.mapped) return INVALID;
    range.base = 0;
    return drop((void *)(uintptr_t)p);
}
FN(cuMemCreate, void **m, size_t n, const void *p, unsigned long long flags) {
    if (ready()) return ready();
    if (!n || n % GRAIN || !prop_ok(p) || flags) return INVALID;
    if (n > g.memory - g.used) return NO_MEMORY;
    uint64_t *b = hold(sizeof *b);
    g.used += *b = n;
    return *m = b, OK;
}
FN(cuMemRelease, void *m) { return !m ? INVALID : (g.used -= *(uint64_t *)m, drop(m)); }
FN(cuMemMap, uint64_t p, size_t n, size_t offset, void *m, unsigned long long flags) {
    if (!m || *(uint64_t *)m != n || offset || flags || p != range.base + range.mapped || n > range.bytes - range.mapped) return INVALID;
    return range.mapped += n, ready();
}
FN(cuMemUnmap, uint64_t p, size_t n) {
    if (n > range.mapped || p + n != range.base + range.mapped) return INVALID;
    range.mapped -= n;
    return range.open = range.open < range.mapped ? range.open : range.mapped, ready();
}
FN(cuMemSetAccess, uint64_t p, size_t n, const void *access, size_t count) {
    const int *a = access;
    if (count != 1 || a[0] != 1 || a[1] < 0 || a[1] >= g.count || a[2] != 3 || p != range.base + range.open || range.open + n > range.mapped) return INVALID;
    return range.open += n, ready();
}
FN(cuMemHostAlloc, void **p, size_t n, unsigned flags) { return flags > 1 ? INVALID : ready() ? ready() : (*p = hold(n), OK); }
FN(cuMemFreeHost, void *p) { return ready() ? ready() : drop(p); }

/* ---- streams: a capturing one keeps what comes, at most 16 copies and launches ---- */

typedef struct {
    int kind; /* 0 copy, 1 add */
    void *dst;
    const void *src;
    size_t n;
    struct {
        uint64_t p;
        uint32_t n, v;
    } args;
} item;
typedef struct {
    int capturing, n;
    item v[16];
} stream;

static int run(const item *i) {
    if (i->kind == 0) memmove(i->dst, i->src, i->n);
    for (uint32_t k = 0; i->kind == 1 && k < i->args.n; k++) ((uint32_t *)(uintptr_t)i->args.p)[k] += i->args.v;
    return OK;
}
static int submit(stream *s, item i) {
    if (ready()) return ready();
    if (!s) return INVALID;
    if (!s->capturing) return run(&i);
    if (s->n == 16) return INVALID;
    return s->v[s->n++] = i, OK;
}
FN(cuStreamCreate, void **s, unsigned flags) { return flags != 1 ? INVALID : ready() ? ready() : (*s = hold(sizeof(stream)), OK); }
FN(cuStreamDestroy_v2, void *s) { return drop(s); }
FN(cuStreamSynchronize, void *s) { return !s || ((stream *)s)->capturing ? INVALID : ready(); }
FN(cuStreamWaitEvent, void *s, void *e, unsigned flags) { return !s || !e || flags ? INVALID : ready(); }
FN(cuMemcpyHtoDAsync_v2, uint64_t d, const void *p, size_t n, void *s) { return submit(s, (item){.dst = (void *)(uintptr_t)d, .src = p, .n = n}); }
FN(cuMemcpyDtoHAsync_v2, void *p, uint64_t d, size_t n, void *s) { return submit(s, (item){.dst = p, .src = (const void *)(uintptr_t)d, .n = n}); }
FN(cuMemcpyDtoDAsync_v2, uint64_t d, uint64_t a, size_t n, void *s) {
    return submit(s, (item){.dst = (void *)(uintptr_t)d, .src = (const void *)(uintptr_t)a, .n = n});
}
FN(cuMemsetD8Async, uint64_t d, unsigned char v, size_t n, void *s) { return !s ? INVALID : (memset((void *)(uintptr_t)d, v, n), ready()); }
FN(cuEventCreate, void **e, unsigned flags) { return flags ? INVALID : ready() ? ready() : (*e = hold(sizeof(int)), OK); }
FN(cuEventDestroy_v2, void *e) { return drop(e); }
FN(cuEventRecord, void *e, void *s) { return !e || !s ? INVALID : (*(int *)e = 1, ready()); }
FN(cuEventSynchronize, void *e) { return !e ? INVALID : ready(); }
FN(cuEventElapsedTime, float *ms, void *a, void *b) { return !*(int *)a || !*(int *)b ? NOT_READY : (*ms = 1.5f, ready()); }
FN(cuStreamBeginCapture_v2, void *s, int mode) { return !s || mode != 1 || ((stream *)s)->capturing ? INVALID : (((stream *)s)->capturing = 1, ready()); }
FN(cuStreamEndCapture, void *s, void **out) {
    stream *from = s;
    if (!from->capturing) return INVALID;
    *out = hold(sizeof(stream));
    memcpy(*out, from, sizeof *from);
    return from->capturing = from->n = 0, ready();
}
FN(cuGraphInstantiateWithFlags, void **out, void *graph, unsigned long long flags) {
    return !graph || flags ? INVALID : (*out = hold(sizeof(stream)), memcpy(*out, graph, sizeof(stream)), ready());
}
FN(cuGraphDestroy, void *graph) { return drop(graph); }
FN(cuGraphExecDestroy, void *graph) { return drop(graph); }
FN(cuGraphLaunch, void *graph, void *s) {
    for (int i = 0; s && i < ((stream *)graph)->n; i++) run(&((stream *)graph)->v[i]);
    return s ? ready() : INVALID;
}

/* ---- code: PTX text that names the kernels ---- */

static int add_kernel, fail_kernel;
FN(cuModuleLoadDataEx, void **m, const void *image, unsigned n, int *options, void **values) {
    if (ready()) return ready();
    if (n != 2 || options[0] != 5 || options[1] != 6 || (size_t)(uintptr_t)values[1] < 64) return INVALID;
    if ((strncmp(image, ".version", 8) != 0 && strncmp(image, "//", 2) != 0) || g.ptx == INVALID_PTX) return strcpy(values[0], "line 1: syntax error\nmore"), INVALID_PTX;
    bool newer = strstr(image, ".version 8.0\n.target sm_90\n") && strstr(image, "        griddepcontrol") && !strstr(image, "//sm_90 ");
    if (g.ptx || (g.newer && !newer)) return g.ptx ? g.ptx : INVALID_PTX;
    *m = hold(strlen(image) + 1); /* the text */
    return strcpy(*m, image), OK;
}
FN(cuModuleUnload, void *m) { return drop(m); }
FN(cuModuleGetFunction, void **f, void *m, const char *name) {
    char entry[128];
    if (!m) return INVALID;
    snprintf(entry, sizeof entry, ".visible .entry %s(", name);
    *f = strcmp(name, "mock_fail") ? &add_kernel : &fail_kernel;
    return strstr(m, entry) ? OK : NOT_FOUND;
}
FN(cuLaunchKernel, void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned lds, void *s, void **args, void **extra) {
    if (!gx || !gy || !gz || !bx || bx > 1024 || by != 1 || bz != 1 || lds || extra) return INVALID;
    if (f == &fail_kernel) return g.lost = ILLEGAL;
    item i = {.kind = 1};
    memcpy(&i.args, args[0], sizeof i.args);
    return submit(s, i);
}
FN(cuLaunchCooperativeKernel, void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned lds, void *s, void **args) {
    return gx * gy * gz > 132 ? 720 : cuLaunchKernel(f, gx, gy, gz, bx, by, bz, lds, s, args, NULL);
}
FN(cuFuncGetAttribute, int *v, int attribute, void *f) { return *v = 1024, attribute == 1 && f ? ready() : INVALID; }
FN(cuFuncSetAttribute, void *f, int attribute, int v) {
    bool ok = attribute == 8 ? v >= 0 && v + 1024 <= 232448 : attribute == 9 && v == 100;
    return ok && f ? ready() : INVALID;
}
/* CUlaunchConfig and CUlaunchAttribute; the one attribute is programmatic stream serialization. */
typedef struct {
    int id;
    _Alignas(8) int on[16];
} launch_attribute;
typedef struct {
    unsigned g[3], b[3], lds;
    void *stream;
    const launch_attribute *a;
    unsigned n;
} launch_config;
FN(cuLaunchKernelEx, const void *config, void *f, void **args, void **extra) {
    const launch_config *c = config;
    if (c->n != 1 || c->a->id != 6 || c->a->on[0] != 1) return INVALID;
    return cuLaunchKernel(f, c->g[0], c->g[1], c->g[2], c->b[0], c->b[1], c->b[2], c->lds, c->stream, args, extra);
}
