/* Attention on cards that copy memory to LDS by themselves (IE_COPIES), a workgroup a partial of one or several query heads that share keys and values (docs/NUMERICS.md);
 * views, softmax and the end of a query are those of attn.c.
 *
 *   ie_attn_stream_*   up to 8, 4, 6 query heads of a KV head; for heads of up to 64, 128, 256
 *
 * The card copies all pages of the partial to LDS: keys before the launches before this one are through where older steps have written them; values as soon as the
 * queries are there, which would wait behind them; what there is no place for when the keys have been used. A wave scores a page for all heads, a lane a position; then a lane has two dimensions of G heads' outputs. The
 * partials of a query come to LDS by one copy, too, for who comes last. Much of this is done once a launch: it is in loops, since an instruction that is not in the
 * unit's cache costs more than any other.
 *
 * One token: the launch can also do what ie_rope_kv does (fresh). Each workgroup turns its queries; those with the last partial make the token's key and value, which
 * take the place of what was copied, and one of them writes both to the page.
 *
 * Operands: attn.c. Launch: 256 lanes; x = KV head * its shares of query heads, y = token, z = partial, counted from the first that the token sees; LDS beyond the static:
 *   IE_ATTN_PLACES(hd) places of a page's keys or values, 64 hdp bytes each. Bytes moved: 128 hdp a page, once for a workgroup's heads; 4 (hdp + 2) bytes a partial,
 *   written and read, unless it is the only one. */
#include "q8.h"

#if IE_COPIES
typedef struct {
    view v;
    uint32_t t, kv, head, n; /* heads head .. head + n - 1 */
    uint32_t k, page0;       /* the partial, its first page */
    uint32_t p0, p1, lo, hi; /* pages that are seen; slots of this wave's */
    uint32_t np, slot;       /* where the token's own key and value belong: page np of the partial, if it is fresh */
    IE_GLOBAL const uint16_t *page; /* the wave's */
    bool mine, seen, fresh;  /* the workgroup has work; the wave has; the workgroup has to make the token's key and value */
} flow;

/* LDS of a workgroup. */
typedef struct {
    IE_LDS float *q;          /* [head][HD + 8]: queries; then a lone partial's outputs, maximum and sum */
    IE_LDS soft *f;           /* [head] */
    IE_LDS uint64_t *arrived; /* keys of each page, values of each page, partials */
    IE_LDS uint32_t *place;   /* of keys and values; then of partials */
    IE_LDS float *x;          /* [HD] */
    IE_LDS uint32_t *k_new, *v_new, *last; /* the token's, pairs of halves: [HD / 2] each; whether this workgroup joins */
} flow_lds;
#define ARRIVALS (2u * IE_FOLD_PAGES + 1u)

/* The place of keys (0 .. 7) or values (8 .. 15) of a page. */
IE_INLINE IE_LDS uint32_t *flow_at(const flow_lds *l, uint32_t hdp, uint32_t i, const uint32_t PLACES) {
    return l->place + (i < PLACES ? i : i - PLACES) * (hdp * IE_PAGE / 2u);
}
IE_INLINE void flow_ask(const flow *w, const flow_lds *l, uint32_t hdp, uint32_t i, const uint32_t PLACES) {
    uint32_t bytes = hdp * IE_PAGE * 2u;
    ie_arrive_expect(l->arrived + i, bytes);
    ie_copy(flow_at(l, hdp, i, PLACES), w->page + (i < IE_FOLD_PAGES ? 0u : hdp * IE_PAGE), bytes, l->arrived + i);
}

