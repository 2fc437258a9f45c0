"""All test kernels again under each checking mode and vector level; code object versions; offload bundles; the ULP seed."""
import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import simhip
from simhip import BUILD, KERNELS

pytestmark = pytest.mark.skipif(simhip.compiler() is None, reason="skip: no clang for gfx1201 (pip install ziglang==0.17.1)")
HERE = Path(__file__).parent

MODES = [
    {"IE_SIM_STRICT": "0"}, {"IE_SIM_STRICT": "0", "IE_SIM_RACE": "1"}, {"IE_SIM_STRICT": "0", "IE_SIM_WEAK": "5"},
    {"IE_SIM_STRICT": "1", "IE_SIM_RACE": "1", "IE_SIM_WEAK": "6"}, {"IE_SIM_STRICT": "0", "IE_SIM_VECTOR": "1"},
    {"IE_SIM_STRICT": "0", "IE_SIM_VECTOR": "0"}, {"IE_SIM_STRICT": "0", "IE_SIM_THREADS": "3"},
]


@pytest.mark.parametrize("mode", MODES, ids=["-".join(f"{k[7:].lower()}{v}" for k, v in m.items()) for m in MODES])
def test_kernels_under(mode):
    env = {k: v for k, v in os.environ.items() if not k.startswith("IE_SIM_")} | mode
    r = subprocess.run([sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", str(HERE / "test_sim.py")], env=env, capture_output=True,
                       text=True, timeout=600)
    assert r.returncode == 0, r.stdout[-3000:]
    assert " passed" in r.stdout and "skipped" not in r.stdout


def simrun(*args, env=None):
    clean = {k: v for k, v in os.environ.items() if not k.startswith("IE_SIM_")} | (env or {})
    return subprocess.run([str(BUILD / "sim" / "simrun"), *map(str, args)], capture_output=True, text=True, env=clean, timeout=120)


@pytest.fixture()
def data(tmp_path):
    x = np.linspace(-4, 4, 256, dtype=np.float32)
    x.tofile(tmp_path / "x.bin")
    return tmp_path


def out_dir():
    d = BUILD / "sim" / "kernels"
    d.mkdir(parents=True, exist_ok=True)
    return d


# Runs the test kernels at -O3 and prints a hash of every result, in order.
DIGEST = """
import hashlib, sys
sys.path.insert(0, sys.argv[1])
import pytest, test_sim
h, run = hashlib.sha256(), test_sim.Kernels.run
def hashed(*args, **kw):
    r = run(*args, **kw)
    for x in r if isinstance(r, list) else [r]:
        h.update(x.tobytes())
    return r
test_sim.Kernels.run = hashed
rc = pytest.main(["-q", "-p", "no:cacheprovider", "-k", "O3", sys.argv[1] + "/test_sim.py"])
print(rc, h.hexdigest())
"""


def test_same_results_and_figures_whatever_the_threads(tmp_path):
    """All test kernels: the bytes of every result, and the figures, with 1, 2 and 5 host threads and again with 5."""
    seen = set()
    for turn, threads in enumerate((1, 2, 5, 5)):
        figures = tmp_path / f"{turn}.csv"
        env = {k: v for k, v in os.environ.items() if not k.startswith("IE_SIM_")} | {"IE_SIM_STRICT": "0", "IE_SIM_THREADS": str(threads),
                                                                                     "IE_SIM_STATS": str(figures)}
        r = subprocess.run([sys.executable, "-c", DIGEST, str(HERE)], env=env, capture_output=True, text=True, timeout=300)
        last = r.stdout.splitlines()[-1]
        assert last.startswith("0 ") or "ExitCode.OK" in last, r.stdout[-2000:] + r.stderr[-2000:]
        assert figures.read_text().count("\n") > 25
        seen.add((last, figures.read_text()))
    assert len(seen) == 1


def test_variables_of_the_environment(data):
    """Each does what its option does."""
    faults = simhip.build(KERNELS / "faults.c", out_dir(), 3, extra=["-gline-tables-only"])
    arith = simhip.build(KERNELS / "arith.c", out_dir(), 3)
    one = [f"in:{data}/x.bin", f"out:{data}/o.bin:256"]
    for name, value, kernel, block, words in [
        ("STRICT", 1, "unwritten_lds", 64, "was never written"), ("RACE", 1, "missing_barrier", 64, "race: "),
        ("LIMIT", 100000, "endless", 32, "more instructions than its limit")]:
        if name != "LIMIT":
            assert simrun("--block", block, faults, kernel, *one).returncode == 0, name
        r = simrun("--block", block, faults, kernel, *one, env={f"IE_SIM_{name}": str(value)})
        assert r.returncode == 3 and words in r.stderr, (name, r.stderr)
    assert "s_endpgm" in simrun("--block", 32, faults, "good", *one, env={"IE_SIM_TRACE": "1"}).stderr
    assert "wave instructions" in simrun("--block", 64, faults, "good", *one, env={"IE_SIM_STATS": "1"}).stderr
    simrun("--block", 64, faults, "good", *one, env={"IE_SIM_STATS": f"{data}/f.json"})
    assert json.loads((data / "f.json").read_text())[0]["kernel"] == "good"
    ulp = []
    for seed in "011":
        assert simrun("--block", 64, "--grid", 4, arith, "special", one[0], f"out:{data}/o.bin:8192", env={"IE_SIM_ULP": seed}).returncode == 0
        ulp.append((data / "o.bin").read_bytes())
    assert ulp[0] != ulp[1] == ulp[2]
    np.arange(1, 1025, dtype=np.uint32).tofile(data / "g.bin")
    right = []
    for seed in range(12):
        r = simrun("--coop", "--grid", 8, "--block", 128, faults, "grid_one_release", f"in:{data}/g.bin", f"out:{data}/go.bin:4096", "buf:4096", "buf:256", "u32:8",
                   env={"IE_SIM_WEAK": str(seed)} if seed >= 2 else {})
        assert r.returncode == 0, r.stderr
        right.append((np.fromfile(data / "go.bin", np.uint32) == np.roll(np.arange(1, 1025, dtype=np.uint32), -128)).all())
    assert right[0] and not all(right)


@pytest.mark.parametrize("abi", [5, 6])
def test_code_object_versions(data, abi):
    obj = simhip.build(KERNELS / "arith.c", out_dir(), 3, abi=abi)
    r = simrun("--strict", "--block", 256, obj, "vadd", f"in:{data}/x.bin", f"in:{data}/x.bin", f"out:{data}/y.bin:1024", "i32:256")
    assert r.returncode == 0, r.stderr
    assert (np.fromfile(data / "y.bin", np.float32) == 2 * np.fromfile(data / "x.bin", np.float32)).all()


def test_offload_bundle(data):
    obj = simhip.build(KERNELS / "arith.c", out_dir(), 3).read_bytes()
    entries = [(b"host-x86_64-unknown-linux-gnu-", b""), (b"hipv4-amdgcn-amd-amdhsa--gfx1100", b"no ELF"), (b"hipv4-amdgcn-amd-amdhsa--gfx1201", obj)]

    def bundle(es):
        off, head, body = 4096, b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(es)), b""
        for name, content in es:
            head += struct.pack("<QQQ", off + len(body), len(content), len(name)) + name
            body += content
        return head.ljust(off, b"\0") + body

    (data / "b.hipfb").write_bytes(bundle(entries))
    r = simrun("--list", data / "b.hipfb")
    assert r.returncode == 0 and "vadd: 28 bytes of arguments" in r.stdout, r.stderr
    (data / "b.hipfb").write_bytes(bundle(entries[:2]))
    r = simrun("--list", data / "b.hipfb")
    assert r.returncode == 1 and "no entry for gfx1201" in r.stderr
    (data / "b.hipfb").write_bytes(bundle(entries)[:6000])
    assert simrun("--list", data / "b.hipfb").returncode == 1


