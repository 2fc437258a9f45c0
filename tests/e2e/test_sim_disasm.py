"""The simulator's decoder against LLVM's disassembler: random words, and every instruction of compiled kernels.

LLVM: the library that IE_LLVM names, else one installed (21 or later), else the one in a wheel that is kept under .cache/llvm.
Kernels: compiled by the package ziglang's clang, or by IE_CLANG (a command that takes clang's options).
"""
import ctypes
import glob
import os
import random
import struct
import subprocess
import sys
import zipfile

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tools"))
import sim_llvm  # noqa: E402

CACHE = os.path.join(ROOT, ".cache", "llvm")
WHEEL = "llvm-nanobind==21.1.6.3"


def fetch_library():
    """A libLLVM from the wheel; None if it cannot be had."""
    found = glob.glob(os.path.join(CACHE, "*.libs", "libLLVM-*.so*"))
    if found:
        return found[0]
    os.makedirs(CACHE, exist_ok=True)
    subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "--python-version", "3.12",
                    "-d", CACHE, WHEEL], check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for wheel in glob.glob(os.path.join(CACHE, "*.whl")):
        with zipfile.ZipFile(wheel) as z:
            z.extractall(CACHE, [n for n in z.namelist() if ".libs/" in n])
        os.remove(wheel)
    found = glob.glob(os.path.join(CACHE, "*.libs", "libLLVM-*.so*"))
    return found[0] if found else None


@pytest.fixture(scope="module")
def llvm():
    path = sim_llvm.find_library() or fetch_library()
    if not path:
        pytest.skip("no libLLVM 21 or later with AMDGPU: set IE_LLVM")
    return sim_llvm.Disassembler(path)


class Decoder:
    """sim_decode and sim_disasm from a library built of the decoder's files alone."""

    def __init__(self, folder):
        path = os.path.join(folder, "libdecode.so")
        sources = glob.glob(os.path.join(ROOT, "sim", "decode*.c")) + glob.glob(os.path.join(ROOT, "sim", "disasm*.c"))
        subprocess.run([os.environ.get("CC", "cc"), "-std=c11", "-O2", "-fPIC", "-shared", "-o", path, *sources], check=True)
        self.lib = ctypes.CDLL(path)
        self.inst = ctypes.create_string_buffer(8192)
        self.buf = ctypes.create_string_buffer(512)

    def __call__(self, words):
        n = self.lib.sim_decode((ctypes.c_uint32 * len(words))(*words), ctypes.c_size_t(len(words)), self.inst)
        if n <= 0:
            return 0, ""
        self.lib.sim_disasm(self.inst, ctypes.c_uint64(0), self.buf, ctypes.c_size_t(512))
        return n, self.buf.value.decode()


@pytest.fixture(scope="module")
def decoder(tmp_path_factory):
    return Decoder(str(tmp_path_factory.mktemp("decoder")))


def compare(llvm, decoder, w):
    """None if both agree, else a line that says how they differ."""
    if sim_llvm.known_fault(w):
        return None
    want, got = llvm(*w), decoder(w)
    return None if want == got else f"{' '.join(f'{x:08x}' for x in w)}: LLVM {want}, here {got}"


def test_random_words(llvm, decoder):
    rnd = random.Random(1201)
    wrong, valid = [], 0
    for _ in range(1_000_000):
        w = [rnd.getrandbits(32) for _ in range(4)]
        bad = compare(llvm, decoder, w)
        if bad:
            wrong.append(bad)
        else:
            valid += decoder(w)[0] > 0
    assert not wrong, f"{len(wrong)} differ:\n" + "\n".join(wrong[:20])
    assert valid > 300_000


