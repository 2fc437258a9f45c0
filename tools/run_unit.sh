#!/bin/sh
# Runs unit test programs, each to its end, as many at a time as there are cores: tools/run_unit.sh PROGRAM...
# Shows what failed with the program's output, what was skipped with the reason, and a line with the counts, in the order given. Ends with 1
# if anything failed. A program that dies, hangs (30 minutes), or ends with an error without naming a test, counts as one failed test.
set -u
# gcc 13's frames for the check of returned stacks, which is on there, are not aligned for vectors of 64 bytes (gcc 12 has it off).
ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_stack_use_after_return=0
export ASAN_OPTIONS
[ $# -gt 0 ] || { echo "run_unit: no programs given" >&2; exit 1; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' INT TERM

# Those that take longest come first, so that the cores end together.
long="test_gpu_ops test_gpu_mat test_ops test_mm test_gdn test_laws test_vector_forms test_sched"
n=$#
for program in "$@"; do
    rank=0
    for name in $long; do
        rank=$((rank + 1))
        [ "${program##*/}" = "$name" ] && break
        [ "$name" = "${long##* }" ] && rank=99
    done
    n=$((n + 1))
    printf '%02d %05d %s\n' "$rank" "$n" "$program"
done | sort | cut -d' ' -f3- | tr '\n' '\0' >"$dir/order"

# Everything of a program lies in files of its own: NAME.out, NAME.code, NAME.s.
# shellcheck disable=SC2016 # the inner shell expands
xargs -0 -n 1 -P "$(nproc)" sh -c '
    at=$1/${2##*/} begin=$(date +%s)
    timeout -k 10 1800 "$2" >"$at.out" 2>&1 </dev/null & # a process group of its own: Ctrl-C is passed on
    trap "kill $!; exit 1" INT TERM
    wait $!
    echo $? >"$at.code"
    echo $(($(date +%s) - begin)) >"$at.s"' sh "$dir" <"$dir/order"

passed=0 failed=0 skipped=0
for program in "$@"; do
    out=$dir/${program##*/}.out
    count() { grep -c -- "$1" "$out"; }
    code=$(cat "${out%.out}.code")
    ok=$(count '^\[       OK \]') bad=$(grep '^\[  FAILED  \]' "$out" | grep -vc 'test(s)') skip=$(count '^skip')
    bare=$(grep '^\[  SKIPPED \]' "$out" | grep -vc 'test(s)')
    bad=$((bad / 2)) bare=$((bare / 2)) # cmocka names such a test where it happens and again in its summary
    [ $bare -gt "$skip" ] && skip=$bare
    # died, failed without naming a test, or ran nothing and gave no reason
    if [ $bad = 0 ] && { [ "$code" != 0 ] || [ $((ok + skip)) = 0 ]; }; then bad=1; fi
    passed=$((passed + ok)) failed=$((failed + bad)) skipped=$((skipped + skip))
    if [ $bad != 0 ]; then
        cat "$out"
        echo "FAILED $program (exit code $code)"
    else
        echo "ok $program: $ok tests, $(cat "${out%.out}.s") s"
        grep -E '^skip|^\[  SKIPPED \] [^0-9]' "$out" | sort -u
    fi
done
echo "unit: $passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