def test_other_processor_is_refused(data):
    obj = bytearray(simhip.build(KERNELS / "arith.c", out_dir(), 3).read_bytes())
    obj[48] = 0x41  # gfx1100
    (data / "o.hsaco").write_bytes(obj)
    r = simrun("--list", data / "o.hsaco")
    assert r.returncode == 1 and "processor number is 0x41, expected 0x4e" in r.stderr


def test_ulp_seed(data):
    """Transcendental results move by at most one unit, differently for each seed, and the same for the same seed."""
    obj = simhip.build(KERNELS / "arith.c", out_dir(), 3)

    def run(seed):
        r = simrun("--ulp", seed, "--grid", 4, "--block", 64, obj, "special", f"in:{data}/x.bin", f"out:{data}/o.bin:8192")
        assert r.returncode == 0, r.stderr
        return np.fromfile(data / "o.bin", np.int32).reshape(256, 8)[:, :7]

    base, one, two = run(0), run(1), run(2)
    # sqrt, sin and cos are made of the instruction alone here; so are the others.
    for other in (one, two):
        d = np.abs(base.astype(np.int64) - other)
        assert d.max() == 1 and (d != 0).mean() > 0.3
    assert (one != two).any() and (run(1) == one).all()


def test_simrun_refuses_bad_arguments(data):
    obj = simhip.build(KERNELS / "arith.c", out_dir(), 3)
    for args, words in [
        ((obj, "nothing"), "no kernel 'nothing'"),
        ((obj, "vadd", "f32:1"), "argument 0 has 8 bytes"),
        ((obj, "vadd", "what"), "has no kind"),
        ((obj, "vadd", f"in:{data}/missing"), "missing: No such file"),
        ((data / "missing", "k"), "missing: No such file"),
        ((data / "x.bin", "k"), "not an ELF file"),
    ]:
        r = simrun(*args)
        assert r.returncode == 1 and words in r.stderr, r.stderr
    assert simrun().returncode == 2 and simrun("--nonsense", obj, "vadd").returncode == 2


@pytest.mark.parametrize("kernel", ["wmma_iu8", "wmma_iu4", "wmma_f16", "wmma_bf16", "wmma_fp8", "wmma_h16"])
def test_matrix_bits_whatever_the_vector_level(data, kernel):
    obj = simhip.build(KERNELS / "matrix.c", out_dir(), 3)
    for mask in (0xFF, 0xB7):  # all values, NaNs too; and without the largest exponents
        (np.random.default_rng(3).integers(0, 256, 16 * 64 * 2, dtype=np.uint8) & mask).tofile(data / "m.bin")
        seen = set()
        for level in (0, 1, 2):
            r = simrun("--block", 32, obj, kernel, f"in:{data}/m.bin", f"in:{data}/m.bin", f"out:{data}/d.bin:1024", "i32:64", env={"IE_SIM_VECTOR": str(level)})
            assert r.returncode == 0, r.stderr
            seen.add((data / "d.bin").read_bytes())
        assert len(seen) == 1
