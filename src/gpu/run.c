/* A step: the batch goes up, launches run one after the other, one word comes back that says whether all values were finite.
 * The launches of a list are made once for each shape of a step and kept. */
#include <stdlib.h>
#include <string.h>

#include "backend.h"

/* ---- functions of the module ------------------------------------------------------------------------------------------- */

ie_status gpu_kernel_find(gpu_backend *g, const char *name, gpu_function *out, ie_error *err) {
    for (uint32_t i = 0; i < g->n_kernel; i++)
        if (g->kernel[i].name == name || strcmp(g->kernel[i].name, name) == 0) {
            *out = g->kernel[i].f;
            return IE_OK;
        }
    if (g->n_kernel == GPU_KERNELS) return ie_fail(err, IE_E_DEVICE, "more than %u kernels", GPU_KERNELS);
    ie_status st = gpu_modules_find(&g->modules, name, out, err);
    if (!st) g->kernel[g->n_kernel++] = (gpu_kernel){name, *out};
    return st;
}

/* ---- before a step ------------------------------------------------------------------------------------------------------ */

/* Rows of RoPE and pieces of page tables that the device has not seen, and memory for the pages in them. */
static ie_status refresh(gpu_backend *g, gpu_state *s, const ie_step *step, ie_error *err) {
    ie_status st = IE_OK;
    if (s->d.rope && s->d.rope_half && step->rope_n > s->rope_n) {
        uint32_t to = step->rope_n < s->d.rope_rows ? step->rope_n : s->d.rope_rows;
        uint64_t row = 8u * (uint64_t)s->d.rope_half;
        st = gpu_upload(g->drv, s->rope + s->rope_n * row, s->d.rope + (uint64_t)s->rope_n * s->d.rope_half * 2u, (to - s->rope_n) * row, g->stream, err);
        s->rope_n = to;
    }
    for (uint32_t t = 0; t < step->n && step->page_table && !st; t++) {
        if (t + 1u < step->n && step->seq[t + 1u] == step->seq[t]) continue;
        uint64_t at = ie_table_at((uint32_t)step->seq[t], 0, s->d.pages_per_seq);
        uint32_t n = ie_page_of((uint32_t)step->pos[t]) + 1u, from = 0;
        while (from < n && s->table_seen[at + from] == step->page_table[at + from]) from++;
        if (from == n) continue;
        uint32_t top = 0;
        for (uint32_t i = from; i < n; i++) top = step->page_table[at + i] > top ? step->page_table[at + i] : top;
        st = gpu_pages_room(g, s, top, err);
        if (st) break;
        memcpy(s->table_seen + at + from, step->page_table + at + from, (n - from) * 4u);
        st = gpu_upload(g->drv, s->table + 4u * (at + from), s->table_seen + at + from, 4u * (uint64_t)(n - from), g->stream, err);
    }
    return st;
}

static void fill_batch(ie_abi_batch *b, const ie_step *step) {
    memset(b, 0, sizeof *b);
    b->n = step->n;
    b->n_out = step->n_out;
    for (uint32_t t = 0; t < step->n; t++) {
        if (step->token) b->token[t] = step->token[t];
        if (!step->pos) continue;
        b->seq[t] = (uint32_t)step->seq[t];
        b->pos[t] = (uint32_t)step->pos[t];
        if (ie_page_of(b->pos[t]) + 1u > b->n_pages_max) b->n_pages_max = ie_page_of(b->pos[t]) + 1u;
    }
    for (uint32_t i = 0; i < step->n_out; i++) b->out[i] = step->out[i];
}

static void fill_gdn(ie_abi_gdn *out, const ie_gdn_log *log) {
    memset(out, 0, sizeof *out);
    out->n = log->n_block;
    for (uint32_t i = 0; i < log->n_block; i++) {
        const ie_gdn_block *b = &log->block[i];
        out->block[i] = (ie_abi_gdn_block){.seq = b->seq, .t0 = b->t0, .n = b->n, .pos = b->pos, .base = b->base, .next = b->next};
    }
}

