/* The GGUF reader on files built here byte by byte: look-ups, refusals with their messages, split sets, reading data.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gguf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- building files ---------------------------------------------------------------------------------------------- */

static char dir[] = "/tmp/ie-test-gguf-XXXXXX";

static void put(ie_buf *b, const void *p, size_t n) {
    assert_true(ie_buf_add(b, p, n, NULL));
}
static void put32(ie_buf *b, uint32_t v) {
    put(b, &v, 4);
}
static void put64(ie_buf *b, uint64_t v) {
    put(b, &v, 8);
}
static void put_str(ie_buf *b, const char *s) {
    put64(b, strlen(s));
    put(b, s, strlen(s));
}
static void put_header(ie_buf *b, uint64_t n_tensors, uint64_t n_kv) {
    put(b, "GGUF", 4);
    put32(b, 3);
    put64(b, n_tensors);
    put64(b, n_kv);
}
static void put_kv(ie_buf *b, const char *key, ie_gguf_type type, const void *value, size_t n) {
    put_str(b, key);
    put32(b, (uint32_t)type);
    put(b, value, n);
}
#define PUT_KV(b, key, type, T, v) put_kv(b, key, type, &(T){v}, sizeof(T))

static void put_tensor(ie_buf *b, const char *name, uint32_t type, uint64_t ne0, uint64_t ne1, uint64_t offset) {
    put_str(b, name);
    put32(b, 2);
    put64(b, ne0);
    put64(b, ne1);
    put32(b, type);
    put64(b, offset);
}
static void put_data(ie_buf *b, size_t n) { /* padding, then bytes 0, 1, 2 ... */
    while (b->len % 32) put(b, "", 1);
    for (size_t i = 0; i < n; i++) put(b, &(unsigned char){(unsigned char)i}, 1);
}

/* Writes the buffer to NAME in the test's directory, releases it, returns the path (valid until the next call). */
static const char *save(ie_buf *b, const char *name) {
    static char path[200];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(b->data ? b->data : "", 1, b->len, f), b->len);
    assert_int_equal(fclose(f), 0);
    ie_buf_free(b);
    return path;
}

static ie_gguf *open_ok(ie_buf *b, const char *name) {
    ie_error err = {0};
    ie_gguf *g = ie_gguf_open(save(b, name), &err);
    if (!g) fail_msg("%s", err.msg);
    return g;
}

static void refused_at(const char *path, ie_status code, const char *text) {
    ie_error err = {0};
    ie_gguf *g = ie_gguf_open(path, &err);
    assert_null(g);
    assert_int_equal(err.code, code);
    if (!strstr(err.msg, text)) fail_msg("\"%s\" does not say \"%s\"", err.msg, text);
    assert_null(ie_gguf_open(path, NULL));
}
static void refused(ie_buf *b, ie_status code, const char *text) {
    refused_at(save(b, "bad.gguf"), code, text);
}

/* ---- keys -------------------------------------------------------------------------------------------------------- */

static ie_gguf *open_scalars(void) {
    ie_buf b = {0};
    put_header(&b, 0, 16);
    PUT_KV(&b, "u8", GGUF_U8, uint8_t, 255);
    PUT_KV(&b, "i8", GGUF_I8, int8_t, -128);
    PUT_KV(&b, "u16", GGUF_U16, uint16_t, 65535);
    PUT_KV(&b, "i16", GGUF_I16, int16_t, 32767);
    PUT_KV(&b, "u32", GGUF_U32, uint32_t, UINT32_MAX);
    PUT_KV(&b, "i32", GGUF_I32, int32_t, -1);
    PUT_KV(&b, "u64", GGUF_U64, uint64_t, (uint64_t)1 << 32);
    PUT_KV(&b, "i64", GGUF_I64, int64_t, INT64_MIN);
    PUT_KV(&b, "small64", GGUF_I64, int64_t, 7);
    PUT_KV(&b, "f32", GGUF_F32, float, 0.1f);
    PUT_KV(&b, "inf", GGUF_F32, uint32_t, 0x7f800000);
    PUT_KV(&b, "nan", GGUF_F32, uint32_t, 0x7fc00000);
    PUT_KV(&b, "f64", GGUF_F64, double, 0.5);
    PUT_KV(&b, "big", GGUF_F64, double, 1e39);
    PUT_KV(&b, "true", GGUF_BOOL, uint8_t, 1);
    put_str(&b, "str");
    put32(&b, GGUF_STRING);
    put64(&b, 5);
    put(&b, "a\0\xff\nz", 5);
    return open_ok(&b, "scalars.gguf");
}

