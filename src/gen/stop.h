/* The text of a generation as it may be handed out: whole UTF-8 characters only, and nothing that may still turn out to be
 * the beginning of a stop string. What is handed out depends on the bytes alone, not on how tokens cut them.
 *
 *     ie_stop s;
 *     ie_stop_init(&s, strings, n, err);
 *     each token:  ie_stop_add(&s, bytes, n, &text, &len, err);  hand out text; s.hit >= 0: a stop string was met, the end
 *     at the end:  ie_stop_flush(&s, &text, &len);               what was held back
 *     ie_stop_free(&s);
 */
#ifndef IE_STOP_H
#define IE_STOP_H

#include "../base.h"

#define IE_STOP_MAX 64u           /* strings */
#define IE_STOP_MAX_BYTES 4096u   /* of one string */

typedef struct {
    const char *s;
    size_t len;
} ie_stop_text;

typedef struct {
    uint32_t n;
    int hit;             /* index of the string that ended the text, -1: none yet */
    struct ie_stop_one *one;
    ie_buf pending;      /* bytes not handed out yet */
    size_t given;        /* of them, handed out by the last call */
} ie_stop;

/* Copies the n strings (n may be 0). IE_E_ARG: too many, an empty or an overlong one. On failure nothing is kept. */
ie_status ie_stop_init(ie_stop *s, const ie_stop_text *strings, size_t n, ie_error *err);
void ie_stop_free(ie_stop *s); /* also of a zeroed one */

/* Takes the bytes of a token. *text, *len: what has become ready, valid until the next call. Once s->hit is set the text is
 * complete (the stop string itself and what follows it are dropped) and further bytes are ignored. */
ie_status ie_stop_add(ie_stop *s, const char *bytes, size_t n, const char **text, size_t *len, ie_error *err);
/* The end of the text: hands out what was held back for a stop string that did not come. The bytes of an unfinished
 * character at the very end are left out. */
void ie_stop_flush(ie_stop *s, const char **text, size_t *len);

#endif
