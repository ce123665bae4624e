# /// script
# requires-python = ">=3.9"
# ///
"""The tables of docs/methods.md.

    python3 scripts/methods_table.py [--check] [--tribunal PROGRAM]
    python3 scripts/methods_table.py --testset DIR -l en-de --systems ONLINE-B --limit 20 --out out/methods

Without `--testset` it writes the table of all methods between its two markers in docs/methods.md: what `tribunal
methods list --json` prints of each, and the number of entries in the `Differs:` list of its file. `--check` writes
nothing and exits with 1 if the page differs.

With `--testset` it runs every method on the first segments of a test set and prints what each costs. Each method runs
twice, the second time with other batch and job limits; its verdicts must be the same bytes. A finished folder is not
run again.

`--tribunal` names the program; default: target/release/tribunal.
"""

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/methods.md"
JUDGES = ROOT / "crates/judges/src"
BEGIN = "<!-- methods: written by scripts/methods_table.py -->"
END = "<!-- /methods -->"

# `overlap=allow`: the examples may come from the documents under judgement, since only the cost is of interest here.
METHODS = [
    "gemba-mqm", "gemba-mqm:form=json", "mqm-ape", "gemba-da", "gemba-sqm", "gemba-stars", "gemba-classes", "gemba-esa",
    "eaprompt", "eaprompt:steps=1", "rubric-mqm", "fsp", "gmicl:overlap=allow", "m-mad", "himate", "rate", "difficulty",
    "thinking",
]


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--tribunal", default="target/release/tribunal")
    p.add_argument("--check", action="store_true", help="write nothing; exit with 1 if docs/methods.md differs")
    p.add_argument("--testset", help="measure costs on this test set instead")
    p.add_argument("-l", "--lp", default="en-de")
    p.add_argument("--systems", default="ONLINE-B")
    p.add_argument("--limit", type=int, default=20)
    p.add_argument("--model", default="qwen2.5-coder-0.5b-instruct")
    p.add_argument("--methods", default=",".join(METHODS), help="names, with commas between")
    p.add_argument("--shots", help="rated translations for gmicl: a file or a test set folder")
    p.add_argument("--once", action="store_true", help="no second run")
    p.add_argument("--out", default="out/methods")
    a = p.parse_args()
    if not a.testset:
        sys.exit(page(a))
    print("| method | calls a segment | prompt tokens a segment | of them computed | answer tokens |")
    print("|---|---|---|---|---|")
    for method in split(a.methods):
        print(row(a, method), flush=True)


def page(a):
    """Writes the table of methods into the page, or compares it; the exit code."""
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    old, after = rest.split(END)
    new = "\n" + "\n".join(methods_table(a.tribunal)) + "\n"
    if old == new:
        return 0
    if a.check:
        print("docs/methods.md is out of date; hint: python3 scripts/methods_table.py", file=sys.stderr)
        return 1
    PAGE.write_text(before + BEGIN + new + END + after, encoding="utf-8")
    return 0


def methods_table(tribunal):
    """The lines of the table of all methods, as the program declares them."""
    listed = subprocess.run([tribunal, "methods", "list", "--json"], check=True, capture_output=True)
    lines = ["| `--method` | paper | one prompt shows | calls a unit | differences |", "|---|---|---|---|---|"]
    for method in json.loads(listed.stdout):
        name, calls, file = method["name"], method["calls"], file_of(method["name"])
        count = str(calls["least"]) if calls["least"] == calls["most"] else f"{calls['least']} to {calls['most']}"
        lines.append(f"| [`{name}`](../{file.relative_to(ROOT).as_posix()}) | {method['paper']} "
                     f"| {', '.join(method['granularities'])} | {count} | {n_differences(file) or '-'} |")
    return lines


def file_of(name):
    """The file that declares a method."""
    declared = f'    name: "{name}",\n'
    return next(file for file in sorted(JUDGES.glob("*.rs")) if declared in file.read_text(encoding="utf-8"))


def n_differences(file):
    """How many entries the `Differs:` list of a judge's header has; 0 without a list."""
    header = re.match(r"(?://!.*\n)+", file.read_text(encoding="utf-8"))
    listed = re.search(r"^//! Differs.*:\n((?://! (?:- |  ).*\n)+)", header.group(0), re.MULTILINE)
    return len(re.findall(r"^//! - ", listed.group(1), re.MULTILINE)) if listed else 0


def split(methods):
    """Names with their options: a comma before `x=y` belongs to the options."""
    names = []
    for part in methods.split(","):
        if names and "=" in part and ":" not in part:
            names[-1] += "," + part
        else:
            names.append(part)
    return names


def row(a, method):
    first = score(a, method, "a", [])
    if first is None:
        return f"| `{method}` (could not run) | | | | |"
    notes = []
    if not a.once:
        second = score(a, method, "b", ["--batch", "7", "--jobs", "5"])
        equal = second and (first / "verdicts.jsonl").read_bytes() == (second / "verdicts.jsonl").read_bytes()
        notes += [] if equal else ["**not the same twice**"]
    lines = [json.loads(line) for line in open(first / "verdicts.jsonl", encoding="utf-8")]
    calls = [json.loads(line) for line in open(first / "calls.jsonl", encoding="utf-8")]
    usage = [call["usage"] for call in calls]
    total = {key: sum(u[key] for u in usage) for key in ["computed", "cached", "generated"]}
    prompt, n = total["computed"] + total["cached"], len(lines)
    whole = sum(line["status"] == "ok" for line in lines)
    notes += [f"{whole} of {n} verdicts"] if whole < n else []
    label = f"`{method}`" + (f" ({', '.join(notes)})" if notes else "")
    share = f"{total['computed'] / n:,.0f} ({total['computed'] / max(prompt, 1):.0%})"
    return f"| {label} | {len(calls) / n:.1f} | {prompt / n:,.0f} | {share} | {total['generated'] / n:,.0f} |"


def score(a, method, run, more):
    out = Path(a.out) / (method.replace(":", "-").replace(",", "-").replace("=", "-") + "-" + run)
    command = [a.tribunal, "score", "--testset", a.testset, "-l", a.lp, "--systems", a.systems, "--limit", str(a.limit),
               "--method", method, "--model", a.model, "--out", str(out), "--quiet", "--only-system", *more]
    if method.startswith("gmicl"):
        if not a.shots:
            return None
        command += ["--shots", a.shots]
    done = subprocess.run(command, stdout=subprocess.DEVNULL)
    if done.returncode == 2:
        print(f"`{' '.join(command)}` could not run", file=sys.stderr)
        return None
    return out


if __name__ == "__main__":
    main()
