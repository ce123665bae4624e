# /// script
# requires-python = ">=3.10"
# dependencies = ["gguf>=0.19", "numpy"]
# ///
"""Writes GGUF files of the width of gpt-oss-20b and of Gemma 4 26B-A4B with a few layers of seeded weights, which
llama.cpp reads too: speeds are then compared on the same file.

    python scripts/peers/seeded_gguf.py --shape gpt-oss-20b|gemma-4-26b-a4b --layers 4 --out FILE.gguf [--seed 7]

The formats are those of published files: gpt-oss has experts in MXFP4 and everything else in Q8_0; Gemma 4 has Q4_K
where rows are whole blocks of it, else Q5_0. Tokens are bytes; nothing is judged with them. (`tribunal-bench seeded`
writes the shapes of Qwen3 and Qwen3.5.)
"""

import argparse
import zlib
from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Kind

SHAPES = {
    "gpt-oss-20b": {
        "arch": "gpt-oss",
        "vocab": 201088,
        "hidden": 2880,
        "heads": 64,
        "kv_heads": 8,
        "head_dim": 64,
        "experts": 32,
        "experts_used": 4,
        "expert_width": 2880,
        "dense_width": 0,
        "window": 128,
        "context": 131072,
        "eps": 1e-5,
    },
    "gemma-4-26b-a4b": {
        "arch": "gemma4",
        "vocab": 262144,
        "hidden": 2816,
        "heads": 16,
        "kv_heads": 8,
        "head_dim": 256,
        "full_kv_heads": 2,
        "full_head_dim": 512,
        "experts": 128,
        "experts_used": 8,
        "expert_width": 704,
        "dense_width": 2112,
        "window": 1024,
        "context": 262144,
        "eps": 1e-6,
    },
}
BLOCK = {Kind.Q8_0: (32, 34), Kind.Q5_0: (32, 22), Kind.Q4_K: (256, 144), Kind.MXFP4: (32, 17)}


def half(value):
    return np.frombuffer(np.float16(value).tobytes(), dtype=np.uint8)


