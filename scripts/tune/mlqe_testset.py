#!/usr/bin/env python3
"""The direct assessments of MLQE-PE's test of 2021 as a test set in mt-metrics-eval's layout.

    python3 scripts/tune/mlqe_testset.py --repos CLONES --out mlqe21
    tribunal score --testset mlqe21 -l en-cs --method qe --out en-cs
    tribunal meta --testset mlqe21 -l en-cs --gold da --scores qe=en-cs --stat seg:pearson --stat seg:spearman

CLONES has a clone of github.com/sheffieldnlp/mlqe-pe (CC0). Eleven pairs of 1,000 sources and one system's translations; a
score is the mean of raters' z-scores. No translation of en-cs, en-ja, km-en and ps-en is among the published training data.
"""

import argparse
import io
import tarfile
from pathlib import Path

from qe_table import Repo

SYSTEM = "MT"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repos", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    repo = Repo(args.repos, "sheffieldnlp/mlqe-pe")
    for path in repo.list("data/test21_goldlabels"):
        if not path.endswith(".tar.gz"):
            continue
        pair = "-".join(path.split("/")[-1].split("-")[:2])
        archive = tarfile.open(fileobj=io.BytesIO(repo.read(path)))
        files = {member.name.split("/")[-1]: member for member in archive.getmembers() if member.isfile()}
        lines = {
            kind: archive.extractfile(files[f"test21.{kind}"]).read().decode().rstrip("\n").split("\n")
            for kind in ("src", "mt", "da")
        }
        assert len(lines["src"]) == len(lines["mt"]) == len(lines["da"]), pair
        scores = [f"{SYSTEM}\t{float(score)}" for score in lines["da"]]
        for name, text in {
            f"sources/{pair}.txt": lines["src"],
            f"documents/{pair}.docs": [f"mlqe\tsentence-{i + 1}" for i in range(len(scores))],
            f"system-outputs/{pair}/{SYSTEM}.txt": lines["mt"],
            f"human-scores/{pair}.da.seg.score": scores,
        }.items():
            file = args.out / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("".join(f"{line}\n" for line in text), encoding="utf-8")
        print(f"{pair}: {len(scores)}")


if __name__ == "__main__":
    main()
