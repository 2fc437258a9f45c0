/* Runs every law of laws/ on 10^6 inputs inside its precondition: random, small, near limits, powers of two.
 * IE_LAW_RUNS sets another number. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../laws/ie_laws_bits.h"
#include "../../laws/ie_laws_layout.h"

/* f16_nearest: any float, or a tie between two f16 values or a neighbour of one.
 * X(law, its arguments from v, words of the array that follows the scalars, largest value of each scalar ...) */
#define ANY 0xFFFFFFFFu
#define ROWS IE_MAX_ROWS
#define K IE_MAX_K
#define NBLK (IE_MAX_K / IE_BLOCK)
#define TILES (IE_MAX_ROWS / IE_TILE_ROWS)
#define POS (LAW_MAX_POS - 1u)
#define LAWS(X)                                                                                                        \
    X(dims_ok, (v[0], v[1]), 0, ANY, ANY)                                                                              \
    X(tile_cover, (v[0], v[1]), 0, ROWS, ROWS - 1u)                                                                    \
    X(block_cover, (v[0], v[1]), 0, K, K - 1u)                                                                         \
    X(unit_bounds, (v[0], v[1], v[2], v[3]), 0, ROWS, K, TILES - 1u, NBLK - 1u)                                        \
    X(unit_injective, (v[0], v[1], v[2], v[3], v[4]), 0, NBLK, TILES - 1u, NBLK - 1u, TILES - 1u, NBLK - 1u)           \
    X(unit_order, (v[0], v[1], v[2]), 0, NBLK, TILES - 1u, NBLK - 1u)                                                  \
    X(field_wm, (v[0], v[1], v[2], v[3], v[4], v[5]), 0, 2047, 32, 31, 31, 31, 31)                                     \
    X(field_lm, (v[0], v[1], v[2], v[3], v[4], v[5]), 0, 2047, 256, 255, 31, 255, 31)                                  \
    X(field_lm_wide, (v[0] * 4u, v[1], v[2], v[3]), 0, 511, 256, 255, 31)                                              \
    X(field_half, (v[0], v[1], v[2], v[3], v[4], v[5]), 0, 2047, 32, 31, 31, 31, 31)                                   \
    X(layout_disjoint, (v[0], v[1], v[2]), 0, LAW_FORMATS - 1u, LAW_FIELDS - 1u, LAW_FIELDS - 1u)                      \
    X(layout_full, (v[0]), 0, LAW_FORMATS - 1u)                                                                        \
    X(sb_cover, (v[0], v[1] * 7u + 1u), 0, K, 1)                                                                       \
    X(source_arrays, (v[0], v[1]), 0, LAW_SOURCES - 1u, 209)                                                           \
    X(source_row, (v[0], v[3] ? v[1] : (v[1] + 255u) / 256u * 256u, v[2]), 0, LAW_SOURCES + 1u, K, NBLK - 1u, 1)       \
    X(gpu_units, (v[0], v[1], v[2]), 0, NBLK, NBLK - 1u, NBLK / 8u - 1u)                                               \
    X(stream_units, (v[0], v[1] * 8u + 8u, v[2]), 0, NBLK, 1, NBLK - 1u)                                               \
    X(gpu_tile, (v[0], v[1], v[2], v[3], v[4], v[5], v[6]), 0, 8, 16, 32, 1, NBLK, NBLK / 8u - 1u, 31)                 \
    X(gpu_bytes, (v[0]), 0, LAW_GPU_COUNT - 1u)                                                                        \
    X(gpu_at, (v[0], v[1], v[2], v[3], v[5], v[4], v[6], v[7]), 0, LAW_GPU_COUNT - 1u, 8, 2, 255, 2, 31, 255, 31)      \
    X(gpu_load, (v[0], v[1], v[2], v[3], v[4]), 0, LAW_GPU_COUNT - 1u, 8, 7, 31, 31)                                   \
    X(gpu_load_head, (v[0], v[1], v[2]), 0, 16, 15, 31)                                                                \
    X(gpu_moves, (v[0], v[1], v[2]), 0, LAW_GPU_COUNT - 1u, 3, 511)                                                    \
    X(gpu_sources, (v[0], v[1]), 0, LAW_GPU_COUNT - 1u, 105)                                                           \
    X(load, (v + 1, v[0]), 1, 3)                                                                                       \
    X(byte_sign, (v[0], v[1]), 0, ANY, 3)                                                                              \
    X(half, (v[0], v[1], v[2]), 0, ANY, 1, 65535)                                                                      \
    X(f16_exact, (v[0]), 0, 65535)                                                                                     \
    X(f16_roundtrip, (v[0]), 0, 65535)                                                                                 \
    X(f16_nearest, (v[0] % 2u ? v[1] : law_f16_mid(v[2]) + v[3] - 1u), 0, ANY, ANY, 0x7BFF, 2)                         \
    X(bf16, (v[0]), 0, 65535)                                                                                          \
    X(q4_unpack, (v + 1, v[0]), 4, 31)                                                                                 \
    X(q4_pack, (v + 1, v[0]), 4, 3)                                                                                    \
    X(q2_unpack, (v + 1, v[0]), 2, 31)                                                                                 \
    X(q2_pack, (v + 1, v[0]), 2, 1)                                                                                    \
    X(bit_unpack, (v[0], v[1]), 0, ANY, 31)                                                                            \
    X(bit_pack, (v[0], v[1]), 0, ANY, 7)                                                                               \
    X(q5_unpack, (v + 2, v[0], v[1]), 4, ANY, 31)                                                                      \
    X(q3_unpack, (v + 2, v[0], v[1]), 2, ANY, 31)                                                                      \
    X(q6_unpack, (v + 1, v[0]), 6, 31)                                                                                 \
    X(iq4_codebook, (v[0]), 0, 15)                                                                                     \
    X(iq4_bytes, (v[0], v[1]), 0, ANY, 3)                                                                              \
    X(take_q4k, (v + 2, v[0], v[1]), 32, 7, 31)                                                                        \
    X(take_q6k, (v + 2, v[0], v[1]), 32, 7, 31)                                                                        \
    X(take_q2k, (v + 2, v[0], v[1]), 16, 7, 31)                                                                        \
    X(take_bits, (v + 2, v[0], v[1]), 8, 7, 31)                                                                        \
    X(take_bounds, (v[0], v[1]), 0, 7, 3)                                                                              \
    X(take_once, (v[0], v[1], v[2], v[3]), 0, 7, 3, 7, 3)                                                              \
    X(k4_scales, (v + 1, v[0]), 3, 7)                                                                                  \
    X(q3k_scales, (v + 1, v[0]), 3, 15)                                                                                \
    X(byte_scales, (v + 1, v[0]), 4, 15)                                                                               \
    X(iq4xs_scales, (v[0], v[1], v[2]), 0, 65535, ANY, 7)                                                              \
    X(dot4, (v[0], v[1]), 0, ANY, ANY)                                                                                 \
    X(dot4_flip, (v[0], v[1]), 0, ANY, ANY)                                                                            \
    X(dot_block, (v + 1, v[0]), 16, 8)                                                                                 \
    X(q8_sums, (v + 1), 8, 0)                                                                                          \
    X(q4_dot, (v + 1), 12, 0)                                                                                          \
    X(q5_dot, (v + 1), 13, 0)                                                                                          \
    X(q8_dot, (v + 1), 16, 0)                                                                                          \
    X(iq4_dot, (v + 1), 12, 0)                                                                                         \
    X(q6_dot, (v + 1, v[0]), 14, ANY)                                                                                  \
    X(q3_dot, (v + 2, v[0], v[1]), 11, 63, 63)                                                                         \
    X(q2_dot, (v + 4, v[0], v[1], v[2], v[3]), 10, 15, 15, 15, 15)                                                     \
    X(tree, (v + 1, v[0]), 32, 5)                                                                                      \
    X(butterfly, (v + 1, v[0]), 32, 31)                                                                                \
    X(wave_sums, (v + 1), 256, 0)                                                                                      \
    X(grid_pad, (v[2] == 0u ? v[0] : v[2] == 1u ? 245u + v[0] % 20u : 2000u / (v[1] + 1u) + v[0] % 64u, v[1] + 1u), 0, 0x1000000, 7, 2)\
    X(constants, (v[0]), 0, LAW_CONSTANTS - 1u)                                                                        \
    X(seg_exact, (v[0], v[1]), 0, NBLK, IE_MAX_SEGS + 1u)                                                              \
    X(seg_order, (v[0], v[1]), 0, NBLK, IE_MAX_SEGS - 1u)                                                              \
    X(seg_cover, (v[0], v[1]), 0, NBLK, NBLK - 1u)                                                                     \
    X(wave_cover, (v[3] ? v[1] + 1u + v[0] % 2u : v[0], v[3] ? v[1] + 1u : v[1] % 2u * 4u + 4u, v[2]), 0, IE_MAX_SEGS, 7, IE_MAX_SEGS - 1u, 1)\
    X(wave_even, (v[4] ? v[0] % 80u : v[0], v[1], v[2], v[3]), 0, NBLK, 1, 7, 7, 2)                                    \
    X(wave_tile, (v[0], v[1] + 1u, v[2], v[3], v[6] < 4u ? v[2] / (v[1] < 4u ? 2u : 1u) + v[6] : v[4], v[5]), 0, TILES, 7,\
      TILES - 1u, 7, TILES, 7, 7)                                                                                      \
    X(stream_tiles, (v[0], v[1]), 0, TILES, TILES - 1u)                                                                \
    X(wave_turn, (v[0] * 8u + 8u, v[1], v[2]), 0, 1, POS, 15)                                                          \
    X(ring_next, (v[0], v[1]), 0, ANY, ANY)                                                                            \
    X(rest_cover, (v[0], v[1], (1u << v[1]) + v[2] % (17u - (1u << v[1])), v[0] ? v[3] % (v[0] << v[1]) : 0u, v[4]), 0, 65536, 4, 15, ANY, 15) \
    X(shared_cover, (v[0] + 1u, v[1], v[2] % (v[0] + 1u), v[3] % (v[0] + 1u), v[4]), 0, 65535, 127, ANY, ANY, ANY) \
    X(stream_lane, (v[0], v[1], v[2]), 0, 15, 2, 31) \
    X(stream_x, (v[0], v[1] * 8u + 8u, v[2] + 1u, v[3], v[4], v[7] < 4u ? v[3] ^ 1u : v[5], v[6]), 0, NBLK, 1, 2, NBLK - 1u, 175, NBLK - 1u, 175, 7) \
    X(share_ok, (edge(v[2], v[1], v[0]), v[1]), 0, ANY, ANY, 2)                                                        \
    X(share, (v[0], v[1], v[2]), 0, ANY, 65536, 65535)                                                                 \
    X(tok_groups, (v[0], v[1], v[2]), 0, IE_MAX_T, IE_MAX_T, IE_MAX_T - 1u)                                            \
    X(items, (v[0], v[1], v[2], v[3]), 0, ROWS, 512, ROWS - 1u, 511)                                                   \
    X(block_tok, (v[0], v[1], v[2]), 0, IE_MAX_T, 16, IE_MAX_T - 1u)                                                   \
    X(div_inv, (edge(v[2], v[1], v[0]), v[1]), 0, ANY, ANY, 3)                                                         \
    X(q8_words, (v[0], v[1]), 0, 4, 4)                                                                                 \
    X(q8_at, (v[0], v[1], v[2], v[3], v[4], v[5]), 0, IE_MAX_T, NBLK, IE_MAX_T, NBLK, IE_MAX_T, NBLK)                  \
    X(q8_stride, (v[0], v[1], v[2], v[3]), 0, IE_MAX_T, NBLK, IE_MAX_T, NBLK)                                          \
    X(k_elem, (v[0], v[1], v[2], v[3], v[4]), 0, 1024, 31, 1023, 31, 1023)                                             \
    X(v_elem, (v[0], v[1], v[2], v[3], v[4]), 0, 1024, 31, 1023, 31, 1023)                                             \
    X(head_pad, (v[0]), 0, 65536)                                                                                      \
    X(page_slot, (v[0], v[1]), 0, ANY, ANY)                                                                            \
    X(page_table, (v[0], v[1], v[2], v[3], v[4], v[5]), 0, 4096, 65536, 4095, 65535, 4095, 65535)                      \
    X(kv_ok, (edge(v[3], v[1] * v[2], v[0]), v[1], v[2]), 0, ANY, ANY, ANY, 2)                                         \
    X(kv_part, (v[0], v[1], v[2], v[3], v[4] * 65536u + v[5], v[6] * 65536u + v[7]), 0, 128, 64, 65536, 65536, 127,    \
      63, 127, 63)                                                                                                     \
    X(att_window, (v[0], v[1], v[2]), 0, POS, POS, POS)                                                                \
    X(att_slots, (v[0], v[1], v[2]), 0, POS, POS, POS)                                                                 \
    X(att_parts, (v[0], v[1]), 0, POS, POS / 256u)                                                                     \
    X(att_once, (v[0], v[1], v[5] ? v[2] : ie_part_of(v[0]) - v[2] % 4u, v[3], v[4]), 0, POS, POS, POS / 256u, 7, 31, 1)\
    X(att_room, (v[0], v[1], v[2], v[3]), 0, POS, 15, POS, ANY)                                                        \
    X(att_shares, (v[0], v[1], v[2]), 0, LAW_MAX_POS / 256u, LAW_MAX_POS / 256u, LAW_MAX_POS / 256u)                   \
    X(batch, (v + 3, v[0], v[1], v[2]), 10, LAW_BATCH, ANY, ANY)                                                       \
    X(log_ring, (v[0], v[1], v[2], v[3], v[4]), 0, POS, 16, 15, 15, 15)                                                \
    X(log_taps, (v[0], v[1], v[2]), 0, POS, IE_LOG_TAPS - 1u, IE_LOG_TAPS - 1u)                                        \
    X(log_next, (v[0], v[4] ? v[0] + v[1] : v[1], v[2], v[3]), 0, POS, 600, IE_MAX_T, 1, 1)                            \
    X(log_replay, (v[0], v[1], v[2], v[3], v[4], v[5]), 0, POS, 32, 32, IE_MAX_T, 1, 35)                               \
    X(mul_ok, (v[0], v[1], v[2]), 0, ANY, ANY, ANY)                                                                    \
    X(tile_words, (v[0], v[1], v[2]), 0, LAW_FORMATS - 1u, K, NBLK - 1u)                                               \
    X(plan_pair, (v[0], v[1], v[2], v[3]), 0, ANY, ANY, ANY, ANY)                                                      \
    X(plan_alive, (v[0], v[1], v[2], v[3]), 0, ANY, ANY, ANY, ANY)                                                     \
    X(plan_check, (v + 2, v[0], v[1]), 16, LAW_PLAN, ANY)

