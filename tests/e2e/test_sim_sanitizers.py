"""The simulator built with AddressSanitizer and UBSan, and with ThreadSanitizer: its HIP library in this Python (the runtime preloaded) on
every test kernel at -O3 with several host threads, and simrun on the planted faults, races, weak memory and cooperative grids."""
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import simhip
from simhip import BUILD, ROOT

pytestmark = pytest.mark.skipif(simhip.compiler() is None, reason="skip: no clang for gfx1201 (pip install ziglang==0.17.1)")
HERE = Path(__file__).parent
CC = os.environ.get("CC", "cc")
# As the main Makefile builds the unit tests, so that objects are shared with them.
KINDS = {"asan": ("-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer", "libasan.so"), "tsan": ("-fsanitize=thread", "libtsan.so")}


@pytest.fixture(scope="module", params=KINDS)
def built(request):
    """(environment, path of the sanitizer's runtime) for tests that run on a build of this kind."""
    flags, lib = KINDS[request.param]
    runtime = subprocess.run([CC, f"-print-file-name={lib}"], capture_output=True, text=True, check=True).stdout.strip()
    if not os.path.isabs(runtime):
        pytest.skip(f"skip: {CC} has no {lib}")
    out = BUILD / request.param
    r = subprocess.run(["make", "-s", "-C", str(ROOT), f"BUILD={out}", "OPT=-O1", f"SANITIZE={flags}", f"CC={CC}", "sim"], capture_output=True, text=True)
    assert r.returncode == 0, r.stderr
    # Code objects are compiled without the runtime preloaded.
    kernels = BUILD / "sim" / "kernels"
    kernels.mkdir(parents=True, exist_ok=True)
    for name in ("arith", "waves", "matrix"):
        simhip.build(simhip.KERNELS / f"{name}.c", kernels, 3)
    simhip.build(simhip.KERNELS / "faults.c", kernels, 3, extra=["-gline-tables-only"])
    simhip.build(simhip.KERNELS / "clang19.s", kernels, 0)
    shutil.copytree(kernels, out / "sim" / "kernels", dirs_exist_ok=True)
    env = {k: v for k, v in os.environ.items() if not k.startswith("IE_SIM_")}
    env |= {"IE_BUILD": str(out), "ASAN_OPTIONS": "detect_leaks=0", "TSAN_OPTIONS": "halt_on_error=1"}  # Python itself leaks
    return env, runtime


def passes(env, *args):
    r = subprocess.run([sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *args], env=env, capture_output=True, text=True, timeout=600)
    assert r.returncode == 0 and " passed" in r.stdout and "skipped" not in r.stdout, r.stdout[-3000:] + r.stderr[-3000:]
    return r


@pytest.mark.parametrize("mode", [{"IE_SIM_STRICT": "0", "IE_SIM_THREADS": "4"}, {"IE_SIM_STRICT": "1", "IE_SIM_RACE": "1", "IE_SIM_WEAK": "7"}], ids=["threads", "checks"])
def test_hip_library(built, mode):
    env, runtime = built
    passes(env | mode | {"LD_PRELOAD": runtime}, "-k", "O3", str(HERE / "test_sim.py"))


def test_faults(built):
    passes(built[0], str(HERE / "test_sim_faults.py"))


def test_sanitizer_is_there(built):
    """A library built this way asks for its runtime: the runs above had it."""
    env, runtime = built
    r = subprocess.run(["ldd", str(Path(env["IE_BUILD"]) / "sim" / "simrun")], capture_output=True, text=True, check=True)
    assert Path(runtime).stem in r.stdout
