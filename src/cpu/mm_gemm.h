/* Several tokens: a strip of at most eight blocks of 16 rows is unpacked once into a few KB (weight bytes and scales, the
 * same for all formats of a kind), then each group of 16 tokens runs over it with its sums in registers. A strip never
 * crosses a segment, so every token's sum has the single-token order. */
#ifndef IE_MM_GEMM_H
#define IE_MM_GEMM_H

#define IE_STRIP 8u
#define IE_HV (IE_MM_ROWS / IE_VW) /* vectors in 16 rows */

/* An unpacked block of 16 rows. */
typedef struct {
    uint32_t w[8][IE_MM_ROWS];
    float d[IE_MM_ROWS], m[IE_MM_ROWS];
    int32_t s0[IE_MM_ROWS], s1[IE_MM_ROWS], n0[IE_MM_ROWS], n1[IE_MM_ROWS];
} ie_sblk;

typedef float ie_sums[IE_MM_ROWS]; /* one token's sums of 16 rows */

typedef struct {
    const ie_sblk *blk;
    uint32_t nb;
    bool open, close, first; /* the strip begins a segment; ends it; that segment is the row's first */
    bool last;               /* the strip is the row's last */
    bool put;                /* with `last`: all 16 rows and all tokens of the call exist, and their sums go to y at once */
    float *y;                /* the first token's first row, as are res and bias (NULL: none) */
    const float *res, *bias;
    size_t y_ld, res_ld;
    const uint32_t *x;       /* the first token's first block of this strip */
    uint32_t x_step;         /* words from a block of a token to its next */
    ie_sums *acc, *tot;      /* of the group's first token */
    const uint8_t *next;     /* what the caches are asked for meanwhile, since unpacking waits for every line: `ahead` bytes a block, or NULL */
    uint32_t ahead;
    const float *y_next;     /* with `put`: the same rows of the next group's first token, asked for while this one is worked on; or NULL */
} ie_strip;

/* ---- classes: what the kernels below are made for. Where every byte may be dotted at once a kind needs one class, its bytes
 * biased alike (AVX-512: unsigned ones) or not at all; on AVX2 the largest byte decides how often 16-bit sums are widened. */

#if IE_S8_BIAS
#define IE_CLASSES(X) X(DOT, 7, 255) X(DOT_MIN, 0, 255) X(DOT2, 5, 255) X(DOT2_MIN, 0, 255)
#define IE_NTS(X, ...) X(1, __VA_ARGS__) X(2, __VA_ARGS__) X(3, __VA_ARGS__) X(4, __VA_ARGS__) X(5, __VA_ARGS__) \
    X(6, __VA_ARGS__) X(8, __VA_ARGS__) X(12, __VA_ARGS__) X(16, __VA_ARGS__)
#elif IE_U8_RUNS
#define IE_CLASSES(X) X(DOT, 3, 15) X(DOT, 4, 31) X(DOT, 0, 0) X(DOT_MIN, 0, 15) X(DOT_MIN, 0, 31) X(DOT2, 2, 7) \
    X(DOT2, 5, 63) X(DOT2_MIN, 0, 3)
#define IE_NTS(X, ...) X(1, __VA_ARGS__) X(2, __VA_ARGS__) X(4, __VA_ARGS__) X(8, __VA_ARGS__)
#else
#define IE_CLASSES(X) X(DOT, 0, 0) X(DOT_MIN, 0, 255) X(DOT2, 0, 0) X(DOT2_MIN, 0, 255)
#define IE_NTS(X, ...) X(1, __VA_ARGS__) X(4, __VA_ARGS__)
#endif

/* The bias of the bytes in a strip (as ie_u_bias). */
IE_VEC uint32_t ie_strip_bias(ie_format_id f) {
#if IE_S8_BIAS
    return ie_u_kind(f) == IE_DOT ? 7u : ie_u_kind(f) == IE_DOT2 ? 5u : 0u;
#elif IE_U8_RUNS
    return ie_u_bias(f);
#else
    return ie_u_bias(f) * 0u;
#endif
}

