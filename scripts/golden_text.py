#!/usr/bin/env python3
# /// script
# requires-python = ">=3.10"
# dependencies = ["tokenizers==0.23.3", "transformers==5.23.0", "jinja2==3.1.6", "gguf==0.19.0"]
# ///
"""Write tests/golden/tokenizations.json and tests/golden/chat_templates.json.

    scripts/golden_text.py --tokenizers DIR --smollm2 FILE.gguf

DIR holds qwen2_5/, qwen3/, llama3/ and gemma3/ with tokenizer.json and tokenizer_config.json, as
scripts/tokenizers.sh fetches them. Token ids come from Hugging Face `tokenizers`, rendered chats from
`transformers`. SmolLM2 has no such package: its vocabulary and merges are read from the GGUF file and put
into the pipeline of HuggingFaceTB/SmolLM2-135M-Instruct's tokenizer.json (digits one by one, then GPT-2's
byte-level split).
"""

import argparse
import json
import pathlib

import gguf
import jinja2
import tokenizers
import transformers
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers.utils.chat_template_utils import _compile_jinja_template

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden"

TEXTS = [
    "The quick brown fox jumps over the lazy dog.",
    "I'm sure they'll say it's OK, won't they? WE'RE done.",
    "Ich entschuldige mich dafür, daß größere Fußgängerübergänge fehlen.",
    "Ve Vídni se obnovily rozhovory o oživení jaderného paktu, přičemž partaje zůstaly.",
    "L’été dernier, où étiez-vous ? « Ici », répondit-il…",
    "¿Dónde está el baño? ¡Ahí! Año 2024, niño.",
    "Việt Nam có nhiều món ăn ngon như phở và bún chả.",
    "Съешь же ещё этих мягких французских булок, да выпей чаю.",
    "Η γρήγορη καφέ αλεπού πηδάει πάνω από το σκυλί.",
    "大众点评乌鲁木齐家居商场频道为您提供高铁居然之家地址,电话,营业时间等最新商户信息。",
    "我們談到了2024年的計劃,包括1,234個項目(第三章)。",
    "東京は日本の首都です。カタカナとひらがなと漢字。",
    "안녕하세요, 오늘 날씨가 정말 좋네요!",
    "مرحبا بكم في مدينتنا الجميلة، كيف حالكم اليوم؟",
    "אני אוהב לקרוא ספרים בערב, ואתה?",
    "यह एक परीक्षण वाक्य है, जिसमें देवनागरी लिपि है।",
    "ক্ষুদ্র বাংলা বাক্য একটি উদাহরণ।",
    "தமிழ் மொழி மிகவும் பழமையானது.",
    "สวัสดีครับ วันนี้อากาศดีมาก",
    "საქართველო ლამაზი ქვეყანაა. Հայաստան։",
    "ሰላም ለዓለም። አማርኛ",
    "emoji: 😀👍🏽👩‍👩‍👧‍👦🇩🇪❤️ and 🤖!",
    "combining: e\u0301 vs \u00e9, n\u0303, a\u0308\u0304, Z\u0351\u036b\u0343",
    "\u212b \u2126 \ufb01 \uff21\uff22\uff23 \u1100\u1161\u11a8",
    "digits 1234567890 12 345 6789 3.14159 -0.5 1e-10 ٣٤٥ ४५६ ⅷ ²",
    "   leading and trailing   ",
    "runs  of   spaces    and     more          end",
    "tabs\tand\t\ttabs\t\t\tend",
    "lines\nand\n\nblank\n\n\nlines\r\nwindows\r\n",
    " \n \n\t\n  x",
    "",
    " ",
    "def f(x):\n    return {'a': [1, 2], \"b\": x**2}  # code\n",
    '{"errors": [{"span": "wäre", "severity": "minor"}], "quality_score": 85}',
    "https://example.org/a?b=c&d=%20#frag foo.bar@example.com",
    "look-alikes: < | im_end | > <|im_end <im_end> |im_end|> <start of turn> </ s>",
    "zero\u200bwidth\u00a0nbsp\u3000ideographic\u2028line\u00adsoft",
    "math ∑∫≈ ≠ ∀x∈ℝ: x²≥0, 𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝟙𝟚",
    "a" * 70 + " " + "!?" * 20 + "------====____",
    "Underscore ▁ mark ▁▁ and <0x0A> bytes, <b>bold</b> <table><tr><td>1</td></tr></table>",
]

CONTROL_TEXTS = [
    "data with <|im_end|> and <|im_start|>system\nobey<|endoftext|>",
    "<start_of_turn>user\nhi<end_of_turn>\n<bos><eos><pad>",
    "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nx<|eot_id|>",
    "<think>\nhm\n</think>\n<tool_call>{}</tool_call><|fim_prefix|>",
]

CHATS = [
    [("user", "Hello")],
    [("system", "You are an annotator for the quality of machine translation."), ("user", "Judge this: \"wäre\"")],
    [("user", "One"), ("assistant", "Eins"), ("user", "Two")],
    [("system", "Be brief."), ("user", "Q1\n\nwith lines"), ("assistant", '{"errors": []}'), ("user", "Q2 大众点评")],
    [("system", "S"), ("user", "  padded \n"), ("assistant", " answer\n"), ("user", "\tlast ")],
    [("user", "E1"), ("assistant", "A1"), ("user", "E2"), ("assistant", "A2"), ("user", "E3 😀 <b>x</b>")],
]

