/* What both kinds of tokenizers read from a file: the tokens' texts and types, and which ids are special. */
#include "tok_int.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_VOCAB = 1 << 24 };

static ie_status read_texts(ie_tokenizer *t, const ie_gguf *g, ie_error *err) {
    const ie_gguf_value *v, *merges = NULL;
    ie_status st = ie_gguf_array(g, "tokenizer.ggml.tokens", GGUF_STRING, &v, err);
    if (st == IE_OK && !t->spm) st = ie_gguf_array(g, "tokenizer.ggml.merges", GGUF_STRING, &merges, err);
    if (st != IE_OK) return st;
    if (!v || v->n == 0 || v->n > MAX_VOCAB)
        return ie_fail(err, IE_E_FORMAT, "tokenizer.ggml.tokens has %llu elements: 1 to %d are allowed",
                       (unsigned long long)(v ? v->n : 0), MAX_VOCAB);
    if (merges && merges->n > MAX_VOCAB)
        return ie_fail(err, IE_E_FORMAT, "tokenizer.ggml.merges has %llu elements: at most %d are allowed",
                       (unsigned long long)merges->n, MAX_VOCAB);
    t->n_vocab = t->n_sym = (int32_t)v->n;
    /* Byte-level BPE adds a symbol for each byte and merge that is no token. */
    size_t room = (size_t)v->n + (merges ? (size_t)merges->n + 256 : 0), bytes = 0;
    const ie_str *src = v->data;
    for (uint64_t i = 0; i < v->n; i++) {
        if (src[i].len > INT32_MAX)
            return ie_fail(err, IE_E_FORMAT, "tokenizer.ggml.tokens[%llu] has %llu bytes: at most 2^31 - 1 are allowed",
                           (unsigned long long)i, (unsigned long long)src[i].len);
        bytes += (size_t)src[i].len;
        if (src[i].len > t->max_len) t->max_len = (size_t)src[i].len;
    }
    t->text = ie_calloc(room, sizeof *t->text, "vocabulary", err);
    t->pool = t->text ? ie_calloc(bytes + (size_t)v->n, 1, "vocabulary", err) : NULL;
    if (!t->pool || !ie_strmap_init(&t->map, room, err)) return IE_E_NOMEM;
    char *p = t->pool;
    for (uint32_t i = 0; i < v->n; i++) {
        size_t len = (size_t)src[i].len;
        if (len) memcpy(p, src[i].s, len);
        t->text[i] = (ie_str){p, len};
        p += len + 1; /* NUL-terminated: templates take bos and eos as C strings */
        if (len) ie_strmap_put(&t->map, t->text, i);
    }
    return IE_OK;
}

static ie_status read_types(ie_tokenizer *t, const ie_gguf *g, ie_error *err) {
    const ie_gguf_value *v;
    ie_status st = ie_gguf_array(g, "tokenizer.ggml.token_type", GGUF_I32, &v, err);
    if (st != IE_OK) return st;
    if (v && v->n < (uint64_t)t->n_vocab)
        return ie_fail(err, IE_E_FORMAT, "tokenizer.ggml.token_type has %llu elements: there are %d tokens",
                       (unsigned long long)v->n, t->n_vocab);
    t->type = ie_calloc((size_t)t->n_vocab, 1, "token types", err);
    t->flag = t->type ? ie_calloc((size_t)t->n_vocab, 1, "token types", err) : NULL;
    if (!t->flag) return IE_E_NOMEM;
    const int32_t *type = v ? v->data : NULL;
    for (int32_t i = 0; i < t->n_vocab; i++) {
        int32_t k = type ? type[i] : IE_TT_NORMAL;
        if (k < 0 || k > IE_TT_BYTE)
            return ie_fail(err, IE_E_FORMAT, "tokenizer.ggml.token_type[%d] is %d: 0 to %d are allowed", i, k,
                           IE_TT_BYTE);
        t->type[i] = (uint8_t)(k ? k : IE_TT_NORMAL);
        if (t->type[i] == IE_TT_NORMAL || t->type[i] == IE_TT_USER_DEFINED) t->flag[i] |= TOK_ENCODE;
    }
    return IE_OK;
}

