/* Attention, a workgroup a partial of one or several query heads that share keys and values (docs/NUMERICS.md); views, pages, softmax and joins are those of attn.c.
 *
 *   ie_attn_one_*     one query head; for heads of up to 64, 128, 256
 *   ie_attn_split_*   up to 8, 4, 2 query heads of a KV head
 *
 * Operands: attn.c. Launch: 256 lanes; x = KV head * its shares of query heads, y = token, z = partial, counted from the first that the token sees. Bytes moved: 128 hdp
 *   a page, once for a workgroup's heads; 4 (hdp + 2) bytes a partial, written and read, unless it is the only one. LDS: 4 HD bytes a query head and its sums. Registers: budgets.txt.
 *
 * A wave scores a page for all heads with its keys in registers; then a lane has two dimensions of G heads' outputs.
 *
 * Keys come 16 bytes a lane, chunk (8 dimensions) 4 m + lane % 4 of positions 8 i + lane / 4, i < 4. Four lanes exchange words, so that a lane has
 * word lane % 4 of every chunk: the partial sums 2 w and 2 w + 1 of the order's eight. A query's values are then two words a chunk and lane, and
 * not eight for all lanes. The eight sums come together by exchanges again, after which a lane has the score of one position: slot_of(lane). */
#include "q8.h"

typedef struct {
    IE_GLOBAL const uint16_t *page; /* the wave's, if it is seen */
    view v;
    uint32_t t, kv, head, n; /* heads head .. head + n - 1 */
    uint32_t k, page0;       /* the partial, its first page */
    uint32_t p0, p1, lo, hi; /* pages that are seen; slots of this wave's */
    bool mine, early;        /* the workgroup has work; older steps have written the wave's page */
} split;

/* LDS of a workgroup. */
typedef struct {
    IE_LDS float *q;         /* [head][HD], then the heads' outputs */
    IE_LDS soft *f;          /* [head] */
    IE_LDS uint32_t *number; /* of the partial's pages in the pool */
    IE_LDS uint32_t *last;   /* whether this workgroup joins */
} split_lds;

IE_INLINE uint32_t slot_of(uint32_t lane) { return lane % 4u * 8u + lane / 4u; }

IE_INLINE IE_GLOBAL const uint16_t *split_page(const ie_abi_attn *a, const split *s, uint32_t number) {
    return a->pages.kv + number * a->pages.page_stride + (uint64_t)s->kv * ie_head_pad(a->hd) * 2u * IE_PAGE;
}

/* Chunks c0 .. c0 + N - 1 of the page's keys: words k[i * N + 4 m ..] are chunk c0 + 4 m + lane % 4 of position 8 i + lane / 4. */
IE_INLINE void split_keys(const ie_abi_attn *a, IE_GLOBAL const uint16_t *page, uint32_t c0, const uint32_t N, uint32_t *k) {
    uint32_t chunks = ie_head_pad(a->hd) / 8u, lane = ie_lane();
#pragma unroll
    for (uint32_t i = 0u; i < 4u; i++)
#pragma unroll
        for (uint32_t m = 0u; m < N / 4u; m++) {
            uint32_t c = c0 + 4u * m + lane % 4u;
            ie_u4 v = ie_load16(page + ((c < chunks ? c : 0u) * IE_PAGE + 8u * i + lane / 4u) * 8u);
            uint32_t *to = k + i * N + 4u * m;
            to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
        }
}

/* Four lanes' words of n such pieces: lane w gets word w of each one's four, in the order of the lanes. */
IE_INLINE void quad_turn(const uint32_t n, uint32_t *k) {
    bool odd = ie_lane() % 2u != 0u, upper = ie_lane() % 4u >= 2u;
#pragma unroll
    for (uint32_t i = 0u; i < 4u * n; i += 4u) {
        uint32_t r0 = ie_xor(odd ? k[i] : k[i + 1u], 1), r1 = ie_xor(odd ? k[i + 2u] : k[i + 3u], 1);
        uint32_t x = odd ? r0 : k[i], y = odd ? k[i + 1u] : r0, z = odd ? r1 : k[i + 2u], w = odd ? k[i + 3u] : r1;
        r0 = ie_xor(upper ? x : z, 2), r1 = ie_xor(upper ? y : w, 2);
        k[i] = upper ? r0 : x, k[i + 1u] = upper ? r1 : y, k[i + 2u] = upper ? z : r0, k[i + 3u] = upper ? w : r1;
    }
}

