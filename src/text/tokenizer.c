/* The public functions: building, looking up, encoding of runs of text with special tokens, decoding. */
#include "tok_int.h"

#include <stdlib.h>
#include <string.h>

/* ---- building -----------------------------------------------------------------------------------------------------
 */

static ie_status init_model(ie_tokenizer *t, const ie_gguf *g, ie_error *err) {
    ie_str model, pre;
    ie_status st = ie_gguf_str_req(g, "tokenizer.ggml.model", &model, err);
    if (st != IE_OK) return st;
    t->spm = model.len == 5 && memcmp(model.s, "llama", 5) == 0;
    if (!t->spm && !(model.len == 4 && memcmp(model.s, "gpt2", 4) == 0))
        return ie_fail(err, IE_E_UNSUPPORTED, "tokenizer.ggml.model is \"%.*s\": supported are gpt2, llama",
                       (int)(model.len < 64 ? model.len : 64), model.s);
    if (t->spm) return IE_OK;
    st = ie_gguf_str(g, "tokenizer.ggml.pre", "default", &pre, err);
    return st == IE_OK ? ie_pre_find(pre, &t->pre, err) : st;
}

/* The ids of U+FFFD, which stands in for bytes that a byte-level vocabulary cannot write. */
static ie_status init_replacement(ie_tokenizer *t, ie_error *err) {
    if (t->spm) return IE_OK;
    ie_ids ids = {0};
    const ie_text_run run = {"\xEF\xBF\xBD", 3, false};
    ie_error none;
    ie_status st = ie_tokenizer_encode(t, &run, 1, 0, &ids, &none);
    if (st == IE_E_NOMEM) *err = none;
    if (st == IE_OK && ids.n <= 3) {
        memcpy(t->repl, ids.ids, ids.n * sizeof *ids.ids);
        t->n_repl = (int32_t)ids.n;
    }
    ie_ids_free(&ids);
    return st == IE_E_NOMEM ? st : IE_OK;
}

ie_tokenizer *ie_tokenizer_new(const ie_gguf *g, ie_error *err) {
    ie_error local;
    if (!err) err = &local;
    ie_tokenizer *t = ie_calloc(1, sizeof *t, "tokenizer", err);
    if (!t) return NULL;
    t->bos = t->eos = t->eot = t->unk = -1;
    for (int i = 0; i < IE_FIM_COUNT; i++) t->fim[i] = -1;
    ie_status st = init_model(t, g, err);
    if (st == IE_OK) st = ie_vocab_init(t, g, err);
    if (st == IE_OK) st = t->spm ? ie_spm_init(t, g, err) : ie_bpe_init(t, g, err);
    if (st == IE_OK) st = ie_vocab_special(t, g, err);
    if (st == IE_OK) st = init_replacement(t, err);
    if (st == IE_OK) return t;
    ie_tokenizer_free(t);
    return NULL;
}

void ie_tokenizer_free(ie_tokenizer *t) {
    if (!t) return;
    ie_bpe_free(t);
    ie_spm_free(t);
    ie_special_free(&t->special);
    ie_strmap_free(&t->map);
    free(t->text);
    free(t->type);
    free(t->flag);
    free(t->pool);
    free(t);
}

/* ---- looking up ---------------------------------------------------------------------------------------------------
 */

static bool valid(const ie_tokenizer *t, int32_t id) { return id >= 0 && id < t->n_vocab; }

int32_t ie_tokenizer_n_vocab(const ie_tokenizer *t) { return t->n_vocab; }
int32_t ie_tokenizer_bos(const ie_tokenizer *t) { return t->bos; }
int32_t ie_tokenizer_eos(const ie_tokenizer *t) { return t->eos; }
int32_t ie_tokenizer_eot(const ie_tokenizer *t) { return t->eot; }
int32_t ie_tokenizer_fim(const ie_tokenizer *t, ie_fim role) { return t->fim[role]; }
bool ie_tokenizer_add_bos(const ie_tokenizer *t) { return t->add_bos; }
bool ie_tokenizer_is_end(const ie_tokenizer *t, int32_t id) { return valid(t, id) && (t->flag[id] & TOK_END); }

