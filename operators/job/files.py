"""A job's inputs and outputs as files: text goes in by lines, records come out as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from select import PIPE_BUF
from typing import Any, TextIO

from framework.errors import JobStopped
from framework.worker.worker import Worker
from operators.job.flow import OutputReceiver


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


def receiver(name: str, destination: str, worker: Worker, files: ExitStack) -> OutputReceiver:
    """Writes an output's records to standard output, or to this worker's file in a directory."""
    if destination == "-":
        return _printer(name, sys.stdout)
    directory = Path(destination)
    directory.mkdir(parents=True, exist_ok=True)
    file = files.enter_context((directory / f"worker-{worker.index}.jsonl").open("w", encoding="utf-8"))
    return _writer(file)


def _printer(name: str, out: TextIO) -> OutputReceiver:
    def receive(epoch: int, rows: Sequence[Any]) -> None:
        try:
            for text in _writes(f"{name}\t{epoch}\t{_json(row)}\n" for row in rows):
                out.write(text)
                out.flush()
        except ConnectionError:
            raise JobStopped("the reader of the output has gone") from None

    return receive


def _writes(lines: Iterable[str]) -> Iterator[str]:
    """Lines put together as far as one write to a pipe stays whole: other processes write to it, too."""
    gathered: list[str] = []
    size = 0
    for line in lines:
        length = len(line.encode("utf-8", errors="replace"))
        if gathered and size + length > PIPE_BUF:
            yield "".join(gathered)
            gathered, size = [], 0
        gathered.append(line)
        size += length
    if gathered:
        yield "".join(gathered)


def _writer(file: TextIO) -> OutputReceiver:
    def receive(epoch: int, rows: Sequence[Any]) -> None:
        file.write("".join(f"[{epoch}, {_json(row)}]\n" for row in rows))

    return receive


def _json(record: Any) -> str:
    return json.dumps(record, default=repr, ensure_ascii=False)
