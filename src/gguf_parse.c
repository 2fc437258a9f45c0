/* Parser of one GGUF file: header, metadata, tensor directory. Layout (little-endian, nothing is padded):
 *
 *     "GGUF"  u32 version  u64 tensors  u64 keys
 *     keys    x { string key, u32 type, value }        string = u64 length, bytes; array = u32 type, u64 n, n values
 *     tensors x { string name, u32 n_dims, u64 dims[n_dims], u32 type, u64 offset }
 *     zeros up to a multiple of general.alignment, then the data that offsets count from
 *
 * Every count is held against the bytes that are left in the file before memory is asked for, so that memory stays
 * within a small factor of what is really there, and below IE_GGUF_META_MAX in any case. */
#include "gguf_int.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "arrays are handed out as they lie in the file");

enum {
    VERSION = 3,
    MAX_DEPTH = 4,    /* of arrays within arrays */
    MAX_NAME = 65535, /* bytes of a key or tensor name */
    MIN_KV = 8 + 1 + 4 + 1,
    MIN_TENSOR = 8 + 1 + 4 + 8 + 4 + 8,
    DEFAULT_ALIGNMENT = 32,
    MAX_ALIGNMENT = 1 << 20,
    BUF = 1 << 16,
};

/* Bytes of the smallest value of each type in the file. */
static const uint8_t min_size[GGUF_NTYPES] = {1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8};
/* Bytes of one array element in memory. */
static const uint8_t mem_size[GGUF_NTYPES] = {1, 1, 2, 2, 4, 4, 4, 1, sizeof(ie_str), sizeof(ie_gguf_value), 8, 8, 8};

typedef struct {
    const ie_gguf_file *f;
    uint64_t pos; /* of the next byte to hand out */
    unsigned char *buf;
    size_t at, have; /* buf[at .. have) are the file's bytes from pos on */
    ie_gguf_arena *arena;
    /* Where we are, for messages: "header", "key" or "tensor", its number and, once read, its name. */
    const char *part;
    uint64_t number;
    ie_str name;
    ie_error *err;
} reader;

static uint64_t left(const reader *r) {
    return r->f->size - r->pos;
}

/* FILE: key 12 'NAME': TEXT */
static ie_status fail(const reader *r, ie_status code, const char *fmt, ...) IE_PRINTF(3, 4);
static ie_status fail(const reader *r, ie_status code, const char *fmt, ...) {
    char text[300], num[24] = "";
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (r->number) snprintf(num, sizeof num, " %" PRIu64, r->number);
    if (r->name.s)
        return ie_fail(r->err, code, "%s: %s%s '%.*s': %s", r->f->label, r->part, num, ie_gguf_show(r->name), r->name.s,
                       text);
    return ie_fail(r->err, code, "%s: %s%s: %s", r->f->label, r->part, num, text);
}
#ifdef __clang_analyzer__ /* which does not enter variadic functions (base.h) */
#define fail(r, code, ...) ((void)(r), ie_uses(__VA_ARGS__), (code))
#endif

/* ---- reading ----------------------------------------------------------------------------------------------------- */

ie_status ie_gguf_pread(const ie_gguf_file *f, uint64_t off, void *dst, uint64_t n, ie_error *err) {
    unsigned char *p = dst;
    for (uint64_t done = 0; done < n;) {
        uint64_t want = n - done < (1 << 30) ? n - done : 1 << 30;
        ssize_t got = pread(f->fd, p + done, (size_t)want, (off_t)(off + done));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0)
            return ie_fail(err, IE_E_IO, "%s: reading at byte %" PRIu64 ": %s", f->label, off + done, strerror(errno));
        if (got == 0)
            return ie_fail(err, IE_E_IO,
                           "%s: the file ends at byte %" PRIu64 ", it had %" PRIu64 " bytes when it was opened",
                           f->label, off + done, f->size);
        done += (uint64_t)got;
    }
    return IE_OK;
}

