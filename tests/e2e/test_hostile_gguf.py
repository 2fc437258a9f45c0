"""Damaged and hostile GGUF files: each is refused with one line that names the field, exit code 1, within a second and
without much memory. Run against the reader alone (gguf_check) and, where it is built, against ie-run MODEL --info.

Also: what a well-formed file holds comes back byte for byte, compared with what was written here.
"""
import os
import pathlib
import struct
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import gguf_write as gw  # noqa: E402
from gguf_write import Gguf  # noqa: E402

BUILD = pathlib.Path(os.environ.get("IE_BUILD", ROOT / "build"))
CHECK = BUILD / "tests" / "gguf_check"
IE_RUN = BUILD / "ie-run"
# Sanitizers slow everything down and map terabytes; said by the environment of `make asan`.
SANITIZED = "ASAN_OPTIONS" in os.environ or "UBSAN_OPTIONS" in os.environ
SECONDS = 10 if SANITIZED else 1
# Address space, so that even an allocation that is never touched is seen.
MEMORY_KB = {"gguf_check": 64 << 10, "ie-run": 512 << 10}


@pytest.fixture(params=["gguf_check", "ie-run"])
def program(request):
    """Command line before the file's path, and after it."""
    if request.param == "gguf_check":
        assert CHECK.exists(), f"{CHECK} is not built"
        return [str(CHECK)], []
    if not IE_RUN.exists():
        pytest.skip(f"{IE_RUN} is not built")
    return [str(IE_RUN)], ["--info"]


def processor_time():
    """Of all children so far."""
    t = os.times()
    return t.children_user + t.children_system


