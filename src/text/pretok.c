#include "pretok.h"

#include "utf8.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    ie_pre pre;
} PRES[] = {
    {"gpt-2", {IE_PRE_GPT2, false, false}},
    {"llama-bpe", {IE_PRE_LLAMA3, true, true}},
    {"llama3", {IE_PRE_LLAMA3, true, true}},
    {"llama-v3", {IE_PRE_LLAMA3, true, true}},
    {"smollm", {IE_PRE_DIGITS, false, false}},
    {"qwen2", {IE_PRE_QWEN2, false, false}},
    {"qwen35", {IE_PRE_QWEN35, false, false}},
    {"deepseek-r1-qwen", {IE_PRE_QWEN2, false, false}},
    {"default", {IE_PRE_DEFAULT, false, false}},
    /* The same rules under other names. */
    {"mpt", {IE_PRE_GPT2, false, false}},
    {"olmo", {IE_PRE_GPT2, false, false}},
    {"starcoder", {IE_PRE_DIGITS, false, false}},
    {"refact", {IE_PRE_DIGITS, false, false}},
    {"command-r", {IE_PRE_DIGITS, false, false}},
};

ie_status ie_pre_find(ie_str name, ie_pre *out, ie_error *err) {
    ie_buf names = {0};
    for (size_t i = 0; i < sizeof PRES / sizeof *PRES; i++) {
        if (strlen(PRES[i].name) == name.len && memcmp(PRES[i].name, name.s, (size_t)name.len) == 0) {
            *out = PRES[i].pre;
            ie_buf_free(&names);
            return IE_OK;
        }
        if (!ie_buf_printf(&names, err, "%s%s", i ? ", " : "", PRES[i].name)) return IE_E_NOMEM;
    }
    ie_fail(err, IE_E_UNSUPPORTED, "tokenizer.ggml.pre is \"%.*s\": supported are %s",
            (int)(name.len < 64 ? name.len : 64), name.s, names.data);
    ie_buf_free(&names);
    return IE_E_UNSUPPORTED;
}

/* ---- classes ------------------------------------------------------------------------------------------------------
 */

/* Group i is class i. White space is Unicode's White_Space property, not PCRE2's \s, which adds U+180E. The
 * alternatives without a group are of class "other"; they are there for speed, since PCRE2 steps over a run faster than
 * it searches. */
static const char CLASSES[] = "\\p{Cn}+|(\\p{L}+)|(\\p{N}+)|(\\p{M}+)|(\\p{P}+)|([\\x09-\\x0D\\x{85}\\p{Z}]+)"
                              "|\\p{S}+|\\p{Co}+|\\p{Cf}+";

/* Classes of the 65536 code points of a plane into cls, by scanning a text that holds all of them in order. */
static bool scan_plane(const pcre2_code *re, pcre2_match_data *md, uint32_t plane, uint8_t *cls, unsigned char *text) {
    size_t n = 0;
    for (uint32_t c = 0; c < 0x10000; c++) {
        uint32_t cp = plane << 16 | c;
        if (cp >= 0xD800 && cp < 0xE000) continue; /* surrogates are not characters: other */
        n += ie_utf8_put(cp, text + n);
    }
    size_t at = 0;
    for (;;) {
        int rc = pcre2_match(re, text, n, at, PCRE2_NO_UTF_CHECK, md, NULL);
        if (rc == PCRE2_ERROR_NOMATCH) return true;
        if (rc < 1) return false;
        const PCRE2_SIZE *ov = pcre2_get_ovector_pointer(md);
        for (size_t i = ov[0]; rc > 1 && i < ov[1];) {
            size_t len = ie_utf8_len(text + i, n - i);
            cls[ie_utf8_cp(text + i, len) & 0xFFFF] = (uint8_t)(rc - 1);
            i += len;
        }
        at = ov[1];
    }
}

/* Splits a plane's classes into blocks, storing each different one once (a search among few: equal ones follow
 * another). */
static bool add_blocks(ie_cctab *t, size_t *cap, uint32_t plane, const uint8_t *cls, ie_error *err) {
    for (uint32_t b = 0; b < 256; b++) {
        const uint8_t *blk = cls + 256 * (size_t)b;
        size_t i = t->n_blocks;
        while (i && memcmp(t->cls[i - 1], blk, 256) != 0) i--;
        if (i == 0) {
            if (!ie_grow(&t->cls, cap, t->n_blocks + 1, sizeof *t->cls, "character classes", err)) return false;
            memcpy(t->cls[t->n_blocks++], blk, 256);
            i = t->n_blocks;
        }
        t->block[plane << 8 | b] = (uint16_t)(i - 1);
    }
    return true;
}

