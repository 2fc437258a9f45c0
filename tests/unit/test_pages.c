/* The pool of KV pages and the tree of kept prefixes, against a plain model of both. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pages.h"

#define N 6u

static ie_pages *pool(uint32_t n, uint64_t budget) {
    ie_error err;
    ie_pages *p = ie_pages_new(n, budget, &err);
    assert_non_null(p);
    return p;
}

static void key(int32_t *t, int32_t v) {
    for (uint32_t i = 0; i < IE_PAGE; i++) t[i] = v + (int32_t)i;
}

/* Takes a page and keeps it under parent with key v; the sequence's use of it ends. */
static uint32_t keep(ie_pages *p, uint32_t parent, int32_t v) {
    int32_t t[IE_PAGE];
    key(t, v);
    uint32_t page = ie_pages_take(p);
    assert_int_not_equal(page, IE_NO_PAGE);
    ie_pages_keep(p, page, parent, t);
    ie_pages_touch(p, page, ie_pages_stamp(p));
    ie_pages_unref(p, page);
    return page;
}

static uint32_t find(const ie_pages *p, uint32_t parent, int32_t v) {
    int32_t t[IE_PAGE];
    key(t, v);
    return ie_pages_find(p, parent, t);
}

static void pages_come_and_go(void **state) {
    (void)state;
    ie_pages *p = pool(N, 0);
    uint32_t page[N];
    bool seen[N] = {false};
    for (uint32_t i = 0; i < N; i++) {
        page[i] = ie_pages_take(p);
        assert_in_range(page[i], 0, N - 1);
        assert_false(seen[page[i]]);
        seen[page[i]] = true;
        assert_false(ie_pages_shared(p, page[i]));
    }
    assert_int_equal(ie_pages_take(p), IE_NO_PAGE);
    assert_int_equal(ie_pages_available(p), 0);
    ie_pages_ref(p, page[2]);
    assert_true(ie_pages_shared(p, page[2]));
    ie_pages_unref(p, page[2]);
    assert_int_equal(ie_pages_free_count(p), 0);
    for (uint32_t i = 0; i < N; i++) ie_pages_unref(p, page[i]);
    assert_int_equal(ie_pages_free_count(p), N);
    ie_pages_free(p);
    ie_pages_free(NULL);
}

static void equal_tokens_behind_other_parents_are_other_pages(void **state) {
    (void)state;
    ie_pages *p = pool(N, 0);
    uint32_t a = keep(p, IE_NO_PAGE, 100), b = keep(p, IE_NO_PAGE, 200), c = keep(p, a, 300), d = keep(p, b, 300);
    assert_int_equal(find(p, IE_NO_PAGE, 100), a);
    assert_int_equal(find(p, a, 300), c);
    assert_int_equal(find(p, b, 300), d);
    assert_int_equal(find(p, c, 300), IE_NO_PAGE);
    assert_int_equal(find(p, IE_NO_PAGE, 300), IE_NO_PAGE);
    uint32_t parent;
    const int32_t *tokens;
    uint64_t stamp;
    assert_true(ie_pages_get(p, d, &parent, &tokens, &stamp));
    assert_int_equal(parent, b);
    assert_int_equal(tokens[IE_PAGE - 1], 300 + (int32_t)IE_PAGE - 1);
    assert_int_equal(ie_pages_kept(p), 4);
    assert_int_equal(ie_pages_available(p), N);
    ie_pages_drop(p, b); /* and d below it */
    assert_int_equal(ie_pages_kept(p), 2);
    assert_false(ie_pages_get(p, d, &parent, &tokens, &stamp));
    assert_int_equal(find(p, IE_NO_PAGE, 200), IE_NO_PAGE);
    assert_int_equal(find(p, a, 300), c);
    ie_pages_free(p);
}

static void least_recently_used_goes_first_leaves_before_parents(void **state) {
    (void)state;
    ie_pages *p = pool(4, 0);
    uint32_t a = keep(p, IE_NO_PAGE, 100), b = keep(p, a, 200), c = keep(p, IE_NO_PAGE, 300), d = keep(p, c, 400);
    uint64_t stamp = ie_pages_stamp(p); /* a and b are used again, as one path */
    ie_pages_touch(p, a, stamp);
    ie_pages_touch(p, b, stamp);
    ie_pages_touch(p, d, stamp - 1);
    ie_pages_touch(p, c, stamp - 1);
    assert_int_equal(ie_pages_take(p), d);
    assert_int_equal(find(p, IE_NO_PAGE, 300), c);
    assert_int_equal(ie_pages_take(p), c);
    assert_int_equal(ie_pages_take(p), b);
    assert_int_equal(find(p, IE_NO_PAGE, 100), a);
    ie_pages_ref(p, a); /* a sequence uses it: it stays */
    assert_int_equal(ie_pages_available(p), 0);
    assert_int_equal(ie_pages_take(p), IE_NO_PAGE);
    assert_int_equal(find(p, IE_NO_PAGE, 100), a);
    ie_pages_unref(p, a);
    assert_int_equal(ie_pages_take(p), a);
    assert_int_equal(ie_pages_kept(p), 0);
    ie_pages_free(p);
}

