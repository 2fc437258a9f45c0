"""The web page of ie-serve in a real Chromium: asking, streaming, stopping, history, small screens, hostile answers."""
import json
import re
import shutil

import pytest

from serving import Server, wait_until

KEY = "a-key-for-the-page"
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


@pytest.fixture(scope="module")
def server(ie, smollm2):
    s = Server(ie, smollm2, "--parallel", 4, "--ctx", 2048, "--quiet", "--api-key", KEY, key=KEY)
    yield s
    s.stop()


@pytest.fixture(scope="module")
def chromium():
    sync = pytest.importorskip("playwright.sync_api", reason="playwright is missing (tests/requirements.txt)")
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not path:
        pytest.skip("no Chromium (Debian's package chromium)")
    with sync.sync_playwright() as p:
        b = p.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield b
        b.close()


class Page:
    """A browser window with the page open, its key set; what goes wrong in it, and what it asks for, is recorded."""

    def __init__(self, chromium, server, settings=None, **context):
        self.server = server
        self.context = chromium.new_context(**context)
        self.context.add_init_script(f"localStorage.getItem('ie.settings') ?? localStorage.setItem('ie.settings', {json.dumps(json.dumps({'key': KEY, 'temperature': 0, **(settings or {})}))})")
        self.page = self.context.new_page()
        self.page.set_default_timeout(30000)
        self.errors, self.asked, self.dialogs = [], [], []
        self.page.on("pageerror", lambda e: self.errors.append(str(e)))
        self.page.on("console", lambda m: self.errors.append(m.text) if m.type == "error" else None)
        self.page.on("request", lambda r: self.asked.append(r.url))
        self.page.on("dialog", lambda d: (self.dialogs.append(d.message), d.accept()))
        self.page.goto(f"http://127.0.0.1:{server.port}/")

    def send(self, text, wait=True):
        self.page.get_by_label("Message", exact=True).fill(text)
        self.page.get_by_label("Send", exact=True).click()
        if wait:
            self.done()

    def done(self):
        self.page.get_by_label("Regenerate").wait_for()

    def texts(self):
        return self.page.locator("#log .msg .text, #log .msg .answer").all_inner_texts()

    def answer(self):
        return self.texts()[-1]

    def fake(self, *deltas):
        """The next answers: these deltas, in a stream as the server would send it."""
        chunks = [{"choices": [{"index": 0, "delta": d, "finish_reason": None}]} for d in deltas]
        chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        body = "".join(f"data: {json.dumps(c)}\n\n" for c in chunks) + "data: [DONE]\n\n"
        self.page.route("**/v1/chat/completions", lambda r: r.fulfill(status=200, headers={"Content-Type": "text/event-stream"}, body=body))

    def sideways(self):
        """Pixels by which anything but scrolling boxes of code and tables sticks out."""
        return self.page.evaluate("Math.max(document.documentElement.scrollWidth, document.querySelector('#scroll').scrollWidth) - innerWidth")

    def close(self):
        self.context.close()
        assert self.errors == []
        assert all(u.startswith((f"http://127.0.0.1:{self.server.port}/", "data:", "blob:")) for u in self.asked), self.asked


@pytest.fixture
def open_page(chromium, server):
    pages = []

    def get(**kw):
        pages.append(Page(chromium, server, **kw))
        return pages[-1]
    yield get
    for p in pages:
        p.close()


def test_one_answer_with_a_strict_policy(server):
    status, headers, text = server.request("GET", "/")
    html = text.decode()
    policy = headers["Content-Security-Policy"]
    nonce = re.search(r"script-src 'nonce-([0-9a-f]{32})'", policy)[1]
    assert status == 200 and "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
    assert re.findall(r"<(?:script|style)[^>]*>", html) == [f'<style nonce="{nonce}">', f'<script nonce="{nonce}">']
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|@[A-Z]+@| on\w+=|<link[^>]+href=\"(?!data:)|src=\"http", html)
    assert len(html.encode()) == int(headers["Content-Length"])
    again = server.request("GET", "/")[1]["Content-Security-Policy"]
    assert nonce not in again
    assert server.request("HEAD", "/")[0] == 200 and server.request("POST", "/", b"")[0] == 405


