/* Several matrices times one row, in one launch (AMD): what several launches of gemv.c's one-token kernels do, with their code and their bits. Small
 * matrices then cost no launch of their own, and their waves wait for memory while those of large ones read.
 *
 *   ie_gemv_many   y_k[r] = row r of matrix k . x_k (+ bias_k[r]), k < IE_MANY
 *
 * Launch: 32 lanes a wave, up to 256; x = workgroups of all matrices, one after the other. Operands, LDS, bytes: gemv.c. Registers: those of the widest format. */
#include "gpu.h"
#include "ie_layout.h"

#if IE_LAST_GROUP

#define MANY_Q8(NAME) \
    case IE_MANY_##NAME: gemv_##NAME(&g, wg, sums, none); break;
#define MANY_FLOAT(NAME) \
    case IE_MANY_##NAME: gemv_##NAME(&g, wg, sums); break;

__attribute__((amdgpu_num_vgpr(96))) IE_KERNEL_UP_TO(256) ie_gemv_many(ie_abi_many a) {
    static IE_LDS_VAR float sums[SUMS(1u)];
    static IE_LDS_VAR uint32_t none[1]; /* activations come through scalar registers */
    IE_SCALAR const ie_abi_many *m = (IE_SCALAR const ie_abi_many *)ie_kernarg_();
    uint32_t k = 0, wg = ie_wg_x();
#pragma unroll
    for (uint32_t i = 0; i + 1u < IE_MANY; i++) k += wg >= a.part[i].end; /* ends ascend */
    if (k) wg -= m->part[k - 1u].end;
    IE_SCALAR const ie_abi_many_part *p = &m->part[k];
    const ie_abi_gemv g = {.x = p->x, .w = p->w, .y = p->y, .bias = p->bias, .rows = p->rows, .cols = m->cols, .nblk = m->nblk, .n = 1u, .waves = p->waves};
    switch (p->format) {
        MANY_Q8(q4_0) MANY_Q8(q4_1) MANY_Q8(q5_0) MANY_Q8(q5_1) MANY_Q8(q8_0) MANY_Q8(q2_k) MANY_Q8(q3_k) MANY_Q8(q4_k) MANY_Q8(q5_k) MANY_Q8(q6_k)
        MANY_Q8(iq4_nl) MANY_Q8(iq4_xs) MANY_FLOAT(f32) MANY_FLOAT(f16) MANY_FLOAT(bf16)
    default: break;
    }
}

#endif