IE_VEC void ie_strip_put(ie_format_id f, ie_sblk *o, uint32_t v, const ie_ublk *u) {
    const uint32_t more = ie_byte_u(ie_bias_byte(ie_strip_bias(f)) - ie_bias_byte(ie_u_bias(f)), 0), at = v * IE_VW;
    const ie_dot_kind kind = ie_u_kind(f);
IE_UNROLL
    for (uint32_t j = 0; j < 8; j++) vi_store(&o->w[j][at], more ? vi_add8(u->w[j], IE_B4(more)) : u->w[j]);
    vf_store(&o->d[at], u->d);
    if (kind == IE_DOT_MIN || kind == IE_DOT2_MIN) vf_store(&o->m[at], u->m);
    if (kind == IE_DOT2 || kind == IE_DOT2_MIN) {
        vi_store(&o->s0[at], u->s0);
        vi_store(&o->s1[at], u->s1);
    }
    if (kind == IE_DOT2_MIN) {
        vi_store(&o->n0[at], u->n0);
        vi_store(&o->n1[at], u->n1);
    }
}

/* Blocks [b, b + nb) of halves [h0, h1) of a tile, whose first unit is `units`. K formats: b a multiple of 8, nb = 8. Both
 * halves in one pass: the words are read in the order in which they lie, which is what hardware prefetchers follow. */
IE_VEC void ie_unpack_strip(ie_format_id f, ie_sblk (*o)[IE_STRIP], const uint32_t *units, uint32_t h0, uint32_t h1, uint32_t b,
                            uint32_t nb) {
    const uint32_t step = ie_u_blocks(f);
    const uint32_t *unit = units + (size_t)(b / step) * ie_u_unit_words(f);
    for (uint32_t done = 0; done < nb; done += step, unit += ie_u_unit_words(f)) {
        ie_uhead head[2 * IE_HV];
        for (uint32_t v = h0 * IE_HV; v < h1 * IE_HV; v++) ie_u_head(f, &head[v], ie_u_at(unit, v * IE_VW));
IE_UNROLL
        for (uint32_t i = 0; i < step; i++) {
            for (uint32_t v = h0 * IE_HV; v < h1 * IE_HV; v++) {
                ie_ublk u;
                ie_u_block(f, &u, &head[v], ie_u_at(unit, v * IE_VW), i);
                ie_strip_put(f, &o[v / IE_HV][done + i], v % IE_HV, &u);
            }
        }
    }
}

/* ---- a strip times nt tokens of one group */

IE_VEC void ie_strip_get(ie_dot_kind kind, ie_ublk *u, const ie_sblk *s, uint32_t v) {
    const uint32_t at = v * IE_VW;
IE_UNROLL
    for (uint32_t j = 0; j < 8; j++) u->w[j] = vi_load(&s->w[j][at]);
    u->d = vf_load(&s->d[at]);
    if (kind == IE_DOT_MIN || kind == IE_DOT2_MIN) u->m = vf_load(&s->m[at]);
    if (kind == IE_DOT2 || kind == IE_DOT2_MIN) {
        u->s0 = vi_load(&s->s0[at]);
        u->s1 = vi_load(&s->s1[at]);
    }
    if (kind == IE_DOT2_MIN) {
        u->n0 = vi_load(&s->n0[at]);
        u->n1 = vi_load(&s->n1[at]);
    }
}

/* Sums of the last strip to y, as ie_mm_put: from registers, since what has just been stored is not soon read again. */
IE_VEC void ie_strip_put_y(const ie_strip *p, vf *acc, uint32_t nt, uint32_t at) {
    if (!p->first) {
IE_UNROLL
        for (uint32_t t = 0; t < nt; t++) acc[t] = vf_add(vf_load(&p->tot[t][at]), acc[t]);
    }
    if (p->bias) {
        const vf b = vf_load(p->bias + at);
IE_UNROLL
        for (uint32_t t = 0; t < nt; t++) acc[t] = vf_add(acc[t], b);
    }
    if (p->res) {
        const float *res = p->res + at;
IE_UNROLL
        for (uint32_t t = 0; t < nt; t++, res += p->res_ld) acc[t] = vf_add(vf_load(res), acc[t]);
    }
    float *y = p->y + at;
IE_UNROLL
    for (uint32_t t = 0; t < nt; t++, y += p->y_ld) vf_store(y, acc[t]);
}

