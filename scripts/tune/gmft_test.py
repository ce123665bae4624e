"""Checks of gmft_gpu.py on a tiny model and the CPU, under a minute: `python scripts/tune/gmft_gpu.py --tiny`.

Without `--tribunal PATH` the examples are this file's own and the program's side is not checked; it says so.
"""

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
        net, tokenizer = loaded(whole)
        a_padded_batch_has_the_losses_of_its_examples(net, tokenizer, examples)
        it_stops_when_the_loss_no_longer_falls()
        if not tribunal:
            print("not checked: the program's side; hint: `--tribunal target/debug/tribunal`")
            return
        the_program_takes_the_adapter(tribunal, folder, whole)
        log_probabilities_agree(tribunal, folder, whole, examples, net, tokenizer)


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


def a_resumed_training_has_the_same_bytes(examples, whole, out):
    """Cut off again and again, also before the first measurement and between two of them."""
    trained(examples, out, "--minutes", "0")
    assert read_json(out / "training.json")["ended"] == "after --minutes 0"
    assert (out / "adapter_model.safetensors").exists(), "what it had was not written"
    cuts = 1
    while read_json(out / "training.json")["ended"].startswith("after"):
        trained(examples, out, "--minutes", "0", "--resume")
        cuts += 1
    names = ["adapter_model.safetensors", "adapter_config.json", "training.json", "trained.sha256", "held_out.txt"]
    for name in names:
        assert (out / name).read_bytes() == (whole / name).read_bytes(), f"`{name}` differs"
    lines = lambda folder: [json.loads(line) | {"seconds": 0} for line in open(folder / "progress.jsonl")]
    assert lines(out) == lines(whole)
    assert cuts > 3, cuts
    print(f"cut off {cuts - 1} times and resumed: the same bytes")


def what_belongs_to_another_training_is_refused(examples, out):
    for more, reason in ([(["--resume", "--seed", "1"], "is of another training: its `recipe`"), ([], "holds a training")]):
        try:
            trained(examples, out, *more)
        except SystemExit as refusal:
            assert reason in str(refusal), refusal
        else:
            raise AssertionError(f"{more} was not refused")


def it_stops_when_the_loss_no_longer_falls():
    training = gmft_gpu.Training.__new__(gmft_gpu.Training)
    training.recipe, training.best = gmft_gpu.Recipe(patience=2), {"step": 10}
    for n, expected in [(3, False), (4, True)]:
        training.log = [{"step": 10 * i - 10} for i in range(1, n + 1)]
        assert training.has_converged() == expected, n


def loaded(out):
    net = AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32, attn_implementation="eager")
    return PeftModel.from_pretrained(net, out).eval(), AutoTokenizer.from_pretrained(MODEL)


@torch.no_grad()
def log_probabilities(net, prompt, answer):
    logits = net(input_ids=torch.tensor([prompt + answer]), use_cache=False).logits[0]
    rows = logits.log_softmax(-1)[len(prompt) - 1 : -1]
    return rows.gather(1, torch.tensor(answer)[:, None])[:, 0]


def a_padded_batch_has_the_losses_of_its_examples(net, tokenizer, examples):
    some, _ = gmft_gpu.read_examples(examples / "held_out.jsonl", tokenizer, 400, most=7)
    assert len({len(example.ids) for example in some}) > 1, "nothing is padded"
    with torch.no_grad():
        together = -gmft_gpu.answer_losses(net, some, "cpu")
    alone = torch.cat([log_probabilities(net, e.ids[: e.n_prompt], e.ids[e.n_prompt :]) for e in some])
    assert torch.allclose(together, alone, atol=1e-4), (together - alone).abs().max()
    batches = list(gmft_gpu.micro_batches(some, 300))
    assert sorted(id(e) for batch in batches for e in batch) == sorted(id(e) for e in some)
    assert all(len(batch) == 1 or len(batch) * max(len(e.ids) for e in batch) <= 300 for batch in batches)


def the_program_takes_the_adapter(tribunal, folder, out):
    (folder / "src.txt").write_text("The sentence number 3 of document 1\nOne more\n")
    (folder / "hyp.txt").write_text("Satz 1 falsch 3\nSatz 1 gut 4\n")
    judge = ["score", "--method", "gmft", "--model", MODEL, "-s", "src.txt", "-t", "hyp.txt", "-l", "en-de", "--prompts",
             "prompts", "--max-tokens", "120", "--kv-cache", "8MiB", "--quiet", "--only-system"]
    run(tribunal, folder, *judge, "--adapter", out, "--out", "with")
    run(tribunal, folder, *judge, "--out", "without")
    adapter = read_json(folder / "with/run.json")["origin"]["models"][0]["adapter"]
    assert adapter["name"] == out.name, adapter
    verdicts = [(folder / name / "verdicts.jsonl").read_text() for name in ("with", "without")]
    assert all(len(text.splitlines()) == 2 for text in verdicts)
    shown = run(tribunal, folder, "models", "show", out).stdout
    assert "gmft_gpu.py" in shown, shown
    print("`tribunal score --method gmft --adapter` takes it")


def log_probabilities_agree(tribunal, folder, out, examples, net, tokenizer):
    """A held-out answer, given: the ids of `tribunal ask --continuation`, and its log-probabilities."""
    messages = json.loads((examples / "held_out.jsonl").read_text().splitlines()[0])["messages"]
    end = gmft_gpu.end_of_turn(tokenizer)
    example = gmft_gpu.encoded(tokenizer, messages, end)
    prompt, answer = example.ids[: example.n_prompt], example.ids[example.n_prompt : -1]
    (folder / "chat.json").write_text(json.dumps(messages[:-1]))
    (folder / "answer.txt").write_text(messages[-1]["content"])
    ask = ["ask", "--chat", "chat.json", "--continuation", "answer.txt", "--json", "--model", MODEL, "--device", "cpu",
           "--dtype", "f32", "--kv-dtype", "f32", "--activations", "float", "--kv-cache", "8MiB"]
    ours, base = (json.loads(run(tribunal, folder, *ask, *more).stdout) for more in (["--adapter", out], []))
    assert ours["prompt_tokens"] == prompt and [t["id"] for t in ours["tokens"]] == answer, "other token ids"
    theirs = log_probabilities(net, prompt, answer)
    furthest = lambda reply: max(abs(t["logprob"] - x) for t, x in zip(reply["tokens"], theirs.tolist()))
    assert furthest(ours) < TOLERANCE, furthest(ours)
    assert furthest(base) > 100 * TOLERANCE, "the adapter moves nothing"
    print(f"log-probabilities of an answer of {len(answer)} tokens: at most {furthest(ours):.1e} from those of PEFT")
