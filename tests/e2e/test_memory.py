"""Peak resident memory, loading included: at most 1.15 times the weights, the KV pages in use, and 64 MB."""
import json
import subprocess
import sys

import pytest

from conftest import BUILD, ROOT
from test_reference import some_ids

# A process of its own measures, because a child's peak counts from the fork: that of a large process would hide it.
MEASURE = """
import os, subprocess, sys
p = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
_, status, usage = os.wait4(p.pid, 0)
print(os.waitstatus_to_exitcode(status), usage.ru_maxrss * 1024)
"""


@pytest.fixture(scope="module")
def half_billion():
    """A generated model of the shape of Qwen2.5-0.5B in Q4_0 (281 MB), kept in .cache/models."""
    path = ROOT / ".cache" / "models" / "synth-qwen2.5-0.5b-Q4_0.gguf"
    if not path.exists():
        tool = BUILD / "tools" / "make_synth_gguf"
        subprocess.run(["make", "-s", "-C", str(ROOT), f"BUILD={BUILD}", str(tool)], check=True, capture_output=True, timeout=300)
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        subprocess.run([str(tool), "qwen2.5-0.5b", "Q4_0", str(part)], check=True, capture_output=True, timeout=300)
        part.rename(path)
    return path


def check(ie, model, vocab, n_prompt, n, *options):
    info = json.loads(ie.run(model, "--info", "--json").stdout)
    pages = (n_prompt + n + 31) // 32
    limit = 1.15 * info["weight_bytes"] + pages * info["kv_bytes_per_32_positions"] + 64e6
    ids = ",".join(map(str, some_ids(n_prompt, vocab)))
    r = subprocess.run([sys.executable, "-S", "-c", MEASURE, ie.path("ie-run"), str(model), "--tokens", ids, "--n", str(n), *options],
                       capture_output=True, text=True, env=ie.env, timeout=300)
    code, peak = map(int, r.stdout.split())
    assert code == 0
    print(f"peak {peak / 1e6:.1f} MB, weights {info['weight_bytes'] / 1e6:.1f} MB, limit {limit / 1e6:.1f} MB")
    assert info["weight_bytes"] < peak <= limit


def test_smollm2(ie, smollm2):
    """The context is the model's 8192 positions: pages that nobody fills take no memory."""
    check(ie, smollm2, 49152, 200, 8)


def test_half_billion(ie, half_billion):
    check(ie, half_billion, 151936, 64, 4)
