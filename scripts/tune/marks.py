#!/usr/bin/env python3
"""What the marks of a judge are worth: beside raters' marks of a test set.

    python3 scripts/tune/marks.py --testset wmt23 -l en-de RUN

RUN is a run folder over rated translations (`rated.py`). Of several raters of a translation, the first by name counts. Prints
the share of translations with a major error, and of those without any error, that have a mark; the share of marks that touch
a rater's mark, and of the major errors that a mark touches; and the share of major ones among both.
"""

import argparse
import collections
import json
from pathlib import Path


def ratings(testset, pair):
    """Raters' errors in the translation by system and segment."""
    found = {}
    for path in sorted((testset / "human-scores").glob(f"{pair}.mqm.*.seg.rating")):
        seen = collections.Counter()
        for line in path.read_text(encoding="utf-8").splitlines():
            system, rating = line.split("\t", 1)
            segment = seen[system]
            seen[system] += 1
            if rating.strip() not in ("None", ""):
                found.setdefault((system, segment), json.loads(rating)["errors"])
    return found


def is_major(error):
    return error["severity"].lower() in ("major", "critical")


def touch(a, b):
    return None not in (a.get("start"), b.get("start")) and a["start"] < b["end"] and b["start"] < a["end"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--testset", type=Path, required=True)
    parser.add_argument("-l", "--pair", required=True)
    parser.add_argument("run", type=Path)
    args = parser.parse_args()
    rated, shares = ratings(args.testset, args.pair), collections.defaultdict(list)
    for line in (args.run / "verdicts.jsonl").open(encoding="utf-8"):
        verdict = json.loads(line)
        errors = rated.get((verdict["system"], verdict["seg"]))
        if errors is None:
            continue
        marks = verdict["errors"]
        if any(map(is_major, errors)):
            shares["of translations with a major error have a mark"].append(bool(marks))
        if not errors:
            shares["of translations without an error have a mark"].append(bool(marks))
        of_text = [error for error in errors if not error.get("is_source_error") and error.get("start") is not None]
        shares["of marks touch a rater's"] += [any(touch(mark, error) for error in of_text) for mark in marks]
        shares["of major errors are touched"] += [any(touch(mark, e) for mark in marks) for e in of_text if is_major(e)]
        shares["of marks are major"] += map(is_major, marks)
        shares["of raters' marks are major"] += map(is_major, of_text)
    for name, values in shares.items():
        print(f"{sum(values) / max(1, len(values)):.3f} {name} ({len(values)})")


if __name__ == "__main__":
    main()
