/* Contexts: sequences, their pages, and the steps that evaluate batches.
 *
 * A sequence is its list of tokens and a table of KV pages. Pages come from one pool (pages.h); whole ones may
 * be shared with other sequences and with the cache of prefixes, and are copied before they are written. The model's op list is planned for the largest batch; a step runs the body once and the head for the rows
 * whose logits are wanted, IE_HEAD_ROWS at a time. */
#include <stdlib.h>
#include <string.h>

#include "context.h"
#include "gen/sample.h"
#include "pages.h"

#define MAX_SEQ 64
#define NO_PAGE IE_NO_PAGE
#define MAX_TOP 64 /* candidates that are asked of a backend */
#define MIN_CTX 256 /* a context whose length is ours to choose is not made shorter for want of memory */

typedef struct {
    int32_t *token; /* the tokens evaluated so far */
    int32_t len;
    uint32_t n_pages;
} sequence;

struct ie_ctx {
    ie_model *m;
    ie_state *st;
    ie_exec_plan plan1, plan; /* for single tokens (a compact arena that stays in cache), and for up to max_t */
    ie_exec_plan states;      /* for up to max_t, ends with hidden states instead of logits */
    int32_t n_ctx, n_seq, chunk;
    int32_t max_t; /* tokens of a backend's step; longer batches are cut */
    uint32_t pages_per_seq, n_pages;
    uint32_t *page_table; /* [n_seq][pages_per_seq] */
    ie_pages *pages;
    uint64_t cache_bytes; /* for recurrent states of kept prefixes */
    sequence *seq;
    float *rope;     /* filled up to rope_n positions */
    uint32_t rope_n;
    /* last step */
    uint32_t *out;       /* batch rows whose logits were asked for */
    int32_t *logits_row; /* batch row -> row of logits, -1 */
    uint32_t n_out, n_last;
    bool hidden;         /* rows are hidden states (n_embd floats), not logits (n_vocab) */
    float *logits;       /* host copy, [n_out][row floats] */
    size_t cap_logits;
    const float *logits_at; /* where the rows are; NULL with waiting: in the arena still, to be read when asked for */
    bool waiting;
    uint64_t waiting_at; /* arena offset */
};

/* ---- creation ------------------------------------------------------------------------------------------------------ */

static ie_state_desc describe(const ie_ctx *c, int32_t n_ctx) {
    uint32_t pages = ie_page_of((uint32_t)n_ctx + IE_PAGE - 1);
    uint64_t arena = c->plan.arena_bytes > c->plan1.arena_bytes ? c->plan.arena_bytes : c->plan1.arena_bytes;
    if (arena < c->states.arena_bytes) arena = c->states.arena_bytes;
    return (ie_state_desc){.arena_bytes = arena, .kv = c->m->kv, .gdn = c->m->gdn, .n_pages = pages * (uint32_t)c->n_seq,
                           .n_seq = (uint32_t)c->n_seq, .max_t = (uint32_t)c->max_t, .pages_per_seq = pages, .rope_half = c->m->hp.rope.dim / 2,
                           .rope = c->rope, .rope_rows = (uint32_t)n_ctx};
}

/* The context's length: as asked, or the model's, or the most that memory holds. */
static ie_status choose_ctx(ie_ctx *c, int32_t want, ie_error *err) {
    ie_backend *be = c->m->be;
    for (int32_t n = want ? want : (int32_t)c->m->hp.n_ctx_train;; n /= 2) {
        uint64_t need, have;
        ie_state_desc d = describe(c, n);
        be->api->state_room(be, &d, &need, &have);
        c->n_ctx = n;
        if (!have || need <= have) return IE_OK;
        if (want || n <= 2 * MIN_CTX)
            return ie_fail(err, IE_E_NOMEM, "a context of %d positions for %d sequence(s) needs %.2f GB, %.2f GB of memory are free", n,
                           c->n_seq, (double)need / 1e9, (double)have / 1e9);
    }
}

