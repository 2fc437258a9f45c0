#!/usr/bin/env python3
"""This engine and llama.cpp on the same files, the same threads, in turn; medians and ratios.

    bench/peers.py --llama-bench PATH [--threads 2] [--rounds 5] [--models DIR] [--only NAME ...] [--also FILE ...] [--prefill]

Without --llama-bench the Python package xllamacpp is used (pip install xllamacpp). Models: SmolLM2-135M Q4_1 (from
.cache/models, `make demo` puts it there), generated files with the shapes of Qwen2.5-0.5B and 1.5B in Q4_0, Q8_0,
Q4_K_M-like and Q6_K and of Qwen3.5-0.8B in Q8_0 and Q4_K_M-like, kept in DIR, and FILE ... . --prefill leaves the decode out. Each round measures a prompt of 512 tokens and 128 tokens generated after it, first
with one engine, then with the other; between rounds the memory's read bandwidth is measured too. Prints a Markdown table.
Run it with nothing else running. On rented machines two virtual processors may be two threads of one core for seconds: before
and after each measurement cores_bench looks whether THREADS threads get THREADS cores, for both engines alike, and what was
measured otherwise is measured again, at most 8 times (then the row says so).
"""
import argparse
import json
import os
import random
import statistics
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PROMPT, GEN = 512, 128


def run(cmd, env=None):
    r = subprocess.run(cmd, capture_output=True, text=True, env=env, check=False)
    if r.returncode != 0:
        sys.exit(f"peers: {' '.join(cmd[:3])} ... failed: {(r.stderr or r.stdout).strip().splitlines()[-1:]}")
    return r.stdout


def prompt_ids():
    """Tokens that every vocabulary here has."""
    rng = random.Random(1)
    return [rng.randrange(1000, 8000) for _ in range(PROMPT)]


class Ours:
    """decode_bench, which takes the prompt once to warm up, as llama-bench does."""
    def __init__(self, build, threads, gen):
        self.exe, self.threads, self.gen = os.path.join(build, "bench", "decode_bench"), threads, gen

    def measure(self, model):
        out = run([self.exe, model, "cpu", str(self.gen or 1), str(PROMPT) if self.gen else "", str(PROMPT), str(self.threads)])
        t = json.loads(out)
        d = t["decode"][0] if self.gen else {"per_second": 0.0, "weight_gb_per_second": 0.0}
        return t["prompt"]["per_second"], d["per_second"], d["weight_gb_per_second"]


class LlamaBench:
    def __init__(self, path, threads, gen):
        self.path, self.threads, self.gen = os.path.abspath(path), threads, gen
        self.env = dict(os.environ, LD_LIBRARY_PATH=os.path.dirname(self.path))

    def measure(self, model):
        out = run([self.path, "-m", model, "-t", str(self.threads), "-p", str(PROMPT), "-n", "0", "-pg", "0,0",
                   "-r", "1", "-o", "json"], self.env)
        pp = json.loads(out)[0]["avg_ts"]
        if not self.gen:
            return pp, 0.0
        out = run([self.path, "-m", model, "-t", str(self.threads), "-p", "0", "-n", str(self.gen), "-d", str(PROMPT),
                   "-r", "1", "-o", "json"], self.env)
        return pp, json.loads(out)[0]["avg_ts"]


class XLlama:
    """The same two figures through the Python package, in a process of its own."""
    CODE = """
import json, sys, time, xllamacpp as x
model, threads, prompt, gen = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
p = x.CommonParams(); p.model.path = model; p.n_ctx = prompt + gen + 64; p.n_parallel = 1
p.cpuparams.n_threads = threads; p.cpuparams_batch.n_threads = threads; p.n_gpu_layers = 0; p.warmup = True
s = x.Server(p)
ids = json.loads(sys.argv[5])
r = s.handle_completions({"prompt": ids, "n_predict": gen, "temperature": 0, "ignore_eos": True, "cache_prompt": False})
t = r["timings"]
print(json.dumps([t["prompt_per_second"], t["predicted_per_second"]]))
"""

    def __init__(self, threads, python, gen):
        self.threads, self.python, self.gen = threads, python, gen
        self.ids = json.dumps(prompt_ids())

    def measure(self, model):
        out = run([self.python, "-c", self.CODE, model, str(self.threads), str(PROMPT), str(self.gen or 1), self.ids])
        return tuple(json.loads(out.strip().splitlines()[-1]))


def bandwidth(build, threads):
    return float(run([os.path.join(build, "bench", "read_bench"), "-t", str(threads)]).split()[0])


