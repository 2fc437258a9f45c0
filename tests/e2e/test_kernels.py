"""What the compiler made of the GPU's kernels: registers, LDS and scratch against kernels/budgets.txt; instructions against
kernels/instructions.txt."""
import json
import os
import re
import shutil
import subprocess

import pytest

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


def check(*args, **kw):
    return subprocess.run([ROOT / "tools" / "check_objdump.sh", *args], capture_output=True, text=True, env={**os.environ, "BUILD": str(BUILD)}, **kw)


def test_instructions():
    r = check()
    assert r.returncode == 0, r.stdout + r.stderr
    assert re.fullmatch(r"\d+ kernels as they should be\n", r.stdout)


@pytest.mark.parametrize("was, becomes, says", [
    ("v_wmma_i32_16x16x16_iu8", "v_nop", "ie_gemv_q4_0_t8: no loop with 32 of v_wmma_i32_16x16x16_iu8"),
    ("v_dot4_i32_iu8", "v_dot2_f32_f16", "ie_gemv_q4_0: no loop with 64 of v_dot4_i32_iu8"),
    ("global_load_b128", "global_load_b32", "ie_gemv_q4_0: 0 of global_load_b128 in the main loop, at least 8 are asked for"),
    ("s_wait_loadcnt 0x", "s_wait_loadcnt 0x0 ; 0x", "ie_gemv_q4_0: a wait in the main loop leaves 0 loads under way, at least 2 are asked for"),
    ("v_cvt_f32_i32_e32", "v_exp_f32_e32", r"ie_gemv_q4_0: has \d+ of v_exp_f, at most 0 are allowed"),
    ("global_load_b32", "flat_load_b32", r"\w+: has \d+ of flat_, at most 0 are allowed"),
    ("ie_read:", "other:", "kernels/instructions.txt: no kernel is named ie_read"),
])
def test_the_check_notices(was, becomes, says):
    text = subprocess.run([BUILD / "sim" / "simrun", "--text", HSACO], capture_output=True, text=True, check=True).stdout
    if not says.startswith("kernels"):
        text = "".join(re.findall(r"^ie_gemv_q4_0(?:_t8)?:\n(?: .*\n)+", text, re.M))
    assert was in text
    r = check("-", input=text.replace(was, becomes))
    assert r.returncode == 1 and re.search(rf"^{says}$", r.stdout, re.M), r.stdout[:2000] + r.stderr


# ---- NVIDIA ----

PTX = BUILD / "ie_kernels.ptx"
SEVERAL = re.compile(r"^\.visible \.entry (ie_gemv_\w+_t(?:8|16))\([^)]*\)[^\n]*\n(.*?)^\{(.*?)^\}", re.M | re.S)


def test_ptx_of_several_tokens():
    kernels = SEVERAL.findall(PTX.read_text())
    assert len(kernels) == 24
    for name, bounds, body in kernels:
        assert bounds.split() == [".maxntid", "256", ".minnctapersm", "2"], name
        assert "mma.sync.aligned.m16n8k" in body and "ldmatrix.sync" in body and "dp4a" not in body, name


@pytest.mark.parametrize("name", ["ie_gemv_q4_k_t16", "ie_gemv_q6_k_t8", "ie_gemv_iq4_nl_t8"])
def test_ptx_is_assembled(name):
    ptxas = shutil.which("ptxas") or shutil.which("ptxas", path="/usr/local/cuda/bin")
    if not ptxas:
        pytest.skip("no ptxas (CUDA toolkit)")
    r = subprocess.run([ptxas, "-arch=sm_80", "-v", "-e", name, PTX, "-o", os.devnull], capture_output=True, text=True, timeout=300)
    assert r.returncode == 0 and int(re.search(r"Used (\d+) registers", r.stderr)[1]) <= 128, r.stderr


def test_launches_that_overlap():
    """On NVIDIA a launch begins before the one before it is through: each kernel has to wait for it."""
    ptx = BUILD / "ie_kernels.ptx"
    kernels = re.split(r"^\.visible \.entry ", ptx.read_text(), flags=re.M)[1:]
    assert len(kernels) > 60
    for k in kernels:
        assert "//sm_90 griddepcontrol.wait;" in k, f"{k.split('(')[0]} does not wait (kernels/gpu.h: ie_dep_wait)"


