#!/usr/bin/env python3
# /// script
# requires-python = ">=3.9"
# ///
"""How many calls a method makes for a verdict and how many tokens their answers have, by a run of each: the figures that
plans expect (`answer_tokens` and `typical` of crates/judges/src).

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

    print("| method | verdicts | calls each | answer tokens each |\n|---|---|---|---|")
    for method in args.methods.split(","):
        out = args.out / method
        command = [args.tribunal, "score", *sys.argv[of_score + 1 :], "--method", method, "--out", out]
        run = subprocess.run(command, capture_output=True, text=True)
        if run.returncode not in (0, 1):  # 1: a caution about the scores
            print(f"error: {method}: {run.stderr.strip().splitlines()[-1]}", file=sys.stderr)
            continue
        with (out / "verdicts.jsonl").open() as lines:
            verdicts = sum(1 for _ in lines)
        with (out / "calls.jsonl").open() as lines:
            lengths = [json.loads(line)["usage"]["generated"] for line in lines]
        print(f"| {method} | {verdicts} | {len(lengths) / verdicts:.1f} | {sum(lengths) / len(lengths):.0f} |", flush=True)


if __name__ == "__main__":
    main()
