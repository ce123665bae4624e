# /// script
# requires-python = ">=3.10"
# dependencies = ["torch==2.15.0", "transformers==5.24.0", "safetensors>=0.5", "tokenizers>=0.22"]
# ///
"""The scores that `transformers` computes with the tiny models under heads for sequence classification.

    python scripts/golden_heads.py [--models models/tiny] [--golden tests/golden]

Writes

  tests/golden/heads.json         where the scores come from, the texts, and each case: a tiny model,
                                  and the settings of its head
  tests/golden/heads.safetensors  by the case's name: `weight` [labels, hidden], `bias` [labels] where the head has one,
                                  and `scores` [texts, labels]

A case is the tiny model's own tensors with a head in place of the output matrix. The classes have no bias; one is added
to their scores here.
"""

import argparse
import json
import tempfile
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from transformers import AutoModelForSequenceClassification

SEED = 20240607
HEADROOM = 2e-5  # f32 against f64 of the same model
PADDING = "<|endoftext|>"
TEXTS = [
    "Guten Morgen!",
    "The same prompt as before, and then some more of it: one, two, three, four, five, six, seven, eight, nine.",
    f"Ends with padding, which does not count.{PADDING}{PADDING}",
    "One whose last token stands behind every window and every original context of these small models: " * 3,
]
CLASSES = {
    "llama": "Llama",
    "smollm2": "Llama",
    "mistral": "Mistral",
    "qwen2": "Qwen2",
    "qwen3": "Qwen3",
    "qwen3-moe": "Qwen3Moe",
    "gemma2": "Gemma2",
    "gemma3": "Gemma3Text",
    "hunyuan": "HunYuanDenseV1",
    "ministral3": "Ministral3",
    "qwen3-5": "Qwen3_5Text",
    "qwen3-next": "Qwen3Next",
    "gpt-oss": "GptOss",
    "seed-oss": "SeedOss",
    "deepseek-v2-lite": "DeepseekV2",
    "deepseek-v3": "DeepseekV3",
}
# Labels, and whether the head has a bias, where it is not a single output without one.
OTHERS = {"qwen2": (3, True), "llama": (2, False), "mistral": (1, True)}


def case(models, name, class_name):
    tokenizer = Tokenizer.from_file(str(models / name / "tokenizer.json"))
    ids = [tokenizer.encode(text).ids for text in TEXTS]
    labels, has_bias = OTHERS.get(name, (1, False))
    config = json.loads((models / name / "config.json").read_text())
    config |= {"architectures": [f"{class_name}ForSequenceClassification"], "pad_token_id": 317}
    if labels != 2:  # the default
        config["id2label"] = {str(i): f"LABEL_{i}" for i in range(labels)}
    generator = torch.Generator().manual_seed(SEED + labels)
    weight = 1.5 * torch.randn(labels, config["hidden_size"], generator=generator) / config["hidden_size"] ** 0.5
    weight = weight.bfloat16().float()  # that a head of 16 bits holds the same numbers
    bias = torch.randn(labels, generator=generator).bfloat16().float() if has_bias else torch.zeros(labels)
    with tempfile.TemporaryDirectory() as folder:
        tensors = load_file(models / name / "model.safetensors")
        tensors.pop("lm_head.weight", None)
        save_file(tensors | {"score.weight": weight}, Path(folder) / "model.safetensors", {"format": "pt"})
        (Path(folder) / "config.json").write_text(json.dumps(config))
        scores = []
        for dtype in (torch.float32, torch.float64):
            net = AutoModelForSequenceClassification.from_pretrained(
                folder, dtype=dtype, attn_implementation="eager", experts_implementation="eager"
            ).eval()
            assert type(net).__name__ == config["architectures"][0], type(net).__name__
            with torch.no_grad():
                scores.append(torch.stack([net(torch.tensor([one])).logits[0] for one in ids]) + bias)
    rounding = (scores[0] - scores[1]).abs().max().item()
    assert rounding < HEADROOM, f"{name}: f32 is {rounding} from f64"
    made = {"weight": weight, "scores": scores[0]} | ({"bias": bias} if has_bias else {})
    changes = {key: config[key] for key in ("architectures", "pad_token_id", "id2label") if key in config}
    print(f"{name}: {scores[0].flatten().tolist()[:4]}, f32-f64 {rounding:.1e}")
    return changes, {f"{name}.{key}": value.float().contiguous() for key, value in made.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=Path, default=Path("models/tiny"))
    parser.add_argument("--golden", type=Path, default=Path("tests/golden"))
    args = parser.parse_args()
    torch.set_num_threads(1)
    cases, tensors = {}, {}
    for name, class_name in CLASSES.items():
        cases[name], made = case(args.models, name, class_name)
        tensors |= made
    save_file(tensors, args.golden / "heads.safetensors", metadata={"format": "pt"})
    golden = {
        "made_by": f"scripts/golden_heads.py (seed {SEED})",
        "with": {"transformers": transformers.__version__, "torch": torch.__version__.split("+")[0]},
        "texts": TEXTS,
        "cases": cases,
    }
    (args.golden / "heads.json").write_text(json.dumps(golden, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
