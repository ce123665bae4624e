# /// script
# requires-python = ">=3.9"
# dependencies = []
# ///
"""The tables of a stage of `device.sh`, as BENCHMARKS.md has them: `table.py stageN.json`. What failed is named."""

import json
import sys


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def products(result):
    rows = [
        [p["name"], f"{p['m']} x {p['n']} x {p['k']}", f"{p['seconds'] * 1e6:.1f}", f"{p['of_peak']:.2f}", f"{p['of_memory']:.2f}"]
        for p in result
    ]
    return table(["product", "m x n x k", "us", "of the peak", "of the bandwidth"], rows)


def shares(what, key, limit):
    def of(result):
        rows = [[s["throughput"][key], f"{s['throughput']['tokens_per_s']:.0f}", f"{s['of_limit']:.2f}"] for s in result]
        return table([what, "tokens/s", f"of the {limit}"], rows)

    return of


def loads(result):
    rows = [
        [
            load["name"],
            load["requests"],
            f"{load['seconds']:.2f}",
            f"{load['requests_per_s']:.1f}",
            f"{load['answer_tokens_per_s']:.0f}",
            f"{load['computed_prompt_tokens']} of {load['prompt_tokens']}",
        ]
        for load in (result if isinstance(result, list) else [result])
    ]
    return table(["requests", "number", "seconds", "requests/s", "answer tokens/s", "computed of prompts"], rows)


def kernels(result):
    head = ["kernel", "launches", "us each", "ms"]
    rows = [[t["kernel"], t["launches"], f"{t['seconds'] / t['launches'] * 1e6:.1f}", f"{t['seconds'] * 1e3:.2f}"]
            for work in result for t in [{"kernel": f"**{work['work']}**", "launches": 1, "seconds": sum(k["seconds"] for k in work["kernels"])},
                                         *work["kernels"]]]
    return table(head, rows)


PARTS = {
    "kernels": kernels,
    "products": products,
    "prefill": shares("prompt", "prompt", "peak"),
    "decode": shares("answers", "batch", "bandwidth"),
    "documents": loads,
    "chats": loads,
}


def tables(step):
    result = step["result"] or {}
    found = [PARTS[part](result[part]) for part in PARTS if part in result]
    if "peak" in result:
        peak = result["peak"]
        found.insert(
            0,
            f"`{step['step']}`: {result['shape']} on {result['gpu']}: `mma.sync` reaches {peak['operations'] / 1e12:.0f} TFLOP/s,"
            f" a copy {peak['bytes'] / 1e9:.0f} GB/s.",
        )
    elif result:  # a comparison: its own figures, without what is said of each unit
        figures = [[name, value] for name, value in result.items() if not isinstance(value, (dict, list))]
        found.append(table(["figure", "value"], figures))
    return found


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: table.py stageN.json")
    with open(sys.argv[1], encoding="utf-8") as file:
        stage = json.load(file)
    print(f"Stage {stage['stage']} on {stage['gpu'] or 'a GPU without nvidia-smi'}, {stage['date']}.\n")
    steps = [[s["step"], "done" if s["exit_code"] == 0 else "FAILED", s["seconds"]] for s in stage["steps"]]
    print(table(["step", "", "seconds"], steps))
    if not stage["finished"]:
        print("\nTime was up: what is missing was not measured.")
    for step in stage["steps"]:
        for text in tables(step):
            print(f"\n{text}")


if __name__ == "__main__":
    main()
