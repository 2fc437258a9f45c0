/* The CPU backend: memory, states, and the walk over an op list. All threads walk the list, each taking its share of every
 * op, with a barrier between ops. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../env.h"
#include "cpu.h"

#define SLAB_BYTES (1u << 20) /* of a matrix that a thread fills at a time */
#define KV_SLACK 64u /* bytes after the pages: vectors of V may reach beyond the last row */

static cpu_backend *of(ie_backend *be) { return (cpu_backend *)(void *)be; }

/* ---- weights ------------------------------------------------------------------------------------------------------- */

static ie_status weights_alloc(ie_backend *be, ie_weights *w, ie_error *err) {
    cpu_backend *c = of(be);
    if (c->weights) return ie_fail(err, IE_E_ARG, "weights: allocated already");
    ie_weights_place(w, ie_mat_bytes);
    uint64_t have = ie_memory_available();
    if (have && w->bytes > have)
        return ie_fail(err, IE_E_NOMEM, "the weights need %.2f GB, %.2f GB of memory are free", (double)w->bytes / 1e9, (double)have / 1e9);
    ie_status st = cpu_memory_get(&c->weight_memory, w->bytes, "weights", err);
    c->weights = c->weight_memory.p;
    c->weight_bytes = c->weight_memory.bytes;
    return st;
}

static ie_status weights_range(ie_backend *be, uint64_t off, uint64_t bytes, ie_error *err) {
    uint64_t all = of(be)->weight_bytes;
    if (off <= all && bytes <= all - off) return IE_OK;
    return ie_fail(err, IE_E_ARG, "weights: bytes %llu + %llu of %llu", (unsigned long long)off, (unsigned long long)bytes,
                   (unsigned long long)all);
}

/* A matrix being filled: slabs of whole tiles, any thread takes any. */
typedef struct {
    const ie_mat *m;
    uint8_t *units;
    uint64_t slab_bytes;
    uint32_t slab_rows;
    ie_rows_fn rows;
    void *ctx;
    ie_error err; /* of the first slab that failed */
    _Atomic int failed;
} fill_job;

static void fill_slab(void *ctx, uint32_t i) {
    fill_job *j = ctx;
    if (atomic_load_explicit(&j->failed, memory_order_relaxed)) return;
    ie_error err;
    uint32_t row0 = i * j->slab_rows, n = j->m->rows - row0 < j->slab_rows ? j->m->rows - row0 : j->slab_rows;
    if (j->rows(j->ctx, row0, n, (uint32_t *)(void *)(j->units + i * j->slab_bytes), &err) && !atomic_exchange(&j->failed, 1)) j->err = err;
}

static ie_status weights_fill(ie_backend *be, const ie_mat *m, ie_rows_fn rows, void *ctx, ie_error *err) {
    ie_status st = weights_range(be, m->off, m->bytes, err);
    if (st) return st;
    uint64_t tile = ie_mat_bytes(m->fmt, IE_TILE_ROWS, m->cols);
    uint32_t tiles = tile < SLAB_BYTES ? (uint32_t)(SLAB_BYTES / tile) : 1;
    fill_job j = {.m = m, .units = of(be)->weights + m->off, .slab_bytes = tiles * tile, .slab_rows = tiles * IE_TILE_ROWS, .rows = rows, .ctx = ctx};
    ie_pool_for(of(be)->pool, (m->rows + j.slab_rows - 1u) / j.slab_rows, fill_slab, &j);
    if (!j.failed) return IE_OK;
    if (err) *err = j.err;
    return j.err.code;
}

static ie_status weights_vec(ie_backend *be, const ie_vec *v, const float *data, ie_error *err) {
    ie_status st = weights_range(be, v->off, (uint64_t)v->n * 4u, err);
    if (!st && v->n) memcpy(of(be)->weights + v->off, data, (size_t)v->n * 4u);
    return st;
}

/* ---- states -------------------------------------------------------------------------------------------------------- */

static void state_free(ie_backend *be, ie_state *st) {
    (void)be;
    if (!st) return;
    cpu_memory_put(&st->arena);
    cpu_memory_put(&st->kv);
    cpu_memory_put(&st->scratch);
    cpu_memory_put(&st->floats);
    cpu_gdn_free(st);
    cpu_memory_put(&st->ffn);
    free(st->how);
    free(st);
}

