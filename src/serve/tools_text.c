/* Tools for chat templates that know none: the same in words. */
#include <stdlib.h>
#include <string.h>

#include "serve.h"
#include "tools.h"

static bool put(ie_buf *b, const char *s) { return ie_buf_add(b, s, strlen(s), NULL); }

static bool put_text(ie_buf *b, const json_t *v) { return !json_is_string(v) || ie_buf_add(b, json_string_value(v), json_string_length(v), NULL); }

/* A new message of that role; takes the text over. */
static json_t *message(const char *role, ie_buf *b) {
    json_t *m = json_pack("{s:s, s:o}", "role", role, "content", serve_json_text(b->data ? b->data : "", b->len));
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
    return message("system", &b);
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
    json_t *out = json_copy((json_t *)(uintptr_t)m);
    if (out) {
        json_object_del(out, "tool_calls");
        json_object_set_new(out, "content", serve_json_text(b.data ? b.data : "", b.len));
    }
    ie_buf_free(&b);
    return out;
}

json_t *tools_as_text(const json_t *messages, const json_t *tools, const tool_style *style, ie_error *err) {
    json_t *list = json_array();
    size_t i = 0, n = json_array_size(messages);
    const char *first = json_string_value(json_object_get(json_array_get(messages, 0), "role"));
    bool system = first && !strcmp(first, "system");
    if (tools) json_array_append_new(list, instructions(system ? json_object_get(json_array_get(messages, 0), "content") : NULL, tools, style));
    for (i = tools && system; i < n; i++) {
        json_t *m = json_array_get(messages, i);
        const char *role = json_string_value(json_object_get(m, "role"));
        ie_buf b = {0};
        if (role && !strcmp(role, "tool")) { /* results in a row are one message */
            for (size_t from = i; i < n && (role = json_string_value(json_object_get(json_array_get(messages, i), "role"))) && !strcmp(role, "tool"); i++)
                if (!put(&b, i > from ? "\n<tool_response>\n" : "<tool_response>\n") || !put_text(&b, json_object_get(json_array_get(messages, i), "content")) ||
                    !put(&b, "\n</tool_response>"))
                    break;
            i--;
            json_array_append_new(list, message("user", &b));
        } else if (json_array_size(json_object_get(m, "tool_calls"))) {
            json_array_append_new(list, said_calls(m, style));
        } else {
            json_array_append(list, m);
        }
    }
    if (!list) ie_fail(err, IE_E_NOMEM, "no memory for the messages");
    return list;
}