static ie_status alloc_host(ie_ctx *c, size_t batch, ie_error *err) {
    c->pages_per_seq = ie_page_of((uint32_t)c->n_ctx + IE_PAGE - 1); /* at most 2^15, of 2^6 sequences */
    c->n_pages = c->pages_per_seq * (uint32_t)c->n_seq;
    c->page_table = ie_calloc(c->n_pages, sizeof *c->page_table, "page table", err);
    c->pages = ie_pages_new(c->n_pages, c->cache_bytes, err);
    c->seq = ie_calloc((size_t)c->n_seq, sizeof *c->seq, "sequences", err);
    c->rope = ie_calloc((size_t)c->n_ctx * c->m->hp.rope.dim, sizeof *c->rope, "rope table", err);
    c->out = ie_calloc(batch, sizeof *c->out, "batch", err);
    c->logits_row = ie_calloc(batch, sizeof *c->logits_row, "batch", err);
    if (!c->page_table || !c->pages || !c->seq || !c->rope || !c->out || !c->logits_row) return err->code;
    for (uint32_t i = 0; i < c->n_pages; i++) c->page_table[i] = NO_PAGE;
    for (int32_t s = 0; s < c->n_seq; s++) {
        c->seq[s].token = ie_calloc((size_t)c->n_ctx, sizeof(int32_t), "sequence", err);
        if (!c->seq[s].token) return err->code;
    }
    return IE_OK;
}

static ie_status check_params(const ie_ctx_params *p, ie_error *err) {
    if (p->n_ctx < 0 || p->n_ctx > (int32_t)IE_MAX_CTX)
        return ie_fail(err, IE_E_ARG, "ctx is %d, allowed are 1 to %u positions (0: the model's length)", p->n_ctx, IE_MAX_CTX);
    if (p->n_seq < 0 || p->n_seq > MAX_SEQ) return ie_fail(err, IE_E_ARG, "sequences are %d, allowed are 1 to %d", p->n_seq, MAX_SEQ);
    if (p->chunk < 0 || p->chunk > (int32_t)IE_MAX_T) return ie_fail(err, IE_E_ARG, "chunk is %d, allowed are 1 to %u", p->chunk, IE_MAX_T);
    return IE_OK;
}

static ie_status init(ie_ctx *c, const ie_ctx_params *p, ie_error *err) {
    ie_status st = check_params(p, err);
    if (st) return st;
    c->n_seq = p->n_seq ? p->n_seq : 1;
    c->chunk = p->chunk ? p->chunk : (int32_t)IE_MAX_T;
    c->cache_bytes = p->cache_bytes;
    int32_t batch = c->chunk < (int32_t)IE_DECODE_T ? (int32_t)IE_DECODE_T : c->chunk;
    c->max_t = batch < (int32_t)c->m->be->max_t ? batch : (int32_t)c->m->be->max_t;
    st = ie_model_plan(c->m, 1, &c->plan1, err);
    if (!st) st = ie_model_plan(c->m, (uint32_t)c->max_t, &c->plan, err);
    if (!st) st = ie_model_plan_states(c->m, (uint32_t)c->max_t, &c->states, err);
    if (!st) st = choose_ctx(c, p->n_ctx, err);
    if (!st) st = alloc_host(c, (size_t)batch, err);
    if (st) return st;
    ie_state_desc d = describe(c, c->n_ctx);
    return c->m->be->api->state_new(c->m->be, &d, &c->st, err);
}

ie_ctx *ie_ctx_new(ie_model *m, const ie_ctx_params *params, ie_error *err) {
    ie_error local;
    if (!err) err = &local;
    *err = (ie_error){0};
    if (!m->be) {
        ie_fail(err, IE_E_ARG, "the model was opened for its vocabulary only");
        return NULL;
    }
    ie_ctx *c = ie_calloc(1, sizeof *c, "context", err);
    if (!c) return NULL;
    c->m = m;
    ie_status st = init(c, params ? params : &(ie_ctx_params){0}, err);
    if (!st) return c;
    /* The system's estimate was too high (a limit on address space, say): a shorter context where the length is ours to choose. */
    ie_ctx_params less = params ? *params : (ie_ctx_params){0};
    bool shorter = st == IE_E_NOMEM && less.n_ctx == 0 && c->n_ctx > 2 * MIN_CTX;
    less.n_ctx = c->n_ctx / 2;
    ie_ctx_free(c);
    if (!shorter) return NULL;
    for (; less.n_ctx >= MIN_CTX; less.n_ctx /= 2) {
        c = ie_ctx_new(m, &less, err);
        if (c || err->code != IE_E_NOMEM) return c;
    }
    return NULL;
}

