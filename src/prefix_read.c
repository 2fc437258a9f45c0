/* Reading the file of kept prefixes: bytes from outside. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "prefix_file.h"

uint64_t prefix_hash(uint64_t h, const void *data, size_t n) {
    const uint8_t *p = data;
    for (size_t i = 0; i < n; i += 8) {
        uint64_t w = 0;
        memcpy(&w, p + i, n - i < 8 ? n - i : 8);
        h = (h ^ w) * 0xD6E8FEB86659FD93u;
        h ^= h >> 32;
    }
    return (h ^ n) * 0x9E3779B97F4A7C15u;
}

static ie_status take(FILE *f, void *data, size_t n, ie_error *err) {
    if (fread(data, 1, n, f) == n) return IE_OK;
    return ferror(f) ? ie_fail(err, IE_E_IO, "prefixes could not be read: %s", strerror(errno)) : ie_fail(err, IE_E_FORMAT, "prefixes: the file ends too early");
}

static ie_status take_header(const prefix_shape *s, FILE *f, prefix_header *h, ie_error *err) {
    ie_status st = take(f, h, sizeof *h, err);
    if (st) return st;
    if (h->magic != PREFIX_MAGIC) return ie_fail(err, IE_E_FORMAT, "prefixes: not a file of prefixes");
    if (h->version != PREFIX_VERSION) return ie_fail(err, IE_E_UNSUPPORTED, "prefixes: format %u, this version reads %u", h->version, PREFIX_VERSION);
    if (h->check != prefix_hash(PREFIX_SEED, h, offsetof(prefix_header, check))) return ie_fail(err, IE_E_FORMAT, "prefixes: the header is damaged");
    if (h->model != s->model || h->page_bytes != s->page_bytes || h->state_bytes != s->state_bytes)
        return ie_fail(err, IE_E_UNSUPPORTED, "prefixes: of another model, backend or version");
    return IE_OK;
}

uint64_t prefix_check(const prefix_entry *e, const uint8_t *data, uint64_t n) {
    return prefix_hash(prefix_hash(PREFIX_SEED, &e->parent, sizeof *e - offsetof(prefix_entry, parent)), data, (size_t)n);
}

/* Reads and checks entry i with its data. */
static ie_status take_entry(const prefix_shape *s, FILE *f, uint32_t i, prefix_entry *e, uint8_t *data, ie_error *err) {
    ie_status st = take(f, e, sizeof *e, err);
    if (st) return st;
    if (e->has_state > (s->recurrent ? 1u : 0u) || (e->parent != IE_NO_PAGE && e->parent >= i))
        return ie_fail(err, IE_E_FORMAT, "prefixes: entry %u is damaged", i);
    uint64_t n = s->page_bytes + (e->has_state ? s->state_bytes : 0);
    st = take(f, data, (size_t)n, err);
    if (st) return st;
    if (e->check != prefix_check(e, data, n)) return ie_fail(err, IE_E_FORMAT, "prefixes: entry %u is damaged", i);
    for (uint32_t k = 0; k < IE_PAGE; k++)
        if (e->token[k] < 0 || (uint32_t)e->token[k] >= s->n_vocab) return ie_fail(err, IE_E_FORMAT, "prefixes: entry %u: token %d", i, e->token[k]);
    return IE_OK;
}

/* A reading under way. */
typedef struct {
    const prefix_shape *s;
    ie_pages *p;
    prefix_load_fn *load;
    void *user;
    uint32_t *page; /* of each entry, IE_NO_PAGE: none */
    bool *mine;     /* kept by this reading */
    uint8_t *data;
} reading;

/* Puts entry i into the pool where its parent is there and a page is free; pages that are kept already stay. What is kept was used
 * more recently than what comes later in the file, so nothing is pushed out. */
static ie_status keep_entry(reading *r, uint32_t i, const prefix_entry *e, uint64_t stamp, ie_error *err) {
    uint32_t parent = e->parent == IE_NO_PAGE ? IE_NO_PAGE : r->page[e->parent];
    if (e->parent != IE_NO_PAGE && parent == IE_NO_PAGE) return IE_OK;
    r->page[i] = ie_pages_find(r->p, parent, e->token);
    if (r->page[i] != IE_NO_PAGE || !ie_pages_free_count(r->p)) return IE_OK;
    uint32_t page = ie_pages_take(r->p);
    ie_status st = r->load(r->user, page, r->data, err);
    if (!st) {
        uint64_t used, n = r->s->state_bytes;
        ie_pages_keep(r->p, page, parent, e->token);
        ie_pages_touch(r->p, page, stamp);
        ie_pages_states(r->p, &used);
        void *room = e->has_state && used + n <= ie_pages_state_budget(r->p) ? ie_pages_state_new(r->p, page, n) : NULL;
        if (room) memcpy(room, r->data + r->s->page_bytes, (size_t)n);
        r->page[i] = page;
        r->mine[i] = true;
    }
    ie_pages_unref(r->p, page);
    return st;
}

static ie_status read_entries(reading *r, FILE *f, uint32_t n, int32_t *kept, ie_error *err) {
    uint64_t last = 0; /* stamps that end here: the first entry's is the latest */
    for (uint32_t i = 0; i < n; i++) last = ie_pages_stamp(r->p);
    ie_status st = IE_OK;
    uint32_t done = 0;
    for (prefix_entry e; done < n && !st; done++) {
        r->page[done] = IE_NO_PAGE;
        st = take_entry(r->s, f, done, &e, r->data, err);
        if (!st) st = keep_entry(r, done, &e, last - done, err);
    }
    *kept = 0;
    for (uint32_t i = done; i-- > 0;) { /* all or nothing; children before their parents */
        if (st && r->mine[i]) ie_pages_drop(r->p, r->page[i]);
        *kept += !st && r->mine[i];
    }
    return st;
}

ie_status prefix_read(const prefix_shape *s, ie_pages *p, FILE *f, prefix_load_fn *load, void *user, int32_t *n, ie_error *err) {
    uint32_t total = ie_pages_total(p);
    int32_t kept = 0;
    prefix_header h;
    ie_status st = take_header(s, f, &h, err);
    if (st) return st;
    reading r = {.s = s, .p = p, .load = load, .user = user};
    r.page = ie_calloc(total, sizeof *r.page, "prefixes", err);
    r.mine = r.page ? ie_calloc(total, sizeof *r.mine, "prefixes", err) : NULL;
    r.data = r.mine ? ie_calloc(1, s->page_bytes + s->state_bytes + 1, "prefixes", err) : NULL;
    /* Entries beyond the pool's pages could not find room. */
    st = r.data ? read_entries(&r, f, h.n_entries < total ? h.n_entries : total, &kept, err) : IE_E_NOMEM;
    if (n) *n = kept;
    free(r.page);
    free(r.mine);
    free(r.data);
    return st;
}
