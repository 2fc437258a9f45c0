/* From the words of a module to threaded code: decoding, operand offsets, the pool of constants, branch targets. Words that are
 * no instruction become a uop that faults when it is reached: code may be padded with anything. */
#include <pthread.h>
#include <stdlib.h>

#include "exec.h"

typedef struct {
    program *p;
    sim_error *err;
    const op_row *by_op[SIM_OP_COUNT];
    u32 cap_uops, cap_insts;
    bool nomem;
} translator;

static void add_table(translator *t, const op_table *tab) {
    for (size_t i = 0; i < tab->n; i++) t->by_op[tab->rows[i].op] = &tab->rows[i];
}

static void fill_tables(translator *t, u32 level) {
    const op_table *all[] = {&sim_ops_salu, &sim_ops_sopp, &sim_ops_mem,  &sim_ops_atomic, &sim_ops_lds,  &sim_ops_lane,
                             &sim_ops_half, &sim_ops_double, &sim_ops_trans, &sim_ops_cross,  &sim_ops_wmma};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) add_table(t, all[i]);
#if defined(__x86_64__)
    add_table(t, level >= 2 ? &sim_ops_vec_avx512 : level == 1 ? &sim_ops_vec_avx2 : &sim_ops_vec_base);
#else
    (void)level;
    add_table(t, &sim_ops_vec_base);
#endif
}

static uop *new_uop(translator *t) {
    program *p = t->p;
    if (p->n_uops == t->cap_uops) {
        u32 cap = t->cap_uops ? 2 * t->cap_uops : 1024;
        uop *q = realloc(p->uops, cap * sizeof *q);
        if (!q) {
            t->nomem = true;
            return NULL;
        }
        p->uops = q;
        t->cap_uops = cap;
    }
    uop *u = &p->uops[p->n_uops++];
    memset(u, 0, sizeof *u);
    return u;
}

/* Offset of a constant of one or two dwords in the pool, shared between equal ones. */
static u32 pool_const(translator *t, u64 v, u32 ndw) {
    program *p = t->p;
    u32 lo = (u32)v, hi = (u32)(v >> 32);
    for (u32 i = 0; i + ndw <= p->n_pool; i++)
        if (p->pool[i] == lo && (ndw == 1 || p->pool[i + 1] == hi)) return p->pool_off + 4 * i;
    if (p->n_pool + 2 > p->cap_pool) {
        u32 cap = p->cap_pool ? 2 * p->cap_pool : 64;
        u32 *q = realloc(p->pool, cap * sizeof *q);
        if (!q) {
            t->nomem = true;
            return p->pool_off;
        }
        p->pool = q;
        p->cap_pool = cap;
    }
    u32 at = p->n_pool;
    p->pool[p->n_pool++] = lo;
    if (ndw > 1) p->pool[p->n_pool++] = hi;
    return p->pool_off + 4 * at;
}

static const u32 V_OFF = (u32)offsetof(wave, v);

static u32 slot(u32 i) { return (u32)offsetof(wave, s) + 4 * i; }

/* Source operand; false when it cannot be read. */
static bool source(translator *t, const sim_opnd *o, u32 *off, bool *one) {
    *one = true;
    u32 ndw = o->ndw ? o->ndw : 1;
    switch (o->kind) {
    case SIM_K_VGPR:
        *one = false;
        *off = V_OFF + 128u * o->reg;
        return o->reg + ndw <= t->p->nv;
    case SIM_K_SREG:
        if (o->reg == SLOT_NULL) {
            *off = pool_const(t, 0, 2);
            return true;
        }
        *off = slot(o->reg);
        return o->reg + ndw <= 128;
    case SIM_K_CONST:
    case SIM_K_LITERAL: *off = pool_const(t, o->imm, ndw > 1 ? 2 : 1); return true;
    case SIM_K_SPECIAL:
        switch (o->reg) {
        case SIM_R_SHARED_BASE: *off = pool_const(t, ndw > 1 ? (u64)SIM_SHARED_HI << 32 : SIM_SHARED_HI, ndw); return true;
        case SIM_R_PRIVATE_BASE: *off = pool_const(t, ndw > 1 ? (u64)SIM_PRIVATE_HI << 32 : SIM_PRIVATE_HI, ndw); return true;
        case SIM_R_SHARED_LIMIT: *off = pool_const(t, ndw > 1 ? (u64)SIM_SHARED_HI << 32 | 0xFFFFFFFFu : SIM_SHARED_HI, ndw); return true;
        case SIM_R_PRIVATE_LIMIT: *off = pool_const(t, ndw > 1 ? (u64)SIM_PRIVATE_HI << 32 | 0xFFFFFFFFu : SIM_PRIVATE_HI, ndw); return true;
        case SIM_R_SCC: *off = slot(SLOT_SCC); return ndw == 1;
        default: return false;
        }
    default: *off = slot(SLOT_SINK); return o->kind == SIM_K_NONE;
    }
}

