/* Loads and stores of the global, flat, scratch and DS instructions, and the addressing that atomics share. */
#include "mem.h"

#define OP(name) static const uop *name(wave *w, const uop *u)

/* Addresses of the active lanes from the operands; offsets are signed 24 bits. */
static void global_addresses(wave *w, const uop *u, u32 ex) {
    u64 imm = (u64)(i64)u->imm;
    const u32 *lo = sp(w, u->s[0]);
    if (u->flags & UOP_SADDR) {
        u64 base = s64(w, u->d1) + imm;
        if (u->flags & UOP_VADDR) {
            FOR_LANES(l, ex) w->addr[l] = base + lo[l];
        } else {
            FOR_LANES(l, ex) w->addr[l] = base;
        }
        return;
    }
    const u32 *hi = lo + 32;
    FOR_LANES(l, ex) w->addr[l] = (lo[l] | (u64)hi[l] << 32) + imm;
}

static bool inside(const sim_alloc *a, u64 p, u64 n) { return p >= a->base && n <= a->size && p - a->base <= a->size - n; }

static bool check_global(wave *w, const uop *u, u32 ex, u32 bytes, enum mem_kind kind) {
    u64 lo = ~0ull, hi = 0;
    FOR_LANES(l, ex) {
        u64 a = w->addr[l];
        lo = a < lo ? a : lo;
        hi = a > hi ? a : hi;
    }
    const sim_alloc *al = w->near;
    if (!al || !al->live || !inside(al, lo, bytes)) {
        al = sim_find(w->l->dev->mem, lo, bytes);
        if (al) w->near = al;
    }
    if (al && inside(al, hi, bytes)) return true;
    FOR_LANES(l, ex) {
        if (al && inside(al, w->addr[l], bytes)) continue;
        if (sim_find(w->l->dev->mem, w->addr[l], bytes)) continue;
        sim_fault_addr(w, u, (int)l, w->addr[l], "global %s of %u bytes out of bounds",
                       kind == MEM_READ ? "load" : kind == MEM_WRITE ? "store" : "atomic", bytes);
        return false;
    }
    return true;
}

static const char *verb(enum mem_kind k) { return k == MEM_READ ? "load" : k == MEM_WRITE ? "store" : "atomic"; }

static bool lds_fault(wave *w, const uop *u, u32 l, u64 off, u32 bytes, enum mem_kind kind) {
    sim_fault(w, u, (int)l, "LDS %s of %u bytes at %llu out of bounds: the workgroup has %u bytes", verb(kind), bytes,
              (unsigned long long)off, w->lds_size);
    return false;
}

/* Scratch: each lane has its own bytes, at consecutive addresses. */
static bool scratch_ptr(wave *w, const uop *u, u32 l, u32 off, u32 bytes, enum mem_kind kind) {
    if (off > w->scratch_size || bytes > w->scratch_size - off) {
        sim_fault(w, u, (int)l, "scratch %s of %u bytes at %u out of bounds: a lane has %u bytes", verb(kind), bytes, off,
                  w->scratch_size);
        return false;
    }
    w->addr[l] = (u64)(uintptr_t)(w->scratch + (size_t)l * w->scratch_size + off);
    return true;
}

static bool check_lanes(wave *w, const uop *u, u32 ex, u32 space, u32 bytes, enum mem_kind kind) {
    if (!w->slow) return true;
    FOR_LANES(l, ex) {
        u64 a = w->addr[l];
        if (!sim_check_access(w, u, l, space, a, bytes, kind, &w->addr[l])) return false;
    }
    return true;
}

static bool scratch_prep(wave *w, const uop *u, u32 ex, u32 bytes, enum mem_kind kind) {
    u32 base = (u32)u->imm;
    if (u->flags & UOP_SADDR) base += s32(w, u->d1);
    const u32 *v = sp(w, u->s[0]);
    FOR_LANES(l, ex) {
        u32 off = base + (u->flags & UOP_VADDR ? v[l] : 0);
        if (!scratch_ptr(w, u, l, off, bytes, kind)) return false;
    }
    return check_lanes(w, u, ex, 2, bytes, kind);
}

