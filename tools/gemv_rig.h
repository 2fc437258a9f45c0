/* What gemv_eq and gemv_bench share: a device of either vendor, a matrix of random weights in several copies (so that no cache holds
 * it), activations of 16 tokens, and the engine's own launches of a product (src/gpu/launch_gemv.c). */
#ifndef IE_GEMV_RIG_H
#define IE_GEMV_RIG_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/modules.h"
#include "rand_mat.h"

#define RIG_TILES 8u /* different tiles of 32 rows; the others are copies of these */

typedef struct {
    gpu_driver *drv;
    gpu_modules modules;
    gpu_stream stream;
    gpu_event from, to;
} gemv_dev;

typedef struct {
    gemv_dev *dev;
    ie_mat mat;
    uint32_t copies;
    uint64_t copy_bytes;   /* from copy to copy */
    gpu_ptr weights, arena, scratch;
    ie_off xs, x1, y;      /* activations of 16 tokens together; of each alone, x1_step apart; results, 16 rows */
    ie_off x1_step;
    gpu_mat_choice choice;
} gemv_rig;

/* vendor: "hip", "cuda", or "gpu" for whichever is there. file: GPU code instead of the built-in, or NULL. */
static ie_status dev_open(gemv_dev *d, const char *vendor, const char *file, ie_error *err) {
    bool any = strcmp(vendor, "gpu") == 0;
    *d = (gemv_dev){0};
    for (uint32_t v = 0; v < GPU_VENDORS && !d->drv; v++)
        if (any || strcmp(vendor, gpu_vendor_names[v]) == 0) d->drv = gpu_driver_open((gpu_vendor)v, -1, err);
    if (!d->drv) return any || err->code ? err->code : ie_fail(err, IE_E_ARG, "backend '%s': hip, cuda and gpu are allowed", vendor);
    ie_status st = gpu_bind(d->drv, err);
    if (!st) st = gpu_modules_open(&d->modules, d->drv, file, err);
    if (!st) st = gpu_stream_new(d->drv, &d->stream, err);
    if (!st) st = gpu_event_new(d->drv, &d->from, err);
    if (!st) st = gpu_event_new(d->drv, &d->to, err);
    return st;
}
static void dev_close(gemv_dev *d) {
    if (!d->drv) return;
    if (d->from) gpu_event_free(d->drv, d->from);
    if (d->to) gpu_event_free(d->drv, d->to);
    if (d->stream) gpu_stream_free(d->drv, d->stream);
    gpu_modules_close(&d->modules);
    gpu_driver_close(d->drv);
}

/* ---- contents ---------------------------------------------------------------------------------------------------------------- */

static ie_status send(gemv_dev *d, gpu_ptr to, const void *from, uint64_t bytes, ie_error *err) {
    ie_status st = gpu_upload(d->drv, to, from, bytes, d->stream, err);
    return st ? st : gpu_stream_sync(d->drv, d->stream, err);
}

/* The first tiles from the host; then what is there is copied behind itself until the memory is full. */
static ie_status fill_weights(gemv_rig *r, uint32_t *seed, ie_error *err) {
    const ie_format *f = r->mat.fmt;
    uint32_t cols = r->mat.cols, tiles = ie_ntiles(r->mat.rows), n = tiles < RIG_TILES ? tiles : RIG_TILES;
    uint64_t row = rand_row_bytes(f, cols), tile = gpu_tile_bytes(f, cols), units = ie_mat_bytes(f, IE_TILE_ROWS, cols);
    uint8_t *gguf = malloc((size_t)(row * IE_TILE_ROWS));
    uint32_t *wm = malloc((size_t)units), *lm = malloc((size_t)tile);
    ie_status st = gguf && wm && lm ? IE_OK : ie_fail(err, IE_E_NOMEM, "no memory for a tile of %llu bytes", (unsigned long long)tile);
    for (uint32_t t = 0; t < n && !st; t++) {
        rand_rows(f, IE_TILE_ROWS, cols, seed, gguf);
        memset(wm, 0, (size_t)units);
        ie_repack_rows(f, cols, gguf, IE_TILE_ROWS, 0, wm);
        gpu_repack_tile(f, cols, wm, lm);
        st = send(r->dev, r->weights + t * tile, lm, tile, err);
    }
    uint64_t all = tiles * tile;
    for (uint64_t have = n * tile, part; have < all && !st; have += part) {
        part = have < all - have ? have : all - have;
        st = gpu_copy(r->dev->drv, r->weights + have, r->weights, part, r->dev->stream, err);
    }
    for (uint32_t c = 1; c < r->copies && !st; c++) st = gpu_copy(r->dev->drv, r->weights + c * r->copy_bytes, r->weights, all, r->dev->stream, err);
    free(gguf), free(wm), free(lm);
    return st ? st : gpu_stream_sync(r->dev->drv, r->dev->stream, err);
}

