/* Choosing among logits.
 *
 *   ie_topk_part, ie_topk_merge   the k best finite logits of a row, k <= 64: value descending, ties by lower id, as
 *                                 src/gen/sample.c orders them. up to 64 workgroups a row each find the best k of their share, one merges
 *   ie_argmax                     the largest logit, its id (the lowest of equals) and its softmax probability
 *
 * How k of up to 4096 keys are found without sorting them: each of 256 lanes takes the largest of its 16 keys; the k-th largest of
 *   those is a lower bound of the k-th key, so only the k lanes at or above it hold keys that matter: at most 16 k. Those are
 *   gathered in LDS and sorted. A key is the float's order in the upper and the negated id in the lower 32 bits, so keys differ and
 *   the result is one whatever the order in which they are gathered. -0 counts as +0, non-finite logits as no candidates (key 0).
 * Probability of the largest: p = 1 / L, L the sums of exp(x - v) of the shares (one for 1024 logits, at most 64), joined as L = fma(l_k, exp(v_k - v), L) ascending; a
 *   share's sum is 256 partial sums (element mod 256), trees as in sum256.
 * Launch: 256 lanes; part and argmax x = share, y = row; merge y = row.
 * Bytes moved: part 4 n twice (the second time from L2), argmax 4 n; merge 512 k.
 * LDS: part, merge 10 KB; argmax 0.2 KB. Registers: budgets.txt. */
#include "gpu.h"

#define LANES 256u
#define EACH_LANE (IE_TOPK_KEYS / LANES)
#define ROOM (IE_TOPK_MAX * EACH_LANE) /* keys that can matter */

IE_INLINE uint64_t key_of(float x, uint32_t id) {
    uint32_t u = ie_bits_of(x);
    if ((u & 0x7F800000u) == 0x7F800000u) return 0u;
    if (u == 0x80000000u) u = 0u;
    u = (u & 0x80000000u) ? ~u : u | 0x80000000u; /* orders as an unsigned number; never 0 */
    return (uint64_t)u << 32 | (0xFFFFFFFFu - id);
}
IE_INLINE uint32_t key_id(uint64_t key) { return 0xFFFFFFFFu - (uint32_t)key; }

/* Sorts n keys (a power of two, n >= 2) in LDS, largest first. */
IE_INLINE void sort(IE_LDS uint64_t *v, uint32_t n) {
    for (uint32_t size = 2u; size <= n; size *= 2u)
        for (uint32_t step = size / 2u; step > 0u; step /= 2u) {
            ie_barrier();
            for (uint32_t p = ie_tid(); p < n / 2u; p += LANES) {
                uint32_t i = 2u * p - (p & (step - 1u)), j = i + step;
                uint64_t x = v[i], y = v[j];
                bool down = (i & size) == 0u;
                if (down ? x < y : x > y) v[i] = y, v[j] = x;
            }
        }
    ie_barrier();
}

typedef struct {
    uint64_t top[LANES];
    uint64_t key[ROOM];
    uint32_t n;
} topk_lds;

/* The best K of COUNT <= IE_TOPK_KEYS keys, sorted, in f->key (zeros after the last); KEY(i) is key i. */
#define TOPK(f, COUNT, K, KEY)                                                                                                 \
    do {                                                                                                                     \
        uint64_t mine_ = 0u, bound_;                                                                                         \
        for (uint32_t i_ = ie_tid(); i_ < (COUNT); i_ += LANES) {                                                                \
            uint64_t key_ = KEY(i_);                                                                                         \
            mine_ = key_ > mine_ ? key_ : mine_;                                                                             \
        }                                                                                                                    \
        (f)->top[ie_tid()] = mine_;                                                                                          \
        if (ie_tid() == 0u) (f)->n = 0u;                                                                                     \
        sort((f)->top, LANES);                                                                                               \
        bound_ = (f)->top[(K)-1u];                                                                                           \
        bound_ = bound_ ? bound_ : 1u;                                                                                       \
        if (mine_ >= bound_)                                                                                                 \
            for (uint32_t i_ = ie_tid(); i_ < (COUNT); i_ += LANES) {                                                            \
                uint64_t key_ = KEY(i_);                                                                                     \
                if (key_ >= bound_) (f)->key[ie_lds_add(&(f)->n, 1u)] = key_;                                                \
            }                                                                                                                \
        ie_barrier();                                                                                                        \
        uint32_t have_ = (f)->n, room_ = IE_TOPK_MAX;                                                                        \
        while (room_ < have_) room_ *= 2u;                                                                                   \
        for (uint32_t i_ = have_ + ie_tid(); i_ < room_; i_ += LANES) (f)->key[i_] = 0u;                                     \
        sort((f)->key, room_);                                                                                               \
    } while (0)

IE_KERNEL(256) ie_topk_part(ie_abi_topk a) {
    ie_dep();
    static IE_LDS_VAR topk_lds f;
    uint32_t from = ie_wg_x() * a.each, n = a.n - from < a.each ? a.n - from : a.each;
    IE_GLOBAL const float *x = a.x + (uint64_t)ie_wg_y() * a.x_ld + from;
#define KEY(i) key_of(x[i], from + (i))
    TOPK(&f, n, a.k, KEY);
#undef KEY
    IE_GLOBAL uint64_t *to = a.keys + (uint64_t)(ie_wg_y() * a.shares + ie_wg_x()) * a.k;
    if (ie_tid() < a.k) to[ie_tid()] = f.key[ie_tid()];
}

