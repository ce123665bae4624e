"""Tokens a second of bare prompts and bare answers: our engine, then llama.cpp's llama-batched-bench, in turn.

llama-batched-bench chooses no token and weighs none. Standard library only.
"""

import argparse
import json
import os

from pace import arguments, compare, figures
from pairs import run


def theirs(a, gguf):
    most = max(map(int, a.sequences.split(",")))
    tool = os.path.join(os.path.dirname(a.server), "llama-batched-bench")
    lines = run([tool, "-m", gguf, "-t", str(a.threads), "-tb", str(a.threads), "-npp", str(a.prompt),
                 "-ntg", str(a.answer), "-npl", a.sequences, "-c", str(most * (a.prompt + a.answer)),
                 "--output-format", "jsonl"], quiet=True)
    rows = [json.loads(line) for line in lines.splitlines() if line.startswith("{")]
    return figures(a, rows[0]["speed_pp"], [{"batch": r["pl"], "tokens_per_s": r["speed_tg"]} for r in rows])


if __name__ == "__main__":
    p = arguments("scripts/peers/llama_cpp.sh --pace", __doc__.split("\n")[0])
    p.add_argument("--server", required=True, help=argparse.SUPPRESS)
    compare(p.parse_args(), "llama.cpp", theirs)
