/* Streams, events, graphs. Operations run when they are submitted, in order, whatever the stream; a capturing stream records them. */
#include <stdlib.h>
#include <string.h>

#include "hip.h"

API hipError_t hipStreamCreate(hipStream_t *s);
API hipError_t hipStreamCreateWithFlags(hipStream_t *s, unsigned flags);
API hipError_t hipStreamCreateWithPriority(hipStream_t *s, unsigned flags, int priority);
API hipError_t hipStreamDestroy(hipStream_t s);
API hipError_t hipStreamSynchronize(hipStream_t s);
API hipError_t hipStreamQuery(hipStream_t s);
API hipError_t hipStreamWaitEvent(hipStream_t s, hipEvent_t e, unsigned flags);
API hipError_t hipEventCreate(hipEvent_t *e);
API hipError_t hipEventCreateWithFlags(hipEvent_t *e, unsigned flags);
API hipError_t hipEventDestroy(hipEvent_t e);
API hipError_t hipEventRecord(hipEvent_t e, hipStream_t s);
API hipError_t hipEventSynchronize(hipEvent_t e);
API hipError_t hipEventQuery(hipEvent_t e);
API hipError_t hipEventElapsedTime(float *ms, hipEvent_t a, hipEvent_t b);
API hipError_t hipLaunchHostFunc(hipStream_t s, void (*fn)(void *), void *user);
API hipError_t hipStreamBeginCapture(hipStream_t s, int mode);
API hipError_t hipStreamEndCapture(hipStream_t s, hipGraph_t *out);
API hipError_t hipStreamIsCapturing(hipStream_t s, int *status);
API hipError_t hipGraphInstantiate(hipGraphExec_t *out, hipGraph_t g, void *bad_node, char *log, size_t n);
API hipError_t hipGraphInstantiateWithFlags(hipGraphExec_t *out, hipGraph_t g, unsigned long long flags);
API hipError_t hipGraphLaunch(hipGraphExec_t g, hipStream_t s);
API hipError_t hipGraphUpload(hipGraphExec_t g, hipStream_t s);
API hipError_t hipGraphExecUpdate(hipGraphExec_t e, hipGraph_t g, void **bad_node, int *result);
API hipError_t hipGraphExecDestroy(hipGraphExec_t g);
API hipError_t hipGraphDestroy(hipGraph_t g);
API hipError_t hipGraphGetNodes(hipGraph_t g, void **nodes, size_t *n);

/* 0, 1 and 2 name the default streams. */
stream *hip_stream(runtime *r, hipStream_t s) { return (uintptr_t)s <= 2 ? &r->null_stream : s; }

void hip_node_free(node *nd) {
    free(nd->args);
    nd->args = NULL;
}

static hipError_t run_kernel(runtime *r, const node *nd) {
    sim_error err = {{0}};
    switch (sim_run(&r->dev, nd->mod, nd->k, &nd->cfg, nd->args, nd->n_args, &err)) {
    case SIM_OK: return hipSuccess;
    case SIM_BAD_CONFIG: fprintf(stderr, "simulator: %s\n", err.text); return hipErrorInvalidConfiguration;
    case SIM_TOO_LARGE: fprintf(stderr, "simulator: %s\n", err.text); return hipErrorCooperativeLaunchTooLarge;
    default: break;
    }
    fprintf(stderr, "simulator: %s\n", err.text);
    if (!r->report.text[0]) r->report = err;
    r->sticky = strstr(err.text, "out of bounds") ? hipErrorIllegalAddress : hipErrorLaunchFailure;
    return r->sticky;
}

