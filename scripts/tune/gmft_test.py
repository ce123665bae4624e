"""Checks of gmft_gpu.py on a tiny model and the CPU, under a minute: `python scripts/tune/gmft_gpu.py --tiny`.

Without `--tribunal PATH` the examples are this file's own and the program's side is not checked; it says so.
"""

import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

import gmft_gpu

MODEL = Path(__file__).parents[2] / "models/tiny/qwen2"
# A prompt that a context of 512 tokens holds.
PROMPT = "{{ source_lang }}: {{ source }}\n{{ target_lang }}: {{ target }}\nMQM:\n"
TOLERANCE = 1e-3  # nats a token, transformers and PEFT against `tribunal`, both in f32
SETTINGS = ["--device", "cpu", "--epochs", "2", "--batch-examples", "16", "--batch-tokens", "1500", "--every", "4",
            "--lr", "0.02", "--max-tokens", "400", "--held-out-examples", "16"]


def main(tribunal):
    torch.set_num_threads(1)  # more only wait for each other
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        rated = translations()
        examples = exported(folder, rated, tribunal) if tribunal else written(folder, rated)
        whole = trained(examples, folder / "whole")
        the_loss_falls(whole)
        a_resumed_training_has_the_same_bytes(examples, whole, folder / "resumed")
        what_belongs_to_another_training_is_refused(examples, whole)
        examples_are_read_whole_or_left_out(examples, folder)
        a_padded_batch_has_the_losses_of_its_examples(examples)
        it_stops_when_the_loss_no_longer_falls(examples, folder)
        if not tribunal:
            print("not checked: the program's side; hint: `--tribunal target/debug/tribunal`")
            return
        the_program_takes_the_adapter(tribunal, folder, whole)
        log_probabilities_agree(tribunal, folder, whole, examples)


# What is trained on


def translations():
    """Rated translations, of which every third has an error."""
    for i in range(120):
        is_wrong = i % 3 == 0
        hypothesis = f"Satz {i // 6} {'falsch' if is_wrong else 'gut'} {i // 2}"
        span = {"start": hypothesis.find("falsch"), "category": "accuracy/mistranslation", "severity": "major"}
        span["end"] = span["start"] + len("falsch")
        yield {
            "system_id": "ab"[i % 2], "document_id": f"d{i // 6}", "segment_id": i // 2, "src_lang": "en", "tgt_lang": "de",
            "source": f"The sentence number {i // 2} of document {i // 6}", "hypothesis": hypothesis,
            "errors": [span] if is_wrong else [],
        }


def exported(folder, rated, tribunal):
    (folder / "rated.jsonl").write_text("".join(json.dumps(line) + "\n" for line in rated))
    (folder / "prompts/gmft").mkdir(parents=True)
    (folder / "prompts/gmft/gmft.j2").write_text(PROMPT)
    run(tribunal, folder, "tune", "export", "--input", "rated.jsonl", "--granularity", "seg", "--hold-out", "0.3",
        "--prompts", "prompts", "--out", "examples")
    return folder / "examples"


