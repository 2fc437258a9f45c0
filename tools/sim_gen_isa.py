#!/usr/bin/env python3
"""Writes sim/isa_ops.h and sim/isa_rows.h: every gfx1201 opcode with its operands, found by asking LLVM's disassembler.

Building the simulator does not need LLVM: both files are committed. Run this only to widen the tables or to check
them against a newer LLVM:

    IE_LLVM=/path/to/libLLVM.so tools/sim_gen_isa.py [--check]

Method: for every encoding and opcode, find words that LLVM accepts; then vary one field at a time over all its values and
note which are accepted and how they print. What is accepted (scalar registers, constants, a literal, VGPRs, how many dwords)
is the operand's class; what single modifier bits do gives the masks of allowed and shown modifiers. A field that behaves in a
way which no class describes stops the run.
"""
import argparse
import itertools
import os
import random
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import sim_llvm  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LITERAL = 0x12345678
DPP_CODES = (233, 234, 250)

# Opcodes whose fixed fields are too many for the search; one accepted instruction of each.
IMAGE_SAMPLES = {
    ("VIMAGE", 25): (0xD3C67F10, 0x700080B5, 0x01027714), ("VIMAGE", 26): (0xD3C6A218, 0x6F0031F6, 0x23BD123E),
    ("VIMAGE", 128): (0xD3E00018, 0xB100F122, 0xE0CCB3E4), ("VIMAGE", 129): (0xD3E05090, 0x820050EE, 0x08417AF3),
    ("VSAMPLE", 27): (0xE646C94C, 0x225C5021, 0x0030C5DB), ("VSAMPLE", 47): (0xE7CBE5A6, 0x041CE19D, 0x002A258A),
    ("VSAMPLE", 56): (0xE50E054C, 0x3C049827, 0x00644E2A),
}

# Operand class flags; the same values are in sim/decode.h.
SREG, M0, EXEC, NULLREG, CONST, LIT, SPEC, LDS, VGPR, LO128, ABSENT, IGNORED, IS126 = (1 << i for i in range(13))
TYPES = ("B32", "F32", "B16", "F16", "BF16", "B64", "I64", "F64", "PK_B16", "PK_F16", "PK_BF16")


class Enc:
    """One ALU encoding: fixed bits, place of the opcode, operand fields as (word, shift, bits)."""

    def __init__(self, name, base, shift, bits, words, limit=None, **fields):
        self.name, self.base, self.shift, self.bits, self.words, self.fields = name, base, shift, bits, words, fields
        self.limit = limit or 1 << bits

    def make(self, op, values, extra=()):
        w = [self.base | op << self.shift] + [0] * (self.words - 1)
        for name, v in values.items():
            i, s, _ = self.fields[name]
            w[i] |= v << s
        return w + list(extra)


SCALAR = [
    Enc("SOP2", 0x80000000, 23, 7, 1, limit=96, d=(0, 16, 7), s0=(0, 0, 8), s1=(0, 8, 8)),
    Enc("SOP1", 0xBE800000, 8, 8, 1, d=(0, 16, 7), s0=(0, 0, 8)),
    Enc("SOPC", 0xBF000000, 16, 7, 1, s0=(0, 0, 8), s1=(0, 8, 8)),
]
VECTOR = [
    Enc("VOP1", 0x7E000000, 9, 8, 1, d=(0, 17, 8), s0=(0, 0, 9)),
    Enc("VOP2", 0x00000000, 25, 6, 1, limit=62, d=(0, 17, 8), s0=(0, 0, 9), s1=(0, 9, 8)),
    Enc("VOPC", 0x7C000000, 17, 8, 1, s0=(0, 0, 9), s1=(0, 9, 8)),
    Enc("VOP3", 0xD4000000, 16, 10, 2, d=(0, 0, 8), s0=(1, 0, 9), s1=(1, 9, 9), s2=(1, 18, 9)),
    Enc("VOP3P", 0xCC000000, 16, 7, 2, d=(0, 0, 8), s0=(1, 0, 9), s1=(1, 9, 9), s2=(1, 18, 9)),
]
MOD_BITS = [(0, b) for b in range(8, 16)] + [(1, b) for b in range(27, 32)]
VOP3SD_ENC = Enc("VOP3", 0xD4000000, 16, 10, 2, d=(0, 0, 8), d1=(0, 8, 7), s0=(1, 0, 9), s1=(1, 9, 9), s2=(1, 18, 9))
VOP3SD = set(range(288, 291)) | set(range(764, 771))


