/* SentencePiece BPE: spaces are written as U+2581; neighbouring symbols whose joined text is a token are joined, the
 * one with the highest score first, and of equal ones the leftmost; what is no token in the end is written in bytes. */
#include "tok_int.h"
#include "utf8.h"

#include <stdlib.h>
#include <string.h>

static const char SPACE[] = "\xE2\x96\x81";
enum { SPACE_LEN = 3 };

static bool is_space(const char *s, size_t n) { return n >= SPACE_LEN && memcmp(s, SPACE, SPACE_LEN) == 0; }

/* Whether a token has a space that follows another character. */
static bool inner_space(ie_str s) {
    for (size_t i = 1; i + SPACE_LEN <= s.len; i++)
        if (is_space(s.s + i, (size_t)s.len - i) && !(i >= SPACE_LEN && is_space(s.s + i - SPACE_LEN, SPACE_LEN)))
            return true;
    return false;
}

static int hex(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1; }

/* Value of "<0xXX>", or -1. */
static int byte_value(ie_str s) {
    if (s.len != 6 || memcmp(s.s, "<0x", 3) != 0 || s.s[5] != '>' || hex(s.s[3]) < 0 || hex(s.s[4]) < 0) return -1;
    return hex(s.s[3]) << 4 | hex(s.s[4]);
}

ie_status ie_spm_init(ie_tokenizer *t, const ie_gguf *g, ie_error *err) {
    const ie_gguf_value *v;
    ie_status st = ie_gguf_array(g, "tokenizer.ggml.scores", GGUF_F32, &v, err);
    if (st != IE_OK) return st;
    if (!v) return ie_fail(err, IE_E_FORMAT, "tokenizer.ggml.scores is missing: a \"llama\" tokenizer needs it");
    if (v->n < (uint64_t)t->n_vocab)
        return ie_fail(err, IE_E_FORMAT, "tokenizer.ggml.scores has %llu elements: there are %d tokens",
                       (unsigned long long)v->n, t->n_vocab);
    t->score = ie_calloc((size_t)t->n_vocab, sizeof *t->score, "scores", err);
    if (!t->score) return IE_E_NOMEM;
    if (t->n_vocab) memcpy(t->score, v->data, (size_t)t->n_vocab * sizeof *t->score);

    t->split_words = true;
    for (int32_t i = 0; i < t->n_vocab; i++)
        if ((t->flag[i] & TOK_ENCODE) && inner_space(t->text[i])) t->split_words = false;
    for (int b = 0; b < 256; b++) {
        char name[8] = "<0x00>", c = (char)b;
        name[3] = "0123456789ABCDEF"[b >> 4];
        name[4] = "0123456789ABCDEF"[b & 15];
        t->byte_id[b] = ie_strmap_get(&t->map, t->text, name, 6);
        if (t->byte_id[b] < 0 || t->type[t->byte_id[b]] != IE_TT_BYTE) {
            int32_t one = ie_strmap_get(&t->map, t->text, &c, 1);
            if (tok_can(t, one))
                t->byte_id[b] = one;
            else if (!tok_can(t, t->byte_id[b]))
                t->byte_id[b] = -1;
        }
    }
    return IE_OK;
}

void ie_spm_free(ie_tokenizer *t) { free(t->score); }

bool ie_spm_decode(const ie_tokenizer *t, int32_t id, bool first, ie_buf *out, ie_error *err) {
    ie_str s = t->text[id];
    int b = t->type[id] == IE_TT_BYTE ? byte_value(s) : -1;
    if (b >= 0) {
        char c = (char)b;
        return ie_buf_add(out, &c, 1, err);
    }
    size_t i = 0, len = (size_t)s.len;
    if (first && t->add_space_prefix && t->type[id] == IE_TT_NORMAL && is_space(s.s, len)) i = SPACE_LEN;
    while (i < len) {
        size_t j = i;
        while (j < len && !(t->type[id] == IE_TT_NORMAL && is_space(s.s + j, len - j))) j++;
        if (!ie_buf_add(out, s.s + i, j - i, err)) return false;
        if (j < len && !ie_buf_add(out, " ", 1, err)) return false;
        i = j < len ? j + SPACE_LEN : j;
    }
    return true;
}

/* ---- encoding -----------------------------------------------------------------------------------------------------
 */

static bool emit(ie_enc *e, const char *s, size_t len) {
    const ie_tokenizer *t = e->t;
    int32_t id = len <= t->max_len ? ie_strmap_get(&t->map, t->text, s, len) : -1;
    if (tok_can(t, id)) return enc_push(e, id);
    for (size_t i = 0; i < len; i++) {
        id = t->byte_id[(unsigned char)s[i]];
        if (id < 0) { /* no byte fall-back in this vocabulary: the whole character is the unknown token */
            if (t->unk >= 0) return enc_push(e, t->unk);
            ie_fail(e->err, IE_E_FORMAT, "text: the vocabulary has no token for the byte 0x%02X, and no unknown token",
                    (unsigned char)s[i]);
            return false;
        }
        if (!enc_push(e, id)) return false;
    }
    return true;
}

