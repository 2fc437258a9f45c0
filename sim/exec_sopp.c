/* Program control: branches, calls, waits, barriers, hardware registers, messages, scalar loads. */
#include "exec.h"

#define OP(name) static const uop *name(wave *w, const uop *u)
#define SCC w->s[SLOT_SCC]

OP(nop) { (void)w; return u + 1; }
OP(branch) { (void)w; return u->target; }
OP(scc0) { return SCC ? u + 1 : u->target; }
OP(scc1) { return SCC ? u->target : u + 1; }
OP(vccz) { return w->s[SLOT_VCC] ? u + 1 : u->target; }
OP(vccnz) { return w->s[SLOT_VCC] ? u->target : u + 1; }
OP(execz) { return exec_of(w) ? u + 1 : u->target; }
OP(execnz) { return exec_of(w) ? u->target : u + 1; }

static u64 pc_after(const wave *w, const uop *u) { return w->l->mod->text_lo + u->pc + 4u * u->in->ndw; }

static const uop *jump(wave *w, const uop *u, u64 pc) {
    const uop *t = sim_uop_at(w->l->prog, pc);
    if (!t) return sim_fault(w, u, -1, "jump to 0x%llx, where no instruction starts", (unsigned long long)pc);
    return t;
}

OP(getpc) { sput64(w, u->d, pc_after(w, u)); return u + 1; }
OP(setpc) { return jump(w, u, s64(w, u->s[0])); }
OP(swappc) {
    u64 to = s64(w, u->s[0]);
    sput64(w, u->d, pc_after(w, u));
    return jump(w, u, to);
}
OP(call) {
    sput64(w, u->d, pc_after(w, u));
    return u->target;
}

OP(endpgm) {
    w->state = W_DONE;
    w->next = u;
    w->g->n_done++;
    sim_barrier_check(w->g);
    return NULL;
}

OP(sleep_op) {
    if (!__atomic_load_n(&w->l->time_sliced, __ATOMIC_RELAXED)) return u + 1;
    w->next = u + 1;
    return NULL;
}

OP(trap) { return sim_fault(w, u, -1, "trap %d", (int)(u->imm & 0xFF)); }

OP(barrier_signal) {
    i32 id = (i32)s32(w, u->s[0]);
    if (id != -1) return sim_fault(w, u, -1, "barrier %d: only the workgroup's barrier (-1) exists on gfx1201", (int)id);
    if (w->bar_signalled) return sim_fault(w, u, -1, "the wave signals the barrier twice without a wait");
    w->bar_signalled = true;
    bool first = w->g->n_signalled == 0;
    w->g->n_signalled++;
    if (u->in->op == SIM_OP_S_BARRIER_SIGNAL_ISFIRST) SCC = first;
    sim_barrier_check(w->g);
    return u + 1;
}

OP(barrier_wait) {
    if (u->imm != -1) return sim_fault(w, u, -1, "barrier %d: only the workgroup's barrier (-1) exists on gfx1201", (int)u->imm);
    if (w->bar_complete) {
        w->bar_complete = false;
        return u + 1;
    }
    if (!w->bar_signalled) return sim_fault(w, u, -1, "the wave waits at the barrier without having signalled");
    w->state = W_BARRIER;
    w->next = u;
    return NULL;
}

OP(barrier_state) {
    u32 live = w->g->n_waves - w->g->n_done;
    *sp(w, u->d) = w->g->n_signalled << 16 | live << 4 | 1;
    return u + 1;
}

/* Hardware registers: id in bits 5:0, offset in 10:6, size - 1 in 15:11. */
OP(getreg) {
    u32 f = (u32)u->imm & 0xFFFF, id = f & 63, off = f >> 6 & 31, size = (f >> 11) + 1, v;
    switch (id) {
    case 1: v = w->mode; break;
    case 2: v = SCC; break;
    case 4:
    case 7:
    case 17:
    case 18: v = 0; break;
    case 23: v = w->g->index % SIM_WGPS << 10 | (w->index & 3) << 8 | w->index / 4; break; /* WGP, SIMD, wave slot */
    case 24: v = w->g->index; break;
    case 29: v = (u32)w->ran; break;
    case 30: v = (u32)(w->ran >> 32); break;
    default: return sim_fault(w, u, -1, "hardware register %u is not simulated", id);
    }
    v >>= off;
    *sp(w, u->d) = size >= 32 ? v : v & ((1u << size) - 1);
    return u + 1;
}

