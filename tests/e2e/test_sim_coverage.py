"""Every instruction form that the compiler emits for the test kernels has semantic cases: memory, LDS, scratch, atomics, lanes, control
flow and matrix instructions here; arithmetic in tests/vectors and simops.py; encodings of the same operation are compared with each other.

What each case expects is AMD's RDNA4 pseudocode of the instruction, written again in Python. test_every_form_is_covered builds the
kernels at -O0, -O1 and -O3 and lists the forms (mnemonic with encoding) that no case has."""
import math
import os
import random
import re
import struct
from fractions import Fraction
from pathlib import Path

os.environ.setdefault("IE_SIM_STRICT", "1")

import numpy as np
import pytest

import simhip
import simlab
import simops as so
import test_sim_disasm as disasm
import test_sim_ops as ops
from simlab import M32, VCC
from simops import M64, f32, f64, to_bits

pytestmark = pytest.mark.skipif(simhip.compiler() is None, reason="skip: no clang for gfx1201 (pip install ziglang==0.17.1)")
ROOT = Path(__file__).resolve().parents[2]
MASKS = (M32, 0x0F0F7731, 0x80000000, 0)
lab = simlab.Lab("lab")
rnd = random.Random(11)
MEM = bytes(rnd.getrandbits(8) for _ in range(4096))
N = 64
A, B, C, OLD = ([rnd.getrandbits(64) for _ in range(N)] for _ in range(4))


def dword(data, at):
    return struct.unpack_from("<I", data, at)[0]


def on(mask, lane):
    return mask >> (lane & 31) & 1


def old_row(i, old=OLD):
    return [old[i] & M32, old[i] >> 32] * 4


def check(case, want, a=A, b=B, c=C, old=OLD, mem=MEM, masks=MASKS):
    """want(lane, on) -> eight result dwords (None: any). Returns mem of the last mask."""
    for mask in masks:
        out, m = lab.run(case, a, b, c, old, mask, mem)
        for i in range(len(a)):
            for k, (g, w) in enumerate(zip(out[i].tolist(), want(i, on(mask, i)))):
                assert w is None or g == w & M32, f"{case[0]}: exec {mask:#x} lane {i} dword {k}: {g:#x}, expected {w & M32:#x}"
    return m


# ---- loads and stores

LOADS = {"u8": 1, "i8": 1, "u16": 2, "i16": 2, "b32": 4, "b64": 8, "b96": 12, "b128": 16}
STORES = {"b8": 1, "b16": 2, "b32": 4, "b64": 8, "b96": 12, "b128": 16, "d16_hi_b8": 1, "d16_hi_b16": 2}


