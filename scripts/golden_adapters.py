# /// script
# requires-python = ">=3.10"
# dependencies = ["torch==2.9.1", "transformers==4.57.3", "peft==0.18.0", "safetensors>=0.5"]
# ///
"""Makes LoRA adapters of the tiny models with PEFT, and the logits that PEFT computes with them.

    python scripts/golden_adapters.py [--models models/tiny] [--golden tests/golden/adapters]

Writes, for every entry of `ADAPTERS`:

  tests/golden/adapters/<name>/             adapter_config.json and adapter_model.safetensors, by PEFT
  tests/golden/adapters/<name>.json         where the logits come from, the token ids
  tests/golden/adapters/<name>.safetensors  `0`, `1`: logits of each sequence, f32 [tokens, vocab]

Both matrices are random but seeded by each tensor's name (PEFT starts B at zero, which would prove nothing), so
running the script again gives the same bytes. Each adapter must move some logit by `IN_FORCE` at least, and so must
every module of it on its own.

With `--load FOLDER --model FOLDER` it makes nothing: PEFT loads that adapter, and the sum of its matrices' numbers is
printed, which shows that PEFT reads what this project wrote.
"""

import argparse
import json
import re
import zlib
from pathlib import Path

import peft
import torch
import transformers
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

SEED = 20261122
LENGTHS = (17, 40)  # tokens of each test sequence
IN_FORCE = 0.05  # an adapter, and each of its modules, must move a logit by this much
HEADROOM = 2e-5  # f32 against f64 of the same model: rounding must stay far below the tests' 1e-4

ATTENTION = ["q_proj", "k_proj", "v_proj", "o_proj"]
FEED_FORWARD = ["gate_proj", "up_proj", "down_proj"]

# name -> (tiny model, type of the numbers, settings)
ADAPTERS = {
    "qwen2-all": ("qwen2", torch.float32, dict(r=4, lora_alpha=8, target_modules=ATTENTION + FEED_FORWARD)),
    # A second one for the same model: rows of both may stand in one batch.
    "qwen2-qv": ("qwen2", torch.float32, dict(r=2, lora_alpha=3, target_modules=["q_proj", "v_proj"])),
    "mistral-rslora": (
        "mistral",
        torch.bfloat16,
        dict(r=3, lora_alpha=4, use_rslora=True, target_modules=ATTENTION, layers_to_transform=[1]),
    ),
    "gemma3-mlp": ("gemma3", torch.float32, dict(r=8, lora_alpha=8, target_modules=FEED_FORWARD)),
}


def write_json(path, value):
    text = json.dumps(value, indent=2, ensure_ascii=False)
    text = re.sub(r"\[[\d,\s]+\]", lambda ids: re.sub(r"\s+", " ", ids[0]), text)  # ids on one line
    path.write_text(text + "\n", encoding="utf-8")


def sequences():
    g = torch.Generator().manual_seed(SEED)
    return [torch.randint(0, 320, (n,), generator=g) for n in LENGTHS]


def load(folder, dtype=torch.float32):
    return AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager", dtype=dtype).eval()


@torch.no_grad()
def logits(net, ids):
    return net(input_ids=ids[None], use_cache=False).logits[0]


def fill(net, dtype):
    for name, p in net.named_parameters():
        if "lora_" in name:
            g = torch.Generator().manual_seed(SEED + zlib.crc32(name.encode()))
            draw = torch.randn(p.shape, generator=g, dtype=torch.float32)
            p.data = (0.7 / p.shape[1] ** 0.5 * draw).to(dtype).to(torch.float32)


def without(net, module, ids):
    """The logits with one module's B at zero."""
    hit = [p for n, p in net.named_parameters() if f".{module}.lora_B." in n]
    kept = [p.data.clone() for p in hit]
    for p in hit:
        p.data.zero_()
    out = logits(net, ids)
    for p, value in zip(hit, kept):
        p.data = value
    return out


def make(name, models_dir, golden_dir):
    base, dtype, settings = ADAPTERS[name]
    folder = golden_dir / name
    config = LoraConfig(task_type="CAUSAL_LM", bias="none", lora_dropout=0.0, **settings)
    net = get_peft_model(load(models_dir / base), config).eval()
    fill(net, dtype)
    # The path that this script was given is nobody's business.
    net.peft_config["default"].base_model_name_or_path = f"models/tiny/{base}"
    net.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)  # PEFT's empty card
    weights = folder / "adapter_model.safetensors"
    save_file({n: p.to(dtype) for n, p in load_file(weights).items()}, weights, metadata={"format": "pt"})
    # A list of modules is a set in PEFT: sorted, so that the file's bytes are the same every time.
    saved = json.loads((folder / "adapter_config.json").read_text())
    saved["target_modules"].sort()
    write_json(folder / "adapter_config.json", saved)

    ids = sequences()
    net = PeftModel.from_pretrained(load(models_dir / base), folder).eval()
    exact = PeftModel.from_pretrained(load(models_dir / base, torch.float64), folder).double().eval()
    out = [logits(net, s) for s in ids]
    rounding = max((a - logits(exact, s)).abs().max().item() for a, s in zip(out, ids))
    assert rounding < HEADROOM, f"{name}: f32 is {rounding} from f64"
    plain = load(models_dir / base)
    moved = {"all": (logits(plain, ids[-1]) - out[-1]).abs().max().item()}
    for module in settings["target_modules"]:
        moved[module] = (without(net, module, ids[-1]) - out[-1]).abs().max().item()
    for what, by in moved.items():
        assert by > IN_FORCE, f"{name}: `{what}` moves no logit by more than {by}"

    save_file({str(i): x.contiguous() for i, x in enumerate(out)}, golden_dir / f"{name}.safetensors")
    write_json(
        golden_dir / f"{name}.json",
        {
            "made_by": f"scripts/golden_adapters.py (seed {SEED})",
            "with": {
                "peft": peft.__version__,
                "transformers": transformers.__version__,
                "torch": torch.__version__.split("+")[0],
            },
            "settings": "attn_implementation eager, float32, no cache",
            "model": f"models/tiny/{base}",
            "max_abs_difference_to_float64": float(f"{rounding:.2g}"),
            "max_abs_difference_when_switched_off": {k: round(v, 3) for k, v in moved.items()},
            "sequences": [s.tolist() for s in ids],
        },
    )
    print(f"{name}: f32-f64 {rounding:.1e}, {moved}")


def loads(model, folder):
    """PEFT reads the adapter; every matrix of it must have found its place."""
    net = PeftModel.from_pretrained(load(model), folder)
    held = {n.replace(".default", ""): p.data for n, p in net.named_parameters() if "lora_" in n}
    stored = load_file(folder / "adapter_model.safetensors")
    assert held.keys() == stored.keys(), held.keys() ^ stored.keys()
    assert all(torch.equal(held[n], stored[n].to(torch.float32)) for n in held)
    print(f"{folder}: {len(held)} matrices, scaling {next(m.scaling for m in net.modules() if hasattr(m, 'scaling'))}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", type=Path, default=Path("models/tiny"))
    parser.add_argument("--golden", type=Path, default=Path("tests/golden/adapters"))
    parser.add_argument("--load", type=Path)
    parser.add_argument("--model", type=Path)
    args = parser.parse_args()
    if args.load:
        return loads(args.model, args.load)
    args.golden.mkdir(parents=True, exist_ok=True)
    for name in ADAPTERS:
        make(name, args.models, args.golden)


if __name__ == "__main__":
    main()
