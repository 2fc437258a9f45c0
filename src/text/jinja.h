/* Internals of the chat-template engine: values, nodes, and the functions that the parts offer one another.
 *
 * All memory of a template (nodes) or of one rendering (values) comes from that template's or rendering's arena and is
 * freed in one go; nothing is freed or changed in place before, so values may share bytes and items freely. Values are
 * immutable once built, as in jinja2's immutable sandbox; namespaces, loops and generators are the exceptions.
 *
 * Errors: j_fail() fills the ie_error and jumps back to the entry point (ie_template_new or ie_template_render), which
 * frees the arena. Hence functions here return plain results, and own nothing outside the arena while they call others.
 */
#ifndef IE_JINJA_H
#define IE_JINJA_H

#include <jansson.h>
#include <locale.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "../base.h"
#include "template.h"

/* Limits: an error beyond them, never a crash. Steps are charged for each node evaluated, each item visited, and every
 * 256 bytes or 16 items copied, so they bound the time as well. */
enum {
    J_MAX_STEPS = 10 * 1000 * 1000,
    J_MAX_SOURCE = 1 << 20,  /* bytes of a template */
    J_MAX_OUTPUT = 64 << 20, /* bytes of a rendering, and of any one string */
    J_MAX_ARENA = 256 << 20, /* bytes of a template's nodes, or of a rendering's values */
    J_MAX_NEST = 200,        /* nesting of source, of values and of macro calls */
    J_MAX_EVAL = 2000,       /* recursion of the evaluator (bounds the C stack: about 1 MB) */
};

typedef struct jx jx;
typedef struct jnode jnode;

/* ---- strings ------------------------------------------------------------------------------------------------------
 */

/* A growing buffer. mark has one byte for each byte of data (1 = the template's own text), or is NULL while all bytes
 * have the mark `trust`. Strings may point into a buffer: bytes below `used` never change. */
typedef struct jbuf {
    char *data;
    uint8_t *mark;
    size_t used, cap;
    bool trust;
    bool private_; /* no string points into it yet: growing may free the old bytes */
} jbuf;

/* UTF-8, always well-formed. A string that ends where its buffer ends can be extended in place (j_concat), which makes
 * `s = s + part` in a loop linear. */
typedef struct jstr {
    const char *s;
    const uint8_t *mark; /* NULL: all bytes have the mark `trust` */
    jbuf *buf;           /* the buffer that s points into, or NULL */
    size_t len;          /* bytes */
    size_t ncp;          /* code points; SIZE_MAX = not counted yet */
    uint32_t hash;
    bool hashed, trust;
} jstr;

/* ---- values -------------------------------------------------------------------------------------------------------
 */

typedef enum {
    J_UNDEF,
    J_NONE,
    J_BOOL,
    J_INT,
    J_FLOAT,
    J_STR,
    J_SEQ,
    J_DICT,
    J_NS,
    J_FUNC,
    J_METHOD,
    J_MACRO,
    J_LOOP,
    J_CYCLER,
    J_JOINER,
    J_MISSING /* an argument that was not given; never visible to a template */
} jtype;

typedef enum { J_LIST, J_TUPLE, J_GENERATOR, J_RANGE, J_KEYS, J_VALUES, J_ITEMS, J_GROUP } jseq_kind;

typedef struct jseq jseq;
typedef struct jdict jdict;
typedef struct jundef jundef;
typedef struct jmethod jmethod;
typedef struct jmacro jmacro;
typedef struct jloop jloop;
typedef struct jbuiltin jbuiltin;

typedef struct {
    uint8_t type;   /* jtype */
    uint8_t markup; /* J_STR: result of |safe or |escape: `+` escapes what is added to it */
    union {
        bool b;
        int64_t i;
        double f;
        jstr *s;
        jseq *q;
        jdict *d; /* J_DICT, J_NS */
        jundef *u;
        const jbuiltin *fn;
        jmethod *me;
        jmacro *ma;
        jloop *lo; /* J_LOOP */
    };
} jv;

struct jseq { /* also cyclers: pos is the position */
    uint8_t kind;
    jv *v;
    size_t n, pos;             /* generators: v[0 .. pos) is consumed */
    int64_t start, stop, step; /* ranges, for their repr */
};

typedef struct {
    jv key, val;
    uint32_t hash;
} jent;

