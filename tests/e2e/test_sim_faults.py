"""Planted faults: the simulator must name each, with kernel, place and instruction; and correct kernels must pass all modes."""
import os
import subprocess

import numpy as np
import pytest

import simhip
from simhip import BUILD, KERNELS

pytestmark = pytest.mark.skipif(simhip.compiler() is None, reason="skip: no clang for gfx1201 (pip install ziglang==0.17.1)")


@pytest.fixture(scope="module")
def obj():
    d = BUILD / "sim" / "kernels"
    d.mkdir(parents=True, exist_ok=True)
    return simhip.build(KERNELS / "faults.c", d, 3, extra=["-gline-tables-only"])


def run(obj, kernel, args, *options, grid=1, block=64):
    cmd = [str(BUILD / "sim" / "simrun"), "--grid", str(grid), "--block", str(block), *options, str(obj), kernel, *args]
    env = {k: v for k, v in os.environ.items() if not k.startswith("IE_SIM_")}
    return subprocess.run(cmd, capture_output=True, text=True, env=env, timeout=120)


@pytest.fixture()
def a(tmp_path):
    p = tmp_path / "a.bin"
    np.arange(64, dtype=np.uint32).tofile(p)
    return f"in:{p}"


def test_good_kernel_passes(obj, a, tmp_path):
    for mode in ([], ["--strict"], ["--race"], ["--weak", "3"], ["--strict", "--race", "--weak", "9"]):
        r = run(obj, "good", [a, f"out:{tmp_path}/o.bin:256"], *mode)
        assert r.returncode == 0, r.stderr
        assert (np.fromfile(tmp_path / "o.bin", np.uint32) == np.arange(64) + 1).all()


FAULTS = [  # kernel, options, block, words of the report
    ("out_of_bounds_load", [], 64, ["global load of 4 bytes out of bounds", "lane 16", "past the end of buffer", "wave 1", "faults.c:"]),
    ("out_of_bounds_store", [], 64, ["global store of 4 bytes out of bounds", "past the end of buffer"]),
    ("null_pointer", [], 64, ["out of bounds", "address 0x0"]),
    ("misaligned", ["--strict"], 64, ["misaligned load", "lane 1"]),
    ("unwritten_lds", ["--strict"], 64, ["LDS byte 256 is read but was never written"]),
    ("lds_out_of_bounds", [], 64, ["LDS load of 4 bytes", "out of bounds"]),
    ("missing_barrier", ["--race"], 64, ["race: ", "LDS"]),
    ("missing_barrier_after", ["--race"], 64, ["race: ", "LDS", "with no barrier or atomic between"]),
    ("missing_wait", ["--strict"], 32, ["is used before its load was waited for (s_wait_loadcnt)"]),
    ("missing_wait_scalar", ["--strict"], 32, ["is used before its load was waited for (s_wait_kmcnt)"]),
    ("unknown_opcode", [], 32, ["unknown instruction", "unknown_opcode+0x", "d7ffffff"]),
    ("sunk_reduction", ["--strict"], 32, ["v_permlanex16_b32 reads lane", "not active"]),
    ("inactive_bpermute", ["--strict"], 32, ["bpermute reads lane", "not active"]),
    ("lanes_apart", ["--strict"], 64, ["lanes apart at a barrier"]),
    ("unwritten_register", ["--strict"], 32, ["was never written, and is stored to memory"]),
    ("scratch_overflow", [], 32, ["scratch store", "out of bounds"]),
    ("endless", ["--limit", "100000"], 32, ["more instructions than its limit"]),
    ("trap", [], 32, ["trap 2"]),
    ("jump_wild", [], 32, ["where no instruction starts"]),
]


@pytest.mark.parametrize("kernel,options,block,words", FAULTS, ids=[f[0] for f in FAULTS])
def test_fault(obj, a, tmp_path, kernel, options, block, words):
    r = run(obj, kernel, [a, f"out:{tmp_path}/o.bin:{512 if 'after' in kernel else 256}"], *options, block=block)
    assert r.returncode == 3, (r.returncode, r.stderr)
    for w in words + [f"kernel {kernel}"]:
        assert w in r.stderr, r.stderr
    assert r.stderr.count("\n") < 12


# The text of clang19.s as clang 19 wrote it, from `llvm-objcopy -O binary -j .text`.
CLANG19 = """f4004000 f8000000 30020082 bfc70000 ee050000 00000001 00000001 be80007e bfc00000 060202fa ff096101 bf870091 060202fa
ff096201 060202fa ff096401 bf870001 7e0402fa ff096801 7d940080 bfa5000e bf8700a2 06000501 be8000ff 76543210 ca100080 02000100
bf870091 d65c0001 03fc0101 fedcba98 06000300 ee068002 00000000 00000002 bf800000 bfb60003 bfb00000"""


