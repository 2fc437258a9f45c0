/* Element-wise arithmetic: one result array a kernel, 16 results an element. */
#include "gpu.h"

KERNEL(256) vadd(const float *a, const float *b, float *c, i32 n) {
    u32 i = GID_X * 256 + TID_X;
    if (i < (u32)n) c[i] = a[i] + b[i];
}

KERNEL(64) int_ops(const u32 *a, const u32 *b, u32 *o) {
    u32 i = GID_X * 64 + TID_X, x = a[i], y = b[i];
    i32 sx = (i32)x, sy = (i32)y;
    o += 24 * i;
    o[0] = x + y;
    o[1] = x - y;
    o[2] = x * y;
    o[3] = (u32)((u64)x * y >> 32);
    o[4] = (u32)((i64)sx * sy >> 32);
    o[5] = x << (y & 31);
    o[6] = x >> (y & 31);
    o[7] = (u32)(sx >> (y & 31));
    o[8] = x & ~y;
    o[9] = (x & y) | (~x & o[2]);
    o[10] = (u32)__builtin_popcount(x) + (x ? (u32)__builtin_clz(x) : 77) + (y ? (u32)__builtin_ctz(y) : 77);
    o[11] = (u32)__builtin_bitreverse32(x);
    o[12] = sx < sy ? x : y;
    o[13] = x > y ? x : y;
    o[14] = (x >> 5 & 0x7F) + (u32)((i32)(y << 9) >> 20);
    o[15] = (x << 7 | x >> 25) ^ (y >> 8 & 0xFF);
    u64 q = (u64)x << 32 | y, r = q * 0x9E3779B97F4A7C15ull;
    o[16] = (u32)(r >> 32);
    o[17] = (u32)(q >> (x & 63));
    o[18] = (u32)((i64)q >> (y & 63));
    o[19] = (u32)((q << (x & 63)) >> 32);
    o[20] = (u32)(q < r) | (u32)((i64)q < (i64)r) << 1 | (u32)(q == r) << 2;
    o[21] = __builtin_amdgcn_perm(x, y, 0x05020C07);
    o[22] = (u32)(x * 3 + y < x);
    o[23] = __builtin_amdgcn_alignbit(x, y, 13);
}

KERNEL(64) divide(const u32 *a, const u32 *b, u32 *o) {
    u32 i = GID_X * 64 + TID_X, x = a[i], y = b[i] | 1;
    i32 sx = (i32)x, sy = (i32)(y >> 3 | 1);
    u64 q = (u64)x << 32 | b[i], d = (u64)y << (y & 31) | 1;
    o += 8 * i;
    o[0] = x / y;
    o[1] = x % y;
    o[2] = (u32)(sx / sy);
    o[3] = (u32)(sx % sy);
    o[4] = (u32)(q / d);
    o[5] = (u32)((q / d) >> 32);
    o[6] = (u32)(q % d);
    o[7] = (u32)((i64)q / (i64)(d >> 1 | 1));
}

KERNEL(64) f32_ops(const float *a, const float *b, float *o) {
    u32 i = GID_X * 64 + TID_X;
    float x = a[i], y = b[i];
    o += 16 * i;
    o[0] = x + y;
    o[1] = x - y;
    o[2] = x * y;
    o[3] = x / y;
    o[4] = __builtin_fmaf(x, y, x);
    o[5] = __builtin_sqrtf(__builtin_fabsf(x));
    o[6] = __builtin_floorf(x);
    o[7] = __builtin_ceilf(y);
    o[8] = __builtin_truncf(x);
    o[9] = __builtin_rintf(y);
    o[10] = __builtin_fminf(x, y);
    o[11] = __builtin_fmaxf(x, -y);
    o[12] = x < y ? x : -y;
    o[13] = (float)(i32)(x < 1e9f && x > -1e9f ? x : 0) + (float)(u32)(y > 0 && y < 4e9f ? y : 0);
    o[14] = (float)(i32)__builtin_bit_cast(u32, x) + (float)__builtin_bit_cast(u32, y);
    o[15] = __builtin_ldexpf(x, 3) - 0.5f * y;
}

KERNEL(64) f64_ops(const double *a, const double *b, double *o) {
    u32 i = GID_X * 64 + TID_X;
    double x = a[i], y = b[i];
    o += 10 * i;
    o[0] = x + y;
    o[1] = x * y;
    o[2] = x / y;
    o[3] = __builtin_fma(x, y, -x);
    o[4] = __builtin_sqrt(__builtin_fabs(x));
    o[5] = __builtin_floor(x) + __builtin_rint(y);
    o[6] = x < y ? x : y;
    o[7] = (double)(float)x;
    o[8] = (double)(i32)(x < 1e9 && x > -1e9 ? x : 0);
    o[9] = (double)(i64)(x < 1e15 && x > -1e15 ? x * 4 : 0);
}

KERNEL(64) f16_ops(const f16 *a, const f16 *b, f16 *o) {
    u32 i = GID_X * 64 + TID_X;
    f16 x = a[i], y = b[i];
    o += 10 * i;
    o[0] = x + y;
    o[1] = x - y;
    o[2] = x * y;
    o[3] = __builtin_fmaf16(x, y, x);
    o[4] = x < y ? x : y;
    o[5] = (f16)((float)x * (float)y + 1.0f);
    o[6] = (f16)(i16)(x > -1000 && x < 1000 ? x : 0);
    o[7] = -x;
    o[8] = __builtin_fabsf16(y);
    o[9] = x / y;
}

