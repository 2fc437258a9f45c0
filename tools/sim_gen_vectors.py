#!/usr/bin/env python3
"""Writes tests/vectors/sim_decode.txt: instruction words and the text LLVM gives them, for every opcode and modifier form.

    IE_LLVM=/path/to/libLLVM.so tools/sim_gen_vectors.py

Line: words in hex, a blank each, then "| text", or "| -" where LLVM refuses. The words are seeded: the same LLVM gives the same file.
Where LLVM's own text is wrong (sim_llvm.known_fault) the words are left out.
"""
import os
import random
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import sim_llvm  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# name: first word's fixed bits, opcode's place and size, words, texts of one opcode to keep
ENCODINGS = {
    "SOP2": (0x80000000, 23, 7, 1, 3), "SOP1": (0xBE800000, 8, 8, 1, 3), "SOPC": (0xBF000000, 16, 7, 1, 2),
    "SOPK": (0xB0000000, 23, 5, 1, 8), "SOPP": (0xBF800000, 16, 7, 1, 8), "SMEM": (0xF4000000, 13, 6, 2, 6),
    "VOP1": (0x7E000000, 9, 8, 1, 5), "VOP2": (0x00000000, 25, 6, 1, 8), "VOPC": (0x7C000000, 17, 8, 1, 3),
    "VOP3": (0xD4000000, 16, 10, 2, 4), "VOP3P": (0xCC000000, 16, 7, 2, 8), "VOPD": (0xC8000000, 17, 9, 2, 1),
    "DS": (0xD8000000, 18, 8, 2, 4), "FLAT": (0xEC000000, 14, 8, 3, 3), "SCRATCH": (0xED000000, 14, 8, 3, 4),
    "GLOBAL": (0xEE000000, 14, 8, 3, 4), "VBUFFER": (0xC4000000, 14, 8, 3, 4), "VINTERP": (0xCD000000, 16, 7, 2, 3),
    "VDSDIR": (0xCE000000, 20, 2, 1, 4), "EXP": (0xF8000000, 31, 0, 2, 20), "VIMAGE": (0xD0000000, 14, 8, 3, 3),
    "VSAMPLE": (0xE4000000, 14, 8, 3, 3),
}
EDGES = (0, 0x40, 0x41, 0x3C00, 0x3F800000, 0x3FF00000, 0xFFFFFFFF, 0xFFFFFFF0, 0xBEEF, 0x12345678, 0x80000000)


def shape(rnd, name, i, w):
    """Makes random words more likely to be valid: each step clears or sets fields that most opcodes restrict."""
    pick = rnd.choice
    if name in ("VOP1", "VOP2", "VOPC"):
        w[1] = rnd.getrandbits(32)
        if i % 4 == 0:
            w[0] = (w[0] & ~0x1FF) | pick((233, 234, 250))
            w[1] = (w[1] & ~0x1FF00) | pick((0x1B, 0xE4, 0x111, 0x121, 0x101, 0x140, 0x141, 0x150, 0x16F)) << 8
            if i % 8 == 0:
                w[1] &= ~0xF00000
        elif i % 4 == 1:
            w[0] = (w[0] & ~0x1FF) | pick((255, 255, 240, 248, 193, 128))
            w[1] = pick(EDGES)
        elif i % 4 == 2:
            w[0] |= 0x100
            w[0] &= ~0x10080 if i % 8 == 2 else ~0x80
    elif name in ("VOP3", "VOP3P", "VINTERP"):
        w[0] &= pick((0xFFFFFFFF, 0xFFFF00FF, 0xFFFF80FF, 0xFFFFF8FF, 0xFFFF87FF))
        w[1] &= pick((0xFFFFFFFF, 0x1FFFFFFF, 0xE7FFFFFF, 0x07FFFFFF, 0x3FFFF, 0x1803FFFF, 0x1FF))
        if i % 3 == 0:
            w[1] |= 0x00020100 | pick((0, 0x04000000))
        if name == "VOP3P" and i % 2:
            w[0] |= 0x4000
            w[1] |= 0x18000000
        if i % 5 == 0:
            w[1] = (w[1] & ~0x1FF) | pick((233, 234, 250, 250))
            w[2] = (w[2] & ~0x1FF00) | pick((0x1B, 0xE4, 0x111, 0x121, 0x101, 0x140, 0x141, 0x150, 0x16F)) << 8
        elif i % 5 == 1:
            w[1] = (w[1] & ~0x1FF) | 255
            w[2] = pick(EDGES)
        if i % 7 == 0:
            w[0] = (w[0] & ~0xFF) | pick((126, 4, 106))
    elif name == "DS":
        w[0] &= ~0x20000
        w[1] &= pick((0xFF, 0xFFFF, 0xFFFFFF, 0xFF0000FF, 0xFFFFFFFF, 0xFF000000, 0, 0xFFFF00FF, 0xFF00FFFF))
    elif name in ("FLAT", "SCRATCH", "GLOBAL"):
        w[0] = (w[0] & ~0x7F) | pick((124, 124, 0, 4, 106))
        if name != "SCRATCH":
            w[1] &= ~0x20000
    elif name in ("VBUFFER", "VIMAGE", "VSAMPLE"):
        w[1] &= ~0x20600
        if i % 2:
            w[1] &= ~0xC00
        w[2] &= pick((0xFF, 0xFFFF, 0xFFFFFF, 0xFFFFFFFF))
        if name == "VIMAGE" and i % 4:
            w[1] &= 0xFFFFFF
        if name == "VSAMPLE":
            w[1] &= ~0x01800000
        if i % 3 == 0:
            w[0] &= ~0xB8
    elif name == "SMEM":
        w[0] &= ~(0x1800 if i % 2 else 0x5)
        if i % 3 == 0:
            w[1] = (w[1] & 0x1FFFFF) | 124 << 25
    elif name == "VOPD":
        if i % 2:
            w[0] |= 0x100
        if i % 4 == 0:
            w[0] &= ~0x1FE00
        if i % 4 == 1:
            w[1] &= ~0x1FE00