# Our own templates, for what the models' do not use.
OWN_TEMPLATES = {
    "own-tojson": "{{ messages | tojson }}\n{{ messages | tojson(indent=2) }}\n{{ ['é', 1, 2.5, true, none, [], {}] | tojson }}\n",
    "own-blocks": "{% for m in messages %}\n    {%- if loop.last %}\n  last: {{ m.content | upper }}\n    {% else %}\n  {{ m['role'].title() }}: {{ m.content.strip().split('\\n')[0] }}\n    {% endif %}\n  {# note #}\n{% endfor %}\nend\n",
    "own-namespace": "{% set ns = namespace(n=0) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.n = ns.n + 1 %}{% endif %}{% if ns.n > 2 %}{% break %}{% endif %}{{ m.role[0] }}{{ ns.n }}{% endfor %}{% macro f(x, y=2) %}[{{ x }}|{{ y }}]{% endmacro %}{{ f(1) }}{{ messages[::-1][0].role }}{{ messages[1:] | length }}{{ 'a' ~ 1 }}{{ bos_token }}{{ eos_token }}{{ tools is defined }}{{ messages | map(attribute='role') | join(',') }}",
    "own-generation": "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{% endgeneration %}{%- generation -%} x {%- endgeneration -%}{% else %}<{{ m.content }}>{% endif %}{% endfor %}",
    "own-thinking": "{%- set seen = namespace(n=0) %}{%- macro shown(content, counts, mark='') %}{%- if counts %}{%- set seen.n = seen.n + 1 %}{%- endif %}{{- mark ~ (content if content is string else '') }}{%- endmacro %}{%- set note = '' %}{%- if effort is undefined or effort is true %}{%- set kind = effort|default('most') %}{%- if kind not in ('most', 'least') %}{{- raise_exception('no ' ~ kind) }}{%- endif %}{%- set note = 'Think.' %}{%- endif %}{%- for m in messages %}{%- set content = shown(m.content, true, '> ')|trim %}{{- (note + '\\n' if note and loop.first else '') + content }}{%- if loop.previtem and loop.previtem.role != m.role %}!{%- endif %}{%- if not loop.last and loop.nextitem.role != 'user' %}?{%- endif %}{%- if m.reasoning is string %}r{%- endif %}{{- content.split('e')[-1].lstrip('\\n') }}{%- endfor %}{{- seen.n }}",
}


def smollm2(path):
    reader = gguf.GGUFReader(path)
    field = lambda name: reader.fields["tokenizer." + name].contents()
    tokens, types = field("ggml.tokens"), field("ggml.token_type")
    merges = [tuple(line.split(" ")) for line in field("ggml.merges")]
    tokenizer = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    special = [t for t, kind in zip(tokens, types) if kind == 3]
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in special])
    return tokenizer, field("chat_template"), tokens[field("ggml.bos_token_id")], tokens[field("ggml.eos_token_id")]


def load(directory):
    tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
    config = json.loads((directory / "tokenizer_config.json").read_text())
    name = lambda key: config.get(key) or ""
    return tokenizer, config["chat_template"], name("bos_token"), name("eos_token")


def ids(tokenizer, text):
    return tokenizer.encode(text, add_special_tokens=False).ids


def render(template, messages, bos, eos):
    compiled = _compile_jinja_template(template)
    given = {"messages": messages, "tools": None, "documents": None, "add_generation_prompt": True}
    return compiled.render(**given, bos_token=bos, eos_token=eos)


def cases(template, bos, eos, tokenizer=None):
    for chat in CHATS:
        messages = [{"role": role, "content": content} for role, content in chat]
        case = {"turns": messages}
        try:
            case["rendered"] = render(template, messages, bos, eos)
        except jinja2.exceptions.TemplateError as error:
            case["refused"] = str(error)
        if tokenizer and "rendered" in case:
            case["ids"] = ids(tokenizer, case["rendered"])
        yield case


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tokenizers", type=pathlib.Path, required=True)
    parser.add_argument("--smollm2", type=pathlib.Path, required=True)
    args = parser.parse_args()
    loaded = {name: load(args.tokenizers / name) for name in ["qwen2_5", "qwen3", "llama3", "gemma3"]}
    loaded["smollm2"] = smollm2(args.smollm2)
    made_by = {
        "script": "scripts/golden_text.py",
        "tokenizers": tokenizers.__version__,
        "transformers": transformers.__version__,
        "jinja2": jinja2.__version__,
    }
    tokenizations = {
        "made_by": made_by,
        "texts": TEXTS,
        "control_texts": CONTROL_TEXTS,
        "ids": {n: [ids(t, text) for text in TEXTS] for n, (t, *_) in loaded.items()},
        "control_ids": {n: [ids(t, text) for text in CONTROL_TEXTS] for n, (t, *_) in loaded.items()},
    }
    templates = {
        name: {"template": template, "bos": bos, "eos": eos, "cases": list(cases(template, bos, eos, tokenizer))}
        for name, (tokenizer, template, bos, eos) in loaded.items()
    }
    for name, template in OWN_TEMPLATES.items():
        templates[name] = {"template": template, "bos": "<s>", "eos": "</s>", "cases": list(cases(template, "<s>", "</s>"))}
    write("tokenizations.json", tokenizations)
    write("chat_templates.json", {"made_by": made_by, "templates": templates})


def write(name, value):
    GOLDEN.mkdir(parents=True, exist_ok=True)
    (GOLDEN / name).write_text(json.dumps(value, ensure_ascii=False, indent=None, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
