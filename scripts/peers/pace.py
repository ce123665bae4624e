"""What comparisons of bare prompts and bare answers have in common: our side, pairs of runs in turn, the table.

Both sides read a prompt of the same length and write the same number of tokens, one sequence alone and several in
parallel; ours samples and takes every token's exact log-probability. Peak memory is that of the whole process.
Standard library only.
"""

import argparse
import json
import os
import statistics
import sys

from pairs import PEAK, run, weights


def arguments(program, description, **defaults):
    p = argparse.ArgumentParser(prog=program, description=description)
    p.add_argument("--tribunal", required=True, help=argparse.SUPPRESS)
    p.add_argument("--model", default="qwen2.5-coder-0.5b-instruct", help="a card, or a GGUF file")
    p.add_argument("--prompt", type=int, default=512, help="prompt tokens of each sequence")
    p.add_argument("--answer", type=int, default=64, help="answer tokens of each sequence")
    p.add_argument("--sequences", default="1,8,16", help="in parallel")
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--pairs", type=int, default=3)
    p.add_argument("--json", action="store_true", help="print one JSON object")
    p.set_defaults(**defaults)
    return p


def ours(a):
    common = ["--model", a.model, "--threads", str(a.threads), "--prompt", str(a.prompt), "--repeats", "1", "--json"]
    prefill = json.loads(run([a.tribunal + "-bench", "prefill", *common]))
    decode = json.loads(run([a.tribunal + "-bench", "decode", *common, "--rows", a.sequences,
                             "--answer", str(a.answer)]))
    return figures(a, prefill["prefill"][0]["tokens_per_s"], decode["decode"])


def figures(a, prompt, decode):
    """One side's figures: tokens a second, and the peak memory of the process that ran last."""
    speeds = {f"{d['batch']} answers": d["tokens_per_s"] for d in decode}
    return {f"prompt of {a.prompt}": prompt} | speeds | {"peak memory, GB": PEAK["bytes"] / 1e9}


def compare(a, who, theirs):
    """Pairs of runs, printed: `theirs(a, gguf)` runs the other side once. `None` is what it cannot do."""
    gguf = weights(a)
    pairs = []
    for pair in range(a.pairs):
        pairs.append((ours(a), theirs(a, gguf)))
        print(f"pair {pair + 1} of {a.pairs} done", file=sys.stderr)
    rows = []
    for what in pairs[0][0]:
        us, them = ([p[side][what] for p in pairs] for side in (0, 1))
        can = None not in them
        ratios = sorted(u / t for u, t in zip(us, them)) if can else []
        rows.append({"what": what, "tribunal": statistics.median(us), who: statistics.median(them) if can else None,
                     "ratio": statistics.median(ratios) if can else None, "ratios": ratios})
    if a.json:
        print(json.dumps({"model": a.model, "threads": a.threads, "tokens_per_s": rows}))
        return
    print(f"{a.model}, {a.threads} threads, tokens a second\n{'':16}{'tribunal':>10}{who:>14}{'ratio':>7}  pairs")
    for r in rows:
        them, ratio = ("none" if r[key] is None else f"{r[key]:.{n}f}" for key, n in [(who, 1), ("ratio", 2)])
        spread = ", ".join(f"{x:.2f}" for x in r["ratios"])
        print(f"{r['what']:16}{r['tribunal']:>10.1f}{them:>14}{ratio:>7}  {spread}")