void ie_ctx_free(ie_ctx *c) {
    if (!c) return;
    if (c->st) c->m->be->api->state_free(c->m->be, c->st);
    for (int32_t s = 0; c->seq && s < c->n_seq; s++) free(c->seq[s].token);
    ie_exec_plan_free(&c->plan1);
    ie_exec_plan_free(&c->plan);
    ie_exec_plan_free(&c->states);
    free(c->page_table);
    ie_pages_free(c->pages);
    free(c->seq);
    free(c->rope);
    free(c->out);
    free(c->logits_row);
    free(c->logits);
    free(c);
}

int32_t ie_ctx_size(const ie_ctx *c) { return c->n_ctx; }
int32_t ie_ctx_chunk(const ie_ctx *c) { return c->chunk; }
ie_pages *ie_ctx_pages(ie_ctx *c) { return c->pages; }
ie_state *ie_ctx_state(ie_ctx *c) { return c->st; }
const ie_model *ie_ctx_model(const ie_ctx *c) { return c->m; }

/* ---- sequences ------------------------------------------------------------------------------------------------------ */

static ie_status check_seq(const ie_ctx *c, int32_t seq, ie_error *err) {
    if (seq >= 0 && seq < c->n_seq) return IE_OK;
    return ie_fail(err, IE_E_ARG, "sequence %d does not exist; the context has %d", seq, c->n_seq);
}

static uint32_t *table_of(ie_ctx *c, int32_t seq) { return c->page_table + (size_t)seq * c->pages_per_seq; }

/* Gives a sequence the pages for len positions: takes missing ones from the pool, returns surplus ones. */
static ie_status set_pages(ie_ctx *c, int32_t seq, int32_t len, ie_error *err) {
    sequence *s = &c->seq[seq];
    uint32_t *table = table_of(c, seq), want = ie_page_of((uint32_t)len + IE_PAGE - 1);
    uint32_t have = ie_pages_available(c->pages);
    if (want > s->n_pages && want - s->n_pages > have)
        return ie_fail(err, IE_E_FULL, "sequence %d needs %u more KV pages of %u positions, %u are free", seq, want - s->n_pages, IE_PAGE, have);
    while (s->n_pages < want) table[s->n_pages++] = ie_pages_take(c->pages);
    while (s->n_pages > want) {
        ie_pages_unref(c->pages, table[--s->n_pages]);
        table[s->n_pages] = NO_PAGE;
    }
    return IE_OK;
}

/* A sequence about to be written from position pos on: the page that pos lies inside of must be its own. */
static ie_status own_page(ie_ctx *c, int32_t seq, int32_t pos, ie_error *err) {
    uint32_t *page = &table_of(c, seq)[ie_page_of((uint32_t)pos)], old = *page;
    if (ie_slot_of((uint32_t)pos) == 0 || !ie_pages_shared(c->pages, old)) return IE_OK;
    uint32_t own = ie_pages_take(c->pages);
    if (own == IE_NO_PAGE) return ie_fail(err, IE_E_FULL, "sequence %d needs a KV page to go on from a shared one, none is free", seq);
    ie_status st = c->m->be->api->page_copy(c->m->be, c->st, own, old, err);
    ie_pages_unref(c->pages, st ? own : old);
    if (!st) *page = own;
    return st;
}

int32_t ie_seq_len(const ie_ctx *c, int32_t seq) { return seq >= 0 && seq < c->n_seq ? c->seq[seq].len : 0; }