static bool dest(translator *t, const sim_opnd *o, u32 *off) {
    u32 ndw = o->ndw ? o->ndw : 1;
    if (o->kind == SIM_K_VGPR) {
        *off = V_OFF + 128u * o->reg;
        return o->reg + ndw <= t->p->nv;
    }
    if (o->kind == SIM_K_SREG && o->reg != SLOT_NULL) {
        *off = slot(o->reg);
        return o->reg + ndw <= 128;
    }
    *off = slot(SLOT_SINK);
    return o->kind == SIM_K_NONE || (o->kind == SIM_K_SREG && ndw <= 16);
}

static void modifiers(uop *u, const sim_opnd *o, int i) {
    u8 bit = (u8)(1u << i);
    if (o->mods & SIM_NEG) u->neg |= bit;
    if (o->mods & SIM_ABS) u->abs |= bit;
    if (o->mods & SIM_HI) u->hi |= bit;
    if (o->mods & SIM_NEG_HI) u->neg_hi |= bit;
    if (o->mods & SIM_HI_HI) u->hi_hi |= bit;
}

/* Whether the handler of this operation acts on every modifier that the instruction has: otherwise it must not run. */
static bool mods_known(const op_row *r, const uop *u, const sim_inst *in) {
    if (r->flags & OPF_MODS) return true;
    bool packed = in->enc == SIM_ENC_VOP3P;
    if ((u->neg | u->abs) && !(r->flags & OPF_FLOAT)) return false;
    if (u->omod && !(r->flags & OPF_FLOAT)) return false;
    if (u->clamp && !(r->flags & (OPF_FLOAT | OPF_CLAMP_INT))) return false;
    if (u->hi && !(r->flags & OPF_HALF) && !packed) return false;
    return true;
}

static uop *alu_uop(translator *t, const sim_inst *in, u32 op, const sim_opnd *dst, u32 ndst, const sim_opnd *src, u32 nsrc) {
    const op_row *r = op < SIM_OP_COUNT ? t->by_op[op] : NULL;
    uop *u = new_uop(t);
    if (!u) return NULL;
    u->in = in;
    u->fn = r ? r->fn : sim_do_illegal;
    u->cls = r ? r->cls : CLS_OTHER;
    u->clamp = in->clamp;
    u->omod = in->omod;
    bool ok = r != NULL;
    for (u32 i = 0; i < 3; i++) {
        bool one = true;
        u->s[i] = slot(SLOT_SINK);
        if (i < nsrc) {
            ok &= source(t, &src[i], &u->s[i], &one);
            modifiers(u, &src[i], (int)i);
        }
        if (one) u->bcast |= (u8)(1u << i);
    }
    u->d = u->d1 = slot(SLOT_SINK);
    if (ndst > 0) ok &= dest(t, &dst[0], &u->d);
    if (ndst > 1) ok &= dest(t, &dst[1], &u->d1);
    if (ndst && dst[0].mods & SIM_HI) u->hi |= 8;
    u->mods = u->neg | u->abs;
    u->imm = in->simm;
    if (!ok || (r && !mods_known(r, u, in))) u->fn = sim_do_illegal;
    return u;
}

