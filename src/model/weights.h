/* The weights of an open model: what ops refer to by index. */
#ifndef IE_WEIGHTS_H
#define IE_WEIGHTS_H

#include "../op.h"

struct ie_weights {
    ie_mat *mat;
    uint32_t n_mat, cap_mat;
    ie_vec *vec;
    uint32_t n_vec, cap_vec;
    uint64_t bytes; /* of weight memory in all */
};

#endif