/* A number whose product with b is next to 2^32 (how = 0, 1), or any. */
static uint32_t edge(uint32_t how, uint32_t b, uint32_t any) { return how < 2u && b != 0u ? ANY / b + how : any; }

#define RUN(name, args, words, ...)                                                                                    \
    static int run_##name(const uint32_t *v) {                                                                         \
        (void)v;                                                                                                       \
        return law_##name args;                                                                                        \
    }                                                                                                                  \
    static const uint32_t max_##name[] = {__VA_ARGS__};
LAWS(RUN)

typedef struct {
    const char *name;
    int (*run)(const uint32_t *v);
    const uint32_t *max;
    uint32_t scalars, words;
} law;

#define ROW(name, args, words, ...) {#name, run_##name, max_##name, sizeof max_##name / sizeof(uint32_t), words},
static const law laws[] = {LAWS(ROW)};
#define N_LAWS (sizeof laws / sizeof *laws)
#define MAX_INPUTS 260u

static uint64_t rng_state;
static uint32_t rnd(void) {
    rng_state ^= rng_state << 13, rng_state ^= rng_state >> 7, rng_state ^= rng_state << 17;
    return (uint32_t)(rng_state >> 32);
}
static uint32_t below(uint32_t n) { return (uint32_t)(((uint64_t)rnd() * n) >> 32); }

