/* What kernels/gpu.h and q8.h put in place of the core's functions (lane exchanges, reductions, the dot and matrix instructions, halves, Q8
 * blocks), and the core's functions as the GPU's compiler translates them, against the core on the host: on all inputs where these are
 * few, else on 10^6 with edges among them (IE_LAW_RUNS: another number). The kernels are tests/gpu/forms.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "../gpu/forms_abi.h"
#include "form_inputs.h"
#include "gpu_dev.h"

#define CHUNK 1024u /* waves a launch */
#define LANES (CHUNK * 32u)

static gpu_dev dev;
static gpu_ptr in_dev, out_dev;
static uint32_t *in, *out, runs;

/* A kernel over CHUNK waves: words of `in` go there, words of `out` come back. */
static void launch(const char *kernel, uint64_t in_words, uint64_t out_words) {
    gpu_launches l = {0};
    form_args a = {in_dev, out_dev};
    dev_put(&dev, in_dev, in, in_words * 4u);
    GPU_OK(gpu_add(&l, kernel, CHUNK, 1, 32, &a, sizeof a, err));
    dev_run(&dev, &l);
    free(l.v);
    dev_get(&dev, out, out_dev, out_words * 4u);
}
static void expect(const char *what, uint32_t lane, uint32_t got, uint32_t want) {
    if (!same(got, want)) fail_msg("%s: lane %u of wave %u gives 0x%x, not 0x%x", what, lane % 32u, lane / 32u, got, want);
}

/* ---- lanes ---------------------------------------------------------------------------------------------------------------- */

