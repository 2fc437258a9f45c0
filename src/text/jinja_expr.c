/* Expression parser of chat templates: the grammar and precedence of jinja2. Chains of one precedence level become one
 * node with a list, so that long sums neither deepen the tree nor the evaluator's recursion. */
#include <stdarg.h>
#include <stdio.h>

#include "jinja.h"

void jp_fail(const jparser *p, int line, const char *fmt, ...) {
    char msg[300];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(msg, sizeof msg, fmt, ap);
    va_end(ap);
    j_fail(p->x, IE_E_FORMAT, "chat template, line %d: %s", line, msg);
}

void jp_enter(jparser *p) {
    if (++p->depth > J_MAX_NEST) jp_fail(p, jp_cur(p)->line, "nested deeper than %d", J_MAX_NEST);
}

jnode *jp_node(jparser *p, jkind kind, int line) {
    jnode *n = J_NEW(p->x, jnode);
    n->kind = (uint8_t)kind;
    n->line = line;
    return n;
}

/* ---- tokens -------------------------------------------------------------------------------------------------------
 */

bool jp_is_name(const jparser *p, const char *name) { return jp_is(p, T_NAME) && j_str_is(jp_cur(p)->s, name); }

const jtok *jp_next(jparser *p) {
    const jtok *t = jp_cur(p);
    if (t->type != T_EOF) p->at++;
    return t;
}

bool jp_skip(jparser *p, jtok_type t) {
    bool is = jp_is(p, t);
    if (is) jp_next(p);
    return is;
}

bool jp_skip_name(jparser *p, const char *name) {
    bool is = jp_is_name(p, name);
    if (is) jp_next(p);
    return is;
}

const jtok *jp_expect(jparser *p, jtok_type t, const char *what) {
    char text[64];
    if (!jp_is(p, t)) jp_fail(p, jp_cur(p)->line, "expected %s, got '%s'", what, j_tok_text(jp_cur(p), text));
    return jp_next(p);
}

void jp_expect_name(jparser *p, const char *name) {
    char text[64];
    if (!jp_skip_name(p, name))
        jp_fail(p, jp_cur(p)->line, "expected '%s', got '%s'", name, j_tok_text(jp_cur(p), text));
}

static bool next_is_name(const jparser *p, const char *name) { /* the token after the current one */
    const jtok *t = jp_is(p, T_EOF) ? jp_cur(p) : jp_cur(p) + 1;
    return t->type == T_NAME && j_str_is(t->s, name);
}

/* ---- primaries ----------------------------------------------------------------------------------------------------
 */

static jnode *constant(jparser *p, int line, jv v) {
    jnode *n = jp_node(p, N_CONST, line);
    n->val = v;
    return n;
}

static jnode *name_or_literal(jparser *p, bool with_namespace) {
    const jtok *t = jp_next(p);
    if (j_str_is(t->s, "true") || j_str_is(t->s, "True")) return constant(p, t->line, jv_bool(true));
    if (j_str_is(t->s, "false") || j_str_is(t->s, "False")) return constant(p, t->line, jv_bool(false));
    if (j_str_is(t->s, "none") || j_str_is(t->s, "None")) return constant(p, t->line, jv_none());
    jnode *n = jp_node(p, N_NAME, t->line);
    n->name = t->s;
    if (with_namespace && jp_skip(p, T_DOT)) { /* N_NSREF: name, and the attribute as val */
        n->kind = N_NSREF;
        n->val = jv_str((jstr *)(uintptr_t)jp_expect(p, T_NAME, "an attribute name")->s);
        return n;
    }
    if (j_str_is(t->s, "caller")) p->uses |= J_USES_CALLER;
    if (j_str_is(t->s, "varargs")) p->uses |= J_USES_VARARGS;
    if (j_str_is(t->s, "kwargs")) p->uses |= J_USES_KWARGS;
    return n;
}

