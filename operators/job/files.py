"""A job's input as lines of a file, and its output on a terminal or in a pipe."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from select import PIPE_BUF
from typing import Any, BinaryIO

from framework.errors import JobStopped
from operators.errors import OutputFailed
from operators.job.flow import OutputReceiver
from operators.job.json_lines import JsonLines


def lines(path: Path, *, lines_max: int) -> Iterator[list[str]]:
    """The lines of a file, some at a time, without their ends."""
    with path.open("rb") as file:
        rows: list[str] = []
        for line in file:
            rows.append(line.decode("utf-8", errors="surrogateescape").rstrip("\r\n"))
            if len(rows) == lines_max:
                yield rows
                rows = []
        if rows:
            yield rows


def printer(name: str, lines: JsonLines, out: BinaryIO) -> OutputReceiver:
    """Prints an output's records, a line for each: its name, the epoch, and the record as JSON."""

    def receive(epoch: int, rows: Sequence[Any]) -> None:
        try:
            for text in _writes(lines.lines(rows, before=f"{name}\t{epoch}\t")):
                out.write(text)
                out.flush()
        except ConnectionError:
            raise JobStopped("the reader of the output has gone") from None
        except OSError as error:
            raise OutputFailed(f"output {name!r} cannot be printed: {error.strerror or error}") from error

    return receive


def _writes(text: bytes) -> Iterator[bytes]:
    """Text cut where one write to a pipe stays whole: other processes write to it, too. A longer line is one write."""
    start = 0
    while len(text) - start > PIPE_BUF:
        end = text.rfind(b"\n", start, start + PIPE_BUF) + 1 or text.index(b"\n", start) + 1
        yield text[start:end]
        start = end
    yield text[start:]