static float tree(const float *x) {
    float v[32];
    memcpy(v, x, sizeof v);
    for (uint32_t s = 16; s > 0; s /= 2u)
        for (uint32_t l = 0; l < s; l++) v[l] = v[l] + v[l + s];
    return v[0];
}
static void wave_check(uint32_t wave) {
    const uint32_t *x = in + wave * 32u * FORM_LANE_IN, from = wave % 32u;
    uint32_t sum[32], lower[32], v[32], top = 0;
    float f[32], whole[32], best = -INFINITY;
    for (uint32_t l = 0; l < 32; l++) {
        sum[l] = v[l] = x[l * FORM_LANE_IN], lower[l] = v[l] >> 16;
        f[l] = ie_f32_of(v[l]), whole[l] = (float)lower[l];
        top = v[l] > top ? v[l] : top;
        best = (float)(int32_t)v[l] > best ? (float)(int32_t)v[l] : best;
    }
    ie_butterfly(sum);
    ie_tree(lower, 32); /* below 2^24: exact in f32, too */
    for (uint32_t l = 0; l < 32; l++) {
        const uint32_t *a = x + l * FORM_LANE_IN, *r = out + (wave * 32u + l) * FORM_LANE_OUT, n = wave * 32u + l;
        for (uint32_t k = 0; k < 5; k++) expect("ie_xor", n, r[k], v[l ^ 1u << k]);
        expect("ie_readlane", n, r[5], v[from]);
        expect("ie_uniform", n, r[6], v[from]);
        expect("a sum by ie_xor", n, r[7], sum[l]);
        expect("ie_wave_maxu", n, r[8], top);
        expect("ie_wave_tree", n, r[9], ie_bits_of(tree(f)));
        expect("ie_wave_tree of whole numbers", n, r[10], ie_bits_of((float)lower[0]));
        assert_true(tree(whole) == (float)lower[0]);
        expect("ie_wave_max", n, r[11], ie_bits_of(best));
        expect("ie_f16_lo", n, r[12], ie_f16_f32_bits(ie_half_of(a[0], 0)));
        expect("ie_f16_hi", n, r[13], ie_f16_f32_bits(ie_half_of(a[0], 1)));
        for (uint32_t k = 0; k < 2; k++) { /* NaNs are one class */
            uint32_t got = ie_f16_f32_bits(ie_half_of(r[14], k)), want = ie_f16_f32_bits(ie_f32_f16_bits(a[k]));
            expect("ie_f16_put2", n, got, want);
        }
        expect("ie_dot4", n, r[15], a[2] + (uint32_t)ie_dot4_us(a[0], a[1]));
        expect("ie_readlanef", n, r[16], v[from]);
        expect("ie_iq4_words, low nibbles", n, r[17], ie_iq4_bytes_u(a[0] & 0x0F0F0F0Fu));
        expect("ie_iq4_words, high nibbles", n, r[18], ie_iq4_bytes_u(a[0] >> 4 & 0x0F0F0F0Fu));
        expect("ie_mul24 of 24 bits", n, r[19], (uint32_t)((int32_t)a[0] >> 8) * (uint32_t)((int32_t)a[1] >> 8));
        expect("ie_mul24 of a sum and a scale", n, r[20], (uint32_t)((int32_t)(a[0] << 18) >> 18) * (uint32_t)((int32_t)(a[1] << 24) >> 24));
        for (uint32_t k = 0; k < 4; k++) expect("ie_bytes4", n, ie_byte_u(r[21], k), ie_byte_u(v[l / 4u * 4u + k], 0));
    }
}
static void lanes_run(void) {
    launch("form_lanes", LANES * FORM_LANE_IN, (uint64_t)LANES * FORM_LANE_OUT);
    for (uint32_t w = 0; w < CHUNK; w++) wave_check(w);
}
static void lanes(void **state) {
    (void)state;
    for (uint32_t done = 0; done < runs; done += LANES) {
        for (uint32_t i = 0; i < LANES; i++) {
            uint32_t *a = in + i * FORM_LANE_IN, kind = (i / 32u) % 4u;
            a[0] = kind ? any() : ie_bits_of(number()), a[1] = any(), a[2] = (uint32_t)((int32_t)any() / 4);
        }
        lanes_run();
    }
}
/* Each pair of bytes in each place; each half; each half-way point between halves and its neighbours. */
static void all_bytes(void **state) {
    (void)state;
    for (uint32_t done = 0; done < 4u * 65536u; done += LANES) {
        for (uint32_t i = 0; i < LANES; i++) {
            uint32_t *a = in + i * FORM_LANE_IN, n = done + i, at = 8u * (n / 65536u);
            a[0] = (n & 255u) << at, a[1] = (n >> 8 & 255u) << at, a[2] = 0;
        }
        lanes_run();
        for (uint32_t i = 0; i < LANES; i++) {
            uint32_t *a = in + i * FORM_LANE_IN, n = done + i, mid = ie_f16_f32_bits(n & 0xFFFFu) + 0x1000u;
            a[0] = n / 65536u == 3u ? (n & 0xFFFFu) * 0x10001u : mid + n / 65536u - 1u, a[1] = mid;
        }
        lanes_run();
    }
}

/* ---- the core, translated --------------------------------------------------------------------------------------------------- */

