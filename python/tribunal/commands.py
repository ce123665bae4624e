"""The commands of tribunal as functions. Each takes the options of its command as keyword arguments."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from . import _tribunal
from .arguments import options, paths, text
from .keywords import Format, Json, Path

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .keywords import CompareOptions, ExportOptions, MetaOptions
    from .verdicts import Verdicts


def _run(*argv: str) -> str:
    _, said = _tribunal.command(["tribunal", *argv])
    return said


def _json(*argv: str) -> Any:
    return json.loads(_run(*argv, "--format=json"))


def meta(
    testset: Path,
    language_pair: str | list[str],
    *,
    scores: Mapping[str, Path | Verdicts] | None = None,
    **given: Unpack[MetaOptions],
) -> Json:
    """How well judges and metrics agree with human raters: `tribunal meta`.

    `scores` has a run folder, verdicts, or a pattern of score files for each name. The result has `directions` (a language
    pair each, with its systems and raters), `result` (statistics of each metric) and a key for each table of `also`.
    """
    pairs = language_pair if isinstance(language_pair, str) else ",".join(language_pair)
    brought = {name: paths(one)[0] for name, one in (scores or {}).items()}
    found: Json = _json("meta", *options({"testset": testset, "language_pair": pairs, "scores": brought, **given}))
    return found


def compare(*runs: Path | Verdicts, **given: Unpack[CompareOptions]) -> Json:
    """Systems of one judge, or judges on the same translations, side by side: `tribunal compare`.

    Of judges, the result has `judges`: a comparison for each two of them. Of systems, it has `baseline` and `systems`, each
    with its difference to the baseline; where the runs name language pairs, one such result for each pair.
    """
    found: Json = _json("compare", *[one for run in runs for one in paths(run)], *options(given))
    return found


def report(*runs: Path | Verdicts, out: Path = "report.html", **given: Any) -> str:
    """Lays out runs on one self-contained HTML page and returns its path: `tribunal report`."""
    _run("report", *[one for run in runs for one in paths(run)], *options({"out": out, **given}))
    return text(out)


def export(run: Path | Verdicts, format: Format, out: Path, **given: Unpack[ExportOptions]) -> list[str]:
    """Writes a run in a format of the field and returns the paths of the files: `tribunal export`."""
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
