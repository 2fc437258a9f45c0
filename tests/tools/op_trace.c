/* op_trace MODEL OUT IDS [T]: evaluates token ids (separated by commas) of one sequence in batches of T (default: all at
 * once, at most 512), op by op, and writes each op's parameters and the raw bytes of its operands to OUT, for checks
 * against another implementation (tools/ref_forward.py reads it; so can a person who looks for the op that goes wrong).
 *
 * OUT is a sequence of records: one line of JSON, whose "parts" lists names and byte counts, then those bytes. First a
 * record of kind "model", then for each batch one of kind "step" and one for each op that ran. Parts of an op:
 *   src   operand before the op: f32 rows of src_ld floats, or Q8 blocks (core/ie_core.h, IE_Q8_*) of `rows` tokens
 *   res   the residual before the op, rows of dst_ld floats
 *   dst   f32 rows of dst_ld floats after the op;  q8: Q8 blocks after the op
 *   kv    the sequence's pages of the op's layer: for each page and KV head K [hdp / 8][32][8], V [32][hdp], f16 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/cpu.h"
#include "model/model.h"

typedef struct {
    FILE *out;
    ie_model *m;
    ie_state *st;
    ie_exec_plan plan;
    uint32_t *pages; /* the page table: page i is page i of the pool */
    uint32_t n_pages;
    ie_error err;
} trace;

typedef struct {
    const char *name;
    const void *data;
    uint64_t bytes;
    void *own; /* a copy made before the op ran */
} trace_part;

static const char *vec_name(const ie_model *m, int32_t i) { return i == IE_NO_W ? "" : m->w.vec[i].name; }
static uint32_t vec_n(const ie_model *m, int32_t i) { return i == IE_NO_W ? 0 : m->w.vec[i].n; }
static const uint8_t *arena(const trace *t, ie_off off) { return (const uint8_t *)t->st->arena.p + (uint64_t)off * 256u; }
static uint64_t q8_bytes(uint32_t rows, uint32_t k) { return (uint64_t)ie_q8_blocks(rows, ie_nblk(k)) * IE_Q8_WORDS * 4u; }

static trace_part kept(const char *name, const void *data, uint64_t bytes) {
    trace_part p = {name, NULL, bytes, malloc(bytes ? bytes : 1)};
    if (!p.own) {
        fprintf(stderr, "op_trace: no memory\n");
        exit(1);
    }
    memcpy(p.own, data, bytes);
    p.data = p.own;
    return p;
}

/* The layer's part of the sequence's first n pages. */
static trace_part kv_part(const trace *t, const ie_op *op, uint32_t n) {
    uint64_t layer = (uint64_t)t->m->kv.n_kv * ie_kv_head_elems(&t->m->kv) * 2u, page = ie_kv_page_bytes(&t->m->kv);
    trace_part p = {"kv", NULL, n * layer, malloc(n * layer + 1)};
    if (!p.own) {
        fprintf(stderr, "op_trace: no memory\n");
        exit(1);
    }
    for (uint32_t i = 0; i < n; i++)
        memcpy((uint8_t *)p.own + i * layer, (const uint8_t *)t->st->kv.p + i * page + (uint64_t)op->kv_layer * layer, layer);
    p.data = p.own;
    return p;
}

static void write_parts(trace *t, trace_part *p, uint32_t n) {
    fprintf(t->out, "\"parts\": [");
    for (uint32_t i = 0; i < n; i++) fprintf(t->out, "%s[\"%s\", %llu]", i ? ", " : "", p[i].name, (unsigned long long)p[i].bytes);
    fprintf(t->out, "]}\n");
    for (uint32_t i = 0; i < n; i++) {
        fwrite(p[i].data, 1, p[i].bytes, t->out);
        free(p[i].own);
    }
}

