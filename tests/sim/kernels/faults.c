/* Kernels that are wrong on purpose, each in one way: the simulator has to say so. */
#include "gpu.h"

KERNEL(64) good(const u32 *a, u32 *o) { o[TID_X] = a[TID_X] + 1; }

KERNEL(64) out_of_bounds_load(const u32 *a, u32 *o) { o[TID_X] = a[TID_X + 16]; }
KERNEL(64) out_of_bounds_store(const u32 *a, u32 *o) { o[TID_X * 2] = a[TID_X]; }
KERNEL(64) null_pointer(const u32 *a, u32 *o) { o[TID_X] = *(const u32 *)((u64)a & 4); }
KERNEL(64) misaligned(const u8 *a, u32 *o) { o[TID_X & 31] = *(const u32 *)(a + TID_X); }
KERNEL(64) unwritten_device(const u32 *a, u32 *o) { o[TID_X] = a[TID_X]; }

/* Each thread reads what a thread of the other wave wrote. */
KERNEL(64) missing_barrier(const u32 *a, u32 *o) {
    LDS u32 s[64];
    s[TID_X] = a[TID_X];
    __asm__ volatile("s_wait_dscnt 0x0");
    o[TID_X] = *(volatile __attribute__((address_space(3))) u32 *)&s[63 - TID_X];
}
KERNEL(64) missing_barrier_after(const u32 *a, u32 *o) {
    LDS u32 s[64];
    s[TID_X] = a[TID_X];
    sync_group();
    o[TID_X] = s[63 - TID_X];
    s[TID_X] = 7; /* the other wave may not have read yet */
    o[TID_X + 64] = s[TID_X];
}
/* Two workgroups write the same place. */
KERNEL(64) global_race(const u32 *a, u32 *o) { o[TID_X] = a[TID_X] + GID_X; }

KERNEL(64) unwritten_lds(const u32 *a, u32 *o) {
    LDS u32 s[128];
    s[TID_X] = a[TID_X];
    sync_group();
    o[TID_X] = s[TID_X + 32];
}
KERNEL(64) lds_out_of_bounds(const u32 *a, u32 *o) {
    LDS u32 s[64];
    s[TID_X] = a[TID_X];
    sync_group();
    o[TID_X] = s[TID_X + (a[0] & 0 ? 1 : 4096)];
}

/* The compiler does not know that the text loads, so it places no wait. */
KERNEL(32) missing_wait(const u32 *a, u32 *o) {
    u32 x, y;
    const u32 *p = a + TID_X;
    __asm__ volatile("global_load_b32 %0, %1, off" : "=&v"(x) : "v"(p));
    __asm__ volatile("v_add_nc_u32_e32 %0, 1, %1" : "=v"(y) : "v"(x));
    o[TID_X] = y;
}
KERNEL(32) missing_wait_scalar(const u32 *a, u32 *o) {
    u32 x, y;
    __asm__ volatile("s_load_b32 %0, %1, 0x0" : "=&s"(x) : "s"(a));
    __asm__ volatile("s_add_co_u32 %0, %1, 1" : "=s"(y) : "s"(x) : "scc");
    o[TID_X] = y;
}

KERNEL(32) unknown_opcode(const u32 *a, u32 *o) {
    o[TID_X] = a[TID_X];
    __asm__ volatile(".long 0xd7ffffff\n.long 0xffffffff");
}

/* The last step of a wave's sum moved below the branch on lane 0, where the other row takes no part. */
KERNEL(32) sunk_reduction(const float *a, float *o) {
    float x = a[TID_X];
    x += DPP_F(x, 0x161);
    x += DPP_F(x, 0x162);
    x += DPP_F(x, 0x164);
    x += DPP_F(x, 0x168);
    if (TID_X == 0) o[0] = x + other_row(x);
}
KERNEL(32) inactive_bpermute(const i32 *a, i32 *o) {
    i32 x = a[TID_X];
    if (TID_X < 8) o[TID_X] = __builtin_amdgcn_ds_bpermute((i32)(TID_X + 8) * 4, x);
}

KERNEL(64) lanes_apart(const u32 *a, u32 *o) {
    if (a[TID_X] & 1) __builtin_amdgcn_s_barrier();
    o[TID_X] = 1;
}
KERNEL(32) unwritten_register(const u32 *a, u32 *o) {
    u32 x;
    __asm__ volatile("v_mov_b32_e32 %0, v40" : "=v"(x) : : "v41");
    o[TID_X] = x + a[0];
}
KERNEL(32) scratch_overflow(const u32 *a, u32 *o) {
    u32 x = a[TID_X];
    __asm__ volatile("scratch_store_b32 off, %0, off offset:65536" : : "v"(x) : "memory");
    o[TID_X] = x;
}
KERNEL(32) endless(const u32 *a, u32 *o) {
    for (;;) __scoped_atomic_fetch_add(o, a[0], __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
}
KERNEL(32) trap(const u32 *a, u32 *o) {
    if (a[TID_X] == 3) __builtin_trap();
    o[TID_X] = 0;
}
KERNEL(32) jump_wild(const u32 *a, u32 *o) {
    void (*f)(u32 *) = (void (*)(u32 *))(u64)a;
    f(o);
}

/* Grid barriers. The count and the wait are right; what differs is who makes its stores visible, and who looks afresh. */
static inline void grid_wait(u32 *count, u32 groups) {
    if (TID_X == 0) {
        __scoped_atomic_fetch_add(count, 1, __ATOMIC_RELEASE, __MEMORY_SCOPE_DEVICE);
        while (__scoped_atomic_load_n(count, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE) < groups) __builtin_amdgcn_s_sleep(1);
    }
    __asm__ volatile("s_barrier_signal -1\ns_barrier_wait -1" ::: "memory");
}
KERNEL(128) grid_ok(const u32 *a, u32 *o, u32 *t, u32 *count, u32 groups) {
    u32 i = GID_X * 128 + TID_X, n = groups * 128;
    t[i] = a[i];
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent");
    __asm__ volatile("s_barrier_signal -1\ns_barrier_wait -1" ::: "memory");
    grid_wait(count, groups);
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent");
    o[i] = t[(i + 128) % n];
}
/* Only the thread that counts releases: the other waves' stores may still be on their way. */
KERNEL(128) grid_one_release(const u32 *a, u32 *o, u32 *t, u32 *count, u32 groups) {
    u32 i = GID_X * 128 + TID_X, n = groups * 128;
    t[i] = a[i];
    __asm__ volatile("s_barrier_signal -1\ns_barrier_wait -1" ::: "memory");
    grid_wait(count, groups);
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent");
    o[i] = t[(i + 128) % n];
}
/* Old values were read before and may be read again. */
KERNEL(128) grid_no_acquire(const u32 *a, u32 *o, u32 *t, u32 *count, u32 groups) {
    u32 i = GID_X * 128 + TID_X, n = groups * 128;
    u32 old = t[(i + 128) % n];
    o[i] = old;
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent");
    __asm__ volatile("s_barrier_signal -1\ns_barrier_wait -1" ::: "memory");
    grid_wait(count, groups);
    t[i] = a[i];
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent");
    __asm__ volatile("s_barrier_signal -1\ns_barrier_wait -1" ::: "memory");
    grid_wait(count + 32, groups);
    o[i] = t[(i + 128) % n] + old;
}
