/* Attention of a block of queries over paged f16 KV. Compiled once for each SIMD level.
 *
 * Pages are the outer loop, so that a page's K and V are read once for all queries of the block (they stay in cache) and
 * converted once for QB queries. Each query's operations are those of a query alone, whatever shares its block. */

#if IE_VW == 16u
#define QB 3u /* queries a register block: QB * 8 accumulators */
#define VB 8u /* vectors of V a register block */
#else
#define QB 1u
#define VB 4u
#endif
#define VQ 3u /* queries a block of the V step */

/* Pages lie far apart, so the processor does not foresee the next one: with few queries, whose arithmetic would not hide the
 * wait, the same bytes of the next page are asked for while a page is worked on (`next`, NULL otherwise), a few lines with each
 * step and into the second cache: in a burst, or into the first, they would take the miss buffers that the loads need. */
#define FEW 8u
IE_VEC void fetch(const void *p, size_t bytes) {
    for (size_t i = 0; i < bytes; i += 64u) __builtin_prefetch((const char *)p + i, 0, 2);
}
/* Positions [first, first + IE_VW) of K. */
IE_VEC void fetch_keys(const uint16_t *k, uint32_t chunks, uint32_t first) {
    for (uint32_t c = 0; c < chunks; c++) fetch(k + (c * IE_PAGE + first) * 8u, IE_VW * 16u);
}

/* Scores of n (1 .. QB) queries, ld floats apart, against IE_VW positions from `first` on. A vector of K holds IE_VPOS
 * positions times 8 partial sums; 8 vectors give one vector of scores. */
IE_VEC void scores(const float *q, size_t ld, const uint32_t n, const uint16_t *k, uint32_t chunks, uint32_t first,
                   float scale, float *s, const uint16_t *next) {
    vf a[QB][8];
    for (uint32_t j = 0; j < n; j++)
        for (uint32_t i = 0; i < 8u; i++) a[j][i] = vf_zero();
    k += first * 8u;
    for (uint32_t c = 0; c < chunks; c++, k += IE_PAGE * 8u) {
        if (next) fetch(next + (c * IE_PAGE + first) * 8u, IE_VW * 16u);
        vf qv[QB];
        for (uint32_t j = 0; j < n; j++) qv[j] = vf_rep8(q + j * ld + c * 8u);
#pragma GCC unroll 8
        for (uint32_t i = 0; i < 8u; i++) {
            vf kv = vf_load_f16(k + i * IE_VW);
            for (uint32_t j = 0; j < n; j++) a[j][i] = vf_fma(qv[j], kv, a[j][i]);
        }
    }
    vf sv = vf_set1(scale);
    for (uint32_t j = 0; j < n; j++) vf_store(s + j * IE_PAGE + first, vf_mul(vf_tree8(a[j]), sv));
}

/* Scores of the positions of a page that query i does not see: exp gives +0 for them. */
IE_VEC void hide(const ie_attn_block *a, uint32_t i, uint32_t page, float *s) {
    for (uint32_t p = 0, end = ie_slot_lo(page, a->lo[i]); p < end; p++) s[p] = -INFINITY;
    for (uint32_t p = ie_slot_hi(page, a->hi[i] - 1u); p < IE_PAGE; p++) s[p] = -INFINITY;
}

/* Scores of queries [q0, q1) of the block against the positions of a page that any of them sees. */
static void page_scores(const ie_attn_block *a, const uint16_t *k, const uint16_t *next, uint32_t q0, uint32_t q1, uint32_t page,
                        float *s) {
    uint32_t pos0 = page * IE_PAGE, ld = ie_attn_ld(a->hd), chunks = ie_head_pad(a->hd) / 8u;
    for (uint32_t j = q0; j < q1; j += QB) {
        uint32_t n = q1 - j < QB ? q1 - j : QB;
        for (uint32_t p = 0; p < IE_PAGE; p += IE_VW) {
            const uint16_t *ahead = j == q0 ? next : NULL;
            if (a->hi[j + n - 1] <= pos0 + p || a->lo[j] >= pos0 + p + IE_VW) {
                if (ahead) fetch_keys(ahead, chunks, p);
                continue;
            }
            const float *q = a->scratch + (uint64_t)j * ld;
            float *to = s + (uint64_t)j * IE_PAGE;
            if (n == 1) scores(q, ld, 1, k, chunks, p, a->scale, to, ahead);
#if IE_VW == 16u
            else if (n == 2) scores(q, ld, 2, k, chunks, p, a->scale, to, ahead);
            else scores(q, ld, 3, k, chunks, p, a->scale, to, ahead);
#endif
        }
        for (uint32_t i = j; i < j + n; i++) hide(a, i, page, s + (uint64_t)i * IE_PAGE);
    }
}

