/* Scalar arithmetic: SOP1, SOP2, SOPC, SOPK, and the scalar forms of floating-point functions. */
#include <math.h>

#include "exec.h"

#define A32 s32(w, u->s[0])
#define B32 s32(w, u->s[1])
#define A64 s64(w, u->s[0])
#define B64 s64(w, u->s[1])
#define D32(x) (*sp(w, u->d) = (x))
#define D64(x) sput64(w, u->d, (x))
#define SCC w->s[SLOT_SCC]
#define EXEC w->s[SLOT_EXEC]
#define OP(name) static const uop *name(wave *w, const uop *u)

/* r, then SCC from it */
#define OP32(name, expr) OP(name) { u32 a = A32, b = B32, r; (void)a; (void)b; r = (expr); D32(r); return u + 1; }
#define OP32Z(name, expr) OP(name) { u32 a = A32, b = B32, r; (void)a; (void)b; r = (expr); D32(r); SCC = r != 0; return u + 1; }
#define OP64(name, expr) OP(name) { u64 a = A64, b = B64, r; (void)a; (void)b; r = (expr); D64(r); return u + 1; }
#define OP64Z(name, expr) OP(name) { u64 a = A64, b = B64, r; (void)a; (void)b; r = (expr); D64(r); SCC = r != 0; return u + 1; }

OP32(mov32, a)
OP(mov64) { u64 a = A64; D64(a); return u + 1; }
OP(cmov32) { if (SCC) D32(A32); return u + 1; }
OP(cmov64) { if (SCC) D64(A64); return u + 1; }
OP32Z(not32, ~a)
OP(not64) { u64 r = ~A64; D64(r); SCC = r != 0; return u + 1; }

static u32 brev(u32 x) {
    x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
    x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
    x = (x >> 4 & 0x0F0F0F0Fu) | (x & 0x0F0F0F0Fu) << 4;
    return __builtin_bswap32(x);
}
OP32(brev32, brev(a))
OP(brev64) { u64 a = A64; D64((u64)brev((u32)a) << 32 | brev((u32)(a >> 32))); return u + 1; }
OP32(ctz32, a ? (u32)__builtin_ctz(a) : ~0u)
OP(ctz64) { u64 a = A64; D32(a ? (u32)__builtin_ctzll(a) : ~0u); return u + 1; }
OP32(clz32, a ? (u32)__builtin_clz(a) : ~0u)
OP(clz64) { u64 a = A64; D32(a ? (u32)__builtin_clzll(a) : ~0u); return u + 1; }
static u32 cls32v(u32 a) {
    u32 x = a ^ (u32)((i32)a >> 31);
    return x ? (u32)__builtin_clz(x) : ~0u;
}
OP32(cls32, cls32v(a))
OP(cls64) { u64 a = A64, x = a ^ (u64)((i64)a >> 63); D32(x ? (u32)__builtin_clzll(x) : ~0u); return u + 1; }
OP32(sext8, (u32)(i32)(int8_t)a)
OP32(sext16, (u32)(i32)(int16_t)a)
OP(bitset0_32) { u32 a = A32; *sp(w, u->d) &= ~(1u << (a & 31)); return u + 1; }
OP(bitset1_32) { u32 a = A32; *sp(w, u->d) |= 1u << (a & 31); return u + 1; }
OP(bitset0_64) { u32 a = A32; D64(s64(w, u->d) & ~(1ull << (a & 63))); return u + 1; }
OP(bitset1_64) { u32 a = A32; D64(s64(w, u->d) | 1ull << (a & 63)); return u + 1; }
OP32Z(abs32, (i32)a < 0 ? 0u - a : a)
OP32Z(bcnt1_32, (u32)__builtin_popcount(a))
OP32Z(bcnt0_32, (u32)__builtin_popcount(~a))
OP(bcnt1_64) { u32 r = (u32)__builtin_popcountll(A64); D32(r); SCC = r != 0; return u + 1; }
OP(bcnt0_64) { u32 r = (u32)__builtin_popcountll(~A64); D32(r); SCC = r != 0; return u + 1; }
OP(bitreplicate) {
    u32 a = A32;
    u64 r = 0;
    for (u32 i = 0; i < 32; i++) r |= (u64)(a >> i & 1 ? 3 : 0) << 2 * i;
    D64(r);
    return u + 1;
}
static u64 quads(u64 a, u32 n, bool whole) {
    u64 r = 0;
    for (u32 i = 0; i < n; i += 4)
        if (a >> i & 15) r |= whole ? 15ull << i : 1ull << i / 4;
    return r;
}
OP32Z(quadmask32, (u32)quads(a, 32, false))
OP(quadmask64) { u64 r = quads(A64, 64, false); D64(r); SCC = r != 0; return u + 1; }
OP32Z(wqm32, (u32)quads(a, 32, true))
OP(wqm64) { u64 r = quads(A64, 64, true); D64(r); SCC = r != 0; return u + 1; }

