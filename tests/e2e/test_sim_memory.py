"""Memory, LDS, scratch, atomics, lanes, waits and control flow: single instructions of the simulator against AMD's RDNA4 pseudocode,
written again in Python; with all lanes, some, and none."""
import os
import random
import struct

os.environ.setdefault("IE_SIM_STRICT", "1")

import pytest

import simhip
import simlab
import simops as so
import test_sim_ops as ops
from simlab import A, B, C, M32, MASKS, MEM, N, OLD, dword, old_row, on

pytestmark = pytest.mark.skipif(simhip.compiler() is None, reason="skip: no clang for gfx1201 (pip install ziglang==0.17.1)")
lab = simlab.Lab("labmemory")
rnd = random.Random(11)


def check(case, want, **kw):
    return simlab.check(lab, case, want, **kw)


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
