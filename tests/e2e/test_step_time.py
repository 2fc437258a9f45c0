"""tools/step_time.c: the time model of an R9700's launches, against published figures and against what the engine launches."""
import csv
import io

import pytest

from conftest import BUILD, maker

pytestmark = pytest.mark.skipif(not (BUILD / "ie_kernels.hsaco").exists(), reason="skip: no build/ie_kernels.hsaco (make kernels)")
SIM = {"LD_LIBRARY_PATH": str(BUILD / "sim")}
STEP_MS = 29.5  # what a decode step of the 27B may take by launches


def step(ie, *args, **kw):
    return ie.run(*args, program="tools/step_time", **kw)


def table(ie, *args, **kw):
    """Rows by op and size, and the two last lines."""
    out = step(ie, "-c", *args, **kw).stdout
    rows = list(csv.DictReader(io.StringIO(out[:out.index("launches ", 40)])))
    return rows, out[out.index("launches ", 40):]


@pytest.fixture(scope="module")
def empty(ie, tmp_path_factory):
    """empty(shape, mix): a file with a directory and no weights, which takes no room."""
    def make(shape, mix):
        path = tmp_path_factory.mktemp("empty") / "m.gguf"
        ie.run(shape, mix, path, "--empty", 1, program="tools/make_synth_gguf")
        assert path.stat().st_blocks * 512 < 32 << 20
        return path
    return make


def test_published_times(ie):
    """Within 10 % of every published time; three matrix rates were fitted, the others and all steps are a check."""
    out = step(ie, "--reference").stdout.splitlines()[1:]
    off = [float(line.split("%")[0].split()[-1]) for line in out]
    assert len(off) == 13 and all(abs(x) < 10 for x in off), out
    assert sum("(fitted)" in line for line in out) == 3


@pytest.mark.parametrize("mix, gb", [("Q4_K_M", 15.8), ("Q4_K_M8", 16.6)])
def test_27b(ie, empty, mix, gb):
    rows, end = table(ie, empty("qwen3.8-27b", mix))
    matmul = [r for r in rows if r["op"] == "matmul"]
    assert sum(int(r["times"]) for r in matmul) > 200
    assert all(r["bound"] == "memory" for r in matmul), [r for r in matmul if r["bound"] != "memory"]
    weights = sum(float(r["MB"]) * int(r["times"]) for r in matmul) / 1e3
    assert gb < weights < gb * 1.01 + 0.1, weights
    assert float(end.split("step ")[1].split(" ms")[0]) <= STEP_MS, end


def test_what_the_engine_launches(ie, tmp_path):
    """The kernels of a real run's trace (on the simulator), and samples give what whole launches give."""
    model = maker(pytest.importorskip("tiny_qwen35"), tmp_path)("k-mixed")
    trace = tmp_path / "t.csv"
    ie.run(model, "--backend", "hip", "--tokens", "1,2,3", "-n", 2, env={**SIM, "IE_TRACE": str(trace), "IE_PREFILL": "decode"})
    runs = {}
    for r in csv.DictReader(trace.open()):
        if r["phase"] == "decode":
            runs.setdefault(r["run"], []).append((r["kernel"], int(r["workgroups"])))
    rows, end = table(ie, "-p", 3, model)
    want = next(v for v in reversed(list(runs.values())) if len(v) > 10)
    assert int(end.split()[1].rstrip(",")) == len(want) + 1  # and the choice of the token
    assert {r["kernel"] for r in rows if r["op"] != "choose"} | {"ie_gnorm"} == {k for k, _ in want}  # of an op's two launches the longer one
    whole, _ = table(ie, "-p", 3, "-s", 0, model)
    some, _ = table(ie, "-p", 3, "-s", 2, model)
    apart, more = table(ie, "-p", 3, model, env={"IE_GEMV_MANY": "0"})
    assert "ie_gemv_many" in {r["kernel"] for r in rows} and "ie_gemv_many" not in {r["kernel"] for r in apart}
    assert int(more.split()[1].rstrip(",")) > len(want) + 1
    for a, b in zip(whole, some):
        assert abs(float(a["us"]) / float(b["us"]) - 1) < 0.1, (a, b)


def test_norm_in_the_matrix_launch(ie, tiny):
    rows, _ = table(ie, tiny("q4_0"), env={"IE_NORM_FUSE": "1"})
    fused = [r for r in rows if r["what"].endswith(", norm")]
    assert fused and all(float(r["us"]) > float(r["alone_us"]) for r in fused)


@pytest.mark.parametrize("args, says", [
    ((), "usage: "), (("-t", 17, "x"), "usage: "), (("-p", "x", "y"), "usage: "), (("--reference", "x"), "usage: "),
    (("/nonexistent.gguf",), "step_time: "),
])
def test_errors(ie, args, says):
    r = step(ie, *args, check=False)
    assert r.returncode == 2 and r.stderr.startswith(says) and not r.stdout


def test_help(ie):
    assert "--reference" in step(ie, "--help").stdout
