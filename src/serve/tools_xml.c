/* Calls as tags: <tool_call><function=NAME><parameter=KEY>value</parameter>...</function></tool_call> (Qwen3-Coder, Qwen3.5).
 *
 * Values are bare text: what a value means is for the parameter's schema to say. A line feed behind the opening and before the closing tag
 * is no part of the value. */
#include <stdlib.h>
#include <string.h>

#include "serve.h"
#include "tools.h"

#define FUNCTION "<function="
#define FUNCTION_END "</function>"
#define PARAMETER "<parameter="
#define PARAMETER_END "</parameter>"

enum { BEFORE, BETWEEN, VALUE, BEHIND }; /* phases: before the function's tag, between parameters, in a value, behind all */

/* ---- what a schema says of a value ------------------------------------------------------------------------------------------ */

enum { T_STRING = 1, T_NUMBER = 2, T_INTEGER = 4, T_BOOLEAN = 8, T_NULL = 16, T_ARRAY = 32, T_OBJECT = 64, T_ALL = 127 };

static unsigned type_word(const char *s) {
    static const struct {
        const char *name;
        unsigned bit;
    } names[] = {{"string", T_STRING}, {"number", T_NUMBER | T_INTEGER}, {"integer", T_INTEGER}, {"boolean", T_BOOLEAN},
                 {"null", T_NULL}, {"array", T_ARRAY}, {"object", T_OBJECT}};
    for (size_t i = 0; s && i < sizeof names / sizeof *names; i++)
        if (!strcmp(names[i].name, s)) return names[i].bit;
    return T_ALL;
}

static unsigned type_of(const json_t *v) {
    static const unsigned bits[] = {[JSON_OBJECT] = T_OBJECT, [JSON_ARRAY] = T_ARRAY, [JSON_STRING] = T_STRING, [JSON_INTEGER] = T_INTEGER,
                                    [JSON_REAL] = T_NUMBER, [JSON_TRUE] = T_BOOLEAN, [JSON_FALSE] = T_BOOLEAN, [JSON_NULL] = T_NULL};
    return bits[json_typeof(v)];
}

/* Types that a value may have, as far as "type", "enum", "const" and alternatives tell; all where nothing does. */
static unsigned types(const json_t *schema, int depth) {
    const json_t *type = json_object_get(schema, "type"), *list = json_object_get(schema, "enum"), *only = json_object_get(schema, "const"), *v;
    size_t i;
    unsigned bits = 0;
    if (json_is_string(type)) return type_word(json_string_value(type));
    json_array_foreach(type, i, v) bits |= type_word(json_string_value(v));
    if (bits) return bits;
    if (only) return type_of(only);
    json_array_foreach(list, i, v) bits |= type_of(v);
    if (bits) return bits;
    const json_t *any = json_object_get(schema, "anyOf") ? json_object_get(schema, "anyOf") : json_object_get(schema, "oneOf");
    json_array_foreach(any, i, v) bits |= depth < 8 ? types(v, depth + 1) : T_ALL;
    return bits ? bits : T_ALL;
}

static const json_t *property(const json_t *tools, const ie_buf *function, const char *key) {
    const json_t *f = tool_named(tools, function->data ? function->data : "", function->len);
    return json_object_get(json_object_get(json_object_get(f, "parameters"), "properties"), key);
}

/* ---- reading ------------------------------------------------------------------------------------------------------------------ */

/* A tag's name up to '>': 1 read (c->at is behind it), 0 it goes on, -1 it is none. */
static int tag_name(tool_call *c, const char *s, size_t n, const char *tag, ie_buf *out) {
    size_t from = c->at + strlen(tag), to = from;
    while (to < n && s[to] != '>' && s[to] != '<' && s[to] != '\n') to++;
    if (to == n) return to - from > 1024 ? -1 : 0;
    if (s[to] != '>' || to == from) return -1;
    c->at = to + 1;
    return ie_buf_add(out, s + from, to - from, NULL) ? 1 : -1;
}