/* Which partial of which heads; and what can be asked for before the launches before this one are through. Ends with them through. */
IE_INLINE flow flow_begin(const ie_abi_attn *a, const flow_lds *l, const uint32_t PLACES) {
    const uint32_t wave = ie_wave(), hdp = ie_head_pad(a->hd);
    IE_GLOBAL const ie_abi_batch *b = a->out.batch;
    flow w = {.t = a->t0 + ie_wg_y(), .page = a->pages.kv};
    w.kv = ie_div_inv(ie_wg_x(), a->shares_inv);
    uint32_t from = (ie_wg_x() - w.kv * a->shares) * a->hpw;
    w.head = w.kv * a->group + from, w.n = a->group - from < a->hpw ? a->group - from : a->hpw;
    const uint32_t seq = b->seq[w.t]; /* with the position: what is asked for later waits for it */
    w.v = view_of(a, w.t);
    w.k = view_k0(w.v) + ie_wg_z(), w.page0 = ie_part_page(w.k);
    w.mine = w.t < b->n && w.k < view_k1(w.v);
    if (w.mine) {
        uint32_t first = ie_page_of(w.v.lo), end = ie_page_of(w.v.hi - 1u) + 1u;
        w.p0 = first > w.page0 ? first - w.page0 : 0u, w.p1 = end - w.page0 < IE_FOLD_PAGES ? end - w.page0 : IE_FOLD_PAGES;
        w.seen = wave >= w.p0 && wave < w.p1;
        w.fresh = a->fresh && w.k + 1u == view_k1(w.v), w.np = end - 1u - w.page0, w.slot = ie_slot_of(w.v.hi - 1u);
        w.lo = slot_lo(w.v, w.page0 + wave), w.hi = slot_hi(w.v, w.page0 + wave);
        if (w.seen) w.page += a->pages.table[ie_table_at(seq, w.page0 + wave, a->pages.per_seq)] * a->pages.page_stride + (uint64_t)w.kv * hdp * 2u * IE_PAGE;
        if (ie_tid() < ARRIVALS) ie_arrive_new(l->arrived + ie_tid(), 1u);
        ie_arrive_ready();
        ie_barrier();
        bool early = b->n == 1u && (a->fresh || w.page0 + wave + 1u < end), ask = w.seen && ie_lane() == 0u;
        if (ask && early) flow_ask(&w, l, hdp, wave, PLACES);
        ie_dep_wait();
        if (ask && !early) flow_ask(&w, l, hdp, wave, PLACES);
    } else ie_dep_wait();
    return w;
}

/* ---- queries, and the token's own key and value ---- */

/* A head to x in LDS: normed and turned; by a wave. */
IE_INLINE void fresh_head(const ie_abi_attn *a, IE_GLOBAL const float *from, IE_GLOBAL const float *norm, uint32_t pos, const uint32_t HD, IE_LDS float *x) {
    IE_GLOBAL const float *table = a->rope + (uint64_t)pos * a->half * 2u;
    float cs[2u * ROPE_PRE], e[8];
#pragma unroll
    for (uint32_t k = 0u; k < HD / 64u; k++) {
        uint32_t i = ie_lane() + 32u * k;
        cs[2u * k] = i < a->half ? table[2u * i] : 0.0f, cs[2u * k + 1u] = i < a->half ? table[2u * i + 1u] : 0.0f;
    }
#pragma unroll
    for (uint32_t j = 0u; j < HD / 32u; j++) e[j] = ie_lane() + 32u * j < a->hd ? from[ie_lane() + 32u * j] : 0.0f;
#pragma unroll
    for (uint32_t j = 0u; j < HD / 32u; j++) x[ie_lane() + 32u * j] = e[j];
    if (norm) head_norm(x, norm, a->hd, a->eps);
    ie_wave_sync();
#pragma unroll
    for (uint32_t k = 0u; k < HD / 64u; k++)
        if (ie_lane() + 32u * k < a->half) pair(x, ie_lane() + 32u * k, cs[2u * k], cs[2u * k + 1u], a->half, a->neox);
    ie_wave_sync();
}
/* Queries, a wave each (there are at most as many); of the last partial, the key by wave 7, the value by wave 6. A barrier has to follow. */
IE_INLINE void flow_fresh(const ie_abi_attn *a, const flow *w, const flow_lds *l, const uint32_t HD) {
    const uint32_t lane = ie_lane(), hd = a->hd, wave = ie_wave();
    const bool last = w->fresh && wave == 7u;
#pragma unroll 1
    for (uint32_t key = wave < w->n ? 0u : 1u; key < 1u + last; key++)
        fresh_head(a, key ? a->fresh + w->kv * hd : query_at(a, w->t, w->head + wave), key ? a->k_norm : a->q_norm, w->v.hi - 1u, HD, key ? l->x : l->q + wave * (HD + 8u));
    if (last)
        for (uint32_t i = lane; i < HD / 2u; i += 32u) l->k_new[i] = ie_f16_put2(l->x[2u * i], l->x[2u * i + 1u]);
    IE_GLOBAL const float *v = a->fresh + (a->n_kv + w->kv) * hd;
    for (uint32_t i = lane; w->fresh && wave == 6u && i < HD / 2u; i += 32u) l->v_new[i] = ie_f16_put2(2u * i < hd ? v[2u * i] : 0.0f, 2u * i + 1u < hd ? v[2u * i + 1u] : 0.0f);
}
/* By one of the workgroups that have made them: to their page. */
IE_INLINE void flow_store(const ie_abi_attn *a, const flow *w, const flow_lds *l) {
    const uint32_t hdp = ie_head_pad(a->hd), d = 2u * ie_tid();
    if (w->head != w->kv * a->group || d >= hdp) return;
    uint32_t page = a->pages.table[ie_table_at(a->out.batch->seq[w->t], w->page0 + w->np, a->pages.per_seq)];
    IE_GLOBAL uint16_t *k = a->pages.kv + page * a->pages.page_stride + (uint64_t)w->kv * hdp * 2u * IE_PAGE, *v = k + hdp * IE_PAGE;
    *(IE_GLOBAL uint32_t *)(k + ie_k_elem(w->slot, d)) = l->k_new[d / 2u];
    *(IE_GLOBAL uint32_t *)(v + ie_v_elem(w->slot, d, hdp)) = l->v_new[d / 2u];
}
IE_INLINE void flow_queries(const ie_abi_attn *a, const flow *w, const flow_lds *l, const uint32_t HD) {
#pragma unroll 1
    for (uint32_t i = ie_tid(); i < w->n * HD; i += 256u)
        l->q[i / HD * (HD + 8u) + i % HD] = i % HD < a->hd ? query_at(a, w->t, w->head + i / HD)[i % HD] : 0.0f;
}

