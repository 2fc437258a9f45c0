/* Attention: how a step's queries are shared out, the writing of KV pages, and a share's work. */
#include <string.h>

#include "cpu.h"

#define QUERIES 48u                /* queries of a block at least: their outputs and a page fit the first caches; */
#define QUERY_FLOATS 9216u         /* of small heads as many as have so many floats, since each block unpacks its pages */
#define PART_FLOATS (1u << 20)     /* partials that a thread may keep for a block: 4 MB */
#define ITEMS_PER_THREAD 4u

static uint64_t round16(uint64_t n) { return (n + 15u) / 16u * 16u; }

/* ---- sharing out --------------------------------------------------------------------------------------------------- */

/* Cuts the batch into blocks of up to `tokens` tokens of one sequence. */
static void cut(cpu_attn_plan *p, const ie_step *s, uint32_t tokens) {
    p->n_block = 0;
    p->tokens = 1;
    for (uint32_t t = 0; t < s->n;) {
        uint32_t n = 1;
        while (n < tokens && t + n < s->n && s->seq[t + n] == s->seq[t]) n++;
        p->block[p->n_block++] = (cpu_block){t, n};
        if (n > p->tokens) p->tokens = n;
        t += n;
    }
}

/* Words of counters at the start of the scratch: one for each (block, KV head) of a decode batch; zero between ops. */
static uint64_t counters(const cpu_run *r) { return round16((uint64_t)IE_DECODE_T * r->st->d.kv.n_kv); }

ie_status cpu_attn_prepare(cpu_run *r, ie_error *err) {
    cpu_attn_plan *p = &r->st->attn;
    const ie_step *s = r->step;
    uint32_t threads = ie_pool_threads(r->cpu->pool), group = 0, n_kv = r->st->d.kv.n_kv, hd = r->st->d.kv.hd, top = 0;
    for (uint32_t i = r->first; i < r->last; i++) {
        const ie_op *op = &r->list->ops[i];
        if (op->kind == OP_ATTN && op->n_head / op->n_kv > group) group = op->n_head / op->n_kv;
    }
    if (!group || r->st->d.kv.f32) return IE_OK;
    for (uint32_t t = 0; t < s->n; t++)
        if ((uint32_t)s->pos[t] > top) top = (uint32_t)s->pos[t];
    p->n_part = ie_part_of(top) + 1;
    uint32_t queries = QUERY_FLOATS / ie_attn_ld(hd) > QUERIES ? QUERY_FLOATS / ie_attn_ld(hd) : QUERIES, tokens = group < queries ? queries / group : 1;
    while (tokens > 1 && p->n_part * ie_attn_part_floats(tokens * group, hd) > PART_FLOATS) tokens /= 2;
    /* Few tokens: blocks stay whole (drafts of one sequence share its pages) and their partials are split instead. */
    bool few = s->n <= IE_DECODE_T;
    uint64_t most = few ? p->n_part : 1;
    while (tokens > 1 && (s->n + tokens - 1u) / tokens * (uint64_t)n_kv * most < 2u * threads) tokens /= 2;
    cut(p, s, tokens);
    // NOLINTNEXTLINE(clang-analyzer-core.DivideZero): a plan has heads and parts
    uint32_t items = p->n_block * n_kv, want = (ITEMS_PER_THREAD * threads + items - 1u) / items;
    p->n_split = !few || threads == 1 || !ie_share_ok(p->n_part, p->n_part) ? 1 : want < p->n_part ? want : p->n_part;
    p->max_nq = p->tokens * group;
    uint64_t part = p->n_part * ie_attn_part_floats(p->max_nq, hd);
    p->thread_floats = ie_attn_scratch_floats(p->max_nq, hd) + 2u * round16(p->max_nq) + (p->n_split == 1 ? part : 0);
    uint64_t shared = p->n_split == 1 ? 0 : items * part;
    uint64_t bytes = (counters(r) + threads * p->thread_floats + shared) * sizeof(float);
    if (bytes <= r->st->scratch.bytes) return IE_OK;
    cpu_memory_put(&r->st->scratch);
    return cpu_memory_get(&r->st->scratch, bytes + bytes / 2, "attention", err);
}

