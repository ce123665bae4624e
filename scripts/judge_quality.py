# /// script
# requires-python = ">=3.9"
# ///
"""How well small judges agree with human raters on documents that none of ours was trained on, from nothing to a table.

    python3 scripts/judge_quality.py --testset WMT23 [--segments 24] [--judges NAME;...] [--adapter DIR] [--out DIR]
    python3 scripts/judge_quality.py --testset WMT23 --segments 8 --judges written --small-models

For each language pair it draws whole documents among those that `tribunal tune --hold-out 0.2 --seed 0` holds out, lets
every judge score all systems' translations of them, and asks `tribunal meta` how well they agree with the MQM ratings,
beside chrF, random scores, one constant score, the translation's length, each system's mean rating, and the metrics that
the folder has scores of. What is compared is compared on the same translations. A judge that is finished is not run
again. `--judges written` are the methods whose models generate answers, with the 1.5B: with `--segments 8`, about 100
rated translations of each pair.

`--small-models` writes acc-t of these judges, and of random scores, into crates/judges/src/small_models.tsv, which
`tribunal methods` and the warnings before a run print.

Columns: acc-t within a source (ties calibrated on the same data, for all alike), Pearson and Spearman over all
translations, SPA over systems, span F1 (docs/meta-evaluation.md: `offsets`, of the translation and of the source), the
share of the translation's characters that are marked, prompt tokens (read or found in the cache) and answer tokens a
translation. SPA takes the folder's own system scores for its metrics,
which are of all documents.
"""

import argparse
import hashlib
import json
import random
import subprocess
import sys
from pathlib import Path

SMALL, LARGE = "qwen2.5-coder-0.5b-instruct", "qwen2.5-coder-1.5b-instruct"
# Name: method, model; {other} is the language pair that the judge is not asked about.
JUDGES = {
    "probe 0.5B": ("probe", SMALL),
    "probe 0.5B, taught {other} only": ("probe:fit={fit}", SMALL),
    "likelihood 0.5B, forward": ("likelihood", SMALL),
    "likelihood 0.5B, both ways": ("likelihood:direction=both", SMALL),
    "gemba-da 0.5B, expected": ("gemba-da:score=expected", SMALL),
    "gemba-mqm 0.5B": ("gemba-mqm", SMALL),
    "gemba-mqm 1.5B": ("gemba-mqm", LARGE),
    "fsp 0.5B": ("fsp", SMALL),
    "fsp 1.5B": ("fsp", LARGE),
    "gemba-esa 1.5B": ("gemba-esa", LARGE),
    "rubric-mqm 1.5B": ("rubric-mqm", LARGE),
    "gmft 0.5B, base": ("gmft", SMALL),
    "gmft 0.5B, tuned": ("gmft", SMALL),
}
# Judges whose models generate answers.
WRITTEN = ["gemba-mqm 1.5B", "fsp 1.5B", "gemba-esa 1.5B", "rubric-mqm 1.5B"]
SMALL_MODELS = Path(__file__).resolve().parent.parent / "crates/judges/src/small_models.tsv"
STATISTICS = ["seg:acc-eq@item", "seg:pearson", "seg:spearman", "sys:spa"]


def main():
    p = argparse.ArgumentParser(prog="scripts/judge_quality.py", description=__doc__.split("\n")[0])
    p.add_argument("--tribunal", default="target/release/tribunal")
    p.add_argument("--testset", required=True, help="the WMT23 folder in mt-metrics-eval's layout, with ratings")
    p.add_argument("--pairs", default="en-de,zh-en")
    p.add_argument("--segments", type=int, default=24, help="of each system, in whole documents")
    p.add_argument("--judges", help="names of the table, with semicolons between, or `written`; default: all")
    p.add_argument("--small-models", action="store_true", help="write acc-t into the table of small models")
    p.add_argument("--adapter", help="an adapter by scripts/tune/gmft_gpu.py, for `gmft 0.5B, tuned`")
    p.add_argument("--fits", default="", help="PAIR=FILE,...: fits of `tribunal tune probe -l PAIR`")
    p.add_argument("--metrics", default="chrF,BLEU,CometKiwi,MetricX-23-QE,GEMBA-MQM,COMET")
    p.add_argument("--seed", type=int, default=0, help="draws the documents")
    p.add_argument("--out", default="out/quality")
    a = p.parse_args()
    for pair in a.pairs.split(","):
        print_pair(a, pair)


