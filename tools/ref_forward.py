#!/usr/bin/env python3
"""An independent forward pass in numpy float64, for checking the engine: whole models, and single ops from a trace.

    ref_forward.py MODEL.gguf IDS [--q8]           logits as `ie-run --dump-logits` writes them
    ref_forward.py MODEL.gguf --trace FILE         each op of a trace (tests/tools/op_trace.c), fed the engine's own inputs
    ref_forward.py MODEL.gguf IDS --against FILE   logits (a dump) against this pass, position by position

Written from the formats' definitions and the papers (RMSNorm: arXiv:1910.07467, RoPE: 2104.09864, YaRN: 2309.00071,
SwiGLU: 2002.05202, grouped heads: 2305.13245), not from the engine: all sums are float64 in numpy's order. With q8 the
inputs of matrices in integer formats are rounded as the engine defines it (blocks of 32, d = amax / 127 in f32, ties to
even), and K and V to f16; everything else stays exact. Only a rounding that falls on the other side of a tie can then
separate the two by more than float32's noise; `Rounding` lists such ties and can follow the engine's side.
"""
import argparse
import json
import sys

import gguf
import numpy as np

F64 = np.float64

# ---- weight formats: exact values ---------------------------------------------------------------------------------------

IQ4 = np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], F64)


def _f16(b):
    return np.ascontiguousarray(b).view(np.float16).astype(F64)


def _nibbles(qs):
    """[n, 16] bytes: weight i in the low nibble of byte i, weight i + 16 in its high nibble."""
    return np.concatenate([qs & 15, qs >> 4], axis=1).astype(F64)


def _bits5(qh):
    """[n, 4] bytes: bit i of the little-endian word belongs to weight i; as 0 or 16."""
    return np.unpackbits(qh, axis=1, bitorder="little").astype(F64) * 16


def _q4_0(b):
    return _f16(b[:, :2]) * (_nibbles(b[:, 2:]) - 8)


def _q4_1(b):
    return _f16(b[:, :2]) * _nibbles(b[:, 4:]) + _f16(b[:, 2:4])


def _q5_0(b):
    return _f16(b[:, :2]) * (_nibbles(b[:, 6:]) + _bits5(b[:, 2:6]) - 16)


def _q5_1(b):
    return _f16(b[:, :2]) * (_nibbles(b[:, 8:]) + _bits5(b[:, 4:8])) + _f16(b[:, 2:4])


def _q8_0(b):
    return _f16(b[:, :2]) * b[:, 2:].view(np.int8)


def _iq4_nl(b):
    return _f16(b[:, :2]) * IQ4[_nibbles(b[:, 2:]).astype(int)]


def _two_bits(qs):
    """[n, 64] bytes -> [n, 256]: halves of 128 weights from 32 bytes each, four groups of 32 by rising bit pairs."""
    q = qs.reshape(-1, 2, 1, 32) >> np.array([0, 2, 4, 6], np.uint8).reshape(1, 1, 4, 1)
    return (q & 3).reshape(-1, 256).astype(F64)


def _q2_k(b):
    sc, q = b[:, :16], _two_bits(b[:, 16:80]).reshape(-1, 16, 16)
    d, m = _f16(b[:, 80:82]), _f16(b[:, 82:84])
    return (d[:, :, None] * (sc & 15)[:, :, None] * q - m[:, :, None] * (sc >> 4)[:, :, None]).reshape(-1, 256)


def _q3_k(b):
    high = b[:, None, :32] >> np.arange(8, dtype=np.uint8).reshape(1, 8, 1)  # bit g of byte i: weight 32 g + i
    q = _two_bits(b[:, 32:96]) + 4 * (high & 1).reshape(-1, 256) - 4
    s = b[:, 96:108]
    low = np.concatenate([s[:, :8] & 15, s[:, :8] >> 4], axis=1)
    top = np.concatenate([s[:, 8:] >> k & 3 for k in (0, 2, 4, 6)], axis=1)
    scale = (low | top << 4).astype(F64) - 32
    return (_f16(b[:, 108:110])[:, :, None] * scale[:, :, None] * q.reshape(-1, 16, 16)).reshape(-1, 256)


