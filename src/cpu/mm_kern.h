/* The matrix kernels of one SIMD level: included by mm_avx512.c, mm_avx2.c and mm_portable.c after their simd_*.h. */
#ifndef IE_MM_KERN_H
#define IE_MM_KERN_H

#include <string.h>

#include "mm.h"

#include "simd_block.h"

#include "mm_acc.h"

#include "mm_float.h"
#if IE_VECTORS
#include "mm_gemv.h"
#endif
#include "mm_gemm.h"
#include "simd_q8.h"

typedef void ie_mm_fn(const ie_mm_args *a, uint32_t row0, uint32_t row1);

static const struct {
    ie_mm_fn *fn[5]; /* T = 1, 2, up to 4, up to 8, more */
} kernels[IE_F_COUNT] = {
#if IE_VW == 16u
#define IE_ROW(F) [IE_F_##F] = {{gemv_##F##_1, gemv_##F##_2, gemv_##F##_4, gemv_##F##_8, gemm_##F}}
#define IE_ROW_K(F) [IE_F_##F] = {{gemv_##F##_1, gemv_##F##_2, gemv_##F##_4, gemm_##F, gemm_##F}}
#elif IE_VECTORS
#define IE_ROW(F) [IE_F_##F] = {{gemv_##F##_1, gemv_##F##_2, gemm_##F, gemm_##F, gemm_##F}} /* 16 registers hold no 8 + 8 sums */
#define IE_ROW_K IE_ROW
#else
#define IE_ROW(F) [IE_F_##F] = {{gemm_##F, gemm_##F, gemm_##F, gemm_##F, gemm_##F}} /* small rather than fast */
#define IE_ROW_K IE_ROW
#endif
    IE_ROW(Q4_0), IE_ROW(Q4_1), IE_ROW(Q5_0), IE_ROW(Q5_1), IE_ROW(Q8_0), IE_ROW(IQ4_NL),
    IE_ROW_K(Q2_K), IE_ROW_K(Q3_K), IE_ROW_K(Q4_K), IE_ROW_K(Q5_K), IE_ROW_K(Q6_K), IE_ROW_K(IQ4_XS),
#undef IE_ROW_K
#undef IE_ROW
#define IE_ROW(F) [IE_F_##F] = {{float_##F, float_##F, float_##F, float_##F, float_##F}}
    IE_ROW(F32), IE_ROW(F16), IE_ROW(BF16),
#undef IE_ROW
};

static void mm_rows(const ie_mm_args *a, uint32_t row0, uint32_t row1) {
    const ie_format_id f = a->mat->fmt->id;
    uint32_t i = 0;
    while (i < 4u && a->t > 1u << i) i++;
    kernels[f].fn[i](a, row0, row1);
}

#endif
