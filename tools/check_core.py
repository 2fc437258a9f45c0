#!/usr/bin/env python3
"""Finds index maps, unpacking and integer dots that are written outside core/ie_core.h and its vector forms (src/cpu/simd_*.h,
kernels/gpu.h): tools/check_core.py [ROOT]

It reads C tokens, not lines, so comments, strings and line breaks hide nothing and give no false findings. A finding is
  shift     << or >> of anything but two numbers; bit operations of the vector vocabulary (vi_shl, vi_and, ...)
  mask      a binary & or ^
  quotient  / or % by one of the core's constants; in files that place weights and activations also by a whole number, and any %
  dot       an instruction or intrinsic of a processor, a value of 8 bits, a product with a byte, a sum of products in an integer

tools/core_allow.txt says what of that is no business of the core, each with its reason: PATH | KIND | TEXT | REASON. PATH is a pattern; TEXT is part of
the line, or * for every line. An entry that allows nothing is an error, too. Ends with 1 on findings."""
import fnmatch
import pathlib
import re
import sys

SCANNED = ["src/*.[ch]", "src/quant/*.[ch]", "src/model/*.[ch]", "src/gpu/*.[ch]", "src/cpu/*.[ch]", "kernels/*.[ch]", "tools/*.c"]
FORMS = re.compile(r"src/cpu/simd_\w+\.h|kernels/gpu\.h")
PLACES = re.compile(r"src/quant/.*|src/gpu/(layout|weights|launch_gemv)\.[ch]|src/cpu/(mm|float)\w*\.[ch]|kernels/(gemv\w*|layout|q8)\.[ch]")

TOKEN = re.compile(r"""(?P<skip>/\*.*?\*/|//[^\n]*|\\\n|\s+|^[ \t]*\#[ \t]*(?:include|error|pragma)[^\n]*)
    |(?P<string>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')
    |(?P<number>\.?[0-9](?:[eEpP][+-]|[\w.])*)
    |(?P<name>[A-Za-z_]\w*)
    |(?P<op><<=|>>=|\.\.\.|->|\+\+|--|&&|\|\||<<|>>|[-+*/%&|^<>=!]=|.)""", re.S | re.M | re.X)
KEYWORDS = {"return", "case", "sizeof", "else", "do", "goto", "typeof", "_Alignof", "_Alignas"}
WHOLE = re.compile(r"(0[xX][0-9a-fA-F]+|[0-9]+)[uUlL]*$")
CONSTANT = re.compile(r"IE_(TILE_ROWS|BLOCK|PAGE|FOLD_PAGES|DECODE_T|LOG_SLOTS|LOG_TAPS|GPU_UNIT|Q8_WORDS|MAX_SEGS|PLAN_UNIT)$")
PROCESSOR = re.compile(r"(_mm\d*_|_cvt|__builtin_(amdgcn|ia32|nvvm)_|__nvvm_|__dp4a|__asm__$|__asm$|asm$)")
VECTOR_BITS = re.compile(r"vi_(shl|shr|sar|bcast_shl|and|or|xor|or_bits|lut16|dot_us|dot_ss|dot_words|dot_bcast)$")
BYTE_OF = {"ie_byte_s", "ie_byte_u"}
INTEGER = re.compile(r"u?int(8|16|32|64)_t$|int$|unsigned$|long$|size_t$")
SHORT = re.compile(r"u?int8_t$")


class Token:
    def __init__(self, kind, text, line):
        self.kind, self.text, self.line = kind, text, line


def tokens(source):
    out, line = [], 1
    for m in TOKEN.finditer(source):
        if m.lastgroup != "skip":
            out.append(Token(m.lastgroup, m.group(), line))
        line += m.group().count("\n")
    return out


def closing(t, i, step):
    """Index of the bracket that belongs to the one at i; the last token if there is none."""
    depth = 0
    pairs = {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}
    while 0 <= i < len(t):
        depth += pairs.get(t[i].text, 0) if t[i].kind == "op" else 0
        if depth == 0:
            return i
        i += step
    return max(0, min(i, len(t) - 1))


def is_cast(t, i):
    """Whether the ) at i closes a cast: a type's words, perhaps with stars."""
    first = closing(t, i, -1)
    inner = [x.text for x in t[first + 1 : i]]
    called = first > 0 and t[first - 1].kind == "name" and t[first - 1].text not in KEYWORDS
    if called or not inner or any(not re.fullmatch(r"\w+|\*", x) for x in inner):
        return False
    return inner[-1] == "*" or all(re.fullmatch(r"const|volatile|unsigned|signed|void|struct|char|short|int|long|float|double|bool|IE_(GLOBAL|LDS|SCALAR)|\w+_t", x) for x in inner)


def is_value(t, i):
    """Whether the token at i ends a value, so that an operator after it has two sides."""
    if i < 0:
        return False
    x = t[i]
    if x.kind in ("number", "string"):
        return True
    if x.kind == "name":
        return x.text not in KEYWORDS
    return x.text == "]" or (x.text == ")" and not is_cast(t, i))


