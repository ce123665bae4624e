# /// script
# requires-python = ">=3.9"
# ///
"""Compares the method `remedy` with the scores that ReMedy's authors publish for their example.

    git clone https://github.com/Smu-Tan/Remedy
    tribunal models pull remedy-9b-22
    python3 scripts/remedy_check.py Remedy/testcase [--model remedy-9b-22] [--out out/remedy] [--tribunal PROGRAM] [OPTION...]

Judges the 2,037 lines of `testcase/` (en-de, with references) and compares the means of the raw scores and of their
logistic function with those in the repository's README (version 0.1.1, bf16). Further options go to `tribunal score`.
A finished run folder is not run again. The exit code is 1 where a mean differs by more than `TOLERANCE`.
"""

import argparse
import json
import math
import subprocess
import sys
from pathlib import Path

PUBLISHED = {"raw": 4.502863049214531, "sigmoid": 0.9613502018042875}
# The published outputs are sums of rounded 16-bit products.
TOLERANCE = {"raw": 0.02, "sigmoid": 0.002}
LINES = 2037


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("testcase", type=Path)
    parser.add_argument("--model", default="remedy-9b-22")
    parser.add_argument("--out", type=Path, default=Path("out/remedy"))
    parser.add_argument("--tribunal", default="target/release/tribunal")
    args, options = parser.parse_known_args()
    files = ["-s", args.testcase / "en.src", "-t", args.testcase / "en-de.hyp", "-r", args.testcase / "de.ref"]
    command = [args.tribunal, "score", *files, "-l", "en-de", "--method", "remedy", "--language-check", "off"]
    command += ["--model", args.model, "--out", args.out, "--quiet", "--only-system", *options]
    status = subprocess.run([str(part) for part in command], stdout=subprocess.DEVNULL).returncode
    if status not in (0, 1):  # 1: verdicts are missing; they are counted below
        sys.exit(status)
    lines = (args.out / "verdicts.jsonl").read_text(encoding="utf-8").splitlines()
    raw = [json.loads(line).get("raw") for line in lines]
    missing = sum(value is None for value in raw)
    if len(raw) != LINES or missing:
        sys.exit(f"{len(raw)} verdicts, {missing} of them missing; {LINES} were expected")
    scores = {"raw": raw, "sigmoid": [1 / (1 + math.exp(-value)) for value in raw]}
    worst = 0
    for name, published in PUBLISHED.items():
        mean = math.fsum(scores[name]) / LINES
        differs = abs(mean - published) > TOLERANCE[name]
        worst |= differs
        print(f"{name}: {mean:.6f}, published {published:.6f}{' DIFFERS' if differs else ''}")
    sys.exit(worst)


if __name__ == "__main__":
    main()