static void core_check(uint32_t n) {
    const uint32_t *v = in + n * FORM_CORE_IN, *q = v, *q2 = v + 4, qh = v[6], *sc = v + 7, x = v[11], y = v[12];
    const uint32_t *r = out + (uint64_t)n * FORM_CORE_OUT;
    for (uint32_t e = 0; e < 8; e++) {
        expect("ie_q4_bytes", n, r[e], ie_q4_bytes(q, e));
        expect("ie_q5_bytes", n, r[8 + e], ie_q5_bytes(q, qh, e));
        expect("ie_q2_bytes", n, r[16 + e], ie_q2_bytes(q2, e));
        expect("ie_q3_bytes", n, r[24 + e], ie_q3_bytes(q2, qh, e));
        expect("ie_q6_bytes", n, r[32 + e], ie_q6_bytes(q, q2, e));
        expect("ie_iq4_bytes_u", n, r[40 + e], ie_iq4_bytes_u(ie_q4_bytes(q, e)));
        expect("ie_k4_scale", n, r[48 + e], ie_k4_scale(sc, e));
        expect("ie_k4_min", n, r[56 + e], ie_k4_min(sc, e));
        expect("ie_iq4xs_scale", n, r[64 + e], (uint32_t)ie_iq4xs_scale(ie_half_of(qh, 0), sc[0], e));
    }
    for (uint32_t j = 0; j < 16; j++) {
        expect("ie_q3k_scale", n, r[72 + j], (uint32_t)ie_q3k_scale(sc, j));
        expect("ie_q2k_scale", n, r[88 + j], ie_q2k_scale(sc, j));
        expect("ie_q2k_min", n, r[104 + j], ie_q2k_min(sc, j));
        expect("ie_q6k_scale", n, r[120 + j], (uint32_t)ie_q6k_scale(sc, j));
    }
    const uint32_t words = 1u + y % 32u, nblk = 1u + y % 2048u;
    expect("ie_dot4_us", n, r[136], (uint32_t)ie_dot4_us(x, y));
    expect("ie_dot4_ss", n, r[137], (uint32_t)ie_dot4_ss(x, y));
    expect("ie_f16_f32_bits", n, r[138], ie_f16_f32_bits(ie_half_of(x, 1)));
    expect("ie_f32_f16_bits", n, r[139], ie_f32_f16_bits(x));
    expect("ie_byte_u", n, r[140], ie_byte_u(x, y % 4u));
    expect("ie_byte_s", n, r[141], (uint32_t)ie_byte_s(x, y % 4u));
    expect("ie_field_lm", n, r[142], ie_field_lm(x % 2048u, words, x / 2048u % words, y / 32u % 32u));
    expect("ie_seg_begin", n, r[143], ie_seg_begin(x % 17u % (ie_nseg(nblk) + 1u), nblk));
    expect("ie_q8_at", n, r[144], ie_q8_at(x % 512u, y % 2048u, 2048u, x & 512u ? 1u : 16u));
    expect("ie_k_elem", n, r[145], ie_k_elem(x % 32u, y % 65536u));
    expect("ie_slot_lo", n, r[146], ie_slot_lo(x % 0x4000000u, y));
    expect("ie_slot_hi", n, r[147], ie_slot_hi(x % 0x4000000u, y));
}
static void core(void **state) {
    (void)state;
    for (uint32_t done = 0; done < runs; done += LANES) {
        for (uint32_t i = 0; i < LANES; i++) {
            uint32_t *v = in + i * FORM_CORE_IN, one = any(), alike = rnd() % 16u == 0;
            for (uint32_t k = 0; k < FORM_CORE_IN; k++) v[k] = alike && k < 7u ? one : any();
            if (i % 4u == 0) v[12] = v[11] % 0x4000000u * 32u + v[12] % 66u - 33u; /* positions near the page */
        }
        launch("form_core", LANES * FORM_CORE_IN, (uint64_t)LANES * FORM_CORE_OUT);
        for (uint32_t i = 0; i < LANES; i++) core_check(i);
    }
}

/* ---- Q8 blocks -------------------------------------------------------------------------------------------------------------- */

static void q8(void **state) {
    (void)state;
    for (uint32_t done = 0; done < runs; done += LANES) {
        for (uint32_t w = 0; w < CHUNK; w++) {
            uint32_t kind = w % 8u, at = rnd() % 32u;
            for (uint32_t l = 0; l < 32; l++) {
                float x = kind == 0 ? (float)((int32_t)(rnd() % 255u) - 127) * 0.5f : number(); /* ties */
                in[w * 32u + l] = kind == 1 ? rnd() & 0x81FFFFFFu : kind == 2 ? rnd() : ie_bits_of(x);
            }
            if (kind == 3) in[w * 32u + at] = 0x7F800000u | (rnd() & 0x80000001u); /* infinities, a NaN */
        }
        launch("form_q8", LANES, CHUNK * FORM_Q8_OUT);
        for (uint32_t w = 0; w < CHUNK; w++) {
            uint32_t want[IE_Q8_WORDS], *got = out + w * FORM_Q8_OUT;
            float x[32];
            memcpy(x, in + w * 32u, sizeof x);
            bool fine = q8_core(x, want);
            for (uint32_t i = 0; i < 13u; i++) /* the last three words are read by nobody as numbers, but are zero */
                if (got[i] != want[i]) fail_msg("wave %u: word %u of a Q8 block is 0x%x, not 0x%x", w, i, got[i], want[i]);
            for (uint32_t i = 0; i < IE_Q8_WORDS; i++) expect("whether a block is bad", w * 32u + i, got[IE_Q8_WORDS + i], !fine);
            for (uint32_t i = 13; i < IE_Q8_WORDS; i++) expect("ie_q8_put, a word that is zero", w * 32u + i, got[i], 0);
        }
    }
}

