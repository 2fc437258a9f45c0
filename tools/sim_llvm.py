"""LLVM's AMDGPU disassembler through its C interface (ctypes): the reference that sim/'s decoder is made from and checked against.

Looks for a libLLVM that has the AMDGPU target: the file named by IE_LLVM, else the newest one installed.
"""
import ctypes
import glob
import os
import re
import struct

PATTERNS = ("/usr/lib/llvm-*/lib/libLLVM*.so*", "/usr/lib/*/libLLVM*.so*", "/opt/rocm*/llvm/lib/libLLVM*.so*")


def find_library():
    """Path of a libLLVM >= 21, or None. A file that IE_LLVM names is taken as it is."""
    named = os.environ.get("IE_LLVM")
    if named:
        return named
    found = []
    for pattern in PATTERNS:
        for path in glob.glob(pattern):
            m = re.search(r"libLLVM(?:-[0-9a-f]+)?[-.](?:so\.)?(\d+)", path) or re.search(r"llvm-(\d+)/", path)
            if m and int(m.group(1)) >= 21:
                found.append((int(m.group(1)), path))
    return max(found)[1] if found else None


class Disassembler:
    def __init__(self, path=None, cpu="gfx1201"):
        path = path or find_library()
        if not path:
            raise OSError("no libLLVM >= 21 found; set IE_LLVM to one that has the AMDGPU target")
        # A libLLVM unpacked from an archive brings its own libraries beside it.
        for dep in sorted(glob.glob(os.path.join(os.path.dirname(path), "lib[lzx]*.so*"))):
            if os.path.basename(dep).startswith(("liblzma-", "libzstd-", "libxml2-")):
                ctypes.CDLL(dep, mode=ctypes.RTLD_GLOBAL)
        lib = ctypes.CDLL(path)
        for part in ("TargetInfo", "TargetMC", "Disassembler"):
            getattr(lib, "LLVMInitializeAMDGPU" + part)()
        lib.LLVMCreateDisasmCPUFeatures.restype = ctypes.c_void_p
        lib.LLVMDisasmInstruction.restype = ctypes.c_size_t
        lib.LLVMDisasmInstruction.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint64, ctypes.c_uint64,
                                              ctypes.c_char_p, ctypes.c_size_t]
        self.path = path
        self.lib = lib
        self.ctx = lib.LLVMCreateDisasmCPUFeatures(b"amdgcn-amd-amdhsa", cpu.encode(), b"", None, 0, None, None)
        if not self.ctx:
            raise OSError(f"{path} has no AMDGPU target for {cpu}")
        self.buf = ctypes.create_string_buffer(512)

    def raw(self, words):
        """(dwords used, text) of the instruction at words[0]; (0, "") if LLVM refuses it."""
        data = struct.pack("<%dI" % len(words), *words)
        n = self.lib.LLVMDisasmInstruction(self.ctx, data, len(data), 0, self.buf, 512)
        if n == 0:
            return 0, ""
        return n // 4, self.buf.value.decode().strip().replace("\t", " ")

    def __call__(self, *words):
        """As raw(), and refuses what LLVM prints with a remark that an operand is not valid or not aligned."""
        n, text = self.raw(words)
        if n == 0 or "/*" in text or ";" in text:
            return 0, ""
        return n, text


def known_fault(w):
    """A reason why LLVM's text of these words is wrong, or None. Such words are not compared (nor given to LLVM: one kind can
    make it read out of bounds)."""
    top, second = w[0] >> 24, w[1] if len(w) > 1 else 0
    opcode, src0, src1 = w[0] >> 16 & 0x3FF, second & 0x1FF, second >> 9 & 0x1FF
    if w[0] >> 16 in (0xD3A0, 0xD3A1, 0xD3A2):
        return "decoded as v_fma_mix of an older encoding, which this hardware does not have"
    if top == 0xCC and opcode & 0x7F in (33, 34) and src0 == 250:
        return "DPP control of v_fma_mixlo and v_fma_mixhi is printed from the wrong operand"
    if w[0] >> 26 == 0x35 and opcode in (873, 874) and src0 == 250:
        return "DPP control of v_cvt_pk_fp8 and v_cvt_pk_bf8 is printed from the wrong operand"
    if w[0] >> 26 == 0x35 and opcode in (299, 310) and src0 in (233, 234, 250) and 128 <= src1 <= 248:
        return "an inline constant beside DPP in v_fmac is printed as its code"
    if w[0] >> 31 == 0 and w[0] >> 25 == 1 and w[0] & 0x1FF == 250 and second >> 23 & 1:
        return "|v1, vcc_lo| for |v1|, vcc_lo"
    constant = [x for x in w[1:3] if 128 <= x <= 248]
    if constant and (w[0] >> 25 in (0x2C, 0x2D, 0x37, 0x38) or w[0] >> 23 in (0x145, 0x146) or top in (0xC8, 0xC9, 0xCA, 0xCB)):
        return "a K of fmaak or fmamk in 128..248 is printed as if it were an operand code"
    return None