/* ---- launches ------------------------------------------------------------------------------------------------------------ */

static gpu_key key_of(const ie_run *r, uint32_t pages) {
    gpu_key k = {0};
    k.ops = r->list->ops, k.w = r->w, k.n_ops = r->list->n, k.first = r->first, k.last = r->last;
    k.n = r->step->n, k.n_out = r->step->n_out;
    k.parts = (pages + 7u) / 8u;
    for (uint32_t t = 1; r->step->seq && t < k.n; t++) k.starts |= (uint32_t)(r->step->seq[t] != r->step->seq[t - 1u]) << t;
    return k;
}

static gpu_plan *find_plan(gpu_backend *g, gpu_state *s, const gpu_key *k) {
    gpu_plan *oldest = &s->plan[0];
    for (uint32_t i = 0; i < GPU_PLANS; i++) {
        if (memcmp(&s->plan[i].key, k, sizeof *k) == 0) return &s->plan[i];
        if (s->plan[i].stamp < oldest->stamp) oldest = &s->plan[i];
    }
    gpu_graph_free(g->drv, oldest->graph);
    free(oldest->f);
    oldest->f = NULL;
    oldest->graph = NULL;
    oldest->l.n = 0;
    oldest->uses = 0;
    memset(&oldest->key, 0, sizeof oldest->key);
    return oldest;
}

/* Scratch for the list's launches; grown when a list needs more. */
static ie_status scratch_room(gpu_backend *g, gpu_state *s, const ie_run *r, ie_error *err) {
    uint64_t bytes = gpu_scratch_bytes(&s->d, r->list, &g->attn);
    if (bytes <= s->scratch_bytes) return IE_OK;
    ie_status st = gpu_stream_sync(g->drv, g->stream, err);
    gpu_attn_note(g, s);
    gpu_plans_drop(g, s);
    gpu_free(g->drv, s->scratch);
    g->held.scratch -= s->scratch_bytes;
    s->scratch = 0;
    s->scratch_bytes = 0;
    if (!st) st = gpu_alloc(g->drv, bytes, "the launches' scratch", &s->scratch, err);
    if (!st) s->scratch_bytes = bytes, g->held.scratch += bytes;
    return st ? st : gpu_fill(g->drv, s->scratch, 0, bytes, g->stream, err);
}

static ie_status build(gpu_backend *g, gpu_state *s, const ie_run *r, gpu_plan *p, ie_error *err) {
    gpu_run run = {.card = gpu_driver_card(g->drv), .w = r->w, .d = &s->d, .step = r->step, .weights = g->weights, .arena = s->arena,
                   .kv = s->kv, .gdn = s->gdn, .batch = s->batch, .page_table = s->table, .rope = s->rope, .scratch = s->scratch, .attn = &g->attn, .mat = &g->mat};
    ie_status st = gpu_launch_list(&run, r->list, r->first, r->last, &p->l, err);
    if (!st) p->f = ie_calloc(p->l.n, sizeof *p->f, "launches", err);
    if (!st && !p->f) st = IE_E_NOMEM;
    for (size_t k = 0; k < p->l.n && !st; k++) st = gpu_kernel_find(g, p->l.v[k].kernel, &p->f[k], err);
    return st;
}

static ie_status get_plan(gpu_backend *g, gpu_state *s, const ie_run *r, uint32_t pages, gpu_plan **out, ie_error *err) {
    ie_status st = scratch_room(g, s, r, err);
    if (st) return st;
    gpu_key k = key_of(r, pages);
    gpu_plan *p = find_plan(g, s, &k);
    if (!p->f) st = build(g, s, r, p, err);
    if (st) return st;
    p->key = k;
    p->uses++;
    p->stamp = ++s->stamp;
    *out = p;
    return IE_OK;
}

/* ---- running --------------------------------------------------------------------------------------------------------------- */

