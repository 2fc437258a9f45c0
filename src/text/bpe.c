/* Byte-level BPE. The vocabulary writes each byte as one printable character (GPT-2's alphabet); merges join pairs of
 * symbols, the one listed first first, and of equal ones the leftmost. Merges work on symbol ids, never on strings. */
#include "tok_int.h"
#include "utf8.h"

#include <stdlib.h>
#include <string.h>

/* ---- GPT-2's alphabet ---------------------------------------------------------------------------------------------
 */

/* Bytes that are printable in Latin-1 stand for themselves, the others for U+0100 and up, in order. */
static void make_alphabet(int16_t cp_byte[512], uint16_t byte_cp[256]) {
    uint16_t next = 0x100;
    for (int i = 0; i < 512; i++) cp_byte[i] = -1;
    for (uint16_t b = 0; b < 256; b++) {
        bool own = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
        byte_cp[b] = own ? b : next++;
        cp_byte[byte_cp[b]] = (int16_t)b;
    }
}

bool ie_bpe_decode(const ie_tokenizer *t, ie_str text, ie_buf *out, ie_error *err) {
    const unsigned char *s = (const unsigned char *)text.s;
    char tmp[256];
    size_t n = 0;
    for (size_t i = 0; i < text.len;) {
        size_t len = ie_utf8_len(s + i, (size_t)text.len - i);
        uint32_t cp = len ? ie_utf8_cp(s + i, len) : UINT32_MAX;
        if (n + 4 > sizeof tmp) {
            if (!ie_buf_add(out, tmp, n, err)) return false;
            n = 0;
        }
        if (cp < 512 && t->cp_byte[cp] >= 0) {
            tmp[n++] = (char)t->cp_byte[cp];
        } else { /* not of the alphabet: it stands for itself */
            if (!len) len = 1;
            memcpy(tmp + n, s + i, len);
            n += len;
        }
        i += len;
    }
    return ie_buf_add(out, tmp, n, err);
}

/* ---- merges -------------------------------------------------------------------------------------------------------
 */

static inline size_t merge_slot(const ie_tokenizer *t, uint32_t l, uint32_t r) {
    uint64_t h = ((uint64_t)l << 32 | r) + t->merge_key;
    h *= t->merge_key | 1; /* random and odd: universal hashing, so no file makes it slow */
    return (size_t)(h ^ h >> 32) & t->merge_mask;
}

static inline const ie_merge *find_merge(const ie_tokenizer *t, int32_t l, int32_t r) {
    for (size_t i = merge_slot(t, (uint32_t)l, (uint32_t)r);; i = (i + 1) & t->merge_mask) {
        const ie_merge *m = &t->merge[i];
        if (m->l == (uint32_t)l && m->r == (uint32_t)r) return m;
        if (m->l == UINT32_MAX) return NULL;
    }
}

/* The symbol of a text, made if there is none (its bytes are kept at *extra). The room for it was counted. */
static int32_t intern(ie_tokenizer *t, const char *s, size_t len, char **extra) {
    int32_t i = ie_strmap_get(&t->map, t->text, s, len);
    if (i >= 0) return i;
    memcpy(*extra, s, len);
    t->text[t->n_sym] = (ie_str){*extra, len};
    *extra += len;
    ie_strmap_put(&t->map, t->text, (uint32_t)t->n_sym);
    return t->n_sym++;
}

/* Where the merge "left right" parts: at the first space that is not its first byte; 0 if there is none. */
static size_t merge_split(ie_str m) {
    const char *p = m.len > 1 ? memchr(m.s + 1, ' ', (size_t)m.len - 1) : NULL;
    return p ? (size_t)(p - m.s) : 0;
}

static bool merge_alloc(ie_tokenizer *t, size_t n, ie_error *err) {
    size_t slots = 16;
    while (slots < n + n / 2) slots *= 2;
    uint64_t key[2];
    ie_random_key(key);
    t->merge_key = key[0];
    t->merge_mask = slots - 1;
    t->merge = ie_calloc(slots, sizeof *t->merge, "merges", err);
    if (!t->merge) return false;
    for (size_t i = 0; i < slots; i++) t->merge[i].l = UINT32_MAX;
    return true;
}