/* Running maxima m, sums l; s becomes exp(s - m), c the factors of what was summed before. sum: scratch. A query's exponentials wait for
 * its own maximum only; the factors, which are needed last, are computed for all queries at once. */
static void page_softmax(uint32_t q0, uint32_t q1, float *s, float *m, float *l, float *c, float *sum) {
    enum { N = IE_PAGE / IE_VW };
    for (uint32_t j = q0; j < q1; j++) {
        vf v[N];
        for (uint32_t k = 0; k < N; k++) v[k] = vf_load(s + j * IE_PAGE + k * IE_VW);
        vf most = v[0];
        for (uint32_t k = 1; k < N; k++) most = vf_max(most, v[k]);
        const float top = vf_hmax(most), old = m[j], now = old > top ? old : top;
        m[j] = now;
        c[j] = old - now;
        for (uint32_t k = 0; k < N; k++) {
            v[k] = vf_exp(vf_sub(v[k], vf_set1(now)));
            vf_store(s + j * IE_PAGE + k * IE_VW, v[k]);
        }
        sum[j] = tree32(v);
    }
    uint32_t j = q0;
    for (; j + IE_VW <= q1; j += IE_VW) {
        vf f = vf_exp(vf_load(c + j));
        vf_store(c + j, f);
        vf_store(l + j, vf_fma(vf_load(l + j), f, vf_load(sum + j)));
    }
    if (j < q1) {
        vf f = vf_exp(vf_load_n(c + j, q1 - j));
        vf_store_n(c + j, f, q1 - j);
        vf_store_n(l + j, vf_fma(vf_load_n(l + j, q1 - j), f, vf_load_n(sum + j, q1 - j)), q1 - j);
    }
}

/* Sums of n queries in registers, `row` vectors apart: nv vectors of o for each, times c (with `scaled`). */
IE_VEC void sums_load(vf *a, const uint32_t row, const float *o, size_t ld, const uint32_t n, const uint32_t nv, const float *c, const bool scaled) {
#pragma GCC unroll 6
    for (uint32_t j = 0; j < n; j++) {
        vf f = vf_set1(scaled ? c[j] : 1.0f);
#pragma GCC unroll 8
        for (uint32_t d = 0; d < nv; d++) {
            vf x = vf_load(o + j * ld + d * IE_VW);
            a[j * row + d] = scaled ? vf_mul(x, f) : x;
        }
    }
}
IE_VEC void sums_store(const vf *a, const uint32_t row, float *o, size_t ld, const uint32_t n, const uint32_t nv) {
#pragma GCC unroll 6
    for (uint32_t j = 0; j < n; j++)
#pragma GCC unroll 8
        for (uint32_t d = 0; d < nv; d++) vf_store(o + j * ld + d * IE_VW, a[j * row + d]);
}

/* o[j][0 .. nv vectors) = o * c (with `scaled`), then += e[j][i] * v[i] for i in [i0, i1), ascending. Rows of v lie hdp apart, `next`
 * likewise. */