ie_status ie_seq_truncate(ie_ctx *c, int32_t seq, int32_t len, ie_error *err) {
    ie_status st = check_seq(c, seq, err);
    if (st) return st;
    if (len < 0 || len > c->seq[seq].len)
        return ie_fail(err, IE_E_ARG, "sequence %d holds %d positions; it cannot be cut to %d", seq, c->seq[seq].len, len);
    ie_backend *be = c->m->be;
    if (len < c->seq[seq].len || len == 0) st = be->api->seq_rewind(be, c->st, (uint32_t)seq, (uint32_t)len, err);
    if (st) return st;
    c->seq[seq].len = len;
    return set_pages(c, seq, len, err);
}

ie_status ie_seq_sync(ie_ctx *c, int32_t seq, const int32_t *tokens, int32_t n, int32_t *have, ie_error *err) {
    ie_status st = check_seq(c, seq, err);
    if (st) return st;
    if (n < 0) return ie_fail(err, IE_E_ARG, "a list of %d tokens", n);
    if (n > c->n_ctx)
        return ie_fail(err, IE_E_FULL, "the prompt has %d tokens, the context holds %d; make the context longer or the prompt shorter", n, c->n_ctx);
    int32_t same = 0, limit = c->seq[seq].len < n - 1 ? c->seq[seq].len : n - 1;
    while (same < limit && c->seq[seq].token[same] == tokens[same]) same++;
    *have = same;
    st = ie_seq_truncate(c, seq, same, err);
    if (st != IE_E_UNSUPPORTED) return st;
    *have = 0; /* a recurrent state cannot go back that far: from the beginning */
    return ie_seq_truncate(c, seq, 0, err);
}

/* ---- prefixes that outlive their sequence -------------------------------------------------------------------------------- */

/* The kept pages that tokens begin with, at most max of them, into path; *usable: as many as a sequence can go on from. */
static uint32_t find_path(const ie_ctx *c, const int32_t *tokens, uint32_t max, uint32_t *path, uint32_t *usable) {
    uint32_t n = 0, parent = NO_PAGE;
    for (*usable = 0; n < max; n++) {
        parent = path[n] = ie_pages_find(c->pages, parent, tokens + (size_t)n * IE_PAGE);
        if (parent == NO_PAGE) break;
        if (!c->m->gdn.n_layer || ie_pages_state(c->pages, parent)) *usable = n + 1;
    }
    return n;
}

ie_status ie_prefix_attach(ie_ctx *c, int32_t seq, const int32_t *tokens, int32_t n, int32_t *have, int32_t *matched, ie_error *err) {
    *have = *matched = 0;
    ie_status st = check_seq(c, seq, err);
    if (!st) st = ie_seq_truncate(c, seq, 0, err);
    if (st) return st;
    if (n < 1 || n > c->n_ctx) return ie_fail(err, IE_E_FULL, "the prompt has %d tokens, the context holds %d", n, c->n_ctx);
    uint32_t *table = table_of(c, seq), usable, found = find_path(c, tokens, ie_page_of((uint32_t)n - 1), table, &usable);
    sequence *s = &c->seq[seq];
    uint64_t stamp = ie_pages_stamp(c->pages);
    *matched = (int32_t)(found * IE_PAGE);
    for (uint32_t i = 0; i < found; i++) ie_pages_touch(c->pages, table[i], stamp);
    for (uint32_t i = usable; i < c->pages_per_seq; i++) table[i] = NO_PAGE;
    for (uint32_t i = 0; i < usable; i++) ie_pages_ref(c->pages, table[i]);
    s->n_pages = usable;
    if (usable && c->m->gdn.n_layer)
        st = c->m->be->api->seq_load(c->m->be, c->st, (uint32_t)seq, ie_pages_state(c->pages, table[usable - 1]), err);
    if (st) {
        ie_seq_truncate(c, seq, 0, NULL);
        return st;
    }
    s->len = (int32_t)(usable * IE_PAGE);
    if (s->len) memcpy(s->token, tokens, (size_t)s->len * sizeof *tokens);
    *have = s->len;
    return IE_OK;
}

