# /// script
# requires-python = ">=3.10"
# dependencies = ["torch==2.15.0", "transformers==5.24.0", "safetensors>=0.5"]
# ///
"""What `transformers` computes with the tiny models under other settings: keys left out, ropes in other places, biases,
output matrices that are tied or not.

    python scripts/golden_checkpoints.py [--models models/tiny] [--golden tests/golden]

Writes

  tests/golden/checkpoints.json         where the logits come from, the token ids, and each case: a tiny model, what its
                                        config.json says instead, which keys it leaves out, which tensors are added
  tests/golden/checkpoints.safetensors  by the case's name: logits of the last token, f32 [vocab]

A case either moves some logit by `IN_FORCE`, or is the unchanged model (`same`): another place for the same setting, or a
key whose value is the default of its class.
"""

import argparse
import copy
import json
import tempfile
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

SEED = 20240607
VOCAB = 320
LENGTH = 112  # past every window and original context
IN_FORCE = 1e-3  # a setting must move a logit by this much, ten times what the tests allow
HEADROOM = 2e-5  # f32 against f64 of the same model

LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
LLAMA3 |= {"original_max_position_embeddings": 64}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}
LINEAR = {"rope_type": "linear", "factor": 8.0}
# The tiny models' own settings of the parts of Gemma 3 that are not read here.
VISION = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}
VISION |= {"image_size": 28, "patch_size": 14, "vocab_size": 1, "model_type": "siglip_vision_model"}

CASES = {}


def case(name, model, setting=None, out=(), tensors=(), same=False):
    """`setting` and `out` name keys by their path; `tensors` are made as `ADDED` says."""
    assert name not in CASES, name
    CASES[name] = {
        "model": model,
        "set": setting or {},
        "leave_out": list(out),
        "tensors": list(tensors),
        "same": same,
    }


# Keys that are left out.
case("llama without eps", "llama", out=["rms_norm_eps"])
case("llama without theta", "llama", out=["rope_theta"])
case(
    "llama without what is default",
    "llama",
    out=["hidden_act", "tie_word_embeddings", "attention_bias", "mlp_bias"],
    same=True,
)
case("mistral with its default window", "mistral", out=["sliding_window"], same=True)
case("qwen2 without theta", "qwen2", out=["rope_theta"])
case("qwen2 without layers of windows", "qwen2", {"use_sliding_window": True}, out=["max_window_layers"], same=True)
case("qwen3 without theta", "qwen3", out=["rope_theta"])
case("gemma3 without scalar", "gemma3", out=["query_pre_attn_scalar"])
case("gemma3 without pattern", "gemma3", out=["sliding_window_pattern"])
case(
    "gemma3 without what is default",
    "gemma3",
    out=[
        "rope_theta",
        "rope_local_base_freq",
        "tie_word_embeddings",
        "hidden_activation",
        "rms_norm_eps",
        "attention_bias",
    ],
    same=True,
)
case("nested without scalar", "gemma3-nested", out=["text_config.query_pre_attn_scalar"])
case(
    "nested without what is default",
    "gemma3-nested",
    out=[
        "text_config." + key
        for key in ("rope_theta", "rope_local_base_freq", "hidden_activation", "rms_norm_eps", "model_type")
    ],
    same=True,
)

