#!/usr/bin/env python3
"""A small GGUF v3 writer without dependencies, for well-formed and for deliberately damaged files.

    w = Gguf()
    w.u32("llama.block_count", 2)
    w.strings("tokenizer.ggml.tokens", ["a", "b"])
    w.tensor("x", F32, [4], struct.pack("<4f", 1, 2, 3, 4))   # dims: row length first
    w.write("x.gguf")

Every count, offset and size that the file states can be overridden, or bytes put in raw (raw_kv, raw_info). As a
program it writes the seed corpus of the fuzzer: gguf_write.py --seeds DIR.
"""
import os
import struct
import sys

# Value types.
U8, I8, U16, I16, U32, I32, F32V, BOOL, STRING, ARRAY, U64, I64, F64V = range(13)
_FMT = {U8: "B", I8: "b", U16: "H", I16: "h", U32: "I", I32: "i", F32V: "f", BOOL: "B", U64: "Q", I64: "q", F64V: "d"}

# Some tensor types: id, and (elements, bytes) of a block.
F32, F16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q6_K, I32T, BF16, MXFP4 = 0, 1, 2, 3, 6, 7, 8, 12, 14, 26, 30, 39
BLOCK = {F32: (1, 4), F16: (1, 2), Q4_0: (32, 18), Q4_1: (32, 20), Q5_0: (32, 22), Q5_1: (32, 24), Q8_0: (32, 34),
         10: (256, 84), 11: (256, 110), Q4_K: (256, 144), 13: (256, 176), Q6_K: (256, 210), 20: (32, 18),
         23: (256, 136), I32T: (1, 4), BF16: (1, 2), MXFP4: (32, 17)}


def data_bytes(type_, dims):
    """Bytes of a tensor's data."""
    n = 1
    for d in dims:
        n *= d
    length, size = BLOCK[type_]
    return n // length * size


class Gguf:
    def __init__(self, alignment=None, order="<"):
        """alignment: written as general.alignment when given. order: "<", or ">" for a big-endian file."""
        self.order = order
        self.magic = b"GGUF"
        self.version = 3
        self.n_kv = None       # override of the stated counts
        self.n_tensors = None
        self.pad_to = alignment or 32
        self.kvs = []          # encoded
        self.infos = []        # encoded, or (name, dims, type, offset)
        self.data = bytearray()
        if alignment is not None:
            self.u32("general.alignment", alignment)

    # -- encoding

    def pack(self, fmt, *values):
        return struct.pack(self.order + fmt, *values)

    def enc_str(self, s):
        b = s if isinstance(s, bytes) else s.encode()
        return self.pack("Q", len(b)) + b

    def enc(self, type_, v):
        """A value. Arrays are (element type, list)."""
        if type_ == STRING:
            return self.enc_str(v)
        if type_ == ARRAY:
            elem, items = v
            head = self.pack("IQ", elem, len(items))
            if elem in (STRING, ARRAY):
                return head + b"".join(self.enc(elem, i) for i in items)
            return head + struct.pack(f"{self.order}{len(items)}{_FMT[elem]}", *items)
        return self.pack(_FMT[type_], v)

    # -- keys

    def raw_kv(self, b):
        self.kvs.append(b)

    def kv(self, key, type_, v):
        self.raw_kv(self.enc_str(key) + self.pack("I", type_) + self.enc(type_, v))

    def kv_head(self, key, type_, rest=b""):
        """A key with a value of raw bytes."""
        self.raw_kv(self.enc_str(key) + self.pack("I", type_) + rest)

    def u32(self, key, v):
        self.kv(key, U32, v)

    def f32(self, key, v):
        self.kv(key, F32V, v)

    def bool(self, key, v):
        self.kv(key, BOOL, int(v))

    def str(self, key, v):
        self.kv(key, STRING, v)

    def array(self, key, elem, items):
        self.kv(key, ARRAY, (elem, list(items)))

    def strings(self, key, items):
        self.array(key, STRING, items)

    # -- tensors

    def raw_info(self, b):
        self.infos.append(b)

    def tensor(self, name, type_, dims, data=None, offset=None):
        """Appends data (zeros when None), aligned; offset overrides what the directory says about it."""
        self.data += b"\0" * (-len(self.data) % self.pad_to)
        at = len(self.data) if offset is None else offset
        self.data += bytes(data_bytes(type_, dims)) if data is None else data
        self.info(name, type_, dims, at)

    def info(self, name, type_, dims, offset, n_dims=None):
        """A directory entry alone."""
        self.raw_info(self.enc_str(name) + self.pack("I", len(dims) if n_dims is None else n_dims) +
                      self.pack(f"{len(dims)}Q", *dims) + self.pack("IQ", type_, offset))

    # -- output

    def bytes(self):
        n_t = len(self.infos) if self.n_tensors is None else self.n_tensors
        n_k = len(self.kvs) if self.n_kv is None else self.n_kv
        head = self.magic + self.pack("IQQ", self.version, n_t, n_k) + b"".join(self.kvs) + b"".join(self.infos)
        if self.data:
            head += b"\0" * (-len(head) % self.pad_to)
        return head + bytes(self.data)

    def write(self, path):
        with open(path, "wb") as f:
            f.write(self.bytes())


