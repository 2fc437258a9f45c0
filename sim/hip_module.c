/* Modules, functions, launches, occupancy. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "hip.h"

API hipError_t hipModuleLoad(hipModule_t *out, const char *path);
API hipError_t hipModuleLoadData(hipModule_t *out, const void *image);
API hipError_t hipModuleLoadDataEx(hipModule_t *out, const void *image, unsigned n, int *opt, void **val);
API hipError_t hipModuleUnload(hipModule_t m);
API hipError_t hipModuleGetFunction(hipFunction_t *out, hipModule_t m, const char *name);
API hipError_t hipModuleGetGlobal(void **p, size_t *n, hipModule_t m, const char *name);
API hipError_t hipFuncGetAttribute(int *v, int attr, hipFunction_t f);
API hipError_t hipFuncSetAttribute(const void *f, int attr, int value);
API hipError_t hipModuleLaunchKernel(hipFunction_t f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                                     unsigned lds, hipStream_t s, void **params, void **extra);
API hipError_t hipModuleLaunchCooperativeKernel(hipFunction_t f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                                                unsigned bz, unsigned lds, hipStream_t s, void **params);
API hipError_t hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(int *n, hipFunction_t f, int block, size_t lds);
API hipError_t hipModuleOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *n, hipFunction_t f, int block, size_t lds, unsigned flags);
API hipError_t hipModuleOccupancyMaxPotentialBlockSize(int *grid, int *block, hipFunction_t f, size_t lds, int limit);

/* Functions live as long as their module: looked-up ones are kept in a list behind it. */
typedef struct {
    module_box box;
    function *f[4096];
    u32 n;
} full_module;

static hipError_t load(runtime *r, hipModule_t *out, const void *image, u64 size) {
    sim_error err = {{0}};
    full_module *fm = calloc(1, sizeof *fm);
    if (!fm) return hipErrorOutOfMemory;
    fm->box.m = sim_module_load(r->dev.mem, image, size, &err);
    if (!fm->box.m) {
        free(fm);
        fprintf(stderr, "simulator: %s\n", err.text);
        bool other = strstr(err.text, "processor number") || strstr(err.text, "no entry for");
        return other ? hipErrorNoBinaryForGpu : hipErrorInvalidImage;
    }
    *out = &fm->box;
    return hipSuccess;
}

/* The size of an image given by address alone: where its last section header or bundle entry ends. */
static u64 image_size(const u8 *p) {
    u64 end = 64;
    if (!memcmp(p, "\177ELF", 4)) {
        u64 shoff, phoff;
        u16 shn, phn;
        memcpy(&phoff, p + 32, 8);
        memcpy(&shoff, p + 40, 8);
        memcpy(&phn, p + 56, 2);
        memcpy(&shn, p + 60, 2);
        if (shoff && shoff < 1ull << 32) end = shoff + 64ull * shn;
        for (u32 i = 0; i < phn && phoff < 1ull << 32; i++) {
            u64 off, fsz;
            memcpy(&off, p + phoff + 56ull * i + 8, 8);
            memcpy(&fsz, p + phoff + 56ull * i + 32, 8);
            if (off < 1ull << 32 && fsz < 1ull << 32 && off + fsz > end) end = off + fsz;
        }
        return end;
    }
    if (memcmp(p, "__CLANG_OFFLOAD_BUNDLE__", 24)) return 0;
    u64 n, o = 32;
    memcpy(&n, p + 24, 8);
    for (u64 i = 0; i < n && i < 64; i++) {
        u64 e[3];
        memcpy(e, p + o, 24);
        o += 24 + e[2];
        if (e[0] + e[1] > end) end = e[0] + e[1];
    }
    return end > o ? end : o;
}

