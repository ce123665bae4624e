"""Tokens a second of bare prompts and bare answers: our engine, then llama.cpp's llama-batched-bench, in turn.

Both sides read a prompt of the same length and write the same number of tokens, one sequence alone and several side
by side. llama-batched-bench chooses no token and weighs none; ours samples and takes every token's exact
log-probability. Standard library only.
"""

import argparse
import json
import os
import statistics
import sys

from pairs import run, weights


def arguments():
    p = argparse.ArgumentParser(prog="scripts/peers/llama_cpp.sh --pace", description=__doc__.split("\n")[0])
    p.add_argument("--server", required=True, help=argparse.SUPPRESS)
    p.add_argument("--tribunal", required=True, help=argparse.SUPPRESS)
    p.add_argument("--model", default="qwen2.5-coder-0.5b-instruct", help="a card, or a GGUF file")
    p.add_argument("--prompt", type=int, default=512, help="prompt tokens of each sequence")
    p.add_argument("--answer", type=int, default=64, help="answer tokens of each sequence")
    p.add_argument("--sequences", default="1,8,16", help="side by side")
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--pairs", type=int, default=3)
    p.add_argument("--json", action="store_true", help="print one JSON object")
    return p.parse_args()


def ours(a):
    common = ["--model", a.model, "--threads", str(a.threads), "--prompt", str(a.prompt), "--repeats", "1", "--json"]
    prefill = json.loads(run([a.tribunal + "-bench", "prefill", *common]))
    decode = json.loads(run([a.tribunal + "-bench", "decode", *common, "--rows", a.sequences,
                             "--answer", str(a.answer)]))
    speeds = {f"{p['batch']} answers": p["tokens_per_s"] for p in decode["decode"]}
    return {f"prompt of {a.prompt}": prefill["prefill"][0]["tokens_per_s"]} | speeds


def theirs(a, gguf):
    most = max(map(int, a.sequences.split(",")))
    tool = os.path.join(os.path.dirname(a.server), "llama-batched-bench")
    lines = run([tool, "-m", gguf, "-t", str(a.threads), "-tb", str(a.threads), "-npp", str(a.prompt),
                 "-ntg", str(a.answer), "-npl", a.sequences, "-c", str(most * (a.prompt + a.answer)),
                 "--output-format", "jsonl"], quiet=True)
    rows = [json.loads(line) for line in lines.splitlines() if line.startswith("{")]
    speeds = {f"{r['pl']} answers": r["speed_tg"] for r in rows}
    return {f"prompt of {a.prompt}": rows[0]["speed_pp"]} | speeds


def main():
    a = arguments()
    gguf = weights(a)
    pairs = []
    for pair in range(a.pairs):
        pairs.append((ours(a), theirs(a, gguf)))
        print(f"pair {pair + 1} of {a.pairs} done", file=sys.stderr)
    rows = []
    for what in pairs[0][0]:
        us, them = ([p[side][what] for p in pairs] for side in (0, 1))
        ratios = sorted(u / t for u, t in zip(us, them))
        rows.append({"what": what, "tribunal": statistics.median(us), "llama_cpp": statistics.median(them),
                     "ratio": statistics.median(ratios), "ratios": ratios})
    if a.json:
        print(json.dumps({"model": a.model, "threads": a.threads, "tokens_per_s": rows}))
        return
    print(f"{a.model}, {a.threads} threads, tokens a second\n{'':16}{'tribunal':>10}{'llama.cpp':>11}{'ratio':>7}  pairs")
    for r in rows:
        spread = ", ".join(f"{x:.2f}" for x in r["ratios"])
        print(f"{r['what']:16}{r['tribunal']:>10.1f}{r['llama_cpp']:>11.1f}{r['ratio']:>7.2f}  {spread}")


if __name__ == "__main__":
    main()
