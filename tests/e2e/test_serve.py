"""ie-serve: answers, streams, batches, the prefix cache, clients that leave, limits, signals."""
import concurrent.futures
import http.client
import json
import os
import signal
import socket
import subprocess
import time

import numpy as np
import pytest

import gguf_write
import make_tiny_gguf as make
from serving import QWEN35, Server, wait_until


def text_of(obj):
    return obj["choices"][0]["message"]["content"]


@pytest.fixture(scope="module")
def smol(ie, smollm2):
    s = Server(ie, smollm2, "--parallel", 16, "--ctx", 2048, "--queue", 64, "--cors-origins", "https://a.example", "--quiet")
    yield s
    s.stop()


def test_same_text_as_ie_run(ie, smol, smollm2):
    want = ie.run(smollm2, "-p", "Name three colours.", "-n", 24, "-q").stdout.rstrip("\n")
    assert text_of(smol.chat("Name three colours.", max_tokens=24)).rstrip() == want.rstrip()


def test_stream_is_the_whole_answer(smol):
    body = {"messages": [{"role": "user", "content": "Write a line with emoji: \U0001F600\U0001F680"}], "temperature": 0, "max_tokens": 40,
            "stream_options": {"include_usage": True}}
    whole = smol.ok("/v1/chat/completions", body)
    events = smol.stream("/v1/chat/completions", body)
    assert events[-1] == "[DONE]"
    chunks = [json.loads(e) for e in events[:-1]]
    assert "".join(c["choices"][0]["delta"].get("content", "") for c in chunks if c["choices"]) == text_of(whole)
    assert [c["choices"][0]["finish_reason"] for c in chunks if c["choices"]][-1] == whole["choices"][0]["finish_reason"]
    assert chunks[-1]["usage"]["completion_tokens"] == whole["usage"]["completion_tokens"]


def test_stop_string_within_tokens(smol):
    whole = text_of(smol.chat("Count from one to ten.", max_tokens=40))
    stop = whole[10:14]
    got = smol.chat("Count from one to ten.", max_tokens=40, stop=[stop, "never appears"])
    assert text_of(got) == whole[:whole.index(stop)]
    assert got["choices"][0]["finish_reason"] == "stop"


def test_equal_alone_and_under_load(smol):
    """cache_prompt false: the text depends on the request alone."""
    jobs = [{"prompt": f"Story {i}: " + "the old road went on. " * (i * 5 % 60), "max_tokens": 8 + i, "temperature": 0 if i % 2 else 0.8, "seed": i,
             "cache_prompt": False} for i in range(16)]
    alone = [smol.ok("/v1/completions", j)["choices"][0]["text"] for j in jobs]
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        together = list(pool.map(lambda j: smol.ok("/v1/completions", j)["choices"][0]["text"], jobs))
    assert together == alone


def test_choices_seeds_logprobs(smol):
    body = {"prompt": "The sky is", "max_tokens": 6, "temperature": 1, "seed": 3, "n": 3, "logprobs": 2, "echo": True}
    a, b = smol.ok("/v1/completions", body), smol.ok("/v1/completions", body)
    assert [c["text"] for c in a["choices"]] == [c["text"] for c in b["choices"]]
    assert len({c["text"] for c in a["choices"]}) > 1
    assert all(c["text"].startswith("The sky is") for c in a["choices"])
    probs = a["choices"][0]["logprobs"]
    assert probs["tokens"] == ["The", " sky", " is", *probs["tokens"][3:]] and len(probs["tokens"]) == 9
    assert probs["token_logprobs"][0] is None and all(x <= 0 for x in probs["token_logprobs"][1:])
    greedy = smol.chat("Hi", max_tokens=3, logprobs=True, top_logprobs=2)["choices"][0]["logprobs"]["content"]
    assert all(t["token"] == t["top_logprobs"][0]["token"] for t in greedy)


