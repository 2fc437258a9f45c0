/* DS instructions beyond plain loads, stores and atomics: two addresses, exchanges between lanes, per-wave counters. */
#include "mem.h"

#define OP(name) static const uop *name(wave *w, const uop *u)

/* Two-address forms: the offsets count elements (64 of them in the stride64 forms). */
static u32 two_offset(const uop *u, int which, u32 elem, u32 stride) {
    u32 o = (u32)(which ? u->in->offset1 : u->in->offset) & 0xFF;
    return o * elem * stride;
}

static const uop *load2(wave *w, const uop *u, u32 dw, u32 stride) {
    u32 t[2][2][32];
    for (int k = 0; k < 2; k++) {
        if (!sim_lds_prep(w, u, two_offset(u, k, 4 * dw, stride), 4 * dw, MEM_READ)) return NULL;
        FOR_LANES(l, exec_of(w)) {
            u32 x[2] = {0};
            memcpy(x, LANE_PTR(l), 4 * dw);
            for (u32 i = 0; i < dw; i++) t[k][i][l] = x[i];
        }
    }
    u32 *d = sp(w, u->d);
    FOR_LANES(l, exec_of(w))
        for (u32 k = 0; k < 2; k++)
            for (u32 i = 0; i < dw; i++) d[32 * (k * dw + i) + l] = t[k][i][l];
    return u + 1;
}
OP(load2_b32) { return load2(w, u, 1, 1); }
OP(load2_b64) { return load2(w, u, 2, 1); }
OP(load2st_b32) { return load2(w, u, 1, 64); }
OP(load2st_b64) { return load2(w, u, 2, 64); }

static const uop *store2(wave *w, const uop *u, u32 dw, u32 stride) {
    for (int k = 0; k < 2; k++) {
        if (!sim_lds_prep(w, u, two_offset(u, k, 4 * dw, stride), 4 * dw, MEM_WRITE)) return NULL;
        const u32 *s = sp(w, u->s[1 + k]);
        FOR_LANES(l, exec_of(w)) {
            u32 x[2] = {s[l], dw > 1 ? s[32 + l] : 0};
            memcpy(LANE_PTR(l), x, 4 * dw);
        }
        sim_mem_done(w, u, 4 * dw, MEM_WRITE);
    }
    return u + 1;
}
OP(store2_b32) { return store2(w, u, 1, 1); }
OP(store2_b64) { return store2(w, u, 2, 1); }
OP(store2st_b32) { return store2(w, u, 1, 64); }
OP(store2st_b64) { return store2(w, u, 2, 64); }

static const uop *xchg2(wave *w, const uop *u, u32 dw, u32 stride) {
    u32 t[2][2][32];
    for (int k = 0; k < 2; k++) {
        if (!sim_lds_prep(w, u, two_offset(u, k, 4 * dw, stride), 4 * dw, MEM_ATOMIC)) return NULL;
        const u32 *s = sp(w, u->s[1 + k]);
        FOR_LANES(l, exec_of(w)) {
            u32 x[2] = {s[l], dw > 1 ? s[32 + l] : 0}, old[2] = {0};
            memcpy(old, LANE_PTR(l), 4 * dw);
            memcpy(LANE_PTR(l), x, 4 * dw);
            for (u32 i = 0; i < dw; i++) t[k][i][l] = old[i];
        }
        sim_mem_done(w, u, 4 * dw, MEM_ATOMIC);
    }
    u32 *d = sp(w, u->d);
    FOR_LANES(l, exec_of(w))
        for (u32 k = 0; k < 2; k++)
            for (u32 i = 0; i < dw; i++) d[32 * (k * dw + i) + l] = t[k][i][l];
    return u + 1;
}
OP(xchg2_b32) { return xchg2(w, u, 1, 1); }
OP(xchg2_b64) { return xchg2(w, u, 2, 1); }
OP(xchg2st_b32) { return xchg2(w, u, 1, 64); }
OP(xchg2st_b64) { return xchg2(w, u, 2, 64); }

/* Lane l's dword at offset + M0 + 4 l. */
static bool addtid(wave *w, const uop *u, enum mem_kind kind) {
    u32 base = (u32)u->imm + (w->s[SLOT_M0] & 0xFFFF);
    FOR_LANES(l, exec_of(w)) {
        u32 off = base + 4 * l;
        if (off > w->lds_size || 4 > w->lds_size - off) {
            sim_fault(w, u, (int)l, "LDS access of 4 bytes at %u out of bounds: the workgroup has %u bytes", off, w->lds_size);
            return false;
        }
        w->addr[l] = (u64)(uintptr_t)(w->lds + off);
        if (w->slow && !sim_check_access(w, u, l, 1, w->addr[l], 4, kind, &w->addr[l])) return false;
    }
    return true;
}
OP(load_addtid) {
    if (!addtid(w, u, MEM_READ)) return NULL;
    u32 *d = sp(w, u->d);
    FOR_LANES(l, exec_of(w)) memcpy(&d[l], LANE_PTR(l), 4);
    return u + 1;
}
OP(store_addtid) {
    if (!addtid(w, u, MEM_WRITE)) return NULL;
    const u32 *s = sp(w, u->s[1]);
    FOR_LANES(l, exec_of(w)) memcpy(LANE_PTR(l), &s[l], 4);
    sim_mem_done(w, u, 4, MEM_WRITE);
    return u + 1;
}