def print_pair(a, pair):
    folder = Path(a.out) / pair
    folder.mkdir(parents=True, exist_ok=True)
    names = folder / "documents.txt"
    names.write_text("".join(f"{name}\n" for name in held_out(a, pair)), encoding="utf-8")
    fits = dict(fit.split("=", 1) for fit in a.fits.split(",") if fit)
    chosen = WRITTEN if a.judges == "written" else a.judges.split(";") if a.judges else list(JUDGES)
    if unknown := [name for name in chosen if name not in JUDGES]:
        sys.exit(f"error: no judge of the table is called `{unknown[0]}`; hint: {'; '.join(JUDGES)}")
    runs = {}
    for name in chosen:
        method, model = JUDGES[name]
        other = next((known for known in fits if known != pair), None)
        if ("{fit}" in method and not other) or (name.endswith("tuned") and not a.adapter):
            print(f"{name}: left out, for want of `--fits` or `--adapter`", file=sys.stderr)
            continue
        method = method.format(fit=fits.get(other))
        adapter = ["--adapter", a.adapter] if name.endswith("tuned") else []
        name = name.format(other=other)
        runs[name] = judge(a, pair, names, folder / slug(name), [method, model, *adapter])
    baselines = folder / "baselines"
    baselines.mkdir(exist_ok=True)
    made_up(a, pair, baselines)
    measured = meta(a, pair, runs, baselines)
    table(a, pair, runs, measured)
    if a.small_models:
        write_small_models(a, pair, runs, measured)


def write_small_models(a, pair, runs, measured):
    """Replaces the rows of the measured methods and models on this pair."""
    values = measured["result"]["tasks"][0]["values"]
    acc_t = lambda name: number(values.get(name)).removeprefix("0")
    command = f"scripts/judge_quality.py --testset WMT23 --segments {a.segments}" + (f" --judges {a.judges}" if a.judges else "")
    new = {(*JUDGES[name], pair): [acc_t(name), acc_t("random"), command] for name in runs if name in WRITTEN}
    new = {key: row for key, row in new.items() if "-" not in row}
    rows = [line.split("\t") for line in SMALL_MODELS.read_text(encoding="utf-8").splitlines()]
    rows = {tuple(row[:3]): row[3:] for row in rows} | new
    text = "".join("\t".join([*key, *row]) + "\n" for key, row in sorted(rows.items()))
    SMALL_MODELS.write_text(text, encoding="utf-8")


def held_out(a, pair):
    """The rule of `tribunal tune --hold-out 0.2 --seed 0` (docs/tuning.md)."""
    lines = Path(a.testset, "documents", f"{pair}.docs").read_text(encoding="utf-8").splitlines()
    documents = dict.fromkeys(line.split()[1] for line in lines)
    fraction = lambda name: int.from_bytes(hashlib.sha256(f"0/{pair}/{name}".encode()).digest()[:8], "big") / 2**64
    return [f"{pair}/{name}" for name in documents if fraction(name) < 0.2]


def judge(a, pair, names, out, how):
    method, model, *more = how
    command = [a.tribunal, "score", "--testset", a.testset, "-l", pair, "--documents", str(names), "--subset", str(a.segments),
               "--seed", str(a.seed), "--method", method, "--model", model, "--out", str(out), "--quiet", "--only-system",
               *more]
    if not (out / "summary.json").exists():
        print(f"{pair}, {method}, {model} ...", file=sys.stderr)
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode > 1:
        sys.exit(f"`{' '.join(command)}`: {done.stderr}")
    return out


