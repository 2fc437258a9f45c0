/* Calls as a JSON object between tags: <tool_call>{"name": ..., "arguments": {...}}</tool_call> (Hermes, Qwen2.5, Qwen3). */
#include <stdlib.h>
#include <string.h>

#include "tools.h"

enum { BEFORE, INSIDE, BEHIND };           /* phases: before the object, in it, behind it */
enum { NO_MEMBER, NAME, ARGUMENTS, OTHER }; /* the member at work */

/* A JSON value as text of its own; NULL where it is none. */
static json_t *value(const char *s, size_t n) { return json_loadb(s, n, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL); }

static bool set(ie_buf *b, const char *s, size_t n) {
    b->len = 0;
    return ie_buf_add(b, s, n, NULL);
}

/* The member at work ends before s[to]. False: it is not what it should be. */
static bool end_member(tool_call *c, const char *s, size_t to) {
    size_t from = tool_blank(s, to, c->from);
    int member = c->member;
    c->member = NO_MEMBER;
    if (member != NAME && member != ARGUMENTS) return member == OTHER;
    if (member == ARGUMENTS && from < to && s[from] == '{') return true; /* taken as it came */
    json_t *v = value(s + from, to - from);
    bool ok = false;
    if (member == NAME) {
        ok = json_string_length(v) && set(&c->name, json_string_value(v), json_string_length(v));
        c->named = ok;
    } else if (json_is_string(v)) { /* the object as text */
        json_t *in = value(json_string_value(v), json_string_length(v));
        ok = json_is_object(in) && set(&c->args, json_string_value(v), json_string_length(v));
        json_decref(in);
    } else {
        ok = json_is_null(v) && set(&c->args, "{}", 2);
    }
    json_decref(v);
    return ok;
}

/* Which member begins behind the colon at s[at]; the key is the string that ended last. */
static bool begin_member(tool_call *c, const char *s, size_t at) {
    const char *key = s + c->mark;
    size_t n = at;
    while (n > c->mark && s[n - 1] != '"') n--;
    n = n > c->mark ? n - 1 - c->mark : 0;
    c->member = n == 4 && !memcmp(key, "name", 4) ? NAME : n == 9 && !memcmp(key, "arguments", 9) ? ARGUMENTS : OTHER;
    c->from = at + 1;
    return (c->member != NAME || !c->named) && (c->member != ARGUMENTS || !c->args.len); /* each once */
}

/* One byte of the object that is not inside a string. False: broken. */
static bool structure(tool_call *c, const char *s, size_t i) {
    switch (s[i]) {
    case '"':
        c->in_string = true;
        if (c->depth == 1 && c->member == NO_MEMBER) c->mark = i + 1;
        break;
    case '{':
    case '[': c->depth++; break;
    case ':':
        if (c->depth != 1) break;
        return c->member == NO_MEMBER && begin_member(c, s, i);
    case ',':
        if (c->depth == 1) return end_member(c, s, i);
        break;
    case '}':
    case ']':
        if (c->depth == 1 && c->member != NO_MEMBER && !end_member(c, s, i)) return false;
        if (--c->depth == 0) c->phase = BEHIND;
        break;
    default: break;
    }
    return true;
}

static bool byte(tool_call *c, const char *s, size_t i) {
    bool outer = c->depth < 2;
    if (c->escaped) c->escaped = false;
    else if (c->in_string && s[i] == '\\') c->escaped = true;
    else if (c->in_string) c->in_string = s[i] != '"';
    else if (!structure(c, s, i)) return false;
    /* The arguments' object, from its { to its }. */
    bool part = c->member == ARGUMENTS && (c->depth >= 2 || !outer);
    if (part && c->args.len == 0 && s[i] != '{') return false;
    return !part || ie_buf_add(&c->args, s + i, 1, NULL);
}

/* The whole object, read once more by a JSON parser. */
static call_state finish(tool_call *c, const char *s, size_t to) {
    json_t *v = json_loadb(s, to, JSON_ALLOW_NUL, NULL);
    bool ok = json_is_object(v) && c->named && (c->args.len || ie_buf_add(&c->args, "{}", 2, NULL));
    json_decref(v);
    return ok ? CALL_DONE : CALL_BROKEN;
}

static call_state scan(tool_call *c, const tool_style *style, const char *s, size_t n, bool end) {
    if (c->phase == BEFORE) {
        c->at = tool_blank(s, n, c->at);
        if (c->at == n) return end ? CALL_BROKEN : CALL_MORE;
        if (s[c->at++] != '{') return CALL_BROKEN;
        c->phase = INSIDE;
        c->depth = 1;
    }
    for (; c->phase == INSIDE && c->at < n; c->at++)
        if (!byte(c, s, c->at)) return CALL_BROKEN;
    if (c->phase == INSIDE) return end ? CALL_BROKEN : CALL_MORE;
    call_state st = tool_closed(c, style, s, n, end);
    return st == CALL_DONE ? finish(c, s, c->at) : st;
}

static void grammar(tool_grammar *g, const tool_style *style, const json_t *tools) {
    size_t i;
    const json_t *t;
    tool_put(g, "call ::= \"\\n\"? \"{\\\"name\\\": \\\"\" (");
    json_array_foreach(tools, i, t) {
        const char *name = json_string_value(json_object_get(json_object_get(t, "function"), "name"));
        tool_put(g, "%s", i ? " | " : "");
        tool_put_literal(g, name, strlen(name));
        tool_put(g, " \"\\\", \\\"arguments\\\": \" args-%zu", i);
    }
    tool_put(g, ") \"}\" \"\\n\"? ");
    tool_put_literal(g, style->close, strlen(style->close));
    tool_put(g, "\n");
    json_array_foreach(tools, i, t) {
        char rule[32];
        const json_t *f = json_object_get(t, "function");
        snprintf(rule, sizeof rule, "args-%zu", i);
        tool_put_schema(g, rule, json_object_get(f, "parameters"), tool_is_strict(f) ? NULL : "{\"type\": \"object\"}");
    }
}

const tool_style tool_style_hermes = {
    .name = "hermes", .shown = "<tool_call>", .open = "<tool_call>", .close = "</tool_call>", .scan = scan, .grammar = grammar};
