/* Decoder of gfx1201 instructions: which encoding, and the scalar and vector ALU forms. */
#include "decode.h"

#include <string.h>

enum { DPP8_CODE = 233, DPP8_FI_CODE = 234, DPP16_CODE = 250, LITERAL_CODE = 255, VGPR0_CODE = 256 };

uint64_t sim_inline_bits(unsigned code, unsigned type)
{
    static const uint16_t half[9] = {0x3800, 0xb800, 0x3c00, 0xbc00, 0x4000, 0xc000, 0x4400, 0xc400, 0x3118};
    static const uint32_t single[9] = {0x3f000000, 0xbf000000, 0x3f800000, 0xbf800000, 0x40000000,
                                       0xc0000000, 0x40800000, 0xc0800000, 0x3e22f983};
    static const uint64_t dbl[9] = {0x3fe0000000000000, 0xbfe0000000000000, 0x3ff0000000000000,
                                    0xbff0000000000000, 0x4000000000000000, 0xc000000000000000,
                                    0x4010000000000000, 0xc010000000000000, 0x3fc45f306dc9c882};
    bool wide = type == SIM_T_B64 || type == SIM_T_I64 || type == SIM_T_F64;
    if (code <= 208) { /* 128..192: 0..64, 193..208: -1..-16 */
        int64_t v = code <= 192 ? (int64_t)code - 128 : 192 - (int64_t)code;
        return wide ? (uint64_t)v : (uint32_t)v;
    }
    unsigned i = code - 240;
    switch (type) {
    case SIM_T_B16:
    case SIM_T_F16:
    case SIM_T_PK_F16:
        return half[i];
    case SIM_T_BF16:
    case SIM_T_PK_BF16:
        return single[i] >> 16;
    default:
        return wide ? dbl[i] : single[i];
    }
}

/* The literal dword follows the encoding and a DPP dword; several operands of an instruction share it. */
static bool take_literal(struct sim_words *ws)
{
    if (!ws->has_literal) {
        size_t at = ws->own + ws->extra;
        if (at >= ws->n) {
            return false;
        }
        ws->literal = ws->w[at];
        ws->has_literal = true;
        ws->extra++;
    }
    return true;
}

static uint64_t literal_bits(uint32_t lit, unsigned type)
{
    switch (type) {
    case SIM_T_F64:
        return (uint64_t)lit << 32;
    case SIM_T_I64:
        return (uint64_t)(int64_t)(int32_t)lit;
    default:
        return lit;
    }
}

bool sim_vgpr(sim_opnd *o, unsigned reg, unsigned ndw)
{
    o->kind = SIM_K_VGPR;
    o->ndw = (uint8_t)ndw;
    o->reg = (uint16_t)reg;
    return reg + ndw <= 256;
}

/* Scalar tuples start at a multiple of their width (of 4 from 4 dwords on) and stay within s0..vcc or ttmp0..15. */
bool sim_sreg(sim_opnd *o, unsigned code, unsigned ndw)
{
    o->kind = SIM_K_SREG;
    o->ndw = (uint8_t)ndw;
    o->reg = (uint16_t)code;
    if (ndw == 1 || code == SIM_S_NULL) {
        return code < 128;
    }
    unsigned step = ndw == 2 ? 2 : 4;
    if (code < SIM_S_TTMP0) {
        return code % step == 0 && code + ndw <= (ndw == 2 ? 108 : 106);
    }
    if (code < SIM_S_NULL) {
        return (code - SIM_S_TTMP0) % step == 0 && code + ndw <= SIM_S_NULL;
    }
    return code == SIM_S_EXEC_LO && ndw == 2;
}

static bool scalar_operand(sim_inst *in, unsigned code, const struct sim_field_class *c, sim_opnd *o)
{
    if (code == SIM_S_NULL && !(c->flags & C_SREG)) {
        in->odd = 1;
        return (c->flags & C_NULL) && sim_sreg(o, code, c->ndw);
    }
    unsigned need = code == SIM_S_M0 ? C_M0 : code > SIM_S_M0 ? C_EXEC : C_SREG;
    return (c->flags & need) && sim_sreg(o, code, c->ndw);
}