/* Adds chunks c0 .. c0 + N - 1, of n that there are, to the partial sums of H queries: q in LDS, [head][HD], zeros beyond the head;
 * acc[head][2 i + parity]. The keys have been turned. */
IE_INLINE void split_dots(const IE_LDS float *q, uint32_t n, uint32_t c0, const uint32_t N, const uint32_t HD, const uint32_t H, const uint32_t *k,
                          float acc[][8]) {
    const IE_LDS float *mine = q + 2u * (ie_lane() % 4u);
    float x[8];
#pragma unroll
    for (uint32_t c = 0u; c < N; c++) {
        if (c0 + c >= n) continue;
#pragma unroll
        for (uint32_t i = 0u; i < 4u; i++) {
            uint32_t w = k[i * N + c];
            x[2u * i] = ie_f16_lo(w), x[2u * i + 1u] = ie_f16_hi(w);
        }
#pragma unroll
        for (uint32_t h = 0u; h < H; h++) {
            ie_f2 two = ie_lds8(mine + h * HD + (c0 + c) * 8u);
#pragma unroll
            for (uint32_t i = 0u; i < 4u; i++) {
                acc[h][2u * i] = ie_fma(two.x, x[2u * i], acc[h][2u * i]);
                acc[h][2u * i + 1u] = ie_fma(two.y, x[2u * i + 1u], acc[h][2u * i + 1u]);
            }
        }
    }
}

/* ((a0 + a4) + (a2 + a6)) + ((a1 + a5) + (a3 + a7)) of the lane's slot. */
IE_INLINE float quad_sum(const float acc[8]) {
    bool odd = ie_lane() % 2u != 0u, upper = ie_lane() % 4u >= 2u;
    float s[4];
#pragma unroll
    for (uint32_t j = 0u; j < 4u; j++) s[j] = (upper ? acc[4u + j] : acc[j]) + ie_xorf(upper ? acc[j] : acc[4u + j], 2);
    float even = (odd ? s[2] : s[0]) + ie_xorf(odd ? s[0] : s[2], 1), other = (odd ? s[3] : s[1]) + ie_xorf(odd ? s[1] : s[3], 1);
    return even + other;
}

/* The halving tree over slots, from each lane's slot. */
IE_INLINE float slot_tree(float x) {
    x += ie_xorf(x, 2);
    x += ie_xorf(x, 1);
    x += ie_xorf(x, 16);
    x += ie_xorf(x, 8);
    x += ie_xorf(x, 4);
    return ie_uniformf(x);
}

/* 16 rows of V of a page, from row i on, dimensions d and d + 1. */
IE_INLINE void split_values(IE_GLOBAL const uint16_t *v, uint32_t hdp, uint32_t i, uint32_t *x) {
#pragma unroll
    for (uint32_t j = 0u; j < 16u; j++) x[j] = *(IE_GLOBAL const uint32_t *)(v + (i + j) * hdp);
}
/* Adds them for the rows of [lo, hi) to G heads' outputs; f: the first head's, page p. */
IE_INLINE void split_add(const uint32_t *x, const IE_LDS soft *f, uint32_t p, uint32_t i, uint32_t lo, uint32_t hi, const uint32_t G, float o[][2]) {
    bool all = lo <= i && i + 16u <= hi;
#pragma unroll
    for (uint32_t j = 0u; j < 16u; j += 4u) {
        ie_u4 w[4];
#pragma unroll
        for (uint32_t g = 0u; g < G; g++) w[g] = ie_lds16(&f[g].e[p][i + j]);
#pragma unroll
        for (uint32_t r = 0u; r < 4u; r++) {
            if (!all && (i + j + r < lo || i + j + r >= hi)) continue;
            float v0 = ie_f16_lo(x[j + r]), v1 = ie_f16_hi(x[j + r]);
#pragma unroll
            for (uint32_t g = 0u; g < G; g++) {
                float e = ie_f32_of(r == 0u ? w[g].x : r == 1u ? w[g].y : r == 2u ? w[g].z : w[g].w);
                o[g][0] = ie_fma(e, v0, o[g][0]), o[g][1] = ie_fma(e, v1, o[g][1]);
            }
        }
    }
}

