/* NVIDIA: the driver API of libcuda.so.1. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "driver_int.h"
#include "ptx.h"

#define MIN_CAPABILITY 80     /* sm_80 */
#define OVERLAP_VERSION 12030 /* CUDA 12.3: graphs keep a launch's early start */

static const char *const libraries[] = {"libcuda.so.1", "libcuda.so", NULL};

/* CUdevice_attribute, CUjit_option and CUresult numbers. */
enum { A_CLOCK = 13, A_UNITS = 16, A_MEM_CLOCK = 36, A_BUS = 37, A_L2 = 38, A_THREADS = 39, A_MAJOR = 75, A_MINOR = 76, A_SHARED = 81, A_SHARED_GROUP = 97 };
enum { F_SHARED = 1, F_SHARED_MORE = 8, F_CARVEOUT = 9 }; /* CUfunction_attribute */
enum { LIMIT_STACK = 0 }; /* CUlimit */
#define STACK_BYTES 128u /* a lane's stack: the driver keeps that much for all lanes that the card holds, 1 KB by itself; makes it more itself when a kernel spills more */
enum { JIT_ERROR_LOG = 5, JIT_ERROR_LOG_BYTES = 6 };
enum { NO_MEMORY = 2, NO_DEVICE = 100, NO_BINARY = 209, INVALID_PTX = 218, NO_COMPILER = 221, UNSUPPORTED_PTX = 222, NO_COMPILING = 223, MISMATCH = 803 };
#define OLDEST "CUDA 11.8 (driver 520)"
#define CONTROL "/dev/nvidiactl" /* the kernel driver's */

static ie_status no_device(gpu_driver *d, int code, ie_error *err) {
    if (code == MISMATCH)
        return ie_fail(err, IE_E_DEVICE, "cuda: libcuda.so.1 and the NVIDIA kernel driver are of different versions: restart the machine");
    if (code && code != NO_DEVICE) return gpu_check(d, code, GPU_DO_init, err);
    if (access(CONTROL, R_OK | W_OK) == 0)
        return ie_fail(err, IE_E_DEVICE, "cuda: no NVIDIA GPU: the driver reports no device (CUDA_VISIBLE_DEVICES can hide one)");
    if (errno == EACCES || errno == EPERM) return ie_fail(err, IE_E_DEVICE, "cuda: no permission for " CONTROL);
    return ie_fail(err, IE_E_DEVICE, "cuda: no NVIDIA GPU: " CONTROL " is missing (the kernel driver is not loaded, or this container was started without the card)");
}

/* A number that stays 0 where the driver does not know it. */
static uint32_t attribute(gpu_driver *d, int which, int device) {
    int v = 0;
    if (d->call.device_attribute(&v, which, device) || v < 0) v = 0;
    return (uint32_t)v;
}

static ie_status card(gpu_driver *d, int32_t device, gpu_card *out, ie_error *err) {
    int dev = 0;
    size_t bytes = 0;
    *out = (gpu_card){0};
    ie_status st = gpu_check(d, d->call.device_get(&dev, device), GPU_DO_device_get, err);
    if (!st) st = gpu_check(d, d->call.device_name(out->name, sizeof out->name, dev), GPU_DO_device_name, err);
    if (!st) st = gpu_check(d, d->call.device_memory(&bytes, dev), GPU_DO_device_memory, err);
    if (st) return st;
    out->name[sizeof out->name - 1] = 0;
    out->memory_bytes = bytes;
    out->units = attribute(d, A_UNITS, dev);
    out->waves_per_unit = attribute(d, A_THREADS, dev) / 32u;
    out->lds_per_unit = attribute(d, A_SHARED, dev);
    out->l2_bytes = attribute(d, A_L2, dev);
    out->clock_khz = attribute(d, A_CLOCK, dev);
    out->mem_clock_khz = attribute(d, A_MEM_CLOCK, dev);
    out->bus_bits = attribute(d, A_BUS, dev);
    out->lds_per_group = attribute(d, A_SHARED_GROUP, dev);
    out->norm_chunks = 1;
    out->ahead = 4;
    out->mma_min = 2; /* measured on an H200: docs/PERFORMANCE.md */
    out->overlap = attribute(d, A_MAJOR, dev) >= 9 && d->version >= OVERLAP_VERSION;
    out->copies = out->overlap;
    snprintf(out->arch, sizeof out->arch, "sm_%u%u", attribute(d, A_MAJOR, dev), attribute(d, A_MINOR, dev));
    return IE_OK;
}

static ie_status usable(const gpu_driver *d, int32_t device, const gpu_card *c, ie_error *err) {
    (void)d;
    if (strtoul(c->arch + 3, NULL, 10) >= MIN_CAPABILITY) return IE_OK;
    return ie_fail(err, IE_E_DEVICE, "cuda: device %d (%s) is %s; this engine's kernels need sm_%d (Ampere) or later", device, c->name, c->arch,
                   MIN_CAPABILITY);
}

