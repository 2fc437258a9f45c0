"""ie-run's command line: what goes where, the forms of input and output, refusals, exit codes."""
import csv
import dataclasses
import json
import os
import re
import resource
import signal
import subprocess
import time

import numpy as np
import pytest

import gguf_write as gw
import make_tiny_gguf as tiny_models
from test_reference import some_ids

IDS = "12,40,100,7"


@pytest.fixture(scope="module")
def model(tiny):
    return tiny("q8_0")


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """A model without a chat template."""
    path = tmp_path_factory.mktemp("plain") / "plain.gguf"
    tiny_models.build(dataclasses.replace(tiny_models.MODELS["q8_0"], chat=False), path)
    return path


def ids_of(ie, model, text):
    return ie.run(model, "--tokenize", "-p", text).stdout.strip()


# ---- where things go -----------------------------------------------------------------------------------------------------

def test_help_and_version(ie):
    r = ie.run("--help")
    assert r.stderr == "" and r.stdout.startswith("usage: ie-run")
    for option in "--prompt --tokens-file --ppl-first --top-k --chat --json --dump-logits --threads -q -c -n".split():
        assert option in r.stdout
    assert ie.run("-h").stdout == r.stdout
    assert re.fullmatch(r"ie-run \d+\.\d+\.\d+\n", ie.run("--version").stdout)
    env = ie.run("--help-env").stdout
    assert all(name in env for name in ("IE_SIMD", "IE_JOIN", "IE_Q6K_AS_Q8", "IE_PREFILL", "IE_PROFILE"))


def test_ids_give_ids_and_text(ie, model):
    r = ie.run(model, "--tokens", IDS, "--n", 5)
    ids, text = r.stdout.split("\n", 1)
    assert ids.startswith(IDS + ",") and ids.count(",") == 3 + 5
    assert ie.run(model, "--detokenize", "--tokens", ids).stdout + "\n" == text
    assert re.search(r"prompt: 4 tokens, [\d.]+ tokens/s; generated: 5 tokens, [\d.]+ ms/token, [\d.]+ tokens/s, [\d.]+ GB/s", r.stderr)
    assert "context: 512 positions" in r.stderr
    assert ie.run(model, "--tokens", IDS, "--n", 5, "-q").stderr == ""


def test_ids_run_to_n(ie, model):
    assert ie.run(model, "--tokens", IDS).stdout.split("\n")[0].count(",") == 3 + 32
    assert ie.run(model, "--tokens", IDS, "--n", 0).stdout.split("\n")[0] == IDS


@pytest.mark.parametrize("text", ["12 40 100 7", "12, 40,\t100\n7\n", "  12,40,,100 ,7,"])
def test_forms_of_ids(ie, model, tmp_path, text):
    want = ie.run(model, "--tokens", IDS, "--n", 3, "-q").stdout
    (tmp_path / "ids").write_text(text)
    assert ie.run(model, "--tokens", text, "--n", 3, "-q").stdout == want
    assert ie.run(model, "--tokens-file", tmp_path / "ids", "--n", 3, "-q").stdout == want
    assert ie.run(model, "--tokens-file", "-", "--n", 3, "-q", input=text).stdout == want


def test_text_gives_only_text(ie, model, plain):
    r = ie.run(model, "-p", "the cat", "--n", 6)
    assert "\n" in r.stdout and not re.match(r"^\d+,", r.stdout)
    rendered = "<|im_start|>user\nthe cat<|im_end|>\n<|im_start|>assistant\n"
    j = json.loads(ie.run(model, "-p", "the cat", "--n", 6, "--json").stdout)
    assert re.sub("[\udc80-\udcff]", "\ufffd", r.stdout) == j["text"] + "\n"  # bytes that are no UTF-8 become U+FFFD in JSON
    assert ie.run(model, "--detokenize", "--tokens", ",".join(map(str, j["prompt_tokens"]))).stdout == rendered
    raw = json.loads(ie.run(model, "-p", "the cat", "--no-template", "--n", 6, "--json").stdout)
    assert ",".join(map(str, raw["prompt_tokens"])) == ids_of(ie, model, "the cat")
    none = json.loads(ie.run(plain, "-p", "the cat", "--n", 6, "--json").stdout)
    assert none["prompt_tokens"] == raw["prompt_tokens"]


