"""Files: what lies at the top level, which text must not stay, where unit tests are, and which files pages name.

A check returns one line per violation; an empty list is a pass.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

from tests.tidy.source import FRONT_DOOR, PACKAGES

TOP_LEVEL = frozenset(
    {*PACKAGES, f"{FRONT_DOOR}.py"} | {*"examples tests docs pyproject.toml README.md Makefile LICENSE".split()}
)

MACHINE_PATH = re.compile(r"(?<![\w./])/(?:work|root|home|Users)/\w*")
FILE_NAME = re.compile(rf"`((?:{'|'.join(PACKAGES)})/[\w/]+\.py)`")
UNFINISHED = re.compile(r"\b(?:TO[D]O|FIX[M]E|XX[X])\b")


def strangers_at_the_top(root: Path) -> list[str]:
    """The top level holds only what everyone must find there, dot-files, and what git ignores."""
    ignore_file = root / ".gitignore"
    ignored = [line.strip("/") for line in ignore_file.read_text().split()] if ignore_file.exists() else []
    return [
        f"{path.name}: does not belong at the top level; find it a room below"
        for path in sorted(root.iterdir())
        if path.name not in TOP_LEVEL
        and not path.name.startswith(".")
        and not any(fnmatch(path.name, pattern) for pattern in ignored)
    ]


def stray_text(root: Path) -> list[str]:
    """No file names a path of one machine, or marks work as left undone."""
    problems = []
    for path in _text_files(root):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            where = f"{path.relative_to(root)}:{number}"
            if found := MACHINE_PATH.search(line):
                problems.append(f"{where}: {found[0]} exists on one machine only")
            if found := UNFINISHED.search(line):
                problems.append(f"{where}: {found[0]}: do it, or open an issue")
    return problems


def tests_without_a_room(root: Path) -> list[str]:
    """Unit tests mirror the source: a folder of them is named as the room that it tests."""
    unit = root / "tests" / "unit"
    return [
        f"tests/unit/{room}: there is no {room}/; move unit tests along with what they test"
        for room in sorted({path.parent.relative_to(unit) for path in unit.rglob("test_*.py")})
        if not (root / room).is_dir()
    ]


def dangling_file_names(root: Path) -> list[str]:
    """Pages name files that exist."""
    return [
        f"{page.relative_to(root)}:{number}: there is no {name}; say where it is now"
        for page in sorted((root / "docs").rglob("*.md"))
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1)
        for name in FILE_NAME.findall(line)
        if not (root / name).exists()
    ]


def _text_files(root: Path) -> Iterator[Path]:
    suffixes = {".py", ".md", ".toml", ".sh", ".txt", ".html", ".js", ".css", ".yml", ".yaml"}
    for top in sorted(root.iterdir()):
        if top.is_file() and (top.suffix in suffixes or top.name in {"Makefile", ".gitignore"}):
            yield top
        elif top.name == ".ci":
            yield from sorted(path for path in top.rglob("*") if path.is_file())
        elif top.is_dir() and not top.name.startswith("."):
            yield from sorted(path for path in top.rglob("*") if path.is_file() and path.suffix in suffixes)
