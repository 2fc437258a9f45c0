/* RoPE with the writing of KV pages, and attention, in the order of docs/NUMERICS.md. Attention of one or few tokens: attn_split.c, which builds on this file.
 *
 *   ie_rope_kv      norm of q and k heads, RoPE, q in place, k and v to the pages as f16
 *   ie_attn_kv_*    workgroup = (KV head, spw partials, up to 8 (query head, token) pairs that share K and V through LDS), for
 *                   heads of up to 64, 128, 256
 *   ie_attn         workgroup = (query head, token): all partials one after the other, any head size; reads K twice
 *   ie_attn_diff    the largest relative difference of two results (IE_ATTN=check)
 *
 * Operands: f32 rows of queries (each followed by its gate where the op has gates); pages K [hdp / 8][32][8], V [32][hdp] f16;
 *   partials [token][head][k]: output, maximum, sum in f32; results f32 and / or Q8. Who finishes a query's last partial (a
 *   counter a query) joins them in ascending order. All kernels give the same bits.
 * Launch: rope_kv 32 lanes, x = head (queries, then KV heads), y = token; kv 256 lanes, x = KV head, y = group of 8 pairs, z = share of partials; attn 256 lanes,
 *   x = head, y = token. Partials are counted from the first that a query sees; surplus workgroups leave at once, so a grid serves until a sequence outgrows it.
 * Bytes moved: kv 128 hdp bytes a page, once for its pairs; 4 (hdp + 2) bytes a partial, written and read.
 * LDS: rope_kv 4 KB; kv 128 hdp bytes; attn 1.1 KB. Registers: budgets.txt. */
#include "q8.h"

/* ---- RoPE and KV pages ----------------------------------------------------------------------------------------------- */

/* Head i of the pages' part of a sequence's page. */
IE_INLINE IE_GLOBAL uint16_t *page_at(const ie_abi_pages *p, uint32_t seq, uint32_t page, uint32_t head, uint32_t hdp) {
    uint32_t number = p->table[ie_table_at(seq, page, p->per_seq)];
    return p->kv + number * p->page_stride + (uint64_t)head * hdp * 2u * IE_PAGE;
}

/* x in LDS: element i in lane i mod 32. */
IE_INLINE void head_norm(IE_LDS float *x, IE_GLOBAL const float *w, uint32_t hd, float eps) {
    float p = 0.0f;
    for (uint32_t i = ie_lane(); i < hd; i += 32u) p = ie_fma(x[i], x[i], p);
    float mean = ie_wave_tree(p) / (float)hd;
    float r = ie_div(1.0f, ie_sqrt(mean + eps));
    for (uint32_t i = ie_lane(); i < hd; i += 32u) x[i] = x[i] * r * w[i];
}

/* One pair of values. */
IE_INLINE void pair(IE_LDS float *x, uint32_t i, float c, float s, uint32_t half, uint32_t neox) {
    uint32_t i0 = neox ? i : 2u * i, i1 = neox ? i + half : 2u * i + 1u;
    float x0 = x[i0], x1 = x[i1];
    x[i0] = ie_fma(x0, c, -(x1 * s));
    x[i1] = ie_fma(x0, s, x1 * c);
}

/* cs: the lane's first pairs (c, s) of the table at `table`. */
#define ROPE_PRE 4u
IE_INLINE void rotate(IE_LDS float *x, IE_GLOBAL const float *table, const float *cs, uint32_t half, uint32_t neox) {
#pragma unroll
    for (uint32_t k = 0u; k < ROPE_PRE; k++) {
        uint32_t i = ie_lane() + 32u * k;
        if (i < half) pair(x, i, cs[2u * k], cs[2u * k + 1u], half, neox);
    }
    for (uint32_t i = ie_lane() + 32u * ROPE_PRE; i < half; i += 32u) pair(x, i, table[2u * i], table[2u * i + 1u], half, neox);
}

