#!/bin/sh
# All tests, from the quick ones to the slow ones: tools/run_tests.sh BUILD
# Every group runs even if one before it failed; the last line counts all of them, and any failure gives exit code 1.
# IE_FIXTURES (default ../shared) holds models outside the repository; tests that miss one say so and count as skipped.
set -eu
cd "$(dirname "$0")/.."
build=$1
jobs=$(nproc)
IE_FIXTURES=${IE_FIXTURES:-../shared}
case $build in /*) IE_BUILD=$build ;; *) IE_BUILD=$PWD/$build ;; esac
export IE_FIXTURES IE_BUILD
passed=0 failed=0 skipped=0 began=$(date +%s)
log=$(mktemp)
trap 'rm -f "$log" "$log.code" "$log.times"' EXIT

# Sets wall and cpu: seconds until now, and seconds of processors of all that was run, which other programs on the machine change little.
clock() {
    wall=$(($(date +%s) - began))
    times >"$log.times" # not in a subshell, which would count its own
    cpu=$(sed -n '2s/[ms]/ /gp' "$log.times" | awk '{ printf "%d", 60 * ($1 + $3) + $2 + $4 }')
}
step() { clock && printf '\n==== %s (after %d s, %d of processors)\n' "$*" "$wall" "$cpu"; }
end() {
    clock
    printf '\n%d s, %d of processors\n%d passed, %d failed, %d skipped\n' "$wall" "$cpu" $passed $failed $skipped
    [ $failed = 0 ] || exit 1
    exit 0
}
compile() {
    make -j"$jobs" --no-print-directory BUILD="$build" "$@" && return 0
    echo "FAILED: make $*"
    failed=$((failed + 1))
    return 1
}
# Runs a command, shows its output, and adds the counts of its closing line; one that fails without a count is a failure.
run() {
    { code=0; "$@" 2>&1 || code=$?; echo $code >"$log.code"; } | tee "$log"
    last=$(grep -E '[0-9]+ (passed|failed|skipped|error)' "$log" | tail -n 1)
    number() { n=$(echo "$last" | sed -nE "s/.*(^|[^0-9])([0-9]+) $1.*/\2/p"); echo "${n:-0}"; }
    bad=$(($(number failed) + $(number error)))
    if [ "$(cat "$log.code")" != 0 ] && [ $bad = 0 ]; then
        bad=1
        echo "FAILED: $* (exit code $(cat "$log.code"))"
    fi
    passed=$((passed + $(number passed))) skipped=$((skipped + $(number skipped))) failed=$((failed + bad))
}

step build
parts="kernels all helpers examples sim tools $build/bench/decode_bench"
# All that is compiled, at once, so that no core waits for the last file of a part; the longest first. What fails here is counted below, with its part.
# shellcheck disable=SC2086
make -k -j"$jobs" --no-print-directory BUILD="$build" $parts unit-build asan-build fuzz-build || true
# shellcheck disable=SC2086
compile $parts || end

step unit tests
compile unit-build && run make -s BUILD="$build" unit

step unit tests under address and undefined-behaviour checks
compile asan-build && run make -s BUILD="$build" asan

step fuzz targets, a few seconds each
compile fuzz-build && run tools/run_fuzz.sh "$build/fuzz" "${FUZZ_SECONDS:-10}"

step end to end
tools/setup.sh model || echo "tests that need the demo model will be skipped"
compile asan-serve-build && run make -s BUILD="$build" asan-serve
run .venv/bin/python -m pytest -q -ra -n "$jobs" --dist loadfile --no-loadscope-reorder tests/e2e

end
