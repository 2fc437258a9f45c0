/* Memory of the HIP API: device and host allocations, copies, fills. Device addresses are host addresses, so copies are
 * memmove; what is checked is that device ranges lie inside a live allocation. */
#include <stdlib.h>
#include <string.h>

#include "hip.h"

API hipError_t hipMalloc(void **p, size_t n);
API hipError_t hipMallocAsync(void **p, size_t n, hipStream_t s);
API hipError_t hipExtMallocWithFlags(void **p, size_t n, unsigned flags);
API hipError_t hipMallocManaged(void **p, size_t n, unsigned flags);
API hipError_t hipFree(void *p);
API hipError_t hipFreeAsync(void *p, hipStream_t s);
API hipError_t hipHostMalloc(void **p, size_t n, unsigned flags);
API hipError_t hipHostAlloc(void **p, size_t n, unsigned flags);
API hipError_t hipHostFree(void *p);
API hipError_t hipHostRegister(void *p, size_t n, unsigned flags);
API hipError_t hipHostUnregister(void *p);
API hipError_t hipHostGetDevicePointer(void **d, void *h, unsigned flags);
API hipError_t hipMemcpy(void *dst, const void *src, size_t n, int kind);
API hipError_t hipMemcpyAsync(void *dst, const void *src, size_t n, int kind, hipStream_t s);
API hipError_t hipMemcpyWithStream(void *dst, const void *src, size_t n, int kind, hipStream_t s);
API hipError_t hipMemcpyHtoD(void *dst, void *src, size_t n);
API hipError_t hipMemcpyDtoH(void *dst, void *src, size_t n);
API hipError_t hipMemcpyDtoD(void *dst, void *src, size_t n);
API hipError_t hipMemcpyHtoDAsync(void *dst, void *src, size_t n, hipStream_t s);
API hipError_t hipMemcpyDtoHAsync(void *dst, void *src, size_t n, hipStream_t s);
API hipError_t hipMemcpyDtoDAsync(void *dst, void *src, size_t n, hipStream_t s);
API hipError_t hipMemset(void *p, int v, size_t n);
API hipError_t hipMemsetAsync(void *p, int v, size_t n, hipStream_t s);
API hipError_t hipMemsetD8(void *p, unsigned char v, size_t n);
API hipError_t hipMemsetD8Async(void *p, unsigned char v, size_t n, hipStream_t s);
API hipError_t hipMemsetD16(void *p, unsigned short v, size_t n);
API hipError_t hipMemsetD16Async(void *p, unsigned short v, size_t n, hipStream_t s);
API hipError_t hipMemsetD32(void *p, int v, size_t n);
API hipError_t hipMemsetD32Async(void *p, int v, size_t n, hipStream_t s);
API hipError_t hipMemGetInfo(size_t *free_n, size_t *total);
API hipError_t hipPointerGetAttributes(void *attr, const void *p);
API hipError_t hipMemGetAddressRange(void **base, size_t *n, void *p);

static hipError_t allocate(void **p, size_t n, const char *what, bool written) {
    runtime *r = hip_enter();
    if (!r) return hipErrorNotInitialized;
    if (!p) return hip_leave(hipErrorInvalidValue);
    *p = NULL;
    if (n == 0) return hip_leave(hipSuccess);
    u64 a = sim_malloc(r->dev.mem, n, what, NULL);
    if (!a) return hip_leave(hipErrorOutOfMemory);
    if (written) sim_mark_written(r->dev.mem, a, n);
    *p = (void *)(uintptr_t)a;
    return hip_leave(hipSuccess);
}
hipError_t hipMalloc(void **p, size_t n) { return allocate(p, n, "device buffer", false); }
hipError_t hipMallocAsync(void **p, size_t n, hipStream_t s) {
    (void)s;
    return hipMalloc(p, n);
}
hipError_t hipExtMallocWithFlags(void **p, size_t n, unsigned flags) {
    (void)flags;
    return hipMalloc(p, n);
}
/* The host writes to these without the library's knowledge: they count as written. */
hipError_t hipMallocManaged(void **p, size_t n, unsigned flags) {
    (void)flags;
    return allocate(p, n, "managed buffer", true);
}
hipError_t hipHostMalloc(void **p, size_t n, unsigned flags) {
    (void)flags;
    return allocate(p, n, "host buffer", true);
}
hipError_t hipHostAlloc(void **p, size_t n, unsigned flags) { return hipHostMalloc(p, n, flags); }

