/* What the generation loop needs of a context beyond the public API. */
#ifndef IE_CONTEXT_H
#define IE_CONTEXT_H

#include "model/model.h"

const ie_model *ie_ctx_model(const ie_ctx *c);

#endif
