#!/bin/sh
# Runs every fuzz target of a build folder for some seconds: tools/run_fuzz.sh DIR SECONDS
# Seeds come from tests/fuzz/corpus/NAME; what is found grows in DIR/corpus/NAME. The last line counts the targets;
# ends with 1 if one crashed, hung (10 s) or used more than 1 GB.
set -eu
dir=$1 seconds=$2
cd "$(dirname "$0")/.."
passed=0 failed=0
for bin in "$dir"/fuzz_*; do
    [ -x "$bin" ] && [ -f "$bin" ] || continue
    case "$bin" in *.d) continue ;; esac
    name=$(basename "$bin" | sed 's/^fuzz_//')
    mkdir -p "$dir/corpus/$name"
    seeds=tests/fuzz/corpus/$name
    [ -d "$seeds" ] || seeds=
    echo "== fuzz $name, $seconds s"
    # shellcheck disable=SC2086
    if ! "$bin" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 -print_final_stats=1 -verbosity=0 \
        -artifact_prefix="$dir/" "$dir/corpus/$name" $seeds >"$dir/$name.log" 2>&1; then
        tail -n 40 "$dir/$name.log"
        echo "FAILED fuzz $name; the input is in $dir/"
        failed=$((failed + 1))
        continue
    fi
    passed=$((passed + 1))
    grep -E 'number_of_executed_units|new_units_added' "$dir/$name.log" || true
done
echo "fuzz: $passed passed, $failed failed"
[ $failed = 0 ] && [ $passed != 0 ]