static const uop *setreg_value(wave *w, const uop *u, u32 v) {
    u32 f = (u32)u->imm & 0xFFFF, id = f & 63, off = f >> 6 & 31, size = (f >> 11) + 1;
    if (id != 1) return sim_fault(w, u, -1, "writing hardware register %u is not simulated", id);
    u32 mask = (size >= 32 ? ~0u : (1u << size) - 1) << off;
    u32 m = (w->mode & ~mask) | (v << off & mask);
    if (m & ~0xFFu) return sim_fault(w, u, -1, "MODE bits 0x%x are not simulated", m & ~0xFFu);
    sim_set_mode(w, m);
    return u + 1;
}
OP(setreg) { return setreg_value(w, u, s32(w, u->s[0])); }
OP(round_mode) { sim_set_mode(w, (w->mode & 0xF0) | ((u32)u->imm & 15)); return u + 1; }
OP(denorm_mode) { sim_set_mode(w, (w->mode & 0x0F) | ((u32)u->imm & 15) << 4); return u + 1; }

/* Message 3 gives registers back before the end: no effect here. */
OP(sendmsg) {
    u32 id = (u32)u->imm & 0xFF;
    if (id != 3) return sim_fault(w, u, -1, "message %u is not simulated", id);
    return u + 1;
}
/* Real time counts 100 MHz; waves are taken to run one uop a nanosecond. */
OP(sendmsg_rtn) {
    u32 id = s32(w, u->s[0]) & 0xFF;
    u64 v;
    if (id == 0x83) v = w->ran / 10;
    else if (id == 0x80) v = 0;
    else return sim_fault(w, u, -1, "message with return %u is not simulated", id);
    if (u->in->op == SIM_OP_S_SENDMSG_RTN_B64) sput64(w, u->d, v);
    else *sp(w, u->d) = (u32)v;
    return u + 1;
}

/* ---- scalar memory ---- */

static const uop *smem(wave *w, const uop *u, u32 bytes, u64 *addr) {
    u64 a = s64(w, u->s[0]) + (u64)(i64)u->imm;
    if (u->flags & UOP_SADDR) a += s32(w, u->s[1]);
    if (bytes >= 4) a &= ~3ull;
    const sim_alloc *al = w->near;
    if (!al || a < al->base || a - al->base > al->size || bytes > al->size - (a - al->base) || !al->live) {
        al = sim_find(w->l->dev->mem, a, bytes);
        if (!al) return sim_fault_addr(w, u, -1, a, "scalar load of %u bytes out of bounds", bytes);
        w->near = al;
    }
    *addr = a;
    return u + 1;
}

#define SLOAD(n) \
    OP(sload##n) { \
        u64 a = 0; \
        const uop *r = smem(w, u, 4 * n, &a); \
        if (r) memcpy(sp(w, u->d), (const void *)(uintptr_t)a, 4 * n); \
        return r; \
    }
SLOAD(1)
SLOAD(2)
SLOAD(3)
SLOAD(4)
SLOAD(8)
SLOAD(16)
#define SSMALL(name, type, bytes) \
    OP(name) { \
        u64 a = 0; \
        type v; \
        const uop *r = smem(w, u, bytes, &a); \
        if (!r) return NULL; \
        memcpy(&v, (const void *)(uintptr_t)a, bytes); \
        *sp(w, u->d) = (u32)(i32)v; \
        return r; \
    }
SSMALL(sload_u8, u8, 1)
SSMALL(sload_i8, int8_t, 1)
SSMALL(sload_u16, u16, 2)
SSMALL(sload_i16, int16_t, 2)

