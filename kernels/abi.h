/* What the host and the kernels share: argument structs and records in device memory, each declared here once.
 *
 * Compiled by the host's compiler (addresses are uint64_t) and for the device (pointers to global memory). A kernel takes its
 * argument struct by value. One section a kernel family, in the order of the files. */
#ifndef IE_ABI_H
#define IE_ABI_H

#include <stdint.h>

#ifdef IE_DEVICE
#define IE_GLOBAL __attribute__((address_space(1)))
#define IE_PTR(type) IE_GLOBAL type *
#else
#define IE_PTR(type) uint64_t
#endif

#define IE_ABI_T 16u /* tokens of a step (IE_DECODE_T) */

/* A step's batch in device memory, written before the step runs, so that recorded launches stay valid from step to step.
 * Entries from n (n_out) on are zero. */
typedef struct {
    uint32_t n, n_out;
    uint32_t n_pages_max; /* pages of the longest sequence in the batch, this step's tokens included */
    uint32_t reserved;
    int32_t token[IE_ABI_T];
    uint32_t seq[IE_ABI_T], pos[IE_ABI_T];
    uint32_t out[IE_ABI_T]; /* batch rows whose logits are wanted */
    uint32_t bad;           /* set by the device: largest IE_ABI_BAD(op) of an op that quantised a non-finite value */
    uint32_t reserved2[3];
} ie_abi_batch;
_Static_assert(sizeof(ie_abi_batch) == 16 + 5 * 64 - 64 + 16, "the layout that kernels read");

/* So that atomic max keeps the first op of the list (op < 2^31). */
#define IE_ABI_BAD(op) (0xFFFFFFFFu - (uint32_t)(op))

#endif