static bool overlaps(const sim_opnd *d, const sim_opnd *o, u32 n) {
    for (u32 i = 0; i < n; i++)
        if (o[i].kind == SIM_K_VGPR && d->reg < o[i].reg + o[i].ndw && o[i].reg < d->reg + d->ndw) return true;
    return false;
}

/* Operations that also read their destination. */
static bool reads_dst(u32 op) {
    return op == SIM_OP_V_FMAC_F32 || op == SIM_OP_V_DOT2ACC_F32_F16 || op == SIM_OP_V_DOT2ACC_F32_BF16 || op == SIM_OP_V_FMAC_F16;
}

/* Both halves read before either writes: in the order in which neither destroys a source of the other, or with the first
 * half's result put aside. */
static void vopd(translator *t, const sim_inst *in) {
    uop *u = new_uop(t);
    if (!u) return;
    u32 at = t->p->n_uops - 1;
    u->in = in;
    u->cls = CLS_VALU;
    const sim_half *x = &in->half[0], *y = &in->half[1];
    bool x_hurts = overlaps(&x->dst, y->src, 3) || (reads_dst(y->op) && overlaps(&x->dst, &y->dst, 1));
    bool y_hurts = overlaps(&y->dst, x->src, 3);
    const sim_half *first = x_hurts ? y : x, *second = x_hurts ? x : y;
    bool aside = x_hurts && y_hurts;
    sim_inst plain = {0};
    (void)plain;
    for (int i = 0; i < 2; i++) {
        const sim_half *h = i ? second : first;
        u32 n = 0;
        while (n < 3 && h->src[n].kind != SIM_K_NONE) n++;
        uop *s = alu_uop(t, in, h->op, &h->dst, 1, h->src, n);
        if (!s) return;
        s->flags |= UOP_SUB;
        if (aside && i == 0) {
            /* d1 keeps the true destination; the wrapper copies the row there. */
            s->d1 = s->d;
            s->d = t->p->tmp_off + 128;
        }
    }
    t->p->uops[at].fn = aside ? sim_do_vopd_swap : sim_do_vopd;
    /* A half that may not run must fault before the other has written. */
    if (t->p->uops[at + 1].fn == sim_do_illegal || t->p->uops[at + 2].fn == sim_do_illegal ||
        (aside && reads_dst(first->op)))
        t->p->uops[at].fn = sim_do_illegal;
}

/* DPP: the wrapper permutes source 0 into a scratch row, which the operation behind it reads. */
static void dpp(translator *t, const sim_inst *in) {
    uop *u = new_uop(t);
    if (!u) return;
    u32 at = t->p->n_uops - 1;
    u->in = in;
    uop *s = alu_uop(t, in, in->op, in->dst, in->ndst, in->src, in->nsrc);
    if (!s) return;
    s->flags |= UOP_SUB;
    u = &t->p->uops[at];
    u->cls = s->cls;
    u->s[0] = s->s[0];
    u->d = s->d;
    u->fn = s->fn == sim_do_illegal || in->src[0].kind != SIM_K_VGPR ? sim_do_illegal : sim_do_dpp;
    s->s[0] = t->p->tmp_off;
    program *p = t->p;
    if (p->n_dpps == p->cap_dpps) {
        u32 cap = p->cap_dpps ? 2 * p->cap_dpps : 64;
        dpp_table *q = realloc(p->dpps, cap * sizeof *q);
        if (!q) {
            t->nomem = true;
            return;
        }
        p->dpps = q;
        p->cap_dpps = cap;
    }
    if (!sim_dpp_table(in, &p->dpps[p->n_dpps++])) u->fn = sim_do_illegal;
    u->target = (const uop *)(uintptr_t)p->n_dpps; /* number + 1, until the table's place is final */
}

