/* The entry points of both vendors, and what a vendor's file provides. */
#ifndef IE_DRIVER_INT_H
#define IE_DRIVER_INT_H

#include "driver.h"

/* field, arguments, HIP's name, CUDA's name. All return a code, 0 = success. Device addresses are 64-bit integers in both
 * interfaces' calling conventions; handles are pointers. An entry that a vendor lacks is "". */
#define GPU_ENTRIES(X) \
    X(init, (unsigned flags), "hipInit", "cuInit") \
    X(driver_version, (int *v), "hipDriverGetVersion", "cuDriverGetVersion") \
    X(device_count, (int *n), "hipGetDeviceCount", "cuDeviceGetCount") \
    X(error_name, (int code, const char **s), "hipDrvGetErrorName", "cuGetErrorName") \
    X(error_text, (int code, const char **s), "hipDrvGetErrorString", "cuGetErrorString") \
    X(set_device, (int device), "hipSetDevice", "") \
    X(properties, (void *p, int device), "hipGetDevicePropertiesR0600", "") \
    X(device_get, (int *device, int ordinal), "", "cuDeviceGet") \
    X(device_name, (char *s, int n, int device), "", "cuDeviceGetName") \
    X(device_memory, (size_t *n, int device), "", "cuDeviceTotalMem_v2") \
    X(device_attribute, (int *v, int attribute, int device), "", "cuDeviceGetAttribute") \
    X(context_retain, (void **ctx, int device), "", "cuDevicePrimaryCtxRetain") \
    X(context_release, (int device), "", "cuDevicePrimaryCtxRelease_v2") \
    X(context_set, (void *ctx), "", "cuCtxSetCurrent") \
    X(mem_info, (size_t *free_bytes, size_t *total), "hipMemGetInfo", "cuMemGetInfo_v2") \
    X(alloc, (gpu_ptr *p, size_t n), "hipMalloc", "cuMemAlloc_v2") \
    X(free, (gpu_ptr p), "hipFree", "cuMemFree_v2") \
    X(memory_grain, (size_t *bytes, const void *prop, int which), "hipMemGetAllocationGranularity", "cuMemGetAllocationGranularity") \
    X(range_reserve, (gpu_ptr *p, size_t n, size_t align, gpu_ptr at, unsigned long long flags), "hipMemAddressReserve", "cuMemAddressReserve") \
    X(range_release, (gpu_ptr p, size_t n), "hipMemAddressFree", "cuMemAddressFree") \
    X(memory_new, (void **memory, size_t n, const void *prop, unsigned long long flags), "hipMemCreate", "cuMemCreate") \
    X(memory_free, (void *memory), "hipMemRelease", "cuMemRelease") \
    X(range_map, (gpu_ptr p, size_t n, size_t offset, void *memory, unsigned long long flags), "hipMemMap", "cuMemMap") \
    X(range_unmap, (gpu_ptr p, size_t n), "hipMemUnmap", "cuMemUnmap") \
    X(range_access, (gpu_ptr p, size_t n, const void *access, size_t count), "hipMemSetAccess", "cuMemSetAccess") \
    X(context_limit, (int which, size_t v), "", "cuCtxSetLimit") \
    X(host_alloc, (void **p, size_t n, unsigned flags), "hipHostMalloc", "cuMemHostAlloc") \
    X(host_free, (void *p), "hipHostFree", "cuMemFreeHost") \
    X(upload, (gpu_ptr dst, const void *src, size_t n, gpu_stream s), "hipMemcpyHtoDAsync", "cuMemcpyHtoDAsync_v2") \
    X(download, (void *dst, gpu_ptr src, size_t n, gpu_stream s), "hipMemcpyDtoHAsync", "cuMemcpyDtoHAsync_v2") \
    X(copy, (gpu_ptr dst, gpu_ptr src, size_t n, gpu_stream s), "hipMemcpyDtoDAsync", "cuMemcpyDtoDAsync_v2") \
    X(fill, (gpu_ptr dst, unsigned char v, size_t n, gpu_stream s), "hipMemsetD8Async", "cuMemsetD8Async") \
    X(module_load, (gpu_module *m, const void *image, unsigned n, int *options, void **values), "hipModuleLoadDataEx", "cuModuleLoadDataEx") \
    X(module_unload, (gpu_module m), "hipModuleUnload", "cuModuleUnload") \
    X(function, (gpu_function *f, gpu_module m, const char *name), "hipModuleGetFunction", "cuModuleGetFunction") \
    X(launch, (gpu_function f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned lds, \
               gpu_stream s, void **args, void **extra), "hipModuleLaunchKernel", "cuLaunchKernel") \
    X(launch_cooperative, (gpu_function f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, \
                           unsigned lds, gpu_stream s, void **args), "hipModuleLaunchCooperativeKernel", "cuLaunchCooperativeKernel") \
    X(function_attribute, (gpu_function f, int attribute, int v), "", "cuFuncSetAttribute") \
    X(function_number, (int *v, int attribute, gpu_function f), "", "cuFuncGetAttribute") \
    X(launch_config, (const void *config, gpu_function f, void **args, void **extra), "", "cuLaunchKernelEx") \
    X(stream_new, (gpu_stream *s, unsigned flags), "hipStreamCreateWithFlags", "cuStreamCreate") \
    X(stream_free, (gpu_stream s), "hipStreamDestroy", "cuStreamDestroy_v2") \
    X(stream_sync, (gpu_stream s), "hipStreamSynchronize", "cuStreamSynchronize") \
    X(stream_wait, (gpu_stream s, gpu_event e, unsigned flags), "hipStreamWaitEvent", "cuStreamWaitEvent") \
    X(event_new, (gpu_event *e, unsigned flags), "hipEventCreateWithFlags", "cuEventCreate") \
    X(event_free, (gpu_event e), "hipEventDestroy", "cuEventDestroy_v2") \
    X(event_record, (gpu_event e, gpu_stream s), "hipEventRecord", "cuEventRecord") \
    X(event_sync, (gpu_event e), "hipEventSynchronize", "cuEventSynchronize") \
    X(event_ms, (float *ms, gpu_event from, gpu_event to), "hipEventElapsedTime", "cuEventElapsedTime") \
    X(capture_begin, (gpu_stream s, int mode), "hipStreamBeginCapture", "cuStreamBeginCapture_v2") \
    X(capture_end, (gpu_stream s, void **graph), "hipStreamEndCapture", "cuStreamEndCapture") \
    X(graph_build, (gpu_graph *g, void *graph, unsigned long long flags), "hipGraphInstantiateWithFlags", "cuGraphInstantiateWithFlags") \
    X(graph_drop, (void *graph), "hipGraphDestroy", "cuGraphDestroy") \
    X(graph_launch, (gpu_graph g, gpu_stream s), "hipGraphLaunch", "cuGraphLaunch") \
    X(graph_free, (gpu_graph g), "hipGraphExecDestroy", "cuGraphExecDestroy")