hipError_t hipModuleLoadData(hipModule_t *out, const void *image) {
    runtime *r = hip_enter();
    if (!r) return hipErrorNotInitialized;
    if (!out || !image) return hip_leave(hipErrorInvalidValue);
    u64 n = image_size(image);
    return hip_leave(n ? load(r, out, image, n) : hipErrorInvalidImage);
}
hipError_t hipModuleLoadDataEx(hipModule_t *out, const void *image, unsigned n, int *opt, void **val) {
    (void)n;
    (void)opt;
    (void)val;
    return hipModuleLoadData(out, image);
}
hipError_t hipModuleLoad(hipModule_t *out, const char *path) {
    runtime *r = hip_enter();
    if (!r) return hipErrorNotInitialized;
    if (!out || !path) return hip_leave(hipErrorInvalidValue);
    FILE *f = fopen(path, "rb");
    if (!f) return hip_leave(hipErrorFileNotFound);
    hipError_t e = hipErrorInvalidImage;
    long n = fseek(f, 0, SEEK_END) ? -1 : ftell(f);
    u8 *data = n > 0 && n < 1l << 30 ? malloc((size_t)n) : NULL;
    rewind(f);
    if (data && fread(data, 1, (size_t)n, f) == (size_t)n) e = load(r, out, data, (u64)n);
    free(data);
    fclose(f);
    return hip_leave(e);
}
hipError_t hipModuleUnload(hipModule_t m) {
    runtime *r = hip_enter();
    if (!r) return hipErrorNotInitialized;
    if (!m) return hip_leave(hipErrorInvalidHandle);
    full_module *fm = (full_module *)(void *)m;
    for (u32 i = 0; i < fm->n; i++) free(fm->f[i]);
    sim_module_free(m->m);
    free(fm);
    return hip_leave(hipSuccess);
}
hipError_t hipModuleGetFunction(hipFunction_t *out, hipModule_t m, const char *name) {
    runtime *r = hip_enter();
    if (!r) return hipErrorNotInitialized;
    if (!out || !m || !name) return hip_leave(hipErrorInvalidValue);
    sim_kernel *k = sim_module_kernel(m->m, name);
    if (!k) return hip_leave(hipErrorNotFound);
    full_module *fm = (full_module *)(void *)m;
    for (u32 i = 0; i < fm->n; i++)
        if (fm->f[i]->k == k) {
            *out = fm->f[i];
            return hip_leave(hipSuccess);
        }
    function *f = fm->n < sizeof fm->f / sizeof *fm->f ? malloc(sizeof *f) : NULL;
    if (!f) return hip_leave(hipErrorOutOfMemory);
    *f = (function){m->m, k};
    fm->f[fm->n++] = f;
    *out = f;
    return hip_leave(hipSuccess);
}
hipError_t hipModuleGetGlobal(void **p, size_t *n, hipModule_t m, const char *name) {
    runtime *r = hip_enter();
    if (!r) return hipErrorNotInitialized;
    if (!m || !name || (!p && !n)) return hip_leave(hipErrorInvalidValue);
    const sim_symbol *s = sim_module_symbol(m->m, name);
    if (!s || s->func) return hip_leave(hipErrorNotFound);
    if (p) *p = (void *)(uintptr_t)s->addr;
    if (n) *n = s->size;
    return hip_leave(hipSuccess);
}

/* hipFunction_attribute numbers: 0 threads a block, 1 LDS, 2 constants, 3 scratch, 4 registers, 5 and 6 versions, 7 cache mode,
 * 8 dynamic LDS, 9 preferred carve-out. */
hipError_t hipFuncGetAttribute(int *v, int attr, hipFunction_t f) {
    runtime *r = hip_enter();
    if (!r) return hipErrorNotInitialized;
    if (!v || !f) return hip_leave(hipErrorInvalidValue);
    const sim_kernel *k = f->k;
    switch (attr) {
    case 0: *v = (int)(k->max_threads ? k->max_threads : 1024); break;
    case 1: *v = (int)k->lds; break;
    case 2: *v = 0; break;
    case 3: *v = (int)k->scratch; break;
    case 4: *v = (int)k->vgprs; break;
    case 5:
    case 6: *v = 120; break;
    case 7: *v = 0; break;
    case 8: *v = (int)(SIM_LDS_MAX - k->lds); break;
    case 9: *v = 0; break;
    default: return hip_leave(hipErrorInvalidValue);
    }
    return hip_leave(hipSuccess);
}
hipError_t hipFuncSetAttribute(const void *f, int attr, int value) {
    runtime *r = hip_enter();
    if (!r) return hipErrorNotInitialized;
    bool ok = f && (attr == 8 || attr == 9) && value >= 0 && (attr == 9 || value <= (int)SIM_LDS_MAX);
    return hip_leave(ok ? hipSuccess : hipErrorInvalidValue);
}

