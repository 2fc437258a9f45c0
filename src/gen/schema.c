/* JSON Schema to rules: the queue of subschemas, and what is made of each. */
#include "schema.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_JOBS 20000u
#define MAX_MADE ((size_t)64 << 20)

void sc_fail(sc *s, ie_status code, const char *fmt, ...) {
    if (s->b->failed) return;
    char text[300];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    gr_fail(s->b, code, "schema, at %.100s: %s", s->path ? s->path : "#", text);
}

const json_t *sc_keep(sc *s, json_t *made) {
    if (!made || json_array_append_new(s->kept, made)) sc_fail(s, IE_E_NOMEM, "no memory");
    return made;
}

/* ---- shared rules --------------------------------------------------------------------------------------------------------- */

gr_elem sc_text(sc *s, const char *text) { return gr_lit(s->b, text, strlen(text)); }

/* A number as short as gives the same value again. */
static void shortest(double v, char out[40]) {
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(out, 40, "%.*g", digits, v);
        if (strtod(out, NULL) == v) return;
    }
}

gr_elem sc_json(sc *s, const json_t *v) {
    if (json_is_real(v)) {
        char out[40];
        shortest(json_real_value(v), out);
        return sc_text(s, out);
    }
    char *text = json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY);
    if (!text) return sc_fail(s, IE_E_NOMEM, "no memory for a value"), (gr_elem){0};
    gr_elem e = sc_text(s, text);
    free(text);
    return e;
}

/* Nothing, a space, or a new line with an indentation: enough for any way to lay JSON out, and bounded, so that a model cannot
 * run on white space. */
static void make_spaces(sc *s) {
    gr_elem none = sc_text(s, ""), space = sc_text(s, " "), line[2] = {sc_text(s, "\n"), gr_repeat(s->b, space, 0, 32)};
    gr_elem tabs[2] = {line[0], gr_repeat(s->b, sc_text(s, "\t"), 1, 12)};
    gr_elem all[4] = {none, space, gr_seq(s->b, line, 2), gr_seq(s->b, tabs, 2)};
    s->ws = gr_any_of(s->b, all, 4);
    s->sp = gr_any_of(s->b, all, 2);
    s->has_ws = true;
}

gr_elem sc_ws(sc *s) {
    if (!s->has_ws) make_spaces(s);
    return s->ws;
}

gr_elem sc_space(sc *s) {
    if (!s->has_ws) make_spaces(s);
    return s->sp;
}

/* The rules of any value; object and array are made as of an empty schema, which leads back to this rule. */
gr_elem sc_value(sc *s) {
    if (s->has_values) return s->value;
    s->has_values = true;
    uint32_t rule = gr_rule_new(s->b, NULL, 0);
    s->value = gr_call(rule);
    const json_t *none = sc_keep(s, json_object());
    gr_elem all[] = {sc_object(s, none), sc_array(s, none), sc_any_string(s), sc_number(s, none, false), sc_text(s, "true"), sc_text(s, "false"),
                     sc_text(s, "null")};
    s->any_object = all[0];
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) gr_alt_add(s->b, rule, &all[i], 1);
    return s->value;
}

/* ---- the queue ------------------------------------------------------------------------------------------------------------- */

/* The memo's key: the address for a schema of the document, the text for one made on the way, which may come again. */
static char *memo_key(sc *s, const json_t *schema, bool made) {
    if (!made) {
        char *key = malloc(32);
        if (key) snprintf(key, 32, "%p", (const void *)schema);
        return key;
    }
    char *key = json_dumps(schema, JSON_COMPACT | JSON_ENCODE_ANY);
    if (key && (s->made_bytes += strlen(key)) > MAX_MADE) sc_fail(s, IE_E_ARG, "too large: its allOf, anyOf and $ref combine to too many schemas");
    return key;
}

