/* Single instructions against results worked out from the pseudocode of AMD's RDNA4 instruction set document
 * (tests/vectors/sim_vop.txt, sim_sop.txt): each runs in a kernel made around it, on edge values: zeros of both signs, denormals,
 * infinities, NaNs, halfway cases, saturation.
 *
 * A vector line: name, words, kinds of the sources and of the destination's old value, run, dwords of the destination (with m: a
 * mask is written too), mask, then a result for each lane; n is any NaN, x.y two 16-bit halves. A source of kind k reads entry
 * pick(run, lane, source) of table k; a result of ? is not checked, ~x may be
 * one unit in the last place off (its reciprocals, roots, exponentials and logarithms are the hardware's own). Run 100 m + n is run n in rounding mode m (1 up, 2 down, 3 to
 * zero), run 1000 + n flushes denormals. A scalar line: name, word, kinds, run, dwords, old destination, SCC, result; Lx: the low
 * 16 bits are x. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../sim/sim.h"
#include "sim_tables.h"

/* Loads v10..v21 (48 bytes a lane), s20..s35 (at 4096), MODE from s35, VCC from s33, SCC from s34, EXEC from s32. */
static const u32 before[] = {0xf4002080, 0xf8000000, 0xbfc70000, 0x360000ff, 0x000003ff, 0x30020086, 0x30040087, 0xee05c002, 0x0000000a,
                             0x00000001, 0xee05c002, 0x0000000e, 0x00001001, 0xee05c002, 0x00000012, 0x00002001, 0xf4006501, 0xf8001000,
                             0xf4006701, 0xf8001020, 0xbfc00000, 0xbfc70000, 0xb9233801, 0xbeea0021, 0xbf078022, 0xbefe0020};
/* Stores v10..v21, SCC, EXEC, VCC, s30, s31 (128 bytes a lane, from 8192). */
static const u32 after[] = {0x98248081, 0xbea5007e, 0xbefe00c1, 0xbea6006a, 0x7e2c0224, 0x7e2e0225, 0x7e300226, 0x7e32021e, 0x7e34021f,
                            0xee074002, 0x05000000, 0x00200002, 0xee074002, 0x07000000, 0x00201002, 0xee074002, 0x09000000, 0x00202002,
                            0xee074002, 0x0b000000, 0x00203002, 0xee068002, 0x0d000000, 0x00204002, 0xbfb00000};
enum { O_SCC = 12, O_EXEC, O_VCC, O_S30, O_S31, OUT_STRIDE = 32 };

struct lab {
    sim_device dev;
    u64 io, text;
    sim_error err;
};

static int set_up(void **state)
{
    struct lab *l = calloc(1, sizeof *l);
    if (!l) {
        return -1;
    }
    sim_options_from_env(&l->dev.opt);
    l->dev.opt.threads = 1;
    l->dev.mem = sim_memory_new(l->dev.opt.strict, &l->err);
    l->io = l->dev.mem ? sim_malloc(l->dev.mem, 16384, "device buffer", &l->err) : 0;
    l->text = l->dev.mem ? sim_malloc(l->dev.mem, 4096, "code object", &l->err) : 0;
    *state = l;
    return l->text ? 0 : -1;
}

static int tear_down(void **state)
{
    struct lab *l = *state;
    sim_device_close(&l->dev);
    sim_memory_free(l->dev.mem);
    free(l);
    return 0;
}