/* The blocks that the op works on: [*first, returned). */
static uint32_t blocks(const cpu_run *r, const ie_op *op, uint32_t *first) {
    const cpu_attn_plan *p = &r->st->attn;
    cpu_span span = cpu_op_span(r, op);
    uint32_t b0 = 0, b1 = p->n_block;
    while (b0 < b1 && p->block[b0].t0 + p->block[b0].n <= span.t0) b0++;
    while (b1 > b0 && p->block[b1 - 1u].t0 >= span.t0 + span.n) b1--;
    *first = b0;
    return b1;
}

uint32_t cpu_attn_pieces(const cpu_run *r, const ie_op *op) {
    if (r->st->d.kv.f32) return cpu_op_span(r, op).n * op->n_head;
    uint32_t b0, b1 = blocks(r, op, &b0);
    return (b1 - b0) * op->n_kv * r->st->attn.n_split;
}

static float *thread_scratch(const cpu_run *r, uint32_t thread) {
    return (float *)r->st->scratch.p + counters(r) + thread * r->st->attn.thread_floats;
}
/* Partials of a (block, KV head) that threads share. */
static float *shared_part(const cpu_run *r, uint32_t item) {
    const cpu_attn_plan *p = &r->st->attn;
    return thread_scratch(r, ie_pool_threads(r->cpu->pool)) + item * p->n_part * ie_attn_part_floats(p->max_nq, r->st->d.kv.hd);
}

/* ---- a share of the work ------------------------------------------------------------------------------------------- */

/* A query; its gate follows it where the op has gates. */
static float *query_at(const cpu_run *r, const ie_op *op, uint32_t t, uint32_t head) {
    return cpu_f32(r, op->src) + (uint64_t)t * op->src_ld + op->src_at + (uint64_t)head * op->hd * (op->gated ? 2u : 1u);
}

/* A query's result: times its gate, to the op's Q8 output. y is a place of the op's f32 output or any other. */
static void put(cpu_run *r, const ie_op *op, uint32_t t, uint32_t head, float *y) {
    if (op->gated) r->cpu->ops->gate(y, query_at(r, op, t, head) + op->hd, op->hd, y);
    if (op->q8 == IE_NO_OFF) return;
    uint32_t g = ie_q8_group(r->step->n), nblk = ie_nblk(op->n_head * op->hd);
    uint32_t *q = cpu_q8(r, op->q8) + (uint64_t)ie_q8_at(t, head * op->hd / IE_BLOCK, nblk, g) * IE_Q8_WORDS;
    if (!r->cpu->mm->q8(y, op->hd, q, g)) cpu_bad(r, op);
}

static float *output_at(const cpu_run *r, const ie_op *op, uint32_t t, uint32_t head, float *other) {
    if (op->dst == IE_NO_OFF) return other;
    return cpu_f32(r, op->dst) + (uint64_t)t * op->dst_ld + op->dst_at + head * op->hd;
}

/* Outputs of all queries of a block from its partials. */
static void join(cpu_run *r, const ie_op *op, const cpu_block *b, uint32_t head0, const ie_attn_block *a, uint32_t part0, float *part) {
    uint32_t group = op->n_head / op->n_kv;
    float out[IE_MAX_HD];
    for (uint32_t i = 0; i < a->nq; i++) {
        uint32_t t = b->t0 + i / group, head = head0 + i % group;
        uint32_t k0 = ie_part_of(a->lo[i]), k1 = ie_part_of(a->hi[i] - 1u) + 1u;
        float *y = output_at(r, op, t, head, out);
        r->cpu->ops->attn_join(part + (k0 - part0) * ie_attn_part_floats(a->nq, op->hd), k1 - k0, i, a->nq, op->hd, y);
        put(r, op, t, head, y);
    }
}

