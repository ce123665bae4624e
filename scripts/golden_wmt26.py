# /// script
# requires-python = ">=3.10"
# dependencies = ["numpy==2.4.6", "scipy==1.17.1", "scikit-learn==1.9.1"]
# ///
"""Writes tests/golden/wmt26.json: the statistics of WMT26's evaluation task as their reference implementations compute
them: MPP by its authors' package, Matthews' correlation by scikit-learn, agreement of annotators by scipy and from
Krippendorff's definition.

usage: uv run scripts/golden_wmt26.py --spans SPAN_MT_METRICS_EVAL > tests/golden/wmt26.json

SPAN_MT_METRICS_EVAL is a checkout of sted19/span-mt-metrics-eval at b55b90f.
"""

import argparse
import itertools
import json
import logging
import pathlib
import platform
import sys

import numpy as np
import scipy
import scipy.stats
import sklearn
from sklearn.metrics import matthews_corrcoef


def span(rng, length, sides):
    start = int(rng.integers(0, length))
    end = int(min(length + 8, start + rng.integers(1, 2 + length // 2)))
    return {"start": start, "end": end, "side": str(rng.choice(sides))}


def corpus(rng, n, most, length, sides):
    """Predictions that are partly the references, moved, cut and joined, and partly chance."""
    predictions, references = [], []
    for _ in range(n):
        reference = [span(rng, length, sides) for _ in range(rng.integers(0, most + 1))]
        prediction = [span(rng, length, sides) for _ in range(rng.integers(0, most // 2 + 1))]
        for one in reference:
            if rng.random() < 0.7:
                start = max(0, one["start"] + int(rng.integers(-3, 4)))
                end = max(start + 1, one["end"] + int(rng.integers(-3, 4)))
                prediction.append({**one, "start": start, "end": end})
        predictions.append(prediction)
        references.append(reference)
    return predictions, references


def spans(rng):
    from span_mt_metrics_eval import compute

    cases = []
    one, both = ["target"], ["target", "source"]
    settings = [(40, 3, 30, one), (40, 5, 12, one), (30, 7, 40, both), (25, 6, 10, one)]
    for n, most, length, sides in settings:
        predictions, references = corpus(rng, n, most, length, sides)
        found = compute(predictions, references)
        segments = found.details.as_dict()["segments_components"]
        cases.append(
            {
                "predictions": predictions,
                "references": references,
                "micro": [found.precision, found.recall, found.f_score],
                "segments": [list(segment.values()) for segment in segments],
            }
        )
    empty = compute([[], []], [[], []])
    micro = [empty.precision, empty.recall, empty.f_score]
    cases.append({"predictions": [[], []], "references": [[], []], "micro": micro, "segments": []})
    return cases


def error_free(rng):
    """The correlation of the decision `score >= threshold` with labels, at every threshold between two scores."""
    cases = []
    for n, levels, share in [(30, 5, 0.3), (200, 100, 0.13), (120, 8, 0.6), (60, 40, 0.05)]:
        labels = (rng.random(n) < share).astype(int)
        scores = np.clip(np.round(rng.normal(labels * levels / 4 + levels / 2, levels / 5)), 0, levels).astype(float)
        distinct = np.unique(scores)
        thresholds = [-np.inf, *((distinct[:-1] + distinct[1:]) / 2)]
        curve = [float(matthews_corrcoef(labels, scores >= threshold)) for threshold in thresholds]
        best = int(np.argmax(curve))
        cases.append(
            {
                "scores": scores.tolist(),
                "labels": labels.tolist(),
                "curve": curve,
                "threshold": None if best == 0 else float(thresholds[best]),
                "mcc": curve[best],
            }
        )
    return cases


def interval_alpha(units):
    """Krippendorff's alpha for intervals, from observed and expected disagreement over ordered pairs of values."""
    units = [unit for unit in units if len(unit) > 1]
    values = [value for unit in units for value in unit]
    observed = sum(
        sum((a - b) ** 2 for a, b in itertools.permutations(unit, 2)) / (len(unit) - 1) for unit in units
    ) / len(values)
    expected = sum((a - b) ** 2 for a, b in itertools.permutations(values, 2)) / (len(values) * (len(values) - 1))
    return 1 - observed / expected


def annotators(rng):
    """Annotators of 60 translations each, some of which agree with no other one."""
    cases = []
    for n_annotators, noise, bad in [(2, 8, []), (4, 15, [2]), (5, 30, [0, 3])]:
        truth = rng.integers(0, 101, 60).astype(float)
        columns = []
        for annotator in range(n_annotators):
            scores = truth + rng.normal(0, noise, truth.size)
            if annotator in bad:
                scores = rng.permutation(scores)
            scores = np.clip(np.round(scores), 0, 100)
            rated = rng.random(truth.size) < 0.7
            columns.append([float(score) if there else None for score, there in zip(scores, rated)])
        pairs = []
        for first, second in itertools.combinations(range(n_annotators), 2):
            shared = [(a, b) for a, b in zip(columns[first], columns[second]) if a is not None and b is not None]
            a, b = zip(*shared)
            tau = scipy.stats.kendalltau(a, b, variant="b", alternative="greater")
            r = scipy.stats.pearsonr(a, b)
            pairs.append([first, second, len(shared), *map(float, (r.statistic, tau.statistic, tau.pvalue))])
        with_others = []
        for annotator in range(n_annotators):
            shared = []
            for cell in range(truth.size):
                others = [columns[other][cell] for other in range(n_annotators) if other != annotator]
                others = [score for score in others if score is not None]
                if columns[annotator][cell] is not None and others:
                    shared.append((columns[annotator][cell], sum(others) / len(others)))
            with_others.append([len(shared), float(scipy.stats.pearsonr(*zip(*shared)).statistic)])
        units = [[column[cell] for column in columns if column[cell] is not None] for cell in range(truth.size)]
        agrees = [
            any(annotator in (first, second) and p < 0.05 for first, second, _, _, _, p in pairs)
            for annotator in range(n_annotators)
        ]
        alpha = interval_alpha(units)
        case = {"columns": columns, "pairs": pairs, "with_others": with_others, "alpha": alpha, "agrees": agrees}
        cases.append(case)
    return cases


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spans", required=True, type=pathlib.Path)
    args = parser.parse_args()
    sys.path.insert(0, str(args.spans / "src"))
    logging.disable(logging.WARNING)
    rng = np.random.default_rng(20260730)
    golden = {
        "made_by": {
            "script": "scripts/golden_wmt26.py",
            "python": platform.python_version(),
            "numpy": np.__version__,
            "scipy": scipy.__version__,
            "scikit-learn": sklearn.__version__,
            "span-mt-metrics-eval": "b55b90f8",
        },
        "spans": spans(rng),
        "error_free": error_free(rng),
        "annotators": annotators(rng),
    }
    print(json.dumps(golden, separators=(",", ":")))


if __name__ == "__main__":
    main()
