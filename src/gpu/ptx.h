/* The kernels' PTX text: its parts, and what newer cards get. */
#ifndef IE_GPU_PTX_H
#define IE_GPU_PTX_H

#include "driver.h"

bool gpu_ptx_is(const char *image);
/* A copy of the text with the kernels of one part (driver.h), or all of them: GPU_PART_ALL. newer: for sm_90 and later. NULL with *err: no memory.
 * The caller frees it. */
char *gpu_ptx_text(const char *ptx, uint32_t part, bool newer, ie_error *err);
/* The number after ".version ", "?" where there is none. */
void gpu_ptx_version(const char *ptx, char *out, size_t n);

#endif
