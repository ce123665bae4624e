"""Machine-translation evaluation by open-weight LLM judges, in one process.

>>> judge = tribunal.Judge(language_pair="en-de")
>>> verdicts = judge.score([{"src": "The old bridge.", "mt": "Die alte Brücke."}])
>>> verdicts.system_score, verdicts.to_frame()
"""

from __future__ import annotations

import sys

from ._tribunal import TribunalError, __version__
from .commands import ask, compare, export, meta, methods, models, report
from .judge import Judge, Prediction
from .verdicts import ErrorSpan, Verdict, Verdicts, read

__all__ = [
    "ErrorSpan", "Judge", "Prediction", "TribunalError", "Verdict", "Verdicts", "__version__", "ask", "compare",
    "export", "main", "meta", "methods", "models", "read", "report",
]


def main() -> None:
    """The command line, as `tribunal` in a shell."""
    from . import _tribunal

    sys.exit(_tribunal.main(["tribunal", *sys.argv[1:]]))
