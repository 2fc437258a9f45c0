/* The decoder and the disassembler against texts that LLVM gives (tests/vectors/sim_decode.txt, made by
 * tools/sim_gen_vectors.py), and the decoded fields of a few instructions worked out by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../sim/isa.h"

/* Splits "w w w | text"; returns the number of words, at most 4. */
static size_t parse_line(char *line, uint32_t w[4], char **text)
{
    size_t n = 0;
    char *p = line, *end;
    *text = NULL;
    while (n < 4 && *p != '|') {
        unsigned long v = strtoul(p, &end, 16);
        if (end == p) {
            return 0;
        }
        w[n++] = (uint32_t)v;
        p = end + strspn(end, " ");
    }
    if (*p != '|') {
        return 0;
    }
    *text = p + 2;
    (*text)[strcspn(*text, "\n")] = 0;
    return n;
}

/* The same words cut short are refused, never read past (the copy's end is the heap block's end). */
static void refuse_cut(const uint32_t *w, size_t n)
{
    sim_inst in;
    for (size_t k = 0; k < n; k++) {
        uint32_t *cut = malloc(k ? k * sizeof *cut : 1);
        assert_non_null(cut);
        memcpy(cut, w, k * sizeof *cut);
        assert_int_equal(sim_decode(cut, k, &in), 0);
        free(cut);
    }
}

static void texts_equal_llvm(void **state)
{
    (void)state;
    FILE *f = fopen("tests/vectors/sim_decode.txt", "r");
    char line[600], got[600] = "", *want;
    unsigned lines = 0, wrong = 0;
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        uint32_t w[4];
        size_t n = parse_line(line, w, &want);
        sim_inst in;
        assert_true(n > 0);
        lines++;
        int used = sim_decode(w, n, &in);
        if (used > 0) {
            int len = sim_disasm(&in, 0, got, sizeof got);
            assert_int_equal(len, (int)strlen(got));
        }
        bool refused = strcmp(want, "-") == 0;
        if (refused ? used != 0 : used != (int)n || strcmp(got, want) != 0) {
            wrong++;
            print_error("%08x: want %s, got %s (%d of %zu dwords)\n", w[0], want, used > 0 ? got : "-", used, n);
        }
        if (!refused) {
            refuse_cut(w, n);
        }
    }
    fclose(f);
    assert_true(lines > 4000);
    assert_int_equal(wrong, 0);
}

static void decode(const uint32_t *w, size_t n, sim_inst *in)
{
    assert_int_equal(sim_decode(w, n, in), (int)n);
    assert_int_equal(in->ndw, (int)n);
    assert_memory_equal(in->words, w, n * sizeof *w);
}
#define DECODE(in, ...)                                              \
    do {                                                             \
        static const uint32_t words_[] = {__VA_ARGS__};              \
        decode(words_, sizeof words_ / sizeof words_[0], in);        \
    } while (0)

static void constants_are_widened(void **state)
{
    (void)state;
    sim_inst in;
    /* v_add_f16_e32 v0, 1.0, v1: the f16 pattern */
    DECODE(&in, 0x640002f2);
    assert_int_equal(in.op, SIM_OP_V_ADD_F16);
    assert_int_equal(in.src[0].kind, SIM_K_CONST);
    assert_int_equal(in.src[0].imm, 0x3c00);
    /* v_add_f64_e32 v[0:1], 1.0, v[2:3] and with a literal, which gives the high dword */
    DECODE(&in, 0x040004f2);
    assert_int_equal(in.op, SIM_OP_V_ADD_F64);
    assert_true(in.src[0].imm == 0x3ff0000000000000u);
    DECODE(&in, 0x040004ff, 0x40080000);
    assert_int_equal(in.src[0].kind, SIM_K_LITERAL);
    assert_true(in.src[0].imm == 0x4008000000000000u);
    /* s_add_nc_u64 s[0:1], -1, s[2:3]: all 64 bits */
    DECODE(&in, 0xa98002c1);
    assert_int_equal(in.op, SIM_OP_S_ADD_NC_U64);
    assert_true(in.src[0].imm == UINT64_MAX);
    /* v_pk_add_f16 v0, 1.0, v1 op_sel_hi:[0,1]: the low half only */
    DECODE(&in, 0xcc0f4000, 0x100202f2);
    assert_int_equal(in.op, SIM_OP_V_PK_ADD_F16);
    assert_int_equal(in.src[0].imm, 0x3c00);
    assert_int_equal(in.src[0].mods & SIM_HI_HI, 0);
    assert_int_equal(in.src[1].mods & SIM_HI_HI, SIM_HI_HI);
}

