/* Second part of test_ops.c: RoPE, KV pages, attention, refused arguments, the op table. */

typedef struct {
    uint32_t n_head, n_kv, hd, window, rope_dim;
    bool neox, norms;
    uint32_t positions;
} geometry;

enum { SEQS = 3, LAYERS = 2 };

/* A rig whose list is ROPE_KV, ATTN on layer 1 of 2; qkv rows of positions x sequences come from a seed. */
typedef struct {
    rig r;
    geometry g;
    uint32_t ld, half, pages;
    float *rope, *qn, *kn, *x; /* x: [SEQS][positions][ld] */
    uint32_t *table;
    ie_off src, dst, q8;
} attn_rig;

static void attn_open(attn_rig *a, ie_level level, uint32_t threads, geometry g) {
    rig *r = &a->r;
    *a = (attn_rig){.g = g, .ld = (g.n_head + 2 * g.n_kv) * g.hd + 3, .half = g.rope_dim / 2};
    rig_open(r, level, threads);
    seed = 9 + g.hd + g.n_head;
    int32_t qn = g.norms ? add_vec(r, g.hd) : IE_NO_W, kn = g.norms ? add_vec(r, g.hd) : IE_NO_W;
    rig_weights(r);
    if (g.norms) a->qn = fill_vec(r, qn), a->kn = fill_vec(r, kn);
    a->src = add_f32(r, 100u * a->ld);
    a->dst = add_f32(r, 100u * g.n_head * g.hd);
    a->q8 = add_q8(r, 100, g.n_head * g.hd);
    ie_op op = none;
    op.kind = OP_ROPE_KV, op.src = op.dst = a->src, op.src_ld = op.dst_ld = a->ld, op.src_at = 3, op.vec = qn, op.vec2 = kn;
    op.n_head = g.n_head, op.n_kv = g.n_kv, op.hd = g.hd, op.rope_dim = g.rope_dim, op.rope_neox = g.neox, op.kv_layer = 1;
    add_op(r, op);
    op.kind = OP_ATTN, op.dst = a->dst, op.dst_ld = g.n_head * g.hd, op.vec = op.vec2 = IE_NO_W;
    if (g.hd % 32 == 0 && g.hd <= 256) op.q8 = a->q8;
    op.scale = 1.0f / sqrtf((float)g.hd), op.window = g.window;
    add_op(r, op);
    a->pages = (g.positions + 31) / 32;
    a->rope = malloc((size_t)g.positions * (a->half + 1) * 8);
    for (uint32_t p = 0; p < g.positions; p++)
        for (uint32_t i = 0; i < a->half; i++) {
            double angle = p * pow(10000.0, -2.0 * i / g.rope_dim);
            a->rope[(p * a->half + i) * 2] = (float)cos(angle);
            a->rope[(p * a->half + i) * 2 + 1] = (float)sin(angle);
        }
    a->table = malloc(SEQS * a->pages * sizeof *a->table);
    for (uint32_t i = 0; i < SEQS * a->pages; i++) a->table[i] = i; /* shuffled: pages lie anywhere */
    for (uint32_t i = SEQS * a->pages - 1; i > 0; i--) {
        uint32_t j = rnd() % (i + 1), t = a->table[i];
        a->table[i] = a->table[j], a->table[j] = t;
    }
    a->x = malloc((size_t)SEQS * g.positions * a->ld * 4);
    for (size_t i = 0; i < (size_t)SEQS * g.positions * a->ld; i++) a->x[i] = 3.0f * rndf();
    rig_state(r, (ie_state_desc){.kv = {LAYERS, g.n_kv, g.hd}, .n_pages = SEQS * a->pages, .n_seq = SEQS, .max_t = 100,
                                 .pages_per_seq = a->pages, .rope_half = a->half, .rope = a->rope});
}

static void attn_close(attn_rig *a) {
    rig_close(&a->r);
    free(a->rope);
    free(a->qn);
    free(a->kn);
    free(a->x);
    free(a->table);
}

