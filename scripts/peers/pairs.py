"""What comparisons with another engine on a judge's questions have in common: the questions, our side, pairs of runs.

The questions are those that `tribunal-bench fsp --write` writes, with the ids of their prompts, so that both sides
read the same tokens. Two comparisons. `natural`: both sides may write as many tokens as the method allows. `equal`:
the other side may write as many tokens as our answer to the same question had. Standard library only.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path


def arguments(program, description, **defaults):
    p = argparse.ArgumentParser(prog=program, description=description)
    p.add_argument("--tribunal", required=True, help=argparse.SUPPRESS)
    p.add_argument("--testset", required=True, help="a folder in mt-metrics-eval's layout")
    p.add_argument("-l", "--lp", default="en-de")
    p.add_argument("--systems", default="ONLINE-B", help="one system, or several with commas")
    p.add_argument("--groups", type=int, default=4, help="documents")
    p.add_argument("--documents", help="a file with the names of the documents, instead of the first ones")
    p.add_argument("--chat-template", help="for a file that has none")
    p.add_argument("--model", default="qwen2.5-coder-0.5b-instruct", help="a card, or a GGUF file")
    p.add_argument("--method", default="fsp:shots=0")
    p.add_argument("--preset", default="paper")
    p.add_argument("--max-tokens", type=int, default=96)
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--pairs", type=int, default=3)
    p.add_argument("--json", action="store_true", help="print one JSON object")
    p.set_defaults(**defaults)
    return p


# The most memory that the last process of `run` held at once.
PEAK = {"bytes": 0}


def run(command, quiet=False):
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL if quiet else None, text=True)
    with process.stdout:
        text = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"error: `{' '.join(command)}` ended with {process.returncode}")
    PEAK["bytes"] = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return text


def tribunal(a, *more):
    template = ["--chat-template", a.chat_template] if a.chat_template else []
    return run([a.tribunal + "-bench", "fsp", "--model", a.model, "--threads", str(a.threads), *template, *more])


def take_down(a, file):
    which = ["--documents", a.documents] if a.documents else ["--groups", str(a.groups)]
    tribunal(a, "--testset", a.testset, "-l", a.lp, "--systems", a.systems, *which,
             "--method", a.method, "--preset", a.preset, "--max-tokens", str(a.max_tokens), "--write", file)
    return [json.loads(line) for line in open(file, encoding="utf-8")]


def ours(a, file, replies):
    m = json.loads(tribunal(a, "--requests", file, "--replies", replies, "--json"))["measured"]
    lengths = {r["id"]: r["usage"]["generated"] for r in map(json.loads, open(replies, encoding="utf-8"))}
    return {"seconds": m["seconds"], "computed": m["computed_prompt_tokens"], "prompt": m["prompt_tokens"],
            "distinct": m["distinct_prompt_tokens"], "generated": m["generated_tokens"], "valid": m["valid"],
            "spans": m["error_spans"]}, lengths


def plain(schema):
    """The schema without our own keyword, which llama.cpp does not know."""
    if isinstance(schema, dict):
        return {k: plain(v) for k, v in schema.items() if k not in ("substringOf", "x-indent")}
    return [plain(v) for v in schema] if isinstance(schema, list) else schema


def n_errors(text):
    try:
        return len(json.loads(text)["errors"])
    except (ValueError, KeyError, TypeError):
        return None


def compare(a, who, theirs):
    """Pairs of runs, printed: `theirs(a, gguf, requests, lengths)` runs the other side once."""
    gguf = weights(a)
    with tempfile.TemporaryDirectory() as folder:
        file, replies = f"{folder}/requests.jsonl", f"{folder}/replies.jsonl"
        requests = take_down(a, file)
        runs = {"natural": [], "equal": []}
        for pair in range(a.pairs):
            us, lengths = ours(a, file, replies)
            runs["natural"].append((us, theirs(a, gguf, requests, None)))
            us, lengths = ours(a, file, replies)
            runs["equal"].append((us, theirs(a, gguf, requests, lengths)))
            pairs = [f"{name} {runs[name][-1][0]['seconds']:.1f} s beside {runs[name][-1][1]['seconds']:.1f} s" for name in runs]
            print(f"pair {pair + 1} of {a.pairs}: {', '.join(pairs)}", file=sys.stderr)
    report(a, who, requests, runs)


def compare_equal(a, who, theirs):
    """The same of equal answer tokens alone: `theirs(a, gguf, file, replies)` answers the requests of a file."""
    gguf = weights(a)
    with tempfile.TemporaryDirectory() as folder:
        file, replies = f"{folder}/requests.jsonl", f"{folder}/replies.jsonl"
        requests = take_down(a, file)
        runs = {"equal": []}
        for pair in range(a.pairs):
            runs["equal"].append((ours(a, file, replies)[0], theirs(a, gguf, file, replies)))
            print(f"pair {pair + 1} of {a.pairs} done", file=sys.stderr)
    report(a, who, requests, runs)


def report(a, who, requests, runs):
    result = {"model": a.model, "segments": len(requests), "documents": len({r["doc"] for r in requests}),
              "threads": a.threads, "max_tokens": a.max_tokens, "sides": ["tribunal", who]}
    for name, pairs in runs.items():
        result[name] = summary(pairs, len(requests), who)
    if a.json:
        print(json.dumps(result))
    else:
        table(result, who)


def weights(a):
    if a.model.endswith(".gguf"):
        return a.model
    shown = subprocess.run([a.tribunal, "models", "show", a.model], stdout=subprocess.PIPE, text=True).stdout
    facts = dict(line.split(maxsplit=1) for line in shown.splitlines() if " " in line)
    gguf = Path(facts.get("folder", ""), facts.get("file", "").split(" ")[0])
    if not gguf.is_file():
        sys.exit(f"error: `{a.model}` is not here; hint: {a.tribunal} models pull {a.model}")
    return str(gguf)


def summary(pairs, n, who):
    def side(i, key):
        values = [p[i][key] for p in pairs]
        return None if None in values else statistics.median(values)

    ratios = sorted(p[1]["seconds"] / p[0]["seconds"] for p in pairs)
    out = {"ratio": statistics.median(ratios), "ratios": ratios}
    for i, side_name in enumerate(["tribunal", who]):
        seconds = side(i, "seconds")
        out[side_name] = {"seconds": seconds, "segments_per_s": n / seconds, "spans_per_s": side(i, "spans") / seconds}
        out[side_name] |= {key: side(i, key) for key in ["computed", "generated", "valid", "spans"]}
    return out


def table(r, who):
    print(f"{r['model']}, {r['documents']} documents, {r['segments']} segments, {r['threads']} threads")
    rows = [("segments/s", "segments_per_s", "{:.3f}"), ("seconds", "seconds", "{:.1f}"),
            ("prompt tokens computed", "computed", "{:.0f}"), ("answer tokens", "generated", "{:.0f}"),
            ("whole JSON answers", "valid", "{:.0f}"), ("error spans", "spans", "{:.0f}"),
            ("error spans/s", "spans_per_s", "{:.2f}")]
    for name in [name for name in ["natural", "equal"] if name in r]:
        c = r[name]
        spread = ", ".join(f"{x:.2f}" for x in c["ratios"])
        print(f"\n{name}: {c['ratio']:.2f} x {who}'s segments/s (pairs: {spread})")
        print(f"  {'':24}{'tribunal':>12}{who:>14}")
        for title, key, form in rows:
            ours, theirs = ("unknown" if c[side][key] is None else form.format(c[side][key]) for side in ["tribunal", who])
            print(f"  {title:24}{ours:>12}{theirs:>14}")
