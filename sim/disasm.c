/* Text of decoded instructions: scalar and vector ALU, and what all encodings share. */
#include "decode.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void sim_put(struct sim_text *t, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    bool room = t->n < t->cap;
    int k = vsnprintf(room ? t->buf + t->n : NULL, room ? t->cap - t->n : 0, fmt, ap);
    va_end(ap);
    t->n += k > 0 ? (size_t)k : 0;
}

void sim_put_vgprs(struct sim_text *t, unsigned reg, unsigned ndw)
{
    if (ndw == 1) {
        sim_put(t, "v%u", reg);
    } else {
        sim_put(t, "v[%u:%u]", reg, reg + ndw - 1);
    }
}

static void put_range(struct sim_text *t, const char *name, unsigned reg, unsigned ndw)
{
    if (ndw == 1) {
        sim_put(t, "%s%u", name, reg);
    } else {
        sim_put(t, "%s[%u:%u]", name, reg, reg + ndw - 1);
    }
}

static void put_sreg(struct sim_text *t, unsigned reg, unsigned ndw)
{
    if (reg < SIM_S_VCC_LO) {
        put_range(t, "s", reg, ndw);
    } else if (reg >= SIM_S_TTMP0 && reg < SIM_S_NULL) {
        put_range(t, "ttmp", reg - SIM_S_TTMP0, ndw);
    } else if (ndw == 2 && reg != SIM_S_NULL) {
        sim_put(t, "%s", reg == SIM_S_VCC_LO ? "vcc" : "exec");
    } else {
        static const char *const names[22] = {[0] = "vcc_lo", [1] = "vcc_hi",  [18] = "null",
                                              [19] = "m0",    [20] = "exec_lo", [21] = "exec_hi"};
        sim_put(t, "%s", names[reg - SIM_S_VCC_LO]);
    }
}

static void put_special(struct sim_text *t, unsigned code)
{
    static const char *const names[20] = {
        [0] = "src_shared_base",   [1] = "src_shared_limit",           [2] = "src_private_base",
        [3] = "src_private_limit", [4] = "src_pops_exiting_wave_id", [16] = "src_vccz",
        [17] = "src_execz",        [18] = "src_scc",                   [19] = "src_lds_direct",
    };
    sim_put(t, "%s", names[code - SIM_R_SHARED_BASE]);
}

static const char *const float_texts[9] = {"0.5", "-0.5", "1.0", "-1.0", "2.0", "-2.0", "4.0", "-4.0", "0.15915494"};

static void put_inline(struct sim_text *t, const sim_opnd *o)
{
    if (o->reg <= 208) {
        sim_put(t, "%d", o->reg <= 192 ? o->reg - 128 : 192 - o->reg);
    } else if (o->type == SIM_T_B16) {
        sim_put(t, "0x%x", (unsigned)o->imm & 0xffff);
    } else if (o->reg == 248 && o->ndw == 2) {
        sim_put(t, "0.15915494309189532");
    } else {
        sim_put(t, "%s", float_texts[o->reg - 240]);
    }
}

/* A literal whose value an inline constant has prints like that constant. */
static void put_literal(struct sim_text *t, const sim_opnd *o)
{
    bool f64 = o->type == SIM_T_F64, wide = f64 || o->type == SIM_T_B64 || o->type == SIM_T_I64;
    bool narrow = o->type == SIM_T_B16 || o->type == SIM_T_F16 || o->type == SIM_T_BF16;
    uint32_t v = f64 ? (uint32_t)(o->imm >> 32) : (uint32_t)o->imm;
    if (o->reg == 0) { /* the K of fmaak and fmamk, all 32 bits */
        sim_put(t, "0x%x", v);
        return;
    }
    int64_t number = wide ? (int64_t)(f64 ? o->imm : v) : o->type == SIM_T_F16 ? (int16_t)v : (int32_t)v;
    if (number >= -16 && number <= 64) {
        sim_put(t, "%d", (int)number);
        return;
    }
    /* 16-bit integers are compared in all 32 bits, with the f32 patterns; 64-bit integers have none */
    unsigned type = o->type == SIM_T_B16 ? SIM_T_B32 : o->type;
    uint64_t pattern = f64 ? o->imm : narrow && o->type != SIM_T_B16 ? v & 0xffff : v;
    for (unsigned i = 0; i < 9 && (f64 || !wide); i++) {
        if (pattern == sim_inline_bits(240 + i, type)) {
            sim_put(t, "%s", float_texts[i]);
            return;
        }
    }
    sim_put(t, "0x%x", narrow ? v & 0xffff : v);
}