hipError_t hipFree(void *p) {
    runtime *r = hip_enter();
    if (!r) return hipErrorNotInitialized;
    if (!p) return hip_leave(hipSuccess);
    return hip_leave(sim_mfree(r->dev.mem, (u64)(uintptr_t)p) ? hipSuccess : hipErrorInvalidValue);
}
hipError_t hipFreeAsync(void *p, hipStream_t s) {
    (void)s;
    return hipFree(p);
}
hipError_t hipHostFree(void *p) { return hipFree(p); }

hipError_t hipHostRegister(void *p, size_t n, unsigned flags) {
    (void)flags;
    runtime *r = hip_enter();
    if (!r) return hipErrorNotInitialized;
    if (!p || !n) return hip_leave(hipErrorInvalidValue);
    return hip_leave(sim_register_host(r->dev.mem, (u64)(uintptr_t)p, n) ? hipSuccess : hipErrorHostMemoryAlreadyRegistered);
}
hipError_t hipHostUnregister(void *p) {
    runtime *r = hip_enter();
    if (!r) return hipErrorNotInitialized;
    return hip_leave(sim_unregister_host(r->dev.mem, (u64)(uintptr_t)p) ? hipSuccess : hipErrorHostMemoryNotRegistered);
}
hipError_t hipHostGetDevicePointer(void **d, void *h, unsigned flags) {
    (void)flags;
    runtime *r = hip_enter();
    if (!r) return hipErrorNotInitialized;
    if (!d || !sim_find(r->dev.mem, (u64)(uintptr_t)h, 1)) return hip_leave(hipErrorInvalidValue);
    *d = h;
    return hip_leave(hipSuccess);
}

/* A range in the device's addresses must lie in one live allocation. */
static bool range_ok(const runtime *r, u64 p, u64 n) { return !sim_in_range(r->dev.mem, p) || sim_find(r->dev.mem, p, n); }

static hipError_t copy(void *dst, const void *src, size_t n, int kind, hipStream_t s) {
    runtime *r = hip_enter();
    if (!r) return hipErrorNotInitialized;
    u64 d = (u64)(uintptr_t)dst, o = (u64)(uintptr_t)src;
    if (n == 0) return hip_leave(r->sticky);
    if (!dst || !src) return hip_leave(hipErrorInvalidValue);
    if (kind < 0 || kind > hipMemcpyDefault) return hip_leave(hipErrorInvalidMemcpyDirection);
    bool to_dev = kind == hipMemcpyHostToDevice || kind == hipMemcpyDeviceToDevice;
    bool from_dev = kind == hipMemcpyDeviceToHost || kind == hipMemcpyDeviceToDevice;
    if (!range_ok(r, d, n) || !range_ok(r, o, n) || (to_dev && !sim_find(r->dev.mem, d, n)) || (from_dev && !sim_find(r->dev.mem, o, n)))
        return hip_leave(hipErrorInvalidValue);
    node nd = {.kind = NODE_COPY, .dst = d, .src = o, .n = n};
    return hip_leave(hip_submit(r, s, &nd));
}
hipError_t hipMemcpy(void *dst, const void *src, size_t n, int kind) { return copy(dst, src, n, kind, NULL); }
hipError_t hipMemcpyAsync(void *dst, const void *src, size_t n, int kind, hipStream_t s) { return copy(dst, src, n, kind, s); }
hipError_t hipMemcpyWithStream(void *dst, const void *src, size_t n, int kind, hipStream_t s) { return copy(dst, src, n, kind, s); }
hipError_t hipMemcpyHtoD(void *dst, void *src, size_t n) { return copy(dst, src, n, hipMemcpyHostToDevice, NULL); }
hipError_t hipMemcpyDtoH(void *dst, void *src, size_t n) { return copy(dst, src, n, hipMemcpyDeviceToHost, NULL); }
hipError_t hipMemcpyDtoD(void *dst, void *src, size_t n) { return copy(dst, src, n, hipMemcpyDeviceToDevice, NULL); }
hipError_t hipMemcpyHtoDAsync(void *dst, void *src, size_t n, hipStream_t s) { return copy(dst, src, n, hipMemcpyHostToDevice, s); }
hipError_t hipMemcpyDtoHAsync(void *dst, void *src, size_t n, hipStream_t s) { return copy(dst, src, n, hipMemcpyDeviceToHost, s); }
hipError_t hipMemcpyDtoDAsync(void *dst, void *src, size_t n, hipStream_t s) { return copy(dst, src, n, hipMemcpyDeviceToDevice, s); }

