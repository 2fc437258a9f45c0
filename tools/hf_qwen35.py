#!/usr/bin/env python3
"""Qwen3.5 text models from Hugging Face's form to GGUF, on small random models; their logits by transformers, as vectors for a test.

    hf_qwen35.py --list
    hf_qwen35.py NAME OUT.gguf           numpy alone
    hf_qwen35.py --vectors OUT.json      needs torch and transformers (5.17.0 was used)

What differs between the forms: RMSNorm weights are stored + 1 (ssm_norm is not), A_log becomes -exp(A_log), the convolution loses
its middle dimension, and value heads are ordered by tiles: value head j of the file goes with key head j mod n_k, where
transformers has n_v / n_k value heads in a row for each key head. The weights come from RandomState, whose numbers never change.
"""
import argparse
import hashlib
import json
import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import gguf_write  # noqa: E402
import tiny_qwen35 as tiny  # noqa: E402

MODELS = {
    "tied": tiny.Spec(fmt="F32", layers=5, interval=4, embd=64, ff=96, heads=4, kv=2, hd=32, rope_dim=8, n_k=2, n_v=4, state=32, mtp=0,
                      rope_base=1e7),
    "untied": tiny.Spec(fmt="F32", layers=4, interval=2, embd=96, ff=160, heads=3, kv=1, hd=64, rope_dim=32, n_k=2, n_v=6, state=64, mtp=0,
                        tied=False, rope_base=1e5),
    "one-key-head": tiny.Spec(fmt="F32", layers=3, interval=3, embd=72, ff=100, heads=2, kv=2, hd=48, rope_dim=24, n_k=1, n_v=3, state=32, mtp=0),
}
LENGTHS = [1, 2, 31, 32, 33, 100, 257]


def prompt(spec, n):
    return [int(x) for x in np.random.RandomState(n).randint(0, spec.vocab, n)]


# ---- the model as transformers names it -------------------------------------------------------------------------------------

def random_state(spec, seed=7):
    """name -> float32 array"""
    rng, state = np.random.RandomState(seed), {}
    ch = (2 * spec.n_k + spec.n_v) * spec.state

    def put(name, *shape, scale=None, mean=0.0):
        scale = scale or shape[-1] ** -0.5
        state[name] = (mean + scale * rng.standard_normal(shape)).astype(np.float32)

    put("model.embed_tokens.weight", spec.vocab, spec.embd, scale=1.0)
    for i, linear in enumerate(tiny.recurrent(spec)):
        p = f"model.layers.{i}."
        put(p + "input_layernorm.weight", spec.embd, scale=0.2)
        if linear:
            a, inner = p + "linear_attn.", spec.n_v * spec.state
            put(a + "in_proj_qkv.weight", ch, spec.embd)
            put(a + "in_proj_z.weight", inner, spec.embd)
            put(a + "in_proj_b.weight", spec.n_v, spec.embd)
            put(a + "in_proj_a.weight", spec.n_v, spec.embd)
            put(a + "conv1d.weight", ch, 1, 4, scale=0.5)
            put(a + "dt_bias", spec.n_v, scale=1.0)
            put(a + "A_log", spec.n_v, scale=1.5, mean=-1.0)
            put(a + "norm.weight", spec.state, scale=0.2, mean=1.0)
            put(a + "out_proj.weight", spec.embd, inner)
        else:
            a = p + "self_attn."
            put(a + "q_proj.weight", 2 * spec.heads * spec.hd, spec.embd)
            put(a + "k_proj.weight", spec.kv * spec.hd, spec.embd)
            put(a + "v_proj.weight", spec.kv * spec.hd, spec.embd)
            put(a + "o_proj.weight", spec.embd, spec.heads * spec.hd)
            put(a + "q_norm.weight", spec.hd, scale=0.2)
            put(a + "k_norm.weight", spec.hd, scale=0.2)
        put(p + "post_attention_layernorm.weight", spec.embd, scale=0.2)
        put(p + "mlp.gate_proj.weight", spec.ff, spec.embd)
        put(p + "mlp.up_proj.weight", spec.ff, spec.embd)
        put(p + "mlp.down_proj.weight", spec.embd, spec.ff)
    put("model.norm.weight", spec.embd, scale=0.2)
    if not spec.tied:
        put("lm_head.weight", spec.vocab, spec.embd)
    return state


def digest(state):
    h = hashlib.sha256()
    for name in sorted(state):
        h.update(name.encode() + state[name].tobytes())
    return h.hexdigest()


# ---- to GGUF ----------------------------------------------------------------------------------------------------------------

def tiled(x, spec, rows):
    """Value heads, `rows` of the first dimension each, from key head by key head to tiles of n_k."""
    per_key = spec.n_v // spec.n_k
    return x.reshape(spec.n_k, per_key, rows, *x.shape[1:]).swapaxes(0, 1).reshape(x.shape)


