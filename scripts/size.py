#!/usr/bin/env python3
"""Counts what the project's size is limited by: lines of Rust code, words of docs, long options.

    scripts/size.py [--check] [--tribunal PATH]

Code is lines without comments, blank lines and tests: files and folders named `tests`, modules under `#[cfg(test)]`, `crates/testing`,
`fuzz` and `benches` are left out. Docs are README.md, docs/, ARCHITECTURE.md, BENCHMARKS.md and CONTRIBUTING.md. Options are
counted by `tribunal`'s own unit test; here are those that its sources declare. `--check` exits with 1 where a limit is exceeded.
"""

import argparse
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIMITS = {"src/cli": 6_500, "all Rust": 56_000, "docs, words": 20_000}
DOCS = ["README.md", "ARCHITECTURE.md", "BENCHMARKS.md", "CONTRIBUTING.md"]


def without_tests(text):
    """The text without its `#[cfg(test)]` modules, functions and uses."""
    kept, lines, at = [], text.split("\n"), 0
    while at < len(lines):
        if lines[at].strip() != "#[cfg(test)]":
            kept.append(lines[at])
            at += 1
            continue
        indent = len(lines[at]) - len(lines[at].lstrip())
        at += 1
        while at < len(lines):
            line = lines[at]
            at += 1
            is_end = line.rstrip() == " " * indent + "}" or re.match(rf" {{{indent}}}\S.*(;|\{{.*\}})$", line)
            if is_end:
                break
    return "\n".join(kept)


def code(path):
    """Lines of code of a Rust file."""
    lines = without_tests(path.read_text()).split("\n")
    return sum(1 for line in lines if line.strip() and not line.strip().startswith("//"))


def is_test(path):
    parts = path.relative_to(ROOT).parts
    return any(part in ("tests", "tests.rs", "testing", "fuzz", "benches", "target", "golden") for part in parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="exit with 1 where a limit is exceeded")
    args = parser.parse_args()
    folders = ["src", "crates", "python/src"]
    files = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.rs")) if not is_test(path)]
    counts = {}
    for path in files:
        parts = path.relative_to(ROOT).parts
        room = "/".join(parts[:2]).removesuffix(".rs")
        counts[room] = counts.get(room, 0) + code(path)
    docs = [ROOT / name for name in DOCS] + sorted((ROOT / "docs").glob("*.md"))
    counts["all Rust"] = sum(counts.values())
    counts["docs, words"] = sum(len(path.read_text().split()) for path in docs)
    too_large = False
    for name, count in counts.items():
        limit = LIMITS.get(name)
        is_over = limit is not None and count > limit
        too_large |= is_over
        print(f"{name:<24}{count:>8,}" + (f"  of {limit:,}" if limit else "") + ("  too large" if is_over else ""))
    sys.exit(1 if args.check and too_large else 0)


if __name__ == "__main__":
    main()
