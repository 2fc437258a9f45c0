/* Pre-tokenizers: the rules that cut a text into words before byte-level BPE merges, each word on its own.
 *
 * Published tokenizers state these rules as regular expressions over Unicode classes, with look-ahead and alternatives
 * that a backtracking engine takes quadratic time for (a long run of spaces). Here each rule is a hand-written scanner
 * that looks at every character a bounded number of times; the classes of characters come from PCRE2. Bytes that are
 * not UTF-8 stand for one character each, of no class (as U+FFFD would). */
#ifndef IE_PRETOK_H
#define IE_PRETOK_H

#include "../gguf.h"

typedef enum {
    IE_PRE_GPT2,   /* gpt-2 */
    IE_PRE_DIGITS, /* smollm: gpt-2 between single digits */
    IE_PRE_LLAMA3, /* llama-bpe: digits in groups of up to three */
    IE_PRE_QWEN2,  /* qwen2, deepseek-r1-qwen: single digits */
    IE_PRE_QWEN35, /* like qwen2, with combining marks as parts of words */
    IE_PRE_DEFAULT /* what llama.cpp does for files that name none */
} ie_pre_kind;

typedef struct {
    ie_pre_kind kind;
    bool ignore_merges; /* a word that is a token is taken whole, whatever the merges say */
    bool add_bos;       /* default of add_bos_token */
} ie_pre;

/* Finds a pre-tokenizer by the name in tokenizer.ggml.pre; IE_E_UNSUPPORTED with the list of names. */
ie_status ie_pre_find(ie_str name, ie_pre *out, ie_error *err);

/* Classes of characters. Every code point is in exactly one. */
typedef enum { IE_CC_OTHER, IE_CC_LETTER, IE_CC_NUMBER, IE_CC_MARK, IE_CC_PUNCT, IE_CC_SPACE } ie_cclass;

/* Class of each code point in two stages: blocks of 256 code points, equal blocks stored once. */
typedef struct {
    uint16_t block[0x110000 >> 8];
    uint8_t (*cls)[256];
    size_t n_blocks;
} ie_cctab;

bool ie_cctab_init(ie_cctab *t, ie_error *err);
void ie_cctab_free(ie_cctab *t);
static inline ie_cclass ie_cctab_get(const ie_cctab *t, uint32_t cp) {
    return (ie_cclass)t->cls[t->block[cp >> 8]][cp & 0xFF];
}

/* A walk over the words of s[0 .. end). Start with {kind, tab, s, end}, the rest zero. */
typedef struct {
    ie_pre_kind kind;
    const ie_cctab *tab;
    const unsigned char *s;
    size_t end;
    size_t pos;     /* end of the last word = start of the next */
    size_t seg_end; /* the two-step rules: end of the part that the second step sees as a whole text */
    size_t num_end; /* IE_PRE_DEFAULT: end of the number being cut up */
} ie_pre_walk;

/* Finds the next word: s[start .. pos) on return, never empty; false at the end. */
bool ie_pre_next(ie_pre_walk *w, size_t *start);

#endif
