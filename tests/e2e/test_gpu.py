"""The GPU backend on the simulator of gfx1201: the CPU backend's bits for whole models, sequences together and alone, layers shared with
the CPU, graphs or single launches, candidates chosen on the device; what it says when something is missing."""
import csv
import json
import os
import pathlib
import re
import shutil

import pytest

import make_tiny_gguf as tiny_models
import tiny_qwen35
from conftest import BUILD, ROOT, maker
from serving import Server

SIM = {"LD_LIBRARY_PATH": str(BUILD / "sim")}
FIXTURES = pathlib.Path(os.environ.get("IE_FIXTURES", "/nonexistent"))
IDS = ",".join(str(1 + 7 * i % 200) for i in range(40))


@pytest.fixture(scope="module", autouse=True)
def ready(ie):
    out = ie.run("--list-devices", env=SIM).stdout
    assert "hip 0  AMD Radeon AI PRO R9700, gfx1201, 34.4 GB, 64 units\n" in out


@pytest.fixture(scope="module")
def qwen35(tmp_path_factory):
    return maker(tiny_qwen35, tmp_path_factory.mktemp("qwen35"))


@pytest.fixture(scope="module")
def trained():
    path = FIXTURES / "models" / "tiny-qwen35-Q4_K_M.gguf"
    if not path.exists():
        pytest.skip("IE_FIXTURES names no folder with models/tiny-qwen35-Q4_K_M.gguf")
    return path


def differ(ie, model, *options, other="hip", env=None):
    r = ie.run(*options, model, "cpu", other, program="tools/diff_backends", env={**SIM, **(env or {})}, check=False, timeout=600)
    assert r.returncode == 0, r.stdout + r.stderr
    return int(re.fullmatch(r"equal: (\d+) ops, \d+ tokens of \d+ sequences\n", r.stdout)[1])


def dump(ie, tmp_path, model, backend, n, *options, env=None, ids=IDS):
    out = tmp_path / f"{backend}.txt"
    ie.run(model, "--tokens", ids, "-n", n, "-q", "-c", 600, "--dump-logits", out, "--backend", backend, *options, timeout=600,
           env={**SIM, "IE_PREFILL": "decode", **(env or {})})
    return out.read_text()


def same_logits(ie, tmp_path, model, n, *options, env=None):
    want = dump(ie, tmp_path, model, "cpu", n)
    got = dump(ie, tmp_path, model, "hip", n, *options, env=env)
    assert want.count("\n") == 39 + n and got == want


@pytest.mark.parametrize("switch, n, t", [("IE_TR_MIN=2", 18, 3), ("IE_TR_MIN=17", 32, 16), ("IE_GEMV_NOBATCH=1", 14, 7)])
def test_kernels_of_several_tokens_by_switch(ie, tiny, switch, n, t):
    differ(ie, tiny("q4_0"), "-n", n, "-t", t, env=dict([switch.split("=")]))


def launches(ie, tmp_path, model, n, ids="5,6,7", **env):
    """Rows of IE_TRACE: one for each launch."""
    trace = tmp_path / "launches.csv"
    ie.run(model, "--tokens", ids, "-n", n, "-c", 600, "-q", "--backend", "hip", env={**SIM, "IE_TRACE": str(trace), **env})
    return list(csv.DictReader(trace.read_text().splitlines()))


LONG = ",".join(str(1 + 7 * i % 200) for i in range(520))


