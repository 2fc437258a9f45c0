/* Keywords, references and conjunctions of JSON Schema. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schema.h"

#define MAX_DEPTH 64 /* of $ref and allOf inside each other */
#define MAX_WORK 20000000u

/* ---- keywords -------------------------------------------------------------------------------------------------------------- */

/* What each keyword is. Those that say nothing about values are skipped, as are names that JSON Schema does not know. */
typedef enum { K_SKIP, K_ANY, K_REFUSED, K_OBJ, K_ARR, K_STR, K_NUM } kw_kind;
static const struct {
    const char *name;
    kw_kind kind;
} keywords[] = {
    {"type", K_ANY}, {"enum", K_ANY}, {"const", K_ANY}, {"anyOf", K_ANY}, {"oneOf", K_ANY}, {"allOf", K_ANY}, {"$ref", K_ANY},
    {"properties", K_OBJ}, {"required", K_OBJ}, {"additionalProperties", K_OBJ}, {"unevaluatedProperties", K_OBJ},
    {"minProperties", K_OBJ}, {"maxProperties", K_OBJ}, {"propertyNames", K_OBJ}, {"patternProperties", K_OBJ},
    {"items", K_ARR}, {"prefixItems", K_ARR}, {"additionalItems", K_ARR}, {"unevaluatedItems", K_ARR}, {"minItems", K_ARR}, {"maxItems", K_ARR},
    {"uniqueItems", K_ARR},
    {"minLength", K_STR}, {"maxLength", K_STR}, {"pattern", K_STR}, {"format", K_ANY},
    {"minimum", K_NUM}, {"maximum", K_NUM}, {"exclusiveMinimum", K_NUM}, {"exclusiveMaximum", K_NUM}, {"multipleOf", K_NUM},
    {"not", K_REFUSED}, {"if", K_REFUSED}, {"dependencies", K_REFUSED}, {"dependentRequired", K_REFUSED}, {"dependentSchemas", K_REFUSED},
    {"contains", K_REFUSED}, {"$dynamicRef", K_REFUSED}, {"$recursiveRef", K_REFUSED},
};
#define N_KEYWORDS (sizeof keywords / sizeof *keywords)

static kw_kind kind_of(const char *name) {
    for (size_t i = 0; i < N_KEYWORDS; i++)
        if (!strcmp(keywords[i].name, name)) return keywords[i].kind;
    return K_SKIP;
}

/* Drops what says nothing and rewrites what has two forms: const is an enum of one, items as an array (draft 7) is prefixItems. */
static json_t *normal(sc *s, const json_t *schema) {
    json_t *out = json_object(), *v;
    const char *key;
    bool ok = out != NULL;
    bool tuple = json_is_array(json_object_get(schema, "items"));
    json_object_foreach((json_t *)(uintptr_t)schema, key, v) {
        kw_kind k = kind_of(key);
        if (k == K_REFUSED) sc_fail(s, IE_E_UNSUPPORTED, "keyword '%s' is not supported", key);
        if (k == K_SKIP || k == K_REFUSED || !ok) continue;
        if (!strcmp(key, "uniqueItems")) {
            if (json_is_true(v)) sc_fail(s, IE_E_UNSUPPORTED, "keyword 'uniqueItems' is not supported");
        } else if (!strcmp(key, "const")) {
            json_t *one = json_pack("[O]", v), *both = json_object_get(schema, "enum") ? json_object_get(schema, "enum") : NULL;
            if (both) sc_fail(s, IE_E_UNSUPPORTED, "keyword 'const' together with 'enum' is not supported");
            ok = json_object_set_new(out, "enum", one) == 0;
        } else if (!strcmp(key, "items") && tuple) {
            ok = json_object_set(out, "prefixItems", v) == 0;
        } else if (!strcmp(key, "additionalItems")) {
            if (tuple) ok = json_object_set(out, "items", v) == 0;
        } else if (!strcmp(key, "unevaluatedProperties") || !strcmp(key, "unevaluatedItems")) {
            if (json_is_object(v) && json_object_size(v)) sc_fail(s, IE_E_UNSUPPORTED, "keyword '%s' other than true or false is not supported", key);
            if (json_is_false(v)) ok = json_object_set(out, key, v) == 0;
        } else {
            ok = json_object_set(out, key, v) == 0;
        }
    }
    if (!ok) sc_fail(s, IE_E_NOMEM, "no memory");
    return out;
}

