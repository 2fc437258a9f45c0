"""The simulator's HIP interface: numbers, errors, streams, events, graphs, memory."""
import ctypes
import struct
import subprocess
import sys

import numpy as np
import pytest

import simhip
from simhip import BUILD, KERNELS, P

pytestmark = pytest.mark.skipif(simhip.compiler() is None, reason="skip: no clang for gfx1201 (pip install ziglang==0.17.1)")

c_int, c_uint, size_t, byref = ctypes.c_int, ctypes.c_uint, ctypes.c_size_t, ctypes.byref


@pytest.fixture(scope="module")
def hip():
    return simhip.Hip()


@pytest.fixture(scope="module")
def mod(hip):
    d = BUILD / "sim" / "kernels"
    d.mkdir(parents=True, exist_ok=True)
    return hip.module(simhip.build(KERNELS / "arith.c", d, 3))


def vadd(hip, mod, stream=None, n=256, plus=1.0):
    a = np.arange(n, dtype=np.float32)
    pa, pb, pc = hip.upload(a), hip.upload(np.full(n, plus, np.float32)), hip.malloc(4 * n)
    f = hip.function(mod, "vadd")
    return f, pa, pb, pc, a, lambda: hip.launch(f, 1, 256, [pa, pb, pc, c_int(n)], stream=stream)


def test_device(hip):
    n = c_int()
    hip.check(hip.lib.hipGetDeviceCount(byref(n)))
    assert n.value == 1
    prop = ctypes.create_string_buffer(1472)
    hip.check(hip.lib.hipGetDevicePropertiesR0600(prop, 0))
    raw = prop.raw
    assert raw[:256].split(b"\0")[0] == b"AMD Radeon AI PRO R9700" and raw[1160:1416].split(b"\0")[0] == b"gfx1201"
    # Offsets of AMD's public header: totalGlobalMem 288, sharedMemPerBlock 296, warpSize 308, multiProcessorCount 388.
    assert struct.unpack_from("<QQ", raw, 288) == (32 << 30, 65536)
    assert struct.unpack_from("<i", raw, 308)[0] == 32 and struct.unpack_from("<i", raw, 388)[0] == 32
    assert struct.unpack_from("<ii", raw, 360) == (12, 0)
    for attr, want in ((63, 32), (87, 32), (56, 1024), (10, 1), (23, 12), (74, 65536), (59, 256)):
        hip.check(hip.lib.hipDeviceGetAttribute(byref(n), attr, 0))
        assert n.value == want, attr
    assert hip.lib.hipDeviceGetAttribute(byref(n), 123456, 0) == 1
    assert hip.lib.hipSetDevice(1) == 101 and hip.lib.hipGetLastError() == 101 and hip.lib.hipGetLastError() == 0
    assert hip.lib.hipGetErrorName(720) == b"hipErrorCooperativeLaunchTooLarge"