def convert(state, spec):
    """name in the file -> array, row-major"""
    keys, n = 2 * spec.n_k * spec.state, spec.state
    plain = {"embed_tokens": "token_embd", "norm": "output_norm", "input_layernorm": "attn_norm", "post_attention_layernorm":
             "post_attention_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
             "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
             "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm", "lm_head": "output"}

    def values(x):  # q | k | v: only v's heads move
        return np.concatenate([x[:keys], tiled(x[keys:], spec, n)])
    linear = {"in_proj_qkv.weight": ("attn_qkv.weight", values), "in_proj_z.weight": ("attn_gate.weight", lambda x: tiled(x, spec, n)),
              "in_proj_b.weight": ("ssm_beta.weight", lambda x: tiled(x, spec, 1)),
              "in_proj_a.weight": ("ssm_alpha.weight", lambda x: tiled(x, spec, 1)),
              "conv1d.weight": ("ssm_conv1d.weight", lambda x: values(x[:, 0])), "dt_bias": ("ssm_dt.bias", lambda x: tiled(x, spec, 1)),
              "A_log": ("ssm_a", lambda x: -np.exp(tiled(x, spec, 1))), "norm.weight": ("ssm_norm.weight", lambda x: x),
              "out_proj.weight": ("ssm_out.weight", lambda x: tiled(x.T, spec, n).T)}
    out = {}
    for name, x in state.items():
        p, rest = "", name.removeprefix("model.")
        if rest.startswith("layers."):
            i, rest = rest.removeprefix("layers.").split(".", 1)
            p = f"blk.{i}."
        if rest.startswith("linear_attn."):
            to, change = linear[rest.removeprefix("linear_attn.")]
            out[p + to] = change(x)
        else:
            kind = rest.removesuffix(".weight")
            out[p + plain[kind] + ".weight"] = x + 1 if kind.endswith("norm") else x
    return out


def to_gguf(state, spec, path, name):
    w = gguf_write.Gguf()
    tiny.metadata(w, spec, name)
    for tensor, x in convert(state, spec).items():
        w.tensor(tensor, gguf_write.F32, list(x.shape[::-1]), np.ascontiguousarray(x, np.float32).tobytes())
    w.write(path)


# ---- by transformers ----------------------------------------------------------------------------------------------------------

def logits_of(spec, state, prompts):
    """The logits at each prompt's last position."""
    import torch
    from transformers import Qwen3_5ForCausalLM, Qwen3_5TextConfig
    half = spec.rope_dim // 2
    kinds = ["linear_attention" if r else "full_attention" for r in tiny.recurrent(spec)]
    config = Qwen3_5TextConfig(
        vocab_size=spec.vocab, hidden_size=spec.embd, intermediate_size=spec.ff, num_hidden_layers=spec.layers, num_attention_heads=spec.heads,
        num_key_value_heads=spec.kv, head_dim=spec.hd, rms_norm_eps=spec.eps, tie_word_embeddings=spec.tied, layer_types=kinds,
        linear_num_key_heads=spec.n_k, linear_num_value_heads=spec.n_v, linear_key_head_dim=spec.state, linear_value_head_dim=spec.state,
        linear_conv_kernel_dim=4, max_position_embeddings=spec.ctx, attn_implementation="eager",
        rope_parameters={"rope_type": "default", "rope_theta": spec.rope_base, "partial_rotary_factor": spec.rope_dim / spec.hd,
                         "mrope_section": [half - half // 3 * 2, half // 3, half // 3]})
    model = Qwen3_5ForCausalLM(config).float().eval()
    tensors = {k: torch.from_numpy(v.copy()) for k, v in state.items()}
    if spec.tied:
        tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"]
    left = model.load_state_dict(tensors, strict=False)
    if left.missing_keys or left.unexpected_keys:
        raise SystemExit(f"names differ: {left}")
    with torch.no_grad():
        return [model(torch.tensor([ids])).logits[0, -1].float().numpy() for ids in prompts]


def vectors(path):
    import transformers
    out = {"by": f"transformers {transformers.__version__}, Qwen3_5ForCausalLM, float32", "models": {}}
    for name, spec in MODELS.items():
        state = random_state(spec)
        rows = logits_of(spec, state, [prompt(spec, n) for n in LENGTHS])
        out["models"][name] = {"sha256": digest(state), "logits": {str(n): [float(f"{x:.7g}") for x in row] for n, row in zip(LENGTHS, rows)}}
        print(name, "largest logit", max(float(np.abs(r).max()) for r in rows))
    with open(path, "w") as f:
        json.dump(out, f, separators=(",", ":"))
        f.write("\n")


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("name", nargs="?", choices=MODELS)
    ap.add_argument("out", nargs="?")
    ap.add_argument("--list", action="store_true")
    ap.add_argument("--vectors", metavar="OUT.json")
    a = ap.parse_args()
    if a.list:
        for name, s in MODELS.items():
            print(f"{name:14} {s.layers} layers, {s.embd} wide, {s.n_k}/{s.n_v} heads of {s.state}, {s.heads}/{s.kv} of {s.hd}")
    elif a.vectors:
        vectors(a.vectors)
    elif a.name and a.out:
        to_gguf(random_state(MODELS[a.name]), MODELS[a.name], a.out, a.name)
    else:
        ap.error("NAME and OUT, --vectors or --list")


if __name__ == "__main__":
    main()
