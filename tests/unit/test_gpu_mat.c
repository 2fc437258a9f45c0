/* The GPU's matrix kernels and its layout of weights: every format, rows and columns with tails, 1 to 16 tokens, with and without bias
 * and residual: equal bits with the CPU backend; also with perturbed transcendental functions, and in the simulator's checking modes. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gpu_modes.h"
#include "ie_launch.h"
#include "gpu_rig.h"
#include "../../tools/rand_mat.h"

static gpu_dev dev;
static bool small; /* fewer cases: the checking modes are slow */

/* ---- weights ------------------------------------------------------------------------------------------------------------- */

static uint8_t *random_gguf(const ie_format *f, uint32_t rows, uint32_t cols, uint64_t *row_bytes) {
    *row_bytes = rand_row_bytes(f, cols);
    uint8_t *p = malloc((size_t)(rows * *row_bytes));
    rand_rows(f, rows, cols, &rig_seed, p);
    return p;
}

/* ---- layout ------------------------------------------------------------------------------------------------------------------ */

static uint64_t ones(const uint32_t *p, uint64_t words) {
    uint64_t n = 0;
    for (uint64_t i = 0; i < words; i++) n += (uint64_t)__builtin_popcount(p[i]);
    return n;
}

/* A permutation of bits: none is lost, and each bit moves on its own, to a place that no other has. */
static void layout_of(const ie_format *f, uint32_t cols) {
    uint64_t from = ie_mat_bytes(f, IE_TILE_ROWS, cols) / 4u, to = gpu_tile_bytes(f, cols) / 4u;
    uint32_t *src = malloc((size_t)from * 4u), *a = malloc((size_t)to * 4u), *b = malloc((size_t)to * 4u), *seen = calloc((size_t)to, 4u);
    assert_true(to >= from && gpu_mat_bytes(f, IE_TILE_ROWS, cols) % 256u == 0 && gpu_mat_bytes(f, 33, cols) >= 8u * to);
    for (uint64_t i = 0; i < from; i++) src[i] = rig_rnd();
    gpu_repack_tile(f, cols, src, a);
    assert_int_equal(ones(src, from), ones(a, to));
    for (int k = 0; k < 200; k++) {
        uint64_t i = rig_rnd() % from, n = 0, at = 0;
        uint32_t bit = 1u << rig_rnd() % 32u;
        src[i] ^= bit;
        gpu_repack_tile(f, cols, src, b);
        src[i] ^= bit;
        for (uint64_t w = 0; w < to; w++)
            if (a[w] != b[w]) n += (uint64_t)__builtin_popcount(a[w] ^ b[w]), at = w;
        if (n != 1) fail_msg("%s, %u columns: word %llu: a bit of it moves to %llu bits", f->name, cols, (unsigned long long)i, (unsigned long long)n);
        seen[at] |= a[at] ^ b[at];
    }
    assert_true(ones(seen, to) > 150 || from < 400); /* so it is not one place for many */
    free(src), free(a), free(b), free(seen);
}

static void layout(void **state) {
    (void)state;
    for (uint32_t i = 0; i < IE_F_COUNT; i++)
        for (uint32_t k = 1; k <= 27; k += k < 4 ? 1 : 5) layout_of(&ie_formats[i], k * ie_formats[i].blocks * IE_BLOCK);
}

/* ---- products ---------------------------------------------------------------------------------------------------------------- */

typedef struct {
    gpu_rig r;
    ie_off x, y;
    uint32_t cols, ld, rows;
} mat_rig;

