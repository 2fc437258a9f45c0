/* IE_ACT=f32, a mode for debugging: matrices of any format times float activations, and attention over pages of floats. Plain
 * and slow; what it computes differs from the exact result by float32's rounding only. */
#include <math.h>
#include <string.h>

#include "cpu.h"

static bool by_floats(const cpu_run *r, const ie_op *op) {
    return op->kind == OP_MATMUL && !op->src_q8 && r->w->mat[op->mat].fmt->dot != IE_FLOAT;
}

/* A thread's scratch: a tile of 32 rows as an F32 matrix, and one row. */
static uint64_t tile_floats(uint32_t cols) { return ie_mat_bytes(&ie_formats[IE_F_F32], IE_TILE_ROWS, cols) / 4u; }

ie_status cpu_float_prepare(cpu_run *r, ie_error *err) {
    uint32_t cols = 0;
    for (uint32_t i = r->first; i < r->last; i++) {
        const ie_op *op = &r->list->ops[i];
        if (by_floats(r, op) && r->w->mat[op->mat].cols > cols) cols = r->w->mat[op->mat].cols;
    }
    r->st->float_cols = cols;
    uint64_t bytes = ie_pool_threads(r->cpu->pool) * (tile_floats(cols) + ie_nblk(cols) * IE_BLOCK) * 4u;
    if (!cols || bytes <= r->st->floats.bytes) return IE_OK;
    cpu_memory_put(&r->st->floats);
    return cpu_memory_get(&r->st->floats, bytes, "matrices as floats", err);
}

bool cpu_float_matmul(const cpu_run *r, const ie_op *op, uint32_t thread, const ie_mm_args *a, uint32_t row0, uint32_t row1) {
    if (!by_floats(r, op)) return false;
    uint64_t tile_n = tile_floats(r->st->float_cols), row_n = ie_nblk(r->st->float_cols) * IE_BLOCK;
    float *tile = (float *)r->st->floats.p + thread * (tile_n + row_n), *row = tile + tile_n;
    uint32_t cols = a->mat->cols;
    for (uint32_t i = row0; i < row1; i += IE_TILE_ROWS) {
        uint32_t n = row1 - i < IE_TILE_ROWS ? row1 - i : IE_TILE_ROWS;
        memset(tile, 0, tile_floats(cols) * sizeof *tile);
        for (uint32_t k = 0; k < n; k++) {
            ie_dequant_row(a->mat->fmt, cols, a->w, i + k, row);
            ie_repack_rows(&ie_formats[IE_F_F32], cols, (const uint8_t *)row, 1, k, (uint32_t *)(void *)tile);
        }
        ie_mat mat = {.fmt = &ie_formats[IE_F_F32], .rows = n, .cols = cols};
        ie_mm_args b = *a;
        b.mat = &mat, b.w = (const uint32_t *)(const void *)tile, b.y = a->y + i;
        if (b.bias) b.bias += i;
        if (b.res) b.res += i;
        r->cpu->mm->mm(&b, 0, n);
    }
    return true;
}

/* Part of a page for one KV head: K [hdp / 8][32][8], then V [32][hdp], as with f16. */
static float *kv_at(const cpu_run *r, const ie_op *op, uint32_t seq, uint32_t pos, uint32_t head) {
    const ie_state_desc *d = &r->st->d;
    uint32_t page = r->step->page_table[ie_table_at(seq, ie_page_of(pos), d->pages_per_seq)];
    return (float *)r->st->kv.p + ie_kv_part(page, (uint32_t)op->kv_layer, head, d->kv.n_layer, op->n_kv) * ie_kv_head_elems(&d->kv);
}

void cpu_float_store(const cpu_run *r, const ie_op *op, uint32_t t, uint32_t head, const float *k, const float *v) {
    uint32_t pos = (uint32_t)r->step->pos[t], slot = ie_slot_of(pos), hdp = ie_head_pad(op->hd);
    float *at = kv_at(r, op, (uint32_t)r->step->seq[t], pos, head);
    for (uint32_t d = 0; d < op->hd; d++) {
        at[ie_k_elem(slot, d)] = k[d];
        at[IE_PAGE * hdp + ie_v_elem(slot, d, hdp)] = v[d];
    }
}

/* Softmax attention of one query in double, in one pass over the positions. */
void cpu_float_attend(const cpu_run *r, const ie_op *op, uint32_t t, uint32_t head, const float *q, float *out) {
    uint32_t pos = (uint32_t)r->step->pos[t], hdp = ie_head_pad(op->hd), kv_head = head / (op->n_head / op->n_kv);
    double max = -INFINITY, sum = 0, o[IE_MAX_HD] = {0};
    for (uint32_t p = ie_att_first(pos, op->window); p <= pos; p++) {
        const float *k = kv_at(r, op, (uint32_t)r->step->seq[t], p, kv_head), *v = k + IE_PAGE * hdp;
        double s = 0;
        for (uint32_t d = 0; d < op->hd; d++) s += (double)q[d] * (double)k[ie_k_elem(ie_slot_of(p), d)];
        s *= (double)op->scale;
        double now = s > max ? s : max, old = exp(max - now), e = exp(s - now);
        max = now;
        sum = sum * old + e;
        for (uint32_t d = 0; d < op->hd; d++) o[d] = o[d] * old + e * (double)v[ie_v_elem(ie_slot_of(p), d, hdp)];
    }
    for (uint32_t d = 0; d < op->hd; d++) out[d] = (float)(o[d] / sum);
}