static void put_plain(struct sim_text *t, const sim_opnd *o)
{
    switch (o->kind) {
    case SIM_K_SREG:
        put_sreg(t, o->reg, o->ndw);
        break;
    case SIM_K_VGPR:
        sim_put_vgprs(t, o->reg, o->ndw);
        break;
    case SIM_K_CONST:
        put_inline(t, o);
        break;
    case SIM_K_LITERAL:
        put_literal(t, o);
        break;
    case SIM_K_SPECIAL:
        put_special(t, o->reg);
        break;
    default:
        break;
    }
}

/* With the modifiers that are written around an operand. */
void sim_put_opnd(struct sim_text *t, const sim_opnd *o)
{
    bool paren = (o->mods & (SIM_NEG | SIM_ABS)) == SIM_NEG && (o->kind == SIM_K_CONST || o->kind == SIM_K_LITERAL);
    const char *bar = o->mods & SIM_ABS ? "|" : "";
    sim_put(t, "%s%s", paren ? "neg(" : o->mods & SIM_NEG ? "-" : "", bar);
    put_plain(t, o);
    sim_put(t, "%s%s", bar, paren ? ")" : "");
}

/* An operand after a comma, or after the mnemonic's blank if it is the first. */
static void put_next(struct sim_text *t, const sim_opnd *o, bool *first)
{
    sim_put(t, *first ? " " : ", ");
    *first = false;
    sim_put_opnd(t, o);
}

static void put_list(struct sim_text *t, const char *name, unsigned bits, unsigned n)
{
    sim_put(t, " %s:[", name);
    for (unsigned i = 0; i < n; i++) {
        sim_put(t, "%s%u", i ? "," : "", bits >> i & 1);
    }
    sim_put(t, "]");
}

static unsigned gather(const sim_inst *in, unsigned flag)
{
    unsigned m = 0;
    for (unsigned i = 0; i < 3; i++) {
        m |= in->src[i].mods & flag ? 1u << i : 0;
    }
    return m;
}

static void put_select(struct sim_text *t, const sim_inst *in, unsigned select, unsigned show)
{
    unsigned n = in->nsrc, lo = gather(in, SIM_HI), hi = gather(in, SIM_HI_HI), d = in->dst[0].mods & SIM_HI ? 1 : 0;
    switch (select) {
    case SEL_LIST:
        if (lo || d) {
            put_list(t, "op_sel", lo | d << n, n + 1);
        }
        break;
    case SEL_TWO:
        if (lo) {
            put_list(t, "op_sel", lo, 2);
        }
        break;
    case SEL_BYTE01:
    case SEL_BYTE23:
    case SEL_INDEX_KEY:
        if (in->byte_sel) {
            sim_put(t, " %s:%u", select == SEL_INDEX_KEY ? "index_key" : "byte_sel", in->byte_sel);
        }
        break;
    case SEL_PACKED:
    case SEL_MIX:
        if (lo) {
            put_list(t, "op_sel", lo, n);
        }
        if (select == SEL_MIX ? hi != 0 : (show & 1u << 8) && hi != (1u << n) - 1) {
            put_list(t, "op_sel_hi", hi, n);
        }
        break;
    default:
        break;
    }
}