static void mat_open(mat_rig *a, const ie_format *f, uint32_t rows, uint32_t cols, bool bias, bool res) {
    gpu_rig *r = &a->r;
    rig_open(r, &dev);
    rig_seed = 3 + rows + cols + f->id;
    a->cols = cols, a->rows = rows, a->ld = rows + 5;
    uint64_t row_bytes;
    uint8_t *gguf = random_gguf(f, rows, cols, &row_bytes);
    int32_t mat = rig_mat(r, f, rows, cols), vec = bias ? rig_vec(r, rows) : IE_NO_W;
    ie_off q8 = rig_q8(r, cols), row = rig_f32(r, (uint64_t)IE_DECODE_T * cols);
    a->x = rig_f32(r, (uint64_t)IE_DECODE_T * (cols + 3)), a->y = rig_f32(r, (uint64_t)IE_DECODE_T * a->ld);
    ie_op op = rig_op;
    op.kind = OP_QUANT, op.src = a->x, op.src_ld = cols + 3, op.src_at = 3, op.q8 = q8, op.n = cols;
    rig_add(r, op);
    op.kind = OP_MATMUL, op.mat = mat, op.vec = vec, op.q8 = IE_NO_OFF, op.src_q8 = f->dot != IE_FLOAT, op.dst = a->y, op.dst_ld = a->ld, op.dst_at = 2;
    if (op.src_q8) op.src = q8;
    if (res) op.res = a->y;
    rig_add(r, op);
    op = rig_op;
    op.kind = OP_EMBED, op.mat = mat, op.dst = row, op.dst_ld = op.n = cols, op.scale = res ? 1.5f : 1.0f;
    rig_add(r, op);
    rig_start(r, (ie_state_desc){0}, (float[]){0}, (float[]){1});
    rig_fill(r, mat, gguf, row_bytes);
    free(gguf);
}

static void mat_step(mat_rig *a, uint32_t t, const char *what) {
    float *x = rig_at(&a->r, a->x), *y = rig_at(&a->r, a->y);
    int32_t token[IE_DECODE_T];
    for (uint32_t i = 0; i < IE_DECODE_T * (a->cols + 3); i++) x[i] = rig_rndf() * (i % 101 == 0 ? 20.0f : 1.0f);
    for (uint32_t i = 0; i < IE_DECODE_T * a->ld; i++) y[i] = rig_rndf();
    for (uint32_t i = 0; i < t; i++) token[i] = (int32_t)(rig_rnd() % a->rows);
    assert_int_equal(rig_step(&a->r, &(ie_step){.n = t, .token = token}, what), IE_OK);
}

static void products_of(const ie_format *f, uint32_t rows, uint32_t cols, uint32_t every) {
    char what[80];
    for (int k = 0; k < (small ? 1 : 2); k++) {
        mat_rig a;
        mat_open(&a, f, rows, cols, k == 0, k == 0);
        for (uint32_t t = 1; t <= IE_DECODE_T; t += t == 1 ? 1 : every) {
            snprintf(what, sizeof what, "%s %u x %u, %u tokens", f->name, rows, cols, t);
            mat_step(&a, t, what);
        }
        rig_close(&a.r);
    }
}

/* Switches between kernels (src/gpu/launch_gemv.c): matrix instructions for few tokens, dot4 for many, a launch a token. */
static void choices_of(const ie_format *f, uint32_t rows, uint32_t cols) {
    static const struct {
        gpu_mat_choice c;
        uint32_t tokens[3];
    } cases[] = {{{2, false, false, false}, {2, 3, 4}}, {{17, false, false, false}, {5, 11, 16}}, {{5, true, false, false}, {2, 7, 16}}};
    char what[80];
    mat_rig a;
    mat_open(&a, f, rows, cols, true, true);
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (uint32_t k = 0; k < (small ? 1u : 3u); k++) {
            a.r.mat_choice = &cases[i].c;
            snprintf(what, sizeof what, "%s %u x %u, %u tokens, from %u%s", f->name, rows, cols, cases[i].tokens[k], cases[i].c.mma_min, cases[i].c.nobatch ? ", alone" : "");
            mat_step(&a, cases[i].tokens[k], what);
        }
    rig_close(&a.r);
}
static void choices(void **state) {
    (void)state;
    for (uint32_t i = 0; i < IE_F_COUNT; i++) choices_of(&ie_formats[i], 70, ie_formats[i].dot == IE_FLOAT ? 613u : ie_formats[i].blocks == 8u ? 768u : 608u);
}

/* Rows: less than a tile, tails, more tiles than a workgroup. Super-blocks of a row: one, some, segments of unequal length; for formats
 * of single blocks also last units of 1 to 7 blocks, for floats a last block that is not whole. */