# Switch; tokens of the prompt; what has to be among the launches' kernels and must not, with it; the same without it.
@pytest.mark.parametrize("switch, ids, has, has_not, without", [
    ("IE_TR_MIN=2", "5,6,7", "ie_gemv_q4_0_t8", "ie_gemv_q4_0_t4", "ie_gemv_q4_0_t4"),
    ("IE_TR_MIN=17", IDS, "ie_gemv_q4_0_t4", "ie_gemv_q4_0_t16", "ie_gemv_q4_0_t16"),
    ("IE_ATTN=old", LONG, "ie_attn", "ie_attn_one_64", "ie_attn_one_64"),
    ("IE_ATTN=check", LONG, "ie_attn_diff", None, "ie_attn_one_64"),
    ("IE_ATTN_KV_MIN=0", LONG, "ie_attn_kv_64", "ie_attn_one_64", "ie_attn_one_64"),
    ("IE_ATTN_KV_MIN=256", LONG, "ie_attn_kv_64", None, "ie_attn_one_64"),
    ("IE_HOST_TOPK=1", "5,6,7", None, "ie_topk_part", "ie_topk_part"),
    ("IE_NORM_FUSE=1", "5,6,7", None, None, "ie_rmsnorm"),
    ("IE_STREAM=0", "5,6,7", None, None, "ie_rmsnorm"),
])
def test_what_a_switch_switches(ie, tiny, tmp_path, switch, ids, has, has_not, without):
    """By the trace of launches; logits stay as they are."""
    model = tiny("q4_0")

    def one(name, env):
        dump, trace = tmp_path / f"{name}.txt", tmp_path / f"{name}.csv"
        text = ie.run(model, "--tokens", ids, "-n", 3, "-q", "-c", 600, "--backend", "hip", "--dump-logits", dump, env={**SIM, "IE_TRACE": str(trace), **env}, timeout=600).stdout
        # without the logits of all positions, candidates are chosen on the device
        more = tmp_path / f"{name}-2.csv"
        assert ie.run(model, "--tokens", ids, "-n", 3, "-q", "-c", 600, "--backend", "hip", "--temp", 1, "--top-k", 9, env={**SIM, "IE_TRACE": str(more), **env}).stdout
        return text, dump.read_text(), {r["kernel"] for f in (trace, more) for r in csv.DictReader(f.read_text().splitlines())}

    on, off = one("on", dict([switch.split("=")])), one("off", {})
    assert on[:2] == off[:2]
    assert (not has or has in on[2] and has not in off[2]) and has_not not in on[2] and without in off[2]


def test_nobatch(ie, tiny, tmp_path):
    """A launch a token for each matrix; as many launches for the rest."""
    count = lambda env, matrix: sum((r["kind"] == "matmul") == matrix for r in launches(ie, tmp_path, tiny("q4_0"), 1, **env) if r["tokens"] == "3" and int(r["layer"]) >= 0)
    assert count({"IE_GEMV_NOBATCH": "1"}, True) == 3 * count({}, True) > 0 and count({"IE_GEMV_NOBATCH": "1"}, False) == count({}, False)


def test_partials_of_a_workgroup(ie, tiny, tmp_path):
    """IE_ATTN_SPW: 3 partials of 256 positions by one workgroup instead of three."""
    groups = lambda spw: [int(r["workgroups"]) for r in launches(ie, tmp_path, tiny("q4_0"), 1, ids=LONG, IE_ATTN_KV_MIN="0", IE_ATTN_SPW=spw) if r["kind"] == "attn"][-1]
    assert groups("1") == 3 * groups("3") == groups("0")


@pytest.mark.parametrize("name", ["llama-mixed", "qwen3-hd48", "q8_0"])
def test_norms_in_the_launch_before(ie, tiny, tmp_path, name):
    model = tiny(name)
    same_logits(ie, tmp_path, model, 4, env={"IE_NORM_FUSE": "1"})
    count = lambda fuse: sum(r["kernel"] == "ie_rmsnorm" for r in launches(ie, tmp_path, model, 2, IE_NORM_FUSE=fuse) if r["tokens"] == "1")
    layers = 1 + max(int(r["layer"]) for r in launches(ie, tmp_path, model, 2))
    assert count("0") == 2 * layers + 1 and count("1") == 2  # left: the first layer's, and the one behind the rows whose logits are wanted


@pytest.mark.parametrize("name", list(tiny_models.MODELS))
def test_every_op_of_small_models(ie, tiny, name):
    differ(ie, tiny(name), "-n", 40, "-t", 5)
    differ(ie, tiny(name), "-n", 7, "-s", 3, "-t", 3)


@pytest.mark.parametrize("name", list(tiny_qwen35.MODELS))
def test_every_op_of_recurrent_models(ie, qwen35, name):
    differ(ie, qwen35(name), "-n", 40, "-t", 5)
    differ(ie, qwen35(name), "-n", 7, "-s", 3, "-t", 3)


@pytest.mark.parametrize("t", range(1, 17))
def test_tokens_of_a_step(ie, tiny, t):
    differ(ie, tiny("qwen3-hd48"), "-n", 2 * t + 1, "-t", t)


@pytest.mark.parametrize("name", ["q4_k", "llama-window", "qwen2-mixed", "qwen3-hd48"])
def test_logits_over_40_tokens(ie, tiny, tmp_path, name):
    same_logits(ie, tmp_path, tiny(name), 1)