static jnode *strings(jparser *p) { /* adjacent literals are one */
    const jtok *t = jp_next(p);
    jstr *s = (jstr *)(uintptr_t)t->s;
    while (jp_is(p, T_STR)) s = j_concat(p->x, s, jp_next(p)->s);
    j_ncp(p->x, s);
    j_str_hash(s);
    s->buf = NULL; /* renderings must not append to a template's string */
    return constant(p, t->line, jv_str(s));
}

static jnode *list(jparser *p) { /* N_LIST: list */
    jnode *n = jp_node(p, N_LIST, jp_next(p)->line), **tail = &n->list;
    while (!jp_is(p, T_RBRACKET)) {
        if (n->list) jp_expect(p, T_COMMA, "','");
        if (jp_is(p, T_RBRACKET)) break;
        *tail = jp_expr(p); // NOLINT(clang-analyzer-core.NullDereference): jp_node and jp_expr give a node
        tail = &(*tail)->next;
    }
    jp_next(p);
    return n;
}

static jnode *dict(jparser *p) { /* N_DICT: list of keys and values in turn */
    jnode *n = jp_node(p, N_DICT, jp_next(p)->line), **tail = &n->list;
    while (!jp_is(p, T_RBRACE)) {
        if (n->list) jp_expect(p, T_COMMA, "','");
        if (jp_is(p, T_RBRACE)) break;
        *tail = jp_expr(p);
        tail = &(*tail)->next;
        jp_expect(p, T_COLON, "':'");
        *tail = jp_expr(p);
        tail = &(*tail)->next;
    }
    jp_next(p);
    return n;
}

static jnode *primary(jparser *p, bool with_namespace) {
    const jtok *t = jp_cur(p);
    char text[64];
    jnode *n;
    switch (t->type) {
    case T_NAME: return name_or_literal(p, with_namespace);
    case T_STR: return strings(p);
    case T_INT: jp_next(p); return constant(p, t->line, jv_int(t->i));
    case T_FLOAT: jp_next(p); return constant(p, t->line, jv_float(t->f));
    case T_LPAREN:
        jp_next(p);
        n = jp_tuple(p, (jtuple_opts){.parens = true});
        jp_expect(p, T_RPAREN, "')'");
        return n;
    case T_LBRACKET: return list(p);
    case T_LBRACE: return dict(p);
    default: jp_fail(p, t->line, "unexpected '%s'", j_tok_text(t, text));
    }
}

static bool tuple_ends(const jparser *p, const char *end) {
    return jp_is(p, T_VAR_END) || jp_is(p, T_BLOCK_END) || jp_is(p, T_RPAREN) || (end && jp_is_name(p, end));
}

static jnode *or_expr(jparser *p);

jnode *jp_tuple(jparser *p, jtuple_opts o) { /* N_TUPLE: list; or the only expression itself */
    int line = jp_cur(p)->line;
    char text[64];
    jnode *first = NULL, **tail = &first;
    bool is_tuple = false;
    jp_enter(p);
    for (;;) {
        if (first) jp_expect(p, T_COMMA, "','");
        if (tuple_ends(p, o.end)) break;
        *tail = o.simplified ? primary(p, o.with_namespace) : o.no_cond ? or_expr(p) : jp_expr(p); // NOLINT(clang-analyzer-core.NullDereference): jp_node and jp_expr give a node
        tail = &(*tail)->next;
        if (!jp_is(p, T_COMMA)) break;
        is_tuple = true;
    }
    p->depth--;
    if (!is_tuple && first) return first;
    if (!is_tuple && !o.parens) jp_fail(p, line, "expected an expression, got '%s'", j_tok_text(jp_cur(p), text));
    jnode *n = jp_node(p, N_TUPLE, line);
    n->list = first;
    return n;
}

/* ---- what follows a primary ---------------------------------------------------------------------------------------
 */

