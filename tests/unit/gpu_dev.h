/* A device for tests of GPU code: the simulator of gfx1201, or a card (IE_GPU_LIB names its library; IE_GPU_TEST=cuda), with a module and a
 * stream. */
#ifndef GPU_DEV_H
#define GPU_DEV_H

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpu/modules.h"

typedef struct {
    gpu_driver *drv;
    gpu_modules modules;
    gpu_stream stream;
} gpu_dev;

/* Path of a file of the build, from the environment or next to the running program's folder. */
static inline bool dev_path(const char *env, const char *name, char out[PATH_MAX]) {
    const char *v = getenv(env);
    ssize_t n = readlink("/proc/self/exe", out, PATH_MAX - 64);
    if (v) return snprintf(out, PATH_MAX, "%s", v) > 0 && access(out, R_OK) == 0;
    if (n < 0) return false;
    out[n] = 0;
    *strrchr(out, '/') = 0;
    for (int i = 0; i < 2; i++) { /* build/tests/x: build; build/asan/tests/x: build/asan, then build */
        *strrchr(out, '/') = 0;
        size_t end = strlen(out);
        strcat(out, name);
        if (access(out, R_OK) == 0) return true;
        out[end] = 0;
    }
    return false;
}

/* IE_GPU_TEST=cuda: an NVIDIA card; else HIP. The code is the build's file hsaco or ptx, or the one that env names. NULL, or why there is no
 * device. */
static inline const char *dev_open(gpu_dev *d, const char *env, const char *hsaco, const char *ptx) {
    static char path[PATH_MAX];
    ie_error err = {0};
    const char *which = getenv("IE_GPU_TEST");
    bool cuda = which && !strcmp(which, "cuda");
    if (!cuda && !dev_path("IE_GPU_LIB", "/sim/libamdhip64.so", path)) return "no simulator (make sim)";
    if (!cuda && !dlopen(path, RTLD_NOW | RTLD_GLOBAL)) return dlerror(); /* by this name the driver then finds it */
    if (!dev_path(env, cuda ? ptx : hsaco, path)) return "no code for the GPU in the build folder (make kernels)";
    d->drv = gpu_driver_open(cuda ? GPU_CUDA : GPU_HIP, -1, &err);
    bool ok = d->drv && !gpu_bind(d->drv, &err) && !gpu_stream_new(d->drv, &d->stream, &err) &&
              !gpu_modules_open(&d->modules, d->drv, path, &err);
    if (ok) return NULL;
    snprintf(path, sizeof path, "%s", err.msg);
    return path;
}

#define GPU_OK(call)                                          \
    do {                                                      \
        ie_error e_ = {0};                                    \
        ie_error *err = &e_;                                  \
        if ((call) != IE_OK) fail_msg("%s: %s", #call, e_.msg); \
    } while (0)

static inline gpu_ptr dev_new(gpu_dev *d, uint64_t bytes) {
    gpu_ptr p = 0;
    GPU_OK(gpu_alloc(d->drv, bytes ? bytes : 256, "test", &p, err));
    return p;
}
static inline gpu_ptr dev_zeros(gpu_dev *d, uint64_t bytes) {
    gpu_ptr p = dev_new(d, bytes);
    GPU_OK(gpu_fill(d->drv, p, 0, bytes ? bytes : 256, d->stream, err));
    return p;
}
static inline void dev_put(gpu_dev *d, gpu_ptr to, const void *from, uint64_t bytes) {
    if (bytes) GPU_OK(gpu_upload(d->drv, to, from, bytes, d->stream, err));
    GPU_OK(gpu_stream_sync(d->drv, d->stream, err));
}
static inline void dev_get(gpu_dev *d, void *to, gpu_ptr from, uint64_t bytes) {
    if (bytes) GPU_OK(gpu_download(d->drv, to, from, bytes, d->stream, err));
    GPU_OK(gpu_stream_sync(d->drv, d->stream, err));
}
static inline void dev_run(gpu_dev *d, gpu_launches *l) {
    for (size_t i = 0; i < l->n; i++) {
        gpu_function f = NULL;
        GPU_OK(gpu_modules_find(&d->modules, l->v[i].kernel, &f, err));
        GPU_OK(gpu_launch_run(d->drv, f, &l->v[i], i ? GPU_OVERLAP : GPU_PLAIN, d->stream, err));
    }
    GPU_OK(gpu_stream_sync(d->drv, d->stream, err));
}

#endif
