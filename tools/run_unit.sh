#!/bin/sh
# Runs unit test programs, each to its end: tools/run_unit.sh PROGRAM...
# Shows what failed with the program's output, what was skipped with the reason, and a line with the counts. Ends with 1
# if anything failed. A program that dies, or ends with an error without naming a test, counts as one failed test.
set -u
# gcc 13's frames for the check of returned stacks, which is on there, are not aligned for vectors of 64 bytes (gcc 12 has it off).
ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_stack_use_after_return=0
export ASAN_OPTIONS
passed=0 failed=0 skipped=0
out=$(mktemp)
trap 'rm -f "$out"' EXIT
count() { grep -c -- "$1" "$out"; }

[ $# -gt 0 ] || { echo "run_unit: no programs given" >&2; exit 1; }
for program in "$@"; do
    begin=$(date +%s)
    "$program" >"$out" 2>&1
    code=$?
    ok=$(count '^\[       OK \]') bad=$(grep '^\[  FAILED  \]' "$out" | grep -vc 'test(s)') skip=$(count '^skip')
    bare=$(grep '^\[  SKIPPED \]' "$out" | grep -vc 'test(s)')
    bad=$((bad / 2)) bare=$((bare / 2)) # cmocka names such a test where it happens and again in its summary
    [ $bare -gt "$skip" ] && skip=$bare
    # died, failed without naming a test, or ran nothing and gave no reason
    if [ $bad = 0 ] && { [ $code != 0 ] || [ $((ok + skip)) = 0 ]; }; then bad=1; fi
    passed=$((passed + ok)) failed=$((failed + bad)) skipped=$((skipped + skip))
    if [ $bad != 0 ]; then
        cat "$out"
        echo "FAILED $program (exit code $code)"
    else
        echo "ok $program: $ok tests, $(($(date +%s) - begin)) s"
        grep -E '^skip|^\[  SKIPPED \] [^0-9]' "$out" | sort -u
    fi
done
echo "unit: $passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
