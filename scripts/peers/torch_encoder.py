# /// script
# requires-python = ">=3.10"
# dependencies = ["torch==2.15.0", "transformers==5.24.0", "safetensors>=0.5", "onnx", "onnxruntime", "onnxscript"]
# ///
"""Texts per second of an encoder, `transformers`, onnxruntime and ours in turn, on the same ids and threads.

    torch_encoder.py --tribunal target/release/tribunal [--shape base|large] [--texts 256] [--pairs 3] [--threads 2] [--skip-bf16]

Makes a folder with XLM-R's shape and seeded weights (a small vocabulary, which no product reads). PyTorch computes in f32
and in bf16, onnxruntime in f32 and with weights of 8 bits by channel (dynamic quantisation), in batches of `--batch` texts of
similar lengths, since they pad the others; ours with weights of f32, bf16 and 8 bits. Loading and a first batch are not
timed, on any side. Prints each pair, and the median ratios to PyTorch's f32.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import onnxruntime
import torch
from onnxruntime.quantization import quantize_dynamic
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModel

ROOT = Path(__file__).resolve().parents[2]
SHAPES = {"base": (768, 12, 12), "large": (1024, 24, 16)}


def make(folder, shape):
    """Writes a model of this shape with the tiny model's tokenizer."""
    hidden, layers, heads = SHAPES[shape]
    tiny = ROOT / "models/tiny/xlm-roberta"
    for file in tiny.glob("*token*.json"):
        shutil.copy(file, folder)
    config = json.loads((tiny / "config.json").read_text())
    sizes = {"hidden_size": hidden, "intermediate_size": 4 * hidden, "max_position_embeddings": 514}
    config |= {**sizes, "num_hidden_layers": layers, "num_attention_heads": heads}
    (folder / "config.json").write_text(json.dumps(config))
    torch.manual_seed(1)
    model = AutoModel.from_config(AutoConfig.from_pretrained(folder), add_pooling_layer=False).eval()
    weights = {f"roberta.{name}": tensor.contiguous() for name, tensor in model.state_dict().items()}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return model, config["vocab_size"]


def ids(text, vocab):
    """The ids of a text, as `tribunal-bench encode` computes them."""
    return [5 + (at * 7919 + text * 104729) % (vocab - 10) for at in range(10 + text * 37 % 91)]


def batches(texts, size):
    """Batches of similar lengths, padded, with their masks."""
    texts = sorted(texts, key=len)
    for start in range(0, len(texts), size):
        some = texts[start : start + size]
        longest = max(map(len, some))
        mask = torch.tensor([[1] * len(text) + [0] * (longest - len(text)) for text in some])
        yield torch.tensor([text + [1] * (longest - len(text)) for text in some]), mask


@torch.inference_mode()
def theirs(model, texts, size):
    made = list(batches(texts, size))
    model(input_ids=made[0][0], attention_mask=made[0][1])
    start = time.perf_counter()
    for tokens, mask in made:
        model(input_ids=tokens, attention_mask=mask)
    return len(texts) / (time.perf_counter() - start)


def sessions(a, folder, model, texts):
    """The model in onnxruntime, in f32 and in 8 bits, as functions of a batch."""
    some, mask = next(batches(texts, a.batch))
    plain, small = folder / "f32.onnx", folder / "int8.onnx"
    names, axes = ["input_ids", "attention_mask"], {0: "batch", 1: "length"}
    shapes = tuple({at: torch.export.Dim(name) for at, name in axes.items()} for _ in names)
    torch.onnx.export(model, (some, mask), plain, input_names=names, dynamic_shapes=shapes, dynamo=True, verbose=False)
    quantize_dynamic(plain, small, per_channel=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = a.threads
    for file in (plain, small):
        session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
        yield lambda session=session, **batch: session.run(None, {name: batch[name].numpy() for name in names})


def ours(a, folder, dtype):
    command = [f"{a.tribunal}-bench", "encode", "--model", folder, "--dtype", dtype, "--threads", str(a.threads)]
    command += ["--texts", str(a.texts), "--rows", str(a.batch), "--repeats", "2", "--json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["encode"][0]["texts_per_s"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tribunal", required=True)
    parser.add_argument("--shape", choices=SHAPES, default="base")
    parser.add_argument("--texts", type=int, default=256)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--skip-bf16", action="store_true", help="without PyTorch's bf16, slow on CPUs without bf16 instructions")
    a = parser.parse_args()
    torch.set_num_threads(a.threads)
    with tempfile.TemporaryDirectory() as folder:
        model, vocab = make(Path(folder), a.shape)
        texts = [ids(text, vocab) for text in range(a.texts)]
        onnx = dict(zip(("onnxruntime f32", "onnxruntime int8"), sessions(a, Path(folder), model, texts)))
        measured = {}
        for pair in range(a.pairs):
            figures = {"torch f32": theirs(model.float(), texts, a.batch)}
            if not a.skip_bf16:
                figures["torch bf16"] = theirs(model.bfloat16(), texts, a.batch)
            figures |= {name: theirs(session, texts, a.batch) for name, session in onnx.items()}
            for dtype in ("f32", "bf16", "q8_0"):
                figures[f"ours {dtype}"] = ours(a, folder, dtype)
            print(f"pair {pair + 1}: " + ", ".join(f"{name} {speed:.1f}" for name, speed in figures.items()), flush=True)
            for name, speed in figures.items():
                measured.setdefault(name, []).append(speed / figures["torch f32"])
    for name, ratios in measured.items():
        print(f"{name}: {statistics.median(ratios):.2f} times torch f32 ({min(ratios):.2f} to {max(ratios):.2f})")


if __name__ == "__main__":
    main()
