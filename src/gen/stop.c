/* Stop strings and whole characters (stop.h). Each string is matched by the automaton of Knuth, Morris and Pratt (1977), so that
 * a byte costs constant time and the longest beginning of any string at the end of the text is known. */
#include "stop.h"

#include <stdlib.h>
#include <string.h>

#include "../text/tokenizer.h"

struct ie_stop_one {
    char *s;
    uint32_t len, at;  /* at: length of the longest beginning of s that the text ends with */
    uint32_t *back;    /* [len + 1]: where to go on when the byte after a beginning of that length does not fit */
};

static ie_status init_one(struct ie_stop_one *o, const ie_stop_text *t, ie_error *err) {
    if (t->len < 1 || t->len > IE_STOP_MAX_BYTES)
        return ie_fail(err, IE_E_ARG, "a stop string has %zu bytes, allowed are 1 to %u", t->len, IE_STOP_MAX_BYTES);
    o->len = (uint32_t)t->len;
    o->s = ie_calloc(t->len, 1, "stop string", err);
    o->back = ie_calloc(t->len + 1, sizeof *o->back, "stop string", err);
    if (!o->s || !o->back) return IE_E_NOMEM;
    memcpy(o->s, t->s, t->len);
    for (uint32_t i = 1, k = 0; i < o->len; i++) { /* back[i + 1]: the longest proper beginning that s[0 .. i] ends with */
        while (k && o->s[i] != o->s[k]) k = o->back[k];
        if (o->s[i] == o->s[k]) k++;
        o->back[i + 1] = k;
    }
    return IE_OK;
}

ie_status ie_stop_init(ie_stop *s, const ie_stop_text *strings, size_t n, ie_error *err) {
    *s = (ie_stop){.hit = -1};
    if (n > IE_STOP_MAX) return ie_fail(err, IE_E_ARG, "%zu stop strings, allowed are at most %u", n, IE_STOP_MAX);
    if (n && !(s->one = ie_calloc(n, sizeof *s->one, "stop strings", err))) return IE_E_NOMEM;
    s->n = (uint32_t)n;
    ie_status st = IE_OK;
    for (size_t i = 0; i < n && !st; i++) st = init_one(&s->one[i], &strings[i], err);
    if (st) ie_stop_free(s);
    return st;
}

void ie_stop_free(ie_stop *s) {
    for (uint32_t i = 0; i < s->n; i++) {
        free(s->one[i].s);
        free(s->one[i].back);
    }
    free(s->one);
    ie_buf_free(&s->pending);
    *s = (ie_stop){.hit = -1};
}

/* One byte through all automata: the longest string that ends here, -1 if none does. */
static int feed(ie_stop *s, char byte) {
    int hit = -1;
    for (uint32_t i = 0; i < s->n; i++) {
        struct ie_stop_one *o = &s->one[i];
        while (o->at && (o->at == o->len || o->s[o->at] != byte)) o->at = o->back[o->at];
        if (o->s[o->at] == byte) o->at++;
        if (o->at == o->len && (hit < 0 || o->len > s->one[hit].len)) hit = (int)i;
    }
    return hit;
}

static void drop_given(ie_stop *s) {
    if (!s->given) return;
    memmove(s->pending.data, s->pending.data + s->given, s->pending.len - s->given);
    s->pending.len -= s->given;
    s->given = 0;
}

static void give(ie_stop *s, size_t n, const char **text, size_t *len) {
    *text = s->pending.data ? s->pending.data : "";
    *len = s->given = n;
}

ie_status ie_stop_add(ie_stop *s, const char *bytes, size_t n, const char **text, size_t *len, ie_error *err) {
    drop_given(s);
    give(s, 0, text, len);
    if (s->hit >= 0) return IE_OK;
    size_t before = s->pending.len, hold = 0;
    if (!ie_buf_add(&s->pending, bytes, n, err)) return IE_E_NOMEM;
    for (size_t i = 0; i < n && s->hit < 0; i++) {
        s->hit = feed(s, bytes[i]);
        if (s->hit >= 0) s->pending.len = before + i + 1 - s->one[s->hit].len;
    }
    if (s->hit >= 0) {
        give(s, ie_utf8_complete(s->pending.data, s->pending.len), text, len);
        s->pending.len = *len;
        return IE_OK;
    }
    for (uint32_t i = 0; i < s->n; i++)
        if (s->one[i].at > hold) hold = s->one[i].at;
    give(s, ie_utf8_complete(s->pending.data ? s->pending.data : "", s->pending.len - hold), text, len);
    return IE_OK;
}

void ie_stop_flush(ie_stop *s, const char **text, size_t *len) {
    drop_given(s);
    give(s, ie_utf8_complete(s->pending.data ? s->pending.data : "", s->pending.len), text, len);
    s->pending.len = *len;
}
