/* Entry points of the chat-template engine (template.h). */
#include <stdlib.h>

#include "jinja.h"

struct ie_template {
    jx x; /* owns the nodes; read-only after ie_template_new */
    const jnode *body;
    jspecial names;
    jnames *interned;
    locale_t locale; /* "C": numbers and dates do not depend on the program's locale */
};

/* Offset of the first byte that is not part of well-formed UTF-8; len if there is none. */
static size_t bad_utf8(const char *s, size_t len) {
    for (size_t i = 0; i < len;) {
        uint8_t c = (uint8_t)s[i];
        size_t n = c < 0x80 ? 1 : c >= 0xC2 && c < 0xE0 ? 2 : c >= 0xE0 && c < 0xF0 ? 3 : c >= 0xF0 && c < 0xF5 ? 4 : 0;
        if (n == 0 || n > len - i) return i;
        for (size_t k = 1; k < n; k++)
            if ((s[i + k] & 0xC0) != 0x80) return i;
        uint8_t d = n > 1 ? (uint8_t)s[i + 1] : 0;
        if ((c == 0xE0 && d < 0xA0) || (c == 0xED && d > 0x9F) || (c == 0xF0 && d < 0x90) || (c == 0xF4 && d > 0x8F))
            return i;
        i += n;
    }
    return len;
}

static void parse(ie_template *t, const char *source, size_t len) {
    jx *x = &t->x;
    if (setjmp(x->jmp)) return;
    jparser *p = J_NEW(x, jparser);
    t->interned = J_NEW(x, jnames);
    t->names.loop = j_intern(x, t->interned, "loop", 4);
    t->names.caller = j_intern(x, t->interned, "caller", 6);
    t->names.kwargs = j_intern(x, t->interned, "kwargs", 6);
    t->names.varargs = j_intern(x, t->interned, "varargs", 7);
    p->x = x;
    p->names = t->interned;
    p->tok = j_lex(x, t->interned, source, len);
    t->body = jp_template(p);
}

ie_template *ie_template_new(const char *source, size_t len, ie_error *err) {
    if (len > J_MAX_SOURCE) {
        ie_fail(err, IE_E_FORMAT, "chat template: %zu bytes, at most %d are allowed", len, J_MAX_SOURCE);
        return NULL;
    }
    size_t bad = bad_utf8(source, len);
    if (bad < len) {
        ie_fail(err, IE_E_FORMAT, "chat template: byte %zu is not UTF-8", bad);
        return NULL;
    }
    ie_template *t = ie_calloc(1, sizeof *t, "chat template", err);
    if (!t) return NULL;
    t->x.err = err;
    t->locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!t->locale) {
        ie_fail(err, IE_E_NOMEM, "chat template: no memory for a locale");
        free(t);
        return NULL;
    }
    locale_t old = uselocale(t->locale);
    parse(t, source, len);
    uselocale(old);
    t->x.err = NULL;
    if (t->x.status != IE_OK) {
        ie_template_free(t);
        return NULL;
    }
    return t;
}

void ie_template_free(ie_template *t) {
    if (!t) return;
    j_release(&t->x);
    freelocale(t->locale);
    free(t);
}

void ie_rendered_free(ie_rendered *r) {
    ie_buf_free(&r->text);
    free(r->runs);
    *r = (ie_rendered){0};
}

static void define_text(jx *x, const char *name, const char *text) {
    jstr *s = j_str(x, text ? text : "", text ? strlen(text) : 0, true);
    if (bad_utf8(s->s, s->len) < s->len) j_fail(x, IE_E_ARG, "chat template: %s is not UTF-8", name);
    j_dict_set(x, x->vars, jv_str(j_lit(x, name)), jv_str(s));
}

static void run(jx *x, const ie_template *t, const json_t *vars) {
    if (setjmp(x->jmp)) return;
    x->vars = j_dict(x);
    x->out = j_buf(x);
    define_text(x, "bos_token", x->env->bos_token);
    define_text(x, "eos_token", x->env->eos_token);
    j_dict_set(x, x->vars, jv_str(j_lit(x, "add_generation_prompt")), jv_bool(x->env->add_generation_prompt));
    if (vars && !json_is_object(vars)) j_fail(x, IE_E_ARG, "chat template: the variables must be a JSON object");
    if (vars) {
        const jdict *d = j_from_json(x, vars, 0).d;
        for (size_t i = 0; i < d->n; i++) j_dict_set(x, x->vars, d->e[i].key, d->e[i].val);
    }
    j_exec(x, t->body);
}

/* Copies the output and splits it into runs of one mark. */
static ie_status deliver(const jbuf *b, ie_rendered *out, ie_error *err) {
    if (!ie_buf_add(&out->text, b->used ? b->data : "", b->used, err)) return IE_E_NOMEM;
    size_t cap = 0;
    for (size_t i = 0, end; i < b->used; i = end) {
        bool trust = b->mark ? b->mark[i] : b->trust;
        end = b->used;
        if (b->mark) {
            const uint8_t *other = memchr(b->mark + i, trust ? 0 : 1, b->used - i);
            if (other) end = (size_t)(other - b->mark);
        }
        if (!ie_grow(&out->runs, &cap, out->n_runs + 1, sizeof *out->runs, "rendered text", err)) return IE_E_NOMEM;
        out->runs[out->n_runs++] = (ie_text_run){out->text.data + i, end - i, trust};
    }
    return IE_OK;
}

ie_status ie_template_render(const ie_template *t, const json_t *vars, const ie_template_env *env, ie_rendered *out,
                             ie_error *err) {
    *out = (ie_rendered){0};
    jx *x = ie_calloc(1, sizeof *x, "rendering of a chat template", err);
    if (!x) return IE_E_NOMEM;
    x->err = err;
    x->env = env;
    x->names = t->names;
    locale_t old = uselocale(t->locale);
    run(x, t, vars);
    uselocale(old);
    ie_status st = x->status;
    if (st == IE_OK) st = deliver(x->out, out, err);
    j_release(x);
    free(x);
    if (st != IE_OK) ie_rendered_free(out);
    return st;
}