/* append / consume: one counter, the number of active lanes added or taken; all get the old value. */
static const uop *counter(wave *w, const uop *u, bool add) {
    u32 off = (u32)u->imm & 0xFFFF, old, n = (u32)__builtin_popcount(exec_of(w)), now;
    if (off > w->lds_size || 4 > w->lds_size - off)
        return sim_fault(w, u, -1, "LDS counter at %u out of bounds: the workgroup has %u bytes", off, w->lds_size);
    memcpy(&old, w->lds + off, 4);
    now = add ? old + n : old - n;
    memcpy(w->lds + off, &now, 4);
    u32 *d = sp(w, u->d);
    FOR_LANES(l, exec_of(w)) d[l] = old;
    return u + 1;
}
OP(append) { return counter(w, u, true); }
OP(consume) { return counter(w, u, false); }

OP(bpermute) {
    const u32 *a = sp(w, u->s[0]), *s = sp(w, u->s[1]);
    u32 ex = exec_of(w), t[32], *d = sp(w, u->d);
    bool fi = u->in->op == SIM_OP_DS_BPERMUTE_FI_B32;
    memcpy(t, s, sizeof t);
    u32 from[32];
    FOR_LANES(l, ex) from[l] = ((a[l] + (u32)u->imm) >> 2) & 31;
    FOR_LANES(l, ex) {
        if (w->chk && !fi && sim_inactive_read(w, (int)from[l]))
            return sim_fault(w, u, (int)l, "bpermute reads lane %u, which is not active", from[l]);
        d[l] = fi || (ex >> from[l] & 1) ? t[from[l]] : 0;
    }
    return u + 1;
}
OP(permute) {
    const u32 *a = sp(w, u->s[0]), *s = sp(w, u->s[1]);
    u32 ex = exec_of(w), t[32] = {0}, *d = sp(w, u->d);
    FOR_LANES(l, ex) t[((a[l] + (u32)u->imm) >> 2) & 31] = s[l];
    FOR_LANES(l, ex) d[l] = t[l];
    return u + 1;
}

/* Source lane of a swizzle. Bit 15 set: quads (or, from 0xC000 on, rotation; from 0xE000 on, FFT order); else and/or/xor masks. */
static u32 swizzle_lane(u32 o, u32 l) {
    if (o >= 0xE000) {
        u32 mask = o & 31, r = 0;
        for (u32 i = 0; i < 5; i++) r |= (l >> i & 1) << (4 - i);
        return (r >> __builtin_popcount(mask)) | (l & mask);
    }
    if (o >= 0xC000) {
        u32 n = o >> 5 & 31, mask = o & 31, to = o >> 10 & 1 ? l - n : l + n;
        return (l & mask) | (to & ~mask & 31);
    }
    if (o & 0x8000) return (l & ~3u) | (o >> 2 * (l & 3) & 3);
    return ((l & (o & 31)) | (o >> 5 & 31)) ^ (o >> 10 & 31);
}
OP(swizzle) {
    const u32 *s = sp(w, u->s[0]);
    u32 ex = exec_of(w), t[32], *d = sp(w, u->d), o = (u32)u->imm & 0xFFFF;
    memcpy(t, s, sizeof t);
    FOR_LANES(l, ex) {
        u32 from = swizzle_lane(o, l);
        if (w->chk && sim_inactive_read(w, (int)from))
            return sim_fault(w, u, (int)l, "swizzle reads lane %u, which is not active", from);
        d[l] = ex >> from & 1 ? t[from] : 0;
    }
    return u + 1;
}
OP(nop) { (void)w; return u + 1; }

#define D(op, fn) {SIM_OP_DS_##op, CLS_LDS, OPF_MODS, fn}
static const op_row ROWS[] = {
    D(LOAD_2ADDR_B32, load2_b32), D(LOAD_2ADDR_B64, load2_b64), D(LOAD_2ADDR_STRIDE64_B32, load2st_b32),
    D(LOAD_2ADDR_STRIDE64_B64, load2st_b64), D(STORE_2ADDR_B32, store2_b32), D(STORE_2ADDR_B64, store2_b64),
    D(STORE_2ADDR_STRIDE64_B32, store2st_b32), D(STORE_2ADDR_STRIDE64_B64, store2st_b64),
    D(STOREXCHG_2ADDR_RTN_B32, xchg2_b32), D(STOREXCHG_2ADDR_RTN_B64, xchg2_b64),
    D(STOREXCHG_2ADDR_STRIDE64_RTN_B32, xchg2st_b32), D(STOREXCHG_2ADDR_STRIDE64_RTN_B64, xchg2st_b64),
    D(LOAD_ADDTID_B32, load_addtid), D(STORE_ADDTID_B32, store_addtid), D(APPEND, append), D(CONSUME, consume),
    D(BPERMUTE_B32, bpermute), D(BPERMUTE_FI_B32, bpermute), D(PERMUTE_B32, permute), D(SWIZZLE_B32, swizzle), D(NOP, nop),
};
const op_table sim_ops_lds = {ROWS, sizeof ROWS / sizeof *ROWS};
