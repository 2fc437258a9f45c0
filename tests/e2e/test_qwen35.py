"""qwen35 (Gated DeltaNet, gated attention, MTP).

Small random models against the float64 pass of tools/tiny_qwen35.py, in the engine's float mode (IE_ACT=f32); the same bits
for threads, levels, chunks and joined matrices; files that contradict themselves. The trained model beside the repository
(IE_FIXTURES: tiny-qwen35-*.gguf, reference.json, heldout.txt) against its recorded logits, greedy texts and perplexity."""
import json
import os
import pathlib

import numpy as np
import pytest

import gdn_chunk
import hf_qwen35 as hf
import ref_forward as ref
import tiny_qwen35 as small
from test_bits import LEVELS, dump, same
from test_reference import some_ids

F32 = {"IE_ACT": "f32"}
LENGTHS = [1, 2, 31, 32, 33, 100, 257]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """model("q8"): path of a small random model, made when first asked for; keywords replace metadata."""
    folder, made = tmp_path_factory.mktemp("qwen35"), {}

    def get(name, **keys):
        at = name + str(sorted(keys.items()))
        if at not in made:
            made[at] = folder / f"{len(made)}.gguf"
            small.build(small.MODELS[name], made[at], name, keys={k.replace("__", "."): v for k, v in keys.items()})
        return made[at]
    return get


@pytest.fixture(scope="module")
def levels(ie, model):
    return [x for x in LEVELS if ie.run(model("q8"), "--info", env={"IE_SIMD": x}, check=False).returncode == 0]


def dumped(path, text):
    path.write_text(text)
    return ref.read_dump(path)[2]


def mtp_logits(ie, path, ids, tmp_path, *batch, env=None):
    return dumped(tmp_path / "mtp", ie.run(path, ",".join(map(str, ids)), *batch, program="tests/mtp_check", env=env).stdout)


# ---- random models ------------------------------------------------------------------------------------------------------

def test_equations_of_a_segment():
    assert gdn_chunk.main() == 0


@pytest.mark.parametrize("name", small.MODELS)
def test_float_mode(ie, model, tmp_path, name):
    """All lengths in one run: a position's logits do not depend on what follows it."""
    ids, path = some_ids(max(LENGTHS)), model(name)
    want, want_mtp = small.forward(ref.Model(path), ids)
    ie.run(path, "--tokens", ",".join(map(str, ids)), "--n", 1, "-q", "--dump-logits", tmp_path / "dump", env=F32)
    e = ref.row_errors(ref.read_dump(tmp_path / "dump")[2], want)
    assert e.max() <= 2e-5, f"position {e.argmax()}: {e.max():.2g}"
    if want_mtp is None:
        return
    for batch in (1, 16, 200):
        e = ref.row_errors(mtp_logits(ie, path, ids, tmp_path, batch, env=F32), want_mtp)
        assert e.max() <= 2e-5, f"MTP in batches of {batch}, position {e.argmax()}: {e.max():.2g}"


@pytest.mark.parametrize("name", small.MODELS)
def test_q8_activations_stay_near(ie, model, tmp_path, name):
    ids, path = some_ids(60), model(name)
    ie.run(path, "--tokens", ",".join(map(str, ids)), "--n", 1, "-q", "--dump-logits", tmp_path / "dump")
    e = ref.row_errors(ref.read_dump(tmp_path / "dump")[2], small.forward(ref.Model(path), ids)[0])
    assert np.median(e) <= 5e-2


@pytest.mark.parametrize("name", small.MODELS)
def test_bits(ie, model, tmp_path, levels, name):
    ids, path = some_ids(77), model(name)
    base = dump(ie, tmp_path, path, ids, 6, "--threads", 1)
    for threads in (2, 7):
        same(ie, tmp_path, path, ids, 6, base, "--threads", threads)
    for chunk in (1, 7, 32, 50, 512):
        same(ie, tmp_path, path, ids, 6, base, "--chunk", chunk)
    same(ie, tmp_path, path, ids, 6, base, env={"IE_JOIN": "0"})
    for level in levels:
        same(ie, tmp_path, path, ids, 6, base, "--threads", 2, env={"IE_SIMD": level})
        same(ie, tmp_path, path, ids, 6, base, "--chunk", 9, env={"IE_SIMD": level})


