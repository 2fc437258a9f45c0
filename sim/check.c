/* The loop of the checking modes, and strict mode itself.
 *
 * Registers: each VGPR has a mask of the lanes that were ever written; results inherit it from their sources, so that moving an
 * unwritten value about (spills, whole-register copies) is no fault, but storing it to memory, addressing with it or branching on
 * it is. Loads leave a ticket at their register until a wait covers it; touching the register before that is a fault. Memory has
 * written bits: device memory in memory.c, LDS and scratch here. */
#include "check.h"

#include <stdlib.h>

u64 sim_random(u64 *state) {
    u64 z = *state += 0x9E3779B97F4A7C15ull;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ z >> 27) * 0x94D049BB133111EBull;
    return z ^ z >> 31;
}

/* ---- what each instruction reads and writes ---- */

static void add_read(inst_info *f, const sim_opnd *o, bool addr, bool stored) {
    if (o->kind != SIM_K_VGPR && (o->kind != SIM_K_SREG || o->reg == SLOT_NULL)) return;
    if (f->nr == sizeof f->r / sizeof *f->r) return;
    f->r[f->nr++] = (reg_range){o->kind == SIM_K_VGPR, o->ndw ? o->ndw : 1, addr, stored, o->reg};
}
static void add_write(inst_info *f, const sim_opnd *o) {
    if (o->kind != SIM_K_VGPR && (o->kind != SIM_K_SREG || o->reg == SLOT_NULL)) return;
    if (f->nw == sizeof f->w / sizeof *f->w) return;
    f->w[f->nw++] = (reg_range){o->kind == SIM_K_VGPR, o->ndw ? o->ndw : 1, 0, 0, o->reg};
}

static bool crosses(const sim_inst *in) {
    if (in->dpp) return true;
    switch (in->op) {
    case SIM_OP_V_READLANE_B32: case SIM_OP_V_READFIRSTLANE_B32: case SIM_OP_V_PERMLANE16_B32: case SIM_OP_V_PERMLANEX16_B32:
    case SIM_OP_V_PERMLANE16_VAR_B32: case SIM_OP_V_PERMLANEX16_VAR_B32: case SIM_OP_DS_BPERMUTE_B32: case SIM_OP_DS_PERMUTE_B32:
    case SIM_OP_DS_BPERMUTE_FI_B32: case SIM_OP_DS_SWIZZLE_B32: case SIM_OP_V_WRITELANE_B32: return true;
    default: return false;
    }
}

static bool exchanges(u32 op) {
    return op == SIM_OP_DS_BPERMUTE_B32 || op == SIM_OP_DS_PERMUTE_B32 || op == SIM_OP_DS_BPERMUTE_FI_B32 || op == SIM_OP_DS_SWIZZLE_B32;
}

