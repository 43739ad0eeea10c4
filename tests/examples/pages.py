"""The pages of the documentation, as a reader who types in everything would meet them.

- The ```python blocks of a page run one after the other, in one namespace. What a block prints is what the ```text
  block behind it shows; without one it prints nothing.
- A ```python title="name.py" block is a file in the reader's directory.
- In a ```console block, lines that begin with `$ ` are commands, which run in the reader's directory, and the others
  are what they print, on either stream; several workers print in any order. A line of `...` stands for any lines.
- `<!-- varies: seconds, rate -->` before a console block: lines that begin with these words differ from run to run.
- `<!-- together -->` before a console block: its commands run at the same time, each in a terminal of its own.

Other blocks, ```sh among them, are for reading only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path

from tests.processes import ROOT

_FENCE = re.compile(r"^```(?P<kind>\w*)(?P<rest>[^\n]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
_TITLE = re.compile(r'title="([^"]+)"')
_REMARK = re.compile(r"<!--\s*(.*?)\s*-->\s*$")
_CODE = re.compile(r"`[^`\n]+`")
_LINK = re.compile(r"\]\(([^)\s]+)\)")


@dataclass(frozen=True, slots=True)
class Block:
    """What stands between two fences."""

    kind: str
    title: str | None
    remark: str
    """The comment right before it, if there is one."""
    body: str
    line: int
    """Where its content begins in the page."""
    adjoins: bool
    """Whether only blank space lies between it and the block before."""


@dataclass(frozen=True, slots=True)
class Command:
    """A line for the shell, and the lines that should come of it."""

    text: str
    expected: list[str] = field(default_factory=list)


def pages() -> list[Path]:
    """Every page of the documentation."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "examples").rglob("*.md"))]


def blocks(page: Path) -> list[Block]:
    """The blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    found: list[Block] = []
    end = 0
    for match in _FENCE.finditer(text):
        before = text[end : match.start()]
        title = _TITLE.search(match["rest"])
        remark = _REMARK.search(before)
        found.append(
            Block(
                kind=match["kind"],
                title=title[1] if title else None,
                remark=remark[1] if remark else "",
                body=match["body"],
                line=text.count("\n", 0, match.start("body")) + 1,
                adjoins=not before.strip(),
            )
        )
        end = match.end()
    return found


def programs(page: Path) -> Iterator[tuple[Block, str]]:
    """The blocks to execute, each with what it should print."""
    all_blocks = blocks(page)
    for block, following in zip_longest(all_blocks, all_blocks[1:]):
        if block.kind == "python" and block.title is None:
            yield block, following.body if following and following.kind == "text" and following.adjoins else ""


def commands(block: Block) -> list[Command]:
    """The commands of a console block."""
    found: list[Command] = []
    for line in block.body.splitlines():
        if line.startswith("$ "):
            found.append(Command(line[2:]))
        else:
            assert found, f"line {block.line}: a console block begins with a command, `$ ...`"
            found[-1].expected.append(line)
    return found


def matches(expected: list[str], actual: list[str], varying: list[str]) -> bool:
    """Whether the lines are those expected, in any order: workers print when they like."""
    rest = [_fix(line, varying) for line in actual]
    for line in expected:
        if line == "...":
            continue
        if _fix(line, varying) not in rest:
            return False
        rest.remove(_fix(line, varying))
    return not rest or "..." in expected


def links(page: Path) -> list[str]:
    """The files that a page links to, relative to it."""
    prose = _CODE.sub("", _FENCE.sub("", page.read_text(encoding="utf-8")))
    return [
        target.partition("#")[0]
        for target in _LINK.findall(prose)
        if not target.startswith(("#", "http://", "https://"))
    ]


def _fix(line: str, varying: list[str]) -> str:
    return next((word for word in varying if line.startswith(f"{word} ")), line.rstrip())
