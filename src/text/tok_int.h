/* Inside of the tokenizers; only the files of src/text include this. */
#ifndef IE_TOK_INT_H
#define IE_TOK_INT_H

#include "heap.h"
#include "pretok.h"
#include "special.h"
#include "strmap.h"
#include "tokenizer.h"

/* A merge of byte-level BPE: symbols l and r become sym. Free slots have l = UINT32_MAX. */
typedef struct {
    uint32_t l, r, rank, sym;
} ie_merge;

/* Symbols are what merges work on: ids [0, n_vocab) are tokens, [n_vocab, n_sym) strings that merges make or bytes that
 * exist, without being tokens of the vocabulary. */
struct ie_tokenizer {
    bool spm; /* SentencePiece, else byte-level BPE */
    bool add_bos, add_eos, add_space_prefix, remove_extra_ws;
    int32_t n_vocab, n_sym;
    int32_t bos, eos, eot, fim[IE_FIM_COUNT];
    ie_str *text;  /* n_sym, into pool or extra; not NUL-terminated */
    uint8_t *type; /* n_vocab: ie_token_type */
    uint8_t *flag; /* n_vocab: TOK_... */
    char *pool;
    size_t max_len; /* of a token's text */
    ie_strmap map;  /* text to symbol */
    ie_special special;

    /* Byte-level BPE. */
    ie_pre pre;
    ie_cctab cc;
    char *extra; /* texts of the symbols that are no tokens */
    ie_merge *merge;
    size_t merge_mask;
    uint64_t merge_key;
    int32_t byte_sym[256];
    int32_t repl[3]; /* U+FFFD, for bytes that the vocabulary cannot write; n_repl = 0 if it has not even that */
    int32_t n_repl;
    int16_t cp_byte[512]; /* byte that a code point of the vocabulary's texts stands for, or -1 */

    /* SentencePiece. */
    float *score;
    int32_t byte_id[256]; /* <0xXX>, or the one-byte text, or -1 */
    bool split_words;     /* no token holds a space after another character: words can be merged one by one */
    int32_t unk;
};

enum {
    TOK_ENCODE = 1, /* text may become this token by merging: it is a normal or user-defined one */
    TOK_END = 2,    /* ends a text or a turn */
    TOK_RSTRIP = 4, /* white space after it belongs to it */
    TOK_MERGED = 8, /* a merge makes it */
};

static inline bool tok_can(const ie_tokenizer *t, int32_t sym) {
    return sym >= 0 && sym < t->n_vocab && (t->flag[sym] & TOK_ENCODE);
}

/* ---- encoding -----------------------------------------------------------------------------------------------------
 */

/* A symbol in a list that is being merged. */
typedef struct {
    uint32_t pos, len; /* bytes; len 0 once it was merged into its left neighbour */
    int32_t id;
    int32_t prev, next; /* indices, -1 at the ends */
} ie_sym;

/* A word that was encoded before in this call: base[pos .. pos + len) gave out->ids[at .. at + n). */
typedef struct {
    size_t pos, at;
    uint32_t len, n;
} ie_word;

/* State of one call of ie_tokenizer_encode. */
typedef struct {
    const ie_tokenizer *t;
    const char *s; /* the whole text */
    ie_ids *out;
    ie_error *err;
    ie_heap heap;
    ie_sym *sym;
    size_t sym_cap;
    ie_buf buf;    /* BPE: a word in the vocabulary's alphabet; SPM: escaped text so far */
    ie_word *word; /* direct-mapped cache: a collision only costs the time of encoding again */
    size_t word_mask;
} ie_enc;

static inline bool enc_push(ie_enc *e, int32_t id) {
    ie_ids *o = e->out;
    if (o->n == o->cap && !ie_grow(&o->ids, &o->cap, o->n + 1, sizeof *o->ids, "token ids", e->err)) return false;
    o->ids[o->n++] = id;
    return true;
}

/* The cache's entry for a word; sets *hit and appends its ids if it holds just this word. NULL on failure. */
ie_word *ie_enc_cached(ie_enc *e, const char *base, size_t pos, size_t len, bool *hit);

ie_status ie_bpe_init(ie_tokenizer *t, const ie_gguf *g, ie_error *err);
void ie_bpe_free(ie_tokenizer *t);
bool ie_bpe_encode(ie_enc *e, size_t begin, size_t end); /* e->s[begin .. end), without special tokens */
bool ie_bpe_decode(const ie_tokenizer *t, ie_str text, ie_buf *out, ie_error *err);

ie_status ie_spm_init(ie_tokenizer *t, const ie_gguf *g, ie_error *err);
void ie_spm_free(ie_tokenizer *t);
/* after_special: at the text's start or after a special token, where add_space_prefix applies. */
bool ie_spm_encode(ie_enc *e, size_t begin, size_t end, bool after_special);
bool ie_spm_decode(const ie_tokenizer *t, int32_t id, bool first, ie_buf *out, ie_error *err);

/* vocab.c. First the texts and types; then, once the merges are known, special ids, end tokens and the automaton. */
ie_status ie_vocab_init(ie_tokenizer *t, const ie_gguf *g, ie_error *err);
ie_status ie_vocab_special(ie_tokenizer *t, const ie_gguf *g, ie_error *err);

#endif