hipError_t hip_run_node(runtime *r, node *nd) {
    if (r->sticky) return r->sticky;
    u8 *d = (u8 *)(uintptr_t)nd->dst;
    switch (nd->kind) {
    case NODE_KERNEL: return run_kernel(r, nd);
    case NODE_COPY: {
        /* Strict mode: the copy counts as written up to the first byte that the source never had written. */
        memmove(d, (const void *)(uintptr_t)nd->src, nd->n);
        u64 end = sim_in_range(r->dev.mem, nd->src) ? sim_first_unwritten(r->dev.mem, nd->src, nd->n) - nd->src : nd->n;
        if (sim_in_range(r->dev.mem, nd->dst)) sim_mark_written(r->dev.mem, nd->dst, end);
        return hipSuccess;
    }
    case NODE_FILL:
        if (nd->width == 1) memset(d, (int)nd->value, nd->n);
        for (u64 i = 0; nd->width > 1 && i < nd->n; i++) memcpy(d + i * nd->width, &nd->value, nd->width);
        sim_mark_written(r->dev.mem, nd->dst, nd->n * nd->width);
        return hipSuccess;
    default: nd->host(nd->user); return hipSuccess;
    }
}

static bool append(graph *g, const node *nd) {
    if (g->n == g->cap) {
        size_t cap = g->cap ? 2 * g->cap : 64;
        node *q = realloc(g->nodes, cap * sizeof *q);
        if (!q) return false;
        g->nodes = q;
        g->cap = cap;
    }
    g->nodes[g->n++] = *nd;
    return true;
}

hipError_t hip_submit(runtime *r, hipStream_t sh, node *nd) {
    stream *s = hip_stream(r, sh);
    if (s->capture) {
        if (append(s->capture, nd)) return hipSuccess;
        s->broken = true;
        hip_node_free(nd);
        return hipErrorOutOfMemory;
    }
    hipError_t e = hip_run_node(r, nd);
    hip_node_free(nd);
    return e;
}

static void graph_free(graph *g) {
    if (!g) return;
    for (size_t i = 0; i < g->n; i++) hip_node_free(&g->nodes[i]);
    free(g->nodes);
    free(g);
}

hipError_t hipStreamCreateWithFlags(hipStream_t *s, unsigned flags) {
    runtime *r = hip_enter();
    if (!r) return hipErrorNotInitialized;
    if (!s || flags > 1) return hip_leave(hipErrorInvalidValue);
    *s = calloc(1, sizeof **s);
    if (*s) (*s)->flags = flags;
    return hip_leave(*s ? hipSuccess : hipErrorOutOfMemory);
}
hipError_t hipStreamCreate(hipStream_t *s) { return hipStreamCreateWithFlags(s, 0); }
hipError_t hipStreamCreateWithPriority(hipStream_t *s, unsigned flags, int priority) {
    (void)priority;
    return hipStreamCreateWithFlags(s, flags);
}
hipError_t hipStreamDestroy(hipStream_t s) {
    runtime *r = hip_enter();
    if (!r) return hipErrorNotInitialized;
    if ((uintptr_t)s <= 2) return hip_leave(hipErrorInvalidHandle);
    graph_free(s->capture);
    free(s);
    return hip_leave(hipSuccess);
}
/* Waiting inside a capture is an error, and ends the capture. */
hipError_t hipStreamSynchronize(hipStream_t sh) {
    runtime *r = hip_enter();
    if (!r) return hipErrorNotInitialized;
    stream *s = hip_stream(r, sh);
    if (s->capture) {
        s->broken = true;
        return hip_leave(hipErrorStreamCaptureUnsupported);
    }
    return hip_leave(r->sticky);
}
hipError_t hipStreamQuery(hipStream_t s) { return hipStreamSynchronize(s); }
hipError_t hipStreamWaitEvent(hipStream_t s, hipEvent_t e, unsigned flags) {
    (void)s;
    runtime *r = hip_enter();
    if (!r) return hipErrorNotInitialized;
    return hip_leave(!e ? hipErrorInvalidHandle : flags ? hipErrorInvalidValue : hipSuccess);
}