/* Runs n tokens given as (sequence, position); outputs go to out[seq][pos][n_head * hd] when out is given. */
static void attn_run(attn_rig *a, const int32_t *seq, const int32_t *pos, uint32_t n, float *out) {
    uint32_t row = a->g.n_head * a->g.hd;
    for (uint32_t t = 0; t < n; t++) {
        const float *x = a->x + ((size_t)seq[t] * a->g.positions + (uint32_t)pos[t]) * a->ld;
        assert_int_equal(a->r.be->api->write(a->r.be, a->r.st, (uint64_t)a->src * 256u + (uint64_t)t * a->ld * 4, x, a->ld * 4u, NULL), IE_OK);
    }
    run_ok(&a->r, &(ie_step){.n = n, .seq = seq, .pos = pos, .page_table = a->table, .rope_n = a->g.positions});
    for (uint32_t t = 0; t < n; t++) {
        const float *y = (const float *)at(&a->r, a->dst) + (size_t)t * row;
        if (a->r.l.ops[1].q8 != IE_NO_OFF) same_q8(&a->r, a->q8, t, row, n, y);
        if (out) memcpy(out + ((size_t)seq[t] * a->g.positions + (uint32_t)pos[t]) * row, y, row * 4u);
    }
}

/* All positions of one sequence in batches of up to `batch` tokens. */
static void attn_sequence(attn_rig *a, int32_t seq, uint32_t batch, float *out) {
    int32_t s[100], p[100];
    for (uint32_t at_ = 0; at_ < a->g.positions; at_ += batch) {
        uint32_t n = a->g.positions - at_ < batch ? a->g.positions - at_ : batch;
        for (uint32_t t = 0; t < n; t++) s[t] = seq, p[t] = (int32_t)(at_ + t);
        attn_run(a, s, p, n, out);
    }
}

/* The references for some positions of sequence 0. */
static void attn_check(const attn_rig *a, const float *out) {
    const geometry *g = &a->g;
    uint32_t hd = g->hd, row = g->n_head * hd, kv_at = 3 + row;
    uint16_t *k = malloc((size_t)g->positions * hd * 2), *v = malloc((size_t)g->positions * hd * 2);
    float *q = malloc(hd * 4u), *want = malloc(hd * 4u), scale = 1.0f / sqrtf((float)hd);
    double *d = malloc(hd * sizeof *d), *size = malloc(hd * sizeof *d);
    for (uint32_t head = 0; head < g->n_kv; head++) {
        for (uint32_t p = 0; p < g->positions; p++) {
            const float *x = a->x + (size_t)p * a->ld + kv_at + head * hd;
            memcpy(q, x, hd * 4u);
            if (a->kn) ref_norm(q, a->kn, hd, EPS, 32, q);
            ref_rope(q, a->rope + (size_t)p * a->half * 2, a->half, g->neox);
            for (uint32_t i = 0; i < hd; i++) {
                k[p * hd + i] = ie_f32_to_f16(q[i]);
                v[p * hd + i] = ie_f32_to_f16(x[g->n_kv * hd + i]);
            }
        }
        for (uint32_t p = 0; p < g->positions; p += p + 40 < g->positions ? 1 + rnd() % 37 : 1)
            for (uint32_t h = head * (g->n_head / g->n_kv); h < (head + 1) * (g->n_head / g->n_kv); h++) {
                memcpy(q, a->x + (size_t)p * a->ld + 3 + h * hd, hd * 4u);
                if (a->qn) ref_norm(q, a->qn, hd, EPS, 32, q);
                ref_rope(q, a->rope + (size_t)p * a->half * 2, a->half, g->neox);
                uint32_t lo = g->window && p + 1 > g->window ? p + 1 - g->window : 0;
                ref_kv kv = {k, v, hd};
                ref_attn(q, &kv, lo, p + 1, scale, want);
                const float *got = out + (size_t)p * row + h * hd;
                assert_memory_equal(got, want, hd * 4u);
                ref_attn_double(q, &kv, lo, p + 1, scale, d, size);
                /* a score of size S has an error of (hd / 8 + 4) S ulp, which enters the exponent; S <= |q| |k| scale < 60 here.
                 * Sums of up to 32 + 8 + 3 steps for o and l, each with a rescale; exp 2 ulp. */
                double tol = (2.0 * 60.0 * (hd / 8.0 + 4.0) + 64.0) * ULP;
                for (uint32_t i = 0; i < hd; i++) assert_true(fabs(got[i] - d[i]) <= tol * size[i]);
            }
    }
    free(k);
    free(v);
    free(q);
    free(want);
    free(d);
    free(size);
}

static const geometry geometries[] = {
    {9, 3, 64, 0, 64, false, false, 600}, /* SmolLM2; three partials */
    {4, 4, 40, 0, 40, true, false, 150},  /* no group; a head that ends inside a vector */
    {7, 1, 128, 0, 128, true, true, 100}, {4, 2, 80, 50, 32, false, false, 330}, {2, 1, 256, 300, 256, true, false, 560},
    {2, 1, 320, 0, 64, true, false, 70}, {6, 2, 12, 5, 6, true, true, 140},    {50, 1, 8, 0, 0, false, false, 70},
    {14, 2, 96, 33, 96, true, false, 100},
};