ie_status ie_prefix_keep(ie_ctx *c, int32_t seq, int state, ie_error *err) {
    ie_status st = check_seq(c, seq, err);
    if (st) return st;
    const sequence *s = &c->seq[seq];
    uint32_t parent = NO_PAGE, n = ie_page_of((uint32_t)s->len);
    uint64_t stamp = ie_pages_stamp(c->pages);
    for (uint32_t i = 0; i < n; i++) {
        const int32_t *tokens = s->token + (size_t)i * IE_PAGE;
        uint32_t page = ie_pages_find(c->pages, parent, tokens);
        if (page == NO_PAGE) ie_pages_keep(c->pages, page = table_of(c, seq)[i], parent, tokens);
        ie_pages_touch(c->pages, page, stamp);
        parent = page;
    }
    bool save = state && c->m->gdn.n_layer && n && ie_slot_of((uint32_t)s->len) == 0 && !ie_pages_state(c->pages, parent);
    void *room = save ? ie_pages_state_new(c->pages, parent, c->m->be->api->seq_bytes(c->m->be, c->st)) : NULL;
    if (!room) return IE_OK;
    st = c->m->be->api->seq_save(c->m->be, c->st, (uint32_t)seq, room, err);
    if (st) ie_pages_state_drop(c->pages, parent);
    return st;
}

void ie_prefix_get_info(const ie_ctx *c, ie_prefix_info *out) {
    *out = (ie_prefix_info){.n_pages = (int32_t)c->n_pages, .n_free = (int32_t)ie_pages_free_count(c->pages),
                            .n_kept = (int32_t)ie_pages_kept(c->pages), .n_available = (int32_t)ie_pages_available(c->pages)};
    out->n_states = (int32_t)ie_pages_states(c->pages, &out->state_bytes);
}

/* ---- snapshots ------------------------------------------------------------------------------------------------------- */

struct ie_snapshot {
    const ie_model *m;
    int32_t len;
    uint64_t page_bytes, state_bytes, bytes;
    uint8_t data[]; /* tokens, recurrent state, pages */
};

ie_snapshot *ie_seq_save(ie_ctx *c, int32_t seq, ie_error *err) {
    ie_error local;
    if (!err) err = &local;
    ie_backend *be = c->m->be;
    if (check_seq(c, seq, err)) return NULL;
    const sequence *q = &c->seq[seq];
    uint64_t tokens = (uint64_t)q->len * sizeof *q->token, page = ie_kv_page_bytes(&c->m->kv), state = be->api->seq_bytes(be, c->st);
    ie_snapshot *s = ie_calloc(1, sizeof *s + tokens + state + q->n_pages * page, "snapshot", err);
    if (!s) return NULL;
    *s = (ie_snapshot){c->m, q->len, page, state, sizeof *s + tokens + state + q->n_pages * page};
    uint8_t *at = s->data;
    if (tokens) memcpy(at, q->token, tokens);
    ie_status st = be->api->seq_save(be, c->st, (uint32_t)seq, at + tokens, err);
    for (uint32_t i = 0; i < q->n_pages && !st; i++)
        st = be->api->page_save(be, c->st, table_of(c, seq)[i], at + tokens + state + i * page, err);
    if (!st) return s;
    free(s);
    return NULL;
}

ie_status ie_seq_restore(ie_ctx *c, int32_t seq, const ie_snapshot *s, ie_error *err) {
    ie_error local;
    if (!err) err = &local;
    ie_backend *be = c->m->be;
    ie_status st = check_seq(c, seq, err);
    if (st) return st;
    st = ie_seq_truncate(c, seq, 0, err);
    if (!st && s->m != c->m) st = ie_fail(err, IE_E_ARG, "the snapshot is of another model");
    if (!st && s->len > c->n_ctx) st = ie_fail(err, IE_E_FULL, "the snapshot has %d tokens, the context holds %d", s->len, c->n_ctx);
    if (!st) st = set_pages(c, seq, s->len, err);
    uint64_t tokens = (uint64_t)s->len * sizeof(int32_t);
    const uint8_t *at = s->data + tokens;
    for (uint32_t i = 0; !st && i < c->seq[seq].n_pages; i++)
        st = be->api->page_load(be, c->st, table_of(c, seq)[i], at + s->state_bytes + i * s->page_bytes, err);
    if (!st) st = be->api->seq_load(be, c->st, (uint32_t)seq, at, err);
    if (st) {
        ie_seq_truncate(c, seq, 0, NULL);
        return st;
    }
    if (tokens) memcpy(c->seq[seq].token, s->data, tokens);
    c->seq[seq].len = s->len;
    return IE_OK;
}

