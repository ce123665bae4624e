#!/usr/bin/env python3
"""The translations of a test set that raters judged, as lines for `tribunal score --input`.

    python3 scripts/tune/rated.py --testset wmt23 -l en-de [--every 4] [--gold esa] > rated.jsonl

`--every N` takes the first of each N rated segments, with all of its translations. A judge of segments gives them the scores
that it gives them within the test set, and is not asked about the others.
"""

import argparse
import json
from pathlib import Path

from interval import gold


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--testset", type=Path, required=True)
    parser.add_argument("-l", "--pair", required=True)
    parser.add_argument("--gold", default="mqm", help="the human scores (default: mqm)")
    parser.add_argument("--every", type=int, default=1, metavar="N")
    args = parser.parse_args()

    def lines(path):
        return (args.testset / path).read_text(encoding="utf-8-sig").split("\n")

    rated = gold(args.testset, args.pair, args.gold)
    chosen = sorted({seg for scores in rated.values() for seg, score in enumerate(scores) if score is not None})[:: args.every]
    sources = lines(f"sources/{args.pair}.txt")
    docs = [line.split("\t")[1] for line in lines(f"documents/{args.pair}.docs") if line]
    src_lang, tgt_lang = args.pair.split("-")
    for system in sorted(rated):
        output = args.testset / "system-outputs" / args.pair / f"{system}.txt"
        if not output.exists() or all(rated[system][seg] is None for seg in chosen):
            continue
        translations = lines(output.relative_to(args.testset))
        for seg in chosen:
            row = {"source": sources[seg], "hypothesis": translations[seg], "src_lang": src_lang, "tgt_lang": tgt_lang}
            print(json.dumps({**row, "system": system, "doc": docs[seg], "seg": seg}, ensure_ascii=False))


if __name__ == "__main__":
    main()
