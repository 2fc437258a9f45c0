/* The GPU's kernels for all ops but matrices and embeddings: equal bits with the CPU backend, for shapes with tails, batches of 1 to
 * 16 tokens of 1 to 3 sequences; attention kernels equal to each other; also with perturbed transcendental functions, and in the
 * simulator's checking modes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>

#include "gpu_modes.h"
#include "gpu_rig.h"

static gpu_dev dev;
static bool small; /* fewer and smaller cases: the checking modes are slow */


/* ---- rows ---------------------------------------------------------------------------------------------------------------- */

typedef struct {
    gpu_rig r;
    uint32_t n;
    ie_off wide, out[3];
} rows_rig;

static void rows_open(rows_rig *a, uint32_t n) {
    gpu_rig *r = &a->r;
    rig_open(r, &dev);
    rig_seed = 77 + n;
    a->n = n;
    int32_t vec = rig_vec(r, n);
    uint32_t T = IE_DECODE_T;
    a->wide = rig_f32(r, T * 2u * n);
    ie_off norm = rig_f32(r, T * n), norm_q = rig_q8(r, n), act = rig_f32(r, T * n), act_q = rig_q8(r, n), plain = rig_q8(r, n),
           rows = rig_f32(r, T * n), only_q = rig_q8(r, n);
    ie_op op = rig_op;
    op.n = n, op.src = a->wide, op.src_ld = 2 * n, op.dst_ld = n;
    op.kind = OP_RMSNORM, op.vec = vec, op.dst = norm, op.q8 = norm_q;
    rig_add(r, op);
    op.src_at = n, op.dst = IE_NO_OFF, op.q8 = only_q;
    rig_add(r, op);
    op.kind = OP_SWIGLU, op.vec = IE_NO_W, op.src_at = 0, op.dst = act, op.q8 = act_q;
    rig_add(r, op);
    op.kind = OP_QUANT, op.dst = IE_NO_OFF, op.q8 = plain, op.src_at = n / 2;
    rig_add(r, op);
    op.kind = OP_ROWS, op.of_rows = 1, op.src = norm, op.src_ld = n, op.src_at = 0, op.dst = rows, op.q8 = IE_NO_OFF;
    rig_add(r, op);
    op.kind = OP_RMSNORM, op.vec = vec, op.src = op.dst = rows; /* in place, gathered rows */
    rig_add(r, op);
    rig_start(r, (ie_state_desc){0}, (float[]){1}, (float[]){0.25f});
}

/* amplitude: large values, tiny ones, zeros. */
static void rows_fill(rows_rig *a) {
    float *x = rig_at(&a->r, a->wide);
    for (uint32_t i = 0; i < IE_DECODE_T * 2 * a->n; i++) x[i] = rig_rndf() * (i % 97 == 0 ? 40.0f : i % 5 ? 1.0f : 0x1p-20f);
}

static void rows_step(rows_rig *a, uint32_t t, const char *what) {
    uint32_t out[IE_DECODE_T];
    for (uint32_t j = 0; j < t; j++) out[j] = t - 1 - j;
    assert_int_equal(rig_step(&a->r, &(ie_step){.n = t, .n_out = t, .out = out}, what), IE_OK);
}

static void rows(void **state) {
    (void)state;
    static const uint32_t lengths[] = {100, 1, 31, 32, 576, 1000, 2056, 5120};
    for (size_t k = 0; k < (small ? 4 : sizeof lengths / sizeof *lengths); k++) {
        rows_rig a;
        rows_open(&a, lengths[k]);
        for (uint32_t t = 1; t <= IE_DECODE_T; t += k == 0 || t < 3 ? 1 : 13) { /* all of them for one length */
            rows_fill(&a);
            rows_step(&a, t, "rows");
        }
        rig_close(&a.r);
    }
}

