/* GGUF reader: opening one file or a split set, look-ups by name, reading tensor data. */
#include "gguf_int.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct ie_gguf {
    ie_gguf_file *files;
    size_t n_files, files_cap;
    uint64_t bytes;    /* of all files */
    ie_gguf_meta meta; /* of the first file: the other parts' keys only say which part they are */
    ie_gguf_tensors tensors;
    ie_gguf_index tensor_index;
};

/* ---- files ------------------------------------------------------------------------------------------------------- */

/* The last max bytes of a path, for messages. */
static const char *tail(const char *path, size_t max) {
    size_t len = strlen(path);
    return len > max ? path + len - max : path;
}

static char *make_label(const char *path, ie_error *err) {
    const char *slash = strrchr(path, '/'), *name = tail(slash ? slash + 1 : path, IE_GGUF_SHOW);
    size_t len = strlen(name);
    char *label = ie_calloc(len + 1, 1, "file name", err);
    if (label) memcpy(label, name, len + 1);
    return label;
}

/* Opens path and appends it to g->files. */
static ie_status open_file(ie_gguf *g, const char *path, ie_error *err) {
    if (!ie_grow(&g->files, &g->files_cap, g->n_files + 1, sizeof *g->files, "list of files", err)) return IE_E_NOMEM;
    char *label = make_label(path, err);
    if (!label) return IE_E_NOMEM;
    ie_gguf_file *f = g->files + g->n_files++; /* from here on, ie_gguf_close releases it */
    /* O_NONBLOCK: a named pipe without a writer must not hang us. It changes nothing for regular files. */
    *f = (ie_gguf_file){.fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK), .label = label};
    if (f->fd < 0) return ie_fail(err, IE_E_IO, "%s: cannot be opened: %s", tail(path, 300), strerror(errno));
    struct stat st;
    if (fstat(f->fd, &st) != 0) return ie_fail(err, IE_E_IO, "%s: %s", label, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return ie_fail(err, IE_E_IO, "%s: is %s, a regular file is needed", tail(path, 300),
                       S_ISDIR(st.st_mode) ? "a directory" : "a device or pipe");
    f->size = (uint64_t)st.st_size;
    if (!ie_add_u64(g->bytes, f->size, &g->bytes))
        return ie_fail(err, IE_E_FORMAT, "%s: the files of the set have 2^64 bytes or more", label);
    return IE_OK;
}

/* ---- split sets -------------------------------------------------------------------------------------------------- */

/* -0000K-of-0000N.gguf */
#define PART_SUFFIX 20

static bool five_digits(const char *s, uint32_t *v) {
    *v = 0;
    for (int i = 0; i < 5; i++) {
        if (s[i] < '0' || s[i] > '9') return false;
        *v = *v * 10 + (uint32_t)(s[i] - '0');
    }
    return true;
}

char *ie_gguf_part_path(const char *path, uint32_t no, uint32_t count, ie_error *err) {
    size_t len = strlen(path), stem = len < PART_SUFFIX ? 0 : len - PART_SUFFIX;
    const char *s = path + stem;
    uint32_t k, n;
    if (len < PART_SUFFIX || s[0] != '-' || !five_digits(s + 1, &k) || memcmp(s + 6, "-of-", 4) != 0 ||
        !five_digits(s + 10, &n) || strcmp(s + 15, ".gguf") != 0 || n != count) {
        ie_fail(err, IE_E_FORMAT,
                "%s: key 'split.count' is %" PRIu32 ", but the name does not end in -0000K-of-%05" PRIu32
                ".gguf: the other parts cannot be found",
                tail(path, IE_GGUF_SHOW), count, count);
        return NULL;
    }
    size_t size = len + 8;
    char *out = ie_calloc(size, 1, "file name", err);
    if (out) snprintf(out, size, "%.*s-%05" PRIu32 "-of-%05" PRIu32 ".gguf", (int)stem, path, no, count);
    return out;
}

typedef struct {
    uint32_t no, count, tensors;
} split_info;

/* What a file says about its set; count 1 for a file of its own (merged files say 0). */
static ie_status get_split(const ie_gguf_meta *m, split_info *s, ie_error *err) {
    *s = (split_info){.count = 1};
    ie_status st = ie_gguf_meta_u32(m, "split.count", 0, 65535, false, 1, &s->count, err);
    if (st == IE_OK && s->count == 0) s->count = 1;
    if (st != IE_OK || s->count == 1) return st;
    st = ie_gguf_meta_u32(m, "split.no", 0, s->count - 1, true, 0, &s->no, err);
    if (st != IE_OK) return st;
    return ie_gguf_meta_u32(m, "split.tensors.count", 0, INT32_MAX, true, 0, &s->tensors, err);
}

/* Opens part no (from 0) of the set that the first file belongs to. */
static ie_status open_part(ie_gguf *g, const char *path, uint32_t no, const split_info *set, ie_error *err) {
    char *part = ie_gguf_part_path(path, no + 1, set->count, err);
    if (!part) return err ? err->code : IE_E_FORMAT;
    ie_gguf_meta m = {0};
    split_info s;
    ie_status st = open_file(g, part, err);
    if (st == IE_OK) st = ie_gguf_parse(g->files + no, no, &m, &g->tensors, err);
    if (st == IE_OK) st = get_split(&m, &s, err);
    if (st == IE_OK && (s.no != no || s.count != set->count || s.tensors != set->tensors))
        st = ie_fail(err, IE_E_FORMAT,
                     "%s: says split.no %" PRIu32 ", split.count %" PRIu32 ", split.tensors.count %" PRIu32
                     "; part 0 and the name say %" PRIu32 ", %" PRIu32 ", %" PRIu32,
                     m.label, s.no, s.count, s.tensors, no, set->count, set->tensors);
    ie_gguf_meta_free(&m);
    free(part);
    return st;
}