uint64_t ie_snapshot_bytes(const ie_snapshot *s) { return s->bytes; }
int32_t ie_snapshot_len(const ie_snapshot *s) { return s->len; }
void ie_snapshot_free(ie_snapshot *s) { free(s); }

/* ---- steps ----------------------------------------------------------------------------------------------------------- */

static ie_status check_batch(const ie_ctx *c, const ie_batch *b, ie_error *err) {
    if (b->phase != IE_DECODE && b->phase != IE_PREFILL)
        return ie_fail(err, IE_E_ARG, "batch: phase is %d, allowed are IE_DECODE and IE_PREFILL", (int)b->phase);
    int32_t max = b->phase == IE_DECODE ? (int32_t)IE_DECODE_T : c->chunk;
    if (b->n < 1 || b->n > max)
        return ie_fail(err, IE_E_ARG, "a %s batch has %d tokens, allowed are 1 to %d", b->phase == IE_DECODE ? "decode" : "prefill", b->n, max);
    /* numbers below zero are beyond every limit as unsigned ones; if it is refused, the loop below finds out why */
    bool in_order = ie_batch_ok((const uint32_t *)b->seq, (const uint32_t *)b->pos, (uint32_t)b->n, (uint32_t)c->n_seq, (uint32_t)INT32_MAX);
    for (int32_t i = 0; i < b->n; i++) {
        ie_status st = check_seq(c, b->seq[i], err);
        if (st) return st;
        bool first = i == 0 || b->seq[i] != b->seq[i - 1];
        for (int32_t j = 0; first && !in_order && j < i; j++)
            if (b->seq[j] == b->seq[i]) return ie_fail(err, IE_E_ARG, "batch: the tokens of sequence %d are not contiguous", b->seq[i]);
        int32_t want = first ? c->seq[b->seq[i]].len : b->pos[i - 1] + 1;
        if (b->pos[i] != want) return ie_fail(err, IE_E_ARG, "batch: position %d of sequence %d, expected %d", b->pos[i], b->seq[i], want);
        if (b->pos[i] >= c->n_ctx) return ie_fail(err, IE_E_FULL, "the context of %d positions is full", c->n_ctx);
        if (b->token[i] < 0 || b->token[i] >= (int32_t)c->m->hp.n_vocab)
            return ie_fail(err, IE_E_ARG, "token %d is not in the vocabulary of %u", b->token[i], c->m->hp.n_vocab);
    }
    return IE_OK;
}

static void choose_rows(ie_ctx *c, const ie_batch *b) {
    c->n_out = 0;
    c->n_last = (uint32_t)b->n;
    for (int32_t i = 0; i < b->n; i++) {
        bool last = i + 1 == b->n || b->seq[i + 1] != b->seq[i];
        bool want = b->want_logits ? b->want_logits[i] != 0 : last;
        c->logits_row[i] = want ? (int32_t)c->n_out : -1;
        if (want) c->out[c->n_out++] = (uint32_t)i;
    }
}

static void fill_rope(ie_ctx *c, const ie_batch *b) {
    int32_t top = 0;
    for (int32_t i = 0; i < b->n; i++) top = b->pos[i] > top ? b->pos[i] : top;
    uint32_t need = ((uint32_t)top / 256 + 1) * 256;
    if (need > (uint32_t)c->n_ctx) need = (uint32_t)c->n_ctx;
    if (need <= c->rope_n) return;
    ie_rope_fill(&c->m->hp.rope, c->rope_n, need, c->rope);
    c->rope_n = need;
}

static size_t row_floats(const ie_ctx *c) { return c->hidden ? c->m->hp.n_embd : c->m->hp.n_vocab; }

