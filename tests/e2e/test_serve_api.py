"""ie-serve's embeddings, completions, infill, properties, metrics, log; text whose characters and stop strings are split over tokens."""
import base64
import json
import re
import signal
import struct

import numpy as np
import pytest

import gguf_write
import make_tiny_gguf as make
import ref_forward as ref
from serving import QWEN35, Server, wait_until

EMOJI = "ab\U0001F600 \U0001F680\U0001F469‍\U0001F680 café 日本 end"


@pytest.fixture(scope="module")
def smol(ie, smollm2):
    s = Server(ie, smollm2, "--parallel", 8, "--ctx", 1024, "--quiet")
    yield s
    s.stop()


@pytest.fixture(scope="module")
def small(ie, tiny):
    s = Server(ie, tiny("f32"), "--parallel", 4, "--ctx", 256, "--quiet", "--alias", "a model/1")
    yield s
    s.stop()


def vectors(obj):
    assert obj["object"] == "list" and [d["index"] for d in obj["data"]] == list(range(len(obj["data"])))
    return [d["embedding"] for d in obj["data"]]


# ---- embeddings ---------------------------------------------------------------------------------------------------------

def test_embeddings_against_numpy(small, tiny):
    ids = [(7 * i) % 260 for i in range(100)]
    x = ref.forward(ref.Model(tiny("f32")), ids, states=True)
    for pooling, want in (("mean", x.mean(0)), ("last", x[-1])):
        got = np.array(vectors(small.ok("/v1/embeddings", {"input": ids, "pooling": pooling}))[0])
        assert abs(np.linalg.norm(got) - 1) < 1e-5
        assert np.abs(got - want / np.linalg.norm(want)).max() < 2e-3  # keys and values are f16


def test_embeddings_forms(smol):
    texts = ["The cat sits on the mat.", "A cat is sitting on a mat.", "Quarterly revenue rose by 4%."]
    obj = smol.ok("/v1/embeddings", {"input": texts, "model": "any", "user": "someone"})
    v = np.array(vectors(obj))
    assert v.shape == (3, 576) and np.allclose(np.linalg.norm(v, axis=1), 1, atol=1e-5)
    assert v[0] @ v[1] > v[0] @ v[2]
    ids = [smol.ok("/tokenize", {"content": t})["tokens"] for t in texts]
    assert obj["usage"] == {"prompt_tokens": sum(map(len, ids)), "total_tokens": sum(map(len, ids))}
    again = smol.ok("/v1/embeddings", {"input": ids, "encoding_format": "base64"})
    assert [list(struct.unpack("<576f", base64.b64decode(b, validate=True))) for b in vectors(again)] == [list(np.float32(r)) for r in v]
    assert np.allclose(vectors(smol.ok("/embeddings", {"input": texts[0]}))[0], v[0], atol=0)
    short = np.array(vectors(smol.ok("/v1/embeddings", {"input": ids[0], "dimensions": 64}))[0])
    assert np.allclose(short, v[0][:64] / np.linalg.norm(v[0][:64]), atol=1e-6)
    many = vectors(smol.ok("/v1/embeddings", {"input": [f"text {i}" for i in range(100)], "dimensions": 1}))
    assert len(many) == 100
    full = smol.ok("/tokenize", {"content": "word " * 2000})["tokens"]
    assert smol.ok("/v1/embeddings", {"input": full[:1024]})["usage"]["prompt_tokens"] == 1024  # the whole context


@pytest.mark.parametrize("body,word", [
    ({}, "input"), ({"input": ""}, "empty"), ({"input": []}, "input"), ({"input": [""]}, "empty"), ({"input": [[]]}, "empty"),
    ({"input": [-1]}, "token ids"), ({"input": [10**9]}, "token ids"), ({"input": [1, "x"]}, "token ids"), ({"input": {"a": 1}}, "input"),
    ({"input": "x", "dimensions": 0}, "dimensions"), ({"input": "x", "dimensions": 577}, "576"), ({"input": "x", "encoding_format": "int8"}, "base64"),
    ({"input": "x", "pooling": "cls"}, "mean and last"), ({"input": "x", "user": 5}, "user"), ({"input": "word " * 1100}, "n_ctx is 1024"),
    ({"input": ["x"] * 2049}, "2048"),
])
def test_embeddings_refused(smol, body, word):
    status, obj = smol.post("/v1/embeddings", body)
    assert status == 400 and word in obj["error"]["message"], obj