ie_status ie_vocab_init(ie_tokenizer *t, const ie_gguf *g, ie_error *err) {
    ie_status st = read_texts(t, g, err);
    return st == IE_OK ? read_types(t, g, err) : st;
}

/* ---- special tokens -----------------------------------------------------------------------------------------------
 */

/* Texts that published vocabularies use for tokens with a role. Files do not always say the role, nor that the token is
 * a control token. The first end-of-turn text of the list that a vocabulary has is its eot. */
enum { EOT = 1, END = 2, CONTROL = 4, FIM = 8 /* << ie_fim: its role in filling in */ };
#define FIM_PRE (FIM << IE_FIM_PRE)
#define FIM_SUF (FIM << IE_FIM_SUF)
#define FIM_MID (FIM << IE_FIM_MID)
#define FIM_REP (FIM << IE_FIM_REP)
#define FIM_SEP (FIM << IE_FIM_SEP)
static const struct {
    const char *text;
    int role;
} KNOWN[] = {
    {"<|eot_id|>", EOT | END},
    {"<|im_end|>", EOT | END},
    {"<|end|>", EOT | END},
    {"<end_of_turn>", EOT | END},
    {"<end_of_utterance>", EOT | END},
    {"<EOT>", EOT | END},
    {"_<EOT>", EOT | END},
    {"[EOT]", EOT | END},
    {"<|end_of_text|>", EOT | END},
    {"<|endoftext|>", EOT | END},
    {"<\xEF\xBD\x9C"
     "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>",
     EOT | END},
    {"<|eom_id|>", END},
    {"</s>", END},
    {"<eos>", END},
    {"[EOS]", END},
    /* Fill-in-the-middle: padding and the marks between files end a text too. */
    {"<|fim_pad|>", END},
    {"<fim-pad>", END},
    {"<fim_pad>", END},
    {"<PAD>", END},
    {"[PAD]", END},
    {"<|fim_repo|>", END | FIM_REP},
    {"<|repo_name|>", END | FIM_REP},
    {"<fim-repo>", END | FIM_REP},
    {"<REPO>", END | FIM_REP},
    {"<reponame>", END | FIM_REP},
    {"<|file_sep|>", END | FIM_SEP},
    {"<|fim_prefix|>", CONTROL | FIM_PRE},
    {"<fim-prefix>", CONTROL | FIM_PRE},
    {"<fim_prefix>", CONTROL | FIM_PRE},
    {"<PRE>", CONTROL | FIM_PRE},
    {"\xE2\x96\x81<PRE>", CONTROL | FIM_PRE},
    {"<|fim_suffix|>", CONTROL | FIM_SUF},
    {"<fim-suffix>", CONTROL | FIM_SUF},
    {"<fim_suffix>", CONTROL | FIM_SUF},
    {"<SUF>", CONTROL | FIM_SUF},
    {"\xE2\x96\x81<SUF>", CONTROL | FIM_SUF},
    {"<|fim_middle|>", CONTROL | FIM_MID},
    {"<fim-middle>", CONTROL | FIM_MID},
    {"<fim_middle>", CONTROL | FIM_MID},
    {"<MID>", CONTROL | FIM_MID},
    {"\xE2\x96\x81<MID>", CONTROL | FIM_MID},
};

static void set_type(ie_tokenizer *t, int32_t id, ie_token_type type) {
    t->type[id] = (uint8_t)type;
    t->flag[id] &= (uint8_t)~TOK_ENCODE;
}

