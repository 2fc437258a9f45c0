/* The generated tables and their look-up. */
#include "decode.h"

#include "isa_rows.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

const struct sim_field_class *sim_class_of(unsigned index)
{
    return &classes[index];
}

const struct sim_fmt *sim_fmt_of(const struct sim_row *row)
{
    return &fmts[row->fmt];
}

const struct sim_row *sim_row_of(unsigned enc, unsigned opcode)
{
    static const struct {
        const struct sim_row *rows;
        size_t n;
    } tables[SIM_ENC_COUNT] = {
        [SIM_ENC_SOP1] = {rows_sop1, COUNT(rows_sop1)},    [SIM_ENC_SOP2] = {rows_sop2, COUNT(rows_sop2)},
        [SIM_ENC_SOPC] = {rows_sopc, COUNT(rows_sopc)},    [SIM_ENC_VOP1] = {rows_vop1, COUNT(rows_vop1)},
        [SIM_ENC_VOP2] = {rows_vop2, COUNT(rows_vop2)},    [SIM_ENC_VOPC] = {rows_vopc, COUNT(rows_vopc)},
        [SIM_ENC_VOP3] = {rows_vop3, COUNT(rows_vop3)},    [SIM_ENC_VOP3P] = {rows_vop3p, COUNT(rows_vop3p)},
    };
    if (enc >= SIM_ENC_COUNT || opcode >= tables[enc].n || !tables[enc].rows[opcode].op) {
        return NULL;
    }
    return &tables[enc].rows[opcode];
}

const struct sim_mrow *sim_mrow_of(unsigned enc, unsigned opcode)
{
    static const struct {
        const struct sim_mrow *rows;
        size_t n;
    } tables[SIM_ENC_COUNT] = {
        [SIM_ENC_SOPK] = {mrows_sopk, COUNT(mrows_sopk)},
        [SIM_ENC_SOPP] = {mrows_sopp, COUNT(mrows_sopp)},
        [SIM_ENC_SMEM] = {mrows_smem, COUNT(mrows_smem)},
        [SIM_ENC_DS] = {mrows_ds, COUNT(mrows_ds)},
        [SIM_ENC_FLAT] = {mrows_flat, COUNT(mrows_flat)},
        [SIM_ENC_SCRATCH] = {mrows_scratch, COUNT(mrows_scratch)},
        [SIM_ENC_GLOBAL] = {mrows_global, COUNT(mrows_global)},
        [SIM_ENC_VBUFFER] = {mrows_vbuffer, COUNT(mrows_vbuffer)},
        [SIM_ENC_VIMAGE] = {mrows_vimage, COUNT(mrows_vimage)},
        [SIM_ENC_VSAMPLE] = {mrows_vsample, COUNT(mrows_vsample)},
        [SIM_ENC_VINTERP] = {mrows_vinterp, COUNT(mrows_vinterp)},
        [SIM_ENC_VDSDIR] = {mrows_vdsdir, COUNT(mrows_vdsdir)},
    };
    if (enc >= SIM_ENC_COUNT || opcode >= tables[enc].n || !tables[enc].rows[opcode].op) {
        return NULL;
    }
    return &tables[enc].rows[opcode];
}

const struct sim_mrow *sim_vopd_row(unsigned half, unsigned opcode)
{
    size_t n = half ? COUNT(mrows_vopdy) : COUNT(mrows_vopdx);
    const struct sim_mrow *rows = half ? mrows_vopdy : mrows_vopdx;
    return opcode < n && rows[opcode].op ? &rows[opcode] : NULL;
}

const char *sim_op_name(unsigned op)
{
    static const char *const names[] = {
        [SIM_OP_NONE] = "?",
#define SIM_OP(id, text) [SIM_OP_##id] = text,
#include "isa_ops.h"
#undef SIM_OP
    };
    return op < SIM_OP_COUNT ? names[op] : "?";
}
