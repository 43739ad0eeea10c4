"""The source of a job's functions, which travels with it.

Functions that a program or a notebook defines go to other machines without the files that they were written in. Folds
are compiled from their source, and reports quote it, so the job brings it along.
"""

from __future__ import annotations

import linecache
import sys
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any


def sources_of(function: object) -> dict[str, list[str]]:
    """The lines of all files that `function` and those that it refers to were written in, by the names of the files.

    Functions that others import, too, are not among them: their modules travel as files.
    """
    found: dict[str, list[str]] = {}
    seen: set[FunctionType] = set()
    waiting = [function]
    while waiting:
        one = waiting.pop()
        if isinstance(one, FunctionType) and one not in seen and not _is_imported(one):
            seen.add(one)
            file = one.__code__.co_filename
            if file not in found:
                found[file] = linecache.getlines(file, one.__globals__)
            waiting += _referred(one)
    return {file: lines for file, lines in found.items() if lines}


def remember(sources: dict[str, list[str]]) -> None:
    """Let the source of functions be found, although their files may not be here."""
    for file, lines in sources.items():
        # Without a time, it is taken for right whatever lies under that name.
        linecache.cache[file] = (sum(map(len, lines)), None, lines, file)


def _is_imported(function: FunctionType) -> bool:
    module = sys.modules.get(function.__module__)
    if module is None or function.__module__ == "__main__":
        return False
    found: object = module
    for name in function.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is function


def _referred(function: FunctionType) -> Iterator[Any]:
    for name in _names(function.__code__):
        if name in function.__globals__:
            yield function.__globals__[name]
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not yet defined
            continue


def _names(code: CodeType) -> Iterator[str]:
    """The names that a function uses, and those that functions within it use."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
