/* Exchanges between lanes and waves: DPP, permutations, LDS, atomics, barriers of workgroups and of the grid. */
#include "gpu.h"

KERNEL(32) dpp_sum(const float *a, float *o) {
    float x = a[GID_X * 32 + TID_X];
    o[GID_X * 32 + TID_X] = wave_sum(x) + 100 * wave_max(x);
}

KERNEL(32) dpp_all(const i32 *a, i32 *o) {
    u32 l = TID_X;
    i32 x = a[l];
    o += 12 * l;
    o[0] = __builtin_amdgcn_update_dpp(-1, x, 0x103, 15, 15, 0); /* row_shl 3 */
    o[1] = __builtin_amdgcn_update_dpp(-1, x, 0x112, 15, 15, 1); /* row_shr 2 */
    o[2] = __builtin_amdgcn_update_dpp(-1, x, 0x125, 15, 15, 0); /* row_ror 5 */
    o[3] = __builtin_amdgcn_update_dpp(-1, x, 0x140, 15, 15, 0); /* row_mirror */
    o[4] = __builtin_amdgcn_update_dpp(-1, x, 0x141, 15, 15, 0); /* row_half_mirror */
    o[5] = __builtin_amdgcn_update_dpp(-1, x, 0x1B, 15, 15, 0);  /* quad_perm 3 2 1 0 */
    o[6] = __builtin_amdgcn_update_dpp(-1, x, 0x153, 15, 15, 0); /* row_share 3 */
    o[7] = __builtin_amdgcn_update_dpp(-1, x, 0x111, 1, 5, 0);   /* row 0, banks 0 and 2 only */
    o[8] = __builtin_amdgcn_mov_dpp8(x, 0xFAC688); /* reversed eight */
    o[9] = __builtin_amdgcn_permlane16(x, x, 0x32107654, 0xBA98FEDC, 0, 0);
    o[10] = (i32)__builtin_amdgcn_ballot_w32(x > 0);
    o[11] = __builtin_amdgcn_readlane(x, 5) + __builtin_amdgcn_readfirstlane(x);
}

KERNEL(32) shuffles(const i32 *a, i32 *o) {
    u32 l = TID_X;
    i32 x = a[l];
    o += 5 * l;
    o[0] = __builtin_amdgcn_ds_bpermute((i32)((l * 7 & 31) * 4), x);
    o[1] = __builtin_amdgcn_ds_permute((i32)((l * 5 & 31) * 4), x);
    o[2] = __builtin_amdgcn_ds_swizzle(x, 0x401F); /* xor 16 */
    o[3] = __builtin_amdgcn_ds_swizzle(x, 0x801B); /* quad reversed */
    o[4] = (i32)__builtin_amdgcn_mbcnt_lo(0x55555555, 3);
}

KERNEL(256) lds_sum(const float *a, float *o) {
    LDS float s[256];
    u32 t = TID_X;
    s[t] = a[GID_X * 256 + t];
    sync_group();
    for (u32 n = 128; n > 0; n >>= 1) {
        if (t < n) s[t] += s[t + n];
        sync_group();
    }
    if (t == 0) o[GID_X] = s[0];
}

KERNEL(256) rmsnorm(const float *x, const float *wt, float *o, i32 n, float eps) {
    LDS float part[8];
    const float *row = x + GID_X * (u32)n;
    float ss = 0;
    for (u32 i = TID_X; i < (u32)n; i += 256) ss += row[i] * row[i];
    ss = wave_sum(ss);
    if ((TID_X & 31) == 0) part[TID_X / 32] = ss;
    sync_group();
    float all = 0;
    for (u32 k = 0; k < 8; k++) all += part[k];
    float r = 1.0f / __builtin_sqrtf(all / (float)n + eps);
    for (u32 i = TID_X; i < (u32)n; i += 256) o[GID_X * (u32)n + i] = row[i] * r * wt[i];
}

/* LDS of every width, two-address forms, and a transpose. */
typedef float f4 __attribute__((ext_vector_type(4)));
typedef float f2 __attribute__((ext_vector_type(2)));
KERNEL(64) lds_widths(const f4 *a, f4 *o, u8 *p) {
    LDS f4 t[64];
    LDS u8 b[64];
    LDS f2 d[128];
    u32 i = TID_X;
    t[i] = a[i];
    b[i] = (u8)(i * 3);
    d[2 * i] = (f2){a[i].x, a[i].y};
    d[2 * i + 1] = (f2){a[i].z, a[i].w};
    sync_group();
    f2 u = d[127 - i], v = d[i];
    f4 w = t[63 - i];
    o[i] = (f4){w.x + u.x, w.y + u.y, w.z + v.x, w.w + v.y};
    p[i] = b[(i * 5) & 63];
}

