/* The ops of one SIMD level: included by ops_LEVEL.c after the vector vocabulary, with OPS_TABLE naming the table. */
#include <math.h>
#include <string.h>

#include "ops.h"
#include "simd_math.h"
#include "simd_ops.h"

#include "ops_rows_kern.h"

#include "ops_attn_kern.h"

const ie_ops_table OPS_TABLE = {
    .level = IE_LEVEL_ID,
    .rms = k_rms,
    .norm = k_norm,
    .head_norm = k_head_norm,
    .rope = k_rope,
    .to_f16 = k_to_f16,
    .swiglu = k_swiglu,
    .attn = k_attn,
    .attn_join = k_attn_join,
};
