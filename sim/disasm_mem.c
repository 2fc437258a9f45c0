/* Text of the memory encodings: SMEM, DS, FLAT / GLOBAL / SCRATCH, VBUFFER. */
#include "decode.h"

/* Temporal hint and scope. Two hints of loads and stores change their name at system scope, cascading ones exist from device
 * scope on. */
void sim_put_policy(struct sim_text *t, const sim_inst *in, unsigned kind)
{
    static const char *const loads[8] = {NULL, "NT", "HT", "LU", "NT_RT", "RT_NT", "NT_HT", NULL};
    static const char *const stores[8] = {NULL, "NT", "HT", "WB", "NT_RT", "RT_NT", "NT_HT", "NT_WB"};
    static const char *const atomics[8] = {NULL,         "RETURN",     "NT",         "NT_RETURN",
                                           "CASCADE_RT", "CASCADE_RT", "CASCADE_NT", "CASCADE_NT"};
    static const char *const scopes[4] = {"", "SE", "DEV", "SYS"};
    unsigned th = in->th;
    if (th && kind & M_ATOMIC) {
        if (th >= 4 && in->scope < 2) {
            sim_put(t, " th:TH_ATOMIC_0x%x", th);
        } else {
            sim_put(t, " th:TH_ATOMIC_%s", atomics[th]);
        }
    } else if (th) {
        const char *name = kind & M_STORE ? stores[th] : loads[th];
        if (!name) {
            sim_put(t, " th:0x%x", th);
        } else {
            sim_put(t, " th:TH_%s_%s", kind & M_STORE ? "STORE" : "LOAD", th == 3 && in->scope == 3 ? "BYPASS" : name);
        }
    }
    if (in->scope) {
        sim_put(t, " scope:SCOPE_%s", scopes[in->scope]);
    }
}

static void put_next(struct sim_text *t, const sim_opnd *o, bool *first)
{
    if (o->kind != SIM_K_NONE) {
        sim_put(t, *first ? " " : ", ");
        *first = false;
        sim_put_opnd(t, o);
    }
}

static void put_or_off(struct sim_text *t, const sim_opnd *o, bool *first)
{
    if (o->kind != SIM_K_NONE) {
        put_next(t, o, first);
    } else {
        sim_put(t, *first ? " off" : ", off");
        *first = false;
    }
}

static void put_hex(struct sim_text *t, int32_t v)
{
    sim_put(t, v < 0 ? "-0x%x" : "0x%x", v < 0 ? 0u - (unsigned)v : (unsigned)v);
}

static void disasm_smem(struct sim_text *t, const sim_inst *in, unsigned flags)
{
    bool first = true;
    if (flags & M_BARE) {
        return;
    }
    if (flags & M_PROBE) {
        sim_put(t, " %d", in->simm);
        first = false;
    }
    put_next(t, &in->data_dst, &first);
    put_next(t, &in->saddr, &first);
    if (flags & M_PREFETCH) {
        sim_put(t, first ? " " : ", ");
        put_hex(t, in->offset);
        sim_put(t, ", ");
        sim_put_opnd(t, &in->soffset);
        sim_put(t, ", %d", in->simm);
        return;
    }
    sim_put(t, ", ");
    if (in->soffset.kind == SIM_K_NONE) {
        put_hex(t, in->offset);
    } else {
        sim_put_opnd(t, &in->soffset);
        if (in->offset) {
            sim_put(t, " offset:");
            put_hex(t, in->offset);
        }
    }
    if (!(flags & M_PROBE)) {
        sim_put_policy(t, in, M_LOAD);
    }
}

/* ds_swizzle's offset is a pattern: lane i reads lane ((i & and) | or) ^ xor, for which the assembler has words. */
static void put_bitmask_swizzle(struct sim_text *t, unsigned v)
{
    unsigned keep = v & 31, set = v >> 5 & 31, flip = v >> 10 & 31, group = 32 - keep;
    if (keep == 31 && set == 0 && flip && !(flip & (flip - 1))) {
        sim_put(t, "SWAP,%u", flip);
    } else if (keep == 31 && set == 0 && flip && !(flip & (flip + 1))) {
        sim_put(t, "REVERSE,%u", flip + 1);
    } else if (group > 1 && !(group & (group - 1)) && set < group && flip == 0) {
        sim_put(t, "BROADCAST,%u,%u", group, set);
    } else {
        unsigned low = set ^ flip, high = (keep | set) ^ flip; /* where lanes 0 and 31 read */
        sim_put(t, "BITMASK_PERM,\"");
        for (unsigned b = 16; b; b >>= 1) {
            sim_put(t, "%c", (low & b) == (high & b) ? (low & b ? '1' : '0') : (low & b ? 'i' : 'p'));
        }
        sim_put(t, "\"");
    }
}

static void put_swizzle(struct sim_text *t, unsigned v)
{
    if ((v & 0xff00) == 0x8000) {
        sim_put(t, " offset:swizzle(QUAD_PERM,%u,%u,%u,%u)", v & 3, v >> 2 & 3, v >> 4 & 3, v >> 6 & 3);
    } else if (v >= 0xe000) {
        sim_put(t, " offset:swizzle(FFT,%u)", v & 31);
    } else if (v >= 0xc000) {
        sim_put(t, " offset:swizzle(ROTATE,%u,%u)", v >> 10 & 1, v >> 5 & 31);
    } else if (v & 0x8000) {
        sim_put(t, " offset:%u", v);
    } else {
        sim_put(t, " offset:swizzle(");
        put_bitmask_swizzle(t, v);
        sim_put(t, ")");
    }
}

