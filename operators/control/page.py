"""Lays a page of text and tables out for a terminal: what matters least goes where there is no room for all.

A table that is too wide loses columns, then shortens its widest column of words; a page that is too tall folds the
rows of its tables. Text is wrapped. Without bounds all is shown.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

GAP = "  "
WORDS_MIN = 8
"""How short a column of words may become."""
ROWS_MIN = 2
"""How many rows of a table stay."""


@dataclass(frozen=True, slots=True)
class TextTable:
    """A table, and what of it may go."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: int = 1
    """How many columns, the first ones, are words and flush left."""
    spare: Sequence[str] = ()
    """The heads of columns that go, in this order, where it is too wide."""
    weights: Sequence[float] = ()
    """How much each row matters; of equals the first one does."""

    def lines(self, columns: int | None = None, hidden: int = 0) -> list[str]:
        """Its lines, in a width of `columns`, with this number of rows folded.

        >>> print(*TextTable(["operator", "path", "busy"], [["map", "0.3", "5%"]], spare=["path"]).lines(16), sep="\\n")
        operator  busy
        map         5%
        >>> print(*TextTable(["worker"], [["0"], ["1"], ["2"]], weights=[0, 0, 1]).lines(hidden=2), sep="\\n")
        worker
        2
        and 2 more
        """
        shown = self._kept(len(self.rows) - hidden)
        cells = [list(self.head), *([*self.rows[index]] for index in shown)]
        left = self.left
        for name in self.spare:
            if columns is not None and _width(cells) > columns:
                place = cells[0].index(name)
                left -= place < left
                for row in cells:
                    del row[place]
        if columns is not None:
            _shorten(cells, left, columns)
        lines = [line[:columns] for line in _aligned(cells, left)]
        return [*lines, f"and {hidden} more"] if hidden else lines

    def foldable(self) -> int:
        """How many rows may be folded."""
        return max(0, len(self.rows) - ROWS_MIN)

    def _kept(self, count: int) -> list[int]:
        weights = self.weights or [0.0] * len(self.rows)
        return sorted(sorted(range(len(self.rows)), key=lambda index: (-weights[index], index))[:count])


def layout(parts: Sequence[str | TextTable], columns: int | None = None, lines: int | None = None) -> str:
    """A page of these parts, with an empty line between them."""
    hidden = [0] * len(parts)
    blocks = [_block(part, columns, 0) for part in parts]
    for index, part in enumerate(parts):
        excess = 0 if lines is None else sum(map(len, blocks)) + len(blocks) - 1 - lines
        if excess > 0 and isinstance(part, TextTable) and part.foldable() > 1:
            hidden[index] = min(excess + 1, part.foldable())  # one line says that they are folded
            blocks[index] = _block(part, columns, hidden[index])
    return "\n".join("\n\n".join("\n".join(block) for block in blocks).split("\n")[:lines])


def wrapped(parts: Sequence[str], columns: int | None) -> str:
    """Short texts beside each other, in as many lines as it takes.

    >>> print(wrapped(["wordcount", "2 workers", "epoch 41"], 22))
    wordcount   2 workers
    epoch 41
    """
    lines = [""]
    for part in parts:
        longer = f"{lines[-1]}   {part}" if lines[-1] else part
        if lines[-1] and columns is not None and len(longer) > columns:
            lines.append(part)
        else:
            lines[-1] = longer
    return "\n".join(lines)


def _block(part: str | TextTable, columns: int | None, hidden: int) -> list[str]:
    if isinstance(part, TextTable):
        return part.lines(columns, hidden)
    lines = part.split("\n")
    return lines if columns is None else [row for line in lines for row in textwrap.wrap(line, columns) or [""]]


def _width(cells: Sequence[Sequence[str]]) -> int:
    return max(map(len, _aligned(cells, 0)))


def _shorten(cells: list[list[str]], left: int, columns: int) -> None:
    """Cut the words of the widest column of words, if that is what it takes."""
    excess = _width(cells) - columns
    if excess > 0 and left:
        widths = [max(len(row[place]) for row in cells) for place in range(left)]
        place = widths.index(max(widths))
        room = max(WORDS_MIN, widths[place] - excess)
        for row in cells:
            if len(row[place]) > room:
                row[place] = f"{row[place][: room - 1]}…"


def _aligned(cells: Sequence[Sequence[str]], left: int) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        GAP.join(
            cell.ljust(width) if place < left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]
