/* Arena, errors and byte buffers of the chat-template engine. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "jinja.h"

struct jblock {
    jblock *next, *prev;
    size_t size;
    size_t pad; /* keeps the bytes behind it aligned to 16 */
};

enum { CHUNK = 64 << 10, BIG = 8 << 10 }; /* allocations of BIG and more get a block of their own */

void j_fail(jx *x, ie_status st, const char *fmt, ...) {
    char msg[sizeof x->err->msg];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(msg, sizeof msg, fmt, ap);
    va_end(ap);
    x->status = ie_fail(x->err, st, "%s", msg);
    longjmp(x->jmp, 1);
}

void j_error(jx *x, const char *fmt, ...) {
    char msg[sizeof x->err->msg];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(msg, sizeof msg, fmt, ap);
    va_end(ap);
    j_fail(x, IE_E_FORMAT, "chat template, line %d: %s", x->line, msg);
}

void j_charge_slow(jx *x) {
    x->steps = 0; /* nothing charges again: the jump below ends the rendering */
    j_fail(x, IE_E_FULL, "chat template, line %d: more than %d evaluation steps", x->line, J_MAX_STEPS);
}

static jblock *new_block(jx *x, size_t n) {
    if (n > J_MAX_ARENA || x->total > J_MAX_ARENA - n)
        j_fail(x, IE_E_FULL, "chat template, line %d: needs more than %d MB of memory", x->line, J_MAX_ARENA >> 20);
    jblock *b = malloc(sizeof *b + n);
    if (!b) j_fail(x, IE_E_NOMEM, "chat template: no memory for %zu bytes", n);
    *b = (jblock){.next = x->blocks, .size = n};
    if (x->blocks) x->blocks->prev = b;
    x->blocks = b;
    x->total += n;
    return b;
}

static void free_big(jx *x, void *p, size_t n) {
    if (!p || n < BIG) return;
    jblock *b = (jblock *)p - 1;
    if (b->next) b->next->prev = b->prev;
    if (b->prev)
        b->prev->next = b->next;
    else
        x->blocks = b->next;
    x->total -= b->size;
    free(b);
}

void j_release(jx *x) {
    for (jblock *b = x->blocks, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    for (size_t i = 0; i < sizeof x->regex / sizeof x->regex[0]; i++) pcre2_code_free(x->regex[i]);
    x->blocks = NULL;
    x->cur = x->end = NULL;
    memset(x->regex, 0, sizeof x->regex);
}

void *j_bytes(jx *x, size_t n) {
    if (n >= BIG) return new_block(x, n) + 1;
    n = (n + 15) & ~(size_t)15;
    if ((size_t)(x->end - x->cur) < n) {
        jblock *b = new_block(x, CHUNK);
        x->cur = (char *)(b + 1);
        x->end = x->cur + CHUNK;
    }
    void *p = x->cur;
    x->cur += n;
    return p;
}

void *j_alloc(jx *x, size_t n) { return memset(j_bytes(x, n ? n : 1), 0, n); }

void *j_array(jx *x, size_t n, size_t size) {
    uint64_t bytes;
    if (!ie_mul_u64(n, size, &bytes) || bytes > J_MAX_ARENA)
        j_fail(x, IE_E_FULL, "chat template, line %d: a list of %zu items is too long", x->line, n);
    return j_alloc(x, (size_t)bytes);
}

jbuf *j_buf(jx *x) {
    jbuf *b = J_NEW(x, jbuf);
    b->private_ = true;
    return b;
}

static void reserve(jx *x, jbuf *b, size_t need) {
    if (need > J_MAX_OUTPUT)
        j_fail(x, IE_E_FULL, "chat template, line %d: a text of more than %d MB", x->line, J_MAX_OUTPUT >> 20);
    if (need <= b->cap) return;
    size_t cap = b->cap < 24 ? 48 : b->cap * 2;
    if (cap < need) cap = need + need / 4;
    char *data = j_bytes(x, cap);
    if (b->used) memcpy(data, b->data, b->used);
    uint8_t *mark = b->mark;
    if (mark) {
        mark = j_bytes(x, cap);
        memcpy(mark, b->mark, b->used);
    }
    if (b->private_) {
        free_big(x, b->data, b->cap);
        free_big(x, b->mark, b->cap);
    }
    b->data = data;
    b->mark = mark;
    b->cap = cap;
}

/* Makes room for the marks of n more bytes, and says whether they must be written one by one. */
static bool needs_marks(jx *x, jbuf *b, const uint8_t *mark, bool trust) {
    if (b->mark) return true;
    if (b->used == 0 && !mark) b->trust = trust;
    if (!mark && b->trust == trust) return false;
    b->mark = j_bytes(x, b->cap);
    memset(b->mark, b->trust, b->used);
    return true;
}

void j_buf_add(jx *x, jbuf *b, const char *s, const uint8_t *mark, size_t n, bool trust) {
    if (n == 0) return;
    j_charge(x, n >> 8);
    reserve(x, b, b->used + n);
    if (needs_marks(x, b, mark, trust)) {
        if (mark)
            memcpy(b->mark + b->used, mark, n);
        else
            memset(b->mark + b->used, trust, n);
    }
    memcpy(b->data + b->used, s, n);
    b->used += n;
}

void j_buf_str(jx *x, jbuf *b, const jstr *s) { j_buf_add(x, b, s->s, s->mark, s->len, s->trust); }
void j_buf_lit(jx *x, jbuf *b, const char *s) { j_buf_add(x, b, s, NULL, strlen(s), false); }

void j_buf_printf(jx *x, jbuf *b, const char *fmt, ...) {
    char tmp[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(tmp, sizeof tmp, fmt, ap);
    va_end(ap);
    j_buf_lit(x, b, tmp);
}

void j_buf_fill(jx *x, jbuf *b, const jstr *s, int64_t times) {
    if (times <= 0 || s->len == 0) return;
    if (times > J_MAX_OUTPUT || (uint64_t)times * s->len > J_MAX_OUTPUT) reserve(x, b, (size_t)J_MAX_OUTPUT + 1);
    reserve(x, b, b->used + (size_t)times * s->len);
    j_charge(x, (uint64_t)times);
    for (int64_t i = 0; i < times; i++) j_buf_str(x, b, s);
}

jstr *j_buf_done(jx *x, jbuf *b) {
    jstr *s = j_str(x, b->data ? b->data : "", b->used, b->trust);
    s->mark = b->mark;
    s->buf = b;
    b->private_ = false;
    return s;
}
