#include "prefix_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "env.h"

#define SAMPLE 256u /* bytes at the beginning, the middle and the end of each tensor */

/* ---- which model ------------------------------------------------------------------------------------------------------ */

static uint64_t text_hash(uint64_t h, const char *s) { return prefix_hash(h, s, strlen(s)); }

static ie_status tensor_hash(const ie_gguf *g, const ie_gguf_tensor *t, uint64_t *h, ie_error *err) {
    uint8_t part[SAMPLE];
    uint64_t n = t->bytes < SAMPLE ? t->bytes : SAMPLE, at[3] = {0, (t->bytes - n) / 2, t->bytes - n};
    *h = prefix_hash(prefix_hash(prefix_hash(*h, t->name.s, t->name.len), &t->type, sizeof t->type), t->ne, sizeof t->ne);
    for (int i = 0; i < 3; i++) {
        ie_status st = ie_gguf_read(g, t, at[i], part, n, err);
        if (st) return st;
        *h = prefix_hash(*h, part, (size_t)n);
    }
    return IE_OK;
}

ie_status ie_prefix_model(const ie_model *m, uint64_t *out, ie_error *err) {
    uint32_t shape[] = {m->kv.n_layer, m->kv.n_kv, m->kv.hd, m->kv.f32, m->gdn.n_layer, m->gdn.n_k, m->gdn.n_v, m->gdn.hd, m->hp.n_vocab};
    uint64_t h = prefix_hash(text_hash(text_hash(PREFIX_SEED, IE_VERSION), m->be->api->name), shape, sizeof shape);
    static const ie_env_id switches[] = {IE_ENV_Q6K_AS_Q8, IE_ENV_ACT, IE_ENV_PREFILL, IE_ENV_GDN_CHUNK}; /* those that change results */
    for (size_t i = 0; i < sizeof switches / sizeof *switches; i++) {
        const char *v = ie_env_text(switches[i]);
        h = text_hash(h, v ? v : "");
    }
    ie_status st = IE_OK;
    for (uint64_t i = 0; i < ie_gguf_n_tensors(m->gguf) && !st; i++) st = tensor_hash(m->gguf, ie_gguf_tensor_at(m->gguf, i), &h, err);
    *out = h;
    return st;
}

/* ---- writing ---------------------------------------------------------------------------------------------------------- */

typedef struct {
    uint32_t page, depth;
    uint64_t stamp;
} saved;

/* Used last first; a page is used whenever one below it is, so parents come before. */
static int by_use(const void *a, const void *b) {
    const saved *x = a, *y = b;
    if (x->stamp != y->stamp) return x->stamp < y->stamp ? 1 : -1;
    return (x->depth > y->depth) - (x->depth < y->depth);
}

/* The pages to be saved, in order, as many as max_bytes allow; where[page]: their index. */
static uint32_t choose(const ie_pages *p, uint64_t page_bytes, uint64_t state_bytes, uint64_t max_bytes, saved *list, uint32_t *where) {
    uint32_t n = 0, fit = 0;
    uint64_t used = sizeof(prefix_header);
    for (uint32_t i = 0; i < ie_pages_total(p); i++) {
        uint32_t parent;
        const int32_t *tokens;
        uint64_t stamp, other;
        if (!ie_pages_get(p, i, &parent, &tokens, &stamp)) continue;
        list[n] = (saved){i, 0, stamp};
        while (parent != IE_NO_PAGE) list[n].depth++, ie_pages_get(p, parent, &parent, &tokens, &other);
        n++;
    }
    qsort(list, n, sizeof *list, by_use);
    for (; fit < n; fit++) {
        used += sizeof(prefix_entry) + page_bytes + (ie_pages_state(p, list[fit].page) ? state_bytes : 0);
        if (used > max_bytes) break;
        where[list[fit].page] = fit;
    }
    return fit;
}

static ie_status put(FILE *f, const void *data, size_t n, ie_error *err) {
    return fwrite(data, 1, n, f) == n ? IE_OK : ie_fail(err, IE_E_IO, "prefixes could not be written: %s", strerror(errno));
}