/* Rows of logits (or hidden states) of the last run to the end of the host copy, which holds n. */
static ie_status keep_logits(ie_ctx *c, uint64_t at, uint32_t n, uint32_t rows, ie_error *err) {
    ie_backend *be = c->m->be;
    size_t row = row_floats(c);
    if (!ie_grow(&c->logits, &c->cap_logits, (n + rows) * row, sizeof(float), "logits", err)) return err->code;
    c->logits_at = c->logits;
    return be->api->read(be, c->st, at, c->logits + n * row, rows * row * sizeof(float), err);
}

/* One step of the backend: tokens [t0, t0 + n) of the batch, whose outputs are out[*done ..]. */
static ie_status run_step(ie_ctx *c, const ie_batch *b, uint32_t t0, uint32_t n, uint32_t *done, ie_error *err) {
    ie_backend *be = c->m->be;
    const ie_exec_plan *p = c->hidden ? &c->states : n == 1 ? &c->plan1 : &c->plan;
    uint32_t rows = 0, out[IE_MAX_T];
    while (*done + rows < c->n_out && c->out[*done + rows] < t0 + n) out[rows] = c->out[*done + rows] - t0, rows++;
    ie_step step = {.phase = b->phase, .n = n, .token = b->token + t0, .seq = b->seq + t0, .pos = b->pos + t0,
                    .page_table = c->page_table, .rope_n = c->rope_n};
    bool once = rows > 0 && rows <= IE_HEAD_ROWS; /* body and head in one run */
    if (once) step.out = out, step.n_out = rows;
    ie_status st = be->api->run(be, c->st, &c->m->w, &p->list, 0, once ? p->list.n : p->head_at, &step, err);
    uint64_t at = (uint64_t)p->logits * 256;
    if (st || !rows) return st;
    if (once && rows == c->n_out) { /* they may stay where they are */
        c->logits_at = be->api->host_ptr(be, c->st, at);
        c->waiting = !c->logits_at;
        c->waiting_at = at;
        *done += rows;
        return IE_OK;
    }
    for (uint32_t i = 0, k; i < rows && !st; i += k, *done += k) {
        k = rows - i < IE_HEAD_ROWS ? rows - i : IE_HEAD_ROWS;
        step.out = out + i;
        step.n_out = k;
        if (!once) st = be->api->run(be, c->st, &c->m->w, &p->list, p->head_at, p->list.n, &step, err);
        if (!st) st = keep_logits(c, at, *done, k, err);
    }
    return st;
}

static ie_status eval(ie_ctx *c, const ie_batch *b, bool hidden, ie_error *err) {
    ie_error local;
    if (!err) err = &local;
    c->hidden = hidden;
    c->logits_at = NULL;
    c->waiting = false;
    ie_status st = check_batch(c, b, err);
    for (int32_t i = 0; i < b->n && !st; i++) {
        if (i == 0 || b->seq[i - 1] != b->seq[i]) st = own_page(c, b->seq[i], b->pos[i], err);
        if (!st && (i + 1 == b->n || b->seq[i + 1] != b->seq[i])) st = set_pages(c, b->seq[i], b->pos[i] + 1, err);
    }
    if (st) return st;
    choose_rows(c, b);
    fill_rope(c, b);
    uint32_t done = 0;
    for (int32_t t = 0, n; t < b->n && !st; t += n) {
        n = b->n - t < c->max_t ? b->n - t : c->max_t;
        st = run_step(c, b, (uint32_t)t, (uint32_t)n, &done, err);
    }
    if (st) {
        c->logits_at = NULL;
        return st;
    }
    for (int32_t i = 0; i < b->n; i++) {
        sequence *s = &c->seq[b->seq[i]];
        s->token[s->len++] = b->token[i];
    }
    return IE_OK;
}

ie_status ie_eval(ie_ctx *c, const ie_batch *b, ie_error *err) { return eval(c, b, false, err); }
ie_status ie_eval_hidden(ie_ctx *c, const ie_batch *b, ie_error *err) { return eval(c, b, true, err); }

