# /// script
# requires-python = ">=3.10"
# dependencies = ["unbabel-comet==2.2.7", "torch", "transformers>=4.50,<5", "safetensors>=0.5", "tokenizers>=0.22"]
# ///
"""Makes tiny checkpoints of COMET's classes and the scores that `unbabel-comet` computes with them.

    python scripts/golden_comet.py [--models models/tiny] [--golden tests/golden]

  models/tiny/<folder>/      hparams.yaml and checkpoints/model.ckpt by Lightning, as Unbabel publishes them;
                             beside them config.json and tokenizer.json of the encoder
  tests/golden/comet.json    the inputs; for every case its settings, scores, parts of scores and error spans
  tests/golden/comet.safetensors
                             the heads of cases without a folder, `CASE/TENSOR`, and the states of all layers
                             for the sequences of the first two inputs, `INPUT/SEQUENCE`, [layers, tokens, hidden]

All cases share one seeded encoder of three layers, for sequences of 64 tokens in place of 512. The weights are
seeded by each tensor's name, so running the script again gives the same numbers. It makes no model that can judge.
"""

import argparse
import json
import logging
import math
import shutil
import tempfile
import zlib
from pathlib import Path

import comet
import pytorch_lightning as ptl
import tokenizers
import torch
import transformers
from comet.models import str2model
from pytorch_lightning.core.saving import save_hparams_to_yaml
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import XLMRobertaConfig

SEED = 20261104
HEADROOM = 1e-5  # batched against single: rounding must stay far below the tests' 1e-4
PIECES = [
    "▁", "▁the", "▁a", "▁of", "▁to", "▁and", "▁is", "▁in", "▁cat", "▁sat", "▁on", "▁mat", "▁bank", "▁He", "▁went",
    "▁Die", "▁der", "▁und", "▁Katze", "▁auf", "▁Matte", "▁Bank", "▁Er", "▁ging", "▁zur", "ing", "er", "en", "ch",
    "sch", "tion", "st", "ed", "▁Кот", "▁сидел", "▁на", "ков", "рик", "е", "▁我", "们", "在", "银行", "。", "，", "猫",
    "▁नमस्ते", "▁दुनिया", "बिल्ली", "▁مرحبا", "العالم", "🙂", "👍", "▁fi", "½", "1", "2", "3", "00", ".", ",", "!",
    "?", "'", '"', "-", "–", ":", ";", "(", ")", "/", "%", "<", ">", "s", "t", "n",
]
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789äöüßéабвгдежзиклмнопрстук的了是不ーのは"

INPUTS = [
    {"src": "The cat sat on the mat.", "mt": "Die Katze sitzt auf der Matte.", "ref": "Die Katze saß auf der Matte."},
    {"src": "He went to the bank.", "mt": "Кот сидел на коврике", "ref": "Кот пошёл  в банк."},
    {"src": "We are in the bank", "mt": "我们在银行。", "ref": "我们在 银行 里，"},
    {"src": "Hello world!", "mt": " नमस्ते दुनिया\tबिल्ली ", "ref": "नमस्ते दुनिया!"},
    {"src": "Hello, world", "mt": "مرحبا العالم 🙂👍🏽 ok", "ref": "مرحبا بالعالم"},
    {"src": "He went.", "mt": "", "ref": "Er ging."},
    {"src": "The ﬁle is ½ full – of ﬁsh.", "mt": "Die ﬁle ist ½ voll – Ｆｉｓｃｈ", "ref": "Die Datei ist halb voll."},
    {"src": "猫が好き", "mt": "I like  the cats\n(a lot).", "ref": "I like cats."},
    {"src": "long " * 9, "mt": "Die Katze ging zur Bank und " * 11 + "Ende.", "ref": "Er ging und ging und ging."},
    {"src": "Er ging zur Bank und " * 14, "mt": "He went to the bank and stayed", "ref": "He went to the bank and " * 8},
    {"src": "", "mt": "Nothing to see here", "ref": ""},
    {"src": "a", "mt": "ABC xyz 123 ßüé, \"quoted\" – 100%", "ref": "b"},
]

HEAD = {"hidden_sizes": [16, 8], "activations": "Tanh", "final_activation": None}
MT_SRC, MT_REF, THREE = ["mt", "src"], ["mt", "ref"], ["mt", "src", "ref"]

