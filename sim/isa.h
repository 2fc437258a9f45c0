/* The gfx12.0.1 instruction set as data: one enum value per mnemonic, one struct per decoded instruction.
 *
 * A decoded instruction is complete: execution needs neither the words nor the encoding's rules. Constants are
 * already widened to the bits that the operation reads, implicit operands (VCC) are listed, modifiers sit at the
 * operand they act on. What the tables do not know, decoding refuses.
 *
 * Wave32 throughout: a mask operand (VCC, EXEC, carry, compare result) is one dword. */
#ifndef SIM_ISA_H
#define SIM_ISA_H

#include <stddef.h>
#include <stdint.h>

/* SIM_OP_<MNEMONIC>, without the encoding's suffix: v_add_f32_e32, _e64 and _dpp are all SIM_OP_V_ADD_F32. */
enum sim_op {
    SIM_OP_NONE,
#define SIM_OP(id, text) SIM_OP_##id,
#include "isa_ops.h"
#undef SIM_OP
    SIM_OP_COUNT
};

enum sim_enc {
    SIM_ENC_NONE,
    SIM_ENC_SOP1, SIM_ENC_SOP2, SIM_ENC_SOPC, SIM_ENC_SOPK, SIM_ENC_SOPP, SIM_ENC_SMEM,
    SIM_ENC_VOP1, SIM_ENC_VOP2, SIM_ENC_VOPC,  /* one dword, or two with a literal or DPP */
    SIM_ENC_VOP3,                              /* three-source form, compares included; with sdst (VOP3SD): dst[1] is set */
    SIM_ENC_VOP3P,                             /* packed, dot, WMMA */
    SIM_ENC_VOPD,                              /* two operations at once: half[0], half[1]; op is half[0].op */
    SIM_ENC_VINTERP, SIM_ENC_VDSDIR, SIM_ENC_EXP,
    SIM_ENC_DS, SIM_ENC_FLAT, SIM_ENC_SCRATCH, SIM_ENC_GLOBAL,
    SIM_ENC_VBUFFER, SIM_ENC_VIMAGE, SIM_ENC_VSAMPLE,
    SIM_ENC_COUNT
};

enum sim_kind {
    SIM_K_NONE,    /* operand absent (for an address or offset: "off") */
    SIM_K_SREG,    /* scalar register, reg = operand code 0..127: s0..s105, then the SIM_S_* below */
    SIM_K_VGPR,    /* v[reg .. reg + ndw - 1] */
    SIM_K_CONST,   /* imm holds the value as the operation reads it; from an inline constant, reg = its code */
    SIM_K_LITERAL, /* the same, from a literal dword; reg = 255, or 0 for the K of fmaak / fmamk and s_setreg_imm32 */
    SIM_K_SPECIAL  /* read-only source, reg = SIM_R_* below */
};

/* Operand codes of scalar registers with a name. */
enum {
    SIM_S_VCC_LO = 106, SIM_S_VCC_HI = 107, SIM_S_TTMP0 = 108, SIM_S_NULL = 124, SIM_S_M0 = 125, SIM_S_EXEC_LO = 126,
    SIM_S_EXEC_HI = 127
};
/* Operand codes of special sources. */
enum {
    SIM_R_SHARED_BASE = 235, SIM_R_SHARED_LIMIT = 236, SIM_R_PRIVATE_BASE = 237, SIM_R_PRIVATE_LIMIT = 238,
    SIM_R_POPS_EXITING_WAVE_ID = 239, SIM_R_VCCZ = 251, SIM_R_EXECZ = 252, SIM_R_SCC = 253
};

/* How an operand's constants are read, and how its bits are meant. */
enum sim_type {
    SIM_T_B32, SIM_T_F32, SIM_T_B16, SIM_T_F16, SIM_T_BF16, SIM_T_B64, SIM_T_I64, SIM_T_F64,
    SIM_T_PK_B16, SIM_T_PK_F16, SIM_T_PK_BF16, /* two 16-bit values in a dword */
    SIM_T_COUNT
};

/* sim_opnd.mods. VOP3P: NEG and HI act on the value used for the low result, NEG_HI and HI_HI for the high one
 * (HI_HI clear: the high result reads the low half). Of dot4 / dot8 / WMMA iu forms, NEG says "signed". */
enum {
    SIM_NEG = 1, SIM_ABS = 2,
    SIM_HI = 4,     /* op_sel: a 16-bit source's (or destination's) high half */
    SIM_NEG_HI = 8, SIM_HI_HI = 16
};

