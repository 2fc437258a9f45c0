/* Private to the decoder and the disassembler: tables made by tools/sim_gen_isa.py and the helpers that both use. */
#ifndef SIM_DECODE_H
#define SIM_DECODE_H

#include <stdbool.h>

#include "isa.h"

/* What an operand field takes. The values are also in tools/sim_gen_isa.py. */
enum {
    C_SREG = 1,       /* scalar registers 0..124: s, vcc, ttmp, null; aligned to their width (at most 4) */
    C_M0 = 2,         /* code 125 */
    C_EXEC = 4,       /* codes 126, 127 */
    C_NULL = 8,       /* code 124 alone, where C_SREG is not set */
    C_CONST = 16,     /* inline constants */
    C_LIT = 32,       /* a literal dword */
    C_SPEC = 64,      /* codes 235..239, 251..253 */
    C_LDS = 128,      /* code 254, lds_direct */
    C_VGPR = 256,     /* 256.. (in 8-bit fields: 0..) */
    C_LO128 = 512,    /* of these v0..v127 only */
    C_ABSENT = 1024,  /* no operand; the field must be 0 */
    C_IGNORED = 2048, /* with C_ABSENT: any value */
    C_IS126 = 4096    /* with C_ABSENT: must be EXEC */
};

struct sim_field_class {
    uint16_t flags;
    uint8_t ndw;
    uint8_t type; /* enum sim_type */
};

/* How op_sel bits are spelled, and what they mean. */
enum sim_select { SEL_NONE, SEL_LIST, SEL_TWO, SEL_BYTE01, SEL_BYTE23, SEL_INDEX_KEY, SEL_PACKED, SEL_MIX };

/* A DPP form of an operation: for VOP1, VOP2, VOPC `allow` has the four bits neg0, abs0, neg1, abs1; for VOP3 and VOP3P it is
 * as in sim_fmt, and s1, s2 are the classes of the other sources. */
struct sim_form {
    uint8_t ok, s1, s2;
    uint16_t allow, show;
};

/* Operand list of an opcode. Modifier bits: 0-2 abs or neg_hi, 3-6 op_sel (VOP3P: 6 is op_sel_hi of src2), 7 clamp,
 * 8-9 omod (VOP3P: op_sel_hi of src0, src1), 10-12 neg. A bit outside `allow` must equal the one in `must`; a bit of `allow`
 * outside `show` has no effect that the assembler knows. */
struct sim_fmt {
    uint8_t d, d1, s0, s1, s2;
    uint16_t allow, show, must;
    uint8_t select;
    struct sim_form dpp16, dpp8;
};

struct sim_row {
    uint16_t op;
    uint8_t fmt;
    uint8_t suffix; /* the text has _e32 or _e64 */
};

enum {
    M_LOAD = 1, M_STORE = 2, M_ATOMIC = 4, M_NOADDR = 8, M_BARE = 16, M_TWO = 32, M_OFFSET = 64, M_PREFETCH = 128, M_PROBE = 256,
    M_TYPED = 512, M_TFE = 1024
};

/* A memory opcode: widths in dwords of the result, data, second data and address; M_* flags. */
struct sim_mrow {
    uint16_t op;
    uint8_t dst, data, data1, addr;
    uint16_t flags;
};

/* Words being decoded; extra is the number of dwords after the encoding's own (DPP, literal) taken so far. */
struct sim_words {
    const uint32_t *w;
    size_t n;
    unsigned own, extra;
    bool has_literal, bad;
    uint32_t literal;
};

/* Tables (decode_tables.c). NULL for an opcode that does not exist. */
const struct sim_row *sim_row_of(unsigned enc, unsigned opcode);
const struct sim_mrow *sim_mrow_of(unsigned enc, unsigned opcode);
const struct sim_mrow *sim_vopd_row(unsigned half, unsigned opcode);
const struct sim_fmt *sim_fmt_of(const struct sim_row *row);
const struct sim_field_class *sim_class_of(unsigned index);

static inline uint32_t sim_bits(uint32_t w, unsigned lo, unsigned n)
{
    return (w >> lo) & ((n == 32 ? 0u : 1u << n) - 1u);
}

/* decode.c: decodes an operand field of a class; sets in->odd for what only the assembler allows. False: not valid. */
bool sim_operand(struct sim_words *ws, sim_inst *in, unsigned code, const struct sim_field_class *c, sim_opnd *o);
/* A VGPR field of 8 bits, a scalar field of 7. */
bool sim_vgpr(sim_opnd *o, unsigned reg, unsigned ndw);
bool sim_sreg(sim_opnd *o, unsigned code, unsigned ndw);
/* The bits that inline constant `code` stands for, read as `type`. */
uint64_t sim_inline_bits(unsigned code, unsigned type);

/* decode_mem.c, decode_gfx.c: the rest of sim_decode by encoding; in->enc, opcode and words are set. False: not an instruction. */
bool sim_decode_mem(struct sim_words *ws, sim_inst *in);
bool sim_decode_gfx(struct sim_words *ws, sim_inst *in);

/* Text under construction: n counts what a large enough buffer would hold. */
struct sim_text {
    char *buf;
    size_t cap, n;
};
void sim_put(struct sim_text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void sim_put_opnd(struct sim_text *t, const sim_opnd *o);
void sim_put_vgprs(struct sim_text *t, unsigned reg, unsigned ndw);
void sim_put_policy(struct sim_text *t, const sim_inst *in, unsigned kind);
void sim_disasm_mem(struct sim_text *t, const sim_inst *in);
void sim_disasm_gfx(struct sim_text *t, const sim_inst *in);

#endif