static const struct {
    const char *name, *wants;
} forms[] = {{"properties", "an object"},  {"required", "an array of strings"}, {"enum", "an array"},
             {"anyOf", "an array"},        {"oneOf", "an array"},               {"allOf", "an array"},
             {"prefixItems", "an array"},  {"patternProperties", "an object"},  {"pattern", "a string"},
             {"format", "a string"},       {"$ref", "a string"}};

static void check_forms(sc *s, const json_t *schema) {
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        const json_t *v = json_object_get(schema, forms[i].name);
        const char *w = forms[i].wants;
        if (!v || (w[3] == 'o' ? json_is_object(v) : w[2] == 's' ? json_is_string(v) : json_is_array(v))) continue;
        sc_fail(s, IE_E_FORMAT, "keyword '%s' has to be %s", forms[i].name, w);
    }
    size_t i;
    const json_t *v;
    json_array_foreach(json_object_get(schema, "required"), i, v)
        if (!json_is_string(v)) sc_fail(s, IE_E_FORMAT, "keyword 'required' has to be an array of strings");
    static const char *const numbers[] = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"};
    for (i = 0; i < 5; i++)
        if ((v = json_object_get(schema, numbers[i])) && !json_is_number(v)) sc_fail(s, IE_E_FORMAT, "keyword '%s' has to be a number", numbers[i]);
    static const char *const schemas[] = {"additionalProperties", "items", "propertyNames"};
    for (i = 0; i < 3; i++)
        if ((v = json_object_get(schema, schemas[i])) && !json_is_object(v) && !json_is_boolean(v))
            sc_fail(s, IE_E_FORMAT, "keyword '%s' has to be a schema", schemas[i]);
}

bool sc_integer(sc *s, const json_t *flat, const char *key, uint64_t none, uint64_t *out) {
    const json_t *v = json_object_get(flat, key);
    *out = none;
    if (!v) return true;
    double d = json_number_value(v);
    if (!json_is_number(v) || !(d >= 0) || d != floor(d)) {
        sc_fail(s, IE_E_FORMAT, "keyword '%s' has to be a whole number from 0", key);
        return false;
    }
    *out = d > 1e9 ? UINT64_C(1000000000) : (uint64_t)d;
    return true;
}

/* Bounds the work that references into each other can cause. */
static bool charge(sc *s, size_t n) {
    s->work += n;
    if (s->work > MAX_WORK) sc_fail(s, IE_E_ARG, "too large: its $ref and allOf combine to too much");
    return !s->b->failed;
}

/* ---- types ------------------------------------------------------------------------------------------------------------------ */

static unsigned type_bit(sc *s, const json_t *v) {
    static const char *const names[] = {"null", "boolean", "integer", "number", "string", "array", "object"};
    for (unsigned i = 0; i < SC_TYPES && json_is_string(v); i++)
        if (!strcmp(json_string_value(v), names[i])) return i == SC_NUM ? 1u << SC_NUM | 1u << SC_INT : 1u << i;
    sc_fail(s, IE_E_FORMAT, "keyword 'type' has to be null, boolean, integer, number, string, array, object, or an array of these");
    return 0;
}

/* Where no type is given, the keywords say what was meant. */
unsigned sc_types(sc *s, const json_t *flat) {
    const json_t *type = json_object_get(flat, "type"), *v;
    unsigned bits = 0;
    size_t i;
    if (json_is_array(type)) {
        json_array_foreach(type, i, v) bits |= type_bit(s, v);
        return bits;
    }
    if (type) return type_bit(s, type);
    for (i = 0; i < N_KEYWORDS; i++) {
        if (!json_object_get(flat, keywords[i].name)) continue;
        if (keywords[i].kind == K_OBJ) bits |= 1u << SC_OBJ;
        if (keywords[i].kind == K_ARR) bits |= 1u << SC_ARR;
        if (keywords[i].kind == K_STR) bits |= 1u << SC_STR;
        if (keywords[i].kind == K_NUM) bits |= 1u << SC_NUM | 1u << SC_INT;
        if (!strcmp(keywords[i].name, "format")) bits |= 1u << SC_STR;
    }
    return bits && !json_object_get(flat, "enum") ? bits : SC_ANY;
}

static json_t *type_list(unsigned bits) {
    static const char *const names[] = {"null", "boolean", "integer", "number", "string", "array", "object"};
    json_t *out = json_array();
    for (unsigned i = 0; i < SC_TYPES; i++)
        if (bits >> i & 1 && !(i == SC_INT && bits >> SC_NUM & 1)) json_array_append_new(out, json_string(names[i]));
    return out;
}