hipError_t hipEventCreateWithFlags(hipEvent_t *e, unsigned flags) {
    (void)flags;
    runtime *r = hip_enter();
    if (!r) return hipErrorNotInitialized;
    if (!e) return hip_leave(hipErrorInvalidValue);
    *e = calloc(1, sizeof **e);
    return hip_leave(*e ? hipSuccess : hipErrorOutOfMemory);
}
hipError_t hipEventCreate(hipEvent_t *e) { return hipEventCreateWithFlags(e, 0); }
hipError_t hipEventDestroy(hipEvent_t e) {
    runtime *r = hip_enter();
    if (!r) return hipErrorNotInitialized;
    if (!e) return hip_leave(hipErrorInvalidHandle);
    free(e);
    return hip_leave(hipSuccess);
}
hipError_t hipEventRecord(hipEvent_t e, hipStream_t s) {
    (void)s;
    runtime *r = hip_enter();
    if (!r) return hipErrorNotInitialized;
    if (!e) return hip_leave(hipErrorInvalidHandle);
    e->recorded = true;
    e->when = hip_now();
    return hip_leave(hipSuccess);
}
hipError_t hipEventSynchronize(hipEvent_t e) {
    runtime *r = hip_enter();
    if (!r) return hipErrorNotInitialized;
    return hip_leave(e ? r->sticky : hipErrorInvalidHandle);
}
hipError_t hipEventQuery(hipEvent_t e) { return hipEventSynchronize(e); }
hipError_t hipEventElapsedTime(float *ms, hipEvent_t a, hipEvent_t b) {
    runtime *r = hip_enter();
    if (!r) return hipErrorNotInitialized;
    if (!ms) return hip_leave(hipErrorInvalidValue);
    if (!a || !b || !a->recorded || !b->recorded) return hip_leave(hipErrorInvalidHandle);
    *ms = (float)(1e3 * (b->when - a->when));
    return hip_leave(hipSuccess);
}
hipError_t hipLaunchHostFunc(hipStream_t s, void (*fn)(void *), void *user) {
    runtime *r = hip_enter();
    if (!r) return hipErrorNotInitialized;
    if (!fn) return hip_leave(hipErrorInvalidValue);
    node nd = {.kind = NODE_HOST, .host = fn, .user = user};
    return hip_leave(hip_submit(r, s, &nd));
}

/* ---- graphs ---- */

hipError_t hipStreamBeginCapture(hipStream_t sh, int mode) {
    runtime *r = hip_enter();
    if (!r) return hipErrorNotInitialized;
    if ((uintptr_t)sh <= 1) return hip_leave(hipErrorStreamCaptureUnsupported);
    stream *s = hip_stream(r, sh);
    if (mode < 0 || mode > 2) return hip_leave(hipErrorInvalidValue);
    if (s->capture) return hip_leave(hipErrorIllegalState);
    s->capture = calloc(1, sizeof *s->capture);
    s->broken = false;
    return hip_leave(s->capture ? hipSuccess : hipErrorOutOfMemory);
}
hipError_t hipStreamEndCapture(hipStream_t sh, hipGraph_t *out) {
    runtime *r = hip_enter();
    if (!r) return hipErrorNotInitialized;
    stream *s = hip_stream(r, sh);
    if (!out) return hip_leave(hipErrorInvalidValue);
    if (!s->capture) return hip_leave(hipErrorIllegalState);
    graph *g = s->capture;
    s->capture = NULL;
    if (s->broken) {
        graph_free(g);
        *out = NULL;
        return hip_leave(hipErrorStreamCaptureInvalidated);
    }
    *out = g;
    return hip_leave(hipSuccess);
}
hipError_t hipStreamIsCapturing(hipStream_t sh, int *status) {
    runtime *r = hip_enter();
    if (!r) return hipErrorNotInitialized;
    if (!status) return hip_leave(hipErrorInvalidValue);
    stream *s = hip_stream(r, sh);
    *status = !s->capture ? 0 : s->broken ? 2 : 1;
    return hip_leave(hipSuccess);
}

