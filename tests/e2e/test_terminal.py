"""ie-run on a terminal: the line editor, keys typed ahead, signals, progress bars. No test depends on when a key arrives."""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

import pytest

from test_reference import some_ids


def no_terminals():
    try:
        for fd in pty.openpty():
            os.close(fd)
    except OSError as e:
        return str(e)
    return None


pytestmark = pytest.mark.skipif(no_terminals() is not None, reason=f"skip: no pseudo terminals here (/dev/pts): {no_terminals()}")


class Terminal:
    """ie-run on a pseudo terminal of 100 columns; out collects what it shows."""

    def __init__(self, ie, *args, wrap=()):
        self.master, slave = pty.openpty()
        self.before = self.mode()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))

        def begin():
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
            for sig in signal.SIGHUP, signal.SIGQUIT, signal.SIGINT:  # who started the tests may ignore them (nohup)
                signal.signal(sig, signal.SIG_DFL)

        self.p = subprocess.Popen([*wrap, ie.path("ie-run"), *map(str, args)], stdin=slave, stdout=slave, stderr=slave,
                                  env={**ie.env, "TERM": "xterm"}, start_new_session=True, preexec_fn=begin)
        os.close(slave)
        self.out, self.seen = "", 0

    def read(self, seconds):
        if select.select([self.master], [], [], seconds)[0]:
            try:
                self.out += os.read(self.master, 65536).decode(errors="replace")
                return True
            except OSError:
                pass
        return False

    def expect(self, pattern, seconds=60):
        """Waits for a pattern after the last one found; returns what came up to its end."""
        until = time.monotonic() + seconds
        while not (m := re.search(pattern, self.out[self.seen:])):
            if time.monotonic() > until or (not self.read(0.5) and self.p.poll() is not None):
                pytest.fail(f"no {pattern!r} in {self.out[self.seen:]!r}")
        text = self.out[self.seen:self.seen + m.end()]
        self.seen += m.end()
        return text

    def mode(self):
        return termios.tcgetattr(self.master)

    def taken(self):
        """Waits until the program has taken the terminal, long before the first prompt."""
        until = time.monotonic() + 60
        while self.mode()[3] & (termios.ICANON | termios.ECHO):
            assert time.monotonic() < until and self.p.poll() is None, self.out
            time.sleep(0.001)

    def send(self, text):
        os.write(self.master, text.encode())

    def end(self, seconds=60):
        until = time.monotonic() + seconds
        while self.p.poll() is None and time.monotonic() < until:
            self.read(0.2)
        while self.read(0):
            pass
        self.after = self.mode()
        os.close(self.master)
        if self.p.poll() is None:
            self.p.kill()
            pytest.fail(f"still running: {self.out!r}")
        return self.p.returncode


FIGURES = r"prompt: \d+ tokens?[^\n]*\n"


def prompt_tokens(figures):
    return int(re.search(r"prompt: (\d+) token", figures).group(1))


@pytest.fixture(scope="module")
def model(tiny):
    return tiny("q8_0")


KEYS = ("one\r", "two\r", "\x1b[A\x1b[A\r",  # up twice: "one" again
        "/new\r", "xne\x01\x1b[C\x7fo\r")  # start of line, right, delete the x, o


def check_conversation(t):
    """What KEYS must show, whenever they were typed."""
    first = t.expect(FIGURES)
    assert first.count("one") == 1  # shown once, by the editor
    assert t.expect(FIGURES).count("two") == 1
    assert "one" in t.expect(FIGURES)
    edited = t.expect(FIGURES)
    assert edited.count("/new") == 1 and "^" not in t.out  # control characters are never echoed
    assert prompt_tokens(edited) <= prompt_tokens(first)  # a new conversation: no longer a prompt than the first
    t.expect("> ")
    t.send("\x04")
    assert t.end() == 0 and t.after == t.before


def test_chat(ie, model):
    t = Terminal(ie, model, "--chat", "--n", 8, "--system", "be brief")
    for keys in KEYS:
        t.expect("> ")
        t.send(keys)
        if keys != "/new\r":
            t.expect(FIGURES)
    t.seen = 0
    check_conversation(t)


@pytest.mark.parametrize("early", [True, False])
def test_type_ahead(ie, smollm2, early):
    """Keys typed during the loading and during answers are the next lines', echoed once and edited by the editor."""
    t = Terminal(ie, smollm2, "--chat", "--n", 3, "--system", "be brief")
    t.taken()
    if not early:
        t.expect("> ")
    for key in "".join(KEYS):
        t.send(key)
    check_conversation(t)


def test_ctrl_c_stops_the_answer_only(ie, smollm2):
    t = Terminal(ie, smollm2, "--chat", "--temp", 1.5, "--seed", 1)
    t.expect("> ")
    t.send("Count from 1 to 10000, one number a line.\r")
    t.expect(r"line\.[^\w]*\w+[^\w]+\w+")  # the progress bar, or the first words of the answer
    t.send("\x03")
    t.expect("> ")  # long before the 8192 positions of the context are full
    generated = re.search(r"generated: (\d+) tokens", t.out)
    assert "full" not in t.out and (not generated or int(generated.group(1)) < 4000)
    t.send("\x03")  # at the prompt: nothing happens, but nobody leaves
    t.expect("> ")
    t.send("/quit\r")
    assert t.end() == 0 and t.after == t.before