def test_recurrent_logits_over_40_tokens(ie, qwen35, tmp_path):
    same_logits(ie, tmp_path, qwen35("k-mixed"), 1)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_transcendental_bits_do_not_matter(ie, qwen35, tiny, tmp_path, seed):
    same_logits(ie, tmp_path, tiny("q8_0"), 1, env={"IE_SIM_ULP": str(seed)})
    same_logits(ie, tmp_path, qwen35("q4-128"), 1, env={"IE_SIM_ULP": str(seed)})


def test_smollm2(ie, smollm2, tmp_path):
    same_logits(ie, tmp_path, smollm2, 8)


def test_trained_qwen35(ie, trained, tmp_path):
    same_logits(ie, tmp_path, trained, 8)


def test_trained_qwen35_three_sequences(ie, trained):
    differ(ie, trained, "-n", 12, "-s", 3, "-t", 2)


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_layers_on_both(ie, qwen35, tiny, tmp_path, layers):
    differ(ie, tiny("llama-mixed"), "-n", 9, "-s", 2, "-t", 3, "-l", layers)
    differ(ie, qwen35("f32"), "-n", 9, "-s", 2, "-t", 3, "-l", layers)
    same_logits(ie, tmp_path, qwen35("q4-128"), 3, "--gpu-layers", layers)


def test_launches_and_graphs_are_equal(ie, qwen35, tmp_path):
    model = qwen35("q4-128")
    graph, single = (dump(ie, tmp_path, model, "hip", 12, env={"IE_GRAPH": g}, ids="1,2,3") for g in "10")
    assert graph == single
    r = ie.run(model, "--tokens", "1,2,3", "-n", 12, "--backend", "hip", env={**SIM, "IE_GRAPH_BENCH": "2"})
    assert re.search(r"^a decode step, 2 times: [\d.]+ ms by launches, [\d.]+ ms as a graph$", r.stderr, re.M)
    plain = ie.run(model, "--tokens", "1,2,3", "-n", 12, "--backend", "hip", env=SIM)
    assert r.stdout == plain.stdout


@pytest.mark.parametrize("options", [["--temp", "0"], ["--temp", "0.9", "--top-k", "1"], ["--temp", "1", "--top-k", "40", "--top-p", "0.9", "--min-p", "0.01"],
                                     ["--temp", "1", "--top-k", "64"], ["--temp", "1", "--top-k", "65"], ["--temp", "1"],
                                     ["--temp", "0", "--repeat-penalty", "1.3"]])
def test_candidates(ie, tiny, options):
    run = lambda backend, **env: ie.run(tiny("q8_0"), "--tokens", "5,6,7", "-n", 20, "-q", "--backend", backend, "--seed", 3, *options,
                                        env={**SIM, "IE_PREFILL": "decode", **env}).stdout
    assert run("hip") == run("hip", IE_HOST_TOPK="1") == run("cpu")


def test_profile_and_trace(ie, tiny, tmp_path):
    csv, trace = tmp_path / "ops.csv", tmp_path / "launches.csv"
    r = ie.run(tiny("q8_0"), "--tokens", IDS, "-n", 3, "--backend", "hip", env={**SIM, "IE_PROFILE": "2", "IE_PROFILE_CSV": str(csv), "IE_TRACE": str(trace)})
    assert "profile, decode: 2 steps, 2 tokens" in r.stderr and "profile, prefill: 3 steps, 40 tokens" in r.stderr
    assert len(re.findall(r"^  prompt from (0|16|32), (16|8) tokens: .* matmul ", r.stderr, re.M)) == 3
    assert csv.read_text().count("\n") > 100
    lines = trace.read_text().splitlines()
    assert lines[0].split(",")[8] == "kernel"
    kernels = {x.split(",")[8] for x in lines[1:]}
    assert {"ie_embed_q8_0", "ie_gemv_q8_0", "ie_rmsnorm", "ie_rope_kv", "ie_swiglu", "ie_gather"} <= kernels
    assert all(int(x.split(",")[9]) > 0 for x in lines[1:])


