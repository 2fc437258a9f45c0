"""Shared by the end-to-end tests: where the build and the models are, and running ie-run."""
import os
import pathlib
import signal
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("IE_BUILD", ROOT / "build")).resolve()
SMOLLM2 = ROOT / ".cache" / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"
sys.path.insert(0, str(ROOT / "tools"))


# A run started in the background has Ctrl-C ignored, and so would have the programs under test.
signal.signal(signal.SIGINT, signal.default_int_handler)


# Files that take longest, in this order before all others, so that workers that take a file at a time (--dist loadfile) end together.
LONGEST = ["gpu", "qwen35", "reference", "lanes", "peer", "clients", "template", "sim_sanitizers", "sim_disasm", "kernels", "grammar", "serve_api", "tokenizer",
           "sim_modes", "serve_cache", "bits", "serve", "cli", "hostile_gguf"]


def pytest_collection_modifyitems(items):
    rank = {f"test_{name}": i for i, name in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(item.path.stem, len(rank)))


class Runner:
    """Programs of the build; the environment's own switches (IE_SIMD ...) do not leak in."""

    def __init__(self):
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("IE_")}

    def path(self, name):
        p = BUILD / name
        if not p.exists():
            pytest.fail(f"{p} is missing; build it first")
        return str(p)

    def run(self, *args, env=None, check=True, timeout=120, program="ie-run", text=True, **kw):
        r = subprocess.run([self.path(program), *map(str, args)], capture_output=True, text=text, timeout=timeout, errors="surrogateescape" if text else None,
                           env={**self.env, **(env or {})}, **kw)
        if check:
            assert r.returncode == 0, f"{program} {' '.join(map(str, args))}: exit {r.returncode}\n{r.stderr}"
        return r

    def fails(self, *args, code=1, **kw):
        """Runs what must fail: one line on standard error, which is returned."""
        r = self.run(*args, check=False, **kw)
        assert r.returncode == code, f"exit {r.returncode}: {r.stdout}{r.stderr}"
        lines = r.stderr.splitlines()
        assert len(lines) == 1 and lines[0].startswith("ie-run: "), r.stderr
        return lines[0].removeprefix("ie-run: ")


@pytest.fixture(scope="session")
def ie():
    return Runner()


def maker(make, folder):
    """get(name): path of one of make.MODELS in folder, made when first asked for."""
    made = {}

    def get(name):
        if name not in made:
            made[name] = folder / f"{name}.gguf"
            make.build(make.MODELS[name], made[name], name)
        return made[name]
    return get


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """tiny("q4_0"): path of a small random model (tools/make_tiny_gguf.py), made when first asked for."""
    return maker(pytest.importorskip("make_tiny_gguf"), tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="session")
def smollm2():
    if not SMOLLM2.exists():
        pytest.skip(f"{SMOLLM2.relative_to(ROOT)} is missing (tools/setup.sh model)")
    return SMOLLM2