bool sim_operand(struct sim_words *ws, sim_inst *in, unsigned code, const struct sim_field_class *c, sim_opnd *o)
{
    o->ndw = c->ndw;
    o->type = c->type;
    if (c->flags & C_ABSENT) {
        return (c->flags & C_IGNORED) || code == (c->flags & C_IS126 ? 126u : 0u);
    }
    if (code >= VGPR0_CODE) {
        return (c->flags & C_VGPR) && sim_vgpr(o, code - VGPR0_CODE, c->ndw) && !((c->flags & C_LO128) && o->reg > 127);
    }
    if (code < 128) {
        return scalar_operand(in, code, c, o);
    }
    if (code <= 208 || (code >= 240 && code <= 248)) {
        o->kind = SIM_K_CONST;
        o->reg = (uint16_t)code;
        o->imm = sim_inline_bits(code, c->type);
        return (c->flags & C_CONST) != 0;
    }
    if (code == LITERAL_CODE) {
        o->kind = SIM_K_LITERAL;
        o->reg = LITERAL_CODE;
        if (!(c->flags & C_LIT) || !take_literal(ws)) {
            return false;
        }
        o->imm = literal_bits(ws->literal, c->type);
        return true;
    }
    o->kind = SIM_K_SPECIAL;
    o->reg = (uint16_t)code;
    if ((code >= 235 && code <= 239) || (code >= 251 && code <= 253)) {
        if (!(c->flags & C_SREG)) {
            in->odd = 1;
        }
        return (c->flags & C_SPEC) != 0;
    }
    in->odd = 1;
    return code == 254 && (c->flags & C_LDS);
}

/* An 8-bit field that names a VGPR, or a 7- or 8-bit one that names a scalar, by its class. */
static bool dst_operand(struct sim_words *ws, sim_inst *in, unsigned code, unsigned cls, sim_opnd *o)
{
    const struct sim_field_class *c = sim_class_of(cls);
    if (c->flags & C_VGPR) {
        code += VGPR0_CODE;
    }
    return sim_operand(ws, in, code, c, o) && o->kind != SIM_K_CONST && o->kind != SIM_K_LITERAL;
}

static bool valid_dpp_ctrl(unsigned c)
{
    if (c <= 0xff) {
        return true;
    }
    if (c >= 0x100 && c <= 0x12f) {
        return (c & 15) != 0;
    }
    return c == 0x140 || c == 0x141 || (c >= 0x150 && c <= 0x16f);
}

/* Takes the DPP dword if src0's code asks for one and the form exists; *src0 becomes the VGPR's code. */
static const struct sim_form *take_dpp(struct sim_words *ws, sim_inst *in, const struct sim_fmt *f, unsigned *src0, bool *ok)
{
    unsigned code = *src0;
    *ok = true;
    if ((sim_class_of(f->s0)->flags & C_IGNORED) || (code != DPP8_CODE && code != DPP8_FI_CODE && code != DPP16_CODE)) {
        return NULL;
    }
    const struct sim_form *form = code == DPP16_CODE ? &f->dpp16 : &f->dpp8;
    *ok = false;
    if (!form->ok || ws->own + ws->extra >= ws->n) {
        return form;
    }
    uint32_t d = ws->w[ws->own + ws->extra++];
    *src0 = VGPR0_CODE + (d & 255);
    if (code == DPP16_CODE) {
        in->dpp = SIM_DPP16;
        in->dpp_ctrl = (uint16_t)sim_bits(d, 8, 9);
        in->dpp_fi = (uint8_t)sim_bits(d, 18, 1);
        in->dpp_bc = (uint8_t)sim_bits(d, 19, 1);
        in->dpp_bank_mask = (uint8_t)sim_bits(d, 24, 4);
        in->dpp_row_mask = (uint8_t)sim_bits(d, 28, 4);
        *ok = valid_dpp_ctrl(in->dpp_ctrl);
    } else {
        in->dpp = SIM_DPP8;
        in->dpp8 = d >> 8;
        in->dpp_fi = code == DPP8_FI_CODE;
        *ok = true;
    }
    return form;
}