/* Takes n bytes of the file, which belong to the named field. */
static ie_status take(reader *r, void *dst, uint64_t n, const char *field) {
    if (n > left(r))
        return fail(r, IE_E_FORMAT,
                    "%s needs %" PRIu64 " bytes at byte %" PRIu64 ", the file has %" PRIu64
                    " more: it is cut short or damaged",
                    field, n, r->pos, left(r));
    unsigned char *p = dst;
    while (n) {
        if (r->at == r->have) {
            if (n >= BUF) { /* large arrays go straight to their place */
                ie_status st = ie_gguf_pread(r->f, r->pos, p, n, r->err);
                if (st == IE_OK) r->pos += n;
                return st;
            }
            uint64_t want = left(r) < BUF ? left(r) : BUF;
            ie_status st = ie_gguf_pread(r->f, r->pos, r->buf, want, r->err);
            if (st != IE_OK) return st;
            r->at = 0;
            r->have = (size_t)want;
        }
        size_t m = r->have - r->at < n ? r->have - r->at : (size_t)n;
        memcpy(p, r->buf + r->at, m);
        r->at += m;
        r->pos += m;
        p += m;
        n -= m;
    }
    return IE_OK;
}

static ie_status take_u32(reader *r, uint32_t *v, const char *field) {
    return take(r, v, 4, field);
}
static ie_status take_u64(reader *r, uint64_t *v, const char *field) {
    return take(r, v, 8, field);
}

static void *mem(reader *r, uint64_t n, uint64_t size, size_t align, const char *field) {
    ie_status why;
    void *p = ie_gguf_alloc(r->arena, n, size, align, &why);
    if (!p && why == IE_E_NOMEM)
        fail(r, why, "%s: no memory for %" PRIu64 " elements of %" PRIu64 " bytes", field, n, size);
    else if (!p)
        fail(r, why, "%s: %" PRIu64 " elements of %" PRIu64 " bytes would take the metadata over %" PRIu64 " MiB",
             field, n, size, IE_GGUF_META_MAX >> 20);
    return p;
}

static ie_status take_string(reader *r, ie_str *s, uint64_t max, const char *field) {
    uint64_t len;
    ie_status st = take_u64(r, &len, field);
    if (st != IE_OK) return st;
    if (len > left(r))
        return fail(r, IE_E_FORMAT, "%s: length %" PRIu64 " at byte %" PRIu64 ", the file has %" PRIu64 " more bytes",
                    field, len, r->pos - 8, left(r));
    if (len > max)
        return fail(r, IE_E_FORMAT, "%s: length %" PRIu64 ", at most %" PRIu64 " is allowed", field, len, max);
    char *p = mem(r, len + 1, 1, 1, field);
    if (!p) return r->err->code;
    st = take(r, p, len, field);
    p[len] = 0;
    *s = (ie_str){p, len};
    return st;
}

