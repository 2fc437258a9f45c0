/* Constrained output, inside: from a grammar's text to masks over the vocabulary.
 *
 *     GBNF ──────── gbnf.c ───┐
 *                             ├→ gr_build (rules)  →  gr_net (byte automaton of each rule)  →  states, found lazily  →  masks
 *     JSON Schema ─ schema*.c ┘   grammar_build.c      grammar_net.c                           grammar_state.c          matcher.c
 *
 * A *rule* is a list of alternatives, an alternative a sequence of elements (bytes, a class of code points, a call of a rule, a
 * token). The *net* has a node for each place in an alternative; classes have become byte ranges, so that a token may end inside
 * a character. A *frame* is what comes after a call: the set of (node, frame) pairs to go on with. Calls of the same rule at the
 * same place share a frame, so the work for a byte is polynomial for any grammar, as in Earley's parser. A *state* is the set
 * of (node, frame) pairs that wait for a byte. Frames and states are interned: equal ones have the same number, and a state's
 * transitions and mask are computed once. */
#ifndef IE_GRAMMAR_H
#define IE_GRAMMAR_H

#include <pthread.h>

#include "../base.h"
#include "../text/tokenizer.h"

/* ---- building rules (grammar_build.c) ------------------------------------------------------------------------------- */

#define GR_MAX_TEXT (4u << 20)  /* bytes of a grammar or schema */
#define GR_MAX_PARTS (1u << 20) /* rules, alternatives, elements, bytes of literals, nodes: of each */
#define GR_NONE UINT32_MAX

typedef struct {
    uint32_t lo, hi; /* code points, inclusive */
} gr_range;

typedef enum { GR_LIT, GR_CLASS, GR_CALL, GR_TOKEN } gr_kind;

typedef struct {
    uint8_t kind;
    bool again;    /* GR_CALL: the body of a loop, which is not repeated where it matched nothing */
    uint32_t a, b; /* GR_LIT: offset, length; GR_CLASS: class; GR_CALL: rule; GR_TOKEN: id */
} gr_elem;

typedef struct {
    uint32_t elem, n, next; /* elements; the rule's next alternative or GR_NONE */
} gr_alt;

typedef struct {
    uint32_t name, name_len; /* in bytes; GR_NONE: made by an operator */
    uint32_t first, last;    /* alternatives */
    bool defined;
} gr_rule;

typedef struct {
    uint32_t first, n; /* ranges: sorted, disjoint, not adjacent */
} gr_class;

/* Rules under construction. The first failure is kept in *err; every function does nothing from then on. */
typedef struct {
    gr_rule *rule;
    gr_alt *alt;
    gr_elem *elem;
    gr_class *cls;
    gr_range *range;
    char *bytes;
    size_t n_rule, n_alt, n_elem, n_cls, n_range, n_bytes;
    size_t cap_rule, cap_alt, cap_elem, cap_cls, cap_range, cap_bytes;
    ie_error *err;
    bool failed;
} gr_build;

void gr_build_free(gr_build *b);
void gr_fail(gr_build *b, ie_status code, const char *fmt, ...) IE_PRINTF(3, 4);
uint32_t gr_rule_new(gr_build *b, const char *name, size_t len); /* name may be NULL */
void gr_alt_add(gr_build *b, uint32_t rule, const gr_elem *e, size_t n); /* one more alternative; defines the rule */
gr_elem gr_lit(gr_build *b, const char *s, size_t n);
gr_elem gr_class_of(gr_build *b, gr_range *r, size_t n, bool negated); /* sorts r; surrogates never belong to a class */
gr_elem gr_call(uint32_t rule);
gr_elem gr_token(int32_t id);
gr_elem gr_any_of(gr_build *b, const gr_elem *e, size_t n); /* a rule with n alternatives of one element each */
gr_elem gr_seq(gr_build *b, const gr_elem *e, size_t n);    /* a rule with one alternative */
#define GR_FOREVER UINT64_MAX
gr_elem gr_repeat(gr_build *b, gr_elem e, uint64_t min, uint64_t max); /* max: GR_FOREVER = no limit. O(log max) rules */

