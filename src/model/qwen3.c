/* qwen3: as qwen2 without biases, with RMSNorm of each q and k head before the rotation. */
#include "dense.h"

static ie_status load(ie_model *m, ie_loader *l, ie_error *err) {
    return ie_dense_load(m, l, &(ie_dense_opts){.neox = true, .head_norm = true}, err);
}

const ie_arch ie_arch_qwen3 = {"qwen3", load, ie_dense_build, NULL};
