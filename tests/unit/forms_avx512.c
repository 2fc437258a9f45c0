#include "cpu/simd_avx512.h"
#define IE_X86_VECTORS 1
#define FORMS forms_avx512
#include "forms_level.h"
