#!/bin/sh
# All tests, from the quick ones to the slow ones: tools/run_tests.sh BUILD
# IE_FIXTURES (default ../shared) holds models outside the repository; tests that miss one print `skip` and are counted.
set -eu
cd "$(dirname "$0")/.."
build=$1
jobs=$(nproc)
IE_FIXTURES=${IE_FIXTURES:-../shared}
IE_BUILD=$PWD/$build
export IE_FIXTURES IE_BUILD

step() { printf '\n==== %s\n' "$*"; }

step build
make -s -j"$jobs" BUILD="$build" all helpers examples sim

step unit tests
make -s -j"$jobs" BUILD="$build" unit-build
make -s BUILD="$build" unit

step unit tests under address and undefined-behaviour checks
make -s -j"$jobs" BUILD="$build/asan" OPT=-O1 \
    SANITIZE="-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer" unit-build
make -s BUILD="$build/asan" OPT=-O1 unit-run

step fuzz targets, a few seconds each
make -s -j"$jobs" BUILD="$build" fuzz-build
tools/run_fuzz.sh "$build/fuzz" "${FUZZ_SECONDS:-10}"

step end to end
tools/setup.sh model
.venv/bin/python -m pytest -q -ra -n "$jobs" --dist loadfile tests/e2e