/* Maps a score to a key that sorts the highest first. -0 counts as 0; NaNs get some fixed place. */
static uint32_t score_key(float score) {
    float f = score + 0.0f;
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return ~(u & 0x80000000u ? ~u : u | 0x80000000u);
}

static bool push_pair(ie_enc *e, const char *s, int32_t l, int32_t r) {
    if (l < 0 || r < 0) return true;
    const ie_tokenizer *t = e->t;
    uint32_t len = e->sym[l].len + e->sym[r].len;
    if (len > t->max_len) return true;
    int32_t id = ie_strmap_get(&t->map, t->text, s + e->sym[l].pos, len);
    if (!tok_can(t, id)) return true;
    uint64_t key = (uint64_t)score_key(t->score[id]) << 32 | (uint32_t)l;
    return ie_heap_push(&e->heap, (ie_heap_item){key, (uint32_t)r, len}, e->err);
}

/* Merges s[0 .. len). An entry is out of date when one of its symbols is gone or has grown. */
static bool merge(ie_enc *e, const char *s, size_t len) {
    size_t n = 0;
    for (size_t i = 0; i < len;) {
        size_t c = ie_utf8_len((const unsigned char *)s + i, len - i);
        if (!c) c = 1;
        if (!ie_grow(&e->sym, &e->sym_cap, n + 1, sizeof *e->sym, "symbols", e->err)) return false;
        e->sym[n] = (ie_sym){(uint32_t)i, (uint32_t)c, 0, (int32_t)n - 1, i + c < len ? (int32_t)n + 1 : -1};
        n++;
        i += c;
    }
    ie_sym *sym = e->sym;
    e->heap.n = 0;
    for (size_t i = 0; i + 1 < n; i++)
        if (!push_pair(e, s, (int32_t)i, (int32_t)i + 1)) return false;
    while (e->heap.n) {
        ie_heap_item x = ie_heap_pop(&e->heap);
        ie_sym *l = &sym[(uint32_t)x.key], *r = &sym[x.a];
        if (l->len == 0 || r->len == 0 || l->len + r->len != x.b) continue;
        l->len += r->len;
        r->len = 0;
        l->next = r->next;
        int32_t i = (int32_t)(l - sym);
        if (l->next >= 0) sym[l->next].prev = i;
        if (!push_pair(e, s, l->prev, i) || !push_pair(e, s, i, l->next)) return false;
    }
    for (int32_t i = n ? 0 : -1; i >= 0; i = sym[i].next)
        if (!emit(e, s + sym[i].pos, sym[i].len)) return false;
    return true;
}

/* Appends e->s[begin .. end) to e->buf with spaces written as U+2581. */
static bool escape(ie_enc *e, size_t begin, size_t end, bool prefix) {
    bool squeeze = e->t->remove_extra_ws;
    const char *s = e->s;
    if (squeeze) {
        while (begin < end && s[begin] == ' ') begin++;
        while (end > begin && s[end - 1] == ' ') end--;
    }
    if (begin < end && prefix && !ie_buf_add(&e->buf, SPACE, SPACE_LEN, e->err)) return false;
    while (begin < end) {
        const char *p = memchr(s + begin, ' ', end - begin);
        size_t next = p ? (size_t)(p - s) : end;
        if (!ie_buf_add(&e->buf, s + begin, next - begin, e->err)) return false;
        if (p && !ie_buf_add(&e->buf, SPACE, SPACE_LEN, e->err)) return false;
        begin = p ? next + 1 : end;
        while (squeeze && begin < end && s[begin] == ' ' && p) begin++;
    }
    return true;
}

bool ie_spm_encode(ie_enc *e, size_t begin, size_t end, bool after_special) {
    size_t at = e->buf.len;
    if (!escape(e, begin, end, after_special && e->t->add_space_prefix)) return false;
    if (e->buf.len > INT32_MAX) {
        ie_fail(e->err, IE_E_ARG, "text: %zu bytes with escaped spaces, at most 2^31 - 1 are allowed", e->buf.len);
        return false;
    }
    const char *s = e->buf.data;
    while (at < e->buf.len) {
        size_t stop = e->buf.len;
        if (e->t->split_words) {
            /* A word: its spaces, then all up to the next space. */
            stop = at;
            while (is_space(s + stop, e->buf.len - stop)) stop += SPACE_LEN;
            while (stop < e->buf.len && !is_space(s + stop, e->buf.len - stop)) stop++;
        }
        bool hit;
        ie_word *w = ie_enc_cached(e, s, at, stop - at, &hit);
        if (!w) return false;
        if (!hit) {
            size_t from = e->out->n;
            if (!merge(e, s + at, stop - at)) return false;
            *w = (ie_word){at, from, (uint32_t)(stop - at), (uint32_t)(e->out->n - from)};
        }
        at = stop;
    }
    return true;
}