bool ie_cctab_init(ie_cctab *t, ie_error *err) {
    *t = (ie_cctab){0};
    int code;
    PCRE2_SIZE where;
    pcre2_code *re =
        pcre2_compile((PCRE2_SPTR)CLASSES, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP, &code, &where, NULL);
    pcre2_match_data *md = re ? pcre2_match_data_create_from_pattern(re, NULL) : NULL;
    uint8_t *cls = ie_calloc(0x10000, 1, "character classes", err);
    unsigned char *text = ie_calloc(0x10000, 4, "character classes", err);
    bool ok = md && cls && text;
    size_t cap = 0;
    for (uint32_t plane = 0; ok && plane < 0x11; plane++) {
        memset(cls, IE_CC_OTHER, 0x10000);
        ok = scan_plane(re, md, plane, cls, text) && add_blocks(t, &cap, plane, cls, err);
    }
    if (!ok && cls && text) ie_fail(err, IE_E_NOMEM, "character classes: PCRE2 (with Unicode) gave no table");
    free(cls);
    free(text);
    pcre2_match_data_free(md);
    pcre2_code_free(re);
    if (!ok) ie_cctab_free(t);
    return ok;
}

void ie_cctab_free(ie_cctab *t) {
    free(t->cls);
    *t = (ie_cctab){0};
}

/* ---- scanners -----------------------------------------------------------------------------------------------------
 */

/* One character: its class, length in bytes and code point (for bytes that are not UTF-8: no class, 1, 0xFFFD).
 * At the end of the text: END, length 0. */
typedef struct {
    uint32_t cp;
    uint8_t cls, len;
} ch;
enum { END = 255 };

static inline ch get(const ie_pre_walk *w, size_t pos, size_t end) {
    if (pos >= end) return (ch){0, END, 0};
    unsigned char c = w->s[pos];
    if (c < 0x80) return (ch){c, w->tab->cls[w->tab->block[0]][c], 1};
    size_t len = ie_utf8_len(w->s + pos, end - pos);
    if (len == 0) return (ch){0xFFFD, IE_CC_OTHER, 1};
    uint32_t cp = ie_utf8_cp(w->s + pos, len);
    return (ch){cp, (uint8_t)ie_cctab_get(w->tab, cp), (uint8_t)len};
}

/* Sets of classes. */
enum {
    LETTERS = 1 << IE_CC_LETTER,
    NUMBERS = 1 << IE_CC_NUMBER,
    MARKS = 1 << IE_CC_MARK,
    SPACES = 1 << IE_CC_SPACE,
};
static inline bool in(ch c, unsigned set) { return c.cls != END && (set >> c.cls & 1); }
static inline bool is_nl(ch c) { return c.len == 1 && (c.cp == '\r' || c.cp == '\n'); }

/* End of the longest run of characters whose class is in the set, from pos on. */
static size_t run_of(const ie_pre_walk *w, size_t pos, size_t end, unsigned set) {
    for (ch c = get(w, pos, end); in(c, set); c = get(w, pos, end)) pos += c.len;
    return pos;
}

/* Bytes of an English contraction ('s 't 'm 'd 're 've 'll) at pos, 0 if there is none. any_case: as a regular
 * expression without regard to case sees it, where U+017F (long s) is an s. */
static size_t contraction(const ie_pre_walk *w, size_t pos, size_t end, bool any_case) {
    if (w->s[pos] != '\'' || end - pos < 2) return 0;
    unsigned fold = any_case ? 0x20 : 0;
    unsigned a = w->s[pos + 1] | fold;
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
    if (end - pos < 3) return 0;
    if (any_case && w->s[pos + 1] == 0xC5 && w->s[pos + 2] == 0xBF) return 3;
    unsigned b = w->s[pos + 2] | fold;
    return ((a == 'r' || a == 'v') && b == 'e') || (a == 'l' && b == 'l') ? 3 : 0;
}

/* White space at pos: \s+(?!\S)|\s+, that is, all of the run, but for its last character if something follows and more
 * than that one is there. newlines: \s*[\r\n]+ comes first. Returns pos if there is no white space. */
static size_t space_run(const ie_pre_walk *w, size_t pos, size_t end, bool newlines) {
    size_t p = pos, last = pos, after_nl = pos;
    ch c = get(w, p, end);
    for (; in(c, SPACES); c = get(w, p, end)) {
        last = p;
        p += c.len;
        if (is_nl(c)) after_nl = p;
    }
    if (newlines && after_nl > pos) return after_nl;
    return c.cls != END && last > pos ? last : p;
}

