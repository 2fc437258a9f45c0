#!/bin/sh
# Static checks: cppcheck over everything, clang-tidy over the library and the programs. Ends with 1 on any finding.
set -eu
cd "$(dirname "$0")/.."
for tool in cppcheck clang-tidy; do
    command -v $tool >/dev/null || { echo "lint: $tool is missing; as root: apt-get install cppcheck clang-tidy" >&2; exit 1; }
done
echo "== cppcheck"
cppcheck --quiet --std=c11 --enable=warning,portability --inline-suppr --error-exitcode=1 -D__x86_64__ -Iinclude -Icore -Isrc \
    --suppress=missingIncludeSystem src/*.c src/quant src/model src/gen src/text src/app tools examples bench
echo "== clang-tidy"
clang-tidy --quiet --warnings-as-errors='*' \
    --checks='-*,bugprone-*,clang-analyzer-*,-bugprone-easily-swappable-parameters,-bugprone-assignment-in-if-condition,-bugprone-implicit-widening-of-multiplication-result,-bugprone-narrowing-conversions,-bugprone-reserved-identifier,-bugprone-signed-char-misuse,-bugprone-macro-parentheses,-bugprone-branch-clone,-clang-analyzer-security.insecureAPI.*,-clang-analyzer-optin.performance.Padding' \
    src/*.c src/quant/*.c src/model/*.c src/gen/*.c src/text/*.c src/app/*.c src/cpu/pool.c src/cpu/backend.c -- \
    -std=c11 -D_GNU_SOURCE -Iinclude -Icore -Isrc