static void fill_info(inst_info *f, const uop *u) {
    const sim_inst *in = u->in;
    f->ready = true;
    f->cross = crosses(in);
    if (in->enc == SIM_ENC_VOPD) {
        for (int h = 0; h < 2; h++) {
            for (int i = 0; i < 3; i++) add_read(f, &in->half[h].src[i], false, false);
            if (in->half[h].op == SIM_OP_V_FMAC_F32) add_read(f, &in->half[h].dst, false, false);
            add_write(f, &in->half[h].dst);
        }
        return;
    }
    for (u32 i = 0; i < in->nsrc; i++) add_read(f, &in->src[i], false, false);
    for (u32 i = 0; i < in->ndst; i++) add_write(f, &in->dst[i]);
    if (in->op == SIM_OP_V_FMAC_F32 || in->op == SIM_OP_V_DOT2ACC_F32_F16) add_read(f, &in->dst[0], false, false);
    bool mem = in->enc == SIM_ENC_SMEM || in->enc == SIM_ENC_DS || in->enc == SIM_ENC_FLAT || in->enc == SIM_ENC_GLOBAL ||
               in->enc == SIM_ENC_SCRATCH;
    if (!mem) {
        if (in->op == SIM_OP_S_SENDMSG_RTN_B32 || in->op == SIM_OP_S_SENDMSG_RTN_B64) f->counter = CNT_KM + 1;
        return;
    }
    bool lanes = exchanges(in->op); /* the "address" is a lane number, the data stays in registers */
    add_read(f, &in->vaddr, !lanes, false);
    add_read(f, &in->saddr, true, false);
    add_read(f, &in->soffset, true, false);
    bool keep = in->enc == SIM_ENC_SCRATCH || lanes;
    add_read(f, &in->data, false, !keep);
    add_read(f, &in->data1, false, !keep);
    add_write(f, &in->data_dst);
    bool loads = in->data_dst.kind != SIM_K_NONE;
    if (in->enc == SIM_ENC_SMEM) {
        f->counter = CNT_KM + 1;
    } else if (in->enc == SIM_ENC_DS) {
        f->counter = CNT_DS + 1;
    } else if (loads) {
        f->counter = CNT_LOAD + 1;
        if (in->enc == SIM_ENC_FLAT) f->counter2 = CNT_DS + 1;
    } else if (u->cls == CLS_VMEM_STORE || u->cls == CLS_ATOMIC || u->cls == CLS_SCRATCH) {
        f->store = in->data.kind != SIM_K_NONE;
        if (f->store && in->enc == SIM_ENC_FLAT) f->counter2 = CNT_DS + 1;
    }
}

static const inst_info *info_of(const launch *l, const uop *u) {
    inst_info *f = &l->chk->info[u->in - l->prog->insts];
    if (!f->ready) fill_info(f, u);
    return f;
}

/* ---- launches, groups ---- */

bool sim_check_launch(launch *l) {
    const sim_options *o = &l->dev->opt;
    if (!o->strict && !o->race && !o->weak && !o->stats && !o->trace) return true;
    launch_check *c = calloc(1, sizeof *c);
    if (c) c->info = calloc(l->prog->n_insts + 1u, sizeof *c->info);
    l->chk = c;
    bool ok = c && c->info;
    if (ok) {
        c->strict = o->strict;
        c->race = o->race;
        c->weak = o->weak;
        c->stats = o->stats != NULL;
        c->trace = o->trace;
        c->rng = o->weak_seed * 0x9E3779B97F4A7C15ull + l->dev->serial;
        ok = (!c->race || sim_race_launch(l)) && (!c->stats || sim_stats_launch(l));
    }
    if (!ok) {
        sim_check_launch_end(l);
        return sim_fail(l->err, "simulator: out of memory for the checking modes");
    }
    return true;
}

void sim_check_launch_end(launch *l) {
    launch_check *c = l->chk;
    if (!c) return;
    if (c->stats && c->figures) sim_stats_end(l);
    if (c->race) sim_race_end(l);
    free(c->info);
    free(c);
    l->chk = NULL;
}

static void define(wave_check *k, u32 slot_lo, u32 n) {
    for (u32 i = 0; i < n; i++) k->sdef[slot_lo + i] = 1;
}

static bool wave_start(launch *l, group *g, wave *w) {
    wave_check *k = calloc(1, sizeof *k);
    if (!k) return false;
    w->chk = k;
    w->slow = true;
    k->global_id = g->index * g->n_waves + w->index;
    k->vdef[0] = w->lanes;
    u32 p = l->k->props, n = (p & 2 ? 2u : 0) + (p & 4 ? 2u : 0) + (p & 8 ? 2u : 0) + (p & 16 ? 2u : 0) + (p & 64 ? 1u : 0);
    define(k, 0, n);
    define(k, SLOT_TTMP, 16);
    define(k, SLOT_NULL, 4);
    define(k, SLOT_SCC, 1);
    if (l->chk->strict && w->scratch_size) {
        k->scratch_def = calloc(32u * (w->scratch_size / 4 + 1), 1);
        if (!k->scratch_def) return false;
    }
    return true;
}

