/* A state in device memory: arena, recurrent states, batch, page tables, RoPE rows in one piece; KV pages in a range of addresses that gets
 * memory as pages come into use. */
#include <stdlib.h>
#include <string.h>

#include "backend.h"

static uint64_t round256(uint64_t n) { return (n + 255u) / 256u * 256u; }

/* Bytes of each part, in the order of memory but for the pages. */
typedef struct {
    uint64_t arena, kv, gdn, batch, table, rope;
} parts;

static parts parts_of(const ie_state_desc *d) {
    return (parts){.arena = round256(d->arena_bytes), .kv = round256(d->n_pages * ie_kv_page_bytes(&d->kv)), .gdn = round256(gpu_gdn_parts_of(d).bytes),
                   .batch = round256(sizeof(ie_abi_batch)), .table = round256(4u * (uint64_t)d->n_seq * d->pages_per_seq),
                   .rope = round256(8u * (uint64_t)d->rope_rows * d->rope_half)};
}

static uint64_t fixed_of(const parts *p) { return p->arena + p->gdn + p->batch + p->table + p->rope; }
static uint64_t sum_of(const parts *p) { return fixed_of(p) + p->kv; }

void gpu_state_room(ie_backend *be, const ie_state_desc *d, uint64_t *need, uint64_t *have) {
    gpu_backend *g = gpu_of(be);
    parts p = parts_of(d);
    uint64_t total;
    ie_error err;
    *need = sum_of(&p);
    *have = 0;
    ie_status st = gpu_enter(g, &err);
    if (!st) st = gpu_staging_end(g, &err);
    if (!st) gpu_mem_info(g->drv, have, &total, &err);
    gpu_leave(g, st);
}

static ie_status check(const ie_state_desc *d, const parts *p, ie_error *err) {
    if (d->max_t < 1 || d->max_t > IE_ABI_T) return ie_fail(err, IE_E_ARG, "batch size %u: must be 1..%u", d->max_t, IE_ABI_T);
    if (d->n_seq < 1) return ie_fail(err, IE_E_ARG, "sequences: 0, must be at least 1");
    if (d->kv.f32) return ie_fail(err, IE_E_UNSUPPORTED, "IE_ACT=f32 needs the CPU backend");
    if (d->kv.n_layer && (d->kv.hd < 1 || d->kv.hd > IE_MAX_HD))
        return ie_fail(err, IE_E_UNSUPPORTED, "head size %u: must be 1..%u", d->kv.hd, IE_MAX_HD);
    if (d->kv.n_layer && !ie_kv_ok(d->n_pages, d->kv.n_layer, d->kv.n_kv))
        return ie_fail(err, IE_E_NOMEM, "KV pages: %u of %llu bytes are too many", d->n_pages, (unsigned long long)ie_kv_page_bytes(&d->kv));
    ie_status st = d->gdn.n_layer ? ie_gdn_shape_check(&d->gdn, err) : IE_OK;
    if (st) return st;
    if (!ie_mul_ok(d->n_seq, d->pages_per_seq, UINT32_MAX))
        return ie_fail(err, IE_E_ARG, "page tables: %u sequences of %u pages are too many", d->n_seq, d->pages_per_seq);
    return sum_of(p) <= PTRDIFF_MAX / 2 ? IE_OK : ie_fail(err, IE_E_NOMEM, "a context of %llu bytes is too large", (unsigned long long)sum_of(p));
}

ie_status gpu_pages_room(gpu_backend *g, gpu_state *s, uint32_t page, ie_error *err) {
    uint64_t need = (page + 1ull) * ie_kv_page_bytes(&s->d.kv), had = s->pages_clean;
    if (need <= had) return IE_OK;
    ie_status st = gpu_range_grow(g->drv, &s->pages, need, err);
    if (!st) st = gpu_fill(g->drv, s->pages.base + had, 0, s->pages.mapped - had, g->stream, err);
    if (st) return st;
    g->held.pages += s->pages.mapped - had;
    s->pages_clean = s->pages.mapped;
    return IE_OK;
}

