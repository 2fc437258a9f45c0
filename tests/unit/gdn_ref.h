/* Plain references for tests/unit/test_gdn.c: a Gated DeltaNet layer in f32, operation by operation as docs/NUMERICS.md writes
 * it (bits must be equal), and token by token in double (bounds the error of the orders). One value head and its key head. */
#ifndef GDN_REF_H
#define GDN_REF_H

#include <stdlib.h>

#include "ops_ref.h"

#define REF_HD 128u /* largest head */

/* Sum of x * y: 32 partial sums, halving tree. */
static float ref_dot32(const float *x, const float *y, uint32_t n) {
    float p[32] = {0};
    for (uint32_t i = 0; i < n; i++) p[i % 32] = fmaf(x[i], y[i], p[i % 32]);
    return ref_tree(p, 32);
}

/* Channel c of the convolution at token t of x [n][ld]; inputs before token 0 are zeros. */
static float ref_conv(const float *x, uint32_t ld, const float *taps, uint32_t c, uint32_t t) {
    float a = 0;
    for (uint32_t k = 0; k < 4; k++) a = fmaf(taps[c * 4 + k], t + k < 3 ? 0.0f : x[(t + k - 3) * ld + c], a);
    return ie_silu(a);
}

static void ref_l2(float *x, uint32_t n, float eps, float scale) {
    float root = sqrtf(ref_dot32(x, x, n) + eps), r = 1.0f / root;
    for (uint32_t i = 0; i < n; i++) {
        float y = x[i] * r;
        x[i] = y * scale;
    }
}

/* s [hd key][hd value] */
static void ref_step(float *s, uint32_t hd, const float *q, const float *k, const float *v, float beta, float log_decay, float *o) {
    float g = ie_exp(log_decay), kq = ref_dot32(k, q, hd);
    for (uint32_t j = 0; j < hd; j++) {
        float a[4] = {0}, b[4] = {0};
        for (uint32_t i = 0; i < hd; i++) {
            uint32_t m = i / (hd / 4);
            a[m] = fmaf(s[i * hd + j], k[i], a[m]);
            b[m] = fmaf(s[i * hd + j], q[i], b[m]);
        }
        float sk = (a[0] + a[2]) + (a[1] + a[3]), sq = (b[0] + b[2]) + (b[1] + b[3]);
        float d = fmaf(-g, sk, v[j]) * beta, old = g * sq;
        o[j] = fmaf(d, kq, old);
        for (uint32_t i = 0; i < hd; i++) {
            float kept = g * s[i * hd + j];
            s[i * hd + j] = fmaf(k[i], d, kept);
        }
    }
}

/* n tokens of a segment, rows hd apart; update: s becomes the state after them. */
static void ref_segment(float *s, uint32_t hd, uint32_t n, const float *q, const float *k, const float *v, const float *beta,
                        const float *log_decay, float *o, int update) {
    float c[32], *d = malloc(32 * hd * sizeof *d);
    for (uint32_t t = 0; t < n; t++) c[t] = t ? c[t - 1] + log_decay[t] : log_decay[0];
    for (uint32_t t = 0; t < n; t++) {
        float gamma = ie_exp(c[t]), l[32], m[32];
        for (uint32_t u = 0; u <= t; u++) {
            float kk = 0, qk = 0, e = ie_exp(c[t] - c[u]), be = beta[t] * e;
            for (uint32_t i = 0; i < hd; i++) kk = fmaf(k[t * hd + i], k[u * hd + i], kk), qk = fmaf(q[t * hd + i], k[u * hd + i], qk);
            l[u] = be * kk;
            m[u] = e * qk;
        }
        for (uint32_t j = 0; j < hd; j++) {
            float sk = 0, sq = 0;
            for (uint32_t i = 0; i < hd; i++) sk = fmaf(k[t * hd + i], s[i * hd + j], sk), sq = fmaf(q[t * hd + i], s[i * hd + j], sq);
            float x = fmaf(-gamma, sk, v[t * hd + j]) * beta[t], y = gamma * sq;
            for (uint32_t u = 0; u < t; u++) x = fmaf(-l[u], d[u * hd + j], x);
            d[t * hd + j] = x;
            for (uint32_t u = 0; u <= t; u++) y = fmaf(m[u], d[u * hd + j], y);
            o[t * hd + j] = y;
        }
    }
    for (uint32_t i = 0; update && i < hd; i++)
        for (uint32_t j = 0; j < hd; j++) {
            float x = ie_exp(c[n - 1]) * s[i * hd + j];
            for (uint32_t t = 0; t < n; t++) {
                float dt = ie_exp(c[n - 1] - c[t]) * d[t * hd + j];
                x = fmaf(k[t * hd + i], dt, x);
            }
            s[i * hd + j] = x;
        }
    free(d);
}

/* The recurrence as published: S = g S; d = beta (v - S^T k); S += k d^T; o = S^T q. */
static void ref_step_double(double *s, uint32_t hd, const float *q, const float *k, const float *v, double beta, double log_decay,
                            double *o) {
    double g = exp(log_decay);
    for (uint32_t j = 0; j < hd; j++) {
        double sk = 0, sq = 0;
        for (uint32_t i = 0; i < hd; i++) {
            s[i * hd + j] *= g;
            sk += s[i * hd + j] * (double)k[i];
        }
        double d = beta * ((double)v[j] - sk);
        for (uint32_t i = 0; i < hd; i++) {
            s[i * hd + j] += (double)k[i] * d;
            sq += s[i * hd + j] * (double)q[i];
        }
        o[j] = sq;
    }
}

static void ref_gated_norm(const float *x, const float *w, const float *z, uint32_t n, float eps, float *y) {
    float mean = ref_dot32(x, x, n) / (float)n, root = sqrtf(mean + eps), r = 1.0f / root;
    for (uint32_t i = 0; i < n; i++) {
        float t = x[i] * r, u = t * w[i];
        y[i] = u * ie_silu(z[i]);
    }
}

#endif
