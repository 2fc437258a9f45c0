#include "simd_avx512.h"
#define IE_X86_VECTORS 1
#define OPS_TABLE ie_ops_avx512
#include "ops_level.h"