static void find_known(ie_tokenizer *t) {
    for (size_t i = 0; i < sizeof KNOWN / sizeof *KNOWN; i++) {
        int32_t id = ie_tokenizer_find(t, KNOWN[i].text, strlen(KNOWN[i].text));
        /* A text that merges make and the file calls normal is what it looks like: "</s>" of web pages, say. */
        if (id < 0 || (t->type[id] == IE_TT_NORMAL && (t->flag[id] & TOK_MERGED))) continue;
        set_type(t, id, IE_TT_CONTROL);
        if (KNOWN[i].role & END) t->flag[id] |= TOK_END;
        if ((KNOWN[i].role & EOT) && t->eot < 0) t->eot = id;
        for (int k = 0; k < IE_FIM_COUNT; k++)
            if ((KNOWN[i].role & (FIM << k)) && t->fim[k] < 0) t->fim[k] = id;
    }
}

/* Reads an id; -1 if the key is absent or says "none" (2^32 - 1). */
static ie_status read_id(const ie_tokenizer *t, const ie_gguf *g, const char *key, int32_t dflt, int32_t *out,
                         ie_error *err) {
    const ie_gguf_value *v = ie_gguf_find(g, key);
    uint32_t id;
    *out = dflt < t->n_vocab ? dflt : -1;
    if (!v) return IE_OK;
    if (v->type == GGUF_I32 && *(const int32_t *)v->data == -1) return *out = -1, IE_OK;
    ie_status st = ie_gguf_u32(g, key, 0, UINT32_MAX, UINT32_MAX, &id, err);
    if (st != IE_OK) return st;
    if (id == UINT32_MAX) return *out = -1, IE_OK;
    if (id >= (uint32_t)t->n_vocab)
        return ie_fail(err, IE_E_FORMAT, "%s is %u: the vocabulary has %d tokens", key, id, t->n_vocab);
    *out = (int32_t)id;
    return IE_OK;
}

static ie_status read_ids(ie_tokenizer *t, const ie_gguf *g, ie_error *err) {
    static const char *const ENDS[] = {"tokenizer.ggml.eom_token_id", "tokenizer.ggml.fim_pad_token_id",
                                       "tokenizer.ggml.fim_rep_token_id", "tokenizer.ggml.fim_sep_token_id"};
    static const struct {
        int role;
        const char *key;
    } FIMS[] = {{IE_FIM_PRE, "tokenizer.ggml.prefix_token_id"},  {IE_FIM_SUF, "tokenizer.ggml.suffix_token_id"}, /* older names */
                {IE_FIM_MID, "tokenizer.ggml.middle_token_id"},  {IE_FIM_PRE, "tokenizer.ggml.fim_pre_token_id"},
                {IE_FIM_SUF, "tokenizer.ggml.fim_suf_token_id"}, {IE_FIM_MID, "tokenizer.ggml.fim_mid_token_id"},
                {IE_FIM_REP, "tokenizer.ggml.fim_rep_token_id"}, {IE_FIM_SEP, "tokenizer.ggml.fim_sep_token_id"}};
    ie_status st = read_id(t, g, "tokenizer.ggml.bos_token_id", t->spm ? 1 : -1, &t->bos, err);
    if (st == IE_OK) st = read_id(t, g, "tokenizer.ggml.eos_token_id", t->spm ? 2 : -1, &t->eos, err);
    if (st == IE_OK) st = read_id(t, g, "tokenizer.ggml.eot_token_id", -1, &t->eot, err);
    if (st == IE_OK) st = read_id(t, g, "tokenizer.ggml.unknown_token_id", t->spm ? 0 : -1, &t->unk, err);
    for (size_t i = 0; st == IE_OK && i < sizeof ENDS / sizeof *ENDS; i++) {
        int32_t id;
        st = read_id(t, g, ENDS[i], -1, &id, err);
        if (st == IE_OK && id >= 0) t->flag[id] |= TOK_END;
    }
    for (size_t i = 0; st == IE_OK && i < sizeof FIMS / sizeof *FIMS; i++)
        st = read_id(t, g, FIMS[i].key, t->fim[FIMS[i].role], &t->fim[FIMS[i].role], err);
    if (st != IE_OK) return st;
    find_known(t);
    if (t->eos >= 0) t->flag[t->eos] |= TOK_END;
    if (t->eot >= 0) t->flag[t->eot] |= TOK_END;
    return IE_OK;
}