/* A key or a tensor's name: looked up as a C string, so without NUL. Also names the place in later messages. */
static ie_status take_name(reader *r, ie_str *s, const char *field) {
    ie_status st = take_string(r, s, MAX_NAME, field);
    if (st != IE_OK) return st;
    if (s->len == 0) return fail(r, IE_E_FORMAT, "%s is empty", field);
    if (memchr(s->s, 0, s->len)) return fail(r, IE_E_FORMAT, "%s '%s...' holds a NUL byte", field, s->s);
    r->name = *s;
    return IE_OK;
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

static ie_status take_type(reader *r, ie_gguf_type *type, const char *field) {
    uint32_t v;
    ie_status st = take_u32(r, &v, field);
    if (st != IE_OK) return st;
    if (v >= GGUF_NTYPES)
        return fail(r, IE_E_FORMAT, "%s is %" PRIu32 ", allowed are 0 .. %d", field, v, GGUF_NTYPES - 1);
    *type = (ie_gguf_type)v;
    return IE_OK;
}

/* n values of a type that is neither string nor array. */
static ie_status take_plain(reader *r, ie_gguf_type type, uint64_t n, const void **data) {
    uint8_t *p = mem(r, n, mem_size[type], 8, "value");
    if (!p) return r->err->code;
    ie_status st = take(r, p, n * mem_size[type], "value");
    if (st != IE_OK) return st;
    *data = p;
    if (type != GGUF_BOOL) return IE_OK;
    for (uint64_t i = 0; i < n; i++)
        if (p[i] > 1) return fail(r, IE_E_FORMAT, "bool value is %d, allowed are 0 and 1", p[i]);
    return IE_OK;
}

static ie_status take_array(reader *r, int depth, ie_gguf_value *v) {
    ie_status st = take_type(r, &v->elem, "array element type");
    if (st == IE_OK) st = take_u64(r, &v->n, "array length");
    if (st != IE_OK) return st;
    if (v->n > left(r) / min_size[v->elem])
        return fail(r, IE_E_FORMAT,
                    "array length is %" PRIu64 ", but %" PRIu64 " bytes of the file are left for elements "
                    "(%s) of at least %d",
                    v->n, left(r), ie_gguf_type_text(v->elem), min_size[v->elem]);
    if (v->elem == GGUF_STRING) {
        ie_str *s = mem(r, v->n, sizeof *s, 8, "array length");
        if (!s) return r->err->code;
        v->data = s;
        for (uint64_t i = 0; i < v->n && st == IE_OK; i++) st = take_string(r, s + i, UINT64_MAX, "string in an array");
        return st;
    }
    if (v->elem != GGUF_ARRAY) return take_plain(r, v->elem, v->n, &v->data);
    if (depth == MAX_DEPTH) return fail(r, IE_E_FORMAT, "arrays are nested more than %d deep", MAX_DEPTH);
    ie_gguf_value *sub = mem(r, v->n, sizeof *sub, 8, "array length");
    if (!sub) return r->err->code;
    v->data = sub;
    for (uint64_t i = 0; i < v->n && st == IE_OK; i++) {
        sub[i].type = GGUF_ARRAY;
        st = take_array(r, depth + 1, sub + i);
    }
    return st;
}

static ie_status take_kv(reader *r, ie_gguf_kv *kv) {
    ie_status st = take_name(r, &kv->key, "key");
    if (st == IE_OK) st = take_type(r, &kv->value.type, "value type");
    if (st != IE_OK) return st;
    ie_gguf_value *v = &kv->value;
    if (v->type == GGUF_ARRAY) return take_array(r, 1, v);
    v->elem = v->type;
    v->n = 1;
    if (v->type != GGUF_STRING) return take_plain(r, v->type, 1, &v->data);
    ie_str *s = mem(r, 1, sizeof *s, 8, "value");
    if (!s) return r->err->code;
    v->data = s;
    return take_string(r, s, UINT64_MAX, "string value");
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

/* Data bytes from shape and type; 0 for unknown types. Checks the shape. */
static ie_status size_tensor(const reader *r, ie_gguf_tensor *t) {
    uint64_t elements = 1, rows = 1, bytes;
    for (uint32_t d = 0; d < t->n_dims; d++) {
        if (t->ne[d] == 0) return fail(r, IE_E_FORMAT, "dimension %" PRIu32 " is 0, at least 1 is needed", d);
        if (!ie_mul_u64(elements, t->ne[d], &elements) || elements > INT64_MAX)
            return fail(r, IE_E_FORMAT,
                        "dimension %" PRIu32 " is %" PRIu64 ", which takes the number of elements to 2^63 or more", d,
                        t->ne[d]);
        if (d > 0) rows *= t->ne[d];
    }
    uint32_t len, block;
    if (!ie_ggml_type_block(t->type, &len, &block)) return IE_OK;
    if (t->ne[0] % len)
        return fail(r, IE_E_FORMAT, "row length %" PRIu64 " is not a multiple of %" PRIu32 ", the block length of %s",
                    t->ne[0], len, ie_ggml_type_name(t->type));
    if (!ie_mul_u64(t->ne[0] / len * rows, block, &bytes) || bytes > INT64_MAX)
        return fail(r, IE_E_FORMAT, "%" PRIu64 " elements of %s are 2^63 bytes or more", elements,
                    ie_ggml_type_name(t->type));
    t->bytes = bytes;
    return IE_OK;
}

static ie_status take_tensor(reader *r, ie_gguf_tensor *t) {
    ie_status st = take_name(r, &t->name, "name");
    if (st == IE_OK) st = take_u32(r, &t->n_dims, "number of dimensions");
    if (st != IE_OK) return st;
    if (t->n_dims < 1 || t->n_dims > 4)
        return fail(r, IE_E_FORMAT, "number of dimensions is %" PRIu32 ", allowed are 1 .. 4", t->n_dims);
    for (int d = 0; d < 4; d++) t->ne[d] = 1;
    for (uint32_t d = 0; d < t->n_dims && st == IE_OK; d++) st = take_u64(r, t->ne + d, "dimension");
    if (st == IE_OK) st = take_u32(r, &t->type, "tensor type");
    if (st == IE_OK) st = take_u64(r, &t->offset, "tensor offset");
    return st == IE_OK ? size_tensor(r, t) : st;
}

/* Makes an offset absolute: base is where the file's data begins. */
static ie_status place_tensor(const reader *r, ie_gguf_tensor *t, uint64_t base, uint64_t alignment) {
    uint64_t end, off = t->offset;
    if (off % alignment)
        return fail(r, IE_E_FORMAT, "tensor offset %" PRIu64 " is not a multiple of the alignment, %" PRIu64, off,
                    alignment);
    if (!ie_add_u64(base, off, &t->offset) || !ie_add_u64(t->offset, t->bytes, &end) || end > r->f->size)
        return fail(r, IE_E_FORMAT,
                    "tensor offset %" PRIu64 " and size %" PRIu64 " lead past the end of the file: "
                    "data begin at byte %" PRIu64 ", the file has %" PRIu64,
                    off, t->bytes, base, r->f->size);
    return IE_OK;
}

static int by_offset(const void *a, const void *b) {
    const ie_gguf_tensor *x = *(const ie_gguf_tensor *const *)a, *y = *(const ie_gguf_tensor *const *)b;
    if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
    return (x > y) - (x < y);
}

/* Data of two tensors must not share bytes: such a file was not written by a converter. Unknown types have no size. */
static ie_status check_overlap(const reader *r, const ie_gguf_tensor *t, uint64_t n) {
    const ie_gguf_tensor **order = ie_calloc((size_t)n, sizeof *order, "GGUF tensor order", r->err);
    if (!order) return IE_E_NOMEM;
    uint64_t m = 0;
    for (uint64_t i = 0; i < n; i++)
        if (t[i].bytes) order[m++] = t + i;
    qsort(order, (size_t)m, sizeof *order, by_offset);
    ie_status st = IE_OK;
    for (uint64_t i = 1; i < m && st == IE_OK; i++) {
        const ie_gguf_tensor *a = order[i - 1], *b = order[i];
        if (a->offset + a->bytes > b->offset)
            st = ie_fail(r->err, IE_E_FORMAT,
                         "%s: tensors '%.*s' (bytes %" PRIu64 " to %" PRIu64 ") and '%.*s' (from %" PRIu64
                         ") overlap: a tensor offset is wrong",
                         r->f->label, ie_gguf_show(a->name), a->name.s, a->offset, a->offset + a->bytes,
                         ie_gguf_show(b->name), b->name.s, b->offset);
    }
    free(order);
    return st;
}

/* ---- the whole file ---------------------------------------------------------------------------------------------- */

static ie_status take_header(reader *r, uint64_t *n_tensors, uint64_t *n_kv) {
    unsigned char magic[4];
    uint32_t version;
    r->part = "header";
    ie_status st = take(r, magic, 4, "magic");
    if (st != IE_OK) return st;
    if (memcmp(magic, "GGUF", 4) != 0)
        return fail(r, IE_E_FORMAT, "magic is %02x %02x %02x %02x, a GGUF file begins with 47 47 55 46", magic[0],
                    magic[1], magic[2], magic[3]);
    if ((st = take_u32(r, &version, "version")) != IE_OK) return st;
    if (version && (version & 0xffff) == 0)
        return fail(r, IE_E_UNSUPPORTED,
                    "version %" PRIu32 " in big-endian byte order, only little-endian files of "
                    "version %d are read",
                    __builtin_bswap32(version), VERSION);
    if (version != VERSION)
        return fail(r, IE_E_UNSUPPORTED, "version is %" PRIu32 ", only version %d is read", version, VERSION);
    st = take_u64(r, n_tensors, "tensor count");
    if (st == IE_OK) st = take_u64(r, n_kv, "key count");
    if (st != IE_OK) return st;
    if (*n_tensors > left(r) / MIN_TENSOR)
        return fail(r, IE_E_FORMAT, "tensor count is %" PRIu64 ", but the file has only %" PRIu64 " more bytes",
                    *n_tensors, left(r));
    if (*n_kv > left(r) / MIN_KV)
        return fail(r, IE_E_FORMAT, "key count is %" PRIu64 ", but the file has only %" PRIu64 " more bytes", *n_kv,
                    left(r));
    return IE_OK;
}

static ie_status take_meta(reader *r, ie_gguf_meta *m, uint64_t n) {
    r->arena = &m->arena;
    if (!(m->kv = mem(r, n, sizeof *m->kv, 8, "key count"))) return r->err->code;
    r->part = "key";
    for (; m->n_kv < n; m->n_kv++) {
        r->number = m->n_kv + 1;
        r->name = (ie_str){0};
        ie_gguf_kv *kv = m->kv + m->n_kv;
        memset(kv, 0, sizeof *kv);
        ie_status st = take_kv(r, kv);
        if (st != IE_OK) return st;
    }
    uint64_t dup[2] = {0};
    ie_status st = ie_gguf_index_build(&m->index, m->kv, sizeof *m->kv, n, dup, r->err);
    if (st == IE_E_FORMAT) {
        r->number = dup[1] + 1;
        r->name = m->kv[dup[1]].key;
        return fail(r, st, "duplicate, it is also key %" PRIu64, dup[0] + 1);
    }
    return st;
}

static ie_status take_alignment(const reader *r, const ie_gguf_meta *m, uint64_t *alignment) {
    const char *key = "general.alignment";
    uint32_t v;
    ie_status st = ie_gguf_meta_u32(m, key, 0, UINT32_MAX, false, (uint32_t)*alignment, &v, r->err);
    if (st != IE_OK) return st;
    if (v < 8 || v > MAX_ALIGNMENT || (v & (v - 1)))
        return ie_fail(r->err, IE_E_FORMAT, "%s: key '%s' is %" PRIu32 ", allowed are powers of two in 8 .. %d",
                       r->f->label, key, v, MAX_ALIGNMENT);
    *alignment = v;
    return IE_OK;
}

static ie_status take_tensors(reader *r, uint32_t file_no, const ie_gguf_meta *m, ie_gguf_tensors *ts, uint64_t n) {
    uint64_t alignment = DEFAULT_ALIGNMENT;
    r->part = "header";
    r->number = 0;
    r->name = (ie_str){0};
    r->arena = &ts->names;
    ie_status st = take_alignment(r, m, &alignment);
    if (st != IE_OK || n == 0) return st;
    if (n > left(r) / MIN_TENSOR)
        return fail(r, IE_E_FORMAT,
                    "tensor count is %" PRIu64 ", but after the keys the file has only %" PRIu64 " more bytes", n,
                    left(r));
    if (ts->n + n > IE_GGUF_META_MAX / sizeof *ts->t)
        return fail(r, IE_E_FORMAT, "tensor count is %" PRIu64 ", at most %zu are allowed", n,
                    (size_t)IE_GGUF_META_MAX / sizeof *ts->t);
    if (!ie_grow(&ts->t, &ts->cap, ts->n + (size_t)n, sizeof *ts->t, "GGUF tensor directory", r->err))
        return IE_E_NOMEM;
    r->part = "tensor";
    ie_gguf_tensor *first = ts->t + ts->n;
    for (uint64_t i = 0; i < n; i++) {
        r->number = i + 1;
        r->name = (ie_str){0};
        first[i] = (ie_gguf_tensor){.file = file_no};
        if ((st = take_tensor(r, first + i)) != IE_OK) return st;
    }
    uint64_t base = (r->pos + alignment - 1) & ~(alignment - 1);
    for (uint64_t i = 0; i < n; i++) {
        r->number = i + 1;
        r->name = first[i].name;
        if ((st = place_tensor(r, first + i, base, alignment)) != IE_OK) return st;
    }
    ts->n += (size_t)n;
    return check_overlap(r, first, n);
}

ie_status ie_gguf_parse(const ie_gguf_file *f, uint32_t file_no, ie_gguf_meta *m, ie_gguf_tensors *ts, ie_error *err) {
    ie_error local = {0}; /* so that r.err is never NULL and its code can be handed on */
    reader r = {.f = f, .err = err ? err : &local};
    uint64_t n_tensors, n_kv;
    m->label = f->label;
    if (!(r.buf = ie_calloc(BUF, 1, "GGUF read buffer", r.err))) return IE_E_NOMEM;
    ie_status st = take_header(&r, &n_tensors, &n_kv);
    if (st == IE_OK) st = take_meta(&r, m, n_kv);
    if (st == IE_OK) st = take_tensors(&r, file_no, m, ts, n_tensors);
    free(r.buf);
    return st;
}
