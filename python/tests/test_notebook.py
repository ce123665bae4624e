"""The example notebook runs from its first cell to its last."""

import os
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parent.parent / "examples/first_steps.ipynb"


def test_the_example_notebook(judge, tmp_path):
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    os.environ.setdefault("PYTHONPATH", str(Path(__file__).parent.parent))
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert any("<table>" in output.get("data", {}).get("text/html", "") for output in shown)
    assert (tmp_path / "report.html").is_file() and (tmp_path / "out/first-steps/verdicts.jsonl").is_file()
