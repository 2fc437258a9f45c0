/* GGUF v3 reader: metadata and tensor directory of one file or of a split set (NAME-00001-of-0000N.gguf).
 *
 * Every count, offset and size is checked before it is used; nothing is mapped, tensor data is read with pread by the
 * caller's request. Format: ggml's docs/gguf.md. All pointers handed out live until ie_gguf_close. Read-only after open,
 * so any number of threads may read from it. */
#ifndef IE_GGUF_H
#define IE_GGUF_H

#include "base.h"

typedef enum {
    GGUF_U8, GGUF_I8, GGUF_U16, GGUF_I16, GGUF_U32, GGUF_I32, GGUF_F32, GGUF_BOOL, GGUF_STRING, GGUF_ARRAY,
    GGUF_U64, GGUF_I64, GGUF_F64, GGUF_NTYPES
} ie_gguf_type;

/* A string of the file: len bytes, then a NUL that is not counted. May hold NULs and invalid UTF-8. */
typedef struct {
    const char *s;
    uint64_t len;
} ie_str;

/* Value of a key. Arrays: type GGUF_ARRAY, elem their element type, n their length; data points to n packed elements in
 * host byte order (ie_str[] for strings, ie_gguf_value[] for nested arrays). Scalars: n = 1, data points to the value. */
typedef struct ie_gguf_value {
    ie_gguf_type type, elem;
    uint64_t n;
    const void *data;
} ie_gguf_value;

typedef struct {
    ie_str key;
    ie_gguf_value value;
} ie_gguf_kv;

typedef struct {
    ie_str name;
    uint32_t type;     /* ggml type id; any id, known to this engine or not */
    uint32_t n_dims;   /* 1 .. 4 */
    uint64_t ne[4];    /* ne[0] is the row length; unused ones are 1; each >= 1, product < 2^63 */
    uint32_t file;     /* index into the split set */
    uint64_t offset;   /* absolute offset in that file */
    uint64_t bytes;    /* data bytes; 0 if the type is not known to ie_ggml_row_bytes */
} ie_gguf_tensor;

typedef struct ie_gguf ie_gguf;

/* NULL on failure. Any part of a split set stands for the set: the others are found by name, beside it. Keys come from
 * the first part. Refused besides what does not fit the file: names that are empty, hold a NUL or appear twice, tensors
 * that share bytes, arrays nested more than 4 deep, alignments other than powers of two in 8 .. 2^20, and metadata that
 * would take more than 256 MiB of memory. Memory stays within a small factor of the bytes that the file really has. */
ie_gguf *ie_gguf_open(const char *path, ie_error *err);
void ie_gguf_close(ie_gguf *g);

uint64_t ie_gguf_n_kv(const ie_gguf *g);
const ie_gguf_kv *ie_gguf_kv_at(const ie_gguf *g, uint64_t i);
const ie_gguf_value *ie_gguf_find(const ie_gguf *g, const char *key); /* NULL if absent; O(1) */

uint64_t ie_gguf_n_tensors(const ie_gguf *g);
const ie_gguf_tensor *ie_gguf_tensor_at(const ie_gguf *g, uint64_t i);
const ie_gguf_tensor *ie_gguf_find_tensor(const ie_gguf *g, const char *name); /* NULL if absent; O(1) */

/* Reads bytes [off, off + len) of a tensor's data into dst with pread. Checked against the tensor's size; a file that
 * became shorter since it was opened gives IE_E_IO. */
ie_status ie_gguf_read(const ie_gguf *g, const ie_gguf_tensor *t, uint64_t off, void *dst, uint64_t len,
                       ie_error *err);

/* Tells the system that a tensor's pages are not needed again (posix_fadvise); a hint, errors are ignored. */
void ie_gguf_drop(const ie_gguf *g, const ie_gguf_tensor *t);

uint64_t ie_gguf_file_bytes(const ie_gguf *g); /* of all files of the set */

/* Typed look-ups. Integer types of any width are accepted and range-checked; a key of the wrong kind or out of
 * [min, max] gives IE_E_FORMAT naming the key, its value and what is allowed. Absent: *out = dflt, IE_OK; the _req forms
 * give IE_E_FORMAT instead. A string's bytes are not checked. */
ie_status ie_gguf_u32(const ie_gguf *g, const char *key, uint32_t min, uint32_t max, uint32_t dflt, uint32_t *out,
                      ie_error *err);
ie_status ie_gguf_u32_req(const ie_gguf *g, const char *key, uint32_t min, uint32_t max, uint32_t *out, ie_error *err);
ie_status ie_gguf_f32(const ie_gguf *g, const char *key, float dflt, float *out, ie_error *err); /* finite */
ie_status ie_gguf_f32_req(const ie_gguf *g, const char *key, float *out, ie_error *err);
ie_status ie_gguf_bool(const ie_gguf *g, const char *key, bool dflt, bool *out, ie_error *err);
ie_status ie_gguf_str(const ie_gguf *g, const char *key, const char *dflt, ie_str *out, ie_error *err);
ie_status ie_gguf_str_req(const ie_gguf *g, const char *key, ie_str *out, ie_error *err);
/* An array of exactly the given element type; *out NULL and IE_OK if absent. */
ie_status ie_gguf_array(const ie_gguf *g, const char *key, ie_gguf_type elem, const ie_gguf_value **out, ie_error *err);

/* Name of a ggml type id ("Q4_K"), or NULL when unknown. Block length and bytes per block; false when unknown. */
const char *ie_ggml_type_name(uint32_t type);
bool ie_ggml_type_block(uint32_t type, uint32_t *block_len, uint32_t *block_bytes);

#endif
