"""A run made by hand, and the small test model where it is on this machine."""

import json
from pathlib import Path

import pytest
import tribunal

MODEL = "smollm2-135m-instruct"


def _verdict(system, seg, score, errors=(), status="ok"):
    return {
        "system": system, "doc": "d", "seg": seg, "src_lang": "en", "tgt_lang": "de", "source": f"Source <{seg}>.",
        "hypothesis": f"{system} 😀 sagt <b>{seg}</b>.", "score": score, "raw": score, "direction": "higher",
        "quality_score": None, "errors": list(errors), "status": status, "reason": None if status == "ok" else "refused it",
        "n_calls": 1,
    }


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Two systems on two segments, one of them without a verdict."""
    error = {
        "span": "😀 sagt", "side": "target", "start": 2, "end": 8, "ambiguous": False, "category": "style/awkward",
        "severity": "minor", "weight": 1.0, "explanation": "<i>why</i>", "confidence": None,
    }
    folder = tmp_path / "run"
    folder.mkdir()
    lines = [_verdict("a", 0, -1.0, [error]), {**_verdict("a", 1, 0.0), "interval": [-5.0, 0.0]}, {**_verdict("b", 0, -5.0), "warning": "not a translation: in French, not German"}, _verdict("b", 1, None, status="refused")]
    (folder / "verdicts.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    signature = {"method": "fsp", "model": "made-by-hand"}
    of_input = {"segments": 4, "systems": 2, "sha256": ""}
    described = {"format": 1, "short_signature": "", "signature": signature, "command": [], "shard": "1/1", "units": []}
    described |= {"input": of_input}
    (folder / "run.json").write_text(json.dumps(described))
    return folder


@pytest.fixture(scope="session")
def judge() -> tribunal.Judge:
    if not any(card["name"] == MODEL and card["state"] == "pulled" for card in tribunal.models()):
        pytest.skip(f"{MODEL} is not on this machine; scripts/test.sh pulls it")
    return tribunal.Judge(MODEL, method="gemba-da", language_pair="en-de", max_tokens=24, kv_cache="200MiB")
