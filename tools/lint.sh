#!/bin/sh
# Static checks: cppcheck and clang-tidy over the library, the programs and the tools; shellcheck over the scripts where it
# is installed. Everything runs; ends with 1 on any finding.
#
# Not asked of clang-tidy, and why:
#   assignment in conditions, swappable parameters, branch clones, macro parentheses, reserved names (_GNU_SOURCE): style
#   narrowing, implicit widening: the compilers' -Wconversion judges these
#   strcmp as a condition: usual C
#   sizeof of pointers, misplaced widening casts: every finding was of a correct array of pointers or a 64-bit operand
#   valist.Uninitialized: false for va_start on x86-64 when clang-tidy takes several files
#   insecureAPI: asks for memcpy_s; Padding: order of members is by meaning
set -u
cd "$(dirname "$0")/.." || exit
for tool in cppcheck clang-tidy; do
    command -v $tool >/dev/null || { echo "lint: $tool is missing; as root: apt-get install cppcheck clang-tidy" >&2; exit 1; }
done
jobs=$(nproc)
failed=0
include='-Iinclude -Icore -Isrc -Ikernels'

echo "== cppcheck"
# The vector kernels (src/cpu/*_avx2.c, *_avx512.c, *_portable.c) are templates of macros that cppcheck cannot follow.
# It knows neither _Noreturn nor _Alignas. Its check of uninitialised variables takes a name of an array for a read, and
# Q8 blocks live in the float arena by design.
# shellcheck disable=SC2086
cppcheck --quiet -j "$jobs" --std=c11 --enable=warning,portability --inline-suppr --error-exitcode=1 -D__x86_64__ $include \
    "-D_Noreturn=__attribute__((noreturn))" "-D_Alignas(x)=" "-Djson_object_foreach(object, key, value)=while (0)" --suppress=missingIncludeSystem \
    --suppress=legacyUninitvar --suppress=invalidPointerCast -i src/cpu/mm_avx2.c -i src/cpu/mm_avx512.c \
    -i src/cpu/mm_portable.c -i src/cpu/ops_avx2.c -i src/cpu/ops_avx512.c -i src/cpu/ops_portable.c \
    src tools examples bench || failed=1

echo "== clang-tidy"
checks='-*,bugprone-*,clang-analyzer-*'
for no in easily-swappable-parameters assignment-in-if-condition implicit-widening-of-multiplication-result \
    narrowing-conversions reserved-identifier signed-char-misuse macro-parentheses branch-clone sizeof-expression \
    misplaced-widening-cast suspicious-string-compare; do
    checks=$checks,-bugprone-$no
done
checks="$checks,-clang-analyzer-security.insecureAPI.*,-clang-analyzer-optin.performance.Padding,-clang-analyzer-valist.Uninitialized"
# shellcheck disable=SC2016 # the inner shell expands
find src tools examples -name '*.c' ! -name '*_avx2.c' ! -name '*_avx512.c' ! -name '*_portable.c' -print0 |
    xargs -0 -n 8 -P "$jobs" sh -c 'checks=$1; shift; include=$1; shift
        clang-tidy --quiet --warnings-as-errors="*" --checks="$checks" "$@" -- -std=c11 -D_GNU_SOURCE $include 2>/dev/null' \
        sh "$checks" "$include" || failed=1

# Index maps, unpacking and integer dots are the core's; only its vector forms may do such things themselves.
echo "== bits of weights"
python3 tools/check_core.py || failed=1

if command -v shellcheck >/dev/null; then
    echo "== shellcheck"
    shellcheck -e SC2015 tools/*.sh proofs/*.sh proofs/*/prove .ci/run || failed=1
fi
exit $failed
