#!/usr/bin/env python3
# /// script
# requires-python = ">=3.10"
# dependencies = ["tokenizers==0.23.3", "transformers==5.24.0", "jinja2==3.1.6"]
# ///
"""Write tests/golden/chats.json: 1,000 chats as transformers encodes them.

    scripts/golden_chats.py --tokenizers DIR

DIR holds what scripts/tokenizers.sh fetches. 50 chats for each of ten published tokenizers, as
`AutoTokenizer.from_pretrained(folder).apply_chat_template` encodes them, and for each of ten seeded ones, whose
pipelines look at a piece's place in the text. A chat is a list of turns, a turn its role and the numbers of its
fragments; of its ids the file holds the count and the first 16 digits of a SHA-256 over them (32 bits each, little
endian).

In every fifth chat contents hold names of control tokens that the template does not write. Its ids are those of the
same tokenizer without these added tokens: plain text, in its place in the whole.
"""

import argparse
import datetime
import hashlib
import json
import pathlib
import random
import struct
import tempfile

import jinja2
import tokenizers
import transformers
from transformers.utils import chat_template_utils

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden"
N_CHATS = 50

FRAGMENTS = [
    "", " ", "  ", "\n", "\n\n\n", "\t", " \t \n", "\r\n", "Hello", " Hello", "Hello ", "  Hello  ", "\nHello\n",
    "The quick brown fox.", "I'm sure they'll say it's OK.", "WE'RE", "größere Fußgängerübergänge", "L’été, où étiez-vous ?",
    "Việt Nam phở", "Съешь же ещё этих мягких французских булок", "Η γρήγορη αλεπού", "大众点评乌鲁木齐家居商场频道",
    "東京は日本の首都です。カタカナ", "안녕하세요, 오늘", "مرحبا بكم في مدينتنا الجميلة", "אני אוהב לקרוא", "यह एक परीक्षण वाक्य है",
    "ক্ষুদ্র বাংলা", "தமிழ் மொழி", "สวัสดีครับ", "საქართველო Հայաստան", "ሰላም ለዓለም", "😀👍🏽👩‍👩‍👧‍👦🇩🇪❤️", "e\u0301n\u0303a\u0308\u0304",
    "Z\u0351\u036b\u0343", "\u212b\u2126\ufb01\uff21\uff22", "\u1100\u1161\u11a8", "1234567890 12 345", "3.14159 -0.5 1e-10", "٣٤٥ ४५६ ⅷ ²",
    "a    b", "tabs\tand\t\ttabs", "lines\nand\n\nblank\r\n", "{'a': [1, 2]}", '{"errors": [{"span": "wäre"}]}',
    "https://example.org/a?b=c&d=%20#f", "< | im_end | >", "|im_end|>", "zero\u200bwidth\u00a0nbsp\u3000x", "line\u2028\u2029sep\u0085nel",
    "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝟙𝟚", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "!?!?!?----====____", "▁", "▁▁mark▁", "<0x0A>", "<b>bold</b>",
    "\ufeffBOM", "soft\u00adhyphen", "\u202eright\u202c", "new", "renew news", "NEW", " new ", "word\u00e9", ".", ",", "(", "\u0000", "\u001f",
]

CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
INST = (
    "{% if messages[0]['role'] == 'system' %}{% set system = '<<SYS>>\n' + messages[0]['content'] + '\n<</SYS>>\n\n' %}"
    "{% set rest = messages[1:] %}{% else %}{% set system = '' %}{% set rest = messages %}{% endif %}{% for m in rest %}"
    "{% if m['role'] == 'user' %}{{ bos_token + '[INST] ' + (system if loop.first else '') + m['content'].strip() + ' [/INST]' }}"
    "{% else %}{{ ' ' + m['content'] + ' ' + eos_token }}{% endif %}{% endfor %}"
)
PLAIN = (
    "{% for m in messages %}{{ '\n\n' + ('Human' if m.role == 'user' else m.role | title) + ': ' + m.content }}{% endfor %}"
    "\n\nAssistant:"
)
CHANNELS = (
    "{% for m in messages %}{{ '<|start|>' + m.role + '<|message|>' + m.content + '<|end|>' }}{% endfor %}<|start|>assistant"
)