static graph *graph_copy(const graph *g) {
    graph *c = calloc(1, sizeof *c);
    for (size_t i = 0; c && i < g->n; i++) {
        node nd = g->nodes[i];
        if (nd.args) {
            nd.args = malloc(nd.n_args ? nd.n_args : 1);
            if (nd.args) memcpy(nd.args, g->nodes[i].args, nd.n_args);
        }
        if ((g->nodes[i].args && !nd.args) || !append(c, &nd)) {
            hip_node_free(&nd);
            graph_free(c);
            c = NULL;
        }
    }
    return c;
}
hipError_t hipGraphInstantiateWithFlags(hipGraphExec_t *out, hipGraph_t g, unsigned long long flags) {
    (void)flags;
    runtime *r = hip_enter();
    if (!r) return hipErrorNotInitialized;
    if (!out || !g) return hip_leave(hipErrorInvalidValue);
    *out = graph_copy(g);
    return hip_leave(*out ? hipSuccess : hipErrorOutOfMemory);
}
hipError_t hipGraphInstantiate(hipGraphExec_t *out, hipGraph_t g, void *bad_node, char *log, size_t n) {
    (void)bad_node;
    if (log && n) *log = 0;
    return hipGraphInstantiateWithFlags(out, g, 0);
}
hipError_t hipGraphLaunch(hipGraphExec_t g, hipStream_t sh) {
    runtime *r = hip_enter();
    if (!r) return hipErrorNotInitialized;
    if (!g) return hip_leave(hipErrorInvalidValue);
    stream *s = hip_stream(r, sh);
    if (s->capture) {
        s->broken = true;
        return hip_leave(hipErrorStreamCaptureUnsupported);
    }
    hipError_t e = hipSuccess;
    for (size_t i = 0; i < g->n && !e; i++) e = hip_run_node(r, &g->nodes[i]);
    return hip_leave(e);
}
hipError_t hipGraphUpload(hipGraphExec_t g, hipStream_t s) {
    (void)s;
    runtime *r = hip_enter();
    if (!r) return hipErrorNotInitialized;
    return hip_leave(g ? hipSuccess : hipErrorInvalidValue);
}
/* The same kinds of nodes in the same order, kernels of the same function: then the parameters are replaced. */
hipError_t hipGraphExecUpdate(hipGraphExec_t e, hipGraph_t g, void **bad_node, int *result) {
    runtime *r = hip_enter();
    if (!r) return hipErrorNotInitialized;
    if (!e || !g) return hip_leave(hipErrorInvalidValue);
    if (bad_node) *bad_node = NULL;
    int why = e->n != g->n ? 2 : 0;
    for (size_t i = 0; !why && i < g->n; i++) {
        if (e->nodes[i].kind != g->nodes[i].kind) why = 3;
        else if (e->nodes[i].k != g->nodes[i].k) why = 4;
    }
    if (result) *result = why;
    if (why) return hip_leave(hipErrorGraphExecUpdateFailure);
    graph *c = graph_copy(g);
    if (!c) return hip_leave(hipErrorOutOfMemory);
    graph old = *e;
    *e = *c;
    *c = old;
    graph_free(c);
    return hip_leave(hipSuccess);
}
hipError_t hipGraphDestroy(hipGraph_t g) {
    runtime *r = hip_enter();
    if (!r) return hipErrorNotInitialized;
    if (!g) return hip_leave(hipErrorInvalidValue);
    graph_free(g);
    return hip_leave(hipSuccess);
}
hipError_t hipGraphExecDestroy(hipGraphExec_t g) { return hipGraphDestroy(g); }
hipError_t hipGraphGetNodes(hipGraph_t g, void **nodes, size_t *n) {
    runtime *r = hip_enter();
    if (!r) return hipErrorNotInitialized;
    if (!g || !n) return hip_leave(hipErrorInvalidValue);
    size_t room = nodes ? *n : 0;
    for (size_t i = 0; i < room && i < g->n; i++) nodes[i] = &g->nodes[i];
    *n = g->n;
    return hip_leave(hipSuccess);
}