/* The workgroup has left its heads' partials in memory; who comes last joins them, a wave 64 dimensions of a head. */
IE_INLINE void split_join(const ie_abi_attn *a, const split *s, IE_LDS uint32_t *last, const uint32_t LOADS) {
    uint32_t n = view_k1(s->v) - view_k0(s->v), each = (a->hd + 63u) / 64u, h = 0u, i = ie_wave();
    IE_GLOBAL uint32_t *count = a->count + s->t * a->n_head + s->head;
    ie_barrier();
    if (ie_tid() == 0u) {
        ie_release();
        *last = ie_atomic_add(count, 1u) + 1u == n;
    }
    ie_barrier();
    if (!*last) return;
    ie_acquire();
    if (ie_tid() == 0u) *count = 0u;
    for (;; i += 8u) {
        while (i >= each) i -= each, h++;
        if (h >= s->n) break;
        join(a, s->t, s->head + h, n, 2u * i, 2u, LOADS);
    }
}

/* Which partial of which heads; and before the launches before this one are through, what older steps have written: keys to registers (NK chunks). */
IE_INLINE split split_begin(const ie_abi_attn *a, const split_lds *l, const uint32_t NK, const uint32_t H, uint32_t *k) {
    const uint32_t lane = ie_lane(), wave = ie_wave(), tid = ie_tid(), hdp = ie_head_pad(a->hd);
    IE_GLOBAL const ie_abi_batch *b = a->out.batch;
    split s = {.t = a->t0 + ie_wg_y(), .page = a->pages.kv};
    s.kv = ie_div_inv(ie_wg_x(), a->shares_inv);
    uint32_t share = ie_wg_x() - s.kv * a->shares, seq = b->seq[s.t];
    s.head = s.kv * a->group + share * a->hpw, s.n = a->group - share * a->hpw < a->hpw ? a->group - share * a->hpw : a->hpw;
    if (H == 1u) s.n = 1u;
    s.v = view_of(a, s.t);
    s.k = view_k0(s.v) + ie_wg_z(), s.page0 = ie_part_page(s.k);
    s.mine = s.t < b->n && s.k < view_k1(s.v);
    if (!s.mine) return s;
    uint32_t first = ie_page_of(s.v.lo), end = ie_page_of(s.v.hi - 1u) + 1u;
    s.p0 = first > s.page0 ? first - s.page0 : 0u, s.p1 = end - s.page0 < IE_FOLD_PAGES ? end - s.page0 : IE_FOLD_PAGES;
    IE_GLOBAL const uint32_t *table = a->pages.table + ie_table_at(seq, s.page0, a->pages.per_seq);
    if (tid >= s.p0 && tid < s.p1) l->number[tid] = table[tid];
    if (wave >= s.p0 && wave < s.p1) {
        s.lo = slot_lo(s.v, s.page0 + wave), s.hi = slot_hi(s.v, s.page0 + wave);
        s.page = split_page(a, &s, table[wave]);
        s.early = b->n == 1u && s.page0 + wave + 1u < end;
        if (lane == 0u) ie_ahead(s.page, hdp * 2u * IE_PAGE * 2u);
        if (s.early) split_keys(a, s.page, 0u, NK, k);
    }
    return s;
}

/* The scores of the wave's page and H heads at q: score[h] is that of slot_of(lane). */
IE_INLINE void split_scores(const ie_abi_attn *a, const split *s, const IE_LDS float *q, const uint32_t HD, const uint32_t H, const uint32_t NK, uint32_t *k,
                            float *score) {
    const uint32_t hdp = ie_head_pad(a->hd), slot = slot_of(ie_lane());
    float acc[8][8];
#pragma unroll
    for (uint32_t h = 0u; h < H; h++)
#pragma unroll
        for (uint32_t j = 0u; j < 8u; j++) acc[h][j] = 0.0f;
    if (hdp == HD) split_dots(q, HD / 8u, 0u, NK, HD, H, k, acc);
    else split_dots(q, hdp / 8u, 0u, NK, HD, H, k, acc);
    if (HD / 8u > NK) { /* the other half; all its heads are one such group */
        split_keys(a, s->page, NK, NK, k);
        quad_turn(NK, k);
        split_dots(q, hdp / 8u, NK, NK, HD, H, k, acc);
    }
#pragma unroll
    for (uint32_t h = 0u; h < H; h++) {
        float x = quad_sum(acc[h]) * a->scale;
        score[h] = slot >= s->lo && slot < s->hi ? x : -__builtin_inff();
    }
}

