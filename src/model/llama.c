/* llama: rotation of neighbouring pairs, optional biases, Llama 3's rope_freqs. */
#include "dense.h"

static ie_status load(ie_model *m, ie_loader *l, ie_error *err) {
    return ie_dense_load(m, l, &(ie_dense_opts){.neox = false}, err);
}

const ie_arch ie_arch_llama = {"llama", load, ie_dense_build, NULL};
