/* Vector instructions that move values between lanes, between VGPRs by an index, or to scalars. */
#include "lane.h"

OP(nop) { (void)w; return u + 1; }

OP(readfirstlane) {
    u32 ex = exec_of(w);
    *sp(w, u->d) = lget(lsrc(w, u, 0), ex ? (u32)__builtin_ctz(ex) : 0);
    return u + 1;
}
OP(readlane) {
    u32 n = lget(lsrc(w, u, 1), 0) & 31;
    if (w->chk && sim_inactive_read(w, (int)n) && !(u->bcast & 1) && !sim_lane_written(w, u, (int)n))
        return sim_fault(w, u, (int)n, "v_readlane_b32 reads lane %u, which never wrote the register", n);
    *sp(w, u->d) = lget(lsrc(w, u, 0), n);
    return u + 1;
}
OP(writelane) {
    sp(w, u->d)[lget(lsrc(w, u, 1), 0) & 31] = lget(lsrc(w, u, 0), 0);
    return u + 1;
}

/* Each lane of a row of 16 takes the lane that a nibble of src2:src1 names, from its own row or the other. op_sel bit 0: fetch
 * inactive lanes too; bit 1: bound control, inactive lanes read as zero. */
static const uop *permlane(wave *w, const uop *u, u32 cross, bool var) {
    lane_src s0 = lsrc(w, u, 0), s1 = lsrc(w, u, 1), s2 = lsrc(w, u, 2);
    u32 ex = exec_of(w), t[32], *d = sp(w, u->d);
    bool fi = u->hi & 1, bc = u->hi >> 1 & 1;
    for (u32 l = 0; l < 32; l++) t[l] = lget(s0, l);
    u64 sel = var ? 0 : lget(s1, 0) | (u64)lget(s2, 0) << 32;
    u32 idx[32];
    FOR_LANES(l, ex) idx[l] = ((l ^ cross) & 16) | (var ? lget(s1, l) & 15 : (u32)(sel >> 4 * (l & 15)) & 15);
    FOR_LANES(l, ex) {
        u32 from = idx[l];
        if (fi || (ex >> from & 1)) {
            d[l] = t[from];
        } else {
            if (w->chk && sim_inactive_read(w, (int)from))
                return sim_fault(w, u, (int)l, "%s reads lane %u, which is not active", sim_op_name(u->in->op), from);
            if (bc) d[l] = 0;
        }
    }
    return u + 1;
}
OP(permlane16) { return permlane(w, u, 0, false); }
OP(permlanex16) { return permlane(w, u, 16, false); }
OP(permlane16_var) { return permlane(w, u, 0, true); }
OP(permlanex16_var) { return permlane(w, u, 16, true); }

OP(swap) {
    u32 *a = sp(w, u->s[0]), *b = sp(w, u->d);
    FOR_LANES(l, exec_of(w)) {
        u32 t = a[l];
        a[l] = b[l];
        b[l] = t;
    }
    return u + 1;
}

/* Register numbers counted on by M0. */
static u32 *vgpr(wave *w, const uop *u, u32 off, u32 add) {
    u32 i = (off - (u32)offsetof(wave, v)) / 128 + add;
    if (i >= w->l->prog->nv || add > 255) {
        sim_fault(w, u, -1, "VGPR number %u from M0 is out of range", i);
        return NULL;
    }
    return sp(w, (u32)offsetof(wave, v) + 128 * i);
}
static const uop *move(wave *w, const uop *u, u32 ds, u32 dd, bool swp) {
    if (u->bcast & 1) {
        u32 *to = vgpr(w, u, u->d, dd);
        if (!to || ds) return to ? sim_do_illegal(w, u) : NULL;
        FOR_LANES(l, exec_of(w)) to[l] = s32(w, u->s[0]);
        return u + 1;
    }
    u32 *a = vgpr(w, u, u->s[0], ds), *b = vgpr(w, u, u->d, dd);
    if (!a || !b) return NULL;
    FOR_LANES(l, exec_of(w)) {
        u32 t = b[l];
        b[l] = a[l];
        if (swp) a[l] = t;
    }
    return u + 1;
}
OP(movrels) { return move(w, u, w->s[SLOT_M0], 0, false); }
OP(movreld) { return move(w, u, 0, w->s[SLOT_M0], false); }
OP(movrelsd) { return move(w, u, w->s[SLOT_M0], w->s[SLOT_M0], false); }
OP(movrelsd2) { return move(w, u, w->s[SLOT_M0] & 1023, w->s[SLOT_M0] >> 16 & 1023, false); }
OP(swaprel) { return move(w, u, w->s[SLOT_M0] & 1023, w->s[SLOT_M0] >> 16 & 1023, true); }

#define R(op, fn) {SIM_OP_V_##op, CLS_VALU, OPF_MODS, fn}
static const op_row ROWS[] = {
    R(NOP, nop), R(READFIRSTLANE_B32, readfirstlane), R(READLANE_B32, readlane), R(WRITELANE_B32, writelane),
    R(PERMLANE16_B32, permlane16), R(PERMLANEX16_B32, permlanex16), R(PERMLANE16_VAR_B32, permlane16_var),
    R(PERMLANEX16_VAR_B32, permlanex16_var), R(PERMLANE64_B32, nop), R(SWAP_B32, swap), R(MOVRELS_B32, movrels),
    R(MOVRELD_B32, movreld), R(MOVRELSD_B32, movrelsd), R(MOVRELSD_2_B32, movrelsd2), R(SWAPREL_B32, swaprel),
};
const op_table sim_ops_cross = {ROWS, sizeof ROWS / sizeof *ROWS};
