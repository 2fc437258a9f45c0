"""Index maps, unpacking and integer dots stand in core/ie_core.h and its vector forms alone: tools/check_core.py finds nothing else in the tree, and
finds what is planted."""
import shutil
import sys

import pytest

from conftest import ROOT

sys.path.insert(0, str(ROOT / "tools"))
import check_core  # noqa: E402

FILES = ["src/cpu/mm_gemv.h", "src/cpu/mm_kern.h", "src/cpu/mm_portable.c", "kernels/gemv.c", "kernels/gemv_mma.c", "src/gpu/layout.c", "src/quant/q4_k.c", "src/model/load.c"]
PLANTED = {
    "nibble": ("shift", "static unsigned f(unsigned w) { return (w >> 4) & 15; }"),
    "mask": ("mask", "static unsigned f(const unsigned *w) { return w[3] & 0x0F0F0F0Fu; }"),
    "decimal mask": ("mask", "static unsigned f(unsigned w) { return 63 & (w); }"),
    "named mask": ("mask", "static unsigned f(unsigned w, unsigned low) { w &= low; return w; }"),
    "mask of a call": ("mask", "static unsigned f(unsigned w) { return g(w) & 3u; }"),
    "mask of a cast": ("mask", "static unsigned f(int w) { return (unsigned)w & 3u; }"),
    "sign flip": ("mask", "static unsigned f(unsigned w) { return w ^ 0x80u; }"),
    "variable shift": ("shift", "static unsigned f(unsigned w, unsigned n) { return w << n; }"),
    "shift of one": ("shift", "static unsigned f(unsigned n) { return 1u << n; }"),
    "assigned shift": ("shift", "static unsigned f(unsigned w) { w >>= 4; return w; }"),
    "torn apart": ("shift", "static unsigned f(unsigned w) { return w /* 4 */ >> \\\n // bits\n 4; }"),
    "in a macro": ("shift", "#define NIBBLE(w) \\\n    ((w) >> 4)"),
    "vector shift": ("shift", "static vi f(vi w) { return vi_shr(w, 4); }"),
    "vector mask": ("shift", "static vi f(vi w) { return vi_and(w, vi_set1(15)); }"),
    "tile of a row": ("quotient", "static unsigned f(unsigned row, unsigned n) { return row / IE_PAGE * n; }"),
    "page of a position": ("quotient", "static unsigned f(unsigned pos) { return (pos + 1u) / (IE_PAGE); }"),
    "slot of a position": ("quotient", "static unsigned f(unsigned pos) { return pos % IE_PAGE; }"),
    "intrinsic": ("dot", "static __m512i f(__m512i a, __m512i u, __m512i s) { return _mm512_dpbusd_epi32(a, u, s); }"),
    "instruction": ("dot", '__asm__("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(r) : "r"(u), "r"(s), "r"(acc));'),
    "builtin": ("dot", "static int f(int u, int s) { return __builtin_amdgcn_sudot4(false, u, true, s, 0, false); }"),
    "signed bytes": ("dot", "static int f(const signed char *p, unsigned w) { return (int8_t)w; }"),
    "product of bytes": ("dot", "static int f(unsigned u, unsigned s) { return (int32_t)ie_byte_u(u, 0) * ie_byte_s(s, 0); }"),
    "sum of products": ("dot", "static int32_t f(const int32_t *a, const int32_t *b) { int32_t r = 0; for (int i = 0; i < 32; i++) r += a[i] * b[i]; return r; }"),
}
# In files that place weights, any quotient by a number and any remainder.
PLACED = {"words of a row": ("quotient", "static unsigned f(unsigned w) { return w / 4u * 128u; }"), "remainder": ("quotient", "static unsigned f(unsigned w, unsigned n) { return w % n; }")}
INNOCENT = """
/* w >> 4, w & 15, row / IE_PAGE */ // (w >> 4) & 15
static const char *f(const char *s, float x, unsigned *p, unsigned n) {
    g(&n, (unsigned *)&n, sizeof &n, n && p, *p, x / 2.0f, x * 0.5f, "%d >> 4 & 15 % 2", '&', 1u << 20, 64ull << 20);
    float sum = 0;
    for (unsigned i = 0; i < n; i++) sum += x * x, p += 4, n += 2 * i;
    if (n & n) return &s[n];
    return &*s;
}
""".replace("    if (n & n) return &s[n];\n", "")


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    root = tmp_path_factory.mktemp("tree")
    for pattern in [*check_core.SCANNED, "tools/core_allow.txt"]:
        for p in ROOT.glob(pattern):
            (root / p.relative_to(ROOT)).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(p, root / p.relative_to(ROOT))
    return root


def plant(tree, names):
    """What is found where the nibble of a word is taken in these files, and in which line it stands."""
    before = {name: (tree / name).read_text() for name in names}
    for name, text in before.items():
        (tree / name).write_text(text + "\nstatic unsigned planted(unsigned w) { return (w >> 4) & 15; }\n")
    try:
        found = check_core.check(tree)
    finally:
        for name, text in before.items():
            (tree / name).write_text(text)
    return {name: [line for line in found if line.startswith(f"{name}:{before[name].count(chr(10)) + 2}:")] for name in names}, found


def test_tree():
    assert check_core.check(ROOT) == []


@pytest.mark.parametrize("what", PLANTED)
def test_planted(what):
    kind, code = PLANTED[what]
    assert kind in [k for _, k, _ in check_core.findings(code, places=False)], code


@pytest.mark.parametrize("what", PLACED)
def test_placed(what):
    kind, code = PLACED[what]
    assert kind in [k for _, k, _ in check_core.findings(code)], code
    assert not list(check_core.findings(code, places=False))


def test_innocent():
    assert not list(check_core.findings(INNOCENT))


def test_planted_in_the_tree(tree):
    """In the files themselves, with what is allowed there; the vector forms may do it."""
    forms = ["src/cpu/simd_block.h", "kernels/gpu.h"]
    at, found = plant(tree, FILES + forms)
    for name in FILES:
        assert [line.split()[1] for line in at[name]] == ["shift", "mask"], name
    assert len(found) == 2 * len(FILES)


def test_stale_allowance(tree):
    listed = tree / "tools" / "core_allow.txt"
    before = listed.read_text()
    listed.write_text(before + "src/quant/q4_0.c | shift | no such text | none\n")
    try:
        assert [line for line in check_core.check(tree) if "allows nothing" in line and "no such text" in line]
    finally:
        listed.write_text(before)