struct jdict { /* insertion-ordered; index is an open-addressing table of entry numbers + 1, made beyond 8 entries */
    jent *e;
    size_t n, cap;
    uint32_t *index;
    size_t icap;
};

struct jundef { /* hint, or the name that was looked up in an object of kind `of` (NULL: a variable) */
    const char *hint, *of;
    const jstr *name;
};

struct jmethod {
    jv self;
    const jbuiltin *fn;
};

typedef struct jvar {
    const jstr *name; /* interned: compared by address */
    jv val;
} jvar;

typedef struct jscope {
    struct jscope *up;
    jvar *var;
    size_t n, cap;
} jscope;

struct jmacro {
    const jnode *node; /* N_MACRO, or N_CALLBLOCK for a caller */
    jscope *scope;     /* where it was defined */
    const jstr *name;
};

typedef struct {
    jv *pos;
    size_t npos;
    const jstr **kwname;
    jv *kw;
    size_t nkw;
} jargs;

/* A builtin function, filter, test or method. params: names of the parameters, separated by spaces, of which the first
 * `need` are required; a name that starts with '/' cannot be given by keyword. The function gets them in order in a,
 * J_MISSING for absent ones. With params = NULL it gets no a, only raw. */
typedef jv (*jfn)(jx *x, jv self, const jv *a, const jargs *raw);
struct jbuiltin {
    const char *name;
    jfn fn;
    const char *params;
    unsigned need;
};
enum { J_MAX_PARAMS = 8 };

/* ---- nodes --------------------------------------------------------------------------------------------------------
 */

typedef enum {
    /* expressions */
    N_CONST,
    N_NAME,
    N_LIST,
    N_TUPLE,
    N_DICT,
    N_ATTR,
    N_ITEM,
    N_SLICE,
    N_CALL,
    N_FILTER,
    N_TEST,
    N_NOT,
    N_NEG,
    N_POS,
    N_AND,
    N_OR,
    N_MATH,
    N_CONCAT,
    N_COMPARE,
    N_COND,
    N_NSREF,
    N_ARG,
    /* statements */
    N_DATA,
    N_OUT,
    N_IF,
    N_BRANCH,
    N_FOR,
    N_SET,
    N_SETBLOCK,
    N_MACRO,
    N_CALLBLOCK,
    N_FILTERBLOCK,
    N_WITH,
    N_BREAK,
    N_CONTINUE,
    N_GENERATION,
    N_SCOPE
} jkind;

enum { J_ARG_POS, J_ARG_KW, J_ARG_STAR, J_ARG_STARSTAR };
enum { J_USES_CALLER = 1, J_USES_VARARGS = 2, J_USES_KWARGS = 4 }; /* flags of macros */

struct jnode { /* which members a kind uses is said where the parser makes it */
    uint8_t kind, op, flags;
    int line;
    jnode *a, *b, *c;
    jnode *list, *list2; /* chains by next: items, arguments, bodies */
    jnode *next;
    const jstr *name;
    const jbuiltin *fn; /* N_FILTER, N_TEST; NULL: unknown, an error once evaluated */
    jv val;
};

/* ---- context ------------------------------------------------------------------------------------------------------
 */

typedef struct jblock jblock;

typedef struct { /* interned names that the engine itself defines */
    const jstr *loop, *caller, *kwargs, *varargs;
} jspecial;

struct jx { /* of one parse or one rendering */
    jblock *blocks;
    char *cur, *end; /* free part of the current block */
    size_t total;    /* bytes allocated */
    ie_error *err;
    ie_status status;
    jmp_buf jmp;
    uint64_t steps, closures; /* charged so far; macros made so far */
    int eval_depth, macro_depth, line;
    /* rendering only */
    const ie_template_env *env;
    jdict *vars; /* the context: the caller's variables */
    jscope *scope;
    jbuf *out;
    jspecial names;
    void *regex[4]; /* pcre2_code, made when needed; freed by j_release */
};

/* ---- jinja_mem.c: arena, errors, buffers --------------------------------------------------------------------------
 */