static ie_status make(gpu_backend *g, gpu_state *s, const parts *p, ie_error *err) {
    uint64_t table = 4u * (uint64_t)s->d.n_seq * s->d.pages_per_seq;
    s->bytes = fixed_of(p);
    ie_status st = gpu_staging_end(g, err);
    if (!st) st = gpu_alloc(g->drv, s->bytes, "the context's activations and states", &s->mem, err);
    if (!st) st = gpu_range_new(g->drv, p->kv, "the context's KV pages", &s->pages, err);
    if (!st) st = gpu_host_alloc(g->drv, sizeof *s->pin, (void **)&s->pin, err);
    if (!st) st = gpu_host_alloc(g->drv, table, (void **)&s->table_seen, err);
    if (!st && s->d.gdn.n_layer) st = ie_gdn_log_new(&s->log, s->d.n_seq, err);
    if (st) return st;
    g->held.fixed += s->bytes, g->held.pages_room += s->pages.bytes;
    s->made = true;
    s->arena = s->mem;
    s->kv = s->pages.base;
    s->gdn = s->arena + p->arena;
    s->batch = s->gdn + p->gdn;
    s->table = s->batch + p->batch;
    s->rope = s->table + p->table;
    memset(s->pin, 0, sizeof *s->pin);
    memset(s->table_seen, 0xFF, (size_t)table);
    /* Zeros: padding that kernels read (never use), and tables of sequences without pages. */
    st = gpu_fill(g->drv, s->mem, 0, s->bytes, g->stream, err);
    if (!st && s->pages.bytes) st = gpu_pages_room(g, s, 0, err);
    return st ? st : gpu_stream_sync(g->drv, g->stream, err);
}

void gpu_plans_drop(gpu_backend *g, gpu_state *s) {
    for (uint32_t i = 0; i < GPU_PLANS; i++) {
        gpu_graph_free(g->drv, s->plan[i].graph);
        free(s->plan[i].l.v);
        free(s->plan[i].f);
        s->plan[i] = (gpu_plan){0};
    }
}

/* IE_ATTN=check: the largest difference that the launches have noted, before their scratch goes. */
void gpu_attn_note(gpu_backend *g, gpu_state *s) {
    float worst = 0;
    ie_error err;
    if (g->attn.mode != GPU_ATTN_CHECK || !s->scratch || gpu_download(g->drv, &worst, s->scratch, sizeof worst, g->stream, &err)) return;
    if (!gpu_stream_sync(g->drv, g->stream, &err) && !(worst <= g->attn_worst)) g->attn_worst = worst;
}

void gpu_memory_note(gpu_backend *g) {
    uint64_t have = 0, total = 0;
    ie_error err;
    const gpu_held *h = &g->held;
    if (h->fixed + h->pages < g->most.fixed + g->most.pages || gpu_mem_info(g->drv, &have, &total, &err)) return;
    g->most = *h, g->most.card = total - have, g->most.card_room = total;
}

static void drop(gpu_backend *g, gpu_state *s) {
    gpu_attn_note(g, s);
    gpu_plans_drop(g, s);
    if (g->profile) gpu_memory_note(g);
    if (s->made) g->held.fixed -= s->bytes, g->held.pages -= s->pages_clean, g->held.pages_room -= s->pages.bytes, g->held.scratch -= s->scratch_bytes;
    gpu_range_free(g->drv, &s->pages);
    gpu_free(g->drv, s->mem);
    gpu_free(g->drv, s->scratch);
    gpu_free(g->drv, s->sample);
    gpu_host_free(g->drv, s->pin);
    gpu_host_free(g->drv, s->table_seen);
    ie_gdn_log_free(&s->log);
    free(s);
}

