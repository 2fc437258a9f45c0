/* Initialisation, devices, errors. The device is an AMD Radeon AI PRO R9700: 64 compute units in 32 WGPs, 32 GB at 640 GB/s. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "hip.h"

static runtime g_rt = {.lock = PTHREAD_MUTEX_INITIALIZER};
static __thread hipError_t g_last;

runtime *hip_enter(void) {
    pthread_mutex_lock(&g_rt.lock);
    if (!g_rt.ready) {
        sim_options_from_env(&g_rt.dev.opt);
        g_rt.dev.mem = sim_memory_new(g_rt.dev.opt.strict, &g_rt.report);
        if (!g_rt.dev.mem) {
            pthread_mutex_unlock(&g_rt.lock);
            return NULL;
        }
        g_rt.ready = true;
    }
    return &g_rt;
}

hipError_t hip_leave(hipError_t e) {
    pthread_mutex_unlock(&g_rt.lock);
    if (e) g_last = e;
    return e;
}

/* Helper threads end and figures are written when the library is unloaded. */
__attribute__((destructor)) static void close_runtime(void) {
    if (g_rt.ready) sim_device_close(&g_rt.dev);
}

double hip_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

API const char *ie_sim_report(void);
API void ie_sim_keep(unsigned sample);
API unsigned long long ie_sim_launches(void);
API const char *ie_sim_kernel(unsigned back);
API double ie_sim_figure(const char *name, unsigned back);
API hipError_t hipInit(unsigned flags);
API hipError_t hipGetDeviceCount(int *n);
API hipError_t hipSetDevice(int d);
API hipError_t hipGetDevice(int *d);
API hipError_t hipDeviceGet(int *d, int ordinal);
API hipError_t hipDeviceGetName(char *s, int n, int d);
API hipError_t hipDeviceTotalMem(size_t *n, int d);
API hipError_t hipDeviceSynchronize(void);
API hipError_t hipDeviceReset(void);
API hipError_t hipSetDeviceFlags(unsigned f);
API hipError_t hipDriverGetVersion(int *v);
API hipError_t hipRuntimeGetVersion(int *v);
API hipError_t hipGetLastError(void);
API hipError_t hipPeekAtLastError(void);
API const char *hipGetErrorName(hipError_t e);
API const char *hipGetErrorString(hipError_t e);
API hipError_t hipDrvGetErrorName(hipError_t e, const char **s);
API hipError_t hipDrvGetErrorString(hipError_t e, const char **s);
API hipError_t hipDeviceCanAccessPeer(int *can, int d, int peer);
API hipError_t hipGetDevicePropertiesR0600(void *prop, int d);
API hipError_t hipDeviceGetAttribute(int *v, int attr, int d);
API hipError_t hipDeviceGetPCIBusId(char *s, int n, int d);

/* The text of the first fault, "" before. An addition of the simulator. */
const char *ie_sim_report(void) { return g_rt.report.text; }
/* Figures for a program that asks for them (tools/step_time.c): makes them from now on, of `sample` workgroups of a launch (0: all). */
void ie_sim_keep(unsigned sample) {
    runtime *r = hip_enter();
    if (!r) return;
    if (!r->dev.opt.stats) r->dev.opt.stats = "";
    r->dev.opt.sample = sample;
    hip_leave(hipSuccess);
}
unsigned long long ie_sim_launches(void) { return sim_figures_n(&g_rt.dev); }
const char *ie_sim_kernel(unsigned back) { return sim_figures_kernel(&g_rt.dev, back); }
double ie_sim_figure(const char *name, unsigned back) { return sim_figure(&g_rt.dev, name, back); }

static hipError_t simple(hipError_t e) {
    if (e) g_last = e;
    return e;
}
static hipError_t device_ok(int d) { return d == 0 ? hipSuccess : hipErrorInvalidDevice; }