/* K of the first page that an item's first token sees; NULL without such an item. */
static const uint16_t *first_page(const cpu_run *r, const ie_op *op, uint32_t item) {
    const cpu_attn_plan *p = &r->st->attn;
    if (item >= p->n_block * op->n_kv) return NULL;
    uint32_t t = p->block[item / op->n_kv].t0, page = ie_page_of(ie_att_first((uint32_t)r->step->pos[t], op->window));
    uint32_t at = r->step->page_table[ie_table_at((uint32_t)r->step->seq[t], page, r->st->d.pages_per_seq)];
    uint32_t part = ie_kv_part(at, (uint32_t)op->kv_layer, item % op->n_kv, r->st->d.kv.n_layer, op->n_kv);
    return (const uint16_t *)r->st->kv.p + part * ie_kv_head_elems(&r->st->d.kv);
}

static void attn_item(cpu_run *r, const ie_op *op, uint32_t thread, uint32_t item, uint32_t split) {
    const cpu_attn_plan *p = &r->st->attn;
    const ie_step *s = r->step;
    const cpu_block *b = &p->block[item / op->n_kv];
    uint32_t kv_head = item % op->n_kv, group = op->n_head / op->n_kv, hd = op->hd, ld = ie_attn_ld(hd);
    float *scratch = thread_scratch(r, thread);
    uint32_t *lo = (uint32_t *)(void *)(scratch + ie_attn_scratch_floats(p->max_nq, hd)), *hi = lo + round16(p->max_nq);
    uint64_t head_elems = ie_kv_head_elems(&r->st->d.kv);
    ie_attn_block a = {
        .kv = (const uint16_t *)r->st->kv.p + ie_kv_part(0, (uint32_t)op->kv_layer, kv_head, r->st->d.kv.n_layer, op->n_kv) * head_elems,
        .page_stride = (uint64_t)r->st->d.kv.n_layer * op->n_kv * head_elems,
        .pages = s->page_table + ie_table_at((uint32_t)s->seq[b->t0], 0, r->st->d.pages_per_seq),
        .hd = hd, .nq = b->n * group, .lo = lo, .hi = hi, .scale = op->scale, .scratch = scratch,
        .after = p->n_split == 1 ? first_page(r, op, item + 1u) : NULL,
    };
    for (uint32_t i = 0; i < a.nq; i++) {
        uint32_t t = b->t0 + i / group, pos = (uint32_t)s->pos[t];
        lo[i] = ie_att_first(pos, op->window);
        hi[i] = pos + 1u;
        const float *q = query_at(r, op, t, kv_head * group + i % group);
        memcpy(scratch + (uint64_t)i * ld, q, hd * sizeof *q);
        memset(scratch + (uint64_t)i * ld + hd, 0, (ld - hd) * sizeof *q);
    }
    uint32_t first = ie_part_of(lo[0]), n = ie_part_of(hi[a.nq - 1u] - 1u) + 1u - first;
    uint64_t size = ie_attn_part_floats(a.nq, hd);
    a.part0 = first + ie_share(n, split, p->n_split);
    a.part1 = first + ie_share(n, split + 1u, p->n_split);
    float *part = p->n_split == 1 ? (float *)(void *)(hi + round16(p->max_nq)) : shared_part(r, item);
    a.part = part + (a.part0 - first) * size;
    r->cpu->ops->attn(&a);
    if (p->n_split > 1) {
        _Atomic uint32_t *count = (_Atomic uint32_t *)r->st->scratch.p + item;
        if (atomic_fetch_add_explicit(count, 1, memory_order_acq_rel) + 1u < p->n_split) return;
        atomic_store_explicit(count, 0, memory_order_relaxed);
    }
    join(r, op, b, kv_head * group, &a, first, part);
}