def run(program, path):
    """Exit code, stderr, seconds of processor time (a busy machine must not fail the tests); under the limit on memory.
    A program that waits for something is stopped by the timeout."""
    before, after = program
    limit = "unlimited" if SANITIZED else MEMORY_KB[pathlib.Path(before[0]).name]
    t0 = processor_time()
    p = subprocess.Popen(["sh", "-c", f'ulimit -v {limit}; exec "$0" "$@"'] + before + [str(path)] + after,
                         stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    timer_limit = 20
    try:
        err = p.communicate(timeout=timer_limit)[1]
    except subprocess.TimeoutExpired:
        p.kill()
        p.communicate()
        pytest.fail(f"still running after {timer_limit} s")
    return p.returncode, err.decode("utf-8"), processor_time() - t0


def refused(program, path, *words):
    """The file is refused as it should be."""
    code, err, seconds = run(program, path)
    assert code == 1, f"exit code {code}: {err}"
    lines = [line for line in err.splitlines() if line.strip()]
    assert len(lines) == 1, err
    for w in words:
        assert w in err, f"{w!r} is not in {err!r}"
    assert seconds < SECONDS, f"{seconds:.2f} s"
    return err


def save(tmp_path, data, name="bad.gguf"):
    path = tmp_path / name
    path.write_bytes(data)
    return path


# ---- one function for each file: returns its bytes and what the message must hold ------------------------------------

CASES = {}


def case(f):
    CASES[f.__name__] = f
    return f


def cases(**kw):
    """Registers make(value) under several names."""
    def wrap(f):
        for name, args in kw.items():
            CASES[f"{f.__name__}_{name}"] = lambda a=args: f(*a)
        return f
    return wrap


@cases(empty=(b"",), three_bytes=(b"GGU",), ggml=(b"lmgg" + bytes(60),), zeros=(bytes(64),), zip=(b"PK\3\4" + bytes(60),))
def magic(data):
    return data, ["header: magic"]


@cases(v0=(0,), v1=(1,), v2=(2,), v4=(4,), v_max=(2**32 - 1,))
def version(v):
    w = gw.sample()
    w.version = v
    return w.bytes(), ["header: version is", str(v)]


@case
def big_endian():
    return gw.sample(order=">").bytes(), ["header: version 3", "big-endian"]


@cases(two58=(2**58,), max=(2**64 - 1,), two63=(2**63,), plausible=(50000,))
def tensor_count(n):
    w = gw.sample()
    w.n_tensors = n
    return w.bytes(), ["header: tensor count", str(n)]


@case
def tensor_count_one_more():
    w = gw.sample()
    w.n_tensors = len(w.infos) + 1
    return w.bytes(), ["tensor 4"]


@cases(two58=(2**58,), max=(2**64 - 1,), plausible=(50000,))
def key_count(n):
    w = gw.sample()
    w.n_kv = n
    return w.bytes(), ["header: key count", str(n)]


@case
def key_count_one_more():
    w = gw.sample()
    w.n_kv = len(w.kvs) + 1  # the first tensor's entry passes for a key of type u16
    return w.bytes(), ["tensor 1: name: length"]


@cases(zero=(0,), three=(3,), two30=(2**30,), two31=(2**31,), one=(1,), max=(2**32 - 1,), odd=(48,))
def alignment(a):
    w = gw.sample()
    w.u32("general.alignment", a)
    return w.bytes(), ["'general.alignment' is", str(a)]


@case
def alignment_string():
    w = gw.sample()
    w.str("general.alignment", "32")
    return w.bytes(), ["'general.alignment' is of type string"]


@cases(u8=(gw.U8,), u64=(gw.U64,), string=(gw.STRING,), array=(gw.ARRAY,), bool=(gw.BOOL,))
def array_length(elem):
    w = gw.sample()
    w.kv_head("huge", gw.ARRAY, w.pack("IQ", elem, 2**63))
    return w.bytes(), ["'huge': array length is 9223372036854775808"]


@cases(wraps8=(gw.U64, 2**61 + 1), wraps16=(gw.STRING, 2**60 + 1), wraps_max=(gw.U32, 2**64 - 1), file=(gw.U8, 10**6))
def array_size(elem, n):
    w = gw.sample()
    w.kv_head("huge", gw.ARRAY, w.pack("IQ", elem, n))
    return w.bytes(), ["'huge': array length is", str(n)]


@case
def nested_strings():
    """Arrays of arrays of strings where the inner count is not there."""
    w = Gguf()
    inner = w.pack("IQ", gw.STRING, 2**62)
    w.kv_head("nest", gw.ARRAY, w.pack("IQ", gw.ARRAY, 3) + inner * 3)
    return w.bytes(), ["'nest': array length is 4611686018427387904"]


@case
def nested_deep():
    w = Gguf()
    w.kv_head("nest", gw.ARRAY, w.pack("IQ", gw.ARRAY, 1) * 100000 + w.pack("IQ", gw.U8, 0))
    return w.bytes(), ["'nest': arrays are nested more than 4 deep"]


@case
def nested_wide():
    w = Gguf()
    w.kv_head("nest", gw.ARRAY, w.pack("IQ", gw.ARRAY, 2**40) + w.pack("IQ", gw.U8, 0) * 1000)
    return w.bytes(), ["'nest': array length is 1099511627776"]


@cases(thirteen=(13,), max=(2**32 - 1,))
def value_type(t):
    w = gw.sample()
    w.kv_head("odd", t, bytes(16))
    return w.bytes(), ["'odd': value type is", str(t)]


@cases(thirteen=(13,), max=(2**32 - 1,))
def element_type(t):
    w = gw.sample()
    w.kv_head("odd", gw.ARRAY, w.pack("IQ", t, 1) + bytes(16))
    return w.bytes(), ["'odd': array element type is", str(t)]


@cases(two=(2,), max=(255,))
def bool_value(v):
    w = gw.sample()
    w.kv_head("odd", gw.BOOL, bytes([v]))
    return w.bytes(), ["'odd': bool value is", str(v)]


@cases(beyond=(10**6,), two63=(2**63,), max=(2**64 - 1,))
def string_length(n):
    w = gw.sample()
    w.kv_head("text", gw.STRING, w.pack("Q", n) + b"abc")
    return w.bytes(), ["'text': string value: length", str(n)]


@cases(beyond=(10**6,), two63=(2**63,), max=(2**64 - 1,))
def array_string_length(n):
    w = gw.sample()
    w.kv_head("text", gw.ARRAY, w.pack("IQ", gw.STRING, 2) + w.enc_str("a") + w.pack("Q", n) + b"abc")
    return w.bytes(), ["'text': string in an array: length", str(n)]


@cases(zero=(0,), long=(70000,), beyond=(10**6,), max=(2**64 - 1,))
def key_length(n):
    w = gw.sample()
    w.raw_kv(w.pack("Q", n) + bytes([97]) * min(n, 70000) + w.pack("I", gw.U8) + b"\1" * 40)
    return w.bytes(), [f"key {len(w.kvs)}: key", "is empty" if n == 0 else str(n)]


@case
def key_nul():
    w = gw.sample()
    w.u32("a\0b", 1)
    return w.bytes(), ["key", "NUL"]


@case
def key_control_characters():
    w = gw.sample()
    w.kv_head("\x1b[31m\nred\xff", 77, bytes(8))
    return w.bytes(), ["'?[31m?red"]


@case
def key_twice():
    w = gw.sample()
    w.u32("t.5", 1)
    return w.bytes(), ["'t.5': duplicate"]


@case
def tensor_twice():
    w = gw.sample()
    w.tensor("a.weight", gw.F32, [4])
    return w.bytes(), ["tensor 'a.weight' is a duplicate"]


@cases(first=([0, 4],), second=([4, 0],), fourth=([4, 1, 1, 0],), all=([0, 0, 0, 0],))
def dimension_zero(dims):
    w = gw.sample()
    w.info("bad", gw.F32, dims, 0)
    return w.bytes(), ["'bad': dimension", "is 0"]


@cases(two64=([2**32, 2**32],), four=([2**16] * 4,), three=([2**40, 2**12, 2**12],), max=([2**64 - 1] * 4,),
       two63=([2**63],), to_one=([0xAAAAAAAAAAAAAAAB, 3],))
def dimension_product(dims):
    w = gw.sample()
    w.info("bad", gw.F32, dims, 0)
    return w.bytes(), ["'bad': dimension", "2^63"]


@case
def dimension_bytes():
    w = gw.sample()
    w.info("bad", gw.F32, [2**31, 2**31], 0)
    return w.bytes(), ["'bad': 4611686018427387904 elements of F32"]


@cases(zero=(0,), five=(5,), two31=(2**31,), max=(2**32 - 1,))
def n_dims(n):
    w = gw.sample()
    w.info("bad", gw.F32, [1] * min(n, 5), 0, n_dims=n)
    return w.bytes(), ["'bad': number of dimensions is", str(n)]


@case
def row_not_blocks():
    w = gw.sample()
    w.info("bad", gw.Q4_K, [255, 1], 0)
    return w.bytes(), ["'bad': row length 255", "256", "Q4_K"]


@cases(near_wrap=(2**64 - 32,), two63=(2**63,), end=(1 << 20,), off_t=(2**63 - 32,))
def tensor_offset(off):
    w = gw.sample()
    w.info("bad", gw.F32, [8], off)
    return w.bytes(), ["'bad': tensor offset", str(off)]


@cases(near_wrap=(2**64 - 32,), end=(1 << 20,))
def tensor_offset_of_unknown_type(off):
    w = gw.sample()
    w.info("bad", 255, [8], off)
    return w.bytes(), ["'bad': tensor offset", str(off)]


@case
def tensor_offset_unaligned():
    w = gw.sample()
    w.tensor("bad", gw.F32, [8], offset=4)
    return w.bytes(), ["'bad': tensor offset 4", "alignment"]


@case
def tensor_too_large():
    w = gw.sample()
    w.info("bad", gw.F32, [10**6], 0)
    return w.bytes(), ["'bad': tensor offset 0 and size 4000000"]


@cases(same=(0,), inside=(32,))
def tensor_overlap(off):
    w = Gguf()
    w.tensor("one", gw.F32, [16])
    w.info("two", gw.F32, [4], off)
    return w.bytes(), ["tensors", "'one'", "'two'", "overlap"]


@case
def tensor_name_nul():
    w = gw.sample()
    w.tensor("x\0y", gw.F32, [8])
    return w.bytes(), ["tensor 4: name", "NUL"]


@case
def tensor_name_empty():
    w = gw.sample()
    w.tensor("", gw.F32, [8])
    return w.bytes(), ["tensor 4: name is empty"]


@case
def split_without_parts():
    w = Gguf()
    gw.split_keys(w, 0, 2, 1)
    w.tensor("a", gw.F32, [8])
    return w.bytes(), ["split.count", "-of-00002.gguf"]


@case
def split_number_beyond_count():
    w = Gguf()
    gw.split_keys(w, 5, 2, 1)
    return w.bytes(), ["'split.no' is 5, allowed are 0 .. 1"]


@pytest.mark.parametrize("name", CASES)
def test_refused(program, tmp_path, name):
    data, words = CASES[name]()
    refused(program, save(tmp_path, data), *words)


# ---- cut files -------------------------------------------------------------------------------------------------------


def test_cut_at_every_16th(program, tmp_path):
    data = gw.sample().bytes()
    for i in range(16):
        refused(program, save(tmp_path, data[: len(data) * i // 16]), "bad.gguf: ")


def test_cut_at_every_byte(tmp_path):
    """The reader alone, at each length. All but the whole file are refused."""
    data = gw.sample().bytes()
    path = save(tmp_path, data)
    assert run(([str(CHECK), "-v"], []), path)[0] == 0
    for n in range(len(data) - 1, -1, -7):
        os.truncate(path, n)
        code, err, _ = run(([str(CHECK)], []), path)
        assert code == 1 and "bad.gguf: " in err, (n, err)


# ---- large files that claim much: the file system says the bytes are there --------------------------------------------


@pytest.mark.parametrize("elem", [gw.U8, gw.U64, gw.STRING, gw.ARRAY])
def test_sparse_file(program, tmp_path, elem):
    w = Gguf()
    w.kv_head("huge", gw.ARRAY, w.pack("IQ", elem, 2**34))
    path = save(tmp_path, w.bytes())
    os.truncate(path, 2**40)
    refused(program, path, "'huge': ", "MiB")


@pytest.mark.parametrize("field", ["n_tensors", "n_kv"])
def test_sparse_counts(program, tmp_path, field):
    w = Gguf()
    setattr(w, field, 2**32)
    path = save(tmp_path, w.bytes())
    os.truncate(path, 2**40)
    refused(program, path, "count" if field == "n_kv" else "tensor count")


def test_many_names(program, tmp_path):
    """100,000 keys, the last a duplicate: linear time."""
    w = Gguf()
    n = 100000
    for i in range(n):
        w.raw_kv(b"\x06\0\0\0\0\0\0\0%06d\0\0\0\0\1" % i)
    w.raw_kv(w.kvs[0])
    refused(program, save(tmp_path, w.bytes()), f"key {n + 1} '000000': duplicate")


# ---- well-formed files -----------------------------------------------------------------------------------------------


def shown(w, type_, v):
    """A value as gguf_check -v prints it."""
    def elements(t, items):
        if t == gw.ARRAY:
            return "".join(f" [{e} {len(i)}{elements(e, i)}]" for e, i in items)
        if t == gw.STRING:
            return "".join(' "' + (s if isinstance(s, bytes) else s.encode()).hex() for s in items)
        return "".join(" " + w.enc(t, i).hex() for i in items)
    if type_ == gw.ARRAY:
        return elements(gw.ARRAY, [v])[1:]
    return f"{type_}{elements(type_, [v])}"


class Recorder(Gguf):
    """Writes, and keeps what gguf_check should print."""

    def __init__(self, alignment=None):
        self.expect_keys, self.expect_tensors = [], []
        super().__init__(alignment)

    def kv(self, key, type_, v):
        super().kv(key, type_, v)
        self.expect_keys.append(f"key {key} {shown(self, type_, v)}")

    def tensor(self, name, type_, dims, data=None, offset=None):
        super().tensor(name, type_, dims, data, offset)
        size = gw.data_bytes(type_, dims)
        h = 0xCBF29CE484222325
        for b in self.data[len(self.data) - size:]:
            h = (h ^ b) * 0x100000001B3 % 2**64
        at = len(self.data) - size
        ne = list(dims) + [1] * (4 - len(dims))
        self.expect_tensors.append((f"tensor {name} {type_} {len(dims)} {ne[0]} {ne[1]} {ne[2]} {ne[3]}", at, size, h))

    def expected(self, file_no=0):
        base = len(self.bytes()) - len(self.data)
        return self.expect_keys, [f"{head} {file_no} {base + at} {size} {h:016x}"
                                  for head, at, size, h in self.expect_tensors]


def check_verbose(path):
    p = subprocess.run([str(CHECK), "-v", str(path)], capture_output=True, text=True, check=False)
    assert p.returncode == 0, p.stderr
    return p.stdout.splitlines()[1:]


def fill(w):
    w.str("general.architecture", "llama")
    for t, v in ((gw.U8, 255), (gw.I8, -128), (gw.U16, 65535), (gw.I16, -32768), (gw.U32, 2**32 - 1), (gw.I32, -2**31),
                 (gw.F32V, -0.0), (gw.BOOL, 0), (gw.STRING, "\u4f60\0\u597d"), (gw.U64, 2**64 - 1), (gw.I64, -2**63),
                 (gw.F64V, 5e-324)):
        w.kv(f"t.{t}", t, v)
        for n in (0, 1, 100, 70001):
            w.array(f"a.{t}.{n}", t, [v] * n)
    w.array("nested", gw.ARRAY, [(gw.STRING, ["x", "", b"\xff\0"]),
                                 (gw.ARRAY, [(gw.U8, [1, 2]), (gw.ARRAY, [(gw.F64V, [1.5])])]), (gw.U16, [])])
    for i, (t, dims) in enumerate(((gw.F32, [5]), (gw.Q4_0, [64, 3]), (gw.Q6_K, [512, 2, 3]), (gw.BF16, [7, 1, 1, 2]),
                                   (gw.MXFP4, [32]), (gw.Q8_0, [1024, 40]))):
        w.tensor(f"w{i}", t, dims, os.urandom(gw.data_bytes(t, dims)))


@pytest.mark.parametrize("alignment", [None, 8, 16, 64, 4096, 1 << 20])
def test_round_trip(tmp_path, alignment):
    w = Recorder(alignment)
    fill(w)
    path = tmp_path / "good.gguf"
    w.write(path)
    keys, tensors = w.expected()
    assert check_verbose(path) == keys + tensors


def write_set(tmp_path, count=3, total=None, skip=None):
    paths = gw.split_paths(tmp_path / "set", count)
    keys, tensors = None, []
    for no, path in enumerate(paths):
        w = Recorder(64 if no == 1 else None)
        gw.split_keys(w, no, count, count if total is None else total)
        w.u32("which", no)
        w.tensor(f"t{no}", gw.F32, [4 + no], os.urandom(16 + 4 * no))
        if no != skip:
            w.write(path)
        k, t = w.expected(no)
        keys = keys or k
        tensors += t
    return paths, keys + tensors


def test_split_round_trip(tmp_path):
    paths, expected = write_set(tmp_path)
    for path in paths:
        assert check_verbose(path) == expected


@pytest.mark.parametrize("given,missing", [(0, 1), (0, 2), (2, 0), (2, 1)])
def test_split_missing_part(program, tmp_path, given, missing):
    paths, _ = write_set(tmp_path, skip=missing)
    refused(program, paths[given], f"set-{missing + 1:05d}-of-00003.gguf: cannot be opened: No such file")


def test_split_tensor_count(program, tmp_path):
    paths, _ = write_set(tmp_path, total=7)
    refused(program, paths[0], "'split.tensors.count' is 7, the set holds 3")


def test_split_swapped_parts(program, tmp_path):
    paths, _ = write_set(tmp_path)
    os.rename(paths[1], str(paths[1]) + ".tmp")
    os.rename(paths[2], paths[1])
    os.rename(str(paths[1]) + ".tmp", paths[2])
    refused(program, paths[0], "set-00002-of-00003.gguf: says split.no 2")


def test_split_cut_part(program, tmp_path):
    paths, _ = write_set(tmp_path)
    os.truncate(paths[2], os.path.getsize(paths[2]) - 1)
    refused(program, paths[0], "set-00003-of-00003.gguf: tensor 1 't2': tensor offset")


# ---- not files -------------------------------------------------------------------------------------------------------


def test_not_a_file(program, tmp_path):
    refused(program, tmp_path, "is a directory")
    refused(program, "/dev/zero", "is a device or pipe")
    os.mkfifo(tmp_path / "pipe")
    refused(program, tmp_path / "pipe", "is a device or pipe")
    refused(program, tmp_path / "absent.gguf", "absent.gguf: cannot be opened: No such file")
    refused(program, tmp_path / ("x" * 255), "cannot be opened")


# ---- speed -----------------------------------------------------------------------------------------------------------


def test_large_vocabulary(tmp_path):
    """250,000 tokens, scores, types and 500,000 merges open in well under a second."""
    w = Gguf()
    n = 250000
    w.strings("tokenizer.ggml.tokens", [f"token{i}" for i in range(n)])
    w.array("tokenizer.ggml.scores", gw.F32V, [0.0] * n)
    w.array("tokenizer.ggml.token_type", gw.I32, [1] * n)
    w.strings("tokenizer.ggml.merges", [f"to ken{i}" for i in range(2 * n)])
    code, err, seconds = run(([str(CHECK)], []), save(tmp_path, w.bytes()))
    assert code == 0, err
    assert seconds < SECONDS / 2, f"{seconds:.2f} s"


# ---- models whose metadata is well-formed GGUF but hostile: ie-run alone ----------------------------------------------


def tiny_llama(**override):
    """Metadata of a small llama; the tensors that a loader asks for first."""
    w = Gguf()
    keys = {"block_count": 1, "context_length": 64, "embedding_length": 32, "feed_forward_length": 64,
            "attention.head_count": 1, "attention.head_count_kv": 1, "rope.dimension_count": 32, "vocab_size": 8}
    keys.update(override)
    w.str("general.architecture", "llama")
    w.str("general.name", "tiny")
    for k, v in keys.items():
        w.u32(f"llama.{k}", v)
    w.f32("llama.attention.layer_norm_rms_epsilon", 1e-5)
    w.str("tokenizer.ggml.model", "gpt2")
    w.str("tokenizer.ggml.pre", "gpt-2")
    w.strings("tokenizer.ggml.tokens", ["<e>", "a", "b", "c", "d", "e", "f", "g"])
    w.array("tokenizer.ggml.token_type", gw.I32, [3] + [1] * 7)
    w.strings("tokenizer.ggml.merges", [])
    w.u32("tokenizer.ggml.eos_token_id", 0)
    return w


def tiny_llama_tensors(w, embd_type=gw.F32, q_dims=(32, 32)):
    w.tensor("token_embd.weight", embd_type, [32, 8], None if embd_type in gw.BLOCK else bytes(2048))
    w.tensor("output_norm.weight", gw.F32, [32])
    for name, dims in (("attn_norm", [32]), ("attn_q", list(q_dims)), ("attn_k", [32, 32]), ("attn_v", [32, 32]),
                       ("attn_output", [32, 32]), ("ffn_norm", [32]), ("ffn_gate", [32, 64]), ("ffn_up", [32, 64]),
                       ("ffn_down", [64, 32])):
        w.tensor(f"blk.0.{name}.weight", gw.F32, dims)


@pytest.fixture
def ie_run():
    if not IE_RUN.exists():
        pytest.skip(f"{IE_RUN} is not built")
    return [str(IE_RUN)], ["--info"]


def test_tiny_llama_is_accepted(ie_run, tmp_path):
    """What the cases below damage is sound: they are refused for their one defect."""
    w = tiny_llama()
    tiny_llama_tensors(w)
    code, err, _ = run(ie_run, save(tmp_path, w.bytes(), "tiny.gguf"))
    assert code == 0, err


@pytest.mark.parametrize("key,value", [
    ("attention.head_count", 0), ("attention.head_count", 2**32 - 1), ("attention.head_count_kv", 0),
    ("attention.head_count_kv", 3), ("block_count", 0), ("block_count", 2**31), ("block_count", 2**32 - 1),
    ("embedding_length", 0), ("embedding_length", 2**31), ("feed_forward_length", 0), ("feed_forward_length", 2**31),
    ("rope.dimension_count", 2**31), ("context_length", 0)])
def test_model_key(ie_run, tmp_path, key, value):
    w = tiny_llama(**{key: value})
    tiny_llama_tensors(w)
    refused(ie_run, save(tmp_path, w.bytes()), key.rsplit(".", 1)[-1])


@pytest.mark.parametrize("type_", [39, 255, 4])
def test_model_tensor_type(ie_run, tmp_path, type_):
    """An unsupported type names the tensor, the type and what is supported."""
    w = tiny_llama()
    tiny_llama_tensors(w, embd_type=type_)
    refused(ie_run, save(tmp_path, w.bytes()), "token_embd.weight", "MXFP4" if type_ == 39 else str(type_), "Q4_K")


def test_model_shape(ie_run, tmp_path):
    w = tiny_llama()
    tiny_llama_tensors(w, q_dims=(32, 64))
    refused(ie_run, save(tmp_path, w.bytes()), "blk.0.attn_q.weight", "64", "32")


@pytest.mark.parametrize("key,type_,value", [
    ("general.architecture", gw.U32, 5), ("llama.block_count", gw.STRING, "many"), ("llama.block_count", gw.F32V, 1.0),
    ("tokenizer.ggml.tokens", gw.ARRAY, (gw.U32, [1, 2])), ("tokenizer.ggml.tokens", gw.STRING, "a"),
    ("tokenizer.ggml.token_type", gw.ARRAY, (gw.STRING, ["a"])),
    ("llama.attention.layer_norm_rms_epsilon", gw.F32V, float("nan"))])
def test_model_wrong_kind(ie_run, tmp_path, key, type_, value):
    """Metadata of the wrong element type."""
    w = tiny_llama()
    w.kvs = [kv for kv in w.kvs if not kv.startswith(struct.pack("<Q", len(key)) + key.encode())]
    w.kv(key, type_, value)
    tiny_llama_tensors(w)
    refused(ie_run, save(tmp_path, w.bytes()), key)