static void set_counts(sim_inst *in)
{
    in->nsrc = in->ndst = 0;
    for (unsigned i = 0; i < 4; i++) {
        if (in->src[i].kind != SIM_K_NONE) {
            in->nsrc = (uint8_t)(i + 1);
        }
    }
    for (unsigned i = 0; i < 2; i++) {
        if (in->dst[i].kind != SIM_K_NONE) {
            in->ndst = (uint8_t)(i + 1);
        }
    }
}

/* fmaak (a * b + K) and fmamk (a * K + b) have K as a dword of the encoding. */
static bool is_fmaak(unsigned op)
{
    return op == SIM_OP_V_FMAAK_F32 || op == SIM_OP_V_FMAAK_F16 || op == SIM_OP_S_FMAAK_F32;
}

static bool is_fmamk(unsigned op)
{
    return op == SIM_OP_V_FMAMK_F32 || op == SIM_OP_V_FMAMK_F16 || op == SIM_OP_S_FMAMK_F32;
}

static bool add_k(struct sim_words *ws, unsigned op, sim_opnd src[3])
{
    if (!is_fmaak(op) && !is_fmamk(op)) {
        return true;
    }
    if (!take_literal(ws)) {
        return false;
    }
    sim_opnd k = {.kind = SIM_K_LITERAL, .ndw = 1, .type = src[0].type, .imm = ws->literal};
    if (is_fmamk(op)) {
        src[2] = src[1];
        src[1] = k;
    } else {
        src[2] = k;
    }
    return true;
}

static sim_opnd mask_operand(unsigned reg)
{
    return (sim_opnd){.kind = SIM_K_SREG, .ndw = 1, .reg = (uint16_t)reg};
}

static bool decode_sop(struct sim_words *ws, sim_inst *in)
{
    uint32_t w = ws->w[0];
    const struct sim_row *row = sim_row_of(in->enc, in->opcode);
    if (!row) {
        return false;
    }
    const struct sim_fmt *f = sim_fmt_of(row);
    in->op = row->op;
    bool ok = sim_operand(ws, in, w & 255, sim_class_of(f->s0), &in->src[0]);
    if (in->enc != SIM_ENC_SOPC) {
        ok = ok && dst_operand(ws, in, sim_bits(w, 16, 7), f->d, &in->dst[0]);
    }
    if (in->enc != SIM_ENC_SOP1) {
        ok = ok && sim_operand(ws, in, sim_bits(w, 8, 8), sim_class_of(f->s1), &in->src[1]);
    }
    if (in->op == SIM_OP_S_SENDMSG_RTN_B32 || in->op == SIM_OP_S_SENDMSG_RTN_B64) {
        in->simm = (int32_t)(w & 255);
    }
    return ok && add_k(ws, in->op, in->src);
}

static bool decode_sopk(struct sim_words *ws, sim_inst *in)
{
    uint32_t w = ws->w[0];
    const struct sim_mrow *row = sim_mrow_of(SIM_ENC_SOPK, in->opcode);
    if (!row) {
        return false;
    }
    in->op = row->op;
    in->simm = (int16_t)(w & 0xffff);
    unsigned reg = sim_bits(w, 16, 7);
    switch (in->op) {
    case SIM_OP_S_VERSION:
        return true;
    case SIM_OP_S_SETREG_B32:
        return sim_sreg(&in->src[0], reg, 1);
    case SIM_OP_S_SETREG_IMM32_B32:
        in->src[0] = (sim_opnd){.kind = SIM_K_LITERAL, .ndw = 1};
        if (!take_literal(ws)) {
            return false;
        }
        in->src[0].imm = ws->literal;
        return true;
    case SIM_OP_S_CALL_B64:
        return sim_sreg(&in->dst[0], reg, 2);
    default:
        return sim_sreg(&in->dst[0], reg, 1);
    }
}

/* The fields of s_delay_alu that the assembler has names for. */
static bool valid_delay_alu(unsigned imm)
{
    return (imm & 15) <= 11 && sim_bits(imm, 4, 3) <= 5 && sim_bits(imm, 7, 4) <= 11;
}