/* The row of batch element i. */
static ie_status get_row(ie_ctx *c, int32_t i, bool hidden, const float **out, ie_error *err) {
    *out = NULL;
    if (i == -1) i = (int32_t)c->n_last - 1;
    bool have = hidden == c->hidden && (c->logits_at || c->waiting) && i >= 0 && i < (int32_t)c->n_last && c->logits_row[i] >= 0;
    if (!have) return ie_fail(err, IE_E_ARG, "the %s of batch element %d were not asked for", hidden ? "hidden states" : "logits", i);
    ie_status st = c->waiting ? keep_logits(c, c->waiting_at, 0, c->n_out, err) : IE_OK;
    if (st) {
        c->logits_at = NULL;
        return st;
    }
    c->waiting = false;
    *out = c->logits_at + (size_t)c->logits_row[i] * row_floats(c);
    return IE_OK;
}

ie_status ie_ctx_logits(ie_ctx *c, int32_t i, const float **out, ie_error *err) { return get_row(c, i, false, out, err); }

ie_status ie_ctx_sample(ie_ctx *c, int32_t i, const ie_sampling *s, const int32_t *history, int32_t n_history, uint64_t index, int32_t *out,
                        ie_error *err) {
    ie_backend *be = c->m->be;
    int32_t k = ie_sample_needs(s, n_history, index), row = i == -1 ? (int32_t)c->n_last - 1 : i;
    bool there = c->waiting && !c->hidden && be->api->top && row >= 0 && row < (int32_t)c->n_last && c->logits_row[row] >= 0;
    if (there && k >= 1 && k <= MAX_TOP) {
        ie_cand best[MAX_TOP];
        uint32_t n = 0, n_vocab = c->m->hp.n_vocab;
        uint64_t at = c->waiting_at + (uint64_t)c->logits_row[row] * n_vocab * sizeof(float);
        ie_status st = be->api->top(be, c->st, at, n_vocab, (uint32_t)k, best, &n, err);
        if (st != IE_E_UNSUPPORTED) return st ? st : ie_sample_from(s, best, (int32_t)n, index, out, err);
    }
    const float *logits;
    ie_status st = ie_ctx_logits(c, i, &logits, err);
    return st ? st : ie_sample(s, logits, (int32_t)c->m->hp.n_vocab, history, n_history, index, out, err);
}

const float *ie_logits(ie_ctx *c, int32_t i) {
    const float *row;
    ie_error err;
    return ie_ctx_logits(c, i, &row, &err) ? NULL : row;
}

const float *ie_hidden(ie_ctx *c, int32_t i) {
    const float *row;
    ie_error err;
    return get_row(c, i, true, &row, &err) ? NULL : row;
}

ie_status ie_prompt(ie_ctx *c, int32_t seq, const int32_t *tokens, int32_t n, ie_progress_fn progress, void *user, ie_error *err) {
    ie_error local;
    if (!err) err = &local;
    int32_t done = 0;
    ie_status st = ie_seq_sync(c, seq, tokens, n, &done, err);
    int32_t start = done, *seqs = st ? NULL : ie_calloc((size_t)c->chunk * 2, sizeof *seqs, "prompt", err);
    if (!st && !seqs) st = IE_E_NOMEM;
    uint8_t *want = st ? NULL : ie_calloc((size_t)c->chunk, 1, "prompt", err);
    if (!st && !want) st = IE_E_NOMEM;
    while (!st && done < n) {
        int32_t t = n - done < c->chunk ? n - done : c->chunk, *pos = seqs + c->chunk;
        for (int32_t i = 0; i < t; i++) seqs[i] = seq, pos[i] = done + i;
        want[t - 1] = done + t == n;
        ie_batch b = {.phase = IE_PREFILL, .n = t, .token = tokens + done, .seq = seqs, .pos = pos, .want_logits = want};
        st = ie_eval(c, &b, err);
        want[t - 1] = 0;
        done += t;
        if (!st && progress && progress(user, "prompt", (double)(done - start) / (double)(n - start)))
            st = ie_fail(err, IE_E_CANCELLED, "the prompt was cancelled");
    }
    free(seqs);
    free(want);
    return st;
}