static jnode *slice_or_expr(jparser *p) { /* N_SLICE: a, b, c = start, stop, step, each may be NULL */
    int line = jp_cur(p)->line;
    jnode *part[3] = {NULL, NULL, NULL};
    if (!jp_is(p, T_COLON)) {
        part[0] = jp_expr(p);
        if (!jp_is(p, T_COLON)) return part[0];
    }
    for (int i = 1; i < 3 && jp_skip(p, T_COLON); i++)
        if (!jp_is(p, T_COLON) && !jp_is(p, T_RBRACKET) && !jp_is(p, T_COMMA)) part[i] = jp_expr(p);
    jnode *n = jp_node(p, N_SLICE, line);
    n->a = part[0];
    n->b = part[1];
    n->c = part[2];
    return n;
}

static jnode *subscript(jparser *p, jnode *of) { /* N_ATTR: a, name; N_ITEM: a, b */
    const jtok *t = jp_next(p);
    if (t->type == T_DOT) {
        const jtok *attr = jp_next(p);
        bool is_int = attr->type == T_INT;
        if (attr->type != T_NAME && !is_int) jp_fail(p, attr->line, "expected name or number after '.'");
        jnode *n = jp_node(p, is_int ? N_ITEM : N_ATTR, t->line);
        n->a = of;
        if (is_int)
            n->b = constant(p, attr->line, jv_int(attr->i));
        else
            n->name = attr->s;
        return n;
    }
    jnode *first = NULL, **tail = &first;
    while (!jp_is(p, T_RBRACKET)) {
        if (first) jp_expect(p, T_COMMA, "','");
        *tail = slice_or_expr(p); // NOLINT(clang-analyzer-core.NullDereference): jp_node and jp_expr give a node
        tail = &(*tail)->next;
    }
    jp_next(p);
    jnode *n = jp_node(p, N_ITEM, t->line);
    n->a = of;
    n->b = first;
    if (!first || first->next) {
        n->b = jp_node(p, N_TUPLE, t->line);
        n->b->list = first;
    }
    return n;
}

/* Arguments in parentheses: N_ARG chain, a = value, op = J_ARG_*, name of keyword arguments. */
static jnode *call_args(jparser *p) {
    int line = jp_expect(p, T_LPAREN, "'('")->line;
    jnode *first = NULL, **tail = &first;
    int last = J_ARG_POS;
    while (!jp_is(p, T_RPAREN)) {
        if (first) jp_expect(p, T_COMMA, "','");
        if (jp_is(p, T_RPAREN)) break;
        jnode *n = jp_node(p, N_ARG, jp_cur(p)->line);
        if (jp_skip(p, T_MUL)) {
            n->op = J_ARG_STAR;
        } else if (jp_skip(p, T_POW)) {
            n->op = J_ARG_STARSTAR;
        } else if (jp_is(p, T_NAME) && jp_cur(p)[1].type == T_ASSIGN) {
            n->op = J_ARG_KW;
            n->name = jp_next(p)->s;
            jp_next(p);
        }
        bool ok = n->op == J_ARG_POS ? last == J_ARG_POS : n->op == J_ARG_KW ? last != J_ARG_STARSTAR : last < n->op;
        if (n->op == J_ARG_STAR && last == J_ARG_KW) ok = true;
        if (!ok) jp_fail(p, line, "invalid order of arguments in a call");
        if (n->op > last) last = n->op;
        n->a = jp_expr(p);
        *tail = n;
        tail = &n->next;
    }
    jp_next(p);
    return first;
}

static jnode *call(jparser *p, jnode *f) { /* N_CALL: a, list */
    jnode *n = jp_node(p, N_CALL, jp_cur(p)->line);
    n->a = f;
    n->list = call_args(p);
    return n;
}

/* Dotted name; jinja2 allows dots, no builtin has one. Returns the token of a simple name. */
static const jtok *dotted(jparser *p, const char *what) {
    const jtok *t = jp_expect(p, T_NAME, what);
    if (jp_is(p, T_DOT)) jp_fail(p, t->line, "no %s with a '.' in its name exists", what);
    return t;
}