/* ---- the vocabulary (grammar_vocab.c) -------------------------------------------------------------------------------- */

/* The bytes of all tokens as a tree in preorder. A node's subtree is [i + 1, skip); its tokens are ids[tok .. next node's tok). */
typedef struct {
    uint32_t skip, tok;
    uint16_t depth; /* bytes from the root; the root itself is not a node */
    uint8_t byte;
} gr_vnode;

#define GR_MAX_TOKEN 1024 /* bytes; a longer token is never allowed */

typedef struct gr_vocab {
    int32_t n;              /* tokens of a mask */
    size_t words;           /* of a mask */
    gr_vnode *node;         /* n_node + 1: the last one closes ids */
    uint32_t n_node, root[256]; /* first-byte nodes, GR_NONE where there is none */
    int32_t *ids;
    ie_str *text;           /* bytes of each of the n tokens, into bytes; empty: never allowed */
    char *bytes;
    int32_t *end;           /* n_end tokens that end a text */
    int32_t n_end;
    uint32_t longest;       /* bytes of the longest token */
    bool single[256];       /* a token of just this byte exists */
    bool drop_space;        /* the first token of a text loses a leading space */
    const ie_tokenizer *tok; /* for names of tokens; may be NULL */
} gr_vocab;

/* text[i]: the bytes of token i, empty where it can never be generated; n of them, n_mask >= n. Copies what it needs. */
gr_vocab *gr_vocab_new(const ie_str *text, int32_t n, int32_t n_mask, const int32_t *end, int32_t n_end, bool drop_space,
                       const ie_tokenizer *tok, ie_error *err);
/* Of a tokenizer, which must outlive it. */
gr_vocab *gr_vocab_of(const ie_tokenizer *tok, int32_t n_mask, ie_error *err);
void gr_vocab_free(gr_vocab *v);

/* ---- the net (grammar_net.c) ------------------------------------------------------------------------------------------ */

typedef enum { GR_N_END, GR_N_BYTES, GR_N_CALL, GR_N_TOKEN } gr_node_kind;

typedef struct {
    uint8_t kind;
    bool again;
    uint32_t a, b; /* BYTES: first edge, edges; CALL: rule, node to return to; TOKEN: id, next node */
} gr_node;

typedef struct {
    uint8_t lo, hi;
    uint32_t to;
} gr_edge;

#define GR_END 0u                /* the node behind every alternative */
#define GR_FAR (UINT64_C(1) << 60) /* a distance that is never covered */
#define GR_NO_SINGLE (UINT64_C(1) << 20) /* added for a byte that has no token of its own */

/* Distances count bytes to the end of the rule along the shortest way. */
typedef struct {
    gr_node *node;
    gr_edge *edge;
    uint32_t *start, *start_at; /* starting nodes of rule r: start[start_at[r] .. start_at[r + 1]) */
    uint64_t *dist, *rule_dist; /* of nodes, of rules; rule_dist 0: the rule may match nothing */
    uint32_t *best, *rule_best; /* edge of a BYTES node, starting node of a rule on the shortest way */
    uint32_t *rank;             /* of rules: a rule called at the very start of another has the larger rank */
    uint32_t n_node, n_edge, n_rule, root;
    size_t cap_node, cap_edge;
} gr_net;

/* Refuses left recursion, undefined rules, a root that can never end. */
ie_status gr_net_make(const gr_build *b, uint32_t root, const gr_vocab *v, gr_net *net, ie_error *err);
void gr_net_free(gr_net *net);

/* ---- sources of rules --------------------------------------------------------------------------------------------------- */

/* Both give the root rule, or set b->failed. */
uint32_t gr_gbnf(gr_build *b, const char *text, size_t len, const gr_vocab *v);
uint32_t gr_schema(gr_build *b, const char *text, size_t len); /* text NULL: any JSON object */

/* ---- states (grammar_state.c) -------------------------------------------------------------------------------------------- */

typedef struct {
    uint32_t node, frame;
} gr_item;

