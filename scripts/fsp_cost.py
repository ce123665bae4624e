# /// script
# requires-python = ">=3.9"
# ///
"""What one more segment of a document costs Focus Sentence Prompting as the document grows.

    python3 scripts/fsp_cost.py --source SOURCE.txt --hypothesis SYSTEM.txt -l en-de [--tokens 500,2700,8000]

For each length it takes the first lines as one document, so many that a prompt has about that many tokens, and asks
about its last six segments and about one of them alone; the difference, over five, is what a further question costs:
its own tokens, its answer, and its attention over the document. The median of `--repeats` runs. Standard library only.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--tribunal", default="target/release/tribunal", help="with `tribunal-bench` beside it")
    p.add_argument("--source", required=True)
    p.add_argument("--hypothesis", required=True)
    p.add_argument("-l", "--lp", default="en-de")
    p.add_argument("--model", default="qwen2.5-coder-0.5b-instruct")
    p.add_argument("--tokens", default="500,2700,8000")
    p.add_argument("--max-tokens", type=int, default=32)
    p.add_argument("--repeats", type=int, default=3)
    a = p.parse_args()
    print("| prompt tokens | seconds for a further segment | of 5: computed prompt tokens | answer tokens |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for tokens in map(int, a.tokens.split(",")):
            print(row(a, Path(folder), tokens), flush=True)


def row(a, folder, tokens):
    requests = document(a, folder, tokens)
    few, one = folder / "few.jsonl", folder / "one.jsonl"
    few.write_text("\n".join(requests[-6:]) + "\n", encoding="utf-8")
    one.write_text(requests[-1] + "\n", encoding="utf-8")
    seconds, more = [], None
    for _ in range(a.repeats):
        six, single = ask(a, few), ask(a, one)
        seconds.append((six["seconds"] - single["seconds"]) / 5)
        more = {key: (six[key] - single[key]) for key in ["computed_prompt_tokens", "generated_tokens"]}
    length = len(json.loads(requests[-1])["prompt_ids"])
    spread = f"{min(seconds):.2f} to {max(seconds):.2f}"
    return (f"| {length:,} | {statistics.median(seconds):.2f} ({spread}) | {more['computed_prompt_tokens']} "
            f"| {more['generated_tokens']} |")


def document(a, folder, tokens):
    """The questions about the longest document whose prompts have at most so many tokens, or of seven lines."""
    sources = Path(a.source).read_text(encoding="utf-8").splitlines()
    low, high = 7, len(sources)
    best = questions(a, folder, low)
    while low < high:
        middle = (low + high + 1) // 2
        found = questions(a, folder, middle)
        if len(json.loads(found[-1])["prompt_ids"]) <= tokens:
            low, best = middle, found
        else:
            high = middle - 1
    return best


def questions(a, folder, n):
    files = {}
    for name, path in [("source", a.source), ("hypothesis", a.hypothesis)]:
        files[name] = folder / f"{name}.txt"
        lines = Path(path).read_text(encoding="utf-8").splitlines()[:n]
        files[name].write_text("\n".join(lines) + "\n", encoding="utf-8")
    docs, out = folder / "docs.txt", folder / "requests.jsonl"
    docs.write_text("one\n" * n, encoding="utf-8")
    run(a, "-s", str(files["source"]), "-t", str(files["hypothesis"]), "--docs", str(docs), "-l", a.lp,
        "--method", "fsp:shots=0", "--preset", "paper", "--max-tokens", str(a.max_tokens), "--write", str(out))
    return out.read_text(encoding="utf-8").splitlines()


def ask(a, requests):
    return json.loads(run(a, "--requests", str(requests), "--json"))["measured"]


def run(a, *more):
    command = [a.tribunal + "-bench", "fsp", "--model", a.model, *more]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"error: `{' '.join(command)}` ended with {done.returncode}")
    return done.stdout


if __name__ == "__main__":
    main()