/* Runs the words between the two pieces of code with one wave of 32 lanes. */
static bool run_words(struct lab *l, const u32 *words, size_t n)
{
    u32 *text = (u32 *)(uintptr_t)l->text;
    size_t at = 0;
    memcpy(text, before, sizeof before);
    at += sizeof before / 4;
    memcpy(text + at, words, n * 4);
    at += n;
    memcpy(text + at, after, sizeof after);
    at += sizeof after / 4;
    sim_mark_written(l->dev.mem, l->io, 16384);
    sim_module m = {.mem = l->dev.mem, .base = l->text, .size = 4096, .text_lo = l->text, .text_hi = l->text + at * 4, .abi = 5};
    sim_kernel k = {.name = (char[]){"lab"}, .entry = l->text, .kernarg_size = 8, .kernarg_align = 8, .vgprs = 48, .sgprs = 64,
                    .rsrc1 = 5 | 0xf0u << 12, .props = 8, .max_threads = 32};
    sim_launch c = {{1, 1, 1}, {32, 1, 1}, 0, false};
    m.kernels = &k;
    m.n_kernels = 1;
    l->err.text[0] = 0;
    bool ok = sim_run(&l->dev, &m, &k, &c, &l->io, sizeof l->io, &l->err) == SIM_OK;
    sim_code_free(&m);
    return ok;
}

static u32 *scalars(struct lab *l)
{
    return (u32 *)(uintptr_t)(l->io + 4096);
}

static u32 *outputs(struct lab *l, u32 lane)
{
    return (u32 *)(uintptr_t)(l->io + 8192) + lane * OUT_STRIDE;
}

/* Which entry of a table of n a source reads; tables are walked in order when there is one source. */
static u32 pick(u32 run, u32 lane, u32 source, u32 n, bool single)
{
    u32 x = (run * 32 + lane) * 3 + source;
    return single ? (lane + 32 * run) % n : (x * 2654435761u >> 12) % n;
}

static u64 entry(char kind, u32 run, u32 lane, u32 source, bool single)
{
    for (size_t i = 0; i < sizeof sim_tables / sizeof sim_tables[0]; i++) {
        if (sim_tables[i].kind == kind) {
            return sim_tables[i].v[pick(run, lane, source, sim_tables[i].n, single)];
        }
    }
    fail_msg("no table %c", kind);
    return 0;
}

static bool is_nan(u64 v, unsigned bits)
{
    return bits == 16 ? (v & 0x7fff) > 0x7c00 : bits == 32 ? (v & 0x7fffffff) > 0x7f800000
                                                           : (v & 0x7fffffffffffffff) > 0x7ff0000000000000;
}

/* Whether a value is what the text says. */
static bool agrees(const char *want, u64 got, unsigned ndw)
{
    const char *dot = strchr(want, '.');
    if (want[0] == '?') {
        return true;
    }
    if (want[0] == '~') { /* within one unit in the last place; 16-bit results leave the high half */
        u64 value = dot ? got & 0xffff : got, near = strtoull(want + 1, NULL, 16);
        return (!dot || got >> 16 == strtoul(dot + 1, NULL, 16)) && (value > near ? value - near : near - value) <= 1;
    }
    if (dot) {
        bool low = want[0] == 'n' ? is_nan(got & 0xffff, 16) : strtoul(want, NULL, 16) == (got & 0xffff);
        return low && (dot[1] == 'n' ? is_nan(got >> 16, 16) : strtoul(dot + 1, NULL, 16) == got >> 16);
    }
    return want[0] == 'n' ? is_nan(got, ndw * 32) : strtoull(want, NULL, 16) == got;
}

/* 32 lanes of inputs at v10, v12, v14; the destination's old value at v16..v19. */
static void put_inputs(struct lab *l, const char *kinds, u32 run)
{
    bool single = (kinds[0] != '-') + (kinds[1] != '-') + (kinds[2] != '-') == 1;
    u32 *s = scalars(l);
    memset(s, 0, 64);
    s[4] = SIM_MASK; /* s24 */
    s[10] = s[11] = 0xCAFEBABE;
    s[12] = 0xffffffff;
    s[13] = SIM_MASK;
    u32 rnd = run / 100 % 10;
    s[15] = (run < 1000 ? 0xf0u : 0u) | rnd | rnd << 2; /* MODE */
    run %= 100;
    for (u32 lane = 0; lane < 32; lane++) {
        u32 *v = (u32 *)(uintptr_t)l->io + lane * 16;
        for (u32 i = 0; i < 12; i++) {
            v[i] = 0xCAFEBABE;
        }
        for (u32 i = 0; i < 3; i++) {
            if (kinds[i] != '-' && kinds[i] != 'M') {
                u64 x = entry(kinds[i], run, lane, i, single);
                v[2 * i] = (u32)x;
                v[2 * i + 1] = (u32)(x >> 32);
            }
        }
        if (kinds[3] == 'F') {
            u64 x = entry(kinds[0], run, lane, 2, single);
            v[6] = (u32)x;
            v[7] = kinds[0] == 'd' ? (u32)(x >> 32) : 0xCAFEBABE;
        }
    }
}