# case -> (class, its folder in models/tiny or None, settings, the fields of its inputs)
CASES = {
    "regression": ("regression_metric", "comet-da", {"layer_transformation": "sparsemax", "layer_norm": False, "pool": "avg"}, THREE),
    "regression-norm": ("regression_metric", None, {"layer_transformation": "softmax", "layer_norm": True, "pool": "cls"}, THREE),
    "regression-max": ("regression_metric", None, {"layer": 2, "pool": "max", "activations": "Sigmoid", "final_activation": "Sigmoid"}, THREE),
    "regression-default": ("regression_metric", None, {"layer_norm": True, "pool": "default", "hidden_sizes": [12]}, THREE),
    "referenceless": ("referenceless_regression_metric", "comet-qe", {"layer_transformation": "softmax", "layer_norm": True, "pool": "avg"}, MT_SRC),
    "unified": ("unified_metric", "cometkiwi", {"layer_transformation": "sparsemax", "layer_norm": False, "word_layer": 3, "input_segments": MT_SRC}, MT_SRC),
    "unified-patch": ("unified_metric", None, {"layer_transformation": "sparsemax_patch", "layer_norm": True, "word_layer": 3, "input_segments": MT_SRC}, MT_SRC),
    "unified-tags": ("unified_metric", None, {"sent_layer": 3, "word_layer": 2, "word_level_training": True, "input_segments": MT_SRC}, MT_SRC),
    "unified-three": ("unified_metric", None, {"layer_transformation": "sparsemax", "layer_norm": True, "word_layer": 3, "word_level_training": True, "input_segments": THREE}, THREE),
    "unified-qe": ("unified_metric", None, {"layer_transformation": "sparsemax", "layer_norm": True, "word_layer": 3, "word_level_training": True, "input_segments": THREE}, MT_SRC),
    "unified-ref": ("unified_metric", None, {"layer_transformation": "softmax", "layer_norm": False, "word_layer": 3, "input_segments": MT_REF}, MT_REF),
    "xcomet": ("xcomet_metric", "xcomet", {"layer_transformation": "sparsemax", "layer_norm": False, "word_layer": 2}, THREE),
    "xcomet-qe": ("xcomet_metric", "xcomet", {"layer_transformation": "sparsemax", "layer_norm": False, "word_layer": 2}, MT_SRC),
}
# Cases that share their head with another one.
HEAD_OF = {"unified-qe": "unified-three", "xcomet-qe": "xcomet"}


def write_encoder(folder):
    """Writes config.json and the tokenizer of the encoder."""
    known = ["<s>", "<pad>", "</s>", "<unk>"]
    pieces = PIECES + [c for c in LETTERS if c not in PIECES]
    vocab = [(p, 0.0) for p in known] + [(p, -2.0 - 0.05 * i - 0.01 * len(p)) for i, p in enumerate(pieces)]
    tokenizer = Tokenizer(models.Unigram(vocab + [("<mask>", 0.0)], unk_id=3, byte_fallback=False))
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    tokenizer.decoder = tokenizers.decoders.Metaspace(replacement="▁", prepend_scheme="always")
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in [*known, "<mask>"]])
    tokenizer.save(str(folder / "tokenizer.json"))
    config = XLMRobertaConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=16,
        num_hidden_layers=3,
        num_attention_heads=1,
        intermediate_size=32,
        max_position_embeddings=66,
        type_vocab_size=1,
        layer_norm_eps=1e-5,
        architectures=["XLMRobertaForMaskedLM"],
    )
    (folder / "config.json").write_text(json.dumps(config.to_dict(), indent=1, sort_keys=True) + "\n")


def seeded(name, tensor, head):
    """Numbers that follow from a tensor's name."""
    key = name if name.startswith("encoder.") else f"{head}/{name}"
    generator = torch.Generator().manual_seed(SEED + zlib.crc32(key.encode()))
    numbers = torch.randn(tensor.shape, generator=generator)
    if "LayerNorm.weight" in name:
        return 1 + 0.2 * numbers
    if "embeddings" in name:
        return 0.5 * numbers
    if "scalar_parameters" in name:
        return 0.6 * numbers
    if name.endswith("gamma"):
        return 1 + 0.1 * numbers
    if name.startswith("hidden2tag.bias"):
        return torch.tensor([0.9] + [0.2] * (tensor.shape[0] - 1))
    if name.endswith("bias"):
        return 0.2 * numbers
    scale = 1.0 if name.startswith("encoder") else 2.0
    return scale * numbers / math.sqrt(tensor.shape[-1])


def build(case, encoder):
    kind, _, settings, _ = CASES[case]
    model = str2model[kind](
        encoder_model="XLM-RoBERTa", pretrained_model=str(encoder), load_pretrained_weights=False, **{**HEAD, **settings}
    )
    model.hparams.pretrained_model = "xlm-roberta-large"
    head = HEAD_OF.get(case, case)
    state = model.state_dict()
    trained = {n: seeded(n, t, head) for n, t in state.items() if t.is_floating_point() and "dropout_" not in n}
    model.load_state_dict(trained, strict=False)
    return model.eval()