def test_reduction_that_clang_19_miscompiles(tmp_path):
    """That compiler's machine code is reported in strict mode, and gives a wrong sum without; a later compiler's is right."""
    d = BUILD / "sim" / "kernels"
    d.mkdir(parents=True, exist_ok=True)
    old = simhip.build(KERNELS / "clang19.s", d, 0)
    words = [int(w, 16) for w in CLANG19.split()]
    assert np.array(words, np.uint32).tobytes() in old.read_bytes()
    np.arange(32, dtype=np.float32).tofile(tmp_path / "x.bin")
    args = [f"in:{tmp_path}/x.bin", f"out:{tmp_path}/s.bin:128"]
    r = run(old, "wave_total", args, "--strict", block=32)
    assert r.returncode == 3 and "v_permlanex16_b32 reads lane 16, which is not active" in r.stderr, r.stderr
    assert "kernel wave_total" in r.stderr and "wave 0" in r.stderr and "lane 0" in r.stderr, r.stderr
    r = run(old, "wave_total", args, block=32)
    assert r.returncode == 0 and np.fromfile(tmp_path / "s.bin", np.float32)[0] != 31 * 16, r.stderr
    new = simhip.build(KERNELS / "waves.c", d, 3)
    r = run(new, "dpp_sum", args, "--strict", block=32)
    assert r.returncode == 0, r.stderr


def test_unwritten_device_memory(obj, tmp_path):
    r = run(obj, "unwritten_device", [f"new:{tmp_path}/a.bin:256", f"out:{tmp_path}/o.bin:256"], "--strict")
    assert r.returncode == 3 and "device memory is read but was never written" in r.stderr, r.stderr


def test_global_race(obj, a, tmp_path):
    out = f"out:{tmp_path}/o.bin:256"
    assert run(obj, "global_race", [a, out], "--race").returncode == 0
    r = run(obj, "global_race", [a, out], "--race", grid=2)
    assert r.returncode == 3 and "race: store of device memory" in r.stderr, r.stderr


def test_oversized_cooperative_grid(obj, a, tmp_path):
    # 16 waves a SIMD, 4 SIMDs, 2 waves a workgroup: 32 workgroups a WGP, 1024 in all.
    out = f"out:{tmp_path}/o.bin:256"
    assert run(obj, "good", [a, out], "--coop", grid=1024).returncode == 0
    r = run(obj, "good", [a, out], "--coop", grid=1025)
    assert r.returncode == 3 and "cooperative grid of 1025 workgroups, but only 1024" in r.stderr, r.stderr


@pytest.mark.parametrize("config", [("--block", "1025"), ("--block", "0"), ("--grid", "0"), ("--lds", "70000")])
def test_bad_configuration(obj, a, tmp_path, config):
    r = run(obj, "good", [a, f"out:{tmp_path}/o.bin:256"], *config)
    assert r.returncode == 3 and "kernel good" in r.stderr, r.stderr


def grid(obj, tmp_path, kernel, seed):
    groups, n = 8, 8 * 128
    p = tmp_path / "ga.bin"
    v = np.arange(1, n + 1, dtype=np.uint32)
    v.tofile(p)
    mode = ["--weak", str(seed)] if seed else []
    r = run(obj, kernel, [f"in:{p}", f"out:{tmp_path}/go.bin:{4 * n}", f"buf:{4 * n}", "buf:256", f"u32:{groups}"], *mode, "--coop", grid=groups, block=128)
    assert r.returncode == 0, r.stderr
    return (np.fromfile(tmp_path / "go.bin", np.uint32) == np.roll(v, -128)).all()


def test_grid_barrier_under_weak_memory(obj, tmp_path):
    for kernel in ("grid_ok", "grid_one_release", "grid_no_acquire"):
        assert grid(obj, tmp_path, kernel, 0), kernel  # without the adversary none is seen
    seeds = range(2, 12)
    assert all(grid(obj, tmp_path, "grid_ok", s) for s in seeds)
    assert not all(grid(obj, tmp_path, "grid_one_release", s) for s in seeds)
    assert not all(grid(obj, tmp_path, "grid_no_acquire", s) for s in seeds)