def split_paths(stem, count):
    return [f"{stem}-{i + 1:05d}-of-{count:05d}.gguf" for i in range(count)]


def split_keys(w, no, count, tensors):
    w.kv("split.no", U16, no)
    w.kv("split.count", U16, count)
    w.kv("split.tensors.count", I32, tensors)


def sample(alignment=None, order="<"):
    """One key of each type, nested arrays, three tensors."""
    w = Gguf(alignment, order)
    w.str("general.architecture", "llama")
    for t, v in ((U8, 200), (I8, -100), (U16, 60000), (I16, -30000), (U32, 4000000000), (I32, -2000000000),
                 (F32V, 0.5), (BOOL, 1), (STRING, "h\u00e9\0llo"), (U64, 2**63 + 1), (I64, -2**62), (F64V, 1e300)):
        w.kv(f"t.{t}", t, v)
        w.array(f"a.{t}", t, [v] * 3)
    w.array("nested", ARRAY, [(STRING, ["x", "", "yz"]), (ARRAY, [(U8, [1, 2]), (F32V, [])]), (U16, [7])])
    w.strings("empty", [])
    w.tensor("a.weight", F32, [4, 2], struct.pack("<8f", *range(8)))
    w.tensor("b.weight", Q4_0, [64, 3, 1, 2], bytes(range(216)))
    w.tensor("c.weight", MXFP4, [32], bytes(range(17)))
    return w


def seeds():
    """Name -> bytes: small, so that the fuzzer reaches each part of the parser."""
    tiny = Gguf()
    tiny.u32("k", 1)
    tiny.tensor("t", F32, [8])
    nested = Gguf()
    nested.array("n", ARRAY, [(ARRAY, [(ARRAY, [(U8, [1])])])])
    unknown = Gguf(64)
    unknown.tensor("u", 255, [7, 3], b"12345678")
    split = Gguf()
    split_keys(split, 0, 2, 1)
    split.tensor("t", F32, [8])
    return {"sample": sample().bytes(), "sample64": sample(64).bytes(), "big_endian": sample(order=">").bytes(),
            "empty": Gguf().bytes(), "tiny": tiny.bytes(), "nested": nested.bytes(), "unknown": unknown.bytes(),
            "split": split.bytes()}


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] != "--seeds":
        sys.exit("usage: gguf_write.py --seeds DIR")
    os.makedirs(sys.argv[2], exist_ok=True)
    for name, data in seeds().items():
        with open(os.path.join(sys.argv[2], name), "wb") as out:
            out.write(data)
