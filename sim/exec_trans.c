/* Transcendental functions. A card's own bits are not documented, only bounds on the error (about one unit in the last place for
 * f32): here they are correctly rounded or nearly so, and with IE_SIM_ULP a seed moves each result by -1, 0 or +1 unit. exp and
 * log take denormal sources and results as zero. */
#include "lane.h"

static u32 hash(u64 seed, u32 op, u64 x) {
    u64 z = seed * 0x9E3779B97F4A7C15ull + op * 0xD1B54A32D192ED03ull + x;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ z >> 27) * 0x94D049BB133111EBull;
    return (u32)((z ^ z >> 31) % 3);
}

static float moved(const wave *w, const uop *u, float in, float r) {
    u64 seed = w->l->dev->opt.ulp_seed;
    u32 b = as_u(r), e = b >> 23 & 255;
    if (!seed || e == 0 || e == 255) return r;
    u32 n = b + hash(seed, u->in->op, as_u(in)) - 1;
    u32 ne = n >> 23 & 255;
    return ne == 0 || ne == 255 ? r : as_f(n);
}
static u32 moved_h(const wave *w, const uop *u, u32 in, u32 r) {
    u64 seed = w->l->dev->opt.ulp_seed;
    u32 e = r >> 10 & 31;
    if (!seed || e == 0 || e == 31) return r;
    u32 n = r + hash(seed, u->in->op, in) - 1, ne = n >> 10 & 31;
    return ne == 0 || ne == 31 ? r : n;
}
static double moved_d(const wave *w, const uop *u, double in, double r) {
    u64 seed = w->l->dev->opt.ulp_seed, b = as_q(r);
    if (!seed || !isnormal(r)) return r;
    return as_d(b + hash(seed, u->in->op, as_q(in)) - 1);
}

static float ftz(float x) { return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x; }
static double d_rcp(double x) { return 1 / x; }
static double d_rsq(double x) { return x < 0 ? (double)NAN : 1 / sqrt(x); }
static double d_sqrt(double x) { return x < 0 ? (double)NAN : sqrt(x); }
static double d_exp(double x) { return exp2(x); }
static double d_log(double x) { return x < 0 ? (double)NAN : log2(x); }
/* Angles are in revolutions. */
static double d_sin(double x) { return isfinite(x) ? sin((x - rint(x)) * 6.283185307179586476925286766559) : (double)NAN; }
static double d_cos(double x) { return isfinite(x) ? cos((x - rint(x)) * 6.283185307179586476925286766559) : (double)NAN; }
static float f_rcp(float x) { return (float)d_rcp((double)x); }
static float f_rsq(float x) { return (float)d_rsq((double)x); }
static float f_sqrt(float x) { return (float)d_sqrt((double)x); }
static float f_exp(float x) { return ftz((float)d_exp((double)ftz(x))); }
static float f_log(float x) { return (float)d_log((double)ftz(x)); }
static float f_sin(float x) { return (float)d_sin((double)x); }
static float f_cos(float x) { return (float)d_cos((double)x); }

#define F(name) \
    OP(name##_f32) { \
        SOURCES; \
        u32 *d = sp(w, u->d); \
        FOR_LANES(l, exec_of(w)) { \
            float a = lgetf(u, s0, 0, l); \
            d[l] = as_u(fout(u, moved(w, u, a, f_##name(a)))); \
        } \
        return u + 1; \
    } \
    OP(name##_f16) { \
        SOURCES; \
        u32 *d = sp(w, u->d); \
        FOR_LANES(l, exec_of(w)) { \
            u32 a = hmod_in(u, 0, lget16(u, s0, 0, l)); \
            u32 r = sim_d2h(d_##name((double)hin(w, a)), ROUND16, FLUSH16); \
            r = moved_h(w, u, a, r); \
            if (u->omod | u->clamp) r = sim_d2h((double)fout(u, sim_h2f(r)), ROUND16, FLUSH16); \
            lput16(u, d, l, r); \
        } \
        return u + 1; \
    }
/* The scalar forms: one value in an SGPR. */
#define SF(name) \
    OP(name##_s32) { \
        float a = lgetf(u, lsrc(w, u, 0), 0, 0); \
        *sp(w, u->d) = as_u(fout(u, moved(w, u, a, f_##name(a)))); \
        return u + 1; \
    } \
    OP(name##_s16) { \
        u32 a = hmod_in(u, 0, lget16(u, lsrc(w, u, 0), 0, 0)); \
        *sp(w, u->d) = moved_h(w, u, a, sim_d2h(d_##name((double)hin(w, a)), ROUND16, FLUSH16)); \
        return u + 1; \
    }
#define DF(name) \
    OP(name##_f64) { \
        SOURCES; \
        u32 *d = sp(w, u->d); \
        FOR_LANES(l, exec_of(w)) { \
            double a = lgetd(u, s0, 0, l), r = moved_d(w, u, a, d_##name(a)); \
            if (u->omod) r = omod_of(u, r); \
            lput64(d, l, as_q(u->clamp ? clamp_of(r) : r)); \
        } \
        return u + 1; \
    }
F(rcp) F(rsq) F(sqrt) F(exp) F(log) F(sin) F(cos)
SF(rcp) SF(rsq) SF(sqrt) SF(exp) SF(log)
DF(rcp) DF(rsq) DF(sqrt)

#define R(op, fn) {SIM_OP_V_##op, CLS_TRANS, OPF_MODS, fn}
static const op_row ROWS[] = {
    R(RCP_F32, rcp_f32), R(RCP_IFLAG_F32, rcp_f32), R(RSQ_F32, rsq_f32), R(SQRT_F32, sqrt_f32), R(EXP_F32, exp_f32),
    R(LOG_F32, log_f32), R(SIN_F32, sin_f32), R(COS_F32, cos_f32), R(RCP_F16, rcp_f16), R(RSQ_F16, rsq_f16),
    R(SQRT_F16, sqrt_f16), R(EXP_F16, exp_f16), R(LOG_F16, log_f16), R(SIN_F16, sin_f16), R(COS_F16, cos_f16),
    R(RCP_F64, rcp_f64), R(RSQ_F64, rsq_f64), R(SQRT_F64, sqrt_f64), R(S_RCP_F32, rcp_s32), R(S_RSQ_F32, rsq_s32),
    R(S_SQRT_F32, sqrt_s32), R(S_EXP_F32, exp_s32), R(S_LOG_F32, log_s32), R(S_RCP_F16, rcp_s16), R(S_RSQ_F16, rsq_s16),
    R(S_SQRT_F16, sqrt_s16), R(S_EXP_F16, exp_s16), R(S_LOG_F16, log_s16),
};
const op_table sim_ops_trans = {ROWS, sizeof ROWS / sizeof *ROWS};
