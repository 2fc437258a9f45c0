#!/usr/bin/env python3
"""Small random qwen35 models (Gated DeltaNet, gated attention, an MTP layer), and their forward pass in numpy float64.

    tiny_qwen35.py --list
    tiny_qwen35.py NAME OUT.gguf [--seed N]
    tiny_qwen35.py --forward MODEL.gguf IDS [--mtp]   logits as `ie-run --dump-logits` writes them

The pass follows the papers (Gated DeltaNet: arXiv:2412.06464, token by token; RoPE: 2104.09864; multi-token prediction:
2412.19437) and the conventions of the files, not the engine.
"""
import argparse
import dataclasses
import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import gguf_write  # noqa: E402
import make_tiny_gguf as tiny  # noqa: E402
import ref_forward as ref  # noqa: E402

F64 = np.float64


@dataclasses.dataclass
class Spec:
    fmt: str = "Q8_0"
    layers: int = 4          # without the MTP layer
    interval: int = 2        # every interval-th layer is full attention
    listed: bool = False     # layers' kinds stated one by one instead
    embd: int = 96
    ff: int = 160
    heads: int = 4
    kv: int = 2
    hd: int = 32
    rope_dim: int = 16
    n_k: int = 2
    n_v: int = 6
    state: int = 32
    mtp: int = 1
    tied: bool = True
    vocab: int = 271
    ctx: int = 1024
    eps: float = 1e-6
    rope_base: float = 1e5
    types: dict = dataclasses.field(default_factory=dict)
    # what make_tiny_gguf's writers of keys and vectors look at
    arch: str = "qwen35"
    vec: str = "F32"
    chat: bool = True
    linear: float = 0
    yarn: float = 0
    window: int = 0


MODELS = {
    "q8": Spec(),
    "f32": Spec(fmt="F32", embd=72, ff=100, n_k=2, n_v=2, state=96, hd=48, heads=2, kv=1, rope_dim=24, layers=3, interval=3),
    "f16-wide": Spec(fmt="F16", embd=64, ff=96, n_k=1, n_v=2, state=256, heads=2, kv=2, hd=64, rope_dim=64, layers=2, mtp=0, tied=False),
    "k-mixed": Spec(fmt="Q4_K", embd=256, ff=256, n_k=1, n_v=4, state=64, heads=4, kv=1, hd=64, rope_dim=32, listed=True, tied=False, types={
        "attn_qkv": "Q6_K", "ssm_beta": "F32", "ssm_alpha": "BF16", "attn_v": "Q6_K", "ffn_down": "Q5_K", "token_embd": "Q6_K",
        "output": "Q6_K", "eh_proj": "Q4_K"}),
    "q4-128": Spec(fmt="Q4_0", embd=128, n_k=2, n_v=4, state=128, layers=4, interval=4),
}


# ---- files ------------------------------------------------------------------------------------------------------------

def recurrent(s):
    if s.listed:
        return [i % 3 != 1 for i in range(s.layers)]
    return [(i + 1) % s.interval != 0 for i in range(s.layers)]


class _Tensors(tiny._Tensors):
    def floats(self, name, dims, x):
        self.w.tensor(name, gguf_write.F32, dims, x.astype(np.float32).tobytes())


def _full(t, s, p):
    q, kv = s.heads * s.hd, s.kv * s.hd
    t.mat(p + "attn_q.weight", 2 * q, s.embd, 1.2)
    t.mat(p + "attn_k.weight", kv, s.embd, 1.2)
    t.mat(p + "attn_v.weight", kv, s.embd)
    t.mat(p + "attn_output.weight", s.embd, q)
    t.vec(p + "attn_q_norm.weight", s.hd, 1, 0.2)
    t.vec(p + "attn_k_norm.weight", s.hd, 1, 0.2)


def _recurrent(t, s, p):
    inner, ch = s.n_v * s.state, (2 * s.n_k + s.n_v) * s.state
    t.mat(p + "attn_qkv.weight", ch, s.embd)
    t.mat(p + "attn_gate.weight", inner, s.embd)
    t.mat(p + "ssm_beta.weight", s.n_v, s.embd)
    t.mat(p + "ssm_alpha.weight", s.n_v, s.embd)
    t.mat(p + "ssm_out.weight", s.embd, inner)
    t.floats(p + "ssm_conv1d.weight", [4, ch], t.rng.normal(0, 0.7, (ch, 4)))
    t.floats(p + "ssm_a", [s.n_v], -np.exp(t.rng.uniform(-5, 1, s.n_v)))
    t.floats(p + "ssm_dt.bias", [s.n_v], t.rng.normal(0, 1, s.n_v))
    t.vec(p + "ssm_norm.weight", s.state, 1, 0.2)