void cpu_attn_work(cpu_run *r, const ie_op *op, uint32_t thread, uint32_t i0, uint32_t i1) {
    for (uint32_t i = i0; i < i1 && r->st->d.kv.f32; i++) {
        uint32_t t = cpu_op_span(r, op).t0 + i / op->n_head, head = i % op->n_head;
        float out[IE_MAX_HD], *y = output_at(r, op, t, head, out);
        cpu_float_attend(r, op, t, head, query_at(r, op, t, head), y);
        put(r, op, t, head, y);
    }
    if (r->st->d.kv.f32) return;
    uint32_t b0;
    blocks(r, op, &b0);
    for (uint32_t i = i0; i < i1; i++) attn_item(r, op, thread, b0 * op->n_kv + i / r->st->attn.n_split, i % r->st->attn.n_split);
}

/* ---- RoPE and KV pages --------------------------------------------------------------------------------------------- */

/* K or V of a KV head at its place: K as 8 elements in every row of 32 positions, V as one row. */
static void store_kv(const cpu_run *r, const float *x, uint32_t hd, uint16_t *head, uint32_t slot, bool is_v) {
    uint32_t hdp = ie_head_pad(hd);
    uint16_t h[IE_MAX_HD];
    r->cpu->ops->to_f16(x, hd, h);
    memset(h + hd, 0, (hdp - hd) * sizeof *h);
    if (is_v) {
        memcpy(head + (uint64_t)IE_PAGE * hdp + ie_v_elem(slot, 0, hdp), h, hdp * sizeof *h);
    } else {
        for (uint32_t d = 0; d < hdp; d += 8u) memcpy(head + ie_k_elem(slot, d), h + d, 8u * sizeof *h);
    }
}

void cpu_rope_work(cpu_run *r, const ie_op *op, uint32_t i0, uint32_t i1) {
    const ie_step *s = r->step;
    const ie_ops_table *ops = r->cpu->ops;
    uint32_t heads = op->n_head + op->n_kv, half = op->rope_dim / 2u, hd = op->hd;
    for (uint32_t i = i0; i < i1; i++) {
        uint32_t t = i / heads, head = i % heads, pos = (uint32_t)s->pos[t];
        float *kv = query_at(r, op, t, op->n_head), *x = head < op->n_head ? query_at(r, op, t, head) : kv + (uint64_t)(head - op->n_head) * hd;
        const float *cs = half ? r->st->d.rope + (uint64_t)pos * half * 2u : NULL;
        if (head < op->n_head) {
            if (op->vec != IE_NO_W) ops->head_norm(x, cpu_vec(r, op->vec), hd, op->eps);
            if (half) ops->rope(x, cs, half, op->rope_neox);
            continue;
        }
        float k[IE_MAX_HD];
        memcpy(k, x, hd * sizeof *k);
        if (op->vec2 != IE_NO_W) ops->head_norm(k, cpu_vec(r, op->vec2), hd, op->eps);
        if (half) ops->rope(k, cs, half, op->rope_neox);
        uint32_t kv_head = head - op->n_head;
        if (r->st->d.kv.f32) {
            cpu_float_store(r, op, t, kv_head, k, x + (uint64_t)op->n_kv * hd);
            continue;
        }
        uint32_t page = s->page_table[ie_table_at((uint32_t)s->seq[t], ie_page_of(pos), r->st->d.pages_per_seq)];
        uint32_t part = ie_kv_part(page, (uint32_t)op->kv_layer, kv_head, r->st->d.kv.n_layer, op->n_kv);
        uint16_t *to = (uint16_t *)r->st->kv.p + part * ie_kv_head_elems(&r->st->d.kv);
        store_kv(r, k, hd, to, ie_slot_of(pos), false);
        store_kv(r, x + (uint64_t)op->n_kv * hd, hd, to, ie_slot_of(pos), true);
    }
}
