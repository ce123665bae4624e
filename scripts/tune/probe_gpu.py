# /// script
# requires-python = ">=3.10"
# dependencies = ["torch==2.9.1", "transformers==4.57.3", "peft==0.18.0", "safetensors>=0.5"]
# ///
"""Trains an adapter under the judge `probe`: LoRA on the layers that it reads, so that linear maps find more there.

    tribunal tune export --as probe-jsonl --input RATINGS... --out examples
    uv run scripts/tune/probe_gpu.py --examples examples --model Qwen/Qwen2.5-Coder-0.5B-Instruct --out judge
    tribunal tune probe --input RATINGS... --adapter judge --out fit.json
    tribunal score --method probe:fit=fit.json --adapter judge -s SRC -t HYP -l en-de

Maps are trained along with the adapter and dropped: `tribunal tune probe --adapter` fits its own in closed form, on the
states as the program computes them, quantized weights and all. What is learnt: the score of a translation in units of its
scale's deviation, the same as the difference from the other translations of its source, which of two of them is better,
and the share of the raters that marked each token. Scales and biases of corpora are nuisance terms, which are dropped too.
Every default is ours. On a GPU the base is in bf16 and the adapter in f32; no GPU has run it yet.

Writes into --out: the adapter in PEFT's layout, of the lowest held-out loss so far; `training.json`; `progress.jsonl`;
`trained.sha256` and `held_out.txt` of the examples; and `state.pt`, from which `--resume` goes on. --minutes, SIGINT and
SIGTERM end it after a step, with what there is written.

    python scripts/tune/probe_gpu.py --tiny [--tribunal target/debug/tribunal]

trains a tiny model on the CPU and checks that (scripts/tune/probe_test.py).
"""

import argparse
import dataclasses
import json
import math
import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path

import peft
import torch
import torch.nn.functional as F
import transformers
from peft import LoraConfig, get_peft_model, get_peft_model_state_dict, set_peft_model_state_dict
from safetensors.torch import save
from torch import nn
from transformers import AutoModel, AutoTokenizer

MODULES = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
MODEL_TYPES = {"llama", "mistral", "qwen2", "qwen3"}
N_LENGTHS = 5  # see `lengths`
LEAST_APART = 0.1  # deviations by which raters must tell two translations apart for their order to be learnt


@dataclasses.dataclass(frozen=True)
class Recipe:
    """What decides the adapter's numbers, beside the model and the examples."""

    depth: int = 0
    epochs: int = 1
    batch_tokens: int = 16384
    lr: float = 2e-4
    map_lr: float = 1e-3
    warm_up: float = 0.05
    clip: float = 1.0
    rank: int = 32
    alpha: int = 64
    dropout: float = 0.05
    rank_loss: float = 1.0
    token_loss: float = 1.0
    max_tokens: int = 1024
    held_out_examples: int = 2048
    every: int = 50
    seed: int = 0


HELP = {
    "depth": "after how many layers the states are read, as in `tribunal tune probe --depth`; 0 for three in five",
    "epochs": "times that every example is seen",
    "batch_tokens": "tokens of one step, padding included; all translations of a source are in one",
    "lr": "the highest learning rate of the adapter",
    "map_lr": "that of the maps",
    "warm_up": "share of the steps in which the learning rates rise; from there a line goes to 0",
    "clip": "the longest gradient",
    "rank": "LoRA's",
    "alpha": "LoRA's; B A is multiplied by alpha / rank",
    "dropout": "LoRA's",
    "rank_loss": "weight of the order of translations of one source",
    "token_loss": "weight of the tokens that raters marked",
    "max_tokens": "longer examples are left out",
    "held_out_examples": "how many of them are measured, at most",
    "every": "steps between two measurements of the held-out loss",
    "seed": "draws the order of examples, the adapter's first numbers and what is dropped",
}


@dataclasses.dataclass
class Example:
    ids: list  # prompt, then text
    n_prompt: int
    source_bytes: int  # at least 1
    score: float
    scale: str
    source: str
    is_penalty: bool
    marks: list  # of each token of the text: share of the raters, share as major


