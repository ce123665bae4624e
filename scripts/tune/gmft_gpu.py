# /// script
# requires-python = ">=3.10"
# dependencies = ["torch==2.9.1", "transformers==4.57.3", "peft==0.18.0", "safetensors>=0.5"]
# ///
"""Trains the judge `gmft`: a LoRA adapter of a causal model, on the examples that `tribunal tune export` writes.

    tribunal tune export --testset wmt23 -l en-de zh-en --out examples
    uv run scripts/tune/gmft_gpu.py --examples examples --model Qwen/Qwen2.5-7B-Instruct --out judge
    tribunal score --method gmft --model qwen2.5-7b-instruct --adapter judge -s SRC -t HYP -l en-de

GMFT is from the FSP paper (Sections 2 and 3.2, Appendix B.3), which had GPT-4o fine-tuned for two epochs and says no
more; only `--epochs` is its, every other default is ours. The loss is that of the answer's tokens alone, its end included.
On a GPU the base is in bf16 and the adapter in f32, on a CPU both are in f32. One device; no GPU has run it yet.

Writes into --out: the adapter in PEFT's layout, of the lowest held-out loss so far; `training.json` (recipe, model,
versions); `progress.jsonl`; `trained.sha256` and `held_out.txt` of the examples; and `state.pt`, from which `--resume` goes
on. --minutes, SIGINT and SIGTERM end it after a step, with what there is written. On a CPU, an interrupted training that
was resumed has the bytes of one that was not; on a GPU that is not promised.

    python scripts/tune/gmft_gpu.py --tiny [--tribunal target/debug/tribunal]

trains a tiny model on the CPU and checks that (scripts/tune/gmft_test.py).
"""

import argparse
import dataclasses
import datetime
import hashlib
import json
import math
import os
import platform
import shutil
import signal
import sys
import time
from pathlib import Path

import peft
import torch
import transformers
from peft import LoraConfig, get_peft_model, get_peft_model_state_dict, set_peft_model_state_dict
from safetensors.torch import save
from torch.utils.checkpoint import checkpoint
from transformers import AutoModelForCausalLM, AutoTokenizer

MODULES = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
# What `tribunal` runs; others may scale or cap their logits, which `answer_losses` would miss.
MODEL_TYPES = {"llama", "mistral", "qwen2", "qwen3", "gemma3_text"}
# The day that `tribunal` tells chat templates which ask for today's.
TEMPLATE_DATE = datetime.date(2024, 7, 26)
ROWS = 1024  # rows of logits at a time; a row has a number for each word of the vocabulary


@dataclasses.dataclass(frozen=True)
class Recipe:
    """What decides the adapter's numbers, beside the model and the examples."""

    epochs: int = 2
    batch_examples: int = 32
    lr: float = 2e-4
    warm_up: float = 0.05
    weight_decay: float = 0.0
    clip: float = 1.0
    rank: int = 16
    alpha: int = 32
    dropout: float = 0.05
    seed: int = 0
    max_tokens: int = 8192
    batch_tokens: int = 16384
    held_out_examples: int = 512
    every: int = 100
    patience: int = 3


HELP = {
    "epochs": "times that every example is seen",
    "batch_examples": "examples of one step",
    "lr": "the highest learning rate",
    "warm_up": "share of the steps in which the learning rate rises to it; from there a line goes to 0",
    "weight_decay": "AdamW's",
    "clip": "the longest gradient",
    "rank": "LoRA's",
    "alpha": "LoRA's; B A is multiplied by alpha / rank",
    "dropout": "LoRA's",
    "seed": "draws the order of examples, the adapter's first numbers and what is dropped",
    "max_tokens": "longer examples are left out",
    "batch_tokens": "tokens, padding included, that go through the model at once; changes what it takes, hardly the result",
    "held_out_examples": "how many of them are measured",
    "every": "steps between two measurements of the held-out loss",
    "patience": "measurements without a lower held-out loss after which it stops",
}