/* Lines of y that the next group's sums will go to, a share of them with each block: they lie far apart, and a store waits for its line. */
IE_VEC void ie_ask_y(const ie_strip *p, uint32_t b) {
    const uint32_t each = (IE_DECODE_T + p->nb - 1u) / p->nb;
    for (uint32_t t = b * each; t < (b + 1u) * each && t < IE_DECODE_T; t++) __builtin_prefetch(p->y_next + t * p->y_ld, 1);
}

IE_VEC void ie_strip_mm(ie_dot_kind kind, uint32_t bias, uint32_t umax, uint32_t nt, const ie_strip *p) {
    for (uint32_t v = 0; v < IE_HV; v++) {
        const uint32_t at = v * IE_VW;
        const uint32_t *x = p->x;
        vf acc[IE_DECODE_T];
IE_UNROLL
        for (uint32_t t = 0; t < nt; t++) acc[t] = p->open ? vf_zero() : vf_load(&p->acc[t][at]);
        for (uint32_t b = 0; b < p->nb; b++, x += p->x_step) {
            ie_ublk u;
            if (v == 0 && p->next)
                for (uint32_t i = 0; i < p->ahead; i += 64u) __builtin_prefetch(p->next + b * p->ahead + i);
            if (v == 0 && p->y_next) ie_ask_y(p, b);
            ie_strip_get(kind, &u, &p->blk[b], v);
#if IE_S8_BIAS
            const uint32_t turn = kind == IE_DOT2_MIN ? 1u : kind == IE_DOT2 ? 2u : 4u; /* as many as registers are left for */
IE_UNROLL
            for (uint32_t t = 0; t + turn <= nt; t += turn) ie_block_accs(kind, bias, turn, &u, x + t * IE_Q8_WORDS, acc + t);
IE_UNROLL
            for (uint32_t t = nt / turn * turn; t < nt; t++)
#else
IE_UNROLL
            for (uint32_t t = 0; t < nt; t++)
#endif
                acc[t] = ie_block_acc(kind, bias, umax, nt <= 2 ? IE_CHAINS : 1u, &u, x + t * IE_Q8_WORDS, acc[t]);
        }
        if (p->put) {
            ie_strip_put_y(p, acc, nt, at);
        } else if (!p->close) {
IE_UNROLL
            for (uint32_t t = 0; t < nt; t++) vf_store(&p->acc[t][at], acc[t]);
        } else if (p->first) {
IE_UNROLL
            for (uint32_t t = 0; t < nt; t++) vf_store(&p->tot[t][at], acc[t]);
        } else {
IE_UNROLL
            for (uint32_t t = 0; t < nt; t++) vf_store(&p->tot[t][at], vf_add(vf_load(&p->tot[t][at]), acc[t]));
        }
    }
}

typedef void ie_strip_fn(const ie_strip *p);

#define IE_STRIP_FN(NT, KIND, BIAS, UMAX) \
    static __attribute__((noinline)) void strip_##KIND##_##UMAX##_##BIAS##_##NT(const ie_strip *p) { \
        ie_strip_mm(IE_##KIND, BIAS, UMAX, NT, p); \
    }
#define IE_STRIP_CLASS(KIND, BIAS, UMAX) IE_NTS(IE_STRIP_FN, KIND, BIAS, UMAX)
IE_CLASSES(IE_STRIP_CLASS)
#undef IE_STRIP_CLASS
#undef IE_STRIP_FN

typedef struct {
    uint32_t nt;
    ie_strip_fn *fn;
} ie_strip_row;

/* The kernel of a class for the fewest tokens that are at least nt, or for the most there is. */
IE_VEC ie_strip_row ie_strip_pick(const ie_strip_row *rows, uint32_t n, uint32_t nt) {
    uint32_t i = 0;
    while (i + 1 < n && rows[i].nt < nt) i++;
    return rows[i];
}