def test_system_and_files(ie, model, tmp_path):
    (tmp_path / "p").write_text("the cat")
    a = json.loads(ie.run(model, "-p", "the cat", "--system", "be brief", "--n", 1, "--json").stdout)
    text = ie.run(model, "--detokenize", "--tokens", ",".join(map(str, a["prompt_tokens"]))).stdout
    assert text.startswith("<|im_start|>system\nbe brief<|im_end|>\n<|im_start|>user\nthe cat")
    b = json.loads(ie.run(model, "-f", tmp_path / "p", "--system=be brief", "--n=1", "--json").stdout)
    c = json.loads(ie.run(model, "-f", "-", "--system", "be brief", "-n", 1, "--json", input="the cat").stdout)
    assert a["tokens"] == b["tokens"] == c["tokens"] and a["prompt_tokens"] == b["prompt_tokens"] == c["prompt_tokens"]
    (tmp_path / "t").write_text("{% for m in messages %}[{{ m.content }}]{% endfor %}")
    d = json.loads(ie.run(model, "-p", "x", "--chat-template-file", tmp_path / "t", "--n", 1, "--json").stdout)
    assert ",".join(map(str, d["prompt_tokens"])) == ids_of(ie, model, "[x]")


def test_user_text_forms_no_control_tokens(ie, model):
    j = json.loads(ie.run(model, "-p", "<|im_end|>", "--n", 0, "--json").stdout)
    assert j["prompt_tokens"].count(2) == 1  # the template's own


# ---- JSON ----------------------------------------------------------------------------------------------------------------

def test_json_of_generation(ie, model):
    r = ie.run(model, "--tokens", IDS, "--n", 5, "--json", "-q")
    assert r.stdout.count("\n") == 1 and r.stderr == ""
    j = json.loads(r.stdout)
    assert j["prompt_tokens"] == [int(x) for x in IDS.split(",")] and len(j["tokens"]) == 5 and j["stop"] == "length"
    t = j["timings"]
    assert t["prompt_n"] == 4 and t["predicted_n"] == 5 and t["prompt_per_second"] > 0 and t["predicted_per_second"] > 0
    assert isinstance(j["text"], str)


def test_json_of_other_modes(ie, model, tmp_path):
    j = json.loads(ie.run(model, "--info", "--json").stdout)
    assert j["architecture"] == tiny_models.MODELS["q8_0"].arch and j["vocabulary"] == 271 and j["tensor_types"]["Q8_0"]["tensors"] > 10 and j["free_bytes"] > 1e6
    j = json.loads(ie.run(model, "--tokenize", "-p", "the", "--json").stdout)
    assert ",".join(map(str, j["tokens"])) == ids_of(ie, model, "the")
    j = json.loads(ie.run(model, "--detokenize", "--tokens", ids_of(ie, model, "héllo"), "--json").stdout)
    assert j["text"] == "héllo"
    (tmp_path / "m.json").write_text(json.dumps([{"role": "user", "content": "hi"}]))
    j = json.loads(ie.run(model, "--render", tmp_path / "m.json", "--json").stdout)
    assert j["text"] == "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n" and j["tokens"][0] == 1
    ids = ",".join(map(str, some_ids(60)))
    j = json.loads(ie.run(model, "--tokens", ids, "--ppl", "--json", "-q").stdout)
    assert j["scored"] == 59 and abs(np.log(j["ppl"]) - j["nll"] / 59) < 1e-9


def test_info(ie, model):
    out = ie.run(model, "--info").stdout
    for word in ("architecture", "Q8_0", "memory", "271", "backend", "cpu"):
        assert word in out


# ---- perplexity and logits ------------------------------------------------------------------------------------------------

def test_perplexity_is_that_of_the_logits(ie, model, tmp_path):
    ids = some_ids(60)
    text = ",".join(map(str, ids))
    ie.run(model, "--tokens", text, "--n", 1, "-q", "--dump-logits", tmp_path / "d")
    x = np.array([line.split()[2:] for line in open(tmp_path / "d")], float)
    nll = np.log(np.exp(x - x.max(1, keepdims=True)).sum(1)) + x.max(1) - np.append(x[np.arange(59), ids[1:]], 0)
    for first in (0, 20, 58):
        for options in ([], ["--chunk", 7], ["--threads", 1]):
            j = json.loads(ie.run(model, "--tokens", text, "--ppl", "--ppl-first", first, "--json", *options).stdout)
            assert j["scored"] == 59 - first and abs(j["nll"] - nll[first:59].sum()) < 1e-5
    assert re.fullmatch(r"perplexity [\d.]+ over 59 tokens \(negative log likelihood [\d.]+\)\n", ie.run(model, "--tokens", text, "--ppl").stdout)
    j = json.loads(ie.run(model, "--tokens", text, "--ppl", "--ppl-window", 20, "--ppl-first", 10, "--json").stdout)
    assert j["scored"] == 3 * 9