typedef struct {
    uint32_t first, n; /* pairs: where to go on behind the call */
    uint64_t dist;     /* bytes to the end of the text, behind the call */
    uint32_t best;     /* the pair on that way */
} gr_frame;

typedef struct {
    uint32_t first, n; /* items */
    uint32_t row;      /* transitions, GR_NONE until one is asked for */
    int32_t mask;      /* slot of its mask, -1 */
    uint32_t tokens;   /* of the shortest completion, GR_NONE: not known yet */
    bool accept;       /* the text may end here */
    bool start;        /* nothing generated yet, and a leading space would be dropped */
    uint64_t dist;     /* bytes to the end of the text */
} gr_state;

#define GR_WORK UINT64_C(20000000) /* elementary steps of one call: well below a second */

enum { GR_DEAD, GR_DONE, GR_FIRST }; /* no way on; an end token was accepted; the first real state */

typedef struct {
    uint64_t *bits;
    uint64_t used;    /* when, in calls */
    uint64_t far;     /* the largest distance left after an allowed token */
    uint32_t state;   /* GR_NONE: free */
} gr_mask;

/* A place of a shortest completion: tokens from here on, the first of them and its length. */
typedef struct {
    uint32_t cost, token, len;
} gr_piece;

/* Scratch of one step. */
typedef struct {
    uint64_t *seen;      /* hash set of items; slots of an older generation are free */
    uint32_t *seen_gen, gen, n_seen, seen_mask;
    gr_item *todo, *out;
    struct gr_called {
        uint32_t rank, rule, node, frame;
    } *heap;
    size_t n_todo, cap_todo, n_out, cap_out, n_heap, cap_heap;
    bool accept;
} gr_work;

struct ie_grammar {
    pthread_mutex_t lock; /* guards everything below but net and vocab */
    int refs;
    gr_net net;
    const gr_vocab *vocab;
    ie_matcher *matchers; /* list: their states stay when the cache is emptied */
    uint8_t byte_class[256];
    uint32_t n_class;
    gr_frame *frame;
    gr_item *pair;
    gr_state *state;
    gr_item *item;
    uint32_t *row; /* n_class numbers a row; GR_NONE: not known yet */
    size_t n_frame, n_pair, n_state, n_item, n_row, cap_frame, cap_pair, cap_state, cap_item, cap_row;
    uint32_t *frame_hash, *state_hash; /* numbers + 1, open addressing */
    size_t frame_slots, state_slots;
    uint32_t first; /* state */
    gr_mask *mask;
    uint32_t n_mask;
    uint64_t clock, work_left;
    gr_work work;
    uint32_t *path; /* a shortest completion: bytes, or 256 + token */
    gr_piece *piece; /* n_path + 1 */
    size_t n_path, cap_path, cap_piece;
    ie_error err; /* of the step that failed */
};

ie_grammar *gr_new(gr_build *b, uint32_t root, const gr_vocab *v, ie_error *err); /* takes nothing over */
void gr_delete(ie_grammar *g);
/* The state after one more byte (GR_DEAD: none); GR_NONE on failure, with g->err. */
uint32_t gr_step(ie_grammar *g, uint32_t state, uint8_t byte);
uint32_t gr_step_token(ie_grammar *g, uint32_t state, int32_t token); /* by an element that names the token */
/* Tokens of the shortest completion from a state; INT32_MAX where it is out of reach. */
uint32_t gr_tokens(ie_grammar *g, uint32_t state);
uint32_t gr_plan(ie_grammar *g, uint32_t state); /* the same, and the completion itself in path and piece */
size_t gr_bytes(const ie_grammar *g); /* memory of states and frames */
/* Keeps only the states listed (and their frames); renumbers them in place. False: no memory, nothing changed. */
bool gr_keep(ie_grammar *g, uint32_t **roots, size_t n, ie_error *err);

/* Of any source, for callers without a model (tests). */
ie_grammar *gr_compile(ie_grammar_kind kind, const char *text, size_t len, const gr_vocab *v, ie_error *err);
ie_grammar *gr_compose(const char *gbnf, size_t len, const ie_grammar_part *part, size_t n, const gr_vocab *v, ie_error *err);

#endif