@dataclasses.dataclass(frozen=True)
class Example:
    ids: list[int]
    n_prompt: int

    @property
    def n_answer(self):
        return len(self.ids) - self.n_prompt


def options(argv):
    p = argparse.ArgumentParser(prog="scripts/tune/gmft_gpu.py", description=__doc__.split("\n")[0])
    p.add_argument("--examples", type=Path, metavar="DIR", help="what `tribunal tune export` wrote")
    p.add_argument("--model", metavar="NAME|DIR", help="a model in Hugging Face's layout, not quantized")
    p.add_argument("--revision", help="the model's, where it has a name")
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
        p.error("--examples, --model and --out are needed")
    return a


def main(argv=None):
    a = options(argv)
    if a.tiny:
        import gmft_test

        return gmft_test.main(a.tribunal)
    recipe = Recipe(**{field.name: getattr(a, field.name) for field in dataclasses.fields(Recipe)})
    train(a, recipe)


def die(message):
    sys.exit(f"error: {message}")


# Examples


def chat(tokenizer, messages, answers):
    """A conversation as `tribunal` renders it: without a thought, on its own fixed day."""
    return tokenizer.apply_chat_template(
        messages,
        tokenize=False,
        add_generation_prompt=not answers,
        enable_thinking=False,
        date_string=TEMPLATE_DATE.strftime("%d %b %Y"),
        strftime_now=TEMPLATE_DATE.strftime,
    )


def end_of_turn(tokenizer):
    """The token with which the model ends its answer: what the template writes behind one."""
    turns = [{"role": "user", "content": "?"}, {"role": "assistant", "content": "ANSWER"}]
    tail = tokenizer.encode(chat(tokenizer, turns, answers=True).rpartition("ANSWER")[2], add_special_tokens=False)
    end = tail[0] if tail else tokenizer.eos_token_id
    if end not in tokenizer.all_special_ids and end not in tokenizer.added_tokens_decoder:
        die(f"the chat template ends an answer with `{tokenizer.decode([end])}`, which is not a control token")
    return end


def encoded(tokenizer, messages, end):
    prompt = tokenizer.encode(chat(tokenizer, messages[:-1], answers=False), add_special_tokens=False)
    answer = tokenizer.encode(messages[-1]["content"], add_special_tokens=False)
    return Example(prompt + answer + [end], len(prompt))


def read_examples(path, tokenizer, max_tokens, most=None):
    """The examples of a file, and how many were left out: for their length, or because a text holds a control token,
    which `tribunal` reads as text and this tokenizer does not."""
    end, controls = end_of_turn(tokenizer), [token.content for token in tokenizer.added_tokens_decoder.values()]
    examples, left_out = [], {"too_long": 0, "control_token": 0}
    for line in path.read_text(encoding="utf-8").splitlines():
        if most is not None and len(examples) == most:
            break
        messages = json.loads(line)["messages"]
        if any(token in turn["content"] for turn in messages for token in controls):
            left_out["control_token"] += 1
            continue
        example = encoded(tokenizer, messages, end)
        if len(example.ids) > max_tokens:
            left_out["too_long"] += 1
        else:
            examples.append(example)
    if not examples:
        die(f"`{path}` has no example of at most {max_tokens} tokens")
    return examples, left_out


def step_examples(n_examples, recipe, step):
    """Which examples a step is made of: every epoch takes all of them, in an order of its own."""
    per_epoch = math.ceil(n_examples / recipe.batch_examples)
    epoch, at = divmod(step, per_epoch)
    order = torch.randperm(n_examples, generator=torch.Generator().manual_seed(recipe.seed * 1_000_003 + epoch)).tolist()
    return order[at * recipe.batch_examples : (at + 1) * recipe.batch_examples]


def micro_batches(examples, batch_tokens):
    """Examples of similar length together, so that little is padded: at most so many tokens, or one example."""
    batch = []
    for example in sorted(examples, key=lambda example: len(example.ids), reverse=True):
        if batch and len(batch[0].ids) * (len(batch) + 1) > batch_tokens:
            yield batch
            batch = []
        batch.append(example)
    yield batch