/* A scalar in [0, max]: anywhere, small, near max, near a power of two; or near the scalar before it, since many laws
 * speak of pairs. */
static uint32_t scalar(uint32_t max, uint32_t before) {
    uint64_t x;
    switch (below(8)) {
    case 0: x = below(41); break;
    case 1: x = (uint64_t)max - below(41); break;
    case 2: x = (1ull << below(32)) - 1u + below(3); break;
    case 3: x = (uint64_t)before + below(3) - 1u; break;
    default: x = ((uint64_t)max + 1u) * rnd() >> 32; break;
    }
    return x <= max ? (uint32_t)x : (uint32_t)(x % ((uint64_t)max + 1u));
}

/* Words of an array, all of one kind: any, small, or bytes at their extremes. */
static void words(uint32_t *v, uint32_t n) {
    static const uint32_t ends[8] = {0,           0xFFFFFFFFu, 0x80808080u, 0x7F7F7F7Fu,
                                     0x81818181u, 0x01010101u, 0x0F0F0F0Fu, 0xF0F0F0F0u};
    uint32_t kind = below(8), one = ends[below(8)];
    for (uint32_t i = 0; i < n; i++) {
        switch (kind) {
        case 0: v[i] = below(4); break;
        case 1: v[i] = below(16); break;
        case 2: v[i] = ends[below(8)]; break;
        case 3: v[i] = i < n / 2u ? one : ends[below(2) + 2u]; break;
        default: v[i] = rnd(); break;
        }
    }
}