IE_VEC void values(float *o, size_t ld, const uint32_t n, const uint32_t nv, const float *e, const uint16_t *v, const uint16_t *next, size_t hdp,
                   uint32_t i0, uint32_t i1, const float *c, const bool scaled) {
    vf a[VQ][VB];
    sums_load(a[0], VB, o, ld, n, nv, c, scaled);
    const float *end = e + i1; /* pointers, so that the loop computes no 32-bit indices */
    e += i0;
    const uint16_t *ahead = next ? next + (size_t)i0 * hdp : NULL;
    for (v += (size_t)i0 * hdp; e < end; e++, v += hdp) {
        if (ahead) fetch(ahead, nv * IE_VW * 2u), ahead += hdp;
        vf w[VQ];
#pragma GCC unroll 3
        for (size_t j = 0; j < n; j++) w[j] = vf_set1(e[j * IE_PAGE]);
#pragma GCC unroll 8
        for (size_t d = 0; d < nv; d++) {
            vf x = vf_load_f16(v + d * IE_VW);
#pragma GCC unroll 3
            for (uint32_t j = 0; j < n; j++) a[j][d] = vf_fma(w[j], x, a[j][d]);
        }
    }
    sums_store(a[0], VB, o, ld, n, nv);
}

/* All vectors of a head for n queries. A row of V may end inside the last vector (head sizes of 8 modulo 16): what is read
 * beyond belongs to the pool and only reaches padding lanes. */
IE_VEC void values_head(float *o, size_t ld, const uint32_t n, const float *e, const uint16_t *v, const uint16_t *next, size_t hdp,
                        uint32_t i0, uint32_t i1, const float *c, const bool scaled) {
    size_t d = 0, nv = (hdp + IE_VW - 1u) / IE_VW;
#define PART(N) values(o + d * IE_VW, ld, n, N, e, v + d * IE_VW, next ? next + d * IE_VW : NULL, hdp, i0, i1, c, scaled), d += N
    while (d + VB <= nv) PART(VB);
#if IE_VW == 16u
    if (d + 4u <= nv) PART(4u);
#endif
    if (d + 2u <= nv) PART(2u);
    if (d < nv) PART(1u);
#undef PART
}

#define VALUES(name, n, scaled)                                                                                              \
    static void name(float *o, size_t ld, const float *e, const uint16_t *v, const uint16_t *next, size_t hdp, uint32_t i0,  \
                     uint32_t i1, const float *c) {                                                                          \
        values_head(o, ld, n, e, v, next, hdp, i0, i1, c, scaled);                                                           \
    }
VALUES(values_1, 1, true)
VALUES(values_2, 2, true)
VALUES(values_3, 3, true)
VALUES(values_more, 1, false)
#undef VALUES

static void page_values(const ie_attn_block *a, const uint16_t *v, const uint16_t *next, uint32_t q0, uint32_t q1, uint32_t page, const float *s,
                        const float *c, float *o) {
    uint32_t ld = ie_attn_ld(a->hd), hdp = ie_head_pad(a->hd);
    for (uint32_t j = q0; j < q1; j += VQ, next = NULL) { /* the next page is asked for with the first queries */
        uint32_t n = q1 - j < VQ ? q1 - j : VQ;
        float *to = o + (uint64_t)j * ld;
        const float *e = s + (uint64_t)j * IE_PAGE;
        /* positions that all see; a query's own begin before them only with a window, its end after them is added below */
        uint32_t lo = ie_slot_lo(page, a->lo[j + n - 1]), hi = ie_slot_hi(page, a->hi[j] - 1u);
        if (ie_slot_lo(page, a->lo[j]) != lo || lo >= hi) {
            if (next) fetch(next, IE_PAGE * hdp * 2u);
            for (uint32_t i = 0; i < n; i++)
                values_1(to + i * ld, ld, e + i * IE_PAGE, v, NULL, hdp, ie_slot_lo(page, a->lo[j + i]),
                         ie_slot_hi(page, a->hi[j + i] - 1u), c + j + i);
            continue;
        }
        if (next) fetch(next, lo * hdp * 2u), fetch(next + hi * hdp, (IE_PAGE - hi) * hdp * 2u);
        if (n == 3) values_3(to, ld, e, v, next, hdp, lo, hi, c + j);
        else if (n == 2) values_2(to, ld, e, v, next, hdp, lo, hi, c + j);
        else values_1(to, ld, e, v, next, hdp, lo, hi, c + j);
        for (uint32_t i = 1; i < n; i++) {
            uint32_t end = ie_slot_hi(page, a->hi[j + i] - 1u);
            if (end > hi) values_more(to + i * ld, ld, e + i * IE_PAGE, v, NULL, hdp, hi, end, NULL);
        }
    }
}