static bool is_branch(u32 op) {
    switch (op) {
    case SIM_OP_S_BRANCH: case SIM_OP_S_CBRANCH_SCC0: case SIM_OP_S_CBRANCH_SCC1: case SIM_OP_S_CBRANCH_VCCZ:
    case SIM_OP_S_CBRANCH_VCCNZ: case SIM_OP_S_CBRANCH_EXECZ: case SIM_OP_S_CBRANCH_EXECNZ: case SIM_OP_S_CALL_B64: return true;
    default: return false;
    }
}

static void mem_uop(translator *t, const sim_inst *in) {
    const op_row *r = t->by_op[in->op];
    uop *u = new_uop(t);
    if (!u) return;
    u->in = in;
    u->fn = r ? r->fn : sim_do_illegal;
    u->cls = r ? r->cls : CLS_OTHER;
    u->imm = in->offset;
    bool ok = r != NULL, one;
    bool ds = in->enc == SIM_ENC_DS;
    if (in->enc == SIM_ENC_SMEM) {
        ok &= source(t, &in->saddr, &u->s[0], &one) && source(t, &in->soffset, &u->s[1], &one);
        if (in->soffset.kind != SIM_K_NONE) u->flags |= UOP_SADDR;
        ok &= dest(t, &in->data_dst, &u->d);
    } else {
        u32 a = 0;
        if (in->vaddr.kind != SIM_K_NONE) {
            ok &= source(t, &in->vaddr, &a, &one) && !one;
            u->flags |= UOP_VADDR;
        }
        u->s[0] = a;
        if (in->saddr.kind != SIM_K_NONE && in->saddr.reg != SLOT_NULL) {
            ok &= source(t, &in->saddr, &u->d1, &one);
            u->flags |= UOP_SADDR;
        }
        if (in->data.kind != SIM_K_NONE) {
            ok &= source(t, &in->data, &u->s[1], &one);
            if (one) u->bcast |= 2;
        }
        if (in->data1.kind != SIM_K_NONE) ok &= source(t, &in->data1, &u->s[2], &one);
        u->d = slot(SLOT_SINK);
        if (in->data_dst.kind != SIM_K_NONE) {
            ok &= dest(t, &in->data_dst, &u->d);
            u->flags |= UOP_RETURN;
        }
        if (ds) u->imm = in->offset;
        if (in->enc == SIM_ENC_VBUFFER) ok = false;
    }
    if (!ok || in->tfe) u->fn = sim_do_illegal;
}

static void translate_one(translator *t, const sim_inst *in) {
    switch (in->enc) {
    case SIM_ENC_VOPD: vopd(t, in); return;
    case SIM_ENC_SMEM:
    case SIM_ENC_DS:
    case SIM_ENC_FLAT:
    case SIM_ENC_GLOBAL:
    case SIM_ENC_SCRATCH:
    case SIM_ENC_VBUFFER: mem_uop(t, in); return;
    default: break;
    }
    if (in->dpp) dpp(t, in);
    else alu_uop(t, in, in->op, in->dst, in->ndst, in->src, in->nsrc);
}

static const uop *target_of(const program *p, i64 dw) {
    if (dw < 0 || dw >= (i64)p->text_dwords || !p->at[dw]) return &p->uops[0];
    return &p->uops[p->at[dw] - 1];
}

/* Kernels whose result may depend on the order of workgroups. */
static bool orders_groups(const sim_inst *in) {
    const char *n = sim_op_name(in->op);
    bool global = in->enc == SIM_ENC_GLOBAL || in->enc == SIM_ENC_FLAT;
    if (!global) return false;
    if (strstr(n, "atomic")) return in->data_dst.kind != SIM_K_NONE || strstr(n, "_f") || strstr(n, "swap") || strstr(n, "cond_sub") ||
                                    strstr(n, "clamp") || strstr(n, "inc") || strstr(n, "dec");
    return in->scope >= 2 && (strstr(n, "load") || strstr(n, "store"));
}

static bool starts_here(const sim_module *m, u64 pc) {
    for (u32 i = 0; i < m->n_syms; i++)
        if (m->syms[i].func && m->syms[i].addr == pc) return true;
    return false;
}

