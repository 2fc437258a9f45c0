#!/usr/bin/env python3
"""Small random models: every architecture, every weight format, the shapes and options that are easy to get wrong.

    make_tiny_gguf.py --list
    make_tiny_gguf.py NAME OUT.gguf [--seed N]
    make_tiny_gguf.py --all DIR [--seed N]

A model is 2 or 3 layers wide enough for tails (rows no multiple of 32, heads of 32 to 320) and has a byte-level
vocabulary of 271 tokens, so text works too. Weights are random with the usual magnitudes; formats that the package gguf
cannot quantise to get random blocks (every bit pattern of quants and scales) with f16 factors chosen for that magnitude.
"""
import argparse
import dataclasses
import os
import sys

import gguf
import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import gguf_write  # noqa: E402

FORMATS = ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K",
           "IQ4_NL", "IQ4_XS"]
FLOATS = ("F32", "F16", "BF16")
# Byte positions of the f16 factors in a block of the formats that get random blocks, and the ratio dmin / d that centres
# the weights on zero (mean quant times mean scale against mean minimum).
FACTORS = {"Q2_K": (80, 82, 1.5), "Q3_K": (108, None, 0), "Q4_K": (0, 2, 7.5), "Q5_K": (0, 2, 15.5), "Q6_K": (208, None, 0),
           "IQ4_NL": (0, None, 0), "IQ4_XS": (0, None, 0)}
CHATML = ("{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>' + '\n' }}{% endfor %}"
          "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")


@dataclasses.dataclass
class Spec:
    arch: str = "llama"
    fmt: str = "Q8_0"           # of all matrices, but those named in `types`
    layers: int = 2
    embd: int = 96
    ff: int = 160
    heads: int = 3
    kv: int = 1
    hd: int = 32
    vocab: int = 271
    tied: bool = False
    bias: str = ""              # "qkv", "all", or the name of the one matrix that has one
    rope_dim: int = 0           # 0: the head
    rope_base: float = 10000.0
    rope_freqs: bool = False
    linear: float = 0
    yarn: float = 0
    yarn_extra: dict = dataclasses.field(default_factory=dict)
    window: int = 0
    ctx: int = 512
    eps: float = 1e-5
    types: dict = dataclasses.field(default_factory=dict)  # tensor's last name parts -> format
    vec: str = "F32"            # format of norm weights and biases
    chat: bool = True


def _models():
    m = {}
    arch = ["llama", "qwen2", "qwen3"]
    for i, f in enumerate(FORMATS):
        a = arch[i % 3]
        bias = "qkv" if a == "qwen2" else ""
        if f in FLOATS:    # row lengths that are no multiple of 32
            s = Spec(a, f, embd=72, ff=100, heads=4, kv=2, hd=40, bias=bias)
        elif f in ("Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_XS"):
            s = Spec(a, f, embd=256, ff=512, heads=8, kv=2, hd=32, bias=bias)
        else:
            s = Spec(a, f, bias=bias)
        s.tied = i % 2 == 1
        m[f.lower()] = s
    m["llama-freqs"] = Spec(fmt="Q4_0", rope_freqs=True, rope_base=500000.0, tied=True)
    m["llama-linear"] = Spec(fmt="Q5_1", linear=4.0)
    m["llama-yarn"] = Spec(fmt="Q8_0", hd=64, heads=2, kv=1, yarn=8.0, ctx=2048, yarn_extra={"original_context_length": 64})
    m["qwen2-yarn"] = Spec("qwen2", "Q4_1", bias="qkv", hd=64, heads=2, kv=2, yarn=4.0, rope_base=1e6, yarn_extra={
        "original_context_length": 128, "attn_factor": 1.25, "yarn_beta_fast": 16.0, "yarn_beta_slow": 2.0})
    m["llama-window"] = Spec(fmt="Q8_0", window=9, layers=3)
    m["qwen2-window"] = Spec("qwen2", "Q4_0", bias="qkv", window=37)
    m["llama-bias"] = Spec(fmt="Q5_0", bias="all", vec="F16", layers=3)
    m["llama-bias-float"] = Spec(fmt="F32", bias="all", embd=50, ff=70, heads=2, kv=2, hd=26, vec="BF16")
    m["llama-one-bias"] = Spec(fmt="Q8_0", bias="attn_k")
    m["qwen3-hd48"] = Spec("qwen3", "Q8_0", heads=4, kv=2, hd=48)
    m["llama-hd40"] = Spec(fmt="Q4_0", heads=4, kv=4, hd=40, rope_dim=20)
    m["qwen2-hd80"] = Spec("qwen2", "IQ4_NL", heads=6, kv=2, hd=80, bias="qkv", rope_dim=32)
    m["llama-hd320"] = Spec(fmt="Q6_K", embd=256, ff=256, heads=4, kv=2, hd=320)
    m["qwen3-hd128-float"] = Spec("qwen3", "BF16", embd=100, ff=130, heads=3, kv=3, hd=128, eps=1e-6)
    m["llama-deep-k"] = Spec(fmt="Q6_K", embd=256, ff=4608, heads=4, kv=2, hd=64)  # 18 units of 8 blocks in 16 segments
    m["llama-mixed"] = Spec(fmt="Q4_0", embd=256, ff=256, heads=8, kv=4, hd=32, types={
        "token_embd": "F16", "output": "Q6_K", "attn_q": "Q5_K", "attn_k": "F16", "attn_v": "Q8_0", "attn_output": "F32",
        "ffn_gate": "Q3_K", "ffn_up": "BF16", "ffn_down": "Q5_1"})
    m["qwen2-mixed"] = Spec("qwen2", "Q8_0", bias="qkv", types={"attn_v": "Q4_1", "ffn_down": "F32", "token_embd": "Q5_0"}, tied=True)
    return m