static void put_dpp_ctrl(struct sim_text *t, unsigned c)
{
    static const char *const names[] = {[0] = "row_shl", [1] = "row_shr", [2] = "row_ror", [5] = "row_share", [6] = "row_xmask"};
    if (c <= 0xff) {
        sim_put(t, " quad_perm:[%u,%u,%u,%u]", c & 3, c >> 2 & 3, c >> 4 & 3, c >> 6 & 3);
    } else if (c == 0x140 || c == 0x141) {
        sim_put(t, c == 0x140 ? " row_mirror" : " row_half_mirror");
    } else {
        sim_put(t, " %s:%u", names[c >> 4 & 15], c & 15);
    }
}

static void put_dpp(struct sim_text *t, const sim_inst *in)
{
    if (in->dpp == SIM_DPP8) {
        sim_put(t, " dpp8:[");
        for (unsigned i = 0; i < 8; i++) {
            sim_put(t, "%s%u", i ? "," : "", in->dpp8 >> (3 * i) & 7);
        }
        sim_put(t, "]");
    } else {
        put_dpp_ctrl(t, in->dpp_ctrl);
        sim_put(t, " row_mask:0x%x bank_mask:0x%x", in->dpp_row_mask, in->dpp_bank_mask);
        if (in->dpp_bc) {
            sim_put(t, " bound_ctrl:1");
        }
    }
    if (in->dpp_fi) {
        sim_put(t, " fi:1");
    }
}

static void put_vop_name(struct sim_text *t, const sim_inst *in, const struct sim_row *row)
{
    bool three = in->enc == SIM_ENC_VOP3 || in->enc == SIM_ENC_VOP3P;
    const char *suffix = "";
    if (in->dpp) {
        suffix = three ? "_e64_dpp" : in->enc == SIM_ENC_VOPC ? "" : "_dpp";
    } else if (row->suffix) {
        suffix = three ? "_e64" : "_e32";
    }
    sim_put(t, "%s%s", sim_op_name(in->op), suffix);
}

static void disasm_vop(struct sim_text *t, const sim_inst *in)
{
    static const char *const omods[4] = {"", " mul:2", " mul:4", " div:2"};
    const struct sim_row *row = sim_row_of(in->enc, in->opcode);
    if (in->op == SIM_OP_V_ILLEGAL || !row) {
        sim_put(t, "%s", sim_op_name(in->op));
        return;
    }
    const struct sim_fmt *f = sim_fmt_of(row);
    bool first = true, packed = in->enc == SIM_ENC_VOP3P;
    bool compare_exec = (in->enc == SIM_ENC_VOPC && in->opcode >= 128) || (sim_class_of(f->d)->flags & C_IS126);
    put_vop_name(t, in, row);
    for (unsigned i = 0; i < in->ndst; i++) {
        if (!compare_exec && in->dst[i].kind != SIM_K_NONE) {
            put_next(t, &in->dst[i], &first);
        }
    }
    for (unsigned i = 0; i < in->nsrc; i++) {
        sim_opnd o = in->src[i];
        if (packed && f->select != SEL_MIX) { /* modifiers are listed at the end */
            o.mods = 0;
        }
        if (f->select == SEL_MIX && o.kind == SIM_K_LITERAL) { /* spelled as f16 whatever it is read as */
            o.type = SIM_T_F16;
        }
        put_next(t, &o, &first);
    }
    put_select(t, in, f->select, f->show);
    if (packed && f->select != SEL_MIX) {
        unsigned neg = gather(in, SIM_NEG), neg_hi = gather(in, SIM_NEG_HI);
        if (neg) {
            put_list(t, "neg_lo", neg, in->nsrc);
        }
        if (neg_hi) {
            put_list(t, "neg_hi", neg_hi, in->nsrc);
        }
    }
    if (in->clamp) {
        sim_put(t, " clamp");
    }
    sim_put(t, "%s", omods[in->omod]);
    if (in->dpp) {
        put_dpp(t, in);
    }
}

