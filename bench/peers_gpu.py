#!/usr/bin/env python3
"""This engine and llama.cpp on one GPU, the same files, in one run: decode after contexts of 0 and 8192, a prompt of 512.

    bench/peers_gpu.py --llama-bench PATH MODEL.gguf ... [--build build] [--backend gpu] [--rounds 3] [--contexts 0,8192]
                       [--n 128] [--prompt 512] [--copy-gbs N] [--json FILE]

Needs Python 3 alone, build/bench/decode_bench (make bench), and llama-bench with its libraries beside it; it is run with all layers on the
GPU and flash attention on. The two take turns, round by round; the table holds medians, the ratio of ours to theirs, and the share of
--copy-gbs (the card's copy bandwidth in GB/s) that the weights of a decoded token come to. Device memory is the most that nvidia-smi
showed while ours ran. Run it with nothing else on the card.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import threading

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def run(cmd, env=None):
    r = subprocess.run(cmd, capture_output=True, text=True, env=env, check=False)
    if r.returncode:
        why = (r.stderr or r.stdout).strip().splitlines()
        raise RuntimeError(f"{os.path.basename(cmd[0])}: {why[-1] if why else 'exit %d' % r.returncode}")
    return r.stdout


class Memory(threading.Thread):
    """The most memory that the first card had in use, in MB, by nvidia-smi; 0 where there is none."""

    def __init__(self):
        super().__init__(daemon=True)
        self.most, self.done = 0, threading.Event()

    def run(self):
        if not shutil.which("nvidia-smi"):
            return
        while not self.done.wait(0.5):
            out = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"], capture_output=True, text=True, check=False).stdout
            if out.strip():
                self.most = max(self.most, int(out.split()[0]))


def ours(a, model):
    memory = Memory()
    memory.start()
    try:
        out = json.loads(run([os.path.join(a.build, "bench", "decode_bench"), model, a.backend, str(a.n), a.contexts, str(a.prompt)]))
    finally:
        memory.done.set()
    got = {f"decode {d['context']}": d["per_second"] for d in out["decode"]}
    got[f"prompt {a.prompt}"] = out["prompt"]["per_second"]
    return got, out, memory.most


def theirs(a, model):
    env = dict(os.environ)
    env["LD_LIBRARY_PATH"] = os.pathsep.join([os.path.dirname(os.path.abspath(a.llama_bench)), env.get("LD_LIBRARY_PATH", "")])
    base = [a.llama_bench, "-m", model, "-ngl", "99", "-fa", "1", "-r", "1", "-o", "json"]
    got = {}
    for context in a.contexts.split(","):
        got[f"decode {context}"] = json.loads(run(base + ["-p", "0", "-n", str(a.n), "-d", context], env))[0]["avg_ts"]
    got[f"prompt {a.prompt}"] = json.loads(run(base + ["-p", str(a.prompt), "-n", "0"], env))[0]["avg_ts"]
    return got


def measure(a, model):
    mine, other, memory, info = {}, {}, 0, {}
    for _ in range(a.rounds):
        got, info, used = ours(a, model)
        memory = max(memory, used)
        for k, v in got.items():
            mine.setdefault(k, []).append(v)
        for k, v in (theirs(a, model) if a.llama_bench else {}).items():
            other.setdefault(k, []).append(v)
    rows = []
    for k, v in mine.items():
        x, y = statistics.median(v), statistics.median(other[k]) if k in other else None
        share = info["token_bytes"] * x / 1e9 / a.copy_gbs if a.copy_gbs and k.startswith("decode") else None
        rows.append({"model": os.path.basename(model), "what": k, "ours": x, "llama.cpp": y, "ratio": x / y if y else None, "share": share})
    return rows, info, memory


def cell(x, form):
    return "" if x is None else form % x


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("models", nargs="+")
    p.add_argument("--llama-bench")
    p.add_argument("--build", default=os.path.join(ROOT, "build"))
    p.add_argument("--backend", default="gpu")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--contexts", default="0,8192")
    p.add_argument("--n", type=int, default=128)
    p.add_argument("--prompt", type=int, default=512)
    p.add_argument("--copy-gbs", type=float, default=0)
    p.add_argument("--json")
    a = p.parse_args()
    every, failed = [], False
    print("| model | tokens/s of | ours | llama.cpp | ratio | share of copy bandwidth |\n|---|---|---:|---:|---:|---:|")
    for model in a.models:
        try:
            rows, info, memory = measure(a, model)
        except (RuntimeError, OSError, ValueError) as e:
            print(f"peers_gpu: {model}: {e}", file=sys.stderr)
            failed = True
            continue
        for r in rows:
            print(f"| {r['model']} | {r['what']} | {r['ours']:.1f} | {cell(r['llama.cpp'], '%.1f')} | {cell(r['ratio'], '%.2f')} | "
                  f"{cell(r['share'] and 100 * r['share'], '%.0f %%')} |", flush=True)
        used = f"; device memory {memory} MB" if memory else ""
        print(f"peers_gpu: {os.path.basename(model)}: {info['backend']}, weights {info['weight_bytes'] / 1e9:.2f} GB{used}", file=sys.stderr)
        every += rows
    if a.json:
        with open(a.json, "w", encoding="utf-8") as f:
            json.dump(every, f, indent=1)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
