#!/bin/bash
# Proves every law of laws/*.h from a clean state: proofs/check.sh [LAW ...]
# Runs the rows of proofs/laws.txt (or those of the laws named), two at a time; prints a line for each. Ends with
# `N of N laws proved (M goals), in S s`; the exit code is 1 unless all are. Logs: build/proofs/LAW.TOOL.log.
set -u
cd "$(dirname "$0")/.." || exit 1
began=$(date +%s)
out=build/proofs
rm -rf $out
mkdir -p $out
tools/setup.sh proofs || exit 1
export WHY3CONFIG=$PWD/$out/why3.conf
why3 config detect >$out/why3.log 2>&1 || { cat $out/why3.log >&2; exit 1; }

grep -Ev '^(#|$)' proofs/laws.txt >$out/rows
if [ $# -gt 0 ]; then
    for name in "$@"; do grep -E "^$name " $out/rows || echo "$name none"; done >$out/some
    mv $out/some $out/rows
    awk '{ print $1 }' $out/rows | grep -v '^@' | sort -u >$out/laws
else
    grep -oE '^ +X\([a-z0-9_]+' tests/unit/test_laws.c | sed 's/.*(//' | sort -u >$out/laws
fi

# One row: its line, and `ok` or `FAILED` first. A tool's last line is `proved N goals`, and nothing else counts as proof.
one() {
    name=$1 tool=$2
    shift 2
    log=build/proofs/$name.$tool.log t0=$(date +%s%N) state=FAILED
    if [ -x "proofs/$tool/prove" ]; then
        "proofs/$tool/prove" "$name" "$@" >"$log" 2>&1 </dev/null && state=ok
    else
        echo "no tool '$tool' proves it: no row in proofs/laws.txt?" >"$log"
    fi
    goals=$(tail -n 1 "$log" | sed -nE 's/^proved ([1-9][0-9]*) goals?$/\1/p')
    [ -n "$goals" ] || state=FAILED
    ms=$((($(date +%s%N) - t0) / 1000000))
    printf '%-6s %-17s %-6s %4d goals %4d.%01d s\n' $state "$name" "$tool" "${goals:-0}" $((ms / 1000)) $((ms / 100 % 10))
    [ $state = ok ] || tail -n 5 "$log" | sed 's/^/       /'
}
export -f one
xargs -P 2 -L 1 bash -c 'one "$@"' one <$out/rows | tee $out/lines

# Nothing may be taken on trust: neither a contract nor a lemma.
bad=0
if grep -nwE 'admit|axiom|axiomatic|lemma' core/ie_core.h core/ie_launch.h core/ie_layout.h laws/*.h proofs/wp/*.c; then
    echo "FAILED: assumed, not proved"
    bad=1
fi
# The table of laws for readers names the tools that the rows name.
while read -r name tool _; do
    case $name in @*) continue ;; esac
    want=ESBMC
    [ "$tool" = wp ] && want=WP
    grep -F "\`$name\`" laws/README.md | grep -q "$want" && continue
    echo "FAILED $name: laws/README.md does not say that $want proves it"
    bad=$((bad + 1))
done <$out/rows

# A law counts if it has a row and all of its rows are proved.
failed=$(awk '$1 == "FAILED" { print $2 }' $out/lines | sort -u)
goals=$(awk '$1 == "ok" { n += $4 } END { print n + 0 }' $out/lines)
total=0 proved=0
[ -z "$failed" ] || bad=$((bad + 1))
while read -r name; do
    total=$((total + 1))
    if ! grep -qE "^static inline int law_$name\(" laws/*.h; then
        echo "FAILED $name: no law_$name in laws/*.h"
    elif ! grep -qE "^$name " $out/rows; then
        echo "FAILED $name: no row in proofs/laws.txt"
    elif grep -qE "^ok +$name " $out/lines && ! echo "$failed" | grep -qx -- "$name"; then
        proved=$((proved + 1))
    fi
done <$out/laws
echo "$proved of $total laws proved ($goals goals), in $(($(date +%s) - began)) s"
[ $proved = $total ] && [ "$bad" = 0 ]
