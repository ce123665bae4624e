"""A judge: models that are loaded once and score whatever is given to them."""

from __future__ import annotations

import importlib
import json
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

from . import _tribunal
from .arguments import options
from .rows import Rows
from .verdicts import Verdict, Verdicts

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .keywords import JudgeOptions

#: Arguments of COMET's `predict` that say how fast it goes, and nothing else.
_OF_COMET = {"accelerator", "devices", "length_batching", "num_workers", "progress_bar"}

Progress = Union[bool, None, Callable[[int, int], object]]


class Prediction(dict[str, Any]):
    """What COMET's `predict` returns: its keys are attributes too."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


class Judge:
    """A judging method with its models; without either, the default judge of `tribunal score`.

    Keyword arguments are the options of `tribunal score`: `granularity`, `preset`, `weights`, `device`, `kv_cache`,
    `threads`, `seed`, `samples`, `temperature`, and so on.
    """

    def __init__(
        self,
        model: str | None = None,
        method: str | None = None,
        *,
        language_pair: str | None = None,
        **given: Unpack[JudgeOptions],
    ) -> None:
        # What is not given is the command line's default, so that both have the same one.
        named = {"method": method, "model": model, "language_pair": language_pair, **given}
        self._session = _tribunal.Session(["tribunal", "score", *options(named)])

    def score(
        self,
        data: Any,
        *,
        out: str | PathLike[str] | None = None,
        progress: Progress = None,
    ) -> Verdicts:
        """Judges translations.

        `data` is a list of dicts, a pandas DataFrame, a datasets.Dataset, or the path of a table: each row has source
        (or src) and hypothesis (or mt, target), and perhaps reference, system, doc, seg_id, src_lang, tgt_lang. With
        `out`, the run folder stays there, and the same call continues where an interrupted one stopped. `progress` is
        True, False, or a function of (done, total); by default a bar is shown in notebooks and terminals.

        Each verdict on a row of `data` has its position in `row`, and `to_frame` brings back the frame's index and its
        other columns.
        """
        with tempfile.TemporaryDirectory(prefix="tribunal-") as scratch:
            rows = None if isinstance(data, (str, PathLike)) else Rows(data)
            table = data if rows is None else rows.write(Path(scratch) / "input.jsonl")
            folder = Path(out) if out is not None else Path(scratch) / "run"
            show = _shown(progress)
            try:
                summary, lines, notes = self._session.score(str(table), str(folder), show)
            except KeyboardInterrupt as interrupt:
                if out is not None and sys.version_info >= (3, 11):
                    interrupt.add_note(f"verdicts so far are kept in {folder}; the same call goes on from there")
                raise
            except _tribunal.TribunalError as error:
                if rows is None:
                    raise
                raise _tribunal.TribunalError(rows.placed(str(error), str(table))) from None
        for note in notes:
            warnings.warn(note if rows is None else rows.placed(note, str(table)), stacklevel=2)
        verdicts = [Verdict.of(json.loads(line)) for line in lines.split("\n") if line]
        if rows is not None:
            verdicts = [replace(verdict, row=rows.of(verdict)) for verdict in verdicts]
        return Verdicts(verdicts, json.loads(summary), folder if out is not None else None, rows)

    def predict(
        self, samples: Sequence[Mapping[str, Any]], batch_size: int | None = None, gpus: int | None = None, **others: Any
    ) -> Prediction:
        """COMET's call: `scores`, `system_score` and `metadata.error_spans` of samples with `src`, `mt`, perhaps `ref`.

        A translation without a verdict has the score NaN, so that nothing mistakes it for a good one. How samples are
        batched changes no score; the device is the judge's, and so are COMET's other options of speed.
        """
        for name in sorted(others.keys() - _OF_COMET):
            warnings.warn(f"predict has no option `{name}`, so it is ignored", stacklevel=2)
        rows = [{**sample, "system": "mt", "doc": str(sample.get("doc", "")), "seg_id": at} for at, sample in enumerate(samples)]
        found = {verdict.seg: verdict for verdict in self.score(rows, progress=False)}
        ordered = [found[at] for at in range(len(rows))]
        scores = [float("nan") if v.score is None else v.score for v in ordered]
        usable = [v.score for v in ordered if v.score is not None]
        spans = [
            [
                {"text": e.span, "start": e.start, "end": e.end, "severity": e.severity, "confidence": e.confidence}
                for e in v.errors if e.side == "target"
            ]
            for v in ordered
        ]
        mean = sum(usable) / len(usable) if usable else float("nan")
        return Prediction(scores=scores, system_score=mean, metadata=Prediction(error_spans=spans))


def _shown(progress: Progress) -> Callable[[int, int], object] | None:
    if callable(progress):
        return progress
    in_notebook = "ipykernel" in sys.modules
    if progress is False or (progress is None and not in_notebook and not sys.stderr.isatty()):
        return None
    return _in_notebook() if in_notebook else _in_terminal


def _in_terminal(done: int, total: int) -> None:
    end = "\n" if done >= total > 0 else ""
    print(f"\r{done:,} of {total:,} judged", end=end, file=sys.stderr, flush=True)


def _in_notebook() -> Callable[[int, int], object]:
    ipython: Any = importlib.import_module("IPython.display")
    handle = ipython.display(ipython.HTML("judging …"), display_id=True)

    def show(done: int, total: int) -> None:
        handle.update(ipython.HTML(f"<progress value='{done}' max='{total or 1}'></progress> {done:,} of {total:,} judged"))

    return show