def options(argv):
    p = argparse.ArgumentParser(prog="scripts/tune/probe_gpu.py", description=__doc__.split("\n")[0])
    p.add_argument("--examples", type=Path, metavar="DIR", help="what `tribunal tune export --as probe-jsonl` wrote")
    p.add_argument("--model", metavar="NAME|DIR", help="a model in Hugging Face's layout, not quantized")
    p.add_argument("--out", type=Path, metavar="DIR")
    p.add_argument("--minutes", type=float, help="stop after the step in which this time is over")
    p.add_argument("--resume", action="store_true", help="go on from state.pt in --out")
    p.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    p.add_argument("--tiny", action="store_true", help="train a tiny model on the CPU and check what comes of it")
    p.add_argument("--tribunal", type=Path, metavar="PATH", help="with --tiny: the program that takes the adapter")
    for field in dataclasses.fields(Recipe):
        name = "--" + field.name.replace("_", "-")
        p.add_argument(name, type=field.type, default=field.default, help=f"{HELP[field.name]} ({field.default})")
    a = p.parse_args(argv)
    if not a.tiny and not (a.examples and a.model and a.out):
        p.error("--examples, --model and --out are missing; hint: or --tiny, to try it out")
    return a


def main(argv=None):
    a = options(argv)
    if a.tiny:
        sys.path.insert(0, str(Path(__file__).parent))
        import probe_test

        return probe_test.main(a.tribunal)
    train(a, Recipe(**{field.name: getattr(a, field.name) for field in dataclasses.fields(Recipe)}))


# Examples


def read(path, tokenizer, max_tokens):
    """The examples of a file, and how many were too long."""
    examples, too_long = [], 0
    for line in path.read_text(encoding="utf-8").splitlines():
        line = json.loads(line)
        prompt = tokenizer(line["prompt"], add_special_tokens=False).input_ids
        encoded = tokenizer(line["text"], add_special_tokens=False, return_offsets_mapping=True)
        if len(prompt) + len(encoded.input_ids) > max_tokens:
            too_long += 1
            continue
        marks = labels(line["text"], encoded.offset_mapping, line["marks"])
        examples.append(Example(prompt + encoded.input_ids, len(prompt), line["source_bytes"], line["score"], line["scale"],
                                line["source"], line["is_penalty"], marks))
    return examples, too_long


def labels(text, offsets, marks):
    """For each token the shares of the raters that marked a character of it that is not blank. Offsets are of
    characters, marks of bytes."""
    byte = [0]
    for character in text:
        byte.append(byte[-1] + len(character.encode()))
    out = []
    for start, end in offsets:
        seen = [[byte[i], byte[i + 1]] for i in range(start, end) if not text[i].isspace()]
        shares = [0.0, 0.0]
        for at, to, is_major, share in marks:
            if any(a < to and at < b for a, b in seen):
                shares[0] += share
                shares[1] += share * is_major
        out.append([min(1.0, x) for x in shares])
    return out


def batches(examples, tokens, seed):
    """Indices in batches of about the same length, all translations of a source in one."""
    groups = {}
    for i, example in enumerate(examples):
        groups.setdefault(example.source, []).append(i)
    groups = [groups[source] for source in sorted(groups)]
    draw = random.Random(seed)
    longest = lambda group: max(len(examples[i].ids) for i in group)
    groups.sort(key=lambda group: longest(group) * draw.uniform(0.95, 1.05))
    out, width = [[]], 0
    for group in groups:
        width = max(width, longest(group))
        if out[-1] and (len(out[-1]) + len(group)) * width > tokens:
            out.append([])
            width = longest(group)
        out[-1] += group
    draw.shuffle(out)
    return out


