#include "simd_avx2.h"
#define IE_X86_VECTORS 1
#define OPS_TABLE ie_ops_avx2
#include "ops_level.h"
