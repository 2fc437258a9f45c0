#!/usr/bin/env python3
"""Speed of the simulator: wave instructions a second on a GEMV of Q8 blocks, fast and strict, by host threads.

    bench/sim_bench.py [--build build] [--launches 15]

Each configuration runs in a process of its own, in turn, several launches each; prints medians. Needs numpy and ziglang
(or IE_GPU_CLANG). Run it with nothing else running.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))
ROWS, BLOCKS = 65536, 128


def child(build, code_object, launches):
    os.environ["IE_BUILD"] = build
    import ctypes
    import numpy as np
    import simhip

    hip = simhip.Hip(os.path.join(build, "sim", "libamdhip64.so"))
    rng = np.random.default_rng(1)
    args = [hip.upload(rng.integers(-127, 128, ROWS * BLOCKS * 32).astype(np.int8)),
            hip.upload(np.full(ROWS * BLOCKS, 0.01, np.float32)), hip.upload(rng.integers(-127, 128, BLOCKS * 32).astype(np.int8)),
            hip.upload(np.full(BLOCKS, 0.01, np.float32)), hip.malloc(ROWS * 4)]
    fn = hip.function(hip.module(code_object), "gemv_q8")
    times = []
    for _ in range(launches):
        start = time.perf_counter()
        hip.check(hip.launch(fn, ROWS // 4, 128, args + [ctypes.c_uint32(BLOCKS)]))
        hip.check(hip.lib.hipDeviceSynchronize())
        times.append(time.perf_counter() - start)
    print(json.dumps(times[1:]))


def run(build, code_object, launches, env):
    out = subprocess.run([sys.executable, __file__, "--child", code_object, "--build", build, "--launches", str(launches)],
                         env=dict(os.environ, **env), capture_output=True, text=True, check=True)
    return json.loads(out.stdout.strip().splitlines()[-1])


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--build", default=os.path.join(ROOT, "build"))
    ap.add_argument("--launches", type=int, default=15)
    ap.add_argument("--child", help=argparse.SUPPRESS)
    a = ap.parse_args()
    if a.child:
        return child(a.build, a.child, a.launches)
    os.environ["IE_BUILD"] = a.build
    import simhip
    with tempfile.TemporaryDirectory() as tmp:
        code_object = str(simhip.build(simhip.KERNELS / "matrix.c", tmp, 3))
        stats = os.path.join(tmp, "stats.json")
        run(a.build, code_object, 1, {"IE_SIM_STATS": stats})
        with open(stats) as f:
            data = json.load(f)
        rows = data["kernels"] if isinstance(data, dict) else data
        count = sum(int(r["instructions"]) for r in rows if r.get("kernel", r.get("name")) == "gemv_q8")
        print(f"{count / 1e6:.2f} M wave instructions a launch\n\n| mode | host threads | M wave instructions/s |\n| --- | ---: | ---: |")
        for strict in ("0", "1"):
            for threads in ("1", "2"):
                if strict == "1" and threads == "2":
                    continue  # checking modes run on one thread
                t = run(a.build, code_object, a.launches, {"IE_SIM_STRICT": strict, "IE_SIM_THREADS": threads})
                print(f"| {'strict' if strict == '1' else 'fast'} | {threads} | {count / statistics.median(t) / 1e6:.1f} |", flush=True)


if __name__ == "__main__":
    main()