/* Flat addresses: the upper half says LDS, scratch or global. */
static bool flat_prep(wave *w, const uop *u, u32 ex, u32 bytes, enum mem_kind kind) {
    u32 lds = 0, scr = 0;
    FOR_LANES(l, ex) {
        u32 hi = (u32)(w->addr[l] >> 32);
        if (hi == SIM_SHARED_HI) lds |= 1u << l;
        else if (hi == SIM_PRIVATE_HI) scr |= 1u << l;
    }
    FOR_LANES(l, lds) {
        u32 off = (u32)w->addr[l];
        if (off > w->lds_size || bytes > w->lds_size - off) return lds_fault(w, u, l, off, bytes, kind);
        w->addr[l] = (u64)(uintptr_t)(w->lds + off);
    }
    FOR_LANES(l, scr) if (!scratch_ptr(w, u, l, (u32)w->addr[l], bytes, kind)) return false;
    u32 glob = ex & ~(lds | scr);
    if (glob && !check_global(w, u, glob, bytes, kind)) return false;
    return check_lanes(w, u, lds, 1, bytes, kind) && check_lanes(w, u, scr, 2, bytes, kind) && check_lanes(w, u, glob, 0, bytes, kind);
}

static bool check_align(wave *w, const uop *u, u32 ex, u32 bytes, enum mem_kind kind) {
    u32 need = kind == MEM_ATOMIC ? bytes : bytes >= 4 ? 4 : bytes;
    if (kind != MEM_ATOMIC && !w->chk) return true;
    FOR_LANES(l, ex) {
        if (w->addr[l] & (need - 1)) {
            sim_fault(w, u, (int)l, "misaligned %s: address 0x%llx is no multiple of %u", verb(kind),
                      (unsigned long long)w->addr[l], need);
            return false;
        }
    }
    return true;
}

bool sim_lds_prep(wave *w, const uop *u, u32 offset, u32 bytes, enum mem_kind kind) {
    u32 ex = exec_of(w);
    const u32 *v = sp(w, u->s[0]);
    FOR_LANES(l, ex) {
        u32 off = v[l] + offset;
        if (off > w->lds_size || bytes > w->lds_size - off) return lds_fault(w, u, l, off, bytes, kind);
        w->addr[l] = (u64)(uintptr_t)(w->lds + off);
    }
    return check_align(w, u, ex, bytes, kind) && check_lanes(w, u, ex, 1, bytes, kind);
}

bool sim_mem_prep(wave *w, const uop *u, u32 bytes, enum mem_kind kind) {
    u32 ex = exec_of(w);
    if (!ex) return true;
    switch (u->in->enc) {
    case SIM_ENC_DS: return sim_lds_prep(w, u, (u32)u->imm, bytes, kind);
    case SIM_ENC_SCRATCH: return scratch_prep(w, u, ex, bytes, kind);
    case SIM_ENC_FLAT:
        global_addresses(w, u, ex);
        return check_align(w, u, ex, bytes, kind) && flat_prep(w, u, ex, bytes, kind);
    default:
        global_addresses(w, u, ex);
        return check_align(w, u, ex, bytes, kind) && check_global(w, u, ex, bytes, kind) && check_lanes(w, u, ex, 0, bytes, kind);
    }
}

void sim_mem_done(wave *w, const uop *u, u32 bytes, enum mem_kind kind) {
    if (w->slow) sim_check_done(w, u, bytes, kind);
}

/* ---- loads ---- */

#define LOAD_DWORDS(name, n) \
    OP(name) { \
        if (!sim_mem_prep(w, u, 4 * n, MEM_READ)) return NULL; \
        u32 *d = sp(w, u->d); \
        FOR_LANES(l, exec_of(w)) { \
            u32 x[n]; \
            memcpy(x, LANE_PTR(l), sizeof x); \
            for (u32 i = 0; i < n; i++) d[32 * i + l] = x[i]; \
        } \
        return u + 1; \
    }
LOAD_DWORDS(load_b32, 1)
LOAD_DWORDS(load_b64, 2)
LOAD_DWORDS(load_b96, 3)
LOAD_DWORDS(load_b128, 4)

