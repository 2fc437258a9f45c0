#include "cpu/simd_avx2.h"
#define IE_X86_VECTORS 1
#define FORMS forms_avx2
#include "forms_level.h"