# Model


def load(a, dtype):
    config = transformers.AutoConfig.from_pretrained(a.model, revision=a.revision)
    if config.model_type not in MODEL_TYPES:
        known = ", ".join(sorted(MODEL_TYPES))
        die(f"`{a.model}` is of type `{config.model_type}`, which is not supported; hint: one of {known}")
    tokenizer = AutoTokenizer.from_pretrained(a.model, revision=a.revision)
    net = AutoModelForCausalLM.from_pretrained(a.model, revision=a.revision, dtype=dtype, attn_implementation="sdpa")
    net.config.use_cache = False
    net.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    return net.to(a.device), tokenizer


def with_adapter(net, recipe):
    torch.manual_seed(recipe.seed)
    return get_peft_model(net, LoraConfig(
        task_type="CAUSAL_LM", bias="none", target_modules=MODULES,
        r=recipe.rank, lora_alpha=recipe.alpha, lora_dropout=recipe.dropout,
    ))


def answer_losses(net, batch, device):
    """The negative log-probabilities of a batch's answer tokens, in nats, one after the other.

    Logits are computed for the rows in front of answer tokens alone, some at a time, and once more in the backward pass.
    """
    longest = max(len(example.ids) for example in batch)
    ids = torch.zeros(len(batch), longest, dtype=torch.long)
    there, wanted = torch.zeros_like(ids), torch.zeros(len(batch), longest, dtype=torch.bool)
    for i, example in enumerate(batch):
        n = len(example.ids)
        ids[i, :n] = torch.tensor(example.ids)
        there[i, :n] = 1
        wanted[i, example.n_prompt - 1 : n - 1] = True
    targets = ids.roll(-1, dims=1)[wanted].to(device)
    causal = net.get_base_model()
    hidden = causal.model(input_ids=ids.to(device), attention_mask=there.to(device), use_cache=False).last_hidden_state

    def losses(rows, targets):
        return torch.nn.functional.cross_entropy(causal.lm_head(rows).float(), targets, reduction="none")

    pieces = zip(hidden[wanted.to(device)].split(ROWS), targets.split(ROWS))
    return torch.cat([checkpoint(losses, *piece, use_reentrant=False) for piece in pieces])


def in_bf16(device):
    return torch.autocast("cuda", dtype=torch.bfloat16, enabled=torch.device(device).type == "cuda")


@torch.no_grad()
def held_out_loss(net, examples, recipe, device):
    """Nats a token of the answers."""
    net.eval()
    total = 0.0
    for batch in micro_batches(examples, recipe.batch_tokens):
        with in_bf16(device):
            total += answer_losses(net, batch, device).double().sum().item()
    net.train()
    return total / sum(example.n_answer for example in examples)


# Training


def learning_rate(recipe, step, n_steps):
    rising = max(1, math.ceil(recipe.warm_up * n_steps))
    return recipe.lr * min((step + 1) / rising, (n_steps - step) / max(1, n_steps - rising))


def one_step(net, optimizer, examples, recipe, device):
    """The mean loss of the step's answer tokens, before it."""
    n_tokens = sum(example.n_answer for example in examples)
    total = 0.0
    for batch in micro_batches(examples, recipe.batch_tokens):
        with in_bf16(device):
            loss = answer_losses(net, batch, device).sum() / n_tokens
        loss.backward()
        total += loss.item()
    torch.nn.utils.clip_grad_norm_([p for p in net.parameters() if p.requires_grad], recipe.clip, error_if_nonfinite=True)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return total


def adapter_of(net):
    return {name: p.detach().to("cpu", torch.float32, copy=True) for name, p in get_peft_model_state_dict(net).items()}


