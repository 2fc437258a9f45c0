"""ie-serve and what networks do to servers: slow, broken, hostile and vanishing clients. Nothing here may end the server, keep memory,
or hold up /health, and every answer is JSON. Also run against builds with sanitizers (make asan-serve, tsan-serve)."""
import concurrent.futures
import contextlib
import json
import os
import select
import socket
import threading
import time

import pytest

from serving import Server, wait_until

READ_S = 3           # --read-timeout of the server under test
HEALTH_S = 1         # what is promised, whatever the load
GOOD = b'{"prompt":"abc","max_tokens":1}'
LONG = {"prompt": "abc " * 20, "max_tokens": 400, "ignore_eos": True}


@pytest.fixture(scope="module")
def server(ie, tiny):
    s = Server(ie, tiny("q8_0"), "--parallel", 2, "--queue", 4, "--ctx", 512, "--max-body", 1, "--read-timeout", READ_S, "--quiet", "--cors-origins",
               "https://a.example,https://b.example")
    yield s
    log = s.stop()
    assert "Sanitizer" not in log, log


def post(path, body, *headers):
    lines = [f"POST {path} HTTP/1.1", "Host: x", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def read_all(s, wait=60):
    """What comes until the server closes, or has been silent so long."""
    s.settimeout(wait)
    out = b""
    try:
        while part := s.recv(65536):
            out += part
    except (TimeoutError, ConnectionError):
        pass
    return out


def ask(server, data):
    """Sends bytes on a connection of their own; status, headers, body of the answer."""
    s = server.raw(b"")
    try:
        s.sendall(data)
    except ConnectionError:
        pass
    s.settimeout(60)
    out = b""
    while True:
        head, _, body = out.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        headers = {k.lower(): v for k, v in (x.split(": ", 1) for x in lines[1:] if ": " in x)}
        if _ and len(body) >= int(headers.get("content-length", 1 << 30)):
            break
        part = s.recv(65536)
        if not part:
            break
        out += part
    closed = False
    if headers.get("connection") == "close":
        closed = s.recv(1) == b""
    s.close()
    return int(lines[0].split()[1]), headers, body, closed


def health_s(server):
    """Seconds until /health has answered."""
    began = time.monotonic()
    assert server.get("/health")[0] == 200
    return time.monotonic() - began


def healthy(server):
    """In time, or at the second try: a machine that runs tests may stall as a whole."""
    took = [health_s(server)]
    if took[0] >= HEALTH_S:
        took.append(health_s(server))
    assert took[-1] < HEALTH_S, took


@contextlib.contextmanager
def watched(server):
    """A thread of its own asks for /health, and for nothing else, as long as the load lasts."""
    end, asked, failed = threading.Event(), [], []

    def watch():
        while not end.wait(0.02) and not failed:
            try:
                healthy(server)
                asked.append(1)
            except (AssertionError, OSError) as e:
                failed.append(e)
    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
        wait_until(lambda: asked or failed, "/health has been asked for")
    finally:
        end.set()
        thread.join()
    assert not failed, failed


def idle(server):
    wait_until(lambda: server.metric("requests_processing") + server.metric("requests_waiting") == 0, "nothing is left running")


def memory_kb(server):
    with open(f"/proc/{server.p.pid}/status") as f:
        return int(next(x for x in f if x.startswith("VmRSS")).split()[1])


def descriptors(server):
    return len(os.listdir(f"/proc/{server.p.pid}/fd"))


# ---- requests that are none: the answer is a JSON error, and the connection is closed --------------------------------------------

BODY = b"\r\n\r\n" + GOOD
CHUNKED = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
START = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n"


@pytest.mark.parametrize("status,data", [
    (501, b"FOO / HTTP/1.1\r\nHost: x\r\n\r\n"),
    (405, b"CONNECT a:1 HTTP/1.1\r\nHost: x\r\n\r\n"),
    (405, b"TRACE / HTTP/1.1\r\nHost: x\r\n\r\n"),
    (400, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n"),
    (400, b"GET /health\r\n\r\n"),
    (400, b"GET /health HTTP/9.9\r\nHost: x\r\n\r\n"),
    (400, b"GET /he\0alth HTTP/1.1\r\nHost: x\r\n\r\n"),
    (400, b"GET /health HTTP/1.1\r\nHost x\r\n\r\n"),
    (400, b"GET /health HTTP/1.1\r\nHo st: x\r\n\r\n"),
    (400, b"GET /health HTTP/1.1\r\nHost : x\r\n\r\n"),
    (400, b"GET /health HTTP/1.1\r\nHost: x\r\nA: \x01\r\n\r\n"),
    (431, b"GET /health HTTP/1.1\r\nA: " + b"a" * 70000 + b"\r\n\r\n"),
    (431, b"GET /health HTTP/1.1\r\n" + b"A: b\r\n" * 20000 + b"\r\n"),
    (431, b"GET /" + b"a" * 70000 + b" HTTP/1.1\r\n\r\n"),
    (400, START + b"Content-Length: -5" + BODY),
    (400, START + b"Content-Length: 5x" + BODY),
    (400, START + b"Content-Length: 5\r\nContent-Length: 31" + BODY),
    (400, START + b"Content-Length: 31\r\nTransfer-Encoding: chunked" + BODY),
    (400, START + b"Transfer-Encoding: gzip, chunked\r\n\r\n1f\r\n" + GOOD + b"\r\n0\r\n\r\n"),
    (413, START + b"Content-Length: 1048577\r\n\r\n"),
    (413, START + b"Content-Length: 99999999999999999999\r\n\r\n"),
    (413, START + b"Expect: 100-continue\r\nContent-Length: 2147483648\r\n\r\n"),
    (417, START + b"Expect: something\r\nContent-Length: 31" + BODY),
    (400, CHUNKED + b"zz\r\n"),
    (400, CHUNKED + b"-1\r\n"),
    (400, CHUNKED + b"\r\n"),
    (400, CHUNKED + b"\n"),
    (400, CHUNKED + b" \r\n"),
    (400, CHUNKED + b" 5\r\n"),
    (400, CHUNKED + b"+5\r\n"),
    (400, CHUNKED + b"0x5\r\n"),
    (400, CHUNKED + b"5 5\r\n"),
    (400, CHUNKED + b"5\0\r\n"),
    (400, CHUNKED + b"5" + b" " * 100 + b"x\r\n"),
    (400, CHUNKED + b"0" * 40 + b"5\r\n"),
    (400, CHUNKED + b"3\r\nabc\r\n\r\n"),
    (400, CHUNKED + b"3\r\nabc\r\n \r\n"),
    (400, CHUNKED + b"3\r\nabc \r\n0\r\n\r\n"),
    (400, CHUNKED + b"3\r\nabcd"),
    (400, CHUNKED + b"3\r\nabc\r\r"),
    (413, CHUNKED + b"7fffffffffffffff\r\nabc"),
    (413, CHUNKED + b"fffffffffffffffff\r\nabc"),
])
def test_what_is_no_request(server, status, data):
    got, headers, body, closed = ask(server, data)
    assert got == status and headers["content-type"] == "application/json" and (closed or status == 405 and b"TRACE" in data)
    assert json.loads(body)["error"]["code"] == status
    healthy(server)


def test_what_is_a_request(server):
    one = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
    s = server.raw(one + one + b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert read_all(s).count(b'{"status":"ok"}') == 3
    status, headers, body, _ = ask(server, b"HEAD /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert status == 200 and headers["content-length"] == "15" and body == b""
    pieces = b"".join(b"%x\r\n%s\r\n" % (len(GOOD[i:i + 7]), GOOD[i:i + 7]) for i in range(0, len(GOOD), 7))
    assert ask(server, CHUNKED + pieces + b"0\r\n\r\n")[0] == 200
    assert ask(server, START + b"Expect: 100-continue\r\nContent-Length: 31" + BODY)[0] in (100, 200)
    assert ask(server, b"GET /health HTTP/1.0\r\n\r\n")[0] == 200


def chunked(*chunks, last=b"0", trailer=b""):
    """A request by chunks, each with what stands behind its size."""
    return CHUNKED + b"".join(b"%x%s\r\n%s\r\n" % (len(data), behind, data) for data, behind in chunks) + last + b"\r\n" + trailer + b"\r\n"


@pytest.mark.parametrize("pieces", [1, 7, 1 << 20], ids=["by bytes", "by sevens", "whole"])
def test_chunks_with_extensions_and_trailers(server, pieces):
    """However the network cuts them; semicolons of bodies stay, and the connection goes on with the next request."""
    text = b'{"content": "a;b;\\r\\n5;c"}'
    plain = post("/tokenize", text)
    requests = [chunked((GOOD, b";a=b"), last=b"0;c"), chunked((GOOD[:9], b' ;a="x;y"'), (GOOD[9:], b";b"), trailer=b"A: b\r\nC: 5;d\r\n"),
                chunked((text[:14], b";x;y"), (text[14:], b"")).replace(b"/v1/completions", b"/tokenize"), plain,
                chunked((text, b";")).replace(b"/v1/completions", b"/tokenize"), plain.replace(b"Host: x", b"Host: x\r\nConnection: close")]
    data = b"".join(requests)
    s = server.raw(b"")
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for i in range(0, len(data), pieces):
        s.sendall(data[i:i + pieces])
        if pieces == 7:
            time.sleep(0.001)
    bodies = [part.partition(b"\r\n\r\n") for part in read_all(s).split(b"HTTP/1.1 ")[1:]]
    assert [head[:3] for head, _, _ in bodies] == [b"200"] * 6, bodies
    assert len({body for _, _, body in bodies[2:]}) == 1  # the same tokens each time
    for bad in (b"zz;a", b"-1;a", b";a", b"fffffffffffffffff;a"):
        assert ask(server, CHUNKED + bad + b"\r\nabc")[0] == (413 if bad.startswith(b"f") else 400)
    for malformed in (b"\r\n", b" 5\r\n", b"3\r\nabc\r\n\n", b"3\r\nabcd\r\n"):  # byte by byte
        s = server.raw(b"")
        for i in range(len(CHUNKED + malformed)):
            s.sendall((CHUNKED + malformed)[i:i + 1])
            time.sleep(0.001)
        assert read_all(s)[:12] == b"HTTP/1.1 400"


@pytest.mark.parametrize("line", [b"5;" + b"a" * 70000, b"5" + b"a" * 70000, b"5" + b" " * 70000, b"5;a" + b";b" * 35000], ids=["extension", "digits", "blanks", "extensions"])
@pytest.mark.parametrize("before", [b"", b"3\r\n{\"p\r\n"], ids=["first", "second"])
@pytest.mark.parametrize("pieces", [100, 1 << 20])
def test_a_size_line_without_end(server, line, before, pieces):
    """Refused when some 4 KB of it are there: nobody waits for its end."""
    s = server.raw(CHUNKED + before)
    s.settimeout(20)
    for i in range(0, len(line), pieces):
        try:
            s.sendall(line[i:i + pieces])
        except OSError:
            break  # refused and closed
    assert read_all(s).split(b" ")[1] in (b"400", b"413")
    for n, status in ((4000, 200), (4200, 413)):
        assert ask(server, CHUNKED + b"%x;%s\r\n%s\r\n0\r\n\r\n" % (len(GOOD), b"a" * n, GOOD))[0] == status
    healthy(server)


@pytest.mark.parametrize("coding,status", [("gzip", 415), ("br", 415), ("identity, gzip", 415), ("identity", 200), ("Identity", 200)])
def test_coded_bodies(server, coding, status):
    got, headers, body, _ = ask(server, post("/v1/completions", GOOD, f"Content-Encoding: {coding}"))
    assert got == status
    if status == 415:
        assert headers["accept-encoding"] == "identity" and coding in json.loads(body)["error"]["message"] and json.loads(body)["error"]["code"] == 415
    assert ask(server, f"GET /health HTTP/1.1\r\nHost: x\r\nContent-Encoding: {coding}\r\n\r\n".encode())[0] == 200


# ---- bodies ------------------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions", "/completion", "/tokenize", "/detokenize", "/apply-template"])
@pytest.mark.parametrize("body", [
    b"", b"{", b"null", b"[]", b'"x"', b"\n" * 1000000, b"[" * 500000, b'{"a":' * 1000, b'{"messages": [], "messages": []}', b'{"prompt": "a\xff"}',
    b'{"prompt": "\xed\xa0\x80"}', b'{"prompt": "\\ud800"}', b'{"prompt": "\\udc00\\ud800"}', b'{"max_tokens": 9223372036854775808}', b'{"seed": -9223372036854775809}',
    b'{"temperature": 1e999}', b'{"n": 1e400}', b"\0", b'{"prompt": "a"}\0', b"\xef\xbb\xbf{}", b"{'a': 1}", b'{"a": NaN}', b'{"a": 1,}', b'{"prompt": "abc', b"{} {}",
], ids=lambda b: repr(b[:24]))
def test_bodies_that_are_no_json(server, path, body):
    status, headers, text, _ = ask(server, post(path, body))
    assert status == 400 and json.loads(text)["error"]["code"] == 400


@pytest.mark.parametrize("extra", [
    {"max_tokens": 2**63 - 1}, {"max_tokens": -2**63}, {"n": 2**40}, {"seed": 2**63 - 1}, {"temperature": -1}, {"temperature": 1e308}, {"top_k": 2**40}, {"top_p": 2},
    {"logprobs": 10**6}, {"stop": ["x"] * 1000}, {"stop": [None]}, {"stop": {"a": 1}}, {"logit_bias": {"-1": 1}}, {"logit_bias": {"99999999999": 1}}, {"logit_bias": [[1]]},
    {"logit_bias": {"1": "x"}}, {"prompt": []}, {"prompt": [-1]}, {"prompt": [2**40]}, {"prompt": [[[1]]]}, {"prompt": {"a": 1}}, {"prompt": 5}, {"stream": "yes"}, {"grammar": 5},
    {"json_schema": {"type": "nonsense"}}, {"response_format": {"type": "xml"}}, {"grammar": "root ::= root"}, {"max_tokens": "1"},
], ids=lambda e: str(e)[:30])
def test_members_out_of_range(server, extra):
    status, _, text, _ = ask(server, post("/v1/completions", json.dumps({"prompt": "abc", "max_tokens": 1, **extra}).encode()))
    answer = json.loads(text)
    assert status in (200, 400) and ("error" in answer) == (status == 400), answer
    if "max_tokens" in extra and isinstance(extra["max_tokens"], int) and extra["max_tokens"] < 0:
        assert status == 400
    healthy(server)


def test_texts_of_any_characters(server):
    for text in ("a\0b", "\0", "\ufffe\uffff", "\U0010ffff", "\u202e\u0000\x7f", "e\u0301" * 100, "\r\n" * 100):
        ids = server.ok("/tokenize", {"content": text})["tokens"]
        assert server.ok("/v1/completions", {"prompt": text + "x", "max_tokens": 1})["usage"]["prompt_tokens"] >= 1
        assert isinstance(ids, list)


def flood(server, head, piece, times):
    """Sends head and then pieces for as long as the server takes them; its answer."""
    s = server.raw(head)
    sent, out = 0, b""
    s.settimeout(30)
    try:
        for _ in range(times):
            s.sendall(piece)
            sent += len(piece)
            if select.select([s], [], [], 0)[0]:
                break
        out = s.recv(65536)
    except ConnectionError:
        pass
    s.close()
    return sent, out


def test_two_gigabytes_of_newlines(server):
    before = memory_kb(server)
    sent, out = flood(server, START + b"Content-Length: 2147483648\r\n\r\n", b"\n" * 65536, 32768)
    assert sent < 64 << 20 and out.startswith(b"HTTP/1.1 413")
    sent, out = flood(server, CHUNKED, b"10000\r\n" + b"\n" * 65536 + b"\r\n", 32768)
    assert sent < 64 << 20 and (out.startswith(b"HTTP/1.1 413") or out == b"")
    sent, out = flood(server, b"GET /health HTTP/1.1\r\nA: ", b"a" * 65536, 32768)
    assert sent < 64 << 20
    healthy(server)
    assert memory_kb(server) - before < 100 << 10


# ---- slow clients ------------------------------------------------------------------------------------------------------------------------

def test_two_hundred_slow_clients(server):
    """A hundred send half a header and no more, a hundred a byte at a time, some in the body: others are served, and time is up for them all."""
    wait_until(lambda: descriptors(server) < 40, "earlier connections are gone")
    before = descriptors(server)
    stuck = [server.raw(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Le") for _ in range(100)]
    drip = [server.raw(b"" if i % 2 else START + b"Content-Length: 100000\r\n\r\n") for i in range(100)]
    end = threading.Event()

    def feed():
        while not end.wait(0.25):
            for i, s in enumerate(drip):
                try:
                    s.sendall(b"POST"[:1] if i % 2 else b" ")
                except OSError:
                    pass
    feeder = threading.Thread(target=feed)
    feeder.start()
    try:
        wait_until(lambda: descriptors(server) >= before + 190, "the connections are open")  # before may count some that were closing
        with watched(server):
            assert server.ok("/v1/completions", json.loads(GOOD))["choices"]
            wait_until(lambda: descriptors(server) <= before + 2, "all have been closed")  # the watcher's own may be open
    finally:
        end.set()
        feeder.join()
        for s in stuck + drip:
            s.close()


def test_reader_that_stops_reading(server):
    """An answer that nobody takes: the job pauses, others run, and it ends when the client goes."""
    body = json.dumps({**LONG, "stream": True, "logprobs": 20}).encode()
    socks = []
    for _ in range(2):
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.connect(("127.0.0.1", server.port))
        s.sendall(post("/v1/completions", body))
        socks.append(s)
    with watched(server):
        time.sleep(0.3)
        for s in socks:
            s.close()
        idle(server)


# ---- vanishing clients ----------------------------------------------------------------------------------------------------------------------

def reset(s):
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # close sends a reset
    s.close()


@pytest.mark.parametrize("leave", [socket.socket.close, reset], ids=["close", "reset"])
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
def test_clients_vanish_in_each_phase(server, leave, stream):
    pages = server.metric("kv_pages_free") + server.metric("kv_pages_kept")
    whole = post("/v1/completions", json.dumps({**LONG, "stream": stream, "cache_prompt": False}).encode())
    for cut in [0, 1, 20, whole.index(b"\r\n\r\n") + 2, whole.index(b"\r\n\r\n") + 4, len(whole) - 1]:  # before the request is whole
        leave(server.raw(whole[:cut]))
    with watched(server):
        for wait in (0, 0.002, 0.01, 0.05, 0.2):  # in the queue, in the prompt, while tokens come
            socks = [server.raw(whole) for _ in range(6)]
            time.sleep(wait)
            for s in socks:
                leave(s)
    s = server.raw(whole)
    s.recv(1) if stream else time.sleep(0.1)
    leave(s)
    s = server.raw(post("/v1/completions", GOOD))  # the far end closes its sending side only after all is sent
    idle(server)
    leave(s)
    idle(server)
    healthy(server)
    wait_until(lambda: server.metric("kv_pages_free") + server.metric("kv_pages_kept") == pages, "all pages are back")


@pytest.mark.parametrize("behind", [b"", b"GET /health HTTP/1.1\r\n"], ids=["alone", "next request begun"])
@pytest.mark.parametrize("leave", [socket.socket.close, reset], ids=["close", "reset"])
def test_vanishing_is_noticed(ie, tiny, leave, behind):
    """Not because the answer ends or cannot be written: the job is far from its end and says nothing."""
    s = Server(ie, tiny("q8_0"), "--parallel", 2, "--ctx", 1048576, "--threads", 1, "--quiet")
    try:
        whole = post("/v1/completions", json.dumps({**LONG, "max_tokens": 1000000}).encode())
        c = s.raw(whole + behind)
        wait_until(lambda: s.metric("requests_processing") == 1, "it runs")
        leave(c)
        wait_until(lambda: s.metric("requests_processing") == 0, "it has been stopped")
        assert s.metric("requests_cancelled_total") == 1
    finally:
        s.stop()


# ---- a full queue ------------------------------------------------------------------------------------------------------------------------

def test_full_queue(server):
    """More than runs and waits at once: some are served, the others get 503 at once, and /health stays quick."""
    with watched(server), concurrent.futures.ThreadPoolExecutor(40) as pool:
        jobs = [pool.submit(server.request, "POST", "/v1/completions", {**LONG, "max_tokens": 60}) for _ in range(40)]
        answers = [j.result() for j in jobs]
    statuses = [a[0] for a in answers]
    assert set(statuses) <= {200, 503} and statuses.count(200) >= 4
    for status, headers, text in answers:
        assert status == 200 or (headers["Retry-After"] and json.loads(text)["error"]["code"] == 503)
    idle(server)


def test_many_short_connections(server):
    """Numbers of sockets come back at once: none may meet what is left of an earlier connection."""
    cases = [(post("/v1/completions", GOOD, "Connection: close"), 200), (b"GET /health HTTP/1.1\r\nHo st: x\r\n\r\n", 400), (START + b"Content-Length: 9999999\r\n\r\n", 413),
             (b"GET /health HTTP/1.1\r\nA: " + b"a" * 70000, 431), (b"GET /nowhere HTTP/1.1\r\nConnection: close\r\n\r\n", 404)]
    for i in range(60):
        data, status = cases[i * 7 % len(cases)]
        assert ask(server, data)[0] == status


# ---- keys, origins, control tokens --------------------------------------------------------------------------------------------------------------

def test_keys(ie, tiny):
    s = Server(ie, tiny("q8_0"), "--api-key", "the-key", "--quiet")
    try:
        for key in ("", "t", "the-ke", "the-keyy", "THE-KEY", "the-kex", "xhe-key", "the-key\t.", "the-keythe-key", "the-key,the-key"):
            for headers in ({"Authorization": f"Bearer {key}"}, {"x-api-key": key}, {"Authorization": key}):
                assert s.request("GET", "/v1/models", headers=headers)[0] == 401, headers
        for headers in ({"Authorization": "Bearer the-key"}, {"authorization": "bearer the-key"}, {"X-Api-Key": "the-key"}):
            assert s.request("GET", "/v1/models", headers=headers)[0] == 200
        open_paths = {"/health", "/v1/health", "/", "/index.html"}
        for path in ("/v1/models", "/models", "/props", "/slots", "/metrics"):
            assert s.request("GET", path)[0] == 401, path
        for path in open_paths:
            assert s.request("GET", path)[0] == 200, path
        for path in ("/v1/completions", "/v1/chat/completions", "/completion", "/tokenize", "/detokenize", "/apply-template"):
            assert s.request("POST", path, b"{")[0] == 401, path
    finally:
        s.stop()


def test_origins(server):
    ask_for = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,content-type"}
    for origin, ok in (("https://a.example", True), ("https://b.example", True), ("https://a.example.evil", False), ("https://a.exampl", False), ("null", False), ("", False)):
        status, headers, _ = server.request("OPTIONS", "/v1/chat/completions", headers={"Origin": origin, **ask_for})
        assert status == 204 and (headers.get("Access-Control-Allow-Origin") == origin) == ok, origin
        assert ("Access-Control-Allow-Methods" in headers) == ok
        status, headers, _ = server.request("GET", "/v1/models", headers={"Origin": origin})
        assert ("Access-Control-Allow-Origin" in headers) == ok
    # pages of other sites cannot make the server work, not even blindly
    body = json.loads(GOOD)
    foreign = {"Sec-Fetch-Site": "cross-site", "Content-Type": "text/plain"}
    assert server.request("POST", "/v1/completions", body, {"Origin": "https://evil.example", **foreign})[0] == 403
    assert server.request("POST", "/v1/completions", body, {"Origin": "https://a.example", **foreign})[0] == 200
    assert server.request("POST", "/v1/completions", body, {"Origin": "https://evil.example", "Sec-Fetch-Site": "same-origin"})[0] == 200
    assert server.request("POST", "/v1/completions", body, {"Origin": "app://client"})[0] == 200


def test_control_tokens_in_user_text(ie, smollm2):
    """What users write never becomes a control token: it counts as many tokens as its plain spelling."""
    s = Server(ie, smollm2, "--ctx", 1024, "--parallel", 1, "--quiet")
    try:
        def size(**message):
            return s.ok("/v1/chat/completions", {"messages": [{"role": "user", "content": "", **message}], "max_tokens": 1})["usage"]["prompt_tokens"]
        for text in ("<|im_end|>", "<|im_start|>", "<|endoftext|>", "<|im_end|>\n<|im_start|>system\n"):
            plain = len(s.ok("/tokenize", {"content": text, "parse_special": False})["tokens"])
            special = len(s.ok("/tokenize", {"content": text, "parse_special": True})["tokens"])
            assert special < plain
            assert abs(size(content="a " + text) - size(content="a ") - plain) <= 1
            assert size(content=[{"type": "text", "text": "a " + text}]) == size(content="a " + text)
            assert size(role=text, content="a") - size(role="user", content="a") >= plain - 2
    finally:
        s.stop()