def test_dump_form(ie, model, tmp_path):
    out = ie.run(model, "--tokens", IDS, "--n", 3, "-q", "--dump-logits", tmp_path / "d").stdout
    rows = [line.split(" ") for line in open(tmp_path / "d").read().splitlines()]
    assert [int(r[0]) for r in rows] == list(range(6))  # the last token is not evaluated
    assert [r[1] for r in rows] == out.split("\n")[0].split(",")[:6]
    assert all(len(r) == 2 + 271 for r in rows)
    assert all("%.9g" % np.float32(v) == v for r in rows for v in r[2:])  # enough digits for every float
    assert int(rows[3][2:].index(max(rows[3][2:], key=float))) == int(out.split("\n")[0].split(",")[4])  # greedy


# ---- stopping --------------------------------------------------------------------------------------------------------------

@pytest.fixture(scope="module")
def stopping(ie, model):
    """A greedy continuation that contains the end-of-turn token (2): found among seeds, so that --stop can be seen to work."""
    for seed in range(400):
        j = json.loads(ie.run(model, "--tokens", IDS, "--n", 64, "--temp", 1.5, "--seed", seed, "--json", "-q").stdout)
        if 2 in j["tokens"][3:60]:
            return ["--tokens", IDS, "--n", "64", "--temp", "1.5", "--seed", str(seed)], j["tokens"]
    pytest.fail("no end token in 400 texts")


def test_stop(ie, model, stopping):
    options, tokens = stopping
    ends = [t for t in (tokens.index(e) for e in (0, 2) if e in tokens)]
    j = json.loads(ie.run(model, *options, "--stop", "--json", "-q").stdout)
    assert j["tokens"] == tokens[:min(ends) + 1] and j["stop"] == "stop"
    assert "<|" not in j["text"]


def test_full_context(ie, model):
    r = ie.run(model, "--tokens", IDS, "--n", -1, "--ctx", 20)
    assert r.stdout.split("\n")[0].count(",") == 20  # 20 positions, and one token more
    assert [x for x in r.stderr.splitlines() if "full" in x] == ["the context of 20 positions is full; the text ends here (--ctx sets its length)"]
    j = json.loads(ie.run(model, "--tokens", IDS, "--n", 100, "--ctx", 20, "--json", "-q").stdout)
    assert j["stop"] == "context_full"
    line = ie.fails(model, "--tokens", ",".join(map(str, some_ids(21))), "--ctx", 20, "-q")
    assert "21 tokens" in line and "20" in line


def test_sampling_is_a_function_of_the_seed(ie, model):
    options = ["--tokens", IDS, "--n", 24, "--temp", "1.2", "--top-k", "50", "--top-p", "0.95", "--min-p", "0.01", "-q"]
    base = ie.run(model, *options, "--seed", 7).stdout
    for more in (["--threads", 1], ["--threads", 7], ["--chunk", 1], ["--chunk", 3], ["--ctx", 64]):
        assert ie.run(model, *options, "--seed", 7, *more).stdout == base
    assert ie.run(model, *options, "--seed", 8).stdout != base
    assert ie.run(model, *options, "--seed", str(2**64 - 1)).stdout != base
    greedy = ie.run(model, "--tokens", IDS, "--n", 24, "-q").stdout
    assert ie.run(model, "--tokens", IDS, "--n", 24, "--temp", 1, "--top-k", 1, "--seed", 3, "-q").stdout == greedy
    assert ie.run(model, "--tokens", IDS, "--n", 24, "--repeat-penalty", 1e3, "-q").stdout != greedy


# ---- tokens and templates --------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("text", ["the theatre in the rain", " leading", "tab\tnew\nline", "naïve 日本語 🙂", "<|im_end|>", "", "0"])
def test_round_trip(ie, model, tmp_path, text):
    (tmp_path / "t").write_text(text)
    for source in (["-f", tmp_path / "t"], ["-p", text]):
        ids = ie.run(model, "--tokenize", *source).stdout
        if not text:
            assert ids == "\n"
            continue
        (tmp_path / "ids").write_text(ids)
        for form in (["--tokens", ids], ["-p", ids], ["--tokens-file", tmp_path / "ids"], ["-f", tmp_path / "ids"]):
            assert ie.run(model, "--detokenize", *form).stdout == text


def test_vocabulary_alone(ie, tmp_path):
    w = gw.Gguf()
    tiny_models.metadata(w, tiny_models.MODELS["q8_0"], "vocab")
    w.write(tmp_path / "v.gguf")
    assert ie.run(tmp_path / "v.gguf", "--detokenize", "-p", ids_of(ie, tmp_path / "v.gguf", "the end")).stdout == "the end"


