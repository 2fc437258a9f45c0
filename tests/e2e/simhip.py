"""The simulator's HIP library through ctypes, and the test kernels' compilation."""
import ctypes
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("IE_BUILD", ROOT / "build"))
KERNELS = ROOT / "tests" / "sim" / "kernels"
P = ctypes.c_void_p


def compiler():
    """Command words of a clang with the gfx1201 target, and of an lld; None when there is none."""
    if os.environ.get("IE_GPU_CLANG"):
        return [os.environ["IE_GPU_CLANG"]], [os.environ.get("IE_GPU_LLD", "ld.lld")]
    if importlib.util.find_spec("ziglang"):
        base = [os.environ.get("IE_PYTHON", sys.executable), "-m", "ziglang"]
        return base + ["clang"], base + ["ld.lld"]
    return None


def build(source, out_dir, opt, abi=5, extra=()):
    """Compiles one kernel file; returns the code object's path (made again only when it is older than the source)."""
    cc, ld = compiler()
    source = Path(source)
    tag = "".join(c for c in "".join(extra) if c.isalnum())
    out = Path(out_dir) / f"{source.stem}-O{opt}-v{abi}{tag}.hsaco"
    newest = max(f.stat().st_mtime for f in [source, *KERNELS.glob("*.h")])
    if out.exists() and out.stat().st_mtime > newest:
        return out
    obj = out.with_suffix(f".{os.getpid()}.o")
    flags = ["--target=amdgcn-amd-amdhsa", "-mcpu=gfx1201", f"-mcode-object-version={abi}", "-nogpulib", "-ffreestanding"]
    lang = [] if source.suffix == ".s" else ["-std=c2x", "-ffp-contract=off", f"-O{opt}", "-Wno-unused-command-line-argument"]
    subprocess.run(cc + flags + lang + list(extra) + ["-c", str(source), "-o", str(obj)], check=True)
    subprocess.run(ld + ["-shared", str(obj), "-o", str(out)], check=True)
    obj.unlink()
    return out


class Hip:
    """The few calls that tests need; raises on errors."""

    def __init__(self, lib=BUILD / "sim" / "libamdhip64.so"):
        self.lib = ctypes.CDLL(str(lib))
        self.lib.hipGetErrorName.restype = ctypes.c_char_p
        self.lib.ie_sim_report.restype = ctypes.c_char_p
        self.check(self.lib.hipInit(0))

    def check(self, code):
        if code:
            raise RuntimeError(f"{self.lib.hipGetErrorName(code).decode()}: {self.lib.ie_sim_report().decode()}")

    def malloc(self, n):
        p = P()
        self.check(self.lib.hipMalloc(ctypes.byref(p), ctypes.c_size_t(n)))
        return p.value

    def upload(self, array):
        import numpy as np

        a = np.ascontiguousarray(array)
        p = self.malloc(max(a.nbytes, 1))
        if a.nbytes:
            self.check(self.lib.hipMemcpy(P(p), a.ctypes.data_as(P), ctypes.c_size_t(a.nbytes), 1))
        return p

    def download(self, p, shape, dtype):
        import numpy as np

        a = np.empty(shape, dtype)
        self.check(self.lib.hipMemcpy(a.ctypes.data_as(P), P(p), ctypes.c_size_t(a.nbytes), 2))
        return a

    def free(self, p):
        self.check(self.lib.hipFree(P(p)))

    def module(self, path):
        m = P()
        self.check(self.lib.hipModuleLoad(ctypes.byref(m), str(path).encode()))
        return m

    def function(self, m, name):
        f = P()
        self.check(self.lib.hipModuleGetFunction(ctypes.byref(f), m, name.encode()))
        return f

    def launch(self, f, grid, block, args, lds=0, coop=False, stream=None):
        """args: ints are pointers, others ctypes values."""
        vals = [P(a) if isinstance(a, int) else a for a in args]
        arr = (P * max(len(vals), 1))(*[ctypes.cast(ctypes.byref(v), P) for v in vals])
        g = (list(grid) if hasattr(grid, "__iter__") else [grid]) + [1, 1]
        b = (list(block) if hasattr(block, "__iter__") else [block]) + [1, 1]
        dims = [ctypes.c_uint(v) for v in g[:3] + b[:3]]
        if coop:
            return self.lib.hipModuleLaunchCooperativeKernel(f, *dims, ctypes.c_uint(lds), stream, arr)
        return self.lib.hipModuleLaunchKernel(f, *dims, ctypes.c_uint(lds), stream, arr, None)


def tool(name):
    return shutil.which(name)