static void disasm_vopd(struct sim_text *t, const sim_inst *in)
{
    for (unsigned i = 0; i < 2; i++) {
        const sim_half *h = &in->half[i];
        bool first = true;
        sim_put(t, "%sv_dual_%s", i ? " :: " : "", sim_op_name(h->op) + 2);
        put_next(t, &h->dst, &first);
        for (unsigned k = 0; k < 3; k++) {
            if (h->src[k].kind != SIM_K_NONE && h->src[k].kind != SIM_K_SREG) {
                put_next(t, &h->src[k], &first);
            } else if (h->src[k].kind == SIM_K_SREG && !(k == 2 && h->op == SIM_OP_V_CNDMASK_B32)) {
                put_next(t, &h->src[k], &first);
            }
        }
    }
}

/* ---- scalar */

static void put_message(struct sim_text *t, unsigned imm)
{
    static const struct {
        uint8_t id;
        const char *name;
    } names[] = {
        {1, "INTERRUPT"},          {2, "HS_TESSFACTOR"},     {3, "DEALLOC_VGPRS"},      {9, "GS_ALLOC_REQ"},
        {128, "RTN_GET_DOORBELL"}, {129, "RTN_GET_DDID"},    {130, "RTN_GET_TMA"},      {131, "RTN_GET_REALTIME"},
        {132, "RTN_SAVE_WAVE"},    {133, "RTN_GET_TBA"},     {134, "RTN_GET_TBA_TO_PC"}, {135, "RTN_GET_SE_AID_ID"},
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (names[i].id == (imm & 255)) {
            sim_put(t, "sendmsg(MSG_%s)", names[i].name);
            return;
        }
    }
    if (imm < 256) {
        sim_put(t, "sendmsg(%u, 0, 0)", imm);
    } else {
        sim_put(t, "%u", imm);
    }
}

static void put_hwreg(struct sim_text *t, unsigned imm)
{
    static const char *const names[33] = {
        [1] = "MODE", [2] = "STATUS", [4] = "STATE_PRIV", [5] = "GPR_ALLOC", [6] = "LDS_ALLOC", [7] = "IB_STS",
        [10] = "PERF_SNAPSHOT_DATA", [11] = "PERF_SNAPSHOT_PC_LO", [12] = "PERF_SNAPSHOT_PC_HI",
        [15] = "PERF_SNAPSHOT_DATA1", [16] = "PERF_SNAPSHOT_DATA2", [17] = "EXCP_FLAG_PRIV", [18] = "EXCP_FLAG_USER",
        [19] = "TRAP_CTRL", [20] = "SCRATCH_BASE_LO", [21] = "SCRATCH_BASE_HI", [23] = "HW_ID1", [24] = "HW_ID2",
        [29] = "SHADER_CYCLES_LO", [30] = "SHADER_CYCLES_HI", [31] = "DVGPR_ALLOC_LO", [32] = "DVGPR_ALLOC_HI",
    };
    unsigned id = imm & 63, offset = imm >> 6 & 31, size = (imm >> 11 & 31) + 1;
    if (id < 33 && names[id]) {
        sim_put(t, "hwreg(HW_REG_%s", names[id]);
    } else {
        sim_put(t, "hwreg(%u", id);
    }
    if (offset != 0 || size != 32) {
        sim_put(t, ", %u, %u", offset, size);
    }
    sim_put(t, ")");
}

static void put_delay_alu(struct sim_text *t, unsigned imm)
{
    static const char *const ids[12] = {"",             "VALU_DEP_1",    "VALU_DEP_2",    "VALU_DEP_3",
                                        "VALU_DEP_4",   "TRANS32_DEP_1", "TRANS32_DEP_2", "TRANS32_DEP_3",
                                        "FMA_ACCUM_CYCLE_1", "SALU_CYCLE_1", "SALU_CYCLE_2",  "SALU_CYCLE_3"};
    static const char *const skips[6] = {"", "NEXT", "SKIP_1", "SKIP_2", "SKIP_3", "SKIP_4"};
    unsigned id0 = imm & 15, skip = imm >> 4 & 7, id1 = imm >> 7 & 15;
    const char *sep = " ";
    if (id0) {
        sim_put(t, "%sinstid0(%s)", sep, ids[id0]);
        sep = " | ";
    }
    if (skip) {
        sim_put(t, "%sinstskip(%s)", sep, skips[skip]);
        sep = " | ";
    }
    if (id1) {
        sim_put(t, "%sinstid1(%s)", sep, ids[id1]);
        sep = " | ";
    }
    if (*sep == ' ' && sep[1] == 0) {
        sim_put(t, " 0");
    }
}