def test_render_of_a_real_template(ie, smollm2, tmp_path):
    messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello!"}, {"role": "user", "content": "<|im_end|> & so"}]
    want = "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n" + "".join(
        f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in messages)
    (tmp_path / "m.json").write_text(json.dumps(messages))
    assert ie.run(smollm2, "--render", tmp_path / "m.json").stdout == want + "<|im_start|>assistant\n"
    (tmp_path / "o.json").write_text(json.dumps({"messages": messages, "add_generation_prompt": False}))
    assert ie.run(smollm2, "--render", tmp_path / "o.json").stdout == want
    j = json.loads(ie.run(smollm2, "--render", tmp_path / "o.json", "--json").stdout)
    assert j["text"] == want and j["tokens"].count(2) == 4  # <|im_end|> as a control token: not the user's


# ---- refusals --------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("args, words", [
    ([], "no model file"),
    (["{m}"], "nothing to do"),
    (["{m}", "{m}", "-p", "x"], "two model files"),
    (["{m}", "--bogus"], "--bogus"),
    (["{m}", "-q", "-p"], "--prompt needs a value"),
    (["{m}", "--quiet=1", "-p", "x"], "--quiet takes no value"),
    (["{m}", "-p", "x", "--n", "1x"], "--n '1x' whole numbers -1"),
    (["{m}", "-p", "x", "--n", "-2"], "--n '-2'"),
    (["{m}", "-p", "x", "--n", ""], "--n ''"),
    (["{m}", "-p", "x", "--n", "99999999999999999999"], "--n '99999999999999999999'"),
    (["{m}", "-p", "x", "--ctx", "0"], "--ctx '0' 1 to 1048576"),
    (["{m}", "-p", "x", "--ctx", "1048577"], "--ctx '1048577'"),
    (["{m}", "-p", "x", "--chunk", "513"], "--chunk '513' 1 to 512"),
    (["{m}", "-p", "x", "--threads", "0"], "--threads '0' 1 to 1024"),
    (["{m}", "-p", "x", "--temp", "-1"], "--temp '-1'"),
    (["{m}", "-p", "x", "--temp", "nan"], "--temp 'nan'"),
    (["{m}", "-p", "x", "--temp", "inf"], "--temp 'inf'"),
    (["{m}", "-p", "x", "--top-p", "0"], "--top-p '0'"),
    (["{m}", "-p", "x", "--top-p", "1.01"], "--top-p '1.01'"),
    (["{m}", "-p", "x", "--min-p", "2"], "--min-p '2' 0 to 1"),
    (["{m}", "-p", "x", "--top-k", "-1"], "--top-k '-1'"),
    (["{m}", "-p", "x", "--seed", "-1"], "--seed '-1' 2^64"),
    (["{m}", "-p", "x", "--seed", "18446744073709551616"], "--seed '18446744073709551616'"),
    (["{m}", "-p", "x", "--backend", "abacus"], "abacus"),
    (["{m}", "-p", "x", "--tokens", "1"], "only one of"),
    (["{m}", "--info", "--chat"], "only one of"),
    (["{m}", "--info", "-p", "x"], "no sense"),
    (["{m}", "--tokenize", "--tokens", "1"], "wants text"),
    (["{m}", "--chat", "--json"], "no JSON"),
    (["{m}", "--tokens", "1,x"], "'x' not a token id"),
    (["{m}", "--tokens", "1,-2"], "'-2' not a token id"),
    (["{m}", "--tokens", "1.5"], "'1.5'"),
    (["{m}", "--tokens", "99999999999"], "'99999999999'"),
    (["{m}", "--tokens", ""], "no token ids"),
    (["{m}", "--tokens", ","], "no token ids"),
    (["{m}", "--tokens", "1,271"], "271 vocabulary"),
    (["{m}", "--detokenize", "--tokens", "271"], "271"),
    (["{m}", "--tokens-file", "/nonexistent/ids"], "/nonexistent/ids No such file"),
    (["{m}", "-f", "/nonexistent/text"], "/nonexistent/text No such file"),
    (["{m}", "-p", "", "--no-template"], "empty"),
    (["{m}", "--tokens", "1", "--ppl"], "1 tokens 2 are needed"),
    (["{m}", "--tokens", "1,2,3", "--ppl", "--ppl-first", "2"], "3 tokens 4 are needed"),
    (["{m}", "--tokens", "1,2,3", "--ppl", "--ppl-window", "2", "--ppl-first", "1"], "--ppl-first below"),
    (["{m}", "--tokens", "1,271", "--ppl"], "271 vocabulary"),
    (["{m}", "--tokens", "1", "--dump-logits", "/nonexistent/d"], "/nonexistent/d No such file"),
    (["{m}", "--tokens", "1", "--dump-logits", "/dev/full"], "/dev/full No space"),
    (["{m}", "--render", "/nonexistent/m.json"], "/nonexistent/m.json No such file"),
    (["/nonexistent/model.gguf", "-p", "x"], "/nonexistent/model.gguf No such file"),
    (["/", "-p", "x"], "/ directory"),
    (["/dev/null", "-p", "x"], "/dev/null"),
    (["{m}", "-p", "x", "--chat-template-file", "/nonexistent/t"], "/nonexistent/t No such file"),
    (["{m}", "-p", b"\xff\xfe"], "UTF-8"),
])
def test_refused(ie, model, args, words):
    args = [a if isinstance(a, bytes) else a.replace("{m}", str(model)) for a in args]
    args = [os.fsdecode(a) if isinstance(a, bytes) else a for a in args]
    line = ie.fails(*args, *(["-q"] if args and args[-1] != "-p" and "--quiet=1" not in args else []))
    for word in re.findall(r"'[^']*'|\S+", words) if " " in words else [words]:
        assert word in line, line


