#include "simd_avx512.h"

#include "mm_kern.h"

const ie_mm_table ie_mm_avx512 = {.level = IE_LEVEL_AVX512, .mm = mm_rows, .q8 = q8_quantize};