static unsigned check_vop(struct lab *l, char *line)
{
    char *save, *name = strtok_r(line, " ", &save), *words = strtok_r(NULL, " ", &save), *kinds = strtok_r(NULL, " ", &save);
    u32 run = (u32)strtoul(strtok_r(NULL, " ", &save), NULL, 10);
    char *form = strtok_r(NULL, " ", &save);
    u32 mask = (u32)strtoul(strtok_r(NULL, " ", &save), NULL, 16), w[2];
    char *end;
    w[0] = (u32)strtoul(words, &end, 16);
    w[1] = (u32)strtoul(end + 1, NULL, 16);
    put_inputs(l, kinds, run);
    if (!run_words(l, w, 2)) {
        print_error("%s (%08x %08x): %s\n", name, w[0], w[1], l->err.text);
        return 1;
    }
    unsigned ndw = (unsigned)(form[0] - '0'), wrong = 0;
    if (form[1] == 'm' && outputs(l, 0)[O_S30] != mask) {
        print_error("%s run %u: mask %08x, want %08x\n", name, run, outputs(l, 0)[O_S30], mask);
        wrong = 1;
    }
    for (u32 lane = 0; lane < 32 && ndw; lane++) {
        const char *want = strtok_r(NULL, " \n", &save);
        const u32 *o = outputs(l, lane);
        u64 got = o[6] | (ndw > 1 ? (u64)o[7] << 32 : 0);
        assert_non_null(want);
        if (!agrees(want, got, ndw)) {
            print_error("%s run %u lane %u: %llx, want %s (sources %08x.%08x %08x.%08x %08x.%08x)\n", name, run, lane,
                        (unsigned long long)got, want, o[1], o[0], o[3], o[2], o[5], o[4]);
            wrong = 1;
        }
    }
    return wrong;
}

static unsigned check_sop(struct lab *l, char *line)
{
    char *save, *name = strtok_r(line, " ", &save);
    u32 w = (u32)strtoul(strtok_r(NULL, " ", &save), NULL, 16);
    char *kinds = strtok_r(NULL, " ", &save);
    u32 run = (u32)strtoul(strtok_r(NULL, " ", &save), NULL, 10), ndw = (u32)strtoul(strtok_r(NULL, " ", &save), NULL, 10);
    u64 old = strtoull(strtok_r(NULL, " ", &save), NULL, 16);
    u32 scc = (u32)strtoul(strtok_r(NULL, " ", &save), NULL, 10);
    const char *want = strtok_r(NULL, " \n", &save);
    put_inputs(l, "----", 0);
    u32 *s = scalars(l);
    bool single = (kinds[0] != '-') + (kinds[1] != '-') == 1;
    for (u32 i = 0; i < 2; i++) {
        if (kinds[i] != '-') {
            u64 x = entry(kinds[i], run / 32, run % 32, i, single);
            s[2 * i] = (u32)x;
            s[2 * i + 1] = (u32)(x >> 32);
        }
    }
    s[10] = (u32)old;
    s[11] = (u32)(old >> 32);
    s[14] = run & 1; /* SCC */
    if (!run_words(l, &w, 1)) {
        print_error("%s (%08x): %s\n", name, w, l->err.text);
        return 1;
    }
    const u32 *o = outputs(l, 0);
    u64 got = o[O_S30] | (ndw > 1 ? (u64)o[O_S31] << 32 : 0);
    bool ok = o[O_SCC] == scc;
    if (ndw && want[0] == 'L') {
        ok = ok && agrees(want + 1, want[1] == 'n' ? (is_nan(got & 0xffff, 16) ? 0x7fffffff : 0) : got & 0xffff, 1);
    } else if (ndw) {
        ok = ok && agrees(want, got, ndw);
    }
    if (!ok) {
        print_error("%s run %u: %llx SCC %u, want %s SCC %u (sources %08x.%08x %08x.%08x, SCC was %u)\n", name, run,
                    (unsigned long long)got, o[O_SCC], want, scc, s[1], s[0], s[3], s[2], run & 1);
    }
    return !ok;
}