def test_refused_renders(ie, model, plain, tmp_path):
    f = tmp_path / "m.json"
    for text, word in (("{", "line 1"), ("3", "line 1"), ('[{"role":"user","role":"x"}]', "duplicate"), ('[{"content":"x"}]', "role")):
        f.write_text(text)
        assert word in ie.fails(model, "--render", f)
    f.write_text("[]")
    assert "template" in ie.fails(plain, "--render", f)
    assert "template" in ie.fails(plain, "--chat", "-q", input="")
    (tmp_path / "t").write_text("{% for %}")
    assert ie.fails(model, "--render", f, "--chat-template-file", tmp_path / "t")
    (tmp_path / "t").write_text("{{ raise_exception('no such luck') }}")
    assert "no such luck" in ie.fails(model, "--render", f, "--chat-template-file", tmp_path / "t")


@pytest.mark.parametrize("name, value", [("IE_SIMD", "sse"), ("IE_THREADS", "0"), ("IE_JOIN", "yes"), ("IE_PREFILL", "x")])
def test_refused_environment(ie, model, name, value):
    line = ie.fails(model, "--tokens", "1", "-q", env={name: value})
    assert name in line and value in line


def test_too_large_a_context(ie, tmp_path):
    """2^20 positions of 64 heads of 256 in 8 layers: 0.5 TB."""
    path = tmp_path / "wide.gguf"
    s = tiny_models.Spec(fmt="Q4_0", embd=32, ff=32, layers=8, heads=64, kv=64, hd=256, ctx=1 << 20)
    tiny_models.build(s, path)
    line = ie.fails(path, "--tokens", "1", "--ctx", 1 << 20, "-q")
    assert re.search(r"1048576 positions .* needs \d+\.\d+ GB, \d+\.\d+ GB of memory are free", line)
    r = ie.run(path, "--tokens", "1", "--n", 1)  # the default is cut to what memory allows, and says so
    assert re.search(r"context: \d+ positions \(what memory allows; --ctx sets it\)", r.stderr)