static bool decode_sopp(struct sim_words *ws, sim_inst *in)
{
    const struct sim_mrow *row = sim_mrow_of(SIM_ENC_SOPP, in->opcode);
    if (!row) {
        return false;
    }
    in->op = row->op;
    in->simm = (int16_t)(ws->w[0] & 0xffff);
    switch (in->op) { /* no immediate: the field must be 0 */
    case SIM_OP_S_WAIT_IDLE:
    case SIM_OP_S_CODE_END:
    case SIM_OP_S_ENDPGM_SAVED:
    case SIM_OP_S_WAKEUP:
    case SIM_OP_S_TTRACEDATA:
    case SIM_OP_S_ICACHE_INV:
        return in->simm == 0;
    case SIM_OP_S_DELAY_ALU:
        return valid_delay_alu(ws->w[0] & 0xffff);
    default:
        return true;
    }
}

/* VCC operands that the one-dword vector forms imply. */
static void implied_masks(sim_inst *in)
{
    switch (in->op) {
    case SIM_OP_V_ADD_CO_CI_U32:
    case SIM_OP_V_SUB_CO_CI_U32:
    case SIM_OP_V_SUBREV_CO_CI_U32:
        in->dst[1] = mask_operand(SIM_S_VCC_LO);
        in->src[2] = mask_operand(SIM_S_VCC_LO);
        break;
    case SIM_OP_V_CNDMASK_B32:
        in->src[2] = mask_operand(SIM_S_VCC_LO);
        break;
    default:
        break;
    }
    if (in->enc == SIM_ENC_VOPC) {
        in->dst[0] = mask_operand(in->opcode >= 128 ? SIM_S_EXEC_LO : SIM_S_VCC_LO);
    }
}

static bool decode_vop12c(struct sim_words *ws, sim_inst *in)
{
    uint32_t w = ws->w[0];
    const struct sim_row *row = sim_row_of(in->enc, in->opcode);
    if (!row) {
        return false;
    }
    const struct sim_fmt *f = sim_fmt_of(row);
    unsigned src0 = sim_bits(w, 0, 9);
    bool ok;
    in->op = row->op;
    const struct sim_form *form = take_dpp(ws, in, f, &src0, &ok);
    ok = ok && sim_operand(ws, in, src0, sim_class_of(f->s0), &in->src[0]);
    if (in->enc != SIM_ENC_VOPC) {
        ok = ok && dst_operand(ws, in, sim_bits(w, 17, 8), f->d, &in->dst[0]);
    }
    if (in->enc != SIM_ENC_VOP1) {
        ok = ok && dst_operand(ws, in, sim_bits(w, 9, 8), f->s1, &in->src[1]);
    }
    if (!ok || !add_k(ws, in->op, in->src)) {
        return false;
    }
    if (form && in->dpp == SIM_DPP16) {
        unsigned mods = sim_bits(ws->w[1], 20, 4);
        if (mods & ~(unsigned)form->allow) {
            return false;
        }
        in->odd |= (mods & ~(unsigned)form->show) != 0;
        mods &= form->show;
        in->src[0].mods = (uint8_t)(mods & 3);
        in->src[1].mods = (uint8_t)(mods >> 2);
    }
    implied_masks(in);
    return true;
}

/* op_sel bits of the three-source form that have a meaning, by the way the operation uses them. */
static void apply_select(sim_inst *in, unsigned select, unsigned sel)
{
    switch (select) {
    case SEL_LIST:
        for (unsigned i = 0; i < 3; i++) {
            in->src[i].mods |= (uint8_t)((sel >> i & 1) ? SIM_HI : 0);
        }
        in->dst[0].mods |= (uint8_t)((sel & 8) ? SIM_HI : 0);
        break;
    case SEL_TWO:
        in->src[0].mods |= (uint8_t)((sel & 1) ? SIM_HI : 0);
        in->src[1].mods |= (uint8_t)((sel & 2) ? SIM_HI : 0);
        break;
    case SEL_BYTE01:
        in->byte_sel = (uint8_t)((sel & 1) << 1 | (sel >> 1 & 1));
        break;
    case SEL_BYTE23:
        in->byte_sel = (uint8_t)((sel >> 2 & 1) | (sel >> 3 & 1) << 1);
        break;
    case SEL_INDEX_KEY:
        in->byte_sel = (uint8_t)(sel & 3);
        break;
    default:
        break;
    }
}