static void a_used_leaf_outlives_its_dropped_place_in_the_tree(void **state) {
    (void)state;
    ie_pages *p = pool(2, 0);
    uint32_t a = keep(p, IE_NO_PAGE, 100), b = keep(p, a, 200);
    ie_pages_ref(p, b);
    assert_int_equal(ie_pages_take(p), a); /* a goes, so b cannot be found any more, but its user keeps it */
    assert_int_equal(ie_pages_kept(p), 0);
    assert_int_equal(ie_pages_take(p), IE_NO_PAGE);
    ie_pages_unref(p, b);
    assert_int_equal(ie_pages_take(p), b);
    ie_pages_free(p);
}

static void states_stay_within_their_budget(void **state) {
    (void)state;
    ie_pages *p = pool(N, 100);
    uint64_t bytes;
    assert_int_equal(ie_pages_state_budget(p), 100);
    uint32_t a = keep(p, IE_NO_PAGE, 100), b = keep(p, a, 200), c = keep(p, b, 300);
    assert_null(ie_pages_state_new(p, a, 101));
    memset(ie_pages_state_new(p, a, 40), 1, 40);
    memset(ie_pages_state_new(p, b, 40), 2, 40);
    assert_int_equal(ie_pages_states(p, &bytes), 2);
    assert_int_equal(bytes, 80);
    ie_pages_touch(p, a, ie_pages_stamp(p)); /* now b's was used least recently */
    memset(ie_pages_state_new(p, c, 40), 3, 40);
    assert_null(ie_pages_state(p, b));
    assert_int_equal(((const uint8_t *)ie_pages_state(p, a))[39], 1);
    assert_int_equal(((const uint8_t *)ie_pages_state(p, c))[39], 3);
    ie_pages_drop(p, c);
    assert_int_equal(ie_pages_states(p, &bytes), 1);
    assert_int_equal(bytes, 40);
    ie_pages_state_drop(p, a);
    ie_pages_state_drop(p, a);
    assert_int_equal(ie_pages_states(p, &bytes), 0);
    assert_int_equal(bytes, 0);
    ie_pages_free(p);
}

/* Random calls; the pool's numbers must add up, and each page has the users that the model says. */
static void random_calls(void **state) {
    (void)state;
    enum { PAGES = 24, STEPS = 20000, KEYS = 5 };
    ie_pages *p = pool(PAGES, 64);
    uint32_t users[PAGES] = {0}, used = 0, rng = 1;
    for (int i = 0; i < STEPS; i++) {
        rng = rng * 1664525u + 1013904223u;
        uint32_t page = (rng >> 8) % PAGES, op = rng >> 28;
        if (op < 5) {
            uint32_t before = ie_pages_available(p), got = ie_pages_take(p);
            assert_int_equal(got == IE_NO_PAGE, before == 0);
            if (got != IE_NO_PAGE) assert_int_equal(users[got], 0), users[got] = 1, used++;
        } else if (op < 9) {
            if (users[page]) {
                ie_pages_unref(p, page);
                if (--users[page] == 0) used--;
            }
        } else if (op < 13 && users[page]) {
            uint32_t parent, other = (rng >> 3) % PAGES;
            const int32_t *tokens;
            uint64_t stamp;
            bool kept = ie_pages_get(p, page, &parent, &tokens, &stamp), under = ie_pages_get(p, other, &parent, &tokens, &stamp);
            int32_t t[IE_PAGE];
            key(t, (int32_t)(rng >> 5) % KEYS * 100);
            parent = under ? other : IE_NO_PAGE;
            if (!kept && other != page && ie_pages_find(p, parent, t) == IE_NO_PAGE) ie_pages_keep(p, page, parent, t);
            ie_pages_touch(p, page, ie_pages_stamp(p));
        } else if (op == 13) {
            uint32_t parent;
            const int32_t *tokens;
            uint64_t stamp;
            if (ie_pages_get(p, page, &parent, &tokens, &stamp) && !ie_pages_state(p, page)) assert_non_null(ie_pages_state_new(p, page, 1 + rng % 30));
        } else if (op == 14) {
            uint32_t parent, at = page;
            const int32_t *tokens;
            uint64_t stamp;
            if (ie_pages_get(p, page, &parent, &tokens, &stamp)) /* every kept page is found from the beginning of its path */
                for (; at != IE_NO_PAGE; at = parent) {
                    assert_true(ie_pages_get(p, at, &parent, &tokens, &stamp));
                    assert_int_equal(ie_pages_find(p, parent, tokens), at);
                }
        }
        uint64_t bytes;
        assert_true(ie_pages_states(p, &bytes) <= ie_pages_kept(p) && bytes <= 64);
        assert_int_equal(ie_pages_available(p), PAGES - used);
        assert_true(ie_pages_free_count(p) <= ie_pages_available(p));
    }
    ie_pages_free(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_come_and_go),
        cmocka_unit_test(equal_tokens_behind_other_parents_are_other_pages),
        cmocka_unit_test(least_recently_used_goes_first_leaves_before_parents),
        cmocka_unit_test(a_used_leaf_outlives_its_dropped_place_in_the_tree),
        cmocka_unit_test(states_stay_within_their_budget),
        cmocka_unit_test(random_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