IE_KERNEL(32) ie_rope_kv(ie_abi_rope a) {
    static IE_LDS_VAR float x[1024 + 8];
    uint32_t head = ie_wg_x(), t = ie_wg_y(), hd = a.hd, hdp = ie_head_pad(hd), lane = ie_lane(), pos = a.batch->pos[t];
    bool is_kv = head >= a.n_head;
    uint64_t k_at = (uint64_t)a.n_head * a.q_stride + (uint64_t)(head - a.n_head) * hd;
    IE_GLOBAL float *row = a.x + (uint64_t)t * a.x_ld, *from = row + (is_kv ? k_at : (uint64_t)head * a.q_stride), *v_from = from + (uint64_t)a.n_kv * hd;
    IE_GLOBAL const float *norm = is_kv ? a.k_norm : a.q_norm, *table = a.rope + (uint64_t)pos * a.half * 2u;
    float cs[2u * ROPE_PRE];
    ie_dep_go();
#pragma unroll
    for (uint32_t k = 0u; k < ROPE_PRE; k++) {
        uint32_t i = lane + 32u * k;
        cs[2u * k] = i < a.half ? table[2u * i] : 0.0f, cs[2u * k + 1u] = i < a.half ? table[2u * i + 1u] : 0.0f;
    }
    ie_dep_wait();
    if (t >= a.batch->n) return;
    IE_GLOBAL uint16_t *k = is_kv ? page_at(&a.pages, a.batch->seq[t], ie_page_of(pos), head - a.n_head, hdp) : 0, *v = k + hdp * IE_PAGE;
    uint32_t slot = ie_slot_of(pos);
    for (uint32_t i0 = 0u; i0 < hdp; i0 += 256u) { /* loads first; two values a lane of V */
        float e[8], w[8];
#pragma unroll
        for (uint32_t j = 0u; j < 8u; j++) {
            uint32_t i = i0 + lane + 32u * j, d = i0 + 64u * (j / 2u) + 2u * lane + j % 2u;
            e[j] = i < hd ? from[i] : 0.0f;
            w[j] = is_kv && d < hd ? v_from[d] : 0.0f;
        }
#pragma unroll
        for (uint32_t j = 0u; j < 8u; j++)
            if (i0 + lane + 32u * j < hdp) x[i0 + lane + 32u * j] = e[j];
        if (!is_kv) continue;
#pragma unroll
        for (uint32_t j = 0u; j < 4u; j++) {
            uint32_t d = i0 + 64u * j + 2u * lane;
            if (d < hdp) *(IE_GLOBAL uint32_t *)(v + ie_v_elem(slot, d, hdp)) = ie_f16_put2(w[2u * j], w[2u * j + 1u]);
        }
    }
    if (norm) head_norm(x, norm, hd, a.eps);
    ie_barrier();
    rotate(x, table, cs, a.half, a.neox);
    ie_barrier();
    if (!is_kv) {
        if (norm || a.half)
            for (uint32_t i = lane; i < hd; i += 32u) from[i] = x[i];
        return;
    }
    for (uint32_t d = 2u * lane; d < hdp; d += 64u) *(IE_GLOBAL uint32_t *)(k + ie_k_elem(slot, d)) = ie_f16_put2(x[d], x[d + 1u]);
}

/* ---- parts that the attention kernels share ---------------------------------------------------------------------------- */

/* What a query sees: positions [lo, hi), and by that partials [view_k0, view_k1). */
typedef struct {
    uint32_t lo, hi;
} view;
IE_INLINE uint32_t view_k0(view v) { return ie_part_of(v.lo); }
IE_INLINE uint32_t view_k1(view v) { return ie_part_of(v.hi - 1u) + 1u; }

IE_INLINE view view_of(const ie_abi_attn *a, uint32_t t) {
    uint32_t pos = ie_uniform(a->out.batch->pos[t]), lo = ie_att_first(pos, a->window);
    return (view){lo, pos + 1u};
}
/* Slots of a page that it sees: [lo, hi); none when lo >= hi. */
IE_INLINE uint32_t slot_lo(view v, uint32_t page) { return ie_slot_lo(page, v.lo); }
IE_INLINE uint32_t slot_hi(view v, uint32_t page) { return ie_slot_hi(page, v.hi - 1u); }

IE_INLINE IE_GLOBAL const float *query_at(const ie_abi_attn *a, uint32_t t, uint32_t head) {
    return a->q + (uint64_t)t * a->q_ld + (uint64_t)head * a->q_stride;
}
IE_INLINE IE_GLOBAL float *part_at(const ie_abi_attn *a, uint32_t t, uint32_t head, uint32_t k) {
    return a->part + ((uint64_t)((t - a->t0) * a->n_head + head) * a->parts + k) * ie_attn_part_size(a->hd);
}