# Ropes in other places.
THETA = {"rope_theta": 500000.0}
case("theta in rope_scaling", "llama", {"rope_scaling": {**LLAMA3, **THETA}}, out=["rope_theta"], same=True)
case(
    "flat rope_parameters",
    "llama",
    {"rope_parameters": {**LLAMA3, **THETA}},
    out=["rope_theta", "rope_scaling"],
    same=True,
)
case("rope_parameters null", "llama", {"rope_parameters": None}, same=True)
case("rope_scaling null", "llama", {"rope_parameters": {**LLAMA3, **THETA}, "rope_scaling": None}, same=True)
case(
    "original positions at the top",
    "llama",
    {"original_max_position_embeddings": 64},
    out=["rope_scaling.original_max_position_embeddings"],
    same=True,
)
case(
    "flat rope_parameters of qwen3",
    "qwen3",
    {"rope_parameters": {"rope_theta": 1e6}},
    out=["rope_theta", "rope_scaling"],
    same=True,
)
ROPES = ["rope_theta", "rope_scaling", "rope_local_base_freq"]
BOTH = {"full_attention": {**LINEAR, "rope_theta": 1e6}, "sliding_attention": {"rope_theta": 1e4}}
case("ropes by layer type", "gemma3", {"rope_parameters": BOTH}, out=ROPES, same=True)
case(
    "one rope by layer type",
    "gemma3",
    {"rope_parameters": {"full_attention": BOTH["full_attention"]}},
    out=ROPES,
    same=True,
)
LOCAL = {**BOTH, "sliding_attention": {"rope_type": "linear", "factor": 2.0, "rope_theta": 3e4}}
case("scaled rope of sliding layers", "gemma3", {"rope_parameters": LOCAL}, out=ROPES)
case(
    "nested ropes by layer type",
    "gemma3-nested",
    {"text_config.rope_parameters": BOTH},
    out=["text_config." + key for key in ROPES],
    same=True,
)

# Types of rope and their numbers.
case("linear", "llama", {"rope_scaling": {"type": "linear", "factor": 2}})
case("dynamic", "llama", {"rope_scaling": {"type": "dynamic", "factor": 4.0}})
case(
    "llama3 with other bands",
    "llama",
    {"rope_scaling": {**LLAMA3, "low_freq_factor": 1.5, "high_freq_factor": 3.0}},
)
case("llama3 without original positions", "llama", out=["rope_scaling.original_max_position_embeddings"])
for name, more in {
    "yarn": {},
    "yarn from further": {"original_max_position_embeddings": 256},
    "yarn beta_fast": {"beta_fast": 4, "original_max_position_embeddings": 256},
    "yarn beta_slow": {"beta_slow": 3.0},
    "yarn crossed betas": {"beta_fast": 1, "beta_slow": 32},
    "yarn attention_factor": {"attention_factor": 0.9},
    "yarn mscale": {"mscale": 0.707, "mscale_all_dim": 1.2},
    "yarn mscale alone": {"mscale": 2.0},
    "yarn truncate": {"truncate": False},
    "yarn factor null": {"factor": None},
}.items():
    case(name, "qwen3", {"rope_scaling": {**YARN, **more}})
case("yarn of gemma3", "gemma3", {"rope_parameters": {"full_attention": {**YARN, "rope_theta": 1e6}}}, out=ROPES)

# Other settings.
case("llama with gelu", "llama", {"hidden_act": "gelu_pytorch_tanh"})
case("gemma3 with silu", "gemma3", {"hidden_activation": "silu"})
case("mistral with a window", "mistral", {"sliding_window": 16})
case(
    "qwen2 with layer types",
    "qwen2",
    {"use_sliding_window": True, "layer_types": ["sliding_attention", "full_attention"]},
)
case(
    "gemma3 with layer types",
    "gemma3",
    {"layer_types": ["full_attention", "attention", "sliding_attention", "full_attention"]},
)
case("one layer of two", "llama", {"num_hidden_layers": 1})

# Tensors beside those of the model.
BIASES = ["attention biases", "mlp biases"]
case("attention biases", "llama", {"attention_bias": True}, tensors=["attention biases"])
case("all biases", "llama", {"attention_bias": True, "mlp_bias": True}, tensors=BIASES)
case("attention biases of qwen3", "qwen3", {"attention_bias": True}, tensors=["attention biases"])
case("attention biases of gemma3", "gemma3", {"attention_bias": True}, tensors=["attention biases"])
case("tied, with another output matrix", "qwen2", tensors=["other output"])
case("tied, with the same output matrix", "qwen2", tensors=["same output"], same=True)
case("tied, with the output matrix alone", "qwen2", tensors=["same output", "no embeddings"], same=True)
case("untied, with another output matrix", "qwen2", {"tie_word_embeddings": False}, tensors=["other output"])
case("nested and tied, with another output matrix", "gemma3-nested", tensors=["other output"])
case("nested, untied inside", "gemma3-nested", {"text_config.tie_word_embeddings": False}, same=True)


