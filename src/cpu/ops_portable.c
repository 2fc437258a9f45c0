#include "simd_portable.h"
#define OPS_TABLE ie_ops_portable
#include "ops_level.h"
