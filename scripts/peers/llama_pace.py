"""Tokens a second of bare prompts and bare answers: our engine, then llama-batched-bench of llama.cpp or ik_llama.cpp, in turn.

llama-batched-bench draws its tokens at random, chooses none and weighs none; ik_llama.cpp's, made to draw them too, repacks
the weights as it loads them. Standard library only.
"""

import argparse
import json
import os
import re
import tempfile

from pace import arguments, compare, figures
from pairs import run


def theirs(a, gguf):
    most = max(map(int, a.sequences.split(",")))
    tool = os.path.join(os.path.dirname(os.path.abspath(a.server)), "llama-batched-bench" + "-drawn" * a.ik)
    command = [tool, "-m", os.path.abspath(gguf), "-t", str(a.threads), "-tb", str(a.threads), "-npp", str(a.prompt),
               "-ntg", str(a.answer), "-npl", a.sequences, "-c", str(most * (a.prompt + a.answer))]
    if a.ik:  # prints a table among its messages, and leaves a log where it was started
        with tempfile.TemporaryDirectory() as folder:
            lines = run(["sh", "-c", 'cd "$0" && exec "$@" 2>&1', folder, *command, "-rtr"]).splitlines()
        rows = [[float(cell) for cell in line.strip("|").split("|")] for line in lines if re.match(r"\| +\d", line)]
        rows = [{"pl": int(row[2]), "speed_pp": row[5], "speed_tg": row[7]} for row in rows]
    else:
        lines = run([*command, "--output-format", "jsonl"], quiet=True)
        rows = [json.loads(line) for line in lines.splitlines() if line.startswith("{")]
    return figures(a, rows[0]["speed_pp"], [{"batch": r["pl"], "tokens_per_s": r["speed_tg"]} for r in rows])


if __name__ == "__main__":
    p = arguments("scripts/peers/llama_cpp.sh --pace", __doc__.split("\n")[0])
    p.add_argument("--server", required=True, help=argparse.SUPPRESS)
    p.add_argument("--ik", action="store_true", help=argparse.SUPPRESS)
    a = p.parse_args()
    compare(a, "ik_llama.cpp" if a.ik else "llama.cpp", theirs)