# First word's fixed bits, and the masks of the following words that make valid words likelier.
SHAPES = {
    "VOP3": (0xD4000000, 0x03FF00FF, 0x1FFFFFFF), "VOP3 of two": (0xD4000000, 0x03FF80FF, 0x7803FFFF),
    "VOP3P": (0xCC004000, 0x007F38FF, 0xE3FFFFFF), "DS": (0xD8000000, 0x03FCFFFF, 0xFFFFFFFF),
    "GLOBAL": (0xEE00007C, 0x003FC000, 0xFF7DFFFF), "SCRATCH": (0xED000004, 0x003FC000, 0xFF7FFFFF),
    "FLAT": (0xEC00007C, 0x003FC000, 0xFF7DFFFF), "SMEM": (0xF4000000, 0x01FFE7FF, 0xFFFFFFFF),
    "VBUFFER": (0xC4000000, 0x003FFF7F, 0xFFFDF9FF), "VOPD": (0xC8000100, 0x03FFFFFF, 0xFFFFFFFF),
    "VOP1 DPP": (0x7E0000FA, 0x01FFFE00, 0xFF0FFFFF), "VOP2 DPP": (0x000000FA, 0x7FFFFE00, 0xFF0FFFFF),
    "VOPC DPP8": (0x7C0000E9, 0x01FFFE00, 0xFFFFFFFF), "VIMAGE": (0xD0000000, 0x03FFFFFF, 0x007DF9FF),
    "VSAMPLE": (0xE4000000, 0x03FFFF77, 0xFE7DF9FF),
}


@pytest.mark.parametrize("name", SHAPES)
def test_random_words_of_one_encoding(llvm, decoder, name):
    base, free, second = SHAPES[name]
    rnd = random.Random(name)
    wrong, valid = [], 0
    for i in range(40_000):
        w = [base | rnd.getrandbits(32) & free, rnd.getrandbits(32) & second, rnd.getrandbits(32), rnd.getrandbits(32)]
        if name.startswith("VOP3"):
            if name == "VOP3P":
                w[1] |= 0x18000000
            if i % 4 == 0:
                w[1] = w[1] & ~0x1FF | rnd.choice((233, 234, 250, 255))
        if name == "DS" and i % 2:
            w[1] &= rnd.choice((0xFF, 0xFFFF, 0xFFFFFF, 0xFF0000FF))
        bad = compare(llvm, decoder, w)
        if bad:
            wrong.append(bad)
        else:
            valid += decoder(w)[0] > 0
    assert not wrong, f"{len(wrong)} differ:\n" + "\n".join(wrong[:20])
    assert valid > 200


# ---- compiled kernels

KERNELS = r"""
typedef _Float16 h; typedef _Float16 h2 __attribute__((ext_vector_type(2)));
typedef int v8i __attribute__((ext_vector_type(8))); typedef float v8f __attribute__((ext_vector_type(8)));
typedef _Float16 v8h __attribute__((ext_vector_type(8))); typedef int v2i __attribute__((ext_vector_type(2)));
#define K __attribute__((amdgpu_kernel, amdgpu_flat_work_group_size(256, 256))) void
#define TID __builtin_amdgcn_workitem_id_x()
__attribute__((address_space(3), loader_uninitialized)) float lds[256];
K add(const float *a, const float *b, float *c, int n) { int i = TID; if (i < n) c[i] = a[i] + b[i] * 3.0f - 0.5f; }
K half_(const h *a, const h2 *b, h2 *c) { int i = TID; c[i] = b[i] * a[i] + (h2){1.0f16, 0.1f16}; }
K dbl(const double *a, double *b) { int i = TID; b[i] = a[i] / b[i] + __builtin_sqrt(a[i]); }
K ints(const int *a, long *b, unsigned *c) { int i = TID; b[i] = (long)a[i] * b[i] >> (c[i] & 63); c[i] = c[i] / (unsigned)a[i] % 7u; }
K trig(float *a) { int i = TID; a[i] = __builtin_amdgcn_sinf(a[i]) + __builtin_amdgcn_exp2f(a[i]) + __builtin_amdgcn_rcpf(a[i]); }
K reduce(const float *a, float *o) {
    int i = TID; lds[i] = a[i]; __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup"); __builtin_amdgcn_s_barrier();
    float s = lds[255 - i];
    s += __builtin_bit_cast(float, __builtin_amdgcn_update_dpp(0, __builtin_bit_cast(int, s), 0x111, 15, 15, 1));
    s += __builtin_bit_cast(float, __builtin_amdgcn_permlanex16(0, __builtin_bit_cast(int, s), 0, 0, 1, 0));
    if (i == 0) __atomic_fetch_add((int *)o, (int)s, __ATOMIC_SEQ_CST);
}
K dot(const int *a, const int *b, int *c) { int i = TID; c[i] = __builtin_amdgcn_sudot4(1, a[i], 1, b[i], c[i], 0); }
K wmma(const v2i *a, const v2i *b, v8i *c, const v8h *d, const v8h *e, v8f *f) {
    int i = TID;
    c[i] = __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32_gfx12(1, a[i], 1, b[i], c[i], 0);
    f[i] = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(d[i], e[i], f[i]);
}
K scratch(int *a, int n) { int t[64]; for (int i = 0; i < 64; i++) t[i] = a[i]; for (int i = 0; i < n; i++) t[t[i] & 63] += i;
    for (int i = 0; i < 64; i++) a[i] = t[i]; }
__attribute__((noinline)) int f(int x) { return x < 2 ? x : x * 3 + 1; }
K calls(int *a) { int i = TID; for (int k = 0; k < a[256]; k++) a[i] = f(a[i]); }
"""