/* Modifier bits of words 0 and 1, in the order of sim_fmt. */
static unsigned modifier_bits(const uint32_t *w)
{
    return sim_bits(w[0], 8, 8) | sim_bits(w[1], 27, 5) << 8;
}

static void apply_vop3_mods(sim_inst *in, const struct sim_fmt *f, unsigned mods, unsigned allow, unsigned show)
{
    unsigned m = mods & show;
    for (unsigned i = 0; i < 3; i++) {
        in->src[i].mods = (uint8_t)(((m >> i & 1) ? SIM_ABS : 0) | ((m >> (10 + i) & 1) ? SIM_NEG : 0));
    }
    apply_select(in, f->select, m >> 3 & 15);
    in->clamp = m >> 7 & 1;
    in->omod = m >> 8 & 3;
    if (mods & allow & ~show) {
        in->odd = 1;
    }
}

static void apply_vop3p_mods(sim_inst *in, const struct sim_fmt *f, unsigned mods, unsigned show)
{
    unsigned m = mods & show;
    unsigned sel_hi = (m >> 8 & 3) | (m >> 6 & 1) << 2;
    bool mix = f->select == SEL_MIX;
    for (unsigned i = 0; i < 3; i++) {
        unsigned b = (m >> (10 + i) & 1) ? SIM_NEG : 0;
        b |= (m >> i & 1) ? (mix ? SIM_ABS : SIM_NEG_HI) : 0;
        if (f->select == SEL_PACKED || mix) {
            b |= (m >> (3 + i) & 1) ? SIM_HI : 0;
            b |= (sel_hi >> i & 1) ? SIM_HI_HI : 0;
        }
        if (in->src[i].kind == SIM_K_NONE) {
            continue;
        }
        in->src[i].mods = (uint8_t)b;
        if (mix && (b & SIM_HI_HI)) { /* op_sel_hi of v_fma_mix: the source is f16 */
            in->src[i].type = SIM_T_F16;
            if (in->src[i].kind == SIM_K_CONST) {
                in->src[i].imm = sim_inline_bits(in->src[i].reg, SIM_T_F16);
            }
        }
    }
    if (f->select == SEL_INDEX_KEY) {
        apply_select(in, SEL_INDEX_KEY, m >> 3 & 3);
    }
    in->clamp = m >> 7 & 1;
}

static bool decode_vop3(struct sim_words *ws, sim_inst *in)
{
    const struct sim_row *row = sim_row_of(in->enc, in->opcode);
    if (!row || (in->enc == SIM_ENC_VOP3P && sim_bits(ws->w[0], 23, 1))) {
        return false;
    }
    const struct sim_fmt *f = sim_fmt_of(row);
    unsigned src0 = sim_bits(ws->w[1], 0, 9), s1 = f->s1, s2 = f->s2, allow = f->allow, show = f->show;
    bool ok;
    in->op = row->op;
    const struct sim_form *form = take_dpp(ws, in, f, &src0, &ok);
    if (!ok) {
        return false;
    }
    if (form) {
        s1 = form->s1;
        s2 = form->s2;
        allow = form->allow;
        show = form->show;
    }
    unsigned mods = modifier_bits(ws->w);
    if (f->d1) { /* the carry's register takes the place of abs and op_sel */
        allow &= ~0x7fu;
        mods &= ~0x7fu;
        ok = sim_operand(ws, in, sim_bits(ws->w[0], 8, 7), sim_class_of(f->d1), &in->dst[1]);
    }
    if (!ok || ((mods ^ f->must) & ~allow)) {
        return false;
    }
    if (!dst_operand(ws, in, ws->w[0] & 255, f->d, &in->dst[0]) ||
        !sim_operand(ws, in, src0, sim_class_of(f->s0), &in->src[0]) ||
        !sim_operand(ws, in, sim_bits(ws->w[1], 9, 9), sim_class_of(s1), &in->src[1]) ||
        !sim_operand(ws, in, sim_bits(ws->w[1], 18, 9), sim_class_of(s2), &in->src[2])) {
        return false;
    }
    if (sim_class_of(f->d)->flags & C_IS126) {
        in->dst[0] = mask_operand(SIM_S_EXEC_LO);
    }
    if (in->enc == SIM_ENC_VOP3P) {
        apply_vop3p_mods(in, f, mods, show);
    } else {
        apply_vop3_mods(in, f, mods, allow, show);
    }
    return true;
}

