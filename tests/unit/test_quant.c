/* Weight formats: repack and dequantise.
 *
 * Run with a format's name and two files (IN OUT K ROW0), it repacks all GGUF rows of IN and writes them back as f32 to
 * OUT: tests/e2e/test_quant.py compares that with the Python package gguf. Run alone, it checks what needs no oracle.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ie_math.h"
#include "quant/quant.h"

static uint64_t rng_state = 88172645463325252u;
static uint32_t rnd32(void) {
    rng_state ^= rng_state << 13, rng_state ^= rng_state >> 7, rng_state ^= rng_state << 17;
    return (uint32_t)(rng_state >> 32);
}
static void rnd_bytes(uint8_t *p, size_t n) {
    for (size_t i = 0; i < n; i++) p[i] = (uint8_t)rnd32();
}

static size_t gguf_row_bytes(const ie_format *f, uint32_t k) {
    return (size_t)k * f->gguf_bytes / (f->blocks * IE_BLOCK);
}

static void table_is_consistent(void **state) {
    (void)state;
    for (uint32_t i = 0; i < IE_F_COUNT; i++) {
        const ie_format *f = &ie_formats[i];
        assert_int_equal(f->id, i);
        assert_ptr_equal(ie_format_of_ggml(f->ggml_type), f);
        assert_int_equal(f->unit_words * 4, f->gguf_bytes * IE_TILE_ROWS); /* nothing widened */
        assert_int_equal(f->unit_words % 16, 0);
        const char *at = strstr(ie_format_list(), f->name);
        assert_non_null(at);
    }
    assert_null(ie_format_of_ggml(4));
    assert_null(ie_format_of_ggml(39));
    assert_null(ie_format_of_ggml(0xFFFFFFFFu));
}

/* Rows repacked in pieces of any size, at any first row, give the same matrix as one call; neighbours stay untouched;
 * the order of rows is kept; every bit of the source arrives (the unit holds the same multiset of bits). */
static void pieces_equal_whole(void **state) {
    (void)state;
    for (uint32_t i = 0; i < IE_F_COUNT; i++) {
        const ie_format *f = &ie_formats[i];
        uint32_t rows = 77, k = f->dot == IE_FLOAT ? 75 : f->blocks * IE_BLOCK * 3;
        size_t rb = gguf_row_bytes(f, k), bytes = (size_t)ie_mat_bytes(f, rows, k);
        uint8_t *src = malloc(rb * rows);
        uint32_t *a = calloc(1, bytes), *b = calloc(1, bytes);
        assert_true(src && a && b);
        rnd_bytes(src, rb * rows);
        ie_repack_rows(f, k, src, rows, 0, a);
        for (uint32_t r = 0, n; r < rows; r += n) {
            n = 1 + rnd32() % 9;
            if (n > rows - r) n = rows - r;
            ie_repack_rows(f, k, src + rb * r, n, r, b);
        }
        assert_memory_equal(a, b, bytes);
        uint64_t bits_src = 0, bits_unit = 0;
        for (size_t j = 0; j < rb * rows; j++) bits_src += (uint64_t)__builtin_popcount(src[j]);
        for (size_t j = 0; j < bytes / 4; j++) bits_unit += (uint64_t)__builtin_popcount(a[j]);
        assert_int_equal(bits_src, bits_unit);
        free(src), free(a), free(b);
    }
}

/* dequant gives the padding of a float row as zeros, and ie_dequant_row writes k floats and no more. */
static void float_tail(void **state) {
    (void)state;
    for (uint32_t k = 1; k <= 70; k++) {
        const ie_format *f = &ie_formats[IE_F_F16];
        uint8_t src[140];
        float out[72], unit[32];
        uint32_t *mat = calloc(1, (size_t)ie_mat_bytes(f, 3, k));
        assert_non_null(mat);
        for (uint32_t j = 0; j < k; j++) src[2 * j] = (uint8_t)j, src[2 * j + 1] = 0x3C;
        ie_repack_rows(f, k, src, 1, 2, mat);
        out[k] = 123.0f;
        ie_dequant_row(f, k, mat, 2, out);
        for (uint32_t j = 0; j < k; j++) assert_true(out[j] == 1.0f + (float)j / 1024.0f);
        assert_true(out[k] == 123.0f);
        f->dequant(mat + (size_t)ie_unit(0, ie_nsb(f, k) - 1, ie_nsb(f, k)) * f->unit_words, 2, unit);
        for (uint32_t j = (k - 1) % 32 + 1; j < 32; j++) assert_true(unit[j] == 0.0f);
        free(mat);
    }
}

/* IN of rows of k weights -> OUT of f32. */
static int convert(const char *name, const char *in, const char *out, uint32_t k, uint32_t row0) {
    const ie_format *f = NULL;
    for (uint32_t i = 0; i < IE_F_COUNT; i++)
        if (!strcmp(ie_formats[i].name, name)) f = &ie_formats[i];
    FILE *fi = fopen(in, "rb"), *fo = fopen(out, "wb");
    if (!f || !fi || !fo) return 2;
    fseek(fi, 0, SEEK_END);
    size_t bytes = (size_t)ftell(fi), rb = gguf_row_bytes(f, k);
    rewind(fi);
    uint32_t rows = (uint32_t)(bytes / rb);
    uint8_t *src = malloc(bytes);
    uint32_t *mat = calloc(1, (size_t)ie_mat_bytes(f, row0 + rows, k));
    float *x = malloc(k * sizeof *x);
    if (!src || !mat || !x || fread(src, 1, bytes, fi) != bytes) return 2;
    ie_repack_rows(f, k, src, rows, row0, mat);
    for (uint32_t r = 0; r < rows; r++) {
        ie_dequant_row(f, k, mat, row0 + r, x);
        if (fwrite(x, sizeof *x, k, fo) != k) return 2;
    }
    free(src), free(mat), free(x), fclose(fi);
    return fclose(fo) ? 2 : 0;
}

int main(int argc, char **argv) {
    if (argc == 6)
        return convert(argv[1], argv[2], argv[3], (uint32_t)strtoul(argv[4], NULL, 10),
                       (uint32_t)strtoul(argv[5], NULL, 10));
    const struct CMUnitTest tests[] = {cmocka_unit_test(table_is_consistent), cmocka_unit_test(pieces_equal_whole),
                                       cmocka_unit_test(float_tail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
