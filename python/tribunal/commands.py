"""The commands of tribunal as functions. Each takes the options of its command as keyword arguments."""

from __future__ import annotations

import json
from os import PathLike
from typing import Any, Union

from . import _tribunal
from .arguments import options, paths, text

Path = Union[str, "PathLike[str]"]


def _run(*argv: str) -> str:
    _, said = _tribunal.command(["tribunal", *argv])
    return said


def _json(*argv: str) -> Any:
    return json.loads(_run(*argv, "--format=json"))


def meta(testset: Path, language_pair: str | list[str], *, scores: dict[str, Any] | None = None, **given: Any) -> Any:
    """How well judges and metrics agree with human raters: `tribunal meta`.

    `scores` has a run folder, verdicts, or a pattern of score files for each name.
    """
    pairs = language_pair if isinstance(language_pair, str) else ",".join(language_pair)
    brought = {name: paths(one)[0] for name, one in (scores or {}).items()}
    given = {"testset": testset, "language_pair": pairs, "scores": brought, **given}
    return _json("meta", *options(given))


def compare(*runs: Any, **given: Any) -> Any:
    """Systems of one judge, or judges on the same translations, side by side: `tribunal compare`."""
    return _json("compare", *[one for run in runs for one in paths(run)], *options(given))


def report(*runs: Any, out: Path = "report.html", **given: Any) -> str:
    """Lays out runs on one self-contained HTML page and returns its path: `tribunal report`."""
    _run("report", *[one for run in runs for one in paths(run)], *options({"out": out, **given}))
    return text(out)


def export(run: Any, format: str, out: Path, **given: Any) -> list[str]:
    """Writes a run in a format of the field (mqm-tsv, mtme, ratings, pearmut, csv, parquet, wmt26,
    testset) and returns the paths of the files: `tribunal export`."""
    return _run("export", *paths(run), *options({"as": format, "out": out, **given})).split("\n")[:-1]


def ask(question: str, *, model: str | None = None, **given: Any) -> Any:
    """Puts one question to a model; the answer has its ids and log-probabilities: `tribunal ask`."""
    return json.loads(_run("ask", *options({"model": model, "json": True, **given}), "--", question))


def methods() -> Any:
    """The judging methods."""
    return _json("methods", "list")


def models() -> Any:
    """The cards of judge models, and which of them are on this machine."""
    return _json("models", "list")
