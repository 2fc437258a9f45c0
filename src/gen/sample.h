/* Sampling from a few candidates instead of a whole row of logits. */
#ifndef IE_SAMPLE_H
#define IE_SAMPLE_H

#include "../backend.h"

/* How many of the best candidates decide: 1 when greedy, top_k; 0: the whole row does (penalties, biases, masks, no top-k). */
int32_t ie_sample_needs(const ie_sampling *s, int32_t n_history, uint64_t index);
/* The token that ie_sample would choose from the row whose best candidates these are, in order (ie_backend_api.top). */
ie_status ie_sample_from(const ie_sampling *s, const ie_cand *c, int32_t n, uint64_t index, int32_t *out, ie_error *err);

#endif