static ie_status state_check(const ie_state_desc *d, uint64_t *kv_bytes, ie_error *err) {
    if (d->max_t < 1 || d->max_t > IE_MAX_T) return ie_fail(err, IE_E_ARG, "batch size %u: must be 1..%u", d->max_t, IE_MAX_T);
    if (d->n_seq < 1) return ie_fail(err, IE_E_ARG, "sequences: 0, must be at least 1");
    if (d->kv.n_layer && (d->kv.hd < 1 || d->kv.hd > IE_MAX_HD))
        return ie_fail(err, IE_E_UNSUPPORTED, "head size %u: must be 1..%u", d->kv.hd, IE_MAX_HD);
    if (!ie_mul_ok(d->n_seq, d->pages_per_seq, UINT32_MAX))
        return ie_fail(err, IE_E_ARG, "page tables: %u sequences of %u pages are too many", d->n_seq, d->pages_per_seq);
    uint64_t page = 0; /* layers, heads: 32 bits; 2^10 * 32 * 4 = 2^17 bytes a head at most */
    if (!ie_mul_u64((uint64_t)d->kv.n_layer * d->kv.n_kv, ie_kv_head_elems(&d->kv) * (d->kv.f32 ? 4u : 2u), &page) ||
        !ie_mul_u64(page, d->n_pages, kv_bytes) || *kv_bytes > PTRDIFF_MAX / 2 ||
        (d->kv.n_layer && !ie_kv_ok(d->n_pages, d->kv.n_layer, d->kv.n_kv)))
        return ie_fail(err, IE_E_NOMEM, "KV pages: %u of %llu bytes are too many", d->n_pages, (unsigned long long)page);
    return IE_OK;
}

static void state_room(ie_backend *be, const ie_state_desc *d, uint64_t *need, uint64_t *have) {
    (void)be;
    *need = d->arena_bytes + d->n_pages * ie_kv_page_bytes(&d->kv) + d->n_seq * ie_gdn_seq_bytes(&d->gdn);
    *have = ie_memory_available();
}

static ie_status state_new(ie_backend *be, const ie_state_desc *d, ie_state **out, ie_error *err) {
    uint64_t kv_bytes = 0;
    ie_status rc = state_check(d, &kv_bytes, err);
    if (rc) return rc;
    ie_state *st = ie_calloc(1, sizeof *st, "context", err);
    if (!st) return IE_E_NOMEM;
    st->d = *d;
    rc = cpu_memory_get(&st->arena, d->arena_bytes, "activations", err);
    if (!rc) rc = cpu_memory_get(&st->kv, kv_bytes + KV_SLACK, "KV pages", err);
    if (!rc) rc = cpu_gdn_new(of(be), st, err);
    if (rc) {
        state_free(be, st);
        return rc;
    }
    cpu_memory_touch(&st->arena, UINT64_MAX);
    cpu_memory_touch(&st->kv, CPU_TOUCH); /* pages are given out from the first on */
    *out = st;
    return IE_OK;
}

static ie_status arena_range(const ie_state *st, uint64_t off, uint64_t bytes, ie_error *err) {
    if (off <= st->arena.bytes && bytes <= st->arena.bytes - off) return IE_OK;
    return ie_fail(err, IE_E_ARG, "arena: bytes %llu + %llu of %llu", (unsigned long long)off, (unsigned long long)bytes,
                   (unsigned long long)st->arena.bytes);
}

static ie_status read_arena(ie_backend *be, ie_state *st, uint64_t off, void *dst, uint64_t bytes, ie_error *err) {
    (void)be;
    ie_status rc = arena_range(st, off, bytes, err);
    if (!rc && bytes) memcpy(dst, (const uint8_t *)st->arena.p + off, (size_t)bytes);
    return rc;
}

static ie_status write_arena(ie_backend *be, ie_state *st, uint64_t off, const void *src, uint64_t bytes, ie_error *err) {
    (void)be;
    ie_status rc = arena_range(st, off, bytes, err);
    if (!rc && bytes) memcpy((uint8_t *)st->arena.p + off, src, (size_t)bytes);
    return rc;
}

static const void *host_ptr(ie_backend *be, ie_state *st, uint64_t off) {
    (void)be;
    return off < st->arena.bytes ? (const uint8_t *)st->arena.p + off : NULL;
}