def test_send_stream_stop(open_page):
    p = open_page(settings={"max_tokens": 1500})
    p.send("Write a very long story about a lighthouse keeper, with many chapters.", wait=False)
    stop = p.page.get_by_label("Stop")
    stop.wait_for()
    lengths = set()

    def grown():
        lengths.add(len(p.answer()) if len(p.texts()) == 2 else 0)
        return len(lengths) > 3
    wait_until(grown, "the text grows while it is being written")
    assert p.server.metric("requests_processing") == 1
    stop.click()
    p.page.get_by_text("Stopped.").wait_for()
    wait_until(lambda: p.server.metric("requests_processing") == 0, "the server has stopped")
    assert "tokens/s" in p.page.locator(".msg.bot .acts").inner_text()
    before = p.answer()
    p.page.reload()
    assert p.answer() == before and len(before) > 20  # what had arrived is kept
    p.page.get_by_text("Stopped.").wait_for()


def test_regenerate_edit_history(open_page):
    p = open_page(settings={"max_tokens": 16, "temperature": 1, "seed": 1})
    p.send("Name a colour.")
    p.send("Name another one.")
    assert [t for t in p.texts()][::2] == ["Name a colour.", "Name another one."]
    first = p.answer()
    stat = p.page.locator(".msg.bot .acts").last.inner_text()
    assert re.search(r"\d+ tokens · [\d.]+ tokens/s · prompt \d+ \(\d+ cached\)", stat), stat
    p.page.evaluate("settings.seed = 5")
    p.page.get_by_label("Regenerate").click()
    p.page.get_by_text("2 / 2").wait_for()
    second = p.answer()
    assert first != second
    p.page.get_by_label("Previous answer").click()
    assert p.answer() == first
    p.page.reload()
    assert p.answer() == first and len(p.texts()) == 4
    p.page.locator(".msg.user").first.hover()
    p.page.locator(".msg.user").first.get_by_label("Edit").click()
    p.page.get_by_label("Edit message").fill("Name an animal.")
    p.page.locator(".editing").get_by_role("button", name="Send").click()
    p.done()
    assert len(p.texts()) == 2 and p.texts()[0] == "Name an animal."


def test_conversations(open_page, tmp_path):
    p = open_page(settings={"max_tokens": 4})
    names = p.page.locator("#list .open")
    p.send("First subject")
    p.page.get_by_role("button", name="New chat").click()
    p.send("Second subject")
    assert names.all_inner_texts() == ["Second subject", "First subject"]
    names.last.click()
    assert p.texts()[0] == "First subject"
    p.page.locator("#list li.on").get_by_label("Rename").click()
    p.page.get_by_label("Title").fill("Renamed <b>")
    p.page.get_by_label("Title").press("Enter")
    assert names.all_inner_texts() == ["Second subject", "Renamed <b>"]
    p.page.get_by_label("Search conversations").fill("second")
    assert names.all_inner_texts() == ["Second subject"]
    p.page.get_by_label("Search conversations").fill("")
    with p.page.expect_download() as d:
        p.page.get_by_label("Export all conversations").click()
    d.value.save_as(tmp_path / "all.json")
    saved = json.loads((tmp_path / "all.json").read_text())
    assert {c["title"] for c in saved["conversations"]} == {"Renamed <b>", "Second subject"}
    p.page.locator("#list li.on").get_by_label("Delete").click()
    assert names.all_inner_texts() == ["Second subject"] and len(p.dialogs) == 1
    p.page.set_input_files("#archive", tmp_path / "all.json")
    p.page.get_by_text("2 conversations imported").wait_for()
    assert sorted(names.all_inner_texts()) == ["Renamed <b>", "Second subject"]
    (tmp_path / "bad.json").write_text('{"conversations": [{"id": "../x", "messages": 5}, null, 3]}')
    p.page.set_input_files("#archive", tmp_path / "bad.json")
    p.page.get_by_text("no exported conversations").wait_for()
    with p.page.expect_download() as d:
        names.first.click()
        p.page.get_by_label("Export this conversation as Markdown").click()
    assert "## You\n" in d.value.path().read_text()