static void write_op(trace *t, uint32_t i, uint32_t rows, uint32_t out0, trace_part *p, uint32_t n) {
    const ie_op *op = &t->plan.list.ops[i];
    const ie_mat *mat = op->mat == IE_NO_W ? NULL : &t->m->w.mat[op->mat];
    fprintf(t->out, "{\"kind\": \"%s\", \"op\": %u, \"layer\": %d, \"rows\": %u, \"of_rows\": %d, \"out0\": %u, ",
            ie_op_table[op->kind].name, i, op->layer, rows, op->of_rows, out0);
    fprintf(t->out, "\"src_ld\": %u, \"src_at\": %u, \"src_q8\": %d, \"dst_ld\": %u, \"dst_at\": %u, \"n\": %u, ", op->src_ld, op->src_at,
            op->src_q8, op->dst_ld, op->dst_at, op->n);
    fprintf(t->out, "\"eps\": %.9g, \"scale\": %.9g, \"n_head\": %u, \"n_kv\": %u, \"hd\": %u, \"rope_dim\": %u, \"neox\": %d, ",
            (double)op->eps, (double)op->scale, op->n_head, op->n_kv, op->hd, op->rope_dim, op->rope_neox);
    fprintf(t->out, "\"window\": %u, \"mat\": \"%s\", \"mat_rows\": %u, \"mat_cols\": %u, \"format\": \"%s\", ", op->window,
            mat ? mat->name : "", mat ? mat->rows : 0, mat ? mat->cols : 0, mat ? mat->fmt->name : "");
    fprintf(t->out, "\"vec\": \"%s\", \"vec_n\": %u, \"vec2\": \"%s\", ", vec_name(t->m, op->vec), vec_n(t->m, op->vec),
            vec_name(t->m, op->vec2));
    write_parts(t, p, n);
}

/* Runs op i of a step and writes its record. */
static ie_status run_op(trace *t, uint32_t i, const ie_step *s, uint32_t out0) {
    const ie_op *op = &t->plan.list.ops[i];
    trace_part p[5];
    uint32_t n = 0, rows = op->of_rows ? s->n_out : s->n, src_rows = op->kind == OP_ROWS ? s->n : rows;
    uint32_t k = op->kind == OP_MATMUL ? t->m->w.mat[op->mat].cols : op->n, pages = ie_page_of((uint32_t)s->pos[s->n - 1]) + 1u;
    if (op->src != IE_NO_OFF)
        p[n++] = kept("src", arena(t, op->src), op->src_q8 ? q8_bytes(rows, k) : (uint64_t)src_rows * op->src_ld * 4u);
    if (op->res != IE_NO_OFF) p[n++] = kept("res", arena(t, op->res), (uint64_t)rows * op->dst_ld * 4u);
    ie_status st = t->m->be->api->run(t->m->be, t->st, &t->m->w, &t->plan.list, i, i + 1, s, &t->err);
    if (st) {
        while (n > 0) free(p[--n].own);
        return st;
    }
    if (op->dst != IE_NO_OFF) p[n++] = (trace_part){"dst", arena(t, op->dst), (uint64_t)rows * op->dst_ld * 4u, NULL};
    if (op->kind == OP_ATTN) k = op->n_head * op->hd;
    if (op->q8 != IE_NO_OFF) p[n++] = (trace_part){"q8", arena(t, op->q8), q8_bytes(rows, k), NULL};
    if (op->kind == OP_ROPE_KV || op->kind == OP_ATTN) p[n++] = kv_part(t, op, pages);
    write_op(t, i, rows, out0, p, n);
    return IE_OK;
}

static ie_status run_step(trace *t, const int32_t *ids, uint32_t from, uint32_t n) {
    int32_t seq[IE_MAX_T] = {0}, pos[IE_MAX_T];
    uint32_t out[IE_MAX_T];
    for (uint32_t i = 0; i < n; i++) pos[i] = (int32_t)(from + i), out[i] = i;
    ie_step s = {.phase = n <= IE_DECODE_T ? IE_DECODE : IE_PREFILL, .n = n, .token = ids + from, .seq = seq, .pos = pos,
                 .page_table = t->pages, .rope_n = t->n_pages * IE_PAGE};
    fprintf(t->out, "{\"kind\": \"step\", \"from\": %u, \"n\": %u, ", from, n);
    trace_part token = {"token", ids + from, n * sizeof *ids, NULL};
    write_parts(t, &token, 1);
    ie_status st = IE_OK;
    for (uint32_t i = 0; i < t->plan.head_at && !st; i++) st = run_op(t, i, &s, 0);
    for (uint32_t r = 0; r < n && !st; r += IE_HEAD_ROWS) {
        s.out = out + r;
        s.n_out = n - r < IE_HEAD_ROWS ? n - r : IE_HEAD_ROWS;
        for (uint32_t i = t->plan.head_at; i < t->plan.list.n && !st; i++) st = run_op(t, i, &s, r);
    }
    return st;
}