static void products(void **state) {
    (void)state;
    for (uint32_t i = 0; i < IE_F_COUNT; i++) {
        const ie_format *f = &ie_formats[i];
        uint32_t more = f->dot == IE_FLOAT ? 5 : 0;
        products_of(f, 70, (f->blocks == 8 ? 2304 : 608) + more, 1);
        products_of(f, 1, 256, small ? 14 : 7);
        if (small) continue;
        products_of(f, 33, f->blocks == 8 ? 256 : 32 + more, 5);
        products_of(f, 300, f->blocks == 8 ? 5120 : 4384 - more, 7);
    }
}

/* Every number of waves a tile has (ie_tile_waves), by rows of so many segments, of one with a long and of one with a short last segment; workgroups of one tile and
 * of two, of which the last one has only one. */
static void waves(void **state) {
    (void)state;
    static const uint32_t formats[] = {IE_F_Q4_0, IE_F_Q4_K, IE_F_BF16};
    for (uint32_t i = 0; i < 3; i++)
        for (uint32_t n = 1; n <= IE_WG_WAVES; n++) {
            const ie_format *f = &ie_formats[formats[i]];
            uint32_t k = n * IE_GPU_UNIT * IE_BLOCK;
            if (small && n % 3u != i) continue;
            assert_int_equal(ie_tile_waves(ie_nblk(k), IE_WG_WAVES), n);
            products_of(f, 70, k, 5);
            if (f->blocks == 8u || small) continue;
            assert_int_equal(ie_tile_waves(ie_nblk(k - 4u * IE_BLOCK), IE_WG_WAVES), n);
            assert_int_equal(ie_tile_waves(ie_nblk(k + 3u * IE_BLOCK), IE_WG_WAVES), n);
            products_of(f, 40, k - 4u * IE_BLOCK, 7);
            products_of(f, 31, k + 3u * IE_BLOCK, 7);
        }
}

/* A token's product whose last tiles are shared by workgroups, where the card streams: with 5 units 4 workgroups have a tile each and share 2, two of them one; or 5 have one and four of
 * them share 1, which with more units is no more than theirs. Some times, since the marks beside sums have to go. */
static void shared_of(const ie_format *f, uint32_t rows, uint32_t cols) {
    const gpu_card *card = gpu_driver_card(dev.drv);
    char what[80];
    mat_rig a;
    mat_open(&a, f, rows, cols, true, true);
    for (uint32_t k = 0; k < 3; k++) {
        snprintf(what, sizeof what, "%s %u x %u, tiles shared", f->name, rows, cols);
        mat_step(&a, 1, what);
        if (card->copies && card->units == 5u) assert_non_null(strstr(a.r.kernel, "_s_shared"));
    }
    rig_close(&a.r);
}
static void shared(void **state) {
    (void)state;
    for (uint32_t i = 0; i < IE_F_COUNT; i++)
        if (ie_formats[i].dot != IE_FLOAT && (!small || i % 4u == 0)) shared_of(&ie_formats[i], 190, ie_formats[i].blocks == 8u ? 4096u : 4128u);
    if (!small) shared_of(&ie_formats[IE_F_Q6_K], 190, 8704);
}

/* ---- IE_NORM_FUSE ------------------------------------------------------------------------------------------------------------ */

enum { NORM_F32, NORM_BOTH, NORM_IN_PLACE, NORM_FORMS };

