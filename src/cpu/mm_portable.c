#include "simd_portable.h"

#include "mm_kern.h"

const ie_mm_table ie_mm_portable = {.level = IE_LEVEL_PORTABLE, .mm = mm_rows, .q8 = q8_quantize};