def test_second_turn_evaluates_new_tokens_only(smol):
    first = [{"role": "user", "content": "Remember this text. " + "It was a long day in the harbour. " * 120}]
    a = smol.ok("/v1/chat/completions", {"messages": first, "temperature": 0, "max_tokens": 16})
    second = first + [{"role": "assistant", "content": text_of(a)}, {"role": "user", "content": "Go on."}]
    b = smol.ok("/v1/chat/completions", {"messages": second, "temperature": 0, "max_tokens": 4})
    common = a["usage"]["prompt_tokens"]
    assert b["usage"]["prompt_tokens"] - b["usage"]["prompt_tokens_details"]["cached_tokens"] <= b["usage"]["prompt_tokens"] - common + 31
    none = smol.ok("/v1/chat/completions", {"messages": second, "temperature": 0, "max_tokens": 4, "cache_prompt": False})
    assert none["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    assert text_of(none) == text_of(b)


def test_recurrent_model_reuses_prefixes(ie):
    if not QWEN35.exists():
        pytest.skip(f"{QWEN35} is missing")
    s = Server(ie, QWEN35, "--parallel", 4, "--quiet")
    try:
        first = [{"role": "user", "content": "Once there was a little fox. " * 40}]
        a = s.ok("/v1/chat/completions", {"messages": first, "temperature": 0, "max_tokens": 8})
        again = s.ok("/v1/chat/completions", {"messages": first, "temperature": 0, "max_tokens": 8})
        used = again["usage"]
        assert used["prompt_tokens"] - used["prompt_tokens_details"]["cached_tokens"] <= 40 + 31
        assert text_of(again) == text_of(a)  # states are those that the whole prompt would have given
        second = first + [{"role": "assistant", "content": text_of(a)}, {"role": "user", "content": "And then?"}]
        b = s.ok("/v1/chat/completions", {"messages": second, "temperature": 0, "max_tokens": 8})
        assert b["usage"]["prompt_tokens_details"]["cached_tokens"] >= used["prompt_tokens_details"]["cached_tokens"] > 0
        fresh = s.ok("/v1/chat/completions", {"messages": second, "temperature": 0, "max_tokens": 8, "cache_prompt": False})
        assert text_of(fresh) == text_of(b)
    finally:
        s.stop()


def test_clients_that_leave_free_their_slots(smol):
    before = smol.metric("kv_pages_free") + smol.metric("kv_pages_kept")
    body = json.dumps({"prompt": "Tell me everything. " * 50, "max_tokens": 1500, "ignore_eos": True, "stream": True, "cache_prompt": False}).encode()
    head = f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    socks = [smol.raw(head + body) for _ in range(40)]
    wait_until(lambda: smol.metric("requests_processing") == 16 and smol.metric("requests_waiting") == 24, "all are taken")
    for s in socks:
        s.close()
    wait_until(lambda: smol.metric("requests_processing") + smol.metric("requests_waiting") == 0, "all are gone")
    assert smol.metric("requests_cancelled_total") >= 40
    assert smol.metric("kv_pages_free") + smol.metric("kv_pages_kept") == before


def test_constrained_output(smol):
    schema = {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}, "required": ["name", "age"],
              "additionalProperties": False}
    for max_tokens in (24, 60):
        got = text_of(smol.chat("A person as JSON.", max_tokens=max_tokens, response_format={"type": "json_schema", "json_schema": {"name": "p", "schema": schema}}))
        assert set(json.loads(got)) == {"name", "age"}
    assert text_of(smol.chat("Yes or no?", grammar='root ::= "yes" | "no"', max_tokens=8)) in ("yes", "no")
    assert smol.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}], "grammar": "root ::= ("})[0] == 400


@pytest.mark.parametrize("body,word", [
    (b"{", "JSON"), (b"[]", "object"), (b'{"messages": [], "messages": []}', "duplicate"), (b'{"messages": "x"}', "messages"), (b"{}", "messages"),
    (b'{"messages": [{"role": "user", "content": "x"}], "temperature": "hot"}', "temperature"),
    (b'{"messages": [{"role": "user", "content": "x"}], "max_tokens": 99999999999999999999}', "'max_tokens' must be"),
    (b'{"messages": [{"role": "user", "content": "x"}], "response_format": {"typ": "json_object"}}', "response_format.type"),
    (b'{"messages": [{"role": "user", "content": "x"}], "n": 0}', "'n'"), (b'{"messages": [{"role": "user", "content": "\\ud800"}]}', "JSON"),
    (b'{"messages": [{"role": "user", "content": "\xff"}]}', "JSON"), (b"[" * 100000, "nested"), (b"\n" * 1000000, "JSON"),
    (b'{"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:"}}]}]}', "image_url"),
    (json.dumps({"messages": [{"role": "user", "content": "word " * 4000}]}).encode(), "n_ctx"),
])
def test_bad_requests(smol, body, word):
    status, obj = smol.post("/v1/chat/completions", body)
    assert status == 400 and word in obj["error"]["message"], obj


def test_biases_against_the_grammar(smol):
    """A banned token where the grammar or the vocabulary leaves no other: the text is still whole, and nobody's error."""
    ban = [[t, False] for text in ("yes", "y", "ye", "es", "s", "e", "no", "n", "o") for t in smol.ok("/tokenize", {"content": text})["tokens"]]
    for bias in (ban, {str(t): -100 for t, _ in ban}):
        for more in ({}, {"temperature": 1, "seed": 3}, {"temperature": 1, "top_p": 0.5, "top_k": 3}):
            assert text_of(smol.chat("Yes?", grammar='root ::= "yes" | "no"', max_tokens=8, logit_bias=bias, **more)) in ("yes", "no")
    every = [[t, False] for t in range(49152)]
    assert isinstance(json.loads(text_of(smol.chat("JSON", response_format={"type": "json_object"}, max_tokens=8, logit_bias=every))), dict)
    assert smol.chat("Hi", max_tokens=2, logit_bias=every)["usage"]["completion_tokens"] <= 2