/* Q8 of x times a matrix, its row normalised: of one token by one launch, of two by two. Several times, since a count goes back to zero. */
static void norm_of(const ie_format *f, uint32_t rows, uint32_t cols, int form) {
    static const gpu_mat_choice fused = {5, false, true, true};
    char what[80];
    gpu_rig r;
    uint64_t row_bytes;
    rig_open(&r, &dev);
    rig_seed = 5 + rows + cols + f->id;
    uint8_t *gguf = random_gguf(f, rows, cols, &row_bytes);
    int32_t mat = rig_mat(&r, f, rows, cols), w = rig_vec(&r, rows);
    ie_off x = rig_f32(&r, 2u * cols), q8 = rig_q8(&r, cols), y = rig_f32(&r, 2u * (rows + 7u)), z = rig_f32(&r, 2u * rows), zq = rig_q8(&r, rows);
    ie_op op = rig_op;
    op.kind = OP_QUANT, op.src = x, op.src_ld = cols, op.q8 = q8, op.n = cols;
    rig_add(&r, op);
    op.kind = OP_MATMUL, op.mat = mat, op.q8 = IE_NO_OFF, op.src_q8 = f->dot != IE_FLOAT, op.src = op.src_q8 ? q8 : x, op.dst = y, op.dst_ld = rows + 7u, op.dst_at = 4;
    if (form != NORM_IN_PLACE) op.res = y;
    rig_add(&r, op);
    op = rig_op;
    op.kind = OP_RMSNORM, op.vec = w, op.src = y, op.src_ld = rows + 7u, op.src_at = 4, op.n = rows;
    if (form == NORM_IN_PLACE) op.dst = y, op.dst_ld = rows + 7u, op.dst_at = 4;
    else op.dst = z, op.dst_ld = rows;
    if (form == NORM_BOTH) op.q8 = zq;
    rig_add(&r, op);
    rig_start(&r, (ie_state_desc){0}, (float[]){1}, (float[]){0.5f});
    rig_fill(&r, mat, gguf, row_bytes);
    free(gguf);
    r.mat_choice = &fused;
    for (uint32_t t = 1; t <= 3; t++) {
        uint32_t n = t == 2 ? 2 : 1;
        for (uint32_t i = 0; i < n * cols; i++) rig_at(&r, x)[i] = rig_rndf();
        for (uint32_t i = 0; i < n * (rows + 7u); i++) rig_at(&r, y)[i] = rig_rndf();
        snprintf(what, sizeof what, "%s %u x %u, %u tokens, norm of form %d", f->name, rows, cols, n, form);
        assert_int_equal(rig_step(&r, &(ie_step){.n = n}, what), IE_OK);
        assert_int_equal(r.launches, gpu_driver_card(dev.drv)->last_group && n == 1 ? 2 : 3);
    }
    if (form == NORM_BOTH) { /* a result that is not finite is told of the norm */
        rig_at(&r, y)[4 + rows / 2u] = INFINITY;
        assert_int_equal(rig_step(&r, &(ie_step){.n = 1}, "infinity"), IE_E_NUMERIC);
    }
    rig_close(&r);
}

/* Every format; rows of less than a tile, tails, padded grids, more blocks than a workgroup takes at a time. */
static void norms(void **state) {
    (void)state;
    for (uint32_t i = 0; i < IE_F_COUNT; i++) norm_of(&ie_formats[i], 300, 256, small ? NORM_BOTH : (int)(i % NORM_FORMS));
    for (int form = 0; form < NORM_FORMS; form++) {
        norm_of(&ie_formats[IE_F_Q4_0], 1, 64, form);
        norm_of(&ie_formats[IE_F_Q4_K], small ? 1100 : 5120, 256, form);
        norm_of(&ie_formats[IE_F_Q6_K], small ? 31 : 8100, 512, form);
    }
}

/* ---- RMSNorm in the launch of a matrix that takes its result (kernels/gemv_stream.c) ------------------------------------------------ */

/* RMSNorm to Q8 (and floats), two matrices of it, the other of `rows2` rows: of one token by two launches where the card streams them; by one, `pair`, where it streams only the first
 * and has a kernel for both formats. */
