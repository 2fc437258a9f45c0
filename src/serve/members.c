/* Members that change nothing here, or of which other code reads one value only: their kind is checked all the same, so that a client learns of its
 * mistake. */
#include <string.h>

#include "serve.h"

static const char *const kinds[] = {
    [SERVE_STRING] = "a string", [SERVE_BOOL] = "true or false", [SERVE_COUNT] = "a whole number from 1", [SERVE_OBJECT] = "an object",
    [SERVE_LIST] = "an array", [SERVE_STRINGS] = "an array of strings", [SERVE_WORD] = "one of ",
};

/* words: separated by ", ", as the message shows them. */
static bool one_of(const char *words, const json_t *v) {
    const char *s = json_string_value(v);
    size_t len = json_string_length(v);
    for (const char *p = words; s && *p; p += strspn(p, ", ")) {
        size_t n = strcspn(p, ", ");
        if (n == len && !memcmp(p, s, n)) return true;
        p += n;
    }
    return false;
}

static bool fits(const serve_member *m, const json_t *v) {
    size_t i;
    const json_t *x;
    switch (m->kind) {
    case SERVE_STRING: return json_is_string(v);
    case SERVE_BOOL: return json_is_boolean(v);
    case SERVE_COUNT: return json_is_integer(v) && json_integer_value(v) >= 1;
    case SERVE_OBJECT: return json_is_object(v);
    case SERVE_LIST: return json_is_array(v);
    case SERVE_WORD: return one_of(m->words, v);
    case SERVE_STRINGS: break;
    }
    json_array_foreach(v, i, x) {
        if (!json_is_string(x)) return false;
    }
    return json_is_array(v);
}

/* The value behind a name with dots; NULL where it is absent or null, or where what should hold it is no object. */
static const json_t *value_at(const json_t *o, const char *name) {
    for (const char *dot; (dot = strchr(name, '.')); name = dot + 1) o = json_object_getn(o, name, (size_t)(dot - name));
    o = json_object_get(o, name);
    return json_is_null(o) ? NULL : o;
}

ie_status serve_check_members(const json_t *o, const serve_member *m, ie_error *err) {
    for (; m->name; m++) {
        const json_t *v = value_at(o, m->name);
        if (v && !fits(m, v)) return serve_wrong(m->name, v, err, "%s%s", kinds[m->kind], m->words ? m->words : "");
    }
    return IE_OK;
}

ie_status serve_check_openai(const json_t *o, ie_error *err) {
    static const serve_member common[] = {
        {"model", SERVE_STRING, NULL},
        {"user", SERVE_STRING, NULL},
        {"safety_identifier", SERVE_STRING, NULL},
        {"prompt_cache_key", SERVE_STRING, NULL},
        {"prompt_cache_retention", SERVE_STRING, NULL},
        {"service_tier", SERVE_STRING, NULL},
        {"metadata", SERVE_OBJECT, NULL},
        {"store", SERVE_BOOL, NULL},
        {"stream_options", SERVE_OBJECT, NULL},
        {"stream_options.include_obfuscation", SERVE_BOOL, NULL},
        {NULL, SERVE_WORD, NULL},
    };
    return serve_check_members(o, common, err);
}
