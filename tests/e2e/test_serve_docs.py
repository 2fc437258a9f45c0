"""docs/SERVE.md: its examples run, it names every option and endpoint; the files of contrib are what their programs take."""
import configparser
import http.client
import json
import pathlib
import re
import shutil
import socket
import subprocess

import pytest

from serving import QWEN35, Server, wait_until

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "SERVE.md").read_text()
CONTRIB = ROOT / "contrib"


def examples():
    """The shell commands of the page, one for each curl."""
    text = "\n".join(re.findall(r"^```sh\n(.*?)^```", PAGE, re.M | re.S))
    return ["curl " + c.strip() for c in re.split(r"^curl ", text, flags=re.M) if c.strip()]


@pytest.fixture(scope="module", params=["smollm2", "qwen35"])
def server(request, ie):
    if request.param == "qwen35" and not QWEN35.exists():
        pytest.skip(f"{QWEN35} is missing")
    s = Server(ie, QWEN35 if request.param == "qwen35" else request.getfixturevalue("smollm2"), "--parallel", 4, "--ctx", 1024)
    yield s
    s.stop()


def test_there_are_examples():
    assert len(examples()) >= 20 and "".join(examples()).count("curl ") == len(examples())


@pytest.mark.parametrize("command", examples(), ids=lambda c: re.search(r"8080(\S+)", c)[1])
def test_example(server, command):
    if not shutil.which("curl"):
        pytest.skip("curl is missing")
    command = command.replace("localhost:8080", f"127.0.0.1:{server.port}").replace("curl ", "curl -sS --fail-with-body -m 100 ", 1)
    r = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=120)
    assert r.returncode == 0, r.stdout + r.stderr
    if '"stream": true' in command:
        events = [e.removeprefix("data: ") for e in r.stdout.split("\n\n") if e]
        assert events[-1] == "[DONE]" and json.loads(events[-2])["usage"]["completion_tokens"] > 0
    elif command.endswith("/metrics"):
        assert "# TYPE ie_request_seconds histogram" in r.stdout
    else:
        assert "error" not in (json.loads(r.stdout) or {}) or json.loads(r.stdout)["error"] is None
    if "json_schema" in command:
        assert set(json.loads(json.loads(r.stdout)["choices"][0]["message"]["content"])) == {"name", "age"}
    if '"tools"' in command:
        call = json.loads(r.stdout)["choices"][0]["message"]["tool_calls"][0]["function"]
        assert call["name"] == "weather" and set(json.loads(call["arguments"])) == {"city"}


def test_every_option_and_endpoint(ie):
    options = set(re.findall(r"(--[a-z][a-z-]+)", ie.run("--help", program="ie-serve").stdout))
    assert len(options) > 20 and not {o for o in options if f"`{o}`" not in PAGE}
    named = set(re.findall(r"`(--[a-z][a-z-]+)`", PAGE))
    assert named <= options
    paths = re.findall(r"^  (/[^:{]*):", (ROOT / "docs" / "openapi.yaml").read_text(), re.M)
    assert len(paths) > 12 and not {p for p in paths if p not in PAGE}
    metrics = set(re.findall(r"`(ie_[a-z_]+)`", PAGE))
    source = (ROOT / "src" / "serve" / "metrics.c").read_text()
    assert metrics and not {m for m in metrics if f'"{m}"' not in source and f'"{m.removeprefix("ie_")}"' not in source}


def test_links():
    for target in re.findall(r"\]\(([^)#]+)\)", PAGE):
        assert (ROOT / "docs" / target).exists(), target


def program(name):
    path = shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin:/sbin")
    if not path:
        pytest.skip(f"{name} is missing: its example is not checked")
    return path