ie_token_type ie_tokenizer_type(const ie_tokenizer *t, int32_t id) {
    return valid(t, id) ? (ie_token_type)t->type[id] : IE_TT_UNKNOWN;
}

ie_str ie_tokenizer_raw(const ie_tokenizer *t, int32_t id) { return valid(t, id) ? t->text[id] : (ie_str){"", 0}; }

int32_t ie_tokenizer_find(const ie_tokenizer *t, const char *text, size_t len) {
    int32_t id = ie_strmap_get(&t->map, t->text, text, len);
    return id < t->n_vocab ? id : -1;
}

void ie_ids_free(ie_ids *v) {
    free(v->ids);
    *v = (ie_ids){0};
}

/* ---- encoding -----------------------------------------------------------------------------------------------------
 */

static uint64_t hash_bytes(const char *s, size_t len) {
    const uint64_t k = 0x9E3779B97F4A7C15u;
    uint64_t h = len * k, x;
    for (; len >= 8; s += 8, len -= 8) {
        memcpy(&x, s, 8);
        h = (h ^ x) * k;
        h ^= h >> 32;
    }
    x = 0;
    memcpy(&x, s, len);
    h = (h ^ x) * k;
    return h ^ h >> 29;
}

ie_word *ie_enc_cached(ie_enc *e, const char *base, size_t pos, size_t len, bool *hit) {
    ie_word *w = &e->word[hash_bytes(base + pos, len) & e->word_mask];
    *hit = w->n && w->len == len && memcmp(base + w->pos, base + pos, len) == 0;
    if (!*hit) return w;
    ie_ids *o = e->out;
    if (!ie_grow(&o->ids, &o->cap, o->n + w->n, sizeof *o->ids, "token ids", e->err)) return NULL;
    for (uint32_t i = 0; i < w->n; i++) o->ids[o->n++] = o->ids[w->at + i];
    return w;
}

/* Special tokens in a text of n bytes: in trusted ranges any, elsewhere user-defined ones. Both lists by falling
 * position; at each position they are walked to, the longer match counts. */
typedef struct {
    ie_sp_list any, user;
} matches;

static bool find_special(const ie_tokenizer *t, const char *s, size_t n, const ie_text_run *runs, size_t n_runs,
                         matches *m, ie_error *err) {
    size_t end = n;
    bool all = true;
    for (size_t i = n_runs; i-- > 0;) {
        size_t begin = end, stop = end;
        /* Neighbouring runs of trusted text are one range. */
        while (i != SIZE_MAX && (runs[i].trusted || runs[i].len == 0)) begin -= runs[i--].len;
        if (begin < stop && !ie_special_scan(&t->special, t->text, s, begin, stop, false, &m->any, err)) return false;
        if (i == SIZE_MAX) break;
        all = false;
        end = begin - runs[i].len;
    }
    return all || !t->special.has_user || ie_special_scan(&t->special, t->text, s, 0, n, true, &m->user, err);
}

/* Takes the next match at or after pos; false if there is none. */
static bool next_match(matches *m, size_t pos, ie_sp_match *out) {
    ie_sp_list *lists[2] = {&m->any, &m->user};
    const ie_sp_match *best = NULL;
    for (int k = 0; k < 2; k++) {
        ie_sp_list *l = lists[k];
        while (l->n && l->v[l->n - 1].pos < pos) l->n--;
        const ie_sp_match *x = l->n ? &l->v[l->n - 1] : NULL;
        if (x && (!best || x->pos < best->pos || (x->pos == best->pos && x->len > best->len))) best = x;
    }
    if (best) *out = *best;
    return best != NULL;
}

static bool plain(ie_enc *e, size_t begin, size_t end, bool after_special) {
    if (begin >= end) return true;
    return e->t->spm ? ie_spm_encode(e, begin, end, after_special) : ie_bpe_encode(e, begin, end);
}