MODELS = _models()


# ---- weights ----------------------------------------------------------------------------------------------------------

def _random_blocks(rng, fmt, rows, cols, std):
    kind = gguf.GGMLQuantizationType[fmt]
    block, size = gguf.GGML_QUANT_SIZES[kind]
    raw = rng.integers(0, 256, size=(rows * (cols // block), size), dtype=np.uint8)
    d_at, min_at, ratio = FACTORS[fmt]

    def set_factors(d):
        raw[:, d_at:d_at + 2] = d.astype(np.float16).view(np.uint8).reshape(-1, 2)
        if min_at is not None:
            raw[:, min_at:min_at + 2] = (d * ratio).astype(np.float16).view(np.uint8).reshape(-1, 2)

    set_factors(np.ones(len(raw)))
    unit = gguf.quants.dequantize(raw[:64], kind).std()
    set_factors(std / unit * rng.uniform(0.5, 1.5, len(raw)) * rng.choice([-1, 1], len(raw)))
    return raw.tobytes()


def encode(rng, fmt, rows, cols, std):
    """rows x cols random weights in a format, as bytes."""
    if fmt in FACTORS:
        return _random_blocks(rng, fmt, rows, cols, std)
    x = rng.normal(0, std, (rows, cols)).astype(np.float32)
    return encode_values(fmt, x)


def encode_values(fmt, x):
    if fmt == "F32":
        return x.tobytes()
    if fmt == "F16":
        return x.astype(np.float16).tobytes()
    return gguf.quants.quantize(x, gguf.GGMLQuantizationType[fmt]).tobytes()


class _Tensors:
    def __init__(self, w, spec, rng):
        self.w, self.s, self.rng = w, spec, rng

    def mat(self, name, rows, cols, gain=1.0):
        last = name.removesuffix(".weight").split(".")[-1]
        fmt = self.s.types.get(last, self.s.fmt)
        data = encode(self.rng, fmt, rows, cols, gain / cols ** 0.5)
        self.w.tensor(name, int(gguf.GGMLQuantizationType[fmt]), [cols, rows], data)

    def vec(self, name, n, mean, std):
        x = self.rng.normal(mean, std, (1, n)).astype(np.float32)
        self.w.tensor(name, int(gguf.GGMLQuantizationType[self.s.vec]), [n], encode_values(self.s.vec, x))


def _tensors(w, s, rng):
    t = _Tensors(w, s, rng)
    q, kv = s.heads * s.hd, s.kv * s.hd
    t.mat("token_embd.weight", s.vocab, s.embd, gain=4.0)
    for i in range(s.layers):
        p = f"blk.{i}."
        shapes = [("attn_q", q, s.embd, 1.2), ("attn_k", kv, s.embd, 1.2), ("attn_v", kv, s.embd, 1.0), ("attn_output", s.embd, q, 1.0),
                  ("ffn_gate", s.ff, s.embd, 1.0), ("ffn_up", s.ff, s.embd, 1.0), ("ffn_down", s.embd, s.ff, 1.0)]
        t.vec(p + "attn_norm.weight", s.embd, 1, 0.2)
        t.vec(p + "ffn_norm.weight", s.embd, 1, 0.2)
        for name, rows, cols, gain in shapes:
            t.mat(p + name + ".weight", rows, cols, gain)
            if s.bias in ("all", name) or (s.bias == "qkv" and name in ("attn_q", "attn_k", "attn_v")):
                t.vec(p + name + ".bias", rows, 0, 0.3)
        if s.arch == "qwen3":
            t.vec(p + "attn_q_norm.weight", s.hd, 1, 0.2)
            t.vec(p + "attn_k_norm.weight", s.hd, 1, 0.2)
    t.vec("output_norm.weight", s.embd, 1, 0.2)
    if not s.tied:
        t.mat("output.weight", s.vocab, s.embd, 4.0)
    if s.rope_freqs:
        half = (s.rope_dim or s.hd) // 2
        x = np.where(np.arange(half) < half // 2, 1.0, np.linspace(1, 8, half)).astype(np.float32)
        w.tensor("rope_freqs.weight", gguf_write.F32, [half], x.tobytes())


# ---- metadata ---------------------------------------------------------------------------------------------------------

def byte_chars():
    """GPT-2's printable stand-ins for the 256 bytes."""
    keep = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    rest = [b for b in range(256) if b not in keep]
    return {**{b: chr(b) for b in keep}, **{b: chr(256 + i) for i, b in enumerate(rest)}}


def _vocabulary(w, s):
    c = byte_chars()
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    merges = [("t", "h"), ("th", "e"), (c[32], "the"), ("i", "n"), ("a", "n"), ("e", "r"), (c[32], "a"), (c[32], "s")]
    tokens = special + [c[b] for b in range(256)] + [a + b for a, b in merges]
    kinds = [3] * len(special) + [1] * (len(tokens) - len(special))
    while len(tokens) < s.vocab:
        tokens.append(f"<|unused{len(tokens)}|>")
        kinds.append(3)
    w.str("tokenizer.ggml.model", "gpt2")
    w.str("tokenizer.ggml.pre", {"llama": "smollm"}.get(s.arch, "qwen2"))
    w.strings("tokenizer.ggml.tokens", tokens)
    w.array("tokenizer.ggml.token_type", gguf_write.I32, kinds)
    w.strings("tokenizer.ggml.merges", [f"{a} {b}" for a, b in merges])
    w.u32("tokenizer.ggml.bos_token_id", 0)
    w.u32("tokenizer.ggml.eos_token_id", 2)
    w.bool("tokenizer.ggml.add_bos_token", False)
    if s.chat:
        w.str("tokenizer.chat_template", CHATML)


def _scaling(w, s):
    p = s.arch + ".rope.scaling."
    if s.linear:
        w.str(p + "type", "linear")
        w.f32(p + "factor", s.linear)
    if s.yarn:
        w.str(p + "type", "yarn")
        w.f32(p + "factor", s.yarn)
        for key, v in s.yarn_extra.items():
            (w.u32 if isinstance(v, int) else w.f32)(p + key, v)


def metadata(w, s, name):
    """All keys of a model."""
    w.str("general.architecture", s.arch)
    w.str("general.name", "tiny " + name)
    p = s.arch + "."
    for key, v in [("block_count", s.layers), ("context_length", s.ctx), ("embedding_length", s.embd), ("feed_forward_length", s.ff),
                   ("attention.head_count", s.heads), ("attention.head_count_kv", s.kv), ("attention.key_length", s.hd),
                   ("attention.value_length", s.hd)]:
        w.u32(p + key, v)
    if s.rope_dim:
        w.u32(p + "rope.dimension_count", s.rope_dim)
    if s.window:
        w.u32(p + "attention.sliding_window", s.window)
    w.f32(p + "attention.layer_norm_rms_epsilon", s.eps)
    w.f32(p + "rope.freq_base", s.rope_base)
    _scaling(w, s)
    _vocabulary(w, s)


def build(spec, path, name="model", seed=1):
    """Writes a model; equal arguments give equal bytes."""
    w = gguf_write.Gguf()
    metadata(w, spec, name)
    _tensors(w, spec, np.random.default_rng([seed, *name.encode()]))
    w.write(path)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("name", nargs="?")
    ap.add_argument("out", nargs="?")
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--list", action="store_true")
    ap.add_argument("--all", metavar="DIR")
    a = ap.parse_args()
    if a.list:
        for name, s in MODELS.items():
            print(f"{name:18} {s.arch:6} {s.fmt:7} {s.layers} layers, {s.embd} wide, {s.heads}/{s.kv} heads of {s.hd}")
    elif a.all:
        os.makedirs(a.all, exist_ok=True)
        for name, s in MODELS.items():
            build(s, os.path.join(a.all, name + ".gguf"), name, a.seed)
    elif a.name in MODELS and a.out:
        build(MODELS[a.name], a.out, a.name, a.seed)
    else:
        ap.error("give a NAME of --list and OUT.gguf, or --all DIR, or --list")


if __name__ == "__main__":
    main()