typedef f16 h2 __attribute__((ext_vector_type(2)));
typedef short s2 __attribute__((ext_vector_type(2)));
KERNEL(64) packed(const h2 *a, const h2 *b, h2 *o, const s2 *c, const s2 *d, s2 *q) {
    u32 i = GID_X * 64 + TID_X;
    h2 x = a[i], y = b[i];
    o[4 * i] = x + y;
    o[4 * i + 1] = x * y;
    o[4 * i + 2] = __builtin_elementwise_fma(x, y, x.yx);
    o[4 * i + 3] = __builtin_elementwise_max(x, -y);
    s2 s = c[i], t = d[i];
    q[5 * i] = s + t;
    q[5 * i + 1] = s - t.yx;
    q[5 * i + 2] = s * t;
    q[5 * i + 3] = __builtin_elementwise_min(s, t);
    q[5 * i + 4] = s >> (t & 15);
}

/* Mixed precision: f16 inputs, f32 accumulation, f16 result. */
KERNEL(64) mix(const h2 *a, const h2 *b, const float *c, float *o, f16 *p) {
    u32 i = GID_X * 64 + TID_X;
    float s = c[i];
    s = __builtin_fmaf((float)a[i].x, (float)b[i].x, s);
    s = __builtin_fmaf((float)a[i].y, -(float)b[i].y, s);
    o[i] = s;
    p[i] = (f16)__builtin_fmaf((float)a[i].x, c[i], s);
}

/* Narrow loads and stores of every width. */
KERNEL(64) narrow(const u8 *a, const i8 *b, const u16 *c, const i16 *d, u32 *o, u8 *p, u16 *q) {
    u32 i = GID_X * 64 + TID_X;
    o[i] = a[i] + (u32)b[i] * 3 + c[i] * 5u + (u32)d[i] * 7;
    p[i] = (u8)(a[i] + b[i]);
    q[i] = (u16)(c[i] - d[i]);
}

KERNEL(64) special(const float *a, float *o) {
    u32 i = GID_X * 64 + TID_X;
    float x = a[i], y = __builtin_fabsf(x) + 1e-3f;
    o += 8 * i;
    o[0] = __builtin_amdgcn_rcpf(y);
    o[1] = __builtin_amdgcn_rsqf(y);
    o[2] = __builtin_amdgcn_sqrtf(y);
    o[3] = __builtin_amdgcn_exp2f(x);
    o[4] = __builtin_amdgcn_logf(y);
    o[5] = __builtin_amdgcn_sinf(x);
    o[6] = __builtin_amdgcn_cosf(x);
    o[7] = __builtin_amdgcn_fractf(x);
}

KERNEL(64) divergence(const u32 *a, u32 *o) {
    u32 i = GID_X * 64 + TID_X, x = a[i] % 1000 + 1, n = 0;
    while (x != 1 && n < 500) {
        if (x & 1) x = 3 * x + 1;
        else x >>= 1;
        if (n == 7 && (i & 3) == 1)
            n += 3;
        n++;
    }
    switch (i % 5) {
    case 0: n = n * 2; break;
    case 1: n += 100; break;
    case 2: if (n > 20) goto out; n = 5; break;
    default: n ^= 0x55; break;
    }
out:
    o[i] = n;
}

__attribute__((amdgpu_kernel, amdgpu_flat_work_group_size(24, 24))) void grid3d(u32 *o, u32 nx, u32 ny) {
    u32 x = GID_X * 4 + TID_X, y = GID_Y * 3 + TID_Y, z = GID_Z * 2 + TID_Z;
    if (x < nx && y < ny) o[(z * ny + y) * nx + x] = x + 100 * y + 10000 * z;
}

/* Calls: through a table of functions, recursion, and a plain call with many arguments. */
static NOINLINE u32 add7(u32 x, u32 n) { return x + 7 * n; }
static NOINLINE u32 xor9(u32 x, u32 n) { return x ^ 9 * n; }
static NOINLINE u32 fib(u32 n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
typedef u32 (*fn)(u32, u32);
static const fn TABLE[2] = {add7, xor9};
KERNEL(32) calls(const u32 *a, u32 *o) {
    u32 i = GID_X * 32 + TID_X;
    fn f = TABLE[a[i] & 1];
    u32 r = f(a[i], i);
    o[2 * i] = r;
    o[2 * i + 1] = fib(i % 8);
}

/* A local array with indices known only at run time lives in scratch. */
KERNEL(64) scratch(const u32 *a, u32 *o, u32 n) {
    u32 i = GID_X * 64 + TID_X, t[32];
    for (u32 k = 0; k < 32; k++) t[k] = k * k + i;
    for (u32 k = 0; k < n; k++) {
        u32 j = a[(i * 7 + k) & 63] & 31, m = (j * 5 + 3) & 31, v = t[j];
        t[j] = t[m] + k;
        t[m] = v;
    }
    u32 s = 0;
    for (u32 k = 0; k < 32; k++) s = s * 31 + t[k];
    o[i] = s;
}

/* Global variables: initialised, zeroed, and a pointer to one of them. */
#define EXPORTED __attribute__((visibility("protected")))
EXPORTED u32 counter_base[4] = {10, 20, 30, 40};
EXPORTED u32 zeroed[64];
static const u8 lut[16] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3};
u32 *const into = &counter_base[2];
KERNEL(64) globals(u32 *o) {
    u32 i = TID_X;
    zeroed[i] += i;
    o[i] = counter_base[i & 3] + lut[i & 15] + *into + zeroed[i];
}
