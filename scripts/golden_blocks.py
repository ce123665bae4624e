# /// script
# requires-python = ">=3.10"
# dependencies = ["gguf==0.19.0", "numpy>=2", "safetensors>=0.5"]
# ///
"""Writes blocks of GGUF formats with the values that the package `gguf` reads in them.

    python scripts/golden_blocks.py [--golden tests/golden/blocks.safetensors]

For each format: `NAME.blocks`, u8 `[rows, bytes of a row]`, seeded bytes with scales in f16 that are plausible, and
`NAME.values`, f32 `[rows, values of a row]`.
"""

import argparse
from pathlib import Path

import numpy as np
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize
from safetensors.numpy import save_file

# Where the scales in f16 stand in a block.
FORMATS = {"Q2_K": [80, 82], "Q3_K": [108], "IQ4_NL": [0], "IQ4_XS": [0]}
SEED, ROWS, VALUES = 20261126, 3, 512


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--golden", type=Path, default=Path("tests/golden/blocks.safetensors"))
    args = parser.parse_args()
    draw = np.random.default_rng(SEED)
    tensors = {}
    for name, places in FORMATS.items():
        kind = GGMLQuantizationType[name]
        per_block, n_bytes = GGML_QUANT_SIZES[kind]
        blocks = draw.integers(0, 256, (ROWS * VALUES // per_block, n_bytes), dtype=np.uint8)
        for at in places:
            scales = draw.uniform(-0.1, 0.1, len(blocks)).astype(np.float16)
            blocks[:, at : at + 2] = scales[:, None].view(np.uint8)
        rows = np.ascontiguousarray(blocks.reshape(ROWS, -1))
        tensors[f"{name}.blocks"] = rows
        tensors[f"{name}.values"] = np.ascontiguousarray(dequantize(rows, kind).astype(np.float32))
    save_file(tensors, args.golden)


if __name__ == "__main__":
    main()
