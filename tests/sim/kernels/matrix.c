/* Quantised dots, matrix instructions, attention. */
#include "gpu.h"

typedef int v2i __attribute__((ext_vector_type(2)));
typedef int v8i __attribute__((ext_vector_type(8)));
typedef float v8f __attribute__((ext_vector_type(8)));
typedef f16 v8h __attribute__((ext_vector_type(8)));
typedef short v8s __attribute__((ext_vector_type(8)));
typedef __bf16 v8b __attribute__((ext_vector_type(8)));
typedef int v4i __attribute__((ext_vector_type(4)));

/* Rows of Q8 blocks (32 bytes and a scale) times a Q8 vector: one wave a row. */
KERNEL(128) gemv_q8(const i32 *w, const float *ws, const i32 *x, const float *xs, float *y, u32 blocks) {
    u32 row = GID_X * 4 + TID_X / 32, lane = TID_X & 31;
    float acc = 0;
    for (u32 b = lane; b < blocks; b += 32) {
        const v4i *p = (const v4i *)(w + (row * blocks + b) * 8), *q = (const v4i *)(x + b * 8);
        i32 d = 0;
        for (u32 k = 0; k < 2; k++) {
            v4i u = p[k], v = q[k];
            for (u32 j = 0; j < 4; j++) d = __builtin_amdgcn_sudot4(1, u[j], 1, v[j], d, 0);
        }
        acc = __builtin_fmaf(ws[row * blocks + b] * xs[b], (float)d, acc);
    }
    acc = wave_sum(acc);
    if (lane == 0) y[row] = acc;
}

/* Q4: nibbles less 8, unsigned against signed bytes, with the sum of x taken out. */
KERNEL(128) gemv_q4(const u32 *w, const float *ws, const i32 *x, const float *xs, float *y, u32 blocks) {
    u32 row = GID_X * 4 + TID_X / 32, lane = TID_X & 31;
    float acc = 0;
    for (u32 b = lane; b < blocks; b += 32) {
        i32 d = 0, s = 0;
        for (u32 k = 0; k < 4; k++) {
            u32 q = w[(row * blocks + b) * 4 + k];
            i32 lo = x[b * 8 + k], hi = x[b * 8 + 4 + k];
            d = __builtin_amdgcn_sudot4(0, (i32)(q & 0x0F0F0F0F), 1, lo, d, 0);
            d = __builtin_amdgcn_sudot4(0, (i32)(q >> 4 & 0x0F0F0F0F), 1, hi, d, 0);
            s = __builtin_amdgcn_sudot4(0, 0x01010101, 1, lo, s, 0);
            s = __builtin_amdgcn_sudot4(0, 0x01010101, 1, hi, s, 0);
        }
        acc = __builtin_fmaf(ws[row * blocks + b] * xs[b], (float)(d - 8 * s), acc);
    }
    acc = wave_sum(acc);
    if (lane == 0) y[row] = acc;
}

