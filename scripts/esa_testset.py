#!/usr/bin/env python3
# /// script
# requires-python = ">=3.10"
# ///
"""Pairs of WMT24 with ratings by ESA, as a test set in mt-metrics-eval's layout, from a clone of
github.com/wmt-conference/wmt24-news-systems.

    python3 scripts/esa_testset.py --repo wmt24-news-systems --out wmt24 [--pairs en-cs,en-hi,en-ja,en-zh]
    tribunal meta --testset wmt24 -l en-cs --gold esa ...

A score is the mean of a translation's raters, 0 to 100. A rating's segment is a line of the sources, whose first one is the
canary.
"""

import argparse
import collections
import csv
import json
import subprocess
from pathlib import Path

LANGUAGES = {"ces": "cs", "hin": "hi", "jpn": "ja", "zho": "zh", "eng": "en"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--repo", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--pairs", default="en-cs,en-hi,en-ja,en-zh")
    args = parser.parse_args()

    def git(*words):
        return subprocess.run(["git", "-C", str(args.repo), *words], capture_output=True, check=True).stdout.decode()

    files = git("ls-tree", "-r", "--name-only", "HEAD", "txt").splitlines()
    ratings = collections.defaultdict(list)
    for wave in range(4):
        path = f"humeval/esa_generalMT2024_wave{wave}.csv"
        try:
            rows = csv.reader(git("show", f"HEAD:{path}").splitlines())
        except subprocess.CalledProcessError:
            print(f"not there: {path}")
            continue
        for _, system, segment, kind, src_lang, tgt_lang, score, _, _, marks, *_ in rows:
            if kind == "TGT" and "tutorial" not in system:
                pair = f"{LANGUAGES.get(src_lang)}-{LANGUAGES.get(tgt_lang)}"
                ratings[pair, system, int(segment)].append((float(score), json.loads(marks)))
    for pair in args.pairs.split(","):
        src_lang, tgt_lang = pair.split("-")

        def write(path, text):
            path = args.out / path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

        def copy(path, to):
            text = git("show", f"HEAD:{path}")
            write(to, text)
            return text.rstrip("\n").split("\n")

        sources = copy(f"txt/sources/{pair}.txt", f"sources/{pair}.txt")
        copy(f"txt/documents/{pair}.docs", f"documents/{pair}.docs")
        copy(f"txt/references/{pair}.refA.txt", f"references/{pair}.refA.txt")
        rated, n = [], 0
        for path in files:
            if path.startswith(f"txt/system-outputs/{pair}/"):
                system = Path(path).stem
                lines = copy(path, f"system-outputs/{pair}/{system}.txt")
                of_system = [ratings.get((pair, system, i)) for i in range(len(sources))]
                for line, some in zip(lines, of_system):
                    ends = [mark["end_i"] for _, marks in some or [] for mark in marks if isinstance(mark.get("end_i"), int)]
                    assert max(ends, default=0) <= len(line), (system, line, ends)
                means = [sum(score for score, _ in some) / len(some) if some else None for some in of_system]
                if any(mean is not None for mean in means):
                    rated += [f"{system}\t{mean}\n" for mean in means]
                    n += sum(mean is not None for mean in means)
        write(f"human-scores/{pair}.esa.seg.score", "".join(rated))
        print(f"{pair}: {n} rated translations of {len(rated) // len(sources)} systems")


if __name__ == "__main__":
    main()
