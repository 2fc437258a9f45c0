/* Tools of a request, and the table of styles. */
#include "tools.h"

#include <stdlib.h>
#include <string.h>

#include "serve.h"

/* The first row whose mark the template holds. */
static const tool_style *const styles[] = {&tool_style_xml, &tool_style_hermes};

const tool_style *tool_style_of(const char *tmpl, size_t len) {
    for (size_t i = 0; i < sizeof styles / sizeof *styles; i++)
        if (memmem(tmpl, len, styles[i]->shown, strlen(styles[i]->shown))) return styles[i];
    return &tool_style_hermes;
}

void tool_call_free(tool_call *c) {
    ie_buf_free(&c->name);
    ie_buf_free(&c->args);
    *c = (tool_call){0};
}

/* ---- checks --------------------------------------------------------------------------------------------------------------- */

/* Names stand in grammars and between tags as they are. */
static bool name_ok(const char *s, size_t n) {
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.:/";
    return n >= 1 && n <= TOOL_NAME_MAX && strspn(s, allowed) == n;
}

const json_t *tool_named(const json_t *tools, const char *name, size_t len) {
    size_t i;
    const json_t *t;
    json_array_foreach(tools, i, t) {
        const json_t *f = json_object_get(t, "function"), *have = json_object_get(f, "name");
        if (json_string_length(have) == len && !memcmp(json_string_value(have), name, len)) return f;
    }
    return NULL;
}

bool tool_is_strict(const json_t *function) { return json_is_true(json_object_get(function, "strict")); }

/* A schema of objects from "parameters": absent means no parameters. Takes no reference; gives a new one. */
static json_t *parameters(json_t *p) {
    static const char *const typed[] = {"type", "$ref", "anyOf", "oneOf", "allOf"};
    if (!p || json_is_null(p)) return json_pack("{s:s, s:{}, s:b}", "type", "object", "properties", "additionalProperties", 0);
    for (size_t i = 0; i < sizeof typed / sizeof *typed; i++)
        if (json_object_get(p, typed[i])) return json_incref(p);
    json_t *copy = json_copy(p);
    if (copy) json_object_set_new(copy, "type", json_string("object"));
    return copy;
}

static ie_status read_tool(const json_t *t, json_t *list, ie_error *err) {
    const char *type = "function", *text = NULL;
    json_t *f = NULL, *p = NULL;
    bool strict = false;
    if (!json_is_object(t)) return ie_fail(err, IE_E_ARG, "each of 'tools' must be an object");
    ie_status st = serve_get_str(t, "type", &type, NULL, err);
    if (!st && strcmp(type, "function")) st = ie_fail(err, IE_E_ARG, "a tool's type is '%.40s'; only 'function' is supported", type);
    if (!st) st = serve_get_obj(t, "function", &f, err);
    if (!st && !f) st = ie_fail(err, IE_E_ARG, "each of 'tools' must have a 'function'");
    if (!st) st = serve_get_str(f, "description", &text, NULL, err);
    if (!st) st = serve_get_bool(f, "strict", &strict, err);
    if (!st) st = serve_get_obj(f, "parameters", &p, err);
    const json_t *name = json_object_get(f, "name");
    const char *s = json_is_string(name) ? json_string_value(name) : "";
    if (!st && !name_ok(s, json_string_length(name)))
        st = ie_fail(err, IE_E_ARG, "a tool's name is '%.40s'; allowed are 1 to %d letters, digits and _ - . : /", s, TOOL_NAME_MAX);
    if (!st && tool_named(list, s, strlen(s))) st = ie_fail(err, IE_E_ARG, "two of 'tools' have the name '%.40s'", s);
    if (st) return st;
    json_t *own = json_copy((json_t *)(uintptr_t)t), *fn = json_copy(f);
    bool ok = own && fn && !json_object_set_new(own, "type", json_string("function")) && !json_object_set_new(fn, "parameters", parameters(p)) &&
              !json_object_set(own, "function", fn) && !json_array_append(list, own);
    json_decref(own);
    json_decref(fn);
    return ok ? IE_OK : ie_fail(err, IE_E_NOMEM, "no memory for the tools");
}

ie_status tools_read(const json_t *tools, json_t **out, ie_error *err) {
    *out = NULL;
    if (!tools || json_is_null(tools)) return IE_OK;
    if (!json_is_array(tools) || json_array_size(tools) > TOOLS_MAX)
        return ie_fail(err, IE_E_ARG, "'tools' must be a list of at most %d tools", TOOLS_MAX);
    if (!json_array_size(tools)) return IE_OK;
    json_t *list = json_array();
    ie_status st = IE_OK;
    for (size_t i = 0; i < json_array_size(tools) && !st; i++) st = read_tool(json_array_get(tools, i), list, err);
    if (st) json_decref(list);
    else *out = list;
    return st;
}