def base_name(text):
    return re.sub(r"(_e32|_e64)?(_dpp8|_dpp)?$", "", text.split(" ")[0])


def tokens(text):
    head, _, rest = text.partition(" ")
    rest = re.sub(r" (row_mask|quad_perm|row_\w+|dpp8|op_sel\w*|clamp|neg_\w+|index_key|byte_sel)\b.*", "", rest)
    return [head] + [t.strip() for t in re.split(r",\s*(?![^\[]*\])", rest)]


class Gen:
    def __init__(self):
        self.dis = sim_llvm.Disassembler()
        self.classes = [(ABSENT, 0, "B32"), (ABSENT | IGNORED, 0, "B32"), (ABSENT | IS126, 0, "B32")]
        self.fmts = []
        self.rows = {}      # encoding -> {opcode: (name, fmt index)}
        self.names = set()

    def intern(self, table, value):
        if value not in table:
            table.append(value)
        return table.index(value)

    # ---- operand classes

    def vary(self, enc, op, values, field, extra):
        """{code: (dwords, text)} over all values of a field but the DPP markers."""
        out = {}
        for code in range(1 << enc.fields[field][2]):
            if enc.fields[field][2] == 9 and code in DPP_CODES:
                continue
            w = enc.make(op, {**values, field: code}, extra)
            w = self.fix(enc, w)
            n, text = self.dis(*w, LITERAL, 0)
            if n:
                out[code] = (n, text)
        return out

    def fix(self, enc, w):
        if enc.name == "VOP3P" and self.hi:
            w[0] |= 1 << 14
            w[1] |= 3 << 27
        return w

    def operand_class(self, enc, op, name, values, field, extra=()):
        if name.startswith("s_sendmsg_rtn") and field == "s0":
            return 1  # the message's number; the decoder knows
        got = self.vary(enc, op, values, field, extra)
        if not got:
            raise SystemExit(f"{enc.name} {op} {name}: field {field} has no value")
        toks = {c: tokens(t) for c, (_, t) in got.items()}
        n = max(len(t) for t in toks.values())
        place = [i for i in range(n) if len({t[i] if i < len(t) else "" for t in toks.values()}) > 1]
        if not place:
            full = {c for c in range(1 << enc.fields[field][2]) if c not in DPP_CODES or enc.fields[field][2] != 9}
            if set(got) == {0}:
                return 0
            if set(got) == {126}:
                return 2
            if set(got) >= full:
                return 1
            raise SystemExit(f"{enc.name} {op} {name}: field {field} does not print and takes {sorted(got)[:9]}")
        if len(place) > 1:
            raise SystemExit(f"{enc.name} {op} {name}: field {field} changes {place}")
        return self.classify(enc, op, name, field, {c: t[place[0]] for c, t in toks.items()})

    def classify(self, enc, op, name, field, toks):
        vgpr_only = enc.fields[field][2] == 8 and toks.get(0, "").startswith("v")
        vbase = 0 if vgpr_only else 256
        tok = toks.get(vbase) or toks.get(0)
        m = re.search(r"\[(\d+):(\d+)\]", tok)
        ndw = int(m.group(2)) - int(m.group(1)) + 1 if m else 1
        flags = 0
        if vbase in toks and toks[vbase].lstrip("-|").startswith("v"):
            flags |= VGPR
            if vbase + 255 not in toks and vbase + 128 not in toks:
                flags |= LO128
        if not vgpr_only:
            flags |= SREG if 0 in toks else NULLREG if 124 in toks else 0
            for code, flag in ((125, M0), (126, EXEC), (128, CONST), (235, SPEC), (254, LDS), (255, LIT)):
                if code in toks and not (ndw > 1 and code == 125):
                    flags |= flag
        if not vgpr_only and self.model(flags, ndw, enc.fields[field][2]) != set(toks):
            extra = sorted(set(toks) ^ self.model(flags, ndw, enc.fields[field][2]))
            raise SystemExit(f"{enc.name} {op} {name}: field {field}: class {flags:#x} x{ndw} differs at {extra[:20]}")
        return self.intern(self.classes, (flags, ndw, self.type_of(enc, name, field, ndw, toks)))

    @staticmethod
    def model(flags, ndw, bits):
        """The codes that a class takes; the decoder has the same rules."""
        s = set()
        if flags & SREG:
            step = 1 if ndw == 1 else 2 if ndw == 2 else 4
            s |= {c for c in range(0, 108 - (0 if ndw == 1 else 0), step) if c + ndw <= 108}
            s |= {c for c in range(108, 124) if (c - 108) % step == 0 and c + ndw <= 124}
            s.add(124)
        if flags & NULLREG:
            s.add(124)
        if flags & M0:
            s.add(125)
        if flags & EXEC:
            s |= {126, 127} if ndw == 1 else {126}
        if flags & CONST:
            s |= set(range(128, 209)) | set(range(240, 249))
        if flags & SPEC:
            s |= set(range(235, 240)) | {251, 252, 253}
        if flags & LDS:
            s.add(254)
        if flags & LIT:
            s.add(255)
        if flags & VGPR:
            s |= set(range(256, 512 - (ndw - 1))) if not flags & LO128 else set(range(256, 384))
        return {c for c in s if c < 1 << bits}

    @staticmethod
    def type_of(enc, name, field, ndw, toks):
        half, lit = toks.get(240), toks.get(255)
        short = lit == f"{LITERAL & 0xffff:#x}"
        if ndw == 2:
            if "f64" in name:
                return "F64"
            return "I64" if re.search(r"_i64|mov_b64$", name) and "u64" not in name else "B64"
        if enc.name == "VOP3P":
            if "mix" in name:
                return "F32"
            if re.match(r"v_pk_.*(i16|u16|b16)$", name):
                return "PK_B16"
            if re.match(r"v_pk_.*f16$", name) or (name == "v_dot2_f32_f16" and field != "s2"):
                return "PK_F16"
            if name == "v_dot2_f32_bf16" and field != "s2":
                return "PK_BF16"
            if name.startswith(("v_wmma_f32", "v_dot4_f32")):
                return "F32"
            if name.startswith(("v_wmma_f16", "v_wmma_bf16")) and field == "s2":
                return "F16" if name.startswith("v_wmma_f16") else "BF16"
            return "F32" if name.startswith("v_dot2_f32") else "B32"
        if short:
            return "F16" if half == "0.5" else "B16"
        if re.match(r"v_dot2_(b?f16)_\1$", name):
            return {"f16": "F16", "bf16": "BF16"}[name.split("_")[2]] if field == "s2" else "PK_" + name.split("_")[2].upper()
        return "F32" if re.search(r"f32", name) else "B32"

    def must_be(self, enc):
        """Value of the modifier bits in the words that masks() started from."""
        return 1 << 6 | 3 << 8 if enc.name == "VOP3P" and self.hi else 0

    @staticmethod
    def select_style(enc, name, show):
        if name.startswith("v_permlane"):
            return "SEL_TWO"
        if re.match(r"v_cvt_f32_(fp8|bf8)$", name):
            return "SEL_BYTE01"
        if name.startswith("v_cvt_sr_"):
            return "SEL_BYTE23"
        if name.startswith("v_swmmac"):
            return "SEL_INDEX_KEY"
        if "_mix" in name:
            return "SEL_MIX"
        if enc.name == "VOP3P":
            return "SEL_PACKED"
        return "SEL_LIST" if show & 0x78 else "SEL_NONE"

    # ---- one opcode

    def find(self, enc, op, extra=(), fixed=None):
        """Field values that LLVM accepts, VGPRs preferred; None if the opcode does not exist."""
        choices = {}
        for f, (_, _, bits) in enc.fields.items():
            if f == "d":
                choices[f] = [8, 126, 124, 0]
            elif bits == 8 and enc.name.startswith("VOP"):
                choices[f] = [16]
            else:
                choices[f] = ([256 + 16] if bits == 9 else []) + [16, 128, 0]
        if fixed:
            choices.update({k: [v] for k, v in fixed.items()})
        for combo in itertools.product(*choices.values()):
            values = dict(zip(choices, combo))
            for self.hi in ((False, True) if enc.name == "VOP3P" else (False,)):
                w = self.fix(enc, enc.make(op, values, extra))
                n, text = self.dis(*w, LITERAL, 0)
                if n:
                    return values, w, text
        return None

    def masks(self, w):
        """(allowed, shown) modifier bits of a three-source form; None where the words are refused."""
        _, text = self.dis(*w, LITERAL, 0)
        allow = show = 0
        for i, (word, bit) in enumerate(MOD_BITS):
            w2 = list(w)
            w2[word] ^= 1 << bit
            n, t = self.dis(*w2, LITERAL, 0)
            if n:
                allow |= 1 << i
                if t != text:
                    show |= 1 << i
        return allow, show

    def dpp_forms(self, enc, op, name, fixed):
        """[dpp16, dpp8]: None or (allow, show, class of s1, class of s2)."""
        out = []
        for code, word in ((250, 0xFF011101), (233, 0x00A98701)):
            f = self.find(enc, op, (word,), {**fixed, "s0": code})
            ok = f and ("row_shr" in f[2] or "dpp8" in f[2])
            if not ok:
                out.append(None)
                continue
            values, w, _ = f
            if enc.words == 1:
                texts = [self.dis(w[0], word | 1 << (20 + i), 0) if code == 250 else (0, "") for i in range(4)]
                allow = sum(1 << i for i, t in enumerate(texts) if t[0])
                show = sum(1 << i for i, t in enumerate(texts) if t[0] and t[1] != self.dis(w[0], word, 0)[1])
                out.append((allow, show, 0, 0))
                continue
            c = [self.operand_class(enc, op, name, values, s, (word,)) for s in ("s1", "s2")]
            out.append((*self.masks(w), *c))
        return out

    def alu(self, enc):
        rows = self.rows.setdefault(enc.name, {})
        for op in range(enc.limit):
            f = self.find(enc, op)
            if not f:
                continue
            values, w, text = f
            name = base_name(text)
            if name == "v_illegal":
                continue
            if "dpp" in text or "row_shr" in text:
                raise SystemExit(f"{enc.name} {op}: {text}")
            c = {s: self.operand_class(enc, op, name, values, s) for s in enc.fields}
            allow, show = self.masks(w) if enc.words == 2 else (0, 0)
            if enc.name == "VOP3" and op in VOP3SD:
                allow &= ~0x7F
                show &= ~0x7F
            forms = [None, None]
            if enc.name.startswith("VO"):
                fixed = {"d": values["d"]} if "d" in values else {}
                forms = self.dpp_forms(enc, op, name, fixed)
            sdst = 0
            if enc.name == "VOP3" and op in VOP3SD:
                sdst = self.operand_class(VOP3SD_ENC, op, name, {**values, "d1": 0}, "d1")
            fmt = (c.get("d", 0), sdst, c.get("s0", 0), c.get("s1", 0), c.get("s2", 0), allow, show,
                   self.must_be(enc), self.select_style(enc, name, show), *forms)
            rows[op] = (name, self.intern(self.fmts, fmt), int(bool(re.match(r"\S*_e(32|64)\b", text))))
            self.names.add(name)


    # ---- memory

    def accepted(self, w):
        n, text = self.dis(*w, 0, 0)
        return text if n else None

    @staticmethod
    def width(text, reg):
        """Dwords of the VGPR operand that starts at v<reg> in a text, 0 if there is none."""
        if re.search(rf"\bv{reg}\b", text):
            return 1
        m = re.search(rf"\bv\[{reg}:(\d+)\]", text)
        return int(m.group(1)) - reg + 1 if m else 0

    def ds(self):
        for op in range(256):
            best = None
            for mask in range(16):
                w = [0xD8000000 | op << 18 | 0x0201,
                     sum(v << s for i, (v, s) in enumerate(((16, 0), (32, 8), (64, 16), (96, 24))) if mask >> i & 1)]
                text = self.accepted(w)
                if text and (best is None or bin(mask).count("1") > best[0]):
                    best = (bin(mask).count("1"), text)
            w = [0xD8000000 | op << 18, 0]
            text = best[1] if best else self.accepted(w)
            if not text:
                continue
            flags = "M_TWO" if "offset0" in text else "M_OFFSET" if "offset" in text else "0"
            if flags == "0" and "swizzle" in text:
                flags = "M_OFFSET"
            self.mem("DS", op, text, (self.width(text, 96), self.width(text, 32), self.width(text, 64), self.width(text, 16)), flags)

    def mem(self, enc, op, text, widths, flags):
        name = text.split(" ")[0]
        self.names.add(name)
        self.rows.setdefault(enc, {})[op] = (name, widths, flags)

    def flat(self, enc, seg):
        for op in range(256):
            w = [0xEC000000 | seg << 24 | op << 14 | 124, 96 | 32 << 23 | 1 << 20, 16 | 0x100 << 8]
            texts = [self.accepted(w), self.accepted([w[0], w[1] | 1 << 17, w[2]])]
            if not texts[0]:
                w[1] &= ~(1 << 20)
                texts = [self.accepted(w), None]
                if not texts[0]:
                    continue
            text = texts[1] or texts[0]
            flags = "M_ATOMIC" if "ATOMIC" in text else "M_STORE" if "STORE" in text else "M_LOAD"
            if "addtid" in text:
                flags += " | M_NOADDR"
            if "offset" not in text:
                flags += " | M_BARE"
            dst = self.width(text, 96)
            self.mem(enc, op, text, (dst, self.width(text, 32), 0, self.width(text, 16)), flags)

    def smem(self):
        for op in range(64):
            text = self.accepted([0xF4000000 | op << 13 | 8 << 6 | 4, 10 << 25 | 0x20])
            if not text:
                continue
            m = re.search(r"\bs\[8:(\d+)\], (?:s\[8|s\d+,|s\[8:11\], s10)", text) or re.search(r" s\[8:(\d+)\], s\[8", text)
            name = text.split(" ")[0]
            dst = int(m.group(1)) - 7 if m else 1
            base = 4 if "buffer" in name else 2
            flags = "M_LOAD"
            if "prefetch" in name:
                flags = "M_PREFETCH"
            elif "probe" in name:
                flags = "M_PROBE"
            elif name == "s_dcache_inv":
                flags, dst, base = "M_BARE", 0, 0
            if name.endswith("pc_rel"):
                base = 0
            if flags != "M_LOAD":
                dst = 0
            self.mem("SMEM", op, text, (dst, 0, 0, base), flags)

    def vbuffer(self):
        for op in range(256):
            w = [0xC4000000 | op << 14 | 5, 96 | 8 << 9 | 1 << 30 | 1 << 20 | 1 << 23, 16 | 0x100 << 8]
            text = self.accepted(w)
            if not text:
                continue
            flags = "M_ATOMIC" if "ATOMIC" in text else "M_STORE" if "STORE" in text else "M_LOAD"
            if text.startswith("tbuffer"):
                flags += " | M_TYPED"
            if self.accepted([w[0] | 1 << 22, *w[1:]]):
                flags += " | M_TFE"
            self.mem("VBUFFER", op, text, (self.width(text, 96), 0, 0, 1), flags)

    # ---- what is left

    def named(self, enc, items):
        for op, text in items:
            if text:
                self.mem(enc, op, text, (0, 0, 0, 0), "0")

    def other(self):
        d = self.accepted
        self.named("SOPK", [(o, d([0xB0000000 | o << 23 | 4 << 16 | 1])) for o in range(29)])
        self.named("SOPP", [(o, d([0xBF800000 | o << 16])) for o in range(128)])
        self.named("VINTERP", [(o, d([0xCD000000 | o << 16, 0x04020501])) for o in range(32)])
        self.named("VDSDIR", [(o, d([0xCE000000 | o << 20])) for o in range(4)])
        self.names |= {"v_illegal", "export", "v_dot2acc_f32_f16", "v_dot2acc_f32_bf16"}
        for half, shift in (("VOPDX", 22), ("VOPDY", 17)):
            for o in range(16 if shift == 22 else 32):
                other = 3 << 17 if shift == 22 else 3 << 22  # v_dual_mul_f32
                w = [0xC8000000 | o << shift | other | 1 << 9 | 0x102, 0x04020000 | 2 << 9 | 0x105]
                text = d(w) or d([w[0] & ~0x1FE00, w[1]]) or d([w[0], w[1] & ~0x1FE00])
                if not text:
                    continue
                part = text.split(" :: ")[0 if shift == 22 else 1]
                self.rows.setdefault(half, {})[o] = (part.split(" ")[0].replace("v_dual_", "v_"), (0, 0, 0, 0), "0")

    def image(self):
        rnd = random.Random(1)  # which fields LLVM takes depends on the dimension: try seeded words until one fits
        for enc, base in (("VIMAGE", 0xD0000000), ("VSAMPLE", 0xE4000000)):
            for op in range(256):
                known = IMAGE_SAMPLES.get((enc, op))
                if known:
                    self.mem(enc, op, self.accepted(list(known)), (0, 0, 0, 0), "0")
                    continue
                for i in range(4000):
                    low = rnd.getrandbits(14) & (0x3FFF, 0x77, 0x3F7F, 0xFF)[i & 3]
                    dmask = 15 if i & 4 else rnd.getrandbits(4)
                    w = [base | op << 14 | low | dmask << 22,
                         rnd.getrandbits(32) & (~0x600, 0xF87C7FFF & ~0xE00, ~0x3E00, ~0x1F803E00)[i >> 3 & 3], rnd.getrandbits(32)]
                    text = self.accepted(w)
                    if text and text.startswith("image"):
                        self.mem(enc, op, text, (0, 0, 0, 0), "0")
                        break

    # ---- output

    def write_ops(self):
        lines = ["/* Every mnemonic of gfx1201, in alphabetical order. Made by tools/sim_gen_isa.py; include it with",
                 " * SIM_OP(id, text) defined. */"]
        lines += [f'SIM_OP({n.upper()}, "{n}")' for n in sorted(self.names)]
        return "\n".join(lines) + "\n"

    def write_rows(self):
        out = ["/* Operand classes, operand lists and opcodes of gfx1201. Made by tools/sim_gen_isa.py. */", "",
               "static const struct sim_field_class classes[] = {"]
        out += [f"    {{0x{f:04x}, {n}, SIM_T_{t}}}," for f, n, t in self.classes]
        out += ["};", "", "/* d, d1, s0, s1, s2, allow, show, must, select, {DPP16}, {DPP8} */", "static const struct sim_fmt fmts[] = {"]
        for f in self.fmts:
            forms = ", ".join("{0}" if x is None else f"{{1, {x[2]}, {x[3]}, 0x{x[0]:04x}, 0x{x[1]:04x}}}" for x in f[9:11])
            out.append(f"    {{{f[0]}, {f[1]}, {f[2]}, {f[3]}, {f[4]}, 0x{f[5]:04x}, 0x{f[6]:04x}, 0x{f[7]:04x}, {f[8]}, {forms}}},")
        out += ["};"]
        sizes = {"SOP2": 96, "SOP1": 256, "SOPC": 128, "VOP1": 256, "VOP2": 64, "VOPC": 256, "VOP3": 1024, "VOP3P": 128}
        for enc, rows in self.rows.items():
            if enc in sizes:
                out += ["", f"static const struct sim_row rows_{enc.lower()}[{sizes[enc]}] = {{"]
                out += [f"    [{o}] = {{SIM_OP_{n.upper()}, {f}, {e}}}," for o, (n, f, e) in sorted(rows.items())]
            else:
                out += ["", f"static const struct sim_mrow mrows_{enc.lower()}[] = {{"]
                out += [f"    [{o}] = {{SIM_OP_{n.upper()}, {w[0]}, {w[1]}, {w[2]}, {w[3]}, {f}}},"
                        for o, (n, w, f) in sorted(rows.items())]
            out.append("};")
        return "\n".join(out) + "\n"


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--check", action="store_true", help="compare with the committed files, write nothing")
    args = ap.parse_args()
    g = Gen()
    for enc in SCALAR + VECTOR:
        g.alu(enc)
    g.ds()
    for enc, seg in (("FLAT", 0), ("SCRATCH", 1), ("GLOBAL", 2)):
        g.flat(enc, seg)
    g.smem()
    g.vbuffer()
    g.image()
    g.other()
    same = True
    for name, text in (("isa_ops.h", g.write_ops()), ("isa_rows.h", g.write_rows())):
        path = os.path.join(ROOT, "sim", name)
        old = open(path).read() if os.path.exists(path) else ""
        same = same and old == text
        if not args.check:
            with open(path, "w") as f:
                f.write(text)
    print(", ".join(f"{k} {len(v)}" for k, v in g.rows.items()), f"; {len(g.names)} mnemonics, {len(g.fmts)} operand lists")
    if args.check and not same:
        raise SystemExit("sim/isa_*.h differ from what this LLVM gives")


if __name__ == "__main__":
    main()