#define IE_STRIP_ROW(NT, KIND, BIAS, UMAX) {NT, strip_##KIND##_##UMAX##_##BIAS##_##NT},
#define IE_STRIP_TABLE(KIND, BIAS, UMAX) \
    static const ie_strip_row rows_##KIND##_##UMAX##_##BIAS[] = {IE_NTS(IE_STRIP_ROW, KIND, BIAS, UMAX)};
IE_CLASSES(IE_STRIP_TABLE)
#undef IE_STRIP_TABLE
#undef IE_STRIP_ROW

#define IE_STRIP_IS(KIND, BIAS, UMAX) \
    if (ie_u_kind(f) == IE_##KIND && ie_strip_bias(f) == BIAS && (!IE_U8_RUNS || ie_u_max(f) == UMAX)) { \
        *n = sizeof rows_##KIND##_##UMAX##_##BIAS / sizeof(ie_strip_row); \
        return rows_##KIND##_##UMAX##_##BIAS; \
    }
IE_VEC const ie_strip_row *ie_strip_rows(ie_format_id f, uint32_t *n) {
    IE_CLASSES(IE_STRIP_IS)
    *n = 0;
    return NULL;
}
#undef IE_STRIP_IS

/* ---- all tokens of some rows */

typedef void ie_unpack_fn(ie_sblk (*o)[IE_STRIP], const uint32_t *units, uint32_t h0, uint32_t h1, uint32_t b, uint32_t nb);

typedef struct {
    ie_unpack_fn *unpack;
    const ie_strip_row *rows;
    uint32_t n_rows, step, unit_words;
} ie_gemm_plan;

typedef struct {
    ie_sblk blk[2][IE_STRIP];
    ie_sums acc[2][IE_MAX_T], tot[2][IE_MAX_T];
} ie_gemm_work;

/* The sums of tokens [t, t + n) of one half of a tile, where not all of them exist. */
static void ie_gemm_put(const ie_mm_args *a, const ie_sums *tot, uint32_t row, uint32_t t, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t v = 0; v < IE_HV; v++) ie_mm_put(a, t + i, row + v * IE_VW, vf_load(&tot[i][v * IE_VW]));
}

/* Where a half's sums go. */
static void ie_gemm_y(const ie_mm_args *a, ie_strip *p, uint32_t row, uint32_t t) {
    p->y = a->y + (size_t)t * a->y_ld + row;
    p->y_ld = a->y_ld;
    p->bias = a->bias ? a->bias + row : NULL;
    p->res = a->res ? a->res + (size_t)t * a->res_ld + row : NULL;
    p->res_ld = a->res_ld;
}

/* One strip, all tokens, halves [h0, h1) of the tile. Meanwhile the caches are asked for `bytes` behind p->next, a share of them with each call. */
static void ie_gemm_strip(const ie_gemm_plan *pl, const ie_mm_args *a, ie_gemm_work *wk, ie_strip *p, uint32_t tile, uint32_t b,
                          uint32_t h0, uint32_t h1, uint32_t bytes) {
    const uint32_t nblk = ie_nblk(a->mat->cols), group = ie_q8_group(a->t);
    const uint32_t calls = ie_tok_groups(a->t, IE_DECODE_T) * (h1 - h0);
    const uint8_t *next = p->next, *end = next + bytes;
    p->ahead = (bytes / (calls * p->nb) + 63u) / 64u * 64u;
    p->x_step = group * IE_Q8_WORDS;
    for (uint32_t t0 = 0; t0 < a->t; t0 += IE_DECODE_T) {
        const uint32_t left = a->t - t0 < IE_DECODE_T ? a->t - t0 : IE_DECODE_T;
        const uint32_t *x = (const uint32_t *)a->x + (size_t)ie_q8_at(t0, b, nblk, group) * IE_Q8_WORDS;
        for (uint32_t i = 0; i < left;) {
            const ie_strip_row k = ie_strip_pick(pl->rows, pl->n_rows, left - i);
            p->x = x + i * IE_Q8_WORDS;
            for (uint32_t h = h0; h < h1; h++) {
                p->next = next < end ? next : NULL;
                next += (size_t)p->nb * p->ahead;
                p->blk = wk->blk[h];
                p->acc = wk->acc[h] + t0 + i;
                p->tot = wk->tot[h] + t0 + i;
                const uint32_t row = tile * IE_TILE_ROWS + h * IE_MM_ROWS, n = left - i < k.nt ? left - i : k.nt;
                p->put = p->last && n == k.nt && row + IE_MM_ROWS <= a->mat->rows;
                if (p->put) ie_gemm_y(a, p, row, t0 + i);
                p->y_next = p->put && t0 + 2u * IE_DECODE_T <= a->t ? p->y + IE_DECODE_T * p->y_ld : NULL;
                k.fn(p);
                if (p->last && !p->put) ie_gemm_put(a, p->tot, row, t0 + i, n);
            }
            i += k.nt;
        }
    }
}

