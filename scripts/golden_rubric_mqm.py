#!/usr/bin/env python3
"""What RUBRIC-MQM's published code sends: the table `SENT` of `tests/all/judges_rubric_code.rs`, line by line.

    git clone https://github.com/trotacodigos/Rubric-MQM
    git -C Rubric-MQM checkout 6221019d
    python3 scripts/golden_rubric_mqm.py Rubric-MQM

Made under Python 3.11, with nothing installed: what the prompts need is in the clone. They are filled in as
`rubric_mqm/worker.py` (`deeprubric-100`) and `rubric_mqm/slot_scenarios/subworker.py` (the others) do; the latter names
a package that is not in the repository for the folder that it stands in. Columns: scenario, reference (`--with-ref`),
marks (`--promptcue`), length and SHA-256 of the messages as compact JSON. `--with-ref` changes nothing where it is left
out here: those templates drop the reference.
"""

import hashlib
import json
import sys
from importlib import import_module

SOURCE = 'He {said} "go" to <v>the bank</v>.'
TARGET = "Er ging zur <b>Bank</b>, 100 %."
REFERENCE = "Er sagte: „Geh zur Bank!“"

SCALES = [("deeprubric", "deeprubric", scale) for scale in (100, 8, 4)]
SCALES += [("deepq", "deepsqm", scale) for scale in (100, 8, 4)]
PLAIN = ["deepcatshot", "deepshot", "deepcat", "gemba"]


def prompt(module, scale, reference):
    values = {
        "source_lang": "English",
        "target_lang": "German",
        "source_seg": SOURCE,
        "target_seg": TARGET,
        "reference_seg": reference,
    }
    if (module, scale) == ("deeprubric", 100):
        return import_module("rubric_mqm.prompt").RubricMQMPrompt(**values)
    scenario = import_module(f"rubric_mqm.slot_scenarios.{module}")
    scenario = scenario.DefaultPrompt if module == "gemba" else scenario.Prompt
    return scenario(**values, scale=scale)


def sent(module, scale, reference, marks):
    cue = import_module("rubric_mqm.promptcue")
    asked = prompt(module, scale, REFERENCE if reference == "on" else None)
    asked.with_ref = reference == "on"
    if marks == "marked":
        asked.template_obj = cue.create_cue(asked.template_obj)
        return asked.generate_message()
    return cue.remove_tag_from_content(asked.generate_message())


def main():
    sys.path.insert(0, sys.argv[1])
    scaled = [(f"{name}-{scale}", module, scale) for name, module, scale in SCALES]
    plain = [(name, name, None) for name in PLAIN]
    rows = [("off", *row) for row in scaled + plain] + [("on", *row) for row in scaled[:1] + plain]
    for reference, name, module, scale in rows:
        for marks in ("unmarked", "marked"):
            messages = sent(module, scale, reference, marks)
            text = json.dumps(messages, ensure_ascii=False, separators=(",", ":")).encode()
            digest = hashlib.sha256(text).hexdigest()
            print(f"{name:14} {reference:3}  {marks:8}  {len(text):<5} {digest}")


if __name__ == "__main__":
    main()
