"""Products of packed weights with rows of activations: our kernels, then llama.cpp's on the same shape, on one thread.

llama.cpp's side is `test-backend-ops perf`, which times a matrix of 4096 outputs and 14336 inputs; it takes half of the
machine's threads, so on two cores it has one. Standard library only.
"""

import argparse
import json
import math
import os
import re
import statistics
import sys

from pairs import run

N, K = 4096, 14336
FORMATS = {"f32": "f32", "f16": "f16", "bf16": "bf16", "q8_0": "q8_0", "q4_0": "q4_0", "q4_1": "q4_1", "q5_0": "q5_0",
           "q5_1": "q5_1", "q4_K": "q4k", "q5_K": "q5k", "q6_K": "q6k"}


def arguments():
    p = argparse.ArgumentParser(prog="scripts/peers/llama_cpp.sh --ops", description=__doc__.split("\n")[0])
    p.add_argument("--server", required=True, help=argparse.SUPPRESS)
    p.add_argument("--tribunal", required=True, help=argparse.SUPPRESS)
    p.add_argument("--rows", default="1,8,512", help="of activations; llama.cpp times 1, 2, 3, 4, 5, 8 and 512")
    p.add_argument("--pairs", type=int, default=3)
    p.add_argument("--json", action="store_true", help="print one JSON object")
    return p.parse_args()


def ours(a, threads):
    found = json.loads(run([a.tribunal + "-bench", "ops", "--threads", str(threads), "--shape", f"{N}x{K}",
                            "--rows", a.rows, "--json"]))
    return {(p["format"], p["m"]): p["speed"] for p in found["products"]}


def theirs(a):
    tool = os.path.join(os.path.dirname(a.server), "test-backend-ops")
    speeds = {}
    formats = "|".join(FORMATS)
    for m in a.rows.split(","):
        text = run([tool, "perf", "-o", "MUL_MAT", "-b", "CPU", "-p", f"type_a=({formats}),type_b=f32,m={N},n={m},k={K},"], quiet=True)
        for line in re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines():
            case = re.search(r"type_a=(\w+),type_b=f32,m=4096,n=(\d+),k=14336,.*?([\d.]+) ([GTM])FLOPS", line)
            if case and case[1] in FORMATS and "bs=[1,1],nr=[1,1]" in line:
                scale = {"M": 1e6, "G": 1e9, "T": 1e12}[case[4]]
                speeds[FORMATS[case[1]], int(case[2])] = float(case[3]) * scale
    return speeds


def main():
    a = arguments()
    threads = max(1, os.cpu_count() // 2)
    pairs = []
    for pair in range(a.pairs):
        pairs.append((ours(a, threads), theirs(a)))
        print(f"pair {pair + 1} of {a.pairs} done", file=sys.stderr)
    cells = [{"format": f, "m": m, "tribunal": statistics.median(p[0][f, m] for p in pairs),
              "llama_cpp": statistics.median(p[1][f, m] for p in pairs),
              "ratio": statistics.median(p[0][f, m] / p[1][f, m] for p in pairs)}
             for f, m in pairs[0][0] if all((f, m) in p[1] for p in pairs)]
    mean = math.exp(statistics.mean(math.log(c["ratio"]) for c in cells))
    least = min(cells, key=lambda c: c["ratio"])
    if a.json:
        print(json.dumps({"n": N, "k": K, "threads": threads, "geometric_mean": mean, "cells": cells}))
        return
    print(f"{N} x {K}, {threads} thread(s), GF/s: tribunal, llama.cpp, ratio (median of {a.pairs} pairs)")
    rows = sorted({c["m"] for c in cells})
    print(f"{'weights':8}" + "".join(f"{f'm={m}':>22}" for m in rows))
    for f in FORMATS.values():
        of = {c["m"]: c for c in cells if c["format"] == f}
        if of:
            print(f"{f:8}" + "".join(
                f"{of[m]['tribunal'] / 1e9:>8.0f}{of[m]['llama_cpp'] / 1e9:>7.0f}{of[m]['ratio']:>7.2f}" for m in rows))
    print(f"geometric mean of {len(cells)} ratios: {mean:.2f}; the least: {least['ratio']:.2f} ({least['format']}, "
          f"m={least['m']})")


if __name__ == "__main__":
    main()
