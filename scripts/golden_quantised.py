# /// script
# requires-python = ">=3.10"
# dependencies = ["compressed-tensors==0.20.0", "numpy>=2", "safetensors>=0.5", "torch>=2.6"]
# ///
"""Writes matrices as quantisation libraries store them, with the values that are meant.

    python scripts/golden_quantised.py [--golden tests/golden/quantised]

`GOLDEN.json` has a `quantization_config` for each case, `GOLDEN.safetensors` the case's tensors `CASE/NAME` and the
values `CASE/values/MODULE`, f32 `[n, k]`: scale times (code - zero). Modules are those of the tiny Qwen3. Those of
compressed-tensors are packed, and unpacked for the values, by that library; the others by the definitions of their
formats (AutoGPTQ's and AutoAWQ's linear layers, and the FP8 checkpoints of DeepSeek and Qwen).
"""

import argparse
import json
from pathlib import Path

import torch
from compressed_tensors.compressors import pack_to_int32, unpack_from_int32
from safetensors.torch import save_file

MODULES = {"model.layers.0.mlp.down_proj": (32, 64), "model.layers.1.self_attn.k_proj": (64, 32)}
GROUP = 32
AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]


def draw(n, k, bits, symmetric, dtype):
    groups = k // GROUP
    codes = torch.randint(0, 2**bits, (n, k), dtype=torch.int32)
    middle = 2 ** (bits - 1)
    zeros = torch.full((n, groups), middle, dtype=torch.int32)
    if not symmetric:
        zeros = torch.randint(0, 2**bits, (n, groups), dtype=torch.int32)
    scales = (torch.rand(n, groups) * 0.02 + 0.001).to(dtype)
    values = scales.float().repeat_interleave(GROUP, 1) * (codes - zeros.repeat_interleave(GROUP, 1)).float()
    return codes, zeros, scales, values


def in_words(numbers, bits):
    """Packs the last dimension, lowest bits first."""
    per = 32 // bits
    numbers = numbers.reshape(*numbers.shape[:-1], -1, per).long()
    words = sum(numbers[..., i] << (bits * i) for i in range(per))
    return (words - (words >> 31 << 32)).to(torch.int32)


def gptq(n, k, bits, symmetric, stored):
    codes, zeros, scales, values = draw(n, k, bits, symmetric, torch.float16)
    tensors = {
        "qweight": in_words(codes, bits).t(),
        "qzeros": in_words((zeros.t() - stored) % 2**bits, bits),
        "scales": scales.t(),
        "g_idx": torch.arange(k, dtype=torch.int32) // GROUP,
    }
    return tensors, values


def awq(n, k):
    codes, zeros, scales, values = draw(n, k, 4, False, torch.float16)

    def packed(numbers):
        return in_words(numbers.reshape(len(numbers), -1, 8)[:, :, AWQ_ORDER].reshape(len(numbers), -1), 4)

    return {"qweight": packed(codes.t()), "qzeros": packed(zeros.t()), "scales": scales.t()}, values


def compressed(n, k, bits, symmetric):
    codes, zeros, scales, values = draw(n, k, bits, symmetric, torch.bfloat16)
    middle = 2 ** (bits - 1)
    words = pack_to_int32((codes - middle).to(torch.int8), bits)
    assert torch.equal(unpack_from_int32(words, bits, torch.Size((n, k))).int(), codes - middle)
    tensors = {"weight_packed": words, "weight_scale": scales, "weight_shape": torch.tensor([n, k])}
    if not symmetric:
        tensors["weight_zero_point"] = pack_to_int32((zeros - middle).to(torch.int8), bits, packed_dim=0)
    return tensors, values


def fp8(n, k, tile, name, dtype):
    codes = (torch.randn(n, k) * 40).to(torch.float8_e4m3fn)
    rows, columns = tile
    shape = (-(-n // rows), -(-k // columns))
    scales = (torch.rand(shape) * 0.001 + 1e-4).to(dtype)
    spread = scales.float().repeat_interleave(rows, 0)[:n].repeat_interleave(columns, 1)[:, :k]
    scales = scales.reshape(()) if scales.numel() == 1 else scales
    return {"weight": codes, name: scales, "input_scale": torch.tensor(0.5)}, codes.float() * spread


def weights(**settings):
    group = {"targets": ["Linear"], "weights": settings, "input_activations": None, "output_activations": None}
    kind = "pack-quantized" if settings["type"] == "int" else "float-quantized"
    return {
        "quant_method": "compressed-tensors",
        "format": kind,
        "config_groups": {"group_0": group},
        "ignore": ["lm_head"],
        "kv_cache_scheme": None,
        "quantization_status": "compressed",
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--golden", type=Path, default=Path("tests/golden/quantised"))
    args = parser.parse_args()
    torch.manual_seed(20261126)
    of_gptq = {"quant_method": "gptq", "group_size": GROUP, "desc_act": False}
    of_fp8 = {"quant_method": "fp8", "fmt": "e4m3"}
    integers = {"type": "int", "strategy": "group", "group_size": GROUP, "dynamic": False}
    cases = {
        "gptq": ({**of_gptq, "bits": 4, "sym": True}, lambda n, k: gptq(n, k, 4, True, 1)),
        "gptq-zeros": ({**of_gptq, "bits": 4, "sym": False}, lambda n, k: gptq(n, k, 4, False, 1)),
        "gptq-v2": (
            {**of_gptq, "bits": 4, "sym": False, "checkpoint_format": "gptq_v2"},
            lambda n, k: gptq(n, k, 4, False, 0),
        ),
        "gptq-8": ({**of_gptq, "bits": 8, "sym": True}, lambda n, k: gptq(n, k, 8, True, 1)),
        "awq": (
            {"quant_method": "awq", "bits": 4, "group_size": GROUP, "zero_point": True, "version": "gemm"},
            awq,
        ),
        "compressed-4": (weights(num_bits=4, symmetric=True, **integers), lambda n, k: compressed(n, k, 4, True)),
        "compressed-4-zeros": (
            weights(num_bits=4, symmetric=False, **integers),
            lambda n, k: compressed(n, k, 4, False),
        ),
        "compressed-8": (weights(num_bits=8, symmetric=True, **integers), lambda n, k: compressed(n, k, 8, True)),
        "compressed-fp8": (
            weights(num_bits=8, type="float", strategy="channel", symmetric=True, dynamic=False),
            lambda n, k: fp8(n, k, (1, k), "weight_scale", torch.bfloat16),
        ),
        "fp8-tiles": (
            {**of_fp8, "weight_block_size": [48, 32], "activation_scheme": "dynamic"},
            lambda n, k: fp8(n, k, (48, 32), "weight_scale_inv", torch.float32),
        ),
        "fp8-tensor": (
            {**of_fp8, "weight_block_size": None, "activation_scheme": "static"},
            lambda n, k: fp8(n, k, (n, k), "weight_scale_inv", torch.bfloat16),
        ),
    }
    tensors, configs = {}, {}
    for case, (config, make) in cases.items():
        configs[case] = config
        for module, (n, k) in MODULES.items():
            parts, values = make(n, k)
            tensors.update({f"{case}/{module}.{part}": tensor.contiguous() for part, tensor in parts.items()})
            tensors[f"{case}/values/{module}"] = values
    save_file(tensors, args.golden.with_suffix(".safetensors"))
    args.golden.with_suffix(".json").write_text(json.dumps(configs, indent=1) + "\n")


if __name__ == "__main__":
    main()