static unsigned vopd_type(unsigned op)
{
    switch (op) {
    case SIM_OP_V_MOV_B32:
    case SIM_OP_V_CNDMASK_B32:
    case SIM_OP_V_ADD_NC_U32:
    case SIM_OP_V_LSHLREV_B32:
    case SIM_OP_V_AND_B32:
        return SIM_T_B32;
    case SIM_OP_V_DOT2ACC_F32_F16:
        return SIM_T_PK_F16;
    case SIM_OP_V_DOT2ACC_F32_BF16:
        return SIM_T_PK_BF16;
    default:
        return SIM_T_F32;
    }
}

static bool decode_vopd(struct sim_words *ws, sim_inst *in)
{
    const uint32_t *w = ws->w;
    unsigned vdst[2] = {sim_bits(w[1], 24, 8), 0};
    vdst[1] = sim_bits(w[1], 17, 7) << 1 | (~vdst[0] & 1);
    for (unsigned i = 0; i < 2; i++) {
        const struct sim_mrow *row = sim_vopd_row(i, i ? sim_bits(w[0], 17, 5) : sim_bits(w[0], 22, 4));
        sim_half *h = &in->half[i];
        if (!row) {
            return false;
        }
        h->op = row->op;
        struct sim_field_class c = {C_SREG | C_M0 | C_EXEC | C_CONST | C_LIT | C_SPEC | C_LDS | C_VGPR, 1, (uint8_t)vopd_type(h->op)};
        unsigned vsrc1 = sim_bits(w[i], 9, 8);
        sim_vgpr(&h->dst, vdst[i], 1);
        if (!sim_operand(ws, in, sim_bits(w[i], 0, 9), &c, &h->src[0])) {
            return false;
        }
        if (h->op == SIM_OP_V_MOV_B32) {
            if (vsrc1) {
                return false;
            }
            continue;
        }
        sim_vgpr(&h->src[1], vsrc1, 1);
        h->src[1].type = c.type;
        if (!add_k(ws, h->op, h->src)) {
            return false;
        }
        if (h->op == SIM_OP_V_CNDMASK_B32) {
            h->src[2] = mask_operand(SIM_S_VCC_LO);
        }
    }
    in->op = in->half[0].op;
    return true;
}

/* Encoding and opcode from the first word; SIM_ENC_NONE if no encoding matches. */
static unsigned classify(uint32_t w, unsigned *opcode)
{
    static const struct {
        uint8_t enc, shift, bits;
    } by_top[64] = {
        [0x31] = {SIM_ENC_VBUFFER, 14, 8}, [0x32] = {SIM_ENC_VOPD, 22, 4}, [0x34] = {SIM_ENC_VIMAGE, 14, 8},
        [0x35] = {SIM_ENC_VOP3, 16, 10},   [0x36] = {SIM_ENC_DS, 18, 8},   [0x39] = {SIM_ENC_VSAMPLE, 14, 8},
        [0x3d] = {SIM_ENC_SMEM, 13, 6},    [0x3e] = {SIM_ENC_EXP, 0, 0},
    };
    unsigned enc, shift, bits;
    if (w >> 31 == 0) {
        unsigned top = w >> 25;
        enc = top == 63 ? SIM_ENC_VOP1 : top == 62 ? SIM_ENC_VOPC : SIM_ENC_VOP2;
        shift = top == 63 ? 9 : top == 62 ? 17 : 25;
        bits = top >= 62 ? 8 : 6;
    } else if (w >> 30 == 2) {
        unsigned top = w >> 23;
        enc = top == 0x17d ? SIM_ENC_SOP1 : top == 0x17e ? SIM_ENC_SOPC : top == 0x17f ? SIM_ENC_SOPP
              : w >> 28 == 0xb ? SIM_ENC_SOPK : SIM_ENC_SOP2;
        shift = enc == SIM_ENC_SOP1 ? 8 : enc == SIM_ENC_SOPC || enc == SIM_ENC_SOPP ? 16 : 23;
        bits = enc == SIM_ENC_SOP1 ? 8 : enc == SIM_ENC_SOPK ? 5 : 7;
    } else if (w >> 26 == 0x33) {
        static const uint8_t encs[4] = {SIM_ENC_VOP3P, SIM_ENC_VINTERP, SIM_ENC_VDSDIR, SIM_ENC_NONE};
        enc = encs[w >> 24 & 3];
        shift = enc == SIM_ENC_VDSDIR ? 20 : 16;
        bits = enc == SIM_ENC_VOP3P ? 7 : enc == SIM_ENC_VINTERP ? 5 : 2;
    } else if (w >> 26 == 0x3b) {
        static const uint8_t encs[4] = {SIM_ENC_FLAT, SIM_ENC_SCRATCH, SIM_ENC_GLOBAL, SIM_ENC_NONE};
        enc = encs[w >> 24 & 3];
        shift = 14;
        bits = 8;
    } else {
        enc = by_top[w >> 26].enc;
        shift = by_top[w >> 26].shift;
        bits = by_top[w >> 26].bits;
    }
    *opcode = sim_bits(w, shift, bits);
    return enc;
}