/* type: of the value in memory; put: what becomes of the register's dword r. */
#define LOAD_SMALL(name, type, put) \
    OP(name) { \
        if (!sim_mem_prep(w, u, sizeof(type), MEM_READ)) return NULL; \
        u32 *d = sp(w, u->d); \
        FOR_LANES(l, exec_of(w)) { \
            type m; \
            memcpy(&m, LANE_PTR(l), sizeof m); \
            u32 x = (u32)(i32)m, r = d[l]; \
            (void)r; \
            d[l] = (put); \
        } \
        return u + 1; \
    }
LOAD_SMALL(load_u8, u8, x)
LOAD_SMALL(load_i8, int8_t, x)
LOAD_SMALL(load_u16, u16, x)
LOAD_SMALL(load_i16, int16_t, x)
LOAD_SMALL(load_u8_lo, u8, (r & 0xFFFF0000u) | x)
LOAD_SMALL(load_i8_lo, int8_t, (r & 0xFFFF0000u) | (x & 0xFFFF))
LOAD_SMALL(load_16_lo, u16, (r & 0xFFFF0000u) | x)
LOAD_SMALL(load_u8_hi, u8, (r & 0xFFFF) | x << 16)
LOAD_SMALL(load_i8_hi, int8_t, (r & 0xFFFF) | x << 16)
LOAD_SMALL(load_16_hi, u16, (r & 0xFFFF) | x << 16)

/* ---- stores ---- */

#define STORE_DWORDS(name, n) \
    OP(name) { \
        if (!sim_mem_prep(w, u, 4 * n, MEM_WRITE)) return NULL; \
        const u32 *s = sp(w, u->s[1]); \
        FOR_LANES(l, exec_of(w)) { \
            u32 x[n]; \
            for (u32 i = 0; i < n; i++) x[i] = s[32 * i + l]; \
            memcpy(LANE_PTR(l), x, sizeof x); \
        } \
        sim_mem_done(w, u, 4 * n, MEM_WRITE); \
        return u + 1; \
    }
STORE_DWORDS(store_b32, 1)
STORE_DWORDS(store_b64, 2)
STORE_DWORDS(store_b96, 3)
STORE_DWORDS(store_b128, 4)
#define STORE_SMALL(name, type, shift) \
    OP(name) { \
        if (!sim_mem_prep(w, u, sizeof(type), MEM_WRITE)) return NULL; \
        const u32 *s = sp(w, u->s[1]); \
        u32 sh = (shift) + (u->in->data.mods & SIM_HI ? 16u : 0u); \
        FOR_LANES(l, exec_of(w)) { \
            type x = (type)(s[l] >> sh); \
            memcpy(LANE_PTR(l), &x, sizeof x); \
        } \
        sim_mem_done(w, u, sizeof(type), MEM_WRITE); \
        return u + 1; \
    }
STORE_SMALL(store_b8, u8, 0u)
STORE_SMALL(store_b16, u16, 0u)
STORE_SMALL(store_b8_hi, u8, 16u)
STORE_SMALL(store_b16_hi, u16, 16u)

/* Matrix transposing loads: each lane fetches its own 8 or 16 bytes, then the lanes exchange elements. b128 moves a 16 x 16
 * matrix of 16-bit elements (two 8 x 16 halves), b64 one of 8-bit elements: lane l holds column (l mod 16) of the source. */
