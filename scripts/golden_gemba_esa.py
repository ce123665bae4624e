# /// script
# requires-python = ">=3.9"
# ///
"""Writes tests/golden/gemba_esa/wmt26.json: what WMT 2026's baseline sends, and what it reads in answers.

usage: python3 scripts/golden_gemba_esa.py CHECKOUT > tests/golden/gemba_esa/wmt26.json

CHECKOUT is https://github.com/Ammonsh/WMT26-QE-baselines at `COMMIT`. Its `qe_utils.py` reads the answers below and puts
the messages of both stages together; so does tests/golden/gemba_esa/qe_utils.py, which has invented texts, since the
published ones have no licence. Messages are hashed as compact JSON, [{"role":"system","content":"..."}, ...], in UTF-8.
"""

import hashlib
import json
import platform
import runpy
import sys
from pathlib import Path

COMMIT = "b7e2ee0e29f349e52501858ba96e6f8ed5164a44"
STAND_IN = Path(__file__).parent.parent / "tests/golden/gemba_esa/qe_utils.py"

SPANS = 'Major:\naccuracy/mistranslation - "geh"\nMinor:\nno-error'
# Pair, languages, domain, source, translation, answer to the first question, answer to the second one.
CASES = [
    ("en-de", "en", "de", "news", 'He said "go" to the {bank} `now`.\t', 'Er sagte zur {src_text} "geh".', SPANS, '{"score": 71}'),
    (
        "en-de", "en", "de", None, "He sat.", "Er saß da \\ und ging.",
        "Sure:\nMajor:\n accuracy/omission - \"He\"\nstyle/awkward-\"da\" (odd)\nfluency/grammar - 'saß'\nMINOR:\nother - \"gone\"\n\n"
        "no-error\nfluency/spelling -  \"saß\" - \"x\"",
        "```json\n{\"score\": 88.5}\n```",
    ),
    (
        "en-zhtw", "en", "zh_TW", "law", "It rained.", "下雨了。",
        "<think>Major:\nother - \"下\"</think>\nMinor:\nterminology/inconsistent use - \"雨\"\u2028fluency/register - \"了\"",
        "<think>12</think> 150 of 100, so 85. Not 101.",
    ),
    ("en-zhcn", "en", "zh_Hans", "social", "It rained.", "下雨了。", "no errors\nHere:\nnone", '{"score": "90 "}'),
    ("en-de", "en", "de", "general", "One.", "Eins.", "thought without a beginning</think>\nMajor:\nMinor:", '{"score": 300} or 7.5.'),
    ("en-de", "en", "de", "news", "Two.", "Zwei.", "", "I cannot say."),
]  # fmt: skip


def sent(module, messages):
    chat = [{"role": "system", "content": module["SYSTEM_PROMPT"]}, {"role": "user", "content": messages}]
    text = json.dumps(chat, ensure_ascii=False, separators=(",", ":")).encode()
    return {"bytes": len(text), "sha256": hashlib.sha256(text).hexdigest()}


def messages(module, case):
    pair, _, _, domain, source, translation, spans, _ = case
    domain = domain if domain in module["DOMAIN_REQUIREMENTS"] else "general"
    languages = module["TARGET_PAIRS"][pair]
    first = module["build_stage1_prompt"](source, translation, languages, domain)
    second = module["build_stage2_prompt"](source, translation, spans, languages, domain)
    return [sent(module, first), sent(module, second)]


def main(checkout):
    published = runpy.run_path(str(Path(checkout) / "qe_utils.py"))
    stand_in = runpy.run_path(str(STAND_IN))
    cases = []
    for case in CASES:
        _, src, tgt, domain, source, translation, spans, score = case
        read = published["parse_stage1_output"](spans)
        case = (*case[:6], read, score)
        cases.append({
            "languages": [src, tgt], "domain": domain, "source": source, "translation": translation,
            "answers": [spans, score],
            "stand_in": messages(stand_in, case), "published": messages(published, case),
            "read": published["stage1_to_predicted_errors"](read, translation),
            "score": published["parse_stage2_output"](score),
        })  # fmt: skip
    golden = {
        "made_by": f"scripts/golden_gemba_esa.py with Python {platform.python_version()}",
        "source": f"Ammonsh/WMT26-QE-baselines, qe_utils.py at {COMMIT}",
        "cases": cases,
    }
    print(json.dumps(golden, ensure_ascii=False, indent=1))


if __name__ == "__main__":
    main(*sys.argv[1:])