def test_embeddings_beside_text(smol):
    """Embeddings and texts take turns; neither changes the other."""
    from concurrent.futures import ThreadPoolExecutor
    text, inputs = {"prompt": "Once upon a time", "max_tokens": 40, "temperature": 0, "cache_prompt": False}, {"input": ["a long way " * 60] * 6}
    want = smol.ok("/v1/completions", text)["choices"][0]["text"], vectors(smol.ok("/v1/embeddings", inputs))
    with ThreadPoolExecutor(4) as pool:
        a, b = [pool.submit(smol.ok, "/v1/completions", text) for _ in range(2)], [pool.submit(smol.ok, "/v1/embeddings", inputs) for _ in range(2)]
        assert all(f.result()["choices"][0]["text"] == want[0] for f in a)
        assert all(vectors(f.result()) == want[1] for f in b)


def test_embeddings_of_a_recurrent_model(ie):
    if not QWEN35.exists():
        pytest.skip(f"{QWEN35} is missing")
    whole, cut = (Server(ie, QWEN35, "--parallel", 1, "--quiet", "--chunk", n) for n in (512, 32))
    body = {"input": ["Once there was a little fox who lived in the woods. " * 12, "The end."]}
    a, b = vectors(whole.ok("/v1/embeddings", body)), vectors(cut.ok("/v1/embeddings", body))
    whole.stop(), cut.stop()
    assert a == b and abs(np.linalg.norm(a[0]) - 1) < 1e-5


# ---- completions ----------------------------------------------------------------------------------------------------------

