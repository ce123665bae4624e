#!/usr/bin/env python3
# /// script
# requires-python = ">=3.9"
# ///
"""How soon a run's verdicts are there: the seconds until the first one, until half and until all of them are in the
journal, loading the model included.

    scripts/first_verdicts.py TRIBUNAL --methods gemba-mqm,fsp -- --testset WMT23 -l en-de --systems ONLINE-B --limit 24

What follows `--` goes to `tribunal score`. Quotients of two runs say more than seconds: the machine should be quiet.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

POLL = 0.1


def lines(journal: pathlib.Path) -> int:
    """How many verdicts a journal has."""
    try:
        return journal.read_bytes().count(b"\n")
    except FileNotFoundError:
        return 0


def measure(command: list[str], out: pathlib.Path) -> tuple[list[float], dict]:
    """When each verdict was there, in seconds, and the run's summary."""
    start, times = time.monotonic(), []
    run = subprocess.Popen([*command, "--out", str(out)], stdout=subprocess.DEVNULL)
    while run.poll() is None:
        time.sleep(POLL)
        new = lines(out / "journal.jsonl") - len(times)
        times += [time.monotonic() - start] * new
    if run.returncode not in (0, 1):
        raise SystemExit(f"tribunal ended with {run.returncode}")
    times += [time.monotonic() - start] * (lines(out / "journal.jsonl") - len(times))
    return times, json.loads((out / "summary.json").read_text())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tribunal", help="the program")
    parser.add_argument("--methods", default="gemba-mqm", help="one after the other, separated by commas")
    parser.epilog = "what follows `--` are options of `tribunal score`"
    # Before Python 3.13 argparse takes no `--` behind an option and a name.
    at = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    args, score = parser.parse_args(sys.argv[1:at]), sys.argv[at + 1 :]
    print(f"{'method':<14} {'first':>7} {'half':>7} {'all':>7} {'verdicts':>8} {'calls':>6} {'answer tokens':>13}")
    for method in args.methods.split(","):
        with tempfile.TemporaryDirectory() as folder:
            command = [args.tribunal, "score", *score, "--method", method, "--progress", "off", "--quiet"]
            times, summary = measure(command, pathlib.Path(folder) / "run")
        cost = summary["cost"]
        row = [times[0], times[len(times) // 2], times[-1]]
        seconds = " ".join(f"{value:7.1f}" for value in row)
        print(f"{method:<14} {seconds} {len(times):>8} {cost['calls']:>6} {cost['usage']['generated']:>13}", flush=True)


if __name__ == "__main__":
    main()
