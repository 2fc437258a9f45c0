"""Operations of gfx1201 one at a time: a kernel in assembly for each, and what AMD's pseudocode (RDNA4 instruction set
architecture, section "Instructions") says that it does, written again in Python on the bits of one lane.

An operation is (text, reference). In the text {d} is the destination (v8, v[8:9] for 64 bits), {a} {b} {c} the sources, D64, A64,
B64, C64 in the flags make them pairs. The reference gets the sources' bits, the destination's old value and the lane's bit of the
mask operand, and returns the destination's bits, or (bits, mask bit)."""
import math
import struct
from fractions import Fraction

import simasm

M32, M64 = 2**32 - 1, 2**64 - 1


def s32(x):
    return x - 2**32 if x >> 31 else x


def s64(x):
    return x - 2**64 if x >> 63 else x


def s16(x):
    x &= 0xFFFF
    return x - 65536 if x >> 15 else x


def s24(x):
    x &= 0xFFFFFF
    return x - 2**24 if x >> 23 else x


def f32(b):
    return struct.unpack("<f", struct.pack("<I", b & M32))[0]


def f64(b):
    return struct.unpack("<d", struct.pack("<Q", b & M64))[0]


def f16(b):
    return struct.unpack("<e", struct.pack("<H", b & 0xFFFF))[0]


FORMATS = {16: (11, -14, 15), 32: (24, -126, 127), 64: (53, -1022, 1023)}


def to_bits(x, size, mode=0, neg_zero=False, flush=False):
    """Bits of the exact value x (Fraction, or a float that is inf or nan) rounded once. mode: 0 even, 1 up, 2 down, 3 zero."""
    p, emin, emax = FORMATS[size]
    sign_bit, exp_all = 1 << (size - 1), (2 ** (size - p) - 1) << (p - 1)
    if isinstance(x, float):
        if math.isnan(x):
            return exp_all | 1 << (p - 2)
        if math.isinf(x):
            return exp_all | (sign_bit if x < 0 else 0)
        neg_zero = neg_zero or (x == 0 and math.copysign(1, x) < 0)
        x = Fraction(x)
    if x == 0:
        return sign_bit if neg_zero else 0
    s, m = (sign_bit, -x) if x < 0 else (0, x)
    e = m.numerator.bit_length() - m.denominator.bit_length()
    if m < Fraction(2) ** e:
        e -= 1
    ulp = max(e, emin) - (p - 1)
    q = m / Fraction(2) ** ulp
    n, r = divmod(q.numerator, q.denominator)
    up = {0: 2 * r > q.denominator or (2 * r == q.denominator and n & 1), 1: r and not s, 2: r and s, 3: False}[mode]
    n += bool(up)
    if n >= 2**p:
        n, ulp = n // 2, ulp + 1
    top = ulp + p - 1
    if top > emax:
        biggest = exp_all - 1
        return s | (biggest if mode == 3 or (mode == 1 and s) or (mode == 2 and not s) else exp_all)
    if n < 2 ** (p - 1):
        return s if flush else s | n
    return s | (top + emax) << (p - 1) | (n - 2 ** (p - 1))


def val(b, size):
    return {16: f16, 32: f32, 64: f64}[size](b)


def finite(*xs):
    return all(math.isfinite(x) for x in xs)


def fp(op, size):
    """A reference for float operations: exact where all sources are finite, else by Python's floats."""

    def ref(*bits, mode=0):
        xs = [val(b, size) for b in bits]
        if op == "add":
            if finite(*xs):
                r = Fraction(xs[0]) + Fraction(xs[1])
                nz = (xs[0] == 0 and xs[1] == 0 and math.copysign(1, xs[0]) == math.copysign(1, xs[1]) == -1) or (
                    r == 0 and mode == 2 and not (xs[0] == xs[1] == 0 and math.copysign(1, xs[0]) == math.copysign(1, xs[1])))
                return to_bits(r, size, mode, nz)
            return to_bits(xs[0] + xs[1], size)
        if op == "mul":
            neg = math.copysign(1, xs[0]) * math.copysign(1, xs[1]) < 0
            if finite(*xs[:2]):
                return to_bits(Fraction(xs[0]) * Fraction(xs[1]), size, mode, neg)
            return to_bits(xs[0] * xs[1], size)
        if op == "fma":
            if finite(*xs):
                p, c = Fraction(xs[0]) * Fraction(xs[1]), Fraction(xs[2])
                pn = math.copysign(1, xs[0]) * math.copysign(1, xs[1]) < 0
                cn = math.copysign(1, xs[2]) < 0
                if p == 0 and c == 0:
                    nz = (pn and cn) or (mode == 2 and (pn or cn))
                else:
                    nz = mode == 2
                return to_bits(p + c, size, mode, nz)
            if finite(xs[0], xs[1]):
                return to_bits(xs[2], size)
            return to_bits(xs[0] * xs[1] + xs[2], size)
        raise KeyError(op)

    return ref


