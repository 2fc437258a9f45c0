/* Objects and arrays. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schema.h"

/* ---- objects ---------------------------------------------------------------------------------------------------------------- */

/* What an object may hold: declared properties in their order, then others. */
typedef struct {
    gr_elem pair; /* "name": value */
    bool required, never;
} member;

typedef struct {
    sc *s;
    member *m;
    size_t n;
    bool others;     /* further properties may follow */
    gr_elem other;   /* one of them: key and value */
    uint64_t min, max; /* members */
} object;

static gr_elem pair_of(sc *s, gr_elem key, gr_elem value) {
    gr_elem e[] = {key, sc_text(s, ":"), sc_space(s), value};
    return gr_seq(s->b, e, 4);
}

static void put_member(object *o, const char *name, size_t len, const json_t *schema, bool required) {
    sc *s = o->s;
    char step[80];
    json_t *text = json_stringn(name, len);
    snprintf(step, sizeof step, "properties/%.60s", name);
    member *m = &o->m[o->n];
    m->required = required;
    m->never = json_is_false(schema);
    if (!m->never) m->pair = pair_of(s, sc_json(s, text), sc_rule(s, schema, step));
    json_decref(text);
    o->n++;
}

/* Declared properties, then required ones that were not declared. */
static bool members(object *o, const json_t *flat, json_t *declared) {
    sc *s = o->s;
    json_t *props = json_object_get(flat, "properties"), *required = json_object_get(flat, "required"), *v, *wanted = json_object();
    const json_t *rest = json_object_get(flat, "additionalProperties");
    const char *name;
    size_t i;
    json_array_foreach(required, i, v) {
        if (strlen(json_string_value(v)) != json_string_length(v)) sc_fail(s, IE_E_UNSUPPORTED, "a property name with a NUL character is not supported");
        json_object_set(wanted, json_string_value(v), v);
    }
    size_t room = json_object_size(props) + json_object_size(wanted);
    o->m = ie_calloc(room + 1, sizeof *o->m, "schema", s->b->err);
    if (!o->m) s->b->failed = true;
    if (!s->b->failed) {
        json_object_foreach(props, name, v) {
            if (s->b->failed) break;
            put_member(o, name, strlen(name), v, json_object_get(wanted, name) != NULL);
            json_object_set_new(declared, name, json_true());
        }
        json_object_foreach(wanted, name, v) {
            if (s->b->failed || json_object_get(declared, name)) continue;
            put_member(o, name, strlen(name), rest ? rest : json_true(), true);
            json_object_set_new(declared, name, json_true());
        }
    }
    json_decref(wanted);
    return !s->b->failed;
}

/* Which further properties there may be. */
static void others(object *o, const json_t *flat, json_t *declared) {
    sc *s = o->s;
    const json_t *rest = json_object_get(flat, "additionalProperties"), *names = json_object_get(flat, "propertyNames"), *v;
    json_t *patterns = json_object_get(flat, "patternProperties");
    const char *re = NULL;
    gr_elem key = {0};
    if (names && !json_is_true(names) && json_object_size(declared))
        sc_fail(s, IE_E_UNSUPPORTED, "keyword 'propertyNames' together with 'properties' or 'required' is not supported");
    if (json_object_size(patterns)) {
        if (json_object_size(patterns) > 1 || json_object_size(declared) || names)
            sc_fail(s, IE_E_UNSUPPORTED, "keyword 'patternProperties' with several patterns, or with 'properties', 'required' or 'propertyNames', is not supported");
        if (s->b->failed) return;
        json_object_foreach(patterns, re, v) rest = v;
        re = json_object_iter_key(json_object_iter(patterns));
        key = sc_regex(s, re, strlen(re), 0, GR_FOREVER);
    } else if (names && !json_is_true(names)) {
        const json_t *flat_names = sc_flat(s, names);
        if (!flat_names || json_object_get(flat_names, "anyOf") || json_object_get(flat_names, "oneOf"))
            sc_fail(s, IE_E_UNSUPPORTED, "keyword 'propertyNames' with 'anyOf' or 'oneOf' is not supported");
        if (s->b->failed) return;
        json_t *text = json_pack("{s:b, s:[O, {s:s}]}", SC_MADE, 1, "allOf", flat_names, "type", "string");
        key = sc_rule(s, sc_keep(s, text), "propertyNames");
    } else if (json_object_size(declared)) {
        key = sc_other_key(s, declared);
    } else {
        key = sc_any_string(s);
    }
    bool none = json_is_false(rest) || (!re && json_is_false(json_object_get(flat, "unevaluatedProperties")) && !rest);
    o->others = !none && (rest || !json_object_size(declared) || o->min > o->n); /* else those that nobody declared are left out */
    if (!o->others || s->b->failed) return;
    o->other = pair_of(s, key, rest ? sc_rule(s, rest, "additionalProperties") : sc_value(s));
}

/* Rules "what may follow when the members before i are settled and c have been written", from the last to the first. c stops
 * counting where it makes no difference any more. */