class Training:
    """What is trained and how far it is; `state.pt` holds all that moves."""

    def __init__(self, a, recipe):
        self.a, self.recipe = a, recipe
        for name in ("train.jsonl", "held_out.jsonl", "trained.sha256", "held_out.txt"):
            if not (a.examples / name).exists():
                die(f"`{a.examples / name}` is not there; hint: `tribunal tune export --out DIR` writes it, for `--examples DIR`")
        on_gpu = torch.device(a.device).type == "cuda"
        net, tokenizer = load(a, torch.bfloat16 if on_gpu else torch.float32)
        self.examples, self.left_out = read_examples(a.examples / "train.jsonl", tokenizer, recipe.max_tokens)
        held_out = a.examples / "held_out.jsonl"
        self.held_out, _ = read_examples(held_out, tokenizer, recipe.max_tokens, recipe.held_out_examples)
        self.n_steps = recipe.epochs * math.ceil(len(self.examples) / recipe.batch_examples)
        self.net = with_adapter(net, recipe)
        self.net.train()
        trained = [p for p in self.net.parameters() if p.requires_grad]
        self.optimizer = torch.optim.AdamW(trained, lr=recipe.lr, weight_decay=recipe.weight_decay, fused=on_gpu)
        self.step, self.log, self.losses, self.best, self.seconds = 0, [], [], None, 0.0
        self.began = time.monotonic()

    def identity(self):
        """What must be the same for a training to go on."""
        a, hashed = self.a, lambda name: hashlib.sha256((self.a.examples / name).read_bytes()).hexdigest()
        return {
            "made_by": "scripts/tune/gmft_gpu.py",
            "model": Path(a.model).resolve().name if Path(a.model).is_dir() else a.model,
            "revision": a.revision,
            "recipe": dataclasses.asdict(self.recipe),
            "train_sha256": hashed("train.jsonl"),
            "held_out_sha256": hashed("held_out.jsonl"),
        }

    def passed(self):
        return self.seconds + time.monotonic() - self.began

    def measure(self):
        """The held-out loss; the adapter is kept if it is the lowest yet. That of step 0, the base's, keeps nothing."""
        loss = held_out_loss(self.net, self.held_out, self.recipe, self.a.device)
        trained = sum(self.losses) / len(self.losses) if self.losses else None
        self.log.append({"step": self.step, "train_loss": trained, "held_out_loss": loss, "seconds": round(self.passed(), 1)})
        self.losses = []
        if self.step and (self.best is None or loss < self.best["held_out_loss"]):
            self.best = {"step": self.step, "held_out_loss": loss, "adapter": adapter_of(self.net)}
        before = "" if trained is None else f", {trained:.4f} in training"
        print(f"step {self.step} of {self.n_steps}: held-out loss {loss:.4f}{before}, {self.passed():.0f} s", file=sys.stderr)

    def has_converged(self):
        return self.best is not None and sum(m["step"] > self.best["step"] for m in self.log) >= self.recipe.patience

    def is_over(self):
        return self.step == self.n_steps or self.has_converged()

    def advance(self):
        torch.manual_seed(self.recipe.seed * 1_000_003 + self.step)  # what dropout draws
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(self.recipe, self.step, self.n_steps)
        chosen = [self.examples[i] for i in step_examples(len(self.examples), self.recipe, self.step)]
        self.losses.append(one_step(self.net, self.optimizer, chosen, self.recipe, self.a.device))
        self.step += 1
        if self.step % 10 == 0:
            print(f"step {self.step} of {self.n_steps}: {self.losses[-1]:.4f} in training, {self.passed():.0f} s", file=sys.stderr)

    def save(self):
        state = {"identity": self.identity(), "step": self.step, "log": self.log, "losses": self.losses, "best": self.best,
                 "seconds": self.passed(), "adapter": adapter_of(self.net), "optimizer": self.optimizer.state_dict()}
        part = self.a.out / "state.part"
        torch.save(state, part)
        os.replace(part, self.a.out / "state.pt")

    def resume(self):
        path = self.a.out / "state.pt"
        if not path.exists():
            die(f"`{path}` is not there, so there is nothing to resume")
        state = torch.load(path, map_location="cpu", weights_only=True)
        ours, theirs = self.identity(), state["identity"]
        for key in (key for key in ours if ours[key] != theirs[key]):
            die(f"`{path}` is of another training: its `{key}` is `{theirs[key]}`, ours is `{ours[key]}`")
        for key in ("step", "log", "losses", "best", "seconds"):
            setattr(self, key, state[key])
        set_peft_model_state_dict(self.net, state["adapter"])
        self.optimizer.load_state_dict(state["optimizer"])

    def write(self, ended):
        """The folder, with the best adapter; one that was cut off before its first measurement has what there is."""
        out, best = self.a.out, self.best
        put(out / "adapter_model.safetensors", save(best["adapter"], metadata={"format": "pt"}))
        config = self.net.peft_config["default"].to_dict()
        config |= {"base_model_name_or_path": self.identity()["model"], "inference_mode": True}
        put_json(out / "adapter_config.json", {k: sorted(v) if isinstance(v, set) else v for k, v in config.items()})
        for name in ("trained.sha256", "held_out.txt"):
            shutil.copyfile(self.a.examples / name, out / name)
        put(out / "progress.jsonl", "".join(json.dumps(line) + "\n" for line in self.log).encode())
        put_json(out / "training.json", self.identity() | {
            "examples": len(self.examples),
            "examples_left_out": self.left_out,
            "tokens": sum(len(example.ids) for example in self.examples),
            "answer_tokens": sum(example.n_answer for example in self.examples),
            "held_out_examples": len(self.held_out),
            "steps": f"{self.step} of {self.n_steps}",
            "ended": ended,
            "kept_step": best["step"],
            "kept_held_out_loss": best["held_out_loss"],
            "base_held_out_loss": self.log[0]["held_out_loss"],
            "device": torch.cuda.get_device_name(self.a.device) if "cuda" in self.a.device else "cpu",
            "numbers": "bf16 base, f32 adapter" if "cuda" in self.a.device else "f32",
            "versions": {"torch": torch.__version__, "transformers": transformers.__version__, "peft": peft.__version__,
                         "python": platform.python_version()},
        })