struct field {
    const char *name;
    uint8_t shift, bits;
};

/* Counters whose value is not the greatest; all of them if each is. */
static void put_counters(struct sim_text *t, unsigned imm, const struct field *f, unsigned n)
{
    bool all = true;
    for (unsigned i = 0; i < n; i++) {
        all = all && sim_bits(imm, f[i].shift, f[i].bits) == (1u << f[i].bits) - 1;
    }
    for (unsigned i = 0; i < n; i++) {
        unsigned v = sim_bits(imm, f[i].shift, f[i].bits);
        if (all || v != (1u << f[i].bits) - 1) {
            sim_put(t, " %s(%u)", f[i].name, v);
        }
    }
}

/* Version code in bits 0-7, flags in bits 13-15; the assembler has no words for the others. */
static void put_version(struct sim_text *t, unsigned imm)
{
    static const char *const codes[10] = {[0] = "GFX7", [4] = "GFX10", [6] = "GFX11", [9] = "GFX12"};
    static const char *const flags[3] = {"W64_BIT", "W32_BIT", "MDP_BIT"};
    unsigned code = imm & 255, set = imm >> 13, n = 0;
    if (imm & 0x1f00) {
        sim_put(t, " 0x%x", imm);
        return;
    }
    for (unsigned i = 0; i < 3; i++) {
        n += set >> i & 1;
    }
    sim_put(t, " %.*s", n > 1 ? (int)n - 1 : 0, "((");
    if (code < 10 && codes[code]) {
        sim_put(t, "UC_VERSION_%s", codes[code]);
    } else {
        sim_put(t, "%u", code);
    }
    for (unsigned i = 0, k = 0; i < 3; i++) {
        if (set >> i & 1) {
            k++;
            sim_put(t, "|UC_VERSION_%s%s", flags[i], k < n ? ")" : "");
        }
    }
}

static void disasm_sopp(struct sim_text *t, const sim_inst *in)
{
    static const struct field waits[3] = {{"vmcnt", 10, 6}, {"expcnt", 0, 3}, {"lgkmcnt", 4, 6}};
    static const struct field alu[7] = {{"depctr_hold_cnt", 7, 1}, {"depctr_sa_sdst", 0, 1}, {"depctr_va_vdst", 12, 4},
                                        {"depctr_va_sdst", 9, 3},  {"depctr_va_ssrc", 8, 1}, {"depctr_va_vcc", 1, 1},
                                        {"depctr_vm_vsrc", 2, 3}};
    unsigned imm = (unsigned)in->simm & 0xffff;
    sim_put(t, "%s", sim_op_name(in->op));
    switch (in->op) {
    case SIM_OP_S_WAIT_IDLE:
    case SIM_OP_S_CODE_END:
    case SIM_OP_S_ENDPGM_SAVED:
    case SIM_OP_S_WAKEUP:
    case SIM_OP_S_TTRACEDATA:
    case SIM_OP_S_ICACHE_INV:
        return;
    case SIM_OP_S_ENDPGM:
        if (imm) {
            sim_put(t, " %u", imm);
        }
        return;
    case SIM_OP_S_DELAY_ALU:
        put_delay_alu(t, imm);
        return;
    case SIM_OP_S_WAITCNT:
        put_counters(t, imm, waits, 3);
        return;
    case SIM_OP_S_WAIT_ALU:
        if (imm & 0x60) {
            sim_put(t, " 0x%x", imm);
        } else {
            put_counters(t, imm, alu, 7);
        }
        return;
    case SIM_OP_S_SENDMSG:
    case SIM_OP_S_SENDMSGHALT:
        sim_put(t, " ");
        put_message(t, imm);
        return;
    default:
        break;
    }
    if (in->opcode >= 0x20 && in->opcode <= 0x2f) { /* branches */
        sim_put(t, " %u", imm);
        return;
    }
    switch (in->op) {
    case SIM_OP_S_NOP:
    case SIM_OP_S_SETKILL:
    case SIM_OP_S_SETHALT:
    case SIM_OP_S_SLEEP:
    case SIM_OP_S_TRAP:
    case SIM_OP_S_DENORM_MODE:
    case SIM_OP_S_BARRIER_WAIT:
    case SIM_OP_S_SETPRIO:
    case SIM_OP_S_INCPERFLEVEL:
    case SIM_OP_S_DECPERFLEVEL:
        sim_put(t, imm <= 64 ? " %u" : " 0x%x", imm);
        return;
    default:
        sim_put(t, " 0x%x", imm);
    }
}

