"""Single operations of the simulator against AMD's pseudocode (simops.py): edge values, rounding modes, EXEC."""
import os

os.environ.setdefault("IE_SIM_STRICT", "1")

import ctypes
import inspect
import random

import numpy as np
import pytest

import simhip
import simops as so
from simops import M32, M64

pytestmark = pytest.mark.skipif(simhip.compiler() is None, reason="skip: no clang for gfx1201 (pip install ziglang==0.17.1)")

VCC = 0x5A5A3C0F
I_EDGE = [0, 1, 2, 3, 31, 32, 33, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFF, 0x800000, 0xFFFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF,
          0x80808080, 0x7F7F7F7F, 0x0C0D0E0F, 0x08090A0B, 0x00010203, 0x80007FFF, 0xFFFF0001]
F_EDGE = [0x00000000, 0x80000000, 0x3F800000, 0xBF800000, 0x3F000000, 0x3FC00000, 0x40200000, 0xC0200000, 0x7F800000, 0xFF800000, 0x7FC00000,
          0x7F800001, 0xFFC12345, 0x00000001, 0x807FFFFF, 0x00800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x4B000000, 0x4B800001, 0x4EFFFFFF, 0x4F000000,
          0xCF000000, 0x4F7FFFFF, 0x4F800000, 0x477FE000, 0x477FF000, 0x33800000, 0x387FC000, 0x3F7FFFFF]
H_EDGE = [0, 0x8000, 0x3C00, 0xBC00, 0x3800, 0x3E00, 0x4100, 0x7C00, 0xFC00, 0x7E00, 0x7C01, 0x0001, 0x83FF, 0x0400, 0x7BFF, 0xFBFF, 0x6400, 0x77FF]
D_EDGE = [0, 1 << 63, 0x3FF0 << 48, 0xBFE0 << 48, 0x4004 << 48, 0x7FF0 << 48, 0xFFF0 << 48, 0x7FF8 << 48, (0x7FF0 << 48) | 1, 1, (1 << 52) - 1, 1 << 52,
          0x7FEFFFFFFFFFFFFF, 0x41DFFFFFFFC00000, 0x41E0000000000000, 0xC1E0000000000000, 0x41EFFFFFFFE00000, 0x36A0000000000000, 0x47EFFFFFF0000000, 0x4330000000000001]