static ie_status page_copy(ie_backend *be, ie_state *st, uint32_t dst, uint32_t src, ie_error *err) {
    (void)be;
    uint32_t n = st->d.n_pages;
    if (dst >= n || src >= n) return ie_fail(err, IE_E_ARG, "page %u to %u: the pool has %u", src, dst, n);
    uint64_t bytes = ie_kv_page_bytes(&st->d.kv);
    if (dst != src) memcpy((uint8_t *)st->kv.p + dst * bytes, (const uint8_t *)st->kv.p + src * bytes, (size_t)bytes);
    return IE_OK;
}

static ie_status seq_rewind(ie_backend *be, ie_state *st, uint32_t seq, uint32_t pos, ie_error *err) {
    (void)be;
    return cpu_gdn_rewind(st, seq, pos, err);
}

static uint64_t seq_bytes(ie_backend *be, ie_state *st) {
    (void)be;
    return cpu_gdn_bytes(st);
}

static ie_status seq_save(ie_backend *be, ie_state *st, uint32_t seq, void *dst, ie_error *err) {
    (void)be;
    return cpu_gdn_copy(st, seq, dst, true, err);
}

static ie_status seq_load(ie_backend *be, ie_state *st, uint32_t seq, const void *src, ie_error *err) {
    (void)be;
    return cpu_gdn_copy(st, seq, (uint8_t *)(uintptr_t)src, false, err); /* only read */
}

static ie_status page_at(ie_state *st, uint32_t page, uint8_t **at, ie_error *err) {
    if (page >= st->d.n_pages) return ie_fail(err, IE_E_ARG, "page %u: the pool has %u", page, st->d.n_pages);
    *at = (uint8_t *)st->kv.p + page * ie_kv_page_bytes(&st->d.kv);
    return IE_OK;
}

static ie_status page_save(ie_backend *be, ie_state *st, uint32_t page, void *dst, ie_error *err) {
    (void)be;
    uint8_t *at = NULL;
    ie_status rc = page_at(st, page, &at, err);
    if (!rc) memcpy(dst, at, (size_t)ie_kv_page_bytes(&st->d.kv));
    return rc;
}

static ie_status page_load(ie_backend *be, ie_state *st, uint32_t page, const void *src, ie_error *err) {
    (void)be;
    uint8_t *at = NULL;
    ie_status rc = page_at(st, page, &at, err);
    if (!rc) memcpy(at, src, (size_t)ie_kv_page_bytes(&st->d.kv));
    return rc;
}

/* ---- running ------------------------------------------------------------------------------------------------------- */

/* This thread has done a piece of op i: the op ends now, or later. */
static void ended(const cpu_run *r, uint32_t i) {
    _Atomic uint64_t *at = &r->ended[i - r->first];
    uint64_t now = (uint64_t)((ie_now() - r->began) * 1e9), was = atomic_load(at);
    while (was < now && !atomic_compare_exchange_weak(at, &was, now)) {}
}

static void walk(void *ctx, uint32_t thread) {
    cpu_run *r = ctx;
    ie_pool *pool = r->cpu->pool;
    ie_pool_way way = {.thread = thread};
    for (uint32_t i = r->first; i < r->last; i++) {
        const ie_op *op = &r->list->ops[i];
        uint32_t i0, i1, grain, n = cpu_op_pieces(r, op, &grain);
        bool took = false;
        ie_pool_phase(&way, n, grain);
        while (ie_pool_take(pool, &way, &i0, &i1)) cpu_op_work(r, op, thread, i0, i1), took = true;
        if (took && r->ended) ended(r, i);
        if (i + 1 < r->last && !r->st->how[i].no_barrier) ie_pool_meet(pool, &way);
    }
}

/* Each op's time: from the end of those before it to its own. A thread that comes late, or goes ahead, changes nothing. */
static void profile_run(const cpu_run *r) {
    ie_profile *p = r->cpu->profile;
    ie_run run = {&r->st->d, r->w, r->list, r->first, r->last, r->step};
    uint64_t last = 0;
    ie_profile_begin(p, &run);
    for (uint32_t i = r->first; i < r->last; i++) {
        uint64_t end = atomic_load(&r->ended[i - r->first]), took = end > last ? end - last : 0;
        ie_profile_op(p, &run, i, cpu_op_span(r, &r->list->ops[i]).n, r->st->how[i].done ? 0 : (double)took * 1e-9);
        last += took;
    }
}

/* All ops by all threads; with their times, if they are asked for. */
static ie_status work(cpu_run *r, ie_error *err) {
    if (r->cpu->profile && !(r->ended = ie_calloc(r->last - r->first, sizeof *r->ended, "profile", err))) return IE_E_NOMEM;
    r->began = ie_now();
    ie_pool_run(r->cpu->pool, walk, r);
    if (r->ended) profile_run(r);
    free((void *)r->ended);
    return IE_OK;
}