_Noreturn void j_fail(jx *x, ie_status st, const char *fmt, ...) IE_PRINTF(3, 4); /* message as it is */
_Noreturn void j_error(jx *x, const char *fmt, ...) IE_PRINTF(2, 3);              /* with the current line */
void j_release(jx *x);                                                            /* frees all */
void *j_alloc(jx *x, size_t n);                                                   /* zeroed */
void *j_bytes(jx *x, size_t n);                                                   /* not zeroed */
void j_charge_slow(jx *x);
static inline void j_charge(jx *x, uint64_t n) {
    x->steps += n;
    if (x->steps > J_MAX_STEPS) j_charge_slow(x);
}
#define J_NEW(x, T) ((T *)j_alloc(x, sizeof(T)))
#define J_ARRAY(x, T, n) ((T *)j_array(x, n, sizeof(T)))
void *j_array(jx *x, size_t n, size_t size);

jbuf *j_buf(jx *x);
void j_buf_add(jx *x, jbuf *b, const char *s, const uint8_t *mark, size_t n, bool trust);
void j_buf_str(jx *x, jbuf *b, const jstr *s);
void j_buf_lit(jx *x, jbuf *b, const char *s); /* untrusted, NUL-terminated */
void j_buf_printf(jx *x, jbuf *b, const char *fmt, ...) IE_PRINTF(3, 4);
void j_buf_fill(jx *x, jbuf *b, const jstr *s, int64_t times); /* s repeated */
jstr *j_buf_done(jx *x, jbuf *b);

/* ---- jinja_str.c: strings and code points -------------------------------------------------------------------------
 */

jstr *j_str(jx *x, const char *s, size_t len, bool trust); /* does not copy */
jstr *j_lit(jx *x, const char *s);                         /* untrusted; s must outlive the arena */
jstr *j_sub(jx *x, const jstr *s, size_t off, size_t len); /* bytes; shares them */
jstr *j_concat(jx *x, const jstr *a, const jstr *b);
size_t j_ncp(jx *x, jstr *s);
size_t j_cp_offset(jx *x, jstr *s, size_t i); /* byte offset of code point i, which must be <= j_ncp */
uint32_t j_str_hash(const jstr *s);           /* caches; s is logically const */
bool j_str_eq(const jstr *a, const jstr *b);
bool j_str_is(const jstr *a, const char *lit);
#define J_CLIP(str) (int)((str)->len < 60 ? (str)->len : 60), (str)->s /* for "%.*s" in messages */
int j_str_cmp(const jstr *a, const jstr *b);                           /* by code point, which is byte order in UTF-8 */
size_t j_find(jx *x, const jstr *s, size_t from, const jstr *what);    /* byte offset or SIZE_MAX; what may be empty */
size_t j_rfind(jx *x, const jstr *s, size_t end, const jstr *what);    /* last match that ends at or before end */
uint32_t j_decode(const char *s, const char *end, size_t *len);
size_t j_encode(uint32_t cp, char out[4]);
bool j_is_space(uint32_t cp);
/* Case mapping as Python's str: full mappings, and titlecase for capitalize / title (jinja_case.c holds the tables). */
typedef enum { J_UPPER, J_LOWER, J_TITLE } jcase;
unsigned j_case(jcase how, uint32_t cp, uint32_t out[3]);
jstr *j_recase(jx *x, jstr *s, jcase how);
jstr *j_capitalize(jx *x, jstr *s);
bool j_is_cased(uint32_t cp, jcase how);                    /* is a lower (upper, title) case letter */
jstr *j_strip(jx *x, jstr *s, const jstr *chars, int side); /* chars NULL: white space; side: 1 left, 2 right, 3 both */
jseq *j_splitlines(jx *x, const jstr *s, bool keep);
/* Character classes by PCRE2: whether all of s (not empty) matches the class. */
enum { J_RE_ALPHA, J_RE_DECIMAL, J_RE_ALNUM, J_RE_UNPRINTABLE };
bool j_all_match(jx *x, const jstr *s, int which);
size_t j_next_unprintable(jx *x, const jstr *s, size_t from); /* byte offset, s->len if none */

/* ---- jinja_value.c ------------------------------------------------------------------------------------------------
 */

static inline jv jv_none(void) {
    return (jv){.type = J_NONE};
}
static inline jv jv_bool(bool b) {
    return (jv){.type = J_BOOL, .b = b};
}
static inline jv jv_int(int64_t i) {
    return (jv){.type = J_INT, .i = i};
}
static inline jv jv_float(double f) {
    return (jv){.type = J_FLOAT, .f = f};
}
static inline jv jv_str(jstr *s) {
    return (jv){.type = J_STR, .s = s};
}
static inline jv jv_seq(jseq *q) {
    return (jv){.type = J_SEQ, .q = q};
}
static inline jv jv_dict(jdict *d) {
    return (jv){.type = J_DICT, .d = d};
}
static inline bool jv_is_str(jv v) {
    return v.type == J_STR;
}
static inline bool jv_given(jv v) {
    return v.type != J_MISSING;
}
jv jv_undef(jx *x, const char *hint);
jv jv_undef_attr(jx *x, jv of, const jstr *name);
_Noreturn void j_undefined_error(jx *x, jv v); /* v is J_UNDEF */

