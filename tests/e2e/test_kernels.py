"""What the compiler made of the GPU's kernels: registers, LDS and scratch against kernels/budgets.txt; instructions that decode must not
hold."""
import re
import subprocess

import pytest

import simhip
from conftest import BUILD, ROOT

HSACO = BUILD / "ie_kernels.hsaco"
pytestmark = pytest.mark.skipif(not HSACO.exists(), reason="skip: no build/ie_kernels.hsaco (make kernels)")
ROW = re.compile(r"^(\w+): \d+ bytes of arguments, (\d+) VGPRs, (\d+) of LDS, (\d+) of scratch")


def made():
    out = subprocess.run([BUILD / "sim" / "simrun", "--list", HSACO], capture_output=True, text=True, check=True).stdout
    return {m[1]: tuple(map(int, m.groups()[1:])) for m in map(ROW.match, out.splitlines()) if m}


def test_budgets():
    kernels, rows = made(), [line.split() for line in (ROOT / "kernels" / "budgets.txt").read_text().splitlines() if line and line[0] != "#"]
    assert len(kernels) >= len(rows) > 0
    for name, vgprs, lds in rows:
        assert name in kernels, f"budgets.txt: there is no kernel {name}"
        v, l, _ = kernels[name]
        assert v <= int(vgprs) and l <= int(lds), f"{name}: {v} VGPRs, {l} of LDS; allowed are {vgprs}, {lds}"
    assert not [k for k, v in kernels.items() if v[2]], "kernels that use scratch"


def test_instructions():
    if simhip.compiler() is None:
        pytest.skip("no clang for gfx1201 (pip install ziglang==0.17.1)")
    text = subprocess.run(["make", "-s", f"BUILD={BUILD}", "kernel-text"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert "v_fma" in text and "ie_attn_split" in text
    for bad in ("v_exp_f", "v_log_f", "v_sin_f", "v_cos_f", "flat_load", "flat_store", "scratch_", "ds_bpermute", "ds_permute"):
        found = re.findall(rf"^\s+{bad}\w*.*$", text, re.M)
        assert not found, f"{len(found)} of {bad}: {found[0]}"
