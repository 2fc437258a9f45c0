/* Weights in device memory: one allocation. A matrix comes in slabs: its tiles are repacked on the host's threads into one of
 * two staging buffers while the other is uploaded. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../layers.h"
#include "backend.h"

#define SLAB_BYTES (64u << 20) /* of a staging buffer; at least one tile */

/* What matrices need, whose bytes are known. */
static void kernels_of(const gpu_backend *g, const ie_weights *w, bool kernels[GPU_PARTS]) {
    const gpu_card *card = gpu_driver_card(g->drv);
    for (uint32_t i = 0; i < w->n_mat; i++) {
        const ie_mat *m = &w->mat[i];
        kernels[m->fmt->id] = true;
        kernels[GPU_PART_STREAM + m->fmt->id] |= gpu_mat_streams(card, m);
    }
    kernels[GPU_PART_DOT4] = gpu_mat_dot4(card, &g->mat);
}

ie_status gpu_weights_alloc(ie_backend *be, ie_weights *w, ie_error *err) {
    gpu_backend *g = gpu_of(be);
    if (g->weights) return ie_fail(err, IE_E_ARG, "weights: allocated already");
    ie_weights_place(w, gpu_mat_bytes);
    uint64_t have = 0, total = 0;
    bool kernels[GPU_PARTS] = {false};
    kernels_of(g, w, kernels);
    ie_status st = gpu_enter(g, err);
    if (!st) st = gpu_modules_need(&g->modules, kernels, err); /* now, not in the first step; and they take memory, too */
    if (!st) st = gpu_mem_info(g->drv, &have, &total, err);
    if (!st && w->bytes > have) {
        uint32_t layers = ie_layers_fitting(w, have);
        char hint[80] = "";
        if (layers) snprintf(hint, sizeof hint, "; --gpu-layers %u would fit", layers);
        st = ie_fail(err, IE_E_NOMEM, "%s: the weights need %.2f GB of device memory, %.2f of %.2f GB are free%s", be->api->name,
                     (double)w->bytes / 1e9, (double)have / 1e9, (double)total / 1e9, hint);
    }
    if (!st) st = gpu_alloc(g->drv, w->bytes, "the weights", &g->weights, err);
    if (!st) g->weight_bytes = w->bytes;
    return gpu_leave(g, st);
}

/* ---- staging --------------------------------------------------------------------------------------------------------- */

static void staging_free(gpu_backend *g) {
    for (uint32_t i = 0; i < GPU_SLABS; i++) {
        gpu_host_free(g->drv, g->staging.p[i]);
        gpu_event_free(g->drv, g->staging.sent[i]);
    }
    g->staging = (gpu_staging){0};
}

ie_status gpu_staging_end(gpu_backend *g, ie_error *err) {
    ie_status st = g->staging.bytes ? gpu_stream_sync(g->drv, g->stream, err) : IE_OK;
    staging_free(g);
    return st;
}

static ie_status staging_room(gpu_backend *g, uint64_t bytes, ie_error *err) {
    gpu_staging *s = &g->staging;
    if (bytes <= s->bytes) return IE_OK;
    ie_status st = gpu_staging_end(g, err);
    for (uint32_t i = 0; i < GPU_SLABS && !st; i++) {
        st = gpu_host_alloc(g->drv, bytes, (void **)&s->p[i], err);
        if (!st) st = gpu_event_new(g->drv, &s->sent[i], err);
    }
    if (st) staging_free(g);
    else s->bytes = bytes;
    return st;
}

/* A staging buffer whose last upload is through. */
static ie_status staging_take(gpu_backend *g, uint32_t *i, ie_error *err) {
    *i = g->staging.next;
    g->staging.next = (*i + 1u) % GPU_SLABS;
    return g->staging.used[*i] ? gpu_event_sync(g->drv, g->staging.sent[*i], err) : IE_OK;
}

static ie_status staging_send(gpu_backend *g, uint32_t i, uint64_t off, uint64_t bytes, ie_error *err) {
    ie_status st = gpu_upload(g->drv, g->weights + off, g->staging.p[i], bytes, g->stream, err);
    if (!st) st = gpu_event_record(g->drv, g->staging.sent[i], g->stream, err);
    g->staging.used[i] = !st;
    if (!st && !g->sw.stream) st = gpu_stream_sync(g->drv, g->stream, err);
    return st;
}