#include "ops_attn_many.h"

static void k_attn(const ie_attn_block *a) {
    uint32_t nqp = (a->nq + 15u) / 16u * 16u, ld = ie_attn_ld(a->hd), hdp = ie_head_pad(a->hd);
    float *s = a->scratch + (uint64_t)nqp * ld, *c = s + (uint64_t)nqp * IE_PAGE, *top = c + nqp, *kt = top + nqp, *vf_rows = kt + IE_PAGE * ld;
    const uint32_t last = a->nq ? ie_page_of(a->hi[a->nq - 1u] - 1u) : 0; /* page of the newest position */
    for (uint32_t part = a->part0; part < a->part1; part++) {
        float *o = a->part + (part - a->part0) * ie_attn_part_floats(a->nq, a->hd), *m = o + (uint64_t)a->nq * ld, *l = m + nqp;
        memset(o, 0, (uint64_t)a->nq * ld * sizeof *o);
        for (uint32_t j = 0; j < nqp; j++) m[j] = -INFINITY, l[j] = 0.0f;
        for (uint32_t page = ie_part_page(part); page < ie_part_page(part + 1u); page++) {
            uint32_t pos0 = page * IE_PAGE, q0 = 0, q1 = a->nq;
            while (q0 < q1 && a->hi[q0] <= pos0) q0++;
            while (q0 < q1 && a->lo[q1 - 1] >= pos0 + IE_PAGE) q1--;
            if (q0 == q1) continue;
            const uint16_t *k = a->kv + a->pages[page] * a->page_stride;
            const uint16_t *next = a->nq > FEW ? NULL : page < last ? a->kv + a->pages[page + 1u] * a->page_stride : a->after;
            if (q1 - q0 >= MANY) {
                many_k(k, hdp / 8u, kt);
                many_page_scores(a, kt, q0, q1, page, s);
                page_softmax(q0, q1, s, m, l, c, top);
                many_v(k + IE_PAGE * hdp, hdp, vf_rows, ld);
                many_page_values(a, vf_rows, q0, q1, page, s, c, o);
                continue;
            }
            page_scores(a, k, next, q0, q1, page, s);
            page_softmax(q0, q1, s, m, l, c, top);
            page_values(a, k + IE_PAGE * hdp, next ? next + IE_PAGE * hdp : NULL, q0, q1, page, s, c, o);
        }
    }
}

static void k_attn_join(float *part, uint32_t n_part, uint32_t query, uint32_t nq, uint32_t hd, float *out) {
    uint32_t nqp = (nq + 15u) / 16u * 16u, ld = ie_attn_ld(hd);
    uint64_t size = ie_attn_part_floats(nq, hd), m_at = (uint64_t)nq * ld + query;
    float top = -INFINITY, sum = 0.0f;
    for (uint32_t k = 0; k < n_part; k++) {
        float m = part[k * size + m_at];
        top = m > top ? m : top;
    }
    for (uint32_t k = 0; k < n_part; k++) { /* the factor of partial k takes the place of its maximum */
        float *m = part + k * size + m_at, w[IE_VW];
        vf_store(w, vf_exp(vf_set1(*m - top)));
        *m = w[0];
        sum = fmaf(m[nqp], w[0], sum);
    }
    vf inv = vf_set1(1.0f / sum);
    for (uint32_t d = 0; d < hd; d += IE_VW) {
        vf a = vf_zero();
        for (uint32_t k = 0; k < n_part; k++)
            a = vf_fma(vf_load(part + k * size + (uint64_t)query * ld + d), vf_set1(part[k * size + m_at]), a);
        a = vf_mul(a, inv);
        if (d + IE_VW <= hd) vf_store(out + d, a);
        else vf_store_n(out + d, a, hd - d);
    }
}
