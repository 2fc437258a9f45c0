/* The GPU backend: opening, and the table of its functions. */
#include "backend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../env.h"

ie_status gpu_enter(gpu_backend *g, ie_error *err) {
    pthread_mutex_lock(&g->lock);
    return gpu_bind(g->drv, err);
}

ie_status gpu_leave(gpu_backend *g, ie_status st) {
    pthread_mutex_unlock(&g->lock);
    return st;
}

static const void *host_ptr(ie_backend *be, ie_state *st, uint64_t off) {
    (void)be;
    (void)st;
    (void)off;
    return NULL;
}

static ie_status memory(gpu_backend *g, ie_buf *out, ie_error *err) {
    ie_status st = gpu_enter(g, err);
    if (!st) gpu_memory_note(g);
    gpu_leave(g, st);
    if (st) return st;
    const gpu_held *h = &g->most;
    bool ok = ie_buf_printf(out, err, "device memory, MB: weights %.1f, activations and states %.1f, KV pages %.1f of %.1f, scratch %.1f; the card %.1f of %.1f\n",
                            (double)g->weight_bytes / 1e6, (double)h->fixed / 1e6, (double)h->pages / 1e6, (double)h->pages_room / 1e6,
                            (double)h->scratch / 1e6, (double)h->card / 1e6, (double)h->card_room / 1e6);
    return ok ? IE_OK : IE_E_NOMEM;
}

static ie_status profile(ie_backend *be, ie_buf *out, ie_error *err) {
    gpu_backend *g = gpu_of(be);
    if (g->attn.mode == GPU_ATTN_CHECK &&
        !ie_buf_printf(out, err, "attention: largest relative difference to the old kernel %.3g\n", (double)g->attn_worst))
        return IE_E_NOMEM;
    const gpu_graph_times *t = &g->times;
    if (t->runs && !ie_buf_printf(out, err, "a decode step, %u times: %.3f ms by launches, %.3f ms as a graph\n", t->runs,
                                  t->launches_s * 1e3 / t->runs, t->graph_s * 1e3 / t->runs))
        return IE_E_NOMEM;
    ie_status st = gpu_trace_check(g->trace, err);
    if (st || !g->profile) return st;
    st = memory(g, out, err);
    return st ? st : ie_profile_print(g->profile, out, err);
}

static const char *describe(ie_backend *be) { return gpu_of(be)->about; }

static void destroy(ie_backend *be) {
    gpu_backend *g = gpu_of(be);
    ie_error err;
    if (g->drv && !gpu_enter(g, &err)) {
        gpu_staging_end(g, &err);
        for (uint32_t i = 0; i < g->n_event; i++) gpu_event_free(g->drv, g->event[i]);
        gpu_free(g->drv, g->weights);
        gpu_modules_close(&g->modules);
        gpu_stream_free(g->drv, g->stream);
    }
    if (g->drv) gpu_leave(g, IE_OK);
    gpu_driver_close(g->drv);
    gpu_trace_free(g->trace);
    ie_profile_free(g->profile);
    ie_pool_free(g->pool);
    free(g->event);
    pthread_mutex_destroy(&g->lock);
    free(g);
}

#define API(NAME) {.name = NAME, .destroy = destroy, .weights_alloc = gpu_weights_alloc, .weights_fill = gpu_weights_fill, \
    .weights_vec = gpu_weights_vec, .state_room = gpu_state_room, .state_new = gpu_state_new, .state_free = gpu_state_free, \
    .run = gpu_run_list, .read = gpu_arena_read, .write = gpu_arena_write, .host_ptr = host_ptr, .top = gpu_top, .page_copy = gpu_page_copy, \
    .seq_rewind = gpu_seq_rewind, .seq_bytes = gpu_seq_bytes, .seq_save = gpu_seq_save, .seq_load = gpu_seq_load, \
    .page_save = gpu_page_save, .page_load = gpu_page_load, .profile = profile, .describe = describe}
static const ie_backend_api apis[GPU_VENDORS] = {[GPU_HIP] = API("hip"), [GPU_CUDA] = API("cuda")};

/* ---- opening ----------------------------------------------------------------------------------------------------------- */

static void read_switches(gpu_switches *s) {
    *s = (gpu_switches){.graph = ie_env_on(IE_ENV_GRAPH), .host_topk = ie_env_on(IE_ENV_HOST_TOPK), .stream = ie_env_on(IE_ENV_STREAM),
                        .graph_bench = ie_env_number(IE_ENV_GRAPH_BENCH)};
}

static ie_status init(gpu_backend *g, gpu_vendor v, const ie_backend_params *p, ie_error *err) {
    int threads = p && p->threads ? p->threads : (int)ie_env_number(IE_ENV_THREADS);
    if (!threads) threads = (int)ie_cores_available();
    g->drv = gpu_driver_open(v, p ? p->device - 1 : -1, err);
    if (!g->drv) return err->code;
    ie_status st = gpu_bind(g->drv, err);
    if (!st) st = gpu_stream_new(g->drv, &g->stream, err);
    if (!st) st = gpu_modules_open(&g->modules, g->drv, p ? p->hsaco : NULL, err);
    if (!st && !(g->pool = ie_pool_new((uint32_t)threads, err))) st = err->code;
    if (!st && ie_env_number(IE_ENV_PROFILE) && !(g->profile = ie_profile_new(err))) st = err->code;
    const char *trace = ie_env_text(IE_ENV_TRACE);
    if (!st && trace && !(g->trace = gpu_trace_new(trace, err))) st = err->code;
    const gpu_card *c = gpu_driver_card(g->drv);
    snprintf(g->about, sizeof g->about, "%s, %s (%s)", gpu_vendor_names[v], c->name, c->arch);
    return st;
}

static ie_backend *open_vendor(gpu_vendor v, const ie_backend_params *p, ie_error *err) {
    if (ie_env_check(err)) return NULL;
    gpu_backend *g = ie_calloc(1, sizeof *g, "backend", err);
    if (!g) return NULL;
    g->be = (ie_backend){.api = &apis[v], .max_t = IE_ABI_T};
    pthread_mutex_init(&g->lock, NULL);
    read_switches(&g->sw);
    gpu_attn_choice_read(&g->attn);
    gpu_mat_choice_read(&g->mat);
    if (!init(g, v, p, err)) return &g->be;
    destroy(&g->be);
    return NULL;
}

ie_backend *ie_hip_open(const ie_backend_params *p, ie_error *err) { return open_vendor(GPU_HIP, p, err); }
ie_backend *ie_cuda_open(const ie_backend_params *p, ie_error *err) { return open_vendor(GPU_CUDA, p, err); }