static void test_attention(void **state) {
    (void)state;
    static const uint32_t batches[] = {1, 2, 16, 17, 100};
    for (size_t k = 0; k < sizeof geometries / sizeof *geometries; k++) {
        const geometry g = geometries[k];
        size_t floats = (size_t)g.positions * g.n_head * g.hd;
        float *first = NULL, *out = calloc(floats, 4);
        for (int level = IE_LEVEL_COUNT - 1; level >= 0; level--) {
            if (skip_level((ie_level)level)) continue;
            for (size_t th = 0; th < 3; th++) {
                attn_rig a;
                attn_open(&a, (ie_level)level, thread_counts[th], g);
                for (size_t b = 0; b < 5; b++) {
                    if (level == IE_LEVEL_PORTABLE && (th + b) % 3) continue; /* slow: a third of the combinations */
                    if (th == 2 && batches[b] < 16 && k % 3) continue;       /* many tiny steps on too many threads */
                    memset(out, 0xEE, floats * 4);
                    attn_sequence(&a, 0, batches[b], out);
                    if (!first) {
                        attn_check(&a, out);
                        first = malloc(floats * 4);
                        memcpy(first, out, floats * 4);
                    }
                    assert_memory_equal(out, first, floats * 4);
                }
                attn_close(&a);
            }
        }
        free(first);
        free(out);
    }
}

/* Sequences of unequal lengths in one batch, some with several tokens (drafts): each as if alone. */
static void test_attention_batches(void **state) {
    (void)state;
    const geometry g = {6, 2, 64, 0, 64, true, false, 300};
    size_t floats = (size_t)SEQS * g.positions * g.n_head * g.hd;
    float *want = calloc(floats, 4), *out = calloc(floats, 4);
    for (int level = 1; level < IE_LEVEL_COUNT; level++) {
        if (skip_level((ie_level)level)) continue;
        for (size_t th = 0; th < 3; th++) {
            attn_rig a;
            attn_open(&a, (ie_level)level, thread_counts[th], g);
            memset(want, 0, floats * 4);
            memset(out, 0, floats * 4);
            for (int32_t s = 0; s < SEQS; s++) attn_sequence(&a, s, 100, want);
            uint32_t have[SEQS] = {0, 0, 0};
            for (uint32_t step = 0; have[0] < g.positions || have[1] < g.positions || have[2] < g.positions; step++) {
                int32_t seq[100], pos[100];
                uint32_t n = 0;
                for (uint32_t s = 0; s < SEQS; s++) {
                    uint32_t take = s == 0 ? 1 + step % 3 : s == 1 ? (step % 2 ? 0 : 12) : step % 7 == 3 ? 60 : 1;
                    for (uint32_t i = 0; i < take && have[s] < g.positions; i++) seq[n] = (int32_t)s, pos[n++] = (int32_t)have[s]++;
                }
                if (n) attn_run(&a, seq, pos, n, out);
            }
            assert_memory_equal(out, want, floats * 4);
            attn_close(&a);
        }
    }
    free(want);
    free(out);
}

static void test_page_copy(void **state) {
    (void)state;
    const geometry g = {4, 2, 32, 0, 32, true, false, 64};
    attn_rig a;
    attn_open(&a, IE_LEVEL_PORTABLE, 2, g);
    size_t row = (size_t)g.n_head * g.hd;
    float *out = calloc(SEQS * g.positions * row, 4);
    int32_t seq[40], pos[40];
    memcpy(a.x + (size_t)g.positions * a.ld, a.x, (size_t)g.positions * a.ld * 4); /* sequence 1 continues as 0 does */
    for (int32_t i = 0; i < 40; i++) seq[i] = 0, pos[i] = i;
    attn_run(&a, seq, pos, 40, out);
    for (uint32_t p = 0; p < 2; p++)
        assert_int_equal(a.r.be->api->page_copy(a.r.be, a.r.st, a.table[a.pages + p], a.table[p], NULL), IE_OK);
    attn_run(&a, (int32_t[]){0}, (int32_t[]){40}, 1, out);
    attn_run(&a, (int32_t[]){1}, (int32_t[]){40}, 1, out);
    assert_memory_equal(out + 40 * row, out + (g.positions + 40) * row, row * 4);
    ie_error err;
    assert_int_equal(a.r.be->api->page_copy(a.r.be, a.r.st, 0, SEQS * a.pages, &err), IE_E_ARG);
    free(out);
    attn_close(&a);
}

