/* The kernels' dialect on a CPU (kernels/gpu.h): NVIDIA's forms, each lane a thread of its own that card.c runs in turn. For tests of
 * what only that card's kernels do: copies to LDS, barriers of some waves, matrix instructions on weights as they lie. */
#ifndef IE_LANES_H
#define IE_LANES_H

#define IE_KERNEL(lanes) __attribute__((visibility("default"))) void
#define IE_KERNEL_UP_TO IE_KERNEL
#define IE_LDS_VAR __attribute__((address_space(3)))

typedef struct {
    uint32_t tid, wg[3];
} lanes_self;
extern lanes_self lanes_me;      /* of the lane that runs */
void lanes_barrier(void);        /* of the workgroup */
void lanes_wave(void);           /* of the wave */
void *lanes_wave_memory(void);   /* 16 KB of the wave's, for exchanges */
void lanes_yield(void);          /* another lane's turn: this one waits for something */
void lanes_progress(void);       /* what others wait for may have come */

IE_INLINE uint32_t ie_tid(void) { return lanes_me.tid; }
IE_INLINE uint32_t ie_lane(void) { return lanes_me.tid % 32u; }
IE_INLINE uint32_t ie_wg_x(void) { return lanes_me.wg[0]; }
IE_INLINE uint32_t ie_wg_y(void) { return lanes_me.wg[1]; }
IE_INLINE uint32_t ie_wg_z(void) { return lanes_me.wg[2]; }

/* All lanes give a word; what lane l gave. */
IE_INLINE uint32_t lanes_swap(uint32_t x, uint32_t l) {
    uint32_t *all = lanes_wave_memory(), v;
    all[ie_lane()] = x;
    lanes_wave();
    v = all[l];
    lanes_wave();
    return v;
}
IE_INLINE uint32_t ie_uniform(uint32_t x) { return x; }
IE_INLINE uint32_t ie_readlane(uint32_t x, uint32_t l) { return lanes_swap(x, l % 32u); }
#define ie_xor(x, m) lanes_swap(x, ie_lane() ^ (m))
#define ie_args_again(a) (a)
#define ie_anew(x) (x)
#define ie_kept(x) (x)
#define ie_args_early(p) ((void)(p))
IE_INLINE void ie_keep_order(void) {}
IE_INLINE void ie_barrier(void) { lanes_barrier(); }
IE_INLINE void ie_release(void) {}
IE_INLINE void ie_acquire(void) {}
IE_INLINE void ie_dep_go(void) {}
IE_INLINE void ie_dep_wait(void) {}
#define ie_ahead(p, bytes) ((void)(p), (void)(bytes))
#define IE_UNIFORM_LDS 1
#define ie_weights16(p) ie_load16(p)
#define ie_weights4(p) (*(p))
#define IE_LAST_GROUP 0
IE_INLINE void ie_weights_few(IE_GLOBAL const uint32_t *p, uint32_t n, uint32_t *out) {
    for (uint32_t i = 0; i < n; i++) out[i] = p[i];
}
IE_INLINE void ie_wave_sync(void) { lanes_wave(); }

#define IE_COPIES 1
extern IE_LDS uint32_t ie_lds_more[] __attribute__((aligned(128)));
/* A record: arrivals and bytes that are still to come, and the parity of its uses. */
typedef struct {
    int32_t bytes;
    int16_t left;
    uint16_t n : 15, phase : 1;
} lanes_record;
IE_INLINE lanes_record lanes_load(const IE_LDS uint64_t *a) {
    lanes_record r;
    uint64_t v = *a;
    __builtin_memcpy(&r, &v, sizeof r);
    return r;
}
IE_INLINE void lanes_store(IE_LDS uint64_t *a, lanes_record r) {
    uint64_t v;
    if (r.left == 0 && r.bytes == 0) r.phase ^= 1u, r.left = (int16_t)r.n, lanes_progress();
    __builtin_memcpy(&v, &r, sizeof v);
    *a = v;
}
IE_INLINE void ie_arrive_new(IE_LDS uint64_t *a, uint32_t n) { lanes_store(a, (lanes_record){.left = (int16_t)n, .n = (uint16_t)n}); }
IE_INLINE void ie_arrive_ready(void) {}
IE_INLINE void ie_copy_others(void) {}
IE_INLINE void ie_arrive(IE_LDS uint64_t *a) {
    lanes_record r = lanes_load(a);
    r.left--;
    lanes_store(a, r);
}
IE_INLINE void ie_arrive_expect(IE_LDS uint64_t *a, uint32_t bytes) {
    lanes_record r = lanes_load(a);
    r.left--, r.bytes += (int32_t)bytes;
    lanes_store(a, r);
}
IE_INLINE void ie_copy(IE_LDS void *to, IE_GLOBAL const void *from, uint32_t bytes, IE_LDS uint64_t *a) {
    if (bytes % 16u || (uintptr_t)to % 16u || (uintptr_t)from % 16u) __builtin_trap();
    for (uint32_t i = 0; i < bytes; i++) ((IE_LDS uint8_t *)to)[i] = ((IE_GLOBAL const uint8_t *)from)[i];
    lanes_record r = lanes_load(a);
    r.bytes -= (int32_t)bytes;
    lanes_store(a, r);
}
IE_INLINE void ie_arrive_wait(IE_LDS uint64_t *a, uint32_t phase) {
    while (lanes_load(a).phase == phase) lanes_yield();
}
IE_INLINE void ie_copy4(IE_LDS uint32_t *to, IE_GLOBAL const uint32_t *from) { *to = *from; }
IE_INLINE void ie_copies_arrive(IE_LDS uint64_t *a) { ie_arrive(a); }
IE_INLINE bool ie_arrive_test(IE_LDS uint64_t *a, uint32_t phase) { return lanes_load(a).phase != phase; }

/* ---- instructions of NVIDIA's that the shared part of gpu.h uses ---- */

IE_INLINE uint32_t __nvvm_prmt(uint32_t a, uint32_t b, uint32_t s) {
    uint64_t all = (uint64_t)b << 32 | a;
    uint32_t r = 0;
    for (uint32_t i = 0; i < 4u; i++) r |= (uint32_t)(all >> (s >> (4u * i) & 7u) * 8u & 0xFFu) << (8u * i);
    return r;
}

/* A half (first = 2 h, n = 1) or a block (0, 2) by the instruction's map of fragments. */
IE_INLINE void lanes_mma(const uint32_t w[8], const uint32_t x[2], uint32_t first, uint32_t n, int is_signed, int32_t acc[8]) {
    struct {
        uint32_t w[8], x[2];
    } *all = (void *)((char *)lanes_wave_memory() + 256), *me = &all[ie_lane()];
    for (uint32_t i = 0; i < 8u; i++) me->w[i] = w[i];
    me->x[0] = x[0], me->x[1] = x[1];
    lanes_wave();
    for (uint32_t i = 0; i < 8u; i++) {
        uint32_t row = i / 2u, g = ie_lane() / 4u, t = ie_lane() % 4u * 2u + i % 2u;
        for (uint32_t h = first; h < first + n; h++)
            for (uint32_t c = 0; c < 4u; c++) {
                uint32_t a = all[4u * g + c].w[row / 2u * 4u + row % 2u + 2u * h], b = all[4u * t + c].x[h];
                acc[i] += is_signed ? ie_dot4_ss(a, b) : ie_dot4_us(a, b);
            }
    }
    lanes_wave();
}

#endif
