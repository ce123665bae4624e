"""The example notebook runs from its first cell to its last.

nbclient answers SIGTERM, such as `timeout` sends, by ending the kernel, and then reports "Kernel died". A kernel that
really crashes prints its stack, because faulthandler is on."""

import os
from pathlib import Path

import pytest
import tribunal

NOTEBOOK = Path(__file__).parent.parent / "examples/first_steps.ipynb"


# A cell judges four translations, which takes a build without optimization some minutes.
CELL_SECONDS = 1200


def test_the_example_notebook(tmp_path, monkeypatch):
    smaller = "qwen2.5-coder-0.5b-instruct"
    if not any(card["name"] == smaller and card["state"] == "pulled" for card in tribunal.models()):
        pytest.skip(f"{smaller} is not on this machine")
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    for cell in notebook.cells:
        cell.source = cell.source.replace("tribunal.Judge(", f'tribunal.Judge("{smaller}", ')
    monkeypatch.setenv("PYTHONPATH", os.environ.get("PYTHONPATH", str(Path(__file__).parent.parent)))
    monkeypatch.setenv("PYTHONFAULTHANDLER", "1")
    nbclient.NotebookClient(notebook, timeout=CELL_SECONDS, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert any("<table>" in output.get("data", {}).get("text/html", "") for output in shown)
    assert (tmp_path / "report.html").is_file() and (tmp_path / "out/first-steps/verdicts.jsonl").is_file()
