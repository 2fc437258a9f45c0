/* Atomic operations on global memory, LDS and flat addresses. Lanes act one after the other, lowest first; each is a host atomic,
 * so that workgroups on several host threads may meet. */
#include <math.h>

#include "mem.h"

#define OP(name) static const uop *name(wave *w, const uop *u)

/* x: the old value, v: the operand (v2: the second). */
#define ATOMIC(name, type, get, get2, expr) \
    OP(name) { \
        if (!sim_mem_prep(w, u, sizeof(type), MEM_ATOMIC)) return NULL; \
        const u32 *s = sp(w, u->s[1]), *s2 = sp(w, u->s[2]); \
        u32 *d = sp(w, u->d); \
        bool ret = (u->flags & UOP_RETURN) != 0; \
        (void)s2; \
        FOR_LANES(l, exec_of(w)) { \
            type *p = LANE_PTR(l), v = get, v2 = get2, x = __atomic_load_n(p, __ATOMIC_RELAXED), n; \
            (void)v2; \
            do n = (type)(expr); \
            while (!__atomic_compare_exchange_n(p, &x, n, true, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)); \
            if (ret) { \
                d[l] = (u32)x; \
                if (sizeof(type) == 8) d[32 + l] = (u32)((u64)x >> 32); \
            } \
        } \
        sim_mem_done(w, u, sizeof(type), MEM_ATOMIC); \
        return u + 1; \
    }
#define GET32 s[l]
#define GET64 (s[l] | (u64)s[32 + l] << 32)
#define A32(name, expr) ATOMIC(name, u32, GET32, 0, expr)
#define A64(name, expr) ATOMIC(name, u64, GET64, 0, expr)
#define BOTH(name, expr) A32(name##32, expr) A64(name##64, expr)
BOTH(swap, v)
BOTH(add, x + v)
BOTH(sub, x - v)
BOTH(rsub, v - x)
BOTH(umin, x < v ? x : v)
BOTH(umax, x > v ? x : v)
A32(imin32, (i32)x < (i32)v ? x : v)
A32(imax32, (i32)x > (i32)v ? x : v)
A64(imin64, (i64)x < (i64)v ? x : v)
A64(imax64, (i64)x > (i64)v ? x : v)
BOTH(and_, x &v)
BOTH(or_, x | v)
BOTH(xor_, x ^ v)
BOTH(inc, x >= v ? 0 : x + 1)
BOTH(dec, x == 0 || x > v ? v : x - 1)
A32(sub_clamp, x < v ? 0 : x - v)
A32(cond_sub, x >= v ? x - v : x)

/* Floats: denormals are kept (gfx12), NaN as in min_num. */
static u32 addf(u32 a, u32 b) { return as_u(as_f(a) + as_f(b)); }
static u32 minf(u32 a, u32 b) {
    float x = as_f(a), y = as_f(b);
    return isnan(x) ? b : isnan(y) ? a : x < y || (x == y && signbit(x)) ? a : b;
}
static u32 maxf(u32 a, u32 b) {
    float x = as_f(a), y = as_f(b);
    return isnan(x) ? b : isnan(y) ? a : x > y || (x == y && !signbit(x)) ? a : b;
}
static u64 mind(u64 a, u64 b) {
    double x = as_d(a), y = as_d(b);
    return isnan(x) ? b : isnan(y) ? a : x < y || (x == y && signbit(x)) ? a : b;
}
static u64 maxd(u64 a, u64 b) {
    double x = as_d(a), y = as_d(b);
    return isnan(x) ? b : isnan(y) ? a : x > y || (x == y && !signbit(x)) ? a : b;
}
static u32 pk_add_h(u32 a, u32 b) {
    u32 lo = sim_d2h((double)sim_h2f(a & 0xFFFF) + (double)sim_h2f(b & 0xFFFF), 0, false);
    return lo | sim_d2h((double)sim_h2f(a >> 16) + (double)sim_h2f(b >> 16), 0, false) << 16;
}
static u32 pk_add_bf(u32 a, u32 b) {
    u32 lo = sim_f2bf(sim_bf2f(a & 0xFFFF) + sim_bf2f(b & 0xFFFF), 0);
    return lo | sim_f2bf(sim_bf2f(a >> 16) + sim_bf2f(b >> 16), 0) << 16;
}
A32(addf32, addf(x, v))
A32(minf32, minf(x, v))
A32(maxf32, maxf(x, v))
A64(minf64, mind(x, v))
A64(maxf64, maxd(x, v))
A32(pkaddh, pk_add_h(x, v))
A32(pkaddbf, pk_add_bf(x, v))

/* Compare and swap: global: data = new value, then the value to compare with; DS: two operands. */
ATOMIC(cmpswap32, u32, GET32, s[32 + l], x == v2 ? v : x)
ATOMIC(cmpswap64, u64, GET64, (s[64 + l] | (u64)s[96 + l] << 32), x == v2 ? v : x)
ATOMIC(cmpstore32, u32, GET32, s2[l], x == v2 ? v : x)
ATOMIC(cmpstore64, u64, GET64, (s2[l] | (u64)s2[32 + l] << 32), x == v2 ? v : x)
ATOMIC(mskor32, u32, GET32, s2[l], (x & ~v) | v2)
ATOMIC(mskor64, u64, GET64, (s2[l] | (u64)s2[32 + l] << 32), (x & ~v) | v2)

