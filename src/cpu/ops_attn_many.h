/* Attention of blocks of many queries (prompts): a page's K and V are turned into floats once for all of them, K with its
 * positions side by side, so that a score's eight partial sums are eight vectors and their tree needs no exchange of lanes.
 * Each query's operations are those of ops_attn_kern.h. Compiled once for each SIMD level. */

#define MANY 16u /* queries from which on the unpacking pays */
#define MVB 4u   /* vectors of V, and queries, a register block of the V step */
#if IE_VW == 16u
#define MVQ 6u
#else
#define MVQ 2u
#endif

/* K of a page, [chunks][32][8] f16, to kt [8 chunks][32]: even and odd elements are parted three times. */
static void many_k(const uint16_t *k, uint32_t chunks, float *kt) {
    for (uint32_t c = 0; c < chunks; c++, kt += 8u * IE_PAGE)
        for (uint32_t p = 0; p < IE_PAGE; p += IE_VW, k += 8u * IE_VW) {
            vf a[8], b[8];
#pragma GCC unroll 8
            for (uint32_t i = 0; i < 8u; i++) a[i] = vf_load_f16(k + i * IE_VW);
#pragma GCC unroll 4
            for (uint32_t i = 0; i < 4u; i++) vf_unzip(a[2 * i], a[2 * i + 1], &b[i], &b[i + 4u]);
#pragma GCC unroll 4
            for (uint32_t i = 0; i < 4u; i++) vf_unzip(b[2 * i], b[2 * i + 1], &a[i], &a[i + 4u]);
#pragma GCC unroll 4
            for (uint32_t i = 0; i < 4u; i++) vf_unzip(a[2 * i], a[2 * i + 1], &b[i], &b[i + 4u]);
#pragma GCC unroll 8
            for (uint32_t i = 0; i < 8u; i++) vf_store(kt + i * IE_PAGE + p, b[i]);
        }
}

/* V of a page to floats, rows ld apart. A row may end inside the last vector: what is read beyond belongs to the pool. */
static void many_v(const uint16_t *v, uint32_t hdp, float *to, uint32_t ld) {
    for (uint32_t i = 0; i < IE_PAGE; i++, v += hdp, to += ld)
        for (uint32_t d = 0; d < hdp; d += IE_VW) vf_store(to + d, vf_load_f16(v + d));
}

/* Scores of n (1 .. QB) queries, ld floats apart, against IE_VW positions; kt as many_k leaves it. */
IE_VEC void many_scores(const float *q, size_t ld, const uint32_t n, const float *kt, uint32_t chunks, float scale, float *s) {
    vf a[QB][8];
#pragma GCC unroll 3
    for (uint32_t j = 0; j < n; j++)
#pragma GCC unroll 8
        for (uint32_t i = 0; i < 8u; i++) a[j][i] = vf_zero();
    const float *at[QB];
#pragma GCC unroll 3
    for (uint32_t j = 0; j < n; j++) at[j] = q + j * ld;
    for (uint32_t c = 0; c < chunks; c++, kt += 8u * IE_PAGE)
#pragma GCC unroll 8
        for (uint32_t i = 0; i < 8u; i++) {
            vf kv = vf_load(kt + i * IE_PAGE);
#pragma GCC unroll 3
            for (uint32_t j = 0; j < n; j++) a[j][i] = vf_fma_bcast(a[j][i], kv, at[j] + c * 8u + i);
        }
    vf sv = vf_set1(scale);
#pragma GCC unroll 3
    for (uint32_t j = 0; j < n; j++) {
        vf *v = a[j], even = vf_add(vf_add(v[0], v[4]), vf_add(v[2], v[6])), odd = vf_add(vf_add(v[1], v[5]), vf_add(v[3], v[7]));
        vf_store(s + j * IE_PAGE, vf_mul(vf_add(even, odd), sv));
    }
}

static void many_scores_1(const float *q, size_t ld, const float *kt, uint32_t chunks, float scale, float *s) {
    many_scores(q, ld, 1, kt, chunks, scale, s);
}
static void many_scores_qb(const float *q, size_t ld, const float *kt, uint32_t chunks, float scale, float *s) {
    many_scores(q, ld, QB, kt, chunks, scale, s);
}