/* ---- the matrix instruction --------------------------------------------------------------------------------------------------- */

static void mma(void **state) {
    (void)state;
    for (uint32_t done = 0; done < runs; done += CHUNK * 256u) {
        for (uint32_t w = 0; w < CHUNK; w++) {
            uint32_t *v = in + w * FORM_MMA_IN, *x = v + 256u, one = any(), alike = rnd() % 8u == 0;
            for (uint32_t k = 0; k < 256u; k++) v[k] = alike ? one : any();
            for (uint32_t i = 0; i < 8u * IE_Q8_WORDS; i++) /* words 13 to 15 of a block are zero */
                x[i] = i % IE_Q8_WORDS < 8u ? act() : i % IE_Q8_WORDS < 13u ? any() : 0;
        }
        launch("form_mma", CHUNK * FORM_MMA_IN, CHUNK * FORM_MMA_OUT);
        for (uint32_t w = 0; w < CHUNK; w++)
            for (uint32_t t = 0; t < 8; t++)
                for (uint32_t r = 0; r < 32; r++) {
                    const uint32_t *v = in + w * FORM_MMA_IN + r * 8u, *x = in + w * FORM_MMA_IN + 256u + t * IE_Q8_WORDS;
                    const uint32_t *got = out + w * FORM_MMA_OUT + t * 32u + r;
                    const int32_t want[6] = {ie_dot_us(v, x, 4), ie_dot_us(v + 4, x + 4, 4), ie_dot_us(v, x, 8),
                                             ie_dot_ss(v, x, 4), ie_dot_ss(v + 4, x + 4, 4), ie_dot_ss(v, x, 8)};
                    for (uint32_t k = 0; k < 6; k++)
                        if ((int32_t)got[k * 256u] != want[k])
                            fail_msg("wave %u, row %u, token %u: %s of %s weights is %d, not %d", w, r, t,
                                     k % 3u == 0 ? "half 0" : k % 3u == 1u ? "half 1" : "the block", k < 3 ? "unsigned" : "signed", (int32_t)got[k * 256u], want[k]);
                    expect("ie_mma_spread", w * 32u + r, got[6u * 256u], ie_bits_of((float)(v[0] >> 16)));
                }
    }
}

int main(int argc, char **argv) {
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    runs = form_runs();
    const char *none = dev_open(&dev, "IE_FORMS_CODE", "/tests/forms.hsaco", "/tests/forms.ptx");
    if (none) {
        printf("skip: %s\n", none);
        return 0;
    }
    const uint64_t most = (uint64_t)LANES * FORM_CORE_OUT;
    in = malloc(most * 4u), out = malloc(most * 4u);
    in_dev = dev_zeros(&dev, most * 4u), out_dev = dev_new(&dev, most * 4u);
    const struct CMUnitTest tests[] = {cmocka_unit_test(lanes), cmocka_unit_test(all_bytes), cmocka_unit_test(core), cmocka_unit_test(q8),
                                       cmocka_unit_test(mma)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(in), free(out);
    gpu_free(dev.drv, in_dev), gpu_free(dev.drv, out_dev);
    gpu_modules_close(&dev.modules);
    gpu_stream_free(dev.drv, dev.stream);
    gpu_driver_close(dev.drv);
    return failed;
}
