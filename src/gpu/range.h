/* A range of device addresses that gets its memory bit by bit, from the front (range.c). */
#ifndef IE_GPU_RANGE_H
#define IE_GPU_RANGE_H

#include "driver_int.h"

typedef struct {
    void *memory; /* the driver's handle */
    uint64_t bytes;
} gpu_piece;
typedef struct {
    const char *what; /* for messages; the caller's */
    gpu_ptr base;
    uint64_t bytes;   /* addresses */
    uint64_t mapped;  /* of them with memory, from the front */
    uint64_t step;    /* bytes that are added at a time; 0: one allocation, all there */
    gpu_piece *piece;
    size_t n, cap;
} gpu_range;

/* At least `bytes` addresses (0: none), none with memory yet, unless the card cannot do that: then all of them. what: named when memory is short.
 * After a failure there is nothing to free. */
ie_status gpu_range_new(gpu_driver *d, uint64_t bytes, const char *what, gpu_range *r, ie_error *err);
/* At least the first `bytes` have memory; what was there stays, what is new is undefined. IE_E_NOMEM names need and have, and the range keeps
 * what it had. */
ie_status gpu_range_grow(gpu_driver *d, gpu_range *r, uint64_t bytes, ie_error *err);
void gpu_range_free(gpu_driver *d, gpu_range *r); /* nobody uses it any more; a zeroed range is allowed */

#endif