static void row_of(const ie_format *f, uint32_t rows, uint32_t cols, bool floats, const ie_format *f2, uint32_t rows2, bool pair) {
    const gpu_card *card = gpu_driver_card(dev.drv);
    const bool streams = card->copies && cols >= 4096u && ie_ntiles(rows) * 4u >= card->units * 3u; /* launch_gemv.c */
    const bool streams2 = ie_ntiles(rows2) * 4u >= card->units * 3u;
    char what[112];
    gpu_rig r;
    uint64_t row_bytes, row_bytes2;
    rig_open(&r, &dev);
    rig_seed = 11 + rows + cols + f->id;
    uint8_t *gguf = random_gguf(f, rows, cols, &row_bytes), *gguf2 = random_gguf(f2, rows2, cols, &row_bytes2);
    int32_t mat = rig_mat(&r, f, rows, cols), mat2 = rig_mat(&r, f2, rows2, cols), w = rig_vec(&r, cols);
    ie_off x = rig_f32(&r, 2u * (cols + 4u)), q8 = rig_q8(&r, cols), z = rig_f32(&r, 2u * cols), y = rig_f32(&r, 2u * rows), y2 = rig_f32(&r, 2u * rows2);
    ie_op op = rig_op;
    op.kind = OP_RMSNORM, op.vec = w, op.src = x, op.src_ld = cols + 4u, op.src_at = 4, op.q8 = q8, op.n = cols;
    if (floats) op.dst = z, op.dst_ld = cols;
    rig_add(&r, op);
    op = rig_op;
    op.kind = OP_MATMUL, op.mat = mat, op.src_q8 = true, op.src = q8, op.dst = y, op.dst_ld = rows;
    rig_add(&r, op);
    op.mat = mat2, op.dst = y2, op.dst_ld = rows2, op.vec = pair ? rig_vec(&r, rows2) : IE_NO_W;
    rig_add(&r, op);
    rig_start(&r, (ie_state_desc){0}, (float[]){1, 1}, (float[]){0.5f, 0.5f});
    rig_fill(&r, mat, gguf, row_bytes), rig_fill(&r, mat2, gguf2, row_bytes2);
    free(gguf), free(gguf2);
    for (uint32_t t = 1; t <= (floats ? 2u : 3u); t++) { /* NaNs among floats have no bits of their own */
        uint32_t k = t == 2 ? 2 : 1;
        for (uint32_t i = 0; i < k * (cols + 4u); i++) rig_at(&r, x)[i] = rig_rndf();
        snprintf(what, sizeof what, "%s, norm before %u x %u and %u x %u %s, %u tokens", f->name, rows, cols, rows2, cols, f2->name, k);
        if (t == 3) rig_at(&r, x)[4u + cols / 2u] = INFINITY; /* told of the norm */
        assert_int_equal(rig_step(&r, &(ie_step){.n = k}, what), t == 3 ? IE_E_NUMERIC : IE_OK);
        if (card->copies) /* others may take both matrices by one */
            assert_int_equal(r.launches, streams && k == 1 ? (pair && !streams2 ? 1 : 2) : 3);
    }
    rig_close(&r);
}

/* One and several blocks of columns a lane, more squares than loads at once; as many tiles as a workgroup each, and more. */
static void norm_leads(void **state) {
    (void)state;
    static const int formats[] = {IE_F_Q4_0, IE_F_Q4_K, IE_F_Q6_K};
    for (uint32_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        const ie_format *f = &ie_formats[formats[i]];
        row_of(f, 130, f->blocks == 8 ? 4096 : 4128, i == 0, f, 130, false);
        if (small) continue;
        row_of(f, 320, 5376, i == 1, f, 320, false);
        if (i == 2) row_of(f, 224, 8704, true, f, 224, false);
    }
    /* each kernel of two formats, either one first; by many workgroups and by few, of which each matrix has one at least */
    static const int pairs[][2] = {{IE_F_Q4_K, IE_F_Q6_K}, {IE_F_Q5_K, IE_F_Q6_K}, {IE_F_Q4_K, IE_F_Q5_K}};
    for (uint32_t i = 0; i < sizeof pairs / sizeof *pairs && !small; i++)
        for (uint32_t k = 0; k < 2u; k++)
            row_of(&ie_formats[pairs[i][k]], k ? 320 : 130, 4096, k == 0, &ie_formats[pairs[i][1u - k]], k ? 70 : 33, true);
}

/* ---- IE_GEMV_MANY ------------------------------------------------------------------------------------------------------------ */

/* Matrices of formats `ids` times one row, each to its part of a row: of one token by launches of at most four, of two by a launch each. The one
 * at `other` reads a row that the one before it writes, so that it cannot be in its launch. */