static void q8_edges(void **state) {
    (void)state;
    static const float big[] = {0.0f, 1e-44f, 1e-38f, 0x1p-120f, 1e-10f, 1.0f, 3e38f};
    rows_rig a;
    rows_open(&a, 64);
    float *x = rig_at(&a.r, a.wide);
    a.r.l.n = 4, a.r.l.ops[0] = a.r.l.ops[1] = a.r.l.ops[2] = a.r.l.ops[3]; /* only quantising */
    for (size_t k = 0; k < 7; k++)
        for (uint32_t i = 0; i < 128; i++) x[k * 128 + i] = big[k] * rig_rndf();
    for (uint32_t i = 0; i < 128; i++) x[7 * 128 + i] = i % 2 ? -0.5f : 127.0f; /* ties */
    assert_int_equal(rig_step(&a.r, &(ie_step){.n = 8}, "edges"), IE_OK);
    rig_close(&a.r);
}

static void not_finite(void **state) {
    (void)state;
    static const float bad[] = {INFINITY, -INFINITY, NAN};
    for (int k = 0; k < 3; k++) {
        rows_rig a;
        rows_open(&a, 576);
        rows_fill(&a);
        ie_op q = a.r.l.ops[3];
        a.r.l.n = 1, a.r.l.ops[0] = q;
        rig_at(&a.r, a.wide)[5 * 1152 + 700] = bad[k]; /* token 5 */
        assert_int_equal(rig_step(&a.r, &(ie_step){.n = 16}, "bad"), IE_E_NUMERIC);
        rig_at(&a.r, a.wide)[5 * 1152 + 700] = 1;
        assert_int_equal(rig_step(&a.r, &(ie_step){.n = 16}, "good again"), IE_OK);
        rig_close(&a.r);
    }
}

/* ---- RoPE, pages, attention ------------------------------------------------------------------------------------------------ */

typedef struct {
    uint32_t n_head, n_kv, hd, window, rope_dim, positions;
    bool neox, norms, gated;
} geometry;

enum { SEQS = 3 };

typedef struct {
    gpu_rig r;
    geometry g;
    uint32_t ld, pages;
    float *rope;
    uint32_t *table;
    ie_off src;
} attn_rig;

static void attn_open(attn_rig *a, geometry g) {
    gpu_rig *r = &a->r;
    *a = (attn_rig){.g = g, .ld = (g.n_head * (g.gated ? 2 : 1) + 2 * g.n_kv) * g.hd + 3};
    rig_open(r, &dev);
    rig_seed = 9 + g.hd + g.n_head;
    int32_t qn = g.norms ? rig_vec(r, g.hd) : IE_NO_W, kn = g.norms ? rig_vec(r, g.hd) : IE_NO_W, wn = rig_vec(r, a->ld);
    uint32_t row = g.n_head * g.hd, half = g.rope_dim / 2;
    a->src = rig_f32(r, IE_DECODE_T * a->ld);
    ie_off dst = rig_f32(r, IE_DECODE_T * row), q8 = rig_q8(r, row);
    ie_op op = rig_op;
    op.kind = OP_ROPE_KV, op.src = op.dst = a->src, op.src_ld = op.dst_ld = a->ld, op.src_at = 3, op.vec = qn, op.vec2 = kn;
    op.n_head = g.n_head, op.n_kv = g.n_kv, op.hd = g.hd, op.rope_dim = g.rope_dim, op.rope_neox = g.neox, op.kv_layer = 1, op.gated = g.gated;
    rig_add(r, op);
    op.kind = OP_ATTN, op.dst = dst, op.dst_ld = row, op.vec = op.vec2 = IE_NO_W;
    if (g.hd % 32 == 0 && g.hd <= 256) op.q8 = q8;
    op.scale = 1.0f / sqrtf((float)g.hd), op.window = g.window;
    rig_add(r, op);
    if (gpu_driver_card(dev.drv)->copies) { /* one launch for both ops leaves queries as they were: something else takes their place */
        ie_off other = rig_f32(r, IE_DECODE_T * a->ld);
        op = rig_op;
        op.kind = OP_RMSNORM, op.vec = wn, op.src = other, op.dst = a->src, op.src_ld = op.dst_ld = op.n = a->ld;
        rig_add(r, op);
    }
    a->pages = (g.positions + 31) / 32;
    a->rope = calloc((size_t)a->pages * 32 * (half + 1), 8);
    for (uint32_t p = 0; p < a->pages * 32; p++)
        for (uint32_t i = 0; i < half; i++) {
            double angle = p * pow(10000.0, -2.0 * i / g.rope_dim);
            a->rope[(p * half + i) * 2] = (float)cos(angle);
            a->rope[(p * half + i) * 2 + 1] = (float)sin(angle);
        }
    uint32_t n = SEQS * a->pages;
    a->table = malloc(n * sizeof *a->table);
    for (uint32_t i = 0; i < n; i++) a->table[i] = i; /* pages lie anywhere */
    for (uint32_t i = n - 1; i > 0; i--) {
        uint32_t j = rig_rnd() % (i + 1), t = a->table[i];
        a->table[i] = a->table[j], a->table[j] = t;
    }
    rig_start(r, (ie_state_desc){.kv = {2, g.n_kv, g.hd, 0}, .n_pages = n, .n_seq = SEQS, .pages_per_seq = a->pages, .rope_half = half, .rope = a->rope},
              (float[]){1, 1, 1}, (float[]){0.25f, 0.25f, 0});
}