const char *j_type_name(jv v); /* as Python names it: 'str', 'list', 'dict_items' */
bool j_truth(jx *x, jv v);
bool j_is_number(jv v);   /* bool, int, float */
double j_to_double(jv v); /* of a number */
bool j_equal(jx *x, jv a, jv b);
int j_order(jx *x, jv a, jv b, const char *op); /* < 0, 0, > 0; 2 = not comparable floats (NaN); TypeError otherwise */
uint32_t j_hash(jx *x, jv v);                   /* error for unhashable types */
jstr *j_to_str(jx *x, jv v);                    /* str(v) */
void j_write_str(jx *x, jbuf *b, jv v);
void j_write_repr(jx *x, jbuf *b, jv v, int depth);
void j_float_repr(double f, char out[40]);

jseq *j_seq(jx *x, jseq_kind kind, size_t n); /* n items, to be filled */
jseq *j_list_new(jx *x, size_t cap);          /* no items, room for cap: fill with j_push */
void j_push(jx *x, jseq *q, size_t *cap, jv v);
jdict *j_dict(jx *x);
void j_dict_set(jx *x, jdict *d, jv key, jv val);
jv *j_dict_get(jx *x, const jdict *d, jv key); /* NULL if absent */
jv *j_dict_find(jx *x, const jdict *d, const jstr *key);
jseq *j_dict_seq(jx *x, const jdict *d, jseq_kind kind); /* J_KEYS, J_VALUES, J_ITEMS */
/* What iterating v yields, as items (shared, not to be changed) of the result; consumes a generator. */
jseq *j_iter(jx *x, jv v);
bool j_is_iterable(jv v);
bool j_length(jx *x, jv v, int64_t *out);                       /* false: it has no length */
void j_sort(jx *x, jv *keys, jv *vals, size_t n, bool reverse); /* stable, by keys; vals moves along */

/* ---- jinja_json.c, jinja_format.c ----------------------------------------------------------------------------------
 */

jv j_from_json(jx *x, const json_t *j, int depth);
jv j_tojson(jx *x, jv self, const jv *a, const jargs *raw);
jv j_percent(jx *x, jv fmt, jv arg);                            /* fmt % arg */
jv j_str_format(jx *x, jv self, const jv *a, const jargs *raw); /* str.format */
jstr *j_escape(jx *x, const jstr *s);                           /* HTML */

/* ---- jinja_lex.c, jinja_parse.c, jinja_expr.c ----------------------------------------------------------------------
 */

typedef enum {
    T_EOF,
    T_DATA,
    T_VAR_BEGIN,
    T_VAR_END,
    T_BLOCK_BEGIN,
    T_BLOCK_END,
    T_NAME,
    T_STR,
    T_INT,
    T_FLOAT,
    T_ADD,
    T_SUB,
    T_MUL,
    T_DIV,
    T_FLOORDIV,
    T_MOD,
    T_POW,
    T_TILDE,
    T_LBRACKET,
    T_RBRACKET,
    T_LPAREN,
    T_RPAREN,
    T_LBRACE,
    T_RBRACE,
    T_EQ,
    T_NE,
    T_LT,
    T_LE,
    T_GT,
    T_GE,
    T_ASSIGN,
    T_DOT,
    T_COLON,
    T_PIPE,
    T_COMMA,
    T_SEMICOLON,
    T_IN,
    T_NOTIN /* only as operators of comparisons */
} jtok_type;

typedef struct {
    uint8_t type;
    int line;
    const jstr *s; /* names (interned), strings, data */
    union {
        int64_t i;
        double f;
    };
} jtok;

typedef struct {
    const jstr **slot;
    size_t cap, n;
} jnames;

typedef struct {
    jx *x;
    jtok *tok; /* ends with T_EOF */
    size_t at;
    jnames *names;
    int depth;
    bool soft;            /* inside if or a conditional expression: unknown filters are errors only when they run */
    const jnode *unknown; /* first unknown filter or test elsewhere: an error of the template */
    bool in_loop;         /* break and continue are allowed */
    uint8_t uses;         /* special names seen since the innermost macro began */
} jparser;

