"""laws/README.md names every law that the test runs, and no other; every law function is run."""
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOL = Path(os.environ.get("IE_BUILD", ROOT / "build")) / "tests" / "test_laws"
HELPERS = {"is"}  # int functions of ie_laws.h that are no laws


def run_laws():
    return subprocess.run([TOOL, "--list"], check=True, capture_output=True, text=True, timeout=60).stdout.split()


def test_every_law_is_run():
    text = (ROOT / "laws" / "ie_laws.h").read_text()
    written = set(re.findall(r"^static inline int law_(\w+)\(", text, re.M)) - HELPERS
    assert sorted(written) == sorted(run_laws())


def test_readme_lists_every_law_once():
    rows = [line for line in (ROOT / "laws" / "README.md").read_text().splitlines() if line.startswith("| `")]
    named = [name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])]
    assert sorted(named) == sorted(run_laws())


@pytest.mark.parametrize("command", ["gcc -std=c11 -x c", "clang -std=c11 -x c -Wno-unused-function", "g++ -std=c++17 -x c++",
                                     "clang++ -std=c++17 -x c++ -Wno-unused-function"])
@pytest.mark.parametrize("header", ["core/ie_core.h", "core/ie_math.h", "laws/ie_laws.h"])
def test_core_is_c_and_cpp(command, header):
    compiler, *flags = command.split()
    if not shutil.which(compiler):
        pytest.skip(f"{compiler} is not installed")
    warn = ["-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-Werror", "-Wno-pragma-once-outside-header"]
    subprocess.run([compiler, *flags, *warn, "-Icore", "-fsyntax-only", header], check=True, cwd=ROOT, timeout=120)
