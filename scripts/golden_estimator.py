# /// script
# requires-python = ">=3.10"
# dependencies = ["torch==2.15.0", "transformers==5.24.0", "safetensors>=0.5", "tokenizers>=0.22", "numpy"]
# ///
"""What the head of `scripts/tune/qe_train.py` computes, seeded and small.

    python scripts/golden_estimator.py [--golden tests/golden]

Writes tests/golden/estimator.safetensors: a file of the format `tribunal-qe/1`, and in it, of two texts, `states.SIDE.DEPTH`
[tokens with the special ones, hidden], and the `expected.score` and `expected.tags`.
"""

import argparse
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file

sys.path.insert(0, str(Path(__file__).parent / "tune"))
import qe_train  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--golden", type=Path, default=Path("tests/golden"))
    args = parser.parse_args()
    torch.manual_seed(0)
    qe_train.DEPTHS, qe_train.WIDTH, qe_train.HIDDEN = (1, 3), 20, 7
    hidden, lengths = 48, {"translation": 7, "source": 5}
    head = qe_train.Head(hidden).eval()
    tensors = {f"head.{name}": value.data for name, value in head.named_parameters()}
    for value in tensors.values():
        value.add_(torch.randn_like(value) * 0.2)
    states = {side: [torch.randn(1, n, hidden) for _ in qe_train.DEPTHS] for side, n in lengths.items()}
    texts = []
    for side, of_side in states.items():
        tensors |= {f"states.{side}.{i}": value[0] for i, value in enumerate(of_side)}
        texts.append((head.projected(of_side)[:, 1:], torch.tensor([[True] * (lengths[side] - 2) + [False]])))
    (x, x_mask), (y, y_mask) = texts
    score, tags = head(x, x_mask, y, y_mask)
    tensors |= {"expected.score": score.detach(), "expected.tags": torch.sigmoid(tags[0, :-1]).detach()}
    matrix = "model.layers.1.self_attn.q_proj"
    tensors |= {f"{matrix}.lora_A.weight": torch.randn(2, hidden), f"{matrix}.lora_B.weight": torch.randn(hidden, 2)}
    metadata = {"format": "tribunal-qe/1", "depths": "1,3"}
    save_file({name: value.contiguous() for name, value in tensors.items()}, args.golden / "estimator.safetensors", metadata)
    print(score.item(), tensors["expected.tags"].tolist())


if __name__ == "__main__":
    main()