class Bench:
    """All kernels in one module; run(text, columns) gives the results of each lane."""

    def __init__(self):
        self.texts, self.hip, self.mod = {}, None, None

    def add(self, text):
        self.texts.setdefault(text, len(self.texts))
        return text

    def build(self):
        d = simhip.BUILD / "sim" / "kernels"
        d.mkdir(parents=True, exist_ok=True)
        src = d / "ops.s"
        text = so.source(list(self.texts))
        if not src.exists() or src.read_text() != text:
            src.write_text(text)
        path = simhip.build(src, d, 0)
        self.hip = simhip.Hip()
        self.mod = self.hip.module(path)

    def run(self, text, a, b, c, old, exec_mask=M32, mode=0xF0):
        if self.hip is None:
            self.build()
        n = len(a)
        rows = np.zeros((n, 4), np.uint64)
        for i, col in enumerate((a, b, c, old)):
            rows[:, i] = np.array(col, dtype=np.uint64)
        src = self.hip.upload(rows)
        dst = self.hip.malloc(n * 32)
        f = self.hip.function(self.mod, f"k{self.texts[text]}")
        try:
            self.hip.check(self.hip.launch(f, n // 32, 32, [src, dst, ctypes.c_uint32(exec_mask), ctypes.c_uint32(mode)]))
        finally:
            self.hip.lib.hipDeviceReset()
        out = self.hip.download(dst, (n, 8), np.uint32)
        self.hip.free(src)
        self.hip.free(dst)
        return out


bench = Bench()
rnd = random.Random(5)


def columns(edges, bits, n=512, small=()):
    """Three columns: pairs of all edges first as far as they fit, random bits after."""
    cols = [[], [], []]
    for i in range(n):
        if i < len(edges) * 8:
            row = [edges[i % len(edges)], edges[(i * 7 + i // len(edges)) % len(edges)], edges[(i * 11 + 3) % len(edges)]]
        elif i % 3 == 0:
            row = [rnd.choice(edges), rnd.getrandbits(bits), rnd.choice(edges)]
        else:
            row = [rnd.getrandbits(bits) for _ in range(3)]
        for k in range(3):
            cols[k].append(row[k])
    return cols


def nan_class(bits, size):
    p = so.FORMATS[size][0]
    return (bits & (1 << (size - 1)) - 1) > ((1 << (size - p)) - 1) << (p - 1)


def compare(text, got, want, a, b, c, size=None, halves=False):
    for i, (g, w) in enumerate(zip(got, want)):
        if g == w or (size and nan_class(g, size) and nan_class(w, size)):
            continue
        if halves and all((g >> k & 0xFFFF) == (w >> k & 0xFFFF) or (nan_class(g >> k & 0xFFFF, 16) and nan_class(w >> k & 0xFFFF, 16)) for k in (0, 16)):
            continue
        raise AssertionError(f"{text}: a={a[i]:#x} b={b[i]:#x} c={c[i]:#x}: {g:#x}, expected {w:#x}")


TABLES = [(so.i32ops, I_EDGE, 32, None, ""), (so.f32ops, F_EDGE, 32, 32, ""), (so.f16ops, H_EDGE, 16, None, "")]
SINGLE = [(n, t, f, e, b, s, fl) for tab, e, b, s, fl in TABLES for n, (t, f) in tab.items()]
SINGLE += [(n, t, f, D_EDGE if "f64" in n else I_EDGE, 64, 64 if "f64" in n else None, "D" + fl) for n, (t, f, fl) in so.q64.items()]
SINGLE += [(n, t, f, D_EDGE, 64, 32, fl) for n, (t, f, fl) in so.from64.items()]
for s in SINGLE:
    bench.add(so.text(s[0], s[1], s[6]))
for n, (t, kind, size) in so.fpops.items():
    bench.add(so.text(n, t, "DABC" if size == 64 else ""))
for n, (t, f) in so.carry.items():
    bench.add(so.text(n, t))
CMP_TEXT = {n: so.text(n, "vcc_lo, {a}, {b}", fl) for n, (f, fl) in so.cmps.items()}
CMPX_TEXT = {n: so.text(n.replace("v_cmp_", "v_cmpx_"), "{a}, {b}", fl) for n, (f, fl) in so.cmps.items()}
for t in [*CMP_TEXT.values(), *CMPX_TEXT.values()]:
    bench.add(t)
SALU_TEXT = {n: f"{n} s24, s20, s21" for n in so.salu} | {n: f"{n} s24, s20" for n in so.salu1}
for t in SALU_TEXT.values():
    bench.add(t)
MODS = {
    "v_mul_f32 {d}, -{a}, |{b}|": lambda a, b, c: so.fp("mul", 32)(a ^ 1 << 31, b & 0x7FFFFFFF),
    "v_fma_f32 {d}, -|{a}|, {b}, -{c}": lambda a, b, c: so.fp("fma", 32)(a | 1 << 31, b, c ^ 1 << 31),
    "v_add_f32 {d}, 1.0, {b}": lambda a, b, c: so.fp("add", 32)(0x3F800000, b),
    "v_add_f32 {d}, 0x40490fdb, {b}": lambda a, b, c: so.fp("add", 32)(0x40490FDB, b),
    "v_fmac_f32 {d}, {a}, {b}": None,
    "v_fmaak_f32 {d}, {a}, {b}, 0x3f9d70a4": lambda a, b, c: so.fp("fma", 32)(a, b, 0x3F9D70A4),
    "v_fmamk_f32 {d}, {a}, 0x3f9d70a4, {b}": lambda a, b, c: so.fp("fma", 32)(a, 0x3F9D70A4, b),
    "v_add_nc_u32 {d}, -16, {b}": lambda a, b, c: b - 16,
    "v_add_nc_u32 {d}, s20, {b}": None,
    "v_dual_add_f32 v8, v0, v2 :: v_dual_mul_f32 v9, v2, v3": None,
}
OTHER = ["v_dual_mov_b32 v0, v2 :: v_dual_mov_b32 v3, v1\nv_dual_mov_b32 v8, v0 :: v_dual_mov_b32 v9, v3",
         "v_dual_mov_b32 v3, v0 :: v_dual_add_nc_u32 v0, v2, v0\nv_dual_mov_b32 v8, v0 :: v_dual_mov_b32 v9, v3",
         "v_mov_b32_dpp v8, v8 row_shr:1 row_mask:0xf bank_mask:0xf",
         "v_add_nc_u32_dpp v0, v0, v0 row_ror:3 row_mask:0xf bank_mask:0xf\nv_mov_b32_e32 v8, v0",
         "v_readfirstlane_b32 s24, v0", "v_readlane_b32 s24, v0, 7", "v_writelane_b32 v8, s20, 9", "v_mul_f32_e64 v8, v0, v2 clamp", "v_mul_f32_e64 v8, v0, v2 mul:2"]
for m in MODS:
    bench.add(m.format(**so.operands("")))
for o in OTHER:
    bench.add(o)


@pytest.fixture(autouse=True)
def numpy_quiet():
    with np.errstate(all="ignore"):
        yield


def arity(f):
    return [p for p in inspect.signature(f).parameters if p != "old" and p != "mode"] if f not in (min, max) else None


def call(f, n, a, b, c, old):
    if f in (min, max):
        return f(a, b) if n == 2 else f(a, b, c)
    kw = {"old": old} if "old" in inspect.signature(f).parameters else {}
    return f(*(a, b, c)[:n], **kw)


def narrow(fl, a, b, c):
    return a if "A" in fl else a & M32, b if "B" in fl else b & M32, c if "C" in fl else c & M32


@pytest.mark.parametrize("case", SINGLE, ids=[s[0].replace(" ", "_") for s in SINGLE])
def test_single(case):
    name, template, f, edges, bits, size, fl = case
    a, b, c = columns(edges, bits)
    if bits == 64 and "f64" not in name:
        a, b, c = ([v | (rnd.getrandbits(32) << 32 if i & 1 else 0) for i, v in enumerate(x)] for x in (a, b, c))
    if bits == 16:
        a, b, c = ([v | rnd.getrandbits(16) << 16 for v in x] for x in (a, b, c))
    if "ldexp" in name:
        b = [v if i % 2 else (i % 400 - 200) & M32 for i, v in enumerate(b)]
    if name == "v_cvt_f32_f16":
        size = 32
    if "f64_f32" in name:
        a, size = columns(F_EDGE, 32)[0], 64
    n = template.count("{") - 1
    old = [rnd.getrandbits(32) for _ in a]
    text = so.text(name, template, fl)
    for mask in (M32, 0x0F0F7731, 0):
        out = bench.run(text, a, b, c, old, mask)
        wide = "D" in fl
        got = [int(r[0]) | (int(r[1]) << 32 if wide else 0) for r in out]
        want = []
        for i in range(len(a)):
            x, y, z = narrow(fl, a[i], b[i], c[i])
            r = call(f, n, x, y, z, old[i]) & (M64 if wide else M32)
            want.append(r if mask >> (i % 32) & 1 else old[i])
        compare(f"{text} exec={mask:#x}", got, want, a, b, c, size, halves=bits == 16 or "f16" in name)


@pytest.mark.parametrize("name", so.fpops)
def test_rounding_modes(name):
    template, kind, size = so.fpops[name]
    a, b, c = columns({16: H_EDGE, 32: F_EDGE, 64: D_EDGE}[size], size, 384)
    text = so.text(name, template, "DABC" if size == 64 else "")
    for mode in range(4):
        m = 0xF0 | (mode if size == 32 else mode << 2)
        out = bench.run(text, a, b, c, [0] * len(a), mode=m)
        got = [int(r[0]) | (int(r[1]) << 32 if size == 64 else 0) for r in out]
        ref = so.fp(kind, size)
        args = (a, b, c)[: 3 if kind == "fma" else 2]
        want = [ref(*row, mode=mode) for row in zip(*args)]
        compare(f"{text} mode={mode}", got, want, a, b, c, size)


@pytest.mark.parametrize("name", ["v_add_f32", "v_mul_f32", "v_mul_f64"])
def test_denormals_flushed(name):
    """Denormal modes off: sources and results below the least normal count as zero of their sign."""
    template, kind, size = so.fpops[name]
    a, b, c = columns({32: F_EDGE, 64: D_EDGE}[size], size, 384)
    p = so.FORMATS[size][0]

    def ftz(x):
        return x & 1 << (size - 1) if not x >> (p - 1) & (1 << (size - p)) - 1 else x

    out = bench.run(so.text(name, template, "DABC" if size == 64 else ""), a, b, c, [0] * len(a), mode=0xC0 if size == 32 else 0x30)
    got = [int(r[0]) | (int(r[1]) << 32 if size == 64 else 0) for r in out]
    want = [ftz(so.fp(kind, size)(ftz(x), ftz(y))) for x, y in zip(a, b)]
    compare(name, got, want, a, b, c, size)


@pytest.mark.parametrize("name", so.carry)
def test_carry(name):
    template, f = so.carry[name]
    a, b, c = columns(I_EDGE, 32)
    text = so.text(name, template)
    for mask in (M32, 0x7731F00F, 0):
        out = bench.run(text, a, b, c, [7] * len(a), mask)
        for i in range(0, len(a), 32):
            bits = 0
            for l in range(32):
                r, m = f(a[i + l], b[i + l], VCC >> l & 1)
                on = mask >> l & 1
                assert int(out[i + l][0]) == (r & M32 if on else 7), (text, hex(a[i + l]), hex(b[i + l]))
                bits |= (int(m) & 1) << l if on else 0
            if name != "v_cndmask_b32":
                assert int(out[i][2]) == bits, (text, hex(mask))


@pytest.mark.parametrize("name", so.cmps)
def test_compare(name):
    f, fl = so.cmps[name]
    edges, bits = (D_EDGE, 64) if "f64" in name else (F_EDGE, 32) if "f32" in name else (H_EDGE, 16) if "f16" in name else (I_EDGE, 64 if "64" in name else 32)
    a, b, c = columns(edges, bits, 256)
    b = [a[i] if i % 5 == 0 else v for i, v in enumerate(b)]
    for mask in (M32, 0x00FF1234, 0):
        out = bench.run(CMP_TEXT[name], a, b, c, [0] * len(a), mask)
        outx = bench.run(CMPX_TEXT[name], a, b, c, [0] * len(a), mask)
        for i in range(0, len(a), 32):
            want = 0
            for l in range(32):
                x, y, _ = narrow(fl, a[i + l], b[i + l], 0)
                want |= int(bool(f(x, y))) << l
            assert int(out[i][2]) == want & mask, (name, hex(mask), i)
            assert int(outx[i][5]) == want & mask and int(outx[i][2]) == VCC, (name, "cmpx")


@pytest.mark.parametrize("name", SALU_TEXT)
def test_scalar(name):
    one = name in so.salu1
    a, b, _ = columns(F_EDGE if "f32" in name and "i32" not in name or name == "s_cvt_i32_f32" else I_EDGE, 32, 200)
    for scc in (0, 1):
        rows = [x for v in a for x in [v] * 32], [x for v in b for x in [v] * 32]
        out = bench.run(SALU_TEXT[name], rows[0], rows[1], rows[0], [scc] * len(rows[0]))
        for i in range(len(a)):
            r, s = so.salu1[name](a[i], scc) if one else so.salu[name](a[i], b[i], scc)
            got = int(out[32 * i][3])
            assert got == r & M32 or ("f32" in name and nan_class(got, 32) and nan_class(r & M32, 32)), (name, hex(a[i]), hex(b[i]), hex(got), hex(r & M32))
            assert int(out[32 * i][6]) == s & 1, (name, hex(a[i]), hex(b[i]), scc)


@pytest.mark.parametrize("name", [m for m in MODS if MODS[m]])
def test_modifiers_and_constants(name):
    a, b, c = columns(F_EDGE, 32, 256)
    out = bench.run(name.format(**so.operands("")), a, b, c, [0] * len(a))
    compare(name, [int(r[0]) for r in out], [MODS[name](*row) & M32 for row in zip(a, b, c)], a, b, c, 32)


def test_fmac_scalar_source_and_pairs():
    a, b, c = columns(F_EDGE, 32, 256)
    old = c
    out = bench.run("v_fmac_f32 v8, v0, v2", a, b, c, old)
    compare("v_fmac_f32", [int(r[0]) for r in out], [so.fp("fma", 32)(*row) for row in zip(a, b, c)], a, b, c, 32)
    out = bench.run("v_add_nc_u32 v8, s20, v2", a, b, c, old)
    assert [int(r[0]) for r in out] == [a[i // 32 * 32] + b[i] & M32 for i in range(256)]
    b2 = [v | rnd.choice(F_EDGE) << 32 for v in b]
    out = bench.run("v_dual_add_f32 v8, v0, v2 :: v_dual_mul_f32 v9, v2, v3", a, b2, c, old)
    compare("dual x", [int(r[0]) for r in out], [so.fp("add", 32)(x, y & M32) for x, y in zip(a, b2)], a, b2, c, 32)
    compare("dual y", [int(r[1]) for r in out], [so.fp("mul", 32)(y & M32, y >> 32) for y in b2], a, b2, c, 32)


def test_pairs_read_before_they_write():
    a = [rnd.getrandbits(64) for _ in range(32)]
    b = [rnd.getrandbits(64) for _ in range(32)]
    out = bench.run(OTHER[0], a, b, a, [0] * 32)
    assert [(int(r[0]), int(r[1])) for r in out] == [(y & M32, x >> 32) for x, y in zip(a, b)]
    out = bench.run(OTHER[1], a, b, a, [0] * 32)
    assert [(int(r[0]), int(r[1])) for r in out] == [((x + y) & M32, x & M32) for x, y in zip(a, b)]


def test_dpp_in_place():
    a = [rnd.getrandbits(32) for _ in range(32)]
    out = bench.run(OTHER[2], a, a, a, a)
    assert [int(r[0]) for r in out] == [a[l - 1] if l & 15 else a[l] for l in range(32)]
    out = bench.run(OTHER[3], a, a, a, a)
    assert [int(r[0]) for r in out] == [(a[l & 16 | (l - 3) & 15] + a[l]) & M32 for l in range(32)]


def test_lane_access_with_exec():
    a = [rnd.getrandbits(32) for _ in range(32)]
    for mask, first in ((M32, 0), (0x00000100, 8), (0, 0), (0x80000000, 31)):
        assert int(bench.run(OTHER[4], a, a, a, a, mask)[0][3]) == a[first], hex(mask)
        assert int(bench.run(OTHER[5], a, a, a, a, mask)[0][3]) == a[7]
        out = bench.run(OTHER[6], a, a, a, [5] * 32, mask)
        assert [int(r[0]) for r in out] == [a[0] if l == 9 else 5 for l in range(32)]


def test_clamp_and_omod():
    a, b, c = columns(F_EDGE, 32, 256)
    prod = [so.fp("mul", 32)(x, y) for x, y in zip(a, b)]
    out = bench.run(OTHER[7], a, b, c, c)
    want = []
    for p in prod:
        x = so.f32(p)
        want.append(0 if not x > 0 else 0x3F800000 if x > 1 else p)
    compare("clamp", [int(r[0]) for r in out], want, a, b, c)
    out = bench.run(OTHER[8], a, b, c, c)
    compare("mul:2", [int(r[0]) for r in out], [so.fp("mul", 32)(p, 0x40000000) for p in prod], a, b, c, 32)