def train(a, recipe):
    if (a.out / "state.pt").exists() and not a.resume:
        die(f"`{a.out}` holds a training; hint: `--resume` goes on with it, another `--out` starts anew")
    torch.use_deterministic_algorithms(a.device == "cpu")
    asked_to_stop = []
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, lambda number, _: asked_to_stop.append(signal.Signals(number).name))
    training = Training(a, recipe)
    a.out.mkdir(parents=True, exist_ok=True)
    if a.resume:
        training.resume()
    else:
        training.measure()
    ended, began = "all steps", time.monotonic()
    while not training.is_over():
        training.advance()
        if training.step % recipe.every == 0 or training.step == training.n_steps:
            training.measure()
            training.save()
            training.write("not yet")
        is_late = a.minutes is not None and time.monotonic() - began >= 60 * a.minutes
        if (is_late or asked_to_stop) and not training.is_over():
            ended = asked_to_stop[0] if asked_to_stop else f"after --minutes {a.minutes:g}"
            training.save()
            if training.log[-1]["step"] != training.step:
                training.measure()  # after the state is saved: one that goes on knows nothing of it
            break
    else:
        if training.has_converged():
            ended = f"the held-out loss no longer fell (--patience {recipe.patience})"
    training.write(ended)
    if training.best["held_out_loss"] >= training.log[0]["held_out_loss"]:
        print("warning: the base's held-out loss is not higher: nothing was learnt", file=sys.stderr)
    print(f"{a.out}: the adapter of step {training.best['step']}, {ended}", file=sys.stderr)


def put(path, content):
    """Writes a file beside its place, then puts it there."""
    part = path.with_name(path.name + ".part")
    part.write_bytes(content)
    os.replace(part, path)


def put_json(path, value):
    put(path, (json.dumps(value, indent=2, ensure_ascii=False, default=str) + "\n").encode())


if __name__ == "__main__":
    main()