def quiet(b, size):
    return b | 1 << (FORMATS[size][0] - 2)


def mnum(size, largest, strict=False):
    def ref(a, b):
        x, y = val(a, size), val(b, size)
        if math.isnan(x) or math.isnan(y):
            if strict or (math.isnan(x) and math.isnan(y)):
                return quiet(a if math.isnan(x) else b, size)
            return b if math.isnan(x) else a
        sa = a >> (size - 1)
        if largest:
            return a if x > y or (x == y and not sa) else b
        return a if x < y or (x == y and sa) else b

    return ref


def clz(x, n=32):
    return n - x.bit_length() if x else M32


def to_int(x, lo, hi):
    return 0 if math.isnan(x) else lo if x < lo else hi if x > hi else int(x)


def rndne(b, size):
    x = val(b, size)
    return quiet(b, size) if math.isnan(x) else to_bits(math.copysign(float(round(x)), x), size) if finite(x) else b


def integral(fn, size):
    def ref(a):
        x = val(a, size)
        if not math.isfinite(x):
            return quiet(a, size) if math.isnan(x) else a
        return to_bits(math.copysign(float(abs(fn(x))), x), size)

    return ref


def byte(x, k):
    return x >> 8 * k & 255


def perm(a, b, c):
    data, r = a << 32 | b, 0
    for k in range(4):
        s = byte(c, k)
        v = 255 if s >= 13 else 0 if s == 12 else 255 * (data >> (16 * (s - 8) + 15) & 1) if s >= 8 else byte(data, s)
        r |= v << 8 * k
    return r


def dot(n, bits, sa, sb, clamp=False):
    def get(x, k, sg):
        v = x >> bits * k & (1 << bits) - 1
        return v - (1 << bits) if sg and v >> (bits - 1) else v

    def ref(a, b, c):
        t = s32(c) if sa or sb or clamp != "u" else c
        t += sum(get(a, k, sa) * get(b, k, sb) for k in range(n))
        if clamp is True:
            t = max(-(2**31), min(2**31 - 1, t))
        return t & M32

    return ref


def sat(x, lo, hi):
    return max(lo, min(hi, x))


def cls(size):
    p = FORMATS[size][0]

    def ref(a, b):
        e, m, s = a >> (p - 1) & (1 << (size - p)) - 1, a & (1 << (p - 1)) - 1, a >> (size - 1)
        if e == (1 << (size - p)) - 1:
            k = (1 if m >> (p - 2) else 0) if m else (2 if s else 9)
        elif e:
            k = 3 if s else 8
        else:
            k = (4 if s else 7) if m else (5 if s else 6)
        return b >> k & 1

    return ref


def lo(f):
    """A 16-bit result in the low half; the high half of the destination stays."""
    return lambda a, b=0, c=0, old=0: old & 0xFFFF0000 | f(a & 0xFFFF, b & 0xFFFF, c & 0xFFFF) & 0xFFFF


def pk(f):
    return lambda a, b, c=0: f(a & 0xFFFF, b & 0xFFFF, c & 0xFFFF) & 0xFFFF | (f(a >> 16, b >> 16, c >> 16) & 0xFFFF) << 16


def frexp_exp(size):
    def ref(a):
        x = val(a, size)
        return math.frexp(x)[1] & (0xFFFF if size == 16 else M32) if math.isfinite(x) and x else 0

    return ref


def frexp_mant(size):
    def ref(a):
        x = val(a, size)
        return to_bits(math.frexp(x)[0], size) if math.isfinite(x) and x else quiet(a, size) if math.isnan(x) else a

    return ref


def ldexp(size):
    def ref(a, b):
        x = val(a, size)
        n = sat(s16(b) if size == 16 else s32(b), -5000, 5000)
        return to_bits(Fraction(x) * Fraction(2) ** n, size, 0, a >> (size - 1) == 1) if math.isfinite(x) else quiet(a, size) if math.isnan(x) else a

    return ref


