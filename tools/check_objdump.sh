#!/bin/sh
# check_objdump.sh [TEXT]: checks the GPU kernels' machine code against kernels/instructions.txt: what must stand in a kernel's main loop and what
# may stand nowhere. TEXT: the output of simrun --text ("-": from standard input); default: of $BUILD/ie_kernels.hsaco (BUILD: build).
# One line for each thing that is not as it should be; exit status 0: none, 1: some, 2: nothing could be checked.
cd "$(dirname "$0")/.." || exit 2
build=${BUILD:-build}
text=$1
if [ -z "$text" ]; then
    text=$(mktemp) || exit 2
    trap 'rm -f "$text"' EXIT
    "$build/sim/simrun" --text "$build/ie_kernels.hsaco" > "$text" || exit 2
fi
awk '
    function value(s,   i, v) { # "0x1a"
        for (i = 3; i <= length(s); i++) v = 16 * v + index("0123456789abcdef", substr(s, i, 1)) - 1
        return v
    }
    function hex(s) { return value("0x" s) }
    function wrong(what) { print name ": " what; bad++ }

    # The main loop: the smallest that holds enough of the first instruction of the rule; of equally small ones the first.
    function find_loop(first, least,   k, i, n) {
        lo = hi = -1
        for (k = 1; k <= loops; k++) {
            if (lo >= 0 && loop_hi[k] - loop_lo[k] >= hi - lo) continue
            n = 0
            for (i = loop_lo[k]; i <= loop_hi[k]; i++) if (index(op[i], first) == 1) n++
            if (n >= least) { lo = loop_lo[k]; hi = loop_hi[k] }
        }
    }
    function check(r,   n, want, f, i, k, got) {
        n = split(rule[r], want, " ")
        used[r]++
        split(want[1], f, "=")
        find_loop(f[1], f[2])
        if (lo < 0) { wrong("no loop with " f[2] " of " f[1]); return }
        for (k = 1; k <= n; k++) {
            split(want[k], f, "=")
            if (f[1] == "load_wait") { # the smallest number of loads that a wait leaves under way
                for (i = lo; i <= hi; i++) if (op[i] ~ /^s_wait_loadcnt/ && value(arg[i]) < f[2]) wrong("a wait in the main loop leaves " value(arg[i]) " loads under way, at least " f[2] " are asked for")
                continue
            }
            got = 0
            for (i = lo; i <= hi; i++) if (index(op[i], f[1]) == 1) got++
            if (got < f[2]) wrong(got " of " f[1] " in the main loop, at least " f[2] " are asked for")
        }
    }
    function kernel(   i, k, r) {
        if (name == "") return
        kernels++
        loops = 0
        for (i = 1; i <= count; i++) {
            for (k in most) if (index(op[i], k) == 1) found[k]++
            if (to[i] != "" && (to[i] in line_at) && line_at[to[i]] <= i) { loop_lo[++loops] = line_at[to[i]]; loop_hi[loops] = i }
        }
        for (k in most) if (found[k] > most[k]) wrong("has " found[k] " of " k ", at most " most[k] " are allowed")
        split("", found)
        for (r = 1; r <= rules; r++) if (name ~ "^" pattern[r] "$") check(r)
    }

    FNR == NR {
        if ($0 ~ /^#/ || NF == 0) next
        if ($1 == "most") {
            for (i = 2; i <= NF; i++) { split($i, part, "="); most[part[1]] = part[2] + 0 }
            next
        }
        pattern[++rules] = $1
        for (i = 2; i <= NF; i++) rule[rules] = rule[rules] " " $i
        next
    }
    /^[A-Za-z_][A-Za-z0-9_]*:$/ {
        kernel()
        name = substr($1, 1, length($1) - 1)
        count = 0
        split("", line_at)
        next
    }
    NF >= 2 {
        count++
        line_at[hex(substr($1, 1, length($1) - 1))] = count
        op[count] = $2; arg[count] = $3
        to[count] = $(NF - 1) == "->" ? hex($NF) : ""
        for (i = 3; i < NF; i++) if ($i == "::") { op[++count] = $(i + 1); arg[count] = to[count] = "" } # the second half of a pair
    }
    END {
        kernel()
        name = "kernels/instructions.txt"
        for (r = 1; r <= rules; r++) if (!used[r]) wrong("no kernel is named " pattern[r])
        if (!kernels) { print "no kernels in the text"; exit 2 }
        if (!bad) print kernels " kernels as they should be"
        exit bad != 0
    }
' kernels/instructions.txt "$text"