def test_settings_reach_the_server(open_page):
    p = open_page(settings={"key": "wrong"})
    p.page.get_by_text("An API key is needed").wait_for()
    p.send("Hello", wait=False)
    p.page.get_by_text("this server needs an API key").wait_for()
    p.errors.clear()  # the browser reports the 401
    p.page.get_by_role("button", name="Settings").click()
    p.page.get_by_label("API key").fill(KEY)
    p.page.get_by_label("System prompt").fill("Answer in French.")
    p.page.get_by_label("Max tokens").fill("3")
    p.page.get_by_label("Theme").select_option("dark")
    p.page.get_by_role("button", name="Save").click()
    p.page.get_by_text("Smollm2").first.wait_for()
    with p.page.expect_request("**/v1/chat/completions") as r:
        p.page.get_by_label("Regenerate").click()
    body = json.loads(r.value.post_data)
    assert body["max_tokens"] == 3 and body["messages"][0] == {"role": "system", "content": "Answer in French."} and len(body["messages"]) == 2
    p.page.get_by_text("Cut off").wait_for()
    p.page.reload()
    assert p.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(23, 23, 26)"
    assert p.texts()[0] == "Hello"


HOSTILE = """<script>window.hacked = 1</script><img src=x onerror="window.hacked = 2"><svg onload="window.hacked=3"></svg>
<iframe srcdoc="<script>parent.hacked = 4</script>"></iframe>

[a](javascript:window.hacked=5) [b](data:text/html,<script>1</script>) ![c](https://outside.example/x.png) <javascript:window.hacked=6>
[d](https://example.org/" onmouseover="window.hacked=7) **<img src=x onerror=window.hacked=8>** `<script>window.hacked=9</script>`

| <img src=x onerror=window.hacked=10> | b |
|---|---|
| <script>window.hacked=11</script> | [x](JaVaScRiPt:window.hacked=12) |

```html
<script>window.hacked = 13</script></code></pre><img src=x onerror=window.hacked=14>
```
"""


def test_hostile_answers_do_nothing(open_page):
    p = open_page()
    p.fake({"reasoning_content": "<img src=x onerror=window.hacked=15>"}, *({"content": HOSTILE[i:i + 5]} for i in range(0, len(HOSTILE), 5)))
    p.send("<img src=x onerror=window.hacked=16>")
    log = p.page.locator("#log")
    assert log.locator("script, img, iframe, object, [onerror], [onload], [onmouseover]").count() == 0
    assert [h for h in log.locator("a").evaluate_all("list => list.map(a => a.protocol)") if h not in ("https:", "http:", "mailto:")] == []
    assert "<script>window.hacked = 1</script><img src=x" in p.answer() and "window.hacked=11" in p.answer()
    p.page.reload()  # what is kept does nothing either
    assert "<iframe" in p.answer()
    p.page.wait_for_timeout(200)
    assert p.page.evaluate("typeof hacked") == "undefined" and p.dialogs == []


def test_long_nested_answers_are_drawn_in_time(open_page):
    """No text makes the page hang: each of these would take minutes with a careless parser."""
    p = open_page()
    for text in ("*" * 20000, "**a " * 6000, "[" * 20000, "`" * 9999 + " x", "> " * 5000 + "x", "- " * 5000 + "x", "|" * 20000 + "\n" + "|-" * 9000, "_a_" * 8000,
                 "\n".join(" " * i + "- x" for i in range(400)), "```\n" + "'\"/*" * 8000, "<" * 20000, "http://" * 4000, "![](" * 6000, "~~" * 10000, "a|b\n" * 5000):
        p.page.evaluate("t => markdown(document.createElement('div'), t)", text)


def test_thinking_is_folded(open_page):
    p = open_page()
    p.fake({"reasoning_content": "First I "}, {"reasoning_content": "consider."}, {"content": "The answer."})
    p.send("Think")
    assert p.answer() == "The answer." and not p.page.get_by_text("First I consider.").is_visible()
    p.page.locator(".think summary").click()
    assert p.page.get_by_text("First I consider.").is_visible()
    p.fake({"content": "<think>Within "}, {"content": "the text.</thi"}, {"content": "nk>\n\nDone."})
    p.send("Again")
    assert p.answer() == "Done." and p.page.locator(".think").last.locator(".md").text_content() == "Within the text."


