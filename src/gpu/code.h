/* The kernels' machine code in this binary. */
#ifndef IE_GPU_CODE_H
#define IE_GPU_CODE_H

#include "driver.h"

typedef struct {
    const void *data; /* NULL: this build has none */
    const char *name; /* for messages */
} gpu_code;

extern const gpu_code gpu_codes[GPU_VENDORS];

#endif
