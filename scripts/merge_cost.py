#!/usr/bin/env python3
"""What merging many large shards takes: the folder of a finished run is blown up to SHARDS shards of VERDICTS verdicts
each, without judging anything, and `tribunal merge` joins them. Prints seconds, peak memory and sizes.

Usage: scripts/merge_cost.py TRIBUNAL RUN [SHARDS] [VERDICTS]
"""

import hashlib
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

DOC = 10  # segments of a document


def main() -> None:
    program, run = sys.argv[1], pathlib.Path(sys.argv[2])
    shards, verdicts = (int(n) for n in (sys.argv[3:] + ["100", "10000"])[:2])
    description = json.loads((run / "run.json").read_text())
    first = json.loads((run / "verdicts.jsonl").open().readline())
    call = (run / "calls.jsonl").open().readline()
    n = shards * verdicts
    unit = {key: first[key] for key in ("system", "src_lang", "tgt_lang")}
    docs = range(0, n, DOC)
    description["units"] = [{**unit, "doc": f"d{at}", "segs": list(range(at, min(at + DOC, n)))} for at in docs]
    root = pathlib.Path(tempfile.mkdtemp(prefix="tribunal-merge."))
    try:
        for shard in range(shards):
            write(root / f"{shard}", {**description, "shard": f"{shard + 1}/{shards}"}, first, call, shard, shards, n)
        folders = [str(root / f"{shard}") for shard in range(shards)]
        size = sum(path.stat().st_size for path in root.rglob("*") if path.is_file())
        command = ["/usr/bin/time", "-f", "%e s, %U s of processor time, peak %M KiB", program, "merge", *folders]
        done = subprocess.run([*command, "--out", str(root / "all")], capture_output=True, text=True, check=False)
        merged = sum(1 for _ in (root / "all/verdicts.jsonl").open())
        print(f"{shards} shards of {verdicts}: {size / 1e6:.0f} MB read, {merged} verdicts merged")
        print(re.findall(r"\d+\.\d+ s, .*KiB", done.stderr)[-1])
    finally:
        shutil.rmtree(root)


def write(folder, description, first, call, shard, shards, n) -> None:
    folder.mkdir()
    (folder / "run.json").write_text(json.dumps(description, separators=(",", ":")) + "\n")
    with (folder / "journal.jsonl").open("w") as journal, (folder / "calls.jsonl").open("w") as calls:
        for seg in range(shard, n, shards):
            record = {**first, "doc": f"d{seg // DOC * DOC}", "seg": seg}
            text = json.dumps(record, separators=(",", ":"), ensure_ascii=False)
            check = hashlib.sha256(text.encode()).hexdigest()[:8]
            journal.write(f'{text[:-1]},"check":"{check}"}}\n')
            calls.write(call)


if __name__ == "__main__":
    main()