/* 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ */
static size_t gpt2_word(const ie_pre_walk *w, size_t pos, size_t end) {
    size_t n = contraction(w, pos, end, false);
    if (n) return pos + n;
    size_t p = pos + (w->s[pos] == ' ');
    ch c = get(w, p, end);
    if (in(c, LETTERS)) return run_of(w, p, end, LETTERS);
    if (in(c, NUMBERS)) return run_of(w, p, end, NUMBERS);
    if (in(c, ~(unsigned)(SPACES))) return run_of(w, p, end, ~(unsigned)(LETTERS | NUMBERS | SPACES));
    return space_run(w, pos, end, false);
}

/* (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,digits}|
 * ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+ where word is \p{L}, or for qwen35 [\p{L}\p{M}] in the second and
 * fourth alternative. */
static size_t llama3_word(const ie_pre_walk *w, size_t pos, size_t end, unsigned word, int digits) {
    size_t n = contraction(w, pos, end, true);
    if (n) return pos + n;
    ch c = get(w, pos, end);
    if (in(c, NUMBERS)) {
        for (int i = 0; i < digits && in(c, NUMBERS); i++, c = get(w, pos, end)) pos += c.len;
        return pos;
    }
    if (in(c, LETTERS)) return run_of(w, pos, end, word);
    if (!is_nl(c)) {
        /* One character of any kind before a word; backing off it leaves a word of marks alone (c itself is one). */
        if (in(get(w, pos + c.len, end), word)) return run_of(w, pos + c.len, end, word);
        if (in(c, word)) return pos + c.len;
    }
    size_t p = pos + (w->s[pos] == ' ');
    if (in(get(w, p, end), ~(word | NUMBERS | SPACES))) {
        p = run_of(w, p, end, ~(word | NUMBERS | SPACES));
        while (p < end && (w->s[p] == '\r' || w->s[p] == '\n')) p++;
        return p;
    }
    return space_run(w, pos, end, true);
}

/* The rule that isolates digits, then gpt-2 on the parts between (each as if it were a whole text). */
static size_t digits_word(ie_pre_walk *w) {
    if (w->pos >= w->seg_end) {
        ch c = get(w, w->pos, w->end);
        if (in(c, NUMBERS)) return w->seg_end = w->pos + c.len;
        w->seg_end = run_of(w, w->pos, w->end, ~(unsigned)NUMBERS);
    }
    return gpt2_word(w, w->pos, w->seg_end);
}

/* Characters of the first step of "default": [\p{P}$+<=>^~|] */
static bool is_mark(ch c) {
    return c.cls == IE_CC_PUNCT || (c.cls != END && c.cp < 0x80 && strchr("$+<=>^~|", (int)c.cp) && c.cp);
}

/* End of the next piece of a number that ends at `end`: ASCII digits in threes, what is between them in one piece. */
static size_t digit_piece(const ie_pre_walk *w, size_t pos, size_t end) {
    size_t run = 0, p = pos;
    while (p < end && run < 3) run = w->s[p] >= '0' && w->s[p] <= '9' ? run + 1 : 0, p++;
    if (run < 3) return end;
    return p - 3 > pos ? p - 3 : p;
}

/* llama.cpp's default, four steps: runs of punctuation, gpt-2 on the rest, numbers without the space before them, and
 * digits in threes. */
static size_t default_word(ie_pre_walk *w) {
    if (w->pos < w->num_end) return digit_piece(w, w->pos, w->num_end);
    if (w->pos >= w->seg_end) {
        size_t p = w->pos;
        ch c = get(w, p, w->end);
        bool mark = is_mark(c);
        for (; c.cls != END && is_mark(c) == mark; c = get(w, p, w->end)) p += c.len;
        w->seg_end = p;
        if (mark) return p;
    }
    size_t p = gpt2_word(w, w->pos, w->seg_end), first = w->pos + (w->s[w->pos] == ' ');
    if (!in(get(w, first, p), NUMBERS)) return p;
    w->num_end = p;
    return first > w->pos ? first : digit_piece(w, first, p);
}

bool ie_pre_next(ie_pre_walk *w, size_t *start) {
    if (w->pos >= w->end) return false;
    *start = w->pos;
    switch (w->kind) {
    case IE_PRE_GPT2: w->pos = gpt2_word(w, w->pos, w->end); break;
    case IE_PRE_DIGITS: w->pos = digits_word(w); break;
    case IE_PRE_LLAMA3: w->pos = llama3_word(w, w->pos, w->end, LETTERS, 3); break;
    case IE_PRE_QWEN2: w->pos = llama3_word(w, w->pos, w->end, LETTERS, 1); break;
    case IE_PRE_QWEN35: w->pos = llama3_word(w, w->pos, w->end, LETTERS | MARKS, 1); break;
    case IE_PRE_DEFAULT: w->pos = default_word(w); break;
    }
    return true;
}
