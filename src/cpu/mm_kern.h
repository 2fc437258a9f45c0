/* The matrix kernels of one SIMD level: included by mm_avx512.c, mm_avx2.c and mm_portable.c after their simd_*.h. */
#ifndef IE_MM_KERN_H
#define IE_MM_KERN_H

#include <string.h>

#include "mm.h"

#include "mm_unpack.h"

#include "mm_acc.h"

#include "mm_float.h"
#if IE_VECTORS
#include "mm_gemv.h"
#endif
#include "mm_gemm.h"
#include "mm_q8.h"

typedef void ie_mm_fn(const ie_mm_args *a, uint32_t row0, uint32_t row1);

static const struct {
    ie_mm_fn *one, *many; /* T = 1, T > 1 */
} kernels[IE_F_COUNT] = {
#if IE_VECTORS
#define IE_ROW(F) [IE_F_##F] = {gemv_##F, gemm_##F}
#else
#define IE_ROW(F) [IE_F_##F] = {gemm_##F, gemm_##F} /* small rather than fast */
#endif
    IE_ROW(Q4_0), IE_ROW(Q4_1), IE_ROW(Q5_0), IE_ROW(Q5_1), IE_ROW(Q8_0), IE_ROW(Q2_K),
    IE_ROW(Q3_K), IE_ROW(Q4_K), IE_ROW(Q5_K), IE_ROW(Q6_K), IE_ROW(IQ4_NL), IE_ROW(IQ4_XS),
#undef IE_ROW
    [IE_F_F32] = {float_F32, float_F32},
    [IE_F_F16] = {float_F16, float_F16},
    [IE_F_BF16] = {float_BF16, float_BF16},
};

static void mm_rows(const ie_mm_args *a, uint32_t row0, uint32_t row1) {
    const ie_format_id f = a->mat->fmt->id;
    (a->t == 1 ? kernels[f].one : kernels[f].many)(a, row0, row1);
}

#endif
