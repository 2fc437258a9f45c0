/* The kernels' machine code in this binary. */
#ifndef IE_GPU_CODE_H
#define IE_GPU_CODE_H

#include "driver.h"

typedef struct {
    const void *data; /* NULL: this build has none */
    const char *name; /* for messages */
} gpu_code;

extern const gpu_code gpu_codes[GPU_VENDORS];
/* Of a vendor's name: what to do where there are none. */
#define GPU_NO_CODE "%s: this build holds no GPU kernels: make setup gets their compiler, then build again; or give --hsaco FILE (make kernels on another machine)"

#endif
