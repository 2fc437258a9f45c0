/* The simulator's parts that need no kernel: number formats, device memory, metadata, code objects cut short or damaged, limits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>
#include <math.h>

#include "../../sim/exec.h"
#include "../../sim/msgpack.h"

static void f16_round_trip(void **state) {
    (void)state;
    for (u32 h = 0; h < 65536; h++) {
        float f = sim_h2f(h);
        if (isnan(f)) assert_true(isnan(sim_h2f(sim_f2h(f, 0, false))));
        else assert_int_equal(sim_f2h(f, 0, false), h);
    }
    /* Halfway between neighbours, and a little to either side, in each mode: 0 even, 1 up, 2 down, 3 zero. */
    for (u32 h = 0; h + 1 < 0x7C00; h++) {
        double lo = (double)sim_h2f(h), hi = (double)sim_h2f(h + 1), mid = (lo + hi) / 2;
        assert_int_equal(sim_d2h(mid, 0, false), h + (h & 1));
        assert_int_equal(sim_d2h(mid * (1 - 0x1p-30), 0, false), h);
        assert_int_equal(sim_d2h(mid * (1 + 0x1p-30), 0, false), h + 1);
        assert_int_equal(sim_d2h(mid, 1, false), h + 1);
        assert_int_equal(sim_d2h(mid, 2, false), h);
        assert_int_equal(sim_d2h(-mid, 2, false), 0x8000 | (h + 1));
        assert_int_equal(sim_d2h(-mid, 3, false), 0x8000 | h);
    }
    assert_int_equal(sim_d2h(65520, 0, false), 0x7C00);
    assert_int_equal(sim_d2h(65519.99, 0, false), 0x7BFF);
    assert_int_equal(sim_d2h(1e9, 3, false), 0x7BFF);
    assert_int_equal(sim_d2h(0x1p-15, 0, true), 0);
}

static void small_formats(void **state) {
    (void)state;
    for (u32 b = 0; b < 256; b++) {
        float f = sim_fp8_to_f(b), g = sim_bf8_to_f(b);
        if (!isnan(f)) assert_int_equal(sim_f_to_fp8(f, false), b);
        if (!isnan(g) && !isinf(g)) assert_int_equal(sim_f_to_bf8(g, false), b);
    }
    assert_float_equal((double)sim_fp8_to_f(0x7E), 448.0, 0);
    assert_int_equal(sim_f_to_fp8(464.0f, false), 0x7E); /* a tie: to the even neighbour */
    assert_int_equal(sim_f_to_fp8(465.0f, false), 0x7F);
    assert_int_equal(sim_f_to_fp8(1e9f, true), 0x7E);
    assert_int_equal(sim_f_to_bf8(1e9f, false), 0x7C);
    assert_int_equal(sim_f_to_fp8(0x1p-10f, false), 0); /* half of the least denormal, to even */
    assert_int_equal(sim_f2bf(1.00390625f, 0), 0x3F80);
    assert_int_equal(sim_f2bf(1.01171875f, 0), 0x3F82);
}

static void fma_rounded_to_odd(void **state) {
    (void)state;
    assert_true(sim_fma_odd(3, 5, 7) == 22);
    double x = sim_fma_odd(1, 1, 0x1p-60); /* not exact: the last bit is odd, on the side of the truth */
    assert_true(x == 1 + 0x1p-52);
    x = sim_fma_odd(1, 1, -0x1p-60);
    assert_true(x == 1 - 0x1p-53);
}

static void memory_allocations(void **state) {
    (void)state;
    sim_error err = {{0}};
    sim_memory *m = sim_memory_new(true, &err);
    assert_non_null(m);
    u64 a = sim_malloc(m, 100, "first", &err), b = sim_malloc(m, 5000, "second", &err);
    assert_true(a && b && b > a);
    assert_non_null(sim_find(m, a, 100));
    assert_null(sim_find(m, a, 101));
    assert_null(sim_find(m, a + 100, 1));
    assert_null(sim_find(m, a - 1, 1));
    assert_non_null(sim_find(m, b + 4999, 1));
    assert_null(sim_find(m, ~0ull, 1));
    assert_null(sim_find(m, a, ~0ull));
    assert_int_equal(sim_bytes_used(m), 5100);
    assert_int_equal(sim_first_unwritten(m, a, 100), a);
    sim_mark_written(m, a + 3, 90);
    assert_int_equal(sim_first_unwritten(m, a + 3, 90), a + 93);
    assert_int_equal(sim_first_unwritten(m, a + 3, 97), a + 93);
    assert_int_equal(sim_first_unwritten(m, a + 2, 4), a + 2);
    char text[256];
    sim_describe_address(m, a + 107, text, sizeof text);
    assert_non_null(strstr(text, "7 bytes past the end of first #1"));
    assert_false(sim_mfree(m, a + 1));
    assert_true(sim_mfree(m, a));
    assert_false(sim_mfree(m, a));
    assert_null(sim_find(m, a, 1));
    sim_describe_address(m, a + 5, text, sizeof text);
    assert_non_null(strstr(text, "byte 5 of freed first #1"));
    u64 c = sim_malloc(m, 100, "third", &err);
    assert_true(c != a); /* freed addresses are not used again at once */
    assert_int_equal(sim_malloc(m, SIM_VRAM, "too large", &err), 0);
    assert_non_null(strstr(err.text, "out of device memory"));
    sim_memory_free(m);
}

