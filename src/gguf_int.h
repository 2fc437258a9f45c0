/* What the source files of the GGUF reader share: memory of the metadata, name index, one file's parser. */
#ifndef IE_GGUF_INT_H
#define IE_GGUF_INT_H

#include "gguf.h"

/* Most memory that the metadata of one file, or all tensor entries of a set, may take. The largest published
 * vocabularies with merges need about 40 MB. */
#define IE_GGUF_META_MAX ((uint64_t)256 << 20)

/* Memory that is released all at once. Zero-initialised is empty. total counts every byte asked for. */
typedef struct ie_gguf_chunk ie_gguf_chunk;
typedef struct {
    ie_gguf_chunk *chunks; /* newest first */
    size_t used, cap;      /* of the newest */
    uint64_t total;
} ie_gguf_arena;

/* n objects of size bytes at the given alignment (1 .. 16), not zeroed; never NULL for n = 0.
 * NULL: the limit (IE_E_FORMAT) or the system (IE_E_NOMEM) says no, *why tells which. */
void *ie_gguf_alloc(ie_gguf_arena *a, uint64_t n, uint64_t size, size_t align, ie_status *why);
void ie_gguf_arena_free(ie_gguf_arena *a);

/* Hash index over n records of stride bytes that start with an ie_str. Names come from outside, so the hash is keyed
 * with random bits: nobody can write a file whose names all collide. slot[h] is a record's number + 1, 0 = free. */
typedef struct {
    const void *base;
    size_t stride;
    uint32_t *slot; /* owned */
    uint64_t mask;
    uint64_t seed[2];
} ie_gguf_index;

/* Builds the index. Equal names: returns IE_E_FORMAT without a message, with the numbers of the two records in dup. */
ie_status ie_gguf_index_build(ie_gguf_index *x, const void *base, size_t stride, uint64_t n, uint64_t dup[2],
                              ie_error *err);
/* The record with that name, or NULL. */
const void *ie_gguf_index_find(const ie_gguf_index *x, const char *name, size_t len);
void ie_gguf_index_free(ie_gguf_index *x);

/* Keys and values of one file. */
typedef struct {
    const char *label; /* of the file, for messages; not owned */
    ie_gguf_kv *kv;
    uint64_t n_kv;
    ie_gguf_index index;
    ie_gguf_arena arena;
} ie_gguf_meta;

void ie_gguf_meta_free(ie_gguf_meta *m);
/* Of the set's first file. */
const ie_gguf_meta *ie_gguf_meta_of(const ie_gguf *g);
const ie_gguf_value *ie_gguf_meta_find(const ie_gguf_meta *m, const char *key);
/* As ie_gguf_u32 and ie_gguf_u32_req. */
ie_status ie_gguf_meta_u32(const ie_gguf_meta *m, const char *key, uint32_t min, uint32_t max, bool required,
                           uint32_t dflt, uint32_t *out, ie_error *err);

typedef struct {
    int fd;
    char *label; /* last component of the path, shortened; owned */
    uint64_t size;
} ie_gguf_file;

/* All tensors of a set, in file order. Names live in the arena. */
typedef struct {
    ie_gguf_tensor *t;
    size_t n, cap;
    ie_gguf_arena names;
} ie_gguf_tensors;

/* Parses header, metadata and tensor directory of one open file: fills *m and appends to *ts the file's tensors, with
 * file number file_no, absolute offsets and sizes, all inside the file and disjoint. What was filled before a failure
 * is released by the caller as usual. */
ie_status ie_gguf_parse(const ie_gguf_file *f, uint32_t file_no, ie_gguf_meta *m, ie_gguf_tensors *ts, ie_error *err);

/* pread of exactly n bytes; IE_E_IO with a message when the file ends before or the system fails. */
ie_status ie_gguf_pread(const ie_gguf_file *f, uint64_t off, void *dst, uint64_t n, ie_error *err);

/* "u8", "string", "array", ... for a value type < GGUF_NTYPES. */
const char *ie_gguf_type_text(ie_gguf_type type);

/* Path of part no (from 1) of a set, given the path of any of its parts, NAME-0000K-of-0000N.gguf: a string to free().
 * NULL when the path is not of that form with that count, or without memory; *err is filled. */
char *ie_gguf_part_path(const char *path, uint32_t no, uint32_t count, ie_error *err);

/* Names in messages: at most this many bytes are shown. */
#define IE_GGUF_SHOW 100
static inline int ie_gguf_show(ie_str s) {
    return s.len < IE_GGUF_SHOW ? (int)s.len : IE_GGUF_SHOW;
}

#endif
