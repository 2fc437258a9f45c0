/* Kernels of Gated DeltaNet layers. Compiled once for each SIMD level. A state is [hd / 32][hd][32]: value dimensions are
 * lanes, in blocks of 32; the orders of the sums are in docs/NUMERICS.md. */

enum { GW = 32u / IE_VW }; /* vectors of a block of 32 value dimensions */

/* taps [n][4] -> out [4][n] */
static void k_conv_taps(const float *taps, uint32_t n, float *out) {
    for (uint32_t i = 0; i < n; i += IE_VW, taps += 4u * IE_VW) {
        vf e0, e1, o0, o1, t[4];
        vf_unzip(vf_load(taps), vf_load(taps + IE_VW), &e0, &o0);
        vf_unzip(vf_load(taps + 2u * IE_VW), vf_load(taps + 3u * IE_VW), &e1, &o1);
        vf_unzip(e0, e1, &t[0], &t[2]);
        vf_unzip(o0, o1, &t[1], &t[3]);
        for (uint32_t k = 0; k < 4u; k++) vf_store(out + k * n + i, t[k]);
    }
}

/* y may be any of the inputs. */
static void k_conv(const float *const x[4], const float *taps, uint32_t n, float *y) {
    for (uint32_t i = 0; i < n; i += IE_VW) {
        vf a = vf_zero();
        for (uint32_t k = 0; k < 4u; k++) a = vf_fma(vf_load(taps + k * n + i), vf_load(x[k] + i), a);
        vf_store(y + i, vf_silu(a));
    }
}

/* Sum over n (a multiple of 32) of x * y: 32 partial sums, then the tree. */
IE_VEC float dot32(const float *x, const float *y, uint32_t n) {
    vf a[GW];
    for (uint32_t k = 0; k < GW; k++) a[k] = vf_zero();
    for (uint32_t i = 0; i < n; i += 32u)
        for (uint32_t k = 0; k < GW; k++) a[k] = vf_fma(vf_load(x + i + k * IE_VW), vf_load(y + i + k * IE_VW), a[k]);
    return tree32(a);
}

static void k_l2_norm(float *x, uint32_t n, float eps, float scale) {
    vf r = vf_set1(1.0f / sqrtf(dot32(x, x, n) + eps)), s = vf_set1(scale);
    for (uint32_t i = 0; i < n; i += IE_VW) vf_store(x + i, vf_mul(vf_mul(vf_load(x + i), r), s));
}

static void k_gated_norm(const float *x, const float *w, const float *z, uint32_t n, float eps, float *y) {
    vf r = vf_set1(inverse_rms(dot32(x, x, n), n, eps));
    for (uint32_t i = 0; i < n; i += IE_VW)
        vf_store(y + i, vf_mul(vf_mul(vf_mul(vf_load(x + i), r), vf_load(w + i)), vf_silu(vf_load(z + i))));
}

static void k_gate(const float *x, const float *gate, uint32_t n, float *y) {
    for (uint32_t i = 0; i < n; i += IE_VW) {
        if (n - i >= IE_VW) vf_store(y + i, vf_mul(vf_load(x + i), vf_sigmoid(vf_load(gate + i))));
        else vf_store_n(y + i, vf_mul(vf_load_n(x + i, n - i), vf_sigmoid(vf_load_n(gate + i, n - i))), n - i);
    }
}

/* ---- token by token ------------------------------------------------------------------------------------------------- */

/* One token, one block of 32 value dimensions: s [hd][32], v and its result. */
IE_VEC void gdn_step(float *s, const uint32_t hd, const float *k, const float *q, float kq, float g, float beta, float *v) {
    vf a[4][GW], b[4][GW];
    for (uint32_t m = 0; m < 4u; m++)
        for (uint32_t w = 0; w < GW; w++) a[m][w] = b[m][w] = vf_zero();
    const uint32_t part = hd / 4u;
    for (uint32_t i = 0; i < part; i++)
#pragma GCC unroll 4
        for (uint32_t m = 0; m < 4u; m++) {
            vf kv = vf_set1(k[m * part + i]), qv = vf_set1(q[m * part + i]);
#pragma GCC unroll 4
            for (uint32_t w = 0; w < GW; w++) {
                vf e = vf_load(s + (m * part + i) * 32u + w * IE_VW);
                a[m][w] = vf_fma(e, kv, a[m][w]);
                b[m][w] = vf_fma(e, qv, b[m][w]);
            }
        }
    vf d[GW], gv = vf_set1(g);
    for (uint32_t w = 0; w < GW; w++) {
        vf sk = vf_add(vf_add(a[0][w], a[2][w]), vf_add(a[1][w], a[3][w]));
        vf sq = vf_add(vf_add(b[0][w], b[2][w]), vf_add(b[1][w], b[3][w]));
        d[w] = vf_mul(vf_fma(vf_neg(gv), sk, vf_load(v + w * IE_VW)), vf_set1(beta));
        vf_store(v + w * IE_VW, vf_fma(d[w], vf_set1(kq), vf_mul(gv, sq)));
    }
#pragma GCC unroll 4
    for (uint32_t i = 0; i < hd; i++) {
        vf kv = vf_set1(k[i]);
        for (uint32_t w = 0; w < GW; w++) {
            float *at = s + i * 32u + w * IE_VW;
            vf_store(at, vf_fma(kv, d[w], vf_mul(gv, vf_load(at))));
        }
    }
}

