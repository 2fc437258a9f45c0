/* Global functions of chat templates: those of jinja2, and raise_exception and strftime_now of transformers. */
#include <stdio.h>

#include "jinja.h"

#define GLOBAL(name) static jv name(jx *x, jv self, const jv *a, const jargs *raw)
#define UNUSED (void)x, (void)self, (void)a, (void)raw

enum { MAX_RANGE = 100000 }; /* as in jinja2's sandbox */

GLOBAL(g_range) {
    UNUSED;
    int64_t start = 0, stop = j_need_int(x, a[0], "range: argument"), step = 1;
    if (jv_given(a[1])) {
        start = stop;
        stop = j_need_int(x, a[1], "range: argument");
    }
    if (jv_given(a[2])) step = j_need_int(x, a[2], "range: argument");
    if (step == 0) j_error(x, "range: step must not be zero");
    uint64_t span = step > 0 ? (start < stop ? (uint64_t)stop - (uint64_t)start : 0)
                             : (stop < start ? (uint64_t)start - (uint64_t)stop : 0);
    // cppcheck-suppress zerodivcond ; a step of 0 was refused
    uint64_t by = step > 0 ? (uint64_t)step : 0 - (uint64_t)step, n = span / by + (span % by != 0);
    if (n > MAX_RANGE) j_error(x, "range: more than %d items", MAX_RANGE);
    jseq *q = j_seq(x, J_RANGE, (size_t)n);
    for (size_t i = 0; i < q->n; i++) q->v[i] = jv_int(start + (int64_t)i * step);
    q->start = start;
    q->stop = stop;
    q->step = step;
    return jv_seq(q);
}

/* dict(mapping or pairs, **keywords) into d. */
static void fill_dict(jx *x, jdict *d, const jargs *raw, const char *what) {
    if (raw->npos > 1) j_error(x, "%s: at most one positional argument is allowed", what);
    if (raw->npos == 1 && raw->pos[0].type == J_DICT) {
        const jdict *from = raw->pos[0].d;
        for (size_t i = 0; i < from->n; i++) j_dict_set(x, d, from->e[i].key, from->e[i].val);
    } else if (raw->npos == 1) {
        jseq *q = j_iter(x, raw->pos[0]);
        for (size_t i = 0; i < q->n; i++) {
            jseq *pair = j_iter(x, q->v[i]);
            if (pair->n != 2) j_error(x, "%s: pairs of key and value are required", what);
            j_dict_set(x, d, pair->v[0], pair->v[1]);
        }
    }
    for (size_t i = 0; i < raw->nkw; i++) j_dict_set(x, d, jv_str((jstr *)(uintptr_t)raw->kwname[i]), raw->kw[i]);
}

GLOBAL(g_dict) {
    UNUSED;
    jdict *d = j_dict(x);
    fill_dict(x, d, raw, "dict");
    return jv_dict(d);
}

GLOBAL(g_namespace) {
    UNUSED;
    jdict *d = j_dict(x);
    fill_dict(x, d, raw, "namespace");
    return (jv){.type = J_NS, .d = d};
}

GLOBAL(g_cycler) {
    UNUSED;
    if (raw->npos == 0) j_error(x, "cycler: at least one item is required");
    jseq *q = j_seq(x, J_LIST, raw->npos);
    memcpy(q->v, raw->pos, raw->npos * sizeof *q->v);
    return (jv){.type = J_CYCLER, .q = q};
}

GLOBAL(g_joiner) {
    UNUSED;
    jseq *q = j_seq(x, J_LIST, 1);
    q->v[0] = jv_given(a[0]) ? a[0] : jv_str(j_lit(x, ", "));
    return (jv){.type = J_JOINER, .q = q};
}

GLOBAL(g_raise_exception) {
    UNUSED;
    jstr *s = j_to_str(x, a[0]);
    j_fail(x, IE_E_FORMAT, "%.*s", s->len < 499 ? (int)s->len : 499, s->s);
}

/* The local time as Python's datetime.now().strftime(format): no time zone, no microseconds. */
GLOBAL(g_strftime_now) {
    UNUSED;
    if (a[0].type != J_STR) j_error(x, "strftime_now: the format must be a string, not %s", j_type_name(a[0]));
    const jstr *f = a[0].s;
    char fmt[512], out[4096];
    size_t n = 0;
    struct tm tm;
    if (f->len >= sizeof fmt - 8 || memchr(f->s, 0, f->len)) j_error(x, "strftime_now: the format is too long");
    for (size_t i = 0; i < f->len; i++) {
        if (n > sizeof fmt - 8) j_error(x, "strftime_now: the format is too long");
        char c = f->s[i], d = i + 1 < f->len ? f->s[i + 1] : 0;
        if (c == '%' && d == 'f') { /* microseconds */
            memcpy(fmt + n, "000000", 6);
            n += 6;
        } else {
            fmt[n++] = c;
            if (c != '%' || !d) continue;
            if (d == 'z' || d == 'Z')
                n--;
            else
                fmt[n++] = d;
        }
        i++;
    }
    fmt[n++] = '|'; /* tells an empty result from one that does not fit */
    fmt[n] = 0;
    time_t now = x->env->now;
    if (!localtime_r(&now, &tm)) j_error(x, "strftime_now: the time is out of range");
    size_t len = strftime(out, sizeof out, fmt, &tm);
    if (len == 0) j_error(x, "strftime_now: the result is too long");
    char *copy = j_bytes(x, len);
    memcpy(copy, out, len);
    return jv_str(j_str(x, copy, len - 1, false));
}

const jbuiltin *j_find_global(const char *name, size_t len) {
    static const jbuiltin table[] = {
        {"range", g_range, "/start /stop /step", 1},
        {"dict", g_dict, NULL, 0},
        {"namespace", g_namespace, NULL, 0},
        {"cycler", g_cycler, NULL, 0},
        {"joiner", g_joiner, "sep", 0},
        {"raise_exception", g_raise_exception, "message", 1},
        {"strftime_now", g_strftime_now, "format", 1},
    };
    return J_IN_TABLE(table, name, len);
}
