"""The rows that a program gives to a judge: as a table that the library reads, and back from its verdicts."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .verdicts import Verdict

# The names that a column may have; the library's own list is in `segment/read/table`.
_SYSTEM = ("system", "system_id")
_DOC = ("doc", "document_id", "doc_id")
_SEG = ("seg_id", "segment_id")
_TEXTS = ("source", "src", "src_text", "hypothesis", "target", "mt", "translation", "reference", "ref", "src_lang", "tgt_lang")
_READ = {*_SYSTEM, *_DOC, *_SEG, *_TEXTS, "tgt_text", "tgt"}


class Rows:
    """Rows in the order in which they were given, with the index of the frame that they come from, if any."""

    def __init__(self, data: Any) -> None:
        if isinstance(data, Mapping):
            raise TypeError("the data is one mapping; give a list of them, one for each translation")
        is_frame = hasattr(data, "to_dict") and hasattr(data, "columns")
        self.rows: list[Mapping[str, Any]] = data.to_dict(orient="records") if is_frame else list(data)
        for at, row in enumerate(self.rows):
            if not isinstance(row, Mapping):
                raise TypeError(f"row {at} of the data is a {type(row).__name__}; give a dict with `source` and `hypothesis` for each translation")
        #: The labels of the frame's rows; None for other data.
        self.index: Any = getattr(data, "index", None) if is_frame else None
        self._places: dict[tuple[str, str, int], int] = {}

    def write(self, path: Path) -> Path:
        """The rows as JSONL, which the library reads and checks."""
        counts: dict[str, int] = {}
        with path.open("w", encoding="utf-8") as file:
            for at, row in enumerate(self.rows):
                kept = {str(key): value for key, value in row.items() if not is_missing(value)}
                file.write(json.dumps(kept, ensure_ascii=False, default=_plain) + "\n")
                self._remember(at, kept, counts, path.stem)
        return path

    def _remember(self, at: int, row: Mapping[str, Any], counts: dict[str, int], stem: str) -> None:
        def of(names: tuple[str, ...], default: Any) -> Any:
            return next((row[name] for name in names if name in row), default)

        several = next((row[name] for name in ("tgt_text", "tgt") if isinstance(row.get(name), Mapping)), None)
        for system in several or [of(_SYSTEM, "") or stem]:
            position = counts.get(system, 0)
            counts[system] = position + 1
            seg = str(of(_SEG, position)).strip()
            if seg.isdigit():
                self._places[str(system), str(of(_DOC, "")), int(seg)] = at

    def of(self, verdict: Verdict) -> int | None:
        """The position of the row that a verdict is about; None where it is about several."""
        return None if verdict.seg is None else self._places.get((verdict.system, verdict.doc, verdict.seg))

    def placed(self, text: str, path: str) -> str:
        """A message about the table that was written, as one about the data: rows by their labels."""
        text = re.sub(rf"`{re.escape(path)}` line (\d+)", lambda found: self._row(int(found[1])), text)
        if f"`{path}`" in text:
            text = text.replace(f"`{path}`", "the data")
            text = re.sub(r"\blines? (\d+(?:(?:, | and )\d+)*)", self._rows, text)
        return re.sub(r"\bline (\d+)", lambda found: self._row(int(found[1])), text) if text.startswith("row ") else text

    def _rows(self, found: re.Match[str]) -> str:
        """A list of lines as one of rows: `lines 1, 2 and 5` as `row 0, row 1 and row 4`."""
        return re.sub(r"\d+", lambda line: self._row(int(line[0])), found[1])

    def _row(self, line: int) -> str:
        at = line - 1
        label = None if self.index is None or not 0 <= at < len(self.rows) else self.index[at]
        return f"row {at}" if label is None or label == at else f"row {at} (index `{label}`)"

    def extra(self, at: int | None) -> dict[str, Any]:
        """The columns of a row that the judge does not read: keys to join by, and whatever else there is."""
        return {} if at is None else {str(name): value for name, value in self.rows[at].items() if name not in _READ}


def is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and value != value) or type(value).__name__ in ("NAType", "NaTType")


def _plain(value: Any) -> Any:
    """Numbers of numpy, and whatever else knows its value."""
    if hasattr(value, "item"):
        return value.item()
    return str(value)
