"""Every instruction form (mnemonic with encoding) that the compiler emits for the test kernels has semantic cases: arithmetic in tests/vectors
and simops.py, memory, lanes and control flow in test_sim_memory.py, the rest in test_sim_math.py. Encodings of the same operation are compared
with each other here. test_every_form_is_covered builds the kernels at -O0, -O1 and -O3 and lists the forms that no case has."""
import os
import re
from pathlib import Path

os.environ.setdefault("IE_SIM_STRICT", "1")

import numpy as np
import pytest

import simhip
import simlab
import test_sim_disasm as disasm
import test_sim_math as math_cases
import test_sim_memory as memory
import test_sim_ops as ops
from simlab import M32, MASKS, OLD

pytestmark = pytest.mark.skipif(simhip.compiler() is None, reason="skip: no clang for gfx1201 (pip install ziglang==0.17.1)")
ROOT = Path(__file__).resolve().parents[2]


# ---- encodings of one operation agree

ENC = re.compile(r"_(e64_dpp|e32|e64|dpp)$")


def base(form):
    return ENC.sub("", form).replace("v_dual_", "v_")


def shape(text):
    """Operands of an instruction that a kernel has, on this frame's registers: (destination, sources, modifiers of DPP)."""
    name, _, rest = text.partition(" ")
    parts = rest.split(", ")
    dpp = ""
    if "_dpp" in name:
        parts[-1], _, dpp = parts[-1].partition(" ")
    parts = [p.split(" ")[0].strip("-|") for p in parts]
    op = base(name)
    d = [] if op.startswith("v_cmpx") else [parts.pop(0)]
    if "_co_" in op:
        parts.pop(0)
    wide_bits = lambda i: {"v_lshlrev_b64": (False, True), "v_lshrrev_b64": (False, True), "v_ashrrev_i64": (False, True)}.get(op, (wide_of(op),) * 3)[i]
    src = []
    for i, p in enumerate(parts):
        if p == "vcc_lo" and i == 2:
            src.append("vcc_lo")
        else:
            src.append(f"v[{2 * i}:{2 * i + 1}]" if wide_bits(i) else f"v{2 * i}")
    if d:
        d = ["vcc_lo" if op.startswith("v_cmp") else "v[8:9]" if d[0].startswith("v[") else "v8"]
    return d, src, dpp


def wide_of(op):
    return bool(re.search(r"_(f64|u64|i64|b64)$", op)) if not op.startswith("v_cvt") else op.endswith("f64")


def alternatives(form, text):
    """Two texts that must give the same: the form, and the operation in an encoding that the tables have."""
    op, (d, src, dpp) = base(form), shape(text)
    co = ["vcc_lo"] if "_co_" in op else []
    e64 = lambda s: f"{op}_e64 {', '.join((d if not op.startswith('v_cmpx') else []) + co + s)}"
    if form.startswith("v_dual_"):
        one = f"{form} {', '.join(d + src)}"
        mask = ", vcc_lo" if op == "v_cndmask_b32" else ""
        plain = f"{op}_e32 {', '.join(d + src)}{mask}"
        as_y = op in ("v_and_b32", "v_lshlrev_b32", "v_add_nc_u32")
        mov = "v_dual_mov_b32 v9, v3"
        return (f"{mov} :: {one}" if as_y else f"{one} :: {mov}"), f"{plain}\nv_mov_b32_e32 v9, v3"
    if form.endswith("_dpp"):
        return f"{form} {', '.join(d + co + src)} {dpp}", f"v_mov_b32_e32 v22, 0\nv_mov_b32_dpp v22, {src[0]} {dpp}\n{e64(['v22'] + src[1:])}"
    other = op + ("_e32" if form.endswith("_e64") else "_e64")
    if form.endswith("_e64"):
        return f"{form} {', '.join(d + co + src)}", f"{other} {', '.join(d + co + src)}"
    return f"{form} {', '.join(d + co + src)}", e64(src)


AFTER_SAME = "v_mov_b32_e32 v12, vcc_lo\nv_mov_b32_e32 v13, s28"


# ---- what is covered