#define R(op, cls, fn) {SIM_OP_S_##op, cls, OPF_MODS, fn}
static const op_row ROWS[] = {
    R(NOP, CLS_OTHER, nop), R(DELAY_ALU, CLS_OTHER, nop), R(CLAUSE, CLS_OTHER, nop), R(SETPRIO, CLS_OTHER, nop),
    R(WAIT_ALU, CLS_OTHER, nop), R(CODE_END, CLS_OTHER, sim_do_illegal), R(ICACHE_INV, CLS_OTHER, nop),
    R(DCACHE_INV, CLS_OTHER, nop), R(PREFETCH_INST, CLS_OTHER, nop), R(PREFETCH_INST_PC_REL, CLS_OTHER, nop),
    R(PREFETCH_DATA, CLS_OTHER, nop), R(PREFETCH_DATA_PC_REL, CLS_OTHER, nop), R(TTRACEDATA, CLS_OTHER, nop),
    R(TTRACEDATA_IMM, CLS_OTHER, nop), R(INCPERFLEVEL, CLS_OTHER, nop), R(DECPERFLEVEL, CLS_OTHER, nop),
    R(WAIT_LOADCNT, CLS_WAIT, nop), R(WAIT_STORECNT, CLS_WAIT, nop), R(WAIT_SAMPLECNT, CLS_WAIT, nop),
    R(WAIT_BVHCNT, CLS_WAIT, nop), R(WAIT_EXPCNT, CLS_WAIT, nop), R(WAIT_DSCNT, CLS_WAIT, nop), R(WAIT_KMCNT, CLS_WAIT, nop),
    R(WAIT_LOADCNT_DSCNT, CLS_WAIT, nop), R(WAIT_STORECNT_DSCNT, CLS_WAIT, nop), R(WAIT_IDLE, CLS_WAIT, nop),
    R(BRANCH, CLS_BRANCH, branch), R(CBRANCH_SCC0, CLS_BRANCH, scc0), R(CBRANCH_SCC1, CLS_BRANCH, scc1),
    R(CBRANCH_VCCZ, CLS_BRANCH, vccz), R(CBRANCH_VCCNZ, CLS_BRANCH, vccnz), R(CBRANCH_EXECZ, CLS_BRANCH, execz),
    R(CBRANCH_EXECNZ, CLS_BRANCH, execnz), R(GETPC_B64, CLS_SALU, getpc), R(SETPC_B64, CLS_BRANCH, setpc),
    R(SWAPPC_B64, CLS_BRANCH, swappc), R(CALL_B64, CLS_BRANCH, call), R(ENDPGM, CLS_OTHER, endpgm),
    R(SLEEP, CLS_OTHER, sleep_op), R(SLEEP_VAR, CLS_OTHER, sleep_op), R(TRAP, CLS_OTHER, trap),
    R(BARRIER_SIGNAL, CLS_BARRIER, barrier_signal), R(BARRIER_SIGNAL_ISFIRST, CLS_BARRIER, barrier_signal),
    R(BARRIER_WAIT, CLS_BARRIER, barrier_wait), R(GET_BARRIER_STATE, CLS_BARRIER, barrier_state),
    R(GETREG_B32, CLS_SALU, getreg), R(SETREG_B32, CLS_SALU, setreg), R(SETREG_IMM32_B32, CLS_SALU, setreg),
    R(ROUND_MODE, CLS_SALU, round_mode), R(DENORM_MODE, CLS_SALU, denorm_mode), R(SENDMSG, CLS_OTHER, sendmsg),
    R(SENDMSG_RTN_B32, CLS_SALU, sendmsg_rtn), R(SENDMSG_RTN_B64, CLS_SALU, sendmsg_rtn),
    R(LOAD_B32, CLS_SMEM, sload1), R(LOAD_B64, CLS_SMEM, sload2), R(LOAD_B96, CLS_SMEM, sload3), R(LOAD_B128, CLS_SMEM, sload4),
    R(LOAD_B256, CLS_SMEM, sload8), R(LOAD_B512, CLS_SMEM, sload16), R(LOAD_U8, CLS_SMEM, sload_u8),
    R(LOAD_I8, CLS_SMEM, sload_i8), R(LOAD_U16, CLS_SMEM, sload_u16), R(LOAD_I16, CLS_SMEM, sload_i16),
};
const op_table sim_ops_sopp = {ROWS, sizeof ROWS / sizeof *ROWS};
