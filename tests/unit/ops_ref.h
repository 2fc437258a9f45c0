/* Plain references for tests/unit/test_ops.c: each op twice, once in f32 operation by operation as docs/NUMERICS.md writes it
 * (bits must be equal), once in double (bounds the error of the order itself). */
#ifndef OPS_REF_H
#define OPS_REF_H

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ie_core.h"
#include "ie_math.h"

/* v[l] += v[l + h] for h = n / 2, ..., 1 (n a power of two); overwrites v. */
static inline float ref_tree(float *v, uint32_t n) {
    for (uint32_t h = n / 2; h >= 1; h /= 2)
        for (uint32_t l = 0; l < h; l++) v[l] = v[l] + v[l + h];
    return v[0];
}

static inline float ref_rms(const float *x, uint32_t n, float eps, uint32_t lanes) {
    float p[256] = {0}, g[8];
    for (uint32_t i = 0; i < n; i++) p[i % lanes] = fmaf(x[i], x[i], p[i % lanes]);
    float ss;
    if (lanes == 256) {
        for (uint32_t k = 0; k < 8; k++) g[k] = ref_tree(p + 32 * k, 32);
        ss = ref_tree(g, 8);
    } else {
        ss = ref_tree(p, 32);
    }
    float mean = ss / (float)n, sum = mean + eps, root = sqrtf(sum);
    return 1.0f / root;
}

static inline void ref_norm(const float *x, const float *w, uint32_t n, float eps, uint32_t lanes, float *y) {
    float r = ref_rms(x, n, eps, lanes);
    for (uint32_t i = 0; i < n; i++) {
        float t = x[i] * r;
        y[i] = t * w[i];
    }
}

static inline void ref_norm_double(const float *x, const float *w, uint32_t n, float eps, double *y) {
    double ss = 0;
    for (uint32_t i = 0; i < n; i++) ss += (double)x[i] * x[i];
    double r = 1.0 / sqrt(ss / n + (double)eps);
    for (uint32_t i = 0; i < n; i++) y[i] = x[i] * r * (double)w[i];
}

static inline void ref_rope(float *x, const float *cs, uint32_t half, int neox) {
    for (uint32_t i = 0; i < half; i++) {
        uint32_t a = neox ? i : 2 * i, b = neox ? i + half : 2 * i + 1;
        float x0 = x[a], x1 = x[b], c = cs[2 * i], s = cs[2 * i + 1];
        float m0 = x1 * s, m1 = x1 * c;
        x[a] = fmaf(x0, c, -m0);
        x[b] = fmaf(x0, s, m1);
    }
}

/* Q8 block of up to 32 values. */
static inline void ref_q8(const float *x, uint32_t n, uint32_t *block) {
    float v[32] = {0}, amax = 0;
    memcpy(v, x, n * sizeof *x);
    for (uint32_t i = 0; i < 32; i++) amax = fabsf(v[i]) > amax ? fabsf(v[i]) : amax;
    float d = amax / 127.0f;
    int8_t q[32] = {0};
    int32_t lo = 0, hi = 0;
    if (d >= 0x1p-126f) {
        float id = 1.0f / d;
        for (uint32_t i = 0; i < 32; i++) {
            float f = rintf(v[i] * id);
            q[i] = (int8_t)(f > 127 ? 127 : f < -127 ? -127 : f);
        }
    } else {
        d = 0;
    }
    for (uint32_t i = 0; i < 16; i++) lo += q[i], hi += q[16 + i];
    float sa = d * (float)(lo + hi);
    int32_t neg[3] = {-(lo + hi), -lo, -hi};
    memset(block, 0, 64);
    memcpy(block, q, 32);
    memcpy(block + IE_Q8_D, &d, 4);
    memcpy(block + IE_Q8_SA, &sa, 4);
    memcpy(block + IE_Q8_NSUM, neg, 12);
}

/* ---- attention ------------------------------------------------------------------------------------------------------ */

/* K and V of one KV head as f16, position by position (contiguous). */
typedef struct {
    const uint16_t *k, *v; /* [positions][hd] */
    uint32_t hd;
} ref_kv;