gr_elem sc_rule(sc *s, const json_t *schema, const char *step) {
    if (s->b->failed) return (gr_elem){0};
    if (json_is_true(schema) || (json_is_object(schema) && json_object_size(schema) == 0)) return sc_value(s);
    char *key = memo_key(s, schema, json_object_get(schema, SC_MADE) != NULL);
    if (!key) return sc_fail(s, IE_E_NOMEM, "no memory"), (gr_elem){0};
    json_t *have = json_object_get(s->memo, key);
    uint32_t rule = have ? (uint32_t)json_integer_value(have) : gr_rule_new(s->b, NULL, 0);
    if (!have && s->n_job >= MAX_JOBS) sc_fail(s, IE_E_ARG, "too large: more than %u subschemas", MAX_JOBS);
    if (!have && !s->b->failed) {
        size_t n = strlen(s->path ? s->path : "#") + strlen(step) + 2;
        char *path = malloc(n > 200 ? 200 : n);
        if (!path || !ie_grow(&s->job, &s->cap_job, s->n_job + 1, sizeof *s->job, "schema", s->b->err) ||
            json_object_set_new(s->memo, key, json_integer(rule))) {
            free(path);
            path = NULL;
            sc_fail(s, IE_E_NOMEM, "no memory");
        } else {
            snprintf(path, n > 200 ? 200 : n, "%s%s%s", s->path ? s->path : "#", *step ? "/" : "", step);
            sc_job *j = &s->job[s->n_job++];
            j->schema = schema, j->rule = rule, j->path = path;
        }
    }
    free(key);
    return gr_call(rule);
}

/* ---- one subschema ------------------------------------------------------------------------------------------------------------ */

static void add(sc *s, uint32_t rule, gr_elem e) { gr_alt_add(s->b, rule, &e, 1); }