def biases(tensors, modules):
    """A bias for each matrix of these modules: its first column."""
    return {
        name.removesuffix("weight") + "bias": value[:, 0].clone()
        for name, value in tensors.items()
        if any(name.endswith(f"{module}_proj.weight") for module in modules)
    }


def named(tensors, end):
    [name] = [name for name in tensors if name.endswith(end)]
    return name


def add(tensors, kind):
    embeddings = named(tensors, "embed_tokens.weight")
    output = ("language_model." if embeddings.startswith("language_model.") else "") + "lm_head.weight"
    if kind == "attention biases":
        return tensors | biases(tensors, ["q", "k", "v", "o"])
    if kind == "mlp biases":
        return tensors | biases(tensors, ["gate", "up", "down"])
    if kind == "other output":  # the embeddings' rows from the last to the first
        return tensors | {output: tensors[embeddings].flip(0).contiguous()}
    if kind == "same output":
        return tensors | {output: tensors[embeddings].clone()}
    assert kind == "no embeddings"
    return {name: value for name, value in tensors.items() if name != embeddings}


def at(config, path):
    *folders, last = path.split(".")
    for folder in folders:
        config = config[folder]
    return config, last


def changed(config, about):
    config = copy.deepcopy(config)
    if "vision_config" in config:
        config["vision_config"] = VISION
    for path in about["leave_out"]:
        inner, key = at(config, path)
        del inner[key]
    for path, value in about["set"].items():
        inner, key = at(config, path)
        inner[key] = value
    return config


@torch.no_grad()
def logits(folder, dtype, ids):
    net = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager", dtype=dtype).eval()
    return net(input_ids=ids[None], use_cache=False).logits[0, -1].float()


def computed(models, about, ids):
    source = models / about["model"]
    tensors = load_file(source / "model.safetensors")
    for kind in about["tensors"]:
        tensors = add(tensors, kind)
    with tempfile.TemporaryDirectory() as folder:
        config = changed(json.loads((source / "config.json").read_text()), about)
        (Path(folder) / "config.json").write_text(json.dumps(config))
        save_file(tensors, Path(folder) / "model.safetensors", metadata={"format": "pt"})
        out, exact = (logits(folder, dtype, ids) for dtype in (torch.float32, torch.float64))
    assert (out - exact).abs().max() < HEADROOM, about
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=Path, default=Path("models/tiny"))
    parser.add_argument("--golden", type=Path, default=Path("tests/golden"))
    args = parser.parse_args()
    torch.set_num_threads(1)
    ids = torch.randint(0, VOCAB, (LENGTH,), generator=torch.Generator().manual_seed(SEED))
    plain = {"set": {}, "leave_out": [], "tensors": []}
    before, out = {}, {}
    for name, about in CASES.items():
        model = about["model"]
        if model not in before:
            before[model] = computed(args.models, {"model": model, **plain}, ids)
        out[name] = computed(args.models, about, ids)
        moved = (out[name] - before[model]).abs().max().item()
        assert (moved < 1e-5) if about["same"] else (moved > IN_FORCE), f"{name}: moves a logit by {moved}"
        print(f"{name}: {moved:.3f}")
    save_file({name: value.contiguous() for name, value in out.items()}, args.golden / "checkpoints.safetensors")
    about = {
        "made_by": f"scripts/golden_checkpoints.py (seed {SEED})",
        "with": {"transformers": transformers.__version__, "torch": torch.__version__.split("+")[0]},
        "settings": "attn_implementation eager, float32, no cache",
        "ids": ids.tolist(),
    }
    lines = [f"  {json.dumps(key)}: {json.dumps(value)}," for key, value in about.items()]
    cases = ",\n".join(f"    {json.dumps(name)}: {json.dumps(value)}" for name, value in CASES.items())
    text = "\n".join(["{", *lines, '  "cases": {', cases, "  }", "}", ""])
    (args.golden / "checkpoints.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
