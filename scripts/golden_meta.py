# /// script
# requires-python = ">=3.10"
# dependencies = ["numpy==2.4.6", "scipy==1.17.1", "sacrebleu==2.6.0"]
# ///
"""Writes tests/golden/meta.json: what scipy, numpy and sacreBLEU compute for the statistics of `meta`.

usage: uv run scripts/golden_meta.py > tests/golden/meta.json
"""

import json
import platform

import numpy as np
import sacrebleu
import scipy
import scipy.signal
import scipy.special
import scipy.stats

HYPOTHESES = [
    'The cat sat on the mat, and it didn\'t move "at all".',
    "Er sagte: „Das kostet 3.50 € (ca. 10%)“ – und ging.",
    "we have 1,000.5 reasons -- none of them good & valid &lt;b&gt;",
    "一个测试：GB/T 1.1-2020 标准，第2部分。",
    "Hello",
    "a",
    "This one has a long tail that the reference does not share at all , sadly",
    "こんにちは、世界！2023年のテストです。",
    "naïve café — ½ déjà-vu; x² + y² = z²",
    "",
    "U.S. troops, 5-year-old don't know. A.B.C",
    "The the the the cat",
]
REFERENCES = [
    'The cat was sitting on the mat and did not move "at all".',
    "Er sagte: „Das macht 3,50 € (etwa 10 %)“ und ging.",
    "We have 1,000.5 reasons - none of them is good & valid <b>",
    "测试：GB/T 1.1-2020 标准的第2部分。",
    "Hello there",
    "b",
    "This one has a tail",
    "こんにちは世界。2023年の試験です！",
    "naive café - 1/2 déjà vu; x² + y² = z²",
    "something",
    "US troops, 5-year-olds don't know. A.B.C.",
    "The cat",
]


def correlations(rng):
    cases = []
    for n, levels in [(3, 9), (5, 4), (12, 30), (40, 6), (200, 12), (30, 1000)]:
        gold = rng.integers(0, levels, n).astype(float)
        metric = np.round(gold + rng.normal(0, levels / 3, n), 1)
        if levels > 100:
            gold = rng.permutation(n).astype(float)
            metric = rng.permutation(n).astype(float)
        case = {"gold": gold.tolist(), "metric": metric.tolist()}
        for name, function in [
            ("pearson", scipy.stats.pearsonr),
            ("spearman", scipy.stats.spearmanr),
            ("kendall_b", lambda x, y: scipy.stats.kendalltau(x, y, variant="b")),
            ("kendall_c", lambda x, y: scipy.stats.kendalltau(x, y, variant="c")),
        ]:
            found = function(gold, metric)
            case[name] = [float(found.statistic), float(found.pvalue)]
        cases.append(case)
    return cases


def pairwise_p_values(scores, resamples=1000, seed=4):
    """The p-values of soft pairwise accuracy; scores are integers, so that every order of summation agrees."""
    signs = np.rint(np.random.default_rng(seed).random((resamples, scores.shape[1]), dtype=np.float32)) * 2 - 1
    scores = scores.astype(np.float32)
    partial, total = signs @ scores.T, scores.sum(axis=1)
    systems = range(len(scores))
    return [
        float(np.mean(partial[:, i] - partial[:, j] >= total[i] - total[j])) for i in systems for j in systems if i < j
    ]


def soft(rng):
    scores = rng.integers(-25, 1, (6, 83))
    return {"scores": scores.tolist(), "p_values": pairwise_p_values(scores)}


def tails():
    return [[t, dof, float(scipy.stats.t.sf(t, dof))] for t in (-2.5, -0.3, 0.0, 0.7, 1.9, 6.0) for dof in (1, 2, 7, 40, 455)]


def lexical():
    bleu = {}
    for tokenizer in ("13a", "intl", "zh", "char", "none"):
        corpus = sacrebleu.BLEU(tokenize=tokenizer)
        sentence = sacrebleu.BLEU(tokenize=tokenizer, effective_order=True)
        bleu[tokenizer] = {
            "corpus": corpus.corpus_score(HYPOTHESES, [REFERENCES]).score,
            "sentences": [sentence.sentence_score(h, [r]).score for h, r in zip(HYPOTHESES, REFERENCES)],
            "tokens": [corpus.tokenizer(h) for h in HYPOTHESES],
        }
    chrf = {}
    for name, options in {"chrF2": {}, "chrF2++": {"word_order": 2}}.items():
        metric = sacrebleu.CHRF(**options)
        chrf[name] = {
            "corpus": metric.corpus_score(HYPOTHESES, [REFERENCES]).score,
            "sentences": [metric.sentence_score(h, [r]).score for h, r in zip(HYPOTHESES, REFERENCES)],
        }
    return {"hypotheses": HYPOTHESES, "references": REFERENCES, "bleu": bleu, "chrf": chrf}


def temperatures(rng):
    """ReMedy's temperatures (remedy/toolbox/calibration.py at 6f1519c), one distribution for each list of them."""
    draws = [
        np.concatenate([rng.normal(5.5, 0.8, 180), rng.normal(3, 1, 20)]),
        np.concatenate([rng.normal(-3, 1, 80), rng.normal(4, 1, 120)]),
        np.concatenate([rng.normal(4.6, 0.4, 130), rng.normal(2.5, 1.5, 70)]),
        np.concatenate([rng.normal(0.5, 0.3, 90), rng.normal(3.5, 0.3, 110)]),
        rng.normal(1, 2, 200),
    ]
    cases = []
    for outputs in (np.round(draw, 3) for draw in draws):
        points = np.linspace(outputs.min() - 0.5, outputs.max() + 0.5, 1000)
        density = scipy.stats.gaussian_kde(outputs, bw_method="silverman")(points)
        peaks, _ = scipy.signal.find_peaks(density, height=0.1 * density.max(), distance=50)
        above = {level: np.mean(outputs > level) for level in (1, 4, 5)}
        spread = np.mean(outputs < 0) > 0.05 and outputs.min() < -1 and above[1] > 0.3
        if above[4] > 0.7 and outputs.mean() > 4 and above[5] > 0.3:
            tried = np.linspace(1.4, 1.9, 6)
        elif len(peaks) > 1 and spread:
            tried = np.linspace(0.15, 0.35, 5)
        elif above[4] > 0.5:
            tried = np.linspace(0.8, 1.5, 8)
        else:
            tried = np.linspace(0.3, 0.7, 8) if len(peaks) > 1 else np.linspace(0.4, 1.2, 8)

        def entropy(temperature):
            shares = np.histogram(scipy.special.expit(outputs / temperature), bins=20, range=(0, 1))[0] / len(outputs)
            return -np.sum(shares * np.log2(shares + 1e-10))

        cases.append({"outputs": outputs.tolist(), "temperature": float(max(tried, key=entropy))})
    return cases


def main():
    rng = np.random.default_rng(20231207)
    golden = {
        "made_by": {
            "script": "scripts/golden_meta.py",
            "python": platform.python_version(),
            "numpy": np.__version__,
            "scipy": scipy.__version__,
            "sacrebleu": sacrebleu.__version__,
        },
        "correlations": correlations(rng),
        "soft": soft(rng),
        "student_t_tails": tails(),
        "lexical": lexical(),
        "temperatures": temperatures(rng),
    }
    print(json.dumps(golden, ensure_ascii=False, indent=1))


if __name__ == "__main__":
    main()