class Cores:
    """Measurements for which the threads had a core each."""
    TRIES, WAIT, SHARE = 8, 20, 0.85

    def __init__(self, build, threads):
        self.exe, self.threads = os.path.join(build, "bench", "cores_bench"), threads
        self.again = self.shared = 0
        # processors that fall asleep are placed anew: threads of the lowest priority keep them awake, until we end
        self.awake = subprocess.Popen([self.exe, "-k", "1", "-t", str(threads)], stdin=subprocess.PIPE)

    def apart(self, wait):
        return float(run([self.exe, "-t", str(self.threads), "-w", str(wait)]).split()[0]) >= self.SHARE * self.threads

    def measure(self, what):
        for _ in range(self.TRIES):
            before = self.apart(self.WAIT)
            result = what()
            if before and self.apart(0):
                return result
            self.again += 1
        self.shared += 1
        return result


def models(args):
    yield "SmolLM2-135M Q4_1", os.path.join(ROOT, ".cache", "models", "SmolLM2-135M-Instruct.Q4_1.gguf")
    for shape in ("qwen2.5-0.5b", "qwen2.5-1.5b", "qwen3.5-0.8b"):
        for mix in ("Q4_0", "Q8_0", "Q4_K_M", "Q6_K") if shape != "qwen3.5-0.8b" else ("Q8_0", "Q4_K_M"):
            yield f"{shape} {mix}", os.path.join(args.models, f"{shape}-{mix}.gguf")
    for path in args.also:
        yield os.path.basename(path).removesuffix(".gguf"), path


def choose(args):
    """The models that --only names, all of them without it; a generated file that is not there yet is made."""
    every = list(models(args))
    for o in args.only:
        if not any(o in name for name, _ in every):
            sys.exit(f"peers: --only {o}: no such model; there are {', '.join(name for name, _ in every)}")
    picked = [(name, path) for name, path in every if not args.only or any(o in name for o in args.only)]
    for name, path in picked:
        if os.path.dirname(path) == args.models and not os.path.exists(path):
            os.makedirs(args.models, exist_ok=True)
            run([os.path.join(args.build, "tools", "make_synth_gguf"), *name.split(), path])
    return picked


def median(rows, i):
    return statistics.median(r[i] for r in rows)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--llama-bench")
    ap.add_argument("--threads", type=int, default=2)
    ap.add_argument("--rounds", type=int, default=5)
    ap.add_argument("--build", default=os.path.join(ROOT, "build"))
    ap.add_argument("--models", default=os.path.join(ROOT, ".cache", "synth"))
    ap.add_argument("--only", nargs="*", default=[])
    ap.add_argument("--also", nargs="*", default=[], metavar="FILE")
    ap.add_argument("--prefill", action="store_true")
    args = ap.parse_args()
    chosen = choose(args)
    gen = 0 if args.prefill else GEN
    ours = Ours(args.build, args.threads, gen)
    peer = LlamaBench(args.llama_bench, args.threads, gen) if args.llama_bench else XLlama(args.threads, sys.executable, gen)
    cores = Cores(args.build, args.threads)
    print("| model | prefill 512: ours | llama.cpp | ratio |" + (" decode 128: ours | llama.cpp | ratio | weights GB/s | share of read bandwidth |" if gen else ""))
    print("| --- | ---: | ---: | ---: |" + (" ---: | ---: | ---: | ---: | ---: |" if gen else ""))
    for name, path in chosen:
        a, b, bw = [], [], []
        cores.shared = 0
        for _ in range(args.rounds):
            a.append(cores.measure(lambda p=path: ours.measure(p)))
            bw.append(cores.measure(lambda: bandwidth(args.build, args.threads)) if gen else 0.0)
            b.append(cores.measure(lambda p=path: peer.measure(p)))
        pa, da, gb, pb, db = median(a, 0), median(a, 1), median(a, 2), median(b, 0), median(b, 1)
        read = statistics.median(bw)
        if cores.shared:
            name += f" ({cores.shared} of {args.rounds * (3 if gen else 2)} measurements with threads that shared a core)"
        print(f"| {name} | {pa:.0f} | {pb:.0f} | {pa / pb:.2f} |" +
              (f" {da:.1f} | {db:.1f} | {da / db:.2f} | {gb:.1f} | {100 * gb / read:.0f} % of {read:.1f} |" if gen else ""), flush=True)
    print(f"{cores.again} measurements were repeated, because the threads did not have a core each.", file=sys.stderr)


if __name__ == "__main__":
    main()
