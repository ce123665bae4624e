"""Writes first_steps.ipynb beside this file: the cells are here, so that they can be read and reviewed."""

import json
from pathlib import Path

CELLS = [
    ("markdown", "# From two lists to a report\nThe judge is the default one: it ranks translations and marks words, and explains nothing. `tribunal models pull qwen2.5-coder-1.5b-instruct` fetches it (1.1 GB)."),
    ("code", "import tribunal\n\njudge = tribunal.Judge(language_pair=\"en-de\")"),
    ("code", "source = [\"The town council voted to close the old bridge.\", \"It reopens in spring.\"]\nsystems = {\n    \"a\": [\"Der Stadtrat hat beschlossen, die alte Brücke zu schließen.\", \"Im Frühjahr wird sie wieder geöffnet.\"],\n    \"b\": [\"Der Stadtrat stimmte ab, die alte Bank zu schließen.\", \"Es öffnet im Herbst.\"],\n}\nrows = [\n    {\"src\": src, \"mt\": mt, \"system\": system, \"seg_id\": seg}\n    for system, translations in systems.items() for seg, (src, mt) in enumerate(zip(source, translations))\n]\nverdicts = judge.score(rows, out=\"out/first-steps\")\nverdicts"),
    ("code", "verdicts.to_frame()[[\"system\", \"seg\", \"score\", \"status\", \"n_errors\"]]"),
    ("code", "tribunal.report(verdicts, out=\"report.html\")"),
    ("code", "tribunal.export(verdicts, \"mtme\", \"scores\", name=\"first-steps\")"),
    ("markdown", "A script written for COMET changes one line:"),
    ("code", "output = judge.predict([{\"src\": source[0], \"mt\": systems[\"b\"][0]}], batch_size=8, gpus=0)\noutput.scores, output.system_score, output.metadata.error_spans"),
]


def cell(number: int, kind: str, text: str) -> dict[str, object]:
    base: dict[str, object] = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}, "source": text.splitlines(keepends=True)}
    return base if kind == "markdown" else {**base, "execution_count": None, "outputs": []}


if __name__ == "__main__":
    notebook = {
        "cells": [cell(n, *one) for n, one in enumerate(CELLS)],
        "metadata": {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}, "language_info": {"name": "python"}},
        "nbformat": 4, "nbformat_minor": 5,
    }
    path = Path(__file__).with_name("first_steps.ipynb")
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