static int run_law(const law *l, uint32_t want) {
    uint32_t v[MAX_INPUTS], held = 0;
    uint64_t tries = 0, most = 64ull * want;
    assert_true(l->scalars + l->words <= MAX_INPUTS);
    rng_state = 0x9E3779B97F4A7C15u;
    for (const char *c = l->name; *c; c++) rng_state = rng_state * 1099511628211u + (uint8_t)*c;
    while (held < want && tries++ < most) {
        for (uint32_t i = 0; i < l->scalars; i++) v[i] = scalar(l->max[i], i > 1 ? v[i - 2] : i ? v[i - 1] : 0);
        words(v + l->scalars, l->words);
        int r = l->run(v);
        held += r == LAW_HOLDS;
        if (r == LAW_BROKEN) {
            printf("law %s is broken at", l->name);
            for (uint32_t i = 0; i < l->scalars + l->words; i++) printf(" 0x%x", v[i]);
            printf("\n");
            return 1;
        }
    }
    if (held < want)
        printf("law %s: only %u of %llu inputs were inside its precondition\n", l->name, held,
               (unsigned long long)tries);
    return held < want;
}

static void all_laws(void **state) {
    (void)state;
    const char *env = getenv("IE_LAW_RUNS");
    uint32_t want = env ? (uint32_t)strtoul(env, NULL, 10) : 1000000u;
    int bad = 0;
    for (size_t i = 0; i < N_LAWS; i++) bad += run_law(&laws[i], want);
    printf("%zu of %zu laws held on %u inputs each\n", N_LAWS - (size_t)bad, N_LAWS, want);
    assert_int_equal(bad, 0);
}

/* The law on batches speaks of small ones: the limit itself, here. */
static void batch_limit(void **state) {
    (void)state;
    static uint32_t seq[IE_MAX_T + 1u], pos[IE_MAX_T + 1u];
    for (uint32_t i = 0; i <= IE_MAX_T; i++) pos[i] = i;
    assert_true(ie_batch_ok(seq, pos, IE_MAX_T, 1, IE_MAX_T));
    assert_false(ie_batch_ok(seq, pos, IE_MAX_T + 1u, 1, IE_MAX_T + 1u));
}

int main(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "--list")) {
        for (size_t i = 0; i < N_LAWS; i++) puts(laws[i].name);
        return 0;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_laws), cmocka_unit_test(batch_limit)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
