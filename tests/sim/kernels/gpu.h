/* What the test kernels share: the GPU's builtins under short names. */
#ifndef GPU_H
#define GPU_H

typedef unsigned char u8;
typedef signed char i8;
typedef unsigned short u16;
typedef short i16;
typedef unsigned int u32;
typedef int i32;
typedef unsigned long long u64;
typedef long long i64;
typedef _Float16 f16;

#define KERNEL(n) __attribute__((amdgpu_kernel, amdgpu_flat_work_group_size(n, n))) void
#define LDS static __attribute__((address_space(3), loader_uninitialized))
#define NOINLINE __attribute__((noinline))

#define TID_X ((u32)__builtin_amdgcn_workitem_id_x())
#define TID_Y ((u32)__builtin_amdgcn_workitem_id_y())
#define TID_Z ((u32)__builtin_amdgcn_workitem_id_z())
#define GID_X ((u32)__builtin_amdgcn_workgroup_id_x())
#define GID_Y ((u32)__builtin_amdgcn_workgroup_id_y())
#define GID_Z ((u32)__builtin_amdgcn_workgroup_id_z())

static inline void sync_group(void) {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

#define DPP_F(x, ctrl) __builtin_bit_cast(float, __builtin_amdgcn_update_dpp(0, __builtin_bit_cast(i32, x), ctrl, 15, 15, 1))
static inline float other_row(float x) {
    i32 v = __builtin_bit_cast(i32, x);
    return __builtin_bit_cast(float, __builtin_amdgcn_permlanex16(v, v, 0x76543210, 0xFEDCBA98, 0, 0));
}
/* Sum over the wave, in every lane. */
static inline float wave_sum(float x) {
    x += DPP_F(x, 0x161); /* row_xmask: 1, 2, 4, 8 */
    x += DPP_F(x, 0x162);
    x += DPP_F(x, 0x164);
    x += DPP_F(x, 0x168);
    return x + other_row(x);
}
static inline float wave_max(float x) {
    x = __builtin_fmaxf(x, DPP_F(x, 0x161));
    x = __builtin_fmaxf(x, DPP_F(x, 0x162));
    x = __builtin_fmaxf(x, DPP_F(x, 0x164));
    x = __builtin_fmaxf(x, DPP_F(x, 0x168));
    return __builtin_fmaxf(x, other_row(x));
}

#endif