static ie_status send(gpu_backend *g, gpu_state *s, ie_error *err) {
    ie_status st = gpu_upload(g->drv, s->batch, &s->pin->batch, sizeof s->pin->batch, g->stream, err);
    if (!st && s->log.n_block) st = gpu_upload(g->drv, s->gdn, &s->pin->gdn, sizeof s->pin->gdn, g->stream, err);
    return st;
}

static ie_status fetch(gpu_backend *g, gpu_state *s, ie_error *err) {
    return gpu_download(g->drv, &s->pin->bad, s->batch + offsetof(ie_abi_batch, bad), sizeof s->pin->bad, g->stream, err);
}

/* All of a step in the stream's order. */
static ie_status submit(gpu_backend *g, gpu_state *s, const gpu_plan *p, ie_error *err) {
    ie_status st = send(g, s, err);
    for (size_t i = 0; i < p->l.n && !st; i++) st = gpu_launch_run(g->drv, p->f[i], &p->l.v[i], i ? GPU_OVERLAP : GPU_PLAIN, g->stream, err);
    return st ? st : fetch(g, s, err);
}

static ie_status record(gpu_backend *g, gpu_state *s, gpu_plan *p, ie_error *err) {
    ie_status st = gpu_capture_begin(g->drv, g->stream, err);
    if (st) return st;
    st = submit(g, s, p, err);
    ie_error end;
    ie_status rc = gpu_capture_end(g->drv, g->stream, &p->graph, st ? &end : err);
    return st ? st : rc;
}

/* The same with an event before each op and one at the end. */
static ie_status profiled(gpu_backend *g, gpu_state *s, const ie_run *r, const gpu_plan *p, ie_error *err) {
    ie_status st = IE_OK;
    size_t cap = g->n_event;
    if (!ie_grow(&g->event, &cap, r->list->n + 2u, sizeof *g->event, "profile", err)) return IE_E_NOMEM;
    for (; g->n_event < r->list->n + 2u && !st; g->n_event += !st) st = gpu_event_new(g->drv, &g->event[g->n_event], err);
    if (!st) st = send(g, s, err);
    size_t k = 0;
    for (uint32_t i = r->first; i < r->last && !st; i++) {
        st = gpu_event_record(g->drv, g->event[i - r->first], g->stream, err);
        for (; k < p->l.n && p->l.v[k].op == i && !st; k++) st = gpu_launch_run(g->drv, p->f[k], &p->l.v[k], GPU_PLAIN, g->stream, err);
    }
    if (!st) st = gpu_event_record(g->drv, g->event[r->last - r->first], g->stream, err);
    if (!st) st = fetch(g, s, err);
    if (!st) st = gpu_stream_sync(g->drv, g->stream, err);
    if (!st) ie_profile_begin(g->profile, r);
    for (uint32_t i = r->first; i < r->last && !st; i++) {
        float ms = 0;
        st = gpu_event_ms(g->drv, g->event[i - r->first], g->event[i - r->first + 1u], &ms, err);
        if (!st) ie_profile_op(g->profile, r, i, ie_run_rows(r, &r->list->ops[i]), (double)ms * 1e-3);
    }
    return st;
}

static ie_status repeat(gpu_backend *g, gpu_state *s, const gpu_plan *p, bool graph, double *seconds, ie_error *err) {
    ie_status st = gpu_stream_sync(g->drv, g->stream, err);
    double start = ie_now();
    for (uint32_t i = 0; i < g->times.runs && !st; i++) {
        st = graph ? gpu_graph_launch(g->drv, p->graph, g->stream, err) : submit(g, s, p, err);
        if (!st) st = gpu_stream_sync(g->drv, g->stream, err);
    }
    *seconds = ie_now() - start;
    return st;
}