def test_memory(hip):
    free, total = size_t(), size_t()
    hip.check(hip.lib.hipMemGetInfo(byref(free), byref(total)))
    before = free.value
    p = hip.malloc(1 << 20)
    hip.check(hip.lib.hipMemGetInfo(byref(free), byref(total)))
    assert total.value == 32 << 30 and before - free.value == 1 << 20
    hip.check(hip.lib.hipMemsetD32(P(p), c_int(0x01020304), size_t(100)))
    hip.check(hip.lib.hipMemset(P(p + 400), c_int(7), size_t(400)))
    assert (hip.download(p, 100, np.uint32) == 0x01020304).all() and (hip.download(p + 400, 400, np.uint8) == 7).all()
    a = np.zeros(4, np.uint8)
    assert hip.lib.hipMemcpy(a.ctypes.data_as(P), P(p + (1 << 20) - 2), size_t(4), 2) == 1  # past the end
    assert hip.lib.hipMemcpy(P(p), a.ctypes.data_as(P), size_t(4), 9) == 21
    attr = (ctypes.c_uint64 * 5)()
    hip.check(hip.lib.hipPointerGetAttributes(attr, P(p)))
    assert attr[0] & 0xFFFFFFFF == 2 and attr[1] == p
    base, n = P(), size_t()
    hip.check(hip.lib.hipMemGetAddressRange(byref(base), byref(n), P(p + 100)))
    assert (base.value, n.value) == (p, 1 << 20)
    hip.free(p)
    assert hip.lib.hipFree(P(p)) == 1  # twice
    big = P()
    assert hip.lib.hipMalloc(byref(big), size_t(33 << 30)) == 2 and not big.value
    h = np.arange(64, dtype=np.float32)
    hip.check(hip.lib.hipHostRegister(h.ctypes.data_as(P), size_t(h.nbytes), 0))
    assert hip.lib.hipHostRegister(h.ctypes.data_as(P), size_t(4), 0) == 712
    hip.check(hip.lib.hipHostUnregister(h.ctypes.data_as(P)))
    assert hip.lib.hipHostUnregister(h.ctypes.data_as(P)) == 713


def test_module_and_function(hip, mod):
    m, f = P(), P()
    assert hip.lib.hipModuleLoad(byref(m), b"/nonexistent") == 301
    assert hip.lib.hipModuleLoadData(byref(m), b"not an object" + bytes(100)) == 200
    assert hip.lib.hipModuleGetFunction(byref(f), mod, b"no_such_kernel") == 500
    f = hip.function(mod, "vadd")
    assert f.value == hip.function(mod, "vadd").value
    n = c_int()
    for attr, want in ((0, 256), (1, 0), (3, 0)):
        hip.check(hip.lib.hipFuncGetAttribute(byref(n), attr, f))
        assert n.value == want
    hip.check(hip.lib.hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(byref(n), f, 256, size_t(0)))
    assert n.value == 8  # 64 waves a WGP
    hip.check(hip.lib.hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(byref(n), f, 256, size_t(40000)))
    assert n.value == 3  # 128 KiB of LDS
    assert hip.launch(f, 1, 512, [0, 0, 0, c_int(0)]) == 9
    assert hip.launch(f, 257, 256, [0, 0, 0, c_int(0)], coop=True) == 720


def test_launch_by_packed_buffer(hip, mod):
    f, pa, pb, pc, a, _ = vadd(hip, mod)
    buf = ctypes.create_string_buffer(struct.pack("<QQQi", pa, pb, pc, 256))
    n = size_t(28)
    extra = (P * 5)(1, ctypes.addressof(buf), 2, ctypes.addressof(n), 3)
    one = c_uint(1)
    hip.check(hip.lib.hipModuleLaunchKernel(f, one, one, one, c_uint(256), one, one, c_uint(0), None, None, extra))
    assert (hip.download(pc, 256, np.float32) == a + 1).all()


def test_streams_events(hip, mod):
    s, e0, e1, ms = P(), P(), P(), ctypes.c_float()
    hip.check(hip.lib.hipStreamCreateWithFlags(byref(s), 1))
    for e in (e0, e1):
        hip.check(hip.lib.hipEventCreate(byref(e)))
    assert hip.lib.hipEventElapsedTime(byref(ms), e0, e1) == 400  # not recorded yet
    _, _, _, pc, a, go = vadd(hip, mod, s)
    hip.check(hip.lib.hipEventRecord(e0, s))
    hip.check(go())
    hip.check(hip.lib.hipEventRecord(e1, s))
    hip.check(hip.lib.hipStreamWaitEvent(s, e1, 0))
    hip.check(hip.lib.hipEventSynchronize(e1))
    hip.check(hip.lib.hipEventElapsedTime(byref(ms), e0, e1))
    assert ms.value >= 0 and (hip.download(pc, 256, np.float32) == a + 1).all()
    for e in (e0, e1):
        hip.check(hip.lib.hipEventDestroy(e))
    hip.check(hip.lib.hipStreamDestroy(s))


