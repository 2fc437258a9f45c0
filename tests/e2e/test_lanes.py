"""NVIDIA's kernels without a card: the same sources, each lane run in turn on this machine (tests/gpu/lanes), give the CPU backend's bits. What only
that card has is here: matrices that stream through LDS, matrix instructions on weights as they lie, tiles that workgroups share, attention whose
values come by copies."""
import re

import pytest

import tiny_qwen35
from conftest import BUILD, maker

LANES = {"LD_LIBRARY_PATH": str(BUILD / "tests" / "card")}


@pytest.fixture(scope="module", autouse=True)
def ready(ie):
    if not (BUILD / "ie_kernels.ptx").exists():
        pytest.skip("this build has no compiler for GPU code")
    out = ie.run("--list-devices", env=LANES).stdout
    assert "cuda 0  lanes on this CPU, sm_90, 8.6 GB, 5 units\n" in out


# 3 tiles, the last not whole, on 3 units; 7 tiles on 5 units: two are shared; 10 on 3: rings go round, slots are used again, one tile is shared by two; a last
# unit that is not whole; rows so long that few waves have rings; 19 tiles on 2 and 3 units: whole tiles for waves, all of which share the three that are left, or two waves the one; 50 on
# one: 12 waves with 8 tokens
@pytest.mark.parametrize("shape, units, kinds, n", [("70x4096", 3, "all", 15), ("224x4096", 5, "q4_0,q4_k,q6_k", 3), ("300x5120", 3, "q4_0,q8_0", 2),
                                                    ("225x4128", 3, "q4_0", 1), ("96x17408", 3, "q4_k", 1), ("600x4096", 2, "q4_0,q6_k,q2_k", 3),
                                                    ("600x4096", 3, "q4_k", 1), ("1600x4096", 1, "q4_k", 1)])
def test_products_stream(ie, shape, units, kinds, n):
    r = ie.run("-b", "cuda", "-r", 0, "-m", 0, shape, program="tools/gemv_eq", env={**LANES, "KIND": kinds, "IE_LANES_UNITS": str(units)}, timeout=900)
    assert len(re.findall(r"sums of 2 to 16 tokens equal those of one\n", r.stdout)) == n


@pytest.mark.parametrize("units", [2, 40])  # few: query heads share a workgroup; many: one each
def test_attention(ie, units):
    r = ie.run("attn_split", program="tests/test_gpu_ops", timeout=900,
               env={**LANES, "IE_GPU_TEST": "cuda", "IE_HSACO": str(BUILD / "ie_kernels.ptx"), "IE_LANES_UNITS": str(units)})
    assert "[       OK ] attn_split" in r.stdout + r.stderr


@pytest.mark.parametrize("name", ["norm_leads", "shared"])
def test_norm_in_a_matrix_and_shared_tiles(ie, name):
    r = ie.run(name, program="tests/test_gpu_mat", timeout=900, env={**LANES, "IE_GPU_TEST": "cuda", "IE_HSACO": str(BUILD / "ie_kernels.ptx")})
    assert f"[       OK ] {name}" in r.stdout + r.stderr


def test_kernels_of_a_file(ie, tiny, tmp_path):
    """Text from outside comes by parts, too; and what is no text at all."""
    text = lambda *o: ie.run(tiny("q4_k"), "--tokens", "1,2,3", "-n", 3, "-q", "--backend", "cuda", *o, env=LANES).stdout
    assert text("--hsaco", BUILD / "ie_kernels.ptx") == text()
    (tmp_path / "cut.ptx").write_bytes((BUILD / "ie_kernels.ptx").read_bytes()[:100000])
    assert "the kernels have no function" in ie.run(tiny("q4_k"), "--tokens", "1", "--backend", "cuda", "--hsaco", tmp_path / "cut.ptx", env=LANES, check=False).stderr


@pytest.fixture(scope="module")
def qwen35(tmp_path_factory):
    return maker(tiny_qwen35, tmp_path_factory.mktemp("qwen35"))


@pytest.mark.parametrize("name, n, t", [("q4_k", 20, 1), ("q4-128", 20, 5), ("qwen3-hd48", 32, 16), ("llama-mixed", 4, 2), ("llama-hd320", 3, 1)])
def test_whole_models(ie, tiny, qwen35, name, n, t):
    path = (qwen35 if name in tiny_qwen35.MODELS else tiny)(name)
    r = ie.run("-n", n, "-s", 1, "-t", t, path, "cpu", "cuda", program="tools/diff_backends", env={**LANES, "IE_LANES_FIRST": "1"}, timeout=900)  # no kernels are compiled after the first launch
    assert re.fullmatch(r"equal: \d+ ops, \d+ tokens of \d+ sequences\n", r.stdout)