/* After a barrier: exponentials, factors and sums of head `f` to LDS (as part_soft, by slots). */
IE_INLINE void split_soft(IE_LDS soft *f, float s, bool seen) {
    uint32_t w = ie_wave();
    const tops t = tops_of(f, w);
    float e = ie_exp(s - t.upto), c = ie_exp(t.before - t.upto), sum = slot_tree(e);
    if (seen) f->e[w][slot_of(ie_lane())] = e;
    if (ie_lane() == 0u) f->c[w] = seen ? c : 1.0f, f->sum[w] = sum;
    if (ie_tid() == 0u) f->all = t.all;
}

/* A lane's dimensions d, d + 1 of G heads from f on: the partial's sums. */
IE_INLINE void split_outputs(const ie_abi_attn *a, const split *s, const split_lds *l, const IE_LDS soft *f, uint32_t d, const uint32_t G, float o[][2]) {
    const uint32_t hdp = ie_head_pad(a->hd);
    uint32_t va[16], vb[16];
    IE_GLOBAL const uint16_t *v = split_page(a, s, l->number[s->p0]) + hdp * IE_PAGE + d;
    split_values(v, hdp, 0u, va);
    for (uint32_t p = s->p0; p < s->p1; p++) {
        uint32_t from = slot_lo(s->v, s->page0 + p), to = slot_hi(s->v, s->page0 + p);
#pragma unroll
        for (uint32_t g = 0u; g < G; g++) o[g][0] *= f[g].c[p], o[g][1] *= f[g].c[p];
        if (to > 16u) split_values(v, hdp, 16u, vb);
        split_add(va, f, p, 0u, from, to, G, o);
        if (p + 1u < s->p1) {
            v = split_page(a, s, l->number[p + 1u]) + hdp * IE_PAGE + d;
            split_values(v, hdp, 0u, va);
        }
        if (to > 16u) split_add(vb, f, p, 16u, from, to, G, o);
    }
}

/* A single partial is the result (its weight is 1): the heads' sums are in q. */
IE_INLINE void split_result(const ie_abi_attn *a, const split *s, const split_lds *l, const uint32_t HD) {
    const uint32_t slices = HD / 32u;
    for (uint32_t i = ie_wave(); i < s->n * slices; i += 8u) {
        uint32_t h = i / slices;
        float inv = ie_div(1.0f, ie_fma(part_sum(&l->f[h], s->v, s->k), 1.0f, 0.0f));
        if (i % slices * 32u < a->hd) put_slice(a, s->t, s->head + h, i % slices, l->q[i * 32u + ie_lane()], inv);
    }
}

/* The heads' queries to LDS, zeros beyond a head. */
IE_INLINE void split_queries(const ie_abi_attn *a, const split *s, IE_LDS float *q, const uint32_t HD, const uint32_t H) {
    const uint32_t QV = (H * HD + 255u) / 256u;
#pragma unroll
    for (uint32_t j = 0u; j < QV; j++) {
        uint32_t i = ie_tid() + 256u * j;
        float x = i < s->n * HD && i % HD < a->hd ? query_at(a, s->t, s->head + i / HD)[i % HD] : 0.0f;
        if (i < H * HD) q[i] = x;
    }
}