def made_up(a, pair, folder):
    """Scores that know nothing of a translation: random ones, and one for all."""
    gold = Path(a.testset, "human-scores", f"{pair}.mqm.seg.score").read_text(encoding="utf-8").splitlines()
    rows = [(line.split("\t")[0], line.split("\t")[1].strip()) for line in gold]
    draw = random.Random(0)
    write = lambda name, rows: (folder / f"{name}.{pair}.seg.score").write_text(
        "".join(f"{system}\t{score}\n" for system, score in rows), encoding="utf-8")
    write("random", [(system, draw.random()) for system, _ in rows])
    write("constant", [(system, 0) for system, _ in rows])
    rated = {}
    for system, score in rows:
        if score != "None":
            rated.setdefault(system, []).append(float(score))
    write("system", [(s, sum(rated[s]) / len(rated[s]) if s in rated else "None") for s, _ in rows])


def meta(a, pair, runs, baselines):
    command = [a.tribunal, "meta", "--testset", a.testset, "-l", pair, "--format", "json", "--metrics", a.metrics]
    for name in ["random", "constant", "system"]:
        command += ["--scores", f"{name}={baselines}/{name}.{{lp}}.{{level}}.score"]
    for name, out in runs.items():
        command += ["--scores", f"{name}={out}"]
    if any(map(has_spans, runs.values())):
        command += ["--also", "spans"]
    for statistic in STATISTICS:
        command += ["--stat", statistic]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"error: `{' '.join(command)}` ended with {done.returncode}")
    return json.loads(done.stdout)


def has_spans(out):
    return any(json.loads(line).get("errors") for line in open(out / "verdicts.jsonl", encoding="utf-8"))


def slug(name):
    return "".join(c if c.isalnum() else "-" for c in name)


def table(a, pair, runs, measured):
    columns = {task["statistic"]: task.get("baselines", {}) | task["values"] for task in measured["result"]["tasks"]}
    names = list(dict.fromkeys(name for values in columns.values() for name in values))
    spans = {of["name"]: of["found"]["characters"] for of in measured.get("more", {}).get("spans", [])}
    spans = {name: found for name, found in spans.items() if name not in runs or has_spans(runs[name])}
    bases = measured["result"]["tasks"][0]["bases"].values()
    compared = max((base["translations"] for base in bases), default=0)
    print(f"\n{pair}: {compared} translations by {len(measured['directions'][0]['systems'])} systems\n")
    print("| | acc-t | Pearson | Spearman | SPA | span F1 | of sources | marked | tokens read | written |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    ours = [name for name in names if name in runs]
    for name in sorted(set(names) - set(ours)) + sorted(ours, key=list(runs).index):
        values = [number(values.get(name)) for values in columns.values()]
        f1 = [f"{spans[name][side]['f1']:.3f}" if name in spans else "" for side in ["target", "source"]]
        cells = [name, *values, *f1, marked(runs[name]) if name in runs and name in spans else "", *costs(runs.get(name))]
        print(f"| {' | '.join(cells)} |", flush=True)


def number(value):
    return f"{value['Ok']['value']:.3f}" if value and "Ok" in value else "-"


def marked(out):
    """The share of the translations' characters inside an error span, each counted once; of those with a verdict."""
    inside = total = 0
    for line in open(out / "verdicts.jsonl", encoding="utf-8"):
        verdict = json.loads(line)
        if verdict["status"] != "ok":
            continue
        total += len(verdict["hypothesis"])
        spans = [e for e in verdict["errors"] if e["side"] == "target" and e["start"] is not None]
        inside += len({at for span in spans for at in range(span["start"], span["end"])})
    return f"{inside / total:.1%}" if total else ""


def costs(out):
    if out is None:
        return ["", ""]
    summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    usage, n = summary["cost"]["usage"], sum(1 for _ in open(out / "verdicts.jsonl", encoding="utf-8"))
    read = usage["computed"] + usage["cached"]
    return [f"{read / n:.0f}", f"{usage['generated'] / n:.0f}"]


if __name__ == "__main__":
    main()