def test_profile_of_a_run(ie, tiny, tmp_path):
    """IE_PROFILE=1: the table, without lines for a prompt's parts; IE_PROFILE_CSV: each op of each step once, with the times of the table."""
    out = tmp_path / "ops.csv"
    r = ie.run(tiny("q8_0"), "--tokens", IDS, "-n", 3, "--backend", "hip", env={**SIM, "IE_PROFILE": "1", "IE_PROFILE_CSV": str(out)})
    assert "profile, decode: 2 steps, 2 tokens" in r.stderr and "prompt from" not in r.stderr
    rows = list(csv.DictReader(out.read_text().splitlines()))
    runs = {n: [r for r in rows if r["run"] == n] for n in {r["run"] for r in rows}}
    assert sorted(r[0]["phase"] for r in runs.values()) == ["decode"] * 2 + ["prefill"] * 3
    assert all([int(r["op"]) for r in run if r["phase"] == "decode"] in ([], list(range(len(run)))) for run in runs.values())
    matmul = [float(r["microseconds"]) for r in rows if r["phase"] == "decode" and r["kind"] == "matmul"]
    decode = r.stderr[r.stderr.index("profile, decode"):]
    calls, each = re.search(r"^  matmul +(\d+) +([\d.]+)", decode, re.M).groups()
    assert int(calls) == len(matmul) and abs(float(each) - sum(matmul) / len(matmul)) < 0.01


def test_pages_get_memory_as_they_come_into_use(ie, tiny):
    r = ie.run(tiny("qwen3-hd48"), "--tokens", IDS, "-n", 2, "-c", 131072, "--backend", "hip", env={**SIM, "IE_PROFILE": "1"})
    pages, room = re.search(r"^device memory, MB: weights .*, KV pages ([\d.]+) of ([\d.]+), scratch .*; the card [\d.]+ of 34359.7$", r.stderr, re.M).groups()
    assert float(pages) == 33.6 and float(room) == 100.7


def test_attention_kernels_agree(ie, tiny, tmp_path):
    """Also over two and three partials; IE_ATTN=check prints the largest difference, of either new kernel."""
    base = dump(ie, tmp_path, tiny("qwen3-hd48"), "hip", 2, ids=LONG)
    for env in [{"IE_ATTN": "old"}, {"IE_ATTN": "split"}, {"IE_ATTN_KV_MIN": "0"}, {"IE_ATTN_KV_MIN": "0", "IE_ATTN_SPW": "1"}]:
        assert dump(ie, tmp_path, tiny("qwen3-hd48"), "hip", 2, env=env, ids=LONG) == base
    for kv_min in ["0", "768"]:
        r = ie.run(tiny("qwen3-hd48"), "--tokens", LONG, "-n", 2, "-c", 600, "--backend", "hip", env={**SIM, "IE_ATTN": "check", "IE_ATTN_KV_MIN": kv_min})
        assert float(re.search(r"^attention: largest relative difference to the old kernel ([\d.e-]+)$", r.stderr, re.M)[1]) <= 1e-4


def test_auto_and_names(ie, tiny):
    r = ie.run(tiny("q8_0"), "--tokens", "1,2", "-n", 2)
    assert r.stderr.rstrip().endswith("; on the CPU: no GPU can be used, ie-run --list-devices says why")
    r = ie.run(tiny("q8_0"), "--tokens", "1,2", "-n", 2, env=SIM)
    assert "on the CPU" not in r.stderr
    for name in ["gpu", "hip"]:
        ie.run(tiny("q8_0"), "--tokens", "1,2", "-n", 2, "--backend", name, "--device", 0, env=SIM)


def test_error_lines(ie, tiny, tmp_path):
    run = lambda *o, env=None: ie.fails(tiny("q8_0"), "--tokens", "1,2", *o, env=env)
    assert run("--backend", "hip") == "hip: the library libamdhip64.so is not installed (it comes with AMD's ROCm)"
    assert run("--backend", "cuda") == "cuda: the library libcuda.so.1 is not installed (it comes with NVIDIA's driver)"
    assert "hip: the library" in run("--backend", "gpu") and "; cuda: the library" in run("--backend", "gpu")
    assert run("--backend", "rocm") == "backend 'rocm': must be auto, cpu, gpu, hip or cuda"
    assert run("--backend", "hip", "--device", 3, env=SIM) == "device 3: must be 0..0 (hip)"
    assert run("--backend", "hip", env={**SIM, "IE_ACT": "f32"}).endswith("IE_ACT=f32 needs the CPU backend")
    junk = tmp_path / "junk.hsaco"
    junk.write_bytes(b"no code object" * 20)
    assert run("--backend", "hip", "--hsaco", tmp_path / "none", env=SIM).startswith(f"file '{tmp_path}/none' cannot be opened")
    r = ie.run(tiny("q8_0"), "--tokens", "1,2", "--backend", "hip", "--hsaco", junk, env=SIM, check=False)
    assert r.returncode == 1 and r.stderr.splitlines()[-1] == f"ie-run: hip: {junk} is no code object for gfx1201"
    for vendor, lib, other, entry, needs in [("cuda", "libcuda.so.1", "sim/libamdhip64.so", "cuInit", "CUDA 11.8 (driver 520)"),
                                             ("hip", "libamdhip64.so", "tests/card/libcuda.so.1", "hipInit", "that of ROCm 6.0")]:
        (tmp_path / vendor).mkdir()
        shutil.copy(BUILD / other, tmp_path / vendor / lib)  # a library that lacks what is looked for
        assert run("--backend", vendor, env={"LD_LIBRARY_PATH": str(tmp_path / vendor)}) == f"{vendor}: the library {lib} has no {entry}: the driver is too old; {needs} or later is needed"