/* Scores of queries [q0, q1) of the block against the positions of a page that any of them sees. */
static void many_page_scores(const ie_attn_block *a, const float *kt, uint32_t q0, uint32_t q1, uint32_t page, float *s) {
    uint32_t pos0 = page * IE_PAGE, ld = ie_attn_ld(a->hd), chunks = ie_head_pad(a->hd) / 8u;
    for (uint32_t j = q0, n; j < q1; j += n) {
        n = q1 - j < QB ? 1 : QB;
        for (uint32_t p = 0; p < IE_PAGE; p += IE_VW) {
            if (a->hi[j + n - 1] <= pos0 + p || a->lo[j] >= pos0 + p + IE_VW) continue;
            const float *q = a->scratch + (uint64_t)j * ld;
            float *to = s + (uint64_t)j * IE_PAGE + p;
            (n == 1 ? many_scores_1 : many_scores_qb)(q, ld, kt + p, chunks, a->scale, to);
        }
        for (uint32_t i = j; i < j + n; i++) hide(a, i, page, s + (uint64_t)i * IE_PAGE);
    }
}

/* o[j][0 .. nv vectors) = o * c, then += e[j][i] * v[i] for i in [i0, i1), ascending; n queries. */
IE_VEC void many_values(float *o, size_t ld, const uint32_t n, const uint32_t nv, const float *e, const float *v, uint32_t i0,
                        uint32_t i1, const float *c, const bool scaled) {
    vf a[MVQ][MVB];
    sums_load(a[0], MVB, o, ld, n, nv, c, scaled);
    const float *end = e + i1; /* pointers, so that the loop computes no 32-bit indices */
    e += i0;
    for (v += (size_t)i0 * ld; e < end; e++, v += ld) {
        vf x[MVB];
#pragma GCC unroll 8
        for (size_t d = 0; d < nv; d++) x[d] = vf_load(v + d * IE_VW);
#pragma GCC unroll 6
        for (size_t j = 0; j < n; j++) {
#pragma GCC unroll 8
            for (uint32_t d = 0; d < nv; d++) a[j][d] = vf_fma_bcast(a[j][d], x[d], e + j * IE_PAGE);
        }
    }
    sums_store(a[0], MVB, o, ld, n, nv);
}

/* All vectors of a head for n queries. */
IE_VEC void many_values_head(float *o, size_t ld, const uint32_t n, const float *e, const float *v, size_t hdp, uint32_t i0, uint32_t i1,
                             const float *c, const bool scaled) {
    size_t d = 0, nv = (hdp + IE_VW - 1u) / IE_VW;
    for (; d + MVB <= nv; d += MVB) many_values(o + d * IE_VW, ld, n, MVB, e, v + d * IE_VW, i0, i1, c, scaled);
    if (d + 2u <= nv) many_values(o + d * IE_VW, ld, n, 2, e, v + d * IE_VW, i0, i1, c, scaled), d += 2u;
    if (d < nv) many_values(o + d * IE_VW, ld, n, 1, e, v + d * IE_VW, i0, i1, c, scaled);
}

#define VALUES(name, n, scaled)                                                                                              \
    static void name(float *o, size_t ld, const float *e, const float *v, size_t hdp, uint32_t i0, uint32_t i1, const float *c) { \
        many_values_head(o, ld, n, e, v, hdp, i0, i1, c, scaled);                                                            \
    }
VALUES(many_values_1, 1, true)
VALUES(many_values_q, MVQ, true)
VALUES(many_values_more, 1, false)
#undef VALUES

static void many_page_values(const ie_attn_block *a, const float *v, uint32_t q0, uint32_t q1, uint32_t page, const float *s, const float *c,
                             float *o) {
    uint32_t ld = ie_attn_ld(a->hd), hdp = ie_head_pad(a->hd);
    for (uint32_t j = q0, n; j < q1; j += n) {
        float *to = o + (uint64_t)j * ld;
        const float *e = s + (uint64_t)j * IE_PAGE;
        n = q1 - j < MVQ ? 1 : MVQ;
        /* positions that all n see; begins differ only with a window, ends beyond them are added below */
        uint32_t lo = ie_slot_lo(page, a->lo[j + n - 1]), hi = ie_slot_hi(page, a->hi[j] - 1u);
        if (ie_slot_lo(page, a->lo[j]) != lo || lo >= hi) n = 1, lo = ie_slot_lo(page, a->lo[j]);
        (n == 1 ? many_values_1 : many_values_q)(to, ld, e, v, hdp, lo, hi, c + j);
        for (uint32_t i = 1; i < n; i++) {
            uint32_t end = ie_slot_hi(page, a->hi[j + i] - 1u);
            if (end > hi) many_values_more(to + i * ld, ld, e + i * IE_PAGE, v, hdp, hi, end, NULL);
        }
    }
}