def vregs(first, size):
    n = max(size // 4, 1)
    return f"v{first}" if n == 1 else f"v[{first}:{first + n - 1}]"


def loaded(kind, size, at, data=MEM):
    """Result dwords of a load: below 32 bits extended by zero or sign."""
    raw = data[at:at + size]
    if size < 4:
        return [int.from_bytes(raw, "little", signed=kind[0] == "i")]
    return [dword(raw, 4 * k) for k in range(size // 4)]


def offset(size):
    return {1: 3, 2: 2, 4: 8, 8: 8, 12: 4, 16: 0}[size]


ADDRESSES = {"global": "v29, {d}, s[10:11]", "global_v": "v[16:17], {d}, off", "flat": "v[16:17], {d}"}
LOAD_CASES, STORE_CASES = {}, {}
for _space, _form in ADDRESSES.items():
    for _k, _n in LOADS.items():
        _a, _d, *_s = _form.format(d=vregs(8, _n)).split(", ")
        LOAD_CASES[_space, _k] = lab.add(f"{_space.split('_')[0]}_load_{_k} {', '.join([_d, _a, *_s])} offset:{offset(_n)}")
    for _k, _n in STORES.items():
        STORE_CASES[_space, _k] = lab.add(f"{_space.split('_')[0]}_store_{_k} {_form.format(d=vregs(0, _n))} offset:{offset(_n)}")


@pytest.mark.parametrize("key", LOAD_CASES, ids="-".join)
def test_load(key):
    """GLOBAL_LOAD_*, FLAT_LOAD_*: lanes off keep their registers and touch no memory."""
    size = LOADS[key[1]]

    def want(i, active):
        row = old_row(i)
        if active:
            got = loaded(key[1], size, 16 * i + offset(size))
            row[:len(got)] = got
        return row

    check(LOAD_CASES[key], want)


@pytest.mark.parametrize("key", STORE_CASES, ids="-".join)
def test_store(key):
    """GLOBAL_STORE_*, FLAT_STORE_*: the bytes around and those of lanes off stay."""
    size = STORES[key[1]]
    for mask in MASKS:
        _, mem = lab.run(STORE_CASES[key], A, B, C, OLD, mask, MEM)
        want = bytearray(MEM)
        for i in range(N):
            if on(mask, i):
                data = struct.pack("<QQ", A[i], B[i])
                at = 16 * i + offset(size)
                want[at:at + size] = data[2:2 + size] if "hi" in key[1] else data[:size]
        assert mem == bytes(want), hex(mask)


SCRATCH = {n: (lab.add(f"scratch_store_{k} off, {vregs(0, n)}, off offset:16", f"scratch_load_b128 v[8:11], off, off offset:16\ns_wait_loadcnt 0x0",
                       "scratch_store_b128 off, v[8:11], off offset:16\ns_wait_storecnt 0x0"),
               lab.add(f"scratch_load_{k} {vregs(8, n)}, off, off offset:16", "", "scratch_store_b128 off, v[0:3], off offset:16\ns_wait_storecnt 0x0"))
           for k, n in (("b32", 4), ("b64", 8), ("b96", 12), ("b128", 16))}


@pytest.mark.parametrize("size", SCRATCH)
def test_scratch(size):
    """SCRATCH_STORE_*, SCRATCH_LOAD_*: each lane has its own."""
    def row(i):
        return [A[i] & M32, A[i] >> 32, B[i] & M32, B[i] >> 32][:size // 4]

    for case in SCRATCH[size]:
        check(case, lambda i, act: (row(i) if act else []) + old_row(i)[size // 4 if act else 0:])


# ---- scalar loads

SLOADS = {n: lab.add(f"s_load_{k} {r}, s[10:11], {off}", "\n".join(f"v_mov_b32_e32 v{8 + j}, s{16 + j}" for j in range(n)))
          for k, n, r, off in (("b32", 1, "s16", "0x24"), ("b64", 2, "s[16:17]", "0x8"), ("b96", 3, "s[16:18]", "0x10"), ("b128", 4, "s[16:19]", "0x30"), ("b256", 8, "s[16:23]", "0x40"))}
# Into s[12:27], of which the last eight are looked at.
SLOAD512 = lab.add("s_load_b512 s[12:27], s[10:11], 0x40", "\n".join(f"v_mov_b32_e32 v{8 + j}, s{20 + j}" for j in range(8)))


@pytest.mark.parametrize("n", SLOADS)
def test_scalar_load(n):
    """S_LOAD_*: whatever EXEC is."""
    at = {1: 0x24, 2: 8, 3: 0x10, 4: 0x30, 8: 0x40}[n]
    check(SLOADS[n], lambda i, act: [dword(MEM, at + 4 * j) for j in range(n)] + old_row(i)[n:])


def test_scalar_load_of_sixteen():
    check(SLOAD512, lambda i, act: [dword(MEM, 0x60 + 4 * j) for j in range(8)])


# ---- LDS: every lane has 64 bytes, filled with the pattern `fill` before (address in v26)

LDS_AT = "v_lshlrev_b32_e32 v26, 6, v31\nv_and_b32_e32 v26, 0x7ff, v26"
FILL = LDS_AT + "".join(f"\nv_add_nc_u32_e32 v{32 + k}, {k + 1}, v{4 + (k & 1)}" for k in range(8)) + \
    "\nds_store_b128 v26, v[32:35]\nds_store_b128 v26, v[36:39] offset:16\nds_store_b128 v26, v[32:35] offset:32\nds_store_b128 v26, v[36:39] offset:48\ns_wait_dscnt 0x0"
READ = "ds_load_b128 v[8:11], v26\nds_load_b128 v[12:15], v26 offset:16\ns_wait_dscnt 0x0"


def lds_bytes(i):
    one = [((C[i] >> 32 * (k & 1)) + k + 1) & M32 for k in range(8)]
    return struct.pack("<16I", *one, *one)


DS_STORES = {n: lab.add(t, READ, FILL) for n, t in {
    "b8": "ds_store_b8 v26, v0 offset:5", "b16": "ds_store_b16 v26, v0 offset:6", "b32": "ds_store_b32 v26, v0 offset:4", "b64": "ds_store_b64 v26, v[0:1] offset:8",
    "b128": "ds_store_b128 v26, v[0:3] offset:16", "2addr_b32": "ds_store_2addr_b32 v26, v0, v2 offset0:1 offset1:3",
    "2addr_b64": "ds_store_2addr_b64 v26, v[0:1], v[2:3] offset0:1 offset1:3"}.items()}
DS_LOADS = {n: lab.add(t, "", FILL) for n, t in {
    "u8": "ds_load_u8 v8, v26 offset:5", "i8": "ds_load_i8 v8, v26 offset:7", "u16": "ds_load_u16 v8, v26 offset:6", "b32": "ds_load_b32 v8, v26 offset:4",
    "b64": "ds_load_b64 v[8:9], v26 offset:8", "b128": "ds_load_b128 v[8:11], v26 offset:16", "2addr_b32": "ds_load_2addr_b32 v[8:9], v26 offset0:1 offset1:9",
    "2addr_b64": "ds_load_2addr_b64 v[8:11], v26 offset0:1 offset1:3", "2addr_stride64_b32": "ds_load_2addr_stride64_b32 v[8:9], v26 offset0:0 offset1:1"}.items()}


@pytest.mark.parametrize("kind", DS_STORES)
def test_lds_store(kind):
    """DS_STORE_*."""
    def want(i, act):
        data = bytearray(lds_bytes(i)[:32])
        if act:
            a, b = struct.pack("<Q", A[i]), struct.pack("<Q", B[i])
            for at, part in {"b8": [(5, a[:1])], "b16": [(6, a[:2])], "b32": [(4, a[:4])], "b64": [(8, a)], "b128": [(16, a + b)],
                             "2addr_b32": [(4, a[:4]), (12, b[:4])], "2addr_b64": [(8, a), (24, b)]}[kind]:
                data[at:at + len(part)] = part
        return struct.unpack("<8I", data)

    check(DS_STORES[kind], want)


@pytest.mark.parametrize("kind", DS_LOADS)
def test_lds_load(kind):
    """DS_LOAD_*: the stride of 2addr is the element, or 64 of them."""
    def want(i, act):
        d, w = lds_bytes(i), lambda k: dword(lds_bytes(i), k)
        got = {"u8": lambda: [d[5]], "i8": lambda: [int.from_bytes(d[7:8], "little", signed=True)], "u16": lambda: [d[6] | d[7] << 8], "b32": lambda: [w(4)],
               "b64": lambda: [w(8), w(12)], "b128": lambda: [w(16 + 4 * k) for k in range(4)], "2addr_b32": lambda: [w(4), w(36)],
               "2addr_b64": lambda: [w(8), w(12), w(24), w(28)],
               "2addr_stride64_b32": lambda: [w(0), dword(lds_bytes(i // 32 * 32 + (i % 32 + 4)), 0) if i % 32 < 28 else None]}[kind]()
        return got + old_row(i)[len(got):] if act else old_row(i)

    masks = [m & 0x0FFFFFFF for m in MASKS] if "stride" in kind else MASKS  # 256 bytes on: four lanes further
    check(DS_LOADS[kind], want, masks=masks)


LANES = {
    "bpermute": lab.add("ds_bpermute_b32 v8, v27, v0", "", "v_mul_u32_u24_e32 v27, 20, v31"),
    "permute": lab.add("ds_permute_b32 v8, v27, v0", "", "v_mul_u32_u24_e32 v27, 20, v31"),
    "swizzle": lab.add("ds_swizzle_b32 v8, v0 offset:swizzle(SWAP,16)"), "swizzle_quad": lab.add("ds_swizzle_b32 v8, v0 offset:swizzle(QUAD_PERM,1,0,3,2)"),
    "permlane16": lab.add("v_permlane16_b32 v8, v0, s22, s23", "", "s_mov_b32 s22, 0x32107654\ns_mov_b32 s23, 0xba98fedc"),
    "permlanex16": lab.add("v_permlanex16_b32 v8, v0, s22, s23", "", "s_mov_b32 s22, 0x32107654\ns_mov_b32 s23, 0xba98fedc"),
    "mbcnt": lab.add("v_mbcnt_lo_u32_b32 v8, s20, v2"),
}


def test_lanes():
    """DS_PERMUTE_B32, DS_BPERMUTE_B32 (the lane is address / 4 mod 32), DS_SWIZZLE_B32, V_PERMLANE(X)16_B32, V_MBCNT_LO_U32_B32."""
    base = lambda i: i & ~31
    both = (M32, 0)
    keep = lambda v: lambda i, act: [v(i) if act else old_row(i)[0]] + old_row(i)[1:]
    check(LANES["bpermute"], keep(lambda i: A[base(i) + i * 5 % 32]), masks=both)
    back = {l * 5 % 32: l for l in range(32)}
    check(LANES["permute"], keep(lambda i: A[base(i) + back[i % 32]]), masks=both)
    check(LANES["swizzle"], keep(lambda i: A[i ^ 16]), masks=both)
    check(LANES["swizzle_quad"], keep(lambda i: A[i ^ 1]), masks=both)
    check(LANES["permlane16"], keep(lambda i: A[i & ~15 | (i & 15) ^ 4]), masks=both)
    check(LANES["permlanex16"], keep(lambda i: A[(i & ~15 ^ 16) | (i & 15) ^ 4]), masks=both)
    check(LANES["mbcnt"], keep(lambda i: (B[i] & M32) + bin(A[base(i)] & M32 & (1 << i % 32) - 1).count("1")))
    with pytest.raises(RuntimeError, match="not active"):
        lab.run(LANES["permlanex16"], A, B, C, OLD, 0xFFFF, MEM)


DPP = {(o, c, b): lab.add(f"v_mov_b32_e32 v8, v0\n{o}_dpp v8, v8, v8 {c} row_mask:0xf bank_mask:0xf {b}")
       for o in ("v_add_f32", "v_max_num_f32", "v_min_i32", "v_or_b32") for c in ("row_shr:1", "row_xmask:4", "row_ror:3", "quad_perm:[1,0,3,2]", "row_share:2")
       for b in ("", "bound_ctrl:1")}


@pytest.mark.parametrize("key", DPP, ids=" ".join)
def test_dpp_in_place(key):
    """DPP with one register as both sources and destination: all lanes read before any writes. A lane whose source does not exist or is off is
    not written; with bound_ctrl:1 it reads 0."""
    op, ctrl, bound = key
    f = {"v_add_f32": so.fp("add", 32), "v_max_num_f32": so.mnum(32, True), "v_min_i32": lambda x, y: min(so.s32(x), so.s32(y)), "v_or_b32": lambda x, y: x | y}[op]
    source = {"row_shr:1": lambda l: l - 1 if l & 15 else None, "row_xmask:4": lambda l: l ^ 4, "row_ror:3": lambda l: l & 16 | (l - 3) & 15,
              "quad_perm:[1,0,3,2]": lambda l: l ^ 1, "row_share:2": lambda l: l & 16 | 2}[ctrl]
    a = [rnd.choice([v for v in ops.F_EDGE if not ops.nan_class(v, 32)]) if i & 1 else A[i] & 0xBFFFFFFF for i in range(N)]
    for mask in (M32, 0):
        out, _ = lab.run(DPP[key], a, B, C, OLD, mask, MEM)
        for i in range(N):
            src = source(i % 32)
            x = a[(i & ~31) + src] if src is not None else 0
            want = f(x & M32, a[i] & M32) & M32 if src is not None or bound else a[i] & M32
            want, got = want if mask else OLD[i] & M32, int(out[i][0])
            assert got == want or (ops.nan_class(got, 32) and ops.nan_class(want, 32)), (key, hex(mask), i, hex(got), hex(want))
    if ctrl != "row_shr:1":
        return
    with pytest.raises(RuntimeError, match="not active"):  # strict mode reports a source that is off
        lab.run(DPP[key], a, B, C, OLD, 0xFFF0FFF0, MEM)


# ---- atomics: memory operand m, register operand(s)

def fadd(m, a):
    return so.fp("add", 32)(m, a)


ATOMIC = {
    "add_u32": (4, lambda m, a, b: m + a), "sub_u32": (4, lambda m, a, b: m - a), "and_b32": (4, lambda m, a, b: m & a), "or_b32": (4, lambda m, a, b: m | a), "xor_b32": (4, lambda m, a, b: m ^ a),
    "max_u32": (4, lambda m, a, b: max(m, a)), "min_u32": (4, lambda m, a, b: min(m, a)), "max_i32": (4, lambda m, a, b: max(so.s32(m), so.s32(a))),
    "min_i32": (4, lambda m, a, b: min(so.s32(m), so.s32(a))), "add_f32": (4, lambda m, a, b: fadd(m, a)),
    "cmpswap_b32": (4, lambda m, a, b: a if m == b else m), "swap_b32": (4, lambda m, a, b: a), "add_u64": (8, lambda m, a, b: m + a)}
ATOMIC_CASES = {}
for _n, (_size, _f) in ATOMIC.items():
    _data = "v[0:1]" if _size == 8 or "cmp" in _n else "v0"
    _ret = "v[8:9]" if _size == 8 else "v8"
    for _space, _addr in (("global", "v29, {}, s[10:11]"), ("flat", "v[16:17], {}")):
        _t = _addr.format(_data)
        ATOMIC_CASES[_space, _n] = (lab.add(f"{_space}_atomic_{_n} {_t} offset:{_size % 8}"),
                                    lab.add(f"{_space}_atomic_{_n} {_ret}, {_t} offset:{_size % 8} th:TH_ATOMIC_RETURN"))
DS_ATOMIC = {False: lab.add("ds_add_u32 v26, v0 offset:4", READ, FILL), True: lab.add("ds_add_rtn_u32 v8, v26, v0 offset:4", "", FILL)}


@pytest.mark.parametrize("key", ATOMIC_CASES, ids="-".join)
def test_atomic(key):
    """GLOBAL_ATOMIC_*, FLAT_ATOMIC_*: with and without the old value returned, on edge values."""
    size, f = ATOMIC[key[1]]
    first = size % 8
    edges = [e for e in ops.F_EDGE if not (0 < e & 0x7FFFFFFF < 0x00800000)] if "f32" in key[1] else ops.I_EDGE
    pick = lambda: rnd.choice(edges) | rnd.choice(edges) << 32
    a = [pick() for _ in range(N)]
    mem = bytearray(MEM)
    for i in range(N):  # where the compare value is the memory's, for half the lanes
        mem[16 * i + first:16 * i + first + 8] = struct.pack("<Q", a[i] >> 32 if "cmp" in key[1] and i & 1 else pick())
    value = lambda i: int.from_bytes(mem[16 * i + first:16 * i + first + size], "little")
    for returns, case in enumerate(ATOMIC_CASES[key]):
        for mask in MASKS:
            out, got = lab.run(case, a, B, C, OLD, mask, bytes(mem))
            for i in range(N):
                x = a[i] if size == 8 else a[i] & M32
                want = f(value(i), x, a[i] >> 32) & (1 << 8 * size) - 1 if on(mask, i) else value(i)
                now = int.from_bytes(got[16 * i + first:16 * i + first + size], "little")
                nan = "f32" in key[1] and ops.nan_class(now, 32) and ops.nan_class(want, 32)
                assert now == want or nan, f"{case[0]} lane {i}: {value(i):#x} with {a[i]:#x}: {now:#x}, expected {want:#x}"
                row = old_row(i)
                if returns and on(mask, i):
                    row[:size // 4] = [value(i) & M32, value(i) >> 32][:size // 4]
                assert out[i].tolist() == row, case[0]
            outside = lambda d: [d[16 * i:16 * i + first] + d[16 * i + first + size:16 * i + 16] for i in range(N)]
            assert outside(got) == outside(bytes(mem))


def test_lds_atomic():
    """DS_ADD_U32, DS_ADD_RTN_U32."""
    def stored(i, act):
        w = list(struct.unpack("<8I", lds_bytes(i)[:32]))
        w[1] += (A[i] & M32) * act
        return w

    check(DS_ATOMIC[False], stored)
    check(DS_ATOMIC[True], lambda i, act: [dword(lds_bytes(i), 4) if act else old_row(i)[0]] + old_row(i)[1:])


# ---- program counter, waits, EXEC

def flow(setup, jump):
    """s24 is 1 when the jump was taken, 2 when not."""
    return lab.add(f"{setup}\ns_mov_b32 s24, 1\n{jump} 1\ns_mov_b32 s24, 2\ns_nop 0", "v_mov_b32_e32 v8, s24")


FLOW = [(flow(s, j), t) for s, j, t in [
    ("s_nop 0", "s_branch", lambda m: True), ("s_cmp_eq_u32 0, 0", "s_cbranch_scc1", lambda m: True), ("s_cmp_eq_u32 0, 0", "s_cbranch_scc0", lambda m: False),
    ("s_cmp_eq_u32 0, 1", "s_cbranch_scc1", lambda m: False), ("s_cmp_eq_u32 0, 1", "s_cbranch_scc0", lambda m: True),
    ("s_mov_b32 vcc_lo, 4", "s_cbranch_vccnz", lambda m: True), ("s_mov_b32 vcc_lo, 0", "s_cbranch_vccnz", lambda m: False),
    ("s_mov_b32 vcc_lo, 4", "s_cbranch_vccz", lambda m: False), ("s_mov_b32 vcc_lo, 0", "s_cbranch_vccz", lambda m: True),
    ("s_nop 0", "s_cbranch_execz", lambda m: m == 0), ("s_nop 0", "s_cbranch_execnz", lambda m: m != 0)]]
PC = {
    "getpc": lab.add("s_getpc_b64 s[16:17]\ns_getpc_b64 s[18:19]\ns_sub_nc_u64 s[20:21], s[18:19], s[16:17]", "v_mov_b32_e32 v8, s20\nv_mov_b32_e32 v9, s21"),
    # 20 bytes from the one after s_getpc: over both s_mov
    "setpc": lab.add("s_mov_b32 s24, 1\ns_getpc_b64 s[16:17]\ns_add_nc_u64 s[16:17], s[16:17], 16\ns_setpc_b64 s[16:17]\ns_mov_b32 s24, 2\ns_mov_b32 s24, 3\ns_nop 0", "v_mov_b32_e32 v8, s24"),
    "swappc": lab.add("s_mov_b32 s24, 1\ns_getpc_b64 s[16:17]\ns_add_nc_u64 s[18:19], s[16:17], 16\ns_swappc_b64 s[20:21], s[18:19]\ns_mov_b32 s24, 2\ns_mov_b32 s24, 3\n"
                      "s_sub_nc_u64 s[22:23], s[20:21], s[16:17]", "v_mov_b32_e32 v8, s24\nv_mov_b32_e32 v9, s22"),
    "loop": lab.add("s_mov_b32 s24, 0\ns_add_co_u32 s24, s24, 1\ns_cmp_lg_u32 s24, 5\ns_cbranch_scc1 0xfffd", "v_mov_b32_e32 v8, s24"),
}
SAVEEXEC = {n: lab.add(f"s_{n}_saveexec_b32 s24, s20", "v_mov_b32_e32 v8, s24\nv_mov_b32_e32 v9, s28\ns_cselect_b32 s25, 1, 0\nv_mov_b32_e32 v10, s25")
            for n in ("and", "or", "xor", "and_not1", "and_not0", "or_not1", "nand", "nor", "xnor", "or_not0")}
MOVK = lab.add("s_movk_i32 s24, 0x8001\ns_movk_i32 s25, 0x7fff", "v_mov_b32_e32 v8, s24\nv_mov_b32_e32 v9, s25")
QUIET = {t.split(" ")[0]: lab.add(t) for t in (
    "s_nop 3", "v_nop", "s_clause 0x1", "s_delay_alu instid0(VALU_DEP_1)", "s_sleep 1", "s_wait_alu depctr_sa_sdst(0)", "s_wait_bvhcnt 0x0", "s_wait_dscnt 0x0", "s_wait_expcnt 0x0",
    "s_wait_kmcnt 0x0", "s_wait_loadcnt 0x0", "s_wait_loadcnt_dscnt 0x0", "s_wait_samplecnt 0x0", "s_wait_storecnt 0x0", "global_inv scope:SCOPE_DEV", "global_wb scope:SCOPE_DEV",
    "s_barrier_signal -1\ns_barrier_wait -1", "s_wait_idle")}
QUIET["s_barrier_wait"] = QUIET["s_barrier_signal"]
ENDS = {"s_endpgm": lab.add("s_endpgm"), "s_trap": lab.add("s_trap 2"), "s_code_end": lab.add("s_code_end")}


def test_control_flow():
    """S_BRANCH, S_CBRANCH_*, S_GETPC_B64 (the next instruction's address), S_SETPC_B64, S_SWAPPC_B64; a jump is in words from the next."""
    for case, taken in FLOW:
        for mask in MASKS:
            check(case, lambda i, act: [1 if taken(mask) else 2] + old_row(i)[1:], masks=[mask])
    check(PC["getpc"], lambda i, act: [4, 0] + old_row(i)[2:])
    check(PC["setpc"], lambda i, act: [1] + old_row(i)[1:])
    check(PC["swappc"], lambda i, act: [1, 8] + old_row(i)[2:])
    check(PC["loop"], lambda i, act: [5] + old_row(i)[1:])


def test_scalar_constant():
    """S_MOVK_I32 extends the sign."""
    check(MOVK, lambda i, act: [0xFFFF8001, 0x7FFF] + old_row(i)[2:])


@pytest.mark.parametrize("name", SAVEEXEC)
def test_saved_exec(name):
    """S_*_SAVEEXEC_B32: the old EXEC, the new one, SCC = new one is not 0."""
    f = {"and": lambda s, e: s & e, "or": lambda s, e: s | e, "xor": lambda s, e: s ^ e, "and_not1": lambda s, e: s & ~e, "and_not0": lambda s, e: ~s & e,
         "or_not1": lambda s, e: s | ~e, "or_not0": lambda s, e: ~s | e, "nand": lambda s, e: ~(s & e), "nor": lambda s, e: ~(s | e), "xnor": lambda s, e: ~(s ^ e)}[name]
    for s in (0x0F0F7731, 0, M32, 0x80000000):
        for mask in MASKS:
            new = f(s, mask) & M32
            check(SAVEEXEC[name], lambda i, act: [mask, new, int(new != 0)] + old_row(i)[3:], a=[s] * 32, b=B[:32], c=C[:32], old=OLD[:32], masks=[mask])


@pytest.mark.parametrize("name", QUIET)
def test_no_register_changes(name):
    """Waits, hints, cache instructions and a barrier of one wave leave registers and memory as they are."""
    masks = [M32] if "barrier" in name else MASKS  # strict mode wants every lane at a barrier
    assert check(QUIET[name], lambda i, act: old_row(i), masks=masks) == MEM


def test_ends():
    """S_ENDPGM ends the wave before its stores; S_TRAP and S_CODE_END end the run with a report."""
    out, mem = lab.run(ENDS["s_endpgm"], A, B, C, OLD, M32, MEM)
    assert mem == MEM
    with pytest.raises(RuntimeError, match="trap 2"):
        lab.run(ENDS["s_trap"], A, B, C, OLD, M32, MEM)
    with pytest.raises(RuntimeError, match="s_code_end"):
        lab.run(ENDS["s_code_end"], A, B, C, OLD, M32, MEM)


WAITS = {  # a load, the instruction that uses its result, the wait that has to come between
    "s_wait_loadcnt": ("global_load_b32 v8, v29, s[10:11]", "v_mov_b32_e32 v9, v8", ""),
    "s_wait_kmcnt": ("s_load_b32 s24, s[10:11], 0x0", "s_add_co_u32 s25, s24, 1", ""),
    "s_wait_dscnt": ("ds_load_b32 v8, v26", "v_mov_b32_e32 v9, v8", FILL),
    "s_wait_loadcnt_dscnt": ("ds_load_b32 v8, v26\nglobal_load_b32 v10, v29, s[10:11]", "v_add_nc_u32_e32 v9, v8, v10", FILL)}
WAIT_CASES = {n: [lab.add(f"{load}\n{w}\n{use}", "", pre) for w in ("s_nop 0", f"{n} 0x0", "s_wait_expcnt 0x0")] for n, (load, use, pre) in WAITS.items()}


@pytest.mark.parametrize("name", WAITS)
def test_wait_is_needed(name):
    none, right, other = WAIT_CASES[name]
    lab.run(right, A, B, C, OLD, M32, MEM)
    for case in (none, other):
        with pytest.raises(RuntimeError, match="before its load was waited for"):
            lab.run(case, A, B, C, OLD, M32, MEM)


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


# ---- encodings of one operation agree

ENC = re.compile(r"_(e64_dpp|e32|e64|dpp)$")


def base(form):
    return ENC.sub("", form).replace("v_dual_", "v_")


def shape(text):
    """Operands of an instruction that a kernel has, on this frame's registers: (destination, sources, modifiers of DPP)."""
    name, _, rest = text.partition(" ")
    parts = rest.split(", ")
    dpp = ""
    if "_dpp" in name:
        parts[-1], _, dpp = parts[-1].partition(" ")
    parts = [p.split(" ")[0].strip("-|") for p in parts]
    op = base(name)
    d = [] if op.startswith("v_cmpx") else [parts.pop(0)]
    if "_co_" in op:
        parts.pop(0)
    wide_bits = lambda i: {"v_lshlrev_b64": (False, True), "v_lshrrev_b64": (False, True), "v_ashrrev_i64": (False, True)}.get(op, (wide_of(op),) * 3)[i]
    src = []
    for i, p in enumerate(parts):
        if p == "vcc_lo" and i == 2:
            src.append("vcc_lo")
        else:
            src.append(f"v[{2 * i}:{2 * i + 1}]" if wide_bits(i) else f"v{2 * i}")
    if d:
        d = ["vcc_lo" if op.startswith("v_cmp") else "v[8:9]" if d[0].startswith("v[") else "v8"]
    return d, src, dpp


def wide_of(op):
    return bool(re.search(r"_(f64|u64|i64|b64)$", op)) if not op.startswith("v_cvt") else op.endswith("f64")


def alternatives(form, text):
    """Two texts that must give the same: the form, and the operation in an encoding that the tables have."""
    op, (d, src, dpp) = base(form), shape(text)
    co = ["vcc_lo"] if "_co_" in op else []
    e64 = lambda s: f"{op}_e64 {', '.join((d if not op.startswith('v_cmpx') else []) + co + s)}"
    if form.startswith("v_dual_"):
        one = f"{form} {', '.join(d + src)}"
        mask = ", vcc_lo" if op == "v_cndmask_b32" else ""
        plain = f"{op}_e32 {', '.join(d + src)}{mask}"
        as_y = op in ("v_and_b32", "v_lshlrev_b32", "v_add_nc_u32")
        mov = "v_dual_mov_b32 v9, v3"
        return (f"{mov} :: {one}" if as_y else f"{one} :: {mov}"), f"{plain}\nv_mov_b32_e32 v9, v3"
    if form.endswith("_dpp"):
        return f"{form} {', '.join(d + co + src)} {dpp}", f"v_mov_b32_e32 v22, 0\nv_mov_b32_dpp v22, {src[0]} {dpp}\n{e64(['v22'] + src[1:])}"
    other = op + ("_e32" if form.endswith("_e64") else "_e64")
    if form.endswith("_e64"):
        return f"{form} {', '.join(d + co + src)}", f"{other} {', '.join(d + co + src)}"
    return f"{form} {', '.join(d + co + src)}", e64(src)


AFTER_SAME = "v_mov_b32_e32 v12, vcc_lo\nv_mov_b32_e32 v13, s28"


# ---- what is covered

def case_forms(decode, path, start, end):
    """Forms of the instructions between the marks in every kernel of an object file."""
    out, inside = set(), False
    for words in disasm.text_of(Path(path).read_bytes()):
        i = 0
        while i < len(words):
            n, text = decode(words[i:i + 4])
            assert n, f"{path}: {words[i]:08x}"
            i += n
            inside = text == start or (inside and text != end)
            if inside and text != start:
                out |= {part.split(" ")[0] for part in text.split(" :: ")}
    return out


@pytest.fixture(scope="module")
def decode(tmp_path_factory):
    return disasm.Decoder(str(tmp_path_factory.mktemp("decoder")))


@pytest.fixture(scope="module")
def emitted(decode):
    """{form: the first instruction that has it} of the test kernels at -O0, -O1 and -O3, and of the text that the decoder's test compiles."""
    d = simhip.BUILD / "sim" / "kernels"
    d.mkdir(parents=True, exist_ok=True)
    own = d / "own.c"
    if not own.exists() or own.read_text() != disasm.KERNELS:
        own.write_text(disasm.KERNELS)
    forms = {}
    for level in (0, 1, 3):
        for source in [*sorted(simhip.KERNELS.glob("*.c")), own]:
            if source.stem == "faults" and level != 3:
                continue
            for words in disasm.text_of(simhip.build(source, d, level).read_bytes()):
                i = 0
                while i < len(words):
                    n, text = decode(words[i:i + 4])
                    i += n or 1
                    for part in text.split(" :: ") if n else []:
                        forms.setdefault(part.split(" ")[0], part)
    assert len(forms) > 350
    return forms


@pytest.fixture(scope="module")
def tabled(decode):
    """Forms with cases of their own: in the vector files, in simops.py, in this file."""
    forms = set()
    for name in ("sim_vop", "sim_sop", "sim_approx"):
        for line in (ROOT / "tests" / "vectors" / f"{name}.txt").read_text().splitlines():
            words = [int(x, 16) for x in line.split()[1].split(",")]
            n, text = decode((words + [0, 0, 0])[:4])
            assert n, line[:40]
            forms.add(text.split(" ")[0])
    if ops.bench.hip is None:
        ops.bench.build()
    forms |= case_forms(decode, simhip.build(simhip.BUILD / "sim" / "kernels" / "ops.s", simhip.BUILD / "sim" / "kernels", 0), "s_mov_b32 exec_lo, s8", "s_mov_b32 s26, exec_lo")
    forms |= case_forms(decode, lab.path, *simlab.MARKS)
    return forms


def test_every_form_is_covered(emitted, tabled):
    bases = {base(f) for f in tabled}
    missing = sorted(f for f in emitted if f not in tabled and base(f) not in bases)
    assert not missing, f"no semantic case for {len(missing)} of {len(emitted)} forms: {' '.join(missing)}"


def test_encodings_of_one_operation_agree(emitted, tabled):
    """Forms whose operation has its cases in another encoding give the same results, EXEC, VCC, on the same edge values."""
    same = simlab.Lab("labsame")
    pairs = {}
    for form in sorted(f for f in emitted if f not in tabled):
        texts = alternatives(form, emitted[form])
        pairs[form] = [same.add(t, AFTER_SAME) for t in texts]
    assert len(pairs) > 15
    for form, (one, two) in pairs.items():
        op = base(form)
        wide = wide_of(op) or "f64" in op
        edges, bits = (ops.D_EDGE, 64) if "f64" in op and not op.endswith("f32") else (ops.I_EDGE, 64) if wide else (ops.F_EDGE if "f32" in op else ops.H_EDGE if "f16" in op else ops.I_EDGE, 32)
        a, b, c = ops.columns(edges, bits, 256)
        b = [a[i] if i % 5 == 0 else v for i, v in enumerate(b)]
        for mask in MASKS if "_dpp" not in form else (M32, 0):
            x, y = same.run(one, a, b, c, OLD * 4, mask)[0], same.run(two, a, b, c, OLD * 4, mask)[0]
            bad = np.argwhere(x != y)
            assert not len(bad), f"{one[0]!r} and {two[0]!r} differ, exec {mask:#x}, {bad[0]}: a={a[bad[0][0]]:#x} b={b[bad[0][0]]:#x}: {x[tuple(bad[0])]:#x} {y[tuple(bad[0])]:#x}"
