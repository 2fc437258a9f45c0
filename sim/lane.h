/* For operations written lane by lane: sources with their modifiers, results with theirs. */
#ifndef SIM_LANE_H
#define SIM_LANE_H

#include <math.h>

#include "exec.h"

#define OP(name) static const uop *name(wave *w, const uop *u)

/* LANES(type of body): a, b, c are the lane's 32-bit sources. */
#define SOURCES lane_src s0 = lsrc(w, u, 0), s1 = lsrc(w, u, 1), s2 = lsrc(w, u, 2); (void)s0; (void)s1; (void)s2

/* d = expr of u32 a, b, c. */
#define L32(name, expr) \
    OP(name) { \
        SOURCES; \
        u32 *d = sp(w, u->d); \
        FOR_LANES(l, exec_of(w)) { \
            u32 a = lget(s0, l), b = lget(s1, l), c = lget(s2, l); \
            (void)a; (void)b; (void)c; \
            d[l] = (u32)(expr); \
        } \
        return u + 1; \
    }

static inline float fmod_in(const uop *u, int i, float x) {
    u32 b = as_u(x);
    if (u->abs >> i & 1) b &= 0x7FFFFFFFu;
    if (u->neg >> i & 1) b ^= 0x80000000u;
    return as_f(b);
}
static inline float lgetf(const uop *u, lane_src s, int i, u32 l) {
    float x = as_f(lget(s, l));
    return u->mods ? fmod_in(u, i, x) : x;
}
static inline double lgetd(const uop *u, lane_src s, int i, u32 l) {
    u64 b = lget64(s, l);
    if (u->abs >> i & 1) b &= 0x7FFFFFFFFFFFFFFFull;
    if (u->neg >> i & 1) b ^= 0x8000000000000000ull;
    return as_d(b);
}
static inline double omod_of(const uop *u, double x) {
    return u->omod == 0 ? x : u->omod == 1 ? x * 2 : u->omod == 2 ? x * 4 : x * 0.5;
}
static inline double clamp_of(double x) { return x > 0 ? (x > 1 ? 1 : x) : 0; }
static inline float fout(const uop *u, float x) {
    if (u->omod) x = (float)omod_of(u, (double)x);
    return u->clamp ? (float)clamp_of((double)x) : x;
}

/* d = float expr of float a, b, c. */
#define LF(name, expr) \
    OP(name) { \
        SOURCES; \
        u32 *d = sp(w, u->d); \
        FOR_LANES(l, exec_of(w)) { \
            float a = lgetf(u, s0, 0, l), b = lgetf(u, s1, 1, l), c = lgetf(u, s2, 2, l); \
            (void)a; (void)b; (void)c; \
            d[l] = as_u(fout(u, (expr))); \
        } \
        return u + 1; \
    }
/* d = u32 expr of float a, b, c. */
#define LFI(name, expr) \
    OP(name) { \
        SOURCES; \
        u32 *d = sp(w, u->d); \
        FOR_LANES(l, exec_of(w)) { \
            float a = lgetf(u, s0, 0, l), b = lgetf(u, s1, 1, l), c = lgetf(u, s2, 2, l); \
            (void)a; (void)b; (void)c; \
            d[l] = (u32)(expr); \
        } \
        return u + 1; \
    }
/* 64-bit result of 64-bit sources x, y, z read as such where the operation has them. */
static inline void lput64(u32 *d, u32 l, u64 v) {
    d[l] = (u32)v;
    d[32 + l] = (u32)(v >> 32);
}

/* 16-bit: op_sel picks the half of each source and of the destination, whose other half stays. */
static inline u32 lget16(const uop *u, lane_src s, int i, u32 l) { return lget(s, l) >> (u->hi >> i & 1 ? 16 : 0) & 0xFFFF; }
static inline u32 hmod_in(const uop *u, int i, u32 h) {
    if (u->abs >> i & 1) h &= 0x7FFF;
    if (u->neg >> i & 1) h ^= 0x8000;
    return h;
}
#define lgeth(u, s, i, l) hin(w, hmod_in(u, i, lget16(u, s, i, l)))
static inline void lput16(const uop *u, u32 *d, u32 l, u32 v) {
    d[l] = u->hi & 8 ? (d[l] & 0xFFFF) | v << 16 : (d[l] & 0xFFFF0000u) | (v & 0xFFFF);
}
#define ROUND32 (w->mode & 3)
#define ROUND16 (w->mode >> 2 & 3)
#define FLUSH16 (!(w->mode >> 7 & 1))

static inline float quiet(float x) { return as_f(as_u(x) | 0x400000u); }
static inline float min_num(float a, float b) {
    if (isnan(a)) return isnan(b) ? quiet(a) : b;
    if (isnan(b)) return a;
    return a < b || (a == b && signbit(a)) ? a : b;
}
static inline float max_num(float a, float b) {
    if (isnan(a)) return isnan(b) ? quiet(a) : b;
    if (isnan(b)) return a;
    return a > b || (a == b && !signbit(a)) ? a : b;
}
static inline float minimum(float a, float b) { return isnan(a) ? quiet(a) : isnan(b) ? quiet(b) : min_num(a, b); }
static inline float maximum(float a, float b) { return isnan(a) ? quiet(a) : isnan(b) ? quiet(b) : max_num(a, b); }
static inline float rndne_f(float a) {
    if (!(fabsf(a) < 0x1p23f)) return a;
    float t = truncf(a), x = fabsf(a - t);
    if (x > 0.5f || (x == 0.5f && fmodf(t, 2) != 0)) t += copysignf(1, a);
    return copysignf(t, a);
}
static inline double rndne_d(double a) {
    if (!(fabs(a) < 0x1p52)) return a;
    double t = trunc(a), x = fabs(a - t);
    if (x > 0.5 || (x == 0.5 && fmod(t, 2) != 0)) t += copysign(1, a);
    return copysign(t, a);
}
/* Towards zero and saturating; NaN gives zero. */
static inline i64 to_int(double x, double lo, double hi) {
    if (isnan(x)) return 0;
    return (i64)(x < lo ? lo : x > hi ? hi : trunc(x));
}
/* Class of a float for v_cmp_class: one bit of 10. */
static inline u32 class_of(bool nan, bool snan, bool inf, bool zero, bool sub, bool neg) {
    u32 k = nan ? (snan ? 0 : 1) : inf ? (neg ? 2 : 9) : zero ? (neg ? 5 : 6) : sub ? (neg ? 4 : 7) : (neg ? 3 : 8);
    return 1u << k;
}

#endif
