from collections.abc import Callable
from os import PathLike

__version__: str

class TribunalError(ValueError): ...

class Session:
    def __new__(cls, argv: list[str]) -> Session: ...
    def score(
        self,
        input: str | PathLike[str],
        out: str | PathLike[str],
        progress: Callable[[int, int], object] | None = None,
    ) -> tuple[str, str, list[str]]: ...

def command(argv: list[str]) -> tuple[int, str]: ...
def main(argv: list[str]) -> int: ...
