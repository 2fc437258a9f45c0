/* What the generation loop needs of a context beyond the public API. */
#ifndef IE_CONTEXT_H
#define IE_CONTEXT_H

#include "model/model.h"

const ie_model *ie_ctx_model(const ie_ctx *c);

/* ie_logits with a reason where there are none. */
ie_status ie_ctx_logits(ie_ctx *c, int32_t i, const float **out, ie_error *err);

#endif