IE_KERNEL(256) ie_topk_merge(ie_abi_topk a) {
    ie_dep();
    static IE_LDS_VAR topk_lds f;
    IE_GLOBAL const uint64_t *keys = a.keys + (uint64_t)ie_wg_y() * a.shares * a.k;
#define KEY(i) keys[i]
    TOPK(&f, a.shares * a.k, a.k, KEY);
#undef KEY
    if (ie_tid() >= a.k) return;
    uint64_t key = f.key[ie_tid()];
    IE_GLOBAL ie_abi_cand *to = a.out + (uint64_t)ie_wg_y() * a.k + ie_tid();
    to->id = key ? (int32_t)key_id(key) : -1;
    to->v = key ? a.x[(uint64_t)ie_wg_y() * a.x_ld + key_id(key)] : 0.0f;
}

/* Infinities count here (the answer is then "none"), NaNs do not. */
IE_INLINE bool better(float v, uint32_t id, float w, uint32_t of) { return v > w || (v == w && id < of); }

IE_KERNEL(256) ie_argmax(ie_abi_argmax a) {
    ie_dep();
    static IE_LDS_VAR float top[8], sums[8];
    static IE_LDS_VAR uint32_t ids[8], last;
    uint32_t from = ie_wg_x() * a.each, end = a.n - from < a.each ? a.n : from + a.each, row = ie_wg_y(), best = 0xFFFFFFFFu;
    IE_GLOBAL const float *x = a.x + (uint64_t)row * a.x_ld;
    float v = -__builtin_inff(), p = 0.0f, mine[EACH_LANE];
#pragma unroll
    for (uint32_t k = 0; k < EACH_LANE; k++) { /* all under way at once */
        uint32_t i = from + k * LANES + ie_tid();
        mine[k] = i < end ? x[i] : -__builtin_inff();
    }
#pragma unroll
    for (uint32_t k = 0; k < EACH_LANE; k++)
        if (mine[k] > v) v = mine[k], best = from + k * LANES + ie_tid();
    float most = ie_wave_max(v);
    best = 0xFFFFFFFFu - ie_wave_maxu(v == most ? 0xFFFFFFFFu - best : 0u);
    if (ie_lane() == 0u) top[ie_wave()] = most, ids[ie_wave()] = best;
    ie_barrier();
    v = -__builtin_inff(), best = 0xFFFFFFFFu;
    for (uint32_t w = 0u; w < 8u; w++)
        if (better(top[w], ids[w], v, best)) v = top[w], best = ids[w];
    if (v > -__builtin_inff() && v < __builtin_inff())
#pragma unroll
        for (uint32_t k = 0; k < EACH_LANE; k++)
            if (from + k * LANES < end) p += mine[k] > -__builtin_inff() ? ie_exp(mine[k] - v) : 0.0f;
    p = ie_wave_tree(p);
    if (ie_lane() == 0u) sums[ie_wave()] = p;
    ie_barrier();
    IE_GLOBAL ie_abi_best *part = a.part + (uint64_t)row * a.shares;
    if (ie_tid() == 0u) {
        float sum = IE_TREE8(sums);
        part[ie_wg_x()].v = v, part[ie_wg_x()].p = sum, part[ie_wg_x()].id = (int32_t)best;
        ie_release();
        last = ie_atomic_add(a.count + row, 1u) + 1u == a.shares;
    }
    ie_barrier();
    if (!last || ie_wave() != 0u) return;
    ie_acquire();
    /* The shares, two a lane; their sums are added up in ascending order. */
    float vs[2], ps[2], es[2];
    v = -__builtin_inff(), best = 0xFFFFFFFFu;
#pragma unroll
    for (uint32_t h = 0u; h < 2u; h++) {
        uint32_t k = h * 32u + ie_lane();
        bool is = k < a.shares;
        vs[h] = is ? part[k].v : -__builtin_inff(), ps[h] = is ? part[k].p : 0.0f;
        if (is && better(vs[h], (uint32_t)part[k].id, v, best)) v = vs[h], best = (uint32_t)part[k].id;
    }
    most = ie_wave_max(v);
    best = 0xFFFFFFFFu - ie_wave_maxu(v == most ? 0xFFFFFFFFu - best : 0u);
    v = most;
    float sum = 0.0f;
    bool found = v > -__builtin_inff() && v < __builtin_inff();
#pragma unroll
    for (uint32_t h = 0u; h < 2u; h++) es[h] = found && vs[h] > -__builtin_inff() ? ie_exp(vs[h] - v) : 0.0f;
    for (uint32_t k = 0u; k < a.shares && found; k++) {
        bool up = k >= 32u;
        sum = ie_fma(ie_readlanef(up ? ps[1] : ps[0], k % 32u), ie_readlanef(up ? es[1] : es[0], k % 32u), sum);
    }
    if (ie_lane() != 0u) return;
    IE_GLOBAL ie_abi_best *to = a.out + row;
    to->v = v, to->id = found ? (int32_t)best : -1;
    to->p = found ? ie_div(1.0f, sum) : 0.0f;
    a.count[row] = 0u;
}