bool sim_check_group(group *g) {
    launch *l = g->waves[0]->l;
    g->chk = calloc(1, sizeof *g->chk);
    if (!g->chk) return false;
    g->chk->lds_written = calloc(l->lds_size / 8 + 1, 1);
    bool ok = g->chk->lds_written != NULL;
    for (u32 i = 0; ok && i < g->n_waves; i++) ok = wave_start(l, g, g->waves[i]);
    if (ok && l->chk->race) ok = sim_race_group(g);
    if (ok && l->chk->weak) ok = sim_weak_group(g);
    if (ok && l->chk->stats) sim_stats_group(l, g);
    return ok;
}

void sim_check_group_end(group *g) {
    if (!g->chk) return;
    launch *l = g->waves[0]->l;
    if (l->chk->race) sim_race_group_end(g);
    if (l->chk->weak) sim_weak_group_end(g);
    for (u32 i = 0; i < g->n_waves; i++) {
        wave *w = g->waves[i];
        if (!w->chk) continue;
        free(w->chk->scratch_def);
        free(w->chk);
        w->chk = NULL;
        w->slow = false;
    }
    free(g->chk->lds_written);
    free(g->chk);
    g->chk = NULL;
}

/* ---- lanes ---- */

bool sim_inactive_read(const wave *w, int lane) {
    return w->l->chk->strict && (w->lanes >> lane & 1) && !(exec_of(w) >> lane & 1);
}

bool sim_lane_written(const wave *w, const uop *u, int lane) {
    u32 reg = (u->s[0] - (u32)offsetof(wave, v)) / 128;
    return reg > 255 || (w->chk->vdef[reg] >> lane & 1);
}

/* ---- memory ---- */

static bool bits_test(const u8 *b, u32 i) { return b[i / 8] >> (i % 8) & 1; }

static bool lds_access(wave *w, const uop *u, u32 lane, u64 addr, u32 bytes, enum mem_kind kind) {
    u8 *b = w->g->chk->lds_written;
    u32 off = (u32)(addr - (u64)(uintptr_t)w->lds);
    for (u32 i = 0; i < bytes; i++) {
        if (kind != MEM_WRITE && !bits_test(b, off + i)) {
            sim_fault(w, u, (int)lane, "LDS byte %u is read but was never written", off + i);
            return false;
        }
        if (kind != MEM_READ) b[(off + i) / 8] |= (u8)(1u << ((off + i) % 8));
    }
    return true;
}

/* A load of scratch that was never stored gives an unwritten value (it may be a spilled register of no meaning). */
static void scratch_access(wave *w, const uop *u, u32 lane, u64 addr, u32 bytes, enum mem_kind kind) {
    wave_check *k = w->chk;
    u32 off = (u32)(addr - (u64)(uintptr_t)w->scratch) - lane * w->scratch_size, row = lane * (w->scratch_size / 4 + 1);
    for (u32 i = off / 4; i <= (off + bytes - 1) / 4; i++) {
        if (kind == MEM_WRITE) {
            u32 reg = (u->s[1] - (u32)offsetof(wave, v)) / 128 + (i - off / 4);
            k->scratch_def[row + i] = (u->bcast & 2) || reg > 255 || (k->vdef[reg] >> lane & 1);
        } else if (!k->scratch_def[row + i]) {
            k->in_def &= ~(1u << lane);
        }
    }
}