/* One 16 x 16 tile. A by rows, B by columns (K contiguous in both), D by rows. */
#define ROW (TID_X & 15)
#define HALF (TID_X >> 4)
KERNEL(32) wmma_iu8(const i8 *a, const i8 *b, i32 *d, i32 k) {
    v8i c = {0};
    for (i32 i = 0; i < k; i += 16) {
        v2i x = *(const v2i *)(a + (i32)ROW * k + i + 8 * (i32)HALF), y = *(const v2i *)(b + (i32)ROW * k + i + 8 * (i32)HALF);
        c = __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32_gfx12(1, x, 1, y, c, 0);
    }
    for (u32 r = 0; r < 8; r++) d[(8 * HALF + r) * 16 + ROW] = c[r];
}
KERNEL(32) wmma_iu4(const u8 *a, const u8 *b, i32 *d, i32 k) {
    v8i c = {0};
    for (i32 i = 0; i < k; i += 32) {
        v2i x = *(const v2i *)(a + ((i32)ROW * k + i + 16 * (i32)HALF) / 2), y = *(const v2i *)(b + ((i32)ROW * k + i + 16 * (i32)HALF) / 2);
        c = __builtin_amdgcn_wmma_i32_16x16x32_iu4_w32_gfx12(0, x, 1, y, c, 0);
    }
    for (u32 r = 0; r < 8; r++) d[(8 * HALF + r) * 16 + ROW] = c[r];
}
KERNEL(32) wmma_f16(const f16 *a, const f16 *b, float *d, i32 k) {
    v8f c = {0};
    for (i32 i = 0; i < k; i += 16) {
        v8h x = *(const v8h *)(a + (i32)ROW * k + i + 8 * (i32)HALF), y = *(const v8h *)(b + (i32)ROW * k + i + 8 * (i32)HALF);
        c = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(x, y, c);
    }
    for (u32 r = 0; r < 8; r++) d[(8 * HALF + r) * 16 + ROW] = c[r];
}
KERNEL(32) wmma_bf16(const __bf16 *a, const __bf16 *b, float *d, i32 k) {
    v8f c = {0};
    for (i32 i = 0; i < k; i += 16) {
        v8s x = *(const v8s *)(a + (i32)ROW * k + i + 8 * (i32)HALF), y = *(const v8s *)(b + (i32)ROW * k + i + 8 * (i32)HALF);
        c = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(x, y, c);
    }
    for (u32 r = 0; r < 8; r++) d[(8 * HALF + r) * 16 + ROW] = c[r];
}
KERNEL(32) wmma_fp8(const u8 *a, const u8 *b, float *d, i32 k) {
    v8f c = {0};
    for (i32 i = 0; i < k; i += 16) {
        v2i x = *(const v2i *)(a + (i32)ROW * k + i + 8 * (i32)HALF), y = *(const v2i *)(b + (i32)ROW * k + i + 8 * (i32)HALF);
        c = __builtin_amdgcn_wmma_f32_16x16x16_fp8_fp8_w32_gfx12(x, y, c);
    }
    for (u32 r = 0; r < 8; r++) d[(8 * HALF + r) * 16 + ROW] = c[r];
}
KERNEL(32) wmma_h16(const f16 *a, const f16 *b, f16 *d, i32 k) {
    v8h c = {0};
    for (i32 i = 0; i < k; i += 16) {
        v8h x = *(const v8h *)(a + (i32)ROW * k + i + 8 * (i32)HALF), y = *(const v8h *)(b + (i32)ROW * k + i + 8 * (i32)HALF);
        c = __builtin_amdgcn_wmma_f16_16x16x16_f16_w32_gfx12(x, y, c);
    }
    for (u32 r = 0; r < 8; r++) d[(8 * HALF + r) * 16 + ROW] = c[r];
}

/* One query against n keys of 64 elements, online softmax: a wave a head, each lane two elements. */
KERNEL(32) attention(const float *q, const f16 *kc, const f16 *vc, float *o, u32 n, float scale) {
    u32 l = TID_X, head = GID_X;
    const float *qh = q + head * 64;
    const f16 *kh = kc + head * n * 64, *vh = vc + head * n * 64;
    float q0 = qh[2 * l] * scale, q1 = qh[2 * l + 1] * scale, m = -1e30f, sum = 0, o0 = 0, o1 = 0;
    for (u32 t = 0; t < n; t++) {
        float s = wave_sum(q0 * (float)kh[t * 64 + 2 * l] + q1 * (float)kh[t * 64 + 2 * l + 1]);
        float mn = __builtin_fmaxf(m, s);
        float f = __builtin_amdgcn_exp2f((m - mn) * 1.44269504f), p = __builtin_amdgcn_exp2f((s - mn) * 1.44269504f);
        sum = sum * f + p;
        o0 = o0 * f + p * (float)vh[t * 64 + 2 * l];
        o1 = o1 * f + p * (float)vh[t * 64 + 2 * l + 1];
        m = mn;
    }
    o[head * 64 + 2 * l] = o0 / sum;
    o[head * 64 + 2 * l + 1] = o1 / sum;
}

/* Dots of small floats. */
KERNEL(64) dot_float(const i32 *a, const i32 *b, const float *c, float *o) {
    typedef f16 h2 __attribute__((ext_vector_type(2)));
    u32 i = GID_X * 64 + TID_X;
    o[3 * i] = __builtin_amdgcn_dot4_f32_fp8_fp8(a[i], b[i], c[i]);
    o[3 * i + 1] = __builtin_amdgcn_dot4_f32_fp8_bf8(a[i], b[i], c[i]);
    o[3 * i + 2] = __builtin_amdgcn_cvt_f32_fp8(a[i], 2) + __builtin_amdgcn_cvt_f32_bf8(b[i], 1);
}