static bool translate_text(translator *t) {
    program *p = t->p;
    const u32 *text = (const u32 *)(uintptr_t)p->mod->text_lo;
    uop *bad = new_uop(t); /* index 0: where wild branches go */
    if (!bad) return false;
    bad->fn = sim_do_illegal;
    bad->pc = ~0u;
    for (u32 i = 0; i < p->text_dwords && !t->nomem;) {
        sim_inst *in = &p->insts[p->n_insts];
        int n = sim_decode(text + i, p->text_dwords - i, in);
        /* A function that starts inside what looked like an instruction: the bytes before it were data. */
        for (int k = 1; k < n; k++)
            if (starts_here(p->mod, p->mod->text_lo + 4ull * (i + (u32)k))) n = 0;
        u32 first = p->n_uops;
        p->at[i] = first + 1;
        if (n <= 0 || in->odd) { /* odd: the assembler reads it, the hardware's documents do not say what it does */
            if (n <= 0) {
                memset(in, 0, sizeof *in);
                in->words[0] = text[i];
                in->ndw = 1;
                n = 1;
            }
            uop *u = new_uop(t);
            if (!u) return false;
            u->fn = sim_do_illegal;
            u->in = in;
        } else {
            translate_one(t, in);
            if (orders_groups(in)) p->ordered = true;
        }
        for (u32 k = first; k < p->n_uops; k++) p->uops[k].pc = 4 * i;
        p->n_insts++;
        i += (u32)n;
    }
    uop *end = new_uop(t); /* running off the end */
    if (!end) return false;
    end->fn = sim_do_illegal;
    end->pc = 4 * p->text_dwords;
    for (u32 i = 1; i < p->n_uops; i++) {
        uop *u = &p->uops[i];
        if (u->target) {
            u->dpp = &p->dpps[(uintptr_t)u->target - 1];
            u->target = NULL;
        }
        if (u->in && u->in->op && is_branch(u->in->op))
            u->target = target_of(p, (i64)(u->pc / 4) + u->in->ndw + u->in->simm);
    }
    return !t->nomem;
}

program *sim_translate(sim_module *m, u32 level, sim_error *err) {
    translator *t = calloc(1, sizeof *t);
    program *p = calloc(1, sizeof *p);
    if (!t || !p) goto nomem;
    t->p = p;
    t->err = err;
    p->mod = m;
    p->text_dwords = (u32)((m->text_hi - m->text_lo) / 4);
    p->nv = 8;
    for (u32 i = 0; i < m->n_kernels; i++) {
        u32 nv = 8 * ((m->kernels[i].rsrc1 & 63) + 1);
        if (nv > p->nv) p->nv = nv > 256 ? 256 : nv;
    }
    p->tmp_off = V_OFF + 128 * p->nv;
    p->pool_off = p->tmp_off + 256;
    p->at = calloc(p->text_dwords + 1u, sizeof *p->at);
    p->insts = calloc(p->text_dwords + 1u, sizeof *p->insts);
    if (!p->at || !p->insts) goto nomem;
    fill_tables(t, level);
    if (!translate_text(t)) goto nomem;
    p->wave_bytes = (p->pool_off + 4 * p->n_pool + 63 + 64) & ~63u;
    free(t);
    return p;
nomem:
    sim_fail(err, "simulator: out of memory");
    free(t);
    sim_program_free(p);
    return NULL;
}

void sim_program_free(program *p) {
    if (!p) return;
    free(p->uops);
    free(p->insts);
    free(p->at);
    free(p->pool);
    free(p->dpps);
    free(p);
}

const uop *sim_uop_at(const program *p, u64 pc) {
    u64 off = pc - p->mod->text_lo;
    if (off & 3 || off / 4 >= p->text_dwords || !p->at[off / 4]) return NULL;
    return &p->uops[p->at[off / 4] - 1];
}

void sim_code_free(sim_module *m) {
    sim_program_free(m->code);
    m->code = NULL;
}