static bool is_white(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

static bool encode_text(ie_enc *e, size_t n, const ie_text_run *runs, size_t n_runs) {
    const ie_tokenizer *t = e->t;
    matches m = {0};
    bool ok = find_special(t, e->s, n, runs, n_runs, &m, e->err), after = true;
    ie_sp_match x;
    size_t pos = 0;
    while (ok && next_match(&m, pos, &x)) {
        ok = plain(e, pos, x.pos, after) && enc_push(e, x.id);
        pos = x.pos + x.len;
        after = true;
        if (t->flag[x.id] & TOK_RSTRIP)
            while (pos < n && is_white(e->s[pos])) pos++;
    }
    ok = ok && plain(e, pos, n, after);
    free(m.any.v);
    free(m.user.v);
    return ok;
}

/* The runs as one text: that of the only one, or a copy (*own). NULL on failure; *n is its length. */
static const char *join(const ie_text_run *runs, size_t n_runs, size_t *n, char **own, ie_error *err) {
    size_t total = 0;
    *own = NULL;
    for (size_t i = 0; i < n_runs; i++) {
        if (runs[i].len > INT32_MAX - total) {
            ie_fail(err, IE_E_ARG, "text: at most 2^31 - 1 bytes are allowed");
            return NULL;
        }
        total += runs[i].len;
    }
    *n = total;
    if (total == 0) return "";
    if (n_runs == 1) return runs[0].s;
    char *p = *own = ie_calloc(total, 1, "text", err);
    for (size_t i = 0; p && i < n_runs; i++) {
        if (runs[i].len) memcpy(p, runs[i].s, runs[i].len);
        p += runs[i].len;
    }
    return *own;
}

ie_status ie_tokenizer_encode(const ie_tokenizer *t, const ie_text_run *runs, size_t n_runs, unsigned flags,
                              ie_ids *out, ie_error *err) {
    ie_error local;
    if (!err) err = &local;
    size_t n, before = out->n, slots = 64;
    char *own;
    ie_enc e = {.t = t, .out = out, .err = err};
    e.s = join(runs, n_runs, &n, &own, err);
    if (!e.s) return err->code;
    while (slots < 8192 && slots < n / 4) slots *= 2;
    e.word = ie_calloc(slots, sizeof *e.word, "word cache", err);
    e.word_mask = slots - 1;
    bool add = flags & IE_TOK_ADD_SPECIAL;
    bool ok = e.word && (!add || !t->add_bos || enc_push(&e, t->bos)) && encode_text(&e, n, runs, n_runs) &&
              (!add || !t->add_eos || enc_push(&e, t->eos));
    if (!ok) out->n = before;
    free(own);
    free(e.word);
    free(e.heap.v);
    free(e.sym);
    ie_buf_free(&e.buf);
    return ok ? IE_OK : err->code;
}

/* ---- decoding -----------------------------------------------------------------------------------------------------
 */

ie_status ie_tokenizer_decode(const ie_tokenizer *t, int32_t id, bool first, unsigned flags, ie_buf *out,
                              ie_error *err) {
    ie_error local;
    if (!err) err = &local;
    if (!valid(t, id)) return ie_fail(err, IE_E_ARG, "token %d: the vocabulary has 0 to %d", id, t->n_vocab - 1);
    bool ok = true;
    switch ((ie_token_type)t->type[id]) {
    case IE_TT_CONTROL:
    case IE_TT_UNKNOWN:
    case IE_TT_UNUSED:
        if (flags & IE_DETOK_SPECIAL) ok = ie_buf_add(out, t->text[id].s, (size_t)t->text[id].len, err);
        break;
    case IE_TT_USER_DEFINED: ok = ie_buf_add(out, t->text[id].s, (size_t)t->text[id].len, err); break;
    case IE_TT_NORMAL:
    case IE_TT_BYTE:
        ok = t->spm ? ie_spm_decode(t, id, first, out, err) : ie_bpe_decode(t, t->text[id], out, err);
        break;
    }
    return ok ? IE_OK : err->code;
}