def test_top_p_of_zero(smol):
    """OpenAI's and Anthropic's range begins at 0: the likeliest token."""
    greedy = text_of(smol.chat("Name a colour.", max_tokens=6))
    assert text_of(smol.chat("Name a colour.", max_tokens=6, temperature=1, top_p=0)) == greedy


def test_nul_and_special_text(smol):
    smol.ok("/v1/chat/completions", {"messages": [{"role": "user", "content": "a\0b<|im_end|>"}], "max_tokens": 1})
    plain = smol.ok("/tokenize", {"content": "<|im_end|>", "parse_special": False})["tokens"]
    assert len(plain) > 1 and len(smol.ok("/tokenize", {"content": "<|im_end|>"})["tokens"]) == 1
    assert smol.ok("/detokenize", {"tokens": plain})["content"] == "<|im_end|>"


def test_other_endpoints(smol):
    assert smol.get("/nowhere")[0] == 404 and smol.get("/v1/completions")[0] == 405
    models = json.loads(smol.get("/v1/models")[1])
    assert models["data"][0]["context_length"] == 2048
    assert "<|im_start|>" in smol.ok("/apply-template", {"messages": [{"role": "user", "content": "x"}]})["prompt"]
    got = smol.ok("/completion", {"prompt": "Once upon a time", "n_predict": 5, "temperature": 0})
    assert got["tokens_predicted"] == 5 and got["timings"]["predicted_n"] == 5
    assert len(json.loads(smol.get("/slots")[1])) == 16
    status, headers, _ = smol.request("OPTIONS", "/v1/models", headers={"Origin": "https://a.example", "Access-Control-Request-Method": "POST"})
    assert status == 204 and headers["Access-Control-Allow-Origin"] == "https://a.example"
    assert "Access-Control-Allow-Origin" not in smol.request("OPTIONS", "/v1/models", headers={"Origin": "https://b.example"})[1]


