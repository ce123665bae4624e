#!/usr/bin/env python3
# /// script
# requires-python = ">=3.10"
# ///
"""One table of public ratings before WMT22, for `qe_train.py`.

    TRIBUNAL_DATA=DIR python3 scripts/tune/qe_table.py --repos REPOS --out table.jsonl.xz

REPOS has clones of github.com/sheffieldnlp/mlqe-pe (CC0: direct assessments and critical errors),
WMT-QE-Task/wmt-qe-2022-data, wmt-conference/wmt23-news-systems and wmt-conference/wmt24-news-systems (for what is left out);
DIR has `ratings-2020-2021` (google/wmt-mqm-human-evaluation, Apache-2.0, and the direct assessments of MLQE-PE) and `wmt23`.

A line: `corpus`, `pair`, `source`, `translation`, `score` (MQM points of the mean rater, at most 0; standard deviations;
-1 for a critical error), and for MQM `raters`: of each the marks `[start, end, points]`, in characters.

Left out: sources of WMT23, of WMT24 and of MQM's test of 2022 (by the hash of their text without spaces); the test sets of
MLQE-PE; the pairs of HELD_OUT; assessments of 2023.
"""

import argparse
import collections
import hashlib
import io
import json
import lzma
import os
import re
import subprocess
import tarfile
from pathlib import Path

HELD_OUT = {"en-cs", "en-ja", "ps-en", "km-en", "en-hi", "he-en", "en-gu", "en-ta", "en-te", "en-yo"}
POINTS = {"minor": 1.0, "major": 5.0, "critical": 5.0}


class Repo:
    def __init__(self, root, name):
        found = [path for path in (root / name, root / name.split("/")[-1]) if path.exists()]
        if not found:
            raise SystemExit(f"error: {root} has no clone of github.com/{name}")
        self.path = found[0]

    def git(self, *args):
        return subprocess.run(["git", "-C", str(self.path), *args], capture_output=True, check=True).stdout

    def read(self, path):
        return self.git("show", f"HEAD:{path}")

    def list(self, folder):
        return self.git("ls-tree", "-r", "--name-only", "HEAD", folder).decode().split("\n")[:-1]


def key(text):
    return hashlib.sha256(re.sub(r"\s+", "", text).encode()).digest()[:8]


def later_sources(repos, data):
    """The keys of all sources of the tests of 2022 to 2024."""
    keys = set()
    for name in ("wmt-conference/wmt23-news-systems", "wmt-conference/wmt24-news-systems"):
        repo = Repo(repos, name)
        texts = [repo.read(path).decode() for path in repo.list("txt/sources")]
        keys |= {key(line) for text in texts for line in text.split("\n") if len(line) > 20}
    repo = Repo(repos, "WMT-QE-Task/wmt-qe-2022-data")
    for path in repo.list("test_data-gold_labels/task1_mqm"):
        if path.endswith(".src"):
            keys |= {key(line) for line in repo.read(path).decode().split("\n") if len(line) > 20}
    for path in sorted((data / "wmt23/sources").iterdir()):
        keys |= {key(line) for line in path.read_text().split("\n") if len(line) > 20}
    return keys


def tests_of_mlqe(repo):
    """The keys of the sources of MLQE-PE's two test sets, by pair."""
    keys = collections.defaultdict(set)
    for path in repo.list("data/direct-assessments/test") + repo.list("data/test21"):
        pair = "-".join(path.split("/")[-1].split("-")[:2])
        archive = tarfile.open(fileobj=io.BytesIO(repo.read(path)))
        for member in archive.getmembers():
            name = member.name.split("/")[-1]
            if name.startswith("._") or not member.isfile():
                continue
            lines = archive.extractfile(member).read().decode("utf8", "replace").split("\n")
            if name.endswith(".tsv"):
                rows = (line.split("\t") for line in lines[1:])
                keys[pair] |= {key(row[1]) for row in rows if len(row) > 2}
            elif name.endswith(".src"):
                keys[pair] |= {key(line) for line in lines if line.strip()}
    return keys


def points(error):
    category, severity = error["category"].lower(), error["severity"].lower()
    if error.get("is_source_error"):
        return 0.0
    if "non-translation" in category:
        return 25.0
    return 0.1 if severity == "minor" and "punctuation" in category else POINTS.get(severity, 0.0)


def mqm(data):
    for path in sorted((data / "ratings-2020-2021").glob("*-*.jsonl.xz")):
        units = collections.OrderedDict()
        for line in lzma.open(path, "rt"):
            rating = json.loads(line)
            marks = [(error["start"], error["end"], points(error)) for error in rating["errors"]]
            units.setdefault((rating["source"], rating["hypothesis"]), []).append(marks)
        corpus = path.name.split(".jsonl")[0]
        for (source, translation), raters in units.items():
            score = sum(-min(25.0, sum(mark[2] for mark in marks)) for marks in raters) / len(raters)
            row = {"corpus": corpus, "pair": corpus.split(".")[0], "source": source, "translation": translation}
            yield {**row, "score": score, "raters": raters}


def assessments(data, tests):
    for line in lzma.open(data / "ratings-2020-2021/da.jsonl.xz", "rt"):
        rating = json.loads(line)
        pair = f"{rating['src_lang']}-{rating['tgt_lang']}"
        if pair in HELD_OUT or "2023" in rating["set"] or key(rating["source"]) in tests.get(pair, ()):
            continue
        row = {"corpus": f"da.{pair}", "pair": pair, "source": rating["source"], "translation": rating["hypothesis"]}
        yield {**row, "score": rating["z"]}


def critical_errors(repo):
    for pair, name in (("en-de", "ende"), ("en-zh", "enzh")):
        for part in ("train", "dev"):
            for line in repo.read(f"data/catastrophic_errors/{name}_majority_{part}.tsv").decode().split("\n"):
                fields = line.split("\t")
                if len(fields) >= 5:
                    row = {"corpus": f"critical.{pair}", "pair": pair, "source": fields[1], "translation": fields[2]}
                    yield {**row, "score": 0.0 if fields[4].strip() == "NOT" else -1.0}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repos", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    data, mlqe = Path(os.environ["TRIBUNAL_DATA"]), Repo(args.repos, "sheffieldnlp/mlqe-pe")
    left_out, tests, counts = later_sources(args.repos, data), tests_of_mlqe(mlqe), collections.Counter()
    with lzma.open(args.out, "wt", preset=1) as out:
        for rows in (mqm(data), assessments(data, tests), critical_errors(mlqe)):
            for row in rows:
                if key(row["source"]) in left_out:
                    counts["left out: a source of a later test"] += 1
                elif row["source"].strip() and row["translation"].strip():
                    counts[row["corpus"]] += 1
                    out.write(json.dumps(row, ensure_ascii=False) + "\n")
    for name, n in sorted(counts.items()):
        print(f"{n:7} {name}")


if __name__ == "__main__":
    main()
