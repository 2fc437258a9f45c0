/* Sampling against a plain reference that sorts everything; the random numbers against published vectors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "gen/rng.h"
#include "ie.h"

#define MAX_VOCAB 5000

static uint64_t rng_state = 88172645463325252u;
static uint32_t rnd(uint32_t n) {
    rng_state ^= rng_state << 13, rng_state ^= rng_state >> 7, rng_state ^= rng_state << 17;
    return (uint32_t)(rng_state >> 33) % n;
}

static int32_t sample(const ie_sampling *s, const float *x, int32_t n, uint64_t index) {
    ie_error err;
    int32_t out = -1;
    if (ie_sample(s, x, n, NULL, 0, index, &out, &err)) fail_msg("%s", err.msg);
    return out;
}

static ie_sampling options(float temp) {
    ie_sampling s;
    ie_sampling_default(&s);
    s.temp = temp;
    return s;
}

/* ---- random numbers ---------------------------------------------------------------------------------------------------- */

/* Known answers of Philox4x32-10 as distributed with the authors' library Random123. */
static void philox_vectors(void **state) {
    (void)state;
    static const struct {
        uint32_t ctr[4], key[2], out[4];
    } v[] = {{{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
             {{~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
             {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}, {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}};
    for (size_t i = 0; i < sizeof v / sizeof *v; i++) {
        uint32_t out[4];
        ie_philox4x32(v[i].key, v[i].ctr, out);
        assert_memory_equal(out, v[i].out, sizeof out);
    }
}

static void uniform_numbers(void **state) {
    (void)state;
    double sum = 0, squares = 0;
    enum { N = 20000 };
    for (uint64_t i = 0; i < N; i++) {
        double u = ie_uniform(42, i);
        assert_true(u >= 0 && u < 1);
        sum += u, squares += u * u;
    }
    assert_true(fabs(sum / N - 0.5) < 0.01);
    assert_true(fabs(squares / N - 1.0 / 3) < 0.01);
    assert_true(ie_uniform(1, 0) != ie_uniform(2, 0) && ie_uniform(1, 0) != ie_uniform(1, 1));
    assert_true(ie_uniform(1ull << 32, 0) != ie_uniform(0, 0) && ie_uniform(0, 1ull << 32) != ie_uniform(0, 0)); /* all 64 bits count */
}

/* ---- greedy -------------------------------------------------------------------------------------------------------------- */

static void greedy(void **state) {
    (void)state;
    ie_sampling s = options(0);
    ie_error err;
    int32_t out;
    assert_int_equal(sample(&s, (float[]){1, 3, 2}, 3, 0), 1);
    assert_int_equal(sample(&s, (float[]){1, 3, 3}, 3, 0), 1); /* ties: the lower id */
    assert_int_equal(sample(&s, (float[]){NAN, -INFINITY, -5}, 3, 0), 2);
    assert_int_equal(sample(&s, (float[]){-1}, 1, 9), 0);
    for (int k = 0; k < 2; k++) {
        s.temp = (float)k;
        s.top_k = k ? 2 : 0;
        assert_int_equal(ie_sample(&s, (float[]){NAN, -INFINITY, NAN}, 3, NULL, 0, 0, &out, &err), IE_E_NUMERIC);
        assert_non_null(strstr(err.msg, "no finite logit"));
    }
}

/* ---- the whole chain against a reference ------------------------------------------------------------------------------------ */

typedef struct {
    double v;
    int32_t id;
} entry;

static int by_value(const void *pa, const void *pb) {
    const entry *a = pa, *b = pb;
    if (a->v != b->v) return a->v > b->v ? -1 : 1;
    return a->id < b->id ? -1 : a->id > b->id;
}

/* As documented: order, top-k (1000 with top-p alone), top-p, min-p, temperature, one number. Sets *edge when the number or a
 * limit falls so close to a boundary that the order of a sum could decide. */
static int32_t reference(const ie_sampling *s, const float *x, int32_t n, uint64_t index, bool *edge) {
    static entry e[MAX_VOCAB];
    for (int32_t i = 0; i < n; i++) e[i] = (entry){(double)x[i], i};
    qsort(e, (size_t)n, sizeof *e, by_value);
    int32_t k = s->top_k ? s->top_k : s->top_p < 1 ? 1000 : n;
    n = k < n ? k : n;
    double total = 0, sum = 0, max = e[0].v;
    *edge = false;
    if (s->top_p < 1) {
        for (int32_t i = 0; i < n; i++) total += exp(e[i].v - max);
        int32_t keep = 0;
        while (keep < n && sum < (double)s->top_p * total) {
            sum += exp(e[keep++].v - max);
            *edge = *edge || fabs(sum / total - (double)s->top_p) < 1e-12;
        }
        n = keep;
    }
    for (int32_t i = 1; i < n && s->min_p > 0; i++)
        if (exp(e[i].v - max) < (double)s->min_p) n = i;
    total = sum = 0;
    for (int32_t i = 0; i < n; i++) total += exp((e[i].v - max) / (double)s->temp);
    double u = ie_uniform(s->seed, index);
    for (int32_t i = 0; i < n; i++) {
        sum += exp((e[i].v - max) / (double)s->temp);
        *edge = *edge || fabs(sum / total - u) < 1e-12;
        if (sum / total > u) return e[i].id;
    }
    return e[n - 1].id;
}

static void options_against_reference(void **state) {
    (void)state;
    static float x[MAX_VOCAB];
    static const int32_t sizes[] = {1, 2, 7, 300, 1001, MAX_VOCAB};
    uint32_t edges = 0, tried = 0;
    for (uint32_t round = 0; round < 600; round++) {
        int32_t n = sizes[rnd(6)];
        float spread = (float[]){0.1f, 2.0f, 20.0f}[rnd(3)];
        for (int32_t i = 0; i < n; i++) x[i] = spread * ((float)rnd(rnd(2) ? 9 : 1000000) / 1000.0f); /* with many ties */
        ie_sampling s = options((float[]){0.1f, 0.7f, 1.0f, 3.0f, 1e6f}[rnd(5)]);
        s.top_k = (int32_t[]){0, 0, 1, 5, 40, 2000, 1 << 30}[rnd(7)];
        s.top_p = (float[]){1, 1, 0.9f, 0.5f, 1e-6f}[rnd(5)];
        s.min_p = (float[]){0, 0, 0.05f, 0.5f, 1}[rnd(5)];
        s.seed = rnd(4) ? rnd(1000) : UINT64_MAX - rnd(1000);
        for (uint64_t i = 0; i < 4; i++) {
            bool edge;
            int32_t want = reference(&s, x, n, i, &edge), got = sample(&s, x, n, i);
            tried++;
            edges += edge;
            if (got != want && !edge)
                fail_msg("%d of %d: token %d, expected %d (temp %g top-k %d top-p %g min-p %g seed %llu)", (int)i, (int)n, (int)got, (int)want,
                         (double)s.temp, (int)s.top_k, (double)s.top_p, (double)s.min_p, (unsigned long long)s.seed);
        }
    }
    assert_true(edges * 50 < tried);
}

/* The token depends on seed and index, not on what was drawn before. */
static void a_function_of_seed_and_index(void **state) {
    (void)state;
    float x[100];
    for (int i = 0; i < 100; i++) x[i] = (float)rnd(1000) / 300.0f;
    ie_sampling s = options(1);
    s.seed = 5;
    int32_t first[50], differ = 0;
    for (uint64_t i = 0; i < 50; i++) first[i] = sample(&s, x, 100, i);
    for (uint64_t i = 50; i-- > 0;) assert_int_equal(sample(&s, x, 100, i), first[i]);
    s.seed = 6;
    for (uint64_t i = 0; i < 50; i++) differ += sample(&s, x, 100, i) != first[i];
    assert_true(differ > 25);
}

static void frequencies(void **state) {
    (void)state;
    enum { N = 20000 };
    const double p[] = {0.2, 0.5, 0.3};
    float x[3];
    int count[3] = {0};
    for (int i = 0; i < 3; i++) x[i] = (float)log(p[i]);
    ie_sampling s = options(1);
    for (uint64_t i = 0; i < N; i++) count[sample(&s, x, 3, i)]++;
    for (int i = 0; i < 3; i++) assert_true(fabs((double)count[i] / N - p[i]) < 0.015);
}

/* ---- penalties and refusals ------------------------------------------------------------------------------------------------- */

static void repeat_penalty(void **state) {
    (void)state;
    ie_sampling s = options(0);
    ie_error err;
    int32_t out;
    const float x[4] = {4, 3, -1, -1.5f}, negative[3] = {-1, -1.5f, -9};
    s.repeat_penalty = 2;
    assert_int_equal(ie_sample(&s, x, 4, (int32_t[]){0}, 1, 0, &out, &err), IE_OK);
    assert_int_equal(out, 1); /* 4 / 2 < 3 */
    assert_int_equal(ie_sample(&s, x, 4, (int32_t[]){0, 1, 0, 0}, 4, 0, &out, &err), IE_OK);
    assert_int_equal(out, 0); /* 4 / 2 > 3 / 2: once each, however often seen */
    assert_int_equal(ie_sample(&s, negative, 3, (int32_t[]){0}, 1, 0, &out, &err), IE_OK);
    assert_int_equal(out, 1); /* -1 * 2 < -1.5 */
    s.repeat_last = 2;
    assert_int_equal(ie_sample(&s, x, 4, (int32_t[]){0, 2, 3}, 3, 0, &out, &err), IE_OK);
    assert_int_equal(out, 0); /* seen too long ago */
    s.repeat_last = 0;
    assert_int_equal(ie_sample(&s, x, 4, (int32_t[]){0}, 1, 0, &out, &err), IE_OK);
    assert_int_equal(out, 0);
    s.repeat_last = 64;
    assert_int_equal(ie_sample(&s, x, 4, (int32_t[]){-1, 4, INT32_MAX, INT32_MIN}, 4, 0, &out, &err), IE_OK); /* ids of elsewhere */
    assert_int_equal(out, 0);
    assert_true(x[0] == 4 && x[2] == -1); /* the caller's logits stay */
}

static void presence_frequency_and_bias(void **state) {
    (void)state;
    const float x[4] = {4, 3, 2.5f, -1};
    const int32_t seen[6] = {1, 1, 1, 0, 0, 2}; /* the last `index` of them are output */
    ie_sampling s = options(0);
    ie_error err;
    int32_t out;
    s.presence_penalty = 1.2f;
    assert_int_equal(ie_sample(&s, x, 4, seen, 6, 3, &out, &err), IE_OK);
    assert_int_equal(out, 1); /* 4 - 1.2 < 3: 1 is of the prompt */
    assert_int_equal(ie_sample(&s, x, 4, seen, 6, 0, &out, &err), IE_OK);
    assert_int_equal(out, 0);
    s.presence_penalty = 0, s.frequency_penalty = 0.4f;
    assert_int_equal(ie_sample(&s, x, 4, seen, 5, 1, &out, &err), IE_OK);
    assert_int_equal(out, 0); /* 4 - 0.4 > 3 */
    assert_int_equal(ie_sample(&s, x, 4, seen, 6, 6, &out, &err), IE_OK);
    assert_int_equal(out, 0); /* 4 - 0.8, 3 - 1.2, 2.5 - 0.4 */
    s.frequency_penalty = -1;
    assert_int_equal(ie_sample(&s, x, 4, seen, 6, 6, &out, &err), IE_OK);
    assert_int_equal(out, 0); /* 4 + 2 against 3 + 3: the lower id */
    const ie_bias bias[3] = {{0, -INFINITY}, {3, 6}, {99, 5}};
    s = options(0), s.bias = bias, s.n_bias = 1;
    assert_int_equal(ie_sample(&s, x, 4, NULL, 0, 0, &out, &err), IE_OK);
    assert_int_equal(out, 1);
    s.n_bias = 3;
    assert_int_equal(ie_sample(&s, x, 4, NULL, 0, 0, &out, &err), IE_OK);
    assert_int_equal(out, 3);
    const ie_bias all[4] = {{0, -INFINITY}, {1, -INFINITY}, {2, -INFINITY}, {3, -INFINITY}};
    s.bias = all, s.n_bias = 4;
    assert_int_equal(ie_sample(&s, x, 4, NULL, 0, 0, &out, &err), IE_E_NUMERIC);
}

static void log_probabilities(void **state) {
    (void)state;
    const double p[4] = {0.25, 0.5, 0.125, 0.125};
    float x[5], lp;
    ie_token_prob best[5];
    ie_error err;
    int32_t n;
    for (int i = 0; i < 4; i++) x[i] = (float)log(p[i]) + 3;
    x[4] = -INFINITY;
    assert_int_equal(ie_logprobs(x, 5, 0, 5, &lp, best, &n, &err), IE_OK);
    assert_true(fabs((double)lp - log(0.25)) < 1e-6);
    assert_int_equal(n, 4);
    const int32_t order[4] = {1, 0, 2, 3};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(best[i].token, order[i]);
        assert_true(fabs((double)best[i].logprob - log(p[order[i]])) < 1e-6);
    }
    assert_int_equal(ie_logprobs(x, 5, 4, 0, &lp, NULL, &n, &err), IE_OK);
    assert_true(lp == -INFINITY && n == 0);
    assert_int_equal(ie_logprobs(x, 5, 5, 0, &lp, NULL, &n, &err), IE_E_ARG);
    assert_int_equal(ie_logprobs(x + 4, 1, 0, 0, &lp, NULL, &n, &err), IE_E_NUMERIC);
}

static void masked(void **state) {
    (void)state;
    enum { N = 130 };
    float x[N];
    for (int i = 0; i < N; i++) x[i] = (float)i;
    uint64_t mask[3] = {1u << 5 | 1u << 7, 0, 2}; /* 5, 7, 129 */
    ie_sampling s = options(0);
    s.mask = mask;
    assert_int_equal(sample(&s, x, N, 0), 129);
    ie_bias b = {129, -INFINITY};
    s.bias = &b, s.n_bias = 1;
    assert_int_equal(sample(&s, x, N, 0), 7); /* biases come first, the mask cannot be undone by them */
    b = (ie_bias){6, 1000};
    mask[2] = 0;
    assert_int_equal(sample(&s, x, N, 0), 7);
    s.temp = 1000, s.bias = NULL, s.n_bias = 0;
    bool seen[N] = {0};
    for (uint64_t i = 0; i < 200; i++) seen[sample(&s, x, N, i)] = true;
    for (int i = 0; i < N; i++) assert_int_equal(seen[i], i == 5 || i == 7);
    s.top_k = 1; /* of what is allowed */
    assert_int_equal(sample(&s, x, N, 3), 7);
    ie_error err;
    int32_t out;
    mask[0] = 0;
    assert_int_equal(ie_sample(&s, x, N, NULL, 0, 0, &out, &err), IE_E_NUMERIC);
}

static void bad_options(void **state) {
    (void)state;
    const float x[2] = {1, 2};
    ie_sampling bad[10];
    for (int i = 0; i < 10; i++) bad[i] = options(1);
    bad[0].temp = -1, bad[1].temp = NAN, bad[2].temp = INFINITY, bad[3].top_k = -1, bad[4].top_p = 0;
    bad[5].top_p = 1.5f, bad[6].min_p = -0.1f, bad[7].min_p = NAN, bad[8].repeat_penalty = 0, bad[9].repeat_penalty = -INFINITY;
    for (int i = 0; i < 10; i++) {
        ie_error err = {0};
        int32_t out = 77;
        assert_int_equal(ie_sample(&bad[i], x, 2, NULL, 0, 0, &out, &err), IE_E_ARG);
        assert_non_null(strstr(err.msg, "allowed are"));
        assert_int_equal(out, 77);
    }
    ie_sampling s = options(1);
    int32_t out;
    assert_int_equal(ie_sample(&s, x, 0, NULL, 0, 0, &out, NULL), IE_E_ARG);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_vectors),
        cmocka_unit_test(uniform_numbers),
        cmocka_unit_test(greedy),
        cmocka_unit_test(options_against_reference),
        cmocka_unit_test(a_function_of_seed_and_index),
        cmocka_unit_test(frequencies),
        cmocka_unit_test(repeat_penalty),
        cmocka_unit_test(presence_frequency_and_bias),
        cmocka_unit_test(log_probabilities),
        cmocka_unit_test(masked),
        cmocka_unit_test(bad_options),
    };
    return cmocka_run_group_tests_name("sample", tests, NULL, NULL);
}