def case_forms(decode, path, start, end):
    """Forms of the instructions between the marks in every kernel of an object file."""
    out, inside = set(), False
    for words in disasm.text_of(Path(path).read_bytes()):
        i = 0
        while i < len(words):
            n, text = decode(words[i:i + 4])
            assert n, f"{path}: {words[i]:08x}"
            i += n
            inside = text == start or (inside and text != end)
            if inside and text != start:
                out |= {part.split(" ")[0] for part in text.split(" :: ")}
    return out


@pytest.fixture(scope="module")
def decode(tmp_path_factory):
    return disasm.Decoder(str(tmp_path_factory.mktemp("decoder")))


@pytest.fixture(scope="module")
def emitted(decode):
    """{form: the first instruction that has it} of the test kernels at -O0, -O1 and -O3, and of the text that the decoder's test compiles."""
    d = simhip.BUILD / "sim" / "kernels"
    d.mkdir(parents=True, exist_ok=True)
    own = d / "own.c"
    if not own.exists() or own.read_text() != disasm.KERNELS:
        own.write_text(disasm.KERNELS)
    forms = {}
    for level in (0, 1, 3):
        for source in [*sorted(simhip.KERNELS.glob("*.c")), own]:
            if source.stem == "faults" and level != 3:
                continue
            for words in disasm.text_of(simhip.build(source, d, level).read_bytes()):
                i = 0
                while i < len(words):
                    n, text = decode(words[i:i + 4])
                    i += n or 1
                    for part in text.split(" :: ") if n else []:
                        forms.setdefault(part.split(" ")[0], part)
    assert len(forms) > 350
    return forms


@pytest.fixture(scope="module")
def tabled(decode):
    """Forms with cases of their own: in the vector files, in simops.py, in test_sim_memory.py and test_sim_math.py."""
    forms = set()
    for name in ("sim_vop", "sim_sop", "sim_approx"):
        for line in (ROOT / "tests" / "vectors" / f"{name}.txt").read_text().splitlines():
            words = [int(x, 16) for x in line.split()[1].split(",")]
            n, text = decode((words + [0, 0, 0])[:4])
            assert n, line[:40]
            forms.add(text.split(" ")[0])
    if ops.bench.hip is None:
        ops.bench.build()
    forms |= case_forms(decode, simhip.build(simhip.BUILD / "sim" / "kernels" / "ops.s", simhip.BUILD / "sim" / "kernels", 0), "s_mov_b32 exec_lo, s8", "s_mov_b32 s26, exec_lo")
    for lab in (memory.lab, math_cases.lab):
        forms |= case_forms(decode, lab.path, *simlab.MARKS)
    return forms


def test_every_form_is_covered(emitted, tabled):
    bases = {base(f) for f in tabled}
    missing = sorted(f for f in emitted if f not in tabled and base(f) not in bases)
    assert not missing, f"no semantic case for {len(missing)} of {len(emitted)} forms: {' '.join(missing)}"


def test_encodings_of_one_operation_agree(emitted, tabled):
    """Forms whose operation has its cases in another encoding give the same results, EXEC, VCC, on the same edge values."""
    same = simlab.Lab("labsame")
    pairs = {}
    for form in sorted(f for f in emitted if f not in tabled):
        texts = alternatives(form, emitted[form])
        pairs[form] = [same.add(t, AFTER_SAME) for t in texts]
    assert len(pairs) > 15
    for form, (one, two) in pairs.items():
        op = base(form)
        wide = wide_of(op) or "f64" in op
        edges, bits = (ops.D_EDGE, 64) if "f64" in op and not op.endswith("f32") else (ops.I_EDGE, 64) if wide else (ops.F_EDGE if "f32" in op else ops.H_EDGE if "f16" in op else ops.I_EDGE, 32)
        a, b, c = ops.columns(edges, bits, 256)
        b = [a[i] if i % 5 == 0 else v for i, v in enumerate(b)]
        for mask in MASKS if "_dpp" not in form else (M32, 0):
            x, y = same.run(one, a, b, c, OLD * 4, mask)[0], same.run(two, a, b, c, OLD * 4, mask)[0]
            bad = np.argwhere(x != y)
            assert not len(bad), f"{one[0]!r} and {two[0]!r} differ, exec {mask:#x}, {bad[0]}: a={a[bad[0][0]]:#x} b={b[bad[0][0]]:#x}: {x[tuple(bad[0])]:#x} {y[tuple(bad[0])]:#x}"
