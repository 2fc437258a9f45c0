/* Tokenizers of GGUF vocabularies: byte-level BPE ("gpt2") and SentencePiece BPE ("llama").
 *
 * A tokenizer is built from a file's metadata and read-only afterwards (shared by threads). */
#ifndef IE_TOKENIZER_H
#define IE_TOKENIZER_H

#include "../gguf.h"

typedef struct ie_tokenizer ie_tokenizer;

/* Token attributes of GGUF's tokenizer.ggml.token_type. */
typedef enum {
    IE_TT_NORMAL = 1, IE_TT_UNKNOWN, IE_TT_CONTROL, IE_TT_USER_DEFINED, IE_TT_UNUSED, IE_TT_BYTE
} ie_token_type;

/* Copies what it needs: g may be closed afterwards. NULL on failure: names the key, its value and what is allowed. */
ie_tokenizer *ie_tokenizer_new(const ie_gguf *g, ie_error *err);
void ie_tokenizer_free(ie_tokenizer *t);

int32_t ie_tokenizer_n_vocab(const ie_tokenizer *t);
int32_t ie_tokenizer_bos(const ie_tokenizer *t); /* -1 where there is none */
int32_t ie_tokenizer_eos(const ie_tokenizer *t);
int32_t ie_tokenizer_eot(const ie_tokenizer *t);
/* Tokens of fill-in-the-middle: before the text's beginning, its end, what is to be filled in; before a repository's and a
 * file's name. */
typedef enum { IE_FIM_PRE, IE_FIM_SUF, IE_FIM_MID, IE_FIM_REP, IE_FIM_SEP, IE_FIM_COUNT } ie_fim;
int32_t ie_tokenizer_fim(const ie_tokenizer *t, ie_fim role); /* -1 where there is none */
bool ie_tokenizer_add_bos(const ie_tokenizer *t);
bool ie_tokenizer_is_end(const ie_tokenizer *t, int32_t id); /* end of text or of turn (eos, eot, eom, ...) */
ie_token_type ie_tokenizer_type(const ie_tokenizer *t, int32_t id);
/* The token's text as the vocabulary writes it (for special tokens: the literal text). */
ie_str ie_tokenizer_raw(const ie_tokenizer *t, int32_t id);
int32_t ie_tokenizer_find(const ie_tokenizer *t, const char *text, size_t len); /* by that text; -1 */

/* A growing array of ids. */
typedef struct {
    int32_t *ids;
    size_t n, cap;
} ie_ids;
void ie_ids_free(ie_ids *v);

/* One run of text with its trust: only trusted runs may form control tokens (docs: trust in text). User-defined tokens
 * are recognised as llama.cpp does with parse_special = false in untrusted text. */
typedef struct {
    const char *s;
    size_t len;
    bool trusted;
} ie_text_run;

/* Appends the ids of the runs, which are parts of one text (a merge may cross from a run to the next only where no
 * special token stands between). flags: IE_TOK_ADD_SPECIAL. Time is O(n log n) and the recursion depth constant for any
 * input. Bytes that are not UTF-8 are encoded by byte fall-back, never dropped; a byte that the vocabulary has no token for
 * (some byte-level ones lack a few) becomes U+FFFD. On failure out is as it was. At most 2^31 - 1 bytes in all. */
ie_status ie_tokenizer_encode(const ie_tokenizer *t, const ie_text_run *runs, size_t n_runs, unsigned flags, ie_ids *out,
                              ie_error *err);

/* Appends the bytes of one token. first: whether it is the first of a text (SentencePiece drops one leading space when
 * add_space_prefix is set). flags: IE_DETOK_SPECIAL. */
ie_status ie_tokenizer_decode(const ie_tokenizer *t, int32_t id, bool first, unsigned flags, ie_buf *out,
                              ie_error *err);

/* Number of bytes of s that end at a character boundary: a truncated UTF-8 sequence at the end is left out, since later
 * tokens may complete it; invalid bytes count as complete. Used to stream only whole characters. */
size_t ie_utf8_complete(const char *s, size_t len);

#endif