static void test_integers(void **state) {
    (void)state;
    ie_gguf *g = open_scalars();
    ie_error err = {0};
    uint32_t v = 0;
    static const struct {
        const char *key;
        uint32_t min, max, want;
        const char *error; /* NULL: want is the value */
    } cases[] = {
        {"u8", 0, UINT32_MAX, 255, NULL},
        {"u8", 255, 255, 255, NULL},
        {"u16", 0, 65535, 65535, NULL},
        {"i16", 0, 65535, 32767, NULL},
        {"u32", 0, UINT32_MAX, UINT32_MAX, NULL},
        {"small64", 7, 7, 7, NULL},
        {"absent", 50, 60, 5, NULL},
        {"u8", 0, 254, 0, "key 'u8' is 255, allowed are 0 .. 254"},
        {"small64", 8, 9, 0, "key 'small64' is 7, allowed are 8 .. 9"},
        {"i8", 0, UINT32_MAX, 0, "key 'i8' is -128, allowed are 0 .. 4294967295"},
        {"i32", 0, UINT32_MAX, 0, "is -1,"},
        {"u64", 0, UINT32_MAX, 0, "is 4294967296,"},
        {"i64", 0, UINT32_MAX, 0, "is -9223372036854775808,"},
        {"f32", 0, 1, 0, "'f32' is of type f32, an integer"},
        {"true", 0, 1, 0, "'true' is of type bool, an integer"},
        {"str", 0, 1, 0, "'str' is of type string, an integer"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ie_status st = ie_gguf_u32(g, cases[i].key, cases[i].min, cases[i].max, 5, &v, &err);
        if (!cases[i].error) {
            assert_int_equal(st, IE_OK);
            assert_int_equal(v, cases[i].want);
        } else {
            assert_int_equal(st, IE_E_FORMAT);
            if (!strstr(err.msg, cases[i].error)) fail_msg("\"%s\" does not say \"%s\"", err.msg, cases[i].error);
        }
    }
    assert_int_equal(ie_gguf_u32_req(g, "u8", 1, 300, &v, &err), IE_OK);
    assert_int_equal(v, 255);
    assert_int_equal(ie_gguf_u32_req(g, "absent", 1, 300, &v, &err), IE_E_FORMAT);
    assert_string_equal(err.msg, "scalars.gguf: key 'absent' is missing");
    ie_gguf_close(g);
}

static void test_other_scalars(void **state) {
    (void)state;
    ie_gguf *g = open_scalars();
    ie_error err = {0};
    float f = 0;
    bool t = false;
    ie_str s = {0};
    assert_int_equal(ie_gguf_f32(g, "f32", 0, &f, &err), IE_OK);
    assert_true(f == 0.1f);
    assert_int_equal(ie_gguf_f32(g, "f64", 0, &f, &err), IE_OK);
    assert_true(f == 0.5f);
    assert_int_equal(ie_gguf_f32(g, "absent", 3, &f, &err), IE_OK);
    assert_true(f == 3);
    assert_int_equal(ie_gguf_f32_req(g, "absent", &f, &err), IE_E_FORMAT);
    assert_int_equal(ie_gguf_f32_req(g, "inf", &f, &err), IE_E_FORMAT);
    assert_non_null(strstr(err.msg, "key 'inf' is inf"));
    assert_int_equal(ie_gguf_f32(g, "nan", 0, &f, &err), IE_E_FORMAT);
    assert_int_equal(ie_gguf_f32(g, "big", 0, &f, &err), IE_E_FORMAT);
    assert_int_equal(ie_gguf_f32(g, "u8", 0, &f, &err), IE_E_FORMAT);
    assert_non_null(strstr(err.msg, "key 'u8' is of type u8, a float"));

    assert_int_equal(ie_gguf_bool(g, "true", false, &t, &err), IE_OK);
    assert_true(t);
    assert_int_equal(ie_gguf_bool(g, "absent", true, &t, &err), IE_OK);
    assert_true(t);
    assert_int_equal(ie_gguf_bool(g, "u8", true, &t, &err), IE_E_FORMAT);

    assert_int_equal(ie_gguf_str(g, "str", NULL, &s, &err), IE_OK);
    assert_int_equal(s.len, 5);
    assert_memory_equal(s.s, "a\0\xff\nz", 6); /* with the NUL behind it */
    assert_int_equal(ie_gguf_str(g, "absent", "dflt", &s, &err), IE_OK);
    assert_string_equal(s.s, "dflt");
    assert_int_equal(ie_gguf_str(g, "absent", NULL, &s, &err), IE_OK);
    assert_null(s.s);
    assert_int_equal(s.len, 0);
    assert_int_equal(ie_gguf_str_req(g, "absent", &s, &err), IE_E_FORMAT);
    assert_int_equal(ie_gguf_str_req(g, "f32", &s, &err), IE_E_FORMAT);

    assert_null(ie_gguf_find(g, "absent"));
    assert_null(ie_gguf_find(g, ""));
    assert_int_equal(ie_gguf_find(g, "i64")->type, GGUF_I64);
    assert_null(ie_gguf_kv_at(g, 16));
    assert_string_equal(ie_gguf_kv_at(g, 15)->key.s, "str");
    ie_gguf_close(g);
}

static void put_array_head(ie_buf *b, const char *key, ie_gguf_type elem, uint64_t n) {
    put_str(b, key);
    put32(b, GGUF_ARRAY);
    put32(b, (uint32_t)elem);
    put64(b, n);
}

static void test_arrays(void **state) {
    (void)state;
    ie_buf b = {0};
    put_header(&b, 0, 4);
    put_array_head(&b, "s", GGUF_STRING, 3);
    put_str(&b, "one");
    put_str(&b, "");
    put_str(&b, "three");
    put_array_head(&b, "i", GGUF_I32, 2);
    put(&b, (int32_t[]){-1, 9}, 8);
    put_array_head(&b, "none", GGUF_F32, 0);
    put_array_head(&b, "deep", GGUF_ARRAY, 2); /* {{u8 1 2}, {strings "x"}} */
    put32(&b, GGUF_U8);
    put64(&b, 2);
    put(&b, "\1\2", 2);
    put32(&b, GGUF_STRING);
    put64(&b, 1);
    put_str(&b, "x");
    ie_gguf *g = open_ok(&b, "arrays.gguf");
    ie_error err = {0};
    const ie_gguf_value *v;
    assert_int_equal(ie_gguf_array(g, "s", GGUF_STRING, &v, &err), IE_OK);
    assert_int_equal(v->n, 3);
    const ie_str *s = v->data;
    assert_string_equal(s[0].s, "one");
    assert_int_equal(s[1].len, 0);
    assert_string_equal(s[2].s, "three");
    assert_int_equal(ie_gguf_array(g, "i", GGUF_I32, &v, &err), IE_OK);
    assert_memory_equal(v->data, ((int32_t[]){-1, 9}), 8);
    assert_int_equal(ie_gguf_array(g, "none", GGUF_F32, &v, &err), IE_OK);
    assert_int_equal(v->n, 0);
    assert_non_null(v->data);
    assert_int_equal(ie_gguf_array(g, "absent", GGUF_F32, &v, &err), IE_OK);
    assert_null(v);
    assert_int_equal(ie_gguf_array(g, "i", GGUF_U32, &v, &err), IE_E_FORMAT);
    assert_string_equal(err.msg, "arrays.gguf: key 'i' is an array of i32, an array of u32 is needed");
    assert_null(v);
    uint32_t u;
    assert_int_equal(ie_gguf_u32(g, "i", 0, 9, 0, &u, &err), IE_E_FORMAT);
    assert_int_equal(ie_gguf_array(g, "deep", GGUF_ARRAY, &v, &err), IE_OK);
    const ie_gguf_value *sub = v->data;
    assert_int_equal(sub[0].elem, GGUF_U8);
    assert_memory_equal(sub[0].data, "\1\2", 2);
    assert_int_equal(sub[1].elem, GGUF_STRING);
    assert_string_equal(((const ie_str *)sub[1].data)->s, "x");
    ie_gguf_close(g);
}

/* Arrays within arrays: 4 levels are read, 5 are not. */
static void test_depth(void **state) {
    (void)state;
    for (int depth = 4; depth <= 5; depth++) {
        ie_buf b = {0};
        put_header(&b, 0, 1);
        put_str(&b, "k");
        put32(&b, GGUF_ARRAY);
        for (int i = 1; i < depth; i++) {
            put32(&b, GGUF_ARRAY);
            put64(&b, 1);
        }
        put32(&b, GGUF_U8);
        put64(&b, 1);
        put(&b, "x", 1);
        if (depth == 4)
            ie_gguf_close(open_ok(&b, "deep.gguf"));
        else
            refused(&b, IE_E_FORMAT, "key 1 'k': arrays are nested more than 4 deep");
    }
}

static void test_bad_keys(void **state) {
    (void)state;
    ie_buf b = {0};
    put_header(&b, 0, 2);
    PUT_KV(&b, "twice", GGUF_U8, uint8_t, 1);
    PUT_KV(&b, "twice", GGUF_U8, uint8_t, 1);
    refused(&b, IE_E_FORMAT, "key 2 'twice': duplicate, it is also key 1");
    put_header(&b, 0, 1);
    PUT_KV(&b, "b", GGUF_BOOL, uint8_t, 2);
    refused(&b, IE_E_FORMAT, "key 1 'b': bool value is 2");
    put_header(&b, 0, 1);
    PUT_KV(&b, "t", (ie_gguf_type)13, uint8_t, 2);
    refused(&b, IE_E_FORMAT, "key 1 't': value type is 13");
    put_header(&b, 0, 1);
    PUT_KV(&b, "", GGUF_U32, uint32_t, 2);
    refused(&b, IE_E_FORMAT, "key 1: key is empty");
    put_header(&b, 0, 1);
    put64(&b, 3);
    put(&b, "a\0b", 3);
    put(&b, "\0\0\0\0\1", 5);
    refused(&b, IE_E_FORMAT, "NUL");
    put_header(&b, 0, 1);
    put_array_head(&b, "a", GGUF_STRING, (uint64_t)1 << 63);
    put64(&b, 0);
    refused(&b, IE_E_FORMAT, "key 1 'a': array length is 9223372036854775808, but 8 bytes");
    put_header(&b, 0, 1);
    put_array_head(&b, "a", (ie_gguf_type)99, 1);
    put64(&b, 0);
    refused(&b, IE_E_FORMAT, "key 1 'a': array element type is 99");
    for (uint32_t i = 0; i < 4; i++) {
        static const uint32_t bad[] = {0, 3, 1 << 30, 4};
        put_header(&b, 0, 1);
        PUT_KV(&b, "general.alignment", GGUF_U32, uint32_t, bad[i]);
        refused(&b, IE_E_FORMAT, "key 'general.alignment' is ");
    }
}

/* Many names, all found again. */
static void test_many(void **state) {
    (void)state;
    enum { N = 5000 };
    ie_buf b = {0};
    char name[32];
    put_header(&b, N, N);
    for (uint32_t i = 0; i < N; i++) {
        snprintf(name, sizeof name, "key.%u", i);
        PUT_KV(&b, name, GGUF_U32, uint32_t, i);
    }
    for (uint32_t i = 0; i < N; i++) {
        snprintf(name, sizeof name, "blk.%u.weight", i);
        put_tensor(&b, name, 24, 1, 1, 32 * (N - 1 - i)); /* in descending order of offsets */
    }
    put_data(&b, 32 * N);
    ie_gguf *g = open_ok(&b, "many.gguf");
    for (uint32_t i = 0; i < N; i++) {
        uint32_t v;
        snprintf(name, sizeof name, "key.%u", i);
        assert_int_equal(ie_gguf_u32_req(g, name, 0, N, &v, NULL), IE_OK);
        assert_int_equal(v, i);
        snprintf(name, sizeof name, "blk.%u.weight", i);
        assert_ptr_equal(ie_gguf_find_tensor(g, name), ie_gguf_tensor_at(g, i));
        assert_string_equal(ie_gguf_tensor_at(g, i)->name.s, name);
    }
    assert_null(ie_gguf_find_tensor(g, "blk.5000.weight"));
    assert_null(ie_gguf_tensor_at(g, N));
    ie_gguf_close(g);
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

static void test_read(void **state) {
    (void)state;
    ie_buf b = {0};
    put_header(&b, 2, 0);
    put_tensor(&b, "a", 0, 5, 2, 0);   /* F32, 40 bytes */
    put_tensor(&b, "b", 2, 64, 3, 64); /* Q4_0, 108 bytes */
    put_data(&b, 64 + 108);
    uint64_t size = b.len;
    ie_gguf *g = open_ok(&b, "read.gguf");
    ie_error err = {0};
    const ie_gguf_tensor *t = ie_gguf_find_tensor(g, "b");
    assert_int_equal(t->bytes, 108);
    assert_int_equal(t->offset, size - 108);
    assert_int_equal(t->ne[0], 64);
    assert_int_equal(t->ne[1], 3);
    assert_int_equal(t->ne[2], 1);
    assert_int_equal(ie_gguf_file_bytes(g), size);
    unsigned char buf[108];
    assert_int_equal(ie_gguf_read(g, t, 10, buf, 98, &err), IE_OK);
    for (int i = 0; i < 98; i++) assert_int_equal(buf[i], 64 + 10 + i);
    assert_int_equal(ie_gguf_read(g, t, 108, buf, 0, &err), IE_OK);
    assert_int_equal(ie_gguf_read(g, t, 1, buf, 108, &err), IE_E_ARG);
    assert_int_equal(ie_gguf_read(g, t, 109, buf, 0, &err), IE_E_ARG);
    assert_int_equal(ie_gguf_read(g, t, UINT64_MAX, buf, 2, &err), IE_E_ARG);
    assert_non_null(strstr(err.msg, "tensor 'b': 2 bytes from byte 18446744073709551615"));
    ie_gguf_drop(g, t);
    char path[200];
    snprintf(path, sizeof path, "%s/read.gguf", dir);
    assert_int_equal(truncate(path, (off_t)size - 1), 0);
    assert_int_equal(ie_gguf_read(g, t, 0, buf, 107, &err), IE_OK);
    assert_int_equal(ie_gguf_read(g, t, 0, buf, 108, &err), IE_E_IO);
    assert_non_null(strstr(err.msg, "read.gguf: the file ends at byte"));
    ie_gguf_close(g);
    refused_at(path, IE_E_FORMAT, "tensor 2 'b': tensor offset 64 and size 108 lead past the end");
}

static void test_unknown_type(void **state) {
    (void)state;
    ie_buf b = {0};
    put_header(&b, 2, 0);
    put_tensor(&b, "x", 255, 7, 3, 0);
    put_tensor(&b, "y", 39, 32, 1, 32);
    put_data(&b, 49);
    ie_gguf *g = open_ok(&b, "unknown.gguf");
    const ie_gguf_tensor *t = ie_gguf_find_tensor(g, "x");
    char c;
    assert_int_equal(t->type, 255);
    assert_int_equal(t->bytes, 0);
    assert_int_equal(ie_gguf_read(g, t, 0, &c, 1, NULL), IE_E_ARG);
    assert_int_equal(ie_gguf_find_tensor(g, "y")->bytes, 17);
    ie_gguf_close(g);
}

static void put_dims(ie_buf *b, uint32_t type, uint32_t n_dims, const uint64_t *ne, uint64_t offset) {
    put_header(b, 1, 0);
    put_str(b, "t");
    put32(b, n_dims);
    for (uint32_t i = 0; i < n_dims; i++) put64(b, ne[i]);
    put32(b, type);
    put64(b, offset);
    put_data(b, 256);
}

static void test_bad_tensors(void **state) {
    (void)state;
    static const struct {
        uint32_t type, n_dims;
        uint64_t ne[5], offset;
        const char *error;
    } cases[] = {
        {0, 0, {0}, 0, "tensor 1 't': number of dimensions is 0"},
        {0, 5, {1, 1, 1, 1, 1}, 0, "tensor 1 't': number of dimensions is 5"},
        {0, 2, {4, 0}, 0, "tensor 1 't': dimension 1 is 0"},
        {0, 1, {0}, 0, "tensor 1 't': dimension 0 is 0"},
        {255, 1, {0}, 0, "tensor 1 't': dimension 0 is 0"},
        {0, 2, {(uint64_t)1 << 32, (uint64_t)1 << 32}, 0, "dimension 1 is 4294967296, which takes"},
        {255, 2, {(uint64_t)1 << 32, (uint64_t)1 << 31}, 0, "dimension 1 is 2147483648, which takes"},
        {0, 4, {1 << 16, 1 << 16, 1 << 16, 1 << 16}, 0, "dimension 3 is 65536, which takes"},
        {0, 2, {(uint64_t)1 << 31, (uint64_t)1 << 31}, 0, "4611686018427387904 elements of F32 are 2^63 bytes"},
        {28, 1, {(uint64_t)1 << 60}, 0, "1152921504606846976 elements of F64 are 2^63 bytes"},
        {12, 2, {255, 2}, 0, "row length 255 is not a multiple of 256, the block length of Q4_K"},
        {0, 1, {4}, UINT64_MAX - 31, "tensor offset 18446744073709551584 and size 16 lead past the end"},
        {0, 1, {4}, 256, "tensor offset 256 and size 16 lead past the end"},
        {0, 1, {65}, 0, "tensor offset 0 and size 260 lead past the end"},
        {0, 1, {4}, 16, "tensor offset 16 is not a multiple of the alignment, 32"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ie_buf b = {0};
        put_dims(&b, cases[i].type, cases[i].n_dims, cases[i].ne, cases[i].offset);
        refused(&b, IE_E_FORMAT, cases[i].error);
    }
    ie_buf b = {0};
    put_header(&b, 3, 0);
    put_tensor(&b, "a", 0, 32, 1, 64);
    put_tensor(&b, "b", 0, 4, 1, 0);
    put_tensor(&b, "c", 0, 4, 1, 160);
    put_data(&b, 192);
    refused(&b, IE_E_FORMAT, "tensors 'a' (bytes");
    put_header(&b, 2, 0);
    put_tensor(&b, "a", 0, 4, 1, 0);
    put_tensor(&b, "a", 0, 4, 1, 32);
    put_data(&b, 64);
    refused(&b, IE_E_FORMAT, "tensor 'a' is a duplicate, it is also in the same file");
}

static void test_header(void **state) {
    (void)state;
    ie_buf b = {0};
    refused(&b, IE_E_FORMAT, "bad.gguf: header: magic needs 4 bytes at byte 0, the file has 0 more");
    put(&b, "GGML\3\0\0\0", 8);
    refused(&b, IE_E_FORMAT, "header: magic is 47 47 4d 4c");
    static const uint32_t versions[] = {0, 1, 2, 4};
    for (int i = 0; i < 4; i++) {
        put(&b, "GGUF", 4);
        put32(&b, versions[i]);
        put64(&b, 0);
        put64(&b, 0);
        refused(&b, IE_E_UNSUPPORTED, "header: version is");
    }
    put(&b, "GGUF\0\0\0\3", 8);
    refused(&b, IE_E_UNSUPPORTED, "big-endian");
    put_header(&b, (uint64_t)1 << 58, 0);
    refused(&b, IE_E_FORMAT, "header: tensor count is 288230376151711744");
    put_header(&b, 0, (uint64_t)1 << 58);
    refused(&b, IE_E_FORMAT, "header: key count is 288230376151711744");
    refused_at("/nonexistent/x.gguf", IE_E_IO, "/nonexistent/x.gguf: cannot be opened");
    refused_at(dir, IE_E_IO, "is a directory");
    refused_at("/dev/null", IE_E_IO, "/dev/null: is a device or pipe");
    refused_at("", IE_E_IO, "cannot be opened");
    ie_gguf_close(NULL);
}

/* ---- split sets -------------------------------------------------------------------------------------------------- */

static void save_part(uint32_t no, uint32_t count, uint32_t tensors, const char *tensor, const char *name) {
    ie_buf b = {0};
    put_header(&b, 1, 4);
    PUT_KV(&b, "split.no", GGUF_U16, uint16_t, (uint16_t)no);
    PUT_KV(&b, "split.count", GGUF_U16, uint16_t, (uint16_t)count);
    PUT_KV(&b, "split.tensors.count", GGUF_I32, int32_t, (int32_t)tensors);
    PUT_KV(&b, "part", GGUF_U32, uint32_t, no);
    put_tensor(&b, tensor, 24, 4, 1, 0);
    put_data(&b, 4 + no);
    save(&b, name);
}

static void save_set(const char *third) {
    save_part(0, 3, 3, "t0", "s-00001-of-00003.gguf");
    save_part(1, 3, 3, "t1", "s-00002-of-00003.gguf");
    save_part(2, 3, 3, third, "s-00003-of-00003.gguf");
}

static void test_split(void **state) {
    (void)state;
    char path[3][200];
    for (int i = 0; i < 3; i++) snprintf(path[i], sizeof path[i], "%s/s-0000%d-of-00003.gguf", dir, i + 1);
    save_set("t2");
    for (int i = 0; i < 3; i++) { /* any part stands for the set */
        ie_error err = {0};
        ie_gguf *g = ie_gguf_open(path[i], &err);
        if (!g) fail_msg("%s", err.msg);
        uint32_t v;
        unsigned char c[4];
        assert_int_equal(ie_gguf_n_tensors(g), 3);
        assert_int_equal(ie_gguf_n_kv(g), 4);
        assert_int_equal(ie_gguf_u32_req(g, "part", 0, 9, &v, &err), IE_OK);
        assert_int_equal(v, 0);
        const ie_gguf_tensor *t = ie_gguf_find_tensor(g, "t2");
        assert_int_equal(t->file, 2);
        assert_int_equal(ie_gguf_read(g, t, 0, c, 4, &err), IE_OK);
        assert_memory_equal(c, "\0\1\2\3", 4);
        ie_gguf_close(g);
    }
    save_set("t0");
    refused_at(path[0], IE_E_FORMAT,
               "s-00003-of-00003.gguf: tensor 't0' is a duplicate, it is also in s-00001-of-00003.gguf");
    save_part(1, 3, 3, "t2", "s-00003-of-00003.gguf");
    refused_at(path[0], IE_E_FORMAT, "s-00003-of-00003.gguf: says split.no 1, ");
    save_part(2, 4, 3, "t2", "s-00003-of-00003.gguf");
    refused_at(path[0], IE_E_FORMAT, "s-00003-of-00003.gguf: says split.no 2, split.count 4");
    save_set("t2");
    assert_int_equal(unlink(path[1]), 0);
    refused_at(path[0], IE_E_IO, "s-00002-of-00003.gguf: cannot be opened: No such file");
    refused_at(path[2], IE_E_IO, "s-00002-of-00003.gguf: cannot be opened: No such file");
    save_part(1, 3, 3, "t1", "s-00001-of-00003.gguf");
    refused_at(path[0], IE_E_FORMAT, "s-00001-of-00003.gguf: key 'split.no' is 1, the first part must say 0");
    save_part(0, 2, 4, "t0", "m-00001-of-00002.gguf");
    save_part(1, 2, 4, "t1", "m-00002-of-00002.gguf");
    char set[200];
    snprintf(set, sizeof set, "%s/m-00001-of-00002.gguf", dir);
    refused_at(set, IE_E_FORMAT, "key 'split.tensors.count' is 4, the set holds 2 tensors");
    save_part(0, 2, 2, "t0", "plain.gguf");
    snprintf(set, sizeof set, "%s/plain.gguf", dir);
    refused_at(set, IE_E_FORMAT,
               "plain.gguf: key 'split.count' is 2, but the name does not end in -0000K-of-00002.gguf");
    save_part(0, 1, 1, "t0", "plain.gguf"); /* a set of one needs no such name, nor do merged files (count 0) */
    ie_gguf *g = ie_gguf_open(set, NULL);
    assert_non_null(g);
    ie_gguf_close(g);
    save_part(0, 0, 9, "t0", "plain.gguf");
    assert_non_null(g = ie_gguf_open(set, NULL));
    ie_gguf_close(g);
}

/* ---- types ------------------------------------------------------------------------------------------------------- */

static void test_types(void **state) {
    (void)state;
    uint32_t len, bytes;
    unsigned known = 0;
    assert_string_equal(ie_ggml_type_name(12), "Q4_K");
    assert_true(ie_ggml_type_block(12, &len, &bytes));
    assert_int_equal(len, 256);
    assert_int_equal(bytes, 144);
    static const uint32_t gone[] = {4, 5, 31, 32, 33, 36, 37, 38, 43, 255, UINT32_MAX};
    for (size_t i = 0; i < sizeof gone / sizeof *gone; i++) {
        assert_null(ie_ggml_type_name(gone[i]));
        assert_false(ie_ggml_type_block(gone[i], &len, &bytes));
    }
    for (uint32_t t = 0; t < 300; t++) {
        assert_int_equal(ie_ggml_type_name(t) != NULL, ie_ggml_type_block(t, &len, &bytes));
        known += ie_ggml_type_name(t) != NULL;
    }
    assert_int_equal(known, 35);
}

static int make_dir(void **state) {
    (void)state;
    return mkdtemp(dir) ? 0 : -1;
}
static int remove_dir(void **state) {
    (void)state;
    char cmd[100];
    snprintf(cmd, sizeof cmd, "rm -r '%s'", dir);
    return system(cmd) == 0 ? 0 : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_integers), cmocka_unit_test(test_other_scalars), cmocka_unit_test(test_arrays),
        cmocka_unit_test(test_depth),    cmocka_unit_test(test_bad_keys),      cmocka_unit_test(test_many),
        cmocka_unit_test(test_read),     cmocka_unit_test(test_unknown_type),  cmocka_unit_test(test_bad_tensors),
        cmocka_unit_test(test_header),   cmocka_unit_test(test_split),         cmocka_unit_test(test_types),
    };
    return cmocka_run_group_tests_name("gguf", tests, make_dir, remove_dir);
}