hipError_t hipInit(unsigned flags) {
    if (flags) return simple(hipErrorInvalidValue);
    return hip_enter() ? hip_leave(hipSuccess) : simple(hipErrorOutOfMemory);
}
hipError_t hipGetDeviceCount(int *n) {
    if (!n) return simple(hipErrorInvalidValue);
    *n = 1;
    return hipSuccess;
}
hipError_t hipSetDevice(int d) { return simple(device_ok(d)); }
hipError_t hipGetDevice(int *d) {
    if (!d) return simple(hipErrorInvalidValue);
    *d = 0;
    return hipSuccess;
}
hipError_t hipDeviceGet(int *d, int ordinal) {
    if (!d) return simple(hipErrorInvalidValue);
    *d = ordinal;
    return simple(device_ok(ordinal));
}
static const char NAME[] = "AMD Radeon AI PRO R9700";
hipError_t hipDeviceGetName(char *s, int n, int d) {
    if (!s || n <= 0) return simple(hipErrorInvalidValue);
    if (d) return simple(hipErrorInvalidDevice);
    snprintf(s, (size_t)n, "%s", NAME);
    return hipSuccess;
}
hipError_t hipDeviceGetPCIBusId(char *s, int n, int d) {
    if (!s || n <= 0) return simple(hipErrorInvalidValue);
    if (d) return simple(hipErrorInvalidDevice);
    snprintf(s, (size_t)n, "0000:03:00.0");
    return hipSuccess;
}
hipError_t hipDeviceTotalMem(size_t *n, int d) {
    if (!n) return simple(hipErrorInvalidValue);
    *n = SIM_VRAM;
    return simple(device_ok(d));
}
/* Everything runs when it is submitted, so there is nothing to wait for but the outcome. */
hipError_t hipDeviceSynchronize(void) {
    runtime *r = hip_enter();
    return r ? hip_leave(r->sticky) : hipErrorNotInitialized;
}
/* Also forgets a fault: memory and modules stay. */
hipError_t hipDeviceReset(void) {
    runtime *r = hip_enter();
    if (!r) return hipErrorNotInitialized;
    r->sticky = hipSuccess;
    r->report.text[0] = 0;
    return hip_leave(hipSuccess);
}
hipError_t hipSetDeviceFlags(unsigned f) {
    (void)f;
    return hipSuccess;
}
hipError_t hipDriverGetVersion(int *v) {
    if (!v) return simple(hipErrorInvalidValue);
    *v = 60443480;
    return hipSuccess;
}
hipError_t hipRuntimeGetVersion(int *v) { return hipDriverGetVersion(v); }
hipError_t hipGetLastError(void) {
    hipError_t e = g_last;
    g_last = hipSuccess;
    return e;
}
hipError_t hipPeekAtLastError(void) { return g_last; }