def test_prompts_in_decode_order(ie, model, tmp_path):
    """IE_GDN_CHUNK=0 and IE_PREFILL=decode: a prompt gives what its tokens give when generated one by one."""
    path, ids = model("q8"), some_ids(5)
    text = dump(ie, tmp_path, path, ids, 60, env={"IE_GDN_CHUNK": "0"})
    tokens = [int(line.split()[1]) for line in text.splitlines()]
    for env in ({"IE_GDN_CHUNK": "0"}, {"IE_PREFILL": "decode"}):
        for chunk in (1, 20, 512):
            assert dump(ie, tmp_path, path, tokens, 1, "--chunk", chunk, env=env) == text


def test_check_of_segments(ie, model):
    r = ie.run(model("q4-128"), "--tokens", ",".join(map(str, some_ids(200))), "--n", 1, "--chunk", 70, env={"IE_GDN_CHECK": "1"})
    line = next(x for x in r.stderr.splitlines() if x.startswith("gated delta net"))
    words = line.replace("(", " ").replace(")", " ").replace(",", " ").split()
    result, result_max, state, state_max = [float(x) for x in words if x[0].isdigit()]
    assert 0 < result < 4e-6 * result_max and 0 < state < 4e-6 * state_max


def test_info(ie, model):
    i = json.loads(ie.run(model("q8"), "--info", "--json").stdout)
    assert (i["layers"], i["recurrent_layers"], i["mtp_layers"]) == (4, 2, 1)
    s = small.MODELS["q8"]
    assert i["state_bytes"] == 2 * 4 * (s.n_v * s.state ** 2 + 36 * ((2 * s.n_k + s.n_v) * s.state + 2 * s.n_v))
    assert i["mtp_bytes"] > 0
    assert "1 MTP layer" in ie.run(model("q8"), "--info").stdout


@pytest.mark.parametrize("keys,words", [
    ({"ssm__conv_kernel": 3}, "'qwen35.ssm.conv_kernel' is 3; supported: 4"),
    ({"ssm__state_size": 40}, "'qwen35.ssm.state_size' is 40"),
    ({"ssm__state_size": 64}, "'qwen35.ssm.inner_size' is 192, time_step_rank times state_size is 384"),
    ({"ssm__group_count": 4}, "'qwen35.ssm.time_step_rank' is 6, not a multiple of ssm.group_count 4"),
    ({"ssm__group_count": 3}, "tensor 'blk.0.attn_qkv.weight' has shape [96, 320, 1, 1], the metadata ask for [96, 384]"),
    ({"ssm__group_count": 0}, "'qwen35.ssm.group_count' is 0"),
    ({"ssm__inner_size": None}, "'qwen35.ssm.inner_size' is missing"),
    ({"full_attention_interval": 3}, "tensor 'blk.1.attn_qkv.weight' is missing"),
    ({"nextn_predict_layers": 0}, "tensor 'blk.4.attn_qkv.weight' is missing"),
    ({"nextn_predict_layers": 5}, "'qwen35.nextn_predict_layers' is 5, block_count is 5"),
])
def test_contradictions(ie, tmp_path, keys, words):
    path = tmp_path / "bad.gguf"
    small.build(small.MODELS["q8"], path, "bad", keys={k.replace("__", "."): v for k, v in keys.items()})
    message = ie.fails(path, "--info")
    assert words in message, message


def test_rope_sections(ie, tmp_path):
    path = tmp_path / "bad.gguf"
    small.build(small.MODELS["q8"], path, "bad", sections=[4, 2, 1, 0])
    assert "'qwen35.rope.dimension_sections' adds up to 7, half of rope.dimension_count is 8" in ie.fails(path, "--info")


# ---- the trained model ---------------------------------------------------------------------------------------------------

@pytest.fixture(scope="module")
def trained():
    root = pathlib.Path(os.environ.get("IE_FIXTURES", "/nonexistent"))
    for folder in (root, root / "models"):
        if (folder / "tiny-qwen35-Q8_0.gguf").exists():
            return folder
    pytest.skip("IE_FIXTURES names no folder with tiny-qwen35-Q8_0.gguf")


@pytest.fixture(scope="module")
def reference(trained):
    return json.loads((trained / "reference.json").read_text())


def top5_error(rows, top):
    return max(abs(row[i] - x) for row, ids, logits in zip(rows, top["ids"], top["logits"]) for i, x in zip(ids, logits))


