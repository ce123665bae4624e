# /// script
# requires-python = ">=3.10"
# dependencies = ["torch==2.15.0", "transformers==5.24.0", "safetensors>=0.5", "tokenizers>=0.22"]
# ///
"""Makes tiny encoders with their tokenizers, and what `transformers` computes with them.

    python scripts/golden_encoders.py [--models models/tiny] [--golden tests/golden/models]

Writes, for XLM-RoBERTa (norms behind), XLM-RoBERTa-XL (norms before) and BERT (positions from 0, norms behind):

  models/tiny/<name>/            config.json as the hub has it, model.safetensors (f32), tokenizer files
  tests/golden/models/<name>.json         the versions, the ids of each sequence, and texts with their tokens: ids and
                                          byte ranges (special tokens have none)
  tests/golden/models/<name>.safetensors  `0`, `1`, ...: hidden states of each sequence, f32 [layers + 1, tokens, hidden]

The weights are random, seeded by each tensor's name. Tokenizers are a Unigram one with a compiled map of characters, as
XLM-R's, and a WordPiece one, as BERT's; both have the characters and the words of `TEXTS`.
"""

import argparse
import base64
import json
import shutil
import struct
import tempfile
import zlib
from collections import Counter
from pathlib import Path

import tokenizers
import torch
import transformers
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import AutoConfig, AutoModel, AutoTokenizer

SEED = 20240607
VOCAB = 320
LENGTHS = (17, 112)  # tokens of each test sequence; the second has more than one tile and block
HEADROOM = 2e-5  # f32 against f64 of the same model
TEXTS = [
    "The cat sat on the mat, and the cat slept.",
    "Die Katze saß auf der Matte; 3 Millionen Kätzchen schliefen.",
    "Кошка сидела на коврике.",
    "猫坐在垫子上。",
    "ネコはマットの上に座った。",
    "القطة جلست على السجادة",
    "बिल्ली चटाई पर बैठी थी।",
]
# What a compiled map of characters does: one to one, to several, to none, to a blank.
MAPPED = {
    "ﬁ": "fi",
    "Ａ": "A",
    "③": "3",
    "…": "...",
    "\u00a0": " ",
    "\u3000": " ",
    "\t": " ",
    "\n": " ",
    "\u0001": "",
    "ｶ": "カ",
    "e\u0301": "é",
}
MORE = [
    "",
    " ",
    "  two  spaces and a third behind ",
    "unknown 🦙 and known: cat",
    "the\u00a0mat\tthe\nmat\u3000mat",
    "ﬁ Ａ③… Caf\u0065\u0301 \u0001x",
    "aaaaaaaaaa cats",
    "x",
]
COMMON = {
    "torch_dtype": "float32",
    "vocab_size": VOCAB,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 48,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "initializer_range": 0.02,
    "position_embedding_type": "absolute",
    "use_cache": True,
}
OF_XLM_R = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2, "output_past": True, "max_position_embeddings": 130}
MODELS = {
    "xlm-roberta": {
        **OF_XLM_R,
        "architectures": ["XLMRobertaForMaskedLM"],
        "model_type": "xlm-roberta",
        "layer_norm_eps": 1e-5,
        "type_vocab_size": 1,
    },
    "xlm-roberta-xl": {
        **OF_XLM_R,
        "architectures": ["XLMRobertaXLForMaskedLM"],
        "model_type": "xlm-roberta-xl",
        "layer_norm_eps": 1e-5,
        "type_vocab_size": 1,
    },
    "bert": {
        "architectures": ["BertModel"],
        "model_type": "bert",
        "layer_norm_eps": 1e-12,
        "type_vocab_size": 2,
        "pad_token_id": 0,
        "max_position_embeddings": 128,
        "classifier_dropout": None,
        "directionality": "bidi",
        "pooler_type": "first_token_transform",
    },
}