def publish(model, folder):
    (folder / "checkpoints").mkdir(parents=True, exist_ok=True)
    trainer = ptl.Trainer(logger=False, accelerator="cpu", enable_progress_bar=False, enable_model_summary=False)
    trainer.strategy.connect(model)
    trainer.save_checkpoint(folder / "checkpoints" / "model.ckpt", weights_only=True)
    save_hparams_to_yaml(str(folder / "hparams.yaml"), dict(model.hparams))


def predict(model, fields, batch_size):
    samples = [{field: sample[field] for field in fields} for sample in INPUTS]
    return model.predict(samples, batch_size=batch_size, gpus=0, num_workers=0, progress_bar=False)


def results(model, fields):
    """Scores, their parts and error spans of each input, which batches change by rounding alone."""
    single, batched = predict(model, fields, 1), predict(model, fields, 5)
    assert max(abs(a - b) for a, b in zip(single.scores, batched.scores, strict=True)) < HEADROOM
    metadata = dict(single.metadata.items()) if "metadata" in single.keys() else {}
    rows = []
    for i, score in enumerate(single.scores):
        row = {"score": score, **{name: values[i] for name, values in metadata.items()}}
        for span in row.get("error_spans", []):
            # Words are compared verbatim; COMET writes them as the tokenizer decodes them.
            span["verbatim"] = INPUTS[i]["mt"][span["start"] : span["end"]]
        rows.append(row)
    return rows


def states(model, sample):
    """The states of all layers for the sequences that the classes encode."""
    encoder = model.encoder
    alone = {field: encoder.prepare_sample([sample[field]]) for field in THREE}
    joined = {"+".join(f): encoder.concat_sequences([alone[g] for g in f])[0] for f in (MT_SRC, MT_REF, THREE)}
    found = {}
    for name, batch in {**alone, **joined}.items():
        with torch.no_grad():
            layers = encoder(batch["input_ids"], batch["attention_mask"])["all_layers"]
        found[name] = torch.stack([layer[0] for layer in layers]).contiguous()
    offsets = encoder.subword_tokenize([sample["mt"]], [[]])["offsets"][0]
    return found, [list(offset) for offset in offsets]


def check(cases):
    """A feature that shows in no result proves nothing."""
    for name, case in cases.items():
        scores = [row["score"] for row in case["results"]]
        assert max(scores) - min(scores) > 0.02, (name, scores)
    spans = [span for row in cases["xcomet"]["results"] for span in row["error_spans"]]
    assert {span["severity"] for span in spans} == {"minor", "major", "critical"}, spans
    assert any(" " in span["verbatim"] for span in spans), spans
    parts = [row[part] for row in cases["xcomet"]["results"] for part in ("src_scores", "ref_scores", "unified_scores")]
    assert any(part > 1 for part in parts), parts


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", type=Path, default=Path("models/tiny"))
    parser.add_argument("--golden", type=Path, default=Path("tests/golden"))
    args = parser.parse_args()
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    cases, tensors = {}, {}
    with tempfile.TemporaryDirectory() as encoder:
        encoder = Path(encoder)
        write_encoder(encoder)
        for case, (_, folder, _, fields) in CASES.items():
            model = build(case, encoder)
            if folder and case not in HEAD_OF:
                target = args.models / folder
                publish(model, target)
                for file in ("config.json", "tokenizer.json"):
                    shutil.copy(encoder / file, target / file)
            elif case not in HEAD_OF:
                heads = {n: t for n, t in model.state_dict().items() if not n.startswith("encoder.")}
                tensors.update({f"{case}/{name}": tensor.contiguous() for name, tensor in heads.items()})
            hparams = {k: v for k, v in dict(model.hparams).items() if k not in ("train_data", "validation_data")}
            cases[case] = {
                "folder": folder,
                "head": HEAD_OF.get(case, case),
                "hparams": hparams,
                "fields": fields,
                "results": results(model, fields),
            }
        offsets = []
        for i, sample in enumerate(INPUTS[:2]):
            found, of_mt = states(model, sample)
            tensors.update({f"{i}/{name}": tensor for name, tensor in found.items()})
            offsets.append(of_mt)
    check(cases)
    made_by = {
        "script": "scripts/golden_comet.py",
        "unbabel-comet": comet.__version__ if hasattr(comet, "__version__") else "2.2.7",
        "transformers": transformers.__version__,
        "torch": torch.__version__,
        "lightning": ptl.__version__,
    }
    golden = {"made_by": made_by, "inputs": INPUTS, "mt_offsets": offsets, "cases": cases}
    (args.golden / "comet.json").write_text(json.dumps(golden, ensure_ascii=False, indent=1) + "\n")
    save_file(tensors, args.golden / "comet.safetensors")


if __name__ == "__main__":
    main()
