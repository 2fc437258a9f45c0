/* The part of HIP's binary interface that the stand-in library has: numbers and layouts as in AMD's public headers. */
#ifndef SIM_HIP_H
#define SIM_HIP_H

#include <pthread.h>

#include "sim.h"

#define API __attribute__((visibility("default")))

typedef int hipError_t;
enum {
    hipSuccess = 0, hipErrorInvalidValue = 1, hipErrorOutOfMemory = 2, hipErrorNotInitialized = 3, hipErrorInvalidConfiguration = 9,
    hipErrorInvalidSymbol = 13, hipErrorInvalidDevicePointer = 17, hipErrorInvalidMemcpyDirection = 21,
    hipErrorInvalidDeviceFunction = 98, hipErrorNoDevice = 100, hipErrorInvalidDevice = 101, hipErrorInvalidImage = 200,
    hipErrorInvalidContext = 201, hipErrorNoBinaryForGpu = 209, hipErrorInvalidSource = 300, hipErrorFileNotFound = 301,
    hipErrorInvalidHandle = 400, hipErrorIllegalState = 401, hipErrorNotFound = 500, hipErrorNotReady = 600,
    hipErrorIllegalAddress = 700, hipErrorLaunchOutOfResources = 701, hipErrorPeerAccessUnsupported = 217,
    hipErrorHostMemoryAlreadyRegistered = 712, hipErrorHostMemoryNotRegistered = 713, hipErrorLaunchFailure = 719,
    hipErrorCooperativeLaunchTooLarge = 720, hipErrorNotSupported = 801, hipErrorStreamCaptureUnsupported = 900,
    hipErrorStreamCaptureInvalidated = 901, hipErrorStreamCaptureUnmatched = 903, hipErrorGraphExecUpdateFailure = 910,
    hipErrorUnknown = 999
};
enum { hipMemcpyHostToHost, hipMemcpyHostToDevice, hipMemcpyDeviceToHost, hipMemcpyDeviceToDevice, hipMemcpyDefault };

/* A recorded operation of a graph. */
enum node_kind { NODE_KERNEL, NODE_COPY, NODE_FILL, NODE_HOST };
typedef struct {
    enum node_kind kind;
    sim_module *mod;
    sim_kernel *k;
    sim_launch cfg;
    u8 *args;       /* owned copy of the kernel's arguments */
    size_t n_args;
    u64 dst, src, n;
    u32 value, width; /* fill: value of width bytes (1, 2 or 4), n of them */
    void (*host)(void *);
    void *user;
} node;

typedef struct ihipGraph {
    node *nodes;
    size_t n, cap;
} graph;
typedef graph *hipGraph_t, *hipGraphExec_t;

typedef struct ihipStream_t {
    unsigned flags;
    graph *capture; /* NULL: not capturing */
    bool broken;    /* an operation that cannot be captured */
} stream;
typedef stream *hipStream_t;

typedef struct ihipEvent_t {
    bool recorded;
    double when; /* seconds of the host's clock: the simulated time is of no use for comparing kernels; see IE_SIM_STATS */
} event;
typedef event *hipEvent_t;

typedef struct ihipModule_t {
    sim_module *m;
} module_box;
typedef module_box *hipModule_t;

typedef struct ihipModuleSymbol_t {
    sim_module *m;
    sim_kernel *k;
} function;
typedef function *hipFunction_t;

/* The runtime's state: HIP has one for each process. */
typedef struct {
    pthread_mutex_t lock;
    sim_device dev;
    bool ready;
    hipError_t sticky;   /* a kernel failed: every later call says so, as on a card */
    sim_error report;
    stream null_stream;
    module_box **modules;
    size_t n_modules;
} runtime;

/* The runtime, set up at first use; NULL when that failed. Locks it; hip_leave unlocks and passes the code on. */
runtime *hip_enter(void);
hipError_t hip_leave(hipError_t e);
/* Runs a node now, or records it when the stream is capturing. Takes over nd->args. */
hipError_t hip_submit(runtime *r, hipStream_t s, node *nd);
hipError_t hip_run_node(runtime *r, node *nd);
stream *hip_stream(runtime *r, hipStream_t s);
void hip_node_free(node *nd);
double hip_now(void);

#endif
