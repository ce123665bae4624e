"""What a judge says: verdicts with their error spans, as objects, as a data frame, and as notebooks show them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from html import escape
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union, overload

if TYPE_CHECKING:
    import pandas

    from .rows import Rows

_STYLES = {
    "critical": "background:#f9cfdd;color:#1b1d21;text-decoration:underline double #8c0f3d",
    "major": "background:#fddccf;color:#1b1d21;text-decoration:underline solid #9c2107",
    "minor": "background:#fbefc2;color:#1b1d21;text-decoration:underline dashed #745000",
    "neutral": "background:#e7eaef;color:#1b1d21;text-decoration:underline dotted #4a5261",
}
_SEVERITIES = list(_STYLES)
_SHOWN = 20


@dataclass(frozen=True)
class ErrorSpan:
    """One error. `start` and `end` are half-open offsets of characters, None where the span is not in the text."""

    span: str
    side: str
    start: int | None
    end: int | None
    category: str
    severity: str
    weight: float
    explanation: str | None = None
    #: The corrected translation, where the method has one that was judged to be better.
    suggestion: str | None = None
    confidence: float | None = None
    ambiguous: bool = False
    times: int = 1


@dataclass(frozen=True)
class Verdict:
    """The verdict on one translation; `score` is higher for the better, and None unless `status` is `ok`."""

    system: str
    doc: str
    seg: int | None
    src_lang: str
    tgt_lang: str
    source: str
    hypothesis: str
    score: float | None
    raw: float | None
    quality_score: float | None
    status: str
    reason: str | None
    errors: list[ErrorSpan] = field(default_factory=list)
    #: Between which scores raters score nine in ten translations with this score; None where the method does not know.
    interval: tuple[float, float] | None = None
    #: Why the translation is none, such as `not a translation: in French, not German`; None for most.
    warning: str | None = None
    #: The position of its row in the data that was scored, from 0; None where it is not about a single row.
    row: int | None = field(default=None, compare=False)

    @classmethod
    def of(cls, line: dict[str, Any]) -> Verdict:
        """A line of `verdicts.jsonl`."""
        known = {name: line.get(name) for name in cls.__dataclass_fields__ if name not in ("errors", "interval", "row")}
        names = ErrorSpan.__dataclass_fields__
        errors = [ErrorSpan(**{k: v for k, v in error.items() if k in names}) for error in line.get("errors", [])]
        interval = tuple(line["interval"]) if line.get("interval") else None
        return cls(**known, errors=errors, interval=interval)  # type: ignore[arg-type]

    def _repr_html_(self) -> str:
        place = " · ".join(part for part in (self.system, self.doc, "" if self.seg is None else f"segment {self.seg + 1} (id {self.seg})") if part)
        within = f" (90%: {self.interval[0]:.1f} to {self.interval[1]:.1f})" if self.interval else ""
        warning = f"<div><b>warning</b> {escape(self.warning)}</div>" if self.warning else ""
        said = f"score {self.score:g}{within}" if self.score is not None else f"no verdict, {self.status}: {self.reason}"
        rows = "".join(
            f"<li><b>{escape(e.severity)}</b> {escape(_category(e))} <q>{escape(e.span)}</q> {escape(e.explanation or '')}"
            + (f"<div dir='auto'>suggestion: {escape(e.suggestion)}</div>" if e.suggestion else "")
            + "</li>"
            for e in self.errors
        )
        source = _marked(self.source, self.errors, "source")
        target = _marked(self.hypothesis, self.errors, "target")
        return (
            f"<div style='margin:.6em 0'><small>{escape(place)}</small> <b>{escape(said)}</b>"
            f"<div dir='auto' lang='{escape(self.src_lang)}'>{source}</div>"
            f"<div dir='auto' lang='{escape(self.tgt_lang)}'>{target}</div>{warning}<ul style='margin:0'>{rows}</ul></div>"
        )


def _category(error: ErrorSpan) -> str:
    """`other` without an explanation says nothing."""
    return "" if error.category == "other" and not error.explanation else error.category


def _marked(text: str, errors: Sequence[ErrorSpan], side: str) -> str:
    """A text as HTML with the spans of one side marked; where they overlap, the worst one shows."""
    spans = [e for e in errors if e.side == side and e.start is not None and e.end is not None and e.end > e.start]
    cuts = sorted({0, len(text), *(min(at, len(text)) for e in spans for at in (e.start or 0, e.end or 0))})
    out = []
    for start, end in zip(cuts, cuts[1:]):
        piece = escape(text[start:end])
        over = [e for e in spans if (e.start or 0) <= start and (e.end or 0) >= end]
        if over:
            worst = min(over, key=lambda e: _SEVERITIES.index(e.severity))
            title = escape("; ".join(f"{e.severity} {_category(e)}".strip() + (f": {e.explanation}" if e.explanation else "") for e in over))
            piece = f"<mark title='{title}' style='{_STYLES[worst.severity]}'>{piece}</mark>"
        out.append(piece)
    return "".join(out)


class Verdicts(Sequence[Verdict]):
    """The verdicts of a run, in its order."""

    def __init__(
        self,
        verdicts: list[Verdict],
        summary: dict[str, Any] | None = None,
        folder: Path | None = None,
        rows: Rows | None = None,
    ) -> None:
        self._verdicts = verdicts
        self._rows = rows
        self.summary = summary or {}
        #: The run folder, where it is kept.
        self.folder = folder

    @overload
    def __getitem__(self, at: int) -> Verdict: ...
    @overload
    def __getitem__(self, at: slice) -> Verdicts: ...
    def __getitem__(self, at: int | slice) -> Verdict | Verdicts:
        if isinstance(at, slice):
            return Verdicts(self._verdicts[at], {"cautions": self.cautions} if self.cautions else None, rows=self._rows)
        return self._verdicts[at]

    def __len__(self) -> int:
        return len(self._verdicts)

    def __iter__(self) -> Iterator[Verdict]:
        return iter(self._verdicts)

    def __repr__(self) -> str:
        scored = len(self.scores) - self.scores.count(None)
        cautions = "".join(f"; caution: {caution}" for caution in self.cautions)
        return f"<{len(self)} verdicts, {scored} with a score, mean {self.system_score}{cautions}>"

    @property
    def signature(self) -> str | None:
        """Everything that could have moved a score."""
        return self.summary.get("signature")

    @property
    def cautions(self) -> list[str]:
        """What limits the validity of the scores: of the method, and of the judge on this input; as in `summary.json`."""
        return list(self.summary.get("cautions", []))

    @property
    def scores(self) -> list[float | None]:
        return [verdict.score for verdict in self]

    @property
    def system_score(self) -> float | None:
        """The mean over the verdicts with a score; None without any."""
        scores = [score for score in self.scores if score is not None]
        return sum(scores) / len(scores) if scores else None

    @property
    def systems(self) -> dict[str, float | None]:
        """The score of each system: its mean over the units that it has a score on. With several language pairs, which are
        never pooled, names are `SYSTEM (en-de)`."""
        several = len({(verdict.src_lang, verdict.tgt_lang) for verdict in self}) > 1
        found: dict[str, list[Verdict]] = {}
        for verdict in self:
            pair = f" ({verdict.src_lang}-{verdict.tgt_lang})" if several else ""
            found.setdefault(verdict.system + pair, []).append(verdict)
        return {name: Verdicts(verdicts).system_score for name, verdicts in found.items()}

    def to_frame(self, errors: bool = False) -> pandas.DataFrame:
        """A data frame with a row for each verdict, or, with `errors`, for each error. Needs pandas.

        Columns of the data that the judge does not read come back, and so does the index of a frame.
        """
        try:
            import pandas
        except ModuleNotFoundError as missing:
            hint = "`to_frame` makes a pandas data frame, and pandas is not installed; hint: pip install pandas"
            raise ModuleNotFoundError(hint, name=missing.name) from missing

        keys = ["system", "doc", "seg", "src_lang", "tgt_lang"]
        if errors:
            rows = [{**{key: getattr(v, key) for key in keys}, **asdict(e)} for v in self for e in v.errors]
            columns = [*keys, *ErrorSpan.__dataclass_fields__]
            return self._joined(pandas, rows, columns, [v for v in self for _ in v.errors])
        names = [name for name in Verdict.__dataclass_fields__ if name not in ("errors", "interval", "row")]
        rows = [
            {
                **{name: getattr(v, name) for name in names},
                **dict(zip(("interval_low", "interval_high"), v.interval or (None, None))),
                "n_errors": len(v.errors),
                "errors": v.errors,
            }
            for v in self
        ]
        columns = [*names, "interval_low", "interval_high", "n_errors", "errors"]
        return self._joined(pandas, rows, columns, list(self))

    def _joined(self, pandas: Any, rows: list[dict[str, Any]], columns: list[str], of: list[Verdict]) -> pandas.DataFrame:
        """A frame whose rows are about these verdicts, with what the data says of them beside."""
        if self._rows is None:
            return pandas.DataFrame(rows, columns=columns)
        extra = [self._rows.extra(verdict.row) for verdict in of]
        names = [name for name in dict.fromkeys(name for one in extra for name in one) if name not in columns]
        frame = pandas.DataFrame([{**one, **row} for one, row in zip(extra, rows)], columns=[*columns, *names])
        if self._rows.index is not None and all(verdict.row is not None for verdict in of):
            frame.index = self._rows.index.take([verdict.row for verdict in of])
        return frame

    def _repr_html_(self) -> str:
        shown = "".join(verdict._repr_html_() for verdict in self[:_SHOWN])
        more = f"<p>… and {len(self) - _SHOWN:,} more</p>" if len(self) > _SHOWN else ""
        systems = "".join(
            f"<tr><td>{escape(name)}</td><td>{'–' if score is None else f'{score:.3f}'}</td></tr>" for name, score in self.systems.items()
        )
        cautions = "".join(f"<p><b>caution</b> {escape(caution)}</p>" for caution in self.cautions)
        return f"{cautions}<table><tr><th>system</th><th>score</th></tr>{systems}</table>{shown}{more}"


def read(path: Union[str, PathLike[str]]) -> Verdicts:
    """Reads the verdicts of a run folder, or of a `verdicts.jsonl`."""
    path = Path(path)
    file = path / "verdicts.jsonl" if path.is_dir() else path
    summary = path / "summary.json"
    lines = [line for line in file.read_text(encoding="utf-8").split("\n") if line.strip()]
    return Verdicts(
        [Verdict.of(json.loads(line)) for line in lines],
        json.loads(summary.read_text(encoding="utf-8")) if path.is_dir() and summary.is_file() else None,
        path if path.is_dir() else None,
    )
