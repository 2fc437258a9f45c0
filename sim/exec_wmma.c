/* Matrix instructions of gfx12, wave32: D (16 x 16) = A (16 x K) * B (K x 16) + C.
 *
 * A: lane = row mod 16, B: lane = column; each half of the wave holds one half of K, in ascending order through the lane's
 * registers (8 values of 16 or 8 bits, 8 or 16 of 4 bits). C and D: column = lane mod 16, rows 8 * (lane / 16) .. + 7, one a
 * register (f32, i32) or two (f16, bf16). A float result is the exact sum in double, rounded once: the hardware's own order of
 * additions is not documented. */
#include "lane.h"

#define KMAX 32

static bool full(wave *w, const uop *u) {
    if (exec_of(w) == ~0u) return true;
    sim_fault(w, u, -1, "matrix instruction with lanes off (EXEC is 0x%08x)", exec_of(w));
    return false;
}

/* Integers of `bits` bits out of n registers into m[16][K]. */
static void get_int(const wave *w, const uop *u, int s, u32 bits, u32 k_total, i32 m[16][KMAX]) {
    lane_src src = lsrc(w, u, s);
    u32 per = 32 / bits, half = k_total / 2;
    bool sgn = u->neg >> s & 1;
    for (u32 l = 0; l < 32; l++)
        for (u32 i = 0; i < half; i++) {
            u32 x = src.p[src.st * (l + 32 * (i / per))] >> bits * (i % per), sh = 32 - bits;
            m[l % 16][half * (l / 16) + i] = sgn ? (i32)(x << sh) >> sh : (i32)(x << sh >> sh);
        }
}

static const uop *wmma_int(wave *w, const uop *u, u32 bits, u32 k_total) {
    if (!full(w, u)) return NULL;
    i32 a[16][KMAX], b[16][KMAX], bt[KMAX][16], d[16][16];
    get_int(w, u, 0, bits, k_total, a);
    get_int(w, u, 1, bits, k_total, b);
    for (u32 k = 0; k < k_total; k++)
        for (u32 c = 0; c < 16; c++) bt[k][c] = b[c][k];
    for (u32 r = 0; r < 16; r++) {
        i32 acc[16] = {0};
        for (u32 k = 0; k < k_total; k++)
            for (u32 c = 0; c < 16; c++) acc[c] += a[r][k] * bt[k][c];
        memcpy(d[r], acc, sizeof acc);
    }
    lane_src sc = lsrc(w, u, 2);
    u32 *to = sp(w, u->d);
    for (u32 l = 0; l < 32; l++)
        for (u32 i = 0; i < 8; i++) {
            i32 c = (i32)(sc.st ? sc.p[l + 32 * i] : sc.p[0]), p = d[8 * (l / 16) + i][l % 16];
            i64 r = (i64)c + p;
            if (u->clamp) r = r > INT32_MAX ? INT32_MAX : r < INT32_MIN ? INT32_MIN : r;
            to[32 * i + l] = (u32)r;
        }
    return u + 1;
}
OP(iu8) { return wmma_int(w, u, 8, 16); }
OP(iu4) { return wmma_int(w, u, 4, 16); }
OP(iu4_32) { return wmma_int(w, u, 4, 32); }

enum fmt { F16, BF16, FP8, BF8 };

