/* The file of kept prefixes (ie_prefix_save, ie_prefix_load).
 *
 *   header   prefix_header
 *   entries  prefix_entry, page_bytes of keys and values, then state_bytes where the entry says so; a page's parent before it
 *
 * Numbers are in the host's byte order (a file of the other order has another magic). Each entry carries a checksum of itself with its
 * data, so that nothing is used that was not read whole. */
#ifndef IE_PREFIX_FILE_H
#define IE_PREFIX_FILE_H

#include <stdio.h>

#include "context.h"

#define PREFIX_MAGIC 0x7866655250454941u /* "AIEPRefx" on little-endian hosts */
#define PREFIX_VERSION 1u

typedef struct {
    uint64_t magic;
    uint32_t version, n_entries;
    uint64_t model;                   /* ie_prefix_model */
    uint64_t page_bytes, state_bytes;
    uint64_t check;                   /* of what stands before it */
} prefix_header;

typedef struct {
    uint64_t check;                   /* of what follows, data included */
    uint32_t parent;                  /* entry, IE_NO_PAGE: at the beginning */
    uint32_t has_state;               /* 0 or 1 */
    int32_t token[IE_PAGE];
} prefix_entry;

#define PREFIX_SEED 0x243F6A8885A308D3u

/* 64 bits of n bytes, going on from h. */
uint64_t prefix_hash(uint64_t h, const void *data, size_t n);
uint64_t prefix_check(const prefix_entry *e, const uint8_t *data, uint64_t n);

/* What a saved page depends on: the tensors (names, types, shapes, samples of their data), the backend, the library's version. */
ie_status ie_prefix_model(const ie_model *m, uint64_t *out, ie_error *err);

/* What a file must fit. */
typedef struct {
    uint64_t model, page_bytes, state_bytes;
    uint32_t n_vocab;
    bool recurrent;
} prefix_shape;

/* Writes page_bytes of keys and values to a page of the pool. */
typedef ie_status prefix_load_fn(void *user, uint32_t page, const uint8_t *data, ie_error *err);

/* Reads a file into a pool, as ie_prefix_load says. */
ie_status prefix_read(const prefix_shape *s, ie_pages *p, FILE *f, prefix_load_fn *load, void *user, int32_t *n, ie_error *err);

#endif
