/* Statement parser of chat templates. */
#include "jinja.h"

/* Parses statements and text up to one of the end names (separated by spaces; NULL: end of the template), whose token
 * is current afterwards. Returns the chain. */
static jnode *body_until(jparser *p, const char *ends, int open_line);

static bool at_end_name(const jparser *p, const char *ends) {
    if (!jp_is(p, T_NAME)) return false;
    const jstr *s = jp_cur(p)->s;
    for (const char *e = ends; *e;) {
        size_t n = strcspn(e, " ");
        if (n == s->len && memcmp(e, s->s, n) == 0) return true;
        e += n + (e[n] == ' ');
    }
    return false;
}

/* The body of a statement whose head has been read, with the end tag's name consumed. */
static jnode *body(jparser *p, const char *ends) {
    int line = jp_cur(p)->line;
    jp_skip(p, T_COLON);
    jp_expect(p, T_BLOCK_END, "'%}'");
    return body_until(p, ends, line);
}

static jnode *body_to(jparser *p, const char *end) {
    jnode *b = body(p, end);
    jp_next(p);
    return b;
}

static void check_target(jparser *p, const jnode *t) {
    if (t->kind == N_TUPLE) {
        for (const jnode *i = t->list; i; i = i->next) check_target(p, i);
        return;
    }
    if (t->kind != N_NAME && t->kind != N_NSREF) jp_fail(p, t->line, "cannot assign to this expression");
}

static jnode *target(jparser *p, const char *end, bool with_namespace) {
    jnode *t = jp_tuple(p, (jtuple_opts){.simplified = true, .end = end, .with_namespace = with_namespace});
    check_target(p, t);
    return t;
}

static void forbid_loop(jparser *p, const jnode *t) { /* jinja2 reserves the name in the head of a for */
    if (t->kind == N_NAME && j_str_is(t->name, "loop")) jp_fail(p, t->line, "cannot assign to the loop variable");
    for (const jnode *i = t->kind == N_TUPLE ? t->list : NULL; i; i = i->next) forbid_loop(p, i);
}

/* ---- statements -----------------------------------------------------------------------------------------------------
 */

static jnode *
for_statement(jparser *p) { /* N_FOR: a target, b items, c condition, list body, list2 else, op recursive */
    jnode *n = jp_node(p, N_FOR, jp_next(p)->line);
    bool soft = p->soft, in_loop = p->in_loop;
    n->a = target(p, "in", false);
    forbid_loop(p, n->a);
    jp_expect_name(p, "in");
    n->b = jp_tuple(p, (jtuple_opts){.no_cond = true, .end = "recursive"});
    p->soft = false;
    if (jp_skip_name(p, "if")) n->c = jp_expr(p);
    n->op = jp_skip_name(p, "recursive");
    p->in_loop = true;
    n->list = body(p, "endfor else");
    p->in_loop = in_loop && !n->op;
    if (j_str_is(jp_next(p)->s, "else")) n->list2 = body_to(p, "endfor");
    p->soft = soft;
    p->in_loop = in_loop;
    return n;
}

static jnode *if_statement(jparser *p) { /* N_IF: list of N_BRANCH: a condition (NULL: else), list body */
    jnode *n = jp_node(p, N_IF, jp_cur(p)->line), **tail = &n->list;
    bool soft = p->soft;
    p->soft = true;
    for (;;) {
        jnode *b = jp_node(p, N_BRANCH, jp_next(p)->line);
        b->a = jp_tuple(p, (jtuple_opts){.no_cond = true});
        b->list = body(p, "elif else endif");
        *tail = b;
        tail = &b->next;
        if (jp_is_name(p, "elif")) continue;
        if (j_str_is(jp_next(p)->s, "else")) {
            b = jp_node(p, N_BRANCH, jp_cur(p)->line);
            b->list = body_to(p, "endif");
            *tail = b;
        }
        p->soft = soft;
        return n;
    }
}

static jnode *set_statement(jparser *p) { /* N_SET: a target, b value; N_SETBLOCK: a target, b filters or NULL, list */
    jnode *n = jp_node(p, N_SET, jp_next(p)->line);
    n->a = target(p, NULL, true);
    if (jp_skip(p, T_ASSIGN)) {
        n->b = jp_tuple(p, (jtuple_opts){0});
        return n;
    }
    n->kind = N_SETBLOCK;
    n->b = jp_filter(p, NULL, false);
    bool soft = p->soft;
    p->soft = false;
    n->list = body_to(p, "endset");
    p->soft = soft;
    return n;
}

