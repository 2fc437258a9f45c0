"""Division steps, approximations, relative moves, matrix instructions, transposing loads, small floats: single instructions of the simulator
against AMD's RDNA4 pseudocode, written again in Python on exact numbers."""
import os
import math
import random
import struct
from fractions import Fraction

os.environ.setdefault("IE_SIM_STRICT", "1")

import numpy as np
import pytest

import simhip
import simlab
import simops as so
import test_sim_ops as ops
from simlab import A, B, C, M32, MASKS, MEM, OLD, VCC, old_row, on
from simops import f32, to_bits

pytestmark = pytest.mark.skipif(simhip.compiler() is None, reason="skip: no clang for gfx1201 (pip install ziglang==0.17.1)")
lab = simlab.Lab("labmath")
rnd = random.Random(12)


def check(case, want, **kw):
    return simlab.check(lab, case, want, **kw)


# ---- division, reciprocals, angles

def exponent(b, size):
    p = so.FORMATS[size][0]
    return b >> (p - 1) & (1 << (size - p)) - 1


def scaled(b, n, size):
    x = so.val(b, size)
    return to_bits(Fraction(x) * Fraction(2) ** n, size, 0, b >> (size - 1) == 1) if math.isfinite(x) else b


def div_scale(size):
    """V_DIV_SCALE_F32 / F64 (result, flag). Where both the reciprocal and the quotient are denormal AMD's text scales the denominator
    up, which overflows; the scale that the following steps undo is down. Quotients are worked out in double, where they may be 0."""
    far, step, small = {32: (96, 64, 23), 64: (768, 128, 53)}[size]
    least = Fraction(2) ** so.FORMATS[size][1]
    nan = to_bits(math.nan, size)

    def ref(a, den, num):
        d, n = so.val(den, size), so.val(num, size)
        if d == 0 or n == 0:
            return nan, 0
        inv, quo = 0 < abs(1 / d) < least, 0 < abs(n / d) < least
        ed, en = exponent(den, size), exponent(num, size)
        if en - ed >= far:
            return (scaled(a, step, size) if a == den else a), 1
        if ed == 0:
            return scaled(a, step, size), 0
        if inv and quo:
            return (scaled(a, -step, size) if a == den else a), 1
        if inv:
            return scaled(a, -step, size), 0
        if quo:
            return (scaled(a, step, size) if a == num else a), 1
        return (scaled(a, step, size) if en <= small else a), 0

    return ref


def div_fmas(size):
    step = {32: 64, 64: 128}[size]
    bias = so.FORMATS[size][2]

    def ref(a, b, c, vcc):
        if not vcc:
            return so.fp("fma", size)(a, b, c)
        n = step if exponent(c, size) > bias else -step
        xs = [so.val(v, size) for v in (a, b, c)]
        if size == 64 or not so.finite(*xs):  # the f64 form rounds twice
            return scaled(so.fp("fma", size)(a, b, c), n, size)
        exact = Fraction(xs[0]) * Fraction(xs[1]) + Fraction(xs[2])
        return to_bits(exact * Fraction(2) ** n, size, 0, so.fp("fma", size)(a, b, c) >> (size - 1) == 1)

    return ref


def div_fixup(size):
    sign = 1 << (size - 1)
    inf = to_bits(math.inf, size)

    def ref(q, den, num):
        d, n = so.val(den, size), so.val(num, size)
        s = (den ^ num) & sign
        if math.isnan(n) or math.isnan(d):
            return so.quiet(num if math.isnan(n) else den, size)
        if (d == 0 and n == 0) or (math.isinf(d) and math.isinf(n)):
            return to_bits(math.nan, size)
        if d == 0 or math.isinf(n):
            return s | inf
        if math.isinf(d) or n == 0:
            return s
        if exponent(num, size) - exponent(den, size) < {32: -150, 64: -1075}[size]:
            return s
        if math.isnan(so.val(q, size)):
            return s | inf
        return s | q & ~sign

    return ref


