/* The kernels of a device, by name. A driver that compiles them (CUDA's: about a second for the matrices of a weight format) gets them in parts, those
 * that a model needs when it is opened; others all at once. */
#ifndef IE_GPU_MODULES_H
#define IE_GPU_MODULES_H

#include "driver.h"

typedef struct {
    gpu_driver *drv;
    const void *image;           /* the code, and its name for messages */
    char name[320];
    ie_buf file;                 /* the code, if it is a file's */
    gpu_module part[GPU_PARTS];  /* NULL: not loaded; all in that of GPU_PART_REST, if the code does not come in parts */
} gpu_modules;

/* The code in this binary, or a file's, whose name is kept; loads what every model needs. Faults of a file are IE_E_ARG. After a failure, too,
 * gpu_modules_close. */
ie_status gpu_modules_open(gpu_modules *m, gpu_driver *d, const char *file, ie_error *err);
void gpu_modules_close(gpu_modules *m); /* all zeros is allowed */
ie_status gpu_modules_need(gpu_modules *m, const bool parts[GPU_PARTS], ie_error *err); /* loads those that are true */
/* A kernel; loads its part first, if nobody has. */
ie_status gpu_modules_find(gpu_modules *m, const char *kernel, gpu_function *out, ie_error *err);

#endif
