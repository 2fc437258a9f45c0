/* What the generation loop, pooling and the server need of a context beyond the public API. */
#ifndef IE_CONTEXT_H
#define IE_CONTEXT_H

#include "model/model.h"
#include "pages.h"

const ie_model *ie_ctx_model(const ie_ctx *c);
int32_t ie_ctx_chunk(const ie_ctx *c); /* tokens of a prefill batch at most */
ie_pages *ie_ctx_pages(ie_ctx *c);
ie_state *ie_ctx_state(ie_ctx *c); /* the backend's */

/* ie_logits with a reason where there are none. */
ie_status ie_ctx_logits(ie_ctx *c, int32_t i, const float **out, ie_error *err);

/* ie_sample on the logits of batch element i. Where the backend can choose the candidates that decide, the row is not read. */
ie_status ie_ctx_sample(ie_ctx *c, int32_t i, const ie_sampling *s, const int32_t *history, int32_t n_history, uint64_t index, int32_t *out,
                        ie_error *err);

#endif