def test_markdown(open_page):
    p = open_page()
    cases = {
        "a **b** _c_ ~~d~~ `e*f*`": "<p>a <strong>b</strong> <em>c</em> <s>d</s> <code>e*f*</code></p>",
        "snake_case_name 2*3*4 \\*x\\*": "<p>snake_case_name 2<em>3</em>4 *x*</p>",
        "2 * 3 * 4": "<p>2 * 3 * 4</p>",
        "# T\ntext": "<h1>T</h1><p>text</p>",
        "- a\n- b\n  - c\n\ntext": "<ul><li>a</li><li>b<ul><li>c</li></ul></li></ul><p>text</p>",
        "3. a\n4. b": '<ol start="3"><li>a</li><li>b</li></ol>',
        "> q\n> r": "<blockquote><p>q\nr</p></blockquote>",
        "a\n---\n***": "<p>a</p><hr><hr>",
        "***both***": "<p><strong><em>both</em></strong></p>",
        "a<br>b  \nc": "<p>a<br>b  <br>c</p>",
    }
    for text, html in cases.items():
        got = p.page.evaluate("t => { const d = document.createElement('div'); markdown(d, t); return d.innerHTML; }", text)
        assert got == html, text
    table = p.page.evaluate("() => { const d = document.createElement('div'); markdown(d, '| a | b |\\n|---|--:|\\n| 1 \\\\| 2 | 3 |'); return [...d.querySelectorAll('th, td')].map(c => c.textContent); }")
    assert table == ["a", "b", "1 | 2", "3"]
    # drawing piece by piece ends as drawing at once does, and blocks that are done keep their elements
    assert p.page.evaluate("""t => { const a = document.createElement('div'), b = document.createElement('div'); markdown(b, t); let kept = null;
        for (let i = 1; i <= t.length; i++) { markdown(a, t.slice(0, i)); if (i === 40) kept = a.firstChild; }
        return a.innerHTML === b.innerHTML && kept === a.firstChild; }""", "# Head\n\nfirst paragraph\n\n```c\nint x; // y\n```\n\n- a\n- b\n\n| a | b |\n|---|---|\n| 1 | 2 |\n")


def test_code_is_copied(open_page):
    p = open_page(permissions=["clipboard-read", "clipboard-write"])
    p.fake({"content": "```python\nprint('<b>')  # x\n```"})
    p.send("Code")
    p.page.locator(".block").get_by_role("button", name="Copy", exact=True).click()
    p.page.get_by_role("button", name="Copied").wait_for()
    assert p.page.evaluate("navigator.clipboard.readText()") == "print('<b>')  # x"


def test_phone(open_page):
    p = open_page(settings={"max_tokens": 8}, **PHONE)
    assert p.sideways() <= 0
    p.send("Hello")
    wide = "| " + " | ".join(f"column {i}" for i in range(12)) + " |\n|" + "---|" * 12 + "\n\n```c\n" + "x = 1; " * 60 + "\n```\n\n" + "w" * 400 + "\n\nhttps://example.org/" + "y" * 300
    p.fake({"content": wide})
    p.send("z" * 500)
    assert p.sideways() <= 0
    boxes = p.page.locator("#box, #send, #menu, .msg").evaluate_all("list => list.map(e => e.getBoundingClientRect()).map(r => [r.left, r.right, r.height])")
    assert all(left >= 0 and right <= 390 for left, right, _ in boxes)
    assert not p.page.locator("#side").is_visible()
    p.page.locator("#menu").tap()
    p.page.get_by_role("button", name="New chat").tap()
    p.page.wait_for_timeout(300)
    assert not p.page.locator("#side").is_visible() and p.texts() == []
    p.page.locator("#menu").tap()
    p.page.get_by_role("button", name="Settings").tap()
    assert p.page.get_by_label("Temperature").is_visible() and p.sideways() <= 0


def test_server_that_goes_away(ie, tiny, chromium):
    s = Server(ie, tiny("q8_0"), "--quiet")
    p = Page(chromium, s)
    s.stop()
    p.send("Hello", wait=False)
    p.page.get_by_text("cannot be reached").first.wait_for()
    assert p.texts()[0] == "Hello"
    p.context.close()