static void k_gdn_steps(float *s, uint32_t hd, const ie_gdn_rows *r) {
    enum { BLOCK = 64 };
    float g[BLOCK], kq[BLOCK];
    for (uint32_t t0 = 0; t0 < r->n; t0 += BLOCK) {
        uint32_t n = r->n - t0 < BLOCK ? r->n - t0 : BLOCK;
        for (uint32_t t = 0; t < n; t++) {
            g[t] = ie_exp(r->log_decay[(t0 + t) * r->ld]);
            kq[t] = dot32(r->k + (t0 + t) * r->ld, r->q + (t0 + t) * r->ld, hd);
        }
        for (uint32_t c = 0; c < hd; c += 32u)
            for (uint32_t t = 0; t < n; t++) {
                uint64_t at = (t0 + t) * r->ld;
                gdn_step(s + (uint64_t)c * hd, hd, r->k + at, r->q + at, kq[t], g[t], r->beta[at], r->v + at + c);
            }
    }
}

/* ---- segments ------------------------------------------------------------------------------------------------------- */

/* Tiles of IE_VW x IE_VW, turned: y[i][t] = x[t][i]. Taking apart even and odd elements of all of them as one row, once for each bit of a lane's
 * number, exchanges rows and lanes. */
IE_VEC void turn(const float *x, size_t ldx, uint32_t rows, float *y, size_t ldy) {
    vf a[IE_VW], b[IE_VW];
#pragma GCC unroll 16
    for (uint32_t t = 0; t < IE_VW; t++) a[t] = t < rows ? vf_load(x + t * ldx) : vf_zero();
#pragma GCC unroll 4
    for (uint32_t bit = 1; bit < IE_VW; bit *= 2u) {
#pragma GCC unroll 8
        for (uint32_t t = 0; t < IE_VW / 2u; t++) vf_unzip(a[2u * t], a[2u * t + 1u], &b[t], &b[t + IE_VW / 2u]);
#pragma GCC unroll 16
        for (uint32_t t = 0; t < IE_VW; t++) a[t] = b[t];
    }
#pragma GCC unroll 16
    for (uint32_t t = 0; t < IE_VW; t++) vf_store(y + t * ldy, a[t]);
}