static float value(u32 x, enum fmt f) {
    switch (f) {
    case F16: return sim_h2f(x & 0xFFFF);
    case BF16: return sim_bf2f(x & 0xFFFF);
    case FP8: return sim_fp8_to_f(x & 255);
    default: return sim_bf8_to_f(x & 255);
    }
}
static void get_float(const wave *w, const uop *u, int s, enum fmt f, float m[16][16]) {
    lane_src src = lsrc(w, u, s);
    u32 bits = f <= BF16 ? 16 : 8, per = 32 / bits;
    for (u32 l = 0; l < 32; l++)
        for (u32 i = 0; i < 8; i++) {
            float x = value(src.p[src.st * (l + 32 * (i / per))] >> bits * (i % per), f);
            if (bits == 16 && (i & 1 ? u->neg_hi : u->neg) >> s & 1) x = -x;
            m[l % 16][8 * (l / 16) + i] = x;
        }
}
static float c_mods(const uop *u, float c) {
    if (u->neg_hi >> 2 & 1) c = fabsf(c);
    return u->neg >> 2 & 1 ? -c : c;
}
static const uop *wmma_float(wave *w, const uop *u, enum fmt fa, enum fmt fb, int out) {
    if (!full(w, u)) return NULL;
    float a[16][16], b[16][16];
    double bt[16][16], d[16][16];
    get_float(w, u, 0, fa, a);
    get_float(w, u, 1, fb, b);
    for (u32 k = 0; k < 16; k++)
        for (u32 c = 0; c < 16; c++) bt[k][c] = (double)b[c][k];
    for (u32 r = 0; r < 16; r++) {
        double acc[16] = {0};
        for (u32 k = 0; k < 16; k++)
            for (u32 c = 0; c < 16; c++) acc[c] += (double)a[r][k] * bt[k][c];
        memcpy(d[r], acc, sizeof acc);
    }
    lane_src sc = lsrc(w, u, 2);
    u32 *to = sp(w, u->d), res[8][32];
    for (u32 l = 0; l < 32; l++)
        for (u32 i = 0; i < 8; i++) {
            double p = d[8 * (l / 16) + i][l % 16];
            if (out == 32) {
                float r = (float)(p + (double)c_mods(u, as_f(sc.st ? sc.p[l + 32 * i] : sc.p[0])));
                res[i][l] = isnan(r) ? 0x7FC00000u : as_u(r); /* which NaN is not documented: always the same here */
                continue;
            }
            u32 x = (sc.st ? sc.p[l + 32 * (i / 2)] : sc.p[0]) >> (sc.st && i & 1 ? 16 : 0);
            float c = out == F16 ? sim_h2f(x & 0xFFFF) : sim_bf2f(x & 0xFFFF);
            if ((i & 1 ? u->neg_hi : u->neg) >> 2 & 1) c = -c;
            res[i][l] = out == F16 ? sim_d2h(p + (double)c, 0, false) : sim_f2bf((float)(p + (double)c), 0);
        }
    for (u32 l = 0; l < 32; l++)
        for (u32 i = 0; i < 8; i++) {
            if (out == 32) to[32 * i + l] = res[i][l];
            else if (i & 1) to[32 * (i / 2) + l] = res[i - 1][l] | res[i][l] << 16;
        }
    return u + 1;
}
OP(f32_f16) { return wmma_float(w, u, F16, F16, 32); }
OP(f32_bf16) { return wmma_float(w, u, BF16, BF16, 32); }
OP(f16_f16) { return wmma_float(w, u, F16, F16, F16); }
OP(bf16_bf16) { return wmma_float(w, u, BF16, BF16, BF16); }
OP(fp8_fp8) { return wmma_float(w, u, FP8, FP8, 32); }
OP(fp8_bf8) { return wmma_float(w, u, FP8, BF8, 32); }
OP(bf8_fp8) { return wmma_float(w, u, BF8, FP8, 32); }
OP(bf8_bf8) { return wmma_float(w, u, BF8, BF8, 32); }

#define R(op, fn) {SIM_OP_V_WMMA_##op, CLS_WMMA, OPF_MODS, fn}
static const op_row ROWS[] = {
    R(I32_16X16X16_IU8, iu8), R(I32_16X16X16_IU4, iu4), R(I32_16X16X32_IU4, iu4_32), R(F32_16X16X16_F16, f32_f16),
    R(F32_16X16X16_BF16, f32_bf16), R(F16_16X16X16_F16, f16_f16), R(BF16_16X16X16_BF16, bf16_bf16),
    R(F32_16X16X16_FP8_FP8, fp8_fp8), R(F32_16X16X16_FP8_BF8, fp8_bf8), R(F32_16X16X16_BF8_FP8, bf8_fp8),
    R(F32_16X16X16_BF8_BF8, bf8_bf8),
};
const op_table sim_ops_wmma = {ROWS, sizeof ROWS / sizeof *ROWS};