class Scales:
    """Means and deviations of the ratings on each scale, of what is trained on."""

    def __init__(self, examples):
        of = {}
        for example in examples:
            of.setdefault(example.scale, []).append(example.score)
        self.names = sorted(of)
        self.index = {name: i for i, name in enumerate(self.names)}
        mean = {name: sum(scores) / len(scores) for name, scores in of.items()}
        deviation = {name: math.sqrt(sum((x - mean[name]) ** 2 for x in scores) / len(scores)) for name, scores in of.items()}
        self.of = {name: (mean[name], max(deviation[name], 1e-3)) for name in of}

    def target(self, example):
        mean, deviation = self.of.get(example.scale, (0.0, 1.0))
        return (example.score - mean) / deviation


def collate(examples, scales, device):
    width = max(len(example.ids) for example in examples)
    ids, own = torch.zeros(len(examples), width, dtype=torch.long), torch.zeros(len(examples), width, dtype=torch.bool)
    marks = torch.zeros(len(examples), width, 2)
    for row, example in enumerate(examples):
        n = len(example.ids)
        ids[row, :n] = torch.tensor(example.ids)
        own[row, example.n_prompt : n] = True
        marks[row, example.n_prompt : n] = torch.tensor(example.marks)
    sources = {source: i for i, source in enumerate(dict.fromkeys(example.source for example in examples))}
    tensor = lambda values, kind: torch.tensor(values, dtype=kind)
    batch = {
        "ids": ids, "own": own, "marks": marks,
        "source_bytes": tensor([example.source_bytes for example in examples], torch.float32),
        "target": tensor([scales.target(example) for example in examples], torch.float32),
        "scale": tensor([scales.index.get(example.scale, 0) for example in examples], torch.long),
        "source": tensor([sources[example.source] for example in examples], torch.long),
        "is_penalty": tensor([example.is_penalty for example in examples], torch.bool),
    }
    return {name: value.to(device) for name, value in batch.items()}


# The judge


def lengths(tokens, source_bytes):
    """Of each translation the facts of its length and its source's that `tribunal tune probe` fits weights for
    (crates/judges/src/probe/facts.rs), divided by what brings them near 1. Shape: [translations, N_LENGTHS]."""
    return torch.cat([tokens / 64.0, tokens.sqrt() / 8.0, source_bytes / 256.0, source_bytes.sqrt() / 16.0,
                      (tokens / source_bytes).log()], 1)


class Judge(nn.Module):
    """Layers with an adapter, and maps of their states."""

    def __init__(self, base, recipe, n_scales):
        super().__init__()
        config = LoraConfig(r=recipe.rank, lora_alpha=recipe.alpha, lora_dropout=recipe.dropout, target_modules=MODULES,
                            task_type="FEATURE_EXTRACTION")
        self.base = get_peft_model(base, config)
        hidden = base.config.hidden_size
        self.score = nn.Linear(hidden + N_LENGTHS, 1)
        self.tokens = nn.Linear(hidden, 2)
        self.log_scale, self.bias = nn.Parameter(torch.zeros(n_scales)), nn.Parameter(torch.zeros(n_scales))
        for layer in (self.score, self.tokens):
            nn.init.zeros_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, batch):
        """Of each translation its score, of each of its tokens the shares; scaled states as `States::features`."""
        # Padding stands behind, where nothing before it looks.
        x = self.base(input_ids=batch["ids"]).last_hidden_state.float()
        x = x * torch.rsqrt(x.square().mean(-1, keepdim=True).clamp_min(1e-30))
        own = batch["own"].float()
        n = own.sum(1, keepdim=True)
        mean = torch.einsum("bth,bt->bh", x, own) / n
        facts = lengths(n, batch["source_bytes"][:, None])
        return self.score(torch.cat([mean, facts], 1)).squeeze(1), self.tokens(x[batch["own"]])