def test_ctrl_c_between_a_line_and_its_answer(ie, smollm2):
    """The mode of the terminal tells when the line has been read: from then on Ctrl-C stops the answer."""
    t = Terminal(ie, smollm2, "--chat", "--temp", 1.5, "--seed", 1, "--ctx", 2048)
    t.taken()
    between = t.mode()
    for _ in range(4):
        t.expect("> ")
        while t.mode() == between:
            time.sleep(0.001)
        t.send("Count from 1 to 10000, one number a line.\r")
        while t.mode() != between:
            pass
        t.p.send_signal(signal.SIGINT)
    t.expect("> ")
    assert "full" not in t.out
    t.send("\x04")
    assert t.end() == 0


def test_ctrl_c_at_the_prompt_drops_the_line(ie, model):
    t = Terminal(ie, model, "--chat", "--n", 2)
    for _ in range(5):
        t.expect("> ")
        t.send("abc\x03")
    t.expect("> ")
    t.send("one\r")
    assert "abc" not in t.expect(FIGURES)
    t.expect("> ")
    t.send("\x04")
    assert t.end() == 0


def test_chat_takes_any_character(ie, smollm2):
    """Also in the C locale, whose encoding knows ASCII alone."""
    tokens, text = {}, "Repeat: \u4f60\u597d \u00e9"
    ie.env["LANG"] = "C"
    for line in ("Repeat: ", text):
        t = Terminal(ie, smollm2, "--chat", "--n", 2)
        t.expect("> ")
        t.send(line + "\r")
        tokens[line] = prompt_tokens(t.expect(FIGURES))
        t.expect("> ")
        t.send("\x04")
        assert t.end() == 0
    piped = ie.run(smollm2, "--chat", "--n", 2, input=text + "\n").stderr
    assert tokens[text] == prompt_tokens(piped) > tokens["Repeat: "]


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGINT])
def test_the_terminal_is_given_back(ie, model, smollm2, sig):
    """At a prompt, and while the model is loaded, when Ctrl-C ends the program as well."""
    loading = Terminal(ie, smollm2, "--chat")
    loading.taken()
    loading.p.send_signal(sig)
    loading.p.wait(60)
    stopped_late = sig == signal.SIGINT and loading.p.returncode != -sig  # it came after the loading: at the prompt
    assert stopped_late or (loading.end() == -sig and loading.after == loading.before)
    if sig != signal.SIGINT:
        t = Terminal(ie, model, "--chat")
        t.expect("> ")
        t.send("some text")
        t.p.send_signal(sig)
        assert t.end() == -sig and t.after == t.before


def test_the_terminal_is_given_back_after_an_error(ie, model, tmp_path):
    (tmp_path / "x.gguf").write_text("no model")
    for args in ([tmp_path / "x.gguf"], [model, "--chat-template-file", tmp_path / "missing"]):
        t = Terminal(ie, *args, "--chat")
        assert t.end() == 1 and t.after == t.before


def test_stop_and_resume(ie, model):
    """Ctrl-Z at the prompt, with the shell's job control: the shell finds its terminal as it was, fg finds the half line."""
    t = Terminal(ie, model, "--chat", "--n", 2, wrap=["bash", "-mc", '"$@"; stty -a; fg', "bash"])
    t.expect("> ")
    t.send("on")
    t.expect("on")
    t.send("\x1a")
    modes = t.expect(r"(?s)speed.*echoctl").split()
    assert "icanon" in modes and "echo" in modes and "isig" in modes
    t.expect("> on")
    t.send("e\r")
    t.expect(FIGURES)
    t.expect("> ")
    t.send("\x04")
    assert t.end() == 0 and t.after == t.before


def test_stop_that_nobody_could_resume(ie, model):
    """Without a shell that could resume it, the program does not stop, and goes on reading."""
    t = Terminal(ie, model, "--chat", "--n", 2)
    t.expect("> ")
    t.send("on")
    t.expect("on")
    t.send("\x1a")
    t.expect("> on")  # drawn again
    t.send("e\r")
    assert prompt_tokens(t.expect(FIGURES)) > 0
    t.expect("> ")
    t.send("\x04")
    assert t.end() == 0 and t.after == t.before


def test_a_new_size_keeps_the_line(ie, model):
    t = Terminal(ie, model, "--chat", "--n", 2)
    t.expect("> ")
    t.send("on")
    t.expect("on")
    fcntl.ioctl(t.master, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 60, 0, 0))
    t.p.send_signal(signal.SIGWINCH)
    t.send("e\r")
    t.expect(FIGURES)
    t.expect("> ")
    t.send("\x1b[A")
    t.expect("one")
    t.send("\x03")
    t.expect("> ")
    t.send("\x04")
    assert t.end() == 0


def test_progress_on_a_terminal(ie, smollm2):
    ids = ",".join(map(str, some_ids(40, 49152)))
    t = Terminal(ie, smollm2, "--tokens", ids, "--n", 2, "--chunk", 4)
    assert t.end() == 0
    assert re.search(r"loading \[#*\.*\] +\d+ %", t.out) and re.search(r"prompt \[#+\.*\] +\d+ %", t.out)
    last = t.out.replace("\r\n", "\n").split("\n")
    assert not any("[" in line.split("\r")[-1] for line in last if "%" in line)  # bars are wiped
    quiet = Terminal(ie, smollm2, "--tokens", ids, "--n", 2, "-q")
    assert quiet.end() == 0 and "\r" not in quiet.out.replace("\r\n", "")
    r = ie.run(smollm2, "--tokens", ids, "--n", 2)
    assert "\r" not in r.stderr and "%" not in r.stderr