@pytest.fixture(scope="module")
def outputs(ie, trained, reference, tmp_path_factory):
    """outputs(env): for each prompt the logits after every position of it, and the greedy continuation."""
    made = {}

    def get(env):
        key = str(env)
        if key not in made:
            made[key] = []
            for i, p in enumerate(reference["prompts"]):
                at = tmp_path_factory.mktemp("trained") / "dump"
                r = ie.run(trained / "tiny-qwen35-Q8_0.gguf", "--tokens", ",".join(map(str, p["ids"])), "--n", len(p["greedy"]), "-q",
                           "--json", "--dump-logits", at, env=env, timeout=600)
                made[key].append((ref.read_dump(at)[2][:len(p["ids"])], json.loads(r.stdout)["tokens"]))
        return made[key]
    return get


def check_greedy(reference, outputs, margin):
    for p, (_, tokens) in zip(reference["prompts"], outputs):
        for i, (a, b) in enumerate(zip(p["greedy"], tokens)):
            if a != b:
                assert p["greedy_margins"][i] < margin, f"'{p['text'][:30]}', token {i}"
                break


def test_trained_float_mode(reference, outputs):
    """Logits are recorded with 4 decimals."""
    out = outputs(F32)
    worst = [top5_error(rows, p["top5"]) for p, (rows, _) in zip(reference["prompts"], out)]
    assert max(worst) < 1e-4, worst
    check_greedy(reference, out, 2e-4)


def test_trained_q8_activations(reference, outputs):
    out = outputs({})
    worst = [top5_error(rows, p["top5"]) for p, (rows, _) in zip(reference["prompts"], out)]
    print("largest differences of logits", [f"{x:.3f}" for x in worst])
    assert max(worst) < 0.4
    check_greedy(reference, out, 0.2)


def test_trained_mtp(ie, trained, reference, tmp_path):
    for p in reference["prompts"]:
        rows = mtp_logits(ie, trained / "tiny-qwen35-Q8_0.gguf", p["ids"], tmp_path, env=F32)
        assert top5_error(rows, p["mtp_top5"]) < 1e-4
        rows = mtp_logits(ie, trained / "tiny-qwen35-Q8_0.gguf", p["ids"], tmp_path, 128)
        assert top5_error(rows, p["mtp_top5"]) < 0.6


@pytest.mark.parametrize("name", ["tiny-qwen35-Q8_0.gguf", "tiny-qwen35-Q4_K_M.gguf"])
def test_trained_perplexity(ie, trained, reference, name):
    want = reference["perplexity"][name]
    r = json.loads(ie.run(trained / name, "-f", trained / "heldout.txt", "--ppl", "--ppl-window", 512, "--ppl-first", 256, "--json",
                          timeout=900).stdout)
    assert r["scored"] == want["scored_tokens"]
    assert abs(r["ppl"] / want["ppl"] - 1) < 0.005, r["ppl"]


def test_trained_long_context(ie, trained):
    """16,000 positions in one window: finite, and segments do not drift from token by token."""
    ids = ie.run(trained / "tiny-qwen35-Q8_0.gguf", "-f", trained / "heldout.txt", "--tokenize").stdout.strip().split(",")[:16000]
    r = [json.loads(ie.run(trained / "tiny-qwen35-Q8_0.gguf", "--tokens", ",".join(ids), "--ctx", 16000, "--ppl", "--ppl-first", 12000, "--json",
                           env=env, timeout=900).stdout)["ppl"] for env in ({}, {"IE_GDN_CHUNK": "0"})]
    print("perplexity of positions 12,000 to 16,000 by segments and token by token:", r)
    assert np.isfinite(r).all() and abs(r[0] / r[1] - 1) < 2e-3


# ---- transformers -----------------------------------------------------------------------------------------------------------

VECTORS = json.loads((pathlib.Path(__file__).parents[1] / "vectors" / "qwen35_hf.json").read_text())


@pytest.mark.parametrize("name", sorted(VECTORS["models"]))
def test_logits_of_transformers(ie, tmp_path, name):
    """Random models, converted from Hugging Face's form, against the logits of transformers at the prompt's last position."""
    spec, want = hf.MODELS[name], VECTORS["models"][name]
    state = hf.random_state(spec)
    assert hf.digest(state) == want["sha256"], "other random numbers than the vectors were made with"
    hf.to_gguf(state, spec, tmp_path / "m.gguf", name)
    for n in hf.LENGTHS:
        ie.run(tmp_path / "m.gguf", "--tokens", ",".join(map(str, hf.prompt(spec, n))), "--n", 1, "-q", "--dump-logits", tmp_path / "d", env=F32)
        row = ref.read_dump(tmp_path / "d")[2][n - 1]
        error = np.abs(row - np.array(want["logits"][str(n)])).max()
        print(f"{name}, {n} tokens: {error:.2e}")
        assert error <= 1e-4