#define GPU_ENTRY_ID(field, args, hip, cuda) GPU_DO_##field,
typedef enum { GPU_ENTRIES(GPU_ENTRY_ID) GPU_ENTRY_COUNT } gpu_entry_id;
#undef GPU_ENTRY_ID

#define GPU_ENTRY_FIELD(field, args, hip, cuda) int (*field) args;
typedef struct {
    GPU_ENTRIES(GPU_ENTRY_FIELD)
} gpu_entries;
#undef GPU_ENTRY_FIELD

struct gpu_driver {
    gpu_vendor vendor;
    const struct gpu_vendor_ops *ops;
    void *lib;
    gpu_entries call;
    int32_t device;
    void *context; /* CUDA: the device's primary context */
    int version;   /* the driver's */
    gpu_card card;
};

/* A vendor's part. Codes that both vendors number alike are in driver.c. */
typedef struct gpu_vendor_ops {
    const char *const *libraries; /* names tried in order, NULL at the end */
    const char *missing;          /* what to say when none is there */
    const char *oldest;           /* the first driver that does */
    /* Says why a library without devices has none. count_code: of device_count. */
    ie_status (*no_device)(gpu_driver *d, int code, ie_error *err);
    ie_status (*card)(gpu_driver *d, int32_t device, gpu_card *out, ie_error *err);
    ie_status (*usable)(const gpu_driver *d, int32_t device, const gpu_card *c, ie_error *err);
    ie_status (*use)(gpu_driver *d, int32_t device, ie_error *err); /* after which memory can be allocated */
    int (*bind)(gpu_driver *d);
    void (*leave)(gpu_driver *d); /* undoes use */
    ie_status (*function_ready)(gpu_driver *d, gpu_function f, ie_error *err); /* NULL: nothing to do */
    int (*launch_overlap)(gpu_driver *d, gpu_function f, const gpu_launch *l, gpu_stream s, void **args); /* NULL: no such launches */
    bool (*in_parts)(const char *image); /* NULL: no code comes in parts */
    ie_status (*module_load)(gpu_driver *d, const void *image, uint32_t part, const char *name, gpu_module *out, ie_error *err);
} gpu_vendor_ops;

extern const gpu_vendor_ops gpu_hip_ops, gpu_cuda_ops;

/* code as a status; op: the entry that gave it. */
ie_status gpu_check(gpu_driver *d, int code, gpu_entry_id op, ie_error *err);
/* IE_E_NOMEM: what needs so many bytes, and how many are free. */
ie_status gpu_no_room(gpu_driver *d, uint64_t bytes, const char *what, ie_error *err);

#endif
