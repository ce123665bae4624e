"""Checks of probe_gpu.py on a tiny model and the CPU, under a minute: `python scripts/tune/probe_gpu.py --tiny`.

Without `--tribunal PATH` the examples are this file's own and the program's side is not checked; it says so.
"""

import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

import probe_gpu

MODEL = Path(__file__).parents[2] / "models/tiny/qwen2"
SETTINGS = ["--device", "cpu", "--epochs", "6", "--batch-tokens", "1500", "--every", "1", "--lr", "0.01", "--map-lr", "0.05",
            "--rank", "4", "--alpha", "8", "--depth", "1"]


def main(tribunal):
    torch.set_num_threads(1)  # more only wait for each other
    tokens_are_marked_by_the_share_of_raters()
    lengths_are_those_of_the_program()
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        ratings(folder)
        examples = exported(folder, tribunal) if tribunal else written(folder)
        sources_are_measured_in_bytes(examples)
        sources_stay_together(examples)
        whole = trained(examples, folder / "whole")
        the_loss_falls(whole)
        a_resumed_training_has_the_same_bytes(examples, whole, folder / "resumed")
        if not tribunal:
            print("not checked: the program's side; hint: `--tribunal target/debug/tribunal`")
            return
        the_program_fits_on_the_adapter_and_scores(tribunal, folder, whole)


def ratings(folder):
    """Rated translations, of which those that say `falsch` have an error there."""
    with open(folder / "rated.jsonl", "w", encoding="utf-8") as file:
        for i in range(160):
            doc, system, seg = i // 8, "ab"[i % 2], i // 2
            is_wrong = (i * 7) % 3 == 0
            hypothesis = f"Satz {doc} {'falsch' if is_wrong else 'gut'} {seg}"
            at = hypothesis.find("falsch")
            error = {"start": at, "end": at + 6, "category": "accuracy/mistranslation", "severity": "major"}
            file.write(json.dumps({
                "system_id": system, "document_id": f"d{doc}", "segment_id": seg, "src_lang": "en", "tgt_lang": "de",
                "source": f"The sentence № {seg} of document {doc}", "hypothesis": hypothesis,
                "errors": [error] if is_wrong else [],
            }) + "\n")


def exported(folder, tribunal):
    run(tribunal, folder, "tune", "export", "--as", "probe-jsonl", "--input", "rated.jsonl", "--hold-out", "0.3", "--out", "examples")
    return folder / "examples"


def written(folder):
    """Stand-ins for what `tribunal tune export` writes."""
    examples = folder / "examples"
    examples.mkdir()
    lines = {"train.jsonl": "", "held_out.jsonl": ""}
    for line in map(json.loads, (folder / "rated.jsonl").read_text().splitlines()):
        name = "held_out.jsonl" if int(line["document_id"][1:]) % 4 == 0 else "train.jsonl"
        lines[name] += json.dumps({
            "prompt": f"English: {line['source']}\nGerman:", "text": f" {line['hypothesis']}", "is_penalty": True,
            "score": -5.0 * len(line["errors"]), "scale": "en-de", "segments": 1, "source_bytes": len(line["source"].encode()),
            "source": f"{line['document_id']}/{line['segment_id']}",
            "marks": [[e["start"] + 1, e["end"] + 1, True, 1.0] for e in line["errors"]],
        }) + "\n"
    for name, text in lines.items():
        (examples / name).write_text(text)
    return examples


def trained(examples, out, more=()):
    probe_gpu.main(["--examples", str(examples), "--model", str(MODEL), "--out", str(out), *SETTINGS, *more])
    return out


