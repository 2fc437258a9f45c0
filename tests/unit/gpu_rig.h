/* A frame for tests of GPU kernels: one op list, run by the CPU backend and as launches by a device (the simulator of gfx1201, or
 * a card where IE_GPU_LIB names its library), from equal memory; afterwards all of the arena, of the KV pages and of the
 * recurrent state has to be equal. */
#ifndef GPU_RIG_H
#define GPU_RIG_H

#include "gpu_dev.h"
#include "ie_math.h"

/* ---- a list on both sides ---------------------------------------------------------------------------------------------- */

enum { RIG_VECS = 4, RIG_MATS = 8 };

typedef struct {
    gpu_dev *dev;
    ie_backend *be;
    ie_state *st;
    ie_vec vec[RIG_VECS], dev_vec[RIG_VECS];
    ie_mat mat[RIG_MATS], dev_mat[RIG_MATS];
    ie_weights w, dev_w; /* the same things in the CPU's and in the device's places */
    ie_oplist l;
    ie_state_desc d;
    uint64_t arena_bytes;
    uint8_t *arena; /* host image, written to both sides before a run */
    gpu_ptr weights, arena_dev, kv, gdn, batch, table, rope, scratch;
    uint64_t scratch_bytes;
    ie_gdn_log log;
    gpu_attn_choice attn;
    const gpu_mat_choice *mat_choice; /* NULL: the defaults */
    size_t launches; /* of the last step */
    const char *kernel; /* of the first of its launches that belongs to a MATMUL */
} gpu_rig;

static const ie_op rig_op = {.layer = 3, .src = IE_NO_OFF, .dst = IE_NO_OFF, .q8 = IE_NO_OFF, .res = IE_NO_OFF, .mat = IE_NO_W,
                             .vec = IE_NO_W, .vec2 = IE_NO_W, .scale = 1, .eps = 1e-5f, .kv_layer = 0};

static uint32_t rig_seed = 1;
static uint32_t rig_rnd(void) {
    rig_seed ^= rig_seed << 13;
    rig_seed ^= rig_seed >> 17;
    rig_seed ^= rig_seed << 5;
    return rig_seed;
}
static float rig_rndf(void) { return (float)((int32_t)rig_rnd() >> 8) * 0x1p-23f; }

static void rig_open(gpu_rig *r, gpu_dev *dev) {
    ie_error err = {0};
    *r = (gpu_rig){.dev = dev, .attn = {GPU_ATTN_AUTO, 768, 0, false}};
    r->w.vec = r->vec, r->w.mat = r->mat;
    r->l.name = "test";
    r->be = ie_backend_open("cpu", &(ie_backend_params){.threads = 1}, &err);
    if (!r->be) fail_msg("%s", err.msg);
}

static int32_t rig_vec(gpu_rig *r, uint32_t n) {
    r->vec[r->w.n_vec] = (ie_vec){.n = n, .name = "v"};
    return (int32_t)r->w.n_vec++;
}
static ie_off rig_f32(gpu_rig *r, uint64_t floats) {
    ie_off off = (ie_off)(r->arena_bytes / 256u);
    r->arena_bytes += ((floats + 32u) * 4u + 255u) / 256u * 256u;
    return off;
}
static ie_off rig_q8(gpu_rig *r, uint32_t k) { return rig_f32(r, (uint64_t)ie_q8_blocks(IE_DECODE_T, ie_nblk(k)) * IE_Q8_WORDS); }
static float *rig_at(gpu_rig *r, ie_off off) { return (float *)(void *)(r->arena + (uint64_t)off * 256u); }
static void rig_add(gpu_rig *r, ie_op op) { assert_int_equal(ie_oplist_add(&r->l, &op, NULL), IE_OK); }

