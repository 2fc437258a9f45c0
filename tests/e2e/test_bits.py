"""The same bits of logits whatever the threads, the SIMD level, the batch a token travels in, or how matrices are joined.

A small model of each format and architecture, each option alone against one run; SmolLM2 with fewer."""
import pytest

import make_tiny_gguf as tiny_models
from test_reference import some_ids

MODELS = list(tiny_models.MODELS)
LEVELS = ["avx512", "avx2", "portable"]


@pytest.fixture(scope="module")
def levels(ie, tiny):
    """The levels that this processor has; the others are refused by name."""
    have = []
    for level in LEVELS:
        r = ie.run(tiny("q4_0"), "--info", env={"IE_SIMD": level}, check=False)
        if r.returncode == 0:
            assert level in r.stdout
            have.append(level)
        else:
            assert r.returncode == 1 and level in r.stderr and len(r.stderr.splitlines()) == 1, r.stderr
            print(f"skip: this processor has no {level}")
    assert "portable" in have
    return have


def dump(ie, tmp_path, model, ids, n, *options, env=None):
    out = tmp_path / "dump"
    ie.run(model, "--tokens", ",".join(map(str, ids)), "--n", n, "-q", "--dump-logits", out, *options, env=env)
    text = out.read_bytes()
    assert text.count(b"\n") == len(ids) + n - 1
    return text


def same(ie, tmp_path, model, ids, n, base, *options, env=None):
    got = dump(ie, tmp_path, model, ids, n, *options, env=env)
    if got == base:
        return
    for a, b in zip(base.splitlines(), got.splitlines()):
        assert a == b, f"{options} {env}: position {b.split()[0].decode()} differs"


@pytest.mark.parametrize("name", MODELS)
def test_variants(ie, tiny, tmp_path, levels, name):
    """45 positions of prompt and 5 of decode: two pages, three groups of tokens, a tail."""
    ids, model = some_ids(45), tiny(name)
    base = dump(ie, tmp_path, model, ids, 6, "--threads", 1)
    same(ie, tmp_path, model, ids, 6, base, "--threads", 2)
    same(ie, tmp_path, model, ids, 6, base, "--threads", 7)
    for chunk in (1, 7, 64, 512):
        same(ie, tmp_path, model, ids, 6, base, "--chunk", chunk)
    same(ie, tmp_path, model, ids, 6, base, env={"IE_JOIN": "0"})
    same(ie, tmp_path, model, ids, 6, base, env={"IE_PREFILL": "decode"})
    for level in levels:
        same(ie, tmp_path, model, ids, 6, base, "--threads", 2, env={"IE_SIMD": level})
        same(ie, tmp_path, model, ids, 6, base, "--chunk", 1, "--threads", 1, env={"IE_SIMD": level})


@pytest.mark.parametrize("level", LEVELS)
def test_levels(levels, level):
    """Says which levels the tests above could not run."""
    if level not in levels:
        pytest.skip(f"this processor has no {level}")


@pytest.mark.parametrize("name", ["f16", "q8_0", "llama-window", "qwen2-window", "qwen3-hd48", "llama-hd320"])
def test_long_text(ie, tiny, tmp_path, levels, name):
    """300 positions: two partials of attention; shares of them over 1, 2 and 7 threads."""
    ids, model = some_ids(300), tiny(name)
    base = dump(ie, tmp_path, model, ids, 3, "--threads", 1)
    for threads in (2, 7):
        same(ie, tmp_path, model, ids, 3, base, "--threads", threads)
        same(ie, tmp_path, model, ids, 3, base, "--threads", threads, "--chunk", 1)
    same(ie, tmp_path, model, ids, 3, base, "--chunk", 7)
    for level in levels:
        same(ie, tmp_path, model, ids, 3, base, env={"IE_SIMD": level})


def test_prompt_or_generated(ie, tiny, tmp_path):
    """A text fed as a prompt and the same text generated token by token."""
    model, ids = tiny("q5_k"), some_ids(20)
    text = dump(ie, tmp_path, model, ids, 30)
    tokens = [int(line.split()[1]) for line in text.splitlines()]
    assert dump(ie, tmp_path, model, tokens, 1) == text


def test_real_model(ie, smollm2, tmp_path, levels):
    ids = some_ids(40, 49152)
    base = dump(ie, tmp_path, smollm2, ids, 4, "--threads", 2)
    same(ie, tmp_path, smollm2, ids, 4, base, "--threads", 7, "--chunk", 7)
    same(ie, tmp_path, smollm2, ids, 4, base, "--threads", 1, "--chunk", 1, env={"IE_JOIN": "0"})
    for level in levels:
        same(ie, tmp_path, smollm2, ids, 4, base, env={"IE_SIMD": level})