static ie_status read_merges(ie_tokenizer *t, const ie_gguf_value *v, char *extra, ie_error *err) {
    const ie_str *m = v->data;
    size_t longest = 0;
    for (uint64_t i = 0; i < v->n; i++) {
        if (m[i].len > longest) longest = (size_t)m[i].len;
        size_t cut = merge_split(m[i]);
        if (!cut || cut + 1 >= m[i].len)
            return ie_fail(err, IE_E_FORMAT, "tokenizer.ggml.merges[%llu] is \"%.*s\": want two parts and a space",
                           (unsigned long long)i, (int)(m[i].len < 64 ? m[i].len : 64), m[i].s);
    }
    char *both = ie_calloc(longest + 1, 1, "merges", err);
    int32_t *made = both ? ie_calloc((size_t)v->n, sizeof *made, "merges", err) : NULL;
    if (!made) {
        free(both);
        return IE_E_NOMEM;
    }
    for (uint64_t i = 0; i < v->n; i++) {
        size_t cut = merge_split(m[i]), rest = (size_t)m[i].len - cut - 1;
        memcpy(both, m[i].s, cut);
        memcpy(both + cut, m[i].s + cut + 1, rest);
        made[i] = intern(t, both, cut + rest, &extra);
    }
    for (uint64_t i = 0; i < v->n; i++) {
        size_t cut = merge_split(m[i]), rest = (size_t)m[i].len - cut - 1;
        int32_t l = ie_strmap_get(&t->map, t->text, m[i].s, cut);
        int32_t r = ie_strmap_get(&t->map, t->text, m[i].s + cut + 1, rest);
        if (l < 0 || r < 0) continue; /* neither a byte nor made by a merge: it can never apply */
        size_t k = merge_slot(t, (uint32_t)l, (uint32_t)r);
        while (t->merge[k].l != UINT32_MAX && (t->merge[k].l != (uint32_t)l || t->merge[k].r != (uint32_t)r))
            k = (k + 1) & t->merge_mask;
        if (t->merge[k].l != UINT32_MAX) continue; /* listed twice: the first counts */
        t->merge[k] = (ie_merge){(uint32_t)l, (uint32_t)r, (uint32_t)i, (uint32_t)made[i]};
        if (made[i] < t->n_vocab) t->flag[made[i]] |= TOK_MERGED;
    }
    free(both);
    free(made);
    return IE_OK;
}

ie_status ie_bpe_init(ie_tokenizer *t, const ie_gguf *g, ie_error *err) {
    const ie_gguf_value *v;
    ie_status st = ie_gguf_array(g, "tokenizer.ggml.merges", GGUF_STRING, &v, err);
    if (st != IE_OK) return st;
    if (!v) return ie_fail(err, IE_E_FORMAT, "tokenizer.ggml.merges is missing: a \"gpt2\" tokenizer needs it");
    if (v->n > 1u << 24)
        return ie_fail(err, IE_E_FORMAT, "tokenizer.ggml.merges has %llu elements: at most 16777216 are allowed",
                       (unsigned long long)v->n);
    /* Symbols that are no tokens: at most one for each merge and byte. ie_vocab_init left room for them. */
    size_t bytes = 512;
    for (uint64_t i = 0; i < v->n; i++) bytes += (size_t)((const ie_str *)v->data)[i].len;
    t->extra = ie_calloc(bytes, 1, "merges", err);
    if (!t->extra || !merge_alloc(t, (size_t)v->n, err) || !ie_cctab_init(&t->cc, err)) return IE_E_NOMEM;

    char *extra = t->extra;
    uint16_t byte_cp[256];
    make_alphabet(t->cp_byte, byte_cp);
    for (int b = 0; b < 256; b++) {
        unsigned char utf8[4];
        size_t len = ie_utf8_put(byte_cp[b], utf8);
        t->byte_sym[b] = intern(t, (char *)utf8, len, &extra);
    }
    return read_merges(t, v, extra, err);
}

void ie_bpe_free(ie_tokenizer *t) {
    free(t->extra);
    free(t->merge);
    ie_cctab_free(&t->cc);
}

/* ---- encoding -----------------------------------------------------------------------------------------------------
 */

/* Appends a symbol that covers len bytes at s. One that is no token is written byte by byte, a byte that is none either
 * as U+FFFD: some vocabularies lack bytes that their training text never had. */
static bool emit(ie_enc *e, int32_t sym, const unsigned char *s, size_t len) {
    const ie_tokenizer *t = e->t;
    if (tok_can(t, sym)) return enc_push(e, sym);
    for (size_t i = 0; i < len; i++) {
        int32_t b = t->byte_sym[s[i]];
        if (tok_can(t, b)) {
            if (!enc_push(e, b)) return false;
            continue;
        }
        if (t->n_repl == 0) {
            ie_fail(e->err, IE_E_FORMAT, "text: the vocabulary has no token for the byte 0x%02X, and none for U+FFFD",
                    s[i]);
            return false;
        }
        for (int32_t k = 0; k < t->n_repl; k++)
            if (!enc_push(e, t->repl[k])) return false;
    }
    return true;
}

enum { SHORT = 24 };

/* Merges a short word by looking for the best pair again and again: faster than a queue while it fits few cache lines.
 */