static void check_file(struct lab *l, const char *path, unsigned (*check)(struct lab *, char *), unsigned at_least)
{
    FILE *f = fopen(path, "r");
    char line[4096];
    unsigned lines = 0, wrong = 0;
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        lines++;
        wrong += check(l, line);
    }
    fclose(f);
    assert_true(lines > at_least);
    assert_int_equal(wrong, 0);
}

static void vector_operations(void **state)
{
    check_file(*state, "tests/vectors/sim_vop.txt", check_vop, 1000);
}

static void approximations(void **state)
{
    check_file(*state, "tests/vectors/sim_approx.txt", check_vop, 15);
}

static void scalar_operations(void **state)
{
    check_file(*state, "tests/vectors/sim_sop.txt", check_sop, 2500);
}

/* ---- EXEC, DPP and lanes: v10 = 100 + lane, v12 = 200 + lane, v16 = 0xCAFEBABE before ---- */

static bool run_lanes(struct lab *l, u32 exec, u32 scc, u32 w0, u32 w1, u32 w2, size_t n)
{
    u32 w[3] = {w0, w1, w2};
    put_inputs(l, "----", 0);
    for (u32 lane = 0; lane < 32; lane++) {
        u32 *v = (u32 *)(uintptr_t)l->io + lane * 16;
        v[0] = 100 + lane;
        v[2] = 200 + lane;
    }
    scalars(l)[12] = exec;
    scalars(l)[14] = scc;
    bool ok = run_words(l, w, n);
    if (!ok) {
        print_error("%08x: %s\n", w0, l->err.text);
    }
    return ok;
}

static void inactive_lanes_keep_their_value(void **state)
{
    struct lab *l = *state;
    static const u32 masks[] = {0, 1, 0x80000000, 0x0f0ff00f, 0xffffffff};
    for (size_t i = 0; i < 5; i++) {
        assert_true(run_lanes(l, masks[i], 0, 0x4a20190a, 0, 0, 1)); /* v_add_nc_u32 v16, v10, v12 */
        for (u32 lane = 0; lane < 32; lane++) {
            assert_int_equal(outputs(l, lane)[6], masks[i] >> lane & 1 ? 300 + 2 * lane : 0xCAFEBABE);
        }
        assert_true(run_lanes(l, masks[i], 0, 0x7c92190a, 0, 0, 1)); /* v_cmp_lt_u32 vcc_lo, v10, v12: inactive lanes give 0 */
        assert_int_equal(outputs(l, 0)[O_VCC], masks[i]);
        assert_int_equal(outputs(l, 0)[O_EXEC], masks[i]);
        assert_true(run_lanes(l, masks[i], 0, 0x7d98190a, 0, 0, 1)); /* v_cmpx_gt_u32 v10, v12: EXEC alone */
        assert_int_equal(outputs(l, 0)[O_EXEC], 0);
        assert_int_equal(outputs(l, 0)[O_VCC], SIM_MASK);
    }
}

