/* What every part of the library shares: errors, allocation with checked sizes, small helpers. */
#ifndef IE_BASE_H
#define IE_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../include/ie.h"

#if defined(__GNUC__)
#define IE_PRINTF(f, a) __attribute__((format(printf, f, a)))
#else
#define IE_PRINTF(f, a)
#endif

/* Fills *err (NULL is allowed) and returns code, so that callers can write `return ie_fail(err, ...)`. The text is one
 * line: names come from files, so control characters and invalid UTF-8 in it are replaced by '?'. */
ie_status ie_fail(ie_error *err, ie_status code, const char *fmt, ...) IE_PRINTF(3, 4);
#ifdef __clang_analyzer__ /* which does not look into other files: the status is the one given, never IE_OK */
void ie_uses(const char *fmt, ...);
#define ie_fail(err, code, ...) ((void)(err), ie_uses(__VA_ARGS__), (code))
#endif

/* a * b into *out; false when the product does not fit 64 bits (or size_t). */
static inline bool ie_mul_u64(uint64_t a, uint64_t b, uint64_t *out) { return !__builtin_mul_overflow(a, b, out); }
static inline bool ie_add_u64(uint64_t a, uint64_t b, uint64_t *out) { return !__builtin_add_overflow(a, b, out); }

/* n objects of size bytes, zeroed, or NULL with IE_E_NOMEM in *err (also when n * size overflows). free() releases. */
void *ie_calloc(size_t n, size_t size, const char *what, ie_error *err);

/* Grows *ptr (n objects of size bytes so far in use, *cap allocated) to hold at least need; false with *err filled. */
bool ie_grow(void *ptr, size_t *cap, size_t need, size_t size, const char *what, ie_error *err);

/* A growing byte buffer; always NUL-terminated past len when data is not NULL. */
typedef struct {
    char *data;
    size_t len, cap;
} ie_buf;

bool ie_buf_add(ie_buf *b, const void *data, size_t len, ie_error *err);
bool ie_buf_printf(ie_buf *b, ie_error *err, const char *fmt, ...) IE_PRINTF(3, 4);
void ie_buf_free(ie_buf *b);

/* Seconds of a monotonic clock. */
double ie_now(void);

#endif