def test_same_bytes_whatever_the_threads(obj, tmp_path):
    """Results and figures do not depend on host threads or vector level."""
    a = tmp_path / "x.bin"
    np.random.default_rng(1).standard_normal(64 * 256, np.float32).tofile(a)
    mod = simhip.build(KERNELS / "waves.c", BUILD / "sim" / "kernels", 3)
    seen = set()
    for threads in (1, 2, 5):
        for level in (0, 1, 2):
            cmd = [str(BUILD / "sim" / "simrun"), "--threads", str(threads), "--grid", "64", "--block", "256"]
            env = dict(os.environ, IE_SIM_VECTOR=str(level))
            r = subprocess.run(cmd + [str(mod), "lds_sum", f"in:{a}", f"out:{tmp_path}/y.bin:256"], capture_output=True, text=True, env=env)
            assert r.returncode == 0, r.stderr
            seen.add((tmp_path / "y.bin").read_bytes())
    assert len(seen) == 1


def test_figures(obj, a, tmp_path):
    import csv
    import json

    n = 64 * 256
    x = tmp_path / "x.bin"
    np.zeros(n, np.float32).tofile(x)
    mod = simhip.build(KERNELS / "waves.c", BUILD / "sim" / "kernels", 3)
    args = [f"in:{x}", f"out:{tmp_path}/y.bin:256"]
    seen = []
    for threads in ("1", "3"):
        for end in ("json", "csv"):
            r = run(mod, "lds_sum", args, f"--stats={tmp_path}/s.{end}", "--threads", threads, grid=64, block=256)
            assert r.returncode == 0, r.stderr
            if end == "json":
                row = json.loads((tmp_path / "s.json").read_text())[0]
            else:
                row = next(csv.DictReader((tmp_path / "s.csv").open()))
            seen.append({k: str(v) for k, v in row.items()})
    assert all(s == seen[0] for s in seen)
    f = seen[0]
    assert f["kernel"] == "lds_sum" and f["launches"] == "1" and f["waves"] == str(64 * 8) and f["workgroups"] == "64"
    assert int(f["load_bytes"]) == 4 * n and int(f["distinct_lines"]) == 4 * n // 128 + 2 and int(f["store_bytes"]) == 64 * 4
    assert int(f["load_lines"]) == 4 * n // 128 and f["lds_conflict_cycles"] == "0"
    assert int(f["lds"]) > 0 and int(f["valu"]) > 0 and int(f["barrier"]) > 0 and float(f["bound_us"]) > 0
    r = run(mod, "lds_sum", args, "--stats", grid=64, block=256)
    assert "lds_sum" in r.stderr and "wave instructions" in r.stderr


def test_figures_of_a_sample(a, tmp_path):
    """Some workgroups stand for all: the same sums where workgroups are alike; each line is new at its first launch only."""
    import json

    x = tmp_path / "x.bin"
    np.zeros(64 * 256, np.float32).tofile(x)
    mod = simhip.build(KERNELS / "waves.c", BUILD / "sim" / "kernels", 3)

    def figures(*more):
        out = tmp_path / "f.json"
        r = run(mod, "lds_sum", [f"in:{x}", f"out:{tmp_path}/y.bin:256"], f"--stats={out}", *more, grid=64, block=256)
        assert r.returncode == 0, r.stderr
        return json.loads(out.read_text())[0]

    whole, some = figures(), figures("--sample", "8")
    same = ("launches", "workgroups", "waves", "valu", "load_bytes", "load_lines", "fresh_lines", "loading_waves", "short_waves", "bytes_before_wait", "alone_us")
    assert {k: whole[k] for k in same} == {k: some[k] for k in same}
    assert whole["fresh_lines"] == 64 * 1024 // 128 and whole["written_lines"] == 2 and whole["loading_waves"] == 512 and whole["short_waves"] == 0
    assert whole["resident_waves"] == 512 and whole["bytes_before_wait"] == 128
    assert 0.226 < whole["alone_us"] < 3
    twice = figures("--repeat", "2")
    assert twice["fresh_lines"] == whole["fresh_lines"] and twice["load_lines"] == 2 * whole["load_lines"]


def test_trace(obj, a, tmp_path):
    r = run(obj, "good", [a, f"out:{tmp_path}/o.bin:256"], "--trace", block=32)
    lines = r.stderr.splitlines()
    assert r.returncode == 0 and "s_load_b128" in lines[0] and lines[-1].split()[2] == "s_endpgm"
    add = [x for x in lines if "v_add_nc_u32" in x]
    assert add and add[-1].rstrip().endswith("[0]=00000001")