/* Kernels for the model's heads and recurrent layers: now, not in the first step. */
static ie_status kernels_loaded(gpu_backend *g, const ie_state_desc *d, ie_error *err) {
    bool any = d->kv.hd > IE_ATTN_SPLIT_HD || g->attn.mode == GPU_ATTN_OLD, kernels[GPU_PARTS] = {false};
    if (d->kv.n_layer && !any) {
        kernels[GPU_PART_ATTN + gpu_attn_size(d->kv.hd)] = true;
        kernels[GPU_PART_ATTN_PLAIN + gpu_attn_size(d->kv.hd)] = !gpu_driver_card(g->drv)->copies;
    }
    kernels[GPU_PART_ATTN_ANY] = d->kv.n_layer && (any || g->attn.mode == GPU_ATTN_CHECK);
    kernels[GPU_PART_GDN] = d->gdn.n_layer > 0;
    return gpu_modules_need(&g->modules, kernels, err);
}

ie_status gpu_state_new(ie_backend *be, const ie_state_desc *d, ie_state **out, ie_error *err) {
    gpu_backend *g = gpu_of(be);
    parts p = parts_of(d);
    ie_status st = check(d, &p, err);
    if (st) return st;
    gpu_state *s = ie_calloc(1, sizeof *s, "context", err);
    if (!s) return IE_E_NOMEM;
    s->d = *d;
    st = gpu_enter(g, err);
    if (!st) st = kernels_loaded(g, d, err);
    if (!st) st = make(g, s, &p, err);
    if (st) drop(g, s);
    else *out = (ie_state *)(void *)s;
    return gpu_leave(g, st);
}

void gpu_state_free(ie_backend *be, ie_state *st) {
    gpu_backend *g = gpu_of(be);
    if (!st) return;
    ie_error err;
    ie_status rc = gpu_enter(g, &err);
    gpu_stream_sync(g->drv, g->stream, &err);
    drop(g, gpu_state_of(st));
    gpu_leave(g, rc);
}

/* ---- copies to and from the host -------------------------------------------------------------------------------------- */

/* Waits: src or dst is the caller's memory. */
static ie_status copy(gpu_backend *g, gpu_ptr at, void *host, uint64_t bytes, bool up, ie_error *err) {
    ie_status st = gpu_enter(g, err);
    if (!st) st = up ? gpu_upload(g->drv, at, host, bytes, g->stream, err) : gpu_download(g->drv, host, at, bytes, g->stream, err);
    if (!st) st = gpu_stream_sync(g->drv, g->stream, err);
    return gpu_leave(g, st);
}

static ie_status arena_range(const gpu_state *s, uint64_t off, uint64_t bytes, ie_error *err) {
    if (off <= s->d.arena_bytes && bytes <= s->d.arena_bytes - off) return IE_OK;
    return ie_fail(err, IE_E_ARG, "arena: bytes %llu + %llu of %llu", (unsigned long long)off, (unsigned long long)bytes,
                   (unsigned long long)s->d.arena_bytes);
}

ie_status gpu_arena_read(ie_backend *be, ie_state *st, uint64_t off, void *dst, uint64_t bytes, ie_error *err) {
    gpu_state *s = gpu_state_of(st);
    ie_status rc = arena_range(s, off, bytes, err);
    return rc ? rc : copy(gpu_of(be), s->arena + off, dst, bytes, false, err);
}

ie_status gpu_arena_write(ie_backend *be, ie_state *st, uint64_t off, const void *src, uint64_t bytes, ie_error *err) {
    gpu_state *s = gpu_state_of(st);
    ie_status rc = arena_range(s, off, bytes, err);
    s->top.ready = false;
    return rc ? rc : copy(gpu_of(be), s->arena + off, (void *)(uintptr_t)src, bytes, true, err); /* only read */
}

/* Where a page lies, which has memory then. The backend is entered. */
static ie_status page_at(gpu_backend *g, gpu_state *s, uint32_t page, gpu_ptr *at, ie_error *err) {
    if (page >= s->d.n_pages) return ie_fail(err, IE_E_ARG, "page %u: the pool has %u", page, s->d.n_pages);
    *at = s->kv + page * ie_kv_page_bytes(&s->d.kv);
    return gpu_pages_room(g, s, page, err);
}

