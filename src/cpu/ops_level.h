/* The ops of one SIMD level: included by ops_LEVEL.c after the vector vocabulary, with OPS_TABLE naming the table. */
#include <math.h>
#include <string.h>

#include "ops.h"
#include "simd_math.h"
#include "simd_ops.h"

#include "ops_rows_kern.h"

#include "ops_attn_kern.h"

#include "ops_gdn_kern.h"

const ie_ops_table OPS_TABLE = {
    .level = IE_LEVEL_ID,
    .rms = k_rms,
    .norm = k_norm,
    .head_norm = k_head_norm,
    .rope = k_rope,
    .to_f16 = k_to_f16,
    .swiglu = k_swiglu,
    .gate = k_gate,
    .conv_taps = k_conv_taps,
    .conv = k_conv,
    .l2_norm = k_l2_norm,
    .gated_norm = k_gated_norm,
    .gdn_steps = k_gdn_steps,
    .gdn_segment = k_gdn_segment,
    .attn = k_attn,
    .attn_join = k_attn_join,
};
