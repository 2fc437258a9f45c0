/* Kernels over rows: norms, RoPE, f16, SwiGLU. Compiled once for each SIMD level. */

/* The halving tree 16, 8, 4, 2, 1 over 32 lanes. */
IE_VEC float tree32(const vf *v) {
#if IE_VW == 16u
    return vf_tree(vf_add(v[0], v[1]));
#else
    return vf_tree(vf_add(vf_add(v[0], v[2]), vf_add(v[1], v[3])));
#endif
}

/* 1 / sqrt(ss / n + eps), each operation rounded. */
IE_VEC float inverse_rms(float ss, uint32_t n, float eps) {
    float mean = ss / (float)n;
    return 1.0f / sqrtf(mean + eps);
}

/* Sum of squares in the order sum256: lane j of 256 adds the squares of elements j, j + 256, ... */
static float sum_squares(const float *x, uint32_t n) {
    enum { A = 8, LANES = A * IE_VW };
    float p[256];
    for (uint32_t j = 0; j < 256u; j += LANES) {
        vf a[A];
        for (uint32_t v = 0; v < A; v++) a[v] = vf_zero();
        uint32_t i = j;
        for (; i + LANES <= n; i += 256u)
            for (uint32_t v = 0; v < A; v++) {
                vf e = vf_load(x + i + v * IE_VW);
                a[v] = vf_fma(e, e, a[v]);
            }
        for (uint32_t v = 0; v < A && i + v * IE_VW < n; v++) {
            uint32_t left = n - i - v * IE_VW;
            vf e = left < IE_VW ? vf_load_n(x + i + v * IE_VW, left) : vf_load(x + i + v * IE_VW);
            a[v] = vf_fma(e, e, a[v]); /* absent elements add a zero: no change to a sum of squares */
        }
        for (uint32_t v = 0; v < A; v++) vf_store(p + j + v * IE_VW, a[v]);
    }
    float s[8];
    for (uint32_t g = 0; g < 8; g++) {
        vf v[32u / IE_VW];
        for (uint32_t k = 0; k < 32u / IE_VW; k++) v[k] = vf_load(p + 32u * g + k * IE_VW);
        s[g] = tree32(v);
    }
    return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
}

static float k_rms(const float *x, uint32_t n, float eps) { return inverse_rms(sum_squares(x, n), n, eps); }

static void k_norm(const float *x, const float *w, float r, uint32_t n, float *y) {
    vf rv = vf_set1(r);
    uint32_t i = 0;
    for (; i + IE_VW <= n; i += IE_VW) vf_store(y + i, vf_mul(vf_mul(vf_load(x + i), rv), vf_load(w + i)));
    if (i < n) vf_store_n(y + i, vf_mul(vf_mul(vf_load_n(x + i, n - i), rv), vf_load_n(w + i, n - i)), n - i);
}

static void k_head_norm(float *x, const float *w, uint32_t hd, float eps) {
    vf a[32u / IE_VW];
    for (uint32_t k = 0; k < 32u / IE_VW; k++) a[k] = vf_zero();
    for (uint32_t i = 0; i < hd; i += 32u)
        for (uint32_t k = 0; k < 32u / IE_VW && i + k * IE_VW < hd; k++) {
            uint32_t at = i + k * IE_VW, left = hd - at;
            vf e = left < IE_VW ? vf_load_n(x + at, left) : vf_load(x + at);
            a[k] = vf_fma(e, e, a[k]);
        }
    k_norm(x, w, inverse_rms(tree32(a), hd, eps), hd, x);
}

/* Pairs (2 i, 2 i + 1): y0 = fma(x0, c, -(x1 * s)), y1 = fma(x0, s, x1 * c). cs lies in memory as the pairs do. */
IE_VEC vf rope_pairs(vf x, vf cs) {
    static const int32_t sign[16] = {INT32_MIN, 0, INT32_MIN, 0, INT32_MIN, 0, INT32_MIN, 0,
                                     INT32_MIN, 0, INT32_MIN, 0, INT32_MIN, 0, INT32_MIN, 0};
    vf second = vf_mul(vf_dup_odd(x), vf_swap_pairs(cs));
    second = vi_as_vf(vi_xor(vf_as_vi(second), vi_load(sign)));
    return vf_fma(vf_dup_even(x), cs, second);
}

static void rope_halves(float *x, const float *cs, uint32_t half) {
    for (uint32_t i = 0; i < half; i += IE_VW) {
        uint32_t n = half - i < IE_VW ? half - i : IE_VW;
        vf a, b, t0, t1, c, s;
        if (n == IE_VW) {
            a = vf_load(x + i), b = vf_load(x + half + i);
            t0 = vf_load(cs + 2 * i), t1 = vf_load(cs + 2 * i + IE_VW);
        } else {
            a = vf_load_n(x + i, n), b = vf_load_n(x + half + i, n);
            t0 = 2 * n < IE_VW ? vf_load_n(cs + 2 * i, 2 * n) : vf_load(cs + 2 * i);
            t1 = 2 * n > IE_VW ? vf_load_n(cs + 2 * i + IE_VW, 2 * n - IE_VW) : vf_zero();
        }
        vf_unzip(t0, t1, &c, &s);
        vf y0 = vf_fma(a, c, vf_neg(vf_mul(b, s))), y1 = vf_fma(a, s, vf_mul(b, c));
        if (n == IE_VW) vf_store(x + i, y0), vf_store(x + half + i, y1);
        else vf_store_n(x + i, y0, n), vf_store_n(x + half + i, y1, n);
    }
}

static void k_rope(float *x, const float *cs, uint32_t half, bool neox) {
    if (neox) {
        rope_halves(x, cs, half);
        return;
    }
    uint32_t i = 0, n = 2 * half;
    for (; i + IE_VW <= n; i += IE_VW) vf_store(x + i, rope_pairs(vf_load(x + i), vf_load(cs + i)));
    if (i < n) vf_store_n(x + i, rope_pairs(vf_load_n(x + i, n - i), vf_load_n(cs + i, n - i)), n - i);
}

static void k_to_f16(const float *x, uint32_t n, uint16_t *y) {
    uint32_t i = 0;
    for (; i + IE_VW <= n; i += IE_VW) vf_store_f16(y + i, vf_load(x + i));
    if (i < n) {
        uint16_t h[IE_VW];
        vf_store_f16(h, vf_load_n(x + i, n - i));
        memcpy(y + i, h, (n - i) * sizeof *y);
    }
}

static void k_swiglu(const float *gate, const float *up, uint32_t n, float *y) {
    uint32_t i = 0;
    for (; i + IE_VW <= n; i += IE_VW) vf_store(y + i, vf_mul(vf_silu(vf_load(gate + i)), vf_load(up + i)));
    if (i < n) vf_store_n(y + i, vf_mul(vf_silu(vf_load_n(gate + i, n - i)), vf_load_n(up + i, n - i)), n - i);
}