typedef struct sim_opnd {
    uint8_t kind;  /* enum sim_kind */
    uint8_t ndw;   /* width in dwords; 16-bit values: 1 */
    uint8_t type;  /* enum sim_type */
    uint8_t mods;
    uint16_t reg;
    uint64_t imm;
} sim_opnd;

/* One half of a VOPD. Both halves read all sources before either writes. */
typedef struct sim_half {
    uint16_t op; /* the operation of the single form: SIM_OP_V_ADD_F32 for v_dual_add_f32 */
    sim_opnd dst;
    sim_opnd src[3]; /* as in the single form: fmaak's K is src[2], fmamk's K is src[1], cndmask's VCC is src[2] */
} sim_half;

enum sim_dpp { SIM_DPP_NONE, SIM_DPP8, SIM_DPP16 };

typedef struct sim_inst {
    uint16_t op;      /* enum sim_op */
    uint16_t opcode;  /* the encoding's opcode field (VOPD: opx) */
    uint8_t enc;      /* enum sim_enc */
    uint8_t ndw;      /* dwords used: 1..4 */
    uint8_t nsrc;     /* sources in use */
    uint8_t ndst;
    uint32_t words[4];

    /* ALU and scalar operands. dst[1]: the carry or scale mask of VOP3SD (and VCC of v_add_co_ci e32). Compares
     * write dst[0] = an SREG (VCC in VOPC); v_cmpx has dst[0] = EXEC_LO. src[2] of cndmask and add_co_ci: the mask. */
    sim_opnd dst[2];
    sim_opnd src[4];  /* fmaak: src0, src1, K; fmamk: src0, K, src1 */

    /* Modifiers of the result. */
    uint8_t clamp;    /* VOP3 / VOP3P clamp ("clmp") bit */
    uint8_t omod;     /* 0 none, 1 *2, 2 *4, 3 /2 */
    uint8_t byte_sel; /* v_cvt_f32_fp8 / bf8: source byte; v_cvt_sr_fp8 / bf8: destination byte; v_swmmac: index_key */
    uint8_t odd;      /* assembler text exists, but the instruction has bits or operands that the ISA gives no meaning
                       * (a scalar where only a VGPR can be, op_sel of a 32-bit operation): do not execute it */

    /* DPP acts on src[0]. dpp8: 8 selectors of 3 bits, lane 0 lowest. dpp_ctrl: 9 bits as encoded. */
    uint8_t dpp;      /* enum sim_dpp */
    uint8_t dpp_fi, dpp_bc, dpp_row_mask, dpp_bank_mask;
    uint16_t dpp_ctrl;
    uint32_t dpp8;

    /* SOPP / SOPK: the 16-bit immediate, sign-extended where the operation does so. Branches: offset in dwords from
     * the next instruction. */
    int32_t simm;

    /* Memory. loads and returning atomics write `data_dst`; stores and atomics read `data` (DS: also `data1`).
     *  SMEM: saddr = sbase (ndw 2, or 4 for a buffer), soffset, offset; data_dst = sdata (an SREG).
     *        Prefetches: data = the length's register or offset, simm = the length immediate.
     *  DS: vaddr (1 dword), offset = 16-bit offset; two-address forms: offset = offset0, offset1 = offset1 (in elements).
     *  FLAT: vaddr (2), GLOBAL: vaddr (2) or vaddr (1) + saddr (2), SCRATCH: vaddr and / or saddr of 1 dword or none.
     *  VBUFFER: vaddr by offen / idxen, saddr = resource (4), soffset, offset. */
    sim_opnd data_dst, data, data1, vaddr, saddr, soffset;
    int32_t offset, offset1;
    uint8_t th;       /* temporal hint as encoded (3 bits); atomics: bit 0 = return the old value */
    uint8_t scope;    /* 0 CU, 1 SE, 2 DEV, 3 SYS */
    uint8_t offen, idxen, tfe, format;

    /* VOPD. */
    sim_half half[2];

    /* Graphics encodings (decoded for their text; not executed): raw fields. */
    uint32_t gfx[8];
} sim_inst;

/* Decodes one instruction from words[0 .. n_words). Returns the dwords used (1..4), or 0 when the words are no instruction
 * of gfx1201 or are cut short; *out is then unspecified. */
int sim_decode(const uint32_t *words, size_t n_words, sim_inst *out);

/* Writes the instruction's text as an assembler would read it, NUL-terminated and cut to n bytes; returns the full
 * length. Branch targets print as the immediate, so pc does not change the text of any instruction today; it is the
 * instruction's address in bytes. */
int sim_disasm(const sim_inst *in, uint64_t pc, char *buf, size_t n);

/* The mnemonic of an operation ("v_add_f32"), or "?" out of range. */
const char *sim_op_name(unsigned op);

#endif
