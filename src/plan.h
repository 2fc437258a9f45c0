/* Arena planner: where each activation buffer of an op list lies. */
#ifndef IE_PLAN_H
#define IE_PLAN_H

#include "base.h"

/* A buffer: bytes of data that must survive from op `first` (its writer) to op `last` (its last reader), both included.
 * off: the planner's result in units of IE_PLAN_UNIT (256) bytes. A buffer of 0 bytes takes no room. */
typedef struct {
    uint64_t bytes;
    uint32_t first, last;
    uint32_t off;
} ie_plan_buf;

/* Places n buffers: largest first, each at the lowest offset that no buffer alive at the same time uses; equal input
 * gives an equal plan. Fills b[].off and *arena_bytes (a multiple of 256). The finished plan is checked by
 * ie_plan_check. IE_E_ARG: a reversed live range, or more than IE_PLAN_MAX_BUFS buffers; IE_E_NOMEM: the arena would
 * exceed 2^32 - 1 units; or host memory for the work lists does not suffice. On failure b[].off is unspecified. */
ie_status ie_plan(ie_plan_buf *b, uint32_t n, uint64_t *arena_bytes, ie_error *err);

#endif