def _scales_min(s):
    """12 bytes: 8 scales and 8 minimums of 6 bits."""
    sc = np.concatenate([s[:, :4] & 63, (s[:, 8:] & 15) | (s[:, :4] >> 6) << 4], axis=1)
    mn = np.concatenate([s[:, 4:8] & 63, (s[:, 8:] >> 4) | (s[:, 4:8] >> 6) << 4], axis=1)
    return sc.astype(F64)[:, :, None], mn.astype(F64)[:, :, None]


def _pairs(qs):
    """[n, 128] bytes -> [n, 8, 32]: each 32 bytes hold a block in the low and the next one in the high nibbles."""
    q = qs.reshape(-1, 4, 1, 32) >> np.array([0, 4], np.uint8).reshape(1, 1, 2, 1)
    return (q & 15).reshape(-1, 8, 32).astype(F64)


def _k_blocks(b, q):
    sc, mn = _scales_min(b[:, 4:16])
    return (_f16(b[:, :2])[:, :, None] * sc * q - _f16(b[:, 2:4])[:, :, None] * mn).reshape(-1, 256)


def _q4_k(b):
    return _k_blocks(b, _pairs(b[:, 16:]))


def _q5_k(b):
    high = b[:, None, 16:48] >> np.arange(8, dtype=np.uint8).reshape(1, 8, 1)
    return _k_blocks(b, _pairs(b[:, 48:]) + 16.0 * (high & 1))


def _q6_k(b):
    ql, qh = b[:, :128].reshape(-1, 2, 2, 32), b[:, 128:192].reshape(-1, 2, 1, 32)
    low = np.concatenate([ql & 15, ql >> 4], axis=2)  # groups of 32: bytes 0..31 low, 32..63 low, then the high nibbles
    high = qh >> np.array([0, 2, 4, 6], np.uint8).reshape(1, 1, 4, 1) & 3
    q = (low | high << 4).reshape(-1, 16, 16).astype(F64) - 32
    return (_f16(b[:, 208:210])[:, :, None] * b[:, 192:208].view(np.int8)[:, :, None] * q).reshape(-1, 256)