static const char *function_name(const json_t *ref) {
    const char *name = json_string_value(json_object_get(json_object_get(ref, "function"), "name"));
    return name ? name : json_string_value(json_object_get(ref, "name")); /* the flat form */
}

/* Adds the tool that ref names to the callable ones. */
static ie_status allow(const json_t *ref, const json_t *tools, json_t *callable, ie_error *err) {
    const char *name = function_name(ref);
    size_t i;
    json_t *t;
    if (!name) return ie_fail(err, IE_E_ARG, "'tool_choice' must be none, auto, required, or name a function");
    json_array_foreach(tools, i, t) {
        if (!strcmp(function_name(t), name)) return json_array_append(callable, t) ? ie_fail(err, IE_E_NOMEM, "no memory for the tools") : IE_OK;
    }
    return ie_fail(err, IE_E_ARG, "'tool_choice' names '%.40s', which is none of 'tools'", name);
}

static bool choice_word(const char *s, tool_choice *out) {
    static const struct {
        const char *word;
        tool_choice choice;
    } words[] = {{"none", TOOL_CHOICE_NONE}, {"auto", TOOL_CHOICE_AUTO}, {"required", TOOL_CHOICE_REQUIRED}};
    for (size_t i = 0; s && i < sizeof words / sizeof *words; i++)
        if (!strcmp(words[i].word, s)) return *out = words[i].choice, true;
    return false;
}

ie_status tool_choice_read(const json_t *choice, json_t *tools, tool_choice *out, json_t **callable, ie_error *err) {
    const char *type = json_string_value(json_object_get(choice, "type"));
    *out = tools ? TOOL_CHOICE_AUTO : TOOL_CHOICE_NONE;
    *callable = NULL;
    if (choice && !json_is_null(choice) && !json_is_object(choice) && !choice_word(json_string_value(choice), out))
        return ie_fail(err, IE_E_ARG, "'tool_choice' must be none, auto, required, or name a function");
    if (!tools && (type || *out == TOOL_CHOICE_REQUIRED)) return ie_fail(err, IE_E_ARG, "'tool_choice' needs 'tools'");
    if (!tools) return *out = TOOL_CHOICE_NONE, IE_OK;
    if (!json_is_object(choice)) {
        *callable = json_incref(tools);
        return IE_OK;
    }
    ie_status st = IE_OK;
    json_t *list = json_array();
    *out = TOOL_CHOICE_ONE;
    if (type && !strcmp(type, "allowed_tools")) {
        const json_t *in = json_object_get(choice, "allowed_tools") ? json_object_get(choice, "allowed_tools") : choice, *all = json_object_get(in, "tools");
        if (!choice_word(json_string_value(json_object_get(in, "mode")), out)) st = ie_fail(err, IE_E_ARG, "'tool_choice.mode' must be auto or required");
        if (!st && !json_array_size(all)) st = ie_fail(err, IE_E_ARG, "'tool_choice.tools' must be a list of tools");
        for (size_t i = 0; i < json_array_size(all) && !st; i++) st = allow(json_array_get(all, i), tools, list, err);
    } else {
        st = allow(choice, tools, list, err);
    }
    if (st) json_decref(list);
    else *callable = list;
    return st;
}

/* ---- small things on text ---------------------------------------------------------------------------------------------------- */

int tool_word(const char *s, size_t n, size_t at, const char *word) {
    size_t len = strlen(word), have = n - at < len ? n - at : len;
    return memcmp(s + at, word, have) ? -1 : have == len;
}

size_t tool_tail(const char *s, size_t n, const char *word) {
    size_t k = strlen(word) - 1;
    if (k > n) k = n;
    while (k && memcmp(s + n - k, word, k)) k--;
    return k;
}

size_t tool_blank(const char *s, size_t n, size_t at) {
    while (at < n && (s[at] == ' ' || s[at] == '\n' || s[at] == '\t' || s[at] == '\r')) at++;
    return at;
}

call_state tool_closed(tool_call *c, const tool_style *style, const char *s, size_t n, bool end) {
    size_t at = tool_blank(s, n, c->at);
    int closed = tool_word(s, n, at, style->close);
    if (closed < 0) return CALL_BROKEN;
    if (!closed && !end) return CALL_MORE;
    c->used = closed ? at + strlen(style->close) : n;
    return CALL_DONE;
}
