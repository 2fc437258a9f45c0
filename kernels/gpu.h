/* The dialect that kernels are written in: C with the names below, compiled by clang for gfx1201 and for nvptx64. Everything
 * that differs between vendors is in this header. A wave is 32 lanes on both; a workgroup is a whole number of waves. Kernels take
 * one argument struct of abi.h by value.
 *
 * Address spaces: IE_GLOBAL device memory; IE_LDS a workgroup's own memory (IE_LDS_VAR declares it: static, not initialised);
 * IE_SCALAR device memory that nobody writes while the kernel runs, read at addresses that are the same in all lanes (on AMD by the
 * scalar unit: results are scalar registers). "Uniform": the same in all lanes of a wave. */
#ifndef IE_KERNEL_GPU_H
#define IE_KERNEL_GPU_H

#define IE_DEVICE 1
#include <stdbool.h>
#include <stdint.h>

#include "abi.h"
#include "ie_core.h"
#include "ie_math.h"

#define IE_INLINE static inline __attribute__((always_inline))
#define IE_LDS __attribute__((address_space(3)))
#if defined(__AMDGCN__)
#define IE_SCALAR __attribute__((address_space(4)))
#else
#define IE_SCALAR __attribute__((address_space(1))) /* NVIDIA's constant space is other memory */
#endif
#define ie_scalar(p) ((IE_SCALAR const float *)(p)) /* of floats */

typedef uint32_t ie_u4 __attribute__((ext_vector_type(4)));

#if defined(__AMDGCN__)

#define IE_KERNEL(lanes) __attribute__((amdgpu_kernel, amdgpu_flat_work_group_size(lanes, lanes))) void
#define IE_LDS_VAR __attribute__((address_space(3), loader_uninitialized))

/* ---- who am I -------------------------------------------------------------------------------------------------------- */

IE_INLINE uint32_t ie_tid(void) { return __builtin_amdgcn_workitem_id_x(); }
IE_INLINE uint32_t ie_lane(void) { return __builtin_amdgcn_mbcnt_lo(~0u, 0u); }
IE_INLINE uint32_t ie_wg_x(void) { return __builtin_amdgcn_workgroup_id_x(); }
IE_INLINE uint32_t ie_wg_y(void) { return __builtin_amdgcn_workgroup_id_y(); }
IE_INLINE uint32_t ie_wg_z(void) { return __builtin_amdgcn_workgroup_id_z(); }

/* ---- between lanes ----------------------------------------------------------------------------------------------------- */

/* The value, which is the same in all lanes, as a scalar (to take lane 0's value, use ie_readlane). */
IE_INLINE uint32_t ie_uniform(uint32_t x) { return (uint32_t)__builtin_amdgcn_readfirstlane((int)x); }
/* Lane l's value; l is uniform, all lanes take part. */
IE_INLINE uint32_t ie_readlane(uint32_t x, uint32_t l) { return (uint32_t)__builtin_amdgcn_readlane((int)x, (int)l); }
/* The value of lane ^ m for a constant m of 1, 2, 4, 8, 16; all lanes take part. Vector instructions, no LDS. */
#define ie_xor(x, m) ((m) == 16 ? ie_xor16(x) : (uint32_t)__builtin_amdgcn_update_dpp(0, (int)(x), 0x160 | ((m) & 15), 0xF, 0xF, true))
IE_INLINE uint32_t ie_xor16(uint32_t x) {
    return (uint32_t)__builtin_amdgcn_permlanex16(0, (int)x, 0x76543210, (int)0xFEDCBA98, false, false);
}

/* The compiler moves nothing over this point: a load that is written before it is under way before what follows. */
IE_INLINE void ie_keep_order(void) { __builtin_amdgcn_sched_barrier(0); }

/* ---- order and atomics ------------------------------------------------------------------------------------------------- */