/* Adds 8 dimensions to the lane's 8 partial sums. */
#define DOT8(acc, q, k)                                                                                                      \
    do {                                                                                                                     \
        acc[0] = ie_fma(q[0], ie_f16_lo(k.x), acc[0]), acc[1] = ie_fma(q[1], ie_f16_hi(k.x), acc[1]);                        \
        acc[2] = ie_fma(q[2], ie_f16_lo(k.y), acc[2]), acc[3] = ie_fma(q[3], ie_f16_hi(k.y), acc[3]);                        \
        acc[4] = ie_fma(q[4], ie_f16_lo(k.z), acc[4]), acc[5] = ie_fma(q[5], ie_f16_hi(k.z), acc[5]);                        \
        acc[6] = ie_fma(q[6], ie_f16_lo(k.w), acc[6]), acc[7] = ie_fma(q[7], ie_f16_hi(k.w), acc[7]);                        \
    } while (0)

/* Score of a query against the lane's position; K(c) is the 16 bytes of its dimensions 8c .. 8c + 7. The query is the same for
 * all lanes of the wave: scalar loads. */
#define SCORE(result, query, head_dim, K, UNROLL)                                                                                 \
    do {                                                                                                                     \
        float acc_[8] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f}, q_[8];                                             \
        uint32_t c_ = 0u;                                                                                                    \
        _Pragma(UNROLL) for (; (c_ + 1u) * 8u <= (head_dim); c_++) {                                                     \
            ie_u4 k_ = K(c_);                                                                                                \
            for (uint32_t j_ = 0u; j_ < 8u; j_++) q_[j_] = (query)[c_ * 8u + j_];                                            \
            DOT8(acc_, q_, k_);                                                                                              \
        }                                                                                                                    \
        if (c_ * 8u < (head_dim)) { /* padded with zeros */                                                                  \
            ie_u4 k_ = K(c_);                                                                                                \
            for (uint32_t j_ = 0u; j_ < 8u; j_++) q_[j_] = c_ * 8u + j_ < (head_dim) ? (query)[c_ * 8u + j_] : 0.0f;         \
            DOT8(acc_, q_, k_);                                                                                              \
        }                                                                                                                    \
        result = IE_TREE8(acc_);                                                                                           \
    } while (0)

/* Writes 32 dimensions of a query's result, slice s, from their sum and the sum of weights; d = 32 s + lane. */
IE_INLINE void put_slice(const ie_abi_attn *a, uint32_t t, uint32_t head, uint32_t s, float o, float inv) {
    const uint32_t hd = a->hd, d = s * 32u + ie_lane();
    float y = o * inv;
    if (a->gated) y = y * ie_sigmoid(d < hd ? query_at(a, t, head)[hd + d] : 0.0f);
    if (a->out.y && d < hd) a->out.y[(uint64_t)t * a->out.y_ld + head * hd + d] = y;
    if (!a->out.q8) return; /* heads are whole blocks then */
    if (ie_q8_put(ie_out_block(&a->out, t, head * hd / IE_BLOCK + s), y) && ie_lane() == 0u) ie_atomic_max(&a->out.batch->bad, a->out.bad);
}

/* Partials i .. i + LOADS - 1 (the last one again where there are no more than n): dimensions of slices s0 .. s0 + NS - 1. */
IE_INLINE void join_load(IE_GLOBAL const float *part, uint32_t size, uint32_t hdp, uint32_t i, uint32_t n, uint32_t s0, const uint32_t NS, const uint32_t LOADS,
                         float *x) {
#pragma unroll
    for (uint32_t j = 0u; j < LOADS; j++) {
        IE_GLOBAL const float *from = part + (i + j < n ? i + j : n - 1u) * size;
#pragma unroll
        for (uint32_t s = 0u; s < NS; s++) {
            uint32_t d = (s0 + s) * 32u + ie_lane();
            x[j * NS + s] = from[d < hdp ? d : 0u];
        }
    }
}