jnode *jp_filter(jparser *p, jnode *node, bool inline_) { /* N_FILTER: a (NULL: the text of a block), fn, name, list */
    int chain = 0;
    while (inline_ || jp_is(p, T_PIPE)) {
        if (++chain > J_MAX_NEST) jp_fail(p, jp_cur(p)->line, "more than %d filters in a row", J_MAX_NEST);
        if (!inline_) jp_next(p);
        inline_ = false;
        const jtok *t = dotted(p, "filter");
        jnode *n = jp_node(p, N_FILTER, t->line);
        n->name = t->s;
        n->fn = j_find_filter(t->s->s, t->s->len);
        if (!n->fn && !p->soft && !p->unknown) p->unknown = n;
        if (jp_is(p, T_LPAREN)) n->list = call_args(p);
        n->a = node;
        node = n;
    }
    return node;
}

static jnode *postfix(jparser *p, jnode *n) {
    for (int chain = 0;; chain++) {
        if (chain > J_MAX_NEST) jp_fail(p, jp_cur(p)->line, "more than %d subscripts in a row", J_MAX_NEST);
        if (jp_is(p, T_DOT) || jp_is(p, T_LBRACKET))
            n = subscript(p, n);
        else if (jp_is(p, T_LPAREN))
            n = call(p, n);
        else
            return n;
    }
}

static jnode *test(jparser *p, jnode *of) { /* N_TEST: a, fn, name, list (as of calls) */
    int line = jp_next(p)->line;
    bool negated = jp_skip_name(p, "not");
    const jtok *t = dotted(p, "test");
    jnode *n = jp_node(p, N_TEST, line);
    n->a = of;
    n->name = t->s;
    n->fn = j_find_test(t->s->s, t->s->len);
    if (!n->fn && !p->soft && !p->unknown) p->unknown = n;
    jtok_type next = jp_cur(p)->type;
    if (next == T_LPAREN) {
        n->list = call_args(p);
    } else if ((next == T_NAME || next == T_STR || next == T_INT || next == T_FLOAT || next == T_LBRACKET ||
                next == T_LBRACE) &&
               !jp_is_name(p, "else") && !jp_is_name(p, "or") && !jp_is_name(p, "and")) {
        if (jp_is_name(p, "is")) jp_fail(p, line, "tests cannot be chained with 'is'");
        n->list = jp_node(p, N_ARG, line);
        n->list->a = postfix(p, primary(p, false));
    }
    if (!negated) return n;
    jnode *not_ = jp_node(p, N_NOT, line); /* N_NOT, N_NEG, N_POS: a */
    not_->a = n;
    return not_;
}

static jnode *unary(jparser *p, bool with_filter) {
    int line = jp_cur(p)->line;
    jnode *n;
    jp_enter(p);
    if (jp_is(p, T_SUB) || jp_is(p, T_ADD)) {
        n = jp_node(p, jp_next(p)->type == T_SUB ? N_NEG : N_POS, line);
        n->a = unary(p, false);
    } else {
        n = primary(p, false);
    }
    n = postfix(p, n);
    for (int chain = 0; with_filter; chain++) {
        if (chain > J_MAX_NEST) jp_fail(p, line, "more than %d filters and tests in a row", J_MAX_NEST);
        if (jp_is(p, T_PIPE))
            n = jp_filter(p, n, false);
        else if (jp_is_name(p, "is"))
            n = test(p, n);
        else if (jp_is(p, T_LPAREN))
            n = call(p, n);
        else
            break;
    }
    p->depth--;
    return n;
}

/* ---- operators ----------------------------------------------------------------------------------------------------
 */

/* N_MATH: a (op b)*, op of each in the list's nodes' op field by way of N_ARG wrappers: a = operand. */
static jnode *chain(jparser *p, jkind kind, jnode *first, jnode *(*operand)(jparser *), bool (*is_op)(jtok_type)) {
    jnode *n = NULL, **tail = NULL;
    while (is_op((jtok_type)jp_cur(p)->type)) {
        const jtok *t = jp_next(p);
        if (!n) {
            n = jp_node(p, kind, t->line);
            n->a = first;
            tail = &n->list;
        }
        jnode *arg = jp_node(p, N_ARG, t->line);
        arg->op = t->type;
        arg->a = operand(p);
        *tail = arg;
        tail = &arg->next;
    }
    return n ? n : first;
}