/* saveexec and wrexec, 32-bit: e = old EXEC, a = source. */
#define SAVEEXEC(name, expr) OP(name##_save) { u32 a = A32, e = EXEC, r = (expr); D32(e); EXEC = r; SCC = r != 0; return u + 1; }
SAVEEXEC(and, a & e)
SAVEEXEC(or, a | e)
SAVEEXEC(xor, a ^ e)
SAVEEXEC(nand, ~(a & e))
SAVEEXEC(nor, ~(a | e))
SAVEEXEC(xnor, ~(a ^ e))
SAVEEXEC(and_not0, ~a & e)
SAVEEXEC(and_not1, a & ~e)
SAVEEXEC(or_not0, ~a | e)
SAVEEXEC(or_not1, a | ~e)
OP(and_not0_wr) { u32 r = ~A32 & EXEC; EXEC = r; D32(r); SCC = r != 0; return u + 1; }
OP(and_not1_wr) { u32 r = A32 & ~EXEC; EXEC = r; D32(r); SCC = r != 0; return u + 1; }

OP(add_co_u32) { u32 a = A32, b = B32, r; SCC = __builtin_add_overflow(a, b, &r); D32(r); return u + 1; }
OP(sub_co_u32) { u32 a = A32, b = B32, r; SCC = __builtin_sub_overflow(a, b, &r); D32(r); return u + 1; }
OP(add_co_i32) { i32 a = (i32)A32, b = (i32)B32, r; SCC = __builtin_add_overflow(a, b, &r); D32((u32)r); return u + 1; }
OP(sub_co_i32) { i32 a = (i32)A32, b = (i32)B32, r; SCC = __builtin_sub_overflow(a, b, &r); D32((u32)r); return u + 1; }
OP(add_ci) { u64 r = (u64)A32 + B32 + SCC; D32((u32)r); SCC = (u32)(r >> 32); return u + 1; }
OP(sub_ci) { u64 a = A32, b = (u64)B32 + SCC; D32((u32)(a - b)); SCC = b > a; return u + 1; }
OP(addk) { i32 a = (i32)s32(w, u->d), r; SCC = __builtin_add_overflow(a, u->imm, &r); D32((u32)r); return u + 1; }
OP(mulk) { D32(s32(w, u->d) * (u32)u->imm); return u + 1; }
OP(movk) { D32((u32)u->imm); return u + 1; }
OP(cmovk) { if (SCC) D32((u32)u->imm); return u + 1; }
OP(version) { (void)w; return u + 1; }
OP64(add64, a + b)
OP64(sub64, a - b)
OP64(mul64, a *b)
OP32Z(absdiff, (i32)(a - b) < 0 ? b - a : a - b)
OP32Z(lshl32, a << (b & 31))
OP32Z(lshr32, a >> (b & 31))
OP32Z(ashr32, (u32)((i32)a >> (b & 31)))
OP(lshl64) { u64 r = A64 << (B32 & 63); D64(r); SCC = r != 0; return u + 1; }
OP(lshr64) { u64 r = A64 >> (B32 & 63); D64(r); SCC = r != 0; return u + 1; }
OP(ashr64) { u64 r = (u64)((i64)A64 >> (B32 & 63)); D64(r); SCC = r != 0; return u + 1; }
#define LSHLADD(n) OP(lshl##n##_add) { u64 r = ((u64)A32 << n) + B32; D32((u32)r); SCC = r >> 32 != 0; return u + 1; }
LSHLADD(1)
LSHLADD(2)
LSHLADD(3)
LSHLADD(4)
OP(min_i) { i32 a = (i32)A32, b = (i32)B32; SCC = a < b; D32((u32)(a < b ? a : b)); return u + 1; }
OP(max_i) { i32 a = (i32)A32, b = (i32)B32; SCC = a >= b; D32((u32)(a >= b ? a : b)); return u + 1; }
OP(min_u) { u32 a = A32, b = B32; SCC = a < b; D32(a < b ? a : b); return u + 1; }
OP(max_u) { u32 a = A32, b = B32; SCC = a >= b; D32(a >= b ? a : b); return u + 1; }
OP32Z(and32, a &b)
OP32Z(or32, a | b)
OP32Z(xor32, a ^ b)
OP32Z(nand32, ~(a & b))
OP32Z(nor32, ~(a | b))
OP32Z(xnor32, ~(a ^ b))
OP32Z(and_not1_32, a & ~b)
OP32Z(or_not1_32, a | ~b)
OP64Z(and64, a &b)
OP64Z(or64, a | b)
OP64Z(xor64, a ^ b)
OP64Z(nand64, ~(a & b))
OP64Z(nor64, ~(a | b))
OP64Z(xnor64, ~(a ^ b))
OP64Z(and_not1_64, a & ~b)
OP64Z(or_not1_64, a | ~b)
static u64 low_bits(u32 n) { return n >= 64 ? ~0ull : (1ull << n) - 1; }
OP32Z(bfe_u32, (u32)((a >> (b & 31)) & low_bits(b >> 16 & 127)))
OP(bfe_i32) {
    u32 b = B32, n = b >> 16 & 127;
    i64 v = (i32)A32 >> (b & 31);
    i64 r = n == 0 ? 0 : n >= 32 ? v : (i64)((u64)v << (64 - n)) >> (64 - n);
    D32((u32)r);
    SCC = (u32)r != 0;
    return u + 1;
}
OP(bfe_u64) { u32 b = B32; u64 r = (A64 >> (b & 63)) & low_bits(b >> 16 & 127); D64(r); SCC = r != 0; return u + 1; }
OP(bfe_i64) {
    u32 b = B32, n = b >> 16 & 127;
    i64 v = (i64)A64 >> (b & 63);
    u64 r = n == 0 ? 0 : n >= 64 ? (u64)v : (u64)((i64)((u64)v << (64 - n)) >> (64 - n));
    D64(r);
    SCC = r != 0;
    return u + 1;
}
OP32(bfm32, ((1u << (a & 31)) - 1) << (b & 31))
OP(bfm64) { D64(((1ull << (A32 & 63)) - 1) << (B32 & 63)); return u + 1; }
OP32(mul_lo, a *b)
OP32(mul_hi_u, (u32)((u64)a * b >> 32))
OP32(mul_hi_i, (u32)((u64)((i64)(i32)a * (i32)b) >> 32))
OP32(csel32, SCC ? a : b)
OP64(csel64, SCC ? a : b)
OP32(pack_ll, (a & 0xFFFF) | b << 16)
OP32(pack_lh, (a & 0xFFFF) | (b & 0xFFFF0000u))
OP32(pack_hh, a >> 16 | (b & 0xFFFF0000u))
OP32(pack_hl, a >> 16 | b << 16)