static bool decode_alu(struct sim_words *ws, sim_inst *in)
{
    switch (in->enc) {
    case SIM_ENC_SOP1:
    case SIM_ENC_SOP2:
    case SIM_ENC_SOPC:
        return decode_sop(ws, in);
    case SIM_ENC_SOPK:
        return decode_sopk(ws, in);
    case SIM_ENC_SOPP:
        return decode_sopp(ws, in);
    case SIM_ENC_VOP1:
    case SIM_ENC_VOP2:
    case SIM_ENC_VOPC:
        if (ws->w[0] == 0) {
            in->op = SIM_OP_V_ILLEGAL;
            return true;
        }
        return decode_vop12c(ws, in);
    case SIM_ENC_VOP3:
    case SIM_ENC_VOP3P:
        return decode_vop3(ws, in);
    case SIM_ENC_VOPD:
        return decode_vopd(ws, in);
    default:
        return false;
    }
}

int sim_decode(const uint32_t *words, size_t n_words, sim_inst *out)
{
    static const uint8_t own[SIM_ENC_COUNT] = {
        [SIM_ENC_VOP3] = 2,    [SIM_ENC_VOP3P] = 2,   [SIM_ENC_VOPD] = 2,    [SIM_ENC_VINTERP] = 2, [SIM_ENC_EXP] = 2,
        [SIM_ENC_DS] = 2,      [SIM_ENC_SMEM] = 2,    [SIM_ENC_FLAT] = 3,    [SIM_ENC_SCRATCH] = 3, [SIM_ENC_GLOBAL] = 3,
        [SIM_ENC_VBUFFER] = 3, [SIM_ENC_VIMAGE] = 3,  [SIM_ENC_VSAMPLE] = 3,
    };
    memset(out, 0, sizeof *out);
    if (n_words == 0) {
        return 0;
    }
    unsigned opcode;
    unsigned enc = classify(words[0], &opcode);
    if (enc == SIM_ENC_NONE) {
        return 0;
    }
    struct sim_words ws = {.w = words, .n = n_words, .own = own[enc] ? own[enc] : 1};
    if (n_words < ws.own) {
        return 0;
    }
    out->enc = (uint8_t)enc;
    out->opcode = (uint16_t)opcode;
    bool ok;
    if (enc >= SIM_ENC_VBUFFER || enc == SIM_ENC_VINTERP || enc == SIM_ENC_VDSDIR || enc == SIM_ENC_EXP) {
        ok = enc == SIM_ENC_VBUFFER ? sim_decode_mem(&ws, out) : sim_decode_gfx(&ws, out);
    } else if (enc == SIM_ENC_SMEM || enc >= SIM_ENC_DS) {
        ok = sim_decode_mem(&ws, out);
    } else {
        ok = decode_alu(&ws, out);
        set_counts(out);
    }
    if (!ok) {
        return 0;
    }
    out->ndw = (uint8_t)(ws.own + ws.extra);
    memcpy(out->words, words, out->ndw * sizeof *words);
    return out->ndw;
}