OP(load_tr_b128) {
    if (exec_of(w) != ~0u) return sim_fault(w, u, -1, "transposing load with lanes off");
    if (!sim_mem_prep(w, u, 16, MEM_READ)) return NULL;
    u16 m[32][8];
    for (u32 l = 0; l < 32; l++) memcpy(m[l], LANE_PTR(l), 16);
    u32 *d = sp(w, u->d);
    /* Lane l of the source has row l mod 16, columns 8 * (l / 16) .. + 7; of the result column l mod 16, rows likewise. */
    for (u32 l = 0; l < 32; l++)
        for (u32 i = 0; i < 4; i++) {
            u32 row = 8 * (l / 16) + 2 * i, col = l % 16;
            u32 a = m[row + 16 * (col / 8)][col % 8], b = m[row + 1 + 16 * (col / 8)][col % 8];
            d[32 * i + l] = a | b << 16;
        }
    return u + 1;
}
OP(load_tr_b64) {
    if (exec_of(w) != ~0u) return sim_fault(w, u, -1, "transposing load with lanes off");
    if (!sim_mem_prep(w, u, 8, MEM_READ)) return NULL;
    u8 m[32][8];
    for (u32 l = 0; l < 32; l++) memcpy(m[l], LANE_PTR(l), 8);
    u32 *d = sp(w, u->d);
    for (u32 l = 0; l < 32; l++)
        for (u32 i = 0; i < 2; i++) {
            u32 x = 0, col = l % 16;
            for (u32 k = 0; k < 4; k++) x |= (u32)m[8 * (l / 16) + 4 * i + k + 16 * (col / 8)][col % 8] << 8 * k;
            d[32 * i + l] = x;
        }
    return u + 1;
}

/* Write-back and invalidate act in the checking modes only (check.c sees every instruction). */
OP(cache_op) { (void)w; return u + 1; }

#define L(pre, op, fn) {SIM_OP_##pre##op, CLS_VMEM_LOAD, OPF_MODS, fn}
#define ST(pre, op, fn) {SIM_OP_##pre##op, CLS_VMEM_STORE, OPF_MODS, fn}
#define SPACE(pre) \
    L(pre, LOAD_B32, load_b32), L(pre, LOAD_B64, load_b64), L(pre, LOAD_B96, load_b96), L(pre, LOAD_B128, load_b128), \
    L(pre, LOAD_U8, load_u8), L(pre, LOAD_I8, load_i8), L(pre, LOAD_U16, load_u16), L(pre, LOAD_I16, load_i16), \
    L(pre, LOAD_D16_U8, load_u8_lo), L(pre, LOAD_D16_I8, load_i8_lo), L(pre, LOAD_D16_B16, load_16_lo), \
    L(pre, LOAD_D16_HI_U8, load_u8_hi), L(pre, LOAD_D16_HI_I8, load_i8_hi), L(pre, LOAD_D16_HI_B16, load_16_hi), \
    ST(pre, STORE_B8, store_b8), ST(pre, STORE_B16, store_b16), ST(pre, STORE_B32, store_b32), ST(pre, STORE_B64, store_b64), \
    ST(pre, STORE_B96, store_b96), ST(pre, STORE_B128, store_b128), ST(pre, STORE_D16_HI_B8, store_b8_hi), \
    ST(pre, STORE_D16_HI_B16, store_b16_hi)
static const op_row ROWS[] = {
    SPACE(GLOBAL_), SPACE(FLAT_), SPACE(SCRATCH_), L(GLOBAL_, LOAD_TR_B128, load_tr_b128), L(GLOBAL_, LOAD_TR_B64, load_tr_b64),
    ST(GLOBAL_, INV, cache_op), ST(GLOBAL_, WB, cache_op), ST(GLOBAL_, WBINV, cache_op),
#define D(op, fn) {SIM_OP_DS_##op, CLS_LDS, OPF_MODS, fn}
    D(LOAD_B32, load_b32), D(LOAD_B64, load_b64), D(LOAD_B96, load_b96), D(LOAD_B128, load_b128), D(LOAD_U8, load_u8),
    D(LOAD_I8, load_i8), D(LOAD_U16, load_u16), D(LOAD_I16, load_i16), D(LOAD_U8_D16, load_u8_lo),
    D(LOAD_I8_D16, load_i8_lo), D(LOAD_U16_D16, load_16_lo), D(LOAD_U8_D16_HI, load_u8_hi), D(LOAD_I8_D16_HI, load_i8_hi),
    D(LOAD_U16_D16_HI, load_16_hi), D(STORE_B8, store_b8), D(STORE_B16, store_b16), D(STORE_B32, store_b32),
    D(STORE_B64, store_b64), D(STORE_B96, store_b96), D(STORE_B128, store_b128), D(STORE_B8_D16_HI, store_b8_hi),
    D(STORE_B16_D16_HI, store_b16_hi),
};
const op_table sim_ops_mem = {ROWS, sizeof ROWS / sizeof *ROWS};