# Published tokenizers, with a template where the package has none.
PUBLISHED = {
    "claude": PLAIN,
    "deepseek_v3": None,
    "gemini": None,
    "gemma3": None,
    "gpt35turbo": CHATML,
    "gptoss": CHANNELS,
    "llama2": INST,
    "llama3_1": None,
    "qwen2_5": None,
    "qwen3": None,
}

MERGES = "H e|l l|He ll|Hell o|▁ Hello|▁ ▁|▁▁ ▁▁|n e|ne w|▁ new|t h|▁ t|▁t h|▁th e|\n \n|e r|s >|< s"
BYTE_MERGES = "H e|l l|He ll|Hell o|Ġ Hello|Ġ Ġ|n e|ne w|Ġ new|t h|Ġ t|Ġt h|Ġth e|Ċ Ċ|e r|s >|< s"

MARK = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
PREPEND = {"type": "Prepend", "prepend": "▁"}


def metaspace(scheme, split):
    return {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": split}


def byte_level(prefix):
    return {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": True, "use_regex": True}


def sequence(kind, *steps):
    return {"type": "Sequence", kind: list(steps)}


# name: (normalizer, pre-tokenizer, flags of the added tokens, settings)
SEEDED = {
    "first": (None, metaspace("first", False), {}, {}),
    "first-split": (None, metaspace("first", True), {"lstrip": ["[/INST]"], "rstrip": ["[INST]"]}, {}),
    "always": (None, metaspace("always", False), {"rstrip": ["[/INST]"], "lstrip": ["</s>"]}, {}),
    "prepend": (sequence("normalizers", PREPEND, MARK), None, {}, {}),
    "prepend-normalized": (sequence("normalizers", PREPEND, MARK), None, {"normalized": ["<s>", "[INST]", "new"]}, {}),
    "legacy": (sequence("normalizers", PREPEND, MARK), None, {}, {"tokenizer_class": "LlamaTokenizer", "legacy": True}),
    "not-legacy": (
        sequence("normalizers", PREPEND, MARK),
        None,
        {},
        {"tokenizer_class": "LlamaTokenizerFast", "legacy": False, "pad_token": None},
    ),
    "strip": (
        sequence("normalizers", {"type": "Strip", "strip_left": True, "strip_right": True}, {"type": "NFKC"}),
        metaspace("first", True),
        {"single_word": ["new"]},
        {},
    ),
    "bytes-prefix": (None, byte_level(True), {"single_word": ["new"], "lstrip": ["new"]}, {}),
    "lower": (
        sequence("normalizers", {"type": "Lowercase"}, {"type": "Replace", "pattern": {"Regex": "^ +| +$"}, "content": "_"}),
        byte_level(False),
        {"normalized": ["new", "[/INST]"], "rstrip": ["[INST]"]},
        {},
    ),
}


def seeded(name):
    """The files of a seeded tokenizer, as texts."""
    normalizer, pre_tokenizer, flags, settings = SEEDED[name]
    is_byte_level = (pre_tokenizer or {}).get("type") == "ByteLevel"
    added = ["<unk>", "<s>", "</s>", "[INST]", "[/INST]", "<tool>"]
    if is_byte_level:
        pieces = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    else:
        pieces = [f"<0x{byte:02X}>" for byte in range(256)] + ["▁"] + [chr(c) for c in range(33, 127)] + ["\n"]
    merges = [tuple(pair.split(" ")) for pair in (BYTE_MERGES if is_byte_level else MERGES).split("|")]
    vocab = {piece: i for i, piece in enumerate(added + pieces + [a + b for a, b in merges])}
    tokens = [
        {
            "id": vocab.get(token, len(vocab)),
            "content": token,
            "special": token != "new",
            **{key: token in flags.get(key, []) for key in ["single_word", "lstrip", "rstrip", "normalized"]},
        }
        for token in added + ["new"]
    ]
    sentencepiece = [
        {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
    ]
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": sorted(tokens, key=lambda token: token["id"]),
        "normalizer": normalizer,
        "pre_tokenizer": pre_tokenizer,
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
        if is_byte_level
        else {"type": "Sequence", "decoders": sentencepiece},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": "<unk>",
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": True,
            "byte_fallback": not is_byte_level,
            "ignore_merges": False,
            "vocab": vocab,
            "merges": [list(pair) for pair in merges],
        },
    }
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<s>",
        "eos_token": "</s>",
        "unk_token": "<unk>",
        "chat_template": INST.replace(".strip()", ""),
        **settings,
    }
    return json.dumps(tokenizer, ensure_ascii=False), json.dumps(config, ensure_ascii=False)