/* ---- arguments --------------------------------------------------------------------------------------------------------- */

static void refused(rig *r, const ie_step *s, const char *text) {
    ie_error err = {0};
    assert_int_equal(run(r, s, &err), IE_E_ARG);
    if (!strstr(err.msg, text)) fail_msg("'%s' does not mention '%s'", err.msg, text);
}

static void test_refused(void **state) {
    (void)state;
    attn_rig a;
    attn_open(&a, IE_LEVEL_PORTABLE, 2, (geometry){4, 2, 32, 0, 32, true, false, 64});
    int32_t seq[101] = {0}, pos[101] = {0}, token[101] = {0};
    ie_step s = {.n = 2, .seq = seq, .pos = pos, .token = token, .page_table = a.table, .rope_n = 64};
    pos[1] = 1;
    run_ok(&a.r, &s);
    s.n = 0, refused(&a.r, &s, "0 tokens, must be 1..100");
    s.n = 101, refused(&a.r, &s, "101 tokens");
    s.n = 2, pos[1] = 2, refused(&a.r, &s, "position 2 after 0");
    pos[0] = 63, pos[1] = 64, refused(&a.r, &s, "position 64, must be 0..63");
    pos[0] = -1, pos[1] = 0, refused(&a.r, &s, "position -1");
    pos[0] = 39, pos[1] = 40, s.rope_n = 40, refused(&a.r, &s, "RoPE rows reach 40");
    s.rope_n = 64, s.n = 3, pos[0] = pos[1] = 0, seq[1] = 1, pos[2] = 1, refused(&a.r, &s, "batch token 2: sequence 0 again");
    s.n = 2, pos[0] = 39, pos[1] = 40, seq[1] = 3, refused(&a.r, &s, "sequence 3, must be 0..2");
    seq[1] = -1, refused(&a.r, &s, "sequence -1");
    seq[1] = 0, a.table[1] = SEQS * a.pages, refused(&a.r, &s, "page 1 is number 6, the pool has 6");
    attn_close(&a);

    rows_rig b;
    rows_open(&b, IE_LEVEL_PORTABLE, 1, 64);
    uint32_t out[1] = {3};
    ie_step e = {.n = 3, .n_out = 1, .out = out, .token = token};
    refused(&b.r, &e, "output 0: batch token 3");
    out[0] = 2, token[1] = VOCAB, refused(&b.r, &e, "id 50, must be 0..49");
    token[1] = -1, refused(&b.r, &e, "id -1");
    token[1] = 49, run_ok(&b.r, &e);
    ie_error err = {0};
    char byte = 0;
    const ie_backend_api *api = b.r.be->api;
    assert_int_equal(api->run(b.r.be, b.r.st, &b.r.w, &b.r.l, 2, 99, &e, &err), IE_E_ARG);
    assert_int_equal(api->read(b.r.be, b.r.st, b.r.arena, &byte, 1, &err), IE_E_ARG);
    assert_int_equal(api->write(b.r.be, b.r.st, UINT64_MAX, &byte, 2, &err), IE_E_ARG);
    float none_[1] = {0};
    assert_int_equal(api->weights_vec(b.r.be, &(ie_vec){.n = 1, .off = b.r.w.bytes}, none_, &err), IE_E_ARG);
    assert_null(api->host_ptr(b.r.be, b.r.st, b.r.arena));
    ie_state *st = NULL;
    assert_int_equal(api->state_new(b.r.be, &(ie_state_desc){.max_t = 513, .n_seq = 1}, &st, &err), IE_E_ARG);
    assert_int_equal(api->state_new(b.r.be, &(ie_state_desc){.max_t = 1}, &st, &err), IE_E_ARG);
    ie_state_desc huge = {.max_t = 1, .n_seq = 1, .kv = {UINT32_MAX, UINT32_MAX, 128}, .n_pages = UINT32_MAX};
    assert_int_equal(api->state_new(b.r.be, &huge, &st, &err), IE_E_NOMEM);
    huge.kv.hd = 5000;
    assert_int_equal(api->state_new(b.r.be, &huge, &st, &err), IE_E_UNSUPPORTED);
    assert_null(st);
    rows_close(&b);

    assert_null(ie_backend_open("gpu9", NULL, &err));
    assert_int_equal(err.code, IE_E_ARG);
    assert_null(ie_backend_open("cpu", &(ie_backend_params){.threads = 5000}, &err));
    assert_int_equal(err.code, IE_E_ARG);
    setenv("IE_SIMD", "mmx", 1);
    assert_null(ie_backend_open("auto", NULL, &err));
    assert_non_null(strstr(err.msg, "IE_SIMD"));
    setenv("IE_SIMD", "", 1);
    setenv("IE_THREADS", "3x", 1);
    assert_null(ie_backend_open("auto", NULL, &err));
    assert_non_null(strstr(err.msg, "IE_THREADS=3x"));
    setenv("IE_THREADS", "3", 1);
    ie_backend *be = ie_backend_open(NULL, NULL, &err);
    assert_non_null(be);
    assert_non_null(strstr(be->api->describe(be), "3 threads"));
    be->api->destroy(be);
    unsetenv("IE_THREADS");
    unsetenv("IE_SIMD");
}

