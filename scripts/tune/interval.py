#!/usr/bin/env python3
"""How often raters' scores of a test set lie within the intervals that `probe` gives.

    python3 scripts/tune/interval.py --testset wmt23 -l en-de RUN

RUN is a run folder over the test set. Prints the share within, below and above, and the mean width, over the rated
translations that have an interval.
"""

import argparse
import json
from pathlib import Path


def gold(testset, pair, kind="mqm"):
    """Raters' scores by system, a line for each segment."""
    scores = {}
    for line in (testset / "human-scores" / f"{pair}.{kind}.seg.score").read_text(encoding="utf-8").splitlines():
        system, score = line.split("\t")
        scores.setdefault(system, []).append(None if score == "None" else float(score))
    return scores


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--testset", type=Path, required=True)
    parser.add_argument("-l", "--pair", required=True)
    parser.add_argument("run", type=Path)
    args = parser.parse_args()
    rated = gold(args.testset, args.pair)
    within = below = above = 0
    width = 0.0
    with (args.run / "verdicts.jsonl").open(encoding="utf-8") as lines:
        for verdict in map(json.loads, lines):
            score = rated.get(verdict["system"], {})[verdict["seg"]] if verdict["system"] in rated else None
            if score is None or not verdict.get("interval"):
                continue
            low, high = verdict["interval"]
            within += low <= score <= high
            below += score < low
            above += score > high
            width += high - low
    n = within + below + above
    if n == 0:
        raise SystemExit("error: no rated translation of the run has an interval; hint: `--method probe`, and a pair of its fit")
    print(f"{n} translations: {within / n:.1%} within, {below / n:.1%} below, {above / n:.1%} above; mean width {width / n:.1f}")


if __name__ == "__main__":
    main()