DIV = {}
for _s, _r in ((32, ("v0", "v2", "v4", "v8")), (64, ("v[0:1]", "v[2:3]", "v[4:5]", "v[8:9]"))):
    _a, _b, _c, _d = _r
    DIV["scale", _s] = lab.add(f"v_div_scale_f{_s} {_d}, s24, {_a}, {_b}, {_c}", "v_mov_b32_e32 v10, s24")
    DIV["scale den", _s] = lab.add(f"v_div_scale_f{_s} {_d}, s24, {_b}, {_b}, {_c}", "v_mov_b32_e32 v10, s24")
    DIV["scale num", _s] = lab.add(f"v_div_scale_f{_s} {_d}, s24, {_c}, {_b}, {_c}", "v_mov_b32_e32 v10, s24")
    DIV["fmas", _s] = lab.add(f"v_div_fmas_f{_s} {_d}, {_a}, {_b}, {_c}")
    DIV["fixup", _s] = lab.add(f"v_div_fixup_f{_s} {_d}, {_a}, {_b}, {_c}")


def columns(size, n=512):
    more = {32: [0x7E800000, 0x7F000000, 0x0B800000, 0x0C000000, 0x2F800000, 0x4F000001], 64: [0x7FD << 52, 0x035 << 52, 0x6FE << 52, 0x3FE << 52]}[size]
    a, b, c = ops.columns((ops.F_EDGE if size == 32 else ops.D_EDGE) + more, size, n)
    return a, b, c


@pytest.mark.parametrize("kind,size", DIV)
def test_division_step(kind, size):
    a, b, c = columns(size)
    old = [rnd.getrandbits(64) for _ in a]
    for mask in MASKS:
        out, _ = lab.run(DIV[kind, size], a, b, c, old, mask)
        flags = 0
        for i in range(len(a)):
            if kind.startswith("scale"):
                first = {"scale": a, "scale den": b, "scale num": c}[kind][i]
                want, flag = div_scale(size)(first, b[i], c[i])
                flags = (0 if i % 32 == 0 else flags) | (flag & on(mask, i)) << i % 32
                if i % 32 == 31:
                    assert int(out[i][2]) == flags, (kind, size, i)
            elif kind == "fmas":
                want = div_fmas(size)(a[i], b[i], c[i], VCC >> i % 32 & 1)
            else:
                want = div_fixup(size)(a[i], b[i], c[i])
            if not on(mask, i):
                want = old[i] & (1 << size) - 1
            got = int(out[i][0]) | (int(out[i][1]) << 32 if size == 64 else 0)
            assert got == want or (ops.nan_class(got, size) and ops.nan_class(want, size) and on(mask, i)), \
                f"v_div_{kind}_f{size} a={a[i]:#x} b={b[i]:#x} c={c[i]:#x}: {got:#x}, expected {want:#x}"


APPROX = {
    "v_rcp_f64_e32": 64, "v_rcp_f64_e64": 64, "v_rsq_f64_e32": 64, "v_rsq_f64_e64": 64, "v_rcp_iflag_f32_e32": 32, "v_sin_f32_e32": 32, "v_sin_f32_e64": 32,
    "v_cos_f32_e32": 32, "v_cos_f32_e64": 32, "v_s_sqrt_f32": 32}
APPROX_CASES = {n: lab.add(f"{n} s24, s20", "v_mov_b32_e32 v8, s24") if n.startswith("v_s_") else
                lab.add(f"{n} {'v[8:9], v[0:1]' if s == 64 else 'v8, v0'}") for n, s in APPROX.items()}


@pytest.mark.parametrize("name", APPROX)
def test_approximation(name):
    """Exact on special values; within one unit (f64: 2^-14 of the value is all that AMD promises; here one unit) elsewhere."""
    size = APPROX[name]
    a, b, c = columns(size, 256)
    if name.startswith("v_s_"):
        a = [v for v in a[:48] for _ in range(32)]
        b, c = b[:1] * len(a), c[:1] * len(a)
    out, _ = lab.run(APPROX_CASES[name], a, b, c, a)
    for i in range(len(a)):
        x = so.val(a[i], size)
        got = int(out[i][0]) | (int(out[i][1]) << 32 if size == 64 else 0)
        g = so.val(got, size)
        neg = math.copysign(1, x) < 0
        if "sin" in name or "cos" in name:
            if not math.isfinite(x):
                assert math.isnan(g), hex(a[i])
                continue
            part = float(Fraction(x) - round(Fraction(x)))
            want = math.sin(2 * math.pi * part) if "sin" in name else math.cos(2 * math.pi * part)
            assert abs(g - want) < 3e-7 and abs(g) <= 1, (hex(a[i]), g, want)
            continue
        if math.isnan(x) or (x < 0 and ("rsq" in name or "sqrt" in name)):
            assert math.isnan(g), hex(a[i])
        elif x == 0:
            assert got == (to_bits(0.0, size, neg_zero=neg) if "sqrt" in name else to_bits(-math.inf if neg else math.inf, size)), hex(a[i])
        elif math.isinf(x):
            assert got == (to_bits(x, size) if "sqrt" in name else to_bits(0.0, size, neg_zero=neg)), hex(a[i])
        else:
            with np.errstate(all="ignore"):
                want = Fraction(1) / Fraction(x) if "rcp" in name else Fraction(math.sqrt(x)) if "sqrt" in name else 1 / Fraction(math.sqrt(x))
            near = to_bits(want, size)
            assert abs(got - near) <= 1, (hex(a[i]), hex(got), hex(near))


