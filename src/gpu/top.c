/* The best logits, chosen on the device: a few bytes come back instead of the row. */
#include <stdlib.h>

#include "backend.h"

#define OUT_BYTES 1024u /* the result, before the work memory */
_Static_assert(IE_TOPK_MAX * sizeof(ie_abi_cand) <= OUT_BYTES, "candidates fit");

static ie_status sample_room(gpu_backend *g, gpu_state *s, ie_error *err) {
    if (s->sample) return IE_OK;
    uint64_t bytes = OUT_BYTES + gpu_sample_bytes(1);
    ie_status st = gpu_alloc(g->drv, bytes, "the choice of candidates", &s->sample, err);
    return st ? st : gpu_fill(g->drv, s->sample, 0, bytes, g->stream, err);
}

ie_status gpu_top_begin(gpu_backend *g, gpu_state *s, ie_error *err) {
    const uint64_t off = s->top.off;
    const uint32_t n = s->top.n, k = s->top.k;
    gpu_launches l = {0};
    ie_status st = sample_room(g, s, err);
    gpu_ptr x = s->arena + off, work = s->sample + OUT_BYTES;
    if (!st) st = k == 1 ? gpu_launch_argmax(x, n, n, 1, work, s->sample, &l, err) : gpu_launch_topk(x, n, n, 1, k, work, s->sample, &l, err);
    if (!st && g->trace) gpu_trace_sample(g->trace, &l);
    for (size_t i = 0; i < l.n && !st; i++) {
        gpu_function f;
        st = gpu_kernel_find(g, l.v[i].kernel, &f, err);
        if (!st) st = gpu_launch_run(g->drv, f, &l.v[i], GPU_PLAIN, g->stream, err);
    }
    free(l.v);
    void *to = k == 1 ? (void *)&s->pin->best : (void *)s->pin->top;
    return st ? st : gpu_download(g->drv, to, s->sample, k == 1 ? sizeof s->pin->best : k * sizeof *s->pin->top, g->stream, err);
}

/* The request, unless the last run has answered it already. */
static ie_status choose(gpu_backend *g, gpu_state *s, gpu_request want, ie_error *err) {
    bool there = s->top.ready && s->top.off == want.off && s->top.n == want.n && s->top.k == want.k;
    s->top = want;
    ie_status st = there ? IE_OK : gpu_top_begin(g, s, err);
    if (!st && !there) st = gpu_stream_sync(g->drv, g->stream, err);
    s->top.asked = !st;
    return st;
}

ie_status gpu_top(ie_backend *be, ie_state *st, uint64_t off, uint32_t n, uint32_t k, ie_cand *out, uint32_t *have, ie_error *err) {
    gpu_backend *g = gpu_of(be);
    gpu_state *s = gpu_state_of(st);
    *have = 0;
    if (g->sw.host_topk || !gpu_topk_fits(n, k)) return ie_fail(err, IE_E_UNSUPPORTED, "%u candidates of %u are chosen by the host", k, n);
    if (off > s->d.arena_bytes || 4u * (uint64_t)n > s->d.arena_bytes - off) return ie_fail(err, IE_E_ARG, "arena: no row of %u floats there", n);
    ie_status rc = gpu_enter(g, err);
    rc = gpu_leave(g, rc ? rc : choose(g, s, (gpu_request){.off = off, .n = n, .k = k}, err));
    if (rc) return rc;
    if (k == 1 && s->pin->best.id >= 0) out[(*have)++] = (ie_cand){s->pin->best.v, s->pin->best.id};
    for (; k > 1 && *have < k && s->pin->top[*have].id >= 0; ++*have) out[*have] = (ie_cand){s->pin->top[*have].v, s->pin->top[*have].id};
    return IE_OK;
}
