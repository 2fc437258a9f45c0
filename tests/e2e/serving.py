"""Shared by the server's tests: starting ie-serve, asking it, waiting for it."""
import http.client
import json
import os
import pathlib
import signal
import socket
import subprocess
import tempfile
import time

FIXTURES = pathlib.Path(os.environ.get("IE_FIXTURES", pathlib.Path(__file__).resolve().parents[3] / "shared"))
QWEN35 = FIXTURES / "models" / "tiny-qwen35-Q8_0.gguf"


class Server:
    """ie-serve on a free port, ready; key: what requests carry as API key."""

    def __init__(self, ie, model, *args, key=None):
        self.key = key
        self.log = tempfile.NamedTemporaryFile(prefix="ie-serve-", suffix=".log")  # a pipe that nobody reads would stop the server
        self.p = subprocess.Popen([ie.path("ie-serve"), str(model), "--port", "0", *map(str, args)], stdout=subprocess.PIPE,
                                  stderr=open(self.log.name, "a"), text=True, env=ie.env)
        line = self.p.stdout.readline()
        assert line.startswith("listening on "), line + self.written()
        self.port = int(line.rsplit(":", 1)[1])
        for _ in range(600):
            if self.get("/health")[0] == 200:
                return
            time.sleep(0.1)
        raise AssertionError("the server did not become ready: " + self.written())

    def request(self, method, path, body=None, headers=None):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        c.request(method, path, data, {**({"Authorization": f"Bearer {self.key}"} if self.key else {}), **(headers or {})})
        r = c.getresponse()
        text = r.read()
        c.close()
        return r.status, dict(r.getheaders()), text

    def get(self, path, **kw):
        status, _, text = self.request("GET", path, **kw)
        return status, text

    def post(self, path, body, **kw):
        status, _, text = self.request("POST", path, body, **kw)
        return status, json.loads(text)

    def ok(self, path, body):
        status, obj = self.post(path, body)
        assert status == 200, obj
        return obj

    def chat(self, text, **kw):
        return self.ok("/v1/chat/completions", {"messages": [{"role": "user", "content": text}], "temperature": 0, **kw})

    def stream(self, path, body):
        status, headers, text = self.request("POST", path, {**body, "stream": True})
        assert status == 200 and headers["Content-Type"].startswith("text/event-stream"), text
        events = [e.removeprefix("data: ") for e in text.decode().split("\n\n") if e]
        return events

    def metric(self, name):
        for line in self.get("/metrics")[1].decode().splitlines():
            if line.startswith(f"ie_{name} "):
                return float(line.split()[1])
        raise AssertionError(name)

    def raw(self, data):
        s = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        s.sendall(data)
        return s

    def stop(self):
        """Ends the server as an operator would; what it has written to standard error."""
        self.p.send_signal(signal.SIGTERM)
        self.p.communicate(timeout=120)
        err = self.written()
        assert self.p.returncode == 0, err
        return err

    def written(self):
        return pathlib.Path(self.log.name).read_text(errors="replace")


def wait_until(condition, what):
    for _ in range(400):
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError(what)
