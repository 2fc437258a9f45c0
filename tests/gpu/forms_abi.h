/* Argument structs of the test kernels in forms.c, for both sides. A workgroup is one wave. */
#ifndef FORMS_ABI_H
#define FORMS_ABI_H

#include "abi.h"

typedef struct {
    IE_PTR(const uint32_t) in; /* words of each lane, one after the other */
    IE_PTR(uint32_t) out;
} form_args;

/* Words in and out of a lane; of a wave. forms.c says what they are. */
#define FORM_LANE_IN 3u
#define FORM_LANE_OUT 22u
#define FORM_CORE_IN 13u
#define FORM_CORE_OUT 148u
#define FORM_Q8_IN 32u
#define FORM_Q8_OUT 32u
#define FORM_MMA_IN (256u + 8u * 16u)
#define FORM_MMA_OUT (7u * 256u)

#endif
