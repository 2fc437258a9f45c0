/* The dense transformer layer that Llama, Qwen2 and Qwen3 share: nine ops.
 *
 *   RMSNorm -> Q8 | q|k|v | head norms, RoPE, KV write | attention -> Q8 | output + residual |
 *   RMSNorm -> Q8 | gate|up | SwiGLU -> Q8 | down + residual
 *
 * An architecture file says what it adds (biases, head norms, the kind of rotation). */
#ifndef IE_DENSE_H
#define IE_DENSE_H

#include "model.h"

typedef struct {
    bool neox;      /* rotation pairs (i, i + dim / 2) instead of (2i, 2i + 1) */
    bool head_norm; /* RMSNorm of each q and k head */
} ie_dense_opts;

ie_status ie_dense_load(ie_model *m, ie_loader *l, const ie_dense_opts *o, ie_error *err);
ie_status ie_dense_build(const ie_model *m, ie_builder *b, ie_error *err);

#endif