def run(tribunal, folder, *arguments):
    done = subprocess.run([str(Path(tribunal).resolve()), *map(str, arguments)], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def tokens_are_marked_by_the_share_of_raters():
    # ` Bär da`: the mark of one of two raters lies on `är`, in bytes, and ends behind the blank.
    found = probe_gpu.labels(" Bär da", [(0, 2), (2, 4), (4, 5), (5, 7)], [[2, 6, True, 0.5], [2, 5, False, 0.5]])
    assert found == [[0.0, 0.0], [1.0, 0.5], [0.0, 0.0], [0.0, 0.0]], found


def lengths_are_those_of_the_program():
    # The numbers of the test in crates/judges/src/probe/facts.rs: 4 tokens, a source of 20 bytes.
    tokens, source_bytes = torch.tensor([[4.0]]), torch.tensor([[20.0]])
    found = probe_gpu.lengths(tokens, source_bytes)[0] * torch.tensor([64.0, 8.0, 256.0, 16.0, 1.0])
    expected = torch.tensor([4.0, 2.0, 20.0, math.sqrt(20.0), math.log(0.2)])
    assert found.shape == (probe_gpu.N_LENGTHS,) and torch.allclose(found, expected, rtol=0, atol=1e-5), found


def sources_are_measured_in_bytes(examples):
    for line in map(json.loads, (examples / "train.jsonl").read_text(encoding="utf-8").splitlines()):
        source = line["prompt"].removeprefix("English: ").removesuffix("\nGerman:")
        assert line["source_bytes"] == len(source.encode()) > len(source), line


def sources_stay_together(examples):
    from transformers import AutoTokenizer

    found, too_long = probe_gpu.read(examples / "train.jsonl", AutoTokenizer.from_pretrained(MODEL), 1024)
    assert found and not too_long
    batches = probe_gpu.batches(found, 400, 0)
    assert sorted(i for rows in batches for i in rows) == list(range(len(found))) and len(batches) > 3
    of = {}
    for n, rows in enumerate(batches):
        for i in rows:
            assert of.setdefault(found[i].source, n) == n


def the_loss_falls(out):
    losses = [json.loads(line)["held_out"] for line in (out / "progress.jsonl").read_text().splitlines()]
    assert min(losses[-5:]) < 0.8 * losses[0], losses
    print(f"held-out loss: {losses[0]:.3f}, then {min(losses):.3f}")


def a_resumed_training_has_the_same_bytes(examples, whole, out):
    n = len((whole / "progress.jsonl").read_text().splitlines())
    for _ in range(n):  # a step each
        trained(examples, out, ["--resume", "--minutes", "1e-9"])
    for name in ("adapter_model.safetensors", "adapter_config.json", "progress.jsonl"):
        assert (out / name).read_bytes() == (whole / name).read_bytes(), name
    print(f"cut off after each of {n} steps: the same bytes")


def the_program_fits_on_the_adapter_and_scores(tribunal, folder, adapter):
    how = ["--model", MODEL, "--adapter", adapter, "--kv-cache", "8MiB"]
    run(tribunal, folder, "tune", "probe", "--input", "rated.jsonl", "--hold-out", "0.3", "--depth", 1, "--out", "fit.json", *how)
    for name, column in (("src.txt", "source"), ("hyp.txt", "hypothesis")):
        lines = map(json.loads, (folder / "rated.jsonl").read_text().splitlines()[:4])
        (folder / name).write_text("".join(line[column] + "\n" for line in lines))
    run(tribunal, folder, "score", "-s", "src.txt", "-t", "hyp.txt", "-l", "en-de", "--method", "probe:fit=fit.json",
        "--out", "run", "--dtype", "f32", "--kv-dtype", "f32", *how)
    verdicts = [json.loads(line) for line in (folder / "run/verdicts.jsonl").read_text(encoding="utf-8").splitlines()]
    assert len(verdicts) == 4 and len({verdict["score"] for verdict in verdicts}) > 1, verdicts
    expected = expected_scores(json.loads((folder / "fit.json").read_text(encoding="utf-8")), adapter, verdicts)
    apart = max(abs(verdict["score"] - score) for verdict, score in zip(verdicts, expected))
    assert apart < 1e-5, f"scores that are {apart} apart"
    print(f"`tribunal tune probe` fits on the adapter; `tribunal score` takes both, {apart:.1e} from PyTorch's scores")


@torch.no_grad()
def expected_scores(fit, adapter, verdicts):
    """The scores of a fit of one pair, as docs/methods.md describes them."""
    from peft import PeftModel
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    model = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32), adapter).eval()
    scores = []
    for verdict in verdicts:
        prompt = tokenizer(f"English: {verdict['source']}\nGerman:", add_special_tokens=False).input_ids
        text = tokenizer(f" {verdict['hypothesis']}", add_special_tokens=False).input_ids
        read = model(input_ids=torch.tensor([prompt + text]), output_hidden_states=True)
        states = read.hidden_states[fit["depth"]][0, len(prompt) :].double()
        states *= torch.rsqrt(states.square().mean(-1, keepdim=True))
        n, n_bytes = len(text), len(verdict["source"].encode())
        facts = {
            "tokens": n, "root_tokens": math.sqrt(n), "source_bytes": n_bytes, "root_source_bytes": math.sqrt(n_bytes),
            "log_tokens_per_byte": math.log(n / n_bytes),
        }
        weights = fit["score"]["facts"]
        # These texts have no numbers, negations, names or copied words.
        assert all(weight == 0 for name, weight in weights.items() if name not in facts), weights
        weighed = sum(fact * weights[name] for name, fact in facts.items())
        of_states = float(states.mean(0) @ torch.tensor(fit["score"]["mean"], dtype=torch.float64))
        scores.append(min(0.0, fit["calibrations"]["en-de"]["bias"] + weighed + of_states))
    return scores


if __name__ == "__main__":
    sys.exit("run scripts/tune/probe_gpu.py --tiny")
