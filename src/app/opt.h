/* Option tables: one row gives an option's name, type, range and help. Shared by the programs. */
#ifndef IE_OPT_H
#define IE_OPT_H

#include <stdio.h>

#include "../base.h"

typedef enum { O_GROUP, O_FLAG, O_STR, O_INT, O_FLOAT, O_U64 } opt_kind;

typedef struct {
    opt_kind kind;
    const char *name, *alias, *arg;
    size_t at;          /* offset in the program's struct: bool, const char *, int32_t, double, uint64_t by kind */
    double min, max;    /* O_INT, O_FLOAT */
    const char *help;
} option;

typedef struct {
    const char *program;
    const option *rows;
    size_t n;
    size_t model; /* offset of the const char * that takes the one argument which is no option */
} opt_table;

/* Fills the struct at out; on failure *err has one line that names the option, its value and what is allowed. */
ie_status opt_parse(const opt_table *t, int argc, char **argv, void *out, ie_error *err);
/* A line for each row, groups with a heading. */
void opt_help(const opt_table *t, FILE *out);

#endif