static ie_status open_others(ie_gguf *g, const char *path, const split_info *set, ie_error *err) {
    for (uint32_t no = 1; no < set->count; no++) {
        ie_status st = open_part(g, path, no, set, err);
        if (st != IE_OK) return st;
    }
    if (set->count > 1 && g->tensors.n != set->tensors)
        return ie_fail(err, IE_E_FORMAT, "%s: key 'split.tensors.count' is %" PRIu32 ", the set holds %zu tensors",
                       g->meta.label, set->tensors, g->tensors.n);
    return IE_OK;
}

static ie_status index_tensors(ie_gguf *g, ie_error *err) {
    uint64_t dup[2] = {0};
    const ie_gguf_tensors *ts = &g->tensors;
    ie_status st = ie_gguf_index_build(&g->tensor_index, ts->t, sizeof *ts->t, ts->n, dup, err);
    if (st != IE_E_FORMAT) return st;
    const ie_gguf_tensor *a = ts->t + dup[0], *b = ts->t + dup[1];
    return ie_fail(err, st, "%s: tensor '%.*s' is a duplicate, it is also in %s", g->files[b->file].label,
                   ie_gguf_show(b->name), b->name.s, a->file == b->file ? "the same file" : g->files[a->file].label);
}

/* ---- open and close ---------------------------------------------------------------------------------------------- */

/* *first: set to the path of the set's first part (to be freed) instead of opening, when path is another part. */
static ie_gguf *open_set(const char *path, char **first, ie_error *err) {
    ie_gguf *g = ie_calloc(1, sizeof *g, "GGUF reader", err);
    if (!g) return NULL;
    split_info set = {.count = 1};
    ie_status st = open_file(g, path, err);
    if (st == IE_OK) st = ie_gguf_parse(g->files, 0, &g->meta, &g->tensors, err);
    if (st == IE_OK) st = get_split(&g->meta, &set, err);
    if (st == IE_OK && set.no > 0) {
        st = IE_E_FORMAT;
        if (first)
            *first = ie_gguf_part_path(path, 1, set.count, err);
        else
            ie_fail(err, st, "%s: key 'split.no' is %" PRIu32 ", the first part must say 0", g->meta.label, set.no);
    }
    if (st == IE_OK) st = open_others(g, path, &set, err);
    if (st == IE_OK) st = index_tensors(g, err);
    if (st == IE_OK) return g;
    ie_gguf_close(g);
    return NULL;
}

ie_gguf *ie_gguf_open(const char *path, ie_error *err) {
    char *first = NULL;
    ie_gguf *g = open_set(path, &first, err);
    if (first) g = open_set(first, NULL, err);
    free(first);
    return g;
}

void ie_gguf_meta_free(ie_gguf_meta *m) {
    ie_gguf_index_free(&m->index);
    ie_gguf_arena_free(&m->arena);
    *m = (ie_gguf_meta){0};
}

void ie_gguf_close(ie_gguf *g) {
    if (!g) return;
    for (size_t i = 0; i < g->n_files; i++) {
        if (g->files[i].fd >= 0) close(g->files[i].fd);
        free(g->files[i].label);
    }
    free(g->files);
    ie_gguf_meta_free(&g->meta);
    ie_gguf_index_free(&g->tensor_index);
    ie_gguf_arena_free(&g->tensors.names);
    free(g->tensors.t);
    free(g);
}

/* ---- look-ups and data ------------------------------------------------------------------------------------------- */

const ie_gguf_meta *ie_gguf_meta_of(const ie_gguf *g) {
    return &g->meta;
}

uint64_t ie_gguf_n_kv(const ie_gguf *g) {
    return g->meta.n_kv;
}
const ie_gguf_kv *ie_gguf_kv_at(const ie_gguf *g, uint64_t i) {
    return i < g->meta.n_kv ? g->meta.kv + i : NULL;
}

const ie_gguf_value *ie_gguf_meta_find(const ie_gguf_meta *m, const char *key) {
    const ie_gguf_kv *kv = ie_gguf_index_find(&m->index, key, strlen(key));
    return kv ? &kv->value : NULL;
}

const ie_gguf_value *ie_gguf_find(const ie_gguf *g, const char *key) {
    return ie_gguf_meta_find(&g->meta, key);
}

uint64_t ie_gguf_n_tensors(const ie_gguf *g) {
    return g->tensors.n;
}

const ie_gguf_tensor *ie_gguf_tensor_at(const ie_gguf *g, uint64_t i) {
    return i < g->tensors.n ? g->tensors.t + i : NULL;
}

const ie_gguf_tensor *ie_gguf_find_tensor(const ie_gguf *g, const char *name) {
    return ie_gguf_index_find(&g->tensor_index, name, strlen(name));
}

ie_status ie_gguf_read(const ie_gguf *g, const ie_gguf_tensor *t, uint64_t off, void *dst, uint64_t len,
                       ie_error *err) {
    if (off > t->bytes || len > t->bytes - off)
        return ie_fail(err, IE_E_ARG,
                       "tensor '%.*s': %" PRIu64 " bytes from byte %" PRIu64 " asked for, it has %" PRIu64,
                       ie_gguf_show(t->name), t->name.s, len, off, t->bytes);
    return ie_gguf_pread(g->files + t->file, t->offset + off, dst, len, err);
}

void ie_gguf_drop(const ie_gguf *g, const ie_gguf_tensor *t) {
    if (t->bytes) (void)posix_fadvise(g->files[t->file].fd, (off_t)t->offset, (off_t)t->bytes, POSIX_FADV_DONTNEED);
}

uint64_t ie_gguf_file_bytes(const ie_gguf *g) {
    return g->bytes;
}
