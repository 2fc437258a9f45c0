/* Finding special tokens that are written out in a text: an Aho-Corasick automaton over the reversed tokens, run from
 * the text's end to its start. At each position it then knows the longest token that begins there, in one step per byte
 * (amortised) whatever the tokens are; taking those greedily from the left gives leftmost, longest matches. */
#ifndef IE_SPECIAL_H
#define IE_SPECIAL_H

#include "../gguf.h"

typedef struct {
    uint32_t parent, fail;
    int32_t best[2]; /* longest token that is a suffix of this state's (reversed) string: any, user-defined; or -1 */
    uint32_t depth;
    uint8_t byte;
} ie_sp_node;

typedef struct {
    ie_sp_node *node; /* node 0 is the root */
    size_t n, cap;
    uint32_t root[256]; /* children of the root, 0 where there is none */
    /* Other children: open addressing over (parent, byte). */
    uint64_t key[2];
    uint32_t *slot; /* node, or 0 */
    size_t mask;
    bool has_user; /* any user-defined tokens */
} ie_special;

/* A match: text[pos .. pos + len) is token id. */
typedef struct {
    size_t pos;
    uint32_t len;
    int32_t id;
} ie_sp_match;

typedef struct {
    ie_sp_match *v;
    size_t n, cap;
} ie_sp_list;

/* Room for tokens with total_bytes in all. */
bool ie_special_init(ie_special *a, size_t total_bytes, ie_error *err);
bool ie_special_add(ie_special *a, ie_str text, int32_t id, bool user, ie_error *err);
bool ie_special_build(ie_special *a, ie_error *err); /* once, after the last token was added */
void ie_special_free(ie_special *a);

/* Appends a match for each position of s[begin .. end) where a token lies inside that range, by falling position.
 * user_only: user-defined tokens alone. texts: for the tokens' lengths. */
bool ie_special_scan(const ie_special *a, const ie_str *texts, const char *s, size_t begin, size_t end, bool user_only,
                     ie_sp_list *out, ie_error *err);

#endif
