#include "base.h"

#include "text/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void make_printable(char *msg) {
    unsigned char *s = (unsigned char *)msg;
    size_t n = strlen(msg);
    for (size_t i = 0; i < n;) {
        size_t len = ie_utf8_len(s + i, n - i);
        if (len == 0 || s[i] < 0x20 || s[i] == 0x7F) {
            s[i] = '?';
            len = 1;
        }
        i += len;
    }
}

ie_status (ie_fail)(ie_error *err, ie_status code, const char *fmt, ...) {
    if (err) {
        va_list ap;
        va_start(ap, fmt);
        err->code = code;
        vsnprintf(err->msg, sizeof err->msg, fmt, ap);
        va_end(ap);
        make_printable(err->msg);
    }
    return code;
}

void *ie_calloc(size_t n, size_t size, const char *what, ie_error *err) {
    uint64_t bytes;
    void *p = NULL;
    if (ie_mul_u64(n, size, &bytes) && bytes <= PTRDIFF_MAX) p = calloc(n ? n : 1, size ? size : 1);
    if (!p) ie_fail(err, IE_E_NOMEM, "%s: no memory for %zu elements of %zu bytes", what, n, size);
    return p;
}

bool ie_grow(void *ptr, size_t *cap, size_t need, size_t size, const char *what, ie_error *err) {
    if (need <= *cap) return true;
    size_t want = *cap < 16 ? 16 : *cap + *cap / 2;
    if (want < need) want = need;
    uint64_t bytes;
    void *old, *p = NULL;
    memcpy(&old, ptr, sizeof old);
    if (ie_mul_u64(want, size, &bytes) && bytes <= PTRDIFF_MAX) p = realloc(old, (size_t)bytes);
    if (!p) {
        ie_fail(err, IE_E_NOMEM, "%s: no memory for %zu elements of %zu bytes", what, want, size);
        return false;
    }
    memcpy(ptr, &p, sizeof p);
    *cap = want;
    return true;
}

bool ie_buf_add(ie_buf *b, const void *data, size_t len, ie_error *err) {
    if (len > PTRDIFF_MAX - b->len - 1) {
        ie_fail(err, IE_E_NOMEM, "text: %zu bytes are too many", len);
        return false;
    }
    if (!ie_grow(&b->data, &b->cap, b->len + len + 1, 1, "text", err)) return false;
    if (len) memcpy(b->data + b->len, data, len);
    b->len += len;
    b->data[b->len] = 0;
    return true;
}

bool ie_buf_printf(ie_buf *b, ie_error *err, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0 || !ie_grow(&b->data, &b->cap, b->len + (size_t)n + 1, 1, "text", err)) return false;
    va_start(ap, fmt);
    vsnprintf(b->data + b->len, (size_t)n + 1, fmt, ap);
    va_end(ap);
    b->len += (size_t)n;
    return true;
}

void ie_buf_free(ie_buf *b) {
    free(b->data);
    *b = (ie_buf){0};
}

double ie_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}