/* The key of a parameter whose value begins at c->at. */
static bool begin_value(tool_call *c, const ie_buf *key) {
    const json_t *schema = property(c->tools, &c->name, key->data);
    unsigned may = types(schema, 0);
    c->schema = schema;
    c->raw = may == T_STRING;
    c->phase = VALUE;
    c->from = c->mark = c->at;
    c->depth = 0; /* 1: a string's quote was written */
    return ie_buf_add(&c->args, c->args.len > 1 ? ", \"" : "\"", c->args.len > 1 ? 3 : 1, NULL) &&
           serve_json_escape(key->data, key->len, &c->args, NULL) && ie_buf_add(&c->args, "\": ", 3, NULL);
}

/* More of a string's text, without what may be the beginning of its end. s[c->mark ..] is not written yet. */
static bool more_text(tool_call *c, const char *s, size_t to) {
    if (c->depth == 0) {
        if (to == c->from) return true;
        if (s[c->from] == '\n') c->mark = c->from + 1;
        c->depth = 1;
        if (!ie_buf_add(&c->args, "\"", 1, NULL)) return false;
    }
    if (to <= c->mark) return true;
    bool ok = serve_json_escape(s + c->mark, to - c->mark, &c->args, NULL);
    c->mark = to;
    return ok;
}