static gr_elem chain(object *o, uint64_t cap) {
    sc *s = o->s;
    size_t width = (size_t)cap + 1;
    gr_elem *next = ie_calloc(width, sizeof *next, "schema", s->b->err), *now = ie_calloc(width, sizeof *now, "schema", s->b->err);
    gr_elem comma[2] = {sc_text(s, ","), sc_ws(s)};
    gr_elem sep = gr_seq(s->b, comma, 2), none = sc_text(s, "");
    if (!next || !now) s->b->failed = true;
    for (size_t c = width; c-- > 0 && !s->b->failed;) { /* behind the declared ones */
        uint32_t rule = gr_rule_new(s->b, NULL, 0);
        size_t up = c + 1 < width ? c + 1 : c;
        next[c] = gr_call(rule);
        s->b->rule[rule].defined = true;
        if (c >= o->min) gr_alt_add(s->b, rule, &none, 1);
        gr_elem e[3] = {c ? sep : none, o->other, next[up]};
        if (o->others && c < o->max) gr_alt_add(s->b, rule, e, 3);
    }
    for (size_t i = o->n; i-- > 0 && !s->b->failed;) {
        const member *m = &o->m[i];
        for (size_t c = width; c-- > 0 && !s->b->failed;) {
            uint32_t rule = gr_rule_new(s->b, NULL, 0);
            size_t up = c + 1 < width ? c + 1 : c;
            now[c] = gr_call(rule);
            if (s->b->failed) break;
            s->b->rule[rule].defined = true;
            gr_elem e[3] = {c ? sep : none, m->pair, next[up]};
            if (!m->never && c < o->max) gr_alt_add(s->b, rule, e, 3);
            if (!m->required) gr_alt_add(s->b, rule, &next[c], 1);
        }
        gr_elem *t = next;
        next = now, now = t;
    }
    gr_elem out = s->b->failed ? none : next[0];
    free(next);
    free(now);
    return out;
}

gr_elem sc_object(sc *s, const json_t *flat) {
    object o = {.s = s};
    json_t *declared = json_object();
    bool ok = sc_integer(s, flat, "minProperties", 0, &o.min) && sc_integer(s, flat, "maxProperties", GR_FOREVER, &o.max) && members(&o, flat, declared);
    if (ok) others(&o, flat, declared);
    json_decref(declared);
    uint64_t required = 0;
    for (size_t i = 0; ok && i < o.n; i++) required += o.m[i].required;
    /* Names that are free to choose could come twice, and would count once. */
    if (o.others && o.min > required + 1 && o.min <= o.n) o.others = false;
    if (o.others && o.min > required + 1) sc_fail(s, IE_E_UNSUPPORTED, "keyword 'minProperties' above 1 that undeclared properties would have to reach is not supported");
    if (required >= o.min) o.min = 0;
    if (!o.others && o.max >= o.n) o.max = GR_FOREVER;
    uint64_t cap = o.max != GR_FOREVER ? o.max : o.min > 1 ? o.min : 1;
    if (cap > o.n + 1000) cap = o.max = o.n + 1000; /* no more than that many undeclared ones then */
    gr_elem out = {0};
    if (!s->b->failed) {
        gr_elem all[5] = {sc_text(s, "{"), sc_ws(s), chain(&o, cap), sc_ws(s), sc_text(s, "}")};
        out = gr_seq(s->b, all, 5);
    }
    free(o.m);
    return out;
}

/* ---- arrays ------------------------------------------------------------------------------------------------------------------- */

gr_elem sc_array(sc *s, const json_t *flat) {
    uint64_t min, max;
    const json_t *prefix = json_object_get(flat, "prefixItems"), *items = json_object_get(flat, "items");
    size_t n = json_array_size(prefix);
    if (!sc_integer(s, flat, "minItems", 0, &min) || !sc_integer(s, flat, "maxItems", GR_FOREVER, &max)) return (gr_elem){0};
    gr_elem none = sc_text(s, ""), comma[2] = {sc_text(s, ","), sc_ws(s)}, sep = gr_seq(s->b, comma, 2);
    /* Further elements are left out where some were described and these were not. */
    bool more = !json_is_false(items) && (items || (n == 0 && !json_is_false(json_object_get(flat, "unevaluatedItems"))) || min > n);
    gr_elem value = !more ? none : items ? sc_rule(s, items, "items") : sc_value(s);
    uint32_t tail = gr_rule_new(s->b, NULL, 0); /* behind the described ones */
    if (s->b->failed) return (gr_elem){0};
    s->b->rule[tail].defined = true;
    uint64_t lo = min > n ? min - n : 0, hi = max == GR_FOREVER ? max : max > n ? max - n : 0;
    gr_elem next_two[2] = {sep, value}, next = gr_seq(s->b, next_two, 2);
    if (lo == 0) gr_alt_add(s->b, tail, &none, 1);
    if (more && hi > 0 && lo <= hi && n > 0) {
        gr_elem some = gr_repeat(s->b, next, lo ? lo : 1, hi);
        gr_alt_add(s->b, tail, &some, 1);
    } else if (more && hi > 0 && lo <= hi) {
        gr_elem some[2] = {value, gr_repeat(s->b, next, lo ? lo - 1 : 0, hi == GR_FOREVER ? hi : hi - 1)};
        gr_alt_add(s->b, tail, some, 2);
    }
    gr_elem rest = gr_call(tail);
    for (size_t i = n; i-- > 0 && !s->b->failed;) {
        char step[40];
        snprintf(step, sizeof step, "prefixItems/%zu", i);
        uint32_t rule = gr_rule_new(s->b, NULL, 0);
        gr_elem e[3] = {i ? sep : none, sc_rule(s, json_array_get(prefix, i), step), rest};
        if (s->b->failed) break;
        s->b->rule[rule].defined = true;
        if (i >= min) gr_alt_add(s->b, rule, &none, 1);
        if (i < max) gr_alt_add(s->b, rule, e, 3);
        rest = gr_call(rule);
    }
    gr_elem all[5] = {sc_text(s, "["), sc_ws(s), rest, sc_ws(s), sc_text(s, "]")};
    return gr_seq(s->b, all, 5);
}