def written(folder, rated):
    """Stand-ins for what `tribunal tune export` writes."""
    examples = folder / "examples"
    examples.mkdir()
    lines = {"train.jsonl": "", "held_out.jsonl": ""}
    for i, line in enumerate(rated):
        question = f"English: {line['source']}\nGerman: {line['hypothesis']}\nMQM:\n"
        answer = json.dumps({"errors": [{"span": "falsch", "severity": "major"} for _ in line["errors"]]})
        turns = [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
        name = "held_out.jsonl" if i // 6 % 4 == 0 else "train.jsonl"
        lines[name] += json.dumps({"messages": turns}) + "\n"
    for name, text in (lines | {"trained.sha256": "", "held_out.txt": ""}).items():
        (examples / name).write_text(text)
    return examples


def trained(examples, out, *more):
    gmft_gpu.main(["--examples", str(examples), "--model", str(MODEL), "--out", str(out), *SETTINGS, *more])
    return out


def run(tribunal, folder, *arguments):
    command = [str(tribunal.resolve()), *map(str, arguments)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode in (0, 1), f"`{' '.join(command)}` ended with {done.returncode}: {done.stderr}"
    return done


def read_json(path):
    return json.loads(path.read_text())


# Checks


def the_loss_falls(out):
    record = read_json(out / "training.json")
    before, after = record["base_held_out_loss"], record["kept_held_out_loss"]
    print(f"held-out loss {before:.3f} before, {after:.3f} at step {record['kept_step']}")
    assert after < 0.7 * before, "the held-out loss did not fall"


def a_resumed_training_has_the_same_bytes(examples, whole, out, *more):
    """Cut off again and again, also before the first measurement and between two of them."""
    trained(examples, out, "--minutes", "0", *more)
    assert read_json(out / "training.json")["ended"] == "after --minutes 0"
    assert (out / "adapter_model.safetensors").exists(), "what it had was not written"
    cuts = 1
    while read_json(out / "training.json")["ended"].startswith("after"):
        trained(examples, out, "--minutes", "0", "--resume", *more)
        cuts += 1
    names = ["adapter_model.safetensors", "adapter_config.json", "training.json", "trained.sha256", "held_out.txt"]
    for name in names:
        assert (out / name).read_bytes() == (whole / name).read_bytes(), f"`{name}` differs"
    lines = lambda folder: [json.loads(line) | {"seconds": 0} for line in open(folder / "progress.jsonl")]
    assert lines(out) == lines(whole)
    assert cuts > 1
    print(f"cut off {cuts - 1} times and resumed: the same bytes")


def what_belongs_to_another_training_is_refused(examples, out):
    for more, reason in ([(["--resume", "--seed", "1"], "is of another training: its `recipe`"), ([], "holds a training")]):
        try:
            trained(examples, out, *more)
        except SystemExit as refusal:
            assert reason in str(refusal), refusal
        else:
            raise AssertionError(f"{more} was not refused")


def it_stops_when_the_loss_no_longer_falls(examples, folder):
    """At a rate that is far too high; cut off and resumed, it keeps the same adapter, which is not the last."""
    wild = ["--lr", "1", "--epochs", "20", "--every", "1", "--patience", "1"]
    whole = trained(examples, folder / "wild", *wild)
    record = read_json(whole / "training.json")
    assert record["ended"].startswith("the held-out loss no longer fell"), record["ended"]
    losses = [json.loads(line)["held_out_loss"] for line in open(whole / "progress.jsonl")]
    assert record["kept_step"] == len(losses) - 2 and record["kept_held_out_loss"] == losses[-2] <= losses[-1], losses
    print(f"it stopped at step {len(losses) - 1}, where the loss no longer fell")
    a_resumed_training_has_the_same_bytes(examples, whole, folder / "wild-resumed", *wild)


def loaded(out):
    net = AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32, attn_implementation="eager")
    return PeftModel.from_pretrained(net, out).eval(), AutoTokenizer.from_pretrained(MODEL)


def log_probabilities(net, example):
    """Those of an answer, its end included, from all logits of a text alone."""
    logits = net(input_ids=torch.tensor([example.ids]), use_cache=False).logits[0]
    rows = logits.log_softmax(-1)[example.n_prompt - 1 : -1]
    return rows.gather(1, torch.tensor(example.ids[example.n_prompt :])[:, None])[:, 0]


def a_padded_batch_has_the_losses_of_its_examples(examples):
    """And their gradients, in every architecture."""
    for name in ("llama", "mistral", "qwen2", "qwen3", "gemma3"):
        a = gmft_gpu.options(["--tiny", "--model", str(MODEL.parent / name), "--device", "cpu"])
        net, tokenizer = gmft_gpu.load(a, torch.float32)
        net = gmft_gpu.with_adapter(net, gmft_gpu.Recipe(dropout=0.0)).train()
        trained = [p for p in net.parameters() if p.requires_grad]
        for p in trained:
            torch.nn.init.normal_(p, std=0.02)  # B starts at 0, which would prove nothing
        some, _ = gmft_gpu.read_examples(examples / "held_out.jsonl", tokenizer, 400, most=7)
        some = max(gmft_gpu.micro_batches(some, 3000), key=len)
        assert len({len(example.ids) for example in some}) > 1, "nothing is padded"
        together = gmft_gpu.answer_losses(net, some, "cpu")
        alone = -torch.cat([log_probabilities(net, example) for example in some])
        assert torch.allclose(together, alone, atol=1e-4), (name, (together - alone).abs().max())
        for ours, theirs in zip(*(torch.autograd.grad(losses.sum(), trained) for losses in (together, alone))):
            assert torch.allclose(ours, theirs, rtol=1e-3, atol=1e-4 * theirs.abs().max().item()), name
    print("a padded batch has the losses and gradients of its examples")


def examples_are_read_whole_or_left_out(examples, folder):
    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    lines = (examples / "train.jsonl").read_text().splitlines()[:5]
    messages = json.loads(lines[0])["messages"]
    hostile = [{"role": "user", "content": "a <|im_end|> in a text"}, messages[-1]]
    long = [{"role": "user", "content": "long " * 400}, messages[-1]]
    lines += [json.dumps({"messages": turns}) for turns in (hostile, long)]
    (folder / "some.jsonl").write_text("\n".join(lines) + "\n")
    some, left_out = gmft_gpu.read_examples(folder / "some.jsonl", tokenizer, 400)
    assert (len(some), left_out) == (5, {"too_long": 1, "control_token": 1}), left_out
    assert tokenizer.decode(some[0].ids[some[0].n_prompt :]) == messages[-1]["content"] + "<|im_end|>"
    assert tokenizer.decode(some[0].ids[: some[0].n_prompt]).endswith("<|im_start|>assistant\n")
    batches = list(gmft_gpu.micro_batches(some, 300))
    assert sorted(id(e) for batch in batches for e in batch) == sorted(id(e) for e in some)
    assert all(len(batch) == 1 or len(batch) * max(len(e.ids) for e in batch) <= 300 for batch in batches)
    recipe = gmft_gpu.Recipe(batch_examples=4)
    epochs = [[i for step in steps for i in gmft_gpu.step_examples(10, recipe, step)] for steps in (range(3), range(3, 6))]
    assert all(sorted(epoch) == list(range(10)) for epoch in epochs) and epochs[0] != epochs[1]


def the_program_takes_the_adapter(tribunal, folder, out):
    hashes = (out / "trained.sha256").read_text().split()
    seen = next(t for t in translations() if hashlib.sha256(t["source"].encode()).hexdigest() in hashes)
    (folder / "src.txt").write_text(f"{seen['source']}\nOne more\n")
    (folder / "hyp.txt").write_text(f"{seen['hypothesis']}\nSatz 1 gut 4\n")
    judge = ["score", "--method", "gmft", "--model", MODEL, "-s", "src.txt", "-t", "hyp.txt", "-l", "en-de", "--prompts",
             "prompts", "--max-tokens", "120", "--kv-cache", "8MiB", "--quiet", "--only-system"]
    run(tribunal, folder, *judge, "--adapter", out, "--out", "with")
    run(tribunal, folder, *judge, "--out", "without")
    record = read_json(folder / "with/run.json")
    assert record["origin"]["models"][0]["adapter"]["name"] == out.name, record
    assert [overlap["segments"] for overlap in record["trained_on"]] == [1], record["trained_on"]
    lines = ((folder / name / "verdicts.jsonl").read_text().splitlines() for name in ("with", "without"))
    verdicts = [[(v["status"], v["score"], v["errors"]) for v in map(json.loads, of)] for of in lines]
    assert len(verdicts[0]) == 2 and verdicts[0] != verdicts[1], verdicts
    shown = run(tribunal, folder, "models", "show", out).stdout
    assert "gmft_gpu.py" in shown, shown
    print("`tribunal score --method gmft --adapter` takes it")


def log_probabilities_agree(tribunal, folder, out, examples):
    """A held-out answer, given: the ids of `tribunal ask --continuation`, and its log-probabilities."""
    lines = (json.loads(line)["messages"] for line in open(examples / "held_out.jsonl", encoding="utf-8"))
    messages = max(lines, key=lambda turns: len(turns[-1]["content"]))
    net, tokenizer = loaded(out)
    example = gmft_gpu.encoded(tokenizer, messages, gmft_gpu.end_of_turn(tokenizer))
    prompt, answer = example.ids[: example.n_prompt], example.ids[example.n_prompt : -1]
    (folder / "chat.json").write_text(json.dumps(messages[:-1]))
    (folder / "answer.txt").write_text(messages[-1]["content"])
    ask = ["ask", "--chat", "chat.json", "--continuation", "answer.txt", "--json", "--model", MODEL, "--device", "cpu",
           "--dtype", "f32", "--kv-dtype", "f32", "--activations", "float", "--kv-cache", "8MiB"]
    ours, base = (json.loads(run(tribunal, folder, *ask, *more).stdout) for more in (["--adapter", out], []))
    assert ours["prompt_tokens"] == prompt and [t["id"] for t in ours["tokens"]] == answer, "other token ids"
    with torch.no_grad():
        theirs = log_probabilities(net, example)[:-1]  # without the end of the turn
    furthest = lambda reply: max(abs(t["logprob"] - x) for t, x in zip(reply["tokens"], theirs.tolist()))
    assert furthest(ours) < TOLERANCE, furthest(ours)
    assert furthest(base) > 100 * TOLERANCE, "the adapter moves nothing"
    print(f"log-probabilities of an answer of {len(answer)} tokens: at most {furthest(ours):.1e} from those of PEFT")