static void attn_close(attn_rig *a) {
    rig_close(&a->r);
    free(a->rope);
    free(a->table);
}

static void attn_step(attn_rig *a, const int32_t *seq, const int32_t *pos, uint32_t n, const char *what) {
    float *x = rig_at(&a->r, a->src);
    for (uint32_t i = 0; i < n * a->ld; i++) x[i] = 3.0f * rig_rndf();
    assert_int_equal(rig_step(&a->r, &(ie_step){.n = n, .seq = seq, .pos = pos, .page_table = a->table, .rope_n = a->pages * 32}, what), IE_OK);
    if (n == 1 && a->g.hd <= IE_ATTN_SPLIT_HD && a->r.attn.mode <= GPU_ATTN_SPLIT && gpu_driver_card(dev.drv)->copies) assert_int_equal(a->r.launches, 2);
}

/* All pages. */
static void rig_pages(gpu_rig *r, const char *what) {
    uint64_t bytes = ie_kv_page_bytes(&r->d.kv);
    uint8_t *a = malloc(bytes), *b = malloc(bytes);
    for (uint32_t p = 0; p < r->d.n_pages; p++) {
        assert_int_equal(r->be->api->page_save(r->be, r->st, p, a, NULL), IE_OK);
        dev_get(r->dev, b, r->kv + p * bytes, bytes);
        rig_same(what, a, b, bytes);
    }
    free(a);
    free(b);
}

/* Pages of random keys and values on both sides, so that long contexts need no run through all positions. */
static void attn_fill_pages(attn_rig *a) {
    uint64_t bytes = ie_kv_page_bytes(&a->r.d.kv);
    uint16_t *p = malloc(bytes);
    uint32_t hdp = ie_head_pad(a->g.hd);
    for (uint32_t i = 0; i < a->r.d.n_pages; i++) {
        for (uint64_t k = 0; k < bytes / 2; k++) p[k] = ie_f32_to_f16(2.0f * rig_rndf());
        for (uint64_t head = 0; head < 2u * a->g.n_kv; head++) /* padding is zeros */
            for (uint32_t slot = 0; slot < 32; slot++)
                for (uint32_t d = a->g.hd; d < hdp; d++) {
                    p[head * hdp * 64 + ie_k_elem(slot, d)] = 0;
                    p[head * hdp * 64 + hdp * 32 + ie_v_elem(slot, d, hdp)] = 0;
                }
        assert_int_equal(a->r.be->api->page_load(a->r.be, a->r.st, i, p, NULL), IE_OK);
        dev_put(&dev, a->r.kv + i * bytes, p, bytes);
    }
    free(p);
}

static const geometry shapes[] = {
    /* heads, kv, hd, window, rope, positions, neox, norms, gated */
    {4, 2, 32, 0, 32, 70, true, false, false},   {3, 1, 64, 0, 64, 1100, false, false, false}, {6, 1, 256, 0, 64, 600, true, true, true},
    {4, 4, 128, 300, 128, 900, true, true, false}, {6, 2, 80, 40, 40, 300, true, true, false}, {2, 1, 20, 0, 20, 100, false, true, false},
    {5, 1, 96, 0, 0, 300, true, false, true},    {2, 1, 320, 0, 320, 300, true, true, false}, {12, 2, 40, 513, 40, 1030, true, false, false},
};

