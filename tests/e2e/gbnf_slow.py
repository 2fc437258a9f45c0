"""A slow, independent matcher for GBNF: parses a grammar into a tree and matches by sets of end positions, with memoisation. Written
for clarity, from the language's documentation; serves the tests as a second opinion."""
import contextlib
import functools
import re
import sys

TOKEN = re.compile(r'\s*(?:#[^\n]*\s*)*("(?:\\.|[^"\\])*"|\[(?:\\.|[^\]\\])*\]|[A-Za-z0-9_-]+\s*::=|[A-Za-z0-9_-]+|\{\d+(?:,\d*)?\}|[()|*+?.])', re.S)


@contextlib.contextmanager
def deep(limit=100000):
    """Recursion to that depth, inside the block alone: other tests of the process count on Python's own limit."""
    old = sys.getrecursionlimit()
    sys.setrecursionlimit(limit)
    try:
        yield
    finally:
        sys.setrecursionlimit(old)


def characters(body):
    """The characters of a text or class, escapes resolved; a tuple (c,) marks one that was escaped."""
    out, i = [], 0
    while i < len(body):
        if body[i] != "\\":
            out.append(body[i])
            i += 1
            continue
        c = body[i + 1]
        if c in "xuU":
            n = {"x": 2, "u": 4, "U": 8}[c]
            out.append((chr(int(body[i + 2:i + 2 + n], 16)),))
            i += 2 + n
        else:
            out.append(({"n": "\n", "r": "\r", "t": "\t"}.get(c, c),))
            i += 2
    return out


def plain(c):
    return c[0] if isinstance(c, tuple) else c


class Grammar:
    def __init__(self, text):
        self.words, at = [], 0
        text = text.rstrip()
        text = re.sub(r"\s*#[^\n]*$", "", text)
        while at < len(text):
            m = TOKEN.match(text, at)
            assert m, text[at:at + 40]
            self.words.append(m.group(1))
            at = m.end()
        self.rules, self.i = {}, 0
        while self.i < len(self.words):
            name = self.words[self.i][:-3].strip()
            self.i += 1
            self.rules[name] = self.alternatives()

    def peek(self):
        return self.words[self.i] if self.i < len(self.words) else None

    def alternatives(self):
        alts = [self.sequence()]
        while self.peek() == "|":
            self.i += 1
            alts.append(self.sequence())
        return ("alt", tuple(alts))

    def sequence(self):
        items = []
        while (w := self.peek()) is not None and w not in "|)" and not w.endswith("::="):
            self.i += 1
            if w == "(":
                e = self.alternatives()
                assert self.peek() == ")"
                self.i += 1
            elif w[0] == '"':
                e = ("text", "".join(plain(c) for c in characters(w[1:-1])))
            elif w[0] == "[":
                e = self.char_class(w[1:-1])
            elif w == ".":
                e = ("class", (), True)
            else:
                e = ("rule", w)
            while (r := self.peek()) is not None and r[0] in "*+?{":
                self.i += 1
                lo, hi = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(r, (None, None))
                if lo is None:
                    a, _, b = r[1:-1].partition(",")
                    lo, hi = int(a), int(b) if b else None if "," in r else int(a)
                e = ("repeat", e, lo, hi)
            items.append(e)
        return ("seq", tuple(items))

    def char_class(self, body):
        negated = body.startswith("^")
        cs, ranges, i = characters(body[negated:]), [], 0
        while i < len(cs):
            lo = hi = plain(cs[i])
            i += 1
            if i + 1 < len(cs) and cs[i] == "-":
                hi = plain(cs[i + 1])
                i += 2
            ranges.append((lo, hi))
        return ("class", tuple(ranges), negated)

    def matches(self, s):
        @functools.lru_cache(None)
        def ends(e, at):
            kind = e[0]
            if kind == "text":
                return frozenset([at + len(e[1])] if s.startswith(e[1], at) else [])
            if kind == "class":
                hit = at < len(s) and any(a <= s[at] <= b for a, b in e[1]) != e[2]
                return frozenset([at + 1] if hit else [])
            if kind == "rule":
                return ends(self.rules[e[1]], at)
            if kind == "alt":
                return frozenset().union(*(ends(x, at) for x in e[1]))
            if kind == "seq":
                now = {at}
                for x in e[1]:
                    now = set().union(*(ends(x, p) for p in now))
                return frozenset(now)
            _, x, lo, hi = e  # after so many rounds nothing new can come: every round that counts reads something
            now, seen, out = {at}, {at}, set()
            for n in range(min(lo, len(s) + 2)):
                now = set().union(*(ends(x, p) for p in now))
            out |= now
            for n in range(lo, (len(s) + lo + 2) if hi is None else min(hi, len(s) + lo + 2)):
                now = set().union(*(ends(x, p) for p in now)) - out
                out |= now
                if not now:
                    break
            return frozenset(out)
        with deep():
            return len(s) in ends(("rule", "root"), 0)