/* Joins n partials of a query for slices [s0, s0 + NS), and writes them. LOADS partials, of which 32 are a multiple, are under way at once. */
IE_INLINE void join(const ie_abi_attn *a, uint32_t t, uint32_t head, uint32_t n, uint32_t s0, const uint32_t NS, const uint32_t LOADS) {
    const uint32_t lane = ie_lane(), hd = a->hd, size = ie_attn_part_size(hd), hdp = ie_head_pad(hd);
    IE_GLOBAL const float *part = part_at(a, t, head, 0u);
    float m0 = lane < n ? part[lane * size + hdp] : -__builtin_inff(), l0 = lane < n ? part[lane * size + hdp + 1u] : 0.0f;
    float top = m0, sum = 0.0f, o[8] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f}, x[64];
    join_load(part, size, hdp, 0u, n, s0, NS, LOADS, x);
    for (uint32_t k = lane + 32u; k < n; k += 32u) {
        float m = part[k * size + hdp];
        top = m > top ? m : top;
    }
    top = ie_wave_max(top);
    for (uint32_t k0 = 0u; k0 < n; k0 += 32u) { /* weights of 32 partials at once */
        uint32_t k = k0 + lane < n ? k0 + lane : n - 1u, left = n - k0 < 32u ? n - k0 : 32u;
        float w = ie_exp((k0 ? part[k * size + hdp] : m0) - top), l = k0 ? part[k * size + hdp + 1u] : l0;
        for (uint32_t i = 0u; i < left; i += LOADS) {
            if (k0 + i) join_load(part, size, hdp, k0 + i, n, s0, NS, LOADS, x);
#pragma unroll
            for (uint32_t j = 0u; j < LOADS; j++) {
                if (i + j >= left) break;
                float wi = ie_readlanef(w, i + j);
                sum = ie_fma(ie_readlanef(l, i + j), wi, sum);
#pragma unroll
                for (uint32_t s = 0u; s < NS; s++) o[s] = ie_fma(x[j * NS + s], wi, o[s]);
            }
        }
    }
    float inv = ie_div(1.0f, sum);
#pragma unroll
    for (uint32_t s = 0u; s < NS; s++)
        if ((s0 + s) * 32u < hd) put_slice(a, t, head, s0 + s, o[s], inv);
}

/* ---- a partial by a workgroup: a wave a page, then a lane a dimension ---------------------------------------------------- */

/* A partial's softmax in LDS: e of each position, and for each page its maximum, the factor of what came before, and the sum. */
typedef struct {
    float e[IE_FOLD_PAGES][IE_PAGE] __attribute__((aligned(16)));
    float top[IE_FOLD_PAGES], c[IE_FOLD_PAGES], sum[IE_FOLD_PAGES];
    float all; /* the partial's maximum */
} soft;

/* Scores and page maxima of partial k: s of the lane's position on page 8 k + wave; its page's slots [*lo, *hi). */
IE_INLINE float part_scores(const ie_abi_attn *a, view v, uint32_t t, uint32_t head, uint32_t k, IE_LDS soft *f, uint32_t *lo,
                            uint32_t *hi) {
    uint32_t page = ie_part_page(k) + ie_wave(), lane = ie_lane();
    float s = -__builtin_inff();
    *lo = slot_lo(v, page), *hi = slot_hi(v, page);
    if (*lo < *hi) {
        IE_GLOBAL const uint16_t *kp = page_at(&a->pages, a->out.batch->seq[t], page, ie_div_inv(head, a->group_inv), ie_head_pad(a->hd));
        IE_SCALAR const float *q = ie_scalar(query_at(a, t, head));
        float x;
#define K_AT(c) ie_load16(kp + ((c) * IE_PAGE + lane) * 8u)
        SCORE(x, q, a->hd, K_AT, "unroll 4");
#undef K_AT
        s = lane >= *lo && lane < *hi ? x * a->scale : s;
    }
    float top = ie_wave_max(s);
    if (lane == 0u) f->top[ie_wave()] = top;
    return s;
}

/* After a barrier: maxima over the pages before wave w's, up to and with it, and over all. */
typedef struct {
    float before, upto, all;
} tops;
IE_INLINE tops tops_of(const IE_LDS soft *f, uint32_t w) {
    const float none = -__builtin_inff();
    tops t = {none, none, none};
#pragma unroll
    for (uint32_t p = 0u; p < IE_FOLD_PAGES; p++) { /* pages not seen have -infinity */
        float x = f->top[p];
        t.before = p < w ? (t.before > x ? t.before : x) : t.before;
        t.upto = p <= w ? (t.upto > x ? t.upto : x) : t.upto;
        t.all = t.all > x ? t.all : x;
    }
    return t;
}

