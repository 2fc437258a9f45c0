#include "simd_avx2.h"

#include "mm_kern.h"

const ie_mm_table ie_mm_avx2 = {.level = IE_LEVEL_AVX2, .mm = mm_rows, .q8 = q8_quantize};