/* c[rows][nv vectors] = a[rows][n] . b[n][nv vectors], each sum from +0 (or from c * scale) with n ascending. */
IE_VEC void product_rows(const float *a, size_t lda, const uint32_t rows, const float *b, size_t ldb, const uint32_t nv, uint32_t n, float *c,
                         size_t ldc, const float *scale) {
    vf acc[8][2];
#pragma GCC unroll 8
    for (uint32_t r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (uint32_t k = 0; k < nv; k++) acc[r][k] = scale ? vf_mul(vf_load(c + r * ldc + k * IE_VW), vf_set1(*scale)) : vf_zero();
    for (uint32_t i = 0; i < n; i++, b += ldb) {
        vf bv[2];
#pragma GCC unroll 2
        for (uint32_t k = 0; k < nv; k++) bv[k] = vf_load(b + k * IE_VW);
#pragma GCC unroll 8
        for (size_t r = 0; r < rows; r++) {
            vf x = vf_set1(a[r * lda + i]);
#pragma GCC unroll 2
            for (uint32_t k = 0; k < nv; k++) acc[r][k] = vf_fma(x, bv[k], acc[r][k]);
        }
    }
#pragma GCC unroll 8
    for (uint32_t r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (uint32_t k = 0; k < nv; k++) vf_store(c + r * ldc + k * IE_VW, acc[r][k]);
}

enum { PR = IE_VW == 16u ? 8u : 4u }; /* rows a register block */

/* c[rows][32] = a[rows][n] . b[n][32] in that order. */
static void product(const float *a, size_t lda, uint32_t rows, const float *b, size_t ldb, uint32_t n, float *c, size_t ldc,
                    const float *scale) {
    uint32_t r = 0;
    for (; r + PR <= rows; r += PR)
        for (uint32_t w = 0; w < 32u; w += 2u * IE_VW) product_rows(a + r * lda, lda, PR, b + w, ldb, 2, n, c + r * ldc + w, ldc, scale);
    for (; r < rows; r++)
        for (uint32_t w = 0; w < 32u; w += 2u * IE_VW) product_rows(a + r * lda, lda, 1, b + w, ldb, 2, n, c + r * ldc + w, ldc, scale);
}

/* The same where row r is only wanted up to column first + r: whole vectors of others are left out. */
static void product_causal(const float *a, size_t lda, uint32_t rows, const float *b, size_t ldb, uint32_t n, float *c, size_t ldc, uint32_t first) {
    for (uint32_t r = 0, m; r < rows; r += m) {
        m = r + PR <= rows ? PR : 1;
        for (uint32_t w = 0; w < first + r + m; w += IE_VW) {
            if (m == PR) product_rows(a + r * lda, lda, PR, b + w, ldb, 1, n, c + r * ldc + w, ldc, NULL);
            else product_rows(a + r * lda, lda, 1, b + w, ldb, 1, n, c + r * ldc + w, ldc, NULL);
        }
    }
}

/* y[hd] = y * first, then += f[s] * d[s][hd] for s ascending. */
static void combine(float *y, const float *f, const float *d, uint32_t n, uint32_t hd) {
    for (uint32_t c = 0; c < hd;) {
        if (hd - c >= 8u * IE_VW) {
            vf a[8];
            for (uint32_t w = 0; w < 8u; w++) a[w] = vf_load(y + c + w * IE_VW);
            for (uint32_t s = 0; s < n; s++) {
                vf x = vf_set1(f[s]);
                for (uint32_t w = 0; w < 8u; w++) a[w] = vf_fma(x, vf_load(d + (size_t)s * hd + c + w * IE_VW), a[w]);
            }
            for (uint32_t w = 0; w < 8u; w++) vf_store(y + c + w * IE_VW, a[w]);
            c += 8u * IE_VW;
        } else {
            vf a = vf_load(y + c);
            for (uint32_t s = 0; s < n; s++) a = vf_fma(vf_set1(f[s]), vf_load(d + (size_t)s * hd + c), a);
            vf_store(y + c, a);
            c += IE_VW;
        }
    }
}

static void k_gdn_segment(const ie_gdn_segment *g) {
    const uint32_t hd = g->hd, n = g->n, q0 = g->first;
    float *kt = g->scratch, *kk = kt + 32u * hd, *qk = kk + 32u * 32u, *ks = qk + 32u * 32u, *qs = g->out, *d = ks;
    float c[32], gamma[32], f[32];
    for (uint32_t t = 0; t < n; t++) c[t] = t ? c[t - 1] + g->log_decay[t] : g->log_decay[0];
    for (uint32_t t = 0; t < 32u; t += IE_VW) {
        for (uint32_t i = n; i < 32u; i++) c[i] = c[n - 1];
        vf_store(gamma + t, vf_exp(vf_load(c + t)));
    }
    for (uint32_t t = 0; t < 32u; t += IE_VW)
        for (uint32_t i = 0; i < hd; i += IE_VW) turn(g->k + t * hd + i, hd, t < n ? n - t : 0, kt + i * 32u + t, 32);
    product_causal(g->k, hd, n, kt, 32, hd, kk, 32, 0);
    product_causal(g->q + q0 * hd, hd, n - q0, kt, 32, hd, qk + q0 * 32u, 32, q0);
    for (uint32_t b = 0; b < hd; b += 32u) {
        product(g->k, hd, n, g->s + (size_t)b * hd, 32, g->zero ? 0 : hd, ks + b, hd, NULL);
        product(g->q + q0 * hd, hd, n - q0, g->s + (size_t)b * hd, 32, g->zero ? 0 : hd, qs + q0 * hd + b, hd, NULL);
    }
    for (uint32_t t = 0; t < n; t++) {
        vf ng = vf_set1(-gamma[t]), beta = vf_set1(g->beta[t]);
        for (uint32_t i = 0; i < hd; i += IE_VW)
            vf_store(d + t * hd + i, vf_mul(vf_fma(ng, vf_load(ks + t * hd + i), vf_load(g->v + t * hd + i)), beta));
        float e[32];
        for (uint32_t s = 0; s <= t; s += IE_VW) {
            vf x = vf_exp(vf_sub(vf_set1(c[t]), vf_load(c + s)));
            vf_store(e + s, x);
            vf_store(f + s, vf_neg(vf_mul(vf_mul(beta, x), vf_load(kk + t * 32u + s))));
        }
        combine(d + t * hd, f, d, t, hd);
        if (t < q0) continue;
        for (uint32_t s = 0; s <= t; s += IE_VW) vf_store(f + s, vf_mul(vf_load(e + s), vf_load(qk + t * 32u + s)));
        vf gv = vf_set1(gamma[t]);
        for (uint32_t i = 0; i < hd; i += IE_VW) vf_store(qs + t * hd + i, vf_mul(gv, vf_load(qs + t * hd + i)));
        combine(qs + t * hd, f, d, t + 1, hd);
    }
    if (!g->update) return;
    for (uint32_t t = 0; t < n; t++) {
        vf x = vf_set1(ie_exp(c[n - 1] - c[t]));
        for (uint32_t i = 0; i < hd; i += IE_VW) vf_store(d + t * hd + i, vf_mul(x, vf_load(d + t * hd + i)));
    }
    for (uint32_t b = 0; b < hd; b += 32u)
        product(kt, 32, hd, d + b, hd, n, g->s + (size_t)b * hd, 32, g->zero ? NULL : &gamma[n - 1]);
}
