"""A frame for single gfx1201 instructions that touch memory, LDS, scratch, lanes or the program counter.

A case is the text of one or more instructions. It runs in waves of 32 lanes, with lane numbers counted over all waves:
    v[0:1], v[2:3], v[4:5]   the sources a, b, c      v[8:15]   the result; before: old, old's high half, old, ...
    v29                      16 * lane                v[16:17]  address of the lane's 16 bytes of mem
    s[4:5], s[10:11]         inputs, mem              s[16:27]  0, vcc_lo VCC, SCC 0
EXEC is the launch's during the case, and everything is waited for after it; `after` runs with all lanes and moves results to v8 ..
"""
import ctypes
import functools
import random
import struct

import numpy as np

import simasm
import simhip

M32 = 2**32 - 1
VCC = 0x5A5A3C0F
MASKS = (M32, 0x0F0F7731, 0x80000000, 0)
_rnd = random.Random(11)
MEM = bytes(_rnd.getrandbits(8) for _ in range(4096))
N = 64
A, B, C, OLD = ([_rnd.getrandbits(64) for _ in range(N)] for _ in range(4))
FRAME = """
  s_load_b128 s[4:7], s[0:1], 0x0
  s_load_b128 s[8:11], s[0:1], 0x10""" + simasm.LOAD.format(more="""
  v_lshlrev_b32_e32 v29, 4, v31
  v_add_co_u32 v16, vcc_lo, s10, v29
  v_mov_b32_e32 v17, s11
  v_add_co_ci_u32_e32 v17, vcc_lo, 0, v17, vcc_lo
  v_mov_b32_e32 v18, 0
  v_mov_b32_e32 v19, 0
  v_mov_b32_e32 v20, 0
  v_mov_b32_e32 v21, 0""") + """
  v_mov_b32_e32 v8, v6
  v_mov_b32_e32 v9, v7
  v_mov_b32_e32 v10, v6
  v_mov_b32_e32 v11, v7
  v_mov_b32_e32 v12, v6
  v_mov_b32_e32 v13, v7
  v_mov_b32_e32 v14, v6
  v_mov_b32_e32 v15, v7
  s_mov_b64 s[16:17], 0
  s_mov_b64 s[18:19], 0
  s_mov_b64 s[20:21], 0
  s_mov_b64 s[22:23], 0
  s_mov_b64 s[24:25], 0
  s_mov_b64 s[26:27], 0
  v_readfirstlane_b32 s20, v0
  v_readfirstlane_b32 s21, v2
  s_mov_b32 vcc_lo, 0x5a5a3c0f
  {before}
  s_cmp_lg_u32 0, 0
  s_mov_b32 exec_lo, s8
  {op}
  s_mov_b32 s28, exec_lo
  s_mov_b32 exec_lo, -1
  s_wait_loadcnt_dscnt 0x0
  s_wait_storecnt 0x0
  s_wait_kmcnt 0x0
  {after}""" + simasm.STORE
# The instructions around {op}: what lies between is the case.
MARKS = ("s_mov_b32 exec_lo, s8", "s_mov_b32 s28, exec_lo")


class Lab:
    def __init__(self, stem):
        self.stem, self.cases, self.hip, self.mod = stem, {}, None, None

    def add(self, op, after="", before=""):
        self.cases.setdefault((op, after, before), len(self.cases))
        return op, after, before

    def source(self):
        bodies = [FRAME.format(op=op, after=after, before=before) for op, after, before in self.cases]
        return simasm.module(bodies, vgprs=48, sgprs=40, lds=4096, scratch=64, denormals=True, pointer=True)

    @functools.cached_property
    def path(self):
        d = simhip.BUILD / "sim" / "kernels"
        d.mkdir(parents=True, exist_ok=True)
        src, text = d / f"{self.stem}.s", self.source()
        if not src.exists() or src.read_text() != text:
            src.write_text(text)
        return simhip.build(src, d, 0)

    def run(self, case, a, b, c, old, exec_mask=M32, mem=None):
        """Results of the lanes (n x 8 dwords) and mem afterwards (bytes). Raises RuntimeError with the report of a fault."""
        if self.hip is None:
            self.hip = simhip.Hip()
            self.mod = self.hip.module(self.path)
        n = len(a)
        rows = np.array([[int(x) for x in row] for row in zip(a, b, c, old)], dtype=np.uint64)
        mem = np.frombuffer(mem if mem is not None else bytes(4096), np.uint8)
        src, dst, m = self.hip.upload(rows), self.hip.malloc(n * 32), self.hip.upload(mem)
        f = self.hip.function(self.mod, f"k{self.cases[case]}")
        try:
            self.hip.check(self.hip.launch(f, n // 32, 32, [src, dst, ctypes.c_uint32(exec_mask), ctypes.c_uint32(0), m]))
            return self.hip.download(dst, (n, 8), np.uint32), self.hip.download(m, len(mem), np.uint8).tobytes()
        finally:
            self.hip.lib.hipDeviceReset()
            for p in (src, dst, m):
                self.hip.free(p)


def dword(data, at):
    return struct.unpack_from("<I", data, at)[0]


def on(mask, lane):
    return mask >> (lane & 31) & 1


def old_row(i, old=OLD):
    return [old[i] & M32, old[i] >> 32] * 4


def check(lab, case, want, a=A, b=B, c=C, old=OLD, mem=MEM, masks=MASKS):
    """want(lane, on) -> eight result dwords (None: any). Returns mem of the last mask."""
    for mask in masks:
        out, m = lab.run(case, a, b, c, old, mask, mem)
        for i in range(len(a)):
            for k, (g, w) in enumerate(zip(out[i].tolist(), want(i, on(mask, i)))):
                assert w is None or g == w & M32, f"{case[0]}: exec {mask:#x} lane {i} dword {k}: {g:#x}, expected {w & M32:#x}"
    return m