/* Operands of an op list that lie outside the arena or do not fit are refused before anything runs. */
static void test_refused_ops(void **state) {
    (void)state;
    attn_rig a;
    attn_open(&a, IE_LEVEL_PORTABLE, 1, (geometry){4, 2, 32, 0, 32, true, false, 64});
    ie_step s = {.n = 1, .seq = (int32_t[]){0}, .pos = (int32_t[]){0}, .page_table = a.table, .rope_n = 64};
    ie_op *op = a.r.l.ops, keep = op[1];
    op[1].dst = (ie_off)(a.r.arena / 256), refused(&a.r, &s, "outside the arena"), op[1] = keep;
    op[1].src = IE_NO_OFF, refused(&a.r, &s, "bad input"), op[1] = keep;
    op[1].hd = 33, refused(&a.r, &s, "heads differ"), op[1] = keep;
    op[1].n_head = 5, refused(&a.r, &s, "bad input or heads"), op[1] = keep;
    op[1].kv_layer = LAYERS, refused(&a.r, &s, "no such KV layer"), op[1] = keep;
    op[1].kind = OP_MATMUL, op[1].mat = 0, refused(&a.r, &s, "bad matrix"), op[1] = keep;
    op[1].kind = OP_RMSNORM, op[1].vec = 7, refused(&a.r, &s, "bad vector"), op[1] = keep;
    op[1].kind = OP_KINDS, refused(&a.r, &s, "no such kind"), op[1] = keep;
    op[0].rope_dim = 34, refused(&a.r, &s, "bad RoPE"), op[0].rope_dim = 32;
    run_ok(&a.r, &s);
    attn_close(&a);
}

static void test_table(void **state) {
    (void)state;
    rig r;
    rig_open(&r, IE_LEVEL_PORTABLE, 1);
    add_vec(&r, 128);
    add_mat(&r, IE_F_F16, 64, 128);
    ie_op op = none;
    op.mat = op.vec = 0, op.src = 0, op.dst = 100, op.src_ld = op.dst_ld = 256, op.n = 128, op.n_head = 4, op.n_kv = 2, op.hd = op.rope_dim = 32;
    for (int k = 0; k < OP_KINDS; k++) {
        op.kind = (ie_op_kind)k;
        assert_non_null(ie_op_table[k].name);
        assert_non_null(ie_op_table[k].operands);
        assert_non_null(ie_op_table[k].formula);
        ie_cost one = ie_op_table[k].cost(&op, &r.w, 1, 100), ten = ie_op_table[k].cost(&op, &r.w, 10, 100);
        assert_true(one.act_bytes > 0 && ten.act_bytes == 10 * one.act_bytes && ten.flops == 10 * one.flops);
        assert_true(k == OP_ROWS || one.flops > 0);
    }
    op.kind = OP_MATMUL;
    assert_int_equal(ie_op_table[OP_MATMUL].cost(&op, &r.w, 7, 1).weight_bytes, r.mat[0].bytes + 64 * 4);
    op.kind = OP_ATTN;
    assert_int_equal(ie_op_table[OP_ATTN].cost(&op, &r.w, 1, 100).kv_bytes, 100 * 2 * 32 * 2 * 2);
    /* rows of one buffer side by side do not meet; overlapping columns, or another pitch, do */
    ie_operand x = {1024, 400, 100, 5, true}, y = {1124, 400, 300, 5, true}, z = {1123, 400, 300, 5, true}, u = {1124, 300, 100, 5, true};
    assert_false(ie_operands_meet(&x, &y));
    assert_false(ie_operands_meet(&y, &x));
    assert_true(ie_operands_meet(&x, &z));
    assert_true(ie_operands_meet(&z, &x));
    assert_true(ie_operands_meet(&x, &u));
    u.begin = 1024 + 1700;
    assert_false(ie_operands_meet(&x, &u));
    rig_close(&r);
}