static ie_status run(ie_backend *be, ie_state *st, const ie_weights *w, const ie_oplist *l, uint32_t first, uint32_t last,
                     const ie_step *step, ie_error *err) {
    cpu_run r = {.cpu = of(be), .st = st, .w = w, .list = l, .first = first, .last = last, .step = step};
    ie_status rc = ie_run_check(&(ie_run){&st->d, w, l, first, last, step}, err);
    if (!rc) rc = cpu_plan(&r, err);
    if (!rc) rc = cpu_attn_prepare(&r, err);
    if (!rc) rc = cpu_float_prepare(&r, err);
    if (!rc) rc = cpu_gdn_prepare(&r, err);
    if (!rc && first < last) rc = work(&r, err);
    if (rc || first == last) return rc;
    uint32_t bad = atomic_load_explicit(&r.bad, memory_order_relaxed);
    cpu_gdn_commit(&r, !bad);
    if (!bad) return IE_OK;
    const ie_op *op = &l->ops[bad - 1];
    return ie_fail(err, IE_E_NUMERIC, "the result of %s in layer %d is not finite", ie_op_table[op->kind].name, op->layer);
}

/* ---- the rest ------------------------------------------------------------------------------------------------------ */

static ie_status profile(ie_backend *be, ie_buf *out, ie_error *err) {
    if (!cpu_gdn_check_print(&of(be)->gdn_check, out, err)) return IE_E_NOMEM;
    return of(be)->profile ? ie_profile_print(of(be)->profile, out, err) : IE_OK;
}

static const char *describe(ie_backend *be) { return of(be)->about; }

static void destroy(ie_backend *be) {
    cpu_backend *c = of(be);
    ie_pool_free(c->pool);
    ie_profile_free(c->profile);
    cpu_memory_put(&c->weight_memory);
    free(c);
}

static const ie_backend_api api = {
    .name = "cpu",
    .destroy = destroy,
    .weights_alloc = weights_alloc,
    .weights_fill = weights_fill,
    .weights_vec = weights_vec,
    .state_room = state_room,
    .state_new = state_new,
    .state_free = state_free,
    .run = run,
    .read = read_arena,
    .write = write_arena,
    .host_ptr = host_ptr,
    .page_copy = page_copy,
    .seq_rewind = seq_rewind,
    .seq_bytes = seq_bytes,
    .seq_save = seq_save,
    .seq_load = seq_load,
    .page_save = page_save,
    .page_load = page_load,
    .profile = profile,
    .describe = describe,
};

const ie_ops_table *ie_ops_of(ie_level level) {
    static const ie_ops_table *const tables[IE_LEVEL_COUNT] = {
        [IE_LEVEL_PORTABLE] = &ie_ops_portable, [IE_LEVEL_AVX2] = &ie_ops_avx2, [IE_LEVEL_AVX512] = &ie_ops_avx512};
    return tables[level];
}

ie_backend *ie_cpu_open(const ie_backend_params *p, ie_error *err) {
    ie_level level;
    int threads = p ? p->threads : 0;
    if (ie_env_check(err) || ie_level_choose(&level, err)) return NULL;
    if (threads < 0 || threads > (int)IE_POOL_MAX) {
        ie_fail(err, IE_E_ARG, "threads: %d, must be 0..%u", threads, IE_POOL_MAX);
        return NULL;
    }
    if (!threads) threads = (int)ie_env_number(IE_ENV_THREADS);
    if (!threads) threads = (int)ie_cores_available();
    cpu_backend *c = ie_calloc(1, sizeof *c, "backend", err);
    if (!c) return NULL;
    *c = (cpu_backend){.be = {&api, IE_MAX_T}, .mm = ie_mm_of(level), .ops = ie_ops_of(level)};
    c->gdn_check.on = ie_env_on(IE_ENV_GDN_CHECK);
    snprintf(c->about, sizeof c->about, "cpu, %s, %d thread%s", ie_level_name(level), threads, threads == 1 ? "" : "s");
    c->pool = ie_pool_new((uint32_t)threads, err);
    bool ok = c->pool != NULL;
    if (ok && ie_env_number(IE_ENV_PROFILE)) ok = (c->profile = ie_profile_new(err)) != NULL;
    if (ok) return &c->be;
    destroy(&c->be);
    return NULL;
}