/* One Q8 block of random values (core: IE_Q8_*). */
static void random_block(uint32_t *seed, uint32_t out[IE_Q8_WORDS]) {
    float x[IE_BLOCK], top = 0, id, d;
    int32_t lo = 0, hi = 0;
    for (uint32_t i = 0; i < IE_BLOCK; i++) {
        x[i] = rand_float(seed) * (i % 17 == 0 ? 8.0f : 1.0f);
        float a = x[i] < 0 ? -x[i] : x[i];
        top = a > top ? a : top;
    }
    memset(out, 0, IE_Q8_WORDS * 4u);
    d = ie_q8_scale(top, &id);
    for (uint32_t i = 0; i < IE_BLOCK; i++) {
        int32_t q = ie_q8_value(x[i], id);
        out[i / 4u] |= ((uint32_t)q & 0xFFu) << (8u * (i % 4u));
        *(i < IE_BLOCK / 2u ? &lo : &hi) += q;
    }
    out[IE_Q8_D] = ie_bits_of(d);
    out[IE_Q8_SA] = ie_bits_of(d * (float)(lo + hi));
    out[IE_Q8_NSUM] = 0u - (uint32_t)(lo + hi);
    out[IE_Q8_NLO] = 0u - (uint32_t)lo;
    out[IE_Q8_NHI] = 0u - (uint32_t)hi;
}

/* The same activations in groups of 16 and token by token; f32 rows for float matrices. */
static ie_status fill_tokens(gemv_rig *r, uint64_t bytes, uint32_t *seed, ie_error *err) {
    uint32_t nblk = ie_nblk(r->mat.cols), *p = calloc(1, (size_t)bytes);
    if (!p) return ie_fail(err, IE_E_NOMEM, "no memory for %llu bytes of activations", (unsigned long long)bytes);
    uint32_t *xs = p + 64u * r->xs;
    for (uint32_t t = 0; t < IE_DECODE_T; t++) {
        uint32_t *x1 = p + 64u * (r->x1 + t * r->x1_step);
        for (uint32_t b = 0; b < nblk && r->mat.fmt->dot != IE_FLOAT; b++) {
            random_block(seed, x1 + ie_q8_at(0, b, nblk, 1) * IE_Q8_WORDS);
            memcpy(xs + ie_q8_at(t, b, nblk, IE_DECODE_T) * IE_Q8_WORDS, x1 + ie_q8_at(0, b, nblk, 1) * IE_Q8_WORDS, IE_Q8_WORDS * 4u);
        }
        for (uint32_t i = 0; i < r->mat.cols && r->mat.fmt->dot == IE_FLOAT; i++) x1[i] = xs[t * r->mat.cols + i] = ie_bits_of(rand_float(seed));
    }
    ie_status st = send(r->dev, r->arena, p, bytes, err);
    free(p);
    return st;
}

static void rig_close(gemv_rig *r) {
    gpu_free(r->dev->drv, r->weights);
    gpu_free(r->dev->drv, r->arena);
    gpu_free(r->dev->drv, r->scratch);
    r->weights = r->arena = r->scratch = 0;
}

