/* Tests (`is ...`) of chat templates. */
#include "jinja.h"

#define TEST(name, expr)                                                                                               \
    static jv name(jx *x, jv v, const jv *a, const jargs *raw) {                                                       \
        (void)x, (void)v, (void)a, (void)raw;                                                                          \
        return jv_bool(expr);                                                                                          \
    }

static int64_t modulo(jx *x, jv v, jv n) { /* v % n, which must be a number; 2 stands for any fraction */
    if (!j_is_number(v) || v.type == J_STR) j_math(x, T_SUB, v, jv_int(0)); /* the error of Python's % */
    jv r = j_math(x, T_MOD, v, n);
    return r.type == J_INT ? r.i : r.f == 0 ? 0 : r.f == 1 ? 1 : 2;
}

static uint64_t bits_of(double f) {
    uint64_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

/* Python's `is`, as far as it is defined: equal scalars of one type are one object here. */
static bool same(jv a, jv b) {
    if (a.type != b.type) return false;
    switch ((jtype)a.type) {
    case J_NONE: return true;
    case J_BOOL: return a.b == b.b;
    case J_INT: return a.i == b.i;
    case J_FLOAT: return bits_of(a.f) == bits_of(b.f); /* -0 is not 0, a NaN is itself */
    case J_STR: return j_str_eq(a.s, b.s);
    default: return a.d == b.d;
    }
}

static bool is_sequence(jv v) {
    bool no_index = v.type == J_SEQ &&
                    (v.q->kind == J_GENERATOR || v.q->kind == J_KEYS || v.q->kind == J_VALUES || v.q->kind == J_ITEMS);
    return v.type == J_STR || v.type == J_DICT || v.type == J_UNDEF || (v.type == J_SEQ && !no_index);
}

static bool all_case(jx *x, jstr *s, jcase how) { /* str.islower, str.isupper */
    bool any = false;
    size_t len;
    for (size_t i = 0; i < s->len; i += len) {
        uint32_t c = j_decode(s->s + i, s->s + s->len, &len);
        if (j_is_cased(c, how == J_UPPER ? J_LOWER : J_UPPER) || j_is_cased(c, J_TITLE)) return false;
        any |= j_is_cased(c, how);
    }
    j_charge(x, s->len >> 4);
    return any;
}

static bool is_callable(jv v) {
    return v.type == J_FUNC || v.type == J_METHOD || v.type == J_MACRO || v.type == J_LOOP || v.type == J_JOINER ||
           v.type == J_UNDEF;
}

static bool found(jx *x, jv v, const jbuiltin *(*find)(const char *, size_t)) {
    jstr *s = j_to_str(x, v);
    return find(s->s, s->len) != NULL;
}

TEST(t_odd, modulo(x, v, jv_int(2)) == 1)
TEST(t_even, modulo(x, v, jv_int(2)) == 0)
TEST(t_divisibleby, modulo(x, v, a[0]) == 0)
TEST(t_defined, v.type != J_UNDEF)
TEST(t_undefined, v.type == J_UNDEF)
TEST(t_none, v.type == J_NONE)
TEST(t_boolean, v.type == J_BOOL)
TEST(t_true, v.type == J_BOOL && v.b)
TEST(t_false, v.type == J_BOOL && !v.b)
TEST(t_integer, v.type == J_INT)
TEST(t_float, v.type == J_FLOAT)
TEST(t_number, j_is_number(v))
TEST(t_string, v.type == J_STR)
TEST(t_mapping, v.type == J_DICT)
TEST(t_sequence, is_sequence(v))
TEST(t_iterable, j_is_iterable(v))
TEST(t_callable, is_callable(v))
TEST(t_lower, all_case(x, j_to_str(x, v), J_LOWER))
TEST(t_upper, all_case(x, j_to_str(x, v), J_UPPER))
TEST(t_sameas, same(v, a[0]))
TEST(t_escaped, v.type == J_STR && v.markup)
TEST(t_in, j_contains(x, v, a[0]))
TEST(t_filter, found(x, v, j_find_filter))
TEST(t_test, found(x, v, j_find_test))
TEST(t_eq, j_compare(x, T_EQ, v, a[0]))
TEST(t_ne, j_compare(x, T_NE, v, a[0]))
TEST(t_lt, j_compare(x, T_LT, v, a[0]))
TEST(t_le, j_compare(x, T_LE, v, a[0]))
TEST(t_gt, j_compare(x, T_GT, v, a[0]))
TEST(t_ge, j_compare(x, T_GE, v, a[0]))

const jbuiltin *j_find_test(const char *name, size_t len) {
    static const jbuiltin table[] = {
        {"odd", t_odd, "", 0},
        {"even", t_even, "", 0},
        {"divisibleby", t_divisibleby, "num", 1},
        {"defined", t_defined, "", 0},
        {"undefined", t_undefined, "", 0},
        {"none", t_none, "", 0},
        {"boolean", t_boolean, "", 0},
        {"true", t_true, "", 0},
        {"false", t_false, "", 0},
        {"integer", t_integer, "", 0},
        {"float", t_float, "", 0},
        {"number", t_number, "", 0},
        {"string", t_string, "", 0},
        {"mapping", t_mapping, "", 0},
        {"sequence", t_sequence, "", 0},
        {"iterable", t_iterable, "", 0},
        {"callable", t_callable, "", 0},
        {"lower", t_lower, "", 0},
        {"upper", t_upper, "", 0},
        {"sameas", t_sameas, "other", 1},
        {"escaped", t_escaped, "", 0},
        {"in", t_in, "seq", 1},
        {"filter", t_filter, "", 0},
        {"test", t_test, "", 0},
        {"eq", t_eq, "/b", 1},
        {"equalto", t_eq, "/b", 1},
        {"==", t_eq, "/b", 1},
        {"ne", t_ne, "/b", 1},
        {"!=", t_ne, "/b", 1},
        {"lt", t_lt, "/b", 1},
        {"lessthan", t_lt, "/b", 1},
        {"<", t_lt, "/b", 1},
        {"le", t_le, "/b", 1},
        {"<=", t_le, "/b", 1},
        {"gt", t_gt, "/b", 1},
        {"greaterthan", t_gt, "/b", 1},
        {">", t_gt, "/b", 1},
        {"ge", t_ge, "/b", 1},
        {">=", t_ge, "/b", 1},
    };
    return J_IN_TABLE(table, name, len);
}