static ie_status start(trace *t, uint32_t n, uint32_t batch, float **rope) {
    ie_status st = ie_model_plan(t->m, batch, &t->plan, &t->err);
    if (st) return st;
    t->n_pages = (n + IE_PAGE - 1u) / IE_PAGE;
    t->pages = ie_calloc(t->n_pages, sizeof *t->pages, "page table", &t->err);
    *rope = ie_calloc((size_t)t->n_pages * IE_PAGE * t->m->hp.rope.dim, sizeof **rope, "rope table", &t->err);
    if (!t->pages || !*rope) return t->err.code;
    for (uint32_t i = 0; i < t->n_pages; i++) t->pages[i] = i;
    ie_rope_fill(&t->m->hp.rope, 0, t->n_pages * IE_PAGE, *rope);
    ie_state_desc d = {.arena_bytes = t->plan.arena_bytes, .kv = t->m->kv, .n_pages = t->n_pages, .n_seq = 1, .max_t = batch,
                       .pages_per_seq = t->n_pages, .rope_half = t->m->hp.rope.dim / 2, .rope = *rope};
    return t->m->be->api->state_new(t->m->be, &d, &t->st, &t->err);
}

static ie_status run_all(trace *t, const int32_t *ids, uint32_t n, uint32_t batch) {
    float *rope = NULL;
    ie_status st = start(t, n, batch, &rope);
    if (!st) {
        fprintf(t->out, "{\"kind\": \"model\", \"arch\": \"%s\", \"layers\": %u, \"vocab\": %u, ", t->m->arch->name, t->m->hp.n_layer,
                t->m->hp.n_vocab);
        write_parts(t, NULL, 0);
    }
    for (uint32_t i = 0; i < n && !st; i += batch) st = run_step(t, ids, i, n - i < batch ? n - i : batch);
    if (t->st) t->m->be->api->state_free(t->m->be, t->st);
    ie_exec_plan_free(&t->plan);
    free(t->pages);
    free(rope);
    return st;
}

/* Numbers up to 2^31 - 1 separated by commas; 0 of them when the text is anything else. */
static uint32_t parse(const char *s, int32_t *ids, uint32_t max) {
    uint32_t n = 0;
    for (char *end; n < max; s = end + 1) {
        errno = 0;
        long v = strtol(s, &end, 10);
        if (end == s || errno || v < 0 || v > INT32_MAX) return 0;
        ids[n++] = (int32_t)v;
        if (*end == 0) return n;
        if (*end != ',') return 0;
    }
    return 0;
}

int main(int argc, char **argv) {
    static int32_t ids[65536];
    uint32_t n = argc >= 4 ? parse(argv[3], ids, 65536) : 0;
    unsigned long batch = argc == 5 ? strtoul(argv[4], NULL, 10) : n < IE_MAX_T ? n : IE_MAX_T;
    if (argc < 4 || argc > 5 || n == 0 || batch < 1 || batch > IE_MAX_T) {
        fprintf(stderr, "usage: op_trace MODEL OUT IDS [T]   IDS: 1,2,3; T: 1 .. %u tokens a batch\n", IE_MAX_T);
        return 1;
    }
    trace t = {0};
    t.m = ie_model_open(argv[1], &(ie_model_params){.backend = "cpu"}, &t.err);
    ie_status st = t.m ? IE_OK : t.err.code;
    if (!st && !(t.out = fopen(argv[2], "wb"))) st = ie_fail(&t.err, IE_E_IO, "file '%s': %s", argv[2], strerror(errno));
    for (uint32_t i = 0; i < n && !st; i++)
        if ((uint32_t)ids[i] >= t.m->hp.n_vocab) st = ie_fail(&t.err, IE_E_ARG, "token %d: the vocabulary has %u", ids[i], t.m->hp.n_vocab);
    if (!st) st = run_all(&t, ids, n, (uint32_t)batch);
    if (t.out && fclose(t.out) && !st) st = ie_fail(&t.err, IE_E_IO, "file '%s': %s", argv[2], strerror(errno));
    if (st) fprintf(stderr, "op_trace: %s\n", t.err.msg);
    ie_model_close(t.m);
    return st != IE_OK;
}