static void first_lane_and_lanes(void **state)
{
    struct lab *l = *state;
    assert_true(run_lanes(l, 0xfffffff0, 0, 0x7e3c050a, 0, 0, 1)); /* v_readfirstlane_b32 s30, v10 */
    assert_int_equal(outputs(l, 0)[O_S30], 104);
    assert_true(run_lanes(l, 0, 0, 0x7e3c050a, 0, 0, 1)); /* without active lanes: lane 0 */
    assert_int_equal(outputs(l, 0)[O_S30], 100);
    assert_true(run_lanes(l, 0xff, 0, 0xd760001e, 0x00013f0a, 0, 2)); /* v_readlane_b32 s30, v10, 31: EXEC does not matter */
    assert_int_equal(outputs(l, 0)[O_S30], 131);
}

/* In place: every lane must read what was there before the instruction. */
static void dpp_in_place(void **state)
{
    struct lab *l = *state;
    /* v_add_nc_u32_dpp v10, v10, v10 row_shr:1: a row's first lane has no source, keeps its value */
    assert_true(run_lanes(l, 0xffffffff, 0, 0x4a1414fa, 0xff01110a, 0, 2));
    for (u32 lane = 0; lane < 32; lane++) {
        assert_int_equal(outputs(l, lane)[0], lane % 16 ? 2 * (100 + lane) - 1 : 100 + lane);
    }
    /* the same with bound_ctrl:1 (the missing lane reads 0), row_mask:0x2 bank_mask:0x9: others keep their value */
    assert_true(run_lanes(l, 0xffffffff, 0, 0x4a1414fa, 0x2909110a, 0, 2));
    for (u32 lane = 0; lane < 32; lane++) {
        bool written = lane >= 16 && (9 >> (lane % 16 / 4) & 1);
        assert_int_equal(outputs(l, lane)[0], !written ? 100 + lane : lane == 16 ? 116 : 2 * (100 + lane) - 1);
    }
    /* row_ror:4 reads an inactive lane: not written without bound_ctrl, the lane's value with fi:1 */
    assert_true(run_lanes(l, 0x0000fff0, 0, 0x7e1402fa, 0xff01240a, 0, 2)); /* v_mov_b32_dpp v10, v10 row_ror:4 */
    for (u32 lane = 4; lane < 8; lane++) {
        assert_int_equal(outputs(l, lane)[0], 100 + lane);
        assert_int_equal(outputs(l, lane + 4)[0], 100 + lane);
    }
    assert_true(run_lanes(l, 0x0000fff0, 0, 0x7e1402fa, 0xff05240a, 0, 2));
    for (u32 lane = 4; lane < 8; lane++) {
        assert_int_equal(outputs(l, lane)[0], 96 + lane);
    }
    /* dpp8:[7,6,5,4,3,2,1,0] */
    assert_true(run_lanes(l, 0xffffffff, 0, 0x7e1402e9, 0x0539770a, 0, 2));
    for (u32 lane = 0; lane < 32; lane++) {
        assert_int_equal(outputs(l, lane)[0], 100 + (lane ^ 7));
    }
}

/* As run_lanes, with values in s20 and s22. */
struct scalar_pair {
    u32 s20, s22;
};

static bool run_scalars(struct lab *l, struct scalar_pair s, u32 exec, u32 w0, u32 w1, size_t n)
{
    u32 w[2] = {w0, w1};
    if (!run_lanes(l, exec, 0, 0xbf800000, 0, 0, 1)) { /* s_nop: sets the inputs up */
        return false;
    }
    scalars(l)[0] = s.s20;
    scalars(l)[2] = s.s22;
    bool ok = run_words(l, w, n);
    if (!ok) {
        print_error("%08x: %s\n", w0, l->err.text);
    }
    return ok;
}