/* ---- references ---------------------------------------------------------------------------------------------------------------- */

static int hex_value(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1; }

/* One step of a JSON pointer (RFC 6901, in a URI fragment) into out; returns what follows. */
static const char *pointer_step(const char *p, char *out, size_t size) {
    size_t n = 0;
    for (; *p && *p != '/'; p++) {
        char c = *p;
        if (c == '%' && hex_value(p[1]) >= 0 && hex_value(p[2]) >= 0) c = (char)(hex_value(p[1]) << 4 | hex_value(p[2])), p += 2;
        if (c == '~' && (p[1] == '0' || p[1] == '1')) c = *++p == '0' ? '~' : '/';
        if (n + 1 < size) out[n++] = c;
    }
    out[n] = 0;
    return p;
}

static const json_t *resolve(sc *s, const char *ref) {
    const json_t *at = s->root;
    char step[256];
    if (*ref != '#' || (ref[1] && ref[1] != '/')) {
        sc_fail(s, IE_E_UNSUPPORTED, "keyword '$ref' is '%.60s'; only references into the schema itself (#/...) are supported", ref);
        return NULL;
    }
    for (const char *p = ref + 1; *p == '/' && at;) {
        p = pointer_step(p + 1, step, sizeof step);
        if (json_is_array(at)) {
            char *end;
            unsigned long i = strtoul(step, &end, 10);
            at = *step >= '0' && *step <= '9' && !*end ? json_array_get(at, i) : NULL;
        } else {
            at = json_object_get(at, step);
        }
    }
    if (!at || (!json_is_object(at) && !json_is_boolean(at))) {
        sc_fail(s, IE_E_FORMAT, "keyword '$ref' is '%.60s': there is no such schema", ref);
        return NULL;
    }
    return at;
}

/* ---- conjunction ------------------------------------------------------------------------------------------------------------------ */

static json_t *both(const json_t *a, const json_t *b) {
    if (!a || json_is_true(a)) return json_incref((json_t *)(uintptr_t)b);
    if (!b || json_is_true(b)) return json_incref((json_t *)(uintptr_t)a);
    if (json_is_false(a) || json_is_false(b)) return json_false();
    if (json_equal(a, b)) return json_incref((json_t *)(uintptr_t)a);
    return json_pack("{s:b, s:[O, O]}", SC_MADE, 1, "allOf", a, b);
}

/* The schema of a property: what is declared, else what goes for others. */
static const json_t *property(const json_t *o, const char *name) {
    const json_t *p = json_object_get(json_object_get(o, "properties"), name);
    return p ? p : json_object_get(o, "additionalProperties");
}

static void merge_properties(const json_t *a, const json_t *b, json_t *out) {
    const json_t *src[2] = {json_object_get(a, "properties"), json_object_get(b, "properties")};
    json_t *props = json_object(), *v;
    const char *name;
    for (int i = 0; i < 2; i++)
        json_object_foreach((json_t *)(uintptr_t)src[i], name, v) {
            (void)v;
            if (json_object_get(props, name)) continue;
            json_t *m = both(property(a, name), property(b, name));
            json_object_set_new(props, name, m);
        }
    if (src[0] || src[1]) json_object_set_new(out, "properties", props);
    else json_decref(props);
    const json_t *x = json_object_get(a, "additionalProperties"), *y = json_object_get(b, "additionalProperties");
    if (x || y) json_object_set_new(out, "additionalProperties", both(x, y));
}

static const json_t *element(const json_t *o, size_t i) {
    const json_t *p = json_array_get(json_object_get(o, "prefixItems"), i);
    return p ? p : json_object_get(o, "items");
}

static void merge_items(const json_t *a, const json_t *b, json_t *out) {
    size_t n = json_array_size(json_object_get(a, "prefixItems")), m = json_array_size(json_object_get(b, "prefixItems"));
    json_t *prefix = json_array();
    for (size_t i = 0; i < n || i < m; i++) {
        json_t *e = both(element(a, i), element(b, i));
        json_array_append_new(prefix, e ? e : json_true());
    }
    if (n || m) json_object_set_new(out, "prefixItems", prefix);
    else json_decref(prefix);
    const json_t *x = json_object_get(a, "items"), *y = json_object_get(b, "items");
    if (x || y) json_object_set_new(out, "items", both(x, y));
}

