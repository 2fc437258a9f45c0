"""ie-serve's caches and memory: second turns, replies, restarts with --cache-dir, damaged files, what an idle server holds."""
import concurrent.futures
import json

import pytest
import tiny_qwen35
from conftest import maker
from serving import QWEN35, Server, wait_until


@pytest.fixture(scope="module")
def recurrent(tmp_path_factory):
    """The trained model where it is there; else a random one of the same kind."""
    return QWEN35 if QWEN35.exists() else maker(tiny_qwen35, tmp_path_factory.mktemp("qwen35"))(next(iter(tiny_qwen35.MODELS)))


@pytest.fixture(params=["dense", "recurrent"])
def model(request, smollm2):
    return smollm2 if request.param == "dense" else request.getfixturevalue("recurrent")


def text_of(obj):
    return obj["choices"][0]["message"]["content"]


def reused(answer):
    return answer["usage"]["prompt_tokens_details"]["cached_tokens"]


def chat(server, messages, n, **kw):
    return server.ok("/v1/chat/completions", {"messages": messages, "temperature": 0, "max_tokens": n, **kw})


def first_turn(server):
    """The answer to a chat of about 2,000 tokens, and the second turn's messages."""
    messages = [{"role": "user", "content": "Remember this text. " + "It was a long day in the harbour, and the wind came from the sea. " * 120}]
    a = chat(server, messages, 80)
    return a, messages + [{"role": "assistant", "content": text_of(a)}, {"role": "user", "content": "Go on."}]


def evaluated(answer):
    return answer["usage"]["prompt_tokens"] - reused(answer)


def test_second_turn_and_restart(ie, model, tmp_path):
    s = Server(ie, model, "--parallel", 2, "--ctx", 8192, "--cache-dir", tmp_path)
    try:
        a, second = first_turn(s)
        assert a["usage"]["prompt_tokens"] > 1500 and a["usage"]["completion_tokens"] >= 50
        wait_until(lambda: s.metric("conversations_learned_total") == 1, "the conversation is kept as its next turn will hold it")
        b = chat(s, second, 8)
        assert evaluated(b) <= 40 + 31, (a["usage"], b["usage"])
        fresh = chat(s, second, 8, cache_prompt=False)
        assert reused(fresh) == 0 and text_of(fresh) == text_of(b)
    finally:
        err = s.stop()
    assert "pages of prefixes saved" in err and "the request asks for no reuse" in err
    s = Server(ie, model, "--parallel", 2, "--ctx", 8192, "--cache-dir", tmp_path)
    try:
        c = chat(s, second, 8)
        assert evaluated(c) <= 40 + 31 and text_of(c) == text_of(b)
    finally:
        err = s.stop()
    assert "pages of prefixes restored" in err


def test_files_that_do_not_fit(ie, tiny, tmp_path):
    model = tiny("q8_0")
    file = tmp_path / f"{model.name}.prefixes"
    file.write_bytes(b"IEAIPrefx" * 1000)
    s = Server(ie, model, "--cache-dir", tmp_path)
    s.ok("/v1/completions", {"prompt": "a" * 200, "max_tokens": 4})
    assert "no prefixes restored" in s.stop()
    good = file.read_bytes()
    assert len(good) > 1000 and [p.name for p in tmp_path.iterdir()] == [file.name]
    for data in good[:-1], good[:2000] + bytes([good[2000] ^ 1]) + good[2001:]:
        file.write_bytes(data)
        s = Server(ie, model, "--cache-dir", tmp_path)
        assert s.metric("kv_pages_kept") == 0
        s.p.kill()
        assert "no prefixes restored" in s.written()
    other = tiny("q4_0")
    (tmp_path / f"{other.name}.prefixes").write_bytes(good)
    s = Server(ie, other, "--cache-dir", tmp_path)
    assert "of another model" in s.stop()
    r = ie.run(model, "--port", "0", "--cache-dir", tmp_path / "none", program="ie-serve", check=False)
    assert r.returncode == 1 and "--cache-dir" in r.stderr and len(r.stderr.splitlines()) == 1


def resident(server):
    with open(f"/proc/{server.p.pid}/status") as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith("VmRSS:"))


def test_idle_memory(ie, smollm2):
    weights = 96.6e6  # ie-run --info: memory
    sizes = []
    for slots in 1, 16:
        s = Server(ie, smollm2, "--parallel", slots, "--ctx", 8192)
        sizes.append(resident(s))
        s.stop()
    assert sizes[0] <= weights + 100e6 and sizes[1] <= weights + 100e6, sizes
    assert sizes[1] - sizes[0] <= 15 * 1e6, sizes  # a slot costs pages only when it runs


def test_a_prompt_that_cannot_fit(ie, tiny):
    s = Server(ie, tiny("q8_0"), "--ctx", 128, "--parallel", 2)
    for path, body in (("/v1/completions", {"prompt": "a" * 400}), ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a" * 400}]}),
                       ("/completion", {"prompt": [5] * 128})):
        status, obj = s.post(path, body)
        e = obj["error"]
        assert status == 400 and e["n_ctx"] == 128 and e["n_prompt_tokens"] >= 128, obj
        assert e["type"] == "exceed_context_size_error" and str(e["n_prompt_tokens"]) in e["message"]
    assert s.ok("/completion", {"prompt": [5] * 127, "n_predict": 9})["tokens_predicted"] == 1  # its place is there, no more
    s.stop()


def test_recurrent_equal_alone_and_under_load(ie, recurrent):
    s = Server(ie, recurrent, "--parallel", 16, "--ctx", 2048, "--quiet")
    jobs = [{"prompt": f"Story {i}: " + "the old road went on. " * (i * 5 % 60), "max_tokens": 8 + i, "temperature": 0 if i % 2 else 0.8, "seed": i,
             "cache_prompt": False} for i in range(16)]
    alone = [s.ok("/v1/completions", j)["choices"][0]["text"] for j in jobs]
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        together = list(pool.map(lambda j: s.ok("/v1/completions", j)["choices"][0]["text"], jobs))
    assert together == alone
    s.stop()


def test_next_connection_gets_its_answer(ie, tiny):
    """Sockets are opened and closed in quick succession: a number that is used again must not be taken for the old connection."""
    s = Server(ie, tiny("q8_0"), "--parallel", 4, "--quiet")
    body = json.dumps({"prompt": "ab", "n_predict": 2, "ignore_eos": True, "stream": True}).encode()
    head = f"POST /completion HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    for _ in range(60):
        socks = [s.raw(head) for _ in range(3)]
        for sock in socks:
            sock.settimeout(15)
            sock.sendall(body)
        for sock in socks:
            data = b""
            while b'"stop":true' not in data:
                part = sock.recv(65536)
                assert part, data
                data += part
            sock.close()  # at once, without waiting for the server's end
    s.stop()
