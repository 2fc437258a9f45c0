/* The bytes of a vocabulary as a tree, so that a mask takes one walk over it. */
#include <stdlib.h>
#include <string.h>

#include "grammar.h"

typedef struct {
    uint64_t head; /* the first 8 bytes, big-endian, for a quick comparison */
    uint32_t id;
} entry;

static int compare(const void *pa, const void *pb, void *user) {
    const entry *a = pa, *b = pb;
    const ie_str *text = user, *x = &text[a->id], *y = &text[b->id];
    if (a->head != b->head) return a->head < b->head ? -1 : 1;
    size_t n = x->len < y->len ? (size_t)x->len : (size_t)y->len;
    int c = memcmp(x->s, y->s, n);
    if (c) return c;
    if (x->len != y->len) return x->len < y->len ? -1 : 1;
    return a->id < b->id ? -1 : a->id > b->id;
}

static uint64_t head_of(const ie_str *s) {
    uint64_t h = 0;
    for (unsigned i = 0; i < 8; i++) h = h << 8 | (i < s->len ? (uint8_t)s->s[i] : 0);
    return h;
}

/* Nodes for the sorted tokens; open[d]: the node of the current token's first d + 1 bytes. */
static bool build_tree(gr_vocab *v, const ie_str *text, const entry *e, uint32_t n, ie_error *err) {
    uint32_t open[GR_MAX_TOKEN], depth = 0;
    size_t cap = 0, used = 0;
    const ie_str *last = NULL;
    for (uint32_t i = 0; i < n; i++) {
        const ie_str *s = &text[e[i].id];
        uint32_t same = 0;
        while (last && same < depth && same < s->len && last->s[same] == s->s[same]) same++;
        for (; depth > same; depth--) v->node[open[depth - 1]].skip = v->n_node;
        for (; depth < s->len; depth++) {
            if (!ie_grow(&v->node, &cap, v->n_node + 2u, sizeof *v->node, "vocabulary", err)) return false;
            uint8_t byte = (uint8_t)s->s[depth];
            if (depth == 0) v->root[byte] = v->n_node;
            open[depth] = v->n_node;
            v->node[v->n_node++] = (gr_vnode){0, i, (uint16_t)(depth + 1), byte};
        }
        v->ids[i] = (int32_t)e[i].id;
        if (s->len == 1) v->single[(uint8_t)s->s[0]] = true;
        if (s->len > v->longest) v->longest = (uint32_t)s->len;
        v->text[e[i].id] = (ie_str){v->bytes + used, s->len};
        memcpy(v->bytes + used, s->s, s->len);
        used += s->len;
        last = s;
    }
    for (; depth > 0; depth--) v->node[open[depth - 1]].skip = v->n_node;
    if (!v->node && !ie_grow(&v->node, &cap, 1, sizeof *v->node, "vocabulary", err)) return false;
    v->node[v->n_node] = (gr_vnode){v->n_node, n, 0, 0};
    return true;
}

gr_vocab *gr_vocab_new(const ie_str *text, int32_t n, int32_t n_mask, const int32_t *end, int32_t n_end, bool drop_space,
                       const ie_tokenizer *tok, ie_error *err) {
    gr_vocab *v = ie_calloc(1, sizeof *v, "vocabulary", err);
    entry *e = v ? ie_calloc((size_t)n + 1, sizeof *e, "vocabulary", err) : NULL;
    uint32_t used = 0;
    size_t bytes = 1;
    bool ok = e != NULL;
    if (ok) {
        v->n = n_mask;
        v->words = ((size_t)n_mask + 63) / 64;
        v->drop_space = drop_space;
        v->tok = tok;
        memset(v->root, 0xFF, sizeof v->root);
        for (int32_t i = 0; i < n; i++) {
            if (text[i].len == 0 || text[i].len > GR_MAX_TOKEN) continue;
            e[used++] = (entry){head_of(&text[i]), (uint32_t)i};
            bytes += (size_t)text[i].len;
        }
        qsort_r(e, used, sizeof *e, compare, (void *)(uintptr_t)text);
        v->ids = ie_calloc((size_t)used + 1, sizeof *v->ids, "vocabulary", err);
        v->end = ie_calloc((size_t)n_end + 1, sizeof *v->end, "vocabulary", err);
        v->text = ie_calloc((size_t)n_mask + 1, sizeof *v->text, "vocabulary", err);
        v->bytes = ie_calloc(bytes, 1, "vocabulary", err);
        ok = v->ids && v->end && v->text && v->bytes && build_tree(v, text, e, used, err);
    }
    if (ok && n_end) memcpy(v->end, end, (size_t)n_end * sizeof *end);
    if (ok) v->n_end = n_end;
    free(e);
    if (ok) return v;
    gr_vocab_free(v);
    return NULL;
}

gr_vocab *gr_vocab_of(const ie_tokenizer *tok, int32_t n_mask, ie_error *err) {
    int32_t n = ie_tokenizer_n_vocab(tok), n_end = 0;
    ie_str *text = ie_calloc((size_t)n + 1, sizeof *text, "vocabulary", err);
    size_t *at = ie_calloc((size_t)n + 1, sizeof *at, "vocabulary", err);
    int32_t *end = ie_calloc((size_t)n + 1, sizeof *end, "vocabulary", err);
    ie_buf bytes = {0};
    bool ok = text && at && end;
    for (int32_t i = 0; i < n && ok; i++) {
        at[i] = bytes.len;
        ie_token_type type = ie_tokenizer_type(tok, i);
        bool is_end = ie_tokenizer_is_end(tok, i);
        if (is_end) end[n_end++] = i;
        else if (type == IE_TT_NORMAL || type == IE_TT_BYTE || type == IE_TT_USER_DEFINED)
            ok = ie_tokenizer_decode(tok, i, false, 0, &bytes, err) == IE_OK;
    }
    if (ok) at[n] = bytes.len;
    for (int32_t i = 0; i < n && ok; i++) text[i] = (ie_str){bytes.data + at[i], at[i + 1] - at[i]};
    /* Whether the first token loses a leading space is seen from a token that has one. */
    bool drop = false;
    for (int32_t i = 0; i < n && ok && !drop; i++) {
        if (text[i].len < 2 || text[i].s[0] != ' ') continue;
        ie_buf first = {0};
        ok = ie_tokenizer_decode(tok, i, true, 0, &first, err) == IE_OK;
        drop = ok && first.len + 1 == text[i].len;
        ie_buf_free(&first);
        break;
    }
    for (int32_t i = 0; i < n && drop; i++) /* the byte token for a space is not dropped: it could not be told from one that is */
        if (ie_tokenizer_type(tok, i) == IE_TT_BYTE && text[i].len == 1 && text[i].s[0] == ' ') text[i].len = 0;
    if (n_mask < n) n_mask = n;
    gr_vocab *v = ok ? gr_vocab_new(text, n, n_mask, end, n_end, drop, tok, err) : NULL;
    free(text);
    free(at);
    free(end);
    ie_buf_free(&bytes);
    return v;
}

void gr_vocab_free(gr_vocab *v) {
    if (!v) return;
    free(v->node);
    free(v->ids);
    free(v->end);
    free(v->text);
    free(v->bytes);
    free(v);
}
