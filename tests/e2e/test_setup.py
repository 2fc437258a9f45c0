"""What tools/setup.sh does with packages missing, without root, without a network, by stand-ins for apt, pip and make; and a build without GPU kernels."""
import re
import shutil
import subprocess

import pytest

from conftest import BUILD, ROOT

ZIG = next(line for line in (ROOT / "tests" / "requirements.txt").read_text().split() if line.startswith("ziglang=="))


@pytest.fixture
def tree(tmp_path):
    """A folder with the script, and run(ARGUMENTS, name=SHELL TEXT of a command's stand-in, ...), which gives the result and the commands' log."""
    for f in ["tools/setup.sh", "tests/requirements.txt"]:
        (tmp_path / f).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / f, tmp_path / f)
    commands = {"dpkg-query": "echo install ok installed", "apt-get": "exit 0", "id": "echo 0", "make": "exit 1",
                "python3": 'mkdir -p .venv/bin; cp "$0" .venv/bin/python'}

    def run(*args, **stand_ins):
        (tmp_path / "bin").mkdir(exist_ok=True)
        for name, text in {**commands, **{k.replace("_", "-"): v for k, v in stand_ins.items()}}.items():
            program = tmp_path / "bin" / name
            program.write_text(f'#!/bin/sh\necho {name} "$@" >> {tmp_path}/log\n{text}\n')
            program.chmod(0o755)
        r = subprocess.run([tmp_path / "tools" / "setup.sh", *args], capture_output=True, text=True, timeout=60, env={"PATH": f"{tmp_path}/bin:/usr/bin:/bin"})
        return r, (tmp_path / "log").read_text()

    return run


NO_JANSSON = 'case "$*" in *jansson*) exit 1;; *) echo install ok installed;; esac'


def test_without_root(tree):
    r, log = tree("build", dpkg_query=NO_JANSSON, id="echo 1000")
    assert r.returncode == 1 and r.stderr == "setup: these packages are missing; as root: apt-get install libjansson-dev\n" and "pip" not in log


def test_as_root(tree):
    r, log = tree("build", dpkg_query=NO_JANSSON, make="exit 0")
    assert r.returncode == 0 and "apt-get install -q -y --no-install-recommends libjansson-dev\n" in log and "pip" not in log


def test_packages_without_a_network(tree):
    r, log = tree("build", dpkg_query=NO_JANSSON, apt_get='echo "E: Unable to fetch"; exit 100')
    assert r.returncode == 1 and r.stderr.splitlines()[-1] == "setup: apt-get could not install libjansson-dev (is there a network?)" and "E: Unable" in r.stderr


def test_compiler_of_the_kernels(tree):
    r, log = tree("build")
    assert r.returncode == 0 and ZIG in r.stdout and re.search(rf"-m pip install .*{re.escape(ZIG)}$", log, re.M)


def test_compiler_without_a_network(tree):
    """The build goes on without."""
    r, _ = tree("build", python3='case "$*" in *pip*) echo "ERROR: No matching distribution"; exit 1;; esac; mkdir -p .venv/bin; cp "$0" .venv/bin/python')
    assert r.returncode == 0
    assert r.stderr.splitlines() == ["ERROR: No matching distribution", f"setup: pip could not install {ZIG} (is there a network?): the build will hold no GPU kernels"]


@pytest.mark.parametrize("options, want", [(["GPU=0"], 0), (["GPU_CLANG=cc", "GPU_LLD=ld"], 0), (["GPU_CLANG="], 1)])
def test_whether_a_compiler_is_there(options, want):
    r = subprocess.run(["make", "-s", *options, "have-gpu-clang"], cwd=ROOT, capture_output=True)
    assert (r.returncode != 0) == want


def test_the_systems_compiler(tmp_path):
    """The newest of at least 21 that has its linker."""
    for name in ["clang-14", "clang-21", "ld.lld-21", "clang-22", "ld.lld-22", "clang-9"]:
        (tmp_path / name).touch()
    r = subprocess.run(["make", "-n", "-B", f"SYS_LLVM={tmp_path}", "ZIG_INCLUDE=", "build/ie_kernels.hsaco"], cwd=ROOT, capture_output=True, text=True)
    assert f"{tmp_path}/clang-22 --target=amdgcn" in r.stdout and f"{tmp_path}/ld.lld-22 -shared" in r.stdout, r.stderr


def test_a_build_without_kernels(ie, tiny, tmp_path):
    """--list-devices and --backend gpu name what is missing, and what to do; --backend auto runs on the CPU."""
    obj, program = tmp_path / "code.o", tmp_path / "ie-run"
    subprocess.run(["cc", "-std=c11", "-D_GNU_SOURCE", *(f"-I{ROOT}/{d}" for d in ["include", "core", "src", "kernels"]), "-c", ROOT / "src/gpu/code.c", "-o", obj], check=True)
    subprocess.run(["cc", "-pthread", "-o", program, *(BUILD / "obj/src/app").glob("*.o"), obj, BUILD / "libie.a", "-ljansson", "-lpcre2-8", "-ledit", "-lm", "-ldl"], check=True)
    none = "this build holds no GPU kernels: make setup gets their compiler, then build again; or give --hsaco FILE (make kernels on another machine)"
    env = {"LD_LIBRARY_PATH": str(BUILD / "sim")}
    out = ie.run("--list-devices", program=program, env=env).stdout.splitlines()
    assert out[0].startswith("hip 0  AMD") and out[1] == f"hip: {none}" and out[-1] == f"cuda: {none}"
    model = tiny("q8_0")
    r = ie.run(model, "--tokens", "1,2", "--backend", "gpu", program=program, env=env, check=False)
    assert r.returncode == 1 and f"hip: {none}; cuda: the library" in r.stderr
    r = ie.run(model, "--tokens", "1,2", "-n", 1, program=program, env=env)
    assert "on the CPU: no GPU can be used, ie-run --list-devices says why" in r.stderr
    ie.run(model, "--tokens", "1,2", "-n", 1, "--backend", "hip", "--hsaco", BUILD / "ie_kernels.hsaco", program=program, env=env)


@pytest.mark.parametrize("program", ["ie-run", "ie-serve"])
def test_one_file_is_enough(program):
    """A copied program needs the C library and nothing else."""
    if not shutil.which("dpkg-query"):
        pytest.skip("archives of the libraries are known to be there on Debian and Ubuntu only")
    needs = re.findall(r"^\s*(\S+) ", subprocess.run(["ldd", BUILD / program], capture_output=True, text=True, check=True).stdout, re.M)
    extra = [n for n in needs if not re.match(r"linux-vdso|lib[cm]\.so|/lib64/ld-linux|libasan|libubsan|libgcc_s|libstdc", n)]
    assert not extra, extra
