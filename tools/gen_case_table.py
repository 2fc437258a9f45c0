#!/usr/bin/env python3
"""Writes src/text/jinja_case.c: the case mappings of Python's str (upper, lower, title) as C tables.

Runs of code points with one difference (step 1 or 2) make a row; mappings to several code points have rows of their own.
Usage: tools/gen_case_table.py > src/text/jinja_case.c
"""
import unicodedata

METHODS = ("upper", "lower", "title")


def mapping(method):
    simple, special = {}, []
    for cp in range(0x80, 0x110000):
        if 0xD800 <= cp < 0xE000:
            continue
        to = getattr(chr(cp), method)()
        if to == chr(cp):
            continue
        if len(to) == 1:
            simple[cp] = ord(to) - cp
        else:
            special.append((cp, [ord(c) for c in to]))
    return simple, special


def runs(simple):
    """[first, last, step, difference]"""
    rows = []
    for cp in sorted(simple):
        d = simple[cp]
        for r in rows[-2:]:  # a run of step 2 may interleave with one other
            step = cp - r[1]
            if r[3] == d and (step == r[2] or (r[0] == r[1] and step in (1, 2))):
                r[1], r[2] = cp, step
                break
        else:
            rows.append([cp, cp, 1, d])
    return rows


def table(name, rows, width, fmt):
    out = [f"static const {name} = {{"]
    line = "   "
    for r in rows:
        item = " " + fmt(r) + ","
        if len(line) + len(item) > width:
            out.append(line)
            line = "   "
        line += item
    return out + [line, "};"]


HEAD = """/* Case mappings of str.upper, lower and title in Python, Unicode %s. Made by tools/gen_case_table.py. */
/* clang-format off */
#include "jinja.h"

typedef struct {
    uint32_t first, last, step;
    int32_t diff;
} jcase_run;

typedef struct {
    uint32_t cp, to[3]; /* padded by 0 */
} jcase_special;
"""

TAIL = """
#define ROWS(t) sizeof(t) / sizeof(t)[0]

static const struct {
    const jcase_run *run;
    size_t n_run;
    const jcase_special *special;
    size_t n_special;
} tables[] = {
    {upper_runs, ROWS(upper_runs), upper_special, ROWS(upper_special)},
    {lower_runs, ROWS(lower_runs), lower_special, ROWS(lower_special)},
    {title_runs, ROWS(title_runs), title_special, ROWS(title_special)},
};

unsigned j_case(jcase how, uint32_t cp, uint32_t out[3]) {
    out[0] = cp;
    if (cp < 0x80) {
        if (how == J_LOWER ? cp >= 'A' && cp <= 'Z' : cp >= 'a' && cp <= 'z') out[0] ^= 0x20;
        return 1;
    }
    for (size_t i = 0; i < tables[how].n_special; i++) {
        const jcase_special *s = &tables[how].special[i];
        if (s->cp != cp) continue;
        unsigned n = 0;
        while (n < 3 && s->to[n]) out[n] = s->to[n], n++;
        return n;
    }
    for (size_t i = 0; i < tables[how].n_run; i++) {
        const jcase_run *r = &tables[how].run[i];
        if (cp < r->first) break;
        if (cp <= r->last && (cp - r->first) % r->step == 0) {
            out[0] = (uint32_t)((int32_t)cp + r->diff);
            return 1;
        }
    }
    return 1;
}

/* A letter of a case differs from itself in another case; letters without mappings (as in mathematical alphabets) do not
 * count. */
bool j_is_cased(uint32_t cp, jcase how) {
    uint32_t to[3];
    bool up = j_case(J_UPPER, cp, to) != 1 || to[0] != cp;
    bool low = j_case(J_LOWER, cp, to) != 1 || to[0] != cp;
    if (how == J_TITLE) return up && low;
    return how == J_UPPER ? low && !up : up && !low;
}
"""


def main():
    print(HEAD % unicodedata.unidata_version)
    for m in METHODS:
        simple, special = mapping(m)
        print("\n".join(table(f"jcase_run {m}_runs[]", runs(simple), 118, lambda r: "{0x%X, 0x%X, %d, %d}" % tuple(r))))
        print("\n".join(table(f"jcase_special {m}_special[]", special, 118,
                              lambda r: "{0x%X, {%s}}" % (r[0], ", ".join("0x%X" % c for c in r[1])))))
    print(TAIL, end="")


main()