/* Parameters: a chain of N_ARG, name, a = default or NULL. */
static jnode *signature(jparser *p) {
    jnode *first = NULL, **tail = &first;
    bool defaults = false;
    jp_expect(p, T_LPAREN, "'('");
    while (!jp_is(p, T_RPAREN)) {
        if (first) jp_expect(p, T_COMMA, "','");
        const jtok *t = jp_expect(p, T_NAME, "a parameter name");
        jnode *n = jp_node(p, N_ARG, t->line);
        n->name = t->s;
        if (jp_skip(p, T_ASSIGN)) {
            n->a = jp_expr(p);
            defaults = true;
        } else if (defaults) {
            jp_fail(p, t->line, "a parameter without default follows one with");
        }
        *tail = n;
        tail = &n->next;
    }
    jp_next(p);
    return first;
}

/* The body of a macro or call block: a scope of its own, in which break and continue have no loop. */
static void function_body(jparser *p, jnode *n, const char *end) {
    bool soft = p->soft, in_loop = p->in_loop;
    uint8_t outer = p->uses;
    p->soft = p->in_loop = false;
    p->uses = 0;
    n->list = body_to(p, end);
    n->flags = p->uses;
    p->uses |= outer;
    p->soft = soft;
    p->in_loop = in_loop;
}

static jnode *macro_statement(jparser *p) { /* N_MACRO: name, list2 parameters, list body, flags J_USES_* */
    jnode *n = jp_node(p, N_MACRO, jp_next(p)->line);
    n->name = jp_expect(p, T_NAME, "a macro name")->s;
    n->list2 = signature(p);
    function_body(p, n, "endmacro");
    for (const jnode *a = n->list2; a; a = a->next) {
        if (!j_str_is(a->name, "caller") || !(n->flags & J_USES_CALLER)) continue;
        if (!a->a) jp_fail(p, n->line, "the macro parameter 'caller' needs a default");
        n->flags &= (uint8_t)~J_USES_CALLER;
    }
    return n;
}

static jnode *
call_statement(jparser *p) { /* N_CALLBLOCK: a = N_CALL, list2 parameters of the caller, list body, flags */
    jnode *n = jp_node(p, N_CALLBLOCK, jp_next(p)->line);
    n->name = j_intern(p->x, p->names, "caller", 6);
    if (jp_is(p, T_LPAREN)) n->list2 = signature(p);
    n->a = jp_expr(p);
    if (n->a->kind != N_CALL) jp_fail(p, n->line, "expected a call after 'call'");
    function_body(p, n, "endcall");
    return n;
}

static jnode *filter_statement(jparser *p) { /* N_FILTERBLOCK: b filters, list */
    jnode *n = jp_node(p, N_FILTERBLOCK, jp_next(p)->line);
    bool soft = p->soft;
    p->soft = false;
    n->b = jp_filter(p, NULL, true);
    n->list = body_to(p, "endfilter");
    p->soft = soft;
    return n;
}

static jnode *with_statement(jparser *p) { /* N_WITH: list2 of targets (a) and values (b), list */
    jnode *n = jp_node(p, N_WITH, jp_next(p)->line), **tail = &n->list2;
    while (!jp_is(p, T_BLOCK_END)) {
        if (n->list2) jp_expect(p, T_COMMA, "','");
        jnode *pair = jp_node(p, N_ARG, jp_cur(p)->line);
        pair->a = target(p, NULL, false);
        jp_expect(p, T_ASSIGN, "'='");
        pair->b = jp_expr(p);
        *tail = pair;
        tail = &pair->next;
    }
    bool soft = p->soft;
    p->soft = false;
    n->list = body_to(p, "endwith");
    p->soft = soft;
    return n;
}

static jnode *print_statement(jparser *p) { /* a chain of N_OUT */
    int line = jp_next(p)->line;
    jnode *first = NULL, **tail = &first;
    while (!jp_is(p, T_BLOCK_END)) {
        if (first) jp_expect(p, T_COMMA, "','");
        *tail = jp_node(p, N_OUT, line);
        (*tail)->a = jp_expr(p);
        tail = &(*tail)->next;
    }
    return first;
}