static ie_status put_entry(ie_ctx *c, FILE *f, uint32_t page, const uint32_t *where, uint8_t *data, uint64_t page_bytes, uint64_t state_bytes,
                           ie_error *err) {
    const ie_model *m = ie_ctx_model(c);
    const ie_pages *p = ie_ctx_pages(c);
    const void *state = ie_pages_state(p, page);
    const int32_t *tokens;
    uint64_t stamp, n = page_bytes;
    prefix_entry e = {.has_state = state != NULL};
    ie_pages_get(p, page, &e.parent, &tokens, &stamp);
    if (e.parent != IE_NO_PAGE) e.parent = where[e.parent];
    memcpy(e.token, tokens, sizeof e.token);
    ie_status st = m->be->api->page_save(m->be, ie_ctx_state(c), page, data, err);
    if (st) return st;
    if (state) memcpy(data + n, state, (size_t)state_bytes), n += state_bytes;
    e.check = prefix_check(&e, data, n);
    st = put(f, &e, sizeof e, err);
    return st ? st : put(f, data, (size_t)n, err);
}

static uint64_t state_size(ie_ctx *c) {
    const ie_model *m = ie_ctx_model(c);
    return m->be->api->seq_bytes(m->be, ie_ctx_state(c));
}

static ie_status write_all(ie_ctx *c, FILE *f, uint64_t max_bytes, int32_t *n, ie_error *err) {
    const ie_model *m = ie_ctx_model(c);
    const ie_pages *p = ie_ctx_pages(c);
    prefix_header h = {.magic = PREFIX_MAGIC, .version = PREFIX_VERSION, .page_bytes = ie_kv_page_bytes(&m->kv), .state_bytes = state_size(c)};
    saved *list = ie_calloc(ie_pages_total(p), sizeof *list, "prefixes", err);
    uint32_t *where = list ? ie_calloc(ie_pages_total(p), sizeof *where, "prefixes", err) : NULL;
    uint8_t *data = where ? ie_calloc(1, h.page_bytes + h.state_bytes + 1, "prefixes", err) : NULL;
    ie_status st = data ? ie_prefix_model(m, &h.model, err) : IE_E_NOMEM;
    if (!st) {
        h.n_entries = choose(p, h.page_bytes, h.state_bytes, max_bytes, list, where);
        h.check = prefix_hash(PREFIX_SEED, &h, offsetof(prefix_header, check));
        st = put(f, &h, sizeof h, err);
    }
    for (uint32_t i = 0; i < h.n_entries && !st; i++) st = put_entry(c, f, list[i].page, where, data, h.page_bytes, h.state_bytes, err);
    if (!st && n) *n = (int32_t)h.n_entries;
    free(list);
    free(where);
    free(data);
    return st;
}

ie_status ie_prefix_save(ie_ctx *c, const char *path, uint64_t max_bytes, int32_t *n, ie_error *err) {
    ie_error local;
    if (!err) err = &local;
    ie_buf other = {0};
    if (n) *n = 0;
    if (!ie_buf_printf(&other, err, "%s.new", path)) return IE_E_NOMEM;
    FILE *f = fopen(other.data, "wbe");
    ie_status st = f ? write_all(c, f, max_bytes, n, err) : ie_fail(err, IE_E_IO, "file '%s': %s", other.data, strerror(errno));
    if (f && !st && (fflush(f) || fsync(fileno(f)))) st = ie_fail(err, IE_E_IO, "file '%s': %s", other.data, strerror(errno));
    if (f && fclose(f) && !st) st = ie_fail(err, IE_E_IO, "file '%s': %s", other.data, strerror(errno));
    if (!st && rename(other.data, path)) st = ie_fail(err, IE_E_IO, "file '%s': %s", path, strerror(errno));
    if (f && st) unlink(other.data);
    ie_buf_free(&other);
    return st;
}

/* ---- restoring -------------------------------------------------------------------------------------------------------- */

static ie_status load_page(void *user, uint32_t page, const uint8_t *data, ie_error *err) {
    ie_ctx *c = user;
    const ie_model *m = ie_ctx_model(c);
    return m->be->api->page_load(m->be, ie_ctx_state(c), page, data, err);
}

ie_status ie_prefix_load(ie_ctx *c, const char *path, int32_t *n, ie_error *err) {
    ie_error local;
    if (!err) err = &local;
    if (n) *n = 0;
    const ie_model *m = ie_ctx_model(c);
    prefix_shape s = {.page_bytes = ie_kv_page_bytes(&m->kv), .state_bytes = state_size(c), .n_vocab = m->hp.n_vocab, .recurrent = m->gdn.n_layer > 0};
    ie_status st = ie_prefix_model(m, &s.model, err);
    if (st) return st;
    FILE *f = fopen(path, "rbe");
    if (!f) return ie_fail(err, IE_E_IO, "file '%s': %s", path, strerror(errno));
    st = prefix_read(&s, ie_ctx_pages(c), f, load_page, c, n, err);
    fclose(f);
    return st;
}