V3 = "{d}, {a}, {b}, {c}"
V2 = "{d}, {a}, {b}"
V1 = "{d}, {a}"
i32ops = {
    "v_mov_b32": (V1, lambda a: a),
    "v_not_b32": (V1, lambda a: ~a),
    "v_bfrev_b32": (V1, lambda a: int(f"{a:032b}"[::-1], 2)),
    "v_clz_i32_u32": (V1, clz),
    "v_ctz_i32_b32": (V1, lambda a: (a & -a).bit_length() - 1 if a else M32),
    "v_cls_i32": (V1, lambda a: clz(a ^ (M32 if a >> 31 else 0))),
    "v_and_b32": (V2, lambda a, b: a & b),
    "v_or_b32": (V2, lambda a, b: a | b),
    "v_xor_b32": (V2, lambda a, b: a ^ b),
    "v_xnor_b32": (V2, lambda a, b: ~(a ^ b)),
    "v_add_nc_u32": (V2, lambda a, b: a + b),
    "v_sub_nc_u32": (V2, lambda a, b: a - b),
    "v_subrev_nc_u32": (V2, lambda a, b: b - a),
    "v_add_nc_u32 clamp": (V2, lambda a, b: min(a + b, M32)),
    "v_sub_nc_u32 clamp": (V2, lambda a, b: max(a - b, 0)),
    "v_add_nc_i32 clamp": (V2, lambda a, b: sat(s32(a) + s32(b), -(2**31), 2**31 - 1)),
    "v_sub_nc_i32 clamp": (V2, lambda a, b: sat(s32(a) - s32(b), -(2**31), 2**31 - 1)),
    "v_mul_lo_u32": (V2, lambda a, b: a * b),
    "v_mul_hi_u32": (V2, lambda a, b: a * b >> 32),
    "v_mul_hi_i32": (V2, lambda a, b: s32(a) * s32(b) >> 32),
    "v_mul_u32_u24": (V2, lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF)),
    "v_mul_i32_i24": (V2, lambda a, b: s24(a) * s24(b)),
    "v_mul_hi_u32_u24": (V2, lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF) >> 32),
    "v_mul_hi_i32_i24": (V2, lambda a, b: s24(a) * s24(b) >> 32),
    "v_min_i32": (V2, lambda a, b: min(s32(a), s32(b))),
    "v_max_i32": (V2, lambda a, b: max(s32(a), s32(b))),
    "v_min_u32": (V2, min),
    "v_max_u32": (V2, max),
    "v_lshlrev_b32": (V2, lambda a, b: b << (a & 31)),
    "v_lshrrev_b32": (V2, lambda a, b: b >> (a & 31)),
    "v_ashrrev_i32": (V2, lambda a, b: s32(b) >> (a & 31)),
    "v_bfm_b32": (V2, lambda a, b: ((1 << (a & 31)) - 1) << (b & 31)),
    "v_bcnt_u32_b32": (V2, lambda a, b: bin(a).count("1") + b),
    "v_mad_u32_u24": (V3, lambda a, b, c: (a & 0xFFFFFF) * (b & 0xFFFFFF) + c),
    "v_mad_i32_i24": (V3, lambda a, b, c: s24(a) * s24(b) + c),
    "v_bfe_u32": (V3, lambda a, b, c: a >> (b & 31) & (1 << (c & 31)) - 1),
    "v_bfe_i32": (V3, lambda a, b, c: 0 if not c & 31 else (lambda v, n: v - (1 << n) if v >> (n - 1) & 1 else v)((s32(a) >> (b & 31)) & (1 << (c & 31)) - 1, c & 31)),
    "v_bfi_b32": (V3, lambda a, b, c: a & b | ~a & c),
    "v_alignbit_b32": (V3, lambda a, b, c: (a << 32 | b) >> (c & 31)),
    "v_alignbyte_b32": (V3, lambda a, b, c: (a << 32 | b) >> 8 * (c & 3)),
    "v_perm_b32": (V3, perm),
    "v_add3_u32": (V3, lambda a, b, c: a + b + c),
    "v_lshl_add_u32": (V3, lambda a, b, c: (a << (b & 31)) + c),
    "v_add_lshl_u32": (V3, lambda a, b, c: (a + b & M32) << (c & 31)),
    "v_lshl_or_b32": (V3, lambda a, b, c: a << (b & 31) | c),
    "v_and_or_b32": (V3, lambda a, b, c: a & b | c),
    "v_or3_b32": (V3, lambda a, b, c: a | b | c),
    "v_xor3_b32": (V3, lambda a, b, c: a ^ b ^ c),
    "v_xad_u32": (V3, lambda a, b, c: (a ^ b) + c),
    "v_min3_i32": (V3, lambda a, b, c: min(s32(a), s32(b), s32(c))),
    "v_max3_u32": (V3, max),
    "v_med3_i32": (V3, lambda a, b, c: sorted([s32(a), s32(b), s32(c)])[1]),
    "v_med3_u32": (V3, lambda a, b, c: sorted([a, b, c])[1]),
    "v_minmax_u32": (V3, lambda a, b, c: max(min(a, b), c)),
    "v_maxmin_i32": (V3, lambda a, b, c: min(max(s32(a), s32(b)), s32(c))),
    "v_sad_u8": (V3, lambda a, b, c: sum(abs(byte(a, k) - byte(b, k)) for k in range(4)) + c),
    "v_sad_u16": (V3, lambda a, b, c: abs((a & 0xFFFF) - (b & 0xFFFF)) + abs((a >> 16) - (b >> 16)) + c),
    "v_sad_u32": (V3, lambda a, b, c: abs(a - b) + c),
    "v_msad_u8": (V3, lambda a, b, c: sum(abs(byte(a, k) - byte(b, k)) for k in range(4) if byte(b, k)) + c),
    "v_lerp_u8": (V3, lambda a, b, c: sum((byte(a, k) + byte(b, k) + (c >> 8 * k & 1) >> 1) << 8 * k for k in range(4))),
    "v_dot4_i32_iu8 neg_lo:[1,1,0]": (V3, dot(4, 8, True, True)),
    "v_dot4_i32_iu8 neg_lo:[0,1,0]": (V3, dot(4, 8, False, True)),
    "v_dot4_i32_iu8 neg_lo:[1,1,0] clamp": (V3, dot(4, 8, True, True, True)),
    "v_dot4_u32_u8": (V3, dot(4, 8, False, False)),
    "v_dot8_i32_iu4 neg_lo:[1,1,0]": (V3, dot(8, 4, True, True)),
    "v_dot8_i32_iu4 neg_lo:[0,1,0]": (V3, dot(8, 4, False, True)),
    "v_dot8_u32_u4": (V3, dot(8, 4, False, False)),
    "v_cvt_pk_i16_i32": (V2, lambda a, b: sat(s32(a), -32768, 32767) & 0xFFFF | (sat(s32(b), -32768, 32767) & 0xFFFF) << 16),
    "v_cvt_pk_u16_u32": (V2, lambda a, b: min(a, 65535) | min(b, 65535) << 16),
    "v_cvt_f32_i32": (V1, lambda a: to_bits(Fraction(s32(a)), 32)),
    "v_cvt_f32_u32": (V1, lambda a: to_bits(Fraction(a), 32)),
    "v_cvt_f32_ubyte0": (V1, lambda a: to_bits(Fraction(byte(a, 0)), 32)),
    "v_cvt_f32_ubyte3": (V1, lambda a: to_bits(Fraction(byte(a, 3)), 32)),
    "v_cvt_off_f32_i4": (V1, lambda a: to_bits(Fraction(((a & 15) ^ 8) - 8, 16), 32)),
    "v_pk_add_u16": (V2, pk(lambda a, b, c: a + b)),
    "v_pk_add_i16 clamp": (V2, pk(lambda a, b, c: sat(s16(a) + s16(b), -32768, 32767))),
    "v_pk_sub_u16 clamp": (V2, pk(lambda a, b, c: max(a - b, 0))),
    "v_pk_mul_lo_u16": (V2, pk(lambda a, b, c: a * b)),
    "v_pk_mad_i16": (V3, pk(lambda a, b, c: a * b + c)),
    "v_pk_min_i16": (V2, pk(lambda a, b, c: min(s16(a), s16(b)))),
    "v_pk_max_u16": (V2, pk(lambda a, b, c: max(a, b))),
    "v_pk_lshlrev_b16": (V2, pk(lambda a, b, c: b << (a & 15))),
    "v_pk_ashrrev_i16": (V2, pk(lambda a, b, c: s16(b) >> (a & 15))),
    "v_pk_add_u16 op_sel:[1,0] op_sel_hi:[0,1]": (V2, lambda a, b: (a >> 16) + (b & 0xFFFF) & 0xFFFF | ((a & 0xFFFF) + (b >> 16) & 0xFFFF) << 16),
    "v_sat_pk_u8_i16": (V1, lambda a, old=0: old & 0xFFFF0000 | sat(s16(a), 0, 255) | sat(s16(a >> 16), 0, 255) << 8),
    "v_add_nc_u16": (V2, lo(lambda a, b, c: a + b)),
    "v_sub_nc_i16 clamp": (V2, lo(lambda a, b, c: sat(s16(a) - s16(b), -32768, 32767))),
    "v_mul_lo_u16": (V2, lo(lambda a, b, c: a * b)),
    "v_mad_u16": (V3, lo(lambda a, b, c: a * b + c)),
    "v_lshrrev_b16": (V2, lo(lambda a, b, c: b >> (a & 15))),
    "v_ashrrev_i16": (V2, lo(lambda a, b, c: s16(b) >> (a & 15))),
    "v_max_i16": (V2, lo(lambda a, b, c: max(s16(a), s16(b)))),
    "v_med3_i16": (V3, lo(lambda a, b, c: sorted([s16(a), s16(b), s16(c)])[1])),
    "v_mad_i32_i16": (V3, lambda a, b, c: s16(a) * s16(b) + c),
    "v_mad_u32_u16 op_sel:[1,1,0,0]": (V3, lambda a, b, c: (a >> 16) * (b >> 16) + c),
}
f32ops = {
    "v_min_num_f32": (V2, mnum(32, False)),
    "v_max_num_f32": (V2, mnum(32, True)),
    "v_minimum_f32": (V2, mnum(32, False, True)),
    "v_maximum_f32": (V2, mnum(32, True, True)),
    "v_min3_num_f32": (V3, lambda a, b, c: mnum(32, False)(mnum(32, False)(a, b), c)),
    "v_maximum3_f32": (V3, lambda a, b, c: mnum(32, True, True)(mnum(32, True, True)(a, b), c)),
    "v_maxmin_num_f32": (V3, lambda a, b, c: mnum(32, False)(mnum(32, True)(a, b), c)),
    "v_floor_f32": (V1, integral(math.floor, 32)),
    "v_ceil_f32": (V1, integral(math.ceil, 32)),
    "v_trunc_f32": (V1, integral(math.trunc, 32)),
    "v_rndne_f32": (V1, lambda a: rndne(a, 32)),
    "v_cvt_i32_f32": (V1, lambda a: to_int(f32(a), -(2**31), 2**31 - 1)),
    "v_cvt_u32_f32": (V1, lambda a: to_int(f32(a), 0, M32)),
    "v_cvt_floor_i32_f32": (V1, lambda a: to_int(math.floor(f32(a)) if finite(f32(a)) else f32(a), -(2**31), 2**31 - 1)),
    "v_cvt_f16_f32": (V1, lambda a, old=0: old & 0xFFFF0000 | (to_bits(Fraction(f32(a)), 16, 0, a >> 31 == 1) if finite(f32(a)) else to_bits(f32(a), 16))),
    "v_cvt_pk_rtz_f16_f32": (V2, lambda a, b: sum((to_bits(Fraction(f32(x)), 16, 3, x >> 31 == 1) if finite(f32(x)) else to_bits(f32(x), 16)) << k for x, k in ((a, 0), (b, 16)))),
    "v_frexp_exp_i32_f32": (V1, frexp_exp(32)),
    "v_frexp_mant_f32": (V1, frexp_mant(32)),
    "v_ldexp_f32": (V2, ldexp(32)),
    "v_cvt_pk_i16_f32": (V2, lambda a, b: to_int(f32(a), -32768, 32767) & 0xFFFF | (to_int(f32(b), -32768, 32767) & 0xFFFF) << 16),
    "v_cvt_pk_u8_f32": (V3, lambda a, b, c: c & ~(255 << 8 * (b & 3)) | to_int(f32(a), 0, 255) << 8 * (b & 3)),
}
fpops = {  # float operations that round: name, text, kind, size, sources
    "v_add_f32": (V2, "add", 32), "v_mul_f32": (V2, "mul", 32), "v_fma_f32": (V3, "fma", 32),
    "v_add_f16": (V2, "add", 16), "v_mul_f16": (V2, "mul", 16), "v_fma_f16": (V3, "fma", 16),
    "v_add_f64": (V2, "add", 64), "v_mul_f64": (V2, "mul", 64), "v_fma_f64": (V3, "fma", 64),
}
f16ops = {
    "v_min_num_f16": (V2, lo(lambda a, b, c: mnum(16, False)(a, b))),
    "v_maximum_f16": (V2, lo(lambda a, b, c: mnum(16, True, True)(a, b))),
    "v_floor_f16": (V1, lo(lambda a, b, c: integral(math.floor, 16)(a))),
    "v_rndne_f16": (V1, lo(lambda a, b, c: rndne(a, 16))),
    "v_cvt_f32_f16": (V1, lambda a: to_bits(f16(a), 32)),
    "v_cvt_i16_f16": (V1, lo(lambda a, b, c: to_int(f16(a), -32768, 32767))),
    "v_cvt_u16_f16": (V1, lo(lambda a, b, c: to_int(f16(a), 0, 65535))),
    "v_cvt_f16_u16": (V1, lo(lambda a, b, c: to_bits(Fraction(a), 16))),
    "v_cvt_f16_i16": (V1, lo(lambda a, b, c: to_bits(Fraction(s16(a)), 16))),
    "v_ldexp_f16": (V2, lo(lambda a, b, c: ldexp(16)(a, b))),
    "v_frexp_exp_i16_f16": (V1, lo(lambda a, b, c: frexp_exp(16)(a))),
    "v_pk_add_f16": (V2, pk(lambda a, b, c: fp("add", 16)(a, b))),
    "v_pk_mul_f16 neg_lo:[1,0] neg_hi:[0,1]": (V2, lambda a, b: fp("mul", 16)(a & 0xFFFF ^ 0x8000, b & 0xFFFF) | fp("mul", 16)(a >> 16, b >> 16 ^ 0x8000) << 16),
    "v_pk_fma_f16": (V3, pk(fp("fma", 16))),
    "v_pk_max_num_f16": (V2, pk(lambda a, b, c: mnum(16, True)(a, b))),
    "v_pack_b32_f16": (V2, lambda a, b: a & 0xFFFF | (b & 0xFFFF) << 16),
}
q64 = {  # 64-bit destinations; flags say which sources are pairs
    "v_lshlrev_b64": (V2, lambda a, b: b << (a & 63), "B"),
    "v_lshrrev_b64": (V2, lambda a, b: b >> (a & 63), "B"),
    "v_ashrrev_i64": (V2, lambda a, b: s64(b) >> (a & 63), "B"),
    "v_mad_co_u64_u32": ("{d}, null, {a}, {b}, {c}", lambda a, b, c: a * b + c, "C"),
    "v_mad_co_i64_i32": ("{d}, null, {a}, {b}, {c}", lambda a, b, c: s32(a) * s32(b) + s64(c), "C"),
    "v_cvt_f64_i32": (V1, lambda a: to_bits(Fraction(s32(a)), 64), ""),
    "v_cvt_f64_f32": (V1, lambda a: to_bits(f32(a), 64), ""),
    "v_min_num_f64": (V2, mnum(64, False), "AB"),
    "v_maximum_f64": (V2, mnum(64, True, True), "AB"),
    "v_floor_f64": (V1, integral(math.floor, 64), "A"),
    "v_rndne_f64": (V1, lambda a: rndne(a, 64), "A"),
    "v_ldexp_f64": (V2, ldexp(64), "A"),
    "v_frexp_mant_f64": (V1, frexp_mant(64), "A"),
}
from64 = {  # 32-bit destinations of 64-bit sources
    "v_cvt_i32_f64": (V1, lambda a: to_int(f64(a), -(2**31), 2**31 - 1), "A"),
    "v_cvt_u32_f64": (V1, lambda a: to_int(f64(a), 0, M32), "A"),
    "v_cvt_f32_f64": (V1, lambda a: to_bits(f64(a), 32) if not finite(f64(a)) else to_bits(Fraction(f64(a)), 32, 0, a >> 63 == 1), "A"),
    "v_frexp_exp_i32_f64": (V1, frexp_exp(64), "A"),
}
carry = {  # (result, mask bit); the mask operand in is vcc
    "v_add_co_u32": ("{d}, vcc_lo, {a}, {b}", lambda a, b, m: (a + b, a + b >> 32)),
    "v_sub_co_u32": ("{d}, vcc_lo, {a}, {b}", lambda a, b, m: (a - b, a < b)),
    "v_subrev_co_u32": ("{d}, vcc_lo, {a}, {b}", lambda a, b, m: (b - a, b < a)),
    "v_add_co_ci_u32": ("{d}, vcc_lo, {a}, {b}, vcc_lo", lambda a, b, m: (a + b + m, a + b + m >> 32)),
    "v_sub_co_ci_u32": ("{d}, vcc_lo, {a}, {b}, vcc_lo", lambda a, b, m: (a - b - m, a < b + m)),
    "v_subrev_co_ci_u32": ("{d}, vcc_lo, {a}, {b}, vcc_lo", lambda a, b, m: (b - a - m, b < a + m)),
    "v_cndmask_b32": ("{d}, {a}, {b}, vcc_lo", lambda a, b, m: (b if m else a, m)),
}
_rel = {"lt": lambda a, b: a < b, "eq": lambda a, b: a == b, "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b}
cmps = {}
for _n, _f in _rel.items():
    cmps[f"v_cmp_{_n}_u32"] = (_f, "")
    cmps[f"v_cmp_{_n}_i32"] = (lambda a, b, f=_f: f(s32(a), s32(b)), "")
    cmps[f"v_cmp_{_n}_u64"] = (_f, "AB")
    cmps[f"v_cmp_{_n}_i64"] = (lambda a, b, f=_f: f(s64(a), s64(b)), "AB")
    cmps[f"v_cmp_{_n}_i16"] = (lambda a, b, f=_f: f(s16(a), s16(b)), "")
    cmps[f"v_cmp_{_n}_f16"] = (lambda a, b, f=_f: f(f16(a), f16(b)), "")
    cmps[f"v_cmp_{_n}_f64"] = (lambda a, b, f=_f: f(f64(a), f64(b)), "AB")
    cmps[f"v_cmp_{_n}_f32"] = (lambda a, b, f=_f: f(f32(a), f32(b)), "")
    if _n != "eq":
        cmps[f"v_cmp_n{_n}_f32"] = (lambda a, b, f=_f: not f(f32(a), f32(b)), "")
cmps["v_cmp_neq_f32"] = (lambda a, b: not f32(a) == f32(b), "")
cmps["v_cmp_lg_f32"] = (lambda a, b: f32(a) < f32(b) or f32(a) > f32(b), "")
cmps["v_cmp_nlg_f32"] = (lambda a, b: not (f32(a) < f32(b) or f32(a) > f32(b)), "")
cmps["v_cmp_o_f32"] = (lambda a, b: not (math.isnan(f32(a)) or math.isnan(f32(b))), "")
cmps["v_cmp_u_f32"] = (lambda a, b: math.isnan(f32(a)) or math.isnan(f32(b)), "")
cmps["v_cmp_ne_u32"] = (lambda a, b: a != b, "")
cmps["v_cmp_class_f32"] = (cls(32), "")
cmps["v_cmp_class_f16"] = (lambda a, b: cls(16)(a & 0xFFFF, b & 0xFFFF), "")
cmps["v_cmp_class_f64"] = (cls(64), "A")

# Scalars: (text, reference of (a, b, scc) -> (result, scc or None to keep)); a and b are the first lane's.
sz = lambda r: (r & M32, int(r & M32 != 0))
salu = {
    "s_add_co_u32": lambda a, b, c: (a + b, a + b >> 32),
    "s_sub_co_u32": lambda a, b, c: (a - b, int(a < b)),
    "s_add_co_ci_u32": lambda a, b, c: (a + b + c, a + b + c >> 32),
    "s_sub_co_ci_u32": lambda a, b, c: (a - b - c, int(a < b + c)),
    "s_add_co_i32": lambda a, b, c: (a + b, int(not -(2**31) <= s32(a) + s32(b) < 2**31)),
    "s_sub_co_i32": lambda a, b, c: (a - b, int(not -(2**31) <= s32(a) - s32(b) < 2**31)),
    "s_min_i32": lambda a, b, c: (min(s32(a), s32(b)), int(s32(a) < s32(b))),
    "s_max_u32": lambda a, b, c: (max(a, b), int(a >= b)),
    "s_and_b32": lambda a, b, c: sz(a & b),
    "s_and_not1_b32": lambda a, b, c: sz(a & ~b),
    "s_or_not1_b32": lambda a, b, c: sz(a | ~b),
    "s_nand_b32": lambda a, b, c: sz(~(a & b)),
    "s_xnor_b32": lambda a, b, c: sz(~(a ^ b)),
    "s_lshl_b32": lambda a, b, c: sz(a << (b & 31)),
    "s_lshr_b32": lambda a, b, c: sz(a >> (b & 31)),
    "s_ashr_i32": lambda a, b, c: sz(s32(a) >> (b & 31)),
    "s_bfe_u32": lambda a, b, c: sz(a >> (b & 31) & (1 << (b >> 16 & 127)) - 1),
    "s_bfm_b32": lambda a, b, c: (((1 << (a & 31)) - 1) << (b & 31), c),
    "s_mul_i32": lambda a, b, c: (a * b, c),
    "s_mul_hi_u32": lambda a, b, c: (a * b >> 32, c),
    "s_mul_hi_i32": lambda a, b, c: (s32(a) * s32(b) >> 32, c),
    "s_absdiff_i32": lambda a, b, c: sz(-((a - b) & M32) if (a - b) >> 31 & 1 else a - b),
    "s_cselect_b32": lambda a, b, c: (a if c else b, c),
    "s_pack_ll_b32_b16": lambda a, b, c: (a & 0xFFFF | b << 16, c),
    "s_pack_hl_b32_b16": lambda a, b, c: (a >> 16 | b << 16, c),
    "s_lshl3_add_u32": lambda a, b, c: ((a << 3) + b, int((a << 3) + b > M32)),
    "s_add_f32": lambda a, b, c: (fp("add", 32)(a, b), c),
    "s_mul_f32": lambda a, b, c: (fp("mul", 32)(a, b), c),
}
salu1 = {
    "s_not_b32": lambda a, c: sz(~a),
    "s_brev_b32": lambda a, c: (int(f"{a:032b}"[::-1], 2), c),
    "s_clz_i32_u32": lambda a, c: (clz(a), c),
    "s_cls_i32": lambda a, c: (clz(a ^ (M32 if a >> 31 else 0)), c),
    "s_bcnt1_i32_b32": lambda a, c: sz(bin(a).count("1")),
    "s_sext_i32_i8": lambda a, c: ((a & 255 ^ 128) - 128, c),
    "s_abs_i32": lambda a, c: sz(abs(s32(a))),
    "s_wqm_b32": lambda a, c: sz(sum(15 << k for k in range(0, 32, 4) if a >> k & 15)),
    "s_quadmask_b32": lambda a, c: sz(sum(1 << k // 4 for k in range(0, 32, 4) if a >> k & 15)),
    "s_cvt_f32_i32": lambda a, c: (to_bits(Fraction(s32(a)), 32), c),
    "s_cvt_i32_f32": lambda a, c: (to_int(f32(a), -(2**31), 2**31 - 1), c),
}


def operands(flags):
    reg = lambda n, wide: f"v[{n}:{n + 1}]" if wide else f"v{n}"
    return {"d": reg(8, "D" in flags), "a": reg(0, "A" in flags), "b": reg(2, "B" in flags), "c": reg(4, "C" in flags)}


def text(name, template, flags=""):
    """The instruction: modifiers stand behind the name in the tables."""
    op, *mods = name.split(" ")
    return f"{op} {template.format(**operands(flags))} {' '.join(mods)}"


KERNEL = """
  s_load_b128 s[4:7], s[0:1], 0x0
  s_load_b64 s[8:9], s[0:1], 0x10""" + simasm.LOAD.format(more="") + """
  v_dual_mov_b32 v8, v6 :: v_dual_mov_b32 v9, v7
  v_mov_b32_e32 v12, 0
  v_readfirstlane_b32 s20, v0
  v_readfirstlane_b32 s21, v2
  v_readfirstlane_b32 s22, v6
  s_mov_b32 vcc_lo, 0x5a5a3c0f
  s_mov_b32 s24, 0
  s_setreg_b32 hwreg(HW_REG_MODE, 0, 8), s9
  s_cmp_lg_u32 s22, 0
  s_mov_b32 exec_lo, s8
  {op}
  s_mov_b32 s26, exec_lo
  s_cselect_b32 s27, 1, 0
  s_mov_b32 exec_lo, -1
  s_mov_b32 s9, 0xf0
  s_setreg_b32 hwreg(HW_REG_MODE, 0, 8), s9
  v_mov_b32_e32 v10, vcc_lo
  v_mov_b32_e32 v11, s24
  v_mov_b32_e32 v13, s26
  v_mov_b32_e32 v14, s27
  v_mov_b32_e32 v15, 0""" + simasm.STORE


def source(ops):
    """Assembly of a module with a kernel k0, k1, ... for each instruction text."""
    return simasm.module([KERNEL.format(op=op) for op in ops], vgprs=32, sgprs=32)