def test_files_of_the_callers_are_not_passed_over(ie, tiny, tmp_path):
    """With a card there, `auto` does not go to the CPU because a file is wrong; a file that could not be written whole is told."""
    fails = lambda *o, **env: ie.fails(tiny("q8_0"), "--tokens", "1,2", "-n", 1, *o, env={**SIM, **env})
    (tmp_path / "junk").write_bytes(b"no code object" * 20)
    for backend in ("auto", "gpu", "hip"):
        assert fails("--backend", backend, "--hsaco", tmp_path / "none") == f"file '{tmp_path}/none' cannot be opened: No such file or directory"
    assert fails("--hsaco", tmp_path / "junk").endswith("junk is no code object for gfx1201")
    assert fails("--hsaco", "/dev/zero") == "file '/dev/zero' has more than 268435456 bytes: it is no code object"
    assert fails(IE_TRACE=str(tmp_path)) == f"IE_TRACE={tmp_path}: Is a directory"
    assert fails("-q", IE_TRACE="/dev/full") == "IE_TRACE=/dev/full: the file could not be written whole"
    assert fails("-q", IE_PROFILE="1", IE_PROFILE_CSV="/nowhere/x") == "IE_PROFILE_CSV=/nowhere/x: No such file or directory"


def test_other_code(ie, tiny, tmp_path):
    copy = tmp_path / "mine.hsaco"
    shutil.copy(BUILD / "ie_kernels.hsaco", copy)
    ie.run(tiny("q8_0"), "--tokens", "1,2", "-n", 2, "--backend", "hip", "--hsaco", copy, env=SIM)


def test_benchmark_scripts(ie, tiny, tmp_path):
    out = ie.run(tiny("q8_0"), "hip", 3, "0,20", 16, program="bench/decode_bench", env=SIM).stdout
    got = json.loads(out)
    assert [d["context"] for d in got["decode"]] == [0, 20] and all(d["per_second"] > 0 for d in got["decode"])
    assert got["backend"].startswith("hip") and got["prompt"]["tokens"] == 16
    assert (ROOT / "bench" / "peers_gpu.py").exists()


def test_stop_after(ie, qwen35):
    model = qwen35("q4-128")
    for op in [0, 1, 2, 9, 30]:
        on = [ie.run(model, "--tokens", ",".join(map(str, range(20))), "--stop-after", op, "--backend", b, env=SIM).stdout for b in ("cpu", "hip")]
        assert on[0] == on[1] and on[0].startswith(f"op {op} of ") and "4 rows" in on[0].splitlines()[0] and len(on[0]) > 500
    assert ie.fails(model, "--tokens", "1", "--stop-after", 99999, "--backend", "hip", env=SIM).startswith("option --stop-after is 99999, the model's list has ops 0 to ")


def test_embeddings(ie, tiny):
    """Hidden states of the device: the CPU's bits in the decode order."""
    class Place:  # where serving.Server finds programs and their environment
        path, env = ie.path, {**ie.env, **SIM, "IE_PREFILL": "decode"}
    got = {}
    for backend in ("cpu", "hip"):
        s = Server(Place, tiny("q4_1"), "--backend", backend, "--parallel", 1, "--ctx", 64, "--quiet")
        got[backend] = [s.ok("/v1/embeddings", {"input": [int(i) for i in IDS.split(",")], "pooling": p})["data"] for p in ("mean", "last")]
        s.stop()
    assert got["cpu"] == got["hip"] and got["cpu"][0] != got["cpu"][1]