/* All waves of the workgroup have arrived, and see each other's memory. */
IE_INLINE void ie_barrier(void) {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
/* Before telling other workgroups, and after having been told. */
IE_INLINE void ie_release(void) { __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent"); }
IE_INLINE void ie_acquire(void) { __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent"); }

#elif defined(__NVPTX__)

#define IE_KERNEL(lanes) __attribute__((nvptx_kernel)) void
#define IE_LDS_VAR __attribute__((address_space(3), loader_uninitialized))

IE_INLINE uint32_t ie_tid(void) { return (uint32_t)__nvvm_read_ptx_sreg_tid_x(); }
IE_INLINE uint32_t ie_lane(void) { return (uint32_t)__nvvm_read_ptx_sreg_laneid(); }
IE_INLINE uint32_t ie_wg_x(void) { return (uint32_t)__nvvm_read_ptx_sreg_ctaid_x(); }
IE_INLINE uint32_t ie_wg_y(void) { return (uint32_t)__nvvm_read_ptx_sreg_ctaid_y(); }
IE_INLINE uint32_t ie_wg_z(void) { return (uint32_t)__nvvm_read_ptx_sreg_ctaid_z(); }

/* A hint on AMD, nothing here: the value has to be the same in all lanes already (else ie_readlane). */
IE_INLINE uint32_t ie_uniform(uint32_t x) { return x; }
IE_INLINE uint32_t ie_readlane(uint32_t x, uint32_t l) { return (uint32_t)__nvvm_shfl_sync_idx_i32(-1, (int)x, (int)l, 31); }
#define ie_xor(x, m) ((uint32_t)__nvvm_shfl_sync_bfly_i32(-1, (int)(x), (m), 31))

IE_INLINE void ie_keep_order(void) {} /* the driver's compiler schedules anew */

IE_INLINE void ie_barrier(void) { __syncthreads(); }
IE_INLINE void ie_release(void) { __nvvm_membar_gl(); }
IE_INLINE void ie_acquire(void) { __nvvm_membar_gl(); }

#else
#error "kernels are compiled for amdgcn or nvptx64"
#endif

IE_INLINE uint32_t ie_wave(void) { return ie_uniform(ie_tid() / 32u); }
IE_INLINE float ie_uniformf(float x) { return ie_f32_of(ie_uniform(ie_bits_of(x))); }
IE_INLINE float ie_readlanef(float x, uint32_t l) { return ie_f32_of(ie_readlane(ie_bits_of(x), l)); }
#define ie_xorf(x, m) ie_f32_of(ie_xor(ie_bits_of(x), m))

/* ---- sums and maxima over a wave ----------------------------------------------------------------------------------------- */

/* The halving tree: addition commutes, so all lanes get what lane 0 gets. */
IE_INLINE float ie_wave_tree(float x) {
    x += ie_xorf(x, 16);
    x += ie_xorf(x, 8);
    x += ie_xorf(x, 4);
    x += ie_xorf(x, 2);
    x += ie_xorf(x, 1);
    return ie_uniformf(x);
}
IE_INLINE uint32_t ie_larger_(uint32_t a, uint32_t b) { return a > b ? a : b; }
IE_INLINE uint32_t ie_wave_maxu(uint32_t x) {
    x = ie_larger_(x, ie_xor(x, 16));
    x = ie_larger_(x, ie_xor(x, 8));
    x = ie_larger_(x, ie_xor(x, 4));
    x = ie_larger_(x, ie_xor(x, 2));
    x = ie_larger_(x, ie_xor(x, 1));
    return ie_uniform(x);
}
IE_INLINE float ie_largerf_(float a, float b) { return a > b ? a : b; }
IE_INLINE float ie_wave_max(float x) { /* of numbers; with NaNs any of the lanes' values */
    x = ie_largerf_(x, ie_xorf(x, 16));
    x = ie_largerf_(x, ie_xorf(x, 8));
    x = ie_largerf_(x, ie_xorf(x, 4));
    x = ie_largerf_(x, ie_xorf(x, 2));
    x = ie_largerf_(x, ie_xorf(x, 1));
    return ie_uniformf(x);
}

/* ---- atomics: relaxed; order comes from ie_release and ie_acquire ---------------------------------------------------------- */

IE_INLINE uint32_t ie_atomic_add(IE_GLOBAL uint32_t *p, uint32_t v) {
    return __scoped_atomic_fetch_add(p, v, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
}
IE_INLINE void ie_atomic_max(IE_GLOBAL uint32_t *p, uint32_t v) {
    __scoped_atomic_fetch_max(p, v, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
}
IE_INLINE uint32_t ie_lds_add(IE_LDS uint32_t *p, uint32_t v) {
    return __scoped_atomic_fetch_add(p, v, __ATOMIC_RELAXED, __MEMORY_SCOPE_WRKGRP);
}

/* ---- memory: 16 bytes a lane, aligned to 16 -------------------------------------------------------------------------------- */

#define ie_load16(p) (*(IE_GLOBAL const ie_u4 *)(p))
#define ie_lds16(p) (*(const IE_LDS ie_u4 *)(p))
#define ie_lds_put16(p, v) (*(IE_LDS ie_u4 *)(p) = (v))

/* ---- floats: correctly rounded --------------------------------------------------------------------------------------------- */

IE_INLINE float ie_div(float a, float b) { return a / b; }
IE_INLINE float ie_sqrt(float a) { return __builtin_sqrtf(a); }

/* f16: the low and the high half of a word as f32; two f32 to a word, nearest even. */
IE_INLINE float ie_f16_of(uint16_t h) {
    _Float16 f;
    __builtin_memcpy(&f, &h, sizeof f);
    return (float)f;
}
IE_INLINE float ie_f16_lo(uint32_t w) { return ie_f16_of((uint16_t)w); }
IE_INLINE float ie_f16_hi(uint32_t w) { return ie_f16_of((uint16_t)(w >> 16)); }
IE_INLINE uint32_t ie_f16_put2(float lo, float hi) {
    _Float16 h[2] = {(_Float16)lo, (_Float16)hi};
    uint32_t w;
    __builtin_memcpy(&w, h, sizeof w);
    return w;
}

#endif