static json_t *common(const json_t *a, const json_t *b) { /* values in both */
    json_t *out = json_array(), *v, *w;
    size_t i, k;
    json_array_foreach(a, i, v) {
        json_array_foreach(b, k, w) {
            bool same = json_is_number(v) && json_is_number(w) ? json_number_value(v) == json_number_value(w) : json_equal(v, w);
            if (!same) continue;
            json_array_append(out, v);
            break;
        }
    }
    return out;
}

static json_t *pairs(const json_t *a, const json_t *b) { /* each branch of one with each of the other */
    json_t *out = json_array(), *v, *w;
    size_t i, k;
    json_array_foreach(a, i, v) {
        json_array_foreach(b, k, w) {
            json_array_append_new(out, json_pack("{s:b, s:[O, O]}", SC_MADE, 1, "allOf", v, w));
        }
    }
    return out;
}

static json_t *either(const json_t *a, const json_t *b) { /* names in one or the other */
    json_t *out = json_copy((json_t *)(uintptr_t)a), *v, *w;
    size_t i, k;
    json_array_foreach(b, i, v) {
        bool have = false;
        json_array_foreach(out, k, w) { have = have || json_equal(v, w); }
        if (!have) json_array_append(out, v);
    }
    return out;
}

/* Keyword key of both schemas as one value; a new reference, NULL where it cannot be expressed. */
static json_t *merge_value(sc *s, const char *key, json_t *x, json_t *y) {
    static const char *const larger[] = {"minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"};
    static const char *const smaller[] = {"maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"};
    if (json_equal(x, y)) return json_incref(x);
    for (int i = 0; i < 5; i++) {
        if (!strcmp(key, larger[i])) return json_incref(json_number_value(x) > json_number_value(y) ? x : y);
        if (!strcmp(key, smaller[i])) return json_incref(json_number_value(x) < json_number_value(y) ? x : y);
    }
    if (!strcmp(key, "enum")) return common(x, y);
    if (!strcmp(key, "required")) return either(x, y);
    if (!strcmp(key, "anyOf") && json_array_size(x) * json_array_size(y) <= 256) return pairs(x, y);
    if (!strcmp(key, "propertyNames")) return both(x, y);
    sc_fail(s, IE_E_UNSUPPORTED, "keyword '%s' differs between parts of an allOf (or $ref and what stands beside it), which is not supported", key);
    return NULL;
}

static json_t *merge(sc *s, const json_t *a, const json_t *b) {
    json_t *out = json_object(), *v;
    const char *key;
    if (json_is_false(a) || json_is_false(b)) return json_decref(out), json_false();
    size_t n = json_object_size(json_object_get(a, "properties")) + json_object_size(json_object_get(b, "properties"));
    n += json_array_size(json_object_get(a, "required")) * json_array_size(json_object_get(b, "required"));
    n += json_array_size(json_object_get(a, "enum")) * json_array_size(json_object_get(b, "enum"));
    if (!charge(s, n + 50)) return out;
    bool typed = json_object_get(a, "type") || json_object_get(b, "type");
    for (int side = 0; side < 2; side++)
        json_object_foreach((json_t *)(uintptr_t)(side ? b : a), key, v) {
            json_t *other = json_object_get(side ? a : b, key);
            if (!strcmp(key, "type") || !strcmp(key, "properties") || !strcmp(key, "additionalProperties") || !strcmp(key, "prefixItems") ||
                !strcmp(key, "items") || !strcmp(key, SC_MADE) || (side && other))
                continue;
            json_object_set_new(out, key, other ? merge_value(s, key, v, other) : json_incref(v));
            if (s->b->failed) return out;
        }
    merge_properties(a, b, out);
    merge_items(a, b, out);
    if (typed) {
        unsigned x = json_object_get(a, "type") ? sc_types(s, a) : SC_ANY, y = json_object_get(b, "type") ? sc_types(s, b) : SC_ANY;
        json_object_set_new(out, "type", type_list(x & y));
    }
    return out;
}

static json_t *flat_of(sc *s, const json_t *schema, int depth);

static json_t *and(sc *s, json_t *have, const json_t *more, int depth) { /* takes have */
    json_t *flat = flat_of(s, more, depth + 1);
    json_t *out = s->b->failed || !flat ? NULL : have ? merge(s, have, flat) : json_incref(flat);
    json_decref(have);
    json_decref(flat);
    return out;
}