bool sim_check_access(wave *w, const uop *u, u32 lane, u32 space, u64 addr, u32 bytes, enum mem_kind kind, u64 *ptr) {
    launch_check *c = w->l->chk;
    if (c->stats) sim_stats_access(w, u, lane, space, addr, bytes, kind);
    if (c->strict) {
        if (space == 1 && !lds_access(w, u, lane, addr, bytes, kind)) return false;
        if (space == 2) scratch_access(w, u, lane, addr, bytes, kind);
        if (space == 0 && kind != MEM_WRITE) {
            u64 bad = sim_first_unwritten(w->l->dev->mem, addr, bytes);
            if (bad < addr + bytes) {
                sim_fault_addr(w, u, (int)lane, bad, "device memory is read but was never written");
                return false;
            }
        }
        if (space == 0 && kind != MEM_READ) sim_mark_written(w->l->dev->mem, addr, bytes);
    }
    if (c->race && space < 2 && !sim_race_access(w, u, lane, space, addr, bytes, kind)) return false;
    if (c->weak && space == 0) return sim_weak_access(w, u, lane, addr, bytes, kind, ptr);
    return true;
}

void sim_check_done(wave *w, const uop *u, u32 bytes, enum mem_kind kind) {
    if (w->l->chk->weak && u->in->enc != SIM_ENC_DS && u->in->enc != SIM_ENC_SCRATCH) sim_weak_done(w, u, bytes, kind);
}

/* ---- registers ---- */

static const char *range_name(const reg_range *r, u32 i, char out[16]) {
    if (r->vgpr) snprintf(out, 16, "v%u", r->reg + i);
    else if (r->reg < 106) snprintf(out, 16, "s%u", r->reg + i);
    else snprintf(out, 16, r->reg == SLOT_VCC ? "vcc" : r->reg == SLOT_EXEC ? "exec" : r->reg == SLOT_M0 ? "m0" : "ttmp");
    return out;
}

static const char *counter_name(u32 c) { return c == CNT_LOAD ? "loadcnt" : c == CNT_DS ? "dscnt" : c == CNT_KM ? "kmcnt" : "storecnt"; }

/* Registers a load is still to write must not be touched; a later load of the same counter may, since they return in order. */
static bool pending_ok(wave *w, const uop *u, const inst_info *f, const reg_range *r, bool write) {
    wave_check *k = w->chk;
    char name[16];
    for (u32 i = 0; i < r->n; i++) {
        u32 reg = r->reg + i, t = r->vgpr ? k->vpend[reg] : k->spend[reg];
        if (!t) continue;
        u32 c = r->vgpr ? k->vcnt[reg] : CNT_KM;
        if (t <= k->retired[c]) continue;
        if (write && f->counter == c + 1 && c != CNT_KM) continue;
        sim_fault(w, u, -1, "%s is %s before its load was waited for (s_wait_%s)", range_name(r, i, name), write ? "overwritten" : "used",
                  counter_name(c));
        return false;
    }
    return true;
}

static bool used_undefined(wave *w, const uop *u, const reg_range *r, u32 bad_lanes, const char *how) {
    char name[16];
    sim_fault(w, u, r->vgpr && bad_lanes ? __builtin_ctz(bad_lanes) : -1, "%s holds a value that was never written, and is %s",
              range_name(r, 0, name), how);
    return false;
}

static bool check_reads(wave *w, const uop *u, const inst_info *f) {
    wave_check *k = w->chk;
    u32 ex = exec_of(w), def = ~0u;
    for (u32 i = 0; i < f->nr; i++) {
        const reg_range *r = &f->r[i];
        if (r->vgpr && r->reg + r->n > 8 * ((w->l->k->rsrc1 & 63u) + 1)) {
            sim_fault(w, u, -1, "v%u lies beyond the %u VGPRs of the kernel", r->reg + r->n - 1, 8 * ((w->l->k->rsrc1 & 63u) + 1));
            return false;
        }
        if (!pending_ok(w, u, f, r, false)) return false;
        u32 d = ~0u;
        for (u32 j = 0; j < r->n; j++) d &= r->vgpr ? k->vdef[r->reg + j] : k->sdef[r->reg + j] ? ~0u : 0u;
        if ((r->addr || r->stored) && ex & ~d) return used_undefined(w, u, r, ex & ~d, r->addr ? "used as an address" : "stored to memory");
        def &= d;
    }
    k->in_def = def;
    if (u->cls == CLS_BRANCH) {
        u32 s = u->in->op == SIM_OP_S_CBRANCH_VCCZ || u->in->op == SIM_OP_S_CBRANCH_VCCNZ ? SLOT_VCC : SLOT_EXEC;
        if ((s == SLOT_VCC || u->in->op == SIM_OP_S_CBRANCH_EXECZ || u->in->op == SIM_OP_S_CBRANCH_EXECNZ) && !k->sdef[s]) {
            reg_range r = {0, 1, 0, 0, (u16)s};
            return used_undefined(w, u, &r, 0, "branched on");
        }
        if ((u->in->op == SIM_OP_S_CBRANCH_SCC0 || u->in->op == SIM_OP_S_CBRANCH_SCC1) && !k->sdef[SLOT_SCC]) {
            sim_fault(w, u, -1, "SCC comes from a register that was never written, and is branched on");
            return false;
        }
    }
    for (u32 i = 0; i < f->nw; i++)
        if (!pending_ok(w, u, f, &f->w[i], true)) return false;
    return true;
}

