"""Where users import from: few fronts, whose names a page lists, and which examples and the pages for users keep to.

A check returns one line per violation, `file:line: what is wrong and what to do`; an empty list is a pass.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.examples.pages import blocks
from tests.tidy.source import FRONT_DOOR, PACKAGES, Module, Source

FRONTS = (FRONT_DOOR, "operators.commands", "operators.errors", "operators.logic", "operators.plans")
"""The modules that `PAGE` lists with all their names."""

BEHIND = ("operators", "operators.columns", "operators.spark")
"""The packages whose names `hailer` has. Who needs only one of them may import from it."""

PAGE = "docs/reference/names.md"

FOR_USERS = ("README.md", "docs/*.md", "docs/howto/*.md", "docs/reference/*.md")
"""Pages that show what users write. The others may look behind the fronts."""

HEADING = re.compile(r"^## `([\w.]+)`", re.MULTILINE)
NAME = re.compile(r"`(\w+)`")


def unlisted_names(source: Source) -> list[str]:
    """The page lists each name of each front in the first column of a table, and none that is not there."""
    _, *parts = HEADING.split((source.root / PAGE).read_text(encoding="utf-8"))
    listed = {front: _first_column(text) for front, text in zip(parts[::2], parts[1::2], strict=True)}
    problems = []
    for front in [front for front in FRONTS if front in source.modules]:
        module = source.modules[front]
        for name in sorted({*module.exports} - listed.get(front, set())):
            problems.append(f"{PAGE}:1: does not list `{name}` of {front}; say what it is")
        for name in sorted(listed.get(front, set()) - {*module.exports}):
            problems.append(f"{PAGE}:1: lists `{name}`, which {front} does not export; take it out, or export it")
        for name in module.exports:
            definition = source.find(f"{front}.{name}")
            if definition is not None and not definition.docstring:
                problems.append(f"{definition.where}: `{name}` is public and has no docstring; say what it does")
    return problems


def unexported_errors(source: Source) -> list[str]:
    """`operators.errors` has every exception that a module of errors defines, so that users find all in one place."""
    front = source.modules.get("operators.errors")
    return [
        f"{module.where}:{node.lineno}: `{node.name}` is not in operators.errors; put it into `__all__` there"
        for module in source.within(*PACKAGES)
        if front is not None and module.name.rpartition(".")[2] == "errors"
        for node in module.tree.body
        if isinstance(node, ast.ClassDef) and node.name not in front.exports
    ]


def imports_past_the_fronts(source: Source) -> list[str]:
    """Examples, and what the pages for users show, import Hailer's names from the fronts only."""
    pages = sorted({page for pattern in FOR_USERS for page in source.root.glob(pattern)})
    programs = [
        *((module.where, 0, module.tree) for module in source.within("examples")),
        *(
            (str(page.relative_to(source.root)), block.line - 1, ast.parse(block.body))
            for page in pages
            for block in blocks(page)
            if block.kind == "python"
        ),
    ]
    return [
        f"{where}:{before + line}: {target} is behind the fronts; import what {PAGE} lists, or list it there"
        for where, before, tree in programs
        for line, target in _imported(tree)
        if target.partition(".")[0] in (*PACKAGES, FRONT_DOOR) and not _is_offered(source, target)
    ]


def _first_column(text: str) -> set[str]:
    return {name for line in text.splitlines() if line.startswith("| ") for name in NAME.findall(line.split(" | ")[0])}


def _imported(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from ((node.lineno, alias.name) for alias in names)
            case ast.ImportFrom(module=str(module), names=names):
                yield from ((node.lineno, f"{module}.{alias.name}") for alias in names)


def _is_offered(source: Source, target: str) -> bool:
    """Whether `target` is a front, or a name of one."""
    front, _, name = target.rpartition(".")
    fronts = (*FRONTS, *BEHIND)
    return target in fronts or (front in fronts and name in _exports(source.modules.get(front)))


def _exports(module: Module | None) -> list[str]:
    return module.exports if module is not None else []
