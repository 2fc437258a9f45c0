"""The engine against tools/ref_forward.py: each op fed the engine's own inputs, and whole models.

Ops: relative error (of a row's largest magnitude) at most 1e-6; integer parts and Q8 roundings exact but for ties.
Models, with Q8 activations emulated and each position given the engine's K and V of earlier ones: the median position's
logits within 1e-5; where a position is off by more, one of its values must have been rounded to the other side of a tie
of Q8. With the engine's side taken at those ties every position must be within 1e-5."""
import random

import gguf
import numpy as np
import pytest

import make_tiny_gguf as tiny_models
import ref_forward as ref

OP_LIMIT, LOGIT_LIMIT = 1e-6, 1e-5
LONG = ["f16", "q8_0", "llama-window", "qwen2-window", "llama-yarn", "qwen3-hd48"]


def some_ids(n, vocab=271, seed=5):
    rng = random.Random(seed)
    return [rng.randrange(vocab) for _ in range(n)]


def trace(ie, model, ids, out, batch=None):
    ie.run(model, out, ",".join(map(str, ids)), *([batch] if batch else []), program="tests/op_trace")
    return out


@pytest.mark.parametrize("fmt", tiny_models.FORMATS)
def test_decoding_of_formats(fmt):
    """The reference's own exact decoding against the package gguf's float32 one."""
    rng = np.random.default_rng(3)
    data = tiny_models.encode(rng, fmt, 40, 512, 0.05)
    kind = gguf.GGMLQuantizationType[fmt]
    size = gguf.GGML_QUANT_SIZES[kind]
    want = gguf.quants.dequantize(np.frombuffer(data, np.uint8).reshape(40, 512 // size[0] * size[1]), kind)
    got = ref.decode(fmt, data, 40, 512)
    assert 0.02 < want.std() < 0.1  # sane magnitudes
    assert np.abs(got - want).max() <= 4e-7 * np.abs(want).max()


def check_ops(ie, model, ids, tmp_path, batch=None, keep=True):
    c = ref.OpCheck(ref.Model(model, keep), OP_LIMIT).run(trace(ie, model, ids, tmp_path / "trace", batch))
    assert not c.faults, "\n".join(c.faults[:10])
    return c


@pytest.mark.parametrize("name", tiny_models.MODELS)
def test_ops(ie, tiny, tmp_path, name):
    s = tiny_models.MODELS[name]
    c = check_ops(ie, tiny(name), some_ids(44), tmp_path)
    assert c.ops >= s.layers * 9 + 1 + 3 * 3  # 44 rows of logits: three turns of the head
    print(name, {k: f"{v:.1e}" for k, v in c.worst.items()}, f"{c.ties} ties")


@pytest.mark.parametrize("batch", [1, 2, 16, 17])
@pytest.mark.parametrize("name", ["f32", "q4_1", "q2_k", "llama-mixed"])
def test_ops_in_batches(ie, tiny, tmp_path, name, batch):
    check_ops(ie, tiny(name), some_ids(36), tmp_path, batch)


@pytest.mark.parametrize("name", LONG)
def test_ops_of_a_long_text(ie, tiny, tmp_path, name):
    """Several partials of attention (8 pages of 32 positions each)."""
    check_ops(ie, tiny(name), some_ids(300), tmp_path)


def check_model(ie, model, ids, tmp_path, keep=True):
    """Errors of the positions, without following the engine at ties."""
    t = ref.Trace(trace(ie, model, ids, tmp_path / "trace"))
    m = ref.Model(model, keep)
    alone, followed = ref.Rounding(t, follow=False), ref.Rounding(t)
    free = ref.row_errors(t.logits, ref.forward(m, ids, alone))
    forced = ref.row_errors(t.logits, ref.forward(m, ids, followed))
    print(f"alone: median {np.median(free):.1e}, max {free.max():.1e}, {len(alone.gone)} of {len(ids)} positions with a Q8 tie; "
          f"at ties as the engine: max {forced.max():.1e}")
    assert not followed.faults and not alone.faults, (followed.faults + alone.faults)[:5]
    assert forced.max() <= LOGIT_LIMIT
    with_tie = {tie[2] for tie in alone.ties if tie[1] == "q8"}
    unexplained = [p for p in np.flatnonzero(free > LOGIT_LIMIT) if p not in with_tie]
    assert not unexplained, f"positions {unexplained} differ without a tie"
    return free


@pytest.mark.parametrize("name", tiny_models.MODELS)
def test_logits(ie, tiny, tmp_path, name):
    assert np.median(check_model(ie, tiny(name), some_ids(44), tmp_path)) <= LOGIT_LIMIT


@pytest.mark.parametrize("name", LONG)
def test_logits_of_a_long_text(ie, tiny, tmp_path, name):
    assert np.median(check_model(ie, tiny(name), some_ids(300), tmp_path)) <= LOGIT_LIMIT


@pytest.mark.parametrize("name", ["f32", "bf16", "q8_0", "q6_k", "qwen3-hd48"])
def test_float_mode(ie, tiny, tmp_path, name):
    """Without any rounding of activations the reference is close, too: the emulation hides no error."""
    ids = some_ids(44)
    t = ref.Trace(trace(ie, tiny(name), ids, tmp_path / "trace"))
    e = ref.row_errors(t.logits, ref.forward(ref.Model(tiny(name)), ids))
    assert np.median(e) <= (2e-3 if tiny_models.MODELS[name].fmt in ref.FLOATS else 4e-2)


@pytest.mark.parametrize("name", ["q4_0", "bf16", "llama-yarn"])
def test_dumped_logits_are_those_of_the_ops(ie, tiny, tmp_path, name):
    ids = some_ids(44)
    t = ref.Trace(trace(ie, tiny(name), ids, tmp_path / "trace"))
    ie.run(tiny(name), "--tokens", ",".join(map(str, ids)), "--n", 1, "-q", "--dump-logits", tmp_path / "dump")
    pos, token, logits = ref.read_dump(tmp_path / "dump")
    assert (pos, token) == (list(range(44)), ids)
    assert np.array_equal(logits, t.logits)


def test_a_real_model(ie, smollm2, tmp_path):
    """With 210 places where 576 or 1536 values are rounded, hardly a position is without a tie: no median here."""
    ids = [504, 2400, 314]
    check_ops(ie, smollm2, ids, tmp_path, keep=False)
    check_model(ie, smollm2, ids, tmp_path, keep=False)