/* A lane's dimensions d, d + 1 of G heads from `first` on: over the queries in LDS, if the partial is the only one, else with its maximum and sum to memory. */
IE_INLINE void split_put(const ie_abi_attn *a, const split *s, const split_lds *l, bool has, bool only, uint32_t first, uint32_t d, const uint32_t HD, const uint32_t G,
                         const float o[][2]) {
    const uint32_t hdp = ie_head_pad(a->hd);
    IE_LDS float *q = l->q;
    IE_LDS soft *f = l->f;
#pragma unroll
    for (uint32_t g = 0u; g < G; g++) {
        if (!has || first + g >= s->n) continue;
        if (only) q[(first + g) * HD + d] = ie_fma(o[g][0], 1.0f, 0.0f), q[(first + g) * HD + d + 1u] = ie_fma(o[g][1], 1.0f, 0.0f);
        else {
            IE_GLOBAL float *to = part_at(a, s->t, s->head + first + g, s->k - view_k0(s->v));
            to[d] = o[g][0], to[d + 1u] = o[g][1];
            if (d == 0u) to[hdp] = f[first + g].all, to[hdp + 1u] = part_sum(&f[first + g], s->v, s->k);
        }
    }
}

/* H: heads that there is room for, at least a->hpw, in groups of HG for scores; G: heads of a lane for outputs. */
IE_INLINE void attn_split(const ie_abi_attn *a, const split_lds *l, const uint32_t HD, const uint32_t H, const uint32_t G) {
    const uint32_t NK = HD <= 128u ? HD / 8u : 16u, HG = HD > 128u || H < 4u ? H : 4u;
    const uint32_t tid = ie_tid(), wave = ie_wave(), hdp = ie_head_pad(a->hd);
    IE_LDS float *q = l->q;
    IE_LDS soft *f = l->f;
    uint32_t k[128];
    ie_dep_go();
    split s = split_begin(a, l, NK, H, k);
    ie_dep_wait();
    if (!s.mine) return;
    bool seen = s.lo < s.hi;
    if (seen && !s.early) split_keys(a, s.page, 0u, NK, k);
    split_queries(a, &s, q, HD, H);
    if (seen) quad_turn(NK, k);
    ie_barrier();
    float score[8];
#pragma unroll
    for (uint32_t h0 = 0u; h0 < H; h0 += HG) {
        if (h0 >= s.n) continue;
        if (seen) split_scores(a, &s, q + h0 * HD, HD, HG, NK, k, score + h0);
#pragma unroll
        for (uint32_t h = h0; h < h0 + HG; h++) {
            score[h] = seen ? score[h] : -__builtin_inff();
            float top = ie_wave_max(score[h]);
            if (ie_lane() == 0u) f[h].top[wave] = top;
        }
    }
    ie_barrier();
#pragma unroll
    for (uint32_t h0 = 0u; h0 < H; h0 += HG) {
        if (h0 >= s.n) continue;
#pragma unroll
        for (uint32_t h = h0; h < h0 + HG; h++) split_soft(&f[h], score[h], seen);
    }
    ie_barrier();
    uint32_t first = tid / (HD / 2u) * G, d = 2u * (tid % (HD / 2u)), parts = view_k1(s.v) - view_k0(s.v);
    float o[4][2];
    bool has = first < s.n && first + G <= H && d < hdp;
#pragma unroll
    for (uint32_t g = 0u; g < G; g++) o[g][0] = 0.0f, o[g][1] = 0.0f;
    if (has) split_outputs(a, &s, l, f + first, d, G, o);
    split_put(a, &s, l, has, parts == 1u, first, d, HD, G, o);
    if (parts > 1u) {
        split_join(a, &s, l->last, 16u);
        return;
    }
    ie_barrier();
    split_result(a, &s, l, HD);
}

#define ATTN_SPLIT(NAME, HD, H, G) \
    IE_KERNEL(256) ie_attn_##NAME##_##HD(ie_abi_attn a) { \
        static IE_LDS_VAR float q[(H) * HD##u] __attribute__((aligned(16))); \
        static IE_LDS_VAR soft f[H]; \
        static IE_LDS_VAR uint32_t number[IE_FOLD_PAGES], last; \
        const split_lds l = {.q = q, .f = f, .number = number, .last = &last}; \
        attn_split(&a, &l, HD##u, H, G); \
    }
ATTN_SPLIT(one, 64, 1u, 1u)
ATTN_SPLIT(one, 128, 1u, 1u)
ATTN_SPLIT(one, 256, 1u, 1u)
ATTN_SPLIT(split, 64, 8u, 1u)
ATTN_SPLIT(split, 128, 4u, 1u)
ATTN_SPLIT(split, 256, 2u, 1u)