/* Why a device cannot be opened: mostly, other programs have its memory, of which the driver takes some hundred MB for a process. */
static ie_status no_context(gpu_driver *d, int32_t device, int code, gpu_entry_id op, ie_error *err) {
    if (code != NO_MEMORY) return gpu_check(d, code, op, err);
    return ie_fail(err, IE_E_NOMEM, "cuda: device %d (%s) has no memory left for another program; nvidia-smi lists those that use its %.1f GB", device, d->card.name,
                   (double)d->card.memory_bytes / 1e9);
}

static ie_status use(gpu_driver *d, int32_t device, ie_error *err) {
    int dev = 0;
    ie_status st = gpu_check(d, d->call.device_get(&dev, device), GPU_DO_device_get, err);
    if (st) return st;
    int code = d->call.context_retain(&d->context, dev);
    if (code) return no_context(d, device, code, GPU_DO_context_retain, err);
    code = d->call.context_set(d->context);
    st = gpu_check(d, code, GPU_DO_context_set, err);
    if (!st && (code = d->call.context_limit(LIMIT_STACK, STACK_BYTES))) st = no_context(d, device, code, GPU_DO_context_limit, err);
    if (st) d->call.context_release(dev);
    return st;
}

static int bind(gpu_driver *d) { return d->call.context_set(d->context); }

static void leave(gpu_driver *d) {
    int dev = 0;
    d->call.context_set(NULL);
    if (d->call.device_get(&dev, d->device) == 0) d->call.context_release(dev);
}

/* CUlaunchAttribute and CUlaunchConfig. */
typedef struct {
    int id;
    _Alignas(8) int value[16];
} launch_attribute;
typedef struct {
    unsigned grid[3], block[3], lds;
    gpu_stream stream;
    launch_attribute *attributes;
    unsigned n;
} launch_config;
_Static_assert(sizeof(launch_attribute) == 72 && sizeof(launch_config) == 56, "as the driver reads them");

/* A launch may ask for all of a unit's shared memory; and all kernels ask for the same division of it from L1, since a unit has to be empty before
 * the division can change. */
static ie_status function_ready(gpu_driver *d, gpu_function f, ie_error *err) {
    int declared = 0;
    ie_status st = gpu_check(d, d->call.function_number(&declared, F_SHARED, f), GPU_DO_function_number, err);
    if (!st) st = gpu_check(d, d->call.function_attribute(f, F_SHARED_MORE, (int)d->card.lds_per_group - declared), GPU_DO_function_attribute, err);
    return st ? st : gpu_check(d, d->call.function_attribute(f, F_CARVEOUT, 100), GPU_DO_function_attribute, err);
}

static int launch_overlap(gpu_driver *d, gpu_function f, const gpu_launch *l, gpu_stream s, void **args) {
    launch_attribute early = {.id = 6, .value = {1}}; /* programmatic stream serialization */
    launch_config c = {.grid = {l->grid[0], l->grid[1], l->grid[2]}, .block = {l->block, 1, 1}, .lds = l->lds, .stream = s, .attributes = &early, .n = 1};
    return d->call.launch_config(&c, f, args, NULL);
}

static ie_status module_load(gpu_driver *d, const void *image, uint32_t part, const char *name, gpu_module *out, ie_error *err) {
    char log[512] = "", version[16];
    int options[] = {JIT_ERROR_LOG, JIT_ERROR_LOG_BYTES};
    void *values[] = {log, (void *)(uintptr_t)sizeof log};
    char *text = NULL;
    if (gpu_ptx_is(image) && !(text = gpu_ptx_text(image, part, d->card.overlap, err))) return err->code;
    int code = d->call.module_load(out, text ? text : image, 2, options, values);
    free(text);
    if (code == UNSUPPORTED_PTX) {
        gpu_ptx_version(image, version, sizeof version);
        return ie_fail(err, IE_E_DEVICE, "cuda: the driver (CUDA %d.%d) is too old: %s is PTX %s; " OLDEST " or later is needed",
                       d->version / 1000, d->version % 1000 / 10, name, version);
    }
    log[sizeof log - 1] = 0;
    log[strcspn(log, "\n")] = 0;
    if (code == NO_COMPILER)
        return ie_fail(err, IE_E_DEVICE, "cuda: the driver's compiler is missing (libnvidia-ptxjitcompiler.so.1, of the driver's version; some systems have it as a package of its own)");
    if (code == NO_COMPILING) return ie_fail(err, IE_E_DEVICE, "cuda: the driver may not compile: CUDA_DISABLE_PTX_JIT is set");
    if (code == INVALID_PTX || code == NO_BINARY)
        return ie_fail(err, IE_E_DEVICE, "cuda: the driver (CUDA %d.%d) cannot compile %s for %s: %s", d->version / 1000, d->version % 1000 / 10,
                       name, d->card.arch, log);
    return gpu_check(d, code, GPU_DO_module_load, err);
}

const gpu_vendor_ops gpu_cuda_ops = {
    .libraries = libraries,
    .missing = "the library libcuda.so.1 is not installed (it comes with NVIDIA's driver)",
    .oldest = OLDEST,
    .no_device = no_device,
    .card = card,
    .usable = usable,
    .use = use,
    .bind = bind,
    .leave = leave,
    .function_ready = function_ready,
    .launch_overlap = launch_overlap,
    .in_parts = gpu_ptx_is,
    .module_load = module_load,
};