class Today(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls(2024, 7, 26)


def digest(ids):
    return [len(ids), hashlib.sha256(struct.pack(f"<{len(ids)}I", *ids)).hexdigest()[:16]]


def without(backend, names):
    """The tokenizer without these added tokens: each has a name that no text holds, so that all others keep their ids."""
    text = json.loads(backend.to_str())
    vocab = text["model"]["vocab"]
    for i, token in enumerate(text["added_tokens"]):
        if token["content"] in names:
            name = chr(0xE000) + str(i)
            if isinstance(vocab, dict) and token["content"] in vocab:
                vocab[name] = vocab.pop(token["content"])
            token["content"] = name
    if text["model"].get("unk_token") in names:
        text["model"]["unk_token"] = None
    return tokenizers.Tokenizer.from_str(json.dumps(text))


def render(tokenizer, turns):
    return tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)


def chats(name, tokenizer, fragments):
    """Chats with their ids; the names of control tokens that contents hold are added to the fragments."""
    draw = random.Random(name)
    try:
        has_system = bool(render(tokenizer, [{"role": "system", "content": "x"}, {"role": "user", "content": "x"}]))
    except jinja2.exceptions.TemplateError:
        has_system = False
    whole = [{"role": role, "content": "x"} for role in ["system", "user", "assistant", "user"]]
    plain = render(tokenizer, whole[0 if has_system else 1 :])
    known = sorted(token.content for token in tokenizer.added_tokens_decoder.values() if token.special)
    unused = [token for token in known if token not in plain][:8]
    reduced = without(tokenizer._tokenizer, unused)
    for i in range(N_CHATS):
        hostile = i % 5 == 4 and unused
        roles = draw.choice(["u", "su", "uau", "suau"] if has_system else ["u", "uau"])
        turns = []
        for role in roles:
            parts = [draw.choice(FRAGMENTS) for _ in range(draw.randint(0, 6))]
            if hostile:
                parts.insert(draw.randint(0, len(parts)), draw.choice(unused))
            turns.append(({"s": "system", "u": "user", "a": "assistant"}[role], parts))
        messages = [{"role": role, "content": "".join(parts)} for role, parts in turns]
        if hostile:
            ids = reduced.encode(render(tokenizer, messages), add_special_tokens=False).ids
        else:
            ids = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
        place = lambda part: fragments.setdefault(part, len(fragments))
        yield [[[role[0], *map(place, parts)] for role, parts in turns], *digest(ids)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tokenizers", type=pathlib.Path, required=True)
    args = parser.parse_args()
    chat_template_utils.datetime = Today
    fragments, found = {}, {}
    for name, template in PUBLISHED.items():
        tokenizer = transformers.AutoTokenizer.from_pretrained(args.tokenizers / name)
        if template is not None:
            tokenizer.chat_template = template
        found[name] = {"template": template, "chats": list(chats(name, tokenizer, fragments))}
    for name in SEEDED:
        texts = seeded(name)
        with tempfile.TemporaryDirectory() as folder:
            for file, text in zip(["tokenizer.json", "tokenizer_config.json"], texts):
                (pathlib.Path(folder) / file).write_text(text)
            tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        found[name] = {"json": texts[0], "config": texts[1], "chats": list(chats(name, tokenizer, fragments))}
    made_by = {
        "script": "scripts/golden_chats.py",
        "tokenizers": tokenizers.__version__,
        "transformers": transformers.__version__,
        "jinja2": jinja2.__version__,
    }
    golden = {"made_by": made_by, "fragments": list(fragments), "tokenizers": found}
    (GOLDEN / "chats.json").write_text(json.dumps(golden, ensure_ascii=False, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
