/* AMD: libamdhip64.so. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "driver_int.h"

#define ARCH "gfx1201"

static const char *const libraries[] = {"libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6", "/opt/rocm/lib/libamdhip64.so", NULL};

/* hipDeviceProp_tR0600 as far as it is read; gaps are fields of no use here. */
typedef struct {
    char name[256];
    char gap0[32];
    size_t total_memory;
    char gap1[52];
    int clock_khz;
    char gap2[36];
    int multiprocessors;
    char gap3[216];
    int mem_clock_khz, bus_bits, l2_bytes, gap4, lanes_per_multiprocessor;
    char gap5[12];
    size_t lds_per_multiprocessor;
    char gap6[512];
    char arch[256];
    char rest[1024]; /* more than any version fills */
} hip_properties;
_Static_assert(offsetof(hip_properties, total_memory) == 288 && offsetof(hip_properties, clock_khz) == 348 &&
               offsetof(hip_properties, multiprocessors) == 388 && offsetof(hip_properties, mem_clock_khz) == 608 &&
               offsetof(hip_properties, lanes_per_multiprocessor) == 624 && offsetof(hip_properties, lds_per_multiprocessor) == 640 &&
               offsetof(hip_properties, arch) == 1160, "layout of hipDeviceProp_tR0600");

enum { NO_BINARY = 209, INVALID_IMAGE = 200 };

static ie_status no_device(gpu_driver *d, int code, ie_error *err) {
    (void)d;
    (void)code;
    if (access("/dev/kfd", R_OK | W_OK) == 0)
        return ie_fail(err, IE_E_DEVICE, "hip: no AMD GPU: the driver reports no device");
    if (errno == EACCES || errno == EPERM)
        return ie_fail(err, IE_E_DEVICE, "hip: no permission for /dev/kfd: the user has to be in the group render (usermod -aG render,video NAME)");
    return ie_fail(err, IE_E_DEVICE, "hip: no AMD GPU: /dev/kfd is missing (the amdgpu kernel driver is not loaded)");
}

static ie_status card(gpu_driver *d, int32_t device, gpu_card *out, ie_error *err) {
    hip_properties p;
    memset(&p, 0, sizeof p);
    ie_status st = gpu_check(d, d->call.properties(&p, device), GPU_DO_properties, err);
    if (st) return st;
    p.name[sizeof p.name - 1] = p.arch[sizeof p.arch - 1] = 0;
    p.arch[strcspn(p.arch, ":")] = 0; /* "gfx1201:sramecc-" */
    /* The driver counts pairs of compute units (WGPs) on this architecture. */
    *out = (gpu_card){.units = 2u * (uint32_t)p.multiprocessors, .waves_per_unit = (uint32_t)p.lanes_per_multiprocessor / 64u,
                      .lds_per_unit = (uint32_t)(p.lds_per_multiprocessor / 2u), .l2_bytes = (uint32_t)p.l2_bytes,
                      .clock_khz = (uint32_t)p.clock_khz, .mem_clock_khz = (uint32_t)p.mem_clock_khz, .bus_bits = (uint32_t)p.bus_bits,
                      .memory_bytes = p.total_memory, .lds_per_group = (uint32_t)p.lds_per_multiprocessor / 2u, .norm_chunks = 4, .mma_min = 5 /* by issue rates: kernels/gemv_mma.c */, .last_group = true};
    snprintf(out->name, sizeof out->name, "%.*s", (int)sizeof out->name - 1, p.name);
    snprintf(out->arch, sizeof out->arch, "%.*s", (int)sizeof out->arch - 1, p.arch);
    return IE_OK;
}

static ie_status usable(const gpu_driver *d, int32_t device, const gpu_card *c, ie_error *err) {
    (void)d;
    if (strcmp(c->arch, ARCH) == 0) return IE_OK;
    return ie_fail(err, IE_E_DEVICE, "hip: device %d (%s) is of architecture %s; this engine's kernels are for " ARCH " (RX 9070, R9700)", device,
                   c->name, c->arch);
}

static ie_status use(gpu_driver *d, int32_t device, ie_error *err) {
    return gpu_check(d, d->call.set_device(device), GPU_DO_set_device, err);
}

static int bind(gpu_driver *d) { return d->call.set_device(d->device); }

static void leave(gpu_driver *d) { (void)d; }

static ie_status module_load(gpu_driver *d, const void *image, uint32_t part, const char *name, gpu_module *out, ie_error *err) {
    (void)part;
    int code = d->call.module_load(out, image, 0, NULL, NULL);
    if (code == NO_BINARY || code == INVALID_IMAGE)
        return ie_fail(err, IE_E_DEVICE, "hip: %s is no code object for %s", name, d->card.arch);
    return gpu_check(d, code, GPU_DO_module_load, err);
}

const gpu_vendor_ops gpu_hip_ops = {
    .libraries = libraries,
    .missing = "the library libamdhip64.so is not installed (it comes with AMD's ROCm)",
    .oldest = "that of ROCm 6.0",
    .no_device = no_device,
    .card = card,
    .usable = usable,
    .use = use,
    .bind = bind,
    .leave = leave,
    .module_load = module_load,
};