/* ---- scores, softmax, outputs ---- */

/* Scores of the wave's page, and its maxima, of HG heads at a time. */
IE_INLINE void flow_scores(const ie_abi_attn *a, const flow *w, const flow_lds *l, const uint32_t HD, const uint32_t HG, const uint32_t PLACES) {
    const uint32_t hdp = ie_head_pad(a->hd), lane = ie_lane(), wave = ie_wave();
    IE_LDS uint32_t *k = flow_at(l, hdp, wave, PLACES);
    if (w->seen) ie_arrive_wait(l->arrived + wave, 0u);
    if (w->fresh && wave == w->np) {
        for (uint32_t i = lane; i < hdp / 2u; i += 32u) k[ie_k_elem(w->slot, 2u * i) / 2u] = l->k_new[i];
        ie_wave_sync();
    }
#pragma unroll 1
    for (uint32_t h0 = 0u; h0 < w->n; h0 += HG) {
        float acc[4][8];
#pragma unroll
        for (uint32_t h = 0u; h < HG; h++)
#pragma unroll
            for (uint32_t j = 0u; j < 8u; j++) acc[h][j] = 0.0f;
        const IE_LDS float *q = l->q + h0 * (HD + 8u);
        const IE_LDS uint32_t *at = k + 4u * lane;
#pragma unroll 2
        for (uint32_t c = 0u; c < (w->seen ? hdp / 8u : 0u); c++) {
            ie_u4 x = ie_lds16(at + c * (4u * IE_PAGE));
#pragma unroll
            for (uint32_t h = 0u; h < HG; h++) {
                ie_u4 q0 = ie_lds16(q + h * (HD + 8u) + 8u * c), q1 = ie_lds16(q + h * (HD + 8u) + 8u * c + 4u);
                float two[8] = {ie_f32_of(q0.x), ie_f32_of(q0.y), ie_f32_of(q0.z), ie_f32_of(q0.w), ie_f32_of(q1.x), ie_f32_of(q1.y), ie_f32_of(q1.z), ie_f32_of(q1.w)};
                DOT8(acc[h], two, x);
            }
        }
#pragma unroll
        for (uint32_t h = 0u; h < HG; h++) {
            if (h0 + h >= w->n) break;
            float s = IE_TREE8(acc[h]);
            s = w->seen && lane >= w->lo && lane < w->hi ? s * a->scale : -__builtin_inff();
            float top = ie_wave_max(s);
            l->f[h0 + h].e[wave][lane] = s;
            if (lane == 0u) l->f[h0 + h].top[wave] = top;
        }
    }
}
/* After a barrier: exponentials, factors and sums (as part_soft). Maxima over pages are taken in all lanes together: lane 8 h + p has page p of head h0 + h. */
IE_INLINE void flow_soft(const flow *w, const flow_lds *l) {
    const float none = -__builtin_inff();
    const uint32_t wave = ie_wave(), lane = ie_lane(), page = lane % IE_FOLD_PAGES;
#pragma unroll 1
    for (uint32_t h0 = 0u; h0 < w->n; h0 += 32u / IE_FOLD_PAGES) {
        const uint32_t mine = h0 + lane / IE_FOLD_PAGES;
        IE_LDS soft *f = l->f + (mine < w->n ? mine : h0);
        float upto = f->top[page]; /* pages not seen have -infinity */
#pragma unroll
        for (uint32_t d = 1u; d < IE_FOLD_PAGES; d *= 2u) {
            float x = ie_readlanef(upto, page >= d ? lane - d : lane);
            upto = upto > x ? upto : x;
        }
        float before = ie_readlanef(upto, page ? lane - 1u : lane);
        if (wave == 0u && mine < w->n) {
            f->c[page] = page >= w->p0 && page < w->p1 ? ie_exp((page ? before : none) - upto) : 1.0f;
            if (page + 1u == IE_FOLD_PAGES) f->all = upto;
        }
#pragma unroll
        for (uint32_t h = 0u; h < 32u / IE_FOLD_PAGES; h++) {
            IE_LDS soft *to = l->f + h0 + h;
            if (h0 + h >= w->n) break;
            float e = ie_exp(to->e[wave][lane] - ie_readlanef(upto, IE_FOLD_PAGES * h + wave)), sum = ie_wave_tree(e);
            to->e[wave][lane] = e;
            if (lane == 0u) to->sum[wave] = sum;
        }
    }
}
#define ROWS 8u
/* Rows i .. i + ROWS - 1 of a page, of which [from, to) are seen (all: every one), to the outputs of G heads; v: the lane's dimensions of row 0, rows `step` words apart. */
IE_INLINE void flow_rows(const IE_LDS uint32_t *v, uint32_t step, const IE_LDS soft *f, uint32_t p, uint32_t i, uint32_t from, uint32_t to, const bool all, const uint32_t G,
                         float o[][2]) {
    uint32_t x[ROWS];
    float e[3][ROWS];
#pragma unroll
    for (uint32_t r = 0u; r < ROWS; r++) x[r] = v[(i + r) * step];
#pragma unroll
    for (uint32_t g = 0u; g < G; g++)
#pragma unroll
        for (uint32_t r = 0u; r < ROWS; r += 4u) {
            ie_u4 q = ie_lds16(&f[g].e[p][i + r]);
            e[g][r] = ie_f32_of(q.x), e[g][r + 1u] = ie_f32_of(q.y), e[g][r + 2u] = ie_f32_of(q.z), e[g][r + 3u] = ie_f32_of(q.w);
        }
#pragma unroll
    for (uint32_t r = 0u; r < ROWS; r++) {
        if (!all && (i + r < from || i + r >= to)) continue;
        float v0 = ie_f16_lo(x[r]), v1 = ie_f16_hi(x[r]);
#pragma unroll
        for (uint32_t g = 0u; g < G; g++) o[g][0] = ie_fma(e[g][r], v0, o[g][0]), o[g][1] = ie_fma(e[g][r], v1, o[g][1]);
    }
}
/* After another: a lane's dimensions d, d + 1 of G heads from f on. hdp: HD itself, a constant, where the head has that size. */
IE_INLINE void flow_outputs(const flow *w, const flow_lds *l, const IE_LDS soft *f, uint32_t d, uint32_t hdp, const uint32_t G, const uint32_t PLACES, float o[][2]) {
#pragma unroll 1
    for (uint32_t p = w->p0; p < w->p1; p++) {
        uint32_t from = slot_lo(w->v, w->page0 + p), to = slot_hi(w->v, w->page0 + p);
        IE_LDS uint32_t *v = flow_at(l, hdp, IE_FOLD_PAGES + p, PLACES) + d / 2u;
        ie_arrive_wait(l->arrived + IE_FOLD_PAGES + p, 0u);
        if (w->fresh && p == w->np) v[w->slot * (hdp / 2u)] = l->v_new[d / 2u]; /* of these dimensions: each lane for itself */
#pragma unroll
        for (uint32_t g = 0u; g < G; g++) o[g][0] *= f[g].c[p], o[g][1] *= f[g].c[p];
        if (to - from == IE_PAGE) {
#pragma unroll 2
            for (uint32_t i = 0u; i < IE_PAGE; i += ROWS) flow_rows(v, hdp / 2u, f, p, i, 0u, IE_PAGE, true, G, o);
        } else {
#pragma unroll 1
            for (uint32_t i = from / ROWS * ROWS; i < to; i += ROWS) flow_rows(v, hdp / 2u, f, p, i, from, to, false, G, o);
        }
    }
}