static inline float ref_score(const float *q, const uint16_t *k, uint32_t hd, float scale) {
    float a[8] = {0};
    for (uint32_t d = 0; d < hd; d++) a[d % 8] = fmaf(q[d], ie_f16_to_f32(k[d]), a[d % 8]);
    float s = ref_tree(a, 8);
    return s * scale;
}

/* One query that sees [lo, hi). */
static inline void ref_attn(const float *q, const ref_kv *kv, uint32_t lo, uint32_t hi, float scale, float *out) {
    enum { PART = IE_PAGE * IE_FOLD_PAGES };
    uint32_t hd = kv->hd, k0 = lo / PART, k1 = (hi - 1) / PART + 1;
    float *o = calloc((size_t)(k1 - k0) * hd, sizeof *o), *m = calloc(k1, sizeof *m), *l = calloc(k1, sizeof *l);
    for (uint32_t part = k0; part < k1; part++) {
        float pm = -INFINITY, pl = 0, *po = o + (size_t)(part - k0) * hd;
        for (uint32_t p0 = part * PART; p0 < (part + 1) * PART; p0 += IE_PAGE) {
            uint32_t a = p0 > lo ? p0 : lo, b = p0 + IE_PAGE < hi ? p0 + IE_PAGE : hi;
            if (a >= b) continue;
            float e[IE_PAGE] = {0}, s[IE_PAGE], tree[IE_PAGE], top = -INFINITY;
            for (uint32_t i = a; i < b; i++) {
                s[i - p0] = ref_score(q, kv->k + (size_t)i * hd, hd, scale);
                top = s[i - p0] > top ? s[i - p0] : top;
            }
            float now = pm > top ? pm : top, c = pm == -INFINITY ? 0 : ie_exp(pm - now);
            for (uint32_t i = a; i < b; i++) e[i - p0] = ie_exp(s[i - p0] - now);
            memcpy(tree, e, sizeof e);
            pl = fmaf(pl, c, ref_tree(tree, IE_PAGE));
            for (uint32_t d = 0; d < hd; d++) {
                float y = po[d] * c;
                for (uint32_t i = a; i < b; i++) y = fmaf(e[i - p0], ie_f16_to_f32(kv->v[(size_t)i * hd + d]), y);
                po[d] = y;
            }
            pm = now;
        }
        m[part - k0] = pm;
        l[part - k0] = pl;
    }
    float top = -INFINITY, sum = 0;
    for (uint32_t k = 0; k < k1 - k0; k++) top = m[k] > top ? m[k] : top;
    for (uint32_t k = 0; k < k1 - k0; k++) sum = fmaf(l[k], ie_exp(m[k] - top), sum);
    float inv = 1.0f / sum;
    for (uint32_t d = 0; d < hd; d++) {
        float y = 0;
        for (uint32_t k = 0; k < k1 - k0; k++) y = fmaf(o[(size_t)k * hd + d], ie_exp(m[k] - top), y);
        out[d] = y * inv;
    }
    free(o);
    free(m);
    free(l);
}

/* The same in double; *size: sum of p |v|, for the error bound. */
static inline void ref_attn_double(const float *q, const ref_kv *kv, uint32_t lo, uint32_t hi, float scale, double *out, double *size) {
    uint32_t hd = kv->hd;
    double *p = calloc(hi, sizeof *p), top = -INFINITY, sum = 0;
    for (uint32_t i = lo; i < hi; i++) {
        for (uint32_t d = 0; d < hd; d++) p[i] += (double)q[d] * (double)ie_f16_to_f32(kv->k[(size_t)i * hd + d]);
        p[i] *= (double)scale;
        top = p[i] > top ? p[i] : top;
    }
    for (uint32_t i = lo; i < hi; i++) sum += p[i] = exp(p[i] - top);
    for (uint32_t d = 0; d < hd; d++) {
        out[d] = size[d] = 0;
        for (uint32_t i = lo; i < hi; i++) {
            double v = (double)ie_f16_to_f32(kv->v[(size_t)i * hd + d]);
            out[d] += p[i] / sum * v;
            size[d] += p[i] / sum * fabs(v);
        }
    }
    free(p);
}

#endif
