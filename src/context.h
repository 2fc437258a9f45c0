/* What the generation loop needs of a context beyond the public API. */
#ifndef IE_CONTEXT_H
#define IE_CONTEXT_H

#include "model/model.h"

const ie_model *ie_ctx_model(const ie_ctx *c);
int32_t ie_ctx_last_row(const ie_ctx *c); /* index of the last element of the last batch */

#endif
