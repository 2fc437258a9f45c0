/* What concerns a wave as a whole: reports of faults, its floating-point modes, barriers, and the wrappers for instructions made
 * of several uops (VOPD, DPP). */
#include <stdarg.h>

#include "exec.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

static void describe(wave *w, const uop *u, int lane, char *out, size_t n) {
    const launch *l = w->l;
    const sim_module *m = l->mod;
    char text[192] = "?";
    if (u->in && u->in->op) sim_disasm(u->in, u->pc, text, sizeof text);
    u64 pc = m->text_lo + u->pc;
    const sim_symbol *f = sim_symbol_at(m, pc);
    const char *file = NULL;
    u32 line = 0;
    char where[256] = "";
    if (m->lines && sim_line_at(m->lines, m->link_base + (pc - m->base), &file, &line))
        snprintf(where, sizeof where, " (%s:%u)", file, line);
    char who[32] = "";
    if (lane >= 0) snprintf(who, sizeof who, ", lane %d", lane);
    int k = snprintf(out, n, "\n  kernel %s, workgroup (%u, %u, %u), wave %u%s\n  at %s+0x%llx%s: %s  [", l->k->name, w->g->id[0],
                     w->g->id[1], w->g->id[2], w->index, who, f ? f->name : "?",
                     (unsigned long long)(f ? pc - f->addr : u->pc), where, text);
    for (u32 i = 0; u->in && i < u->in->ndw && k > 0 && (size_t)k < n; i++)
        k += snprintf(out + k, n - (size_t)k, i ? " %08x" : "%08x", u->in->words[i]);
    if (k > 0 && (size_t)k < n) snprintf(out + k, n - (size_t)k, "]");
}