def _tensors(w, s, rng):
    t = _Tensors(w, s, rng)
    t.mat("token_embd.weight", s.vocab, s.embd, 4.0)
    kinds = recurrent(s) + [False] * s.mtp
    for i, r in enumerate(kinds):
        p = f"blk.{i}."
        t.vec(p + "attn_norm.weight", s.embd, 1, 0.2)
        (_recurrent if r else _full)(t, s, p)
        t.vec(p + "post_attention_norm.weight", s.embd, 1, 0.2)
        t.mat(p + "ffn_gate.weight", s.ff, s.embd)
        t.mat(p + "ffn_up.weight", s.ff, s.embd)
        t.mat(p + "ffn_down.weight", s.embd, s.ff)
        if i >= s.layers:
            t.mat(p + "nextn.eh_proj.weight", s.embd, 2 * s.embd)
            for name in ("enorm", "hnorm", "shared_head_norm"):
                t.vec(p + f"nextn.{name}.weight", s.embd, 1, 0.2)
    t.vec("output_norm.weight", s.embd, 1, 0.2)
    if not s.tied:
        t.mat("output.weight", s.vocab, s.embd, 4.0)


def metadata(w, spec, name, keys=None, sections=None):
    """All keys of a model; keys, sections: those that replace the right ones."""
    s = dataclasses.replace(spec, layers=spec.layers + spec.mtp)  # block_count counts the MTP layer
    tiny.metadata(w, s, name)
    extra = {"ssm.conv_kernel": 4, "ssm.state_size": s.state, "ssm.group_count": s.n_k, "ssm.time_step_rank": s.n_v,
             "ssm.inner_size": s.n_v * s.state, "full_attention_interval": s.interval, "nextn_predict_layers": s.mtp, **(keys or {})}
    for key, v in extra.items():
        if v is not None:
            w.u32("qwen35." + key, v)
    if s.listed:
        w.array("qwen35.attention.recurrent_layers", gguf_write.BOOL, recurrent(spec) + [False] * s.mtp)
    half = s.rope_dim // 2
    w.array("qwen35.rope.dimension_sections", gguf_write.I32, sections or [half - half // 3 * 2, half // 3, half // 3, 0])


def build(spec, path, name="model", seed=1, keys=None, sections=None):
    """Writes a model; equal arguments give equal bytes. keys, sections: see metadata."""
    w = gguf_write.Gguf()
    metadata(w, spec, name, keys, sections)
    _tensors(w, spec, np.random.default_rng([seed, *name.encode()]))
    w.write(path)


# ---- forward pass -----------------------------------------------------------------------------------------------------

def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def delta_net(q, k, v, beta, log_decay):
    """Token by token: q, k, v [T, heads, n], beta and log_decay [T, heads] -> [T, heads, n]."""
    t, heads, n = v.shape
    s, out = np.zeros((heads, n, n)), np.empty_like(v)
    for i in range(t):
        s *= np.exp(log_decay[i])[:, None, None]
        d = beta[i][:, None] * (v[i] - np.einsum("hkv,hk->hv", s, k[i]))
        s += k[i][:, :, None] * d[:, None, :]
        out[i] = np.einsum("hkv,hk->hv", s, q[i])
    return out


def _recurrent_layer(m, p, x):
    nk, nv, n = (m.key(k) for k in ("ssm.group_count", "ssm.time_step_rank", "ssm.state_size"))
    raw = np.concatenate([np.zeros((3, (2 * nk + nv) * n)), x @ m.mat(p + "attn_qkv.weight").T])
    taps = m.mat(p + "ssm_conv1d.weight")
    y = ref.silu(sum(raw[i:len(raw) - 3 + i] * taps[:, i] for i in range(4)))
    q, k, v = (a.reshape(len(x), -1, n) for a in np.split(y, [nk * n, 2 * nk * n], axis=1))
    q, k = (a / np.sqrt((a * a).sum(-1, keepdims=True) + m.eps) for a in (q, k))
    q, k = (np.tile(a, (1, nv // nk, 1)) for a in (q / np.sqrt(n), k))  # value head j: key head j mod nk
    beta = sigmoid(x @ m.mat(p + "ssm_beta.weight").T)
    a = x @ m.mat(p + "ssm_alpha.weight").T + m.vec(p + "ssm_dt.bias")
    o = delta_net(q, k, v, beta, m.vec(p + "ssm_a") * np.logaddexp(0, a))
    z = (x @ m.mat(p + "attn_gate.weight").T).reshape(o.shape)
    o = ref.rms(o, m.vec(p + "ssm_norm.weight"), m.eps) * ref.silu(z)
    return o.reshape(len(x), -1) @ m.mat(p + "ssm_out.weight").T


def _full_layer(m, p, x, angles):
    q, gate = np.split((x @ m.mat(p + "attn_q.weight").T).reshape(len(x), m.heads, 2 * m.hd), 2, axis=2)
    k, v = ((x @ m.mat(p + f"attn_{c}.weight").T).reshape(len(x), m.kv, m.hd) for c in "kv")
    q, k = ref.rms(q, m.vec(p + "attn_q_norm.weight"), m.eps), ref.rms(k, m.vec(p + "attn_k_norm.weight"), m.eps)
    q, k = ref.rope(q, *angles, True), ref.rope(k, *angles, True)
    a = ref.attention(q, k, v, np.arange(len(x)), m.hd ** -0.5, 0)
    return (a * sigmoid(gate.reshape(a.shape))) @ m.mat(p + "attn_output.weight").T


def _layer(m, i, h, is_recurrent, angles):
    p = f"blk.{i}."
    x = ref.rms(h, m.vec(p + "attn_norm.weight"), m.eps)
    h = h + (_recurrent_layer(m, p, x) if is_recurrent else _full_layer(m, p, x, angles))
    x = ref.rms(h, m.vec(p + "post_attention_norm.weight"), m.eps)
    up = ref.silu(x @ m.mat(p + "ffn_gate.weight").T) * (x @ m.mat(p + "ffn_up.weight").T)
    return h + up @ m.mat(p + "ffn_down.weight").T


def forward(m, ids):
    """Logits of the main model and of the MTP layer (None without one), [T, vocab] each."""
    mtp = m.key("nextn_predict_layers", 0)
    n = m.layers - mtp
    interval = m.key("full_attention_interval", 4)
    kinds = m.meta.get("qwen35.attention.recurrent_layers", [(i + 1) % interval != 0 for i in range(n)])
    angles = m.angles(np.arange(len(ids)))
    head = m.mat("output.weight" if "output.weight" in m.t else "token_embd.weight").T
    e = m.rows("token_embd.weight", ids)
    h = e
    for i in range(n):
        h = _layer(m, i, h, kinds[i], angles)
    hidden = ref.rms(h, m.vec("output_norm.weight"), m.eps)
    if not mtp:
        return hidden @ head, None
    p = f"blk.{n}.nextn."
    before = np.concatenate([np.zeros((1, m.embd)), hidden[:-1]])
    pair = [ref.rms(e, m.vec(p + "enorm.weight"), m.eps), ref.rms(before, m.vec(p + "hnorm.weight"), m.eps)]
    h = _layer(m, n, np.concatenate(pair, axis=1) @ m.mat(p + "eh_proj.weight").T, False, angles)
    return hidden @ head, ref.rms(h, m.vec(p + "shared_head_norm.weight"), m.eps) @ head


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("name", nargs="?")
    ap.add_argument("out", nargs="?", help="a file, or token ids separated by commas")
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--list", action="store_true")
    ap.add_argument("--forward", action="store_true")
    ap.add_argument("--mtp", action="store_true")
    a = ap.parse_args()
    if a.list:
        for name, s in MODELS.items():
            print(f"{name:10} {s.fmt:5} {s.layers} layers, {s.embd} wide, {s.n_k}/{s.n_v} heads of {s.state}, {s.heads}/{s.kv} of {s.hd}")
        return
    if not a.name or not a.out or (not a.forward and a.name not in MODELS):
        ap.error(f"NAME (one of {', '.join(MODELS)}) and OUT, or --forward MODEL IDS")
    if not a.forward:
        build(MODELS[a.name], a.out, a.name, a.seed)
        return
    ids = [int(x) for x in a.out.split(",")]
    for p, row in enumerate(forward(ref.Model(a.name), ids)[a.mtp]):
        print(p, ids[p], " ".join(f"{x:.9g}" for x in row))


if __name__ == "__main__":
    main()
