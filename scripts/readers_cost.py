#!/usr/bin/env python3
"""What reading a large run takes: a run over VERDICTS segments is begun with a seeded two-layer model, one group is judged,
and its verdicts and calls stand for those of all others, whose texts are the same. `tribunal score` then finishes the
folder, which is as consistent as one that was judged, and the commands that read runs are measured on it. Prints seconds
and peak resident memory. Needs GNU time.

Usage: scripts/readers_cost.py TRIBUNAL [VERDICTS]
"""

import hashlib
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

DOC = 10  # segments of a document
SOURCE = "The council voted on Tuesday to close the old bridge for repairs until the spring of next year, it said."
TARGET = "Der Rat hat am Dienstag beschlossen, die alte Brücke bis zum Frühjahr des nächsten Jahres zu sperren."
HERE = pathlib.Path(__file__).resolve().parent.parent


def main() -> None:
    program, n = pathlib.Path(sys.argv[1]).resolve(), int((sys.argv[2:] or ["100000"])[0])
    root = pathlib.Path(tempfile.mkdtemp(prefix="tribunal-readers."))
    try:
        score = prepare(root, program, n)
        measure("finishing it", [*score, "--quiet", "--only-system"], root)
        for name, args in commands():
            measure(name, [program, *args], root)
    finally:
        shutil.rmtree(root)


def commands():
    yield "verify --without-model", ["verify", "run", "--without-model"]
    yield "show", ["show", "run"]
    yield "show SEGMENT", ["show", "run", "7"]
    yield "merge", ["merge", "run", "--out", "merged"]
    for form in ["csv", "parquet", "mqm-tsv", "ratings", "mtme"]:
        yield f"export --as {form}", ["export", "run", "--as", form, "--out", f"exported-{form}"]
    yield "report", ["report", "run", "--out", "report.html"]


def prepare(root, program, n):
    """Begins the run, and writes the verdicts and calls of all its units. The command that finishes it."""
    prompts = root / "prompts/gemba_da"
    prompts.mkdir(parents=True)
    (prompts / "paper.j2").write_text("{{ source }}\n{{ target }}\nScore as JSON:\n")
    with (root / "input.jsonl").open("w") as file:
        for seg in range(n):
            line = {"system": "s", "doc": doc(seg), "seg_id": seg, "src_lang": "en", "tgt_lang": "de"}
            file.write(json.dumps({**line, "source": SOURCE, "hypothesis": TARGET}) + "\n")
    score = [program, "score", "--input", "input.jsonl", "--out", "run", "--method", "gemba-da", "--prompts", "prompts"]
    score += ["--max-tokens", "24", "--model", HERE / "models/tiny/qwen2", "--kv-cache", "8MiB"]
    begun = subprocess.run([*score, "--quiet", "--only-system", "--shard", f"1/{n}"], cwd=root, capture_output=True, text=True)
    assert begun.returncode in (0, 1), begun.stderr
    spread(root / "run", n)
    return score


def spread(run, n) -> None:
    line = (run / "journal.jsonl").read_text().splitlines()[0]
    record = line[: line.rindex(',"check":')] + "}"
    calls = (run / "calls.jsonl").read_text().splitlines()
    seg = json.loads(record)["seg"]
    with (run / "journal.jsonl").open("w") as journal, (run / "calls.jsonl").open("w") as calls_file:
        for at in range(n):
            text = of_unit(record, seg, at)
            check = hashlib.sha256(text.encode()).hexdigest()[:8]
            journal.write(f'{text[:-1]},"check":"{check}"}}\n')
            calls_file.writelines(of_unit(call, seg, at).replace(group(seg), group(at), 1) + "\n" for call in calls)


def of_unit(line, seg, at):
    """A line about one unit as a line about another."""
    return line.replace(f'"doc":"{doc(seg)}","seg":{seg},', f'"doc":"{doc(at)}","seg":{at},', 1).replace(
        f'"doc":"{doc(seg)}","seg":{seg}}}', f'"doc":"{doc(at)}","seg":{at}}}', 1
    )


def doc(seg):
    return f"d{seg // DOC}"


def group(seg):
    """The name of the group that is this segment alone."""
    key = {"system": "s", "src_lang": "en", "tgt_lang": "de", "doc": doc(seg), "seg": seg}
    line = json.dumps(key, separators=(",", ":")) + "\n"
    return hashlib.sha256(line.encode()).hexdigest()[:16]


def measure(name, command, root) -> None:
    time = ["/usr/bin/time", "-f", "%e %M", "-o", root / "time"]
    done = subprocess.run([*time, *command], cwd=root, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    # A model of noise leaves some segments without a verdict, which is 1 for all commands but `verify`.
    good = (0,) if name.startswith("verify") else (0, 1)
    assert done.returncode in good, f"{name}: exit code {done.returncode}: {done.stderr[-1000:]}"
    seconds, kib = (root / "time").read_text().split()[-2:]
    print(f"| {name} | {float(seconds):.1f} s | {int(kib) / 1024:.0f} MiB |", flush=True)


if __name__ == "__main__":
    main()
