/* libFuzzer target of the GGUF reader: any bytes are a file. What is accepted is walked completely and held against the
 * promises of src/gguf.h; a broken promise traps. Seeds: tests/fuzz/corpus/gguf, from tools/gguf_write.py --seeds. */
#include "gguf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CHECK(x)                                                                                                       \
    do {                                                                                                               \
        if (!(x)) __builtin_trap();                                                                                    \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile uint64_t sink; /* keeps the reads below */

static void touch(const void *p, uint64_t n) {
    uint64_t sum = 0;
    for (uint64_t i = 0; i < n; i++) sum += ((const unsigned char *)p)[i];
    sink += sum;
}

static void walk_value(const ie_gguf_value *v, int depth) {
    static const unsigned char bytes[GGUF_NTYPES] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    CHECK(v->type < GGUF_NTYPES && v->elem < GGUF_NTYPES && v->data && depth <= 4);
    ie_gguf_type elem = v->type == GGUF_ARRAY ? v->elem : v->type;
    CHECK(v->type == GGUF_ARRAY || v->n == 1);
    for (uint64_t i = 0; i < v->n; i++) {
        if (elem == GGUF_STRING) {
            const ie_str *s = (const ie_str *)v->data + i;
            touch(s->s, s->len);
            CHECK(s->s[s->len] == 0);
        } else if (elem == GGUF_ARRAY) {
            const ie_gguf_value *sub = (const ie_gguf_value *)v->data + i;
            CHECK(sub->type == GGUF_ARRAY);
            walk_value(sub, depth + 1);
        }
    }
    touch(v->data, v->n * bytes[elem]);
}

static void walk_key(const ie_gguf *g, const ie_gguf_kv *kv) {
    ie_error err;
    uint32_t u;
    float f;
    bool b;
    ie_str s;
    const ie_gguf_value *a;
    walk_value(&kv->value, 1);
    CHECK(ie_gguf_find(g, kv->key.s) == &kv->value);
    if (ie_gguf_u32(g, kv->key.s, 3, 70000, 0, &u, &err) == IE_OK) CHECK(u >= 3 && u <= 70000);
    if (ie_gguf_f32_req(g, kv->key.s, &f, &err) == IE_OK) CHECK(f - f == 0);
    (void)ie_gguf_bool(g, kv->key.s, true, &b, &err);
    (void)ie_gguf_str(g, kv->key.s, "", &s, &err);
    for (int t = 0; t < GGUF_NTYPES; t++)
        CHECK((ie_gguf_array(g, kv->key.s, (ie_gguf_type)t, &a, &err) == IE_OK) ==
              (kv->value.type == GGUF_ARRAY && (int)kv->value.elem == t));
}

static void walk_tensor(const ie_gguf *g, const ie_gguf_tensor *t, uint64_t size) {
    ie_error err;
    unsigned char buf[64];
    CHECK(ie_gguf_find_tensor(g, t->name.s) == t);
    CHECK(t->n_dims >= 1 && t->n_dims <= 4 && t->offset <= size && t->bytes <= size - t->offset);
    for (int d = 0; d < 4; d++) CHECK(t->ne[d] >= 1 && (d < (int)t->n_dims || t->ne[d] == 1));
    uint32_t len, bytes;
    CHECK(ie_ggml_type_block(t->type, &len, &bytes) == (t->bytes > 0));
    uint64_t n = t->bytes < sizeof buf ? t->bytes : sizeof buf;
    CHECK(ie_gguf_read(g, t, t->bytes - n, buf, n, &err) == IE_OK);
    CHECK(ie_gguf_read(g, t, t->bytes, buf, 1, &err) == IE_E_ARG);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    int fd = memfd_create("fuzz", 0);
    CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    ie_error err = {0};
    ie_gguf *g = ie_gguf_open(path, &err);
    CHECK(g || (err.code != IE_OK && err.msg[0]));
    if (g) {
        CHECK(ie_gguf_file_bytes(g) == size);
        for (uint64_t i = 0; i < ie_gguf_n_kv(g); i++) walk_key(g, ie_gguf_kv_at(g, i));
        for (uint64_t i = 0; i < ie_gguf_n_tensors(g); i++) walk_tensor(g, ie_gguf_tensor_at(g, i), size);
    }
    ie_gguf_close(g);
    close(fd);
    return 0;
}