def _iq4_xs(b):
    high = np.ascontiguousarray(b[:, 2:4]).view("<u2").astype(int)
    i = np.arange(8)
    scale = (b[:, 4:8].astype(int)[:, i // 2] >> 4 * (i % 2) & 15 | (high >> 2 * i & 3) << 4) - 32
    w = IQ4[_nibbles(b[:, 8:].reshape(-1, 16)).astype(int)].reshape(-1, 8, 32)
    return (_f16(b[:, :2])[:, :, None] * scale[:, :, None] * w).reshape(-1, 256)


# name: (weights, bytes) of a block, decoder
FORMATS = {"Q4_0": (32, 18, _q4_0), "Q4_1": (32, 20, _q4_1), "Q5_0": (32, 22, _q5_0), "Q5_1": (32, 24, _q5_1), "Q8_0": (32, 34, _q8_0),
           "IQ4_NL": (32, 18, _iq4_nl), "Q2_K": (256, 84, _q2_k), "Q3_K": (256, 110, _q3_k), "Q4_K": (256, 144, _q4_k),
           "Q5_K": (256, 176, _q5_k), "Q6_K": (256, 210, _q6_k), "IQ4_XS": (256, 136, _iq4_xs)}
FLOATS = ("F32", "F16", "BF16")


def decode(fmt, data, rows, cols):
    """Bytes of rows x cols weights as float64, exactly."""
    raw = np.frombuffer(data, np.uint8)
    if fmt == "F32":
        return raw.view(np.float32).astype(F64).reshape(rows, cols)
    if fmt == "F16":
        return raw.view(np.float16).astype(F64).reshape(rows, cols)
    if fmt == "BF16":
        return (raw.view("<u2").astype(np.uint32) << 16).view(np.float32).astype(F64).reshape(rows, cols)
    _, size, f = FORMATS[fmt]
    return f(raw.reshape(-1, size)).reshape(rows, cols)


# ---- the model ----------------------------------------------------------------------------------------------------------

class Model:
    """A GGUF file: metadata as attributes, tensors decoded when asked for (and kept, unless keep is false)."""

    def __init__(self, path, keep=True):
        self.keep = keep
        r = gguf.GGUFReader(path)
        self.t = {x.name: x for x in r.tensors}
        self.meta = {k: f.contents() for k, f in r.fields.items()}
        self.arch = self.meta["general.architecture"]
        self.layers, self.embd, self.heads = (self.key(k) for k in ("block_count", "embedding_length", "attention.head_count"))
        self.ff = self.key("feed_forward_length")
        self.kv = self.key("attention.head_count_kv", self.heads)
        self.hd = self.key("attention.key_length", self.embd // self.heads)
        self.eps = float(np.float32(self.key("attention.layer_norm_rms_epsilon")))
        self.window = self.key("attention.sliding_window", 0)
        self.rope_dim = self.key("rope.dimension_count", self.hd)
        self.neox = self.arch != "llama"
        self.cache = {}

    def key(self, name, default=None):
        v = self.meta.get(f"{self.arch}.{name}", default)
        if v is None:
            raise KeyError(f"{self.arch}.{name}")
        return v

    def fmt(self, name):
        return self.t[name].tensor_type.name

    def is_float(self, name):
        return self.fmt(name) in FLOATS

    def mat(self, name):
        """[rows, cols]; vectors have one row."""
        if name in self.cache:
            return self.cache[name]
        t = self.t[name]
        cols, rows = int(t.shape[0]), int(np.prod(t.shape[1:], dtype=np.int64))
        x = decode(t.tensor_type.name, np.ascontiguousarray(t.data).tobytes(), rows, cols)
        if self.keep:
            self.cache[name] = x
        return x

    def rows(self, name, ids):
        """Rows of a matrix, decoded alone."""
        t = self.t[name]
        return decode(t.tensor_type.name, np.ascontiguousarray(t.data[np.asarray(ids)]).tobytes(), len(ids), int(t.shape[0]))

    def shape_rows(self, name):
        return int(self.t[name].shape[1])

    def vec(self, name):
        return self.mat(name)[0]

    def bias(self, name, n):
        return self.vec(name + ".bias") if name + ".bias" in self.t else np.zeros(n)

    def angles(self, pos):
        """cos and sin [T, rope_dim / 2] of rotary positions, with the file's scaling."""
        d, base = self.rope_dim, float(np.float32(self.key("rope.freq_base", 10000.0)))
        i = np.arange(d // 2)
        theta = base ** (-2.0 * i / d)
        if "rope_freqs.weight" in self.t:
            theta = theta / self.vec("rope_freqs.weight")
        kind, factor, gain = self.key("rope.scaling.type", "none"), float(self.key("rope.scaling.factor", 1.0)), 1.0
        if kind == "linear":
            theta = theta / factor
        elif kind == "yarn":
            orig = self.key("rope.scaling.original_context_length")

            def dim_of(rotations):  # the dimension that turns so often over the original context
                return d * np.log(orig / (rotations * 2 * np.pi)) / (2 * np.log(base))
            low = max(np.floor(dim_of(self.key("rope.scaling.yarn_beta_fast", 32.0))), 0)
            high = min(np.ceil(dim_of(self.key("rope.scaling.yarn_beta_slow", 1.0))), d - 1)
            interpolated = np.clip((i - low) / max(high - low, 0.001), 0, 1)
            theta = theta / factor * interpolated + theta * (1 - interpolated)
            gain = (1 + 0.1 * np.log(factor)) * float(np.float32(self.key("rope.scaling.attn_factor", 1.0)))
        a = np.asarray(pos, F64)[:, None] * theta
        return np.cos(a) * gain, np.sin(a) * gain


# ---- ops ----------------------------------------------------------------------------------------------------------------

def rms(x, w, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * w


def rope(x, cos, sin, neox):
    """x [T, heads, hd]; the first 2 * cos.shape[1] dimensions turn."""
    half = cos.shape[1]
    y = x.copy()
    a, b = (slice(0, half), slice(half, 2 * half)) if neox else (slice(0, 2 * half, 2), slice(1, 2 * half, 2))
    c, s = cos[:, None, :], sin[:, None, :]
    y[..., a] = x[..., a] * c - x[..., b] * s
    y[..., b] = x[..., a] * s + x[..., b] * c
    return y


def attention(q, k, v, pos, scale, window):
    """q [T, heads, hd] at positions pos; k, v [n, kv heads, hd] at positions 0 .. n - 1 -> [T, heads * hd]"""
    t, heads, hd = q.shape
    group = heads // k.shape[1]
    k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
    s = np.einsum("thd,nhd->htn", q, k) * scale
    j, p = np.arange(k.shape[0])[None, :], np.asarray(pos)[:, None]
    seen = (j <= p) & ((j > p - window) if window else True)
    s = np.where(seen[None], s, -np.inf)
    e = np.exp(s - s.max(-1, keepdims=True))
    return np.einsum("htn,nhd->thd", e / e.sum(-1, keepdims=True), v).reshape(t, heads * hd)


def silu(x):
    return x * np.where(x >= 0, 1 / (1 + np.exp(-np.abs(x))), np.exp(-np.abs(x)) / (1 + np.exp(-np.abs(x))))


def q8_quants(x):
    """Rows of float64 (rounded to f32 first) -> f32 d [T, blocks], integers q [T, blocks, 32]; short last blocks padded."""
    x = np.pad(np.asarray(x, np.float32), [(0, 0), (0, -x.shape[1] % 32)]).reshape(x.shape[0], -1, 32)
    d = np.abs(x).max(-1) / np.float32(127)
    d = np.where(d < np.finfo(np.float32).tiny, np.float32(0), d).astype(np.float32)
    with np.errstate(divide="ignore"):
        inv = np.where(d > 0, np.float32(1) / d, np.float32(0)).astype(np.float32)
    return d, np.clip(np.rint(x * inv[..., None]), -127, 127).astype(int)


class Rounding:
    """Q8 and f16 roundings of a pass. `engine` (a Trace, or None) supplies the engine's roundings of the same places.

    Where the two differ, the engine's result must be that of a value within `noise` of the exact one (float32's error
    before the rounding, relative to the row's largest magnitude): a tie, noted in `ties` as (place, kind, position,
    distance). Anything else goes to `faults`. K and V are always taken from the engine, so that positions are judged one
    by one. With `follow` its Q8 values are taken as well; without, only a position's first difference in Q8 counts."""

    def __init__(self, engine=None, follow=True, noise=4e-6):
        self.engine, self.follow, self.noise = engine, follow, noise
        self.ties, self.faults, self.gone = [], [], set()

    def compare(self, place, kind, ours, theirs, exact, quantum):
        """Arrays [T, n]; quantum: the spacing of the rounded values."""
        largest, gone = np.abs(exact).max(-1), set()
        for t, i in np.argwhere(ours != theirs):
            if t in self.gone:
                continue
            off = (abs(exact[t, i] - theirs[t, i]) - quantum[t, i] / 2) / max(largest[t], 1e-30)
            (self.ties if off <= self.noise else self.faults).append((place, kind, int(t), float(off)))
            gone.add(t)
        if kind == "q8" and not self.follow:
            self.gone |= gone

    def q8(self, place, x):
        d, q = q8_quants(x)
        if self.engine:
            ed, eq = self.engine.q8[place]
            wide, n = np.repeat(d.astype(F64), 32, axis=1)[:, :x.shape[1]], x.shape[1]
            off = np.abs(d.astype(F64) - ed) * 127 > self.noise * np.abs(x).max(-1)[:, None]
            self.faults += [(place, "scale", int(t), float(ed[t, b])) for t, b in np.argwhere(off) if t not in self.gone]
            self.compare(place, "q8", q.reshape(len(q), -1)[:, :n] * wide, eq.reshape(len(q), -1)[:, :n] * wide, x, wide)
            if self.follow:
                d, q = ed, eq
        return (d.astype(F64)[..., None] * q).reshape(x.shape[0], -1)[:, :x.shape[1]]

    def f16(self, place, x):
        y = np.asarray(x, np.float32).astype(np.float16)
        if self.engine:
            e = self.engine.f16[place].reshape(y.shape)
            quantum = np.maximum(np.spacing(np.abs(e)), np.spacing(np.abs(y))).astype(F64)
            flat = [a.astype(F64).reshape(len(x), -1) for a in (y, e, x, quantum)]
            self.compare(place, "f16", *flat)
            y = e
        return y.astype(F64)


class Exact:
    """No rounding at all: the plain float mode."""
    ties, faults = (), ()

    def q8(self, place, x):
        return x

    def f16(self, place, x):
        return x


def forward(m, ids, rounding=None, states=False):
    """Logits [T, vocab] of the ids at positions 0 .. T - 1; with states, what is behind the last norm instead."""
    r, pos = rounding or Exact(), np.arange(len(ids))
    cos, sin = m.angles(pos)

    def inputs(place, x, names):
        """x as each of the matrices takes it."""
        quantised = None if all(m.is_float(n) for n in names) else r.q8(place, x)
        return [x if m.is_float(n) else quantised for n in names]

    def matmuls(place, x, bases):
        names = [b + ".weight" for b in bases]
        return [xi @ m.mat(n).T + m.bias(b, m.shape_rows(n)) for xi, n, b in zip(inputs(place, x, names), names, bases)]

    h = m.rows("token_embd.weight", ids)
    for i in range(m.layers):
        p = f"blk.{i}."
        x = rms(h, m.vec(p + "attn_norm.weight"), m.eps)
        q, k, v = matmuls((i, "attn_in"), x, [p + "attn_q", p + "attn_k", p + "attn_v"])
        q, k, v = (y.reshape(len(ids), -1, m.hd) for y in (q, k, v))
        if p + "attn_q_norm.weight" in m.t:
            q, k = rms(q, m.vec(p + "attn_q_norm.weight"), m.eps), rms(k, m.vec(p + "attn_k_norm.weight"), m.eps)
        q, k = rope(q, cos, sin, m.neox), rope(k, cos, sin, m.neox)
        k, v = r.f16((i, "k"), k), r.f16((i, "v"), v)
        a = attention(q, k, v, pos, m.hd ** -0.5, m.window)
        h = h + matmuls((i, "attn_out"), a, [p + "attn_output"])[0]
        x = rms(h, m.vec(p + "ffn_norm.weight"), m.eps)
        gate, up = matmuls((i, "ffn_in"), x, [p + "ffn_gate", p + "ffn_up"])
        h = h + matmuls((i, "ffn_mid"), silu(gate) * up, [p + "ffn_down"])[0]
    x = rms(h, m.vec("output_norm.weight"), m.eps)
    if states:
        return x
    out = "output.weight" if "output.weight" in m.t else "token_embd.weight"
    return inputs((-1, "head_in"), x, [out])[0] @ m.mat(out).T


# ---- traces -------------------------------------------------------------------------------------------------------------

def read_trace(path):
    """Records of op_trace, with the bytes of their parts as r["data"][name]."""
    with open(path, "rb") as f:
        while line := f.readline():
            r = json.loads(line)
            r["data"] = {name: f.read(n) for name, n in r["parts"]}
            yield r


def q8_blocks(data, rows, k):
    """Q8 blocks of a buffer -> d, sa (f32 [rows, blocks]), q [rows, blocks, 32], sums [rows, blocks, 3]."""
    nblk, group = (k + 31) // 32, 1 if rows == 1 else 16
    w = np.frombuffer(data, "<u4").reshape(-1, nblk, group, 16).transpose(0, 2, 1, 3).reshape(-1, nblk, 16)[:rows]
    w = np.ascontiguousarray(w)
    q = w[..., :8].copy().view(np.int8).reshape(rows, nblk, 32).astype(int)
    f = w[..., 8:10].copy().view(np.float32)
    return f[..., 0], f[..., 1], q, w[..., 10:13].copy().view(np.int32).astype(int)


def kv_pages(data, n_kv, hd):
    """A layer's pages -> K, V float16 [pages * 32, n_kv, hd]."""
    hdp = (hd + 7) // 8 * 8
    a = np.frombuffer(data, np.float16).reshape(-1, n_kv, 2, 32 * hdp)
    k = a[:, :, 0].reshape(-1, n_kv, hdp // 8, 32, 8).transpose(0, 3, 1, 2, 4).reshape(-1, n_kv, hdp)
    v = a[:, :, 1].reshape(-1, n_kv, 32, hdp).transpose(0, 2, 1, 3).reshape(-1, n_kv, hdp)
    return k[..., :hd], v[..., :hd]


class Trace:
    """The roundings of a trace of one batch, by place, for Rounding; and the engine's logits."""

    def __init__(self, path):
        self.q8, self.f16, self.logits = {}, {}, []
        places = {}
        for r in read_trace(path):
            kind, layer = r["kind"], r.get("layer")
            if kind == "step" and r["from"] != 0:
                raise ValueError("the trace has more than one batch")
            if kind == "rope_kv":
                k, v = kv_pages(r["data"]["kv"], r["n_kv"], r["hd"])
                self.f16[layer, "k"], self.f16[layer, "v"] = k[:r["rows"]], v[:r["rows"]]
            if "q8" in r["data"]:
                n = r["n_head"] * r["hd"] if kind == "attn" else r["n"]
                d, _, q, _ = q8_blocks(r["data"]["q8"], r["rows"], n)
                if kind == "rmsnorm":
                    name = "head_in" if r["of_rows"] else ("attn_in", "ffn_in")[places.get(layer, 0) % 2]
                else:
                    name = {"attn": "attn_out", "quant": "attn_out", "swiglu": "ffn_mid"}[kind]
                old = self.q8.get((layer, name))
                self.q8[layer, name] = (d, q) if old is None else (np.concatenate([old[0], d]), np.concatenate([old[1], q]))
            if kind == "rmsnorm" and not r["of_rows"]:
                places[layer] = places.get(layer, 0) + 1
            if kind == "matmul" and r["of_rows"]:
                self.logits.append(np.frombuffer(r["data"]["dst"], np.float32).reshape(r["rows"], -1))
        self.logits = np.concatenate(self.logits).astype(F64)


class OpCheck:
    """Each op of a trace against float64, fed the engine's inputs. Results: worst relative error by op kind (relative to the
    largest magnitude of the row, for rounded outputs after allowing for ties), and faults."""

    def __init__(self, m, limit=1e-6):
        self.m, self.limit, self.worst, self.faults, self.ops, self.ties = m, limit, {}, [], 0, 0

    def rel(self, r, got, want, what, axis=-1):
        scale = np.abs(want).max(axis, keepdims=True) if want.ndim else np.abs(want)
        e = float((np.abs(got - want) / np.maximum(scale, 1e-30)).max()) if want.size else 0.0
        key = r["kind"] + " " + what
        self.worst[key] = max(self.worst.get(key, 0.0), e)
        if not e <= self.limit:
            self.faults.append(f"op {r['op']} ({r['kind']}, layer {r['layer']}, {r['format']} {r['mat']}): {what} is off by {e:.3g}")

    def fault(self, r, text):
        self.faults.append(f"op {r['op']} ({r['kind']}, layer {r['layer']}): {text}")

    def f32(self, r, name, ld):
        with np.errstate(invalid="ignore"):  # parts of a row that nobody wrote may hold anything
            return np.frombuffer(r["data"][name], np.float32).reshape(-1, ld).astype(F64)

    def out_q8(self, r, want):
        """The Q8 output against exact values: d, every q up to ties, and the sums exactly."""
        d, sa, q, sums = q8_blocks(r["data"]["q8"], r["rows"], want.shape[1])
        if "dst" in r["data"]:  # the same floats were quantised: no tolerance
            want = self.f32(r, "dst", r["dst_ld"])[:, :want.shape[1]]
        wd, wq = q8_quants(want)
        if "dst" in r["data"] and not (np.array_equal(d, wd) and np.array_equal(q, wq)):
            self.fault(r, "Q8 differs from its own float output")
        self.rel(r, d.astype(F64), wd.astype(F64), "q8 scale", axis=None)
        x = np.pad(want, [(0, 0), (0, -want.shape[1] % 32)]).reshape(q.shape) / np.maximum(wd, 1e-38).astype(F64)[..., None]
        off = np.abs(x - q)[np.broadcast_to(wd[..., None] > 0, q.shape)]
        self.ties += int((q != wq).sum())
        if off.size and off.max() > 0.5 + 127 * 2 * self.limit:
            self.fault(r, f"a quant is {off.max():.6f} quanta from its value")
        exact = np.stack([-q.sum(-1), -q[..., :16].sum(-1), -q[..., 16:].sum(-1)], -1)
        if not np.array_equal(sums, exact):
            self.fault(r, "a Q8 block's integer sums are wrong")
        if not np.array_equal(sa, d * q.sum(-1).astype(np.float32)):
            self.fault(r, "a Q8 block's d * sum is wrong")

    def outputs(self, r, want):
        if "dst" in r["data"]:
            got = self.f32(r, "dst", r["dst_ld"])[:, r["dst_at"]:r["dst_at"] + want.shape[1]]
            self.rel(r, got, want, "result")
        if "q8" in r["data"]:
            self.out_q8(r, want)

    def source(self, r, n):
        if r["src_q8"]:
            d, _, q, _ = q8_blocks(r["data"]["src"], r["rows"], n)
            return (d.astype(F64)[..., None] * q).reshape(r["rows"], -1)[:, :n]
        return self.f32(r, "src", r["src_ld"])[:, r["src_at"]:r["src_at"] + n]

    def parts(self, r):
        """Tensors of a matrix, which may be several joined: those of the group until the rows are complete."""
        group = {"attn_q": ["attn_q", "attn_k", "attn_v"], "ffn_gate": ["ffn_gate", "ffn_up"]}
        head, _, last = r["mat"].removesuffix(".weight").rpartition(".")
        names, rows = [], 0
        for part in group.get(last, [last]):
            if rows < r["mat_rows"]:
                names.append(f"{head}.{part}" if head else part)
                rows += self.m.shape_rows(names[-1] + ".weight")
        assert rows == r["mat_rows"], r["mat"]
        return names

    # one function for each kind of op

    def embed(self, r):
        want = self.m.rows(r["mat"], self.token) * float(r["scale"])
        self.outputs(r, want)

    def rmsnorm(self, r):
        self.outputs(r, rms(self.source(r, r["n"]), self.m.vec(r["vec"]), r["eps"]))

    def quant(self, r):
        x = self.source(r, r["n"])
        d, _, q, _ = q8_blocks(r["data"]["q8"], r["rows"], r["n"])
        wd, wq = q8_quants(x)  # the same f32 operations: equal, no tolerance
        if not (np.array_equal(d, wd) and np.array_equal(q, wq)):
            self.fault(r, "Q8 differs")

    def matmul(self, r):
        names = self.parts(r)
        w = np.concatenate([self.m.mat(n + ".weight") for n in names])
        x = self.source(r, r["mat_cols"])
        y = x @ w.T
        bias = np.concatenate([self.m.bias(n, self.m.shape_rows(n + ".weight")) for n in names])
        if bool(r["vec"]) != bool(bias.any()):
            self.fault(r, "bias given or not")
        y = y + bias
        if "res" in r["data"]:
            y = y + self.f32(r, "res", r["dst_ld"])[:, r["dst_at"]:r["dst_at"] + y.shape[1]]
        self.outputs(r, y)

    def rope_kv(self, r):
        hd, nq = r["hd"], r["n_head"] * r["hd"]
        x = self.f32(r, "src", r["src_ld"]).reshape(r["rows"], -1, hd)
        q, k, v = np.split(x, [r["n_head"], r["n_head"] + r["n_kv"]], axis=1)
        if r["vec"]:
            q, k = rms(q, self.m.vec(r["vec"]), r["eps"]), rms(k, self.m.vec(r["vec2"]), r["eps"])
        cos, sin = self.m.angles(self.pos)
        q, k = rope(q, cos, sin, r["neox"]), rope(k, cos, sin, r["neox"])
        self.rel(r, self.f32(r, "dst", r["dst_ld"])[:, :nq].reshape(q.shape), q, "q")
        pk, pv = kv_pages(r["data"]["kv"], r["n_kv"], hd)
        pk, pv = pk[self.pos], pv[self.pos]
        if not np.array_equal(pv, v.astype(np.float32).astype(np.float16)):
            self.fault(r, "V is not the nearest f16")
        quantum = np.maximum(np.spacing(np.abs(pk)).astype(F64), 2.0 ** -24)  # half of it, and the f32 error of what is rounded
        self.k_close(r, pk.astype(F64), k, quantum)

    def k_close(self, r, got, want, quantum):
        over = np.abs(got - want) - quantum / 2
        scale = np.abs(want).max(-1, keepdims=True)
        e = float(np.maximum(over / np.maximum(scale, 1e-30), 0).max())
        self.worst["rope_kv k"] = max(self.worst.get("rope_kv k", 0.0), e)
        if not e <= self.limit:
            self.fault(r, f"K is off by {e:.3g} beyond f16's rounding")

    def attn(self, r):
        hd, nq = r["hd"], r["n_head"] * r["hd"]
        q = self.f32(r, "src", r["src_ld"])[:, :nq].reshape(r["rows"], -1, hd)
        k, v = kv_pages(r["data"]["kv"], r["n_kv"], hd)
        n = int(self.pos[-1]) + 1
        self.outputs(r, attention(q, k[:n].astype(F64), v[:n].astype(F64), self.pos, r["scale"], r["window"]))

    def swiglu(self, r):
        x = self.f32(r, "src", r["src_ld"])
        self.outputs(r, silu(x[:, :r["n"]]) * x[:, r["n"]:2 * r["n"]])

    def rows(self, r):
        x = self.f32(r, "src", r["src_ld"])[r["out0"]:r["out0"] + r["rows"]]
        if not np.array_equal(self.f32(r, "dst", r["dst_ld"]), x):
            self.fault(r, "rows differ")

    def run(self, path):
        for r in read_trace(path):
            if r["kind"] == "step":
                self.token = np.frombuffer(r["data"]["token"], np.int32)
                self.pos = np.arange(r["from"], r["from"] + r["n"])
            elif r["kind"] != "model":
                self.ops += 1
                getattr(self, r["kind"])(r)
        return self


# ---- command line -------------------------------------------------------------------------------------------------------

def read_dump(path):
    """A --dump-logits file -> positions, tokens, logits."""
    rows = [line.split() for line in open(path)]
    return [int(r[0]) for r in rows], [int(r[1]) for r in rows], np.array([r[2:] for r in rows], np.float32).astype(F64)


def row_errors(got, want):
    """Relative error of each row: largest difference over largest magnitude."""
    return np.abs(got - want).max(-1) / np.abs(want).max(-1)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("model")
    ap.add_argument("ids", nargs="?", help="token ids, separated by commas")
    ap.add_argument("--q8", action="store_true", help="round activations to Q8 and K, V to f16 as the engine does")
    ap.add_argument("--trace", help="check the ops of an op_trace file")
    ap.add_argument("--against", help="compare with a --dump-logits file")
    a = ap.parse_args()
    m = Model(a.model)
    if a.trace:
        c = OpCheck(m).run(a.trace)
        for key, e in sorted(c.worst.items()):
            print(f"{key:20} {e:.3g}")
        print(f"{c.ops} ops, {c.ties} ties of Q8, {len(c.faults)} faults")
        print("\n".join(c.faults[:20]))
        return 1 if c.faults else 0
    if not a.ids:
        ap.error("IDS or --trace is needed")
    ids = [int(x) for x in a.ids.split(",")]
    logits = forward(m, ids, Rounding() if a.q8 else None)
    if a.against:
        for p, e in enumerate(row_errors(read_dump(a.against)[2][:len(ids)], logits)):
            print(p, f"{e:.3g}")
        return 0
    for p, row in enumerate(logits):
        print(p, ids[p], " ".join(f"{x:.9g}" for x in row))
    return 0


if __name__ == "__main__":
    sys.exit(main())