def form(text):
    """What kind of text it is: numbers and registers taken out, so that each kind is kept once before any is kept twice."""
    text = re.sub(r"0x[0-9a-f]+|\d+\.\d+|\d+", "0", text)
    return re.sub(r"\b(s|v|ttmp)0\b|\b(s|v|ttmp)\[0:0\]|vcc_lo|vcc_hi|exec_lo|exec_hi|m0|null|src_\w+", "r", text)


def main():
    dis = sim_llvm.Disassembler()
    lines, seen_ops = [], 0
    for name, (base, shift, bits, own, keep) in ENCODINGS.items():
        size = max(shift + bits, 1)
        free = (1 << {"SOP1": 23, "SOPP": 23, "SOPC": 23, "SOPK": 28, "SOP2": 30, "VOP2": 31, "VOP1": 25, "VOPC": 25, "VOP3P": 24,
                      "VINTERP": 24, "VDSDIR": 24, "FLAT": 24, "SCRATCH": 24, "GLOBAL": 24}.get(name, 26)) - 1
        del size
        refused = 0
        for op in range(1 << bits):
            rnd = random.Random(f"{name} {op}")
            got, forms = {}, {}
            for i in range(1200 if bits else 400):
                w = [base | (rnd.getrandbits(32) & free & ~(((1 << bits) - 1) << shift)) | op << shift] + \
                    [rnd.getrandbits(32) for _ in range(3)]
                shape(rnd, name, i, w)
                w = [x & 0xFFFFFFFF for x in w]
                if sim_llvm.known_fault(w):
                    continue
                n, text = dis(*w)
                if n:
                    k = form(text)
                    if forms.get(k, 0) < 1 or (i > 900 and len(got) < keep):
                        forms[k] = forms.get(k, 0) + 1
                        got[tuple(w[:n])] = text
                        if len(got) >= keep:
                            break
                elif refused < 20 and i % 97 == 0 and not text:
                    refused += 1
                    lines.append(" ".join(f"{x:x}" for x in w) + " | -")
            seen_ops += bool(got)
            lines += [" ".join(f"{x:x}" for x in w) + " | " + t for w, t in got.items()]
    path = os.path.join(ROOT, "tests", "vectors", "sim_decode.txt")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as f:
        f.write("\n".join(lines) + "\n")
    print(f"{len(lines)} lines, {seen_ops} opcodes, {os.path.getsize(path)} bytes")


if __name__ == "__main__":
    main()