/* ---- joining partials ---- */

/* Whether this workgroup is the last of the query's; then its partials are in LDS, `step` floats from head to head, or (false in *fit) too many for it. */
IE_INLINE bool flow_last(const ie_abi_attn *a, const flow *w, const flow_lds *l, uint32_t n, uint32_t step, bool fit) {
    IE_GLOBAL uint32_t *count = a->count + w->t * a->n_head + w->head;
    ie_barrier();
    if (ie_tid() == 0u) {
        ie_release();
        *l->last = ie_atomic_add(count, 1u) + 1u == n;
    }
    ie_barrier();
    if (!*l->last) return false;
    ie_acquire();
    IE_LDS uint64_t *arrived = l->arrived + 2u * IE_FOLD_PAGES;
    if (ie_tid() == 0u) {
        *count = 0u;
        if (fit) {
            ie_copy_others();
            ie_arrive_expect(arrived, w->n * step * 4u);
            for (uint32_t h = 0u; h < w->n; h++) ie_copy(l->place + h * step, part_at(a, w->t, w->head + h, 0u), step * 4u, arrived);
        }
    }
    if (fit) ie_arrive_wait(arrived, 0u);
    return true;
}
/* n partials of each head at p, `step` floats from head to head: a wave 32 dimensions of a head. */
IE_INLINE void flow_join(const ie_abi_attn *a, const flow *w, IE_LDS float *p, uint32_t n, uint32_t step, const uint32_t HD) {
    const uint32_t lane = ie_lane(), hdp = ie_head_pad(a->hd), size = ie_attn_part_size(a->hd), slices = HD / 32u;
    for (uint32_t h = ie_wave(); h < w->n; h += 8u) { /* weights take the place of maxima */
        IE_LDS float *m = p + h * step + hdp;
        float top = -__builtin_inff();
        for (uint32_t k = lane; k < n; k += 32u) top = ie_largerf_(m[k * size], top);
        top = ie_wave_max(top);
        for (uint32_t k = lane; k < n; k += 32u) m[k * size] = ie_exp(m[k * size] - top);
    }
    ie_barrier();
#pragma unroll 1
    for (uint32_t i = ie_wave(); i < w->n * slices; i += 8u) {
        uint32_t h = i / slices, s = i % slices, d = s * 32u + lane;
        if (s * 32u >= a->hd) continue;
        const IE_LDS float *x = p + h * step;
        float o = 0.0f, sum = 0.0f;
        d = d < hdp ? d : 0u;
#pragma unroll 4
        for (uint32_t k = 0u; k < n; k++) {
            float weight = x[k * size + hdp];
            sum = ie_fma(x[k * size + hdp + 1u], weight, sum), o = ie_fma(x[k * size + d], weight, o);
        }
        put_slice(a, w->t, w->head + h, s, o, ie_div(1.0f, sum));
    }
}