def test_graph_by_capture(hip, mod):
    s, g, x = P(), P(), P()
    hip.check(hip.lib.hipStreamCreate(byref(s)))
    f, pa, pb, pc, a, go = vadd(hip, mod, s)
    out = np.zeros(256, np.float32)
    st = c_int()

    def capture(plus_ptr):
        graph = P()
        hip.check(hip.lib.hipStreamBeginCapture(s, 0))
        hip.check(hip.lib.hipStreamIsCapturing(s, byref(st)))
        assert st.value == 1
        hip.check(hip.lib.hipMemsetAsync(P(pc), c_int(0), size_t(1024), s))
        hip.check(hip.launch(f, 1, 256, [pa, plus_ptr, pc, c_int(256)], stream=s))
        hip.check(hip.lib.hipMemcpyAsync(out.ctypes.data_as(P), P(pc), size_t(1024), 2, s))
        hip.check(hip.lib.hipStreamEndCapture(s, byref(graph)))
        return graph

    g = capture(pb)
    assert (out == 0).all()  # nothing ran yet
    n = size_t()
    hip.check(hip.lib.hipGraphGetNodes(g, None, byref(n)))
    assert n.value == 3
    hip.check(hip.lib.hipGraphInstantiate(byref(x), g, None, None, size_t(0)))
    for _ in range(2):
        out[:] = 0
        hip.check(hip.lib.hipGraphLaunch(x, s))
        assert (out == a + 1).all()
    other = hip.upload(np.full(256, 5, np.float32))
    g2, bad, res = capture(other), P(), c_int()
    hip.check(hip.lib.hipGraphExecUpdate(x, g2, byref(bad), byref(res)))
    hip.check(hip.lib.hipGraphLaunch(x, s))
    assert res.value == 0 and (out == a + 5).all()
    hip.check(hip.lib.hipStreamBeginCapture(s, 0))
    hip.check(hip.launch(f, 1, 256, [pa, pb, pc, c_int(256)], stream=s))
    g3 = P()
    hip.check(hip.lib.hipStreamEndCapture(s, byref(g3)))
    assert hip.lib.hipGraphExecUpdate(x, g3, byref(bad), byref(res)) == 910 and res.value == 2
    hip.check(hip.lib.hipStreamBeginCapture(s, 0))
    assert hip.lib.hipStreamSynchronize(s) == 900
    assert hip.lib.hipStreamEndCapture(s, byref(g3)) == 901
    assert hip.lib.hipStreamEndCapture(s, byref(g3)) == 401
    for d in (g, g2):
        hip.check(hip.lib.hipGraphDestroy(d))
    hip.check(hip.lib.hipGraphExecDestroy(x))
    hip.check(hip.lib.hipStreamDestroy(s))


SCRIPT = """
import ctypes, sys
sys.path.insert(0, {here!r})
import numpy as np, simhip
hip = simhip.Hip()
m = hip.module({obj!r})
p, o = hip.upload(np.zeros(256, np.float32)), hip.malloc(1024)
f = hip.function(m, "vadd")
hip.free(p)
print(hip.launch(f, 1, 256, [p, p, o, ctypes.c_int(256)]), hip.lib.hipDeviceSynchronize(), hip.lib.ie_sim_report().decode())
"""


def test_use_after_free_is_sticky(mod):
    """In a process of its own: after a fault every call reports it, as on a card."""
    obj = str(simhip.build(KERNELS / "arith.c", BUILD / "sim" / "kernels", 3))
    r = subprocess.run([sys.executable, "-c", SCRIPT.format(here=str(KERNELS.parents[1] / "e2e"), obj=obj)], capture_output=True, text=True)
    assert r.stdout.startswith("700 700 "), r.stdout + r.stderr
    assert "byte 0 of freed device buffer" in r.stdout and "kernel vadd" in r.stdout
