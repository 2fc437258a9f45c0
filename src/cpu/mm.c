#include "mm.h"

const ie_mm_table *ie_mm_of(ie_level level) {
    static const ie_mm_table *const tables[IE_LEVEL_COUNT] = {
        [IE_LEVEL_PORTABLE] = &ie_mm_portable, [IE_LEVEL_AVX2] = &ie_mm_avx2, [IE_LEVEL_AVX512] = &ie_mm_avx512};
    return tables[level];
}
