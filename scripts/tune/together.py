#!/usr/bin/env python3
"""The weighted mean of two judges' standardised scores, as `tribunal meta --scores` reads it.

    python3 scripts/tune/together.py --testset wmt23 -l en-de --weight .5 RUN RUN > both.en-de.seg.score

Of the translations that both runs judged; the others are `None`. `--weight` is the first run's.
"""

import argparse
import json
import statistics
from pathlib import Path


def standardised(run, keys):
    mean, spread = statistics.fmean(run[key] for key in keys), statistics.pstdev(run[key] for key in keys)
    return {key: (run[key] - mean) / spread for key in keys}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--testset", type=Path, required=True)
    parser.add_argument("-l", "--pair", required=True)
    parser.add_argument("--weight", type=float, default=0.5)
    parser.add_argument("runs", type=Path, nargs=2)
    args = parser.parse_args()
    verdicts = [map(json.loads, (run / "verdicts.jsonl").open(encoding="utf-8")) for run in args.runs]
    scores = [{(v["system"], v["seg"]): v["score"] for v in run if v["score"] is not None} for run in verdicts]
    keys = sorted(scores[0].keys() & scores[1].keys())
    first, second = (standardised(run, keys) for run in scores)
    n = len((args.testset / "sources" / f"{args.pair}.txt").read_text(encoding="utf-8").splitlines())
    for system in sorted({system for system, _ in keys}):
        for key in ((system, segment) for segment in range(n)):
            mean = args.weight * first[key] + (1 - args.weight) * second[key] if key in first else None
            print(f"{system}\t{mean}")


if __name__ == "__main__":
    main()