/* v_cndmask takes one of two: only the chosen one has to be written. */
static u32 select_def(const wave *w, const sim_opnd *src) {
    const wave_check *k = w->chk;
    u32 d[2];
    for (int i = 0; i < 2; i++)
        d[i] = src[i].kind == SIM_K_VGPR ? k->vdef[src[i].reg] : src[i].kind == SIM_K_SREG && src[i].reg < SLOTS && !k->sdef[src[i].reg] ? 0 : ~0u;
    u32 m = src[2].kind == SIM_K_SREG ? w->s[src[2].reg] : 0;
    return (d[1] & m) | (d[0] & ~m);
}

static u32 opnd_def(const wave *w, const sim_opnd *o, u32 dw) {
    const wave_check *k = w->chk;
    if (o->kind == SIM_K_VGPR) return k->vdef[(o->reg + dw) & 255];
    if (o->kind == SIM_K_SREG && o->reg != SLOT_NULL) return k->sdef[o->reg + dw] ? ~0u : 0u;
    return ~0u;
}

/* Results whose parts depend on parts of the sources. True when it has dealt with the destinations. */
static bool written_in_parts(wave *w, const uop *u, u32 ex, const u32 before[4]) {
    wave_check *k = w->chk;
    const sim_inst *in = u->in;
    if (in->enc == SIM_ENC_VOPD) {
        for (int h = 0; h < 2; h++) {
            u32 r = in->half[h].dst.reg;
            k->vdef[r] = (k->vdef[r] & ~ex) | (before[h] & ex);
        }
        return true;
    }
    u32 m0 = w->s[SLOT_M0], d = in->dst[0].reg;
    switch (in->op) {
    case SIM_OP_V_MAD_CO_U64_U32: /* the low dword needs only the low dword of the addend */
    case SIM_OP_V_MAD_CO_I64_I32:
    case SIM_OP_V_LSHLREV_B64:
        k->vdef[d] = (k->vdef[d] & ~ex) | (before[0] & ex);
        k->vdef[d + 1] = (k->vdef[d + 1] & ~ex) | (k->in_def & ex);
        if (in->ndst > 1 && in->dst[1].kind == SIM_K_SREG) k->sdef[in->dst[1].reg] = (k->in_def & ex) == ex;
        return true;
    case SIM_OP_V_MOVRELS_B32: k->vdef[d] = (k->vdef[d] & ~ex) | (k->vdef[(in->src[0].reg + m0) & 255] & ex); return true;
    case SIM_OP_V_MOVRELD_B32: d = (d + m0) & 255; k->vdef[d] = (k->vdef[d] & ~ex) | (before[0] & ex); return true;
    default: return false;
    }
}