static jnode *unary_expr(jparser *p) { return unary(p, true); }
static bool is_pow(jtok_type t) { return t == T_POW; }
static bool is_mul(jtok_type t) { return t == T_MUL || t == T_DIV || t == T_FLOORDIV || t == T_MOD; }
static bool is_tilde(jtok_type t) { return t == T_TILDE; }
static bool is_add(jtok_type t) { return t == T_ADD || t == T_SUB; }
static jnode *pow_expr(jparser *p) { return chain(p, N_MATH, unary_expr(p), unary_expr, is_pow); }
static jnode *mul_expr(jparser *p) { return chain(p, N_MATH, pow_expr(p), pow_expr, is_mul); }
static jnode *concat_expr(jparser *p) { return chain(p, N_CONCAT, mul_expr(p), mul_expr, is_tilde); }
static jnode *add_expr(jparser *p) { return chain(p, N_MATH, concat_expr(p), concat_expr, is_add); }

static jnode *compare(jparser *p) { /* N_COMPARE: a, list of N_ARG with op T_EQ .. T_GE, T_IN, T_NOTIN */
    jnode *first = add_expr(p), *n = NULL, **tail = NULL;
    for (;;) {
        jtok_type t = (jtok_type)jp_cur(p)->type;
        int line = jp_cur(p)->line;
        if (t == T_EQ || t == T_NE || t == T_LT || t == T_LE || t == T_GT || t == T_GE) {
            jp_next(p);
        } else if (jp_skip_name(p, "in")) {
            t = T_IN;
        } else if (jp_is_name(p, "not") && next_is_name(p, "in")) {
            jp_next(p);
            jp_next(p);
            t = T_NOTIN;
        } else {
            return n ? n : first;
        }
        if (!n) {
            n = jp_node(p, N_COMPARE, line);
            n->a = first;
            tail = &n->list;
        }
        jnode *arg = jp_node(p, N_ARG, line);
        arg->op = (uint8_t)t;
        arg->a = add_expr(p);
        *tail = arg;
        tail = &arg->next;
    }
}

static jnode *not_expr(jparser *p) {
    if (!jp_is_name(p, "not")) return compare(p);
    jp_enter(p);
    jnode *n = jp_node(p, N_NOT, jp_next(p)->line);
    n->a = not_expr(p);
    p->depth--;
    return n;
}

/* N_AND, N_OR: list of operands. */
static jnode *logical(jparser *p, jkind kind, const char *word, jnode *(*operand)(jparser *)) {
    jnode *first = operand(p);
    if (!jp_is_name(p, word)) return first;
    jnode *n = jp_node(p, kind, jp_cur(p)->line), **tail = &first->next;
    n->list = first;
    while (jp_skip_name(p, word)) {
        *tail = operand(p);
        tail = &(*tail)->next;
    }
    return n;
}

static jnode *and_expr(jparser *p) { return logical(p, N_AND, "and", not_expr); }
static jnode *or_expr(jparser *p) { return logical(p, N_OR, "or", and_expr); }

jnode *jp_expr(jparser *p) { /* N_COND: a if b else c; c may be NULL */
    jp_enter(p);
    bool soft = p->soft;
    const jnode *unknown = p->unknown;
    int chain_len = 0;
    jnode *n = or_expr(p);
    while (jp_is_name(p, "if")) {
        p->soft = true; /* also what was read just now */
        p->unknown = unknown;
        if (++chain_len > J_MAX_NEST) jp_fail(p, jp_cur(p)->line, "more than %d conditions in a row", J_MAX_NEST);
        jnode *cond = jp_node(p, N_COND, jp_next(p)->line);
        cond->a = n;
        cond->b = or_expr(p);
        if (jp_skip_name(p, "else")) cond->c = jp_expr(p);
        n = cond;
    }
    p->soft = soft;
    p->depth--;
    return n;
}