/* A new reference, NULL on failure. Depth is bounded, and so is the recursion. */
static json_t *flat_of(sc *s, const json_t *schema, int depth) {
    if (s->b->failed) return NULL;
    if (depth > MAX_DEPTH) {
        sc_fail(s, IE_E_UNSUPPORTED, "keywords '$ref' and 'allOf' lead into each other more than %d deep", MAX_DEPTH);
        return NULL;
    }
    if (json_is_true(schema)) return json_object();
    if (json_is_false(schema)) return json_false();
    if (!json_is_object(schema)) {
        sc_fail(s, IE_E_FORMAT, "a schema has to be an object, true or false");
        return NULL;
    }
    if (!charge(s, json_object_size(schema) + 10)) return NULL;
    json_t *own = normal(s, schema), *v;
    if (!s->b->failed) check_forms(s, own);
    if (s->b->failed || !own) return json_decref(own), NULL;
    const char *ref = json_string_value(json_object_get(own, "$ref"));
    json_t *all = json_incref(json_object_get(own, "allOf"));
    const json_t *target = ref ? resolve(s, ref) : NULL;
    json_object_del(own, "$ref");
    json_object_del(own, "allOf");
    size_t i;
    json_t *out = json_object_size(own) || !(target || json_array_size(all)) ? own : (json_decref(own), NULL);
    if (target) out = and(s, out, target, depth);
    json_array_foreach(all, i, v) if (!s->b->failed) out = and(s, out, v, depth);
    json_decref(all);
    if (s->b->failed) return json_decref(out), NULL;
    return out;
}

const json_t *sc_flat(sc *s, const json_t *schema) {
    json_t *flat = flat_of(s, schema, 0);
    return flat && !s->b->failed ? sc_keep(s, flat) : (json_decref(flat), NULL);
}

/* ---- telling branches apart ---------------------------------------------------------------------------------------------------------- */

static bool requires(const json_t *o, const char *name) {
    size_t i;
    const json_t *v;
    json_array_foreach(json_object_get(o, "required"), i, v) if (!strcmp(json_string_value(v), name)) return true;
    return false;
}

/* Every value of a's enum is missing from b's, or of a type that b does not have. */
static bool values_apart(sc *s, const json_t *a, const json_t *b) {
    const json_t *x = json_object_get(a, "enum"), *y = json_object_get(b, "enum");
    if (!x || !y || !charge(s, json_array_size(x) * json_array_size(y))) return false;
    json_t *shared = common(x, y);
    bool apart = json_array_size(shared) == 0;
    json_decref(shared);
    return apart;
}

static bool objects_apart(sc *s, const json_t *a, const json_t *b, int depth) {
    size_t i;
    const json_t *v;
    bool extra = !json_object_get(a, "properties") && !json_is_false(json_object_get(a, "additionalProperties"));
    extra = extra || (json_object_get(a, "additionalProperties") && !json_is_false(json_object_get(a, "additionalProperties")));
    extra = extra || json_object_get(a, "patternProperties");
    if (!charge(s, json_array_size(json_object_get(a, "required")) * (1 + json_array_size(json_object_get(b, "required"))))) return false;
    json_array_foreach(json_object_get(b, "required"), i, v) /* b wants what a never writes */
        if (!extra && !requires(a, json_string_value(v)) && !json_object_get(json_object_get(a, "properties"), json_string_value(v))) return true;
    json_array_foreach(json_object_get(a, "required"), i, v) {
        const char *name = json_string_value(v);
        const json_t *x = property(a, name), *y = property(b, name);
        if (json_is_false(y)) return true; /* a writes what b forbids */
        if (!x || !y || json_is_true(x) || json_is_true(y) || depth > 4) continue;
        x = sc_flat(s, x);
        y = x ? sc_flat(s, y) : NULL;
        if (x && y && sc_apart(s, x, y, depth + 1)) return true;
    }
    return false;
}

bool sc_apart(sc *s, const json_t *a, const json_t *b, int depth) {
    if (json_is_false(a) || json_is_false(b)) return true;
    if (values_apart(s, a, b)) return true;
    unsigned x = sc_types(s, a), y = json_object_get(b, "type") ? sc_types(s, b) : SC_ANY;
    if ((x & y) == 0) return true;
    return x == 1u << SC_OBJ && !json_object_get(a, "anyOf") && !json_object_get(a, "oneOf") && objects_apart(s, a, b, depth);
}