/* HG: heads that are scored at once; G: heads of a lane for outputs. */
IE_INLINE void attn_stream(const ie_abi_attn *a, const flow_lds *l, const uint32_t HD, const uint32_t H, const uint32_t HG, const uint32_t G, const uint32_t PLACES) {
    const uint32_t tid = ie_tid(), hdp = ie_head_pad(a->hd), size = ie_attn_part_size(a->hd);
    ie_dep_go();
    flow w = flow_begin(a, l, PLACES);
    if (!w.mine) return;
    if (a->fresh) flow_fresh(a, &w, l, HD);
    else flow_queries(a, &w, l, HD);
    ie_barrier();
    if (w.seen && IE_FOLD_PAGES + ie_wave() < PLACES && ie_lane() == 0u) flow_ask(&w, l, hdp, IE_FOLD_PAGES + ie_wave(), PLACES);
    if (w.fresh) flow_store(a, &w, l);
    if (w.n == 1u) flow_scores(a, &w, l, HD, 1u, PLACES);
    else flow_scores(a, &w, l, HD, HG, PLACES);
    ie_barrier();
    if (w.seen && IE_FOLD_PAGES + ie_wave() >= PLACES && ie_lane() == 0u) {
        ie_arrive_ready(); /* a key may have been written there */
        flow_ask(&w, l, hdp, IE_FOLD_PAGES + ie_wave(), PLACES);
    }
    flow_soft(&w, l);
    ie_barrier();
    const uint32_t first = tid / (HD / 2u) * G, d = 2u * (tid % (HD / 2u)), n = view_k1(w.v) - view_k0(w.v), step = n * size;
    const bool has = first < w.n && first + G <= H && d < hdp;
    float o[3][2];
#pragma unroll
    for (uint32_t g = 0u; g < G; g++) o[g][0] = 0.0f, o[g][1] = 0.0f;
    if (has && hdp == HD) flow_outputs(&w, l, l->f + first, d, HD, G, PLACES, o);
    else if (has) flow_outputs(&w, l, l->f + first, d, hdp, G, PLACES, o);
#pragma unroll
    for (uint32_t g = 0u; g < G; g++) {
        if (!has || first + g >= w.n) continue;
        IE_LDS float *lone = l->q + (first + g) * (HD + 8u);
        IE_GLOBAL float *to = part_at(a, w.t, w.head + first + g, w.k - view_k0(w.v));
        float m = l->f[first + g].all, sum = d == 0u ? part_sum(&l->f[first + g], w.v, w.k) : 0.0f;
        if (n == 1u) lone[d] = o[g][0], lone[d + 1u] = o[g][1];
        else to[d] = o[g][0], to[d + 1u] = o[g][1];
        if (d == 0u && n == 1u) lone[hdp] = m, lone[hdp + 1u] = sum;
        if (d == 0u && n > 1u) to[hdp] = m, to[hdp + 1u] = sum;
    }
    if (n == 1u) {
        ie_barrier();
        flow_join(a, &w, l->q, 1u, HD + 8u, HD);
        return;
    }
    bool fit = w.n * step <= PLACES * (hdp * IE_PAGE / 2u);
    if (!flow_last(a, &w, l, n, step, fit)) return;
    if (fit) {
        ie_barrier();
        flow_join(a, &w, (IE_LDS float *)l->place, n, step, HD);
        return;
    }
#pragma unroll 1
    for (uint32_t i = ie_wave(); i < w.n * (HD / 32u); i += 8u) join(a, w.t, w.head + i / (HD / 32u), n, i % (HD / 32u), 1u, 8u);
}

#define ATTN_STREAM(HD, H, HG, G) \
    IE_KERNEL(256) ie_attn_stream_##HD(ie_abi_attn a) { \
        static IE_LDS_VAR float q[(H) * (HD##u + 8u)] __attribute__((aligned(16))), x[HD]; \
        static IE_LDS_VAR soft f[H]; \
        static IE_LDS_VAR uint32_t k_new[HD / 2], v_new[HD / 2], last; \
        static IE_LDS_VAR uint64_t arrived[ARRIVALS]; \
        const flow_lds l = {.q = q, .f = f, .arrived = arrived, .place = ie_lds_more, .x = x, .k_new = k_new, .v_new = v_new, .last = &last}; \
        attn_stream(&a, &l, HD##u, H, HG, G, IE_ATTN_PLACES(HD##u)); \
    }
ATTN_STREAM(64, 8u, 4u, 1u)
ATTN_STREAM(128, 4u, 4u, 2u)
ATTN_STREAM(256, 6u, 3u, 3u)
#endif
