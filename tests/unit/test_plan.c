/* Planner and plan check: random plans stay legal and tight, hand-made bad plans are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "ie_core.h"
#include "plan.h"

static uint64_t rng_state = 88172645463325252u;
static uint32_t rnd(uint32_t n) {
    rng_state ^= rng_state << 13, rng_state ^= rng_state >> 7, rng_state ^= rng_state << 17;
    return (uint32_t)(rng_state >> 33) % n;
}

static void layered_plan_is_tight(void **state) {
    (void)state;
    /* x lives through, a and b in turns: a reuses what b left. */
    ie_plan_buf b[] = {{.bytes = 1000, .first = 0, .last = 9},
                       {.bytes = 4096, .first = 0, .last = 2},
                       {.bytes = 4096, .first = 3, .last = 5},
                       {.bytes = 4000, .first = 6, .last = 9}};
    uint64_t arena = 1;
    ie_error err;
    assert_int_equal(ie_plan(b, 4, &arena, &err), IE_OK);
    assert_int_equal(arena, 4096 + 1024);
    assert_int_equal(b[1].off, b[2].off);
    assert_int_equal(b[1].off, b[3].off);
}

static void zero_and_empty(void **state) {
    (void)state;
    uint64_t arena = 7;
    ie_error err;
    assert_int_equal(ie_plan(NULL, 0, &arena, &err), IE_OK);
    assert_int_equal(arena, 0);
    ie_plan_buf b[] = {{.bytes = 0, .first = 0, .last = 3}, {.bytes = 1, .first = 1, .last = 1}};
    assert_int_equal(ie_plan(b, 2, &arena, &err), IE_OK);
    assert_int_equal(arena, 256);
}

static void bad_input_is_named(void **state) {
    (void)state;
    uint64_t arena;
    ie_error err;
    ie_plan_buf rev = {.bytes = 1, .first = 4, .last = 3};
    assert_int_equal(ie_plan(&rev, 1, &arena, &err), IE_E_ARG);
    assert_non_null(strstr(err.msg, "from op 4 to op 3"));
    ie_plan_buf big = {.bytes = UINT64_MAX, .first = 0, .last = 0};
    assert_int_equal(ie_plan(&big, 1, &arena, &err), IE_E_NOMEM);
    ie_plan_buf two[2] = {{.bytes = 1ull << 39, .first = 0, .last = 0}, {.bytes = 1ull << 39, .first = 0, .last = 0}};
    assert_int_equal(ie_plan(two, 2, &arena, &err), IE_E_NOMEM); /* 2^32 units: one too many */
    two[1].bytes -= 256;
    assert_int_equal(ie_plan(two, 2, &arena, &err), IE_OK);
    assert_int_equal(arena, (1ull << 40) - 256);
    assert_int_equal(ie_plan(two, IE_PLAN_MAX_BUFS + 1u, &arena, &err), IE_E_ARG);
}

/* Every unit of the arena at every op is owned at most once; the arena is not below the live peak. */
static void random_plans(void **state) {
    (void)state;
    enum { OPS = 24, UNITS = 4096 };
    static uint16_t owner[UNITS];
    for (int round = 0; round < 2000; round++) {
        ie_plan_buf b[40];
        uint32_t n = 1 + rnd(40), peak = 0;
        for (uint32_t i = 0; i < n; i++) {
            uint32_t f = rnd(OPS), l = f + rnd(OPS - f);
            b[i] = (ie_plan_buf){.bytes = rnd(4) ? rnd(20 * 256) : 256u * rnd(20), .first = f, .last = l};
        }
        uint64_t arena = 0;
        assert_int_equal(ie_plan(b, n, &arena, NULL), IE_OK);
        assert_true(arena % 256 == 0 && arena / 256 <= UNITS);
        for (uint32_t op = 0; op < OPS; op++) {
            uint32_t live = 0;
            memset(owner, 0, sizeof owner);
            for (uint32_t i = 0; i < n; i++) {
                if (b[i].first > op || b[i].last < op) continue;
                uint32_t units = (uint32_t)((b[i].bytes + 255) / 256);
                for (uint32_t u = 0; u < units; u++) {
                    assert_true(b[i].off + u < arena / 256);
                    assert_int_equal(owner[b[i].off + u]++, 0);
                }
                live += units;
            }
            if (live > peak) peak = live;
        }
        assert_true(arena / 256 >= peak && arena / 256 <= 2 * peak);
    }
}

static void check_refuses(void **state) {
    (void)state;
    uint32_t off[3] = {0, 4, 8}, size[3] = {4, 4, 4}, first[3] = {0, 0, 0}, last[3] = {5, 5, 5};
    assert_true(ie_plan_check(off, size, first, last, 3, 12));
    assert_false(ie_plan_check(off, size, first, last, 3, 11)); /* outside */
    off[2] = 7;
    assert_false(ie_plan_check(off, size, first, last, 3, 12)); /* overlap by one unit */
    first[2] = 6, last[2] = 6;
    assert_true(ie_plan_check(off, size, first, last, 3, 12)); /* not alive together */
    last[2] = 5;
    assert_false(ie_plan_check(off, size, first, last, 3, 12)); /* reversed */
    off[2] = 0xFFFFFFFFu, last[2] = 6;
    assert_false(ie_plan_check(off, size, first, last, 3, 0xFFFFFFFFu)); /* would wrap */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layered_plan_is_tight), cmocka_unit_test(zero_and_empty), cmocka_unit_test(bad_input_is_named),
        cmocka_unit_test(random_plans),          cmocka_unit_test(check_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
