/* Where each sequence's recurrent state stands, and what a step replays, stores and logs: one code for all backends.
 *
 * A sequence's state is stored at position `base`; the log holds the inputs of [base, end). A step that begins at position
 * pos replays [base, pos) and stores the state again at `next`:
 *   decode   next = pos + 1: the first token of a batch is always kept, any of the others may be dropped again;
 *   prefill  next = the beginning of the last segment of 32 positions, so that a segment's results do not depend on how a
 *            prompt was cut into batches.
 * Backends keep the states and logs themselves, in the layout of ie_gdn_shape (backend.h):
 *   states [sequence][layer][n_v][hd / 32][hd][32], logs [sequence][layer][IE_GDN_LOG_ROWS][ie_gdn_log_row]: the input of
 *   position p >= base in row p mod 32, that of one of the 3 before base in row 32 + p mod 4. */
#ifndef IE_GDN_LOG_H
#define IE_GDN_LOG_H

#include "backend.h"

#define IE_GDN_SEGMENT IE_LOG_SLOTS
#define IE_GDN_LOG_ROWS (IE_LOG_SLOTS + IE_GDN_TAPS)

typedef struct {
    uint32_t base, end;
} ie_gdn_place;

/* The tokens of one sequence in a step. */
typedef struct {
    uint32_t seq, t0, n; /* batch rows */
    uint32_t pos, base, next;
} ie_gdn_block;

typedef struct {
    ie_gdn_place *at; /* [n_seq] */
    uint32_t n_seq;
    ie_gdn_block block[IE_MAX_T];
    uint32_t n_block;  /* of the step that runs; 0: it has no recurrent op */
    uint32_t n_replay; /* 1 + the last block that replays something */
    bool open;         /* a step has been run in part */
    bool last;         /* the run includes the list's last recurrent op */
} ie_gdn_log;

/* IE_E_UNSUPPORTED for shapes that no backend runs. */
ie_status ie_gdn_shape_check(const ie_gdn_shape *s, ie_error *err);
ie_status ie_gdn_log_new(ie_gdn_log *g, uint32_t n_seq, ie_error *err); /* *g zeroed before */
void ie_gdn_log_free(ie_gdn_log *g);

/* Before ops [first, last) of a list run: fills the blocks. IE_E_ARG for positions that the log does not reach. */
ie_status ie_gdn_log_prepare(ie_gdn_log *g, const ie_oplist *l, uint32_t first, uint32_t last, const ie_step *s, ie_error *err);
/* After they ran. */
void ie_gdn_log_commit(ie_gdn_log *g, bool ok);
/* ie_backend_api.seq_rewind; seq < n_seq. */
ie_status ie_gdn_log_rewind(ie_gdn_log *g, uint32_t seq, uint32_t pos, ie_error *err);

/* Whether a place that came from outside (a saved state) is one that a step can go on from. */
static inline bool ie_gdn_place_ok(ie_gdn_place p) { return p.base <= p.end && p.end - p.base <= IE_LOG_SLOTS; }

/* Floats of one layer of one sequence. */
static inline uint64_t ie_gdn_state_floats(const ie_gdn_shape *s) { return (uint64_t)s->n_v * s->hd * s->hd; }
static inline uint64_t ie_gdn_log_floats(const ie_gdn_shape *s) { return IE_GDN_LOG_ROWS * ie_gdn_log_row(s); }

#endif
