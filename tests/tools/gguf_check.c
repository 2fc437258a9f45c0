/* gguf_check [-v] FILE: opens a GGUF file or split set with the reader and prints a summary; with -v every key (bytes
 * in hexadecimal) and every tensor with a hash of its data. A file that is refused gives the reason on stderr and exit
 * code
 * 1. Tests hold its output against what they wrote. */
#include "gguf.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_hex(const void *p, uint64_t n) {
    const unsigned char *s = p;
    for (uint64_t i = 0; i < n; i++) printf("%02x", s[i]);
}

/* TYPE:bytes, or [ELEM N: ...] */
static void print_elements(ie_gguf_type type, uint64_t n, const void *data);

static void print_value(const ie_gguf_value *v) {
    if (v->type == GGUF_ARRAY) {
        printf("[%d %" PRIu64, (int)v->elem, v->n);
        print_elements(v->elem, v->n, v->data);
        printf("]");
    } else {
        printf("%d", (int)v->type);
        print_elements(v->type, v->n, v->data);
    }
}

static void print_elements(ie_gguf_type type, uint64_t n, const void *data) {
    static const unsigned char size[GGUF_NTYPES] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    for (uint64_t i = 0; i < n; i++) {
        putchar(' ');
        if (type == GGUF_STRING) {
            const ie_str *s = (const ie_str *)data + i;
            putchar('"');
            print_hex(s->s, s->len);
            if (s->s[s->len] != 0) fputs("(no NUL)", stdout);
        } else if (type == GGUF_ARRAY) {
            print_value((const ie_gguf_value *)data + i);
        } else {
            print_hex((const unsigned char *)data + i * size[type], size[type]);
        }
    }
}

/* FNV-1a of the tensor's data, read in pieces of an odd size. */
static ie_status hash_data(const ie_gguf *g, const ie_gguf_tensor *t, uint64_t *h, ie_error *err) {
    unsigned char buf[4099];
    *h = 0xcbf29ce484222325;
    for (uint64_t off = 0; off < t->bytes;) {
        uint64_t n = t->bytes - off < sizeof buf ? t->bytes - off : sizeof buf;
        ie_status st = ie_gguf_read(g, t, off, buf, n, err);
        if (st != IE_OK) return st;
        for (uint64_t i = 0; i < n; i++) *h = (*h ^ buf[i]) * 0x100000001b3;
        off += n;
    }
    return IE_OK;
}

static ie_status print_all(const ie_gguf *g, ie_error *err) {
    for (uint64_t i = 0; i < ie_gguf_n_kv(g); i++) {
        const ie_gguf_kv *kv = ie_gguf_kv_at(g, i);
        printf("key %s ", kv->key.s);
        print_value(&kv->value);
        putchar('\n');
    }
    for (uint64_t i = 0; i < ie_gguf_n_tensors(g); i++) {
        const ie_gguf_tensor *t = ie_gguf_tensor_at(g, i);
        uint64_t h;
        ie_status st = hash_data(g, t, &h, err);
        if (st != IE_OK) return st;
        printf("tensor %s %" PRIu32 " %" PRIu32 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu32 " %" PRIu64
               " %" PRIu64 " %016" PRIx64 "\n",
               t->name.s, t->type, t->n_dims, t->ne[0], t->ne[1], t->ne[2], t->ne[3], t->file, t->offset, t->bytes, h);
        ie_gguf_drop(g, t);
    }
    return IE_OK;
}

int main(int argc, char **argv) {
    bool verbose = argc == 3 && strcmp(argv[1], "-v") == 0;
    if (argc != 2 && !verbose) {
        fprintf(stderr, "usage: gguf_check [-v] FILE\n");
        return 2;
    }
    ie_error err;
    double t0 = ie_now();
    ie_gguf *g = ie_gguf_open(argv[argc - 1], &err);
    ie_status st = g ? IE_OK : err.code;
    if (g) {
        fprintf(stderr, "opened in %.1f ms\n", (ie_now() - t0) * 1e3);
        printf("keys %" PRIu64 " tensors %" PRIu64 " bytes %" PRIu64 "\n", ie_gguf_n_kv(g), ie_gguf_n_tensors(g),
               ie_gguf_file_bytes(g));
        if (verbose) st = print_all(g, &err);
    }
    ie_gguf_close(g);
    if (st != IE_OK) fprintf(stderr, "error: %s\n", err.msg);
    return st == IE_OK ? 0 : 1;
}