/* Steps of several shapes at several positions, by a choice of kernels. */
static void attn_case(const geometry *g, gpu_attn_choice choice, const char *what) {
    attn_rig a;
    attn_open(&a, *g);
    a.r.attn = choice;
    attn_fill_pages(&a);
    int32_t last = (int32_t)g->positions - 1, at[] = {0, 1, 31, 32, 33, 255, 256, 257, 600, last - 16};
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        int32_t p = at[i];
        if (p < 0 || p > last - 16 || (small && i % 3)) continue;
        attn_step(&a, (int32_t[]){1}, (int32_t[]){p}, 1, what);
        if (small) continue;
        int32_t seq[16], pos[16];
        for (int32_t t = 0; t < 16; t++) seq[t] = 2, pos[t] = p + t; /* a draft of 16 */
        attn_step(&a, seq, pos, 16, what);
        attn_step(&a, seq, pos, 3, what);
        attn_step(&a, (int32_t[]){2, 0, 1}, (int32_t[]){p, last, p / 2}, 3, what); /* three sequences */
        for (int32_t t = 0; t < 9; t++) seq[t] = t < 4 ? 0 : t < 5 ? 2 : 1, pos[t] = t < 4 ? p + t : t < 5 ? last : p + t;
        attn_step(&a, seq, pos, 9, what);
    }
    rig_pages(&a.r, what);
    if (choice.mode == GPU_ATTN_CHECK) {
        float worst;
        dev_get(&dev, &worst, a.r.scratch, sizeof worst);
        if (worst > 1e-4f) fail_msg("old and new attention differ by %g", (double)worst);
    }
    attn_close(&a);
}

static void attention(gpu_attn_choice choice, const char *what) {
    for (size_t k = 0; k < (small ? 2 : sizeof shapes / sizeof *shapes); k++) attn_case(&shapes[k], choice, what);
}
static void attn_split(void **state) { (void)state, attention((gpu_attn_choice){GPU_ATTN_SPLIT, 0, 0, false}, "split"); }
static void attn_kv(void **state) { (void)state, attention((gpu_attn_choice){GPU_ATTN_AUTO, 0, 0, false}, "kv"); }
static void attn_kv_spw(void **state) { (void)state, attention((gpu_attn_choice){GPU_ATTN_AUTO, 0, 3, false}, "kv, 3 parts"); }
static void attn_old(void **state) { (void)state, attention((gpu_attn_choice){GPU_ATTN_OLD, 0, 0, false}, "old"); }
static void attn_check(void **state) {
    (void)state;
    for (size_t k = 1; k < 4; k += small ? 3 : 1) attn_case(&shapes[k], (gpu_attn_choice){GPU_ATTN_CHECK, 512, 0, false}, "check");
}

/* What IE_ATTN=check measures: of each head the largest difference by the largest value; of all heads and calls the largest. */
static void attn_difference(void **state) {
    (void)state;
    enum { HEADS = 3, ROWS = 4, HD = 40, LD = HEADS * HD };
    float a[ROWS * LD], b[ROWS * LD], worst, want = 0;
    gpu_ptr pa = dev_new(&dev, sizeof a), pb = dev_new(&dev, sizeof b), pw = dev_zeros(&dev, 4);
    ie_abi_diff args = {.a = pa, .b = pb, .worst = pw, .a_ld = LD, .b_ld = LD, .hd = HD};
    gpu_launches l = {0};
    GPU_OK(gpu_add(&l, "ie_attn_diff", HEADS, ROWS, 32, &args, sizeof args, err));
    rig_seed = 4;
    for (int round = 0; round < 4; round++) { /* equal, then larger, smaller, larger differences */
        for (uint32_t i = 0; i < ROWS * LD; i++) {
            b[i] = rig_rndf();
            a[i] = b[i] + (round && i % 97 == 5 ? (round == 2 ? 0x1p-20f : (float)round * 0x1p-10f) * rig_rndf() : 0.0f);
        }
        for (uint32_t h = 0; h < ROWS * HEADS; h++) {
            float diff = 0, size = 0;
            for (uint32_t d = 0; d < HD; d++) diff = fmaxf(diff, fabsf(a[h * HD + d] - b[h * HD + d])), size = fmaxf(size, fabsf(b[h * HD + d]));
            want = fmaxf(want, diff / size);
        }
        dev_put(&dev, pa, a, sizeof a);
        dev_put(&dev, pb, b, sizeof b);
        dev_run(&dev, &l);
        dev_get(&dev, &worst, pw, 4);
        assert_memory_equal(&worst, &want, 4);
        assert_true(round ? want > 0 : want == 0);
    }
    free(l.v);
    gpu_free(dev.drv, pa), gpu_free(dev.drv, pb), gpu_free(dev.drv, pw);
}