CMPX64 = {t: lab.add(f"v_cmpx_ne_u64_{t} v[0:1], v[2:3]", "v_mov_b32_e32 v8, s28\nv_mov_b32_e32 v9, vcc_lo") for t in ("e32", "e64")}
MOVREL = {"s": lab.add("s_mov_b32 m0, 3\nv_movrels_b32_e32 v8, v0"), "d": lab.add("s_mov_b32 m0, 2\nv_movreld_b32_e32 v8, v0"),
          "0": lab.add("s_mov_b32 m0, 0\nv_movrels_b32_e32 v8, v1")}


@pytest.mark.parametrize("form", CMPX64)
def test_compare_that_writes_exec(form):
    """V_CMPX_NE_U64: EXEC is the result of the lanes that were on; VCC stays."""
    a = [v & ~M32 | rnd.choice((0, 1, M32)) for v in A]
    b = [v if i % 3 == 0 else v ^ 1 if i % 3 == 1 else v ^ 1 << 63 for i, v in enumerate(a)]
    for mask in MASKS:
        new = [sum(1 << l for l in range(32) if on(mask, l) and a[g + l] != b[g + l]) for g in (0, 32)]
        check(CMPX64[form], lambda i, act: [new[i // 32], VCC] + old_row(i)[2:], a=a, b=b, masks=[mask])


def test_relative_moves():
    """V_MOVRELS_B32 reads VGPR src + M0, V_MOVRELD_B32 writes VGPR dst + M0."""
    check(MOVREL["s"], lambda i, act: [B[i] >> 32 if act else old_row(i)[0]] + old_row(i)[1:])
    check(MOVREL["0"], lambda i, act: [A[i] >> 32 if act else old_row(i)[0]] + old_row(i)[1:])
    check(MOVREL["d"], lambda i, act: old_row(i)[:2] + [A[i] if act else old_row(i)[2]] + old_row(i)[3:])


# ---- matrix instructions: A in v[32:35], B in v[36:39], C and D in v[8:15]

WMMA = {  # name: (kind of A and B, K, C)
    "v_wmma_i32_16x16x16_iu8": ("i8", 16), "v_wmma_i32_16x16x16_iu4": ("i4", 16), "v_wmma_i32_16x16x32_iu4": ("i4", 32), "v_wmma_f32_16x16x16_f16": ("f16", 16),
    "v_wmma_f32_16x16x16_bf16": ("bf16", 16), "v_wmma_f32_16x16x16_fp8_fp8": ("fp8", 16), "v_wmma_f32_16x16x16_bf8_fp8": ("bf8", 16), "v_wmma_f16_16x16x16_f16": ("f16", 16)}
SIGNS = ("", "neg_lo:[1,0,0]", "neg_lo:[0,1,0]", "neg_lo:[1,1,0]", "neg_lo:[1,1,0] clamp")


def wmma_case(name, mods=""):
    kind, k = WMMA[name]
    n = k * {"i8": 8, "fp8": 8, "bf8": 8, "i4": 4}.get(kind, 16) // 64
    regs = lambda f: f"v{f}" if n == 1 else f"v[{f}:{f + n - 1}]"
    d = "v[8:11]" if "wmma_f16" in name else "v[8:15]"
    return lab.add(f"{name} {d}, {regs(0)}, {regs(4)}, {d} {mods}", "",
                   "v_dual_mov_b32 v4, v4 :: v_dual_mov_b32 v5, v5\nglobal_load_b128 v[4:7], v29, s[10:11]\nglobal_load_b128 v[8:11], v29, s[10:11] offset:512\n"
                   "global_load_b128 v[12:15], v29, s[10:11] offset:1024\ns_wait_loadcnt 0x0")


WMMA_CASES = {(n, m): wmma_case(n, m) for n in WMMA for m in (SIGNS if "iu" in n else ("",))}


def small(v, e_bits, m_bits):
    """An 8-bit float: E4M3 (one NaN pattern, no infinity) or E5M2."""
    s, e, m = v >> 7, v >> m_bits & (1 << e_bits) - 1, v & (1 << m_bits) - 1
    bias = (1 << (e_bits - 1)) - 1
    if e_bits == 4 and e == 15 and m == 7:
        return math.nan
    if e_bits == 5 and e == 31:
        return math.nan if m else math.copysign(math.inf, -1 if s else 1)
    x = math.ldexp(m, 1 - bias - m_bits) if e == 0 else math.ldexp((1 << m_bits) + m, e - bias - m_bits)
    return -x if s else x


def elements(regs, kind, half_k):
    """K/2 elements out of a lane's registers, in ascending order."""
    bits = {"i8": 8, "fp8": 8, "bf8": 8, "i4": 4}.get(kind, 16)
    whole = sum(r << 32 * i for i, r in enumerate(regs))
    return [whole >> bits * i & (1 << bits) - 1 for i in range(half_k)]


@pytest.mark.parametrize("case", WMMA_CASES, ids=[f"{n} {m}".strip() for n, m in WMMA_CASES])
def test_matrix(case):
    """V_WMMA_*: D = A * B + C of 16 x 16. A's lane is the row, B's the column, its upper half has the upper half of K; C's and D's lane is
    the column, row = 8 * (lane / 16) + register."""
    name, mods = case
    kind, k = WMMA[name]
    half = k // 2
    integer = kind[0] == "i"
    for turn in range(4):
        words = lambda n: [[rnd.getrandbits(32) for _ in range(n)] for _ in range(32)]
        a, b, c = words(4), words(4), words(8)
        if not integer and turn < 3:  # all values at first, then without NaN and infinity, then no large exponents
            keep = {"f16": [0, 0xBBFFBBFF, 0x8FFF8FFF][turn], "bf16": [0, 0xBFFFBFFF, 0xBF7FBF7F][turn]}.get(kind, [0, 0xBFBFBFBF, 0xB7B7B7B7][turn]) or M32
            a, b = ([[x & keep for x in r] for r in m] for m in (a, b))
            c = [[(x & (0xBBFFBBFF if "wmma_f16" in name else 0xBFFFFFFF)) if turn else x for x in r] for r in c]
        if turn == 3:  # extremes
            e = {"i8": [0x7F7F7F7F, 0x80808080], "i4": [0x77777777, 0x88888888]}.get(kind, [0, 0x80008000, 0x00010001])
            a, b = ([[rnd.choice(e) for _ in r] for r in m] for m in (a, b))
            c = [[rnd.choice([0x7FFFFFFF, 0x80000000, 0, 1]) if integer else rnd.choice([0, 0x80008000]) for _ in r] for r in c]
        mem = bytearray(4096)
        for l in range(32):
            struct.pack_into("<4I", mem, 16 * l, *b[l])
            struct.pack_into("<4I", mem, 16 * l + 512, *c[l][:4])
            struct.pack_into("<4I", mem, 16 * l + 1024, *c[l][4:])
        pair = lambda r, i: r[i] | r[i + 1] << 32
        out, _ = lab.run(WMMA_CASES[case], [pair(r, 0) for r in a], [pair(r, 2) for r in a], [0] * 32, [0] * 32, M32, bytes(mem))
        matrix = lambda m: [elements(m[r], kind, half) + elements(m[r + 16], kind, half) for r in range(16)]
        ma, mb = matrix(a), matrix(b)
        for col in range(16):
            for row in range(16):
                lane, reg = col + 16 * (row // 8), row % 8
                if integer:
                    bits, sa, sb = int(kind[1]), "[1," in mods, ",1," in mods
                    sg = lambda v, s: v - (1 << bits) if s and v >> (bits - 1) else v
                    r = so.s32(c[lane][reg]) + sum(sg(x, sa) * sg(y, sb) for x, y in zip(ma[row], mb[col]))
                    if "clamp" in mods:
                        r = so.sat(r, -(2**31), 2**31 - 1)
                    assert int(out[lane][reg]) == r & M32, (case, turn, row, col)
                    continue
                h16 = "wmma_f16" in name
                conv = {"f16": so.f16, "bf16": lambda v: f32(v << 16), "fp8": lambda v: small(v, 4, 3), "bf8": lambda v: small(v, 5, 2)}[kind]
                convb = (lambda v: small(v, 4, 3)) if "fp8" in name else conv
                cv = so.f16(c[lane][reg // 2] >> 16 * (reg & 1)) if h16 else f32(c[lane][reg])
                got = int(out[lane][reg // 2]) >> 16 * (reg & 1) & 0xFFFF if h16 else int(out[lane][reg])
                xs = [(conv(x), convb(y)) for x, y in zip(ma[row], mb[col])]
                size = 16 if h16 else 32
                if not so.finite(cv, *[v for p in xs for v in p]):
                    want = sum((x * y for x, y in xs), cv)
                    assert (math.isnan(want) and ops.nan_class(got, size)) or got == to_bits(want, size), (case, turn, row, col)
                    continue
                want = sum((Fraction(x) * Fraction(y) for x, y in xs), Fraction(cv))
                scale = sum((abs(Fraction(x) * Fraction(y)) for x, y in xs), abs(Fraction(cv)))
                g = so.val(got, size)
                unit = max(scale * Fraction(1, 2 ** (10 if h16 else 22)), Fraction(2) ** (-24 if h16 else -149))
                big = Fraction(so.f16(0x7BFF) if h16 else f32(0x7F7FFFFF))
                assert (math.isinf(g) and abs(want) + unit > big) or abs(Fraction(g) - want) <= unit, (case, turn, row, col, g, float(want))


def test_matrix_needs_all_lanes():
    for mask in (0xFFFF, 0):
        with pytest.raises(RuntimeError, match="matrix instruction with lanes off"):
            lab.run(WMMA_CASES["v_wmma_i32_16x16x16_iu8", ""], A[:32], B[:32], C[:32], OLD[:32], mask, MEM)


# ---- further operations that kernels may ask for by name

MORE = {
    "tr128": lab.add("global_load_tr_b128 v[8:11], v29, s[10:11]"), "tr64": lab.add("global_load_tr_b64 v[8:9], v29, s[10:11]"),
    "dot2": lab.add("v_dot2_f16_f16 v8, v0, v2, v4"), "trig": lab.add("v_trig_preop_f64 v[8:9], v[0:1], v2"),
    "fp8": lab.add("v_cvt_pk_fp8_f32 v8, v0, v2"), "bf8": lab.add("v_cvt_pk_bf8_f32 v8, v0, v2"), "sr": lab.add("v_cvt_sr_fp8_f32 v8, v0, v2")}


@pytest.mark.parametrize("name", ["tr128", "tr64"])
def test_transposing_load(name):
    """GLOBAL_LOAD_TR_B128 (B64): the source lane has row l mod 16 of a 16 x 16 matrix of 16 (8) bits, 8 columns from 8 * (l / 16); the
    result's lane has the column l mod 16, the same 8 rows."""
    size = 2 if name == "tr128" else 1
    element = lambda base, row, col: int.from_bytes(MEM[(at := 16 * (base + row + 16 * (col // 8)) + size * (col % 8)):at + size], "little")

    def want(i, act):
        whole = sum(element(i & ~31, 8 * (i % 32 // 16) + k, i % 16) << 8 * size * k for k in range(8))
        return [whole >> 32 * k & M32 for k in range(2 * size)] + old_row(i)[2 * size:]

    check(MORE[name], want, masks=[M32])
    with pytest.raises(RuntimeError, match="lanes off"):
        lab.run(MORE[name], A, B, C, OLD, 0xFFFF, MEM)


def test_dot_of_two_halves():
    """V_DOT2_F16_F16: D = A0 * B0 + C, then + A1 * B1, each rounded once to f16."""
    pair = lambda: rnd.choice(ops.H_EDGE) | rnd.choice(ops.H_EDGE) << 16
    a, b, c = ([pair() if i < 256 else rnd.getrandbits(32) & 0xBFFFBFFF for i in range(512)] for _ in range(3))
    old = OLD * 8
    out, _ = lab.run(MORE["dot2"], a, b, c, old)
    for i in range(512):
        f = so.fp("fma", 16)
        want = f(a[i] >> 16, b[i] >> 16, f(a[i] & 0xFFFF, b[i] & 0xFFFF, c[i] & 0xFFFF))
        got = int(out[i][0])
        assert got & 0xFFFF == want or (ops.nan_class(got & 0xFFFF, 16) and ops.nan_class(want, 16)), (hex(a[i]), hex(b[i]), hex(c[i]), hex(got), hex(want))
        assert got >> 16 == old[i] >> 16 & 0xFFFF


def nearest_small(x, e_bits, m_bits):
    """Byte of the nearest value, ties to even; beyond the largest: NaN (E4M3), infinity (E5M2)."""
    s = 0x80 if math.copysign(1, x) < 0 else 0
    over = 0x7F if e_bits == 4 else 0x7C
    if math.isnan(x):
        return None
    if math.isinf(x):
        return s | over
    last = 0x7E if e_bits == 4 else 0x7B
    x = abs(Fraction(x))
    val = [Fraction(small(v, e_bits, m_bits)) for v in range(last + 1)]
    step = val[-1] - val[-2]
    if x >= val[-1] + step / 2 and not (x == val[-1] + step / 2 and last % 2 == 0):
        return s | over
    best = min(range(last + 1), key=lambda v: (abs(val[v] - x), v & 1))
    return s | best


@pytest.mark.parametrize("name", ["fp8", "bf8"])
def test_small_floats(name):
    """V_CVT_PK_FP8_F32, V_CVT_PK_BF8_F32 into the low half."""
    fmt = (4, 3) if name == "fp8" else (5, 2)
    near = [to_bits(Fraction(small(v, *fmt)) * f, 32) for v in range(0, 0x7B, 3) for f in (1, Fraction(17, 16), Fraction(9, 8), Fraction(33, 32))]
    vals = (ops.F_EDGE + near + [0x43E00000, 0x43E80000, 0x43E80001, 0x47700000, 0x476FFFFF, 0xC3F00000])
    vals += [0] * (-len(vals) % 32)
    b = vals[7:] + vals[:7]
    old = [rnd.getrandbits(64) for _ in vals]
    out, _ = lab.run(MORE[name], vals, b, vals, old)
    for i, (x, y) in enumerate(zip(vals, b)):
        for v, at in ((x, 0), (y, 8)):
            want, got = nearest_small(f32(v), *fmt), int(out[i][0]) >> at & 255
            assert got == want if want is not None else math.isnan(small(got, *fmt)), (hex(v), hex(got), want)
        assert int(out[i][0]) >> 16 == old[i] >> 16 & 0xFFFF


def test_two_over_pi():
    """V_TRIG_PREOP_F64: 53 bits of 2 / pi from bit 53 * S1[4:0], further for large arguments, at their place."""
    one = 1 << 1400
    arctan = lambda n: sum((-1) ** k * (one // n ** (2 * k + 1)) // (2 * k + 1) for k in range(1000 if n == 5 else 300))
    pi = 4 * (4 * arctan(5) - arctan(239))
    digits = (2 * one << 1201) // pi  # 1201 bits after the point
    args = [0x3FF0 << 48, 0x4350 << 48, 0x7E00 << 48, 0x7FEF << 48, 0x4360123456789ABC, 0x7B0 << 52, 0x435 << 52, 0x436 << 52]
    a, b = [args[i % 8] for i in range(96)], [i // 8 for i in range(96)]
    out, _ = lab.run(MORE["trig"], a, b, a, a)
    for i in range(96):
        e = exponent(a[i], 64)
        shift = (b[i] & 31) * 53 + max(e - 1077, 0)
        bits = digits >> 1201 - shift - 53 & (1 << 53) - 1 if shift + 53 <= 1201 else (digits << shift + 53 - 1201) & (1 << 53) - 1
        want = to_bits(Fraction(bits) * Fraction(2) ** (-53 - shift + (128 if e >= 1968 else 0)), 64)
        got = int(out[i][0]) | int(out[i][1]) << 32
        assert got == want, (hex(a[i]), b[i], hex(got), hex(want))


def test_stochastic_rounding_is_refused():
    """V_CVT_SR_*: AMD's text and what cards are known to do differ (a carry out of the mantissa, the final rounding)."""
    with pytest.raises(RuntimeError, match="v_cvt_sr_fp8_f32"):
        lab.run(MORE["sr"], A, B, C, OLD)