def blocks(kind, shape, random):
    """Random blocks whose values have a standard deviation of about 1 / sqrt(k) and a mean of 0."""
    values, size = BLOCK[kind]
    k = shape[-1]
    out = random.integers(0, 256, (*shape[:-1], k // values, size), dtype=np.uint8)
    spread = k**-0.5
    if kind == Kind.Q8_0:
        out[..., :2] = half(spread / 74)
    elif kind == Kind.Q5_0:
        out[..., :2] = half(spread / 9.2)
    elif kind == Kind.MXFP4:
        out[..., 0] = round(127 + np.log2(spread / 2.8))
    else:  # d scale (code - 7.5): minima are the scales, and dmin is 7.5 d
        out[..., :2], out[..., 2:4] = half(spread / 168), half(7.5 * spread / 168)
        out[..., 8:12] = out[..., 4:8]
        out[..., 12:16] = out[..., 12:16] & 15 | out[..., 12:16] << 4
    return out.reshape(*shape[:-1], -1)


class Writer:
    def __init__(self, path, shape, n_layers, seed):
        self.shape, self.n_layers, self.seed = shape, n_layers, seed
        self.out = gguf.GGUFWriter(path, shape["arch"])

    def random(self, name):
        return np.random.default_rng([self.seed, zlib.crc32(name.encode())])

    def matrix(self, name, *shape, kind=None):
        kind = kind or (Kind.Q8_0 if self.shape["arch"] == "gpt-oss" else Kind.Q4_K)
        if kind == Kind.Q4_K and shape[-1] % 256:
            kind = Kind.Q5_0
        self.out.add_tensor(name, blocks(kind, shape, self.random(name)), raw_dtype=kind)

    def floats(self, name, *shape, centre=0.0, spread=None):
        spread = shape[-1] ** -0.5 if spread is None else spread
        values = centre + spread * self.random(name).standard_normal(shape, dtype=np.float32)
        self.out.add_tensor(name, values.astype(np.float32))

    def slides(self, layer):
        return layer % 2 == 0 if self.shape["arch"] == "gpt-oss" else layer + 1 != self.n_layers

    def settings(self):
        s, out = self.shape, self.out
        out.add_context_length(s["context"])
        out.add_embedding_length(s["hidden"])
        out.add_block_count(self.n_layers)
        out.add_feed_forward_length(s["dense_width"] or s["expert_width"])
        out.add_expert_feed_forward_length(s["expert_width"])
        out.add_expert_count(s["experts"])
        out.add_expert_used_count(s["experts_used"])
        out.add_head_count(s["heads"])
        out.add_layer_norm_rms_eps(s["eps"])
        out.add_sliding_window(s["window"])
        if s["arch"] == "gpt-oss":
            out.add_head_count_kv(s["kv_heads"])
            out.add_key_length(s["head_dim"])
            out.add_value_length(s["head_dim"])
            out.add_rope_freq_base(150000.0)
            out.add_rope_scaling_type(gguf.RopeScalingType.YARN)
            out.add_rope_scaling_factor(32.0)
            out.add_rope_scaling_orig_ctx_len(4096)
            return
        slides = [self.slides(layer) for layer in range(self.n_layers)]
        out.add_head_count_kv([s["kv_heads"] if slide else s["full_kv_heads"] for slide in slides])
        out.add_sliding_window_pattern(slides)
        out.add_key_length(s["full_head_dim"])
        out.add_value_length(s["full_head_dim"])
        out.add_key_length_swa(s["head_dim"])
        out.add_value_length_swa(s["head_dim"])
        out.add_shared_kv_layers(0)
        out.add_embedding_length_per_layer_input(0)
        out.add_rope_freq_base(1e6)
        out.add_rope_freq_base_swa(1e4)
        out.add_rope_dimension_count(s["full_head_dim"])
        out.add_rope_dimension_count_swa(s["head_dim"])
        out.add_final_logit_softcapping(30.0)

    def tokenizer(self):
        """Bytes by their printable names, and unused tokens up to the size of the vocabulary."""
        printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
        others = [byte for byte in range(256) if byte not in printable]
        names = [chr(byte) for byte in printable] + [chr(256 + i) for i in range(len(others))]
        vocab = self.shape["vocab"]
        names.append(names[0] + names[1])  # of the one merge
        tokens = names + [f"[unused {i}]" for i in range(len(names), vocab)]
        kinds = [gguf.TokenType.NORMAL] * len(names) + [gguf.TokenType.UNUSED] * (vocab - len(names))
        for place, name in ((257, "<|im_start|>"), (258, "<|im_end|>")):
            tokens[place], kinds[place] = name, gguf.TokenType.CONTROL
        self.out.add_tokenizer_model("gpt2")
        self.out.add_tokenizer_pre("qwen2")
        self.out.add_token_list(tokens)
        self.out.add_token_types(kinds)
        self.out.add_token_merges([f"{names[0]} {names[1]}"])
        self.out.add_eos_token_id(258)
        self.out.add_add_bos_token(False)

    def layer(self, i):
        s, at = self.shape, lambda part: f"blk.{i}.{part}"
        hidden, n, width, gpt_oss = s["hidden"], s["experts"], s["expert_width"], s["arch"] == "gpt-oss"
        is_full = not gpt_oss and not self.slides(i)
        head = s["full_head_dim"] if is_full else s["head_dim"]
        q, kv = s["heads"] * head, (s["full_kv_heads"] if is_full else s["kv_heads"]) * head
        self.floats(at("attn_norm.weight"), hidden, centre=1.0)
        self.matrix(at("attn_q.weight"), q, hidden)
        self.matrix(at("attn_k.weight"), kv, hidden)
        if not is_full:
            self.matrix(at("attn_v.weight"), kv, hidden)
        self.matrix(at("attn_output.weight"), hidden, q)
        self.floats(at("ffn_gate_inp.weight"), n, hidden)
        self.floats(at("post_attention_norm.weight"), hidden, centre=1.0)
        experts = Kind.MXFP4 if gpt_oss else None
        if gpt_oss:
            for part, size in (("attn_q", q), ("attn_k", kv), ("attn_v", kv), ("attn_output", hidden), ("ffn_gate_inp", n)):
                self.floats(at(f"{part}.bias"), size)
            self.floats(at("attn_sinks.weight"), s["heads"], spread=1.0)
            for part, size in (("gate", width), ("up", width), ("down", hidden)):
                self.floats(at(f"ffn_{part}_exps.bias"), n, size)
            self.matrix(at("ffn_gate_exps.weight"), n, width, hidden, kind=experts)
            self.matrix(at("ffn_up_exps.weight"), n, width, hidden, kind=experts)
        else:
            self.floats(at("attn_q_norm.weight"), head, centre=0.3, spread=0.01)
            self.floats(at("attn_k_norm.weight"), head, centre=1.0, spread=0.01)
            self.floats(at("layer_output_scale.weight"), 1, centre=0.8, spread=0.0)
            for part in ("ffn_norm", "post_ffw_norm", "pre_ffw_norm_2", "post_ffw_norm_1", "post_ffw_norm_2"):
                self.floats(at(f"{part}.weight"), hidden, centre=1.0)
            self.floats(at("ffn_gate_inp.scale"), hidden, centre=1.0)
            self.floats(at("ffn_down_exps.scale"), n, centre=1.0)
            self.matrix(at("ffn_gate.weight"), s["dense_width"], hidden)
            self.matrix(at("ffn_up.weight"), s["dense_width"], hidden)
            self.matrix(at("ffn_down.weight"), hidden, s["dense_width"])
            self.matrix(at("ffn_gate_up_exps.weight"), n, 2 * width, hidden)
        self.matrix(at("ffn_down_exps.weight"), n, hidden, width, kind=experts)

    def write(self):
        s = self.shape
        self.settings()
        self.tokenizer()
        self.matrix("token_embd.weight", s["vocab"], s["hidden"])
        self.floats("output_norm.weight", s["hidden"], centre=1.0)
        if s["arch"] == "gpt-oss":
            self.matrix("output.weight", s["vocab"], s["hidden"])
        else:
            pairs = s["full_head_dim"] // 2
            factors = [1.0 if pair < pairs // 4 else 1e30 for pair in range(pairs)]
            self.out.add_tensor("rope_freqs.weight", np.array(factors, dtype=np.float32))
        for i in range(self.n_layers):
            self.layer(i)
        self.out.write_header_to_file()
        self.out.write_kv_data_to_file()
        self.out.write_tensors_to_file()
        self.out.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shape", choices=SHAPES, required=True)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=7)
    args = parser.parse_args()
    Writer(args.out, SHAPES[args.shape], args.layers, args.seed).write()
    print(f"{args.out}: {args.out.stat().st_size} bytes")


if __name__ == "__main__":
    main()