/* t tokens of min(t, seqs) sequences, which go on from from[]; a sequence's tokens are contiguous. */
static void some_tokens(uint32_t t, uint32_t seqs, const int32_t *from, int32_t *seq, int32_t *pos) {
    uint32_t n = t < seqs ? t : seqs, k = 0;
    for (uint32_t s = 0; s < n; s++)
        for (uint32_t i = t * s / n; i < t * (s + 1u) / n; i++, k++) seq[k] = (int32_t)s, pos[k] = from[s] + (int32_t)(i - t * s / n);
}

/* Every number of tokens, of 1 to 3 sequences. */
static void attn_tokens(void **state) {
    (void)state;
    static const geometry g = {6, 2, 40, 0, 40, 330, true, true, false};
    static const gpu_attn_choice choices[] = {{GPU_ATTN_SPLIT, 0, 0, false}, {GPU_ATTN_AUTO, 0, 0, false}};
    attn_rig a;
    attn_open(&a, g);
    attn_fill_pages(&a);
    for (uint32_t t = 1; t <= IE_DECODE_T; t++)
        for (uint32_t k = 0; k < 2; k++)
            for (uint32_t seqs = 1; seqs <= (small ? 1u : SEQS); seqs++) {
                int32_t seq[IE_DECODE_T], pos[IE_DECODE_T];
                a.r.attn = choices[k];
                some_tokens(t, small ? 1u + (t + k) % SEQS : seqs, (int32_t[]){251, 30, 300}, seq, pos);
                attn_step(&a, seq, pos, t, k ? "kv, tokens" : "split, tokens");
            }
    rig_pages(&a.r, "pages");
    attn_close(&a);
}

/* Queries that attend to nothing finite, and counters that stay zero. */
static void attn_not_finite(void **state) {
    (void)state;
    attn_rig a;
    attn_open(&a, shapes[0]);
    float *x = rig_at(&a.r, a.src);
    for (uint32_t i = 0; i < 2 * a.ld; i++) x[i] = rig_rndf();
    x[3 + 5] = INFINITY;
    int32_t seq[] = {0, 0}, pos[] = {0, 1};
    ie_step s = {.n = 2, .seq = seq, .pos = pos, .page_table = a.table, .rope_n = 32};
    uint32_t bad = rig_device(&a.r, &s);
    assert_int_equal(bad, IE_ABI_BAD(1));
    attn_step(&a, seq, pos, 2, "finite again");
    attn_close(&a);
}

/* ---- recurrent layers --------------------------------------------------------------------------------------------------------- */

enum { NK = 2, NV = 4, LAYERS = 2, GDN_T = 16 };

typedef struct {
    gpu_rig r;
    uint32_t ld;
    ie_off row[LAYERS];
} gdn_rig;