static void disasm_sopk(struct sim_text *t, const sim_inst *in)
{
    unsigned imm = (unsigned)in->simm & 0xffff;
    bool first = true;
    sim_put(t, "%s", sim_op_name(in->op));
    switch (in->op) {
    case SIM_OP_S_VERSION:
        put_version(t, imm);
        break;
    case SIM_OP_S_GETREG_B32:
        put_next(t, &in->dst[0], &first);
        sim_put(t, ", ");
        put_hwreg(t, imm);
        break;
    case SIM_OP_S_SETREG_B32:
    case SIM_OP_S_SETREG_IMM32_B32:
        sim_put(t, " ");
        put_hwreg(t, imm);
        sim_put(t, ", ");
        sim_put_opnd(t, &in->src[0]);
        break;
    case SIM_OP_S_CALL_B64:
        put_next(t, &in->dst[0], &first);
        sim_put(t, ", %u", imm);
        break;
    default:
        put_next(t, &in->dst[0], &first);
        sim_put(t, ", 0x%x", imm);
    }
}

static void disasm_sop(struct sim_text *t, const sim_inst *in)
{
    bool first = true;
    sim_put(t, "%s", sim_op_name(in->op));
    for (unsigned i = 0; i < in->ndst; i++) {
        put_next(t, &in->dst[i], &first);
    }
    for (unsigned i = 0; i < in->nsrc; i++) {
        put_next(t, &in->src[i], &first);
    }
    if (in->op == SIM_OP_S_SENDMSG_RTN_B32 || in->op == SIM_OP_S_SENDMSG_RTN_B64) {
        sim_put(t, ", ");
        put_message(t, (unsigned)in->simm);
    }
}

int sim_disasm(const sim_inst *in, uint64_t pc, char *buf, size_t n)
{
    struct sim_text t = {buf, n, 0};
    (void)pc;
    if (n) {
        buf[0] = 0;
    }
    switch (in->enc) {
    case SIM_ENC_SOP1:
    case SIM_ENC_SOP2:
    case SIM_ENC_SOPC:
        disasm_sop(&t, in);
        break;
    case SIM_ENC_SOPK:
        disasm_sopk(&t, in);
        break;
    case SIM_ENC_SOPP:
        disasm_sopp(&t, in);
        break;
    case SIM_ENC_VOP1:
    case SIM_ENC_VOP2:
    case SIM_ENC_VOPC:
    case SIM_ENC_VOP3:
    case SIM_ENC_VOP3P:
        disasm_vop(&t, in);
        break;
    case SIM_ENC_VOPD:
        disasm_vopd(&t, in);
        break;
    case SIM_ENC_SMEM:
    case SIM_ENC_DS:
    case SIM_ENC_FLAT:
    case SIM_ENC_SCRATCH:
    case SIM_ENC_GLOBAL:
    case SIM_ENC_VBUFFER:
        sim_disasm_mem(&t, in);
        break;
    default:
        sim_disasm_gfx(&t, in);
    }
    return (int)t.n;
}