static jnode *jump_statement(jparser *p, jkind kind) {
    const jtok *t = jp_next(p);
    if (!p->in_loop) jp_fail(p, t->line, "'%.*s' outside of a loop", (int)t->s->len, t->s->s);
    return jp_node(p, kind, t->line);
}

static jnode *generation_statement(jparser *p) { /* N_GENERATION: list */
    jnode *n = jp_node(p, N_GENERATION, jp_next(p)->line);
    function_body(p, n, "endgeneration");
    return n;
}

/* {% block %} without inheritance renders in place. Its body sees the template's top-level variables. */
static jnode *block_statement(jparser *p) { /* N_SCOPE: list, op: whether enclosing loops' variables are seen */
    jnode *n = jp_node(p, N_SCOPE, jp_next(p)->line);
    const jtok *name = jp_expect(p, T_NAME, "a block name");
    n->op = jp_skip_name(p, "scoped");
    bool soft = p->soft, in_loop = p->in_loop;
    p->soft = p->in_loop = false;
    n->list = body_to(p, "endblock");
    p->soft = soft;
    p->in_loop = in_loop;
    if (jp_is(p, T_NAME) && jp_cur(p)->s == name->s) jp_next(p);
    return n;
}

static jnode *statement(jparser *p, const char *ends, int open_line) {
    const jtok *t = jp_cur(p);
    if (t->type != T_NAME) jp_fail(p, t->line, "expected the name of a statement after '{%%'");
    const jstr *s = t->s;
    if (j_str_is(s, "if")) return if_statement(p);
    if (j_str_is(s, "for")) return for_statement(p);
    if (j_str_is(s, "set")) return set_statement(p);
    if (j_str_is(s, "macro")) return macro_statement(p);
    if (j_str_is(s, "call")) return call_statement(p);
    if (j_str_is(s, "filter")) return filter_statement(p);
    if (j_str_is(s, "with")) return with_statement(p);
    if (j_str_is(s, "print")) return print_statement(p);
    if (j_str_is(s, "break")) return jump_statement(p, N_BREAK);
    if (j_str_is(s, "continue")) return jump_statement(p, N_CONTINUE);
    if (j_str_is(s, "generation")) return generation_statement(p);
    if (j_str_is(s, "block")) return block_statement(p);
    if (ends)
        jp_fail(p, t->line, "statement '%.*s' is not supported here (the tag of line %d is still open: expected %s)",
                J_CLIP(s), open_line, ends);
    jp_fail(p, t->line, "statement '%.*s' is not supported", J_CLIP(s));
}

static jnode *body_until(jparser *p, const char *ends, int open_line) {
    jnode *first = NULL, **tail = &first;
    jp_enter(p);
    for (;;) {
        const jtok *t = jp_cur(p);
        if (t->type == T_EOF) {
            if (ends) jp_fail(p, t->line, "unexpected end of template: the tag of line %d needs %s", open_line, ends);
            break;
        }
        if (t->type == T_DATA) { /* N_DATA: val */
            jp_next(p);
            *tail = jp_node(p, N_DATA, t->line);
            (*tail)->val = jv_str((jstr *)(uintptr_t)t->s);
            j_ncp(p->x, (*tail)->val.s);     /* cached now: renderings share the node and may run at once */
        } else if (t->type == T_VAR_BEGIN) { /* N_OUT: a */
            jp_next(p);
            *tail = jp_node(p, N_OUT, t->line);
            (*tail)->a = jp_tuple(p, (jtuple_opts){0});
            jp_expect(p, T_VAR_END, "'}}'");
        } else {
            jp_expect(p, T_BLOCK_BEGIN, "'{%'");
            if (ends && at_end_name(p, ends)) break;
            *tail = statement(p, ends, open_line);
            jp_expect(p, T_BLOCK_END, "'%}'");
        }
        while (*tail) tail = &(*tail)->next;
    }
    p->depth--;
    return first;
}

jnode *jp_template(jparser *p) {
    jnode *all = body_until(p, NULL, 1);
    const jnode *u = p->unknown;
    if (u)
        jp_fail(p, u->line, "no %s named '%.*s' is supported", u->kind == N_FILTER ? "filter" : "test",
                J_CLIP(u->name));
    return all;
}
