/* qwen2: q, k and v have biases; rotation of the two halves of a head. */
#include "dense.h"

static ie_status load(ie_model *m, ie_loader *l, ie_error *err) {
    return ie_dense_load(m, l, &(ie_dense_opts){.neox = true}, err);
}

const ie_arch ie_arch_qwen2 = {"qwen2", load, ie_dense_build, NULL};