/* Halves [h0, h1) of a tile. next: what comes after it, NULL: the tile behind it. */
static void ie_gemm_tile(const ie_gemm_plan *pl, const ie_mm_args *a, ie_gemm_work *wk, uint32_t tile, uint32_t h0, uint32_t h1, const uint32_t *next) {
    const uint32_t nblk = ie_nblk(a->mat->cols), nseg = ie_nseg(nblk);
    const uint32_t *units = a->w + (size_t)ie_unit(tile, 0, nblk / pl->step) * pl->unit_words, block_words = pl->unit_words / pl->step;
    for (uint32_t s = 0; s < nseg; s++) {
        const uint32_t begin = ie_seg_begin(s, nblk), end = ie_seg_begin(s + 1, nblk);
        for (uint32_t b = begin; b < end; b += IE_STRIP) {
            const uint32_t nb = end - b < IE_STRIP ? end - b : IE_STRIP;
            ie_strip p = {.nb = nb, .open = b == begin, .close = b + nb == end, .first = s == 0, .last = b + nb == nblk};
            p.next = (const uint8_t *)(p.last && next ? next : units + (size_t)(b + nb) * block_words); /* strips and tiles follow each other */
            pl->unpack(wk->blk, units, h0, h1, b, nb);
            ie_gemm_strip(pl, a, wk, &p, tile, b, h0, h1, nb * block_words * 4u);
        }
    }
}

static void ie_gemm(const ie_gemm_plan *pl, const ie_mm_args *a, uint32_t row0, uint32_t row1) {
    _Alignas(64) ie_gemm_work wk;
    for (uint32_t row = row0; row < row1;) {
        const uint32_t h0 = row % IE_TILE_ROWS / IE_MM_ROWS, tile = row / IE_TILE_ROWS;
        const uint32_t h1 = row1 - tile * IE_TILE_ROWS > IE_MM_ROWS ? 2 : 1;
        row = (tile + 1) * IE_TILE_ROWS;
        ie_gemm_tile(pl, a, &wk, tile, h0, h1, row < row1 ? NULL : a->next);
    }
}

#define IE_GEMM(F) \
    static __attribute__((noinline)) void unpack_##F(ie_sblk (*o)[IE_STRIP], const uint32_t *u, uint32_t h0, uint32_t h1, \
                                                     uint32_t b, uint32_t nb) { \
        ie_unpack_strip(IE_F_##F, o, u, h0, h1, b, nb); \
    } \
    static void gemm_##F(const ie_mm_args *a, uint32_t row0, uint32_t row1) { \
        ie_gemm_plan pl = {.unpack = unpack_##F, .step = ie_u_blocks(IE_F_##F), .unit_words = ie_u_unit_words(IE_F_##F)}; \
        pl.rows = ie_strip_rows(IE_F_##F, &pl.n_rows); \
        ie_gemm(&pl, a, row0, row1); \
    }
IE_GEMM(Q4_0)
IE_GEMM(Q4_1)
IE_GEMM(Q5_0)
IE_GEMM(Q5_1)
IE_GEMM(Q8_0)
IE_GEMM(Q2_K)
IE_GEMM(Q3_K)
IE_GEMM(Q4_K)
IE_GEMM(Q5_K)
IE_GEMM(Q6_K)
IE_GEMM(IQ4_NL)
IE_GEMM(IQ4_XS)
#undef IE_GEMM

#endif