static void gdn_open(gdn_rig *a, uint32_t hd) {
    gpu_rig *r = &a->r;
    setenv("IE_PREFILL", "decode", 1);
    rig_open(r, &dev);
    rig_seed = 5 + hd;
    uint32_t ch = (2 * NK + NV) * hd;
    a->ld = ch + NV * hd + 2 * NV;
    int32_t taps = rig_vec(r, ch * 4), gate = rig_vec(r, 2 * NV), norm = rig_vec(r, hd);
    for (uint32_t i = 0; i < LAYERS; i++) {
        a->row[i] = rig_f32(r, GDN_T * a->ld);
        ie_op op = rig_op;
        op.kind = OP_CONV, op.kv_layer = (int32_t)i, op.src = a->row[i], op.vec = taps, op.vec2 = gate, op.eps = 1e-6f, op.scale = (float)(1 / sqrt(hd)),
        op.src_ld = a->ld, op.n_head = NV, op.n_kv = NK, op.hd = hd;
        rig_add(r, op);
        op.kind = OP_GDN, op.dst = rig_f32(r, GDN_T * NV * hd), op.q8 = rig_q8(r, NV * hd), op.dst_ld = NV * hd, op.vec = norm, op.vec2 = IE_NO_W;
        rig_add(r, op);
    }
    rig_start(r, (ie_state_desc){.gdn = {LAYERS, NK, NV, hd}, .n_pages = 1, .n_seq = SEQS, .pages_per_seq = 16}, (float[]){0, -0.6f, 1}, (float[]){0.7f, 0.5f, 0.3f});
    unsetenv("IE_PREFILL");
}

/* The recurrent state of every sequence: states only where they are not at position 0, logs as far as they are filled. */
static void gdn_same(gdn_rig *a) {
    gpu_rig *r = &a->r;
    uint64_t bytes = r->be->api->seq_bytes(r->be, r->st), state = r->d.gdn.n_layer * ie_gdn_state_floats(&r->d.gdn) * 4u,
             log = r->d.gdn.n_layer * ie_gdn_log_floats(&r->d.gdn) * 4u;
    gpu_gdn_parts p = gpu_gdn_parts_of(&r->d);
    uint8_t *want = malloc(bytes), *got = malloc(bytes);
    for (uint32_t s = 0; s < SEQS; s++) {
        assert_int_equal(r->be->api->seq_save(r->be, r->st, s, want, NULL), IE_OK);
        memcpy(got, &r->log.at[s], sizeof(ie_gdn_place));
        dev_get(&dev, got + 8, r->gdn + p.states + s * state, state);
        dev_get(&dev, got + 8 + state, r->gdn + p.logs + s * log, log);
        rig_same("place", want, got, 8);
        if (r->log.at[s].base) rig_same("state", want + 8, got + 8, state);
        rig_same("log", want + 8 + state, got + 8 + state, log);
    }
    free(want);
    free(got);
}

static void gdn_step(gdn_rig *a, ie_phase phase, const int32_t *seq, const int32_t *pos, uint32_t n) {
    /* the rows are read and overwritten in every step: fresh ones. v's place keeps the result of ie_gdn, not of ie_gdn1 */
    for (uint32_t i = 0; i < LAYERS; i++)
        for (uint32_t k = 0; k < n * a->ld; k++) rig_at(&a->r, a->row[i])[k] = rig_rndf();
    ie_error err = {0};
    gpu_rig *r = &a->r;
    static const uint32_t table[SEQS * 16]; /* no layer has pages */
    ie_step s = {.phase = phase, .n = n, .seq = seq, .pos = pos, .page_table = table};
    assert_int_equal(r->be->api->write(r->be, r->st, 0, r->arena, r->arena_bytes, &err), IE_OK);
    if (r->be->api->run(r->be, r->st, &r->w, &r->l, 0, r->l.n, &s, &err)) fail_msg("%s", err.msg);
    assert_int_equal(rig_device(r, &s), 0);
    uint8_t *got = malloc(r->arena_bytes), *want = malloc(r->arena_bytes);
    dev_get(&dev, got, r->arena_dev, r->arena_bytes);
    memcpy(want, r->be->api->host_ptr(r->be, r->st, 0), r->arena_bytes);
    uint32_t hd = r->d.gdn.hd, v = 2 * NK * hd;
    for (uint32_t i = 0; i < LAYERS && hd == IE_GDN1_HD; i++)
        for (uint32_t t = 0; t < n; t++) {
            uint64_t at = (uint64_t)a->row[i] * 256u + ((uint64_t)t * a->ld + v) * 4u;
            memcpy(want + at, got + at, NV * hd * 4u);
        }
    rig_same("gdn", want, got, r->arena_bytes);
    free(got);
    free(want);
}

