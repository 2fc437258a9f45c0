/* JSON Schema to rules, inside. Each subschema becomes a rule of its own, made from a queue: schemas may refer to themselves, and
 * depth of nesting costs no stack. What a schema allows is never exceeded; where its whole width cannot be had (property order,
 * spellings of numbers, additional properties that nobody declared) the rules give a part of it. A keyword that would have to be
 * guaranteed and cannot be is refused by name. */
#ifndef IE_SCHEMA_H
#define IE_SCHEMA_H

#include <jansson.h>

#include "grammar.h"

typedef enum { SC_NULL, SC_BOOL, SC_INT, SC_NUM, SC_STR, SC_ARR, SC_OBJ, SC_TYPES } sc_type;
#define SC_ANY ((1u << SC_TYPES) - 1)

#define SC_MADE "" /* a member of schemas made on the way, which tells them from the document's */

typedef struct {
    const json_t *schema;
    uint32_t rule;
    char *path; /* where it stands, for messages */
} sc_job;

typedef struct {
    gr_build *b;
    json_t *root;
    json_t *kept;  /* array: schemas made on the way, alive until the end */
    json_t *memo;  /* object: address of a schema, or the text of one made on the way → rule */
    sc_job *job;
    size_t n_job, cap_job, next;
    size_t work;
    size_t made_bytes;   /* text of schemas made on the way */
    const char *path;    /* of the job at work */
    gr_elem ws, sp, chars, plain, str, integer, number, value, any_object; /* shared rules, made when first asked for */
    bool has_values, has_ws, has_chars, has_numbers;
} sc;

/* Fails with the place: "schema, at #/properties/a: ..." */
void sc_fail(sc *s, ie_status code, const char *fmt, ...) IE_PRINTF(3, 4);

/* ---- schema.c ---- */
gr_elem sc_rule(sc *s, const json_t *schema, const char *step); /* the rule of a subschema; step: how it is reached from here */
const json_t *sc_keep(sc *s, json_t *made);                     /* takes the reference */
gr_elem sc_text(sc *s, const char *text);                       /* a literal */
gr_elem sc_json(sc *s, const json_t *v);                        /* a literal: a value as JSON */
gr_elem sc_ws(sc *s);                                           /* white space between the parts of arrays and objects */
gr_elem sc_space(sc *s);                                        /* behind a colon */
gr_elem sc_value(sc *s);                                        /* any JSON value */

/* ---- schema_merge.c ---- */
/* A schema without $ref and allOf that allows the same; NULL on failure. Borrowed, lives as long as s. A schema that nothing fits
 * is JSON false. */
const json_t *sc_flat(sc *s, const json_t *schema);
unsigned sc_types(sc *s, const json_t *flat); /* bits 1 << sc_type that a flat schema's values may have */
bool sc_integer(sc *s, const json_t *flat, const char *key, uint64_t none, uint64_t *out); /* a count; none where it is absent */
/* No value that the rules of flat schema a give is valid for flat schema b. */
bool sc_apart(sc *s, const json_t *a, const json_t *b, int depth);

/* ---- the types ---- */
gr_elem sc_object(sc *s, const json_t *flat);
gr_elem sc_array(sc *s, const json_t *flat);
gr_elem sc_string(sc *s, const json_t *flat);
gr_elem sc_number(sc *s, const json_t *flat, bool integer);
gr_elem sc_chars(sc *s);                       /* one character of a JSON string, escapes included */
gr_elem sc_any_string(sc *s);
gr_elem sc_other_key(sc *s, json_t *declared); /* a key that is none of an object's, quotes included */
/* A JSON string, quotes included, that the regular expression finds a match in; its number of characters is in [min, max]. */
gr_elem sc_regex(sc *s, const char *re, size_t len, uint64_t min, uint64_t max);

#endif