static hipError_t fill(void *p, u32 v, size_t n, u32 width, hipStream_t s) {
    runtime *r = hip_enter();
    if (!r) return hipErrorNotInitialized;
    if (n == 0) return hip_leave(r->sticky);
    u64 a = (u64)(uintptr_t)p;
    if (n > SIM_VRAM || a % width || !sim_find(r->dev.mem, a, (u64)n * width)) return hip_leave(hipErrorInvalidValue);
    node nd = {.kind = NODE_FILL, .dst = a, .n = n, .value = v, .width = width};
    return hip_leave(hip_submit(r, s, &nd));
}
hipError_t hipMemset(void *p, int v, size_t n) { return fill(p, (u32)v & 255, n, 1, NULL); }
hipError_t hipMemsetAsync(void *p, int v, size_t n, hipStream_t s) { return fill(p, (u32)v & 255, n, 1, s); }
hipError_t hipMemsetD8(void *p, unsigned char v, size_t n) { return fill(p, v, n, 1, NULL); }
hipError_t hipMemsetD8Async(void *p, unsigned char v, size_t n, hipStream_t s) { return fill(p, v, n, 1, s); }
hipError_t hipMemsetD16(void *p, unsigned short v, size_t n) { return fill(p, v, n, 2, NULL); }
hipError_t hipMemsetD16Async(void *p, unsigned short v, size_t n, hipStream_t s) { return fill(p, v, n, 2, s); }
hipError_t hipMemsetD32(void *p, int v, size_t n) { return fill(p, (u32)v, n, 4, NULL); }
hipError_t hipMemsetD32Async(void *p, int v, size_t n, hipStream_t s) { return fill(p, (u32)v, n, 4, s); }

hipError_t hipMemGetInfo(size_t *free_n, size_t *total) {
    runtime *r = hip_enter();
    if (!r) return hipErrorNotInitialized;
    if (!free_n || !total) return hip_leave(hipErrorInvalidValue);
    *total = SIM_VRAM;
    *free_n = SIM_VRAM - sim_bytes_used(r->dev.mem);
    return hip_leave(hipSuccess);
}

typedef struct {
    int type, device; /* type: 0 unregistered, 1 host, 2 device, 3 managed */
    void *device_pointer, *host_pointer;
    int managed;
    unsigned flags;
} pointer_attr;

hipError_t hipPointerGetAttributes(void *attr, const void *p) {
    runtime *r = hip_enter();
    if (!r) return hipErrorNotInitialized;
    if (!attr || !p) return hip_leave(hipErrorInvalidValue);
    const sim_alloc *a = sim_find(r->dev.mem, (u64)(uintptr_t)p, 1);
    pointer_attr out = {0};
    if (a) {
        bool host = strstr(a->what, "host") != NULL;
        out.managed = strstr(a->what, "managed") != NULL;
        out.type = host ? 1 : out.managed ? 3 : 2;
        out.device_pointer = (void *)(uintptr_t)p;
        out.host_pointer = host || out.managed ? (void *)(uintptr_t)p : NULL;
    }
    memcpy(attr, &out, sizeof out);
    return hip_leave(hipSuccess);
}
hipError_t hipMemGetAddressRange(void **base, size_t *n, void *p) {
    runtime *r = hip_enter();
    if (!r) return hipErrorNotInitialized;
    const sim_alloc *a = sim_find(r->dev.mem, (u64)(uintptr_t)p, 1);
    if (!a) return hip_leave(hipErrorNotFound);
    if (base) *base = (void *)(uintptr_t)a->base;
    if (n) *n = a->size;
    return hip_leave(hipSuccess);
}