static void report(wave *w, const uop *u, int lane, const char *msg, const char *extra) {
    w->state = W_FAULT;
    w->next = u;
    u32 was = 0;
    if (!__atomic_compare_exchange_n(&w->l->failed, &was, 1, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) return;
    char where[1024];
    describe(w, u, lane, where, sizeof where);
    sim_fail(w->l->err, "%s%s%s", msg, where, extra);
}

const uop *sim_fault(wave *w, const uop *u, int lane, const char *fmt, ...) {
    char msg[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(msg, sizeof msg, fmt, ap);
    va_end(ap);
    report(w, u, lane, msg, "");
    return NULL;
}

const uop *sim_fault_addr(wave *w, const uop *u, int lane, u64 addr, const char *fmt, ...) {
    char msg[512], near[256], extra[384];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(msg, sizeof msg, fmt, ap);
    va_end(ap);
    sim_describe_address(w->l->dev->mem, addr, near, sizeof near);
    snprintf(extra, sizeof extra, "\n  address 0x%llx: %s", (unsigned long long)addr, near);
    report(w, u, lane, msg, extra);
    return NULL;
}

const uop *sim_do_illegal(wave *w, const uop *u) {
    if (!u->in) return sim_fault(w, u, -1, u->pc == ~0u ? "branch to an address where no instruction starts" : "execution ran off the end of the code");
    if (!u->in->op) return sim_fault(w, u, -1, "unknown instruction");
    return sim_fault(w, u, -1, "instruction, operand or modifier that the simulator does not support");
}

/* MXCSR: exceptions masked; rounding control in bits 14:13 (0 nearest, 1 down, 2 up, 3 zero); bit 15 flushes results, bit 6
 * takes denormal sources as zero. */
static u32 csr_of(u32 round, u32 denorm) {
    static const u32 RC[4] = {0, 2, 1, 3};
    return 0x1F80u | RC[round & 3] << 13 | (denorm & 2 ? 0 : 1u << 15) | (denorm & 1 ? 0 : 1u << 6);
}

void sim_set_mode(wave *w, u32 mode) {
    w->mode = mode & 0xFF;
    w->csr32 = csr_of(mode, mode >> 4);
    w->csr64 = csr_of(mode >> 2, mode >> 6);
    w->nonstd = w->mode != 0xF0;
#if defined(__x86_64__)
    _mm_setcsr(w->csr32);
#endif
}

void sim_barrier_check(group *g) {
    if (g->n_signalled == 0 || g->n_signalled + g->n_done < g->n_waves) return;
    g->n_signalled = 0;
    for (u32 i = 0; i < g->n_waves; i++) {
        wave *w = g->waves[i];
        if (w->state == W_DONE) continue;
        w->bar_signalled = false;
        w->bar_complete = true;
        if (w->state == W_BARRIER) w->state = W_READY;
    }
}

const uop *sim_do_vopd(wave *w, const uop *u) {
    u[1].fn(w, u + 1);
    u[2].fn(w, u + 2);
    return u + 3;
}

const uop *sim_do_vopd_swap(wave *w, const uop *u) {
    u[1].fn(w, u + 1);
    u[2].fn(w, u + 2);
    const u32 *from = sp(w, u[1].d);
    u32 *to = sp(w, u[1].d1);
    FOR_LANES(l, exec_of(w)) to[l] = from[l];
    return u + 3;
}

/* Source lane of a DPP16 control, or -1 when it lies outside. Rows have 16 lanes. */
static int dpp16_lane(u32 ctrl, u32 l) {
    u32 row = l & 16, i = l & 15;
    if (ctrl < 0x100) return (int)((l & ~3u) | (ctrl >> 2 * (l & 3) & 3));
    u32 n = ctrl & 15;
    switch (ctrl >> 4) {
    case 0x10: return i + n < 16 ? (int)(row + i + n) : -1;                  /* row_shl */
    case 0x11: return i >= n ? (int)(row + i - n) : -1;                      /* row_shr */
    case 0x12: return (int)(row + ((i - n) & 15));                           /* row_ror */
    case 0x14: return n == 0 ? (int)(row + 15 - i) : n == 1 ? (int)((l & ~7u) + 7 - (l & 7)) : -2;
    case 0x15: return (int)(row + n);                                        /* row_share */
    case 0x16: return (int)(row + (i ^ n));                                  /* row_xmask */
    default: return -2;
    }
}

/* The permutation of a DPP control: source lane of each lane, lanes whose source lies inside the row, lanes that the row and bank
 * masks let through. False for a control that does not exist. */
bool sim_dpp_table(const sim_inst *in, dpp_table *t) {
    t->inside = t->on = 0;
    for (u32 l = 0; l < 32; l++) {
        int src = in->dpp == SIM_DPP8 ? (int)((l & ~7u) | (in->dpp8 >> 3 * (l & 7) & 7)) : dpp16_lane(in->dpp_ctrl, l);
        if (src == -2) return false;
        if (src >= 0) t->inside |= 1u << l;
        t->from[l] = src >= 0 ? (u8)src : (u8)l;
        if (in->dpp == SIM_DPP8 || ((in->dpp_row_mask >> (l >> 4) & 1) && (in->dpp_bank_mask >> (l >> 2 & 3) & 1)))
            t->on |= 1u << l;
    }
    /* bound_ctrl: an invalid source reads as zero instead of leaving the lane alone. DPP8 always does. */
    t->zero_invalid = in->dpp == SIM_DPP8 || in->dpp_bc;
    return true;
}

const uop *sim_do_dpp(wave *w, const uop *u) {
    const sim_inst *in = u->in;
    const dpp_table *t = u->dpp;
    const u32 *from = sp(w, u->s[0]);
    u32 *to = sp(w, u[1].s[0]);
    u32 ex = exec_of(w), valid = t->inside;
    if (ex != ~0u && !in->dpp_fi) {
        for (u32 l = 0; l < 32; l++)
            if (!(ex >> t->from[l] & 1)) valid &= ~(1u << l);
    }
    for (u32 l = 0; l < 32; l++) to[l] = from[t->from[l]];
    if (~valid) {
        FOR_LANES(l, ~valid) to[l] = 0;
        u32 missing = w->chk ? t->inside & ~valid & t->on & ex : 0;
        FOR_LANES(l, missing)
            if (sim_inactive_read(w, t->from[l])) return sim_fault(w, u, (int)l, "DPP reads lane %u, which is not active", t->from[l]);
    }
    w->s[SLOT_EXEC] = ex & t->on & (t->zero_invalid ? ~0u : valid);
    const uop *r = u[1].fn(w, u + 1);
    /* v_cmpx writes EXEC itself. */
    if (!(in->dst[0].kind == SIM_K_SREG && in->dst[0].reg == SLOT_EXEC)) w->s[SLOT_EXEC] = ex;
    return r ? u + 2 : NULL;
}