const jstr *j_intern(jx *x, jnames *t, const char *s, size_t len);
jtok *j_lex(jx *x, jnames *names, const char *src, size_t len);
const char *j_tok_text(const jtok *t, char out[64]); /* for messages */

static inline const jtok *jp_cur(const jparser *p) {
    return &p->tok[p->at];
}
static inline bool jp_is(const jparser *p, jtok_type t) {
    return p->tok[p->at].type == t;
}
bool jp_is_name(const jparser *p, const char *name);
bool jp_skip(jparser *p, jtok_type t);
bool jp_skip_name(jparser *p, const char *name);
const jtok *jp_next(jparser *p);
const jtok *jp_expect(jparser *p, jtok_type t, const char *what);
void jp_expect_name(jparser *p, const char *name);
_Noreturn void jp_fail(const jparser *p, int line, const char *fmt, ...) IE_PRINTF(3, 4);
void jp_enter(jparser *p); /* one level deeper */
jnode *jp_node(jparser *p, jkind kind, int line);

typedef struct {         /* how to read a tuple */
    bool simplified;     /* names and literals only: assignment targets */
    bool no_cond;        /* no conditional expressions */
    bool parens;         /* in parentheses: may be empty */
    bool with_namespace; /* ns.attr as a target */
    const char *end;     /* a name that ends it, or NULL */
} jtuple_opts;

jnode *jp_expr(jparser *p);
jnode *jp_tuple(jparser *p, jtuple_opts o);
jnode *jp_filter(jparser *p, jnode *node, bool inline_); /* the filters that follow; inline_: first without '|' */
jnode *jp_template(jparser *p);

/* ---- jinja_exec.c, jinja_eval.c, jinja_ops.c -----------------------------------------------------------------------
 */

void j_exec(jx *x, const jnode *body); /* a whole template */
jv j_call_macro(jx *x, const jmacro *m, const jargs *a);
jv j_eval(jx *x, const jnode *n);
void j_eval_args(jx *x, const jnode *list, jargs *out, const jv *extra_caller);
jv j_apply_filter(jx *x, const jnode *filter, jv value);
jv j_call_builtin(jx *x, const jbuiltin *f, jv self, const jargs *a);
jv j_call(jx *x, jv f, const jargs *a);
jv j_lookup(jx *x, const jstr *name);
void j_define(jx *x, const jstr *name, jv val);
void j_enter(jx *x); /* one level of recursion deeper, or an error */

jv j_math(jx *x, int op, jv a, jv b); /* op: T_ADD .. T_POW */
bool j_compare(jx *x, int op, jv a, jv b);
bool j_contains(jx *x, jv item, jv in);
jv j_getattr(jx *x, jv v, const jstr *name);
jv j_getitem(jx *x, jv v, jv key);
jv j_slice(jx *x, jv v, const jv *start, const jv *stop, const jv *step); /* NULL or None: absent */
jv j_attr_path(jx *x, jv v, jv path); /* attribute= of filters: "a.b.0", or a number */
int64_t j_need_int(jx *x, jv v, const char *what);

/* Loops (jinja_exec.c). */
bool j_loop_next(jx *x, jloop *l, jv *out);
jv j_loop_attr(jx *x, jloop *l, const jstr *name, bool *found);
jv j_loop_call(jx *x, jloop *l, const jargs *a);

/* Tables; NULL if there is no such name. */
const jbuiltin *j_find_filter(const char *name, size_t len);     /* jinja_filters.c */
const jbuiltin *j_find_filter_seq(const char *name, size_t len); /* jinja_filters_seq.c */
const jbuiltin *j_find_test(const char *name, size_t len);       /* jinja_tests.c */
const jbuiltin *j_find_global(const char *name, size_t len);     /* jinja_globals.c */
const jbuiltin *j_find_str_method(const char *name, size_t len); /* jinja_methods.c */
const jbuiltin *j_find_method(jv v, const jstr *name, bool *forbidden);
const jbuiltin *j_in_table(const jbuiltin *t, size_t n, const char *name, size_t len);
#define J_IN_TABLE(t, name, len) j_in_table(t, sizeof(t) / sizeof(t)[0], name, len)

#endif