/* Dynamic LDS lies behind the static. */
extern __attribute__((address_space(3))) u32 dyn[];
KERNEL(64) dyn_lds(const u32 *a, u32 *o, u32 n) {
    u32 i = TID_X;
    for (u32 k = i; k < n; k += 64) dyn[k] = a[k];
    sync_group();
    for (u32 k = i; k < n; k += 64) o[k] = dyn[n - 1 - k];
}

KERNEL(256) histogram(const u32 *a, u32 *bins, u32 n) {
    LDS u32 h[64];
    if (TID_X < 64) h[TID_X] = 0;
    sync_group();
    for (u32 i = GID_X * 256 + TID_X; i < n; i += 4 * 256) __atomic_fetch_add(&h[a[i] & 63], 1, __ATOMIC_RELAXED);
    sync_group();
    if (TID_X < 64) __atomic_fetch_add(&bins[TID_X], h[TID_X], __ATOMIC_RELAXED);
}

/* Atomics of each kind, with and without the old value. */
KERNEL(64) atomics(u32 *m, u64 *q, float *f, u32 *old) {
    u32 i = GID_X * 64 + TID_X;
    __atomic_fetch_max(&m[0], i * 37 % 101, __ATOMIC_RELAXED);
    __atomic_fetch_min((i32 *)&m[1], (i32)(i * 37 % 101) - 50, __ATOMIC_RELAXED);
    __atomic_fetch_or(&m[2], 1u << (i & 31), __ATOMIC_RELAXED);
    __atomic_fetch_xor(&m[3], i * 0x01010101, __ATOMIC_RELAXED);
    __atomic_fetch_and(&m[4], ~(1u << (i & 7)), __ATOMIC_RELAXED);
    __atomic_fetch_add(&q[0], (u64)i << 20, __ATOMIC_RELAXED);
    old[i] = __atomic_fetch_add(&m[5], 1, __ATOMIC_RELAXED);
    u32 seen = m[6], want;
    do want = seen + i;
    while (!__atomic_compare_exchange_n(&m[6], &seen, want, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    __scoped_atomic_fetch_add(f, 0.5f, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
}

/* The last workgroup to finish adds up what all have written. */
KERNEL(128) last_group(const float *a, float *part, float *o, u32 *ticket, u32 groups) {
    LDS float s[4];
    LDS u32 last;
    float x = wave_sum(a[GID_X * 128 + TID_X]);
    if ((TID_X & 31) == 0) s[TID_X / 32] = x;
    sync_group();
    if (TID_X == 0) {
        __scoped_atomic_store_n((u32 *)&part[GID_X], __builtin_bit_cast(u32, s[0] + s[1] + s[2] + s[3]), __ATOMIC_RELAXED,
                                __MEMORY_SCOPE_DEVICE);
        last = __scoped_atomic_fetch_add(ticket, 1, __ATOMIC_ACQ_REL, __MEMORY_SCOPE_DEVICE) == groups - 1;
    }
    sync_group();
    if (last && TID_X == 0) {
        float t = 0;
        for (u32 i = 0; i < groups; i++)
            t += __builtin_bit_cast(float, __scoped_atomic_load_n((u32 *)&part[i], __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE));
        *o = t;
    }
}

/* A barrier of the whole grid: all waves make their stores visible, one thread counts, all wait. */
static inline void grid_sync(u32 *count, u32 groups, u32 round) {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent");
    __builtin_amdgcn_s_barrier();
    if (TID_X == 0) {
        __scoped_atomic_fetch_add(count, 1, __ATOMIC_RELEASE, __MEMORY_SCOPE_DEVICE);
        while (__scoped_atomic_load_n(count, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE) < groups * round) __builtin_amdgcn_s_sleep(1);
    }
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent");
}
KERNEL(64) grid_barrier(u32 *a, u32 *b, u32 *count, u32 groups, u32 rounds) {
    u32 n = groups * 64, i = GID_X * 64 + TID_X;
    for (u32 r = 1; r <= rounds; r++) {
        u32 *from = r & 1 ? a : b, *to = r & 1 ? b : a;
        to[i] = from[(i + 64) % n] + from[(i + n - 64) % n];
        grid_sync(count, groups, r);
    }
}
