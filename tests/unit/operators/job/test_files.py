"""What an output prints, write by write: several processes may print to one pipe."""

from __future__ import annotations

import json
from io import BytesIO
from select import PIPE_BUF

import pytest

from operators.job.files import printer
from operators.job.json_lines import JsonLines


class Pipe(BytesIO):
    """Notes each write."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []

    def write(self, text: bytes) -> int:  # type: ignore[override]
        self.writes.append(text)
        return super().write(text)


@pytest.mark.parametrize("word", ["x", "é", "漢", "🍵"])
def test_each_write_is_whole_lines_that_a_pipe_takes_at_once_whatever_the_characters(word: str):
    rows, pipe = [word * (number % 40) for number in range(1_000)], Pipe()
    printer("words", JsonLines("words"), pipe)(3, rows)
    printed = [line.split("\t") for line in pipe.getvalue().decode().splitlines()]
    assert printed == [["words", "3", json.dumps(row, ensure_ascii=False)] for row in rows]
    assert all(text.endswith(b"\n") for text in pipe.writes)
    assert max(map(len, pipe.writes)) <= PIPE_BUF


def test_a_line_that_is_longer_than_a_pipe_takes_is_a_write_of_its_own():
    pipe = Pipe()
    printer("words", JsonLines("words"), pipe)(0, ["short", "é" * PIPE_BUF, "short"])
    assert [text.count(b"\n") for text in pipe.writes] == [1, 1, 1]