ie_status gpu_page_copy(ie_backend *be, ie_state *st, uint32_t dst, uint32_t src, ie_error *err) {
    gpu_backend *g = gpu_of(be);
    gpu_state *s = gpu_state_of(st);
    gpu_ptr to = 0, from = 0;
    ie_status rc = gpu_enter(g, err);
    if (!rc) rc = page_at(g, s, dst, &to, err);
    if (!rc) rc = page_at(g, s, src, &from, err);
    if (!rc) rc = gpu_copy(g->drv, to, from, ie_kv_page_bytes(&s->d.kv), g->stream, err);
    return gpu_leave(g, rc);
}

static ie_status page_move(gpu_backend *g, gpu_state *s, uint32_t page, void *host, bool up, ie_error *err) {
    gpu_ptr at = 0;
    ie_status st = gpu_enter(g, err);
    if (!st) st = page_at(g, s, page, &at, err);
    gpu_leave(g, st);
    return st ? st : copy(g, at, host, ie_kv_page_bytes(&s->d.kv), up, err);
}

ie_status gpu_page_save(ie_backend *be, ie_state *st, uint32_t page, void *dst, ie_error *err) {
    return page_move(gpu_of(be), gpu_state_of(st), page, dst, false, err);
}

ie_status gpu_page_load(ie_backend *be, ie_state *st, uint32_t page, const void *src, ie_error *err) {
    return page_move(gpu_of(be), gpu_state_of(st), page, (void *)(uintptr_t)src, true, err); /* only read */
}

/* ---- recurrent state ---------------------------------------------------------------------------------------------------- */

ie_status gpu_seq_rewind(ie_backend *be, ie_state *st, uint32_t seq, uint32_t pos, ie_error *err) {
    (void)be;
    gpu_state *s = gpu_state_of(st);
    if (seq >= s->d.n_seq) return ie_fail(err, IE_E_ARG, "sequence %u: must be 0..%u", seq, s->d.n_seq - 1u);
    return s->d.gdn.n_layer ? ie_gdn_log_rewind(&s->log, seq, pos, err) : IE_OK;
}

uint64_t gpu_seq_bytes(ie_backend *be, ie_state *st) {
    (void)be;
    const gpu_state *s = gpu_state_of(st);
    return s->d.gdn.n_layer ? sizeof(ie_gdn_place) + ie_gdn_seq_bytes(&s->d.gdn) : 0;
}

/* Place, states, logs: the CPU backend's format. */
static ie_status seq_copy(gpu_backend *g, gpu_state *s, uint32_t seq, uint8_t *buf, bool up, ie_error *err) {
    if (seq >= s->d.n_seq) return ie_fail(err, IE_E_ARG, "sequence %u: must be 0..%u", seq, s->d.n_seq - 1u);
    if (!s->d.gdn.n_layer) return IE_OK;
    gpu_gdn_parts p = gpu_gdn_parts_of(&s->d);
    uint64_t states = 4u * s->d.gdn.n_layer * ie_gdn_state_floats(&s->d.gdn), logs = 4u * s->d.gdn.n_layer * ie_gdn_log_floats(&s->d.gdn);
    uint8_t *at = buf + sizeof(ie_gdn_place);
    ie_gdn_place place;
    memcpy(&place, buf, sizeof place);
    if (up && !ie_gdn_place_ok(place)) return ie_fail(err, IE_E_FORMAT, "saved state: positions %u to %u", place.base, place.end);
    if (!up) memcpy(buf, &s->log.at[seq], sizeof(ie_gdn_place));
    ie_status st = copy(g, s->gdn + p.states + seq * states, at, states, up, err);
    if (!st) st = copy(g, s->gdn + p.logs + seq * logs, at + states, logs, up, err);
    if (!st && up) memcpy(&s->log.at[seq], buf, sizeof(ie_gdn_place));
    return st;
}

ie_status gpu_seq_save(ie_backend *be, ie_state *st, uint32_t seq, void *dst, ie_error *err) {
    return seq_copy(gpu_of(be), gpu_state_of(st), seq, dst, false, err);
}

ie_status gpu_seq_load(ie_backend *be, ie_state *st, uint32_t seq, const void *src, ie_error *err) {
    return seq_copy(gpu_of(be), gpu_state_of(st), seq, (uint8_t *)(uintptr_t)src, true, err); /* only read */
}