static void implied_operands_are_listed(void **state)
{
    (void)state;
    sim_inst in;
    /* v_add_co_ci_u32_e32 v0, vcc_lo, v1, v2, vcc_lo */
    DECODE(&in, 0x40000501);
    assert_int_equal(in.op, SIM_OP_V_ADD_CO_CI_U32);
    assert_int_equal(in.ndst, 2);
    assert_int_equal(in.dst[1].reg, SIM_S_VCC_LO);
    assert_int_equal(in.nsrc, 3);
    assert_int_equal(in.src[2].reg, SIM_S_VCC_LO);
    /* v_cmpx_lt_f32_e32 v1, v2 writes EXEC alone */
    DECODE(&in, 0x7d220501);
    assert_int_equal(in.op, SIM_OP_V_CMPX_LT_F32);
    assert_int_equal(in.dst[0].reg, SIM_S_EXEC_LO);
    /* v_fmamk_f32 v0, v1, 0x40490fdb, v2: K is the second source */
    DECODE(&in, 0x58000501, 0x40490fdb);
    assert_int_equal(in.op, SIM_OP_V_FMAMK_F32);
    assert_int_equal(in.src[1].kind, SIM_K_LITERAL);
    assert_int_equal(in.src[1].imm, 0x40490fdb);
    assert_int_equal(in.src[2].reg, 2);
}

static void modifiers_sit_at_their_operand(void **state)
{
    (void)state;
    sim_inst in;
    /* v_fma_f32 v5, -v1, |v2|, v3 clamp mul:2 */
    DECODE(&in, 0xd6138205, 0x2c0e0501);
    assert_int_equal(in.op, SIM_OP_V_FMA_F32);
    assert_int_equal(in.src[0].mods, SIM_NEG);
    assert_int_equal(in.src[1].mods, SIM_ABS);
    assert_int_equal(in.src[2].mods, 0);
    assert_int_equal(in.clamp, 1);
    assert_int_equal(in.omod, 1);
    /* v_add_f32_dpp v2, -|v1|, v3 row_shr:1 row_mask:0x5 bank_mask:0x3 bound_ctrl:1 fi:1 */
    DECODE(&in, 0x060406fa, 0x533d1101);
    assert_int_equal(in.dpp, SIM_DPP16);
    assert_int_equal(in.dpp_ctrl, 0x111);
    assert_int_equal(in.dpp_row_mask, 5);
    assert_int_equal(in.dpp_bank_mask, 3);
    assert_int_equal(in.dpp_bc, 1);
    assert_int_equal(in.dpp_fi, 1);
    assert_int_equal(in.src[0].reg, 1);
    assert_int_equal(in.src[0].mods, SIM_NEG | SIM_ABS);
    /* v_mov_b32_dpp v0, v1 dpp8:[7,6,5,4,3,2,1,0] */
    DECODE(&in, 0x7e0002e9, 0x05397701);
    assert_int_equal(in.dpp, SIM_DPP8);
    assert_int_equal(in.dpp8, 0x053977);
}