/* After a barrier: exponentials, factors and sums to LDS. Returns the partial's maximum. */
IE_INLINE float part_soft(IE_LDS soft *f, float s, bool seen) {
    uint32_t w = ie_wave();
    const tops t = tops_of(f, w);
    float c = 1.0f, sum = 0.0f; /* of pages not seen: never used */
    if (seen) {
        float e = ie_exp(s - t.upto);
        f->e[w][ie_lane()] = e;
        c = ie_exp(t.before - t.upto), sum = ie_wave_tree(e);
    }
    if (ie_lane() == 0u) f->c[w] = c, f->sum[w] = sum;
    return t.all;
}

/* After another barrier: the sum, and N dimensions d .. of the output from V rows at v (page by page). */
IE_INLINE float part_sum(const IE_LDS soft *f, view v, uint32_t k) {
    float l = 0.0f;
    for (uint32_t p = 0u; p < IE_FOLD_PAGES; p++) {
        uint32_t page = ie_part_page(k) + p;
        if (slot_lo(v, page) < slot_hi(v, page)) l = ie_fma(l, f->c[p], f->sum[p]);
    }
    return l;
}

/* ---- all partials by one workgroup --------------------------------------------------------------------------------------- */

IE_KERNEL(256) ie_attn(ie_abi_attn a) {
    ie_dep();
    static IE_LDS_VAR soft f;
    uint32_t head = ie_wg_x(), t = a.t0 + ie_wg_y(), hd = a.hd, hdp = ie_head_pad(hd), lo, hi;
    if (t >= a.out.batch->n) return;
    view v = view_of(&a, t);
    uint32_t kv = ie_div_inv(head, a.group_inv), seq = a.out.batch->seq[t];
    float top = -__builtin_inff(), sum = 0.0f, o[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (uint32_t k = view_k0(v); k < view_k1(v); k++) {
        part_scores(&a, v, t, head, k, &f, &lo, &hi);
        ie_barrier();
        for (uint32_t p = 0u; p < IE_FOLD_PAGES; p++) top = f.top[p] > top ? f.top[p] : top;
        ie_barrier();
    }
    for (uint32_t k = view_k0(v); k < view_k1(v); k++) {
        float s = part_scores(&a, v, t, head, k, &f, &lo, &hi);
        ie_barrier();
        float m = part_soft(&f, s, lo < hi), w = ie_exp(m - top);
        ie_barrier();
        sum = ie_fma(part_sum(&f, v, k), w, sum);
        float part[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        for (uint32_t p = 0u; p < IE_FOLD_PAGES; p++) {
            uint32_t page = ie_part_page(k) + p, i = slot_lo(v, page), end = slot_hi(v, page);
            if (i >= end) continue;
            IE_GLOBAL const uint16_t *vp = page_at(&a.pages, seq, page, kv, hdp) + hdp * IE_PAGE;
#pragma unroll
            for (uint32_t j = 0u; j < 4u; j++) part[j] *= f.c[p];
            for (; i < end; i++)
#pragma unroll
                for (uint32_t j = 0u; j < 4u; j++)
                    if (ie_tid() + 256u * j < hdp) part[j] = ie_fma(f.e[p][i], ie_f16_of(vp[i * hdp + ie_tid() + 256u * j]), part[j]);
        }
        ie_barrier();
#pragma unroll
        for (uint32_t j = 0u; j < 4u; j++) o[j] = ie_fma(part[j], w, o[j]);
    }
    float inv = ie_div(1.0f, sum);
#pragma unroll
    for (uint32_t j = 0u; j < 4u; j++) {
        uint32_t d0 = ie_wave() * 32u + 256u * j, d = d0 + ie_lane();
        if (d0 >= hd) break;
        float y = o[j] * inv;
        if (a.gated) y = y * ie_sigmoid(d < hd ? query_at(&a, t, head)[hd + d] : 0.0f);
        if (a.out.y && d < hd) a.out.y[(uint64_t)t * a.out.y_ld + head * hd + d] = y;
        if (!a.out.q8) continue;
        if (ie_q8_put(ie_out_block(&a.out, t, (head * hd + d0) / IE_BLOCK), y) && ie_lane() == 0u) ie_atomic_max(&a.out.batch->bad, a.out.bad);
    }
}

/* ---- K and V shared through LDS -------------------------------------------------------------------------------------------- */

/* A wave's query and its running sums: DPL dimensions from DPL * lane on. */
typedef struct {
    view v;
    uint32_t t, head;
    float m, l, o[8];
    bool mine;
} kv_query;

/* Adds w times a row of V. */
IE_INLINE void kv_value(kv_query *u, float w, const IE_LDS uint16_t *v, const uint32_t DPL) {
#pragma unroll
    for (uint32_t j = 0u; j < DPL / 2u; j++) {
        uint32_t h = ((const IE_LDS uint32_t *)v)[j];
        u->o[2u * j] = ie_fma(w, ie_f16_lo(h), u->o[2u * j]);
        u->o[2u * j + 1u] = ie_fma(w, ie_f16_hi(h), u->o[2u * j + 1u]);
    }
}

/* One page for one query: K and V in LDS. */
IE_INLINE void kv_page(const ie_abi_attn *a, kv_query *u, uint32_t page, const IE_LDS uint16_t *kv, const uint32_t DPL) {
    const uint32_t lane = ie_lane(), hdp = ie_head_pad(a->hd);
    uint32_t lo = slot_lo(u->v, page), hi = slot_hi(u->v, page);
    if (lo >= hi) return;
    IE_SCALAR const float *q = ie_scalar(query_at(a, u->t, u->head));
    float s;
#define K_AT(c) ie_lds16(kv + ((c) * IE_PAGE + lane) * 8u)
    SCORE(s, q, a->hd, K_AT, "unroll 2");
#undef K_AT
    s = lane >= lo && lane < hi ? s * a->scale : -__builtin_inff();
    float top = ie_wave_max(s), m = u->m > top ? u->m : top, c = ie_exp(u->m - m), e = ie_exp(s - m);
    u->l = ie_fma(u->l, c, ie_wave_tree(e));
    u->m = m;
#pragma unroll
    for (uint32_t j = 0u; j < DPL; j++) u->o[j] *= c;
    const IE_LDS uint16_t *v = kv + hdp * IE_PAGE + (DPL * lane < hdp ? DPL * lane : 0u);
    uint32_t i = lo;
    for (; i + 8u <= hi; i += 8u)
#pragma unroll
        for (uint32_t r = 0u; r < 8u; r++) kv_value(u, ie_readlanef(e, i + r), v + (i + r) * hdp, DPL);
    for (; i < hi; i++) kv_value(u, ie_readlanef(e, i), v + i * hdp, DPL);
}

/* The partial of a query is done: to memory; the last one joins. */
IE_INLINE void kv_part(const ie_abi_attn *a, const kv_query *u, uint32_t k, const uint32_t DPL) {
    a = ie_args_again(a);
    const uint32_t lane = ie_lane(), hdp = ie_head_pad(a->hd), n = view_k1(u->v) - view_k0(u->v);
    IE_GLOBAL float *to = part_at(a, u->t, u->head, k - view_k0(u->v));
#pragma unroll
    for (uint32_t j = 0u; j < DPL; j++)
        if (DPL * lane < hdp) to[DPL * lane + j] = u->o[j];
    if (lane == 0u) to[hdp] = u->m, to[hdp + 1u] = u->l;
    IE_GLOBAL uint32_t *count = a->count + u->t * a->n_head + u->head;
    uint32_t done = 0u;
    ie_release();
    if (lane == 0u) done = ie_atomic_add(count, 1u) + 1u;
    if (ie_readlane(done, 0u) != n) return;
    ie_acquire();
    if (lane == 0u) *count = 0u;
    join(a, u->t, u->head, n, 0u, DPL, 16u / DPL);
}

IE_INLINE void attn_kv(const ie_abi_attn *a, IE_LDS uint32_t *kv, const uint32_t DPL) {
    const uint32_t tid = ie_tid(), hdp = ie_head_pad(a->hd), group = a->group, words = hdp * IE_PAGE; /* of a page's K and V */
    const uint32_t kv_head = ie_wg_x(), share = ie_wg_z();
    ie_dep();
    IE_GLOBAL const ie_abi_batch *b = a->out.batch;
    uint32_t n_tok = b->n > a->t0 ? b->n - a->t0 : 0u, n_pairs = (n_tok < a->nt ? n_tok : a->nt) * group;
    uint32_t pair = ie_wg_y() * IE_ATTN_PAIRS, end = pair + IE_ATTN_PAIRS < n_pairs ? pair + IE_ATTN_PAIRS : n_pairs;
    for (uint32_t run; pair < end; pair = run) { /* pairs of one sequence */
        uint32_t t0 = a->t0 + ie_div_inv(pair, a->group_inv), t1 = t0, seq = ie_uniform(b->seq[t0]), mine = ie_wg_y() * IE_ATTN_PAIRS + ie_wave();
        for (run = pair; run < end; run++) {
            uint32_t t = a->t0 + ie_div_inv(run, a->group_inv);
            if (ie_uniform(b->seq[t]) != seq) break;
            t1 = t;
        }
        view first = view_of(a, t0), last = view_of(a, t1);
        kv_query u = {.mine = mine >= pair && mine < run};
        u.t = u.mine ? a->t0 + ie_div_inv(mine, a->group_inv) : t0, u.head = kv_head * group + (mine - ie_div_inv(mine, a->group_inv) * group);
        u.v = view_of(a, u.t);
        uint32_t k = view_k0(first) + share * a->spw, k_end = k + a->spw < view_k1(last) ? k + a->spw : view_k1(last);
        for (; k < k_end; k++) {
            u.m = -__builtin_inff(), u.l = 0.0f;
#pragma unroll
            for (uint32_t j = 0u; j < DPL; j++) u.o[j] = 0.0f;
            for (uint32_t page = ie_part_page(k); page < ie_part_page(k + 1u); page++) {
                if (page < ie_page_of(first.lo) || page > ie_page_of(last.hi - 1u)) continue;
                IE_GLOBAL const uint32_t *from = (IE_GLOBAL const uint32_t *)page_at(&a->pages, seq, page, kv_head, hdp);
                ie_u4 x[8]; /* DPL of them: DPL * 4096 bytes hold the page's K and V */
#pragma unroll
                for (uint32_t i = 0u; i < DPL; i++) x[i] = ie_load16(from + (4u * (tid + 256u * i) < words ? 4u * (tid + 256u * i) : 0u));
                ie_barrier(); /* the page before has been used */
#pragma unroll
                for (uint32_t i = 0u; i < DPL; i++) ie_lds_put16(kv + 4u * (tid + 256u * i), x[i]); /* past the page: not read */
                ie_barrier();
                if (u.mine) kv_page(a, &u, page, (const IE_LDS uint16_t *)kv, DPL);
            }
            if (u.mine && k >= view_k0(u.v) && k < view_k1(u.v)) kv_part(a, &u, k, DPL);
        }
    }
}

IE_KERNEL(256) ie_attn_kv_64(ie_abi_attn a) {
    static IE_LDS_VAR uint32_t kv[64u * IE_PAGE];
    attn_kv(&a, kv, 2u);
}
IE_KERNEL(256) ie_attn_kv_128(ie_abi_attn a) {
    static IE_LDS_VAR uint32_t kv[128u * IE_PAGE];
    attn_kv(&a, kv, 4u);
}
IE_KERNEL(256) ie_attn_kv_256(ie_abi_attn a) {
    static IE_LDS_VAR uint32_t kv[256u * IE_PAGE];
    attn_kv(&a, kv, 8u);
}

/* ---- IE_ATTN=check ----------------------------------------------------------------------------------------------------------- */

IE_KERNEL(32) ie_attn_diff(ie_abi_diff a) {
    ie_dep();
    float diff = 0.0f, size = 0.0f;
    for (uint32_t d = ie_lane(); d < a.hd; d += 32u) {
        float x = a.a[(uint64_t)ie_wg_y() * a.a_ld + ie_wg_x() * a.hd + d], y = a.b[(uint64_t)ie_wg_y() * a.b_ld + ie_wg_x() * a.hd + d];
        float e = ie_abs(x - y), s = ie_abs(y);
        diff = e > diff ? e : diff;
        size = s > size ? s : size;
    }
    diff = ie_wave_max(diff), size = ie_wave_max(size);
    if (ie_lane() == 0u && diff > 0.0f) ie_atomic_max(a.worst, ie_bits_of(ie_div(diff, size)));
}