#define PARAM_POINTER ((void *)1)
#define PARAM_SIZE ((void *)2)
#define PARAM_END ((void *)3)

/* The explicit arguments' bytes, from an array of pointers or from a packed buffer. */
static hipError_t gather(node *nd, void **params, void **extra) {
    const sim_kernel *k = nd->k;
    nd->n_args = k->kernarg_size;
    nd->args = calloc(1, nd->n_args ? nd->n_args : 1);
    if (!nd->args) return hipErrorOutOfMemory;
    if (params) {
        u32 at = 0;
        for (u32 i = 0; i < k->n_args; i++) {
            const sim_arg *a = &k->args[i];
            if (a->kind != SIM_ARG_VALUE && a->kind != SIM_ARG_BUFFER) continue;
            if (!params[at]) return hipErrorInvalidValue;
            memcpy(nd->args + a->offset, params[at++], a->size);
        }
    } else if (extra) {
        const void *buf = NULL;
        const size_t *n = NULL;
        for (int i = 0; extra[i] != PARAM_END; i += 2) {
            if (extra[i] == PARAM_POINTER) buf = extra[i + 1];
            else if (extra[i] == PARAM_SIZE) n = extra[i + 1];
            else return hipErrorInvalidValue;
        }
        if (!buf || !n || *n > nd->n_args) return hipErrorInvalidValue;
        memcpy(nd->args, buf, *n);
    } else if (k->n_explicit) {
        return hipErrorInvalidValue;
    }
    return hipSuccess;
}

static hipError_t launch(hipFunction_t f, const sim_launch *c, hipStream_t s, void **params, void **extra) {
    runtime *r = hip_enter();
    if (!r) return hipErrorNotInitialized;
    if (!f) return hip_leave(hipErrorInvalidHandle);
    node nd = {.kind = NODE_KERNEL, .mod = f->m, .k = f->k, .cfg = *c};
    hipError_t e = gather(&nd, params, extra);
    if (e) {
        free(nd.args);
        return hip_leave(e);
    }
    return hip_leave(hip_submit(r, s, &nd));
}
hipError_t hipModuleLaunchKernel(hipFunction_t f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                                 unsigned lds, hipStream_t s, void **params, void **extra) {
    sim_launch c = {{gx, gy, gz}, {bx, by, bz}, lds, false};
    return launch(f, &c, s, params, extra);
}
hipError_t hipModuleLaunchCooperativeKernel(hipFunction_t f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                                            unsigned bz, unsigned lds, hipStream_t s, void **params) {
    sim_launch c = {{gx, gy, gz}, {bx, by, bz}, lds, true};
    return launch(f, &c, s, params, NULL);
}

hipError_t hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(int *n, hipFunction_t f, int block, size_t lds) {
    runtime *r = hip_enter();
    if (!r) return hipErrorNotInitialized;
    if (!n || !f || block < 1 || block > 1024 || lds > SIM_LDS_MAX) return hip_leave(hipErrorInvalidValue);
    *n = (int)sim_occupancy(f->k, (u32)block, (u32)lds);
    return hip_leave(hipSuccess);
}
hipError_t hipModuleOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *n, hipFunction_t f, int block, size_t lds, unsigned flags) {
    (void)flags;
    return hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(n, f, block, lds);
}
hipError_t hipModuleOccupancyMaxPotentialBlockSize(int *grid, int *block, hipFunction_t f, size_t lds, int limit) {
    runtime *r = hip_enter();
    if (!r) return hipErrorNotInitialized;
    if (!grid || !block || !f || lds > SIM_LDS_MAX) return hip_leave(hipErrorInvalidValue);
    u32 max = f->k->max_threads ? f->k->max_threads : 1024, best = 0;
    if (limit > 0 && (u32)limit < max) max = (u32)limit;
    for (u32 b = 32; b <= max; b += 32) {
        u32 t = b * sim_occupancy(f->k, b, (u32)lds);
        if (t >= best) {
            best = t;
            *block = (int)b;
            *grid = (int)(t / b * SIM_WGPS);
        }
    }
    return hip_leave(best ? hipSuccess : hipErrorInvalidValue);
}
