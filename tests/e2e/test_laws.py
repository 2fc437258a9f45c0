"""laws/README.md names every law that the test runs, and no other; every law function is run."""
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOL = Path(os.environ.get("IE_BUILD", ROOT / "build")) / "tests" / "test_laws"
HELPERS = {"is"}  # int functions of laws/*.h that are no laws


def run_laws():
    return subprocess.run([TOOL, "--list"], check=True, capture_output=True, text=True, timeout=60).stdout.split()


def test_every_law_is_run():
    text = "".join(header.read_text() for header in sorted((ROOT / "laws").glob("*.h")))
    written = [name for name in re.findall(r"^static inline int law_(\w+)\(", text, re.M) if name not in HELPERS]
    assert sorted(written) == sorted(run_laws())


def test_readme_lists_every_law_once():
    rows = [line for line in (ROOT / "laws" / "README.md").read_text().splitlines() if line.startswith("| `")]
    named = [name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])]
    assert sorted(named) == sorted(run_laws())


@pytest.mark.parametrize("compiler", ["gcc -std=c11 -x c", "clang -std=c11 -x c", "g++ -std=c++17 -x c++",
                                      "clang++ -std=c++17 -x c++"])
@pytest.mark.parametrize("header", ["ie_core.h", "ie_launch.h", "ie_layout.h", "ie_math.h", "ie_laws.h", "ie_laws_bits.h", "ie_laws_layout.h"])
def test_core_is_c_and_cpp(compiler, header):
    compiler, *flags = compiler.split()
    if not shutil.which(compiler):
        pytest.skip(f"{compiler} is not installed")
    warn = ["-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-Werror"]
    subprocess.run([compiler, *flags, *warn, "-Icore", "-Ilaws", "-fsyntax-only", "-"], check=True, cwd=ROOT, timeout=120,
                   input=f'#include "{header}"\n', text=True)