static void gdn_walk(gdn_rig *a, ie_phase phase, int32_t seq, int32_t from, int32_t n, int32_t batch) {
    int32_t s[GDN_T], p[GDN_T];
    for (int32_t at = from; at < from + n; at += batch) {
        int32_t k = from + n - at < batch ? from + n - at : batch;
        for (int32_t t = 0; t < k; t++) s[t] = seq, p[t] = at + t;
        gdn_step(a, phase, s, p, (uint32_t)k);
    }
}

static void gdn_back(gdn_rig *a, uint32_t seq, uint32_t pos) {
    ie_error err = {0};
    assert_int_equal(a->r.be->api->seq_rewind(a->r.be, a->r.st, seq, pos, &err), IE_OK);
    assert_int_equal(ie_gdn_log_rewind(&a->r.log, seq, pos, &err), IE_OK);
}

static void recurrent(void **state) {
    (void)state;
    static const uint32_t sizes[] = {32, 128, 64, 256};
    for (size_t k = 0; k < (small ? 2 : 4); k++) {
        gdn_rig a;
        gdn_open(&a, sizes[k]);
        gdn_walk(&a, IE_PREFILL, 0, 0, small ? 20 : 70, 16); /* a prompt, then tokens */
        gdn_walk(&a, IE_DECODE, 0, small ? 20 : 70, 3, 1);
        gdn_same(&a);
        gdn_walk(&a, IE_DECODE, 1, 0, small ? 4 : 6, 2);
        for (int32_t i = 0; i < (small ? 1 : 4); i++) { /* drafts of 8, of which some are kept */
            int32_t pos = a.r.log.at[1].end > 0 ? (int32_t)a.r.log.at[1].end : 0;
            gdn_walk(&a, IE_DECODE, 1, pos, 8, 8);
            gdn_back(&a, 1, (uint32_t)pos + 1u + (uint32_t)i);
        }
        int32_t p0 = (int32_t)a.r.log.at[0].end, p1 = (int32_t)a.r.log.at[1].end;
        gdn_step(&a, IE_DECODE, (int32_t[]){1, 1, 0, 2}, (int32_t[]){p1, p1 + 1, p0, 0}, 4); /* three sequences */
        gdn_same(&a);
        gdn_back(&a, 0, 0); /* and from the beginning again */
        gdn_walk(&a, IE_DECODE, 0, 0, 5, 5);
        gdn_same(&a);
        rig_close(&a.r);
    }
}

static void recurrent_tokens(void **state) {
    (void)state;
    for (uint32_t hd = 32; hd <= 128; hd *= 4) { /* ie_gdn, ie_gdn1 */
        gdn_rig a;
        gdn_open(&a, hd);
        for (uint32_t t = 1; t <= GDN_T; t++) {
            int32_t seq[GDN_T], pos[GDN_T], from[SEQS];
            for (uint32_t s = 0; s < SEQS; s++) from[s] = (int32_t)a.r.log.at[s].end;
            some_tokens(t, 1u + t % SEQS, from, seq, pos);
            gdn_step(&a, IE_DECODE, seq, pos, t);
        }
        gdn_same(&a);
        rig_close(&a.r);
    }
}

/* ---- sampling ----------------------------------------------------------------------------------------------------------------- */

typedef struct {
    float v;
    int32_t id;
} cand;

static int by_value(const void *pa, const void *pb) {
    const cand *a = pa, *b = pb;
    if (a->v != b->v) return a->v > b->v ? -1 : 1;
    return a->id < b->id ? -1 : a->id > b->id;
}