static ie_status read_flags(ie_tokenizer *t, const ie_gguf *g, ie_error *err) {
    bool dflt_bos = (t->spm || t->pre.add_bos) && t->bos >= 0;
    ie_status st = ie_gguf_bool(g, "tokenizer.ggml.add_bos_token", dflt_bos, &t->add_bos, err);
    if (st == IE_OK) st = ie_gguf_bool(g, "tokenizer.ggml.add_eos_token", false, &t->add_eos, err);
    if (st == IE_OK) st = ie_gguf_bool(g, "tokenizer.ggml.add_space_prefix", true, &t->add_space_prefix, err);
    if (st == IE_OK) st = ie_gguf_bool(g, "tokenizer.ggml.remove_extra_whitespaces", false, &t->remove_extra_ws, err);
    if (st != IE_OK) return st;
    if (t->add_bos && t->bos < 0)
        return ie_fail(err, IE_E_FORMAT,
                       "tokenizer.ggml.add_bos_token is true: tokenizer.ggml.bos_token_id is missing");
    if (t->add_eos && t->eos < 0)
        return ie_fail(err, IE_E_FORMAT,
                       "tokenizer.ggml.add_eos_token is true: tokenizer.ggml.eos_token_id is missing");
    return IE_OK;
}

static bool has_word(ie_str s, const char *word) {
    size_t n = strlen(word);
    for (size_t i = 0; i + n <= s.len; i++) {
        size_t k = 0;
        while (k < n && (s.s[i + k] >= 'A' && s.s[i + k] <= 'Z' ? s.s[i + k] + 32 : s.s[i + k]) == word[k]) k++;
        if (k == n) return true;
    }
    return false;
}

static bool is_special(const ie_tokenizer *t, int32_t id) {
    return t->type[id] == IE_TT_CONTROL || t->type[id] == IE_TT_UNKNOWN || t->type[id] == IE_TT_USER_DEFINED;
}

/* Phi-3's special tokens swallow the white space after them. Files do not say so; llama.cpp goes by the name too. */
static ie_status phi3_attributes(ie_tokenizer *t, const ie_gguf *g, ie_error *err) {
    static const char *const KEEP[] = {"<unk>", "<s>", "<|endoftext|>"};
    ie_str name;
    ie_status st = ie_gguf_str(g, "general.name", "", &name, err);
    if (st != IE_OK) return st;
    if (!has_word(name, "phi-3") && !has_word(name, "phi3")) return IE_OK;
    for (int32_t i = 0; i < t->n_vocab; i++)
        if (is_special(t, i)) t->flag[i] |= TOK_RSTRIP;
    for (size_t i = 0; i < sizeof KEEP / sizeof *KEEP; i++) {
        int32_t id = ie_tokenizer_find(t, KEEP[i], strlen(KEEP[i]));
        if (id >= 0) t->flag[id] &= (uint8_t)~TOK_RSTRIP;
    }
    return IE_OK;
}

ie_status ie_vocab_special(ie_tokenizer *t, const ie_gguf *g, ie_error *err) {
    ie_status st = read_ids(t, g, err);
    if (st == IE_OK) st = read_flags(t, g, err);
    if (st == IE_OK) st = phi3_attributes(t, g, err);
    if (st != IE_OK) return st;
    size_t bytes = 0;
    for (int32_t i = 0; i < t->n_vocab; i++)
        if (is_special(t, i)) bytes += (size_t)t->text[i].len;
    if (!ie_special_init(&t->special, bytes, err)) return err->code;
    for (int32_t i = 0; i < t->n_vocab; i++)
        if (is_special(t, i) && !ie_special_add(&t->special, t->text[i], i, t->type[i] == IE_TT_USER_DEFINED, err))
            return err->code;
    return ie_special_build(&t->special, err) ? IE_OK : err->code;
}