def test_ptx_comes_apart():
    """src/gpu/ptx.c gives the driver a head and some of the kernels: between kernels stand only comments, and no kernel's text names another's things."""
    text = PTX.read_text()
    head, *kernels = re.split(r"^\.visible \.entry ", text, flags=re.M)
    code = lambda t: [line for line in t.splitlines() if line.strip() and not line.lstrip().startswith("//")]
    assert [line.split()[0] for line in code(head)] == [".version", ".target", ".address_size", ".extern"]
    for k in kernels:
        body, behind = k[:k.rindex("\n}\n") + 3], k[k.rindex("\n}\n") + 3:]
        assert not code(behind) and ".func" not in body, k.split("(")[0]


# ---- what matrix kernels ask for, by the simulator's figures (docs/KERNELS.md) ----

FORMATS = {"f32": 4, "f16": 2, "bf16": 2, "q4_0": 18 / 32, "q4_1": 20 / 32, "q5_0": 22 / 32, "q5_1": 24 / 32, "q8_0": 34 / 32, "q2_k": 84 / 256, "q3_k": 110 / 256,
           "q4_k": 144 / 256, "q5_k": 176 / 256, "q6_k": 210 / 256, "iq4_nl": 18 / 32, "iq4_xs": 136 / 256}


@pytest.fixture(scope="module")
def asked(ie, tmp_path_factory):
    """asked(shape, tokens): figures of one launch of each format's kernel."""
    made = {}

    def get(shape, tokens=1):
        if (shape, tokens) not in made:
            out = tmp_path_factory.mktemp("figures") / "f.json"
            ie.run("-b", "hip", "-t", tokens, "-r", 1, "-n", 1, "-m", 0, shape, program="tools/gemv_bench",
                   env={"LD_LIBRARY_PATH": str(BUILD / "sim"), "KIND": "all", "IE_SIM_STATS": str(out), "IE_SIM_SAMPLE": "6"})
            rows = {r["kernel"]: r for r in json.loads(out.read_text()) if r["kernel"] != "ie_read"}
            assert len(rows) == (15 if int(shape.split("x")[1]) % 256 == 0 else 9)
            made[shape, tokens] = {k.removeprefix("ie_gemv_").removesuffix(f"_t{tokens}"): r for k, r in rows.items()}
        return made[shape, tokens]
    return get


def test_weights_are_read_once(asked):
    """Each byte once, by full lines; enough under way on the whole card before the first wait; every wave has work; no LDS conflict."""
    for name, r in asked("4096x4096").items():
        assert r["load_bytes"] / r["launches"] == 4096 * 4096 * FORMATS[name], name
        assert r["load_bytes"] >= 0.98 * 128 * r["load_lines"], (name, r["load_bytes"] / 128 / r["load_lines"])
        assert r["bytes_before_wait"] * r["resident_waves"] >= 150e3, name
        assert r["loading_waves"] == r["waves"] and r["short_waves"] <= 0.1 * r["waves"], name
        assert r["lds_conflict_cycles"] == 0 < r["lds"], name
        assert r["issue_us"] < 0.9 * r["memory_us"], (name, r["issue_us"], r["memory_us"])


def short(r):
    """Waves of a launch without work, or with less than half of the busiest one's."""
    return (r["waves"] - r["loading_waves"] + r["short_waves"]) / r["waves"]


@pytest.mark.parametrize("shape", ["896x896", "896x4864", "1024x2048", "256x1536", "2048x1024", "1536x8960", "576x576", "576x1536"])
def test_small_matrices_leave_few_waves_without_work(asked, shape):
    for name, r in asked(shape).items():
        assert short(r) <= 0.1, name
        assert r["lds_conflict_cycles"] == 0, name


@pytest.mark.parametrize("cols", [288, 576, 800, 1152, 1280, 1536, 1792, 2304])
def test_rows_of_any_length_leave_few_waves_without_work(asked, cols):
    """Rows of 1 to 13 segments, with long and short last ones; by each kernel, also of several tokens."""
    for tokens in (1, 4, 8, 16):
        for name, r in asked(f"128x{cols}", tokens).items():
            assert short(r) <= 0.1, (tokens, name)


def test_activations_of_several_tokens(asked):
    """By scalar loads up to 4 tokens: vector loads are the weights alone; no LDS conflicts in the sums of 4, 8 and 16 tokens."""
    for tokens in (4, 8, 16):
        for name, r in asked("1024x2048", tokens).items():
            assert r["lds_conflict_cycles"] == 0, (tokens, name)
            if tokens == 4 and name not in ("f32", "f16", "bf16"):
                assert r["load_bytes"] / r["launches"] == 1024 * 2048 * FORMATS[name], name