/* ---- filling --------------------------------------------------------------------------------------------------------- */

/* One slab: tiles tile0 .. of a matrix, any thread takes any. */
typedef struct {
    const ie_mat *m;
    uint8_t *out;
    uint32_t tile0;
    uint64_t tile_bytes;
    ie_rows_fn rows;
    void *ctx;
    ie_error err; /* of the first tile that failed */
    _Atomic int failed;
} slab_job;

static void fill_tile(void *ctx, uint32_t i) {
    slab_job *j = ctx;
    if (atomic_load_explicit(&j->failed, memory_order_relaxed)) return;
    ie_error err;
    uint32_t row0 = (j->tile0 + i) * IE_TILE_ROWS, n = j->m->rows - row0 < IE_TILE_ROWS ? j->m->rows - row0 : IE_TILE_ROWS;
    uint32_t *tile = ie_calloc((size_t)ie_mat_bytes(j->m->fmt, IE_TILE_ROWS, j->m->cols), 1, "loading", &err);
    ie_status st = tile ? j->rows(j->ctx, row0, n, tile, &err) : IE_E_NOMEM;
    if (!st) gpu_repack_tile(j->m->fmt, j->m->cols, tile, (uint32_t *)(void *)(j->out + i * j->tile_bytes));
    else if (!atomic_exchange(&j->failed, 1)) j->err = err;
    free(tile);
}

static ie_status range(const gpu_backend *g, uint64_t off, uint64_t bytes, ie_error *err) {
    if (off <= g->weight_bytes && bytes <= g->weight_bytes - off) return IE_OK;
    return ie_fail(err, IE_E_ARG, "weights: bytes %llu + %llu of %llu", (unsigned long long)off, (unsigned long long)bytes,
                   (unsigned long long)g->weight_bytes);
}

static ie_status fill(gpu_backend *g, const ie_mat *m, ie_rows_fn rows, void *ctx, ie_error *err) {
    ie_status st = range(g, m->off, m->bytes, err);
    if (st) return st;
    uint32_t tiles = ie_ntiles(m->rows), most;
    uint64_t tile = gpu_tile_bytes(m->fmt, m->cols);
    most = !g->sw.stream ? tiles : tile < SLAB_BYTES ? (uint32_t)(SLAB_BYTES / tile) : 1;
    if (most > tiles) most = tiles;
    st = staging_room(g, g->sw.stream && tile < SLAB_BYTES ? SLAB_BYTES : most * tile, err);
    for (uint32_t t = 0, n; t < tiles && !st; t += n) {
        uint32_t i;
        n = tiles - t < most ? tiles - t : most;
        st = staging_take(g, &i, err);
        if (st) break;
        slab_job j = {.m = m, .out = g->staging.p[i], .tile0 = t, .tile_bytes = tile, .rows = rows, .ctx = ctx};
        ie_pool_for(g->pool, n, fill_tile, &j);
        if (j.failed) {
            if (err) *err = j.err;
            return j.err.code;
        }
        st = staging_send(g, i, m->off + t * tile, n * tile, err);
    }
    return st;
}

ie_status gpu_weights_fill(ie_backend *be, const ie_mat *m, ie_rows_fn rows, void *ctx, ie_error *err) {
    gpu_backend *g = gpu_of(be);
    ie_status st = gpu_enter(g, err);
    return gpu_leave(g, st ? st : fill(g, m, rows, ctx, err));
}

static ie_status vec(gpu_backend *g, const ie_vec *v, const float *data, ie_error *err) {
    uint64_t bytes = (uint64_t)v->n * 4u;
    uint32_t i;
    ie_status st = range(g, v->off, bytes, err);
    if (!st) st = staging_room(g, bytes < SLAB_BYTES ? SLAB_BYTES : bytes, err);
    if (!st) st = staging_take(g, &i, err);
    if (st) return st;
    if (bytes) memcpy(g->staging.p[i], data, (size_t)bytes);
    return staging_send(g, i, v->off, bytes, err);
}

ie_status gpu_weights_vec(ie_backend *be, const ie_vec *v, const float *data, ie_error *err) {
    gpu_backend *g = gpu_of(be);
    ie_status st = gpu_enter(g, err);
    return gpu_leave(g, st ? st : vec(g, v, data, err));
}
