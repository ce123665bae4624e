# /// script
# requires-python = ">=3.10"
# dependencies = ["numpy==2.4.6", "scipy==1.17.1"]
# ///
"""Writes tests/golden/pooled_significance.json: p-values of mt-metrics-eval's PERM-BOTH for the accuracy of systems pooled over
WMT23's en-de and zh-en, for every two metrics of the folder, and what comes of standardising each pair's scores by themselves.

usage: uv run scripts/golden_pooled.py --mtme MT_METRICS_EVAL --testset WMT23

MT_METRICS_EVAL is a checkout of google-research/mt-metrics-eval at 68a481ae.
"""

import argparse
import itertools
import json
import pathlib
import sys

PAIRS = ("en-de", "zh-en")
RESAMPLES = 10000


def systems_scores(path):
    rows = (line.split() for line in path.read_text().splitlines())
    return {system: None if score == "None" else float(score) for system, score in rows}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mtme", required=True, type=pathlib.Path)
    parser.add_argument("--testset", required=True, type=pathlib.Path)
    args = parser.parse_args()
    sys.path.insert(0, str(args.mtme))
    import numpy
    import scipy
    from mt_metrics_eval import stats

    gold, scores = [], {}
    for pair in PAIRS:
        human = systems_scores(args.testset / f"human-scores/{pair}.mqm.sys.score")
        machine = sorted(s for s, score in human.items() if score is not None and s not in ("refA", "synthetic_ref"))
        gold.append([human[system] for system in machine])
        for path in sorted((args.testset / f"metric-scores/{pair}").glob("*.sys.score")):
            of_metric = systems_scores(path)
            name = path.name.removesuffix(".sys.score").rsplit("-", 1)[0]
            scores.setdefault(name, []).append([of_metric[system] for system in machine])
    sizes = [len(part) for part in gold]
    flat = list(itertools.chain(*gold))

    def accuracy(one, other):
        agreed, pairs, start = 0, 0, 0
        for size in sizes:
            a, n = stats.Agreement(one[start : start + size], other[start : start + size])
            agreed, pairs, start = agreed + a, pairs + n, start + size
        return agreed / pairs, pairs

    def p_value(worse, better):
        one, other = (stats.Correlation(len(flat), flat, list(itertools.chain(*parts))) for parts in (worse, better))
        numpy.random.seed(1)
        params = stats.PermutationSigDiffParams(block_size=RESAMPLES)
        return stats.PermutationSigDiff(one, other, accuracy, "none", RESAMPLES, params)[:2]

    def apart(parts):
        return [list(scipy.stats.zscore(part)) for part in parts]

    value = {name: accuracy(flat, list(itertools.chain(*parts)))[0] for name, parts in scores.items()}
    order = sorted(scores, key=lambda name: (-value[name], name))
    rows = []
    for better, worse in itertools.combinations(order, 2):
        p, delta = p_value(scores[worse], scores[better])
        p_apart, _ = p_value(apart(scores[worse]), apart(scores[better]))
        rows.append({"better": better, "worse": worse, "delta": delta, "p": p, "p_apart": p_apart})
    flips = [row for row in rows if (row["p"] <= 0.05) != (row["p_apart"] <= 0.05)]
    print(f"{len(flips)} of {len(rows)} decisions at 0.05 are others where each pair is standardised by itself")
    made_by = f"scripts/golden_pooled.py; mt-metrics-eval 68a481ae, numpy {numpy.__version__}, scipy {scipy.__version__}"
    golden = {"made_by": made_by, "pairs": PAIRS, "resamples": RESAMPLES, "comparisons": rows}
    out = pathlib.Path(__file__).parent.parent / "tests/golden/pooled_significance.json"
    out.write_text(json.dumps(golden, indent=1) + "\n")


main()