/* The whole value s[from .. to): as JSON where the schema allows what it is, else as a string. */
static bool whole_value(tool_call *c, const char *s, size_t from, size_t to) {
    size_t a = tool_blank(s, to, from), b = to;
    while (b > a && tool_blank(s, b, b - 1) == b) b--;
    unsigned may = types(c->schema, 0);
    json_t *v = json_loadb(s + a, b - a, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    bool fits = v && (type_of(v) & may) && !json_is_string(v); /* a text keeps its quotes */
    json_decref(v);
    if (fits) return ie_buf_add(&c->args, s + a, b - a, NULL);
    return ie_buf_add(&c->args, "\"", 1, NULL) && serve_json_escape(s + from, to - from, &c->args, NULL) && ie_buf_add(&c->args, "\"", 1, NULL);
}

/* 1: the value has ended, 0: it goes on, -1: no memory. */
static int value(tool_call *c, const char *s, size_t n) {
    const char *close = memmem(s + c->at, n - c->at, PARAMETER_END, strlen(PARAMETER_END));
    if (!close) {
        size_t k = tool_tail(s + c->from, n - c->from, "\n" PARAMETER_END), k2 = tool_tail(s + c->from, n - c->from, PARAMETER_END);
        c->at = n - k2;
        return !c->raw || more_text(c, s, n - (k > k2 ? k : k2)) ? 0 : -1;
    }
    size_t to = (size_t)(close - s), end = to;
    if (end > c->from && s[end - 1] == '\n' && end - 1 >= c->mark) end--;
    bool ok;
    if (c->raw) {
        if (c->depth == 0 && end == c->from) ok = ie_buf_add(&c->args, "\"\"", 2, NULL);
        else ok = more_text(c, s, end) && ie_buf_add(&c->args, "\"", 1, NULL);
    } else {
        size_t from = c->from + (c->from < end && s[c->from] == '\n');
        ok = whole_value(c, s, from, end);
    }
    c->at = to + strlen(PARAMETER_END);
    c->phase = BETWEEN;
    return ok ? 1 : -1;
}

/* 1: a tag was read, 0: more text is needed, -1: broken. */
static int tag(tool_call *c, const char *s, size_t n) {
    c->at = tool_blank(s, n, c->at);
    if (c->phase == BEFORE) {
        int is = tool_word(s, n, c->at, FUNCTION);
        if (is == 1) is = tag_name(c, s, n, FUNCTION, &c->name);
        if (is != 1) return is;
        c->named = true;
        c->phase = BETWEEN;
        return ie_buf_add(&c->args, "{", 1, NULL) ? 1 : -1;
    }
    int next = tool_word(s, n, c->at, PARAMETER), last = tool_word(s, n, c->at, FUNCTION_END);
    if (last == 1) {
        c->at += strlen(FUNCTION_END);
        c->phase = BEHIND;
        return ie_buf_add(&c->args, "}", 1, NULL) ? 1 : -1;
    }
    if (next != 1) return next == 0 || last == 0 ? 0 : -1;
    ie_buf key = {0};
    int is = tag_name(c, s, n, PARAMETER, &key);
    if (is == 1 && !begin_value(c, &key)) is = -1;
    ie_buf_free(&key);
    return is;
}

static bool args_ok(const tool_call *c) {
    json_t *v = json_loadb(c->args.data, c->args.len, JSON_ALLOW_NUL, NULL);
    json_decref(v);
    return v != NULL;
}

static call_state scan(tool_call *c, const tool_style *style, const char *s, size_t n, bool end) {
    while (c->phase != BEHIND) {
        int is = c->phase == VALUE ? value(c, s, n) : tag(c, s, n);
        if (is < 0 || (is == 0 && end)) return CALL_BROKEN;
        if (is == 0) return CALL_MORE;
    }
    call_state st = tool_closed(c, style, s, n, end);
    return st == CALL_DONE && !args_ok(c) ? CALL_BROKEN : st;
}

/* ---- the grammar ---------------------------------------------------------------------------------------------------------------- */

/* The schema of a property as a document of its own: what the whole one defines goes with it. */
static json_t *alone(const json_t *parameters, json_t *property_schema) {
    static const char *const shared[] = {"$defs", "definitions"};
    json_t *doc = json_is_object(property_schema) ? json_copy(property_schema) : json_object(), *v;
    for (size_t i = 0; doc && i < sizeof shared / sizeof *shared; i++)
        if ((v = json_object_get(parameters, shared[i])) && !json_object_get(doc, shared[i])) json_object_set(doc, shared[i], v);
    return doc;
}

/* The first keyword that bare text cannot be held to; NULL where there is none. */
static const char *hard(const json_t *schema, int depth) {
    static const char *const easy[] = {"type", "title", "description", "default", "examples", "deprecated", "minLength", "maxLength", "enum", "const"};
    enum { N_EASY = sizeof easy / sizeof *easy, N_INNER = 6 }; /* inside alternatives only the first ones */
    const char *key, *found = NULL;
    json_t *v, *branch;
    size_t k;
    json_object_foreach((json_t *)(uintptr_t)schema, key, v) {
        bool ok = false;
        for (size_t i = 0; i < (depth ? N_INNER : N_EASY) && !ok; i++) ok = !strcmp(easy[i], key);
        if (!strcmp(key, "anyOf") && depth == 0) {
            ok = true;
            json_array_foreach(v, k, branch) {
                if (!found) found = hard(branch, depth + 1);
            }
        }
        if (!ok && !found) found = key;
    }
    return found;
}

/* A value is one of the list: texts are bare. */
static void put_choices(tool_grammar *g, const json_t *list) {
    size_t i;
    const json_t *v;
    tool_put(g, "(");
    json_array_foreach(list, i, v) {
        ie_buf b = {0};
        tool_put(g, "%s", i ? " | " : "");
        if (json_is_string(v)) tool_put_literal(g, json_string_value(v), json_string_length(v));
        else if (serve_json_dump(v, &b, g->err)) tool_put_literal(g, b.data, b.len);
        else g->failed = true;
        ie_buf_free(&b);
    }
    tool_put(g, ")");
}

/* Rule `rule`: a parameter's value and its closing tag. Where a length is given the text does without '<', so that it cannot hold the tag. */
static void value_rule(tool_grammar *g, const char *rule, const json_t *f, const char *key, json_t *schema) {
    static const char end[] = "\n" PARAMETER_END;
    json_t *only = json_object_get(schema, "const"), *list = only ? json_pack("[O]", only) : json_incref(json_object_get(schema, "enum"));
    int64_t min = 0, max = -1;
    const char *bad = hard(schema, 0);
    bool text = types(schema, 0) & T_STRING;
    if (text && bad && tool_is_strict(f))
        tool_fail(g, "a tool is strict, but keyword '%.40s' of its parameter '%.60s' cannot be guaranteed in this model's form of calls", bad, key);
    if (text && (serve_get_int(schema, "minLength", 0, 1000000000, &min, g->err) || serve_get_int(schema, "maxLength", 0, 1000000000, &max, g->err))) g->failed = true;
    if (json_array_size(list)) {
        tool_put(g, "%s ::= ", rule);
        put_choices(g, list);
    } else if (text && min == 0 && max < 0) { /* it can be anything that does not end it */
        tool_put_until(g, rule, end, "\"\"", false);
    } else if (text) {
        tool_put(g, "%s ::= [^<]{%lld,", rule, (long long)min);
        tool_put(g, max >= 0 ? "%lld}" : "}", (long long)max);
    } else {
        json_t *doc = alone(json_object_get(f, "parameters"), schema);
        tool_put(g, "%s ::= %s-j", rule, rule);
        char json[72];
        snprintf(json, sizeof json, "%s-j", rule);
        if (doc) tool_put_schema(g, json, doc, tool_is_strict(f) ? NULL : "true");
        json_decref(doc);
    }
    if (json_array_size(list) || !text || min || max >= 0) {
        tool_put(g, " ");
        tool_put_literal(g, end, sizeof end - 1);
        tool_put(g, "\n");
    }
    json_decref(list);
}

static bool required(const json_t *parameters, const char *key) {
    size_t i;
    const json_t *v;
    json_array_foreach(json_object_get(parameters, "required"), i, v) {
        if (json_is_string(v) && !strcmp(json_string_value(v), key)) return true;
    }
    return false;
}

/* Parameters in the schema's order; where it names none, any. */
static void function_rule(tool_grammar *g, size_t number, const json_t *f) {
    json_t *parameters = json_object_get(f, "parameters"), *schema;
    const char *name = json_string_value(json_object_get(f, "name")), *key;
    size_t i = 0;
    tool_put(g, "fn-%zu ::= ", number);
    tool_put_literal(g, name, strlen(name));
    tool_put(g, " \">\\n\"");
    json_t *list = json_object_get(parameters, "properties");
    if (!list) tool_put(g, " any-parameter*");
    json_object_foreach(list, key, schema) {
        bool must = required(parameters, key);
        tool_put(g, " %s", must ? "" : "(");
        tool_put_literal(g, PARAMETER, strlen(PARAMETER));
        tool_put(g, " ");
        tool_put_literal(g, key, strlen(key));
        tool_put(g, " \">\\n\" p-%zu-%zu \"\\n\"%s", number, i++, must ? "" : ")?");
    }
    tool_put(g, "\n");
    i = 0;
    json_object_foreach(list, key, schema) {
        char rule[48];
        snprintf(rule, sizeof rule, "p-%zu-%zu", number, i++);
        value_rule(g, rule, f, key, schema);
    }
}

static void grammar(tool_grammar *g, const tool_style *style, const json_t *tools) {
    size_t i;
    const json_t *t;
    tool_put(g, "call ::= \"\\n\"? ");
    tool_put_literal(g, FUNCTION, strlen(FUNCTION));
    tool_put(g, " (");
    for (i = 0; i < json_array_size(tools); i++) tool_put(g, "%sfn-%zu", i ? " | " : "", i);
    tool_put(g, ") ");
    tool_put_literal(g, FUNCTION_END "\n", strlen(FUNCTION_END) + 1);
    tool_put(g, " ");
    tool_put_literal(g, style->close, strlen(style->close));
    tool_put(g, "\n");
    tool_put(g, "any-parameter ::= ");
    tool_put_literal(g, PARAMETER, strlen(PARAMETER));
    tool_put(g, " [A-Za-z0-9_]+ \">\\n\" any-value \"\\n\"\n");
    tool_put_until(g, "any-value", "\n" PARAMETER_END, "\"\"", false);
    json_array_foreach(tools, i, t) {
        function_rule(g, i, json_object_get(t, "function"));
    }
}

const tool_style tool_style_xml = {.name = "xml", .shown = "<function=", .open = "<tool_call>", .close = "</tool_call>", .objects = true,
                                   .scan = scan, .grammar = grammar};