static void metadata_reader(void **state) {
    (void)state;
    const u8 good[] = {0x82, 0xA1, 'a', 0x93, 1, 0xCD, 1, 0, 0xD0, 0xFF, 0xA1, 'b', 0xC3};
    mp_reader r = {good, good + sizeof good};
    mp_value v = mp_next(&r);
    assert_int_equal(v.type, MP_MAP);
    v = mp_next(&r);
    assert_true(mp_is(&v, "a"));
    v = mp_next(&r);
    assert_true(v.type == MP_ARRAY && v.num == 3);
    assert_int_equal(mp_next(&r).num, 1);
    assert_int_equal(mp_next(&r).num, 256);
    assert_int_equal((i64)mp_next(&r).num, -1);
    assert_true(mp_skip(&r));
    assert_true(mp_skip(&r));
    assert_false(mp_skip(&r));
    for (size_t n = 0; n < sizeof good; n++) { /* cut short anywhere */
        r = (mp_reader){good, good + n};
        assert_false(mp_skip(&r));
    }
    u8 deep[100];
    memset(deep, 0x91, sizeof deep);
    r = (mp_reader){deep, deep + sizeof deep};
    assert_false(mp_skip(&r));
    const u8 huge[] = {0xDD, 0xFF, 0xFF, 0xFF, 0xFF, 1};
    r = (mp_reader){huge, huge + sizeof huge};
    assert_int_equal(mp_next(&r).type, MP_BAD);
}

static u8 *read_seed(size_t *n) {
    FILE *f = fopen("tests/fuzz/corpus/sim_elf/v5.hsaco", "rb");
    assert_non_null(f);
    u8 *d = malloc(65536);
    assert_non_null(d);
    *n = fread(d, 1, 65536, f);
    fclose(f);
    return d;
}

static void code_objects(void **state) {
    (void)state;
    size_t n;
    u8 *d = read_seed(&n);
    sim_error err = {{0}};
    sim_memory *mem = sim_memory_new(false, &err);
    sim_module *m = sim_module_load(mem, d, n, &err);
    assert_non_null(m);
    sim_kernel *k = sim_module_kernel(m, "k");
    assert_non_null(k);
    assert_null(sim_module_kernel(m, "no"));
    assert_true(m->abi == 5 && k->n_explicit == 2 && k->args[0].kind == SIM_ARG_BUFFER && k->args[1].offset == 8);
    const char *file;
    u32 line;
    assert_true(m->lines && sim_line_at(m->lines, m->link_base + (k->entry - m->base), &file, &line) && line == 1);
    sim_module_free(m);
    for (size_t cut = 0; cut < n; cut += 13) { /* cut short: an error, or the same as whole when only the debug part is gone */
        sim_error e = {{0}};
        m = sim_module_load(mem, d, cut, &e);
        assert_true(m != NULL || e.text[0]);
        sim_module_free(m);
    }
    size_t text = 64; /* the executable one of the program headers (56 bytes each): at an odd address it is no text */
    while (d[text] != 1 || !(d[text + 4] & 1)) text += 56;
    for (u8 off = 1; off < 4; off++) {
        sim_error e = {{0}};
        d[text + 16] = (u8)(d[text + 16] + off);
        assert_null(sim_module_load(mem, d, n, &e));
        assert_non_null(strstr(e.text, "must be a multiple of 4"));
        d[text + 16] = (u8)(d[text + 16] - off);
    }
    u32 rng = 1;
    for (int i = 0; i < 3000; i++) {
        rng = rng * 1664525 + 1013904223;
        size_t at = rng % n;
        u8 old = d[at];
        d[at] = (u8)(rng >> 24);
        sim_error e = {{0}};
        m = sim_module_load(mem, d, n, &e);
        assert_true(m != NULL || e.text[0]);
        sim_module_free(m);
        d[at] = old;
    }
    sim_memory_free(mem);
    free(d);
}

static void occupancy(void **state) {
    (void)state;
    sim_kernel k = {.vgprs = 96};
    assert_int_equal(sim_waves_per_simd(&k), 16);
    k.vgprs = 97;
    assert_int_equal(sim_waves_per_simd(&k), 12);
    k.vgprs = 256;
    assert_int_equal(sim_waves_per_simd(&k), 5); /* 264 with the granule of 24 */
    assert_int_equal(sim_occupancy(&k, 256, 0), 2);
    assert_int_equal(sim_occupancy(&k, 32, 0), 20);
    k.vgprs = 24;
    assert_int_equal(sim_occupancy(&k, 32, 0), 32);
    assert_int_equal(sim_occupancy(&k, 64, 65536), 2);
    assert_int_equal(sim_occupancy(&k, 64, 65537), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f16_round_trip), cmocka_unit_test(small_formats),   cmocka_unit_test(fma_rounded_to_odd),
        cmocka_unit_test(memory_allocations), cmocka_unit_test(metadata_reader), cmocka_unit_test(code_objects),
        cmocka_unit_test(occupancy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