static void memory_fields(void **state)
{
    (void)state;
    sim_inst in;
    /* global_load_b128 v[5:8], v3, s[4:5] offset:-16 scope:SCOPE_DEV */
    DECODE(&in, 0xee05c004, 0x00080005, 0xfffff003);
    assert_int_equal(in.op, SIM_OP_GLOBAL_LOAD_B128);
    assert_int_equal(in.data_dst.reg, 5);
    assert_int_equal(in.data_dst.ndw, 4);
    assert_int_equal(in.vaddr.ndw, 1);
    assert_int_equal(in.saddr.reg, 4);
    assert_int_equal(in.saddr.ndw, 2);
    assert_int_equal(in.offset, -16);
    assert_int_equal(in.scope, 2);
    /* global_atomic_add_u32 v9, v[1:2], v3, off th:TH_ATOMIC_RETURN; without bit 0 of TH nothing is written */
    DECODE(&in, 0xee0d407c, 0x01900009, 0x00000001);
    assert_int_equal(in.op, SIM_OP_GLOBAL_ATOMIC_ADD_U32);
    assert_int_equal(in.data_dst.reg, 9);
    assert_int_equal(in.data.reg, 3);
    DECODE(&in, 0xee0d407c, 0x01800009, 0x00000001);
    assert_int_equal(in.data_dst.kind, SIM_K_NONE);
    /* ds_load_2addr_b32 v[4:5], v1 offset0:2 offset1:3 */
    DECODE(&in, 0xd8dc0302, 0x04000001);
    assert_int_equal(in.op, SIM_OP_DS_LOAD_2ADDR_B32);
    assert_int_equal(in.offset, 2);
    assert_int_equal(in.offset1, 3);
    assert_int_equal(in.data_dst.ndw, 2);
    /* s_load_b64 s[2:3], s[0:1], 0x10 */
    DECODE(&in, 0xf4002080, 0xf8000010);
    assert_int_equal(in.data_dst.reg, 2);
    assert_int_equal(in.saddr.reg, 0);
    assert_int_equal(in.soffset.kind, SIM_K_NONE);
    assert_int_equal(in.offset, 16);
}

static void dual_halves(void **state)
{
    (void)state;
    sim_inst in;
    /* v_dual_mul_f32 v0, s0, v0 :: v_dual_fmac_f32 v1, s4, v1: vdsty's low bit is the opposite of vdstx's */
    DECODE(&in, 0xc8c00000, 0x00000204);
    assert_int_equal(in.half[0].op, SIM_OP_V_MUL_F32);
    assert_int_equal(in.half[1].op, SIM_OP_V_FMAC_F32);
    assert_int_equal(in.half[0].dst.reg, 0);
    assert_int_equal(in.half[1].dst.reg, 1);
    assert_int_equal(in.half[1].src[0].kind, SIM_K_SREG);
    assert_int_equal(in.half[1].src[0].reg, 4);
    assert_int_equal(in.half[1].src[1].reg, 1);
}

static void what_the_isa_gives_no_meaning(void **state)
{
    (void)state;
    sim_inst in;
    /* op_sel of v_add_f32 has a text (the same as without) but must not run */
    DECODE(&in, 0xd5030800, 0x00000501);
    assert_int_equal(in.odd, 1);
    /* v_permlane64_b32 v0, null */
    DECODE(&in, 0x7e00ce7c);
    assert_int_equal(in.odd, 1);
    DECODE(&in, 0x7e00cf01);
    assert_int_equal(in.odd, 0);
    /* a pair of scalars that starts at an odd register; opcodes that do not exist */
    static const uint32_t misaligned[] = {0xbe800101}, absent[] = {0xd4000000, 0}, absent2[] = {0xec000000, 0, 0};
    assert_int_equal(sim_decode(misaligned, 1, &in), 0);
    assert_int_equal(sim_decode(absent, 2, &in), 0);
    assert_int_equal(sim_decode(absent2, 3, &in), 0);
    assert_int_equal(sim_decode(NULL, 0, &in), 0);
}

static void short_buffers(void **state)
{
    (void)state;
    sim_inst in;
    char b[8];
    DECODE(&in, 0x640002f2);
    memset(b, 'x', sizeof b);
    int full = sim_disasm(&in, 0, b, 6);
    assert_int_equal(full, (int)strlen("v_add_f16_e32 v0, 1.0, v1"));
    assert_string_equal(b, "v_add");
    assert_int_equal(b[6], 'x');
    assert_int_equal(sim_disasm(&in, 0, NULL, 0), full);
    assert_string_equal(sim_op_name(SIM_OP_COUNT), "?");
    assert_string_equal(sim_op_name(SIM_OP_V_ADD_F16), "v_add_f16");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_equal_llvm),
        cmocka_unit_test(constants_are_widened),
        cmocka_unit_test(implied_operands_are_listed),
        cmocka_unit_test(modifiers_sit_at_their_operand),
        cmocka_unit_test(memory_fields),
        cmocka_unit_test(dual_halves),
        cmocka_unit_test(what_the_isa_gives_no_meaning),
        cmocka_unit_test(short_buffers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