@pytest.mark.parametrize("args", [["--tokens", IDS, "--n", "400"], ["-p", "x", "--n", "400"], ["--info"], ["--tokens", IDS, "--json"]])
def test_closed_stdout(ie, model, args):
    """A reader that went away, and a full disk: one line, exit code 1, no signal."""
    p = subprocess.Popen([ie.path("ie-run"), str(model), *args, "-q"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ie.env, text=True)
    p.stdout.close()
    err = p.stderr.read()
    assert p.wait(60) == 1 and re.fullmatch(r"ie-run: standard output: .+\n", err), err
    with open("/dev/full", "w") as full:
        r = subprocess.run([ie.path("ie-run"), str(model), *args, "-q"], stdout=full, stderr=subprocess.PIPE, env=ie.env, text=True)
    assert r.returncode == 1 and r.stderr == "ie-run: standard output: No space left on device\n"


# ---- hostile models: the metadata and tensors that only loading looks at --------------------------------------------------------

def damaged(path, edit=None, **spec):
    """A tiny model whose writer passes through edit(kind, name, ...) before anything is written."""
    w = gw.Gguf()
    kv, tensor = w.kv, w.tensor
    if edit:
        w.kv = lambda key, type_, v: kv(key, *edit("kv", key, type_, v)) if edit("kv", key, type_, v) else None

        def put(name, type_, dims, data=None):
            t = edit("tensor", name, type_, dims)
            if t:
                tensor(name, t[0], t[1], data if t == (type_, dims) else b"\0" * (1 << 16))
        w.tensor = put
    s = dataclasses.replace(tiny_models.MODELS["q8_0"], arch="llama", tied=False, **spec)
    tiny_models.metadata(w, s, "damaged")
    tiny_models._tensors(w, s, np.random.default_rng(1))
    w.write(path)


def change(kind, name, **new):
    def edit(k, n, type_, v):
        if (k, n) != (kind, name):
            return type_, v
        if new.get("drop"):
            return None
        return new.get("type_", type_), new.get("value", v)
    return edit


@pytest.mark.parametrize("edit, words", [
    (change("kv", "llama.attention.head_count", value=0), "head_count 0"),
    (change("kv", "llama.attention.head_count", drop=True), "head_count"),
    (change("kv", "llama.attention.head_count_kv", value=2), "head_count 3 2"),
    (change("kv", "llama.block_count", value=2**31), "block_count 2147483648"),
    (change("kv", "llama.block_count", value=3), "blk.2."),
    (change("kv", "llama.block_count", value=1), "blk.1."),
    (change("kv", "llama.block_count", value=1000), "block_count 1000"),
    (change("kv", "llama.embedding_length", value=0), "embedding_length 0"),
    (change("kv", "llama.embedding_length", value=128), "token_embd.weight 96,271 128,271"),
    (change("kv", "llama.feed_forward_length", value=192), "ffn_gate.weight 96,160 96,192"),
    (change("kv", "llama.attention.key_length", value=0), "key_length 0"),
    (change("kv", "llama.attention.key_length", value=64), "value_length 32 64"),
    (change("kv", "llama.rope.freq_base", value=-1.0), "freq_base -1"),
    (change("kv", "llama.rope.freq_base", value=float("nan")), "freq_base nan"),
    (change("kv", "llama.attention.layer_norm_rms_epsilon", value=0.0), "epsilon 0"),
    (change("kv", "llama.attention.layer_norm_rms_epsilon", value=float("inf")), "epsilon inf"),
    (change("kv", "llama.context_length", value=0), "context_length 0"),
    (change("kv", "general.architecture", value="mamba"), "mamba llama qwen2 qwen3"),
    (change("tensor", "token_embd.weight", drop=True), "token_embd.weight missing"),
    (change("tensor", "blk.1.ffn_down.weight", drop=True), "blk.1.ffn_down.weight missing"),
    (change("tensor", "output_norm.weight", drop=True), "output_norm.weight missing"),
    (change("tensor", "blk.0.attn_q.weight", value=[96, 64]), "blk.0.attn_q.weight 96,64 96,96"),
    (change("tensor", "blk.0.attn_norm.weight", value=[95]), "blk.0.attn_norm.weight 95,1 96"),
    (change("tensor", "output.weight", type_=39), "output.weight MXFP4 39 Q4_0 IQ4_XS"),
    (change("tensor", "output.weight", type_=255), "output.weight 255 Q4_0 IQ4_XS"),
    (change("tensor", "output_norm.weight", type_=8), "output_norm.weight Q8_0 F32"),
])
def test_damaged_models(ie, tmp_path, edit, words):
    damaged(tmp_path / "m.gguf", edit)
    start = resource.getrusage(resource.RUSAGE_CHILDREN)
    line = ie.fails(tmp_path / "m.gguf", "--tokens", "1", "-q", timeout=20)
    end = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert end.ru_utime + end.ru_stime - start.ru_utime - start.ru_stime < 1  # processor time: the machine may be busy
    for word in words.split():
        assert word.replace(",", ", ") in line, line


def test_keys_that_change_the_arithmetic_are_refused(ie, tmp_path):
    for key, value in (("llama.expert_count", 8), ("llama.attn_logit_softcapping", 30.0), ("llama.final_logit_softcapping", 30.0),
                       ("llama.logit_scale", 0.5), ("llama.rope.scaling.yarn_log_multiplier", 0.1), ("llama.attention.sliding_window_pattern", 6),
                       ("llama.rope.scaling.type", "longrope")):
        w = gw.Gguf()
        {float: w.f32, int: w.u32, str: w.str}[type(value)](key, value)
        s = dataclasses.replace(tiny_models.MODELS["q8_0"], arch="llama")
        tiny_models.metadata(w, s, "x")
        tiny_models._tensors(w, s, np.random.default_rng(1))
        w.write(tmp_path / "m.gguf")
        assert key in ie.fails(tmp_path / "m.gguf", "--tokens", "1", "-q")
    w = gw.Gguf()
    w.f32("llama.logit_scale", 1.0)  # changes nothing
    tiny_models.metadata(w, s, "x")
    tiny_models._tensors(w, s, np.random.default_rng(1))
    w.write(tmp_path / "m.gguf")
    ie.run(tmp_path / "m.gguf", "--tokens", "1", "-q")


# ---- chat without a terminal ----------------------------------------------------------------------------------------------------

def test_chat_through_a_pipe(ie, model):
    r = ie.run(model, "--chat", "--n", 4, "-q", input="one\n\ntwo")
    assert r.stderr == "" and r.stdout.count("\n") >= 2
    r2 = ie.run(model, "--chat", "--n", 4, "-q", input="one\n/quit\ntwo\n")
    assert r.stdout.startswith(r2.stdout) and len(r.stdout) > len(r2.stdout)


def test_full_chat(ie, model):
    r = ie.run(model, "--chat", "--ctx", 64, input="a" * 20 + "\n" + "b" * 300 + "\n/new\nhi\n")
    assert r.stderr.count("/new starts over") >= 1 and r.returncode == 0


# ---- libie by its header alone ----------------------------------------------------------------------------------------------------

def test_example(ie, plain):
    r = ie.run(plain, "the cat", program="examples/simple")
    want = ie.run(plain, "-p", "the cat", "--n", 64, "-q").stdout
    assert r.stdout == want and r.stderr == ""
    bad = ie.run("/nonexistent", "x", program="examples/simple", check=False)
    assert bad.returncode == 1 and bad.stderr.startswith("simple: ")
    assert ie.run(program="examples/simple", check=False).returncode == 1


def test_signals_end_a_run(ie, smollm2):
    """Ctrl-C during generation without --chat ends the program at once."""
    p = subprocess.Popen([ie.path("ie-run"), str(smollm2), "--tokens", "1", "--n", "5000", "-q"], env=ie.env, stdout=subprocess.DEVNULL)
    time.sleep(1)
    p.send_signal(signal.SIGINT)
    assert p.wait(20) == -signal.SIGINT


def test_interrupted_run_keeps_what_it_has(ie, smollm2):
    p = subprocess.Popen([ie.path("ie-run"), str(smollm2), "--tokens", "1", "--n", "5000", "--json"], env=ie.env, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE)
    time.sleep(1.5)
    p.send_signal(signal.SIGINT)
    out, _ = p.communicate(timeout=20)
    obj = json.loads(out)
    assert p.returncode == -signal.SIGINT and obj["stop"] == "cancelled" and 0 < len(obj["tokens"]) < 5000


def test_closed_standard_input_is_not_another_file(ie, model):
    r = subprocess.run(["sh", "-c", 'exec "$0" "$1" -f - --tokenize <&-', ie.path("ie-run"), str(model)], capture_output=True, text=True, env=ie.env)
    assert r.returncode == 1 and r.stdout == "" and "Bad file descriptor" in r.stderr


def test_files_that_cannot_be_written_whole(ie, model, tmp_path):
    """Full disks and the shell's limit (ulimit -f): a line, exit code 1, no signal."""
    args = [ie.path("ie-run"), str(model), "-q", "--tokens", IDS, "--n", "2"]
    for more, env, word in ((["--dump-logits", tmp_path / "d"], {}, "File too large"), (["--dump-logits", "/dev/full"], {}, "No space left"),
                            ([], {"IE_PROFILE": "1", "IE_PROFILE_CSV": "/dev/full"}, "IE_PROFILE_CSV=/dev/full: the file could not be written whole")):
        r = subprocess.run([*args, *map(str, more)], env={**ie.env, **env}, capture_output=True, text=True, timeout=60,
                           preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)))
        assert r.returncode == 1 and word in r.stderr.splitlines()[-1], r.stderr


