"""Test kernels on the gfx1201 simulator at -O0, -O1 and -O3 against results worked out here with numpy."""
import ctypes
import os

os.environ.setdefault("IE_SIM_STRICT", "1")

import numpy as np
import pytest

import simhip
from simhip import KERNELS

pytestmark = pytest.mark.skipif(simhip.compiler() is None, reason="skip: no clang for gfx1201 (pip install ziglang==0.17.1)")

U32, I32, F32, F64 = ctypes.c_uint32, ctypes.c_int32, ctypes.c_float, ctypes.c_double
OPTS = [0, 1, 3]
rng = np.random.default_rng(7)


@pytest.fixture(scope="session")
def hip():
    return simhip.Hip()


@pytest.fixture(autouse=True)
def forget_faults(request):
    yield
    request.getfixturevalue("hip").lib.hipDeviceReset()


@pytest.fixture(scope="session")
def out_dir(tmp_path_factory):
    d = simhip.BUILD / "sim" / "kernels"
    d.mkdir(parents=True, exist_ok=True)
    return d


class Kernels:
    """Runs a kernel by file and name; arrays go up, `outs` (shape, dtype or array) come back."""

    def __init__(self, hip, out_dir, opt):
        self.hip, self.out_dir, self.opt, self.mods = hip, out_dir, opt, {}

    def run(self, file, name, grid, block, args, lds=0, coop=False):
        if file not in self.mods:
            self.mods[file] = self.hip.module(simhip.build(KERNELS / f"{file}.c", self.out_dir, self.opt))
        f = self.hip.function(self.mods[file], name)
        vals, outs, ptrs = [], [], []
        for a in args:
            if isinstance(a, Out):
                p = self.hip.upload(a.init) if a.init is not None else self.hip.malloc(a.nbytes)
                outs.append((p, a))
            elif isinstance(a, np.ndarray):
                p = self.hip.upload(a)
            else:
                vals.append(a)
                continue
            vals.append(p)
            ptrs.append(p)
        self.hip.check(self.hip.launch(f, grid, block, vals, lds, coop))
        res = [self.hip.download(p, o.shape, o.dtype) for p, o in outs]
        for p in ptrs:
            self.hip.free(p)
        return res[0] if len(res) == 1 else res


class Out:
    def __init__(self, shape, dtype, init=None):
        self.shape, self.dtype, self.init = shape, np.dtype(dtype), init
        self.nbytes = int(np.prod(shape)) * self.dtype.itemsize


def inout(a):
    return Out(a.shape, a.dtype, a)


@pytest.fixture(scope="module", params=OPTS, ids=[f"O{o}" for o in OPTS])
def k(request, hip, out_dir):
    return Kernels(hip, out_dir, request.param)


def u32s(n):
    a = rng.integers(0, 2**32, n, dtype=np.uint64).astype(np.uint32)
    a[:8] = [0, 1, 0xFFFFFFFF, 0x80000000, 0x7FFFFFFF, 31, 32, 0xFFFF]
    return a


def f32s(n):
    a = (rng.standard_normal(n) * 10.0 ** rng.integers(-20, 20, n)).astype(np.float32)
    edge = [0.0, -0.0, 1.0, -1.5, 2.5, -2.5, 3.4e38, -3.4e38, 1e-40, -1e-45, np.inf, -np.inf, np.nan, 0.5, 1.17549435e-38, 8388609.0]
    a[: len(edge)] = edge
    return a


def same(a, b):
    """Equal bits, NaNs as a class."""
    a, b = np.asarray(a), np.asarray(b)
    eq = (a.view(f"u{a.itemsize}") == b.view(f"u{b.itemsize}")) | (np.isnan(a) & np.isnan(b))
    bad = np.argwhere(~eq)
    assert not len(bad), f"{len(bad)} differ, first at {bad[0]}: {a[tuple(bad[0])]!r} != {b[tuple(bad[0])]!r}"


def test_vadd(k):
    a, b = f32s(1000), f32s(1000)[::-1].copy()
    with np.errstate(all="ignore"):
        same(k.run("arith", "vadd", 4, 256, [a, b, Out(1000, np.float32), I32(1000)]), a + b)


