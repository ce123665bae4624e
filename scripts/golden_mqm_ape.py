# /// script
# requires-python = ">=3.10"
# dependencies = ["pyyaml"]
# ///
"""Writes tests/golden/mqm_ape.json: answers, what MQM-APE's own readers take from them, and the messages it sends.

Usage: golden_mqm_ape.py CHECKOUT
CHECKOUT is a clone of Coldmist-Lu/MQM_APE; the golden file was made at 945d1a6. Its modules run as they are, without
a model. Answers are drawn from pieces of answers by a seeded generator, so that every rule meets every other.
Messages are hashed as ROLE, a line feed, CONTENT and a zero byte, one after the other.
"""

import hashlib
import json
import random
import sys
import types
from pathlib import Path

ERRORS = [
    "Critical:", "Major:", "Minor:", "major:", "  MINOR:  ", "**Major:**", "Critical errors:", "no-error", "No error - \"x\"",
    "no error", "", " \t", "\u00a0", 'accuracy/mistranslation - "Bank"', '- accuracy/omission - "the İstanbul"',
    'style/awkward - ”ΟΔΟΣ”', 'fluency/grammar - "wäre" and "war"', "non-translation", 'other - "a', "other -\"b\"",
    "fluency/register - dir", "The translation is good.", "minor errors - \"a\"", '1. terminology - "x" - "y"', "\r",
]  # fmt: skip
CORRECTIONS = [
    "Corrected Translation:", "corrected translation: ", '"Er saß."', "Er saß.", "\n", " -- ", "İ", "Corrected Translation",
    "**Corrected Translation:**", "", " ", "Er ging zur \"Bank\".",
]  # fmt: skip
WINNERS = [
    "A", "B", "\n", " ", "Translation A", "translation B", "Translations A and B", "a:", "B:", ":a", '"b"', '"A"', "Option B",
    "is better", "The first", "both", "A.", "B.", "",
]  # fmt: skip

SEGMENT = {
    "source_lang": "English", "source_seg": "He sat on the {bank}.", "target_lang": "German", "target_seg": "Er saß \"dort\".",
}  # fmt: skip


def hashed(messages: list[dict[str, str]]) -> str:
    text = "".join(f"{turn['role']}\n{turn['content']}\0" for turn in messages)
    return hashlib.sha256(text.encode()).hexdigest()


def main() -> None:
    sys.modules["inference"] = types.SimpleNamespace(Inference=object)  # vLLM, which asks the model
    sys.path.insert(0, str(Path(sys.argv[1]) / "MQM_APE"))
    from module_ape import Automatic_Post_Editor
    from module_evaluator import Error_Analysis_Evaluator
    from module_verifier import Pairwise_Quality_Verifier
    from prompts.prompts import TEMPLATE_GEMBA_MQM_FEWSHOT, TEMPLATE_POSTEDIT, TEMPLATE_VERIFIER
    from scorer import Scorer
    from utils import apply_template

    rng = random.Random(0)

    def drawn(pieces: list[str], joint: str, n: int, most: int) -> list[str]:
        return [joint.join(rng.choices(pieces, k=rng.randint(1, most))) for _ in range(n)]

    evaluator, editor = Error_Analysis_Evaluator(None), Automatic_Post_Editor(None)
    verifier, scorer = Pairwise_Quality_Verifier(None), Scorer("MQM-APE")
    errors = []
    for answer in drawn(ERRORS, "\n", 200, 10):
        found = evaluator.error_text2dict(answer, [])
        named = [[level, e["category"], e["span"]] for level in found for e in found[level]]
        errors.append({"answer": answer, "errors": named})
    corrections = [{"answer": a, "correction": editor.response2ape_translation(a)} for a in drawn(CORRECTIONS, "", 200, 5)]
    winners = []
    for answer in drawn(WINNERS, "", 200, 4):
        try:
            winners.append({"answer": answer, "winner": verifier.verifier_pairwise(answer)})
        except IndexError:  # no line
            winners.append({"answer": answer, "winner": None})
    scores = []
    for _ in range(50):
        shares = {level: rng.choices([0, 0.5, 1], k=rng.randint(0, 4)) for level in ("critical", "major", "minor")}
        found = {level: [{"pe_valid_score": share} for share in shares[level]] for level in shares}
        scores.append({**shares, "score": scorer.score(found)})
    of_error = {**SEGMENT, "error_category": "accuracy/mistranslation", "error_content": "saß"}
    pair = {**SEGMENT, "transA_seg": SEGMENT["target_seg"], "transB_seg": "Er saß."}
    messages = {
        "annotate": hashed(apply_template(TEMPLATE_GEMBA_MQM_FEWSHOT, SEGMENT)),
        "correct": hashed(apply_template(TEMPLATE_POSTEDIT, of_error)),
        "compare": hashed(apply_template(TEMPLATE_VERIFIER, pair)),
    }
    header = {"script": "scripts/golden_mqm_ape.py", "mqm_ape": "945d1a647204e4c9cdd689c57663517891446969"}
    parts = [f'"made_by": {json.dumps(header)}', f'"messages": {json.dumps(messages)}']
    for name, cases in (("errors", errors), ("corrections", corrections), ("winners", winners), ("scores", scores)):
        lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases)
        parts.append(f'"{name}": [\n{lines}\n]')
    out = Path(__file__).parent.parent / "tests/golden/mqm_ape.json"
    out.write_text("{" + ",\n".join(parts) + "}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