#define G(op, fn) {SIM_OP_GLOBAL_ATOMIC_##op, CLS_ATOMIC, OPF_MODS, fn}, {SIM_OP_FLAT_ATOMIC_##op, CLS_ATOMIC, OPF_MODS, fn}
#define D(op, rtn, fn) {SIM_OP_DS_##op, CLS_LDS, OPF_MODS, fn}, {SIM_OP_DS_##rtn, CLS_LDS, OPF_MODS, fn}
static const op_row ROWS[] = {
    G(SWAP_B32, swap32), G(SWAP_B64, swap64), G(CMPSWAP_B32, cmpswap32), G(CMPSWAP_B64, cmpswap64), G(ADD_U32, add32),
    G(ADD_U64, add64), G(SUB_U32, sub32), G(SUB_U64, sub64), G(MIN_I32, imin32), G(MIN_I64, imin64), G(MIN_U32, umin32),
    G(MIN_U64, umin64), G(MAX_I32, imax32), G(MAX_I64, imax64), G(MAX_U32, umax32), G(MAX_U64, umax64), G(AND_B32, and_32),
    G(AND_B64, and_64), G(OR_B32, or_32), G(OR_B64, or_64), G(XOR_B32, xor_32), G(XOR_B64, xor_64), G(INC_U32, inc32),
    G(INC_U64, inc64), G(DEC_U32, dec32), G(DEC_U64, dec64), G(ADD_F32, addf32), G(MIN_NUM_F32, minf32),
    G(MAX_NUM_F32, maxf32), G(PK_ADD_F16, pkaddh), G(PK_ADD_BF16, pkaddbf), G(SUB_CLAMP_U32, sub_clamp),
    G(COND_SUB_U32, cond_sub), D(ADD_U32, ADD_RTN_U32, add32), D(ADD_U64, ADD_RTN_U64, add64), D(SUB_U32, SUB_RTN_U32, sub32),
    D(SUB_U64, SUB_RTN_U64, sub64), D(RSUB_U32, RSUB_RTN_U32, rsub32), D(RSUB_U64, RSUB_RTN_U64, rsub64),
    D(INC_U32, INC_RTN_U32, inc32), D(INC_U64, INC_RTN_U64, inc64), D(DEC_U32, DEC_RTN_U32, dec32),
    D(DEC_U64, DEC_RTN_U64, dec64), D(MIN_I32, MIN_RTN_I32, imin32), D(MIN_I64, MIN_RTN_I64, imin64),
    D(MAX_I32, MAX_RTN_I32, imax32), D(MAX_I64, MAX_RTN_I64, imax64), D(MIN_U32, MIN_RTN_U32, umin32),
    D(MIN_U64, MIN_RTN_U64, umin64), D(MAX_U32, MAX_RTN_U32, umax32), D(MAX_U64, MAX_RTN_U64, umax64),
    D(AND_B32, AND_RTN_B32, and_32), D(AND_B64, AND_RTN_B64, and_64), D(OR_B32, OR_RTN_B32, or_32),
    D(OR_B64, OR_RTN_B64, or_64), D(XOR_B32, XOR_RTN_B32, xor_32), D(XOR_B64, XOR_RTN_B64, xor_64),
    D(ADD_F32, ADD_RTN_F32, addf32), D(MIN_NUM_F32, MIN_NUM_RTN_F32, minf32), D(MAX_NUM_F32, MAX_NUM_RTN_F32, maxf32),
    D(MIN_NUM_F64, MIN_NUM_RTN_F64, minf64), D(MAX_NUM_F64, MAX_NUM_RTN_F64, maxf64), D(PK_ADD_F16, PK_ADD_RTN_F16, pkaddh),
    D(PK_ADD_BF16, PK_ADD_RTN_BF16, pkaddbf), D(CMPSTORE_B32, CMPSTORE_RTN_B32, cmpstore32),
    D(CMPSTORE_B64, CMPSTORE_RTN_B64, cmpstore64), D(MSKOR_B32, MSKOR_RTN_B32, mskor32), D(MSKOR_B64, MSKOR_RTN_B64, mskor64),
    D(SUB_CLAMP_U32, SUB_CLAMP_RTN_U32, sub_clamp), D(COND_SUB_U32, COND_SUB_RTN_U32, cond_sub),
    {SIM_OP_DS_STOREXCHG_RTN_B32, CLS_LDS, OPF_MODS, swap32}, {SIM_OP_DS_STOREXCHG_RTN_B64, CLS_LDS, OPF_MODS, swap64},
};
const op_table sim_ops_atomic = {ROWS, sizeof ROWS / sizeof *ROWS};