#define E(name, text) {name, #name, text}
static const struct {
    hipError_t e;
    const char *name, *text;
} ERRORS[] = {
    E(hipSuccess, "no error"), E(hipErrorInvalidValue, "invalid argument"), E(hipErrorOutOfMemory, "out of memory"),
    E(hipErrorNotInitialized, "initialization error"), E(hipErrorInvalidConfiguration, "invalid configuration argument"),
    E(hipErrorInvalidSymbol, "invalid device symbol"), E(hipErrorInvalidDevicePointer, "invalid device pointer"),
    E(hipErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"),
    E(hipErrorInvalidDeviceFunction, "invalid device function"), E(hipErrorNoDevice, "no ROCm-capable device is detected"),
    E(hipErrorInvalidDevice, "invalid device ordinal"), E(hipErrorInvalidImage, "device kernel image is invalid"),
    E(hipErrorInvalidContext, "invalid device context"), E(hipErrorNoBinaryForGpu, "no kernel image is available for execution on the device"),
    E(hipErrorInvalidSource, "device kernel image is invalid"), E(hipErrorFileNotFound, "file not found"),
    E(hipErrorInvalidHandle, "invalid resource handle"), E(hipErrorIllegalState, "the operation cannot be performed in the present state"),
    E(hipErrorNotFound, "named symbol not found"), E(hipErrorNotReady, "device not ready"),
    E(hipErrorIllegalAddress, "an illegal memory access was encountered"),
    E(hipErrorLaunchOutOfResources, "out of resources"), E(hipErrorPeerAccessUnsupported, "peer access is not supported between these two devices"),
    E(hipErrorHostMemoryAlreadyRegistered, "part or all of the requested memory range is already mapped"),
    E(hipErrorHostMemoryNotRegistered, "pointer does not correspond to a registered memory region"),
    E(hipErrorLaunchFailure, "unspecified launch failure"),
    E(hipErrorCooperativeLaunchTooLarge, "too many blocks in cooperative launch"), E(hipErrorNotSupported, "operation not supported"),
    E(hipErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing"),
    E(hipErrorStreamCaptureInvalidated, "operation failed due to a previous error during capture"),
    E(hipErrorStreamCaptureUnmatched, "capture was not initiated in this stream"),
    E(hipErrorGraphExecUpdateFailure, "the graph update was not performed because it included changes which violated constraints"),
    E(hipErrorUnknown, "unknown error"),
};
static size_t error_index(hipError_t e) {
    size_t n = sizeof ERRORS / sizeof *ERRORS;
    for (size_t i = 0; i < n; i++)
        if (ERRORS[i].e == e) return i;
    return n - 1;
}
const char *hipGetErrorName(hipError_t e) { return ERRORS[error_index(e)].name; }
const char *hipGetErrorString(hipError_t e) { return ERRORS[error_index(e)].text; }
hipError_t hipDrvGetErrorName(hipError_t e, const char **s) {
    if (!s) return simple(hipErrorInvalidValue);
    *s = hipGetErrorName(e);
    return hipSuccess;
}
hipError_t hipDrvGetErrorString(hipError_t e, const char **s) {
    if (!s) return simple(hipErrorInvalidValue);
    *s = hipGetErrorString(e);
    return hipSuccess;
}
hipError_t hipDeviceCanAccessPeer(int *can, int d, int peer) {
    if (!can) return simple(hipErrorInvalidValue);
    *can = 0;
    return simple(d || peer ? hipErrorInvalidDevice : hipSuccess);
}

/* hipDeviceProp_tR0600. */
typedef struct {
    char name[256];
    char uuid[16];
    char luid[8];
    unsigned luidDeviceNodeMask;
    size_t totalGlobalMem, sharedMemPerBlock;
    int regsPerBlock, warpSize;
    size_t memPitch;
    int maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3], clockRate;
    size_t totalConstMem;
    int major, minor;
    size_t textureAlignment, texturePitchAlignment;
    int deviceOverlap, multiProcessorCount, kernelExecTimeoutEnabled, integrated, canMapHostMemory, computeMode;
    int textures[40]; /* maxTexture1D .. maxSurfaceCubemapLayered[2] */
    size_t surfaceAlignment;
    int concurrentKernels, ECCEnabled, pciBusID, pciDeviceID, pciDomainID, tccDriver, asyncEngineCount, unifiedAddressing,
        memoryClockRate, memoryBusWidth, l2CacheSize, persistingL2CacheMaxSize, maxThreadsPerMultiProcessor,
        streamPrioritiesSupported, globalL1CacheSupported, localL1CacheSupported;
    size_t sharedMemPerMultiprocessor;
    int regsPerMultiprocessor, managedMemory, isMultiGpuBoard, multiGpuBoardGroupID, hostNativeAtomicSupported,
        singleToDoublePrecisionPerfRatio, pageableMemoryAccess, concurrentManagedAccess, computePreemptionSupported,
        canUseHostPointerForRegisteredMem, cooperativeLaunch, cooperativeMultiDeviceLaunch;
    size_t sharedMemPerBlockOptin;
    int pageableMemoryAccessUsesHostPageTables, directManagedMemAccessFromHost, maxBlocksPerMultiProcessor,
        accessPolicyMaxWindowSize;
    size_t reservedSharedMemPerBlock;
    int hostRegisterSupported, sparseHipArraySupported, hostRegisterReadOnlySupported, timelineSemaphoreInteropSupported,
        memoryPoolsSupported, gpuDirectRDMASupported;
    unsigned gpuDirectRDMAFlushWritesOptions;
    int gpuDirectRDMAWritesOrdering;
    unsigned memoryPoolSupportedHandleTypes;
    int deferredMappingHipArraySupported, ipcEventSupported, clusterLaunch, unifiedFunctionPointers;
    int reserved[63], hipReserved[32];
    char gcnArchName[256];
    size_t maxSharedMemoryPerMultiProcessor;
    int clockInstructionRate;
    unsigned arch; /* hipDeviceArch_t: 17 flags */
    unsigned *hdpMemFlushCntl, *hdpRegFlushCntl;
    int unmatched[4];
    int isLargeBar, asicRevision;
} device_prop;
_Static_assert(sizeof(device_prop) == 1472, "size of hipDeviceProp_tR0600");
_Static_assert(offsetof(device_prop, gcnArchName) == 1160, "place of gcnArchName");

hipError_t hipGetDevicePropertiesR0600(void *prop, int d) {
    if (!prop) return simple(hipErrorInvalidValue);
    if (d) return simple(hipErrorInvalidDevice);
    device_prop p = {
        .totalGlobalMem = SIM_VRAM, .sharedMemPerBlock = SIM_LDS_MAX, .regsPerBlock = 4 * 32 * 1536, .warpSize = 32,
        .memPitch = 0x7FFFFFFF, .maxThreadsPerBlock = 1024, .maxThreadsDim = {1024, 1024, 1024},
        .maxGridSize = {0x7FFFFFFF, 65536, 65536}, .clockRate = 2920000, .totalConstMem = 0x7FFFFFFF, .major = 12, .minor = 0,
        .textureAlignment = 256, .texturePitchAlignment = 256, .deviceOverlap = 1, .multiProcessorCount = (int)SIM_WGPS,
        .canMapHostMemory = 1, .surfaceAlignment = 256, .concurrentKernels = 1, .pciBusID = 3, .asyncEngineCount = 1,
        .unifiedAddressing = 1, .memoryClockRate = 1258000, .memoryBusWidth = 256, .l2CacheSize = 8 << 20,
        .maxThreadsPerMultiProcessor = 2048, .streamPrioritiesSupported = 1, .globalL1CacheSupported = 1,
        .localL1CacheSupported = 1, .sharedMemPerMultiprocessor = SIM_LDS_PER_WGP, .regsPerMultiprocessor = 4 * 32 * 1536,
        .managedMemory = 1, .singleToDoublePrecisionPerfRatio = 64, .canUseHostPointerForRegisteredMem = 1,
        .cooperativeLaunch = 1, .sharedMemPerBlockOptin = SIM_LDS_MAX, .maxBlocksPerMultiProcessor = 32,
        .hostRegisterSupported = 1, .gcnArchName = "gfx1201", .maxSharedMemoryPerMultiProcessor = SIM_LDS_PER_WGP,
        .clockInstructionRate = 100000, .arch = 0x17FFF, .isLargeBar = 1,
    };
    memcpy(p.name, NAME, sizeof NAME);
    memcpy(prop, &p, sizeof p);
    return hipSuccess;
}

/* hipDeviceAttribute_t numbers. */
static const struct {
    int attr, value;
} ATTRS[] = {
    {0, 0}, {2, 1}, {3, 1}, {4, 1}, {5, 2920000}, {6, 0}, {8, 1}, {10, 1}, {11, 0}, {12, 1}, {14, 1}, {15, 0}, {16, 0}, {17, 0},
    {18, 0}, {19, 8 << 20}, {20, 1}, {23, 12}, {24, 1}, {25, 32}, {26, 1024}, {27, 1024}, {28, 1024}, {29, 0x7FFFFFFF}, {30, 65536},
    {31, 65536}, {56, 1024}, {57, 2048}, {59, 256}, {60, 1258000}, {61, 0}, {63, (int)SIM_WGPS}, {65, 0}, {67, 3}, {68, 0}, {69, 0},
    {71, 4 * 32 * 1536}, {72, 4 * 32 * 1536}, {74, SIM_LDS_MAX}, {75, SIM_LDS_MAX}, {76, SIM_LDS_PER_WGP}, {77, 64}, {78, 1}, {81, 256},
    {85, 1}, {87, 32}, {88, 0}, {89, 0}, {90, 1}, {10000, 100000}, {10002, SIM_LDS_PER_WGP}, {10011, 1}, {10015, (int)SIM_WGPS},
    {10017, 100000},
};
hipError_t hipDeviceGetAttribute(int *v, int attr, int d) {
    if (!v) return simple(hipErrorInvalidValue);
    if (d) return simple(hipErrorInvalidDevice);
    for (size_t i = 0; i < sizeof ATTRS / sizeof *ATTRS; i++)
        if (ATTRS[i].attr == attr) {
            *v = ATTRS[i].value;
            return hipSuccess;
        }
    return simple(hipErrorInvalidValue);
}