static void rows_of_16_lanes(void **state)
{
    struct lab *l = *state;
    static const struct scalar_pair mirror = {0x89abcdef, 0x01234567}; /* lane i of a row reads lane 15 - i */
    assert_true(run_scalars(l, mirror, 0xffffffff, 0xd65b0010, 0x0058290a, 2)); /* v_permlane16_b32 v16, v10, s20, s22 */
    for (u32 lane = 0; lane < 32; lane++) {
        assert_int_equal(outputs(l, lane)[6], 100 + (lane ^ 15));
    }
    assert_true(run_scalars(l, mirror, 0xffffffff, 0xd65c0010, 0x0058290a, 2)); /* v_permlanex16_b32: of the other row */
    for (u32 lane = 0; lane < 32; lane++) {
        assert_int_equal(outputs(l, lane)[6], 100 + (lane ^ 31));
    }
    assert_true(run_scalars(l, mirror, 0x0000ffff, 0xd65c0810, 0x0058290a, 2)); /* op_sel:[1,0]: reads inactive lanes */
    for (u32 lane = 0; lane < 32; lane++) {
        assert_int_equal(outputs(l, lane)[6], lane < 16 ? 100 + (lane ^ 31) : 0xCAFEBABE);
    }
}

static void lane_numbers(void **state)
{
    struct lab *l = *state;
    assert_true(run_scalars(l, (struct scalar_pair){0, 0}, 0xffffffff, 0xd71f0010, 0x00010ac1, 2)); /* v_mbcnt_lo_u32_b32 v16, -1, 5 */
    for (u32 lane = 0; lane < 32; lane++) {
        assert_int_equal(outputs(l, lane)[6], 5 + lane);
    }
    static const struct scalar_pair pair = {77, 0};
    assert_true(run_scalars(l, pair, 0, 0xd7610010, 0x00010e14, 2)); /* v_writelane_b32 v16, s20, 7, whatever EXEC is */
    for (u32 lane = 0; lane < 32; lane++) {
        assert_int_equal(outputs(l, lane)[6], lane == 7 ? 77 : 0xCAFEBABE);
    }
}

static void exec_saved_and_changed(void **state)
{
    struct lab *l = *state;
    static const struct {
        u32 word, s20, exec, want;
    } cases[] = {
        {0xbe9e2014, 0x00ff00ff, 0x0f0f0f0f, 0x000f000f}, {0xbe9e2014, 0xf0f0f0f0, 0x0f0f0f0f, 0}, /* s_and_saveexec_b32 s30, s20 */
        {0xbe9e2214, 0x00ff00ff, 0x0f0f0f0f, 0x0fff0fff},                                        /* s_or_saveexec_b32 */
        {0xbe9e2414, 0x00ff00ff, 0x0f0f0f0f, 0x0ff00ff0}, {0xbe9e2414, 0x5, 0x5, 0},               /* s_xor_saveexec_b32 */
        {0xbe9e3014, 0x00ff00ff, 0x0f0f0f0f, 0x00f000f0},                                        /* s_and_not1_saveexec_b32 */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_true(run_scalars(l, (struct scalar_pair){cases[i].s20, 0}, cases[i].exec, cases[i].word, 0, 1));
        assert_int_equal(outputs(l, 0)[O_EXEC], cases[i].want);
        assert_int_equal(outputs(l, 0)[O_S30], cases[i].exec);
        assert_int_equal(outputs(l, 0)[O_SCC], cases[i].want != 0);
    }
}

/* What the decoder knows but no document defines ends the run with the words, as does what it does not know. */
static void undefined_ends_the_run(void **state)
{
    struct lab *l = *state;
    static const u32 odd[] = {0xd5030810, 0x0000190a}; /* v_add_f32 with op_sel */
    static const u32 absent[] = {0xd4000010, 0x0000190a};
    put_inputs(l, "----", 0);
    assert_false(run_words(l, odd, 2));
    assert_non_null(strstr(l->err.text, "d5030810"));
    assert_false(run_words(l, absent, 2));
    assert_non_null(strstr(l->err.text, "d4000010"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vector_operations),    cmocka_unit_test(scalar_operations), cmocka_unit_test(approximations),
        cmocka_unit_test(inactive_lanes_keep_their_value), cmocka_unit_test(first_lane_and_lanes),
        cmocka_unit_test(dpp_in_place),         cmocka_unit_test(rows_of_16_lanes),
        cmocka_unit_test(lane_numbers),         cmocka_unit_test(exec_saved_and_changed),
        cmocka_unit_test(undefined_ends_the_run),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