def charsmap(mapped):
    """A compiled map of characters: the size of a trie, the trie as a double array, the texts behind it."""
    texts, starts = bytearray(), {}
    for key, value in mapped.items():
        starts[key.encode()] = len(texts)
        texts += value.encode() + b"\0"
    units, used, bases = [0], {0}, set()

    def place(prefix, at):
        """Puts the children of a prefix, whose unit is at `at`, into the array."""
        below = sorted({key[len(prefix)] for key in starts if key.startswith(prefix) and len(key) > len(prefix)})
        is_leaf = prefix in starts
        labels = ([0] if is_leaf else []) + below
        fits = lambda base: base not in bases and all(base ^ label not in used for label in labels)
        base = next(base for base in range(1, 1 << 20) if fits(base))
        bases.add(base)
        for label in labels:
            used.add(base ^ label)
            units.extend([0] * (1 + (base ^ label) - len(units)))
        units[at] |= (base ^ at) << 10 | is_leaf << 8
        if is_leaf:
            units[base] = starts[prefix] | 1 << 31
        for label in below:
            units[base ^ label] = label
        for label in below:
            place(prefix + bytes([label]), base ^ label)

    place(b"", 0)
    units.extend([0] * (-len(units) % 256))
    trie = struct.pack(f"<{len(units)}I", *units)
    return base64.b64encode(struct.pack("<I", len(trie)) + trie + bytes(texts)).decode()


def words():
    """The words of the texts, the most frequent first, and their characters."""
    found = Counter(word for text in TEXTS for word in text.split())
    letters = sorted({letter for text in TEXTS for letter in text if letter != " "} | set("fiA3.カéx"))
    return [word for word, _ in sorted(found.items(), key=lambda item: (-item[1], item[0]))], letters


def unigram():
    """A tokenizer as XLM-R's: `<mask>` last, as its files have it."""
    whole, letters = words()
    pieces = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁", -3.9)]
    pieces += [(letter, -9.0 - 0.01 * i) for i, letter in enumerate(letters)]
    known = {piece for piece, _ in pieces}
    for i, word in enumerate(whole):
        for piece in (f"▁{word}", f"▁{word[:2]}", word[1:3], word[-2:]):
            if len(pieces) < VOCAB - 1 and piece not in known and piece:
                known.add(piece)
                pieces.append((piece, -5.0 - 0.03 * i))
    pieces += [(f"▁filler{i}", -20.0) for i in range(VOCAB - 1 - len(pieces))] + [("<mask>", 0.0)]
    made = Tokenizer(models.Unigram(pieces, unk_id=3, byte_fallback=False))
    made.normalizer = normalizers.Precompiled(base64.b64decode(charsmap(MAPPED)))
    made.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    made.decoder = decoders.Metaspace()
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    made.add_special_tokens(special + [tokenizers.AddedToken("<mask>", lstrip=True, special=True)])
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    settings = {
        "tokenizer_class": "XLMRobertaTokenizer",
        "model_max_length": 128,
        **{f"{role}_token": f"<{name}>" for role, name in [("bos", "s"), ("cls", "s"), ("eos", "/s"), ("sep", "/s")]},
        **{f"{role}_token": f"<{role}>" for role in ("unk", "pad")},
        "mask_token": {"__type": "AddedToken", "content": "<mask>", "lstrip": True, "rstrip": False, "normalized": False},
    }
    return made, settings


