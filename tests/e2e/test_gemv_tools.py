"""gemv_eq and gemv_bench on the simulator of gfx1201: every format's products of 2 to 16 tokens have the bits of one token's; what they say of
arguments that they cannot use."""
import re

import pytest

from conftest import BUILD

SIM = {"LD_LIBRARY_PATH": str(BUILD / "sim")}


@pytest.fixture(scope="module", autouse=True)
def kernels():
    if not (BUILD / "ie_kernels.hsaco").exists():
        pytest.skip("no build/ie_kernels.hsaco (make kernels)")


def tool(ie, name, *args, kind=None, check=True):
    return ie.run(*args, program=f"tools/{name}", env={**SIM, **({"KIND": kind} if kind else {})}, check=check)


def test_equal_for_all_formats(ie):
    out = tool(ie, "gemv_eq", "-b", "hip", "-r", 0, "70x768").stdout.splitlines()
    assert len(out) == 15 and all(re.fullmatch(r"\w+ 70 x 768: 37800 sums of 2 to 16 tokens equal those of one", line) for line in out)


def test_times(ie):
    out = tool(ie, "gemv_eq", "-b", "hip", "-r", 1, "-m", 1, "64x256", kind="Q4K").stdout
    assert re.fullmatch(r"Q4_K 64 x 256: 34560 sums [^;]*; 1 token [\d.]+ us \(\d+ GB/s\)(, \d+ tokens [\d.]+ \([\d.]+ x\)){5}\n", out)


def test_bench(ie):
    out = tool(ie, "gemv_bench", "-b", "hip", "-r", 1, "-n", 3, "-m", 1, "-t", "1,7", "40x512", "32x544", kind="q6_k,iq4nl").stdout.splitlines()
    assert len(out) == 5 and out[0].endswith("gfx1201, 64 units") and out[3] == "Q6_K        32 x 544   skip: rows of this format are multiples of 256"
    for line in (out[1], out[2], out[4]):
        assert re.fullmatch(r"\w+ +\d+ x \d+ +0\.0 MB  read +[\d.]+ us +\d+ GB/s(  \| +[17]: +[\d.]+ us +\d+ GB/s +\d+ % +[\d.]+ x){2}", line), line


@pytest.mark.parametrize("name, args, kind, says", [
    ("gemv_eq", ["40x"], None, "shape '40x': ROWSxCOLS, at most 2097152x65536, is allowed"),
    ("gemv_eq", ["40x32"], "q6k", "shape 40 x 32: Q6_K rows of 1 to 65536 weights, multiples of 256, at most 2097152 of them, are allowed"),
    ("gemv_eq", ["-b", "cpu", "40x32"], None, "backend 'cpu': hip, cuda and gpu are allowed"),
    ("gemv_eq", ["-k", "/nowhere", "40x32"], None, "file '/nowhere' cannot be opened: No such file or directory"),
    ("gemv_bench", ["40x32"], "q7", "KIND 'q7': all, or some of F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL, IQ4_XS are allowed"),
    ("gemv_bench", ["-t", "1,17"], None, None),
])
def test_arguments(ie, name, args, kind, says):
    r = tool(ie, name, *(["-b", "hip"] if "-b" not in args else []), *args, kind=kind, check=False)
    assert r.returncode == 2 and (r.stderr == f"{name}: {says}\n" if says else r.stderr.startswith("usage: "))
