/* Decoder of the memory encodings: SMEM, DS, FLAT / GLOBAL / SCRATCH, VBUFFER. */
#include "decode.h"

static int32_t sign_extend(uint32_t v, unsigned bits)
{
    return (int32_t)(v << (32 - bits)) >> (32 - bits);
}

/* A VGPR operand of ndw dwords; none if ndw is 0. */
static bool vgpr_or_none(sim_opnd *o, unsigned reg, unsigned ndw)
{
    return ndw == 0 || sim_vgpr(o, reg, ndw);
}

/* Scalar loads write neither m0 nor exec; the assembler knows no three-dword ttmp. */
static bool smem_data(sim_opnd *o, unsigned reg, unsigned ndw)
{
    return reg <= SIM_S_NULL && !(ndw == 3 && reg >= SIM_S_VCC_LO && reg < SIM_S_NULL) && sim_sreg(o, reg, ndw);
}

static bool decode_smem(const uint32_t *w, const struct sim_mrow *row, sim_inst *in)
{
    unsigned sdata = sim_bits(w[0], 6, 7), soffset = sim_bits(w[1], 25, 7);
    in->scope = (uint8_t)sim_bits(w[0], 21, 2);
    in->th = (uint8_t)sim_bits(w[0], 23, 2);
    if (row->flags & M_BARE) {
        return true;
    }
    in->offset = sign_extend(sim_bits(w[1], 0, 24), 24);
    if (row->addr && !sim_sreg(&in->saddr, sim_bits(w[0], 0, 6) << 1, row->addr)) {
        return false;
    }
    if (row->flags & (M_PREFETCH | M_PROBE)) { /* a length of 5 bits instead of a register */
        in->simm = (int32_t)sdata;
        if (sdata > 31) {
            return false;
        }
    } else if (!smem_data(&in->data_dst, sdata, row->dst)) {
        return false;
    }
    /* "no register" is null; a prefetch spells it out */
    if (soffset == SIM_S_NULL && !(row->flags & M_PREFETCH)) {
        return true;
    }
    return sim_sreg(&in->soffset, soffset, 1);
}

static bool decode_ds(const uint32_t *w, const struct sim_mrow *row, sim_inst *in)
{
    unsigned f[4] = {sim_bits(w[1], 0, 8), sim_bits(w[1], 8, 8), sim_bits(w[1], 16, 8), sim_bits(w[1], 24, 8)};
    if (sim_bits(w[0], 17, 1)) {
        return false;
    }
    if ((!row->addr && f[0]) || (!row->data && f[1]) || (!row->data1 && f[2]) || (!row->dst && f[3])) {
        return false;
    }
    if (row->flags & M_TWO) {
        in->offset = (int32_t)sim_bits(w[0], 0, 8);
        in->offset1 = (int32_t)sim_bits(w[0], 8, 8);
    } else {
        in->offset = (int32_t)sim_bits(w[0], 0, 16);
        if (!(row->flags & M_OFFSET) && in->offset) {
            return false;
        }
    }
    return vgpr_or_none(&in->vaddr, f[0], row->addr) && vgpr_or_none(&in->data, f[1], row->data) &&
           vgpr_or_none(&in->data1, f[2], row->data1) && vgpr_or_none(&in->data_dst, f[3], row->dst);
}

static bool flat_address(const uint32_t *w, const struct sim_mrow *row, sim_inst *in)
{
    unsigned saddr = sim_bits(w[0], 0, 7), sve = sim_bits(w[1], 17, 1), vaddr = sim_bits(w[2], 0, 8);
    bool none = saddr == SIM_S_NULL;
    if (in->enc == SIM_ENC_SCRATCH) {
        return (none || (saddr != SIM_S_EXEC_HI && sim_sreg(&in->saddr, saddr, 1))) && (!sve || sim_vgpr(&in->vaddr, vaddr, 1));
    }
    if (sve || (in->enc == SIM_ENC_FLAT && !none)) {
        return false;
    }
    if (!none && ((saddr == SIM_S_EXEC_LO && !(row->flags & M_NOADDR)) || !sim_sreg(&in->saddr, saddr, 2))) {
        return false;
    }
    return (row->flags & M_NOADDR) || sim_vgpr(&in->vaddr, vaddr, none ? 2 : 1);
}

static bool decode_flat(const uint32_t *w, const struct sim_mrow *row, sim_inst *in)
{
    in->scope = (uint8_t)sim_bits(w[1], 18, 2);
    in->th = (uint8_t)sim_bits(w[1], 20, 3);
    if (row->flags & M_BARE) {
        return sim_bits(w[0], 0, 7) == SIM_S_NULL && !sim_bits(w[1], 17, 1);
    }
    in->offset = sign_extend(w[2] >> 8, 24);
    unsigned dst = row->flags & M_ATOMIC && !(in->th & 1) ? 0 : row->dst;
    return flat_address(w, row, in) && vgpr_or_none(&in->data, sim_bits(w[1], 23, 8), row->data) &&
           vgpr_or_none(&in->data_dst, sim_bits(w[1], 0, 8), dst);
}

static bool decode_vbuffer(const uint32_t *w, const struct sim_mrow *row, sim_inst *in)
{
    in->scope = (uint8_t)sim_bits(w[1], 18, 2);
    in->th = (uint8_t)sim_bits(w[1], 20, 3);
    in->offen = (uint8_t)sim_bits(w[1], 30, 1);
    in->idxen = (uint8_t)sim_bits(w[1], 31, 1);
    in->tfe = (uint8_t)sim_bits(w[0], 22, 1);
    in->format = row->flags & M_TYPED ? (uint8_t)sim_bits(w[1], 23, 7) : 0;
    in->offset = sign_extend(w[2] >> 8, 24);
    if (in->tfe && !(row->flags & M_TFE)) {
        return false;
    }
    unsigned reg = sim_bits(w[1], 0, 8), n = row->dst + in->tfe;
    bool returns = row->flags & M_LOAD || (row->flags & M_ATOMIC && in->th & 1);
    bool ok = sim_vgpr(returns ? &in->data_dst : &in->data, reg, n);
    if (row->flags & M_ATOMIC && returns) { /* the same registers give the operand and take the old value */
        in->data = in->data_dst;
    }
    unsigned naddr = in->offen + in->idxen;
    return ok && sim_sreg(&in->saddr, sim_bits(w[1], 9, 9), 4) && sim_sreg(&in->soffset, sim_bits(w[0], 0, 7), 1) &&
           vgpr_or_none(&in->vaddr, sim_bits(w[2], 0, 8), naddr);
}

bool sim_decode_mem(struct sim_words *ws, sim_inst *in)
{
    const struct sim_mrow *row = sim_mrow_of(in->enc, in->opcode);
    if (!row) {
        return false;
    }
    in->op = row->op;
    switch (in->enc) {
    case SIM_ENC_SMEM:
        return decode_smem(ws->w, row, in);
    case SIM_ENC_DS:
        return decode_ds(ws->w, row, in);
    case SIM_ENC_VBUFFER:
        return decode_vbuffer(ws->w, row, in);
    default:
        return decode_flat(ws->w, row, in);
    }
}