def wordpiece():
    """A tokenizer as BERT's."""
    whole, letters = words()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    pieces = special + letters + [f"##{letter}" for letter in letters]
    pieces += [word for word in whole if word not in pieces and word.isalpha()]
    pieces = pieces[:VOCAB]
    made = Tokenizer(models.WordPiece({piece: i for i, piece in enumerate(pieces)}, unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(lowercase=False, strip_accents=None)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    made.add_special_tokens(special)
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    roles = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
    settings = {"tokenizer_class": "BertTokenizer", "do_lower_case": False, "model_max_length": 128}
    return made, settings | {f"{role}_token": token for role, token in roles.items()}


def fill(net):
    """Numbers from each tensor's name: matrices that keep the spread of their input, norms near 1, biases near 0."""
    for name, parameter in net.named_parameters():
        generator = torch.Generator().manual_seed(SEED + zlib.crc32(name.encode()))
        noise = torch.randn(parameter.shape, generator=generator)
        if "LayerNorm.weight" in name or "layer_norm.weight" in name:
            parameter.data = 1 + 0.2 * noise
        elif name.endswith(".bias"):
            parameter.data = 0.2 * noise
        elif "embeddings" in name:
            parameter.data = noise
        else:
            parameter.data = 1.5 * noise / parameter.shape[1] ** 0.5


def states(folder, sequences, dtype):
    net = AutoModel.from_pretrained(folder, dtype=dtype, attn_implementation="eager").eval()
    with torch.no_grad():
        computed = [net(torch.tensor([ids]), output_hidden_states=True) for ids in sequences]
    for one in computed:
        assert torch.equal(one.hidden_states[-1], one.last_hidden_state)
    return [torch.cat(one.hidden_states).float().contiguous() for one in computed]


def tokens(tokenizer, text):
    """The ids of a text and the bytes that each stands for."""
    made = tokenizer(text, return_offsets_mapping=True)
    bytes_before = [0]
    for letter in text:
        bytes_before.append(bytes_before[-1] + len(letter.encode()))
    spans = [[bytes_before[start], bytes_before[end]] for start, end in made["offset_mapping"]]
    return {"text": text, "ids": made["input_ids"], "spans": spans}


def make(name, config, models_dir, golden_dir):
    folder = models_dir / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    config = {**COMMON, **config}
    (folder / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    made, settings = (wordpiece if name == "bert" else unigram)()
    made.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=2, ensure_ascii=False) + "\n")
    with torch.no_grad():
        net = AutoModel.from_config(AutoConfig.from_pretrained(folder))
        fill(net)
    # As published: the prefix of the class with a head, and the pooler, which is not read.
    prefix = "" if name == "bert" else "roberta."
    save_file({prefix + key: value.contiguous() for key, value in net.state_dict().items() if key != "embeddings.position_ids"},
              folder / "model.safetensors", {"format": "pt"})
    generator = torch.Generator().manual_seed(SEED)
    ids = lambda n: torch.randint(5, VOCAB, (n,), generator=generator).tolist()
    sequences = [[0, *ids(length - 2), 2] for length in LENGTHS]
    found, exact = (states(folder, sequences, dtype) for dtype in (torch.float32, torch.float64))
    rounding = max((a - b).abs().max().item() for a, b in zip(found, exact))
    assert rounding < HEADROOM, f"{name}: f32 is {rounding} from f64"
    tokenizer = AutoTokenizer.from_pretrained(folder)
    golden = {
        "made_by": f"scripts/golden_encoders.py (seed {SEED})",
        "with": {module.__name__: module.__version__.split("+")[0] for module in (transformers, torch, tokenizers)},
        "sequences": sequences,
        "texts": [tokens(tokenizer, text) for text in TEXTS + MORE],
    }
    (golden_dir / f"{name}.json").write_text(json.dumps(golden, ensure_ascii=False) + "\n")
    save_file({str(i): one for i, one in enumerate(found)}, golden_dir / f"{name}.safetensors", {"format": "pt"})
    size = sum(path.stat().st_size for path in folder.iterdir())
    print(f"{name}: {size} bytes, states to {max(one.abs().max().item() for one in found):.1f}, f32-f64 {rounding:.1e}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=Path, default=Path("models/tiny"))
    parser.add_argument("--golden", type=Path, default=Path("tests/golden/models"))
    args = parser.parse_args()
    torch.set_num_threads(1)
    for name, config in MODELS.items():
        make(name, config, args.models, args.golden)


if __name__ == "__main__":
    main()