static void disasm_ds(struct sim_text *t, const sim_inst *in, unsigned flags)
{
    bool first = true;
    put_next(t, &in->data_dst, &first);
    put_next(t, &in->vaddr, &first);
    put_next(t, &in->data, &first);
    put_next(t, &in->data1, &first);
    if (flags & M_TWO) {
        if (in->offset) {
            sim_put(t, " offset0:%d", in->offset);
        }
        if (in->offset1) {
            sim_put(t, " offset1:%d", in->offset1);
        }
    } else if (in->offset && in->op == SIM_OP_DS_SWIZZLE_B32) {
        put_swizzle(t, (unsigned)in->offset);
    } else if (in->offset) {
        sim_put(t, " offset:%d", in->offset);
    }
}

static void disasm_flat(struct sim_text *t, const sim_inst *in, unsigned flags)
{
    bool first = true;
    if (!(flags & M_BARE)) {
        put_next(t, &in->data_dst, &first);
        if (!(flags & M_NOADDR)) {
            put_or_off(t, &in->vaddr, &first);
        }
        put_next(t, &in->data, &first);
        if (in->enc != SIM_ENC_FLAT) {
            put_or_off(t, &in->saddr, &first);
        }
        if (in->offset) {
            sim_put(t, " offset:%d", in->offset);
        }
    }
    sim_put_policy(t, in, flags);
}

static void put_format(struct sim_text *t, unsigned f)
{
    static const char *const names[64] = {
        "INVALID", NULL, "8_SNORM", "8_USCALED", "8_SSCALED", "8_UINT", "8_SINT", "16_UNORM", "16_SNORM", "16_USCALED",
        "16_SSCALED", "16_UINT", "16_SINT", "16_FLOAT", "8_8_UNORM", "8_8_SNORM", "8_8_USCALED", "8_8_SSCALED",
        "8_8_UINT", "8_8_SINT", "32_UINT", "32_SINT", "32_FLOAT", "16_16_UNORM", "16_16_SNORM", "16_16_USCALED",
        "16_16_SSCALED", "16_16_UINT", "16_16_SINT", "16_16_FLOAT", "10_11_11_FLOAT", "11_11_10_FLOAT",
        "10_10_10_2_UNORM", "10_10_10_2_SNORM", "10_10_10_2_UINT", "10_10_10_2_SINT", "2_10_10_10_UNORM",
        "2_10_10_10_SNORM", "2_10_10_10_USCALED", "2_10_10_10_SSCALED", "2_10_10_10_UINT", "2_10_10_10_SINT",
        "8_8_8_8_UNORM", "8_8_8_8_SNORM", "8_8_8_8_USCALED", "8_8_8_8_SSCALED", "8_8_8_8_UINT", "8_8_8_8_SINT",
        "32_32_UINT", "32_32_SINT", "32_32_FLOAT", "16_16_16_16_UNORM", "16_16_16_16_SNORM", "16_16_16_16_USCALED",
        "16_16_16_16_SSCALED", "16_16_16_16_UINT", "16_16_16_16_SINT", "16_16_16_16_FLOAT", "32_32_32_UINT",
        "32_32_32_SINT", "32_32_32_FLOAT", "32_32_32_32_UINT", "32_32_32_32_SINT", "32_32_32_32_FLOAT",
    };
    if (f >= 64) {
        sim_put(t, " format:%u", f);
    } else if (f != 1) { /* 8_UNORM is the assembler's default */
        sim_put(t, " format:[BUF_FMT_%s]", names[f]);
    }
}

static void disasm_vbuffer(struct sim_text *t, const sim_inst *in, unsigned flags)
{
    bool first = true;
    put_next(t, in->data_dst.kind != SIM_K_NONE ? &in->data_dst : &in->data, &first);
    put_or_off(t, &in->vaddr, &first);
    put_next(t, &in->saddr, &first);
    put_next(t, &in->soffset, &first);
    if (flags & M_TYPED) {
        put_format(t, in->format);
    }
    if (in->idxen) {
        sim_put(t, " idxen");
    }
    if (in->offen) {
        sim_put(t, " offen");
    }
    if (in->offset) {
        sim_put(t, " offset:%d", in->offset);
    }
    sim_put_policy(t, in, flags);
    if (in->tfe) {
        sim_put(t, " tfe");
    }
}

void sim_disasm_mem(struct sim_text *t, const sim_inst *in)
{
    const struct sim_mrow *row = sim_mrow_of(in->enc, in->opcode);
    unsigned flags = row ? row->flags : 0;
    sim_put(t, "%s", sim_op_name(in->op));
    switch (in->enc) {
    case SIM_ENC_SMEM:
        disasm_smem(t, in, flags);
        break;
    case SIM_ENC_DS:
        disasm_ds(t, in, flags);
        break;
    case SIM_ENC_VBUFFER:
        disasm_vbuffer(t, in, flags);
        break;
    default:
        disasm_flat(t, in, flags);
    }
}