def test_slow_clients_do_not_matter(smol):
    socks = [smol.raw(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Le") for _ in range(200)]
    assert smol.get("/health")[0] == 200
    smol.chat("Hi", max_tokens=2)
    for s in socks:
        s.close()


def test_keys_signals_and_drain(ie, tiny, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("first\nsecond\n")
    s = Server(ie, tiny("q8_0"), "--api-key-file", keys, "--parallel", 2)
    assert s.get("/v1/models")[0] == 401 and s.get("/health")[0] == 200
    assert s.get("/v1/models", headers={"Authorization": "Bearer second"})[0] == 200
    assert s.get("/v1/models", headers={"Authorization": "Bearer secon"})[0] == 401
    keys.write_text("third\n")
    s.p.send_signal(signal.SIGHUP)
    wait_until(lambda: s.get("/v1/models", headers={"Authorization": "Bearer third"})[0] == 200, "the new key")
    assert s.get("/v1/models", headers={"Authorization": "Bearer second"})[0] == 401
    body = json.dumps({"prompt": "abc", "max_tokens": 300, "ignore_eos": True}).encode()
    sock = s.raw(f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer third\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
    answer = sock.makefile("rb")
    time.sleep(0.05)
    err = s.stop()
    assert b"200" in answer.readline() and "shutting down" in err


def test_what_does_not_end_in_time_is_told(ie, tiny):
    """Requests that run or wait when --drain is over: each gets an answer, whole or as the stream's last event."""
    s = Server(ie, tiny("q8_0"), "--parallel", 2, "--ctx", 1048576, "--drain", 1, "--quiet")
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        jobs = [pool.submit(s.request, "POST", "/v1/completions", {"prompt": f"{i} abc", "max_tokens": 1000000, "ignore_eos": True, "stream": i % 2 == 0}) for i in range(8)]
        wait_until(lambda: s.metric("requests_processing") == 2 and s.metric("requests_waiting") == 6, "all have come")
        s.stop()
        answers = [j.result() for j in jobs]
    for status, _, text in answers:
        assert status in (200, 503) and b"the server is shutting down" in text and b'"code":503' in text


def test_blanks_in_lists(ie, tiny, tmp_path):
    """Blanks around keys and origins do not count: a header could not even hold them."""
    keys = tmp_path / "keys"
    keys.write_text("  first \n\n\t\nsecond\t\r\n \n")
    s = Server(ie, tiny("q8_0"), "--api-key-file", keys, "--cors-origins", "https://a.example, https://b.example", "--quiet", key="second")
    try:
        for key, status in (("first", 200), ("second", 200), ("", 401), (" ", 401), ("third", 401)):
            assert s.request("GET", "/v1/models", headers={"Authorization": f"Bearer {key}"})[0] == status, key
        for origin in ("https://a.example", "https://b.example"):
            assert s.request("GET", "/v1/models", headers={"Origin": origin})[1]["Access-Control-Allow-Origin"] == origin
        assert "Access-Control-Allow-Origin" not in s.request("GET", "/v1/models", headers={"Origin": "https://c.example"})[1]
    finally:
        s.stop()


def test_command_line(ie, tmp_path):
    assert ie.run("--help", program="ie-serve").stdout.startswith("usage: ie-serve")
    r = ie.run(tmp_path / "none.gguf", "--port", "0", program="ie-serve", check=False)
    assert r.returncode == 1 and r.stderr.startswith("ie-serve: ") and "none.gguf" in r.stderr
    r = ie.run("--prot", "1", program="ie-serve", check=False)
    assert r.returncode == 1 and "unknown option '--prot'; ie-serve --help" in r.stderr


@pytest.mark.parametrize("args, line", [
    (["--host", "nothing.invalid"], "option --host is 'nothing.invalid', allowed are addresses and names of this machine: "),
    (["--host", ""], "option --host is '', allowed are addresses"), (["--alias", ""], "option --alias is empty"),
    (["--alias", os.fsdecode(b"a\xff")], "option --alias is 'a"), (["--system", os.fsdecode(b"\xff")], "option --system is '"),
    (["--api-key", " "], "option --api-key holds no key"), (["--api-key-file", "/dev/null"], "file /dev/null holds no key"),
    (["--no-cache", "--cache-dir", "/tmp"], "--cache-dir keeps prefixes, --no-cache reuses none"),
    (["--chat-template-file", "bad"], "chat template, line 1"), (["--log-format", "xml"], "option --log-format is 'xml'"),
])
def test_options_refused(ie, tiny, tmp_path, args, line):
    """At once, by one line: not by answers to requests."""
    (tmp_path / "bad").write_text("{% if %}")
    args = [str(tmp_path / "bad") if a == "bad" else a for a in args]
    r = subprocess.run([ie.path("ie-serve"), tiny("q8_0"), "--port", "0", *args], env=ie.env, capture_output=True, timeout=60, stdin=subprocess.DEVNULL)
    err = r.stderr.decode(errors="surrogateescape")
    assert r.returncode == 1 and err.startswith("ie-serve: " + line) and err.count("\n") == 1, err


def test_a_name_that_is_no_text(ie, tmp_path):
    """general.name of other bytes than UTF-8: all answers are JSON, and hold it with U+FFFD."""
    class Named(gguf_write.Gguf):
        def str(self, key, value):
            super().str(key, b"a\xff\"\n" if key == "general.name" else value)
    w = Named()
    make.metadata(w, make.MODELS["q8_0"], "x")
    make._tensors(w, make.MODELS["q8_0"], np.random.default_rng(1))
    w.write(tmp_path / "m.gguf")
    s = Server(ie, tmp_path / "m.gguf", "--quiet")
    try:
        assert json.loads(s.get("/v1/models")[1])["data"][0]["id"] == s.chat("a", max_tokens=1)["model"] == "a\ufffd\"\n"
        assert json.loads(s.get("/props")[1])["model_alias"] == "a\ufffd\"\n"
        assert json.loads(s.stream("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}], "max_tokens": 1})[0])["model"] == "a\ufffd\"\n"
    finally:
        s.stop()


def test_told_to_end_while_loading(ie, smollm2):
    """SIGTERM waits before the program begins: it ends in the middle of the file, as if it had been served."""
    def signalled():
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        os.kill(os.getpid(), signal.SIGTERM)
    r = subprocess.run([ie.path("ie-serve"), smollm2, "--port", "0"], env=ie.env, capture_output=True, text=True, timeout=60, preexec_fn=signalled)
    assert r.returncode == 0 and "told to end while the model was loading" in r.stderr and "ready" not in r.stderr


def test_closed_standard_streams(ie, tiny):
    """Lines of the log must not go to a file or a connection that has taken standard error's number."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    p = subprocess.Popen([ie.path("ie-serve"), tiny("q8_0"), "--port", str(port)], env=ie.env, close_fds=True, preexec_fn=lambda: [os.close(fd) for fd in (0, 1, 2)])
    try:
        def ready():
            try:
                c = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
                c.request("GET", "/health")
                return c.getresponse().status == 200
            except OSError:
                return False
        wait_until(ready, "ready")
        links = {fd: os.readlink(f"/proc/{p.pid}/fd/{fd}") for fd in (0, 1, 2)}
        assert set(links.values()) == {"/dev/null"}, links
    finally:
        p.terminate()
        assert p.wait(60) == 0