def test_profile_of_many_threads(ie, model, tmp_path):
    """Each op counts once, from the end of those before it to its own last piece, whichever thread comes late: all together no longer than the run."""
    out, began = tmp_path / "ops.csv", time.monotonic()
    r = ie.run(model, "-q", "--tokens", IDS, "--n", "4", "-t", 7, "--backend", "cpu", env={"IE_PROFILE": "1", "IE_PROFILE_CSV": str(out)})
    wall = time.monotonic() - began
    rows = list(csv.DictReader(out.read_text().splitlines()))
    decode = [[int(x["op"]) for x in rows if x["run"] == n] for n in sorted({x["run"] for x in rows if x["phase"] == "decode"})]
    assert len(decode) == 3 and all(ops == sorted(set(ops)) and len(ops) > 10 for ops in decode), decode
    took = [float(x["microseconds"]) for x in rows]
    assert min(took) >= 0 and 0 < sum(took) < 1e6 * wall
    table = [line.split() for line in r.stderr[r.stderr.index("profile, decode"):].splitlines() if line.startswith("  matmul ")]
    assert int(table[0][1]) == sum(x["kind"] == "matmul" and x["phase"] == "decode" for x in rows)


def test_the_model_is_not_written_over(ie, model, tmp_path):
    mine, link = tmp_path / "m.gguf", tmp_path / "link"
    mine.write_bytes(model.read_bytes())
    link.symlink_to(mine)
    assert "the model's own file" in ie.fails(mine, "--tokens", IDS, "--dump-logits", link, "-q")
    assert mine.read_bytes() == model.read_bytes()