static inline int32_t rig_mat(gpu_rig *r, const ie_format *f, uint32_t rows, uint32_t cols) {
    r->mat[r->w.n_mat] = (ie_mat){.fmt = f, .rows = rows, .cols = cols, .name = "m"};
    return (int32_t)r->w.n_mat++;
}
/* Rows of GGUF bytes, one after the other, to both sides. */
typedef struct {
    const ie_mat *m;
    const uint8_t *gguf;
    uint64_t row_bytes;
} rig_source;
static inline ie_status rig_rows(void *ctx, uint32_t row0, uint32_t n, uint32_t *units, ie_error *err) {
    const rig_source *s = ctx;
    (void)err;
    ie_repack_rows(s->m->fmt, s->m->cols, s->gguf + row0 * s->row_bytes, n, 0, units);
    return IE_OK;
}
static inline void rig_fill(gpu_rig *r, int32_t mat, const uint8_t *gguf, uint64_t row_bytes) {
    const ie_mat *m = &r->mat[mat];
    rig_source s = {m, gguf, row_bytes};
    uint64_t tile = gpu_tile_bytes(m->fmt, m->cols);
    uint32_t *wm = malloc((size_t)ie_mat_bytes(m->fmt, IE_TILE_ROWS, m->cols)), *lm = malloc((size_t)tile);
    assert_int_equal(r->be->api->weights_fill(r->be, m, rig_rows, &s, NULL), IE_OK);
    for (uint32_t t = 0; t < ie_ntiles(m->rows); t++) {
        uint32_t row0 = t * IE_TILE_ROWS, n = m->rows - row0 < IE_TILE_ROWS ? m->rows - row0 : IE_TILE_ROWS;
        memset(wm, 0, (size_t)ie_mat_bytes(m->fmt, IE_TILE_ROWS, m->cols));
        rig_rows(&s, row0, n, wm, NULL);
        gpu_repack_tile(m->fmt, m->cols, wm, lm);
        dev_put(r->dev, r->weights + r->dev_mat[mat].off + t * tile, lm, tile);
    }
    free(wm);
    free(lm);
}
/* Weights: each vector centre + width * noise, on both sides. Then the state. */
static void rig_start(gpu_rig *r, ie_state_desc d, const float *centre, const float *width) {
    ie_error err = {0};
    if (r->be->api->weights_alloc(r->be, &r->w, &err)) fail_msg("%s", err.msg);
    memcpy(r->dev_vec, r->vec, sizeof r->vec);
    memcpy(r->dev_mat, r->mat, sizeof r->mat);
    r->dev_w = (ie_weights){.mat = r->dev_mat, .n_mat = r->w.n_mat, .vec = r->dev_vec, .n_vec = r->w.n_vec};
    ie_weights_place(&r->dev_w, gpu_mat_bytes);
    r->weights = dev_zeros(r->dev, r->dev_w.bytes);
    for (uint32_t i = 0; i < r->w.n_vec; i++) {
        float *p = malloc(r->vec[i].n * sizeof *p);
        for (uint32_t k = 0; k < r->vec[i].n; k++) p[k] = centre[i] + width[i] * rig_rndf();
        assert_int_equal(r->be->api->weights_vec(r->be, &r->vec[i], p, &err), IE_OK);
        dev_put(r->dev, r->weights + r->dev_vec[i].off, p, r->vec[i].n * 4u);
        free(p);
    }
    d.arena_bytes = r->arena_bytes, d.max_t = IE_DECODE_T, d.n_seq = d.n_seq ? d.n_seq : 1, d.rope_rows = d.pages_per_seq * IE_PAGE;
    r->d = d;
    if (r->be->api->state_new(r->be, &r->d, &r->st, &err)) fail_msg("%s", err.msg);
    r->arena = calloc(1, r->arena_bytes);
    r->arena_dev = dev_zeros(r->dev, r->arena_bytes);
    r->kv = dev_zeros(r->dev, d.n_pages * ie_kv_page_bytes(&d.kv));
    r->gdn = dev_zeros(r->dev, gpu_gdn_parts_of(&r->d).bytes);
    r->batch = dev_zeros(r->dev, sizeof(ie_abi_batch));
    r->table = dev_zeros(r->dev, (uint64_t)d.n_seq * d.pages_per_seq * 4u);
    r->rope = dev_zeros(r->dev, (uint64_t)d.rope_rows * d.rope_half * 8u);
    if (d.rope) dev_put(r->dev, r->rope, d.rope, (uint64_t)d.rope_rows * d.rope_half * 8u);
    gpu_attn_choice check = {GPU_ATTN_CHECK, 0, 0, false}; /* the largest scratch of all choices: megabytes, so only where there is attention */
    bool attends = false;
    for (size_t i = 0; i < r->l.n; i++) attends |= r->l.ops[i].kind == OP_ATTN;
    r->scratch_bytes = gpu_scratch_bytes(&r->d, &r->l, attends ? &check : NULL);
    r->scratch = dev_zeros(r->dev, r->scratch_bytes);
    if (d.gdn.n_layer) assert_int_equal(ie_gdn_log_new(&r->log, d.n_seq, &err), IE_OK);
}

