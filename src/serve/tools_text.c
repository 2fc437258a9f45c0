/* Tools for chat templates that know none: the same in words. */
#include <stdlib.h>
#include <string.h>

#include "serve.h"
#include "tools.h"

static bool put(ie_buf *b, const char *s) { return ie_buf_add(b, s, strlen(s), NULL); }

static bool put_text(ie_buf *b, const json_t *v) { return !json_is_string(v) || ie_buf_add(b, json_string_value(v), json_string_length(v), NULL); }

/* A new message of that role; takes the text over. NULL where that is not whole. */
static json_t *message(const char *role, ie_buf *b, bool ok) {
    json_t *m = !ok ? NULL : json_pack("{s:s, s:o}", "role", role, "content", serve_json_text(b->data ? b->data : "", b->len));
    ie_buf_free(b);
    return m;
}

/* The system message: what it said, then the tools. */
static json_t *instructions(const json_t *said, const json_t *tools, const tool_style *style) {
    ie_buf b = {0};
    size_t i;
    const json_t *t;
    bool ok = put_text(&b, said) && (b.len == 0 || put(&b, "\n\n")) && put(&b, "These functions can be called:\n<tools>\n");
    json_array_foreach(tools, i, t) ok = ok && serve_json_dump(json_object_get(t, "function"), &b, NULL) && put(&b, "\n");
    ok = ok && put(&b, "</tools>\nA call is its name and its arguments in JSON between tags:\n") && put(&b, style->open) &&
         put(&b, "\n{\"name\": \"NAME\", \"arguments\": {}}\n") && put(&b, style->close);
    return message("system", &b, ok);
}

/* An assistant's message: its text, then its calls. */
static json_t *said_calls(const json_t *m, const tool_style *style) {
    ie_buf b = {0};
    size_t i;
    const json_t *t;
    bool ok = put_text(&b, json_object_get(m, "content"));
    json_array_foreach(json_object_get(m, "tool_calls"), i, t) {
        const json_t *f = json_object_get(t, "function"), *args = json_object_get(f, "arguments");
        ok = ok && (b.len == 0 || put(&b, "\n")) && put(&b, style->open) && put(&b, "\n{\"name\": \"") && put_text(&b, json_object_get(f, "name")) &&
             put(&b, "\", \"arguments\": ");
        ok = ok && (json_is_string(args) ? put_text(&b, args) : args ? serve_json_dump(args, &b, NULL) : put(&b, "{}")) && put(&b, "}\n") && put(&b, style->close);
    }
    json_t *out = ok ? json_copy((json_t *)(uintptr_t)m) : NULL;
    if (out) {
        json_object_del(out, "tool_calls");
        json_object_set_new(out, "content", serve_json_text(b.data ? b.data : "", b.len));
    }
    ie_buf_free(&b);
    return out;
}

static bool is_result(const json_t *m) {
    const char *role = json_string_value(json_object_get(m, "role"));
    return role && !strcmp(role, "tool");
}

/* The results from message *i on, which are one message; *i is the last of them. */
static json_t *results(const json_t *messages, size_t *i) {
    ie_buf b = {0};
    bool ok = true;
    size_t from = *i;
    for (; is_result(json_array_get(messages, *i)); ++*i)
        ok = ok && put(&b, *i > from ? "\n<tool_response>\n" : "<tool_response>\n") && put_text(&b, json_object_get(json_array_get(messages, *i), "content")) &&
             put(&b, "\n</tool_response>");
    --*i;
    return message("user", &b, ok);
}

json_t *tools_as_text(const json_t *messages, const json_t *tools, const tool_style *style, ie_error *err) {
    json_t *list = json_array();
    const json_t *head = json_array_get(messages, 0);
    const char *first = json_string_value(json_object_get(head, "role"));
    bool system = first && !strcmp(first, "system"), ok = list != NULL;
    if (tools) ok = ok && !json_array_append_new(list, instructions(system ? json_object_get(head, "content") : NULL, tools, style));
    for (size_t i = tools && system; i < json_array_size(messages) && ok; i++) {
        json_t *m = json_array_get(messages, i);
        if (is_result(m)) ok = !json_array_append_new(list, results(messages, &i));
        else if (json_array_size(json_object_get(m, "tool_calls"))) ok = !json_array_append_new(list, said_calls(m, style));
        else ok = !json_array_append(list, m);
    }
    if (ok) return list;
    json_decref(list);
    ie_fail(err, IE_E_NOMEM, "no memory for the messages");
    return NULL;
}
