/* A run of a list as both backends see it: its checks, and the profile of its ops. */
#ifndef IE_STEP_H
#define IE_STEP_H

#include "backend.h"

typedef struct {
    const ie_state_desc *d;
    const ie_weights *w;
    const ie_oplist *list;
    uint32_t first, last;
    const ie_step *step;
} ie_run;

/* Rows that an op works on. */
static inline uint32_t ie_run_rows(const ie_run *r, const ie_op *op) { return op->of_rows ? r->step->n_out : r->step->n; }

/* Everything that ops rely on: indices, ranges in the arena, positions, pages. Op lists are the engine's own work; batches and
 * page tables come from callers. */
ie_status ie_run_check(const ie_run *r, ie_error *err);

/* ---- IE_PROFILE (profile.c) ------------------------------------------------------------------------------------------ */

typedef struct ie_profile ie_profile;

ie_profile *ie_profile_new(ie_error *err); /* IE_PROFILE_CSV is opened here */
void ie_profile_free(ie_profile *p);
/* A run, then each of its ops with the rows that it worked on and the time it took (0: it was part of the op before it, and does
 * not count); by one thread, contexts in turn. */
void ie_profile_begin(ie_profile *p, const ie_run *r);
void ie_profile_op(ie_profile *p, const ie_run *r, uint32_t op, uint32_t rows, double seconds);
ie_status ie_profile_print(ie_profile *p, ie_buf *out, ie_error *err);

#endif
