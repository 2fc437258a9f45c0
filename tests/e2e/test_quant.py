"""Repacked weights against the Python package gguf: same f32 bits for every format.

gguf.quants computes in f32 in the order that docs/NUMERICS.md states, so equality is of bits; NaNs compare as a class.
Random bytes reach every quant, scale and f16 value, infinities, NaNs and subnormals included."""
import os
import subprocess
from pathlib import Path

import gguf
import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOL = Path(os.environ.get("IE_BUILD", ROOT / "build")) / "tests" / "test_quant"
FORMATS = ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K",
           "IQ4_NL", "IQ4_XS"]


def ours(tmp_path, name, raw, k, row0):
    src, dst = tmp_path / "in", tmp_path / "out"
    raw.tofile(src)
    subprocess.run([TOOL, name, src, dst, str(k), str(row0)], check=True, timeout=120)
    return np.fromfile(dst, dtype=np.float32).reshape(raw.shape[0], k)


def assert_same_bits(got, want):
    nan = np.isnan(want)
    assert (np.isnan(got) == nan).all()
    differ = (got.view(np.uint32) != want.view(np.uint32)) & ~nan
    assert not differ.any(), f"{differ.sum()} of {differ.size} differ, first at {np.argwhere(differ)[0]}"


@pytest.mark.parametrize("row0", [0, 5])
@pytest.mark.parametrize("name", FORMATS)
def test_dequant_bits(tmp_path, name, row0):
    kind = gguf.GGMLQuantizationType[name]
    block, size = gguf.GGML_QUANT_SIZES[kind]
    k = 1024
    rng = np.random.default_rng(FORMATS.index(name))
    raw = rng.integers(0, 256, size=(600, k // block * size), dtype=np.uint8)
    with np.errstate(all="ignore"):
        want = gguf.quants.dequantize(raw, kind).astype(np.float32)
    assert_same_bits(ours(tmp_path, name, raw, k, row0), want)


@pytest.mark.parametrize("name", ["F32", "F16", "BF16"])
@pytest.mark.parametrize("k", [1, 31, 33, 100])
def test_float_rows_of_any_length(tmp_path, name, k):
    rng = np.random.default_rng(k)
    raw = rng.integers(0, 256, size=(40, k * (4 if name == "F32" else 2)), dtype=np.uint8)
    with np.errstate(all="ignore"):
        want = gguf.quants.dequantize(raw, gguf.GGMLQuantizationType[name]).astype(np.float32)
    assert_same_bits(ours(tmp_path, name, raw, k, 3), want)
