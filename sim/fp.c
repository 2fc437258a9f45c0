/* Conversions between the small floating-point formats, bit by bit, so that they do not depend on the host's mode. */
#include <math.h>

#include "exec.h"

float sim_h2f(u32 h) {
    u32 s = (h & 0x8000u) << 16, e = h >> 10 & 31, m = h & 0x3FF;
    if (e == 31) return as_f(s | 0x7F800000u | m << 13);
    if (e) return as_f(s | (e + 112) << 23 | m << 13);
    if (!m) return as_f(s);
    u32 sh = (u32)__builtin_clz(m) - 21; /* places to bring the leading bit to bit 10 */
    return as_f(s | (113 - sh) << 23 | (m << sh & 0x3FF) << 13);
}

/* Rounds the magnitude sig * 2^exp (sig < 2^63, exact bits) to a format with p mantissa bits and least exponent emin of the
 * last place of denormals; returns the integer multiple of the final ulp and its exponent in *ulp. */
static u64 round_sig(u64 sig, int exp, int p, int emin_ulp, u32 mode, bool neg, int *ulp) {
    int top = 64 - __builtin_clzll(sig | 1);
    int u = exp + top - p;
    if (u < emin_ulp) u = emin_ulp;
    *ulp = u;
    int drop = u - exp;
    if (drop <= 0) return sig << -drop;
    if (drop > 63) {
        bool up = sig && ((mode == 1 && !neg) || (mode == 2 && neg));
        return up;
    }
    u64 q = sig >> drop, rest = sig & ((1ull << drop) - 1), half = 1ull << (drop - 1);
    bool up = mode == 0 ? rest > half || (rest == half && (q & 1)) : rest && ((mode == 1 && !neg) || (mode == 2 && neg));
    return q + up;
}

u32 sim_d2h(double x, u32 mode, bool flush) {
    u64 b = as_q(x);
    u32 s = (u32)(b >> 63) << 15;
    u64 m = b & 0xFFFFFFFFFFFFFull;
    int e = (int)(b >> 52 & 0x7FF);
    if (e == 0x7FF) return m ? s | 0x7E00u | (u32)(m >> 42 & 0x1FF) : s | 0x7C00u;
    if (e == 0) return s; /* double denormals are far below; a directed mode would give the least denormal */
    int ulp;
    u64 q = round_sig(m | 1ull << 52, e - 1075, 11, -24, mode, s != 0, &ulp);
    if (q == 0) return s;
    int top = 64 - __builtin_clzll(q);
    int exp = ulp + top - 1; /* of the leading bit */
    if (exp > 15) {
        bool to_max = mode == 3 || (mode == 1 && s) || (mode == 2 && !s);
        return s | (to_max ? 0x7BFFu : 0x7C00u);
    }
    if (exp < -14) return flush ? s : s | (u32)q;
    return s | (u32)(exp + 15) << 10 | (u32)(q << (11 - top > 0 ? 11 - top : 0) >> (top > 11 ? top - 11 : 0) & 0x3FF);
}

u32 sim_f2h(float x, u32 mode, bool flush) { return sim_d2h((double)x, mode, flush); }

float sim_bf2f(u32 b) { return as_f(b << 16); }

u32 sim_f2bf(float x, u32 mode) {
    u32 b = as_u(x), s = b >> 31;
    if ((b & 0x7FFFFFFFu) > 0x7F800000u) return b >> 16 | 0x40;
    u32 rest = b & 0xFFFF, q = b >> 16;
    bool up = mode == 0 ? rest > 0x8000 || (rest == 0x8000 && (q & 1)) : rest && ((mode == 1 && !s) || (mode == 2 && s));
    return (q + up) & 0xFFFF;
}

float sim_fp8_to_f(u32 b) {
    u32 s = (b & 0x80) << 24, e = b >> 3 & 15, m = b & 7;
    if (e == 15 && m == 7) return as_f(s | 0x7FC00000u);
    if (e == 0) return as_f(as_u((float)m * 0x1p-9f) | s);
    return as_f(s | (e + 120) << 23 | m << 20);
}

float sim_bf8_to_f(u32 b) { return sim_h2f((b & 0xFF) << 8); }

u32 sim_f_to_fp8(float x, bool saturate) {
    u32 b = as_u(x), s = b >> 24 & 0x80;
    if ((b & 0x7FFFFFFFu) > 0x7F800000u) return s | 0x7F;
    if ((b & 0x7FFFFFFFu) == 0x7F800000u) return s | (saturate ? 0x7E : 0x7F);
    u32 e = b >> 23 & 0xFF, m = b & 0x7FFFFF;
    if (e == 0) return s;
    int ulp;
    u64 q = round_sig(m | 1u << 23, (int)e - 150, 4, -9, 0, s != 0, &ulp);
    if (q == 0) return s;
    int top = 64 - __builtin_clzll(q), exp = ulp + top - 1;
    if (exp < -6) return s | (u32)q;
    u32 m3 = (u32)(top > 4 ? q >> (top - 4) : q << (4 - top)) & 7;
    if (exp > 8 || (exp == 8 && m3 == 7)) return s | (saturate ? 0x7E : 0x7F);
    return s | (u32)(exp + 7) << 3 | m3;
}

u32 sim_f_to_bf8(float x, bool saturate) {
    u32 b = as_u(x), s = b >> 24 & 0x80;
    if ((b & 0x7FFFFFFFu) > 0x7F800000u) return s | 0x7E;
    if ((b & 0x7FFFFFFFu) == 0x7F800000u) return s | (saturate ? 0x7B : 0x7C);
    u32 e = b >> 23 & 0xFF, m = b & 0x7FFFFF;
    if (e == 0) return s;
    int ulp;
    u64 q = round_sig(m | 1u << 23, (int)e - 150, 3, -16, 0, s != 0, &ulp);
    if (q == 0) return s;
    int top = 64 - __builtin_clzll(q), exp = ulp + top - 1;
    if (exp < -14) return s | (u32)q;
    if (exp > 15) return s | (saturate ? 0x7B : 0x7C);
    u32 m2 = (u32)(top > 3 ? q >> (top - 3) : q << (3 - top)) & 3;
    return s | (u32)(exp + 15) << 2 | m2;
}

double sim_fma_odd(double a, double b, double c) {
    double p = a * b, e1 = fma(a, b, -p);
    /* p + c exactly, as s + e2 (Knuth's two-sum), then the low parts only decide inexactness and its side. */
    double s = p + c, t = s - p, e2 = (p - (s - t)) + (c - t), e = e1 + e2;
    if (e != 0 && isfinite(s)) {
        u64 q = as_q(s);
        if (!(q & 1)) {
            bool away = (s > 0) == (e > 0);
            if (s == 0) return e;
            q = away ? q + 1 : q - 1;
            return as_d(q);
        }
    }
    return s;
}