def losses(judge, batch, recipe):
    raw, shares = judge(batch)
    scale = batch["scale"]
    error = judge.log_scale[scale].exp() * raw + judge.bias[scale] - batch["target"]
    huber = lambda x: 2 * F.smooth_l1_loss(x, torch.zeros_like(x), reduction="none")
    count = torch.zeros_like(raw).index_add(0, batch["source"], torch.ones_like(raw))
    mean = torch.zeros_like(raw).index_add(0, batch["source"], error) / count.clamp_min(1)
    count = count[batch["source"]]
    found = {"score": huber(error).mean(), "within": (huber(error - mean[batch["source"]]) * (count > 1)).mean()}
    y = batch["target"]
    better = (batch["source"][:, None] == batch["source"]) & (y[:, None] - y > LEAST_APART)
    order = F.softplus(-2.0 * (raw[:, None] - raw)) * better
    found["rank"] = recipe.rank_loss * (order.sum(1) / count).mean() / math.log(2)
    of_penalty = batch["is_penalty"][:, None].expand_as(batch["own"])[batch["own"]].float()
    missed = (shares - batch["marks"][batch["own"]]).square().sum(1) * of_penalty
    found["tokens"] = recipe.token_loss * missed.sum() / of_penalty.sum().clamp_min(1) * 5
    return found


def load(a, recipe, n_scales):
    """The lower layers of the model, without the final norm."""
    kind = torch.bfloat16 if a.device.startswith("cuda") else torch.float32
    base = AutoModel.from_pretrained(a.model, dtype=kind)
    if base.config.model_type not in MODEL_TYPES:
        sys.exit(f"error: `{a.model}` is of type {base.config.model_type}; one of {', '.join(sorted(MODEL_TYPES))} is needed")
    depth = recipe.depth or len(base.layers) * 3 // 5
    if not 0 < depth < len(base.layers):
        sys.exit(f"error: `--depth {depth}`: the model has {len(base.layers)} layers")
    base.layers = base.layers[:depth]
    base.config.num_hidden_layers = depth
    base.norm = nn.Identity()
    base.requires_grad_(False)
    judge = Judge(base, recipe, n_scales).to(a.device)
    if a.device.startswith("cuda"):
        base.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        base.enable_input_require_grads()
    for name, parameter in judge.named_parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.float()
    return judge, depth


# Training


def trained_state(judge):
    own = {name: value for name, value in judge.state_dict().items() if not name.startswith("base.")}
    return {"adapter": get_peft_model_state_dict(judge.base), "maps": own}


def restore(judge, state):
    set_peft_model_state_dict(judge.base, state["adapter"])
    judge.load_state_dict(state["maps"], strict=False)


@torch.no_grad()
def held_out_loss(judge, examples, scales, recipe, device):
    judge.eval()
    total = n = 0.0
    for rows in batches(examples, recipe.batch_tokens, 0):
        part = losses(judge, collate([examples[i] for i in rows], scales, device), recipe)
        total += len(rows) * float(sum(part.values()))
        n += len(rows)
    judge.train()
    return total / max(n, 1)


def write(path, data):
    """All of it or nothing."""
    part = path.with_name(path.name + ".part")
    part.write_bytes(data)
    os.replace(part, path)


def export(out, judge, a, depth, recipe, record):
    """The adapter as `tribunal` reads it, and what made it."""
    prefix = "base_model.model."
    tensors = {
        f"{prefix}model.{name.removeprefix(prefix)}": value.detach().to(torch.bfloat16).cpu().contiguous()
        for name, value in get_peft_model_state_dict(judge.base).items()
    }
    write(out / "adapter_model.safetensors", save(tensors, metadata={"format": "pt"}))
    config = {
        "peft_type": "LORA", "task_type": "CAUSAL_LM", "base_model_name_or_path": str(a.model), "inference_mode": True,
        "r": recipe.rank, "lora_alpha": recipe.alpha, "lora_dropout": 0.0, "use_rslora": False, "use_dora": False,
        "bias": "none", "fan_in_fan_out": False, "init_lora_weights": True, "modules_to_save": None,
        "layers_pattern": None, "layers_to_transform": list(range(depth)), "target_modules": sorted(MODULES),
    }
    write(out / "adapter_config.json", (json.dumps(config, indent=2) + "\n").encode())
    write(out / "training.json", (json.dumps(record, indent=2) + "\n").encode())