/* A matrix of random weights, as many copies as fill `megabytes`, at least one. */
static ie_status rig_open(gemv_rig *r, gemv_dev *d, const ie_format *f, uint32_t rows, uint32_t cols, uint32_t megabytes, ie_error *err) {
    uint32_t seed = 1u + rows + cols + (uint32_t)f->id, len = f->blocks * IE_BLOCK;
    *r = (gemv_rig){.dev = d, .mat = {.fmt = f, .rows = rows, .cols = cols, .name = "matrix"}};
    gpu_mat_choice_read(&r->choice);
    if (!ie_dims_ok(rows, cols) || (f->dot != IE_FLOAT && cols % len))
        return ie_fail(err, IE_E_ARG, "shape %u x %u: %s rows of 1 to %u weights, multiples of %u, at most %u of them, are allowed", rows, cols, f->name,
                       IE_MAX_K, f->dot == IE_FLOAT ? 1u : len, IE_MAX_ROWS);
    r->mat.bytes = r->copy_bytes = gpu_mat_bytes(f, rows, cols);
    r->copies = (uint32_t)(((uint64_t)megabytes * 1000000u + r->copy_bytes - 1u) / r->copy_bytes);
    if (!r->copies) r->copies = 1;
    uint64_t row = (f->dot == IE_FLOAT ? (uint64_t)cols : (uint64_t)ie_nblk(cols) * IE_Q8_WORDS) * 4u, one = (row + 255u) / 256u;
    r->x1_step = (ie_off)one;
    r->xs = 0;
    r->x1 = (ie_off)(16u * one);
    r->y = (ie_off)(32u * one);
    uint64_t bytes = 256u * (uint64_t)r->y + (uint64_t)IE_DECODE_T * rows * 4u;
    ie_status st = gpu_alloc(d->drv, r->copies * r->copy_bytes, "the weights", &r->weights, err);
    if (!st) st = gpu_alloc(d->drv, bytes, "activations and results", &r->arena, err);
    if (!st) st = gpu_alloc(d->drv, GPU_SCRATCH_MATS, "scratch", &r->scratch, err);
    if (!st) st = gpu_fill(d->drv, r->scratch, 0, GPU_SCRATCH_MATS, d->stream, err);
    if (!st) st = fill_weights(r, &seed, err);
    if (!st) st = fill_tokens(r, 256u * (uint64_t)r->y, &seed, err);
    if (st) rig_close(r);
    return st;
}

/* ---- products ------------------------------------------------------------------------------------------------------------------ */

