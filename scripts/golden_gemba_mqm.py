# /// script
# requires-python = ">=3.9"
# dependencies = []
# ///
"""Writes tests/golden/gemba_mqm_scores.json: answers and the scores that GEMBA's own parser gives them.

Usage: golden_gemba_mqm.py CHECKOUT
CHECKOUT is a clone of MicrosoftTranslator/GEMBA; the golden file was made at ea90068f. The answers are drawn from
pieces of answers by a seeded generator, so that every rule meets every other.
"""

import contextlib
import io
import json
import random
import sys
import types
from pathlib import Path

PIECES = [
    "Critical:", "Major:", "Minor:", "major:", "  MINOR:  ", "**Major:**", "Major: x", "Critical errors:",
    "no-error", "No-Error", "there is no error here", "none", "", " \t", "\u00a0", "\x1c",
    'accuracy/mistranslation - "Bank"', 'Accuracy/Omission - "the İstanbul"', 'style/awkward - "ΟΔΟΣ"',
    'fluency/grammar - "wäre"', "non-translation", 'other - "a non-translation b"', "Non-Translation!",
    "The translation is good.", "critical", "<think>", "</think>", "\r", "高铁",
]  # fmt: skip

JSON_ANSWERS = [
    '{"improved translation": "x", "errors": {"critical": [], "major": ["a"], "minor": [{"class": "b"}]}}',
    '{"improved translation": "x", "errors": {"minor": "none"}}',
    '{"improved translation": "x", "errors": {"major": {"a": 1, "b": 2}}}',
    '{"improved translation": "x", "errors": {"major": [{"class": "a"}, {"class": "b"}}',
    '{"improved translation": "x", "errors": {"critical": [{"class": "a"}], "minor": [{"class"',
    '{"improved translation": "x", "errors": []}',
    '{"improved translation": "x" and nothing else',
    '{"improved translation": "a", "errors": {"major": ["a"]}, "b", "errors": {}',
]


def load(checkout: Path):
    sys.modules["ipdb"] = types.ModuleType("ipdb")  # imported by the file, used by nothing
    sys.path.insert(0, str(checkout / "gemba"))
    from gemba_mqm_utils import parse_mqm_answer

    return parse_mqm_answer


def main() -> None:
    parse = load(Path(sys.argv[1]))
    rng = random.Random(0)
    answers = JSON_ANSWERS + ["\n".join(rng.choices(PIECES, k=rng.randint(0, 12))) for _ in range(600)]
    with contextlib.redirect_stdout(io.StringIO()):
        cases = [{"answer": answer, "score": parse(answer)} for answer in answers]
    out = Path(__file__).parent.parent / "tests/golden/gemba_mqm_scores.json"
    header = {"script": "scripts/golden_gemba_mqm.py", "gemba": "ea90068f9bd0816adf21011f198049ee1c72cb45"}
    lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases)
    out.write_text(f'{{"made_by": {json.dumps(header)},\n"cases": [\n{lines}\n]}}\n', encoding="utf-8")


if __name__ == "__main__":
    main()