def test_int_ops(k):
    n = 512
    x, y = u32s(n), u32s(n)[rng.permutation(n)]
    X, Y = x.astype(np.uint64), y.astype(np.uint64)
    sx, sy = x.astype(np.int32), y.astype(np.int32)
    sh = (y & 31).astype(np.uint32)
    mul = (x * y).astype(np.uint32)
    pop = np.array([bin(v).count("1") for v in x.tolist()], np.uint32)
    clz = np.array([32 - v.bit_length() if v else 77 for v in x.tolist()], np.uint32)
    ctz = np.array([(v & -v).bit_length() - 1 if v else 77 for v in y.tolist()], np.uint32)
    rev = np.array([int(f"{v:032b}"[::-1], 2) for v in x.tolist()], np.uint32)
    q = X << np.uint64(32) | Y
    r = q * np.uint64(0x9E3779B97F4A7C15)
    perm = []
    for a, b in zip(x.tolist(), y.tolist()):
        by = list(b.to_bytes(4, "little") + a.to_bytes(4, "little"))
        perm.append(by[7] | 0 << 8 | by[2] << 16 | by[5] << 24)
    want = [
        x + y, x - y, mul, (X * Y >> np.uint64(32)).astype(np.uint32),
        ((sx.astype(np.int64) * sy.astype(np.int64)) >> 32).astype(np.uint32), x << sh, x >> sh, (sx >> sh.astype(np.int32)).astype(np.uint32),
        x & ~y, (x & y) | (~x & mul), pop + clz + ctz, rev, np.where(sx < sy, x, y), np.maximum(x, y),
        (x >> 5 & 0x7F) + ((y << np.uint32(9)).astype(np.int32) >> 20).astype(np.uint32), (x << np.uint32(7) | x >> np.uint32(25)) ^ (y >> 8 & 0xFF),
        (r >> np.uint64(32)).astype(np.uint32), (q >> (X & np.uint64(63))).astype(np.uint32),
        (q.astype(np.int64) >> (Y & np.uint64(63)).astype(np.int64)).astype(np.uint32), ((q << (X & np.uint64(63))) >> np.uint64(32)).astype(np.uint32),
        (q < r) * 1 + (q.astype(np.int64) < r.astype(np.int64)) * 2 + (q == r) * 4, np.array(perm), x * np.uint32(3) + y < x,
        (q >> np.uint64(13)).astype(np.uint32),
    ]
    got = k.run("arith", "int_ops", n // 64, 64, [x, y, Out((n, 24), np.uint32)])
    for i, w in enumerate(want):
        bad = np.nonzero(got[:, i] != w.astype(np.uint32))[0]
        assert not len(bad), f"result {i}: x={x[bad[0]]:#x} y={y[bad[0]]:#x}: {got[bad[0], i]:#x}, expected {int(w[bad[0]]):#x}"


def test_divide(k):
    n = 256
    x, b = u32s(n), u32s(n)[rng.permutation(n)]
    got = k.run("arith", "divide", n // 64, 64, [x, b, Out((n, 8), np.uint32)])
    m32 = 2**32 - 1

    def sgn(v, bits):
        return v - (1 << bits) if v >> (bits - 1) else v

    def tdiv(p, q):
        r = abs(p) // abs(q)
        return -r if (p < 0) != (q < 0) else r

    for i in range(n):
        X, y = int(x[i]), int(b[i]) | 1
        sx, sy = sgn(X, 32), sgn(y >> 3 | 1, 32)
        q, d = X << 32 | int(b[i]), (y << (y & 31) | 1) & (2**64 - 1)
        sq, sd = sgn(q, 64), d >> 1 | 1
        want = [X // y, X % y, tdiv(sx, sy), sx - sy * tdiv(sx, sy), q // d, q // d >> 32, q % d, tdiv(sq, sd)]
        assert got[i].tolist() == [w & m32 for w in want], (X, y)


def fma32(a, b, c):
    """Correctly rounded a * b + c: exact rationals."""
    from fractions import Fraction

    out = np.empty(len(a), np.float32)
    for i, (x, y, z) in enumerate(zip(a, b, c)):
        if not (np.isfinite(x) and np.isfinite(y) and np.isfinite(z)):
            with np.errstate(all="ignore"):
                out[i] = np.float32(np.float64(x) * np.float64(y) + np.float64(z))
            continue
        f = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
        out[i] = round_f32(f) if f else np.float32(np.float64(x) * np.float64(y) + np.float64(z))
    return out


def round_f32(f):
    import math

    s, f = (-1 if f < 0 else 1), abs(f)
    e = math.frexp(float(f) if f < 2**1000 else 1.0)[1] if float(f) else -200
    while f >= 2**e:
        e += 1
    while f < 2 ** (e - 1) if e > 0 else f * 2 ** (1 - e) < 1:
        e -= 1
    u = max(e - 24, -149)
    n = f / 2**u if u >= 0 else f * 2**-u
    q, r = divmod(n.numerator, n.denominator)
    half = 2 * r - n.denominator
    q += half > 0 or (half == 0 and q & 1)
    return np.float32(s * math.ldexp(q, u)) if q < 2**24 or u + 24 < 128 else np.float32(s * np.inf)


@np.errstate(all="ignore")
def test_f32_ops(k):
    n = 1024
    x, y = f32s(n), f32s(n)[rng.permutation(n)]
    got = k.run("arith", "f32_ops", n // 64, 64, [x, y, Out((n, 16), np.float32)])
    same(got[:, 0], x + y)
    same(got[:, 1], x - y)
    same(got[:, 2], x * y)
    same(got[:, 4], fma32(x, y, x))
    same(got[:, 6], np.floor(x))
    same(got[:, 7], np.ceil(y))
    same(got[:, 8], np.trunc(x))
    same(got[:, 9], np.rint(y))
    same(got[:, 12], np.where(x < y, x, -y))
    for i, w in ((10, np.fmin(x, y)), (11, np.fmax(x, -y))):
        assert ((got[:, i] == w) | (np.isnan(got[:, i]) & np.isnan(w))).all()
    same(got[:, 15], x * np.float32(8) - np.float32(0.5) * y)
    xi, yu = np.where((x < 1e9) & (x > -1e9), x, 0).astype(np.int32), np.where((y > 0) & (y < 4e9), y, 0).astype(np.uint32)
    same(got[:, 13], xi.astype(np.float32) + yu.astype(np.float32))
    same(got[:, 14], x.view(np.int32).astype(np.float32) + y.view(np.uint32).astype(np.float32))
    # Division and square root: the compiler's expansions are correctly rounded.
    same(got[:, 3], x / y)
    same(got[:, 5], np.sqrt(np.abs(x)))


@np.errstate(all="ignore")
def test_f64_ops(k):
    n = 512
    x = rng.standard_normal(n) * 10.0 ** rng.integers(-200, 200, n)
    y = rng.standard_normal(n) * 10.0 ** rng.integers(-100, 100, n)
    x[:10] = [0, -0.0, 1, 2.5, -3.5, np.inf, -np.inf, np.nan, 1e-310, 4.5]
    y[:10] = [1, 0, -0.5, 3, 1e-320, 2, 0, 1, 3, np.inf]
    got = k.run("arith", "f64_ops", n // 64, 64, [x, y, Out((n, 10), np.float64)])
    same(got[:, 0], x + y)
    same(got[:, 1], x * y)
    same(got[:, 2], x / y)
    same(got[:, 4], np.sqrt(np.abs(x)))
    same(got[:, 5], np.floor(x) + np.rint(y))
    same(got[:, 6], np.where(x < y, x, y))
    same(got[:, 7], x.astype(np.float32).astype(np.float64))
    same(got[:, 8], np.where((x < 1e9) & (x > -1e9), x, 0).astype(np.int32).astype(np.float64))
    same(got[:, 9], (np.where((x < 1e15) & (x > -1e15), x, 0) * 4).astype(np.int64).astype(np.float64))


def f16s(n):
    a = rng.integers(0, 65536, n, dtype=np.uint32).astype(np.uint16).view(np.float16)
    return a


@np.errstate(all="ignore")
def test_f16_ops(k):
    n = 2048
    x, y = f16s(n), f16s(n)
    got = k.run("arith", "f16_ops", n // 64, 64, [x, y, Out((n, 10), np.float16)])
    X, Y = x.astype(np.float64), y.astype(np.float64)
    same(got[:, 0], (X + Y).astype(np.float16))
    same(got[:, 1], (X - Y).astype(np.float16))
    same(got[:, 2], (X * Y).astype(np.float16))
    same(got[:, 4], np.where(x < y, x, y))
    same(got[:, 5], (x.astype(np.float32) * y.astype(np.float32) + np.float32(1)).astype(np.float16))
    same(got[:, 6], np.where((x > -1000) & (x < 1000), x, 0).astype(np.int16).astype(np.float16))
    same(got[:, 7], -x)
    same(got[:, 8], np.abs(y))
    same(got[:, 9], (X / Y).astype(np.float16))
    # fma: X * Y is exact in double; adding X is not always, so allow only cases where it is.
    p = X * Y
    s = p + X
    exact = np.isfinite(s) & (s - p == X) & (s - X == p)
    same(got[exact, 3], s[exact].astype(np.float16))


@np.errstate(all="ignore")
def test_packed(k):
    n = 512
    x, y = f16s(2 * n).reshape(n, 2), f16s(2 * n).reshape(n, 2)
    c, d = rng.integers(-32768, 32768, (2, n, 2)).astype(np.int16)
    h, q = k.run("arith", "packed", n // 64, 64, [x, y, Out((n, 4, 2), np.float16), c, d, Out((n, 5, 2), np.int16)])
    X, Y = x.astype(np.float64), y.astype(np.float64)
    same(h[:, 0], (X + Y).astype(np.float16))
    same(h[:, 1], (X * Y).astype(np.float16))
    Z = X[:, ::-1]
    s = X * Y + Z
    exact = np.isfinite(s) & (s - X * Y == Z) & (s - Z == X * Y)
    same(h[:, 2][exact], s[exact].astype(np.float16))
    w = np.fmax(x, -y)
    assert ((h[:, 3] == w) | (np.isnan(h[:, 3]) & np.isnan(w))).all()
    assert (q[:, 0] == c + d).all() and (q[:, 1] == c - d[:, ::-1]).all() and (q[:, 2] == c * d).all()
    assert (q[:, 3] == np.minimum(c, d)).all() and (q[:, 4] == c >> (d & 15)).all()


def test_mix(k):
    n = 256
    a, b = (rng.standard_normal((2, n, 2)) * 3).astype(np.float16)
    c = rng.standard_normal(n).astype(np.float32)
    o, p = k.run("arith", "mix", n // 64, 64, [a, b, c, Out(n, np.float32), Out(n, np.float16)])
    s = fma32(a[:, 0].astype(np.float32), b[:, 0].astype(np.float32), c)
    s = fma32(a[:, 1].astype(np.float32), -b[:, 1].astype(np.float32), s)
    same(o, s)
    same(p, fma32(a[:, 0].astype(np.float32), c, s).astype(np.float16))


def test_narrow(k):
    n = 256
    a, c = rng.integers(0, 256, n).astype(np.uint8), rng.integers(0, 65536, n).astype(np.uint16)
    b, d = rng.integers(-128, 128, n).astype(np.int8), rng.integers(-32768, 32768, n).astype(np.int16)
    o, p, q = k.run("arith", "narrow", n // 64, 64, [a, b, c, d, Out(n, np.uint32), Out(n, np.uint8), Out(n, np.uint16)])
    assert (o == (a.astype(np.int64) + b.astype(np.int64) * 3 + c.astype(np.int64) * 5 + d.astype(np.int64) * 7).astype(np.uint32)).all()
    assert (p == (a + b.astype(np.uint8)).astype(np.uint8)).all() and (q == (c - d.astype(np.uint16)).astype(np.uint16)).all()


def test_special(k):
    n = 512
    x = (rng.standard_normal(n) * 8).astype(np.float32)
    g = k.run("arith", "special", n // 64, 64, [x, Out((n, 8), np.float32)]).astype(np.float64)
    y = (np.abs(x) + np.float32(1e-3)).astype(np.float64)
    X = x.astype(np.float64)
    for i, w in enumerate([1 / y, y**-0.5, y**0.5, 2**X, np.log2(y)]):
        assert np.allclose(g[:, i], w, rtol=2e-7, atol=1e-7 if i == 4 else 0), i
    assert np.allclose(g[:, 5], np.sin(2 * np.pi * X), atol=2e-6) and np.allclose(g[:, 6], np.cos(2 * np.pi * X), atol=2e-6)
    assert np.allclose(g[:, 7], X - np.floor(X), atol=1e-6)


def test_divergence(k):
    a = u32s(256)
    want = []
    for i, v in enumerate(a.tolist()):
        x, n = v % 1000 + 1, 0
        while x != 1 and n < 500:
            x = 3 * x + 1 if x & 1 else x >> 1
            if n == 7 and (i & 3) == 1:
                n += 3
            n += 1
        m = i % 5
        if m == 0:
            n *= 2
        elif m == 1:
            n += 100
        elif m == 2:
            n = n if n > 20 else 5
        else:
            n ^= 0x55
        want.append(n)
    assert k.run("arith", "divergence", 4, 64, [a, Out(256, np.uint32)]).tolist() == want


def test_grid3d(k):
    nx, ny, nz = 10, 7, 6
    got = k.run("arith", "grid3d", (3, 3, 3), (4, 3, 2), [Out((nz, ny, nx), np.uint32), U32(nx), U32(ny)])
    z, y, x = np.mgrid[:nz, :ny, :nx]
    assert (got == x + 100 * y + 10000 * z).all()


def test_calls(k):
    a = u32s(64)
    i = np.arange(64, dtype=np.uint32)
    got = k.run("arith", "calls", 2, 32, [a, Out((64, 2), np.uint32)])
    assert (got[:, 0] == np.where(a & 1, a ^ 9 * i, a + 7 * i)).all()
    assert got[:, 1].tolist() == [[0, 1, 1, 2, 3, 5, 8, 13][j % 8] for j in range(64)]


def test_scratch(k):
    a, n = u32s(64), 40
    want = []
    for i in range(64):
        t = [(q * q + i) & 0xFFFFFFFF for q in range(32)]
        for q in range(n):
            j = int(a[(i * 7 + q) & 63]) & 31
            m = (j * 5 + 3) & 31
            v = t[j]
            t[j] = t[m] + q
            t[m] = v
        s = 0
        for q in t:
            s = (s * 31 + q) & 0xFFFFFFFF
        want.append(s)
    assert k.run("arith", "scratch", 1, 64, [a, Out(64, np.uint32), U32(n)]).tolist() == want


def test_globals(k, hip):
    lut = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3]
    m = hip.module(simhip.build(KERNELS / "arith.c", k.out_dir, k.opt))
    f = hip.function(m, "globals")
    p, n, o = ctypes.c_void_p(), ctypes.c_size_t(), hip.malloc(256)
    hip.check(hip.lib.hipModuleGetGlobal(ctypes.byref(p), ctypes.byref(n), m, b"zeroed"))
    assert n.value == 256
    for turn in (1, 2):
        hip.check(hip.launch(f, 1, 64, [o]))
        got = hip.download(o, 64, np.uint32)
        assert got.tolist() == [[10, 20, 30, 40][i & 3] + lut[i & 15] + 30 + turn * i for i in range(64)]
    assert hip.download(p.value, 64, np.uint32).tolist() == [2 * i for i in range(64)]
    hip.check(hip.lib.hipModuleUnload(m))


def test_dpp_sum(k):
    a = rng.integers(-50, 50, 128).astype(np.float32)
    w = a.reshape(4, 32)
    want = np.repeat(w.sum(1) + 100 * w.max(1), 32)
    assert (k.run("waves", "dpp_sum", 4, 32, [a, Out(128, np.float32)]) == want).all()


def test_dpp_all(k):
    a = rng.integers(-1000, 1000, 32).astype(np.int32)
    g = k.run("waves", "dpp_all", 1, 32, [a, Out((32, 12), np.int32)])
    L = range(32)
    row = lambda l: l & 16
    assert g[:, 0].tolist() == [a[l + 3] if (l & 15) + 3 < 16 else -1 for l in L]
    assert g[:, 1].tolist() == [a[l - 2] if (l & 15) >= 2 else 0 for l in L]
    assert g[:, 2].tolist() == [a[row(l) + ((l - 5) & 15)] for l in L]
    assert g[:, 3].tolist() == [a[row(l) + 15 - (l & 15)] for l in L]
    assert g[:, 4].tolist() == [a[(l & 24) + 7 - (l & 7)] for l in L]
    assert g[:, 5].tolist() == [a[(l & 28) + 3 - (l & 3)] for l in L]
    assert g[:, 6].tolist() == [a[row(l) + 3] for l in L]
    assert g[:, 7].tolist() == [a[l - 1] if l < 16 and (l >> 2) in (0, 2) and l & 15 else -1 for l in L]
    sel8 = [0xFAC688 >> 3 * i & 7 for i in range(8)]
    assert g[:, 8].tolist() == [a[(l & 24) + sel8[l & 7]] for l in L]
    sel = 0xBA98FEDC << 32 | 0x32107654
    assert g[:, 9].tolist() == [a[row(l) + (sel >> 4 * (l & 15) & 15)] for l in L]
    ballot = int(sum(1 << l for l in L if a[l] > 0))
    assert (g[:, 10].astype(np.uint32) == ballot).all() and (g[:, 11] == a[5] + a[0]).all()


def test_shuffles(k):
    a = rng.integers(-1000, 1000, 32).astype(np.int32)
    g = k.run("waves", "shuffles", 1, 32, [a, Out((32, 5), np.int32)])
    L = range(32)
    assert g[:, 0].tolist() == [a[l * 7 & 31] for l in L]
    back = {l * 5 & 31: l for l in L}
    assert g[:, 1].tolist() == [a[back[l]] for l in L]
    assert g[:, 2].tolist() == [a[l ^ 16] for l in L]
    assert g[:, 3].tolist() == [a[(l & 28) + 3 - (l & 3)] for l in L]
    assert g[:, 4].tolist() == [3 + bin(0x55555555 & ((1 << l) - 1)).count("1") for l in L]


def test_lds_sum(k):
    a = rng.integers(-50, 50, 1024).astype(np.float32)
    assert (k.run("waves", "lds_sum", 4, 256, [a, Out(4, np.float32)]) == a.reshape(4, 256).sum(1)).all()


def test_rmsnorm(k):
    x, w = rng.standard_normal((3, 1000)).astype(np.float32), rng.standard_normal(1000).astype(np.float32)
    got = k.run("waves", "rmsnorm", 3, 256, [x, w, Out((3, 1000), np.float32), I32(1000), F32(1e-5)])
    X = x.astype(np.float64)
    assert np.allclose(got, X / np.sqrt((X**2).mean(1, keepdims=True) + 1e-5) * w, rtol=1e-5, atol=1e-6)


def test_lds_widths(k):
    a = rng.integers(0, 100, (64, 4)).astype(np.float32)
    o, p = k.run("waves", "lds_widths", 1, 64, [a, Out((64, 4), np.float32), Out(64, np.uint8)])
    d = a.reshape(128, 2)
    i = np.arange(64)
    assert (o[:, :2] == a[63 - i][:, :2] + d[127 - i]).all() and (o[:, 2:] == a[63 - i][:, 2:] + d[i]).all()
    assert (p == ((i * 5 & 63) * 3 & 255)).all()


def test_dyn_lds(k):
    a = u32s(500)
    assert (k.run("waves", "dyn_lds", 1, 64, [a, Out(500, np.uint32), U32(500)], lds=2000) == a[::-1]).all()


def test_histogram(k):
    a = u32s(3000)
    got = k.run("waves", "histogram", 4, 256, [a, inout(np.zeros(64, np.uint32)), U32(3000)])
    assert (got == np.bincount(a & 63, minlength=64)).all()


def test_atomics(k):
    n = 256
    i = np.arange(n, dtype=np.uint32)
    m, q, f, old = k.run("waves", "atomics", 4, 64, [inout(np.array([0, 0, 0, 0, 0xFFFFFFFF, 0, 0, 0], np.uint32)), inout(np.zeros(1, np.uint64)),
                                                    inout(np.zeros(1, np.float32)), Out(n, np.uint32)])
    assert m[0] == (i * 37 % 101).max() and m[1].astype(np.int32) == (i * 37 % 101).astype(np.int32).min() - 50
    assert m[2] == 0xFFFFFFFF and m[3] == np.bitwise_xor.reduce(i * np.uint32(0x01010101)) and m[4] == 0xFFFFFF00
    assert m[5] == n and sorted(old.tolist()) == list(range(n)) and m[6] == i.sum()
    assert q[0] == int(i.sum()) << 20 and f[0] == n / 2


def test_last_group(k):
    a = rng.integers(-50, 50, 16 * 128).astype(np.float32)
    _, o, t = k.run("waves", "last_group", 16, 128, [a, Out(16, np.float32), Out(1, np.float32), inout(np.zeros(1, np.uint32)), U32(16)])
    assert o[0] == a.sum() and t[0] == 16


def test_grid_barrier(k):
    groups, rounds, n = 24, 7, 24 * 64
    a = u32s(n)
    x = a.copy()
    for _ in range(rounds):
        x = np.roll(x, -64) + np.roll(x, 64)
    ga, gb, cnt = k.run("waves", "grid_barrier", groups, 64, [inout(a), Out(n, np.uint32), inout(np.zeros(1, np.uint32)), U32(groups), U32(rounds)], coop=True)
    assert (gb == x).all() and cnt[0] == groups * rounds


def test_gemv(k):
    rows, blocks = 8, 70
    w = rng.integers(-127, 128, (rows, blocks, 32)).astype(np.int8)
    x = rng.integers(-127, 128, (blocks, 32)).astype(np.int8)
    ws, xs = rng.random((rows, blocks)).astype(np.float32), rng.random(blocks).astype(np.float32)
    got = k.run("matrix", "gemv_q8", rows // 4, 128, [w, ws, x, xs, Out(rows, np.float32), U32(blocks)])
    want = np.einsum("rb,b,rbk,bk->r", ws.astype(np.float64), xs, w, x)
    assert np.allclose(got, want, rtol=1e-5)
    q = rng.integers(0, 16, (rows, blocks, 32)).astype(np.uint8)
    pack = (q[..., :16] | q[..., 16:] << 4).astype(np.uint8)
    got = k.run("matrix", "gemv_q4", rows // 4, 128, [pack, ws, x, xs, Out(rows, np.float32), U32(blocks)])
    want = np.einsum("rb,b,rbk,bk->r", ws.astype(np.float64), xs, q.astype(np.float64) - 8, x)
    assert np.allclose(got, want, rtol=1e-4, atol=1e-2)


def test_wmma_int(k):
    K = 64
    a, b = rng.integers(-128, 128, (2, 16, K)).astype(np.int8)
    got = k.run("matrix", "wmma_iu8", 1, 32, [a, b, Out((16, 16), np.int32), I32(K)])
    assert (got == a.astype(np.int32) @ b.T.astype(np.int32)).all()
    a, b = rng.integers(0, 16, (16, K)), rng.integers(-8, 8, (16, K))
    pack = lambda v: ((v[:, ::2] & 15) | (v[:, 1::2] & 15) << 4).astype(np.uint8)
    got = k.run("matrix", "wmma_iu4", 1, 32, [pack(a), pack(b), Out((16, 16), np.int32), I32(K)])
    assert (got == a @ b.T).all()


def fp8(v):
    """E4M3 bytes as floats."""
    v = np.asarray(v, np.uint8).astype(np.int32)
    e, m = v >> 3 & 15, v & 7
    x = np.where(e == 0, m * 2.0**-9, (8 + m) * 2.0 ** (e - 10))
    x = np.where((e == 15) & (m == 7), np.nan, x)
    return np.where(v & 128, -x, x)


def bf8(v):
    return (np.asarray(v, np.uint8).astype(np.uint16) << 8).view(np.float16).astype(np.float64)


def test_wmma_float(k):
    K = 32
    a, b = rng.standard_normal((2, 16, K))
    ah, bh = a.astype(np.float16), b.astype(np.float16)
    got = k.run("matrix", "wmma_f16", 1, 32, [ah, bh, Out((16, 16), np.float32), I32(K)])
    assert np.allclose(got, ah.astype(np.float64) @ bh.T.astype(np.float64), rtol=1e-5, atol=1e-5)
    got = k.run("matrix", "wmma_h16", 1, 32, [ah, bh, Out((16, 16), np.float16), I32(K)])
    assert np.allclose(got, ah.astype(np.float64) @ bh.T.astype(np.float64), rtol=5e-3, atol=5e-3)
    ab, bb = (v.astype(np.float32).view(np.uint32) >> 16 for v in (a, b))
    val = lambda v: (v << np.uint32(16)).view(np.float32).astype(np.float64)
    got = k.run("matrix", "wmma_bf16", 1, 32, [ab.astype(np.uint16), bb.astype(np.uint16), Out((16, 16), np.float32), I32(K)])
    assert np.allclose(got, val(ab) @ val(bb).T, rtol=1e-5, atol=1e-5)
    a8, b8 = (np.delete(np.arange(256), [127, 255])[rng.integers(0, 254, (2, 16, K))]).astype(np.uint8)
    got = k.run("matrix", "wmma_fp8", 1, 32, [a8, b8, Out((16, 16), np.float32), I32(K)])
    assert np.allclose(got, fp8(a8) @ fp8(b8).T, rtol=1e-5, atol=1e-3)


def test_attention(k):
    heads, n = 3, 37
    q = rng.standard_normal((heads, 64)).astype(np.float32)
    kc, vc = rng.standard_normal((2, heads, n, 64)).astype(np.float16)
    got = k.run("matrix", "attention", heads, 32, [q, kc, vc, Out((heads, 64), np.float32), U32(n), F32(0.125)])
    s = np.einsum("hd,hnd->hn", q.astype(np.float64), kc.astype(np.float64)) * 0.125
    p = np.exp(s - s.max(1, keepdims=True))
    assert np.allclose(got, np.einsum("hn,hnd->hd", p / p.sum(1, keepdims=True), vc.astype(np.float64)), rtol=1e-4, atol=1e-5)


def test_dot_float(k):
    n = 256
    ok = np.delete(np.arange(256), [127, 255])[rng.integers(0, 254, (n, 4))].astype(np.uint8)
    ok8 = np.array([v for v in range(256) if v & 0x7C != 0x7C])[rng.integers(0, 248, (n, 4))].astype(np.uint8)
    b = np.delete(np.arange(256), [127, 255])[rng.integers(0, 254, (n, 4))].astype(np.uint8)
    c = rng.standard_normal(n).astype(np.float32)
    g = k.run("matrix", "dot_float", n // 64, 64, [ok, b, c, Out((n, 3), np.float32)])
    assert np.allclose(g[:, 0], (fp8(ok) * fp8(b)).sum(1) + c, rtol=1e-4, atol=1e-2)
    g = k.run("matrix", "dot_float", n // 64, 64, [ok, ok8, c, Out((n, 3), np.float32)])
    scale = np.abs(fp8(ok) * bf8(ok8)).sum(1)
    assert (np.abs(g[:, 1] - ((fp8(ok) * bf8(ok8)).sum(1) + c)) <= 1e-6 * scale + 1e-5).all()
    assert np.allclose(g[:, 2], fp8(ok[:, 2]) + bf8(ok8[:, 1]))
