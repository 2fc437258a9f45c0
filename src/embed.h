/* Pooling of hidden states to one vector, row by row, so that it does not matter how a text was cut into batches. */
#ifndef IE_EMBED_H
#define IE_EMBED_H

#include "base.h"

/* Adds the hidden state of the next token (n floats) to the sums (n doubles, zeros at first). With IE_POOL_LAST the sums are
 * what came last. */
void ie_pool_add(ie_pooling pooling, const float *row, int32_t n, double *sum);
/* The vector of length 1; zeros where the sums are zeros. IE_E_NUMERIC where it is not finite. The mean's divisor cancels out. */
ie_status ie_pool_end(const double *sum, int32_t n, float *out, ie_error *err);

#endif
