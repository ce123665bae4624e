# /// script
# requires-python = ">=3.9"
# dependencies = []
# ///
"""Compares two runs of the same judge on two devices: `beside.py CPU_RUN GPU_RUN [--tolerance 0.1] [--beyond 0]`.

Prints one JSON object: scores side by side, and over the tokens that both devices chose the largest and the mean
difference of log-probability. Where two tokens are nearly as likely, devices that round differently may choose
differently; an answer is compared as far as the tokens agree, and how many answers agree to the end is counted.
In a mixture of experts two of them can be nearly as likely too, and a token whose experts differ has another
log-probability: --beyond is the share of tokens whose difference may exceed the tolerance.
Exit code 1: more differences of log-probability than that are larger than the tolerance, or nothing could be compared.
"""

import argparse
import json
import sys
from pathlib import Path


def lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def scores(run):
    units = lines(run / "verdicts.jsonl")
    return {f"{u['system']}/{u['doc']}/{u['seg']}": (u["status"], u["score"]) for u in units}


def calls(run):
    """{what a call asked: its tokens with their log-probabilities}."""
    key = ("group", "system", "doc", "seg", "role", "stage", "attempt", "prompt_sha256")
    found = {}
    for call in lines(run / "calls.jsonl"):
        found[json.dumps([call.get(k) for k in key])] = list(zip(call["tokens"], call["logprobs"]))
    return found


def compare(cpu, gpu):
    differences, whole, n = [], 0, 0
    for key in sorted(cpu.keys() & gpu.keys()):
        ours, theirs = gpu[key], cpu[key]
        agreed = 0
        while agreed < min(len(ours), len(theirs)) and ours[agreed][0] == theirs[agreed][0]:
            agreed += 1
        differences += [abs(a[1] - b[1]) for a, b in zip(ours[:agreed], theirs[:agreed])]
        n += 1
        whole += agreed == len(ours) == len(theirs)
    return differences, whole, n


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cpu", type=Path)
    parser.add_argument("gpu", type=Path)
    parser.add_argument("--tolerance", type=float, default=0.1)
    parser.add_argument("--beyond", type=float, default=0.0)
    args = parser.parse_args()
    differences, whole, n = compare(calls(args.cpu), calls(args.gpu))
    theirs, ours = scores(args.cpu), scores(args.gpu)
    largest = max(differences, default=None)
    beyond = sum(difference > args.tolerance for difference in differences)
    json.dump(
        {
            "answers": n,
            "answers_with_the_same_tokens": whole,
            "tokens_compared": len(differences),
            "logprob_difference_largest": largest,
            "logprob_difference_mean": sum(differences) / len(differences) if differences else None,
            "tolerance": args.tolerance,
            "tokens_beyond": beyond,
            "scores": {unit: {"cpu": theirs[unit], "gpu": ours.get(unit)} for unit in theirs},
        },
        sys.stdout,
    )
    print()
    return 0 if differences and beyond <= args.beyond * len(differences) else 1


if __name__ == "__main__":
    sys.exit(main())
