#include "opt.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void opt_help(const opt_table *t, FILE *out) {
    for (size_t i = 0; i < t->n; i++) {
        const option *o = &t->rows[i];
        if (o->kind == O_GROUP) {
            fprintf(out, "\n%s:\n", o->name);
            continue;
        }
        char left[64];
        snprintf(left, sizeof left, "%s%s%s%s%s", o->alias ? o->alias : "", o->alias ? ", " : "", o->name, o->arg ? " " : "",
                 o->arg ? o->arg : "");
        fprintf(out, "  %-28s %s\n", left, o->help);
    }
}

static const option *find(const opt_table *t, const char *arg, size_t len) {
    for (size_t i = 0; i < t->n; i++) {
        const option *o = &t->rows[i];
        if (o->kind == O_GROUP) continue;
        if (strlen(o->name) == len && memcmp(o->name, arg, len) == 0) return o;
        if (o->alias && strlen(o->alias) == len && memcmp(o->alias, arg, len) == 0) return o;
    }
    return NULL;
}

static ie_status bad_number(const option *o, const char *value, ie_error *err) {
    if (o->kind == O_INT)
        return ie_fail(err, IE_E_ARG, "option %s is '%s', allowed are whole numbers from %.0f to %.0f", o->name, value, o->min, o->max);
    if (o->kind == O_FLOAT) return ie_fail(err, IE_E_ARG, "option %s is '%s', allowed are numbers from %g to %g", o->name, value, o->min, o->max);
    return ie_fail(err, IE_E_ARG, "option %s is '%s', allowed are whole numbers from 0 to 2^64 - 1", o->name, value);
}

static ie_status set(const option *o, const char *value, void *out, ie_error *err) {
    char *field = (char *)out + o->at, *end = NULL;
    errno = 0;
    if (o->kind == O_STR) {
        memcpy(field, &value, sizeof value);
    } else if (o->kind == O_INT) {
        long v = strtol(value, &end, 10);
        if (end == value || *end || errno || (double)v < o->min || (double)v > o->max) return bad_number(o, value, err);
        int32_t i = (int32_t)v;
        memcpy(field, &i, sizeof i);
    } else if (o->kind == O_FLOAT) {
        double v = strtod(value, &end);
        if (end == value || *end || !isfinite(v) || v < o->min || v > o->max) return bad_number(o, value, err);
        memcpy(field, &v, sizeof v);
    } else {
        uint64_t v = strtoull(value, &end, 10);
        if (end == value || *end || errno || *value < '0' || *value > '9') return bad_number(o, value, err);
        memcpy(field, &v, sizeof v);
    }
    return IE_OK;
}

ie_status opt_parse(const opt_table *t, int argc, char **argv, void *out, ie_error *err) {
    bool no_more = false; /* behind "--" everything is a file name */
    const char **model = (const char **)(void *)((char *)out + t->model);
    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i], *eq = arg[0] == '-' && arg[1] == '-' ? strchr(arg, '=') : NULL;
        if (!no_more && !strcmp(arg, "--")) {
            no_more = true;
            continue;
        }
        if (no_more || arg[0] != '-' || arg[1] == 0) {
            if (*model) return ie_fail(err, IE_E_ARG, "two model files given: '%s' and '%s'", *model, arg);
            *model = arg;
            continue;
        }
        const option *opt = find(t, arg, eq ? (size_t)(eq - arg) : strlen(arg));
        if (!opt) return ie_fail(err, IE_E_ARG, "unknown option '%s'; %s --help lists them", arg, t->program);
        if (opt->kind == O_FLAG) {
            if (eq) return ie_fail(err, IE_E_ARG, "option %s takes no value", opt->name);
            *((bool *)((char *)out + opt->at)) = true;
            continue;
        }
        const char *value = eq ? eq + 1 : i + 1 < argc ? argv[++i] : NULL;
        if (!value) return ie_fail(err, IE_E_ARG, "option %s needs a value (%s)", opt->name, opt->arg);
        ie_status st = set(opt, value, out, err);
        if (st) return st;
    }
    return IE_OK;
}