def test_unit_and_container(ie):
    """They call the server with options that it has; the unit's sections and keys are not given twice."""
    unit = configparser.RawConfigParser(strict=True)
    unit.optionxform = str
    unit.read(CONTRIB / "ie-serve.service")
    start = unit["Service"]["ExecStart"]
    entry = re.search(r"^ENTRYPOINT (.*)$", (CONTRIB / "Containerfile").read_text(), re.M)[1]
    help_ = ie.run("--help", program="ie-serve").stdout
    for option in re.findall(r"--[a-z-]+", start) + re.findall(r"--[a-z-]+", entry):
        assert f"{option} " in help_, option
    drain, stop = re.search(r"--drain (\d+)", start)[1], unit["Service"]["TimeoutStopSec"]
    assert int(drain) < int(stop) and "HUP" in unit["Service"]["ExecReload"]
    if shutil.which("systemd-analyze"):
        r = subprocess.run(["systemd-analyze", "verify", CONTRIB / "ie-serve.service"], capture_output=True, text=True)
        assert "Unknown" not in r.stderr, r.stderr


def test_nginx(tmp_path):
    nginx, openssl = program("nginx"), program("openssl")
    subprocess.run([openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=x", "-keyout", tmp_path / "key.pem",
                    "-out", tmp_path / "fullchain.pem"], check=True, capture_output=True)
    text = (CONTRIB / "nginx.conf").read_text().replace("/etc/ssl/llm", str(tmp_path)).replace("/run/nginx.pid", str(tmp_path / "pid"))
    for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"):  # where the user of the tests may write
        text = text.replace("http {", f"http {{\n    {kind}_temp_path {tmp_path / kind};", 1)
    (tmp_path / "nginx.conf").write_text(text)
    r = subprocess.run([nginx, "-t", "-c", tmp_path / "nginx.conf", "-p", tmp_path], capture_output=True, text=True)
    assert r.returncode == 0, r.stderr


def test_haproxy():
    r = subprocess.run([program("haproxy"), "-c", "-f", CONTRIB / "haproxy.cfg"], capture_output=True, text=True)
    assert r.returncode == 0, r.stdout + r.stderr


def answers(port, talk=None):
    """Which replica answers a conversation's turn; none: whether anything answers."""
    try:
        c = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        body = json.dumps({"messages": talk or [{"role": "user", "content": "x"}], "max_tokens": 2})
        c.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
        r = c.getresponse()
        obj = json.loads(r.read())
        c.close()
        return r.status == 200 and obj["model"]
    except (ConnectionError, ValueError):
        return False


def test_haproxy_keeps_conversations_together(ie, tiny, tmp_path):
    """Two replicas behind contrib/haproxy.cfg: the turns of a conversation meet the same one, many conversations spread over both."""
    haproxy = program("haproxy")
    template = tmp_path / "chat.jinja"
    template.write_text("{% for m in messages %}{{ m.content }}\n{% endfor %}")
    replicas = [Server(ie, tiny("f32"), "--parallel", 2, "--ctx", 256, "--alias", f"replica-{i}", "--chat-template-file", template) for i in range(2)]
    text = (CONTRIB / "haproxy.cfg").read_text()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        front = free.getsockname()[1]
    for old, new in ((":8443", f"127.0.0.1:{front}"), ("127.0.0.1:8081", f"127.0.0.1:{replicas[0].port}"), ("127.0.0.1:8082", f"127.0.0.1:{replicas[1].port}")):
        assert old in text
        text = text.replace(old, new)
    (tmp_path / "haproxy.cfg").write_text(text)
    p = subprocess.Popen([haproxy, "-f", tmp_path / "haproxy.cfg"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: answers(front), "haproxy listens")
        seen = set()
        for i in range(12):
            talk = [{"role": "system", "content": "be kind"}] if i % 2 else []
            talk.append({"role": "user", "content": f"conversation {i}"})
            names = set()
            for turn in range(3):
                names.add(answers(front, talk))
                talk += [{"role": "assistant", "content": f"answer {turn}"}, {"role": "user", "content": f"more {turn}"}]
            assert len(names) == 1
            seen |= names
        assert seen == {"replica-0", "replica-1"}
    finally:
        p.terminate()
        p.wait(20)
        for r in replicas:
            r.stop()