/* An enum's values that the schema's type allows. What else could exclude some of them is refused. */
static void values(sc *s, const json_t *flat, uint32_t rule) {
    static const char *const others[] = {"minLength", "maxLength", "pattern", "format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
                                         "multipleOf", "items", "prefixItems", "minItems", "maxItems", "properties", "required", "additionalProperties",
                                         "minProperties", "maxProperties", "propertyNames", "patternProperties"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (json_object_get(flat, others[i])) sc_fail(s, IE_E_UNSUPPORTED, "keyword '%s' together with 'enum' or 'const' is not supported", others[i]);
    unsigned types = sc_types(s, flat);
    size_t i;
    json_t *v;
    json_array_foreach(json_object_get(flat, "enum"), i, v) {
        sc_type t = json_is_null(v) ? SC_NULL : json_is_boolean(v) ? SC_BOOL : json_is_integer(v) ? SC_INT : json_is_real(v) ? SC_NUM
                    : json_is_string(v) ? SC_STR : json_is_array(v) ? SC_ARR : SC_OBJ;
        if (t == SC_NUM && json_real_value(v) == floor(json_real_value(v))) t = SC_INT; /* 1.0 is an integer to JSON Schema */
        if (types >> t & 1) add(s, rule, sc_json(s, v));
    }
}

/* anyOf and oneOf: each branch together with what stands beside it. */
static void branches(sc *s, const json_t *flat, const char *key, uint32_t rule) {
    json_t *list = json_object_get(flat, key), *rest = json_copy((json_t *)(uintptr_t)flat), *v;
    if (!rest) return sc_fail(s, IE_E_NOMEM, "no memory");
    json_object_del(rest, key);
    json_object_del(rest, SC_MADE);
    sc_keep(s, rest);
    size_t i;
    json_array_foreach(list, i, v) {
        char step[40];
        snprintf(step, sizeof step, "%s/%zu", key, i);
        const json_t *branch = v;
        if (json_object_size(rest)) branch = sc_keep(s, json_pack("{s:b, s:[O, O]}", SC_MADE, 1, "allOf", rest, v));
        if (s->b->failed) return;
        add(s, rule, sc_rule(s, branch, step));
    }
}

static void check_one_of(sc *s, const json_t *list) {
    size_t n = json_array_size(list);
    if (n > 100) sc_fail(s, IE_E_UNSUPPORTED, "keyword 'oneOf' with more than 100 branches is not supported");
    for (size_t i = 0; i < n && !s->b->failed; i++)
        for (size_t k = 0; k < n && !s->b->failed; k++) {
            if (i == k) continue;
            const json_t *a = sc_flat(s, json_array_get(list, i)), *b = sc_flat(s, json_array_get(list, k));
            if (a && b && !sc_apart(s, a, b, 0))
                sc_fail(s, IE_E_UNSUPPORTED, "keyword 'oneOf': branches %zu and %zu may both be valid for a value; say anyOf, or tell them apart by a required const", i, k);
        }
}

static void convert(sc *s, const json_t *schema, uint32_t rule) {
    const json_t *flat = sc_flat(s, schema);
    if (!flat || s->b->failed) return;
    s->b->rule[rule].defined = true;
    if (json_is_false(flat)) return; /* no alternative: nothing fits */
    if (json_object_get(flat, "enum")) { /* branches can only take values away: refused rather than ignored */
        if (json_object_get(flat, "anyOf") || json_object_get(flat, "oneOf"))
            sc_fail(s, IE_E_UNSUPPORTED, "keyword 'enum' together with 'anyOf' or 'oneOf' is not supported");
        values(s, flat, rule);
        return;
    }
    if (json_object_get(flat, "anyOf")) {
        branches(s, flat, "anyOf", rule);
    } else if (json_object_get(flat, "oneOf")) {
        check_one_of(s, json_object_get(flat, "oneOf"));
        branches(s, flat, "oneOf", rule);
    } else {
        unsigned types = sc_types(s, flat);
        if (types == SC_ANY) {
            add(s, rule, sc_value(s));
        } else {
            if (types >> SC_OBJ & 1) add(s, rule, sc_object(s, flat));
            if (types >> SC_ARR & 1) add(s, rule, sc_array(s, flat));
            if (types >> SC_STR & 1) add(s, rule, sc_string(s, flat));
            if (types >> SC_NUM & 1) add(s, rule, sc_number(s, flat, false));
            else if (types >> SC_INT & 1) add(s, rule, sc_number(s, flat, true));
            if (types >> SC_BOOL & 1) add(s, rule, sc_text(s, "true")), add(s, rule, sc_text(s, "false"));
            if (types >> SC_NULL & 1) add(s, rule, sc_text(s, "null"));
        }
    }
}

static uint32_t whole(sc *s) {
    uint32_t root = gr_rule_new(s->b, NULL, 0);
    if (s->root) add(s, root, sc_rule(s, s->root, ""));
    else sc_value(s), add(s, root, s->any_object);
    for (s->next = 0; s->next < s->n_job && !s->b->failed; s->next++) {
        sc_job j = s->job[s->next];
        s->path = j.path;
        convert(s, j.schema, j.rule);
    }
    return root;
}

uint32_t gr_schema(gr_build *b, const char *text, size_t len) {
    sc s = {.b = b, .kept = json_array(), .memo = json_object()};
    json_error_t je;
    if (len > GR_MAX_TEXT) gr_fail(b, IE_E_ARG, "schema: %zu bytes, at most %u are allowed", len, GR_MAX_TEXT);
    if (!s.kept || !s.memo) gr_fail(b, IE_E_NOMEM, "schema: no memory");
    if (text && !b->failed) {
        s.root = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, &je);
        if (!s.root) gr_fail(b, IE_E_FORMAT, "schema: no JSON: %s (line %d)", je.text, je.line);
        else if (!json_is_object(s.root) && !json_is_boolean(s.root)) gr_fail(b, IE_E_FORMAT, "schema: it has to be a JSON object");
    }
    uint32_t root = b->failed ? 0 : whole(&s);
    for (size_t i = 0; i < s.n_job; i++) free(s.job[i].path);
    free(s.job);
    json_decref(s.kept);
    json_decref(s.memo);
    json_decref(s.root);
    return root;
}