static void many_of(const uint32_t *ids, uint32_t n, uint32_t cols, uint32_t other, uint32_t launches) {
    static const uint32_t heights[] = {96, 1024, 40, 31, 300, 64, 8200, 33}; /* 8200: four waves a tile */
    char what[80];
    gpu_rig r;
    rig_open(&r, &dev);
    rig_seed = 9 + n + cols + ids[0];
    uint8_t *gguf[8];
    uint64_t row_bytes[8];
    int32_t mat[8];
    uint32_t at = 3, wide = 3;
    for (uint32_t i = 0; i < n; i++) {
        mat[i] = rig_mat(&r, &ie_formats[ids[i]], heights[i], cols), wide += heights[i];
        gguf[i] = random_gguf(&ie_formats[ids[i]], heights[i], cols, &row_bytes[i]);
    }
    wide += cols; /* room for a row that is read again */
    ie_off x = rig_f32(&r, 2u * cols), q8 = rig_q8(&r, cols), y = rig_f32(&r, 2u * wide), y8 = rig_q8(&r, cols);
    ie_op op = rig_op;
    op.kind = OP_QUANT, op.src = x, op.src_ld = cols, op.q8 = q8, op.n = cols;
    rig_add(&r, op);
    if (other < n) op.q8 = y8, rig_add(&r, op);
    for (uint32_t i = 0; i < n; i++) {
        op = rig_op;
        op.kind = OP_MATMUL, op.mat = mat[i], op.src_q8 = ie_formats[ids[i]].dot != IE_FLOAT, op.src = op.src_q8 ? q8 : x, op.src_ld = cols;
        if (i == other) op.src_q8 = 0, op.src = y, op.src_ld = wide, op.src_at = 0;
        op.dst = y, op.dst_ld = wide, op.dst_at = at;
        if (i % 2u) op.vec = rig_vec(&r, heights[i]);
        at += heights[i];
        rig_add(&r, op);
    }
    rig_start(&r, (ie_state_desc){0}, (float[]){1, 1, 1, 1}, (float[]){0.5f, 0.5f, 0.5f, 0.5f});
    for (uint32_t i = 0; i < n; i++) rig_fill(&r, mat[i], gguf[i], row_bytes[i]), free(gguf[i]);
    for (uint32_t t = 1; t <= 2; t++) {
        for (uint32_t i = 0; i < t * cols; i++) rig_at(&r, x)[i] = rig_rndf();
        for (uint32_t i = 0; i < t * wide; i++) rig_at(&r, y)[i] = rig_rndf();
        snprintf(what, sizeof what, "%u matrices from %s on, %u columns, %u tokens", n, ie_formats[ids[0]].name, cols, t);
        assert_int_equal(rig_step(&r, &(ie_step){.n = t}, what), IE_OK);
        assert_int_equal(r.launches, 1u + (other < n) + (t == 1 && gpu_driver_card(dev.drv)->last_group ? launches : n));
    }
    rig_close(&r);
}

static void many(void **state) {
    (void)state;
    static const uint32_t mixed[] = {IE_F_Q5_K, IE_F_Q4_K, IE_F_F32, IE_F_Q6_K, IE_F_Q8_0, IE_F_BF16, IE_F_Q3_K, IE_F_IQ4_XS};
    for (uint32_t i = 0; i < IE_F_COUNT; i++) many_of((uint32_t[]){i, (i + 4u) % IE_F_COUNT, i}, 3, 256, 3, 1);
    many_of(mixed, 8, small ? 512 : 2560, 8, 2);
    many_of(mixed, 5, 768, 5, 2);
    many_of(mixed, small ? 4 : 8, 1536, 8, small ? 1 : 2);
    many_of(mixed, 3, 512, 2, 2); /* the F32 one reads what the others write */
}

/* Many rows: four waves a tile. */
static void many_rows(void **state) {
    (void)state;
    products_of(&ie_formats[IE_F_Q4_0], small ? 200 : 9000, 544, 14);
    products_of(&ie_formats[IE_F_Q6_K], small ? 200 : 8200, 512, 7);
}

/* ---- modes -------------------------------------------------------------------------------------------------------------------- */

static int run_all(void) {
    const struct CMUnitTest host[] = {cmocka_unit_test(layout)}, tests[] = {cmocka_unit_test(products), cmocka_unit_test(waves), cmocka_unit_test(shared), cmocka_unit_test(choices), cmocka_unit_test(norms), cmocka_unit_test(norm_leads), cmocka_unit_test(many), cmocka_unit_test(many_rows)};
    int failed = small ? 0 : cmocka_run_group_tests(host, NULL, NULL);
    const char *none = dev_open(&dev, "IE_HSACO", "/ie_kernels.hsaco", "/ie_kernels.ptx");
    if (none) {
        printf("skip: %s\n", none);
        return failed;
    }
    return failed | cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv) {
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return modes_all(run_all, &small);
}