static bool short_word(ie_enc *e, const unsigned char *s, size_t len) {
    const ie_tokenizer *t = e->t;
    int32_t id[SHORT];
    uint8_t size[SHORT];
    const ie_merge *best[SHORT]; /* merge of symbol i with the next one, or NULL */
    size_t n = len;
    for (size_t i = 0; i < n; i++) id[i] = t->byte_sym[s[i]], size[i] = 1;
    for (size_t i = 0; i + 1 < n; i++) best[i] = find_merge(t, id[i], id[i + 1]);
    for (;;) {
        size_t at = n;
        uint32_t rank = UINT32_MAX;
        for (size_t i = 0; i + 1 < n; i++)
            if (best[i] && best[i]->rank < rank) rank = best[i]->rank, at = i;
        if (at == n) break;
        id[at] = (int32_t)best[at]->sym;
        size[at] = (uint8_t)(size[at] + size[at + 1]);
        n--;
        for (size_t i = at + 1; i < n; i++) id[i] = id[i + 1], size[i] = size[i + 1], best[i] = best[i + 1];
        if (at) best[at - 1] = find_merge(t, id[at - 1], id[at]);
        if (at + 1 < n) best[at] = find_merge(t, id[at], id[at + 1]);
    }
    for (size_t i = 0; i < n; s += size[i++])
        if (!emit(e, id[i], s, size[i])) return false;
    return true;
}

static bool push_pair(ie_enc *e, int32_t l, int32_t r) {
    if (l < 0 || r < 0) return true;
    const ie_merge *m = find_merge(e->t, e->sym[l].id, e->sym[r].id);
    return !m || ie_heap_push(&e->heap, (ie_heap_item){(uint64_t)m->rank << 32 | (uint32_t)l, m->l, m->r}, e->err);
}

/* Merges a long word with a queue of pairs: O(n log n). An entry is out of date when its two symbols are. */
static bool long_word(ie_enc *e, const unsigned char *s, size_t len) {
    if (!ie_grow(&e->sym, &e->sym_cap, len, sizeof *e->sym, "symbols", e->err)) return false;
    ie_sym *sym = e->sym;
    for (size_t i = 0; i < len; i++)
        sym[i] = (ie_sym){(uint32_t)i, 1, e->t->byte_sym[s[i]], (int32_t)i - 1, i + 1 < len ? (int32_t)i + 1 : -1};
    e->heap.n = 0;
    for (size_t i = 0; i + 1 < len; i++)
        if (!push_pair(e, (int32_t)i, (int32_t)i + 1)) return false;
    while (e->heap.n) {
        ie_heap_item x = ie_heap_pop(&e->heap);
        ie_sym *l = &sym[(uint32_t)x.key];
        if (l->len == 0 || l->id != (int32_t)x.a || l->next < 0 || sym[l->next].id != (int32_t)x.b) continue;
        ie_sym *r = &sym[l->next];
        const ie_merge *m = find_merge(e->t, l->id, r->id);
        if (!m) continue; /* cannot be: it was found when the entry was made */
        l->id = (int32_t)m->sym;
        l->len += r->len;
        r->len = 0;
        l->next = r->next;
        int32_t i = (int32_t)(l - sym);
        if (l->next >= 0) sym[l->next].prev = i;
        if (!push_pair(e, l->prev, i) || !push_pair(e, i, l->next)) return false;
    }
    for (int32_t i = 0; i >= 0; i = sym[i].next)
        if (!emit(e, sym[i].id, s + sym[i].pos, sym[i].len)) return false;
    return true;
}

/* For vocabularies that take a word whole if it is a token: that token, or -1; -2 on failure. */
static int32_t whole_word(ie_enc *e, const unsigned char *s, size_t len) {
    const ie_tokenizer *t = e->t;
    if (len > t->max_len) return -1;
    e->buf.len = 0;
    for (size_t i = 0; i < len; i++) {
        ie_str c = t->text[t->byte_sym[s[i]]];
        if (!ie_buf_add(&e->buf, c.s, (size_t)c.len, e->err)) return -2;
    }
    int32_t id = ie_strmap_get(&t->map, t->text, e->buf.data, e->buf.len);
    return tok_can(t, id) ? id : -1;
}

static bool bpe_word(ie_enc *e, size_t pos, size_t len) {
    bool hit;
    ie_word *w = ie_enc_cached(e, e->s, pos, len, &hit);
    if (!w) return false;
    if (hit) return true;
    const unsigned char *s = (const unsigned char *)e->s + pos;
    size_t at = e->out->n;
    int32_t whole = e->t->pre.ignore_merges ? whole_word(e, s, len) : -1;
    if (whole == -2) return false;
    if (whole >= 0 ? !enc_push(e, whole) : len <= SHORT ? !short_word(e, s, len) : !long_word(e, s, len)) return false;
    if (e->out->n - at <= UINT32_MAX) *w = (ie_word){pos, at, (uint32_t)len, (uint32_t)(e->out->n - at)};
    return true;
}

bool ie_bpe_encode(ie_enc *e, size_t begin, size_t end) {
    ie_pre_walk w = {
        .kind = e->t->pre.kind, .tab = &e->t->cc, .s = (const unsigned char *)e->s + begin, .end = end - begin};
    size_t start;
    while (ie_pre_next(&w, &start))
        if (!bpe_word(e, begin + start, w.pos - start)) return false;
    return true;
}