static void sample_case(const float *x, uint32_t n, uint32_t rows, uint32_t k) {
    uint64_t bytes = (uint64_t)rows * n * 4u;
    gpu_ptr logits = dev_new(&dev, bytes), work = dev_zeros(&dev, gpu_sample_bytes(rows)), out = dev_new(&dev, rows * IE_TOPK_MAX * 8u);
    gpu_launches l = {0};
    dev_put(&dev, logits, x, bytes);
    GPU_OK(gpu_launch_topk(logits, n, n, rows, k, work, out, &l, err));
    dev_run(&dev, &l);
    ie_abi_cand *got = malloc(rows * k * sizeof *got);
    dev_get(&dev, got, out, rows * k * sizeof *got);
    cand *all = malloc(n * sizeof *all);
    ie_abi_best best[16];
    l.n = 0;
    GPU_OK(gpu_launch_argmax(logits, n, n, rows, work, out, &l, err));
    dev_run(&dev, &l);
    dev_run(&dev, &l); /* the counters are as before */
    dev_get(&dev, best, out, rows * sizeof *best);
    for (uint32_t r = 0; r < rows; r++) {
        uint32_t have = 0;
        float top = -INFINITY;
        int32_t id = -1;
        double sum = 0;
        for (uint32_t i = 0; i < n; i++) {
            float v = x[(size_t)r * n + i];
            if (isfinite(v)) all[have++] = (cand){v, (int32_t)i};
            if (v > top) top = v, id = (int32_t)i;
        }
        qsort(all, have, sizeof *all, by_value);
        for (uint32_t i = 0; i < k; i++) {
            assert_int_equal(got[r * k + i].id, i < have ? all[i].id : -1);
            if (i < have) assert_memory_equal(&got[r * k + i].v, &all[i].v, 4);
        }
        bool found = top > -INFINITY && top < INFINITY;
        assert_int_equal(best[r].id, found ? id : -1);
        for (uint32_t i = 0; i < n && found; i++) sum += isnan(x[(size_t)r * n + i]) ? 0 : exp((double)x[(size_t)r * n + i] - (double)top);
        if (found && fabs(best[r].p - 1 / sum) > 1e-5 / sum) fail_msg("probability %g, expected %g", (double)best[r].p, 1 / sum);
    }
    free(l.v);
    free(got);
    free(all);
    gpu_free(dev.drv, logits);
    gpu_free(dev.drv, work);
    gpu_free(dev.drv, out);
}

static void sampling(void **state) {
    (void)state;
    static const uint32_t sizes[] = {1, 50, 1000, 4097, 49152, 248320}, ks[] = {1, 3, 40, 64};
    for (size_t i = 0; i < (small ? 3 : 6); i++) {
        uint32_t n = sizes[i], rows = n > 100000 ? 1 : 3;
        float *x = malloc((size_t)n * rows * 4u);
        for (int kind = 0; kind < (n > 10000 ? 2 : 4); kind++) {
            rig_seed = 3 + n;
            for (uint32_t k = 0; k < n * rows; k++) {
                x[k] = 10.0f * rig_rndf();
                if (kind == 1) x[k] = (float)((int32_t)(rig_rnd() % 7u) - 3); /* many equal, zeros of both signs */
                if (kind == 1 && x[k] == 0 && k % 2) x[k] = -0.0f;
                if (kind == 2 && k % 3) x[k] = k % 2 ? -INFINITY : NAN;
                if (kind == 3) x[k] = (float)k; /* the largest in the last share */
            }
            if (kind == 3 && rows > 1) x[n] = INFINITY;
            for (size_t k = 0; k < 4; k++)
                if (n < 4000 ? !small || k % 3 == 0 : k == 2) sample_case(x, n, rows, ks[k]);
        }
        for (uint32_t k = 0; k < n; k++) x[k] = NAN; /* nothing to choose from */
        if (n < 10000) sample_case(x, n, 1, 40);
        free(x);
    }
    assert_true(gpu_topk_fits(248320, 64) && !gpu_topk_fits(248320, 65) && !gpu_topk_fits(1u << 20, 40));
}

/* ---- modes -------------------------------------------------------------------------------------------------------------------- */

static int run_all(void) {
    const char *none = dev_open(&dev, "IE_HSACO", "/ie_kernels.hsaco", "/ie_kernels.ptx");
    if (none) {
        printf("skip: %s\n", none);
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows),       cmocka_unit_test(q8_edges),    cmocka_unit_test(not_finite),      cmocka_unit_test(attn_split),
        cmocka_unit_test(attn_kv),    cmocka_unit_test(attn_kv_spw), cmocka_unit_test(attn_old),        cmocka_unit_test(attn_check),
        cmocka_unit_test(attn_difference), cmocka_unit_test(attn_tokens), cmocka_unit_test(attn_not_finite), cmocka_unit_test(recurrent), cmocka_unit_test(recurrent_tokens),
        cmocka_unit_test(sampling),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv) {
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return modes_all(run_all, &small);
}
