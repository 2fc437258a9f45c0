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
typedef float ie_f2 __attribute__((ext_vector_type(2)));

#if defined(__AMDGCN__)

#define IE_KERNEL(lanes) __attribute__((amdgpu_kernel, amdgpu_flat_work_group_size(lanes, lanes))) void
#define IE_KERNEL_UP_TO(lanes) __attribute__((amdgpu_kernel, amdgpu_flat_work_group_size(32, lanes))) void
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

/* The kernel's arguments (its only one, of type *a) once more from memory: what is read through this is not kept in registers from the kernel's
 * begin on. */
#define ie_args_again(a) ((__typeof__(a))ie_kernarg_())
/* x, of which the compiler knows nothing: what is computed from it is computed anew, and not kept from before. */
IE_INLINE uint32_t ie_anew(uint32_t x) {
    __asm__("" : "+s"(x));
    return x;
}
/* An argument that is read with the first ones, not where it is first used: a wave waits for all of them at once. */
#define ie_args_early(p) __asm__ volatile("" : : "s"(p))
IE_INLINE IE_SCALAR const void *ie_kernarg_(void) {
    IE_SCALAR const void *p = __builtin_amdgcn_kernarg_segment_ptr();
    __asm__("" : "+s"(p));
    return p;
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
/* 16 words at a multiple of 64 bytes, the same in all lanes: by one load. The compiler by itself loads the words that are used by two, some way apart, and a
 * wave waits twice. */
typedef uint32_t ie_v16 __attribute__((ext_vector_type(16)));
IE_INLINE void ie_uniform16(IE_SCALAR const uint32_t *p, uint32_t *out) {
    ie_v16 v = *(IE_SCALAR const ie_v16 *)p;
    __asm__("" : "+s"(v));
#pragma unroll
    for (uint32_t e = 0u; e < 16u; e++) out[e] = v[e];
}
/* Before telling other workgroups, and after having been told. */
IE_INLINE void ie_release(void) { __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent"); }
IE_INLINE void ie_acquire(void) { __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent"); }

/* Launches follow each other; the scalar unit reads what is the same in all lanes. */
IE_INLINE void ie_dep_go(void) {}
IE_INLINE void ie_dep_wait(void) {}
#define ie_ahead(p, bytes) ((void)(p), (void)(bytes))
#define IE_UNIFORM_LDS 0
#define IE_COPIES 0
/* A launch can end with work of the whole row that it has made (norm.h). */
#define IE_LAST_GROUP 1
#define ie_weights16(p) ie_load16(p)
typedef struct {
    uint32_t w[3];
} ie_u3;
/* n words (1 to 3, a constant) that follow each other, aligned to 4 bytes: by one load. */
IE_INLINE void ie_weights_few(IE_GLOBAL const uint32_t *p, uint32_t n, uint32_t *out) {
    if (n == 3u) {
        ie_u3 v = *(IE_GLOBAL const ie_u3 *)p;
        out[0] = v.w[0], out[1] = v.w[1], out[2] = v.w[2];
    } else {
        out[0] = p[0];
        if (n == 2u) out[1] = p[1];
    }
}
IE_INLINE void ie_wave_sync(void) {}

#elif defined(__NVPTX__)

#define IE_KERNEL(lanes) __attribute__((nvptx_kernel)) void
#define IE_KERNEL_UP_TO IE_KERNEL
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

#define ie_args_again(a) (a)
#define ie_anew(x) (x)
#define ie_args_early(p) ((void)(p))
/* x, the same in all lanes, in a register: an argument is read from memory each time that it is used otherwise. */
IE_INLINE uint32_t ie_kept(uint32_t x) {
    uint32_t r;
    __asm__ volatile("shfl.sync.idx.b32 %0, %1, 0, 31, 0xFFFFFFFF;" : "=r"(r) : "r"(x));
    return r;
}
IE_INLINE void ie_keep_order(void) {} /* the driver's compiler schedules anew */

IE_INLINE void ie_barrier(void) { __syncthreads(); }
IE_INLINE void ie_release(void) { __asm__ volatile("fence.acq_rel.gpu;" ::: "memory"); }
IE_INLINE void ie_acquire(void) { __asm__ volatile("fence.acq_rel.gpu;" ::: "memory"); }

/* What sm_90 and later have stands in the text as a comment, which the host takes the mark from for such a card (driver_cuda.c). */
#define IE_SM90 "//sm_90 "
/* A launch begins while the one before it runs. ie_dep_go: the next one may begin as soon as all workgroups have come here.
 * ie_dep_wait: the launches before this one are through, and what they wrote can be read. Each kernel waits, in all workgroups, before it
 * reads what another writes (all but weights, tables and the batch, which are there before a step's first launch), and before it writes. */
IE_INLINE void ie_dep_go(void) { __asm__ volatile(IE_SM90 "griddepcontrol.launch_dependents;" ::: "memory"); }
IE_INLINE void ie_dep_wait(void) { __asm__ volatile(IE_SM90 "griddepcontrol.wait;" ::: "memory"); }
/* Asks the L2 cache for bytes (a multiple of 16) from p on; by one lane. */
IE_INLINE void ie_ahead_(IE_GLOBAL const void *p, uint32_t bytes) {
    __asm__ volatile(IE_SM90 "cp.async.bulk.prefetch.L2.global [%0], %1;" : : "l"(p), "r"(bytes));
}
#define ie_ahead(p, bytes) ie_ahead_(p, bytes)
/* Operands that are the same in all lanes come through LDS: a load from global memory would wait for L2 once a block. */
#define IE_UNIFORM_LDS 1
#define IE_LAST_GROUP 0 /* a launch more costs little where they overlap */
/* Weights: read once, so they do not stay in L1; in the order of the text. */
IE_INLINE ie_u4 ie_weights16(IE_GLOBAL const void *p) {
    ie_u4 v;
    __asm__ volatile("ld.global.nc.L1::no_allocate.v4.b32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p));
    return v;
}
IE_INLINE uint32_t ie_weights4(IE_GLOBAL const uint32_t *p) {
    uint32_t v;
    __asm__ volatile("ld.global.nc.L1::no_allocate.b32 %0, [%1];" : "=r"(v) : "l"(p));
    return v;
}
IE_INLINE void ie_weights_few(IE_GLOBAL const uint32_t *p, uint32_t n, uint32_t *out) {
#pragma unroll
    for (uint32_t i = 0; i < n; i++) out[i] = ie_weights4(p + i);
}
IE_INLINE void ie_wave_sync(void) { __nvvm_bar_warp_sync(0xFFFFFFFFu); } /* the wave's lanes see each other's LDS */

/* Copies to LDS that the card makes by itself, on sm_90: a record in LDS counts the bytes that have arrived. By one lane: ie_arrive_new, then
 * (all that have made one) ie_arrive_ready; for each use ie_arrive_expect with all its bytes, and the copies (16 bytes or a multiple, so aligned).
 * A record of n arrivals, by ie_arrive, is a barrier at which only some wait: what was written before an arrival is seen after the wait.
 * By all lanes: ie_arrive_wait; phase is 0 for a record's first use, 1 for the second, 0 for the third. */
#define IE_COPIES 1
extern IE_LDS uint32_t ie_lds_more[] __attribute__((aligned(128))); /* LDS that the launch asks for */
IE_INLINE uint32_t ie_lds_at(const IE_LDS void *p) { return (uint32_t)(uintptr_t)p; }
IE_INLINE void ie_arrive_new(IE_LDS uint64_t *a, uint32_t n) {
    __asm__ volatile(IE_SM90 "mbarrier.init.shared::cta.b64 [%0], %1;" : : "r"(ie_lds_at(a)), "r"(n) : "memory");
}
IE_INLINE void ie_arrive(IE_LDS uint64_t *a) { __asm__ volatile(IE_SM90 "mbarrier.arrive.shared::cta.b64 _, [%0];" : : "r"(ie_lds_at(a)) : "memory"); }
IE_INLINE void ie_arrive_ready(void) { __asm__ volatile(IE_SM90 "fence.proxy.async.shared::cta;" ::: "memory"); }
/* After an acquire: copies see, too, what others wrote before their release. */
IE_INLINE void ie_copy_others(void) { __asm__ volatile(IE_SM90 "fence.proxy.async;" ::: "memory"); }
IE_INLINE void ie_arrive_expect(IE_LDS uint64_t *a, uint32_t bytes) {
    __asm__ volatile(IE_SM90 "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" : : "r"(ie_lds_at(a)), "r"(bytes) : "memory");
}
IE_INLINE void ie_copy(IE_LDS void *to, IE_GLOBAL const void *from, uint32_t bytes, IE_LDS uint64_t *a) {
    __asm__ volatile(IE_SM90 "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                     : : "r"(ie_lds_at(to)), "l"(from), "r"(bytes), "r"(ie_lds_at(a)) : "memory");
}
IE_INLINE void ie_arrive_wait(IE_LDS uint64_t *a, uint32_t phase) {
    uint32_t done;
    do __asm__ volatile(IE_SM90 "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.b32 %0, 1, 0, p; }"
                        : "=r"(done) : "r"(ie_lds_at(a)), "r"(phase) : "memory");
    while (!done);
}
/* A word by each lane for itself; ie_copies_arrive: the lane arrives at the record when all words that it has asked for are there. */
IE_INLINE void ie_copy4(IE_LDS uint32_t *to, IE_GLOBAL const uint32_t *from) {
    __asm__ volatile("cp.async.ca.shared.global [%0], [%1], 4;" : : "r"(ie_lds_at(to)), "l"(from) : "memory");
}
IE_INLINE void ie_copies_arrive(IE_LDS uint64_t *a) { __asm__ volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" : : "r"(ie_lds_at(a)) : "memory"); }
/* Whether such a wait would be over. */
IE_INLINE bool ie_arrive_test(IE_LDS uint64_t *a, uint32_t phase) {
    uint32_t done;
    __asm__ volatile(IE_SM90 "{ .reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2; selp.b32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(ie_lds_at(a)), "r"(phase) : "memory");
    return done != 0u;
}

#elif defined(IE_LANES)
#include "lanes.h" /* tests/gpu/lanes: NVIDIA's kernels on a CPU */
#else
#error "kernels are compiled for amdgcn or nvptx64"
#endif

/* For kernels with nothing to do before the launches before them are through. */
IE_INLINE void ie_dep(void) {
    ie_dep_go();
    ie_dep_wait();
}

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
/* The halving tree over eight values. */
#define IE_TREE8(a) ((((a)[0] + (a)[4]) + ((a)[2] + (a)[6])) + (((a)[1] + (a)[5]) + ((a)[3] + (a)[7])))
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
/* Two words as one: who reads one sees the other that was written with it. */
IE_INLINE void ie_two_put(IE_GLOBAL uint64_t *p, uint32_t lo, uint32_t hi) {
    __scoped_atomic_store_n(p, (uint64_t)hi << 32 | lo, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
}
typedef struct {
    uint32_t lo, hi;
} ie_two;
IE_INLINE ie_two ie_two_get(IE_GLOBAL uint64_t *p) {
    uint64_t v = __scoped_atomic_load_n(p, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
    return (ie_two){(uint32_t)v, (uint32_t)(v >> 32)};
}
IE_INLINE uint32_t ie_lds_add(IE_LDS uint32_t *p, uint32_t v) {
    return __scoped_atomic_fetch_add(p, v, __ATOMIC_RELAXED, __MEMORY_SCOPE_WRKGRP);
}

/* ---- memory: 16 bytes a lane, aligned to 16 -------------------------------------------------------------------------------- */

#define ie_load16(p) (*(IE_GLOBAL const ie_u4 *)(p))
#define ie_store16(p, v) (*(IE_GLOBAL ie_u4 *)(p) = (v))
#define ie_lds16(p) (*(const IE_LDS ie_u4 *)(p))
#define ie_lds8(p) (*(const IE_LDS ie_f2 *)(p)) /* aligned to 8 */
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

/* ---- products of small integers ------------------------------------------------------------------------------------------------- */

/* a * b of numbers of at most 24 bits with their sign: one instruction of full rate on AMD, whose product of 32 bits takes four times as long. */
IE_INLINE int32_t ie_mul24(int32_t a, int32_t b) {
#if defined(__AMDGCN__)
    return ((int32_t)((uint32_t)a << 8) >> 8) * ((int32_t)((uint32_t)b << 8) >> 8); /* so the compiler knows; no shift is left */
#else
    return a * b;
#endif
}

/* ---- IQ4's codebook (core: ie_iq4_u), eight weights at a time by byte permutes ------------------------------------------------- */

/* Values + 128 of a word's low nibbles and of its high ones, one a byte. */
IE_INLINE void ie_iq4_words(uint32_t q, uint32_t *lo, uint32_t *hi) {
#if defined(__AMDGCN__)
    /* byte selectors: 0 .. 3 the second word's bytes, 4 .. 7 the first's, 12 zeros, 13 ones */
    uint32_t half[2] = {q, q >> 4}, v[2];
#pragma unroll
    for (uint32_t i = 0; i < 2u; i++) {
        uint32_t at = half[i] & 0x07070707u, upper = __builtin_amdgcn_perm(0u, 0u, (half[i] >> 3 & 0x01010101u) | 0x0C0C0C0Cu);
        uint32_t a = __builtin_amdgcn_perm(IE_IQ4_W1, IE_IQ4_W0, at), b = __builtin_amdgcn_perm(IE_IQ4_W3, IE_IQ4_W2, at);
        v[i] = (b & upper) | (a & ~upper);
    }
    *lo = v[0], *hi = v[1];
#else
    /* nibble selectors: 0 .. 3 the first word's bytes, 4 .. 7 the second's; four weights at a time, low and high nibbles in turn */
    uint32_t at = q & 0x77777777u, side = (q >> 1 & 0x44444444u) | 0x32103210u, v[2];
#pragma unroll
    for (uint32_t i = 0; i < 2u; i++) {
        uint32_t a = (uint32_t)__nvvm_prmt(IE_IQ4_W0, IE_IQ4_W1, at >> 16u * i), b = (uint32_t)__nvvm_prmt(IE_IQ4_W2, IE_IQ4_W3, at >> 16u * i);
        v[i] = (uint32_t)__nvvm_prmt(a, b, side >> 16u * i);
    }
    *lo = (uint32_t)__nvvm_prmt(v[0], v[1], 0x6420u), *hi = (uint32_t)__nvvm_prmt(v[0], v[1], 0x7531u);
#endif
}

/* The lowest bytes of lanes 4e .. 4e + 3 as one word, in each of the four. */
IE_INLINE uint32_t ie_bytes4(uint32_t x) {
    uint32_t w = (x & 0xFFu) << (8u * (ie_lane() % 4u));
    w |= ie_xor(w, 1);
    w |= ie_xor(w, 2);
    return w;
}

/* ---- the dot of four bytes ---------------------------------------------------------------------------------------------------- */

/* acc plus four unsigned by four signed bytes (ie_dot4_us), as one instruction. */
IE_INLINE int32_t ie_dot4(uint32_t u, uint32_t s, int32_t acc) {
#if defined(__AMDGCN__)
    return __builtin_amdgcn_sudot4(false, (int)u, true, (int)s, acc, false);
#elif defined(IE_LANES)
    return acc + ie_dot4_us(u, s);
#else
    int32_t r;
    __asm__("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(r) : "r"(u), "r"(s), "r"(acc));
    return r;
#endif
}

/* (x & m) ^ s for constants: one instruction of NVIDIA's, with one of them in a register. */
IE_INLINE uint32_t ie_and_xor(uint32_t x, uint32_t m, uint32_t s) {
#if defined(__NVPTX__)
    uint32_t r;
    __asm__("lop3.b32 %0, %1, %2, %3, 0x6A;" : "=r"(r) : "r"(x), "r"(m), "r"(s));
    return r;
#else
    return (x & m) ^ s;
#endif
}

/* ---- the matrix instruction: 32 rows of weights x 8 tokens, int8, exact ------------------------------------------------------- */

/* A block (32 weights) of 32 rows against the same block of 8 tokens, in two halves of 16 weights. Lane = row, as everywhere: a lane gives
 * the eight words of its row. What comes back are 8 sums a lane: sum i belongs to token ie_mma_token(i) and to row ie_mma_row(i) of the
 * tile. A value of the own row is brought to where the row's sums are by ie_mma_spread: IE_MMA_ROWS values, sum i takes number
 * i / (8 / IE_MMA_ROWS).
 *
 * AMD, WMMA 16 x 16 x 16: column = lane mod 16, and each half of the wave gives 8 of the 16 k. The upper half's lanes are not the other
 * half of k here but 16 more rows; tokens are rows 0 .. 7 with zeros for the upper half's k and once more rows 8 .. 15 with zeros for the
 * lower half's. So sums lie where a dot4 kernel has them: row = lane, one token a register; nothing moves between lanes, and scales of
 * tokens are scalars. (Half of the products are with zeros: four instructions of 8 cycles for what takes 64 dot4.)
 * NVIDIA, mma.sync 16 x 8 x 16: fragments by ldmatrix out of LDS. */
#define IE_MMA_TOKENS 8u
typedef int32_t ie_i8 __attribute__((ext_vector_type(8)));

#if defined(__AMDGCN__)

#define IE_MMA_ROWS 1u
#define IE_MMA_LDS(name, waves) IE_LDS uint32_t *name = 0 /* what a wave of a workgroup of so many needs of LDS: nothing */
typedef uint32_t ie_u2 __attribute__((ext_vector_type(2)));
typedef struct {
    ie_u2 k[4];
} ie_mma_x; /* a block of 8 tokens */
typedef struct {
    ie_u2 k[4];
} ie_mma_w; /* a block of 32 rows */
typedef struct {
    uint32_t at[4]; /* bytes from the first token's block: words 2 k and 2 k + 1 of the lane's token, or words 14 and 15, which are zero */
} ie_mma_from;

IE_INLINE uint32_t ie_mma_token(uint32_t i) { return i; }
IE_INLINE uint32_t ie_mma_row(uint32_t i) { return (void)i, ie_lane(); }
IE_INLINE void ie_mma_spread(float v, float out[IE_MMA_ROWS]) { out[0] = v; }
IE_INLINE ie_mma_from ie_mma_where(void) {
    uint32_t l = ie_lane(), token = l % 8u * (IE_Q8_WORDS * 4u);
    ie_mma_from f;
#pragma unroll
    for (uint32_t k = 0; k < 4u; k++) f.at[k] = token + (l / 16u == l / 8u % 2u ? 8u * k : 56u);
    return f;
}
/* The block at p of a first token and those of the 7 tokens after it (64 bytes each, one after the other). */
IE_INLINE ie_mma_x ie_mma_load(const ie_mma_from *f, IE_GLOBAL const uint32_t *p) {
    ie_mma_x x;
#pragma unroll
    for (uint32_t k = 0; k < 4u; k++) x.k[k] = *(IE_GLOBAL const ie_u2 *)((IE_GLOBAL const uint8_t *)p + f->at[k]);
    return x;
}
IE_INLINE ie_mma_w ie_mma_weights(const uint32_t w[8], IE_LDS uint32_t *lds) {
    (void)lds;
    return (ie_mma_w){{{w[0], w[1]}, {w[2], w[3]}, {w[4], w[5]}, {w[6], w[7]}}};
}
/* acc plus half h (0, 1) of the block; is_signed: of the weights' bytes, a constant. */
IE_INLINE ie_i8 ie_mma_half(const ie_mma_w *w, const ie_mma_x *x, uint32_t h, bool is_signed, ie_i8 acc) {
    typedef int v2 __attribute__((ext_vector_type(2)));
#pragma unroll
    for (uint32_t k = 2u * h; k < 2u * h + 2u; k++) {
        v2 a, b;
        __builtin_memcpy(&a, &x->k[k], sizeof a);
        __builtin_memcpy(&b, &w->k[k], sizeof b);
        acc = is_signed ? __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32_gfx12(true, a, true, b, acc, false)
                        : __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32_gfx12(true, a, false, b, acc, false);
    }
    return acc;
}
IE_INLINE ie_i8 ie_mma_block(const ie_mma_w *w, const ie_mma_x *x, bool is_signed, ie_i8 acc) {
    return ie_mma_half(w, x, 1u, is_signed, ie_mma_half(w, x, 0u, is_signed, acc));
}

#else

/* Fragments: lane = 4 g + w holds words w and w + 4 of rows g, g + 8, g + 16, g + 24, and of token g; sum i is that of row
 * g + 8 (i / 2) and token 2 w + i mod 2. */
#define IE_MMA_ROWS 4u
/* A wave's LDS: 32 rows by 8 words. */
#define IE_MMA_LDS(name, waves) \
    static IE_LDS_VAR uint32_t name##_all[(waves) * 256u]; \
    IE_LDS uint32_t *name = name##_all + ie_wave() * 256u
typedef struct {
    uint32_t k[2];
} ie_mma_x;
typedef struct {
    uint32_t k[8]; /* rows 0 .. 15: words w of g, g + 8, words w + 4 of g, g + 8; then rows 16 .. 31 */
} ie_mma_w;
typedef struct {
    uint32_t at;
} ie_mma_from;

IE_INLINE uint32_t ie_mma_token(uint32_t i) { return ie_lane() % 4u * 2u + i % 2u; }
IE_INLINE uint32_t ie_mma_row(uint32_t i) { return ie_lane() / 4u + i / 2u * 8u; }
IE_INLINE void ie_mma_spread(float v, float out[IE_MMA_ROWS]) {
#pragma unroll
    for (uint32_t j = 0; j < IE_MMA_ROWS; j++) out[j] = ie_readlanef(v, ie_lane() / 4u + 8u * j);
}
IE_INLINE ie_mma_from ie_mma_where(void) { return (ie_mma_from){ie_lane() / 4u * IE_Q8_WORDS + ie_lane() % 4u}; }
IE_INLINE ie_mma_x ie_mma_load(const ie_mma_from *f, IE_GLOBAL const uint32_t *p) { return (ie_mma_x){{p[f->at], p[f->at + 4u]}}; }
#if defined(IE_LANES)
IE_INLINE ie_mma_w ie_mma_weights(const uint32_t w[8], IE_LDS uint32_t *lds) {
    ie_mma_w m;
    ie_wave_sync();
    for (uint32_t e = 0; e < 8u; e++) lds[8u * ie_lane() + e] = w[e];
    ie_wave_sync();
    for (uint32_t i = 0; i < 8u; i++) m.k[i] = lds[8u * (ie_lane() / 4u + 8u * (i / 4u * 2u + i % 2u)) + ie_lane() % 4u + i / 2u % 2u * 4u];
    return m;
}
IE_INLINE ie_i8 ie_mma_half(const ie_mma_w *w, const ie_mma_x *x, uint32_t h, bool is_signed, ie_i8 acc) {
    lanes_mma(w->k, x->k, h, 1u, is_signed, (int32_t *)&acc);
    return acc;
}
IE_INLINE ie_i8 ie_mma_block(const ie_mma_w *w, const ie_mma_x *x, bool is_signed, ie_i8 acc) {
    lanes_mma(w->k, x->k, 0u, 2u, is_signed, (int32_t *)&acc);
    return acc;
}
#else
IE_INLINE ie_mma_w ie_mma_weights(const uint32_t w[8], IE_LDS uint32_t *lds) {
    uint32_t l = ie_lane();
    __nvvm_bar_warp_sync(~0u); /* the block before has been read */
    ie_lds_put16(lds + 4u * l, ((ie_u4){w[0], w[1], w[2], w[3]}));
    ie_lds_put16(lds + 128u + 4u * l, ((ie_u4){w[4], w[5], w[6], w[7]}));
    __nvvm_bar_warp_sync(~0u);
    ie_mma_w m;
#pragma unroll
    for (uint32_t j = 0; j < 2u; j++)
        __asm__ volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                         : "=r"(m.k[4u * j]), "=r"(m.k[4u * j + 1u]), "=r"(m.k[4u * j + 2u]), "=r"(m.k[4u * j + 3u])
                         : "r"((uint32_t)(uintptr_t)(lds + l / 16u * 128u + 4u * (16u * j + l % 16u)))
                         : "memory");
    return m;
}
#define IE_MMA_K16(S) "mma.sync.aligned.m16n8k16.row.col.s32." S ".s8.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
#define IE_MMA_K32(S) "mma.sync.aligned.m16n8k32.row.col.s32." S ".s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
IE_INLINE ie_i8 ie_mma_half(const ie_mma_w *w, const ie_mma_x *x, uint32_t h, bool is_signed, ie_i8 acc) {
#pragma unroll
    for (uint32_t j = 0; j < 8u; j += 4u) {
        int32_t c0 = acc[j], c1 = acc[j + 1u], c2 = acc[j + 2u], c3 = acc[j + 3u];
        uint32_t a0 = w->k[j + 2u * h], a1 = w->k[j + 2u * h + 1u], b = x->k[h];
        if (is_signed) __asm__(IE_MMA_K16("s8") : "+r"(c0), "+r"(c1), "+r"(c2), "+r"(c3) : "r"(a0), "r"(a1), "r"(b));
        else __asm__(IE_MMA_K16("u8") : "+r"(c0), "+r"(c1), "+r"(c2), "+r"(c3) : "r"(a0), "r"(a1), "r"(b));
        acc[j] = c0, acc[j + 1u] = c1, acc[j + 2u] = c2, acc[j + 3u] = c3;
    }
    return acc;
}
IE_INLINE ie_i8 ie_mma_block(const ie_mma_w *w, const ie_mma_x *x, bool is_signed, ie_i8 acc) {
#pragma unroll
    for (uint32_t j = 0; j < 8u; j += 4u) {
        int32_t c0 = acc[j], c1 = acc[j + 1u], c2 = acc[j + 2u], c3 = acc[j + 3u];
        uint32_t a0 = w->k[j], a1 = w->k[j + 1u], a2 = w->k[j + 2u], a3 = w->k[j + 3u], b0 = x->k[0], b1 = x->k[1];
        if (is_signed) __asm__(IE_MMA_K32("s8") : "+r"(c0), "+r"(c1), "+r"(c2), "+r"(c3) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
        else __asm__(IE_MMA_K32("u8") : "+r"(c0), "+r"(c1), "+r"(c2), "+r"(c3) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
        acc[j] = c0, acc[j + 1u] = c1, acc[j + 2u] = c2, acc[j + 3u] = c3;
    }
    return acc;
}

#endif /* IE_LANES */

#endif

#endif