def train(a, recipe):
    start = time.monotonic()
    tokenizer = AutoTokenizer.from_pretrained(a.model)
    (examples, long), (held, _) = (read(a.examples / f, tokenizer, recipe.max_tokens) for f in ("train.jsonl", "held_out.jsonl"))
    if not examples or not held:
        sys.exit(f"error: `{a.examples}` has {len(examples)} examples to train on and {len(held)} to measure")
    random.Random(recipe.seed).shuffle(held)
    held = [example for example in held if example.is_penalty][: recipe.held_out_examples]
    torch.manual_seed(recipe.seed)
    scales = Scales(examples)
    judge, depth = load(a, recipe, len(scales.names))
    steps = [rows for epoch in range(recipe.epochs) for rows in batches(examples, recipe.batch_tokens, recipe.seed + epoch)]
    is_map = lambda name: not name.startswith("base.")
    own = [(name, p) for name, p in judge.named_parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW([
        {"params": [p for name, p in own if not is_map(name)], "lr": recipe.lr},
        {"params": [p for name, p in own if is_map(name)], "lr": recipe.map_lr},
    ], weight_decay=0.0)
    warm = max(1, int(recipe.warm_up * len(steps)))
    rate = lambda step: min((step + 1) / warm, max(0.0, (len(steps) - step) / max(1, len(steps) - warm)))
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
    a.out.mkdir(parents=True, exist_ok=True)
    record = {
        "recipe": dataclasses.asdict(recipe), "model": str(a.model), "depth": depth, "examples": len(examples),
        "too_long": long, "held_out_examples": len(held), "steps": len(steps), "device": a.device,
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__, "peft": peft.__version__},
    }
    at, best = 0, math.inf
    if a.resume and (a.out / "state.pt").exists():
        state = torch.load(a.out / "state.pt", map_location=a.device, weights_only=False)
        if state["recipe"] != dataclasses.asdict(recipe):
            sys.exit(f"error: `{a.out}` belongs to another training; hint: the same options, or another `--out`")
        restore(judge, state)
        optimizer.load_state_dict(state["optimizer"])
        schedule.load_state_dict(state["schedule"])
        torch.set_rng_state(state["rng"].cpu())
        at, best = state["at"], state["best"]
    else:
        (a.out / "progress.jsonl").write_text("")
    for name in ("trained.sha256", "held_out.txt"):
        if (a.examples / name).exists():
            shutil.copyfile(a.examples / name, a.out / name)
    stopped = []
    for sign in (signal.SIGINT, signal.SIGTERM):
        signal.signal(sign, lambda *_: stopped.append(True))
    judge.train()
    while at < len(steps):
        batch = collate([examples[i] for i in steps[at]], scales, a.device)
        part = losses(judge, batch, recipe)
        sum(part.values()).backward()
        nn.utils.clip_grad_norm_([p for _, p in own], recipe.clip)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad(set_to_none=True)
        at += 1
        is_last = at == len(steps) or stopped or (a.minutes and time.monotonic() - start > 60 * a.minutes)
        if at % recipe.every == 0 or is_last:
            loss = held_out_loss(judge, held, scales, recipe, a.device)
            line = {"step": at, "held_out": loss, **{name: float(value.detach()) for name, value in part.items()}}
            with open(a.out / "progress.jsonl", "a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
            print(f"step {at} of {len(steps)}: held-out loss {loss:.4f}", file=sys.stderr, flush=True)
            if loss < best:
                best = loss
                export(a.out, judge, a, depth, recipe, {**record, "best_step": at, "held_out_loss": loss})
            state = {**trained_state(judge), "optimizer": optimizer.state_dict(), "schedule": schedule.state_dict(),
                     "rng": torch.get_rng_state(), "at": at, "best": best, "recipe": dataclasses.asdict(recipe)}
            torch.save(state, a.out / "state.pt.part")
            os.replace(a.out / "state.pt.part", a.out / "state.pt")
        if is_last:
            break
    print(f"next: tribunal tune probe --input RATINGS --adapter {a.out} --depth {depth} --out fit.json", file=sys.stderr)


if __name__ == "__main__":
    main()
