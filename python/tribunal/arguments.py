"""Python's keyword arguments as the options of the command line, which checks them and explains what is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any


def options(given: Mapping[str, Any]) -> list[str]:
    """`{"max_tokens": 64, "prefix_cache": None, "quiet": True}` as `["--max-tokens=64", "--quiet"]`."""
    found: list[str] = []
    for name, value in given.items():
        option = "--" + name.replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            found.append(option)
        elif isinstance(value, Mapping):
            found += [f"{option}={key}={text(one)}" for key, one in value.items()]
        elif isinstance(value, (list, tuple)):
            found += [f"{option}={text(one)}" for one in value]
        else:
            found.append(f"{option}={text(value)}")
    return found


def text(value: Any) -> str:
    """A value as one types it."""
    if isinstance(value, PathLike):
        return str(value.__fspath__())
    return str(value)


def paths(given: Any) -> list[str]:
    """One path or several, verdicts standing for their folders."""
    several = given if isinstance(given, (list, tuple)) else [given]
    return [str(folder) if (folder := getattr(one, "folder", None)) else text(one) for one in several]