def operand(t, i):
    """The value that begins at i, without brackets and casts around it: its first token."""
    while i < len(t) and t[i].text == "(":
        end = closing(t, i, 1)
        if is_cast(t, end):
            i = end + 1
        elif end - i == 2:
            return t[i + 1]
        else:
            return t[i]
    return t[min(i, len(t) - 1)]


def sum_of_products(t, i, integers):
    """Whether the += or -= at i adds a product of two values to an integer."""
    j = i - 1
    while j > 0 and t[j].text == "]":
        j = closing(t, j, -1) - 1
    if t[j].kind != "name" or t[j].text not in integers or (j > 0 and t[j - 1].text in (".", "->")):
        return False
    depth, k = 0, i + 1
    while k < len(t) and not (depth == 0 and t[k].text in (";", ",", ")")):
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(t[k].text, 0)
        if t[k].text == "*" and is_value(t, k - 1) and not WHOLE.match(t[k - 1].text) and not WHOLE.match(operand(t, k + 1).text):
            return True
        k += 1
    return False


def findings(source, places=True):
    """Line, kind and token of each finding; places: weights or activations are placed in this file."""
    t = tokens(source)
    integers = set()
    for i, x in enumerate(t):
        text, left = x.text, t[i - 1].text if i else ""
        if x.kind == "name":
            # names declared as integers: TYPE a, *b = ..., c[4];
            if INTEGER.match(text) and i + 1 < len(t) and t[i + 1].kind == "name" and t[i + 1].text not in KEYWORDS:
                integers.update(declared(t, i + 1))
            if PROCESSOR.match(text):
                yield x.line, "dot", text
            elif VECTOR_BITS.match(text):
                yield x.line, "shift", text
            elif SHORT.match(text) and text == "int8_t":
                yield x.line, "dot", text
            elif text in BYTE_OF and i + 1 < len(t):
                end = closing(t, i + 1, 1)
                before = i - 1
                while before > 0 and t[before].text == ")" and is_cast(t, before) and "float" not in [y.text for y in t[closing(t, before, -1) : before]]:
                    before = closing(t, before, -1) - 1
                product = t[before].text == "*" and is_value(t, before - 1)
                if product or (end + 1 < len(t) and t[end + 1].text == "*" and not (t[before].text == ")" and is_cast(t, before))):
                    yield x.line, "dot", text
            continue
        if x.kind != "op" or not is_value(t, i - 1):
            continue
        right = operand(t, i + 1)
        if text in ("<<", ">>", "<<=", ">>="):
            if not (WHOLE.match(left) and WHOLE.match(right.text)):
                yield x.line, "shift", text
        elif text in ("&", "&=", "^", "^="):
            yield x.line, "mask", text
        elif text in ("/", "/=", "%", "%="):
            if CONSTANT.match(right.text) or (places and (text[0] == "%" or WHOLE.match(right.text))):
                yield x.line, "quotient", text
        elif text in ("+=", "-=") and sum_of_products(t, i, integers):
            yield x.line, "dot", text


def declared(t, i):
    """Names of a declaration whose first name is at i."""
    names, depth = [], 0
    while i < len(t) and not (depth <= 0 and t[i].text in (";", ")", "{")):
        if depth == 0 and t[i].kind == "name" and t[i - 1].kind != "number" and t[i - 1].text not in ("=", "."):
            if t[i - 1].text in (",", "*") or t[i - 1].kind == "name":
                names.append(t[i].text)
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(t[i].text, 0)
        i += 1
    return names


def allowances(path):
    for n, line in enumerate(path.read_text().splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            parts = [p.strip() for p in line.split(" | ")]
            if len(parts) != 4 or not all(parts):
                sys.exit(f"{path}:{n}: not PATH | KIND | TEXT | REASON")
            yield {"line": n, "path": parts[0], "kind": parts[1], "text": parts[2], "used": False}


def check(root):
    """All findings as lines of text, and the allowances that allow nothing."""
    listed = root / "tools" / "core_allow.txt"
    allowed, out = list(allowances(listed)) if listed.exists() else [], []
    files = sorted({p for pattern in SCANNED for p in root.glob(pattern)})
    if not files:
        sys.exit(f"{root}: no sources")
    for path in files:
        name = path.relative_to(root).as_posix()
        if FORMS.fullmatch(name):
            continue
        source = path.read_text()
        lines = source.split("\n")
        for line, kind, what in findings(source, bool(PLACES.fullmatch(name))):
            text = lines[line - 1]
            hits = [a for a in allowed if a["kind"] in ("*", kind) and fnmatch.fnmatch(name, a["path"]) and (a["text"] == "*" or a["text"] in text)]
            for a in hits:
                a["used"] = True
            if not hits:
                out.append(f"{name}:{line}: {kind} ({what}): {text.strip()}")
    return out + [f"tools/core_allow.txt:{a['line']}: allows nothing: {a['path']} | {a['kind']} | {a['text']}" for a in allowed if not a["used"]]


def main():
    out = check(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent))
    if out:
        print("\n".join(out))
        print(f"{len(out)} findings: index maps, unpacking and integer dots belong into core/ie_core.h (docs/VERIFICATION.md)")
    return len(out) > 0


if __name__ == "__main__":
    sys.exit(main())
