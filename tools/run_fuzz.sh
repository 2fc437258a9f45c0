#!/bin/sh
# Runs every fuzz target of a build folder for some seconds, as many at a time as there are cores: tools/run_fuzz.sh DIR SECONDS
# Seeds come from tests/fuzz/corpus/NAME; what is found grows in DIR/corpus/NAME. The last line counts the targets;
# ends with 1 if one crashed, hung (10 s) or used more than 1 GB.
set -eu
dir=$1 seconds=$2
cd "$(dirname "$0")/.."
names=$(find "$dir" -maxdepth 1 -type f -name 'fuzz_*' ! -name '*.d' -perm -u+x | sed 's|.*/fuzz_||' | sort)
# A target's files are NAME.log, NAME.code and its corpus.
# shellcheck disable=SC2016 # the inner shell expands
echo "$names" | xargs -r -n 1 -P "$(nproc)" sh -c '
    dir=$1 seconds=$2 name=$3 seeds=tests/fuzz/corpus/$3
    [ -d "$seeds" ] || seeds=
    mkdir -p "$dir/corpus/$name"
    echo 1 >"$dir/$name.code"
    "$dir/fuzz_$name" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 -print_final_stats=1 -verbosity=0 \
        -artifact_prefix="$dir/" "$dir/corpus/$name" $seeds >"$dir/$name.log" 2>&1 && echo 0 >"$dir/$name.code"
    exit 0' sh "$dir" "$seconds"
passed=0 failed=0
for name in $names; do
    echo "== fuzz $name, $seconds s"
    if [ "$(cat "$dir/$name.code")" = 0 ]; then
        passed=$((passed + 1))
        grep -E 'number_of_executed_units|new_units_added' "$dir/$name.log" || true
    else
        tail -n 40 "$dir/$name.log"
        echo "FAILED fuzz $name; the input is in $dir/"
        failed=$((failed + 1))
    fi
done
echo "fuzz: $passed passed, $failed failed"
[ $failed = 0 ] && [ $passed != 0 ]