def compiler():
    named = os.environ.get("IE_CLANG")
    if named:
        return named.split()
    for python in (sys.executable,):
        if subprocess.run([python, "-c", "import ziglang"], check=False, stderr=subprocess.DEVNULL).returncode == 0:
            return [python, "-m", "ziglang", "clang"]
    return None


def text_of(elf):
    """Dwords of an ELF object's executable sections."""
    e_shoff, = struct.unpack_from("<Q", elf, 40)
    size, count = struct.unpack_from("<HH", elf, 58)
    out = []
    for i in range(count):
        _, kind, flags, _, offset, length = struct.unpack_from("<IIQQQQ", elf, e_shoff + i * size)
        if kind == 1 and flags & 4:
            out.append(struct.unpack_from(f"<{length // 4}I", elf, offset))
    return out


@pytest.mark.parametrize("level", ["-O0", "-O1", "-O3"])
def test_compiled_kernels(llvm, decoder, tmp_path, level):
    clang = compiler()
    if not clang:
        pytest.skip("no clang for amdgcn: install the package ziglang or set IE_CLANG")
    own = tmp_path / "own.c"
    own.write_text(KERNELS)
    sources = [str(own)] + sorted(glob.glob(os.path.join(ROOT, "tests", "sim", "**", "*.c"), recursive=True))
    seen, names = 0, set()
    for source in sources:
        obj = str(tmp_path / "k.o")
        opt = "-O3" if "fault" in os.path.basename(source) else level  # their assembly needs arguments in scalar registers
        r = subprocess.run([*clang, "--target=amdgcn-amd-amdhsa", "-mcpu=gfx1201", "-mcode-object-version=5", "-nogpulib",
                            "-ffreestanding", "-std=c2x", "-w", opt, "-c", source, "-o", obj], check=False, capture_output=True, text=True)
        assert r.returncode == 0, f"{source}: {r.stderr}"
        with open(obj, "rb") as f:
            sections = text_of(f.read())
        for words in sections:
            i = 0
            while i < len(words):
                w = [*words[i:i + 4], 0, 0, 0][:4]
                want, got = llvm(*w), decoder(words[i:i + 4])
                assert want == got, f"{source} {level} +{4 * i:#x}"
                if not got[0]:  # kernels of planted faults have one on purpose
                    assert "fault" in os.path.basename(source), f"{source} {level} +{4 * i:#x}: {words[i]:08x} is no instruction"
                    i += 1
                    continue
                seen += 1
                names.add(got[1].split(" ")[0])
                i += got[0]
    assert seen > 500 and len(names) > 100, (seen, len(names))


def test_tables_are_what_llvm_gives(llvm):
    """The committed tables are those that the generator makes (with the LLVM they were made with)."""
    if "21.1" not in os.path.basename(llvm.path):
        pytest.skip(f"{llvm.path} is not the version that the tables were made with")
    env = {**os.environ, "IE_LLVM": llvm.path}
    r = subprocess.run([sys.executable, os.path.join(ROOT, "tools", "sim_gen_isa.py"), "--check"], env=env, check=False,
                       capture_output=True, text=True)
    assert r.returncode == 0, r.stdout + r.stderr