static void rig_close(gpu_rig *r) {
    gpu_ptr *p[] = {&r->weights, &r->arena_dev, &r->kv, &r->gdn, &r->batch, &r->table, &r->rope, &r->scratch};
    for (size_t i = 0; i < sizeof p / sizeof *p; i++) gpu_free(r->dev->drv, *p[i]);
    if (r->st) r->be->api->state_free(r->be, r->st);
    r->be->api->destroy(r->be);
    ie_gdn_log_free(&r->log);
    ie_oplist_free(&r->l);
    free(r->arena);
}

static void rig_same(const char *what, const void *a, const void *b, uint64_t bytes) {
    const uint32_t *x = a, *y = b;
    for (uint64_t i = 0; i < bytes / 4u; i++)
        if (x[i] != y[i])
            fail_msg("%s: word %llu: cpu %08x (%g), gpu %08x (%g)", what, (unsigned long long)i, x[i], (double)ie_f32_of(x[i]), y[i],
                     (double)ie_f32_of(y[i]));
}

/* The device's side of a step; returns the batch's bad word. */
static uint32_t rig_device(gpu_rig *r, const ie_step *s) {
    ie_abi_batch b = {.n = s->n, .n_out = s->n_out};
    for (uint32_t t = 0; t < s->n; t++) {
        b.seq[t] = s->seq ? (uint32_t)s->seq[t] : 0, b.pos[t] = s->pos ? (uint32_t)s->pos[t] : 0, b.token[t] = s->token ? s->token[t] : 0;
        if (b.pos[t] / IE_PAGE + 1u > b.n_pages_max) b.n_pages_max = b.pos[t] / IE_PAGE + 1u;
    }
    for (uint32_t j = 0; j < s->n_out; j++) b.out[j] = s->out[j];
    dev_put(r->dev, r->batch, &b, sizeof b);
    dev_put(r->dev, r->arena_dev, r->arena, r->arena_bytes);
    if (s->page_table) dev_put(r->dev, r->table, s->page_table, (uint64_t)r->d.n_seq * r->d.pages_per_seq * 4u);
    if (r->d.gdn.n_layer) {
        ie_abi_gdn g = {0};
        GPU_OK(ie_gdn_log_prepare(&r->log, &r->l, 0, r->l.n, s, err));
        g.n = r->log.n_block;
        for (uint32_t i = 0; i < g.n; i++) {
            const ie_gdn_block *k = &r->log.block[i];
            g.block[i] = (ie_abi_gdn_block){k->seq, k->t0, k->n, k->pos, k->base, k->next, {0}};
        }
        dev_put(r->dev, r->gdn, &g, sizeof g);
    }
    gpu_run run = {.card = gpu_driver_card(r->dev->drv), .w = &r->dev_w, .d = &r->d, .step = s, .weights = r->weights, .arena = r->arena_dev,
                   .kv = r->kv, .gdn = r->gdn, .batch = r->batch, .page_table = r->table, .rope = r->rope, .scratch = r->scratch, .attn = &r->attn, .mat = r->mat_choice};
    gpu_launches l = {0};
    GPU_OK(gpu_launch_list(&run, &r->l, 0, r->l.n, &l, err));
    dev_run(r->dev, &l);
    r->launches = l.n, r->kernel = NULL;
    for (size_t i = l.n; i-- > 0;)
        if (r->l.ops[l.v[i].op].kind == OP_MATMUL) r->kernel = l.v[i].kernel;
    free(l.v);
    dev_get(r->dev, &b, r->batch, sizeof b);
    if (r->d.gdn.n_layer) ie_gdn_log_commit(&r->log, b.bad == 0);
    return b.bad;
}

/* One step on both sides from the arena image; returns the CPU's status. The image becomes what both left. */
static ie_status rig_step(gpu_rig *r, const ie_step *s, const char *what) {
    ie_error err = {0};
    assert_int_equal(r->be->api->write(r->be, r->st, 0, r->arena, r->arena_bytes, &err), IE_OK);
    ie_status st = r->be->api->run(r->be, r->st, &r->w, &r->l, 0, r->l.n, s, &err);
    if (st && st != IE_E_NUMERIC) fail_msg("%s: %s", what, err.msg);
    uint32_t bad = rig_device(r, s);
    assert_int_equal(bad != 0, st == IE_E_NUMERIC);
    if (bad) assert_non_null(strstr(err.msg, ie_op_table[r->l.ops[0xFFFFFFFFu - bad].kind].name));
    uint8_t *got = malloc(r->arena_bytes);
    dev_get(r->dev, got, r->arena_dev, r->arena_bytes);
    rig_same(what, r->be->api->host_ptr(r->be, r->st, 0), got, r->arena_bytes);
    memcpy(r->arena, got, r->arena_bytes);
    free(got);
    return st;
}

#endif