#define CMP(name, type, expr) OP(name) { type a = (type)A32, b = (type)B32; SCC = (expr); return u + 1; }
CMP(eq_u32, u32, a == b)
CMP(lg_u32, u32, a != b)
CMP(gt_i32, i32, a > b)
CMP(ge_i32, i32, a >= b)
CMP(lt_i32, i32, a < b)
CMP(le_i32, i32, a <= b)
CMP(gt_u32, u32, a > b)
CMP(ge_u32, u32, a >= b)
CMP(lt_u32, u32, a < b)
CMP(le_u32, u32, a <= b)
OP(eq_u64) { SCC = A64 == B64; return u + 1; }
OP(lg_u64) { SCC = A64 != B64; return u + 1; }
OP(bitcmp0_32) { SCC = !(A32 >> (B32 & 31) & 1); return u + 1; }
OP(bitcmp1_32) { SCC = A32 >> (B32 & 31) & 1; return u + 1; }
OP(bitcmp0_64) { SCC = !(A64 >> (B32 & 63) & 1); return u + 1; }
OP(bitcmp1_64) { SCC = (u32)(A64 >> (B32 & 63) & 1); return u + 1; }

/* Scalar floats. The host's mode is the wave's mode for f32. */
#define FA as_f(A32)
#define FB as_f(B32)
#define FOP(name, expr) OP(name) { float a = FA, b = FB; (void)b; D32(as_u(expr)); return u + 1; }
static float quiet(float x) { return as_f(as_u(x) | 0x400000u); }
static float min_num(float a, float b) {
    if (isnan(a)) return isnan(b) ? quiet(a) : b;
    if (isnan(b)) return a;
    return a < b || (a == b && signbit(a)) ? a : b;
}
static float max_num(float a, float b) {
    if (isnan(a)) return isnan(b) ? quiet(a) : b;
    if (isnan(b)) return a;
    return a > b || (a == b && !signbit(a)) ? a : b;
}
static float minimum(float a, float b) { return isnan(a) ? quiet(a) : isnan(b) ? quiet(b) : min_num(a, b); }
static float maximum(float a, float b) { return isnan(a) ? quiet(a) : isnan(b) ? quiet(b) : max_num(a, b); }
FOP(add_f32, a + b)
FOP(sub_f32, a - b)
FOP(mul_f32, a *b)
FOP(min_f32, min_num(a, b))
FOP(max_f32, max_num(a, b))
FOP(minimum_f32, minimum(a, b))
FOP(maximum_f32, maximum(a, b))
OP(fmac_f32) { D32(as_u(fmaf(FA, FB, as_f(s32(w, u->d))))); return u + 1; }
OP(fma3_f32) { D32(as_u(fmaf(FA, FB, as_f(s32(w, u->s[2]))))); return u + 1; }
FOP(ceil_f32, ceilf(a))
FOP(floor_f32, floorf(a))
FOP(trunc_f32, truncf(a))
static float rndne(float a) { /* whatever the mode */
    float t = truncf(a), d = fabsf(a - t);
    if (!(fabsf(a) < 0x1p23f)) return a;
    if (d > 0.5f || (d == 0.5f && fmodf(t, 2) != 0)) t += copysignf(1, a);
    return copysignf(t, a);
}
FOP(rndne_f32, rndne(a))
OP(cvt_f32_i32) { D32(as_u((float)(i32)A32)); return u + 1; }
OP(cvt_f32_u32) { D32(as_u((float)A32)); return u + 1; }
OP(cvt_i32_f32) { float a = FA; D32(isnan(a) ? 0 : a >= 0x1p31f ? 0x7FFFFFFFu : a < -0x1p31f ? 0x80000000u : (u32)(i32)a); return u + 1; }
OP(cvt_u32_f32) { float a = FA; D32(isnan(a) || a <= 0 ? 0 : a >= 0x1p32f ? ~0u : (u32)a); return u + 1; }
#define ROUND16 (w->mode >> 2 & 3)
#define FLUSH16 (!(w->mode >> 7 & 1))
OP(cvt_f16_f32) { D32(sim_f2h(FA, ROUND16, FLUSH16)); return u + 1; }
OP(cvt_f32_f16) { D32(as_u(hin(w, A32 & 0xFFFF))); return u + 1; }
OP(cvt_hi_f32_f16) { D32(as_u(hin(w, A32 >> 16))); return u + 1; }
OP(cvt_pk_rtz) { D32(sim_f2h(FA, 3, false) | sim_f2h(FB, 3, false) << 16); return u + 1; }
#define HA hin(w, A32 & 0xFFFF)
#define HB hin(w, B32 & 0xFFFF)
#define HOP(name, expr) OP(name) { float a = HA, b = HB; (void)b; D32(sim_d2h((double)(expr), ROUND16, FLUSH16)); return u + 1; }
HOP(add_f16, (double)a + b)
HOP(sub_f16, (double)a - b)
HOP(mul_f16, (double)a *b)
HOP(min_f16, min_num(a, b))
HOP(max_f16, max_num(a, b))
HOP(minimum_f16, minimum(a, b))
HOP(maximum_f16, maximum(a, b))
HOP(ceil_f16, ceilf(a))
HOP(floor_f16, floorf(a))
HOP(trunc_f16, truncf(a))
HOP(rndne_f16, rndne(a))
OP(fmac_f16) {
    double r = sim_fma_odd((double)HA, (double)HB, (double)hin(w, s32(w, u->d) & 0xFFFF));
    D32(sim_d2h(r, ROUND16, FLUSH16));
    return u + 1;
}
#define FCMP(n, expr) \
    OP(n##_f32) { float a = FA, b = FB; SCC = (u32)(expr); return u + 1; } \
    OP(n##_f16) { float a = HA, b = HB; SCC = (u32)(expr); return u + 1; }
FCMP(lt, a < b)
FCMP(eq, a == b)
FCMP(le, a <= b)
FCMP(gt, a > b)
FCMP(lg, a < b || a > b)
FCMP(ge, a >= b)
FCMP(o, !isnan(a) && !isnan(b))
FCMP(un, isnan(a) || isnan(b))
FCMP(nge, !(a >= b))
FCMP(nlg, !(a < b || a > b))
FCMP(ngt, !(a > b))
FCMP(nle, !(a <= b))
FCMP(neq, !(a == b))
FCMP(nlt, !(a < b))

/* Relative moves: M0 counts registers on from the one named. */
OP(movrels) {
    u32 i = w->s[SLOT_M0] + (u->s[0] - (u32)offsetof(wave, s)) / 4;
    if (i >= 106) return sim_fault(w, u, -1, "SGPR number %u from M0 is out of range", i);
    D32(w->s[i]);
    return u + 1;
}
OP(movreld) {
    u32 i = w->s[SLOT_M0] + (u->d - (u32)offsetof(wave, s)) / 4;
    if (i >= 106) return sim_fault(w, u, -1, "SGPR number %u from M0 is out of range", i);
    w->s[i] = A32;
    return u + 1;
}

#define R(op, fn) {SIM_OP_S_##op, CLS_SALU, OPF_FLOAT, fn}
static const op_row ROWS[] = {
    R(MOV_B32, mov32), R(MOV_B64, mov64), R(CMOV_B32, cmov32), R(CMOV_B64, cmov64), R(NOT_B32, not32), R(NOT_B64, not64),
    R(BREV_B32, brev32), R(BREV_B64, brev64), R(CTZ_I32_B32, ctz32), R(CTZ_I32_B64, ctz64), R(CLZ_I32_U32, clz32),
    R(CLZ_I32_U64, clz64), R(CLS_I32, cls32), R(CLS_I32_I64, cls64), R(SEXT_I32_I8, sext8), R(SEXT_I32_I16, sext16),
    R(BITSET0_B32, bitset0_32), R(BITSET1_B32, bitset1_32), R(BITSET0_B64, bitset0_64), R(BITSET1_B64, bitset1_64),
    R(ABS_I32, abs32), R(BCNT1_I32_B32, bcnt1_32), R(BCNT0_I32_B32, bcnt0_32), R(BCNT1_I32_B64, bcnt1_64),
    R(BCNT0_I32_B64, bcnt0_64), R(BITREPLICATE_B64_B32, bitreplicate), R(QUADMASK_B32, quadmask32),
    R(QUADMASK_B64, quadmask64), R(WQM_B32, wqm32), R(WQM_B64, wqm64), R(AND_SAVEEXEC_B32, and_save),
    R(OR_SAVEEXEC_B32, or_save), R(XOR_SAVEEXEC_B32, xor_save), R(NAND_SAVEEXEC_B32, nand_save),
    R(NOR_SAVEEXEC_B32, nor_save), R(XNOR_SAVEEXEC_B32, xnor_save), R(AND_NOT0_SAVEEXEC_B32, and_not0_save),
    R(AND_NOT1_SAVEEXEC_B32, and_not1_save), R(OR_NOT0_SAVEEXEC_B32, or_not0_save), R(OR_NOT1_SAVEEXEC_B32, or_not1_save),
    R(AND_NOT0_WREXEC_B32, and_not0_wr), R(AND_NOT1_WREXEC_B32, and_not1_wr), R(ADD_CO_U32, add_co_u32),
    R(SUB_CO_U32, sub_co_u32), R(ADD_CO_I32, add_co_i32), R(SUB_CO_I32, sub_co_i32), R(ADD_CO_CI_U32, add_ci),
    R(SUB_CO_CI_U32, sub_ci), R(ADDK_CO_I32, addk), R(MULK_I32, mulk), R(MOVK_I32, movk), R(CMOVK_I32, cmovk),
    R(VERSION, version), R(ADD_NC_U64, add64), R(SUB_NC_U64, sub64), R(MUL_U64, mul64), R(ABSDIFF_I32, absdiff),
    R(LSHL_B32, lshl32), R(LSHR_B32, lshr32), R(ASHR_I32, ashr32), R(LSHL_B64, lshl64), R(LSHR_B64, lshr64),
    R(ASHR_I64, ashr64), R(LSHL1_ADD_U32, lshl1_add), R(LSHL2_ADD_U32, lshl2_add), R(LSHL3_ADD_U32, lshl3_add),
    R(LSHL4_ADD_U32, lshl4_add), R(MIN_I32, min_i), R(MAX_I32, max_i), R(MIN_U32, min_u), R(MAX_U32, max_u),
    R(AND_B32, and32), R(OR_B32, or32), R(XOR_B32, xor32), R(NAND_B32, nand32), R(NOR_B32, nor32), R(XNOR_B32, xnor32),
    R(AND_NOT1_B32, and_not1_32), R(OR_NOT1_B32, or_not1_32), R(AND_B64, and64), R(OR_B64, or64), R(XOR_B64, xor64),
    R(NAND_B64, nand64), R(NOR_B64, nor64), R(XNOR_B64, xnor64), R(AND_NOT1_B64, and_not1_64),
    R(OR_NOT1_B64, or_not1_64), R(BFE_U32, bfe_u32), R(BFE_I32, bfe_i32), R(BFE_U64, bfe_u64), R(BFE_I64, bfe_i64),
    R(BFM_B32, bfm32), R(BFM_B64, bfm64), R(MUL_I32, mul_lo), R(MUL_HI_U32, mul_hi_u), R(MUL_HI_I32, mul_hi_i),
    R(CSELECT_B32, csel32), R(CSELECT_B64, csel64), R(PACK_LL_B32_B16, pack_ll), R(PACK_LH_B32_B16, pack_lh),
    R(PACK_HH_B32_B16, pack_hh), R(PACK_HL_B32_B16, pack_hl), R(CMP_EQ_I32, eq_u32), R(CMP_EQ_U32, eq_u32),
    R(CMP_LG_I32, lg_u32), R(CMP_LG_U32, lg_u32), R(CMP_GT_I32, gt_i32), R(CMP_GE_I32, ge_i32), R(CMP_LT_I32, lt_i32),
    R(CMP_LE_I32, le_i32), R(CMP_GT_U32, gt_u32), R(CMP_GE_U32, ge_u32), R(CMP_LT_U32, lt_u32), R(CMP_LE_U32, le_u32),
    R(CMP_EQ_U64, eq_u64), R(CMP_LG_U64, lg_u64), R(BITCMP0_B32, bitcmp0_32), R(BITCMP1_B32, bitcmp1_32),
    R(BITCMP0_B64, bitcmp0_64), R(BITCMP1_B64, bitcmp1_64), R(ADD_F32, add_f32), R(SUB_F32, sub_f32), R(MUL_F32, mul_f32),
    R(MIN_NUM_F32, min_f32), R(MAX_NUM_F32, max_f32), R(MINIMUM_F32, minimum_f32), R(MAXIMUM_F32, maximum_f32),
    R(FMAC_F32, fmac_f32), R(FMAAK_F32, fma3_f32), R(FMAMK_F32, fma3_f32), R(CEIL_F32, ceil_f32), R(FLOOR_F32, floor_f32),
    R(TRUNC_F32, trunc_f32), R(RNDNE_F32, rndne_f32), R(CVT_F32_I32, cvt_f32_i32), R(CVT_F32_U32, cvt_f32_u32),
    R(CVT_I32_F32, cvt_i32_f32), R(CVT_U32_F32, cvt_u32_f32), R(CVT_F16_F32, cvt_f16_f32), R(CVT_F32_F16, cvt_f32_f16),
    R(CVT_HI_F32_F16, cvt_hi_f32_f16), R(CVT_PK_RTZ_F16_F32, cvt_pk_rtz), R(ADD_F16, add_f16), R(SUB_F16, sub_f16),
    R(MUL_F16, mul_f16), R(MIN_NUM_F16, min_f16), R(MAX_NUM_F16, max_f16), R(MINIMUM_F16, minimum_f16),
    R(MAXIMUM_F16, maximum_f16), R(CEIL_F16, ceil_f16), R(FLOOR_F16, floor_f16), R(TRUNC_F16, trunc_f16),
    R(RNDNE_F16, rndne_f16), R(FMAC_F16, fmac_f16), R(MOVRELS_B32, movrels), R(MOVRELD_B32, movreld),
#define FC(op, fn) R(CMP_##op##_F32, fn##_f32), R(CMP_##op##_F16, fn##_f16)
    FC(LT, lt), FC(EQ, eq), FC(LE, le), FC(GT, gt), FC(LG, lg), FC(GE, ge), FC(O, o), FC(U, un), FC(NGE, nge),
    FC(NLG, nlg), FC(NGT, ngt), FC(NLE, nle), FC(NEQ, neq), FC(NLT, nlt),
};
const op_table sim_ops_salu = {ROWS, sizeof ROWS / sizeof *ROWS};