/* The launches of one product with copy c: tokens 0 .. n - 1 together, or token t alone (n = 1) to row `to` of the results. */
static ie_status rig_add(const gemv_rig *r, uint32_t c, uint32_t n, uint32_t t, uint32_t to, gpu_launches *l, ie_error *err) {
    ie_mat m = r->mat;
    m.off = c % r->copies * r->copy_bytes;
    ie_weights w = {.mat = &m, .n_mat = 1};
    ie_step step = {.n = n};
    ie_op op = {.kind = OP_MATMUL, .src = n == 1 ? r->x1 + t * r->x1_step : r->xs, .dst = r->y, .dst_at = to * m.rows, .q8 = IE_NO_OFF, .res = IE_NO_OFF,
                .vec = IE_NO_W, .src_q8 = m.fmt->dot != IE_FLOAT, .src_ld = m.cols, .dst_ld = m.rows};
    gpu_run run = {.card = gpu_driver_card(r->dev->drv), .w = &w, .step = &step, .weights = r->weights, .arena = r->arena, .scratch = r->scratch, .mat = &r->choice};
    return gpu_launch_matmul(&run, &op, l, err);
}
static ie_status rig_run(const gemv_rig *r, const gpu_launches *l, ie_error *err) {
    ie_status st = IE_OK;
    for (size_t i = 0; i < l->n && !st; i++) {
        gpu_function f = NULL;
        st = gpu_modules_find(&r->dev->modules, l->v[i].kernel, &f, err);
        if (!st) st = gpu_launch_run(r->dev->drv, f, &l->v[i], i ? GPU_OVERLAP : GPU_PLAIN, r->dev->stream, err);
    }
    return st;
}
/* Microseconds of one of so many runs of a list that is recorded as one graph; the first run of the graph is not timed. */
static ie_status rig_time(const gemv_rig *r, const gpu_launches *l, uint32_t runs, double *us, ie_error *err) {
    gemv_dev *d = r->dev;
    gpu_graph g = NULL;
    ie_error end;
    float ms = 0;
    ie_status st = gpu_capture_begin(d->drv, d->stream, err);
    if (st) return st;
    st = rig_run(r, l, err);
    ie_status rc = gpu_capture_end(d->drv, d->stream, &g, st ? &end : err);
    if (!st) st = rc;
    if (!st) st = gpu_graph_launch(d->drv, g, d->stream, err);
    if (!st) st = gpu_event_record(d->drv, d->from, d->stream, err);
    for (uint32_t i = 0; i < runs && !st; i++) st = gpu_graph_launch(d->drv, g, d->stream, err);
    if (!st) st = gpu_event_record(d->drv, d->to, d->stream, err);
    if (!st) st = gpu_stream_sync(d->drv, d->stream, err);
    if (!st) st = gpu_event_ms(d->drv, d->from, d->to, &ms, err);
    if (g) gpu_graph_free(d->drv, g);
    *us = (double)ms * 1e3 / runs;
    return st;
}
/* Microseconds of a product of n tokens, out of `launches` products with one copy after the other. */
static ie_status rig_time_product(const gemv_rig *r, uint32_t n, uint32_t launches, uint32_t runs, double *us, ie_error *err) {
    gpu_launches l = {0};
    ie_status st = IE_OK;
    for (uint32_t i = 0; i < launches && !st; i++) st = rig_add(r, i, n, 0, 0, &l, err);
    if (!st) st = rig_time(r, &l, runs, us, err);
    *us /= launches;
    free(l.v);
    return st;
}

/* ---- arguments -------------------------------------------------------------------------------------------------------------------- */

/* A format's name without what people leave out: capitals, no underscores. */
static void plain_name(const char *s, size_t n, char out[16]) {
    size_t k = 0;
    for (size_t i = 0; i < n && k < 15; i++)
        if (s[i] != '_') out[k++] = (char)(s[i] >= 'a' && s[i] <= 'z' ? s[i] - 32 : s[i]);
    out[k] = 0;
}
/* The formats that a list such as "q4k,Q6_K" or "all" names, as bits. */
static ie_status kinds_of(const char *list, uint32_t *of, ie_error *err) {
    *of = 0;
    for (const char *p = list; *p;) {
        size_t n = strcspn(p, ",");
        char want[16], name[16];
        uint32_t before = *of;
        plain_name(p, n, want);
        for (uint32_t i = 0; i < IE_F_COUNT; i++) {
            plain_name(ie_formats[i].name, strlen(ie_formats[i].name), name);
            if (!strcmp(want, "ALL") || !strcmp(want, name)) *of |= 1u << i;
        }
        if (*of == before && n) return ie_fail(err, IE_E_ARG, "KIND '%.*s': all, or some of %s are allowed", (int)(n < 40 ? n : 40), p, ie_format_list());
        p += n + (p[n] == ',');
    }
    return *of ? IE_OK : ie_fail(err, IE_E_ARG, "KIND is empty: all, or some of %s are allowed", ie_format_list());
}
static bool shape_of(const char *s, uint32_t *rows, uint32_t *cols) {
    char *end;
    unsigned long r = strtoul(s, &end, 10), c = *end == 'x' ? strtoul(end + 1, &end, 10) : 0;
    *rows = (uint32_t)r, *cols = (uint32_t)c;
    return !*end && r >= 1 && r <= IE_MAX_ROWS && c >= 1 && c <= IE_MAX_K;
}
static bool number_of(const char *s, uint32_t lo, uint32_t hi, uint32_t *out) {
    char *end;
    unsigned long v = strtoul(s, &end, 10);
    *out = (uint32_t)v;
    return *s && !*end && v >= lo && v <= hi;
}

#endif