/* What written_in_parts needs from before the instruction. */
static void parts_before(const wave *w, const uop *u, u32 out[4]) {
    const sim_inst *in = u->in;
    if (in->enc == SIM_ENC_VOPD) {
        for (int h = 0; h < 2; h++) {
            const sim_half *x = &in->half[h];
            out[h] = opnd_def(w, &x->src[0], 0) & opnd_def(w, &x->src[1], 0) & opnd_def(w, &x->src[2], 0);
            if (x->op == SIM_OP_V_CNDMASK_B32) out[h] = select_def(w, x->src);
            if (x->op == SIM_OP_V_FMAC_F32) out[h] &= opnd_def(w, &x->dst, 0);
        }
        return;
    }
    out[0] = opnd_def(w, &in->src[0], 0) & opnd_def(w, &in->src[1], 0);
    if (in->nsrc > 2) out[0] &= opnd_def(w, &in->src[2], 0);
}

static void written(wave *w, const uop *u, const inst_info *f, u32 ex, const u32 before[4]) {
    wave_check *k = w->chk;
    const sim_inst *in = u->in;
    u32 def = k->in_def;
    if (written_in_parts(w, u, ex, before)) {
        for (u32 i = 0; i < f->nw; i++)
            for (u32 j = 0; f->w[i].vgpr && j < f->w[i].n; j++) k->vpend[f->w[i].reg + j] = 0;
        return;
    }
    if (in->op == SIM_OP_V_CNDMASK_B32 && !in->dpp && in->enc != SIM_ENC_VOPD) def = select_def(w, in->src);
    if (f->cross || u->cls == CLS_WMMA) def = (def & ex) == ex || (ex & def) ? ~0u : def;
    if (f->counter && in->enc != SIM_ENC_SCRATCH && !exchanges(in->op)) def = ~0u;
    bool all = (def & ex) == ex;
    u32 ticket = 0, cnt = 0;
    if (f->counter) {
        cnt = f->counter - 1u;
        ticket = ++k->issued[cnt];
    }
    if (f->counter2) k->issued[f->counter2 - 1]++;
    if (f->store) k->issued[CNT_STORE]++;
    if (in->enc == SIM_ENC_SOPC) k->sdef[SLOT_SCC] = all;
    for (u32 i = 0; i < f->nw; i++) {
        const reg_range *r = &f->w[i];
        for (u32 j = 0; j < r->n; j++) {
            if (r->vgpr) {
                if (in->op == SIM_OP_V_WRITELANE_B32) k->vdef[r->reg] = ~0u;
                else k->vdef[r->reg + j] = (k->vdef[r->reg + j] & ~ex) | (def & ex);
                k->vpend[r->reg + j] = ticket;
                k->vcnt[r->reg + j] = (u8)cnt;
            } else {
                k->sdef[r->reg + j] = all || ex == 0;
                k->spend[r->reg + j] = ticket;
            }
        }
    }
}

static void retire(wave *w, u32 c, u32 left) {
    wave_check *k = w->chk;
    if (w->l->chk->stats) sim_stats_wait(w, c, left);
    u32 to = k->issued[c] > left ? k->issued[c] - left : 0;
    if (c == CNT_KM && left) return; /* scalar loads return in any order */
    if (to > k->retired[c]) k->retired[c] = to;
}

static void wait_for(wave *w, const uop *u) {
    u32 n = (u32)u->imm & 0xFFFF, left_store = ~0u, left_load = ~0u;
    switch (u->in->op) {
    case SIM_OP_S_WAIT_LOADCNT: left_load = n; break;
    case SIM_OP_S_WAIT_STORECNT: left_store = n; break;
    case SIM_OP_S_WAIT_DSCNT: retire(w, CNT_DS, n); break;
    case SIM_OP_S_WAIT_KMCNT: retire(w, CNT_KM, n); break;
    case SIM_OP_S_WAIT_LOADCNT_DSCNT:
        left_load = n >> 8 & 63;
        retire(w, CNT_DS, n & 63);
        break;
    case SIM_OP_S_WAIT_STORECNT_DSCNT:
        left_store = n >> 8 & 63;
        retire(w, CNT_DS, n & 63);
        break;
    case SIM_OP_S_WAIT_IDLE:
        left_load = left_store = 0;
        retire(w, CNT_DS, 0);
        retire(w, CNT_KM, 0);
        break;
    default: break;
    }
    if (left_load != ~0u) retire(w, CNT_LOAD, left_load);
    if (left_store != ~0u) {
        retire(w, CNT_STORE, left_store);
        if (w->l->chk->weak) sim_weak_store_wait(w, left_store);
    }
}