/* IE_GRAPH_BENCH. A step may be run again and again: only recurrent states would move on, so they are put back. */
static ie_status bench(gpu_backend *g, gpu_state *s, const gpu_plan *p, ie_error *err) {
    uint64_t bytes = gpu_gdn_parts_of(&s->d).bytes;
    gpu_ptr copy = 0;
    g->times.runs = g->sw.graph_bench;
    g->sw.graph_bench = 0;
    ie_status st = gpu_alloc(g->drv, bytes, "a copy of recurrent states", &copy, err);
    if (!st) st = gpu_copy(g->drv, copy, s->gdn, bytes, g->stream, err);
    if (!st) st = repeat(g, s, p, false, &g->times.launches_s, err);
    if (!st) st = repeat(g, s, p, true, &g->times.graph_s, err);
    if (!st) st = gpu_copy(g->drv, s->gdn, copy, bytes, g->stream, err);
    if (!st) st = gpu_stream_sync(g->drv, g->stream, err);
    gpu_free(g->drv, copy);
    return st;
}

/* A shape is recorded when it comes the second time: most of a prompt's shapes never do. */
static ie_status execute(gpu_backend *g, gpu_state *s, const ie_run *r, gpu_plan *p, ie_error *err) {
    if (g->trace) gpu_trace_run(g->trace, r, &p->l);
    if (g->profile) return profiled(g, s, r, p, err);
    bool graph = g->sw.graph && p->uses > 1;
    ie_status st = graph && !p->graph ? record(g, s, p, err) : IE_OK;
    if (!st && graph && g->sw.graph_bench && r->step->phase == IE_DECODE) st = bench(g, s, p, err);
    if (!st) st = graph ? gpu_graph_launch(g->drv, p->graph, g->stream, err) : submit(g, s, p, err);
    bool along = s->top.asked && r->last == r->list->n && r->step->n_out == 1u; /* the step ends with a row of logits */
    if (!st && along) st = gpu_top_begin(g, s, err);
    if (!st) st = gpu_stream_sync(g->drv, g->stream, err);
    s->top.ready = !st && along;
    return st;
}

static ie_status run(gpu_backend *g, gpu_state *s, const ie_run *r, ie_error *err) {
    gpu_plan *p;
    bool recurrent = s->d.gdn.n_layer > 0;
    ie_status st = recurrent ? ie_gdn_log_prepare(&s->log, r->list, r->first, r->last, r->step, err) : IE_OK;
    if (!st) st = refresh(g, s, r->step, err);
    if (st) return st;
    fill_batch(&s->pin->batch, r->step);
    if (recurrent) fill_gdn(&s->pin->gdn, &s->log);
    s->pin->bad = 0;
    s->top.asked = s->top.asked && !s->top.ready;
    s->top.ready = false;
    st = get_plan(g, s, r, s->pin->batch.n_pages_max, &p, err);
    if (!st) st = execute(g, s, r, p, err);
    if (recurrent) ie_gdn_log_commit(&s->log, !st && !s->pin->bad);
    if (st || !s->pin->bad) return st;
    uint32_t op = IE_ABI_BAD(s->pin->bad); /* its own inverse */
    if (op >= r->list->n) return ie_fail(err, IE_E_DEVICE, "a kernel reported a failure of op %u of %u", op, r->list->n);
    return ie_fail(err, IE_E_NUMERIC, "the result of %s in layer %d is not finite", ie_op_table[r->list->ops[op].kind].name, r->list->ops[op].layer);
}

ie_status gpu_run_list(ie_backend *be, ie_state *st, const ie_weights *w, const ie_oplist *l, uint32_t first, uint32_t last,
                       const ie_step *step, ie_error *err) {
    gpu_backend *g = gpu_of(be);
    gpu_state *s = gpu_state_of(st);
    ie_run r = {&s->d, w, l, first, last, step};
    ie_status rc = ie_run_check(&r, err);
    if (rc || first == last) return rc;
    if (step->n_out > IE_ABI_T) return ie_fail(err, IE_E_ARG, "%u outputs in a step, at most %u are allowed", step->n_out, IE_ABI_T);
    rc = gpu_enter(g, err);
    return gpu_leave(g, rc ? rc : run(g, s, &r, err));
}