def test_ids_with_nul(ie, model, tmp_path):
    (tmp_path / "ids").write_bytes(b"1 \x002 3")
    assert "'?2' is not a token id" in ie.fails(model, "--tokens-file", tmp_path / "ids")


def test_double_dash(ie, model, tmp_path):
    odd = tmp_path / "-odd.gguf"
    odd.symlink_to(model)
    r = subprocess.run([ie.path("ie-run"), "-q", "--tokens", "1", "--n", "1", "--", "-odd.gguf"], cwd=tmp_path, env=ie.env, capture_output=True)
    assert r.returncode == 0 and r.stdout


@pytest.mark.parametrize("args, word", [
    (["--chat", "--dump-logits", "x"], "--dump-logits"), (["--ppl", "--tokens", "1,2,3", "--dump-logits", "x"], "--dump-logits"),
    (["--chat", "--no-template"], "--no-template"), (["--tokens", "1", "--system", "x"], "--system"),
    (["-p", "x", "--system", "y", "--no-template"], "--system"), (["--tokenize"], "--tokenize: give"),
    (["-p", "x", "--special"], "--special and --no-bos"), (["--tokens", "1", "--no-bos"], "--special and --no-bos"), (["--detokenize"], "--detokenize: give"),
    (["--tokens", "1", "--backend", "cpu", "--device", "0"], "not with --backend cpu"), (["--tokens", "1", "--backend", "cpu", "--gpu-layers", "1"], "not with --backend cpu"),
])
def test_options_that_would_do_nothing(ie, model, args, word):
    assert word in ie.fails(model, *args)


def test_special_tokens_and_bos_of_plain_text(ie, smollm2):
    text = "<|im_start|>user"
    plain, special = (ie.run(smollm2, "--tokenize", "-p", text, *more).stdout.strip().split(",") for more in ([], ["--special"]))
    assert len(plain) > 2 and special == ["1", plain[-1]]


def test_more_threads_than_cores_are_remarked(ie, model):
    err = ie.run(model, "--tokens", "1", "--n", 1, "--threads", 1000).stderr
    assert "threads: 1000 on" in err


def test_context_that_memory_allows(ie, smollm2):
    """Where the system's estimate of free memory is too high, the context becomes shorter instead of failing."""
    limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (260 << 20, 260 << 20))  # noqa: E731
    r = subprocess.run([ie.path("ie-run"), str(smollm2), "--tokens", "1", "--n", "2", "-t", "1"], env=ie.env, preexec_fn=limit, capture_output=True, text=True)
    assert r.returncode == 0 and "what memory allows" in r.stderr, r.stderr


def test_templates_see_the_text_of_bos_and_eos(ie, tiny, tmp_path):
    """One token's text each, not the vocabulary from there on."""
    template, variables = tmp_path / "t.jinja", tmp_path / "v.json"
    template.write_text("[{{ bos_token }}|{{ eos_token }}]")
    variables.write_text('{"messages": []}')
    out = ie.run(tiny("q8_0"), "--render", variables, "--chat-template-file", template).stdout
    assert out.strip() == "[<|endoftext|>|<|im_end|>]"


@pytest.mark.parametrize("more", [["--seed", "abc"], ["--layers", "-1"], ["--layers", "99999999999"], ["--layers"], ["--empty", "x"]], ids=str)
def test_numbers_of_the_generator(ie, tmp_path, more):
    """A wrong number must not become a file of terabytes."""
    r = ie.run("smollm2-135m", "Q8_0", tmp_path / "m.gguf", *more, program="tools/make_synth_gguf", check=False)
    assert r.returncode == 1 and f"option {more[0]} is '{more[1] if more[1:] else ''}', allowed are" in r.stderr and not (tmp_path / "m.gguf").exists()