/* Lanes apart at a barrier: some lanes of the wave wait there, others have gone another way. Waves with all lanes off pass. */
static bool barrier_ok(wave *w, const uop *u) {
    if (u->in->op != SIM_OP_S_BARRIER_WAIT && u->in->op != SIM_OP_S_BARRIER_SIGNAL) return true;
    u32 ex = exec_of(w);
    if (ex == w->lanes || ex == 0) return true;
    sim_fault(w, u, __builtin_ctz(w->lanes & ~ex), "lanes apart at a barrier: only lanes 0x%08x of 0x%08x are there", ex, w->lanes);
    return false;
}

/* ---- trace ---- */

static void trace(wave *w, const uop *u, const inst_info *f) {
    char text[256], line[1024];
    sim_disasm(u->in, u->pc, text, sizeof text);
    int n = snprintf(line, sizeof line, "%u.%u %06x %-50s", w->g->index, w->index, u->pc, text);
    for (u32 i = 0; i < f->nw && n > 0 && n < 900; i++) {
        const reg_range *r = &f->w[i];
        char name[16];
        for (u32 j = 0; j < r->n && n < 900; j++) {
            u32 ex = exec_of(w), l = ex ? (u32)__builtin_ctz(ex) : 0;
            if (r->vgpr && r->reg + j < w->l->prog->nv)
                n += snprintf(line + n, sizeof line - (size_t)n, " %s[%u]=%08x", range_name(r, j, name), l, w->v[32 * (r->reg + j) + l]);
            else if (!r->vgpr)
                n += snprintf(line + n, sizeof line - (size_t)n, " %s=%08x", range_name(r, j, name), w->s[r->reg + j]);
        }
    }
    fprintf(stderr, "%s\n", line);
}

/* ---- the loop ---- */

void sim_run_checked(wave *w, u64 quantum) {
    const uop *u = w->next;
    launch_check *c = w->l->chk;
    wave_check *k = w->chk;
    u64 n = 0;
    while (u && n < quantum) {
        n++;
        w->ran++;
        const uop *at = u;
        k->cur = u;
        if (!u->in || !u->in->op) {
            u = u->fn(w, u);
            break;
        }
        const inst_info *f = info_of(w->l, u);
        if (c->strict && (!check_reads(w, u, f) || (u->cls == CLS_BARRIER && !barrier_ok(w, u)))) {
            u = NULL;
            break;
        }
        if (u->cls == CLS_WAIT) wait_for(w, u);
        if (c->stats) sim_stats_uop(w, u);
        if (c->weak && (u->in->op == SIM_OP_GLOBAL_INV || u->in->op == SIM_OP_GLOBAL_WBINV)) sim_weak_invalidate(w);
        if (c->weak && u->in->op == SIM_OP_S_ENDPGM) sim_weak_wave_end(w);
        u32 ex = exec_of(w), epoch = w->g->n_signalled, parts[4] = {0};
        if (c->strict) parts_before(w, u, parts);
        u = u->fn(w, u);
        if (w->state == W_FAULT) break;
        if (at->cls == CLS_BARRIER && epoch && w->g->n_signalled == 0) {
            if (c->race) sim_race_barrier(w->g);
            if (c->stats) sim_stats_barrier(w->g);
        }
        written(w, at, f, ex, parts);
        if (c->trace) trace(w, at, f);
    }
    if (u) w->next = u;
}
