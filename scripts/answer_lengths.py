#!/usr/bin/env python3
# /// script
# requires-python = ">=3.9"
# ///
"""How many calls a method makes for a verdict and how many tokens their answers have, by a run of each: the figures that
plans expect (`answer_tokens` and `typical` of crates/judges/src). Answers are a line over the bytes of source and
translation, by least squares, that falls nowhere and is not below 0.

    scripts/answer_lengths.py TRIBUNAL --methods gemba-da,rate -- --testset WMT23 -l en-de --systems ONLINE-B --limit 12

What follows `--` goes to `tribunal score`. Runs are kept in --out, and one that is there already is not repeated.
"""

import argparse
import json
import pathlib
import subprocess
import sys


def main() -> None:
    of_score = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tribunal", type=pathlib.Path)
    parser.add_argument("--methods", required=True, help="names, separated by commas")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("target/answer-lengths"))
    args = parser.parse_args(sys.argv[1:of_score])

    print("| method | verdicts | calls each | answer tokens each | at 0 bytes | for each 1,000 bytes |\n|---|---|---|---|---|---|")
    for method in args.methods.split(","):
        out = args.out / method
        command = [args.tribunal, "score", *sys.argv[of_score + 1 :], "--method", method, "--out", out]
        run = subprocess.run(command, capture_output=True, text=True)
        if run.returncode not in (0, 1):  # 1: a caution about the scores
            print(f"error: {method}: {run.stderr.strip().splitlines()[-1]}", file=sys.stderr)
            continue
        verdicts = [json.loads(line) for line in (out / "verdicts.jsonl").open()]
        n_bytes = {(v["doc"], v["seg"]): len((v["source"] + v["hypothesis"]).encode()) for v in verdicts}
        calls = [json.loads(line) for line in (out / "calls.jsonl").open()]
        points = [(n_bytes[call["doc"], call["seg"]], call["usage"]["generated"]) for call in calls]
        lengths = [length for _, length in points]
        at_0, of_1000 = line(points)
        each, mean = len(calls) / len(verdicts), sum(lengths) / len(lengths)
        print(f"| {method} | {len(verdicts)} | {each:.1f} | {mean:.0f} | {at_0:.0f} | {of_1000:.0f} |", flush=True)


def line(points: list[tuple[int, int]]) -> tuple[float, float]:
    """Intercept and slope for each 1,000 bytes."""
    x = sum(x for x, _ in points) / len(points)
    y = sum(y for _, y in points) / len(points)
    square = sum((at - x) ** 2 for at, _ in points)
    slope = max(0.0, sum((at - x) * (n - y) for at, n in points) / max(square, 1))
    slope = min(slope, y / x)
    return y - slope * x, 1000 * slope


if __name__ == "__main__":
    main()