def test_several_prompts_and_choices(smol):
    body = {"max_tokens": 5, "temperature": 0, "user": "me", "cache_prompt": False}
    prompts = ["The sky is", "One two three"]
    alone = [smol.ok("/v1/completions", {**body, "prompt": p})["choices"][0]["text"] for p in prompts]
    got = smol.ok("/v1/completions", {**body, "prompt": prompts, "n": 2})
    assert [(c["index"], c["text"], c["finish_reason"]) for c in got["choices"]] == [(i, alone[i // 2], "length") for i in range(4)]
    ids = [smol.ok("/tokenize", {"content": p})["tokens"] for p in prompts]
    assert got["usage"]["prompt_tokens"] == sum(map(len, ids)) and got["usage"]["completion_tokens"] == 20
    assert [c["text"] for c in smol.ok("/v1/completions", {**body, "prompt": ids})["choices"]] == alone
    assert smol.ok("/v1/completions", {**body, "prompt": ids[1]})["choices"][0]["text"] == alone[1]
    assert smol.ok("/v1/completions", {"prompt": "x", "ignore_eos": True})["usage"]["completion_tokens"] == 16  # the documented default
    with_bias = smol.ok("/v1/completions", {**body, "prompt": "x", "logit_bias": {str(ids[0][1]): 100}})
    assert with_bias["choices"][0]["text"] == " sky" * 5


def merged(events, index):
    """The chunks of a stream as one choice."""
    text, finish, probs = "", None, None
    for e in events:
        for c in e["choices"]:
            if c["index"] != index:
                continue
            text += c["text"]
            finish = c["finish_reason"] or finish
            if c["logprobs"]:
                probs = {k: (probs or {}).get(k, []) + v for k, v in c["logprobs"].items()}
    return {"index": index, "text": text, "logprobs": probs, "finish_reason": finish}


@pytest.mark.parametrize("more", [{}, {"echo": True}, {"logprobs": 0}, {"logprobs": 3}, {"logprobs": 3, "echo": True}])
def test_completion_stream_is_the_whole_answer(smol, more):
    body = {"prompt": ["Say \U0001F600\U0001F680 again: \U0001F600", "A B C"], "n": 2, "max_tokens": 12, "temperature": 0.9, "seed": 5,
            "cache_prompt": False, **more}
    whole = smol.ok("/v1/completions", body)
    events = smol.stream("/v1/completions", {**body, "stream_options": {"include_usage": True}})
    assert events[-1] == "[DONE]"
    events = [json.loads(e) for e in events[:-1]]
    assert [merged(events, i) for i in range(4)] == whole["choices"]
    assert events[-1]["choices"] == [] and events[-1]["usage"]["completion_tokens"] == whole["usage"]["completion_tokens"]
    assert all(e["usage"] is None for e in events[:-1])


def test_log_probabilities_of_a_prompt(smol):
    """A text's tokens have the same log-probabilities as a prompt that they had when they were generated."""
    first = smol.ok("/v1/completions", {"prompt": "The old man and", "max_tokens": 40, "temperature": 0, "logprobs": 2, "cache_prompt": False})["choices"][0]
    again = smol.ok("/v1/completions", {"prompt": "The old man and" + first["text"], "max_tokens": 0, "echo": True, "logprobs": 2})
    probs = again["choices"][0]["logprobs"]
    if probs["tokens"][4:] == first["logprobs"]["tokens"]:  # the text may be cut into other tokens
        assert probs["token_logprobs"][4:] == first["logprobs"]["token_logprobs"]
        assert probs["top_logprobs"][4:] == first["logprobs"]["top_logprobs"]
    else:
        pytest.fail("the text was cut into other tokens: choose another prompt")
    assert again["usage"]["completion_tokens"] == 0 and again["choices"][0]["text"] == "The old man and" + first["text"]
    assert probs["token_logprobs"][0] is None and probs["top_logprobs"][0] is None
    text = again["choices"][0]["text"]
    assert [text[o:o + len(t)] for o, t in zip(probs["text_offset"], probs["tokens"])] == probs["tokens"]


def test_offsets_count_characters(smol):
    c = smol.ok("/v1/completions", {"prompt": EMOJI, "max_tokens": 0, "echo": True, "logprobs": 0})["choices"][0]
    assert c["text"] == EMOJI
    tokens, offsets = c["logprobs"]["tokens"], c["logprobs"]["text_offset"]
    assert len(tokens) > len(set(offsets)) and offsets == sorted(offsets)  # some characters take several tokens
    assert all(EMOJI[o:].startswith(t) for t, o in zip(tokens, offsets) if "�" not in t)


@pytest.mark.parametrize("body,word", [
    ({}, "prompt"), ({"prompt": []}, "prompt"), ({"prompt": ""}, "empty"), ({"prompt": [["x"]]}, "prompt"), ({"prompt": ["a"] * 65}, "64"),
    ({"prompt": ["a"] * 33, "n": 2}, "66 completions"), ({"prompt": "a", "n": 2, "best_of": 3}, "best_of"), ({"prompt": "a", "best_of": 2}, "best_of"),
    ({"prompt": "a", "logprobs": 21}, "logprobs"), ({"prompt": "a", "suffix": "b"}, "fill in"), ({"prompt": "a", "suffix": 1}, "suffix"),
    ({"prompt": "a", "suffix": "b", "echo": True}, "echo"), ({"prompt": "a", "user": 1}, "user"), ({"prompt": "a", "logit_bias": {"x": 1}}, "logit_bias"),
    ({"prompt": "a", "stream_options": 1}, "stream_options"), ({"prompt": [1, 2, 10**9]}, "token ids"), ({"prompt": "a", "echo": 1}, "echo"),
    ({"prompt": "word " * 1100}, "n_ctx"),
])
def test_completions_refused(smol, body, word):
    status, obj = smol.post("/v1/completions", body)
    assert status == 400 and word in obj["error"]["message"], obj


def test_a_prompt_that_fills_the_context(small):
    """Where nothing is to come it needs no further place."""
    body = {"prompt": [5] * 256, "max_tokens": 0}
    got = small.ok("/v1/completions", {**body, "echo": True, "logprobs": 1})["choices"][0]
    assert len(got["logprobs"]["tokens"]) == 256 and got["finish_reason"] == "length"
    assert small.ok("/completion", {"prompt": [5] * 256, "n_predict": 0})["tokens_evaluated"] == 256
    assert small.ok("/v1/completions", {**body, "prompt": [5] * 255, "max_tokens": 1})["usage"]["completion_tokens"] == 1
    for more in ({"max_tokens": 1}, {"prompt": [5] * 257}):
        status, obj = small.post("/v1/completions", {**body, **more})
        assert status == 400 and obj["error"]["n_ctx"] == 256 and obj["error"]["n_prompt_tokens"] == len({**body, **more}["prompt"])


def test_no_seed_is_another_text_each_time(small):
    """-1, the default that /props shows, too."""
    def texts(seed):
        return {small.ok("/v1/completions", {"prompt": "a", "max_tokens": 40, "temperature": 1.5, "ignore_eos": True, **seed})["choices"][0]["text"] for _ in range(3)}
    assert len(texts({})) > 1 and len(texts({"seed": -1})) > 1 and len(texts({"seed": None})) > 1
    assert len(texts({"seed": -2})) == len(texts({"seed": 0})) == 1


@pytest.mark.parametrize("seed,ok", [(2**63 - 1, True), (-2**63, True), (2**63, False), (2**64 - 1, False), (-2**63 - 1, False), (10**400, False)])
def test_seeds(small, seed, ok):
    status, obj = small.post("/v1/completions", {"prompt": "a", "max_tokens": 1, "seed": seed})
    assert (status == 200) == ok and (ok or status == 400), obj
    if seed < 10**300:
        assert ok or obj["error"]["message"].startswith("'seed' must be a whole number from -9223372036854775808 to 9223372036854775807")


def test_large_integers_are_json(small):
    """In members that nobody reads, beside others, in strings: they change nothing."""
    text = '{"x": [-99999999999999999999, 1e5], "y": "\\"9223372036854775808", "content": "9223372036854775808", "z":9223372036854775808}'
    assert small.ok("/tokenize", text.encode()) == small.ok("/tokenize", {"content": "9223372036854775808"})
    status, obj = small.post("/v1/completions", b'{"prompt": "a", "seed": 9223372036854775807, "max_tokens": 9223372036854775808}')
    assert status == 400 and "'max_tokens'" in obj["error"]["message"]


# ---- llama-server's -----------------------------------------------------------------------------------------------------------

def test_pieces(smol):
    ids = smol.ok("/tokenize", {"content": EMOJI})["tokens"]
    pieces = smol.ok("/tokenize", {"content": EMOJI, "with_pieces": True})["tokens"]
    assert [p["id"] for p in pieces] == ids
    assert any(isinstance(p["piece"], list) for p in pieces) and any(isinstance(p["piece"], str) for p in pieces)
    assert b"".join(bytes(p["piece"]) if isinstance(p["piece"], list) else p["piece"].encode() for p in pieces).decode() == EMOJI
    assert smol.post("/tokenize", {"content": "a", "with_pieces": 1})[0] == 400


def test_completion_probabilities(smol):
    body = {"prompt": "The sky is", "n_predict": 6, "temperature": 0, "cache_prompt": False}
    plain, got = smol.ok("/completion", body), smol.ok("/completion", {**body, "n_probs": 3})
    assert "completion_probabilities" not in plain and got["content"] == plain["content"]
    probs = got["completion_probabilities"]
    assert [p["id"] for p in probs] == got["tokens"] and "".join(p["token"] for p in probs) == got["content"]
    for p in probs:
        best = [t["logprob"] for t in p["top_logprobs"]]
        assert len(best) == 3 and best == sorted(best, reverse=True) and best[0] == p["logprob"] <= 0 and p["top_logprobs"][0]["id"] == p["id"]
        assert bytes(p["bytes"]).decode() == p["token"]
    chunks = [json.loads(e) for e in smol.stream("/completion", {**body, "n_probs": 3})]
    assert [c["completion_probabilities"][0] for c in chunks[:-1]] == probs and "completion_probabilities" not in chunks[-1]
    for more, word in (({"n_probs": 21}, "n_probs"), ({"n_probs": -1}, "n_probs"), ({"post_sampling_probs": True}, "post_sampling_probs")):
        status, obj = smol.post("/completion", {**body, **more})
        assert status == 400 and word in obj["error"]["message"]


@pytest.mark.parametrize("more,word", [({"functions": [{"name": "f", "parameters": {}}]}, "'tools'"), ({"function_call": "auto"}, "'tool_choice'"),
                                       ({"messages": [{"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}}]}, "'tool_calls'")])
def test_older_functions_are_refused(smol, more, word):
    status, obj = smol.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}], "max_tokens": 1, **more})
    assert status == 400 and word in obj["error"]["message"], obj
    assert smol.chat("a", max_tokens=1, functions=None, function_call=None)["choices"]


# ---- infill ----------------------------------------------------------------------------------------------------------------

class Renamed(gguf_write.Gguf):
    """A vocabulary in which three unused tokens have the texts that published ones use for filling in."""
    def strings(self, key, items):
        texts = {f"<|unused{267 + i}|>": f"<|fim_{name}|>" for i, name in enumerate(("prefix", "suffix", "middle"))}
        super().strings(key, [texts.get(t, t) for t in items])


def fim_model(w, path, fim):
    make.metadata(w, make.MODELS["f32"], "fim")
    for role, token in fim.items():
        w.u32(f"tokenizer.ggml.fim_{role}_token_id", token)
    make._tensors(w, make.MODELS["f32"], np.random.default_rng(5))
    w.write(path)
    return path


def test_infill_tokens_by_their_text(ie, tmp_path):
    body, got = {"input_prefix": "def f(x):\n", "input_suffix": "\n", "n_predict": 12, "temperature": 0, "ignore_eos": True}, []
    for w, fim in ((gguf_write.Gguf(), {"pre": 267, "suf": 268, "mid": 269}), (Renamed(), {})):
        s = Server(ie, fim_model(w, tmp_path / "fim.gguf", fim), "--parallel", 1, "--quiet")
        answer = s.ok("/infill", body)
        got.append((answer["content"], answer["tokens_evaluated"]))
        s.stop()
    assert got[0] == got[1]


def test_infill(ie, smol, tmp_path):
    assert "fill in" in smol.post("/infill", {"input_prefix": "a", "input_suffix": "b"})[1]["error"]["message"]
    fim = {"pre": 267, "suf": 268, "mid": 269, "sep": 270}
    s = Server(ie, fim_model(gguf_write.Gguf(), tmp_path / "fim.gguf", fim), "--parallel", 2, "--quiet")
    try:
        def ids(text):
            return s.ok("/tokenize", {"content": text, "parse_special": False})["tokens"]
        more = {"n_predict": 12, "temperature": 0, "ignore_eos": True}
        plain = [fim["pre"], *ids("def f(x):\n"), fim["suf"], *ids("\n<|im_end|>"), fim["mid"]]
        got = s.ok("/infill", {"input_prefix": "def f(x):\n", "input_suffix": "\n<|im_end|>", **more})
        assert got["content"] == s.ok("/completion", {"prompt": plain, **more})["content"]
        assert got["tokens_evaluated"] == len(plain) and got["tokens_predicted"] == 12 and got["timings"]["predicted_n"] == 12
        extra = [fim["sep"], *ids("a.c"), *ids("\n"), *ids("int a;"), fim["sep"], *ids("filename\n")]
        got = s.ok("/infill", {"input_prefix": "x", "input_suffix": "y", "prompt": "  re", "input_extra": [{"filename": "a.c", "text": "int a;"}], **more})
        want = extra + [fim["pre"], *ids("x"), fim["suf"], *ids("y"), fim["mid"], *ids("  re")]
        assert got["tokens_evaluated"] == len(want) and got["content"] == s.ok("/completion", {"prompt": want, **more})["content"]
        events = [json.loads(e) for e in s.stream("/infill", {"input_prefix": "x", "input_suffix": "y", **more})]
        assert "".join(e["content"] for e in events) == s.ok("/infill", {"input_prefix": "x", "input_suffix": "y", **more})["content"]
        openai = s.ok("/v1/completions", {"prompt": "def f(x):\n", "suffix": "\n<|im_end|>", "max_tokens": 12, "temperature": 0, "ignore_eos": True})
        assert openai["usage"]["prompt_tokens"] == len(plain)
        for body, word in (({}, "input_prefix"), ({"input_prefix": 1}, "input_prefix"), ({"input_prefix": "a", "input_extra": [1]}, "input_extra"),
                           ({"input_prefix": "a", "input_extra": {}}, "input_extra"), ({"input_prefix": "a", "prompt": []}, "prompt")):
            status, obj = s.post("/infill", body)
            assert status == 400 and word in obj["error"]["message"], obj
    finally:
        s.stop()


# ---- what the server says about itself ----------------------------------------------------------------------------------------

def test_models_props_slots(small):
    models = json.loads(small.get("/v1/models")[1])["data"]
    assert models[0]["id"] == "a model/1" and models[0]["context_length"] == 256 and models[0]["meta"]["n_ctx_train"] == 512
    assert json.loads(small.get("/v1/models/a%20model%2f1")[1]) == models[0] == json.loads(small.get("/v1/models/a%20model/1")[1])
    assert small.get("/v1/models/other")[0] == 404
    props = json.loads(small.get("/props")[1])
    assert props["default_generation_settings"]["n_ctx"] == 256 and props["default_generation_settings"]["params"]["temperature"] == 1
    assert props["total_slots"] == 4 and props["modalities"] == {"vision": False, "audio": False} and "chat_template" in props
    slots = json.loads(small.get("/slots")[1])
    assert [s["id"] for s in slots] == list(range(4))
    assert all(s["n_ctx"] == 256 and not s["is_processing"] and s["id_task"] == -1 and not s["next_token"][0]["has_next_token"] for s in slots)
    status, headers, text = small.request("HEAD", "/v1/models")
    assert status == 200 and text == b""


def test_metrics(smol):
    """Prometheus' text format: every sample has a type; histograms are cumulative and add up."""
    n, tokens = smol.metric("requests_total"), smol.metric("time_between_tokens_seconds_count")
    lookups, hits = smol.metric("prefix_lookups_total"), smol.metric("prefix_hits_total")
    for cache in (True, True, False):
        smol.ok("/completion", {"prompt": "metrics of a text " * 20, "n_predict": 5, "ignore_eos": True, "cache_prompt": cache})
    assert (smol.metric("prefix_lookups_total"), smol.metric("prefix_hits_total")) == (lookups + 2, hits + 1)
    types, samples = {}, {}
    for line in smol.get("/metrics")[1].decode().splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            assert name not in types and kind in ("counter", "gauge", "histogram")
            types[name] = kind
        elif not line.startswith("# HELP "):
            name, labels, value = re.fullmatch(r'([a-z_]+)(\{le="[^"]+"\})? (\S+)', line).groups()
            samples.setdefault(name, []).append((labels, float(value)))
    for name in samples:
        base = re.sub("_(bucket|sum|count)$", "", name)
        assert name in types or types.get(base) == "histogram", name
        assert types.get(name) != "counter" or name.endswith("_total")
    for name in (h for h, kind in types.items() if kind == "histogram"):
        counts = [v for _, v in samples[name + "_bucket"]]
        bounds = [float(label[5:-2]) for label, _ in samples[name + "_bucket"]]
        assert counts == sorted(counts) and bounds == sorted(bounds) and bounds[-1] == float("inf") and counts[-1] == samples[name + "_count"][0][1]
    value = {name: v[0][1] for name, v in samples.items()}
    assert value["ie_requests_total"] == n + 3 and value["ie_time_between_tokens_seconds_count"] == tokens + 12
    for name in ("time_to_first_token_seconds", "queue_seconds", "request_seconds", "batch_tokens"):
        assert value[f"ie_{name}_count"] >= 3, name
    assert value["ie_batch_tokens_sum"] == value["ie_decode_tokens_total"] and value["ie_batch_tokens_count"] == value["ie_decode_steps_total"]
    assert value["process_resident_memory_bytes"] > value["ie_weight_bytes"] / 2 > 1e6 and value["ie_kv_pages"] == 8 * 1024 / 32


def test_log_as_json(ie, tiny):
    s = Server(ie, tiny("f32"), "--log-format", "json", "--parallel", 1)
    s.get("/v1/models")
    s.get("/nowhere\"%0a{")
    lines = [json.loads(line) for line in s.stop().splitlines()]
    assert all({"time", "level", "message"} <= set(x) for x in lines)
    request = [x for x in lines if x.get("path") == "/v1/models"]
    assert request and request[0]["status"] == 200 and request[0]["method"] == "GET" and request[0]["bytes"] > 50 and request[0]["ms"] >= 0
    assert ie.run(tiny("f32"), "--log-format", "xml", program="ie-serve", check=False).stderr.startswith("ie-serve: option --log-format")


def test_the_end(ie, tiny):
    """SIGTERM: what runs goes on, what is new gets 503; a second signal ends all of it."""
    s = Server(ie, tiny("f32"), "--parallel", 1, "--ctx", 512, "--drain", 100)
    body = json.dumps({"prompt": ["abc"] * 4, "max_tokens": 450, "ignore_eos": True, "stream": True, "n": 16, "cache_prompt": False}).encode()
    request = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    first = s.raw(request).makefile("rb")
    assert b"200" in first.readline()
    s.p.send_signal(signal.SIGTERM)
    wait_until(lambda: s.get("/health")[0] == 503, "draining")
    status, headers, _ = s.request("POST", "/v1/completions", {"prompt": "x"})
    assert status == 503 and headers["Retry-After"] == "1"
    err = s.stop()  # the second SIGTERM
    assert "shutting down" in err and b"[DONE]" not in first.read().splitlines()[-3:]


# ---- characters and stop strings over several tokens ----------------------------------------------------------------------------

def messages(text):
    return {"messages": [{"role": "user", "content": text}]}


def chat_text(o):
    return "".join(c["delta"].get("content") or "" for c in o["choices"]) if "delta" in o["choices"][0] else o["choices"][0]["message"]["content"]


def schema_const(text):
    return {"type": "json_schema", "name": "it", "schema": {"const": text}}


def response_text(o):
    if o.get("object") == "response":
        return o["output"][0]["content"][0]["text"]
    return o["delta"] if o["type"] == "response.output_text.delta" else ""


def message_text(o):
    if o["type"] == "message":
        return "".join(b["text"] for b in o["content"])
    return o["delta"].get("text", "") if o["type"] == "content_block_delta" else ""


def grammar(text):
    return {"grammar": "root ::= " + json.dumps(text, ensure_ascii=False)}


# By endpoint: a request with a limit of tokens, the text of an answer or an event, what forces a text, the name of stop strings.
# Responses and messages have no grammar: a schema of one string forces that string in quotes.
ENDPOINTS = {
    "/v1/chat/completions": (lambda n: {**messages("Go on."), "max_tokens": n}, chat_text, grammar, "stop"),
    "/v1/completions": (lambda n: {"prompt": "Go on:", "max_tokens": n}, lambda o: o["choices"][0]["text"], grammar, "stop"),
    "/completion": (lambda n: {"prompt": "Go on:", "n_predict": n}, lambda o: o["content"], grammar, "stop"),
    "/v1/responses": (lambda n: {"input": "Go on.", "max_output_tokens": n}, response_text, lambda t: {"text": {"format": schema_const(t)}}, None),
    "/v1/messages": (lambda n: {**messages("Go on."), "max_tokens": n}, message_text, lambda t: {"output_config": {"format": schema_const(t)}},
                     "stop_sequences"),
}
STOPPING = [path for path, e in ENDPOINTS.items() if e[3]]
BIASED = ["/v1/chat/completions", "/v1/completions", "/completion"]


def both(s, path, n, text=None, stop=None, **more):
    """The text, whole; the stream must bring the same, without broken characters. text: the one that is to come."""
    body, read, force, stop_name = ENDPOINTS[path]
    request = {**body(n), "temperature": 0, **(force(text) if text else {}), **({stop_name: stop} if stop else {}), **more}
    whole = read(s.ok(path, request))
    events = [line.removeprefix("data: ") for e in s.stream(path, request) for line in e.splitlines() if line.startswith("data: ") or line[0] == "{"]
    pieces = [read(json.loads(e)) for e in events]
    assert "".join(pieces) == whole and "\ufffd" not in whole
    return whole.removeprefix('"').removesuffix('"')


@pytest.mark.parametrize("path", ENDPOINTS)
def test_split_characters(smol, path):
    assert len(smol.ok("/tokenize", {"content": "\U0001F680"})["tokens"]) > 1  # else the test shows nothing
    assert both(smol, path, 200, EMOJI) == EMOJI


@pytest.mark.parametrize("path", STOPPING)
def test_stop_strings_over_tokens(smol, path):
    text = "Hello wonderful world, good morning"
    assert both(smol, path, 60, text, ["derful wor", "never"]) == "Hello won"
    assert both(smol, path, 60, text, ["morning!", "ful word", "x"]) == text  # near misses, one at the very end
    assert both(smol, path, 60, text, ["ld, good", "world, good night", "world, g"]) == "Hello wonderful "
    assert both(smol, path, 200, EMOJI, ["\U0001F680 ", "\U0001F680\U0001F469"]) == EMOJI[:4]  # begins inside a character's tokens
    assert both(smol, path, 60, text, ["Hello"]) == ""


@pytest.mark.parametrize("path", BIASED)
def test_the_limit_within_a_character(smol, path):
    """The first token of a rocket, forced by a bias, is no whole character: nothing comes out of it."""
    rocket = smol.ok("/tokenize", {"content": "\U0001F680"})["tokens"]
    assert both(smol, path, 1, logit_bias={str(rocket[0]): 100}) == ""
    assert both(smol, path, 1, stop=["\U0001F680"], logit_bias={str(rocket[0]): 100}) == ""
