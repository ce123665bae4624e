#!/usr/bin/env python3
# /// script
# requires-python = ">=3.10"
# dependencies = ["tokenizers==0.23.3", "transformers==5.24.0", "jinja2==3.1.6", "gguf==0.19.0"]
# ///
"""Write tests/golden/reasoning_templates.json: chats as transformers renders templates that mark reasoning.

    scripts/golden_reasoning.py gpt_oss=FILE.jinja gemma4=FILE.jinja

FILE is `chat_template.jinja` of openai/gpt-oss-20b and google/gemma-4-31B-it. Each chat is rendered with reasoning off
and on, and at each effort. Templates that print the date get 2024-07-26.
"""

import datetime
import json
import pathlib
import sys

import jinja2
import transformers
from golden_text import CHATS, GOLDEN
from transformers.utils.chat_template_utils import _compile_jinja_template

VARIABLES = [
    {"enable_thinking": False, "reasoning_effort": "low"},
    {"enable_thinking": True, "reasoning_effort": "low"},
    {"enable_thinking": True, "reasoning_effort": "high"},
]


def rendered(template, messages, variables):
    given = {"messages": messages, "tools": None, "documents": None, "add_generation_prompt": True}
    text = template.render(**given, **variables, bos_token="<bos>", eos_token="<eos>")
    return text.replace(datetime.datetime.now().strftime("%Y-%m-%d"), "2024-07-26")


def main():
    templates = {}
    for name, file in (argument.split("=", 1) for argument in sys.argv[1:]):
        source = pathlib.Path(file).read_text()
        template = _compile_jinja_template(source)
        chats = [[{"role": role, "content": content} for role, content in chat] for chat in CHATS]
        cases = [
            {"turns": messages, "variables": variables, "rendered": rendered(template, messages, variables)}
            for messages in chats
            for variables in VARIABLES
        ]
        templates[name] = {"template": source, "cases": cases}
    made_by = {
        "script": "scripts/golden_reasoning.py",
        "transformers": transformers.__version__,
        "jinja2": jinja2.__version__,
    }
    value = {"made_by": made_by, "templates": templates}
    text = json.dumps(value, ensure_ascii=False, indent=None, separators=(",", ":"))
    (GOLDEN / "reasoning_templates.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
